// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"sort"
	"strings"
)

// ErrTooLarge is returned by [Builder.Build] when further copies and explicit
// windows hold so many bytes that are nowhere else that the image's contents pass
// 4 GiB.
var ErrTooLarge = errors.New("timeline: further snapshots and windows are too large for an image")

// limits bound the memory of a builder and its images, by more than any
// kernel's recording needs. What comes beyond is as if it had been lost.
type limits struct {
	pokes   uint32 // 16 bytes each
	sites   int    // some 700 bytes each
	content uint64 // bytes of different contents
	spare   int    // see spareFacts
}

// hold reports whether an arena has room for n bytes more.
func (l *limits) hold(arena []byte, n int) bool { return uint64(len(arena))+uint64(n) <= l.content }

var usualLimits = limits{pokes: 1 << 28, sites: 1 << 22, content: maxContent, spare: spareFacts}

// Poke is one change of text in place, the birth of out-of-line code (no Old),
// or its retirement (no New): one PERF_RECORD_TEXT_POKE. From Time on a CPU
// runs New or traps, before it Old or traps.
type Poke struct {
	Addr uint64
	Time uint64 // nanoseconds of the recording's clock
	Old  []byte // bytes before, at Addr; may be empty
	New  []byte // bytes after, at Addr; may be empty
	// CPU that recorded it, by its number from 0; negative: not known. Pokes of
	// different CPUs may be recorded in the wrong order, see Skew.
	CPU int
	// NotBefore, if later than Time, is the time of an earlier poke of the same
	// CPU: its clock was set back between. See Builder.ClockUncertainty.
	NotBefore uint64
}

// Segment is a run of bytes at an address.
type Segment struct {
	Addr uint64
	Data []byte
}

// End returns the address behind the last byte.
func (s *Segment) End() uint64 { return s.Addr + uint64(len(s.Data)) }

// Snapshot is a copy of memory taken at a moment that is only known to lie in
// [From, To]. From is before the start of the Builder's Extent where changes that
// were made since the copy may be missing: such a snapshot alone proves nothing. The builder and its images read Segments in place: their data
// must neither change nor be unmapped while an image is in use. Segments must
// be sorted by address and must not overlap.
type Snapshot struct {
	From, To uint64
	Segments []Segment
}

// SymbolKind tells what a dynamic symbol stands for.
type SymbolKind uint8

const (
	SymbolBPF       SymbolKind = iota + 1 // PERF_RECORD_KSYMBOL_TYPE_BPF
	SymbolOutOfLine                       // PERF_RECORD_KSYMBOL_TYPE_OOL: kprobe slots, ftrace trampolines
)

// SymbolEvent is the birth or the death of a dynamic symbol: one
// PERF_RECORD_KSYMBOL. Time 0 means 'there before the recording, or announced when
// it began', see [Builder.Announced].
type SymbolEvent struct {
	Time       uint64
	Addr       uint64
	Len        uint32 // for BPF images other than programs only an upper bound
	Kind       SymbolKind
	Unregister bool
	Name       string
	// Listed marks a symbol that no record announced: it stood in kallsyms
	// when the snapshot was taken. Its birth is Time 0.
	Listed bool
}

// Program is the code of a BPF program as HEADER_BPF_PROG_INFO has it, tied to
// one life by the time of its PERF_RECORD_BPF_EVENT LOAD.
type Program struct {
	ID       uint32
	LoadTime uint64 // 0: loaded before the recording, or announced
	Unloaded uint64 // time of its UNLOAD; 0: not recorded
	Funcs    []Segment
	// Silent are places inside the functions that the kernel may change with no
	// record, as it does on architectures without text pokes.
	Silent []Range
}

// Module is a kernel module that was loaded when a copy of the kernel was made.
// Only [Addr, TextEnd) can be text. It is there from Loaded until Freed.
type Module struct {
	Name    string
	Addr    uint64
	TextEnd uint64
	End     uint64
	Loaded  uint64 // time of module:module_load; 0: there before the recording
	Freed   uint64 // time of module:module_free; 0: not recorded
	Stayed  bool   // it is certain that it was there all the time until Freed
	Names   Names  // that name its code; nil: Builder.Names does

	Seen   uint64     // until when a list of modules is known to have had it
	Listed []Interval // at some time of each of which a list was made that has it; nil: with the snapshot
	Later  bool       // perf's own list has it not

	again []Interval // further ones
}

// at reports whether the module is there at time t.
func (m *Module) at(t uint64) bool { return m.Loaded <= t && (m.Freed == 0 || t < m.Freed) }

// during reports whether it is there at any time when o is.
func (m *Module) during(o *Module) bool {
	return (m.Freed == 0 || o.Loaded < m.Freed) && (o.Freed == 0 || m.Loaded < o.Freed)
}

// GapKind says which changes a gap may hide.
type GapKind uint8

const (
	GapPokes   GapKind = iota // text pokes
	GapSymbols                // births and deaths of dynamic symbols
	GapModules                // modules that go
	// GapModuleStart hides modules that go after they were copied and before their
	// unloads are recorded, but not those that Stayed.
	GapModuleStart
	gapKinds
)

// Builder takes facts in any order and makes images of them. Pokes and symbol
// events of equal time keep the order in which they were added. A Builder is
// not safe for concurrent use; the images that it made are, and stay valid
// while the builder goes on.
type Builder struct {
	first, horizon uint64
	textLo, textHi uint64
	announced      uint64 // see Announced; 0: not told
	modules        []Module
	snapshot       Snapshot
	copies         []Snapshot
	seed           []Segment
	symbols        []SymbolEvent
	programs       []Program
	windows        []ExplicitWindow
	gaps           [gapKinds][]gap
	callThunks     bool
	silentPokes    bool
	only           []Range // sorted, disjoint; nil: everywhere
	names          Names

	arena   []byte
	edits   []edit
	sites   []site
	siteOf  map[uint64]uint32
	last    uint32 // site of the newest poke
	chunks  chunks
	cpus    []cpuRun          // that recorded the pokes
	delayed map[uint32]uint64 // NotBefore of pokes, by order of arrival
	skew    uint64            // ClockUncertainty
	added   uint32            // how many pokes
	limits  limits
	dropped gap // the time of the pokes beyond the limits
	drops   uint64
}

// NewBuilder returns an empty builder.
func NewBuilder() *Builder {
	return &Builder{siteOf: make(map[uint64]uint32), limits: usualLimits}
}

// Limit bounds how many pokes are kept, of how many places: 16 bytes of memory
// each, and some 700 for each place. Later ones are as if they had been lost, see
// Dropped. Without it the bounds are 2^28 pokes and 2^22 places, which is more
// than any kernel's recording has.
func (b *Builder) Limit(pokes uint32, places int) { b.limits.pokes, b.limits.sites = pokes, places }

// Only restricts the images to these ranges of addresses: pokes of other places
// are passed over, which saves most of the work where few places are asked
// for. All other addresses are answered as Unknown, for the reason
// [OutsideImage]. It must be called before any poke is added.
func (b *Builder) Only(ranges []Range) {
	b.only = JoinRanges(slices.Clone(ranges))
}

// joined sorts ranges, and makes one of those that overlap or touch.
func JoinRanges(ranges []Range) []Range {
	slices.SortFunc(ranges, func(x, y Range) int { return cmp.Compare(x.Lo, y.Lo) })
	out := ranges[:0]
	for _, r := range ranges {
		if n := len(out); n > 0 && r.Lo <= out[n-1].Hi {
			out[n-1].Hi = max(out[n-1].Hi, r.Hi)
			continue
		}
		out = append(out, r)
	}
	return out
}

// wanted reports whether the images cover any of [lo, hi).
func wanted(only []Range, lo, hi uint64) bool {
	if only == nil {
		return true
	}
	i := sort.Search(len(only), func(i int) bool { return only[i].Hi > lo })
	return i < len(only) && only[i].Lo < hi
}

// Extent sets the time of the first record and the horizon, the time up to
// which nothing earlier can still arrive. Nothing is known outside of them.
func (b *Builder) Extent(first, horizon uint64) { b.first, b.horizon = first, horizon }

// ClockUncertainty says by how much the time of each record may be wrong, on
// either side, because the clock was set back.
func (b *Builder) ClockUncertainty(by uint64) { b.skew = by }

// Announced sets the latest time at which symbols and programs of time 0 can have
// been announced. perf announces what is there a while after it has opened
// its events, so that what it announces may have come meanwhile. If it is not
// told, that may have been at any time up to the horizon.
func (b *Builder) Announced(by uint64) { b.announced = by }

// Text sets the range of core kernel text, [_stext, _etext): it is there all
// the time.
func (b *Builder) Text(lo, hi uint64) { b.textLo, b.textHi = lo, hi }

// Module adds a module.
func (b *Builder) Module(m Module) { b.modules = append(b.modules, m) }

// LaterModule adds a module that perf's own list of modules does not have,
// unless it is one that was added before and is there still.
func (b *Builder) LaterModule(m Module) {
	for i := range b.modules {
		o := &b.modules[i]
		if o.Name == m.Name && o.Addr == m.Addr && o.at(m.Loaded) {
			o.again = append(slices.Clip(o.again), m.Listed...)
			return
		}
	}
	b.Module(m)
}

// ModulesListed takes a list of modules that was read at some time of
// [from, to]: what it no longer has went before, at the latest when the list
// was begun.
func (b *Builder) ModulesListed(from, to uint64, listed func(*Module) bool) {
	for i := range b.modules {
		m := &b.modules[i]
		switch {
		case m.Freed != 0:
		case listed(m):
			m.Seen = max(m.Seen, to)
		case m.Seen < from && m.Loaded < from:
			m.Freed = from
		}
	}
}

// SetSnapshot sets the copy of kernel text.
func (b *Builder) SetSnapshot(s Snapshot) { b.snapshot = s }

// Names sets where names of core kernel text and modules come from.
func (b *Builder) Names(n Names) { b.names = n }

// Symbol adds the birth or death of a dynamic symbol.
func (b *Builder) Symbol(e SymbolEvent) { b.symbols = append(b.symbols, e) }

// Program adds the code of a BPF program. Funcs' data is copied by Build.
func (b *Builder) Program(p Program) { b.programs = append(b.programs, p) }

// Gap says that changes of this kind may have gone unrecorded in [from, to).
func (b *Builder) Gap(kind GapKind, from, to uint64, reason Reason) {
	b.gaps[kind] = append(b.gaps[kind], gap{from, to, reason})
}

// SilentPokes says that the kernel records no text pokes, whatever was asked:
// all but x86. BPF programs are then known by their births and deaths alone,
// save the places that are named as Silent.
func (b *Builder) SilentPokes(silent bool) { b.silentPokes = silent }

// CallThunks says that the kernel is one that can write call thunks into the
// padding before functions with no record (call-depth tracking of x86-64). The
// copies of its text tell whether it does.
func (b *Builder) CallThunks(may bool) { b.callThunks = may }

// A site is an address that pokes hit.
type site struct {
	addr     uint64
	newest   uint64 // time of the poke added last
	edit     uint32 // what that poke did: the place to begin with in the ring of the site's edits
	pokes    uint32 // how many
	head     uint32 // the chunks that they are in
	tail     uint32
	longest  uint16 // longest Old or New of its pokes
	shortest uint16
	// irregular says that the pokes do not simply follow on one another: in the order
	// in which they were added, their times do not ascend, or the old bytes of one are not the new ones
	// of the one before.
	irregular bool
}

// An edit is what pokes do at a site: a site that flips a million times
// between two instructions has two of them. The contents are interned: equal
// ones of a site are kept once.
type edit struct {
	old, new   uint32 // arena offsets
	olen, nlen uint16
	site       uint32
	next       uint32 // of the same site; the last leads to the first
	// The first eight bytes of each.
	oldWord, newWord uint64
}

// word returns up to eight bytes as a number.
func word(b []byte) (w uint64) {
	if len(b) == 5 { // as most have
		return uint64(binary.LittleEndian.Uint32(b)) | uint64(b[4])<<32
	}
	for i, c := range b[:min(len(b), 8)] {
		w |= uint64(c) << (8 * i)
	}
	return w
}

// does reports whether e is the edit from old to new.
func (b *Builder) does(e *edit, old, new []byte, oldWord, newWord uint64) bool {
	if e.oldWord != oldWord || e.newWord != newWord || int(e.olen) != len(old) || int(e.nlen) != len(new) {
		return false
	}
	return len(old) <= 8 && len(new) <= 8 ||
		string(b.arena[e.old:][:e.olen]) == string(old) && string(b.arena[e.new:][:e.nlen]) == string(new)
}

// poke is a Poke with what it does interned.
type poke struct {
	time  uint64
	edit  uint32
	order uint32 // of arrival, over all sites
}

// internDepth bounds the search for an equal edit, and an equal content, of a
// site. Beyond it they are kept twice, which costs room and changes no answer.
const internDepth = 16

// A cpuRun says which CPU recorded the pokes from one on, by order of arrival.
type cpuRun struct {
	first uint32
	cpu   uint16
}

// chunks hold the pokes of each site in a chain of blocks, in the order of
// arrival.
type chunks struct {
	slabs [][]chunk // slabSize each
	next  []uint32  // of each chunk, the next of its site
}

type chunk [chunkSize]poke

const (
	chunkSize = 16
	slabSize  = 1 << 10
)

func (c *chunks) at(i uint32) *chunk { return &c.slabs[i/slabSize][i%slabSize] }

// add returns the number of a new chunk.
func (c *chunks) add() uint32 {
	n := uint32(len(c.next))
	if n/slabSize == uint32(len(c.slabs)) {
		c.slabs = append(c.slabs, make([]chunk, slabSize))
	}
	c.next = append(c.next, 0)
	return n
}

// of appends the pokes of a site in the order of arrival.
func (c *chunks) of(s *site, to []poke) []poke {
	i := s.head
	for n := s.pokes; n > 0; i = c.next[i] {
		k := min(n, chunkSize)
		to = append(to, c.at(i)[:k]...)
		n -= k
	}
	return to
}

// Poke adds a change of text. Old and New are copied. Pokes of no bytes at all
// are ignored, as the kernel's readers do; ones that run past the end of the
// address space, or are longer than 65,535 bytes, cannot come from a kernel
// and are ignored too.
func (b *Builder) Poke(p *Poke) {
	n := max(len(p.Old), len(p.New))
	if n == 0 || n > 0xffff || p.Addr+uint64(n) < p.Addr {
		return
	}
	if b.only != nil && !wanted(b.only, p.Addr, p.Addr+uint64(n)) {
		return
	}
	if b.added >= b.limits.pokes || !b.limits.hold(b.arena, len(p.Old)+len(p.New)) {
		b.drop(p.Time)
		return
	}
	i, ok := b.site(p.Addr)
	if !ok {
		b.drop(p.Time)
		return
	}
	s := &b.sites[i]
	s.longest = max(s.longest, uint16(n))
	s.shortest = min(s.shortest, uint16(min(len(p.Old), len(p.New))))
	before := s.edit
	if k, ok := b.next(s, p.Old, p.New); ok {
		s.edit = k
	} else {
		s.edit = b.edit(s, i, p.Old, p.New)
	}

	k := s.pokes % chunkSize
	switch {
	case s.pokes == 0:
		s.head = b.chunks.add()
		s.tail = s.head
	case k == 0:
		next := b.chunks.add()
		b.chunks.next[s.tail] = next
		s.tail = next
		fallthrough
	default:
		s.irregular = s.irregular || p.NotBefore > p.Time || p.Time <= s.newest || b.edits[before].new != b.edits[s.edit].old
	}
	b.chunks.at(s.tail)[k] = poke{p.Time, s.edit, b.added}
	s.pokes++
	s.newest = p.Time

	if p.NotBefore > p.Time {
		if b.delayed == nil {
			b.delayed = make(map[uint32]uint64)
		}
		b.delayed[b.added] = p.NotBefore
	}

	cpu := uint16(unknownCPU)
	if p.CPU >= 0 && p.CPU < unknownCPU {
		cpu = uint16(p.CPU)
	}
	if n := len(b.cpus); n == 0 || b.cpus[n-1].cpu != cpu {
		b.cpus = append(b.cpus, cpuRun{b.added, cpu})
	}
	b.added++
}

// cpuOf returns the CPU that recorded a poke.
func (b *Builder) cpuOf(p *poke) uint16 {
	return b.cpus[sort.Search(len(b.cpus), func(i int) bool { return b.cpus[i].first > p.order })-1].cpu
}

// site returns the index of the site at addr, if there is room for one more. Batches hit the same sites in
// the same order again and again, so the successor of the last one is tried
// before the map.
func (b *Builder) site(addr uint64) (uint32, bool) {
	if i := b.last + 1; i < uint32(len(b.sites)) && b.sites[i].addr == addr {
		b.last = i
		return i, true
	}
	i, ok := b.siteOf[addr]
	if !ok {
		if len(b.sites) >= b.limits.sites {
			return 0, false
		}
		i = uint32(len(b.sites))
		b.sites = append(b.sites, site{addr: addr, shortest: 0xffff})
		b.siteOf[addr] = i
	}
	b.last = i
	return i, true
}

// Dropped returns how many pokes there were that the images have not, because
// there were more than a builder keeps, and when. What they changed is unconfirmed
// ([TooManyFacts]).
func (b *Builder) Dropped() (n, from, to uint64) { return b.drops, b.dropped.from, b.dropped.to }

// drop takes note of a poke beyond the limits. Whatever it did went unrecorded.
func (b *Builder) drop(t uint64) {
	if b.dropped.to == 0 {
		b.dropped = gap{t, later(t, 1), TooManyFacts}
	}
	b.drops++
	b.dropped.from, b.dropped.to = min(b.dropped.from, t), max(b.dropped.to, later(t, 1))
}

// next is edit for the one that is next in the ring: of two, as most sites
// have, the one that did not come last.
func (b *Builder) next(s *site, old, new []byte) (uint32, bool) {
	if s.pokes == 0 || len(old) > 8 || len(new) > 8 {
		return 0, false
	}
	k := b.edits[s.edit].next
	e := &b.edits[k]
	return k, int(e.olen) == len(old) && int(e.nlen) == len(new) && e.oldWord == word(old) && e.newWord == word(new)
}

// edit returns the edit of site s, the i-th, from old to new.
func (b *Builder) edit(s *site, i uint32, old, new []byte) uint32 {
	oldWord, newWord := word(old), word(new)
	if s.pokes > 0 {
		for k, depth := b.edits[s.edit].next, 0; depth < internDepth; depth++ {
			e := &b.edits[k]
			if b.does(e, old, new, oldWord, newWord) {
				return k
			}
			if k == s.edit {
				break
			}
			k = e.next
		}
	}
	n := uint32(len(b.edits))
	e := edit{old: b.intern(s, old), olen: uint16(len(old)), nlen: uint16(len(new)), site: i, next: n, oldWord: oldWord, newWord: newWord}
	if string(old) == string(new) {
		e.new = e.old
	} else {
		e.new = b.intern(s, new)
	}
	if s.pokes > 0 {
		e.next = b.edits[s.edit].next
		b.edits[s.edit].next = n
	}
	b.edits = append(b.edits, e)
	return n
}

// intern returns where the arena has data, as a content of site s.
func (b *Builder) intern(s *site, data []byte) uint32 {
	if len(data) == 0 {
		return 0
	}
	if s.pokes > 0 {
		for k, depth := s.edit, 0; depth < internDepth; depth++ {
			e := &b.edits[k]
			if int(e.olen) == len(data) && string(b.arena[e.old:][:e.olen]) == string(data) {
				return e.old
			}
			if int(e.nlen) == len(data) && string(b.arena[e.new:][:e.nlen]) == string(data) {
				return e.new
			}
			if k = e.next; k == s.edit {
				break
			}
		}
	}
	off := uint32(len(b.arena))
	b.arena = append(b.arena, data...)
	return off
}

// isProgramName reports whether a BPF symbol is a program by its name:
// bpf_get_prog_name in kernel/bpf/core.c. Every other BPF symbol is an image
// (trampoline, dispatcher, struct_ops) whose length is only an upper bound.
func IsProgramName(name string) bool { return strings.HasPrefix(name, "bpf_prog_") }

// fork returns a builder that has the same facts. What is added to it is not
// added to b, which may go on by itself; but no poke may be added to it.
func (b *Builder) Clone() *Builder {
	c := *b
	c.modules = slices.Clip(b.modules)
	c.copies = slices.Clip(b.copies)
	c.symbols = slices.Clip(b.symbols)
	c.programs = slices.Clip(b.programs)
	c.windows = slices.Clip(b.windows)
	for i := range b.gaps {
		c.gaps[i] = slices.Clip(b.gaps[i])
	}
	return &c
}
