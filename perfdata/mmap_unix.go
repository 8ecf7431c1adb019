// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package perfdata

import (
	"os"

	"golang.org/x/sys/unix"
)

// mapFile returns the contents of a file and what releases them. A file that
// cannot be mapped (a FIFO, /dev/stdin) is read.
func mapFile(name string) (data []byte, release func() error, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if size := fi.Size(); fi.Mode().IsRegular() && size > 0 && int64(int(size)) == size {
		if data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED); err == nil {
			return data, func() error { return unix.Munmap(data) }, nil
		}
	}
	return readFile(f)
}
