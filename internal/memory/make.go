// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import "unsafe"

// HugePage is the size of a huge page: 2 MiB on most machines. A wrong one does no harm.
const HugePage = 2 << 20

// Make returns an empty slice with room for n elements, nearly all of which will be used, in huge
// pages: see [Huge]. A large slice begins at one. The room is zero, as that of make. T must not
// have pointers.
func Make[T any](n int) []T {
	var one T
	size := unsafe.Sizeof(one)
	spare := 0 // elements before the slice, which are never touched
	if size > 0 && HugePage%size == 0 && uintptr(n)*size >= HugePage {
		spare = int(HugePage / size)
	}
	s := make([]T, 0, n+spare)
	if spare > 0 {
		at := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
		skip := int(-at % HugePage / size) // Go allocates large slices at the beginning of a page
		s = s[skip : skip : skip+n]
	}
	Huge(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), uintptr(n)*size))
	return s
}

// Zeroed returns n zero elements, in huge pages as Make, for a table that is searched before something is put
// into it. Zeroed writes to all pages. If a page is read first, the system takes one that all such pages
// share. When it replaces that one, it interrupts all CPUs on which the program runs. T must not have pointers.
func Zeroed[T any](n int) []T {
	s := Make[T](n)[:n]
	clear(s)
	return s
}

// FillsHugePage reports whether pieces follow each other in memory and are one huge page together.
func FillsHugePage[T any](pieces [][]T) bool {
	var one T
	size := uintptr(0)
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(pieces[0])))
	for _, p := range pieces {
		if uintptr(unsafe.Pointer(unsafe.SliceData(p))) != begin+size {
			return false
		}
		size += uintptr(len(p)) * unsafe.Sizeof(one)
	}
	return size == HugePage && begin%HugePage == 0
}
