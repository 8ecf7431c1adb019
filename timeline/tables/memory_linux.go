// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size of a huge page of most machines, in bytes.
const hugePage = 2 << 20

// adviseHuge asks the kernel for huge pages for the memory of a slice that is nearly all used
// soon. Otherwise the kernel is entered for each page of 4 KiB.
func adviseHuge[T any](s []T) {
	if cap(s) == 0 {
		return
	}
	var one T
	lo := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
	hi := (lo + uintptr(cap(s))*unsafe.Sizeof(one)) &^ (hugePage - 1)
	if lo = (lo + hugePage - 1) &^ (hugePage - 1); lo < hi {
		unix.Syscall(unix.SYS_MADVISE, lo, hi-lo, unix.MADV_HUGEPAGE) // if it fails, it takes longer
	}
}
