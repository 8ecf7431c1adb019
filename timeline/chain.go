// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"sort"
)

// Nearly all pokes of kernel text find what the poke before them left, and nothing was lost
// between. Each of these makes one version: its time and its new bytes. A chain of such pokes
// is not made into changes. Only what comes before it and behind it is derived:
//
//	copy       ├─────┤
//	gaps                                                        ├────┤
//	pokes        p0    p1   p2 │ p3   p4   p5  ...  p7 │ p8   p9   p10
//	versions   v v     v    v  │ v    v    v   ...  v  │ v    v v    v
//	            before         │ chain                 │ after

// A fragmentHistory is the versions of a fragment, by time.
type fragmentHistory struct {
	before []version
	chain  []poke // a version for each
	after  []version
}

func (h *fragmentHistory) len() int { return len(h.before) + len(h.chain) + len(h.after) }

// leastChain is how many pokes a chain has at least, two or more.
const leastChain = 16

// findChain finds a chain among the pokes of a piece, core text: pokes[from:to]. It is empty if
// there is none. init is the copy of the text.
func (c *historyBuilder) findChain(p *piece, init *initial, pokes []poke) (from, to int) {
	all := len(pokes)
	if all < c.limits.chain || len(p.sites) != 1 || c.skew > 0 || c.moved != nil ||
		len(c.copied) > 0 || len(c.ordersOf(c.f.addr)) > 0 || len(c.windows) > 0 || len(c.Builder.began) > 0 {
		return all, all
	}
	s := &c.sites[p.sites[0]]
	if c.orders[p.sites[0]] == examined || s.shortest != s.longest || c.f.addr != s.addr || c.f.size != uint32(s.longest) || s.edits == farAway {
		return all, all
	}
	for k := s.edit; ; {
		e := &c.edits[k]
		if e.old == e.new {
			return all, all // it makes no version
		}
		if k = e.next; k == s.edit {
			break
		}
	}
	// What the copy proves depends on the pokes up to its latest moment, and on the next one.
	if init.content != noContent {
		from = sort.Search(all, func(i int) bool { return pokes[i].time > init.to })
	}
	from += 2
	// It has no poke whose order is not known, and is not right behind one.
	to = all
	for i := 0; i < all && c.rivals.ofSite(p.sites[0]); i++ {
		t := pokes[i].time
		if c.rivals.of(pokes[i].order) == nil {
			continue
		}
		k := sort.Search(all, func(i int) bool { return pokes[i].time >= t })
		if k < from-2 {
			continue
		}
		if k-from >= c.limits.chain {
			to = k
			break
		}
		from = sort.Search(all, func(i int) bool { return pokes[i].time > t }) + 2
	}
	if to-from < c.limits.chain {
		return all, all
	}
	t := pokes[from-1].time
	if g := c.gaps.between(t, MaxTime); len(g) > 0 {
		to = from + sort.Search(to-from, func(i int) bool { return pokes[from+i].time > g[0].from })
	}
	if to-from < c.limits.chain {
		return all, all
	}
	return from, to
}

// hasMore is called when all changes are derived, up to p. If the pokes behind them are a chain,
// it derives these. It appends the changes of the pokes that follow, and returns whether there
// are any.
func (c *historyBuilder) hasMore(p *progress, changes *[]change) bool {
	rest := c.ahead
	if c.ahead = nil; len(rest) == 0 {
		return false
	}
	if c.leadsTo(p, &rest[0]) {
		put := func(t uint64, content uint32) {
			c.out = append(c.out, version{t, state{content: content, standing: Known, source: SourcePoke}})
		}
		n := c.chained - 2
		put(p.t, c.content)
		c.chain, c.chainAt = rest[:n], len(c.out)
		// The last poke's version is emitted with what follows, which is compared with the one
		// before it.
		put(rest[n].time, c.edits[rest[n].edit].new)
		p.t, p.proven, c.content = rest[n+1].time, rest[n+1].time, c.edits[rest[n+1].edit].new
		rest = rest[c.chained:]
	}
	c.build.longer = c.appendChanges(append(c.build.longer[:0], *changes...), c.f, rest)
	*changes = c.build.longer
	return len(rest) > 0
}

// leadsTo reports whether the last fact, up to p, is a poke that left what next found, and its
// version is still to be emitted.
func (c *historyBuilder) leadsTo(p *progress, next *poke) bool {
	if p.dead != ReasonNone || p.weak != ReasonNone || c.source != SourcePoke || c.edits[next.edit].old != c.content || len(c.out) == 0 {
		return false
	}
	last := &c.out[len(c.out)-1]
	return last.since < p.t && !(last.standing == Known && last.source == SourcePoke && c.equal(last.content, c.content))
}
