// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"testing"
)

// tracedFacts returns a builder with pokes as tracers make them: stretches of sites, one after the other, from
// the first one or from another, to what they were before or to one of a few other contents. Some stretches
// take long, some are repeated by another CPU, and single pokes, of other lengths, at earlier times and of
// other sites, come between. least is how many pokes a pass has.
func tracedFacts(seed uint64, least int) *Builder {
	rng := rand.New(rand.NewPCG(seed, 11))
	const lo = 0x1_0000
	sites := 1 + rng.IntN(300)
	b := NewBuilder()
	b.limits.pass, b.limits.region = least, []uint32{regionSites, 64, 10, 1}[seed%4]
	if rng.IntN(8) == 0 {
		b.limits.pokes = uint32(rng.IntN(5_000))
	}
	b.limits.shard, b.limits.consume = 100+rng.IntN(1_000), uint32(rng.IntN(2)*1_000_000)
	b.Extent(0, 1<<40)
	b.Text(lo, lo+1<<16)
	contents := 2 + rng.IntN(3)
	if rng.IntN(6) == 0 {
		contents = 40 // more than have names
	}
	addr := rng.Perm(sites)
	if rng.IntN(2) == 0 {
		slices.Sort(addr)
	}
	state := make([]int, sites)
	now, cpu := uint64(1_000), 0
	code := func(k, i int) []byte { return []byte{0x0f + byte(i), 0x1f, 0x44, byte(k), 0}[:5-k%50/49] }
	poke := func(k, next int, t uint64) {
		p := Poke{Addr: lo + uint64(addr[k])*16, Time: t, Old: code(k, state[k]), New: code(k, next), CPU: cpu}
		switch rng.IntN(2_000) {
		case 0:
			p.Old = slices.Repeat(p.Old, 3) // nobody made that
		case 1:
			p.New = nil
		case 2:
			p.NotBefore = t + 100
		case 3:
			p.Began = t - 10
		}
		b.Poke(&p)
		state[k] = next
	}
	for range 60 {
		first, step := 0, 1+rng.Uint64N(2_000)
		if rng.IntN(3) == 0 {
			first = rng.IntN(sites)
		}
		if rng.IntN(10) == 0 {
			step = 1 << 27 // so that a pass takes longer than its words can say
		}
		mode := rng.IntN(contents + 2)
		for k := first; k < sites; k++ {
			next := (state[k] + 1) % contents
			switch {
			case mode < contents:
				next = mode
			case rng.IntN(20) == 0:
				next = rng.IntN(contents)
			}
			now += rng.Uint64N(2 * step)
			poke(k, next, now)
			switch rng.IntN(150) {
			case 0:
				other := rng.IntN(sites)
				poke(other, rng.IntN(contents), now)
			case 1:
				now -= rng.Uint64N(min(now, 5_000)) // another ring buffer follows
				cpu = rng.IntN(3)
			case 2:
				state[k] = rng.IntN(contents) // a change without a record
			case 3:
				k += rng.IntN(3)
			}
		}
		if rng.IntN(8) == 0 {
			b.settle() // as it happens where other CPUs decode slowly
		}
	}
	if rng.IntN(6) == 0 {
		k := rng.IntN(sites)
		_ = b.Window(ExplicitWindow{Addr: lo + uint64(addr[k])*16, From: now / 2, To: now/2 + 5_000, Before: code(k, 0), After: code(k, 1)})
	}
	return b
}

// TestPasses: an image is the same, bit by bit, whether pokes are kept in passes or in the log.
func TestPasses(t *testing.T) {
	passes, most, inLog := 0, 0, 0
	for seed := range uint64(200) {
		want, wantErr := tracedFacts(seed, 1<<30).Build()
		for _, least := range []int{1, 2, 30} {
			b := tracedFacts(seed, least)
			im, err := b.Build()
			if fmt.Sprint(err) != fmt.Sprint(wantErr) {
				t.Fatalf("seed %d: %v, want %v", seed, err, wantErr)
			}
			if !reflect.DeepEqual(im.Encode(), want.Encode()) {
				t.Errorf("seed %d: with passes of %d pokes or more the image is another one", seed, least)
			}
			passes += len(b.passes.passes)
			for i := range b.passes.passes {
				most = max(most, len(b.passes.passes[i].words))
			}
			inLog += len(b.log.owners)
		}
	}
	if passes < 10_000 || most < 150 || inLog < 10_000 {
		t.Errorf("only %d passes, the longest of %d pokes, and %d lines of other pokes", passes, most, inLog)
	}
}

// TestPassOfNoPlace: pokes that get no place, because there are too many, make no passes behind the last region.
func TestPassOfNoPlace(t *testing.T) {
	const sites, lo = 200, 0x1_0000
	b := NewBuilder()
	b.limits.pass, b.limits.region, b.limits.sites = 2, sites, sites
	b.Extent(0, 1<<30)
	b.Text(lo, lo+1<<16)
	now := uint64(1_000)
	poke := func(k int, old, new byte) {
		now++
		b.Poke(&Poke{Addr: lo + uint64(k)*16, Time: now, Old: []byte{old, 1, 1, 1, 1}, New: []byte{new, 1, 1, 1, 1}})
	}
	for round := range byte(8) {
		for k := range sites {
			poke(k, round%2, 1-round%2)
		}
	}
	b.settle()
	before := len(b.passes.passes)
	for k := range 1_000 {
		poke(sites+k, 0, 1)
		b.settle()
	}
	if got := len(b.passes.passes); before == 0 || got != before {
		t.Errorf("%d passes, %d before", got, before)
	}
}

// TestPassesOfClones: what is added later does not get into an image of before, nor out of it.
func TestPassesOfClones(t *testing.T) {
	const sites, lo = 200, 0x1_0000
	now := uint64(1_000)
	round := func(b *Builder, sites int, old, new byte) {
		for k := range sites {
			now++
			b.Poke(&Poke{Addr: lo + uint64(k)*16, Time: now, Old: []byte{old, 1, 1, 1, 1}, New: []byte{new, 1, 1, 1, 1}})
		}
		b.settle()
	}
	b := NewBuilder()
	b.limits.pass = 2
	b.Extent(0, 1<<30)
	b.Text(lo, lo+1<<16)
	round(b, sites, 1, 2)
	round(b, sites, 2, 1)
	round(b, sites/2, 1, 2)
	if err := b.Window(ExplicitWindow{Addr: lo + sites/2*16, From: now + 1, To: now + 2, Before: []byte{1, 1, 1, 1, 1}, After: []byte{2, 1, 1, 1, 1}}); err != nil {
		t.Fatal(err)
	}
	before := len(b.passes.passes[len(b.passes.passes)-1].words)
	first := mustBuild(t, b) // of a clone, to which the window is added
	if got := len(b.passes.passes[len(b.passes.passes)-1].words); got != before {
		t.Errorf("to build an image has changed a pass: %d words, before %d", got, before)
	}
	want := first.Encode()
	now++
	if round(b, sites, 2, 1); mustBuild(t, b) == nil {
		t.Fatal("no image")
	}
	if !reflect.DeepEqual(first.Encode(), want) {
		t.Error("an image has changed after it was built")
	}
}

// TestPassesGivenUp: Finish gives the words of passes up while it builds the image, which is that of Build.
func TestPassesGivenUp(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	const sites, rounds, lo = 40_000, 40, 0x10_0000
	for _, cpus := range []int{1, 2, 5} {
		runtime.GOMAXPROCS(cpus)
		b := NewBuilder()
		b.Extent(100, 1<<40)
		b.Text(lo, lo+sites*16)
		b.limits.shard, b.limits.consume = 20_000, 1
		off, on := []byte{0x0f, 0x1f, 0x44, 0, 0}, []byte{0xe8, 1, 2, 3, 4}
		for i := range sites * rounds {
			p := Poke{Addr: lo + uint64(i%sites)*16, Time: 1000 + uint64(i)*1500, Old: off, New: on, CPU: 1}
			if i/sites%2 == 1 {
				p.Old, p.New = on, off
			}
			b.Poke(&p)
		}
		want := mustBuild(t, b)
		im, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(im.Encode(), want.Encode()) {
			t.Errorf("%d CPUs: Finish makes another image than Build", cpus)
		}
		if runtime.GOOS != "linux" {
			continue // memory.Discard does nothing there
		}
		kept, all := 0, 0
		for i := range b.passes.passes {
			for _, w := range b.passes.passes[i].words {
				if all++; w != 0 {
					kept++
				}
			}
		}
		if all < sites*(rounds-4) || kept > all*3/5 { // the last ones are not given up, nor parts of pages
			t.Errorf("%d CPUs: %d of %d words of passes were not given up", cpus, kept, all)
		}
	}
}

// TestSecondTime: the time of a site's second poke is found without the others, in the log or in a pass.
func TestSecondTime(t *testing.T) {
	inLog, inLine, inPass := 0, 0, 0
	for seed := range uint64(300) {
		b := tracedFacts(seed, []int{1, 2, 30, 1 << 30}[seed%4])
		b.settle()
		d := newBuild(b, b.index())
		for i := range b.sites {
			all := d.reader.pokes(b, &d.index, uint32(i), nil)
			if len(all) < 2 {
				continue
			}
			if got := d.index.secondTime(b, uint32(i)); got != all[1].time {
				t.Fatalf("seed %d, site %d of %d pokes: %d, want %d", seed, i, len(all), got, all[1].time)
			}
			switch from := all[1].order; {
			case slices.ContainsFunc(d.index.passes.ofSite(uint32(i)), func(k uint32) bool {
				p := &b.passes.passes[k]
				return uint32(i)-p.site < uint32(len(p.words)) && p.order+uint32(i)-p.site == from
			}):
				inPass++
			case d.index.first[i] < d.index.first[i+1]:
				inLine++
			default:
				inLog++
			}
		}
	}
	if inLog < 500 || inLine < 500 || inPass < 100 {
		t.Errorf("only %d are in sites, %d in lines, %d in passes", inLog, inLine, inPass)
	}
}
