// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// timed makes a SAMPLE of testEvents with a time and, as its IP, a number.
func timed(e endian, id, time, number uint64) []byte {
	return rawRecord(e, RecordSample, MiscKernel, e.appendU64s(nil, []uint64{id, number, 7, time, 0}))
}

// An item is a record of an ordering test: a sample with a time, or, as its
// type says, another.
type item struct {
	typ    RecordType
	time   uint64
	number uint64
}

func (it item) raw(e endian) []byte {
	switch it.typ {
	case RecordSample:
		return timed(e, 11, it.time, it.number)
	case RecordComm: // its time is in the trailer
		body := e.pack(uint32(7), uint32(8), it.number)
		return rawRecord(e, it.typ, 0, e.appendU64s(body, []uint64{7, it.time, 0, 11}))
	}
	return rawRecord(e, it.typ, 0, e.appendU64s(nil, []uint64{it.number}))
}

// describe identifies an item by its record.
func describeItem(r *Recording, rec *Record) item {
	it := item{typ: rec.Type}
	switch rec.Type {
	case RecordSample, RecordComm:
		it.number = r.endian.u64(rec.Raw[16:])
	default:
		it.number = r.endian.u64(rec.Raw[8:])
	}
	if rec.Type < firstUserRecord {
		it.time = r.timeOf(rec)
	}
	return it
}

// model orders items as ordered-events.c does, in the plainest way.
func model(items []item) (out []item) {
	var queue []item
	var limit, newest uint64
	flush := func(limit uint64) {
		slices.SortStableFunc(queue, func(a, b item) int {
			switch {
			case a.time < b.time:
				return -1
			case a.time > b.time:
				return 1
			}
			return 0
		})
		n := 0
		for n < len(queue) && queue[n].time <= limit {
			n++
		}
		out = append(out, queue[:n]...)
		queue = queue[n:]
	}
	for _, it := range items {
		switch {
		case it.typ == RecordFinishedRound:
			out = append(out, it)
			flush(limit)
			limit = newest
		case it.typ >= firstUserRecord || it.time == 0 || it.time == ^uint64(0):
			out = append(out, it)
		default:
			queue = append(queue, it)
			newest = max(newest, it.time)
		}
	}
	flush(^uint64(0))
	return out
}

func ordered(tb testing.TB, r *Recording, o *OrderedScanner) (list []item) {
	for o.Next() {
		if rec := o.Record(); rec.Type < RecordHeaderAttr || rec.Type >= 200 || rec.Type == RecordFinishedRound {
			list = append(list, describeItem(r, rec))
		}
	}
	if err := o.Err(); err != nil {
		tb.Error(err)
	}
	return list
}

// TestOrdered holds the order against the model, for records of any times in
// any rounds, at hand and out of a stream, compressed and not.
func TestOrdered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := endian(rapid.Bool().Draw(t, "big"))
		times := rapid.OneOf(rapid.Uint64Range(0, 20), rapid.Just(^uint64(0)), rapid.Uint64())
		items := []item{{typ: RecordFinishedRound}}
		for i := range rapid.IntRange(0, 60).Draw(t, "records") {
			it := item{number: uint64(i)}
			switch it.typ = rapid.SampledFrom([]RecordType{RecordSample, RecordSample, RecordSample, RecordComm, RecordFinishedRound, 200}).Draw(t, "type"); it.typ {
			case RecordSample, RecordComm:
				it.time = times.Draw(t, "time")
			}
			items = append(items, it)
		}
		want := model(items)
		for _, opts := range [][]WriterOption{nil, {Compress(RecordCompressed)}, {Compress(RecordCompressed2)}} {
			var f memFile
			w := NewWriter(&f, e.order(), opts...)
			w.SetEvents(testEvents())
			for _, it := range items {
				w.WriteRecord(it.raw(e))
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			r, err := New(f.b)
			if err != nil {
				t.Fatal(err)
			}
			var got []item
			o := r.Ordered()
			last, late := uint64(0), 0
			for o.Next() {
				rec := o.Record()
				if rec.Type == RecordCompressed || rec.Type == RecordCompressed2 {
					continue
				}
				it := describeItem(r, rec)
				if got = append(got, it); it.time != 0 && it.time != ^uint64(0) {
					if it.time < last {
						late++
					}
					last = max(last, it.time)
				}
			}
			if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(item{})); diff != "" || o.Err() != nil {
				t.Fatalf("%v; records (-want +got):\n%s", o.Err(), diff)
			}
			if o.Late() != late {
				t.Errorf("%d late, want %d", o.Late(), late)
			}
			only := slices.DeleteFunc(slices.Clone(want), func(it item) bool { return it.typ != RecordComm })
			var comms []item
			for o := r.Ordered(Only(RecordComm)); o.Next(); {
				comms = append(comms, describeItem(r, o.Record()))
			}
			slices.SortFunc(only, byNumber)
			slices.SortFunc(comms, byNumber) // rounds differ by what they hold
			if !slices.Equal(only, comms) {
				t.Errorf("Only: %v, want %v", comms, only)
			}
			rd, err := NewReader(bytes.NewReader(f.b))
			if err != nil {
				t.Fatal(err)
			}
			got = got[:0]
			so := rd.Ordered()
			for so.Next() {
				if typ := so.Record().Type; typ != RecordCompressed && typ != RecordCompressed2 {
					got = append(got, describeItem(rd.Recording(), so.Record()))
				}
			}
			if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(item{})); diff != "" || so.Err() != nil {
				t.Fatalf("stream: %v; records (-want +got):\n%s", so.Err(), diff)
			}
		}
	})
}

func byNumber(a, b item) int { return cmp.Compare(a.number, b.number) }

// TestOrderedWithoutRounds has nothing to go by but the places of the records.
func TestOrderedWithoutRounds(t *testing.T) {
	items := []item{{RecordSample, 9, 1}, {RecordSample, 3, 2}, {RecordComm, 0, 3}, {RecordSample, 7, 4}}
	fill := func(w *Writer) {
		for _, it := range items {
			w.WriteRecord(it.raw(little))
		}
	}
	r := open(t, build(t, little, testEvents(), fill))
	o := r.Ordered()
	if diff := gocmp.Diff(items, ordered(t, r, o), gocmp.AllowUnexported(item{})); diff != "" || o.Late() != 2 {
		t.Errorf("%d late; records (-want +got):\n%s", o.Late(), diff)
	}

	// Events whose records have no time, in rounds.
	events := []*Event{{IDs: []uint64{11}, Attr: Attr{SampleType: SampleIP | SampleIdentifier, Flags: FlagSampleIDAll}}}
	r = open(t, build(t, little, events, func(w *Writer) { fill(w); w.FinishedRound(); fill(w) }))
	var got, want []uint64
	for o := r.Ordered(Only(RecordSample)); o.Next(); {
		got = append(got, little.u64(o.Record().Raw[16:]))
	}
	if want = []uint64{1, 2, 4, 1, 2, 4}; !slices.Equal(got, want) {
		t.Errorf("records without a time: %v, want %v", got, want)
	}
}

// TestOrderedImpatient has a stream that is longer than what is held before
// the first round.
func TestOrderedImpatient(t *testing.T) {
	var parts [][]byte
	for n := range uint64(1000) {
		parts = append(parts, timed(little, 11, 1000-n, n))
	}
	rd, err := NewReader(bytes.NewReader(pipeOf(little, parts...)), Only(RecordSample))
	if err != nil {
		t.Fatal(err)
	}
	o := rd.Ordered()
	o.sorters[0].patience = 100 * len(parts[0])
	n := uint64(0)
	for ; o.Next(); n++ {
		if got := describeItem(rd.Recording(), o.Record()).number; got != n {
			t.Fatalf("record %d after %d", got, n)
		}
	}
	if n != 1000 || o.Late() != 999 || len(o.sorters[0].copies) > 200*len(parts[0]) {
		t.Errorf("%d records, %d late, %d bytes held", n, o.Late(), len(o.sorters[0].copies))
	}
}

// TestOrderedFiles merges files, one with rounds and one without.
func TestOrderedFiles(t *testing.T) {
	for _, opts := range [][]WriterOption{nil, {Compress(RecordCompressed)}} {
		dir := filepath.Join(t.TempDir(), "rec.data")
		w, err := CreateDir(dir, 2, binary.LittleEndian, opts...)
		if err != nil {
			t.Fatal(err)
		}
		w.SetEvents(testEvents())
		for file, items := range [][]item{
			{{RecordComm, 0, 0}, {200, 0, 1}, {RecordSample, 5, 2}},
			{{RecordSample, 9, 10}, {RecordSample, 5, 11}, {RecordFinishedRound, 0, 12}, {RecordSample, 7, 13}, {RecordFinishedRound, 0, 14}},
			{{RecordSample, 4, 20}, {RecordSample, 6, 21}, {200, 0, 22}, {RecordSample, 9, 23}, {RecordSample, 11, 24}},
		} {
			w.SetFile(file)
			for _, it := range items {
				w.WriteRecord(it.raw(little))
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		r, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			opts []ScanOption
			want []string
		}{
			{nil, []string{"0:0", "0:1", "1:12", "1:14", "2:20", "0:2", "1:11", "2:21", "2:22", "1:13", "1:10", "2:23", "2:24"}},
			{[]ScanOption{Only(RecordSample)}, []string{"2:20", "0:2", "1:11", "2:21", "1:13", "1:10", "2:23", "2:24"}},
		} {
			o := r.Ordered(tt.opts...)
			var got []string
			for o.Next() {
				if rec := o.Record(); rec.Type != RecordCompressed {
					got = append(got, fmt.Sprint(rec.File, ":", describeItem(r, rec).number))
				}
			}
			if diff := gocmp.Diff(tt.want, got); diff != "" || o.Err() != nil || o.Late() != 0 {
				t.Errorf("%v, %d late; records (-want +got):\n%s", o.Err(), o.Late(), diff)
			}
		}
		r.Close()
	}
}

// TestOrderedMemory looks at how much is held in rounds of equal length.
func TestOrderedMemory(t *testing.T) {
	r := open(t, build(t, little, testEvents(), func(w *Writer) {
		for round := range uint64(200) {
			for cpu := range uint64(4) {
				for n := range uint64(50) {
					w.WriteRecord(timed(little, 11, 1+round*100+n+cpu*10, 0))
				}
			}
			w.FinishedRound()
		}
	}))
	o := r.Ordered()
	n, most := 0, 0
	for o.Next() {
		n++
		most = max(most, len(o.sorters[0].held))
	}
	if n != 200*201 || o.Late() != 0 || most > 3*200 {
		t.Errorf("%d records, %d late, up to %d held", n, o.Late(), most)
	}
}
