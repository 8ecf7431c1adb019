// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"fmt"
	"strings"
	"testing"
)

// TestRejoin: copies that perf inject wrote too early are put back behind their records, and
// nothing else is.
func TestRejoin(t *testing.T) {
	// A record is written as TIME@CPU:CONTENT, a copy with a ' at its end, and what is no poke
	// as TIME@CPU.
	const (
		first  = 10 // the ids of an event, by CPU
		second = 20
	)
	for _, tt := range []struct{ name, file, want string }{
		{"copies that come before all records", "11@0:1' 31@0:2' 21@1:1' 10@0:1 20@1:1 25@0 30@0:2 40@1",
			"10@0:1 11@0:1' 20@1:1 21@1:1' 25@0 30@0:2 31@0:2' 40@1"},
		{"equal times", "10@0:1' 10@0:2' 31@0:3' 10@0:1 10@0:2 30@0:3", "10@0:1 10@0:2 10@0:1' 10@0:2' 30@0:3 31@0:3'"},
		{"copies behind the last record", "11@0:1' 31@0:2' 10@0:1 30@0:2", "10@0:1 11@0:1' 30@0:2 31@0:2'"},
		{"a record without a copy", "31@0:2' 10@0:1 30@0:2 40@1", "10@0:1 30@0:2 31@0:2' 40@1"},
		{"copies that are in their place", "10@0:1 11@0:1' 30@0:2 31@0:2' 40@0", "10@0:1 11@0:1' 30@0:2 31@0:2' 40@0"},

		{"a copy of something else", "11@0:3' 31@0:2' 10@0:1 30@0:2 40@0", ""},
		{"a copy of another CPU", "11@1:1' 31@0:2' 10@0:1 30@0:2 40@0", ""},
		{"a copy of the record before", "11@0:1' 32@0:1' 10@0:1 30@0:2 40@0", ""},
		{"two copies of one record", "11@0:1' 12@0:1' 10@0:1 30@0:2 40@0", ""},
		{"a copy that is too old", "9@0:1' 31@0:2' 10@0:1 30@0:2 40@0", ""},
		{"a copy behind the last record that is of none", "11@0:1' 31@0:3' 10@0:1 30@0:2", ""},
		{"other records out of order", "11@0:1' 31@0:2' 10@0:1 30@0:2 40@0 39@1", ""},
		{"a time at the end of a copy", "11@0:1' 31@0:2'! 10@0:1 30@0:2 40@0", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			both(t, func(t *testing.T, e endian) {
				a := Attr{Flags: FlagTextPoke | FlagSampleIDAll, SampleType: SampleTID | SampleTime | SampleCPU | SampleIdentifier}
				events := []*Event{{IDs: []uint64{first, first + 1}, Attr: a}, {Index: 1, IDs: []uint64{second, second + 1}, Attr: a}}
				data := build(t, e, events, func(w *Writer) {
					w.WriteFeature(FeatureStat, nil)
					for _, word := range strings.Fields(tt.file) {
						var time, cpu uint64
						var content byte
						copied := strings.Contains(word, "'")
						n, _ := fmt.Sscanf(word, "%d@%d:%d", &time, &cpu, &content)
						id := SampleID{Time: time, CPU: uint32(cpu), ID: second + cpu, Event: events[1]}
						if n < 3 {
							w.Comm(0, &Comm{Comm: []byte("x"), SampleID: id})
							continue
						}
						p := &TextPoke{Addr: 1, New: []byte{content}, SampleID: id}
						if copied {
							p.ID, p.Event, p.Excess = first+cpu, events[0], 32
						}
						raw := w.enc.textPoke(p)
						if strings.HasSuffix(word, "!") {
							e.order().PutUint64(raw[len(raw)-24:], 1)
						}
						w.WriteRecord(raw)
					}
				})
				list := func(r *Recording, opts ...ScanOption) string {
					var out []string
					for s := r.Scan(opts...); s.Next(); {
						var p TextPoke
						var id SampleID
						switch rec := s.Record(); {
						case rec.Type >= firstUserRecord:
						case r.TextPoke(rec, &p) == nil:
							word := fmt.Sprintf("%d@%d:%d", p.Time, p.CPU, p.New[0])
							if p.Excess > 0 {
								word += "'"
							}
							out = append(out, word)
						case r.SampleID(rec, &id) == nil:
							out = append(out, fmt.Sprintf("%d@%d", id.Time, id.CPU))
						}
					}
					return strings.Join(out, " ")
				}
				r := open(t, data)
				if err := r.CleanEnd(); err != nil {
					t.Fatal(err)
				}
				want := tt.want
				if want == "" {
					want = strings.ReplaceAll(tt.file, "!", "")
				}
				if got := list(r, Rejoin()); got != want {
					t.Errorf("%s, want %s", got, want)
				}
				if got, want := list(r), strings.ReplaceAll(tt.file, "!", ""); got != want {
					t.Errorf("without the option: %s, want %s", got, want)
				}
				var pokes []string
				for _, word := range strings.Fields(want) {
					if strings.Contains(word, ":") {
						pokes = append(pokes, word)
					}
				}
				if got, want := list(r, Rejoin(), Only(RecordTextPoke)), strings.Join(pokes, " "); got != want {
					t.Errorf("pokes only: %s, want %s", got, want)
				}
				if got, want := list(r, Only(RecordComm), Rejoin()), list(r, Only(RecordComm)); got != want {
					t.Errorf("without pokes: %s, want %s", got, want)
				}
			})
		})
	}
}

// TestRejoinCut: where a file was cut, the records of the last copies are missing.
func TestRejoinCut(t *testing.T) {
	a := Attr{Flags: FlagTextPoke | FlagSampleIDAll, SampleType: SampleTID | SampleTime | SampleCPU | SampleIdentifier}
	events := []*Event{{IDs: []uint64{10}, Attr: a}, {Index: 1, IDs: []uint64{20}, Attr: a}}
	data := build(t, little, events, func(w *Writer) {
		w.WriteFeature(FeatureStat, nil)
		for _, excess := range []int{32, 0} {
			for i := range uint64(3) {
				id := SampleID{Time: 10 * (i + 1), ID: 20, Event: events[1]}
				if excess > 0 {
					id.Time, id.ID, id.Event = id.Time+1, 10, events[0]
				}
				w.TextPoke(&TextPoke{Addr: 1, New: []byte{byte(i)}, SampleID: id, Excess: excess})
			}
		}
	})
	r := open(t, data)
	last := 0
	for s := r.Scan(); s.Next(); {
		last = int(s.Record().Offset)
	}
	r = open(t, data[:last])
	var got []uint64
	for s := r.Scan(Rejoin()); s.Next(); {
		var id SampleID
		if err := r.SampleID(s.Record(), &id); err != nil {
			t.Fatal(err)
		}
		got = append(got, id.Time)
	}
	if want := "[10 11 20 21 31]"; fmt.Sprint(got) != want {
		t.Errorf("%d, want %s", got, want)
	}
}
