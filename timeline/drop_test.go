// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// dropPokes copies a recording without some of its text pokes. In the place of
// each it puts a LOST record, and at the end the LOST_SAMPLES that a kernel
// would have counted, as if the ring buffer had been full.
func dropPokes(tb testing.TB, rec *perfdata.Recording, drop map[int]bool) []byte {
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
			continue // the writer makes its own
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

// TestDroppedPokes: pokes that were lost, and told as lost, make no known byte
// wrong: single ones, pairs, and whole stretches.
func TestDroppedPokes(t *testing.T) {
	for _, name := range []string{"small", "rich", "storm"} {
		t.Run(name, func(t *testing.T) {
			v := newVictim(t, filepath.Join(corpus.Root(), "testdata", name))
			rec, err := perfdata.New(v.data)
			if err != nil {
				t.Fatal(err)
			}
			total := 0
			for sc := rec.Scan(perfdata.Only(perfdata.RecordTextPoke)); sc.Next(); {
				total++
			}
			rng := rand.New(rand.NewPCG(7, 8))
			less := 0
			for i := range rounds(t, 30) {
				drop := make(map[int]bool)
				first := rng.IntN(total)
				switch i % 3 {
				case 0:
					drop[first] = true
				case 1:
					drop[first], drop[rng.IntN(total)] = true, true
				case 2:
					for k := range 1 + rng.IntN(40) {
						drop[(first+k)%total] = true
					}
				}
				n, r := v.wrong(t, dropPokes(t, rec, drop), nil)
				if r == nil {
					t.Fatal("the recording is refused")
				}
				if n != 0 {
					t.Errorf("%d pokes lost from the %dth on: %d wrong bytes", len(drop), first, n)
				}
				if len(r.Report.Losses) != len(drop) {
					t.Errorf("%d pokes lost, %d losses reported", len(drop), len(r.Report.Losses))
				}
				if c := r.Report.Coverage.Pokes; c.Verdict == timeline.Partial {
					less++
				}
			}
			if less == 0 {
				t.Error("no loss lowered the coverage")
			}
		})
	}
}
