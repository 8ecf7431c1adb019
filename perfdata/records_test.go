// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pack lays values out one after the other: integers by their size, strings and
// bytes as they are, a text with NULs up to its width.
func (e endian) pack(values ...any) []byte {
	var b []byte
	for _, v := range values {
		switch v := v.(type) {
		case uint8:
			b = append(b, v)
		case uint16:
			b = append(b, 0, 0)
			e.put16(b[len(b)-2:], v)
		case uint32:
			b = e.appendU32s(b, v)
		case uint64:
			b = e.appendU64s(b, []uint64{v})
		case []uint64:
			b = e.appendU64s(b, v)
		case float64:
			b = e.appendU64s(b, []uint64{math.Float64bits(v)})
		case text:
			b = append(b, v.s...)
			b = append(b, make([]byte, v.width-len(v.s))...)
		case string:
			b = append(b, v...)
		case []byte:
			b = append(b, v...)
		default:
			panic(fmt.Sprintf("%T", v))
		}
	}
	return b
}

type text struct {
	s     string
	width int
}

// wordsOf makes what a decoder returns for an array.
func wordsOf(v ...uint64) Words { return Words{little.appendU64s(nil, v), little} }

// byValue compares what aliases a record, whatever its byte order.
var byValue = cmp.Options{
	cmp.Transformer("Words", func(w Words) []uint64 { return w.AppendTo(nil) }),
	cmp.Transformer("ReadValues", func(v ReadValues) any {
		var list []ReadValue
		for _, x := range v.All() {
			list = append(list, x)
		}
		return []any{v.Format, v.TimeEnabled, v.TimeRunning, list}
	}),
	cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Event" }, cmp.Ignore()),
}

// trailerOf packs the trailer of testEvents.
func trailerOf(e endian) []byte {
	return e.pack(uint32(100), uint32(101), uint64(1000), uint32(1), uint32(0), uint64(13))
}

var testTrailer = SampleID{PID: 100, TID: 101, Time: 1000, ID: 13, CPU: 1, Has: SampleTID | SampleTime | SampleCPU | SampleIdentifier}

// recordTests has a record of each type that no other test covers.
var recordTests = []struct {
	name string
	typ  RecordType
	body []any // without the trailer
	want any
}{
	{"THROTTLE", RecordThrottle, []any{uint64(5), uint64(13), uint64(14)}, &Throttle{ThrottleTime: 5, ID: 13, StreamID: 14, SampleID: testTrailer}},
	{"UNTHROTTLE", RecordUnthrottle, []any{uint64(6), uint64(13), uint64(14)}, &Throttle{ThrottleTime: 6, ID: 13, StreamID: 14, SampleID: testTrailer}},
	{"READ", RecordRead, []any{uint32(7), uint32(8), uint64(1 << 40), uint64(13), uint64(2)},
		&Read{PID: 7, TID: 8, Values: ReadValues{Format: ReadFormatID | ReadFormatLost, single: ReadValue{1 << 40, 13, 2}}, SampleID: testTrailer}},
	{"AUX", RecordAux, []any{uint64(0x1000), uint64(0x200), uint64(0x105)},
		&Aux{Offset: 0x1000, Size: 0x200, Flags: AuxTruncated | AuxPartial | 0x100, SampleID: testTrailer}},
	{"ITRACE_START", RecordItraceStart, []any{uint32(7), uint32(8)}, &ItraceStart{PID: 7, TID: 8, SampleID: testTrailer}},
	{"SWITCH", RecordSwitch, nil, &Switch{SampleID: testTrailer}},
	{"SWITCH_CPU_WIDE", RecordSwitchCPUWide, []any{uint32(7), uint32(8)}, &Switch{NextPrevPID: 7, NextPrevTID: 8, SampleID: testTrailer}},
	{"NAMESPACES", RecordNamespaces, []any{uint32(7), uint32(8), uint64(2), uint64(4), uint64(0xf0000000), uint64(4), uint64(0xf0000001)},
		&Namespaces{PID: 7, TID: 8, Links: []NamespaceLink{{4, 0xf0000000}, {4, 0xf0000001}}, SampleID: testTrailer}},
	{"CGROUP", RecordCgroup, []any{uint64(99), text{"/a/b.slice", 16}}, &Cgroup{ID: 99, Path: []byte("/a/b.slice"), SampleID: testTrailer}},
	{"AUX_OUTPUT_HW_ID", RecordAuxOutputHWID, []any{uint64(3)}, &AuxOutputHWID{HWID: 3, SampleID: testTrailer}},
	{"CALLCHAIN_DEFERRED", RecordCallchainDeferred, []any{uint64(1<<48 | 5), uint64(2), uint64(CallchainUser), uint64(0x7f0000001000)},
		&CallchainDeferred{Cookie: 1<<48 | 5, IPs: wordsOf(CallchainUser, 0x7f0000001000), SampleID: testTrailer}},

	{"HEADER_EVENT_TYPE", RecordHeaderEventType, []any{uint64(1), text{"instructions", 64}}, &HeaderEventType{EventID: 1, Name: []byte("instructions")}},
	{"HEADER_TRACING_DATA of simpleperf", RecordHeaderTracingData, []any{uint32(5), "\x17\x08\x44tr", uint8(0), uint16(0)},
		&HeaderTracingData{Size: 5, Data: []byte("\x17\x08\x44tr")}},
	{"HEADER_BUILD_ID", RecordHeaderBuildID, []any{uint32(0xffffffff), text{"\x01\x02\x03", 20}, uint8(3), uint8(0), uint16(0), text{"[kernel.kallsyms]", 24}},
		&BuildID{PID: -1, BuildID: append([]byte{1, 2, 3}, make([]byte, 17)...), Filename: []byte("[kernel.kallsyms]")}},
	{"AUXTRACE_INFO", RecordAuxtraceInfo, []any{uint32(3), uint32(0), uint64(1), uint64(2), uint64(3)},
		&AuxtraceInfo{Type: AuxtraceCoreSight, Priv: wordsOf(1, 2, 3)}},
	{"AUXTRACE", RecordAuxtrace, []any{uint64(8), uint64(0x4000), uint64(77), uint32(2), uint32(0xffffffff), uint32(3), uint32(0), "payload."},
		&Auxtrace{Size: 8, Offset: 0x4000, Reference: 77, Idx: 2, TID: 0xffffffff, CPU: 3}},
	{"AUXTRACE_ERROR 0", RecordAuxtraceError, []any{uint32(1), uint32(2), uint32(3), uint32(4), uint32(5), uint32(0), uint64(0x1234), text{"Overflow packet", 64}},
		&AuxtraceError{Type: 1, Code: 2, CPU: 3, PID: 4, TID: 5, IP: 0x1234, Msg: []byte("Overflow packet")}},
	{"AUXTRACE_ERROR 1", RecordAuxtraceError, []any{uint32(1), uint32(2), uint32(3), uint32(4), uint32(5), uint32(1), uint64(0x1234), uint64(9), text{"Lost", 8}},
		&AuxtraceError{Type: 1, Code: 2, CPU: 3, PID: 4, TID: 5, IP: 0x1234, Time: 9, Msg: []byte("Lost")}},
	{"AUXTRACE_ERROR 2", RecordAuxtraceError, []any{uint32(1), uint32(2), uint32(3), uint32(4), uint32(5), uint32(2), uint64(0x1234), uint64(9), text{"Lost", 64}, uint32(6), uint32(7)},
		&AuxtraceError{Type: 1, Code: 2, CPU: 3, PID: 4, TID: 5, IP: 0x1234, Time: 9, Msg: []byte("Lost"), MachinePID: 6, VCPU: 7}},
	{"THREAD_MAP", RecordThreadMap, []any{uint64(2), uint64(7), text{"sleep", 16}, ^uint64(0), text{"", 16}},
		&ThreadMap{Threads: []ThreadMapEntry{{PID: 7, Comm: []byte("sleep")}, {PID: -1, Comm: []byte{}}}}},
	{"STAT_CONFIG", RecordStatConfig, []any{uint64(2), uint64(StatConfigAggrMode), uint64(2), uint64(StatConfigInterval), uint64(1000)},
		&StatConfig{Terms: []StatConfigTerm{{StatConfigAggrMode, 2}, {StatConfigInterval, 1000}}}},
	{"STAT", RecordStat, []any{uint64(13), uint32(1), uint32(2), uint64(3), uint64(4), uint64(5)},
		&Stat{ID: 13, CPU: 1, Thread: 2, Value: 3, Enabled: 4, Running: 5}},
	{"STAT_ROUND", RecordStatRound, []any{uint64(StatRoundFinal), uint64(123)}, &StatRound{Kind: StatRoundFinal, Time: 123}},
	{"EVENT_UPDATE of the unit", RecordEventUpdate, []any{uint64(0), uint64(13), text{"Joules", 8}}, &EventUpdate{Kind: EventUpdateUnit, ID: 13, Text: []byte("Joules")}},
	{"EVENT_UPDATE of the scale", RecordEventUpdate, []any{uint64(1), uint64(13), 2.5}, &EventUpdate{Kind: EventUpdateScale, ID: 13, Scale: 2.5}},
	{"EVENT_UPDATE of the name", RecordEventUpdate, []any{uint64(2), uint64(13), text{"cycles", 8}}, &EventUpdate{Kind: EventUpdateName, ID: 13, Text: []byte("cycles")}},
	{"EVENT_UPDATE of the CPUs", RecordEventUpdate, []any{uint64(3), uint64(13), uint16(0), uint16(2), uint16(4), uint16(6)},
		&EventUpdate{Kind: EventUpdateCPUs, ID: 13, CPUs: CPUMap{CPUs: []int{4, 6}}}},
	{"HEADER_FEATURE", RecordHeaderFeature, []any{uint64(FeatureHostname), uint32(1), "x"}, &HeaderFeature{Feature: FeatureHostname, Data: nil}}, // Data: below
	{"BPF_METADATA", RecordBPFMetadata, []any{text{"bpf_prog_x", 256}, uint64(2), text{"commit", 64}, text{"abc", 256}, text{"age", 64}, text{"7", 256}},
		&BPFMetadata{ProgName: []byte("bpf_prog_x"), Entries: []BPFMetadataEntry{{[]byte("commit"), []byte("abc")}, {[]byte("age"), []byte("7")}}}},
	{"BPF_METADATA with a wider name", RecordBPFMetadata, []any{text{"bpf_prog_x", 512}, uint64(1), text{"commit", 64}, text{"abc", 256}},
		&BPFMetadata{ProgName: []byte("bpf_prog_x"), Entries: []BPFMetadataEntry{{[]byte("commit"), []byte("abc")}}}},
	{"BPF_METADATA with room for a trailer", RecordBPFMetadata, []any{text{"bpf_prog_x", 512}, uint64(1), text{"commit", 64}, text{"abc", 256}, uint64(0), uint64(0), uint64(0), uint64(0)},
		&BPFMetadata{ProgName: []byte("bpf_prog_x"), Entries: []BPFMetadataEntry{{[]byte("commit"), []byte("abc")}}}},
	{"BPF_METADATA without entries", RecordBPFMetadata, []any{text{"bpf_prog_x", 512}, uint64(0)}, &BPFMetadata{ProgName: []byte("bpf_prog_x")}},
	{"SCHEDSTAT_CPU", RecordSchedstatCPU, []any{uint64(9), uint32(2), uint16(15), uint16(0),
		uint32(1), uint32(2), uint32(3), uint32(4), uint32(5), uint32(6), uint64(7), uint64(8), uint64(9)},
		&SchedstatCPU{Timestamp: 9, CPU: 2, Version: 15, YieldCount: 1, ArrayExp: 2, SchedCount: 3, SchedGoIdle: 4, WakeupCount: 5, WakeupLocal: 6, RunTime: 7, RunDelay: 8, Timeslices: 9}},
	{"SCHEDSTAT_DOMAIN 15", RecordSchedstatDomain, append([]any{uint64(9), uint32(2), uint16(15), uint16(1)}, upTo(36)...),
		&SchedstatDomain{Timestamp: 9, CPU: 2, Version: 15, Domain: 1,
			Idle:        SchedstatBalance{Count: 1, Balanced: 2, Failed: 3, Imbalance: 4, Gained: 5, HotGained: 6, NoBusierQueue: 7, NoBusierGroup: 8},
			Busy:        SchedstatBalance{Count: 9, Balanced: 10, Failed: 11, Imbalance: 12, Gained: 13, HotGained: 14, NoBusierQueue: 15, NoBusierGroup: 16},
			NewIdle:     SchedstatBalance{Count: 17, Balanced: 18, Failed: 19, Imbalance: 20, Gained: 21, HotGained: 22, NoBusierQueue: 23, NoBusierGroup: 24},
			ActiveCount: 25, ActiveFailed: 26, ActivePushed: 27, ExecCount: 28, ExecBalanced: 29, ExecPushed: 30, ForkCount: 31, ForkBalanced: 32, ForkPushed: 33,
			WakeRemote: 34, WakeAffine: 35, WakeBalance: 36}},
	{"SCHEDSTAT_DOMAIN 17", RecordSchedstatDomain, append([]any{uint64(9), uint32(2), uint16(17), uint16(1)}, upTo(46)...),
		&SchedstatDomain{Timestamp: 9, CPU: 2, Version: 17, Domain: 1,
			Busy:        SchedstatBalance{Count: 1, Balanced: 2, Failed: 3, ImbalanceLoad: 4, ImbalanceUtil: 5, ImbalanceTask: 6, ImbalanceMisfit: 7, Gained: 8, HotGained: 9, NoBusierQueue: 10, NoBusierGroup: 11},
			Idle:        SchedstatBalance{Count: 12, Balanced: 13, Failed: 14, ImbalanceLoad: 15, ImbalanceUtil: 16, ImbalanceTask: 17, ImbalanceMisfit: 18, Gained: 19, HotGained: 20, NoBusierQueue: 21, NoBusierGroup: 22},
			NewIdle:     SchedstatBalance{Count: 23, Balanced: 24, Failed: 25, ImbalanceLoad: 26, ImbalanceUtil: 27, ImbalanceTask: 28, ImbalanceMisfit: 29, Gained: 30, HotGained: 31, NoBusierQueue: 32, NoBusierGroup: 33},
			ActiveCount: 34, ActiveFailed: 35, ActivePushed: 36, ExecCount: 37, ExecBalanced: 38, ExecPushed: 39, ForkCount: 40, ForkBalanced: 41, ForkPushed: 42,
			WakeRemote: 43, WakeAffine: 44, WakeBalance: 45}},
	{"MMAP2 with a protection of simpleperf", RecordMMAP2, []any{uint32(7), uint32(8), uint64(0x7000), uint64(0x1000), uint64(0), uint32(8), uint32(1), uint64(41), uint64(7), uint32(0x4001), uint32(0x11), text{"TemporaryFile-1", 64}},
		&Mmap{PID: 7, TID: 8, Addr: 0x7000, Len: 0x1000, Major: 8, Minor: 1, Ino: 41, InoGeneration: 7, Prot: 0x4001, Flags: 0x11, Filename: []byte("TemporaryFile-1"), SampleID: testTrailer}},
	{"MMAP2 with all bits of a protection", RecordMMAP2, []any{uint32(7), uint32(8), uint64(0x7000), uint64(0x1000), uint64(0), uint32(8), uint32(1), uint64(41), uint64(7), uint32(0xffffff), uint32(0xffffff), text{"/lib/ld.so", 16}},
		&Mmap{PID: 7, TID: 8, Addr: 0x7000, Len: 0x1000, Major: 8, Minor: 1, Ino: 41, InoGeneration: 7, Prot: 0xffffff, Flags: 0xffffff, Filename: []byte("/lib/ld.so"), SampleID: testTrailer}},
	{"MMAP2 without a name", RecordMMAP2, []any{uint32(7), uint32(8), uint64(0x7000), uint64(0x1000), uint64(0), uint32(8), uint32(1), uint64(41), uint64(7), uint32(5), uint32(2), text{"", 8}},
		&Mmap{PID: 7, TID: 8, Addr: 0x7000, Len: 0x1000, Major: 8, Minor: 1, Ino: 41, InoGeneration: 7, Prot: 5, Flags: 2, Filename: []byte{}, SampleID: testTrailer}},
	{"MMAP2 of a kernel before 3.16, with a short name", RecordMMAP2, []any{uint32(7), uint32(8), uint64(0x400000), uint64(0x6000), uint64(0), uint32(8), uint32(1), uint64(41), uint64(7), text{"[vdso]", 8}},
		&Mmap{PID: 7, TID: 8, Addr: 0x400000, Len: 0x6000, Major: 8, Minor: 1, Ino: 41, InoGeneration: 7, Filename: []byte("[vdso]"), SampleID: testTrailer}},
	{"COMM with bytes behind its name", RecordComm, []any{uint32(7), uint32(8), text{"sh", 8}, uint64(0), text{"8 bytes!", 8}},
		&Comm{PID: 7, TID: 8, Comm: []byte("sh"), SampleID: testTrailer, Excess: 8}},
	{"MMAP2 of a kernel before 3.16", RecordMMAP2, []any{uint32(7), uint32(8), uint64(0x400000), uint64(0x6000), uint64(0), uint32(8), uint32(1), uint64(41), uint64(7), text{"/usr/bin/true", 16}},
		&Mmap{PID: 7, TID: 8, Addr: 0x400000, Len: 0x6000, Major: 8, Minor: 1, Ino: 41, InoGeneration: 7, Filename: []byte("/usr/bin/true"), SampleID: testTrailer}},
}

func upTo(n uint32) (list []any) {
	for i := range n {
		list = append(list, i+1)
	}
	return list
}

// record packs a record of recordTests.
func packRecord(e endian, typ RecordType, body []any) []byte {
	b := e.pack(body...)
	if typ < firstUserRecord {
		b = append(b, trailerOf(e)...)
	}
	raw := rawRecord(e, typ, 0, b)
	if typ == RecordAuxtrace {
		e.put16(raw[6:], auxtraceBody) // the trace is not counted
	}
	return raw
}

// TestRecords decodes a record of every type in either byte order.
func TestRecords(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		for _, tt := range recordTests {
			t.Run(tt.name, func(t *testing.T) {
				raw := packRecord(e, tt.typ, tt.body)
				r := open(t, build(t, e, testEvents(), func(w *Writer) {
					if err := w.WriteRecord(raw); err != nil {
						t.Fatal(err)
					}
				}))
				s := r.Scan()
				if !s.Next() {
					t.Fatal(s.Err())
				}
				want := tt.want
				if h, ok := want.(*HeaderFeature); ok {
					want = &HeaderFeature{Feature: h.Feature, Data: e.pack(uint32(1), "x")}
				}
				got, err := r.Decode(s.Record())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got, byValue); diff != "" {
					t.Errorf("record (-want +got):\n%s", diff)
				}
				// What is left of it must decode too, or say that it is too short.
				for n := headerSize; n < len(s.Record().Raw); n += 4 {
					rec := *s.Record()
					rec.Raw = rec.Raw[:n:n]
					if _, err := r.Decode(&rec); err != nil {
						var fe *FormatError
						if !errors.As(err, &fe) || fe.Record != tt.typ {
							t.Errorf("%d bytes: %v", n, err)
						}
					}
				}
			})
		}
	})
}

// TestHeaderAttr decodes an event of a pipe.
func TestHeaderAttr(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		ev := testEvents()[1]
		body := e.appendU64s(ev.Attr.encode(e)[:ev.Attr.Size], ev.IDs)
		e.put32(body[4:], ev.Attr.Size)
		r := &Recording{endian: e}
		var h HeaderAttr
		if err := r.HeaderAttr(&Record{Type: RecordHeaderAttr, Raw: rawRecord(e, RecordHeaderAttr, 0, body)}, &h); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(HeaderAttr{Attr: ev.Attr, IDs: wordsOf(13, 14)}, h, byValue); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		e.put32(body[4:], 200)
		if err := r.HeaderAttr(&Record{Type: RecordHeaderAttr, Raw: rawRecord(e, RecordHeaderAttr, 0, body)}, &h); err == nil || !strings.Contains(err.Error(), "attr of 200 bytes in a record of 152") {
			t.Errorf("an attr longer than its record: %v", err)
		}
	})
}

// TestRecordsMalformed spoils records in such a way that their frame stays.
func TestRecordsMalformed(t *testing.T) {
	tests := []struct {
		name string
		typ  RecordType
		body []any
		want string
	}{
		{"NAMESPACES", RecordNamespaces, []any{uint32(7), uint32(8), uint64(2), uint64(4), uint64(5)}, "2 namespaces do not fit in 72 bytes"},
		{"NAMESPACES of everything", RecordNamespaces, []any{uint32(7), uint32(8), ^uint64(0)}, "18446744073709551615 namespaces do not fit"},
		{"CGROUP", RecordCgroup, []any{uint64(99), "/a/b.sli"}, "the name has no end"},
		{"READ", RecordRead, []any{uint32(7), uint32(8), uint64(1)}, "record of 56 bytes is too short"},
		{"CALLCHAIN_DEFERRED", RecordCallchainDeferred, []any{uint64(5), uint64(3), uint64(1)}, "3 addresses do not fit in 64 bytes"},
		{"THROTTLE", RecordThrottle, []any{uint64(5), uint64(3)}, "record of 56 bytes is too short"},
		{"SWITCH_CPU_WIDE", RecordSwitchCPUWide, nil, "record of 40 bytes is too short"},
		{"HEADER_ATTR", RecordHeaderAttr, []any{text{"", 56}}, "record of 64 bytes is too short"},
		{"HEADER_BUILD_ID", RecordHeaderBuildID, []any{text{"", 24}}, "record of 32 bytes is too short"},
		{"HEADER_FEATURE", RecordHeaderFeature, []any{uint64(256), uint64(0)}, "feature 256"},
		{"AUXTRACE_ERROR", RecordAuxtraceError, []any{text{"", 20}, uint32(2), uint64(0), uint64(0), text{"x", 64}}, "record of 112 bytes is too short for its format 2"},
		{"THREAD_MAP", RecordThreadMap, []any{uint64(1), uint64(7), uint64(0)}, "1 tasks do not fit in 32 bytes"},
		{"STAT_CONFIG", RecordStatConfig, []any{^uint64(0)}, "18446744073709551615 terms do not fit in 16 bytes"},
		{"EVENT_UPDATE of the scale", RecordEventUpdate, []any{uint64(1), uint64(13)}, "record of 24 bytes is too short for a scale"},
		{"EVENT_UPDATE of the CPUs", RecordEventUpdate, []any{uint64(3), uint64(13), uint16(0), uint16(3), uint32(0)}, "3 CPUs do not fit in 32 bytes"},
		{"EVENT_UPDATE of another kind", RecordEventUpdate, []any{uint64(4), uint64(13)}, "unsupported: kind 4"},
		{"BPF_METADATA", RecordBPFMetadata, []any{text{"bpf_prog_x", 256}, uint64(2), text{"commit", 64}, text{"abc", 256}}, "no number of entries accounts for 592 bytes"},
		{"SCHEDSTAT_CPU", RecordSchedstatCPU, []any{uint64(9), uint32(2), uint16(14), uint16(0)}, "unsupported: version 14"},
		{"SCHEDSTAT_CPU cut", RecordSchedstatCPU, []any{uint64(9), uint32(2), uint16(17), uint16(0), uint64(0)}, "record of 32 bytes is too short"},
		{"SCHEDSTAT_DOMAIN cut", RecordSchedstatDomain, append([]any{uint64(9), uint32(2), uint16(16), uint16(0)}, upTo(34)...), "record of 160 bytes is too short"},
	}
	r := open(t, build(t, little, testEvents(), nil))
	for _, tt := range tests {
		raw := packRecord(little, tt.typ, tt.body)
		v, err := r.Decode(&Record{Type: tt.typ, Offset: 77, Raw: raw})
		var fe *FormatError
		if !errors.As(err, &fe) || fe.Offset != 77 || fe.Record != tt.typ || !strings.Contains(err.Error(), tt.want) || v != nil {
			t.Errorf("%s: got %v, %v, want an error with %q", tt.name, v, err, tt.want)
		}
	}
}

// TestDecodeAllTypes holds Decode against the list of types: each that is known
// decodes, or has no content.
func TestDecodeAllTypes(t *testing.T) {
	r := open(t, build(t, little, testEvents(), nil))
	without := []RecordType{RecordFinishedRound, RecordFinishedInit, RecordCompressed, RecordCompressed2}
	for typ := range RecordType(100) {
		v, err := r.Decode(&Record{Type: typ, Raw: rawRecord(little, typ, 0, nil)})
		decodes := typ.known() && !slices.Contains(without, typ)
		if v != nil || (err != nil) != decodes {
			t.Errorf("%v of 8 bytes: %v, %v", typ, v, err)
		}
	}
	// And no decoder takes a record of another type.
	rec := &Record{Type: 23, Raw: rawRecord(little, 23, 0, make([]byte, 400))}
	for want, err := range map[RecordType]error{
		RecordThrottle: r.Throttle(rec, new(Throttle)), RecordRead: r.Read(rec, new(Read)), RecordAux: r.Aux(rec, new(Aux)),
		RecordItraceStart: r.ItraceStart(rec, new(ItraceStart)), RecordSwitch: r.Switch(rec, new(Switch)), RecordNamespaces: r.Namespaces(rec, new(Namespaces)),
		RecordCgroup: r.Cgroup(rec, new(Cgroup)), RecordAuxOutputHWID: r.AuxOutputHWID(rec, new(AuxOutputHWID)), RecordSample: r.Sample(rec, new(Sample)),
		RecordCallchainDeferred: r.CallchainDeferred(rec, new(CallchainDeferred)), RecordHeaderAttr: r.HeaderAttr(rec, new(HeaderAttr)),
		RecordHeaderEventType: r.HeaderEventType(rec, new(HeaderEventType)), RecordHeaderTracingData: r.HeaderTracingData(rec, new(HeaderTracingData)),
		RecordHeaderBuildID: r.BuildID(rec, new(BuildID)), RecordAuxtraceInfo: r.AuxtraceInfo(rec, new(AuxtraceInfo)), RecordAuxtrace: r.Auxtrace(rec, new(Auxtrace)),
		RecordAuxtraceError: r.AuxtraceError(rec, new(AuxtraceError)), RecordThreadMap: r.ThreadMap(rec, new(ThreadMap)), RecordStatConfig: r.StatConfig(rec, new(StatConfig)),
		RecordStat: r.Stat(rec, new(Stat)), RecordStatRound: r.StatRound(rec, new(StatRound)), RecordEventUpdate: r.EventUpdate(rec, new(EventUpdate)),
		RecordHeaderFeature: r.HeaderFeature(rec, new(HeaderFeature)), RecordBPFMetadata: r.BPFMetadata(rec, new(BPFMetadata)),
		RecordSchedstatCPU: r.SchedstatCPU(rec, new(SchedstatCPU)), RecordSchedstatDomain: r.SchedstatDomain(rec, new(SchedstatDomain)),
	} {
		if err == nil || !strings.HasSuffix(err.Error(), "decoded as "+want.String()) {
			t.Errorf("got error %v, want one that ends %q", err, "decoded as "+want.String())
		}
	}
}

// TestDecodersDoNotAllocate runs those that promise it.
func TestDecodersDoNotAllocate(t *testing.T) {
	r := open(t, build(t, little, testEvents(), nil))
	var reused struct {
		namespaces Namespaces
		threads    ThreadMap
		terms      StatConfig
		update     EventUpdate
		metadata   BPFMetadata
	}
	decoders := map[RecordType]func(rec *Record) error{
		RecordThrottle:          func(rec *Record) error { var v Throttle; return r.Throttle(rec, &v) },
		RecordRead:              func(rec *Record) error { var v Read; return r.Read(rec, &v) },
		RecordAux:               func(rec *Record) error { var v Aux; return r.Aux(rec, &v) },
		RecordSwitchCPUWide:     func(rec *Record) error { var v Switch; return r.Switch(rec, &v) },
		RecordCgroup:            func(rec *Record) error { var v Cgroup; return r.Cgroup(rec, &v) },
		RecordCallchainDeferred: func(rec *Record) error { var v CallchainDeferred; return r.CallchainDeferred(rec, &v) },
		RecordHeaderBuildID:     func(rec *Record) error { var v BuildID; return r.BuildID(rec, &v) },
		RecordAuxtraceError:     func(rec *Record) error { var v AuxtraceError; return r.AuxtraceError(rec, &v) },
		RecordSchedstatDomain:   func(rec *Record) error { var v SchedstatDomain; return r.SchedstatDomain(rec, &v) },
		RecordNamespaces:        func(rec *Record) error { return r.Namespaces(rec, &reused.namespaces) },
		RecordThreadMap:         func(rec *Record) error { return r.ThreadMap(rec, &reused.threads) },
		RecordStatConfig:        func(rec *Record) error { return r.StatConfig(rec, &reused.terms) },
		RecordEventUpdate:       func(rec *Record) error { return r.EventUpdate(rec, &reused.update) },
		RecordBPFMetadata:       func(rec *Record) error { return r.BPFMetadata(rec, &reused.metadata) },
	}
	for _, tt := range recordTests {
		decode := decoders[tt.typ]
		if decode == nil {
			continue
		}
		rec := &Record{Type: tt.typ, Raw: packRecord(little, tt.typ, tt.body)}
		if n := testing.AllocsPerRun(10, func() {
			if err := decode(rec); err != nil {
				t.Error(tt.name, err)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", tt.name, n)
		}
	}
}
