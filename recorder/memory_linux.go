// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseMemory returns what is no longer needed: memory of the heap, and the pages of the program's
// own file. A program's start runs code of all its packages, and the kernel maps 64 KB around
// each page that it touches. The recorder needs a small part of them again.
func releaseMemory() {
	// Last: it touches pages of its own, which need not come on top of the others.
	defer debug.FreeOSMemory()
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer f.Close()
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	for _, s := range unchangedCode(f, self) {
		// The kernel maps the pages of the file again when they are read.
		unix.Syscall(unix.SYS_MADVISE, uintptr(s.lo), uintptr(s.hi-s.lo), unix.MADV_DONTNEED)
	}
}

// unchangedCode returns the read-only mappings of a file in which no page differs from the file,
// from /proc/PID/smaps: code and constants, but not those that were relocated or have breakpoints.
func unchangedCode(smaps io.Reader, path string) (spans []span) {
	var s span
	var perms string
	lines := bufio.NewScanner(smaps)
	for ours := false; lines.Scan(); {
		line := lines.Text() // as LO-HI PERMS OFFSET DEVICE INODE PATH, then as Name: VALUE
		if name, value, ok := strings.Cut(line, ":"); ok && !strings.Contains(name, " ") {
			if fields := strings.Fields(value); ours && name == "Anonymous" && len(fields) == 2 && fields[0] == "0" {
				spans = append(spans, s)
			}
			continue
		}
		n, err := fmt.Sscanf(line, "%x-%x %s", &s.lo, &s.hi, &perms)
		ours = n == 3 && err == nil && strings.HasSuffix(line, " "+path) && (perms == "r-xp" || perms == "r--p")
	}
	return spans
}
