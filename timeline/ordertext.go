// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"math/bits"
	"slices"
	"sort"
)

// Kernel text in all orders that its records can have come in (orders.go), where they do not fit in the order of
// their times. Nothing comes or goes there. Here CPU 1's clock may be ahead, or CPU 2's:
//
//	recorded   CPU 0  cc > e9   cc > 55
//	           CPU 1                                55 > cc
//	           CPU 2                      e9 > cc
//	possible          cc > e9   e9 > cc   cc > 55   55 > cc      cc, before and afterwards
//	                  55 > cc   cc > e9   e9 > cc   cc > 55      55, before and afterwards
//
// Records further apart than clocks can differ are in order. So a pause that is longer divides them, and each
// part is looked at alone.

// findTextOrders returns what the possible orders of records of kernel text say, by address and time.
func (d *build) findTextOrders(lost gaps, budget *int) (all []*orderSet) {
	other := JoinRanges(d.copiedAgain()) // they may say more
	for _, c := range d.textClusters() {
		if len(other) > 0 && wanted(other, c.lo, c.hi) || !wantedAll(d.only, c.lo, c.hi-c.lo) {
			continue
		}
		records, patches := c.records(d, mostCounted)
		if len(records) == 0 {
			continue
		}
		slices.SortFunc(records, func(a, b orderedRecord) int {
			return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.arrival, b.arrival))
		})
		for _, v := range lost.outside(records[0].time, records[len(records)-1].time) {
			from := sort.Search(len(records), func(i int) bool { return records[i].time >= v.From })
			to := sort.Search(len(records), func(i int) bool { return records[i].time >= v.To })
			if from < to {
				all = append(all, c.textOrders(d, v, records[from:to], patches, budget)...)
			}
		}
	}
	return all
}

// textClusters returns the sites of kernel text, by address, whose pokes may not be in the order of their times: those
// that were examined, those that share bytes with others, and those where what was there first may not be known.
func (d *build) textClusters() (out []*cluster) {
	var c cluster // nearly all have one site and are not kept
	end := func() {
		if len(c.sites) > 1 || len(c.sites) == 1 && (d.orders[c.sites[0]] == examined || d.openSites[c.sites[0]]) {
			kept := c
			out, c.sites = append(out, &kept), nil
		}
		c.hi, c.sites = 0, c.sites[:0]
	}
	for _, i := range d.order {
		s := &d.sites[i]
		hi := s.addr + uint64(s.longest)
		if s.addr < d.textLo || d.textHi < hi {
			continue
		}
		if s.addr >= c.hi {
			end()
			c.lo = s.addr
		}
		c.hi, c.sites = max(c.hi, hi), append(c.sites, i)
	}
	end()
	return out
}

// A textMemory is what is known to be in the bytes of a cluster at some time.
type textMemory struct {
	lo    uint64
	bytes []byte
	known []bool
}

// inOrder reports whether each poke finds its old bytes if they came in the order of their times, and whether they go
// round.
//
// If they fit, what was there first and what is there at the end is the same in any order, since one is what was found once more
// than it was left, and the other what was left once more. Not so if the pokes go round: they leave what they found first,
// which nothing else shows, and CPUs whose clocks may differ by apart recorded them. Any of them may be the first:
//
//	recorded   A > B   B > C   C > A                  A, before and afterwards
//	possible           B > C   C > A   A > B          B, before and afterwards
func (m *textMemory) inOrder(records []orderedRecord, patches []patch, apart uint64) (fits, round bool) {
	now, known := slices.Clone(m.bytes), slices.Clone(m.known)
	first, changed := make([]byte, len(m.bytes)), make([]bool, len(m.bytes)) // what was found first, where that was not known
	cross := false
	for i := range records {
		r := &records[i]
		cross = cross || i > 0 && r.cpu != records[i-1].cpu && r.time <= Later(records[i-1].time, apart)
		p := &patches[r.first]
		for k, b := range p.old {
			o := p.addr - m.lo + uint64(k)
			switch {
			case known[o] && now[o] != b:
				return false, false
			case !known[o]:
				first[o] = b
			}
		}
		for k, b := range p.new {
			o := p.addr - m.lo + uint64(k)
			changed[o] = changed[o] || !m.known[o] && k < len(p.old) && p.old[k] != b
			now[o], known[o] = b, true
		}
	}
	for o, c := range changed {
		round = round || c && cross && now[o] == first[o]
	}
	return true, round
}

// textOrders returns what the possible orders of records of a cluster say, sorted by time, of which none is lost in v.
func (c *cluster) textOrders(d *build, v Interval, records []orderedRecord, patches []patch, budget *int) (all []*orderSet) {
	apart := d.apart()
	m := &textMemory{c.lo, make([]byte, c.hi-c.lo), make([]bool, c.hi-c.lo)}
	if s := &d.snapshot; s.From >= d.first && v.From <= s.From && len(records) > 0 && Later(s.To, apart) < records[0].time {
		m.read(s.Segments)
	}
	since, covered := []uint64{v.From}, m.coveredBy(records, patches)
	fits, round := m.inOrder(records, patches, apart)
	if fits && !round {
		return nil
	}
	now := &textMemory{c.lo, slices.Clone(m.bytes), slices.Clone(m.known)} // what is there if they came in the order of their times
	for n := 0; len(records) > 0; records = records[n:] {
		for n = 1; n < len(records) && records[n].time <= Later(records[n-1].time, apart); n++ {
		}
		o := &ordering{orderSet: orderSet{lo: c.lo, hi: c.hi, from: records[0].time, to: v.To}, apart: apart, before: m, since: since, budget: min(*budget, mostStates)}
		var next *patch // the one that comes after all of these
		if n < len(records) {
			o.to = records[n].time
			if n+1 == len(records) || records[n+1].time > Later(records[n].time, apart) {
				next = &patches[records[n].first]
			}
		}
		after := &textMemory{c.lo, m.bytes, make([]bool, len(m.known))}
		few := o.take(slices.SortedFunc(slices.Values(records[:n]), orderedRecord.inLanes), patches) && o.bound(next)
		switch {
		case few && (o.search() || o.budget < 0 && o.count()):
			after = m.after(&o.orderSet)
		case few && d.clocksDiffer() && v.isNearEnd(records[0].time, records[n-1].time, apart):
			o.knowNothing() // some of them may have come before the loss, or others behind it
		}
		if o.can != nil {
			all = append(all, o.result())
			o.leaveOut(covered)
		}
		m = after
		since = nil
		*budget -= len(o.outcomes)
		if now.change(records[:n], patches); fits && m.agrees(now, covered) {
			break // those behind come in the order of their times
		}
	}
	return all
}

// change makes the changes of records, in their order.
func (m *textMemory) change(records []orderedRecord, patches []patch) {
	for i := range records {
		p := &patches[records[i].first]
		for k, b := range p.new {
			o := p.addr - m.lo + uint64(k)
			m.bytes[o], m.known[o] = b, true
		}
	}
}

// agrees reports whether it is known what is in all bytes that are covered, and o has the same there.
func (m *textMemory) agrees(o *textMemory, covered []bool) bool {
	for i, c := range covered {
		if c && !(m.known[i] && o.known[i] && m.bytes[i] == o.bytes[i]) {
			return false
		}
	}
	return true
}

// coveredBy returns, for each byte, whether some record covers it.
func (m *textMemory) coveredBy(records []orderedRecord, patches []patch) []bool {
	out := make([]bool, len(m.bytes))
	for i := range records {
		p := &patches[records[i].first]
		for k := range max(len(p.old), len(p.new)) {
			out[p.addr-m.lo+uint64(k)] = true
		}
	}
	return out
}

// leaveOut makes a set say nothing of the parts that no record between two losses covers: no order of theirs matters
// there.
func (o *orderSet) leaveOut(covered []bool) {
	for k := range o.values {
		if covered[o.edges[k]-o.lo] {
			continue
		}
		for _, can := range o.can {
			can[k] = 0
		}
	}
}

// count is search where records have too many orders to look at. It looks at each part alone, and at how
// often each value was left and found by a time. What is there then was left once more than it was found; so was what was
// there first, which no record left. So it says no more than all orders say. It reports whether the numbers allow any
// order.
//
//	A > B   C > A   B > C   A > B        from A to B, in whatever order they came
func (o *ordering) count() bool {
	var records []*orderedRecord
	for _, lane := range o.lanes {
		records = append(records, lane...)
	}
	slices.SortFunc(records, func(a, b *orderedRecord) int { return cmp.Compare(a.time, b.time) })
	if slices.ContainsFunc(records, func(r *orderedRecord) bool { return r.double || len(r.old) != len(r.new) }) {
		return false
	}
	o.can = make([][]uint64, len(o.times))
	for i := range o.can {
		o.can[i] = make([]uint64, len(o.values))
	}
	for k := range o.values {
		if !o.countPart(k, records) {
			o.can = nil
			return false
		}
	}
	return true
}

// knowNothing makes a set say that anything may be there.
func (o *ordering) knowNothing() {
	o.can = make([][]uint64, len(o.times))
	for i := range o.can {
		o.can[i] = slices.Repeat([]uint64{1 << otherValue}, len(o.values))
	}
}

// isNearEnd reports whether the first or the last of some times in v is not more than apart from the loss there.
func (v Interval) isNearEnd(first, last, apart uint64) bool {
	return v.From > 0 && first <= Later(v.From, apart) || v.To < MaxTime && Later(last, apart) >= v.To
}

// countPart is count for one part.
func (o *ordering) countPart(k int, records []*orderedRecord) bool {
	var left [mostValues + 2]int // how much more often than found
	var met uint64               // the values that were left or found
	take := func(r *orderedRecord) {
		if r.first <= k && k < r.last {
			was, now := r.old[k-r.first], r.new[k-r.first]
			left[was]--
			left[now]++
			met |= 1<<was | 1<<now
		}
	}
	// ends returns what is there now, as a set, if v was there first; 0: this cannot be.
	ends := func(v int) uint64 {
		left[v]++
		defer func() { left[v]-- }()
		end := uint64(0)
		for i, n := range left {
			switch {
			case n == 1 && end == 0:
				end = 1 << i
			case n != 0:
				return 0
			}
		}
		return end
	}
	for _, r := range records {
		take(r)
	}
	first := uint64(1) << o.start.parts[k].value // what may have been there first
	if o.start.parts[k].unset() {
		first = met
	}
	if met == 0 {
		first = 1 << o.start.parts[k].value // it says nothing if that is not known
	}
	for v := range left {
		if end := ends(v); met != 0 && (end == 0 || len(o.behind) > 0 && o.behind[k] != 0 && end != 1<<o.behind[k]) {
			first &^= 1 << v
		}
	}
	if first == 0 {
		return false
	}
	left = [len(left)]int{}
	for i, t := range o.times {
		for len(records) > 0 && records[0].time <= t {
			take(records[0])
			records = records[1:]
		}
		for v := range left {
			if first>>v&1 != 0 {
				o.can[i][k] |= ends(v)
			}
		}
	}
	return true
}

// after returns what all possible orders leave.
func (m *textMemory) after(o *orderSet) *textMemory {
	x := &textMemory{m.lo, slices.Clone(m.bytes), slices.Clone(m.known)}
	for k, can := range o.can[len(o.can)-1] {
		lo, hi := o.edges[k]-m.lo, o.edges[k+1]-m.lo
		one := can&1 == 0 && bits.OnesCount64(can) == 1
		if one {
			copy(x.bytes[lo:hi], o.values[k][bits.TrailingZeros64(can)-1])
		}
		for i := lo; i < hi; i++ {
			x.known[i] = one
		}
	}
	return x
}

// read takes what a copy has of the cluster.
func (m *textMemory) read(segments []Segment) {
	for _, s := range Overlapping(segments, m.lo, m.lo+uint64(len(m.bytes))) {
		for i, b := range s.Data {
			o := s.Addr - m.lo + uint64(i)
			m.bytes[o], m.known[o] = b, true
		}
	}
}

// bound notes what is there before all records, and what the next poke behind them finds, if there is one. It
// reports whether values are few enough.
func (o *ordering) bound(next *patch) bool {
	o.behind = make([]uint8, len(o.values))
	for k := range o.values {
		lo, hi := o.edges[k], o.edges[k+1]
		p := &o.start.parts[k]
		if p.owner = ownerSeen; !slices.Contains(o.before.known[lo-o.lo:hi-o.lo], false) {
			p.value = o.valueOf(k, o.before.bytes[lo-o.lo:hi-o.lo])
		}
		if next != nil && next.addr <= lo && hi <= next.addr+uint64(len(next.old)) {
			o.behind[k] = o.valueOf(k, next.old[lo-next.addr:hi-next.addr])
		}
	}
	return !slices.ContainsFunc(o.values, func(v [][]byte) bool { return len(v) > mostValues })
}
