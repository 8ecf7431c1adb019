// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"cmp"
	"iter"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sort"
	"sync/atomic"
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
	clusters := d.textClusters()
	clusters = slices.DeleteFunc(clusters, func(c *cluster) bool {
		return !wantedAll(d.only, c.lo, c.hi-c.lo) || !c.isPlain(d) && c.count(d) > mostCounted
	})
	sets, looked := make([][]*orderSet, len(clusters)), make([]int, len(clusters))
	var next atomic.Int64
	inParallel(min(runtime.GOMAXPROCS(0), len(clusters)/64+1), func() {
		w := *d
		w.reader = d.readers.get()
		defer d.readers.put(w.reader)
		var x textSearch
		for i := next.Add(1) - 1; i < int64(len(clusters)); i = next.Add(1) - 1 {
			left := math.MaxInt
			sets[i] = clusters[i].textOrders(&w, lost, &x, &left)
			looked[i] = math.MaxInt - left
		}
	})
	// What may be looked at is shared by all, in the order of their addresses.
	var x textSearch
	for i, c := range clusters {
		if *budget-looked[i] >= mostStates {
			*budget -= looked[i]
		} else {
			sets[i] = c.textOrders(d, lost, &x, budget)
		}
		all = append(all, sets[i]...)
	}
	return all
}

// A textSearch is memory that is used for one cluster after the other.
type textSearch struct {
	pokes   []poke
	records []orderedRecord
	patches []patch
	siteOrders
}

// textOrders returns what the possible orders of the records of a cluster say, by time.
func (c *cluster) textOrders(d *build, lost gaps, x *textSearch, budget *int) (all []*orderSet) {
	plain, checked := c.isPlain(d), false
	if plain && !d.continues && d.beginsWithPause(c.sites[0], lost) {
		return nil
	}
	x.pokes = c.pokes(d, x.pokes[:0])
	for v, pokes := range complete(lost, x.pokes) {
		for len(pokes) > 0 && d.mayMiss(&pokes[0]) {
			n := partOf(pokes, d.apart())
			part := Interval{v.From, v.To}
			if n < len(pokes) {
				part.To = pokes[n].time
			}
			v.From = Later(pokes[n-1].time, 1)
			if d.crosses(pokes[:n], d.apart()) {
				all = append(all, c.nothingKnown(d, part, pokes[:n], x)...)
				v.From = part.To
			}
			pokes = pokes[n:]
		}
		if len(pokes) == 0 || plain && !d.firstGoesRound(pokes, d.apart()) {
			continue
		}
		m := c.before(d, v, pokes)
		fits := plain || m.fits(d, pokes)
		if fits && !m.round(d, pokes) {
			continue
		}
		if !checked && !d.knowsCPUs(x.pokes) {
			return nil
		}
		checked = true
		all = append(all, c.textOrdersIn(d, v, m, pokes, plain, fits, x, budget)...)
	}
	return all
}

// mayMiss reports whether changes may be missing between a poke and the next pause: the recording continues another one,
// which has what CPUs recorded shortly before this one begins. So that those that are there fit does not show in which order
// they came, nor what is there in the pause.
func (d *build) mayMiss(p *poke) bool { return d.continues && p.time < d.first }

// partOf returns how many of some pokes come before the first pause that is longer than apart, by which clocks may differ.
func partOf(pokes []poke, apart uint64) int {
	n := 1
	for n < len(pokes) && pokes[n].time <= Later(pokes[n-1].time, apart) {
		n++
	}
	return n
}

// showsBefore reports whether the first of the pokes behind a pause shows what was left before: it is alone there.
func showsBefore(pokes []poke, apart uint64) bool {
	return partOf(pokes[:min(len(pokes), 2)], apart) == 1
}

// firstGoesRound reports whether the pokes of a plain site up to the first such pause may go round, as all of them do, see
// textMemory.round: what was there before all of them and what was there in that pause may be anything then that they found.
// Not so if they are more than can be looked at. So many would hardly fit in the order of their times if that were not theirs.
func (d *build) firstGoesRound(pokes []poke, apart uint64) bool {
	n := partOf(pokes, apart)
	if n > mostOrdered || n < len(pokes) && showsBefore(pokes[n:], apart) {
		return false
	}
	return d.leaveFirst(pokes) && d.leaveFirst(pokes[:n]) && d.crosses(pokes[:n], apart)
}

// beginsWithPause reports whether the first poke of a plain site is alone up to the first pause, so that the pokes up to there
// do not go round, see firstGoesRound. It looks at two of them only, if they arrived in the order of their times and no
// record is lost between the first and the last one.
func (d *build) beginsWithPause(site uint32, lost gaps) bool {
	s := &d.sites[site]
	if d.orders[site] != asAdded || s.pokes < 2 {
		return false
	}
	first := d.index.firstPoke(d.Builder, site).time
	return len(lost.between(first, Later(s.newest, 1))) == 0 && d.index.secondTime(d.Builder, site) > Later(first, d.apart())
}

// leaveFirst reports whether the last of some pokes of a plain site leaves what the first one found.
func (d *build) leaveFirst(pokes []poke) bool {
	return bytes.Equal(d.oldOf(&pokes[0]), d.newOf(&pokes[len(pokes)-1]))
}

// crosses reports whether two of some pokes that follow each other are of two CPUs, and no more than apart nanoseconds apart.
func (d *build) crosses(pokes []poke, apart uint64) bool {
	for i := 1; i < len(pokes); i++ {
		p, q := &pokes[i-1], &pokes[i]
		if q.time <= Later(p.time, apart) && d.Builder.cpuOf(p) != d.Builder.cpuOf(q) {
			return true
		}
	}
	return false
}

// isPlain reports whether all pokes of a cluster change the same bytes, and each finds what the one before it left.
func (c *cluster) isPlain(d *build) bool {
	return len(c.sites) == 1 && d.orders[c.sites[0]] != examined
}

// complete yields the intervals in which nothing is lost and the pokes there, some of which each has.
func complete(lost gaps, pokes []poke) iter.Seq2[Interval, []poke] {
	return func(yield func(Interval, []poke) bool) {
		if len(pokes) == 0 {
			return
		}
		for _, v := range lost.outside(pokes[0].time, pokes[len(pokes)-1].time) {
			from := sort.Search(len(pokes), func(i int) bool { return pokes[i].time >= v.From })
			to := sort.Search(len(pokes), func(i int) bool { return pokes[i].time >= v.To })
			if from < to && !yield(v, pokes[from:to]) {
				return
			}
		}
	}
}

// textClusters returns the sites of kernel text, by address, whose pokes may not be in the order of their times: those
// that were examined, those that share bytes with others, and those where what was there first may not be known.
func (d *build) textClusters() (out []*cluster) {
	var c cluster // nearly all have one site and are not kept
	end := func() {
		if len(c.sites) > 1 || len(c.sites) == 1 && (d.orders[c.sites[0]] == examined || d.openSites[c.sites[0]] == openSite) {
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
func (m *textMemory) fits(d *build, pokes []poke) bool {
	now, known := slices.Clone(m.bytes), slices.Clone(m.known)
	for i := range pokes {
		p := d.patchOf(&pokes[i])
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

// round reports whether pokes that fit go round: they leave what they found first, which nothing else shows, and CPUs
// recorded them whose clocks may differ by so much. Any of them may be the first then:
//
//	recorded   A > B   B > C   C > A                  A, before and afterwards
//	possible           B > C   C > A   A > B          B, before and afterwards
//
// Else what was there first and what is there at the end is the same in any order, since one is what was found once more
// than it was left, and the other what was left once more.
func (m *textMemory) round(d *build, pokes []poke) bool {
	if !d.crosses(pokes, d.apart()) {
		return false
	}
	for o, known := range m.known {
		if !known && d.goesRound(pokes, m.lo+uint64(o)) {
			return true
		}
	}
	return false
}

// goesRound reports whether some pokes change the byte at an address, and the last of them leaves there what the first
// one found.
func (d *build) goesRound(pokes []poke, addr uint64) bool {
	at := func(p *poke) (old, new []byte) {
		x := d.patchOf(p)
		if k := addr - x.addr; addr >= x.addr {
			old, new = x.old[min(k, uint64(len(x.old))):], x.new[min(k, uint64(len(x.new))):]
		}
		return old, new
	}
	var found, left []byte
	for i := 0; i < len(pokes) && len(found) == 0; i++ {
		found, _ = at(&pokes[i])
	}
	for i := len(pokes) - 1; i >= 0 && len(left) == 0; i-- {
		_, left = at(&pokes[i])
	}
	if len(found) == 0 || len(left) == 0 || found[0] != left[0] {
		return false
	}
	return slices.ContainsFunc(pokes, func(p poke) bool { // mostly the first one
		old, new := at(&p)
		return len(old) > 0 && len(new) > 0 && old[0] != new[0]
	})
}

// unknown returns that nothing is known to be in a cluster.
func (c *cluster) unknown() *textMemory {
	return &textMemory{c.lo, make([]byte, c.hi-c.lo), make([]bool, c.hi-c.lo)}
}

// before returns what is known to be in a cluster before pokes, which are in v.
func (c *cluster) before(d *build, v Interval, pokes []poke) *textMemory {
	m := c.unknown()
	if s := &d.snapshot; s.From >= d.first && v.From <= s.From && Later(s.To, d.apart()) < pokes[0].time {
		m.read(s.Segments)
	}
	return m
}

// textOrdersIn is textOrders for the pokes of a time in which none is lost. m is what is there before them; fits says
// whether each finds what is there if they came in the order of their times; plain is what c.isPlain says.
func (c *cluster) textOrdersIn(d *build, v Interval, m *textMemory, pokes []poke, plain, fits bool, x *textSearch, budget *int) (all []*orderSet) {
	apart := d.apart()
	since, covered := []uint64{v.From}, m.coveredBy(d, pokes)
	now := &textMemory{c.lo, slices.Clone(m.bytes), slices.Clone(m.known)} // what is there if they came in the order of their times
	for n := 0; len(pokes) > 0; pokes = pokes[n:] {
		n = partOf(pokes, apart)
		if plain && !d.firstGoesRound(pokes, apart) {
			break // what was there first and what is there at the end is the same in any order
		}
		to := v.To
		var next *patch // the one that comes after all of these
		if n < len(pokes) {
			to = pokes[n].time
			if showsBefore(pokes[n:], apart) {
				p := d.patchOf(&pokes[n])
				next = &p
			}
		}
		after := &textMemory{c.lo, m.bytes, make([]bool, len(m.known))}
		o, few := c.ordering(d, m, since, to, pokes[:n], next, x, min(*budget, mostStates))
		switch {
		case !few:
		case d.clocksDiffer() && v.isNearEnd(pokes[0].time, pokes[n-1].time, d.skew):
			o.knowNothing() // some of them may have come before the loss, or others behind it
		case o.searchText(&x.siteOrders) || o.budget < 0 && o.count():
			after = m.after(&o.orderSet)
		}
		if o.can != nil {
			all = append(all, o.result())
			o.leaveOut(covered)
		}
		m = after
		since = nil
		*budget -= o.looked
		if now.change(d, pokes[:n]); fits && m.agrees(now, covered) {
			break // those behind come in the order of their times
		}
	}
	return all
}

// ordering returns the records of pokes without a pause, up to the time to; next comes behind them, if it is known, and
// m is what is there before them, from the times since on. few is false if they have too many values. Up to budget states
// may be looked at.
func (c *cluster) ordering(d *build, m *textMemory, since []uint64, to uint64, pokes []poke, next *patch, x *textSearch, budget int) (o *ordering, few bool) {
	o = &ordering{orderSet: orderSet{lo: c.lo, hi: c.hi, from: pokes[0].time, to: to}, apart: d.apart(), off: d.skew, before: m, since: since, budget: budget}
	x.records, x.patches = d.recordsOf(pokes, x.records[:0], x.patches[:0])
	slices.SortFunc(x.records, orderedRecord.inLanes)
	return o, o.take(x.records, x.patches) && o.bound(next)
}

// nothingKnown is textOrdersIn for pokes without a pause of whose order nothing can be said.
func (c *cluster) nothingKnown(d *build, v Interval, pokes []poke, x *textSearch) []*orderSet {
	m := c.unknown()
	o, few := c.ordering(d, m, []uint64{v.From}, v.To, pokes, nil, x, 0)
	if !few {
		return nil
	}
	o.knowNothing()
	o.leaveOut(m.coveredBy(d, pokes))
	return []*orderSet{o.result()}
}

// searchText is search, by the way that takes the least time.
func (o *ordering) searchText(x *siteOrders) bool {
	if o.isSite() {
		return o.searchSite(x)
	}
	return o.search()
}

// change makes the changes of pokes, in their order.
func (m *textMemory) change(d *build, pokes []poke) {
	for i := range pokes {
		p := d.patchOf(&pokes[i])
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

// coveredBy returns, for each byte, whether some poke covers it.
func (m *textMemory) coveredBy(d *build, pokes []poke) []bool {
	out := make([]bool, len(m.bytes))
	for i, left := 0, len(out); i < len(pokes) && left > 0; i++ {
		p := d.patchOf(&pokes[i])
		for k := range max(len(p.old), len(p.new)) {
			if c := &out[p.addr-m.lo+uint64(k)]; !*c {
				*c = true
				left--
			}
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
		for i := range o.times {
			o.canAt(i)[k] = 0
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
	o.can = make([]uint64, len(o.times)*len(o.values))
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
	o.can = slices.Repeat([]uint64{1 << otherValue}, len(o.times)*len(o.values))
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
				o.canAt(i)[k] |= ends(v)
			}
		}
	}
	return true
}

// after returns what all possible orders leave.
func (m *textMemory) after(o *orderSet) *textMemory {
	x := &textMemory{m.lo, slices.Clone(m.bytes), slices.Clone(m.known)}
	for k, can := range o.canAt(len(o.times) - 1) {
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
