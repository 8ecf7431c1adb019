// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
)

// Skew is a pair of pokes of one place whose recorded times are in the wrong
// order: the place's old and new bytes follow on one another only if the one
// with the later time came first. CPUs' clocks differ, then, by First - Second
// at least (rule clocks).
type Skew struct {
	Addr   uint64
	First  uint64 // recorded time of the poke that came first
	Second uint64 // recorded time of the one that followed, less than First
	// The CPUs that recorded them.
	FirstCPU, SecondCPU int
}

// By returns by how much the two clocks differ at least, in nanoseconds.
func (s *Skew) By() uint64 { return s.First - s.Second }

// maxSkew is by how much the clocks of two CPUs are believed to differ at most.
// Where the hardware's counters do not agree, perf's own clock keeps each CPU
// within a tick or two of the common time (sched_clock_local() in
// kernel/sched/clock.c), which an emulator stretches by ten and more. Records
// further apart are in the order of their times, and what does not fit is a
// contradiction.
const maxSkew = 1e9

// unknownCPU is a CPU that the recording does not name.
const unknownCPU = 0xffff

// A link is how two successive pokes of a place fit together.
type link uint8

const (
	linkFits   link = iota // or nothing tells
	linkLost               // does not, but a change between may have gone unrecorded
	linkBroken             // does not, and nothing is missing
)

// follows reports whether y's old bytes are x's new ones, as far as both go.
func (d *build) follows(x, y *poke) bool {
	p, q := &d.edits[x.edit], &d.edits[y.edit]
	n := min(p.nlen, q.olen)
	return n == 0 || p.new == q.old || bytes.Equal(d.arena[p.new:][:n], d.arena[q.old:][:n])
}

// addressed are lifetimes by their first address, with the largest end of all up to each.
type addressed struct {
	lives []*Lifetime
	ends  []uint64
}

func byAddress(lives []*Lifetime) addressed {
	a := addressed{lives: slices.Clone(lives), ends: make([]uint64, len(lives))}
	slices.SortStableFunc(a.lives, func(x, y *Lifetime) int { return cmp.Compare(x.Lo, y.Lo) })
	end := uint64(0)
	for i, l := range a.lives {
		end = max(end, l.Hi)
		a.ends[i] = end
	}
	return a
}

// around yields the lifetimes that have all of [lo, hi).
func (a *addressed) around(lo, hi uint64) func(yield func(*Lifetime) bool) {
	return func(yield func(*Lifetime) bool) {
		n := sort.Search(len(a.lives), func(i int) bool { return a.lives[i].Lo > lo })
		for i := n - 1; i >= 0 && a.ends[i] >= hi; i-- {
			if l := a.lives[i]; l.Hi >= hi && !yield(l) {
				return
			}
		}
	}
}

// onlyPoked reports whether nothing but pokes can have written [lo, hi) in [from, to]:
// it is kernel text, or one lifetime has it all the time. The kernel writes code that
// comes to life with no record before its birth.
func (d *build) onlyPoked(lo, hi, from, to uint64) bool {
	if d.textLo <= lo && hi <= d.textHi {
		return true
	}
	for l := range d.lifetimes.around(lo, hi) {
		if l.From > from || to >= l.To {
			continue
		}
		switch l.Kind {
		case OutOfLine, BPFProgram:
			return true
		case ModuleText:
			return len(d.gaps[gapsOfModule].between(from, to)) == 0
		}
	}
	return false
}

// link says how the i-th and j-th of a place's pokes fit together as neighbours.
func (d *build) link(list []poke, i, j int) link {
	if i < 0 || j < 0 || i >= len(list) || j >= len(list) || d.follows(&list[i], &list[j]) {
		return linkFits
	}
	t, u := min(list[i].time, list[j].time), max(list[i].time, list[j].time)
	x := &d.edits[list[i].edit]
	addr := d.sites[x.site].addr
	if len(d.gaps[gapsOfText].between(t, u)) > 0 || !d.onlyPoked(addr, addr+uint64(max(x.olen, x.nlen)), t, u) {
		return linkLost
	}
	return linkBroken
}

// unskew finds neighbours among a place's pokes that CPUs with differing clocks
// recorded in the wrong order, and exchanges them. Two links that nothing else
// explains must be mended by it. One alone may be an unrecorded change as
// well: which of the two came first is then not known.
func (d *build) unskew(list []poke) {
	for k := 0; k+1 < len(list); k++ {
		p, q := list[k], list[k+1]
		x, y := &d.edits[p.edit], &d.edits[q.edit]
		cx, cy := d.cpuOf(&p), d.cpuOf(&q)
		if cx == cy || cx == unknownCPU || cy == unknownCPU || p.time > q.time || q.time-p.time > maxSkew ||
			x.olen != x.nlen || y.olen != y.nlen || x.olen != y.olen {
			continue
		}
		if p.time == q.time {
			d.untie(list, k)
			continue
		}
		broken := 0
		for _, l := range []link{d.link(list, k-1, k), d.link(list, k, k+1), d.link(list, k+1, k+2)} {
			if l == linkBroken {
				broken++
			}
		}
		if broken == 0 || len(d.gaps[gapsOfText].between(p.time, q.time)) > 0 ||
			d.link(list, k-1, k+1) != linkFits || !d.follows(&q, &p) || d.link(list, k, k+2) != linkFits {
			continue
		}
		if broken == 1 {
			d.rival(&p, &q)
			continue
		}
		if d.moved == nil {
			d.moved = make(map[uint32]uint64)
		}
		d.im.skews = append(d.im.skews, Skew{Addr: d.sites[x.site].addr,
			First: q.time, FirstCPU: int(cy), Second: p.time, SecondCPU: int(cx)})
		d.skew = max(d.skew, q.time-p.time)
		d.moved[q.order], d.moved[p.order] = p.time, q.time
		list[k], list[k+1] = q, p
		k++
	}
}

// untie finds the order of two pokes of a place, the k-th and the next one, that two
// CPUs recorded at the same time. Their order in the file proves nothing. What they
// found and left does, if it fits in one order only.
func (d *build) untie(list []poke, k int) {
	p, q := list[k], list[k+1]
	fits := func(l link) bool { return l != linkBroken }
	asRead := fits(d.link(list, k-1, k)) && d.follows(&p, &q) && fits(d.link(list, k+1, k+2))
	turned := fits(d.link(list, k-1, k+1)) && d.follows(&q, &p) && fits(d.link(list, k, k+2))
	switch {
	case p.edit == q.edit || asRead && !turned:
	case turned && !asRead:
		p.order, q.order = q.order, p.order // the order of pokes of equal time
		list[k], list[k+1] = q, p
	default:
		d.rival(&p, &q)
	}
}

// rival notes that it is not known which of two pokes came first.
func (d *build) rival(p, q *poke) {
	if d.rivals == nil {
		d.rivals = make(map[uint32]poke)
	}
	d.rivals[p.order], d.rivals[q.order] = *q, *p
}

// timeOf returns the time of a poke in the order in which its place's pokes
// came.
func (d *build) timeOf(p *poke) uint64 {
	if d.moved != nil {
		if t, ok := d.moved[p.order]; ok {
			return t
		}
	}
	return p.time
}

// rivalOf returns the poke of which it is not known whether it came before ch or
// after.
func (c *historyBuilder) rivalOf(ch *change) (poke, bool) {
	if c.rivals == nil {
		return poke{}, false
	}
	p, ok := c.rivals[ch.order]
	return p, ok
}

// unsettled makes the time around a change conflicting that may have come
// before its rival or after: everything that either says.
func (c *historyBuilder) unsettled(from, to uint64, ch *change, rival poke) {
	var claims []claim
	if c.content != noContent {
		claims = append(claims, c.claim(from))
	}
	e := &c.edits[rival.edit]
	claims = c.differing(claims,
		claim{ch.recorded, ch.old, SourcePoke, true}, claim{ch.recorded, ch.new, SourcePoke, false},
		claim{rival.time, e.old + ch.offset, SourcePoke, true}, claim{rival.time, e.new + ch.offset, SourcePoke, false})
	c.conflict(from, to, OldBytesMismatch, claims...)
}

// differing appends to claims those of more that say what none before them does.
func (c *historyBuilder) differing(claims []claim, more ...claim) []claim {
	for _, x := range more {
		if !slices.ContainsFunc(claims, func(o claim) bool { return c.equal(o.content, x.content) }) {
			claims = append(claims, x)
		}
	}
	return claims
}

// widen makes gaps longer at both ends by how far CPUs' clocks may differ. What
// was before the recording stays as it is: whichever clock a later record's
// time is of, it was taken when all events were open.
func (g gaps) widen(by uint64) gaps {
	if by == 0 {
		return g
	}
	wide := slices.Clone(g)
	for i := range wide {
		if wide[i].reason == OutsideRecording {
			continue
		}
		wide[i].from, wide[i].to = earlier(wide[i].from, by), later(wide[i].to, by)
	}
	return flatten(wide)
}

// earlier and later move a time by the uncertainty of a clock.
func earlier(t, by uint64) uint64 { return t - min(t, by) }
func later(t, by uint64) uint64   { return t + min(MaxTime-t, by) }

// uncertain makes what was emitted near a change in flight: with clocks that
// differ, the asked time may be before the change or after it. births are the
// times when what is here came or went.
func (c *historyBuilder) uncertain(changes []change, births []uint64) {
	by := c.skew
	if by == 0 {
		return
	}
	times := slices.Clone(births)
	for i := range changes {
		times = append(times, changes[i].time)
	}
	slices.Sort(times)
	for i := 0; i < len(times); {
		from, to := earlier(times[i], by), later(times[i], by+1)
		for i++; i < len(times) && earlier(times[i], by) <= to; i++ {
			to = later(times[i], by+1)
		}
		c.blur(from, to, changes)
	}
}

// blur makes [from, to) in flight where all of it is known.
func (c *historyBuilder) blur(from, to uint64, changes []change) {
	known := true
	var claims []claim // different contents
	for k, end := c.versionAt(from), c.versionAt(to-1); k <= end; k++ {
		known = known && c.out[k].standing == Known
	}
	// The last of the claims is what is there when all is over.
	last := claimOf(&c.out[c.versionAt(to-1)])
	for i := range changes {
		if ch := &changes[i]; ch.time >= from && ch.time < to {
			if ch.hasOld {
				claims = c.differing(claims, claim{ch.recorded, ch.old, SourcePoke, true})
			}
			if ch.hasNew {
				last = claim{ch.recorded, ch.new, SourcePoke, false}
				claims = c.differing(claims, last)
			}
		}
	}
	if known {
		if len(claims) < 2 {
			return // nothing changes
		}
		// The first and the last are the two sides, of equal content or not.
		between := slices.DeleteFunc(claims[1:], func(o claim) bool { return c.equal(o.content, last.content) })
		claims = append(claims[:1+len(between)], last)
		i := c.disputed(from, to, ClockUncertainty, claims)
		c.overlay(from, to, func(v version, _ uint64) {
			c.put(version{v.since, state{content: i, standing: InFlight, reason: ClockUncertainty, source: SourcePoke}})
		})
		return
	}
	c.overlay(from, to, func(v version, _ uint64) {
		if v.standing == Known {
			v.standing, v.reason = Unconfirmed, ClockUncertainty
		}
		c.put(v)
	})
}
