// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"iter"
	"slices"
	"sort"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// Kernels of most architectures record no text pokes. But each of their writers maps a
// writable alias of the page, stores, and unmaps the alias, under a lock or with
// interrupts off. A kprobe event on the function that does the mapping has a sample
// before and one after each store (rule probes). docs/probes.md has the definitions.
//
//	arm64     __set_fixmap(FIX_TEXT_POKE0, phys)     BEFORE: the place, and its old bytes
//	          copy_to_kernel_nofault(alias, &word)
//	          __set_fixmap(FIX_TEXT_POKE0, 0)        AFTER: the writer's stack has the new ones
//	powerpc   get_locked_pte                         BEFORE: the place, its old and its new bytes
//	          the store
//	          radix__local_flush_tlb_page_psize      AFTER

// A probeRole says what the samples of an event are.
type probeRole uint8

const (
	probeARM64  probeRole = iota + 1 // BEFORE and AFTER, by their argument
	probeBefore                      // powerpc
	probeAfter                       // powerpc
	probeCopy                        // arm64: the arguments of __text_poke, which writes BPF programs
	probeWrites                      // x86-64: those of its __text_poke, which writes all text
)

// A probeEvent is an event on one of the functions, and the offsets of its fields in raw
// data.
type probeEvent struct {
	event *perfdata.Event
	name  string // without its group
	role  probeRole
	size  int // of the fields that are read
	// Fields, 0 if there is none.
	ip, idx, phys, lr, stack, stackLen int
	mm                                 int
	registers                          [32]int     // powerpc: general registers
	words                              []probeWord // registers that may have the place
	addr, length                       int
	bytes, bytesLen, now               int
	function                           int      // arm64: what __text_poke is told to call
	times                              []uint64 // of the samples, as read
	where                              uint64   // the probe's address, from its samples
	moved                              bool     // they name several
}

// label is the event's name. A file that was cut may have no names of events, and still the
// formats, which name them without their groups.
func (e *probeEvent) label() string { return cmp.Or(e.event.Name, e.name) }

// A probeWord is a register that may have an address, and the bytes there.
type probeWord struct {
	reg      string
	addr, at int
}

// A probeWrite is one change of text: a pair of samples.
type probeWrite struct {
	began, ended uint64
	phys         uint64 // arm64
	addr         uint64 // 0: not known
	words        [2]probeValue
	old, new     [8]byte
	lr, mapLR    uint64 // where the two calls return to
	index        uint64 // arm64: of the alias in the fixmap; notText if it is another one
	caller       uint64 // arm64: where the caller of the first one returns to
	pid, tid     uint32
	cpu          int32
	len          uint8 // of old and new; 0: the writer could not be decoded
	hasOld       bool
	hasCopy      bool   // a sample of __text_poke says what is written
	copyLo       uint64 // the addresses that it names
	copyHi       uint64
	exact        bool   // it is part of a call of __text_poke that is in probeLog.copies
	lost         uint64 // the records that its ring buffer lost between the two samples
	copied       bool   // and its bytes are
}

// notText is the index of a write that is none of text.
const notText = ^uint64(0)

// A probeValue is what a register had, and the 8 bytes at that address.
type probeValue struct {
	reg  string
	addr uint64
	at   [8]byte
}

// A looseSample is a sample without a partner.
type looseSample struct {
	time     uint64
	previous uint64 // time of the sample of this CPU before it; 0: none
	next     uint64 // of the one after it; MaxTime: none
	phys     uint64 // arm64
	addr     uint64 // powerpc
	cpu      int64
	after    bool // it is an AFTER
}

// probeLog has all samples of probes on text writers.
type probeLog struct {
	events  []*probeEvent
	cpus    map[int64]*probeCPU
	writes  []probeWrite
	stores  []sampledWrite // x86-64
	loose   []looseSample
	doubles int
	back    []timeline.Interval // where the times of a CPU's samples go back
	writer  probeCode
	// others are calls of the mapping function by something that could not be decoded,
	// on powerpc.
	others   []probeOther
	mms      map[uint64]bool // address spaces that decoded writers use
	unkept   uint64          // the first time of others that were not kept; 0 if all were
	resolved bool

	offset    uint64 // of the kernel's addresses from physical ones
	hasOffset bool
	undecoded int // changes whose bytes are not known
	nowhere   []timeline.Interval
	disarmed  []timeline.Interval // when probes were disarmed
	fixmaps   int                 // of other users of the fixmap
	copies    []probeCopied       // arm64: what __text_poke wrote
	// textChanges are the known changes of core kernel text, by thread and in the order of time, if the
	// journal has the code of BPF images.
	textChanges map[uint32][]timeline.Interval
	bad         string
	readings    []probeReading
	sources     []probeReading // as the files have them
	accounted   bool           // all hits before the events were enabled are perf's own
}

// A probeOther is a call of powerpc's get_locked_pte for the address space mm, which
// returns to lr.
type probeOther struct {
	time, mm, lr uint64
	cpu          int32
}

// maxOthers is how many calls of others than writers are kept.
const maxOthers = 1 << 16

// clone returns a copy that [scan.addProbed] can resolve. Samples that are added to p do
// not change it.
func (p *probeLog) clone() *probeLog {
	if p == nil {
		return nil
	}
	c := *p
	c.events = make([]*probeEvent, len(p.events))
	for i, e := range p.events {
		x := *e
		x.times = slices.Clone(e.times)
		c.events[i] = &x
	}
	c.cpus = make(map[int64]*probeCPU, len(p.cpus))
	for n, cpu := range p.cpus {
		x := *cpu
		c.cpus[n] = &x
	}
	c.writes, c.loose = slices.Clone(p.writes), slices.Clone(p.loose)
	c.copies = slices.Clip(p.copies)
	c.back, c.others = slices.Clip(p.back), slices.Clip(p.others)
	return &c
}

// probeOf returns the probe that an event is, or nil.
func (s *scan) probeOf(e *perfdata.Event) *probeEvent {
	if s.probes == nil {
		return nil
	}
	for _, p := range s.probes.events {
		if p.event == e {
			return p
		}
	}
	return nil
}

// kindsOf returns the kinds of records that an event takes, probes included.
func (s *scan) kindsOf(e *perfdata.Event) kinds {
	k := kindsOf(e)
	if !hasTimes(e) {
		return 0
	}
	if p := s.probeOf(e); p != nil {
		switch p.role {
		case probeARM64:
			k |= takesBefore | takesAfter
		case probeBefore:
			k |= takesBefore
		case probeAfter:
			k |= takesAfter
		case probeCopy:
			k |= takesCopy
		case probeWrites:
			k |= takesWrites
		}
	}
	return k
}

// poke returns the change as a text poke. Its bytes belong to the write.
func (w *probeWrite) poke() timeline.Poke {
	return timeline.Poke{Addr: w.addr, Began: w.began, Time: w.ended, Old: w.old[:w.len], New: w.new[:w.len], CPU: int(w.cpu)}
}

// record returns the change as a TEXT_POKE record would have it, of the time of AFTER. Its
// bytes belong to the write.
func (w *probeWrite) record() perfdata.TextPoke {
	p := perfdata.TextPoke{Addr: w.addr, Old: w.old[:w.len], New: w.new[:w.len]}
	p.Has = perfdata.SampleTime | perfdata.SampleCPU | perfdata.SampleTID
	p.Time, p.CPU, p.PID, p.TID = w.ended, uint32(w.cpu), w.pid, w.tid
	return p
}

// probedWrites yields the changes that probes recorded and whose bytes are known.
func (s *scan) probedWrites() iter.Seq[*probeWrite] {
	return func(yield func(*probeWrite) bool) {
		if s.probes == nil || !s.probes.resolved {
			return
		}
		for i := range s.probes.writes {
			if w := &s.probes.writes[i]; w.known() && !yield(w) {
				return
			}
		}
	}
}

// known reports whether the place and the bytes of the change are known.
func (w *probeWrite) known() bool { return w.addr != 0 && w.len != 0 && w.hasOld && w.index != notText }

// probePage is the largest size of a page. A writer maps the alias of one page.
const probePage = 64 << 10

// addProbed adds the changes that probes recorded to the image, and what is not known of
// them as gaps. It is called once, after all samples.
func (s *scan) addProbed() {
	p := s.probes
	if p == nil || p.resolved || s.arch.recordsPokes() || !p.records(s.arch) {
		return
	}
	p.resolved = true
	p.closePairs()
	lo, hi, ok := s.kernelText()
	if !ok {
		p.bad = "there is no kallsyms, which the probes need"
		return
	}
	p.findOffset(lo, hi)
	indices := p.writer.textIndices()
	if s.journal != nil && s.listedPages == nil {
		s.listedPages = make(map[uint64]bool)
		for e := range listedSymbols(p.writer.k) {
			s.listedPages[e.Addr] = true
		}
	}
	s.sortSlotPages()
	newest := make(map[uint32]*probeWrite) // of each thread
	p.textChanges = make(map[uint32][]timeline.Interval)
	for i := range p.writes {
		w := &p.writes[i]
		if w.isOther(indices) {
			w.index, p.fixmaps = notText, p.fixmaps+1
			continue
		}
		if w.phys != 0 {
			p.place(w, lo, hi)
		}
		if p.disarms(w) {
			continue
		}
		if w.lost > 1 {
			p.unpair(w)
			delete(newest, w.tid)
			continue
		}
		if w.known() {
			poke := w.poke()
			s.addEnclosed(&poke)
			if s.codeReads != nil && lo <= w.addr && w.addr < hi {
				p.textChanges[w.tid] = append(p.textChanges[w.tid], timeline.Interval{From: w.began, To: w.ended})
			}
			before := newest[w.tid]
			if before != nil && (before.addr < lo || before.addr >= hi) && p.writer.fillsSlot(before, w) && !s.isRegistered(before.addr, before.began) {
				s.b.Symbol(timeline.SymbolEvent{Time: before.began, Addr: before.addr, Len: p.writer.slotLen(before), Kind: timeline.SymbolOutOfLine,
					Name: "kprobe_insn_page", CPU: int(w.cpu)})
			}
			newest[w.tid] = w
			continue
		}
		delete(newest, w.tid)
		if !w.copied {
			p.undecoded++
		}
		s.coverUndecoded(w, lo, hi)
	}
	for _, changes := range p.textChanges {
		slices.SortFunc(changes, func(a, b timeline.Interval) int { return cmp.Compare(a.From, b.From) })
	}
	for _, o := range p.others {
		if p.mms[o.mm] && !p.writer.writesPrograms(o.lr, 0) {
			p.nowhere = append(p.nowhere, timeline.Interval{From: o.time, To: timeline.MaxTime})
		}
	}
	if p.unkept > 0 && len(p.mms) > 0 {
		// Any of them may be a writer's.
		p.nowhere = append(p.nowhere, timeline.Interval{From: p.unkept, To: timeline.MaxTime})
	}
}

// isOther reports whether the pair is of another user of the fixmap than the writers of text,
// whose indices are given.
func (w *probeWrite) isOther(indices map[uint64]bool) bool {
	return w.phys != 0 && w.len == 0 && len(indices) > 0 && !indices[w.index]
}

// closePairs notes each BEFORE that is still open after the last sample.
func (p *probeLog) closePairs() {
	for _, c := range p.cpus {
		p.leaveCopy(c)
		switch {
		case !c.open:
		case c.write.len == 0 && c.write.phys == 0:
			p.other(c)
		default:
			w := &c.write
			p.loose = append(p.loose, looseSample{time: w.began, previous: w.began, next: timeline.MaxTime, phys: w.phys, addr: w.addr, cpu: int64(w.cpu)})
		}
		c.open = false
	}
}

// coverUndecoded makes a gap of a change whose bytes are not known, as narrow as what is known
// of its place. Core kernel text is [lo, hi).
func (s *scan) coverUndecoded(w *probeWrite, lo, hi uint64) {
	p := s.probes
	switch core := w.phys + p.offset; {
	case p.writer.writesPrograms(w.mapLR, w.caller):
		// BPF programs are known by their births and deaths.
	case w.hasCopy && w.addr != 0 && w.copyLo <= w.addr && w.addr < w.copyHi:
		s.b.GapAt(timeline.Range{Lo: w.addr, Hi: w.copyHi}, w.began, w.ended, timeline.WriterUnknown)
	case w.addr != 0:
		s.b.GapAt(timeline.Range{Lo: w.addr, Hi: w.addr&^(probePage-1) + probePage}, w.began, w.ended, timeline.WriterUnknown)
	case w.phys != 0 && p.hasOffset && (core < lo || core >= hi):
		s.b.GapAt(timeline.Range{Lo: 1, Hi: lo}, w.began, w.ended, timeline.WriterUnknown)
		s.b.GapAt(timeline.Range{Lo: hi, Hi: ^uint64(0)}, w.began, w.ended, timeline.WriterUnknown)
	default:
		p.nowhere = append(p.nowhere, timeline.Interval{From: w.began, To: w.ended})
	}
}

// A slotPage is a birth or a death of a page of out-of-line code.
type slotPage struct {
	timeline.Range
	time  uint64
	death bool
}

// sortSlotPages sorts s.slotPages by time.
func (s *scan) sortSlotPages() {
	s.slotPages = slices.Clone(s.slotPages) // forked scans may share the array
	slices.SortStableFunc(s.slotPages, func(a, b slotPage) int { return cmp.Compare(a.time, b.time) })
}

// isRegistered reports whether a record before t registered a page of out-of-line code at
// addr that is still there then, or whether it was there before the recording. perf's copy of
// kallsyms has none (docs/probes.md), that of "textreplay record" has them.
//
// s.slotPages are in the order of time. The newest record counts, and the same few pages come and go.
func (s *scan) isRegistered(addr, t uint64) bool {
	i := sort.Search(len(s.slotPages), func(i int) bool { return s.slotPages[i].time > t })
	for _, p := range slices.Backward(s.slotPages[:i]) {
		if p.Lo <= addr && addr < p.Hi {
			return !p.death
		}
	}
	return s.listedPages[addr&^(textPage-1)]
}

// disarms reports whether a change removed a probe, and notes the time in which probes
// were disarmed. On arm64 the AFTER of that change is missing: what looks like it is the
// AFTER of the change that armed the probe again, which has no BEFORE.
func (p *probeLog) disarms(w *probeWrite) bool {
	const ppcNOP = 0x60000000
	for _, e := range p.events {
		switch {
		case e.where == 0 || w.addr == 0:
		case e.role == probeARM64 && w.addr == e.where:
			p.disarmed = append(p.disarmed, timeline.Interval{From: w.began, To: w.ended})
			w.index = notText
			return true
		case (e.role == probeBefore || e.role == probeAfter) && e.where-16 <= w.addr && w.addr <= e.where && w.len == 4 && p.writer.order.Uint32(w.new[:]) == ppcNOP:
			p.disarmed = append(p.disarmed, timeline.Interval{From: w.began, To: timeline.MaxTime})
		}
	}
	return false
}

// addEnclosed adds a change with a record before and one after it. Its word is replaced by
// one store, so no trap is there meanwhile that is neither the old word nor the new one:
// the change has no window.
func (s *scan) addEnclosed(poke *timeline.Poke) {
	s.countPoke(poke)
	s.b.Poke(poke)
}

// kernelText returns the range of core kernel text.
func (s *scan) kernelText() (lo, hi uint64, ok bool) {
	if k := s.probes.writer.k; k != nil {
		return k.Text()
	}
	return 0, 0, false
}

// findOffset finds by how much the kernel's addresses differ from physical ones
// (kimage_voffset). Where a register has an address of text with the page offset of the
// physical address, it votes. Registers may have such an address by chance, so nearly
// all must agree.
func (p *probeLog) findOffset(lo, hi uint64) {
	votes, total := make(map[uint64]int), 0
	for i := range p.writes {
		if off, ok := p.writes[i].vote(lo, hi); ok {
			votes[off]++
			total++
		}
	}
	p.elect(votes, total)
}

// vote returns by how much the kernel's addresses differ from physical ones, if a register
// shows that.
func (w *probeWrite) vote(lo, hi uint64) (offset uint64, ok bool) {
	for _, x := range w.words {
		if w.phys != 0 && lo <= x.addr && x.addr < hi && (x.addr^w.phys)&0xfff == 0 {
			return x.addr - w.phys, true
		}
	}
	return 0, false
}

// elect takes the offset that nearly all votes are for.
func (p *probeLog) elect(votes map[uint64]int, total int) {
	best := 0
	for off, n := range votes {
		if n > best {
			best, p.offset = n, off
		}
	}
	p.hasOffset = best*10 >= total*9 && best > 0
}

// place finds the address and the old bytes of a change on arm64.
func (p *probeLog) place(w *probeWrite, lo, hi uint64) {
	if core := w.phys + p.offset; p.hasOffset && lo <= core && core < hi {
		w.addr = core
	} else if reg := p.writer.placeRegister(w.mapLR, w.caller); reg != "" {
		for _, x := range w.words {
			if x.reg == reg && (x.addr^w.phys)&0xfff == 0 {
				w.addr = x.addr
			}
		}
	}
	if w.addr == 0 {
		return
	}
	for _, x := range w.words {
		if x.addr == w.addr {
			w.old, w.hasOld = x.at, true
			return
		}
	}
}
