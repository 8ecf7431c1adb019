// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math/rand/v2"
	"testing"
)

// TestIsAlone: what isAlone says does not depend on what it was asked before.
func TestIsAlone(t *testing.T) {
	rnd := rand.New(rand.NewPCG(28, 11))
	said := make(map[bool]int)
	for range 300 {
		b := NewBuilder()
		cpus := []int{0, 0, 0, 0, 1, -1}[:4+rnd.IntN(3)]
		var changes []change
		at := uint64(1e9)
		for i := range 1 + rnd.IntN(60) {
			if rnd.IntN(12) == 0 {
				at += 2e9
			}
			at += rnd.Uint64N(3e8)
			b.Poke(&Poke{Time: at, Addr: 0x1100, Old: []byte{0x90}, New: []byte{0xcc}, CPU: cpus[rnd.IntN(len(cpus))]})
			changes = append(changes, change{time: at, order: uint32(i)})
		}
		b.settle()
		asked := &historyBuilder{build: &build{Builder: b}, source: SourcePoke}
		for n := range changes {
			if rnd.IntN(3) == 0 {
				continue
			}
			p := progress{t: changes[n].time}
			fresh := &historyBuilder{build: asked.build, source: SourcePoke}
			got, want := asked.isAlone(&p, changes[:n+1]), fresh.isAlone(&p, changes[:n+1])
			if got != want {
				t.Fatalf("after change %d of %+v: %v, want %v", n, changes, got, want)
			}
			said[want]++
		}
	}
	if min(said[true], said[false]) < 500 {
		t.Error(said)
	}
}
