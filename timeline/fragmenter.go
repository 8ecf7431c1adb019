// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
)

// A fragmenter cuts the address space wherever a fact begins or ends, so that all
// bytes of a piece have the same facts, and so one history. It goes upwards and
// yields one piece after the other.
//
// There are two kinds of cuts. Those of text, lifetimes, copies and the like are
// few; they are kept in one sorted list, cuts. Those of pokes are as many as the
// places that are poked, so they are never kept all at once: the sites, sorted by
// address, are taken in clusters whose ranges overlap. Most clusters are one site
// whose pokes all have one length, which is one piece and needs no list.
//
//	               a                                  b    c             d
//	text           ├──────────────────────────────────┤
//	program                                                ├─────────────┤
//	site p              ├──────┤
//	site q                     ├───┤
//	site r                             ├─────────┤
//	site s                                ├──┤
//	site t                                                     ├─────┤
//	pieces      0  │ 1  │  2   │ 3 │ 4 │5 │6 │ 7 │ 8  │ 9  │10 │ 11  │12 │
//
// Step by step, with cuts = [a b c d] and sites = [p q r s t]:
//
//  1. Piece 0 ends at the first cut, piece 1 at the first site.
//  2. p and q touch but do not overlap, so each is a cluster of one site: pieces 2
//     and 3. Neither needs a list.
//  3. Piece 4 ends at the next site. Site r overlaps with s, so both are a cluster:
//     edges = [r.lo s.lo s.hi r.hi]. Between them are pieces 5, 6 and 7. The sites
//     of pieces 5 and 7 are [r], those of piece 6 are [r s].
//  4. Pieces 8, 9 and 10 end at b, at c and at the next site. t is piece 11, since
//     no cut is inside of it; else its edges and the cuts would be a list as in 3.
//  5. Piece 12 ends at the last cut. Behind it nothing is said of any address.
//
// A piece need not be covered by any fact, as 9. Its history has no versions, and
// the image gets no fragment for it.
type fragmenter struct {
	d     *build
	at    uint64   // everything below is done
	cuts  []uint64 // of facts other than pokes; those up to at are dropped
	sites []uint32 // of the clusters ahead, by address

	// The current cluster, if it has more than one piece.
	edges   []uint64 // of its pieces that next has not returned yet
	cluster []uint32 // its sites that begin above the current piece
	over    []uint32 // its sites that cover the current piece

	sweep
	gathered []uint32 // sites whose pokes build.cluster holds

	room room
}

// A piece is a range of addresses over which every fact is uniform.
type piece struct {
	lo, hi uint64
	sites  []uint32 // whose pokes may cover it; valid until the next piece
	seg    int32    // the segment of the snapshot or of the seed that covers it, or -1
	text   bool     // it is core kernel text
	lives  int      // how many lifetimes share addresses with it

	padding bool // the kernel may write a call thunk here
	thunk   bool // it is one in the snapshot
}

// newFragmenter returns a fragmenter of a shard, with room for some facts.
func newFragmenter(d *build, s *shard, r room) *fragmenter {
	w := &fragmenter{d: d, at: s.lo, sites: s.sites, cuts: s.cuts, sweep: s.sweep, room: r}
	w.active = slices.Clone(s.active)
	return w
}

// cuts returns where facts other than pokes begin and end, in order.
func (d *build) cuts(lives []*Lifetime, padding, written []Range) []uint64 {
	var cuts []uint64
	cut := func(lo, hi uint64) {
		// Many lifetimes, one after the other, are at the same addresses.
		if n := len(cuts); lo < hi && (n == 0 || cuts[n-2] != lo || cuts[n-1] != hi) {
			cuts = append(cuts, lo, hi)
		}
	}
	cut(d.textLo, d.textHi)
	for _, l := range lives {
		cut(l.Lo, l.Hi)
	}
	for _, s := range d.segments {
		cut(s.Addr, s.End())
	}
	for i := range d.copied {
		d.copied[i].cuts(cut)
	}
	for _, r := range d.traps {
		cut(r.Lo, r.Hi)
	}
	for _, ranges := range [][]Range{padding, written} {
		for _, r := range ranges {
			cut(r.Lo, r.Hi)
		}
	}
	for _, p := range d.programs {
		for _, r := range p.Silent {
			cut(r.Lo, r.Hi)
		}
		for _, r := range p.Unseen {
			cut(r.Lo, r.Hi)
		}
	}
	for _, c := range d.codeReads {
		cut(c.Addr, c.Addr+uint64(len(c.Data)))
	}
	for _, r := range d.only {
		cut(r.Lo, r.Hi)
	}
	for _, g := range d.local {
		cut(g.Lo, g.Hi)
	}
	for i := range d.windows {
		w := &d.windows[i]
		cut(w.Addr, w.Addr+uint64(len(w.Before)))
	}
	slices.Sort(cuts)
	return slices.Compact(cuts)
}

// next returns the next piece that the image is to have. ok is false behind the last.
func (w *fragmenter) next() (p piece, ok bool) {
	for {
		lo, hi, sites := w.cut()
		if lo == hi {
			return piece{}, false
		}
		w.moveTo(lo, hi)
		if wanted(w.d.only, lo, hi) {
			p = piece{lo: lo, hi: hi, sites: sites, text: lo >= w.d.textLo && hi <= w.d.textHi}
			w.cover(&p)
			return p, true
		}
	}
}

// cut returns the range of the next piece, and the sites that may cover it. The
// range is empty behind the last one.
func (w *fragmenter) cut() (lo, hi uint64, sites []uint32) {
	if len(w.edges) > 1 {
		return w.inCluster()
	}
	for len(w.cuts) > 0 && w.cuts[0] <= w.at {
		w.cuts = w.cuts[1:]
	}
	lo = w.at
	switch {
	case len(w.sites) == 0 && len(w.cuts) == 0:
		return lo, lo, nil
	case len(w.sites) == 0:
		hi = w.cuts[0]
	default:
		if hi = w.d.sites[w.sites[0]].addr; lo == hi {
			return w.beginCluster()
		}
		if len(w.cuts) > 0 {
			hi = min(hi, w.cuts[0])
		}
	}
	w.at = hi
	return lo, hi, nil
}

// beginCluster takes the sites that overlap with the next one, and returns the
// first piece of theirs.
func (w *fragmenter) beginCluster() (lo, hi uint64, sites []uint32) {
	all := w.d.sites
	lo = w.at
	hi = lo + uint64(all[w.sites[0]].longest)
	n := 1
	for ; n < len(w.sites) && all[w.sites[n]].addr < hi; n++ {
		s := &all[w.sites[n]]
		hi = max(hi, s.addr+uint64(s.longest))
	}
	sites, w.sites = w.sites[:n], w.sites[n:]
	w.at = hi
	if s := &all[sites[0]]; n == 1 && s.shortest == s.longest && (len(w.cuts) == 0 || w.cuts[0] >= hi) {
		return lo, hi, sites
	}
	w.cluster, w.over = sites, w.over[:0]
	w.edgesOf(sites, lo, hi)
	return w.inCluster()
}

// edgesOf lists where the pokes of sites, and other facts, begin and end in [lo, hi].
func (w *fragmenter) edgesOf(sites []uint32, lo, hi uint64) {
	w.edges = append(w.edges[:0], lo, hi)
	for _, s := range sites {
		addr := w.d.sites[s].addr
		for e, first := w.d.sites[s].edit, w.d.sites[s].edit; ; {
			w.edges = append(w.edges, addr, addr+uint64(w.d.edits[e].olen), addr+uint64(w.d.edits[e].nlen))
			if e = w.d.edits[e].next; e == first {
				break
			}
		}
	}
	for _, c := range w.cuts {
		if c >= hi {
			break
		}
		w.edges = append(w.edges, c)
	}
	slices.Sort(w.edges)
	w.edges = slices.Compact(w.edges)
}

// inCluster returns the next piece of the current cluster.
func (w *fragmenter) inCluster() (lo, hi uint64, sites []uint32) {
	all := w.d.sites
	lo, hi = w.edges[0], w.edges[1]
	w.edges = w.edges[1:]
	w.over = slices.DeleteFunc(w.over, func(s uint32) bool { return all[s].addr+uint64(all[s].longest) <= lo })
	for len(w.cluster) > 0 && all[w.cluster[0]].addr <= lo {
		w.over, w.cluster = append(w.over, w.cluster[0]), w.cluster[1:]
	}
	return lo, hi, w.over
}

// pokesOf returns the pokes of sites, by time. They are valid until the next call.
func (w *fragmenter) pokesOf(sites []uint32) []poke {
	switch {
	case len(sites) == 0:
		return nil
	case len(sites) == 1:
		return w.d.of(w.d.reader, sites[0])
	case !slices.Equal(sites, w.gathered):
		w.gathered = append(w.gathered[:0], sites...)
		w.d.gather(sites)
	}
	return w.d.cluster
}

// A sweep moves upwards over ranges of addresses that do overlap, and knows which
// of them cover the current piece.
type sweep struct {
	ahead  []*Lifetime // that begin above the piece, by address
	active []*Lifetime // that may cover it, and some that do not
	ends   []uint64    // of all lifetimes that do not end below it, ascending
	begun  int         // how many of those began

	segments []Segment
	seg      int // the first that does not end below it
	// Where the kernel may write call thunks, and where it had written some when the
	// snapshot was taken: what does not end below it.
	padding, written []Range
}

// newSweep returns a sweep before the first piece. lives are in the order of sortedByLo.
func newSweep(lives []*Lifetime, segments []Segment, padding, written []Range) sweep {
	s := sweep{ahead: lives, segments: segments, padding: padding, written: written}
	s.ends = make([]uint64, len(lives))
	for i, l := range lives {
		s.ends[i] = l.Hi
	}
	slices.Sort(s.ends)
	return s
}

// moveTo moves to [lo, hi), which lies above the piece before.
func (s *sweep) moveTo(lo, hi uint64) {
	for len(s.ahead) > 0 && s.ahead[0].Lo < hi {
		s.active = append(s.active, s.ahead[0])
		s.ahead = s.ahead[1:]
		s.begun++
	}
	for len(s.ends) > 0 && s.ends[0] <= lo {
		s.ends = s.ends[1:]
		s.begun--
	}
	for s.seg < len(s.segments) && s.segments[s.seg].End() <= lo {
		s.seg++
	}
	for _, ranges := range []*[]Range{&s.padding, &s.written} {
		for len(*ranges) > 0 && (*ranges)[0].Hi <= lo {
			*ranges = (*ranges)[1:]
		}
	}
}

// cover sets what covers p, to which s was moved.
func (s *sweep) cover(p *piece) {
	p.seg, p.lives = -1, s.begun
	if s.seg < len(s.segments) && s.segments[s.seg].Addr <= p.lo {
		p.seg = int32(s.seg)
	}
	p.padding = len(s.padding) > 0 && s.padding[0].Lo <= p.lo
	p.thunk = len(s.written) > 0 && s.written[0].Lo <= p.lo
}

// lifetimesOver returns the lifetimes that cover p, to which s was moved, by the time
// of their begin.
func (s *sweep) lifetimesOver(p *piece) []*Lifetime {
	s.active = slices.DeleteFunc(s.active, func(l *Lifetime) bool { return l.Hi <= p.lo })
	var here []*Lifetime
	for _, l := range s.active {
		if l.Lo <= p.lo && p.hi <= l.Hi {
			here = append(here, l)
		}
	}
	slices.SortFunc(here, func(a, b *Lifetime) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.order, b.order))
	})
	return here
}

// The memory of an image is bounded by its facts: pokes, and lifetimes of symbols and
// modules. A fact is looked at once for each fragment that it covers. Nearly all
// cover one; the kernel's longest, pages of out-of-line code and BPF programs in
// one another's place, some tens. Thousands of long ones that overlap, as damage
// and malice make them, would cost their square:
//
//	a ├───────────────────────┤
//	b    ├───────────────────────┤
//	c       ├───────────────────────┤
//	   a  ab         abc         bc  c
//
// So the memory of all fragments together is limited: to spareBytes, and spareOfPoke more for each
// poke, and spareOfSymbol more for each symbol or module. A fragment takes bytesOfFact for each of
// its facts, or what its tables have if that is more: ten times as much where facts contradict one
// another, a hundred times where their order is not known. A fragment of at most fewFacts takes
// nothing. The bytes of a fragment that does not fit into what is left are unknown, with the reason
// TooManyFacts.
const (
	spareBytes    = 1 << 26
	spareOfPoke   = 1 << 9
	spareOfSymbol = 1 << 10
	bytesOfFact   = 1 << 4
	fewFacts      = 4
)

// A room is how many bytes fragments of more than a few facts may take: those of core text, and
// all others.
type room struct {
	text, other int
	crowded     bool // there was not enough for some piece
}

// spareRoom returns the room of an image.
func (d *build) spareRoom() room {
	text := d.limits.spare + spareOfPoke*int(d.added)
	return room{text: text, other: text + spareOfSymbol*d.codeFacts}
}

// take takes n bytes for p, if there are as many. It reports whether there are.
func (r *room) take(p *piece, n int) bool {
	left := &r.other
	if p.text {
		left = &r.text
	}
	if n > max(*left, 0) {
		r.crowded = true
		return false
	}
	*left -= max(n, 0)
	return true
}

// facts returns how many facts a piece has.
func (d *build) facts(p *piece) int {
	n := p.lives
	for _, s := range p.sites {
		n += int(d.sites[s].pokes)
	}
	return n
}
