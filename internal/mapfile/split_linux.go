// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mapfile

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size of the pages that the kernel maps at once if it can.
const hugePage = 2 << 20

// mostAreas is how many areas a file may have: a process may have 65,530.
const mostAreas = 1 << 12

// split cuts a mapping into areas, so that none has a whole huge page: each ends in the middle
// of one.
//
//	huge pages  |       |       |       |       |
//	areas       ....|.......|.......|.......|....
//
// Neighbours that differ in nothing are joined by the kernel, so every other one is left out
// of core dumps, which have none of these pages anyway.
func split(data []byte) {
	const half = hugePage / 2
	at := int(-(uintptr(unsafe.Pointer(unsafe.SliceData(data))) + half) % hugePage)
	for n := 0; at < len(data) && n < mostAreas; n++ {
		end := min(at+hugePage, len(data))
		if n%2 == 0 {
			_ = unix.Madvise(data[at:end], unix.MADV_DONTDUMP)
		}
		at = end
	}
}
