// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
)

// A Reader reads a recording from a pipe, a socket, or a program that decompresses
// it. It returns the records as they arrive and keeps none of them, so it can
// follow a perf record that is still running.
//
//	rd, err := perfdata.NewReader(os.Stdin)
//	...
//	for rd.Next() {
//		use(rd.Recording(), rd.Record())
//	}
//	if err := rd.Err(); err != nil { ... }
//
// The records are those that [Recording.Scan] finds in the same bytes. Nearly all of them
// are handed over as soon as they have arrived. A record whose content does not show its
// size (of those that perf itself writes) waits for the header of the next one, one that
// looks damaged for a few headers, and AUXTRACE for up to 1 MiB of its trace.
//
// Events and features become known on the way: in pipe form they are records (perf
// calls them synthesized), and in file form the features follow the records.
//
// A Reader serves one goroutine.
type Reader struct {
	r       *Recording
	s       *Scanner
	src     *source
	desc    *description
	want    filter
	payload io.Reader
	ended   bool
	lost    error // the stream could not be read behind the records
}

// A source provides a Scanner's bytes if they are not all in memory.
type source struct {
	io.Reader
	sized  bool      // the records end after left bytes, not where Reader does
	left   uint64    // bytes to read, if sized
	rest   io.Reader // of a recording in file form, what follows these bytes
	behind []byte    // the beginning of rest, if extend has read it
	err    error     // the first error of Reader but io.EOF
	eof    bool      // no more bytes will come
}

const (
	streamBuffer = 256 << 10
	maxHead      = 64 << 20 // the part of a file before its records; the ids of 1,000 events on 1,000 CPUs are 8 MB
	emptyReads   = 100      // successive reads of 0 bytes after which the stream has failed, as in bufio
)

// NewReader reads a recording's header from src and returns a Reader that is
// before its first record. The options are those of [Recording.Scan]. The Reader
// uses records that describe others even if [Only] does not return them.
//
// A recording in file form is read as a stream if its header has the size of the
// records, and its events are before them, as perf writes it. Otherwise it is read
// into memory as a whole.
//
// The errors are those of src, and those of [Open].
func NewReader(src io.Reader, opts ...ScanOption) (*Reader, error) {
	head, err := readUpTo(nil, src, pipeHeader)
	if err != nil {
		return nil, err
	}
	r := &Recording{files: []dataFile{{data: head, end: len(head)}}, stream: true}
	size, err := r.readMagic(head)
	if err != nil {
		return nil, err
	}
	rd := &Reader{r: r}
	start, cut := uint64(pipeHeader), error(nil)
	if size != pipeHeader {
		if head, err = readUpTo(head, src, fileHeader); err != nil {
			return nil, err
		}
		h, err := r.readFileHeader(head, size)
		if err != nil {
			return nil, err
		}
		if !h.streams() {
			return readWhole(src, head, opts)
		}
		if h.data.offset > maxHead {
			return nil, r.headerErr(hdrData, ErrUnsupported, "in a stream, records that begin at %d", h.data.offset)
		}
		if head, err = readUpTo(head, src, int(h.data.offset)); err != nil {
			return nil, err
		}
		events, err := r.readAttrs(head)
		if err != nil {
			return nil, err
		}
		if len(r.warnings) > 0 {
			// The ids of an event may be anywhere.
			return readWhole(src, head, opts)
		}
		start = h.data.offset
		if start > uint64(len(head)) {
			start = uint64(len(head))
			cut = r.headerErr(int64(start), ErrTruncated, "records begin at %d, past the end of the stream", h.data.offset)
		}
		r.setEvents(events)
		r.clean = r.headerErr(0, nil, "the stream has not ended")
		rd.src = &source{Reader: src, sized: h.data.size > 0, left: h.data.size, rest: src}
	} else {
		rd.desc = newDescription(r)
		rd.src = &source{Reader: src}
	}
	rd.s = &Scanner{r: r, lastOf: 1, stream: rd.src, base: int64(start)}
	for _, opt := range opts {
		opt(rd.s)
	}
	rd.want = rd.s.want
	if rd.desc != nil {
		rd.s.settle = rd.desc.settle
		if rd.want.on {
			rd.s.want = rd.want.with(describing...)
		}
	}
	// The last of the bytes read so far may belong to the records.
	rd.s.buf = make([]byte, 0, streamBuffer)
	tail := head[min(start, uint64(len(head))):]
	if rd.src.sized && uint64(len(tail)) > rd.src.left {
		rd.src.rest = io.MultiReader(bytes.NewReader(tail[rd.src.left:]), src)
		tail = tail[:rd.src.left]
	}
	rd.s.buf = append(rd.s.buf, tail...)
	rd.src.left -= min(rd.src.left, uint64(len(tail)))
	r.files[0] = dataFile{cut: cut}
	return rd, nil
}

// readWhole makes a Reader of a recording that can be read only in memory.
func readWhole(src io.Reader, head []byte, opts []ScanOption) (*Reader, error) {
	rest, err := io.ReadAll(src)
	if err != nil {
		return nil, err
	}
	r, err := New(append(head, rest...))
	if err != nil {
		return nil, err
	}
	return &Reader{r: r, s: r.Scan(opts...), ended: true}, nil
}

// readUpTo appends to b what src has until there are n bytes, fewer if src ends before.
func readUpTo(b []byte, src io.Reader, n int) ([]byte, error) {
	if len(b) >= n {
		return b, nil
	}
	more, err := io.ReadAll(io.LimitReader(src, int64(n-len(b))))
	return append(b, more...), err
}

// Recording returns what is known so far. Its methods that decode records and
// features work as those of an open recording, but must not be called while another
// goroutine is in [Reader.Next]. It has no records to scan.
func (rd *Reader) Recording() *Recording { return rd.r }

// Next goes to the next record and reports whether there is one, waiting for it
// if it has not arrived. At the end of the stream, or where damage leaves no
// further record, it returns false; see [Reader.Err].
func (rd *Reader) Next() bool {
	rd.payload = nil
	for rd.s.Next() {
		rec := &rd.s.rec
		if rd.desc != nil {
			if rd.desc.describes(rec) {
				rd.describe(rec)
			} else {
				rd.desc.settle()
			}
			if rd.want.on && !rd.want.has(rec.Type) {
				continue
			}
		}
		return true
	}
	rd.end()
	return false
}

func (rd *Reader) describe(rec *Record) {
	var data []byte
	if rec.Type == RecordHeaderTracingData && rd.s.skip > 0 {
		var err error
		if data, err = io.ReadAll(io.LimitReader((*payloadReader)(rd.s), int64(min(rd.s.skip, math.MaxInt32)))); err == nil {
			rd.payload = bytes.NewReader(data)
		}
	}
	rd.desc.take(rec, data)
	if rec.Type != RecordHeaderAttr {
		rd.desc.settle()
	}
}

// end reads what follows the records.
func (rd *Reader) end() {
	if rd.ended {
		return
	}
	rd.ended = true
	r := rd.r
	if rd.desc != nil {
		rd.desc.settle()
		rd.desc.end()
		return
	}
	switch {
	case rd.s.failed || !rd.src.sized || rd.src.left > 0:
		r.clean = rd.s.Err()
		if r.clean == nil {
			r.clean = r.headerErr(hdrData+8, nil, "the header does not say how long the records are: perf was killed or is still running")
		}
	default:
		rest := &errorKeeper{Reader: rd.src.rest}
		r.clean = r.readRest(rest, r.head.data.offset+r.head.data.size, r.head.bitmap)
		if _, ok := r.features[FeatureEventDesc]; ok {
			r.nameEvents(r.events)
		}
		if rest.err != nil {
			rd.lost = r.clean
		}
	}
}

// An errorKeeper keeps the error of a reader that failed.
type errorKeeper struct {
	io.Reader
	err error // nil for io.EOF
}

func (k *errorKeeper) Read(p []byte) (int, error) {
	n, err := k.Reader.Read(p)
	if err != nil && err != io.EOF {
		k.err = err
	}
	return n, err
}

// Record returns the record that the last call of [Reader.Next] came to. The
// next call fills the same Record again, and its Raw is valid until then.
func (rd *Reader) Record() *Record { return &rd.s.rec }

// Payload returns a reader of the bytes that follow the current record and are
// not counted in its size, see [Scanner.Payload]. It is valid until the next
// [Reader.Next], which skips the bytes that were not read.
func (rd *Reader) Payload() io.Reader {
	switch {
	case rd.payload != nil:
	case rd.src == nil:
		rd.payload = bytes.NewReader(rd.s.Payload())
	default:
		rd.payload = (*payloadReader)(rd.s)
	}
	return rd.payload
}

// Err returns nil if the stream ended where a record did, and in file form
// where the header says. Otherwise it returns a [*FormatError], as
// [Scanner.Err] does, which wraps the error of a stream that could not be read.
func (rd *Reader) Err() error { return cmp.Or(rd.s.Err(), rd.lost) }

// Damage returns the first damage before the current record, as [Scanner.Damage]
// does.
func (rd *Reader) Damage() error { return rd.s.Damage() }

// more reports whether there are n bytes from s.off on, after reading more of
// the stream where there is one.
func (s *Scanner) more(n int) bool {
	src := s.stream
	if src == nil {
		return len(s.buf)-s.off >= n
	}
	for idle := 0; len(s.buf)-s.off < n && !src.eof && src.err == nil; {
		if cap(s.buf)-s.off < n || len(s.buf) == cap(s.buf) || s.off == len(s.buf) {
			// Bytes that the caller may still use are overwritten only here, on the
			// way to the next record. The record before is kept: it may turn out to
			// be damaged.
			keep := s.off
			if before := int64(s.off) + s.base - s.prev; s.prev >= s.base && before <= maxRecord {
				keep -= int(before)
			}
			rest := s.buf[keep:]
			s.base += int64(keep)
			s.off -= keep
			if len(rest) > cap(s.buf)/2 {
				s.buf = append(make([]byte, 0, 2*cap(s.buf)), rest...)
			} else {
				s.buf = append(s.buf[:0], rest...)
			}
		}
		k := src.read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+k]
		if idle++; k > 0 {
			idle = 0
		} else if idle == emptyReads {
			src.err = io.ErrNoProgress
		}
	}
	if src.eof && src.sized && src.left > 0 && s.r.files[0].cut == nil {
		end := s.base + int64(len(s.buf))
		s.r.files[0].cut = s.r.headerErr(end, ErrTruncated, "the file ends %d bytes before its records do", src.left)
	}
	return len(s.buf)-s.off >= n
}

// extend makes the record at s.off whole if the header's size of the records ends within it, and
// the table of features begins where the record ends. perf reads such a record too
// (reader__mmap() in tools/perf/util/session.c). extend reports whether it did.
func (s *Scanner) extend() bool {
	r := s.r
	if s.off == len(s.buf) || s.file != 0 || s.extended || s.failed || r.pipe || r.head.data.size == 0 || r.files[0].cut != nil {
		return false
	}
	s.remap()
	left := s.buf[s.off:]
	if len(left) > maxRecord {
		return false
	}
	var behind []byte
	switch src := s.stream; {
	case src == nil:
		f := &r.files[0]
		behind = f.data[f.end:min(len(f.data), f.end+maxRecord+8)]
	case !src.sized || src.left > 0 || src.err != nil:
		return false
	default:
		if src.behind == nil {
			if src.behind, src.err = readUpTo(nil, src.rest, maxRecord+8); src.err != nil {
				return false
			}
			src.rest = io.MultiReader(bytes.NewReader(src.behind), src.rest)
		}
		behind = src.behind
	}
	b := append(bytes.Clone(left), behind...)
	if len(b) < headerSize {
		return false
	}
	h := r.endian.header(b)
	size, follows, err := r.endian.frame(h, b)
	if err != nil || follows > 0 || size <= len(left) || !h.isPlausible() || !r.isTable(b[size:], uint64(s.base)+uint64(s.off+size)) {
		return false
	}
	if s.extended = true; s.stream != nil {
		s.buf = append(s.buf, behind[:size-len(left)]...)
	} else {
		s.buf = r.files[0].data[:s.off+size]
	}
	return true
}

// read reads into b what has arrived.
func (src *source) read(b []byte) int {
	if src.sized && uint64(len(b)) > src.left {
		b = b[:src.left]
	}
	if len(b) == 0 {
		src.eof = true
		return 0
	}
	n, err := src.Read(b)
	src.left -= min(uint64(n), src.left)
	switch {
	case errors.Is(err, io.EOF):
		src.eof = true
	case err != nil:
		src.err = err
	case src.sized && src.left == 0:
		src.eof = true
	}
	return n
}

// whole brings the record with header h into s.buf, as far as the stream has it.
func (s *Scanner) whole(h header) {
	if s.stream == nil {
		return
	}
	n := h.size
	if h.typ == RecordCompressed2 && s.more(compressed2Data) {
		n = compressed2Data
		size := s.r.endian.u64(s.buf[s.off+headerSize:])
		if size < math.MaxInt32 && align8(n+int(size))&maxRecord == h.size {
			n = align8(n + int(size))
		}
	}
	s.more(n)
}

// skipPayload passes over what is left of a stream's payload.
func (s *Scanner) skipPayload() {
	for s.skip > 0 {
		if s.off == len(s.buf) && !s.more(1) {
			break
		}
		n := min(uint64(len(s.buf)-s.off), s.skip)
		s.off += int(n)
		s.skip -= n
	}
	if s.skip > 0 {
		if s.stream.err != nil {
			s.fail(s.rec.Type, s.stream.err, "the stream cannot be read further")
		} else {
			s.fail(s.rec.Type, ErrTruncated, "%d of the bytes that follow the record are missing", s.skip)
		}
	}
	s.skip, s.pending = 0, false
}

// A payloadReader reads the payload of the Scanner's record out of its stream.
type payloadReader Scanner

func (p *payloadReader) Read(b []byte) (int, error) {
	s := (*Scanner)(p)
	if s.skip == 0 || s.stream == nil {
		return 0, io.EOF
	}
	// The record itself stays in the buffer, so that it remains valid.
	if s.off < len(s.buf) {
		n := copy(b[:min(uint64(len(b)), s.skip)], s.buf[s.off:])
		s.off += n
		s.skip -= uint64(n)
		return n, nil
	}
	n := s.stream.read(b[:min(uint64(len(b)), s.skip)])
	s.base += int64(n)
	s.skip -= uint64(n)
	if n == 0 && len(b) > 0 {
		if s.stream.err != nil {
			return 0, s.stream.err
		}
		if s.stream.eof {
			return 0, fmt.Errorf("%w: %d bytes are missing", io.ErrUnexpectedEOF, s.skip)
		}
	}
	return n, nil
}
