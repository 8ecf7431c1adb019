// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

// A Tail is an [io.Reader] for [NewReader]. It reads a recording that perf record is
// still writing to a file. It returns whole records only, waits if there are no more
// yet, and ends where the recording ends. At damage it waits until the recording has
// ended, and then returns everything else: until then, damaged bytes look like bytes
// that perf has not written yet.
//
// perf writes the length of the records and the features of the recording when it ends
// (perf_session__write_header of tools/perf/util/header.c). So a Tail returns neither;
// [Open] reads them afterwards. If the recording is already complete, a Tail returns
// everything.
//
// perf only appends to the file, but for the header. If the file was cut or written anew, what was
// read before and what follows may be of two recordings. Then a Tail ends with a [*ChangedError].
//
// A Tail serves one goroutine.
type Tail struct {
	f    io.ReaderAt
	wait func() error

	began bool
	plain bool // the recording was complete when the Tail began: Read returns it unchanged
	r     Recording
	start int64 // of the records; 0 while the header is not there
	off   int64 // offset of the next byte to return
	limit int64 // end of the whole records so far
	stuck bool  // what follows the limit is not a record
	buf   []byte

	head   []byte // the header, without what perf changes
	before []byte // the last bytes before the limit
}

// NewTail returns a Tail of the file f. The Tail calls wait when it has returned all
// records of the file. Wait returns nil when the Tail should read the file again. If no more
// records will come, it returns an error: io.EOF after perf was killed.
func NewTail(f io.ReaderAt, wait func() error) *Tail {
	return &Tail{f: f, wait: wait, buf: make([]byte, 1<<17)}
}

// Read reads what perf has written. Its errors are those of the file and of wait,
// a [*FormatError] if the file is not a recording, and a [*ChangedError].
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
	if !t.plain {
		if n > 0 {
			err = nil
		} else if errors.Is(err, io.EOF) {
			err = t.changed()
		}
		t.hide(p[:n])
	}
	t.off += int64(n)
	return n, err
}

// hide clears the length of the records and the features in the part of the header that
// p holds. perf may have written them after it began with the records.
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

// changed is the error of a file that is not what it was.
func (t *Tail) changed() error {
	err := &ChangedError{Path: "the recording"}
	if f, ok := t.f.(interface{ Name() string }); ok {
		err.Path = f.Name()
	}
	return err
}

// constant returns the part of a header that perf does not change.
func (t *Tail) constant(head []byte) []byte {
	if t.r.pipe {
		return head[:pipeHeader]
	}
	return slices.Concat(head[:hdrData+8], head[hdrData+16:hdrFeatures])
}

// check returns a *ChangedError if the file does not begin as it did, or has other bytes before the
// limit.
func (t *Tail) check() error {
	if !t.began {
		return nil
	}
	head, err := t.read(0, fileHeader)
	if err != nil {
		return err
	}
	if !t.r.pipe && len(head) < fileHeader || len(head) < pipeHeader || !bytes.Equal(t.constant(head), t.head) {
		return t.changed()
	}
	before, err := t.read(t.limit-int64(len(t.before)), len(t.before))
	if err == nil && !bytes.Equal(before, t.before) {
		err = t.changed()
	}
	return err
}

// remember notes the last bytes before the limit, for check.
func (t *Tail) remember() error {
	n := min(t.limit-t.start, beforeLimit)
	before, err := t.read(t.limit-n, int(n))
	t.before = append(t.before[:0], before...)
	return err
}

// beforeLimit is how many bytes before the limit show that a file is still the same recording: two
// records of different recordings have different times.
const beforeLimit = 256

// look finds how many whole records there are, and whether perf has ended.
func (t *Tail) look() (ended bool, err error) {
	if err := t.check(); err != nil {
		return false, err
	}
	head, err := t.read(0, fileHeader)
	if err != nil || len(head) < pipeHeader || t.r.endian.u64(head) == 0 {
		return false, err // perf writes the header after the attrs
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
	if !t.began {
		t.began, t.head = true, bytes.Clone(t.constant(head))
	}
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
	if t.limit != before {
		return false, t.remember()
	}
	return false, nil
}

// handOver moves the limit to the end of the file. The error is io.EOF if nothing is
// left.
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
			return t.remember()
		}
		size += int64(len(b))
	}
}

// frame moves the limit over whole records, up to end if that is known.
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
			// These are features, and perf has not updated the header yet. Or this is a
			// hole, because perf writes at several places at once (--aio).
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

// read returns up to n bytes at off, fewer at the end of the file.
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
