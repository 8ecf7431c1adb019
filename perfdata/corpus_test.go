// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bufio"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFixtures compares the counts of records in recordings of other projects
// with those that an independent reader found.
func TestFixtures(t *testing.T) {
	dir := "../../shared/fixtures"
	f, err := os.Open(filepath.Join(dir, "EXPECTED.tsv"))
	if err != nil {
		t.Skip("the recordings of other projects are not beside this repository")
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		col := strings.Split(lines.Text(), "\t")
		if strings.HasPrefix(col[0], "#") || len(col) < 4 {
			continue
		}
		name, form, layer := col[0], col[1], col[2]
		t.Run(name+"/"+layer, func(t *testing.T) {
			r, err := Open(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			for _, w := range r.Warnings() {
				t.Error("warning:", w)
			}
			if got := r.Pipe(); got != (form == "pipe") {
				t.Errorf("Pipe() = %v", got)
			}
			s := r.Scan(KeepCompressed())
			if layer == "zstd" {
				s = r.Scan()
			}
			got := make(map[string]int)
			for s.Next() && s.Err() == nil { // that reader ends where the records are damaged
				rec := s.Record()
				if layer == "zstd" && len(s.buf) > 0 && len(rec.Raw) > 0 && &s.buf[rec.Offset] == &rec.Raw[0] {
					continue // not out of a compressed record
				}
				name := rec.Type.String()
				switch rec.Type {
				case RecordHeaderAttr, RecordHeaderEventType, RecordHeaderTracingData, RecordHeaderFeature:
					name = "HEADER_" + name
				}
				got[strings.TrimPrefix(name, "UNKNOWN_")]++
			}
			if layer == "stop" {
				// That reader counts from the end of the pipe's header.
				var fe *FormatError
				if !errors.As(s.Err(), &fe) || !strings.HasSuffix(col[3], " at "+strconv.FormatInt(fe.Offset-pipeHeader, 10)) {
					t.Errorf("got error %v, want %s", s.Err(), col[3])
				}
				return
			}
			if err := s.Err(); err != nil && !strings.Contains(name, "corrupted") {
				t.Error(err)
			}
			want := make(map[string]int)
			for _, f := range strings.Fields(col[3]) {
				name, n, _ := strings.Cut(f, "=")
				want[name], _ = strconv.Atoi(n)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("records (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCorpus counts what the large recordings of real kernels are known to hold.
func TestCorpus(t *testing.T) {
	tests := []struct {
		name                   string
		pokes, excess          int // records, and how many of them claim too much
		lostRecords, lost      uint64
		available, online      uint32
		progs, funcs, withCode int
		clean                  bool
	}{
		{"x86_64/rich", 405169, 0, 0, 0, 2, 2, 80, 81, 81, true},
		{"x86_64/storm", 1211440, 0, 0, 0, 2, 2, 0, 0, 0, true},
		{"x86_64/lossy", 195982, 0, 1868, 69739, 2, 2, 0, 0, 0, true},
		{"x86_64/smalldup", 1084, 542, 0, 0, 2, 2, 1, 1, 1, true},
		{"x86_64/uponline", 80, 0, 0, 0, 2, 1, 0, 0, 0, true},
		{"x86_64/threads", 171545, 0, 0, 0, 2, 2, 73, 74, 74, false},
		{"x86_64/pipe", 76944, 0, 0, 0, 2, 2, 0, 0, 0, false},
		{"arm64/local", 0, 0, 0, 0, 2, 2, 15, 15, 15, true},
		{"s390x/rich", 0, 0, 0, 0, 2, 2, 20, 20, 0, true},
	}
	for _, want := range tests {
		t.Run(want.name, func(t *testing.T) {
			r, err := Open(corpus(t, want.name))
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			for _, w := range r.Warnings() {
				t.Error("warning:", w)
			}
			got := want
			got.pokes, got.excess, got.lostRecords, got.lost, got.progs, got.funcs, got.withCode = 0, 0, 0, 0, 0, 0, 0
			if got.available, got.online, err = r.NRCPUs(); err != nil {
				t.Error(err)
			}
			got.clean = r.CleanEnd() == nil
			var poke TextPoke
			var lost Lost
			var id SampleID
			s := r.Scan()
			for s.Next() {
				rec := s.Record()
				err := r.SampleID(rec, &id)
				if rec.Type < firstUserRecord && (err != nil || id.Event == nil) {
					t.Fatalf("%v at %d: event %v, %v", rec.Type, rec.Offset, id.Event, err)
				}
				switch rec.Type {
				case RecordTextPoke:
					got.pokes++
					err = r.TextPoke(rec, &poke)
					if poke.Excess > 0 {
						got.excess++
					}
				case RecordLost:
					got.lostRecords++
					err = r.Lost(rec, &lost)
					got.lost += lost.Lost
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Err(); err != nil {
				t.Error(err)
			}
			for p, err := range r.BPFProgs() {
				if err != nil {
					t.Error(err)
					continue
				}
				got.progs++
				for f := range p.Funcs() {
					got.funcs++
					if len(f.Code) > 0 {
						got.withCode++
					}
				}
			}
			if got != want {
				t.Errorf("got  %+v\nwant %+v", got, want)
			}
		})
	}
}
