// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestInTimeOrder(t *testing.T) {
	type item struct{ time, index uint64 }
	rapid.Check(t, func(t *rapid.T) {
		items := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) item {
			return item{time: rapid.Uint64Range(0, 20).Draw(t, "time")}
		}), 0, 60).Draw(t, "items")
		for i := range items {
			items[i].index = uint64(i)
		}
		var got []item
		InTimeOrder(items, func(i *item) uint64 { return i.time }, func(lo, hi int) { got = append(got, items[lo:hi]...) })
		want := slices.Clone(items)
		slices.SortStableFunc(want, func(a, b item) int { return cmp.Compare(a.time, b.time) })
		if !slices.Equal(want, got) {
			t.Fatalf("want %v, got %v", want, got)
		}
	})
}
