// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "slices"

// An image that is restricted to some addresses ([Builder.Only]) must say of them what the whole image says.
// Facts are compared fragment by fragment, and those of a module with one another. So a range must not cut a
// fact in two, and has all of a module or none:
//
//	asked for        ├───────┤                          ├────┤
//	pokes         ├─────┤  ├─┤ ├──┤
//	a module                                     ├────────────────────┤
//	image         ├──────────┤                   ├────────────────────┤
//
// What an image needs to know of all other places is whether they show that the CPUs' clocks differ
// (sortPokes). So their pokes are kept, but no histories are derived of them.

// asked returns the ranges that have an address, joined. It is nil if ranges is.
func asked(ranges []Range) []Range {
	return JoinRanges(slices.DeleteFunc(slices.Clone(ranges), func(r Range) bool { return r.Hi <= r.Lo }))
}

// imaged returns the ranges that images are asked for; nil: all addresses. Where writers may be silent, a
// contradiction anywhere matters.
func (b *Builder) imaged() []Range {
	if len(b.only) > 0 && b.pairing() != nil {
		return nil
	}
	return b.only
}

// widened returns the ranges of d.only with all of the facts that they cut. Explicit windows are pokes by now, and code
// that perf fetched is of a lifetime. The orders of each cluster of code, if there are any, are looked for together.
func (d *build) widened(lives []*Lifetime, code []*cluster) []Range {
	only := d.only
	for len(only) > 0 {
		all := slices.Clone(only)
		widen := func(lo, hi uint64) {
			if lo < hi && wanted(only, lo, hi) && !wantedAll(only, lo, hi-lo) {
				all = append(all, Range{lo, hi})
			}
		}
		for i := 0; i < len(d.order); {
			s := &d.sites[d.order[i]]
			lo, hi := s.addr, s.addr+uint64(s.longest)
			for i++; i < len(d.order) && d.sites[d.order[i]].addr < hi; i++ { // those that overlap
				s = &d.sites[d.order[i]]
				hi = max(hi, s.addr+uint64(s.longest))
			}
			widen(lo, hi)
		}
		for _, l := range lives {
			widen(l.Lo, l.Hi)
		}
		for _, c := range code {
			widen(c.lo, c.hi)
		}
		for i := range d.copied {
			for _, r := range d.copied[i].differs {
				widen(r.lo, r.hi)
			}
		}
		if len(all) == len(only) {
			break
		}
		only = JoinRanges(all)
	}
	return only
}
