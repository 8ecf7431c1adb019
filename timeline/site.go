// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/binary"

	"github.com/textreplay/textreplay/internal/memory"
)

// A site is an address that pokes change. It is a cache line, and its words another one, see pack.go.
type site struct {
	addr   uint64
	newest uint64 // time of the poke added last
	order  uint32 // and when it arrived
	edit   uint32 // and its edit, which begins the ring of the site's edits
	pokes  uint32 // how many
	// What is expected to come next: the edit behind the newest one in the ring. Most
	// sites have two edits, which take turns.
	expected uint32
	bytes    [2]uint64 // its old bytes, and its new ones
	size     uint16    // of both; 0: nothing is expected
	longest  uint16    // longest Old or New of its pokes
	shortest uint16
	flips    bool // the edit behind the expected one is the newest, and undoes it
	turned   bool // a site that flips: edit and expected have changed places since they were noted
	// irregular is set if, in the order in which the pokes were added, times do not
	// ascend, or the old bytes of a poke are not the new bytes of the one before it.
	irregular bool
	used      uint8    // of words
	names     [2]uint8 // of the expected edit and of the newest one
	edits     uint8    // how many, at most farAway
	inPass    bool     // the newest poke is in a pass, and not in the log
}

// An edit is a pair of old and new bytes of a site. A site that flips a million times
// between two instructions has two edits. Equal contents of a site are kept once.
type edit struct {
	old, new   uint32 // arena offsets
	olen, nlen uint16
	site       uint32
	next       uint32 // edit of the same site; the last one leads to the first
	name       uint8  // which edit of its site it is, from 0; farAway: the site has many
	// The first eight bytes of each.
	oldWord, newWord uint64
}

// noEdit is the number of no edit.
const noEdit = ^uint32(0)

// word returns the first eight bytes of b, or all if it has fewer, as a little-endian
// number.
func word(b []byte) (w uint64) {
	if len(b) == 5 { // as most have
		return uint64(binary.LittleEndian.Uint32(b)) | uint64(b[4])<<32
	}
	for i, c := range b[:min(len(b), 8)] {
		w |= uint64(c) << (8 * i)
	}
	return w
}

// does reports whether e is the edit from old to new.
func (b *Builder) does(e *edit, old, new []byte, oldWord, newWord uint64) bool {
	if e.oldWord != oldWord || e.newWord != newWord || int(e.olen) != len(old) || int(e.nlen) != len(new) {
		return false
	}
	return len(old) <= 8 && len(new) <= 8 ||
		string(b.arena[e.old:][:e.olen]) == string(old) && string(b.arena[e.new:][:e.nlen]) == string(new)
}

// A poke is a [Poke] whose bytes are an edit of its site.
type poke struct {
	time  uint64
	edit  uint32
	order uint32 // of arrival, over all sites
}

// internDepth is how many edits of a site are searched for an equal edit or content.
// Equal ones beyond it are kept twice, which takes memory and changes no answer.
const internDepth = 16

// A cpuRun is a run of pokes, in the order of arrival, that one CPU recorded.
type cpuRun struct {
	first uint32
	cpu   uint16
}

// addAlike adds pokes of a batch that have the same traits. found is what lookUp found for each.
func (b *Builder) addAlike(x *batch, pokes []ShortPoke, t *traits, found []uint32) {
	for len(pokes) > 0 {
		n := 0
		if t.is == 0 && t.olen == t.nlen {
			n = b.addExpected(pokes, t, found)
		}
		if n == 0 {
			b.add(x, &pokes[0], t, found[0])
			n = 1
		}
		pokes, found = pokes[n:], found[n:]
	}
}

// addNext adds the first pokes, as long as each is of the site behind that of the one before, and is what
// that site expects. It returns how many it has added. Nothing need be looked up for these, and the CPU
// loads the sites ahead.
func (b *Builder) addNext(pokes []ShortPoke, t *traits) (n int) {
	if t.is != 0 || t.olen != t.nlen || b.added >= b.limits.pokes || !b.limits.hold(b.arena, 2*int(t.olen)) {
		return 0
	}
	if n = b.addPass(pokes, t); n > 0 {
		return n
	}
	return b.addExpected(pokes, t, nil)
}

// addExpected adds the first pokes, as long as each is what its site expects, or the newest edit once more.
// It returns how many it has added. It is what add does, without what cannot be of such a poke; most pokes are
// added here. found is what lookUp found for each, or nil: see addNext. In random order nobody can guess which of
// the two edits a poke is, so no branch depends on it.
func (b *Builder) addExpected(pokes []ShortPoke, t *traits, found []uint32) (n int) {
	if b.added >= b.limits.pokes || !b.limits.hold(b.arena, 2*int(t.olen)) {
		return 0
	}
	pokes = pokes[:min(len(pokes), int(b.limits.pokes-b.added))]
	sites, last := b.sites, b.last
	for ; n < len(pokes); n++ {
		p, i := &pokes[n], last+1
		if found != nil {
			i = found[n] - 1
		}
		if i >= uint32(len(sites)) {
			break
		}
		s := &sites[i]
		step, order := p.Time-s.newest, b.added+uint32(n)-s.order
		back, ok := s.flip(p, t.olen)
		name := s.names[back&1]
		if !ok || s.inPass || !fitsWord(step, order, name) {
			break
		}
		s.see(p.Time, back)
		b.word(s, i, nearWord(step, order, name))
		s.pokes++
		s.order = b.added + uint32(n)
		last = i
	}
	if n > 0 {
		b.last = last
		b.noteCPU(t.cpu)
		b.added += uint32(n)
	}
	return n
}

// noteCPU notes which CPU recorded the next poke.
func (b *Builder) noteCPU(cpu uint16) {
	if n := len(b.cpus); n == 0 || b.cpus[n-1].cpu != cpu {
		b.cpus = append(b.cpus, cpuRun{b.added, cpu})
	}
}

// flip reports whether p, of so many old and new bytes, is one of the two edits of a site that flips: 0, which
// was expected when they were noted, or 1, the other one.
func (s *site) flip(p *ShortPoke, size uint16) (back uint8, ok bool) {
	if p.Old != s.bytes[0] {
		back = 1
	}
	return back, s.addr == p.Addr && s.size == size && s.bytes[back&1] == p.Old && s.bytes[back&1^1] == p.New && s.flips
}

// see notes that the newest poke is the one of the two edits that flip returned.
func (s *site) see(t uint64, back uint8) {
	s.irregular = s.irregular || s.turned == (back == 0) || t <= s.newest
	s.turned, s.newest = back == 0, t
}

// straighten makes edit the newest edit of a site that has turned, and expected the expected one.
func (s *site) straighten() {
	if s.turned {
		s.edit, s.expected = s.expected, s.edit
		s.names[0], s.names[1] = s.names[1], s.names[0]
		s.bytes[0], s.bytes[1] = s.bytes[1], s.bytes[0]
		s.turned = false
	}
}

// add adds a poke of a batch. found is what lookUp found.
func (b *Builder) add(x *batch, p *ShortPoke, t *traits, found uint32) {
	notBefore := uint64(0)
	delayed := t.is&isDelayed != 0
	if delayed {
		notBefore, x.notBefore = x.notBefore[0], x.notBefore[1:]
	}
	began := uint64(0)
	if t.is&isEnclosed != 0 {
		began, x.began = x.began[0], x.began[1:]
	}
	if p.Addr+uint64(max(t.olen, t.nlen)) < p.Addr {
		return // a short one, which nobody has compared with isImpossible yet
	}
	if b.added >= b.limits.pokes || !b.limits.hold(b.arena, int(t.olen)+int(t.nlen)) {
		b.drop(p.Time)
		return
	}
	i := found - 1
	if found == 0 || b.sites[i].addr != p.Addr {
		var ok bool
		if i, ok = b.site(p.Addr); !ok {
			b.drop(p.Time)
			return
		}
	}
	b.last = i
	s := &b.sites[i]
	s.straighten()
	switch {
	case s.size != t.olen || s.size != t.nlen || t.is&isLong != 0:
		b.addOther(s, i, p, t, x)
	case s.bytes == [2]uint64{p.Old, p.New}:
		// The expected edit, which fits the one before it.
		s.irregular = s.irregular || delayed || p.Time <= s.newest
		b.put(s, i, p.Time, s.expected, s.names[0])
		if s.turned = s.flips; !s.flips {
			s.edit = s.expected
			b.expect(s)
		}
	case s.flips && s.bytes == [2]uint64{p.New, p.Old}:
		// The newest edit once more: another CPU's, which is not in the order of time.
		s.irregular = true
		b.put(s, i, p.Time, s.edit, s.names[1])
	default:
		b.addOther(s, i, p, t, x)
	}
	if delayed {
		if b.delayed == nil {
			b.delayed = make(map[uint32]uint64)
		}
		b.delayed[b.added] = notBefore
	}
	if t.is&isEnclosed != 0 {
		b.began = append(b.began, make([]uint64, int(b.added)+1-len(b.began))...)
		b.began[b.added] = began
	}
	b.noteCPU(t.cpu)
	b.added++
}

// addOther adds a poke of s, the i-th site, that is not the expected one.
func (b *Builder) addOther(s *site, i uint32, p *ShortPoke, t *traits, x *batch) {
	s.longest = max(s.longest, t.olen, t.nlen)
	s.shortest = min(s.shortest, t.olen, t.nlen)
	var words [16]byte
	binary.LittleEndian.PutUint64(words[:], p.Old)
	binary.LittleEndian.PutUint64(words[8:], p.New)
	old, new := words[:min(t.olen, 8)], words[8:][:min(t.nlen, 8)]
	if t.is&isLong != 0 {
		old, new = x.old(p, t), x.new(p, t)
	}
	before, delayed := s.edit, t.is&isDelayed != 0
	k := b.edit(s, i, old, new)
	s.irregular = s.irregular || delayed || s.pokes > 0 && (p.Time <= s.newest || b.edits[before].new != b.edits[k].old)
	s.edit = k
	b.put(s, i, p.Time, k, b.edits[k].name)
	b.expect(s)
}

// expect prepares a site for the poke that comes next, if that has the edit which is next
// in the ring.
func (b *Builder) expect(s *site) {
	now := &b.edits[s.edit]
	k := now.next
	e := &b.edits[k]
	if s.size = 0; e.olen != e.nlen || e.olen > 8 || now.nlen != e.olen || now.new != e.old {
		return
	}
	s.size, s.expected, s.bytes = e.olen, k, [2]uint64{e.oldWord, e.newWord}
	s.names = [2]uint8{e.name, now.name}
	s.flips = e.next == s.edit && now.olen == e.olen && now.old == e.new && k != s.edit
}

// site returns the index of the site at addr; ok is false if there is no room for a new
// one.
func (b *Builder) site(addr uint64) (i uint32, ok bool) {
	if i, ok = b.siteAt.find(b.sites, addr); ok {
		return i, true
	}
	if len(b.sites) >= b.limits.sites {
		return 0, false
	}
	b.sites = append(doubled(b.sites), site{addr: addr, shortest: 0xffff})
	b.words = append(doubled(b.words), line{})
	b.siteAt.insert(b.sites)
	return uint32(len(b.sites) - 1), true
}

// doubled returns a list with room for one more. A full one gets twice the room: append's steps are
// smaller, and each touches memory that was not used before, all of it at once. T must not have pointers.
func doubled[T any](list []T) []T {
	if len(list) < cap(list) {
		return list
	}
	more := memory.Uncleared[T](max(2*len(list), 1<<6))
	return append(more, list...)
}

// drop counts a poke beyond the limits.
func (b *Builder) drop(t uint64) {
	if b.dropped.to == 0 {
		b.dropped = gap{t, Later(t, 1), TooManyFacts}
	}
	b.drops++
	b.dropped.from, b.dropped.to = min(b.dropped.from, t), max(b.dropped.to, Later(t, 1))
}

// edit returns the index of the edit of s, the i-th site, from old to new. It adds the
// edit if there is none.
func (b *Builder) edit(s *site, i uint32, old, new []byte) uint32 {
	oldWord, newWord := word(old), word(new)
	if s.pokes > 0 {
		for k, depth := b.edits[s.edit].next, 0; depth < internDepth; depth++ {
			e := &b.edits[k]
			if b.does(e, old, new, oldWord, newWord) {
				return k
			}
			if k == s.edit {
				break
			}
			k = e.next
		}
	}
	n := uint32(len(b.edits))
	e := edit{old: b.intern(s, old, oldWord), olen: uint16(len(old)), nlen: uint16(len(new)), site: i, next: n, oldWord: oldWord, newWord: newWord}
	if string(old) == string(new) {
		e.new = e.old
	} else {
		e.new = b.intern(s, new, newWord)
	}
	if s.pokes > 0 {
		e.next = b.edits[s.edit].next
		b.edits[s.edit].next = n
		e.name = min(s.edits, farAway)
	}
	s.edits = min(s.edits, farAway-1) + 1
	b.edits = append(doubled(b.edits), e)
	return n
}

// intern returns the arena offset of data, a content of site s that begins with these eight bytes. It
// adds data if the site's edits do not have it.
func (b *Builder) intern(s *site, data []byte, begin uint64) uint32 {
	if len(data) == 0 {
		return 0
	}
	if s.pokes > 0 { // the arena is not looked at where the first bytes, which are in the edits, say enough
		for k, depth := s.edit, 0; depth < internDepth; depth++ {
			e := &b.edits[k]
			if e.oldWord == begin && b.has(e.old, e.olen, data) {
				return e.old
			}
			if e.newWord == begin && b.has(e.new, e.nlen, data) {
				return e.new
			}
			if k = e.next; k == s.edit {
				break
			}
		}
	}
	off := uint32(len(b.arena))
	b.arena = append(b.arena, data...)
	return off
}

// has reports whether n bytes of the arena, of which the first eight are those of data, are data.
func (b *Builder) has(off uint32, n uint16, data []byte) bool {
	return int(n) == len(data) && (len(data) <= 8 || string(b.arena[off:][:n]) == string(data))
}
