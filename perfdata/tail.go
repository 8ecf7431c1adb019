// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"errors"
	"io"
)

// A Tail is an [io.Reader] of a recording that perf record is still writing to
// a file, to be given to [NewReader]. It hands over whole records only, waits
// where there are no more yet, and ends where the recording does. From damage on it
// waits until the recording has ended, and then hands over everything else: before,
// what is damaged cannot be told from what perf has not written yet.
//
// perf writes down how long the records are when it ends, and the features of
// the recording with it (perf_session__write_header of tools/perf/util/header.c).
// So what a Tail hands over has neither; [Open] reads them afterwards. Of a
// recording that is complete already it hands over everything.
//
// A Tail serves one goroutine.
type Tail struct {
	f    io.ReaderAt
	wait func() error

	began bool
	plain bool // complete when it began: it is handed over as it is
	r     Recording
	start int64 // of the records; 0 while the header is not there
	off   int64 // of the next byte to hand over
	limit int64 // up to here there are whole records
	stuck bool  // what follows the limit is no record
	buf   []byte
}

// NewTail returns a Tail of the file f. Wait is called when everything has been
// handed over that is there: it returns nil when it is time to look again, and an
// error where there is no more to come, io.EOF after perf was killed.
func NewTail(f io.ReaderAt, wait func() error) *Tail {
	return &Tail{f: f, wait: wait, buf: make([]byte, 1<<17)}
}

// Read reads what perf has written. Its errors are those of the file and of wait,
// and a [*FormatError] where the file is no recording.
func (t *Tail) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for !t.plain && t.off == t.limit {
		ended, err := t.look()
		switch {
		case err != nil:
			return 0, err
		case ended:
			return 0, io.EOF
		case t.off == t.limit && !t.plain:
			err := t.wait()
			if errors.Is(err, io.EOF) && t.stuck {
				// perf was killed: the Reader looks for records behind the damage.
				err = t.handOver()
			}
			if err != nil {
				return 0, err
			}
		}
	}
	if !t.plain {
		p = p[:min(int64(len(p)), t.limit-t.off)]
	}
	n, err := t.f.ReadAt(p, t.off)
	if !t.plain && n > 0 {
		err = nil
	}
	if !t.plain {
		t.hide(p[:n])
	}
	t.off += int64(n)
	return n, err
}

// hide clears what the header, if p holds any of it, may say by now of how long
// the records are, and of features: it did not when the records began.
func (t *Tail) hide(p []byte) {
	if t.r.pipe {
		return
	}
	for i := max(t.off, hdrData+8); i < min(t.off+int64(len(p)), fileHeader, t.start); i++ {
		if i < hdrData+16 || i >= hdrFeatures {
			p[i-t.off] = 0
		}
	}
}

// look looks how many whole records there are, and whether perf has ended.
func (t *Tail) look() (ended bool, err error) {
	head, err := t.read(0, fileHeader)
	if err != nil || len(head) < pipeHeader || t.r.endian.u64(head) == 0 {
		return false, err // perf writes the header behind the attrs
	}
	size, err := t.r.readMagic(head)
	if err != nil {
		return false, err
	}
	start, end := int64(pipeHeader), int64(0)
	if !t.r.pipe {
		if size > uint64(len(head)) {
			return false, nil
		}
		h, err := t.r.readFileHeader(head, size)
		if err != nil {
			return false, err
		}
		if h.data.offset > maxHead || h.data.offset < size {
			return false, t.r.headerErr(hdrData, ErrUnsupported, "records that begin at %d", h.data.offset)
		}
		start = int64(h.data.offset)
		if h.data.size > 1<<62 {
			return false, t.r.headerErr(hdrData+8, ErrMalformed, "%d bytes of records", h.data.size)
		}
		if h.data.size > 0 {
			end = start + int64(h.data.size)
			if !t.began {
				t.plain = true
				return false, nil
			}
		}
	}
	t.began = true
	if t.start == 0 {
		if there, err := t.has(start); !there || err != nil {
			return false, err
		}
		t.start, t.limit = start, start
	}
	if end != 0 && t.limit >= end {
		return true, nil
	}
	before := t.limit
	if err := t.frame(end); err != nil {
		return false, err
	}
	if end != 0 && t.limit == before {
		t.limit = end // there is no whole record here; the reader will report it
	}
	return false, nil
}

// handOver moves the limit to the end of the file. The error is io.EOF where
// nothing is left.
func (t *Tail) handOver() error {
	size := t.limit
	for {
		b, err := t.read(size, len(t.buf))
		switch {
		case err != nil:
			return err
		case len(b) == 0 && size == t.limit:
			return io.EOF
		case len(b) == 0:
			t.limit = size
			return nil
		}
		size += int64(len(b))
	}
}

// frame moves the limit over whole records, up to end where that is known.
func (t *Tail) frame(end int64) error {
	b, err := t.read(t.limit, len(t.buf))
	if err != nil {
		return err
	}
	if end != 0 {
		b = b[:min(int64(len(b)), end-t.limit)]
	}
	for len(b) >= headerSize {
		h := t.r.endian.header(b)
		if h.size < headerSize {
			// Features are here, and the header has not been written yet that
			// says so; or a hole, if perf writes at several places at once (--aio).
			first := t.r.endian.u64(b)
			t.stuck = first != 0 && first != uint64(t.limit)+uint64(tableSize(t.r.head.bitmap))
			return nil
		}
		size, follows, err := t.r.endian.frame(h, b)
		if err != nil {
			t.stuck = !errors.Is(err.Err, ErrTruncated) || !h.isPlausible() && !h.mayBeUnknown()
			return nil
		}
		if t.stuck = follows > 1<<62; t.stuck {
			return nil
		}
		next := t.limit + int64(size) + int64(follows)
		if follows > 0 {
			if there, err := t.has(next); !there || err != nil {
				return err
			}
			t.limit = next
			return nil // what comes after is not in b
		}
		t.limit, b = next, b[size:]
	}
	return nil
}

// read returns up to n bytes at off, fewer where the file ends.
func (t *Tail) read(off int64, n int) ([]byte, error) {
	k, err := t.f.ReadAt(t.buf[:n], off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return t.buf[:k], err
}

// has reports whether the file has at least n bytes.
func (t *Tail) has(n int64) (bool, error) {
	var b [1]byte
	k, err := t.f.ReadAt(b[:], n-1)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return k == 1, err
}
