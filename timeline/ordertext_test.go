// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/textreplay/textreplay/internal/cputime"
)

// TestFirstGoesRound: pokes of a place by two CPUs that leave what they found first may have begun with any of them, up
// to the first pause.
func TestFirstGoesRound(t *testing.T) {
	const apart = 50
	type made struct {
		time     uint64
		cpu      int
		old, new byte
	}
	many := func(n int) (all []made) {
		for i := range n {
			all = append(all, made{1000 + 10*uint64(i), i % 2, byte(1 + i%2), byte(2 - i%2)})
		}
		return all
	}
	for _, c := range []struct {
		name  string
		pokes []made
		want  bool
	}{
		{"they go round", []made{{1000, 0, 1, 2}, {1010, 1, 2, 1}}, true},
		{"three do", []made{{1000, 0, 1, 2}, {1010, 1, 2, 3}, {1020, 0, 3, 1}}, true},
		{"they do not", []made{{1000, 0, 1, 2}, {1010, 1, 2, 3}}, false},
		{"one CPU made them", []made{{1000, 0, 1, 2}, {1010, 0, 2, 1}}, false},
		{"a pause is between them", []made{{1000, 0, 1, 2}, {1051, 1, 2, 1}}, false},
		{"two CPUs, but not up to the pause", []made{{1000, 0, 1, 2}, {1010, 0, 2, 1}, {1100, 0, 1, 2}, {1110, 1, 2, 1}}, false},
		{"up to the pause they do not", []made{{1000, 0, 1, 2}, {1010, 1, 2, 3}, {1100, 1, 3, 4}, {1110, 0, 4, 1}}, false},
		{"up to the pause alone they do", []made{{1000, 0, 1, 2}, {1010, 1, 2, 1}, {1100, 1, 1, 3}, {1110, 0, 3, 4}}, false},
		{"the next one shows what they left", []made{{1000, 0, 1, 2}, {1010, 1, 2, 1}, {1100, 1, 1, 3}, {1200, 0, 3, 1}}, false},
		{"two behind the pause show nothing", []made{{1000, 0, 1, 2}, {1010, 1, 2, 1}, {1100, 1, 1, 3}, {1110, 0, 3, 1}}, true},
		{"96 do", many(mostOrdered), true},
		{"98 are too many", many(mostOrdered + 2), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := NewBuilder()
			b.Text(0x1000, 0x2000)
			for _, p := range c.pokes {
				b.Poke(&Poke{Time: p.time, CPU: p.cpu, Addr: 0x1100, Old: []byte{p.old}, New: []byte{p.new}})
			}
			b.settle()
			d := newBuild(b, b.index())
			if got := d.firstGoesRound(d.reader.pokes(b, &d.index, 0, nil), apart); got != c.want {
				t.Errorf("%v: %v", c.pokes, got)
			}
		})
	}
}

// TestUnseenSkewIsCheap: where CPUs' clocks may differ unseen, an image of places that they change in random order takes
// little more time than where they cannot. Most of these changes are closer to one another than clocks may differ.
func TestUnseenSkewIsCheap(t *testing.T) {
	const sites, pokes, cpus = 2_000, 400_000, 4
	made := func(differ bool) time.Duration {
		b := NewBuilder()
		b.Text(0x100000, 0x200000)
		b.Extent(1, MaxTime)
		if differ {
			b.ClocksMayDiffer()
		}
		rnd := rand.New(rand.NewPCG(1, 2))
		on := make([]bool, sites)
		p := Poke{Time: 1e9}
		for range pokes {
			i := rnd.IntN(sites)
			p.Addr, p.CPU = 0x100000+16*uint64(i), rnd.IntN(cpus)
			p.Time += uint64(rnd.IntN(3_000))
			p.Old, p.New = []byte{0x0f, 0x1f, 0x44, 0, 0}, []byte{0xe8, 1, 2, 3, byte(i)}
			if on[i] {
				p.Old, p.New = p.New, p.Old
			}
			on[i] = !on[i]
			b.Poke(&p)
		}
		start := cputime.Start()
		if _, err := b.Build(); err != nil {
			t.Fatal(err)
		}
		return start.Took()
	}
	for range 5 { // other programs use the caches, too
		one, several := made(false), made(true)
		t.Logf("%v of CPU time with one clock, %v where clocks may differ", one, several)
		if several <= 4*one {
			return
		}
	}
	t.Error("an image takes more than four times as long where clocks may differ as where they cannot")
}
