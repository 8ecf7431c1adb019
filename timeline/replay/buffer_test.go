// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func TestChannels(t *testing.T) {
	c := channels{base: 1000}
	ids := []uint64{1002, 1000, 5, 1 << 40, 1001, 1000 + denseIDs}
	for _, id := range ids {
		c.set(id, &channel{opening: opening{cpu: int64(id)}})
	}
	for _, id := range ids {
		if ch := c.get(id); ch == nil || ch.cpu != int64(id) {
			t.Errorf("id %d: %+v", id, ch)
		}
	}
	for _, id := range []uint64{0, 999, 1003, 1<<64 - 1} {
		if ch := c.get(id); ch != nil {
			t.Errorf("id %d: %+v", id, ch)
		}
	}
	var got []uint64
	for id := range c.all {
		got = append(got, id)
	}
	if want := slices.Sorted(slices.Values(ids)); !slices.Equal(want, got) {
		t.Errorf("all: %d, want %d", got, want)
	}
}

// TestInterrupts: samples come from interrupts, and may be newer than a side-band
// record that is written after them. This is no disorder. It bounds neither a loss nor the
// horizon.
func TestInterrupts(t *testing.T) {
	var b ringBuffer
	b.see(100, false)
	b.see(500, true)
	b.see(300, false)
	if b.side != 300 || b.last != 500 || b.backwards != 0 {
		t.Errorf("%+v", b)
	}
	b.see(250, false)
	if b.backwards != 50 || b.side != 300 {
		t.Errorf("a side-band record that goes back: %+v", b)
	}
}

// TestSampleTooNew: a sample may be newer than records that it interrupted: a few, which are not much older.
// Else its time is wrong.
func TestSampleTooNew(t *testing.T) {
	for _, tt := range []struct {
		usual int    // how many records behind the sample are older by 0.9 s
		late  int    // how many records behind these are older
		by    uint64 // by how much
		want  bool
	}{{0, 3, 5e9, false}, {0, 4, 5e9, true}, {0, 1, 9.9e9, false}, {0, 1, 11e9, true}, {100, 0, 0, false}, {100, 3, 5e9, false}} {
		var b ringBuffer
		b.see(100e9, false)
		b.see(150e9, true)
		for range tt.usual {
			b.see(149.1e9, false)
		}
		b.side = 100e9 // of other records
		for range tt.late {
			b.see(150e9-tt.by, false)
		}
		b.see(160e9, false)
		if got := b.backwards > jitter; got != tt.want {
			t.Errorf("%d records that are older by %s: out of order %v, want %v", tt.late, seconds(tt.by), got, tt.want)
		}
	}
}

// TestCopiesTooEarly: perf inject may have written a copy for another event before all other records.
// It bounds neither a loss nor the horizon. But a record that is older than it is out of order.
func TestCopiesTooEarly(t *testing.T) {
	var b ringBuffer
	b.see(100, false)
	b.seeCopy(500)
	b.see(200, false)
	if b.side != 200 || b.sideBefore != 100 || b.last != 500 || b.backwards != 300 {
		t.Errorf("%+v", b)
	}
}

// TestManySteps: a clock that is set back again and again, or losses without a time, are noted without a
// copy of those before each.
func TestManySteps(t *testing.T) {
	const n = 10_000
	allocs := testing.AllocsPerRun(1, func() {
		var o taskOrder
		b := ringBuffer{bufferKey: bufferKey{cpu: 1}}
		for i := range uint64(n) {
			o.see(1000 + 10*i)
			o.see(1000 + 10*i - 15)
			b.untimed = 1
			b.endUntimed(1000 + i)
		}
		if len(o.steps) != n || len(b.losses) != n {
			t.Errorf("%d steps and %d losses, want %d of each", len(o.steps), len(b.losses), n)
		}
	})
	if allocs > n/10 {
		t.Errorf("%v allocations for %d steps and losses", allocs, n)
	}
}

// TestMixedLoss: in a mixed ring buffer, the record before a loss may be of another one.
func TestMixedLoss(t *testing.T) {
	for _, mixed := range []bool{false, true} {
		b := ringBuffer{bufferKey: bufferKey{cpu: noCPU}, mixed: mixed}
		b.see(100, false)
		b.see(200, false)
		b.addLoss(b.sideBefore, 200, 3)
		want := Loss{CPU: noCPU, From: 100, To: 200, Records: 3}
		if mixed {
			want.From = 0
		}
		if len(b.losses) != 1 || b.losses[0] != want {
			t.Errorf("mixed %v: %+v, want %+v", mixed, b.losses, want)
		}
	}
}

// TestComplete: the time up to which all records of a ring buffer have been seen.
func TestComplete(t *testing.T) {
	const s = 1e9
	type came struct {
		t      uint64
		size   uint64
		sample bool
	}
	busy := came{t: 100 * s, size: pageRoom + 1}
	for _, tt := range []struct {
		name   string
		rounds [][]came
		safe   uint64 // the time that FINISHED_ROUND guarantees
		want   uint64
	}{
		{"records of several ring buffers", [][]came{{{t: 50 * s, size: 64}, {t: 100 * s, size: 64}}}, 140 * s, 0},
		{"no record", nil, 500 * s, 0},
		{"its newest record", [][]came{{{t: 90 * s, size: 64}, {t: 100 * s, size: 64}}}, 0, 100*s - 1},
		{"not its newest sample", [][]came{{{t: 90 * s, size: 64}, {t: 100 * s, size: 64, sample: true}}}, 0, 90*s - 1},
		{"silent for no longer than before", [][]came{{{t: 50 * s, size: 64}, {t: 100 * s, size: 64}}}, 140 * s, 130*s - 1},
		{"silent for longer than before", [][]came{{{t: 50 * s, size: 64}, {t: 100 * s, size: 64}}}, 500 * s, 150*s - 1},
		{"rounds newer than lateRecord allows", [][]came{{{t: 50 * s, size: 64}, {t: 100 * s, size: 64}}}, 109 * s, 100*s - 1},
		{"full, so a loss may be unreported", [][]came{{{t: 50 * s, size: 64}, busy}}, 140 * s, 100*s - 1},
		{"full in the round before", [][]came{{{t: 50 * s, size: 64}, busy}, {{t: 101 * s, size: 64}}}, 140 * s, 101*s - 1},
		{"full two rounds before", [][]came{{{t: 50 * s, size: 64}, busy}, nil, {{t: 101 * s, size: 64}}}, 140 * s, 130*s - 1},
		{"full in the current round", [][]came{{{t: 50 * s, size: 64}}, nil, nil, {busy}}, 140 * s, 100*s - 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := ringBuffer{mixed: tt.name == "records of several ring buffers"}
			for i, r := range tt.rounds {
				for _, c := range r {
					b.round += c.size
					b.see(c.t, c.sample)
				}
				if i+1 < len(tt.rounds) || tt.name != "full in the current round" {
					b.finishRound()
				}
			}
			if got := b.complete(b.side, b.last, tt.safe, 40*s); got != tt.want {
				t.Errorf("complete up to %s, want %s", Seconds(got), Seconds(tt.want))
			}
		})
	}
}

// TestRepeats: the index of times finds what a search finds, also after times were dropped.
func TestRepeats(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var o taskOrder
	now := uint64(1 << 20)
	for i := range 3*keptTimes + 1000 {
		if now += uint64(rnd.IntN(3)); i%5000 == 4999 {
			now -= 4000
		}
		if o.see(now); i%97 != 0 {
			continue
		}
		for _, at := range []uint64{now, now - 1, now - uint64(rnd.IntN(keptTimes)), now + 7} {
			o.repeated = 0
			if got, want := o.repeats(at), slices.Index(o.times, at); got != want {
				t.Fatalf("after %d times, %d is at %d, want %d", i, at, got, want)
			}
		}
	}
	if o.index == nil {
		t.Error("no index was made")
	}
}
