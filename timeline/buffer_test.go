// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"
	"testing"
)

func TestChannels(t *testing.T) {
	c := channels{base: 1000}
	ids := []uint64{1002, 1000, 5, 1 << 40, 1001, 1000 + denseIDs}
	for _, id := range ids {
		c.set(id, &channel{cpu: int64(id)})
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

// TestInterrupts: samples come from interrupts, and may be newer than a
// side-band record that is written after them; such is no disorder, and bounds
// neither a loss nor the horizon.
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
