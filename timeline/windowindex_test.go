// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// randomPokes returns pokes of few tasks at few places, as recorded.
func randomPokes(rng *rand.Rand, n int) (pokes []InPlacePoke, idle []IdleMoment) {
	now := uint64(1000)
	for range n {
		now += rng.Uint64N(20)
		p := InPlacePoke{now, 0x1000 + rng.Uint64N(200), 1 + rng.Uint32N(3), []uint16{0, 1, 2, 4, 5, 5, 5, 16, 17, 300}[rng.IntN(10)],
			PokeKind(rng.IntN(6)), 0}
		if rng.IntN(4) == 0 {
			p.Addr += 1 << 30
		}
		if p.Len > maxWindow && rng.IntN(20) != 0 {
			p.Len = 5
		}
		if rng.IntN(200) == 0 {
			p.Addr = MaxTime - rng.Uint64N(5)
		}
		if rng.IntN(8) == 0 {
			p.Flags = PokeAlone
		}
		pokes = append(pokes, p)
		if rng.IntN(4) == 0 {
			idle = append(idle, IdleMoment{Time: now + rng.Uint64N(10), TID: 1 + rng.Uint32N(3)})
		}
	}
	return pokes, idle
}

// TestWindowIndex: a cursor says the same about windows as [Windows.At], at every time
// and place, and NoTrap ends where a window begins.
func TestWindowIndex(t *testing.T) {
	im, err := NewBuilder().Build()
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n, skew := 1+rng.IntN(150), seed%3
		if seed%10 == 8 { // so wide that more than two batches are that close to any time
			n, skew = 1000, 4000
		}
		pokes, idle := randomPokes(rng, n)
		last := pokes[len(pokes)-1].Time
		w := NewWindows(pokes, idle, seed%5 == 4)
		w.Widen(skew)
		c := w.Cursor(im)
		var buf [24]byte
		for range min(3000, 200_000/len(pokes)) {
			addr, n := 0x1000-20+rng.Uint64N(240), 1+rng.Uint64N(uint64(len(buf)))
			if rng.IntN(4) == 0 {
				addr += 1 << 30
			}
			at := 900 + rng.Uint64N(last-800)
			open := func(at uint64) []Window {
				list := w.At(addr, n, at)
				for i := range list {
					list[i].Estimate = Interval{}
				}
				return list
			}
			want := open(at)
			if d := gocmp.Diff(want, c.AppendWindows(nil, addr, n, at, at)); d != "" {
				t.Fatalf("seed %d: windows over [%#x, +%d) at %d (-want +got):\n%s", seed, addr, n, at, d)
			}
			b := c.Read(addr, at, buf[:n])
			long := c.windows.isLong(addr, n)
			if free := len(want) == 0 && !long; b.NoTrap.At(at) != free || b.NoTrap != (Validity{}) && !free {
				t.Fatalf("seed %d: [%#x, +%d) at %d: %+v, windows %v", seed, addr, n, at, b, want)
			}
			if len(want) > 0 || long {
				continue
			}
			for _, other := range []uint64{b.NoTrap.Since, b.NoTrap.Until - 1, b.NoTrap.Since + rng.Uint64N(b.NoTrap.Until-b.NoTrap.Since)} {
				if list := open(other); len(list) != 0 {
					t.Fatalf("seed %d: [%#x, +%d) at %d has NoTrap %v, at %d there are %v", seed, addr, n, at, b.NoTrap, other, list)
				}
			}
			for edge, at := range map[string]uint64{"begins too late": b.NoTrap.Since - 1, "ends too early": b.NoTrap.Until} {
				if at < last+100 && at > 900 && len(open(at)) == 0 {
					// Not with windows that are never open: these may end it.
					if !slices.ContainsFunc(w.pokes, func(p InPlacePoke) bool { return p.Len > 0 && p.Kind != PokeBatch }) {
						t.Fatalf("seed %d: [%#x, +%d) at %d: NoTrap %v %s", seed, addr, n, at, b.NoTrap, edge)
					}
				}
			}
		}
		// Of an interval, all windows that are open at any of its times.
		for range 200 {
			addr, n := 0x1000-20+rng.Uint64N(240), 1+rng.Uint64N(16)
			first := 900 + rng.Uint64N(last-800)
			to := first + rng.Uint64N(60)
			want := make(map[Window]bool)
			for at := first; at <= to; at++ {
				for _, o := range w.At(addr, n, at) {
					o.Estimate = Interval{}
					want[o] = true
				}
			}
			got := c.AppendWindows(nil, addr, n, first, to)
			if len(got) != len(want) || slices.ContainsFunc(got, func(o Window) bool { return !want[o] }) ||
				!slices.IsSortedFunc(got, func(a, b Window) int { return cmp.Compare(a.Switch, b.Switch) }) {
				t.Fatalf("seed %d: windows over [%#x, +%d) in [%d, %d]: %v, want %v", seed, addr, n, first, to, got, want)
			}
		}
	}
}

// TestWindowsOverRange: a question over a range and an interval of time lists each window that
// is open over any byte of it at any time of it, once, by the times of the pokes. A long poke,
// which no index has, changes nothing for the others.
func TestWindowsOverRange(t *testing.T) {
	im, err := NewBuilder().Build()
	if err != nil {
		t.Fatal(err)
	}
	// Three pokes of one task in 5 bytes, whose windows end where the next begins, and one
	// of 300 bytes behind them.
	pokes := []InPlacePoke{
		{1000, 0x1008, 1, 5, PokeBatch, 0},
		{2000, 0x1004, 1, 2, PokeBatch, 0},
		{3000, 0x1000, 1, 5, PokeBatch, 0},
		{4000, 0x0800, 1, 5, PokeBatch, 0},
	}
	long := InPlacePoke{3500, 0x1010, 1, 300, PokeBatch, 0}
	for _, tt := range []struct {
		name        string
		long        bool
		addr, n     uint64
		first, last uint64
		want        []uint64 // times of the pokes
	}{
		{"one time", false, 0x1000, 16, 1500, 1500, []uint64{1000, 2000}},
		{"a window that opens later", false, 0x1000, 16, 1500, 2500, []uint64{1000, 2000, 3000}},
		{"all time", false, 0x1000, 16, 0, 9000, []uint64{1000, 2000, 3000}},
		{"one byte of one poke", false, 0x100c, 1, 0, 9000, []uint64{1000}},
		{"a byte of two pokes", false, 0x1004, 1, 0, 9000, []uint64{2000, 3000}},
		{"with a long poke, one time", true, 0x1000, 20, 1500, 1500, []uint64{1000, 2000}},
		{"with a long poke, a window that opens later", true, 0x1000, 20, 1500, 2500, []uint64{1000, 2000, 3000, 3500}},
		{"with a long poke, all time", true, 0x1000, 20, 0, 9000, []uint64{1000, 2000, 3000, 3500}},
		{"only the long poke", true, 0x1100, 4, 0, 9000, []uint64{3500}},
	} {
		list := slices.Clone(pokes)
		if tt.long {
			list = slices.Insert(list, 3, long)
		}
		var got []uint64
		for _, w := range NewWindows(list, nil, false).Cursor(im).AppendWindows(nil, tt.addr, tt.n, tt.first, tt.last) {
			got = append(got, w.Switch)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: windows of the pokes at %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestWindowsOverUnpatched: a place that only windows know to be poked may trap. An image
// leaves out pokes beyond its limits.
func TestWindowsOverUnpatched(t *testing.T) {
	text := make([]byte, 8192)
	b := NewBuilder()
	b.Text(0x10000, 0x12000)
	b.Extent(1, 5000)
	b.SetSnapshot(Snapshot{Segments: []Segment{{Addr: 0x10000, Data: text}}})
	im, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	w := NewWindows([]InPlacePoke{{1000, 0x10010, 1, 5, PokeBatch, 0}, {2000, 0x10800, 1, 300, PokeBatch, 0}, {3000, 0x9000, 1, 5, PokeBatch, 0}}, nil, false)
	c := w.Cursor(im)
	var buf [16]byte
	for addr, free := range map[uint64]bool{0x10000: true, 0x10001: false, 0x10014: false, 0x10018: true, 0x107f0: true, 0x107f4: false, 0x10900: false, 0x10930: true} {
		if b := c.Read(addr, 500, buf[:]); b.NoTrap.At(500) != free || b.Standing != im.At(500).Read(addr, buf[:]).Standing {
			t.Errorf("%#x: %+v, want it free of windows: %v", addr, b, free)
		}
	}
	if b := im.Cursor().Read(0x10000, 500, buf[:]); b.NoTrap != (Validity{}) {
		t.Errorf("a cursor that knows no windows says %+v", b)
	}
}
