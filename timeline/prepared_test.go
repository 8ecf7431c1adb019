// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestPrepared: pokes that were prepared, and are added in parts, make the same image as
// pokes that are given one by one. Some of them are outside of the image, or run past the end of the
// address space.
func TestPrepared(t *testing.T) {
	const pokes = 3*batchSize + 5
	at := func(i int) *Poke {
		old, new := []byte{1, 2, 3, 4, 5}, []byte{6, 7, 8, 9, byte(i)}
		if i%7 == 0 {
			old, new = bytes.Repeat([]byte{byte(i)}, 20), bytes.Repeat([]byte{3}, 11)
		}
		addr := 0x1000 + uint64(i*i%300)*8
		if i%11 == 0 {
			addr = -uint64(i % 7)
		}
		return &Poke{Addr: addr, Time: uint64(100 + i), Old: old, New: new, CPU: i / 100 % 3}
	}
	for _, only := range [][]Range{nil, {{0x1000, 0x1800}, {^uint64(5), ^uint64(0)}}} {
		testPrepared(t, pokes, at, only)
	}
}

func testPrepared(t *testing.T, pokes int, at func(i int) *Poke, only []Range) {
	rnd := rand.New(rand.NewPCG(3, 4))
	one, parts := NewBuilder(), NewBuilder()
	for _, b := range []*Builder{one, parts} {
		b.Only(only)
		b.Extent(1, 1<<20)
		b.Text(0, 1<<20)
	}
	for i := range pokes {
		one.Poke(at(i))
	}
	p := parts.NewPokes()
	for i := 0; i < pokes; {
		p.Reset()
		n := min(pokes-i, 1+rnd.IntN(2*batchSize))
		for end := i + n; i < end; {
			q := at(i)
			if len(q.Old) > 8 || rnd.IntN(2) == 0 {
				p.Put(q.Addr, q.Time, q.Old, q.New, q.CPU)
				i++
				continue
			}
			k, room := 0, p.Room(end-i)
			for ; i < end; i++ {
				next := at(i)
				if len(next.Old) != len(q.Old) || len(next.New) != len(q.New) || next.CPU != q.CPU {
					break
				}
				room[k] = ShortPoke{next.Addr, next.Time, word(next.Old), word(next.New)}
				k++
			}
			p.PutShort(k, len(q.Old), len(q.New), q.CPU)
		}
		k := 0
		if rnd.IntN(2) == 0 {
			k = rnd.IntN(p.Len() + 1)
			parts.Add(p, 0, k)
		}
		if k < p.Len() {
			parts.Add(p, k, p.Len())
		}
	}
	if a, b := mustBuild(t, one).Encode(), mustBuild(t, parts).Encode(); !reflect.DeepEqual(a, b) {
		t.Error("the images differ")
	}
}
