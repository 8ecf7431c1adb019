// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
)

// Where CPUs' clocks differ, or may do so unseen, the rules look at two or three records that may be in
// the wrong order. Many records together allow orders that no rule sees. So what the rules say of code
// that comes and goes is compared with all orders that its records can have come in (rule clocks):
//
//	recorded   CPU 0  birth a   death a             birth b   B -> C
//	           CPU 1                      B -> C
//	possible          birth a   B -> C   death a    birth b   B -> C
//	                  birth a   death a   B -> C    birth b   B -> C    before the memory of a is free
//	                  birth a   death a   birth b   B -> C    B -> C    no: the second finds C
//
// A lane is what one CPU recorded of pokes, or of births and deaths, in its order. An order takes one
// record after the other from the lanes, and so goes from state to state. The next record can be one
// that no other must come before, and that fits what is there: a poke finds its old bytes, code comes
// where there is none, and goes where it is. An order that takes all of them is possible.
//
//	lanes      P0 P1       pokes of CPU 0
//	           Q0          pokes of CPU 1
//	           B0 D0       births and deaths of CPU 1
//	orders     B0 P0 P1 Q0 D0      B0 P0 Q0 P1 D0      ...
//	states of  1  1  2  3  3  of their records, and what is in memory then
//
// What is known from one time to the next must be there in all possible orders at the moment at which the
// records up to this time have come, and no others. An order in which there is no such moment says
// nothing.
//
// If no order is possible, something else happened than is recorded, and the rules alone count. So they
// do where there are more records or states than the limits below.

const (
	mostRecords  = 1 << 9  // of a cluster
	mostCounted  = 1 << 16 // of one of kernel text
	mostOrdered  = 96      // of these, between two losses
	mostSymbols  = 64      // of these: births and deaths
	mostLanes    = 16      // of a cluster
	mostParts    = 32      // of a cluster
	mostValues   = 62      // of a part
	mostStates   = 1 << 13 // of a cluster
	mostPrograms = 32      // of a cluster
	// limits.orders, and orderStatesOfRecord for each poke and symbol, are how many states are looked at in all.
	leastOrderStates    = 1 << 17
	orderStatesOfRecord = 4
)

// An orderSet is what the possible orders of the records of some code say. Such code, a cluster, shares its
// addresses, or has pokes that do. Kernel text has such clusters too (ordertext.go).
type orderSet struct {
	lo, hi   uint64 // the cluster
	from, to uint64 // no record is lost in [from, to)
	edges    []uint64
	values   [][][]byte // of the part between two edges, the k-th with the number k+1
	times    []uint64   // at which there are records
	can      []uint64   // for each time, of each part: what may be there from then on until the next time, see otherValue
}

// canAt returns what may be in each part from the k-th time on.
func (o *orderSet) canAt(k int) []uint64 { return o.can[k*len(o.values):][:len(o.values)] }

// looksForOrders reports whether findOrders looks for any.
func (d *build) looksForOrders() bool {
	return (d.clocksDiffer() || d.differ) && d.delayed == nil && d.twice == nil && d.limits.orders > 0
}

// findOrders returns what the possible orders of records say, by address and time. code are the clusters.
func (d *build) findOrders(code []*cluster) []*orderSet {
	if !d.looksForOrders() {
		return nil
	}
	// There can be as many runs as pokes.
	d.allCPUs = !slices.ContainsFunc(d.cpus, func(r cpuRun) bool { return r.cpu == unknownCPU })
	lost := d.lostRecords()
	budget := d.limits.orders + orderStatesOfRecord*(int(d.added)+len(d.symbols))
	var all []*orderSet
	other, programs := d.otherFacts(), d.programsByAddr()
	for _, c := range code {
		if len(other) > 0 && wanted(other, c.lo, c.hi) || !wantedAll(d.only, c.lo, c.hi-c.lo) {
			continue
		}
		records, patches := c.records(d)
		if len(records) == 0 {
			continue
		}
		slices.SortFunc(records, orderedRecord.inLanes)
		first, last := spanOf(records)
		for _, v := range lost.outside(first, last) {
			o := &ordering{orderSet: orderSet{lo: c.lo, hi: c.hi, from: v.From, to: v.To}, apart: d.apart(), differ: d.clocksDiffer(), off: d.skew, budget: min(budget, mostStates)}
			if o.take(records, patches) && o.takePrograms(programs, patches) && o.mayCross() && o.search() {
				all = append(all, o.result())
			}
			budget -= o.looked
		}
	}
	all = append(all, d.findTextOrders(lost, &budget)...)
	slices.SortStableFunc(all, func(a, b *orderSet) int { return cmp.Compare(a.lo, b.lo) })
	return all
}

// result returns what the orders say, without what it took to find them: there may be a million sets.
func (o *ordering) result() *orderSet {
	s := o.orderSet
	return &s
}

// otherFacts returns where code is text, or more than pokes, births, deaths and the code of programs can prove what is
// there. The snapshot proves nothing of code that comes and goes. Further copies say no more than that some of
// the orders are not possible.
func (d *build) otherFacts() (out []Range) {
	add := func(lo, hi uint64) {
		if lo < hi {
			out = append(out, Range{lo, hi})
		}
	}
	add(d.textLo, d.textHi)
	for i := range d.modules {
		add(d.modules[i].Addr, d.modules[i].End)
	}
	for i := range d.seed {
		add(d.seed[i].Addr, d.seed[i].End())
	}
	for i := range d.windows {
		add(d.windows[i].Addr, d.windows[i].Addr+uint64(len(d.windows[i].Before)))
	}
	for i := range d.codeReads {
		add(d.codeReads[i].Addr, d.codeReads[i].Addr+uint64(len(d.codeReads[i].Data)))
	}
	return JoinRanges(out)
}

// lostRecords returns when pokes, births or deaths may be missing between the first record and the horizon.
func (d *build) lostRecords() gaps {
	lost := slices.Concat(d.Builder.gaps[GapPokes], d.Builder.gaps[GapSymbols], d.births(), []gap{d.dropped})
	for i := range d.local {
		lost = append(lost, d.local[i].gap)
	}
	return flatten(lost)
}

// outside returns the intervals outside of all gaps that have some of the time from first to last, both included.
func (g gaps) outside(first, last uint64) (out []Interval) {
	i := sort.Search(len(g), func(i int) bool { return g[i].to > first })
	from := uint64(0)
	if i > 0 {
		from = g[i-1].to
	}
	for ; from <= last; i++ {
		to := MaxTime
		if i < len(g) {
			to = g[i].from
		}
		if max(from, first) < to {
			out = append(out, Interval{from, to})
		}
		if i >= len(g) {
			break
		}
		from = g[i].to
	}
	return out
}

// doubtOrder makes unconfirmed what is known but need not be there in a possible order, unless a further copy shows
// that it was there.
func (c *historyBuilder) doubtOrder() {
	addr, end := c.f.addr, c.f.addr+uint64(c.f.size)
	sets := c.ordersOf(addr)
	if len(sets) == 0 {
		return
	}
	open := func(o *orderSet, can uint64, part int, v *version, from, until uint64) bool {
		return v.standing == Known && !o.mustBe(can, part, addr-o.edges[part], c.bytes(v.content)) && !c.copiedBetween(from, until, v.content)
	}
	// Most sets leave nothing open.
	i := c.versionAt(sets[0].times[0])
	doubtful := false
	eachCan(sets, addr, end, func(o *orderSet, part int, can, from, until uint64) {
		for i+1 < len(c.out) && c.out[i+1].since <= from {
			i++
		}
		for k := i; k < len(c.out) && c.out[k].since < until; k++ {
			doubtful = doubtful || open(o, can, part, &c.out[k], from, until)
		}
	})
	if !doubtful {
		return
	}
	r := c.revise(sets[0].times[0])
	eachCan(sets, addr, end, func(o *orderSet, part int, can, from, until uint64) {
		r.replace(from, until, func(v version, _ uint64) {
			if open(o, can, part, &v, from, until) {
				v.standing, v.reason = Unconfirmed, ClockUncertainty
			}
			c.put(v)
		})
	})
	r.end()
}

// eachCan calls f with what sets say of [addr, end), by time: the part, and what may be there.
func eachCan(sets []*orderSet, addr, end uint64, f func(o *orderSet, part int, can, from, until uint64)) {
	for _, o := range sets {
		part := sort.Search(len(o.edges), func(k int) bool { return o.edges[k] > addr }) - 1
		if part < 0 || part >= len(o.values) || end > o.edges[part+1] {
			continue
		}
		for k, t := range o.times {
			until := o.to
			if k+1 < len(o.times) {
				until = o.times[k+1]
			}
			if can := o.canAt(k)[part]; can != 0 {
				f(o, part, can, t, until)
			}
		}
	}
}

// ordersOf returns what possible orders say of an address.
func (d *build) ordersOf(addr uint64) []*orderSet {
	lo := sort.Search(len(d.possible), func(i int) bool { return d.possible[i].hi > addr })
	hi := lo
	for hi < len(d.possible) && d.possible[hi].lo <= addr {
		hi++
	}
	return d.possible[lo:hi]
}

// mustBe reports whether the bytes from an offset in a part on are b, whatever value of a set the part has.
func (o *orderSet) mustBe(can uint64, part int, offset uint64, b []byte) bool {
	if can>>otherValue&1 != 0 {
		return false
	}
	for i, v := range o.values[part] {
		if can>>(i+1)&1 != 0 && !bytes.Equal(v[offset:][:len(b)], b) {
			return false
		}
	}
	return true
}
