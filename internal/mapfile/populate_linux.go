// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mapfile

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Populate maps the pages of a part of a mapping that is about to be read. To touch them has the same
// effect, but costs a page fault for each 64 KiB. The advice is of Linux 5.14; if it fails, pages are mapped as
// they are touched.
func Populate(data []byte) {
	if len(data) == 0 {
		return
	}
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	page := begin &^ uintptr(os.Getpagesize()-1)
	unix.Syscall(unix.SYS_MADVISE, page, begin+uintptr(len(data))-page, unix.MADV_POPULATE_READ)
}
