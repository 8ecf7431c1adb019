// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"

	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// A sampledWrite is a call of __text_poke of x86-64, before it stores. x86-64 records its
// text pokes, so that these samples change no answer: they are compared with the pokes.
//
//	one poke       INT3   the other bytes   TEXT_POKE   the first byte
//	samples        ●      ●                             ●
type sampledWrite struct {
	time       uint64
	addr, len  uint64
	bytes, now [sampledBytes]byte // what is stored, and what is there before
}

// sampledBytes is how many bytes a sample has of a write.
const sampledBytes = 16

// size returns how many bytes of the write the sample has.
func (w *sampledWrite) size() uint64 { return min(w.len, sampledBytes) }

// end returns the address after the write.
func (w *sampledWrite) end() uint64 { return w.addr + w.len }

// isTrap reports whether the write makes a poke at addr trap.
func (w *sampledWrite) isTrap(addr uint64) bool {
	return w.addr == addr && w.len == 1 && w.bytes[0] == patching.INT3
}

// makes reports whether a write is a step of a poke.
func (w *sampledWrite) makes(p *perfdata.TextPoke) bool {
	if w.isTrap(p.Addr) {
		return true
	}
	off := w.addr - p.Addr
	return w.addr >= p.Addr && off < uint64(len(p.New)) && bytes.HasPrefix(p.New[off:], w.bytes[:w.size()]) && w.end() <= p.Addr+uint64(len(p.New))
}

// crossCheck compares the samples of a probe on __text_poke with the text pokes of kernel
// text, in order of time. The kernel makes one poke after the other (text_mutex).
//
//   - Each write is a step of the poke before it or after it at that place.
//   - Each poke has writes of all bytes that it changes, between the poke before it and
//     the one after it.
//   - Each write finds what the write before it left.
func (c *checker) crossCheck() {
	if c.r.SampledWrites() == 0 {
		return
	}
	s := c.r.scanned()
	lo, hi := c.r.Image.Text()
	writes := slices.Clone(s.probes.stores)
	writes = slices.DeleteFunc(writes, func(w sampledWrite) bool { return w.addr < lo || w.end() > hi })
	slices.SortStableFunc(writes, func(a, b sampledWrite) int { return cmp.Compare(a.time, b.time) })
	pokes := slices.DeleteFunc(c.pokes, func(p *perfdata.TextPoke) bool { return p.Addr < lo || p.Addr >= hi })
	slices.SortStableFunc(pokes, func(a, b *perfdata.TextPoke) int { return cmp.Compare(a.Time, b.Time) })
	pokesAt, writesAt := make(map[uint64][]*perfdata.TextPoke), make(map[uint64][]*sampledWrite)
	for _, p := range pokes {
		for a := p.Addr; a < p.Addr+uint64(len(p.New)); a++ {
			pokesAt[a] = append(pokesAt[a], p)
		}
	}
	memory := make(map[uint64]byte)
	for i := range writes {
		w := &writes[i]
		f := Finding{Time: w.time, Addr: w.addr, Len: w.len}
		for k, b := range w.bytes[:w.size()] {
			at := w.addr + uint64(k)
			if was, ok := memory[at]; ok && was != w.now[k] && f.Kind != WriteMisfit {
				f.Kind, f.Other = WriteMisfit, fmt.Sprintf("%02x at %#x, where the write before it left %02x", w.now[k], at, was)
			}
			memory[at] = b
			writesAt[at] = append(writesAt[at], w)
		}
		if f.Kind == WriteMisfit {
			c.addWrite(f)
		}
		// The poke whose record comes next, or the one before it.
		at := pokesAt[w.addr]
		next, _ := slices.BinarySearchFunc(at, w.time, func(p *perfdata.TextPoke, t uint64) int { return cmp.Compare(p.Time, t) })
		made := next < len(at) && w.makes(at[next]) || next > 0 && w.makes(at[next-1])
		if !made {
			f.Kind, f.Other = WriteNotRecorded, ""
			c.addWrite(f)
		}
	}
	// The event on __text_poke was enabled later than that of text pokes, and was disabled
	// earlier.
	first, last := s.probes.stores[0].time, uint64(0)
	for i := range s.probes.stores {
		first, last = min(first, s.probes.stores[i].time), max(last, s.probes.stores[i].time)
	}
	for _, p := range pokes {
		if p.Time < first || p.Time > last {
			continue
		}
		for k := range p.New {
			addr := p.Addr + uint64(k)
			at := pokesAt[addr]
			i := slices.Index(at, p)
			from, to := uint64(0), timeline.MaxTime
			if i > 0 {
				from = at[i-1].Time
			}
			if i+1 < len(at) {
				to = at[i+1].Time
			}
			written := k < len(p.Old) && p.Old[k] == p.New[k] || slices.ContainsFunc(writesAt[addr], func(w *sampledWrite) bool {
				return from < w.time && w.time < to && w.makes(p) && (w.len > 1 || w.bytes[0] == p.New[k])
			})
			if !written {
				c.addWrite(Finding{Kind: PokeNotWritten, Time: p.Time, Addr: p.Addr, Len: uint64(len(p.New))})
				break
			}
		}
	}
}

// addWrite adds what does not fit. Records that may be missing at that time explain it.
func (c *checker) addWrite(f Finding) {
	for _, l := range c.r.Report.Coverage.Pokes.Limits {
		f.Excused = f.Excused || l.Reason != timeline.OldBytesMismatch && l.From <= f.Time && f.Time < l.To
	}
	// What comes after a loss may have other neighbours.
	f.Excused = f.Excused || slices.ContainsFunc(c.r.Report.Losses, func(l Loss) bool { return l.From <= f.Time })
	c.found = append(c.found, f)
}
