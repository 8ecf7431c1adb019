// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/internal/numbers"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// Verdict is whether all changes of a kind were recorded.
type Verdict string

const (
	Complete Verdict = "complete" // nothing from Report.Begin to Report.Horizon is missing
	Partial  Verdict = "partial"  // some may be missing: Coverage.Limits says when, and why
	None     Verdict = "none"     // such changes were not recorded at all
)

// Limit is one reason why coverage is not complete, and the half-open interval
// [From, To) for which it holds, in nanoseconds of the recording's clock.
type Limit struct {
	Reason   timeline.Reason
	Text     string
	From, To uint64 // 0 and MaxTime if unbounded
}

// isStart reports whether the limit is for the time from perf's copy of kernel text
// until perf enabled its events.
func (l Limit) isStart() bool {
	return (l.Reason == timeline.NotListening || l.Reason == timeline.ProbeEarly) && l.From == 0 && l.To != timeline.MaxTime
}

// Coverage is the verdict on one kind of change.
type Coverage struct {
	Verdict Verdict
	Limits  []Limit
}

// limit makes the verdict partial for [from, to).
func (c *Coverage) limit(r timeline.Reason, from, to uint64, format string, args ...any) {
	c.limitTo(r, from, to, fmt.Sprintf(format, args...))
}

// plural returns a number and its unit, whose plural ends in s.
func plural[N int | uint64](n N, one string) string {
	if n != 1 {
		one += "s"
	}
	return fmt.Sprintf("%d %s", n, one)
}

// limitTo is limit with a text that is complete.
func (c *Coverage) limitTo(r timeline.Reason, from, to uint64, text string) {
	if c.Verdict == Complete {
		c.Verdict = Partial
	}
	c.Limits = append(c.Limits, Limit{r, text, from, to})
}

// none sets the verdict: nothing was recorded.
func (c *Coverage) none(format string, args ...any) {
	c.Verdict = None
	c.Limits = append(c.Limits, Limit{timeline.NoCoverage, fmt.Sprintf(format, args...), 0, timeline.MaxTime})
}

// coverage judges pokes, ksymbols and BPF events by the rules losses, horizon and coverage.
func (s *scan) coverage() {
	r := s.report
	r.Damaged = len(s.damage) > 0
	s.findHotplug()
	r.Coverage.Pokes = s.cover(takesPokes, "text pokes", "attr.text_poke (perf record --kcore sets it)")
	r.Coverage.KSymbols = s.cover(takesSymbols, "symbol births and deaths", "attr.ksymbol")
	r.Coverage.BPF = s.cover(takesBPF, "BPF program loads", "attr.bpf_event")

	pokes := &r.Coverage.Pokes
	switch {
	case r.Arch == "":
		pokes.limit(timeline.PartialCoverage, 0, timeline.MaxTime, "the recording does not say which architecture it is from")
	case s.arch.recordsPokes():
	case s.probes != nil && s.probes.records(s.arch):
		*pokes = s.coverProbes()
		s.b.Probed(true)
		r.Probes = s.probes.report()
	case s.coverUnformatted(pokes):
	case r.Pokes.inPlace() > 0 && pokes.Verdict != None:
		pokes.limit(timeline.SilentWriters, 0, timeline.MaxTime, "kernels of this architecture (%s) are not known to emit TEXT_POKE records; this recording has some but may miss others", r.Arch)
	default:
		pokes.none("kernels of this architecture (%s) emit no TEXT_POKE records", r.Arch)
	}
	if n, from, to := s.b.Dropped(); n > 0 {
		pokes.limit(timeline.TooManyFacts, from, to, "%d text pokes are ignored: no kernel makes so many", n)
	}
	r.Coverage.Modules = s.coverModules()
	if s.machine != 0 {
		s.coverGuest()
	}
}

// coverModules judges whether all loads and unloads of modules were recorded. That
// needs both tracepoints, on every CPU, each time (rule modules).
func (s *scan) coverModules() Coverage {
	c := s.cover(takesModuleFree, "module unloads", "-e module:module_load -e module:module_free")
	load := s.cover(takesModuleLoad, "module loads", "-e module:module_load -e module:module_free")
	has := make(map[Limit]bool, len(c.Limits)) // one limit for each loss
	for _, l := range c.Limits {
		has[l] = true
	}
	for _, l := range load.Limits {
		if !has[l] {
			c.Limits = append(c.Limits, l)
		}
	}
	if c.Verdict == Complete || load.Verdict == None {
		c.Verdict = load.Verdict
	}
	if c.Verdict == None {
		c.Limits = []Limit{{timeline.ModuleMayHaveGone, "module loads and unloads were not both recorded: that needs -e module:module_load -e module:module_free", 0, timeline.MaxTime}}
		return c
	}
	for _, e := range s.rec.Events() {
		if kindsOf(e)&(takesModuleLoad|takesModuleFree) == 0 {
			continue
		}
		if a := &e.Attr; a.Flags&perfdata.FlagFreq != 0 || a.SamplePeriod != 1 {
			c.limit(timeline.ModuleEventsSampled, 0, timeline.MaxTime, "%s was sampled, not recorded each time: perf record without -F and -c takes all", e.Name)
		}
		if why := s.confined(e); why != "" {
			c.limit(timeline.ModuleMayHaveGone, 0, timeline.MaxTime, "%s was not recorded each time: %s", e.Name, why)
		}
	}
	if s.moduleLoad == (tracepoint{}) || s.moduleFree == (tracepoint{}) {
		c.limit(timeline.ModuleMayHaveGone, 0, timeline.MaxTime, "the recording has no formats of module:module_load and module:module_free (TRACING_DATA)")
	}
	return c
}

// cover judges the coverage of one kind.
func (s *scan) cover(kind kinds, what, asked string) Coverage {
	c := Coverage{Verdict: Complete}
	cpus := make(map[int64]bool)
	some, overwrites := false, false
	for _, ch := range s.channels.all {
		if ch.event == nil || ch.kinds&kind == 0 || ch.machine != s.listens {
			continue
		}
		some = true
		overwrites = overwrites || s.isRead(ch, kind) && ch.event.Attr.Flags&perfdata.FlagWriteBackward != 0
		if ch.system && !s.inCgroup(ch.event) {
			cpus[ch.cpu] = true
		}
	}
	if !some && slices.ContainsFunc(s.rec.Events(), func(e *perfdata.Event) bool { return kindsOf(e)&kind != 0 && !hasTimes(e) }) {
		c.none("the records of %s have no time (perf record --no-timestamp)", what)
		return c
	}
	if !some {
		c.none("no event of this recording records %s; that needs %s", what, asked)
		return c
	}
	switch {
	case s.report.CPUsAvailable == 0 && s.machine != 0:
		c.limit(timeline.CPUCountsMissing, 0, timeline.MaxTime, "the host's recording does not say how many virtual CPUs the guest has")
	case s.report.CPUsAvailable == 0:
		c.limit(timeline.CPUCountsMissing, 0, timeline.MaxTime, "perf did not finish this file, so the number of CPUs is missing and a CPU may not have been recorded")
	case s.followsCPUs(): // a CPU that is offline changes nothing
	case len(cpus) < s.report.CPUsAvailable:
		c.limit(timeline.PartialCoverage, 0, timeline.MaxTime, "%s were recorded system-wide on %d of %d CPUs", what, len(cpus), s.report.CPUsAvailable)
	case s.report.CPUsOnline != s.report.CPUsAvailable:
		c.limit(timeline.PartialCoverage, 0, timeline.MaxTime, "%d of %d CPUs were online: bringing up another one changes text with no record", s.report.CPUsOnline, s.report.CPUsAvailable)
	}
	if len(s.damage) > 0 {
		c.limit(timeline.Damaged, 0, timeline.MaxTime, "the recording is damaged: %v", s.damage[0])
	}
	s.coverJournal(&c)
	if !s.followsCPUs() {
		s.silence(&c, kind)
		if t := s.unreadStep; t != timeline.MaxTime {
			c.limit(timeline.CPUSilent, t, timeline.MaxTime, "steps of CPUs that go offline were recorded from %s on, but the name of their event came later; a CPU may have been offline", Seconds(t))
		}
	}
	s.coverStart(&c, kind, what)
	s.coverPinned(&c, kind, what)
	if overwrites {
		c.limit(timeline.AfterLoss, 0, timeline.MaxTime, "%s: their ring buffers overwrite the oldest records without a sign (perf record --overwrite)", what)
	}
	s.coverLosses(&c, kind)
	s.widen(&c)
	return c
}

// widen lets each limit begin early enough, and end late enough, for a clock that counts the kernel's
// ticks. Such a clock gives one time to all that happens until the next tick. What another CPU recorded
// at the time of the record that a limit begins with may have come after what was not recorded, and
// what it recorded at the time of the record that the limit ends with may have come before it.
func (s *scan) widen(c *Coverage) {
	for i := range c.Limits {
		l := &c.Limits[i]
		if s.isTick(l.From) && l.From > s.report.First {
			l.From--
		}
		if s.isTick(l.To) {
			l.To++
		}
	}
}

// isTick reports whether a time of the recording is one at which a clock that counts the kernel's
// ticks can stand: whole ticks behind the first record, as the newest one is.
func (s *scan) isTick(t uint64) bool {
	first := s.report.First
	return first < s.newest && isTicks(s.newest-first) && first <= t && t != timeline.MaxTime && isTicks(t-first)
}

const second = 1_000_000_000 // in nanoseconds

// NextTick returns the first time from t on that the recording's clock can show, which is t unless it counts the kernel's
// ticks.
func (r *Replay) NextTick(t uint64) uint64 {
	s := r.scanned()
	first := s.report.First
	if t <= first || t == timeline.MaxTime || !s.isTick(s.newest) {
		return t
	}
	tick := uint64(second / 1000)
	if (s.newest-first)%tick != 0 {
		tick = second / 300
	}
	return timeline.Later(t, (tick-(t-first)%tick)%tick)
}

// CountsTicks reports whether the recording's clock counts the kernel's ticks.
func (r *Replay) CountsTicks() bool { return r.scanned().isTick(r.scanned().newest) }

// isTicks reports whether an interval is a whole number of the kernel's ticks, of which there are 100,
// 250, 300 or 1000 in a second (kernel/Kconfig.hz). Of a clock that counts nanoseconds, one interval in
// a million is.
func isTicks(ns uint64) bool {
	return ns%(second/1000) == 0 || ns%(second/300) == 0
}

// silence adds a limit for each CPU that may have gone offline and come back without
// its events. A record may show that the CPU was gone (rule hotplug). Or the CPU has no
// record for longer before the clean end than ever before (rule coverage).
func (s *scan) silence(c *Coverage, kind kinds) {
	for _, b := range s.buffers {
		// A buffer whose CPU is unknown may be any CPU's.
		if b.unplaced && b.last == 0 || !b.unplaced && (b.takes&kind == 0 || b.cpu < 0) {
			continue
		}
		switch from, why := s.gone(b); {
		case b.last == 0 && s.clean:
			c.limit(timeline.CPUSilent, 0, timeline.MaxTime, "CPU %d has no record at all", b.cpu)
		case b.last == 0:
		case why != "":
			c.limit(timeline.CPUSilent, from, timeline.MaxTime, "%s", why)
		case s.clean && s.fellSilent(b) && !s.isIdle(b):
			c.limit(timeline.CPUSilent, b.last, timeline.MaxTime, "%s was silent for the last %s s, longer than ever before; it may have been offline", b.where(), numbers.InSeconds(s.newest-b.last))
		}
	}
}

// fellSilent reports whether a buffer has no record for longer before the recording's
// end than ever before.
func (s *scan) fellSilent(b *ringBuffer) bool {
	return s.newest-b.last > b.longestSilence(s.report.First)
}

func seconds(ns uint64) string { return Seconds(ns) + " s" }

// horizon returns the time up to which nothing earlier can arrive (rule horizon), in
// nanoseconds of the recording's clock.
//
// If the clock was set back, it shows some times twice. Then the horizon is at most the
// time of each ring buffer's last record.
func (s *scan) horizon() uint64 {
	t := s.recordedUntil()
	for _, b := range s.buffers {
		if n := len(b.tasks.steps); n > 0 {
			t = min(t, b.tasks.latest-min(b.tasks.latest, 1))
		}
	}
	if t > s.report.First && s.isTick(t) {
		t-- // what was not recorded may have come at the same tick
	}
	return t
}

// recordedUntil is horizon for a clock that was not set back.
func (s *scan) recordedUntil() uint64 {
	if s.clean {
		return s.lastCertain()
	}
	rounds := s.rounds()
	least := timeline.MaxTime
	for _, b := range s.buffers {
		if b.takes&takesPokes != 0 {
			least = min(least, s.complete(b, rounds))
		}
	}
	if least == timeline.MaxTime { // no buffer takes pokes
		for _, b := range s.buffers {
			least = min(least, s.complete(b, rounds))
		}
	}
	if least == timeline.MaxTime {
		return rounds
	}
	return min(least, s.missing(least))
}

// rounds returns the time that the FINISHED_ROUND records guarantee. When a file has two
// of them, it has all records older than the newest record before the first. All
// files must have come that far.
func (s *scan) rounds() uint64 {
	if len(s.files) < len(s.rec.Files()) || len(s.files) == 0 {
		return 0 // a file without a record
	}
	if s.listens != 0 {
		return 0 // the rounds are the host's
	}
	least := timeline.MaxTime
	for _, f := range s.files {
		least = min(least, f.safe)
	}
	return least
}

// round is the state of one data file between two FINISHED_ROUND records.
type round struct {
	newest, before, safe uint64
	// started is a time by which perf had begun to drain the ring buffers. The first
	// round that follows another and has a newer record gives it.
	started  uint64
	finished bool   // a round has finished
	second   uint64 // the earliest time of a side-band record since then, 0 if there is none
}

// see adds a record's time.
func (f *round) see(t uint64, sample bool) {
	f.newest = max(f.newest, t)
	if f.finished && !sample && (f.second == 0 || t < f.second) {
		f.second = t
	}
}

// finish handles a FINISHED_ROUND record of the file.
func (f *round) finish() {
	if f.finished && f.started == 0 && f.newest > f.before {
		f.started = f.newest
		if f.second != 0 {
			// The record was not in its ring buffer yet when perf drained that for the first time.
			f.started = min(f.started, timeline.Later(f.second, lateRecord))
		}
	}
	f.finished = true
	f.safe, f.before = f.before, f.newest
}

// trust sets the time over which all kernel text is known: up to the first gap. It also
// sets why the time is not longer. After a gap, text that changes is known again.
func (r *Report) trust() {
	c := &r.Coverage.Pokes
	r.Trusted = Trust{From: r.Begin, To: r.Horizon}
	for _, l := range c.Limits {
		if l.Reason != timeline.OldBytesMismatch { // spoils only the places where it happened
			r.Trusted.To = min(r.Trusted.To, l.From)
		}
	}
	late := r.Copied != nil && !r.Undated && r.Copied.To > r.Horizon
	if r.Trusted.To <= r.Trusted.From || c.Verdict == None || late {
		r.Trusted = Trust{}
	}
	var because []string
	if late {
		because = append(because, "the copy of kernel text may be later than the time up to which the recording is complete")
	}
	count := map[timeline.Reason]int{}
	for _, l := range c.Limits {
		if count[l.Reason]++; count[l.Reason] == 1 {
			because = append(because, l.Text)
		}
	}
	if n := count[timeline.AfterLoss]; n > 1 {
		because = append(because, fmt.Sprintf("%d intervals with losses in all", n))
	}
	switch {
	case len(c.Limits) > 0:
	case r.Horizon <= r.Begin:
		because = append(because, "the recording is not complete up to any time at which all CPUs recorded")
	default:
		on := fmt.Sprintf("all %d CPUs", r.CPUsAvailable)
		if r.CPUsAvailable == 1 {
			on = "the only CPU"
		}
		all := fmt.Sprintf("text pokes were recorded on %s and none was lost", on)
		if r.Probes != nil {
			all = fmt.Sprintf("probes recorded each change on %s", on)
		}
		switch {
		case r.HotplugRecorded:
		case r.Guest != 0:
			all += "; this assumes that no CPU was offline or suspended meanwhile"
		default:
			all += "; this assumes that no CPU was offline or suspended meanwhile, which -e cpuhp:cpuhp_enter would record"
		}
		because = append(because, all)
	}
	because = append(because, r.whatFollows()...)
	if silent := r.architecture().silent(); r.Undated && !silent {
		because = append(because, "the time of the copy of kernel text is unknown, so only poked places are known")
	} else if r.Trusted.To != 0 && r.copiedLate() && !silent {
		because = append(because, "the copy of kernel text may be later than that, so only poked places are known")
	} else if r.SnapshotBytes == 0 && !silent {
		because = append(because, "the recording has no copy of kernel text (kcore_dir), so only poked places are known")
	}
	r.Trusted.Because = because
}

// copiedLate reports whether the copy of text may have been made after the first gap began. Then it
// proves nothing by itself.
func (r *Report) copiedLate() bool {
	return r.Copied != nil && !r.Undated && r.Copied.To > r.Trusted.To
}

// OnlyPoked reports whether no text is known that was not poked: there is no copy of text that proves it.
func (r *Report) OnlyPoked() bool { return r.SnapshotBytes == 0 || r.Undated || r.copiedLate() }

// merged joins limits of one reason that share time. The list of gaps needs them disjoint.
func merged(limits []Limit) []Limit {
	l := slices.Clone(limits)
	slices.SortStableFunc(l, func(a, b Limit) int {
		return cmp.Or(strings.Compare(a.Reason.String(), b.Reason.String()), cmp.Compare(a.From, b.From))
	})
	out := l[:0]
	for _, x := range l {
		if n := len(out); n > 0 && out[n-1].Reason == x.Reason && x.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, x.To)
			continue
		}
		out = append(out, x)
	}
	return out
}
