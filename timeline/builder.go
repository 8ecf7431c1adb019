// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"sync"
)

// ErrTooLarge is returned by [Builder.Build] when the contents of the image pass 4 GiB,
// because of bytes that only further snapshots and explicit windows have.
var ErrTooLarge = errors.New("timeline: further snapshots and windows are too large for an image")

// limits bound the memory of a builder and its images. They are higher than any
// kernel's recording needs. Facts beyond them count as lost.
type limits struct {
	pokes   uint32 // 4 or 8 bytes each, or 24
	sites   int    // some 700 bytes each
	content uint64 // bytes of different contents
	spare   int    // see spareBytes
	shard   int    // see shardPokes
	consume uint32 // from how many pokes on Finish gives up the log
	chain   int    // how many pokes a chain has at least, see chain.go
	pass    int    // how many pokes a pass has at least, see passes.go
	region  uint32 // how many sites its region has
	orders  int    // see findOrders; 0: no orders are looked for
}

// hold reports whether an arena has room for n bytes more.
func (l *limits) hold(arena []byte, n int) bool { return uint64(len(arena))+uint64(n) <= l.content }

var usualLimits = limits{pokes: 1 << 28, sites: 1 << 22, content: maxContent, spare: spareBytes, shard: shardPokes, consume: manyPokes, chain: leastChain, pass: leastPass, region: regionSites, orders: leastOrderStates}

// Poke is one PERF_RECORD_TEXT_POKE (include/uapi/linux/perf_event.h): a change of
// text in place, the birth of out-of-line code (no Old), or its removal (no New).
// A CPU runs Old or a trap before Time, and New or a trap from Time on.
type Poke struct {
	Addr uint64
	Time uint64 // in nanoseconds of the recording's clock
	Old  []byte // bytes before, at Addr; may be empty
	New  []byte // bytes after, at Addr; may be empty
	// CPU is the number of the CPU that recorded the poke, from 0; a negative number
	// means that it is not known. Pokes of different CPUs may be recorded in the wrong
	// order, see [Skew].
	CPU int
	// NotBefore, if later than Time, is the time of an earlier record of the same
	// CPU: its clock was set back between. See Builder.ClockSetBack.
	NotBefore uint64
	// Began, if not 0, is a time before which the change had not begun: two records
	// enclose it. The bytes are [InFlight] from Began until Time.
	Began uint64
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
// were made since the copy may be missing: such a snapshot alone proves nothing.
// One from 0 to MaxTime is undated: it may be of any time, so it says what was there
// only where no other fact does. The builder and its images read Segments in place:
// their data must neither change nor be unmapped while an image is in use. Segments
// must be sorted by address and must not overlap.
type Snapshot struct {
	From, To uint64
	Segments []Segment
}

// undated reports whether nothing says when the snapshot was taken.
func (s *Snapshot) undated() bool { return s.From == 0 && s.To == MaxTime }

// SymbolKind is the kind of code that a dynamic symbol names: the ksym_type of a
// PERF_RECORD_KSYMBOL.
type SymbolKind uint8

const (
	SymbolBPF       SymbolKind = iota + 1 // PERF_RECORD_KSYMBOL_TYPE_BPF
	SymbolOutOfLine                       // PERF_RECORD_KSYMBOL_TYPE_OOL: kprobe slots, ftrace trampolines
)

// SymbolEvent is one PERF_RECORD_KSYMBOL: the birth or the death of a dynamic symbol.
// A birth of Time 0 was before the recording, or perf announced the symbol when the
// recording began, see [Builder.Announced].
type SymbolEvent struct {
	Time       uint64
	Addr       uint64
	Len        uint32 // in bytes; of BPF images other than programs an upper bound
	Kind       SymbolKind
	Unregister bool
	Name       string
	// Listed marks a symbol that no record announced, and that kallsyms had when the
	// snapshot was taken. It is a birth of Time 0.
	Listed bool
	CPU    int // that recorded it, by its number from 0; negative: not known
}

// Program is the code of a BPF program as perf's feature BPF_PROG_INFO has it (struct
// bpf_prog_info, jited_prog_insns). LoadTime says to which lifetime it belongs.
type Program struct {
	ID       uint32 // of the kernel, prog_info.id
	LoadTime uint64 // time of its PERF_RECORD_BPF_EVENT LOAD; 0: loaded before the recording, or announced
	Unloaded uint64 // time of its UNLOAD; 0: not recorded
	// Undated says that the code may be of any time since the program was loaded, also
	// of one before the recording: changes since then may be missing.
	Undated bool
	// ReadBy is the latest time at which perf can have read the code; 0: the horizon.
	ReadBy uint64
	// Late says that perf may have read the code after the horizon. So it may have changes that
	// the recording lacks.
	Late  bool
	Funcs []Segment
	// Silent are the addresses inside the functions that the kernel may change with no
	// record, as it does on architectures without text pokes.
	Silent []Range
	// Unseen are those of Silent whose changes are not recorded by other means either
	// (Builder.Probed).
	Unseen []Range
}

// Module is a kernel module that was loaded when a copy of the kernel was made.
// Only [Addr, TextEnd) can be text. It is there from Loaded until Freed.
type Module struct {
	Name    string
	Addr    uint64
	TextEnd uint64 // at most End; Addr if nothing of it can be proven to be text
	End     uint64 // of all that the list of modules says it has, which is an upper bound
	Loaded  uint64 // time of module:module_load; 0: it was there before the recording
	Freed   uint64 // time of module:module_free; 0: not recorded
	Stayed  bool   // it is certain that it was there until Freed
	Names   Names  // the table that names its code; nil: that of Builder.Names

	Seen   uint64     // the latest time of a list of modules that has it; see Builder.ModulesListed
	Listed []Interval // at some time of each, a list was made that has it; nil: with the snapshot
	Later  bool       // perf's own list does not have it
	// Undated says that the list of modules that has it may be of any time.
	Undated bool

	again []Interval // further ones
}

// at reports whether the module is loaded at time t.
func (m *Module) at(t uint64) bool { return m.Loaded <= t && (m.Freed == 0 || t < m.Freed) }

// during reports whether the module and o are loaded at the same time.
func (m *Module) during(o *Module) bool {
	return (m.Freed == 0 || o.Loaded < m.Freed) && (o.Freed == 0 || m.Loaded < o.Freed)
}

// GapKind is the kind of changes that a gap may hide.
type GapKind uint8

const (
	GapPokes   GapKind = iota // text pokes
	GapSymbols                // births and deaths of dynamic symbols
	GapModules                // unloads of modules
	// GapModuleStart may hide the unloads of modules that were copied before their
	// unloads were recorded. It hides nothing of modules that Stayed.
	GapModuleStart
	gapKinds
)

// Builder takes facts in any order and makes images of them. Pokes and symbol
// events of equal time keep the order in which they were added. A Builder is not
// safe for concurrent use. Its images are, and facts that are added later do not
// change them.
type Builder struct {
	first, horizon uint64
	textLo, textHi uint64
	announced      uint64 // see Announced; 0: not known
	announcedEarly bool   // or before the first record
	modules        []Module
	placed         map[modulePlace][]int // modules[:indexed] by name and address, see LaterModule
	indexed        int
	snapshot       Snapshot
	snapshots      []Snapshot // further ones
	unload         func()     // see Unloads; nil: the snapshot's memory is needed anyway
	seed           []Segment
	symbols        []SymbolEvent
	programs       []Program
	codeReads      []CodeRead
	windows        []ExplicitWindow
	gaps           [gapKinds][]gap
	callThunks     bool
	silentPokes    bool
	probed         bool
	only           []Range // sorted, disjoint; nil: everywhere
	names          Names
	instruction    func(code []byte, addr uint64) int
	asking         *sync.Mutex // held while instruction is called

	queue *queue // pokes that are not added yet; what follows is of those that are
	sites []site // by their first poke
	words []line // of each site, not in the log yet
	edits []edit
	arena []byte

	siteAt  siteTable
	last    uint32            // site of the newest poke
	touched uint64            // so that the compiler keeps the loads of lookUp
	found   [lookAhead]uint32 // what lookUp found
	// searches is set while the next poke is mostly not of the site behind that of the
	// newest one, see lookUp.
	searches  bool
	log       lineLog
	passes    passLog
	cpus      []cpuRun          // that recorded the pokes
	delayed   map[uint32]uint64 // NotBefore of pokes, by order of arrival
	began     []uint64          // Began of pokes, by order of arrival; 0, or missing at the end: none
	local     []localGap        // see GapAt
	maxSkew   uint64            // see ClocksWithin
	differ    bool              // see ClocksMayDiffer
	continues bool              // see Continues
	minSkew   uint64            // see SkewAtLeast
	skew      uint64            // see ClockSetBack
	twice     gaps              // times that the clock may have shown twice
	added     uint32            // how many pokes
	limits    limits
	dropped   gap // the time of the pokes beyond the limits
	drops     uint64
}

// NewBuilder returns an empty builder.
func NewBuilder() *Builder {
	const slots = 10 // 2^10
	return &Builder{
		queue:  newQueue(),
		siteAt: siteTable{make([]uint64, 1<<slots), 64 - slots, rand.Uint64() | 1},
		limits: usualLimits, maxSkew: maxSkew,
	}
}

// Limit sets how many pokes are kept, and of how many addresses. A poke takes 4 or 8
// bytes of memory, or 24 if it differs much from the one before it. An address takes some 700.
// Pokes beyond the limits count as lost, see [Builder.Dropped]. The default is 2^28 pokes
// and 2^22 addresses, which is more than any kernel's recording has.
func (b *Builder) Limit(pokes uint32, places int) { b.limits.pokes, b.limits.sites = pokes, places }

// Only restricts the images to these ranges of addresses, and to what has a part in them: pokes that cross
// their ends, and modules, whose bytes are known only as far as all changes of the module fit. In a recording
// whose kernel may have silent writers, all addresses are in the image. An image gives the same answers for
// these ranges as it does without Only. That the CPUs' clocks differ may be shown by pokes of any place. So all
// pokes are kept, and what is saved is to derive their histories: about half of the work if few addresses are
// asked for. The answer for all other addresses is [Unknown], with the reason [OutsideImage]. Without any
// range, or if all are empty, pokes are skipped.
//
// Only must be called before any poke is added. It copies ranges, which may overlap.
func (b *Builder) Only(ranges []Range) {
	b.only = asked(ranges)
}

// skips reports whether all pokes are skipped.
func (b *Builder) skips() bool { return b.only != nil && len(b.only) == 0 }

// JoinRanges sorts ranges by address and joins those that overlap or touch. The result
// shares its memory with ranges.
func JoinRanges(ranges []Range) []Range { return joinRanges(ranges, true) }

// joinRanges is JoinRanges. Without touching, it joins only ranges that overlap.
func joinRanges(ranges []Range, touching bool) []Range {
	slices.SortFunc(ranges, func(x, y Range) int { return cmp.Compare(x.Lo, y.Lo) })
	out := ranges[:0]
	for _, r := range ranges {
		if n := len(out); n > 0 && (r.Lo < out[n-1].Hi || touching && r.Lo == out[n-1].Hi) {
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

// wantedAll reports whether the images cover all of [addr, addr+n).
func wantedAll(only []Range, addr, n uint64) bool {
	if only == nil {
		return true
	}
	i := sort.Search(len(only), func(i int) bool { return only[i].Hi > addr })
	return i < len(only) && only[i].Lo <= addr && n <= only[i].Hi-addr
}

// Extent sets the time of the first record, and the horizon: the latest time up to
// which the recording is complete. No bytes are [Known] before first or after horizon.
func (b *Builder) Extent(first, horizon uint64) { b.first, b.horizon = first, horizon }

// ClocksWithin says by how many nanoseconds the clocks of two CPUs can differ at most. The
// default is a second. Records of different CPUs that are further apart are in the order of
// their times.
func (b *Builder) ClocksWithin(most uint64) { b.maxSkew = most }

// SkewAtLeast says by how many nanoseconds the clocks of two CPUs are taken to differ where any records show that
// they differ at all. What records show is less than the whole: changes of a place by two CPUs are in the wrong order only
// if they are closer than the clocks differ. The default is 0: what records show is all.
func (b *Builder) SkewAtLeast(least uint64) { b.minSkew = least }

// ClocksMayDiffer says that each CPU has its own clock, and that nothing but the changes
// themselves can show whether they agree.
func (b *Builder) ClocksMayDiffer() { b.differ = true }

// Continues says that the recording continues another one, which has what some CPUs recorded shortly before the time of
// the first record that [Builder.Extent] sets.
func (b *Builder) Continues() { b.continues = true }

// ClockSetBack says that the clock was set back, by no more than by, and which times
// it may have shown twice. The time of each record may be wrong by as much, on either side.
func (b *Builder) ClockSetBack(by uint64, twice []Interval) {
	b.skew = by
	var all []gap
	for _, v := range twice {
		all = append(all, gap{v.From, v.To, ClockUncertainty})
	}
	b.twice = flatten(all)
}

// Announced sets the latest time at which perf can have announced the symbols and
// programs of time 0. perf announces them a while after it has opened its events, so
// they may have come between. The default is the horizon.
func (b *Builder) Announced(by uint64) { b.announced = by }

// AnnouncedEarly says that symbols of time 0 may have been announced, and their programs' infos
// read, before the first record: the events were enabled later.
func (b *Builder) AnnouncedEarly() { b.announcedEarly = true }

// Text sets the range of core kernel text, [_stext, _etext), which is mapped at all
// times.
func (b *Builder) Text(lo, hi uint64) { b.textLo, b.textHi = lo, hi }

// Module adds a module of perf's own list. Several may have one name, or one address.
func (b *Builder) Module(m Module) { b.modules = append(b.modules, m) }

// LaterModule adds a module of a list that was read later than perf's own. If the
// module was added before and is still loaded, LaterModule only notes that the list
// has it.
func (b *Builder) LaterModule(m Module) {
	if b.placed == nil {
		b.placed = make(map[modulePlace][]int)
	}
	for ; b.indexed < len(b.modules); b.indexed++ {
		o := &b.modules[b.indexed]
		at := modulePlace{o.Name, o.Addr}
		b.placed[at] = append(b.placed[at], b.indexed)
	}
	for _, i := range b.placed[modulePlace{m.Name, m.Addr}] {
		if o := &b.modules[i]; o.at(m.Loaded) {
			o.again = append(o.again, m.Listed...)
			return
		}
	}
	b.Module(m)
}

// A modulePlace is where a module is.
type modulePlace struct {
	name string
	addr uint64
}

// ModulesListed takes a list of modules that was read at some time of [from, to].
// listed reports whether the list has a module. A module that was added before and is
// not in the list was unloaded before from. Lists must come in the order of their times, each
// before the modules that only it has ([Builder.LaterModule]).
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

// SetSnapshot sets the copy of kernel text that perf made when the recording began
// (perf record --kcore). A later call replaces it. If s.From is later than s.To, it is s.To.
func (b *Builder) SetSnapshot(s Snapshot) {
	s.From = min(s.From, s.To)
	b.snapshot = s
}

// Unloads sets a function that lets go of the memory which a snapshot's mapped file takes: what is touched
// later is read from the file again. [Builder.Finish] calls it from time to time, from any of its
// goroutines but from one at a time, and reads from the snapshot meanwhile.
func (b *Builder) Unloads(f func()) { b.unload = f }

// Names sets the table of names of core kernel text and of modules.
func (b *Builder) Names(n Names) { b.names = n }

// Instructions sets a function that returns the length in bytes of the instruction at the beginning
// of code, which lies at addr, or 0 if it is none: 15 at most, as on x86. With it, the trap of a static key
// in a snapshot is told from bytes of INT3 inside of other instructions. [Builder.Finish] calls it from any
// of its goroutines, but from one at a time.
func (b *Builder) Instructions(length func(code []byte, addr uint64) int) {
	b.instruction, b.asking = length, new(sync.Mutex)
}

// Symbol adds the birth or the death of a dynamic symbol.
func (b *Builder) Symbol(e SymbolEvent) {
	if n := len(b.symbols); n == cap(b.symbols) {
		b.symbols = slices.Grow(b.symbols, n+1) // append's steps are smaller
	}
	b.symbols = append(b.symbols, e)
}

// Program adds the code of a BPF program. Build copies the data of its functions.
func (b *Builder) Program(p Program) { b.programs = append(b.programs, p) }

// Gap adds an interval [from, to) in which changes of this kind may have gone
// unrecorded. Answers give the reason. Gaps may overlap: where they do, the one that was
// added first names the reason.
func (b *Builder) Gap(kind GapKind, from, to uint64, reason Reason) {
	b.gaps[kind] = append(b.gaps[kind], gap{from, to, reason})
}

// SilentPokes sets whether the kernel records no text pokes, as those of all
// architectures but x86 do not. BPF programs are then known by their births and deaths
// alone, except for their Silent addresses.
func (b *Builder) SilentPokes(silent bool) { b.silentPokes = silent }

// Probed sets whether the changes of a kernel that records no text pokes were recorded by
// other means, except in the gaps of [GapPokes]. The Silent addresses of BPF programs are
// then known, too, except for those that are Unseen.
func (b *Builder) Probed(probed bool) { b.probed = probed }

// CallThunks sets whether the kernel can write call thunks into the padding before
// functions with no record (call-depth tracking of x86-64, patch_dest() in
// arch/x86/kernel/callthunks.c). Build finds out from the copies of text whether it does.
func (b *Builder) CallThunks(may bool) { b.callThunks = may }

// Poke adds a change of text. It copies Old and New. It ignores pokes without any
// bytes, as the kernel's readers do, and pokes that no kernel can make: those that run
// past the end of the address space, or are longer than 65,535 bytes.
func (b *Builder) Poke(p *Poke) {
	if isImpossible(p.Addr, p.Old, p.New) || b.skips() {
		return
	}
	x, is := b.batch(), pokeFlags(0)
	if p.NotBefore > p.Time {
		is |= isDelayed
		x.notBefore = append(x.notBefore, p.NotBefore)
	}
	if p.Began != 0 {
		is |= isEnclosed
		x.began = append(x.began, p.Began)
	}
	x.put(p.Addr, p.Time, p.Old, p.New, p.CPU, is)
	if len(x.pokes) == batchSize || len(x.bytes) >= batchBytes {
		b.enqueue()
	}
}

// isImpossible reports whether a poke is one that Poke ignores.
func isImpossible(addr uint64, old, new []byte) bool {
	n := max(len(old), len(new))
	return n == 0 || n > 0xffff || addr+uint64(n) < addr
}

// cpuNumber returns the number of a CPU, or unknownCPU.
func cpuNumber(cpu int) uint16 {
	if cpu >= 0 && cpu < unknownCPU {
		return uint16(cpu)
	}
	return unknownCPU
}

// cpuOf returns the CPU that recorded a poke.
func (b *Builder) cpuOf(p *poke) uint16 {
	return b.cpus[sort.Search(len(b.cpus), func(i int) bool { return b.cpus[i].first > p.order })-1].cpu
}

// Dropped returns how many pokes were beyond the limits, and the interval [from, to)
// that has their times. What they changed is unconfirmed, with the reason
// [TooManyFacts].
func (b *Builder) Dropped() (n, from, to uint64) {
	b.settle()
	return b.drops, b.dropped.from, b.dropped.to
}

// IsProgramName reports whether the name of a BPF symbol is that of a program, as
// bpf_get_prog_name() in kernel/bpf/core.c makes them. Every other BPF symbol is an
// image (trampoline, dispatcher, struct_ops), whose length is an upper bound.
func IsProgramName(name string) bool { return strings.HasPrefix(name, "bpf_prog_") }

// Clone returns a builder that has the same facts. Facts that are added to one of the
// two are not added to the other. But both share the memory of the pokes that were added
// before. So, if there are such pokes, none may be added to the clone, and none to b until
// the clone has built its last image.
func (b *Builder) Clone() *Builder {
	b.settle()
	c := *b
	c.queue = newQueue()
	c.modules = slices.Clone(b.modules) // LaterModule and ModulesListed change them
	for i := range c.modules {
		c.modules[i].again = slices.Clip(c.modules[i].again)
	}
	c.placed, c.indexed = nil, 0
	c.snapshots = slices.Clip(b.snapshots)
	c.symbols = slices.Clip(b.symbols)
	c.programs = slices.Clip(b.programs)
	c.codeReads = slices.Clip(b.codeReads)
	c.windows = slices.Clip(b.windows)
	c.began, c.local = slices.Clip(b.began), slices.Clip(b.local)
	for i := range b.gaps {
		c.gaps[i] = slices.Clip(b.gaps[i])
	}
	if b.added == 0 {
		c.siteAt.slots = slices.Clone(b.siteAt.slots)
	}
	return &c
}
