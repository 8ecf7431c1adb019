// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"fmt"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"unsafe"
)

// HugePage is the size of a huge page: 2 MiB on most machines. A wrong one does no harm.
const HugePage = 2 << 20

// Make returns an empty slice with room for n elements, nearly all of which will be used, in huge
// pages: see [Huge]. A large slice begins at one. The room is zero, as that of make. T must not
// have pointers.
func Make[T any](n int) []T {
	return inHugePages[T](n, func(size int) []byte { return make([]byte, size) })
}

// Uncleared is [Make] for room that is written to before it is read: it may have anything in it. Go clears
// memory that it has used before as soon as it is allocated. So it would get the pages of which nothing was
// used one by one, before Huge can say that they are better had in huge pages.
func Uncleared[T any](n int) []T { return inHugePages[T](n, uncleared) }

// Unasked is [Uncleared] for room that is filled so slowly that something else may be cheaper by then. Whoever
// fills it calls [Huge] for each huge page of it before, or [Move].
func Unasked[T any](n int) []T { return aligned[T](n, uncleared, func([]byte) {}) }

// uncleared returns memory that Go allocated and did not clear. Only a strings.Builder has such memory. The first
// byte of it is not written to, though the address of an empty string need not be that of the room for it: it may
// be in a huge page that nothing else needs.
func uncleared(size int) []byte {
	var b strings.Builder
	b.Grow(size)
	if at := unsafe.StringData(b.String()); at != nil {
		return unsafe.Slice(at, size)
	}
	return make([]byte, size)
}

// Reserve lets Go's heap have about the next size bytes in huge pages. It is for a program that will need most
// of them soon, in pieces of any size. In usual pages, each page interrupts the program when it is touched.
//
// Reserve takes no more than a few pages at the begin: it allocates a piece, says that it is better had in huge
// pages, if it is, and has it collected. Go allocates at the lowest free address, so what follows is in that
// piece. The collector, which must be on, takes little time at the beginning of a program.
func Reserve(size int) {
	if size < HugePage || !hasHugePages {
		return
	}
	pace := debug.SetGCPercent(-1) // the collector must not begin while the piece is in use
	Uncleared[byte](size)
	debug.SetGCPercent(pace)
	runtime.GC()
}

// hasPointers reports whether values of a type have pointers. Strings, slices and the like have.
func hasPointers(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Array:
		return hasPointers(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if hasPointers(t.Field(i).Type) {
				return true
			}
		}
		return false
	}
	return t.Kind() > reflect.Complex128 // those before it are numbers
}

// inHugePages returns an empty slice with room for n elements in memory of alloc.
func inHugePages[T any](n int, alloc func(size int) []byte) []T { return aligned[T](n, alloc, Huge) }

// aligned returns an empty slice with room for n elements, in memory of alloc. If it is as large as a huge
// page, it begins at one, and ask is called with it.
func aligned[T any](n int, alloc func(size int) []byte, ask func([]byte)) []T {
	var one T
	size := unsafe.Sizeof(one)
	if uintptr(n)*size < HugePage {
		return make([]T, 0, n)
	}
	if t := reflect.TypeFor[T](); hasPointers(t) {
		panic(fmt.Sprintf("memory: %v has pointers, and the collector would not see them", t))
	}
	all := alloc(n*int(size) + HugePage) // what is before the slice, or behind it, is never touched
	at := unsafe.Pointer(unsafe.SliceData(all))
	begin := unsafe.Add(at, -uintptr(at)%HugePage)
	ask(unsafe.Slice((*byte)(begin), uintptr(n)*size))
	return unsafe.Slice((*T)(begin), n)[:0]
}

// Zeroed returns n zero elements, in huge pages as Make, for a table that is searched before something is put
// into it. Zeroed writes to all pages. If a page is read first, the system takes one that all such pages
// share. When it replaces that one, it interrupts all CPUs on which the program runs. T must not have pointers.
func Zeroed[T any](n int) []T {
	s := Uncleared[T](n)[:n]
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
