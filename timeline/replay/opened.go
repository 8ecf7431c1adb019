// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"

	"github.com/textreplay/textreplay/perfdata"
)

// An opening is where perf opened the event instance that has an id.
type opening struct {
	cpu    int64 // below 0: any CPU, or unknown; in a guest, a virtual CPU
	pinned bool  // the event records on this CPU only
	system bool  // on one CPU, for all tasks
	// machine is 0 for the host, otherwise the guest whose event it is.
	machine int
	// indexed is set if an ID_INDEX record has the id. Other openings are derived.
	indexed bool
}

// noCPU is the CPU of an id that may be any CPU's.
const noCPU = -1

// Values of channel.met if it is not a CPU.
const (
	metNone    = -1 // no record had a CPU
	metSeveral = -2 // the records had several CPUs
)

// opened holds the CPUs and tasks that perf opened its events on, for a recording
// without an ID_INDEX record. Every perf before 6.0 writes such recordings, unless
// it samples AUX.
//
// perf opens each event on a list of CPUs, and on each CPU for each task. The ids of
// an event are in that order (mmap_per_cpu() and perf_evlist__id_add() of
// tools/lib/perf/evlist.c):
//
//	CPU_MAP 0, 2, 3     THREAD_MAP 71, 72
//
//	                     CPU  0   0   2   2   3   3
//	an event of tasks    id  11  12  13  14  15  16
//	one for all tasks    id  17      18      19
//
// An event may have its own list of CPUs, from an EVENT_UPDATE record. perf opens it
// on those CPUs of the list that are in the CPU_MAP.
type opened struct {
	cpus     []int // of the CPU_MAP, in its order; empty if there is none or several differ
	anyCPU   bool  // events follow tasks over all CPUs
	differ   bool  // several CPU_MAPs differ
	tasks    int   // number of tasks in the THREAD_MAP; 0 if there is none
	allTasks bool  // its only task is -1
	own      map[*perfdata.Event][]int
}

// cpuMap reads a CPU_MAP record.
func (s *scan) cpuMap(rec *perfdata.Record) {
	var m perfdata.CPUMap
	if err := s.rec.CPUMap(rec, &m); err != nil {
		s.broken(rec, "%v", err)
		return
	}
	o := &s.opened
	known := len(o.cpus) > 0 || o.anyCPU
	switch {
	case o.differ || known && (!slices.Equal(o.cpus, m.CPUs) || o.anyCPU != m.Any):
		o.cpus, o.anyCPU, o.differ = nil, false, true
	default:
		o.cpus, o.anyCPU = slices.Clone(m.CPUs), m.Any
	}
	s.located = false
}

// threadMap reads a THREAD_MAP record.
func (s *scan) threadMap(rec *perfdata.Record) {
	var m perfdata.ThreadMap
	if err := s.rec.ThreadMap(rec, &m); err != nil {
		s.broken(rec, "%v", err)
		return
	}
	s.opened.tasks = len(m.Threads)
	s.opened.allTasks = len(m.Threads) == 1 && m.Threads[0].PID == -1
	s.located = false
}

// eventUpdate reads an event's own list of CPUs from an EVENT_UPDATE record, or its name.
func (s *scan) eventUpdate(rec *perfdata.Record) {
	var u perfdata.EventUpdate
	if s.rec.EventUpdate(rec, &u) != nil || u.Kind != perfdata.EventUpdateCPUs && u.Kind != perfdata.EventUpdateName {
		return // units are not used
	}
	e := s.rec.EventByID(u.ID)
	if e == nil {
		return
	}
	if u.Kind == perfdata.EventUpdateName {
		s.named(e)
		return
	}
	own := make(map[*perfdata.Event][]int, len(s.opened.own)+1) // forked scans share the old map
	for k, v := range s.opened.own {
		own[k] = v
	}
	own[e] = slices.Clone(u.CPUs.CPUs)
	s.opened.own = own
	s.located = false
}

// named updates what an event takes when its name is known: the name of a tracepoint says that. In
// a pipe the name comes after the attr (perf_event__synthesize_extra_attr() in
// tools/perf/util/synthetic-events.c), in a file at the end. A name that comes after a record of the
// event is too late, because that record was not read. If it may be a step of a CPU, it counts as
// unread.
func (s *scan) named(e *perfdata.Event) {
	k := s.kindsOf(e)
	all := []*channel{s.nameless[e]}
	for _, id := range e.IDs {
		all = append(all, s.channels.get(id))
	}
	late := false
	for _, ch := range all {
		if ch == nil {
			return
		}
		if ch.used && k&^ch.kinds != 0 {
			late = true
			if k&^ch.kinds&takesHotplug != 0 {
				s.unreadStep = min(s.unreadStep, ch.first)
			}
		}
	}
	if late {
		return
	}
	for _, ch := range all {
		ch.kinds = k
	}
	s.samples = quickPass{} // it may not be plain any more
}

// orders returns the possible orders of CPUs for an event's n ids, one for each
// way of opening the event that gives n ids.
func (o *opened) orders(e *perfdata.Event, n int, forAll bool) (fits [][]int) {
	own := o.own[e]
	lists := [][]int{o.cpus}
	if len(own) > 0 {
		both := slices.DeleteFunc(slices.Clone(o.cpus), func(cpu int) bool { return !slices.Contains(own, cpu) })
		lists = append(lists, both, own)
	}
	if o.anyCPU {
		if lists = [][]int{own}; !forAll {
			return nil // an event with its own CPUs may still follow tasks
		}
	}
	for _, cpus := range lists {
		for _, each := range []int{1, o.tasks} {
			if len(cpus) == 0 || n != len(cpus)*each {
				continue
			}
			order := make([]int, 0, n)
			for _, cpu := range cpus {
				for range each {
					order = append(order, cpu)
				}
			}
			if !slices.ContainsFunc(fits, func(x []int) bool { return slices.Equal(x, order) }) {
				fits = append(fits, order)
			}
		}
	}
	return fits
}

// place derives where perf opened the ids that no ID_INDEX record has. An id whose
// CPU cannot be proven may be of any CPU.
//
// Two things prove the CPU. Either only one order fits the number of ids. Or the
// records of the id have a CPU, and all have the same. With whole set, the scan has
// seen all records. An id of an event on single CPUs then has the CPU of its records.
func (s *scan) place(whole bool) {
	s.located = true
	if s.reopened {
		return
	}
	for _, e := range s.rec.Events() {
		chs := make([]*channel, len(e.IDs))
		underived := len(e.IDs) > 0
		for i, id := range e.IDs {
			chs[i] = s.channels.get(id)
			underived = underived && chs[i] != nil && chs[i].event == e && !chs[i].indexed
		}
		if underived {
			s.placeEvent(e, chs, whole)
		}
	}
	s.indexPlaces()
}

// placeEvent derives where perf opened the ids of an event. chs has their channels.
func (s *scan) placeEvent(e *perfdata.Event, chs []*channel, whole bool) {
	o := &s.opened
	forAll := o.allTasks || s.isForPokes(e)
	fits := slices.DeleteFunc(o.orders(e, len(chs), forAll), func(order []int) bool {
		for i, ch := range chs {
			if ch.met == metSeveral || ch.met >= 0 && ch.met != int64(order[i]) {
				return true
			}
		}
		return false
	})
	where := make([]int64, len(chs))
	switch perCPU := len(o.cpus) > 0 && !o.anyCPU; {
	case len(fits) == 1:
		alone := o.tasks > 1 && len(slices.Compact(slices.Clone(fits[0]))) == len(chs)
		forAll = forAll || alone // an event of tasks has one id for each task
		for i, cpu := range fits[0] {
			where[i] = int64(cpu)
		}
	case whole && perCPU && !slices.ContainsFunc(chs, func(ch *channel) bool { return ch.met == metSeveral }):
		for i, ch := range chs {
			where[i] = max(ch.met, noCPU)
		}
	default:
		for i := range where {
			where[i] = noCPU
		}
	}
	for i, ch := range chs {
		s.open(ch, e.IDs[i], opening{cpu: where[i], pinned: where[i] >= 0, system: forAll && where[i] >= 0})
	}
}

// isForPokes reports whether e is the event that perf opens to record text pokes.
// That event is open for all tasks, even in a recording of some tasks, and records
// at once (record__config_text_poke of tools/perf/builtin-record.c).
func (s *scan) isForPokes(e *perfdata.Event) bool {
	const dummy = 9 // PERF_COUNT_SW_DUMMY
	a := &e.Attr
	return kindsOf(e)&takesPokes != 0 && a.Type == typeSoftware && a.Config == dummy &&
		a.Flags&(perfdata.FlagDisabled|perfdata.FlagEnableOnExec) == 0 &&
		!slices.ContainsFunc(s.rec.Events(), func(o *perfdata.Event) bool { return o != e && kindsOf(o)&takesPokes != 0 })
}

// open sets where an id was opened.
func (s *scan) open(ch *channel, id uint64, where opening) {
	if ch.opening == where {
		return
	}
	ch.opening = where
	s.chosen = false
	s.samples.ch, s.pokes.ch = nil, nil
	s.late = s.late || ch.used
	ch.buffer = nil
}

// misplaced handles a record with another CPU than the one derived for its event.
// The event's ids are in an unknown order, so each may be of any CPU.
func (s *scan) misplaced(e *perfdata.Event) {
	for _, id := range e.IDs {
		if ch := s.channels.get(id); ch != nil && !ch.indexed {
			s.open(ch, id, opening{cpu: noCPU})
		}
	}
	s.indexPlaces()
}

// reopen copies to a new scan what another scan found out about ids.
func (s *scan) reopen(from *scan) {
	for id, ch := range from.channels.all {
		x := s.channels.get(id)
		if x == nil {
			x = &channel{event: ch.event, kinds: ch.kinds, met: metNone}
			s.channels.set(id, x)
		}
		x.opening = ch.opening
	}
	s.guests.ids = from.guests.ids
	s.reopened = true
}

// A place is an event on a CPU.
type place struct {
	event *perfdata.Event
	cpu   int64
}

// indexPlaces fills byPlace for the events whose records carry no id.
func (s *scan) indexPlaces() {
	s.byPlace = nil
	for _, e := range s.rec.Events() {
		if e.Attr.SampleType&(perfdata.SampleIdentifier|perfdata.SampleEventID) != 0 {
			continue
		}
		for _, id := range e.IDs {
			ch := s.channels.get(id)
			if ch == nil || !ch.pinned || s.byPlace[place{e, ch.cpu}] != nil {
				continue
			}
			if s.byPlace == nil {
				s.byPlace = make(map[place]*channel)
			}
			s.byPlace[place{e, ch.cpu}] = ch
		}
	}
}

// channelOf returns the channel of a record, or nil if its id is not one of the
// recording's. Records of a recording with one event carry no id. channelOf finds
// their channel by CPU if the event's ids have CPUs. Otherwise all these records share one
// channel for several ring buffers.
func (s *scan) channelOf(id *perfdata.SampleID) *channel {
	if id.Has&(perfdata.SampleIdentifier|perfdata.SampleEventID) != 0 {
		return s.channels.get(id.ID)
	}
	if id.Event == nil {
		return nil
	}
	if id.Has&perfdata.SampleCPU != 0 {
		if ch := s.byPlace[place{id.Event, int64(id.CPU)}]; ch != nil {
			return ch
		}
	}
	return s.nameless[id.Event]
}
