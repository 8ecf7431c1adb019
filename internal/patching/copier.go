// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package patching

import "encoding/binary"

// arm64 writes BPF programs and trampolines with __text_poke(func, addr, opcodes, len) of
// arch/arm64/kernel/patching.c (since 6.9). For each page it maps the alias, calls
// func(alias, opcodes, offset, size), and unmaps the alias. func is text_poke_memcpy, which copies
// size bytes at opcodes + offset, or text_poke_memset.

// An ARM64Copier is what the code of __text_poke says of one page.
type ARM64Copier struct {
	Size  int    // the register that has the page's part of the length, when the alias is mapped
	Unmap uint64 // what the call that unmaps the alias returns to
}

// Copier decodes the function as __text_poke, whose call of the function that maps the alias
// returns to lr:
//
//	add  x0, ADDR, OFFSET
//	...
//	bl   patch_map
//	lr:
//	mov  x3, SIZE
//	mov  x2, OFFSET
//	mov  x1, OPCODES
//	blr  FUNC
//	...
//	bl   __set_fixmap
//
// FUNC, ADDR and OPCODES must be registers that a call spares, with the first three arguments
// of the function. ok is false if the code is not of this form, or if a branch leads there from
// elsewhere.
func (f *ARM64Function) Copier(lr uint64) (c ARM64Copier, ok bool) {
	if f.target(lr-4) == 0 {
		return c, false
	}
	var arg [4]int // the registers that are passed
	call := lr
	for ; ; call += 4 {
		x, in := f.word(call)
		if !in {
			return c, false
		}
		if x&0xfffffc1f == 0xd63f0000 { // blr
			arg[0] = int(x >> 5 & 31)
			break
		}
		to := x & 31
		if x&0xffe0ffe0 != 0xaa0003e0 || to < 1 || to > 3 || arg[to] != 0 { // mov
			return c, false
		}
		arg[to] = int(x >> 16 & 31)
	}
	for _, r := range arg {
		if r < 19 || r > 28 {
			return c, false
		}
	}
	sum, addr, ok := f.sum(lr-4, arg[2])
	if !ok || f.entered(sum, call+4) || !f.keeps(0, arg[0], lr) || !f.keeps(1, addr, lr) || !f.keeps(2, arg[1], lr) {
		return c, false
	}
	for at := call + 4; at < call+4*arm64Reach; at += 4 {
		x, in := f.word(at)
		switch {
		case !in:
			return c, false
		case f.target(at) == f.Map:
			return ARM64Copier{arg[3], at + 4}, !f.entered(call, at+4)
		case arm64Branches(x):
			return c, false
		}
	}
	return c, false
}

// sum finds the "add x0, A, B" that gives the call at the address call its first argument, with
// offset as one of A and B. It returns where that is, and the other register.
func (f *ARM64Function) sum(call uint64, offset int) (at uint64, other int, ok bool) {
	for at = call - 4; at >= f.Addr && at < call; at -= 4 {
		x, in := f.word(at)
		switch a, b := int(x>>5&31), int(x>>16&31); {
		case !in, arm64Branches(x):
			return 0, 0, false
		case x&0xffe0fc1f == 0x8b000000 && a != b && (a == offset || b == offset): // add
			if other = a + b - offset; other < 19 || other > 28 {
				return 0, 0, false
			}
			for k := at + 4; k < call; k += 4 {
				if y, _ := f.word(k); arm64MayWrite(y, other) {
					return 0, 0, false
				}
			}
			return at, other, true
		case arm64MayWrite(x, 0), arm64MayWrite(x, offset):
			return 0, 0, false
		}
	}
	return 0, 0, false
}

// ARM64Frame returns where a function with the code at addr saves register reg of its caller,
// in bytes from its stack pointer at the call that returns to lr. It has its frame record at the
// stack pointer, so that the return address is 8 bytes above it. ok is false if it does not do
// so before it changes the register, or if it may write to that place or move the stack pointer
// later. reg 30 is the return address.
func ARM64Frame(addr uint64, code []byte, lr uint64, reg int) (offset int, ok bool) {
	f := ARM64Function{Addr: addr, Code: code}
	framed, saved := false, false
	for at := addr; at < lr; at += 4 {
		x, in := f.word(at)
		first, second := int(x&31), int(x>>10&31)
		switch {
		case !in:
			return 0, false
		case x&0xffc07fff == 0xa9807bfd && !framed: // stp x29, x30, [sp, #-N]!
			if framed = true; reg == 30 {
				offset, saved = 8, true
			}
		case framed && !saved && x&0xffc003e0 == 0xf90003e0 && first == reg: // str reg, [sp, #M]
			offset, saved = int(x>>10&0xfff)*8, true
		case framed && !saved && x&0xffc003e0 == 0xa90003e0 && (first == reg || second == reg) && x>>21&1 == 0: // stp
			if offset, saved = int(x>>15&0x7f)*8, true; first != reg {
				offset += 8
			}
		case arm64Moves(x), !saved && arm64MayWrite(x, reg):
			return 0, false
		case saved && arm64Stores(x, offset):
			return 0, false
		}
	}
	return offset, saved
}

// ARM64Constant returns what the call of callee that returns to lr passes as the first argument,
// if the code before it loads an address with ADRP and ADD. The calling function's code is
// at addr.
func ARM64Constant(addr uint64, code []byte, lr, callee uint64) (value uint64, ok bool) {
	f := ARM64Function{Addr: addr, Code: code}
	if f.target(lr-4) != callee {
		return 0, false
	}
	added := false
	for at := lr - 8; at >= addr && at < lr; at -= 4 {
		x, in := f.word(at)
		switch {
		case !in, arm64Branches(x):
			return 0, false
		case !added && x&0xffc003ff == 0x91000000: // add x0, x0, #imm
			value, added = uint64(x>>10&0xfff), true
		case added && x&0x9f00001f == 0x90000000: // adrp x0
			pages := int64(int32(x<<8)>>13)<<2 | int64(x>>29&3)
			return at&^0xfff + uint64(pages<<12) + value, !f.entered(at, lr)
		case arm64MayWrite(x, 0):
			return 0, false
		}
	}
	return 0, false
}

// ARM64CopiesBytes reports whether a function, whose code is at addr, does nothing but call
// copyNoFault(dst, src + offset, size), where its arguments are dst, src, offset and size.
func ARM64CopiesBytes(addr uint64, code []byte, copyNoFault uint64) bool {
	f := ARM64Function{Addr: addr, Code: code}
	source, size := false, false
	for at := addr; ; at += 4 {
		x, in := f.word(at)
		switch {
		case !in:
			return false
		case f.target(at) == copyNoFault:
			return source && size
		case x == 0x8b020021 && !source: // add x1, x1, x2
			source = true
		case x == 0xaa0303e2 && source: // mov x2, x3
			size = true
		case x == 0xaa1e03e9, x == 0x910003fd, // mov x9, x30; mov x29, sp
			x&0xfffff01f == 0xd503201f, // hints: NOP, PACIASP
			x&0xffc07fff == 0xa9807bfd: // stp x29, x30, [sp, #-N]!
		default:
			return false
		}
	}
}

// ARM64WithoutProbe returns the code of a function as it is without the kprobe at its entry. The
// first of the two words that the compiler leaves for ftrace there is "mov x9, x30"
// (ftrace_init_nop of arch/arm64/kernel/ftrace.c), the second one NOP. It returns code itself if
// there is no kprobe, and nil if the entry is another one.
func ARM64WithoutProbe(code []byte) []byte {
	if len(code) < 8 || binary.LittleEndian.Uint32(code) != arm64BRKKprobe {
		return code
	}
	if binary.LittleEndian.Uint32(code[4:]) != arm64NOP {
		return nil
	}
	return append(binary.LittleEndian.AppendUint32(nil, 0xaa1e03e9), code[4:]...)
}

// ARM64Target returns where the call at an address leads, in a function with the code at addr; 0
// if there is none.
func ARM64Target(addr uint64, code []byte, at uint64) uint64 {
	return (&ARM64Function{Addr: addr, Code: code}).target(at)
}
