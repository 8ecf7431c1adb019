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

// Image is all facts of one kernel, indexed by address and time. It is
// immutable and safe for any number of goroutines. It reads unpatched text in place
// from the snapshot that the builder was given.
type Image struct {
	tables
	pageIndex
	segments       []Segment
	first, horizon uint64
	textLo, textHi uint64
	only           []Range // where set, what the image covers
	doubles        int
	skews          []Skew
	lives          []*Lifetime // by address
	livesReach     []uint64    // greatest end of lives[:i+1]
	names          Names
}

// A fragment is a range of addresses over which every fact is uniform.
type fragment struct {
	addr uint64
	size uint32
	seg  int32 // the snapshot segment that covers it, or -1
	versions
}

// A conflict is a set of claims that cannot all hold: facts that contradict one
// another, or the sides of a change that is going on.
type conflict struct {
	addr     uint64
	from, to uint64 // when the bytes are conflicting, or in flight
	claims   uint32 // the first of them: Image.claims[claims:claims+count]
	count    uint32
	size     uint32
	fragment uint32
	reason   Reason
}

// A claim is what one fact says of a conflict's bytes.
type claim struct {
	time    uint64 // as of Fact
	content uint32
	source  Source
	old     bool
}

// contradiction reports whether facts disagree, rather than a change going on.
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

// First returns the time of the first record.
func (im *Image) First() uint64 { return im.first }

// Horizon returns the time up to which nothing earlier can still arrive.
func (im *Image) Horizon() uint64 { return im.horizon }

// Text returns the range of core kernel text, [_stext, _etext); 0, 0 where it
// is not known.
func (im *Image) Text() (lo, hi uint64) { return im.textLo, im.textHi }

// View is an image at one time. It is a value and free to make.
type View struct {
	im *Image
	t  uint64
}

// At returns the image as of time t, in nanoseconds of the recording's clock.
// At the very time of a poke its new bytes are there.
func (im *Image) At(t uint64) View { return View{im, t} }

// Image returns the image that v looks at.
func (v View) Image() *Image { return v.im }

// Time returns the time at which v looks.
func (v View) Time() uint64 { return v.t }

// Block is the answer for a whole block of bytes.
type Block struct {
	// Standing is the least of all bytes' standings, Reason that byte's.
	Standing Standing
	Reason   Reason
	// Given is how many leading bytes a single fact gives: the part of the
	// buffer that was filled. The rest of the buffer is zero.
	Given int
	// The block has the same bytes of the same standing all that time.
	Validity
}

// Validity is the time during which an answer holds: at every time t with
// Since <= t < Until; 0 and MaxTime where nothing bounds it.
type Validity struct{ Since, Until uint64 }

// at reports whether t is in v.
func (v *Validity) at(t uint64) bool { return t-v.Since < v.Until-v.Since }

// Read fills buf with the bytes at addr and returns the standing and validity of
// the whole block. It does not allocate. Bytes from the first that no single
// fact gives (unknown, unmapped, conflicting) on are zero: see Block.Given.
func (v View) Read(addr uint64, buf []byte) Block {
	im := v.im
	if at := addr - im.base; im.has(at, len(buf)) {
		h := im.at(&im.unpatched, v.t)
		return Block{h.standing, h.reason, im.unpatchedText.read(at, buf), Validity{h.since, h.until}}
	}
	return im.read(addr, v.t, buf, im.find(addr), nil)
}

// read is View.Read, beginning with the i-th fragment, the first that ends
// after addr. c, where not nil, remembers versions.
func (im *Image) read(addr, t uint64, buf []byte, i int, c *Cursor) Block {
	b := Block{Standing: Known, Validity: Validity{Until: MaxTime}}
	if len(buf) == 0 {
		return b
	}
	n, whole := 0, true
	for n < len(buf) {
		a := addr + uint64(n)
		if i >= len(im.fragments) || a < im.fragments[i].addr {
			// A hole in the image is an answer too.
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

// hole says what is in [addr, addr+n), of which the image has no fragment.
func (im *Image) hole(addr, n uint64) (Standing, Reason) {
	if im.only == nil || slices.ContainsFunc(im.only, func(r Range) bool { return r.Lo <= addr && n <= r.Hi-addr && addr < r.Hi }) {
		return Unmapped, ReasonNone
	}
	return Unknown, OutsideImage
}

// Versions yields the successive versions of [addr, addr+len(buf)) within
// [t0, t1), in order of time, for a decoder that knows the time only as an
// interval. buf holds the bytes of the version just yielded and is overwritten
// by the next. Since and Until are the version's own and may pass t0 and t1.
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

// Fact is what a candidate rests on.
type Fact struct {
	Source Source
	Time   uint64 // of a poke, or of a window's begin or end; 0 for others
	Old    bool   // the bytes are the old ones: they stood just before Time
}

// Candidate is one of several contradicting contents, or the only one, which
// something contradicts that gives no bytes.
type Candidate struct {
	Bytes []byte // read-only, valid as long as the image
	Fact  Fact
}

// Span is the answer for a run of bytes that share standing, validity and source.
type Span struct {
	Addr     uint64
	Len      uint64
	Standing Standing
	Reason   Reason
	Source   Source
	Since    uint64 // 0: nothing bounds it
	Until    uint64 // MaxTime: nothing bounds it
	// Bytes are read-only and valid as long as the image; nil where no single
	// fact gives them. Of a change that is going on they are the new ones.
	Bytes []byte
	// Candidates are all contents of a conflicting span, and of one in flight
	// the old and the new ones, in the order of the changes.
	Candidates []Candidate
}

// Spans yields what is there in [addr, addr+n), without holes: where nothing
// is, the span's standing is Unmapped. Neighbours that differ in nothing but
// their bytes' place are joined, unless their bytes lie apart in memory.
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

// extend appends b to a: in place where b follows a in memory, as neighbours
// in the snapshot do, else in a buffer that Spans owns.
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

// clipped takes the spare capacity off Bytes: behind it lies memory of others.
func (s Span) clipped() Span {
	s.Bytes = slices.Clip(s.Bytes)
	return s
}

func (s *Span) joins(o *Span) bool {
	return s.Standing == o.Standing && s.Reason == o.Reason && s.Source == o.Source &&
		s.Since == o.Since && s.Until == o.Until && s.Candidates == nil && s.Addr+s.Len == o.Addr
}

// pieces yields the fragments of [addr, addr+n) and the holes between, without copying.
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

// span describes a version of m bytes of f from off on.
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

// after returns the content that is there when the change of conflict i is over.
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

// Ranges yields the address ranges about which the image says anything at
// time t, ascending, touching ones joined.
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

// Conflict is a contradiction between two facts.
type Conflict struct {
	Addr       uint64
	Len        uint64
	From, To   uint64 // when the bytes are conflicting
	Reason     Reason
	Candidates []Candidate
}

// Conflicts yields all contradictions, by address.
func (im *Image) Conflicts() iter.Seq[Conflict] {
	return func(yield func(Conflict) bool) {
		for i := range im.conflicts {
			c := &im.conflicts[i]
			if !c.contradiction() {
				continue
			}
			if !yield(Conflict{c.addr, uint64(c.size), c.from, c.to, c.reason, im.candidates(c, 0, uint64(c.size))}) {
				return
			}
		}
	}
}

// Stats counts what an image is made of.
type Stats struct {
	Fragments, Versions, Conflicts int
	ContentBytes                   int
	// Doubles is how many pokes were exact copies of others.
	Doubles int
	// Crowded is how many bytes are Unknown because of TooManyFacts.
	Crowded uint64
}

// Stats returns the image's counts.
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
	return Stats{len(im.fragments), n, conflicts, len(im.arena), im.doubles, crowded}
}

// Extent returns the time of the first record and the horizon, in nanoseconds
// of the recording's clock: nothing is known outside of them.
func (im *Image) Extent() (first, horizon uint64) { return im.first, im.horizon }

// Names returns the table of names that the image was built with, nil if none.
func (im *Image) Names() Names { return im.names }

// Skews returns the pokes that CPUs with differing clocks recorded in the wrong
// order, by address and time. The slice is the image's.
func (im *Image) Skews() []Skew { return im.skews }

// Fragments yields the ranges of addresses that share one history each, with
// the validity of every version of it, by address and time.
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
