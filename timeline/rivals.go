// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"slices"
	"sort"
)

// Pokes of a place whose order the records do not show are rivals of one another (rule clocks).
// There are three kinds: those of times that the clock may have shown twice (unordered), those among
// which links are broken that another order may mend (jumble), and neighbours that fit as well in
// the other order (undecided).

// rival records that the order of these pokes of a site is not known.
func (d *build) rival(list ...poke) {
	different := d.differentOf(list)
	site := d.edits[list[0].edit].site
	if s := d.perSite; s != nil {
		s.add(site, list, different)
		return
	}
	var at uint32
	d.rivals.pokes, at = appendGroup(d.rivals.pokes, different)
	for i := range list {
		d.rivals.put(list[i].order, at)
	}
	d.rivals.has(site, len(d.sites))
}

// differentOf returns the first poke of each edit. It is valid until the next call.
func (d *build) differentOf(list []poke) []poke {
	const few = 16 // more are looked up in a map
	out := d.different[:0]
	var met map[uint32]bool
	for i := range list {
		e := list[i].edit
		if met == nil && len(out) == few {
			met = make(map[uint32]bool)
			for k := range out {
				met[out[k].edit] = true
			}
		}
		if met[e] || met == nil && slices.ContainsFunc(out, func(p poke) bool { return p.edit == e }) {
			continue
		}
		if out = append(out, list[i]); met != nil {
			met[e] = true
		}
	}
	d.different = out
	return out
}

// births returns those of the times that the clock may have shown twice in which code
// comes or goes: in which order is not known.
func (d *build) births() (out gaps) {
	if len(d.twice) == 0 {
		return nil
	}
	has := make([]bool, len(d.twice))
	for i := range d.symbols {
		t := d.symbols[i].Time
		k := sort.Search(len(d.twice), func(k int) bool { return d.twice[k].to > t })
		if k < len(d.twice) && d.twice[k].from <= t {
			has[k] = true
		}
	}
	for k, g := range d.twice {
		if has[k] {
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
	// There may be as many gaps as sites: only those with pokes are looked at.
	for next := 0; next < len(list); {
		gs := d.twice.between(d.timeOf(&list[next]), MaxTime)
		if len(gs) == 0 {
			return
		}
		from := next + sort.Search(len(list)-next, func(i int) bool { return d.timeOf(&list[next+i]) >= gs[0].from })
		to := from + sort.Search(len(list)-from, func(i int) bool { return d.timeOf(&list[from+i]) >= gs[0].to })
		next = to
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

// jumble finds the links that are still broken, and that another order of the pokes around
// them may mend: a clock may be ahead by more than two changes of a place. The order of
// these pokes is then not known.
//
//	made      48 > cc   cc > e9   e9 > cc   cc > 48
//	recorded  48 > cc             e9 > cc   cc > 48   cc > e9
//
// If other records show that clocks differ, no order need be found: the one that mends the
// links may exchange pokes further away too. Nor is one looked for when that has taken very long:
// then the order of those next to a broken link is not known.
func (d *build) jumble(list []poke, differ bool) {
	if d.oneCPU(list) {
		return
	}
	left := leastLooks + looksOfPoke*len(list) // how many pokes are looked at still
	for k := range list {
		p := &list[k]
		if d.rivalsWith(p.order) != nil || k > 0 && d.rivalsWith(list[k-1].order) != nil || d.found(list, k, p, len(d.oldOf(p))) != linkBroken {
			continue
		}
		before, at := d.snapshot.To, d.timeOf(p)
		if k > 0 {
			before = d.timeOf(&list[k-1])
		}
		least, most := 0, len(list)
		if left < 0 {
			least, most = max(0, k-farthest), min(len(list), k+farthest)
		}
		lo, hi := k, k
		for lo > least && at-d.timeOf(&list[lo-1]) <= d.maxSkew {
			lo--
		}
		for hi < most && d.timeOf(&list[hi]) <= Later(before, d.maxSkew) {
			hi++
		}
		if left < 0 {
			if hi-lo > 1 {
				d.rival(list[lo:hi]...)
			}
			continue
		}
		left -= 3 * (hi - lo) // by severalCPUs and mayFit, here and in jumbled
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

// How many pokes jumble looks at: so many, and so many more for each poke of the place. A kernel whose
// records do not fit has few broken links; a forged or damaged recording may have nothing else.
const (
	leastLooks  = 1 << 16
	looksOfPoke = 64
)

// oneCPU reports whether one CPU recorded all pokes of a place.
func (d *build) oneCPU(list []poke) bool {
	for i := range list {
		if d.cpuOf(&list[i]) != d.cpuOf(&list[0]) {
			return false
		}
	}
	return true
}

// jumbled finds out whether another order of the pokes up to the k-th one and behind it fits, of those that
// change code in place and may have come at time t. It reports whether their order is not known, then.
func (d *build) jumbled(list []poke, k int, t uint64) bool {
	lo, hi := k, k
	for lo > 0 && d.timeOf(&list[lo-1]) >= earlier(t, d.maxSkew) && d.inPlace(&list[lo-1], &list[k]) > 0 {
		lo--
	}
	for hi < len(list) && d.timeOf(&list[hi]) <= Later(t, d.maxSkew) && d.inPlace(&list[hi], &list[k]) > 0 {
		hi++
	}
	n := d.severalCPUs(list, lo, hi)
	if n == 0 || !d.mayFit(list, lo, hi, n) {
		return false
	}
	d.rival(list[lo:hi]...)
	return true
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
	tied := d.hasRivals(d.edits[list[0].edit].site)
	for k := 0; k+1 < len(list); k++ {
		p, q := &list[k], &list[k+1]
		if !d.areClose(p, q, apart) {
			continue
		}
		n := d.inPlace(p, q)
		if n == 0 || tied && (d.rivalsWith(p.order) != nil || d.rivalsWith(q.order) != nil) {
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
		if p, q := list[x.k], list[x.k+1]; x.before && x.behind && d.rivalsWith(p.order) == nil && d.rivalsWith(q.order) == nil {
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
	return len(list) > 0 && slices.ContainsFunc(d.rivalsWith(list[len(list)-1].order), func(p poke) bool { return bytes.HasPrefix(d.newOf(&p), b) })
}

// mayHaveFound is mayHaveLeft for the first poke, and what it found.
func (d *build) mayHaveFound(list []poke, b []byte) bool {
	return len(list) > 0 && slices.ContainsFunc(d.rivalsWith(list[0].order), func(p poke) bool { return bytes.HasPrefix(d.oldOf(&p), b) })
}

// breaks reports whether exchanging two changes breaks a link: from was to now.
func breaks(now, was link) bool { return now == linkBroken && was != linkBroken }

// mostRun is how many pokes of one CPU are looked at that may have come before or after those of another.
const mostRun = 4

// undecidedRuns is undecided for the pokes that one CPU made just before list[k], and those that another one made
// from there on, if their order is not known yet:
//
//	recorded  A > B   B > C     C > A
//	or        C > A   A > B     B > C
func (d *build) undecidedRuns(list []poke, k int, apart uint64) {
	run := func(from, step int) (n int) { // how many there are
		for i := from; i >= 0 && i < len(list) && n < mostRun && d.cpuOf(&list[i]) == d.cpuOf(&list[from]) && d.rivalsWith(list[i].order) == nil; i += step {
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

// isAlone reports whether the last fact, up to p, is a poke of kernel text that came behind all others
// of before, even if clocks differ: no other CPU recorded a change of the fragment so shortly before it
// that the two may have come in another order. The snapshot is such a fact too, if it has no trap.
func (c *historyBuilder) isAlone(p *progress, before []change) bool {
	if c.lives || p.weak != ReasonNone || p.torn || c.skew > 0 {
		return false
	}
	if len(before) == 0 {
		return c.source == SourceSnapshot && !bytes.Contains(c.bytes(c.content), []byte{int3})
	}
	last := &before[len(before)-1]
	if c.source != SourcePoke || last.order == noPoke || last.time != p.t {
		return false
	}
	cpu := c.recordedBy(last)
	was, alone, k := c.sameCPU, true, len(before)-2
	for ; k >= 0 && p.t-before[k].time <= c.build.maxSkew; k-- {
		if by := c.recordedBy(&before[k]); by != cpu || by == unknownCPU {
			alone = false
			break
		}
		if was.first <= k && k < was.end {
			k = was.first
		}
	}
	c.sameCPU = changesOfCPU{k + 1, len(before)}
	return alone
}

// changesOfCPU are changes of an epoch that one CPU recorded: [first, end). isAlone has looked at them, and need not
// look at each of them again at the next contradiction.
type changesOfCPU struct{ first, end int }
