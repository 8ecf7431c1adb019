// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"

	"github.com/textreplay/textreplay/perfdata"
)

// An opening is where perf opened the instance of an event that has an id.
type opening struct {
	cpu    int64 // below 0: any, or not known; of a guest a virtual CPU
	pinned bool  // the event records on this CPU only
	system bool  // on a CPU, for all tasks
	// machine is 0 for the host, else the guest in which the event was open.
	machine int
	// told says that an ID_INDEX record has the id. Other openings are derived.
	told bool
}

// noCPU is the CPU of an id that may be any one's.
const noCPU = -1

// What a channel's records say of their CPU.
const (
	metNone    = -1 // no record of it had one
	metSeveral = -2 // not all had the same one
)

// opened is what a recording without an ID_INDEX record says of the CPUs and
// tasks that perf opened its events on. Every perf before 6.0 writes it so,
// unless it samples AUX.
//
// perf opens each event on a list of CPUs, and there for each task. The ids of
// an event are in that order (mmap_per_cpu() and perf_evlist__id_add() of
// tools/lib/perf/evlist.c):
//
//	CPU_MAP 0, 2, 3     THREAD_MAP 71, 72
//
//	                     CPU  0   0   2   2   3   3
//	an event of tasks    id  11  12  13  14  15  16
//	one for all tasks    id  17      18      19
//
// An event with a list of CPUs of its own is opened on those of them that the
// CPU_MAP has. An EVENT_UPDATE record tells the event's own list.
type opened struct {
	cpus     []int // of the CPU_MAP, in its order; none: there is none, or several differ
	anyCPU   bool  // events follow tasks over all CPUs
	differ   bool  // several CPU_MAPs say different things
	tasks    int   // how many the THREAD_MAP has; 0: there is none
	allTasks bool  // its only task is -1
	own      map[*perfdata.Event][]int
}

// cpuMap takes a CPU_MAP record.
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

// threadMap takes a THREAD_MAP record.
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

// eventUpdate takes the list of an event's own CPUs from an EVENT_UPDATE record.
func (s *scan) eventUpdate(rec *perfdata.Record) {
	var u perfdata.EventUpdate
	if s.rec.EventUpdate(rec, &u) != nil || u.Kind != perfdata.EventUpdateCPUs {
		return // names and units matter to nothing here
	}
	e := s.rec.EventByID(u.ID)
	if e == nil {
		return
	}
	own := make(map[*perfdata.Event][]int, len(s.opened.own)+1) // images in the making have the other one
	for k, v := range s.opened.own {
		own[k] = v
	}
	own[e] = slices.Clone(u.CPUs.CPUs)
	s.opened.own = own
	s.located = false
}

// orders returns the CPUs of an event's n ids for each way of opening it that
// fits their number.
func (o *opened) orders(e *perfdata.Event, n int, forAll bool) (fits [][]int) {
	own := o.own[e]
	lists := [][]int{o.cpus}
	if len(own) > 0 {
		both := slices.DeleteFunc(slices.Clone(o.cpus), func(cpu int) bool { return !slices.Contains(own, cpu) })
		lists = append(lists, both, own)
	}
	if o.anyCPU {
		if lists = [][]int{own}; !forAll {
			return nil // an event with CPUs of its own may follow tasks all the same
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

// place finds out where the ids were opened that no ID_INDEX record has. What
// cannot be proven stays open: such an id may be of any CPU.
//
// It is proven by the number of ids, where one order alone fits it, or by the
// records: each tells its CPU, and no two of an id may differ. With whole, all
// records have been seen, and an id whose event is open on single CPUs is of
// the one that its records tell.
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
			underived = underived && chs[i] != nil && chs[i].event == e && !chs[i].told
		}
		if underived {
			s.placeEvent(e, chs, whole)
		}
	}
	s.indexPlaces()
}

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
		forAll = forAll || alone // an event of tasks has an id for each
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

// isForPokes reports whether an event is the one that perf opens to record text
// pokes. It is open for all tasks, also where the recording is of some, and
// records at once (record__config_text_poke of tools/perf/builtin-record.c).
func (s *scan) isForPokes(e *perfdata.Event) bool {
	const typeSoftware, dummy = 1, 9 // PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY
	a := &e.Attr
	return kindsOf(e)&takesPokes != 0 && a.Type == typeSoftware && a.Config == dummy &&
		a.Flags&(perfdata.FlagDisabled|perfdata.FlagEnableOnExec) == 0 &&
		!slices.ContainsFunc(s.rec.Events(), func(o *perfdata.Event) bool { return o != e && kindsOf(o)&takesPokes != 0 })
}

// open notes where an id was opened.
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

// misplaced takes note of a record whose CPU is not the one that was derived for its
// event: its ids are in another order, and may be of any CPU.
func (s *scan) misplaced(e *perfdata.Event) {
	for _, id := range e.IDs {
		if ch := s.channels.get(id); ch != nil && !ch.told {
			s.open(ch, id, opening{cpu: noCPU})
		}
	}
	s.indexPlaces()
}

// reopen makes a new scan begin with what another one found out about ids.
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

// indexPlaces makes byPlace for the events whose records carry no id.
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

// channelOf returns what a record came through, nil where its id is not one of
// the recording's. Records of a single event carry no id. They are told apart by
// their CPU, where the event's ids have one; else all come through one channel,
// which stands for several ring buffers.
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
