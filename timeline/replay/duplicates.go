// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// duplicated are the kinds of records that the kernel writes once for each event that
// asks for them, each with another time.
var duplicated = [...]kinds{takesPokes, takesSymbols, takesBPF}

// kindOfRecord returns which of duplicated a record is of, 0 if of none.
func kindOfRecord(typ perfdata.RecordType) kinds {
	switch typ {
	case perfdata.RecordTextPoke:
		return takesPokes
	case perfdata.RecordKSymbol:
		return takesSymbols
	case perfdata.RecordBPFEvent:
		return takesBPF
	}
	return 0
}

// text names the records of one of duplicated.
func (k kinds) text() string {
	return [...]string{"text pokes", "symbols", "BPF events"}[k.index()]
}

// index is the place of one of duplicated in arrays.
func (k kinds) index() int { return bits.TrailingZeros16(uint16(k)) }

// A listener is the event whose records are read on a CPU.
type listener struct {
	event  *perfdata.Event
	id     uint64 // its lowest on this CPU
	system bool   // for all tasks
}

// choose picks for each CPU the one event whose pokes, symbols and BPF events are
// read: the one that misses least, see misses, and of several such the one with the
// lowest id. An event for all tasks has one id on a CPU. An event of single tasks has
// an id for each, and these ids never record the same.
//
// Ids that may be of any CPU count as those of one more CPU. They are read only on
// CPUs on which no event is known to listen, see chosenOn.
func (s *scan) choose() {
	s.chosen, s.several, s.severalPoke = true, false, false
	for _, ch := range s.channels.all {
		ch.chosen = 0
	}
	for _, ch := range s.nameless {
		ch.chosen = 0
	}
	for k, kind := range duplicated {
		best := make(map[int64]listener)
		for id, ch := range s.listeners(kind) {
			l, ok := best[ch.cpu]
			if x := (listener{ch.event, id, ch.system}); !ok || s.misses(&x) < s.misses(&l) {
				best[ch.cpu] = x
			}
			s.several = s.several || ok && l.event != ch.event
			s.severalPoke = s.severalPoke || kind == takesPokes && ok && l.event != ch.event
		}
		s.heard[k] = make(map[int64]*perfdata.Event)
		for cpu, l := range best {
			if cpu >= 0 {
				s.heard[k][cpu] = l.event
			}
		}
		for id, ch := range s.listeners(kind) {
			// An event that was opened anew, when its CPU came back, has two ids there.
			if l := best[ch.cpu]; l.id == id || l.event == ch.event && (!l.system || s.journal != nil) {
				ch.chosen |= kind
			}
		}
		for e, ch := range s.nameless {
			if l, ok := best[noCPU]; ch.kinds&kind != 0 && (!ok || l.event == e) {
				ch.chosen |= kind
			}
		}
	}
	if s.several && !s.follows {
		s.countDuplicates()
	}
}

// misses ranks a listener by what it does not record: the changes of other tasks, what
// its ring buffer overwrites, what happens after it failed, and before it is enabled.
func (s *scan) misses(l *listener) (rank int) {
	if !l.system || s.inCgroup(l.event) {
		rank += 8
	}
	if l.event.Attr.Flags&perfdata.FlagWriteBackward != 0 {
		rank += 4
	}
	if s.mayFail(l.event) {
		rank += 2
	}
	if s.startsDisabled(l.event) {
		rank++
	}
	return rank
}

// listeners yields the ids of the machine's events that take records of this kind, in
// ascending order.
func (s *scan) listeners(kind kinds) func(yield func(id uint64, ch *channel) bool) {
	return func(yield func(id uint64, ch *channel) bool) {
		for id, ch := range s.channels.all {
			if ch.machine == s.listens && ch.kinds&kind != 0 && !yield(id, ch) {
				return
			}
		}
	}
}

// countDuplicates counts the records that each event took of those that several ask
// for. If the chosen event took none and another one did, the recording contradicts
// itself, and the other one is read.
func (s *scan) countDuplicates() {
	for _, ch := range s.channels.all {
		ch.taken = [len(duplicated)]uint64{}
	}
	s.endings = nil
	var id perfdata.SampleID
	pass := secondPass{s: s, types: []perfdata.RecordType{perfdata.RecordTextPoke, perfdata.RecordKSymbol, perfdata.RecordBPFEvent}}
	pass.record = func(rec *perfdata.Record) bool {
		if s.rec.SampleID(rec, &id) != nil || id.Time == 0 {
			return true
		}
		if ch := s.channelOf(&id); ch != nil && ch.machine == s.listens {
			kind := kindOfRecord(rec.Type)
			ch.taken[kind.index()]++
			s.seeEnding(ch, kind, id.Time, contentOf(rec, &id))
		}
		return true
	}
	pass.read()
	for _, kind := range duplicated {
		for _, d := range s.deaf(kind) {
			if d.cpu >= 0 {
				s.damage = append(s.damage, d)
				s.warn(d)
			}
			for _, ch := range s.listeners(kind) {
				if ch.cpu != d.cpu {
					continue
				}
				if ch.chosen &^= kind; ch.event == d.other {
					ch.chosen |= kind
				}
			}
		}
	}
}

// An ending is the end of the records of a kind that the chosen event of a CPU has.
type ending struct {
	content []byte // of its last record
	time    uint64 // of that record, or of another event's copy of it
	// missed is set if another event has a record after it that is not a copy of it: perf had
	// disabled the chosen event, and not yet the other one (rule listening). at is the time of
	// that record.
	missed bool
	at     uint64
}

// An endingKey names the ending of one kind on one CPU.
type endingKey struct {
	cpu  int64
	kind kinds
}

// seeEnding follows the endings. content may be longer than what the record says, by the
// trailers of other events (see excess). Its first bytes give the real length, so comparing
// what both contents have is enough.
func (s *scan) seeEnding(ch *channel, kind kinds, t uint64, content []byte) {
	if ch.kinds&kind == 0 || !ch.system || ch.cpu < 0 || ch.event.Attr.Flags&perfdata.FlagWriteBackward != 0 {
		return
	}
	key := endingKey{ch.cpu, kind}
	e := s.endings[key]
	if ch.chosen&kind != 0 {
		if e == nil {
			e = new(ending)
			if s.endings == nil {
				s.endings = make(map[endingKey]*ending)
			}
			s.endings[key] = e
		}
		*e = ending{content: append(e.content[:0], content...), time: t}
		return
	}
	if e == nil || e.missed {
		return
	}
	if n := min(len(content), len(e.content)); bytes.Equal(content[:n], e.content[:n]) {
		e.time = max(e.time, t)
	} else {
		e.missed, e.at = true, t
	}
}

// forkedEndings returns a copy for a scan of its own.
func (s *scan) forkedEndings() map[endingKey]*ending {
	c := make(map[endingKey]*ending, len(s.endings))
	for key, e := range s.endings {
		c[key] = &ending{bytes.Clone(e.content), e.time, e.missed, e.at}
	}
	return c
}

// contentOf returns what is between the header of a record and its trailer.
func contentOf(rec *perfdata.Record, id *perfdata.SampleID) []byte {
	return rec.Raw[8 : len(rec.Raw)-min(len(rec.Raw)-8, trailerSize(id))]
}

// missing returns the time up to which the chosen events of all CPUs certainly took all records, if
// one of them misses a record of time t or earlier, or MaxTime. Then perf had disabled it, or it
// continued in another file, which has that record.
func (s *scan) missing(t uint64) uint64 {
	until := timeline.MaxTime
	for _, e := range s.endings {
		if e.missed && e.at <= t {
			until = min(until, e.time-1) // what was missed may have the same time
		}
	}
	return until
}

// A deafError reports a chosen event that took no records on a CPU, although another
// event asks for the same and took some.
type deafError struct {
	cpu   int64
	id    uint64
	other *perfdata.Event
	taken uint64 // by other
}

func (e *deafError) Error() string {
	return fmt.Sprintf("event %d of CPU %d has none of the %d records that another event of this CPU has", e.id, e.cpu, e.taken)
}

// deaf returns the chosen events that took no record of this kind although another
// event of the CPU did, in the order of CPUs.
func (s *scan) deaf(kind kinds) (out []*deafError) {
	taken := make(map[place]uint64)
	chosen := make(map[int64]*deafError)
	var cpus []int64
	for id, ch := range s.listeners(kind) {
		taken[place{ch.event, ch.cpu}] += ch.taken[kind.index()]
		if ch.chosen&kind != 0 && chosen[ch.cpu] == nil {
			chosen[ch.cpu] = &deafError{cpu: ch.cpu, id: id, other: ch.event}
			cpus = append(cpus, ch.cpu)
		}
	}
	for _, cpu := range slices.Sorted(slices.Values(cpus)) {
		d := chosen[cpu]
		if taken[place{d.other, cpu}] > 0 {
			continue
		}
		for _, e := range s.rec.Events() {
			if n := taken[place{e, cpu}]; n > d.taken {
				d.other, d.taken = e, n
			}
		}
		if d.taken > 0 {
			out = append(out, d)
		}
	}
	return out
}

// checkDuplicates is countDuplicates for a stream. It keeps the choice: later records
// may explain a deaf event, because one event's record can arrive a round before the
// other's.
func (s *scan) checkDuplicates() {
	for _, kind := range duplicated {
		for _, d := range s.deaf(kind) {
			if d.cpu >= 0 {
				s.damage = append(s.damage, d)
			}
		}
	}
}

// chooseAndCheck reports whether a record that came through ch is the one to read, of
// those that several events took.
func (s *scan) chooseAndCheck(ch *channel, id *perfdata.SampleID, kind kinds) bool {
	if !s.chosen {
		s.choose()
	}
	if s.follows && s.several {
		ch.taken[kind.index()]++
	}
	return s.chosenOn(ch, id, kind)
}

// chosenOn is chooseAndCheck without its side effects. A record whose id may be of any
// CPU is read if no other event is known to listen on its CPU.
func (s *scan) chosenOn(ch *channel, id *perfdata.SampleID, kind kinds) bool {
	if ch.chosen&kind == 0 || ch.cpu >= 0 {
		return ch.chosen&kind != 0
	}
	heard := s.heard[kind.index()]
	if id.Has&perfdata.SampleCPU != 0 {
		e := heard[int64(id.CPU)]
		return e == nil || e == ch.event
	}
	for _, e := range heard {
		if e != ch.event {
			return false
		}
	}
	return true
}

// isChosen reports whether the image is made of a record of this kind: it is of the
// image's machine, came through a ring buffer, and is the chosen one of those that
// several events took. It is for records that are read again after the scan, and is
// safe for concurrent use.
func (s *scan) isChosen(rec *perfdata.Record, id *perfdata.SampleID, kind kinds) bool {
	if id.Time == 0 || s.machineOf(rec, id) != s.machine {
		return false
	}
	ch := s.channelOf(id)
	return ch != nil && ch.machine == s.listens && s.chosenOn(ch, id, kind)
}
