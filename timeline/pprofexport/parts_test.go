// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// TestTally: rows add up, in order, whether or not the table was packed into
// runs on the way.
func TestTally(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, most := range []int{1 << 2, 1 << 5, 1 << 12} {
		tl := newTally(most)
		want := make(map[row]row)
		for range 3000 {
			key := row{stack: rnd.Uint32N(40) * 100_000_000, labels: rnd.Uint32N(20), event: rnd.Uint32N(2)}
			period := rnd.Uint64N(1 << 40)
			tl.add(key.stack, key.labels, key.event, period)
			w := want[key]
			w.stack, w.labels, w.event = key.stack, key.labels, key.event
			w.count++
			w.sum += period
			want[key] = w
		}
		got := slices.Collect(tl.rows)
		sorted := slices.SortedFunc(maps.Values(want), func(a, b row) int { return a.compare(&b) })
		if d := cmp.Diff(sorted, got, cmp.AllowUnexported(row{})); d != "" {
			t.Errorf("table of %d: %s", most, d)
		}
	}
}

// TestStackTable: equal stacks have one number, others another, while the table
// grows.
func TestStackTable(t *testing.T) {
	table := newStackTable()
	stack := func(n int) []byte { return binary.AppendUvarint([]byte{1}, uint64(n)) }
	for n := range 5000 {
		if id := table.id(stack(n)); id != uint32(n) {
			t.Fatalf("stack %d has the number %d", n, id)
		}
	}
	for n := range 5000 {
		if id := table.id(stack(n)); id != uint32(n) || string(table.get(id)) != string(stack(n)) {
			t.Fatalf("stack %d has the number %d then", n, id)
		}
	}
}

// TestStackCache: what was added is found in its time alone, and a cache that
// is full forgets.
func TestStackCache(t *testing.T) {
	c := newStackCache()
	words := func(n int) []uint64 { return []uint64{7, uint64(n), 9} }
	for n := range 3000 {
		w := words(n)
		c.add(c.hash(w), w, 100, 200, uint32(n))
		c.add(c.hash(w), w, 200, 300, uint32(n)+10_000)
	}
	for n := range 3000 {
		w := words(n)
		for _, tt := range []struct {
			time uint64
			want uint32
			ok   bool
		}{{99, 0, false}, {100, uint32(n), true}, {199, uint32(n), true}, {200, uint32(n) + 10_000, true}, {300, 0, false}} {
			if got, ok := c.find(c.hash(w), w, tt.time); got != tt.want || ok != tt.ok {
				t.Fatalf("stack %d at %d: %d %v, want %d %v", n, tt.time, got, ok, tt.want, tt.ok)
			}
		}
	}
	long := make([]uint64, cacheWords/2)
	for n := range 3 {
		long[0] = uint64(n)
		c.add(c.hash(long), long, 0, 1, 1)
	}
	if len(c.words) > cacheWords {
		t.Errorf("%d words are kept", len(c.words))
	}
	if _, ok := c.find(c.hash(long), long, 0); !ok {
		t.Error("what was added last is not found")
	}
}

// TestSpaces compares the lookup of mappings with going through all that
// happened before.
func TestSpaces(t *testing.T) {
	type event struct {
		time uint64
		kind int // 0: map, 1: exec, 2: fork by process 0
		m    *mapping
	}
	rnd := rand.New(rand.NewPCG(3, 4))
	for round := range 200 {
		var procs [2]process
		var events [2][]event
		now := uint64(0)
		for range 30 {
			now += 1 + rnd.Uint64N(2)
			p := rnd.IntN(2)
			switch kind := rnd.IntN(8); {
			case kind == 0:
				procs[p].exec(now)
				events[p] = append(events[p], event{time: now, kind: 1})
			case kind == 1 && p == 1:
				procs[1].fork(procs[0].current(), now)
				events[1] = append(events[1], event{time: now, kind: 2})
			default:
				m := &mapping{start: rnd.Uint64N(20)}
				m.limit = m.start + 1 + rnd.Uint64N(8)
				s := procs[p].current()
				s.maps = append(s.maps, mapped{now, m})
				events[p] = append(events[p], event{time: now, m: m})
			}
		}
		var model func(p int, addr, t uint64) *mapping
		model = func(p int, addr, t uint64) *mapping {
			var m *mapping
			for _, e := range events[p] {
				if e.time > t {
					break
				}
				switch {
				case e.kind == 1:
					m = nil
				case e.kind == 2:
					m = model(0, addr, e.time)
				case e.m.start <= addr && addr < e.m.limit:
					m = e.m
				}
			}
			return m
		}
		for p := range procs {
			procs[p].seal()
		}
		for p := range procs {
			for addr := range uint64(30) {
				for at := range now + 2 {
					got, from, to := procs[p].find(addr, at)
					if at < from || at >= to {
						t.Fatalf("round %d: the answer for time %d is of %d to %d", round, at, from, to)
					}
					if want := model(p, addr, at); got != want {
						t.Fatalf("round %d: process %d, address %d, time %d: %v, want %v", round, p, addr, at, got, want)
					}
					for _, other := range []uint64{from, to - 1} {
						if other > now+1 {
							continue
						}
						if again, _, _ := procs[p].find(addr, other); again != got {
							t.Fatalf("round %d: %v at %d is said to be so at %d, where it is %v", round, got, at, other, again)
						}
					}
				}
			}
		}
	}
}

func TestAlways(t *testing.T) {
	a, b := &mapping{start: 10, limit: 20}, &mapping{start: 15, limit: 30}
	var p process
	p.current().maps = []mapped{{5, a}}
	p.exec(7)
	p.current().maps = []mapped{{8, b}, {9, b}}
	p.seal()
	for addr, want := range map[uint64]*mapping{5: nil, 12: a, 17: nil, 25: b, 30: nil} {
		if got := p.always(addr); got != want {
			t.Errorf("address %d: %v, want %v", addr, got, want)
		}
	}
}

// TestValidity: how long the name of an address holds.
func TestValidity(t *testing.T) {
	tp := newTape(t, "cpu-clock")
	tp.bpf(1000, 2000, packed, 64, "bpf_prog_0000000000000001_first")
	r := tp.load()
	n := newNamer(r, readTasks(r, func(err error) { t.Error(err) }))
	if _, from, to := n.at(contextKernel, 1, packed, 1500, false); from != 1000 || to != 2000 {
		t.Errorf("the name of a program is said to hold from %d to %d", from, to)
	}
	if _, from, to := n.at(contextKernel, 1, leaf, 1500, false); from != 0 || to != timeline.MaxTime {
		t.Errorf("the name of a function is said to hold from %d to %d", from, to)
	}
}

// TestSource: what comes from a line of source says so.
func TestSource(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perf.data")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(genperf.BPF(f), f.Close()); err != nil {
		t.Fatal(err)
	}
	r, err := replay.Load(path, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	n := newNamer(r, readTasks(r, func(err error) { t.Error(err) }))
	for _, tt := range []struct {
		addr   uint64
		caller bool
		want   string
	}{
		{genperf.BPFSub, false, "bpf_prog_1112131415161718_add count.bpf.c:5"},
		{genperf.BPFMain + 18, true, "bpf_prog_0102030405060708_count count.bpf.c:11"},
		{genperf.BPFMain + 18, false, "bpf_prog_0102030405060708_count count.bpf.c:12"},
		{genperf.BPFMain, false, "bpf_prog_0102030405060708_count :0"},
	} {
		id, _, _ := n.at(contextKernel, 7, tt.addr, genperf.BPFUnloaded-1, tt.caller)
		l := n.locations[id-1]
		f := n.functions[l.function-1]
		if got := fmt.Sprintf("%s %s:%d", f.name, f.file, l.line); got != tt.want {
			t.Errorf("%#x: %s, want %s", tt.addr, got, tt.want)
		}
	}
}
