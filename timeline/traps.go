// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
)

// A copy of text may show the trap of a change of which there is no record: that was made
// before the recording, after its end, or it was lost (rule snapshot). Most bytes of INT3 in
// text are padding, or part of another instruction. These are not:
//
//	cc 1f 44 00 00   the NOP of 5 bytes, 0f 1f 44 00 00, but for its first byte
//	cc REL32         a CALL or JMP to out-of-line code, but for its first byte
//	cc REL32         at the entry of a function, the same to another function
//
// The last two may also be kprobes that were armed before the recording. Nothing tells them
// apart.

// A trapFinder finds such places.
type trapFinder struct {
	d     *build
	texts []Range     // of the kernel and of modules
	lives []*Lifetime // of other code
	far   Range       // has all of these and of the modules
}

const (
	trapSize = 5
	nopTail  = 0x0000441f
)

var endbr64 = []byte{0xf3, 0x0f, 0x1e, 0xfa}

// findTraps returns the places in segments of text, by address.
func (d *build) findTraps(segments []Segment, lives []*Lifetime) (traps []Range) {
	if d.silentPokes || len(segments) == 0 {
		return nil
	}
	f := trapFinder{d: d, texts: []Range{{d.textLo, d.textHi}}, far: Range{MaxTime, 0}}
	for _, l := range lives {
		switch l.Kind {
		case OutOfLine, BPFImage, BPFProgram:
			f.lives = append(f.lives, l)
		case ModuleText:
			f.texts = append(f.texts, Range{l.Lo, l.Hi})
		default:
			continue
		}
		f.far = Range{min(f.far.Lo, l.Lo), max(f.far.Hi, l.Hi)}
	}
	f.texts = JoinRanges(f.texts)
	for _, r := range f.texts {
		for _, s := range Overlapping(segments, r.Lo, r.Hi) {
			traps = f.in(traps, s)
		}
	}
	return traps
}

// in appends the places in one segment. Text has very many bytes of INT3, and few of them
// are of any interest.
func (f *trapFinder) in(traps []Range, s Segment) []Range {
	text := Range{f.d.textLo, f.d.textHi}
	for at := 0; ; at++ {
		i := bytes.IndexByte(s.Data[at:], int3)
		if i < 0 || at+i+trapSize > len(s.Data) {
			return traps
		}
		at += i
		for s.Data[at+1] == int3 && at+1+trapSize < len(s.Data) {
			at++ // of padding only the last byte may be a trap
		}
		tail := binary.LittleEndian.Uint32(s.Data[at+1:])
		addr := s.Addr + uint64(at)
		target := addr + trapSize + uint64(int64(int32(tail)))
		if tail != nopTail && target-text.Lo >= text.Hi-text.Lo && (target < f.far.Lo || f.far.Hi <= target) || !f.isTrap(s.Data[:at], addr, tail, target) {
			continue
		}
		traps = append(traps, Range{addr, addr + trapSize})
		at += trapSize - 1
	}
}

// isTrap reports whether INT3 at addr, behind the bytes before it, is that of a change. target is
// where a CALL or a JMP with this tail would lead.
func (f *trapFinder) isTrap(before []byte, addr uint64, tail uint32, target uint64) bool {
	switch {
	case tail == nopTail:
		return true
	case slices.ContainsFunc(f.lives, func(l *Lifetime) bool {
		return l.Lo == target || l.Kind == OutOfLine && l.Lo < target && target < l.Hi
	}):
		return true
	case f.d.names == nil || !inRanges(f.texts, target) || !f.isFunction(target):
		return false
	}
	return f.isFunction(addr) || bytes.HasSuffix(before, endbr64) && f.isFunction(addr-uint64(len(endbr64)))
}

// isFunction reports whether a symbol begins at addr.
func (f *trapFinder) isFunction(addr uint64) bool {
	s, ok := f.d.names.Find(addr)
	return ok && s.Addr == addr
}

// inRanges reports whether one of these ranges, which are sorted and disjoint, has an address.
func inRanges(ranges []Range, addr uint64) bool {
	i := sort.Search(len(ranges), func(i int) bool { return ranges[i].Hi > addr })
	return i < len(ranges) && ranges[i].Lo <= addr
}
