// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

// A reader that uses several CPUs looks at the records ahead of a Scanner, which stays the
// one that decides what is a record. Most records are of the kernel, and exactly as long
// as their content. The Scanner hands over such a record as it is, so whoever has
// recognised it with IsExact needs no Scanner for it:
//
//	rest := s.Rest()        // the records ahead, in memory
//	... IsExact(rest[:n])   // in any goroutine
//	s.Pass(n, n)            // as if Next had handed it over

// Rest returns the rest of the current file, which begins with the next record. It returns
// nil if the next record is not in the file as it is: it was compressed, or it comes from
// a stream. It aliases the recording's memory.
func (s *Scanner) Rest() []byte {
	if s.pending || s.inflate != nil || s.stream != nil || s.failed || s.file == s.lastOf {
		return nil
	}
	return s.buf[s.off:]
}

// Pass goes behind records of the kernel that are exact, see [Recording.IsExact]: the next
// n bytes of [Scanner.Rest]. The last record of them has last bytes. Record does not
// return them.
func (s *Scanner) Pass(n, last int) {
	s.off += n
	s.prev = s.base + int64(s.off-last)
}

// IsExact reports whether raw is a record of the kernel whose header and content agree about
// its size. A [Scanner] that comes to raw then hands it over unchanged. IsExact is safe for concurrent
// use.
func (r *Recording) IsExact(raw []byte) bool {
	if len(raw) < headerSize {
		return false
	}
	h := r.endian.header(raw)
	return h.size == len(raw) && h.size&7 == 0 && h.typ < firstUserRecord && r.isExact(h, raw)
}
