// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"maps"
	"slices"
	"sort"
)

// dropFalseStarts removes the births of time 0 of symbols that were not there before the
// recording. perf synthesizes these births, and kallsyms is read, a while after the first
// record. The first recorded event of anything in a symbol's range says which they are. If it
// is the symbol's own death, the symbol was there. If it is its birth, that is the birth of
// that symbol. If it is the birth or the death of something else, the symbol came after that if
// it can have been announced after the event: else it was there, and its death may be lost. The
// same holds for a module that was listed before the symbol's first event. A symbol that perf
// announced and that kallsyms lists counts once.
func (d *build) dropFalseStarts(events []SymbolEvent, modules []Module, lost gaps) []SymbolEvent {
	announced := make(map[uint64]bool) // by a synthesized record
	var ranges []Range                 // of all births of time 0
	for i := range events {
		if e := &events[i]; e.Time == 0 {
			announced[e.Addr] = announced[e.Addr] || !e.Listed
			ranges = append(ranges, Range{e.Addr, e.Addr + uint64(e.Len)})
		}
	}
	if len(ranges) == 0 {
		return events
	}
	first := d.firstEvents(events, modules, JoinRanges(ranges), lost)
	listed := make(map[uint64]bool)
	d.foundAgain = make(map[uint64]SymbolEvent)
	kept := make([]SymbolEvent, 0, len(events))
	for _, e := range events {
		if e.Time == 0 {
			if e.Listed && (announced[e.Addr] || listed[e.Addr]) {
				continue
			}
			listed[e.Addr] = true
			n := len(first.events)
			if here := first.at[e.Addr]; len(here) > 0 {
				n = here[0]
				if f := first.events[n]; !first.showThere(&e, f) {
					if e.Name == f.Name && e.Kind == f.Kind && e.Len == f.Len && !e.Listed {
						d.foundAgain[e.Addr] = *f
					}
					continue
				}
			}
			if first.others(&e, n) {
				continue
			}
		}
		kept = append(kept, e)
	}
	return kept
}

// firstEvents are the recorded births and deaths, by time, in the ranges of the symbols whose birth
// has time 0.
type firstEvents struct {
	*build
	events    []*SymbolEvent
	at        map[uint64][]int // indices of events
	lost      gaps             // in the records of births and deaths
	concerned []*Lifetime      // what each of events is certain to concern; then the modules that were listed
	pages     lifetimeIndex
}

// firstEvents finds the recorded births and deaths in some ranges.
func (d *build) firstEvents(events []SymbolEvent, modules []Module, ranges []Range, lost gaps) *firstEvents {
	f := &firstEvents{build: d, at: make(map[uint64][]int), lost: lost}
	for i := range events {
		e := &events[i]
		if e.Time == 0 {
			continue
		}
		l := certainRange(e)
		if !wanted(ranges, l.Lo, l.Hi) {
			continue
		}
		l.order = len(f.events)
		f.at[e.Addr] = append(f.at[e.Addr], l.order)
		f.concerned, f.events = append(f.concerned, l.clone()), append(f.events, e)
	}
	recorded := f.concerned
	for i := range modules {
		m := &modules[i]
		if m.Undated || m.goneBefore(d.first) {
			continue
		}
		there := d.listedBy() // it was there by then
		if len(m.Listed) > 0 {
			there = m.Listed[0].To
		}
		if m.Freed != 0 {
			there = min(there, m.Freed)
		}
		n := sort.Search(len(recorded), func(k int) bool { return recorded[k].From > there })
		f.concerned = append(f.concerned, &Lifetime{Lo: m.Addr, Hi: min(m.TextEnd, m.End), From: m.Loaded, order: n - 1})
	}
	return f
}

// announcedBy returns the latest time of another CPU at which e can have been announced.
func (f *firstEvents) announcedBy(e *SymbolEvent) uint64 {
	t := f.build.announcedBy()
	if e.Listed {
		t = max(t, f.listedBy())
	}
	return Later(t, f.apart())
}

// others reports whether something at another address than e's came or went before the n-th event.
func (f *firstEvents) others(e *SymbolEvent, n int) bool {
	l := certainRange(e)
	near, ok := f.pages.around(f.concerned, &l)
	return !ok || slices.ContainsFunc(near, func(o *Lifetime) bool {
		return o.order < n && o.Lo < l.Hi && l.Lo < o.Hi && o.From <= f.announcedBy(e)
	})
}

// showThere reports whether the first event at e's address shows that e was there before, or came
// after e was announced. Then the death of e may be lost, or recorded by another CPU whose clock is
// behind.
func (f *firstEvents) showThere(e, first *SymbolEvent) bool {
	if e.names(first) {
		return first.Unregister
	}
	if first.Time <= f.announcedBy(e) {
		return false
	}
	if len(f.lost.between(min(f.first, first.Time), first.Time)) > 0 {
		return true
	}
	here := f.at[e.Addr]
	if len(here) < 2 {
		return false
	}
	next := f.events[here[1]]
	return next.Unregister && e.names(next) && next.CPU != first.CPU && next.Time-first.Time <= f.maxSkew
}

// certainRange returns what is certain of the range of a symbol: of an image, whose length is
// only an upper bound, that is its first byte.
func certainRange(e *SymbolEvent) Lifetime {
	l := lifetimeOf(e, nil)
	if l.Kind == BPFImage {
		l.Hi = l.Lo + 1
	}
	return l
}

// code is the code of a function, with the ranges that may change with no record.
type code struct {
	data    []byte
	silent  []Range
	unseen  []Range
	program uint32 // its id
	undated bool   // it may be of any time since the program was loaded
	readBy  uint64 // when it was read at the latest
	late    bool   // it may have been read after the horizon
	load    uint64 // when the program was loaded, 0: not recorded
}

// joinPrograms finds the code of each birth: that of the program whose LOAD comes after
// the birth and before the symbol's death, if it has a function at this address and of
// this length. A birth with two such programs gets no code. lost are the gaps in the
// records of births and deaths.
func (d *build) joinPrograms(events []SymbolEvent, at map[uint64][]int, lost gaps) map[int]*code {
	out := make(map[int]*code) // by the index of the event
	for i := range d.programs {
		p := &d.programs[i]
		for _, f := range p.Funcs {
			idx := at[f.Addr]
			// The last event at this address that is not after the LOAD.
			n := sort.Search(len(idx), func(k int) bool { return events[idx[k]].Time > p.LoadTime })
			if n == 0 {
				continue
			}
			i := idx[n-1]
			e := &events[i]
			if e.Unregister || e.Kind != SymbolBPF || int(e.Len) != len(f.Data) {
				continue
			}
			if p.LoadTime == 0 && !d.thereBefore(p, events, idx[n:], lost) {
				continue
			}
			if e.Time != 0 && e.Time == p.LoadTime && n > 1 && events[idx[n-2]].Time == e.Time {
				continue // it may be of code that came before within the same tick
			}
			if p.Unloaded != 0 && p.Unloaded < p.LoadTime {
				continue // clocks differ, and the birth may be of the code that came next
			}
			if _, claimed := out[i]; claimed {
				out[i] = nil
				continue
			}
			out[i] = &code{f.Data, p.Silent, p.Unseen, p.ID, p.Undated, cmp.Or(p.ReadBy, MaxTime), p.Late, p.LoadTime}
		}
	}
	if d.apart() > 0 {
		d.dropUncertain(out, events, at)
	}
	return out
}

// dropUncertain drops the code of births whose program may be that of a birth that is recorded after its LOAD, by a
// CPU whose clock differs: no other program is known to be of that one. The kernel records the LOAD right behind the
// birth, so where nothing else shows that clocks differ, the later birth must be the nearer one.
//
//	recorded  birth 1   LOAD of 2   birth 2
//	made      birth 1   birth 2     LOAD of 2
func (d *build) dropUncertain(of map[int]*code, events []SymbolEvent, at map[uint64][]int) {
	for _, i := range slices.Backward(slices.Sorted(maps.Keys(of))) {
		has := of[i]
		if has == nil || has.load == 0 {
			continue
		}
		here := at[events[i].Addr]
		n, _ := slices.BinarySearch(here, i+1)
		for _, k := range here[n:] {
			e := &events[k]
			if e.Time > Later(has.load, d.apart()) {
				break
			}
			nearer := e.Time-has.load < has.load-events[i].Time
			if !e.Unregister && e.Kind == SymbolBPF && e.Len == events[i].Len && of[k] == nil && (nearer || d.clocksDiffer()) {
				of[i] = nil
				break
			}
		}
	}
}

// exchangeCode keeps the code of the events i and k when these have changed places.
func exchangeCode(of map[int]*code, i, k int) { of[i], of[k] = of[k], of[i] }

// thereBefore reports whether an announced program is the one that was at an address
// before the recording, and not a later one of the same name. recorded are the indices
// of the address's events that have a time.
func (d *build) thereBefore(p *Program, events []SymbolEvent, recorded []int, lost gaps) bool {
	if len(recorded) == 0 {
		return true
	}
	death := events[recorded[0]].Time // a birth would have made it a false start
	next := MaxTime
	if len(recorded) > 1 {
		next = events[recorded[1]].Time
	}
	// alone reports whether no other program can have come there by a time.
	alone := func(by uint64) bool {
		return by < death || by < next && len(lost.between(death, Later(by, 1))) == 0
	}
	return alone(Later(d.announcedBy(), d.apart())) || p.Unloaded >= death && alone(p.Unloaded)
}
