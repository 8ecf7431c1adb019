// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"slices"
	"sort"
)

// Versions as a historyBuilder emits them: they are appended in the order of time. Afterwards, a fact
// that concerns an interval may replace what was emitted for it (overlay). Facts that contradict each
// other are kept as claims.

// emit appends a version that begins at t, unless it equals the one before.
func (c *historyBuilder) emit(t uint64, s Standing, r Reason, src Source, content uint32) {
	c.put(version{t, state{content: content, standing: s, reason: r, source: src}})
}

// put is emit for a version.
func (c *historyBuilder) put(v version) {
	for n := len(c.out); n > 0; n-- {
		last := &c.out[n-1]
		if last.since == v.since {
			// The interval is empty: of two facts of one time the later one counts.
			c.out = c.out[:n-1]
			continue
		}
		if last.standing == v.standing && last.reason == v.reason && last.source == v.source &&
			v.standing.HasBytes() && v.standing != InFlight && c.equal(last.content, v.content) ||
			last.state == v.state {
			return
		}
		break
	}
	c.out = append(c.out, v)
}

func (c *historyBuilder) bytes(content uint32) []byte { return c.im.contentBytes(c.f, content) }

func (c *historyBuilder) equal(a, b uint32) bool {
	if a == b {
		return true
	}
	if a == noContent || b == noContent {
		return false
	}
	if arena := c.im.arena; a < maxContent && b < maxContent && arena[a] != arena[b] {
		return false // as a NOP and a CALL do, at the first byte
	}
	return bytes.Equal(c.bytes(a), c.bytes(b))
}

// versionAt returns the index of the version that was emitted for time t.
func (c *historyBuilder) versionAt(t uint64) int {
	return max(0, sort.Search(len(c.out), func(i int) bool { return c.out[i].since > t })-1)
}

// overlay replaces what was emitted for [from, to). It calls put for each version in the
// interval, cut to it, with the version's end. put emits what replaces it.
func (c *historyBuilder) overlay(from, to uint64, put func(v version, until uint64)) {
	if from < to {
		r := c.revise(from)
		r.replace(from, to, put)
		r.end()
	}
}

// A revision does what overlay does for several intervals, in the order of time. It goes
// through what was emitted once: a place may change very often.
type revision struct {
	*historyBuilder
	rest []version // of what was emitted, those that are not emitted again
}

// revise begins a revision of what was emitted for the time from and later.
func (c *historyBuilder) revise(from uint64) revision {
	i := c.versionAt(from)
	r := revision{c, slices.Clone(c.out[i:])}
	c.out = c.out[:i]
	return r
}

// moveTo emits again what ends at t or earlier. Then the first of the rest is valid at t.
func (r *revision) moveTo(t uint64) {
	for len(r.rest) > 1 && r.rest[1].since <= t {
		r.put(r.rest[0])
		r.rest = r.rest[1:]
	}
}

// replace replaces what was emitted for [from, to), as overlay does. No later call may be for a
// time before to.
func (r *revision) replace(from, to uint64, put func(v version, until uint64)) {
	r.moveTo(from)
	for ; len(r.rest) > 0 && r.rest[0].since < to; r.rest = r.rest[1:] {
		v, until := r.rest[0], MaxTime
		if len(r.rest) > 1 {
			until = r.rest[1].since
		}
		if v.since < from {
			r.put(v)
			v.since = from
		}
		put(v, min(until, to))
		if until > to {
			r.rest[0].since = to
			return
		}
	}
}

// end emits the rest again.
func (r *revision) end() {
	for _, v := range r.rest {
		r.put(v)
	}
}

// doubt makes bytes that were emitted conflicting from time t on: a fact about another
// address of the module shows that the module has gone (rule modules).
func (c *historyBuilder) doubt(t uint64) {
	c.overlay(t, MaxTime, func(v version, until uint64) {
		switch {
		case v.standing != Known && v.standing != Unconfirmed:
			c.put(v)
		case !c.prolong(&v, until):
			c.conflict(v.since, until, ModuleContradicted, claimOf(&v))
		}
	})
}

// doubtBefore makes what was emitted before time t unconfirmed: the module may have been
// loaded with no record shortly before perf listed it.
func (c *historyBuilder) doubtBefore(t uint64) {
	c.overlay(0, t, func(v version, _ uint64) {
		if v.standing == Known {
			v.standing, v.reason = Unconfirmed, c.afterCopy
		}
		c.put(v)
	})
}

// prolong extends the contradiction that was emitted last up to until, if v begins at its
// end and has the same bytes. It reports whether it did.
func (c *historyBuilder) prolong(v *version, until uint64) bool {
	if len(c.out) == 0 {
		return false
	}
	last := &c.out[len(c.out)-1]
	if last.standing != Conflicting || last.reason != ModuleContradicted {
		return false
	}
	x := &c.im.conflicts[last.content]
	if x.to != v.since || !c.equal(c.im.claims[x.claims].content, v.content) {
		return false
	}
	x.to = until
	return true
}

// claim returns the claim of the last fact, of time t.
func (c *historyBuilder) claim(t uint64) claim {
	return claimOf(&version{t, state{content: c.content, source: c.source}})
}

// claimOf returns the claim of the fact that gives a version its bytes.
func claimOf(v *version) claim {
	c := claim{content: v.content, source: v.source}
	if v.source == SourcePoke {
		c.time = v.since
	}
	return c
}

// conflict records a contradiction and emits it.
func (c *historyBuilder) conflict(from, to uint64, reason Reason, claims ...claim) {
	c.emit(from, Conflicting, reason, SourceNone, c.disputed(from, to, reason, claims))
}

// excuse says whether the newest conflict needs no writer without records, see [Conflict].
func (c *historyBuilder) excuse(excused bool) {
	if excused {
		c.im.conflicts[len(c.im.conflicts)-1].excused = 1
	}
}

// disputed stores claims that cannot all be true, and returns their index as the content
// of a version.
func (c *historyBuilder) disputed(from, to uint64, reason Reason, claims []claim) uint32 {
	im := c.im
	im.conflicts = append(im.conflicts, conflict{addr: c.f.addr, from: from, to: to,
		claims: uint32(len(im.claims)), count: uint32(len(claims)),
		size: c.f.size, fragment: uint32(len(im.fragments)), reason: reason})
	im.claims = append(im.claims, claims...)
	return uint32(len(im.conflicts) - 1)
}
