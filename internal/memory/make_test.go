// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"runtime"
	"slices"
	"testing"
	"unsafe"
)

// TestMake: a slice has room for exactly as many elements as were asked for, and a large one begins at
// a huge page.
func TestMake(t *testing.T) {
	for _, n := range []int{0, 1, HugePage / 8, 3*HugePage/8 + 1} {
		for _, s := range [][]uint64{Make[uint64](n), Uncleared[uint64](n)} {
			if len(s) != 0 || cap(s) != n {
				t.Errorf("%d elements: length %d, room for %d", n, len(s), cap(s))
			}
			if at := uintptr(unsafe.Pointer(unsafe.SliceData(s))); n*8 >= HugePage && at%HugePage != 0 {
				t.Errorf("%d elements begin at %#x", n, at)
			}
		}
	}
	if s := Make[[3]uint64](HugePage); len(s) != 0 || cap(s) != HugePage {
		t.Errorf("length %d, room for %d", len(s), cap(s))
	}
}

// TestMakeIsZero: the room is zero, also in memory that was used before.
func TestMakeIsZero(t *testing.T) {
	for range 4 {
		s := Make[uint64](HugePage)[:HugePage]
		if slices.Max(s) != 0 {
			t.Fatal("not zero")
		}
		for i := range s {
			s[i] = 1
		}
		runtime.GC()
	}
}

// TestZeroed: all elements are there, and zero, also in memory that was used before.
func TestZeroed(t *testing.T) {
	for range 4 {
		for _, n := range []int{0, 1, 1000, HugePage/8 + 1} {
			s := Zeroed[uint64](n)
			if len(s) != n || slices.Max(append(s[:n:n], 0)) != 0 {
				t.Fatalf("%d elements: length %d, or not zero", n, len(s))
			}
			for i := range s {
				s[i] = 1
			}
		}
		runtime.GC()
	}
}

// TestMakePointers: elements with pointers are refused: nothing would keep alive what they point to.
func TestMakePointers(t *testing.T) {
	refused := func(make func()) (is bool) {
		defer func() { is = recover() != nil }()
		make()
		return
	}
	for name, make := range map[string]func(){
		"a pointer":   func() { Make[*int](HugePage) },
		"a string":    func() { Uncleared[string](HugePage) },
		"in a struct": func() { Zeroed[struct{ a [2]struct{ b []byte } }](HugePage / 8) },
	} {
		if !refused(make) {
			t.Errorf("%s is not refused", name)
		}
	}
	if refused(func() { Make[struct{ a [3]uintptr }](HugePage / 8) }) {
		t.Error("numbers are refused")
	}
}
