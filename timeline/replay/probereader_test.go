// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/perfdata"
)

// pairedByReader returns what a ProbeReader makes of the samples of a recording.
func pairedByReader(t *testing.T, w *tape, data []byte) (got []string) {
	t.Helper()
	snap := w.snapshot()
	r := NewProbeReader(snap.Core, snap.Kallsyms)
	// The records are of two recordings: a change begins in one of them and ends in the other.
	for _, second := range []bool{false, true} {
		rec, err := perfdata.New(data)
		w.must(err)
		formats, err := rec.Feature(perfdata.FeatureTracingData)
		w.must(err)
		if !r.Begin(rec, formats) {
			t.Fatal("it has no probes")
		}
		sc, n := rec.Scan(perfdata.Only(perfdata.RecordSample, perfdata.RecordLost)), 0
		for sc.Next() {
			if n++; (n > 2) != second {
				continue
			}
			if p := r.Change(sc.Record()); p != nil {
				got = append(got, fmt.Sprintf("%d %d %d %#x %x %x", p.Time, p.CPU, p.TID, p.Addr, p.Old, p.New))
			}
		}
		w.must(sc.Err())
	}
	return got
}

// TestProbeReaderLost: two samples are no change if as many are lost between them. The LOST record is written
// before the sample that finds room.
func TestProbeReaderLost(t *testing.T) {
	for lost, want := range map[uint64]int{1: 2, 2: 1} {
		w := newProbeTape(t)
		w.comm(10, 0, 0, 7, "perf-exec")
		w.before(20, 100, 0x1100, wordNOP)
		w.lost(20, 120, lost)
		w.after(20, 120, lrUnmap, wordB)
		w.change(20, 160, 170, 0x1104, wordNOP, wordB)
		if got := pairedByReader(t, w, w.bytes()); len(got) != want {
			t.Errorf("%d lost: %q", lost, got)
		}
	}
}

// TestProbeReader: the reader makes the changes that Load makes, one after the other.
func TestProbeReader(t *testing.T) {
	w := newProbeTape(t)
	w.comm(10, 0, 0, 7, "perf-exec")
	w.before(20, 100, 0x1100, wordNOP)
	w.before(21, 110, 0x1108, wordNOP)
	w.after(20, 120, lrUnmap, wordB)
	w.after(21, 130, lrUnmap, wordB)
	w.after(20, 140, lrUnmap, wordB)                  // without a beginning
	w.before(20, 150, 0x1104, wordNOP)                // without an end
	w.change(20, 160, 170, probeMap, wordNOP, wordB)  // the probe is removed
	w.change(20, 180, 190, 0x1100, wordB, wordNOP)    // and there again
	w.probe(20, 200, 0x5000, lrMap, 0x1234, "", "")   // another user of the fixmap
	w.probe(20, 210, 0, probeStrange+4, 0, "", wordB) //
	data := w.bytes()
	r := w.replayOf(data)
	var want []string
	for p := range r.ProbedChanges() {
		want = append(want, fmt.Sprintf("%d %d %d %#x %x %x", p.Time, p.CPU, p.TID, p.Addr, p.Old, p.New))
	}
	if d := cmp.Diff(want, pairedByReader(t, w, data)); d != "" || len(want) != 3 {
		t.Errorf("%d changes; -want +got:\n%s", len(want), d)
	}
	if NewProbeReader(nil, nil).Change(&perfdata.Record{Type: perfdata.RecordSample}) != nil {
		t.Error("a change without a recording")
	}
}
