// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import "testing"

// TestManySitesAtOnce: x86 patches no more than 256 sites at once; others have
// no such limit, and go through a key's sites one after the other.
func TestManySitesAtOnce(t *testing.T) {
	for _, tt := range []struct {
		arch    string
		batches int
	}{{"x86_64", 2}, {"aarch64", 1}} {
		w := newTape(t)
		w.arch = tt.arch
		w.ticks(100, 200)
		for i := range uint64(300) {
			w.poke(10, 300, 0x1000+8*i, "1f2003d5", "0e000014")
		}
		w.ticks(400, 500)
		most := 0
		for c := range w.replay().Changes() {
			if c.Batch != nil {
				most = max(most, c.Batch.Number)
			}
		}
		if most != tt.batches {
			t.Errorf("%s: %d batches, want %d", tt.arch, most, tt.batches)
		}
	}
}
