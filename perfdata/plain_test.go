// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata_test

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"path/filepath"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/perfdata"
)

// TestPlain: what is decoded as a plain record, or as one of a run, equals what TextPoke and
// SampleID give.
func TestPlain(t *testing.T) {
	dirs, err := filepath.Glob("../testdata/*/rec.data")
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	pokes, samples, runs, sampleRuns := 0, 0, 0, 0
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
				if diff := gocmp.Diff(fieldsOf(&want.SampleID), fieldsOf(&got.SampleID)); diff != "" || want.Excess != 0 ||
					got.Addr != want.Addr || string(got.Old) != string(want.Old) || string(got.New) != string(want.New) {
					t.Fatalf("%s: offset %d: plain %+v, TextPoke gives %+v", dir, rec.Offset, got, want)
				}
				if run.Size > 0 {
					if p, ok := run.Next(rec.Raw); ok {
						runs++
						if p.Addr != want.Addr || p.Time != want.Time || string(word(p.Old)[:run.OldLen]) != string(want.Old) || string(word(p.New)[:run.NewLen]) != string(want.New) {
							t.Fatalf("%s: offset %d: Next gives %+v, TextPoke %+v", dir, rec.Offset, p, want)
						}
					}
				}
				was := run
				var ok bool
				if run, ok = r.PokeRun(rec.Raw); ok != (min(len(want.Old), len(want.New)) > 0 && max(len(want.Old), len(want.New)) <= 8) {
					t.Fatalf("%s: offset %d: PokeRun reports %v for %+v", dir, rec.Offset, ok, want)
				}
				if ok && was.Size > 0 {
					if _, follows := was.Next(rec.Raw); follows != (was == run) {
						t.Fatalf("%s: offset %d: Next reports %v, runs %+v and %+v", dir, rec.Offset, follows, was, run)
					}
				}
				if _, ok := run.Next(rec.Raw[:len(rec.Raw)-8]); ok {
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
				if diff := gocmp.Diff(fieldsOf(&want), fieldsOf(&got)); diff != "" {
					t.Fatalf("%s: offset %d: -SampleID +plain\n%s", dir, rec.Offset, diff)
				}
				if r.IsExact(rec.Raw) {
					if like, ok := r.SampleRun(rec.Raw); ok {
						sampleRuns++
						checkSampleRun(t, r, &like, rec.Raw, sampleRuns)
					}
				}
			}
		}
		if pokes+samples > before && !r.HasPlain() {
			t.Errorf("%s has plain records, but HasPlain denies it", dir)
		}
	}
	if pokes < 1000 || samples < 1000 || runs < 1000 || sampleRuns < 1000 {
		t.Errorf("only %d text pokes and %d samples were plain, %d and %d of runs", pokes, samples, runs, sampleRuns)
	}
}

// checkSampleRun decodes raw, a sample of the run, and raw with a byte changed, as a record of the run. It
// must be what PlainSample and IsExact say.
func checkSampleRun(t *testing.T, r *perfdata.Recording, run *perfdata.SampleRun, raw []byte, i int) {
	t.Helper()
	var got [2]perfdata.ShortSample
	changed := append(bytes.Clone(raw), raw...)
	changed[len(raw)+i%len(raw)] ^= 1 << (i % 8)
	second := changed[len(raw):]
	var a, b perfdata.SampleID
	h := binary.LittleEndian.Uint64(second)
	mode := uint16(h>>32) & perfdata.MiscCPUModeMask
	want := 1
	if r.PlainSample(raw, &a); r.PlainSample(second, &b) && r.IsExact(second) && uint32(h) == uint32(perfdata.RecordSample) &&
		mode != perfdata.MiscGuestKernel && mode != perfdata.MiscGuestUser && b.ID == a.ID && b.CPU == a.CPU && b.Time >= a.Time {
		want = 2
	}
	mode = uint16(binary.LittleEndian.Uint64(raw)>>32) & perfdata.MiscCPUModeMask
	if mode == perfdata.MiscGuestKernel || mode == perfdata.MiscGuestUser {
		want = 0
	}
	n := run.Decode(changed, 0, got[:])
	ids := [...]*perfdata.SampleID{&a, &b}
	for k := range got[:n] {
		if g := got[k]; g.Time != ids[k].Time || g.TID != ids[k].TID || int(g.Size) != len(raw) {
			t.Errorf("%+v was decoded of %+v", g, ids[k])
		}
	}
	if n != want {
		t.Errorf("%d records of %x were decoded, want %d", n, changed, want)
	}
	if n := run.Decode(changed, a.Time+1, got[:]); n != 0 {
		t.Errorf("%d records that are older than the last", n)
	}
	if n := run.Decode(raw[:len(raw)-1], 0, got[:]); n != 0 {
		t.Errorf("%d records in a part of one", n)
	}
}

// TestDecode: records are decoded up to the first one that is not of the run, or is older than the one
// before it.
func TestDecode(t *testing.T) {
	t.Run("of 64 bytes", func(t *testing.T) { testDecode(t, "../testdata/storm/rec.data", 64) })
	t.Run("of 56 bytes", func(t *testing.T) { testDecode(t, "../testdata/rich/rec.data", 56) })
}

func testDecode(t *testing.T, path string, size int) {
	r, err := perfdata.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	const n = 20
	var data []byte
	var want []perfdata.ShortPoke
	var run perfdata.PokeRun
	for s := r.Scan(perfdata.Only(perfdata.RecordTextPoke)); s.Next() && len(want) < n; {
		raw := s.Record().Raw
		if len(want) == 0 {
			run, _ = r.PokeRun(raw)
		}
		if p, ok := run.Next(raw); ok && run.Size == size {
			data, want = append(data, raw...), append(want, p)
		}
	}
	if len(want) < n || !slices.IsSortedFunc(want, func(a, b perfdata.ShortPoke) int { return cmp.Compare(a.Time, b.Time) }) {
		t.Fatalf("no run of %d records: %+v", n, want)
	}
	var got [2 * n]perfdata.ShortPoke
	for _, tt := range []struct {
		what       string
		data       []byte
		last       uint64
		room, want int
	}{
		{"all", data, 0, n, n},
		{"room for more", data, want[0].Time, 2 * n, n},
		{"room for some", data, 0, 7, 7},
		{"the last one is cut off", data[:len(data)-1], 0, n, n - 1},
		{"the first one is older", data, want[0].Time + 1, n, 0},
	} {
		k, steps := run.Decode(tt.data, tt.last, got[:tt.room])
		if k != tt.want || !slices.Equal(got[:k], want[:k]) {
			t.Errorf("%s: %d records %+v, want %d", tt.what, k, got[:k], tt.want)
		}
		wantSteps, last := perfdata.Steps{Shortest: math.MaxUint64}, tt.last
		for _, p := range want[:k] {
			wantSteps = perfdata.Steps{Shortest: min(wantSteps.Shortest, p.Time-last), Longest: max(wantSteps.Longest, p.Time-last)}
			last = p.Time
		}
		if steps != wantSteps {
			t.Errorf("%s: steps %+v, want %+v", tt.what, steps, wantSteps)
		}
	}
	const at = 3 // the record in which a byte is changed
	for i := range run.Size {
		changed := bytes.Clone(data)
		raw := changed[at*run.Size:][:run.Size]
		raw[i] ^= 0x80
		p, follows := run.Next(raw)
		if other, ok := r.PokeRun(raw); follows != (ok && other == run) {
			t.Errorf("byte %d: Next reports %v, runs %+v and %+v", i, follows, run, other)
		}
		k, _ := run.Decode(changed, 0, got[:])
		if follows = follows && p.Time >= want[at-1].Time; k < at || k > at != follows || follows && got[at] != p {
			t.Errorf("byte %d: %d records were decoded, %+v", i, k, got[:k])
		}
	}
	none := new(perfdata.PokeRun)
	if n, _ := none.Decode(data, 0, got[:]); n != 0 {
		t.Error("the zero PokeRun recognizes a record")
	}
}

// word returns the bytes of a little-endian number.
func word(w uint64) []byte { return binary.LittleEndian.AppendUint64(nil, w) }

// fieldsOf returns what decoding a plain record sets.
func fieldsOf(id *perfdata.SampleID) [5]uint64 {
	return [5]uint64{uint64(id.PID), uint64(id.TID), id.Time, id.ID, uint64(id.CPU)}
}
