// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"reflect"
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

// TestSortByTime: pokes are sorted by time, and those of equal time keep their order, whether each is
// close to its place, or there are runs of ascending times, or neither.
func TestSortByTime(t *testing.T) {
	for name, next := range map[string]*rapid.Generator[[]uint64]{
		"any":   rapid.SliceOfN(rapid.Uint64Range(0, 50), 0, 200),
		"close": rapid.SliceOfN(rapid.Uint64Range(0, 3), 0, 200),
		"runs": rapid.Custom(func(t *rapid.T) (times []uint64) {
			for part := range rapid.IntRange(1, 5).Draw(t, "parts") {
				for range rapid.IntRange(1, 4).Draw(t, "CPUs") {
					run := rapid.SliceOfN(rapid.Uint64Range(0, 30), 0, 40).Draw(t, "run")
					slices.Sort(run)
					for _, at := range run {
						times = append(times, at+uint64(part)*25)
					}
				}
			}
			return times
		}),
	} {
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			var list []poke
			for i, at := range next.Draw(t, "times") {
				if name == "close" {
					at += uint64(i)
				}
				list = append(list, poke{time: at, order: uint32(i)})
			}
			want, merged := slices.Clone(list), slices.Clone(list)
			slices.SortStableFunc(want, func(a, b poke) int { return cmp.Compare(a.time, b.time) })
			sortByTime(list)
			mergeRuns(merged)
			if !slices.Equal(want, list) || !slices.Equal(want, merged) {
				t.Fatalf("want %v, got %v and %v", want, list, merged)
			}
		}))
	}
}

// TestTimesGoBack: where each poke of a place undoes the one before it, and yet their times go back, as where the
// ring buffer of one CPU follows that of another, the image is that of the same pokes in the order of time.
func TestTimesGoBack(t *testing.T) {
	const places, pokes, together, begin = 3, 256, 8, 2 * lookAhead // from begin on the places are looked up
	build := func(exchanged bool) *Image {
		b := NewBuilder()
		b.Extent(1, 1<<20)
		b.Text(0x1000, 0x2000)
		for i := range pokes {
			if exchanged && i >= begin {
				i ^= together
			}
			code := [2][]byte{{0x0f, 0x1f, 0x44, 0, 0}, {0xe8, 1, 2, 3, 4}}
			for k := range uint64(places) {
				b.Poke(&Poke{Addr: 0x1000 + 16*k, Time: 1000 + 10*uint64(i) + k, Old: code[i%2], New: code[1-i%2], CPU: i / together % 2})
			}
		}
		return mustBuild(t, b)
	}
	if !reflect.DeepEqual(build(true).Encode(), build(false).Encode()) {
		t.Error("the images differ")
	}
}
