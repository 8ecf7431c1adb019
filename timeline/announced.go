// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import "sort"

// dropFalseStarts removes the births of time 0 of symbols that were not there before the
// recording. perf synthesizes these births, and kallsyms is read, a while after the first
// record. If the first recorded event of the address is a birth, it is the birth of that
// symbol. If it is the death of another symbol, the symbol came after that. A symbol that
// perf announced and that kallsyms lists counts once.
func dropFalseStarts(events []SymbolEvent) []SymbolEvent {
	recorded := make(map[uint64]*SymbolEvent) // first of the address
	announced := make(map[uint64]bool)        // by a synthesized record
	for i := range events {
		e := &events[i]
		switch {
		case e.Time == 0:
			announced[e.Addr] = announced[e.Addr] || !e.Listed
		case recorded[e.Addr] == nil:
			recorded[e.Addr] = e
		}
	}
	listed := make(map[uint64]bool)
	kept := make([]SymbolEvent, 0, len(events))
	for _, e := range events {
		if e.Time == 0 {
			if e.Listed && (announced[e.Addr] || listed[e.Addr]) {
				continue
			}
			listed[e.Addr] = true
			if first := recorded[e.Addr]; first != nil && !(first.Unregister && newLifetime(&e, nil).is(first)) {
				continue
			}
		}
		kept = append(kept, e)
	}
	return kept
}

// code is the code of a function, with the ranges that may change with no record.
type code struct {
	data    []byte
	silent  []Range
	program uint32 // its id
	undated bool   // it may be of any time since the program was loaded
}

// joinPrograms finds the code of each birth: that of the program whose LOAD comes after
// the birth and before the symbol's death, if it has a function at this address and of
// this length. A birth with two such programs gets no code. lost are the gaps in the
// records of births and deaths.
func (d *build) joinPrograms(events []SymbolEvent, at symbolOrder, lost gaps) []code {
	out := make([]code, len(events))
	claimed := make([]bool, len(events))
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
			if claimed[i] {
				out[i] = code{}
				continue
			}
			claimed[i] = true
			out[i] = code{f.Data, p.Silent, p.ID, p.Undated}
		}
	}
	return out
}

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
		return by < death || by < next && len(lost.between(death, later(by, 1))) == 0
	}
	return alone(d.announcedBy()) || p.Unloaded >= death && alone(p.Unloaded)
}
