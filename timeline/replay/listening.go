// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"errors"
	"iter"
	"slices"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// Events start to record at different times. perf record (__cmd_record of
// tools/perf/builtin-record.c) goes through the steps below. In each step it handles
// the CPUs in ascending order, and on each CPU the events in the order of their
// attrs.
//
//	opens the events         events that are not disabled record from here on
//	maps the ring buffers    before, records go nowhere
//	copies kernel text       --kcore
//	enables the others       with -D after a delay; with --control on command
//	starts the workload      the exec
//	drains, again and again  FINISHED_ROUND
//	disables the events      those that were opened enabled come last
//	drains once more
//
// So a record of one CPU proves that the buffers of all lower CPUs are mapped.
// At the end, it proves that the buffers of all higher CPUs still record.

// begin returns the time from which on the ring buffers of all CPUs record. It is the
// earliest of: the workload's exec, a record of the highest CPU, a record of an event that was opened
// disabled, the end of the first round. Without any of these, it is the time of the first record. Ring buffers
// that overwrite their oldest records may have older ones, see starts.
//
// A later file of perf record --switch-output begins with what perf had not drained for the
// file before. So the first record of the highest CPU was written when all of its other
// buffers had been drained, but its time may be older. The next one that is younger has its
// time from after that.
//
// On a clock that counts ticks, it is the time just behind such a tick: what another CPU recorded at
// the tick may have come before what was not recorded.
//
// Of a later file it is later by how far CPUs' clocks may differ. Perf had read one ring buffer after the
// other. What a CPU recorded meanwhile may be in this file, although a change that followed it on another CPU
// is in the file before. If the clock of the first one is ahead, its time is later than that of the record above:
//
//	CPU 1, 30 ms ahead   │ read   P: A -> B, recorded 255
//	CPU 2                                      Q: B -> A, recorded 230   │ read     233  234
//	made                 200      225          230                       232      233  234
func (s *scan) begin() uint64 {
	t := s.mapped()
	if s.isTick(t) {
		t++
	}
	if s.beginsLater() && s.cpusMayDiffer() {
		t = timeline.Later(t, timeline.AssumedSkew)
	}
	return t
}

// mapped is begin for a clock that gives each moment a time of its own.
func (s *scan) mapped() uint64 {
	if s.journal != nil && s.journal.bad == nil && s.journal.start.Open != 0 {
		return s.journal.start.Open
	}
	t := s.readyBy()
	highest := int64(-1)
	for _, b := range s.buffers {
		if b.takes != 0 && !b.backward {
			highest = max(highest, b.cpu)
		}
	}
	for _, b := range s.buffers {
		if b.takes != 0 && !b.backward && b.cpu == highest && b.first != 0 {
			first := b.first
			if s.beginsLater() {
				first = timeline.Later(first, lateRecord)
				if b.second != 0 {
					first = min(first, b.second)
				}
			}
			t = min(t, first)
		}
	}
	if highest < 0 || t == timeline.MaxTime {
		return s.report.First
	}
	return max(t, s.report.First)
}

// lastCertain returns the time up to which the ring buffers of all CPUs certainly
// recorded, in a recording that ends cleanly. That is the time of the newest record of
// the lowest CPU. It ignores CPUs that fell silent, see silence. If another event of that CPU
// has a later record of what the chosen one takes, the chosen one was disabled first; see
// missing.
func (s *scan) lastCertain() uint64 {
	if s.journal != nil && s.journal.ended != 0 {
		return s.journal.ended
	}
	lowest := s.lowest()
	if lowest == nil {
		return s.newest
	}
	side, last := s.lastListening(lowest)
	// A side-band record may come after newer samples, see ringBuffer.side.
	t := max(side, last-min(last, lateRecord))
	return min(t, s.missing(t))
}

// lastListening returns the times of the newest side-band record and of the newest record in b
// that show that the events of its CPU took pokes, loads and births. Perf disables what it opened
// enabled last, on all CPUs. So such an event's records show nothing of one that it opened disabled.
// An event of one task does not count: it says little of its CPU at any time, and if perf started
// the task, perf does not disable it.
func (s *scan) lastListening(b *ringBuffer) (side, last uint64) {
	var early, disabled bool
	for k := range duplicated {
		e := s.heard[k][b.cpu]
		disabled = disabled || e != nil && s.startsDisabled(e)
	}
	if !disabled { // as it nearly always is
		return b.side, b.last
	}
	for _, ch := range s.channels.all {
		if ch.buffer != b || ch.event == nil || !s.startsDisabled(ch.event) {
			continue
		}
		for k, kind := range duplicated {
			early = early || ch.system && ch.kinds&kind != 0 && s.heard[k][b.cpu] == ch.event
		}
		side, last = max(side, ch.side), max(last, ch.last)
	}
	if !early {
		return b.side, b.last
	}
	return min(side, b.side), last // the event's newest record may be a copy, see ringBuffer.side
}

// complete returns the time up to which the scan has seen all records and all losses of b, in a
// recording that has not ended or has no clean end. Perf may be disabling its events already.
func (s *scan) complete(b *ringBuffer, rounds uint64) uint64 {
	side, last := s.lastListening(b)
	return b.complete(side, last, rounds, s.report.First)
}

// lowest returns the ring buffer of the lowest CPU that did not fall silent, or nil.
func (s *scan) lowest() (lowest *ringBuffer) {
	for _, b := range s.buffers {
		if b.takes != 0 && b.cpu >= 0 && b.last != 0 && !s.fellSilent(b) && (lowest == nil || b.compare(lowest.bufferKey) < 0) {
			lowest = b
		}
	}
	return lowest
}

// readyBy returns the earliest time by which the recording shows that perf had mapped the ring buffers
// of all CPUs and copied kernel text, or MaxTime if nothing shows it.
func (s *scan) readyBy() uint64 { return min(s.execed(), s.acted(), s.drained(), s.enabledAny()) }

// A waiter is the process that executes perf's workload: it does nothing until perf starts it. Its
// exec may have no record with a time. Events of single tasks have none (--per-thread), and a CPU
// that perf does not record (-C) may have executed the workload.
type waiter struct {
	pid   uint32 // 0: perf listed none
	acted uint64 // time of its first change of text, map or FORK; 0: none
}

// meet takes what a thread did at a time: a change of text, a map or a FORK. Of a thread that waits in
// a system call, interrupts may make other records.
func (w *waiter) meet(tid uint32, t uint64) {
	if tid == w.pid && tid != 0 && t != 0 && (w.acted == 0 || t < w.acted) {
		w.acted = t
	}
}

// acted returns a time at which the workload ran, or MaxTime if no record shows one. perf lists the
// process that waits after it has copied text. Of several one may be another perf's.
func (s *scan) acted() uint64 {
	if s.waiter.acted == 0 || len(s.perfExec) != 1 {
		return timeline.MaxTime
	}
	return s.waiter.acted
}

// execed returns the latest time at which perf can have started its workload, or MaxTime if
// no record shows it.
//
// "textreplay record" says in its journal when it was ready.
func (s *scan) execed() uint64 {
	if s.journal != nil && s.journal.ready != 0 {
		return s.journal.ready
	}
	if e, ok := s.workload(); ok {
		return e.time
	}
	return timeline.MaxTime
}

// workload returns the exec of perf's workload. Another perf may be waiting to start its own
// workload when this one lists the processes. Then it is not known which process is this one's,
// and the last exec counts, if there is one of each.
func (s *scan) workload() (last exec, ok bool) {
	first := make(map[uint32]uint64) // exec of each; later ones are of what the workload executes
	for _, e := range s.execs {
		if t, met := first[e.pid]; s.perfExec[e.pid] && (!met || e.time < t) {
			first[e.pid] = e.time
		}
	}
	for pid, t := range first {
		if t > last.time || t == last.time && pid > last.pid {
			last = exec{pid, t}
		}
	}
	return last, len(first) > 0 && len(first) == len(s.perfExec)
}

// mayBeLater reports whether the recording may be one of the later files of perf record
// --switch-output: the workload was started while perf wrote the first one, which has the
// copy of kernel text.
func (s *scan) mayBeLater() bool {
	return (s.options.Switched || !s.options.Known) && !s.ownCopy && s.execed() == timeline.MaxTime
}

// MayBeLater reports whether the recording may be one of the later files of perf record --switch-output.
// Its LOST_SAMPLES records then count what all files lost.
func (r *Replay) MayBeLater() bool { return r.scanned().mayBeLater() }

// beginsLater is mayBeLater, except for what no later file is: a pipe, and a file that perf
// has finished without its command line.
func (s *scan) beginsLater() bool {
	_, err := s.rec.Cmdline()
	return s.mayBeLater() && !s.rec.Pipe() && (err == nil || !s.clean)
}

// errCopyMoved is the warning about a copy in the directory of another file than perf made it for.
var errCopyMoved = errors.New("kcore_dir was made for an earlier file of perf record --switch-output, so its time is unknown")

// longestOpening is the most time, in nanoseconds, between perf's start and its first record. In
// emulated machines it is up to 6 s.
const longestOpening = 30e9

// copyMoved reports whether the recording's directory has a copy of text that was not made there: the
// recording is a later file of perf record --switch-output. perf lists the workload, which waits, in
// the first file only. And it reads the clock once, when it starts, and writes that time to all files
// (record__init_clock() in tools/perf/builtin-record.c).
func (s *scan) copyMoved() bool {
	s.ownCopy = false
	if !s.beginsLater() || s.journal != nil || s.machine != 0 {
		return false
	}
	if s.options.ListsWorkload && s.tasks.listed != 0 && len(s.perfExec) == 0 && !s.announcedLate {
		return true
	}
	started := s.report.Clock.data
	return started != nil && s.report.First > timeline.Later(started.ClockNS, longestOpening)
}

// ShowsCopy reports whether nothing but a change, a map or a FORK with this trailer shows when perf had
// made the copy of kernel text (rule snapshot).
func (r *Replay) ShowsCopy(id *perfdata.SampleID) bool {
	s := r.scanned()
	return id.Time != 0 && id.PID == s.waiter.pid && id.Time == s.acted() && id.Time == s.readyBy()
}

// ReadyBy returns the latest time at which perf can have been about to begin: from then on the ring buffers of all
// CPUs recorded, perf had copied kernel text, and had announced what was loaded, unless it does that at the end
// (rules snapshot and listening). It is MaxTime if nothing in the recording bounds that time.
func (r *Replay) ReadyBy() uint64 {
	s := r.scanned()
	t := max(s.copied(r.Report.Horizon), r.Report.Begin)
	if s.journal != nil {
		t = max(t, s.journal.ready)
	}
	return t
}

// AnnouncesLate reports whether perf announced at the end what was loaded then (--tail-synthesize).
func (r *Replay) AnnouncesLate() bool { return r.scanned().announcedLate }

// StaysOpen reports whether the recording has no clean end, and a file with its features and events has none either,
// whatever records it has. A [perfdata.Writer] writes the names of events as a feature.
func (r *Replay) StaysOpen() bool {
	s := r.scanned()
	bare := len(s.rec.Features()) == 0 && !slices.ContainsFunc(s.rec.Events(), func(e *perfdata.Event) bool { return e.Name != "" })
	return !s.clean && (bare || s.options.Switched || s.options.Pipe)
}

// StartsWith returns a function that reports whether a record with this trailer shows when perf had copied kernel text, or
// from when on the ring buffers of all CPUs recorded, whatever the record says. Without it, another record would show
// that, with a later time.
func (r *Replay) StartsWith() func(id *perfdata.SampleID) bool {
	s := r.scanned()
	ready, mapped := s.readyBy(), s.mapped()
	enabled := s.enabledAny() == ready
	return func(id *perfdata.SampleID) bool {
		if id.Time == 0 || id.Time != ready && id.Time != mapped {
			return false
		}
		ch := s.channelOf(id)
		if ch == nil || ch.buffer == nil || ch.event == nil || ch.machine != s.listens {
			return false
		}
		return id.Time == ready && enabled && s.startsDisabled(ch.event) || id.Time == mapped && mapped < ready && ch.buffer.first == mapped
	}
}

// drained returns a time by which perf had drained the ring buffers for the first
// time: the newest time of the first round that follows another. It returns MaxTime
// if the recording does not show one.
func (s *scan) drained() uint64 {
	if s.listens == 0 && len(s.files) == 1 && s.files[0].started != 0 {
		return s.files[0].started
	}
	return timeline.MaxTime
}

// enabledAny returns the time of a record of an event that perf opened disabled, or MaxTime if there
// is none. Before perf enables such an event, it maps the ring buffers of all CPUs, copies kernel text
// and announces what is there. In a later file of perf record --switch-output the events have recorded
// since the first one.
func (s *scan) enabledAny() uint64 {
	t := timeline.MaxTime
	if s.mayBeLater() {
		return t
	}
	for _, ch := range s.channels.all {
		if ch.first != 0 && ch.event != nil && s.startsDisabled(ch.event) {
			t = min(t, ch.first)
		}
	}
	return t
}

// startsDisabled reports whether perf opened an event disabled. The attr of a group's
// member says enabled, but the member records only while its leader does.
func (s *scan) startsDisabled(e *perfdata.Event) bool {
	if events := s.rec.Events(); len(s.disabled) != len(events) {
		groups, _ := s.rec.GroupDesc() // perf writes none if there are no groups
		s.disabled = make([]bool, len(events))
		for i, e := range events {
			s.disabled[i] = leaderOf(e, events, groups).Attr.Flags&perfdata.FlagDisabled != 0
		}
	}
	return s.disabled[e.Index]
}

// leaderOf returns the leader of an event's group, or the event itself if it has no group.
func leaderOf(e *perfdata.Event, events []*perfdata.Event, groups []perfdata.Group) *perfdata.Event {
	if members := groupOf(e, events, groups); len(members) > 0 {
		return members[0]
	}
	return e
}

// groupOf returns the members of an event's group, the leader first. It returns nil if the event
// has no group.
func groupOf(e *perfdata.Event, events []*perfdata.Event, groups []perfdata.Group) []*perfdata.Event {
	for _, g := range groups {
		if lo := uint64(g.Leader); lo <= uint64(e.Index) && uint64(e.Index)-lo < uint64(g.Members) {
			return events[lo:min(lo+uint64(g.Members), uint64(len(events)))]
		}
	}
	return nil
}

// needsCounter reports whether an event is in a group with one that is neither of software nor a
// tracepoint. The kernel schedules all members of a group or none (group_sched_in of
// kernel/events/core.c), so none has samples while the CPU has no counter for one of them.
func (s *scan) needsCounter(e *perfdata.Event) bool {
	groups, _ := s.rec.GroupDesc()
	return slices.ContainsFunc(groupOf(e, s.rec.Events(), groups), usesCounter)
}

// usesCounter reports whether an event is neither of software nor a tracepoint.
func usesCounter(e *perfdata.Event) bool { return e.Attr.Type != typeSoftware && !isTracepoint(e) }

// mayFail reports whether an event may stop recording without a sign. The kernel puts one that is
// pinned (:D) into an error state when its CPU has no counter for it or for a member of its group
// (merge_sched_in of kernel/events/core.c). From then on it takes no records
// (perf_iterate_sb_cpu), not even those that need no counter. Any other event takes these also
// while it waits for a counter.
func (s *scan) mayFail(e *perfdata.Event) bool {
	return e.Attr.Flags&perfdata.FlagPinned != 0 && (usesCounter(e) || s.needsCounter(e))
}

// enabled returns the time from which on the event of ch was enabled, for an event that
// perf opened disabled. It returns MaxTime if nothing shows that time.
//
// A record of the event shows it. So does a record of another event that perf enables
// later. If the command line is known, so do the exec of the workload and the first
// round: perf enables the events of CPUs before both. enable_on_exec is for events of
// tasks: events of a CPU do not see an exec.
func (s *scan) enabled(ch *channel) uint64 {
	t := timeline.MaxTime
	o := &s.options
	for _, x := range s.channels.all {
		if x.first == 0 || x.machine != ch.machine {
			continue
		}
		later := o.EnablesOnce() && x.system && ch.system && s.startsDisabled(x.event) &&
			cmp.Or(cmp.Compare(x.cpu, ch.cpu), cmp.Compare(x.event.Index, ch.event.Index)) >= 0
		if x == ch || later {
			t = min(t, x.first)
		}
	}
	if o.AtStart() && ch.system && ch.event.Attr.Flags&perfdata.FlagEnableOnExec == 0 {
		t = min(t, s.execed(), s.drained())
	}
	return t
}

// listensFrom returns the time from which on all CPUs have an enabled event that takes
// this kind of record, and the last CPU to get one. The time is 0 if all CPUs had such an
// event when perf opened its events.
func (s *scan) listensFrom(kind kinds) (from uint64, cpu int64) {
	first := make(map[int64]uint64) // by CPU
	for ch := range s.readOnCPUs(kind) {
		t := uint64(0)
		if s.startsDisabled(ch.event) {
			t = s.enabled(ch)
		}
		if old, ok := first[ch.cpu]; !ok || t < old {
			first[ch.cpu] = t
		}
	}
	for c, t := range first {
		if t > from || t == from && c > cpu {
			from, cpu = t, c
		}
	}
	return from, cpu
}

// readOnCPUs yields the ids from which the scan reads the records of this kind on a CPU.
func (s *scan) readOnCPUs(kind kinds) iter.Seq[*channel] {
	return func(yield func(*channel) bool) {
		for _, ch := range s.listeners(kind) {
			if ch.event != nil && ch.cpu >= 0 && s.isRead(ch, kind) && !yield(ch) {
				return
			}
		}
	}
}

// isRead reports whether the scan reads the records of this kind that come through ch.
func (s *scan) isRead(ch *channel, kind kinds) bool {
	const chosen = takesPokes | takesSymbols | takesBPF
	return !s.chosen || kind&chosen == 0 || ch.chosen&kind != 0
}

// coverStart adds a limit for the time before all CPUs had an enabled event that takes
// this kind of record (rule listening).
func (s *scan) coverStart(c *Coverage, kind kinds, what string) {
	if s.options.Control {
		c.limit(timeline.NotListening, 0, timeline.MaxTime, "perf record --control: the recording does not say when the events of %s were enabled", what)
		return
	}
	switch from, cpu := s.listensFrom(kind); from {
	case 0:
	case timeline.MaxTime:
		c.limit(timeline.NotListening, 0, timeline.MaxTime, "%s: the event of CPU %d was opened disabled, and the recording does not say when it was enabled", what, cpu)
	default:
		if kind&(takesModuleLoad|takesModuleFree) != 0 && s.quiet() {
			return
		}
		c.limit(timeline.NotListening, 0, from, "%s: perf enables this event only after it has copied kernel text; changes in between were not recorded", what)
	}
}

// coverPinned adds a limit for the time in which an event that takes this kind of record may have
// failed, see mayFail: after its last record on the CPU where that is the oldest.
func (s *scan) coverPinned(c *Coverage, kind kinds, what string) {
	last := make(map[int64]uint64) // by CPU
	for ch := range s.readOnCPUs(kind) {
		if s.mayFail(ch.event) {
			last[ch.cpu] = max(last[ch.cpu], ch.last)
		}
	}
	if len(last) == 0 {
		return
	}
	from, on := timeline.MaxTime, int64(-1)
	for cpu, t := range last {
		if t < from || t == from && cpu < on {
			from, on = t, cpu
		}
	}
	c.limit(timeline.PartialCoverage, from, timeline.MaxTime, "%s: their event is pinned (:D) and takes no more once it gets no counter; on CPU %d no later record of it shows that it had one", what, on)
}

// inCgroup reports whether an event may have recorded a cgroup's tasks only: perf record -G is
// for the events of the command line, not for the one that perf adds for text pokes.
func (s *scan) inCgroup(e *perfdata.Event) bool {
	return s.options.Cgroup && kindsOf(e)&takesPokes == 0
}

// confined returns why an event does not record every occurrence, or "" if it does. Any
// task may hit a tracepoint in the kernel.
func (s *scan) confined(e *perfdata.Event) string {
	if e.Attr.Flags&perfdata.FlagExcludeKernel != 0 {
		return "it excludes the kernel (:u, --all-user)"
	}
	if e.Attr.Flags&perfdata.FlagExcludeHost != 0 {
		return "it excludes the host (:G)"
	}
	if s.needsCounter(e) {
		return "an event of its group needs a counter of the CPU, and is not always scheduled"
	}
	return s.options.Confines(e.Name)
}
