// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// perf's events do not come back with a CPU that was offline, so nothing that the CPU does
// afterwards is recorded (rule hotplug). Records of other CPUs show that it was offline:
// records of tasks that it forked, or of the tracepoint cpuhp:cpuhp_enter.

// taskLog is what records say about tasks. For each task it holds at most the FORK.
type taskLog struct {
	known  []uint64 // bitmap of the tasks that have a FORK record or that perf listed
	listed uint32   // the highest task that perf listed, 0 if it listed none
	forks  []fork
	met    map[uint32]uint64 // time of the first record of each task that was unknown then
	recent [256]taskTime     // some of met, by the end of the id
	cpuhp  map[uint32]bool   // tasks that take CPUs offline and bring them back
	hotplugs
}

// A fork is a FORK record: parent forked tid. Both are ids of threads.
type fork struct {
	time        uint64
	tid, parent uint32
}

// maxTask is the largest task id that a kernel uses (PID_MAX_LIMIT). Tasks in
// other PID namespaces have the id 0 or -1.
const maxTask = 1 << 22

// knows reports whether a task has a FORK record, or perf listed it.
func (l *taskLog) knows(tid uint32) bool {
	return int(tid/64) < len(l.known) && l.known[tid/64]>>(tid%64)&1 != 0
}

// add makes a task one that is known.
func (l *taskLog) add(tid uint32) {
	if tid == 0 || tid >= maxTask {
		return
	}
	if n := int(tid/64) + 1; n > len(l.known) {
		l.known = append(l.known, make([]uint64, n-len(l.known))...)
	}
	l.known[tid/64] |= 1 << (tid % 64)
}

// list adds a task that perf found in /proc.
func (l *taskLog) list(tid uint32) {
	if l.add(tid); tid < maxTask {
		l.listed = max(l.listed, tid)
	}
}

// meet adds a task that a record names.
func (l *taskLog) meet(tid uint32, t uint64) {
	r := &l.recent[tid%uint32(len(l.recent))]
	if r.tid == tid && r.time <= t {
		return
	}
	if tid == 0 || tid >= maxTask || l.knows(tid) {
		return
	}
	if l.met == nil {
		l.met = make(map[uint32]uint64)
	}
	if old, ok := l.met[tid]; ok {
		t = min(t, old)
	}
	l.met[tid] = t
	*r = taskTime{tid, t}
}

// forked adds a FORK record.
func (l *taskLog) forked(t *perfdata.Task) {
	if t.Time == 0 {
		l.list(t.TID)
		return
	}
	l.add(t.TID)
	l.forks = append(l.forks, fork{t.Time, t.TID, t.PTID})
}

// named adds a COMM record. recorded is set if it came through a ring buffer.
func (l *taskLog) named(c *perfdata.Comm, recorded bool) {
	switch {
	case c.Time == 0:
		l.list(c.TID)
	case recorded:
		l.meet(c.TID, c.Time)
	}
	if bytes.HasPrefix(c.Comm, []byte("cpuhp/")) {
		if l.cpuhp == nil {
			l.cpuhp = make(map[uint32]bool)
		}
		l.cpuhp[c.TID] = true
	}
}

// An unseenFork is a fork without a FORK record. The task was forked in [from, to).
type unseenFork struct {
	from, to uint64
	tid      uint32
	met      bool // records name the task; otherwise its id is missing among the ids in use
}

// String describes the fork for the reason of a limit.
func (f *unseenFork) String() string {
	if f.met {
		return fmt.Sprintf("task %d, seen at %s, was forked without a record", f.tid, Seconds(f.to))
	}
	return fmt.Sprintf("task id %d was assigned before %s without a record", f.tid, Seconds(f.to))
}

const (
	// forkTakes is the longest time, in nanoseconds, from the moment when a task gets
	// its id until its FORK is recorded.
	forkTakes = 100e6
	// idsAtOnce is how many ids in a row may be missing. If more are missing, the ids
	// were not assigned one after the other (the argument set_tid of clone3(2)).
	idsAtOnce = 4096
)

// unseenForks returns the tasks that were forked on a CPU that recorded nothing.
//
// The kernel assigns ids in ascending order until it reaches the highest (alloc_pid()
// of kernel/pid.c). A task does one fork after the other, and its FORK is recorded
// before it runs. So if a task forks, its child's id is assigned after the task's
// earlier FORK record. This gives the id from which on all FORKs were recorded, and
// the earliest time at which an id was in use.
//
// end is the time up to which the records of all CPUs were read, or of all but the one
// that is in question.
func (s *scan) unseenForks(end uint64) []unseenFork {
	listens, ok := s.recordsTasks()
	if !ok {
		return nil
	}
	ids, wrapped := s.assignedIDs(listens)
	if len(ids) == 0 {
		return nil
	}
	end = min(end, wrapped)
	lost := lossTimesOf(s.buffers...)
	var out []unseenFork
	for _, u := range append(s.unknownTasks(ids, end), s.missingIDs(ids, end)...) {
		if !lost.between(u.from, u.to) {
			out = append(out, u)
		}
	}
	slices.SortFunc(out, func(a, b unseenFork) int { return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.tid, b.tid)) })
	return out
}

// An assignedID is the id of a FORK's child.
type assignedID struct {
	fork
	after uint64 // this id and all higher ones were assigned after that time
}

// assignedIDs returns the ids that were assigned when all events listened, ascending, and the
// time when ids started again from the bottom.
func (s *scan) assignedIDs(listens uint64) (ids []assignedID, wrapped uint64) {
	forks := slices.Clone(s.tasks.forks)
	slices.SortStableFunc(forks, func(a, b fork) int { return cmp.Compare(a.time, b.time) })

	// Find the first FORK whose child got its id when all events listened.
	latest := make(map[uint32]uint64) // time of each task's latest FORK, as a child or as a parent
	base := s.tasks.listed
	if w, ok := s.workload(); ok {
		base, latest[w.pid] = w.pid, s.execed()
	}
	if base == 0 {
		return nil, 0
	}
	wrapped = timeline.MaxTime
	for _, f := range forks {
		after := latest[f.parent]
		latest[f.parent], latest[f.tid] = f.time, f.time
		switch {
		case len(ids) == 0 && (after == 0 || after < listens):
		case f.tid <= base: // the ids started again from the bottom
			wrapped = min(wrapped, f.time)
		case f.time < wrapped:
			ids = append(ids, assignedID{f, after})
		}
	}
	if len(ids) == 0 {
		return nil, wrapped
	}
	first := ids[0].tid
	ids = slices.DeleteFunc(ids, func(g assignedID) bool { return g.tid < first })
	slices.SortStableFunc(ids, func(a, b assignedID) int { return cmp.Compare(a.tid, b.tid) })
	for i := 1; i < len(ids); i++ {
		ids[i].after = max(ids[i].after, ids[i-1].after)
	}
	return ids, wrapped
}

// unknownTasks returns the tasks that records name before end, and that no FORK has.
func (s *scan) unknownTasks(ids []assignedID, end uint64) (out []unseenFork) {
	for tid, t := range s.tasks.met {
		i, found := slices.BinarySearchFunc(ids, tid, func(g assignedID, tid uint32) int { return cmp.Compare(g.tid, tid) })
		if !found && i > 0 && !s.tasks.knows(tid) && t < end {
			out = append(out, unseenFork{min(ids[i-1].after, t), t, tid, true})
		}
	}
	return out
}

// missingIDs returns ids that no task has while higher ones are in use. Before ids start
// again, some ids may be in use that no record names, like those of process groups.
func (s *scan) missingIDs(ids []assignedID, end uint64) (out []unseenFork) {
	if s.tasks.listed >= ids[0].tid {
		return nil
	}
	by := timeline.MaxTime // when the higher ids were in use
	for i := len(ids) - 1; i > 0; i-- {
		by = min(by, ids[i].time)
		lo, hi := ids[i-1].tid, ids[i].tid
		if by >= end || end-by < forkTakes || hi-lo > idsAtOnce {
			continue
		}
		for tid := lo + 1; tid < hi; tid++ {
			if _, met := s.tasks.met[tid]; !met {
				out = append(out, unseenFork{min(ids[i-1].after, by), by, tid, false})
				break // one id is enough
			}
		}
	}
	return out
}

// recordsTasks reports whether the FORKs of all tasks were recorded on every CPU, and
// returns the time from which on.
func (s *scan) recordsTasks() (from uint64, ok bool) {
	o := &s.options
	if s.machine != 0 || s.listens != 0 || len(s.damage) > 0 || o.Control || o.Cgroup || o.User || strings.ContainsAny(o.Delay, "-,") {
		return 0, false
	}
	first := make(map[int64]uint64)
	for _, ch := range s.channels.all {
		if ch.event == nil || !ch.system || ch.machine != s.listens {
			continue
		}
		if f := ch.event.Attr.Flags; f&perfdata.FlagTask == 0 || f&perfdata.FlagWriteBackward != 0 || s.mayFail(ch.event) {
			continue
		}
		t := uint64(0)
		if s.startsDisabled(ch.event) {
			t = s.enabled(ch)
		}
		if old, ok := first[ch.cpu]; !ok || t < old {
			first[ch.cpu] = t
		}
	}
	from = s.begin()
	for _, t := range first {
		from = max(from, t)
	}
	return from, s.report.CPUsAvailable > 0 && len(first) >= s.report.CPUsAvailable && from != timeline.MaxTime
}

// hotplugs is what cpuhp:cpuhp_enter records say about CPUs that go offline and come
// back (cpuhp_invoke_callback() of kernel/cpu.c). If a step is beyond its target, the
// CPU is going offline.
type hotplugs struct {
	steps map[int64][]hotplug // by CPU
}

// A hotplug is one step of a CPU. down is set if the CPU is going offline.
type hotplug struct {
	time uint64
	down bool
}

// sorted returns the steps of a CPU by time. Other CPUs recorded some of them.
func (h *hotplugs) sorted(cpu int64) []hotplug {
	steps := slices.Clone(h.steps[cpu])
	slices.SortStableFunc(steps, func(a, b hotplug) int { return cmp.Compare(a.time, b.time) })
	return steps
}

// returned returns the times of a CPU's steps up that follow a step down, ascending.
func (h *hotplugs) returned(cpu int64) (times []uint64) {
	off := false
	for _, x := range h.sorted(cpu) {
		if off && !x.down {
			times = append(times, x.time)
		}
		off = x.down
	}
	return times
}

// hotplugLayout has the offsets of the fields of cpuhp_enter in raw data.
type hotplugLayout struct{ cpu, target, step int }

// parseHotplug returns the layout of cpuhp_enter in TRACING_DATA. It returns the zero
// layout if a field is missing.
func parseHotplug(data []byte) (l hotplugLayout) {
	_, text, ok := bytes.Cut(data, []byte("name: cpuhp_enter\nID: "))
	if !ok {
		return l
	}
	text, _, _ = bytes.Cut(text, []byte("print fmt:"))
	field := func(declared string) int {
		_, rest, ok := bytes.Cut(text, []byte("\tfield:"+declared+";\toffset:"))
		if !ok {
			return 0
		}
		return int(min(number(rest), 1<<15))
	}
	l = hotplugLayout{field("unsigned int cpu"), field("int target"), field("int idx")}
	if l.cpu == 0 || l.target == 0 || l.step == 0 {
		return hotplugLayout{}
	}
	return l
}

// hotplug handles a sample of cpuhp:cpuhp_enter.
func (s *scan) hotplug(rec *perfdata.Record, raw []byte, t uint64) {
	l := s.cpuhpEnter
	if l == (hotplugLayout{}) {
		return
	}
	if len(raw) < max(l.cpu, l.target, l.step)+4 {
		s.broken(rec, "no CPU in %d bytes of raw data", len(raw))
		return
	}
	u32 := s.rec.ByteOrder().Uint32
	cpu := int64(u32(raw[l.cpu:]))
	h := &s.tasks.hotplugs
	if h.steps == nil {
		h.steps = make(map[int64][]hotplug)
	}
	h.steps[cpu] = append(h.steps[cpu], hotplug{t, int32(u32(raw[l.step:])) > int32(u32(raw[l.target:]))})
}

// back returns when a CPU went offline, and when it began to come back. The times are
// MaxTime if it did not.
func (h *hotplugs) back(cpu int64) (off, on uint64) {
	off, on = timeline.MaxTime, timeline.MaxTime
	for _, x := range h.steps[cpu] {
		if x.down {
			off = min(off, x.time)
		}
	}
	for _, x := range h.steps[cpu] {
		if !x.down && x.time > off {
			on = min(on, x.time)
		}
	}
	return off, on
}

// recordsHotplug reports whether all steps of all CPUs that go offline or come back were
// recorded, and returns the time from which on.
func (s *scan) recordsHotplug() (from uint64, ok bool) {
	if s.machine != 0 || s.listens != 0 || s.options.Control || s.cpuhpEnter == (hotplugLayout{}) || s.report.CPUsAvailable == 0 || len(s.damage) > 0 {
		return 0, false
	}
	cpus := make(map[int64]bool)
	for _, ch := range s.channels.all {
		if ch.event == nil || ch.kinds&takesHotplug == 0 || ch.machine != s.listens || !ch.system {
			continue
		}
		a := &ch.event.Attr
		if a.Flags&(perfdata.FlagFreq|perfdata.FlagWriteBackward) != 0 || a.SamplePeriod != 1 || a.SampleType&perfdata.SampleRaw == 0 || s.confined(ch.event) != "" {
			return 0, false
		}
		cpus[ch.cpu] = true
	}
	if len(cpus) < s.report.CPUsAvailable {
		return 0, false
	}
	if lossTimesOf(s.buffers...).between(0, timeline.MaxTime) {
		return 0, false
	}
	from, _ = s.listensFrom(takesHotplug)
	return from, from != timeline.MaxTime
}

// bridged returns the ring buffer that ends the recording's horizon, if it has no record
// for a while before that: only the rounds say that it is complete. It also returns the
// time up to which all others are complete. In a recording that ends cleanly there is no
// such buffer.
//
// A fork that none of the others has was made on this buffer's CPU. perf has drained the
// buffer many times since its last record. So the CPU was offline, and came back.
func (s *scan) bridged() (least *ringBuffer, others uint64) {
	if s.clean || s.listens != 0 {
		return nil, 0
	}
	rounds, until := s.rounds(), timeline.MaxTime
	others = timeline.MaxTime
	for _, b := range s.buffers {
		if b.takes&takesPokes == 0 {
			continue
		}
		if t := s.complete(b, rounds); t < until {
			least, until, others = b, t, until
		} else {
			others = min(others, t)
		}
	}
	if least == nil || until <= least.side || others == timeline.MaxTime {
		return nil, 0
	}
	return least, others
}

// watched reports whether a CPU that goes offline after its last record would be
// recorded.
func (s *scan) watched(b *ringBuffer) bool {
	return s.watchesCPUs && b.cpu >= 0 && b.last >= s.watchesFrom
}

// isIdle reports whether a CPU that fell silent had nothing to record. This is only
// known of CPUs above the lowest one that did not fall silent; see lastCertain.
func (s *scan) isIdle(b *ringBuffer) bool {
	l := s.lowest()
	return l != nil && b.cpu > l.cpu && s.watched(b)
}

// findUnseen finds the forks that no CPU recorded.
func (s *scan) findUnseen() {
	s.unseen = s.unseenForks(s.horizon())
	if b, end := s.bridged(); b != nil {
		s.silent, s.unseenLate = b, s.unseenForks(end)
	}
}

// findHotplug looks for signs that CPUs were gone, or that none was.
func (s *scan) findHotplug() {
	if s.followsCPUs() {
		s.report.HotplugRecorded = true // the journal has each time that was not recorded
		return
	}
	s.findUnseen()
	s.watchesFrom, s.watchesCPUs = s.recordsHotplug()
	s.report.HotplugRecorded = s.watchesCPUs
	for _, b := range s.buffers {
		if b.takes&takesPokes != 0 && !s.watched(b) {
			s.report.HotplugRecorded = false
		}
	}
}

// gone returns the time from which on a CPU may have been back without perf's
// events, and the reason, or "" if nothing shows that.
func (s *scan) gone(b *ringBuffer) (from uint64, why string) {
	if off, on := s.tasks.back(b.cpu); on != timeline.MaxTime && b.last < on {
		if !s.watched(b) {
			on = b.last // it may have been back earlier
		}
		return on, fmt.Sprintf("%s went offline at %s; perf's events did not come back with it", b.where(), Seconds(off))
	}
	switch {
	case s.watched(b):
		return 0, ""
	case s.tasks.cpuhp[b.running]:
		return b.last, fmt.Sprintf("%s was silent from %s on, when it went offline", b.where(), Seconds(b.last))
	}
	if u := s.unseenAfter(b); u != nil {
		return b.last, fmt.Sprintf("%s was silent from %s on, but %v; the CPU may have been offline", b.where(), Seconds(b.last), u)
	}
	return 0, ""
}

// unseenAfter returns the first fork that only the CPU of b can have made, after its last
// record, or nil.
func (s *scan) unseenAfter(b *ringBuffer) *unseenFork {
	u := firstAfter(s.unseen, b.last)
	if u == nil && b == s.silent {
		u = firstAfter(s.unseenLate, b.last)
	}
	return u
}

// firstAfter returns the first of the forks after t, or nil.
func firstAfter(forks []unseenFork, t uint64) *unseenFork {
	if i := slices.IndexFunc(forks, func(u unseenFork) bool { return u.to > t }); i >= 0 {
		return &forks[i]
	}
	return nil
}

// switched handles a SWITCH record: it says which task runs on a CPU then.
func (s *scan) switched(rec *perfdata.Record) {
	var w perfdata.Switch
	if err := s.rec.Switch(rec, &w); err != nil {
		s.broken(rec, "%v", err)
		return
	}
	ch := s.enter(rec, &w.SampleID).ch
	if ch == nil || !ch.system || w.Time == 0 {
		return
	}
	b := ch.buffer
	b.running = w.TID
	if rec.Misc&perfdata.MiscSwitchOut != 0 {
		b.running = 0
		if rec.Type == perfdata.RecordSwitchCPUWide {
			b.running = w.NextPrevTID
		}
	}
}

// ShowsHotplug reports whether a record shows that some CPU recorded nothing. Coverage
// may depend on such a record.
func (r *Replay) ShowsHotplug(rec *perfdata.Record) bool {
	s := r.scanned()
	r.unseenOnce.Do(func() {
		s.findUnseen()
		for _, b := range s.buffers {
			if u := s.unseenAfter(b); u != nil {
				r.unseen = append(r.unseen, *u)
			}
		}
	})
	var id perfdata.SampleID
	if rec.Type >= 64 || r.Recording.SampleID(rec, &id) != nil {
		return false
	}
	if id.Event != nil && kindsOf(id.Event)&takesHotplug != 0 {
		return true
	}
	switch rec.Type {
	case perfdata.RecordSwitch, perfdata.RecordSwitchCPUWide:
		var w perfdata.Switch
		return r.Recording.Switch(rec, &w) == nil && (s.tasks.cpuhp[w.TID] || rec.Type == perfdata.RecordSwitchCPUWide && s.tasks.cpuhp[w.NextPrevTID])
	}
	if len(r.unseen) > 0 && rec.Type == perfdata.RecordFork {
		return true
	}
	return slices.ContainsFunc(r.unseen, func(u unseenFork) bool { return u.met && u.tid == id.TID && u.to == id.Time })
}
