// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mapfile

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// unloadRange maps a part of a mapping anew, so that the kernel frees the page tables too.
// madvise would leave them, which are 2 GiB for 1 TiB that was read here and there, and would go
// through all of them each time. A page table has a huge page's memory. Whoever reads the part
// meanwhile waits.
func unloadRange(f *os.File, data []byte, from, to int) {
	begin := int(uintptr(unsafe.Pointer(unsafe.SliceData(data))) % hugePage)
	from, to = max((begin+from)/hugePage*hugePage-begin, 0), (begin+to)/hugePage*hugePage-begin
	if from >= to {
		return
	}
	at := unsafe.Pointer(&data[from])
	if _, err := unix.MmapPtr(int(f.Fd()), int64(from), at, uintptr(to-from), unix.PROT_READ, unix.MAP_SHARED|unix.MAP_FIXED); err != nil {
		unload(data[from:to])
	}
}
