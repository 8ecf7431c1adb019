// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestLiveList compares a liveList with a slice.
func TestLiveList(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var s liveList
	var want []*Lifetime
	for range 20_000 {
		lo := r.Uint64N(4000) * 4
		at := slices.IndexFunc(want, func(l *Lifetime) bool { return l.Lo == lo })
		switch {
		case at < 0:
			l := &Lifetime{Lo: lo, Hi: lo + 1 + r.Uint64N(4)}
			want = append(want, l)
			s.insert(l)
		case r.IntN(2) == 0:
			s.remove(want[at])
			want = slices.Delete(want, at, at+1)
		}
		s.remove(&Lifetime{Lo: lo + 2, Hi: lo + 3}) // is not there
		lo, hi := r.Uint64N(16000), r.Uint64N(16000)
		var over []*Lifetime
		for _, l := range want {
			if l.Hi > lo && l.Lo < hi {
				over = append(over, l)
			}
		}
		slices.SortFunc(over, func(a, b *Lifetime) int { return cmp.Compare(a.Lo, b.Lo) })
		if got := s.overlapping(lo, hi); !slices.Equal(got, over) {
			t.Fatalf("[%d, %d) has %d lifetimes, want %d", lo, hi, len(got), len(over))
		}
	}
	if got := len(slices.Collect(s.all)); got != len(want) {
		t.Errorf("%d lifetimes, want %d", got, len(want))
	}
}

// TestManyLifetimes: the work for each birth and death does not grow with the number of
// lifetimes.
func TestManyLifetimes(t *testing.T) {
	const n = 200_000
	b := NewBuilder()
	b.Extent(100, 10*n)
	b.Text(0x1000, 0x2000)
	name := func(i int) string { return fmt.Sprintf("bpf_prog_%016x_a", i) }
	for i, k := range rand.New(rand.NewPCG(3, 4)).Perm(n) {
		b.Symbol(SymbolEvent{Time: uint64(200 + i), Addr: 0x100000 + 64*uint64(k), Len: 64, Kind: SymbolBPF, Name: name(k)})
	}
	for k := range n { // deaths without a birth
		b.Symbol(SymbolEvent{Time: uint64(200 + n + k), Addr: 0x10000000 + 64*uint64(k), Len: 64, Kind: SymbolBPF, Name: name(k), Unregister: true})
	}
	d := &build{Builder: b, im: &Image{}}
	lives := d.findLifetimes()
	if len(lives) != 2*n {
		t.Fatalf("%d lifetimes, want %d", len(lives), 2*n)
	}
	if moved := d.liveSet.alive.moved; moved > n*chunkSize {
		t.Errorf("%d lifetimes were moved for %d births", moved, n)
	}
	if most := d.liveSet.pages.looked; most > n*2*(pageSize/64+1) {
		t.Errorf("%d lifetimes were looked at for %d deaths", most, n)
	}
}

// TestCrowdedPage: a page with more lifetimes than any kernel makes.
func TestCrowdedPage(t *testing.T) {
	b := NewBuilder()
	b.Extent(100, 1<<20)
	b.Text(0x1000, 0x2000)
	var l liveSet
	for i := range maxAround + 1 {
		l.all = append(l.all, &Lifetime{Lo: 0x100000, Hi: 0x100040, From: uint64(i), To: uint64(i + 1)})
	}
	if _, ok := l.cameBefore(&Lifetime{Lo: 0x100000, Hi: 0x100040, To: 1 << 20}); ok {
		t.Error("code is believed to have been there before")
	}
}
