// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"cmp"
	"slices"
	"sort"
)

// AddSnapshot adds a further snapshot, which was read from /proc/kcore at some moment of
// [s.From, s.To]. Only its bytes of kernel text, of modules' text and of dynamic code
// are used. Any number of them may be added. If s.From is later than s.To, it is s.To.
func (b *Builder) AddSnapshot(s Snapshot) {
	s.From = min(s.From, s.To)
	b.snapshots = append(b.snapshots, s)
}

// A furtherSnapshot is a further snapshot while an image is made of it.
type furtherSnapshot struct {
	from, to uint64
	segments []Segment
	// differs are the runs of bytes that differ from the snapshot, by address.
	differs []run
	traps   []Range // see findTraps
	lone    []Range // see loneTraps
	// nearLoss is set if records may be missing so close to it that it may show the trap of a change that has none.
	nearLoss bool
}

// A run is a run of bytes in the image's arena.
type run struct {
	lo, hi uint64
	off    uint32
}

// compareSnapshots sorts the further snapshots by time, and finds where each differs from the
// snapshot.
func (d *build) compareSnapshots(lives []*Lifetime) {
	if len(d.Builder.snapshots) == 0 {
		return
	}
	places := []Range{{d.textLo, d.textHi}}
	for _, l := range lives {
		if l.Kind != ModuleData {
			places = append(places, Range{l.Lo, l.Hi})
		}
	}
	places = JoinRanges(places)
	by := d.skew
	if d.differ { // another CPU's clock says when they were made
		by = max(by, d.apartUnseen())
	}
	for _, s := range d.Builder.snapshots {
		c := furtherSnapshot{from: earlier(s.From, by), to: Later(s.To, by), segments: s.Segments}
		c.traps = d.findTraps(s.Segments, lives)
		if len(d.gaps[gapsOfText].between(earlier(c.from, trapTime), Later(c.to, trapTime+1))) > 0 {
			c.lone, c.nearLoss = d.loneTraps(s.Segments, lives), !d.silentPokes
		}
		for _, p := range places {
			for _, seg := range Overlapping(s.Segments, p.Lo, p.Hi) {
				c.differs = d.differences(c.differs, seg)
			}
		}
		d.copied = append(d.copied, c)
	}
	slices.SortStableFunc(d.copied, func(a, b furtherSnapshot) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
}

// Overlapping returns the parts of segments that lie in [lo, hi), none if hi is not above lo.
// segments must be sorted by address and disjoint. The result shares their memory.
func Overlapping(segments []Segment, lo, hi uint64) []Segment {
	var out []Segment
	i := sort.Search(len(segments), func(i int) bool { return segments[i].End() > lo })
	for ; lo < hi && i < len(segments) && segments[i].Addr < hi; i++ {
		s := &segments[i]
		from, to := max(lo, s.Addr), min(hi, s.End())
		out = append(out, Segment{from, s.Data[from-s.Addr : to-s.Addr]})
	}
	return out
}

// differences appends the runs of seg in which the snapshot has other bytes or none.
func (d *build) differences(runs []run, seg Segment) []run {
	keep := func(s Segment) {
		if len(s.Data) == 0 || d.tooLarge {
			return
		}
		if !d.limits.hold(d.arena, len(s.Data)) {
			d.tooLarge = true
			return
		}
		runs = append(runs, run{s.Addr, s.End(), uint32(len(d.arena))})
		d.arena = append(d.arena, s.Data...)
	}
	at := seg.Addr
	for _, same := range Overlapping(d.snapshot.Segments, seg.Addr, seg.End()) {
		keep(Segment{at, seg.Data[at-seg.Addr : same.Addr-seg.Addr]})
		mine := seg.Data[same.Addr-seg.Addr:][:len(same.Data)]
		for i := 0; i < len(mine); {
			const step = 256
			if n := min(step, len(mine)-i); bytes.Equal(mine[i:i+n], same.Data[i:i+n]) {
				i += n
				continue
			}
			for mine[i] == same.Data[i] {
				i++
			}
			j := i + 1
			for j < len(mine) && mine[j] != same.Data[j] {
				j++
			}
			keep(Segment{same.Addr + uint64(i), mine[i:j]})
			i = j
		}
		at = same.End()
	}
	keep(Segment{at, seg.Data[at-seg.Addr:]})
	return runs
}

// cuts calls cut for each range of the snapshot, for each in which it differs, and for those
// that may be traps.
func (c *furtherSnapshot) cuts(cut func(lo, hi uint64)) {
	for _, s := range c.segments {
		cut(s.Addr, s.End())
	}
	for _, r := range c.differs {
		cut(r.lo, r.hi)
	}
	for _, places := range [...][]Range{c.traps, c.lone} {
		for _, r := range places {
			cut(r.Lo, r.Hi)
		}
	}
}

// content returns the content that the snapshot has of a fragment, or noContent.
func (c *furtherSnapshot) content(f *fragment) uint32 {
	i := sort.Search(len(c.differs), func(i int) bool { return c.differs[i].hi > f.addr })
	if i < len(c.differs) && c.differs[i].lo <= f.addr {
		return c.differs[i].off + uint32(f.addr-c.differs[i].lo)
	}
	i = sort.Search(len(c.segments), func(i int) bool { return c.segments[i].End() > f.addr })
	if i < len(c.segments) && c.segments[i].Addr <= f.addr {
		return snapshotContent
	}
	return noContent
}

// likeSnapshot reports whether all further snapshots have the snapshot's bytes of the
// fragment.
func (d *build) likeSnapshot(f *fragment) bool {
	return !slices.ContainsFunc(d.copied, func(c furtherSnapshot) bool { return c.content(f) != snapshotContent })
}

// A clash is a copy whose bytes cannot have been there while it was made.
type clash struct {
	from, to uint64
	content  uint32
}

// withSnapshots returns the changes of an epoch, with the further snapshots that were made in
// it among them. A copy during which changes were recorded is not among them: it proves
// nothing more if it agrees with them, and is a clash if it does not.
func (c *historyBuilder) withSnapshots(e0, e1 uint64, init initial, changes []change) []change {
	if len(c.copied) == 0 || c.uncopied {
		return changes
	}
	out := slices.Clone(changes)
	since, busy := uint64(0), uint64(0) // the time of the copies before that this one overlaps
	last := uint32(noContent)
	shown := MaxTime // when the last copy showed a trap, or the first one of those with the same bytes; MaxTime: it does not
	if init.content != noContent {
		since, busy, last = init.from, init.to, init.content
	}
	for i := range c.copied {
		cp := &c.copied[i]
		content := cp.content(c.f)
		if content == noContent || cp.from < e0 || cp.to >= e1 {
			continue
		}
		if c.content != noContent && cp.from < init.from {
			continue // what the epoch begins with was copied later, and says no less
		}
		lo := upToTime(changes, max(cp.from, 1)-1)
		hi := upToTime(changes, cp.to)
		inside := changes[lo:hi]
		copied := initial{content: content, segments: cp.segments, from: cp.from, to: cp.to}
		if c.trapped(&copied, changes, lo, hi) || inRanges(cp.traps, c.f.addr) && !c.borders(content, changes, lo, hi) {
			continue // it says nothing of what is there before the change, or after it
		}
		if lo > 0 && c.unwritten(&copied, &changes[lo-1]) {
			continue
		}
		if lo == 0 && last == noContent && inRanges(cp.lone, c.f.addr) && !c.borders(content, changes, lo, hi) {
			continue // the trap of a change of which there may be no record
		}
		left := c.leftThere(&copied, changes, lo)
		trap := cp.nearLoss && c.newTrap(content, last, lo) && !left && !c.borders(content, changes[hi:], 0, 0)
		switch {
		case trap && shown == MaxTime:
			shown = cp.to
		case !trap && shown != MaxTime && c.equal(last, content) && cp.from <= Later(shown, trapTime) && !left:
			trap = true // of the same change
		case !trap:
			shown = MaxTime
		}
		// Copies that overlap may differ if a change was recorded meanwhile.
		overlaps := last != noContent && cp.from <= busy &&
			upToTime(changes, max(since, 1)-1) == upToTime(changes, max(busy, cp.to))
		if !overlaps {
			since, busy = cp.from, cp.to
		}
		switch {
		case len(inside) > 0 && !c.consistent(content, cp.from, inside),
			len(inside) == 0 && overlaps && !c.equal(last, content):
			c.clashes = append(c.clashes, clash{cp.from, cp.to, content})
		case len(inside) == 0 && !overlaps:
			n := upToTime(out, cp.from)
			// No change comes between copies that overlap, so their order is free: what was read by an
			// earlier time is looked at first.
			for n > 0 && out[n-1].copied && out[n-1].until > cp.to {
				n--
			}
			for n < len(out) && out[n].copied && out[n].until <= cp.to {
				n++
			}
			ch := change{time: cp.from, until: cp.to, old: content, new: content, hasOld: true, hasNew: true, copied: true, trap: trap, order: noPoke}
			out = slices.Insert(out, n, ch)
			c.proofs = append(c.proofs, ch)
		}
		busy, last = max(busy, cp.to), content
	}
	return out
}

// newTrap reports whether a copy that is made behind so many changes has an INT3 where neither the last copy nor the
// snapshot has the same bytes. last is what these have, noContent if there are none.
func (c *historyBuilder) newTrap(content, last uint32, changes int) bool {
	b := c.bytes(content)
	if b[0] != int3 || len(b) > 1 && b[1] == int3 { // the latter is padding
		return false
	}
	if changes > 0 {
		return true
	}
	return last != noContent && !c.equal(last, content)
}

// leftThere reports whether a copy that is made behind so many changes has what the last of them left, with nothing lost
// between the two: an INT3 is no trap of a change without a record then.
func (c *historyBuilder) leftThere(x *initial, changes []change, n int) bool {
	return c.borders(x.content, changes[:n], n, n) && len(c.gaps.between(changes[n-1].time, Later(x.to, 1))) == 0
}

// copiedBetween reports whether a further snapshot has a content that was made after all records up to one time, and
// before those of another time and later.
func (c *historyBuilder) copiedBetween(from, until uint64, content uint32) bool {
	return slices.ContainsFunc(c.proofs, func(ch change) bool {
		return from <= ch.time && ch.until < until && c.equal(ch.old, content)
	})
}

// trapTime is for how long the trap of a change can be there before the change's record and
// after it, in nanoseconds, and for how long new code can be missing after its record. In an
// emulator that is up to a second, and the kernel can write a record later than its time.
const trapTime = 10e9

// trapped reports whether a copy that was made during changes[lo:hi] shows the trap of the change
// before that or of the one behind it, and not what these left or found, with nothing lost between:
//
//	trap set         P's record           trap gone
//	   ├─────────────────┼────────────────────┤
//	   ├ copy ┤                   ├ copy ┤           both have INT3
func (c *historyBuilder) trapped(x *initial, changes []change, lo, hi int) bool {
	before := lo > 0 && x.from <= Later(changes[lo-1].time, trapTime) && c.showsTrap(x, &changes[lo-1])
	behind := hi < len(changes) && changes[hi].time <= Later(x.to, trapTime) && c.showsTrap(x, &changes[hi])
	if lo > 0 && len(c.gaps.between(changes[lo-1].time, Later(x.to, 1))) > 0 {
		lo = 0 // what it left need not be what was there then
	}
	if hi < len(changes) && len(c.gaps.between(x.from, changes[hi].time)) > 0 {
		hi = len(changes)
	}
	return (before || behind) && !c.borders(x.content, changes, lo, hi)
}

// unwritten reports whether a copy may have been made between the record of the change that makes
// code, after which the kernel writes it (arch_prepare_kprobe() in arch/x86/kernel/kprobes/core.c),
// and that write. An interrupt can come between the two:
//
//	P's record   copy   P's bytes are written
//	     │      ├────┤          │                 the copy has what was there before
func (c *historyBuilder) unwritten(x *initial, ch *change) bool {
	return ch.birth && x.from <= Later(ch.time, trapTime) && !c.equal(ch.new, x.content)
}

// copiedAtOnce is how many bytes are read at one moment when a copy is made, from a multiple of it on: a page
// (kcore_copy__copy_file of perf, read_kcore_iter of the kernel).
const copiedAtOnce = 4096

// showsTrap reports whether a copy shows the trap of a change. The trap is at the change's first
// byte, where another fragment may be: two copies that differ within a change cut it.
func (c *historyBuilder) showsTrap(x *initial, ch *change) bool {
	if ch.offset == 0 {
		b := c.bytes(x.content)
		return len(b) > 0 && b[0] == int3 && c.halfWritten(x.content, ch)
	}
	if !c.halfWritten(x.content, ch) {
		return false
	}
	if c.im.arena[ch.old-ch.offset] == int3 && c.im.arena[ch.new-ch.offset] == int3 {
		return false // it need not be a trap of this change; that of a kprobe that is optimised may be
	}
	at := c.f.addr - uint64(ch.offset)
	if at/copiedAtOnce != c.f.addr/copiedAtOnce {
		return true // where the trap was may have been read before
	}
	b, ok := c.copiedAt(x, at)
	return ok && b == int3
}

// copiedAt returns the byte that a copy has at addr, below the fragment, also where nothing is
// alive.
func (c *historyBuilder) copiedAt(x *initial, addr uint64) (b byte, ok bool) {
	if x.segments == nil { // it is code, of which the arena has all
		if addr < x.lo {
			return 0, false
		}
		return c.im.arena[x.content-uint32(c.f.addr-addr)], true
	}
	for _, s := range Overlapping(x.segments, addr, addr+1) {
		return s.Data[0], true
	}
	return 0, false
}

// borders reports whether the change before changes[lo:hi] left a content, or the one behind
// them found it.
func (c *historyBuilder) borders(content uint32, changes []change, lo, hi int) bool {
	return lo > 0 && changes[lo-1].hasNew && c.equal(changes[lo-1].new, content) ||
		hi < len(changes) && changes[hi].hasOld && c.equal(changes[hi].old, content)
}

// noPoke is the order of arrival of a change that is not a poke.
const noPoke = ^uint32(0)

// read fills the time between the last fact and changes[i], a further snapshot, and makes the copy
// the last fact, from the moment on from which its bytes hold. The epoch ends at e1.
func (c *historyBuilder) read(p *progress, changes []change, i int, e1 uint64) {
	ch := &changes[i]
	reason := SnapshotMismatch
	if c.source == SourceSnapshot {
		reason = SnapshotsDiffer
	}
	agrees := c.finds(p, ch)
	fact := claim{content: ch.old, source: SourceSnapshot}
	at := max(ch.time, p.t) // the copy before it may have been made until later
	weak, end := c.weakSnapshot(p, ch)
	if weak != ReasonNone && end <= p.t {
		return // it says nothing of the time since then
	}
	if weak != ReasonNone && weak == c.soft && c.foundNext(p, changes[i:], e1) {
		return
	}
	if p.open && !agrees {
		c.content = noContent
	}
	switch {
	case weak != ReasonNone:
		at = end
		c.readWeak(p, end, ch, weak, agrees, reason)
	case c.content == noContent:
		c.backward(p.t, at, fact)
	case agrees:
		c.agree(p.t, p.proven, at, p.weak, fact)
	default:
		if len(c.gaps.between(p.t, at)) == 0 {
			// Nothing was lost, and yet they differ: the change lies before the moment
			// when the copy was read, which may be its last.
			at = Later(ch.until, 1)
		}
		c.disagree(p.t, at, reason, fact, c.isAlone(p, changes[:i]), false)
	}
	c.content, c.source = ch.old, SourceSnapshot
	*p = progress{t: at, proven: at, weak: weak, open: c.mayBeOfBefore(ch)}
}

// foundNext reports whether the change behind some copies, which prove nothing by themselves, finds what all of them have,
// and shows what was there before as it would without them:
//
//	last loss   ├┤
//	            │    copy of A    P: A -> B       A is known up to P
//	            │                 P: A -> B       so it is
func (c *historyBuilder) foundNext(p *progress, changes []change, e1 uint64) bool {
	n := slices.IndexFunc(changes, func(ch change) bool { return !ch.copied })
	if n < 0 {
		return false
	}
	ch := &changes[n]
	if ch.confirms || !ch.hasOld || c.rivalsOf(ch) != nil || slices.ContainsFunc(changes[:n], func(cp change) bool { return cp.trap || !c.equal(cp.old, ch.old) }) {
		return false
	}
	if c.content == noContent {
		return !c.mayBeOfOther(ch, changes[n+1:], e1) && !c.rivalsMake(ch) && !c.leftLate(ch, changes[n+1:])
	}
	return c.finds(p, ch) && p.weak == c.soft
}

// weakSnapshot returns why a further snapshot gives no more than unconfirmed bytes; none if it
// gives known ones. Where something may have changed unrecorded while it was made, it is
// not known on which side of that it was read. From end on, nothing changed up to the next fact
// that is not recorded.
func (c *historyBuilder) weakSnapshot(p *progress, ch *change) (r Reason, end uint64) {
	end = Later(ch.until, 1)
	if inside := c.gaps.between(ch.time, end); len(inside) > 0 {
		last := inside[len(inside)-1]
		return last.reason, min(end, last.to)
	}
	if ch.trap {
		return SnapshotMismatch, end // as of a trap in the first snapshot, see begin
	}
	if c.content == noContent || p.weak == c.soft || p.weak != ReasonNone && c.soft != ReasonNone {
		return c.soft, end // what the last fact gives is proven by none
	}
	return ReasonNone, end
}

// mayBeOfBefore reports whether a copy may have been made before a loss, or during it, that ended by the copy's latest
// moment.
func (c *historyBuilder) mayBeOfBefore(ch *change) bool {
	end := Later(ch.until, 1)
	return len(c.gaps.between(ch.time, end)) > 0 && len(c.gaps.between(end, Later(end, 1))) == 0
}

// readWeak is read, up to end, for a copy that gives unconfirmed bytes. Up to the first gap the
// last fact's bytes stay known.
func (c *historyBuilder) readWeak(p *progress, end uint64, ch *change, weak Reason, agrees bool, reason Reason) {
	if c.content == noContent {
		c.emit(p.t, Unconfirmed, weak, SourceSnapshot, ch.old)
		return
	}
	from := p.t
	all := c.gaps.between(p.t, end)
	if p.weak == ReasonNone && len(all) > 0 {
		from = max(p.t, all[0].from)
	}
	if p.t < from {
		c.emit(p.t, Known, ReasonNone, c.source, c.content)
	}
	if agrees {
		c.emit(from, Unconfirmed, EqualAtBothEnds, SourceSnapshot, ch.old)
	} else {
		c.conflict(from, end, reason, c.claim(p.t), claim{content: ch.old, source: SourceSnapshot})
		c.excuse(len(all) > 0)
	}
}

// clash makes the time between the facts around each clash conflicting.
func (c *historyBuilder) clash(e0, e1 uint64, changes []change) {
	for _, x := range c.clashes {
		from, to := e0, e1
		for i := range changes {
			if ch := &changes[i]; ch.time < x.from {
				from = ch.time
			} else if ch.time > x.to && ch.time < to {
				to = ch.time
			}
		}
		excused := len(c.gaps.between(from, to)) > 0
		c.overlay(from, to, func(v version, until uint64) {
			if v.standing == Known || v.standing == Unconfirmed {
				c.conflict(v.since, until, SnapshotMismatch, claimOf(&v), claim{content: x.content, source: SourceSnapshot})
				c.excuse(excused)
			} else {
				c.put(v)
			}
		})
	}
	c.clashes = c.clashes[:0]
}
