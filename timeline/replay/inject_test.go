// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"path/filepath"
	"slices"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline/replay"
)

// inject writes a recording as perf inject -b does: perf puts the records into the order of the
// times that it finds at their ends, and writes those without a time at once. offsets are those of
// the records in the file.
func inject(tb testing.TB, rec *perfdata.Recording) (data []byte, offsets []int) {
	tb.Helper()
	must := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	var out memoryFile
	w := perfdata.NewWriter(&out, rec.ByteOrder())
	must(w.SetEvents(rec.Events()))
	for _, f := range rec.Features() {
		if f == perfdata.FeatureCmdline || f == perfdata.FeatureEventDesc {
			continue
		}
		b, err := rec.Feature(f)
		must(err)
		must(w.WriteFeature(f, b))
	}
	type record struct {
		time uint64
		raw  []byte
	}
	var queue []record
	var id perfdata.SampleID
	sc := rec.Scan()
	for sc.Next() {
		r := sc.Record()
		time := uint64(0)
		if r.Type < 64 {
			must(rec.SampleID(r, &id))
			if time = id.Time; r.Type == perfdata.RecordTextPoke || r.Type == perfdata.RecordKSymbol || r.Type == perfdata.RecordBPFEvent {
				time = binary.LittleEndian.Uint64(r.Raw[len(r.Raw)-24:]) // before CPU and IDENTIFIER
			}
		}
		if time == 0 {
			must(w.WriteRecord(r.Raw))
		} else {
			queue = append(queue, record{time, bytes.Clone(r.Raw)})
		}
	}
	must(sc.Err())
	slices.SortStableFunc(queue, func(a, b record) int { return cmp.Compare(a.time, b.time) })
	for _, r := range queue {
		must(w.WriteRecord(r.raw))
	}
	must(w.Close())
	again, err := perfdata.New(out.b)
	must(err)
	for sc := again.Scan(); sc.Next(); {
		offsets = append(offsets, int(sc.Record().Offset))
	}
	return out.b, offsets
}

// TestInjected: perf inject -b changes no answer.
func TestInjected(t *testing.T) {
	for _, name := range []string{"smalldup", "lossy"} {
		t.Run(name, func(t *testing.T) {
			dir := testdata(name)
			whole, err := replay.Load(filepath.Join(dir, "rec.data"), replay.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer whole.Close()
			kcoreDir := filepath.Join(dir, "rec.data", "kcore_dir")
			data, offsets := inject(t, whole.Recording)
			r := replayOf(t, data, kcoreDir, replay.Options{})
			for _, w := range r.Report.Warnings {
				t.Errorf("warning: %v", w)
			}
			sites := make(map[uint64]int)
			n := 0
			for c := range whole.Changes() {
				if c.Poke != nil {
					sites[c.Poke.Addr] = max(sites[c.Poke.Addr], len(c.Poke.Old), len(c.Poke.New))
					n++
				}
			}
			for c := range r.Changes() {
				if c.Poke != nil {
					n--
				}
			}
			if n != 0 {
				t.Errorf("the recording has %d more changes", n)
			}
			oracles, err := corpus.Oracles(dir)
			if err != nil {
				t.Fatal(err)
			}
			known := func(r *replay.Replay) (sum score) {
				sum = score{}
				for _, o := range oracles {
					judge(t, r.Image, o, sum)
				}
				return sum
			}
			got, want := known(r), known(whole)
			if name == "lossy" {
				return // what a loss hides may begin earlier
			}
			for kind, x := range want {
				if y := got[kind]; y == nil || *y != *x {
					t.Errorf("%s: %+v, want %+v", kind, y, x)
				}
			}
			for addr, size := range sites {
				if got, want := r.Image.Dump(addr, uint64(size)), whole.Image.Dump(addr, uint64(size)); got != want {
					t.Fatalf("%#x:\n%s\nwant\n%s", addr, got, want)
				}
			}
			// A file that was cut has all copies, and is complete no later than its newest
			// record that perf put into order.
			for i := 1; i < 20; i++ {
				n := offsets[len(offsets)*i/20]
				cut := replayOf(t, killed(t, data)[:n], kcoreDir, replay.Options{CPUs: 2})
				var id perfdata.SampleID
				newest := uint64(0)
				for sc := cut.Recording.Scan(perfdata.Only(perfdata.RecordComm, perfdata.RecordFork, perfdata.RecordExit, perfdata.RecordMMAP2)); sc.Next(); {
					if err := cut.Recording.SampleID(sc.Record(), &id); err != nil {
						t.Fatal(err)
					}
					newest = max(newest, id.Time)
				}
				for sc := cut.Recording.Scan(perfdata.Only(perfdata.RecordTextPoke)); sc.Next(); {
					var p perfdata.TextPoke
					if err := cut.Recording.TextPoke(sc.Record(), &p); err != nil {
						t.Fatal(err)
					}
					if p.Excess == 0 {
						newest = max(newest, p.Time)
					}
				}
				if cut.Report.Horizon > newest {
					t.Errorf("cut at %d: the horizon is %d, but the newest record in order is of %d", n, cut.Report.Horizon, newest)
				}
			}
		})
	}
}
