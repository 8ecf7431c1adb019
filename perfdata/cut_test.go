// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var cut = flag.Bool("cut", false, "make the recordings in testdata again, out of the corpus")

// TestCut makes the recordings in testdata: the first records of each type out
// of recordings of real kernels, and all features.
func TestCut(t *testing.T) {
	if !*cut {
		t.Skip("testdata is made with -cut")
	}
	for name, from := range map[string]string{
		"x86_64.data": "x86_64/smalldup",
		"s390x.data":  "s390x/rich",
	} {
		r, err := Open(corpus(t, from))
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		w := NewWriter(f, r.ByteOrder())
		w.SetEvents(r.Events())
		seen := make(map[RecordType]int)
		s := r.Scan()
		for s.Next() {
			rec := s.Record()
			if seen[rec.Type]++; seen[rec.Type] <= 24 {
				w.WriteRecord(rec.Raw)
			}
		}
		if s.Err() != nil {
			t.Error(s.Err())
		}
		for _, feature := range r.Features() {
			b, err := r.Feature(feature)
			if err != nil {
				t.Fatal(err)
			}
			w.WriteFeature(feature, b)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		f.Close()
		r.Close()
	}
}
