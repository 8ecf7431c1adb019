// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
	"sort"
)

// addressed are lifetimes by their first address, with the largest end of all up to each.
type addressed struct {
	lives []*Lifetime
	ends  []uint64
}

func byAddress(lives []*Lifetime) addressed {
	a := addressed{lives: sortedByLo(lives), ends: make([]uint64, len(lives))}
	end := uint64(0)
	for i, l := range a.lives {
		end = max(end, l.Hi)
		a.ends[i] = end
	}
	return a
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
	slices.SortFunc(keys, func(x, y key) int { return cmp.Or(cmp.Compare(x.lo, y.lo), cmp.Compare(x.at, y.at)) })
	out := make([]*Lifetime, len(lives))
	for i, k := range keys {
		out[i] = lives[k.at]
	}
	return out
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
