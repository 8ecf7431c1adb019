// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"testing"
	"time"

	"github.com/textreplay/textreplay/internal/cputime"
)

// TestManySteps: what an image takes is in proportion to the number of steps of the clock, of places and of
// symbols, not to their products. Otherwise this takes half a minute of CPU time.
func TestManySteps(t *testing.T) {
	const n = 30_000
	b := NewBuilder()
	b.Text(0x1000, 0x1000+16*n)
	b.Extent(1, 1000*n)
	var twice []Interval
	for i := range uint64(n) {
		at := 1000 * (i + 1)
		twice = append(twice, Interval{at, at + 10})
		b.Poke(&Poke{Addr: 0x1000 + 16*i, Time: at + 500, Old: unhex("9090"), New: unhex("eb02")})
		b.Symbol(SymbolEvent{Time: at + 600, Addr: 0x100000000 + 64*i, Len: 64, Kind: SymbolBPF, Name: "bpf_prog_1"})
	}
	b.ClockSetBack(1, twice)
	start := cputime.Start()
	mustBuild(t, b)
	start.AtMost(t, 10*time.Second)
}
