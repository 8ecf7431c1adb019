// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"errors"
	"slices"
)

// An OrderedScanner goes through the records of a recording in the order of
// their times. Records of the same time keep the order of the file, as
// in perf (tools/perf/util/ordered-events.c).
//
// perf record drains one ring buffer after the other. The records of each buffer
// are in the order of time. A FINISHED_ROUND record ends each such round. A record
// can be older than those of the round before, but not older than those of the
// round before that one. So at the end of each round, the scanner returns all
// records that are not newer than the newest record of the rounds before, in
// order. It holds the records of two rounds at a time: 32 bytes for each, and the
// record itself if it was compressed or comes from a stream.
//
// Records without a time are returned where they are in the file, while older
// records may wait for their round to end. perf does the same. They are the
// records of perf itself, those that perf synthesized when the recording began
// (with time 0), and those of events without [SampleTime] in their attr.
//
// A file without rounds is returned in its order. Several files are merged by
// time, each by its own rounds. Of two records of the same time, that of the file
// that comes first in [Recording.Files] is returned first.
//
// An OrderedScanner serves one goroutine.
type OrderedScanner struct {
	sorters []*sorter
	merge   mergeHeap // of the sorters whose next record has a time
	pull    int       // the sorter that must advance before the next record is known
	started bool
	cur     *sorter
	last    uint64
	late    int
}

// Ordered returns an [OrderedScanner] that is before the first record.
func (r *Recording) Ordered(opts ...ScanOption) *OrderedScanner {
	o := new(OrderedScanner)
	// The offsets of records that are held are those in the mapping.
	opts = append(slices.Clip(opts), func(s *Scanner) { s.reads = false }, Rejoin())
	for i := range r.files {
		s := r.scanFiles(i, i+1, opts...)
		want := s.want
		if want.on {
			s.want = want.with(RecordFinishedRound)
		}
		first := r.scanFiles(i, i+1, KeepCompressed(), Only(RecordFinishedRound))
		o.sorters = append(o.sorters, &sorter{
			r: r, from: s, want: want, file: i, mapped: r.files[i].data, rounds: first.Next(),
		})
	}
	return o
}

// Ordered returns an [OrderedScanner] over the rest of the stream. It replaces
// [Reader.Next] and [Reader.Record]. The records of a stream without rounds are held
// until the stream ends. If they take more than 64 MiB, they are returned in the order
// of the stream.
func (rd *Reader) Ordered() *OrderedScanner {
	want := rd.want
	if rd.src == nil {
		want = rd.s.want
	}
	if want.on {
		rd.want = want.with(RecordFinishedRound)
		rd.s.want = rd.s.want.with(RecordFinishedRound)
	}
	return &OrderedScanner{sorters: []*sorter{{r: rd.r, from: rd, want: want, rounds: true, patience: maxUnmarked}}}
}

const maxUnmarked = 64 << 20 // bytes of records

// Next goes to the next record and reports whether there is one.
func (o *OrderedScanner) Next() bool {
	if len(o.sorters) == 1 {
		o.cur = o.sorters[0]
		switch o.cur.next() {
		case atTime:
			o.count()
			return true
		case atOnce:
			return true
		}
		return false
	}
	for o.pull < len(o.sorters) {
		s := o.sorters[o.pull]
		switch s.next() {
		case atOnce:
			o.cur = s
			return true
		case atTime:
			o.merge.push(mergeHead{s.key, o.pull})
		}
		if o.pull++; o.started {
			break
		}
	}
	o.started = true
	if len(o.merge) == 0 {
		return false
	}
	// The sorter of this record continues in the next call, when the record has been used.
	o.pull = o.merge.pop().of
	o.cur = o.sorters[o.pull]
	o.count()
	return true
}

func (o *OrderedScanner) count() {
	if o.cur.time < o.last {
		o.late++
	} else {
		o.last = o.cur.time
	}
}

// Record returns the record that the last call of [OrderedScanner.Next] came
// to. The next call fills the same Record again. As after [Scanner.Next], Raw
// of a record that was compressed is valid until then only, and so is that of
// every record of a stream.
func (o *OrderedScanner) Record() *Record {
	if o.cur == nil {
		return new(Record)
	}
	return &o.cur.rec
}

// Payload returns what [Scanner.Payload] does. In a stream, see [Reader.Payload].
func (o *OrderedScanner) Payload() []byte {
	if o.cur == nil || o.cur.rec.Type != RecordAuxtrace && o.cur.rec.Type != RecordHeaderTracingData {
		return nil
	}
	if s, ok := o.cur.from.(*Scanner); ok {
		return s.Payload()
	}
	return nil
}

// Late returns how many of the records so far had an earlier time than a record that
// was returned before them. Records are late if the rounds of the recording are wrong,
// or if it has none.
func (o *OrderedScanner) Late() int { return o.late }

// Err returns what [Scanner.Err] does.
func (o *OrderedScanner) Err() error {
	var errs []error
	for _, s := range o.sorters {
		if err := s.from.Err(); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// A sorter puts the records of one file in order.
type sorter struct {
	r    *Recording
	from interface {
		Next() bool
		Record() *Record
		Err() error
	}
	want     filter // without the FINISHED_ROUND that from has
	file     int    // its number
	mapped   []byte // the file, nil in a stream
	rounds   bool   // there are some
	patience int    // the most bytes that are held before the first round ends, 0 for any number

	rec  Record // the current one
	time uint64 // of rec, if it has one
	key  uint64 // the greatest time so far: files are merged by it

	held    []held // in the order of the file
	copies  []byte // the bytes of held records that are not mapped
	spare   []byte // the buffer that compact copies to
	runs    []run  // parts of held that are in order
	merge   mergeHeap
	limit   uint64 // while give is set, records up to this time are handed over
	give    bool   // held records are being handed over
	ended   bool   // from has no more records
	newest  uint64 // of all records so far
	before  uint64 // of those up to the last FINISHED_ROUND
	newTime uint64 // of the last record of the last run
}

// A held record waits for its round to end.
type held struct {
	time   uint64
	offset int64 // Record.Offset
	copied int   // offset in copies, -1 for a record that is mapped
	typ    RecordType
	misc   uint16
	size   uint16
}

// A run is held[next:end].
type run struct{ next, end int }

// A step is what a sorter's next found.
type step int

const (
	atEnd  step = iota
	atOnce      // a record that does not wait
	atTime      // a record with a time
)

func (s *sorter) next() step {
	for {
		if s.give {
			if s.handOver() {
				return atTime
			}
			s.give = false
			s.compact()
		}
		if s.ended {
			return atEnd
		}
		if !s.from.Next() {
			s.ended = true
			s.begin(^uint64(0))
			continue
		}
		rec := s.from.Record()
		if rec.Type >= firstUserRecord {
			if rec.Type == RecordFinishedRound {
				s.patience = 0
				s.begin(s.before)
				s.before = s.newest
				if s.want.on && !s.want.has(RecordFinishedRound) {
					continue
				}
			}
			s.rec = *rec
			return atOnce
		}
		t := s.r.timeOf(rec)
		if t == 0 || t == ^uint64(0) { // as perf_session__queue_event has it
			s.rec = *rec
			return atOnce
		}
		if !s.rounds {
			s.rec, s.time = *rec, t
			s.key = max(s.key, t)
			return atTime
		}
		s.hold(rec, t)
		if s.patience > 0 && len(s.copies) > s.patience {
			s.rounds = false
			s.asItStands()
		}
	}
}

// hold keeps a record.
func (s *sorter) hold(rec *Record, t uint64) {
	copied := -1
	if end := rec.Offset + int64(len(rec.Raw)); end > int64(len(s.mapped)) || &s.mapped[rec.Offset] != &rec.Raw[0] {
		copied = len(s.copies)
		s.copies = append(s.copies, rec.Raw...)
	}
	if len(s.runs) == 0 || t < s.newTime {
		s.runs = append(s.runs, run{len(s.held), len(s.held)})
	}
	s.held = append(s.held, held{t, rec.Offset, copied, rec.Type, rec.Misc, uint16(len(rec.Raw))})
	s.runs[len(s.runs)-1].end++
	s.newTime = t
	s.newest = max(s.newest, t)
}

// begin starts to hand over the records that are not newer than limit.
func (s *sorter) begin(limit uint64) {
	s.give, s.limit = true, limit
	for i := range s.runs {
		if t := s.held[s.runs[i].next].time; t <= limit {
			s.merge.push(mergeHead{t, i})
		}
	}
}

// asItStands starts to hand over everything that is held, in the order of the
// file.
func (s *sorter) asItStands() {
	s.runs = append(s.runs[:0], run{0, len(s.held)})
	s.begin(^uint64(0))
}

// handOver goes to the next record to be handed over and reports whether there is one.
func (s *sorter) handOver() bool {
	if len(s.merge) == 0 {
		return false
	}
	top := &s.merge[0]
	run := &s.runs[top.of]
	h := &s.held[run.next]
	s.rec.Type, s.rec.Misc, s.rec.File, s.rec.Offset = h.typ, h.misc, s.file, h.offset
	if h.copied < 0 {
		end := h.offset + int64(h.size)
		s.rec.Raw = s.mapped[h.offset:end:end]
	} else {
		end := h.copied + int(h.size)
		s.rec.Raw = s.copies[h.copied:end:end]
	}
	s.time, s.key = h.time, max(s.key, h.time)
	run.next++
	if run.next < run.end && s.held[run.next].time <= s.limit {
		top.time = s.held[run.next].time
		s.merge.down(0)
	} else {
		s.merge.pop()
	}
	return true
}

// compact drops what has been handed over.
func (s *sorter) compact() {
	all, runs, copies := s.held, s.runs, s.copies
	s.held, s.runs = s.held[:0], s.runs[:0]
	s.copies, s.spare = s.spare[:0], copies
	for _, old := range runs {
		for _, h := range all[old.next:old.end] {
			if h.copied >= 0 {
				raw := copies[h.copied : h.copied+int(h.size)]
				h.copied = len(s.copies)
				s.copies = append(s.copies, raw...)
			}
			// What is added never overtakes what is read: both go forwards.
			if n := len(s.held); len(s.runs) == 0 || h.time < s.newTime {
				s.runs = append(s.runs, run{n, n})
			}
			s.held = append(s.held, h)
			s.runs[len(s.runs)-1].end++
			s.newTime = h.time
		}
	}
}

// timeOf returns the time of a record of the kernel, 0 if it has none.
func (r *Recording) timeOf(rec *Record) uint64 {
	if rec.Type == RecordSample && len(r.samples) == 1 {
		if l := r.samples[0]; l.time >= 0 && len(rec.Raw) >= headerSize+l.size {
			return r.endian.u64(rec.Raw[headerSize+l.time:])
		}
	}
	var id SampleID
	if r.SampleID(rec, &id) != nil {
		return 0
	}
	return id.Time
}

// A mergeHeap is a heap of the sequences that are being merged. The one whose next
// record is the earliest is on top; of equal times, the sequence with the lowest number.
type mergeHeap []mergeHead

type mergeHead struct {
	time uint64 // of the next record of the sequence
	of   int    // number of the sequence
}

func (h mergeHead) before(g mergeHead) bool {
	return h.time < g.time || h.time == g.time && h.of < g.of
}

func (m *mergeHeap) push(h mergeHead) {
	*m = append(*m, h)
	a := *m
	for i := len(a) - 1; i > 0; {
		up := (i - 1) / 2
		if !a[i].before(a[up]) {
			break
		}
		a[i], a[up] = a[up], a[i]
		i = up
	}
}

func (m *mergeHeap) pop() mergeHead {
	a := *m
	top := a[0]
	a[0] = a[len(a)-1]
	*m = a[:len(a)-1]
	m.down(0)
	return top
}

// down moves the head at i to where it belongs, its time having become later.
func (m mergeHeap) down(i int) {
	if i >= len(m) {
		return
	}
	h := m[i]
	for {
		kid := 2*i + 1
		if kid >= len(m) {
			break
		}
		if kid+1 < len(m) && m[kid+1].before(m[kid]) {
			kid++
		}
		if !m[kid].before(h) {
			break
		}
		m[i] = m[kid]
		i = kid
	}
	m[i] = h
}
