// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/klauspost/compress/zstd"
)

// A Scanner goes through the records of a recording in file order, one file
// after the other. Records are in time order per ring buffer at best.
//
//	s := rec.Scan()
//	for s.Next() {
//		use(s.Record())
//	}
//	if err := s.Err(); err != nil { ... }
//
// The Scanner returns a COMPRESSED or COMPRESSED2 record unchanged, and then
// the records that were compressed in it. The trace that follows an AUXTRACE
// record is skipped without being touched; [Scanner.Payload] returns it.
//
// A Scanner serves one goroutine; a Recording can have any number of Scanners.
type Scanner struct {
	r       *Recording
	rec     Record
	buf     []byte // the current file up to the end of its records; of a stream the part in memory
	off     int    // offset in buf of the next record
	base    int64  // offset in the file of buf[0]
	file    int
	lastOf  int // the file after the last one to read
	want    filter
	outer   bool   // option KeepCompressed
	reads   bool   // option Unmapped
	payload []byte // what follows the record handed over last and is not in its size
	stream  *source
	inflate *inflater
	rejoin  *rejoiner  // option Rejoin
	settle  func()     // makes known the events of a pipe that its last records described
	pending bool       // inside, skip or rejoin must be dealt with before the record at off
	inside  bool       // inflate may have further records
	skip    uint64     // bytes of a stream's payload to skip
	inType  RecordType // of the compressed record that inflate was last given: COMPRESSED or COMPRESSED2

	repeated bool  // the decoder has been given that record twice
	failed   bool  // the current file cannot be read further
	damaged  bool  // some of the current file was left out
	extended bool  // extend has moved the end of the records
	prev     int64 // offset of the record that ends at off; below 0 if none does
	traced   int   // where in buf the last trace ended
	sparse   int   // up to where in buf the mapping is read sparsely
	unloaded int   // up to where in buf the mapping was unloaded
	errs     []error
	damage   error // the first of the errors that is not about a file that was cut short
}

// A ScanOption changes what a [Scanner] hands over.
type ScanOption func(*Scanner)

// Only skips records of all other types, at the least cost. Without types it skips
// all records, so that the Scanner only checks their framing.
func Only(types ...RecordType) ScanOption {
	return func(s *Scanner) {
		s.want = filter{on: true}
		for _, t := range types {
			s.want.add(t)
		}
	}
}

// KeepCompressed makes the Scanner return COMPRESSED and COMPRESSED2 records without the
// records inside them.
func KeepCompressed() ScanOption { return func(s *Scanner) { s.outer = true } }

// Unmapped reads the files, 256 KiB at a time, instead of using their mapping. It
// needs little memory, and is faster where the first access to a mapped page is slow,
// as in virtual machines. Record.Raw is then valid until the next record only, and
// [Scanner.Payload] returns nil. Unmapped has no effect in [Recording.Ordered], and
// on files that are not mapped.
func Unmapped() ScanOption { return func(s *Scanner) { s.reads = true } }

// Scan returns a [Scanner] that is before the first record.
func (r *Recording) Scan(opts ...ScanOption) *Scanner {
	return r.scanFiles(0, len(r.files), opts...)
}

// scanFiles returns a Scanner over the files from first up to, not including, last.
func (r *Recording) scanFiles(first, last int, opts ...ScanOption) *Scanner {
	s := &Scanner{r: r, file: first - 1, lastOf: last}
	for _, opt := range opts {
		opt(s)
	}
	s.nextFile()
	s.pending = s.rejoin != nil
	return s
}

// A filter is a set of record types.
type filter struct {
	on    bool
	low   [2]uint64 // types below 128
	other map[RecordType]bool
}

func (f *filter) add(t RecordType) {
	if t < 128 {
		f.low[t/64] |= 1 << (t % 64)
		return
	}
	if f.other == nil {
		f.other = make(map[RecordType]bool)
	}
	f.other[t] = true
}

// with returns a filter that has the given types too. They must be less than 128.
func (f *filter) with(types ...RecordType) filter {
	g := filter{on: true, low: f.low, other: f.other}
	for _, t := range types { // other is shared with f and must not change
		g.add(t)
	}
	return g
}

func (f *filter) has(t RecordType) bool {
	if t < 128 {
		return f.low[t/64]>>(t%64)&1 == 1
	}
	return f.other[t]
}

// Next goes to the next record and reports whether there is one. At the end,
// or where damage leaves no further record, it returns false; see [Scanner.Err].
func (s *Scanner) Next() bool {
	for {
		if s.pending {
			if s.nextPending() {
				return true
			}
			continue
		}
		b := s.buf[s.off:]
		if len(b) < headerSize {
			if !s.more(headerSize) && !s.extend() && !s.fileEnd() {
				return false
			}
			continue
		}
		h := s.r.endian.header(b)
		if h.size&7 != 0 || h.size < headerSize || h.size > len(b) ||
			h.typ >= firstUserRecord || s.inflate != nil || !s.r.isExact(h, b[:h.size]) {
			if s.nextSpecial(h) {
				return true
			}
			continue
		}
		off := s.off
		s.prev = s.base + int64(off)
		s.off = off + h.size
		if s.want.on && !s.want.has(h.typ) {
			continue
		}
		s.rec.Type, s.rec.Misc = h.typ, h.misc
		s.rec.Offset = s.base + int64(off)
		s.rec.Raw = b[:h.size:h.size]
		return true
	}
}

// A header is a struct perf_event_header.
type header struct {
	typ  RecordType
	misc uint16
	size int
}

func (e endian) header(b []byte) header {
	h := binary.LittleEndian.Uint64(b)
	if e == big {
		h = bits.ReverseBytes64(h)
		return header{RecordType(h >> 32), uint16(h >> 16), int(h & 0xffff)}
	}
	return header{RecordType(h), uint16(h >> 32), int(h >> 48)}
}

// Record returns the record that the last call of [Scanner.Next] came to. The
// next call fills the same Record again; for how long its Raw is valid see there.
func (s *Scanner) Record() *Record { return &s.rec }

// Payload returns the bytes that follow the current record and are not counted
// in its size: the trace after an AUXTRACE record, the data after a
// HEADER_TRACING_DATA record, nil after all others. It aliases the recording's
// memory, is read-only, and is valid until [Recording.Close].
func (s *Scanner) Payload() []byte {
	if s.rec.Type != RecordAuxtrace && s.rec.Type != RecordHeaderTracingData {
		return nil
	}
	return s.payload
}

// Err returns nil if the scan came to the end of good data. After damage it
// returns a [*FormatError] that names the first place which could not be read;
// every whole record before it has been handed over. In a recording of
// several files each one is read as far as it goes, and the errors are joined.
func (s *Scanner) Err() error {
	if len(s.errs) == 1 {
		return s.errs[0]
	}
	return errors.Join(s.errs...)
}

// Damage returns the first error so far that is not about a file that was cut
// short: records before the end may be missing. It returns nil while everything up
// to the current record was read. Unlike [Scanner.Err], it can be used before the
// end, and it does not depend on how the records end.
func (s *Scanner) Damage() error { return s.damage }

// nextFile begins with the next data file and reports whether there is one.
func (s *Scanner) nextFile() bool {
	if s.unloaded > 0 {
		s.unload(len(s.buf))
	}
	s.traced, s.sparse, s.unloaded = 0, 0, 0
	s.inflate.close()
	s.inflate, s.inside, s.pending = nil, false, false
	s.buf, s.off, s.failed, s.damaged, s.extended, s.prev = nil, 0, false, false, false, -1
	s.rec, s.payload = Record{}, nil
	s.file++
	if s.file >= s.lastOf {
		s.file = s.lastOf
		return false
	}
	f := &s.r.files[s.file]
	s.buf, s.off, s.base, s.stream = f.data[:f.end], f.start, 0, nil
	if s.reads && f.file != nil && f.file.Mapped() {
		s.stream = &source{Reader: io.NewSectionReader(f.file, int64(f.start), int64(f.end-f.start))}
		s.buf, s.off, s.base = make([]byte, 0, streamBuffer), 0, int64(f.start)
	}
	s.rec.File = s.file
	return true
}

// fileEnd ends the current file, in which fewer bytes are left than a header
// has, and reports whether there is another.
func (s *Scanner) fileEnd() bool {
	if s.file == s.lastOf {
		return false
	}
	if !s.failed {
		left := len(s.buf) - s.off
		cut := s.r.files[s.file].cut
		switch {
		case s.stream != nil && s.stream.err != nil:
			s.fail(0, s.stream.err, "the stream cannot be read further")
		case left > 0:
			s.fail(0, ErrTruncated, "the records end with %d bytes of a header", left)
		case cut != nil:
			s.note(cut)
		case s.inflate.partial():
			s.fail(0, ErrTruncated, "what was compressed ends within a record")
		}
	}
	return s.nextFile()
}

// fail notes why the current file cannot be read beyond s.off, and makes that its end.
func (s *Scanner) fail(typ RecordType, err error, format string, args ...any) {
	s.failAt(s.base+int64(s.off), typ, err, format, args...)
}

func (s *Scanner) failAt(offset int64, typ RecordType, err error, format string, args ...any) {
	s.note(&FormatError{
		File: s.r.fileName(s.file), Offset: offset, Record: typ, Msg: fmt.Sprintf(format, args...), Err: err,
	})
	s.buf = s.buf[:s.off]
	s.inside, s.pending = false, false
	s.stream = nil
	s.failed = true
}

// nextSpecial goes to the record at s.off if Next cannot frame it by its header alone, or if
// its content does not have exactly the size in the header. It reports whether Next should
// return the record.
func (s *Scanner) nextSpecial(h header) bool {
	s.whole(h)
	b := s.buf[s.off:]
	size, follows, err := s.r.endian.frame(h, b)
	if err != nil && errors.Is(err.Err, ErrTruncated) && s.extend() {
		return false
	}
	if err != nil {
		if s.stream != nil && s.stream.err != nil && err.Err == ErrTruncated {
			s.fail(h.typ, s.stream.err, "%s", err.Msg)
		} else {
			s.lose(h, err)
		}
		return false
	}
	if !h.isPlausible() && !h.mayBeUnknown() && (h.typ == 0 || h.typ >= newTypesEnd) {
		s.lose(h, malformed("record of %d bytes of no type that there is", size))
		return false
	}
	if h.typ < firstUserRecord && int(h.typ) < len(leastSize) && size < int(leastSize[h.typ]) {
		s.lose(h, malformed("record of %d bytes, which its type does not have", size))
		return false
	}
	f := s.r.fitOf(h, b[:size])
	if f == misfit && h.typ == RecordCompressed && s.inflate.continues(b[headerSize:size]) {
		f = exact
	}
	if s.isStray(h, b[:size]) && (f != exact || !s.goesOn(h, size, f)) {
		s.lose(h, malformed("record of %d bytes that was compressed, and does not fit", size))
		return false
	}
	if f != exact || follows > 0 {
		if at, ok := s.hides(h, size, follows, f); ok {
			s.skipTo(s.base+int64(s.off), h, malformed("record of %d bytes, within which others begin", uint64(size)+follows), at)
			return false
		}
		if h.typ >= newTypesEnd && !s.goesOn(h, size, f) {
			s.lose(h, malformed("record of %d bytes of an unknown type, and nothing follows it", size))
			return false
		}
	}
	if h.typ.isEmpty() && f != exact && s.r.isOther(h, s.buf[s.off:][:size]) {
		s.lose(h, malformed("record of %d bytes with the content of another type", size))
		return false
	}
	b = s.buf[s.off:] // the checks may have read more, or gone on in the mapping
	s.rec.Type, s.rec.Misc = h.typ, h.misc
	s.rec.Offset = s.base + int64(s.off)
	s.rec.Raw = b[:size:size]
	s.prev = -1
	if follows == 0 {
		s.prev = s.rec.Offset
	}
	switch s.payload = b[size:]; {
	case s.stream != nil:
		s.off += size
		s.payload, s.skip, s.pending = nil, follows, follows > 0
	case uint64(len(s.payload)) >= follows:
		s.payload = s.payload[:follows]
		s.off += size + len(s.payload)
		s.passTrace(len(s.payload))
	default:
		// The record is whole; what follows it is not, and nothing comes after.
		s.fail(h.typ, ErrTruncated, "%d bytes follow the record, but only %d are there", follows, len(s.payload))
	}
	// The records of several listeners are longer, and end with anything, also with what makes
	// them fit another type.
	if f == misfit || f == loose && !mayBeOversize(h.typ) || s.r.isStrange(h, s.rec.Raw) {
		if t := s.r.disguised(h, s.rec.Raw); t != 0 {
			s.note(s.r.recordErr(&s.rec, "a record of %d bytes with the content of %v", size, t))
		}
	}
	switch {
	case s.outer:
	case h.typ == RecordCompressed || h.typ == RecordCompressed2:
		s.compressed()
	case f == misfit || !h.typ.known():
		if err := s.inflate.mayMiss(s.rec.Raw); err != nil {
			s.note(s.r.recordErr(&s.rec, "%v", err))
		}
	}
	return !s.want.on || s.want.has(h.typ)
}

// passTrace notes that n bytes before s.off were passed over. Where there is little but long
// traces, the kernel must not read the surroundings of each record, which are traces.
func (s *Scanner) passTrace(n int) {
	const (
		long   = 256 << 10
		share  = 32       // of the trace, how much of it there may be of records
		ahead  = 16       // traces
		atMost = 64 << 20 // bytes; if records follow instead, they are read page by page
	)
	between := s.off - n - s.traced
	s.traced = s.off
	f := s.r.files[s.file].file
	if f == nil || n < long || between > n/share || s.off+2*n < s.sparse {
		return
	}
	s.sparse = s.off + min(ahead*n, atMost)
	f.Sparse(s.off, s.sparse)
}

// Unload releases the memory that the mapped file takes up to the current record. All
// slices stay valid: what is used later is read from the file again. In a large recording it
// takes less time than [Recording.Unload].
func (s *Scanner) Unload() { s.unload(s.off) }

func (s *Scanner) unload(to int) {
	if s.file < 0 || s.file >= len(s.r.files) || s.stream != nil || to <= s.unloaded {
		return
	}
	if f := s.r.files[s.file].file; f != nil {
		f.UnloadRange(s.unloaded, to)
		s.unloaded = to
	}
}

// compressed begins to hand over what is in the COMPRESSED record s.rec.
func (s *Scanner) compressed() {
	if s.inflate == nil {
		s.inflate = newInflater(s.r)
	}
	if err := s.inflate.feed(s.r.endian.compressed(&s.rec), s.damaged); err != nil {
		s.note(s.insideErr(err))
	}
	s.inside, s.pending, s.inType, s.repeated = true, true, s.rec.Type, false
}

// again gives the decoder the current record once more, and reports whether it did. The
// decoder compares a frame's checksum only when the next frame begins. So an error at the
// beginning of a record is about the frame before it.
func (s *Scanner) again() bool {
	b := s.r.endian.compressed(&s.rec)
	if s.rec.Type != s.inType || s.repeated || !isFrame(b) {
		return false
	}
	s.repeated = true
	return s.inflate.feed(b, true) == nil
}

func (s *Scanner) insideErr(err error) error {
	return &FormatError{File: s.r.fileName(s.file), Offset: s.rec.Offset, Record: s.inType, Msg: "what is inside cannot be read further", Err: err}
}

// nextPending does what must be done before the record at s.off, and reports whether that
// led to a record that Next should return.
func (s *Scanner) nextPending() bool {
	if s.rejoin != nil {
		return s.nextRejoined()
	}
	if s.inside {
		if s.nextInside() {
			return true
		}
		s.pending = s.inside
		return false
	}
	s.skipPayload()
	return false
}

// nextInside goes to the next record in the COMPRESSED record that was read last, and
// reports whether there is one that Next should return.
func (s *Scanner) nextInside() bool {
	for {
		h, raw, err := s.inflate.next()
		if err != nil {
			s.failInside(err)
			return false
		}
		if raw == nil {
			s.inside = false
			return false
		}
		if s.want.on && !s.want.has(h.typ) {
			continue
		}
		s.rec.Type, s.rec.Misc, s.rec.Raw = h.typ, h.misc, raw
		return true
	}
}

// failInside notes why what is in the current COMPRESSED record cannot be read further.
func (s *Scanner) failInside(err error) {
	s.note(s.insideErr(err))
	s.inside = errors.Is(err, zstd.ErrCRCMismatch) && s.again()
}

// frame returns the size of the record that begins b, and of what follows it
// without being counted in its size.
func (e endian) frame(h header, b []byte) (size int, follows uint64, err *FormatError) {
	size = h.size
	if h.typ == RecordCompressed2 {
		if size, err = e.compressed2Size(h, b); err != nil {
			return 0, 0, err
		}
	}
	switch {
	case size < headerSize:
		return 0, 0, malformed("record of %d bytes", size)
	case size > len(b):
		return 0, 0, &FormatError{Err: ErrTruncated, Msg: fmt.Sprintf("record of %d bytes, of which only %d are there", size, len(b))}
	case size&7 != 0 && h.typ.aligned():
		return 0, 0, malformed("record of %d bytes, which is not a multiple of 8", size)
	}
	switch h.typ {
	case RecordAuxtrace: // u64 size
		if size < headerSize+8 {
			return 0, 0, malformed("record of %d bytes", size)
		}
		follows = e.u64(b[headerSize:])
	case RecordHeaderTracingData: // u32 size
		if size < tracingData {
			return 0, 0, malformed("record of %d bytes", size)
		}
		// simpleperf puts the data into the record.
		if n := e.u32(b[headerSize:]); uint64(n) > uint64(size-tracingData) {
			follows = (uint64(n) + 7) &^ 7
		}
	}
	return size, follows, nil
}

const tracingData = headerSize + 4 // offset of the data that simpleperf puts into the record

func malformed(format string, args ...any) *FormatError {
	return &FormatError{Err: ErrMalformed, Msg: fmt.Sprintf(format, args...)}
}

// aligned reports whether the sizes of records of this type are always multiples of 8
// bytes. Those of the kernel's records are. Some of perf's are not, and older perfs had
// more such types (CPU_MAP in 4.16).
func (t RecordType) aligned() bool { return t < firstUserRecord }
