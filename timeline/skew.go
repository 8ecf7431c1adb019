// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"slices"
)

// CPUs whose clocks differ give changes times in the wrong order (rule clocks). This file finds
// neighbours among the pokes of a place that fit only if they are exchanged, and exchanges them;
// tied.go orders pokes of equal times; rivals.go finds those whose order nothing shows; uncertain.go
// has what both mean for the answers; skewlives.go does the same as this file for births and deaths.

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

// AssumedSkew is by how much the clocks of two CPUs are assumed to differ at most, in
// nanoseconds, where they are seen to differ, or may do so (rule clocks).
const AssumedSkew = 50e6

// unknownCPU is a CPU that the recording does not name.
const unknownCPU = 0xffff

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

// cpuOf returns the CPU that recorded a poke.
func (d *build) cpuOf(p *poke) uint16 {
	if cpu, ok := d.exchanged[p.order]; ok {
		return cpu
	}
	return d.Builder.cpuOf(p)
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

// clocksDiffer reports whether records show that the CPUs' clocks differ.
func (d *build) clocksDiffer() bool { return d.skew > d.Builder.skew }

// apart returns by how much the times of two CPUs can be wrong against one another: what the
// records show, or more where clocks are seen to differ or may do so unseen.
func (d *build) apart() uint64 {
	if d.clocksDiffer() || d.differ {
		return max(d.skew, d.apartUnseen())
	}
	return d.skew
}

// apartUnseen returns by how much the times of two CPUs can be wrong against one another if no records
// show it.
func (d *build) apartUnseen() uint64 { return min(d.Builder.maxSkew, AssumedSkew) }

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
		wide[i].from, wide[i].to = earlier(wide[i].from, by), Later(wide[i].to, by)
	}
	return flatten(wide)
}

// earlier returns the time that is by nanoseconds before t. Nothing is before 0.
func earlier(t, by uint64) uint64 { return t - min(t, by) }
