// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
)

// A windowIndex finds windows by address, for cursors. It is made once and then read
// without a lock.
//
// Pokes of different length may overlap. So the poked addresses are cut where a poke
// begins or ends, and each piece has the windows of all pokes that cover it, in the order
// of their beginnings:
//
//	pokes      ├──────── JMP of an optimised kprobe ───────┤
//	           ├─ INT3 ─┤
//	pieces     │   p0   │                p1                │
//	openings   p0: ├──┤   ├─┤  ├─────────┤   p1: ├─────────┤
//
// Addresses are found by areas: a run of pieces without a large hole is an area, and has
// a table of buckets of equal size.
type windowIndex struct {
	areas    []windowArea
	pieces   []windowPiece // by address
	openings []opening     // of the pieces, one after the other
	// long are the ranges of pokes of more than maxWindow bytes, by address. No kernel
	// makes such a poke in place, and pieces for them could need any amount of memory.
	// There a window counts as open all the time.
	long []Range
}

type windowArea struct {
	lo, hi  uint64
	shift   uint8
	buckets []uint32 // the first piece that ends behind the beginning of each bucket
}

// A windowPiece is a range of addresses that are covered by the same pokes.
type windowPiece struct {
	lo, hi uint64
	first  uint32 // openings[first:end]
	end    uint32
}

// An opening is the time during which the window of a poke is open over a piece.
type opening struct {
	from, to uint64
	poke     uint32 // in Windows.pokes
	// earlier is how many openings of the piece, directly before this one, must be looked
	// at to find all that are still open when it begins.
	earlier uint32
}

// maxWindow is the greatest length of a poke, in bytes, that is indexed. No instruction is
// longer.
const maxWindow = 16

// areaHole is the smallest hole between two areas, in bytes.
const areaHole = 1 << 16

// index returns the index of w by address. The first call makes it; it must come after
// [Windows.Widen].
func (w *Windows) index() *windowIndex {
	w.indexOnce.Do(func() {
		of := w
		if w.indexed != nil {
			for b := range w.indexed.good {
				w.indexed.check(b * windowBlock)
			}
			if w.indexed.damaged.Load() {
				of = w.indexed.again()
			}
		}
		w.byAddr, w.indexOf = newWindowIndex(of), of
	})
	return w.byAddr
}

func newWindowIndex(w *Windows) *windowIndex {
	x := &windowIndex{}
	x.cut(w.pokes)
	x.findAreas()
	// Count, then place.
	for i := range w.pokes {
		p := &w.pokes[i]
		for k := range x.covered(p) {
			x.pieces[k].end++
		}
	}
	n := uint32(0)
	for i := range x.pieces {
		p := &x.pieces[i]
		p.first, p.end, n = n, n, n+p.end
	}
	x.openings = make([]opening, n)
	for i, o := range w.allProven() {
		for k := range x.covered(&w.pokes[i]) {
			at := &x.pieces[k].end
			x.openings[*at] = opening{from: o.From, to: o.To, poke: uint32(i)}
			*at++
		}
	}
	for i := range x.pieces {
		x.order(x.openings[x.pieces[i].first:x.pieces[i].end])
	}
	return x
}

// covered yields the indices of the pieces that a poke covers.
func (x *windowIndex) covered(p *InPlacePoke) func(yield func(int) bool) {
	return func(yield func(int) bool) {
		if p.Len == 0 || p.Len > maxWindow {
			return
		}
		for k := x.find(p.Addr); k < len(x.pieces) && x.pieces[k].lo-p.Addr < uint64(p.Len); k++ {
			if !yield(k) {
				return
			}
		}
	}
}

// cut makes the pieces.
func (x *windowIndex) cut(pokes []InPlacePoke) {
	type place struct {
		addr uint64
		n    uint16
	}
	seen := make(map[place]struct{})
	for i := range pokes {
		switch p := &pokes[i]; {
		case p.Len > maxWindow:
			x.long = append(x.long, Range{p.Addr, max(p.Addr+uint64(p.Len), p.Addr)})
		case p.Len > 0:
			seen[place{p.Addr, p.Len}] = struct{}{}
		}
	}
	x.long = JoinRanges(x.long)
	places := make([]place, 0, len(seen))
	edges := make([]uint64, 0, 2*len(seen))
	for p := range seen {
		p.n = uint16(min(uint64(p.n), MaxTime-p.addr)) // the last byte of the address space has no window
		places = append(places, p)
		edges = append(edges, p.addr, p.addr+uint64(p.n))
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.addr, b.addr) })
	slices.Sort(edges)
	edges = slices.Compact(edges)
	i, reach := 0, uint64(0) // up to where the places that begin at lo or below reach
	for k := 0; k+1 < len(edges); k++ {
		lo, hi := edges[k], edges[k+1]
		for ; i < len(places) && places[i].addr <= lo; i++ {
			reach = max(reach, places[i].addr+uint64(places[i].n))
		}
		if reach > lo {
			x.pieces = append(x.pieces, windowPiece{lo: lo, hi: hi})
		}
	}
}

// isLong reports whether a long poke covers any byte of [addr, addr+n).
func (x *windowIndex) isLong(addr, n uint64) bool {
	if len(x.long) == 0 {
		return false
	}
	i, _ := slices.BinarySearchFunc(x.long, addr, func(r Range, addr uint64) int { return cmp.Compare(r.Hi, addr+1) })
	return i < len(x.long) && (x.long[i].Lo <= addr || x.long[i].Lo-addr < n)
}

// findAreas makes the tables by which pieces are found.
func (x *windowIndex) findAreas() {
	for i := 0; i < len(x.pieces); {
		first := i
		for i++; i < len(x.pieces) && x.pieces[i].lo-x.pieces[i-1].hi < areaHole; i++ {
		}
		a := windowArea{lo: x.pieces[first].lo, hi: x.pieces[i-1].hi, shift: 4}
		for (a.hi-a.lo)>>a.shift > uint64(4*(i-first)) {
			a.shift++
		}
		k := first
		for b := uint64(0); b <= (a.hi-a.lo)>>a.shift; b++ {
			for k < i && x.pieces[k].hi <= a.lo+b<<a.shift {
				k++
			}
			a.buckets = append(a.buckets, uint32(k))
		}
		x.areas = append(x.areas, a)
	}
}

// find returns the index of the first piece that ends behind addr.
func (x *windowIndex) find(addr uint64) int {
	lo, hi := 0, len(x.areas) // the first area that ends behind addr
	for lo < hi {
		if m := int(uint(lo+hi) / 2); x.areas[m].hi <= addr {
			lo = m + 1
		} else {
			hi = m
		}
	}
	if lo == len(x.areas) {
		return len(x.pieces)
	}
	a := &x.areas[lo]
	k := int(a.buckets[0])
	if addr > a.lo {
		k = int(a.buckets[(addr-a.lo)>>a.shift])
	}
	for x.pieces[k].hi <= addr {
		k++
	}
	return k
}

// order sorts the openings of a piece, and finds which of them overlap.
func (x *windowIndex) order(list []opening) {
	byFrom := func(a, b opening) int { return cmp.Compare(a.from, b.from) }
	if !slices.IsSortedFunc(list, byFrom) {
		slices.SortStableFunc(list, byFrom)
	}
	oldest := 0 // no opening before it is open any more
	for i := range list {
		for oldest < i && list[oldest].to <= list[i].from {
			oldest++
		}
		list[i].earlier = uint32(i - oldest)
	}
}

// allProven yields the proven window of each poke with its index in w.pokes, in the order
// of time.
func (w *Windows) allProven() func(yield func(int, Interval) bool) {
	return func(yield func(int, Interval) bool) {
		var order []uint32 // the indices in the order of time; nil if that is the order of pokes
		if len(w.runs) != 1 {
			order = make([]uint32, 0, len(w.pokes))
			for _, r := range w.runs {
				for i := r.lo; i < r.hi; i++ {
					order = append(order, uint32(i))
				}
			}
		}
		index := func(k int) int {
			if order == nil {
				return k
			}
			return int(order[k])
		}
		poke := func(k int) *InPlacePoke { return &w.pokes[index(k)] }
		n := narrower{w: w}
		for lo := 0; lo < len(w.pokes); {
			hi := lo + 1 // a run of pokes that could be of one batch, but for their number
			for w.words == nil && hi < len(w.pokes) && together(poke(hi-1), poke(hi)) {
				hi++
			}
			var run Interval // around the run
			if w.words == nil {
				run = around(lo, hi, len(w.pokes), poke(lo).TID, poke)
			}
			for k := lo; k < hi; k++ {
				p := poke(k)
				proven := run
				if w.words != nil {
					proven = w.words.task[k]
				}
				// A neighbour in the run is of the same task: see around.
				if before := k - maxBatch; before >= lo {
					proven.From = poke(before).Time
				}
				if behind := k + maxBatch; behind < hi {
					proven.To = poke(behind).Time
				}
				if !yield(index(k), n.narrow(p, proven)) {
					return
				}
			}
			lo = hi
		}
	}
}

// A narrower narrows the time around a run of pokes to the windows of its pokes.
type narrower struct {
	w   *Windows
	gap idleGap // around the poke before, and often around the next one
}

// narrow returns the window of the poke p, of what the pokes around it prove.
func (n *narrower) narrow(p *InPlacePoke, proven Interval) Interval {
	idle := n.gap.Interval
	if !n.gap.has(p) {
		idle, n.gap = n.w.gapAround(p)
	}
	proven.From, proven.To = max(proven.From, idle.From), min(proven.To, idle.To)
	p.Kind.bound(&proven, p.Time, n.w.skew)
	return proven
}

// at returns whether a window is open over any byte of [addr, addr+n) at time t, and the
// time around t during which the same windows are open.
func (x *windowIndex) at(addr, n, t uint64) (open bool, same Validity) {
	same = Validity{0, MaxTime}
	if n == 0 {
		return false, same // no byte, so no window
	}
	if x.isLong(addr, n) {
		return true, same
	}
	for k := x.find(addr); k < len(x.pieces) && (x.pieces[k].lo <= addr || x.pieces[k].lo-addr < n); k++ {
		p := &x.pieces[k]
		list := x.openings[p.first:p.end]
		i := after(list, t)
		if i < len(list) {
			same.Until = min(same.Until, list[i].from)
		}
		if i == 0 {
			continue
		}
		for _, o := range list[i-1-int(list[i-1].earlier) : i] {
			if t < o.to {
				open = true
				same.Since = max(same.Since, o.from)
				same.Until = min(same.Until, o.to)
			} else {
				same.Since = max(same.Since, o.to)
			}
		}
	}
	return open, same
}

// without returns c without the places that have windows. It does not change c's bitmap.
func (x *windowIndex) without(c unpatchedText) unpatchedText {
	own := false
	clear := func(lo, hi uint64) {
		if hi <= c.base {
			return
		}
		for g := (max(lo, c.base) - c.base) / granule; g <= (hi-1-c.base)/granule && g/8 < uint64(len(c.unpatched)); g++ {
			if c.unpatched[g/8]>>(g%8)&1 == 0 {
				continue
			}
			if !own {
				c.unpatched, own = slices.Clone(c.unpatched), true
			}
			c.unpatched[g/8] &^= 1 << (g % 8)
		}
	}
	for i := range x.pieces {
		clear(x.pieces[i].lo, x.pieces[i].hi)
	}
	for _, r := range x.long {
		clear(r.Lo, r.Hi)
	}
	return c
}

// after returns the index of the first opening after time t.
func after(list []opening, t uint64) int {
	lo, hi := 0, len(list)
	for lo < hi {
		if m := int(uint(lo+hi) / 2); list[m].from <= t {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}

// appendOpen appends the windows that are open over any byte of [addr, addr+n) at any time
// of [from, to], by the time of their pokes, then by address. Their Estimate is empty.
func (x *windowIndex) appendOpen(dst []Window, w *Windows, addr, n, from, to uint64) []Window {
	if n == 0 {
		return dst // no byte, so no window
	}
	first := len(dst)
	add := func(p *InPlacePoke, o Interval) {
		dst = append(dst, Window{Addr: p.Addr, Len: int(p.Len), Switch: p.Time, Kind: p.Kind, Proven: o})
	}
	if x.isLong(addr, n) { // no piece has the windows of a long poke
		for i, o := range w.allProven() {
			p := &w.pokes[i]
			over := p.Len > 0 && (p.Addr <= addr && addr-p.Addr < uint64(p.Len) || p.Addr > addr && p.Addr-addr < n)
			if over && o.From < o.To && o.From <= to && from < o.To {
				add(p, o)
			}
		}
	} else {
		for k := x.find(addr); k < len(x.pieces) && (x.pieces[k].lo <= addr || x.pieces[k].lo-addr < n); k++ {
			p := &x.pieces[k]
			list := x.openings[p.first:p.end]
			i := after(list, from)
			if i > 0 {
				i -= 1 + int(list[i-1].earlier)
			}
			for ; i < len(list) && list[i].from <= to; i++ {
				if o := &list[i]; o.from < o.to && from < o.to {
					add(&w.pokes[o.poke], Interval{o.from, o.to})
				}
			}
		}
	}
	slices.SortStableFunc(dst[first:], byPoke)
	// A poke that covers several pieces is there as often.
	kept := first
	for i := first; i < len(dst); i++ {
		twice := false
		for k := kept; k > first && dst[k-1].Switch == dst[i].Switch && !twice; k-- {
			twice = dst[k-1] == dst[i]
		}
		if !twice {
			dst[kept] = dst[i]
			kept++
		}
	}
	return dst[:kept]
}
