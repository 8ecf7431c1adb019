// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/binary"
	"iter"
	"math"
	"slices"
)

// Contents of versions: an arena offset, or one of these.
const (
	noContent       = math.MaxUint32
	snapshotContent = math.MaxUint32 - 1
	maxContent      = math.MaxUint32 - 2 // the arena's greatest size
)

// Image answers which bytes of one kernel's text are at an address at a time. It is
// immutable and safe for concurrent use. It reads unpatched text in place from the
// snapshot and the seed that the builder was given.
type Image struct {
	tables
	pageIndex
	segments         []Segment
	first, horizon   uint64
	textLo, textHi   uint64
	only             []Range // the addresses that the image covers; nil: all
	duplicates       int
	skews            []Skew
	lives            []*Lifetime  // by address, then time
	dynamic, modules livesByPlace // of lives
	names            Names
}

// A fragment is a range of addresses over which every fact is uniform.
type fragment struct {
	addr uint64
	size uint32
	seg  int32 // which of Image.segments covers it: the snapshot's or the seed's; -1: none
	versions
}

// A conflict is a set of claims that cannot all be true: facts that contradict each
// other, or both sides of a change that is going on.
type conflict struct {
	addr     uint64
	from, to uint64 // when the bytes are conflicting, or in flight
	claims   uint32 // the first of them: Image.claims[claims:claims+count]
	count    uint32
	size     uint32
	fragment uint32
	reason   Reason
	excused  uint8 // 1: see Conflict.Excused
}

// A claim is the content that one fact gives.
type claim struct {
	time    uint64 // as of Fact
	content uint32
	source  Source
	old     bool
}

// contradiction reports whether facts contradict each other; if not, a change is going on.
func (x *conflict) contradiction() bool {
	return x.reason != InExplicitWindow && x.reason != ClockUncertainty
}

func (im *Image) claimsOf(x *conflict) []claim { return im.claims[x.claims:][:x.count] }

func (im *Image) contentBytes(f *fragment, content uint32) []byte {
	switch content {
	case noContent:
		return nil
	case snapshotContent:
		s := &im.segments[f.seg]
		return s.Data[f.addr-s.Addr:][:f.size]
	}
	return im.arena[content:][:f.size]
}

// First returns the time of the first record, in nanoseconds of the recording's clock.
func (im *Image) First() uint64 { return im.first }

// Horizon returns the latest time up to which the recording is complete, in nanoseconds of
// the recording's clock.
func (im *Image) Horizon() uint64 { return im.horizon }

// Text returns the range of core kernel text, [_stext, _etext); 0, 0 if it is not known.
func (im *Image) Text() (lo, hi uint64) { return im.textLo, im.textHi }

// View is an image at one time. It is a small value, and safe for concurrent use.
type View struct {
	im *Image
	t  uint64
}

// At returns the image at time t, in nanoseconds of the recording's clock. At the time
// of a poke the poke's new bytes are there. [MaxTime] is in no interval, so it is taken for the
// time before it.
func (im *Image) At(t uint64) View { return View{im, min(t, MaxTime-1)} }

// Image returns the image of the view.
func (v View) Image() *Image { return v.im }

// Time returns the time of the view, in nanoseconds of the recording's clock.
func (v View) Time() uint64 { return v.t }

// Block is the answer for a block of bytes.
type Block struct {
	// Standing is the least of the standings of all bytes, Reason the reason of that byte.
	Standing Standing
	Reason   Reason
	// Given is how many bytes of the buffer were filled: the leading bytes for which
	// facts give one content. The rest of the buffer is zero.
	Given int
	// Validity is the time during which the block has these bytes and this standing.
	Validity
	// NoTrap is the time around the asked one during which no window is open over the
	// block (see [Window]): a CPU that runs the block's code then runs these very bytes,
	// as far as Standing says that they are known. It is empty if a window is open, and
	// always if the answer is not of a cursor that knows windows; see [Windows.Cursor].
	// It may reach beyond Validity. Windows are those of recorded pokes.
	NoTrap Validity
}

// Settled returns the time around the asked one during which the block has these bytes and this
// standing, and no CPU may meet a trap in their place: what both Validity and NoTrap
// have. It is empty if a window is open.
func (b *Block) Settled() Validity {
	v := Validity{max(b.Since, b.NoTrap.Since), min(b.Until, b.NoTrap.Until)}
	if v.Since > v.Until {
		return Validity{}
	}
	return v
}

// Validity is the half-open interval of time [Since, Until) in which an answer is the
// same, in nanoseconds of the recording's clock. 0 and [MaxTime] mean that nothing
// bounds it.
type Validity struct{ Since, Until uint64 }

// At reports whether time t is in v. No time is in an interval that ends before it begins.
func (v Validity) At(t uint64) bool { return v.Since <= t && t < v.Until }

// Read fills buf with the bytes at addr and returns the standing and the validity of
// the whole block. From the first byte on that is [Unknown], [Unmapped] or
// [Conflicting], buf is zero; see [Block.Given]. Read does not allocate.
func (v View) Read(addr uint64, buf []byte) Block {
	im := v.im
	if at := addr - im.base; im.has(at, len(buf)) {
		h := im.at(&im.unpatched, v.t)
		return Block{h.standing, h.reason, im.unpatchedText.read(at, buf), Validity{h.since, h.until}, Validity{}}
	}
	return im.read(addr, v.t, buf, im.find(addr), nil)
}

// read is [View.Read]. The i-th fragment is the first that ends after addr. A cursor c
// that is not nil caches versions.
func (im *Image) read(addr, t uint64, buf []byte, i int, c *Cursor) Block {
	b := Block{Standing: Known, Validity: Validity{Until: MaxTime}}
	if len(buf) == 0 {
		return b
	}
	n, whole := 0, true
	for n < len(buf) {
		a := addr + uint64(n)
		if i >= len(im.fragments) || a < im.fragments[i].addr {
			// No fragment is here.
			m := len(buf) - n
			if i < len(im.fragments) {
				m = int(min(uint64(m), im.fragments[i].addr-a))
			}
			if s, r := im.hole(a, uint64(m)); s < b.Standing {
				b.Standing, b.Reason = s, r
			}
			whole = false
			n += m
			continue
		}
		f := &im.fragments[i]
		var ver versionAt
		if c != nil {
			ver = c.at(i, f, t)
		} else {
			ver = im.at(&f.versions, t)
		}
		b.Since = max(b.Since, ver.since)
		b.Until = min(b.Until, ver.until)
		if ver.standing < b.Standing {
			b.Standing, b.Reason = ver.standing, ver.reason
		}
		off := a - f.addr
		m := min(uint64(len(buf)-n), uint64(f.size)-off)
		if whole && ver.standing.HasBytes() {
			if rest := buf[n:]; len(rest) >= shortContent && ver.short(f.size) {
				binary.LittleEndian.PutUint64(rest, ver.bytes>>(8*off)) // what follows overwrites the rest
			} else {
				content := ver.content
				if ver.standing == InFlight {
					content = im.after(content)
				}
				copy(rest, im.contentBytes(f, content)[off:off+m])
			}
			b.Given = n + int(m)
		} else {
			whole = false
		}
		n += int(m)
		i++
	}
	clear(buf[b.Given:])
	return b
}

// hole returns the answer for [addr, addr+n), where the image has no fragment.
func (im *Image) hole(addr, n uint64) (Standing, Reason) {
	if wantedAll(im.only, addr, n) {
		return Unmapped, ReasonNone
	}
	return Unknown, OutsideImage
}

// Versions yields the versions of [addr, addr+len(buf)) in [t0, t1), in the order of
// time, for a decoder that knows the time only as an interval. If t1 is not after t0, it
// yields the version at t0. buf has the bytes of the version that was yielded last. Since may
// be before t0, Until after t1.
func (im *Image) Versions(addr uint64, buf []byte, t0, t1 uint64) iter.Seq[Block] {
	return func(yield func(Block) bool) {
		for t := t0; t < t1 || t == t0; {
			b := im.At(t).Read(addr, buf)
			if !yield(b) || b.Until >= t1 || b.Until <= t {
				return
			}
			t = b.Until
		}
	}
}

// Fact is the fact that gives a candidate.
type Fact struct {
	Source Source
	Time   uint64 // of a poke, or of the start or end of an explicit window; 0 for others
	Old    bool   // the bytes are the old ones, which were there just before Time
}

// Candidate is one of several contents that contradict each other, or the only one, if
// what contradicts it gives no bytes.
type Candidate struct {
	Bytes []byte // read-only, valid as long as the image
	Fact  Fact
}

// Span is the answer for a run of bytes that have the same standing, validity and source.
type Span struct {
	Addr     uint64
	Len      uint64
	Standing Standing
	Reason   Reason
	Source   Source
	Since    uint64 // see Validity
	Until    uint64
	// Bytes are read-only and valid as long as the image. They are nil if facts do not
	// give one content. Of a span in flight they are the new bytes.
	Bytes []byte
	// Candidates are all contents of a conflicting span, or the old and the new ones of a
	// span in flight, in the order of the changes.
	Candidates []Candidate
}

// Spans yields the answers for all of [addr, addr+n), by address. Where nothing is
// mapped, the standing of a span is [Unmapped]. Neighbours with the same standing,
// reason, source and validity are one span.
func (v View) Spans(addr, n uint64) iter.Seq[Span] {
	return func(yield func(Span) bool) {
		var pending Span
		have, owned := false, false
		put := func(s Span) bool {
			if have && pending.joins(&s) {
				pending.Len += s.Len
				pending.Bytes = extend(pending.Bytes, s.Bytes, &owned)
				return true
			}
			if have && !yield(pending.clipped()) {
				return false
			}
			pending, have, owned = s, true, false
			return true
		}
		for s := range v.pieces(addr, n) {
			if !put(s) {
				return
			}
		}
		if have {
			yield(pending.clipped())
		}
	}
}

// extend appends b to a: in place if b follows a in memory, as neighbours in the
// snapshot do, else in a buffer that Spans owns.
func extend(a, b []byte, owned *bool) []byte {
	if len(b) == 0 {
		return a
	}
	if !*owned {
		if cap(a) > len(a) && &a[:len(a)+1][len(a)] == &b[0] {
			return a[:len(a)+len(b)]
		}
		a = append(make([]byte, 0, 2*(len(a)+len(b))), a...)
		*owned = true
	}
	return append(a, b...)
}

// clipped removes the spare capacity of Bytes, which is memory of the image.
func (s Span) clipped() Span {
	s.Bytes = slices.Clip(s.Bytes)
	return s
}

func (s *Span) joins(o *Span) bool {
	return s.Standing == o.Standing && s.Reason == o.Reason && s.Source == o.Source &&
		s.Since == o.Since && s.Until == o.Until && s.Candidates == nil && s.Addr+s.Len == o.Addr
}

// pieces yields the fragments of [addr, addr+n) and the holes between them. It copies no
// bytes.
func (v View) pieces(addr, n uint64) iter.Seq[Span] {
	return func(yield func(Span) bool) {
		im := v.im
		if addr+n < addr {
			n = -addr // up to the end of the address space
		}
		for i := im.find(addr); n > 0; i++ {
			if i >= len(im.fragments) || im.fragments[i].addr > addr {
				m := n
				if i < len(im.fragments) {
					m = min(m, im.fragments[i].addr-addr)
				}
				standing, reason := im.hole(addr, m)
				if !yield(Span{Addr: addr, Len: m, Standing: standing, Reason: reason, Until: MaxTime}) {
					return
				}
				addr, n = addr+m, n-m
				if n == 0 {
					return
				}
			}
			f := &im.fragments[i]
			off := addr - f.addr
			m := min(n, uint64(f.size)-off)
			if !yield(im.span(f, im.at(&f.versions, v.t), off, m)) {
				return
			}
			addr, n = addr+m, n-m
		}
	}
}

// span returns a version of m bytes of f, from offset off on.
func (im *Image) span(f *fragment, ver versionAt, off, m uint64) Span {
	s := Span{Addr: f.addr + off, Len: m, Standing: ver.standing, Reason: ver.reason,
		Source: ver.source, Since: ver.since, Until: ver.until}
	switch {
	case ver.standing == Conflicting || ver.standing == InFlight:
		c := &im.conflicts[ver.content]
		s.Candidates = im.candidates(c, off, m)
		if ver.standing == InFlight {
			s.Bytes = s.Candidates[len(s.Candidates)-1].Bytes
		}
	case ver.standing.HasBytes():
		s.Bytes = im.contentBytes(f, ver.content)[off : off+m]
	}
	return s
}

// after returns the content that is there after the change of conflict i.
func (im *Image) after(i uint32) uint32 {
	x := &im.conflicts[i]
	return im.claims[x.claims+x.count-1].content
}

func (im *Image) candidates(x *conflict, off, m uint64) []Candidate {
	f := &im.fragments[x.fragment]
	out := make([]Candidate, 0, x.count)
	for _, c := range im.claimsOf(x) {
		out = append(out, Candidate{im.contentBytes(f, c.content)[off : off+m], Fact{c.source, c.time, c.old}})
	}
	return out
}

// Ranges yields the ranges of addresses [lo, hi) for which the image has facts, at any
// time. They are sorted and do not touch.
func (v View) Ranges() iter.Seq2[uint64, uint64] {
	return func(yield func(lo, hi uint64) bool) {
		im := v.im
		for i := 0; i < len(im.fragments); {
			lo := im.fragments[i].addr
			hi := lo + uint64(im.fragments[i].size)
			for i++; i < len(im.fragments) && im.fragments[i].addr == hi; i++ {
				hi += uint64(im.fragments[i].size)
			}
			if !yield(lo, hi) {
				return
			}
		}
	}
}

// Conflict is a contradiction between facts about [Addr, Addr+Len).
type Conflict struct {
	Addr       uint64
	Len        uint64
	From, To   uint64 // when the bytes are conflicting
	Reason     Reason
	Candidates []Candidate
	// Excused is set if no writer without records is needed to explain the contradiction: a gap
	// may hide the change that is missing, or it is unknown in which order changes came.
	Excused bool
}

// Conflicts yields all contradictions, by address.
func (im *Image) Conflicts() iter.Seq[Conflict] {
	return func(yield func(Conflict) bool) {
		for i := range im.conflicts {
			c := &im.conflicts[i]
			if !c.contradiction() {
				continue
			}
			if !yield(Conflict{c.addr, uint64(c.size), c.from, c.to, c.reason, im.candidates(c, 0, uint64(c.size)), c.excused != 0}) {
				return
			}
		}
	}
}

// Stats are the sizes of an image.
type Stats struct {
	Fragments, Versions, Conflicts int
	ContentBytes                   int
	// Duplicates is how many pokes were exact copies of others.
	Duplicates int
	// Crowded is how many bytes are [Unknown] with the reason [TooManyFacts].
	Crowded uint64
}

// Stats returns the sizes of the image. It looks at every fragment.
func (im *Image) Stats() Stats {
	conflicts := 0
	for i := range im.conflicts {
		if im.conflicts[i].contradiction() {
			conflicts++
		}
	}
	n, shared, crowded := 0, false, uint64(0)
	for i := range im.fragments {
		h := &im.fragments[i].versions
		if im.states[h.states].reason == TooManyFacts && im.states[h.states].standing == Unknown {
			crowded += uint64(im.fragments[i].size)
		}
		if *h != im.unpatched {
			n += int(h.count)
		} else if !shared {
			n, shared = n+int(h.count), true
		}
	}
	return Stats{len(im.fragments), n, conflicts, len(im.arena), im.duplicates, crowded}
}

// Extent returns the time of the first record and the horizon, in nanoseconds of the
// recording's clock. No bytes are [Known] outside of them.
func (im *Image) Extent() (first, horizon uint64) { return im.first, im.horizon }

// Names returns the table of names of [Builder.Names], nil if there is none.
func (im *Image) Names() Names { return im.names }

// Skews returns the pokes that CPUs with differing clocks recorded in the wrong order,
// by address and time. The slice belongs to the image.
func (im *Image) Skews() []Skew { return im.skews }

// Fragments yields every version of every fragment, by address and time: the range of
// the fragment, and the validity of the version.
func (im *Image) Fragments() iter.Seq2[Range, Validity] {
	return func(yield func(Range, Validity) bool) {
		for i := range im.fragments {
			f := &im.fragments[i]
			for k := range f.count {
				v := im.version(&f.versions, k)
				if !yield(Range{f.addr, f.addr + uint64(f.size)}, Validity{v.since, v.until}) {
					return
				}
			}
		}
	}
}
