// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
	"sort"
)

type lifeKind uint8

const (
	lifeText       lifeKind = iota // core kernel text
	lifeModule                     // a module's text
	lifeModuleData                 // what follows it
	lifeProgram                    // a BPF program's function
	lifeImage                      // a BPF trampoline, dispatcher, struct_ops image
	lifeOutOfLine                  // a page of kprobe slots, an ftrace trampoline
)

// A life is what stood in [lo, hi) during [from, to). The same addresses later
// carry other lives (rule lifetimes).
type life struct {
	lo, hi   uint64
	from, to uint64
	kind     lifeKind
	name     string
	code     []byte  // of a BPF program's function, where the recording has it
	silent   []Range // what of it may change with no record
	program  uint32  // id of the BPF program whose info the code is from; 0: none
	doubted  uint64  // of a module's text: from when on a contradiction spoils it, MaxTime: never
	ended    Reason  // why it ended
	names    Names   // of a module that the image's table does not name
	later    bool    // of a module that was not there when the snapshot was taken
}

// A population is the set of lives that are alive at one moment, disjoint and
// sorted by address.
type population struct {
	alive  []*life
	all    []*life
	leaves uint64 // when the next of them is freed, as a module
}

// overlapping returns the index range of alive lives that share addresses with [lo, hi).
func (p *population) overlapping(lo, hi uint64) (int, int) {
	i := sort.Search(len(p.alive), func(i int) bool { return p.alive[i].hi > lo })
	j := i
	for j < len(p.alive) && p.alive[j].lo < hi {
		j++
	}
	return i, j
}

// bear makes l alive, ending what it overlaps.
func (p *population) bear(l *life) {
	if l.kind == lifeImage {
		p.bearImage(l)
		return
	}
	i, j := p.overlapping(l.lo, l.hi)
	keep := i
	for _, o := range p.alive[i:j] {
		if o.kind == lifeImage && o.lo < l.lo {
			// The image announced a page; that something else begins inside
			// shows that it is shorter, and was so all the time.
			o.hi = l.lo
			p.alive[keep] = o
			keep++
			continue
		}
		o.end(l.from)
	}
	p.alive = slices.Replace(p.alive, keep, j, l)
	p.all = append(p.all, l)
}

// bearModule makes a module's text and what follows it alive.
func (p *population) bearModule(m Module, all []Module) {
	for i := range all {
		// /proc/modules gives the sum of separate areas on newer kernels.
		if next := &all[i]; next.Addr > m.Addr && next.during(&m) {
			m.End = min(m.End, next.Addr)
		}
	}
	m.TextEnd = min(m.TextEnd, m.End)
	to := m.Freed
	if to == 0 {
		to = MaxTime
	}
	text := &life{lo: m.Addr, hi: m.TextEnd, from: m.Loaded, to: to, kind: lifeModule, name: m.Name, ended: Unregistered,
		names: m.Names, later: m.later}
	data := *text
	data.lo, data.hi, data.kind = max(m.Addr, m.TextEnd), m.End, lifeModuleData
	for _, l := range []*life{text, &data} {
		if l.lo < l.hi {
			p.bear(l)
			p.leaves = min(p.leaves, to)
		}
	}
}

// expire takes the modules away that were freed until t.
func (p *population) expire(t uint64) {
	if t < p.leaves {
		return
	}
	p.leaves = MaxTime
	p.alive = slices.DeleteFunc(p.alive, func(l *life) bool {
		if l.to > t {
			p.leaves = min(p.leaves, l.to)
		}
		return l.to <= t
	})
}

// bearImage makes an image alive, whose length is only an upper bound: it ends
// before the next live range and kills nothing but what covers its very first byte.
func (p *population) bearImage(l *life) {
	i, j := p.overlapping(l.lo, l.hi)
	if i < j && p.alive[i].lo <= l.lo {
		o := p.alive[i]
		if o.kind == lifeImage && o.lo < l.lo {
			o.hi = l.lo
			i++
		} else {
			o.end(l.from)
			p.alive = slices.Delete(p.alive, i, i+1)
			j--
		}
	}
	if i < j {
		l.hi = p.alive[i].lo
	}
	p.alive = slices.Insert(p.alive, i, l)
	p.all = append(p.all, l)
}

func (l *life) end(t uint64) {
	l.to, l.ended = t, Unregistered
	if l.kind == lifeModule || l.kind == lifeModuleData {
		l.ended = ModuleContradicted
	}
}

// die ends the life that begins at addr. A death without a birth proves that
// the code was there before: since the start, as far as the facts go.
func (p *population) die(e *SymbolEvent) {
	i, j := p.overlapping(e.Addr, e.Addr+1)
	if i < j && p.alive[i].lo == e.Addr {
		p.alive[i].end(e.Time)
		p.alive = slices.Delete(p.alive, i, i+1)
		return
	}
	hi := e.Addr + uint64(max(e.Len, 1))
	for _, o := range p.all {
		if o.lo < hi && e.Addr < o.hi && o.from < e.Time {
			return // something else was here meanwhile: nothing can be said
		}
	}
	l := newLife(e, nil)
	l.from, l.to, l.ended = 0, e.Time, Unregistered
	if l.hi > l.lo {
		p.all = append(p.all, l)
	}
}

func newLife(e *SymbolEvent, code []byte) *life {
	l := &life{lo: e.Addr, hi: e.Addr + uint64(e.Len), from: e.Time, to: MaxTime, name: e.Name, code: code}
	switch {
	case e.Kind == SymbolOutOfLine:
		l.kind = lifeOutOfLine
	case code != nil || isProgramName(e.Name):
		l.kind = lifeProgram
	default:
		l.kind = lifeImage
	}
	return l
}

// lives derives all lives from modules, symbol events and programs.
func (b *Builder) lives() []*life {
	events := slices.Clone(b.symbols)
	sortedByTime(events, func(e SymbolEvent) uint64 { return e.Time })
	events = slices.DeleteFunc(events, func(e SymbolEvent) bool {
		// Length 0 is an interpreted program; what lies in core text is core
		// text (powerpc copies optimised-probe slots there).
		return e.Len == 0 || e.Addr+uint64(e.Len) < e.Addr ||
			e.Addr < b.textHi && b.textLo < e.Addr+uint64(e.Len)
	})
	events = dropFalseStarts(events)
	code := joinPrograms(events, b.programs)

	p := &population{leaves: MaxTime}
	modules := slices.Clone(b.modules)
	slices.SortStableFunc(modules, func(a, b Module) int { return cmp.Or(cmp.Compare(a.Loaded, b.Loaded), cmp.Compare(a.Addr, b.Addr)) })
	upTo := func(t uint64) {
		for ; len(modules) > 0 && modules[0].Loaded <= t; modules = modules[1:] {
			p.expire(modules[0].Loaded)
			p.bearModule(modules[0], b.modules)
		}
		p.expire(t)
	}
	for i := range events {
		e := &events[i]
		if upTo(e.Time); e.Unregister {
			p.die(e)
		} else {
			l := newLife(e, code[i].data)
			l.silent, l.program = code[i].silent, code[i].program
			p.bear(l)
		}
	}
	upTo(MaxTime)
	return slices.DeleteFunc(p.all, func(l *life) bool { return l.from >= l.to })
}

// dropFalseStarts removes symbols that are said to have been there before the
// recording, by perf's synthesized records or by kallsyms, whose address is
// first heard of by a recorded birth: that birth is them. Symbols that
// kallsyms lists and a synthesized record announces too count once.
func dropFalseStarts(events []SymbolEvent) []SymbolEvent {
	born := make(map[uint64]bool)      // first recorded event at the address is a birth
	announced := make(map[uint64]bool) // by a synthesized record
	seen := make(map[uint64]bool)
	for i := range events {
		e := &events[i]
		if e.Time == 0 {
			announced[e.Addr] = announced[e.Addr] || !e.Listed
			continue
		}
		if !seen[e.Addr] {
			seen[e.Addr], born[e.Addr] = true, !e.Unregister
		}
	}
	listed := make(map[uint64]bool)
	return slices.DeleteFunc(events, func(e SymbolEvent) bool {
		if e.Time != 0 {
			return false
		}
		if born[e.Addr] || e.Listed && (announced[e.Addr] || listed[e.Addr]) {
			return true
		}
		listed[e.Addr] = true
		return false
	})
}

// code is a function's code with the places that may change silently.
type code struct {
	data    []byte
	silent  []Range
	program uint32 // its id
}

// joinPrograms finds for each birth the code that belongs to that life: of the
// programs whose LOAD follows it, before the symbol's death, with this
// function at its address and of its length. Births that two programs claim
// get none.
func joinPrograms(events []SymbolEvent, programs []Program) []code {
	at := make(map[uint64][]int) // indices of events, in time order
	for i := range events {
		at[events[i].Addr] = append(at[events[i].Addr], i)
	}
	out := make([]code, len(events))
	claimed := make([]bool, len(events))
	for _, p := range programs {
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
			if claimed[i] {
				out[i] = code{}
				continue
			}
			claimed[i] = true
			out[i] = code{f.Data, p.Silent, p.ID}
		}
	}
	return out
}
