// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// lossyPlaces is the number of places that flips changes.
const lossyPlaces = (tapeTextHi - tapeTextLo) / 2

// flips changes every second byte of kernel text once, then loses records the given
// number of times.
func (w *tape) flips(losses int) {
	w.ticks(100, 300)
	for addr := uint64(tapeTextLo); addr < tapeTextHi; addr += 2 {
		w.poke(10, 400+addr, addr, "9090", "eb02")
	}
	w.round() // a ring buffer has room for all this
	for i := range losses {
		t := 10_000 + 100*uint64(i)
		w.tick(10, t)
		w.tick(11, t)
		w.lost(10, t+50, 3)
		if i%100 == 99 {
			w.round()
		}
	}
	w.ticks(10_000+100*uint64(losses), 10_000+100*uint64(losses))
	w.lostSamples(10, 3*uint64(losses))
}

// TestDenseLosses: an image has about as many versions as facts. The number of losses
// and other damage to the recording do not matter.
func TestDenseLosses(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(w *tape)
		want string // at 0x1100
	}{
		{"perf was killed", func(w *tape) {
			w.available = 0 // perf writes the number of CPUs at the end
			w.flips(6000)
		}, textLines(
			"0..4752 unconfirmed cpu-counts-missing 9090",
			"4752.. unconfirmed cpu-counts-missing eb02")},
		{"damaged", func(w *tape) {
			w.flips(6000)
			s := w.id(10, 700_000)
			s.ID = 77 // of no event
			w.must(w.w.TextPoke(&perfdata.TextPoke{Addr: 0x1800, Old: []byte{0x90}, New: []byte{0xcc}, SampleID: s}))
		}, textLines(
			"0..4752 unconfirmed damaged 9090",
			"4752..610000 unconfirmed damaged eb02",
			"610000.. unconfirmed after-loss eb02")},
		{"nothing else is wrong", func(w *tape) { w.flips(6000) }, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..4752 known 9090",
			"4752..10000 known eb02",
			"10000..610001 unconfirmed after-loss eb02",
			"610001.. unconfirmed beyond-horizon eb02")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			tt.make(w)
			r := w.replay()
			if n := r.Image.Stats().Versions; n > 5*lossyPlaces {
				t.Errorf("%d versions of %d places", n, lossyPlaces)
			}
			if d := cmp.Diff(tt.want, r.Image.Dump(0x1100, 2)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// TestDenseFollow does the same for a recording that perf is still writing, whose number
// of CPUs is unknown.
func TestDenseFollow(t *testing.T) {
	w := newTape(t)
	w.pipe, w.available = true, 0
	w.flips(6000)
	w.round()
	f, err := Follow(bytes.NewReader(w.bytes()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for f.Next() {
	}
	im, err := f.Image()
	if err != nil {
		t.Fatal(err)
	}
	if n := im.Stats().Versions; n > 5*lossyPlaces {
		t.Errorf("%d versions of %d places", n, lossyPlaces)
	}
}

// TestTooManyPokes: pokes beyond the limit make coverage partial for their time.
func TestTooManyPokes(t *testing.T) {
	w := newTape(t)
	w.ticks(100, 300)
	for i := range uint64(5) {
		w.poke(10, 400+10*i, 0x1100+i, "90", "cc")
	}
	w.ticks(500, 600)
	rec, err := perfdata.New(w.bytes())
	w.must(err)
	s := newScan(rec, nil, nil)
	r := &Replay{Recording: rec}
	s.b.Limit(3, 100)
	s.describe(r)
	s.run()
	w.must(s.facts(r, Options{}))
	want := []Limit{{timeline.TooManyFacts, "2 text pokes are ignored: no kernel makes so many", 430, 441}}
	if d := cmp.Diff(want, s.report.Coverage.Pokes.Limits); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestTooManySymbols: the report mentions thousands of overlapping symbols.
func TestTooManySymbols(t *testing.T) {
	w := newTape(t)
	w.ticks(100, 300)
	for i := range uint64(40_000) {
		w.ksymbol(10, 400+i, 0x10_0000+16*i, 1<<24, perfdata.KSymbolOOL, 0, "kprobe_insn_page")
	}
	w.ticks(50_000, 50_100)
	r := w.replay()
	n := r.Image.Stats().Crowded
	want := fmt.Sprintf("%d bytes are unknown: more symbols and changes overlap there than any kernel makes", n)
	if !slices.ContainsFunc(r.Report.Warnings, func(err error) bool { return err.Error() == want }) || n == 0 {
		t.Errorf("warnings %v, want %q", r.Report.Warnings, want)
	}
}
