// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

import (
	"strings"

	"github.com/textreplay/textreplay/timeline"
)

// A placeKind says what is at an address, as far as it matters for who may change it.
type placeKind uint8

const (
	unnamed         placeKind = iota // no symbol: a module that nothing names, or no code
	text                             // a function of the kernel or of a module
	ftraceText                       // the kernel's own code that traced functions call
	staticCallText                   // the trampoline of a static call, __SCT__...
	program                          // a BPF program
	trampoline                       // a BPF trampoline
	image                            // a BPF dispatcher or struct_ops image
	kprobeSlots                      // a page of kprobes' slots
	optprobeSlots                    // a page of optimised kprobes' slots
	ftraceOutOfLine                  // an ftrace trampoline
	otherOutOfLine
)

// dynamic reports whether code of this kind comes and goes.
func (k placeKind) dynamic() bool { return k >= program }

// A place is what is at an address at some time.
type place struct {
	kind   placeKind
	module string // of a module's function
	name   string
	lo, hi uint64 // of the function or of the dynamic code; hi may be lo, if the size is not known
	from   uint64 // it is what is there in [from, to)
	to     uint64
	addr   uint64 // that was asked for
	next   *place // the one that was looked up after it; nil if none was
}

// has reports whether addr is in the place's function.
func (p *place) has(addr uint64) bool { return p.lo <= addr && addr < p.hi }

// at returns what is at addr at time t.
func (c *Classifier) at(addr, t uint64) *place {
	latest := &c.latest[addr*0x9e3779b97f4a7c15>>(64-latestBits)]
	if p := latest.place; p != nil && latest.addr == addr && p.addr == addr && p.from <= t && t < p.to {
		return p
	}
	if c.seldom && c.lo <= addr && addr < c.hi {
		p := &c.recent[c.found%len(c.recent)]
		c.found++
		c.find(p, addr, t)
		latest.addr, latest.place = addr, p
		return p
	}
	// Sites are often changed in the same order as the last time.
	var p *place
	if c.last != nil {
		p = c.last.next
	}
	if p == nil || p.addr != addr {
		p = c.places[addr]
	}
	if p == nil || t < p.from || p.to <= t {
		if len(c.free) == 0 {
			c.free = make([]place, 64)
		}
		p, c.free = &c.free[0], c.free[1:]
		c.find(p, addr, t)
		if len(c.places) >= maxPlaces {
			clear(c.places)
			c.last = nil // else it would keep all that were before it
		}
		c.places[addr] = p
	}
	if c.last != nil {
		c.last.next = p
	}
	c.last = p
	latest.addr, latest.place = addr, p
	return p
}

// maxPlaces bounds the memory of a Classifier. A kernel has some 100,000 sites.
const maxPlaces = 1 << 20

// latestBits is the binary logarithm of how many places are found without a search.
const latestBits = 4

// find sets p to what is at addr at time t.
func (c *Classifier) find(p *place, addr, t uint64) {
	v := c.r.Image.At(t)
	*p = c.findAt(v, addr, t)
	same := v.SameNames(addr)
	p.from, p.to, p.addr = same.From, same.To, addr
}

// findAt is find without the time for which the place is valid.
func (c *Classifier) findAt(v timeline.View, addr, t uint64) place {
	if addr < c.lo || addr >= c.hi {
		// A place that was unregistered a moment ago can still be changed.
		if alive, last := v.LifetimeAt(addr); alive != nil {
			return dynamicPlace(alive)
		} else if last != nil && !c.r.Image.At(t).InModule(addr) {
			return dynamicPlace(last)
		}
	}
	s, ok := v.Symbol(addr)
	if !ok {
		return place{kind: unnamed}
	}
	p := place{kind: text, module: s.Module, name: s.Name, lo: s.Addr, hi: s.Addr + s.Size}
	switch {
	case strings.HasPrefix(s.Name, "__SCT__"), c.sctLo <= addr && addr < c.sctHi:
		p.kind = staticCallText
	case s.Module == "" && isFtraceText(s.Name):
		p.kind = ftraceText
	case s.Module == "" && s.Name == "optinsn_slot": // arch/powerpc/kernel/optprobes_head.S
		p.kind = optprobeSlots
	}
	return p
}

func dynamicPlace(l *timeline.Lifetime) place {
	return place{kind: kindOfDynamic(l.Name, l.Kind == timeline.OutOfLine), name: l.Name, lo: l.Lo, hi: l.Hi}
}

// kindOfDynamic returns the kind of code that a PERF_RECORD_KSYMBOL names.
func kindOfDynamic(name string, outOfLine bool) placeKind {
	switch {
	case !outOfLine && timeline.IsProgramName(name):
		return program
	case !outOfLine && strings.HasPrefix(name, "bpf_trampoline_"):
		return trampoline
	case !outOfLine:
		return image
	case strings.HasPrefix(name, "kprobe_insn_page"):
		return kprobeSlots
	case strings.HasPrefix(name, "kprobe_optinsn_page"):
		return optprobeSlots
	case strings.HasPrefix(name, "ftrace_trampoline"):
		return ftraceOutOfLine
	}
	return otherOutOfLine
}

// isFtraceText reports whether a function of the kernel is one that traced functions
// call, or one whose calls ftrace changes: arch/x86/kernel/ftrace_64.S,
// arch/arm64/kernel/entry-ftrace.S, arch/powerpc/kernel/trace/ftrace_entry.S,
// arch/s390/kernel/mcount.S.
func isFtraceText(name string) bool {
	rest, ok := strings.CutPrefix(name, "ftrace_")
	if !ok { // nearly all functions
		return name == "_mcount" || name == "__fentry__"
	}
	for _, is := range []string{"caller", "regs_caller", "call", "regs_call", "graph_call", "graph_caller", "common", "epilogue", "no_trace", "ool_stub", "tramp"} {
		if rest, ok := strings.CutPrefix(rest, is); ok && (rest == "" || rest[0] == '_') {
			return true
		}
	}
	return false
}
