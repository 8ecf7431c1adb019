// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package patching

import (
	"debug/elf"
	"encoding/binary"

	"github.com/textreplay/textreplay/timeline"
)

// KindOfPoke classifies a poke by its bytes, which is all that its record says.
// order is that of powerpc's instructions; it is ignored for the others.
//
// On arm64, powerpc and s390 the old and the new bytes of a probe have the same
// length. So on powerpc, where an optimised probe is a branch, a probe that is
// set on a branch, or removed from one, looks like an optimised one.
func KindOfPoke(machine elf.Machine, order binary.ByteOrder, old, new []byte) timeline.PokeKind {
	switch {
	case len(old) == 0:
		return timeline.PokeCreated
	case len(new) == 0:
		return timeline.PokeRemoved
	}
	switch machine {
	case elf.EM_AARCH64, elf.EM_PPC64, elf.EM_S390:
		return kindOfWord(machine, order, old, new)
	}
	switch {
	case len(new) == 1 && new[0] == INT3:
		return timeline.PokeArmed
	case len(old) == 1 && old[0] == INT3:
		return timeline.PokeDisarmed
	case new[0] == INT3:
		return timeline.PokeUnoptimised
	}
	return timeline.PokeBatch
}

// Kinds is how many pokes are of each kind.
type Kinds [timeline.PokeRemoved + 1]uint32

// AddShort counts pokes, by [KindOfPoke]. All have oldLen old bytes and newLen new ones. The byte order of the
// machine is little-endian.
func (k *Kinds) AddShort(machine elf.Machine, pokes []timeline.ShortPoke, oldLen, newLen int) {
	usual := uint32(0)
	for i := range pokes {
		old, new := pokes[i].Old, pokes[i].New
		if machine == elf.EM_X86_64 && byte(old) != INT3 && byte(new) != INT3 {
			usual++ // as most are
			continue
		}
		k[kindOfShort(machine, old, new, oldLen, newLen)]++
	}
	k[timeline.PokeBatch] += usual
}

// kindOfShort is [KindOfPoke] for bytes that are given as little-endian numbers.
func kindOfShort(machine elf.Machine, old, new uint64, oldLen, newLen int) timeline.PokeKind {
	var o, n [8]byte
	binary.LittleEndian.PutUint64(o[:], old)
	binary.LittleEndian.PutUint64(n[:], new)
	return KindOfPoke(machine, binary.LittleEndian, o[:oldLen], n[:newLen])
}

func kindOfWord(machine elf.Machine, order binary.ByteOrder, old, new []byte) timeline.PokeKind {
	was, is := isProbe(machine, order, old), isProbe(machine, order, new)
	// Powerpc optimises a probe by a branch to its slot (arch_optimize_kprobes).
	optimised := func(code []byte) bool {
		return machine == elf.EM_PPC64 && len(code) >= 4 && ppcIsB(order.Uint32(code))
	}
	switch {
	case is && !was && optimised(old):
		return timeline.PokeUnoptimised
	case is && !was:
		return timeline.PokeArmed
	case was && !is && !optimised(new):
		return timeline.PokeDisarmed
	}
	return timeline.PokeBatch
}

// isProbe reports whether code begins with the trap of a kprobe.
func isProbe(machine elf.Machine, order binary.ByteOrder, code []byte) bool {
	_, trap := trapOf(machine, order, code)
	return trap && (machine != elf.EM_AARCH64 || binary.LittleEndian.Uint32(code) == arm64BRKKprobe)
}

// CanTrap reports whether a trap may be in the place of the old or the new
// bytes while a poke is made. Where instructions are words, one store replaces
// one by the other. But the method that was proposed for arm64 to record it
// writes a BRK first, where both instructions allow that.
func CanTrap(machine elf.Machine, kind timeline.PokeKind, old, new []byte) bool {
	if kind != timeline.PokeBatch {
		return kind.InPlace()
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
