// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package patching

import "encoding/binary"

// INT3 is the instruction by which x86 traps (INT3_INSN_OPCODE,
// arch/x86/include/asm/text-patching.h).
const INT3 = 0xcc

func emulateX86(addr uint64, insn []byte) TrapEffect {
	if len(insn) == 0 {
		return TrapEffect{}
	}
	rel8 := func(n int) uint64 { return addr + uint64(n) + uint64(int64(int8(insn[n-1]))) }
	rel32 := func(n int) uint64 {
		return addr + uint64(n) + uint64(int64(int32(binary.LittleEndian.Uint32(insn[n-4:]))))
	}
	switch op := insn[0]; {
	case op == INT3:
		return TrapEffect{Kind: TrapProbe}
	case op == 0xc3:
		return TrapEffect{Kind: TrapReturn}
	case op == 0xe8 && len(insn) >= 5:
		return TrapEffect{Kind: TrapCall, Target: rel32(5), Return: addr + 5}
	case op == 0xe9 && len(insn) >= 5:
		return TrapEffect{Kind: TrapJump, Target: rel32(5)}
	case op == 0xeb && len(insn) >= 2:
		return TrapEffect{Kind: TrapJump, Target: rel8(2)}
	case op&0xf0 == 0x70 && len(insn) >= 2:
		return TrapEffect{Kind: TrapBranch, Target: rel8(2)}
	case op == 0x0f && len(insn) >= 6 && insn[1]&0xf0 == 0x80:
		return TrapEffect{Kind: TrapBranch, Target: rel32(6)}
	case nopLen(insn) == len(insn):
		return TrapEffect{Kind: TrapNop}
	}
	return TrapEffect{}
}

// IsNOP reports whether code is one NOP of x86, with no byte after it.
func IsNOP(code []byte) bool { return len(code) > 0 && nopLen(code) == len(code) }

// nopLen returns the length of the NOP at the start of code, 0 where there is
// none: 90 and 0f 1f with any 66, 2e and 3e prefixes. x86_nops in
// arch/x86/kernel/alternative.c has all those that the kernel writes.
func nopLen(code []byte) int {
	n := 0
	for n < len(code) && (code[n] == 0x66 || code[n] == 0x2e || code[n] == 0x3e) {
		n++
	}
	switch {
	case n < len(code) && code[n] == 0x90:
		return n + 1
	case n+2 < len(code) && code[n] == 0x0f && code[n+1] == 0x1f:
		modrm := code[n+2]
		n += 3
		if modrm&7 == 4 && modrm>>6 != 3 {
			n++ // SIB
		}
		switch modrm >> 6 {
		case 1:
			n++
		case 2:
			n += 4
		}
		if n <= len(code) {
			return n
		}
	}
	return 0
}
