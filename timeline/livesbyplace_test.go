// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestLivesByPlace: what is found by place and time is what going through all lifetimes finds.
func TestLivesByPlace(t *testing.T) {
	kinds := []LifetimeKind{BPFProgram, BPFImage, OutOfLine, ModuleText, ModuleData}
	rapid.Check(t, func(t *rapid.T) {
		var lives []*Lifetime
		for range rapid.IntRange(0, 30).Draw(t, "n") {
			lo, from := rapid.Uint64Range(1, 4).Draw(t, "lo"), rapid.Uint64Range(0, 12).Draw(t, "from")
			lives = append(lives, &Lifetime{Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Name: rapid.SampledFrom([]string{"a", "b", ""}).Draw(t, "name"),
				Lo: lo, Hi: lo + rapid.Uint64Range(1, 4).Draw(t, "size"), From: from, To: from + rapid.Uint64Range(1, 6).Draw(t, "time")})
		}
		im := &Image{}
		im.indexLives(sortedByLo(lives))
		all := byPlace(lives)
		addr, at := rapid.Uint64Range(0, 9).Draw(t, "addr"), rapid.Uint64Range(0, 20).Draw(t, "at")
		v := View{im: im, t: at}

		same := Interval{0, MaxTime}
		var alive, last, of *Lifetime
		module := false
		kind, end := rapid.SampledFrom(kinds).Draw(t, "of kind"), rapid.Uint64Range(at, 20).Draw(t, "end")
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
		if got := im.LifetimeOf(addr, at, kind); got != nil != (of != nil) || got != nil && got.From != of.From {
			t.Errorf("the first one of kind %v is %+v, want %+v", kind, got, of)
		}
		if got := slices.Collect(all.meanwhile(addr, addr+2, end, at)); !slices.Equal(got, meanwhile) {
			t.Errorf("meanwhile: %d, want %d", len(got), len(meanwhile))
		}
		slices.Sort(begins)
		if got := all.begins(nil, addr); !slices.Equal(got, begins) {
			t.Errorf("they begin at %v, want %v", got, begins)
		}
	})
}
