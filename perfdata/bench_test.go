// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"os"
	"path/filepath"
	"testing"
)

// corpus returns the path of a large recording of a real kernel.
func corpus(tb testing.TB, name string) string {
	dir := os.Getenv("TEXTREPLAY_CORPUS")
	if dir == "" {
		dir = "../../shared/corpus"
	}
	for _, file := range []string{"rec.data", "pipe.data"} {
		if path := filepath.Join(dir, name, file); exists(path) {
			return path
		}
	}
	tb.Skipf("no recording %s unpacked in %s (TEXTREPLAY_CORPUS names another directory)", name, dir)
	return ""
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// The benchmarks go through a recording of 1.2 million pokes and report what one costs.
func benchmarkStorm(b *testing.B, use func(r *Recording) (records int)) {
	r, err := Open(corpus(b, "x86_64/storm"))
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	use(r) // map the pages
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n += use(r)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/record")
}

func BenchmarkScan(b *testing.B) {
	benchmarkStorm(b, func(r *Recording) (n int) {
		for s := r.Scan(); s.Next(); n++ {
		}
		return n
	})
}

func BenchmarkSampleID(b *testing.B) {
	benchmarkStorm(b, func(r *Recording) (n int) {
		var id SampleID
		for s := r.Scan(); s.Next(); n++ {
			if err := r.SampleID(s.Record(), &id); err != nil {
				b.Fatal(err)
			}
		}
		return n
	})
}

func BenchmarkTextPoke(b *testing.B) {
	benchmarkStorm(b, func(r *Recording) (n int) {
		var p TextPoke
		for s := r.Scan(Only(RecordTextPoke)); s.Next(); n++ {
			if err := r.TextPoke(s.Record(), &p); err != nil {
				b.Fatal(err)
			}
		}
		return n
	})
}
