// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"
	"sort"
)

// The search for all orders in which the records of a cluster can have come (orders.go).

// Numbers of values. In a set of values, value k is bit k.
const (
	otherValue = 0  // any, and in a state: not known
	notMade    = 63 // out-of-line code that is to be made
)

// A partOwner says what has the memory of a part.
type partOwner uint8

const (
	ownerBefore partOwner = iota // what was there before all records, if anything
	ownerSeen                    // the same, and a poke shows that it was there
	ownerNone                    // nothing: the memory is free
	ownerMade                    // a program that is being made
	ownerGone                    // code that has died; the memory may not be free yet
	ownerAlive
)

// An orderPart is what is in a part.
type orderPart struct {
	owner   partOwner
	id      uint8 // of the birth, or of the death, of code that is alive or has died
	value   uint8
	awaited uint8 // what perf read of the program that is alive, if that was not there so far; else 0
	retired bool  // a poke removed the code; its bytes stay until the memory is free
}

// unset reports whether what is in a part will show only later.
func (p *orderPart) unset() bool { return p.value == otherValue || p.value == notMade }

// set says that a part has a value now.
func (p *orderPart) set(v uint8) {
	if p.value = v; p.awaited == v {
		p.awaited = 0
	}
}

// An orderState is how many records of each lane have come, and what is in memory then.
type orderState struct {
	taken [mostLanes]uint8
	named uint32 // the programs that are of a birth which has come
	parts [mostParts]orderPart
}

// An orderOutcome is what comes of a state.
type orderOutcome struct {
	state    orderState
	possible bool     // some order goes on from it to the end
	shown    []uint64 // of each part that is unset: the set of what may be there
}

// search finds out what may be in each part at each time. It reports whether some order is possible.
func (o *ordering) search() bool {
	o.outcomes = make(map[orderState]*orderOutcome)
	possible := o.follow(&o.start).possible
	if o.looked = len(o.outcomes); !possible || o.budget < 0 {
		return false
	}
	if o.off > 0 {
		o.perhapsAt()
		return true
	}
	o.can = make([]uint64, len(o.times)*len(o.values))
	when := make(map[[mostLanes]uint8]int) // by how many of each lane have come
	for k, t := range o.times {
		var n [mostLanes]uint8
		for i, lane := range o.lanes {
			n[i] = upToRecord(lane, t)
		}
		when[n] = k
	}
	for _, out := range o.outcomes {
		if k, ok := when[out.state.taken]; ok && out.possible {
			for i := range o.values {
				o.canAt(k)[i] |= out.can(i)
			}
		}
	}
	return true
}

// perhapsAt is for clocks that are seen to differ. What is asked at a time is asked by any of them. So records of other
// CPUs that are so close to it may have come then or not, in each lane:
//
//	time asked                  t
//	                  ├── off ──┼── off ──┤
//	records        r    r         r     r   r
//	        has come  │  may have come    │ has not come
func (o *ordering) perhapsAt() {
	first := o.times[0]
	for _, lane := range o.lanes {
		for _, r := range lane {
			o.times = append(o.times, earlier(r.time, o.off), Later(r.time, o.off+1))
		}
	}
	o.times = slices.DeleteFunc(o.times, func(t uint64) bool { return t < first || t >= o.to })
	slices.Sort(o.times)
	o.times = slices.Compact(o.times)
	o.can = make([]uint64, len(o.times)*len(o.values))
	for k, t := range o.times {
		var least, most [mostLanes]uint8
		for i, lane := range o.lanes {
			most[i] = upToRecord(lane, Later(t, o.off))
			if t > o.off {
				least[i] = upToRecord(lane, t-o.off-1)
			}
		}
		for _, out := range o.outcomes {
			if !out.possible || !between(&least, &out.state.taken, &most) {
				continue
			}
			for i := range o.values {
				o.canAt(k)[i] |= out.can(i)
			}
		}
	}
}

// between reports whether each of n is at least that of least and at most that of most.
func between(least, n, most *[mostLanes]uint8) bool {
	for i := range n {
		if n[i] < least[i] || most[i] < n[i] {
			return false
		}
	}
	return true
}

// upToRecord returns how many records of a lane have time t or an earlier one.
func upToRecord(lane []*orderedRecord, t uint64) uint8 {
	return uint8(sort.Search(len(lane), func(i int) bool { return lane[i].time > t }))
}

// can returns the set of what may be in a part.
func (out *orderOutcome) can(i int) uint64 {
	switch p := &out.state.parts[i]; {
	case p.owner == ownerNone || p.owner == ownerGone:
		return 1 << otherValue
	case p.unset():
		return out.shown[i]
	default:
		return 1 << p.value
	}
}

// follow returns what comes of a state.
func (o *ordering) follow(s *orderState) *orderOutcome {
	if out := o.outcomes[*s]; out != nil {
		return out
	}
	out := &orderOutcome{state: *s, shown: make([]uint64, len(o.values))}
	if o.budget--; o.budget < 0 {
		return out
	}
	o.outcomes[*s] = out
	last := true
	for i, lane := range o.lanes {
		if int(out.state.taken[i]) == len(lane) {
			continue
		}
		last = false
		r := lane[out.state.taken[i]]
		if o.mustWait(&out.state, r) {
			continue
		}
		n := len(o.steps)
		o.step(&out.state, i, r)
		for k := n; k < len(o.steps); k++ { // which grows meanwhile
			if after := o.follow(&o.steps[k]); after.possible {
				out.possible = true
				out.learn(r, after)
			}
		}
		o.steps = o.steps[:n]
	}
	if last {
		o.end(out)
	}
	return out
}

// learn adds what a record, and what comes of the state after it, shows of the unset parts of a state.
func (out *orderOutcome) learn(r *orderedRecord, after *orderOutcome) {
	for k := range out.shown {
		p, q, i := &out.state.parts[k], &after.state.parts[k], k-r.first
		switch {
		case !p.unset():
		case q.owner == p.owner && q.id == p.id && q.value == p.value:
			out.shown[k] |= after.shown[k]
		case r.symbol != nil && q.owner == ownerGone && q.value != otherValue: // perf has read it
			out.shown[k] |= 1 << q.value
		case k < r.first || r.last <= k || q.owner == ownerMade: // other code
			out.shown[k] |= 1 << otherValue
		case i < len(r.old): // the poke found it
			out.shown[k] |= 1 << r.old[i]
		case i < len(r.new) && p.value == notMade: // the poke made it
			out.shown[k] |= 1 << r.new[i]
		default:
			out.shown[k] |= 1 << otherValue
		}
	}
}

// end decides whether a state can be that behind all records. If records are lost then, perf may have read a program
// that changed afterwards, and births may be missing.
func (o *ordering) end(out *orderOutcome) {
	s, open := &out.state, o.to < MaxTime
	out.possible = true
	for i := range o.programs {
		if s.named>>i&1 == 0 && (o.programs[i].own != nil || o.from == 0 && !open) {
			out.possible = false
		}
	}
	for k := range o.values {
		p := &s.parts[k]
		if !open && p.awaited != 0 && !p.unset() {
			out.possible = false
		}
		if o.behind != nil && o.behind[k] != 0 && !p.unset() && p.value != o.behind[k] {
			out.possible = false
		}
		if out.shown[k] = 1 << otherValue; p.awaited != 0 {
			out.shown[k] = 1 << p.awaited
		}
	}
}

// mustWait reports whether another record must come before r.
func (o *ordering) mustWait(s *orderState, r *orderedRecord) bool {
	for i, lane := range o.lanes {
		if int(s.taken[i]) == len(lane) {
			continue
		}
		first, by := lane[s.taken[i]], uint64(0)
		if first.cpu != r.cpu {
			by = o.apart
		}
		if Later(first.time, by) < r.time || first.cpu == r.cpu && first.time == r.time && s.precedes(first, r) {
			return true
		}
	}
	return false
}

// precedes reports whether a comes before b, the next records that one CPU made at one time: out-of-line code is born,
// then made, and removed before it dies.
func (s *orderState) precedes(a, b *orderedRecord) bool {
	switch {
	case a.symbol != nil && b.symbol == nil:
		return a.symbol.Kind == SymbolOutOfLine && !a.symbol.Unregister && len(b.old) == 0 &&
			a.first <= b.first && b.last <= a.last && s.parts[b.first].owner != ownerAlive
	case a.symbol == nil && b.symbol != nil:
		return len(a.new) == 0 && b.symbol.Unregister &&
			b.first <= a.first && a.last <= b.last && s.parts[a.first].owner == ownerAlive && !s.parts[a.first].retired
	}
	return false
}

// step appends to o.steps where r, of the i-th lane, leads from s; nothing: it does not fit.
func (o *ordering) step(s *orderState, i int, r *orderedRecord) {
	start := *s
	start.taken[i]++
	if r.double {
		o.steps = append(o.steps, start)
	}
	switch {
	case r.symbol != nil && !r.symbol.Unregister:
		o.bear(start, r)
	case r.symbol != nil:
		o.bury(start, r)
	default:
		o.poke(start, r)
	}
}

// bear makes code alive where nothing is.
func (o *ordering) bear(s orderState, r *orderedRecord) {
	bpf := r.symbol.Kind == SymbolBPF
	for k := r.first; k < r.last; k++ {
		switch p := &s.parts[k]; p.owner {
		case ownerAlive, ownerSeen:
			return // its death would be recorded
		case ownerGone:
			s.free(p.id)
		case ownerMade:
			if !bpf {
				return
			}
		}
	}
	for k := r.first; k < r.last; k++ {
		p := orderPart{owner: ownerAlive, id: r.id, value: notMade}
		if bpf {
			p.value = s.parts[k].value // what was poked while it was made; else free memory has none
		}
		s.parts[k] = p
	}
	o.steps = append(o.steps, s)
	for i := range o.programs {
		p := &o.programs[i]
		if p.births>>r.id&1 == 0 || s.named>>i&1 != 0 {
			continue
		}
		with := s
		with.named |= 1 << i
		for k, v := range p.values {
			if part := &with.parts[p.first+k]; v != otherValue && part.value != v {
				part.awaited = v
			}
		}
		o.steps = append(o.steps, with)
	}
}

// free frees the memory of code that has died.
func (s *orderState) free(id uint8) {
	for k := range s.parts {
		if p := &s.parts[k]; p.owner == ownerGone && p.id == id {
			*p = orderPart{owner: ownerNone}
		}
	}
}

// bury lets code die: that of a birth, or what was there before all records.
func (o *ordering) bury(s orderState, r *orderedRecord) {
	first := s.parts[r.first]
	if first.owner == ownerAlive {
		if b := o.symbols[first.id]; b.first != r.first || b.last != r.last || !b.symbol.names(r.symbol) {
			return
		}
	}
	for k := r.first; k < r.last; k++ {
		p := &s.parts[k]
		switch {
		case first.owner == ownerAlive && p.owner == ownerAlive && p.id == first.id:
			if p.awaited != 0 {
				if !p.unset() {
					return // perf has read what never was there
				}
				p.set(p.awaited)
			}
			p.owner = ownerGone
		case first.owner <= ownerSeen && p.owner <= ownerSeen:
			p.owner, p.id = ownerGone, r.id
		default:
			return
		}
	}
	o.steps = append(o.steps, s)
}

// poke changes code, or makes or removes out-of-line code. A program that is being made is poked before its birth
// (bpf_tail_call_direct_fixup() in arch/x86/net/bpf_jit_comp.c).
func (o *ordering) poke(s orderState, r *orderedRecord) {
	first := s.parts[r.first]
	one, idle := true, true // all parts are of one piece of code; nothing is certain to be alive
	for k := r.first; k < r.last; k++ {
		p := &s.parts[k]
		one = one && (p.owner == first.owner && p.id == first.id || p.owner <= ownerSeen && first.owner <= ownerSeen)
		idle = idle && p.owner != ownerAlive && p.owner != ownerSeen
	}
	made := s
	switch {
	case len(r.old) == 0 && one && s.create(r), len(r.old) > 0 && one && first.owner != ownerNone && s.change(r):
		o.steps = append(o.steps, s)
	}
	if idle && first.owner != ownerMade && len(r.old) > 0 && len(r.new) > 0 {
		for k := r.first; k < r.last; k++ {
			if p := &made.parts[k]; p.owner == ownerGone {
				made.free(p.id)
			}
		}
		for i := range r.last - r.first {
			p := orderPart{owner: ownerMade}
			if i < len(r.new) {
				p.value = r.new[i]
			}
			made.parts[r.first+i] = p
		}
		o.steps = append(o.steps, made)
	}
}

// create makes out-of-line code. It reports whether there is room for it.
func (s *orderState) create(r *orderedRecord) bool {
	for i, v := range r.new {
		p := &s.parts[r.first+i]
		if p.owner != ownerAlive && p.owner > ownerSeen || !p.unset() && !p.retired {
			return false
		}
		if p.owner == ownerBefore {
			p.owner = ownerSeen
		}
		p.set(v)
		p.retired = false
	}
	return true
}

// change changes what is there, or removes it. It reports whether it finds that.
func (s *orderState) change(r *orderedRecord) bool {
	for i := range r.last - r.first {
		p := &s.parts[r.first+i]
		if p.value == notMade || p.retired && p.owner != ownerGone || len(r.new) == 0 && p.owner == ownerGone {
			return false
		}
		if p.owner == ownerBefore {
			p.owner = ownerSeen
		}
		if i < len(r.old) {
			if p.value != otherValue && p.value != r.old[i] {
				return false
			}
			p.set(r.old[i])
		}
		if i < len(r.new) {
			p.set(r.new[i])
		}
		p.retired = len(r.new) == 0
	}
	return true
}
