// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"iter"
	"slices"
	"sort"
)

// livesByPlace are lifetimes by the first address of each, then by its beginning. A place may have very
// many one after the other, as where the same small program is loaded each second. Very many that begin
// before an address may reach it, as where each lifetime lies within the one before. So what is asked does
// not go through all of them: it passes groups of which none can matter.
//
//	                          asked for here ↓
//	a place         ├─ A ─┤  ├ B ┤   ├── C ──┤  ├ D ┤
//	groups of two   └──── ends ──┘   └─────── ends ─┘
//
// A and B are passed together: their group ends before.
type livesByPlace struct {
	lives []*Lifetime
	reach []uint64 // the greatest Hi of lives[:i+1]
	sums  [][]liveSum
}

// A liveSum says what a group of successive lifetimes has at most. sums has those of liveGroup lifetimes each,
// then those of liveGroup such groups, and so on. The last group of each may be incomplete, and is left out.
type liveSum struct {
	hi, to      uint64 // the greatest Hi and To
	from        uint64 // the least From
	leastHi     uint64
	kinds       uint16 // bit k: there is one of [LifetimeKind] k
	allAreNamed bool
}

const liveGroup = 16

// newLivesByPlace takes lifetimes by address, then time.
func newLivesByPlace(lives []*Lifetime) livesByPlace {
	x := livesByPlace{lives: lives, reach: make([]uint64, len(lives))}
	reach := uint64(0)
	for i, l := range lives {
		reach = max(reach, l.Hi)
		x.reach[i] = reach
	}
	for size := 1; size*liveGroup <= len(lives); size *= liveGroup {
		sums := make([]liveSum, len(lives)/(size*liveGroup))
		for i := range sums {
			sum := &sums[i]
			*sum = liveSum{from: MaxTime, leastHi: MaxTime, allAreNamed: true}
			for k := i * liveGroup; k < (i+1)*liveGroup; k++ {
				if size == 1 {
					one := sumOf(lives[k])
					sum.add(&one)
				} else {
					sum.add(&x.sums[len(x.sums)-1][k])
				}
			}
		}
		x.sums = append(x.sums, sums)
	}
	return x
}

// sumOf returns what a single lifetime has.
func sumOf(l *Lifetime) liveSum { return liveSum{l.Hi, l.To, l.From, l.Hi, 1 << l.Kind, l.Name != ""} }

// add adds another group.
func (s *liveSum) add(o *liveSum) {
	s.hi, s.to, s.from, s.leastHi = max(s.hi, o.hi), max(s.to, o.to), min(s.from, o.from), min(s.leastHi, o.leastHi)
	s.kinds |= o.kinds
	s.allAreNamed = s.allAreNamed && o.allAreNamed
}

// passes returns the size of the largest group that begins with the i-th lifetime and does not matter. If back is
// set, the group ends with it. 0 means that each group matters.
func (x *livesByPlace) passes(i int, back bool, matters func(*liveSum) bool) (n int) {
	edge := i
	if back {
		edge = i + 1
	}
	for k, size := 0, liveGroup; k < len(x.sums) && edge%size == 0; k, size = k+1, size*liveGroup {
		if group := i / size; group == len(x.sums[k]) || matters(&x.sums[k][group]) {
			break
		}
		n = size
	}
	return n
}

// search yields the lifetimes that have addr, from the last one on. It passes groups that do not matter; where
// it looks at a group, it may yield those that do not matter, too.
func (x *livesByPlace) search(addr uint64, matters func(*liveSum) bool) iter.Seq[*Lifetime] {
	return func(yield func(*Lifetime) bool) {
		may := func(s *liveSum) bool { return s.hi > addr && matters(s) }
		for i := x.last(addr); i >= 0 && x.reach[i] > addr; {
			if n := x.passes(i, true, may); n > 0 {
				i -= n
				continue
			}
			if l := x.lives[i]; addr < l.Hi && !yield(l) {
				return
			}
			i--
		}
	}
}

// byPlace returns lifetimes by address, then time.
func byPlace(lives []*Lifetime) livesByPlace {
	lives = sortedByLo(lives)
	sortByPlace(lives)
	return newLivesByPlace(lives)
}

// meanwhile yields those that have all of [lo, hi), begin at time latest or before, and end after time since.
func (x *livesByPlace) meanwhile(lo, hi, latest, since uint64) iter.Seq[*Lifetime] {
	return func(yield func(*Lifetime) bool) {
		for l := range x.search(lo, func(s *liveSum) bool { return s.hi >= hi && s.from <= latest && s.to > since }) {
			if l.Hi >= hi && l.From <= latest && l.To > since && !yield(l) {
				return
			}
		}
	}
}

// first returns the one of this kind that begins first among those that have addr and end after t, nil if
// there is none. Of several that begin at one time it is that of the greatest address.
func (x *livesByPlace) first(addr, t uint64, kind LifetimeKind) (first *Lifetime) {
	matters := func(s *liveSum) bool {
		return s.hi > addr && s.to > t && s.kinds>>kind&1 != 0 && (first == nil || s.from <= first.From)
	}
	i, last := sort.Search(len(x.reach), func(i int) bool { return x.reach[i] > addr }), x.last(addr)
	for i <= last {
		if n := x.passes(i, false, matters); n > 0 {
			i += n
			continue
		}
		l := x.lives[i]
		if s := sumOf(l); matters(&s) && (first == nil || l.From < first.From || l.Lo > first.Lo) {
			first = l
		}
		i++
	}
	return first
}

// begins appends the times at which those that have addr begin to times, and sorts them.
func (x *livesByPlace) begins(times []uint64, addr uint64) []uint64 {
	for i := x.last(addr); i >= 0 && x.reach[i] > addr; i-- {
		if addr < x.lives[i].Hi {
			times = append(times, x.lives[i].From)
		}
	}
	slices.Sort(times)
	return times
}

// at yields those with a name that have addr.
func (x *livesByPlace) at(addr uint64) iter.Seq[*Lifetime] {
	return func(yield func(*Lifetime) bool) {
		for i := x.last(addr); i >= 0 && x.reach[i] > addr; i-- {
			if l := x.lives[i]; l.hasName(addr) && !yield(l) {
				return
			}
		}
	}
}

// last returns the index of the last one that begins at addr or before; -1 if there is none.
func (x *livesByPlace) last(addr uint64) int {
	return sort.Search(len(x.lives), func(i int) bool { return x.lives[i].Lo > addr }) - 1
}

// sortByPlace sorts lifetimes that are in the order of sortedByLo by address, then time.
func sortByPlace(lives []*Lifetime) {
	byFrom := func(a, b *Lifetime) int { return cmp.Compare(a.From, b.From) }
	for lo, hi := 0, 0; lo < len(lives); lo = hi {
		for hi = lo + 1; hi < len(lives) && lives[hi].Lo == lives[lo].Lo; {
			hi++
		}
		if !slices.IsSortedFunc(lives[lo:hi], byFrom) { // as nearly all are
			slices.SortStableFunc(lives[lo:hi], byFrom)
		}
	}
}

// sortedByLo returns lifetimes by their first address. Those of one address keep their order.
func sortedByLo(lives []*Lifetime) []*Lifetime {
	type key struct {
		lo uint64
		at int
	}
	keys := make([]key, len(lives)) // so that to compare two loads no lifetime
	for i, l := range lives {
		keys[i] = key{l.Lo, i}
	}
	slices.SortFunc(keys, func(x, y key) int {
		if x.lo != y.lo {
			return cmp.Compare(x.lo, y.lo)
		}
		return x.at - y.at
	})
	out := make([]*Lifetime, len(lives))
	for i, k := range keys {
		out[i] = lives[k.at]
	}
	return out
}
