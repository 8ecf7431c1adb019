// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// thunkReach is the most padding that a kernel puts before a function
// (CONFIG_FUNCTION_PADDING_BYTES).
const thunkReach = 64

// thunkPadding finds the padding before functions into which a poke calls or
// jumps. With call-depth tracking (retbleed=stuff) callthunks_translate_call_dest
// in arch/x86/kernel/callthunks.c writes a thunk there when a static call first
// targets the function: after the snapshot, before the poke, with no record
// (rule 10). Padding that the snapshot shows to be filled already stays.
func (d *build) thunkPadding() []edge {
	if !d.callThunks || d.names == nil {
		return nil
	}
	var out []edge
	for i := range d.sites {
		s := &d.sites[i]
		for c := s.contents; c != 0; c = d.contents[c-1].next {
			k := &d.contents[c-1]
			target, ok := branchTarget(s.addr, d.arena[k.off:][:k.len])
			if !ok || target < d.textLo || target >= d.textHi {
				continue
			}
			if e := (edge{target, d.paddingEnd(target)}); e.lo < e.hi {
				out = append(out, e)
			}
		}
	}
	slices.SortFunc(out, func(a, b edge) int { return cmp.Compare(a.lo, b.lo) })
	merged := out[:0]
	for _, e := range out {
		if n := len(merged); n > 0 && e.lo <= merged[n-1].hi {
			merged[n-1].hi = max(merged[n-1].hi, e.hi)
			continue
		}
		merged = append(merged, e)
	}
	return merged
}

// branchTarget returns where a CALL rel32, JMP rel32 or Jcc rel32 goes.
func branchTarget(addr uint64, insn []byte) (uint64, bool) {
	n := len(insn)
	switch {
	case n == 5 && (insn[0] == 0xe8 || insn[0] == 0xe9):
	case n == 6 && insn[0] == 0x0f && insn[1]&0xf0 == 0x80:
	default:
		return 0, false
	}
	return addr + uint64(n) + uint64(int64(int32(binary.LittleEndian.Uint32(insn[n-4:])))), true
}

// paddingEnd returns the start of the function behind addr, where all bytes
// between are NOPs in the snapshot; else addr.
func (d *build) paddingEnd(addr uint64) uint64 {
	i, found := slices.BinarySearchFunc(d.snapshot.Segments, addr, func(s Segment, a uint64) int { return cmp.Compare(s.Addr, a) })
	if !found {
		i--
	}
	if i < 0 || addr >= d.snapshot.Segments[i].end() {
		return addr
	}
	code := d.snapshot.Segments[i].Data[addr-d.snapshot.Segments[i].Addr:]
	for n := 0; n < thunkReach && n < len(code); {
		if n > 0 {
			if s, ok := d.names.Find(addr + uint64(n)); ok && s.Addr == addr+uint64(n) {
				return s.Addr
			}
		} else if s, ok := d.names.Find(addr); ok && s.Addr == addr {
			return addr // a function of its own
		}
		m := nopLen(code[n:])
		if m == 0 {
			return addr
		}
		n += m
	}
	return addr
}

// nopLen returns the length of the NOP at the start of code, 0 where there is
// none: 90 and 0f 1f /0 with any 66 and 2e prefixes, as x86_nops in
// arch/x86/kernel/alternative.c has them.
func nopLen(code []byte) int {
	n := 0
	for n < len(code) && (code[n] == 0x66 || code[n] == 0x2e) {
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
