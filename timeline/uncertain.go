// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "slices"

// What it means for the versions of a fragment that clocks differ (rule clocks): where the order of
// changes is not known, all that they leave contradicts itself; where only their times are
// uncertain, they are in flight for as long.

// Of how many different changes in no known order all claims are kept, and how many claims a fragment
// has room for: so many, and so many more for each change. A kernel changes a place to and fro between
// a few contents.
const (
	mostRivals   = 64
	leastClaims  = 1 << 12
	claimsOfPoke = 8
)

// hasManyRivals reports whether so many changes may have come before ch or after that the place is
// unknown there.
func (c *historyBuilder) hasManyRivals(ch *change) bool {
	return len(c.rivals.of(ch.order)) > mostRivals
}

// rivalsOf returns the pokes for which it is unknown whether they came before ch or
// after, as far as they change the place too, or all if there are many; nil if there are none.
func (c *historyBuilder) rivalsOf(ch *change) []poke {
	if !c.rivals.any() || ch.copied {
		return nil
	}
	all := c.rivals.of(ch.order)
	elsewhere := func(p poke) bool { return !(ch.offset < uint32(c.edits[p.edit].olen)) }
	if c.hasManyRivals(ch) || len(all) > 1 && !slices.ContainsFunc(all, elsewhere) {
		return all
	}
	out := slices.DeleteFunc(slices.Clone(all), elsewhere)
	if len(out) < 2 {
		return nil
	}
	return out
}

// unsettled makes the time around a change conflicting that may have come
// before its rivals or after: everything that any of them says.
func (c *historyBuilder) unsettled(from, to uint64, ch *change, rivals []poke) {
	claims := c.build.claimed[:0]
	if c.content != noContent {
		claims = append(claims, c.claim(from))
	}
	claims = c.differing(claims, claim{ch.recorded, ch.old, SourcePoke, true}, claim{ch.recorded, ch.new, SourcePoke, false})
	for i := range rivals {
		e := &c.edits[rivals[i].edit]
		claims = c.differing(claims, claim{rivals[i].time, e.old + ch.offset, SourcePoke, true})
		if ch.offset < uint32(e.nlen) { // else it retires code
			claims = c.differing(claims, claim{rivals[i].time, e.new + ch.offset, SourcePoke, false})
		}
	}
	c.conflict(from, to, OldBytesMismatch, claims...)
	c.build.claimed = claims
	c.excuse(true)
}

// differing appends to claims those of more that say something, and what none before them does.
func (c *historyBuilder) differing(claims []claim, more ...claim) []claim {
	for _, x := range more {
		if x.content != noContent && !slices.ContainsFunc(claims, func(o claim) bool { return c.equal(o.content, x.content) }) {
			claims = append(claims, x)
		}
	}
	return claims
}

// uncertain makes what was emitted near a change in flight: with clocks that
// differ, the asked time may be before the change or after it. births are the
// times when what is here came or went.
func (c *historyBuilder) uncertain(changes []change, births []uint64) {
	by := c.skew
	if by == 0 {
		if c.differ {
			c.atOneTime(changes)
		}
		return
	}
	times := slices.Clone(births)
	for i := range changes {
		times = append(times, changes[i].time)
		if ch := &changes[i]; ch.recorded != ch.time && !ch.copied && !ch.confirms && c.delayed[ch.order] == 0 {
			times = append(times, ch.recorded) // it was exchanged, and this is what its CPU's clock showed
		}
	}
	slices.Sort(times)
	if len(times) == 0 {
		return
	}
	r := c.revise(earlier(times[0], by))
	for i := 0; i < len(times); {
		from, to := earlier(times[i], by), Later(times[i], by+1)
		for i++; i < len(times) && earlier(times[i], by) <= to; i++ {
			to = Later(times[i], by+1)
		}
		n := 0 // how many changes come before to
		for n < len(changes) && changes[n].time < to {
			n++
		}
		r.blur(from, to, changes[:n])
		changes = changes[n:]
	}
	r.end()
}

// atOneTime makes each moment in flight at which several CPUs changed the place by their clocks, which may differ unseen, and
// left what was there before. One of the changes came first, and something else was there until the last one:
//
//	recorded      CPU 0, CPU 1 at t:  A > B   B > A
//	not so        known A from before t until after it
//	answer        known A, in flight A B A at t, known A
func (c *historyBuilder) atOneTime(changes []change) {
	var r revision
	begun := false
	for len(changes) > 1 {
		t := changes[0].time
		n := upToTime(changes, t)
		if n > 1 && c.ofSeveralCPUs(changes[:n]) {
			if !begun {
				r, begun = c.revise(t), true
			}
			if r.moveTo(t); r.rest[0].since < t {
				r.blur(t, Later(t, 1), changes[:n])
			}
		}
		changes = changes[n:]
	}
	if begun {
		r.end()
	}
}

// ofSeveralCPUs reports whether changes may be of more than one CPU.
func (c *historyBuilder) ofSeveralCPUs(changes []change) bool {
	cpu := c.cpuOf(&poke{order: changes[0].order})
	return cpu == unknownCPU || slices.ContainsFunc(changes, func(ch change) bool {
		return c.cpuOf(&poke{order: ch.order}) != cpu
	})
}

// blur makes [from, to), in which the changes are, in flight where all of it is known.
func (r *revision) blur(from, to uint64, changes []change) {
	r.moveTo(from)
	known, end := true, 0 // the last version before to
	for k := range r.rest {
		if k > 0 && r.rest[k].since >= to {
			break
		}
		known, end = known && r.rest[k].standing == Known, k
	}
	claims := r.build.claimed[:0] // different contents
	defer func() { r.build.claimed = claims[:0] }()
	// The last of the claims is what is there when all is over.
	last := claimOf(&r.rest[end])
	for i := range changes {
		ch := &changes[i]
		if ch.hasOld {
			claims = r.differing(claims, claim{ch.recorded, ch.old, SourcePoke, true})
		}
		if ch.hasNew {
			last = claim{ch.recorded, ch.new, SourcePoke, false}
			claims = r.differing(claims, last)
		}
		if len(claims) > 2*mostRivals {
			r.replace(from, to, func(v version, _ uint64) {
				r.put(version{v.since, state{content: noContent, standing: Unknown, reason: TooManyFacts}})
			})
			return
		}
	}
	if known {
		if len(claims) < 2 {
			return // nothing changes
		}
		// The first and the last are the two sides, of equal content or not.
		between := slices.DeleteFunc(claims[1:], func(o claim) bool { return r.equal(o.content, last.content) })
		claims = append(claims[:1+len(between)], last)
		i := r.disputed(from, to, ClockUncertainty, claims)
		r.replace(from, to, func(v version, _ uint64) {
			r.put(version{v.since, state{content: i, standing: InFlight, reason: ClockUncertainty, source: SourcePoke}})
		})
		return
	}
	r.replace(from, to, func(v version, _ uint64) {
		if v.standing == Known {
			v.standing, v.reason = Unconfirmed, ClockUncertainty
		}
		r.put(v)
	})
}
