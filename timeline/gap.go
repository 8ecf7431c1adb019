// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"math"
	"slices"
	"sort"
)

// MaxTime is the end of time. As the end of an interval it means that nothing bounds it.
const MaxTime = uint64(math.MaxUint64)

// A gap is a half-open interval of time in which a change may have gone unrecorded: the
// time before the first record and beyond the horizon, the time between the records
// around a lost one, or all time if coverage was never complete.
type gap struct {
	from, to uint64
	reason   Reason
}

// gaps is a sorted list of disjoint gaps. Neighbours may touch if their reasons differ.
type gaps []gap

// always returns the gaps of memory whose changes are never recorded.
func always(r Reason) gaps { return gaps{{0, MaxTime, r}} }

// flatten makes gaps of any intervals. Where several overlap, the first in the list names
// the reason. Empty intervals and those of no reason are left out.
func flatten(in []gap) gaps {
	var cuts []uint64
	for _, g := range in {
		if g.from < g.to {
			cuts = append(cuts, g.from, g.to)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	if len(cuts) < 2 {
		return nil
	}
	// reason[i] is the reason of [cuts[i], cuts[i+1]). Each is set once: next[i] skips
	// those that are set already, so the time is linear in the number of intervals,
	// however much they overlap.
	reason := make([]Reason, len(cuts)-1)
	next := make([]int, len(cuts))
	for i := range next {
		next[i] = i
	}
	find := func(i int) int {
		for next[i] != i {
			next[i] = next[next[i]]
			i = next[i]
		}
		return i
	}
	for _, g := range in {
		if g.from >= g.to {
			continue
		}
		lo, _ := slices.BinarySearch(cuts, g.from)
		hi, _ := slices.BinarySearch(cuts, g.to)
		for i := find(lo); i < hi; i = find(i) {
			reason[i] = g.reason
			next[i] = i + 1
		}
	}
	var out gaps
	for i, r := range reason {
		if r == ReasonNone {
			continue
		}
		if n := len(out); n > 0 && out[n-1].to == cuts[i] && out[n-1].reason == r {
			out[n-1].to = cuts[i+1]
			continue
		}
		out = append(out, gap{cuts[i], cuts[i+1], r})
	}
	return out
}

// between returns the gaps that share time with [t1, t2).
func (g gaps) between(t1, t2 uint64) gaps {
	lo := sort.Search(len(g), func(i int) bool { return g[i].to > t1 })
	hi := lo + sort.Search(len(g)-lo, func(i int) bool { return g[lo+i].from >= t2 })
	return g[lo:hi]
}

// covers reports whether all of [t1, t2) lies in gaps.
func (g gaps) covers(t1, t2 uint64) bool {
	for _, x := range g.between(t1, t2) {
		if x.from > t1 {
			return false
		}
		t1 = x.to
	}
	return t1 >= t2
}

// replaced returns the gaps of g that share time with [t1, t2), in which each gap of o
// replaces the gaps of g inside of it, unless these cover it. o lies in [t1, t2).
func (g gaps) replaced(o gaps, t1, t2 uint64) (out gaps) {
	add := func(x gap) {
		if n := len(out); n > 0 && out[n-1].to == x.from && out[n-1].reason == x.reason {
			out[n-1].to = x.to
			return
		}
		out = append(out, x)
	}
	keep := func(from, to, end uint64) {
		if from >= to {
			return
		}
		for _, x := range g.between(from, to) {
			add(gap{max(x.from, from), min(x.to, end), x.reason})
		}
	}
	for _, x := range o {
		if !g.covers(x.from, x.to) {
			keep(t1, x.from, x.from)
			add(x)
			t1 = x.to
		}
	}
	keep(t1, Later(t2, 1), MaxTime) // a gap without end remains one
	return out
}

// union joins two lists. Where both have a gap, g's names the reason.
func (g gaps) union(o gaps) gaps {
	return flatten(append(slices.Clone(g), o...))
}

// sortedByTime sorts items by time, in place. Items of equal time keep their order.
func sortedByTime[T any](items []T, time func(T) uint64) {
	if slices.IsSortedFunc(items, func(a, b T) int { return cmp.Compare(time(a), time(b)) }) {
		return
	}
	slices.SortStableFunc(items, func(a, b T) int { return cmp.Compare(time(a), time(b)) })
}
