// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"
	"strings"
)

// A copy of text may show the trap of a change of which there is no record: that was made
// before the recording, after its end, or it was lost (rule snapshot). Most bytes of INT3 in
// text are padding, or part of another instruction. These are not:
//
//	cc 1f 44 00 00   the NOP of 5 bytes, 0f 1f 44 00 00, but for its first byte
//	cc REL32         a CALL or JMP to out-of-line code, but for its first byte
//	cc REL32         the same, at the entry of a function, to another one, or to code of which
//	                 there is no record
//	cc REL32         a static call, to a function to which a trampoline of static calls leads
//	cc REL32         an instruction, from where a JMP would lead to another place of its function:
//	                 a static key
//
// All but the first may also be kprobes that were armed before the recording. Nothing tells them
// apart.
//
// Without symbols, functions may begin wherever their alignment allows, and static calls may lead to
// any of these places.

// A trapFinder finds such places.
type trapFinder struct {
	d     *build
	texts []Range         // of the kernel and of modules
	code  []Range         // where a branch to other code may lead: to its begin, or anywhere out of line
	far   Range           // has all of these and of the modules
	calls map[uint64]bool // where static calls lead

	decoded decoding
}

const (
	trapSize           = 5
	longestInstruction = 15 // of x86
	shortTrapSize      = 2  // of a JMP REL8, or its NOP
	nopTail            = 0x0000441f
	jmp32              = 0xe9
	// entryAlign is how trampolines are aligned: those of ftrace have a page, those of BPF begin a
	// chunk (BPF_PROG_CHUNK_SIZE).
	entryAlign = 64
	// functionAlign is how the kernel aligns functions (CONFIG_FUNCTION_ALIGNMENT of x86, or more).
	functionAlign = 16
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
			begin := Range{l.Lo, l.Lo + 1}
			if l.Kind == OutOfLine {
				begin.Hi = max(begin.Hi, l.Hi)
			}
			if n := len(f.code); n == 0 || f.code[n-1] != begin {
				f.code = append(f.code, begin)
			}
		case ModuleText:
			f.texts = append(f.texts, Range{l.Lo, l.Hi})
		default:
			continue
		}
		f.far = Range{min(f.far.Lo, l.Lo), max(f.far.Hi, l.Hi)}
	}
	f.texts, f.code = JoinRanges(f.texts), JoinRanges(f.code)
	f.calls = d.staticCalls(segments)
	var pieces []trapPiece
	for _, r := range f.texts {
		for _, s := range Overlapping(segments, r.Lo, r.Hi) {
			pieces = cutForTraps(pieces, s)
		}
	}
	found := make([][]Range, len(pieces))
	eachInParallel(len(pieces), func(i int) {
		w := f // has a decoding of its own
		found[i] = w.in(pieces[i])
	})
	return slices.Concat(found...)
}

// A trapPiece is a part of a segment, of its bytes [from, to), in which places are looked for. Which
// these are depends on what is around it in the segment, but not on whether there are any.
type trapPiece struct {
	Segment
	from, to int
}

// trapPieceSize is about how many bytes a piece has. Tests change it.
var trapPieceSize = 1 << 20

// cutForTraps appends the pieces of a segment. Before each but the first one are so many bytes without an
// INT3 that no place and no padding reaches into the piece.
func cutForTraps(pieces []trapPiece, s Segment) []trapPiece {
	for from := 0; from < len(s.Data); {
		to := min(from+trapPieceSize, len(s.Data))
		for clear := 0; clear < trapSize && to < len(s.Data); to++ {
			if clear++; s.Data[to] == int3 {
				clear = 0
			}
		}
		pieces = append(pieces, trapPiece{s, from, to})
		from = to
	}
	return pieces
}

// loneTraps returns the bytes of INT3, by address, that may be the trap of any change, with the bytes
// behind them that it may have changed: one more, as a short JMP has, or four more of a JMP inside of a
// function. A kprobe has its record after its trap, too. Few of them are traps, so this is for code
// of which one copy is all that is known, and where a record may be missing.
func (d *build) loneTraps(segments []Segment, lives []*Lifetime) (lone []Range) {
	if d.silentPokes {
		return nil
	}
	f := trapFinder{d: d}
	var code []Range
	add := func(lo, hi uint64) {
		if lo < hi {
			code = append(code, Range{lo, hi})
		}
	}
	for _, l := range lives {
		switch l.Kind {
		case ModuleText, BPFProgram, BPFImage:
			add(l.Lo, l.Hi)
		}
	}
	// What the snapshot has of core text is another copy of it.
	at := d.textLo
	for _, s := range Overlapping(d.snapshot.Segments, d.textLo, d.textHi) {
		add(at, s.Addr)
		at = s.End()
	}
	add(at, d.textHi)
	for _, r := range JoinRanges(code) {
		for _, s := range segments {
			for addr := max(r.Lo, s.Addr); addr < min(r.Hi, s.End()); addr++ {
				i := bytes.IndexByte(s.Data[addr-s.Addr:min(r.Hi, s.End())-s.Addr], int3)
				if i < 0 {
					break
				}
				addr += uint64(i)
				if n := f.loneTrap(s, addr); n > 0 {
					lone = append(lone, Range{addr, min(addr+n, r.Hi, s.End())})
				}
			}
		}
	}
	return JoinRanges(lone)
}

// loneTrap returns how many bytes a change may have changed whose trap is at addr; 0: it is padding.
func (f *trapFinder) loneTrap(s Segment, addr uint64) uint64 {
	b := s.Data[addr-s.Addr:]
	if addr > s.Addr && s.Data[addr-s.Addr-1] == int3 && len(b) > 1 && b[1] == int3 {
		return 0
	}
	if f.isFunction(addr + 1) {
		return 0
	}
	if len(b) >= trapSize {
		from, ok := f.function(addr)
		to, leads := f.function(branchTarget(addr, binary.LittleEndian.Uint32(b[1:])))
		if ok && leads && from == to {
			return trapSize
		}
	}
	return shortTrapSize
}

// in returns the places in a piece. Text has very many bytes of INT3, and few of them
// are of any interest.
func (f *trapFinder) in(p trapPiece) (traps []Range) {
	s, text := p.Segment, Range{f.d.textLo, f.d.textHi}
	for at := p.from; ; at++ {
		i := -1
		if at < p.to {
			i = bytes.IndexByte(s.Data[at:p.to], int3)
		}
		if i < 0 || at+i+trapSize > len(s.Data) {
			return traps
		}
		at += i
		for s.Data[at+1] == int3 && at+1+trapSize < len(s.Data) {
			at++ // of padding only the last byte may be a trap
		}
		tail := binary.LittleEndian.Uint32(s.Data[at+1:])
		addr := s.Addr + uint64(at)
		target := branchTarget(addr, tail)
		near := target-text.Lo < text.Hi-text.Lo || f.far.Lo <= target && target < f.far.Hi
		if tail != nopTail && !(near && (f.isCode(s.Data[:at], addr, target) || f.isKey(s, addr, target))) &&
			!f.isLostCall(s.Data[:at], addr, target) || f.isBefore(addr) {
			continue
		}
		traps = append(traps, Range{addr, addr + trapSize})
		at += trapSize - 1
	}
}

// staticCalls returns where the static calls of these segments lead, as their trampolines do
// (STATIC_CALL_TEXT in include/asm-generic/vmlinux.lds.h): JMP REL32, aligned to four bytes.
func (d *build) staticCalls(segments []Segment) map[uint64]bool {
	if d.names == nil {
		return nil
	}
	begin, end := d.names.Lookup("__static_call_text_start"), d.names.Lookup("__static_call_text_end")
	if len(begin) == 0 || len(end) == 0 {
		return nil
	}
	calls := make(map[uint64]bool)
	for _, s := range Overlapping(segments, begin[0].Addr, end[0].Addr) { // nothing if kallsyms is damaged, and the end comes first
		for at := int(-s.Addr & 3); at+trapSize <= len(s.Data); at += 4 {
			if b := s.Data[at:]; b[0] == jmp32 || b[0] == int3 {
				calls[branchTarget(s.Addr+uint64(at), binary.LittleEndian.Uint32(b[1:]))] = true
			}
		}
	}
	return calls
}

// branchTarget returns where a CALL or a JMP at addr leads: REL32 counts from its end.
func branchTarget(addr uint64, rel uint32) uint64 {
	return addr + trapSize + uint64(int64(int32(rel)))
}

// isCode reports whether a CALL or a JMP at addr, behind the bytes before it, may lead to target: to
// out-of-line code or to a function.
func (f *trapFinder) isCode(before []byte, addr, target uint64) bool {
	if inRanges(f.code, target) {
		return true
	}
	if !inRanges(f.texts, target) || !f.mayBegin(target) {
		return false
	}
	return f.isEntry(before, addr) || (f.calls[target] || f.d.names == nil) && !bytes.HasSuffix(before, []byte{int3})
}

// isLostCall reports whether addr, behind the bytes before it, is the entry of a function, from
// where a CALL may lead to code at target of which there is no record.
func (f *trapFinder) isLostCall(before []byte, addr, target uint64) bool {
	return target%entryAlign == 0 && !inRanges(f.texts, target) && f.isEntry(before, addr)
}

// isKey reports whether the JMP of a static key may be at addr: an instruction that is not behind
// padding, a JMP or a RET, from where a JMP would lead to target, an instruction of the same function, or into the part
// of it that the compiler moved away.
func (f *trapFinder) isKey(s Segment, addr, target uint64) bool {
	if f.d.instruction == nil || f.d.names == nil || addr > s.Addr && s.Data[addr-s.Addr-1] == int3 {
		return false
	}
	from, ok := f.d.names.Find(addr)
	to, leads := f.d.names.Find(target)
	if !ok || !leads || !ofOneFunction(from, to) || !f.mayBeInstruction(s, from.Addr, addr) {
		return false
	}
	if from.Addr >= s.Addr && f.decoded.isUnreached(int(addr-from.Addr)) {
		return false
	}
	return to.Addr != from.Addr || target >= s.End() || f.mayBeInstruction(s, from.Addr, target)
}

// ofOneFunction reports whether two symbols are of one function. GCC names the part that it moves
// away like the function, with .cold behind it.
func ofOneFunction(a, b Symbol) bool {
	if a.Addr == b.Addr {
		return true
	}
	name, _, cold := strings.Cut(a.Name, ".cold")
	other, _, otherCold := strings.Cut(b.Name, ".cold")
	return name == other && cold != otherCold
}

// A decoding says where the instructions of a function may begin, as far as it was asked.
type decoding struct {
	code   []byte // from the function's begin on
	begins []bool // by offset
	next   int    // the offset up to which begins is right
	lost   bool   // something before next is no instruction
}

// isUnreached reports whether an instruction before the one at this offset never goes on to it: a JMP or
// a RET. Compilers put an INT3 behind these, against speculation (CONFIG_MITIGATION_SLS).
func (d *decoding) isUnreached(end int) bool {
	behind := func(n int, is func(code []byte) bool) bool {
		return end >= n && end-n <= d.next && d.begins[end-n] && is(d.code[end-n:])
	}
	return behind(1, func(c []byte) bool { return c[0] == 0xc3 }) ||
		behind(2, func(c []byte) bool { return c[0] == 0xeb || c[0] == 0xff && c[1]&0xf8 == 0xe0 }) ||
		behind(trapSize, func(c []byte) bool { return c[0] == jmp32 })
}

// mayBeInstruction reports whether an instruction may begin at addr, in the function at begin. What
// an INT3 stands for has any length, so all of them are tried. Few functions are asked about, and each
// from its begin to its end, so the last one is kept.
func (f *trapFinder) mayBeInstruction(s Segment, begin, addr uint64) bool {
	if begin < s.Addr {
		return true
	}
	d := &f.decoded
	if code := s.Data[begin-s.Addr:]; len(d.code) != len(code) || &d.code[0] != &code[0] {
		*d = decoding{code: code, begins: append(d.begins[:0], true)}
	}
	end := int(addr - begin)
	for ; d.next < end && !d.lost; d.next++ {
		at := d.next
		for len(d.begins) <= at+longestInstruction {
			d.begins = append(d.begins, false)
		}
		if !d.begins[at] {
			continue
		}
		n := f.d.instructionAt(d.code[at:], begin+uint64(at))
		if d.lost = n <= 0 || n > longestInstruction; d.lost {
			break
		}
		d.begins[at+n] = true
		padding := at > 0 && d.code[at-1] == int3 || d.code[at+1] == int3
		for n = 2; n <= longestInstruction && d.code[at] == int3 && !padding; n++ {
			d.begins[at+n] = true
		}
	}
	return d.begins[min(end, d.next)] // nothing is known behind what is no instruction
}

// instructionAt calls the function of Instructions, from one goroutine at a time.
func (b *Builder) instructionAt(code []byte, addr uint64) int {
	b.asking.Lock()
	defer b.asking.Unlock()
	return b.instruction(code, addr)
}

// isEntry reports whether addr, behind the bytes before it, is the first instruction of a function.
func (f *trapFinder) isEntry(before []byte, addr uint64) bool {
	return f.mayBegin(addr) || bytes.HasSuffix(before, endbr64) && f.mayBegin(addr-uint64(len(endbr64)))
}

// mayBegin reports whether a function may begin at addr. Without symbols any that is aligned as
// functions are may be one.
func (f *trapFinder) mayBegin(addr uint64) bool {
	return f.isFunction(addr) || f.d.names == nil && addr%functionAlign == 0
}

// isBefore reports whether a function begins behind addr, where an instruction of five bytes at addr
// would still be: then this is the padding before the function.
func (f *trapFinder) isBefore(addr uint64) bool {
	begin, ok := f.function(addr + trapSize - 1)
	return ok && begin > addr
}

// isFunction reports whether a symbol is known to begin at addr.
func (f *trapFinder) isFunction(addr uint64) bool {
	begin, ok := f.function(addr)
	return ok && begin == addr
}

// function returns where the symbol begins that has an address.
func (f *trapFinder) function(addr uint64) (begin uint64, ok bool) {
	if f.d.names == nil {
		return 0, false
	}
	s, ok := f.d.names.Find(addr)
	return s.Addr, ok
}

// inRanges reports whether one of these ranges, which are sorted and disjoint, has an address.
func inRanges(ranges []Range, addr uint64) bool {
	i := sort.Search(len(ranges), func(i int) bool { return ranges[i].Hi > addr })
	return i < len(ranges) && ranges[i].Lo <= addr
}
