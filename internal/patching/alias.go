// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package patching

import (
	"encoding/binary"
)

// Kernels that record no pokes change text through a writable alias of the page. What is
// known of a change at a probe of the function that maps the alias depends on the code of
// the writer: where on its stack, or in which registers, it keeps what it writes. These
// functions read that code. They give up on whatever they do not understand.

// An ARM64Writer is what the code of a function says that writes a word on arm64
// (__aarch64_insn_write and aarch64_insn_write_literal_u64 of
// arch/arm64/kernel/patching.c).
type ARM64Writer struct {
	Offset int    // of the word from the stack pointer at the call that unmaps the alias, in bytes
	Len    int    // of the word: 4 or 8 bytes
	Index  uint64 // of the alias in the fixmap: the first argument of that call
}

// An ARM64Function is the code of a function, and where the functions are that it calls.
type ARM64Function struct {
	Addr        uint64 // of Code
	Code        []byte // little-endian words
	Map         uint64 // __set_fixmap
	CopyNoFault uint64 // copy_to_kernel_nofault
}

// word returns the instruction at addr, or false if the function has none there.
func (f *ARM64Function) word(addr uint64) (uint32, bool) {
	i := addr - f.Addr
	if i%4 != 0 || i+4 > uint64(len(f.Code)) || i > i+4 {
		return 0, false
	}
	return binary.LittleEndian.Uint32(f.Code[i:]), true
}

// arm64Reach is how many instructions before the call that unmaps the alias the writer's
// arguments may lie.
const arm64Reach = 24

// Writer decodes the function as the caller of __set_fixmap that returns to lr, after it
// has stored the word:
//
//	mov  x2, #LEN
//	add  x1, sp, #OFFSET
//	bl   copy_to_kernel_nofault
//	...
//	mov  w0, #INDEX
//	bl   __set_fixmap
//	lr:
//
// ok is false if the code is not of this form, if something may write to the stack
// between, or if a branch leads there from elsewhere.
func (f *ARM64Function) Writer(lr uint64) (w ARM64Writer, ok bool) {
	if f.target(lr-4) != f.Map {
		return w, false
	}
	copied, haveOffset, haveLen, haveIndex := false, false, false, false
	first := lr - 4
	for i := 2; i <= arm64Reach && !(haveOffset && haveLen); i++ {
		at := lr - uint64(4*i)
		x, in := f.word(at)
		if !in {
			return w, false
		}
		first = at
		switch {
		case arm64Branches(x):
			if copied || f.target(at) != f.CopyNoFault {
				return w, false
			}
			copied = true
		case arm64Stack(x) && !(copied && !haveOffset && x&0xffc003ff == 0x910003e1):
			return w, false // it stores to the stack, or moves it
		case !copied && !haveIndex && x&0xffe0001f == 0x52800000: // mov w0, #imm
			w.Index, haveIndex = uint64(x>>5&0xffff), true
		case !copied && x&0x1f == 0 && !haveIndex && arm64Writes(x):
			return w, false // the index comes from elsewhere
		case copied && !haveOffset && x&0xffc003ff == 0x910003e1: // add x1, sp, #imm
			w.Offset, haveOffset = int(x>>10&0xfff), true
		case copied && !haveLen && x&0xffe0001f == 0xd2800002: // mov x2, #imm
			w.Len, haveLen = int(x>>5&0xffff), true
		case copied && arm64Writes(x) && (x&0x1f == 1 && !haveOffset || x&0x1f == 2 && !haveLen):
			return w, false
		}
	}
	if !copied || !haveOffset || !haveLen || !haveIndex || w.Len != 4 && w.Len != 8 || f.entered(first, lr) {
		return w, false
	}
	return w, true
}

// target returns where a BL at addr leads, 0 if there is none.
func (f *ARM64Function) target(addr uint64) uint64 {
	x, ok := f.word(addr)
	if !ok || x>>26 != 0x25 {
		return 0
	}
	return addr + uint64(int64(int32(x<<6)>>6)*4)
}

// arm64Branches reports whether an instruction is a branch of any kind, an exception, or
// a return. System instructions and hints are none.
func arm64Branches(x uint32) bool {
	switch {
	case x>>26&0x1f == 0x05, // B, BL
		x>>24 == 0x54,      // B.cond
		x>>25&0x3f == 0x1a, // CBZ, CBNZ
		x>>25&0x3f == 0x1b, // TBZ, TBNZ
		x>>25 == 0x6b,      // BR, BLR, RET, ERET
		x>>24 == 0xd4:      // SVC, BRK, HLT
		return true
	}
	return false
}

// arm64Stack reports whether an instruction may store relative to the stack pointer, or
// change it or take its address. Loads from the stack do not count.
func arm64Stack(x uint32) bool {
	switch {
	case x>>25&0x5 == 0x4: // loads and stores
		load := x>>22&1 == 1
		if x>>27&0x7 == 5 && x>>30&1 == 0 && x>>23&3 == 0 {
			load = false
		}
		return x>>5&0x1f == 31 && !load
	case x>>23&0x3f == 0x22: // ADD, SUB (immediate)
		return x>>5&0x1f == 31 || x&0x1f == 31 && x>>29&1 == 0
	}
	return false
}

// arm64Writes reports whether an instruction may write to the register in its lowest
// field. Stores do not.
func arm64Writes(x uint32) bool {
	if x>>25&0x5 == 0x4 {
		return x>>22&1 == 1
	}
	return x>>24 != 0xd5 || x>>21&1 == 1 // of the system instructions, MRS does
}

// entered reports whether any branch of the function leads into (lo, hi).
func (f *ARM64Function) entered(lo, hi uint64) bool {
	for i := 0; i+4 <= len(f.Code); i += 4 {
		if to, ok := f.branch(f.Addr + uint64(i)); ok && lo < to && to < hi {
			return true
		}
	}
	return false
}

// ARM64Keeps reports whether a function has its first argument in register reg when it
// makes the call that returns to lr. The function's code is at addr.
func ARM64Keeps(addr uint64, code []byte, lr uint64, reg int) bool {
	return (&ARM64Function{Addr: addr, Code: code}).keeps(0, reg, lr)
}

// keeps is ARM64Keeps for the argument in register arg.
func (f *ARM64Function) keeps(arg, reg int, lr uint64) bool {
	kept, since := false, f.Addr
	for at := f.Addr; at < lr; at += 4 {
		x, ok := f.word(at)
		switch {
		case !ok:
			return false
		case x == 0xaa0003e0|uint32(arg)<<16|uint32(reg) && !kept: // mov reg, xARG
			kept, since = true, at
		case !kept && (arm64MayWrite(x, arg) || arm64Branches(x)), kept && arm64MayWrite(x, reg):
			return false
		}
	}
	return kept && !f.left(since, lr, reg)
}

// left reports whether a branch from behind the call that returns to lr leads back before
// it, after the register may have been changed, or before the move at since.
func (f *ARM64Function) left(since, lr uint64, reg int) bool {
	for off := lr - f.Addr; off < uint64(len(f.Code)); off += 4 {
		at := f.Addr + off
		to, ok := f.branch(at)
		if !ok || to >= lr || to < f.Addr {
			continue
		}
		if to <= since {
			return true
		}
		for k := at; k > lr; k -= 4 {
			x, _ := f.word(k - 4)
			if x>>26 == 0x05 || x>>25 == 0x6b && x&0xfffffc1f != 0xd63f0000 { // B, RET; not BLR
				break
			}
			if arm64MayWrite(x, reg) {
				return true
			}
		}
	}
	return false
}

// ARM64Saves reports whether a function saves register reg of its caller before it changes
// it, with STP behind its frame record, offset bytes above its stack pointer. The stack
// pointer must be the same at the call that returns to lr. The function's code is at addr.
func ARM64Saves(addr uint64, code []byte, lr uint64, reg, offset int) bool {
	f := ARM64Function{Addr: addr, Code: code}
	framed, saved := false, false
	for at := addr; at < lr; at += 4 {
		x, ok := f.word(at)
		switch {
		case !ok:
			return false
		case x&0xffc07fff == 0xa9807bfd && !framed: // stp x29, x30, [sp, #-N]!
			framed = true
		case framed && !saved && x&0xffc003e0 == 0xa90003e0 && int(x>>10&31) == reg && int(x>>15&0x7f)*8+8 == offset: // stp xN, reg, [sp, #M]
			saved = true
		case arm64Moves(x), !saved && arm64MayWrite(x, reg):
			return false
		case saved && arm64Stores(x, offset):
			return false
		}
	}
	return saved
}

// ARM64Leaves reports whether no instruction of a function may write to register reg, which the
// functions that it calls spare.
func ARM64Leaves(code []byte, reg int) bool {
	for i := 0; i+4 <= len(code); i += 4 {
		if arm64MayWrite(binary.LittleEndian.Uint32(code[i:]), reg) {
			return false
		}
	}
	return len(code) >= 4 && 19 <= reg && reg <= 28
}

// ARM64Passes reports whether the call of callee that returns to lr passes register reg as
// the first argument. The calling function's code is at addr.
func ARM64Passes(addr uint64, code []byte, lr, callee uint64, reg int) bool {
	f := ARM64Function{Addr: addr, Code: code}
	if f.target(lr-4) != callee {
		return false
	}
	for at := lr - 8; at >= addr && at < lr; at -= 4 {
		x, ok := f.word(at)
		switch {
		case !ok, arm64Branches(x):
			return false
		case x == 0xaa0003e0|uint32(reg)<<16, x == 0xaa0003e0|uint32(reg): // mov x0, reg; mov reg, x0
			return !f.entered(at, lr)
		case arm64MayWrite(x, 0), arm64MayWrite(x, reg):
			return false
		}
	}
	return false
}

// branch returns where the instruction at addr jumps to, unless it is a call.
func (f *ARM64Function) branch(addr uint64) (to uint64, ok bool) {
	x, ok := f.word(addr)
	if !ok {
		return 0, false
	}
	var off int64
	switch {
	case x>>26 == 0x05:
		off = int64(int32(x<<6) >> 6)
	case x>>24 == 0x54, x>>25&0x3f == 0x1a:
		off = int64(int32(x<<8) >> 13)
	case x>>25&0x3f == 0x1b:
		off = int64(int32(x<<13) >> 18)
	default:
		return 0, false
	}
	return addr + uint64(off*4), true
}

// arm64Moves reports whether an instruction changes the stack pointer.
func arm64Moves(x uint32) bool {
	if x>>25&0x5 == 0x4 {
		pair := x>>27&7 == 5
		writeback := pair && x>>23&1 == 1 || !pair && x>>24&1 == 0 && x>>21&1 == 0 && x>>10&1 == 1
		return x>>5&31 == 31 && writeback
	}
	return x>>23&0x3f == 0x22 && x&31 == 31 && x>>29&1 == 0
}

// arm64Stores reports whether an instruction may store to eight bytes at this offset from
// the stack pointer.
func arm64Stores(x uint32, offset int) bool {
	if x>>25&0x5 != 0x4 || x>>5&31 != 31 {
		return false
	}
	switch {
	case x>>27&7 == 5 && x>>22&1 == 0: // a pair
		at := int(int32(x<<10)>>25) * (4 << (x >> 31))
		return at < offset+8 && offset < at+16
	case x>>24&0x3f == 0x39 && x>>22&3 == 0: // with an unsigned offset
		at := int(x>>10&0xfff) << (x >> 30)
		return at < offset+8 && offset < at+8
	case x>>22&3 == 1 && x>>27&7 == 7, x>>27&7 == 5: // a load
		return false
	}
	return true
}

// arm64MayWrite reports whether an instruction may write to the general register r.
func arm64MayWrite(x uint32, r int) bool {
	rd, rn, ra := int(x&31) == r, int(x>>5&31) == r, int(x>>10&31) == r
	switch {
	case x>>26 == 0x25, x&0xfffffc1f == 0xd63f0000: // a call spares x19 to x28
		return r < 19 || r > 28
	case arm64Branches(x):
		return false
	case x>>25&0x5 == 0x4: // loads and stores, with an update of the base, exclusive ones with a status
		status := x>>24&0x3f == 0x08 && int(x>>16&31) == r
		switch {
		case x>>24&0x3f == 0x39 && x>>22&3 == 0, // STR with an unsigned offset
			x>>27&7 == 5 && x>>22&1 == 0 && x>>23&1 == 0: // STP without update
			return false
		case x>>27&7 == 5 && x>>22&1 == 0:
			return rn
		}
		return rd || ra || rn || status
	case x>>24 == 0xd5: // system: MRS
		return x>>21&1 == 1 && rd
	case x>>24&0x1f == 0x0b && x&31 == 31, x>>24&0x1f == 0x11 && x&31 == 31: // compares
		return false
	}
	return rd
}

// A PPC64Writer has the numbers of the general registers that hold the arguments of a
// function that writes a word on powerpc (patch_mem of arch/powerpc/lib/code-patching.c),
// when it maps the alias.
type PPC64Writer struct {
	Addr, Value, Doubleword int // the address, what is written, whether that is 8 bytes long
}

// DecodePPC64Writer decodes a function with the code at addr as the caller that returns to
// lr, after it has mapped the alias. Its arguments are the address, the value and whether
// it is a doubleword, which it must have moved to registers that it does not write to
// before that call. ok is false otherwise.
func DecodePPC64Writer(order binary.ByteOrder, addr uint64, code []byte, lr uint64) (w PPC64Writer, ok bool) {
	n := lr - addr
	if lr <= addr || n > uint64(len(code)) || n%4 != 0 {
		return w, false
	}
	word := func(i uint64) uint32 { return order.Uint32(code[i:]) }
	if call := word(n - 4); call>>26 != 18 || call&1 == 0 {
		return w, false
	}
	var in [3]int       // registers of the arguments
	var moved [3]uint64 // offsets behind the moves
	for i := uint64(0); i+4 < n; i += 4 {
		x := word(i)
		from := int(x >> 21 & 31)
		if x>>26 == 31 && x>>1&0x3ff == 444 && from == int(x>>11&31) && 3 <= from && from <= 5 && in[from-3] == 0 && x>>16&31 >= 14 {
			in[from-3], moved[from-3] = int(x>>16&31), i+4
			continue
		}
		for k, r := range in {
			if r == 0 && ppcMayWrite(x, k+3) || r != 0 && ppcMayWrite(x, r) {
				return w, false
			}
		}
		if x>>26 == 18 && x&1 == 1 && (in[0] == 0 || in[1] == 0 || in[2] == 0) {
			return w, false // a call, before the arguments are in safe registers
		}
	}
	if in[0] == 0 || in[1] == 0 || in[2] == 0 {
		return w, false
	}
	// What jumps there from behind the call must not have changed the registers either.
	last := max(moved[0], moved[1], moved[2])
	for i := n; i+4 <= uint64(len(code)); i += 4 {
		to, jumps := ppcTarget(word(i), i)
		if !jumps || to >= n {
			continue
		}
		if to < last {
			return w, false
		}
		for k := i; k > n; k -= 4 {
			x := word(k - 4)
			if x>>26 == 18 && x&1 == 0 || x == 0x4e800020 { // B, BLR
				break
			}
			for _, r := range in {
				if ppcMayWrite(x, r) {
					return w, false
				}
			}
		}
	}
	return PPC64Writer{in[0], in[1], in[2]}, true
}

// ppcTarget returns the offset to which the branch at offset i leads, unless it is a call.
func ppcTarget(x uint32, i uint64) (to uint64, ok bool) {
	switch {
	case x&3 != 0: // absolute, or a call
		return 0, false
	case x>>26 == 18:
		return i + uint64(int64(int32(x<<6)>>6)&^3), true
	case x>>26 == 16:
		return i + uint64(int64(int16(x))&^3), true
	}
	return 0, false
}

// ppcMayWrite reports whether an instruction may write to the general register r. It
// reports true for instructions that it does not know, if a field names r.
func ppcMayWrite(x uint32, r int) bool {
	rt, ra := int(x>>21&31) == r, int(x>>16&31) == r
	switch op := x >> 26; op {
	case 10, 11, 16, 17, 18, 19: // compares, branches
		return false
	case 46: // lmw
		return int(x>>21&31) <= r
	case 7, 8, 12, 13, 14, 15, 32, 34, 40, 42:
		return rt
	case 33, 35, 41, 43: // loads with update
		return rt || ra
	case 20, 21, 23, 24, 25, 26, 27, 28, 29, 30: // rotates, logical with immediates
		return ra
	case 36, 38, 44:
		return false
	case 37, 39, 45: // stores with update
		return ra
	case 58: // ld, ldu, lwa
		return rt || x&3 == 1 && ra
	case 62: // std, stdu, stq
		return x&3 == 1 && ra
	case 31:
		switch x >> 1 & 0x3ff {
		case 28, 60, 124, 284, 316, 412, 444, 476, // and, andc, nor, eqv, xor, orc, or, nand
			24, 27, 536, 539, 792, 794, 824, 826, 827, // shifts
			26, 58, 922, 954, 986: // counts, extensions
			return ra
		case 533, 597: // lswx, lswi
			return true
		case 0, 32, 149, 151, 214, 215, 407, 467, 598, 854: // compares, stores, mtspr, sync
			return false
		}
	}
	return rt || ra
}
