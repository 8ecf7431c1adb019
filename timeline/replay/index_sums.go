// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"hash/crc32"
	"sync/atomic"

	"github.com/textreplay/textreplay/internal/mapfile"
	"github.com/textreplay/textreplay/timeline"
)

// sumBlock is how many bytes of the sections share a checksum. A question about one place reads
// some dozens of blocks of an index that may have many thousands.
const sumBlock = 16 << 10

// An indexBody is the sections of an index. A block of them is compared with its checksum before
// it is read for the first time. It is safe for concurrent use.
type indexBody struct {
	data []byte   // from the end of the header up to the checksums
	sums []uint32 // of each block
	good []atomic.Bool
}

// sumsOf returns the checksums of the blocks of a body, whose parts follow one another.
func sumsOf(parts [][]byte) (sums []uint32) {
	sum, left := uint32(0), sumBlock
	for _, p := range parts {
		for len(p) > 0 {
			n := min(left, len(p))
			sum = crc32.Update(sum, crc32.IEEETable, p[:n])
			p, left = p[n:], left-n
			if left == 0 {
				sums = append(sums, sum)
				sum, left = 0, sumBlock
			}
		}
	}
	if left < sumBlock {
		sums = append(sums, sum)
	}
	return sums
}

// sumsAhead is how many blocks are mapped at once where many are compared.
const sumsAhead = 64

// check reports whether the blocks that have the bytes [from, to) are as they were written.
func (b *indexBody) check(from, to int) bool {
	end := func(i int) int { return min((i+1)*sumBlock, len(b.data)) }
	mapped := 0 // up to here
	for i := from / sumBlock; i*sumBlock < to; i++ {
		if b.good[i].Load() {
			continue
		}
		if at := i * sumBlock; at >= mapped {
			mapped = end(min(i+sumsAhead-1, (to-1)/sumBlock))
			mapfile.Populate(b.data[at:mapped])
		}
		if crc32.ChecksumIEEE(b.data[i*sumBlock:end(i)]) != b.sums[i] {
			return false
		}
		b.good[i].Store(true)
	}
	return true
}

// A section is a section of an index in memory, and its place in the body.
type section struct {
	timeline.EncodedTable
	at   int
	body *indexBody
}

// check returns an error if the bytes [from, to) of the section are not as they were written.
func (s *section) check(from, to int) error {
	if !s.body.check(s.at+from, s.at+to) {
		return indexErrorf("a checksum is wrong")
	}
	return nil
}

// good is check for the whole section.
func (s *section) good() error { return s.check(0, len(s.Data)) }
