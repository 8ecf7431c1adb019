// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"hash/crc32"
	"slices"
	"sync"
	"sync/atomic"
)

// EncodedWindows is a [Windows] as plain memory, with the limits of [Encoded].
type EncodedWindows struct {
	Pokes []byte // the in-place pokes, in blocks with a checksum each
	Sums  []byte // the CRC-32 of each block (IEEE 802.3), 4 bytes in the machine's byte order
	// Stretches are the runs of pokes that are neighbours in the order of time as well:
	// begin and end in Pokes, and the index of the first in the order of time.
	Stretches [][3]int
	Slow      uint64 // how long a slow batch takes, in ns
	Idle      []byte // the idle moments
}

// Encode returns the windows as plain memory, which they share. ok is false for
// architectures whose instructions are words: their windows cannot be encoded.
func (w *Windows) Encode() (e EncodedWindows, ok bool) {
	if w.words != nil {
		return e, false
	}
	e.Pokes, e.Sums = raw(w.pokes), raw(windowSums(w.pokes))
	for _, s := range w.runs {
		e.Stretches = append(e.Stretches, [3]int{s.lo, s.hi, s.from})
	}
	e.Slow, e.Idle = w.slow, raw(w.idle)
	return e, true
}

// DecodeWindows makes windows of what [Windows.Encode] returned, and uses its memory in
// place. The windows check the checksum of a block when they first read the block. If one
// is wrong, they call again, once, from any goroutine that uses them. It must return the
// windows made from the recording. Errors wrap [ErrInvalid].
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
	idle, err := cast[IdleMoment](e.Idle)
	if err != nil {
		return nil, err
	}
	if !slices.IsSortedFunc(idle, IdleMoment.compare) {
		return nil, invalidf("the windows are in no order")
	}
	w := &Windows{pokes: pokes, idle: idle, slow: min(e.Slow, mostSlow)}
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

// indexedWindows are decoded windows.
type indexedWindows struct {
	pokes   []InPlacePoke
	sums    []uint32 // CRC-32 of each block
	good    []atomic.Bool
	damaged atomic.Bool
	again   func() *Windows // makes them from the recording
}

// windowBlock is how many pokes share a checksum.
const windowBlock = 1 << 10

// windowSums returns the checksums of the blocks.
func windowSums(pokes []InPlacePoke) (sums []uint32) {
	for block := range slices.Chunk(pokes, windowBlock) {
		sums = append(sums, crc32.ChecksumIEEE(raw(block)))
	}
	return sums
}

// check checks the block of the i-th poke, unless that was done before.
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

// whole checks all blocks, and reports whether each is as it was saved.
func (x *indexedWindows) whole() bool {
	for i := 0; i < len(x.pokes); i += windowBlock {
		x.check(i)
	}
	return !x.damaged.Load()
}
