// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"cmp"
	"math/bits"
	"math/rand/v2"
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
	sums   []uint64 // by address: see addUp
	began  []int32  // by address: the first poke
	sorted []uint32 // the indices of the pokes, by address, then time
	from   int      // index of the first of by.reach that is greater than below
	below  uint64   // the start of the range of the last call of around
	pages  []kcore.Segment
	common []timeline.Span // the answers for unpatched text: see Image.Unpatched
	near   []sitePoke      // the pokes that overlap the range, by time: see overlapping
	only   int             // the one site that near is of, in by.addrs; -1: none, or several
	covers covering        // see coveringRange
	agreed [2]agreement    // the last ones of the range
	met    [1 << 8]met     // by the number of a state: see agreesWith
	round  uint32          // counts calls of agreesWith
}

// A sitePoke is what gaps needs of a poke.
type sitePoke struct {
	time  uint64 // as in its column: of several at the end of time, the tables have no order
	form  uint32 // in pokes.forms
	order uint32 // its index in pokes.times
}

func newDeriver(r *replay.Replay, p *pokes) *deriver {
	d := &deriver{p: p, common: slices.Collect(r.Image.Unpatched()), only: -1, by: p.byAddress(), pages: pagesOf(r)}
	d.addUp()
	return d
}

// No recording can be made in which other pokes have the same sum.
var sumKeys = [2]uint64{rand.Uint64(), rand.Uint64()}

// summand returns what a poke adds to the sum of its address.
func summand(time uint64, newNumber uint32) uint64 {
	hi, lo := bits.Mul64(time^sumKeys[0], uint64(newNumber)^sumKeys[1])
	return hi ^ lo
}

// addUp sets sums and began. Of nearly all sites, the image has a version of text for each poke: from
// its time on, its new bytes. The sum of a site says so without a list of its pokes.
func (d *deriver) addUp() {
	d.sums, d.began = make([]uint64, len(d.by.addrs)), slices.Repeat([]int32{-1}, len(d.by.addrs))
	for i, f := range d.p.form {
		of := d.by.of[f]
		if d.began[of.rank] < 0 {
			d.began[of.rank] = int32(i)
		}
		d.sums[of.rank] += summand(d.p.times[i], of.newNumber)
	}
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

// around returns the sites whose pokes may overlap [lo, hi): [first, end) of by.addrs. only is set if
// this is one site, and nothing but its pokes overlaps the range.
func (d *deriver) around(lo, hi uint64) (first, end int, only bool) {
	by := &d.by
	if lo < d.below { // most calls come in the order of addresses
		d.from = sort.Search(len(by.reach), func(i int) bool { return by.reach[i] > lo })
	}
	for d.below = lo; d.from < len(by.reach) && by.reach[d.from] <= lo; {
		d.from++
	}
	first, end = d.from, d.from
	for end < len(by.addrs) && by.addrs[end] < hi {
		end++
	}
	return first, end, end == first+1 && by.least[first] > lo
}

// overlapping finds the pokes that overlap [lo, hi): d.near. Those of the sites around it must be in
// d.sorted.
func (d *deriver) overlapping(lo, hi uint64) {
	first, end, single := d.around(lo, hi)
	only := -1
	if single {
		only = first
		if only == d.only {
			return
		}
	}
	d.near, d.only = d.near[:0], only
	if end <= first {
		return
	}
	for _, i := range d.sorted[d.by.first[first]:d.by.first[end]] {
		q := sitePoke{min(d.p.times[i], forever), d.p.form[i], i}
		if single || d.p.end(&d.p.forms[q.form]) > lo {
			d.near = append(d.near, q)
		}
	}
	if !single {
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
	c := d.coveringRange(lo, n)
	if i := c.made(next); i >= 0 {
		f := d.form(i)
		return d.derivedFrom(f.addr, d.p.new(f), lo, n, c.made(i), i)
	}
	if i := c.found(next); i < len(d.near) {
		f := d.form(i)
		return d.derivedFrom(f.addr, d.p.old(f), lo, n, c.found(i+1), i)
	}
	return d.pageAt(lo, n)
}

// derivedFrom returns the derived answer for [lo, lo+n) if content, at addr, is what poke i gives of it.
// beside is the next poke that gives some of it.
func (d *deriver) derivedFrom(addr uint64, content string, lo, n uint64, beside, i int) derived {
	_, whole := part(addr, len(content), lo, n)
	if !whole || beside >= 0 && beside < len(d.near) && d.near[beside].time == d.near[i].time {
		return derived{ambiguous: true}
	}
	return derived{is: true, poke: content[lo-addr:][:n]}
}

// covering has which pokes of deriver.near cover a part of a range with their bytes: not all that
// overlap it do, as old and new bytes can differ in length.
type covering struct {
	is      bool    // they were derived
	newLast []int32 // by poke: the last one before it that does with its new bytes; -1: none
	oldNext []int32 // by poke: the first one from it on that does with its old bytes; len(near): none
}

// made returns the last poke before poke i that made a part of the range, -1 if there is none.
func (c *covering) made(i int) int { return int(c.newLast[i]) }

// found returns the first poke from poke i on that found a part of the range there, the number of pokes
// if there is none.
func (c *covering) found(i int) int { return int(c.oldNext[i]) }

// coveringRange returns which pokes of d.near cover a part of [lo, lo+n). rangeGaps says when the
// range is another one.
func (d *deriver) coveringRange(lo, n uint64) *covering {
	c, of := &d.covers, len(d.near)
	if c.is {
		return c
	}
	c.is = true
	c.newLast, c.oldNext = slices.Grow(c.newLast[:0], of+1)[:of+1], slices.Grow(c.oldNext[:0], of+1)[:of+1]
	last := -1
	for i := range of {
		c.newLast[i] = int32(last)
		f := d.form(i)
		if covers, _ := part(f.addr, len(d.p.new(f)), lo, n); covers {
			last = i
		}
	}
	c.newLast[of] = int32(last)
	first := of
	c.oldNext[of] = int32(of)
	for i := of - 1; i >= 0; i-- {
		f := d.form(i)
		if covers, _ := part(f.addr, len(d.p.old(f)), lo, n); covers {
			first = i
		}
		c.oldNext[i] = int32(first)
	}
	return c
}

// pageAt returns the derived answer for [lo, lo+n) if no poke overlaps it.
func (d *deriver) pageAt(lo, n uint64) derived {
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

// gaps returns the gaps, by address and time. base is the address of _text.
func (d *deriver) gaps(r *replay.Replay, base uint64) *gapList {
	l := new(gapList)
	for _, s := range d.common {
		if s.Standing != timeline.Known && s.Since < forever {
			answer := l.number(&gapAnswer{gapKind: gapKind{everywhere: true, standing: s.Standing, reason: s.Reason, source: s.Source}})
			l.gaps = append(l.gaps, gap{since: column(s.Since), until: column(s.Until), answer: answer})
		}
	}
	l.everywhere = len(l.gaps)
	needed := make([]bool, len(d.by.addrs)) // the sites whose pokes must be looked at one by one
	var left []int                          // the ranges for which they must
	i := -1
	for a := range r.Image.Answers() {
		i++
		lo, n := a.Range()
		first, end, only := d.around(lo, lo+n)
		switch {
		case only && d.agreesWith(&a, first):
		case end <= first && d.pageAgrees(&a):
		case end <= first:
			d.near, d.only = d.near[:0], -1
			d.rangeGaps(l, &a, base)
		default:
			left = append(left, i)
			for k := first; k < end; k++ {
				needed[k] = true
			}
		}
	}
	if len(left) > 0 {
		d.sorted = d.p.sort(&d.by, needed)
		i = -1
		for a := range r.Image.Answers() {
			if i++; i != left[0] {
				continue
			}
			lo, n := a.Range()
			d.overlapping(lo, lo+n)
			d.rangeGaps(l, &a, base)
			if left = left[1:]; len(left) == 0 {
				break
			}
		}
	}
	l.join()
	return l
}

// agreesWith reports whether all answers of a range are the derived ones, which only the pokes of one
// site overlap. It may be false although they are.
func (d *deriver) agreesWith(a *timeline.RangeAnswers, site int) bool {
	first := d.began[site]
	if first < 0 || d.by.newest[site] < 0 {
		return false
	}
	began, lo := d.p.times[first], d.by.addrs[site]
	if began >= forever {
		return false // the tables have no order of its changes
	}
	k, n := 0, a.Len()
	for ; k < n; k++ {
		v, _ := a.Version(k)
		if v.Since >= began {
			break
		}
		if v.Until > began || !d.agreesAll(a, k, v, d.p.old(&d.p.forms[d.p.form[first]]), lo) {
			return false
		}
	}
	if k == 0 {
		return false
	}
	d.round++
	var room [16]uint64
	sum, is := uint64(0), int64(-1) // is what the last poke made, in pokes.contents
	for k < n {
		since, until, states := a.Line(k, room[:])
		for i, t := range since {
			v, state := timeline.Validity{Since: t, Until: until}, uint8(0)
			if i+1 < len(since) {
				v.Until = since[i+1]
			}
			if states != nil {
				state = states[i]
			}
			m := &d.met[state]
			if states == nil || m.of != d.round || t < m.common.Since || m.common.Until < v.Until {
				newNumber, ok := d.makes(site, a, k+i)
				if !ok || !d.agreesAll(a, k+i, v, d.p.contents.strings[newNumber], lo) {
					return false
				}
				c := d.commonAt(t)
				*m = met{d.round, timeline.Validity{Since: c.Since, Until: c.Until}, newNumber}
			}
			// A version may also begin because unpatched text has another answer from then on.
			if int64(m.newNumber) == is && slices.ContainsFunc(d.common, func(s timeline.Span) bool { return s.Since == t }) {
				continue
			}
			sum, is = sum+summand(t, m.newNumber), int64(m.newNumber)
		}
		k += len(since)
	}
	return sum == d.sums[site]
}

// A met is what agreesWith has found of a state: its bytes are these, as long as the answer for unpatched
// text does not change.
type met struct {
	of        uint32 // which range: see deriver.round
	common    timeline.Validity
	newNumber uint32 // in pokes.contents
}

// agreesAll reports whether version k, which is valid at v, is the derived answer, if content is at addr.
func (d *deriver) agreesAll(a *timeline.RangeAnswers, k int, v timeline.Validity, content string, addr uint64) bool {
	lo, n := a.Range()
	if _, whole := part(addr, len(content), lo, n); !whole {
		return false
	}
	return d.isDerived(a, k, v, &derived{is: true, poke: content[lo-addr:][:n]})
}

// isDerived reports whether version k, which is valid at v, is this derived answer.
func (d *deriver) isDerived(a *timeline.RangeAnswers, k int, v timeline.Validity, is *derived) bool {
	standing, reason, bytes, plain := a.Brief(k)
	if !plain {
		return false
	}
	for t := v.Since; t < v.Until; {
		common := d.commonAt(t)
		if !is.same(standing, reason, bytes, common) {
			return false
		}
		t = common.Until
	}
	return true
}

// pageAgrees reports whether all answers of a range are the derived ones, if no poke overlaps it.
func (d *deriver) pageAgrees(a *timeline.RangeAnswers) bool {
	is := d.pageAt(a.Range())
	for k := range a.Len() {
		v, _ := a.Version(k)
		if is.ambiguous || !d.isDerived(a, k, v, &is) {
			return false
		}
	}
	return true
}

// makes returns the new bytes, in pokes.contents, of a form of a site that makes the bytes of version k.
func (d *deriver) makes(site int, a *timeline.RangeAnswers, k int) (newNumber uint32, ok bool) {
	lo, n := a.Range()
	_, _, bytes, _ := a.Brief(k)
	for i, forms := d.by.newest[site], 0; i >= 0 && forms < mostForms; i, forms = d.p.forms[i].older, forms+1 {
		f := &d.p.forms[i]
		is := d.p.new(f)
		if _, whole := part(f.addr, len(is), lo, n); whole && is[lo-f.addr:][:n] == string(bytes) {
			return f.newNumber, true
		}
	}
	return 0, false
}

// same reports whether an answer of the image without candidates is the derived one. common is the
// answer for unpatched text.
func (n *derived) same(is timeline.Standing, why timeline.Reason, bytes []byte, common *timeline.Span) bool {
	standing, reason, same := timeline.Unmapped, timeline.ReasonNone, len(bytes) == 0
	if n.is {
		standing, reason = common.Standing, common.Reason
		if standing.HasBytes() {
			same = n.equal(bytes)
		}
	}
	return is == standing && why == reason && same
}

// rangeGaps adds the gaps of a range, after overlapping.
func (d *deriver) rangeGaps(l *gapList, a *timeline.RangeAnswers, base uint64) {
	lo, n := a.Range()
	near, next := d.near, 0
	pass := func(t uint64) { // the changes up to t
		for next < len(near) && near[next].time <= t {
			next++
		}
	}
	d.agreed, d.covers.is = [2]agreement{}, false
	for k := range a.Len() {
		v, state := a.Version(k)
		pass(v.Since)
		if d.agreesAgain(v, state, next) {
			continue
		}
		s := a.Span(k)
		for t := s.Since; t < min(s.Until, forever); { // the tables have no later time
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
			if answer, is := d.compare(&s, common, next); is {
				l.add(gap{int64(lo - base), int64(n), column(t), column(until), l.number(&answer)})
			}
			t = until
		}
	}
	l.endRange(int64(lo-base), int64(n))
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

// compare compares the image's answer with the derived one, and returns what corrects it, if there must be a
// row that does. next is the first poke of d.near that comes after the answer begins.
func (d *deriver) compare(s, common *timeline.Span, next int) (a gapAnswer, is bool) {
	n := d.at(s.Addr, s.Len, next)
	if !n.ambiguous && s.Candidates == nil && n.same(s.Standing, s.Reason, s.Bytes, common) {
		return a, false
	}
	a.standing, a.reason, a.source, a.hasCandidates = s.Standing, s.Reason, s.Source, s.Candidates != nil
	if s.Standing.HasBytes() && (n.ambiguous || !n.is || !n.equal(s.Bytes)) {
		a.bytes = s.Bytes
	}
	for _, c := range s.Candidates {
		a.candidates = append(a.candidates, c.Bytes)
	}
	if s.Standing == timeline.InFlight {
		a.bytes = s.Candidates[len(s.Candidates)-1].Bytes
	}
	a.hasBytes = a.bytes != nil
	return a, true
}
