// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "slices"

// Births and deaths that CPUs recorded whose clocks differ may have times in the wrong
// order (rule clocks):
//
//	made      a dies  b is born             a is born  a dies
//	recorded  b is born  a dies             a dies  a is born
//
// On the left a birth comes over something alive whose death follows: both fit only if
// they are exchanged. On the right a death comes before its birth. It fits as it is if
// something of this name was there before, so it shows nothing.

// symbolOrder has the indices of symbol events by address, ascending.
type symbolOrder struct {
	at   map[uint64][]int
	next []int // by event: the first event behind it at its address, 0 if there is none
}

func orderOf(events []SymbolEvent) symbolOrder {
	o := symbolOrder{make(map[uint64][]int), make([]int, len(events))}
	for i := range events {
		at := o.at[events[i].Addr]
		if n := len(at); n > 0 {
			o.next[at[n-1]] = i
		}
		o.at[events[i].Addr] = append(at, i)
	}
	return o
}

// after returns the first event behind the i-th one at an address, 0 if there is none.
func (o *symbolOrder) after(events []SymbolEvent, addr uint64, i int) int {
	if events[i].Addr == addr {
		return o.next[i]
	}
	at := o.at[addr]
	if n, _ := slices.BinarySearch(at, i+1); n < len(at) {
		return at[n]
	}
	return 0
}

// exchange keeps the order when events i and k have changed places.
func (o *symbolOrder) exchange(events []SymbolEvent, i, k int) {
	if events[i].Addr == events[k].Addr {
		return
	}
	for _, e := range [...]struct{ now, was int }{{i, k}, {k, i}} {
		at := o.at[events[e.now].Addr]
		n, _ := slices.BinarySearch(at, e.was)
		at[n] = e.now
		slices.Sort(at)
		for n := range at {
			if o.next[at[n]] = 0; n+1 < len(at) {
				o.next[at[n]] = at[n+1]
			}
		}
	}
}

// apart reports whether the clocks of the CPUs that recorded two events may have
// them in the wrong order: a has the lower time.
func (p *liveSet) apart(a, b *SymbolEvent) bool {
	return a.CPU != b.CPU && a.CPU >= 0 && b.CPU >= 0 && a.Time != 0 && b.Time-a.Time <= p.maxSkew &&
		len(p.lost.between(a.Time, Later(b.Time, 1))) == 0
}

// maxBetween is how many events are looked at between two that may be in the wrong
// order.
const maxBetween = 1 << 10

// earlyBirth returns the event that came before the i-th one, a birth, although it is
// recorded later: the death of what this one is born over. It returns 0 if there is
// none.
func (p *liveSet) earlyBirth(events []SymbolEvent, order *symbolOrder, i int) int {
	e := &events[i]
	if e.Unregister || e.CPU < 0 {
		return 0
	}
	l := lifetimeOf(e, nil)
	for _, o := range p.alive.overlapping(l.Lo, l.Hi) {
		if o.IsModule() || o.Kind == BPFImage && o.Lo < l.Lo || l.Kind == BPFImage && o.Lo > l.Lo {
			continue // not ended by it
		}
		k := order.after(events, o.Lo, i)
		if k == 0 || k-i > maxBetween || !events[k].Unregister || !o.is(&events[k]) || !p.apart(e, &events[k]) {
			continue
		}
		if len(p.lost.between(o.From, e.Time)) > 0 {
			continue // its death may have been lost
		}
		if o.Lo == l.Lo && o.is(e) && events[k].Len == e.Len {
			// It may as well be the death of this one.
			if next := order.after(events, o.Lo, k); next == 0 || !events[next].Unregister {
				continue
			}
		}
		if !slices.ContainsFunc(events[i+1:k], func(x SymbolEvent) bool { return x.Addr < l.Hi && l.Lo < x.Addr+uint64(x.Len) }) {
			return k
		}
	}
	return 0
}

// maxTied is how many events of one time are compared with one another.
const maxTied = 1 << 6

// deathsFirst puts the death of one piece of code before the birth of another in its place, if
// two CPUs recorded them at the same time. Their order in the file proves nothing, and the
// place is used again only after the death. events are in the order of time; lost are the gaps in
// the records of births and deaths.
func deathsFirst(events []SymbolEvent, lost gaps) {
	for tied := range ofOneTime(events) {
		if t := tied[0].Time; t != 0 && len(tied) > 1 && len(tied) <= maxTied && len(lost.between(t, Later(t, 1))) == 0 {
			untie(tied)
		}
	}
}

// ofOneTime yields the parts of events, in the order of time, whose events have the same time.
func ofOneTime(events []SymbolEvent) func(yield func([]SymbolEvent) bool) {
	return func(yield func([]SymbolEvent) bool) {
		for lo, hi := 0, 0; lo < len(events); lo = hi {
			for hi = lo + 1; hi < len(events) && events[hi].Time == events[lo].Time; {
				hi++
			}
			if !yield(events[lo:hi]) {
				return
			}
		}
	}
}

// untie moves each death before the births in its place that other CPUs recorded at the same
// time, if none of them is its own.
func untie(events []SymbolEvent) {
	for k := range events {
		died, first := events[k], k
		ok := died.Unregister && died.CPU >= 0
		for i := range events {
			e := &events[i]
			if i == k || !e.overlaps(&died) {
				continue
			}
			own := e.names(&died) && e.Len == died.Len
			ok = ok && e.CPU >= 0 && e.CPU != died.CPU && (e.Unregister || !own)
			if !e.Unregister {
				first = min(first, i)
			}
		}
		if ok {
			copy(events[first+1:k+1], events[first:k])
			events[first] = died
		}
	}
}

// overlaps reports whether two symbols have an address in common.
func (e *SymbolEvent) overlaps(o *SymbolEvent) bool {
	return e.Addr < o.Addr+uint64(o.Len) && o.Addr < e.Addr+uint64(e.Len)
}

// mostUnborn is how many deaths without a birth are kept of an address.
const mostUnborn = 16

// diedUnborn records a death without a birth. l is what it is believed to end; nil: nothing.
func (p *liveSet) diedUnborn(e *SymbolEvent, l *Lifetime) {
	list := p.unborn[e.Addr]
	if len(list) == mostUnborn {
		list = list[1:]
	}
	p.unborn[e.Addr] = append(slices.Clip(list), unbornDeath{e, l})
}

// sameDeath reports whether either of two deaths at one address, of which only one is explained, may be of what
// was there before: they are of one name and length, and closer than clocks can differ.
func (p *liveSet) sameDeath(o, e *SymbolEvent) bool {
	return o.names(e) && o.Len == e.Len && e.Time-o.Time <= p.maxSkew && len(p.lost.between(o.Time, Later(e.Time, 1))) == 0
}

// earlyDeath returns a gap for what e brings, when it may have died, if a death without a birth that
// is recorded before may be its. Then nothing shows that there was code that the death ended.
func (p *liveSet) earlyDeath(e *SymbolEvent) *gap {
	list := p.unborn[e.Addr]
	for i := len(list) - 1; i >= 0; i-- {
		o := list[i].event
		if o.Name != e.Name || o.Kind != e.Kind || o.Len != e.Len || !p.apart(o, e) {
			continue
		}
		switch l := list[i].lifetime; {
		case l == nil:
		case l.early != nil:
			l.seen = l.seen[:len(l.seen)-1] // its own death was recorded before its birth
		default:
			l.uncertain(ClockUncertainty)
		}
		list[i].lifetime = nil // it may be the death of another one of that name, too
		return &gap{e.Time, Later(o.Time, p.maxSkew+1), ClockUncertainty}
	}
	return nil
}

// mayBeNext reports whether the i-th event, a death, may be of code of which another CPU recorded
// the birth behind it. by is when perf announced what was there. If it announced that code, nothing was
// there before:
//
//	recorded    CPU 0: death   CPU 1: birth   CPU 1: birth
//	announced      ├─────────────────────┤
//	made        birth, announced, death, birth
//
// It is not so if that code dies later.
func (p *liveSet) mayBeNext(events []SymbolEvent, order *symbolOrder, i int, by uint64) bool {
	e := &events[i]
	k := order.after(events, e.Addr, i)
	if k == 0 || events[k].Time > by || events[k].Unregister || !events[k].names(e) || events[k].Len != e.Len || !p.apart(e, &events[k]) {
		return false
	}
	next := order.after(events, e.Addr, k)
	return next == 0 || !events[next].Unregister || !events[next].names(e) || events[next].Len != e.Len
}

// maxSkews is how many pairs of records in the wrong order an image lists.
const maxSkews = 1 << 12

// skewed records a pair of records that show that clocks differ.
func (d *build) skewed(s Skew) {
	if s.By() > 0 && len(d.im.skews) < maxSkews && !slices.Contains(d.im.skews, s) {
		d.im.skews = append(d.im.skews, s)
	}
	d.skew = max(d.skew, s.By())
}
