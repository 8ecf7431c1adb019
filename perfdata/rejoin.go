// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"cmp"
	"math"
	"slices"
)

// perf inject -b puts the records into the order of time. Of a record that claims too much (see
// [TextPoke]) it reads the last bytes as the trailer. They are stale bytes of the ring buffer, and
// in one that was never full they are 0. perf writes a record of time 0 at once, so these
// come before all others (perf_session__process_event() in tools/perf/util/session.c):
//
//	ring buffer   A A' B B' C C'        A', B', C' are the copies of another event
//	file          A' B' C' A B C
//
// Each copy was written right behind its record. So a copy is put back if the newest record of its
// type and CPU that is not younger has the same content, and no other copy by the same event.

// Rejoin makes the Scanner return records in the order in which they were recorded, if perf
// inject wrote the copies of a second event too early. It has no effect on any other recording.
func Rejoin() ScanOption {
	return func(s *Scanner) {
		if s.stream != nil || s.r.moved == nil {
			return // the option Unmapped, or a stream: records cannot be read twice
		}
		if m := s.r.moved(); m != nil {
			s.rejoin = &rejoiner{moved: m}
		}
	}
}

// A movedCopy is a record that is too early in the file.
type movedCopy struct {
	time   uint64
	offset int
}

// movedCopies are all of a recording.
type movedCopies struct {
	byTime  []movedCopy
	offsets []int // ascending
}

// isCopied is the set of types of which each event that asks for them gets a copy.
const isCopied = 1<<RecordTextPoke | 1<<RecordKSymbol | 1<<RecordBPFEvent

// findMoved returns the copies that perf inject moved, nil if there are none, or if anything else
// may be the reason that the records have this order.
func (r *Recording) findMoved() *movedCopies {
	if len(r.files) != 1 || r.stream || len(r.trailers) != 1 || !r.takesTwice() {
		return nil
	}
	l := r.trailers[0]
	if l.time < 0 || l.id < 0 || l.cpu < 0 {
		return nil
	}
	m := &movedCopies{}
	var id SampleID
	newest := uint64(0)
	moved := false
	s := r.Scan()
	for s.Next() {
		rec := s.Record()
		switch {
		case rec.Type == RecordCompressed || rec.Type == RecordCompressed2:
			return nil
		case rec.Type >= firstUserRecord:
			continue
		}
		if r.SampleID(rec, &id) != nil {
			return nil
		}
		switch {
		case id.Time == 0:
		case !r.isLong(rec):
			if id.Time < newest {
				return nil // not in the order of time, as in nearly all recordings
			}
			newest = id.Time
			moved = moved || len(m.byTime) > 0 && m.byTime[len(m.byTime)-1].time > newest
		case r.endian.u64(rec.Raw[len(rec.Raw)-l.size+l.time:]) != 0:
			return nil
		default:
			m.byTime = append(m.byTime, movedCopy{id.Time, int(rec.Offset)})
			m.offsets = append(m.offsets, int(rec.Offset))
		}
	}
	if !moved || s.Damage() != nil {
		return nil
	}
	slices.SortStableFunc(m.byTime, func(a, b movedCopy) int { return cmp.Compare(a.time, b.time) })
	if !r.areCopies(m, newest) {
		return nil
	}
	return m
}

// takesTwice reports whether two events take records of which each event gets a copy.
func (r *Recording) takesTwice() bool {
	for _, flag := range []AttrFlags{FlagTextPoke, FlagKSymbol, FlagBPFEvent} {
		n := 0
		for _, ev := range r.events {
			if ev.Attr.Flags&flag != 0 {
				n++
			}
		}
		if n > 1 {
			return true
		}
	}
	return false
}

// isLong reports whether a record of the kernel claims too much.
func (r *Recording) isLong(rec *Record) bool {
	return isCopied>>rec.Type&1 == 1 && len(rec.Raw) > r.copiedEnd(rec)+r.trailers[0].size
}

// copiedEnd returns where the body of a record ends whose type is in isCopied.
func (r *Recording) copiedEnd(rec *Record) int {
	switch rec.Type {
	case RecordTextPoke:
		return textPokeBody(rec.Raw, r.endian)
	case RecordKSymbol:
		return ksymbolBody(rec.Raw)
	}
	return bpfEventBody
}

// originals are the newest records of one type and CPU, which have the same time, and what the
// events have of each.
type originals struct {
	time uint64
	of   []original
}

type original struct {
	body []byte
	ids  []uint64
}

// add adds a record that is not older than those before it.
func (o *originals) add(t, id uint64, body []byte) {
	if t != o.time {
		o.time, o.of = t, o.of[:0]
	}
	o.of = append(o.of, original{body, []uint64{id}})
}

// copied reports whether an event that has no copy of one of these yet may have written this one.
func (o *originals) copied(id uint64, body []byte) bool {
	if o == nil {
		return false
	}
	for i := range o.of {
		if x := &o.of[i]; bytes.Equal(x.body, body) && !slices.Contains(x.ids, id) {
			x.ids = append(x.ids, id)
			return true
		}
	}
	return false
}

// areCopies reports whether each of m is a copy of the record before it, as explained above.
// newest is the time of the newest record that was not moved. Copies that are younger need no
// record if the file was cut: it is missing then.
func (r *Recording) areCopies(m *movedCopies, newest uint64) bool {
	type key struct {
		cpu uint32
		typ RecordType
	}
	last := make(map[key]*originals)
	next := 0
	var id SampleID
	upTo := func(t uint64) bool { // looks at the copies that are older than t
		for ; next < len(m.byTime) && m.byTime[next].time < t; next++ {
			rec := r.recordAt(m.byTime[next].offset)
			if r.SampleID(&rec, &id) != nil || !last[key{id.CPU, rec.Type}].copied(id.ID, rec.Raw[headerSize:r.copiedEnd(&rec)]) {
				return false
			}
		}
		return true
	}
	s := r.Scan(Only(RecordTextPoke, RecordKSymbol, RecordBPFEvent))
	for s.Next() {
		rec := s.Record()
		if r.SampleID(rec, &id) != nil {
			return false
		}
		if id.Time == 0 || r.isLong(rec) {
			continue
		}
		k, t, own := key{id.CPU, rec.Type}, id.Time, id.ID
		if !upTo(t) {
			return false
		}
		if last[k] == nil {
			last[k] = new(originals)
		}
		last[k].add(t, own, rec.Raw[headerSize:r.copiedEnd(rec)])
	}
	if r.clean == nil {
		return upTo(math.MaxUint64)
	}
	return upTo(newest + 1)
}

// recordAt returns the record of the kernel at an offset of the only file.
func (r *Recording) recordAt(offset int) Record {
	b := r.files[0].data[offset:]
	h := r.endian.header(b)
	return Record{Type: h.typ, Misc: h.misc, Offset: int64(offset), Raw: b[:h.size:h.size]}
}

// A rejoiner is the state of a Scanner with the option Rejoin. held is the next record of those
// that were not moved.
type rejoiner struct {
	moved   *movedCopies
	next    int // index of the next one in moved.byTime
	passed  int // how many of moved.offsets the Scanner has passed
	holds   bool
	held    Record
	payload []byte
	time    uint64 // of held; 0: it is handed over at once
}

// nextRejoined does for a Scanner with the option Rejoin what nextPending does.
func (s *Scanner) nextRejoined() bool {
	j := s.rejoin
	if !j.holds {
		j.hold(s)
	}
	for ; j.next < len(j.moved.byTime); j.next++ {
		c := &j.moved.byTime[j.next]
		if j.holds && c.time >= j.time {
			break
		}
		if rec := s.r.recordAt(c.offset); !s.want.on || s.want.has(rec.Type) {
			j.next++
			s.rec, s.payload = rec, nil
			return true
		}
	}
	if !j.holds {
		s.rejoin, s.pending = nil, false
		return false
	}
	j.holds = false
	s.rec, s.payload = j.held, j.payload
	return true
}

// hold makes the next record that was not moved the one that is held, if there is one.
func (j *rejoiner) hold(s *Scanner) {
	s.rejoin, s.pending = nil, false
	for s.Next() {
		if j.passes(s.rec.Offset) {
			continue
		}
		j.holds, j.held, j.payload, j.time = true, s.rec, s.payload, 0
		var id SampleID
		if s.rec.Type < firstUserRecord && s.r.SampleID(&s.rec, &id) == nil {
			j.time = id.Time
		}
		break
	}
	s.rejoin, s.pending = j, true
}

// passes reports whether the record at an offset was moved. The offsets ascend.
func (j *rejoiner) passes(offset int64) bool {
	all := j.moved.offsets
	for j.passed < len(all) && int64(all[j.passed]) < offset {
		j.passed++ // of a type that the Scanner does not hand over
	}
	return j.passed < len(all) && int64(all[j.passed]) == offset
}
