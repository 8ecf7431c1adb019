// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"cmp"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
)

// A tape is a recording of a few records, as perf writes it on a machine with two CPUs. Each
// test changes one aspect of it.
type tape struct {
	// These are set before the first record is written.
	events    []tapeEvent
	arch      string
	machine   elf.Machine // of the copy; 0: x86-64
	release   string
	perf      string // its version; "": the recording does not say
	available uint32 // CPUs; 0: the recording does not say
	online    uint32
	pipe      bool   // a stream, which has no clean end
	copied    bool   // there is a copy of kernel text
	text      []byte // content of the copy; nil: NOPs
	textAt    uint64 // its address, if not that of text
	modules   []kcore.Module
	tracing   string // TRACING_DATA
	infos     []tapeInfo
	kallsyms  string
	cmdline   string // perf's, its words separated by spaces
	started   uint64 // when perf read CLOCK_MONOTONIC for CLOCK_DATA; 0: there is none
	groups    []perfdata.Group
	mapAt     uint64           // of the kernel's map; 0: the beginning of text
	mapEnd    uint64           // likewise; 0: the end of text
	buildID   string           // in the kernel's map
	noIndex   bool             // as perf before 6.0 writes it
	noIDs     bool             // records do not name their event, as in a recording of one event
	noCPU     bool             // records do not have their CPU
	cpuOf     map[uint64]int64 // CPUs of ids, if not their last digit
	counters  []string         // files with readings of probes' hit counters

	w    *perfdata.Writer
	out  tapeFile
	made []*perfdata.Event
	tb   testing.TB
}

// A tapeEvent is an event on some CPUs. The id of event i on CPU c is 10*(i+1)+c.
type tapeEvent struct {
	name   string
	attr   perfdata.Attr
	cpus   []int64
	tid    int64    // -1: all tasks
	ids    []uint64 // if not the usual ones; cpuOf has their CPUs
	noLost bool     // does not count its own losses
	noTime bool     // its records have no time
}

// A tapeInfo is the info of a BPF program of one function.
type tapeInfo struct {
	id   uint32
	addr uint64
	code string
}

// bytes returns the info in the form of BPF_PROG_INFO: struct perf_bpil around struct
// bpf_prog_info and its arrays of code, addresses and lengths.
func (p *tapeInfo) bytes() []byte {
	le := binary.LittleEndian
	code := fromHex(p.code)
	info := make([]byte, 232)
	le.PutUint32(info[4:], p.id)
	var data []byte
	array := func(pointer, count, n int, b []byte) {
		le.PutUint64(info[pointer:], uint64(len(data)))
		le.PutUint32(info[count:], uint32(n))
		data = append(data, b...)
		data = append(data, make([]byte, (8-len(data)%8)%8)...)
	}
	array(24, 16, len(code), code)
	array(112, 104, 1, le.AppendUint64(nil, p.addr))
	array(120, 108, 1, le.AppendUint32(nil, uint32(len(code))))
	out := le.AppendUint32(le.AppendUint32(nil, uint32(len(info))), uint32(len(data)))
	out = le.AppendUint64(out, 1<<0|1<<3|1<<4)
	return append(append(out, info...), data...)
}

const everything = perfdata.FlagTextPoke | perfdata.FlagKSymbol | perfdata.FlagBPFEvent

// newTape returns a tape with one event that records everything on both CPUs.
func newTape(tb testing.TB) *tape {
	return &tape{tb: tb, arch: "x86_64", release: "6.1.0", available: 2, online: 2,
		events: []tapeEvent{onBoth(everything)}}
}

// onBoth is an event of all tasks on both CPUs.
func onBoth(flags perfdata.AttrFlags) tapeEvent {
	return tapeEvent{attr: perfdata.Attr{Flags: flags}, cpus: []int64{0, 1}, tid: -1}
}

// tracepointEvent is the tracepoint module:NAME on both CPUs, each time.
func tracepointEvent(name string) tapeEvent {
	e := onBoth(0)
	e.name = "module:" + name
	e.attr.Type, e.attr.SamplePeriod = 2, 1
	e.attr.SampleType = perfdata.SampleRaw
	return e
}

func (t *tape) must(err error) {
	t.tb.Helper()
	if err != nil {
		t.tb.Fatal(err)
	}
}

// begin writes everything before the kernel's records.
func (t *tape) begin() {
	if t.w != nil {
		return
	}
	index := &perfdata.IDIndex{}
	for i, e := range t.events {
		a := e.attr
		a.SampleType |= perfdata.SampleTID
		if !e.noTime {
			a.SampleType |= perfdata.SampleTime
		}
		if !t.noCPU {
			a.SampleType |= perfdata.SampleCPU
		}
		if !t.noIDs {
			a.SampleType |= perfdata.SampleIdentifier
		}
		a.Flags |= perfdata.FlagSampleIDAll
		if a.ReadFormat = perfdata.ReadFormatID; !e.noLost {
			a.ReadFormat |= perfdata.ReadFormatLost
		}
		ev := &perfdata.Event{Index: i, Name: e.name, Attr: a}
		for _, cpu := range e.cpus {
			id := uint64(10*(i+1) + int(cpu))
			ev.IDs = append(ev.IDs, id)
			index.Entries = append(index.Entries, perfdata.IDIndexEntry{ID: id, CPU: cpu, TID: e.tid, VCPU: -1})
		}
		for _, id := range e.ids {
			ev.IDs = append(ev.IDs, id)
			index.Entries = append(index.Entries, perfdata.IDIndexEntry{ID: id, CPU: t.cpuOf[id], TID: e.tid, VCPU: -1})
		}
		t.made = append(t.made, ev)
	}
	if t.w = perfdata.NewWriter(&t.out, binary.LittleEndian); t.pipe {
		t.w = perfdata.NewPipeWriter(&t.out, binary.LittleEndian)
	}
	t.must(t.w.SetEvents(t.made))
	if t.pipe {
		t.features()
	}
	if !t.noIndex {
		t.must(t.w.IDIndex(index))
	}
	m := &perfdata.Mmap{PID: 0xffffffff, Addr: cmp.Or(t.mapAt, tapeTextLo), Len: cmp.Or(t.mapEnd, tapeTextHi) - cmp.Or(t.mapAt, tapeTextLo),
		Filename: []byte("[kernel.kallsyms]_text"), SampleID: perfdata.SampleID{Event: t.made[0]}}
	typ, misc := perfdata.RecordMMAP, uint16(perfdata.MiscKernel)
	if t.buildID != "" {
		typ, misc, m.BuildID = perfdata.RecordMMAP2, misc|perfdata.MiscMmapBuildID, []byte(t.buildID)
	}
	t.must(t.w.Mmap(typ, misc, m))
}

func (t *tape) features() {
	le := binary.LittleEndian
	padded := func(b []byte, s string) []byte {
		b = le.AppendUint32(b, uint32(len(s)+8-len(s)%8))
		return append(append(b, s...), make([]byte, 8-len(s)%8)...)
	}
	t.must(t.w.WriteFeature(perfdata.FeatureArch, padded(nil, t.arch)))
	t.must(t.w.WriteFeature(perfdata.FeatureOSRelease, padded(nil, t.release)))
	if t.perf != "" {
		t.must(t.w.WriteFeature(perfdata.FeatureVersion, padded(nil, t.perf)))
	}
	if t.tracing != "" {
		t.must(t.w.WriteFeature(perfdata.FeatureTracingData, []byte(t.tracing)))
	}
	if words := strings.Fields(t.cmdline); len(words) > 0 {
		b := le.AppendUint32(nil, uint32(len(words)))
		for _, w := range words {
			b = padded(b, w)
		}
		t.must(t.w.WriteFeature(perfdata.FeatureCmdline, b))
	}
	if t.started > 0 {
		b := le.AppendUint32(le.AppendUint32(nil, 1), 1)
		t.must(t.w.WriteFeature(perfdata.FeatureClockData, le.AppendUint64(le.AppendUint64(b, 1e18), t.started)))
	}
	if len(t.groups) > 0 {
		b := le.AppendUint32(nil, uint32(len(t.groups)))
		for _, g := range t.groups {
			b = le.AppendUint32(le.AppendUint32(padded(b, g.Name), g.Leader), g.Members)
		}
		t.must(t.w.WriteFeature(perfdata.FeatureGroupDesc, b))
	}
	if len(t.infos) > 0 {
		b := le.AppendUint32(nil, uint32(len(t.infos)))
		for _, p := range t.infos {
			b = append(b, p.bytes()...)
		}
		t.must(t.w.WriteFeature(perfdata.FeatureBPFProgInfo, b))
	}
	if t.available > 0 {
		t.must(t.w.WriteFeature(perfdata.FeatureNRCPUs, le.AppendUint32(le.AppendUint32(nil, t.available), t.online)))
	}
}

// id returns the trailer of a record of one event instance.
func (t *tape) id(id, time uint64) perfdata.SampleID {
	t.begin()
	cpu, ok := t.cpuOf[id]
	if !ok {
		cpu = int64(id % 10)
	}
	return perfdata.SampleID{PID: 1, TID: 1, Time: time, ID: id, CPU: uint32(cpu), Event: t.made[id/10-1]}
}

func (t *tape) poke(id, time, addr uint64, old, new string) {
	s := t.id(id, time)
	t.must(t.w.TextPoke(&perfdata.TextPoke{Addr: addr, Old: fromHex(old), New: fromHex(new), SampleID: s}))
}

func (t *tape) ksymbol(id, time, addr uint64, n uint32, kind perfdata.KSymbolKind, flags uint16, name string) {
	s := t.id(id, time)
	t.must(t.w.KSymbol(&perfdata.KSymbol{Addr: addr, Len: n, Kind: kind, Flags: flags, Name: []byte(name), SampleID: s}))
}

func (t *tape) bpfLoad(id, time uint64, prog uint32) {
	s := t.id(id, time)
	t.must(t.w.BPFEvent(&perfdata.BPFEvent{Kind: perfdata.BPFLoad, ID: prog, SampleID: s}))
}

func (t *tape) bpfUnload(id, time uint64, prog uint32) {
	s := t.id(id, time)
	t.must(t.w.BPFEvent(&perfdata.BPFEvent{Kind: perfdata.BPFUnload, ID: prog, SampleID: s}))
}

func (t *tape) lost(id, time, n uint64) {
	s := t.id(id, time)
	t.must(t.w.Lost(&perfdata.Lost{ID: id, Lost: n, SampleID: s}))
}

func (t *tape) lostSamples(id, n uint64) {
	s := t.id(id, 0)
	t.must(t.w.LostSamples(&perfdata.LostSamples{Lost: n, SampleID: s}))
}

// comm writes a COMM record; perf itself makes those of time 0.
func (t *tape) comm(id, time uint64, misc uint16, pid uint32, name string) {
	s := t.id(id, time)
	if time == 0 {
		s.ID = 0
	}
	t.must(t.w.Comm(misc, &perfdata.Comm{PID: pid, TID: pid, Comm: []byte(name), SampleID: s}))
}

// other writes a record of any type. body is everything before the trailer.
func (t *tape) other(id, time uint64, typ perfdata.RecordType, body []byte) {
	s := t.id(id, time)
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(typ))
	b = le.AppendUint32(b, uint32(8+len(body)+32)<<16)
	b = le.AppendUint32(append(b, body...), s.PID)
	b = le.AppendUint32(b, s.TID)
	b = le.AppendUint64(b, time)
	b = le.AppendUint64(b, uint64(s.CPU))
	t.must(t.w.WriteRecord(le.AppendUint64(b, id)))
}

// fork writes a FORK record of a process, or of a thread if both pids are equal. perf itself
// makes those of time 0.
func (t *tape) fork(id, time uint64, pid, ppid uint32) {
	t.task(perfdata.RecordFork, id, time, pid, ppid)
}

// exit writes an EXIT record of a process.
func (t *tape) exit(id, time uint64, pid, ppid uint32) {
	t.task(perfdata.RecordExit, id, time, pid, ppid)
}

func (t *tape) task(typ perfdata.RecordType, id, time uint64, pid, ppid uint32) {
	s := t.id(id, time)
	if typ == perfdata.RecordExit {
		s.PID, s.TID = pid, pid
	}
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(typ))
	b = le.AppendUint16(le.AppendUint16(b, 0), 8+32+24)
	if b = le.AppendUint32(le.AppendUint32(b, pid), ppid); time == 0 {
		s.ID = 0
	}
	b = le.AppendUint64(le.AppendUint32(le.AppendUint32(b, pid), ppid), time)
	b = le.AppendUint32(le.AppendUint32(b, s.PID), s.TID)
	b = le.AppendUint32(le.AppendUint32(le.AppendUint64(b, time), s.CPU), 0)
	t.must(t.w.WriteRecord(le.AppendUint64(b, s.ID)))
}

// tick writes side-band records of the given times.
func (t *tape) tick(id uint64, times ...uint64) {
	for _, time := range times {
		t.comm(id, time, 0, 9, "tick")
	}
}

// timeConv writes a TIME_CONV record.
func (t *tape) timeConv() {
	t.begin()
	var b []byte
	for _, v := range []uint64{uint64(perfdata.RecordTimeConv) | 32<<48, 31, 1 << 31, 0} { // header, shift, mult, zero
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	t.must(t.w.WriteRecord(b))
}

// fill writes as many records of one time as may fill a ring buffer of one page.
func (t *tape) fill(id, time uint64) {
	for range 50 {
		t.tick(id, time)
	}
}

// ticks writes a side-band record every hundred nanoseconds from..to on CPUs 0 and 1.
func (t *tape) ticks(from, to uint64) {
	for time := from; time <= to; time += 100 {
		t.tick(10, time)
		t.tick(11, time)
	}
}

// sample writes a sample, with raw data if the event has it.
func (t *tape) sample(id, time uint64, raw []byte) {
	s := t.id(id, time)
	le := binary.LittleEndian
	var b []byte
	b = le.AppendUint64(b, id)
	b = le.AppendUint32(le.AppendUint32(b, s.PID), s.TID)
	b = le.AppendUint64(b, time)
	b = le.AppendUint64(b, uint64(s.CPU))
	if t.made[id/10-1].Attr.SampleType&perfdata.SampleRaw != 0 {
		raw = append(bytes.Clone(raw), make([]byte, 7-(len(raw)+3)%8)...)
		b = append(le.AppendUint32(b, uint32(len(raw))), raw...)
	}
	head := le.AppendUint32(nil, uint32(perfdata.RecordSample))
	head = le.AppendUint16(head, perfdata.MiscKernel)
	head = le.AppendUint16(head, uint16(8+len(b)))
	t.must(t.w.WriteRecord(append(head, b...)))
}

// module writes a sample of a tracepoint of modules.
func (t *tape) module(id, time uint64, name string) {
	// All tracepoints have eight bytes, then __data_loc char[] name.
	raw := binary.LittleEndian.AppendUint32(make([]byte, 8), uint32(12|(len(name)+1)<<16))
	t.sample(id, time, append(append(raw, name...), 0))
}

// moduleFormats is the format of both tracepoints in TRACING_DATA.
const moduleFormats = "name: module_load\nID: 76\nformat:\n" +
	"\tfield:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"%s\"\n" +
	"name: module_free\nID: 77\nformat:\n" +
	"\tfield:__data_loc char[] name;\toffset:8;\tsize:4;\tsigned:0;\n\nprint fmt: \"%s\"\n"

func (t *tape) round() { t.begin(); t.must(t.w.FinishedRound()) }

// bytes ends the recording.
func (t *tape) bytes() []byte {
	t.begin()
	if !t.pipe {
		t.features()
	}
	t.must(t.w.Close())
	return t.out.b
}

// replay ends the recording and makes an image of it.
func (t *tape) replay() *Replay {
	t.tb.Helper()
	return t.replayOf(t.bytes())
}

func (t *tape) replayOf(data []byte) *Replay {
	t.tb.Helper()
	rec, err := perfdata.New(data)
	t.must(err)
	r, err := New(rec, t.snapshot(), Options{ProbeCounters: t.counters})
	t.must(err)
	return r
}

// snapshot returns the copy of the kernel.
func (t *tape) snapshot() *kcore.Snapshot {
	snap := &kcore.Snapshot{Modules: t.modules}
	if t.copied {
		if t.text == nil {
			t.text = bytes.Repeat([]byte{0x90}, tapeTextHi-tapeTextLo)
		}
		snap.Core = &kcore.Core{Machine: cmp.Or(t.machine, elf.EM_X86_64), Data: elf.ELFDATA2LSB,
			Segments: []kcore.Segment{{Addr: cmp.Or(t.textAt, tapeTextLo), Data: t.text}}}
		for _, m := range t.modules {
			snap.Core.Segments = append(snap.Core.Segments, kcore.Segment{Addr: m.Addr, Data: bytes.Repeat([]byte{0x55}, int(m.Size))})
		}
	}
	if t.kallsyms != "" {
		var err error
		snap.Kallsyms, err = kcore.ParseKallsyms([]byte(t.kallsyms))
		t.must(err)
	}
	return snap
}

// kcoreDir writes the copy of the kernel as a kcore_dir.
func (t *tape) kcoreDir() string {
	dir := filepath.Join(t.tb.TempDir(), "kcore_dir")
	t.must(os.Mkdir(dir, 0o700))
	core := t.snapshot().Core
	f, err := os.Create(filepath.Join(dir, "kcore"))
	t.must(err)
	t.must(kcore.WriteCore(f, core.Machine, elf.ELFCLASS64, core.Data, core.Segments, nil))
	t.must(f.Close())
	t.must(os.WriteFile(filepath.Join(dir, "kallsyms"), []byte(t.kallsyms), 0o600))
	if len(t.modules) > 0 {
		var b []byte
		for _, m := range t.modules {
			b = fmt.Appendf(b, "%s %d 0 - %s %#x\n", m.Name, m.Size, m.State, m.Addr)
		}
		t.must(os.WriteFile(filepath.Join(dir, "modules"), b, 0o600))
	}
	return dir
}

// tapeFile is a file in memory.
type tapeFile struct {
	b   []byte
	off int64
}

func (m *tapeFile) Write(p []byte) (int, error) {
	if end := m.off + int64(len(p)); end > int64(len(m.b)) {
		m.b = append(m.b, make([]byte, end-int64(len(m.b)))...)
	}
	m.off += int64(copy(m.b[m.off:], p))
	return len(p), nil
}

func (m *tapeFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += m.off
	case io.SeekEnd:
		offset += int64(len(m.b))
	}
	m.off = offset
	return offset, nil
}

// Kernel text of a tape.
const tapeTextLo, tapeTextHi = 0x1000, 0x2000

func fromHex(s string) []byte {
	b, err := hex.DecodeString(s)
	if err != nil {
		panic(err)
	}
	return b
}

func textLines(s ...string) string { return strings.Join(s, "\n") + "\n" }

// run reads a recording once.
func (s *scan) run() {
	s.readAll()
	s.finish()
}
