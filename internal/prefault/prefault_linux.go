// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package prefault

import (
	"syscall"
	"unsafe"
)

// The advice of madvise to map pages at once. The package syscall does not have it. Kernels before 5.14
// refuse it, which changes nothing.
const (
	populateRead  = 22
	populateWrite = 23
)

// heapSize is how much of the heap Start maps. A short run of textreplay touches most of it.
const heapSize = 2 << 20

// Start maps the code of the program and the next part of the heap. The code must be in the page cache, or
// is read from the disk in one piece.
//
// A page costs a tenth of a microsecond (code) or half of one (heap) this way. A fault costs one in a good
// case, and ten in a virtual machine inside another.
func Start() {
	if from, size := code(auxv()); size > 0 {
		populate(from, size, populateRead)
	}
	// Go's heap grows upwards, and few objects have been allocated yet.
	next := new([64]byte)
	populate(uintptr(unsafe.Pointer(next)), heapSize, populateWrite)
}

// populate maps the pages of a range, up to where memory ends.
func populate(from, size uintptr, advice uintptr) {
	from &^= uintptr(syscall.Getpagesize()) - 1
	syscall.RawSyscall(syscall.SYS_MADVISE, from, size, advice)
}

// Tags of the auxiliary vector, types of program headers, and the flag of those that can be executed.
const (
	atPhdr, atPhent, atPhnum = 3, 4, 5
	ptLoad, ptPhdr           = 1, 6
	pfX                      = 1
)

// A programHeader is one of an ELF file of 64 bits.
type programHeader struct {
	kind, flags                                   uint32
	offset, addr, physical, fileSize, size, align uint64
}

// code returns where the segment of the program is that can be executed, as the auxiliary vector has it.
// The size is 0 if that is not known.
func code(auxv []uintptr) (from, size uintptr) {
	var at *programHeader
	var n int
	for i := 0; i+1 < len(auxv); i += 2 {
		switch value := auxv[i+1]; auxv[i] {
		case atPhdr:
			at = *(**programHeader)(unsafe.Pointer(&auxv[i+1]))
		case atPhnum:
			n = int(value)
		case atPhent:
			if value != unsafe.Sizeof(programHeader{}) {
				return 0, 0 // of 32 bits
			}
		}
	}
	if at == nil {
		return 0, 0
	}
	var moved uintptr // how far the program is from where the file says
	for _, h := range unsafe.Slice(at, n) {
		switch {
		case h.kind == ptPhdr:
			moved = uintptr(unsafe.Pointer(at)) - uintptr(h.addr)
		case h.kind == ptLoad && h.flags&pfX != 0:
			return uintptr(h.addr) + moved, uintptr(h.size)
		}
	}
	return 0, 0
}

// auxv is where golang.org/x/sys/unix has the auxiliary vector from.
//
//go:linkname auxv runtime.getAuxv
func auxv() []uintptr
