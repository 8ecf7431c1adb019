// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
)

// names makes kallsyms a table of names. What it lists of BPF and out-of-line
// code comes and goes, and is answered by lives.
type names struct{ k *kcore.Kallsyms }

func (n names) Find(addr uint64) (timeline.Symbol, bool) {
	sym, size, ok := n.k.Find(addr)
	if !ok || sym.Pseudo() {
		return timeline.Symbol{}, false
	}
	return timeline.Symbol{Name: sym.Name, Module: sym.Module, Addr: sym.Addr, Size: size, To: timeline.MaxTime}, true
}

func (n names) Lookup(name string) []timeline.Symbol {
	var out []timeline.Symbol
	for _, sym := range n.k.Lookup(name) {
		if sym.Pseudo() || sym.Addr == 0 {
			continue
		}
		s, _ := n.sized(sym)
		out = append(out, s)
	}
	return out
}

// sized returns a symbol of the table with its size, and the name that an address
// of it is printed with.
func (n names) sized(sym kcore.Symbol) (s timeline.Symbol, told string) {
	s, told = timeline.Symbol{Name: sym.Name, Module: sym.Module, Addr: sym.Addr, To: timeline.MaxTime}, sym.Name
	if found, size, ok := n.k.Find(sym.Addr); ok && found.Addr == sym.Addr {
		s.Size, told = size, found.Name
	}
	return s, told
}

func (n names) Aliases(addr uint64) []string {
	var out []string
	for _, sym := range n.k.NamesOf(addr) {
		switch sym.Type {
		case 't', 'T', 'w', 'W', 'i':
			if !sym.Pseudo() {
				out = append(out, sym.Name)
			}
		}
	}
	return out
}

// TableSymbol is a line of kallsyms with the time that it is for.
type TableSymbol struct {
	timeline.Symbol        // Size is 0 for what is no text
	Type            byte   // as nm prints it
	AliasOf         string // the name that an address of it is told by; "" where it is this one
}

// TableSymbols yields what kallsyms lists of the kernel and of its modules, table
// by table and in each by address: all of the copy that perf made, and of
// further copies what they have of modules that the first does not name. Where a module came
// and went several times, its symbols are yielded once for each.
func (r *Replay) TableSymbols(yield func(TableSymbol) bool) {
	for _, table := range r.Image.NameTables() {
		t, ok := table.(names)
		if !ok {
			continue // of a builder's user, who has it
		}
		for _, sym := range t.k.All() {
			if sym.Pseudo() || sym.Module == "" && table != r.Image.Names() {
				continue
			}
			sized, told := t.sized(sym)
			if told == sym.Name {
				told = ""
			}
			for s := range r.Image.Named(table, sized) {
				if !yield(TableSymbol{s, sym.Type, told}) {
					return
				}
			}
		}
	}
}

// ModulesAt returns the modules, as the lists in the copies of the kernel have
// them, that were there at time t.
func (r *Replay) ModulesAt(t uint64) []kcore.Module {
	var out []kcore.Module
	add := func(list []kcore.Module, first bool) {
		for _, m := range list {
			known, there := false, false
			for l := range r.Image.LifetimesAt(m.Addr) {
				if l.IsModule() && l.Name == m.Name {
					known, there = true, there || l.From <= t && t < l.To
				}
			}
			// Of one whose address was withheld nothing is known but that it was listed.
			listed := slices.ContainsFunc(out, func(o kcore.Module) bool { return o.Name == m.Name })
			if !listed && (there || first && !known) {
				out = append(out, m)
			}
		}
	}
	if r.Snapshot != nil {
		add(r.Snapshot.Modules, true)
	}
	for _, c := range r.copies {
		if c.unused {
			continue
		}
		add(c.Modules, false)
	}
	return out
}
