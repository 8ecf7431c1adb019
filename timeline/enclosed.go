// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "slices"

// Changes that two records enclose, one before and one after the store (rule probes). The
// bytes are known before the first and after the second, and in flight between.

// A localGap is a gap of some addresses only.
type localGap struct {
	Range
	gap
}

// maxLocalGaps is how many local gaps a builder keeps apart. More of them count for all
// addresses.
const maxLocalGaps = 1 << 10

// GapAt adds an interval [from, to) in which a change of the addresses in r went
// unrecorded, or was recorded without its bytes. It counts for all code that text pokes
// change. Answers give the reason.
func (b *Builder) GapAt(r Range, from, to uint64, reason Reason) {
	if r.Lo >= r.Hi || from >= to {
		return
	}
	if len(b.local) >= maxLocalGaps {
		b.Gap(GapPokes, from, to, reason)
		return
	}
	b.local = append(b.local, localGap{r, gap{from, to, reason}})
}

// gapsAt returns the local gaps of an address, not sorted.
func (d *build) gapsAt(addr uint64) (out []gap) {
	for i := range d.local {
		if g := &d.local[i]; g.Lo <= addr && addr < g.Hi {
			out = append(out, g.gap)
		}
	}
	return out
}

// addLocalGaps adds the local gaps of an address to those of the fragment.
func (c *historyBuilder) addLocalGaps(addr uint64) {
	local := c.gapsAt(addr)
	if len(local) == 0 {
		return
	}
	g := flatten(local).widen(c.skew)
	c.gaps = c.gaps.union(g)
	if c.pairs != nil {
		both := c.pairs.union(g)
		c.pairs = &both
	}
}

// addProbed makes the gaps of a place that the kernel changes with no text poke those in
// which such a change was not recorded by other means either.
func (c *historyBuilder) addProbed() {
	if c.probed {
		c.gaps = c.build.gaps[gapsOfSlots]
		c.addLocalGaps(c.f.addr)
	}
}

// weave makes what was emitted in flight while enclosed changes were going on:
//
//	changes        began ├───────┤ time
//	emitted     │ known A        │ known B
//	woven       │ known A│in flt.│ known B
//
// It goes through both lists once: a place may change very often. What is not there,
// or has no bytes, remains so.
func (c *historyBuilder) weave(changes []change) {
	if len(c.Builder.began) == 0 {
		return
	}
	flights := c.flights(changes)
	if len(flights) == 0 {
		return
	}
	in := slices.Clone(c.out)
	c.out = c.out[:0]
	for i, v := range in {
		until := MaxTime
		if i+1 < len(in) {
			until = in[i+1].since
		}
		t := v.since
		for ; len(flights) > 0 && flights[0].from < until; flights = flights[1:] {
			w := &flights[0]
			if w.to <= t {
				continue
			}
			if t < w.from {
				c.resume(t, v.state)
			}
			t = max(t, w.from)
			if inFlightFrom(v.standing) {
				c.resume(t, c.flight(w))
			} else {
				c.resume(t, v.state)
			}
			if t = min(w.to, until); w.to > until {
				break
			}
		}
		if t < until {
			c.resume(t, v.state)
		}
	}
}

// A flight is the time of an enclosed change of a fragment.
type flight struct {
	from, to uint64
	ch       *change
	content  uint32 // of the version, once there is one
	stored   bool
}

// flights returns the times of the enclosed changes, in order. No two overlap: the
// kernel makes one change at a time. If a damaged recording says otherwise, the later
// one begins when the earlier one ends.
func (c *historyBuilder) flights(changes []change) (out []flight) {
	done := uint64(0)
	for i := range changes {
		ch := &changes[i]
		from := max(ch.began, done)
		if ch.began == 0 || from >= ch.time || !ch.hasOld || !ch.hasNew {
			continue
		}
		out = append(out, flight{from: from, to: ch.time, ch: ch})
		done = ch.time
	}
	return out
}

// flight returns the state of a fragment while a change of it is going on.
func (c *historyBuilder) flight(w *flight) state {
	if !w.stored {
		w.stored = true
		w.content = c.disputed(w.from, w.to, InExplicitWindow, []claim{
			{w.from, w.ch.old, SourceWindow, true},
			{w.to, w.ch.new, SourceWindow, false}})
	}
	return state{content: w.content, standing: InFlight, reason: InExplicitWindow, source: SourceWindow}
}

// resume emits a state from time t on, unless the state before is the same.
func (c *historyBuilder) resume(t uint64, s state) {
	if n := len(c.out); n == 0 || c.out[n-1].state != s {
		c.out = append(c.out, version{t, s})
	}
}

// inFlightFrom reports whether bytes of this standing can be in flight.
func inFlightFrom(s Standing) bool { return s.HasBytes() && s != Retired || s == Conflicting }
