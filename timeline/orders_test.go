// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOrderResult: what the orders say does not keep what it took to find them, a hundred times as much.
func TestOrderResult(t *testing.T) {
	o := &ordering{orderSet: orderSet{lo: 1, hi: 2}}
	if got := o.result(); got == &o.orderSet || got.lo != 1 || got.hi != 2 {
		t.Errorf("%+v is part of the ordering, or has not its range", got)
	}
}

// TestSearchSite: the search for orders of pokes of the same bytes says what the search for any records does.
func TestSearchSite(t *testing.T) {
	var x siteOrders
	found, undecided := 0, 0
	for seed := range uint64(20_000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		contents := [][]byte{{1}, {2}, {3}, {4}}[:2+rnd.IntN(3)]
		now := contents[rnd.IntN(len(contents))]
		m := &textMemory{lo: 100, bytes: []byte{now[0]}, known: []bool{rnd.IntN(2) == 0}}
		var records []orderedRecord
		var patches []patch
		most := 9
		if seed%128 == 0 { // many states
			most = 24
		}
		for i := range 1 + rnd.IntN(most) {
			next := contents[rnd.IntN(len(contents))]
			patches = append(patches, patch{100, now, next})
			records = append(records, orderedRecord{time: 200 + uint64(rnd.IntN(60)), cpu: rnd.IntN(4), arrival: uint32(i), first: i})
			if now = next; rnd.IntN(8) == 0 {
				now = contents[rnd.IntN(len(contents))]
			}
		}
		if rnd.IntN(4) > 0 { // mostly those that fit in some order: each CPU's times ascend as they were made
			times := make(map[int]uint64)
			for i := range records {
				r := &records[i]
				times[r.cpu] = max(r.time, times[r.cpu]) + 1
				r.time = times[r.cpu]
			}
		}
		slices.SortStableFunc(records, orderedRecord.inLanes)
		var next *patch
		if rnd.IntN(3) == 0 {
			next = &patch{100, now, contents[0]}
		}
		budget, apart := 1+rnd.IntN(1<<uint(rnd.IntN(12))), uint64(rnd.IntN(80))
		make := func() *ordering {
			o := &ordering{orderSet: orderSet{lo: 100, hi: 101, from: 150, to: MaxTime}, apart: apart, before: m, since: []uint64{150}, budget: budget}
			if !o.take(slices.Clone(records), patches) || !o.bound(next) || !o.isSite() {
				t.Fatalf("seed %d: not a site", seed)
			}
			return o
		}
		want, got := make(), make()
		possible := want.search()
		if got.searchSite(&x) != possible || !slices.Equal(got.can, want.can) || got.looked != want.looked || cmp.Less(got.budget, 0) != cmp.Less(want.budget, 0) {
			t.Fatalf("seed %d: %v %v, looked at %d, budget %d; all orders: %v, %v, %d, %d", seed, !possible, got.can, got.looked, got.budget, possible, want.can, want.looked, want.budget)
		}
		if possible {
			found++
			if slices.ContainsFunc(got.can, func(c uint64) bool { return c&(c-1) != 0 }) {
				undecided++
			}
		}
	}
	if x.index == nil {
		t.Error("no history has many states")
	}
	if found < 5_000 || undecided < 200 {
		t.Errorf("of 20,000 only %d have a possible order, and %d more than one content at some time", found, undecided)
	}
}
