// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sample writes a few records and features.
func sample(w *Writer) {
	ev := w.events
	w.Mmap(RecordMMAP, MiscKernel, &Mmap{PID: 0xffffffff, Addr: 0xffffffff81000000, Len: 1 << 24, Filename: []byte("[kernel.kallsyms]_text"), SampleID: SampleID{Event: ev[0]}})
	w.TextPoke(&TextPoke{Addr: 0xffffffff81000010, Old: []byte{0x90}, New: []byte{0xcc}, SampleID: SampleID{Event: ev[1], Time: 1000, ID: 13}})
	w.FinishedRound()
	e := w.enc.endian
	w.WriteFeature(FeatureHostname, e.appendString(nil, "box"))
	w.WriteFeature(FeatureNRCPUs, e.appendU32s(nil, 4, 2))
	w.WriteFeature(FeatureSampleTime, e.appendU64s(nil, []uint64{5, 6}))
}

func types(list []Record) (names []string) {
	for _, rec := range list {
		names = append(names, rec.Type.String())
	}
	return names
}

func TestHeaderForms(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		v2 := build(t, e, testEvents(), sample)
		data := int(e.u64(v2[hdrData:]))
		end := data + int(e.u64(v2[hdrData+8:]))

		v1 := bytes.Clone(v2)
		copy(v1, magicV1)

		// The first perf: no features, so what was their bitmap is the ids' place.
		old := bytes.Clone(v2[:end])
		e.put64(old[hdrSize:], oldHeader)
		clear(old[hdrFeatures:fileHeader])

		pipe := pipeForm(e, testEvents(), v2[data:end])
		pipeV1 := bytes.Clone(pipe)
		copy(pipeV1, magicV1)

		tests := []struct {
			name  string
			b     []byte
			pipe  bool
			feats int
			clean string // what CleanEnd says
		}{
			{"v2", v2, false, 4, ""},
			{"v1", v1, false, 4, ""},
			{"old", old, false, 0, "a header without features"},
			{"pipe", pipe, true, 1, "a pipe does not say how many records it has"},
			{"pipe v1", pipeV1, true, 1, "a pipe does not say how many records it has"},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				r := open(t, tt.b)
				if len(r.Warnings()) > 0 {
					t.Error("warnings:", r.Warnings())
				}
				if r.ByteOrder() != e.order() || r.Pipe() != tt.pipe || r.Size() != int64(len(tt.b)) {
					t.Errorf("ByteOrder %v, Pipe %v, Size %d", r.ByteOrder(), r.Pipe(), r.Size())
				}
				if err := r.CleanEnd(); (err == nil) != (tt.clean == "") || err != nil && !strings.Contains(err.Error(), tt.clean) {
					t.Errorf("CleanEnd: %v", err)
				}
				if got := len(r.Features()); got != tt.feats {
					t.Errorf("features %v", r.Features())
				}
				want := testEvents()
				if tt.feats == 0 {
					want[0].Name, want[1].Name = "", ""
				}
				if diff := cmp.Diff(want, r.Events(), ignoreLayouts); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				list, err := scan(r, Only(RecordMMAP, RecordTextPoke, RecordFinishedRound))
				if err != nil {
					t.Error(err)
				}
				if diff := cmp.Diff([]string{"MMAP", "TEXT_POKE", "FINISHED_ROUND"}, types(list)); diff != "" {
					t.Errorf("records (-want +got):\n%s", diff)
				}
			})
		}
	})
}

// pipeForm makes a pipe of events, a feature and records.
func pipeForm(e endian, events []*Event, records []byte) []byte {
	magic := magicLittle
	if e == big {
		magic = magicBig
	}
	b := e.appendU64s([]byte(magic), []uint64{pipeHeader})
	for _, ev := range events {
		attr := ev.Attr.encode(e)[:ev.Attr.Size]
		e.put32(attr[4:], ev.Attr.Size)
		b = append(b, rawRecord(e, RecordHeaderAttr, 0, e.appendU64s(attr, ev.IDs))...)
	}
	for _, ev := range events {
		body := e.appendU64s(nil, []uint64{eventUpdateName, ev.IDs[0]})
		name := make([]byte, align8(len(ev.Name)+1))
		copy(name, ev.Name)
		b = append(b, rawRecord(e, RecordEventUpdate, 0, append(body, name...))...)
	}
	b = append(b, rawRecord(e, RecordHeaderFeature, 0, e.appendString(e.appendU64s(nil, []uint64{uint64(FeatureHostname)}), "box"))...)
	b = append(b, rawRecord(e, RecordHeaderFeature, 0, e.appendU64s(nil, []uint64{32}))...) // their end
	return append(b, records...)
}

func TestNotARecording(t *testing.T) {
	good := build(t, little, testEvents(), sample)
	change := func(at int, v uint64) []byte {
		b := bytes.Clone(good)
		little.put64(b[at:], v)
		return b
	}
	tests := []struct {
		name   string
		b      []byte
		offset int64
		want   error
	}{
		{"empty", nil, 0, ErrTruncated},
		{"half a magic", []byte("PERF"), 4, ErrTruncated},
		{"another short file", []byte("MZ"), 0, ErrBadMagic},
		{"another file", []byte("#!/bin/sh\nexec true\n"), 0, ErrBadMagic},
		{"within the header", good[:103], 103, ErrTruncated},
		{"header of another size", change(hdrSize, 96), hdrSize, ErrUnsupported},
		{"attrs without a size", change(hdrAttrSize, 0), hdrAttrSize, ErrMalformed},
		{"attrs of no size", func() []byte {
			b := change(hdrAttrSize, 16)
			little.put32(b[little.u64(b[hdrAttrs:])+4:], 7)
			return b
		}(), hdrAttrSize, ErrMalformed},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := New(tt.b)
			var fe *FormatError
			if !errors.As(err, &fe) || !errors.Is(err, tt.want) || fe.Offset != tt.offset {
				t.Errorf("got error %v, want %v at offset %d", err, tt.want, tt.offset)
			}
		})
	}
}

// TestDamagedHeader damages what can be missed: the rest is read, and a warning
// or CleanEnd reports.
func TestDamagedHeader(t *testing.T) {
	good := build(t, little, testEvents(), sample)
	data := little.u64(good[hdrData:])
	size := little.u64(good[hdrData+8:])
	table := int(data + size)
	attrs := int(little.u64(good[hdrAttrs:]))
	with := func(at int, v uint64) []byte {
		b := bytes.Clone(good)
		little.put64(b[at:], v)
		return b
	}
	unused := func(first uint64) []byte { // with room for two features that perf dropped
		const extra = 2 * sectionEntry
		b := slices.Insert(bytes.Clone(good), table+4*sectionEntry, make([]byte, extra)...)
		for i := range 4 {
			at := table + i*sectionEntry
			little.put64(b[at:], little.u64(b[at:])+extra)
		}
		little.put64(b[table+4*sectionEntry:], first)
		return b
	}
	behind := with(hdrAttrs, uint64(len(good))) // attrs, as perf inject writes them that reads a pipe
	behind = append(behind, good[attrs:attrs+int(little.u64(good[hdrAttrs+8:]))]...)
	tests := []struct {
		name    string
		b       []byte
		events  int
		records int
		feats   int
		warn    string
		clean   string
		scanErr error
	}{
		{"whole", good, 2, 3, 4, "", "", nil},
		{"features that perf dropped", unused(0), 2, 3, 4, "", "", nil},
		{"features that perf dropped, with a place", unused(uint64(len(good))), 2, 3, 4, "", "", nil},
		{"features that perf dropped, with junk", unused(1 << 40), 2, 3, 4, "", "section HOSTNAME is at", nil},
		{"attrs behind the records", behind, 2, 3, 4, "", "the events come after the records", nil},
		{"no data size", with(hdrData+8, 0), 2, 3, 4, "", "perf was killed or is still running", nil},
		{"junk after the end", append(bytes.Clone(good), "[ perf record: Woken up 1 times ]"...), 2, 3, 4, "", "", nil},
		{"cut in the records", good[:table-12], 2, 1, 0, "", "the file ends 12 bytes before its records do", ErrTruncated},
		{"cut between records", good[:table-8], 2, 2, 0, "", "the file ends 8 bytes before its records do", ErrTruncated},
		{"cut before the records", good[:data-8], 1, 0, 0, "file ends within its attrs", "records begin at", ErrTruncated},
		{"cut before the table", good[:table], 2, 3, 0, "within the table", "within the table", nil},
		{"cut in the table", good[:table+20], 2, 3, 0, "is not in the file", "is not in the file", nil},
		{"cut in the features", good[:len(good)-1], 2, 3, 3, "section SAMPLE_TIME", "section SAMPLE_TIME", nil},
		{"section before the table", with(table, 8), 2, 3, 3, "before the end of the table", "begins before", nil},
		{"section within another", with(table+sectionEntry, little.u64(good[table:])), 2, 3, 4, "", "section NRCPUS is at", nil},
		{"attrs past the end", with(hdrAttrs, 1<<40), 0, 3, 4, "past the end of the file", "", nil},
		{"attr at odds with EVENT_DESC", with(attrs+24, 1), 2, 3, 4, "event 0 is not the one of the attrs", "", nil},
		{"no attrs", with(hdrAttrs+8, 0), 0, 3, 4, "the recording has no events", "", nil},
		{"attrs longer than the file", with(hdrAttrs+8, 1<<40), -1, 3, 4, "file ends within its attrs", "", nil},
		{"ids past the end", with(attrs+128, 1<<40), 2, 3, 4, "are not in the file", "", nil},
		{"ids longer than the file", with(attrs+136, 1<<63), 2, 3, 4, "are not in the file", "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := open(t, tt.b)
			if tt.events >= 0 && len(r.Events()) != tt.events {
				t.Errorf("%d events", len(r.Events()))
			}
			s := r.Scan()
			n := 0
			for n < tt.records && s.Next() {
				n++
			}
			if n != tt.records {
				t.Errorf("%d records, want %d", n, tt.records)
			}
			for s.Next() {
				// Where the end is not known, what follows the records is read as records.
				if tt.scanErr == nil {
					t.Errorf("another record at %d", s.Record().Offset)
				}
			}
			if err := s.Err(); !errors.Is(err, tt.scanErr) {
				t.Errorf("scan: %v, want %v", err, tt.scanErr)
			}
			if len(r.Features()) != tt.feats {
				t.Errorf("features %v", r.Features())
			}
			var warn string
			if w := errors.Join(r.Warnings()...); w != nil {
				warn = w.Error()
			}
			if !strings.Contains(warn, tt.warn) || tt.warn == "" && warn != "" {
				t.Errorf("warnings %q, want %q", warn, tt.warn)
			}
			err := r.CleanEnd()
			if (err == nil) != (tt.clean == "") || err != nil && !strings.Contains(err.Error(), tt.clean) {
				t.Errorf("CleanEnd: %v, want %q", err, tt.clean)
			}
		})
	}
}

// TestAttrEntries reads attrs whose entries are not as long as the header says.
func TestAttrEntries(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		good := build(t, e, testEvents(), sample)
		at, size, entry := int(e.u64(good[hdrAttrs:])), int(e.u64(good[hdrAttrs+8:])), int(e.u64(good[hdrAttrSize:]))
		if size != 2*entry {
			t.Fatalf("%d bytes of attrs of %d", size, entry)
		}
		with := func(length int) []byte {
			b := bytes.Clone(good)
			e.put64(b[hdrAttrSize:], uint64(length))
			return b
		}
		// A newer perf inject keeps the size of an older attr in its larger entry.
		inject := bytes.Clone(good)
		for i := range 2 {
			e.put32(inject[at+i*entry+4:], 112)
		}
		for _, tt := range []struct {
			name string
			b    []byte
		}{
			{"shorter, the number is right", with(entry - 8)},
			{"much shorter", with(16)},
			{"longer", with(entry + 8)},
			{"longer than the file", with(1 << 40)},
			{"an attr shorter than its entry", inject},
		} {
			r := open(t, tt.b)
			var ids []uint64
			for _, ev := range r.Events() {
				ids = append(ids, ev.IDs...)
			}
			if d := cmp.Diff([]uint64{11, 12, 13, 14}, ids); d != "" {
				t.Errorf("%s: ids (-want +got):\n%s%v", tt.name, d, r.Warnings())
			}
			if list, err := scan(r); len(list) != 3 || err != nil {
				t.Errorf("%s: %d records, %v", tt.name, len(list), err)
			}
		}
	})
}

// TestKilled is about a recording whose recorder was killed: no size of the
// data, no features, maybe half a record.
func TestKilled(t *testing.T) {
	good := build(t, little, testEvents(), sample)
	end := little.u64(good[hdrData:]) + little.u64(good[hdrData+8:])
	b := bytes.Clone(good[:end])
	little.put64(b[hdrData+8:], 0)
	r := open(t, b)
	list, err := scan(r)
	if len(list) != 3 || err != nil {
		t.Errorf("%d records, %v", len(list), err)
	}
	if r.CleanEnd() == nil {
		t.Error("CleanEnd is nil")
	}
}

// TestFeatureBitmap reads bitmaps of unsigned longs of 4 and of 8 bytes.
func TestFeatureBitmap(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		b := build(t, e, testEvents(), func(w *Writer) {
			sample(w)
			w.WriteFeature(FeatureCPUDomainInfo, []byte{1})
			w.WriteFeature(129, []byte{2})
		})
		for i := range featureWords { // as a 32-bit machine writes them
			at := hdrFeatures + 8*i
			v := e.u64(b[at:])
			e.put32(b[at:], uint32(v))
			e.put32(b[at+4:], uint32(v>>32))
		}
		r := open(t, b)
		want := []Feature{FeatureHostname, FeatureNRCPUs, FeatureEventDesc, FeatureSampleTime, FeatureCPUDomainInfo, 129}
		if diff := cmp.Diff(want, r.Features()); diff != "" {
			t.Errorf("features (-want +got):\n%s", diff)
		}
		if err := r.CleanEnd(); err != nil {
			t.Error(err)
		}
	})
}

// TestAttrSizes reads attrs of every size that there has been, and of one that
// there has not.
func TestAttrSizes(t *testing.T) {
	full := Attr{
		Type: 1, Config: 2, SamplePeriod: 3, SampleType: 4, ReadFormat: 5, Flags: 6, WakeupEvents: 7, BPType: 8, Config1: 9,
		Config2: 10, BranchSampleType: 11, SampleRegsUser: 12, SampleStackUser: 13, ClockID: -14, SampleRegsIntr: 15,
		AuxWatermark: 16, SampleMaxStack: 17, AuxSampleSize: 18, AuxAction: 19, SigData: 20, Config3: 21, Config4: 22,
	}
	both(t, func(t *testing.T, e endian) {
		for _, size := range []uint32{64, 72, 80, 96, 104, 112, 120, 128, 136, 144, 160} {
			want := full
			want.Size = size
			for limit, forget := range map[uint32]func(){
				72: func() { want.Config2 = 0 }, 80: func() { want.BranchSampleType = 0 },
				96:  func() { want.SampleRegsUser, want.SampleStackUser, want.ClockID = 0, 0, 0 },
				104: func() { want.SampleRegsIntr = 0 }, 112: func() { want.AuxWatermark, want.SampleMaxStack = 0, 0 },
				120: func() { want.AuxSampleSize, want.AuxAction = 0, 0 }, 128: func() { want.SigData = 0 },
				136: func() { want.Config3 = 0 }, 144: func() { want.Config4 = 0 },
			} {
				if size < limit {
					forget()
				}
			}
			b := append(full.encode(e), bytes.Repeat([]byte{0xff}, 16)...)
			e.put32(b[4:], size)
			if diff := cmp.Diff(want, parseAttr(b[:size], e)); diff != "" {
				t.Errorf("size %d (-want +got):\n%s", size, diff)
			}
		}
	})
}

// TestAttrFlags reads the bit-fields as compilers lay them out: from the least
// significant bit on a little-endian machine, from the most significant one on
// a big-endian one.
func TestAttrFlags(t *testing.T) {
	const flags = FlagDisabled | FlagComm | FlagSampleIDAll | FlagKSymbol | FlagTextPoke | 2<<preciseIPShift
	tests := []struct {
		e endian
		b []byte
	}{
		{little, []byte{0x01, 0x02, 0x05, 0x20, 0x02, 0, 0, 0}},
		{big, []byte{0x80, 0x41, 0x20, 0x04, 0x40, 0, 0, 0}},
	}
	for _, tt := range tests {
		got := tt.e.flags(tt.b)
		if got != flags || got.PreciseIP() != 2 {
			t.Errorf("%v: got %#x, precise_ip %d; want %#x, 2", tt.e.order(), uint64(got), got.PreciseIP(), uint64(flags))
		}
		b := make([]byte, 8)
		tt.e.putFlags(b, flags)
		if !bytes.Equal(b, tt.b) {
			t.Errorf("%v: wrote %x, want %x", tt.e.order(), b, tt.b)
		}
	}
	if bits.OnesCount64(uint64(FlagDeferOutput)) != 1 || FlagDeferOutput != 1<<39 || FlagTextPoke != 1<<33 {
		t.Error("the flags are out of step")
	}
}

func TestOpenDirectory(t *testing.T) {
	dir := t.TempDir()
	threads := func(version uint64) []byte {
		return build(t, little, testEvents(), func(w *Writer) {
			sample(w)
			w.WriteFeature(FeatureDirFormat, little.appendU64s(nil, []uint64{version}))
		})
	}
	good := threads(1)
	poke := func(addr uint64) []byte {
		c := encoder{endian: little}
		return bytes.Clone(c.textPoke(&TextPoke{Addr: addr, New: []byte{1}, SampleID: SampleID{ID: 14, Event: testEvents()[1]}}))
	}
	for name, b := range map[string][]byte{
		"data": good, "data.0": poke(0), "data.1": append(poke(1), poke(11)[:20]...), "data.2": poke(2), "data.10": poke(10),
		"data.old": {1, 2, 3}, "data.": {1}, "header": {1},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if r.Path() != dir || r.Dir() != dir {
		t.Errorf("Path %q, Dir %q", r.Path(), r.Dir())
	}
	if r.CleanEnd() == nil {
		t.Error("CleanEnd of several files is nil")
	}
	type place struct {
		File   int
		Offset int64
		Addr   uint64
	}
	var got []place
	s := r.Scan(Only(RecordTextPoke))
	for s.Next() {
		rec := s.Record()
		got = append(got, place{rec.File, rec.Offset, binary.LittleEndian.Uint64(rec.Raw[8:])})
	}
	want := []place{{0, int64(bytes.Index(good, []byte{20, 0, 0, 0, 1, 0})), 0xffffffff81000010}, {1, 0, 0}, {2, 0, 1}, {3, 0, 2}, {4, 0, 10}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pokes (-want +got):\n%s", diff)
	}
	// The error names the file that is cut, and the others are read.
	var fe *FormatError
	if err := s.Err(); !errors.As(err, &fe) || !errors.Is(err, ErrTruncated) || fe.File != filepath.Join(dir, "data.1") || fe.Offset != int64(len(poke(1))) {
		t.Errorf("Err() = %v", err)
	}
	// Files that the header does not ask for may be those of another recording.
	if err := os.WriteFile(filepath.Join(dir, "data"), threads(0), 0o666); err != nil {
		t.Fatal(err)
	}
	single, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer single.Close()
	if list, err := scan(single, Only(RecordTextPoke)); len(list) != 1 || err != nil || len(single.Warnings()) != 1 {
		t.Errorf("of one file: %d pokes, %v, warnings %v", len(list), err, single.Warnings())
	}
	if err := single.CleanEnd(); err != nil {
		t.Errorf("of one file: %v", err)
	}
	if _, err := Open(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty directory gives %v", err)
	}
}

func TestOpenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "perf.data")
	if _, err := Open(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there gives %v", err)
	}
	if err := os.WriteFile(path, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); !errors.Is(err, ErrTruncated) {
		t.Errorf("an empty file gives %v", err)
	}
	if err := os.WriteFile(path, build(t, little, testEvents(), sample), 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if r.Path() != path || r.Dir() != "" || !slices.Equal(r.Files(), []string{path}) {
		t.Errorf("Path %q, Dir %q, Files %q", r.Path(), r.Dir(), r.Files())
	}
	if err := r.CleanEnd(); err != nil {
		t.Error(err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if r.Scan().Next() {
		t.Error("a closed recording has records")
	}
}

// TestAttrsEnd: perf divides the attrs section into entries and ignores what is left over, so only
// a whole entry that is not in the file is missing.
func TestAttrsEnd(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		for name, b := range map[string][]byte{
			"attrs first": build(t, e, testEvents(), sample), "attrs behind": attrsBehind(e, build(t, e, testEvents(), sample)),
		} {
			whole := open(t, b)
			size, entry := e.u64(b[hdrAttrs+8:]), e.u64(b[hdrAttrSize:])
			for _, more := range []uint64{1, 8, entry - 1} {
				e.put64(b[hdrAttrs+8:], size+more)
				if r := open(t, b); len(r.Warnings()) > 0 || len(r.Events()) != len(whole.Events()) {
					t.Errorf("%s, %d bytes more: %d events, warnings %v", name, more, len(r.Events()), r.Warnings())
				}
			}
			if e.put64(b[hdrAttrs+8:], size+entry); name == "attrs behind" && len(open(t, b).Warnings()) == 0 {
				t.Error("an entry is not in the file: no warning")
			}
		}
	})
}
