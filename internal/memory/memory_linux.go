// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package memory says to the system how large pieces of memory that Go allocated are used.
package memory

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Discard returns memory that Go allocated to the system at once. Nobody may need what is in it.
// It holds no pointers, and remains usable: the system gives pages again when they are touched.
func Discard(data []byte) {
	page := uintptr(os.Getpagesize())
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	lo, hi := (begin+page-1)&^(page-1), (begin+uintptr(len(data)))&^(page-1)
	if lo < hi {
		// If it fails, the memory stays until it is collected.
		_ = unix.Madvise(data[lo-begin:hi-begin], unix.MADV_DONTNEED)
	}
}

// Huge says that memory which Go allocated, and which is going to be filled from its begin on, is
// better had in huge pages. It does nothing to memory that is smaller.
func Huge(data []byte) {
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	lo, hi := (begin+hugePage-1)&^(hugePage-1), (begin+uintptr(len(data)))&^(hugePage-1)
	if lo < hi {
		_ = unix.Madvise(data[lo-begin:hi-begin], unix.MADV_HUGEPAGE) // the kernel may not have them
	}
}
