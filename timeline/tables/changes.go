// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"math"
	"slices"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/mechanism"
	"github.com/textreplay/textreplay/timeline/replay"
)

// forever is how the tables write timeline.MaxTime.
const forever = math.MaxInt64

// column returns a time as the tables write it.
func column(t uint64) int64 { return int64(min(t, forever)) }

// A form is what pokes that differ only in time and writer have in common.
type form struct {
	addr      uint64
	old, new  string // bytes
	oldNumber uint32 // in pokes.contents
	newNumber uint32
	valid     timeline.Interval // when the mechanism is known to be this one; only set if the form is shared
	place     uint32            // in pokes.places
	mechanism mechanism.Mechanism
	kind      timeline.PokeKind
}

// A place is an address and its name, by the numbers that pokes has interned.
type place struct{ addr, symbol, symbolOffset, module uint32 }

// isValid reports whether the mechanism is known to be this one at a time.
func (f *form) isValid(t uint64) bool { return f.valid.From <= t && t < f.valid.To }

// A writer is who changed text.
type writer struct {
	cpu, pid, tid int32 // -1: not recorded
	comm          string
}

// pokes are the text pokes of a recording, by time. What each poke has of its own is in one
// slice for each column, since columns are written one after the other.
type pokes struct {
	times   []uint64
	form    []uint32 // of each poke, in forms
	writer  []uint32 // of each poke, in writers
	from    []uint64 // the start of each poke's window
	to      []uint64 // the end of each poke's window; equal to the start if there is none
	forms   []form
	places  []place
	writers []writer
	bpf     []bpfEvent // by time

	addrs, symbols, symbolOffsets, modules, contents interned
}

// A bpfEvent is a load or an unload of a BPF program.
type bpfEvent struct {
	time uint64
	kind uint16
	id   uint32
	tag  [8]byte
}

// A formKey is the start of a form's bytes and their lengths. Longer forms are not shared.
type formKey struct {
	addr     uint64
	old, new [8]byte
	lens     uint16
}

// manyForms is about how many forms there are if ftrace patches all its sites.
const manyForms = 1 << 17

// collect reads the pokes of a recording, with their mechanisms and windows.
func collect(r *replay.Replay, tables *mechanism.Tables) *pokes {
	n := r.Report.Pokes.Total
	p := &pokes{times: make([]uint64, 0, n), form: make([]uint32, 0, n), writer: make([]uint32, 0, n)}
	p.forms = make([]form, 0, min(n, manyForms))
	by := mechanism.NewClassifier(r, tables)
	lo, hi := r.Image.Text()
	shared := make(map[formKey]uint32)           // forms in core text
	places := make(map[uint64]uint32)            // by address: in core text, where names never change
	next := make([]uint32, 0, min(n, manyForms)) // by form: the form of the poke that last followed it
	was := math.MaxInt                           // the last form
	writers := make(map[writer]uint32)
	last, lastNumber := writer{cpu: math.MinInt32}, uint32(0)
	for c := range r.ChangesAlone() {
		if c.BPF != nil {
			p.bpf = append(p.bpf, bpfEvent{c.Time, c.BPF.Kind, c.BPF.ID, c.BPF.Tag})
		}
		if c.Poke == nil {
			continue
		}
		w := writer{-1, -1, -1, c.Comm}
		if c.Poke.Has&perfdata.SampleCPU != 0 {
			w.cpu = int32(c.Poke.CPU)
		}
		if c.Poke.Has&perfdata.SampleTID != 0 {
			w.pid, w.tid = int32(c.Poke.PID), int32(c.Poke.TID)
		}
		if w != last {
			n, ok := writers[w]
			if !ok {
				n = uint32(len(p.writers))
				p.writers, writers[w] = append(p.writers, w), n
			}
			last, lastNumber = w, n
		}
		p.times, p.writer = append(p.times, c.Time), append(p.writer, lastNumber)
		addr, old, new := c.Poke.Addr, c.Poke.Old, c.Poke.New
		// Sites are often changed in the same order as the last time.
		if was < len(p.forms) && next[was] < uint32(len(p.forms)) {
			n := next[was]
			if f := &p.forms[n]; f.addr == addr && f.isValid(c.Time) && f.new == string(new) && f.old == string(old) {
				was = int(n)
				p.form = append(p.form, n)
				continue
			}
		}
		key := formKey{addr: addr, lens: uint16(len(old)<<8 | len(new))}
		same := addr >= lo && addr < hi && len(old) <= 8 && len(new) <= 8
		if same {
			copy(key.old[:], old)
			copy(key.new[:], new)
		}
		n, ok := shared[key]
		if ok = same && ok; !ok || !p.forms[n].isValid(c.Time) {
			made := by.Of(c)
			if !ok || p.forms[n].mechanism != made {
				n = uint32(len(p.forms))
				f := form{addr: addr, oldNumber: p.contents.bytes(old), newNumber: p.contents.bytes(new), mechanism: made, kind: c.Kind}
				f.old, f.new = p.contents.strings[f.oldNumber], p.contents.strings[f.newNumber]
				if f.place, ok = places[addr]; !ok || !same {
					f.place = p.placeAt(r, c.Time, addr)
					if same {
						places[addr] = f.place
					}
				}
				p.forms, next = append(p.forms, f), append(next, n)
			}
			if same {
				p.forms[n].valid = by.Valid(c)
				shared[key] = n
			}
		}
		if was < len(next) {
			next[was] = n
		}
		was = int(n)
		p.form = append(p.form, n)
	}
	p.findWindows(r.Windows())
	return p
}

// placeAt adds an address with the name that it has at a time.
func (p *pokes) placeAt(r *replay.Replay, t, addr uint64) uint32 {
	s, ok := r.Image.At(t).Symbol(addr)
	offset := int64(0)
	if ok {
		offset = int64(addr - s.Addr)
	}
	p.places = append(p.places, place{p.addrs.number(int64(addr)), p.symbols.string(s.Name), p.symbolOffsets.number(offset), p.modules.string(s.Module)})
	return uint32(len(p.places) - 1)
}

// findWindows gives each poke its window. Both are in the order of time. Pokes without a
// window keep an empty one.
func (p *pokes) findWindows(w *timeline.Windows) {
	p.from, p.to = slices.Clone(p.times), slices.Clone(p.times)
	first := 0 // the first poke of the time of the window
	given := 0 // pokes from first on that have their windows
	for in, proven := range w.Proven() {
		if in.Len == 0 {
			continue
		}
		for first < len(p.times) && p.times[first] < in.Time {
			first, given = first+1, 0
		}
		for i := first + given; i < len(p.times) && p.times[i] == in.Time; i++ {
			if f := &p.forms[p.form[i]]; f.addr == in.Addr && f.kind == in.Kind && p.from[i] == p.to[i] {
				p.from[i], p.to[i] = proven.From, proven.To
				if i == first+given {
					given++
				}
				break
			}
		}
	}
}

// bySite returns the indices of the pokes by address, then time.
func (p *pokes) bySite() []uint32 {
	// Forms first: they are few.
	addrs := make([]uint64, len(p.forms))
	for i := range addrs {
		addrs[i] = p.forms[i].addr
	}
	slices.Sort(addrs)
	addrs = slices.Compact(addrs)
	rank := make([]uint32, len(p.forms))
	for i := range rank {
		k, _ := slices.BinarySearch(addrs, p.forms[i].addr)
		rank[i] = uint32(k)
	}
	first := make([]uint32, len(addrs)+1)
	for _, f := range p.form {
		first[rank[f]+1]++
	}
	for i := 1; i < len(first); i++ {
		first[i] += first[i-1]
	}
	out := make([]uint32, len(p.form))
	for i, f := range p.form {
		at := &first[rank[f]]
		out[*at] = uint32(i)
		*at++
	}
	return out
}
