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

// mostRewritten is how many places are looked at where times go back. Each costs two readings of the
// recording.
const mostRewritten = 16

// rewritten reports whether times of a ring buffer go back further than jitter only where perf wrote
// some of its records twice.
func (s *scan) rewritten(b *ringBuffer) bool {
	if s.follows {
		return false // a stream is read once
	}
	sc := s.recordsOf(b)
	side, n := uint64(0), 0
	for places := 0; sc.next(); n++ {
		if sc.Record().Type == perfdata.RecordSample || sc.id.Time == 0 {
			continue
		}
		if sc.id.Time+jitter >= side {
			side = max(side, sc.id.Time)
			continue
		}
		if places++; places > mostRewritten {
			return false
		}
		first := s.lastLike(b, sc.Record().Raw, n)
		if first < 0 {
			return false
		}
		before := s.recordsOf(b)
		for range first {
			before.next()
		}
		for i := first; i < n; i++ {
			if i > first && !sc.next() {
				return true // perf ended here
			}
			if !before.next() || !bytes.Equal(before.Record().Raw, sc.Record().Raw) {
				return false
			}
		}
		n += n - first - 1
	}
	return true
}

// lastLike returns the index of the last of the first n records of a ring buffer that is equal to raw,
// below 0 if none is.
func (s *scan) lastLike(b *ringBuffer, raw []byte, n int) int {
	raw = bytes.Clone(raw) // that of a compressed record may be reused
	last := -1
	sc := s.recordsOf(b)
	for i := 0; i < n && sc.next(); i++ {
		if bytes.Equal(sc.Record().Raw, raw) {
			last = i
		}
	}
	return last
}

// bufferScanner goes through the records of a ring buffer.
type bufferScanner struct {
	*perfdata.Scanner
	s  *scan
	b  *ringBuffer
	id perfdata.SampleID // of the current record
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
			return true
		}
	}
	return false
}
