// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/textreplay/textreplay/perfdata"
)

// loadInChunks loads a recording of the repository in small chunks, which makes runs.
func loadInChunks(t *testing.T, path string) *Replay {
	t.Helper()
	was := usualChunking
	usualChunking = smallChunks
	defer func() { usualChunking = was }()
	r, err := Load(path, Options{Windows: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// TestChangesInRuns: runs of pokes that are kept change nothing about the changes.
func TestChangesInRuns(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/*/rec.data")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d recordings: %v", len(paths), err)
	}
	runs := 0
	for _, path := range paths {
		r := loadInChunks(t, path)
		for i := range r.scan.placed.runs {
			x := &r.scan.placed.runs[i]
			same, last := false, uint64(0)
			for p := range x.all {
				same, last = same || p.Time == last, p.Time
			}
			if x.sameTime != same {
				t.Errorf("%s: a run at %d, in which two records have the same time: %v, not %v", path, x.first, same, x.sameTime)
			}
		}
		text := func(c *Change) string {
			return fmt.Sprintf("%d %v %d %v %v %v %v %q", c.Time, c.Poke, c.Began, c.Kind, c.KSymbol, c.BPF, c.Loss, c.Comm)
		}
		var want, got []string
		for c := range r.Changes() {
			want = append(want, text(c))
		}
		for c := range r.ChangesAlone() {
			got = append(got, text(c))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d changes, not the %d that there are without runs", path, len(got), len(want))
		}
		both := &trail{r: r, alone: true}
		both.collect()
		runs += len(both.runs)
	}
	if runs < 50 {
		t.Errorf("only %d runs", runs)
	}
}

// TestSameTime: a run knows whether two successive records have the same time.
func TestSameTime(t *testing.T) {
	for _, c := range []struct {
		times []uint64
		want  bool
	}{
		{[]uint64{5}, false},
		{[]uint64{5, 6, 9}, false},
		{[]uint64{5, 5, 9}, true},
		{[]uint64{5, 9, 9}, true},
	} {
		r := item{records: 1, first: c.times[0], last: c.times[0]}
		for _, time := range c.times[1:] {
			r.add(time)
		}
		if r.sameTime != c.want {
			t.Errorf("%d: %v", c.times, r.sameTime)
		}
	}
}

// TestUntangle: whatever comes between the records of runs, at whatever times, the order is that
// of all records by themselves.
func TestUntangle(t *testing.T) {
	r := loadInChunks(t, "../../testdata/small/rec.data")
	var records [][]byte
	var run pokeRecords
	for i := range r.scan.placed.runs {
		x := &r.scan.placed.runs[i]
		if len(x.data) > len(run.data) {
			run = x.pokeRecords
		}
	}
	for data := run.data; len(data) > 0; {
		n := int(data[6]) | int(data[7])<<8
		records, data = append(records, data[:n:n]), data[n:]
	}
	if len(records) < 5 {
		t.Fatalf("%d records are no test", len(records))
	}
	var p perfdata.TextPoke
	timeAt := 0 // where the time is in a record
	for timeAt = len(records[0]) - 8; timeAt > 0; timeAt -= 8 {
		if run.rec.PlainTextPoke(records[0], &p) && binary.LittleEndian.Uint64(records[0][timeAt:]) == p.Time {
			break
		}
	}
	rnd := rand.New(rand.NewPCG(20, 5))
	for range 3000 {
		whole, each := &trail{r: r, alone: true}, &trail{r: r, alone: true}
		span := 1 + rnd.Uint64N(60)
		for range 1 + rnd.IntN(5) {
			// A run whose times ascend, or have doubles; or a single record.
			var data []byte
			time := rnd.Uint64N(span)
			n := 1 + rnd.IntN(12)
			for range n {
				raw := slices.Clone(records[0])
				copy(raw[timeAt:], binary.LittleEndian.AppendUint64(nil, time))
				data = append(data, raw...)
				time += rnd.Uint64N(4) * rnd.Uint64N(2+span/20)
			}
			of := pokeRecords{run.rec, data}
			each.addEach(of)
			if n == 1 {
				whole.addEach(of)
			} else {
				whole.addRun(of, nil)
			}
		}
		whole.sort()
		if whole.untangle() {
			whole.sort()
		}
		each.sort()
		var got, want []string
		for k, i := range whole.order {
			e := &whole.entries[i]
			if e.typ() == runOfPokes {
				if k > 0 && whole.last(whole.inOrder(k-1)) >= e.time || k+1 < len(whole.order) && whole.inOrder(k+1).time <= whole.last(e) {
					t.Fatal("a run has the time of another entry, or a later one")
				}
				for q := range (pokeRecords{run.rec, e.raw()}).all {
					got = append(got, fmt.Sprintf("%d %p", q.Time, q.Old))
				}
				continue
			}
			run.rec.PlainTextPoke(e.raw(), &p)
			got = append(got, fmt.Sprintf("%d %p", e.time, p.Old))
		}
		for _, i := range each.order {
			run.rec.PlainTextPoke(each.entries[i].raw(), &p)
			want = append(want, fmt.Sprintf("%d %p", each.entries[i].time, p.Old))
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d records\n%v\nwant\n%v", len(want), got, want)
		}
	}
}

// TestChangesBut: the changes that are yielded, and those that are known, are all changes in their order.
// A known one has the writer of the change before it.
func TestChangesBut(t *testing.T) {
	paths, err := filepath.Glob("../../testdata/*/rec.data")
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d recordings: %v", len(paths), err)
	}
	rnd := rand.New(rand.NewPCG(20, 6))
	all := 0
	for _, path := range paths {
		r := loadInChunks(t, path)
		number := func(b []byte) uint64 {
			var word [8]byte
			copy(word[:], b)
			return binary.LittleEndian.Uint64(word[:])
		}
		type poke struct {
			addr, time, old, new uint64
			oldLen, newLen       int
			writer               string
		}
		pokeOf := func(c *Change) poke {
			return poke{c.Poke.Addr, c.Time, number(c.Poke.Old), number(c.Poke.New), len(c.Poke.Old), len(c.Poke.New),
				fmt.Sprintf("%d %d %d %d %q", c.Poke.CPU, c.Poke.PID, c.Poke.TID, c.Poke.Has, c.Comm)}
		}
		var want, got []poke
		for c := range r.ChangesAlone() {
			if c.Poke != nil {
				want = append(want, pokeOf(c))
			}
		}
		known := 0
		for c := range r.ChangesBut(func(pokes []perfdata.ShortPoke, oldLen, newLen int) (n int) {
			for ; n < len(pokes) && rnd.IntN(3) > 0; n++ {
				p := &pokes[n]
				known++
				got = append(got, poke{p.Addr, p.Time, p.Old, p.New, oldLen, newLen, got[len(got)-1].writer})
			}
			return n
		}) {
			if c.Poke != nil {
				got = append(got, pokeOf(c))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d pokes, %d of them known; want %d", path, len(got), known, len(want))
		}
		all += known
	}
	if all < 500 {
		t.Errorf("only %d pokes were known", all)
	}
}
