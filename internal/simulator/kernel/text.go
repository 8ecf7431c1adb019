// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
)

// Instructions of x86 that the kernel writes over one another.
var (
	nop5 = []byte{0x0f, 0x1f, 0x44, 0x00, 0x00}
	nop2 = []byte{0x66, 0x90}
	int3 = []byte{0xcc}
)

// branch encodes a CALL (0xe8) or a JMP (0xe9) with a displacement of 32 bits.
func branch(op byte, from, to uint64) []byte {
	return binary.LittleEndian.AppendUint32([]byte{op}, uint32(to-from-5))
}

// A Func is a function of the kernel or of a module.
type Func struct {
	Name  string
	Addr  uint64
	Size  uint64
	entry uint64 // the 5 bytes that ftrace patches
	owner any    // who has patched the entry: a tracer or a trampoline; nil if nobody
	// padding is where a call thunk can go; 0 if the kernel has none.
	padding uint64
}

// Text is a run of functions: the kernel's own, or a module's.
type Text struct {
	Lo, Hi uint64
	Funcs  []*Func
	code   []byte
	keys   []keySite
	calls  []callSite
	locks  []uint64 // lock prefixes
	probes []uint64 // instructions of 5 bytes or more that nothing else patches
}

// A keySite is a place that a static key patches.
type keySite struct {
	key    int
	addr   uint64
	jump   []byte
	nop    []byte
	invert bool
}

func (s *keySite) insn(enabled bool) []byte {
	if enabled != s.invert {
		return s.jump
	}
	return s.nop
}

// A callSite is a place that a static call patches.
type callSite struct {
	call int
	addr uint64
}

// A layout says how text is made.
type layout struct {
	keys, calls int  // how many of each the kernel has
	endbr       bool // functions begin with ENDBR64
	padding     int  // NOPs before each function
	names       string
}

// thunkPadding is how many NOPs a kernel with call thunks has before functions.
const thunkPadding = 16

// makeText makes about size bytes of functions at lo. Equal random numbers give the
// same text but for its displacements.
func makeText(r *rand.Rand, lo uint64, size int, l layout) *Text {
	t := &Text{Lo: lo}
	var code []byte
	at := func() uint64 { return lo + uint64(len(code)) }
	junk := func(n int) {
		for range n {
			code = append(code, byte(r.UintN(256)))
		}
	}
	for len(code) < size-320 {
		for len(code)%16 != 0 {
			code = append(code, 0xcc)
		}
		f := &Func{Name: fmt.Sprintf("%s%d", l.names, len(t.Funcs))}
		if l.padding > 0 {
			code = append(code, bytes.Repeat([]byte{0x90}, l.padding)...)
			f.padding = at() - uint64(l.padding)
		}
		f.Addr = at()
		if l.endbr {
			code = append(code, 0xf3, 0x0f, 0x1e, 0xfa)
		}
		f.entry = at()
		code = append(code, nop5...)
		for range 1 + r.IntN(4) {
			junk(r.IntN(24))
			switch r.IntN(5) {
			case 0: // a static key
				s := keySite{key: r.IntN(l.keys), addr: at(), invert: r.IntN(2) == 0}
				if r.IntN(3) > 0 {
					s.nop, s.jump = nop5, branch(0xe9, at(), at()+uint64(r.IntN(200)))
				} else {
					s.nop, s.jump = nop2, []byte{0xeb, byte(r.IntN(100))}
				}
				t.keys = append(t.keys, s)
				code = append(code, s.nop...)
			case 1:
				t.calls = append(t.calls, callSite{r.IntN(l.calls), at()})
				code = append(code, nop5...)
			case 2:
				t.locks = append(t.locks, at())
				code = append(code, 0xf0)
				junk(4)
			default:
				t.probes = append(t.probes, at())
				code = append(code, 0x48) // nobody probes an INT3
				junk(7)
			}
		}
		junk(r.IntN(20))
		code = append(code, 0xc3)
		f.Size = at() - f.Addr
		t.Funcs = append(t.Funcs, f)
	}
	t.code, t.Hi = code, at()
	return t
}

// bytesAt returns the text's code from addr on.
func (t *Text) bytesAt(addr uint64) []byte { return t.code[addr-t.Lo:] }

// IsKey reports whether a static key patches the place at addr.
func (t *Text) IsKey(addr uint64) bool {
	return slices.ContainsFunc(t.keys, func(s keySite) bool { return s.addr == addr })
}

// layInitial writes the sites' instructions into code that nobody runs yet.
func (k *Kernel) layInitial(t *Text) {
	for _, s := range t.keys {
		copy(t.bytesAt(s.addr), s.insn(k.keys[s.key].enabled))
	}
	for _, s := range t.calls {
		copy(t.bytesAt(s.addr), branch(0xe8, s.addr, k.calls[s.call].target))
	}
	if k.uniprocessor {
		for _, a := range t.locks {
			t.bytesAt(a)[0] = 0x3e
		}
	}
}
