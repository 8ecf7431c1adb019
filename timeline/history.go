// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"slices"
)

// A change is the part of a poke that covers one fragment, or a further snapshot of it.
// Contents are arena offsets of the fragment's bytes.
type change struct {
	time           uint64
	recorded       uint64 // time of the record, which is not time where CPUs' clocks differ
	began          uint64 // a time before which it had not begun, see Poke.Began; 0: none
	until          uint64 // see copied
	old, new       uint32 // noContent: the poke has none here
	order, offset  uint32 // of the poke, and where in it the fragment begins
	hasOld, hasNew bool
	first          bool // the fragment has the poke's first byte, which is a trap while the poke is made
	birth, death   bool // the poke as a whole has no old, or no new bytes
	calls          bool // it changes a call to another one, and the fragment has all of it
	live           bool // it shows that the code is alive here, see sightings
	trap           bool // of a copy: it may be the trap of a change of which there is no record, see newTrap
	copied         bool // it is not a change, but a further snapshot that was made in [time, until]
	confirms       bool // it is not a change, but the epoch's own copy, see confirmed
	opens          bool // of a change that may be of other code: nothing is known to be there that it does not find
	lost           bool // of a change that does not find what is there: records that are lost may explain that
}

// before returns the claim of the change's old bytes.
func (ch *change) before() claim { return claim{ch.time, ch.old, SourcePoke, true} }

// retires reports whether the change retires code at time t. The kernel records it just
// before the death of the code, and a coarse clock gives both one time. So it says what
// the code was until then.
func (ch *change) retires(t uint64) bool { return ch.death && ch.hasOld && ch.time == t }

// initial is a copy of a fragment's bytes, which was made at some moment of [from, to].
type initial struct {
	content uint32 // noContent: nothing
	// segments are all of the copy; nil if it is of code only, which begins at lo.
	segments []Segment
	lo       uint64
	source   Source
	from, to uint64
	seen     uint64 // up to when a gap leaves it proving nothing: to, or see seenBy
	// weak is why the bytes are at most unconfirmed, although nothing need have been
	// lost; none if they are not.
	weak Reason
	trap bool // it has a trap that no record need explain, see findTraps
	// last ranks it below every other fact: they say what the place was in the
	// recording, and it is of another time.
	last bool
}

// A historyBuilder derives the versions of one fragment from its facts. A fact proves
// the bytes at one moment, not what was there between two facts (rules moment, snapshot
// and old-bytes).
//
// The time of a fragment is cut into epochs: core text is one epoch, other addresses
// have one for each lifetime and one for each time between (historyBuilder.throughLifetimes):
//
//	lifetimes         ├─── program a ───┤      ├── program b ─────
//	epochs   unowned       alive         unowned      alive
//
// alive and unowned emit versions in the order of time. Then overlay corrects what was
// emitted, where a fact concerns an interval of time rather than a moment:
//
//	alive      │ known P              │ known Q        │ unconfirmed Q
//	uncertain  │ known P           │in flight P Q│ known Q │ unconfirmed Q      clocks
//	doubt      │ known P           │in flight P Q│  conflicting Q             a module
type historyBuilder struct {
	*build
	f     *fragment
	gaps  gaps   // when a change of these bytes may have gone unrecorded
	pairs *gaps  // those that count between two pokes too; nil: all of gaps
	bare  Reason // why no bytes are known where no fact gives any

	room    int  // for how many claims of changes in no known order there is room still
	padding bool // the kernel may write a call thunk here
	thunk   bool // it is one in the snapshot

	out []version // emitted so far, by time

	ahead   []poke // behind those that were made into changes
	chained int    // how many of them are a chain
	chain   []poke // whose versions come before those of out[chainAt:]
	chainAt int

	early []change // changes where nothing was known to be alive
	stray []change // that retired the last code at its death, and did not find it
	// misfits are the changes that did not find the code that is there, or found the first that is known of
	// it; former are those of the code before, and what was early then. They may be of what came next.
	misfits, former []change
	briefTimes      []uint64     // see hadBrief; nil: not looked up
	afterBrief      bool         // other code came and went at one time since the epoch before
	vague           bool         // it is not known what that epoch ended with
	births          bool         // some change of this epoch makes code
	begins          uint64       // the time of this epoch
	next            uint64       // from when on the code that comes next may have changed; MaxTime: none comes
	behind          []change     // those behind this epoch
	initial         uint32       // what its code began with; noContent: not known
	kind            LifetimeKind // of its code
	lives           bool         // it is code that comes and goes
	made            making       // when the code was made that is there
	lostBefore      bool         // records of other code that was there before may be lost
	sameCPU         changesOfCPU // of this epoch

	soft     Reason // why copies give at most unconfirmed bytes; none for text
	uncopied bool   // copies give no bytes
	clashes  []clash
	proofs   []change // further snapshots that are facts

	// The last bytes of the current epoch, and of the one before while a new one begins.
	content uint32
	source  Source
	prior   uint32 // the last bytes of the epoch before
}

// fromSnapshot returns what the snapshot, or the seed, has of the fragment.
func (c *historyBuilder) fromSnapshot(weak Reason) initial {
	if c.f.seg < 0 {
		return initial{content: noContent}
	}
	if c.fromSeed(c.f) {
		return initial{content: snapshotContent, source: SourceVmlinux, weak: FromVmlinux,
			from: c.first, to: c.first, seen: c.first, last: true}
	}
	s := &c.build.snapshot
	init := initial{content: snapshotContent, segments: s.Segments, source: SourceSnapshot, weak: weak, trap: inRanges(c.build.traps, c.f.addr), from: s.From, to: Later(s.To, c.skew), seen: c.seenBy(s.To, c.skew), last: s.undated()}
	if s.From >= c.first {
		init.from = max(earlier(s.From, c.skew), c.first)
	} else if weak == ReasonNone {
		init.weak = c.reasonUndated(s.From)
	}
	if c.thunk { // it stays, but may have been written until the snapshot was taken
		init.from = init.to
	}
	return init
}

// reasonUndated returns why a snapshot gives at most unconfirmed bytes if it may have
// been taken before the recording began, at from or later.
func (c *historyBuilder) reasonUndated(from uint64) Reason {
	if g := c.gaps.between(from, c.first); len(g) > 0 && g[0].reason != OutsideRecording {
		return g[0].reason
	}
	return SnapshotUndated
}

// progress is how far an epoch is derived: the last fact, whose bytes are content and
// source of the historyBuilder, and what the next one must know of it.
type progress struct {
	t      uint64 // the time of the last fact
	proven uint64 // the time from which its bytes are certain: for a copy, it may be later than t
	weak   Reason // why its bytes are at most unconfirmed until the next fact; none: they are not
	torn   bool   // it is a copy that contradicts the changes that were made meanwhile
	other  bool   // it is a change that may be of other code
	dead   Reason // why nothing is alive here; none: code is alive
	open   bool   // it is a copy that may be of before a loss which ended by then: the next fact says what is there since
}

// alive derives the epoch [e0, e1), during which code is here. It goes from fact to
// fact, and each step fills the time between the last fact and the next one. With
// the copy S, which was made in [s0, s1], pokes P and Q, and a further snapshot C:
//
//	            e0     s0    s1      P      gap     C        Q         e1
//	1 begin     ├──────┤                                                     S, unconfirmed
//	2 compare          ├─────────────┤                                       S, known
//	3 become                         P
//	4 read                           ├──────┤░░░┤───┤                        P, known; unconfirmed; C, known
//	5 compare                                       ├────────┤               C, known
//	6 become                                                 Q
//	7 end                                                    ├─────────┤     Q, known
//
// If the two facts of a step do not agree, its time is conflicting up to the last
// gap, or as a whole. Two other kinds of steps, tie and the retirement of code, are not
// shown.
func (c *historyBuilder) alive(e0, e1 uint64, init initial, changes []change) {
	c.begins, c.sameCPU = e0, changesOfCPU{}
	p := c.begin(e0, e1, &init, changes)
	c.births = slices.ContainsFunc(changes, func(ch change) bool { return ch.birth })
	copied := e0 // the time from which a copy can contradict what was derived
	if c.content != noContent {
		copied = max(e0, init.from)
	}
	pokes := changes
	changes = c.withSnapshots(e0, e1, init, pokes)
	if ch, ok := c.confirmed(e1, &init, pokes); ok {
		c.build.confirming = slices.Insert(append(c.build.confirming[:0], changes...), upToTime(changes, ch.time), ch)
		changes = c.build.confirming
	}
	for i := 0; i < len(changes) || c.hasMore(&p, &changes); i++ {
		if i > 0 && p.dead == ReasonNone && p.weak == ReasonNone && !c.mayBeFollowed(changes[i].time) && !c.mayBeOfLost(changes[i].time) {
			if n := c.plain(p.t, changes[i:]); n > 0 {
				i += n - 1
				p.t, p.proven = changes[i].time, changes[i].time
				continue
			}
		}
		ch := &changes[i]
		if p.open && ch.hasOld && !ch.copied && !ch.confirms && c.rivalsOf(ch) == nil && !c.finds(&p, ch) {
			c.content = noContent
		}
		if rivals := c.rivalsOf(ch); rivals != nil && p.dead == ReasonNone {
			until := e1
			if i+1 < len(changes) {
				until = changes[i+1].time
			}
			c.tie(&p, ch, rivals, until)
			if c.lives { // one of them may be of what comes next
				c.misfits = append(c.misfits, *ch)
			}
			if i+1 < len(changes) && changes[i+1].copied && !c.hasManyRivals(ch) && c.shows(changes[i+1:], ch, rivals) {
				c.content = noContent
			}
			continue
		}
		if ch.copied {
			if p.dead == ReasonNone {
				c.read(&p, changes, i, e1)
			}
			continue
		}
		if ch.confirms {
			c.confirm(&p, ch, init.source)
			continue
		}
		switch {
		case ch.retires(e1):
			if c.content != noContent && !c.finds(&p, ch) {
				c.stray = []change{*ch}
			}
		case ch.hasOld && (p.dead != ReasonNone || !c.finds(&p, ch) || ch.death && p.weak == ClockUncertainty):
			c.misfit(&p, changes[:i+1])
		}
		if c.wavers(&p, ch, changes[i+1:]) ||
			c.finds(&p, ch) && !c.vouches(ch, changes[i+1:], e1) && len(c.gaps.between(p.t, ch.time)) > 0 {
			p.proven = MaxTime
		}
		c.compare(&p, changes, i, e1)
		doubt := c.outOfOrder(&p, ch, changes[i+1:], e1)
		c.become(&p, ch)
		p.weak = doubt
	}
	c.end(&p, e1)
	c.vague = p.dead == ReasonNone && len(c.out) > 0 && c.out[len(c.out)-1].standing != Known
	c.clash(copied, e1, pokes)
}

// begin decides what the copy of an epoch proves (rule snapshot), and emits what it
// gives of the time before it was made. Where it proves nothing, init loses its content.
func (c *historyBuilder) begin(e0, e1 uint64, init *initial, changes []change) progress {
	p := progress{t: e0, proven: e0, weak: init.weak}
	if c.prior = c.content; len(c.early) > 0 || c.afterBrief || c.vague {
		c.prior = noContent // a change since made it: one of what is here now; or it was of other code
	}
	c.afterBrief, c.vague = false, false
	c.content, c.source = init.content, init.source
	if init.last && c.outranked(e0, e1, changes) {
		c.content, init.content = noContent, noContent
	}
	c.initial = init.content
	if init.content != noContent {
		n := upToTime(changes, init.to)
		if !init.last && c.trapped(init, changes, n, n) {
			c.content = noContent
		} else if n > 0 {
			// The bytes were read before, between or after these changes.
			if c.consistent(init.content, init.from, changes[:n]) {
				if changes[0].hasOld || changes[0].time < init.from {
					c.content = noContent // the changes say it all
				}
			} else {
				p.torn = true
			}
		}
	}
	if c.content == noContent {
		return p
	}
	if e0 < init.from {
		c.emit(e0, Unconfirmed, c.reasonBefore(*init), init.source, init.content)
		if at := max(e0, c.first); c.thunk && init.weak == ReasonNone && at < init.from {
			c.emit(at, Unconfirmed, ThunkPadding, init.source, init.content)
		}
		p.t = min(init.from, e1)
		p.proven = p.t
	}
	if p.weak == ReasonNone && init.trap {
		if n := upToTime(changes, init.to); n == len(changes) || !changes[n].hasOld || !c.equal(changes[n].old, init.content) {
			p.weak = SnapshotMismatch
		}
	}
	if p.weak != ReasonNone {
		p.proven = max(p.t, min(init.to, e1))
	}
	// Behind the last gap, the next fact alone proves its old bytes.
	if g := c.gaps.between(init.from, max(init.from, init.seen)); len(g) > 0 && init.weak == ReasonNone {
		p.weak = g[0].reason
	}
	return p
}

// confirmed returns what an epoch's copy proves although changes were recorded before the
// latest moment at which it can have been made: the bytes from the moment on from which
// all CPUs record, if nothing changes from there to that latest moment. confirm compares
// the copy with what the last change left. The copy was made when all CPUs recorded
// already. So it does not matter whether it was made before that last change or after it:
//
//	a CPU records        ├────────────────────────────────
//	all CPUs record           certainly:  ├───────────────
//	last change                   P
//	copy of P's bytes             ├───────┼────┤
//	answer                        │ unconf│ known
func (c *historyBuilder) confirmed(e1 uint64, init *initial, changes []change) (ch change, ok bool) {
	n := upToTime(changes, init.to)
	if n == 0 || c.content != noContent || init.content == noContent || init.weak != ReasonNone {
		return change{}, false
	}
	last := &changes[n-1]
	if !last.hasNew || c.rivalsOf(last) != nil {
		return change{}, false
	}
	gs := c.gaps.between(last.time, max(init.from, init.seen))
	if len(gs) != 1 || gs[0].reason != OutsideRecording || gs[0].to > init.to || gs[0].to >= e1 {
		return change{}, false
	}
	if gs[0].to > Later(c.first, c.skew) {
		return change{}, false // a loss in the gap, too, which the copy may be of before
	}
	return change{time: gs[0].to, old: init.content, new: init.content, hasOld: true, hasNew: true, confirms: true, order: noPoke}, true
}

// confirm makes the copy of an epoch the last fact, see confirmed. Something may still
// leave open what the last change left.
func (c *historyBuilder) confirm(p *progress, ch *change, source Source) {
	if p.dead != ReasonNone || p.weak != ReasonNone || c.content == noContent || !c.equal(c.content, ch.old) {
		return
	}
	c.agree(p.t, p.proven, ch.time, p.weak, claim{content: ch.old, source: source})
	c.source = source
	p.t, p.proven = ch.time, ch.time
}

// tie derives the time until the next change where ch and its rivals were made in an
// unknown order (rule clocks). What was there before stays known, up to the first gap: the change
// that came first may have found something else. If they are too many to list what each of them says,
// the time is unknown.
func (c *historyBuilder) tie(p *progress, ch *change, rivals []poke, until uint64) {
	if p.t < ch.time && c.content != noContent && !p.torn && p.weak == ReasonNone && c.equal(c.content, ch.old) {
		if len(c.unproven(p.t, ch.time)) == 0 {
			c.agree(p.t, p.proven, ch.time, p.weak, ch.before())
		} else {
			c.forward(p.t, ch.time, p.weak)
		}
		p.t = ch.time
	}
	c.room -= 2 * len(rivals) // what each found, and left
	many := c.hasManyRivals(ch) || c.room < 0
	switch {
	case p.t >= until:
	case many:
		c.emit(p.t, Unknown, TooManyFacts, SourceNone, noContent)
	default:
		c.unsettled(p.t, until, ch, rivals)
	}
	if c.content, c.source = ch.new, SourcePoke; many {
		c.content = noContent
	}
	*p = progress{t: until, proven: until, weak: ClockUncertainty} // none of them is known to be the last
}

// shows reports whether the further snapshot that comes first in next shows which of several
// changes, ch among them, was the last: all of them come before it, and it has what one of them
// left.
func (c *historyBuilder) shows(next []change, ch *change, rivals []poke) bool {
	left := ch.hasNew && c.equal(ch.new, next[0].old)
	for i := range rivals {
		e := &c.edits[rivals[i].edit]
		if c.timeOf(&rivals[i]) >= next[0].time {
			return false
		}
		left = left || ch.offset < uint32(e.nlen) && c.equal(e.new+ch.offset, next[0].old)
	}
	for len(next) > 0 && next[0].copied {
		next = next[1:]
	}
	if !left || len(next) == 0 {
		return left
	}
	all, other := c.rivals.of(ch.order), c.rivals.of(next[0].order)
	return len(other) == 0 || &all[0] != &other[0] // changes whose order is not known are neighbours
}

// finds reports whether a change finds what the last fact says is there.
func (c *historyBuilder) finds(p *progress, ch *change) bool {
	return c.content != noContent && !p.torn && c.equal(c.content, ch.old)
}

// compare fills the time between the last fact and changes[i], whose old bytes should be
// the last fact's (rule old-bytes). The epoch ends at e1.
func (c *historyBuilder) compare(p *progress, changes []change, i int, e1 uint64) {
	ch := &changes[i]
	switch {
	case p.dead != ReasonNone:
		c.retired(p.t, p.dead)
	case !ch.hasOld:
		if p.t < ch.time { // else the copy is of later
			c.forward(p.t, ch.time, p.weak)
		}
	case c.content == noContent && (c.mayBeOfOther(ch, changes[i+1:], e1) || c.rivalsMake(ch) || c.leftLate(ch, changes[i+1:])):
		c.emit(p.t, Unconfirmed, ClockUncertainty, SourcePoke, ch.old)
	case c.content == noContent:
		c.backward(p.t, ch.time, ch.before())
		c.initial = ch.old
	case c.maySucceed(p, ch, e1):
		c.forward(p.t, ch.time, p.weak)
	case c.finds(p, ch):
		c.agree(p.t, p.proven, ch.time, p.weak, ch.before())
	default:
		reason := OldBytesMismatch
		if c.source == SourceSnapshot {
			reason = SnapshotMismatch
		}
		c.disagree(p.t, ch.time, reason, ch.before(), c.isAlone(p, changes[:i]), !c.vouches(ch, changes[i+1:], e1))
	}
}

// become makes a change the last fact. One without new bytes retires the code that is
// here, until one without old bytes makes some.
func (c *historyBuilder) become(p *progress, ch *change) {
	p.torn, p.open, p.weak = false, false, ReasonNone
	p.t, p.proven = ch.time, ch.time
	switch {
	case !ch.hasNew || ch.death:
		if ch.hasOld {
			c.content, c.source = ch.old, SourcePoke
		}
		p.dead = PokedToNothing
		return
	case ch.birth:
		p.dead = ReasonNone
	case p.dead != ReasonNone:
		p.dead = NothingAlive
	}
	c.content, c.source = ch.new, SourcePoke
}

// end fills the time from the last fact to the end of the epoch.
func (c *historyBuilder) end(p *progress, e1 uint64) {
	switch {
	case p.dead != ReasonNone:
		c.retired(p.t, p.dead)
	case p.t < e1:
		c.forward(p.t, e1, p.weak)
	}
}

// outranked reports whether a change, or a further snapshot, says what was there in [e0, e1).
func (c *historyBuilder) outranked(e0, e1 uint64, changes []change) bool {
	return slices.ContainsFunc(changes, func(ch change) bool { return ch.hasOld }) ||
		!c.uncopied && slices.ContainsFunc(c.copied, func(cp furtherSnapshot) bool {
			return e0 <= cp.from && cp.to < e1 && cp.content(c.f) != noContent
		})
}

// plain derives the time after the last change, of time t, as long as each change finds
// the bytes that the one before it left, with no gap between. Nearly all changes are
// such. It returns how many there are.
func (c *historyBuilder) plain(t uint64, changes []change) int {
	if c.source != SourcePoke || len(c.out) == 0 || c.out[len(c.out)-1].since >= t {
		return 0
	}
	calm := t // up to when there is no gap
	if n := len(changes); len(c.gaps.between(t, changes[n-1].time)) == 0 {
		calm = changes[n-1].time
	} else if g := c.gaps.between(t, MaxTime); g[0].from > t {
		calm = g[0].from
	}
	n, out, content := 0, c.out, c.content
	for i := range changes {
		ch := &changes[i]
		if ch.copied || ch.confirms || c.rivals.of(ch.order) != nil || ch.time > calm || ch.time <= t || ch.old != content || !ch.hasOld || !ch.hasNew || ch.birth || ch.death {
			break
		}
		if c.births && c.makes(ch.time, changes[i+1:]) {
			break
		}
		last := &out[len(out)-1]
		if last.standing != Known || last.source != SourcePoke || !c.equal(last.content, content) {
			out = append(out, version{})
			v := &out[len(out)-1] // not as a whole: there are very many
			v.since, v.content, v.standing, v.source = t, content, Known, SourcePoke
		}
		t, content = ch.time, ch.new
		n++
	}
	c.out, c.content = out, content
	return n
}

// reasonBefore returns why the bytes of a copy are not known before the earliest moment
// at which it can have been made.
func (c *historyBuilder) reasonBefore(init initial) Reason {
	if init.weak != ReasonNone {
		return init.weak
	}
	if g := c.gaps.between(0, init.from); len(g) > 0 {
		return g[0].reason
	}
	return OutsideRecording
}

// upToTime returns how many changes are of time t or earlier.
func upToTime(changes []change, t uint64) int {
	n := 0
	for n < len(changes) && changes[n].time <= t {
		n++
	}
	return n
}

// consistent reports whether a copy that was made at the time from or later, while these changes
// were made, can have these bytes: one of the states before, between and after them, or a
// half-written one with the trap in place (rule snapshot).
func (c *historyBuilder) consistent(content uint32, from uint64, changes []change) bool {
	got := c.bytes(content)
	for i := range changes {
		ch := &changes[i]
		if ch.birth && ch.time >= from || ch.hasOld && bytes.Equal(got, c.bytes(ch.old)) || ch.hasNew && bytes.Equal(got, c.bytes(ch.new)) {
			return true // anything may have been there before a birth
		}
	}
	return slices.ContainsFunc(changes, func(ch change) bool { return c.halfWritten(content, &ch) })
}

// halfWritten reports whether a copy can have these bytes while a change is made: some old,
// some new, or the trap at its place.
func (c *historyBuilder) halfWritten(content uint32, ch *change) bool {
	if !ch.hasOld || !ch.hasNew {
		return false
	}
	old, new := c.bytes(ch.old), c.bytes(ch.new)
	for k, g := range c.bytes(content) {
		if g != old[k] && g != new[k] && !(k == 0 && ch.first && g == int3) {
			return false
		}
	}
	return true
}

// Opcodes of x86 (arch/x86/include/asm/text-patching.h).
const (
	int3   = 0xcc // the trap that replaces an instruction's first byte while it is changed
	opCALL = 0xe8 // of a near call
)
