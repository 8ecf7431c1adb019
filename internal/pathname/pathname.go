// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package pathname lets names of files mean what they mean to the system.
package pathname

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Plain returns a name for the same file that package path/filepath can take apart. To the
// system, ".." behind a symbolic link is the directory above the link's target. filepath.Join,
// Dir and Abs drop the link and the ".." instead, which may name another file. Plain resolves
// the links before the last "..", if that makes a difference. Otherwise, and if one of these
// directories does not exist, it returns name.
func Plain(name string) string {
	if runtime.GOOS == "windows" {
		return name // the system does as filepath does
	}
	end := afterLastUp(name)
	if end == 0 {
		return name
	}
	above, err := filepath.EvalSymlinks(name[:end])
	if err != nil {
		return name
	}
	if same(above, filepath.Clean(name[:end])) {
		return name
	}
	return above + name[end:]
}

// afterLastUp returns the length of name up to its last element "..", that included, or 0 if it
// has none.
func afterLastUp(name string) int {
	for end := len(name); end >= 2; end = strings.LastIndexByte(name[:end], '/') {
		if name[:end] == ".." || strings.HasSuffix(name[:end], "/..") {
			return end
		}
	}
	return 0
}

// same reports whether two names are of one directory.
func same(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
