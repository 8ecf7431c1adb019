// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
)

// A change that is recorded shortly before or behind the birth or the death of code may be of the
// code before or behind, where clocks differ (rule clocks). Until the epoch of the other code is
// derived, such changes are kept: early, misfits, former and stray of the historyBuilder.

// outOfOrder returns why what a change leaves is uncertain, although it is the last fact:
// a change may have come later than this one, which made the code, or this one may be of
// what was there before the code, or of what came after it. p is the progress up to the change; those in
// next follow it, and the epoch ends at e1.
func (c *historyBuilder) outOfOrder(p *progress, ch *change, next []change, e1 uint64) Reason {
	unknown, again := p.dead != ReasonNone || c.content == noContent, c.maySucceed(p, ch, e1)
	if p.other = false; !ch.birth && (unknown || c.births && !ch.death && c.makes(ch.time, next)) {
		if first := &c.build.firstEarly; len(c.early) == 0 {
			first[0], c.early = *ch, first[:]
		} else {
			c.early = append(c.early, *ch)
		}
		c.early[len(c.early)-1].opens = c.opens(p, ch)
	}
	switch {
	case ch.birth:
		c.lostBefore = c.lostBefore && p.t == c.begins || len(c.gaps.between(p.t, ch.time)) > 0
		if c.made = c.makingOf(ch); c.mayFollow(ch.new, c.made) || c.rivalsChange(ch) {
			return ClockUncertainty
		}
	case unknown:
		p.other = p.dead == ReasonNone && c.mayBeOfOther(ch, next, e1)
	default:
		p.other = again || ch.hasOld && c.mayPrecede(ch) && (!c.finds(p, ch) || c.mayBeOfLost(ch.time))
	}
	if p.other || !ch.birth && p.dead == ReasonNone && c.mayComeNext(ch) {
		return ClockUncertainty
	}
	return ReasonNone
}

// mayComeNext reports whether a change that is recorded earlier may have come after ch, which changed the code
// that is there: it finds what ch leaves, and did not find what was there when it is recorded.
func (c *historyBuilder) mayComeNext(ch *change) bool {
	return ch.hasNew && c.mayBeFollowed(ch.time) && c.anyStray(ch.time, func(o *change) bool { return c.mayChange(o, ch.new, c.makingOf(ch)) })
}

// wavers reports whether what the last change left, and ch finds again, may have been something else meanwhile:
// another change may have come between that left that, and a third one what ch finds. next are the changes behind ch.
func (c *historyBuilder) wavers(p *progress, ch *change, next []change) bool {
	if p.weak != ClockUncertainty || !ch.hasOld || !c.finds(p, ch) {
		return false
	}
	back := func(o *change) bool {
		return !o.copied && !o.confirms && o.hasNew && c.equal(o.new, ch.old) && !c.equal(o.old, o.new)
	}
	for _, list := range [...][]change{next, c.behind} {
		for i := range soon(list, ch.time, c.build.maxSkew) {
			if back(&list[i]) {
				return true
			}
		}
	}
	return c.anyStray(ch.time, back)
}

// leftLate reports whether a change that is recorded behind ch, also when the code that is there is gone, may have come
// before ch, and left what that finds. next are the changes behind ch until its code ends.
func (c *historyBuilder) leftLate(ch *change, next []change) bool {
	if !c.lives {
		return false // orders of text say that
	}
	for _, list := range [...][]change{next, c.behind} {
		for i := range soon(list, ch.time, c.build.apart()) {
			x := &list[i]
			if x.hasNew && x.hasOld && c.equal(x.new, ch.old) && !c.equal(x.old, x.new) && c.recordedBy(x) != c.recordedBy(ch) {
				return true
			}
		}
	}
	return false
}

// vouches reports whether what ch finds shows what is there behind a loss: ch is not of the code that comes next, nor
// may a change that is recorded later have left that. next are the changes behind ch until the epoch ends at e1.
func (c *historyBuilder) vouches(ch *change, next []change, e1 uint64) bool {
	return !c.lives || !c.leftLate(ch, next) && !(c.next <= Later(ch.time, c.build.apart()) && c.mayBeNext(ch, e1))
}

// anyStray reports whether one of the changes that are recorded shortly before time t is as asked for, of those
// that did not find what was there. The kernel changes the tail calls of a program before its birth. What
// leaves what the program begins with is such a change, if the CPU of the birth recorded it, or clocks agree.
func (c *historyBuilder) anyStray(t uint64, is func(*change) bool) bool {
	for _, list := range [...][]change{c.former, c.early, c.misfits} {
		list = c.shortlyBefore(list, t)
		for i := range list {
			o := &list[i]
			tail := c.kind == BPFProgram && o.time < c.begins && o.hasNew && c.equal(o.new, c.initial) &&
				(c.build.apart() == 0 || c.recordedBy(o) == c.made.cpu)
			if !o.opens && !tail && is(o) {
				return true
			}
		}
	}
	return false
}

// leave ends an epoch: what did not find its code, or came before that, may be of the code that is born at time t.
func (c *historyBuilder) leave(t uint64) {
	if len(c.former)+len(c.early)+len(c.misfits) == 0 {
		return
	}
	scratch := &c.build.former // the first is that of c.former
	all := scratch[1][:0]
	for _, list := range [...][]change{c.former, c.early, c.misfits} {
		for i := range list {
			if Later(list[i].time, c.build.maxSkew) >= t {
				all = append(all, list[i])
			}
		}
	}
	scratch[0], scratch[1] = all, scratch[0]
	if byTime := func(a, b change) int { return cmp.Compare(a.time, b.time) }; !slices.IsSortedFunc(all, byTime) {
		slices.SortStableFunc(all, byTime)
	}
	c.former = all[max(0, len(all)-maxEarly):] // shortlyBefore looks at no more
	c.early, c.misfits = nil, nil
}

// misfit notes that the last one of changes does not find what is there, p being the progress up to it. If no loss
// explains that, what found the same before may be of the code that comes next, too:
//
//	recorded  - > A  A > -           - > B  A > -  - > A
//	made      - > A                                       A > -  - > A  A > -
func (c *historyBuilder) misfit(p *progress, changes []change) {
	n := len(changes) - 1
	ch := changes[n]
	ch.opens = c.opens(p, &ch)
	ch.lost = len(c.gaps.between(p.t, ch.time)) > 0
	if !ch.lost {
		late := max(0, len(c.misfits)-2*farthest)
		known := c.misfits[late:]
		for k := max(0, n-farthest); k < n; k++ {
			if x := &changes[k]; x.hasOld && !x.copied && !x.confirms && c.equal(x.old, ch.old) && !slices.ContainsFunc(known, func(o change) bool { return o.order == x.order }) {
				c.misfits = append(c.misfits, *x)
			}
		}
		if len(known) > 0 && late+len(known) < len(c.misfits) {
			slices.SortStableFunc(c.misfits[late:], func(a, b change) int { return cmp.Compare(a.time, b.time) })
		}
	}
	c.misfits = append(c.misfits, ch)
}

// mayBeFollowed reports whether a change that did not find what was there may have come after time t.
func (c *historyBuilder) mayBeFollowed(t uint64) bool {
	if !c.lives {
		return false // unskew and jumble find those of kernel text
	}
	for _, list := range [...][]change{c.former, c.early, c.misfits} {
		if n := len(list); n > 0 && t-list[n-1].time <= c.build.maxSkew {
			return true
		}
	}
	return false
}

// opens reports whether nothing is known to be there that a change does not find. Before out-of-line code is made,
// nothing is.
func (c *historyBuilder) opens(p *progress, ch *change) bool {
	switch {
	case p.dead != ReasonNone:
		return false
	case c.finds(p, ch):
		return true
	case c.content == noContent:
		return c.kind != OutOfLine || c.made.time == 0 || len(c.gaps.between(c.made.time, ch.time)) > 0
	}
	return len(c.gaps.between(p.t, ch.time)) > 0
}

// makes reports whether the first of these changes that makes code or retires it makes some, so shortly after time t
// that a change of then may have come after that.
func (c *historyBuilder) makes(t uint64, next []change) bool {
	for i := range next[:min(len(next), maxEarly)] {
		if x := &next[i]; x.birth || x.death || x.time-t > c.build.maxSkew {
			return x.birth
		}
	}
	return false
}

// maySucceed reports whether a change may be of other code, as the one before it: it finds what that left.
// The epoch ends at e1.
func (c *historyBuilder) maySucceed(p *progress, ch *change, e1 uint64) bool {
	return p.other && p.weak != ReasonNone && ch.hasOld && c.finds(p, ch) && (c.mayPrecede(ch) || c.mayBeNext(ch, e1))
}

// recordedBy returns the CPU that recorded a change.
func (c *historyBuilder) recordedBy(ch *change) uint16 {
	if ch.copied {
		return unknownCPU
	}
	return c.cpuOf(&poke{order: ch.order})
}

// maxEarly is how many changes are looked at that may have come later than recorded.
const maxEarly = 64

// shortlyBefore returns the last of changes, by time, that are recorded before time t and may have come after it.
func (c *historyBuilder) shortlyBefore(list []change, t uint64) []change {
	list = list[max(0, len(list)-maxEarly):]
	for len(list) > 0 && t-list[0].time > c.build.maxSkew {
		list = list[1:]
	}
	return list
}

// soon returns the first of changes, by time, that are recorded at time t or behind it, by no more than within.
func soon(list []change, t, within uint64) []change {
	list = list[:min(len(list), maxEarly)]
	for n := range list {
		if list[n].time-t > within {
			return list[:n]
		}
	}
	return list
}

// A making is the birth of code, or the change that makes it.
type making struct {
	time     uint64
	recorded uint64 // less than time if a birth was exchanged with a death
	cpu      uint16 // that recorded it
}

func (l *Lifetime) making() making { return making{l.From, l.recorded, l.cpu} }

// makingOf returns the making of the code that a change makes.
func (c *historyBuilder) makingOf(ch *change) making {
	return making{ch.time, ch.time, c.recordedBy(ch)}
}

// mayFollow reports whether a change that is recorded before code was made may have come after it: see mayChange.
// So may one that did not find the code before in a slot, if no loss explains that.
func (c *historyBuilder) mayFollow(code uint32, m making) bool {
	for _, list := range [...][]change{c.former, c.early} {
		list = c.shortlyBefore(list, m.time)
		for i := range list {
			if c.mayChange(&list[i], code, m) {
				return true
			}
		}
	}
	list := c.shortlyBefore(c.misfits, m.time)
	for i := range list {
		if !list[i].lost && c.mayChange(&list[i], code, m) {
			return true
		}
	}
	return false
}

// mayChange reports whether a change that is recorded less than the clocks' greatest difference before
// code was made may have come after it, and left something else.
func (c *historyBuilder) mayChange(ch *change, code uint32, m making) bool {
	return c.mayFind(ch, code, m) && !(ch.hasNew && c.equal(ch.new, code))
}

// mayFind reports whether a change that is recorded before code was made may have come after it: it finds what the
// code begins with. perf may have fetched the code while the change was made. A change by the CPU that recorded
// the birth came after it only if its record does.
func (c *historyBuilder) mayFind(ch *change, code uint32, m making) bool {
	by := c.recordedBy(ch)
	return m.cpu != unknownCPU && by != unknownCPU && (by != m.cpu || m.recorded < m.time && ch.time >= m.recorded) &&
		ch.hasOld && (c.equal(ch.old, code) || c.halfWritten(code, ch)) &&
		len(c.build.gaps[gapsOfCode].between(ch.time, Later(m.time, 1))) == 0
}

// mayHaveMade reports whether a change that is recorded when a program goes at time to, or later where
// clocks differ, may have been of the program, and have made what perf fetched of it: the program's own changes
// neither found nor left that, and it leaves that, or half of it with the trap, and found something else.
// changes are those since the program began.
func (c *historyBuilder) mayHaveMade(code uint32, to uint64, changes []change) bool {
	for i := range changes {
		ch := &changes[i]
		if ch.time > Later(to, c.build.apart()) {
			break
		}
		if !c.halfWritten(code, ch) {
			continue
		}
		if ch.time < to {
			return false
		}
		if !c.equal(ch.old, code) {
			return true
		}
	}
	return false
}

// mayBeOfOther reports whether a change, the first fact of what is there, may be of something else: of
// what was there before, of what comes next, or of what one of the changes in next makes there. The epoch ends at e1.
func (c *historyBuilder) mayBeOfOther(ch *change, next []change, e1 uint64) bool {
	if c.mayBePrior(ch) || ch.hasOld && c.mayBeNext(ch, e1) {
		return true
	}
	for i := range soon(next, ch.time, c.build.maxSkew) {
		x := &next[i]
		if x.birth && c.mayFind(ch, x.new, c.makingOf(x)) {
			return true
		}
	}
	return false
}

// mayPrecede reports whether a change that does not find what was made there, by another
// CPU or at the same time, may have come before that: it is of what was there before.
func (c *historyBuilder) mayPrecede(ch *change) bool {
	by := c.recordedBy(ch)
	m := &c.made
	return m.time > 0 && ch.time-m.time <= c.build.maxSkew && (by != m.cpu || ch.time == m.time) && by != unknownCPU && m.cpu != unknownCPU
}

// mayBePrior reports whether a change, the first fact of what was made there, may have come
// before that: it finds what was there before, or may do so, at the very time, or where clocks differ or
// may do so unseen.
func (c *historyBuilder) mayBePrior(ch *change) bool {
	if !ch.hasOld || !c.mayPrecede(ch) {
		return false
	}
	if c.prior != noContent && c.equal(c.prior, ch.old) {
		return true
	}
	return (c.prior == noContent || c.lostBefore) && (ch.time == c.made.time || c.mayBeExchanged(c.made.time, ch.time))
}

// mayBeOfLost reports whether a change of time t may have come before what was made there, and be of code whose
// records are lost:
//
//	recorded   ░░ loss ░░            birth by CPU 0   A > B by CPU 1
//	made       code that has A                                        A > B   birth of code that has A
func (c *historyBuilder) mayBeOfLost(t uint64) bool {
	return c.lostBefore && c.mayBeExchanged(c.made.time, t)
}

// mayBeExchanged reports whether what two CPUs recorded at times t and u may have come in the other order,
// although nothing about these two shows it. By how much clocks differ is known to be at least c.skew;
// it may be more.
func (c *historyBuilder) mayBeExchanged(t, u uint64) bool {
	return c.skew > 0 && u-t <= c.build.maxSkew || c.build.differ && u-t <= c.build.apart()
}

// rivalsMake reports whether it is unknown in which order ch and others came, which make code here
// or take it away, as those of a slot do.
func (c *historyBuilder) rivalsMake(ch *change) bool {
	return !ch.copied && (c.hasManyRivals(ch) || slices.ContainsFunc(c.rivals.of(ch.order), func(p poke) bool {
		e := &c.edits[p.edit]
		return e.olen == 0 || e.nlen == 0
	}))
}

// rivalsChange reports whether it is unknown if what ch makes was changed or taken away since, by
// changes of which the order is not known.
func (c *historyBuilder) rivalsChange(ch *change) bool {
	return c.hasManyRivals(ch) || slices.ContainsFunc(c.rivals.of(ch.order), func(p poke) bool {
		e := &c.edits[p.edit]
		return ch.offset < uint32(e.olen) && c.equal(e.old+ch.offset, ch.new) && !(ch.offset < uint32(e.nlen) && c.equal(e.new+ch.offset, ch.new))
	})
}

// mayBeNext reports whether a change may have come after the code that ends at e1, by CPUs
// whose clocks differ or may do so unseen: it may be of what was written there next.
func (c *historyBuilder) mayBeNext(ch *change, e1 uint64) bool {
	return c.mayBeExchanged(ch.time, e1) && !ch.retires(e1)
}
