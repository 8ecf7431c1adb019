// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// packed writes a history, compressed, and loads it.
func packed(t *testing.T, h genperf.History) *Replay {
	t.Helper()
	h.Compress = true
	return written(t, h)
}

// TestChangesOfCompressed: changes that were compressed are kept in runs, in a few pieces of memory.
func TestChangesOfCompressed(t *testing.T) {
	r := packed(t, genperf.History{Pokes: 100_000, Sites: 5_000})
	alone, all := &trail{r: r, alone: true}, &trail{r: r}
	for _, x := range []struct {
		name string
		*trail
		most int // entries
	}{{"alone", alone, 1000}, {"with batches", all, 101_000}} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		x.collect()
		runtime.ReadMemStats(&after)
		if n := after.Mallocs - before.Mallocs; n > 5000 {
			t.Errorf("%s: %d allocations for 100,000 records", x.name, n)
		}
		if n := len(x.entries); n > x.most {
			t.Errorf("%s: %d entries", x.name, n)
		}
		if n := cap(x.entries); n > x.most+10_000 {
			t.Errorf("%s: room for %d entries", x.name, n)
		}
	}
	if len(alone.runs) == 0 {
		t.Error("no run")
	}
}

// TestRunsThatAreNotTaken: a run is offered once. If it is not taken, each of its records comes, wherever the
// run is among those that follow one another.
func TestRunsThatAreNotTaken(t *testing.T) {
	r := written(t, genperf.History{Pokes: 100_000, Sites: 5_000})
	for every := 1; every <= 4; every++ {
		runs, taken, records := 0, 0, 0
		pass := secondPass{s: r.scanned(), types: []perfdata.RecordType{perfdata.RecordTextPoke}}
		pass.run = func(run *pokeRun) bool {
			if runs++; runs%every == 0 {
				return false
			}
			taken += run.records
			return true
		}
		pass.record = func(*perfdata.Record) bool { records++; return true }
		pass.read()
		if runs != len(r.scan.placed.runs) || taken+records != 100_000 || (taken == 0) != (every == 1) || records == 0 {
			t.Errorf("every %d: %d runs of %d with %d pokes, and %d records", every, runs, len(r.scan.placed.runs), taken, records)
		}
	}
}

// TestPokesOfCompressed: runs that do not matter are not decoded, and who has enough ends the pass.
func TestPokesOfCompressed(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	r := packed(t, genperf.History{Pokes: 100_000, Sites: 5_000})
	asked := 0
	for range r.pokes(func([]byte) bool { asked++; return false }, func(*pokePlaces) bool { return true }) {
		t.Fatal("a poke that does not matter")
	}
	if asked > 10_000 {
		t.Errorf("%d of 100,000 pokes were not skipped in runs", asked)
	}
	for _, skips := range []func(*pokePlaces) bool{nil, func(*pokePlaces) bool { return false }} {
		before, n := runtime.NumGoroutine(), 0
		for range r.pokes(nil, skips) {
			if n++; n == 3 {
				break
			}
		}
		for i := 0; runtime.NumGoroutine() > before && i < 100; i++ {
			time.Sleep(10 * time.Millisecond) // a goroutine that was waited for may not have ended yet
		}
		if got := runtime.NumGoroutine(); n != 3 || got > before {
			t.Errorf("%d pokes, %d goroutines, %d before", n, got, before)
		}
	}
}

// TestSecondPassOfCut: where a compressed file was cut short meanwhile, Guard returns an error, on whatever
// goroutine its records are decompressed.
func TestSecondPassOfCut(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	for _, begin := range []int64{0, 1 << 20} {
		path := filepath.Join(t.TempDir(), "rec")
		h := genperf.History{Pokes: 200_000, Sites: 20_000, Order: genperf.Random, CPUs: 4, Compress: true}
		if err := h.Write(path); err != nil {
			t.Fatal(err)
		}
		r, err := Load(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		r.Recording.Unload()
		if err := os.Truncate(filepath.Join(path, "data"), begin); err != nil {
			t.Fatal(err)
		}
		for name, f := range map[string]func(){
			"changes": func() {
				for range r.Changes() {
				}
			},
			"changes alone": func() {
				for range r.ChangesAlone() {
				}
			},
			"findings": func() {
				for range r.Findings() {
				}
			},
			"pokes": func() {
				for range r.pokes(nil, nil) {
				}
			},
		} {
			var changed *ChangedError
			if err := Guard(func() error { f(); return nil }); !errors.As(err, &changed) {
				t.Errorf("%s of a file cut to %d bytes: %v", name, begin, err)
			}
		}
	}
}

// TestCopies: a copy has the bytes that it was made of, whatever is copied later.
func TestCopies(t *testing.T) {
	c := copies{on: true}
	var want, got [][]byte
	reused := make([]byte, 3*leastCopied)
	for i := range 300 {
		data := reused[:i*97%len(reused)]
		if i%50 == 0 {
			data = reused
		}
		for k := range data {
			data[k] = byte(i + k)
		}
		want, got = append(want, bytes.Clone(data)), append(got, c.of(data))
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) || cap(got[i]) != len(got[i]) {
			t.Fatalf("copy %d: %d bytes with room for %d, want %d, or others", i, len(got[i]), cap(got[i]), len(want[i]))
		}
	}
	if c.on = false; &c.of(reused)[0] != &reused[0] {
		t.Error("a copy of what is not used again")
	}
}

// TestGrow: pokes of compressed runs get room for all of a recording, as far as what was read shows how many
// there are, and never much more than there are.
func TestGrow(t *testing.T) {
	var p placedPokes
	moved := 0
	const all, run = 1 << 20, 100
	for n := 0; n < all; n += run {
		had := cap(p.pokes)
		p.grow(run, max(float64(n)/all, 1e-6))
		for range run {
			p.pokes = append(p.pokes, inPlaceOf(len(p.pokes)))
		}
		if cap(p.pokes) > 8*len(p.pokes) {
			t.Fatalf("room for %d pokes where %d are", cap(p.pokes), len(p.pokes))
		}
		if cap(p.pokes) != had {
			moved++
		}
	}
	if moved > 8 || cap(p.pokes) > all*9/8 {
		t.Errorf("%d pokes have moved %d times, and have room for %d", len(p.pokes), moved, cap(p.pokes))
	}
	for i := range p.pokes {
		if p.pokes[i] != inPlaceOf(i) {
			t.Fatalf("poke %d is %+v", i, p.pokes[i])
		}
	}
	for i := 1; i <= 4; i++ { // at the end of the recording
		p.grow(cap(p.pokes)-len(p.pokes)+1, 1)
		p.pokes = p.pokes[:cap(p.pokes)]
	}
	if n := len(p.pokes); n < 2*all || n > 4*all {
		t.Errorf("%d pokes", n)
	}
}

// inPlaceOf returns a poke like no other.
func inPlaceOf(i int) timeline.InPlacePoke {
	return timeline.InPlacePoke{Time: uint64(i), Addr: uint64(i) << 8, TID: uint32(i)}
}
