// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/textreplay/textreplay/timeline"
)

// TestLossTimes: what is found out of losses by time is what going through all of them finds.
func TestLossTimes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var buffers []*ringBuffer
		var all []Loss
		since := timeline.MaxTime
		for range rng.IntN(3) {
			b := &ringBuffer{side: rng.Uint64N(12)}
			for range rng.IntN(4) {
				from := rng.Uint64N(10)
				b.losses = append(b.losses, Loss{From: from, To: from + rng.Uint64N(4)})
			}
			if rng.IntN(4) == 0 {
				b.lost, b.uncounted, since = 1, true, min(since, b.side)
			}
			buffers, all = append(buffers, b), append(all, b.losses...)
		}
		from := rng.Uint64N(12)
		to := from + rng.Uint64N(4)
		between := since < to || slices.ContainsFunc(all, func(l Loss) bool { return l.From < to && from < l.To })
		touches := slices.ContainsFunc(all, func(l Loss) bool { return l.From <= to && from <= l.To })
		x := lossTimesOf(buffers...)
		if x.between(from, to) != between || x.touches(from, to) != touches {
			t.Fatalf("from %d to %d of %v, since %d: %v and %v, want %v and %v", from, to, all, since, x.between(from, to), x.touches(from, to), between, touches)
		}
	}
}

// TestManyUnpaired: as many samples without a partner as losses do not take the product of both numbers.
// Otherwise this takes minutes.
func TestManyUnpaired(t *testing.T) {
	const n = 300_000
	b := &ringBuffer{}
	s := &scan{probes: &probeLog{}, buffers: []*ringBuffer{b}, report: &Report{}}
	for i := range uint64(n) {
		b.losses = append(b.losses, Loss{From: 10 * i, To: 10*i + 2})
		s.probes.loose = append(s.probes.loose, looseSample{time: 10*i + 5, previous: 10*i + 4, after: true})
	}
	start := time.Now()
	var c Coverage
	s.coverPairs(&c)
	if took := time.Since(start); len(c.Limits) != n || took > 5*time.Second {
		t.Errorf("%d limits of %d, in %v", len(c.Limits), n, took)
	}
}

// TestManySlotPages: a page of slots that comes and goes very often is found without going through all of its
// births and deaths. Otherwise this takes half a minute.
func TestManySlotPages(t *testing.T) {
	const n, page = 200_000, 0x9000
	s := &scan{}
	for i := range uint64(n) {
		at := timeline.Range{Lo: page, Hi: page + 0x1000}
		s.slotPages = append(s.slotPages, slotPage{at, 10*i + 5, true}, slotPage{at, 10 * i, false})
	}
	s.sortSlotPages()
	start := time.Now()
	for i := range uint64(n) {
		if !s.isRegistered(page+8, 10*i+4) || s.isRegistered(page+8, 10*i+5) {
			t.Fatalf("wrong at %d", 10*i)
		}
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("%d questions took %v", 2*n, took)
	}
}
