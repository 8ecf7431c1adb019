// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"cmp"
	"hash/maphash"
	"io"
	"slices"

	"github.com/textreplay/textreplay/timeline"
)

// A gap is a row of the table of gaps. A recording that contradicts itself may have millions of them, with
// few answers, so a gap has the number of its answer only.
type gap struct {
	offset, length int64
	since, until   int64
	answer         uint32 // in gapList.answers
}

// A gapAnswer is what a gap says.
type gapAnswer struct {
	gapKind
	owned      bool // it is of one gap, and its bytes are a copy: more may be appended
	bytes      []byte
	candidates [][]byte // of one in flight, the first is what was before, the last what is after
}

// A gapKind is what neighbours must have in common to become one row. Those with candidates do not.
type gapKind struct {
	everywhere    bool
	standing      timeline.Standing
	reason        timeline.Reason
	source        timeline.Source
	hasBytes      bool
	hasCandidates bool
}

// A gapList is the gaps of a recording. They are added range by range. Neighbours with the same time and kind
// are joined at once, as far as the ranges come in the order of addresses: a recording with much code that
// overlaps has millions of them, and thousands when they are joined.
type gapList struct {
	gaps       []gap
	everywhere int // how many of these, the first ones, are of all addresses
	answers    []gapAnswer
	numbers    map[uint64]uint32 // of answers that are not owned, by their hash
	hash       maphash.Hash

	now          []gap           // of the range that is being added
	open, opened map[openGap]int // those that end where the last range does, and where this one does, in gaps
	end          int64           // of the last range
}

// An openGap is what a neighbour must have to be joined with a gap.
type openGap struct {
	since, until int64
	kind         gapKind
}

// number returns the number of an answer, which it adds if it is new. It keeps the slices.
func (l *gapList) number(a *gapAnswer) uint32 {
	if n := len(l.now); n > 0 && l.is(l.now[n-1].answer, a) {
		return l.now[n-1].answer
	}
	l.hash.Reset()
	maphash.WriteComparable(&l.hash, a.gapKind)
	_, _ = l.hash.Write(a.bytes) // never fails
	for _, c := range a.candidates {
		maphash.WriteComparable(&l.hash, len(c))
		_, _ = l.hash.Write(c)
	}
	sum := l.hash.Sum64()
	if k, ok := l.numbers[sum]; ok && l.is(k, a) {
		return k
	}
	k := uint32(len(l.answers))
	l.answers = append(l.answers, *a)
	if l.numbers == nil {
		l.numbers = make(map[uint64]uint32)
	}
	l.numbers[sum] = k
	return k
}

// is reports whether k is the number of a.
func (l *gapList) is(k uint32, a *gapAnswer) bool {
	o := &l.answers[k]
	return o.gapKind == a.gapKind && bytes.Equal(o.bytes, a.bytes) && slices.EqualFunc(o.candidates, a.candidates, bytes.Equal)
}

// add adds a gap of the range, or makes the last one longer.
func (l *gapList) add(g gap) {
	if n := len(l.now); n > 0 {
		last := &l.now[n-1]
		if last.until == g.since && last.answer == g.answer && !l.answers[g.answer].hasCandidates {
			last.until = g.until
			return
		}
	}
	l.now = append(l.now, g)
}

// endRange ends the range [offset, offset+length), whose gaps were added.
func (l *gapList) endRange(offset, length int64) {
	if len(l.now) == 0 {
		return // no gap ends where the next range begins
	}
	if l.open == nil {
		l.open, l.opened = make(map[openGap]int), make(map[openGap]int)
	}
	if l.end != offset {
		clear(l.open)
	}
	for i := range l.now {
		g := &l.now[i]
		a := &l.answers[g.answer]
		key := openGap{g.since, g.until, a.gapKind}
		k, ok := l.open[key]
		if ok && !a.hasCandidates {
			l.lengthen(&l.gaps[k], g)
		} else {
			k = len(l.gaps)
			l.gaps = append(l.gaps, *g)
		}
		l.opened[key] = k
	}
	l.now, l.end = l.now[:0], offset+length
	l.open, l.opened = l.opened, l.open
	clear(l.opened)
}

// lengthen appends a neighbour to a gap.
func (l *gapList) lengthen(to, g *gap) {
	to.length += g.length
	more := l.answers[g.answer].bytes
	if more == nil {
		return
	}
	if a := l.answers[to.answer]; !a.owned {
		a.bytes, a.owned = slices.Clone(a.bytes), true
		to.answer = uint32(len(l.answers))
		l.answers = append(l.answers, a)
	}
	a := &l.answers[to.answer]
	a.bytes = append(a.bytes, more...)
}

// join joins the neighbours that were not added in the order of addresses. The gaps are by address and time
// then.
func (l *gapList) join() {
	all := l.gaps[l.everywhere:]
	slices.SortFunc(all, func(a, b gap) int {
		return cmp.Or(cmp.Compare(a.since, b.since), cmp.Compare(a.until, b.until), cmp.Compare(a.offset, b.offset))
	})
	n := 0
	for _, g := range all {
		if n > 0 {
			if last := &all[n-1]; last.since == g.since && last.until == g.until && last.offset+last.length == g.offset && l.alike(last, &g) {
				l.lengthen(last, &g)
				continue
			}
		}
		all[n] = g
		n++
	}
	l.gaps = l.gaps[:l.everywhere+n]
	slices.SortFunc(all[:n], func(a, b gap) int {
		return cmp.Or(cmp.Compare(a.offset, b.offset), cmp.Compare(a.since, b.since))
	})
}

// alike reports whether two gaps differ at most in place, time and bytes.
func (l *gapList) alike(a, b *gap) bool {
	x, y := &l.answers[a.answer], &l.answers[b.answer]
	return x.gapKind == y.gapKind && !x.hasCandidates
}

// row returns the i-th row, of a recording.
func (l *gapList) row(i int, recording string) gapRow {
	g := &l.gaps[i]
	a := &l.answers[g.answer]
	row := gapRow{Recording: recording, Everywhere: a.everywhere, Offset: g.offset, Length: g.length, Since: g.since, Until: g.until,
		Standing: a.standing.String(), Reason: a.reason.String(), Source: a.source.String(), Bytes: a.bytes, Candidates: a.candidates}
	if a.standing == timeline.InFlight {
		row.Before, row.After = a.candidates[0], a.bytes
	}
	return row
}

// gapsAtOnce is how many rows are made for the writer at once.
const gapsAtOnce = 1 << 12

// writeGaps writes the table of gaps.
func (s *source) writeGaps(w io.Writer) (int64, error) {
	l := newDeriver(s.r, s.pokes).gaps(s.r, s.base)
	out := newWriter[gapRow](w, len(l.gaps))
	rows := make([]gapRow, 0, min(len(l.gaps), gapsAtOnce))
	for i := range l.gaps {
		if rows = append(rows, l.row(i, s.id)); len(rows) == cap(rows) || i == len(l.gaps)-1 {
			if err := writeAlike(out, rows); err != nil {
				return 0, err
			}
			rows = rows[:0]
		}
	}
	return int64(len(l.gaps)), out.Close()
}
