// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"bytes"
	"strings"
	"sync"
	"unsafe"
)

// EncodedKallsyms is a table of symbols as plain memory, so that a program that saves it need
// not read the text again. Its form depends on the byte order of the machine and on the
// compiler's layout of structs: only the same program, on the same kind of machine, may use it.
type EncodedKallsyms struct {
	Symbols []byte `json:"-"` // must begin at an address that is a multiple of 8
	Names   []byte `json:"-"`
	// The other fields can be stored as JSON.
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
	raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(symbols))), len(symbols)*int(unsafe.Sizeof(entry{})))
	lo, hi, _ := k.Text()
	return &EncodedKallsyms{Symbols: raw, Names: names, Modules: k.modules, Text: [2]uint64{lo, hi}, Size: k.textSize()}
}

// textSize returns the size of the text, which need not be read for it.
func (k *Kallsyms) textSize() int64 {
	if k.later != nil {
		return k.later.info.Size()
	}
	return int64(len(k.text))
}

// A savedTable is a table that another program has encoded.
type savedTable struct {
	*EncodedKallsyms
	good func() bool
}

// Use lets k use a table that [Kallsyms.Encode] returned for the same text, in place, until
// release is called. Nothing of it is looked at before the first symbol is asked for. Then good
// is called, once: it reports whether the memory is as it was written. If it is not, or the table
// is of another text or damaged, k reads its text. Whatever the table contains, nothing outside of
// it is read. Names that k returns are copies.
//
// Neither Use nor release may be called while another goroutine uses k. After release, k reads
// its text.
func (k *Kallsyms) Use(e *EncodedKallsyms, good func() bool) (release func()) {
	saved := &savedTable{e, good}
	k.saved = saved
	return func() {
		if k.saved != saved {
			return
		}
		k.saved = nil
		if k.foreign {
			k.entries, k.names, k.modules, k.foreign, k.parsed = nil, nil, nil, false, sync.Once{}
			k.copied.once, k.copied.names = sync.Once{}, nil
			k.byAddr.once, k.byAddr.text = sync.Once{}, nil
			k.byName.once, k.byName.head, k.byName.next = sync.Once{}, nil, nil
		}
	}
}

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
	e := k.saved.EncodedKallsyms
	p := unsafe.Pointer(unsafe.SliceData(e.Symbols))
	const size = int(unsafe.Sizeof(entry{}))
	if e.Size != k.textSize() || len(e.Symbols)%size != 0 || uintptr(p)%unsafe.Alignof(entry{}) != 0 || !k.saved.good() {
		return false
	}
	entries := unsafe.Slice((*entry)(p), len(e.Symbols)/size)
	last := uint64(0)
	for i := range entries {
		x := &entries[i]
		if x.addr < last || x.len == 0 || uint64(x.name)+uint64(x.len) > uint64(len(e.Names)) || int(x.mod) >= len(e.Modules) {
			return false
		}
		last = x.addr
	}
	k.entries, k.names, k.modules, k.foreign = entries, e.Names, e.Modules, true
	return true
}
