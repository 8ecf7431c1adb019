// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"math/bits"

	"github.com/textreplay/textreplay/perfdata"
)

// Before the scan uses a record's content, it decides whether the record counts: of which
// machine it is, through which event it came, whether another event recorded the same (rule
// duplicates), and whether its size is right (rule damage).

// An entry says where a record came from. [scan.enter] decides it once for each
// record, before the record's content is used.
type entry struct {
	ch      *channel // see note
	machine int      // the machine that the record is about: 0 the host, else a guest
	foreign bool     // the image is of another machine, so the content must not be used
}

// enter decides where a record came from, and notes its time.
func (s *scan) enter(rec *perfdata.Record, id *perfdata.SampleID) entry {
	return s.enterExcess(rec, id, 0)
}

// enterExcess is enter for a record that is excess bytes longer than its content.
func (s *scan) enterExcess(rec *perfdata.Record, id *perfdata.SampleID, excess int) entry {
	m := s.machineOf(rec, id)
	s.guests.saw(m, rec.Type, id.Time)
	return entry{s.note(rec, id, excess), m, m != s.machine}
}

// recorded reports whether a kernel wrote the record into a ring buffer.
func (e entry) recorded(id *perfdata.SampleID) bool {
	return (e.ch != nil || e.foreign) && id.Time != 0
}

// sampleID decodes a record's trailer and enters the record. It reports whether a
// kernel wrote the record into a ring buffer.
func (s *scan) sampleID(rec *perfdata.Record, id *perfdata.SampleID) bool {
	return s.decoded(rec, s.rec.SampleID(rec, id)) && s.enter(rec, id).recorded(id)
}

// note notes a record's time. It returns the channel that the record came
// through: nil for a record that perf synthesized, for another machine's, and for a
// damaged one. A record that is excess bytes longer than its content is a copy for another event.
func (s *scan) note(rec *perfdata.Record, id *perfdata.SampleID, excess int) *channel {
	if id.Time == 0 && id.ID == 0 {
		return nil
	}
	if !s.located {
		s.place(false)
	}
	ch := s.channelOf(id)
	if ch == nil {
		if id.Has&(perfdata.SampleIdentifier|perfdata.SampleEventID) != 0 {
			s.broken(rec, "event id %d is not one of the recording", id.ID)
		}
		return nil
	}
	if ch.machine != s.listens {
		return nil
	}
	// A READ record, of a task's counters, is written on the CPU where the task ended.
	if id.Has&perfdata.SampleCPU != 0 && rec.Type != perfdata.RecordRead {
		if ch.meet(id.CPU); ch.pinned && ch.cpu != int64(id.CPU) {
			if ch.indexed {
				s.broken(rec, "on CPU %d, but its event %d is of CPU %d", id.CPU, id.ID, ch.cpu)
				return nil
			}
			s.misplaced(ch.event)
		}
	}
	ch.used, ch.buffer = true, s.bufferOf(ch, id.ID)
	switch rec.Type {
	case perfdata.RecordTextPoke, perfdata.RecordKSymbol, perfdata.RecordBPFEvent:
		s.widest = max(s.widest, uint64(len(rec.Raw)))
	}
	ch.buffer.round += uint64(len(rec.Raw))
	if ch.buffer.unplaced {
		for _, b := range s.buffers {
			if b != ch.buffer {
				b.round += uint64(len(rec.Raw)) // it may be this one
			}
		}
	}
	if t := id.Time; t != 0 {
		ch.see(t, rec.Type == perfdata.RecordSample)
		s.tasks.meet(id.TID, t)
		if madeByTask(rec.Type) && !ch.buffer.mixed && !ch.buffer.backward {
			ch.buffer.tasks.see(t)
		}
		s.starts(ch.buffer, t)
		if excess > 0 {
			ch.buffer.seeCopy(t)
			s.newest = max(s.newest, t)
			return ch
		}
		ch.buffer.see(t, rec.Type == perfdata.RecordSample)
		s.passTime(t, t)
		s.files[rec.File].see(t, rec.Type == perfdata.RecordSample)
	}
	return ch
}

// passTime notes the times of the first and the last of records that follow one another in the
// file, in the order of time.
func (s *scan) passTime(first, last uint64) {
	s.byBuffer = s.byBuffer || first < s.passed
	s.passed = max(s.passed, last)
	s.newest = max(s.newest, last)
}

// starts notes a record of time t for the time of the first one. A ring buffer that
// overwrites its oldest records may have some from before the file began: perf writes all
// of it to each file of --switch-output, and it keeps what it has.
func (s *scan) starts(b *ringBuffer, t uint64) {
	if !b.backward {
		s.report.First = min(s.report.First, t)
	}
}

// recordUse says what is to be done with a record of a kind that each event which asks
// for it gets once (rule duplicates).
type recordUse uint8

const (
	useNone      recordUse = iota // it must not be used
	useDuplicate                  // another event's record of the same is used
	useAnnounced                  // perf synthesized it: it is from before the recording
	useRecorded                   // the kernel recorded it
)

// enterChosen enters a record of one of the kinds in duplicated, which is excess
// bytes longer than its content. It returns the channel that the record came
// through, nil unless the use is useRecorded or useDuplicate.
func (s *scan) enterChosen(rec *perfdata.Record, id *perfdata.SampleID, excess int, kind kinds) (*channel, recordUse) {
	e := s.enterExcess(rec, id, excess)
	if excess != 0 && id.Time != 0 {
		s.excess(rec, id, excess)
	}
	switch {
	case e.foreign:
		return nil, useNone
	case id.Time == 0 && e.ch != nil && !hasTimes(e.ch.event):
		return nil, useNone // the kernel recorded it at some time
	case id.Time == 0:
		return nil, useAnnounced
	case e.ch == nil:
		return nil, useNone
	}
	chosen := s.chooseAndCheck(e.ch, id, kind)
	if s.follows && s.several {
		s.seeEnding(e.ch, kind, id.Time, contentOf(rec, id))
	}
	switch {
	case chosen:
		return e.ch, useRecorded
	case e.ch.kinds&kind == 0:
		s.broken(rec, "event %d takes no %s", id.ID, kind.text())
		return nil, useNone
	}
	return e.ch, useDuplicate
}

// cpuOf returns the CPU on which a record that came through ch was made, below 0
// if it is not known.
func cpuOf(ch *channel, id *perfdata.SampleID) int {
	if id.Has&perfdata.SampleCPU != 0 {
		return int(id.CPU)
	}
	return int(ch.cpu)
}

// fits checks that a record of the kernel is as long as its content and its trailer.
// A longer one hides others.
func (s *scan) fits(rec *perfdata.Record, id *perfdata.SampleID, body int) {
	if want := body + trailerSize(id); len(rec.Raw) != want {
		s.broken(rec, "%d bytes long, its content takes %d", len(rec.Raw), want)
	}
}

// fitsName is fits for a record whose content ends with a name. excess is the number
// of bytes that belong neither to the content nor to the trailer.
func (s *scan) fitsName(rec *perfdata.Record, excess int) {
	if excess != 0 {
		s.broken(rec, "%d bytes of its %d are neither content nor trailer", excess, len(rec.Raw))
	}
}

// trailerSize returns the size of a record's trailer in bytes: 8 for each field that it has.
func trailerSize(id *perfdata.SampleID) int { return 8 * bits.OnesCount64(uint64(id.Has)) }

// excess checks the n bytes after the content of a record whose size is too large. The
// kernel writes such records if several events listen, because it adds up their
// trailers. But a damaged size has the same effect, and hides whole records.
func (s *scan) excess(rec *perfdata.Record, id *perfdata.SampleID, n int) {
	if n == 0 {
		return
	}
	rest := perfdata.Record{Raw: rec.Raw[len(rec.Raw)-n:]}
	order := s.rec.ByteOrder()
	if n < 8 || n%8 != 0 {
		s.broken(rec, "%d bytes too long", n)
		return
	}
	size := int(order.Uint16(rest.Raw[6:]))
	rest.Type = perfdata.RecordType(order.Uint32(rest.Raw))
	if size < 24 || size > n || rest.Type == 0 || rest.Type > perfdata.RecordCallchainDeferred {
		return
	}
	// Stale bytes of the ring buffer may look like a record too. They are a lap older
	// than the record before them.
	rest.Raw = rest.Raw[:size]
	var hidden perfdata.SampleID
	if err := s.rec.SampleID(&rest, &hidden); err == nil && hidden.Event != nil && (hidden.Time >= id.Time || s.guests.ids && hidden.ID != 0) {
		s.broken(rec, "too long by %d bytes that hold a later %v record", n, rest.Type)
	}
}
