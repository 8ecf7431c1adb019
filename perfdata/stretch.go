// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"io"
)

// A reader that uses several CPUs reads records ahead of a Scanner. The Scanner decides what
// is a record. But most records are the kernel's, and exactly as long as their content. The
// Scanner returns such records unchanged, so a goroutine that recognizes one with IsExact does
// not need the Scanner for it:
//
//	rest := s.Rest()        // the records ahead, in memory
//	... IsExact(rest[:n])   // in any goroutine
//	s.Pass(n, n)            // as if Next had handed it over
//
// Records that were compressed are in no file. Inside hands over many of them at once.

// Rest returns the rest of the current file, which begins with the next record. It returns
// nil if the next record is not in the file as it is: it was compressed, or it comes from
// a stream. It aliases the recording's memory.
func (s *Scanner) Rest() []byte {
	if s.pending || s.inflate != nil || s.stream != nil || s.failed || s.file == s.lastOf {
		return nil
	}
	return s.buf[s.off:]
}

// RestReader returns a reader of the bytes of [Scanner.Rest] as they are now; offset 0 is that of the
// next record. It reads a mapped file itself, without touching the mapping: where many bytes are used
// once, that takes less time. It returns nil if Rest does. It is safe for concurrent use until
// [Recording.Close].
func (s *Scanner) RestReader() io.ReaderAt {
	rest := s.Rest()
	if rest == nil {
		return nil
	}
	if f := s.r.files[s.file].file; f != nil && f.Mapped() {
		return io.NewSectionReader(f, int64(s.off), int64(len(rest)))
	}
	return bytes.NewReader(rest)
}

// Pass skips the next n bytes of [Scanner.Rest], which must be whole records for which
// [Recording.IsExact] returns true. The last of these records has last bytes.
// [Scanner.Record] does not return them.
func (s *Scanner) Pass(n, last int) {
	s.off += n
	s.prev = s.base + int64(s.off-last)
}

// Inside appends to room records that follow the current one and were compressed in the same COMPRESSED
// or COMPRESSED2 record: whole records, one behind the other, which [Scanner.Next] would hand over next;
// it passes them. It appends nothing if there are no more, and if the current record is not the COMPRESSED
// one or one inside it. What it appends at a time is at most 192 KiB, so it is called again for the rest.
// [Only] has no effect on it. [Scanner.Record] stays what it was, with Raw no longer valid if that was
// compressed. Offset and File of these records are those of the COMPRESSED one.
func (s *Scanner) Inside(room []byte) []byte {
	for had := len(room); s.inside && s.rejoin == nil && len(room) == had; {
		var err error
		if room, err = s.inflate.appendNext(room); err != nil {
			s.failInside(err)
		} else if len(room) == had {
			s.inside = false
		}
		s.pending = s.inside
		s.repeated = s.repeated || len(room) > had // a later error is about this record
	}
	return room
}

// IsExact reports whether raw is a record of the kernel whose header and content agree about
// its size. A [Scanner] returns such a record unchanged. IsExact is safe for concurrent use.
func (r *Recording) IsExact(raw []byte) bool {
	if len(raw) < headerSize {
		return false
	}
	h := r.endian.header(raw)
	return h.size == len(raw) && h.size&7 == 0 && h.typ < firstUserRecord && r.isExact(h, raw)
}
