// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// What a scan does with each record, by its type. Records of losses, of forks and exits and of
// switches, and the samples of probes, are in other files.

// record reads one record.
func (s *scan) record(rec *perfdata.Record) {
	switch rec.Type {
	case perfdata.RecordTextPoke:
		if !s.passPoke(rec) {
			s.textPoke(rec)
		}
	case perfdata.RecordKSymbol:
		s.ksymbol(rec)
	case perfdata.RecordBPFEvent:
		s.bpfEvent(rec)
	case perfdata.RecordFinishedRound:
		s.files[rec.File].finish()
		for _, b := range s.buffers {
			b.finishRound()
		}
	case perfdata.RecordIDIndex:
		s.idIndex(rec)
	case perfdata.RecordCPUMap:
		s.cpuMap(rec)
	case perfdata.RecordThreadMap:
		s.threadMap(rec)
	case perfdata.RecordEventUpdate:
		s.eventUpdate(rec)
	case perfdata.RecordTimeConv:
		var tc perfdata.TimeConv
		if s.decoded(rec, s.rec.TimeConv(rec, &tc)) {
			s.report.Clock.conv = &tc
		}
	case perfdata.RecordComm:
		s.comm(rec)
	case perfdata.RecordMMAP, perfdata.RecordMMAP2:
		s.mmap(rec)
	case perfdata.RecordHeaderBuildID:
		s.buildIDRecord(rec)
	case perfdata.RecordFork, perfdata.RecordExit:
		s.task(rec)
	case perfdata.RecordLost:
		s.lost(rec)
	case perfdata.RecordLostSamples:
		s.lostSamples(rec)
	case perfdata.RecordSwitch, perfdata.RecordSwitchCPUWide:
		s.switched(rec)
	case perfdata.RecordSample:
		if !s.passSample(rec) {
			s.sample(rec)
		}
	default:
		switch {
		case rec.Type < 64:
			var id perfdata.SampleID
			s.sampleID(rec, &id)
		case rec.Type >= 128:
			s.broken(rec, "of no known type")
		}
	}
}

// textPoke adds a text poke, unless it is another machine's or another event's duplicate.
func (s *scan) textPoke(rec *perfdata.Record) {
	p := &s.last.poke
	if !s.decoded(rec, s.rec.TextPoke(rec, p)) {
		return
	}
	ch, use := s.enterChosen(rec, &p.SampleID, p.Excess, takesPokes)
	switch use {
	case useDuplicate:
		s.report.Pokes.Duplicates++
	case useAnnounced:
		s.broken(rec, "no time")
	}
	if use != useRecorded {
		return
	}
	s.poke(ch.buffer, &timeline.Poke{Addr: p.Addr, Time: p.Time, Old: p.Old, New: p.New, CPU: cpuOf(ch, &p.SampleID)}, p.TID)
}

// poke adds a poke to the image. The thread tid made it.
func (s *scan) poke(from *ringBuffer, p *timeline.Poke, tid uint32) {
	p.NotBefore = from.tasks.notBefore(p.Time)
	s.waiter.meet(tid, p.Time)
	kind := s.countPoke(p)
	if s.keepPlaced && kind.InPlace() {
		s.writers.pokes(tid)
		s.placed.pokes = append(s.placed.pokes, s.inPlace(p, tid, kind))
	}
	if s.codeReads != nil {
		s.codeReads.poke(p, tid)
	}
	s.b.Poke(p)
}

// countPoke counts a change, and returns its kind.
func (s *scan) countPoke(p *timeline.Poke) timeline.PokeKind {
	kind := patching.KindOfPoke(s.arch.machine, s.rec.ByteOrder(), p.Old, p.New)
	s.report.Pokes.count(kind, 1)
	return kind
}

// ksymbol adds the birth or death of a symbol.
func (s *scan) ksymbol(rec *perfdata.Record) {
	var k perfdata.KSymbol
	if !s.decoded(rec, s.rec.KSymbol(rec, &k)) {
		return
	}
	ch, use := s.enterChosen(rec, &k.SampleID, k.Excess, takesSymbols)
	if use != useRecorded && use != useAnnounced {
		return
	}
	if use == useAnnounced && k.Flags&perfdata.KSymbolUnregister != 0 {
		s.broken(rec, "no time, but perf announces no deaths")
		return
	}
	var kind timeline.SymbolKind
	switch k.Kind {
	case perfdata.KSymbolBPF:
		kind = timeline.SymbolBPF
	case perfdata.KSymbolOOL:
		kind = timeline.SymbolOutOfLine
	default:
		s.warn(fmt.Errorf("KSYMBOL record at offset %#x: unknown type %d", rec.Offset, k.Kind))
		return
	}
	s.announcedLate = s.announcedLate || use == useAnnounced && s.newest > 0
	e := timeline.SymbolEvent{Time: k.Time, Addr: k.Addr, Len: k.Len, Kind: kind,
		Unregister: k.Flags&perfdata.KSymbolUnregister != 0, Name: string(k.Name), CPU: -1}
	if use == useRecorded {
		e.CPU = cpuOf(ch, &k.SampleID)
	}
	if kind == timeline.SymbolOutOfLine && (s.probes != nil || s.maybeProbed) {
		s.slotPages = append(s.slotPages, slotPage{timeline.Range{Lo: e.Addr, Hi: e.Addr + uint64(e.Len)}, e.Time, e.Unregister})
	}
	if e.Unregister {
		s.report.Symbols.Deaths++
	} else {
		s.report.Symbols.Births++
		if k.IsInterpreted() {
			s.report.BPF.Interpreted++
		}
	}
	if kind == timeline.SymbolBPF && (s.probes != nil || s.maybeProbed) {
		s.bpfBirths = append(s.bpfBirths, codeBirth{timeline.Range{Lo: e.Addr, Hi: e.Addr + uint64(e.Len)}, e.Time, e.Name, e.Unregister, k.TID})
	}
	if s.codeReads != nil {
		s.codeReads.symbol(&e, k.TID)
	}
	s.b.Symbol(e)
}

// bpfEvent is a BPF_EVENT, LOAD or UNLOAD, of a program.
type bpfEvent struct {
	time uint64
	id   uint32
	tid  uint32 // of the task that loaded or unloaded it
}

// bpfEvent notes the load or unload of a BPF program. addPrograms joins it with its info.
func (s *scan) bpfEvent(rec *perfdata.Record) {
	var e perfdata.BPFEvent
	if !s.decoded(rec, s.rec.BPFEvent(rec, &e)) {
		return
	}
	_, use := s.enterChosen(rec, &e.SampleID, e.Excess, takesBPF)
	if use != useRecorded && use != useAnnounced {
		return
	}
	if use == useAnnounced && e.Kind == perfdata.BPFUnload {
		s.broken(rec, "no time, but perf announces no unloads")
		return
	}
	s.announcedLate = s.announcedLate || use == useAnnounced && s.newest > 0
	switch e.Kind {
	case perfdata.BPFLoad:
		s.loads = append(s.loads, bpfEvent{e.Time, e.ID, e.TID})
	case perfdata.BPFUnload:
		s.unloads = append(s.unloads, bpfEvent{e.Time, e.ID, e.TID})
	}
}

// readSamples are the kinds of events whose samples are read.
const readSamples = takesModuleLoad | takesModuleFree | takesHotplug | takesBefore | takesAfter | takesCopy | takesWrites

// sample notes a sample's time, and the modules and CPUs that come and go.
func (s *scan) sample(rec *perfdata.Record) {
	id := &s.last.id
	if !s.decoded(rec, s.rec.SampleID(rec, id)) {
		return
	}
	e := s.enter(rec, id)
	ch := e.ch
	if ch == nil || e.foreign {
		return
	}
	early := s.maybeProbed && !s.formats && isTracepoint(ch.event) // what it is will be known later
	if ch.kinds&readSamples == 0 && !early {
		return
	}
	var sample perfdata.Sample
	if !s.decoded(rec, s.rec.Sample(rec, &sample)) {
		return
	}
	raw, err := sample.Raw()
	if early && ch.kinds&readSamples == 0 && (err != nil || len(raw) == 0) {
		return // no probe of ours
	}
	if !s.decoded(rec, err) {
		return
	}
	if s.follows && s.moduleFree == (tracepoint{}) && s.cpuhpEnter == (hotplugLayout{}) {
		s.tracepoints() // in a stream they come after the events
	}
	if ch.kinds&readSamples == 0 {
		s.waits(rec, ch, id, raw)
		return
	}
	s.tracepointSample(rec, ch.event, ch.kinds, id, raw, ch.buffer.lost)
}

// tracepointSample handles the raw data of a sample of a tracepoint whose kinds are given. Before it, its
// ring buffer had lost so many records.
func (s *scan) tracepointSample(rec *perfdata.Record, e *perfdata.Event, k kinds, id *perfdata.SampleID, raw []byte, lost uint64) {
	if p := s.probeOf(e); p != nil {
		s.probeSample(rec, p, id, raw, lost)
		return
	}
	if k&takesHotplug != 0 {
		s.hotplug(rec, raw, id.Time)
		return
	}
	if k&(takesModuleLoad|takesModuleFree) == 0 {
		return
	}
	layout, loaded := s.moduleFree, k&takesModuleLoad != 0
	if loaded {
		layout = s.moduleLoad
	}
	if layout == (tracepoint{}) {
		return // the module's name cannot be read; the coverage says so
	}
	name, ok := layout.nameOf(raw, s.rec.ByteOrder().Uint32)
	if !ok {
		s.broken(rec, "no module name")
		return
	}
	s.moduleEvents[name] = append(s.moduleEvents[name], moduleEvent{id.Time, loaded})
}

// idIndex reads where perf opened each id. An ID_INDEX record replaces what was derived.
func (s *scan) idIndex(rec *perfdata.Record) {
	var ix perfdata.IDIndex
	if !s.decoded(rec, s.rec.IDIndex(rec, &ix)) {
		return
	}
	for _, e := range ix.Entries {
		ch := s.channels.get(e.ID)
		if ch == nil {
			ev := s.rec.EventByID(e.ID)
			if ev == nil {
				s.broken(rec, "event id %d is not one of the recording", e.ID)
				continue
			}
			ch = s.newChannel(ev)
			s.channels.set(e.ID, ch)
		}
		where := opening{cpu: e.CPU, pinned: e.CPU >= 0, indexed: true}
		where.system = where.pinned && e.TID == -1
		if m := machinePID(&e); m != 0 {
			// e.CPU and e.TID are of the host thread that ran the virtual CPU. perf
			// asks for text pokes only on all CPUs and for all tasks
			// (record__config_text_poke of tools/perf/builtin-record.c).
			where.machine, s.guests.ids = m, true
			s.guests.guest(m)
			where.cpu, where.pinned = e.VCPU, false
			where.system = where.cpu >= 0 && ch.kinds&takesPokes != 0
		}
		s.open(ch, e.ID, where)
	}
	s.located = false
}

// An exec is the start of a program by a process.
type exec struct {
	pid  uint32
	time uint64
}

// comm finds perf's exec of the workload. perf forks a child, which has the name
// perf-exec, and copies kernel text. Then the child executes the workload, which the
// kernel records as a COMM by exec.
func (s *scan) comm(rec *perfdata.Record) {
	var c perfdata.Comm
	if !s.decoded(rec, s.rec.Comm(rec, &c)) {
		return
	}
	e := s.enter(rec, &c.SampleID)
	if e.machine == 0 {
		s.guests.comm(c.PID, c.Comm)
		s.tasks.named(&c, e.ch != nil)
	}
	if c.Time != 0 {
		s.fitsName(rec, c.Excess)
	}
	if e.foreign {
		return
	}
	if c.Time == 0 {
		if string(c.Comm) == "perf-exec" {
			s.perfExec[c.PID] = true
			if e.ch == nil { // perf lists it: the record is not the kernel's
				s.waiter.pid = c.PID
			}
		}
		return
	}
	s.writesNone(rec, &c.SampleID)
	if rec.Misc&perfdata.MiscCommExec != 0 {
		s.execs = append(s.execs, exec{c.PID, c.Time})
		if !s.perfExec[c.PID] {
			s.start.program(c.Time)
		}
	}
}

// mmap reads the kernel's own map, and those of modules, which are used if the
// recording has no module list.
func (s *scan) mmap(rec *perfdata.Record) {
	var m perfdata.Mmap
	if !s.decoded(rec, s.rec.Mmap(rec, &m)) {
		return
	}
	e := s.enter(rec, &m.SampleID)
	if m.Time != 0 {
		s.fitsName(rec, m.Excess)
	}
	if e.foreign {
		return
	}
	if m.Time != 0 {
		s.waiter.meet(m.PID, m.Time)
		s.writesNone(rec, &m.SampleID)
		return
	}
	kernel := uint16(perfdata.MiscKernel)
	if s.machine != 0 {
		kernel = perfdata.MiscGuestKernel
	}
	if rec.CPUMode() != kernel || m.Addr+m.Len < m.Addr {
		return
	}
	name := string(m.Filename)
	switch {
	case strings.HasPrefix(name, "[kernel.kallsyms]"), strings.HasPrefix(name, "[guest.kernel.kallsyms"):
		s.textLo, s.textHi = m.Addr, m.Addr+m.Len
		s.running.kernelMap(&m)
		if len(m.BuildID) > 0 {
			s.buildID = bytes.Clone(m.BuildID)
		}
	case strings.HasPrefix(name, "["):
		s.moduleMap(&m)
		if !slices.ContainsFunc(s.modules, func(o kcore.Module) bool { return o.Addr == m.Addr }) {
			s.modules = append(s.modules, kcore.Module{Name: strings.Trim(name, "[]"), Addr: m.Addr, Size: m.Len})
		}
	case strings.Contains(path.Base(name), ".ko"):
		s.moduleMap(&m)
	}
}
