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
}

// Names is a fixed table of names, as kallsyms is: of core kernel text and of
// the modules that were loaded when it was read. It must be safe for
// concurrent use.
type Names interface {
	// Find returns the symbol that covers addr.
	Find(addr uint64) (Symbol, bool)
	// Lookup returns all symbols of this name, in every module.
	Lookup(name string) []Symbol
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

// lifeAt returns the dynamic symbol that is alive at addr and v's time, and the
// last one that was.
func (v View) lifeAt(addr uint64) (alive, last *life) {
	im := v.im
	i := sort.Search(len(im.lives), func(i int) bool { return im.lives[i].lo > addr })
	for i--; i >= 0 && im.livesReach[i] > addr; i-- {
		l := im.lives[i]
		if addr >= l.hi || l.from > v.t || !l.dynamic() || l.name == "" {
			continue
		}
		if v.t < l.to {
			return l, l
		}
		if last == nil || l.to > last.to {
			last = l
		}
	}
	return nil, last
}

// Symbol returns the name of what stands at addr at v's time: a BPF program or
// image, an out-of-line page, else a function of the kernel or of a module.
// Where nothing does, it returns what was there last: its To is not after v's
// time then.
func (v View) Symbol(addr uint64) (Symbol, bool) {
	alive, last := v.lifeAt(addr)
	if alive != nil {
		return alive.symbol(), true
	}
	if v.im.names != nil {
		if s, ok := v.im.names.Find(addr); ok {
			return s, true
		}
	}
	if last != nil {
		return last.symbol(), true
	}
	return Symbol{}, false
}

// dynamic reports whether the life is one that KSYMBOL records announce.
func (l *life) dynamic() bool {
	return l.kind == lifeProgram || l.kind == lifeImage || l.kind == lifeOutOfLine
}

func (l *life) symbol() Symbol {
	s := Symbol{Name: l.name, Addr: l.lo, Size: l.hi - l.lo, From: l.from, To: l.to}
	if l.kind == lifeProgram || l.kind == lifeImage {
		s.Module = "bpf"
	}
	return s
}

// Lookup returns what carries this name at v's time; where nothing does, what
// carried it at any other time.
func (v View) Lookup(name string) []Symbol {
	var now, ever []Symbol
	for _, l := range v.im.lives {
		if !l.dynamic() || l.name != name {
			continue
		}
		s := l.symbol()
		ever = append(ever, s)
		if l.from <= v.t && v.t < l.to {
			now = append(now, s)
		}
	}
	if v.im.names != nil {
		fixed := v.im.names.Lookup(name)
		now, ever = append(now, fixed...), append(ever, fixed...)
	}
	if len(now) > 0 {
		return now
	}
	return ever
}

// Symbols yields all dynamic symbols with their lifetimes, by address and time.
func (im *Image) Symbols(yield func(Symbol) bool) {
	for _, l := range im.lives {
		if l.dynamic() && !yield(l.symbol()) {
			return
		}
	}
}
