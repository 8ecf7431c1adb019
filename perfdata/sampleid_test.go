// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTrailerLayouts decodes the trailer of a record whose words are numbered,
// under sample types that carry different parts of it.
func TestTrailerLayouts(t *testing.T) {
	const all = SampleTID | SampleTime | SampleEventID | SampleStreamID | SampleCPU | SampleIdentifier
	tests := []struct {
		name  string
		st    SampleType
		words []uint64
		want  SampleID
	}{
		{"nothing", SampleIP, nil, SampleID{}},
		{"all", all | SampleIP | SampleCallchain, []uint64{2<<32 | 1, 3, 7, 5, 6, 7},
			SampleID{PID: 1, TID: 2, Time: 3, ID: 7, StreamID: 5, CPU: 6}},
		{"without IDENTIFIER", all &^ SampleIdentifier, []uint64{2<<32 | 1, 3, 7, 5, 6},
			SampleID{PID: 1, TID: 2, Time: 3, ID: 7, StreamID: 5, CPU: 6}},
		{"time and id", SampleTime | SampleEventID, []uint64{3, 7}, SampleID{Time: 3, ID: 7}},
		{"no id", SampleTID | SampleTime | SampleCPU, []uint64{2<<32 | 1, 3, 6}, SampleID{PID: 1, TID: 2, Time: 3, CPU: 6}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := little
			ev := []*Event{{IDs: []uint64{7}, Attr: Attr{SampleType: tt.st, Flags: FlagSampleIDAll}}}
			r := open(t, build(t, e, ev, func(w *Writer) {
				w.WriteRecord(rawRecord(e, RecordThrottle, 0, e.appendU64s(make([]byte, 24), tt.words)))
			}))
			tt.want.Has = tt.st & all
			tt.want.Event = r.Events()[0]
			list, err := scan(r)
			if err != nil {
				t.Fatal(err)
			}
			var got SampleID
			if err := r.SampleID(&list[0], &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, ignoreLayouts); diff != "" {
				t.Errorf("SampleID (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSampleFront decodes the fields of a SAMPLE, and nothing behind them.
func TestSampleFront(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		id := SampleEventID | SampleTID | SampleTime | SampleCPU
		ev := []*Event{
			{IDs: []uint64{7}, Attr: Attr{SampleType: id | SampleIdentifier | SampleIP | SamplePeriod, Flags: FlagSampleIDAll}},
			{IDs: []uint64{8}, Attr: Attr{SampleType: id | SampleIdentifier | SampleIP | SampleAddr | SampleStreamID, Flags: FlagSampleIDAll}},
		}
		tid := e.appendU32s(nil, 1, 2)
		cpu := e.appendU32s(nil, 5, 0xffffffff)
		sample := func(before []uint64, between []uint64) []byte {
			b := e.appendU64s(nil, before)
			b = append(b, tid...)
			b = e.appendU64s(b, between)
			b = append(b, cpu...)
			return rawRecord(e, RecordSample, 0, e.appendU64s(b, []uint64{0xdead, 0xbeef}))
		}
		r := open(t, build(t, e, ev, func(w *Writer) {
			w.WriteRecord(sample([]uint64{7, 0x1000}, []uint64{3, 7}))
			w.WriteRecord(sample([]uint64{8, 0x1000}, []uint64{3, 0x2000, 8, 9}))
		}))
		list, err := scan(r)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]SampleID, len(list))
		for i := range list {
			if err := r.SampleID(&list[i], &got[i]); err != nil {
				t.Fatal(err)
			}
		}
		want := []SampleID{
			{PID: 1, TID: 2, Time: 3, ID: 7, CPU: 5, Has: id | SampleIdentifier, Event: r.Events()[0]},
			{PID: 1, TID: 2, Time: 3, ID: 8, CPU: 5, StreamID: 9, Has: id | SampleIdentifier | SampleStreamID, Event: r.Events()[1]},
		}
		if diff := cmp.Diff(want, got, ignoreLayouts); diff != "" {
			t.Errorf("SampleID (-want +got):\n%s", diff)
		}
		short := Record{Type: RecordSample, Raw: rawRecord(e, RecordSample, 0, e.appendU64s(nil, []uint64{7, 0x1000}))}
		var id2 SampleID
		if err := r.SampleID(&short, &id2); err == nil {
			t.Error("no error for a sample that is too short")
		}
	})
}

// TestTwoLayouts has events whose trailers differ: which it is depends on the
// id, which is at different distances from the body.
func TestTwoLayouts(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		long := &Event{IDs: []uint64{7}, Attr: Attr{SampleType: SampleTID | SampleTime | SampleCPU | SampleIdentifier, Flags: FlagSampleIDAll}}
		short := &Event{IDs: []uint64{8}, Attr: Attr{SampleType: SampleTime | SampleIdentifier, Flags: FlagSampleIDAll}}
		poke := func(ev *Event, time uint64, excess int) *TextPoke {
			return &TextPoke{Addr: 1, Old: []byte{1}, New: []byte{2}, SampleID: SampleID{ID: ev.IDs[0], Time: time, Event: ev}, Excess: excess}
		}
		madeUp := SampleID{Event: long}
		r := open(t, build(t, e, []*Event{long, short}, func(w *Writer) {
			w.TextPoke(poke(long, 100, 0))
			w.TextPoke(poke(short, 101, 0))
			w.TextPoke(poke(short, 102, 32)) // after the long one
			w.TextPoke(poke(long, 103, 16))  // after the short one
			w.TextPoke(poke(short, 104, 16)) // after another session's
			w.KSymbol(&KSymbol{Addr: 1, Name: []byte("x"), SampleID: madeUp})
			w.Comm(0, &Comm{Comm: []byte("x"), SampleID: madeUp})
			w.Comm(0, &Comm{Comm: []byte("x"), SampleID: SampleID{ID: 8, Time: 105, Event: short}})
		}))
		type answer struct {
			Event, Excess int
			Time          uint64
		}
		var got []answer
		list, err := scan(r)
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			var id SampleID
			if err := r.SampleID(&list[i], &id); err != nil {
				t.Fatal(err)
			}
			a := answer{Event: id.Event.Index, Time: id.Time}
			if v, _ := decode(r, &list[i]); list[i].Type == RecordTextPoke {
				a.Excess = v.(*TextPoke).Excess
			}
			got = append(got, a)
		}
		want := []answer{{0, 0, 100}, {1, 0, 101}, {1, 32, 102}, {0, 16, 103}, {1, 16, 104}, {0, 0, 0}, {0, 0, 0}, {1, 0, 105}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("trailers (-want +got):\n%s", diff)
		}
	})
}

// TestAmbiguousTrailer has a CPU whose number is the id of another event.
func TestAmbiguousTrailer(t *testing.T) {
	long := &Event{IDs: []uint64{7}, Attr: Attr{SampleType: SampleTID | SampleTime | SampleCPU | SampleIdentifier, Flags: FlagSampleIDAll}}
	short := &Event{IDs: []uint64{8}, Attr: Attr{SampleType: SampleTID | SampleTime | SampleIdentifier, Flags: FlagSampleIDAll}}
	p := TextPoke{Addr: 1, New: []byte{2}, SampleID: SampleID{ID: 7, Time: 100, CPU: 8, Event: long}}
	for excess, want := range map[int]error{0: nil, 24: ErrMalformed, 32: ErrMalformed} {
		p.Excess = excess
		r := open(t, build(t, little, []*Event{short, long}, func(w *Writer) { w.TextPoke(&p) }))
		list, err := scan(r)
		if err != nil {
			t.Fatal(err)
		}
		var got TextPoke
		if err := r.TextPoke(&list[0], &got); !errors.Is(err, want) {
			t.Errorf("excess %d: error %v, want %v", excess, err, want)
		} else if err == nil && (got.Event.Index != 1 || got.Time != 100) {
			t.Errorf("excess %d: got event %d, time %d", excess, got.Event.Index, got.Time)
		}
	}
}

// TestWhichEvent is about records whose id says nothing, or something unknown.
func TestWhichEvent(t *testing.T) {
	const st = SampleTime | SampleIdentifier
	attr := Attr{SampleType: st, Flags: FlagSampleIDAll}
	wide := Attr{SampleType: st | SampleTID, Flags: FlagSampleIDAll}
	tests := []struct {
		name   string
		events []*Event
		id     uint64
		want   int // index of the event, -1 for none
		fails  bool
	}{
		{"known", []*Event{{IDs: []uint64{7}, Attr: attr}, {IDs: []uint64{8}, Attr: attr}}, 8, 1, false},
		{"zero", []*Event{{IDs: []uint64{7}, Attr: attr}, {IDs: []uint64{8}, Attr: attr}}, 0, 0, false},
		{"unknown", []*Event{{IDs: []uint64{7}, Attr: attr}, {IDs: []uint64{8}, Attr: attr}}, 9, -1, false},
		{"unknown, one event", []*Event{{IDs: []uint64{7}, Attr: attr}}, 9, -1, false},
		{"no ids kept, one event", []*Event{{Attr: attr}}, 9, 0, false},
		{"unknown, with different layouts", []*Event{{IDs: []uint64{7}, Attr: attr}, {IDs: []uint64{8}, Attr: wide}}, 9, -1, true},
		{"ids far apart", []*Event{{IDs: []uint64{7, 1 << 40}, Attr: attr}, {IDs: []uint64{1 << 60}, Attr: attr}}, 1 << 60, 1, false},
		{"unknown among ids far apart", []*Event{{IDs: []uint64{7, 1 << 40}, Attr: attr}, {IDs: []uint64{1 << 60}, Attr: attr}}, 1<<60 + 1, -1, false},
		{"below the least", []*Event{{IDs: []uint64{7}, Attr: attr}, {IDs: []uint64{8}, Attr: attr}}, 6, -1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := open(t, build(t, little, tt.events, func(w *Writer) {
				w.BPFEvent(&BPFEvent{SampleID: SampleID{Time: 5, ID: tt.id, Event: tt.events[0]}})
				w.LostSamples(&LostSamples{SampleID: SampleID{Time: 5, ID: tt.id, Event: tt.events[len(tt.events)-1]}})
			}))
			list, err := scan(r)
			if err != nil {
				t.Fatal(err)
			}
			for i := range list {
				var id SampleID
				if err := r.SampleID(&list[i], &id); (err != nil) != tt.fails {
					t.Fatalf("error %v", err)
				} else if tt.fails {
					continue
				}
				got := -1
				if id.Event != nil {
					got = id.Event.Index
				}
				if got != tt.want || id.ID != tt.id || id.Time != 5 {
					t.Errorf("%v: got event %d, id %d, time %d; want %d, %d, 5", list[i].Type, got, id.ID, id.Time, tt.want, tt.id)
				}
			}
			if got := r.EventByID(tt.id); (got != nil) != (tt.want >= 0 && tt.id != 0 && len(tt.events[0].IDs) > 0) {
				t.Errorf("EventByID(%d) = %v", tt.id, got)
			}
		})
	}
}

// TestDecodeAllocates guards the claim of the decoders of hot records.
func TestDecodeAllocates(t *testing.T) {
	ev := testEvents()
	id := SampleID{ID: 13, Event: ev[1]}
	r := open(t, build(t, little, ev, func(w *Writer) {
		for range 100 {
			w.TextPoke(&TextPoke{Old: []byte{1}, New: []byte{2}, SampleID: id})
			w.KSymbol(&KSymbol{Name: []byte("x"), SampleID: id})
			w.Mmap(RecordMMAP, 0, &Mmap{Filename: []byte("x"), SampleID: id})
			w.Comm(0, &Comm{Comm: []byte("x"), SampleID: id})
			w.Lost(&Lost{SampleID: id})
		}
	}))
	var (
		poke TextPoke
		sym  KSymbol
		mmap Mmap
		comm Comm
		lost Lost
		any  SampleID
	)
	n := 0
	allocs := testing.AllocsPerRun(5, func() {
		for s := r.Scan(); s.Next(); n++ {
			rec := s.Record()
			err := r.SampleID(rec, &any)
			switch rec.Type {
			case RecordTextPoke:
				err = r.TextPoke(rec, &poke)
			case RecordKSymbol:
				err = r.KSymbol(rec, &sym)
			case RecordMMAP:
				err = r.Mmap(rec, &mmap)
			case RecordComm:
				err = r.Comm(rec, &comm)
			case RecordLost:
				err = r.Lost(rec, &lost)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	})
	if n != 6*500 {
		t.Fatalf("went through %d records", n)
	}
	if allocs > 1 { // the Scanner
		t.Errorf("%v allocations for 500 records", allocs)
	}
}

// TestTrailerAt: the trailer of a record is found without its recording, where SampleID finds it.
func TestTrailerAt(t *testing.T) {
	rec, err := Open("../testdata/small/rec.data")
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	if len(rec.trailers) != 1 || rec.endian != little || binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Skip("the records have trailers of several sizes, or another byte order")
	}
	seen := make(map[RecordType]int)
	size := rec.trailers[0].size
	for sc := rec.Scan(); sc.Next(); {
		r := sc.Record()
		if r.Type >= firstUserRecord || r.Type == RecordSample {
			continue
		}
		var id SampleID
		err := rec.SampleID(r, &id)
		at, ok := TrailerAt(r.Raw, size)
		if ok != (err == nil) || ok && binary.LittleEndian.Uint64(r.Raw[at+rec.trailers[0].time:]) != id.Time {
			t.Fatalf("%v: at %d, %v; SampleID: time %d, %v", r.Type, at, ok, id.Time, err)
		}
		seen[r.Type]++
		longer := append(slices.Clone(r.Raw), make([]byte, size)...) // as the kernel makes it for several listeners
		if got, ok := TrailerAt(longer, size); (r.Type == RecordTextPoke || r.Type == RecordKSymbol || r.Type == RecordBPFEvent) && (got != at || !ok) {
			t.Errorf("%v, longer than needed: at %d, want %d", r.Type, got, at)
		}
		if _, ok := TrailerAt(r.Raw[:at], size); ok && r.Type == RecordTextPoke {
			t.Errorf("%v without a trailer: ok", r.Type)
		}
	}
	if seen[RecordTextPoke] == 0 || seen[RecordKSymbol] == 0 || seen[RecordComm] == 0 {
		t.Errorf("records: %v", seen)
	}
	if _, ok := TrailerAt([]byte{1, 2}, size); ok {
		t.Error("two bytes are a record")
	}
}
