// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
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

// A poke is a text poke, as it is kept until its rows are written.
type poke struct {
	time   uint64
	form   uint32 // in pokes.forms
	writer uint32 // in pokes.writers
	proven timeline.Interval
}

// A form is what pokes that differ only in time and writer have in common.
type form struct {
	addr      uint64
	old, new  []byte
	valid     timeline.Interval // when the mechanism is known to be this one; of forms that are shared
	name      uint32            // in pokes.names
	mechanism mechanism.Mechanism
	kind      timeline.PokeKind
}

// A placeName is the name of an address.
type placeName struct {
	symbol, module uint32 // in pokes.symbols and pokes.modules
	offset         int64
}

// isValid reports whether the mechanism is known to be this one at a time.
func (f *form) isValid(t uint64) bool { return f.valid.From <= t && t < f.valid.To }

// A writer is who changed text.
type writer struct {
	cpu, pid, tid int32 // -1: not recorded
	comm          string
}

// pokes are the text pokes of a recording, by time.
type pokes struct {
	all     []poke
	forms   []form
	names   []placeName
	writers []writer
	bpf     []bpfEvent // by time

	symbols, modules interned
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

// collect reads the pokes of a recording, with their mechanisms and windows.
func collect(r *replay.Replay, tables *mechanism.Tables) *pokes {
	p := &pokes{all: make([]poke, 0, r.Report.Pokes.Total)}
	by := mechanism.NewClassifier(r, tables)
	lo, hi := r.Image.Text()
	shared := make(map[formKey]uint32) // forms in core text
	names := make(map[uint64]uint32)   // of addresses in core text, which never change
	next := []uint32(nil)              // by form: the one that last came after it
	was := math.MaxInt                 // the last form
	writers := make(map[writer]uint32)
	last, lastNumber := writer{cpu: math.MinInt32}, uint32(0)
	for c := range r.Changes() {
		if c.BPF != nil {
			p.bpf = append(p.bpf, bpfEvent{c.Time, c.BPF.Kind, c.BPF.ID, c.BPF.Tag})
		}
		if c.Poke == nil {
			continue
		}
		x := poke{time: c.Time, proven: timeline.Interval{From: c.Time, To: c.Time}}
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
		x.writer = lastNumber
		addr, old, new := c.Poke.Addr, c.Poke.Old, c.Poke.New
		// Sites often follow one another as they did the last time.
		if was < len(p.forms) && next[was] < uint32(len(p.forms)) {
			n := next[was]
			if f := &p.forms[n]; f.addr == addr && f.isValid(c.Time) && bytes.Equal(f.new, new) && bytes.Equal(f.old, old) {
				was, x.form = int(n), n
				p.all = append(p.all, x)
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
				f := form{addr: addr, old: slices.Clone(old), new: slices.Clone(new), mechanism: made, kind: c.Kind}
				if f.name, ok = names[addr]; !ok || !same {
					f.name = p.nameOf(r, c.Time, addr)
					if same {
						names[addr] = f.name
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
		x.form = n
		p.all = append(p.all, x)
	}
	p.findWindows(r.Windows())
	return p
}

// nameOf adds the name that an address has at a time.
func (p *pokes) nameOf(r *replay.Replay, t, addr uint64) uint32 {
	s, ok := r.Image.At(t).Symbol(addr)
	n := placeName{symbol: p.symbols.string(s.Name), module: p.modules.string(s.Module)}
	if ok {
		n.offset = int64(addr - s.Addr)
	}
	p.names = append(p.names, n)
	return uint32(len(p.names) - 1)
}

// findWindows gives each poke its window. Both are in the order of time. Pokes without a
// window keep an empty one.
func (p *pokes) findWindows(w *timeline.Windows) {
	rest := p.all
	given := 0 // pokes of the same time that have theirs
	for in, proven := range w.Proven() {
		if in.Len == 0 {
			continue
		}
		for len(rest) > 0 && rest[0].time < in.Time {
			rest, given = rest[1:], 0
		}
		for i := given; i < len(rest) && rest[i].time == in.Time; i++ {
			if f := &p.forms[rest[i].form]; f.addr == in.Addr && f.kind == in.Kind && rest[i].proven.From == rest[i].proven.To {
				rest[i].proven = proven
				if i == given {
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
	for i := range p.all {
		first[rank[p.all[i].form]+1]++
	}
	for i := 1; i < len(first); i++ {
		first[i] += first[i-1]
	}
	out := make([]uint32, len(p.all))
	for i := range p.all {
		at := &first[rank[p.all[i].form]]
		out[*at] = uint32(i)
		*at++
	}
	return out
}
