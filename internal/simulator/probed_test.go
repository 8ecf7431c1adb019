// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/textreplay/textreplay/internal/simulator/rawperf"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// Kernel text of arm64, whose changes a probe on __set_fixmap records (docs/probes.md).
const (
	probedText   = uint64(0xffff800080000000)
	probedMap    = probedText + 0x1000 // __set_fixmap
	probedCopy   = probedText + 0x1100 // copy_to_kernel_nofault
	probedWriter = probedText + 0x2000 // __aarch64_insn_write
	probedLong   = probedText + 0x2100 // aarch64_insn_write_literal_u64
	probedMapper = probedText + 0x2200 // patch_map, which maps for the writers of some kernels
	probedSites  = probedText + 0x3000
	probedWords  = probedText + 0x3800 // pointers to ftrace_ops
	probedEnd    = probedText + 0x4000
	probedPhys   = uint64(0x40000000)    // of probedText
	probedSlots  = probedText + 0x200000 // out-of-line code of kprobes
	armNOP       = 0xd503201f
	armBRK       = 0xd4200080
	armBRK6      = 0xd42000c0
)

// A probedFault is what goes wrong in a recording.
type probedFault int

const (
	noFault probedFault = iota
	faultLoss
	faultMissed // the kernel could not run the probe
	faultEarly  // changes between the copy and the enabling
	faultDisarm
	faultDisarmLoss // both
	faultHotplug
	faultUncounted // nobody reads the hit counters
	probedFaults
)

// A probedChange is a store of a word, between its samples, true or only possible.
type probedChange struct {
	addr             uint64
	began, at, ended uint64
	word             uint32
}

// A probedRun is a machine with probes and what perf recorded on it.
type probedRun struct {
	r          *rand.Rand
	f          rawperf.Format
	now        uint64
	text       map[uint64]uint32 // words that are no NOPs
	first      map[uint64]uint32 // the same when perf begins
	changes    []probedChange
	cpus       int
	online     []bool
	listens    []bool // the CPU has perf's events
	mapper     bool   // the kernel has patch_map, and only register 20 has the address there
	armed      bool
	enabled    bool
	hits       uint64
	missed     uint64
	misses     bool // the kernel cannot run some hits
	rings      [][]byte
	losing     []bool
	loses      bool // also while text changes
	lost       []uint64
	lostAll    []uint64
	data       []byte
	pid        uint32
	slots      uint64
	readings   []string
	exec, last uint64 // begin of the workload; the last reading began
}

func (p *probedRun) tick() uint64 { p.now += 1000 + p.r.Uint64N(200_000); return p.now }

const probedTypes = rawperf.WithIP | rawperf.WithTID | rawperf.WithTime | rawperf.WithCPU | rawperf.WithPeriod | rawperf.WithIdentifier

// The events, by their index: the dummy, cpuhp:cpuhp_enter, cycles, and the probe, which perf opens
// last.
const (
	probedDummy = iota
	probedHotplug
	probedCycles
	probedMaps
)

// put writes a record of an event into the ring buffer of a CPU.
func (p *probedRun) put(cpu, event int, tid uint32, make func(id rawperf.SampleID) []byte) {
	if !p.listens[cpu] {
		return
	}
	id := rawperf.SampleID{PID: tid, TID: tid, Time: p.now, ID: uint64(10*(event+1) + cpu), CPU: uint32(cpu)}
	if p.losing[cpu] {
		p.lost[cpu]++
		p.lostAll[cpu]++
		return
	}
	if p.lost[cpu] > 0 {
		p.rings[cpu] = append(p.rings[cpu], p.f.Record(rawperf.TypeLost, 0, p.f.Lost(id.ID, p.lost[cpu]), p.f.Trailer(probedTypes, id))...)
		p.lost[cpu] = 0
	}
	p.rings[cpu] = append(p.rings[cpu], make(id)...)
}

// record writes a record that is no sample.
func (p *probedRun) record(cpu int, tid uint32, t rawperf.Type, misc uint16, body []byte) {
	p.put(cpu, probedDummy, tid, func(id rawperf.SampleID) []byte { return p.f.Record(t, misc, body, p.f.Trailer(probedTypes, id)) })
}

// hit is a call of __set_fixmap.
func (p *probedRun) hit(cpu int, tid uint32, phys, lr, place, old uint64, st []byte) {
	if !p.armed {
		return
	}
	if p.misses && p.r.IntN(2) == 0 {
		p.missed++
		return
	}
	p.hits++
	if !p.enabled {
		return
	}
	raw := make([]byte, 56+80)
	le := binary.LittleEndian
	for i, v := range []uint64{probedMap, 514, phys, lr, place} {
		le.PutUint64(raw[8+8*i:], v)
	}
	le.PutUint64(raw[48:], old)
	copy(raw[56+64-len(st):], st)
	p.put(cpu, probedMaps, tid, func(id rawperf.SampleID) []byte {
		raw = append(raw, 0, 0, 0, 0) // so that size and raw data take a multiple of 8 bytes
		return p.f.Record(rawperf.TypeSample, rawperf.MiscKernel, p.f.Sample(probedTypes|rawperf.WithRaw, id, probedMap, 1, nil, raw), nil)
	})
}

func (p *probedRun) word(addr uint64) uint32 {
	if w, ok := p.text[addr]; ok {
		return w
	}
	return untouched(addr)
}

// untouched returns a word that nothing has changed: a page of slots is empty.
func untouched(addr uint64) uint32 {
	if addr >= probedSlots {
		return 0
	}
	return armNOP
}

// meanwhile is what may happen on a CPU between the samples of a change, before the store or after it: its
// ring buffer is full or has room again, and an NMI takes a sample.
func (p *probedRun) meanwhile(cpu int) {
	if !p.loses {
		return
	}
	switch p.r.IntN(32) {
	case 0, 1:
		p.losing[cpu] = true
	case 2, 3, 4, 5:
		p.losing[cpu] = false
	}
	if p.r.IntN(4) == 0 {
		p.tick()
		p.put(cpu, probedCycles, uint32(100+cpu), func(id rawperf.SampleID) []byte {
			return p.f.Record(rawperf.TypeSample, rawperf.MiscKernel, p.f.Sample(probedTypes, id, probedWriter, 1, nil, nil), nil)
		})
	}
}

// write changes a word as __aarch64_insn_write does.
func (p *probedRun) write(cpu int, addr uint64, word uint32) {
	p.store(cpu, addr, probedWriter, binary.LittleEndian.AppendUint32(nil, word))
}

// store changes four or eight bytes as the writer does that is given.
func (p *probedRun) store(cpu int, addr, writer uint64, content []byte) {
	tid := uint32(100 + cpu)
	c := probedChange{addr: addr, began: p.tick()}
	old := uint64(p.word(addr)) | uint64(p.word(addr+4))<<32
	lr, stack := writer+0x14, []byte(nil)
	if p.mapper {
		stack = make([]byte, 64)
		binary.LittleEndian.PutUint64(stack[8:], lr)
		lr = probedMapper + 0x18
	}
	p.hit(cpu, tid, addr-probedText+probedPhys, lr, addr, old, stack)
	p.meanwhile(cpu)
	c.at = p.tick()
	for i := 0; i < len(content); i += 4 {
		p.text[addr+uint64(i)] = binary.LittleEndian.Uint32(content[i:])
	}
	if addr == probedMap {
		p.armed = p.word(addr) == armBRK // what the store does to the probe itself
	}
	p.meanwhile(cpu)
	c.ended = p.tick()
	p.hit(cpu, tid, 0, writer+0x30, 0, 0, content)
	for i := 0; i < len(content); i += 4 {
		c.addr, c.word = addr+uint64(i), p.word(addr+uint64(i))
		p.changes = append(p.changes, c)
	}
}

// someCPU returns a CPU that is online.
func (p *probedRun) someCPU() int {
	for {
		if c := p.r.IntN(p.cpus); p.online[c] {
			return c
		}
	}
}

// flip changes a random site, a pointer before a function, or arms a kprobe, whose slot is
// written first.
func (p *probedRun) flip() {
	switch n := p.r.IntN(8); {
	case n == 0:
		p.store(p.someCPU(), probedWords+8*p.r.Uint64N(4), probedLong, binary.LittleEndian.AppendUint64(nil, 0xfff<<52|p.r.Uint64N(1<<20)<<3))
		return
	case n == 1 && p.slots < 8:
		cpu, slot := p.someCPU(), probedSlots+16*p.slots
		p.slots++
		p.write(cpu, slot, 0xaa1e03e9)
		p.write(cpu, slot+4, armBRK6)
		p.write(cpu, probedSites+4*p.r.Uint64N(20), armBRK)
		return
	}
	addr, word := probedSites+4*p.r.Uint64N(20), uint32(armNOP)
	if p.word(addr) == word {
		word = 0x14000000 | p.r.Uint32N(64)
	}
	p.write(p.someCPU(), addr, word)
}

// hotplug is a step of a CPU that goes offline or comes back, run by CPU 0.
func (p *probedRun) hotplug(cpu int, target, step uint32) {
	p.tick()
	le := binary.LittleEndian
	raw := le.AppendUint64(nil, 0)
	for _, v := range []uint32{uint32(cpu), target, step, 0, 0, 0, 0} {
		raw = le.AppendUint32(raw, v) // the last one so that size and raw data take a multiple of 8 bytes
	}
	p.put(0, probedHotplug, 20, func(id rawperf.SampleID) []byte {
		return p.f.Record(rawperf.TypeSample, rawperf.MiscKernel, p.f.Sample(probedTypes|rawperf.WithRaw, id, probedText, 1, nil, raw), nil)
	})
}

// noise makes records on all CPUs, and drains the ring buffers at times.
func (p *probedRun) noise() {
	for c := range p.cpus {
		if p.online[c] {
			p.tick()
			p.record(c, uint32(200+c), rawperf.TypeComm, 0, p.f.Comm(uint32(200+c), uint32(200+c), "noise"))
		}
	}
	if p.r.IntN(3) == 0 {
		p.drain()
	}
}

func (p *probedRun) drain() {
	for c := range p.rings {
		p.data = append(p.data, p.rings[c]...)
		p.rings[c] = nil
	}
	p.data = append(p.data, p.f.Record(rawperf.TypeFinishedRound, 0, nil, nil)...)
}

// read lets a process read the hit counters. It may end on another CPU.
func (p *probedRun) read() {
	p.pid++
	p.tick()
	p.record(p.someCPU(), 50, rawperf.TypeFork, 0, p.f.Task(p.pid, 50, p.pid, 50, p.now))
	p.last = p.now
	if p.r.IntN(4) == 0 {
		p.flip()
	}
	p.readings = append(p.readings, fmt.Sprintf("pid %d\n  map  %d  %d\n", p.pid, p.hits, p.missed))
	if p.r.IntN(4) == 0 {
		p.flip()
	}
	p.tick()
	p.record(p.someCPU(), p.pid, rawperf.TypeExit, 0, p.f.Task(p.pid, 50, p.pid, 50, p.now))
}

// run records a random history with one kind of fault into dir.
func (p *probedRun) run(fault probedFault, dir string) error {
	p.text = map[uint64]uint32{probedMap: armBRK}
	for at, args := range map[uint64][2]uint32{probedWriter: {0xd2800082, 0x9100f3e1}, probedLong: {0xd2800102, 0x9100e3e1}} {
		for i, w := range []uint32{0xa9bc7bfd, 0xa90153f3, 0xaa0003f3, 0x52804040, bl(at+0x10, probedMap), args[0], args[1],
			bl(at+0x1c, probedCopy), 0xd2800002, 0xd2800001, 0x52804040, bl(at+0x2c, probedMap), 0xd65f03c0} {
			p.text[at+4*uint64(i)] = w
		}
	}
	if p.mapper {
		for _, at := range []uint64{probedWriter, probedLong} {
			for i, w := range []uint32{0xaa0003f4, 0xaa1403e0, bl(at+0x10, probedMapper)} { // mov x20, x0; mov x0, x20
				p.text[at+8+4*uint64(i)] = w
			}
		}
		for i, w := range []uint32{0xa9be7bfd, 0xf9000bf3, 0xaa0003f3, 0x92402e73, 0x52804040, bl(probedMapper+0x14, probedMap), 0xf9400bf3, 0xd65f03c0} {
			p.text[probedMapper+4*uint64(i)] = w
		}
	}
	p.cpus, p.armed, p.pid, p.hits = 2+p.r.IntN(2), true, 1000, 1 // the AFTER of its own arming
	p.loses = fault == faultLoss || fault == faultDisarmLoss
	for range p.cpus {
		p.online, p.listens = append(p.online, true), append(p.listens, true)
		p.rings, p.losing = append(p.rings, nil), append(p.losing, false)
		p.lost, p.lostAll = append(p.lost, 0), append(p.lostAll, 0)
	}
	p.now = 1e9
	for range p.r.IntN(4) {
		p.text[probedSites+4*p.r.Uint64N(20)] = 0x14000000 | p.r.Uint32N(64)
	}
	p.first = maps.Clone(p.text)
	core := make([]byte, probedEnd-probedText)
	for a := probedText; a < probedEnd; a += 4 {
		binary.LittleEndian.PutUint32(core[a-probedText:], p.word(a))
	}
	p.noise()
	if fault == faultEarly {
		for range 1 + p.r.IntN(4) {
			p.flip()
		}
	}
	p.noise()
	p.tick()
	p.enabled = true
	p.exec = p.tick()
	p.record(0, 7, rawperf.TypeComm, rawperf.MiscCommExec, p.f.Comm(7, 7, "workload"))
	if fault != faultUncounted {
		p.read()
	}
	for range 60 + p.r.IntN(60) {
		switch n := p.r.IntN(12); {
		case n < 5:
			p.flip()
		case n == 5 && fault != faultUncounted:
			p.read()
		case n == 6 && p.loses && p.r.IntN(4) == 0:
			p.losing[p.r.IntN(p.cpus)] = true
		case n == 7:
			clear(p.losing)
		case n == 6 && fault == faultMissed && p.r.IntN(4) == 0:
			p.misses = !p.misses
		case n == 6 && (fault == faultDisarm || fault == faultDisarmLoss) && p.r.IntN(3) == 0:
			if p.armed {
				p.write(p.someCPU(), probedMap, armNOP)
			} else {
				p.write(p.someCPU(), probedMap, armBRK)
			}
		case n == 6 && fault == faultHotplug && p.r.IntN(3) == 0:
			if c := p.cpus - 1; p.online[c] {
				p.hotplug(c, 0, 200)
				p.online[c], p.listens[c] = false, false
			} else {
				p.hotplug(c, 239, 1)
				p.online[c] = true
			}
		default:
			p.noise()
		}
	}
	clear(p.losing)
	p.noise()
	if fault != faultUncounted {
		p.read()
	}
	p.noise()
	p.noise()
	p.drain()
	return p.save(dir, core)
}

func bl(from, to uint64) uint32 { return 0x94000000 | uint32(int64(to-from)/4)&0x3ffffff }

// save writes the recording as perf leaves it.
func (p *probedRun) save(dir string, core []byte) error {
	const flags = rawperf.SampleIDAll | rawperf.UseClockID | rawperf.Inherit
	base := rawperf.Attr{Type: 1, Config: 9, Size: 136, Period: 1, SampleType: probedTypes, ReadFormat: rawperf.ReadID | rawperf.ReadLost, ClockID: 1,
		Flags: flags | rawperf.Comm | rawperf.Task | rawperf.CommExec | rawperf.Mmap | rawperf.KSymbol | rawperf.BPFEvent}
	probe := base
	probe.Type, probe.Config, probe.SampleType, probe.Flags = 2, 1206, probedTypes|rawperf.WithRaw, flags|rawperf.Disabled
	step := probe
	step.Config = 1300
	cycles := base
	cycles.Type, cycles.Config, cycles.Flags = 0, 0, flags
	events := []rawperf.Event{{Attr: base, Name: "dummy"}, {Attr: step, Name: "cpuhp:cpuhp_enter"}, {Attr: cycles, Name: "cycles"}, {Attr: probe, Name: "tp:map"}}
	var entries []rawperf.IndexEntry
	for i := range events {
		for c := range p.cpus {
			id := uint64(10*(i+1) + c)
			events[i].IDs = append(events[i].IDs, id)
			entries = append(entries, rawperf.IndexEntry{ID: id, Idx: uint64(i), CPU: uint64(c), TID: ^uint64(0)})
		}
	}
	zeros := p.f.Trailer(probedTypes, rawperf.SampleID{})
	head := p.f.Record(rawperf.TypeIDIndex, 0, p.f.IDIndex(entries, true), nil)
	head = append(head, p.f.Record(rawperf.TypeMmap, rawperf.MiscKernel, p.f.Mmap(^uint32(0), 0, probedText, probedEnd-probedText, probedText, "[kernel.kallsyms]_text"), zeros)...)
	head = append(head, p.f.Record(rawperf.TypeComm, 0, p.f.Comm(7, 7, "perf-exec"), zeros)...)
	for c, n := range p.lostAll {
		for i := range events {
			if i == probedMaps && n > 0 {
				p.data = append(p.data, p.f.Record(rawperf.TypeLostSamples, 0, p.f.LostSamples(n), p.f.Trailer(probedTypes, rawperf.SampleID{ID: events[i].IDs[c]}))...)
			}
		}
	}
	fields, register := "", "19"
	if p.mapper {
		register = "20"
	}
	for i, name := range []string{"unsigned long __probe_ip", "u64 idx", "u64 phys", "u64 lr", "u64 x" + register, "u64 at" + register} {
		fields += fmt.Sprintf("\tfield:%s;\toffset:%d;\tsize:8;\tsigned:0;\n", name, 8+8*i)
	}
	fields += "\tfield:u64 st[10];\toffset:56;\tsize:80;\tsigned:0;\n"
	steps := ""
	for i, name := range []string{"unsigned int cpu", "int target", "int idx"} {
		steps += fmt.Sprintf("\tfield:%s;\toffset:%d;\tsize:4;\tsigned:%d;\n", name, 8+4*i, min(i, 1))
	}
	file := p.f.File(&rawperf.File{Events: events, Data: append(head, p.data...), Features: map[rawperf.Feature][]byte{
		rawperf.FeatureArch: p.f.String("aarch64"), rawperf.FeatureRelease: p.f.String("6.12.0"), rawperf.FeatureVersion: p.f.String("6.12.48"),
		rawperf.FeatureCPUs: p.f.CPUs(p.cpus, p.cpus), rawperf.FeatureEventDesc: p.f.EventDesc(events),
		rawperf.FeatureCmdline:     p.f.Strings([]string{"perf", "record", "-a", "--kcore", "-k", "1", "-e", "dummy", "-e", "cpuhp:cpuhp_enter", "-e", "cycles", "-e", "tp:map", "--", "workload"}),
		rawperf.FeatureTracingData: p.f.TracingData([]rawperf.Tracepoint{{System: "cpuhp", Name: "cpuhp_enter", ID: 1300, Fields: steps}, {System: "tp", Name: "map", ID: 1206, Fields: fields}}),
	}})
	symbols := ""
	for _, s := range []struct {
		addr uint64
		name string
	}{{probedText, "_stext"}, {probedMap, "__set_fixmap"}, {probedMap + 0x40, "a"}, {probedCopy, "copy_to_kernel_nofault"}, {probedCopy + 0x40, "b"},
		{probedWriter, "__aarch64_insn_write"}, {probedWriter + 0x34, "c"}, {probedLong, "aarch64_insn_write_literal_u64"}, {probedLong + 0x34, "d"},
		{probedMapper, "patch_map"}, {probedMapper + 0x20, "e"}, {probedSites, "sites"}, {probedEnd, "_etext"}} {
		symbols += fmt.Sprintf("%016x T %s\n", s.addr, s.name)
	}
	var kcore bytes.Buffer
	ident := [16]byte{0x7f, 'E', 'L', 'F', 2, 1, 1}
	h := elf.Header64{Ident: ident, Type: uint16(elf.ET_CORE), Machine: uint16(elf.EM_AARCH64), Version: 1, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1}
	ph := elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: 7, Off: 4096, Vaddr: probedText, Filesz: uint64(len(core)), Memsz: uint64(len(core))}
	if err := binary.Write(&kcore, binary.LittleEndian, &h); err != nil {
		return err
	}
	if err := binary.Write(&kcore, binary.LittleEndian, &ph); err != nil {
		return err
	}
	kcore.Write(make([]byte, 4096-kcore.Len()))
	kcore.Write(core)
	files := map[string][]byte{"data": file, "kcore_dir/kcore": kcore.Bytes(), "kcore_dir/kallsyms": []byte(symbols), "kcore_dir/modules": nil}
	for i, r := range p.readings {
		files[fmt.Sprintf("kprobe_profile.%d", i)] = []byte(r)
	}
	for name, b := range files {
		if err := writeFile(filepath.Join(dir, name), b); err != nil {
			return err
		}
	}
	p.data = file
	return nil
}

// check compares an image with the truth, at the start, in the middle and at the end of
// each change and between. It returns how many answers were known, and how many there were.
func (p *probedRun) check(t *testing.T, how string, im *timeline.Image, until uint64) (known, all int) {
	t.Helper()
	addrs := []uint64{probedMap}
	for a := probedSites; a < probedSites+80; a += 4 {
		addrs = append(addrs, a)
	}
	for a := probedWords; a < probedWords+32; a += 4 {
		addrs = append(addrs, a)
	}
	for n := range p.slots {
		addrs = append(addrs, probedSlots+16*n, probedSlots+16*n+4)
	}
	times := []uint64{p.exec}
	for _, c := range p.changes {
		times = append(times, c.began-1, c.began, c.at-1, c.at, c.ended-1, c.ended+1)
	}
	for _, addr := range addrs {
		for _, at := range times {
			if at > until || at < p.exec {
				continue
			}
			if addr < probedSlots || !p.may(addr, at, 0) {
				all++ // else there is no slot yet
			}
			var b [4]byte
			if im.At(at).Read(addr, b[:]).Standing != timeline.Known {
				continue
			}
			known++
			if got := binary.LittleEndian.Uint32(b[:]); !p.may(addr, at, got) {
				t.Errorf("%s: %#x at %d is known as %08x", how, addr, at, got)
			}
		}
	}
	return known, all
}

// may reports whether a word may be at addr at a time: the last one stored before it.
func (p *probedRun) may(addr, at uint64, word uint32) bool {
	last := (*probedChange)(nil)
	for i := range p.changes {
		if c := &p.changes[i]; c.addr == addr && c.at <= at {
			last = c
		}
	}
	if last != nil {
		return last.word == word
	}
	if w, ok := p.first[addr]; ok {
		return w == word
	}
	return word == untouched(addr)
}

// TestProbedKernels simulates kernels that record no pokes, with a probe on the function that
// maps text. Whatever goes wrong, no word that is known is another one, neither in the whole
// recording nor while it is followed. If nothing goes wrong, all is known between the exec of
// the workload and the last reading of the hit counters, except while it changes.
func TestProbedKernels(t *testing.T) {
	seeds := uint64(12)
	if testing.Short() {
		seeds = 3
	}
	names := [probedFaults]string{"none", "losses", "missed hits", "early hits", "disarmed", "disarmed, with losses", "hotplug", "no counters"}
	for fault, name := range names {
		t.Run(name, func(t *testing.T) {
			known, all := 0, 0
			for seed := range seeds {
				p := &probedRun{r: rand.New(rand.NewPCG(seed, uint64(fault))), f: rawperf.Format{Order: binary.LittleEndian}, mapper: seed%2 == 1}
				dir := filepath.Join(t.TempDir(), "rec.data")
				if err := p.run(probedFault(fault), dir); err != nil {
					t.Fatal(err)
				}
				r, err := replay.Load(dir, replay.Options{})
				if err != nil {
					t.Fatal(err)
				}
				k, n := p.check(t, fmt.Sprintf("seed %d", seed), r.Image, timeline.MaxTime)
				known, all = known+k, all+n
				if err := r.Close(); err != nil {
					t.Error(err)
				}
				p.follow(t, fmt.Sprintf("seed %d, followed", seed), dir)
				if t.Failed() {
					t.Fatalf("seed %d: %v", seed, r.Report.Coverage.Pokes)
				}
			}
			t.Logf("%d of %d answers are known", known, all)
			least := [probedFaults]int{noFault: 90, faultLoss: 10, faultMissed: 10, faultEarly: 50, faultDisarm: 10, faultDisarmLoss: 5, faultHotplug: 10}[fault]
			if 100*known < least*all || least == 0 && known > 0 {
				t.Errorf("%d of %d answers are known, want %d %%", known, all, least)
			}
		})
	}
}

// follow checks the images that are made while the recording is read.
func (p *probedRun) follow(t *testing.T, how, dir string) {
	t.Helper()
	f, err := replay.Follow(bytes.NewReader(p.data), replay.Options{KCore: filepath.Join(dir, "kcore_dir"), CPUs: p.cpus})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for more := true; more; {
		more = f.Next()
		im, err := f.Image()
		if err != nil {
			t.Fatal(err)
		}
		p.check(t, how, im, f.Report().Horizon)
	}
}
