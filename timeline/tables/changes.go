// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"encoding/binary"
	"math"
	"runtime"
	"slices"

	"github.com/textreplay/textreplay/internal/memory"
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
	oldNumber uint32 // in pokes.contents
	newNumber uint32
	place     uint32 // in pokes.places
	site      int32  // in pokes.sites; -1: not in core text
	older     int32  // the form of the same site that was made before it; -1: none
	mechanism mechanism.Mechanism
	kind      timeline.PokeKind
}

// A formKey is what the pokes of a form are recognized by. It is apart from the form because each
// poke needs it, and forms are many.
type formKey struct {
	addr     uint64
	old, new uint64 // both contents, only set if the form is shared
	next     uint32 // the form of the poke that last followed one of this form
	valid    uint32 // when the mechanism is known to be this one: index in collector.valid; only set if the form is shared
	lens     uint16 // of both contents, see lensOf
}

// is reports whether a key has these contents.
func (f *formKey) is(w words) bool { return f.old == w.old && f.new == w.new && f.lens == w.lens }

// A place is an address and its name, by the numbers that pokes has interned.
type place struct{ addr, symbol, symbolOffset, module uint32 }

// A writer is who changed text.
type writer struct {
	cpu, pid, tid int32 // -1: not recorded
	task          uint32
	comm          string
}

// A writerRun is successive pokes of one writer, in the order of time.
type writerRun struct {
	first  uint32 // the first poke
	writer uint32 // in pokes.writers
}

// pokes are the text pokes of a recording, by time. What each poke has of its own is in one
// slice for each column, since columns are written one after the other.
type pokes struct {
	times   []uint64
	form    []uint32    // of each poke, in forms
	by      []writerRun // who made the pokes, by the first poke of each; nil if writer has it
	writer  []uint32    // who made each poke, in writers; nil if by has it
	forms   []form
	placed  []timeline.InPlacePoke // by form: what windows need of its pokes, if its kind is made in place
	keys    []formKey              // by form
	sites   []site                 // in core text
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

// maxShared is the most bytes of a form that pokes share, before or after.
const maxShared = 8

// words are both contents of a form that is shared, which are compared very often.
type words struct {
	old, new uint64
	lens     uint16 // so they are not 0, but for a poke without bytes
}

func wordsOf(old, new []byte) words {
	return words{wordOf(old), wordOf(new), lensOf(len(old), len(new))}
}

func lensOf(old, new int) uint16 { return uint16(old<<8 | new) }

func wordOf(b []byte) uint64 {
	if len(b) == 5 { // nearly all of x86
		return uint64(binary.LittleEndian.Uint32(b)) | uint64(b[4])<<32
	}
	var w [maxShared]byte
	copy(w[:], b)
	return binary.LittleEndian.Uint64(w[:])
}

// A site is an address in core text, where names never change.
type site struct {
	addr  uint64
	place uint32 // in pokes.places
	form  int32  // the newest shared form of the site; -1: none
}

// A siteTable finds sites by address.
type siteTable struct {
	sites []site
	slots nearTable // of indices in sites
	last  int32     // the site that find returned last
}

// reserve makes room for so many sites.
func (t *siteTable) reserve(sites int) {
	t.sites = make([]site, 0, sites)
	t.slots.reserve(sites)
}

// find returns the index of the site at addr, which it adds if it is new: then the site has no
// place yet.
func (t *siteTable) find(addr uint64) (i int32, isNew bool) {
	// Sites are often changed in the same order as the last time.
	if i = t.last + 1; int(i) < len(t.sites) && t.sites[i].addr == addr {
		t.last = i
		return i, false
	}
	i, isNew = t.search(addr)
	t.last = i
	return i, isNew
}

// search is find without knowing the last site.
func (t *siteTable) search(addr uint64) (i int32, isNew bool) {
	if t.slots.isFull() {
		t.slots.grow(func(i uint32) uint64 { return t.sites[i].addr })
	}
	slot := t.slots.first(addr)
	for ; t.slots.of[slot] != 0; slot = t.slots.next(slot) {
		if i := t.slots.of[slot] - 1; t.sites[i].addr == addr {
			return int32(i), false
		}
	}
	t.slots.put(slot, uint32(len(t.sites)))
	t.sites = append(t.sites, site{addr: addr, form: -1})
	return int32(len(t.sites) - 1), true
}

// mostForms is how many forms of a site are looked at for one of the same contents. A site has a few, but
// a made-up recording may have another one for each poke: then each poke has its own.
const mostForms = 64

// manyForms is about how many forms there are if ftrace patches all its sites.
const manyForms = 1 << 17

// collect reads the pokes of a recording, with their mechanisms.
func collect(r *replay.Replay, tables *mechanism.Tables) *pokes {
	n := int(r.Report.Pokes.Total)
	p := &pokes{times: memory.Uncleared[uint64](n), form: memory.Uncleared[uint32](n)}
	p.forms, p.keys = memory.Uncleared[form](min(n, manyForms)), memory.Uncleared[formKey](min(n, manyForms))
	p.placed = memory.Uncleared[timeline.InPlacePoke](min(n, manyForms))
	likely := min(n/8, manyForms/2) // sites
	p.addrs.numbers = make([]int64, 0, likely)
	p.places = make([]place, 0, likely)
	p.symbols.reserve(likely)
	p.contents.reserveShort(likely)
	x := collector{pokes: p, r: r, classifier: mechanism.NewClassifier(r, tables), writers: make(map[writer]uint32), valid: make([]timeline.Interval, 1), validOf: make(map[timeline.Interval]uint32), last: writer{cpu: math.MinInt32}}
	x.lo, x.hi = r.Image.Text()
	x.sites.reserve(min(n, manyForms/2))
	r.ChangesBut(x.known)(x.add)
	p.sites, p.keys = x.sites.sites, nil
	if n > manyPokes {
		runtime.GC() // to read them takes more memory than all that comes
	}
	return p
}

// manyPokes is how many pokes make it worth the time to collect what was needed to read them.
const manyPokes = 4 << 20

// A collector collects the pokes of a recording.
type collector struct {
	*pokes
	r          *replay.Replay
	classifier *mechanism.Classifier
	lo, hi     uint64 // core text
	sites      siteTable
	was        uint32                       // the last form, if there are any
	valid      []timeline.Interval          // when mechanisms are known; the first one is never
	validOf    map[timeline.Interval]uint32 // their indices
	writers    map[writer]uint32
	last       writer // of the last poke
	lastNumber uint32
}

// fewRuns is up to how many runs of one writer the pokes are kept as runs, whatever their number. Tests
// change it.
var fewRuns = 1 << 12

// known adds pokes of the last writer, as long as the form of each is the one that followed the form
// before it the last time. It returns how many it has added; add adds the next one.
func (x *collector) known(pokes []perfdata.ShortPoke, oldLen, newLen int) (n int) {
	// Sites are often changed in the same order as the last time.
	lens, keys, valid, was := lensOf(oldLen, newLen), x.keys, x.valid, x.was
	times, form := slices.Grow(x.times, len(pokes)), slices.Grow(x.form, len(pokes))
	for ; n < len(pokes); n++ {
		p := &pokes[n]
		next := keys[was].next
		k := &keys[next]
		if k.addr != p.Addr || k.old != p.Old || k.new != p.New || k.lens != lens {
			break
		}
		if v := &valid[k.valid]; p.Time < v.From || v.To <= p.Time {
			break
		}
		times, form, was = append(times, p.Time), append(form, next), next
	}
	x.times, x.form, x.was = times, form, was
	for range n {
		if x.writer == nil {
			break
		}
		x.writer = append(x.writer, x.lastNumber)
	}
	return n
}

// add adds a change. It returns true.
func (x *collector) add(c *replay.Change) bool {
	if c.BPF != nil {
		x.bpf = append(x.bpf, bpfEvent{c.Time, c.BPF.Kind, c.BPF.ID, c.BPF.Tag})
	}
	if c.Poke == nil {
		return true
	}
	x.writtenBy(c)
	x.times = append(x.times, c.Time)
	core := c.Poke.Addr >= x.lo && c.Poke.Addr < x.hi
	share := core && len(c.Poke.Old) <= maxShared && len(c.Poke.New) <= maxShared
	var both words
	if share {
		both = wordsOf(c.Poke.Old, c.Poke.New)
	}
	n := uint32(0)
	if len(x.keys) > 0 {
		n = x.keys[x.was].next
		if k := &x.keys[n]; !share || k.addr != c.Poke.Addr || !k.is(both) || !x.isValid(k, c.Time) {
			n = x.formOf(c, core, share, both)
			x.keys[x.was].next = n
		}
	} else {
		n = x.formOf(c, core, share, both)
	}
	x.was = n
	x.form = append(x.form, n)
	return true
}

// writtenBy notes who made the next poke.
func (x *collector) writtenBy(c *replay.Change) {
	w := writer{-1, -1, -1, c.Poke.TID, c.Comm}
	if c.Poke.Has&perfdata.SampleCPU != 0 {
		w.cpu = int32(c.Poke.CPU)
	}
	if c.Poke.Has&perfdata.SampleTID != 0 {
		w.pid, w.tid = taskID(c.Poke.PID), taskID(c.Poke.TID)
	}
	same := w == x.last
	if !same {
		n, ok := x.writers[w]
		if !ok {
			n = uint32(len(x.pokes.writers))
			x.pokes.writers, x.writers[w] = append(x.pokes.writers, w), n
		}
		x.last, x.lastNumber = w, n
	}
	if x.writer != nil {
		x.writer = append(x.writer, x.lastNumber)
		return
	}
	if same {
		return
	}
	x.by = append(x.by, writerRun{uint32(len(x.times)), x.lastNumber})
	if len(x.by) <= max(fewRuns, len(x.times)/8) {
		return
	}
	// Pokes of several CPUs are interleaved.
	x.writer = memory.Uncleared[uint32](cap(x.times))
	for i, r := range x.by {
		end := len(x.times) + 1
		if i+1 < len(x.by) {
			end = int(x.by[i+1].first)
		}
		for range end - int(r.first) {
			x.writer = append(x.writer, r.writer)
		}
	}
	x.by = nil
}

// formOf returns the form of a poke, which it adds if it is new. core says that the poke is in core
// text, share that other pokes may have its form; then both are its contents.
func (x *collector) formOf(c *replay.Change, core, share bool, both words) uint32 {
	addr := c.Poke.Addr
	at, newSite := int32(-1), false
	if core {
		at, newSite = x.sites.find(addr)
	}
	n, newest := int32(-1), int32(-1)
	if share {
		newest = x.sites.sites[at].form
		n = newest
		for k := 0; n >= 0 && !x.keys[n].is(both); k++ {
			if n = x.forms[n].older; k == mostForms {
				n = -1
			}
		}
	}
	if n >= 0 && x.isValid(&x.keys[n], c.Time) {
		return uint32(n)
	}
	made, valid := x.classifier.Lasting(c)
	if n < 0 || x.forms[n].mechanism != made {
		f := form{addr: addr, site: at, older: newest, mechanism: made, kind: c.Kind}
		near := newest
		if near < 0 {
			near = int32(len(x.forms)) - 1 // most sites of a tracer have the same NOP
		}
		f.oldNumber, f.newNumber = x.contentOf(near, c.Poke.Old), x.contentOf(near, c.Poke.New)
		switch {
		case at < 0:
			s, ok := x.r.Image.At(c.Time).Symbol(addr)
			f.place = x.addPlace(addr, x.addrs.number(int64(addr)), s.Name, s.Module, s.Addr, ok)
		case newSite: // the only one of this address
			name, module, start, ok := x.classifier.Symbol(addr, c.Time)
			x.sites.sites[at].place = x.addPlace(addr, x.addrs.newNumber(int64(addr)), name, module, start, ok)
			fallthrough
		default:
			f.place = x.sites.sites[at].place
		}
		placed, _ := x.r.InPlace(c)
		x.placed = append(x.placed, placed)
		n = int32(len(x.forms))
		x.forms, x.keys = append(x.forms, f), append(x.keys, formKey{addr: addr, old: both.old, new: both.new, lens: both.lens})
		if share {
			x.sites.sites[at].form = n
		}
	}
	if share {
		x.setValid(uint32(n), valid)
	}
	return uint32(n)
}

// isValid reports whether the mechanism of a form is known to be this one at a time.
func (x *collector) isValid(k *formKey, t uint64) bool {
	valid := &x.valid[k.valid]
	return valid.From <= t && t < valid.To
}

// setValid notes when the mechanism of a form is known to be this one.
func (x *collector) setValid(form uint32, valid timeline.Interval) {
	n := x.keys[form].valid
	if valid == x.valid[n] {
		return
	}
	if n = uint32(len(x.valid) - 1); valid != x.valid[n] {
		var ok bool
		if n, ok = x.validOf[valid]; !ok {
			n = uint32(len(x.valid))
			x.valid, x.validOf[valid] = append(x.valid, valid), n
		}
	}
	x.keys[form].valid = n
}

// contentOf returns the number of content among p.contents. near is a form that often has the same
// content, such as another one of the same site; -1 if there is none.
func (p *pokes) contentOf(near int32, content []byte) uint32 {
	if near >= 0 {
		switch f := &p.forms[near]; string(content) {
		case p.old(f):
			return f.oldNumber
		case p.new(f):
			return f.newNumber
		}
	}
	return p.contents.bytes(content)
}

// addPlace adds an address in a function that begins at start; ok is false if it has no name. number is
// that of the address in p.addrs.
func (p *pokes) addPlace(addr uint64, number uint32, name, module string, start uint64, ok bool) uint32 {
	offset := int64(0)
	if ok {
		offset = int64(addr - start)
	}
	p.places = append(p.places, place{number, p.symbols.string(utf8Text(name)), p.symbolOffsets.number(offset), p.modules.string(utf8Text(module))})
	return uint32(len(p.places) - 1)
}

// windowPages derives when a trap may be met at the place of each poke, a page at a time.
type windowPages struct {
	p    *pokes
	next func([]timeline.Interval)
	page []timeline.Interval
}

// windows returns the windows of the pokes.
func (p *pokes) windows(r *replay.Replay) *windowPages {
	run := 0 // the next one of p.by
	task := func(k int) (tid uint32, end int) {
		if p.writer != nil {
			w := p.writer[k]
			for end = k + 1; end < len(p.writer) && p.writer[end] == w; {
				end++
			}
			return p.writers[w].task, end
		}
		for run < len(p.by) && int(p.by[run].first) <= k {
			run++
		}
		if end = len(p.times); run < len(p.by) {
			end = int(p.by[run].first)
		}
		return p.writers[p.by[run-1].writer].task, end
	}
	return &windowPages{p: p, next: r.ProvenOf(&timeline.PlainPokes{Times: p.times, Form: p.form, Forms: p.placed, Task: task})}
}

// of sets from and to to when the windows of the pokes [lo, hi) begin and end: at the poke if there is none.
// The first page begins with the first poke, and each of the others where the one before it ends.
func (w *windowPages) of(from, to []int64, lo, hi int) {
	w.page = slices.Grow(w.page[:0], hi-lo)[:hi-lo]
	w.next(w.page)
	form := w.p.form[lo:hi]
	for i, t := range w.p.times[lo:hi] {
		window := w.page[i]
		if window == (timeline.Interval{}) || w.p.placed[form[i]].Len == 0 { // it needs no trap
			window = timeline.Interval{From: t, To: t}
		}
		from[i], to[i] = column(window.From), column(window.To)
	}
}

// byAddress returns the addresses that pokes have.
func (p *pokes) byAddress() (by sitesByAddress) {
	addrs := make([]uint64, 0, len(p.sites))
	for i := range p.sites {
		addrs = append(addrs, p.sites[i].addr)
	}
	for i := range p.forms {
		if f := &p.forms[i]; f.site < 0 {
			addrs = append(addrs, f.addr)
		}
	}
	slices.Sort(addrs)
	addrs = slices.Compact(addrs)
	by = sitesByAddress{addrs: addrs, least: slices.Repeat([]uint64{math.MaxUint64}, len(addrs)), reach: make([]uint64, len(addrs)),
		newest: slices.Repeat([]int32{-1}, len(addrs)), of: make([]formAddress, len(p.forms))}
	ranks := make([]uint32, len(p.sites))
	rank := -1 // of the site before: most follow in the order of addresses
	for i := range p.sites {
		addr := p.sites[i].addr
		if rank++; rank == len(addrs) || addrs[rank] != addr {
			rank, _ = slices.BinarySearch(addrs, addr)
		}
		ranks[i], by.newest[rank] = uint32(rank), p.sites[i].form
	}
	for i := range p.forms {
		f := &p.forms[i]
		rank := uint32(0)
		if f.site >= 0 {
			rank = ranks[f.site]
		} else {
			k, _ := slices.BinarySearch(addrs, f.addr)
			rank = uint32(k)
		}
		by.of[i] = formAddress{rank, f.newNumber}
		end := p.end(f)
		by.least[rank], by.reach[rank] = min(by.least[rank], end), max(by.reach[rank], end)
	}
	for k := 1; k < len(addrs); k++ {
		by.reach[k] = max(by.reach[k], by.reach[k-1])
	}
	return by
}

// sort sorts the pokes of some addresses by address, then time. sorted has their indices.
func (p *pokes) sort(by *sitesByAddress, needed []bool) (sorted []uint32) {
	// Count, then place. A site's first is where its next poke goes, until all are there.
	by.first = make([]uint32, len(by.addrs)+1)
	for _, f := range p.form {
		if rank := by.of[f].rank; needed[rank] {
			by.first[rank+1]++
		}
	}
	for i := 1; i < len(by.first); i++ {
		by.first[i] += by.first[i-1]
	}
	sorted = make([]uint32, by.first[len(by.addrs)])
	for i, f := range p.form {
		if rank := by.of[f].rank; needed[rank] {
			at := &by.first[rank]
			sorted[*at] = uint32(i)
			*at++
		}
	}
	copy(by.first[1:], by.first)
	by.first[0] = 0
	return sorted
}

// old returns the old bytes of a form, and new the new ones.
func (p *pokes) old(f *form) string { return p.contents.strings[f.oldNumber] }
func (p *pokes) new(f *form) string { return p.contents.strings[f.newNumber] }

// end returns the end of what a form covers.
func (p *pokes) end(f *form) uint64 { return f.addr + uint64(max(len(p.old(f)), len(p.new(f)))) }

// sitesByAddress are the addresses that pokes have, in their order.
type sitesByAddress struct {
	addrs  []uint64
	least  []uint64      // the least end of the forms of each
	reach  []uint64      // the greatest end of the forms of each and of those before it
	newest []int32       // the newest shared form of each; -1: none
	of     []formAddress // by form
	first  []uint32      // the first poke of each, in the order of pokes.sort; one more at the end
}

// A formAddress is what a poke of a form adds to the sum of its address: see deriver.addUp.
type formAddress struct {
	rank      uint32 // in sitesByAddress.addrs
	newNumber uint32 // in pokes.contents
}

// taskID returns the number of a process or a thread; -1 if no task can have it.
func taskID(n uint32) int32 {
	if !replay.IsTaskID(n) {
		return -1
	}
	return int32(n)
}
