// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// records reports whether the events are all that a kernel of this architecture needs.
func (p *probeLog) records(a architecture) bool {
	var roles [probeWrites + 1]int
	for _, e := range p.events {
		roles[e.role]++
	}
	switch {
	case a.probedARM64():
		return roles[probeARM64] == 1
	case a.probedPPC64():
		return roles[probeBefore] == 1 && roles[probeAfter] == 1
	}
	return false
}

// coverProbes judges whether probes recorded all changes of text (rule probes).
func (s *scan) coverProbes() Coverage {
	p := s.probes
	const what = "the probe's samples"
	c := s.cover(takesBefore, what, "a probe on the function that maps text")
	for _, l := range s.cover(takesAfter, what, "a probe on the function that unmaps text").Limits {
		if !slices.Contains(c.Limits, l) {
			c.limit(l.Reason, l.From, l.To, "%s", l.Text)
		}
	}
	if p.bad != "" {
		c.none("%s", p.bad)
	}
	for _, e := range p.events {
		if e.role != probeCopy {
			s.coverProbe(&c, e)
		}
	}
	hidden := s.coverPairs(&c)
	s.coverDisarmed(&c)
	s.coverCounts(&c)
	c.Limits = append(c.Limits, hidden...) // they explain no hits
	if p.accounted || slices.ContainsFunc(c.Limits, func(l Limit) bool { return l.Reason == timeline.ProbeEarly }) {
		// The counters say what the times of the events cannot: whether anything was changed
		// between the copy and the enabling, and whether the events of all CPUs were enabled.
		c.Limits = slices.DeleteFunc(c.Limits, func(l Limit) bool { return l.Reason == timeline.NotListening })
	}
	for _, v := range p.nowhere {
		c.limit(timeline.WriterUnknown, v.From, v.To, "a change at %s has neither an address nor bytes: the code of its writer could not be decoded", Seconds(v.From))
	}
	if c.Verdict == Partial && len(c.Limits) == 0 {
		c.Verdict = Complete
	}
	s.widen(&c)
	return c
}

// coverProbe checks that an event has a sample of each hit, with all that is needed, and
// is on the function that it must be on.
func (s *scan) coverProbe(c *Coverage, e *probeEvent) {
	a := &e.event.Attr
	const needed = perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU | perfdata.SampleRaw
	limit := func(why string) {
		c.limit(timeline.ProbeConfined, 0, timeline.MaxTime, "%s: %s", e.label(), why)
	}
	switch {
	case a.Flags&perfdata.FlagFreq != 0 || a.SamplePeriod != 1:
		limit("it was sampled, not recorded each time: perf record without -F and -c takes all")
	case a.SampleType&needed != needed:
		limit("its samples lack the raw data, the time, the CPU or the thread")
	}
	if why := s.confined(e.event); why != "" {
		limit(why)
	}
	function, entry := "__set_fixmap", uint64(0)
	switch e.role {
	case probeBefore:
		function, entry = s.probes.writer.lockedPTE(), 16
	case probeAfter:
		function, entry = "radix__local_flush_tlb_page_psize", 16
	}
	if at := s.probes.writer.one(function); e.moved || e.where != 0 && (at == 0 || e.where < at || e.where > at+entry) {
		limit("it is not a probe on " + function)
	}
}

// coverPairs limits the coverage where a sample has no partner. A BEFORE at the probe's
// own address without an AFTER shows that all kprobes were disarmed: the store removed
// the probe. The AFTER of the store that arms it again has no BEFORE. coverPairs returns the limits where
// records were lost, and the partner of a sample may be one of them.
func (s *scan) coverPairs(c *Coverage) (hidden []Limit) {
	p := s.probes
	slices.SortStableFunc(p.loose, func(a, b looseSample) int { return cmp.Compare(a.time, b.time) })
	disarmed, lost := -1, newProbeLosses(s.buffers)
	for i := 0; i < len(p.loose); i++ {
		l := &p.loose[i]
		switch {
		case disarmed >= 0 && l.after:
			from := p.loose[disarmed].time
			// On powerpc, the event after the store may be armed first.
			for p.twoEvents() && i+1 < len(p.loose) && p.loose[i+1].after {
				i++
				l = &p.loose[i]
			}
			c.limit(timeline.ProbeDisarmed, from, l.time, "all kprobes were disarmed from %s until %s", Seconds(from), Seconds(l.time))
			disarmed = -1
		case disarmed >= 0 && p.twoEvents(): // the event after the store was disarmed first
		case !l.after && s.isProbe(l):
			if disarmed < 0 {
				disarmed = i
			}
		case lost.hide(l, &hidden):
		case l.after:
			c.limit(timeline.ProbeUnpaired, l.previous, l.time, "a change that ended at %s on CPU %d has no sample of its beginning", Seconds(l.time), l.cpu)
		case l.next == timeline.MaxTime:
			c.limit(timeline.ProbeUnpaired, l.time, timeline.MaxTime, "a change that began at %s on CPU %d has no sample of its end", Seconds(l.time), l.cpu)
		default:
			c.limit(timeline.ProbeUnpaired, l.time, l.next, "a change that began at %s on CPU %d has no sample of its end", Seconds(l.time), l.cpu)
		}
	}
	if disarmed >= 0 {
		from := p.loose[disarmed].time
		c.limit(timeline.ProbeDisarmed, from, s.armedAgain(from), "all kprobes were disarmed from %s on", Seconds(from))
	}
	for _, v := range p.disarmed {
		c.limit(timeline.ProbeDisarmed, v.From, min(v.To, s.armedAgain(v.From)), "all kprobes were disarmed from %s on", Seconds(v.From))
	}
	for _, v := range p.back {
		c.limit(timeline.ProbeUnpaired, v.From, v.To, "the times of a CPU's samples go back from %s to %s", Seconds(v.To), Seconds(v.From))
	}
	return hidden
}

// coverDisarmed limits the coverage where "textreplay record" found that its probes were
// disarmed. The sample of the store that removed the probe says since when, if there is one.
func (s *scan) coverDisarmed(c *Coverage) {
	if s.journal == nil {
		return
	}
	var removed []uint64 // times of the stores
	for i := range s.probes.loose {
		if l := &s.probes.loose[i]; !l.after && s.isProbe(l) {
			removed = append(removed, l.time)
		}
	}
	slices.Sort(removed)
	for _, d := range s.journal.disarmed {
		from, to := d.From, timeline.MaxTime
		if i, _ := slices.BinarySearch(removed, from); i < len(removed) && removed[i] <= d.Seen {
			from = removed[i]
		}
		if d.To != 0 {
			to = d.To
		}
		c.limit(timeline.ProbeDisarmed, from, to, "the recorder found all kprobes disarmed at %s", Seconds(d.Seen))
	}
}

// armedAgain returns the time at which "textreplay record" found the probes armed that were
// disarmed at t, or MaxTime. By then the recorder has changed text and seen that it hits them.
func (s *scan) armedAgain(t uint64) uint64 {
	if s.journal != nil {
		if to, ok := s.journal.armed.latest(t); ok && t < to {
			return to
		}
	}
	return timeline.MaxTime
}

// twoEvents reports whether BEFORE and AFTER are events of their own.
func (p *probeLog) twoEvents() bool {
	return slices.ContainsFunc(p.events, func(e *probeEvent) bool { return e.role == probeAfter })
}

// isProbe reports whether a sample is of a change of the instruction with a probe. On powerpc
// that may be ftrace's call, up to four instructions before what the probe reports.
func (s *scan) isProbe(l *looseSample) bool {
	p, phys := s.probes, l.phys
	if l.addr != 0 {
		return slices.ContainsFunc(p.events, func(e *probeEvent) bool { return e.where != 0 && e.where-16 <= l.addr && l.addr <= e.where })
	}
	return phys != 0 && p.hasOffset && slices.ContainsFunc(p.events, func(e *probeEvent) bool { return e.role == probeARM64 && e.where == phys+p.offset })
}

// A probeLosses finds out whether the partner of a sample may be among lost records.
type probeLosses struct {
	byCPU  map[int64]*lossTimes
	anyCPU *lossTimes // of ring buffers that may be of any CPU
}

func newProbeLosses(buffers []*ringBuffer) *probeLosses {
	byCPU := make(map[int64][]*ringBuffer)
	for _, b := range buffers {
		byCPU[max(b.cpu, noCPU)] = append(byCPU[max(b.cpu, noCPU)], b)
	}
	x := &probeLosses{byCPU: make(map[int64]*lossTimes), anyCPU: lossTimesOf(byCPU[noCPU]...)}
	for cpu, of := range byCPU {
		x.byCPU[cpu] = lossTimesOf(of...)
	}
	return x
}

// around returns the time from the beginning of the first loss that may have a sample of a CPU of [from, to]
// to the end of the last one, see [lossTimes.around].
func (x *probeLosses) around(cpu int64, from, to uint64) (v timeline.Interval, one, ok bool) {
	v, one, ok = x.anyCPU.around(from, to)
	if own := x.byCPU[cpu]; own != nil {
		switch u, only, is := own.around(from, to); {
		case is && ok:
			return timeline.Interval{From: min(u.From, v.From), To: max(u.To, v.To)}, false, true
		case is:
			return u, only, true
		}
	}
	return v, one, ok
}

// hide reports whether the partner of a sample may be among lost records. The store is then between BEFORE
// and the end of the last loss that may have AFTER, or between the beginning of the first loss that may
// have BEFORE, and AFTER. hide adds a limit there, unless one loss is all of it:
//
//	samples        (BEFORE)  NMI         store  AFTER    an NMI's sample had room in the ring buffer
//	loss       ├─────────────┤
//	limit      ├────────────────────────────────┤
func (x *probeLosses) hide(l *looseSample, limits *[]Limit) bool {
	from, to := l.time, l.next
	if l.after {
		from, to = l.previous, l.time
	}
	lost, one, ok := x.around(l.cpu, from, to)
	if !ok {
		return false
	}
	what := "began"
	if l.after {
		what, from = "ended", max(from, lost.From)
	} else {
		to = min(to, lost.To)
		if to <= from {
			return false // the LOST record came before the sample
		}
	}
	if !one || from < lost.From || lost.To < to {
		*limits = append(*limits, Limit{timeline.AfterLoss,
			fmt.Sprintf("a change that %s at %s on CPU %d: its other sample may have been lost", what, Seconds(l.time), l.cpu), from, to})
	}
	return true
}

// ownHits returns how many hits of a probe perf makes itself after it arms it and before
// it copies kernel text. ok is false if that cannot be found out.
//
// On arm64 the AFTER of the probe's own arming is one. Each tracepoint and each kprobe
// that perf opens after it changes text, with two hits for each place. The places of a
// tracepoint are in the kernel's table of jump labels, if perf's copy has it.
func (s *scan) ownHits(e *probeEvent) (n uint64, ok bool) {
	switch e.role {
	case probeARM64:
	case probeBefore:
		return 0, s.probes.writer.isArmed(s.probes.writer.lockedPTE()) // otherwise kprobes may be disarmed
	default:
		return 0, true
	}
	n = 1
	for _, o := range s.rec.Events()[e.event.Index+1:] {
		if !isTracepoint(o) {
			continue
		}
		if p := s.probeOf(o); p != nil {
			if p.where == 0 || p.moved || !s.probes.writer.isBreakpoint(p.where) {
				return n, false
			}
			n += 2
			continue
		}
		_, name, _ := strings.Cut(o.Name, ":")
		places, ok := s.probes.writer.tracepoint(name)
		if !ok {
			return n, false
		}
		n += 2 * places
	}
	return n, true
}

// isArmed reports whether perf's copy has a kprobe of powerpc at the beginning of a function: a
// trap, or ftrace's branch. That one leads to ftrace's own code, or follows the function's first
// "mflr r0" at once and leads out of it (ftrace_modify_code of arch/powerpc/kernel/trace/ftrace.c).
// Other branches are the compiler's.
func (c *probeCode) isArmed(function string) bool {
	at := c.one(function)
	if c.core == nil || at == 0 {
		return false
	}
	const trap, mflr, branch, absolute, link = 0x7fe00008, 0x7c0802a6, 18, 2, 1
	last := uint32(0)
	for i := uint64(0); i <= 16; i += 4 {
		b := c.read(at+i, 4)
		if b == nil {
			return false
		}
		word := c.order.Uint32(b)
		if word == trap {
			return true
		}
		if word>>26 == branch && word&absolute == 0 {
			to, _ := names{k: c.k}.Find(at + i + uint64(int64(int32(word<<6))>>6&^3))
			if strings.HasPrefix(to.Name, "ftrace_") || last == mflr && word&link != 0 && to.Addr != at {
				return true
			}
		}
		last = word
	}
	return false
}

// isBreakpoint reports whether perf's copy has a kprobe's BRK at an address.
func (c *probeCode) isBreakpoint(addr uint64) bool {
	if c.core == nil {
		return false
	}
	b := c.read(addr, 4)
	return b != nil && c.order.Uint32(b) == 0xd4200080
}

// tracepoint returns how many places of text the kernel changes when a tracepoint gets its
// first user. ok is false unless perf's copy has the table, and has a branch at each of
// the places, as when the tracepoint is on. If the copy has the key, it must have one user.
//
// The static key of a struct tracepoint follows its name (include/linux/tracepoint-defs.h).
// An entry of the table is the offsets of the code and of its target, 32 bits each, and of
// the key, 64 bits, whose lowest bits are flags (include/linux/jump_label.h).
func (c *probeCode) tracepoint(name string) (places uint64, ok bool) {
	at, lo, hi := c.one("__tracepoint_"+name), c.one("__start___jump_table"), c.one("__stop___jump_table")
	if c.core == nil || at == 0 || lo == 0 || hi <= lo || hi-lo > 1<<28 {
		return 0, false
	}
	key := at + 8
	table := c.read(lo, int(hi-lo))
	if users := c.read(key, 4); table == nil || users != nil && c.order.Uint32(users) != 1 {
		return 0, false
	}
	for i := 0; i+16 <= len(table); i += 16 {
		entry := lo + uint64(i)
		if (entry+8+c.order.Uint64(table[i+8:]))&^3 != key {
			continue
		}
		code := entry + uint64(int64(int32(c.order.Uint32(table[i:]))))
		if insn := c.read(code, 4); insn == nil || c.order.Uint32(insn)>>26 != 0x05 {
			return 0, false
		}
		places++
	}
	return places, places > 0
}
