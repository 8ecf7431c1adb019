// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"iter"
	"slices"
	"strings"

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
//	powerpc   __get_locked_pte                       BEFORE: the place, its old and its new bytes
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
	bytes, now                         int
	times                              []uint64 // of the samples, as read
	where                              uint64   // the probe's address, from its samples
	moved                              bool     // they name several
}

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
}

// notText is the index of a write that is none of text.
const notText = ^uint64(0)

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
	phys     uint64
	cpu      int64
	after    bool // it is an AFTER
}

// A probeCPU pairs the samples of one CPU. perf writes the records of a CPU in order.
type probeCPU struct {
	open   bool
	write  probeWrite
	mm     uint64 // powerpc
	newest uint64
	recent []probeSeen // of the last samples, for those that perf writes twice
	copyOf struct {
		tid    uint32
		lo, hi uint64
	}
}

type probeSeen struct {
	time uint64
	sum  uint32
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
	foreign  uint64          // others that were not kept
	resolved bool

	offset    uint64 // of the kernel's addresses from physical ones
	hasOffset bool
	undecoded int // changes whose bytes are not known
	nowhere   []timeline.Interval
	disarmed  []timeline.Interval // when probes were disarmed
	fixmaps   int                 // of other users of the fixmap
	bad       string
	readings  []probeReading
	sources   []probeReading // as the files have them
	accounted bool           // all hits before the events were enabled are perf's own
}

type probeOther struct {
	time, mm, lr uint64
	cpu          int32
}

// maxOthers is how many calls that are no writers' are kept.
const maxOthers = 1 << 16

// probeEventOf returns the probe that an event is, as its fields in TRACING_DATA show, or
// nil if it is none.
func probeEventOf(e *perfdata.Event, data []byte) *probeEvent {
	if !isTracepoint(e) {
		return nil
	}
	name, fields := parseFormat(data, e.Attr.Config)
	if _, ok := fields["__probe_ip"]; !ok {
		return nil
	}
	p := &probeEvent{event: e, name: name}
	ok := true
	need := func(name string, size int) int {
		f := fields[name]
		ok = ok && f.offset >= 8 && f.size >= size
		p.size = max(p.size, f.offset+f.size)
		return f.offset
	}
	word := func(reg, addr, at string) {
		if fields[addr].offset != 0 && fields[at].offset != 0 {
			p.words = append(p.words, probeWord{reg, need(addr, 8), need(at, 8)})
		}
	}
	has := func(names ...string) bool {
		for _, n := range names {
			if fields[n].offset == 0 {
				return false
			}
		}
		return true
	}
	p.ip = need("__probe_ip", 8)
	switch {
	case has("idx", "phys", "lr", "st"):
		p.role = probeARM64
		p.idx, p.phys, p.lr, p.stack = need("idx", 8), need("phys", 8), need("lr", 8), need("st", 16)
		p.stackLen = fields["st"].size
		word("stack", "va", "now")
		word("x19", "x19", "at19")
	case has("lr", "mm", "uaddr"):
		p.role = probeAfter
		p.lr, p.mm = need("lr", 8), need("mm", 8)
		for i := range p.registers {
			reg := fmt.Sprintf("r%d", i)
			if word(reg, reg, fmt.Sprintf("at%d", i)); has(reg) {
				p.registers[i] = need(reg, 8)
			}
		}
		// Names that do not say which registers they are of: those of 6.12.95.
		if word("r31", "va", "now"); has("new", "dw") {
			p.registers[31], p.registers[29], p.registers[28] = fields["va"].offset, need("new", 8), need("dw", 8)
		}
		if len(p.words) > 0 {
			p.role = probeBefore
		}
	case has("addr", "len", "b", "now"):
		p.role = probeWrites
		p.addr, p.length, p.bytes, p.now = need("addr", 8), need("len", 8), need("b", sampledBytes), need("now", sampledBytes)
	case has("addr", "len", "b"):
		p.role = probeCopy
		p.addr, p.length = need("addr", 8), need("len", 8)
	default:
		return nil
	}
	if !ok || p.size > 1<<16 {
		return nil
	}
	return p
}

// isTracepoint reports whether an event is a tracepoint, as events on kprobes are.
func isTracepoint(e *perfdata.Event) bool {
	const typeTracepoint = 2 // PERF_TYPE_TRACEPOINT
	return e.Attr.Type == typeTracepoint
}

// A formatField is a field of an event's raw data.
type formatField struct{ offset, size int }

// parseFormat returns the name of the event with this id in TRACING_DATA, without its
// group, and its fields by name. TRACING_DATA has the files format of tracefs. The fields
// are nil if the event is not there.
func parseFormat(data []byte, id uint64) (name string, fields map[string]formatField) {
	for {
		before, rest, ok := bytes.Cut(data, []byte("\nID: "))
		if !ok {
			return "", nil
		}
		data = rest
		if i := bytes.LastIndex(before, []byte("name: ")); i >= 0 {
			name = string(before[i+len("name: "):])
		}
		if n, _, _ := bytes.Cut(rest, []byte("\n")); number(n) == id {
			break
		}
	}
	text, _, ok := bytes.Cut(data, []byte("print fmt:"))
	if !ok {
		return "", nil
	}
	fields = make(map[string]formatField)
	for line := range bytes.Lines(text) {
		decl, rest, ok := bytes.Cut(line, []byte(";\toffset:"))
		if _, d, is := bytes.Cut(decl, []byte("field:")); ok && is {
			field := string(d[bytes.LastIndexByte(d, ' ')+1:])
			field, _, _ = strings.Cut(field, "[")
			_, size, _ := bytes.Cut(rest, []byte("size:"))
			fields[field] = formatField{int(min(number(rest), 1<<16)), int(min(number(size), 1<<16))}
		}
	}
	return name, fields
}

// probed finds the events of the recording that are probes on text writers. In a stream,
// their formats come after the events, or at the end.
func (s *scan) probed() {
	if s.machine != 0 || s.formats {
		return
	}
	data := tracingFormats(s.rec, s.formatFile)
	if data == nil {
		return
	}
	s.formats = true
	var p probeLog
	for _, e := range s.rec.Events() {
		if x := probeEventOf(e, data); x != nil {
			p.events = append(p.events, x)
		}
	}
	if len(p.events) > 0 {
		p.cpus, p.mms = make(map[int64]*probeCPU), make(map[uint64]bool)
		s.probes = &p
	}
}

// An unformatted is a sample of a tracepoint in a stream that has not said yet what its
// fields are.
type unformatted struct {
	rec   perfdata.Record
	event *perfdata.Event
	id    perfdata.SampleID
	raw   []byte
}

// formatted handles the samples of probes that came before their formats, when a stream
// has these. In file form they come last.
func (s *scan) formatted(r *Replay) {
	if s.formats {
		return
	}
	if s.probed(); !s.formats {
		return
	}
	waited := s.unformatted
	s.unformatted = nil
	if s.probes == nil {
		return // no sample was one of a probe: those of modules that were skipped remain so
	}
	s.tracepoints()
	s.describe(r)
	s.samples.ch = nil // it may not be plain any more
	take := func(ch *channel) {
		if ch.event.Attr.SampleType&perfdata.SampleRaw != 0 { // else its samples did not wait
			ch.kinds |= s.kindsOf(ch.event)
		}
	}
	for _, ch := range s.channels.all {
		take(ch)
	}
	for _, ch := range s.nameless {
		take(ch)
	}
	for i := range waited {
		w := &waited[i]
		s.tracepointSample(&w.rec, w.event, s.kindsOf(w.event), &w.id, w.raw)
	}
}

// waits keeps a sample of a tracepoint for the time when its format is known.
func (s *scan) waits(rec *perfdata.Record, e *perfdata.Event, id *perfdata.SampleID, raw []byte) {
	kept := perfdata.Record{Type: rec.Type, Offset: rec.Offset}
	s.unformatted = append(s.unformatted, unformatted{kept, e, *id, bytes.Clone(raw)})
}

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

// probeSample handles a sample of a probe on a text writer.
func (s *scan) probeSample(rec *perfdata.Record, e *probeEvent, id *perfdata.SampleID, raw []byte) {
	if len(raw) < e.size {
		s.broken(rec, "%d bytes of raw data, the event's fields take %d", len(raw), e.size)
		return
	}
	const needed = perfdata.SampleTime | perfdata.SampleCPU | perfdata.SampleTID
	if id.Has&needed != needed {
		return // coverProbes says so
	}
	p, order := s.probes, s.rec.ByteOrder()
	u64 := func(at int) uint64 { return order.Uint64(raw[at:]) }
	c := p.cpus[int64(id.CPU)]
	if c == nil {
		c = &probeCPU{}
		p.cpus[int64(id.CPU)] = c
	}
	if !p.see(c, id.Time, raw[:e.size], e) {
		return
	}
	e.times = append(e.times, id.Time)
	if ip := u64(e.ip); e.where != ip {
		e.moved = e.moved || e.where != 0
		e.where = ip
	}
	switch e.role {
	case probeWrites:
		w := sampledWrite{time: id.Time, addr: u64(e.addr), len: u64(e.length)}
		copy(w.bytes[:], raw[e.bytes:])
		copy(w.now[:], raw[e.now:])
		if w.addr+w.len >= w.addr && w.len > 0 {
			p.stores = append(p.stores, w)
		}
		return
	case probeCopy:
		lo, n := u64(e.addr), u64(e.length)
		if lo+n < lo {
			n = 0
		}
		c.copyOf.tid, c.copyOf.lo, c.copyOf.hi = id.TID, lo, lo+n
		return
	case probeARM64:
		if phys := u64(e.phys); phys != 0 {
			p.abandon(c, id)
			c.begin(id)
			w := &c.write
			w.phys, w.mapLR, w.caller = phys, u64(e.lr), withoutPAC(u64(e.stack+8))
			c.write.index = u64(e.idx)
			for i, x := range e.words[:min(len(e.words), len(w.words))] {
				w.words[i].reg, w.words[i].addr = x.reg, u64(x.addr)
				copy(w.words[i].at[:], raw[x.at:])
			}
			if c.copyOf.tid == id.TID && c.copyOf.lo < c.copyOf.hi {
				w.hasCopy, w.copyLo, w.copyHi = true, c.copyOf.lo, c.copyOf.hi
			}
			return
		}
		if !c.open || c.write.tid != id.TID || c.write.index != u64(e.idx) {
			p.addLoose(c, id, 0, true)
			return
		}
		w := &c.write
		w.lr = u64(e.lr)
		if x := p.writer.arm64(w.lr); x.ok && x.w.Index == w.index && x.w.Offset+x.w.Len <= e.stackLen {
			w.len = uint8(x.w.Len)
			copy(w.new[:x.w.Len], raw[e.stack+x.w.Offset:])
		}
	case probeBefore:
		lr := u64(e.lr)
		w, ok := p.writer.ppc64(lr)
		if c.open {
			if c.write.len != 0 {
				p.abandon(c, id)
			} else {
				p.other(c)
			}
		}
		c.begin(id)
		c.mm, c.write.mapLR = u64(e.mm), lr
		if !ok {
			return // not a writer
		}
		p.mms[c.mm] = true
		place, value, long := e.registers[w.Addr], e.registers[w.Value], e.registers[w.Doubleword]
		i := slices.IndexFunc(e.words, func(x probeWord) bool { return x.addr == place })
		if i < 0 || value == 0 || long == 0 {
			return // it keeps these in registers that the event does not have
		}
		x := &c.write
		x.addr, x.len, x.hasOld = u64(e.words[i].addr), 4, true
		if byte(u64(long)) != 0 {
			x.len = 8
			order.PutUint64(x.new[:], u64(value))
		} else {
			order.PutUint32(x.new[:], uint32(u64(value)))
		}
		copy(x.old[:x.len], raw[e.words[i].at:])
		return
	case probeAfter:
		lr := u64(e.lr)
		w, writes := p.writer.ppc64(c.write.mapLR)
		switch {
		case !c.open || c.write.tid != id.TID || c.mm != u64(e.mm) || !p.writer.sameFunction(c.write.mapLR, lr):
			if p.mms[u64(e.mm)] {
				p.addLoose(c, id, 0, true)
			}
			return
		case !writes && !p.mms[c.mm]:
			p.other(c)
			c.open = false
			return
		}
		if x, at := &c.write, e.registers[w.Value]; x.len != 0 {
			if at == 0 || x.len == 4 && order.Uint32(x.new[:]) != uint32(u64(at)) || x.len == 8 && order.Uint64(x.new[:]) != u64(at) {
				x.len = 0 // the registers do not hold what they seem to
			}
		}
		c.write.lr = lr
	}
	c.write.ended, c.open = id.Time, false
	p.writes = append(p.writes, c.write)
}

// withoutPAC returns a return address of the kernel without the authentication code that
// arm64 keeps in its upper bits.
func withoutPAC(addr uint64) uint64 {
	if addr>>55&1 == 1 {
		return addr | 0xffff<<48
	}
	return addr
}

// begin opens a pair with a BEFORE.
func (c *probeCPU) begin(id *perfdata.SampleID) {
	c.open = true
	c.write = probeWrite{began: id.Time, pid: id.PID, tid: id.TID, cpu: int32(id.CPU)}
}

// abandon notes that the BEFORE that is open has no AFTER.
func (p *probeLog) abandon(c *probeCPU, id *perfdata.SampleID) {
	if c.open {
		w := &c.write
		p.loose = append(p.loose, looseSample{time: w.began, previous: w.began, next: id.Time, phys: w.phys, cpu: int64(w.cpu)})
	}
	c.open = false
}

// addLoose notes an AFTER without a BEFORE.
func (p *probeLog) addLoose(c *probeCPU, id *perfdata.SampleID, phys uint64, after bool) {
	previous := uint64(0)
	if n := len(c.recent); n > 1 {
		previous = c.recent[n-2].time
	}
	p.abandon(c, id)
	p.loose = append(p.loose, looseSample{time: id.Time, previous: previous, next: timeline.MaxTime, phys: phys, cpu: int64(id.CPU), after: after})
}

// other keeps a call of the mapping function that no decoded writer made.
func (p *probeLog) other(c *probeCPU) {
	if len(p.others) >= maxOthers {
		p.foreign++
		return
	}
	p.others = append(p.others, probeOther{c.write.began, c.mm, c.write.mapLR, c.write.cpu})
}

// keptSamples is how many of a CPU's newest samples are compared with one that perf may
// have written twice.
const keptSamples = 1 << 12

// see notes a sample. It returns false if perf has written the sample twice: the CPU has
// an equal one of the same time.
func (p *probeLog) see(c *probeCPU, t uint64, raw []byte, e *probeEvent) bool {
	sum := crc32.Update(uint32(e.role), crc32.IEEETable, raw)
	if t <= c.newest {
		for i := len(c.recent) - 1; i >= 0; i-- {
			if x := c.recent[i]; x.time == t && x.sum == sum {
				p.doubles++
				return false
			}
		}
		if t < c.newest {
			p.back = append(p.back, timeline.Interval{From: t, To: c.newest + 1})
		}
	}
	c.newest = max(c.newest, t)
	if len(c.recent) >= 2*keptSamples {
		c.recent = append(c.recent[:0], c.recent[keptSamples:]...)
	}
	c.recent = append(c.recent, probeSeen{t, sum})
	return true
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
	for _, c := range p.cpus {
		switch {
		case !c.open:
		case c.write.len == 0 && c.write.phys == 0:
			p.other(c)
		default:
			w := &c.write
			p.loose = append(p.loose, looseSample{time: w.began, previous: w.began, next: timeline.MaxTime, phys: w.phys, cpu: int64(w.cpu)})
		}
		c.open = false
	}
	lo, hi, ok := s.kernelText()
	if !ok {
		p.bad = "there is no kallsyms, which the probes need"
		return
	}
	p.findOffset(lo, hi)
	indices := p.writer.textIndices()
	newest := make(map[uint32]*probeWrite) // of each thread
	for i := range p.writes {
		w := &p.writes[i]
		if w.phys != 0 && w.len == 0 && len(indices) > 0 && !indices[w.index] {
			w.index, p.fixmaps = notText, p.fixmaps+1
			continue
		}
		if w.phys != 0 {
			p.place(w, lo, hi)
		}
		if p.disarms(w) {
			continue
		}
		if w.known() {
			poke := w.poke()
			s.addEnclosed(&poke)
			if before := newest[w.tid]; before != nil && p.writer.fillsSlot(before, w) && !s.isRegistered(w.addr, before.began) && (w.addr < lo || w.addr >= hi) {
				s.b.Symbol(timeline.SymbolEvent{Time: before.began, Addr: before.addr, Len: 8, Kind: timeline.SymbolOutOfLine,
					Name: "kprobe_insn_page", CPU: int(w.cpu)})
			}
			newest[w.tid] = w
			continue
		}
		delete(newest, w.tid)
		p.undecoded++
		switch core := w.phys + p.offset; {
		case w.hasCopy && w.addr != 0 && w.copyLo <= w.addr && w.addr < w.copyHi:
			s.b.GapAt(timeline.Range{Lo: w.addr, Hi: w.copyHi}, w.began, w.ended, timeline.WriterUnknown)
		case w.addr != 0:
			s.b.GapAt(timeline.Range{Lo: w.addr, Hi: w.addr&^(probePage-1) + probePage}, w.began, w.ended, timeline.WriterUnknown)
		case w.phys != 0 && p.hasOffset && (core < lo || core >= hi):
			s.b.GapAt(timeline.Range{Lo: 1, Hi: lo}, w.began, w.ended, timeline.WriterUnknown)
			s.b.GapAt(timeline.Range{Lo: hi, Hi: ^uint64(0)}, w.began, w.ended, timeline.WriterUnknown)
		case p.writer.writesPrograms(w.mapLR):
			// BPF programs are known by their births and deaths.
		default:
			p.nowhere = append(p.nowhere, timeline.Interval{From: w.began, To: w.ended})
		}
	}
	for _, o := range p.others {
		if p.mms[o.mm] && !p.writer.writesPrograms(o.lr) {
			p.nowhere = append(p.nowhere, timeline.Interval{From: o.time, To: timeline.MaxTime})
		}
	}
}

// A slotPage is a birth or a death of a page of out-of-line code.
type slotPage struct {
	timeline.Range
	time  uint64
	death bool
}

// isRegistered reports whether a record before t registered a page of out-of-line code at
// addr that is still there then. perf's copy of kallsyms has none (docs/probes.md).
func (s *scan) isRegistered(addr, t uint64) bool {
	newest, there := uint64(0), false
	for _, p := range s.slotPages {
		if p.Lo <= addr && addr < p.Hi && p.time <= t && p.time >= newest {
			newest, there = p.time, !p.death
		}
	}
	return there
}

// disarms reports whether a change removed a probe, and notes the time in which probes
// were disarmed. On arm64 the AFTER of that change is missing: what looks like it is the
// AFTER of the change that armed the probe again, of which there is no BEFORE.
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
		w := &p.writes[i]
		for _, x := range w.words {
			if w.phys != 0 && lo <= x.addr && x.addr < hi && (x.addr^w.phys)&0xfff == 0 {
				votes[x.addr-w.phys]++
				total++
				break
			}
		}
	}
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
