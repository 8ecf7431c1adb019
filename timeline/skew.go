// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
)

// Skew is a pair of records of one place whose times are in the wrong order: the
// place's old and new bytes, or its births and deaths, follow on one another only if
// the one with the later time came first. CPUs' clocks differ, then, by First - Second
// at least (rule clocks).
type Skew struct {
	Addr   uint64
	First  uint64 // recorded time of the one that came first
	Second uint64 // recorded time of the one that followed, less than First
	// The CPUs that recorded them.
	FirstCPU, SecondCPU int
}

// By returns by how much the two clocks differ at least, in nanoseconds.
func (s *Skew) By() uint64 { return s.First - s.Second }

// maxSkew is by how much the clocks of two CPUs are believed to differ at most, in
// nanoseconds, if [Builder.ClocksWithin] is not called. Where the hardware's counters do not
// agree, perf's own clock keeps each CPU within a tick or two of the common time
// (sched_clock_local() in kernel/sched/clock.c), which an emulator stretches by ten and
// more. Records further apart are in the order of their times, and what does not fit is a
// contradiction.
const maxSkew = 1e9

// assumedSkew is by how much the clocks of two CPUs are assumed to differ at most, in
// nanoseconds, where they are seen to differ, or may do so (rule clocks).
const assumedSkew = 50e6

// loadTime is how long before its birth a BPF program may be poked, in nanoseconds: the
// kernel may have other programs of the same object to compile between the two.
const loadTime = 1e9

// unknownCPU is a CPU that the recording does not name.
const unknownCPU = 0xffff

// A link is how two successive pokes of a place fit together.
type link uint8

const (
	linkFits   link = iota // they fit, or nothing shows that they do not
	linkLost               // they do not, but a change between may have gone unrecorded
	linkBroken             // they do not, and nothing is missing
)

// follows reports whether y's old bytes are x's new ones, as far as both go.
func (d *build) follows(x, y *poke) bool {
	p, q := &d.edits[x.edit], &d.edits[y.edit]
	n := min(p.nlen, q.olen)
	return n == 0 || p.new == q.old || bytes.Equal(d.arena[p.new:][:n], d.arena[q.old:][:n])
}

// addressed are lifetimes by their first address, with the largest end of all up to each.
type addressed struct {
	lives []*Lifetime
	ends  []uint64
}

func byAddress(lives []*Lifetime) addressed {
	a := addressed{lives: sortedByLo(lives), ends: make([]uint64, len(lives))}
	end := uint64(0)
	for i, l := range a.lives {
		end = max(end, l.Hi)
		a.ends[i] = end
	}
	return a
}

// sortedByLo returns lifetimes by their first address. Those of one address keep their order.
func sortedByLo(lives []*Lifetime) []*Lifetime {
	type key struct {
		lo uint64
		at int
	}
	keys := make([]key, len(lives)) // so that to compare two loads no lifetime
	for i, l := range lives {
		keys[i] = key{l.Lo, i}
	}
	slices.SortFunc(keys, func(x, y key) int { return cmp.Or(cmp.Compare(x.lo, y.lo), cmp.Compare(x.at, y.at)) })
	out := make([]*Lifetime, len(lives))
	for i, k := range keys {
		out[i] = lives[k.at]
	}
	return out
}

// around yields the lifetimes that have all of [lo, hi).
func (a *addressed) around(lo, hi uint64) func(yield func(*Lifetime) bool) {
	return func(yield func(*Lifetime) bool) {
		n := sort.Search(len(a.lives), func(i int) bool { return a.lives[i].Lo > lo })
		for i := n - 1; i >= 0 && a.ends[i] >= hi; i-- {
			if l := a.lives[i]; l.Hi >= hi && !yield(l) {
				return
			}
		}
	}
}

// onlyPoked reports whether nothing but pokes can have written [lo, hi) in [from, to]:
// it is kernel text, or one lifetime has it all the time. The kernel writes code that
// comes to life with no record before its birth. It pokes the tail calls of a BPF program
// when that is written, a moment before the birth.
func (d *build) onlyPoked(lo, hi, from, to uint64) bool {
	if d.textLo <= lo && hi <= d.textHi {
		return true
	}
	for l := range d.lifetimes.around(lo, hi) {
		if l.From > from && !d.justBefore(l, lo, hi, from) || to >= l.To {
			continue
		}
		switch l.Kind {
		case OutOfLine, BPFProgram:
			return true
		case ModuleText:
			return len(d.gaps[gapsOfModule].between(from, to)) == 0
		}
	}
	return false
}

// justBefore reports whether t is so shortly before the birth of a BPF program, with
// nothing else there since, that a poke of [lo, hi) may be of the program.
func (d *build) justBefore(l *Lifetime, lo, hi, t uint64) bool {
	if l.Kind != BPFProgram || l.From-t > loadTime {
		return false
	}
	for _, lives := range [...]*addressed{&d.lifetimes, &d.brief} {
		for o := range lives.around(lo, hi) {
			if o != l && o.From <= l.From && o.To >= t { // a change at its very end may be of it
				return false
			}
		}
	}
	return true
}

// unexplained says that pokes a and b of a place do not fit together as neighbours:
// whether a change between may have gone unrecorded.
func (d *build) unexplained(a, b *poke) link {
	t, u := min(a.time, b.time), max(a.time, b.time)
	x := &d.edits[a.edit]
	addr := d.sites[x.site].addr
	if len(d.gaps[gapsOfText].between(t, u)) > 0 || !d.onlyPoked(addr, addr+uint64(max(x.olen, x.nlen)), t, u) {
		return linkLost
	}
	return linkBroken
}

// farthest is how many pokes of a place are looked at for what one found or left.
const farthest = 16

// found says how the first n bytes that p found fit what the pokes list[:i] left. A
// place's pokes have several lengths where a kprobe is optimised:
//
//	list[0]   ├─────────┤
//	list[1]   ├─┤
//	p         ├─────────┤   found the first byte of list[1], the others of list[0]
func (d *build) found(list []poke, i int, p *poke, n int) link {
	old := d.oldOf(p)[:n]
	if i == 0 {
		if b := d.copiedText(p, n); b != nil && !bytes.Equal(b, old) && len(d.gaps[gapsOfText].between(d.snapshot.From, p.time)) == 0 {
			return linkBroken
		}
	}
	for done, j := 0, i-1; j >= max(0, i-farthest) && done < n; j-- {
		new := d.newOf(&list[j])
		if len(new) == 0 {
			break // it was gone
		}
		if m := min(len(new), n); m > done {
			if !bytes.Equal(new[done:m], old[done:m]) {
				return d.unexplained(&list[j], p)
			}
			done = m
		}
	}
	return linkFits
}

// left says how the first n bytes that p left fit what the pokes list[i:] found.
func (d *build) left(list []poke, i int, p *poke, n int) link {
	new := d.newOf(p)[:n]
	for done, j := 0, i; j < min(len(list), i+farthest) && done < n; j++ {
		old := d.oldOf(&list[j])
		if len(old) == 0 {
			break
		}
		if m := min(len(old), n); m > done {
			if !bytes.Equal(old[done:m], new[done:m]) {
				return d.unexplained(p, &list[j])
			}
			done = m
		}
	}
	return linkFits
}

// copiedText returns what the snapshot, if it was taken before p, has at p's place in
// kernel text: n bytes, or nil.
func (d *build) copiedText(p *poke, n int) []byte {
	addr := d.sites[d.edits[p.edit].site].addr
	segs := d.snapshot.Segments
	if p.time <= d.snapshot.To || addr < d.textLo || addr+uint64(n) > d.textHi {
		return nil
	}
	i := sort.Search(len(segs), func(i int) bool { return segs[i].End() > addr })
	if i == len(segs) || segs[i].Addr > addr || addr+uint64(n) > segs[i].End() {
		return nil
	}
	return segs[i].Data[addr-segs[i].Addr:][:n]
}

func (d *build) oldOf(p *poke) []byte { e := &d.edits[p.edit]; return d.arena[e.old:][:e.olen] }
func (d *build) newOf(p *poke) []byte { e := &d.edits[p.edit]; return d.arena[e.new:][:e.nlen] }

// inPlace returns how many bytes two pokes both replace, 0 if one of them makes code
// or retires it.
func (d *build) inPlace(p, q *poke) int {
	x, y := &d.edits[p.edit], &d.edits[q.edit]
	if x.olen != x.nlen || y.olen != y.nlen {
		return 0
	}
	return int(min(x.olen, y.olen))
}

// unskew finds neighbours among a place's pokes that CPUs with differing clocks
// recorded in the wrong order, and exchanges them. Two links that nothing else
// explains must be mended by it. One alone may be an unrecorded change as
// well. So may both be if a link of the exchanged pokes does not fit, where a change may
// have been lost. Which of the two came first is then not known. Times that the clock may
// have shown twice are left to unordered.
func (d *build) unskew(list []poke) {
	d.untie(list)
	for k := 0; k+1 < len(list); k++ {
		if !d.inOrder(list[max(0, k-1):min(len(list), k+3)]) {
			continue
		}
		p, q := list[k], list[k+1]
		cx, cy, n := d.cpuOf(&p), d.cpuOf(&q), d.inPlace(&p, &q)
		if cx == cy || cx == unknownCPU || cy == unknownCPU || p.time > q.time || q.time-p.time > d.maxSkew || n == 0 {
			continue
		}
		if d.delayed[p.order] > 0 || d.delayed[q.order] > 0 {
			continue // the list has neither at its recorded time
		}
		if p.time == q.time || d.isTied(&p) || d.isTied(&q) {
			continue
		}
		// What has no known order shows nothing at its end.
		after := k > 0 && d.isTied(&list[k-1])
		ahead := k+2 < len(list) && d.isTied(&list[k+2])
		broken := 0
		for _, l := range []link{unless(after, d.found(list, k, &p, n)), d.left(list[:k+2], k+1, &p, n), unless(ahead, d.left(list, k+2, &q, n))} {
			if l == linkBroken {
				broken++
			}
		}
		before, behind := unless(after, d.found(list, k, &q, n)), unless(ahead, d.left(list, k+2, &p, n))
		if broken == 0 || len(d.gaps[gapsOfText].between(p.time, q.time)) > 0 ||
			before == linkBroken || !bytes.Equal(d.newOf(&q)[:n], d.oldOf(&p)[:n]) || behind == linkBroken {
			continue
		}
		if broken == 1 || before == linkLost || behind == linkLost {
			d.rival(p, q)
			continue
		}
		if d.mayBeLast(list, k, n) {
			d.rival(p, q, list[k+2])
			k += 2
			continue
		}
		if d.moved == nil {
			d.moved = make(map[uint32]uint64)
		}
		d.skewed(Skew{Addr: d.sites[d.edits[p.edit].site].addr, First: q.time, FirstCPU: int(cy), Second: p.time, SecondCPU: int(cx)})
		d.moved[q.order], d.moved[p.order] = p.time, q.time
		list[k], list[k+1] = q, p
		k++
	}
}

// mayBeLast reports whether three pokes fit as well if the second one, which fits as the first of them,
// was the last. Nothing says then which clock is wrong:
//
//	recorded  A > B   C > A   B > C
//	either            C > A           A > B   B > C
//	or        A > B           B > C           C > A
func (d *build) mayBeLast(list []poke, k, n int) bool {
	if k+2 >= len(list) || !d.inOrder(list[k+2:min(len(list), k+4)]) {
		return false
	}
	p, q, r := &list[k], &list[k+1], &list[k+2]
	by := d.cpuOf(r)
	n = min(n, d.inPlace(q, r))
	return n > 0 && by != d.cpuOf(q) && by != unknownCPU && r.time-q.time <= d.maxSkew && d.delayed[r.order] == 0 &&
		d.found(list, k, p, n) != linkBroken && bytes.Equal(d.newOf(p)[:n], d.oldOf(r)[:n]) &&
		bytes.Equal(d.newOf(r)[:n], d.oldOf(q)[:n]) && d.left(list, k+3, q, n) != linkBroken
}

// inOrder reports whether pokes of a place came in the order of their times, as far as the
// clock's being set back says: none is of times that it may have shown twice. There the
// order of two CPUs is not known. So what does not fit there, or next to it, does not show
// which pokes to exchange:
//
//	shown twice   ├──────────────────────────┤
//	recorded         B > C         A > B            C > A
//	exchanged        B > C                          C > A   A > B    seems to fit
//	made             A > B         B > C            C > A            the clock was set back between
func (d *build) inOrder(list []poke) bool {
	return !slices.ContainsFunc(list, func(p poke) bool {
		t := d.timeOf(&p)
		return len(d.twice.between(t, t+1)) > 0
	})
}

// unless returns linkLost if tied is set, else l.
func unless(tied bool, l link) link {
	if tied {
		return linkLost
	}
	return l
}

// isTied reports whether the order of a poke and of others of the same time is not known.
func (d *build) isTied(p *poke) bool {
	r := d.rivals[p.order]
	return len(r) > 1 && r[0].time == r[len(r)-1].time
}

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
			if !g.open || g.hard || slices.ContainsFunc(list[g.from:g.to], func(p poke) bool { return d.rivals[p.order] != nil }) {
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

// severalMake reports whether several CPUs made these pokes, some of which make code or retire it.
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

// cpuOf returns the CPU that recorded a poke.
func (d *build) cpuOf(p *poke) uint16 {
	if cpu, ok := d.exchanged[p.order]; ok {
		return cpu
	}
	return d.Builder.cpuOf(p)
}

// births returns those of the times that the clock may have shown twice in which code
// comes or goes: in which order is not known.
func (d *build) births() (out gaps) {
	for _, g := range d.twice {
		if slices.ContainsFunc(d.symbols, func(e SymbolEvent) bool { return g.from <= e.Time && e.Time < g.to }) {
			out = append(out, g)
		}
	}
	return out
}

// unordered looks at a place's pokes, sorted by time, whose times the clock may have shown
// twice. The pokes of one CPU are in order. If several CPUs made some, it is not known which
// CPU's came first, or last. That does not matter if the first poke of every CPU found the
// same bytes, and the last poke of every CPU left the same.
func (d *build) unordered(list []poke) {
	for _, g := range d.twice {
		from := sort.Search(len(list), func(i int) bool { return d.timeOf(&list[i]) >= g.from })
		to := sort.Search(len(list), func(i int) bool { return d.timeOf(&list[i]) >= g.to })
		first, last := make(map[uint16]int), make(map[uint16]int) // by CPU
		for i := from; i < to; i++ {
			cpu := d.cpuOf(&list[i])
			if last[cpu] = i; len(first) < len(last) {
				first[cpu] = i
			}
		}
		differ := false
		for cpu, i := range last {
			begins, ends := &d.edits[list[first[cpu]].edit], &d.edits[list[i].edit]
			begin, end := &d.edits[list[from].edit], &d.edits[list[to-1].edit]
			sized := ends.nlen == end.nlen && begins.olen == begin.olen // the bytes that are made have no old ones
			differ = differ || !sized || ends.new != end.new || begins.old != begin.old
		}
		if differ {
			d.rival(list[from:to]...)
		}
	}
}

// rival records that the order of these pokes is not known.
func (d *build) rival(list ...poke) {
	if d.rivals == nil {
		d.rivals, d.tied = make(map[uint32][]poke), make(map[uint32][]uint64)
	}
	var different []poke // by what they do
	met := make(map[uint32]bool)
	for i := range list {
		if e := list[i].edit; !met[e] {
			met[e] = true
			different = append(different, list[i])
		}
	}
	for i := range list {
		d.rivals[list[i].order] = different
		site := d.edits[list[i].edit].site
		d.tied[site] = append(d.tied[site], d.timeOf(&list[i]))
	}
}

// jumble finds the links that are still broken, and that another order of the pokes around
// them may mend: a clock may be ahead by more than two changes of a place. The order of
// these pokes is then not known.
//
//	made      48 > cc   cc > e9   e9 > cc   cc > 48
//	recorded  48 > cc             e9 > cc   cc > 48   cc > e9
//
// If other records show that clocks differ, no order need be found: the one that mends the
// links may exchange pokes further away too.
func (d *build) jumble(list []poke, differ bool) {
	for k := range list {
		p := &list[k]
		if d.rivals[p.order] != nil || k > 0 && d.rivals[list[k-1].order] != nil || d.found(list, k, p, len(d.oldOf(p))) != linkBroken {
			continue
		}
		before, at := d.snapshot.To, d.timeOf(p)
		if k > 0 {
			before = d.timeOf(&list[k-1])
		}
		lo, hi := k, k
		for lo > 0 && at-d.timeOf(&list[lo-1]) <= d.maxSkew {
			lo--
		}
		for hi < len(list) && d.timeOf(&list[hi]) <= later(before, d.maxSkew) {
			hi++
		}
		if n := d.severalCPUs(list, lo, hi); n > 0 && (differ || d.mayFit(list, lo, hi, n)) {
			d.rival(list[lo:hi]...)
			continue
		}
		// What came between the two may be recorded behind the second one, or before the first one.
		if !d.jumbled(list, k, at) {
			d.jumbled(list, k, before)
		}
	}
}

// jumbled finds out whether another order of the pokes up to the k-th one and behind it fits, of those that
// change code in place and may have come at time t. It reports whether their order is not known, then.
func (d *build) jumbled(list []poke, k int, t uint64) bool {
	lo, hi := k, k
	for lo > 0 && d.timeOf(&list[lo-1]) >= earlier(t, d.maxSkew) && d.inPlace(&list[lo-1], &list[k]) > 0 {
		lo--
	}
	for hi < len(list) && d.timeOf(&list[hi]) <= later(t, d.maxSkew) && d.inPlace(&list[hi], &list[k]) > 0 {
		hi++
	}
	n := d.severalCPUs(list, lo, hi)
	if n == 0 || !d.mayFit(list, lo, hi, n) {
		return false
	}
	d.rival(list[lo:hi]...)
	return true
}

// undecided finds neighbours by several CPUs, not more than apart nanoseconds from one another,
// that may have come in the other order as well: that breaks no link at either end that theirs does
// not. Where a change may have been lost, or other code may have been there, that they fit proves
// nothing. Which of the two came first is then not known.
//
//	lost   ░░░░░░░                  ░░░░░░░
//	recorded         A > B   B > A                        A, B, A
//	or               B > A   A > B                        B, A, B
//
// Nor does a link to two others show their order, if they may have come in the other order together:
//
//	lost   ░░░░░░░                                        ░░░░░░░
//	recorded         A > B   B > A       A > B   B > A                A, B, A, B, A
//	or               B > A   A > B       B > A   A > B                B, A, B, A, B
//
// Where the order of the changes before or behind is not known already, the link to them shows nothing
// if one of them has the other end of it.
func (d *build) undecided(list []poke, apart uint64) {
	var all []exchange
	tied := len(d.tied[d.edits[list[0].edit].site]) > 0
	for k := 0; k+1 < len(list); k++ {
		p, q := &list[k], &list[k+1]
		if !d.areClose(p, q, apart) {
			continue
		}
		n := d.inPlace(p, q)
		if n == 0 || tied && (d.rivals[p.order] != nil || d.rivals[q.order] != nil) {
			continue
		}
		old, new := d.oldOf(q)[:n], d.newOf(p)[:n] // at the ends, if they are exchanged
		if !bytes.Equal(d.newOf(q)[:n], d.oldOf(p)[:n]) || bytes.Equal(d.newOf(q)[:n], new) {
			continue
		}
		x := exchange{
			k:      k,
			before: !breaks(d.found(list, k, q, n), d.found(list, k, p, n)) || d.mayHaveLeft(list[:k], old),
			behind: !breaks(d.left(list, k+2, p, n), d.left(list, k+2, q, n)) || d.mayHaveFound(list[k+2:], new),
		}
		// The two before may be exchanged with these.
		for i := len(all) - 1; i >= 0 && all[i].k >= k-2; i-- {
			if all[i].k == k-2 && bytes.HasPrefix(d.newOf(&list[k-2]), old) {
				x.with = i + 1
				x.before = x.before || all[i].before
			}
		}
		all = append(all, x)
	}
	for i := len(all) - 1; i >= 0; i-- {
		if x := &all[i]; x.with > 0 && x.behind {
			all[x.with-1].behind = true
		}
	}
	for _, x := range all {
		if p, q := list[x.k], list[x.k+1]; x.before && x.behind && d.rivals[p.order] == nil && d.rivals[q.order] == nil {
			d.rival(p, q)
		}
	}
	addr := d.sites[d.edits[list[0].edit].site].addr
	if d.textLo <= addr && addr < d.textHi && !d.clocksDiffer() {
		return // many pokes of text are close
	}
	for k := 1; k < len(list); k++ {
		if d.areClose(&list[k-1], &list[k], apart) {
			d.undecidedRuns(list, k, apart)
		}
	}
}

// mostRun is how many pokes of one CPU are looked at that may have come before or after those of another.
const mostRun = 4

// undecidedRuns is undecided for the pokes that one CPU made just before list[k], and those that another one made
// from there on, if their order is not known yet:
//
//	recorded  A > B   B > C     C > A
//	or        C > A   A > B     B > C
func (d *build) undecidedRuns(list []poke, k int, apart uint64) {
	run := func(from, step int) (n int) { // how many there are
		for i := from; i >= 0 && i < len(list) && n < mostRun && d.cpuOf(&list[i]) == d.cpuOf(&list[from]) && d.rivals[list[i].order] == nil; i += step {
			n++
		}
		return n
	}
	back, ahead := run(k-1, -1), run(k, 1)
	for i := k - 1; i >= k-back; i-- {
		for j := k; j < k+ahead && d.timeOf(&list[j])-d.timeOf(&list[i]) <= apart; j++ {
			if n := d.chained(list, i, j); (i < k-1 || j > k) && n > 0 &&
				bytes.Equal(d.newOf(&list[j])[:n], d.oldOf(&list[i])[:n]) && !bytes.Equal(d.newOf(&list[j])[:n], d.newOf(&list[k-1])[:n]) &&
				!breaks(d.found(list, i, &list[k], n), d.found(list, i, &list[i], n)) && !breaks(d.left(list, j+1, &list[k-1], n), d.left(list, j+1, &list[j], n)) {
				d.rival(list[i : j+1]...)
				return
			}
		}
	}
}

// chained returns how many bytes all of list[i] to list[j] replace, if each finds what the one before it left; otherwise 0.
func (d *build) chained(list []poke, i, j int) int {
	n := d.inPlace(&list[i], &list[i])
	for x := i + 1; x <= j && n > 0; x++ {
		if n = min(n, d.inPlace(&list[x], &list[x])); !bytes.Equal(d.newOf(&list[x-1])[:n], d.oldOf(&list[x])[:n]) {
			return 0
		}
	}
	return n
}

// mayBeUndecided reports whether undecided can find any.
func (d *build) mayBeUndecided(list []poke, apart uint64) bool {
	for k := 0; k+1 < len(list); k++ {
		if d.areClose(&list[k], &list[k+1], apart) {
			return true
		}
	}
	return false
}

// areClose reports whether p and its successor q are by two CPUs, and not more than apart
// nanoseconds from one another. Nearly all are further apart.
func (d *build) areClose(p, q *poke, apart uint64) bool {
	if d.timeOf(q)-d.timeOf(p) > apart {
		return false
	}
	x, y := d.cpuOf(p), d.cpuOf(q)
	return x != y && x != unknownCPU && y != unknownCPU
}

// An exchange is of two neighbours in a list of pokes.
type exchange struct {
	k              int  // the first of them
	with           int  // 1 + the index of the exchange of the two before, if both fit together
	before, behind bool // it, perhaps with others, breaks no link before it, and none behind
}

// mayHaveLeft reports whether the order of the last poke is not known, and one of those that may be
// the last left these bytes.
func (d *build) mayHaveLeft(list []poke, b []byte) bool {
	return len(list) > 0 && slices.ContainsFunc(d.rivals[list[len(list)-1].order], func(p poke) bool { return bytes.HasPrefix(d.newOf(&p), b) })
}

// mayHaveFound is mayHaveLeft for the first poke, and what it found.
func (d *build) mayHaveFound(list []poke, b []byte) bool {
	return len(list) > 0 && slices.ContainsFunc(d.rivals[list[0].order], func(p poke) bool { return bytes.HasPrefix(d.oldOf(&p), b) })
}

// breaks reports whether exchanging two changes breaks a link: from was to now.
func breaks(now, was link) bool { return now == linkBroken && was != linkBroken }

// severalCPUs returns how many bytes the pokes list[lo:hi] all replace, if several CPUs
// recorded them, or 0.
func (d *build) severalCPUs(list []poke, lo, hi int) int {
	if hi-lo < 2 {
		return 0
	}
	n := 1 << 16
	several := false
	cpu := d.cpuOf(&list[lo])
	for i := lo; i < hi; i++ {
		p := &list[i]
		c := d.cpuOf(p)
		if several = several || c != cpu; c == unknownCPU {
			return 0
		}
		n = min(n, d.inPlace(p, p))
	}
	if !several {
		return 0
	}
	return n
}

// mayFit reports whether list[lo:hi] may be a chain in another order: what one leaves
// another finds, but for the first and the last. Each replaces n bytes or more.
func (d *build) mayFit(list []poke, lo, hi, n int) bool {
	found := make(map[string]int) // how much more often than left
	for i := lo; i < hi; i++ {
		found[string(d.oldOf(&list[i])[:n])]++
		found[string(d.newOf(&list[i])[:n])]--
	}
	first, last := 1, 1 // how many may be neither left nor found
	for i := lo + 1; i < hi; i++ {
		if d.unexplained(&list[i-1], &list[i]) == linkLost {
			first, last = first+1, last+1 // other bytes may have come between
		}
	}
	b := d.copiedText(&list[lo], n)
	if lo > 0 {
		b = nil
		if d.unexplained(&list[lo-1], &list[lo]) == linkBroken {
			b = d.newOf(&list[lo-1])
		}
	}
	if len(b) >= n {
		found[string(b[:n])]--
		first--
	}
	if hi < len(list) && d.unexplained(&list[hi-1], &list[hi]) == linkBroken {
		if b := d.oldOf(&list[hi]); len(b) >= n {
			found[string(b[:n])]++
			last--
		}
	}
	for _, k := range found {
		first -= max(k, 0)
		last += min(k, 0)
	}
	return first >= 0 && last >= 0
}

// timeOf returns the time of a poke in the order in which its place's pokes
// came.
func (d *build) timeOf(p *poke) uint64 {
	if d.moved != nil {
		if t, ok := d.moved[p.order]; ok {
			return t
		}
	}
	return p.time
}

// rivalsOf returns the pokes for which it is unknown whether they came before ch or
// after, as far as they change the place too; nil if there are none.
func (c *historyBuilder) rivalsOf(ch *change) (out []poke) {
	if c.rivals == nil || ch.copied {
		return nil
	}
	for _, p := range c.rivals[ch.order] {
		if ch.offset < uint32(c.edits[p.edit].olen) {
			out = append(out, p)
		}
	}
	if len(out) < 2 {
		return nil
	}
	return out
}

// unsettled makes the time around a change conflicting that may have come
// before its rivals or after: everything that any of them says.
func (c *historyBuilder) unsettled(from, to uint64, ch *change, rivals []poke) {
	var claims []claim
	if c.content != noContent {
		claims = append(claims, c.claim(from))
	}
	claims = c.differing(claims, claim{ch.recorded, ch.old, SourcePoke, true}, claim{ch.recorded, ch.new, SourcePoke, false})
	for i := range rivals {
		e := &c.edits[rivals[i].edit]
		claims = c.differing(claims, claim{rivals[i].time, e.old + ch.offset, SourcePoke, true}, claim{rivals[i].time, e.new + ch.offset, SourcePoke, false})
	}
	c.conflict(from, to, OldBytesMismatch, claims...)
	c.excuse(true)
}

// differing appends to claims those of more that say what none before them does.
func (c *historyBuilder) differing(claims []claim, more ...claim) []claim {
	for _, x := range more {
		if !slices.ContainsFunc(claims, func(o claim) bool { return c.equal(o.content, x.content) }) {
			claims = append(claims, x)
		}
	}
	return claims
}

// clocksDiffer reports whether records show that the CPUs' clocks differ.
func (d *build) clocksDiffer() bool { return d.skew > d.Builder.skew }

// apart returns by how much the times of two CPUs can be wrong against one another: what the
// records show, or more where clocks are seen to differ or may do so unseen.
func (d *build) apart() uint64 {
	if d.clocksDiffer() || d.differ {
		return max(d.skew, min(d.Builder.maxSkew, assumedSkew))
	}
	return d.skew
}

// widen makes gaps longer at both ends by how far CPUs' clocks may differ. What
// was before the recording stays as it is: whichever clock a later record's
// time is of, it was taken when all events were open.
func (g gaps) widen(by uint64) gaps {
	if by == 0 {
		return g
	}
	wide := slices.Clone(g)
	for i := range wide {
		if wide[i].reason == OutsideRecording {
			continue
		}
		wide[i].from, wide[i].to = earlier(wide[i].from, by), later(wide[i].to, by)
	}
	return flatten(wide)
}

// earlier and later move a time by the uncertainty of a clock.
func earlier(t, by uint64) uint64 { return t - min(t, by) }
func later(t, by uint64) uint64   { return t + min(MaxTime-t, by) }

// uncertain makes what was emitted near a change in flight: with clocks that
// differ, the asked time may be before the change or after it. births are the
// times when what is here came or went.
func (c *historyBuilder) uncertain(changes []change, births []uint64) {
	by := c.skew
	if by == 0 {
		return
	}
	times := slices.Clone(births)
	for i := range changes {
		times = append(times, changes[i].time)
	}
	slices.Sort(times)
	for i := 0; i < len(times); {
		from, to := earlier(times[i], by), later(times[i], by+1)
		for i++; i < len(times) && earlier(times[i], by) <= to; i++ {
			to = later(times[i], by+1)
		}
		c.blur(from, to, changes)
	}
}

// blur makes [from, to) in flight where all of it is known.
func (c *historyBuilder) blur(from, to uint64, changes []change) {
	known := true
	var claims []claim // different contents
	for k, end := c.versionAt(from), c.versionAt(to-1); k <= end; k++ {
		known = known && c.out[k].standing == Known
	}
	// The last of the claims is what is there when all is over.
	last := claimOf(&c.out[c.versionAt(to-1)])
	for i := range changes {
		if ch := &changes[i]; ch.time >= from && ch.time < to {
			if ch.hasOld {
				claims = c.differing(claims, claim{ch.recorded, ch.old, SourcePoke, true})
			}
			if ch.hasNew {
				last = claim{ch.recorded, ch.new, SourcePoke, false}
				claims = c.differing(claims, last)
			}
		}
	}
	if known {
		if len(claims) < 2 {
			return // nothing changes
		}
		// The first and the last are the two sides, of equal content or not.
		between := slices.DeleteFunc(claims[1:], func(o claim) bool { return c.equal(o.content, last.content) })
		claims = append(claims[:1+len(between)], last)
		i := c.disputed(from, to, ClockUncertainty, claims)
		c.overlay(from, to, func(v version, _ uint64) {
			c.put(version{v.since, state{content: i, standing: InFlight, reason: ClockUncertainty, source: SourcePoke}})
		})
		return
	}
	c.overlay(from, to, func(v version, _ uint64) {
		if v.standing == Known {
			v.standing, v.reason = Unconfirmed, ClockUncertainty
		}
		c.put(v)
	})
}
