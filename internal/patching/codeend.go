// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package patching

import (
	"bytes"
	"debug/elf"
	"encoding/binary"

	"golang.org/x/arch/x86/x86asm"
)

// endbr is endbr64, which x86asm does not know.
var endbr = []byte{0xf3, 0x0f, 0x1e, 0xfa}

// CodeEnd returns the length in bytes of the code of a machine, x86-64 or arm64, that begins at
// code[0]. The code ends with a return, or a jump out of it, if no jump before leads behind that. A
// BPF trampoline ends so; what follows in its memory is not part of it. ok is false if code has no
// such end, or something that is no code, or if the machine is another one.
func CodeEnd(machine elf.Machine, code []byte) (n int, ok bool) {
	next := nextX86
	switch machine {
	case elf.EM_X86_64:
	case elf.EM_AARCH64:
		next = nextARM64
	default:
		return 0, false
	}
	far := 0 // the farthest place that a jump leads to
	for n < len(code) {
		f, ok := next(code[n:])
		if !ok {
			return 0, false
		}
		target := n + f.rel
		inside := f.jumps && target >= 0 && target < len(code)
		n += f.len
		if f.ends && !inside && far < n {
			return n, true
		}
		if inside {
			far = max(far, target)
		}
	}
	return 0, false
}

// A flow is where an instruction leads.
type flow struct {
	len   int
	ends  bool // nothing runs behind it: a return, or a jump without a condition
	jumps bool // rel says to where
	rel   int  // from the instruction, in bytes
}

// nextX86 decodes the first instruction. ok is false if there is none, or a trap.
func nextX86(code []byte) (f flow, ok bool) {
	if bytes.HasPrefix(code, endbr) {
		return flow{len: len(endbr)}, true
	}
	in, err := x86asm.Decode(code, 64)
	if err != nil || in.Op == x86asm.INT && code[0] == INT3 {
		return flow{}, false
	}
	f.len = in.Len
	f.ends = in.Op == x86asm.RET || in.Op == x86asm.JMP
	if rel, ok := in.Args[0].(x86asm.Rel); ok && in.Op != x86asm.CALL {
		f.jumps, f.rel = true, in.Len+int(rel)
	}
	return f, true
}

// nextARM64 decodes the first word. ok is false if it is a trap (BRK), or of no class of instructions
// that the kernel's own code has (Arm Architecture Reference Manual, C4.1).
func nextARM64(code []byte) (f flow, ok bool) {
	if len(code) < 4 {
		return flow{}, false
	}
	x := binary.LittleEndian.Uint32(code)
	f.len = 4
	// signed returns a field of the word as a number of bytes.
	signed := func(shift, bits int) int { return int(int32(x<<(32-shift-bits))>>(32-bits)) * 4 }
	switch {
	case x>>25&0xf < 4, x&0xffe0001f == 0xd4200000: // unallocated, or SVE; BRK
		return flow{}, false
	case x>>26 == 0b000101: // B
		f.ends, f.jumps, f.rel = true, true, signed(0, 26)
	case x>>24 == 0b01010100, x>>25&0x3f == 0b011010: // B.cond; CBZ, CBNZ
		f.jumps, f.rel = true, signed(5, 19)
	case x>>25&0x3f == 0b011011: // TBZ, TBNZ
		f.jumps, f.rel = true, signed(5, 14)
	case x>>25 == 0b1101011 && x>>21&0b0101 == 0: // BR, RET, and those with a key (not BLR)
		f.ends = true
	}
	return f, true
}
