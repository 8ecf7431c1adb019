// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"fmt"
	"slices"

	"github.com/textreplay/textreplay/internal/recordargs"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// A scan reads a recording once and keeps what an image is made of: step reads each record
// (records.go), finish derives what needs all of them, and facts (facts.go) adds gaps, copies and
// code to the builder.
type scan struct {
	rec      *perfdata.Recording
	b        *timeline.Builder
	report   *Report
	progress func(done, total int64)
	arch     architecture

	// What the recording listened to: where each event was opened, and the ring buffers with
	// what was lost of them.
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
	passed    uint64 // of the newest one that is no copy, see ringBuffer.side
	widest    uint64 // size of the largest TEXT_POKE, KSYMBOL or BPF_EVENT, if it is larger than recordRoom
	byBuffer  bool   // the records that are no copies are not in the order of time
	stopped   error  // why reading ended early
	skipped   error  // why the first records that were left out could not be read
	clean     bool   // the recording ends as a finished one does
	several   bool   // some CPU has several events that take the same records
	// severalPoke is set if these records are text pokes.
	severalPoke bool
	unnamed     uint64 // LOST_SAMPLES that name no id

	// CPUs that went offline, or may have, and the tasks that show it.
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

	// Modules, probes and code: what comes and goes without a text poke.
	moduleLoad, moduleFree tracepoint
	moduleEvents           map[string][]moduleEvent // by module
	probes                 *probeLog                // nil if no event is a probe on a text writer
	slotPages              []slotPage               // if there are probes
	bpfBirths              []codeBirth              // if there are probes
	listedPages            map[uint64]bool          // of out-of-line code, by address: in the kallsyms of "textreplay record"
	codeReads              *codeReads               // nil if no BPF image was read

	// The start of the recording: when perf copied text, and what it announced.
	perfExec map[uint32]bool // pids of perf before its exec of the workload
	waiter   waiter
	ownCopy  bool // the recording has the copy of text that perf made for it
	execs    []exec
	start    start
	loads    []bpfEvent
	unloads  []bpfEvent
	// announcedLate is true if perf announced symbols or programs after records of
	// the kernel.
	announcedLate bool
	modules       []kcore.Module

	// The kernel, and what is damaged or unusual.
	textLo, textHi uint64 // from the kernel's own map
	running        running
	buildID        []byte // of the image's kernel, from the records; nil if unknown
	damage         []error
	counts         [128]uint64
	others         map[perfdata.RecordType]uint64
	chosen         bool
	heard          [len(duplicated)]map[int64]*perfdata.Event // the events whose records are read, by CPU
	endings        map[endingKey]*ending                      // of the events that are read, if several listen

	// What the caller and the command line of perf say, and whose records are read.
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

	done int64 // how many bytes of the files were read

	// How records are read fast: runs of equal ones, and chunks on all CPUs.
	samples, pokes quickPass
	chunking       chunking // how records are read ahead on all CPUs
	inRuns         int      // how many records were entered as runs
	again          struct { // the runs that a second pass can take as wholes, and their records
		runs, records uint64
	}
	freeChunks []*chunk // that can be used again
	misjudged  int      // how many chunks were decoded again
	// last holds what was decoded last. Its fields are reused, because clearing them
	// for each record costs more than decoding.
	last struct {
		id     perfdata.SampleID
		poke   perfdata.TextPoke
		plain  perfdata.TextPoke // PlainTextPoke and PlainSample set some of its fields
		passed timeline.Poke
	}

	// What windows and mechanisms need, see Options.Windows.
	keepPlaced bool
	placed     placedPokes // for the windows
	writers    writers
	callees    callees
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
	return int(min(sizeOfRecords(s.rec)/60, 1<<22))
}

const maxWarnings = 100

// warn adds a warning to the report, up to maxWarnings of them.
func (s *scan) warn(err error) {
	if len(s.report.Warnings) < maxWarnings {
		s.report.Warnings = append(s.report.Warnings, err)
	}
}

// warnFirst adds warnings before all others.
func (s *scan) warnFirst(warnings []error) {
	all := slices.Concat(warnings, s.report.Warnings)
	s.report.Warnings = all[:min(len(all), maxWarnings)]
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

// How many records are read one by one before chunks are tried, at first and where they
// have not paid.
const (
	firstWait   = 64
	longestWait = 1 << 20
)

// readAll reads all records. It returns false if some were read before the scan knew
// where their ids were opened. Then another scan, which knows it from the start, must
// read them once more, see reopen.
func (s *scan) readAll() bool {
	total := s.rec.Size()
	const longStep = 1 << 27
	next, long := int64(unloadStep), int64(longStep)
	sc := s.rec.Scan(perfdata.Rejoin())
	unload := sc.Unload
	account := func(bytes int) {
		if s.done += int64(bytes); s.done < next {
			return
		}
		next = s.done + unloadStep
		if total > unloadAbove {
			if unload(); s.done >= long {
				s.rec.Unload() // some of what was read before was read again
				long = s.done + longStep
			}
		}
		if s.progress != nil {
			s.progress(min(s.done, total), total)
		}
	}
	wait := min(firstWait, s.chunking.records) // records until chunks are tried
	for n, tryAt := 1, wait; sc.Next(); n++ {
		rec := sc.Record()
		s.step(rec)
		account(len(rec.Raw) + len(sc.Payload())) // the pages around an AUX trace are unloaded too
		if isCompressed(rec.Type) && s.chunking.batch > 0 {
			unload = func() {} // the batches do
			s.readBatches(sc, account)
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

// share returns how much of the recording was read, more than 0 and at most 1.
func (s *scan) share() float64 {
	if s.done <= 0 || s.done >= s.rec.Size() {
		return 1
	}
	return float64(s.done) / float64(s.rec.Size())
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
		if s.warn(w); errors.Is(w, perfdata.ErrEventsDiffer) {
			s.damage = append(s.damage, w) // whose records are whose, and what is in them, is not certain
		}
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
	for _, b := range s.buffers {
		if b.backwards > jitter && !b.mixed && !s.rewritten(b) {
			s.damage = append(s.damage, fmt.Errorf("times of %s go back by %s", b.where(), seconds(b.backwards)))
			s.warn(s.damage[len(s.damage)-1])
		}
	}
	slices.SortFunc(s.buffers, func(a, b *ringBuffer) int { return a.compare(b.bufferKey) })
	if s.sorted() {
		for _, b := range s.buffers {
			b.widenLosses()
		}
	}
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
