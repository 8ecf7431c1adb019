// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"debug/elf"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"github.com/textreplay/textreplay/internal/mapfile"
)

const modulePath = "github.com/textreplay/textreplay"

// program identifies the build of the running program. Another build may have other
// rules.
var program = sync.OnceValues(func() (string, error) {
	if info, ok := debug.ReadBuildInfo(); ok && released(info) {
		return info.String(), nil
	}
	return executableSum()
})

// released reports whether the build information names the exact sources of the
// program: a module version with a checksum, or a commit without changes.
func released(info *debug.BuildInfo) bool {
	commit, modified := "", true
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value
		case "vcs.modified":
			modified = s.Value != "false"
		}
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Replace != nil {
			m = m.Replace
		}
		switch {
		case m.Sum != "":
		case m == &info.Main && m.Path == modulePath && commit != "" && !modified:
		case m == &info.Main && !isOurs(m.Path): // a program that imports this module; its sources do not matter
		default:
			return false
		}
	}
	return true
}

func isOurs(path string) bool { return path == modulePath || strings.HasPrefix(path, modulePath+"/") }

// executableSum returns what distinguishes the running program's file from other builds: the
// build ID, which go build makes of the whole file, or a checksum if it has none. It gives no
// protection against attacks: two CRCs take a tenth of the time of a cryptographic hash.
func executableSum() (sum string, err error) {
	path := "/proc/self/exe" // the running program, even if its file was replaced
	if runtime.GOOS != "linux" {
		if path, err = os.Executable(); err != nil {
			return "", err
		}
	}
	program, info, err := mapfile.Regular(path)
	if err != nil {
		return "", err
	}
	id := buildID(program)
	program.Close()
	if id != "" {
		return fmt.Sprintf("%d bytes %s", info.Size(), id), nil
	}
	f, err := mapfile.OpenRegular(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	return fmt.Sprintf("%d bytes %08x %08x", len(f.Data), crc32.ChecksumIEEE(f.Data), crc32.Checksum(f.Data, castagnoli)), nil
}

// buildID returns the build ID of an ELF program as go build makes it: hashes of the inputs and
// of the file, with slashes between. It returns "" for everything else, such as an ID that was
// given to the linker, which can be that of many builds.
func buildID(program io.ReaderAt) string {
	f, err := elf.NewFile(program)
	if err != nil {
		return ""
	}
	note := f.Section(".note.go.buildid")
	if note == nil {
		return ""
	}
	const header, hash = 16, 20 // three words and the name "Go"; characters of a hash
	b, err := note.Data()
	if err != nil || len(b) < header {
		return ""
	}
	n := f.ByteOrder.Uint32(b[4:])
	if uint64(n) > uint64(len(b)-header) {
		return ""
	}
	id := string(b[header:][:n])
	parts := strings.Split(id, "/")
	if len(parts) != 4 || slices.ContainsFunc(parts, func(p string) bool { return len(p) != hash }) {
		return ""
	}
	return id
}
