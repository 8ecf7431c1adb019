// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"testing"
	"time"

	"github.com/textreplay/textreplay/internal/cputime"
)

// TestManyWindows: what explicit windows take is in proportion to their number, also if all are of one place.
// Otherwise these take minutes.
func TestManyWindows(t *testing.T) {
	const n = 40_000
	one, many := func(uint64) uint64 { return 0x1100 }, func(i uint64) uint64 { return 0x1100 + 8*i }
	for _, tt := range []struct {
		name     string
		addr     func(i uint64) uint64
		recorded bool // as text pokes, too
	}{
		{"one place", one, false},
		{"one place, recorded", one, true},
		{"many places", many, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			addr := tt.addr
			b := NewBuilder()
			b.Text(0x1000, 0x1000+16*n)
			b.Extent(1, 100*n)
			code := [2][]byte{unhex("9090"), unhex("eb02")}
			for i := range uint64(n) {
				w := ExplicitWindow{Addr: addr(i), From: 20*i + 10, To: 20*i + 20, Before: code[i%2], After: code[1-i%2]}
				if tt.recorded {
					b.Poke(&Poke{Addr: w.Addr, Time: w.To, Old: w.Before, New: w.After})
				}
				if err := b.Window(w); err != nil {
					t.Fatal(err)
				}
			}
			start := cputime.Start()
			im := mustBuild(t, b)
			start.AtMost(t, 5*time.Second)
			for i := range uint64(n) {
				var got [2]byte
				if a := im.At(20*i+15).Read(addr(i), got[:]); a.Standing != InFlight || a.Since != 20*i+10 || a.Until != 20*i+20 {
					t.Fatalf("window %d: %+v", i, a)
				}
			}
		})
	}
}
