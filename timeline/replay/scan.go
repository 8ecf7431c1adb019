// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/internal/recordargs"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// A scan reads a recording once and keeps what an image is made of.
type scan struct {
	rec      *perfdata.Recording
	b        *timeline.Builder
	report   *Report
	progress func(done, total int64)
	arch     architecture

	channels  channels
	listening int    // how many of the recording's events have channels
	opened    opened // where events were opened, if there is no ID_INDEX
	located   bool   // the channels have all that opened says
	late      bool   // some records were read before the place of their id was known
	reopened  bool   // another scan found all places before this one began
	byPlace   map[place]*channel
	nameless  map[*perfdata.Event]*channel // of records without an id
	buffers   []*ringBuffer                // by CPU
	byCPU     map[bufferKey]*ringBuffer
	files     []round
	newest    uint64 // time of the newest record
	widest    uint64 // size of the largest TEXT_POKE, KSYMBOL or BPF_EVENT, if it is larger than recordRoom
	byBuffer  bool   // the records are not in the order of time
	stopped   error  // why reading ended early
	skipped   error  // why the first records that were left out could not be read
	clean     bool
	several   bool // some CPU has several events that take the same records
	// severalPoke is set if these records are text pokes.
	severalPoke bool
	unnamed     uint64 // LOST_SAMPLES that name no id

	tasks  taskLog
	unseen []unseenFork
	// unseenLate are those of the CPU of silent, see bridged.
	unseenLate []unseenFork
	silent     *ringBuffer
	cpuhpEnter hotplugLayout
	// watchesCPUs is true if every CPU that went offline since watchesFrom was recorded.
	watchesCPUs bool
	watchesFrom uint64
	// unreadStep is the time of the first record that may be a step of a CPU and was not read,
	// because the name of its event came later; MaxTime if there is none.
	unreadStep uint64

	moduleLoad, moduleFree tracepoint
	moduleEvents           map[string][]moduleEvent // by module
	probes                 *probeLog                // nil if no event is a probe on a text writer
	slotPages              []slotPage               // if there are probes
	bpfBirths              []codeBirth              // if there are probes
	listedPages            map[uint64]bool          // of out-of-line code, by address: in the kallsyms of "textreplay record"
	codeReads              *codeReads               // nil if no BPF image was read

	perfExec map[uint32]bool // pids of perf before its exec of the workload
	ownCopy  bool            // the recording has the copy of text that perf made for it
	execs    []exec
	start    start
	loads    []bpfEvent
	unloads  []bpfEvent
	// announcedLate is true if perf announced symbols or programs after records of
	// the kernel.
	announcedLate bool
	modules       []kcore.Module

	textLo, textHi uint64 // from the kernel's own map
	running        running
	buildID        []byte // of the image's kernel, from the records; nil if unknown
	damage         []error
	counts         [128]uint64
	others         map[perfdata.RecordType]uint64
	chosen         bool
	heard          [len(duplicated)]map[int64]*perfdata.Event // the events whose records are read, by CPU
	endings        map[endingKey]*ending                      // of the events that are read, if several listen

	options  recordargs.Limits
	disabled []bool           // by event: perf opened it disabled, see startsDisabled
	cpus     int              // Options.CPUs
	machine  int              // the machine that the image is of: 0 the host, else a guest
	journal  *recorderJournal // of "textreplay record"; nil if perf made the recording
	listens  int              // the machine whose events are read; 0 if nothing was recorded in the guest
	guests   guests

	follows bool // the records come from a stream, so they can be read only once
	// formats is set when the formats of tracepoints are known. Until then, unformatted
	// keeps their samples if any of them may be a probe's.
	formats, maybeProbed bool
	formatFile           []byte // formats of tracepoints that are not in the recording
	unformatted          []unformatted
	readers              map[uint32]probeReader // processes that may have read hit counters

	samples, pokes quickPass
	chunking       chunking // how records are read ahead on all CPUs
	inRuns         int      // how many records were entered as runs
	freeChunks     []*chunk // that can be used again
	misjudged      int      // how many chunks were decoded again
	// last holds what was decoded last. Its fields are reused, because clearing them
	// for each record costs more than decoding.
	last struct {
		id     perfdata.SampleID
		poke   perfdata.TextPoke
		plain  perfdata.TextPoke // PlainTextPoke and PlainSample set some of its fields
		passed timeline.Poke
	}

	keepPlaced bool
	placed     placedPokes // for the windows
	writers    writers
	callees    callees
}

// An exec is the start of a program by a process.
type exec struct {
	pid  uint32
	time uint64
}

// bpfEvent is a BPF_EVENT, LOAD or UNLOAD, of a program.
type bpfEvent struct {
	time uint64
	id   uint32
}

// newScan returns a scan of a recording. formats has the formats of tracepoints if the
// recording has none.
func newScan(rec *perfdata.Recording, formats []byte, progress func(done, total int64)) *scan {
	s := &scan{
		rec:          rec,
		formatFile:   formats,
		b:            timeline.NewBuilder(),
		report:       &Report{First: timeline.MaxTime},
		progress:     progress,
		chunking:     usualChunking,
		byCPU:        make(map[bufferKey]*ringBuffer),
		perfExec:     make(map[uint32]bool),
		others:       make(map[perfdata.RecordType]uint64),
		moduleEvents: make(map[string][]moduleEvent),
		unreadStep:   timeline.MaxTime,
	}
	s.tracepoints()
	s.probed()
	s.listen()
	return s
}

// tracepoints finds the formats of the tracepoints of modules and of hotplug.
func (s *scan) tracepoints() {
	if data := tracingFormats(s.rec, s.formatFile); data != nil {
		s.moduleLoad = parseTracepoint(data, "module_load")
		s.moduleFree = parseTracepoint(data, "module_free")
		s.cpuhpEnter = parseHotplug(data)
	}
}

// listen makes channels for the recording's events, as far as they are known.
func (s *scan) listen() {
	events := s.rec.Events()
	s.samples, s.pokes = quickPass{}, quickPass{}
	lowest := timeline.MaxTime
	for _, e := range events {
		for _, id := range e.IDs {
			lowest = min(lowest, id)
		}
	}
	if s.listening == 0 {
		s.channels.base = lowest
	}
	for _, e := range events[s.listening:] {
		for _, id := range e.IDs {
			s.channels.set(id, s.newChannel(e))
		}
		if s.nameless == nil {
			s.nameless = make(map[*perfdata.Event]*channel)
		}
		s.nameless[e] = s.newChannel(e)
	}
	s.listening, s.located = len(events), false
}

// name updates what the events take whose names are known.
func (s *scan) name() {
	for _, e := range s.rec.Events() {
		s.named(e)
	}
}

// expected estimates the number of pokes, to allocate room for them.
func (s *scan) expected() int {
	// A poke of the usual five bytes takes 64 bytes of a file.
	return int(min(s.rec.Size()/60, 1<<22))
}

const maxWarnings = 100

// warn adds a warning to the report, up to maxWarnings of them.
func (s *scan) warn(err error) {
	if len(s.report.Warnings) < maxWarnings {
		s.report.Warnings = append(s.report.Warnings, err)
	}
}

// broken notes damage. It spoils the whole recording: a record that does not fit its
// place in the file may hide others.
func (s *scan) broken(rec *perfdata.Record, format string, args ...any) {
	if len(s.damage) >= maxWarnings {
		return
	}
	err := fmt.Errorf("%v record at offset %#x: %s", rec.Type, rec.Offset, fmt.Sprintf(format, args...))
	s.damage = append(s.damage, err)
	s.warn(err)
}

// decoded reports whether err is nil. If it is not, the record is damaged.
func (s *scan) decoded(rec *perfdata.Record, err error) bool {
	if err != nil {
		s.broken(rec, "%v", err)
	}
	return err == nil
}

// buffer returns the ring buffer of a key, and adds it if it is new.
func (s *scan) buffer(key bufferKey) *ringBuffer {
	b := s.byCPU[key]
	if b == nil {
		b = &ringBuffer{bufferKey: key}
		s.byCPU[key] = b
		s.buffers = append(s.buffers, b)
	}
	return b
}

// bufferOf returns the ring buffer that the event of this id writes to: that of its
// CPU, or a separate one if the event follows a thread over all CPUs. Events with
// attr.write_backward (perf record --overwrite) do not share the others' buffers.
func (s *scan) bufferOf(ch *channel, id uint64) *ringBuffer {
	if ch.buffer != nil {
		return ch.buffer
	}
	key := bufferKey{ch.cpu, ch.event.Attr.Flags&perfdata.FlagWriteBackward != 0}
	if ch.cpu >= 0 {
		return s.buffer(key)
	}
	key.cpu = -1 - int64(id&(1<<62-1))
	b := s.buffer(key)
	b.unplaced = !ch.indexed
	b.mixed = id == 0
	return b
}

// beforeAhead is the number of records after which readAll decides whether two goroutines read.
const beforeAhead = 1 << 14

// How many records are read one by one before chunks are tried, at first and where they
// have not paid.
const (
	firstWait   = 64
	longestWait = 1 << 20
)

// shouldReadAhead reports whether another goroutine should find the next records while this
// one uses these: only if they must be decompressed. Handing over other records takes longer
// than finding them.
func (s *scan) shouldReadAhead() bool {
	return runtime.GOMAXPROCS(0) > 1 && s.counts[perfdata.RecordCompressed]+s.counts[perfdata.RecordCompressed2] > 0
}

// readAll reads all records. It returns false if some were read before the scan knew
// where their ids were opened. Then another scan, which knows it from the start, must
// read them once more, see reopen.
func (s *scan) readAll() bool {
	total, done := s.rec.Size(), int64(0)
	const step, longStep = 1 << 24, 1 << 27
	next, long := int64(step), int64(longStep)
	sc := s.rec.Scan()
	unload := sc.Unload
	account := func(bytes int) {
		if done += int64(bytes); done < next {
			return
		}
		next = done + step
		if total > unloadAbove {
			if unload(); done >= long {
				s.rec.Unload() // some of what was read before was read again
				long = done + longStep
			}
		}
		if s.progress != nil {
			s.progress(min(done, total), total)
		}
	}
	wait := min(firstWait, s.chunking.records) // records until chunks are tried
	for n, tryAt := 1, wait; sc.Next(); n++ {
		rec := sc.Record()
		s.step(rec)
		account(len(rec.Raw) + len(sc.Payload())) // the pages around an AUX trace are unloaded too
		if n == beforeAhead && s.shouldReadAhead() {
			break
		}
		if n == tryAt {
			if wait = min(2*wait, longestWait); s.readChunks(sc, account) > s.chunking.records {
				wait = min(firstWait, s.chunking.records)
			}
			tryAt = n + wait
		}
	}
	s.stopped, s.skipped = sc.Err(), sc.Damage()
	if s.shouldReadAhead() {
		// The loops are the same. A call through an interface would take longer than the rest.
		sc := sc.Ahead()
		unload = sc.Unload
		defer sc.Stop() // before the recording can be closed
		for sc.Next() {
			rec := sc.Record()
			s.step(rec)
			account(len(rec.Raw))
		}
		s.stopped, s.skipped = sc.Err(), sc.Damage()
	}
	if total > unloadAbove {
		s.rec.Unload()
	}
	if s.progress != nil {
		s.progress(total, total)
	}
	s.place(true)
	if s.late && !s.reopened {
		return false
	}
	s.addProbed()
	return true
}

// finish derives what follows from all records together.
func (s *scan) finish() {
	s.skip(s.skipped)
	s.end(s.stopped)
	s.sum()
	switch err := s.rec.CleanEnd(); {
	case err == nil && s.unclean() != "":
		s.warn(fmt.Errorf("the recording has no clean end: %s", s.unclean()))
	case err == nil:
		s.clean = s.stopped == nil && len(s.damage) == 0
	case s.stopped == nil:
		s.warn(fmt.Errorf("the recording has no clean end: %w", err))
	}
	if s.listens != 0 {
		s.countVCPUs(s.clean)
		s.clean = false // it is not known whether the guest's own recording was whole
	}
	s.conclude()
}

// unclean returns why the end of an undamaged file is not the end of the recording,
// "" if it is.
func (s *scan) unclean() string {
	switch {
	case s.options.Switched:
		return "perf record --switch-output goes on in another file"
	case s.options.Pipe, s.counts[perfdata.RecordHeaderAttr] > 0, s.counts[perfdata.RecordHeaderFeature] > 0:
		return "perf inject read its records from a pipe, and some may be missing"
	}
	return ""
}

// step counts and reads the next record.
func (s *scan) step(rec *perfdata.Record) {
	for rec.File >= len(s.files) {
		s.files = append(s.files, round{})
	}
	if rec.Type < perfdata.RecordType(len(s.counts)) {
		s.counts[rec.Type]++
	} else {
		s.others[rec.Type]++
	}
	s.record(rec)
}

// end warns of what the reader met, and of err, which ended the reading early.
func (s *scan) end(err error) {
	for _, w := range s.rec.Warnings() {
		s.warn(w)
	}
	if err != nil {
		s.warn(err)
	}
}

// nothing returns an error that wraps [perfdata.ErrNothing] if no record could be read.
// It returns nil if some were read, or if the file has none.
func (s *scan) nothing(stopped error) error {
	if stopped == nil || len(s.files) > 0 {
		return nil
	}
	return fmt.Errorf("%w: %w", perfdata.ErrNothing, stopped)
}

// skip notes as damage that records before the end could not be read; err is nil if
// all were. A file that was cut short is not damaged: its horizon is earlier.
func (s *scan) skip(err error) {
	if err != nil {
		s.damage = append(s.damage, err)
	}
}

// sum completes the ring buffers after the last record.
func (s *scan) sum() *scan {
	const jitter = 1e9 // ns; a time that goes back further is damage
	for _, b := range s.buffers {
		if b.backwards > jitter && !b.mixed {
			s.damage = append(s.damage, fmt.Errorf("times of %s go back by %s", b.where(), seconds(b.backwards)))
			s.warn(s.damage[len(s.damage)-1])
		}
	}
	slices.SortFunc(s.buffers, func(a, b *ringBuffer) int { return a.compare(b.bufferKey) })
	for id, ch := range s.channels.all {
		if ch.machine != s.listens {
			continue
		}
		ch.buffer = s.bufferOf(ch, id)
		ch.buffer.takes |= ch.kinds
		ch.buffer.count(ch)
	}
	s.markUnread()
	for _, b := range s.buffers {
		b.endUntimed(timeline.MaxTime)
	}
	if s.follows && s.several {
		s.checkDuplicates()
	}
	return s
}

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

// poke adds a poke to the image. The thread tid made it.
func (s *scan) poke(from *ringBuffer, p *timeline.Poke, tid uint32) {
	p.NotBefore = from.tasks.notBefore(p.Time)
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
		s.waits(rec, ch.event, id, raw)
		return
	}
	s.tracepointSample(rec, ch.event, ch.kinds, id, raw)
}

// tracepointSample handles the raw data of a sample of a tracepoint whose kinds are given.
func (s *scan) tracepointSample(rec *perfdata.Record, e *perfdata.Event, k kinds, id *perfdata.SampleID, raw []byte) {
	if p := s.probeOf(e); p != nil {
		s.probeSample(rec, p, id, raw)
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
	}
	if kind == timeline.SymbolBPF && (s.probes != nil || s.maybeProbed) {
		s.bpfBirths = append(s.bpfBirths, codeBirth{timeline.Range{Lo: e.Addr, Hi: e.Addr + uint64(e.Len)}, e.Time, e.Name, e.Unregister})
	}
	if s.codeReads != nil {
		s.codeReads.symbol(&e, k.TID)
	}
	s.b.Symbol(e)
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
		s.loads = append(s.loads, bpfEvent{e.Time, e.ID})
	case perfdata.BPFUnload:
		s.unloads = append(s.unloads, bpfEvent{e.Time, e.ID})
	}
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

// describe fills in the part of the report that the recording's header gives.
func (s *scan) describe(r *Replay) {
	rep, rec := s.report, s.rec
	if s.follows {
		s.tracepoints()
	}
	rep.Kernel, _ = rec.OSRelease()
	rep.Arch, _ = rec.Arch()
	rep.Host, _ = rec.Hostname()
	var core *kcore.Core
	if r.Snapshot != nil {
		core = r.Snapshot.Core
	}
	s.arch = architectureOf(core, rep.Arch)
	if p := s.probes; p != nil {
		if w := &p.writer; w.arm == nil || w.core != core || w.k != r.kallsyms {
			*w = newProbeCode(core, r.kallsyms)
		}
		p.sources = r.counters
	}
	rep.Arch = s.arch.name
	rep.Producer = ""
	if v, err := rec.Version(); err == nil {
		rep.Producer = "perf " + v
	}
	args, err := rec.Cmdline()
	confined := s.options.Cgroup
	s.options, s.disabled = recordargs.Limits{}, nil
	if s.machine == 0 {
		s.options = recordargs.LimitsOf(args) // a guest's perf had another command line
		s.codeReads = newCodeReads(r.journal)
		if s.journal = r.journal; s.journal != nil {
			s.options = recordargs.Limits{Known: true} // perf did not record this
			rep.Producer = strings.TrimPrefix(rep.Producer, "perf ")
		}
	}
	if s.options.Cgroup != confined {
		s.chosen = false
	}
	if err == nil && len(args) > 0 {
		rep.Producer = strings.TrimSpace(rep.Producer + ": " + strings.Join(args, " "))
	}
	if available, online, err := rec.NRCPUs(); err == nil {
		rep.CPUsAvailable, rep.CPUsOnline = int(available), int(online)
	} else {
		rep.CPUsAvailable, rep.CPUsOnline = s.cpus, s.cpus
	}
	rep.Clock.describe(rec)
	if s.machine != 0 {
		s.describeGuest(core)
	}
}

// conclude fills in the part of the report that the records give.
func (s *scan) conclude() {
	rep := s.report
	if rep.First == timeline.MaxTime { // of what overwrites its oldest records, if there is nothing else
		for _, b := range s.buffers {
			if b.first != 0 {
				rep.First = min(rep.First, b.first)
			}
		}
	}
	if rep.First == timeline.MaxTime {
		rep.First = 0
	}
	rep.Last = s.newest
	rep.Clean = s.clean
	rep.BuildID = hex.EncodeToString(s.kernelBuildID())
	rep.Guests = s.guests.list(s.rec.Dir())
	rep.Records = make(map[perfdata.RecordType]uint64)
	for t, n := range s.counts {
		if n > 0 {
			rep.Records[perfdata.RecordType(t)] = n
		}
	}
	for t, n := range s.others {
		rep.Records[t] = n
	}
}
