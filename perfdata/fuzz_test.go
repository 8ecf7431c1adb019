// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/iotest"
)

// seeds adds small recordings of every form, and the beginnings of those in
// testdata: the fuzzer spends its time on making large inputs smaller.
func seeds(f *testing.F) {
	paths, err := filepath.Glob("testdata/*.data")
	if err != nil || len(paths) == 0 {
		f.Fatal("no recordings in testdata: ", err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b[:1536])
	}
	z := newCompressor(f)
	for _, e := range []endian{little, big} {
		file := build(f, e, testEvents(), func(w *Writer) {
			sample(w)
			w.WriteFeature(FeatureBPFProgInfo, bpfSection(e, testProg(e).encode(e)))
			w.WriteFeature(FeatureBPFBTF, e.appendU32s(nil, 1, 7, 0))
			w.WriteFeature(FeatureCmdline, e.appendString(e.appendU32s(nil, 1), "perf"))
		})
		f.Add(file)
		f.Add(file[:len(file)-100])
		f.Add(pipeOf(e,
			rawRecord(e, RecordAuxtrace, 0, e.appendU64s(nil, []uint64{0, 0, 0, 0, 0})),
			rawRecord(e, RecordCompressed, 0, z.flush(numbered(e, RecordSample, 1, 64), numbered(e, RecordSample, 2, 64)[:32])),
			compressed2(e, z.flush(numbered(e, RecordSample, 2, 64)[32:])),
			rawRecord(e, RecordFinishedRound, 0, nil)))
	}
}

// FuzzOpen opens anything and reads all that it can.
func FuzzOpen(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := New(b)
		if (r == nil) != (err != nil) {
			t.Fatalf("recording %p, error %v", r, err)
		}
		if err != nil {
			return
		}
		for name, v := range values(r) {
			if len(v) > len("error: untyped") && v[:len("error: untyped")] == "error: untyped" {
				t.Error(name, v)
			}
		}
		for _, ev := range r.Events() {
			for _, id := range ev.IDs {
				if got := r.EventByID(id); got == nil && id != 0 {
					t.Errorf("id %d has no event", id)
				}
			}
		}
		last := int64(-1)
		records := 0
		// What is compressed may be much longer than the file.
		for s := r.Scan(); s.Next() && records < 10_000; records++ {
			rec := s.Record()
			if rec.Offset < last || rec.Offset >= int64(len(b)) || len(rec.Raw) < headerSize {
				t.Fatalf("%v of %d bytes at %d after %d", rec.Type, len(rec.Raw), rec.Offset, last)
			}
			last = rec.Offset
			var id SampleID
			if err := r.SampleID(rec, &id); err == nil && id.Event == nil && id.ID == 0 && rec.Type < firstUserRecord {
				t.Errorf("%v at %d has neither event nor id", rec.Type, rec.Offset)
			}
			v, err := decode(r, rec)
			if p, ok := v.(*TextPoke); ok && err == nil && headerSize+12+len(p.Old)+len(p.New)+p.Excess > len(rec.Raw) {
				t.Errorf("poke at %d is larger than its record", rec.Offset)
			}
		}
		readBPF(t, r)
	})
}

// FuzzStream reads anything as a stream, which gives the records that reading
// it at hand gives.
func FuzzStream(f *testing.F) {
	seeds(f)
	for _, b := range forms(f, little) {
		f.Add(b)
	}
	for _, n := range []uint64{1, 8, 13} { // the header's size ends within a record
		b := bytes.Clone(forms(f, little)["file"])
		little.put64(b[hdrData+8:], little.u64(b[hdrData+8:])-n)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := New(b)
		rd, rdErr := NewReader(iotest.HalfReader(bytes.NewReader(b)))
		if rdErr != nil {
			var fe *FormatError
			if !errors.As(rdErr, &fe) || err == nil && !errors.Is(rdErr, ErrUnsupported) {
				t.Fatalf("%v, at hand %v", rdErr, err)
			}
			return
		}
		if err != nil {
			t.Fatalf("no error, at hand %v", err)
		}
		s := r.Scan()
		for n := 0; n < 10_000; n++ {
			if a, b := s.Next(), rd.Next(); a != b {
				t.Fatalf("record %d: %v (%v), at hand %v (%v)", n, b, rd.Err(), a, s.Err())
			} else if !a {
				break
			}
			want, got := s.Record(), rd.Record()
			if got.Type != want.Type || got.Offset != want.Offset || !bytes.Equal(got.Raw, want.Raw) {
				t.Fatalf("record %d: %+v, at hand %+v", n, got, want)
			}
			if n%3 == 0 {
				io.CopyN(io.Discard, rd.Payload(), 20)
			}
			var id SampleID
			rd.Recording().SampleID(got, &id)
		}
		if (s.Err() == nil) != (rd.Err() == nil) {
			t.Errorf("error %v, at hand %v", rd.Err(), s.Err())
		}
	})
}

// FuzzOrdered goes through anything in order: every record comes once, and
// those of the same file and time in the order of their places.
func FuzzOrdered(f *testing.F) {
	seeds(f)
	for _, e := range []endian{little, big} {
		for _, opts := range [][]WriterOption{nil, {Compress(RecordCompressed)}} {
			f.Add(build(f, e, testEvents(), func(w *Writer) {
				for _, time := range []uint64{5, 3, 0, 0, 7, 1, 0, 9, 9, 2} {
					if time == 0 {
						w.FinishedRound()
					} else {
						w.WriteRecord(timed(e, 11, time, 0))
					}
				}
			}, opts...))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := New(b)
		if err != nil {
			return
		}
		const most = 10_000
		type place struct {
			offset int64
			raw    string
		}
		seen := make(map[place]int)
		records := 0
		for s := r.Scan(); s.Next(); {
			if records++; records > most {
				return
			}
			seen[place{s.Record().Offset, string(s.Record().Raw)}]++
		}
		o := r.Ordered()
		for o.Next() {
			rec := o.Record()
			records--
			if seen[place{rec.Offset, string(rec.Raw)}]--; seen[place{rec.Offset, string(rec.Raw)}] < 0 {
				t.Fatalf("%v at %d came too often", rec.Type, rec.Offset)
			}
		}
		if records != 0 {
			t.Errorf("%d records are missing", records)
		}
		s := r.Scan()
		for s.Next() {
		}
		if (o.Err() == nil) != (s.Err() == nil) {
			t.Errorf("error %v, without order %v", o.Err(), s.Err())
		}
	})
}

// FuzzBPFProgs reads any bytes as the sections of BPF programs and BTF.
func FuzzBPFProgs(f *testing.F) {
	for _, e := range []endian{little, big} {
		f.Add(bpfSection(e, testProg(e).encode(e), testProg(e).encode(e)), e == big)
	}
	r, err := Open("testdata/x86_64.data")
	if err != nil {
		f.Fatal(err)
	}
	b, err := r.Feature(FeatureBPFProgInfo)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append([]byte(nil), b...), false)
	r.Close()
	f.Fuzz(func(t *testing.T, b []byte, bigEndian bool) {
		r := &Recording{endian: endian(bigEndian), features: map[Feature]section{
			FeatureBPFProgInfo: {data: b}, FeatureBPFBTF: {data: b},
		}}
		readBPF(t, r)
	})
}

// readBPF reads all programs. What they claim must be in the file.
func readBPF(t *testing.T, r *Recording) {
	var code, size int
	for p, err := range r.BPFProgs() {
		if (p == nil) != (err != nil) {
			t.Fatalf("program %v, error %v", p, err)
		}
		if err != nil {
			continue
		}
		if p.Insns != nil && p.FuncLens != nil {
			sum := 0
			for _, n := range p.FuncLens {
				sum += int(n)
			}
			if sum != len(p.Insns) {
				t.Errorf("functions of %d bytes, code of %d", sum, len(p.Insns))
			}
		}
		for f := range p.Funcs() {
			if f.Code != nil && len(f.Code) != int(f.Len) {
				t.Errorf("function of %d bytes has %d", f.Len, len(f.Code))
			}
			code += len(f.Code)
		}
	}
	if b, err := r.Feature(FeatureBPFProgInfo); err == nil {
		size = len(b)
	}
	if code > size {
		t.Errorf("%d bytes of code in a section of %d", code, size)
	}
	for b, err := range r.BPFBTFs() {
		if err != nil && b.Data != nil {
			t.Error("BTF and an error")
		}
	}
}
