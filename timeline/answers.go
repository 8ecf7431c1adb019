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
	var code stateCode
	if v.Since, v.Until, code = t.stored(h, uint32(k)); k == 0 {
		v.Since = 0
	}
	states := t.states[h.states].states
	if states == uint8(ownState) {
		return v, k
	}
	return v, min(int(code), int(states)-1)
}

// Line returns version k, which is not the first, and those after it, as far as they are stored together:
// from when each holds, and until when the last one does. since is appended to room[:0]. states are the
// numbers of their states, as those of Version; nil if no two versions of the range have the same. It takes
// less time than Version for each.
func (r RangeAnswers) Line(k int, room []uint64) (since []uint64, until uint64, states []uint8) {
	t, h := &r.im.tables, &r.f.versions
	i, j := h.place(uint32(k))
	l := &t.leaves[i]
	n := min(h.count-uint32(k), h.perLeaf()-j)
	since, until = room[:0], MaxTime
	if uint32(k)+n < h.count {
		until = t.leaves[i+1].since[0] // of a dense leaf, since is in the same place
	}
	codes := l.code[:]
	if h.areDense() {
		d := l.dense()
		codes = d.code[:]
		for m := j; m < j+n; m++ {
			since = append(since, d.time(m))
		}
	} else {
		since = append(since, l.since[j:][:n]...)
	}
	if t.states[h.states].states != uint8(ownState) {
		states = codes[j:][:n]
	}
	return since, until, states
}

// Brief returns the standing of version k, the reason and the bytes, as Span does, in less time. plain
// is false if the version has candidates; then bytes is nil.
func (r RangeAnswers) Brief(k int) (standing Standing, reason Reason, bytes []byte, plain bool) {
	t, h := &r.im.tables, &r.f.versions
	_, _, code := t.stored(h, uint32(k))
	s := min(uint32(code), uint32(t.states[h.states].states)-1)
	if t.states[h.states].states == uint8(ownState) {
		s = uint32(k)
	}
	v := &t.states[h.states+s]
	switch {
	case v.standing == Conflicting || v.standing == InFlight:
		return v.standing, v.reason, nil, false
	case v.standing.HasBytes():
		bytes = r.im.contentBytes(r.f, v.content)
	}
	return v.standing, v.reason, bytes, true
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

// PlainPokes are text pokes in the order of time, of which no two are of one time.
type PlainPokes struct {
	Times []uint64
	Form  []uint32      // of each: index in Forms
	Forms []InPlacePoke // what pokes have but for their time and task. That of a poke not in place has only its kind
	// Task returns the task that made the k-th poke, and up to which poke it made all.
	Task func(k int) (tid uint32, end int)
}

// Proven returns a function that sets windows to the intervals of [Windows.Proven] for as many pokes: the
// first ones, and those that follow with each further call. Of a poke that is not in place it is empty.
// idle and skew are those of [NewWindows] and [Windows.Widen]. It is for x86: where instructions are words,
// windows differ.
func (p *PlainPokes) Proven(idle []IdleMoment, skew uint64) (next func(windows []Interval)) {
	idle = slices.Clone(idle)
	slices.SortFunc(idle, IdleMoment.compare)
	w := &plainWindows{PlainPokes: p, n: narrower{w: &Windows{idle: slices.Compact(idle), skew: skew}}, around: Interval{0, MaxTime}}
	return w.next
}

// plainWindows derives the windows of plain pokes, a run at a time.
type plainWindows struct {
	*PlainPokes
	n       narrower
	done    int // how many pokes have got their windows
	at      int // the first poke that was not looked at, or the one behind the run
	tid     uint32
	taskEnd int
	run     []uint32    // pokes that could be of one batch, but for their number
	inRun   int         // how many of them have got their windows
	first   InPlacePoke // of the run. All are of one task and one kind
	around  Interval    // the run
	isPlain bool        // what narrow does to windows of the run depends on idle moments alone
}

func (w *plainWindows) next(windows []Interval) {
	lo, hi := w.done, w.done+len(windows)
	w.done = hi
	clear(windows)
	for {
		for ; w.inRun < len(w.run); w.inRun++ {
			k := int(w.run[w.inRun])
			if k >= hi {
				return
			}
			t, proven := w.Times[k], w.around
			if before := w.inRun - maxBatch; before >= 0 {
				proven.From = w.Times[w.run[before]]
			}
			if behind := w.inRun + maxBatch; behind < len(w.run) {
				proven.To = w.Times[w.run[behind]]
			}
			if gap := &w.n.gap; w.isPlain && gap.tid == w.first.TID && gap.From < t && t < gap.To { // as of nearly all
				windows[k-lo] = Interval{max(proven.From, gap.From), min(proven.To, gap.To)}
				continue
			}
			w.first.Time = t
			windows[k-lo] = w.n.narrow(&w.first, proven)
		}
		if !w.findRun() {
			return
		}
	}
}

// findRun finds the next run, if there is one.
func (w *plainWindows) findRun() bool {
	if n := len(w.run); n > 0 {
		w.around.From = w.Times[w.run[n-1]]
	}
	w.run, w.inRun = w.run[:0], 0
	var last *InPlacePoke
	for ; w.at < len(w.Form); w.at++ {
		p := &w.Forms[w.Form[w.at]]
		if !p.Kind.InPlace() {
			continue
		}
		if w.at >= w.taskEnd {
			w.tid, w.taskEnd = w.Task(w.at)
		}
		if last == nil {
			w.first = InPlacePoke{Addr: p.Addr, TID: w.tid, Kind: p.Kind}
		} else if w.tid != w.first.TID || !couldFollow(last, p) {
			break
		}
		w.run = append(w.run, uint32(w.at))
		last = p
	}
	if w.around.To = MaxTime; w.at < len(w.Times) {
		w.around.To = w.Times[w.at]
	}
	w.isPlain = w.first.Kind == PokeBatch && w.n.w.skew == 0
	return last != nil
}
