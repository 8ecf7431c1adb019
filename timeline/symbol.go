// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
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
// concurrent use.
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

// lifeAt returns the dynamic symbol that is alive at addr and v's time, the
// last one that was, and the module that was ever there.
func (v View) lifeAt(addr uint64) (alive, last, module *life) {
	im := v.im
	i := sort.Search(len(im.lives), func(i int) bool { return im.lives[i].lo > addr })
	for i--; i >= 0 && im.livesReach[i] > addr; i-- {
		l := im.lives[i]
		switch {
		case addr >= l.hi || l.name == "":
		case l.kind == lifeModule || l.kind == lifeModuleData:
			module = l
		case l.from > v.t || !l.dynamic():
		case v.t < l.to:
			alive, last = l, l
		case last == nil || l.to > last.to:
			last = l
		}
	}
	return alive, last, module
}

// Symbol returns the name of what stands at addr at v's time: a BPF program or
// image, an out-of-line page, else a function of the kernel or of a module.
// Where nothing does, it returns what was there last: its To is not after v's
// time then. It does not allocate, once the table of names is made.
func (v View) Symbol(addr uint64) (Symbol, bool) {
	alive, last, module := v.lifeAt(addr)
	if alive != nil {
		return alive.symbol(), true
	}
	if v.im.names != nil {
		if s, ok := v.im.names.Find(addr); ok {
			module.lend(&s)
			if s.From <= v.t && (v.t < s.To || last == nil || s.To >= last.to) {
				return s, true
			}
		}
	}
	if last != nil {
		return last.symbol(), true
	}
	return Symbol{}, false
}

// lend gives a symbol of module l its lifetime. l may be nil.
func (l *life) lend(s *Symbol) {
	s.From, s.To = 0, MaxTime
	if l != nil && l.name == s.Module {
		s.From, s.To = l.from, l.to
	}
}

// Aliases returns the other names that what s names had all the time, nil where
// there are none: kallsyms often has several for one function.
func (v View) Aliases(s Symbol) []string {
	if v.im.names == nil || s.Dynamic {
		return nil
	}
	names := slices.DeleteFunc(v.im.names.Aliases(s.Addr), func(name string) bool { return name == s.Name })
	if len(names) == 0 {
		return nil
	}
	return names
}

// dynamic reports whether the life is one that KSYMBOL records announce.
func (l *life) dynamic() bool {
	return l.kind == lifeProgram || l.kind == lifeImage || l.kind == lifeOutOfLine
}

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
	if v.im.names != nil {
		for _, s := range v.im.names.Lookup(name) {
			_, _, module := v.lifeAt(s.Addr)
			module.lend(&s)
			add(s)
		}
	}
	if len(now) > 0 {
		return now
	}
	return ever
}

// Modules yields the modules that were there when the snapshot was taken, by the
// address of their text, with their lifetimes.
func (im *Image) Modules(yield func(Symbol) bool) {
	for _, l := range im.lives {
		if l.kind == lifeModule && !yield(Symbol{Name: l.name, Module: l.name, Addr: l.lo, Size: l.hi - l.lo, From: l.from, To: l.to}) {
			return
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
