// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "sort"

// inTimeOrder calls visit for stretches of items, [lo, hi), such that all of
// them are visited in the order of time, and of their index where times are
// equal. A recording is a few sorted runs, one for each ring buffer and round,
// of which long stretches follow one another in time: so whole stretches are
// found by binary search instead of items being compared one by one.
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
	// A heap of runs by the time of their first item; earlier runs first where
	// equal.
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
			// Up to the first item of the run that comes next.
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

// gallop returns the end of the prefix of [lo, hi) for which first holds; it
// holds for lo.
func gallop(lo, hi int, first func(i int) bool) int {
	step := 1
	for lo+step < hi && first(lo+step) {
		lo += step
		step *= 2
	}
	end := min(lo+step, hi)
	return lo + 1 + sort.Search(end-lo-1, func(i int) bool { return !first(lo + 1 + i) })
}
