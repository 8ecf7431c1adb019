// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"cmp"
	"slices"
)

// An Event is one event of the recording (perf's evsel): an attr and the ids
// of its instances, one for each CPU or task that it was opened on.
type Event struct {
	Index int // position in Recording.Events
	Attr  Attr
	IDs   []uint64 // as PERF_EVENT_IOC_ID returned them; empty if the recording has none
	Name  string   // as in the recorder's command line, "" if not recorded

	trailer *layout // of the sample_id trailer
	sample  *layout // of the front of a SAMPLE

	branchCounters bool // branch stacks have counters

	fixed int         // where the fixed fields of a SAMPLE end
	shape sampleShape // what follows them
}

// EventByID returns the event that an id belongs to, nil if there is none.
func (r *Recording) EventByID(id uint64) *Event { return r.ids.find(id) }

// setEvents sets the recording's events, which are complete, and prepares what decoders of
// records need of them.
func (r *Recording) setEvents(events []*Event) {
	r.events = events
	r.noIDs = len(events) == 1 && len(events[0].IDs) == 0
	for i, ev := range events {
		ev.Index = i
		ev.trailer = addLayout(&r.trailers, trailerLayout(&ev.Attr), ev)
		ev.sample = addLayout(&r.samples, sampleLayout(&ev.Attr), ev)
		ev.prepareFit()
	}
	r.ids = newIDTable(events)
	r.markBranchCounters()
	r.prepareFit()
}

// addEvent adds an event to those that are set.
func (r *Recording) addEvent(ev *Event) {
	ev.Index = len(r.events)
	r.events = append(r.events, ev)
	r.noIDs = false
	ev.trailer = addLayout(&r.trailers, trailerLayout(&ev.Attr), ev)
	ev.sample = addLayout(&r.samples, sampleLayout(&ev.Attr), ev)
	ev.branchCounters = ev.Attr.BranchSampleType&branchCounters != 0
	r.ids.add(ev)
	ev.prepareFit()
	r.prepareFit()
}

// addLayout returns the layout in list that equals l, adding it if there is
// none. Most recordings end up with one or two.
func addLayout(list *[]*layout, l layout, ev *Event) *layout {
	for _, have := range *list {
		same := l
		same.first = have.first
		if *have == same {
			return have
		}
	}
	l.first = ev
	*list = append(*list, &l)
	return &l
}

// An idTable finds events by id. The kernel numbers events consecutively, so the ids of a
// recording nearly always fit into a table indexed by id - base. If they do not, find uses
// binary search.
type idTable struct {
	base   uint64
	dense  []*Event
	sorted []idEntry
	late   map[uint64]*Event // added since, see addEvent
}

type idEntry struct {
	id    uint64
	event *Event
}

func newIDTable(events []*Event) idTable {
	var all []idEntry
	for _, ev := range events {
		for _, id := range ev.IDs {
			if id != 0 { // in a record, 0 means that there is none
				all = append(all, idEntry{id, ev})
			}
		}
	}
	if len(all) == 0 {
		return idTable{}
	}
	slices.SortStableFunc(all, func(a, b idEntry) int { return cmp.Compare(a.id, b.id) })
	all = slices.CompactFunc(all, func(a, b idEntry) bool { return a.id == b.id })
	t := idTable{base: all[0].id, sorted: all}
	if span := all[len(all)-1].id - t.base; span < 8*uint64(len(all))+1024 {
		t.dense = make([]*Event, span+1)
		for _, e := range all {
			t.dense[e.id-t.base] = e.event
		}
	}
	return t
}

func (t *idTable) find(id uint64) *Event {
	if i := id - t.base; i < uint64(len(t.dense)) && t.dense[i] != nil {
		return t.dense[i]
	}
	return t.search(id)
}

func (t *idTable) search(id uint64) *Event {
	if t.dense == nil {
		if i, ok := slices.BinarySearchFunc(t.sorted, id, func(e idEntry, id uint64) int { return cmp.Compare(e.id, id) }); ok {
			return t.sorted[i].event
		}
	}
	return t.late[id]
}

// add adds the ids of ev, except those that another event has.
func (t *idTable) add(ev *Event) {
	if t.late == nil {
		t.late = make(map[uint64]*Event)
	}
	for _, id := range ev.IDs {
		if id != 0 && t.find(id) == nil {
			t.late[id] = ev
		}
	}
}
