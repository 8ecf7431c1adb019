// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"debug/elf"
	"slices"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A context says in whose code an address of a call chain lies. contextKernel is
// the kernel that the image is of.
type context uint8

const (
	contextUnknown context = iota
	contextKernel
	contextUser
	contextGuestKernel
	contextGuestUser
	contextHypervisor
)

// contextOfMode returns the context of a sample's CPU mode.
func contextOfMode(mode uint16) context {
	switch mode {
	case perfdata.MiscKernel:
		return contextKernel
	case perfdata.MiscUser:
		return contextUser
	case perfdata.MiscGuestKernel:
		return contextGuestKernel
	case perfdata.MiscGuestUser:
		return contextGuestUser
	case perfdata.MiscHypervisor:
		return contextHypervisor
	}
	return contextUnknown
}

// contextOfMarker returns the context that begins with a marker, a value of a
// call chain that is not an address.
func contextOfMarker(w uint64) context {
	switch w {
	case perfdata.CallchainKernel:
		return contextKernel
	case perfdata.CallchainUser:
		return contextUser
	case perfdata.CallchainGuest, perfdata.CallchainGuestKernel:
		return contextGuestKernel
	case perfdata.CallchainGuestUser:
		return contextGuestUser
	case perfdata.CallchainHypervisor:
		return contextHypervisor
	}
	return contextUnknown
}

// seen returns the context as seen from the machine of the image: in a record of a guest,
// the kernel is the guest's, not the host's.
func (c context) seen(fromGuest, imageOfGuest bool) context {
	switch {
	case imageOfGuest && c == contextGuestKernel:
		return contextKernel
	case imageOfGuest && c == contextUser, fromGuest && c == contextUser:
		return contextGuestUser
	case fromGuest && !imageOfGuest && c == contextKernel:
		return contextGuestKernel
	}
	return c
}

// timeless is the time of samples without one. No kernel has run for so long.
const timeless = timeline.MaxTime - 1

// A namer returns the locations of addresses.
type namer struct {
	r     *replay.Replay
	tasks *tasks

	kernelMap *mapping
	maps      []*mapping // of the kernel and its modules, by MMAP records
	lives     map[timeline.Symbol]*mapping
	foreign   map[context]*mapping
	mappings  []*mapping // that locations use, by number

	functions []function
	functionN map[function]uint64 // numbers, from 1 on
	locations []location
	locationN map[location]uint64 // numbers, from 1 on
	source    func(addr uint64) []SourceFrame
	inlined   map[uint64][]inlinedLine // by number of the location, the innermost first
	kernel    map[kernelAddr]named     // as of the time last asked for
	others    map[kernelAddr][]named   // as of all other times
}

// A function is a symbol during one lifetime. The parts that come from several source
// files are several functions.
type function struct {
	name, module string
	addr, from   uint64
	file         string // "" where not known
}

// A location is a Location of the profile. Two lifetimes of one address differ in their
// function.
type location struct {
	addr     uint64
	mapping  *mapping // nil: not known
	function uint64   // number; 0: none
	line     uint32   // of the function's file; 0: not known
}

// An inlinedLine is a place in a function that is inlined at a location.
type inlinedLine struct {
	function uint64
	line     uint32
}

// A kernelAddr is an address in a call chain. caller is set for a return address, whose name
// is that of the call before it.
type kernelAddr struct {
	addr   uint64
	caller bool
}

// named is the location of an address during from <= t < to.
type named struct {
	from, to uint64
	location uint64
}

func newNamer(r *replay.Replay, ts *tasks) *namer {
	n := &namer{
		r: r, tasks: ts,
		lives:     make(map[timeline.Symbol]*mapping),
		foreign:   make(map[context]*mapping),
		functionN: make(map[function]uint64),
		locationN: make(map[location]uint64),
		inlined:   make(map[uint64][]inlinedLine),
		kernel:    make(map[kernelAddr]named),
		others:    make(map[kernelAddr][]named),
	}
	// The kernel comes first: pprof takes the first mapping for the program of the
	// profile, and looks for it in the image that it is given. It begins where kernel
	// text does: from this address, pprof computes how far the kernel was moved.
	if r.Report.Guest == 0 {
		n.maps = ts.kernel
	}
	if lo, hi := r.Image.Text(); hi > lo {
		// Code that starts the kernel follows its data, and remains in the call
		// chains of what it started.
		if k := r.Kallsyms(); k != nil {
			for _, end := range k.LookupIn("", "_end") {
				hi = max(hi, end.Addr)
			}
		}
		n.kernelMap = &mapping{start: lo, limit: hi, offset: lo, file: kernelFile}
		if r.Report.Guest == 0 {
			n.kernelMap.buildID = ts.buildIDs[kernelFile]
		}
		n.use(n.kernelMap)
	}
	return n
}

// use numbers a mapping.
func (n *namer) use(m *mapping) {
	if m != nil && m.id == 0 {
		n.mappings = append(n.mappings, m)
		m.id = uint64(len(n.mappings))
	}
}

func (n *namer) location(l location) uint64 {
	id, ok := n.locationN[l]
	if !ok {
		n.use(l.mapping)
		n.locations = append(n.locations, l)
		id = uint64(len(n.locations))
		n.locationN[l] = id
	}
	return id
}

// at returns the location of an address in a call chain at the time t, and the
// interval [from, to) in which it is the same. A return address counts as the one
// before it, the last byte of the call: the code after a call may belong to another
// function.
func (n *namer) at(ctx context, pid uint32, addr, t uint64, caller bool) (id, from, to uint64) {
	if ctx == contextKernel {
		return n.kernelAt(addr, t, caller)
	}
	to = timeline.MaxTime
	if caller {
		addr--
	}
	l := location{addr: addr}
	switch ctx {
	case contextUser:
		if p := n.tasks.processes[pid]; p != nil && t == timeless {
			l.mapping = p.always(addr)
		} else if p != nil {
			l.mapping, from, to = p.find(addr, t)
		}
	case contextGuestKernel:
		l.mapping = n.elsewhere(ctx, guestKernelFile)
	case contextGuestUser:
		l.mapping = n.elsewhere(ctx, "[guest.user]")
	case contextHypervisor:
		l.mapping = n.elsewhere(ctx, "[hypervisor]")
	}
	return n.location(l), from, to
}

// elsewhere returns the mapping for code that the recording does not describe.
func (n *namer) elsewhere(ctx context, file string) *mapping {
	m := n.foreign[ctx]
	if m == nil {
		m = &mapping{limit: ^uint64(0), file: file}
		n.foreign[ctx] = m
	}
	return m
}

func (n *namer) kernelAt(addr, t uint64, caller bool) (id, from, to uint64) {
	key := kernelAddr{addr, caller}
	k, ok := n.kernel[key]
	if ok && k.from <= t && t < k.to {
		return k.location, k.from, k.to
	}
	if ok {
		// Few addresses have other names at other times.
		others := n.others[key]
		i := slices.IndexFunc(others, func(o named) bool { return o.from <= t && t < o.to })
		if i >= 0 {
			k, others[i] = others[i], k
			n.kernel[key] = k
			return k.location, k.from, k.to
		}
		n.others[key] = append(others, k)
	}
	k = n.name(addr, t, caller)
	n.kernel[key] = k
	return k.location, k.from, k.to
}

// name finds the location of an address of the kernel.
func (n *namer) name(addr, t uint64, caller bool) named {
	view := n.r.Image.At(t)
	k := named{to: timeline.MaxTime}
	k.narrow(view, addr)
	if caller && addr > 0 {
		k.narrow(view, addr-1)
		// An interrupt may come before the first instruction of a function: then
		// no call precedes the address.
		if s, ok := view.Symbol(addr); !ok || s.Addr != addr || n.callBefore(view, addr, &k) {
			addr--
		}
	}
	s, ok := view.Symbol(addr)
	// What was there before is no name: a module that no record has may be there now.
	ok = ok && t < s.To
	if t == timeless {
		// Only a name that never changes is certain.
		ok = ok && k.from == 0 && s.From == 0 && s.To == timeline.MaxTime
		k.from, k.to = timeless, timeline.MaxTime
	}
	l := location{addr: addr}
	var inlined []SourceFrame
	if ok {
		f := function{name: s.Name, module: s.Module, addr: s.Addr, from: s.From}
		if !s.Dynamic && s.Module == "" && n.source != nil {
			// The outermost function keeps the name of kallsyms, which has the suffix of a
			// part, such as .isra.0 or .cold.
			if frames := n.source(addr); len(frames) > 0 {
				outer := frames[len(frames)-1]
				f.file, l.line, inlined = outer.File, uint32(max(outer.Line, 0)), frames[:len(frames)-1]
			}
		}
		if s.Dynamic && t != timeless {
			if src, ok := n.r.SourceLine(addr, t); ok {
				f.file, l.line = src.File, src.Line
			}
		}
		l.function = n.function(f)
		if l.mapping = n.mappingOf(&s, t); l.mapping != nil {
			l.mapping.named = true
		}
	} else {
		l.mapping = n.mappingAt(addr, t)
	}
	k.location = n.location(l)
	if _, ok := n.inlined[k.location]; !ok {
		for _, x := range inlined {
			n.inlined[k.location] = append(n.inlined[k.location], inlinedLine{n.function(function{name: x.Func, file: x.File}), uint32(max(x.Line, 0))})
		}
	}
	return k
}

// function returns the number of a function.
func (n *namer) function(f function) uint64 {
	id := n.functionN[f]
	if id == 0 {
		n.functions = append(n.functions, f)
		id = uint64(len(n.functions))
		n.functionN[f] = id
	}
	return id
}

// narrow narrows k to the time around view's in which no code with a name comes or goes at addr.
func (k *named) narrow(view timeline.View, addr uint64) {
	same := view.SameNames(addr)
	k.from, k.to = max(k.from, same.From), min(k.to, same.To)
}

// around narrows k to the side of each of these changes that t is on.
func (k *named) around(t uint64, changes ...uint64) {
	for _, change := range changes {
		if change <= t && change != timeline.MaxTime {
			k.from = max(k.from, change)
		} else {
			k.to = min(k.to, change)
		}
	}
}

// mappingOf returns the mapping that a symbol is in at the time t, nil if it is not known.
func (n *namer) mappingOf(s *timeline.Symbol, t uint64) *mapping {
	switch {
	case s.Dynamic:
		m := n.lives[*s]
		if m == nil {
			file := "[out-of-line]"
			if s.Module != "" {
				file = "[" + s.Module + "]"
			}
			// The offset is the address: pprof takes mappings of one file, offset and size for one, and
			// moves the addresses of all but the first.
			m = &mapping{start: s.Addr, limit: s.Addr + s.Size, offset: s.Addr, file: file}
			n.lives[*s] = m
		}
		return m
	case s.Module != "":
		return n.module(s)
	}
	return n.mappingAt(s.Addr, t)
}

// mappingAt returns the mapping of a kernel address without a symbol: that of the kernel
// itself, or of a module that was loaded when the recording began, unless it has gone by the time t
// or was not there yet; nil if there is none.
func (n *namer) mappingAt(addr, t uint64) *mapping {
	if m := n.kernelMap; m != nil && m.start <= addr && addr < m.limit {
		return m
	}
	var best *mapping
	for _, m := range n.maps {
		// The kernel's mapping may include all modules.
		if m.start <= addr && addr < m.limit && (best == nil || m.start > best.start) {
			best = m
		}
	}
	if best == nil || best.module() == "" {
		return best
	}
	known, there := false, false // of the module of this record
	for l := range n.r.Image.LifetimesAt(addr) {
		if !l.IsModule() {
			continue
		}
		now, same := l.From <= t && t < l.To, l.Name == best.module()
		if t == timeless {
			now = !same || l.From == 0 && l.To == timeline.MaxTime // another one may have been there
		}
		if now && !same {
			return nil
		}
		known, there = known || same, there || same && now
	}
	if known && !there {
		return nil
	}
	return best
}

// module returns the mapping of the module that a symbol is in: that of its MMAP record, or as long
// as the list of modules says, or its text.
func (n *namer) module(s *timeline.Symbol) *mapping {
	for _, m := range n.maps {
		if m.start <= s.Addr && s.Addr < m.limit && m.module() == s.Module {
			return m
		}
	}
	m := mapping{file: "[" + s.Module + "]"}
	for l := range n.r.Image.LifetimesAt(s.Addr) {
		if l.IsModule() && l.Name == s.Module && l.From == s.From {
			m.start, m.limit = l.Lo, l.Hi
		}
	}
	if n.r.Snapshot != nil {
		for _, mod := range n.r.Snapshot.Modules {
			if mod.Name == s.Module && mod.Addr <= s.Addr && s.Addr < mod.Addr+mod.Size {
				m.start, m.limit = mod.Addr, mod.Addr+mod.Size
			}
		}
	}
	if m.limit == 0 {
		return nil
	}
	return n.tasks.mapping(m)
}

// callBefore reports whether a call ends at addr, or cannot be ruled out, and
// narrows k to the time in which the same bytes say so.
func (n *namer) callBefore(view timeline.View, addr uint64, k *named) bool {
	const longest = replay.LongestCall
	if n.r.Machine() != elf.EM_X86_64 || addr < longest {
		return true
	}
	var b [longest]byte
	block := view.Read(addr-longest, b[:])
	k.around(view.Time(), block.Since, block.Until)
	if block.Given < longest {
		return true
	}
	// CALL rel32; CALL r/m64 of a register, with or without a prefix. No function of
	// the kernel ends with another form of CALL.
	return b[0] == 0xe8 || b[3] == 0xff && b[4]&0xf8 == 0xd0
}
