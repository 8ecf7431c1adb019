// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"
)

// TestWriterCopies writes the records, events and features of recordings as
// they were read, which must give the same files.
func TestWriterCopies(t *testing.T) {
	for _, path := range []string{"testdata/x86_64.data", "testdata/s390x.data"} {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, want)
		got := build(t, r.endian, r.Events(), func(w *Writer) {
			for s := r.Scan(); s.Next(); {
				w.WriteRecord(s.Record().Raw)
			}
			for _, f := range r.Features() {
				b, err := r.Feature(f)
				if err != nil {
					t.Fatal(err)
				}
				w.WriteFeature(f, b)
			}
		})
		if !bytes.Equal(got, want) {
			t.Errorf("%s: the copy differs", path)
		}
	}
}

// TestWriterPosition writes a recording behind other bytes.
func TestWriterPosition(t *testing.T) {
	f := memFile{b: []byte("before"), off: 6}
	w := NewWriter(&f, little.order())
	w.SetEvents(testEvents())
	sample(w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if f.off != int64(len(f.b)) {
		t.Errorf("left at %d of %d", f.off, len(f.b))
	}
	if r := open(t, f.b[6:]); r.CleanEnd() != nil || string(f.b[:6]) != "before" {
		t.Error(r.CleanEnd())
	}
}

func TestWriterRefuses(t *testing.T) {
	sized := func(size uint16, n int) []byte {
		b := rawRecord(little, RecordSample, 0, make([]byte, n-headerSize))
		little.put16(b[6:], size)
		return b
	}
	tests := []struct {
		name string
		do   func(w *Writer) error
	}{
		{"half a header", func(w *Writer) error { return w.WriteRecord(make([]byte, 4)) }},
		{"size 0", func(w *Writer) error { return w.WriteRecord(sized(0, 16)) }},
		{"too short", func(w *Writer) error { return w.WriteRecord(sized(24, 16)) }},
		{"too long", func(w *Writer) error { return w.WriteRecord(sized(16, 24)) }},
		{"trace without its bytes", func(w *Writer) error {
			return w.WriteRecord(rawRecord(little, RecordAuxtrace, 0, little.appendU64s(nil, []uint64{8, 0, 0, 0, 0})))
		}},
		{"poke of 64 KiB", func(w *Writer) error { return w.TextPoke(&TextPoke{New: make([]byte, 1<<16)}) }},
		{"name of 64 KiB", func(w *Writer) error { return w.Comm(0, &Comm{Comm: make([]byte, 1<<16)}) }},
		{"Mmap that is none", func(w *Writer) error { return w.Mmap(RecordComm, 0, &Mmap{}) }},
		{"feature 0", func(w *Writer) error { return w.WriteFeature(0, nil) }},
		{"feature 256", func(w *Writer) error { return w.WriteFeature(256, nil) }},
		{"events too late", func(w *Writer) error { w.FinishedRound(); return w.SetEvents(testEvents()) }},
	}
	for _, tt := range tests {
		w := NewWriter(new(memFile), little.order())
		err := tt.do(w)
		if err == nil {
			t.Errorf("%s: no error", tt.name)
		}
		if err2 := w.FinishedRound(); err2 != err {
			t.Errorf("%s: error %v, then %v", tt.name, err, err2)
		}
		if err2 := w.Close(); err2 != err {
			t.Errorf("%s: error %v, then %v from Close", tt.name, err, err2)
		}
	}
	w := NewWriter(new(memFile), little.order())
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if w.Close() == nil || w.FinishedRound() == nil {
		t.Error("a closed Writer writes")
	}
}

// A brokenFile fails after n calls.
type brokenFile struct {
	memFile
	n int
}

var errBroken = errors.New("broken")

func (f *brokenFile) Write(p []byte) (int, error) {
	if f.n--; f.n < 0 {
		return 0, errBroken
	}
	return f.memFile.Write(p)
}

func (f *brokenFile) Seek(offset int64, whence int) (int64, error) {
	if f.n--; f.n < 0 {
		return 0, errBroken
	}
	return f.memFile.Seek(offset, whence)
}

func TestWriterErrors(t *testing.T) {
	var _ io.WriteSeeker = new(brokenFile)
	for n := range 4 {
		w := NewWriter(&brokenFile{n: n}, little.order())
		w.SetEvents(testEvents())
		sample(w)
		if err := w.Close(); !errors.Is(err, errBroken) {
			t.Errorf("broken after %d calls: %v", n, err)
		}
	}
}
