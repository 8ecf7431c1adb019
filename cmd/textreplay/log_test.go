// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/textreplay/textreplay/timeline"
)

// TestIntervalMeets: a change meets --addr if a byte of it is in the interval, also at the last address.
func TestIntervalMeets(t *testing.T) {
	const last = timeline.MaxTime
	for _, tt := range []struct {
		in      interval
		addr, n uint64
		want    bool
	}{
		{interval{10, 20}, 9, 1, false},
		{interval{10, 20}, 9, 2, true},
		{interval{10, 20}, 10, 0, true},
		{interval{10, 20}, 9, 0, false},
		{interval{10, 20}, 19, 5, true},
		{interval{10, 20}, 20, 5, false},
		{interval{10, 10}, 8, 5, false}, // nothing is in an empty interval
		{interval{last - 3, last}, last - 7, 8, true},
		{interval{last - 3, last}, last, 1, true},
		{interval{0, last}, last, 1, true},
		{interval{10, 20}, last - 7, 8, false},
	} {
		if got := tt.in.meets(tt.addr, tt.n); got != tt.want {
			t.Errorf("[%#x, %#x) meets %d bytes at %#x: %v, want %v", tt.in.from, tt.in.to, tt.n, tt.addr, got, tt.want)
		}
	}
}
