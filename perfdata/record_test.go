// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// unhex reads bytes written as hex digits with spaces and line breaks.
func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		panic(err)
	}
	return b
}

// TestDecode decodes records that are written out byte by byte.
func TestDecode(t *testing.T) {
	trailer := SampleID{PID: 0x64, TID: 0x65, Time: 0x3b9aca00, ID: 13, CPU: 1, Has: SampleTID | SampleTime | SampleCPU | SampleIdentifier}
	const littleTrailer = ` 64000000 65000000  00ca9a3b00000000  01000000 00000000  0d00000000000000`
	const bigTrailer = `    00000064 00000065  000000003b9aca00  00000001 00000000  000000000000000d`
	tests := []struct {
		name string
		e    endian
		raw  string
		want any
	}{
		{"TEXT_POKE", little, `14000000 0100 4000  1000008 1ffffffff 0500 0500  0f1f440000 e801020304 0000` + littleTrailer,
			&TextPoke{Addr: 0xffffffff81000010, Old: unhex("0f1f440000"), New: unhex("e801020304"), SampleID: trailer}},
		{"TEXT_POKE", big, `00000014 0001 0040  ffffffff81000010 0005 0005  0f1f440000 e801020304 0000` + bigTrailer,
			&TextPoke{Addr: 0xffffffff81000010, Old: unhex("0f1f440000"), New: unhex("e801020304"), SampleID: trailer}},
		{"TEXT_POKE of a second listener", little, `14000000 0100 5800  10000081ffffffff 0100 0100  90cc 0000` + littleTrailer + strings.Repeat("ee", 32),
			&TextPoke{Addr: 0xffffffff81000010, Old: unhex("90"), New: unhex("cc"), SampleID: trailer, Excess: 32}},
		{"KSYMBOL", little, `11000000 0000 4800  00d000c0ffffffff 4d000000 0100 0100  6270665f70726f67 5f78000000000000` + littleTrailer,
			&KSymbol{Addr: 0xffffffffc000d000, Len: 77, Kind: KSymbolBPF, Flags: KSymbolUnregister, Name: []byte("bpf_prog_x"), SampleID: trailer}},
		{"KSYMBOL with a name of 8 bytes less one", big, `00000011 0000 0048  ffffffffc000d000 00001000 0002 0000  6b70726f62657300` + bigTrailer + `0000000000000000`,
			&KSymbol{Addr: 0xffffffffc000d000, Len: 4096, Kind: KSymbolOOL, Name: []byte("kprobes"), SampleID: trailer, Excess: 8}},
		{"BPF_EVENT", little, `12000000 0000 3800  0100 0000 2a000000 0102030405060708` + littleTrailer,
			&BPFEvent{Kind: BPFLoad, ID: 42, Tag: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, SampleID: trailer}},
		{"BPF_EVENT", big, `00000012 0000 0038  0002 0000 0000002a 0102030405060708` + bigTrailer,
			&BPFEvent{Kind: BPFUnload, ID: 42, Tag: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, SampleID: trailer}},
		{"MMAP", little, `01000000 0100 5000  ffffffff 00000000  00000081ffffffff 0000000200000000 10000081ffffffff  5b6b5d0000000000` + littleTrailer,
			&Mmap{PID: 0xffffffff, Addr: 0xffffffff81000000, Len: 0x2000000, Pgoff: 0xffffffff81000010, Filename: []byte("[k]"), SampleID: trailer}},
		{"MMAP2", little, `0a000000 0200 7000  64000000 65000000  0010400000000000 0020000000000000 0010000000000000
				08000000 01000000 2900000000000000 0700000000000000  05000000 02000000  2f62696e2f736800` + littleTrailer,
			&Mmap{PID: 0x64, TID: 0x65, Addr: 0x401000, Len: 0x2000, Pgoff: 0x1000, Major: 8, Minor: 1, Ino: 41, InoGeneration: 7, Prot: 5, Flags: 2,
				Filename: []byte("/bin/sh"), SampleID: trailer}},
		{"MMAP2 with a build id", big, `0000000a 4002 0070  00000064 00000065  0000000000401000 0000000000002000 0000000000001000
				14 000000 000102030405060708090a0b0c0d0e0f10111213  00000005 00000002  2f62696e2f736800` + bigTrailer,
			&Mmap{PID: 0x64, TID: 0x65, Addr: 0x401000, Len: 0x2000, Pgoff: 0x1000, BuildID: unhex("000102030405060708090a0b0c0d0e0f10111213"), Prot: 5, Flags: 2,
				Filename: []byte("/bin/sh"), SampleID: trailer}},
		{"COMM", little, `03000000 0020 3800  64000000 65000000 736c656570000000` + littleTrailer,
			&Comm{PID: 0x64, TID: 0x65, Comm: []byte("sleep"), SampleID: trailer}},
		{"FORK", little, `07000000 0000 4000  66000000 64000000 67000000 65000000 0100000000000000` + littleTrailer,
			&Task{PID: 0x66, PPID: 0x64, TID: 0x67, PTID: 0x65, TaskTime: 1, SampleID: trailer}},
		{"EXIT", big, `00000004 0000 0040  00000066 00000064 00000067 00000065 0000000000000001` + bigTrailer,
			&Task{PID: 0x66, PPID: 0x64, TID: 0x67, PTID: 0x65, TaskTime: 1, SampleID: trailer}},
		{"LOST", little, `02000000 0000 3800  0b00000000000000 2500000000000000` + littleTrailer,
			&Lost{ID: 11, Lost: 37, SampleID: trailer}},
		{"LOST_SAMPLES", big, `0000000d 0000 0030  0000000000000025` + bigTrailer,
			&LostSamples{Lost: 37, SampleID: trailer}},
		{"TIME_CONV", little, `4f000000 0000 2000  1f00000000000000 b3d54d3100000000 0e1a9939ffffffff`,
			&TimeConv{Shift: 31, Mult: 0x314dd5b3, Zero: 0xffffffff39991a0e, CapTimeZero: true}},
		{"TIME_CONV of a short counter", little, `4f000000 0000 3800  1500000000000000 0000000200000000 b04bc2dbffffffff 4daf5b0200000000 ffffffffffffff01 0001 000000000000`,
			&TimeConv{Shift: 21, Mult: 1 << 25, Zero: 0xffffffffdbc24bb0, Cycles: 0x25baf4d, Mask: 1<<57 - 1, CapTimeShort: true}},
		{"ID_INDEX", big, `00000045 0000 0030  0000000000000001  000000000000000b 0000000000000001 ffffffffffffffff 0000000000000065`,
			&IDIndex{Entries: []IDIndexEntry{{ID: 11, Idx: 1, CPU: -1, TID: 101, VCPU: -1}}}},
		{"CPU_MAP of CPUs", little, `4a000000 0000 1800  0000 0300  0000 0200 ffff 000000000000`,
			&CPUMap{CPUs: []int{0, 2}, Any: true}},
		{"CPU_MAP of a mask of 8-byte words", little, `4a000000 0000 2800  0100 0200 0800 00000000  0500000000000080 0100000000000000 000000000000`,
			&CPUMap{CPUs: []int{0, 2, 63, 64}}},
		{"CPU_MAP of a mask of 4-byte words", big, `0000004a 0000 0018  0001 0002 0004 80000001 00000002 0000`,
			&CPUMap{CPUs: []int{0, 31, 33}}},
		{"CPU_MAP of a range", little, `4a000000 0000 1000  0200 0000 0300 0500`,
			&CPUMap{CPUs: []int{3, 4, 5}}},
	}
	for _, tt := range tests {
		name := tt.name
		if tt.e == big {
			name += "/big"
		}
		t.Run(name, func(t *testing.T) {
			raw := unhex(tt.raw)
			r := open(t, build(t, tt.e, testEvents(), func(w *Writer) {
				if err := w.WriteRecord(raw); err != nil {
					t.Fatal(err)
				}
			}))
			s := r.Scan()
			if !s.Next() {
				t.Fatal(s.Err())
			}
			got, err := decode(r, s.Record())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Event" }, cmp.Ignore())); diff != "" {
				t.Errorf("record (-want +got):\n%s", diff)
			}
			var id SampleID
			if err := r.SampleID(s.Record(), &id); err != nil {
				t.Fatal(err)
			}
			want := trailer
			want.Event = r.Events()[1]
			if s.Record().Type >= firstUserRecord {
				want = SampleID{}
			}
			if diff := cmp.Diff(want, id, ignoreLayouts); diff != "" {
				t.Errorf("SampleID (-want +got):\n%s", diff)
			}
		})
	}
}

// TestDecodeMalformed hands records to the decoders whose framing is intact but
// whose content is not.
func TestDecodeMalformed(t *testing.T) {
	const trailer = ` 64000000 65000000  00ca9a3b00000000  01000000 00000000  0d00000000000000`
	tests := []struct{ name, raw, want string }{
		{"poke bytes past the record", `14000000 0100 3800  10000081ffffffff 0100 5000  90cc 0000` + trailer, "instruction bytes run past the record of 56 bytes"},
		{"poke bytes within the trailer", `14000000 0100 3800  10000081ffffffff 0100 0500  90cc 0000` + trailer, "too short for its sample id"},
		{"symbol without an end", `11000000 0000 2000  00d000c0ffffffff 4d000000 0100 0100  6270665f70726f67`, "its name has no end"},
		{"symbol without a name", `11000000 0000 1800  00d000c0ffffffff 4d000000 0100 0100`, "its name has no end"},
		{"BPF event without trailer", `12000000 0000 1800  0100 0000 2a000000 0102030405060708`, "too short for its sample id"},
		{"MMAP name without an end", `01000000 0100 5000  ffffffff 00000000  00000081ffffffff 0000000200000000 10000081ffffffff  5b6b5d4141414141` + trailer, "the name has no end"},
		{"MMAP", `01000000 0100 4000  ffffffff 00000000  00000081ffffffff 0000000200000000` + trailer, "record of 64 bytes is too short"},
		{"MMAP2", `0a000000 0100 5000  ffffffff 00000000  00000081ffffffff 0000000200000000 10000081ffffffff  5b6b5d0000000000` + trailer, "record of 80 bytes is too short"},
		{"COMM without trailer", `03000000 0000 1800  64000000 65000000 736c656570000000`, "too short for its sample id"},
		{"FORK", `07000000 0000 3800  66000000 64000000 67000000 65000000` + trailer, "record of 56 bytes is too short"},
		{"LOST", `02000000 0000 3000  0b00000000000000` + trailer, "record of 48 bytes is too short"},
		{"LOST_SAMPLES", `0d000000 0000 2800 ` + trailer, "record of 40 bytes is too short"},
		{"TIME_CONV", `4f000000 0000 1800  1f00000000000000 b3d54d3100000000`, "record of 24 bytes is too short"},
		{"TIME_CONV by nothing", `4f000000 0000 2000  1f00000000000000 0000000000000000 0e1a9939ffffffff`, "counter factor 0 >> 31"},
		{"ID_INDEX", `45000000 0000 3000  0200000000000000  0b00000000000000 0000000000000000 0000000000000000 0000000000000000`, "2 entries do not fit in 48 bytes"},
		{"ID_INDEX of everything", `45000000 0000 1000  ffffffffffffffff`, "18446744073709551615 entries do not fit"},
		{"CPU_MAP of CPUs", `4a000000 0000 1000  0000 0300 0000 0000`, "3 CPUs do not fit in 16 bytes"},
		{"CPU_MAP of a mask", `4a000000 0000 1800  0100 0200 0800 00000000  050000000000`, "mask of 2 words does not fit in 24 bytes"},
		{"CPU_MAP of odd words", `4a000000 0000 1800  0100 0100 0300 00000000  050000000000`, "mask of words of 3 bytes"},
		{"CPU_MAP of another type", `4a000000 0000 1000  0900 0100 0300 0000`, "unsupported: CPU map type 9"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			raw := unhex(tt.raw)
			r := open(t, build(t, little, testEvents(), func(w *Writer) {
				if err := w.WriteRecord(raw); err != nil {
					t.Fatal(err)
				}
			}))
			s := r.Scan()
			if !s.Next() {
				t.Fatal(s.Err())
			}
			_, err := decode(r, s.Record())
			var fe *FormatError
			if !errors.As(err, &fe) {
				t.Fatalf("got error %v, want a FormatError", err)
			}
			if fe.Offset != s.Record().Offset || fe.Record != s.Record().Type || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got error %q, want one with %q for the %v at %d", err, tt.want, s.Record().Type, s.Record().Offset)
			}
			if s.Next() || s.Err() != nil {
				t.Error("the scanner minds what is in a record:", s.Err())
			}
		})
	}
}

// TestDecodeOtherType hands each decoder a record of another type.
func TestDecodeOtherType(t *testing.T) {
	r := open(t, build(t, little, testEvents(), nil))
	rec := &Record{Type: RecordThrottle, Raw: rawRecord(little, RecordThrottle, 0, make([]byte, 200))}
	for name, err := range map[string]error{
		"TEXT_POKE":    r.TextPoke(rec, new(TextPoke)),
		"KSYMBOL":      r.KSymbol(rec, new(KSymbol)),
		"BPF_EVENT":    r.BPFEvent(rec, new(BPFEvent)),
		"MMAP":         r.Mmap(rec, new(Mmap)),
		"COMM":         r.Comm(rec, new(Comm)),
		"FORK":         r.Task(rec, new(Task)),
		"LOST":         r.Lost(rec, new(Lost)),
		"LOST_SAMPLES": r.LostSamples(rec, new(LostSamples)),
		"TIME_CONV":    r.TimeConv(rec, new(TimeConv)),
		"ID_INDEX":     r.IDIndex(rec, new(IDIndex)),
		"CPU_MAP":      r.CPUMap(rec, new(CPUMap)),
	} {
		if want := "decoded as " + name; err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("got error %v, want one that ends %q", err, want)
		}
	}
}

func TestRecordTypeString(t *testing.T) {
	for typ, want := range map[RecordType]string{
		0: "UNKNOWN_0", RecordTextPoke: "TEXT_POKE", 23: "UNKNOWN_23", RecordHeaderAttr: "ATTR",
		RecordHeaderFeature: "FEATURE", RecordSchedstatDomain: "SCHEDSTAT_DOMAIN", 87: "UNKNOWN_87", 32775: "UNKNOWN_32775", 0xffffffff: "UNKNOWN_4294967295",
	} {
		if got := typ.String(); got != want {
			t.Errorf("%d: got %s, want %s", uint32(typ), got, want)
		}
	}
}

// TestTooShort: a record that is too short for its type is not handed over.
func TestTooShort(t *testing.T) {
	for name, record := range map[string]string{
		"TEXT_POKE without lengths": `14000000 0100 1000  10000081ffffffff`,
		"BPF_EVENT without a tag":   `12000000 0000 1000  0100 0000 2a000000`,
	} {
		t.Run(name, func(t *testing.T) {
			raw := unhex(record)
			r := open(t, build(t, little, testEvents(), func(w *Writer) {
				if err := w.WriteRecord(raw); err != nil {
					t.Fatal(err)
				}
			}))
			s := r.Scan()
			if s.Next() {
				t.Errorf("got a record: %v of %d bytes", s.Record().Type, len(s.Record().Raw))
			}
			var fe *FormatError
			if !errors.As(s.Err(), &fe) || !strings.Contains(fe.Error(), "record of 16 bytes, which its type does not have") {
				t.Errorf("got error %v, want a FormatError that names the size", s.Err())
			}
		})
	}
}
