// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
)

// names makes kallsyms a table of names. It leaves out BPF programs and out-of-line code:
// they come and go, so lifetimes answer for them.
type names struct {
	k       *kcore.Kallsyms
	modules bool // of a later copy: it names only the code of modules
}

// Names returns the names of a table, for [timeline.Builder.Names].
func Names(k *kcore.Kallsyms) timeline.Names { return names{k: k} }

// Find returns the symbol whose text has addr, if it is of the kernel or of a module.
func (n names) Find(addr uint64) (timeline.Symbol, bool) {
	sym, size, ok := n.k.Find(addr)
	if !ok || sym.Pseudo() {
		return timeline.Symbol{}, false
	}
	return timeline.Symbol{Name: sym.Name, Module: sym.Module, Addr: sym.Addr, Size: size, To: timeline.MaxTime}, true
}

// Lookup returns all symbols of a name, or those of modules. Size is 0 for those that are not text.
func (n names) Lookup(name string) []timeline.Symbol {
	lookup := n.k.Lookup
	if n.modules {
		lookup = n.k.LookupInModules
	}
	var out []timeline.Symbol
	for _, sym := range lookup(name) {
		if sym.Pseudo() || sym.Addr == 0 {
			continue
		}
		s, _ := n.sized(sym)
		out = append(out, s)
	}
	return out
}

// sized returns a symbol of the table with its size, and the name with which its
// addresses are printed.
func (n names) sized(sym kcore.Symbol) (s timeline.Symbol, printed string) {
	s, printed = timeline.Symbol{Name: sym.Name, Module: sym.Module, Addr: sym.Addr, To: timeline.MaxTime}, sym.Name
	if found, size, ok := n.k.Find(sym.Addr); ok && found.Addr == sym.Addr {
		s.Size, printed = size, found.Name
	}
	return s, printed
}

// Aliases returns all names of the code at addr, including the one that Find returns.
func (n names) Aliases(addr uint64) []string {
	var out []string
	for _, sym := range n.k.NamesOf(addr) {
		switch sym.Type {
		case 't', 'T', 'w', 'W', 'i':
			if !sym.Pseudo() && !sym.Mapping() {
				out = append(out, sym.Name)
			}
		}
	}
	return out
}

// TableSymbol is a line of kallsyms with its lifetime.
type TableSymbol struct {
	timeline.Symbol        // Size is 0 if no symbol of text has this address
	Type            byte   // as nm prints it
	AliasOf         string // the name with which its addresses are printed; "" if that is Name
}

// TableSymbols yields the kernel's and modules' symbols in kallsyms, table by table, in
// each by address. The first table is that of perf's copy. Tables of further snapshots
// add the modules that the first does not name. If a module was loaded several
// times, TableSymbols yields its symbols once for each time.
func (r *Replay) TableSymbols(yield func(TableSymbol) bool) {
	r.tableSymbols(func(*kcore.Symbol) bool { return true }, yield)
}

// TableFunctions yields what [Replay.TableSymbols] does of functions, which have the types t, T, w and W, and
// are no mapping symbols.
func (r *Replay) TableFunctions(yield func(TableSymbol) bool) {
	r.tableSymbols(func(s *kcore.Symbol) bool { return (s.Type|0x20 == 't' || s.Type|0x20 == 'w') && !s.Mapping() }, yield)
}

func (r *Replay) tableSymbols(wants func(*kcore.Symbol) bool, yield func(TableSymbol) bool) {
	for _, table := range r.Image.NameTables() {
		t, ok := table.(names)
		if !ok {
			continue // added by a user of the builder, who has it
		}
		for _, sym := range t.k.All() {
			if !wants(&sym) || sym.Pseudo() || sym.Module == "" && table != r.Image.Names() {
				continue
			}
			sized, by := t.sized(sym)
			if by == sym.Name {
				by = ""
			}
			for s := range r.Image.Named(table, sized) {
				if !yield(TableSymbol{s, sym.Type, by}) {
					return
				}
			}
		}
	}
}

// ModulesAt returns the modules loaded at time t, in nanoseconds, according to the module
// lists in the copies of the kernel.
func (r *Replay) ModulesAt(t uint64) []kcore.Module {
	var out []kcore.Module
	t = r.Image.At(t).Time() // MaxTime is in no lifetime
	// There may be very many modules, also at one address.
	listed, known, there := make(map[string]bool), make(map[modulePlace]bool), make(map[modulePlace]bool)
	looked := make(map[uint64]bool)
	add := func(list []kcore.Module, first bool) {
		for _, m := range list {
			if !looked[m.Addr] {
				looked[m.Addr] = true
				for l := range r.Image.LifetimesAt(m.Addr) {
					if at := (modulePlace{l.Name, m.Addr}); l.IsModule() {
						known[at], there[at] = true, there[at] || l.From <= t && t < l.To
					}
				}
			}
			// Without its address, only the module's name is known.
			if at := (modulePlace{m.Name, m.Addr}); !listed[m.Name] && (there[at] || first && !known[at]) {
				listed[m.Name] = true
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
