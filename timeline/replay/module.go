// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
)

// A moduleEvent is a sample of module:module_load or module:module_free.
type moduleEvent struct {
	time   uint64
	loaded bool
}

// moduleLives says when the modules of a list of modules were loaded and unloaded. A forged list may have
// very many modules, or one name very often.
type moduleLives struct {
	s      *scan
	listed Times // when the list was read
	byName map[string]moduleLife
	// Where unloads may be missing: the limits of coverage by their beginnings, and up to when each or one
	// before it reaches.
	limits []Limit
	reach  []uint64
	// complete is the beginning of the first limit, but for the one at the start.
	complete    uint64
	noneStarted func() bool // scan.noneStarted, which is asked once
}

// A moduleLife has the times at which a module was loaded and unloaded; 0 if unknown. certain is false if
// modules of its name came and went several times while the list was read.
type moduleLife struct {
	loaded, freed uint64
	certain       bool
}

// moduleLives returns the lives of the modules of a list that was read at some time of listed.
func (s *scan) moduleLives(listed Times) *moduleLives {
	x := &moduleLives{s: s, listed: listed, byName: make(map[string]moduleLife), limits: slices.Clone(s.report.Coverage.Modules.Limits),
		complete: timeline.MaxTime, noneStarted: sync.OnceValue(s.noneStarted)}
	slices.SortFunc(x.limits, func(a, b Limit) int { return cmp.Compare(a.From, b.From) })
	reach := uint64(0)
	for _, l := range x.limits {
		reach = max(reach, l.To)
		x.reach = append(x.reach, reach)
		if !l.isStart() {
			x.complete = min(x.complete, l.From)
		}
	}
	return x
}

// of returns the life of the named module.
func (x *moduleLives) of(name string) moduleLife {
	life, ok := x.byName[name]
	if !ok {
		life = x.derive(name)
		x.byName[name] = life
	}
	return life
}

func (x *moduleLives) derive(name string) moduleLife {
	events := slices.Clone(x.s.moduleEvents[name])
	slices.SortStableFunc(events, func(a, b moduleEvent) int { return cmp.Compare(a.time, b.time) })
	events = slices.Compact(events) // perf writes some records twice
	from, to := x.listed.From, x.listed.To
	loaded, meanwhile := uint64(0), 0
	for _, e := range events {
		switch {
		case e.time < from:
			loaded = 0
			if e.loaded {
				loaded = e.time
			}
		case e.time <= to:
			if meanwhile++; e.loaded {
				loaded = e.time
			}
		}
	}
	if meanwhile > 1 {
		return moduleLife{}
	}
	if meanwhile == 1 && x.mayBeOther(events) {
		return moduleLife{}
	}
	for _, e := range events {
		if e.time > loaded && e.time >= from && (!e.loaded || e.time > to) {
			freed := e.time
			if e.loaded {
				freed = x.unloadedBy(max(loaded, from), e.time)
			}
			return moduleLife{loaded, freed, true}
		}
	}
	return moduleLife{loaded, 0, true}
}

// mayBeOther reports whether the list may have a module of the same name as the one that was loaded, or freed, while
// the list may have been made: one that went before with no record, or that came afterwards with none. The two need not
// have one address.
func (x *moduleLives) mayBeOther(events []moduleEvent) bool {
	from, to := x.listed.From, x.listed.To
	e := events[slices.IndexFunc(events, func(e moduleEvent) bool { return e.time >= from })]
	if from == 0 { // perf makes its own list in the recording
		from, to = x.s.report.First, min(to, x.s.report.Horizon)
	}
	if e.loaded {
		return x.mayMiss(from, e.time)
	}
	return x.mayMiss(e.time, to)
}

// mayMiss reports whether a load or an unload between two times may have no record.
func (x *moduleLives) mayMiss(from, to uint64) bool {
	n := sort.Search(len(x.limits), func(i int) bool { return x.limits[i].From >= to })
	return from < min(x.s.report.First, to) || n > 0 && x.reach[n-1] > from
}

// unloadedBy returns the latest time at which a module was unloaded with no record, if it
// was there at from, and a module of its name is loaded at to. The kernel changes the text
// of a module before it makes the record of the load. So such a change just before to is
// not one of the module that was there.
func (x *moduleLives) unloadedBy(from, to uint64) uint64 {
	n := sort.Search(len(x.limits), func(i int) bool { return x.limits[i].From >= to })
	if n == 0 || x.reach[n-1] <= from {
		return to
	}
	return min(x.reach[n-1], to)
}

// stayed reports whether a module that perf copied was still loaded when perf enabled
// the events of modules, and from then until its first recorded unload. Between the
// copy and the enabling, it may have been unloaded and loaded again, if a program was started.
// Then its text is not the one that was copied: what had been patched in it is not.
func (x *moduleLives) stayed(name string) bool {
	freed := x.of(name).freed
	return x.noneStarted() && freed <= x.complete && slices.Contains(x.s.moduleEvents[name], moduleEvent{freed, false})
}

// tracepoint is the layout of a tracepoint's raw data, from TRACING_DATA.
type tracepoint struct {
	id   uint64 // attr.config
	name int    // offset of __data_loc char[] name
}

// parseTracepoint returns the layout of an event in TRACING_DATA, which has the text of
// /sys/kernel/tracing/events/module/NAME/format. It returns the zero tracepoint if a
// field is missing.
func parseTracepoint(data []byte, name string) tracepoint {
	_, text, ok := bytes.Cut(data, []byte("name: "+name+"\nID: "))
	if !ok {
		return tracepoint{}
	}
	if end := bytes.Index(text, []byte("print fmt:")); end >= 0 {
		text = text[:end]
	}
	id, _, _ := bytes.Cut(text, []byte("\n"))
	t := tracepoint{id: number(id)}
	for line := range bytes.Lines(text) {
		_, rest, ok := bytes.Cut(line, []byte("__data_loc char[] name;\toffset:"))
		if ok {
			t.name = int(min(number(rest), math.MaxUint16)) // records are not longer
		}
	}
	if t.id == 0 || t.name < 8 {
		return tracepoint{}
	}
	return t
}

// number returns the number at the start of b; 0 if there is none or it is too large.
func number(b []byte) (n uint64) {
	for _, c := range b {
		if c < '0' || c > '9' || n > 1<<32 {
			break
		}
		n = n*10 + uint64(c-'0')
	}
	return n
}

// nameOf returns the name in a tracepoint's raw data.
func (t tracepoint) nameOf(raw []byte, u32 func([]byte) uint32) (string, bool) {
	if t.name+4 > len(raw) {
		return "", false
	}
	loc := u32(raw[t.name:]) // length in the upper half, offset in the lower
	lo, n := int(loc&0xffff), int(loc>>16)
	if n == 0 || lo+n > len(raw) {
		return "", false
	}
	name, _, ok := bytes.Cut(raw[lo:lo+n], []byte{0})
	return string(name), ok
}

// changesOfModules returns the times of all recorded loads and unloads of modules, ascending.
func (s *scan) changesOfModules() (times []uint64) {
	for _, events := range s.moduleEvents {
		for _, e := range events {
			times = append(times, e.time)
		}
	}
	slices.Sort(times)
	return times
}

// textPage is the page size of x86-64. Where pages are larger, this size gives an
// earlier end of module text, which proves less.
const textPage = 4096

// moduleEnds says where the text of modules ends according to kallsyms. There may be very many modules.
type moduleEnds struct {
	k    *kcore.Kallsyms     // may be nil
	init map[string][]uint64 // addresses of init_module by module, ascending
	data map[string][]uint64 // of symbols of data; nil until one is needed
}

func newModuleEnds(k *kcore.Kallsyms) *moduleEnds {
	x := &moduleEnds{k: k, init: make(map[string][]uint64)}
	if k != nil {
		for _, s := range k.LookupInModules("init_module") {
			x.init[s.Module] = append(x.init[s.Module], s.Addr)
		}
	}
	return x
}

// textEnd returns the end of a module's text.
// It returns the module's address if its text changes without records:
//
//   - before the module is Live;
//   - in a livepatch module (taint K): the kernel writes relocations into it whenever
//     a module that it patches is loaded (klp_apply_section_relocs of
//     kernel/livepatch/core.c).
func (x *moduleEnds) textEnd(m *kcore.Module) uint64 {
	if m.State != "Live" || strings.Contains(m.Taints, "K") {
		return m.Addr
	}
	if x.k != nil {
		if last, ok := x.k.LastFunction(m.Name, m.Addr, x.beforeInit(m)); ok {
			return last&^(textPage-1) + textPage
		}
	}
	return m.Addr
}

// isAt reports whether kallsyms, which is of another time than the list of modules, has the
// module where the list has it: it may have been loaded again meanwhile, close by.
func isAt(k *kcore.Kallsyms, m *kcore.Module) bool {
	if k == nil {
		return false
	}
	_, begins := k.LastFunction(m.Name, m.Addr, m.Addr+textPage)
	if begins {
		_, before := k.LastFunction(m.Name, 0, m.Addr)
		begins = !before
	}
	return begins
}

// beforeInit returns the end of the addresses in which kallsyms has no init text of a
// module that is Live.
//
// The module is Live before its init text is freed (do_init_module of
// kernel/module/main.c), and the size in /proc/modules has both until then. So init text
// may lie where the list says that the module is. It is freed without a record. kallsyms
// has its symbols until then: init_module is one, unless the module's function for it is no
// init text. Between a module's text and its init text are its data.
func (x *moduleEnds) beforeInit(m *kcore.Module) uint64 {
	end := m.Addr + m.Size
	// A module's first page is text: init text begins on a page of its own after it.
	init := x.init[m.Name]
	i, _ := slices.BinarySearch(init, m.Addr+textPage)
	if i == len(init) || init[i] >= end {
		return end
	}
	if x.data == nil {
		x.data = make(map[string][]uint64)
		for _, s := range x.k.All() {
			if s.Module != "" && strings.IndexByte("dDbBrR", s.Type) >= 0 {
				x.data[s.Module] = append(x.data[s.Module], s.Addr)
			}
		}
	}
	data := x.data[m.Name]
	if k, _ := slices.BinarySearch(data, m.Addr+1); k < len(data) && data[k] < end {
		return min(data[k], init[i]) // with separate areas (Linux 6.4), init text may come before data
	}
	return m.Addr // without a symbol of data, nothing separates the two
}
