// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// seed makes a recording of a few kilobytes from a real one, because the fuzzer is slow
// with long inputs.
func seed(f *testing.F, path string) []byte {
	rec, err := perfdata.Open(path)
	if err != nil {
		f.Fatal(err)
	}
	defer rec.Close()
	out, err := os.Create(filepath.Join(f.TempDir(), "data"))
	if err != nil {
		f.Fatal(err)
	}
	defer out.Close()
	w := perfdata.NewWriter(out, rec.ByteOrder())
	if err := w.SetEvents(rec.Events()); err != nil {
		f.Fatal(err)
	}
	few := map[perfdata.RecordType]int{
		perfdata.RecordIDIndex: 1, perfdata.RecordMMAP: 2, perfdata.RecordTextPoke: 12, perfdata.RecordKSymbol: 4,
		perfdata.RecordBPFEvent: 2, perfdata.RecordComm: 3, perfdata.RecordFinishedRound: 2, perfdata.RecordLost: 2,
	}
	sc := rec.Scan()
	for sc.Next() {
		r := sc.Record()
		if few[r.Type]--; few[r.Type] >= 0 {
			if err := w.WriteRecord(r.Raw); err != nil {
				f.Fatal(err)
			}
		}
	}
	for _, feature := range []perfdata.Feature{perfdata.FeatureOSRelease, perfdata.FeatureArch, perfdata.FeatureNRCPUs} {
		data, err := rec.Feature(feature)
		if err == nil {
			err = w.WriteFeature(feature, data)
		}
		if err != nil {
			f.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		f.Fatal(err)
	}
	data, err := os.ReadFile(out.Name())
	if err != nil {
		f.Fatal(err)
	}
	return data
}

// FuzzReplay makes images of arbitrary bytes and asks them questions. There is no panic
// and no hang, and validities are consistent.
func FuzzReplay(f *testing.F) {
	for _, name := range []string{"small", "uponline", "rich"} {
		f.Add(seed(f, filepath.Join(corpus.Root(), "testdata", name, "rec.data")))
	}
	snap, err := kcore.Open(filepath.Join(corpus.Root(), "testdata", "small", "rec.data", "kcore_dir"))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { snap.Close() })
	bpf := filepath.Join(f.TempDir(), "bpf.data")
	out, err := os.Create(bpf)
	if err != nil {
		f.Fatal(err)
	}
	if err := errors.Join(genperf.BPF(out), out.Close()); err != nil {
		f.Fatal(err)
	}
	data, err := os.ReadFile(bpf)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := perfdata.New(data)
		if err != nil {
			return
		}
		r, err := replay.New(rec, snap, replay.Options{})
		if err != nil {
			return
		}
		lo, hi := r.Image.Text()
		buf := make([]byte, 64)
		for _, q := range []uint64{0, r.Report.First, r.Report.Horizon, timeline.MaxTime} {
			v := r.Image.At(q)
			for _, a := range []uint64{0, lo, hi, hi - 8, timeline.MaxTime - 4} {
				b := v.Read(a, buf)
				if q < b.Since || q >= b.Until && b.Until != timeline.MaxTime {
					t.Fatalf("validity [%d, %d) of an answer for %d", b.Since, b.Until, q)
				}
				n := uint64(0)
				for s := range v.Spans(a, uint64(len(buf))) {
					if n += s.Len; s.Standing.HasBytes() != (s.Bytes != nil) {
						t.Fatalf("%v span with bytes %x", s.Standing, s.Bytes)
					}
				}
				if n > uint64(len(buf)) {
					t.Fatalf("%d bytes asked for, %d answered", len(buf), n)
				}
			}
		}
		last := uint64(0)
		for c := range r.Changes() {
			if c.Time < last {
				t.Fatalf("a change at %d after one at %d", c.Time, last)
			}
			last = c.Time
		}
		for s := range r.Image.Symbols {
			if svc, ok := r.TrampolineAt(s.Addr, s.From); ok && (s.From < svc.From || s.From >= svc.To || len(svc.Places) == 0 && svc.Func == 0) {
				t.Fatalf("at %d %+v", s.From, svc)
			}
			r.SourceLine(s.Addr, s.From)
		}
		for f := range r.Findings() {
			if f.Kind.String() == "" || f.Since > f.Time && f.Time != 0 && f.Kind != replay.ModulesOverlap {
				t.Fatalf("finding %+v", f)
			}
		}
		for c := range r.Image.Conflicts() {
			if c.From > c.To || len(c.Candidates) != 2 {
				t.Fatalf("conflict %+v", c)
			}
		}
	})
}

// FuzzPatching asks images of other architectures questions that only those answer.
func FuzzPatching(f *testing.F) {
	for _, record := range genperf.Patching {
		dir := filepath.Join(f.TempDir(), "rec.data")
		if err := record(dir); err != nil {
			f.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(dir, "data"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		rec, err := perfdata.New(data)
		if err != nil {
			return
		}
		r, err := replay.New(rec, nil, replay.Options{})
		if err != nil {
			return
		}
		for s := range r.Sequences().All() {
			if s.Begin() > s.End() || len(s.Steps) > 2 {
				t.Fatalf("%+v", s)
			}
		}
		for c := range r.Changes() {
			if c.Poke == nil {
				continue
			}
			for _, at := range []uint64{c.Time, c.Time - 1} {
				if s, ok := r.Sequences().At(c.Poke.Addr, at); ok && (at < s.During.From || at >= s.During.To) {
					t.Fatalf("at %d: %+v", at, s)
				}
				if l, ok := r.OpsLiteral(r.Image.At(at), c.Poke.Addr); ok && c.Poke.Addr-l.Addr >= 8 {
					t.Fatalf("%#x: %+v", c.Poke.Addr, l)
				}
				for _, w := range r.Windows().At(c.Poke.Addr, 4, at) {
					if at < w.Proven.From || at >= w.Proven.To {
						t.Fatalf("at %d: %+v", at, w)
					}
				}
			}
		}
	})
}
