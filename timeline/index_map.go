// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/binary"
	"unsafe"
)

// CanMapTables reports whether this machine is little-endian, as the tables of an index
// file are. On others no index can be used.
var CanMapTables = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

func sizeOf[T any]() int {
	var t T
	return int(unsafe.Sizeof(t))
}

// raw returns the memory of a table, whose elements have no pointers.
func raw[T any](table []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(table))), len(table)*sizeOf[T]())
}

// cast returns a table whose memory is data: the reverse of raw. Its error wraps
// ErrInvalid, if data is not aligned for T or has a part of an element.
func cast[T any](data []byte) ([]T, error) {
	var t T
	p := unsafe.Pointer(unsafe.SliceData(data))
	if uintptr(p)%unsafe.Alignof(t) != 0 || len(data)%sizeOf[T]() != 0 {
		return nil, invalidf("a table is not where it should be")
	}
	return unsafe.Slice((*T)(p), len(data)/sizeOf[T]()), nil
}

// areBools reports whether the bytes of the claims' field old are 0 or 1. Go does not define
// what a bool of any other byte is.
func areBools(claims []claim) bool {
	var c claim
	at := int(unsafe.Offsetof(c.old))
	data := raw(claims)
	for ; at < len(data); at += sizeOf[claim]() {
		if data[at] > 1 {
			return false
		}
	}
	return true
}
