// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"testing"
	"time"
	"unsafe"

	"github.com/textreplay/textreplay/recorder/journal"
	"github.com/textreplay/textreplay/timeline"
)

// TestManyLosses: losses of as many records of one CPU have one description, however many
// they are.
func TestManyLosses(t *testing.T) {
	w := newTape(t)
	w.ticks(100, 300)
	const n = 5000
	for i := range uint64(n) {
		w.tick(10, 1000+100*i)
		w.lost(10, 1050+100*i, 3)
	}
	w.ticks(10_000_000, 10_000_100)
	r := w.replay()
	texts := make(map[*byte]bool)
	limits := 0
	for _, c := range []*Coverage{&r.Report.Coverage.Pokes, &r.Report.Coverage.KSymbols, &r.Report.Coverage.BPF} {
		for _, l := range c.Limits {
			texts[unsafe.StringData(l.Text)] = true
			limits++
		}
	}
	if limits < 3*n {
		t.Errorf("%d limits, want %d or more", limits, 3*n)
	}
	if len(texts) > 20 {
		t.Errorf("%d strings describe the limits", len(texts))
	}
}

// TestIntervals: what is spoiled at a time is found without a look at each limit.
func TestIntervals(t *testing.T) {
	x := intervalsOf([]Limit{{From: 30, To: 40}, {From: 10, To: 20}, {From: 15, To: 18}, {From: 20, To: 22}, {From: 50, To: timeline.MaxTime}})
	if len(x) != 3 {
		t.Errorf("%v: want 3 intervals", x)
	}
	for _, tt := range []struct {
		from, to uint64
		want     bool
	}{{0, 10, false}, {0, 11, true}, {19, 20, true}, {21, 22, true}, {22, 30, false}, {22, 31, true}, {40, 50, false}, {45, 51, true}, {60, 61, true}} {
		if got := x.meet(tt.from, tt.to); got != tt.want {
			t.Errorf("[%d, %d): %v, want %v", tt.from, tt.to, got, tt.want)
		}
	}
}

// TestManyImages: a poke shows that the images are written which its thread made before, without a look at
// those that it made since.
func TestManyImages(t *testing.T) {
	const n = 200_000
	began := time.Now()
	c := newCodeReads(&recorderJournal{bytes: []journal.Bytes{{Addr: 0x9000}}})
	for i := range uint64(n) {
		c.symbol(&timeline.SymbolEvent{Time: 2*n - i, Addr: 0x9000}, 5)
		c.poke(&timeline.Poke{Time: n, Addr: 0x1000}, 5)
	}
	born := c.of[0x9000].born
	for i, x := range born {
		if x.written != 0 {
			t.Fatalf("image %d of %d, of %d: written by %d", i, len(born), x.time, x.written)
		}
	}
	c.poke(&timeline.Poke{Time: n + 10, Addr: 0x1000}, 5)
	written := 0
	for _, x := range born {
		if (x.written == n+10) != (x.time <= n+10) {
			t.Errorf("of %d: written by %d", x.time, x.written)
		}
		if x.written != 0 {
			written++
		}
	}
	if written != 10 {
		t.Errorf("%d images are written", written)
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}
