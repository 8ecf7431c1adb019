// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package memory says to the system how large pieces of memory that Go allocated are used.
package memory

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
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

// hasHugePages reports whether [Huge] does anything.
const hasHugePages = true

// Huge says that memory which Go allocated, and which is going to be filled from its begin on, is
// better had in huge pages, if they are cheaper here (cheaper.go). It does nothing to memory that is
// smaller, and does not change what is in it.
func Huge(data []byte) {
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(data)))
	lo, hi := (begin+HugePage-1)&^(HugePage-1), (begin+uintptr(len(data)))&^(HugePage-1)
	if lo < hi {
		all := hugePages(data[lo-begin : hi-begin])
		paid.choose(all, len(all)/HugePage)
	}
}

// paid is what pages take in this process.
var paid prices

// hugePages is memory that begins at a huge page and ends at one.
type hugePages []byte

func (p hugePages) want(huge bool, first, end int) {
	advice := unix.MADV_NOHUGEPAGE
	if huge {
		advice = unix.MADV_HUGEPAGE
	}
	_ = unix.Madvise(p[first*HugePage:end*HugePage], advice) // the kernel may not have them
}

// touch takes CPU time, which does not count the time in which other programs run.
func (p hugePages) touch(page int, part float64) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	all, size := p[page*HugePage:][:HugePage], os.Getpagesize()
	begin := threadTime()
	for at := 0; at == 0 || at < int(part*HugePage); at += size {
		atomic.OrUint32((*uint32)(unsafe.Pointer(&all[at])), 0) // writes what is there
	}
	return threadTime() - begin
}

// threadTime returns the CPU time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // fails on no Linux; without a time, huge pages are taken
	return time.Duration(t.Nano())
}

// Move gives the pages of from to to, which then has what from had: nothing is copied, and no page has
// to be cleared for to. Afterwards from is zero, as after [Discard]. Both are memory that Go allocated,
// hold no pointers, are equally long and begin and end at pages. Nobody may use either meanwhile. Move
// reports whether it did so; if not, nothing changed.
func Move(to, from []byte) bool {
	dst, src := unsafe.Pointer(unsafe.SliceData(to)), unsafe.Pointer(unsafe.SliceData(from))
	inPages := (uintptr(dst)|uintptr(src)|uintptr(len(to)))%uintptr(os.Getpagesize()) == 0
	if len(to) != len(from) || len(to) == 0 || !inPages || !canMove() {
		return false
	}
	if move(dst, src, uintptr(len(to))) == nil {
		return true
	}
	// The kernel may have unmapped the pages of to before it failed. If they are mapped still, this
	// changes nothing.
	const flags = unix.MAP_PRIVATE | unix.MAP_ANONYMOUS | unix.MAP_FIXED_NOREPLACE
	if _, err := unix.MmapPtr(-1, 0, dst, uintptr(len(to)), unix.PROT_READ|unix.PROT_WRITE, flags); err != nil && err != unix.EEXIST {
		panic(err) // memory that Go believes to have is not there
	}
	return false
}

// move calls mremap itself: unix.MremapPtr makes a pointer of its result, which checkptr takes for one
// that was made up.
func move(to, from unsafe.Pointer, size uintptr) error {
	const flags = unix.MREMAP_MAYMOVE | unix.MREMAP_FIXED | unix.MREMAP_DONTUNMAP
	if _, _, err := unix.Syscall6(unix.SYS_MREMAP, uintptr(from), size, size, flags, uintptr(to), 0); err != 0 {
		return err
	}
	// qemu-user, which emulates a system for programs of another architecture, forgets that from is mapped
	// still, and its program ends with a fault there. This says so. It does nothing on Linux.
	_ = protect(from, size)
	return nil
}

// protect says that a part of memory can be read and written, as it could be before.
func protect(at unsafe.Pointer, size uintptr) error {
	return unix.Mprotect(unsafe.Slice((*byte)(at), size), unix.PROT_READ|unix.PROT_WRITE)
}

// canMove reports whether the system can move pages: Linux can since 5.7, others that look like it may
// not. It tries it out with two pages that are not Go's.
var canMove = sync.OnceValue(func() bool {
	page := uintptr(os.Getpagesize())
	both, err := unix.MmapPtr(-1, 0, nil, 2*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return false
	}
	*(*byte)(both) = 1
	to := unsafe.Add(both, page)
	ok := move(to, both, page) == nil && *(*byte)(to) == 1 && *(*byte)(both) == 0 && protect(both, page) == nil
	_ = unix.MunmapPtr(both, 2*page)
	return ok
})
