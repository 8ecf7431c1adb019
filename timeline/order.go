// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "sort"

// InTimeOrder calls visit with ranges [lo, hi) of items, so that all items are visited in
// the order of time. Items of equal time are visited in the order of their indices.
//
// It is a k-way merge of the sorted runs in items. A recording has one run for each ring
// buffer and round. Long parts of a run follow each other in time without an item of
// another run between, so InTimeOrder finds their ends by binary search instead of
// comparing each item.
func InTimeOrder[T any](items []T, time func(*T) uint64, visit func(lo, hi int)) {
	type run struct{ lo, hi int }
	var runs []run
	for lo := 0; lo < len(items); {
		hi := lo + 1
		for last := time(&items[lo]); hi < len(items); hi++ {
			t := time(&items[hi])
			if t < last {
				break
			}
			last = t
		}
		runs = append(runs, run{lo, hi})
		lo = hi
	}
	// A heap of runs by the time of their first item, then by their index.
	before := func(x, y run) bool {
		tx, ty := time(&items[x.lo]), time(&items[y.lo])
		return tx < ty || tx == ty && x.lo < y.lo
	}
	sink := func(i int) {
		for {
			c := 2*i + 1
			if c >= len(runs) {
				return
			}
			if c+1 < len(runs) && before(runs[c+1], runs[c]) {
				c++
			}
			if !before(runs[c], runs[i]) {
				return
			}
			runs[i], runs[c] = runs[c], runs[i]
			i = c
		}
	}
	for i := len(runs)/2 - 1; i >= 0; i-- {
		sink(i)
	}
	for len(runs) > 0 {
		r := &runs[0]
		end := r.hi
		for c := 1; c <= 2 && c < len(runs); c++ {
			// Only up to the first item of the next run.
			o := runs[c]
			limit := time(&items[o.lo])
			end = gallop(r.lo, end, func(i int) bool {
				t := time(&items[i])
				return t < limit || t == limit && r.lo < o.lo
			})
		}
		visit(r.lo, end)
		if r.lo = end; r.lo == r.hi {
			runs[0] = runs[len(runs)-1]
			runs = runs[:len(runs)-1]
		}
		sink(0)
	}
}

// gallop returns the end of the prefix of [lo, hi) for which first returns true, as it
// does for lo.
func gallop(lo, hi int, first func(i int) bool) int {
	step := 1
	for lo+step < hi && first(lo+step) {
		lo += step
		step *= 2
	}
	end := min(lo+step, hi)
	return lo + 1 + sort.Search(end-lo-1, func(i int) bool { return !first(lo + 1 + i) })
}
