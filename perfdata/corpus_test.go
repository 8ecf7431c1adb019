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
			for s.Next() {
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
