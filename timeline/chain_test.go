// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestChains: an image is the same, bit by bit, whether pokes are derived as chains or each by
// itself.
func TestChains(t *testing.T) {
	const sites, lo = 40, 0x1_0000
	for seed := range uint64(300) {
		build := func(least int) *Image {
			rng := rand.New(rand.NewPCG(seed, 7))
			b := NewBuilder()
			b.limits.chain = least
			text := make([]byte, sites*16)
			for k := range sites {
				copy(text[k*16:], []byte{0x0f, 0x1f, 0x44, 0, byte(rng.IntN(9) / 8)}) // some contradict
			}
			b.Text(lo, lo+sites*16)
			from := rng.Uint64N(2_000)
			b.Extent(from, 30_000+rng.Uint64N(10_000))
			if rng.IntN(8) > 0 {
				b.SetSnapshot(Snapshot{From: from, To: from + rng.Uint64N(3_000), Segments: []Segment{{lo, text}}})
			}
			for range rng.IntN(3) {
				at := rng.Uint64N(40_000)
				b.Gap(GapPokes, at, at+rng.Uint64N(3_000), AfterLoss)
			}
			if rng.IntN(6) == 0 {
				at := lo + rng.Uint64N(sites*16)
				b.GapAt(Range{at, at + 40}, 9_000, 12_000, AfterLoss)
			}
			state := make([]int, sites)
			for now := 1_000 + rng.Uint64N(2_000); now < 40_000; now += 1 + rng.Uint64N(60) {
				k := rng.IntN(sites)
				variants := 2 + k%3
				next := (state[k] + 1) % variants
				if rng.IntN(5_000) == 0 {
					next = rng.IntN(variants) // also an equal one
				}
				code := func(i int) []byte { return []byte{0x0f + byte(i), 0x1f, 0x44, 0, 0}[:5-k%2] }
				b.Poke(&Poke{Addr: lo + uint64(k)*16, Time: now, Old: code(state[k]), New: code(next), CPU: k % 2})
				if state[k] = next; rng.IntN(5_000) == 0 {
					state[k] = rng.IntN(variants) // a change without a record
				}
			}
			return mustBuild(t, b)
		}
		want := build(1 << 30)
		for _, least := range []int{2, leastChain} {
			im := build(least)
			if !reflect.DeepEqual(im.Encode(), want.Encode()) {
				t.Errorf("seed %d: with chains of %d pokes or more the image is another one", seed, least)
			}
		}
	}
}

// TestChainOfManyStates: a chain may follow versions that have more states than there are codes, as
// many contradictions have during the time in which the copy was made.
func TestChainOfManyStates(t *testing.T) {
	const lo = 0x1_0000
	code := func(i int) []byte { return []byte{0x0f, 0x1f, 0x44, byte(i >> 8), byte(i)} }
	build := func(least, contradictions int) *Image {
		b := NewBuilder()
		b.limits.chain = least
		b.Text(lo, lo+16)
		b.Extent(0, 100_000)
		b.SetSnapshot(Snapshot{From: 10, To: 50_000, Segments: []Segment{{lo, make([]byte, 16)}}})
		now := uint64(100)
		poke := func(old, new int) {
			now += 10
			b.Poke(&Poke{Addr: lo, Time: now, Old: code(old), New: code(new)})
		}
		for i := range contradictions {
			poke(1+i%2, 1+i%2^3)
			poke(1+i%2, 1+i%2^3)
		}
		now = 60_000
		for i := range 100 {
			poke(1+i%2, 1+i%2^3)
		}
		return mustBuild(t, b)
	}
	for _, n := range []int{0, 10, 100, 120, 130, 150, 400} {
		want := build(1<<30, n).Encode()
		for _, least := range []int{2, leastChain} {
			if !reflect.DeepEqual(build(least, n).Encode(), want) {
				t.Errorf("%d contradictions: with chains of %d pokes or more the image is another one", n, least)
			}
		}
	}
}
