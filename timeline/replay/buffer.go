// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"maps"
	"slices"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// A ringBuffer is one of the kernel's ring buffers. perf maps one for each CPU, or
// for each thread in per-thread recordings. All events of that CPU write into it.
// Its records are in the order of time. It counts its losses separately.
type ringBuffer struct {
	bufferKey
	unplaced    bool   // the place of its id is unknown: it may be any CPU's
	mixed       bool   // has records of several ring buffers that cannot be separated
	first, last uint64 // times of its records, 0 if there is none
	// second is the time of the first record behind the first one that is younger: it was
	// made when the first one had been written. 0 if there is none.
	second uint64
	// side is the time of the newest record that is not a sample. Samples come from
	// interrupts. An interrupt may come after a side-band record takes its time and
	// before that record is written. So a side-band record can follow newer samples,
	// but never a newer side-band record.
	// It is not that of a copy for another event: perf inject writes these too early, see
	// [perfdata.Rejoin].
	side uint64
	// sideBefore is the value of side before that record. older are earlier values, the latest first;
	// some may be left out.
	sideBefore uint64
	older      [mostInterrupted]uint64
	copied     uint64 // time of the newest copy
	longest    uint64 // longest time between two records
	losses     []Loss
	sorted     []timeline.Interval // of each loss, if the records were put into the order of time
	untimed    uint64              // number of lost records in LOST records without a time, so far
	lossTally
	takes kinds // what its events record
	// Bytes of records in the current round, in the round before it, in the two rounds that
	// ended with the newest record, and in the last of these two.
	round, before, busy, ending uint64
	fullest                     uint64 // the most bytes of one round
	// backwards is the largest step back in time between records other than samples, or from a
	// sample to records that were written after it.
	backwards uint64
	ahead     ahead
	tasks     taskOrder
	// running is the task that runs on the CPU since its last SWITCH record; 0 if none
	// does, or if it is unknown.
	running uint32
}

// taskOrder follows the times of the records that tasks make, in one ring buffer. The
// kernel writes these records in the order of time. If their times go back, someone set
// the clock back, or perf wrote some records twice:
//
//	round      A B C D   C D E F
//	repeated             ^ ^
type taskOrder struct {
	newest, latest uint64   // the greatest time, and the time of the last record
	times          []uint64 // of the newest records
	dropped        int      // how many times were before these
	repeated       int      // index into times of the next record in a repetition
	steps          []step   // where the clock was set back
	// waiting has the newest times that are not in times yet: they are still in the file. They
	// are needed only if times go back, so mostly they are never read.
	waiting   []timesInFile
	waitingOf int // how many times, those of older runs included that are not in waiting any more
	// index has the first place in times of each time, for the first indexed of them. It is made
	// after mostSearches, since a clock that was set back needs one for each record until it shows
	// the newest time again.
	index    map[uint64]int
	indexed  int
	searched int
}

// mostSearches is how often a time is searched for before there is an index.
const mostSearches = 64

// timesInFile are times that do not go back: those of successive records, or a single one.
type timesInFile struct {
	pokes  pokeRecords // without data: a single time
	n      int         // how many
	single uint64
}

// each calls add with each time but the first skipped ones.
func (x *timesInFile) each(skipped int, add func(t uint64)) {
	if x.pokes.data == nil {
		if skipped == 0 {
			add(x.single)
		}
		return
	}
	for p := range x.pokes.all {
		if skipped--; skipped < 0 {
			add(p.Time)
		}
	}
}

// A step is where a ring buffer's times go back: before is the greatest time so far,
// after is the next time, that of the record with this number.
type step struct {
	before, after uint64
	record        int
}

// keptTimes is the number of records that perf may write twice at once. perf repeats the
// records that came while it wrote out the content of a ring buffer.
const keptTimes = 1 << 16

// madeByTask reports whether tasks make the records of this type. Other records come
// from interrupts, which may come between the time of a record and its writing.
func madeByTask(typ perfdata.RecordType) bool {
	return typ == perfdata.RecordTextPoke || isOfTask(typ)
}

// isOfTask reports whether records of this type are about tasks: their names, births, deaths,
// maps and namespaces.
func isOfTask(typ perfdata.RecordType) bool {
	switch typ {
	case perfdata.RecordComm, perfdata.RecordFork, perfdata.RecordExit, perfdata.RecordMMAP, perfdata.RecordMMAP2, perfdata.RecordNamespaces:
		return true
	}
	return false
}

// see adds the time of the next record that a task made.
func (o *taskOrder) see(t uint64) {
	if t >= o.newest {
		if len(o.waiting) > 0 {
			o.wait(timesInFile{n: 1, single: t}, t)
			return
		}
		o.add(t)
		o.newest, o.repeated = t, 0
		return
	}
	o.settle()
	if i := o.repeats(t); i >= 0 {
		o.repeated = i + 1
		return
	}
	if t < o.latest {
		o.steps = append(o.steps, step{o.newest, t, o.dropped + len(o.times)})
	}
	o.repeated = 0
	o.add(t)
}

// seeAll is see for times that do not go back, the first of which is not older than what o has seen.
func (o *taskOrder) seeAll(times []uint64) {
	o.settle()
	if len(o.times)+len(times) <= 2*keptTimes {
		o.times = append(o.times, times...)
	} else {
		for _, t := range times {
			o.add(t)
		}
	}
	last := times[len(times)-1]
	o.newest, o.latest, o.repeated = last, last, 0
}

// mostWaiting is how many runs of times may wait.
const mostWaiting = 1 << 13

// wait is see for times that do not go back. last is the last one.
func (o *taskOrder) wait(x timesInFile, last uint64) {
	o.waiting = append(o.waiting, x)
	o.waitingOf += x.n
	o.newest, o.latest, o.repeated = last, last, 0
	if len(o.waiting) == mostWaiting && !o.drop() {
		o.settle()
	}
}

// drop drops the oldest runs of waiting, which settle would not look at. It returns false if these are
// few.
func (o *taskOrder) drop() bool {
	n, first := 0, len(o.waiting)
	for ; first > 0 && n <= 2*keptTimes; first-- {
		n += o.waiting[first-1].n
	}
	if first < mostWaiting/8 {
		return false
	}
	o.waiting = o.waiting[:copy(o.waiting, o.waiting[first:])]
	return true
}

// settle adds the waiting times.
func (o *taskOrder) settle() {
	waiting, n := o.waiting, o.waitingOf
	o.waiting, o.waitingOf = o.waiting[:0], 0
	first, skipped := 0, 0
	if n > 2*keptTimes {
		// Only the newest ones are kept: as many as if they had been added one by one.
		total := len(o.times) + n
		kept := keptTimes + 1 + (total-2*keptTimes-1)%keptTimes
		o.dropped += total - kept
		o.times = o.times[:0]
		o.forget()
		for first = len(waiting); kept > 0; {
			first--
			kept -= waiting[first].n
		}
		skipped = -kept
	}
	latest := o.latest
	for i := range waiting[first:] {
		waiting[first+i].each(skipped, o.add)
		skipped = 0
	}
	o.latest = latest
}

// add adds the time of a record to those that a repetition is looked for in. Of more than
// 2*keptTimes times it drops the oldest.
func (o *taskOrder) add(t uint64) {
	if len(o.times) == 2*keptTimes {
		o.times = slices.Delete(o.times, 0, keptTimes)
		o.dropped += keptTimes
		o.forget()
	}
	o.times = append(o.times, t)
	o.latest = t
}

// repeats returns the index in o.times of the record that a record of time t repeats,
// or a negative number if it repeats none.
func (o *taskOrder) repeats(t uint64) int {
	if i := o.repeated; i > 0 && i < len(o.times) && o.times[i] == t {
		return i
	}
	if o.index == nil {
		if o.searched++; o.searched <= mostSearches {
			return slices.Index(o.times, t)
		}
		o.index = make(map[uint64]int, len(o.times))
	}
	for ; o.indexed < len(o.times); o.indexed++ {
		if _, ok := o.index[o.times[o.indexed]]; !ok {
			o.index[o.times[o.indexed]] = o.indexed
		}
	}
	if i, ok := o.index[t]; ok {
		return i
	}
	return -1
}

// forget drops the index: times have other places now.
func (o *taskOrder) forget() { o.index, o.indexed, o.searched = nil, 0, 0 }

// notBefore returns a lower bound for when the last record, of time t, was made: the time
// of an earlier record if that is greater than t, else 0. A record that perf wrote twice was
// made when the first of the two was.
func (o *taskOrder) notBefore(t uint64) uint64 {
	switch {
	case o.repeated > 0:
		return o.newestAt(o.repeated-1, t)
	case t == o.latest && t < o.newest:
		return o.newest
	}
	return 0
}

// newestAt returns the greatest time of a record before the i-th of o.times, of time t, if that is
// greater than t, else 0.
func (o *taskOrder) newestAt(i int, t uint64) uint64 {
	behind, _ := slices.BinarySearchFunc(o.steps, o.dropped+i+1, func(s step, record int) int { return cmp.Compare(s.record, record) })
	if behind > 0 && t < o.steps[behind-1].before {
		return o.steps[behind-1].before
	}
	return 0
}

// A bufferKey identifies a ring buffer.
type bufferKey struct {
	cpu int64 // below 0: a thread's, on any CPU
	// backward is set if new records overwrite the oldest ones without a LOST record,
	// and perf reads the newest record first.
	backward bool
}

// compare orders keys by CPU, and on one CPU the buffers that overwrite nothing first.
func (k bufferKey) compare(o bufferKey) int {
	if k.cpu == o.cpu && k.backward != o.backward {
		return map[bool]int{false: -1, true: 1}[k.backward]
	}
	return cmp.Compare(k.cpu, o.cpu)
}

// kinds is a set of the kinds of side-band records that events take.
type kinds uint16

const (
	takesPokes      kinds = 1 << iota // attr.text_poke
	takesSymbols                      // attr.ksymbol
	takesBPF                          // attr.bpf_event
	takesModuleLoad                   // the tracepoint module:module_load
	takesModuleFree                   // the tracepoint module:module_free
	takesHotplug                      // the tracepoint cpuhp:cpuhp_enter
	takesBefore                       // a probe on a text writer, before the store
	takesAfter                        // and after it
	takesCopy                         // a probe on the writer of BPF programs
	takesWrites                       // a probe on the writer of all text, which is recorded too
)

// PERF_TYPE_* of include/uapi/linux/perf_event.h.
const (
	typeSoftware   = 1
	typeTracepoint = 2
)

// kindsOf returns what an event takes, as far as its attr and its name say. Probes are found
// by scan.kindsOf. What a tracepoint says is in its raw data. It may take symbols too: perf lets its
// first event take them, unless it adds one for that (evsel__config() in tools/perf/util/evsel.c).
func kindsOf(e *perfdata.Event) (k kinds) {
	a := &e.Attr
	if isTracepoint(e) && a.SampleType&perfdata.SampleRaw != 0 {
		switch e.Name {
		case "module:module_load":
			k = takesModuleLoad
		case "module:module_free":
			k = takesModuleFree
		case "cpuhp:cpuhp_enter":
			k = takesHotplug
		}
	}
	if a.Flags&perfdata.FlagTextPoke != 0 {
		k |= takesPokes
	}
	if a.Flags&perfdata.FlagKSymbol != 0 {
		k |= takesSymbols
	}
	if a.Flags&perfdata.FlagBPFEvent != 0 {
		k |= takesBPF
	}
	return k
}

// hasTimes reports whether the records of an event have a time: samples, and all others.
func hasTimes(e *perfdata.Event) bool {
	return e.Attr.SampleType&perfdata.SampleTime != 0 && e.Attr.Flags&perfdata.FlagSampleIDAll != 0
}

// mostInterrupted is how many side-band records of a ring buffer may have a time and not be written
// yet, while an interrupt writes another record: one of a task, of a soft interrupt, and of an
// interrupt, if the last one is of an NMI.
const mostInterrupted = 3

// ahead follows how far the newest record of a ring buffer is ahead of side-band records that come after
// it. A few of these had their time before an interrupt wrote that record, and were written after it.
// More of them show that its time is wrong: it would make a silence seem to be usual.
type ahead struct {
	newest uint64 // the greatest time
	late   int    // how many side-band records came after that record and are older by more than jitter
}

// see adds a record's time.
func (a *ahead) see(t uint64) {
	if t > a.newest {
		a.newest, a.late = t, 0
	}
}

// side adds the time of a side-band record. It returns by how much this record is out of order: 0 if it may have
// been interrupted.
func (a *ahead) side(t uint64) uint64 {
	by := a.newest - min(t, a.newest)
	if by <= jitter {
		return 0
	}
	if a.late++; a.late > mostInterrupted || by > lateRecord {
		return by
	}
	return 0
}

// seeCopy is see for a copy of a record that another event has.
func (r *ringBuffer) seeCopy(t uint64) {
	side, before, older := r.side, r.sideBefore, r.older
	r.see(t, false)
	r.side, r.sideBefore, r.older = side, before, older
	r.copied = max(r.copied, t)
}

// see adds a record's time. Synthesized records have time 0 and are in no ring
// buffer.
func (r *ringBuffer) see(t uint64, sample bool) {
	if t == 0 {
		return
	}
	if r.untimed > 0 {
		r.endUntimed(t)
	}
	if r.backward {
		r.seeBackward(t, sample)
		return
	}
	if !sample {
		if newest := max(r.side, r.copied); t < newest {
			r.backwards = max(r.backwards, newest-t)
		}
		r.backwards = max(r.backwards, r.ahead.side(t))
		copy(r.older[1:], r.older[:])
		r.older[0], r.sideBefore, r.side = r.sideBefore, r.side, max(r.side, t)
	}
	r.ahead.see(t)
	if r.last == 0 {
		r.first, r.last = t, t
		return
	}
	if r.second == 0 && t > r.first {
		r.second = t
	}
	if t > r.last {
		r.longest = max(r.longest, t-r.last)
		r.last = t
	}
}

// seeBackward is see for a ring buffer that perf reads backwards.
func (r *ringBuffer) seeBackward(t uint64, sample bool) {
	if !sample {
		r.side = max(r.side, t)
	}
	if r.first == 0 {
		r.first, r.last = t, t
		return
	}
	if t < r.first {
		r.longest = max(r.longest, r.first-t)
		r.first = t
	}
	r.last = max(r.last, t)
}

// finishRound handles a FINISHED_ROUND record.
func (r *ringBuffer) finishRound() {
	if r.round > 0 {
		r.busy, r.ending = r.round+r.before, r.round
		r.fullest = max(r.fullest, r.round)
	}
	r.before, r.round = r.round, 0
}

// Bounds for what a ring buffer may lack if no record came from it for a while.
const (
	// pageRoom is how many bytes a ring buffer has at least in addition to a record
	// that changes text. It has a page or more, and perf frees what it has read of
	// a round only after it has read all of it.
	pageRoom = 2048
	// recordRoom is more than a record of a poke of an instruction or two, of a birth or of a load.
	recordRoom = 160
	// ringPage is the smallest size of a ring buffer.
	ringPage = 4096
	// lateRecord is the longest time, in nanoseconds, from a record's time to its
	// writing. Interrupts may come between, or other machines if the CPU is virtual.
	// An emulator took more than a second.
	lateRecord = 10e9
	// awayAtLeast is the shortest time, in nanoseconds, to take a CPU offline and online again.
	awayAtLeast = 10e6
)

// complete returns the time up to which the scan has seen all records and all losses
// of the buffer, in a recording that has not ended or has no clean end. This is the
// time before the newest side-band record, since another record of the same time may
// follow. FINISHED_ROUND records guarantee a later time if these three hold:
//
//   - A record may be written up to lateRecord after its time.
//   - The buffer was not full after its newest record. The guarantee is for
//     records only: the kernel reports a loss when it next finds room.
//   - The buffer is not silent for longer than ever before. A CPU that was taken
//     offline is silent, and its events do not come back with it.
//
// rounds is the time that the rounds guarantee. first is the time of the recording's
// first record. side and last are the times of the newest side-band record and of the newest
// record of those that count, see lastListening.
func (r *ringBuffer) complete(side, last, rounds, first uint64) uint64 {
	if r.last == 0 || r.mixed {
		return 0 // one of the ring buffers may have ended long before the newest record
	}
	sure := side
	if !r.mayBeFull(ringPage) {
		sure = max(sure, min(rounds-min(rounds, lateRecord), timeline.Later(last, max(r.longestSilence(first), awayAtLeast))))
	}
	return sure - min(sure, 1)
}

// mayBeFull reports whether a ring buffer of size bytes or more may have been full after its
// newest record. The kernel reports what it lost then with the next record that finds room.
func (r *ringBuffer) mayBeFull(size uint64) bool {
	busy, _ := r.newest()
	return busy > size-pageRoom
}

// newest returns how many bytes the two rounds had that ended with the newest record, and the
// last of these two.
func (r *ringBuffer) newest() (two, last uint64) {
	if r.round > 0 {
		return r.round + r.before, r.round
	}
	return r.busy, r.ending
}

// endedFull reports whether a ring buffer of size bytes, or of twice as many, four times and so
// on, may have had no room for a record of at most room bytes after its last one. Perf has read all
// of it then: in its last round, or in two, if the ring buffer became full before perf freed what it
// had read in the first one.
//
//	               round k            round k+1
//	ring buffer    ├─ read ──┤        ├─ read ──┤
//	               ▒▒▒▒▒▒▒▒▒▒▓▓▓▓▓▓▓▓▓▓         full here: the two rounds have all of it
//	               ▒▒▒▒▒▒▒▒▒▒ freed ░░░░░░░░░░░░  full after that: round k+1 has all of it
func (r *ringBuffer) endedFull(size, room uint64) bool {
	full := func(n uint64) bool {
		size := size // the least that has room for n
		for size < n {
			size *= 2
		}
		return n > size-room
	}
	two, last := r.newest()
	return full(last) || full(two)
}

// longestSilence returns the longest time without a record before the newest one.
func (r *ringBuffer) longestSilence(first uint64) uint64 {
	return max(r.longest, r.first-min(r.first, first))
}

// channel is what the scan knows of one event id.
type channel struct {
	opening
	event  *perfdata.Event
	buffer *ringBuffer
	used   bool  // has had records
	met    int64 // the CPU in its records, or metNone or metSeveral
	// first and last are the times of its first and its newest record, 0 if there is none yet.
	// side is that of the newest record that is not a sample, see ringBuffer.side.
	first, last, side uint64
	// lostSamples is the sum of the counts in the id's PERF_RECORD_LOST_SAMPLES.
	lostSamples uint64
	// kinds are the kinds of records that the event takes.
	kinds kinds
	// taken counts the id's TEXT_POKE, KSYMBOL and BPF_EVENT records.
	taken [len(duplicated)]uint64
	// chosen are the kinds that the scan reads from this id, and not from another
	// event of the same CPU; see scan.choose.
	chosen kinds
}

// newChannel returns a channel for an id of e, whose CPU is not known yet.
func (s *scan) newChannel(e *perfdata.Event) *channel {
	return &channel{opening: opening{cpu: noCPU}, event: e, kinds: s.kindsOf(e), met: metNone}
}

// see adds the time of a record.
func (ch *channel) see(t uint64, sample bool) {
	if ch.first == 0 {
		ch.first = t
	}
	if ch.last = max(ch.last, t); !sample {
		ch.side = max(ch.side, t)
	}
}

// meet adds the CPU of a record.
func (ch *channel) meet(cpu uint32) {
	switch {
	case ch.met == metNone:
		ch.met = int64(cpu)
	case ch.met != int64(cpu):
		ch.met = metSeveral
	}
}

// channels maps event ids to channels. The kernel counts ids up, so the ids of a
// recording are close together, wherever they begin.
type channels struct {
	base  uint64     // the lowest id
	dense []*channel // from base on
	rest  map[uint64]*channel
}

const denseIDs = 1 << 16

// get returns the channel of an id, or nil.
func (c *channels) get(id uint64) *channel {
	if i := id - c.base; i < uint64(len(c.dense)) {
		return c.dense[i]
	}
	return c.rest[id]
}

// set sets the channel of an id.
func (c *channels) set(id uint64, ch *channel) {
	if i := id - c.base; i < denseIDs {
		for uint64(len(c.dense)) <= i {
			c.dense = append(c.dense, nil)
		}
		c.dense[i] = ch
		return
	}
	if c.rest == nil {
		c.rest = make(map[uint64]*channel)
	}
	c.rest[id] = ch
}

// all yields the channels in ascending order of id.
func (c *channels) all(yield func(id uint64, ch *channel) bool) {
	rest := slices.Sorted(maps.Keys(c.rest))
	n, _ := slices.BinarySearch(rest, c.base)
	for _, id := range rest[:n] {
		if !yield(id, c.rest[id]) {
			return
		}
	}
	for i, ch := range c.dense {
		if ch != nil && !yield(c.base+uint64(i), ch) {
			return
		}
	}
	for _, id := range rest[n:] {
		if !yield(id, c.rest[id]) {
			return
		}
	}
}
