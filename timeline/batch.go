// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"iter"
	"math/bits"
	"slices"
)

// BatchMax is how many places text_poke_bp_batch writes at once at most
// (TP_VEC_MAX: a page of struct text_poke_loc).
const BatchMax = 256

// text_poke_bp_batch (arch/x86/kernel/alternative.c) writes up to 256 places in
// three steps. After each step it waits until every CPU has executed a
// serialising instruction. The records are written in the second step:
//
//	           1: INT3 into each   2: the rest of each, R its record   3: first byte of each
//	place a    |====================R===========================================|
//	place b     |==========================R=====================================|
//	place c      |================================R===============================|
//	           lead                                                       trail
//
// So the trap is at each place from before the first record of the batch until
// after the last one. No record says where a batch begins or ends. Two things
// are certain. The writer holds text_mutex, so a poke by another task, or one of
// another kind, is of another batch. And a batch is in the order of addresses,
// each of them once (tp_order_fail).

// together reports whether b, the next poke after a, could be of the same batch.
func together(a, b *InPlacePoke) bool {
	return a.TID == b.TID && a.Addr < b.Addr && a.Kind == PokeBatch && b.Kind == PokeBatch &&
		(a.Flags|b.Flags)&PokeAlone == 0
}

// couldBeBatch returns the range of pokes that could be of the same batch as poke
// k. It takes a whole batch's room on either side of k: a cut where batches are
// full could be wrong, because lone pokes that happen to ascend would shift it.
func (w *Windows) couldBeBatch(k int) (lo, hi int) {
	lo, hi = k, k+1
	for lo > 0 && k-lo < BatchMax-1 && together(w.at(lo-1), w.at(lo)) {
		lo--
	}
	for hi < w.len() && hi-k < BatchMax && together(w.at(hi-1), w.at(hi)) {
		hi++
	}
	return lo, hi
}

// findBatches marks the first poke of each batch, and measures how long batches
// take.
func (w *Windows) findBatches() {
	for lo := 0; lo < w.len(); {
		hi := lo + 1
		for hi < w.len() && together(w.at(hi-1), w.at(hi)) {
			hi++
		}
		w.cut(lo, hi)
		lo = hi
	}
	w.slow = w.slowBatch()
}

// cut divides [lo, hi), pokes that follow one another in address and time, into
// batches.
//
// A run of at most 256 is one batch. A longer one consists of full batches, the
// last one aside. Between two of them two steps of 256 stores each pass without
// a record, which takes far longer than from one record to the next. After 256
// places without such a pause, records are missing; then the longest pause among
// them is the end of the batch.
//
//	RRRRR...RRRR          RRRR...RRRRR          RRRR...
//	| 256 pokes |  pause  | 256 pokes |  pause  |
func (w *Windows) cut(lo, hi int) {
	if hi-lo <= BatchMax {
		w.at(lo).Flags |= beginsBatch
		return
	}
	steps := make([]uint64, 0, hi-lo)
	for k := lo + 1; k < hi; k++ {
		steps = append(steps, w.step(k))
	}
	slices.Sort(steps)
	pause := 64 * min(steps[len(steps)/2], mostSlow)
	for lo < hi {
		w.at(lo).Flags |= beginsBatch
		end := lo + BatchMax
		if end >= hi {
			return
		}
		if w.step(end) < pause {
			for k := lo + 1; k <= lo+BatchMax; k++ {
				if w.step(k) > w.step(end) {
					end = k
				}
			}
		}
		lo = end
	}
}

// step is the time from the poke before k to k.
func (w *Windows) step(k int) uint64 { return w.at(k).Time - w.at(k-1).Time }

// batch returns the range of pokes of the batch that poke k is in.
func (w *Windows) batch(k int) (lo, hi int) {
	lo, hi = k, k+1
	for lo > 0 && w.at(lo).Flags&beginsBatch == 0 && k-lo < BatchMax {
		lo--
	}
	for hi < w.len() && w.at(hi).Flags&beginsBatch == 0 && hi-k < BatchMax {
		hi++
	}
	return lo, hi
}

// Batches yields the in-place pokes in the order of time, each with whether it
// begins a batch: the places that the kernel seems to have written in one call
// of text_poke_bp_batch. A batch is a guess, made for reading, and proves nothing.
//
// A *InPlacePoke is valid until the windows are closed, and must not be changed.
func (w *Windows) Batches() iter.Seq2[*InPlacePoke, bool] {
	return func(yield func(*InPlacePoke, bool) bool) {
		for k := range w.len() {
			p := w.at(k)
			if !yield(p, p.Flags&beginsBatch != 0) {
				return
			}
		}
	}
}

// How far an estimate reaches before and after the records of its batch. The
// figures were fitted on four recordings whose CPUs were watched, and measured on
// others: docs/truth.md, `windows`.
const (
	leadShare  = 90 // per cent of the time since the poke before the batch
	trailShare = 80 // and of that to the poke after it
	// A batch of one place takes no longer than so many slow ones.
	slowBatches = 8
	// One of several places takes no longer on either side than half the time of
	// its records and so many slow ones.
	slowTimes = 6
	// leastSlow is longer than any round of IPIs on idle hardware, in ns.
	leastSlow = 50_000
	mostSlow  = 1 << 56 // two years: no product overflows
)

// estimate returns when CPUs are likely to meet the trap of poke k.
func (w *Windows) estimate(k int) Interval {
	lo, hi := w.batch(k)
	first, last := w.at(lo).Time, w.at(hi-1).Time
	most := slowBatches * w.slow
	if n := uint64(hi - lo); n > 1 {
		most = min(most, (last-first)/2/(n-1)*n+slowTimes*w.slow)
	}
	lead, trail := most, most
	if lo > 0 {
		lead = min(lead, share(w.step(lo), leadShare))
	}
	if hi < w.len() {
		trail = min(trail, share(w.step(hi), trailShare))
	}
	return Interval{earlier(first, lead), later(last, trail)}
}

// share returns percent of d.
func share(d, percent uint64) uint64 {
	hi, lo := bits.Mul64(d, percent)
	q, _ := bits.Div64(hi, lo, 100)
	return q
}

// slowBatch returns the time that 99 of 100 batches take at most, from the last
// record of the batch before, of the same task, to their own first one.
func (w *Windows) slowBatch() uint64 {
	// Of each power of two, 8 steps: the sum is exact enough, and needs no memory
	// for each batch.
	const steps = 3
	var count [65 << steps]int
	bucket := func(d uint64) int {
		n := bits.Len64(d)
		return n<<steps | int(d<<(64-n)<<1>>(64-steps))
	}
	all := 0
	for k := 1; k < w.len(); k++ {
		if p := w.at(k); p.Flags&beginsBatch != 0 && w.at(k-1).TID == p.TID {
			count[bucket(w.step(k))]++
			all++
		}
	}
	rest := (all + 99) / 100
	for b := len(count) - 1; b >= 0; b-- {
		if rest -= count[b]; rest < 0 {
			n := b >> steps
			if n <= steps {
				return leastSlow
			}
			return min(max(leastSlow, (uint64(1<<steps|b&(1<<steps-1))+1)<<(n-1-steps)-1), mostSlow)
		}
	}
	return leastSlow
}
