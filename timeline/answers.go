// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"iter"
	"slices"
)

// Answers yields all answers that the image can give, by address: the versions of each range of
// addresses over which every fact is uniform. It is for programs that copy an image.
func (im *Image) Answers() iter.Seq[RangeAnswers] {
	return func(yield func(RangeAnswers) bool) {
		for i := range im.fragments {
			if !yield(RangeAnswers{im, &im.fragments[i]}) {
				return
			}
		}
	}
}

// RangeAnswers are the answers for a range of addresses, by time. Each is a version, from 0 on.
type RangeAnswers struct {
	im *Image
	f  *fragment
}

// Range returns the address of the range and its length.
func (r RangeAnswers) Range() (addr, n uint64) { return r.f.addr, uint64(r.f.size) }

// Len returns how many versions there are, at least one.
func (r RangeAnswers) Len() int { return int(r.f.count) }

// Version returns from when until when version k holds, and the number of its state: versions of
// this range with the same number differ in nothing but their times. The first version holds from
// 0 on, the last one until [MaxTime]. It takes less time than Span.
func (r RangeAnswers) Version(k int) (v Validity, state int) {
	t, h := &r.im.tables, &r.f.versions
	i, j := h.leaf+uint32(k)/leafSize, uint32(k)%leafSize
	l := &t.leaves[i]
	v = Validity{Until: MaxTime}
	if k > 0 {
		v.Since = l.since[j]
	}
	switch {
	case j+1 < leafSize:
		v.Until = l.since[j+1]
	case uint32(k)+1 < h.count:
		v.Until = t.leaves[i+1].since[0]
	}
	states := t.states[h.states].states
	if states == uint8(ownState) {
		return v, k
	}
	return v, min(int(l.code[j]), int(states)-1)
}

// Span returns version k.
func (r RangeAnswers) Span(k int) Span {
	s := r.im.span(r.f, r.im.version(&r.f.versions, uint32(k)), 0, uint64(r.f.size))
	if k == 0 {
		s.Since = 0 // the version holds before, too: see tables.at
	}
	return s
}

// Unpatched yields the answers for core kernel text that was never changed, by time. The
// spans have no addresses and no bytes. There are none if the image has no such text.
func (im *Image) Unpatched() iter.Seq[Span] {
	return func(yield func(Span) bool) {
		for k := range im.unpatched.count {
			v := im.version(&im.unpatched, k)
			if k == 0 {
				v.since = 0
			}
			if !yield(Span{Standing: v.standing, Reason: v.reason, Source: v.source, Since: v.since, Until: v.until}) {
				return
			}
		}
	}
}

// Proven yields the in-place pokes in the order of time, each with the interval in which a
// CPU may meet its trap: Window.Proven of [Windows.At]. It takes linear time.
//
// A *InPlacePoke is valid until the windows are closed, and must not be changed.
func (w *Windows) Proven() iter.Seq2[*InPlacePoke, Interval] {
	return func(yield func(*InPlacePoke, Interval) bool) {
		all := w
		if w.indexed != nil && !w.indexed.whole() {
			all = w.indexed.again()
		}
		for i, proven := range all.allProven() {
			if !yield(&all.pokes[i], proven) {
				return
			}
		}
	}
}

// ProvenWindows yields what [Windows.Proven] does, with the index of each poke, without a list of the
// pokes. times has the times of all pokes and ascends: no two are of one time. poke returns the k-th of
// them, whose time and task do not count, and the task; it returns nil for a poke that was not made in
// place, and so has no window. idle and skew are those of [NewWindows] and [Windows.Widen]. It is for
// x86: where instructions are words, windows differ.
func ProvenWindows(times []uint64, poke func(k int) (p *InPlacePoke, tid uint32), idle []IdleMoment, skew uint64) iter.Seq2[int, Interval] {
	idle = slices.Clone(idle)
	slices.SortFunc(idle, IdleMoment.compare)
	return func(yield func(int, Interval) bool) {
		n := narrower{w: &Windows{idle: slices.Compact(idle), skew: skew}}
		at := 0
		var p *InPlacePoke // the first one in place from at on, nil if there is none
		var tid uint32
		next := func() {
			for p = nil; at < len(times); at++ {
				if p, tid = poke(at); p != nil {
					return
				}
			}
		}
		next()
		around := Interval{0, MaxTime} // the run
		var run []uint32               // pokes that could be of one batch, but for their number
		for p != nil {
			first := InPlacePoke{Addr: p.Addr, TID: tid, Kind: p.Kind}
			for run = run[:0]; ; {
				run = append(run, uint32(at))
				last := p
				at++
				if next(); p == nil || tid != first.TID || !couldFollow(last, p) {
					break
				}
			}
			if around.To = MaxTime; p != nil {
				around.To = times[at]
			}
			for i, k := range run {
				proven := around
				if before := i - maxBatch; before >= 0 {
					proven.From = times[run[before]]
				}
				if behind := i + maxBatch; behind < len(run) {
					proven.To = times[run[behind]]
				}
				// All pokes of a run are of one task and one kind.
				first.Time = times[k]
				if !yield(int(k), n.narrow(&first, proven)) {
					return
				}
			}
			around.From = times[run[len(run)-1]]
		}
	}
}
