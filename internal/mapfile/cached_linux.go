// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mapfile

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// readCached reads what the page cache has of a file at off, as far as b goes, and never waits for a
// disk. It returns how many bytes it has read: 0 if that cannot be had of this file.
//
// Go is not told of the call. It takes the CPU from a goroutine that is in one for long, and a thread looks
// every 20 µs for those (retake of runtime/proc.go); to copy 256 KiB takes longer. That pays for calls that
// may wait. Here it only wakes threads, for which a virtual machine takes many microseconds.
func readCached(f *os.File, b []byte, off int64) int {
	if len(b) == 0 {
		return 0
	}
	v := unix.Iovec{Base: &b[0]}
	v.SetLen(len(b))
	low, high := uintptr(off), uintptr(uint64(off)>>(8*unsafe.Sizeof(uintptr(0))-1)>>1)
	n, _, err := unix.RawSyscall6(unix.SYS_PREADV2, f.Fd(), uintptr(unsafe.Pointer(&v)), 1, low, high, unix.RWF_NOWAIT)
	runtime.KeepAlive(b)
	if err != 0 {
		return 0
	}
	return int(n)
}
