// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package main

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"sync"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// pageSize is TEXTREPLAY_PAGE_SIZE.
const pageSize = 4096

// history answers questions about intervals of time. It is safe for concurrent use: each question
// takes a cursor of its own, and puts it back for the next one.
type history struct {
	r    *replay.Replay
	dis  *disasm.Disassembler // nil if there is none for the architecture
	mu   sync.Mutex
	free []*replay.Cursor
}

func (h *history) init(r *replay.Replay) {
	h.r = r
	h.dis, _ = disasm.New(r.Machine(), r.Recording.ByteOrder())
}

func (h *history) cursor() *replay.Cursor {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.free); n > 0 {
		c := h.free[n-1]
		h.free = h.free[:n-1]
		return c
	}
	return h.r.Cursor()
}

func (h *history) put(c *replay.Cursor) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.free = append(h.free, c)
}

// read reads len(buf) bytes at addr at time t.
func (h *history) read(addr, t uint64, buf []byte) timeline.Block {
	c := h.cursor()
	defer h.put(c)
	return c.Read(addr, t, buf)
}

// windows returns the windows over [lo, hi) that are open at some time of [from, until), by
// the times of their pokes.
func (h *history) windows(lo, hi, from, until uint64) []timeline.Window {
	if lo >= hi || from >= until {
		return nil
	}
	c := h.cursor()
	defer h.put(c)
	return c.AppendWindows(nil, lo, hi-lo, from, until-1)
}

// invalidations yields the changes of [lo, hi) in [from, until), by address, then by time.
func (h *history) invalidations(lo, hi, from, until uint64) iter.Seq[timeline.Invalidation] {
	if from == 0 {
		from = 1 // nothing changes at 0
	}
	if from >= until {
		return func(func(timeline.Invalidation) bool) {}
	}
	return h.r.Image.Invalidations(lo, hi, from-1, until-1)
}

// changingPages returns the addresses of the pages in [lo, hi) that change or have a window in
// [from, until), ascending.
func (h *history) changingPages(lo, hi, from, until uint64) []uint64 {
	seen := make(map[uint64]struct{})
	add := func(a, b uint64) {
		a, b = max(a, lo), min(b, hi)
		for p := a &^ (pageSize - 1); p < b && p >= a&^(pageSize-1); p += pageSize {
			seen[p] = struct{}{}
		}
	}
	for c := range h.invalidations(lo, hi, from, until) {
		add(c.Lo, c.Hi)
	}
	for _, w := range h.windows(lo, hi, from, until) {
		add(w.Addr, w.Addr+uint64(w.Len))
	}
	return slices.Sorted(maps.Keys(seen))
}

// An alternative is something that a CPU may run inside a window; see
// textreplay_alternative.
type alternative struct {
	from, until, change uint64
	target, next        uint64
	choice, effect      uint8
	n                   int
	bytes               [16]byte
}

// As enum textreplay_choice.
const (
	before = 1
	after  = 2
	trap   = 3
)

// alternatives returns what a CPU may run at addr at time t if a window is open there: the
// bytes of that time, then the trap, then the bytes right before the change and right after
// it. What is the same is listed once: bytes that are there before one change and come back with
// another one are listed for both. [replay.Cursor.Alternatives] lists the same instructions and
// traps.
//
// Where it is not known when changes were made, the bytes at the times of their records say nothing: then the sides
// are those of the changes that are in flight.
func (h *history) alternatives(addr, t uint64) (out []alternative) {
	im, windows := h.r.Image, h.windows(addr, addr+1, t, t+1)
	now := h.readInstruction(addr, t)
	blurred := now.Standing == timeline.InFlight && now.Reason == timeline.ClockUncertainty
	if blurred {
		out = h.sides(nil, addr, t)
		slices.SortStableFunc(out, func(a, b alternative) int { return cmp.Compare(b.choice, a.choice) }) // what is read first
		for i := range out {
			a := &out[i]
			a.from, a.until = min(a.from, now.Since), max(a.until, now.Until)
			if len(windows) > 0 {
				a.change = windows[0].Switch
			}
		}
	}
	for _, w := range windows {
		side := func(t uint64) *alternative {
			a := &alternative{choice: after, from: w.Switch, until: w.Proven.To}
			if t < w.Switch {
				a.choice, a.from, a.until = before, w.Proven.From, w.Switch
			}
			a.n = im.At(t).Read(addr, a.bytes[:]).Given
			return a
		}
		this := side(t)
		tr := &alternative{choice: trap, from: w.Proven.From, until: w.Proven.To, bytes: this.bytes, n: this.n}
		h.putTrap(tr, &w, addr)
		list := []*alternative{tr}
		if !blurred {
			list = []*alternative{this, tr, side(w.Switch - 1), side(w.Switch)}
		}
		for _, a := range list {
			a.change = w.Switch
			if a.n > 0 && !slices.ContainsFunc(out, a.isSame) {
				out = append(out, *a)
			}
		}
	}
	if now.Standing == timeline.InFlight && !blurred {
		out = h.sides(out, addr, t)
	}
	same := im.At(t).SameNames(addr) // a window may be open for longer than its code is there
	for i := range out {
		if a := &out[i]; a.choice != trap {
			a.from, a.until = max(a.from, same.From), min(a.until, same.To)
		}
	}
	return out
}

// isSame reports whether o is the trap of the same change, or the same bytes at a time that is not
// another one.
func (a *alternative) isSame(o alternative) bool {
	if a.choice == trap || o.choice == trap {
		return a.choice == o.choice && a.change == o.change
	}
	return a.bytes == o.bytes && a.from <= o.until && o.from <= a.until
}

// readInstruction returns the answer for the bytes of the instruction at addr at time t. Where the
// architecture has no disassembler it is that of the first byte.
func (h *history) readInstruction(addr, t uint64) timeline.Block {
	var code [16]byte
	b := h.read(addr, t, code[:])
	if b.Standing == timeline.Known || b.Given == 0 {
		return b
	}
	n := 1
	if h.dis != nil {
		n = max(n, len(h.dis.Decode(code[:b.Given], addr).Bytes))
	}
	return h.read(addr, t, code[:n])
}

// sides adds all sides of the changes that are in flight at addr at time t: what is read is
// one of them.
func (h *history) sides(out []alternative, addr, t uint64) []alternative {
	c := h.cursor()
	defer h.put(c)
	for _, a := range c.Alternatives(addr, t, t) {
		if a.Trap || !a.Possible {
			continue
		}
		x := alternative{choice: before, from: a.Since, until: a.Until, change: a.Since, n: len(a.Inst.Bytes)}
		copy(x.bytes[:], a.Inst.Bytes)
		if b := make([]byte, x.n); h.read(addr, t, b).Given == x.n && string(b) == string(a.Inst.Bytes) {
			x.choice = after // what is read of a change in flight is its new side
		}
		if !slices.ContainsFunc(out, func(o alternative) bool {
			return o.choice != trap && string(o.bytes[:min(o.n, x.n)]) == string(x.bytes[:x.n])
		}) {
			out = append(out, x)
		}
	}
	return out
}

// putTrap sets the effect of w's trap in a, and its bytes if the trap is at addr.
func (h *history) putTrap(a *alternative, w *timeline.Window, addr uint64) {
	e := h.r.Effect(w)
	a.effect, a.target, a.next = uint8(e.Kind), e.Target, e.Next
	if addr != w.Addr {
		a.n = 0 // the trap is elsewhere in the place
		return
	}
	insn := patching.TrapCode(h.r.Machine(), h.r.Recording.ByteOrder())
	copy(a.bytes[:], insn)
	a.n = max(a.n, len(insn))
}
