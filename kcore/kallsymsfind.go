// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
)

// A textIndex finds text symbols by address.
type textIndex struct {
	asked count
	once  sync.Once
	text  []textSymbol // by address, one for each
	// pages has, for each page of the kernel's own text, the index of the first symbol in the page
	// or after it. The first page begins at base, and the last one is behind the text.
	pages []int32
	base  uint64
}

// textSymbol is the answer of Find for [addr, end).
type textSymbol struct {
	addr, end uint64
	index     int32 // of the symbol, in entries
	sized     bool  // end is the symbol's own end, not a bound on it
}

// Find returns the text symbol (type t, T, w, W or i) that covers addr, and its
// size in bytes. /proc/kallsyms has no sizes: a symbol ends where the next one
// of the same module begins, of any type but A. The last function of a module's
// text ends before the page of that symbol, because a module's data begin on a
// new page.
//
// Where none follows before the symbols of another module, and for symbols of
// "bpf" and "__builtin__" pseudo-modules, the size is unknown and 0; such a
// symbol covers what is left of its 4 KiB page, up to the next symbol. A marker
// of a section's end, such as _etext, has the size 0 too and covers only its
// address: no symbol covers the gap up to the next section.
//
// Among symbols of one address, its aliases, a global function (T) is preferred
// over a local one (t) and that over a weak one, as by choose_best_symbol of
// tools/perf/util/symbol.c, with the markers of sections behind them, and
// __x64_sys_sync over __ia32_sys_sync; and then the one that is first in the
// file, where the kernel's build has put those with fewer leading underscores
// first (compare_symbols, scripts/kallsyms.c). (perf itself gives sizes before
// it chooses, and so ends with the last of them: __softirqentry_text_start in
// the place of __do_softirq.) Mapping symbols ($x, $d and the like) are never
// found.
func (k *Kallsyms) Find(addr uint64) (sym Symbol, size uint64, ok bool) {
	if k.saved != nil {
		if sym, size, ok, sure := k.saved.find(addr); sure {
			return sym, size, ok
		}
	}
	if k.byAddr.asked.first(fewFinds) {
		return k.findOnce(addr)
	}
	k.byAddr.once.Do(k.indexText)
	text := k.byAddr.search(addr)
	i := sort.Search(len(text), func(i int) bool { return text[i].addr > addr }) - 1
	if i < 0 || addr >= text[i].end {
		return Symbol{}, 0, false
	}
	return k.found(&text[i])
}

// search returns the part of the text symbols that has the last one up to addr, if there is one.
func (x *textIndex) search(addr uint64) []textSymbol {
	if page := (addr - x.base) / pageSize; addr >= x.base && page+1 < uint64(len(x.pages)) {
		return x.text[max(0, x.pages[page]-1):x.pages[page+1]]
	}
	return x.text
}

// indexPages sets pages and base for text at [stext, etext).
func (x *textIndex) indexPages(stext, etext uint64) {
	if stext >= etext || (etext-stext)/pageSize >= maxTextPages || etext >= math.MaxUint64-2*pageSize {
		return
	}
	x.base = stext &^ (pageSize - 1)
	x.pages = make([]int32, (etext-x.base)/pageSize+2)
	i := sort.Search(len(x.text), func(i int) bool { return x.text[i].addr >= x.base })
	for page := range x.pages {
		for i < len(x.text) && x.text[i].addr < x.base+uint64(page)*pageSize {
			i++
		}
		x.pages[page] = int32(i)
	}
}

func (k *Kallsyms) found(t *textSymbol) (sym Symbol, size uint64, ok bool) {
	if t.sized {
		size = t.end - t.addr
	}
	return k.At(int(t.index)), size, true
}

// findOnce is Find without the index.
func (k *Kallsyms) findOnce(addr uint64) (sym Symbol, size uint64, ok bool) {
	here, next, ok := k.around(addr)
	if !ok {
		return Symbol{}, 0, false
	}
	return k.within(addr, &here, &next)
}

// around returns the symbols of the greatest address up to addr that has text symbols, and those
// of the least address above it that has symbols which count. ok is false if there is none up
// to addr.
func (k *Kallsyms) around(addr uint64) (here, next sameAddr, ok bool) {
	entries := k.all()
	hi := sort.Search(len(entries), func(i int) bool { return entries[i].addr > addr })
	for lo := hi; ; hi = lo {
		if hi == 0 {
			return here, next, false
		}
		here = k.endingAt(hi)
		if lo = here.lo; here.best >= 0 {
			break
		}
	}
	for lo := hi; lo < len(entries) && !next.counts; lo = hi {
		for hi < len(entries) && entries[hi].addr == entries[lo].addr {
			hi++
		}
		next = k.endingAt(hi)
	}
	if !next.counts {
		next = sameAddr{addr: math.MaxUint64}
	}
	return here, next, true
}

// within returns the symbol of here, if it covers addr.
func (k *Kallsyms) within(addr uint64, here, next *sameAddr) (sym Symbol, size uint64, ok bool) {
	if t := k.textSymbol(here, next); addr < t.end {
		return k.found(&t)
	}
	return Symbol{}, 0, false
}

// NamesOf returns the symbols of exactly this address, of any type but A, in the order
// of the file: a function with its aliases, or a variable. Mapping symbols are
// left out.
func (k *Kallsyms) NamesOf(addr uint64) []Symbol {
	if addr == 0 {
		return nil // withheld addresses
	}
	if k.saved != nil {
		if found, sure := k.saved.namesOf(addr); sure {
			return found
		}
	}
	var found []Symbol
	entries := k.all()
	i := sort.Search(len(entries), func(i int) bool { return entries[i].addr >= addr })
	for ; i < len(entries) && entries[i].addr == addr; i++ {
		if e := &entries[i]; k.counts(e) {
			found = append(found, k.At(i))
		}
	}
	return found
}

// sameAddr summarizes the symbols of one address.
type sameAddr struct {
	addr   uint64
	lo, hi int  // their indices
	counts bool // one of them does: not all are absolute or mapping symbols
	best   int  // the index of the text symbol that it is best named by, -1 where there is none
	text   bool // one of them is text
	ends   bool // one of them marks the end of a section
}

// endingAt looks at the symbols of one address, whose last one is the one
// before the hi-th.
func (k *Kallsyms) endingAt(hi int) sameAddr {
	s := sameAddr{addr: k.entries[hi-1].addr, lo: hi - 1, hi: hi, best: -1}
	for s.lo > 0 && k.entries[s.lo-1].addr == s.addr {
		s.lo--
	}
	for i := s.lo; i < hi; i++ {
		e := &k.entries[i]
		if !k.counts(e) {
			continue
		}
		s.counts = true
		if e.isText() && (s.best < 0 || k.rank(i) < k.rank(s.best)) {
			s.best = i
		}
		s.text = s.text || e.isText()
		s.ends = s.ends || isSectionEnd(k.name(e))
	}
	return s
}

// counts reports whether there is something at e.
func (k *Kallsyms) counts(e *entry) bool { return e.typ != 'A' && !isMapping(k.name(e)) }

// textSymbol returns what the best symbol of here covers. next is the least
// address above that has a symbol which counts.
func (k *Kallsyms) textSymbol(here, next *sameAddr) textSymbol {
	addr := here.addr
	t := textSymbol{addr: addr, end: next.addr, index: int32(here.best), sized: true}
	m := k.entries[here.best].mod
	switch {
	case here.ends && isSectionMark(k.name(&k.entries[here.best])):
		t.sized, t.end = false, min(next.addr, addr+1)
	case isPseudo(k.modules[m]) || !slices.ContainsFunc(k.entries[next.lo:next.hi], func(e entry) bool { return e.mod == m && k.counts(&e) }):
		t.sized = false
		if reach := pageSize - addr%pageSize; next.addr-addr > reach {
			t.end = addr + reach
		}
	case m != 0 && !next.text && next.addr&^(pageSize-1) > addr:
		t.end = next.addr &^ (pageSize - 1)
	}
	return t
}

// indexText fills byAddr.text from the last address to the first, so that it
// knows the end of each symbol.
func (k *Kallsyms) indexText() {
	text := make([]textSymbol, 0, len(k.all())/2)
	next := sameAddr{addr: math.MaxUint64}
	for hi := len(k.entries); hi > 0; {
		here := k.endingAt(hi)
		if here.best >= 0 {
			text = append(text, k.textSymbol(&here, &next))
		}
		if here.counts {
			next = here
		}
		hi = here.lo
	}
	slices.Reverse(text)
	k.byAddr.text = text
	stext, etext, _ := k.Text()
	k.byAddr.indexPages(stext, etext)
}

// Text returns where the text of the kernel itself begins and ends: the
// symbols _stext (or else _text) and _etext.
func (k *Kallsyms) Text() (stext, etext uint64, ok bool) {
	if s := k.saved; s != nil {
		return s.Text[0], s.Text[1], s.Text[0] < s.Text[1]
	}
	k.all()
	b := &k.bounds
	b.once.Do(func() { b.stext, b.etext, b.ok = k.findText() })
	return b.stext, b.etext, b.ok
}

func (k *Kallsyms) findText() (stext, etext uint64, ok bool) {
	var text uint64
	for i := range k.all() {
		e := &k.entries[i]
		if e.mod != 0 || e.typ == 'A' {
			continue
		}
		// Going through the index would mean building it.
		switch k.name(e) {
		case "_stext":
			stext = e.addr
		case "_text":
			text = e.addr
		case "_etext":
			etext = e.addr
		}
	}
	if stext == 0 {
		stext = text
	}
	if stext == 0 || stext >= etext {
		return 0, 0, false
	}
	return stext, etext, true
}

// LastFunction returns the address of the last text symbol (type t or T; mapping
// symbols do not count) that a module has in [lo, hi), its memory. Outside of
// that a module has some as long as its init section is not freed. If nothing else separates the
// symbols of the last module from those of its freed init functions (see [ParseKallsyms]), a
// symbol of data does: where a module's data are at [lo, hi), no init text is. The kernel itself
// is no module.
func (k *Kallsyms) LastFunction(module string, lo, hi uint64) (addr uint64, ok bool) {
	k.all()
	x := &k.byModule
	x.once.Do(k.indexModules)
	list := x.symbols[x.number[module]]
	n := sort.Search(len(list), func(i int) bool { return list[i].addr >= hi })
	if n == 0 {
		return 0, false
	}
	last := list[n-1].own
	if data := list[n-1].data; data >= 0 && list[data].addr >= lo {
		last = max(last, list[data].text)
	}
	if last < 0 || list[last].addr < lo {
		return 0, false
	}
	return list[last].addr, true
}

// A moduleIndex finds the functions and data of a module. A list of very many modules at one place
// would else be gone through for each of them.
type moduleIndex struct {
	once    sync.Once
	number  map[string]uint32 // of a module in Kallsyms.modules; 0: the kernel, or there is no such module
	symbols [][]moduleSymbol  // by module, then address; none of the kernel
}

// A moduleSymbol is a symbol of text or data. For the module's symbols up to it, it has the
// indices of the last ones of some kinds, -1 where there is none.
type moduleSymbol struct {
	addr uint64
	data int32
	text int32
	own  int32 // of text that cannot be a freed init function
}

// indexModules fills byModule.
func (k *Kallsyms) indexModules() {
	x := &k.byModule
	x.number = make(map[string]uint32, len(k.modules))
	for i, name := range k.modules {
		x.number[name] = uint32(i)
	}
	x.symbols = make([][]moduleSymbol, max(1, len(k.modules)))
	for i := range k.entries {
		e := &k.entries[i]
		if e.mod == 0 {
			continue
		}
		list := x.symbols[e.mod]
		here, s := int32(len(list)), moduleSymbol{data: -1, text: -1, own: -1}
		if here > 0 {
			s = list[here-1]
		}
		s.addr = e.addr
		switch e.typ {
		case 'd', 'D', 'b', 'B', 'r', 'R':
			s.data = here
		case 't', 'T':
			if e.addr == 0 || isMapping(k.name(e)) {
				continue
			}
			s.text = here
			if freed := e.typ == 'T' && e.mod == k.tail.mod && e.name >= k.tail.name; !freed {
				s.own = here
			}
		default:
			continue
		}
		x.symbols[e.mod] = append(list, s)
	}
}

// isSectionMark reports whether the name is one that a linker script gives to
// the start or end of a section of text (vmlinux.lds.S).
func isSectionMark(name string) bool {
	name = strings.TrimPrefix(name, "__pi_")
	switch name {
	case "_text", "_stext", "_sinittext", "__indirect_thunk_start", "__indirect_thunk_end":
		return true
	}
	return isSectionEnd(name) || strings.HasPrefix(name, "__") && strings.HasSuffix(name, "text_start")
}

// isSectionEnd reports whether the name is one that a linker script gives to
// the end of a section of text. A gap follows it.
func isSectionEnd(name string) bool {
	return name == "_etext" || name == "_einittext" ||
		strings.HasPrefix(name, "__") && strings.HasSuffix(name, "text_end")
}

// isMapping reports whether the name is that of a symbol that an assembler
// makes to separate code from data or to name a local place, see
// is_mapping_symbol (include/linux/module_symbol.h): arm, arm64 and riscv show
// those of modules, and older kernels those of code that was linked under a
// prefix.
func isMapping(name string) bool {
	if p, ok := strings.CutPrefix(name, "__pi_"); ok {
		name = p
	} else if p, ok := strings.CutPrefix(name, "__kvm_nvhe_"); ok {
		name = p
	}
	switch {
	case strings.HasPrefix(name, ".L"), strings.HasPrefix(name, "L0"):
		return true
	case len(name) > 1 && name[0] == '$':
		return strings.IndexByte("adtx", name[1]) >= 0
	}
	return false
}
