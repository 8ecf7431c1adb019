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
// many one after the other, as where the same small program is loaded each second. So what is asked of a
// time does not go through all of them:
//
//	          asked for here ↓
//	a place   ├─ A ─┤  ├ B ┤   ├── C ──┤  ├ D ┤
//	until         A      B        C         D       the greatest end so far
//
// B is the last one that began before, and nothing that began earlier reaches further.
type livesByPlace struct {
	lives []*Lifetime
	reach []uint64 // the greatest Hi of lives[:i+1]
	until []uint64 // the greatest To of those up to the i-th one that begin at its address
}

// newLivesByPlace takes lifetimes by address, then time.
func newLivesByPlace(lives []*Lifetime) livesByPlace {
	x := livesByPlace{lives, make([]uint64, len(lives)), make([]uint64, len(lives))}
	reach := uint64(0)
	for i, l := range lives {
		reach = max(reach, l.Hi)
		x.reach[i], x.until[i] = reach, l.To
		if i > 0 && lives[i-1].Lo == l.Lo {
			x.until[i] = max(x.until[i-1], l.To)
		}
	}
	return x
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
		for first, end := range x.places(lo) {
			if x.reach[end-1] < hi {
				return // so do all that begin before
			}
			for i := x.began(first, end, latest) - 1; i >= first && x.until[i] > since; i-- {
				if l := x.lives[i]; l.Hi >= hi && l.To > since && !yield(l) {
					return
				}
			}
		}
	}
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

// places yields the parts lives[first:end] of those that begin at one address and may have addr.
func (x *livesByPlace) places(addr uint64) iter.Seq2[int, int] {
	return func(yield func(first, end int) bool) {
		for i := x.last(addr); i >= 0 && x.reach[i] > addr; {
			lo := x.lives[i].Lo
			first := sort.Search(i, func(k int) bool { return x.lives[k].Lo >= lo })
			if !yield(first, i+1) {
				return
			}
			i = first - 1
		}
	}
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

// began returns the end of those of lives[first:end] that begin at time t or before.
func (x *livesByPlace) began(first, end int, t uint64) int {
	return first + sort.Search(end-first, func(k int) bool { return x.lives[first+k].From > t })
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
