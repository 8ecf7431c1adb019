// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"cmp"
	"container/heap"
	"encoding/binary"
	"math/bits"
	"slices"
)

// A row is what all samples of one stack, one set of labels and one event add up to.
type row struct {
	stack, labels uint32
	event         uint32 // index of the value's column
	count         uint64 // samples; 0 marks a free slot of a tally
	sum           uint64 // of their periods
}

// compare orders rows by stack, labels and event.
func (r *row) compare(s *row) int {
	a, b := uint64(r.stack)<<32|uint64(r.labels), uint64(s.stack)<<32|uint64(s.labels)
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return cmp.Compare(r.event, s.event)
}

// The least and the most rows of a tally's table, which grows to 32 MiB. Rows that recur are
// added up in the table. A row that comes again after the table was packed takes a few bytes
// more in the next run.
const (
	tallyLeast = 1 << 10
	tallyMost  = 1 << 20
)

// A tally adds samples up by row. However many different rows there are, it
// holds one table of them; when that is full it is packed into a run, sorted,
// of some ten bytes a row. The runs are merged at the end.
type tally struct {
	table []row
	used  int
	most  int // rows that the table may have
	runs  [][]byte
}

func newTally(most int) tally {
	return tally{table: make([]row, min(tallyLeast, most)), most: most}
}

func (t *tally) add(stack, labels, event uint32, period uint64) {
	r := t.slot(stack, labels, event)
	if r.count > 0 {
		r.count++
		r.sum += period
		return
	}
	*r = row{stack, labels, event, 1, period}
	if t.used++; t.used <= len(t.table)*3/4 {
		return
	}
	if len(t.table) == t.most {
		t.pack()
		return
	}
	old := t.table
	t.table = make([]row, 2*len(old))
	for i := range old {
		if r := &old[i]; r.count > 0 {
			*t.slot(r.stack, r.labels, r.event) = *r
		}
	}
}

// slot returns where the row is, or a free place for it.
func (t *tally) slot(stack, labels, event uint32) *row {
	h, l := bits.Mul64(uint64(stack)<<32|uint64(labels)^uint64(event)<<17, 0x9e3779b97f4a7c15)
	mask := uint64(len(t.table) - 1)
	for i := (h ^ l) & mask; ; i = (i + 1) & mask {
		r := &t.table[i]
		if r.count == 0 || r.stack == stack && r.labels == labels && r.event == event {
			return r
		}
	}
}

// pack makes a run of the table and empties it.
func (t *tally) pack() {
	rows := t.table[:0]
	for _, r := range t.table {
		if r.count > 0 {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b row) int { return a.compare(&b) })
	run := make([]byte, 0, 10*len(rows))
	var last row
	for i := range rows {
		r := &rows[i]
		// Rows are sorted by these numbers, so the differences are small.
		run = binary.AppendUvarint(run, uint64(r.stack-last.stack))
		if r.stack != last.stack {
			last.labels = 0
		}
		run = binary.AppendVarint(run, int64(r.labels)-int64(last.labels))
		run = binary.AppendUvarint(run, uint64(r.event))
		run = binary.AppendUvarint(run, r.count)
		run = binary.AppendUvarint(run, r.sum)
		last = *r
	}
	t.runs = append(t.runs, slices.Clip(run))
	clear(t.table)
	t.used = 0
}

// A runReader reads a run.
type runReader struct {
	rest []byte
	row  row
}

// next goes to the next row and reports whether there is one.
func (r *runReader) next() bool {
	if len(r.rest) == 0 {
		return false
	}
	number := func() uint64 {
		v, n := binary.Uvarint(r.rest)
		r.rest = r.rest[n:]
		return v
	}
	if step := uint32(number()); step != 0 {
		r.row.stack += step
		r.row.labels = 0
	}
	step, n := binary.Varint(r.rest)
	r.rest = r.rest[n:]
	r.row.labels = uint32(int64(r.row.labels) + step)
	r.row.event = uint32(number())
	r.row.count = number()
	r.row.sum = number()
	return true
}

// runHeap has the run with the least row on top.
type runHeap []*runReader

func (h runHeap) Len() int           { return len(h) }
func (h runHeap) Less(i, j int) bool { return h[i].row.compare(&h[j].row) < 0 }
func (h runHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *runHeap) Push(x any)        { *h = append(*h, x.(*runReader)) }
func (h *runHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// rows yields every row once, sorted. The tally is used up.
func (t *tally) rows(yield func(row) bool) {
	if t.used > 0 {
		t.pack()
	}
	t.table = nil
	var h runHeap
	for _, run := range t.runs {
		r := &runReader{rest: run}
		if r.next() {
			h = append(h, r)
		}
	}
	t.runs = nil
	heap.Init(&h)
	var sum row
	for len(h) > 0 {
		next := h[0].row
		if sum.count > 0 && sum.compare(&next) == 0 {
			sum.count += next.count
			sum.sum += next.sum
		} else {
			if sum.count > 0 && !yield(sum) {
				return
			}
			sum = next
		}
		if h[0].next() {
			heap.Fix(&h, 0)
		} else {
			heap.Pop(&h)
		}
	}
	if sum.count > 0 {
		yield(sum)
	}
}
