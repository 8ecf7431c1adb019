// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// dropPokes copies a recording without some of its text pokes. With told set, it
// replaces each by a LOST record, and adds LOST_SAMPLES at the end, as if the ring buffer
// had been full.
func dropPokes(tb testing.TB, rec *perfdata.Recording, drop map[int]bool, told bool) []byte {
	tb.Helper()
	f, err := os.Create(filepath.Join(tb.TempDir(), "data"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	w := perfdata.NewWriter(f, rec.ByteOrder())
	must := func(err error) {
		if err != nil {
			tb.Fatal(err)
		}
	}
	must(w.SetEvents(rec.Events()))
	lost := make(map[uint64]perfdata.LostSamples)
	n := 0
	sc := rec.Scan()
	for sc.Next() {
		r := sc.Record()
		if r.Type == perfdata.RecordTextPoke {
			if n++; drop[n-1] {
				if !told {
					continue
				}
				var p perfdata.TextPoke
				must(rec.TextPoke(r, &p))
				must(w.Lost(&perfdata.Lost{ID: p.ID, Lost: 1, SampleID: p.SampleID}))
				l := lost[p.ID]
				l.Lost, l.SampleID = l.Lost+1, p.SampleID
				lost[p.ID] = l
				continue
			}
		}
		must(w.WriteRecord(r.Raw))
	}
	must(sc.Err())
	for _, l := range lost {
		l.Time = 0
		must(w.LostSamples(&l))
	}
	for _, feature := range rec.Features() {
		if feature == perfdata.FeatureEventDesc {
			continue // the writer adds one
		}
		data, err := rec.Feature(feature)
		must(err)
		must(w.WriteFeature(feature, data))
	}
	must(w.Close())
	data, err := os.ReadFile(f.Name())
	must(err)
	return data
}

// A pokedRecording is a recording whose pokes a test drops.
type pokedRecording struct {
	*victim
	rec    *perfdata.Recording
	pokes  []perfdata.TextPoke
	firsts []int            // the first poke of each place
	lasts  map[int]int      // the poke of the same place that follows
	bytes  map[uint64][]int // the pokes that have old bytes of an address
	rng    *rand.Rand
}

func newPoked(t *testing.T, dir string) *pokedRecording {
	p := &pokedRecording{victim: newVictim(t, dir), lasts: make(map[int]int), bytes: make(map[uint64][]int), rng: rand.New(rand.NewPCG(7, 8))}
	var err error
	if p.rec, err = perfdata.New(p.data); err != nil {
		t.Fatal(err)
	}
	last := make(map[uint64]int)
	for sc := p.rec.Scan(perfdata.Only(perfdata.RecordTextPoke)); sc.Next(); {
		var poke perfdata.TextPoke
		if err := p.rec.TextPoke(sc.Record(), &poke); err != nil {
			t.Fatal(err)
		}
		i := len(p.pokes)
		p.pokes = append(p.pokes, poke)
		if k, ok := last[poke.Addr]; ok {
			p.lasts[k] = i
		} else {
			p.firsts = append(p.firsts, i)
		}
		last[poke.Addr] = i
		for k := range poke.Old {
			a := poke.Addr + uint64(k)
			p.bytes[a] = append(p.bytes[a], i)
		}
	}
	return p
}

// choose picks the pokes to drop in the i-th round: a single one, the first of a place,
// two in a row of a place, any two, or all in a range.
func (p *pokedRecording) choose(i int) (drop map[int]bool, what string) {
	drop = make(map[int]bool)
	any := p.rng.IntN(len(p.pokes))
	switch i % 5 {
	case 0:
		drop[any] = true
		return drop, fmt.Sprintf("poke %d", any)
	case 1:
		k := p.firsts[p.rng.IntN(len(p.firsts))]
		drop[k] = true
		return drop, fmt.Sprintf("the first poke of a place, %d", k)
	case 2:
		drop[any] = true
		if k, ok := p.lasts[any]; ok {
			drop[k] = true
		}
		return drop, fmt.Sprintf("poke %d and the next of its place", any)
	case 3:
		drop[any], drop[p.rng.IntN(len(p.pokes))] = true, true
		return drop, fmt.Sprintf("pokes %v", slices.Sorted(maps.Keys(drop)))
	}
	n := 1 + p.rng.IntN(40)
	for k := range n {
		drop[(any+k)%len(p.pokes)] = true
	}
	return drop, fmt.Sprintf("%d pokes from %d on", n, any)
}

// poked calls test for the recordings of testdata and the large ones.
func poked(t *testing.T, test func(t *testing.T, p *pokedRecording, rounds int)) {
	for _, name := range []string{"small", "rich", "storm"} {
		t.Run("testdata/"+name, func(t *testing.T) {
			test(t, newPoked(t, filepath.Join(corpus.Root(), "testdata", name)), rounds(t, 20))
		})
	}
	for _, name := range []string{"x86_64/small", "x86_64/rich", "x86_64/storm"} {
		t.Run(name, func(t *testing.T) {
			test(t, newPoked(t, corpus.Large(t, name)), rounds(t, 2))
		})
	}
}

// TestDroppedPokes: pokes that were lost, with LOST records, make no known byte wrong.
func TestDroppedPokes(t *testing.T) {
	poked(t, func(t *testing.T, p *pokedRecording, rounds int) {
		less := 0
		for i := range rounds {
			drop, what := p.choose(i)
			n, r := p.wrong(dropPokes(t, p.rec, drop, true), nil)
			if r == nil {
				t.Fatal("the recording is refused")
			}
			if n != 0 {
				t.Errorf("lost %s: %d wrong bytes", what, n)
			}
			if len(r.Report.Losses) != len(drop) {
				t.Errorf("lost %s: %d losses reported", what, len(r.Report.Losses))
			}
			if c := r.Report.Coverage.Pokes; c.Verdict == replay.Partial {
				less++
			}
		}
		if less == 0 {
			t.Error("no loss lowered the coverage")
		}
	})
}

// TestMissingPokes: pokes are missing without a LOST record. A known byte may be wrong only
// if the place's next poke does not contradict it. If the next poke's old bytes agree
// with the bytes before, or no poke follows, the recording cannot show the loss.
func TestMissingPokes(t *testing.T) {
	poked(t, func(t *testing.T, p *pokedRecording, rounds int) {
		conflicts := 0
		for i := range rounds {
			drop, what := p.choose(i)
			r := p.replay(dropPokes(t, p.rec, drop, false))
			if r == nil {
				t.Fatal("the recording is refused")
			}
			p.differences(r.Image, func(addr, time uint64, known byte) {
				if old, ok := p.nextOld(addr, time, drop); ok && old != known {
					t.Errorf("missing %s: %#x is known as %02x at %d, though the next poke's old byte is %02x", what, addr, known, time, old)
				}
			})
			conflicts += r.Report.Conflicts
		}
		if conflicts == 0 {
			t.Error("no missing poke was seen")
		}
	})
}

// nextOld returns the old byte at addr in the next poke after a time.
func (p *pokedRecording) nextOld(addr, time uint64, drop map[int]bool) (old byte, ok bool) {
	next := timeline.MaxTime
	for _, i := range p.bytes[addr] {
		if poke := &p.pokes[i]; !drop[i] && poke.Time > time && poke.Time < next {
			next, old, ok = poke.Time, poke.Old[addr-poke.Addr], true
		}
	}
	return old, ok
}
