// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// TestRewritten: perf may write what a ring buffer has twice, over any length of time. Then its times
// go back. Any other time that goes back by more than a second is damage.
func TestRewritten(t *testing.T) {
	const s = 1e9
	for _, tt := range []struct {
		name string
		// The records of CPU 0: a digit is a record of that second, a letter another one of the
		// same second (a is 1), a capital letter a sample of that second, a dot the end of a round, in which CPU 1 has records too.
		records string
		damaged bool
	}{
		{"a run of records twice", "12345.3456789.", false},
		{"up to the end of the file", "123456789.56", false},
		{"two records", "1347.47.9.", false},
		{"many times", "1" + strings.Repeat("468.", 16) + "9.", false},
		{"several times", "1234.234.345.789.", false},
		{"all records", "123456.123456789.", false},
		{"less than all behind the first of them", "12345.346789.", true},
		{"samples at the beginning", "12BC3456.BC3456G789.", false},
		{"samples that follow no record", "12345.BC3456789.", true},
		{"other records", "12345.cd56789.", true},
		{"a record between them", "12345.3d456789.", true},
		{"a time that goes back", "12345.c6789.", true},
		{"behind a run that was written twice", "12345.345.b6789.", true},
		{"more often than is looked at", "1" + strings.Repeat("468.", 20) + "9.", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.tick(11, s/2)
			second := uint64(1)
			for _, c := range tt.records {
				switch {
				case c == '.':
					w.tick(11, second*s+1)
					w.round()
				case c >= 'A' && c <= 'Z':
					w.sample(10, uint64(c-'A'+1)*s, nil)
				case c >= 'a':
					w.comm(10, uint64(c-'a'+1)*s, 0, 9, "other")
				case c == '4':
					w.poke(10, 4*s, 0x1100, "9090", "eb02")
				default:
					w.tick(10, uint64(c-'0')*s)
					second = uint64(c - '0')
				}
			}
			w.tick(11, 9*s+2)
			data := w.bytes()
			r := w.replayOf(data)
			damaged := len(r.Report.Warnings) > 0
			if damaged != tt.damaged {
				t.Errorf("damaged: %v, want %v: %v", damaged, tt.damaged, r.Report.Warnings)
			}
			if known := strings.Contains(r.Image.Dump(0x1100, 2), " known "); known == tt.damaged {
				t.Errorf("known %v:\n%s", known, r.Image.Dump(0x1100, 2))
			}
			f, err := Follow(bytes.NewReader(data), Options{CPUs: 2})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for f.Next() {
			}
			if _, err := f.Image(); err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(f.Report().Warnings); !strings.Contains(got, "go back by") {
				t.Errorf("a stream cannot be read again: %s", got)
			}
		})
	}
}
