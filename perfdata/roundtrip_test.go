// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var ignoreLayouts = cmpopts.IgnoreUnexported(Event{})

// TestRoundTrip writes one of each typed record and reads it back.
func TestRoundTrip(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		ev := testEvents()
		id := SampleID{
			PID: 7, TID: 8, Time: 1234567890123, ID: 13, CPU: 3,
			Has: SampleTID | SampleTime | SampleCPU | SampleIdentifier, Event: ev[1],
		}
		want := []any{
			&TextPoke{Addr: 0xffffffff81000010, Old: []byte{0x0f, 0x1f, 0x44, 0, 0}, New: []byte{0xe8, 1, 2, 3, 4}, SampleID: id},
			&TextPoke{Addr: 0xffffffffc0001000, Old: []byte{}, New: make([]byte, 4096), SampleID: id},
			&TextPoke{Addr: 0xffffffff81000020, Old: []byte{0xcc}, New: []byte{0x55}, SampleID: id, Excess: 32},
			&KSymbol{Addr: 0xffffffffc0001000, Len: 4096, Kind: KSymbolOOL, Flags: KSymbolUnregister, Name: []byte("kprobe_insn_page"), SampleID: id},
			&KSymbol{Addr: 0xffffffffc0002000, Len: 77, Kind: KSymbolBPF, Name: []byte("bpf_prog_6deef7357e7b4530"), SampleID: id, Excess: 64},
			&BPFEvent{Kind: BPFLoad, ID: 42, Tag: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, SampleID: id},
			&BPFEvent{Kind: BPFUnload, ID: 42, SampleID: id, Excess: 32},
			&Mmap{PID: 1, TID: 2, Addr: 3, Len: 4, Pgoff: 5, Filename: []byte("[kernel.kallsyms]_text"), SampleID: id},
			&Comm{PID: 1, TID: 2, Comm: []byte("perf-exec"), SampleID: id},
			&Lost{ID: 13, Lost: 99, SampleID: id},
			&LostSamples{Lost: 1, SampleID: id},
			&IDIndex{Entries: []IDIndexEntry{{ID: 11, Idx: 0, CPU: 0, TID: -1, VCPU: -1}, {ID: 12, Idx: 1, CPU: 1, TID: -1, VCPU: -1}}},
			&IDIndex{Entries: []IDIndexEntry{{ID: 11, Idx: 0, CPU: 0, TID: -1, MachinePID: 77, VCPU: 2}}},
		}
		r := open(t, build(t, e, ev, func(w *Writer) {
			for _, rec := range want {
				if err := write(w, rec); err != nil {
					t.Fatal(err)
				}
			}
		}))
		if err := r.CleanEnd(); err != nil {
			t.Error("CleanEnd:", err)
		}
		for _, err := range r.Warnings() {
			t.Error("warning:", err)
		}
		var got []any
		list, err := scan(r)
		for i := range list {
			v, err := decode(r, &list[i])
			if err != nil {
				t.Error(err)
			}
			got = append(got, v)
		}
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, got, ignoreLayouts); diff != "" {
			t.Errorf("records (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(ev, r.Events(), ignoreLayouts); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// write writes what decode returns.
func write(w *Writer, v any) error {
	switch v := v.(type) {
	case *TextPoke:
		return w.TextPoke(v)
	case *KSymbol:
		return w.KSymbol(v)
	case *BPFEvent:
		return w.BPFEvent(v)
	case *Mmap:
		return w.Mmap(RecordMMAP, MiscKernel, v)
	case *Comm:
		return w.Comm(0, v)
	case *Lost:
		return w.Lost(v)
	case *LostSamples:
		return w.LostSamples(v)
	case *IDIndex:
		return w.IDIndex(v)
	}
	return fmt.Errorf("no way to write a %T", v)
}

// decode decodes a record of any type that has a decoder, nil for others.
func decode(r *Recording, rec *Record) (any, error) {
	switch rec.Type {
	case RecordTextPoke:
		v := new(TextPoke)
		return v, r.TextPoke(rec, v)
	case RecordKSymbol:
		v := new(KSymbol)
		return v, r.KSymbol(rec, v)
	case RecordBPFEvent:
		v := new(BPFEvent)
		return v, r.BPFEvent(rec, v)
	case RecordMMAP, RecordMMAP2:
		v := new(Mmap)
		return v, r.Mmap(rec, v)
	case RecordComm:
		v := new(Comm)
		return v, r.Comm(rec, v)
	case RecordFork, RecordExit:
		v := new(Task)
		return v, r.Task(rec, v)
	case RecordLost:
		v := new(Lost)
		return v, r.Lost(rec, v)
	case RecordLostSamples:
		v := new(LostSamples)
		return v, r.LostSamples(rec, v)
	case RecordTimeConv:
		v := new(TimeConv)
		return v, r.TimeConv(rec, v)
	case RecordIDIndex:
		v := new(IDIndex)
		return v, r.IDIndex(rec, v)
	case RecordCPUMap:
		v := new(CPUMap)
		return v, r.CPUMap(rec, v)
	}
	return nil, nil
}

// TestPokesOfAnyShape writes pokes of random lengths for events of random
// layouts, with and without excess, and reads them back.
func TestPokesOfAnyShape(t *testing.T) {
	bits := []SampleType{SampleTID, SampleTime, SampleEventID, SampleStreamID, SampleCPU, SampleIP, SampleCallchain}
	rapid.Check(t, func(t *rapid.T) {
		e := endian(rapid.Bool().Draw(t, "big"))
		var ev []*Event
		for i := range rapid.IntRange(1, 3).Draw(t, "events") {
			st := SampleIdentifier
			for _, bit := range rapid.SliceOf(rapid.SampledFrom(bits)).Draw(t, "sample type") {
				st |= bit
			}
			ev = append(ev, &Event{IDs: []uint64{uint64(100 + i)}, Attr: Attr{SampleType: st, Flags: FlagSampleIDAll}})
		}
		blob := rapid.SliceOfN(rapid.Byte(), 0, 40)
		var want []TextPoke
		var f memFile
		w := NewWriter(&f, e.order())
		w.SetEvents(ev)
		for range rapid.IntRange(1, 8).Draw(t, "pokes") {
			from := rapid.SampledFrom(ev).Draw(t, "event")
			p := TextPoke{
				Addr: rapid.Uint64().Draw(t, "addr"), Old: blob.Draw(t, "old"), New: blob.Draw(t, "new"),
				SampleID: SampleID{ID: from.IDs[0], Has: from.Attr.SampleType & trailerBits, Event: from},
			}
			if p.Has&SampleTime != 0 {
				p.Time = rapid.Uint64Min(1<<20).Draw(t, "time") // not taken for an id
			}
			if p.Has&SampleCPU != 0 {
				p.CPU = rapid.Uint32Max(99).Draw(t, "cpu")
			}
			if p.Has&SampleStreamID != 0 {
				p.StreamID = rapid.Uint64Min(1<<20).Draw(t, "stream")
			}
			if rapid.Bool().Draw(t, "second listener") {
				p.Excess = trailerSize(rapid.SampledFrom(ev).Draw(t, "first listener"))
			}
			if err := w.TextPoke(&p); err != nil {
				t.Fatal(err)
			}
			want = append(want, p)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := New(f.b)
		if err != nil {
			t.Fatal(err)
		}
		var got []TextPoke
		for s := r.Scan(); s.Next(); {
			var p TextPoke
			if err := r.TextPoke(s.Record(), &p); err != nil {
				t.Fatal(err)
			}
			got = append(got, p)
		}
		if diff := cmp.Diff(want, got, ignoreLayouts, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Event{}, "Index", "Attr")); diff != "" {
			t.Fatalf("pokes (-want +got):\n%s", diff)
		}
	})
}

func trailerSize(ev *Event) int {
	l := trailerLayout(&ev.Attr)
	return l.size
}
