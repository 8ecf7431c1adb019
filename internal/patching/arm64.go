// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package patching

// Words of arm64, whose instructions are little-endian whatever its data are.
const (
	arm64NOP       = 0xd503201f
	arm64BRK       = 0xd4200000 // the immediate in bits 5 to 20
	arm64BRKMask   = 0xffffffff &^ (0xffff << 5)
	arm64BRKKprobe = arm64BRK | 4<<5 // KPROBES_BRK_IMM
)

// hotPatched reports whether arm64 lets this instruction be replaced by another
// such one while CPUs run it: B, BL, NOP, BRK and a few that the kernel does not
// patch (Arm Architecture Reference Manual, B2.2.5, Concurrent modification and
// execution of instructions).
func hotPatched(word uint32) bool {
	return word == arm64NOP || word>>26&0b011111 == 0b000101 || word&arm64BRKMask == arm64BRK
}

func emulateARM64(addr uint64, word uint32) TrapEffect {
	target := addr + uint64(int64(int32(word<<6)>>4))
	switch {
	case word == arm64NOP:
		return TrapEffect{Kind: TrapNop}
	case word == arm64BRKKprobe:
		return TrapEffect{Kind: TrapProbe}
	case word>>26 == 0b000101:
		return TrapEffect{Kind: TrapJump, Target: target}
	case word>>26 == 0b100101:
		return TrapEffect{Kind: TrapCall, Target: target, Return: addr + 4, Links: true}
	}
	return TrapEffect{}
}
