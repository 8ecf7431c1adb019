// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"

	"github.com/textreplay/textreplay/perfdata"
)

// perf reads the head of a ring buffer twice. It writes what is there up to the second one, and
// the next time begins at the first one (perf_mmap__push() in tools/perf/util/mmap.c). What
// was recorded between the two is then in the file twice. If perf was stopped between the two reads,
// that may be of any length of time:
//
//	ring buffer   A B C D E F
//	                  │   └ head of the second time
//	                  └ first head
//	file          A B C D ...  C D E F
//
// So at each place where times go back, all that the ring buffer has from some record on up to
// that place follows once more, byte by byte.

// jitter is the most by which the times of a ring buffer may go back, in nanoseconds, if nothing
// explains it.
const jitter = 1e9

// mostRewritten is how many places are looked at where times go back. For each, the recording is read
// again up to there.
const mostRewritten = 16

// rewritten reports whether times of a ring buffer go back further than jitter only where perf wrote
// some of its records twice.
func (s *scan) rewritten(b *ringBuffer) bool {
	if s.follows {
		return false // a stream is read once
	}
	var begin []byte // the record with which times went back, a sample perhaps
	side, from, newest := uint64(0), 0, ahead{}
	sc := s.recordsOf(b)
	for places := 0; sc.next(); {
		t, sample := sc.id.Time, sc.Record().Type == perfdata.RecordSample
		late := uint64(0)
		if t != 0 && !sample {
			late = newest.side(t)
		}
		newest.see(t)
		switch {
		case t != 0 && (t+jitter < side || late > 0) && begin == nil:
			begin, from = bytes.Clone(sc.Record().Raw), sc.n
		case t != 0 && t+jitter >= side && !sample:
			side, begin = max(side, t), nil
		}
		if sample || begin == nil {
			continue
		}
		if places++; places > mostRewritten {
			return false
		}
		end, ok := s.twice(b, begin, from)
		if !ok || end < sc.n {
			return false
		}
		for sc.n < end && sc.next() {
		}
		begin = nil
	}
	return true
}

// twice reports whether the records of a ring buffer from number from on, the first of which is begin,
// are those before it once more. end is the number of the last one of them.
func (s *scan) twice(b *ringBuffer, begin []byte, from int) (end int, ok bool) {
	first := 0
	for sc := s.recordsOf(b); sc.next() && sc.n < from; {
		if bytes.Equal(sc.Record().Raw, begin) {
			first = sc.n
		}
	}
	if first == 0 {
		return 0, false
	}
	before, again := s.recordsOf(b), s.recordsOf(b)
	for before.n < first-1 && before.next() {
	}
	for again.n < from-1 && again.next() {
	}
	for before.next() && before.n < from && again.next() { // perf may have ended while it wrote them again
		if !bytes.Equal(before.Record().Raw, again.Record().Raw) {
			return 0, false
		}
	}
	return again.n, true
}

// bufferScanner goes through the records of a ring buffer.
type bufferScanner struct {
	*perfdata.Scanner
	s  *scan
	b  *ringBuffer
	id perfdata.SampleID // of the current record
	n  int               // its number, from 1 on
}

func (s *scan) recordsOf(b *ringBuffer) *bufferScanner {
	return &bufferScanner{Scanner: s.rec.Scan(perfdata.Rejoin()), s: s, b: b}
}

// next goes to the next record.
func (x *bufferScanner) next() bool {
	for x.Next() {
		rec := x.Record()
		if rec.Type > perfdata.RecordCallchainDeferred || x.s.rec.SampleID(rec, &x.id) != nil || x.id.Time == 0 && x.id.ID == 0 {
			continue
		}
		if ch := x.s.channelOf(&x.id); ch != nil && ch.machine == x.s.listens && ch.buffer == x.b {
			x.n++
			return true
		}
	}
	return false
}
