// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"sort"
	"strings"
	"sync"
	"unsafe"
)

// EncodedKallsyms is a table of symbols as plain memory, so that a program that saves it need
// not read the text again. Its form depends on the byte order of the machine and on the
// compiler's layout of structs: only the same program, on the same kind of machine, may use it.
type EncodedKallsyms struct {
	Symbols []byte // must begin at an address that is a multiple of 8
	Names   []byte // in the order of Symbols
	// ByName has 32-bit words: first for each hash 1 + the index of the first symbol with it,
	// then for each symbol 1 + the index of the next one with the same hash. 0 is none.
	ByName  []byte
	Modules []string
	Text    [2]uint64 // see Kallsyms.Text; 0, 0 if it is not known
	Size    int64     // of the text of the table, in bytes
}

// Encode returns the table as plain memory, nil if lines of the text were skipped: only the text
// has the warnings.
func (k *Kallsyms) Encode() *EncodedKallsyms {
	all := k.all()
	if k.bad.n > 0 || k.foreign {
		return nil
	}
	symbols := make([]entry, len(all)) // field by field: what is between the fields is zero
	var names []byte
	for i := range symbols {
		e, from := &symbols[i], &all[i]
		e.addr, e.typ, e.mod, e.len = from.addr, from.typ, from.mod, from.len
		e.name = uint32(len(names)) // less than its offset in the text
		names = append(names, k.name(from)...)
	}
	heads := 1
	for heads < len(symbols) {
		heads *= 2
	}
	byName := make([]byte, 4*(heads+len(symbols)))
	for i := len(symbols) - 1; i >= 0; i-- { // backwards, so that chains run by address
		e := &symbols[i]
		head := byName[4*savedHash(names[e.name:][:e.len], heads):]
		copy(byName[4*(heads+i):][:4], head)
		binary.LittleEndian.PutUint32(head, uint32(i)+1)
	}
	raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(symbols))), len(symbols)*int(unsafe.Sizeof(entry{})))
	lo, hi, _ := k.Text()
	return &EncodedKallsyms{Symbols: raw, Names: names, ByName: byName, Modules: k.modules, Text: [2]uint64{lo, hi}, Size: k.textSize()}
}

// textSize returns the size of the text, which need not be read for it.
func (k *Kallsyms) textSize() int64 {
	if k.later != nil {
		return k.later.info.Size()
	}
	return int64(len(k.text))
}

// savedHash returns the place of a name among heads, a power of two.
func savedHash[T string | []byte](name T, heads int) int {
	return int(crc32.ChecksumIEEE([]byte(name)) & uint32(heads-1))
}

// A SavedTable is one of the tables of an [EncodedKallsyms].
type SavedTable int

// The fields of EncodedKallsyms that are tables.
const (
	SavedSymbols SavedTable = iota
	SavedNames
	SavedByName
)

// A saved is a table that another program has encoded.
type saved struct {
	*EncodedKallsyms
	entries []entry // in Symbols, not looked at yet
	good    func(t SavedTable, from, to int) bool
	asked   count // finds that looked at a part of the table
}

// Use lets k use a table that [Kallsyms.Encode] returned for the same text, in place, until
// release is called. Before anything of a table is looked at, good is called: it reports whether
// the bytes [from, to) are as they were written. It must be safe for concurrent use. If they are
// not, or the table is of another text or damaged, k reads its text. The first questions look at
// parts of the table only. Whatever it contains, nothing outside of it is read. Names that k
// returns are copies.
//
// Neither Use nor release may be called while another goroutine uses k. After release, k reads
// its text.
func (k *Kallsyms) Use(e *EncodedKallsyms, good func(t SavedTable, from, to int) bool) (release func()) {
	s := &saved{EncodedKallsyms: e, good: good}
	p := unsafe.Pointer(unsafe.SliceData(e.Symbols))
	if e.Size != k.textSize() || len(e.Symbols)%entrySize != 0 || uintptr(p)%unsafe.Alignof(entry{}) != 0 {
		return func() {}
	}
	s.entries = unsafe.Slice((*entry)(p), len(e.Symbols)/entrySize)
	k.saved = s
	return func() {
		if k.saved != s {
			return
		}
		k.saved = nil
		if k.foreign {
			k.entries, k.names, k.modules, k.foreign, k.parsed = nil, nil, nil, false, sync.Once{}
			k.copied.once, k.copied.names = sync.Once{}, nil
			k.byAddr.once, k.byAddr.text, k.byAddr.pages = sync.Once{}, nil, nil
			k.byName.once, k.byName.head, k.byName.next = sync.Once{}, nil, nil
		}
	}
}

const entrySize = int(unsafe.Sizeof(entry{}))

// fewNames is how many names are copied one by one. After that, all are copied at once.
const fewNames = 1024

// ownName returns the name of e in memory that stays after release.
func (k *Kallsyms) ownName(e *entry) string {
	if !k.foreign {
		return k.name(e)
	}
	c := &k.copied
	if c.asked.first(fewNames) {
		return strings.Clone(k.name(e))
	}
	c.once.Do(func() { c.names = bytes.Clone(k.names) })
	return alias(c.names[e.name:][:e.len])
}

// takeSaved takes the table from saved, and reports whether it could.
func (k *Kallsyms) takeSaved() bool {
	part := k.saved.part(0, len(k.saved.entries))
	if part == nil {
		return false
	}
	k.entries, k.names, k.modules, k.foreign = part.entries, part.names, part.modules, true
	return true
}

// part returns a table of the entries [lo, hi), nil if they cannot be right.
func (s *saved) part(lo, hi int) *Kallsyms {
	if !s.good(SavedSymbols, lo*entrySize, hi*entrySize) {
		return nil
	}
	entries := s.entries[lo:hi]
	from := 0 // in Names, where each name follows the one before
	if lo > 0 && lo < hi {
		from = int(entries[0].name)
	}
	to, addr := from, uint64(0)
	for i := range entries {
		e := &entries[i]
		if e.addr < addr || e.len == 0 || int(e.name) != to || int(e.len) > len(s.Names)-to || int(e.mod) >= len(s.Modules) {
			return nil
		}
		addr = e.addr
		to += int(e.len)
	}
	if !s.good(SavedNames, from, to) {
		return nil
	}
	p := &Kallsyms{entries: entries, names: s.Names, modules: s.Modules, foreign: true}
	p.parsed.Do(func() {})
	return p
}

// lookup is Kallsyms.lookup. It looks at the symbols with the name's hash. If something cannot be right,
// sure is false.
func (s *saved) lookup(name string, in func(module string) bool) (found []Symbol, sure bool) {
	n := len(s.entries)
	heads := len(s.ByName)/4 - n
	if n == 0 || heads < n || heads&(heads-1) != 0 {
		return nil, false
	}
	if last := s.part(n-1, n); last == nil || last.Restricted() {
		return nil, last != nil
	}
	for at, before := savedHash(name, heads), 0; ; {
		if !s.good(SavedByName, 4*at, 4*at+4) {
			return nil, false
		}
		i := int(binary.LittleEndian.Uint32(s.ByName[4*at:]))
		if i == 0 {
			return found, true
		}
		if i <= before || i > n {
			return nil, false
		}
		p := s.part(i-1, i)
		if p == nil {
			return nil, false
		}
		if e := &p.entries[0]; p.name(e) == name && in(p.modules[e.mod]) {
			found = append(found, p.At(0))
		}
		at, before = heads+i-1, i
	}
}

const (
	fewParts = 64  // finds that look at a part of a saved table, before all of it is taken
	partSide = 256 // symbols on each side of an address
)

// near returns the entries [lo, hi) as a table: those on both sides of addr. It returns nil if they
// cannot be right, or if enough parts were looked at.
func (s *saved) near(addr uint64) (p *Kallsyms, lo, hi int) {
	if !s.asked.first(fewParts) {
		return nil, 0, 0
	}
	n, good := len(s.entries), true
	at := sort.Search(n, func(i int) bool {
		good = good && s.good(SavedSymbols, i*entrySize, (i+1)*entrySize)
		return good && s.entries[i].addr > addr
	})
	if !good {
		return nil, 0, 0
	}
	lo, hi = max(0, at-partSide), min(n, at+partSide)
	return s.part(lo, hi), lo, hi
}

// find is Kallsyms.Find. It looks at the symbols near addr. If they do not suffice, or cannot be right,
// sure is false.
func (s *saved) find(addr uint64) (sym Symbol, size uint64, ok, sure bool) {
	p, lo, hi := s.near(addr)
	if p == nil {
		return Symbol{}, 0, false, false
	}
	here, next, ok := p.around(addr)
	if lo > 0 && (!ok || here.lo == 0) || hi < len(s.entries) && (!next.counts || next.hi == len(p.entries)) {
		return Symbol{}, 0, false, false // it may go on outside of the part
	}
	if !ok {
		return Symbol{}, 0, false, true
	}
	sym, size, ok = p.within(addr, &here, &next)
	return sym, size, ok, true
}

// namesOf is Kallsyms.NamesOf, as find is Kallsyms.Find.
func (s *saved) namesOf(addr uint64) (found []Symbol, sure bool) {
	p, lo, _ := s.near(addr) // which ends behind the last one of addr
	if p == nil || lo > 0 && p.entries[0].addr == addr {
		return nil, false
	}
	return p.NamesOf(addr), true
}
