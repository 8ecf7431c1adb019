// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math"
	"slices"
	"sort"
	"sync"
	"unsafe"

	"github.com/textreplay/textreplay/internal/memory"
)

// A recording can have ten million pokes and more, so a poke takes 8 bytes while an image
// is built, or 4 if it is in a pass (passes.go). The other pokes of a site are a list of words,
// in the order of arrival. A poke is one word if it differs little from the poke of the site
// before it, and that is not in a pass:
//
//	63                     30 29           4 3     0
//	│ time - time before      │ order - order │ name │
//	│ 34 bits, signed         │ before, 26    │      │
//
// name is the name of the edit, see edit.name. Any other poke, such as the first, is three
// words:
//
//	│ order << 32 | farAway │ time │ edit │
//
// Where the words are. A site has a cache line for what the next poke is compared with, and one
// for its newest words. They are not side by side, as a pass needs the first one only. When the
// line of words is full, it is appended to a log, which has the lines of all sites:
//
//	sites     │ addr newest ... │ addr newest ... │ ...
//	words     │ w w w           │ w w w w w w     │ ...
//	log       │ wwwwwwww │ wwwwwwww │ wwwwwwww │ wwwwwwww │ ...
//	owners    │ 0        │ 1        │ 1        │ 0        │ ...
//
// So a poke of a random site touches the two lines of its site, and the log grows at its
// end only. Build sorts the numbers of the lines by owner once; the lines of a site can
// then be loaded without one waiting for the other.

// A line is a cache line of words.
type line [lineWords]uint64

const lineWords = 8

const (
	nameBits  = 4
	orderBits = 26
	timeBits  = 64 - nameBits - orderBits
	farAway   = 1<<nameBits - 1 // the name of a poke of three words
)

// emptied returns list without elements, with room for n, for another use. If it has to be another
// list, nothing may need this one any more: its memory is given up at once. T must not have pointers.
func emptied[T any](list []T, n int) []T {
	if n <= cap(list) {
		return list[:0]
	}
	if old := raw(list[:cap(list)]); len(old) >= largeScratch {
		memory.Discard(old)
	}
	return make([]T, 0, max(n, cap(list)*5/4))
}

// largeScratch is from how many bytes on scratch memory is given up before it is collected.
const largeScratch = 1 << 18

// A lineLog is the lines of all sites, in the order in which they became full.
type lineLog struct {
	slabs  [][]line // slabSize each; the last ones may not be used yet
	owners []uint32 // the site of each line
}

const (
	slabSize  = 1 << 11
	hugeSlabs = 1 << 4 // 2 MiB
	mostSlabs = 1 << 7 // by how many a log grows at once: 16 MiB
)

// at returns a line.
func (l *lineLog) at(i uint32) *line { return &l.slabs[i/slabSize][i%slabSize] }

// add appends a line of a site.
func (l *lineLog) add(words *line, owner uint32) {
	n := uint32(len(l.owners))
	if n%slabSize == 0 {
		l.open(n / slabSize)
	}
	copied := *words // two moves: they may overlap, as far as the compiler knows, and it calls memmove
	*l.at(n) = copied
	if len(l.owners) == cap(l.owners) {
		l.owners = doubled(l.owners)
	}
	l.owners = append(l.owners, owner)
}

// open prepares the k-th slab, which is used next.
func (l *lineLog) open(k uint32) {
	if k == uint32(len(l.slabs)) {
		l.grow()
	}
	if end := k + hugeSlabs; end <= uint32(len(l.slabs)) && memory.FillsHugePage(l.slabs[k:end]) {
		memory.Huge(raw(unsafe.Slice(&l.slabs[k][0], hugeSlabs*slabSize)))
	}
}

// grow appends slabs. A large log grows by many at once, which fill huge pages.
func (l *lineLog) grow() {
	n := min(len(l.slabs)/4+1, mostSlabs)
	if len(l.slabs) >= hugeSlabs {
		n = (n + hugeSlabs - 1) / hugeSlabs * hugeSlabs
	}
	piece := memory.Unasked[line](n * slabSize)[:n*slabSize]
	for ; len(piece) > 0; piece = piece[slabSize:] {
		l.slabs = append(l.slabs, piece[:slabSize:slabSize])
	}
}

// clone returns a log with the same lines. Lines that are added to one of the two are not
// added to the other.
func (l *lineLog) clone() lineLog {
	full := len(l.owners) / slabSize
	c := lineLog{slices.Clip(l.slabs[:full]), slices.Clip(l.owners)}
	if len(l.owners)%slabSize > 0 {
		c.slabs = append(c.slabs, slices.Clone(l.slabs[full]))
	}
	return c
}

// A lineIndex has the numbers of the lines of each site.
type lineIndex struct {
	first []uint32 // by site: its first one in lines; one more at the end
	lines []uint32
}

// index sorts the lines by owner.
func (l *lineLog) index(sites int) lineIndex {
	x := lineIndex{first: make([]uint32, sites+1), lines: memory.Uncleared[uint32](len(l.owners))[:len(l.owners)]}
	for _, s := range l.owners {
		x.first[s]++
	}
	sum := uint32(0)
	for i, n := range x.first {
		sum += n
		x.first[i] = sum // behind its last one
	}
	for i := len(l.owners) - 1; i >= 0; i-- {
		s := l.owners[i]
		x.first[s]--
		x.lines[x.first[s]] = uint32(i)
	}
	return x
}

// A siteIndex says where the pokes of each site are.
type siteIndex struct {
	lineIndex
	passes passIndex
}

func (b *Builder) index() siteIndex {
	return siteIndex{b.log.index(len(b.sites)), b.passes.index(len(b.sites))}
}

// A slabGroup is slabs that are given up together: those of a huge page, or a single one.
type slabGroup struct{ first, end int }

// groups returns all slabs that are used, as groups.
func (l *lineLog) groups() (out []slabGroup) {
	used := (len(l.owners) + slabSize - 1) / slabSize
	for i := 0; i < used; {
		n := 1
		if k := i + hugeSlabs; k <= used && memory.FillsHugePage(l.slabs[i:k]) {
			n = hugeSlabs
		}
		out = append(out, slabGroup{i, i + n})
		i += n
	}
	return out
}

// needs returns the last shard that reads each group of slabs, and the mean over all slabs.
// shardOf has the shard of each site.
func (l *lineLog) needs(groups []slabGroup, shardOf []uint32) (last []uint32, mean int) {
	last = make([]uint32, len(groups))
	eachInParallel(len(groups), func(k int) {
		g := groups[k]
		end := uint32(0)
		for _, s := range l.owners[g.first*slabSize : min(g.end*slabSize, len(l.owners))] {
			end = max(end, shardOf[s])
		}
		last[k] = end
	})
	slabs := 0
	for k, g := range groups {
		mean += int(last[k]) * (g.end - g.first)
		slabs += g.end - g.first
	}
	return last, mean / max(slabs, 1)
}

// partition parts the log in two. In each part it puts the lines of the first shards first, those of the
// next ones behind them, and so on, in bins of about equally many lines. It works in place, and adapts x. No
// line can be added afterwards.
func (l *lineLog) partition(x *lineIndex, shardOf []uint32, shards int) {
	const bins, parts = 16, 2
	binOf := make([]uint32, shards)
	for s, k := range shardOf {
		binOf[k] += x.first[s+1] - x.first[s]
	}
	for k, sum := 0, uint32(0); k < shards; k++ {
		lines := binOf[k]
		binOf[k] = uint32(uint64(sum) * bins / uint64(len(l.owners)+1))
		sum += lines
	}
	binOfSite := make([]uint8, len(shardOf))
	for s, k := range shardOf {
		binOfSite[s] = uint8(binOf[k])
	}
	bin := func(i uint32) uint32 { return uint32(binOfSite[l.owners[i]]) % bins }
	begin := func(part int) uint32 { return uint32(uint64(len(l.owners)) * uint64(part) / parts) }
	place := memory.Uncleared[uint32](len(l.owners))[:len(l.owners)] // of each line in x.lines
	eachInParallel(parts, func(part int) {
		for k := begin(part); k < begin(part+1); k++ {
			place[x.lines[k]] = k
		}
	})
	eachInParallel(parts, func(part int) {
		var next, end [bins]uint32
		first, last := begin(part), begin(part+1)
		for i := first; i < last; i++ {
			end[bin(i)]++
		}
		for k, sum := 0, first; k < bins; k++ {
			next[k] = sum
			sum += end[k]
			end[k] = sum
		}
		for k := range uint32(bins) {
			for i := next[k]; i < end[k]; i = next[k] {
				to := bin(i)
				j := next[to]
				next[to]++
				if to != k {
					p, q := l.at(i), l.at(j)
					*p, *q = *q, *p
					l.owners[i], l.owners[j] = l.owners[j], l.owners[i]
					place[i], place[j] = place[j], place[i]
				}
			}
		}
		for i := first; i < last; i++ {
			x.lines[place[i]] = i
		}
	})
	memory.Discard(raw(place))
}

// put appends a poke of the edit k to s, the i-th site.
func (b *Builder) put(s *site, i uint32, t uint64, k uint32, name uint8) {
	step, order := t-s.newest, b.added-s.order
	if s.pokes > 0 && !s.inPass && fitsWord(step, order, name) {
		b.word(s, i, nearWord(step, order, name))
	} else {
		b.word(s, i, uint64(b.added)<<32|farAway)
		b.word(s, i, t)
		b.word(s, i, uint64(k))
	}
	s.pokes++
	s.newest, s.order, s.inPass = t, b.added, false
}

// fitsWord reports whether a poke is one word. step and order are its time and its order of arrival, less
// those of the poke before it.
func fitsWord(step uint64, order uint32, name uint8) bool {
	return name < farAway && order < 1<<orderBits && int64(step)<<(64-timeBits)>>(64-timeBits) == int64(step)
}

// nearWord returns the word of such a poke.
func nearWord(step uint64, order uint32, name uint8) uint64 {
	return step<<(64-timeBits) | uint64(order)<<nameBits | uint64(name)
}

// word appends a word to s, the i-th site.
func (b *Builder) word(s *site, i uint32, w uint64) {
	b.words[i][s.used] = w
	if s.used++; s.used == lineWords {
		b.full(s, i)
	}
}

// full appends the line of s to the log.
//
//go:noinline
func (b *Builder) full(s *site, i uint32) {
	b.log.add(&b.words[i], i)
	s.used = 0
}

// A reader decodes the pokes of one site after the other. It is for one goroutine.
type reader struct {
	words   [farWords + (lookAhead+1)*lineWords]uint64 // scratch
	list    []poke                                     // scratch of its user
	former  []poke                                     // scratch of pokes
	longest int                                        // most pokes of a site, while the memory is in use
	touched uint64                                     // so that the compiler keeps the loads
}

// A readerPool keeps readers, whose lists may be large, for the next goroutines that need one.
type readerPool struct {
	lock sync.Mutex
	free []*reader
}

func (p *readerPool) get() *reader {
	p.lock.Lock()
	defer p.lock.Unlock()
	n := len(p.free)
	if n == 0 {
		return new(reader)
	}
	r := p.free[n-1]
	p.free = p.free[:n-1]
	return r
}

func (p *readerPool) put(r *reader) {
	p.lock.Lock()
	defer p.lock.Unlock()
	p.free = append(p.free, r)
}

// farWords is how many words a poke takes at most.
const farWords = 3

// longList is from how many pokes of a site on the memory of a list is given up behind it.
const longList = 1 << 18

// empty is emptied for a list of n pokes. It gives up most of the memory of a long list once short ones
// follow.
func (r *reader) empty(list []poke, n int) []poke {
	if r.longest >= longList && n < longList/4 {
		data := raw(list[:cap(list)])
		memory.Discard(data[min(longList/4*sizeOf[poke](), len(data)):])
		r.longest = 0
	}
	r.longest = max(r.longest, n)
	return emptied(list, n)
}

// pokes appends the pokes of the i-th site to to, in the order of arrival.
func (r *reader) pokes(b *Builder, x *siteIndex, i uint32, to []poke) []poke {
	s := &b.sites[i]
	var names [1 << nameBits]uint32 // the edits, by name
	for k := s.edit; ; {
		e := &b.edits[k]
		if e.name < farAway {
			names[e.name] = k
		}
		if k = e.next; k == s.edit {
			break
		}
	}
	n := len(to)
	if n == 0 {
		to = r.empty(to, int(s.pokes))
	}
	to = slices.Grow(to, int(s.pokes))[:n+int(s.pokes)]
	first := n
	t, order := uint64(0), uint32(0)
	lines := x.lines[x.first[i]:x.first[i+1]]
	rest := 0 // how many words the lines before have left
	for all := false; !all; {
		words := r.words[:rest]
		part := lines[:min(len(lines), lookAhead)]
		lines = lines[len(part):]
		for _, l := range part { // loads that do not wait for each other
			r.touched += b.log.at(l)[0]
		}
		for _, l := range part {
			k := len(words)
			words = words[:k+lineWords]
			*(*line)(words[k:]) = *b.log.at(l)
		}
		most := len(words) - farWords // that a poke may begin at
		if all = len(lines) == 0; all {
			words = append(words, b.words[i][:s.used]...)
			most = len(words) - 1
		}
		k := 0
		for ; k <= most; n++ {
			w := words[k]
			name := w & (1<<nameBits - 1)
			p := &to[n]
			if name != farAway {
				t += uint64(int64(w) >> (64 - timeBits))
				order += uint32(w>>nameBits) & (1<<orderBits - 1)
				p.time, p.order, p.edit = t, order, names[name]
				k++
				continue
			}
			t, order = words[k+1], uint32(w>>32)
			p.time, p.order, p.edit = t, order, uint32(words[k+2])
			k += farWords
		}
		rest = copy(r.words[:], words[k:])
	}
	if n < len(to) {
		b.appendPassed(to[:n], &x.passes, i, &names)
		r.former = mergeByOrder(to[first:], n-first, r.former[:0])
		if len(r.former) > longList {
			r.former = nil
		}
	}
	return to
}

// mergeByOrder merges the first n pokes with the others. Both are in the order of arrival. It uses scratch,
// and returns it.
func mergeByOrder(list []poke, n int, scratch []poke) []poke {
	to := sort.Search(n, func(i int) bool { return list[i].order > list[n].order })
	scratch = append(scratch, list[to:n]...)
	a, b := scratch, list[n:]
	for len(a) > 0 && len(b) > 0 {
		if b[0].order < a[0].order {
			list[to], b = b[0], b[1:]
		} else {
			list[to], a = a[0], a[1:]
		}
		to++
	}
	copy(list[to:], a)
	return scratch
}

// secondTime returns the time of the second poke of a site that has several, in the order of arrival.
func (x *siteIndex) secondTime(b *Builder, i uint32) uint64 {
	s := &b.sites[i]
	words, used := b.words[i][:], int(s.used)
	if x.first[i] < x.first[i+1] {
		words, used = b.log.at(x.lines[x.first[i]])[:], lineWords
	}
	// The first one takes farWords; there is room for a second one that does.
	t, order := uint64(0), uint32(math.MaxUint32)
	if used > farWords {
		if w := words[farWords]; w&(1<<nameBits-1) != farAway {
			t, order = words[1]+uint64(int64(w)>>(64-timeBits)), uint32(words[0]>>32)+uint32(w>>nameBits)&(1<<orderBits-1)
		} else {
			t, order = words[farWords+1], uint32(w>>32)
		}
	}
	for _, k := range x.passes.ofSite(i) { // in the order of arrival
		p := &b.passes.passes[k]
		if j := i - p.site; j < uint32(len(p.words)) {
			if p.order+j < order {
				t = p.time + uint64(p.words[j]>>nameBits)
			}
			break
		}
	}
	return t
}

// firstPoke returns the first poke of a site.
func (x *lineIndex) firstPoke(b *Builder, i uint32) poke {
	words := b.words[i][:]
	if x.first[i] < x.first[i+1] {
		words = b.log.at(x.lines[x.first[i]])[:]
	}
	return poke{time: words[1], edit: uint32(words[2]), order: uint32(words[0] >> 32)}
}
