// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"hash/crc32"
	"slices"
	"sync"
	"sync/atomic"
)

// EncodedWindows are windows as plain memory, see [Encoded].
type EncodedWindows struct {
	Pokes []byte // the in-place pokes, in blocks with a checksum each
	Sums  []byte // CRC-32 of each block, as of IEEE 802.3
	// Stretches are the runs of pokes that follow one another in time: begin and
	// end in the order of Pokes, and the place of the first in the order of time.
	Stretches [][3]int
}

// Encode returns the windows as plain memory; ok is false where instructions
// are words, whose windows are not encoded. The memory of Pokes is that of w.
func (w *Windows) Encode() (e EncodedWindows, ok bool) {
	if w.words != nil {
		return e, false
	}
	e.Pokes, e.Sums = raw(w.pokes), raw(windowSums(w.pokes))
	for _, s := range w.runs {
		e.Stretches = append(e.Stretches, [3]int{s.lo, s.hi, s.from})
	}
	return e, true
}

// DecodeWindows makes windows of what [Windows.Encode] returned, in place. The
// checksum of a block is looked at when the block is first met; if it is wrong,
// again is called once, and must return the windows made anew. Errors wrap
// [ErrInvalid].
func DecodeWindows(e EncodedWindows, again func() *Windows) (*Windows, error) {
	pokes, err := cast[InPlacePoke](e.Pokes)
	if err != nil {
		return nil, err
	}
	sums, err := cast[uint32](e.Sums)
	if err != nil {
		return nil, err
	}
	if len(sums) != (len(pokes)+windowBlock-1)/windowBlock {
		return nil, invalidf("the windows are cut off")
	}
	w := &Windows{pokes: pokes}
	from := 0
	for _, s := range e.Stretches {
		if s[0] < 0 || s[1] <= s[0] || s[1] > len(pokes) || s[2] != from {
			return nil, invalidf("the windows are in no order")
		}
		w.runs = append(w.runs, sortedRun{s[0], s[1], s[2]})
		from += s[1] - s[0]
	}
	if from != len(pokes) {
		return nil, invalidf("the windows are in no order")
	}
	w.indexed = &indexedWindows{pokes: pokes, sums: sums, good: make([]atomic.Bool, len(sums)), again: sync.OnceValue(again)}
	return w, nil
}

// indexedWindows are decoded windows. The checksum of each block of them is
// looked at when it is first met.
type indexedWindows struct {
	pokes   []InPlacePoke
	sums    []uint32 // CRC-32 of each block
	good    []atomic.Bool
	damaged atomic.Bool
	again   func() *Windows // made anew
}

// windowBlock is how many pokes have a checksum of their own.
const windowBlock = 1 << 10

// windowSums returns the checksums of the blocks.
func windowSums(pokes []InPlacePoke) (sums []uint32) {
	for block := range slices.Chunk(pokes, windowBlock) {
		sums = append(sums, crc32.ChecksumIEEE(raw(block)))
	}
	return sums
}

// check looks at the block that the i-th poke is in.
func (x *indexedWindows) check(i int) {
	b := i / windowBlock
	if x.good[b].Load() {
		return
	}
	block := x.pokes[b*windowBlock : min((b+1)*windowBlock, len(x.pokes))]
	unknown := func(p InPlacePoke) bool { return int(p.Kind) >= len(pokeKinds) }
	if crc32.ChecksumIEEE(raw(block)) != x.sums[b] || slices.ContainsFunc(block, unknown) {
		x.damaged.Store(true)
		return
	}
	x.good[b].Store(true)
}
