// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"slices"
	"sort"
)

// The time of a fragment is cut into epochs: times in which the same code is there, or none
// (see historyBuilder). Here is where each epoch begins, which gaps count in it, and which
// copy it begins with. historyBuilder.alive and historyBuilder.unowned do the rest.

// history derives the versions of a fragment: one epoch for each lifetime that was
// there, and one for each time between. They are valid until the next call.
func (d *build) history(w *fragmenter, p *piece, f *fragment) fragmentHistory {
	pokes := w.pokesOf(p.sites)
	c := historyBuilder{build: d, f: f, padding: p.padding, thunk: p.thunk, out: d.out[:0], room: leastClaims + claimsOfPoke*len(pokes)}
	var changes []change
	var births []uint64
	if p.text {
		class := gapsOfText
		if p.padding {
			class = gapsOfThunk
		}
		c.gaps, c.bare = d.gaps[class], NeverRecorded
		if class == gapsOfText {
			c.pairs = d.pairs
		}
		c.addLocalGaps(p.lo)
		init := c.fromSnapshot(ReasonNone)
		from, to := c.findChain(p, &init, pokes)
		c.ahead, c.chained = pokes[from:], to-from
		changes = d.changesOf(f, pokes[:from])
		c.out = slices.Grow(c.out, len(changes)+4)
		c.misfits = d.misfits[:0]
		c.alive(0, MaxTime, init, changes)
		d.misfits = c.misfits
	} else {
		changes = d.changesOf(f, pokes)
		c.out = slices.Grow(c.out, len(changes)+4)
		here := w.lifetimesOver(p)
		c.throughLifetimes(here, changes)
		births = make([]uint64, 0, 2*len(here))
		for _, l := range here {
			births = append(births, l.From, l.To)
		}
	}
	c.uncertain(changes, births)
	c.inFlight()
	c.doubtOrder()
	c.weave(changes)
	d.out = c.out
	if len(c.chain) == 0 {
		return fragmentHistory{before: c.out}
	}
	return fragmentHistory{c.out[:c.chainAt], c.chain, c.out[c.chainAt:]}
}

// throughLifetimes derives the history of a fragment where code comes and goes. here
// are the lifetimes that cover it.
func (c *historyBuilder) throughLifetimes(here []*Lifetime, changes []change) {
	d := c.build
	upTo := func(t uint64) (part []change) {
		n := sort.Search(len(changes), func(i int) bool { return changes[i].time >= t })
		part, changes = changes[:n], changes[n:]
		return part
	}
	t := uint64(0)
	var before *Lifetime
	for i, l := range here {
		to := l.To
		c.next = MaxTime
		if i+1 < len(here) {
			to = min(to, here[i+1].From)
			c.next = here[i+1].changes()
		}
		if l.From >= to && l.Kind != Nothing {
			continue
		}
		c.leave(l.From)
		if t < l.From {
			part := upTo(l.From)
			c.early = slices.Clip(part)
			c.unowned(t, l.From, before, part)
		}
		if len(c.stray) > 0 {
			c.early = append(slices.Clip(c.stray), c.early...)
		}
		if l.Kind == Nothing {
			t, before = l.From, l
			continue
		}
		init, from := initial{content: noContent}, l.From
		c.soft, c.uncopied = ReasonNone, false
		c.made, c.kind, c.lives = making{}, l.Kind, true
		c.lostBefore = c.isLostBefore(before, l)
		c.afterBrief = c.hadBrief(t, l.From)
		switch l.Kind {
		case ModuleText:
			init = c.beginModule(l)
		case ModuleData:
			// A snapshot of data proves nothing a moment later.
			c.gaps, c.bare, c.uncopied = always(NotText), NotText, true
		case BPFImage:
			init = c.beginImage(l, to)
			if read, ok := c.readCode(l); ok && read.from < to {
				// Until then the kernel wrote it without a record.
				c.alive(l.From, read.from, init, upTo(read.from))
				from, init = read.from, read
				c.gaps = d.gaps[gapsOfCode]
				c.addProbed()
			}
		case BPFProgram:
			init = c.beginProgram(l, to, changes)
			if _, has := c.codeOff[l]; has {
				break
			}
			if read, ok := c.readCode(l); ok && read.from < to {
				c.alive(l.From, read.from, init, upTo(read.from))
				init, from = read, read.from
				c.soft, c.uncopied = ReasonNone, false
				c.addProbed()
			}
		case OutOfLine:
			init = c.beginOutOfLine(l, to)
		}
		part := upTo(to)
		if l.Kind == OutOfLine && to == l.To && len(changes) > 0 && changes[0].retires(to) {
			part, changes = part[:len(part)+1], changes[1:]
		}
		c.stray = nil
		c.gaps = c.unsureGaps(l, init, part)
		c.behind = changes
		c.alive(from, to, init, part)
		if l.Kind == ModuleText {
			c.doubtText(l, to)
		}
		t, before = to, l
	}
	if t < MaxTime {
		c.unowned(t, MaxTime, before, changes)
	}
}

// isLostBefore reports whether records of what was there before l may be lost, since what is known to have been
// there began.
func (c *historyBuilder) isLostBefore(known, l *Lifetime) bool {
	from := uint64(0)
	if known != nil {
		from = known.From
	}
	return len(c.liveSet.lost.between(from, l.From)) > 0
}

// changes returns from when on changes may be of l: the kernel pokes the tail calls of a program before its birth.
func (l *Lifetime) changes() uint64 {
	if l.Kind == BPFProgram {
		return earlier(l.From, loadTime)
	}
	return l.From
}

// hadBrief reports whether other code came here and went at one time of [from, to].
func (c *historyBuilder) hadBrief(from, to uint64) bool {
	if len(c.brief.lives) == 0 {
		return false
	}
	if c.briefTimes == nil {
		c.build.times = c.brief.begins(c.build.times[:0], c.f.addr)
		c.briefTimes = c.build.times
	}
	i, _ := slices.BinarySearch(c.briefTimes, from)
	return i < len(c.briefTimes) && c.briefTimes[i] <= to
}

// beginModule sets which gaps count in text of a module, and returns the copy that its epoch
// begins with.
func (c *historyBuilder) beginModule(l *Lifetime) initial {
	c.gaps, c.bare = c.build.gaps[gapsOfModule], NeverRecorded
	weak := c.afterCopy
	if l.stayed {
		c.gaps, weak = c.build.gaps[gapsOfStayed], ReasonNone
	}
	if c.padding {
		c.gaps = c.build.gaps[gapsOfThunk]
	}
	c.addLocalGaps(c.f.addr)
	// Where a module came later, the snapshot has what was there before.
	if !l.later && l.From <= Later(c.snapshot.To, c.skew) {
		return c.fromSnapshot(weak)
	}
	return initial{content: noContent}
}

// beginImage is beginModule for a BPF trampoline or dispatcher. Its epoch ends at to.
func (c *historyBuilder) beginImage(l *Lifetime, to uint64) initial {
	c.gaps, c.bare = always(BPFTrampoline), BPFTrampoline
	return c.beginCopied(l, to, BPFTrampoline)
}

// beginProgram is beginModule for a BPF program, whose epoch ends at to. Its copy is the one
// in its info. changes are those since it began.
func (c *historyBuilder) beginProgram(l *Lifetime, to uint64, changes []change) initial {
	c.gaps, c.bare = c.build.gaps[gapsOfCode], BPFNoInfo
	c.made = l.making()
	has := func(places []Range) bool {
		return slices.ContainsFunc(places, func(r Range) bool { return r.Lo <= c.f.addr && c.f.addr < r.Hi })
	}
	if l.code != nil && has(l.code.silent) {
		c.gaps = always(NoCoverage)
		if !has(l.code.unseen) {
			c.addProbed()
		}
	}
	off, ok := c.codeOff[l]
	if !ok {
		c.soft = BPFNoInfo
		return c.beginCopied(l, to, BPFNoInfo)
	}
	init := initial{content: off + uint32(c.f.addr-l.Lo), lo: l.Lo, source: SourceProgInfo,
		from: max(l.From, c.first), to: to}
	if !l.code.late {
		init.to = max(init.from, min(to, c.horizon, Later(l.code.readBy, c.skew))) // it was read when it was there
	}
	init.seen = c.seenBy(init.to, 0)
	if l.From == 0 && c.announcedEarly {
		init.from = 0
	}
	switch {
	case l.code.undated:
		init.from, init.to, init.last = 0, MaxTime, true
		init.weak = c.reasonUndated(0)
	case c.mayFollow(init.content, c.made), c.mayHaveMade(init.content, to, changes):
		init.weak = ClockUncertainty
	}
	return init
}

// beginOutOfLine is beginModule for out-of-line code. Its epoch ends at to.
func (c *historyBuilder) beginOutOfLine(l *Lifetime, to uint64) initial {
	c.gaps, c.bare, c.soft = c.build.gaps[gapsOfSlots], OutOfLineGap, OutOfLineGap
	c.made = l.making() // the change that makes the code may be recorded before
	c.addLocalGaps(c.f.addr)
	return c.beginCopied(l, to, OutOfLineGap)
}

// beginCopied returns what the snapshot has of code that was there all the time in which the
// snapshot can have been made. For the reason weak its bytes are at most unconfirmed.
func (c *historyBuilder) beginCopied(l *Lifetime, to uint64, weak Reason) initial {
	if l.From == 0 && to > c.snapshot.To {
		return c.fromSnapshot(weak)
	}
	return initial{content: noContent}
}

// doubtText overlays the epoch of a module's text, which ends at to, with what is not certain
// of it: whether it was there when perf listed the modules, and what was there behind its
// first contradiction.
func (c *historyBuilder) doubtText(l *Lifetime, to uint64) {
	if l.stayed && l.From == 0 && c.afterCopy != ReasonNone {
		c.doubtBefore(min(to, Later(c.listedBy(), c.skew)))
	}
	if l.doubted < to {
		c.doubt(l.doubted)
	}
}
