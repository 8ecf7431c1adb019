// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"iter"
	"slices"
	"sort"
)

// Symbol is a name with the range of addresses and the time that it is for.
type Symbol struct {
	Name   string
	Module string // "" for the kernel itself
	Addr   uint64
	Size   uint64 // 0: not known
	// The symbol is for [Addr, Addr+Size) at every time t with From <= t < To.
	From, To uint64
	// Dynamic is true for what KSYMBOL records announce: BPF programs and images,
	// out-of-line code.
	Dynamic bool
}

// Names is a fixed table of names, as kallsyms is: of core kernel text and of
// the modules that were loaded when it was read. The lifetimes in its symbols are
// not looked at: an [Image] knows those of modules. It must be safe for
// concurrent use, and its type comparable.
type Names interface {
	// Find returns the symbol that covers addr: of several the one that an
	// address is best named by.
	Find(addr uint64) (Symbol, bool)
	// Lookup returns all symbols of this name, in every module, those among
	// them that Find does not prefer.
	Lookup(name string) []Symbol
	// Aliases returns all names of code that begins at addr.
	Aliases(addr uint64) []string
}

// indexLives sorts the lives for lookups by address.
func (im *Image) indexLives(lives []*Lifetime) {
	im.lives = slices.DeleteFunc(slices.Clone(lives), func(l *Lifetime) bool { return l.Kind == Nothing })
	slices.SortStableFunc(im.lives, func(a, b *Lifetime) int {
		return cmp.Or(cmp.Compare(a.Lo, b.Lo), cmp.Compare(a.From, b.From))
	})
	im.livesReach = make([]uint64, len(im.lives))
	reach := uint64(0)
	for i, l := range im.lives {
		reach = max(reach, l.Hi)
		im.livesReach[i] = reach
	}
}

// livesOver yields the lives that ever were at addr.
func (im *Image) LifetimesAt(addr uint64) iter.Seq[*Lifetime] {
	return func(yield func(*Lifetime) bool) {
		i := sort.Search(len(im.lives), func(i int) bool { return im.lives[i].Lo > addr })
		for i--; i >= 0 && im.livesReach[i] > addr; i-- {
			if l := im.lives[i]; addr < l.Hi && l.Name != "" && !yield(l) {
				return
			}
		}
	}
}

// lifeAt returns the dynamic symbol that is alive at addr and v's time, and the
// last one that was.
func (v View) LifetimeAt(addr uint64) (alive, last *Lifetime) {
	for l := range v.im.LifetimesAt(addr) {
		switch {
		case l.From > v.t || !l.dynamic():
		case v.t < l.To:
			alive, last = l, l
		case last == nil || l.To > last.To:
			last = l
		}
	}
	return alive, last
}

// Symbol returns the name of what is at addr at v's time: a BPF program or
// image, an out-of-line page, else a function of the kernel or of a module.
// Where nothing does, it returns what was there last: its To is not after v's
// time then. It does not allocate, once the tables of names are made.
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

// named returns what a table names at addr: of several modules that were there
// the one that is at v's time, else the last one that was.
func (v View) named(addr uint64) (best Symbol, ok bool) {
	covered := false
	for l := range v.im.LifetimesAt(addr) {
		if !l.IsModule() {
			continue
		}
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
	// Of a module of which no more is known than its names, these are all that is
	// said, unless another one was there.
	if best, ok = v.im.names.Find(addr); !ok || best.Module != "" && covered {
		return Symbol{}, false
	}
	best.From, best.To = 0, MaxTime
	return best, true
}

// rather reports whether s says more than o of what is at v's time.
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

// namesOf returns the table that names the code of a module; nil where none does.
func (im *Image) namesOf(l *Lifetime) Names {
	if l.names != nil {
		return l.names
	}
	return im.names
}

// Aliases returns the other names that what s names had all the time, nil where
// there are none: kallsyms often has several for one function.
func (v View) Aliases(s Symbol) []string {
	if s.Dynamic {
		return nil
	}
	table := v.im.names
	for l := range v.im.LifetimesAt(s.Addr) {
		if l.IsModule() && l.Name == s.Module && l.From == s.From {
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

// dynamic reports whether the life is one that KSYMBOL records announce.
func (l *Lifetime) dynamic() bool {
	return l.Kind == BPFProgram || l.Kind == BPFImage || l.Kind == OutOfLine
}

// module reports whether the life is a module's.
func (l *Lifetime) IsModule() bool { return l.Kind == ModuleText || l.Kind == ModuleData }

func (l *Lifetime) symbol() Symbol {
	s := Symbol{Name: l.Name, Addr: l.Lo, Size: l.Hi - l.Lo, From: l.From, To: l.To, Dynamic: true}
	if l.Kind == BPFProgram || l.Kind == BPFImage {
		s.Module = "bpf"
	}
	return s
}

// Lookup returns what carries this name at v's time; where nothing does, what
// carried it at any other time.
func (v View) Lookup(name string) []Symbol {
	var now, ever []Symbol
	add := func(s Symbol) {
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

// nameTables returns the tables of names: the image's, and those that name the code
// of modules.
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

// lifetimes yields s, which a table has, with each time that it is for: of a
// module, whenever this table names its code.
func (im *Image) Named(table Names, s Symbol) iter.Seq[Symbol] {
	return func(yield func(Symbol) bool) {
		s.From, s.To = 0, MaxTime
		covered := false
		if s.Module != "" {
			for l := range im.LifetimesAt(s.Addr) {
				if !l.IsModule() || l.Name != s.Module {
					continue
				}
				covered = true
				if s.From, s.To = l.From, l.To; im.namesOf(l) == table && !yield(s) {
					return
				}
			}
		}
		if !covered && table == im.names {
			yield(s)
		}
	}
}

// Symbols yields all dynamic symbols with their lifetimes, by address and time.
func (im *Image) Symbols(yield func(Symbol) bool) {
	for _, l := range im.lives {
		if l.dynamic() && !yield(l.symbol()) {
			return
		}
	}
}

// everDynamic reports whether code of this kind was ever at addr.
func (im *Image) EverDynamic(addr uint64, kind LifetimeKind) bool {
	return im.LifetimeOf(addr, 0, kind) != nil
}

// lifeOf returns the first life of this kind at addr that ends after t.
func (im *Image) LifetimeOf(addr, t uint64, kind LifetimeKind) (first *Lifetime) {
	if addr >= im.textLo && addr < im.textHi {
		return nil
	}
	i := sort.Search(len(im.lives), func(i int) bool { return im.lives[i].Lo > addr })
	for i--; i >= 0 && im.livesReach[i] > addr; i-- {
		if l := im.lives[i]; addr < l.Hi && l.Kind == kind && l.To > t && (first == nil || l.From < first.From) {
			first = l
		}
	}
	return first
}

// qualified is the name as it can be asked for again.
func (s *Symbol) Qualified() string {
	if s.Module == "" || s.Module == "bpf" {
		return s.Name
	}
	return s.Module + ":" + s.Name
}

// everything yields all lifetimes, by address and time.
func (im *Image) Lifetimes(yield func(*Lifetime) bool) {
	for _, l := range im.lives {
		if !yield(l) {
			return
		}
	}
}
