// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/textreplay/textreplay/timeline"
)

// TestInvalidationsRecorded: in real recordings, the invalidations of a byte are where its
// versions begin; pages that are not listed as changing never change.
func TestInvalidationsRecorded(t *testing.T) {
	for _, name := range []string{"small", "rich", "lossy", "storm", "modfull", "hotplug"} {
		im := load(t, name).Image
		rng := rand.New(rand.NewPCG(1, 1))
		var places []uint64
		listed := slices.Collect(im.ChangingPages(4096))
		if len(listed) == 0 || !slices.IsSorted(listed) || len(slices.Compact(slices.Clone(listed))) != len(listed) {
			t.Fatalf("%s: pages %#x", name, listed)
		}
		for lo, hi := range im.At(im.First()).Ranges() {
			for range 400 {
				places = append(places, lo+rng.Uint64N(hi-lo))
			}
		}
		for v := range im.Invalidations(0, timeline.MaxTime, 0, timeline.MaxTime-1) {
			if v.Bytes && len(places) < 4000 {
				places = append(places, v.Lo, v.Hi-1)
			}
		}
		changes := 0
		for _, a := range places {
			after := rng.Uint64N(im.Horizon())
			until := after + rng.Uint64N(im.Horizon())
			var want, got []timeline.Validity
			var buf [1]byte
			var edges []uint64
			for b := range im.Versions(a, buf[:], 0, timeline.MaxTime) {
				edges = append(edges, b.Since)
			}
			if rng.IntN(2) == 0 { // from one change to another
				i, j := rng.IntN(len(edges)), rng.IntN(len(edges))
				after, until = edges[min(i, j)], edges[max(i, j)]
			}
			last, lastByte, lastGiven := uint64(0), byte(0), -1
			for b := range im.Versions(a, buf[:], 0, timeline.MaxTime) {
				if b.Since > after && b.Since <= until {
					want = append(want, b.Validity)
				}
				given := b.Given
				if b.Standing == timeline.Retired {
					given = 2
				}
				if lastGiven >= 0 && (given != lastGiven || buf[0] != lastByte) {
					last = b.Since
				}
				lastByte, lastGiven = buf[0], given
			}
			bytes := uint64(0)
			for v := range im.Invalidations(a, a+1, after, until) {
				got = append(got, v.Validity)
			}
			for v := range im.Invalidations(a, a+1, 0, timeline.MaxTime-1) {
				if v.Bytes {
					bytes = v.Since
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("%s: %#x changes in (%d, %d] at %v, want %v", name, a, after, until, got, want)
			}
			if n := im.LastChange(a, 1); n < last || n != bytes {
				t.Fatalf("%s: %#x changes last at %d, its versions at %d, its invalidations at %d", name, a, n, last, bytes)
			}
			if _, ok := slices.BinarySearch(listed, a&^4095); !ok && last != 0 {
				t.Fatalf("%s: %#x changes at %d, and its page is not listed", name, a, last)
			}
			changes += len(got)
		}
		t.Logf("%s: %d places, %d changes, %d pages that change", name, len(places), changes, len(listed))
	}
}
