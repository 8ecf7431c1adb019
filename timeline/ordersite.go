// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "slices"

// The search for all orders (ordersearch.go) of pokes that all change the same bytes, as nearly all of kernel text do.
// There can be a hundred thousand such sets, so it keeps its memory.
//
// What is there after some pokes of each CPU have come depends on what was there before all of them, and not on their
// order. So a state has what is there for each content that some CPU's first poke finds. These are the states of
// A > B and B > A by CPU 0, and A > B and B > A by CPU 1:
//
//	come of CPU 0 and 1   0 0   1 0   0 1   2 0   1 1   0 2   2 1   1 2   2 2
//	there                 A     B     B     A     no    A     B     B     A      no order leads to 1 1: the second finds B
//
// They are found in this order. Then those from which no order goes on to the end are left out, from the end to the begin.

// siteOrders is the memory of searchSite.
type siteOrders struct {
	first []uint8     // the contents that may be there before all pokes
	all   []siteState // by how many pokes have come
	steps []siteStep
	level int                        // the first state of as many pokes
	index map[[mostLanes]uint8]int32 // these states, if they are many
}

// fewStates is up to how many states of as many pokes are looked at one by one: there are hardly ever more.
const fewStates = 16

// state returns the number of a state of the last level, which is added if it is not there.
func (x *siteOrders) state(taken [mostLanes]uint8) int32 {
	n := len(x.all) - x.level
	if n <= fewStates {
		for i := x.level; i < len(x.all); i++ {
			if x.all[i].taken == taken {
				return int32(i)
			}
		}
	} else if i, ok := x.index[taken]; ok {
		return i
	}
	if n == fewStates {
		if x.index == nil {
			x.index = make(map[[mostLanes]uint8]int32)
		}
		clear(x.index)
		for i := x.level; i < len(x.all); i++ {
			x.index[x.all[i].taken] = int32(i)
		}
	}
	i := int32(len(x.all))
	if n >= fewStates {
		x.index[taken] = i
	}
	x.all = append(x.all, siteState{taken: taken})
	return i
}

// A siteState is how many pokes of each lane have come.
type siteState struct {
	taken [mostLanes]uint8
	there [mostLanes]uint8 // the value of each of siteOrders.first; 0: it is not possible
	ends  uint16           // from which of these some order goes on to the end, as a set
}

// A siteStep leads from one state to another with one more poke.
type siteStep struct {
	from, to int32
	of       uint16 // which of siteOrders.first it is possible for, as a set
}

// isSite reports whether all records are pokes that change the same bytes.
func (o *ordering) isSite() bool {
	if o.before == nil || len(o.values) != 1 {
		return false
	}
	for _, lane := range o.lanes {
		for _, r := range lane {
			if r.double || len(r.old) != 1 || len(r.new) != 1 {
				return false
			}
		}
	}
	return true
}

// searchSite is search for pokes that change the same bytes. It says the same, and looks at as many states.
func (o *ordering) searchSite(x *siteOrders) bool {
	n := 0
	x.first = x.first[:0]
	for _, lane := range o.lanes {
		n += len(lane)
		if found := lane[0].old[0]; !slices.Contains(x.first, found) {
			x.first = append(x.first, found)
		}
	}
	start := &o.start.parts[0]
	if !start.unset() {
		x.first = append(x.first[:0], start.value)
	}
	x.all, x.steps = append(x.all[:0], siteState{}), x.steps[:0]
	copy(x.all[0].there[:], x.first)
	from := 0 // the states after as many pokes
	for o.looked = 1; n > 0 && o.looked <= o.budget; n-- {
		to := len(x.all)
		x.level = to
		for i := from; i < to && o.looked <= o.budget; i++ {
			o.stepsOfSite(x, int32(i))
		}
		from = to
	}
	if o.looked > o.budget {
		o.looked, o.budget = o.budget, -1
		return false
	}
	o.budget -= o.looked
	for i := from; i < len(x.all); i++ {
		for k, v := range x.all[i].there {
			if v != 0 && (o.behind[0] == 0 || v == o.behind[0]) {
				x.all[i].ends |= 1 << k
			}
		}
	}
	for _, s := range slices.Backward(x.steps) {
		x.all[s.from].ends |= x.all[s.to].ends & s.of
	}
	if x.all[0].ends == 0 {
		return false
	}
	o.can = o.canAtTimes(x)
	return true
}

// stepsOfSite adds the states that follow the i-th one.
func (o *ordering) stepsOfSite(x *siteOrders, i int32) {
	s := x.all[i]
	next := MaxTime // the first of those that are still to come
	for l, lane := range o.lanes {
		if k := int(s.taken[l]); k < len(lane) {
			next = min(next, lane[k].time)
		}
	}
	for l, lane := range o.lanes {
		k := int(s.taken[l])
		if k == len(lane) || lane[k].time > Later(next, o.apart) {
			continue // another poke must come before it
		}
		r, of := lane[k], uint16(0)
		for f := range x.first {
			if s.there[f] == r.old[0] {
				of |= 1 << f
			}
		}
		if of == 0 {
			continue
		}
		taken := s.taken
		taken[l]++
		to := x.state(taken)
		for f := range x.first {
			if there := &x.all[to].there[f]; of>>f&1 != 0 && *there == 0 {
				*there = r.new[0]
				o.looked++
			}
		}
		x.steps = append(x.steps, siteStep{i, to, of})
	}
}

// canAtTimes returns what may be there at each time.
func (o *ordering) canAtTimes(x *siteOrders) []uint64 {
	can := make([]uint64, len(o.times))
	var come [mostLanes]uint8
	i := 0 // the states are in the order of how many pokes have come
	for t, time := range o.times {
		for l, lane := range o.lanes {
			for k := int(come[l]); k < len(lane) && lane[k].time <= time; k++ {
				come[l]++
			}
		}
		at := slices.IndexFunc(x.all[i:], func(s siteState) bool { return s.taken == come })
		if at < 0 {
			continue // no order comes by there
		}
		i += at
		for f := range x.first {
			if x.all[i].ends>>f&1 != 0 {
				can[t] |= 1 << x.all[i].there[f]
			}
		}
	}
	return can
}
