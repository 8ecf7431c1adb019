// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestClosedRecording: a recording that is closed is empty.
func TestClosedRecording(t *testing.T) {
	r, err := Open("../testdata/small/rec.data")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Files()) == 0 || len(r.Events()) == 0 || !r.Scan().Next() {
		t.Fatal("nothing before Close")
	}
	for range 2 {
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if len(r.Files()) != 0 || len(r.Events()) != 0 {
			t.Errorf("files %v, %d events", r.Files(), len(r.Events()))
		}
		if _, err := r.Feature(FeatureHostname); !errors.Is(err, ErrNoFeature) {
			t.Errorf("feature: %v", err)
		}
		if s := r.Scan(); s.Next() || s.Err() != nil {
			t.Errorf("scan: %v", s.Err())
		}
	}
}

// TestCopyOfCompressed: a copy of what a Scanner returns has the content of compressed records once if these
// are left out, and twice if not.
func TestCopyOfCompressed(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, fill func(w *Writer), opts ...WriterOption) *Recording {
		path := filepath.Join(dir, name)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		w := NewWriter(f, binary.LittleEndian, opts...)
		if err := w.SetEvents([]*Event{{IDs: []uint64{1}, Attr: Attr{Type: 1, Config: 9}}}); err != nil {
			t.Fatal(err)
		}
		fill(w)
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Close() })
		return r
	}
	from := write("from", func(w *Writer) {
		for i := range uint32(10) {
			w.Comm(0, &Comm{PID: i, TID: i, Comm: []byte("x")})
		}
	}, Compress(RecordCompressed))
	for _, tt := range []struct {
		name string
		skip bool
		want int
	}{{"left out", true, 10}, {"copied", false, 20}} {
		to := write(tt.name, func(w *Writer) {
			for s := from.Scan(); s.Next(); {
				if rec := s.Record(); rec.Type != RecordCompressed || !tt.skip {
					if err := w.WriteRecord(rec.Raw); err != nil {
						t.Fatal(err)
					}
				}
			}
		})
		got := 0
		for s := to.Scan(Only(RecordComm)); s.Next(); {
			got++
		}
		if got != tt.want {
			t.Errorf("%s: %d records, want %d", tt.name, got, tt.want)
		}
	}
}
