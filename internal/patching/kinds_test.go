// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package patching

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"testing"

	"github.com/textreplay/textreplay/timeline"
)

func TestKindOfPoke(t *testing.T) {
	le, be := binary.ByteOrder(binary.LittleEndian), binary.ByteOrder(binary.BigEndian)
	for _, tt := range []struct {
		machine  elf.Machine
		order    binary.ByteOrder
		old, new string
		want     timeline.PokeKind
		traps    bool
	}{
		{elf.EM_X86_64, le, "0f1f440000", "e811223344", timeline.PokeBatch, true},
		{elf.EM_X86_64, le, "0f1f440000", "e911223344", timeline.PokeBatch, true}, // a traced site that jumps, since Linux 6.19
		{elf.EM_X86_64, le, "e911223344", "e855667788", timeline.PokeBatch, true},
		{elf.EM_X86_64, le, "e855667788", "e911223344", timeline.PokeBatch, true},
		{elf.EM_X86_64, le, "6690", "eb10", timeline.PokeBatch, true},
		{elf.EM_X86_64, le, "cc89f45589", "e911223344", timeline.PokeBatch, true}, // a kprobe being optimised
		{elf.EM_X86_64, le, "49", "cc", timeline.PokeArmed, true},
		{elf.EM_X86_64, le, "cc", "49", timeline.PokeDisarmed, true},
		{elf.EM_X86_64, le, "e911223344", "cc89f45589", timeline.PokeUnoptimised, true},
		{elf.EM_X86_64, le, "", "5589e5", timeline.PokeCreated, false},
		{elf.EM_X86_64, le, "5589e5", "", timeline.PokeRemoved, false},
		{elf.EM_NONE, le, "49", "cc", timeline.PokeArmed, true}, // x86, as far as anything says

		{elf.EM_AARCH64, le, "1f2003d5", "0e000014", timeline.PokeBatch, true},  // nop -> b
		{elf.EM_AARCH64, be, "1f2003d5", "ffffff97", timeline.PokeBatch, true},  // nop -> bl: instructions are little-endian
		{elf.EM_AARCH64, le, "fd7bbfa9", "1f2003d5", timeline.PokeBatch, false}, // not one that a CPU may run meanwhile
		{elf.EM_AARCH64, le, "00112233445566ff", "00112233885566ff", timeline.PokeBatch, false},
		{elf.EM_AARCH64, le, "e9031eaa", "800020d4", timeline.PokeArmed, true},
		{elf.EM_AARCH64, le, "800020d4", "e9031eaa", timeline.PokeDisarmed, true},
		{elf.EM_AARCH64, le, "1f2003d5", "000020d4", timeline.PokeBatch, false}, // BRK by itself: the trap is the new bytes
		{elf.EM_AARCH64, le, "000020d4", "0e000014", timeline.PokeBatch, true},
		{elf.EM_AARCH64, le, "800020d4", "800020d4", timeline.PokeBatch, false},
		{elf.EM_AARCH64, le, "", "800020d4", timeline.PokeCreated, false},

		{elf.EM_PPC64, be, "60000000", "4ba97de5", timeline.PokeBatch, false}, // nop -> bl
		{elf.EM_PPC64, le, "00000060", "e57da94b", timeline.PokeBatch, false},
		{elf.EM_PPC64, be, "fbe1fff8", "7fe00008", timeline.PokeArmed, true},
		{elf.EM_PPC64, le, "f8ffe1fb", "0800e07f", timeline.PokeArmed, true},
		{elf.EM_PPC64, be, "0610000039e00001", "7fe0000839e00001", timeline.PokeArmed, true}, // a prefixed instruction
		{elf.EM_PPC64, le, "0800e07f", "f8ffe1fb", timeline.PokeDisarmed, true},
		{elf.EM_PPC64, be, "7fe00008", "48001234", timeline.PokeBatch, false}, // optimised: b to its slot
		{elf.EM_PPC64, be, "48001234", "7fe00008", timeline.PokeUnoptimised, true},
		{elf.EM_PPC64, be, "", "48001234", timeline.PokeCreated, false},

		{elf.EM_S390, be, "c004003b8834", "c0f4003b8834", timeline.PokeBatch, false}, // brcl 0 -> brcl 15
		{elf.EM_S390, be, "eb6ff0480024", "0002f0480024", timeline.PokeArmed, true},
		{elf.EM_S390, be, "eb6f", "0002", timeline.PokeArmed, true},
		{elf.EM_S390, be, "0002", "eb6f", timeline.PokeDisarmed, true},
	} {
		old, new := hexCode(tt.old), hexCode(tt.new)
		got := KindOfPoke(tt.machine, tt.order, old, new)
		if got != tt.want {
			t.Errorf("%v %s -> %s: %v, want %v", tt.machine, tt.old, tt.new, got, tt.want)
		}
		if len(old) > 0 && len(old) <= 8 && len(new) > 0 && len(new) <= 8 && tt.order != be {
			var kinds, want Kinds
			want[got]++
			if kinds.AddShort(tt.machine, []timeline.ShortPoke{{Old: number(old), New: number(new)}}, len(old), len(new)); kinds != want {
				t.Errorf("%v %s -> %s: AddShort counts %v, KindOfPoke gives %v", tt.machine, tt.old, tt.new, kinds, got)
			}
		}
		if traps := CanTrap(tt.machine, got, old, new); traps != tt.traps {
			t.Errorf("%v %s -> %s: a trap may stand there: %v, want %v", tt.machine, tt.old, tt.new, traps, tt.traps)
		}
	}
}

// number returns up to 8 bytes as a little-endian number.
func number(b []byte) uint64 {
	return binary.LittleEndian.Uint64(append(bytes.Clone(b), make([]byte, 8)...))
}

func TestEmulate(t *testing.T) {
	const addr = 0x1000
	for _, tt := range []struct {
		machine elf.Machine
		insn    string
		want    TrapEffect
	}{
		{elf.EM_X86_64, "0f1f440000", TrapEffect{Kind: TrapNop}},
		{elf.EM_X86_64, "6690", TrapEffect{Kind: TrapNop}},
		{elf.EM_X86_64, "e9fb0f0000", TrapEffect{Kind: TrapJump, Target: 0x2000}},
		{elf.EM_X86_64, "ebfe", TrapEffect{Kind: TrapJump, Target: addr}},
		{elf.EM_X86_64, "740e", TrapEffect{Kind: TrapBranch, Target: 0x1010}},
		{elf.EM_X86_64, "0f84fa0f0000", TrapEffect{Kind: TrapBranch, Target: 0x2000}},
		{elf.EM_X86_64, "e8fb0f0000", TrapEffect{Kind: TrapCall, Target: 0x2000, Return: 0x1005}},
		{elf.EM_X86_64, "c3cccccccc", TrapEffect{Kind: TrapReturn}},
		{elf.EM_X86_64, "cc", TrapEffect{Kind: TrapProbe}},
		{elf.EM_X86_64, "4889e5", TrapEffect{}},
		{elf.EM_AARCH64, "1f2003d5", TrapEffect{Kind: TrapNop}},
		{elf.EM_AARCH64, "00040014", TrapEffect{Kind: TrapJump, Target: 0x2000}},
		{elf.EM_AARCH64, "ffffff97", TrapEffect{Kind: TrapCall, Target: 0xffc, Return: 0x1004, Links: true}},
		{elf.EM_AARCH64, "800020d4", TrapEffect{Kind: TrapProbe}},
		{elf.EM_AARCH64, "fd7bbfa9", TrapEffect{}},
		{elf.EM_PPC64, "7fe00008", TrapEffect{Kind: TrapProbe}},
		{elf.EM_S390, "0002", TrapEffect{Kind: TrapProbe}},
		{elf.EM_RISCV, "00000000", TrapEffect{}},
	} {
		if got := Emulate(tt.machine, addr, hexCode(tt.insn)); got != tt.want {
			t.Errorf("%v %s: %+v, want %+v", tt.machine, tt.insn, got, tt.want)
		}
	}
}

func TestTrapOf(t *testing.T) {
	for _, tt := range []struct {
		machine elf.Machine
		order   binary.ByteOrder
		code    string
		n       int
		ok      bool
	}{
		{elf.EM_X86_64, binary.LittleEndian, "cc89f455", 1, true},
		{elf.EM_X86_64, binary.LittleEndian, "90", 1, false},
		{elf.EM_X86_64, binary.LittleEndian, "", 1, false},
		{elf.EM_AARCH64, binary.LittleEndian, "000020d4", 4, true}, // brk #0
		{elf.EM_AARCH64, binary.LittleEndian, "800020d4", 4, true}, // brk #4: a kprobe
		{elf.EM_AARCH64, binary.BigEndian, "800020d4", 4, true},    // of a big-endian kernel
		{elf.EM_AARCH64, binary.LittleEndian, "1f2003d5", 4, false},
		{elf.EM_PPC64, binary.LittleEndian, "0800e07f", 4, true},
		{elf.EM_PPC64, binary.BigEndian, "7fe00008", 4, true},
		{elf.EM_PPC64, binary.BigEndian, "60000000", 4, false},
		{elf.EM_S390, binary.BigEndian, "0002f0480024", 2, true},
		{elf.EM_S390, binary.BigEndian, "eb6ff0480024", 2, false},
		{elf.EM_RISCV, binary.LittleEndian, "73001000", 0, false},
	} {
		if n, ok := trapOf(tt.machine, tt.order, hexCode(tt.code)); n != tt.n || ok != tt.ok {
			t.Errorf("%v %s: %d %v, want %d %v", tt.machine, tt.code, n, ok, tt.n, tt.ok)
		}
	}
}

// hexCode returns bytes that are given in hexadecimal.
func hexCode(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}
