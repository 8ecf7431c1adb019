// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"cmp"
	"slices"
)

// thunkSize is the least size of a call thunk (SKL_TMPL_SIZE).
const thunkSize = 9

// thunkHead begins a call thunk: sarq $5, %gs:__x86_call_depth(%rip).
var thunkHead = []byte{0x65, 0x48, 0xc1, 0x3d}

// thunkPadding finds the places of core text and of modules into which the kernel may write a
// call thunk with no record (rule coverage). With call-depth tracking (retbleed=stuff)
// patch_dest in arch/x86/kernel/callthunks.c writes one over the NOPs before a
// function when a static call first targets it, and when a module that calls
// it is loaded; only where all of them are the one-byte NOP. At boot it has
// done so for thousands of functions already, so a snapshot without a single
// thunk shows that the kernel does not do it.
func (d *build) thunkPadding() []Range {
	if !d.callThunks || !d.mayHaveThunks() {
		return nil
	}
	texts := []Range{{d.textLo, d.textHi}}
	for _, m := range d.modules {
		texts = append(texts, Range{m.Addr, m.TextEnd})
	}
	slices.SortFunc(texts, func(a, b Range) int { return cmp.Compare(a.Lo, b.Lo) })
	nops := bytes.Repeat([]byte{0x90}, thunkSize)
	var out []Range
	for _, r := range texts {
		for _, s := range d.snapshot.Segments {
			lo, hi := max(s.Addr, r.Lo), min(s.end(), r.Hi)
			if lo >= hi {
				continue
			}
			text := s.Data[lo-s.Addr : hi-s.Addr]
			for at := 0; ; {
				i := bytes.Index(text[at:], nops)
				if i < 0 {
					break
				}
				at += i
				end := at + thunkSize
				for end < len(text) && text[end] == 0x90 {
					end++
				}
				out = append(out, Range{lo + uint64(at), lo + uint64(end)})
				at = end
			}
		}
	}
	return out
}

// mayHaveThunks reports whether the snapshot has a call thunk, or is too small
// a part of kernel text to tell.
func (d *build) mayHaveThunks() bool {
	const enough = 1 << 20
	for _, s := range d.snapshot.Segments {
		lo, hi := max(s.Addr, d.textLo), min(s.end(), d.textHi)
		if lo >= hi {
			continue
		}
		text := s.Data[lo-s.Addr : hi-s.Addr]
		part := text[:min(len(text), 4*enough)]
		for i := bytes.Index(part, thunkHead); i >= 0; {
			if thunk := part[i:]; len(thunk) >= thunkSize && thunk[8] == 5 {
				return true
			}
			next := bytes.Index(part[i+1:], thunkHead)
			if next < 0 {
				break
			}
			i += 1 + next
		}
		if len(text) >= enough {
			return false
		}
	}
	return true
}
