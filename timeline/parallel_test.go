// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
)

// TestSameOnAnyNumberOfCPUs: an image is the same, bit by bit, however many CPUs made it,
// and the histories of its places do not depend on how many shards it was made in.
func TestSameOnAnyNumberOfCPUs(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for seed := range uint64(3) {
		var encoded []Encoded
		var histories []string
		for _, tt := range []struct{ cpus, shard int }{{1, 100}, {2, 100}, {7, 100}, {4, 1}, {1, 1 << 30}} {
			runtime.GOMAXPROCS(tt.cpus)
			b := manyFacts(seed)
			b.limits.shard = tt.shard
			im := mustBuild(t, b)
			if err := im.CheckValid(); err != nil {
				t.Fatal(err)
			}
			if tt.shard == 100 {
				encoded = append(encoded, im.Encode())
			}
			var h bytes.Buffer
			for r := range im.Fragments() {
				if r.Hi-r.Lo < 64 {
					fmt.Fprintf(&h, "%#x\n%s", r.Lo, im.Dump(r.Lo, 1))
				}
			}
			histories = append(histories, h.String())
		}
		for i, e := range encoded {
			for k := range e.Tables {
				if !bytes.Equal(e.Tables[k].Data, encoded[0].Tables[k].Data) {
					t.Errorf("seed %d: table %d of image %d differs", seed, k, i)
				}
			}
			if !reflect.DeepEqual(e.Meta, encoded[0].Meta) {
				t.Errorf("seed %d: the metadata of image %d differ", seed, i)
			}
		}
		for i := range histories {
			if histories[i] != histories[0] {
				t.Errorf("seed %d: the histories of image %d differ", seed, i)
			}
		}
	}
}

// TestFinish: the image is that of Build, and the log is given up, on any number of CPUs, in any
// order of pokes. What the log had must not get into the image with its pages.
func TestFinish(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	const sites, pokes, lo = 3_000, 1_600_000, 0x1_0000 // several huge pages of the log and of the leaves
	for _, random := range []bool{false, true} {
		for _, cpus := range []int{1, 2, 5} {
			runtime.GOMAXPROCS(cpus)
			rng := rand.New(rand.NewPCG(1, 2))
			b := NewBuilder()
			b.Extent(100, 1<<40)
			b.Text(lo, lo+sites*16)
			b.limits.shard, b.limits.consume, b.limits.pass = 2_000, pokes, pokes // all pokes are in the log
			on := make([]bool, sites)
			for i := range pokes {
				k := i % sites
				if random {
					k = rng.IntN(sites)
				}
				old, fresh := []byte{0x0f, 0x1f, 0x44, 0, 0}, []byte{0xe8, byte(k), byte(k >> 8), 0, 0}
				if on[k] {
					old, fresh = fresh, old
				}
				on[k] = !on[k]
				b.Poke(&Poke{Addr: lo + uint64(k)*16, Time: 1000 + uint64(i)*1500, Old: old, New: fresh, CPU: 1})
			}
			want := mustBuild(t, b)
			unloads := 0
			b.Unloads(func() { unloads++ })
			im, err := b.Finish()
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(im.Encode(), want.Encode()) {
				t.Errorf("random %v, %d CPUs: Finish makes another image than Build", random, cpus)
			}
			if shards := pokes / b.limits.shard / 2; unloads < shards/unloadEvery { // each has a few more
				t.Errorf("the snapshot was unloaded %d times, for %d shards", unloads, shards)
			}
			if len(b.log.slabs) < 3*hugeSlabs {
				t.Fatalf("the log has only %d slabs", len(b.log.slabs))
			}
			for i, slab := range b.log.slabs {
				if slab != nil {
					t.Errorf("random %v, %d CPUs: slab %d of %d was not given up", random, cpus, i, len(b.log.slabs))
				}
			}
		}
	}
}

// manyFacts returns a builder with facts of all kinds: pokes in and out of order, twice,
// of several lengths, that contradict one another; code that comes and goes; gaps.
func manyFacts(seed uint64) *Builder {
	rng := rand.New(rand.NewPCG(seed, 1))
	text := make([]byte, 1<<16)
	for i := range text {
		text[i] = byte(rng.Uint32())
	}
	const lo, code = 0x1_0000, 0x100_0000
	b := NewBuilder()
	b.Extent(100, 1<<40)
	b.Text(lo, lo+1<<16)
	b.SetSnapshot(Snapshot{From: 100, To: 200, Segments: []Segment{{lo, text}}})
	for range 5 {
		t := rng.Uint64N(1 << 39)
		b.Gap(GapPokes, t, t+rng.Uint64N(1<<33), AfterLoss)
		b.Gap(GapSymbols, t, t+1<<20, AfterLoss)
	}
	now := uint64(1000)
	state := make(map[uint64][]byte)
	for range 5_000 {
		now += rng.Uint64N(1 << 26)
		if rng.IntN(40) == 0 {
			now += 1 << 35
		}
		addr := lo + rng.Uint64N(1<<10)*64
		n := []int{5, 5, 5, 2, 12}[addr>>6%5]
		switch rng.IntN(50) {
		case 0:
			addr++ // overlaps
		case 1:
			n = 1
		case 2:
			i := rng.Uint64N(64)
			b.Symbol(SymbolEvent{Time: now, Addr: code + i<<12, Len: 4096, Kind: SymbolOutOfLine, Name: "slots", Unregister: rng.IntN(2) == 0})
			b.Poke(&Poke{Addr: code + i<<12 + 16*rng.Uint64N(8), Time: now + 1, New: []byte{0x55, 0x90, byte(now)}, CPU: 1})
			continue
		case 3:
			i := rng.Uint64N(64)
			b.Symbol(SymbolEvent{Time: now, Addr: code<<1 + i<<8, Len: 200 + uint32(i), Kind: SymbolBPF, Name: "bpf_prog_0123456789abcdef", Unregister: rng.IntN(2) == 0})
			continue
		}
		old := state[addr]
		if len(old) != n {
			old = bytes.Clone(text[min(addr-lo, 1<<16-12):][:n])
		}
		if rng.IntN(200) == 0 {
			old = bytes.Repeat([]byte{0x90}, n) // a contradiction
		}
		fresh := bytes.Repeat([]byte{byte(rng.IntN(3)), 0xe8}, 6)[:n]
		p := &Poke{Addr: addr, Time: now, Old: old, New: fresh, CPU: rng.IntN(4)}
		if rng.IntN(4) == 0 {
			p.Time -= min(now-1000, rng.Uint64N(1<<30)) // of a CPU whose buffer was drained later
		}
		if b.Poke(p); rng.IntN(100) == 0 {
			b.Poke(p) // perf wrote it twice
		}
		state[addr] = fresh
	}
	return b
}
