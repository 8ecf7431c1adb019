// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math/rand/v2"
	"testing"
)

// TestStore: whatever the number of versions and of different states, each time
// has the version that a search through all of them finds.
func TestStore(t *testing.T) {
	for _, begin := range []uint64{0, 1} { // those that do not begin at 0 are not dense
		for _, step := range []uint64{5, 1 << 30, mostLater / 5} {
			testStore(t, begin, step)
		}
	}
}

// testStore is TestStore for versions from begin on, up to 1 + step long. The first one is longer.
func testStore(t *testing.T, begin, step uint64) {
	rng := rand.New(rand.NewPCG(5, 6))
	const size = 5
	im := tables{arena: make([]byte, 30_000+size)}
	for i := range im.arena {
		im.arena[i] = byte(rng.Uint32())
	}
	for _, tt := range []struct{ versions, states int }{
		{1, 1}, {2, 2}, {7, 2}, {8, 3}, {9, 9}, {10, 2}, {11, 3}, {14, 2}, {20, 2}, {40, 3}, {41, 2}, {56, 5}, {57, 2}, {449, 4}, {3600, 200}, {4000, 254}, {4000, 255}, {4000, 256}, {30_000, 3000},
	} {
		list := make([]version, tt.versions)
		now := begin
		for i := range list {
			list[i] = version{now, state{content: uint32(i % tt.states), standing: Known, source: SourcePoke}}
			if now += 1 + rng.Uint64N(step); i == 0 {
				now += rng.Uint64N(1 << 50) // as a machine may have run for long before it was recorded
			}
		}
		list[len(list)-1].since += rng.Uint64N(2) * (MaxTime - list[len(list)-1].since) // the end of time is a time too
		h := im.store(fragmentHistory{before: list}, nil, size)
		if n := im.statesOf(&h); n <= stateLine && h.states%stateLine+n > stateLine {
			t.Errorf("%+v: %d states from %d on lie in two lines", tt, n, h.states)
		}
		for i := range list {
			want := versionAt{list[i].since, MaxTime, storedState{state: list[i].state}}
			for k, b := range im.arena[want.content:][:size] {
				want.bytes |= uint64(b) << (8 * k)
			}
			if i+1 < len(list) {
				want.until = list[i+1].since
			}
			for _, at := range []uint64{want.since, want.until - 1} {
				if at < want.since {
					continue
				}
				got := im.at(&h, at)
				got.states = 0 // only the first says it
				if got != want {
					t.Fatalf("%+v in steps of %d: at %d %+v, want %+v", tt, step, at, got, want)
				}
			}
		}
		if got := im.at(&h, MaxTime); got.content != list[len(list)-1].content {
			t.Errorf("%+v: at the end of time %+v", tt, got)
		}
	}
}

// TestUnpatchedText: has reports true only if each byte of a block is unpatched, and
// always if each granule that the block touches is.
func TestUnpatchedText(t *testing.T) {
	const size = 1 << 10
	rng := rand.New(rand.NewPCG(7, 8))
	c := unpatchedText{text: make([]byte, size), unpatched: make([]byte, size/granule/8+unpatchedSpare)}
	var granules [size / granule]bool
	for lo := uint64(0); lo < size; {
		hi := lo + rng.Uint64N(100)
		c.mark(lo, hi)
		for i := (lo + granule - 1) / granule; i < min(hi, size)/granule; i++ {
			granules[i] = true
		}
		lo = hi + 1 + rng.Uint64N(16)
	}
	for at := range uint64(size) {
		for n := 1; n <= maxUnpatched+8; n++ {
			want := n <= maxUnpatched && at+uint64(n) <= size
			for i := at / granule; want && i <= (at+uint64(n)-1)/granule; i++ {
				want = granules[i]
			}
			if got := c.has(at, n); got != want {
				t.Fatalf("%d bytes at %d: %v, want %v", n, at, got, want)
			}
		}
	}
	if c.has(0, 0) || c.has(size, 1) || c.has(MaxTime, 1) {
		t.Error("nothing, or what lies behind the end, is not unpatched")
	}
}
