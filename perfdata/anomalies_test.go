// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAnomalies(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		events := testEvents()
		events[1].Attr.SampleType &^= SampleIP
		b := build(t, e, events, func(w *Writer) {
			made := SampleID{Event: events[0]}
			at := SampleID{Event: events[1], ID: 13, Time: 5}
			w.Comm(0, &Comm{PID: 1, Comm: []byte("init"), SampleID: made})
			w.Comm(0, &Comm{PID: 1, Comm: []byte("init"), SampleID: made})
			w.Comm(0, &Comm{PID: 1, Comm: []byte("init"), SampleID: at})
			w.TextPoke(&TextPoke{Addr: 1, Old: []byte{1}, New: []byte{2}, SampleID: at})
			w.TextPoke(&TextPoke{Addr: 1, Old: []byte{1}, New: []byte{2}, SampleID: at, Excess: 32})
			w.FinishedRound()
			w.FinishedRound()
			w.WriteRecord(rawRecord(e, 40000, 0, make([]byte, 8)))
			w.WriteRecord(rawRecord(e, RecordSample, 0, e.pack(uint64(99), uint64(0))))
			w.WriteRecord(packRecord(e, RecordNamespaces, []any{uint32(7), uint32(8), ^uint64(0)}))
		})
		got, err := open(t, b).Anomalies()
		if err != nil {
			t.Fatal(err)
		}
		errs := len(got.Errors)
		got.Errors = nil
		want := &Anomalies{
			Oversize:    map[RecordType]int{RecordTextPoke: 1},
			Duplicates:  map[RecordType]int{RecordComm: 1},
			Synthesized: map[RecordType]int{RecordComm: 2},
			Unknown:     map[RecordType]int{40000: 1},
			Undecodable: 2,
			SampleTypes: []SampleType{events[0].Attr.SampleType, events[1].Attr.SampleType},
		}
		if diff := cmp.Diff(want, got); diff != "" || errs != 2 {
			t.Errorf("%d errors, (-want +got):\n%s", errs, diff)
		}
	})
}

// TestAnomaliesCorpus counts what the recordings of real kernels are known to have.
func TestAnomaliesCorpus(t *testing.T) {
	synthesized := map[RecordType]int{RecordComm: 57, RecordFork: 56, RecordMMAP: 7, RecordMMAP2: 62}
	for _, want := range []struct {
		name string
		Anomalies
	}{
		{"x86_64/smalldup", Anomalies{Oversize: map[RecordType]int{RecordTextPoke: 542, RecordKSymbol: 4}, Duplicates: map[RecordType]int{RecordComm: 1}, Synthesized: synthesized}},
		{"x86_64/task", Anomalies{Oversize: map[RecordType]int{}, Duplicates: map[RecordType]int{RecordComm: 1, RecordMMAP2: 2}, Synthesized: map[RecordType]int{RecordComm: 1, RecordMMAP: 7}}},
	} {
		r, err := Open(corpus(t, want.name))
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Anomalies()
		if err != nil || got.Undecodable != 0 || len(got.Unknown) != 0 {
			t.Errorf("%s: %v, %+v", want.name, err, got)
		}
		for _, m := range []struct {
			name      string
			want, got map[RecordType]int
		}{{"oversize", want.Oversize, got.Oversize}, {"duplicates", want.Duplicates, got.Duplicates}, {"synthesized", want.Synthesized, got.Synthesized}} {
			if diff := cmp.Diff(m.want, m.got); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", want.name, m.name, diff)
			}
		}
		r.Close()
	}
}
