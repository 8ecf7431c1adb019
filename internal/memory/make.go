// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import "unsafe"

// hugePage is the size of a huge page: 2 MiB on most machines. A wrong one does no harm.
const hugePage = 2 << 20

// Make returns an empty slice with room for n elements, nearly all of which will be used, in huge
// pages: see [Huge]. A large slice begins at one. T must not have pointers.
func Make[T any](n int) []T {
	var one T
	size := unsafe.Sizeof(one)
	spare := 0 // elements before the slice, which are never touched
	if size > 0 && hugePage%size == 0 && uintptr(n)*size >= hugePage {
		spare = int(hugePage / size)
	}
	s := make([]T, 0, n+spare)
	if spare > 0 {
		at := uintptr(unsafe.Pointer(unsafe.SliceData(s)))
		skip := int(-at % hugePage / size) // Go allocates large slices at the beginning of a page
		s = s[skip : skip : skip+n]
	}
	Huge(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), uintptr(n)*size))
	return s
}
