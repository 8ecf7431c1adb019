// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAhead: another goroutine finds the same records, from any record on, and the same
// errors.
func TestAhead(t *testing.T) {
	for name, path := range files(t) {
		r, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for what, opts := range map[string][]ScanOption{"all": nil, "some": {Only(RecordKSymbol, RecordFinishedRound)}, "unmapped": {Unmapped()}} {
			want := transcript(r.Scan(opts...))
			for _, before := range []int{0, 1, 5000, 1 << 20} {
				var b bytes.Buffer
				note := func(r *Record) {
					fmt.Fprintf(&b, "%v %#x %d %#x %x\n", r.Type, r.Misc, r.File, r.Offset, r.Raw)
				}
				s := r.Scan(opts...)
				for range before {
					if !s.Next() {
						break
					}
					note(s.Record())
				}
				a := s.Ahead()
				for a.Next() {
					note(a.Record())
				}
				fmt.Fprintln(&b, a.Err())
				if d := cmp.Diff(want, b.String()); d != "" {
					t.Errorf("%s, %s, from record %d on: %.1000s", name, what, before, d)
				}
				if a.Next() || a.Damage() != s.Damage() {
					t.Errorf("%s, %s: a record behind the end, or damage %v, want %v", name, what, a.Damage(), s.Damage())
				}
				a.Stop()
			}
		}
		a := r.Scan().Ahead()
		for range 10 {
			a.Next()
		}
		a.Stop()
		for a.Next() { // what was read ahead
		}
	}
}
