// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package patching

import (
	"encoding/binary"
	"testing"
	"time"
)

func wordsLE(words ...uint32) (b []byte) {
	for _, w := range words {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}

// TestARM64Writer: the code of a writer, and changes of it that make its stack unsure.
func TestARM64Writer(t *testing.T) {
	const base, mapping, copying = 0x1000, 0x800, 0x900
	call := func(i int, to int64) uint32 { return 0x94000000 | uint32((to-int64(base+4*i))/4)&0x3ffffff }
	code := []uint32{
		0xa9bc7bfd,       // stp x29, x30, [sp, #-64]!
		0xd2800082,       // mov x2, #4
		0x9100f3e1,       // add x1, sp, #60
		call(3, copying), // bl copy_to_kernel_nofault
		0xaa0003f4,       // mov x20, x0
		0x52804080,       // mov w0, #516
		call(6, mapping), // bl __set_fixmap
		0xd65f03c0,       // ret
	}
	for _, tt := range []struct {
		name string
		at   int
		word uint32
		ok   bool
	}{
		{"as it is", 0, code[0], true},
		{"a longer word", 1, 0xd2800102, true},
		{"a length that no store has", 1, 0xd2800062, false},
		{"the length is computed", 1, 0xaa0303e2, false},
		{"the place is not on the stack", 2, 0xaa1303e1, false},
		{"another function is called", 3, call(3, mapping), false},
		{"the stack is written to", 4, 0xf9001fe0, false},
		{"the stack pointer moves", 4, 0x910043ff, false},
		{"the index is computed", 5, 0x2a1303e0, false},
		{"a branch from elsewhere", 7, 0x17fffffd, false},
		{"another function at the end", 6, call(6, copying), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			words := append([]uint32(nil), code...)
			words[tt.at] = tt.word
			f := ARM64Function{Addr: base, Code: wordsLE(words...), Map: mapping, CopyNoFault: copying}
			w, ok := f.Writer(base + 4*7)
			if ok != tt.ok || ok && (w.Offset != 60 || w.Index != 516 || w.Len != 4 && w.Len != 8) {
				t.Errorf("got %+v, %v", w, ok)
			}
		})
	}
	for lr := uint64(0); lr < base+64; lr++ { // any address may be asked for
		f := ARM64Function{Addr: base, Code: wordsLE(code...), Map: mapping, CopyNoFault: copying}
		if _, ok := f.Writer(lr); ok && lr != base+4*7 {
			t.Errorf("a writer returns to %#x", lr)
		}
		ARM64Keeps(base, f.Code, lr, 19)
		ARM64Saves(base, f.Code, lr, 20, 24)
		ARM64Passes(base, f.Code, lr, mapping, 20)
	}
}

// TestPPC64Writer does the same for powerpc.
func TestPPC64Writer(t *testing.T) {
	code := []uint32{
		0x7cbc2b78, // mr r28, r5
		0x7c9d2378, // mr r29, r4
		0x7c7f1b78, // mr r31, r3
		0x7bf70020, // clrldi r23, r31, 32
		0x48000101, // bl
		0x4e800020, // blr
	}
	for _, tt := range []struct {
		name string
		at   int
		word uint32
		ok   bool
	}{
		{"as it is", 0, code[0], true},
		{"an argument is not kept", 1, 0x60000000, false},
		{"a register is written to", 3, 0x3be00000, false},     // li r31, 0
		{"a register is loaded", 3, 0xebc10070 | 1<<21, false}, // ld r31, 112(r1)
		{"a register is stored", 3, 0xfbe10070, true},          // std r31, 112(r1)
		{"several registers are loaded", 3, 0xbb610000, false}, // lmw r27, 0(r1)
		{"a string is loaded", 3, 0x7f6104aa, false},           // lswi r27, r1, 0
		{"a call before the moves", 0, 0x48000101, false},
		{"no call", 4, 0x48000100, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			words := append([]uint32(nil), code...)
			words[tt.at] = tt.word
			w, ok := DecodePPC64Writer(binary.LittleEndian, 0x1000, wordsLE(words...), 0x1000+4*5)
			if ok != tt.ok || ok && w != (PPC64Writer{31, 29, 28}) {
				t.Errorf("got %+v, %v", w, ok)
			}
		})
	}
	for lr := uint64(0x0ff0); lr < 0x1040; lr++ {
		if _, ok := DecodePPC64Writer(binary.LittleEndian, 0x1000, wordsLE(code...), lr); ok && lr != 0x1000+4*5 {
			t.Errorf("a writer returns to %#x", lr)
		}
	}
}

// TestARM64KeepsAtLastAddress: the search of a function for branches ends where its code does, also if that
// is the last address.
func TestARM64KeepsAtLastAddress(t *testing.T) {
	const addr = 0xffffffffffffffe0
	code := append(wordsLE(0xaa0003f3, 0x94000000, 0xd503201f, 0xd503201f, 0xd503201f, 0xd503201f, 0xd503201f), 0, 0, 0) // mov x19, x0; bl
	done := make(chan bool, 1)
	go func() { done <- ARM64Keeps(addr, code, addr+8, 19) }()
	select {
	case kept := <-done:
		if !kept {
			t.Error("x19 does not have the argument")
		}
	case <-time.After(time.Minute):
		t.Error("not found out after a minute")
	}
}
