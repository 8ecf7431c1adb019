// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"iter"
	"slices"
	"strings"
)

// Symbol is a name, with the addresses and the time for which it is valid.
type Symbol struct {
	Name   string
	Module string // "" for core kernel text, "bpf" for BPF programs and images
	Addr   uint64
	Size   uint64 // in bytes; 0: not known
	// From and To are the half-open interval of time in which the name is valid, in
	// nanoseconds of the recording's clock.
	From, To uint64
	// Dynamic is set for names of PERF_RECORD_KSYMBOL: BPF programs and images,
	// out-of-line code.
	Dynamic bool
}

// Names is a fixed table of names, such as /proc/kallsyms: of core kernel text, and of
// the modules that were loaded when the table was read. Images do not use From and To of
// its symbols. A Names must be comparable and safe for concurrent use.
type Names interface {
	// Find returns the symbol that covers addr. If several do, it returns the one that
	// should be printed.
	Find(addr uint64) (Symbol, bool)
	// Lookup returns all symbols of this name, of the kernel and of every module.
	Lookup(name string) []Symbol
	// Aliases returns the names of all symbols at addr, in an order of its choice. The
	// slice is the caller's, who may change it.
	Aliases(addr uint64) []string
}

// indexLives takes the lifetimes, which are in the order of sortedByLo, for lookups by address.
func (im *Image) indexLives(lives []*Lifetime) {
	im.lives = slices.DeleteFunc(lives, func(l *Lifetime) bool { return l.Kind == Nothing })
	sortByPlace(im.lives)
	var dynamic, modules []*Lifetime
	for _, l := range im.lives {
		if l.dynamic() {
			dynamic = append(dynamic, l)
		} else {
			modules = append(modules, l)
		}
	}
	im.dynamic, im.modules = newLivesByPlace(dynamic), newLivesByPlace(modules)
}

// LifetimesAt yields the lifetimes with a name whose code was at addr at any time, in no
// particular order.
func (im *Image) LifetimesAt(addr uint64) iter.Seq[*Lifetime] {
	return func(yield func(*Lifetime) bool) {
		for _, x := range [...]*livesByPlace{&im.dynamic, &im.modules} {
			for l := range x.at(addr) {
				if !yield(l) {
					return
				}
			}
		}
	}
}

// LifetimeAt returns the dynamic symbol that is alive at addr at v's time, and the
// last one that was alive until then. Both are nil if there is none. If one is alive, it
// is both.
func (v View) LifetimeAt(addr uint64) (alive, last *Lifetime) {
	since := uint64(0) // those that end until then do not matter
	for l := range v.im.dynamic.search(addr, func(s *liveSum) bool { return s.from <= v.t && s.to > since }) {
		switch {
		case l.From > v.t || l.To <= since || l.Name == "":
		case v.t < l.To:
			alive, last, since = l, l, v.t
		default:
			last, since = l, l.To
		}
	}
	return alive, last
}

// SameNames returns the time around v's time in which no code with a name comes or goes at addr:
// for all of it, [View.LifetimeAt], [View.Symbol] and the lifetimes of modules say the same of addr.
func (v View) SameNames(addr uint64) Interval {
	same := Interval{0, MaxTime}
	for _, x := range [...]*livesByPlace{&v.im.dynamic, &v.im.modules} {
		for l := range x.search(addr, func(s *liveSum) bool {
			if s.from > v.t && s.leastHi > addr && s.allAreNamed { // the first of them is what matters
				same.To = min(same.To, s.from)
			}
			return s.from < same.To && s.to > same.From
		}) {
			switch {
			case l.Name == "":
			case l.From > v.t:
				same.To = min(same.To, l.From)
			case l.To > v.t:
				same.From, same.To = max(same.From, l.From), min(same.To, l.To)
			default:
				same.From = max(same.From, l.To)
			}
		}
	}
	return same
}

// InModule reports whether a module has addr at v's time: its text, or its data.
func (v View) InModule(addr uint64) bool {
	for l := range v.im.modules.meanwhile(addr, addr+1, v.t, v.t) {
		if l.Name != "" {
			return true
		}
	}
	return false
}

// Symbol returns the name of the code at addr at v's time: a BPF program or image, an
// out-of-line page, else a function of the kernel or of a module. If no code is there,
// it returns the name of the last code that was; its To is then v's time or earlier. The
// second result is false if there is no name. Symbol does not allocate, if the tables of
// names do not.
func (v View) Symbol(addr uint64) (Symbol, bool) {
	alive, last := v.LifetimeAt(addr)
	if alive != nil {
		return alive.symbol(), true
	}
	if s, ok := v.named(addr); ok && s.From <= v.t && (v.t < s.To || last == nil || s.To >= last.To) {
		return s, true
	}
	if last != nil {
		return last.symbol(), true
	}
	return Symbol{}, false
}

// named returns the name that a table has for addr. If several modules were there, it
// is that of the module at v's time, or else of the last one before.
func (v View) named(addr uint64) (best Symbol, ok bool) {
	covered := false
	for l := range v.im.modules.at(addr) {
		covered = true
		if t := v.im.namesOf(l); t != nil {
			if s, found := t.Find(addr); found && s.Module == l.Name {
				s.From, s.To = l.From, l.To
				if !ok || v.preferred(&s, &best) {
					best, ok = s, true
				}
			}
		}
	}
	if ok || v.im.names == nil {
		return best, ok
	}
	// If only a module's names are known, use them, unless another module was loaded
	// there.
	if best, ok = v.im.names.Find(addr); !ok || best.Module != "" && covered {
		return Symbol{}, false
	}
	best.From, best.To = 0, MaxTime
	return best, true
}

// preferred reports whether s is a better answer than o at v's time.
func (v View) preferred(s, o *Symbol) bool {
	now := func(s *Symbol) bool { return s.From <= v.t && v.t < s.To }
	switch {
	case now(s) != now(o):
		return now(s)
	case (s.From <= v.t) != (o.From <= v.t):
		return s.From <= v.t
	}
	return s.To > o.To
}

// namesOf returns the table that names the code of a module, nil if there is none.
func (im *Image) namesOf(l *Lifetime) Names {
	if l.names != nil {
		return l.names
	}
	return im.names
}

// Aliases returns the other names of kallsyms for s's address, nil if there are none.
func (v View) Aliases(s Symbol) []string {
	if s.Dynamic {
		return nil
	}
	table := v.im.names
	for l := range v.im.modules.at(s.Addr) {
		if l.Name == s.Module && l.From == s.From {
			table = v.im.namesOf(l)
		}
	}
	if table == nil {
		return nil
	}
	names := slices.DeleteFunc(table.Aliases(s.Addr), func(name string) bool { return name == s.Name })
	if len(names) == 0 {
		return nil
	}
	return names
}

// dynamic reports whether l is of code that has PERF_RECORD_KSYMBOL records.
func (l *Lifetime) dynamic() bool {
	return l.Kind == BPFProgram || l.Kind == BPFImage || l.Kind == OutOfLine
}

// hasName reports whether l, which begins at addr or before, has a name and addr.
func (l *Lifetime) hasName(addr uint64) bool { return addr < l.Hi && l.Name != "" }

// IsModule reports whether l is of the text or the data of a module.
func (l *Lifetime) IsModule() bool { return l.Kind == ModuleText || l.Kind == ModuleData }

// Undated reports whether l is of a module in a list of modules that may be of any time.
func (l *Lifetime) Undated() bool { return l.undated }

func (l *Lifetime) symbol() Symbol {
	s := Symbol{Name: l.Name, Addr: l.Lo, Size: l.Hi - l.Lo, From: l.From, To: l.To, Dynamic: true}
	if l.Kind == BPFProgram || l.Kind == BPFImage {
		s.Module = "bpf"
	}
	return s
}

// SplitName splits the name of a symbol with that of its module: NAME, MODULE:NAME, or NAME
// [MODULE] as the kernel prints it, where a build id may follow the module. qualified says that a
// module is named; "" is the kernel itself, as is [kernel.kallsyms]. A module has "_" where the
// name of its file has "-".
func SplitName(s string) (module, name string, qualified bool) {
	name = strings.TrimSpace(s)
	if i := strings.LastIndexByte(name, '['); i > 0 && name[len(name)-1] == ']' {
		m, _, _ := strings.Cut(strings.TrimSpace(name[i+1:len(name)-1]), " ")
		name = strings.TrimSpace(name[:i])
		switch {
		case strings.HasPrefix(m, "kernel"):
			qualified = true
		case m == "bpf", strings.HasPrefix(m, "__builtin__"): // such names are never ambiguous
		default:
			module, qualified = m, true
		}
	}
	if m, n, ok := strings.Cut(name, ":"); ok {
		module, name, qualified = m, n, true
	}
	return strings.ReplaceAll(module, "-", "_"), name, qualified
}

// Lookup returns the symbols of this name at v's time. If there are none, it returns
// those of any other time. The name may have a module: see [SplitName].
func (v View) Lookup(name string) []Symbol {
	module, name, qualified := SplitName(name)
	var now, ever []Symbol
	add := func(s Symbol) {
		if qualified && s.Module != module {
			return
		}
		ever = append(ever, s)
		if s.From <= v.t && v.t < s.To {
			now = append(now, s)
		}
	}
	for _, l := range v.im.lives {
		if l.dynamic() && l.Name == name {
			add(l.symbol())
		}
	}
	for _, table := range v.im.NameTables() {
		for _, s := range table.Lookup(name) {
			for s := range v.im.Named(table, s) {
				add(s)
			}
		}
	}
	if len(now) > 0 {
		return now
	}
	return ever
}

// NameTables returns all tables of names, without duplicates: that of [Builder.Names],
// then those of modules.
func (im *Image) NameTables() (out []Names) {
	if im.names != nil {
		out = append(out, im.names)
	}
	for _, l := range im.lives {
		if l.names != nil && !slices.Contains(out, l.names) {
			out = append(out, l.names)
		}
	}
	return out
}

// Named yields s, a symbol of table, with each interval of time in which it is valid. A
// symbol of a module is valid whenever the module is loaded and table names its code.
func (im *Image) Named(table Names, s Symbol) iter.Seq[Symbol] {
	return func(yield func(Symbol) bool) {
		covered := s.Module != "" && im.namedInModule(table, s, yield)
		if !covered && table == im.names {
			s.From, s.To = 0, MaxTime
			yield(s)
		}
	}
}

// namedInModule is Named for a symbol of a module. It reports whether the lifetimes of the module
// are known.
func (im *Image) namedInModule(table Names, s Symbol, yield func(Symbol) bool) (covered bool) {
	for l := range im.modules.at(s.Addr) {
		if l.Name != s.Module {
			continue
		}
		covered = true
		if s.From, s.To = l.From, l.To; im.namesOf(l) == table && !yield(s) {
			break
		}
	}
	return covered
}

// Symbols yields the symbol of each lifetime of dynamic code, by address and time.
func (im *Image) Symbols(yield func(Symbol) bool) {
	for _, l := range im.lives {
		if l.dynamic() && !yield(l.symbol()) {
			return
		}
	}
}

// EverDynamic reports whether code of this kind was at addr at any time.
func (im *Image) EverDynamic(addr uint64, kind LifetimeKind) bool {
	return im.LifetimeOf(addr, 0, kind) != nil
}

// LifetimeOf returns the earliest lifetime of this kind at addr that ends after t, nil if
// there is none. Core kernel text has none.
func (im *Image) LifetimeOf(addr, t uint64, kind LifetimeKind) *Lifetime {
	if addr >= im.textLo && addr < im.textHi {
		return nil
	}
	x := &im.dynamic
	if kind == ModuleText || kind == ModuleData {
		x = &im.modules
	}
	return x.first(addr, t, kind)
}

// Qualified returns the name in the form that the command line accepts: "module:name",
// or the name alone if it is of the kernel or of BPF.
func (s *Symbol) Qualified() string {
	if s.Module == "" || s.Module == "bpf" {
		return s.Name
	}
	return s.Module + ":" + s.Name
}

// Lifetimes yields all lifetimes, by address and time.
func (im *Image) Lifetimes(yield func(*Lifetime) bool) {
	for _, l := range im.lives {
		if !yield(l) {
			return
		}
	}
}
