// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
	"sort"
)

type LifetimeKind uint8

const (
	KernelText LifetimeKind = iota // core kernel text
	ModuleText                     // a module's text
	ModuleData                     // what follows it
	BPFProgram                     // a BPF program's function
	BPFImage                       // a BPF trampoline, dispatcher, struct_ops image
	OutOfLine                      // a page of kprobe slots, an ftrace trampoline
)

// A life is what stood in [lo, hi) during [from, to). The same addresses later
// carry other lives (rule lifetimes).
type Lifetime struct {
	Lo, Hi   uint64
	From, To uint64
	Kind     LifetimeKind
	Name     string
	code     []byte  // of a BPF program's function, where the recording has it
	silent   []Range // what of it may change with no record
	Program  uint32  // id of the BPF program whose info the code is from; 0: none
	doubted  uint64  // of a module's text: from when on a contradiction spoils it, MaxTime: never
	Ended    Reason  // why it ended
	names    Names   // of a module that the image's table does not name
	later    bool    // of a module that was not there when the snapshot was taken
	stayed   bool    // of a module that is certain to have been there until To
}

// A population is the set of lives that are alive at one moment, disjoint and
// sorted by address.
type population struct {
	alive  []*Lifetime
	all    []*Lifetime
	leaves uint64 // when the next of them is freed, as a module
}

// overlapping returns the index range of alive lives that share addresses with [lo, hi).
func (p *population) overlapping(lo, hi uint64) (int, int) {
	i := sort.Search(len(p.alive), func(i int) bool { return p.alive[i].Hi > lo })
	j := i
	for j < len(p.alive) && p.alive[j].Lo < hi {
		j++
	}
	return i, j
}

// bear makes l alive, ending what it overlaps.
func (p *population) bear(l *Lifetime) {
	if l.Kind == BPFImage {
		p.bearImage(l)
		return
	}
	i, j := p.overlapping(l.Lo, l.Hi)
	keep := i
	for _, o := range p.alive[i:j] {
		if o.Kind == BPFImage && o.Lo < l.Lo {
			// The image announced a page; that something else begins inside
			// shows that it is shorter, and was so all the time.
			o.Hi = l.Lo
			p.alive[keep] = o
			keep++
			continue
		}
		o.end(l.From)
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
	text := &Lifetime{Lo: m.Addr, Hi: m.TextEnd, From: m.Loaded, To: to, Kind: ModuleText, Name: m.Name, Ended: Unregistered,
		names: m.Names, later: m.Later, stayed: m.Stayed}
	data := *text
	data.Lo, data.Hi, data.Kind = max(m.Addr, m.TextEnd), m.End, ModuleData
	for _, l := range []*Lifetime{text, &data} {
		if l.Lo < l.Hi {
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
	p.alive = slices.DeleteFunc(p.alive, func(l *Lifetime) bool {
		if l.To > t {
			p.leaves = min(p.leaves, l.To)
		}
		return l.To <= t
	})
}

// bearImage makes an image alive, whose length is only an upper bound: it ends
// before the next live range and kills nothing but what covers its very first byte.
func (p *population) bearImage(l *Lifetime) {
	i, j := p.overlapping(l.Lo, l.Hi)
	if i < j && p.alive[i].Lo <= l.Lo {
		o := p.alive[i]
		if o.Kind == BPFImage && o.Lo < l.Lo {
			o.Hi = l.Lo
			i++
		} else {
			o.end(l.From)
			p.alive = slices.Delete(p.alive, i, i+1)
			j--
		}
	}
	if i < j {
		l.Hi = p.alive[i].Lo
	}
	p.alive = slices.Insert(p.alive, i, l)
	p.all = append(p.all, l)
}

func (l *Lifetime) end(t uint64) {
	l.To, l.Ended = t, Unregistered
	if l.Kind == ModuleText || l.Kind == ModuleData {
		l.Ended = ModuleContradicted
	}
}

// die ends the life that begins at addr. A death without a birth proves that
// the code was there before: since the start, as far as the facts go.
func (p *population) die(e *SymbolEvent) {
	i, j := p.overlapping(e.Addr, e.Addr+1)
	if i < j && p.alive[i].Lo == e.Addr {
		p.alive[i].end(e.Time)
		p.alive = slices.Delete(p.alive, i, i+1)
		return
	}
	hi := e.Addr + uint64(max(e.Len, 1))
	for _, o := range p.all {
		if o.Lo < hi && e.Addr < o.Hi && o.From < e.Time {
			return // something else was here meanwhile: nothing can be said
		}
	}
	l := newLifetime(e, nil)
	l.From, l.To, l.Ended = 0, e.Time, Unregistered
	if l.Hi > l.Lo {
		p.all = append(p.all, l)
	}
}

func newLifetime(e *SymbolEvent, code []byte) *Lifetime {
	l := &Lifetime{Lo: e.Addr, Hi: e.Addr + uint64(e.Len), From: e.Time, To: MaxTime, Name: e.Name, code: code}
	switch {
	case e.Kind == SymbolOutOfLine:
		l.Kind = OutOfLine
	case code != nil || IsProgramName(e.Name):
		l.Kind = BPFProgram
	default:
		l.Kind = BPFImage
	}
	return l
}

// lives derives all lives from modules, symbol events and programs.
func (b *Builder) lives() []*Lifetime {
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
			l := newLifetime(e, code[i].data)
			l.silent, l.Program = code[i].silent, code[i].program
			p.bear(l)
		}
	}
	upTo(MaxTime)
	return slices.DeleteFunc(p.all, func(l *Lifetime) bool { return l.From >= l.To })
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
