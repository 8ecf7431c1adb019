// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package rawperf

import "fmt"

// stringPad is what perf pads the strings of features to (NAME_ALIGN, header.c).
const stringPad = 64

func (w *buffer) str(s string) *buffer {
	n := (len(s) + 1 + stringPad - 1) / stringPad * stringPad
	return w.u32(uint32(n)).bytes([]byte(s)).bytes(make([]byte, n-len(s)))
}

// String encodes a feature that is one string.
func (f Format) String(s string) []byte { return f.buffer().str(s).b }

// Strings encodes a feature that is a list of strings, as CMDLINE is.
func (f Format) Strings(list []string) []byte {
	w := f.buffer().u32(uint32(len(list)))
	for _, s := range list {
		w.str(s)
	}
	return w.b
}

// CPUs encodes NRCPUS.
func (f Format) CPUs(available, online int) []byte {
	return f.buffer().u32(uint32(available), uint32(online)).b
}

// Words64 encodes a feature that is a row of u64, as SAMPLE_TIME is.
func (f Format) Words64(v ...uint64) []byte { return f.buffer().u64(v...).b }

// Words32 encodes a feature that is a row of u32, as COMPRESSED is.
func (f Format) Words32(v ...uint32) []byte { return f.buffer().u32(v...).b }

// ClockData encodes CLOCK_DATA.
func (f Format) ClockData(clockID uint32, wall, clock uint64) []byte {
	return f.buffer().u32(1, clockID).u64(wall, clock).b
}

// EventDesc encodes EVENT_DESC.
func (f Format) EventDesc(events []Event) []byte {
	w := f.buffer().u32(uint32(len(events)))
	if len(events) > 0 {
		w.u32(events[0].Attr.Size)
	}
	for i := range events {
		e := &events[i]
		w.bytes(f.Attr(&e.Attr)).u32(uint32(len(e.IDs))).str(e.Name).u64(e.IDs...)
	}
	return w.b
}

// A Tracepoint is a tracepoint with the fields that follow the common ones.
type Tracepoint struct {
	System, Name string
	ID           int
	Fields       string // lines as in the format file of tracefs
}

// TracingData encodes TRACING_DATA (tools/perf/util/trace-event-info.c) with the
// formats of these tracepoints.
func (f Format) TracingData(points []Tracepoint) []byte {
	w := f.buffer().u8(23, 8, 68).bytes([]byte("tracing0.6\x00"))
	w.u8(map[bool]uint8{false: 1, true: 0}[f.little()], 8).u32(4096)
	page := "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n" +
		"\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n" +
		"\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n" +
		"\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n"
	w.bytes([]byte("header_page\x00")).u64(uint64(len(page))).bytes([]byte(page))
	event := "# compressed entry header\n"
	w.bytes([]byte("header_event\x00")).u64(uint64(len(event))).bytes([]byte(event))
	w.u32(0) // events of ftrace itself
	w.u32(uint32(len(points)))
	for _, p := range points {
		text := fmt.Sprintf("name: %s\nID: %d\nformat:\n"+
			"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n"+
			"\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n"+
			"\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n"+
			"\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n%s\nprint fmt: \"%%s\", __get_str(name)\n",
			p.Name, p.ID, p.Fields)
		w.bytes([]byte(p.System + "\x00")).u32(1).u64(uint64(len(text))).bytes([]byte(text))
	}
	return w.u32(0, 0).u64(0).b // kallsyms, printk formats, command lines
}

func (f Format) little() bool { return f.Order.Uint16([]byte{1, 0}) == 1 }

// Bits of the arrays of a BPF program in BPF_PROG_INFO (tools/perf/util/bpf-utils.h).
const (
	bpfJitedInsns    = 0
	bpfJitedKsyms    = 3
	bpfJitedFuncLens = 4
	bpfProgTags      = 8
)

// A BPFProg is what the header says of a BPF program.
type BPFProg struct {
	ID    uint32
	Tag   [8]byte // of the program; that of function 0
	Tags  [][8]byte
	Ksyms []uint64
	Lens  []uint32
	Insns []byte // of all functions, one after the other
}

// BPFProgInfo encodes BPF_PROG_INFO. packed leaves out the padding between the arrays,
// as perf before 5.16 does. infoLen is the size of the recorder's struct bpf_prog_info.
func (f Format) BPFProgInfo(progs []BPFProg, packed bool, infoLen int) []byte {
	w := f.buffer().u32(uint32(len(progs)))
	for i := range progs {
		p := &progs[i]
		data := f.buffer()
		var at [9]uint64
		array := func(bit int, b []byte) {
			if !packed {
				data.align(8)
			}
			at[bit] = uint64(len(data.b))
			data.bytes(b)
		}
		array(bpfJitedInsns, p.Insns)
		array(bpfJitedKsyms, f.buffer().u64(p.Ksyms...).b)
		array(bpfJitedFuncLens, f.buffer().u32(p.Lens...).b)
		var tags []byte
		for _, t := range p.Tags {
			tags = append(tags, t[:]...)
		}
		array(bpfProgTags, tags)
		data.align(8)

		info := f.buffer().u32(5, p.ID).bytes(p.Tag[:]).u32(uint32(len(p.Insns)), 0)
		info.u64(at[bpfJitedInsns], 0, 0).u32(0, 0).u64(0).text("prog", 16).u32(0, 1).u64(0, 0)
		info.u32(uint32(len(p.Ksyms)), uint32(len(p.Lens))).u64(at[bpfJitedKsyms], at[bpfJitedFuncLens])
		info.u32(0, 0).u64(0).u32(0, 0).u64(0, 0).u32(0, 0, 0, uint32(len(p.Tags))).u64(at[bpfProgTags])
		for len(info.b) < infoLen {
			info.u8(0)
		}
		const arrays = 1<<bpfJitedInsns | 1<<bpfJitedKsyms | 1<<bpfJitedFuncLens | 1<<bpfProgTags
		w.u32(uint32(infoLen), uint32(len(data.b))).u64(arrays).bytes(info.b[:infoLen]).bytes(data.b)
	}
	return w.b
}
