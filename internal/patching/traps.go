// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package patching

import (
	"debug/elf"
	"encoding/binary"
)

// TrapKind is what a trap's handler does instead of the instruction that the
// trap replaces.
type TrapKind uint8

const (
	TrapUnknown TrapKind = iota // the bytes are not one of those that are emulated
	TrapNop                     // continues after the instruction
	TrapJump                    // continues at Target
	TrapBranch                  // continues at Target or after the instruction, by the flags
	TrapCall                    // continues at Target, with the return address pushed or linked
	TrapReturn                  // pops the return address
	TrapProbe                   // runs a probe, then the original instruction elsewhere
)

var trapKinds = [...]string{"unknown", "nop", "jump", "branch", "call", "return", "probe"}

// String returns the name of the kind, for example "call".
func (k TrapKind) String() string { return trapKinds[k] }

// TrapEffect is the architectural effect of a trap that a CPU meets in the
// window of a poke. It is that of the new instruction. A static call may be
// emulated as another instruction than the bytes, with the same effect.
type TrapEffect struct {
	Kind   TrapKind
	Target uint64 // of jump, branch and call
	Return uint64 // of a call: what it pushes, or links
	Links  bool   // the return address goes to the link register, not to the stack
}

// trapOf reports whether these bytes begin with the instruction that their
// architecture traps by while it changes code: INT3, BRK, trap, or s390's
// illegal 0002. n is the length of that instruction in bytes. order is that of
// powerpc's instructions; it is ignored for the others.
func trapOf(machine elf.Machine, order binary.ByteOrder, code []byte) (n int, ok bool) {
	switch machine {
	case elf.EM_X86_64:
		return 1, len(code) >= 1 && code[0] == INT3
	case elf.EM_AARCH64:
		// BRK #imm16: d4200000 with the immediate in bits 5 to 20.
		return 4, len(code) >= 4 && binary.LittleEndian.Uint32(code)&arm64BRKMask == arm64BRK
	case elf.EM_PPC64:
		return 4, len(code) >= 4 && order.Uint32(code) == PowerpcTrap
	case elf.EM_S390:
		return 2, len(code) >= 2 && code[0] == 0x00 && code[1] == 0x02
	}
	return 0, false
}

// TrapCode returns the trap instruction of an architecture; nil if it is not known. order
// is that of powerpc's instructions. On arm64 it is the BRK of a kprobe.
func TrapCode(machine elf.Machine, order binary.ByteOrder) []byte {
	word := func(order binary.ByteOrder, word uint32) []byte {
		b := make([]byte, 4)
		order.PutUint32(b, word)
		return b
	}
	switch machine {
	case elf.EM_X86_64:
		return []byte{INT3}
	case elf.EM_AARCH64:
		return word(binary.LittleEndian, arm64BRKKprobe)
	case elf.EM_PPC64:
		return word(order, PowerpcTrap)
	case elf.EM_S390:
		return []byte{0x00, 0x02}
	}
	return nil
}

// Emulate returns the effect of the trap that is at addr while insn, the
// new instruction, is being written there: poke_int3_handler in
// arch/x86/kernel/alternative.c, and the nosync method that was proposed for
// arm64 (NOP, B, BL). A trap of the other architectures is a probe's.
func Emulate(machine elf.Machine, addr uint64, insn []byte) TrapEffect {
	switch machine {
	case elf.EM_X86_64:
		return emulateX86(addr, insn)
	case elf.EM_AARCH64:
		if len(insn) < 4 {
			return TrapEffect{}
		}
		return emulateARM64(addr, binary.LittleEndian.Uint32(insn))
	case elf.EM_PPC64, elf.EM_S390:
		return TrapEffect{Kind: TrapProbe}
	}
	return TrapEffect{}
}

// TrapName returns the architecture's name for the trap instruction in kernel
// text, such as "BRK". It returns "INT3" for x86 and for unknown architectures.
func TrapName(machine elf.Machine) string {
	switch machine {
	case elf.EM_AARCH64:
		return "BRK"
	case elf.EM_PPC64:
		return "trap"
	case elf.EM_S390:
		return "the illegal instruction 0002"
	}
	return "INT3"
}
