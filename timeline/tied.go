// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"slices"
)

// tiedPokes are a place's pokes list[from:to] of one time that several CPUs recorded. Their order
// in the file proves nothing. What they found and left does, if it fits in one order only.
type tiedPokes struct {
	from, to int
	n        int // how many bytes all of them replace; 0: some make code, or retire it
	open     bool
	hard     bool // there are too many orders to look at
}

// How much untie does, since a damaged recording can have very many pokes of one time: mostTied
// is how many pokes of one place and time are ordered, mostOrders how many steps that takes, and
// mostPasses how often what was found is used for those around. More are in no known order.
const (
	mostTied   = 1 << 6
	mostOrders = 1 << 9
	mostPasses = 8
)

// untie finds the orders of a place's pokes of equal times. What is around a group of them may be
// in no known order either, until it is found.
func (d *build) untie(list []poke) {
	var groups []tiedPokes
	in := make(map[int]*tiedPokes) // those that are open, by their first and their last index
	for from, to := 0, 0; from < len(list); from = to {
		for to = from + 1; to < len(list) && to-from < mostTied && list[to].time == list[from].time; {
			to++
		}
		if to-from < 2 || !d.inOrder(list[max(0, from-1):min(len(list), to+1)]) ||
			slices.ContainsFunc(list[from:to], func(p poke) bool { return d.delayed[p.order] > 0 }) {
			continue // the list may not have them at their recorded time
		}
		if n := d.severalCPUs(list, from, to); n > 0 || d.severalMake(list[from:to]) {
			groups = append(groups, tiedPokes{from: from, to: to, n: n, open: true, hard: to-from == mostTied})
		}
	}
	for i := range groups {
		in[groups[i].from], in[groups[i].to-1] = &groups[i], &groups[i]
	}
	again := true
	for pass := 0; again && pass < mostPasses; pass++ {
		again = false
		for i := range groups {
			g := &groups[i]
			if !g.open || g.hard || slices.ContainsFunc(list[g.from:g.to], func(p poke) bool { return d.rivalsWith(p.order) != nil }) {
				continue
			}
			if order := d.orderOf(list, g, in); order != nil {
				d.reorder(list[g.from:g.to], order)
				delete(in, g.from)
				delete(in, g.to-1)
				g.open, again = false, true
			}
		}
	}
	for _, g := range groups {
		if g.open {
			d.rival(list[g.from:g.to]...)
		}
	}
}

// isTied reports whether the order of a poke and of others of the same time is not known.
func (d *build) isTied(p *poke) bool {
	r := d.rivalsWith(p.order)
	return len(r) > 1 && r[0].time == r[len(r)-1].time
}

// foundTied is found for a poke before which open groups may be: one of their last pokes left what it
// found, or none did.
func (d *build) foundTied(list []poke, i int, p *poke, n int, in map[int]*tiedPokes) link {
	g := in[i-1]
	switch {
	case g != nil && g.to == i:
	case n > 0 || i == 0:
		return d.found(list, i, p, n)
	default:
		g = &tiedPokes{from: i - 1, to: i}
	}
	for k := g.from; k < g.to; k++ {
		if d.chains(&list[k], p, min(n, g.n)) {
			return linkFits
		}
	}
	return d.unexplained(&list[i-1], p)
}

// leftTied is left for a poke behind which open groups may be.
func (d *build) leftTied(list []poke, i int, p *poke, n int, in map[int]*tiedPokes) link {
	g := in[i]
	switch {
	case g != nil && g.from == i:
	case n > 0 || i == len(list):
		return d.left(list, i, p, n)
	default:
		g = &tiedPokes{from: i, to: i + 1}
	}
	for k := g.from; k < g.to; k++ {
		if d.chains(p, &list[k], min(n, g.n)) {
			return linkFits
		}
	}
	return d.unexplained(p, &list[i])
}

// chains reports whether q found what p left, in n bytes, or if n is 0 in all: code is made where there
// is none, and none is left where it is retired.
func (d *build) chains(p, q *poke, n int) bool {
	new, old := d.newOf(p), d.oldOf(q)
	if n == 0 {
		return bytes.Equal(new, old)
	}
	return len(new) >= n && len(old) >= n && bytes.Equal(new[:n], old[:n])
}

// severalMake reports whether several CPUs made these pokes, and some make code or retire it.
func (d *build) severalMake(list []poke) bool {
	makes, several := false, false
	for i := range list {
		p := &list[i]
		if d.cpuOf(p) == unknownCPU {
			return false
		}
		several = several || d.cpuOf(p) != d.cpuOf(&list[0])
		makes = makes || len(d.oldOf(p)) == 0 || len(d.newOf(p)) == 0
	}
	return makes && several
}

// orderOf returns the order in which what the pokes of g found and left fits: their indices in g.
// Each CPU's pokes keep their order. Of several orders it returns the first one, if all of them begin
// and end with the same bytes. Otherwise it returns nil.
//
//	recorded  CPU 0  A > B   B > C        CPU 1  D > A
//	made      CPU 1  D > A   CPU 0  A > B   B > C
func (d *build) orderOf(list []poke, g *tiedPokes, in map[int]*tiedPokes) []int {
	part, n := list[g.from:g.to], g.n
	after := make([]int, len(part)) // 1 + the index of the poke before, by the same CPU
	last := make(map[uint16]int)
	sized, same := true, true
	for i := range part {
		cpu := d.cpuOf(&part[i])
		after[i] = last[cpu]
		last[cpu] = i + 1
		sized = sized && (n == 0 || len(d.oldOf(&part[i])) == n)
		same = same && bytes.Equal(d.oldOf(&part[i]), d.oldOf(&part[0])) && bytes.Equal(d.newOf(&part[i]), d.newOf(&part[0]))
	}
	var first, order []int
	differ, steps := false, 0
	done := make([]bool, len(part))
	var try func()
	try = func() {
		if steps++; differ || steps > mostOrders {
			return
		}
		if len(order) == len(part) {
			switch end := &part[order[len(order)-1]]; {
			case d.leftTied(list, g.to, end, n, in) == linkBroken:
			case first == nil:
				first = slices.Clone(order)
			default:
				differ = !sized || !bytes.Equal(d.oldOf(&part[order[0]]), d.oldOf(&part[first[0]])) ||
					!bytes.Equal(d.newOf(end), d.newOf(&part[first[len(first)-1]]))
			}
			return
		}
		for i := range part {
			if done[i] || after[i] > 0 && !done[after[i]-1] {
				continue
			}
			if len(order) == 0 && d.foundTied(list, g.from, &part[i], n, in) == linkBroken ||
				len(order) > 0 && !d.chains(&part[order[len(order)-1]], &part[i], n) {
				continue
			}
			done[i], order = true, append(order, i)
			try()
			done[i], order = false, order[:len(order)-1]
		}
	}
	try()
	g.hard = steps > mostOrders
	switch {
	case differ || g.hard:
		return nil
	case first == nil && same:
		for i := range part {
			order = append(order, i)
		}
		return order
	}
	return first
}

// reorder puts pokes of one time into an order, given by their indices. Pokes of one time are in
// the order of their arrival, so they exchange that, and each keeps its CPU.
func (d *build) reorder(list []poke, order []int) {
	arrived := make([]uint32, len(list))
	for i := range list {
		arrived[i] = list[i].order
	}
	slices.Sort(arrived)
	was := slices.Clone(list)
	cpus := make([]uint16, len(list))
	for i := range was {
		cpus[i] = d.cpuOf(&was[i])
	}
	for i, k := range order {
		list[i] = was[k]
		if list[i].order = arrived[i]; arrived[i] != was[k].order {
			if d.exchanged == nil {
				d.exchanged = make(map[uint32]uint16)
			}
			d.exchanged[arrived[i]] = cpus[k]
		}
	}
}
