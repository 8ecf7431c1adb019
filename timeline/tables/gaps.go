// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"cmp"
	"slices"
	"sort"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A deriver derives answers from the pages and the changes. It serves one goroutine.
type deriver struct {
	p      *pokes
	by     sitesByAddress
	sorted []uint32 // the indices of the pokes, by address, then time
	from   int      // index of the first of by.reach that is greater than below
	below  uint64   // the start of the range of the last call of overlapping
	pages  []kcore.Segment
	common []timeline.Span // the answers for unpatched text: see Image.Unpatched
	near   []sitePoke      // the pokes that overlap the range, by time: see overlapping
	only   int             // the one site that near is of, in by.addrs; -1: none, or several
	agreed [2]agreement    // the last ones of the range
}

// A sitePoke is what gaps needs of a poke.
type sitePoke struct {
	time  uint64
	form  uint32 // in pokes.forms
	order uint32 // its index in pokes.times
}

func newDeriver(r *replay.Replay, p *pokes) *deriver {
	d := &deriver{p: p, common: slices.Collect(r.Image.Unpatched()), only: -1}
	d.by, d.sorted = p.bySite()
	d.pages = pagesOf(r)
	return d
}

// pagesOf returns the copy of text whose pages the tables have, by address. Each segment
// begins at a page.
func pagesOf(r *replay.Replay) []kcore.Segment {
	if r.Snapshot == nil || r.Snapshot.Core == nil {
		return nil
	}
	var out []kcore.Segment
	for _, s := range r.Snapshot.Core.Segments {
		skip := -s.Addr % pageSize
		if skip < uint64(len(s.Data)) {
			out = append(out, kcore.Segment{Addr: s.Addr + skip, Data: s.Data[skip:]})
		}
	}
	slices.SortFunc(out, func(a, b kcore.Segment) int { return cmp.Compare(a.Addr, b.Addr) })
	return out
}

// overlapping finds the pokes that overlap [lo, hi): d.near.
func (d *deriver) overlapping(lo, hi uint64) {
	by := &d.by
	if lo < d.below { // most calls come in the order of addresses
		d.from = sort.Search(len(by.reach), func(i int) bool { return by.reach[i] > lo })
	}
	for d.below = lo; d.from < len(by.reach) && by.reach[d.from] <= lo; {
		d.from++
	}
	first, end := d.from, d.from
	for end < len(by.addrs) && by.addrs[end] < hi {
		end++
	}
	// Nothing else may overlap a single site.
	only := -1
	if end == first+1 && by.least[first] > lo {
		only = first
		if only == d.only {
			return
		}
	}
	d.near, d.only = d.near[:0], only
	for _, i := range d.sorted[by.first[first]:by.first[end]] {
		q := sitePoke{d.p.times[i], d.p.form[i], i}
		if only >= 0 || d.p.end(&d.p.forms[q.form]) > lo {
			d.near = append(d.near, q)
		}
	}
	if only < 0 {
		slices.SortFunc(d.near, func(a, b sitePoke) int { return cmp.Compare(a.order, b.order) })
	}
}

// derived is the derived answer for a range.
type derived struct {
	is   bool   // there are bytes: one of these
	poke string // of a change
	page []byte // of a page
	// ambiguous is set if the tables do not decide: several changes of one time, or a range
	// that is not all derived in the same way.
	ambiguous bool
}

// equal reports whether b is the derived answer.
func (d *derived) equal(b []byte) bool {
	if d.page != nil {
		// The image has most of them from the same copy.
		same := len(d.page) == len(b) && len(b) > 0 && &d.page[0] == &b[0]
		return same || bytes.Equal(d.page, b)
	}
	return d.poke == string(b)
}

// at returns the derived answer for [lo, lo+n) at a time, after overlapping(lo, lo+n). next is
// the index in d.near of the first poke after that time.
func (d *deriver) at(lo, n uint64, next int) derived {
	for i := next - 1; i >= 0; i-- {
		f := d.form(i)
		is := d.p.new(f)
		covers, whole := part(f.addr, len(is), lo, n)
		if !covers {
			continue
		}
		if !whole || i > 0 && d.sameTime(i, -1, lo, n, false) {
			return derived{ambiguous: true}
		}
		return derived{is: true, poke: is[lo-f.addr:][:n]}
	}
	for i := next; i < len(d.near); i++ {
		f := d.form(i)
		was := d.p.old(f)
		covers, whole := part(f.addr, len(was), lo, n)
		if !covers {
			continue
		}
		if !whole || d.sameTime(i, +1, lo, n, true) {
			return derived{ambiguous: true}
		}
		return derived{is: true, poke: was[lo-f.addr:][:n]}
	}
	k := sort.Search(len(d.pages), func(k int) bool { s := &d.pages[k]; return s.Addr+uint64(len(s.Data)) > lo })
	if k == len(d.pages) {
		return derived{}
	}
	s := &d.pages[k]
	covers, whole := part(s.Addr, len(s.Data), lo, n)
	switch {
	case !covers:
		return derived{}
	case !whole:
		return derived{ambiguous: true}
	}
	return derived{is: true, page: s.Data[lo-s.Addr:][:n]}
}

// form returns the form of a poke of d.near.
func (d *deriver) form(i int) *form { return &d.p.forms[d.near[i].form] }

// part reports whether [addr, addr+len) covers a part of [lo, lo+n), and whether it covers
// all of it.
func part(addr uint64, len int, lo, n uint64) (covers, whole bool) {
	end := addr + uint64(len)
	return addr < lo+n && end > lo, addr <= lo && end >= lo+n
}

// sameTime reports whether another poke of the time of poke i covers a part of [lo, lo+n) with
// its old bytes, or else its new ones. step is +1 for the pokes after i, -1 for those before it.
func (d *deriver) sameTime(i, step int, lo, n uint64, old bool) bool {
	for k := i + step; k >= 0 && k < len(d.near) && d.near[k].time == d.near[i].time; k += step {
		f := d.form(k)
		size := len(d.p.new(f))
		if old {
			size = len(d.p.old(f))
		}
		if covers, _ := part(f.addr, size, lo, n); covers {
			return true
		}
	}
	return false
}

// allKnown is the answer for unpatched text where there is no other.
var allKnown = timeline.Span{Standing: timeline.Known, Until: timeline.MaxTime}

// commonAt returns the answer for unpatched text at time t.
func (d *deriver) commonAt(t uint64) *timeline.Span {
	for i := range d.common {
		if s := &d.common[i]; t < s.Until {
			return s
		}
	}
	return &allKnown
}

// gaps returns the rows of the table of gaps, without the recording, by address and time.
// base is the address of _text.
func (d *deriver) gaps(r *replay.Replay, base uint64) []gapRow {
	var rows []gapRow
	for _, s := range d.common {
		if s.Standing != timeline.Known {
			rows = append(rows, gapRow{Everywhere: true, Since: column(s.Since), Until: column(s.Until),
				Standing: s.Standing.String(), Reason: s.Reason.String(), Source: s.Source.String()})
		}
	}
	everywhere := len(rows)
	for a := range r.Image.Answers() {
		lo, n := a.Range()
		d.overlapping(lo, lo+n)
		near, next := d.near, 0
		pass := func(t uint64) { // the changes up to t
			for next < len(near) && near[next].time <= t {
				next++
			}
		}
		d.agreed = [2]agreement{}
		for k := range a.Len() {
			v, state := a.Version(k)
			pass(v.Since)
			if d.agreesAgain(v, state, next) {
				continue
			}
			s := a.Span(k)
			for t := s.Since; t < s.Until; {
				pass(t)
				until := s.Until
				if next < len(near) {
					until = min(until, near[next].time)
				}
				common := d.commonAt(t)
				until = min(until, common.Until)
				if d.agrees(&s, common, next) {
					d.agreed[0], d.agreed[1] = agreement{common, state, near[next-1].form}, d.agreed[0]
					t = until
					continue
				}
				if g, is := d.compare(&s, common, next); is {
					g.Offset, g.Length, g.Since, g.Until = int64(lo-base), int64(n), column(t), column(until)
					rows = appendGap(rows, everywhere, g)
				}
				t = until
			}
		}
	}
	return append(rows[:everywhere:everywhere], joined(rows[everywhere:])...)
}

// An agreement is what agrees has found: a version in this state is the derived answer after a
// poke of this form, as long as the answer for unpatched text is this one. They are of one range.
type agreement struct {
	common *timeline.Span // nil: none
	state  int
	form   uint32
}

// agreesAgain reports whether agrees has found the same answer and poke to agree before. Sites
// go back and forth between two states.
func (d *deriver) agreesAgain(v timeline.Validity, state, next int) bool {
	near := d.near
	if next == 0 || next > 1 && near[next-2].time == near[next-1].time || next < len(near) && near[next].time < v.Until {
		return false
	}
	for i := range d.agreed {
		x := &d.agreed[i]
		if x.common != nil && x.state == state && x.form == near[next-1].form && x.common.Since <= v.Since && v.Until <= x.common.Until {
			return true
		}
	}
	return false
}

// agrees is a fast path of compare for nearly all answers. It reports whether text is known, the
// last poke covers all of the range, and the image's answer is the derived one.
func (d *deriver) agrees(s, common *timeline.Span, next int) bool {
	if next == 0 || s.Standing != timeline.Known || common.Standing != timeline.Known || s.Candidates != nil || s.Reason != common.Reason {
		return false
	}
	f := d.form(next - 1)
	is := d.p.new(f)
	_, whole := part(f.addr, len(is), s.Addr, s.Len)
	return whole && is[s.Addr-f.addr:][:s.Len] == string(s.Bytes) &&
		(next == 1 || d.near[next-2].time != d.near[next-1].time)
}

// compare compares the image's answer with the derived one, and returns the row that corrects
// it, if there must be one. next is the first poke of d.near that comes after the answer begins.
func (d *deriver) compare(s, common *timeline.Span, next int) (g gapRow, is bool) {
	n := d.at(s.Addr, s.Len, next)
	if !n.ambiguous {
		standing, reason, same := timeline.Unmapped, timeline.ReasonNone, len(s.Bytes) == 0
		if n.is {
			standing, reason = common.Standing, common.Reason
			if standing.HasBytes() {
				same = n.equal(s.Bytes)
			}
		}
		if s.Candidates == nil && s.Standing == standing && s.Reason == reason && same {
			return g, false
		}
	}
	g = gapRow{Standing: s.Standing.String(), Reason: s.Reason.String(), Source: s.Source.String()}
	if s.Standing.HasBytes() && (n.ambiguous || !n.is || !n.equal(s.Bytes)) {
		g.Bytes = s.Bytes
	}
	for _, c := range s.Candidates {
		g.Candidates = append(g.Candidates, c.Bytes)
	}
	if s.Standing == timeline.InFlight {
		g.Before, g.After = s.Candidates[0].Bytes, s.Candidates[len(s.Candidates)-1].Bytes
		g.Bytes = g.After
	}
	return g, true
}

// appendGap appends a row, or makes the last one longer.
func appendGap(rows []gapRow, first int, g gapRow) []gapRow {
	if n := len(rows); n > first {
		last := &rows[n-1]
		if last.Offset == g.Offset && last.Length == g.Length && last.Until == g.Since && last.sameAnswer(&g) &&
			bytes.Equal(last.Bytes, g.Bytes) && (last.Bytes == nil) == (g.Bytes == nil) {
			last.Until = g.Until
			return rows
		}
	}
	return append(rows, g)
}

// sameAnswer reports whether two rows differ at most in place, time and bytes.
func (g *gapRow) sameAnswer(o *gapRow) bool {
	return g.Standing == o.Standing && g.Reason == o.Reason && g.Source == o.Source && g.Candidates == nil && o.Candidates == nil
}

// joined makes one row of neighbours with the same time and answer. It returns the rows by
// address and time.
func joined(rows []gapRow) []gapRow {
	slices.SortStableFunc(rows, func(a, b gapRow) int {
		return cmp.Or(cmp.Compare(a.Since, b.Since), cmp.Compare(a.Until, b.Until), cmp.Compare(a.Offset, b.Offset))
	})
	out := rows[:0]
	owned := false // the last row's bytes are a copy, not the image's
	for _, g := range rows {
		if n := len(out); n > 0 {
			last := &out[n-1]
			if last.Since == g.Since && last.Until == g.Until && last.Offset+last.Length == g.Offset &&
				last.sameAnswer(&g) && (last.Bytes == nil) == (g.Bytes == nil) {
				last.Length += g.Length
				if g.Bytes != nil {
					if !owned {
						last.Bytes, owned = slices.Clone(last.Bytes), true
					}
					last.Bytes = append(last.Bytes, g.Bytes...)
				}
				continue
			}
		}
		out, owned = append(out, g), false
	}
	slices.SortStableFunc(out, func(a, b gapRow) int {
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Since, b.Since))
	})
	return out
}
