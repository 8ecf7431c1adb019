// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"errors"
	"fmt"
)

// Reading continues behind damage.
//
// Each record begins where the one before it ends, so a damaged size leaves a
// reader in the middle of a record. Nothing marks where records begin. But a
// record says more than once what it is: its type, its size, the length of its
// content, the id of its event, its time. Where the chain of records breaks, the
// Scanner continues byte by byte until it finds a place from which on enough records
// prove one another.
//
//	records   |  A  |  B, its size is damaged  |  C  |  D  |  E  |
//	                ^                     ^           ^
//	                the chain breaks      not taken   taken: C, D and E agree
//	                                      for a record
//
// A record that perf never wrote is worse than one that is left out. So the Scanner
// accepts a place only if its records are worth proofNeeded points together, and none of
// them contradicts itself.
const (
	proofNeeded  = 6
	proofAtEnd   = 4                  // where the records end with those that prove
	proofByID    = 4                  // a record of the kernel, with an id of the recording and a time that is near
	proofBySize  = 2                  // another record whose content has exactly its size
	proofByType  = 1                  // a record that perf itself wrote whose content is well-formed
	proofRecords = 64                 // no more records are looked at
	proofNear    = 86_400_000_000_000 // nanoseconds: one day
	// proofAhead is how many headers must be plausible behind a record whose
	// content contradicts its size, or is of no known type.
	proofAhead = 3
)

// A verdict is the result of a check of bytes. More bytes may follow.
type verdict uint8

const (
	disproven verdict = iota
	proven
	undecided // the bytes end too early
)

// A prover looks for places where records begin.
type prover struct {
	r     *Recording
	inner bool // among records that were compressed: there are only those of the kernel
	// outer says that the recording is compressed, and that these are the records that
	// are not compressed: those of perf, and records of the kernel's types that perf
	// synthesized, without a time. All others are copies that the compression left
	// unchanged.
	outer bool
	// last is the id of the last record before the damage, zero if it has none; side
	// says that it is no SAMPLE. Strictly, nothing of its CPU may be older.
	last   SampleID
	side   bool
	strict bool
}

// proves checks the records that begin at b. If complete is set, the records end where b
// ends.
func (p *prover) proves(b []byte, complete bool) verdict {
	points := 0
	for range proofRecords {
		switch {
		case len(b) == 0 && complete && points >= proofAtEnd:
			return proven
		case len(b) < headerSize && !complete:
			return undecided
		case len(b) < headerSize:
			return disproven
		}
		h := p.r.endian.header(b)
		known := h.isPlausible() && h.isCredible()
		if !known && !h.mayBeUnknown() || p.inner && h.typ >= firstUserRecord {
			return disproven
		}
		size, follows, err := p.r.endian.frame(h, b)
		switch {
		case err != nil && errors.Is(err.Err, ErrTruncated) && !complete && len(b) <= 2*maxRecord:
			return undecided
		case err != nil:
			return disproven
		}
		if known {
			worth, ok := p.worth(h, b[:size])
			if !ok {
				return disproven
			}
			if points += worth; points >= proofNeeded {
				return proven
			}
		}
		if b = b[size:]; follows > uint64(len(b)) {
			if complete || follows > maxRecord {
				return disproven
			}
			return undecided
		}
		b = b[follows:]
	}
	return disproven
}

// worth returns how many points a record is worth; ok is false if it contradicts
// itself, or its time is not near.
func (p *prover) worth(h header, raw []byte) (points int, ok bool) {
	f := p.r.fitOf(h, raw)
	switch {
	case f == misfit || h.typ < firstUserRecord && p.r.pipe && len(p.r.events) == 0: // a pipe's events come first
		return 0, false
	case h.typ >= firstUserRecord && f == exact:
		return proofBySize, true
	case h.typ >= firstUserRecord:
		return proofByType, true
	case f == loose:
		return 0, true
	}
	var id SampleID
	if p.r.SampleID(&Record{Type: h.typ, Misc: h.misc, Raw: raw}, &id) != nil || !p.isNear(h, &id) || p.outer && id.Time != 0 {
		return 0, false
	}
	if id.ID == 0 || id.Event == nil {
		return proofBySize, true
	}
	return proofByID, true
}

// isNear reports whether a record may come soon after the last one before the damage.
// The records of one CPU, except samples, are in the order of time. Older bytes are what
// several listeners leave at the end of records (see [TextPoke]).
func (p *prover) isNear(h header, id *SampleID) bool {
	last := p.last.Time
	if id.Time == 0 || last == 0 {
		return true
	}
	other := id.Has&p.last.Has&SampleCPU != 0 && id.CPU != p.last.CPU
	ordered := p.strict || p.side && h.typ != RecordSample && id.Has&SampleCPU != 0
	if id.Time < last && ordered && !other {
		return false
	}
	return max(id.Time, last)-min(id.Time, last) <= proofNear
}

// isCredible reports whether h.size is possible for a record that contains a name. A path has
// at most 4096 bytes. Without this check, a wrong size would lead to a long search for the end
// of the name.
func (h header) isCredible() bool {
	const longName = 4096 + 512
	switch h.typ {
	case RecordMMAP, RecordMMAP2, RecordCgroup, RecordComm, RecordKSymbol:
		return h.size <= longName
	}
	return true
}

// search looks for the first offset in b at or after from, and before to, where records begin.
// It returns that offset, or the one where it had to stop because b, which is not complete,
// ends. All known types are less than 256, so three of the four bytes of a type are zero: the
// last three if little-endian, the first three if big-endian.
func (p *prover) search(b []byte, from, to int, complete bool) (at int, v verdict) {
	zeros := 1 // offset of the three zero bytes
	if p.r.endian == big {
		zeros = 0
	}
	for at = from; at < to; {
		if len(b)-at < headerSize {
			if complete {
				return at, disproven
			}
			return at, undecided
		}
		if z := b[at+zeros:]; z[2] != 0 {
			at += 3 - zeros
			continue
		} else if z[0]|z[1] != 0 {
			at++
			continue
		}
		if h := p.r.endian.header(b[at:]); h.isPlausible() && h.isCredible() {
			switch v := p.proves(b[at:], complete); v {
			case proven, undecided:
				return at, v
			}
		}
		at++
	}
	return at, disproven
}

// goesOn checks whether b, which follows a record, may begin with another one: each of the
// first few headers must be plausible, and one of them of a known type. If complete is set,
// the records end where b ends, and a b that ends too early may begin with a record.
func (p *prover) goesOn(b []byte, headers int, complete bool) verdict {
	known := disproven
	for n := range proofAhead {
		switch {
		case len(b) < headerSize && complete:
			return proven
		case len(b) < headerSize:
			return undecided
		}
		h := p.r.endian.header(b)
		if !h.isPlausible() && !h.mayBeUnknown() || p.inner && h.typ >= firstUserRecord {
			return disproven
		}
		if h.isPlausible() {
			if known = proven; n+1 >= headers {
				return proven
			}
		}
		size, follows, err := p.r.endian.frame(h, b)
		switch {
		case err != nil && !errors.Is(err.Err, ErrTruncated):
			return disproven
		case err != nil && !complete && len(b) <= 2*maxRecord:
			return undecided
		case err != nil || follows > traceAhead:
			return known
		}
		switch b = b[size:]; {
		case follows < uint64(len(b)):
			b = b[follows:]
		case complete:
			return known
		default:
			return undecided
		}
	}
	return known
}

// isFilled reports whether b is whole records that are worth so many points.
func (p *prover) isFilled(b []byte, least int) bool {
	points := 0
	for len(b) > 0 {
		if len(b) < headerSize {
			return false
		}
		h := p.r.endian.header(b)
		if !h.isPlausible() {
			return false
		}
		size, follows, err := p.r.endian.frame(h, b)
		if err != nil || follows > uint64(len(b)-size) {
			return false
		}
		worth, ok := p.worth(h, b[:size])
		if !ok {
			return false
		}
		points += worth
		b = b[size+int(follows):]
	}
	return points >= least
}

// prover returns a prover for what comes behind the record before s.off.
func (s *Scanner) prover() prover {
	_, deflated := s.r.features[FeatureCompressed]
	p := prover{r: s.r, outer: deflated || s.inflate != nil}
	b := s.buf[max(s.prev-s.base, 0):s.off]
	if s.prev < s.base || len(b) < headerSize {
		return p
	}
	h := s.r.endian.header(b)
	if h.size == len(b) && s.r.fitOf(h, b) == exact && s.r.SampleID(&Record{Type: h.typ, Misc: h.misc, Raw: b}, &p.last) == nil {
		p.side = h.typ != RecordSample
	}
	return p
}

// complete reports whether no more bytes come behind s.buf.
func (s *Scanner) complete() bool { return s.stream == nil || s.stream.eof || s.stream.err != nil }

// remap continues in the mapping of a file that is being read (see [Unmapped]), so that
// damage is treated in the same way. It reports whether it did.
func (s *Scanner) remap() bool {
	if s.stream == nil || !s.reads {
		return false
	}
	f := &s.r.files[s.file]
	at := s.base + int64(s.off)
	s.stream, s.buf, s.base, s.off = nil, f.data[:f.end], 0, int(at)
	return true
}

// ahead returns the bytes from the record at s.off on, as far as they are at hand.
func (s *Scanner) ahead() []byte {
	if s.reads && s.stream != nil {
		f := &s.r.files[s.file]
		return f.data[s.base+int64(s.off) : f.end]
	}
	return s.buf[s.off:]
}

// goesOn reports whether another record may begin n bytes behind s.off, where a record h
// begins whose content fits so far. It reads more of a stream only as far as that depends on
// it: what perf wrote is handed over when the next record has begun.
func (s *Scanner) goesOn(h header, n int, f fit) bool {
	headers := 1
	if f == misfit || !h.typ.known() {
		headers = proofAhead
	}
	p := s.prover()
	for {
		b := s.ahead()
		if v := p.goesOn(b[n:], headers, s.complete() || s.reads); v != undecided {
			return v == proven
		}
		s.more(len(b) + 1)
	}
}

// isStray reports whether a record is among those that are not compressed but has a time,
// as those that are compressed have. It may be a copy that the compression left unchanged.
func (s *Scanner) isStray(h header, raw []byte) bool {
	var id SampleID
	return s.inflate != nil && h.typ < firstUserRecord &&
		s.r.SampleID(&Record{Type: h.typ, Misc: h.misc, Raw: raw}, &id) == nil && id.Time != 0
}

// hides reports whether the record at s.off, of size bytes and with follows more behind
// it, has swallowed others. Either its content has another size, or no record begins behind
// it but one begins within it. hides returns where that one begins, relative to s.off.
func (s *Scanner) hides(h header, size int, follows uint64, f fit) (at int, ok bool) {
	if s.stream != nil && !s.reads {
		s.more(size + int(min(follows, traceAhead)))
	}
	b := s.ahead()
	p := s.prover()
	if follows > uint64(len(b)-size) {
		if !s.complete() && !s.reads {
			return 0, false // too much to keep before the record is handed over
		}
		// Most likely the file was cut within the trace.
		s.remap()
		return s.search(size, min(len(b), size+maxTraceSearch))
	}
	end := size + int(follows)
	if !s.goesOn(h, end, f) {
		s.remap()
		return s.search(headerSize, end)
	}
	b = s.ahead() // goesOn may have moved it
	if h.typ >= firstUserRecord && f != exact || f == misfit {
		// The content of most records that perf itself wrote does not show their size. But no
		// record ends with another one.
		least := proofBySize
		if h.typ.isEmpty() {
			least = 0 // nothing of it is its own
		}
		for at = headerSize; at+headerSize <= size; at += 8 {
			if p.isFilled(b[at:size], least) {
				return at, true
			}
		}
	}
	if f == exact {
		return 0, false
	}
	least := proofBySize // its content shows where it ends
	if mayBeOversize(h.typ) {
		// Stale bytes may look like records, which are older ones then.
		least, p.strict = proofAtEnd, true
		if s.r.SampleID(&Record{Type: h.typ, Misc: h.misc, Raw: b[:size]}, &p.last) != nil {
			p.last = SampleID{}
		}
	}
	at, ok = s.r.contentEnds(h, b[:size], func(at int) bool { return p.isFilled(b[at:size], least) })
	if ok {
		return at, ok
	}
	at, v := p.search(b[:end], headerSize, end, true)
	if f == loose {
		return at, v == proven
	}
	// Nothing of its content can be relied on.
	return at, v == proven && p.isFilled(b[at:end], proofAtEnd)
}

// maxTraceSearch is how many bytes after an AUXTRACE record the Scanner searches for records
// if the file ends before the trace does. If it finds some, the size of the trace is damaged.
const maxTraceSearch = 64 << 20

// traceAhead is how many bytes of a trace a stream is read ahead, to check the AUXTRACE record
// before it is handed over.
const traceAhead = 1 << 20

// mayBeOversize reports whether the kernel writes records of this type that claim
// too much, see [TextPoke].
func mayBeOversize(t RecordType) bool {
	return t == RecordTextPoke || t == RecordKSymbol || t == RecordBPFEvent
}

// disguised returns the type that a record had before its type was damaged, 0 if nothing shows
// that. It is the type of a record without which text is taken to be what it no longer is,
// and the content is that of such a record, down to the id of its event.
func (r *Recording) disguised(h header, raw []byte) RecordType {
	for _, t := range []RecordType{RecordLost, RecordTextPoke, RecordKSymbol, RecordBPFEvent} {
		was := header{t, h.misc, len(raw)}
		if t == h.typ || len(raw)&7 != 0 || !was.isPlausible() {
			continue
		}
		if f := r.fitOf(was, raw); f == misfit || f == loose && !r.hasExcess(t, raw) {
			continue
		}
		rec, id := Record{Type: t, Misc: h.misc, Raw: raw}, SampleID{}
		if r.SampleID(&rec, &id) == nil && id.Event != nil && id.Time != 0 && r.makesSense(&rec) {
			return t
		}
	}
	return 0
}

// hasExcess reports whether raw is a text poke or a symbol of several listeners, at an address of
// the kernel.
func (r *Recording) hasExcess(t RecordType, raw []byte) bool {
	rec := Record{Type: t, Raw: raw}
	switch t {
	case RecordTextPoke:
		var p TextPoke
		return r.TextPoke(&rec, &p) == nil && p.Excess > 0 && p.ID != 0 && p.Addr>>63 == 1
	case RecordKSymbol:
		var k KSymbol
		return r.KSymbol(&rec, &k) == nil && k.Excess > 0 && k.SampleID.ID != 0 && k.Addr>>63 == 1
	}
	return false
}

// makesSense reports whether the fields of a record, whose content fits its type, have values
// that the kernel gives them. Records that perf itself wrote begin with small numbers.
func (r *Recording) makesSense(rec *Record) bool {
	switch rec.Type {
	case RecordTextPoke:
		var p TextPoke
		return r.TextPoke(rec, &p) == nil && p.Addr>>63 == 1
	case RecordKSymbol:
		var k KSymbol
		return r.KSymbol(rec, &k) == nil && (k.Kind == KSymbolBPF || k.Kind == KSymbolOOL) && k.Addr != 0
	case RecordBPFEvent:
		var b BPFEvent
		return r.BPFEvent(rec, &b) == nil && (b.Kind == BPFLoad || b.Kind == BPFUnload) && b.ID != 0
	case RecordLost: // of the event that got through, which is also that of the trailer
		var l Lost
		return r.Lost(rec, &l) == nil && l.ID == l.SampleID.ID && r.ids.find(l.ID) != nil
	}
	return true
}

// contentEnds returns the first offset at which the record may end by its content and a
// trailer, and for which one returns true.
func (r *Recording) contentEnds(h header, raw []byte, one func(at int) bool) (at int, ok bool) {
	switch {
	case h.typ.isEmpty():
		return headerSize, headerSize < len(raw) && one(headerSize)
	case h.typ == RecordCompressed:
		for end := range zstdBlocks(raw[headerSize:], true) {
			if at = headerSize + end; at < len(raw) && one(at) {
				return at, true
			}
		}
		return 0, false
	case h.typ >= firstUserRecord:
		return 0, false
	case h.typ == RecordSample:
		at = r.sampleEnd(h, raw)
		return at, at > 0 && at < len(raw) && one(at)
	}
	end := r.bodyEnd(h, raw)
	if end <= 0 {
		return 0, false
	}
	for _, l := range r.trailers {
		if at := end + l.size; at < len(raw) && one(at) {
			return at, true
		}
	}
	return 0, false
}

// search looks for the first place from which on records prove one another, at
// least from and less than to bytes behind s.off. It reads more of a stream.
func (s *Scanner) search(from, to int) (at int, ok bool) {
	p := s.prover()
	for at = from; ; {
		b := s.buf[s.off:]
		var v verdict
		if at, v = p.search(b, at, to, s.complete()); v != undecided {
			return at, v == proven
		}
		s.more(len(b) + 1)
	}
}

// lose notes that the bytes at s.off are not a record, for the reason err, and moves to
// where records begin again. If there is no such place, the file ends here.
func (s *Scanner) lose(h header, err *FormatError) {
	s.remap()
	if s.settle != nil {
		s.settle()
	}
	at := s.base + int64(s.off)
	// The record before may have swallowed the beginning of the next one.
	if s.prev >= s.base && s.prev < at {
		back := int(at - s.prev)
		s.off -= back
		found, ok := s.search(headerSize, back)
		if ok {
			s.skipTo(at, h, err, found)
			return
		}
		s.off += back
	}
	start := s.off
	for {
		// The part of a stream that was searched need not be kept.
		found, ok := s.search(1, searchStep)
		if ok {
			s.skipTo(at, h, err, found)
			return
		}
		if s.complete() && len(s.buf)-s.off <= searchStep {
			break
		}
		s.off += searchStep - 1
	}
	if s.stream == nil {
		s.off = start
	}
	s.failAt(at, h.typ, err.Err, "%s", err.Msg)
}

const searchStep = 1 << 20

// skipTo moves to the record that begins n bytes behind s.off. The bytes at offset at
// could not be read.
func (s *Scanner) skipTo(at int64, h header, err *FormatError, n int) {
	to := s.base + int64(s.off+n)
	if s.mayHaveHeldBlocks(s.off, s.off+n) {
		s.inflate.lose()
	}
	cause := err.Err
	if errors.Is(cause, ErrTruncated) {
		cause = ErrMalformed // the missing part is not the end
	}
	s.note(&FormatError{
		File: s.r.fileName(s.file), Offset: at, Record: h.typ, Err: cause,
		Msg: fmt.Sprintf("%s; the next record is at offset %d", err.Msg, to),
	})
	s.off += n
	s.prev, s.damaged = -1, true
}

// maxErrors bounds how many errors are kept of a file.
const maxErrors = 100

// note keeps an error. An error that wraps ErrTruncated is about the end of a
// file: [Scanner.skipTo] changes those of records that others follow.
func (s *Scanner) note(err error) {
	if s.damage == nil && !errors.Is(err, ErrTruncated) {
		s.damage = err
	}
	if len(s.errs) < maxErrors {
		s.errs = append(s.errs, err)
	}
}

// mayHaveHeldBlocks reports whether the bytes from lo up to hi of s.buf, which are
// left out, may have been compressed records: then what is compressed behind them
// cannot be decompressed.
func (s *Scanner) mayHaveHeldBlocks(lo, hi int) bool {
	if s.inflate == nil || s.inflate.lost {
		return false
	}
	if s.isOneRecord(s.buf[lo:hi]) {
		return false
	}
	// The record before may have been longer.
	before := int(s.prev - s.base)
	return s.prev < s.base || before >= lo || !s.isOneRecord(s.buf[before:hi])
}

// isOneRecord reports whether b was one record, and not a compressed one, before
// its type or its size was damaged.
func (s *Scanner) isOneRecord(b []byte) bool {
	if len(b) < headerSize {
		return false
	}
	h := s.r.endian.header(b)
	if h.size == len(b) && len(b) < headerSize+leastDeflated {
		return true
	}
	h.size = len(b)
	return h.typ != RecordCompressed && h.typ != RecordCompressed2 && h.isPlausible() && s.r.fitOf(h, b) != misfit
}
