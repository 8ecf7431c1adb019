// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"iter"
	"slices"
	"sort"
)

// Symbol is a name with the range of addresses and the time that it stands for.
type Symbol struct {
	Name   string
	Module string // "" for the kernel itself
	Addr   uint64
	Size   uint64 // 0: not known
	// The symbol stands for [Addr, Addr+Size) at every time t with From <= t < To.
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
func (im *Image) indexLives(lives []*life) {
	im.lives = slices.Clone(lives)
	slices.SortStableFunc(im.lives, func(a, b *life) int {
		return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(a.from, b.from))
	})
	im.livesReach = make([]uint64, len(im.lives))
	reach := uint64(0)
	for i, l := range im.lives {
		reach = max(reach, l.hi)
		im.livesReach[i] = reach
	}
}

// livesOver yields the lives that ever were at addr.
func (im *Image) livesOver(addr uint64) iter.Seq[*life] {
	return func(yield func(*life) bool) {
		i := sort.Search(len(im.lives), func(i int) bool { return im.lives[i].lo > addr })
		for i--; i >= 0 && im.livesReach[i] > addr; i-- {
			if l := im.lives[i]; addr < l.hi && l.name != "" && !yield(l) {
				return
			}
		}
	}
}

// lifeAt returns the dynamic symbol that is alive at addr and v's time, and the
// last one that was.
func (v View) lifeAt(addr uint64) (alive, last *life) {
	for l := range v.im.livesOver(addr) {
		switch {
		case l.from > v.t || !l.dynamic():
		case v.t < l.to:
			alive, last = l, l
		case last == nil || l.to > last.to:
			last = l
		}
	}
	return alive, last
}

// Symbol returns the name of what stands at addr at v's time: a BPF program or
// image, an out-of-line page, else a function of the kernel or of a module.
// Where nothing does, it returns what was there last: its To is not after v's
// time then. It does not allocate, once the tables of names are made.
func (v View) Symbol(addr uint64) (Symbol, bool) {
	alive, last := v.lifeAt(addr)
	if alive != nil {
		return alive.symbol(), true
	}
	if s, ok := v.named(addr); ok && s.From <= v.t && (v.t < s.To || last == nil || s.To >= last.to) {
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
	for l := range v.im.livesOver(addr) {
		if !l.module() {
			continue
		}
		covered = true
		if t := v.im.namesOf(l); t != nil {
			if s, found := t.Find(addr); found && s.Module == l.name {
				s.From, s.To = l.from, l.to
				if !ok || v.rather(&s, &best) {
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
func (v View) rather(s, o *Symbol) bool {
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
func (im *Image) namesOf(l *life) Names {
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
	for l := range v.im.livesOver(s.Addr) {
		if l.module() && l.name == s.Module && l.from == s.From {
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
func (l *life) dynamic() bool {
	return l.kind == lifeProgram || l.kind == lifeImage || l.kind == lifeOutOfLine
}

// module reports whether the life is a module's.
func (l *life) module() bool { return l.kind == lifeModule || l.kind == lifeModuleData }

func (l *life) symbol() Symbol {
	s := Symbol{Name: l.name, Addr: l.lo, Size: l.hi - l.lo, From: l.from, To: l.to, Dynamic: true}
	if l.kind == lifeProgram || l.kind == lifeImage {
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
		if l.dynamic() && l.name == name {
			add(l.symbol())
		}
	}
	for _, table := range v.im.nameTables() {
		for _, s := range table.Lookup(name) {
			for s := range v.im.lifetimes(table, s) {
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
func (im *Image) nameTables() (out []Names) {
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

// lifetimes yields s, which a table has, with each time that it stands for: of a
// module, whenever this table names its code.
func (im *Image) lifetimes(table Names, s Symbol) iter.Seq[Symbol] {
	return func(yield func(Symbol) bool) {
		s.From, s.To = 0, MaxTime
		covered := false
		if s.Module != "" {
			for l := range im.livesOver(s.Addr) {
				if !l.module() || l.name != s.Module {
					continue
				}
				covered = true
				if s.From, s.To = l.from, l.to; im.namesOf(l) == table && !yield(s) {
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
func (im *Image) everDynamic(addr uint64, kind lifeKind) bool {
	return im.lifeOf(addr, 0, kind) != nil
}

// lifeOf returns the first life of this kind at addr that ends after t.
func (im *Image) lifeOf(addr, t uint64, kind lifeKind) (first *life) {
	if addr >= im.textLo && addr < im.textHi {
		return nil
	}
	i := sort.Search(len(im.lives), func(i int) bool { return im.lives[i].lo > addr })
	for i--; i >= 0 && im.livesReach[i] > addr; i-- {
		if l := im.lives[i]; addr < l.hi && l.kind == kind && l.to > t && (first == nil || l.from < first.from) {
			first = l
		}
	}
	return first
}

// qualified is the name as it can be asked for again.
func (s *Symbol) qualified() string {
	if s.Module == "" || s.Module == "bpf" {
		return s.Name
	}
	return s.Module + ":" + s.Name
}

// everything yields all lifetimes, by address and time.
func (im *Image) everything(yield func(*life) bool) {
	for _, l := range im.lives {
		if !yield(l) {
			return
		}
	}
}
