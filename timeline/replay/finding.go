// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"iter"
	"maps"
	"slices"
	"sort"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// FindingKind says which contradiction between a recording's symbols, programs, modules
// and pokes was found. Scripts may rely on the codes.
type FindingKind uint8

const (
	// BirthOverLive: something is registered over the range of a program or of
	// out-of-line code that nothing has unregistered.
	BirthOverLive FindingKind = iota
	// BirthInModule: something is registered inside the text of a loaded module.
	BirthInModule
	// DeathWithoutBirth: something is unregistered that neither a record nor
	// kallsyms announced.
	DeathWithoutBirth
	// SymbolWithoutLoad: a BPF program's function is registered, but the
	// PERF_RECORD_BPF_EVENT of its load does not follow, which perf_event_bpf_event
	// of kernel/events/core.c makes.
	SymbolWithoutLoad
	// LoadWithoutSymbol: a BPF program is loaded, but no function of it was
	// registered before.
	LoadWithoutSymbol
	// LoadedTwice: a BPF program is loaded whose id is loaded already.
	LoadedTwice
	// UnloadWithoutLoad: a BPF program was unloaded but never loaded.
	UnloadWithoutLoad
	// InfoWithoutLoad: the recording has the info of a BPF program, but not its load.
	InfoWithoutLoad
	// InfoElsewhere: the info of a BPF program has a function, but none of that
	// address and length was ever registered.
	InfoElsewhere
	// PokeOfNothing: a change at an address where no code was recorded. Kernels poke
	// the tail calls of programs that are not registered yet or no longer, and modules
	// that were loaded after the copy.
	PokeOfNothing
	// ModulesOverlap: two modules that are loaded at the same time overlap.
	ModulesOverlap
	// WriteNotRecorded: a probe on the function that writes text saw a write of kernel
	// text that is a step of no poke (x86-64).
	WriteNotRecorded
	// PokeNotWritten: such a probe saw no write of this poke of kernel text.
	PokeNotWritten
	// WriteMisfit: a write found other bytes than the one before it left. Other says
	// which.
	WriteMisfit
	// SnapshotMisfit: the recording's copy of kernel text is of another kernel or
	// another boot. Other says why.
	SnapshotMisfit
	// RecordDamaged: a record does not fit its place in the file. It has, for example,
	// an event id or a CPU that the recording does not have. Other says which.
	RecordDamaged
)

var findingKinds = [...]struct{ code, text string }{
	BirthOverLive:     {"birth-over-live", "registered over code that is still registered"},
	BirthInModule:     {"birth-in-module", "registered inside a loaded module"},
	DeathWithoutBirth: {"death-without-birth", "unregistered but never registered"},
	SymbolWithoutLoad: {"symbol-without-load", "a BPF function whose program was never loaded"},
	LoadWithoutSymbol: {"load-without-symbol", "a BPF program was loaded but has no function"},
	LoadedTwice:       {"loaded-twice", "a BPF program was loaded while it was loaded already"},
	UnloadWithoutLoad: {"unload-without-load", "a BPF program was unloaded but never loaded"},
	InfoWithoutLoad:   {"info-without-load", "program info of a BPF program that was not loaded"},
	InfoElsewhere:     {"info-elsewhere", "program info with a function that was never registered"},
	PokeOfNothing:     {"poke-of-nothing", "a change at an address where no code was recorded"},
	ModulesOverlap:    {"modules-overlap", "two modules at the same addresses"},
	WriteNotRecorded:  {"write-not-recorded", "a write of kernel text that no poke has"},
	PokeNotWritten:    {"poke-not-written", "a poke that nothing wrote"},
	WriteMisfit:       {"write-misfit", "a write over other bytes than the one before it left"},
	SnapshotMisfit:    {"snapshot-misfit", "the recording's copy of kernel text is of another kernel or boot"},
	RecordDamaged:     {"damaged", "a record that does not fit its place in the file"},
}

// String returns the code, for example "birth-over-live".
func (k FindingKind) String() string { return findingKinds[k].code }

// Text describes the kind in a few words.
func (k FindingKind) Text() string { return findingKinds[k].text }

// A Finding is a contradiction within a recording.
type Finding struct {
	Kind FindingKind
	Time uint64 // of the record; 0 for what was there before the recording
	Addr uint64 // 0 if it is about a program as a whole
	Len  uint64
	Name string // of the symbol or the module, "" if there is none
	ID   uint32 // of the BPF program, 0 if there is none
	// Other is what the record contradicts, "" if nothing. Since is when Other began.
	Other string
	Since uint64
	// Excused is true if the finding may be harmless: a record that would explain it
	// may have been lost, or was not asked for, or kernels do this regularly.
	Excused bool
}

// Findings checks the recording's records against one another and yields what it finds
// in the order of time. It reads the recording once more. Contradictions between the
// old bytes of pokes and other facts are in Image.Conflicts.
func (r *Replay) Findings() iter.Seq[Finding] { return r.findings(false) }

// findings is Findings. If all is set, it also looks at the records that cannot have a finding.
func (r *Replay) findings(all bool) iter.Seq[Finding] {
	return func(yield func(Finding) bool) {
		c := &checker{r: r, programs: make(map[uint32]uint64), pending: make(map[uint32][]Finding),
			lengths: make(map[timeline.Range]bool), loaded: make(map[uint32]bool), maybe: make(map[uint64]bool),
			spoiled: make(map[*Coverage]intervals)}
		c.start()
		compares := c.r.SampledWrites() > 0
		core := coreText{order: r.Recording.ByteOrder()}
		core.lo, core.hi = r.Image.Text()
		t := &trail{r: r, without: &core}
		if !all && !compares {
			t.collect()
		}
		if all || compares || core.removes {
			t = &trail{r: r}
			t.collect()
		}
		t.dropDoubles()
		for ch := range t.visit {
			switch {
			case ch.KSymbol != nil:
				c.symbol(ch.Time, ch.KSymbol)
			case ch.BPF != nil:
				c.bpf(ch.Time, ch.BPF)
			case ch.Poke != nil:
				c.poke(ch.Poke)
				if compares {
					p := *ch.Poke
					p.Old, p.New = bytes.Clone(p.Old), bytes.Clone(p.New)
					c.pokes = append(c.pokes, &p)
				}
			}
		}
		c.end()
		c.crossCheck()
		slices.SortStableFunc(c.found, func(a, b Finding) int { return cmp.Compare(a.Time, b.Time) })
		for _, f := range c.found {
			if !yield(f) {
				return
			}
		}
	}
}

// coreText is a filter of records: it skips the pokes of the kernel's core text, which is
// always there, so they have no finding.
type coreText struct {
	lo, hi  uint64
	order   binary.ByteOrder
	removes bool // a poke says that some of it was removed, so all of them are needed
}

// skips reports whether a record is a poke of core text. However many bytes it has, none is
// after the end of that text.
func (c *coreText) skips(rec *perfdata.Record) bool {
	const most = 0xffff // bytes of a poke
	if rec.Type != perfdata.RecordTextPoke || len(rec.Raw) < pokeBytes {
		return false
	}
	addr := c.order.Uint64(rec.Raw[8:])
	if addr >= c.hi || c.lo > addr && c.lo-addr > most {
		return false
	}
	c.removes = c.removes || c.order.Uint16(rec.Raw[18:]) == 0
	return c.lo <= addr && c.hi-addr >= most
}

// skipsRun is skips for a run of pokes of which none adds or removes code.
func (c *coreText) skipsRun(p *pokePlaces) bool {
	return !p.makes && c.lo <= p.lo && p.hi <= p.end && p.end <= c.hi
}

// A registered is a range that a symbol record or kallsyms has.
type registered struct {
	timeline.Range
	name  string
	since uint64
	image bool // its length is an upper bound
}

// A checker is the state of Findings.
type checker struct {
	r        *Replay
	alive    []*registered // by address
	spoiled  map[*Coverage]intervals
	maybe    map[uint64]bool      // addresses that may have been registered before the recording
	modules  []*timeline.Lifetime // their text, by address
	reach    []uint64             // the greatest Hi of modules[:i+1]
	programs map[uint32]uint64    // the programs that are loaded, and their load times
	// pending are the functions, by the thread that registered them, whose program
	// was not loaded yet.
	pending map[uint32][]Finding
	lengths map[timeline.Range]bool // every range that was registered
	loaded  map[uint32]bool         // every program that was loaded
	pokes   []*perfdata.TextPoke    // if a probe saw their writes
	found   []Finding
}

// intervals are disjoint intervals of time, in order.
type intervals []timeline.Interval

// intervalsOf returns the times of limits.
func intervalsOf(limits []Limit) (out intervals) {
	list := slices.Clone(limits)
	slices.SortFunc(list, func(a, b Limit) int { return cmp.Compare(a.From, b.From) })
	for _, l := range list {
		if n := len(out); n > 0 && l.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, l.To)
			continue
		}
		out = append(out, timeline.Interval{From: l.From, To: l.To})
	}
	return out
}

// meet reports whether one of them shares time with [from, to).
func (x intervals) meet(from, to uint64) bool {
	i := sort.Search(len(x), func(i int) bool { return x[i].To > from })
	return i < len(x) && x[i].From < to
}

// excused reports whether a record of some kind may be missing between two times.
func (c *checker) excused(cov *Coverage, from, to uint64) bool {
	if _, ok := c.spoiled[cov]; !ok {
		c.spoiled[cov] = intervalsOf(cov.Limits)
	}
	return cov.Verdict == None || c.spoiled[cov].meet(from, to)
}

// add adds a finding. A record that is missing between from and the finding's time excuses it.
func (c *checker) add(f Finding, from uint64) {
	cov := &c.r.Report.Coverage
	to := timeline.Later(f.Time, 1)
	f.Excused = f.Kind == PokeOfNothing || c.excused(&cov.KSymbols, from, to) || f.ID != 0 && c.excused(&cov.BPF, from, to)
	c.found = append(c.found, f)
}

// start adds what was there before the recording, and checks the modules.
func (c *checker) start() {
	for e := range listedSymbols(c.r.kallsyms) {
		if c.r.undated.kallsyms || c.r.Report.Undated {
			c.maybe[e.Addr] = true
			continue
		}
		c.insert(registered{timeline.Range{Lo: e.Addr, Hi: e.Addr + uint64(e.Len)}, e.Name, 0, e.Kind == timeline.SymbolBPF})
	}
	for l := range c.r.Image.Lifetimes {
		if l.Kind == timeline.ModuleText && !l.Undated() {
			c.modules = append(c.modules, l)
		}
	}
	reach := uint64(0)
	for _, l := range c.modules {
		reach = max(reach, l.Hi)
		c.reach = append(c.reach, reach)
	}
	for i, l := range c.modules {
		for _, o := range c.modulesIn(l.Lo, l.Hi, i) {
			if l.From < o.To && o.From < l.To {
				c.add(Finding{Kind: ModulesOverlap, Time: max(l.From, o.From), Addr: max(l.Lo, o.Lo),
					Len: min(l.Hi, o.Hi) - max(l.Lo, o.Lo), Name: l.Name, Other: o.Name, Since: o.From}, 0)
			}
		}
	}
}

// modulesIn returns those of the first n modules whose text shares addresses with [lo, hi).
func (c *checker) modulesIn(lo, hi uint64, n int) (out []*timeline.Lifetime) {
	for i := sort.Search(n, func(i int) bool { return c.modules[i].Lo >= hi }) - 1; i >= 0 && c.reach[i] > lo; i-- {
		if lo < c.modules[i].Hi {
			out = append(out, c.modules[i])
		}
	}
	slices.Reverse(out)
	return out
}

// at returns the index of the first live range that ends after addr.
func (c *checker) at(addr uint64) int {
	i, _ := slices.BinarySearchFunc(c.alive, addr, func(x *registered, a uint64) int {
		if x.Hi <= a {
			return -1
		}
		return 1
	})
	return i
}

// insert adds a live range. It replaces one that begins at the same address.
func (c *checker) insert(x registered) {
	i := c.at(x.Lo)
	if i < len(c.alive) && c.alive[i].Lo == x.Lo {
		c.alive[i] = &x
		return
	}
	c.alive = slices.Insert(c.alive, i, &x)
}

// symbol checks a KSYMBOL record of time t; 0: perf announced it.
func (c *checker) symbol(t uint64, k *perfdata.KSymbol) {
	x := registered{timeline.Range{Lo: k.Addr, Hi: k.Addr + uint64(k.Len)}, string(k.Name), t,
		k.Kind == perfdata.KSymbolBPF && !timeline.IsProgramName(string(k.Name))}
	f := Finding{Time: t, Addr: k.Addr, Len: uint64(k.Len), Name: x.name}
	if k.Flags&perfdata.KSymbolUnregister != 0 {
		c.unregister(f, x)
		return
	}
	c.lengths[x.Range] = true
	if k.Kind == perfdata.KSymbolBPF && (!x.image || k.Len == 0) { // an interpreted program has no name
		f.Kind = SymbolWithoutLoad
		c.pending[k.TID] = append(c.pending[k.TID], f)
	}
	if x.Hi <= x.Lo {
		return // an interpreted program has no code
	}
	for _, m := range c.modulesIn(x.Lo, x.Hi, len(c.modules)) {
		// If the symbol contradicts the module, the image ended the module at t.
		if m.From <= t && (t < m.To || t == m.To && m.Ended == timeline.ModuleContradicted) {
			f.Kind, f.Other, f.Since = BirthInModule, m.Name, m.From
			c.add(f, m.From)
		}
	}
	i := c.at(x.Lo)
	for i < len(c.alive) && c.alive[i].Lo < x.Hi {
		o := c.alive[i]
		switch {
		case o.image && o.Lo < x.Lo:
			o.Hi = x.Lo // its length was an upper bound
			i++
			continue
		case x.image && o.Lo > x.Lo:
			x.Hi = o.Lo
			continue
		case o.since == 0 && o.Lo == x.Lo && (t == 0 || o.name == x.name):
			// kallsyms has it and perf announced it, or perf announced it before its record.
		default:
			f.Kind, f.Other, f.Since = BirthOverLive, o.name, o.since
			c.add(f, o.since)
		}
		c.alive = slices.Delete(c.alive, i, i+1)
	}
	c.insert(x)
}

// unregister checks a KSYMBOL record that unregisters x. f is what a finding has of it.
func (c *checker) unregister(f Finding, x registered) {
	i := c.at(x.Lo)
	switch {
	case x.Hi <= x.Lo:
	case i < len(c.alive) && c.alive[i].Lo == x.Lo:
		c.alive = slices.Delete(c.alive, i, i+1)
	case c.maybe[x.Lo]:
		delete(c.maybe, x.Lo)
	default:
		f.Kind = DeathWithoutBirth
		c.add(f, 0)
	}
}

// bpf checks a BPF_EVENT record of time t; 0: perf announced it.
func (c *checker) bpf(t uint64, e *perfdata.BPFEvent) {
	f := Finding{Time: t, ID: e.ID}
	since, there := c.programs[e.ID]
	switch e.Kind {
	case perfdata.BPFLoad:
		c.loaded[e.ID] = true
		if len(c.pending[e.TID]) == 0 {
			f.Kind = LoadWithoutSymbol
			c.add(f, 0)
		}
		delete(c.pending, e.TID)
		if there && since != 0 { // perf also announces what was loaded just then
			f.Kind, f.Since = LoadedTwice, since
			c.add(f, since)
		}
		c.programs[e.ID] = t
	case perfdata.BPFUnload:
		if !there {
			f.Kind = UnloadWithoutLoad
			c.add(f, 0)
		}
		delete(c.programs, e.ID)
	}
}

// poke checks that code was recorded where a poke changes some.
func (c *checker) poke(p *perfdata.TextPoke) {
	n := uint64(max(len(p.Old), len(p.New)))
	for s := range c.r.Image.At(p.Time).Spans(p.Addr, n) {
		if s.Reason == timeline.NothingAlive {
			c.add(Finding{Kind: PokeOfNothing, Time: p.Time, Addr: p.Addr, Len: n}, 0)
			return
		}
	}
}

// end checks what is left after the last record, and the infos.
func (c *checker) end() {
	for _, thread := range slices.Sorted(maps.Keys(c.pending)) {
		for _, f := range c.pending[thread] {
			c.add(f, f.Time)
		}
	}
	if why := c.r.Report.Misfit; why != "" {
		c.found = append(c.found, Finding{Kind: SnapshotMisfit, Other: why})
	}
	for _, l := range c.r.Report.Coverage.Pokes.Limits {
		if l.Reason == timeline.Damaged {
			c.found = append(c.found, Finding{Kind: RecordDamaged, Other: l.Text})
		}
	}
	for p, err := range c.r.Recording.BPFProgs() {
		if err != nil || c.r.scanned().machine != 0 {
			continue // infos are the host's
		}
		if !c.loaded[p.ID] {
			c.add(Finding{Kind: InfoWithoutLoad, ID: p.ID}, 0)
			continue
		}
		for f := range p.Funcs() {
			if at := (timeline.Range{Lo: f.Addr, Hi: f.Addr + uint64(len(f.Code))}); len(f.Code) > 0 && !c.lengths[at] {
				c.add(Finding{Kind: InfoElsewhere, ID: p.ID, Addr: at.Lo, Len: at.Hi - at.Lo}, 0)
			}
		}
	}
}
