// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

// What the time between two facts of a fragment is, and that before the first and behind the last:
// each of these functions emits the versions for one interval.

// forward fills the time from the last fact, at t1, to t2, at which no fact gives
// bytes. The last fact's bytes are known up to the first gap.
func (c *historyBuilder) forward(t1, t2 uint64, weak Reason) {
	if c.content == noContent {
		c.emit(t1, Unknown, c.bare, SourceNone, noContent)
		return
	}
	gs := c.gaps.between(t1, t2)
	if weak != ReasonNone {
		c.emit(t1, Unconfirmed, weak, c.source, c.content)
	} else {
		c.emit(t1, Known, ReasonNone, c.source, c.content)
	}
	if n := len(gs); weak == SnapshotUndated && n > 0 {
		gs = gs[n-1:] // at no time it is a loss since that leaves the bytes open
		if gs[0].to < MaxTime {
			return
		}
	}
	c.unconfirmed(t1, gs)
}

// unconfirmed emits the last fact's bytes, of time t1, as unconfirmed from the first gap
// on. That gap names the reason until the next fact, whatever other gaps follow. Only a
// gap without end names it from its beginning on:
//
//	facts    A ────────────────────────────────────
//	gaps        ├─ x ─┤  ├y┤├x┤  ├── y ──┤  ├─ z ──   z has no end
//	answer   A  x x x x x x x x x x x x x x  z z z
//
// So each fact makes three versions at most, however many gaps follow it: the number
// of versions of a fragment grows with its facts, not with the losses of the recording.
func (c *historyBuilder) unconfirmed(t1 uint64, gs gaps) {
	if len(gs) == 0 {
		return
	}
	first, last := gs[0], gs[len(gs)-1]
	c.emit(max(first.from, t1), Unconfirmed, first.reason, c.source, c.content)
	if last.to == MaxTime {
		c.emit(max(last.from, t1), Unconfirmed, last.reason, c.source, c.content)
	}
}

// backward fills the time between t1, the start of the epoch, and a fact at t2, where no
// earlier fact gives bytes. The fact's old bytes are known back to the end of the last
// gap.
func (c *historyBuilder) backward(t1, t2 uint64, fact claim) {
	from := t1
	if gs := c.provenBack(t1, t2); len(gs) > 0 {
		last := gs[len(gs)-1]
		c.emit(t1, Unconfirmed, last.reason, fact.source, fact.content)
		from = last.to
	}
	if from < t2 {
		c.emit(from, Known, ReasonNone, fact.source, fact.content)
	}
}

// provenBack returns the gaps up to a fact at t2, from t1 on, behind which its old bytes were there. If
// the recording is complete up to that time only, another CPU may have made a change at the same time before.
func (c *historyBuilder) provenBack(t1, t2 uint64) gaps {
	if t2 > c.horizon {
		return c.gaps.between(t1, Later(t2, 1))
	}
	return c.gaps.between(t1, t2)
}

// unproven returns the gaps between the last fact, of time t1, and a change, of time t2, that finds
// what is there.
func (c *historyBuilder) unproven(t1, t2 uint64) gaps {
	if c.pairs != nil && c.source == SourcePoke && len(c.pairs.between(t1, t2)) == 0 {
		return nil
	}
	return c.gaps.between(t1, t2)
}

// agree fills the time between two facts that give the same bytes. They are known from
// proven on, when the first fact is certain, to the first gap, and from the end of the
// last gap on.
func (c *historyBuilder) agree(t1, proven, t2 uint64, weak Reason, second claim) {
	gs := c.unproven(t1, t2)
	if len(gs) == 0 && weak == ReasonNone {
		c.emit(t1, Known, ReasonNone, c.source, c.content)
		return
	}
	c.forward(t1, t2, weak)
	if t2 > c.horizon {
		gs = c.provenBack(t1, t2)
	}
	from := proven
	if n := len(gs); n > 0 {
		from = max(from, gs[n-1].to)
	}
	if from < t2 {
		c.emit(from, Known, ReasonNone, second.source, second.content)
	}
}

// disagree fills the time between two facts that contradict each other (rule old-bytes).
// Behind the last gap between them the second fact's old bytes are known. If sure is set, the first fact's
// bytes are known before the first gap, as long as a change whose record was lost in it cannot have had its
// trap there. The rest is conflicting; without a gap all of it is. So it is if late is set: a change that is
// recorded later may have left the second fact's old bytes, or that may be of other code.
func (c *historyBuilder) disagree(t1, t2 uint64, reason Reason, second claim, sure, late bool) {
	if t1 >= t2 {
		return
	}
	from, until := t1, t2
	gs := c.provenBack(t1, t2)
	if len(gs) > 0 && !late {
		until = min(t2, gs[len(gs)-1].to)
		if sure {
			from = min(max(t1, earlier(gs[0].from, trapTime)), until)
		}
	}
	if t1 < from {
		c.emit(t1, Known, ReasonNone, c.source, c.content)
	}
	if from < until {
		c.conflict(from, until, reason, c.claim(t1), second)
		c.excuse(len(gs) > 0)
	}
	if until < t2 {
		c.emit(until, Known, ReasonNone, second.source, second.content)
	}
}

// retired emits the last bytes of code that was removed, from t1 on.
func (c *historyBuilder) retired(t1 uint64, why Reason) {
	if c.content == noContent {
		c.emit(t1, Unknown, why, SourceNone, noContent)
		return
	}
	c.emit(t1, Retired, why, c.source, c.content)
}

// unowned derives an epoch in which no code is known to be there: after l, or before any
// code if l is nil. The new bytes of a poke in it are retired from the start.
func (c *historyBuilder) unowned(e0, e1 uint64, l *Lifetime, changes []change) {
	switch {
	case l != nil && l.Kind == ModuleData:
		c.content = noContent
		c.retired(e0, l.Ended)
	case l != nil:
		c.retired(e0, l.Ended)
	case c.f.seg >= 0:
		// The snapshot has zeros, where nothing was mapped, or bytes that neither
		// kallsyms nor the list of modules names.
		c.content = noContent
		c.emit(e0, Unknown, c.unnamed(), SourceNone, noContent)
	default:
		c.content = noContent
		if e0 > 0 || e1 < MaxTime || len(changes) > 0 {
			c.emit(e0, Unmapped, ReasonNone, SourceNone, noContent)
		}
	}
	for i := range changes {
		ch := &changes[i]
		switch {
		case ch.hasNew:
			c.content, c.source = ch.new, SourcePoke
		case ch.hasOld:
			c.content, c.source = ch.old, SourcePoke
		}
		c.retired(ch.time, NothingAlive)
	}
}

// unnamed returns why an answer has no bytes although the snapshot has some.
func (c *historyBuilder) unnamed() Reason {
	if end := c.build.textHi; c.f.addr >= end && c.f.addr-end < pageSize && c.f.addr&^(pageSize-1) == (end-1)&^(pageSize-1) {
		return NotText // the rest of the last page of kernel text
	}
	for _, b := range c.bytes(snapshotContent) {
		if b != 0 {
			return NotText
		}
	}
	return HoleInSnapshot
}
