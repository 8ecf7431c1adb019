// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"iter"
	"math/bits"
)

// maxBatch is how many places text_poke_bp_batch writes at once at most
// (TP_VEC_MAX: a page of struct text_poke_loc).
const maxBatch = 256

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
func together(a, b *InPlacePoke) bool { return a.TID == b.TID && couldFollow(a, b) }

// couldFollow is together for pokes of one task.
func couldFollow(a, b *InPlacePoke) bool {
	return a.Addr < b.Addr && a.Kind == PokeBatch && b.Kind == PokeBatch && (a.Flags|b.Flags)&PokeAlone == 0
}

// couldBeBatch returns the range of pokes that could be of the same batch as poke
// k. It takes a whole batch's room on either side of k: a cut where batches are
// full could be wrong, because lone pokes that happen to ascend would shift it.
func (w *Windows) couldBeBatch(k int) (lo, hi int) {
	lo, hi = k, k+1
	for lo > 0 && k-lo < maxBatch-1 && together(w.at(lo-1), w.at(lo)) {
		lo--
	}
	for hi < w.len() && hi-k < maxBatch && together(w.at(hi-1), w.at(hi)) {
		hi++
	}
	return lo, hi
}

// inOrder yields the pokes in the order of time, for which it is faster than at.
func (w *Windows) inOrder(yield func(*InPlacePoke) bool) {
	for _, r := range w.runs {
		for i := r.lo; i < r.hi; i++ {
			if !yield(&w.pokes[i]) {
				return
			}
		}
	}
}

// findBatches marks the first poke of each batch, and measures how long batches
// take.
func (w *Windows) findBatches() {
	var run []uint32 // indices of pokes that could be of one batch, whatever their number
	for _, r := range w.runs {
		for i := r.lo; i < r.hi; i++ {
			if len(run) > 0 && !together(&w.pokes[run[len(run)-1]], &w.pokes[i]) {
				w.cut(run)
				run = run[:0]
			}
			run = append(run, uint32(i))
		}
	}
	w.cut(run)
	w.slow = w.slowBatch()
}

// cut divides a run of pokes, which follow one another in address and time, into
// batches. run has their indices.
//
// A run of at most 256 is one batch. A longer one consists of full batches, the
// last one aside. Between two of them two steps of 256 stores each pass without
// a record, which takes far longer than from one record to the next. After 256
// places without such a pause, records are missing; then the longest pause among
// them is the end of the batch.
//
//	RRRRR...RRRR          RRRR...RRRRR          RRRR...
//	| 256 pokes |  pause  | 256 pokes |  pause  |
func (w *Windows) cut(run []uint32) {
	if len(run) == 0 {
		return
	}
	w.pokes[run[0]].Flags |= beginsBatch
	if len(run) <= maxBatch {
		return
	}
	step := func(i int) uint64 { return w.pokes[run[i]].Time - w.pokes[run[i-1]].Time }
	var steps durations
	for i := 1; i < len(run); i++ {
		steps.add(step(i))
	}
	pause := 64 * steps.longest(50)
	for len(run) > maxBatch {
		end := maxBatch
		if step(end) < pause {
			for i := 1; i < maxBatch; i++ {
				if step(i) > step(end) {
					end = i
				}
			}
		}
		run = run[end:]
		w.pokes[run[0]].Flags |= beginsBatch
	}
}

// step is the time from the poke before k to k.
func (w *Windows) step(k int) uint64 { return w.at(k).Time - w.at(k-1).Time }

// batch returns the range of pokes of the batch that poke k is in.
func (w *Windows) batch(k int) (lo, hi int) {
	lo, hi = k, k+1
	for lo > 0 && w.at(lo).Flags&beginsBatch == 0 && k-lo < maxBatch {
		lo--
	}
	for hi < w.len() && w.at(hi).Flags&beginsBatch == 0 && hi-k < maxBatch {
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
		all := w
		if w.indexed != nil && !w.indexed.whole() {
			all = w.indexed.again()
		}
		for p := range all.inOrder {
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
	// slowBatches times the time of a slow batch is the most that an estimate reaches
	// before the first record of its batch, and after the last.
	slowBatches = 8
	// slowTimes times that time, and n/2 mean steps from one record to the next, is the
	// most for a batch of n places, if that is less.
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
	return Interval{earlier(first, lead), Later(last, trail)}
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
	var times durations
	var last *InPlacePoke
	for p := range w.inOrder {
		if last != nil && p.Flags&beginsBatch != 0 && last.TID == p.TID {
			times.add(p.Time - last.Time)
		}
		last = p
	}
	return max(leastSlow, times.longest(99))
}

// durations counts times by their size: of each power of two, in 8 steps. That is
// exact enough, and needs no memory for each of them.
type durations struct {
	count [65 << durationSteps]int
	n     int
}

const durationSteps = 3

func (d *durations) add(t uint64) {
	n := bits.Len64(t)
	d.count[n<<durationSteps|int(t<<(64-n)<<1>>(64-durationSteps))]++
	d.n++
}

// longest returns a time that percent per cent of the times do not exceed. It is
// rounded up to the end of its step. It is 0 if there are no times, and at most
// mostSlow.
func (d *durations) longest(percent int) uint64 {
	rest := (d.n*(100-percent) + 99) / 100
	for b := len(d.count) - 1; b >= 0; b-- {
		if rest -= d.count[b]; rest >= 0 {
			continue
		}
		n, part := b>>durationSteps, uint64(b&(1<<durationSteps-1))
		if n <= durationSteps {
			return 1 << n
		}
		return min((1<<durationSteps+part+1)<<(n-1-durationSteps)-1, mostSlow)
	}
	return 0
}
