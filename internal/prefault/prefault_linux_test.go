// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package prefault

import (
	"encoding/binary"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestCode: the segment has the program's functions, and is the mapping that the system says can be executed.
func TestCode(t *testing.T) {
	if unsafe.Sizeof(uintptr(0)) != 8 {
		if _, size := code(auxv()); size != 0 {
			t.Errorf("%d bytes of code in a program of 32 bits", size)
		}
		return
	}
	from, size := code(auxv())
	for _, f := range []any{TestCode, Start, strings.Cut, os.Exit} {
		if pc := reflect.ValueOf(f).Pointer(); pc < from || pc-from >= size {
			t.Errorf("%s at %#x is not in the code, %#x and %#x bytes", runtime.FuncForPC(pc).Name(), pc, from, size)
		}
	}
	if from, size := code(nil); from != 0 || size != 0 {
		t.Errorf("without a vector: %#x, %#x bytes", from, size)
	}
	if from, size := code([]uintptr{atPhent, 32, atPhnum, 3}); from != 0 || size != 0 {
		t.Errorf("32 bits: %#x, %#x bytes", from, size)
	}
}

// TestStart: all pages of the code are mapped then, if the kernel can do that.
func TestStart(t *testing.T) {
	from, size := code(auxv())
	Start()
	if size > 0 && canPopulate(t) {
		if n := missing(t, from, size); n > 0 {
			t.Errorf("%d pages of the code are not mapped", n)
		}
	}
}

// TestPopulate: pages are mapped up to the end of the memory, and keep their content.
func TestPopulate(t *testing.T) {
	const size = 1 << 20
	data, err := unix.Mmap(-1, 0, 2*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(data)
	if err := unix.Mprotect(data[size:], unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	data[5], data[size-1] = 1, 2
	from := uintptr(unsafe.Pointer(&data[0]))
	if missing(t, from, size) == 0 {
		t.Skip("the kernel maps more than what is touched")
	}
	populate(from+5, 2*size, populateWrite)
	if n := missing(t, from, size); n > 0 && canPopulate(t) {
		t.Errorf("%d pages are not mapped", n)
	}
	if missing(t, from+size, size) == 0 {
		t.Error("pages that cannot be used are mapped")
	}
	if data[5] != 1 || data[size-1] != 2 || data[6] != 0 {
		t.Error("the memory has changed")
	}
}

// canPopulate reports whether the kernel knows the advice.
func canPopulate(t *testing.T) bool {
	_, _, errno := unix.RawSyscall(unix.SYS_MADVISE, 0, 0, populateRead)
	return errno == 0
}

// missing returns how many pages of a range are not mapped to memory.
func missing(t *testing.T, from, size uintptr) (n int) {
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Skip(err)
	}
	defer f.Close()
	page := uintptr(os.Getpagesize())
	entries := make([]byte, ((from+size-1)/page-from/page+1)*8)
	if _, err := f.ReadAt(entries, int64(from/page*8)); err != nil {
		t.Skip(err)
	}
	for ; len(entries) > 0; entries = entries[8:] {
		if binary.NativeEndian.Uint64(entries)>>63 == 0 {
			n++
		}
	}
	return n
}
