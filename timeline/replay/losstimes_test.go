// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/textreplay/textreplay/internal/cputime"
	"github.com/textreplay/textreplay/recorder/journal"
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
		var touching []Loss
		want := timeline.Interval{From: timeline.MaxTime}
		for _, l := range all {
			if l.From <= to && from <= l.To {
				touching, want = append(touching, l), timeline.Interval{From: min(want.From, l.From), To: max(want.To, l.To)}
			}
		}
		x := lossTimesOf(buffers...)
		v, one, ok := x.around(from, to)
		if x.between(from, to) != between || ok != (len(touching) > 0) || ok && v != want || one && len(touching) != 1 {
			t.Fatalf("from %d to %d of %v, since %d: %v, %v %v %v, want %v and %v", from, to, all, since, x.between(from, to), v, one, ok, between, touching)
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
	coverPairsSoon(t, s, n)
}

// coverPairsSoon checks that coverPairs finds so many limits, in a few seconds.
func coverPairsSoon(t *testing.T, s *scan, want int) {
	t.Helper()
	start := cputime.Start()
	var c Coverage
	s.coverPairs(&c)
	start.AtMost(t, 5*time.Second)
	if len(c.Limits) != want {
		t.Errorf("%d limits of %d", len(c.Limits), want)
	}
}

// TestManyUnpairedCPUs: losses that may be of any CPU are put in order once, for all CPUs.
func TestManyUnpairedCPUs(t *testing.T) {
	const n, cpus = 300_000, 20_000
	b := &ringBuffer{bufferKey: bufferKey{cpu: noCPU}}
	s := &scan{probes: &probeLog{}, buffers: []*ringBuffer{b}, report: &Report{}}
	for i := range uint64(n) {
		b.losses = append(b.losses, Loss{From: 10 * i, To: 10*i + 2})
	}
	for i := range uint64(cpus) {
		own := &ringBuffer{bufferKey: bufferKey{cpu: int64(i)}, losses: []Loss{{From: 10*i + 7, To: 10*i + 8}}}
		s.buffers = append(s.buffers, own)
		for _, v := range [][2]uint64{{4, 5}, {2, 4}, {6, 7}} { // only the first one is in no loss
			s.probes.loose = append(s.probes.loose, looseSample{time: 10*i + v[1], previous: 10*i + v[0], after: true, cpu: int64(i)})
		}
	}
	coverPairsSoon(t, s, cpus)
}

// TestManyListeners: as many events of a ring buffer as it has losses do not take the product of both
// numbers.
func TestManyListeners(t *testing.T) {
	w := newTape(t)
	const n, ids = 100_000, 1_500
	w.cpuOf = make(map[uint64]int64)
	for id := uint64(100); id < 100+ids; id++ {
		w.events[0].ids, w.cpuOf[id] = append(w.events[0].ids, id), 0
	}
	w.ticks(100, 100)
	for i := range uint64(n) {
		w.lost(10, 1000+10*i, 1)
		w.tick(10, 1005+10*i)
	}
	w.ticks(10*n+2000, 10*n+2100)
	r := w.replay()
	start := cputime.Start()
	if got := len(r.ListenersAt(10*n + 2050)); got < ids {
		t.Errorf("%d events record at the end", got)
	}
	if got := len(r.ListenersAt(1007)); got > 1 {
		t.Errorf("%d events record while records are lost", got)
	}
	start.AtMost(t, 5*time.Second)
}

// TestReturned: what is found out of the times at which a CPU came back is what going through its steps
// finds.
func TestReturned(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		h := hotplugs{steps: make(map[int64][]hotplug)}
		for range rng.IntN(8) {
			h.steps[1] = append(h.steps[1], hotplug{rng.Uint64N(20), rng.IntN(2) == 0})
		}
		var gaps []timeline.Interval
		for range rng.IntN(4) {
			from := rng.Uint64N(20)
			gaps = append(gaps, timeline.Interval{From: from, To: from + rng.Uint64N(5)})
		}
		returned := h.returned(1)
		for _, g := range gaps {
			want, off := g.From, false
			for _, x := range h.sorted(1) {
				if x.time > g.To || off && !x.down && x.time >= g.From {
					if x.time <= g.To {
						want = x.time
					}
					break
				}
				off = x.down
			}
			if got := back(returned, &journal.Gap{CPU: 1, From: g.From, To: g.To}); got != want {
				t.Fatalf("the gap %v of %v begins at %d, want %d", g, h.sorted(1), got, want)
			}
		}
		want, missing, off := uint64(0), false, false
		for _, x := range h.sorted(1) {
			explained := slices.ContainsFunc(gaps, func(g timeline.Interval) bool { return g.From <= x.time && x.time <= g.To })
			if missing = off && !x.down && !explained; missing {
				want = x.time
				break
			}
			off = x.down
		}
		if got, ok := missed(returned, openingsOf(gaps)); got != want || ok != missing {
			t.Fatalf("%v without %v: %d %v, want %d %v", h.sorted(1), gaps, got, ok, want, missing)
		}
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
	start := cputime.Start()
	for i := range uint64(n) {
		if !s.isRegistered(page+8, 10*i+4) || s.isRegistered(page+8, 10*i+5) {
			t.Fatalf("wrong at %d", 10*i)
		}
	}
	start.AtMost(t, 3*time.Second)
}
