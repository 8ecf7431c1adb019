// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "slices"

// Code is certain to be there only up to the gaps in the records of births and deaths
// (rule lifetimes). A record, or a list, shows that it was there at some moment. So it
// was there from the last gap before that moment to the next gap after it:
//
//	            birth      list         death
//	gaps          │   ├──┤  │ │   ├──┤    │
//	certain       ├───┤  ├──┴─┴───┤  ├────┤
//	unsure            ├──┤        ├──┤
//
// Without the list all of the time between the birth's gap and the death's gap is unsure:
// the code may have gone, other code may have come and gone, and the memory may have been
// filled and written with no record. That time counts as one gap for all facts about the
// code.

// unsure returns the times at which l may not be there. changes are those of a fragment of
// l: they may show that it is there.
func (p *liveSet) unsure(l *Lifetime, changes []change) gaps {
	lost := p.gapsOf(l)
	if l.undated || l.isSeenElsewhere() {
		// At no moment it is certain, save around those of other lists.
		lost = flatten(append(gaps{{l.From, Later(l.From, 1), ModuleMayHaveGone}}, lost...))
	}
	within := lost.between(l.From, l.To)
	if len(within) == 0 {
		return nil
	}
	certain := p.certain(l, changes)
	var out gaps
	at := l.From
	for _, r := range JoinRanges(append(certain, Range{l.To, l.To})) {
		if at < r.Lo {
			out = append(out, lost.spanning(at, r.Lo, within[0].reason)...)
		}
		at = max(at, r.Hi)
	}
	return out
}

// isSeenElsewhere reports whether the lists that have a module are of other times than those in which it is
// believed to be there, since other code came to its place. A load names no address: the module may have
// been elsewhere until then.
func (l *Lifetime) isSeenElsewhere() bool {
	return l.IsModule() && len(l.seen) > 0 && !slices.ContainsFunc(l.seen, func(s Interval) bool { return s.From < l.To && l.From < s.To })
}

// certain returns the times when l was there.
func (p *liveSet) certain(l *Lifetime, changes []change) (out []Range) {
	lost := p.gapsOf(l)
	// around adds the time around [from, to). At some moment of it, l was there.
	around := func(from, to uint64) {
		from, to = max(from, l.From), min(to, l.To)
		if from >= to || len(lost.between(from, to)) > 0 {
			return
		}
		r := Range{l.From, l.To}
		if g := lost.between(l.From, from); len(g) > 0 {
			r.Lo = g[len(g)-1].to
		}
		if g := lost.between(to-1, l.To); len(g) > 0 {
			r.Hi = g[0].from
		}
		out = append(out, r)
	}
	for _, s := range l.seen {
		around(s.From, s.To)
	}
	for i := range changes {
		ch := &changes[i]
		if !ch.live {
			continue
		}
		if !ch.birth {
			around(earlier(ch.time, 1), ch.time)
		}
		r := Range{ch.time, l.To}
		if g := lost.between(r.Lo, r.Hi); len(g) > 0 {
			r.Hi = g[0].from
		}
		if r.Lo < r.Hi {
			out = append(out, r)
		}
	}
	return out
}

// spanning returns [from, to) as a gap, of the reason of the first gap in it, or
// else of reason. As with facts, a gap without end names the reason from its
// beginning on.
func (g gaps) spanning(from, to uint64, reason Reason) gaps {
	in := g.between(from, to)
	if len(in) == 0 {
		return gaps{{from, to, reason}}
	}
	last := in[len(in)-1]
	switch {
	case last.to < MaxTime:
		return gaps{{from, to, in[0].reason}}
	case from < last.from:
		return gaps{{from, last.from, in[0].reason}, last}
	}
	return gaps{{from, MaxTime, last.reason}}
}

// sightings marks the changes that show that l is there, and reports whether any does:
// those that make code, and those that find the call that l had before. Any other one may
// be a module's, which came with no record where l was.
func (c *historyBuilder) sightings(l *Lifetime, changes []change) (any bool) {
	var certain []Range // when l was there anyway
	for i := range changes {
		ch := &changes[i]
		ch.live = ch.birth
		if i > 0 && ch.calls && changes[i-1].hasNew && c.equal(changes[i-1].new, ch.old) {
			before := &changes[i-1]
			if certain == nil {
				certain = c.liveSet.certain(l, nil)
			}
			ch.live = before.live || slices.ContainsFunc(certain, func(r Range) bool { return r.Lo <= before.time && before.time < r.Hi })
		}
		any = any || ch.live
	}
	return any
}

// unsureKey is what the gaps of a place in a lifetime's time depend on, if no change of
// the place counts.
type unsureKey struct {
	lifetime *Lifetime
	from     uint64
}

// unsureGaps returns the gaps of a place in l's time, with the times when it is not certain
// that l is there.
func (c *historyBuilder) unsureGaps(l *Lifetime, init initial, changes []change) gaps {
	if len(l.unsure) == 0 || c.gaps.covers(0, MaxTime) {
		return c.gaps
	}
	from := l.From
	if init.content != noContent {
		from = min(from, init.from)
	}
	if l.dynamic() && c.sightings(l, changes) {
		return c.gaps.replaced(c.liveSet.unsure(l, changes), from, l.To)
	}
	key := unsureKey{l, from}
	g, ok := c.unsure[key]
	if !ok {
		g = c.gaps.replaced(l.unsure, from, l.To)
		c.unsure[key] = g
	}
	return g
}
