// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package perfdata

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile opens a file: its contents, what releases them, and where it is mapped,
// the file itself. A file that cannot be mapped (a FIFO, /dev/stdin) is read.
func mapFile(name string) (data []byte, release func() error, file *os.File, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, nil, err
	}
	fi, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, nil, err
	}
	if size := fi.Size(); fi.Mode().IsRegular() && size > 0 && int64(int(size)) == size {
		if data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED); err == nil {
			return data, func() error { return errors.Join(unix.Munmap(data), f.Close()) }, f, nil
		}
	}
	defer f.Close()
	data, err = io.ReadAll(f)
	return data, nothing, nil, err
}

// unload lets go of the pages of a mapped file.
func unload(data []byte) {
	// It fails where pages are locked, which changes nothing.
	_ = unix.Madvise(data, unix.MADV_DONTNEED)
}
