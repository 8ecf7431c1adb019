// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package mapfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// nonBlocking makes opening a FIFO return at once.
const nonBlocking = unix.O_NONBLOCK

// mapped maps the first size bytes of f read-only.
func mapped(f *os.File, size int) ([]byte, error) {
	return unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ, unix.MAP_SHARED)
}

func unmap(data []byte) error { return unix.Munmap(data) }

// unload lets go of the pages of a mapping.
func unload(data []byte) {
	// It fails where pages are locked, which changes nothing.
	_ = unix.Madvise(data, unix.MADV_DONTNEED)
}

// sparse says that only a few bytes of a part of a mapping are going to be read.
func sparse(data []byte) {
	_ = unix.Madvise(data, unix.MADV_RANDOM) // if it fails, reading takes longer
}
