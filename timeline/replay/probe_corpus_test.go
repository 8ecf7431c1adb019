// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// TestProbeOracles: recordings of kernels that record no pokes, with a probe on the
// function that maps the writable alias. No known byte differs from an oracle. All core
// text is known until a CPU went offline, which came back without perf's events, and
// nothing is known after that.
func TestProbeOracles(t *testing.T) {
	for _, tt := range []struct {
		name   string
		known  int // oracles at which all core text is known
		all    int
		hidden uint64 // bytes of core text that the oracles have elsewhere
		writes uint64 // changes with all that they need
	}{
		{"arm64/probe", 29, 34, 0, 170_144},
		{"arm64/probe612", 10, 12, 0, 200},
		{"ppc64le/probe", 16, 16, 44_124, 74_709},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := corpus.Large(t, tt.name)
			r, _, each := judged(t, dir)
			if n := r.Report.Pokes.Total; n != tt.writes {
				t.Errorf("%d changes, want %d", n, tt.writes)
			}
			if n := r.Report.Conflicts; n != 0 {
				t.Errorf("%d contradictions", n)
			}
			if len(each) != tt.all {
				t.Errorf("%d oracles", len(each))
			}
			lo, hi := r.Image.Text()
			for i, s := range each {
				k := s.of("kernel")
				if i < tt.known && (k.known != hi-lo-tt.hidden || k.other != 0) || i >= tt.known && k.known != 0 {
					t.Errorf("oracle %d: %d of %d bytes of core kernel text are known", i, k.known, hi-lo)
				}
			}
			if tt.known < tt.all {
				late := r.Image.At(r.Report.Horizon - 10e9)
				for span := range late.Spans(lo, 8) {
					if span.Standing != timeline.Unconfirmed || span.Reason != timeline.CPUSilent {
						t.Errorf("in the end text is %v for the reason %v", span.Standing, span.Reason)
					}
				}
			}
		})
	}
}

// TestProbeReaderOracles: a program that reads the samples one after the other gets the
// changes that Load gets.
func TestProbeReaderOracles(t *testing.T) {
	for _, name := range []string{"arm64/probe", "arm64/probe612", "ppc64le/probe"} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(corpus.Large(t, name), "rec.data")
			r, err := replay.Load(path, replay.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			change := func(p *perfdata.TextPoke) string {
				return fmt.Sprintf("%d %d %d %#x %x %x", p.Time, p.CPU, p.TID, p.Addr, p.Old, p.New)
			}
			missing, n := make(map[string]bool), 0
			for p := range r.ProbedChanges() {
				missing[change(p)] = true
			}
			formats, err := r.Recording.Feature(perfdata.FeatureTracingData)
			if err != nil {
				t.Fatal(err)
			}
			x := replay.NewProbeReader(r.Snapshot.Core, r.Snapshot.Kallsyms)
			if !x.Begin(r.Recording, formats) {
				t.Fatal("it has no probes")
			}
			sc := r.Recording.Scan(perfdata.Only(perfdata.RecordSample))
			for sc.Next() {
				p := x.Change(sc.Record())
				if p == nil {
					continue
				}
				if n++; !missing[change(p)] {
					t.Fatalf("Load has no change %s", change(p))
				}
				delete(missing, change(p))
			}
			if len(missing) > 0 || n == 0 {
				t.Errorf("%d changes are missing, of %d", len(missing), n+len(missing))
			}
		})
	}
}
