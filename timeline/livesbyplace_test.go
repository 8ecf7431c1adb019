// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/textreplay/textreplay/internal/cputime"
)

// TestLivesByPlace: what is found by place and time is what going through all lifetimes finds.
func TestLivesByPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		testLivesByPlace(t, func(name string, lo, hi uint64) uint64 { return rapid.Uint64Range(lo, hi).Draw(t, name) })
	})
}

// TestManyLivesByPlace is TestLivesByPlace of so many that they are in groups. rapid prefers small numbers.
func TestManyLivesByPlace(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 6_000 {
		testLivesByPlace(t, func(_ string, lo, hi uint64) uint64 { return lo + rng.Uint64N(hi-lo+1) })
	}
}

func testLivesByPlace(t interface{ Errorf(string, ...any) }, draw func(name string, lo, hi uint64) uint64) {
	kinds := []LifetimeKind{BPFProgram, BPFImage, OutOfLine, ModuleText, ModuleData}
	names := []string{"a", "b", ""}[:2+draw("some without a name", 0, 1)]
	size, late := 1+6*draw("wide", 0, 1), 10+1000*draw("late", 0, 1)
	var lives []*Lifetime
	for range draw("n", 0, 300) {
		lo, from := draw("lo", 1, 4), draw("from", 0, late)
		lives = append(lives, &Lifetime{Kind: kinds[draw("kind", 0, 4)], Name: names[draw("name", 0, uint64(len(names)-1))],
			Lo: lo, Hi: lo + draw("size", size, 9), From: from, To: from + draw("time", 1, late/2)})
	}
	im := &Image{}
	im.indexLives(sortedByLo(lives))
	all := byPlace(lives)
	addr, at := draw("addr", 0, 9), draw("at", 0, 2*late)
	v := View{im: im, t: at}

	same := Interval{0, MaxTime}
	var alive, last, of *Lifetime
	module := false
	kind, end := kinds[draw("of kind", 0, 4)], draw("end", at, 2*late)
	var meanwhile []*Lifetime
	var begins []uint64
	for _, l := range slices.Backward(im.lives) {
		if l.Lo > addr || addr >= l.Hi {
			continue
		}
		if l.Kind == kind && l.To > at && (of == nil || l.From < of.From) {
			of = l
		}
		if l.Hi > addr+1 && l.From <= end && l.To > at {
			meanwhile = append(meanwhile, l)
		}
		begins = append(begins, l.From)
		if l.Name == "" {
			continue
		}
		for _, t := range [...]uint64{l.From, l.To} {
			if t <= at {
				same.From = max(same.From, t)
			} else {
				same.To = min(same.To, t)
			}
		}
		switch {
		case l.IsModule():
			module = module || l.From <= at && at < l.To
		case l.From > at:
		case at < l.To:
			alive, last = l, l
		case last == nil || l.To > last.To:
			last = l
		}
	}
	if gotAlive, gotLast := v.LifetimeAt(addr); gotAlive != alive || gotLast != last {
		t.Errorf("alive %+v, last %+v; want %+v, %+v", gotAlive, gotLast, alive, last)
	}
	if got := v.SameNames(addr); got != same {
		t.Errorf("the names are the same in %v, want %v", got, same)
	}
	if got := v.InModule(addr); got != module {
		t.Errorf("in a module: %v", got)
	}
	if got := im.LifetimeOf(addr, at, kind); got != nil != (of != nil) || got != nil && (got.From != of.From || got.Lo != of.Lo) {
		t.Errorf("the first one of kind %v is %+v, want %+v", kind, got, of)
	}
	if got := slices.Collect(all.meanwhile(addr, addr+2, end, at)); !slices.Equal(got, meanwhile) {
		t.Errorf("meanwhile: %d, want %d", len(got), len(meanwhile))
	}
	slices.Sort(begins)
	if got := all.begins(nil, addr); !slices.Equal(got, begins) {
		t.Errorf("they begin at %v, want %v", got, begins)
	}
}

// TestFirstOfKind: the first lifetime of a kind is found without going through those of other kinds at
// the same place, such as a program that was loaded 100,000 times. Otherwise this takes half a minute.
func TestFirstOfKind(t *testing.T) {
	const n = 100_000
	var lives []*Lifetime
	for i := range uint64(n) {
		lives = append(lives, &Lifetime{Kind: BPFProgram, Lo: 64, Hi: 128, From: 2 * i, To: 2*i + 1})
	}
	last := &Lifetime{Kind: OutOfLine, Lo: 64, Hi: 128, From: 2 * n, To: 2*n + 1}
	x := byPlace(append(lives, last))
	start := cputime.Start()
	for i := range uint64(n) {
		if got := x.first(100, 2*i, OutOfLine); got != last {
			t.Fatalf("from %d on, the first one is %+v", 2*i, got)
		}
	}
	start.AtMost(t, 3*time.Second)
}
