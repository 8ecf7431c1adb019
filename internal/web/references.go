// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"debug/elf"
	"encoding/binary"
	"slices"

	"github.com/textreplay/textreplay/timeline"
)

// mostReferences is how many places references returns at most.
const mostReferences = 200

// canRefer reports whether references can read the kernel's code.
func (s *session) canRefer() bool {
	lo, hi := s.r.Image.Text()
	return (s.r.Machine() == elf.EM_X86_64 || s.r.Machine() == elf.EM_AARCH64) && hi-lo <= 1<<28
}

// references returns the places in core kernel text where an instruction, or two of arm64, has an
// address: on x86-64 where the address is within the instruction, on arm64 the ADRP.
func (s *session) references(v timeline.View, addr uint64) (found []uint64) {
	if !s.canRefer() {
		return nil
	}
	// An instruction, or two that belong together, may extend beyond the end of a piece.
	const piece, more = 1 << 16, 64
	lo, hi := s.r.Image.Text()
	buf := make([]byte, piece+more)
	for at := lo; at < hi && len(found) < mostReferences; at += piece {
		if at&(1<<20-1) == 0 && s.large {
			s.r.Unload() // all of kernel text is read
		}
		n := min(uint64(len(buf)), hi-at)
		b := buf[:n]
		if v.Read(at, b).Given < int(n) {
			clear(b)
			for sp := range v.Spans(at, n) {
				copy(b[sp.Addr-at:], sp.Bytes)
			}
		}
		if s.r.Machine() == elf.EM_X86_64 {
			found = s.referencesX86(found, v, b, min(piece, len(b)), at, addr)
		} else {
			found = referencesARM64(found, b, min(piece, len(b)), at, addr)
		}
	}
	return found
}

// referencesX86 appends to found the places in the first n bytes of b that refer to addr. b is at
// the address at. A place has the address in 32 bits: sign-extended, or relative to the end of the
// instruction.
func (s *session) referencesX86(found []uint64, v timeline.View, b []byte, n int, at, addr uint64) []uint64 {
	absolute := uint32(addr)
	if uint64(int64(int32(absolute))) != addr {
		absolute = 0
	}
	want := uint32(addr - at) // relative to the start of b
	for i := 0; i+4 <= len(b) && i < n && len(found) < mostReferences; i++ {
		x := binary.LittleEndian.Uint32(b[i:])
		// An instruction ends at most 4 bytes after its displacement.
		if gap := want - x - uint32(i); x != absolute && (gap < 4 || gap > 8) || x == 0 {
			continue
		}
		if pos := at + uint64(i); s.refersTo(v, pos, addr) {
			found = append(found, pos)
		}
	}
	return found
}

// referencesARM64 appends to found the ADRP instructions in the first n bytes of b that refer to
// addr with one of the next 15 instructions. b is at the address at. ADRP has the page. The rest
// is in one or two ADDs, or in the offset of a load or store.
func referencesARM64(found []uint64, b []byte, n int, at, addr uint64) []uint64 {
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(b[i:]) }
	for i := 0; i+4 <= n && len(found) < mostReferences; i += 4 {
		w := word(i)
		if w&0x9f000000 != 0x90000000 {
			continue
		}
		pages := int64(int32(w>>5&0x7ffff<<13|w>>29&3<<11) >> 11) // 21 bits, with a sign
		page := (at+uint64(i))&^0xfff + uint64(pages<<12)
		if addr-page >= 2<<12 {
			continue // two ADDs reach the next page
		}
		var value [32]uint64 // of registers, 0: not known
		value[w&31] = page
		for j := i + 4; j+4 <= len(b) && j < i+64; j += 4 {
			x := word(j)
			from, imm := value[x>>5&31], uint64(x>>10&0xfff)
			if from == 0 {
				continue
			}
			if x&0xffc00000 == 0x91000000 { // ADD Xd, Xn, #imm
				from += imm
				value[x&31] = from
			} else if x&0x3b000000 == 0x39000000 { // LDR, STR [Xn, #imm]
				from += imm << (x >> 30)
			} else {
				continue
			}
			if from == addr {
				found = append(found, at+uint64(i))
				break
			}
		}
	}
	return found
}

// refersTo reports whether the 32 bits at pos are the part of an instruction that refers to addr.
// It decodes the function from its start, unless that is larger than 64 KiB.
func (s *session) refersTo(v timeline.View, pos, addr uint64) bool {
	sym, ok := v.Symbol(pos)
	if !ok || sym.Size == 0 || pos-sym.Addr >= sym.Size || sym.Size > 1<<16 {
		return false
	}
	for _, in := range s.text.Insts(v, sym.Addr, sym.Size, nil) {
		if n := uint64(len(in.Bytes)); in.Addr < pos && pos < in.Addr+n && !in.Data {
			off := pos - in.Addr
			x := binary.LittleEndian.Uint32(append(slices.Clone(in.Bytes[off:]), 0, 0, 0, 0))
			absolute := uint64(int64(int32(x)))
			return off+4 <= n && (absolute == addr || in.Addr+n+absolute == addr)
		}
	}
	return false
}
