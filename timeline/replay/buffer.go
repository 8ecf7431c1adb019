// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"maps"
	"slices"

	"github.com/textreplay/textreplay/perfdata"
)

// A ringBuffer is one of the kernel's ring buffers: perf maps one for each CPU
// (for each thread in per-thread recordings) and all events of that CPU write
// into it, so that its records are in the order of time, and its losses are
// its own.
type ringBuffer struct {
	bufferKey
	unplaced    bool   // of an id of which it is not known where it was opened: it may be any CPU's
	mixed       bool   // records of several ring buffers, which nothing tells apart
	first, last uint64 // times of its records, 0 while there is none
	// side is the time of its newest record that is no sample. Samples come
	// from interrupts, which fall between the taking of a side-band record's
	// time and its writing: so such a record can follow samples that are
	// newer than itself, but never another side-band record.
	side uint64
	// sideBefore is side as it was before that record.
	sideBefore uint64
	longest    uint64 // longest time without a record, between two
	losses     []Loss
	untimed    uint64 // records that LOST records without a time report, up to now
	lossTally
	takes kinds // what its events take
	// How many bytes of records came in the round that goes on, in the one before
	// it, and together in those two that ended with its newest record.
	round, before, busy uint64
	backwards           uint64 // longest step back in time of records that are no samples
	tasks               taskOrder
	// running is the task that runs on the CPU since its last SWITCH record; 0 if none
	// does, or if nothing says so.
	running uint32
}

// taskOrder follows the times of the records of a ring buffer that tasks make, which
// the kernel writes in the order in which they are made. Where their times go back,
// somebody set the clock back, or perf wrote some records twice:
//
//	round      A B C D   C D E F
//	repeated             ^ ^
type taskOrder struct {
	newest, latest uint64   // the greatest time, and that of the last record
	times          []uint64 // of the last records
	repeated       int      // in times: where a repetition goes on
	steps          []step   // where the clock was set back
}

// A step is where a ring buffer's times go back: before is the greatest time so far,
// after the next one.
type step struct{ before, after uint64 }

// keptTimes is how many records back perf may repeat one. It repeats what came while it
// wrote what a ring buffer held.
const keptTimes = 1 << 16

// madeByTask reports whether it is a task that makes records of this type. Others
// come from interrupts, which fall between the time of a record and its writing.
func madeByTask(typ perfdata.RecordType) bool {
	return typ == perfdata.RecordTextPoke || isOfTask(typ)
}

func isOfTask(typ perfdata.RecordType) bool {
	switch typ {
	case perfdata.RecordComm, perfdata.RecordFork, perfdata.RecordExit, perfdata.RecordMMAP, perfdata.RecordMMAP2, perfdata.RecordNamespaces:
		return true
	}
	return false
}

// see takes note of the time of the next record that a task made.
func (o *taskOrder) see(t uint64) {
	if t >= o.newest {
		o.add(t)
		o.newest, o.repeated = t, 0
		return
	}
	if i := o.repeats(t); i >= 0 {
		o.repeated = i + 1
		return
	}
	if t < o.latest {
		o.steps = append(slices.Clip(o.steps), step{o.newest, t}) // images in the making may share them
	}
	o.add(t)
}

func (o *taskOrder) add(t uint64) {
	if len(o.times) == 2*keptTimes {
		o.times = slices.Delete(o.times, 0, keptTimes)
	}
	o.times = append(o.times, t)
	o.latest = t
}

// repeats returns the index in o.times of the record that one of time t repeats,
// below 0 if it repeats none.
func (o *taskOrder) repeats(t uint64) int {
	if i := o.repeated; i > 0 && i < len(o.times) && o.times[i] == t {
		return i
	}
	return slices.Index(o.times, t)
}

// notBefore returns the time before which the last record, of time t, was not made: that
// of an earlier one, if that is greater, else 0.
func (o *taskOrder) notBefore(t uint64) uint64 {
	if t == o.latest && t < o.newest {
		return o.newest
	}
	return 0
}

// A bufferKey names a ring buffer.
type bufferKey struct {
	cpu int64 // below 0: of a thread, on any CPU
	// backward says that new records overwrite the oldest ones, without a sign, and
	// that perf reads the newest record first.
	backward bool
}

func (k bufferKey) compare(o bufferKey) int {
	if k.cpu == o.cpu && k.backward != o.backward {
		return map[bool]int{false: -1, true: 1}[k.backward]
	}
	return cmp.Compare(k.cpu, o.cpu)
}

// kinds is a set of the side-band kinds that events take.
type kinds uint8

const (
	takesPokes      kinds = 1 << iota // attr.text_poke
	takesSymbols                      // attr.ksymbol
	takesBPF                          // attr.bpf_event
	takesModuleLoad                   // the tracepoint module:module_load
	takesModuleFree                   // the tracepoint module:module_free
	takesHotplug                      // the tracepoint cpuhp:cpuhp_enter
)

func kindsOf(e *perfdata.Event) (k kinds) {
	a := &e.Attr
	const typeTracepoint = 2 // PERF_TYPE_TRACEPOINT
	if a.Type == typeTracepoint {
		switch e.Name {
		case "module:module_load":
			return takesModuleLoad
		case "module:module_free":
			return takesModuleFree
		case "cpuhp:cpuhp_enter":
			return takesHotplug
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

// see takes note of a record's time. Synthesized records, of time 0, are in no
// ring buffer.
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
		if t < r.side {
			r.backwards = max(r.backwards, r.side-t)
		}
		r.sideBefore, r.side = r.side, max(r.side, t)
	}
	if r.last == 0 {
		r.first, r.last = t, t
		return
	}
	if t > r.last {
		r.longest = max(r.longest, t-r.last)
		r.last = t
	}
}

// seeBackward is see for a ring buffer that is read backwards.
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

// finishRound takes note of a FINISHED_ROUND record.
func (r *ringBuffer) finishRound() {
	if r.round > 0 {
		r.busy = r.round + r.before
	}
	r.before, r.round = r.round, 0
}

// Bounds for what may be missing of a ring buffer from which no record came for
// a while.
const (
	// pageRoom is how many bytes a ring buffer holds at the least beside a record
	// that changes text: it has a page or more, and perf frees what it has
	// read of one round only after it has read it.
	pageRoom = 2048
	// lateRecord is how much later than its time a record is written at most.
	// Interrupts come between, or other machines if the CPU is a virtual one; an
	// emulator took more than a second.
	lateRecord = 10e9
	// awayAtLeast is how long it takes at the least to take a CPU offline and bring it back.
	awayAtLeast = 10e6
)

// complete returns the time up to which all records of the buffer have been
// seen, and all losses, in a recording that has no clean end or has not ended
// yet. That is the time before its newest side-band record, since another
// record of the same time may follow. What the FINISHED_ROUND records guarantee
// is later, if these three hold:
//
//   - A record may be written up to lateRecord after its time.
//   - The buffer was not full after its newest record. The guarantee is for
//     records only: the kernel reports a loss when it next finds room.
//   - The buffer is not silent for longer than ever before, as that of a CPU that
//     was taken offline. Its events do not come back with the CPU.
//
// rounds is what the rounds guarantee, first the time of the recording's first
// record.
func (r *ringBuffer) complete(rounds, first uint64) uint64 {
	if r.last == 0 || r.mixed {
		return 0 // another of several ring buffers may have ended long before the newest record
	}
	busy := r.busy
	if r.round > 0 {
		busy = r.round + r.before
	}
	sure := r.side
	if busy <= pageRoom {
		sure = max(sure, min(rounds-min(rounds, lateRecord), r.last+max(r.longestSilence(first), awayAtLeast)))
	}
	return sure - min(sure, 1)
}

// longestSilence is for how long the buffer had no record before its newest one.
func (r *ringBuffer) longestSilence(first uint64) uint64 {
	return max(r.longest, r.first-min(r.first, first))
}

// channel is what an event id stands for.
type channel struct {
	opening
	event  *perfdata.Event
	buffer *ringBuffer
	used   bool  // records have come through it
	met    int64 // the CPU that its records tell, metNone or metSeveral
	// first is the time of the first record that came through it, 0 while there is none.
	first uint64
	// lostSamples is the id's PERF_RECORD_LOST_SAMPLES.
	lostSamples uint64
	// kinds are what the event takes.
	kinds kinds
	// taken counts the id's TEXT_POKE, KSYMBOL and BPF_EVENT records.
	taken [len(duplicated)]uint64
	// chosen tells which of them are read from this id and not from another
	// event of the same CPU, see scan.choose.
	chosen kinds
}

func newChannel(e *perfdata.Event) *channel {
	return &channel{opening: opening{cpu: noCPU}, event: e, kinds: kindsOf(e), met: metNone}
}

// meet takes note of the CPU that a record tells.
func (ch *channel) meet(cpu uint32) {
	switch {
	case ch.met == metNone:
		ch.met = int64(cpu)
	case ch.met != int64(cpu):
		ch.met = metSeveral
	}
}

// channels maps event ids to channels. The kernel counts ids up, so those of a
// recording are close together, wherever they begin.
type channels struct {
	base  uint64     // the lowest id
	dense []*channel // from base on
	rest  map[uint64]*channel
}

const denseIDs = 1 << 16

func (c *channels) get(id uint64) *channel {
	if i := id - c.base; i < uint64(len(c.dense)) {
		return c.dense[i]
	}
	return c.rest[id]
}

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

// all yields the channels by ascending id.
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
