// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import "unsafe"

// Make returns an empty slice with room for n elements, nearly all of which will be used, in huge
// pages: see [Huge].
func Make[T any](n int) []T {
	s := make([]T, 0, n)
	var one T
	Huge(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), uintptr(n)*unsafe.Sizeof(one)))
	return s
}
