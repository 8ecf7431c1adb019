// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import "github.com/textreplay/textreplay/perfdata"

// A quickPass is the state of the fast path for the plain records of one type, which
// are nearly all: the id and the channel of the newest such record.
type quickPass struct {
	id uint64
	ch *channel // of id; nil if it is not known
}

// note does what scan.enter does, for a plain record. It returns the channel. If nothing
// else about the record is plain, it does nothing and returns nil.
func (q *quickPass) note(s *scan, rec *perfdata.Record, id *perfdata.SampleID) *channel {
	if !s.located || s.machine != 0 || s.guests.ids || isGuestMode(rec) || !q.find(s, id.ID, rec.Type) {
		return nil
	}
	t := id.Time
	if t == 0 || q.ch.pinned && q.ch.cpu != int64(id.CPU) {
		return nil
	}
	q.ch.see(t, rec.Type == perfdata.RecordSample)
	buf := q.ch.buffer
	buf.round += uint64(len(rec.Raw))
	buf.see(t, rec.Type == perfdata.RecordSample)
	s.tasks.meet(id.TID, t)
	if madeByTask(rec.Type) && !buf.backward {
		buf.tasks.see(t)
	}
	s.passTime(t, t)
	s.starts(buf, t)
	s.files[rec.File].see(t, rec.Type == perfdata.RecordSample)
	return q.ch
}

// find makes q.ch the channel of an id. It reports whether the fast path can take records
// of this type that came through it.
func (q *quickPass) find(s *scan, id uint64, typ perfdata.RecordType) bool {
	if id != q.id || q.ch == nil {
		ch := s.channels.get(id)
		if ch == nil || ch.buffer == nil || ch.buffer.unplaced || ch.machine != s.listens || !s.isPlain(ch, typ) {
			return false
		}
		q.id, q.ch = id, ch
	}
	return true
}

// isPlain reports whether the fast path can take a record that came through ch: a
// sample whose content does not matter, or a poke of the chosen event.
func (s *scan) isPlain(ch *channel, typ perfdata.RecordType) bool {
	if typ == perfdata.RecordSample {
		return ch.kinds&readSamples == 0 && (s.formats || !s.maybeProbed || !isTracepoint(ch.event))
	}
	return s.chosen && ch.chosen&takesPokes != 0 && ch.cpu >= 0 && !(s.follows && s.severalPoke)
}

// passSample does what sample does, in a third of the time. It reports whether the
// sample was plain; if not, it did nothing.
func (s *scan) passSample(rec *perfdata.Record) bool {
	id := &s.last.plain.SampleID
	return s.rec.PlainSample(rec.Raw, id) && s.samples.note(s, rec, id) != nil
}

// passPoke does what textPoke does, in half the time. It reports whether the poke was
// plain and exactly as long as its content; if not, it did nothing.
func (s *scan) passPoke(rec *perfdata.Record) bool {
	plain := &s.last.plain
	if len(rec.Raw) > recordRoom || !s.rec.PlainTextPoke(rec.Raw, plain) {
		return false
	}
	ch := s.pokes.note(s, rec, &plain.SampleID)
	if ch == nil {
		return false
	}
	// Field by field, because the compiler would make a whole Poke elsewhere and copy it.
	p := &s.last.passed
	p.Addr, p.Time = plain.Addr, plain.Time
	p.Old, p.New = plain.Old, plain.New
	p.CPU = int(plain.CPU)
	s.poke(ch.buffer, p, plain.TID)
	return true
}
