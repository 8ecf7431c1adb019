// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata_test

import (
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/perfdata"
)

// TestPlain: what is decoded as a plain record, or as one of a run, equals what TextPoke and
// SampleID give.
func TestPlain(t *testing.T) {
	dirs, err := filepath.Glob("../testdata/*/rec.data")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	pokes, samples, runs := 0, 0, 0
	for _, dir := range dirs {
		r, err := perfdata.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		before := pokes + samples
		sc := r.Scan()
		var run perfdata.PokeRun // of the poke before
		for sc.Next() {
			rec := sc.Record()
			switch rec.Type {
			case perfdata.RecordTextPoke:
				var got, want perfdata.TextPoke
				if !r.PlainTextPoke(rec.Raw, &got) {
					continue
				}
				pokes++
				if err := r.TextPoke(rec, &want); err != nil {
					t.Fatalf("%s: offset %d: plain, but: %v", dir, rec.Offset, err)
				}
				if diff := cmp.Diff(fieldsOf(&want.SampleID), fieldsOf(&got.SampleID)); diff != "" || want.Excess != 0 ||
					got.Addr != want.Addr || string(got.Old) != string(want.Old) || string(got.New) != string(want.New) {
					t.Fatalf("%s: offset %d: plain %+v, TextPoke gives %+v", dir, rec.Offset, got, want)
				}
				if run.Size > 0 {
					if addr, now, old, new, ok := run.Next(rec.Raw); ok {
						runs++
						if addr != want.Addr || now != want.Time || string(word(old)[:run.OldLen]) != string(want.Old) || string(word(new)[:run.NewLen]) != string(want.New) {
							t.Fatalf("%s: offset %d: Next gives %#x %d %x %x, TextPoke %+v", dir, rec.Offset, addr, now, old, new, want)
						}
					}
				}
				was := run
				var ok bool
				if run, ok = r.PokeRun(rec.Raw); ok != (min(len(want.Old), len(want.New)) > 0 && max(len(want.Old), len(want.New)) <= 8) {
					t.Fatalf("%s: offset %d: PokeRun reports %v for %+v", dir, rec.Offset, ok, want)
				}
				if ok && was.Size > 0 {
					if _, _, _, _, follows := was.Next(rec.Raw); follows != (was == run) {
						t.Fatalf("%s: offset %d: Next reports %v, runs %+v and %+v", dir, rec.Offset, follows, was, run)
					}
				}
				if _, _, _, _, ok := run.Next(rec.Raw[:len(rec.Raw)-8]); ok {
					t.Fatalf("%s: offset %d: a part of a record is of a run", dir, rec.Offset)
				}
			case perfdata.RecordSample:
				var got, want perfdata.SampleID
				if !r.PlainSample(rec.Raw, &got) {
					continue
				}
				samples++
				if err := r.SampleID(rec, &want); err != nil {
					t.Fatalf("%s: offset %d: plain, but: %v", dir, rec.Offset, err)
				}
				if diff := cmp.Diff(fieldsOf(&want), fieldsOf(&got)); diff != "" {
					t.Fatalf("%s: offset %d: -SampleID +plain\n%s", dir, rec.Offset, diff)
				}
			}
		}
		if pokes+samples > before && !r.HasPlain() {
			t.Errorf("%s has plain records, but HasPlain denies it", dir)
		}
	}
	if pokes < 1000 || samples < 1000 || runs < 1000 {
		t.Errorf("only %d text pokes and %d samples were plain, %d of runs", pokes, samples, runs)
	}
}

// word returns the bytes of a little-endian number.
func word(w uint64) []byte { return binary.LittleEndian.AppendUint64(nil, w) }

// fieldsOf returns what decoding a plain record sets.
func fieldsOf(id *perfdata.SampleID) [5]uint64 {
	return [5]uint64{uint64(id.PID), uint64(id.TID), id.Time, id.ID, uint64(id.CPU)}
}
