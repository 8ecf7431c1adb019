// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// SourceLine is the source of code of a BPF program.
type SourceLine struct {
	Program uint32 // id of the program
	Func    string // name of the function in the source, "" if unknown
	// File, Line, Column and Text describe the line. File is "" for code that has no line,
	// like the first instructions of a function.
	File         string
	Line, Column uint32 // counted from 1; Column is 0 if unknown
	Text         string // text of the line
}

// sources are the sources of BPF programs. Their tables are parsed on the first
// question.
type sources struct {
	mu    sync.Mutex
	btf   *perfdata.BPFSource
	progs map[uint32]*programSource
}

// A programSource is a program with its tables, which are parsed once they are needed.
type programSource struct {
	info  *perfdata.BPFProg
	read  bool
	funcs []string          // one for each of info.Ksyms
	lines perfdata.BPFLines // those that have code
}

// first returns the first line of source that code in [lo, hi) comes from.
func (p *programSource) first(lo, hi uint64) (perfdata.BPFLine, bool) {
	i := sort.Search(len(p.lines), func(i int) bool { return p.lines[i].Addr+uint64(p.lines[i].Len) > lo })
	if i == len(p.lines) || p.lines[i].Addr >= hi {
		return perfdata.BPFLine{}, false
	}
	return p.lines[i], true
}

// open reads the programs. The caller holds x.mu.
func (x *sources) open(rec *perfdata.Recording) {
	if x.btf != nil {
		return
	}
	x.btf = rec.BPFSource()
	x.progs = make(map[uint32]*programSource)
	for p, err := range rec.BPFProgs() {
		if err != nil {
			continue // the report has a warning for it
		}
		if _, twice := x.progs[p.ID]; !twice {
			x.progs[p.ID] = &programSource{info: p}
		}
	}
}

// program returns a program with its tables, or nil.
func (x *sources) program(id uint32) *programSource {
	p := x.progs[id]
	if p != nil && !p.read {
		p.read = true
		// Unreadable types only lack names; the program's lines are still right.
		p.funcs, _ = x.btf.FuncNames(p.info)
		p.lines, _ = x.btf.Lines(p.info)
		p.lines = slices.DeleteFunc(p.lines, func(l perfdata.BPFLine) bool { return l.Len == 0 })
	}
	return p
}

// SourceLine returns the function and the line of source of the code at addr at time t,
// in nanoseconds. ok is false if addr is not in a BPF program whose code the recording
// has, or if the recording has no source for it.
func (r *Replay) SourceLine(addr, t uint64) (src SourceLine, ok bool) {
	return r.sourceOf(addr, t, func(p *programSource, _ *timeline.Lifetime) (perfdata.BPFLine, bool) { return p.lines.At(addr) })
}

// FirstSourceLine returns the function of source of the BPF function around addr at time t, in
// nanoseconds, and the line of its first code that has one: its first instructions have none. File
// is "" if no code of it has a line. ok is as for [Replay.SourceLine].
func (r *Replay) FirstSourceLine(addr, t uint64) (src SourceLine, ok bool) {
	return r.sourceOf(addr, t, func(p *programSource, alive *timeline.Lifetime) (perfdata.BPFLine, bool) {
		return p.first(alive.Lo, alive.Hi)
	})
}

// sourceOf returns the function of source at addr at time t, with the line that find returns.
func (r *Replay) sourceOf(addr, t uint64, find func(*programSource, *timeline.Lifetime) (perfdata.BPFLine, bool)) (src SourceLine, ok bool) {
	alive, _ := r.Image.At(t).LifetimeAt(addr)
	if alive == nil || alive.Program == 0 {
		return SourceLine{}, false
	}
	r.sources.mu.Lock()
	defer r.sources.mu.Unlock()
	r.sources.open(r.Recording)
	p := r.sources.program(alive.Program)
	if p == nil {
		return SourceLine{}, false
	}
	src.Program = alive.Program
	if i := slices.Index(p.info.Ksyms, alive.Lo); i >= 0 && i < len(p.funcs) {
		src.Func = p.funcs[i]
	}
	if l, ok := find(p, alive); ok {
		src.File, src.Line, src.Column, src.Text = l.File, l.Line, l.Column, l.Text
	}
	return src, src.Func != "" || src.File != ""
}

// attachedTo returns the lifetime of the BPF function that a trampoline is for. It reads
// the trampoline's name, bpf_trampoline_KEY. The upper half of the key is the target's
// id. The lower half is the id of the target's type (bpf_trampoline_compute_key,
// include/linux/bpf_verifier.h). Bit 31 is set for functions of the kernel and of modules.
// The recording does not have their types.
func (r *Replay) attachedTo(name string, t uint64) *timeline.Lifetime {
	digits, ok := strings.CutPrefix(name, "bpf_trampoline_")
	key, err := strconv.ParseUint(digits, 10, 64)
	if !ok || err != nil || key&(1<<31) != 0 {
		return nil
	}
	r.sources.mu.Lock()
	defer r.sources.mu.Unlock()
	r.sources.open(r.Recording)
	p := r.sources.program(uint32(key >> 32))
	if p == nil || len(p.funcs) == 0 {
		return nil
	}
	target, err := r.sources.btf.FuncName(p.info.BTFID, uint32(key&(1<<31-1)))
	if err != nil {
		return nil
	}
	for i, addr := range p.info.Ksyms {
		if i < len(p.funcs) && p.funcs[i] == target {
			alive, _ := r.Image.At(t).LifetimeAt(addr)
			if alive != nil && alive.Lo == addr && alive.Program == p.info.ID {
				return alive
			}
			return nil
		}
	}
	return nil
}
