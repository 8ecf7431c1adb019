// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"debug/elf"
	"encoding/binary"

	"github.com/textreplay/textreplay/kcore"
)

// Machine returns the ELF machine of the recorded kernel: the snapshot's, or
// what the recording's ARCH says; EM_NONE where nothing says so.
func (r *Replay) Machine() elf.Machine { return r.isa }

// machineOf is Machine for a core file, which may be nil, and an architecture
// as uname -m names it.
func machineOf(core *kcore.Core, arch string) elf.Machine {
	if core != nil {
		return core.Machine
	}
	switch arch {
	case "x86_64":
		return elf.EM_X86_64
	case "aarch64", "aarch64_be", "arm64":
		return elf.EM_AARCH64
	case "ppc64", "ppc64le":
		return elf.EM_PPC64
	case "s390x":
		return elf.EM_S390
	}
	return elf.EM_NONE
}

// Words of arm64, whose instructions are little-endian whatever its data are.
const (
	arm64NOP       = 0xd503201f
	arm64BRK       = 0xd4200000 // the immediate in bits 5 to 20
	arm64BRKMask   = 0xffffffff &^ (0xffff << 5)
	arm64BRKKprobe = arm64BRK | 4<<5 // KPROBES_BRK_IMM
)

// Words of powerpc (arch/powerpc/include/asm/ppc-opcode.h).
const (
	ppcNOP  = 0x60000000
	ppcTrap = 0x7fe00008 // BREAKPOINT_INSTRUCTION
	ppcMFLR = 0x7c0802a6 // mflr r0
)

// An I-form branch of powerpc is its opcode, 24 bits of distance in words, and
// two flags.
const (
	ppcBranch     = 0x48000000
	ppcBranchMask = 0xfc000003
	ppcLink       = 1
)

func ppcIsB(word uint32) bool  { return word&ppcBranchMask == ppcBranch }
func ppcIsBL(word uint32) bool { return word&ppcBranchMask == ppcBranch|ppcLink }

// hotPatched reports whether arm64 lets this instruction be replaced by another
// such one while CPUs run it: B, BL, NOP, BRK and a few that the kernel does not
// patch (Arm Architecture Reference Manual, B2.2.5, Concurrent modification and
// execution of instructions).
func hotPatched(word uint32) bool {
	return word == arm64NOP || word>>26&0b011111 == 0b000101 || word&arm64BRKMask == arm64BRK
}

// TrapName returns what the architecture calls the instruction by which its
// kernel traps in its own text: "INT3".
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

// KindOfPoke classifies a poke by its bytes, which is all that its record says.
// Where a kernel's instructions are words each probe's trap is one, the
// beginning of one on s390, and old and new bytes are of one length; so there a
// probe on a branch looks like an optimised one.
func KindOfPoke(machine elf.Machine, order binary.ByteOrder, old, new []byte) PokeKind {
	switch {
	case len(old) == 0:
		return PokeCreated
	case len(new) == 0:
		return PokeRemoved
	}
	switch machine {
	case elf.EM_AARCH64, elf.EM_PPC64, elf.EM_S390:
		return kindOfWord(machine, order, old, new)
	}
	switch {
	case len(new) == 1 && new[0] == int3:
		return PokeArmed
	case len(old) == 1 && old[0] == int3:
		return PokeDisarmed
	case new[0] == int3:
		return PokeUnoptimised
	}
	return PokeBatch
}

func kindOfWord(machine elf.Machine, order binary.ByteOrder, old, new []byte) PokeKind {
	was, is := isProbe(machine, order, old), isProbe(machine, order, new)
	// Powerpc optimises a probe by a branch to its slot (arch_optimize_kprobes).
	optimised := func(code []byte) bool {
		return machine == elf.EM_PPC64 && len(code) >= 4 && ppcIsB(order.Uint32(code))
	}
	switch {
	case is && !was && optimised(old):
		return PokeUnoptimised
	case is && !was:
		return PokeArmed
	case was && !is && !optimised(new):
		return PokeDisarmed
	}
	return PokeBatch
}

// isProbe reports whether code begins with the trap of a kprobe.
func isProbe(machine elf.Machine, order binary.ByteOrder, code []byte) bool {
	_, trap := TrapOf(machine, order, code)
	return trap && (machine != elf.EM_AARCH64 || binary.LittleEndian.Uint32(code) == arm64BRKKprobe)
}

// canTrap reports whether a trap may stand in the place of the old or the new
// bytes while a poke is made. Where instructions are words one store replaces
// the one by the other; but the method that was proposed for arm64 to record it
// goes by way of a BRK, between such instructions as may be replaced so.
func canTrap(machine elf.Machine, kind PokeKind, old, new []byte) bool {
	if kind != PokeBatch {
		return kind.inPlace()
	}
	switch machine {
	case elf.EM_AARCH64:
		if len(old) != 4 || len(new) != 4 {
			return false
		}
		was, is := binary.LittleEndian.Uint32(old), binary.LittleEndian.Uint32(new)
		return hotPatched(was) && hotPatched(is) && is&arm64BRKMask != arm64BRK
	case elf.EM_PPC64, elf.EM_S390:
		return false
	}
	return true
}
