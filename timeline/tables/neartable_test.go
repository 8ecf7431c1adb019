// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"math/rand/v2"
	"testing"
)

// TestSites: a siteTable finds each address that it has, in few steps whatever the addresses are.
func TestSites(t *testing.T) {
	rnd := rand.New(rand.NewPCG(20, 7))
	for name, addr := range map[string]func(i int) uint64{
		"ascending":          func(i int) uint64 { return 0xffffffff81000000 + uint64(i)*397 },
		"descending":         func(i int) uint64 { return 0xffffffff81000000 - uint64(i)*16 },
		"every byte":         func(i int) uint64 { return 0xffffffff81000000 + uint64(i) },
		"one slot":           func(i int) uint64 { return uint64(i) << (nearBlock + 32) },
		"random":             func(int) uint64 { return rnd.Uint64() },
		"few, all the time":  func(i int) uint64 { return uint64(i%100) << 4 },
		"all in one address": func(int) uint64 { return 1 },
	} {
		var table siteTable
		table.reserve(1)
		want := make(map[uint64]int32)
		steps := 0
		for i := range 200_000 {
			a := addr(i)
			before, was := table.slots.steps, len(table.slots.of)
			at, isNew := table.find(a)
			if len(table.slots.of) == was && table.slots.steps > before {
				steps += table.slots.steps - before
			}
			if have, ok := want[a]; ok == isNew || ok && have != at {
				t.Fatalf("%s: address %d is %x: site %d, new %v; want %d, new %v", name, i, a, at, isNew, have, !ok)
			}
			want[a] = at
		}
		if steps > 40*200_000 {
			t.Errorf("%s: %d steps", name, steps)
		}
	}
	var contents interned
	want := make(map[string]uint32)
	for i := range 200_000 {
		b := []byte{0xe8, byte(i), byte(i >> 8), byte(i >> 16), 0xff}[:1+rnd.IntN(5)]
		k := contents.bytes(b)
		if have, ok := want[string(b)]; ok && have != k || contents.strings[k] != string(b) {
			t.Fatalf("% x has the number %d, that of % x; it had %d", b, k, contents.strings[k], have)
		}
		want[string(b)] = k
	}
}
