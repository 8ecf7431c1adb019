// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"

	"github.com/textreplay/textreplay/internal/memory"
)

// A tracer that is switched on or off changes all its sites, one after the other and in the same order
// as the last time, to something that most of them have been before. A stretch of such pokes is a pass.
// It is kept as it arrived, with a word of 32 bits for each poke:
//
//	sites     0   1   2   3   4   5   6   7   8   9
//	pass 0        │ w   w   w   w   w   w │              of sites 1 to 6
//	pass 1    │ w   w   w   w   w   w   w   w   w │      of sites 0 to 8
//	pass 2                    │ w   w   w   w   w   w │  of sites 4 to 9
//
//	31              4 3    0
//	│ time - pass.time │ name │
//
// So the words of a site are in all passes that have it, in the order of arrival, and each of them is
// found without a search. All other pokes are in the log (pack.go), from which a pass takes none.
//
// A pass ends where its region does, which is so many sites, and another one goes on. The words of each
// region are in memory of their own. Histories are derived about in the order of sites, so that memory is
// given up region by region, and the tables of the image, which grow meanwhile, get it:
//
//	sites     0 ...         │ 8192 ...      │ 16384 ...
//	passes    │ w w w w w w │ w w w w w w w │ w w w w  │
//	          │ w w w w w w │ w w w w w w w │ w w w w  │
//	given up  ├─────────────┤

// A pass is pokes that arrived one right after the other, each of the site behind that of the one
// before it, and each an edit that its site has. It has none if a pass ended with its region, and the
// next poke was another one.
type pass struct {
	site  uint32   // of the first poke
	order uint32   // of its arrival
	time  uint64   // from which times are counted
	words []uint32 // name is that of the edit, see edit.name
}

// leastPass is how many pokes a pass has at least. Shorter ones would take less memory than the log
// too, but the next poke of each of their sites takes three words there.
const leastPass = 256

const passTimeBits = 32 - nameBits

// A passLog is the passes, in the order of arrival.
type passLog struct {
	passes  []pass
	regions []passRegion
}

// A passRegion is the memory for the words of passes of so many sites.
type passRegion struct {
	pieces [][]uint32
	room   []uint32 // what is left of the last piece, behind the words of the last pass of the region
	grown  int      // how many words all pieces have
}

// regionSites is how many sites a region usually has. There are about seven if a tracer knows 50,000 functions, and
// each can leave most of a huge page unused.
const regionSites = 1 << 13

// leastRoom and mostRoom are for how many words a region gets room at once.
const (
	leastRoom = 1 << 9
	hugeRoom  = memory.HugePage / 4
	mostRoom  = hugeRoom
)

// goesOn reports whether the last pass has the newest poke, the one before order. So the next poke belongs to
// it, or to one that follows it, if it is of the next site.
func (l *passLog) goesOn(order uint32) bool {
	if len(l.passes) == 0 {
		return false
	}
	p := &l.passes[len(l.passes)-1]
	return p.order+uint32(len(p.words)) == order
}

// beginPass begins a pass of least pokes or more, as far as the region of the site has so many sites.
func (b *Builder) beginPass(site uint32, t uint64, least int) {
	l, region := &b.passes, b.limits.region
	for len(l.regions) <= int(site/region) {
		l.regions = append(l.regions, passRegion{})
	}
	r := &l.regions[site/region]
	if len(r.room) < min(least, int(region-site%region)) {
		n := min(max(r.grown, leastRoom), mostRoom)
		if n >= hugeRoom/4 {
			n = hugeRoom
		}
		r.room = memory.Uncleared[uint32](n)[:n]
		r.pieces = append(r.pieces, r.room)
		r.grown += n
	}
	l.passes = append(l.passes, pass{site, b.added, t, r.room[:0]})
}

// clone returns a log with the same passes. Pokes that are added to one of the two are not added to
// the other.
func (l *passLog) clone() passLog { return passLog{passes: slices.Clone(l.passes)} }

// addPass adds the first pokes, as long as they continue the last pass, or make a new one. It returns
// how many it has added.
func (b *Builder) addPass(pokes []ShortPoke, t *traits) (n int) {
	l, site := &b.passes, b.last+1
	switch {
	case !l.goesOn(b.added):
		if !b.isPass(pokes, t) {
			return 0
		}
		b.beginPass(site, pokes[0].Time, b.limits.pass)
	case !l.hasRoom(site, b.limits.region):
		if int(site) >= len(b.sites) || b.sites[site].addr != pokes[0].Addr {
			return 0 // nor will it be a pass for each poke that has no place
		}
		b.beginPass(site, pokes[0].Time, 1)
	}
	region := site / b.limits.region
	p, r := &l.passes[len(l.passes)-1], &l.regions[region]
	sites := b.sites[min(int(site), len(b.sites)):min(int((region+1)*b.limits.region), len(b.sites))]
	most := min(len(pokes), len(sites), len(r.room), int(b.limits.pokes-b.added))
	pokes, sites, words := pokes[:most], sites[:most], r.room[:most]
	from, size, order := p.time, t.olen, b.added
	for ; n < len(pokes); n++ {
		x, s := &pokes[n], &sites[n]
		step := x.Time - from
		if step >= 1<<passTimeBits {
			break
		}
		if back, ok := s.flip(x, size); ok {
			s.see(x.Time, back)
			words[n] = uint32(step)<<nameBits | uint32(s.names[back&1])
		} else {
			k := b.known(s, x, size)
			if k == noEdit {
				break
			}
			e := &b.edits[k]
			s.irregular = s.irregular || x.Time <= s.newest || b.edits[s.edit].new != e.old
			words[n] = uint32(step)<<nameBits | uint32(e.name)
			s.edit, s.newest = k, x.Time
			b.expect(s)
		}
		s.pokes++
		s.order, s.inPass = order+uint32(n), true
	}
	p.words, r.room = p.words[:len(p.words)+n], r.room[n:]
	if n > 0 {
		b.last += uint32(n)
		b.noteCPU(t.cpu)
		b.added += uint32(n)
	}
	return n
}

// hasRoom reports whether the last pass has room for a poke of the site, the one behind its last one. In a clone
// it has none.
func (l *passLog) hasRoom(site, region uint32) bool {
	k := int(site / region)
	return site%region != 0 && k < len(l.regions) && len(l.regions[k].room) > 0
}

// isPass reports whether a pass begins with the first poke.
func (b *Builder) isPass(pokes []ShortPoke, t *traits) bool {
	first, least := int(b.last)+1, b.limits.pass
	if len(pokes) < least || len(b.sites)-first < least || int(b.limits.pokes-b.added) < least {
		return false
	}
	// The last one first: if there is no pass, this is likely to show it.
	for k := least - 1; k >= 0; k-- {
		s, p := &b.sites[first+k], &pokes[k]
		if p.Time-pokes[0].Time >= 1<<passTimeBits {
			return false
		}
		if _, ok := s.flip(p, t.olen); !ok && b.known(s, p, t.olen) == noEdit {
			return false
		}
	}
	return true
}

// known returns the edit of the site that p makes, of so many old and new bytes, if it has a name. If there
// is none, known returns noEdit.
func (b *Builder) known(s *site, p *ShortPoke, size uint16) uint32 {
	if s.addr != p.Addr || s.pokes == 0 {
		return noEdit
	}
	s.straighten()
	for k, depth := s.edit, 0; depth < internDepth; depth++ {
		k = b.edits[k].next
		if e := &b.edits[k]; e.oldWord == p.Old && e.newWord == p.New && e.olen == size && e.nlen == size && e.name != farAway {
			return k
		}
		if k == s.edit {
			break
		}
	}
	return noEdit
}

// passBlock is how many sites have a list of passes together.
const passBlock = 64

// A passIndex has the passes of each block of sites.
type passIndex struct {
	first []uint32 // by block: its first one in passes; one more at the end
	of    []uint32 // in the order of arrival
}

// index finds the passes of each block.
func (l *passLog) index(sites int) passIndex {
	if len(l.passes) == 0 {
		return passIndex{}
	}
	blocks := (sites + passBlock - 1) / passBlock
	x := passIndex{first: make([]uint32, blocks+1)}
	each := func(f func(block, pass uint32)) {
		for k := range l.passes {
			p := &l.passes[k]
			for block := p.site / passBlock; block*passBlock < p.site+uint32(len(p.words)); block++ {
				f(block, uint32(k))
			}
		}
	}
	each(func(block, _ uint32) { x.first[block+1]++ })
	for i := range blocks {
		x.first[i+1] += x.first[i]
	}
	x.of = make([]uint32, x.first[blocks])
	next := slices.Clone(x.first)
	each(func(block, pass uint32) {
		x.of[next[block]] = pass
		next[block]++
	})
	return x
}

// ofSite returns the passes that may have the i-th site.
func (x *passIndex) ofSite(i uint32) []uint32 {
	if x.first == nil {
		return nil
	}
	return x.of[x.first[i/passBlock]:x.first[i/passBlock+1]]
}

// appendPassed appends the pokes of the i-th site that are in passes, in the order of arrival, up to the
// capacity of to. names has the edits of the site, by name.
func (b *Builder) appendPassed(to []poke, x *passIndex, i uint32, names *[1 << nameBits]uint32) []poke {
	n, all, passes := len(to), to[:cap(to)], b.passes.passes
	for _, k := range x.ofSite(i) {
		p := &passes[k]
		j := i - p.site
		if j >= uint32(len(p.words)) {
			continue
		}
		w, q := p.words[j], &all[n]
		q.time, q.order, q.edit = p.time+uint64(w>>nameBits), p.order+j, names[w&(1<<nameBits-1)]
		n++
	}
	return to[:n]
}

// A passDropper gives up the words of passes that nobody reads any more. The shards are in the order of
// addresses, and so are the sites of most passes. So the first regions can be given up first.
type passDropper struct {
	next    []uint32 // by shard: the first site that is in a shard behind it
	region  uint32   // how many sites a region has
	dropped int      // how many regions are given up
}

// plan finds out which sites come first.
func (d *passDropper) plan(shards []shard, region uint32) {
	d.region = region
	d.next = make([]uint32, len(shards))
	first := noSite
	for k := len(shards) - 1; k >= 0; k-- {
		d.next[k] = first
		for _, s := range shards[k].sites {
			first = min(first, s)
		}
	}
}

// noSite is behind all sites.
const noSite = ^uint32(0)

// after gives up the regions that are not needed after a shard. It returns spare with their huge pages, which
// nobody needs any more.
func (d *passDropper) after(shard int, l *passLog, spare [][]byte) [][]byte {
	for ; d.dropped < len(l.regions) && d.next[shard] >= uint32(d.dropped+1)*d.region; d.dropped++ {
		r := &l.regions[d.dropped]
		for _, piece := range r.pieces {
			if words := raw(piece); len(words) == memory.HugePage {
				spare = append(spare, words)
			} else {
				memory.Discard(words)
			}
		}
		*r = passRegion{}
	}
	return spare
}
