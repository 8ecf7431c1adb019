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
		records, patches := c.records(d)
		if len(records) == 0 {
			continue
		}
		slices.SortFunc(records, func(a, b orderedRecord) int {
			return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.arrival, b.arrival))
		})
		for _, v := range lost.outside(records[0].time, records[len(records)-1].time) {
			from := sort.Search(len(records), func(i int) bool { return records[i].time >= v.From })
			to := sort.Search(len(records), func(i int) bool { return records[i].time >= v.To })
			all = append(all, c.textOrders(d, v, records[from:to], patches, budget)...)
		}
	}
	return all
}

// textClusters returns the sites of kernel text, by address, whose pokes may not fit in the order of their times: those
// that were examined, and those that share bytes with others.
func (d *build) textClusters() (out []*cluster) {
	var c cluster // nearly all have one site and are not kept
	end := func() {
		if len(c.sites) > 1 || len(c.sites) == 1 && d.orders[c.sites[0]] == examined {
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

// fits reports whether each poke finds its old bytes, if they came in the order of their times.
func (m *textMemory) fits(records []orderedRecord, patches []patch) bool {
	now, known := slices.Clone(m.bytes), slices.Clone(m.known)
	for i := range records {
		p := &patches[records[i].first]
		for k, b := range p.old {
			if o := p.addr - m.lo + uint64(k); known[o] && now[o] != b {
				return false
			}
		}
		for k, b := range p.new {
			o := p.addr - m.lo + uint64(k)
			now[o], known[o] = b, true
		}
	}
	return true
}

// textOrders returns what the possible orders of records of a cluster say, sorted by time, of which none is lost in v.
func (c *cluster) textOrders(d *build, v Interval, records []orderedRecord, patches []patch, budget *int) (all []*orderSet) {
	apart := d.apart()
	m := &textMemory{c.lo, make([]byte, c.hi-c.lo), make([]bool, c.hi-c.lo)}
	if s := &d.snapshot; s.From >= d.first && v.From <= s.From && len(records) > 0 && Later(s.To, apart) < records[0].time {
		m.read(s.Segments)
	}
	if m.fits(records, patches) {
		return nil
	}
	since, whole := []uint64{v.From}, records
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
		if o.take(slices.SortedFunc(slices.Values(records[:n]), orderedRecord.inLanes), patches) && o.bound(next) && o.search() {
			all = append(all, o.result())
			m = m.after(&o.orderSet)
			o.leaveOut(whole, patches)
		} else {
			m = &textMemory{c.lo, m.bytes, make([]bool, len(m.known))}
		}
		since = nil
		*budget -= len(o.outcomes)
	}
	return all
}

// leaveOut makes a set say nothing of the parts that none of the records covers, which are all between two losses:
// no order of theirs matters there.
func (o *orderSet) leaveOut(records []orderedRecord, patches []patch) {
	for k := range o.values {
		covers := func(r orderedRecord) bool {
			p := &patches[r.first]
			return p.addr <= o.edges[k] && o.edges[k] < p.addr+uint64(max(len(p.old), len(p.new)))
		}
		if slices.ContainsFunc(records, covers) {
			continue
		}
		for _, can := range o.can {
			can[k] = 0
		}
	}
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
