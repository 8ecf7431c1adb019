// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"iter"
)

// A call thunk counts a call, for call-depth tracking, with one instruction
// (INCREMENT_CALL_DEPTH, arch/x86/include/asm/nospec-branch.h):
//
//	65 48 c1 3c 25 ABS32 05   sarq $5, %gs:ABS32         10 bytes, before Linux 6.8
//	65 48 c1 3d REL32 05      sarq $5, %gs:REL32(%rip)    9 bytes, since
//
// Distributions have it at older version numbers, so only the text shows whether a kernel
// has it.
var (
	thunkHead    = []byte{0x65, 0x48, 0xc1} // sarq, in the CPU's own area
	thunkAddress = [...][]byte{{0x3c, 0x25}, {0x3d}}
)

const (
	thunkShift = 5 // the last byte of the instruction
	// thunkSize is the least size of a call thunk (SKL_TMPL_SIZE).
	thunkSize = 9
	// paddingSize is the most that a compiler leaves before a function
	// (CONFIG_FUNCTION_PADDING_BYTES). A thunk lies at its end.
	paddingSize = 64
	nop         = 0x90
)

// thunkLen returns the length of the call thunk that text, which begins with thunkHead,
// begins with, 0 if there is none.
func thunkLen(text []byte) int {
	for _, address := range thunkAddress {
		end := len(thunkHead) + len(address) + 4
		if bytes.HasPrefix(text[len(thunkHead):], address) && len(text) > end && text[end] == thunkShift {
			return end + 1
		}
	}
	return 0
}

// CallThunks yields the offset and the length in bytes of each call thunk in text of an x86-64 kernel, by offset
// (INCREMENT_CALL_DEPTH, arch/x86/include/asm/nospec-branch.h). That a large copy of text has none shows that the
// kernel writes none.
func CallThunks(text []byte) iter.Seq2[int, int] {
	return func(yield func(at, n int) bool) {
		for at := 0; ; at++ {
			i := bytes.Index(text[at:], thunkHead)
			if i < 0 {
				return
			}
			at += i
			if n := thunkLen(text[at:]); n > 0 && !yield(at, n) {
				return
			}
		}
	}
}

// thunkPadding returns the ranges of core text and of modules into which the kernel may
// write a call thunk with no record (rule coverage). With call-depth tracking
// (retbleed=stuff), patch_dest() in arch/x86/kernel/callthunks.c writes one over the NOPs
// before a function when a static call first targets it, and when a module that calls it
// is loaded. All of them must be one-byte NOPs. The ranges of all copies of text count.
// written are the ranges of the thunks that the snapshot has. The kernel removes no thunk,
// so they stay, but they may have been written until the snapshot was taken.
func (d *build) thunkPadding() (padding, written []Range) {
	copies := [][]Segment{d.snapshot.Segments}
	for _, s := range d.Builder.snapshots {
		copies = append(copies, s.Segments)
	}
	if !d.callThunks || !d.mayHaveThunks(copies) {
		return nil, nil
	}
	texts := []Range{{d.textLo, d.textHi}}
	for _, m := range d.modules {
		texts = append(texts, Range{m.Addr, m.TextEnd})
	}
	texts = joinRanges(texts, false) // nothing follows the padding at the end of a text, though another touches it
	for _, segments := range copies {
		for _, r := range texts {
			for _, s := range Overlapping(segments, r.Lo, r.Hi) {
				padding = appendPadding(padding, s, r)
				// A thunk that the first copy does not have may have been written at any time.
				for at, n := range CallThunks(s.Data) {
					thunk := Segment{s.Addr + uint64(at), s.Data[at : at+n]}
					first := Overlapping(d.snapshot.Segments, thunk.Addr, thunk.End())
					if len(first) != 1 || !bytes.Equal(first[0].Data, thunk.Data) {
						padding = append(padding, Range{thunk.Addr, thunk.End()})
					} else {
						written = append(written, Range{thunk.Addr, thunk.End()})
					}
				}
			}
		}
	}
	return JoinRanges(padding), JoinRanges(written)
}

// appendPadding appends the runs of NOPs in s, a part of text, that may be padding before a function. A run at
// an end of s may go on where the copy has no text.
func appendPadding(out []Range, s Segment, text Range) []Range {
	first := 0 // NOPs at the beginning
	for first < len(s.Data) && s.Data[first] == nop {
		first++
	}
	if first > 0 && s.Addr > text.Lo && s.Addr+uint64(first) < text.Hi {
		out = append(out, Range{s.Addr + uint64(max(0, first-paddingSize)), s.Addr + uint64(first)})
	}
	last := 0 // NOPs at the end
	for last < min(len(s.Data), paddingSize) && s.Data[len(s.Data)-1-last] == nop {
		last++
	}
	if last > 0 && s.End() < text.Hi {
		out = append(out, Range{s.End() - uint64(last), s.End()})
	}
	nops := bytes.Repeat([]byte{nop}, thunkSize)
	for at := 0; ; {
		i := bytes.Index(s.Data[at:], nops)
		if i < 0 {
			return out
		}
		at += i
		end := at + thunkSize
		for end < len(s.Data) && s.Data[end] == nop {
			end++
		}
		if s.Addr+uint64(end) < text.Hi { // else no function follows
			out = append(out, Range{s.Addr + uint64(max(at, end-paddingSize)), s.Addr + uint64(end)})
		}
		at = end
	}
}

// mayHaveThunks reports whether a copy of core text has a call thunk, or no copy is large
// enough to show that there are none. A kernel that writes thunks has written thousands
// at boot, so a large copy without one shows that the kernel writes none. Thunks need not be at
// the beginning of text: with CONFIG_PROPELLER_CLANG, first come parts that were split from
// functions (TEXT_SPLIT in include/asm-generic/vmlinux.lds.h), which nothing calls.
func (d *build) mayHaveThunks(copies [][]Segment) bool {
	const enough = 1 << 20
	none := false
	for _, segments := range copies {
		for _, s := range Overlapping(segments, d.textLo, d.textHi) {
			for range CallThunks(s.Data) {
				return true
			}
			none = none || len(s.Data) >= enough
		}
	}
	return !none
}
