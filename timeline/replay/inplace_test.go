// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"testing"

	"github.com/textreplay/textreplay/timeline"
)

// TestWindowRows: each shape of record, made by another task than the batches
// around it: what bounds its window, and what it bounds.
func TestWindowRows(t *testing.T) {
	for _, tt := range []struct {
		name     string
		old, new string
		own      *timeline.Interval // the proven window of the poke at 500; nil: it has none
		before   uint64             // until when a trap may stand at the site poked at 400
	}{
		{"batch", "9090909090", "e911223344", &timeline.Interval{From: 400, To: 600}, 500},
		{"kprobe armed: the trap stood already", "90", "cc", &timeline.Interval{From: 400, To: 500}, 500},
		{"kprobe disarmed: the trap stands still", "cc", "90", &timeline.Interval{From: 500, To: 600}, 500},
		{"kprobe unoptimised: both writes are done", "e911223344", "cc90909090", &timeline.Interval{From: 400, To: 500}, 500},
		{"created: made outside of text_mutex, bounds nothing", "", "9090909090", nil, 600},
		{"removed: bounds nothing", "9090909090", "", nil, 600},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.ticks(100, 300)
			w.poke(10, 400, 0x1100, "0f1f440000", "e811223344")
			w.poke(10, 500, 0x1080, tt.old, tt.new) // a lower address: of no batch with the others
			w.poke(10, 600, 0x1000, "0f1f440000", "e811223344")
			w.ticks(700, 1000)
			windows := w.replay().Windows()
			for _, at := range []uint64{399, 400, 499, 500, 599, 600} {
				got := windows.At(0x1080, 1, at)
				if open := tt.own != nil && tt.own.From <= at && at < tt.own.To; open != (len(got) == 1) {
					t.Errorf("at %d: %+v, want a window that is open in %v", at, got, tt.own)
				} else if open && got[0].Proven != *tt.own {
					t.Errorf("proven %v, want %v", got[0].Proven, *tt.own)
				}
			}
			if got := windows.At(0x1100, 1, 400); len(got) != 1 || got[0].Proven.To != tt.before {
				t.Errorf("the site poked before: %+v, want it open until %d", got, tt.before)
			}
		})
	}
}
