// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package genperf

import (
	"bytes"
	"encoding/binary"
	"io"
	"strings"

	"github.com/textreplay/textreplay/perfdata"
)

// What BPF writes: a program of two functions, and a trampoline that is attached
// to the second one.
const (
	BPFProgram    = 42 // the program's id
	BPFMain       = 0xffffffffc0100000
	BPFSub        = 0xffffffffc0100040
	BPFTrampoline = 0xffffffffc0200000
	BPFLoaded     = 2_000_000_000 // nanoseconds: the program comes
	BPFAttached   = 3_000_000_000 // the trampoline
	BPFUnloaded   = 4_000_000_000 // both go
	BPFEnd        = 5_000_000_000
)

// BPF writes a recording of a BPF program that was compiled from C with line
// information, as perf record keeps it: which none of the recordings of the
// corpus has.
func BPF(out io.WriteSeeker) error {
	le := binary.LittleEndian
	event := &perfdata.Event{Name: "dummy:u", IDs: []uint64{1}, Attr: perfdata.Attr{
		Type: 1, Config: 9, // PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY
		SampleType: perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU | perfdata.SampleIdentifier,
		ReadFormat: perfdata.ReadFormatID | perfdata.ReadFormatLost,
		Flags:      perfdata.FlagSampleIDAll | perfdata.FlagComm | perfdata.FlagTextPoke | perfdata.FlagKSymbol | perfdata.FlagBPFEvent,
	}}
	w := perfdata.NewWriter(out, le)
	w.SetEvents([]*perfdata.Event{event})
	id := func(t uint64) perfdata.SampleID {
		return perfdata.SampleID{PID: 7, TID: 7, Time: t, ID: 1, Event: event}
	}
	w.IDIndex(&perfdata.IDIndex{Entries: []perfdata.IDIndexEntry{{ID: 1, TID: -1, VCPU: -1}}})
	w.Comm(0, &perfdata.Comm{PID: 7, TID: 7, Comm: []byte("bpftool"), SampleID: id(1_000_000_000)})
	symbol := func(t, addr uint64, n int, flags uint16, name string) {
		w.KSymbol(&perfdata.KSymbol{Addr: addr, Len: uint32(n), Kind: perfdata.KSymbolBPF, Flags: flags, Name: []byte(name), SampleID: id(t)})
	}
	const main, sub = "bpf_prog_0102030405060708_count", "bpf_prog_1112131415161718_add"
	// bpf_trampoline_compute_key: the id of the program and of the function's type.
	const trampoline = "bpf_trampoline_180388626435" // 42 << 32 | 3
	symbol(BPFLoaded, BPFMain, len(bpfMain), 0, main)
	symbol(BPFLoaded, BPFSub, len(bpfSub), 0, sub)
	event1 := &perfdata.BPFEvent{Kind: perfdata.BPFLoad, ID: BPFProgram, Tag: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, SampleID: id(BPFLoaded)}
	w.BPFEvent(event1)
	symbol(BPFAttached, BPFTrampoline, 4096, 0, trampoline)
	symbol(BPFUnloaded, BPFTrampoline, 4096, perfdata.KSymbolUnregister, trampoline)
	symbol(BPFUnloaded, BPFMain, len(bpfMain), perfdata.KSymbolUnregister, main)
	symbol(BPFUnloaded, BPFSub, len(bpfSub), perfdata.KSymbolUnregister, sub)
	event1.Kind, event1.SampleID = perfdata.BPFUnload, id(BPFUnloaded)
	w.BPFEvent(event1)
	w.Comm(0, &perfdata.Comm{PID: 7, TID: 7, Comm: []byte("end"), SampleID: id(BPFEnd)})

	for f, text := range map[perfdata.Feature]string{perfdata.FeatureOSRelease: release, perfdata.FeatureArch: "x86_64"} {
		b := append([]byte(text), make([]byte, 64-len(text)%64)...)
		w.WriteFeature(f, append(le.AppendUint32(nil, uint32(len(b))), b...))
	}
	w.WriteFeature(perfdata.FeatureNRCPUs, pack(uint32(1), uint32(1)))
	w.WriteFeature(perfdata.FeatureBPFProgInfo, bpfProgInfo())
	raw := bpfBTF()
	w.WriteFeature(perfdata.FeatureBPFBTF, pack(uint32(1), uint32(btfID), uint32(len(raw)), raw))
	return w.Close()
}

var (
	bpfMain = []byte("\xf3\x0f\x1e\xfa" + // endbr64
		"\x55\x48\x89\xe5" + // push %rbp; mov %rsp,%rbp
		"\xbf\x01\x00\x00\x00" + // mov $1,%edi
		"\xe8\x2e\x00\x00\x00" + // call BPFSub
		"\xc9\xc3") // leave; ret
	bpfSub = []byte("\x8d\x47\x01\xc3") // lea 1(%rdi),%eax; ret
)

const btfID = 9

// The strings that the program's BTF has.
const btfStrings = "\x00count\x00add\x00count.bpf.c\x00\treturn add(1);\x00\treturn x + 1;\x00}\x00"

func btfString(s string) uint32 { return uint32(strings.Index(btfStrings, "\x00"+s+"\x00") + 1) }

// bpfBTF is struct btf_header, a type of functions (1), two functions (2 and 3), and strings.
func bpfBTF() []byte {
	const kindFunc, kindFuncProto = 12 << 24, 13 << 24
	types := pack(
		uint32(0), uint32(kindFuncProto), uint32(0),
		btfString("count"), uint32(kindFunc), uint32(1),
		btfString("add"), uint32(kindFunc), uint32(1))
	header := pack(uint16(0xeb9f), uint8(1), uint8(0), uint32(24), uint32(0), uint32(len(types)), uint32(len(types)), uint32(len(btfStrings)))
	return pack(header, types, []byte(btfStrings))
}

// bpfProgInfo is the section BPF_PROG_INFO: struct perf_bpil around struct
// bpf_prog_info and the arrays that it points to.
func bpfProgInfo() []byte {
	le := binary.LittleEndian
	line := func(insn, line, column uint32, text string) []byte { // struct bpf_line_info
		return pack(insn, btfString("count.bpf.c"), btfString(text), line<<10|column)
	}
	info := make([]byte, 232)
	le.PutUint32(info[0:], 5) // BPF_PROG_TYPE_TRACEPOINT
	le.PutUint32(info[4:], BPFProgram)
	copy(info[8:], "\x01\x02\x03\x04\x05\x06\x07\x08")
	copy(info[64:], "count")
	le.PutUint32(info[128:], btfID)
	var data []byte
	var arrays uint64
	add := func(bit, pointer, count, recSize int, n uint32, b []byte) {
		le.PutUint64(info[pointer:], uint64(len(data)))
		le.PutUint32(info[count:], n)
		if recSize != 0 {
			le.PutUint32(info[recSize:], uint32(len(b))/n)
		}
		data = append(data, b...)
		data = append(data, make([]byte, (8-len(data)%8)%8)...)
		arrays |= 1 << bit
	}
	code := pack(bpfMain, bpfSub)
	add(0, 24, 16, 0, uint32(len(code)), code)
	add(3, 112, 104, 0, 2, pack(uint64(BPFMain), uint64(BPFSub)))
	add(4, 120, 108, 0, 2, pack(uint32(len(bpfMain)), uint32(len(bpfSub))))
	add(5, 136, 144, 132, 2, pack(uint32(0), uint32(2), uint32(5), uint32(3)))
	add(6, 152, 148, 172, 4, pack(
		line(0, 11, 9, "\treturn add(1);"), line(4, 12, 1, "}"),
		line(5, 5, 9, "\treturn x + 1;"), line(6, 6, 1, "}")))
	add(7, 160, 168, 176, 4, pack(uint64(BPFMain+8), uint64(BPFMain+18), uint64(BPFSub), uint64(BPFSub+3)))
	return pack(uint32(1), uint32(len(info)), uint32(len(data)), arrays, info, data)
}

// pack puts values together, little-endian.
func pack(values ...any) []byte {
	var b bytes.Buffer
	for _, v := range values {
		binary.Write(&b, binary.LittleEndian, v) // a Buffer takes everything
	}
	return b.Bytes()
}
