// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/cilium/ebpf/btf"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// SourceLine is where code of a BPF program comes from.
type SourceLine struct {
	Program uint32 // its id
	Func    string // the function's name in the source, "" if not known
	// File, Line, Column and Text are those of the line; File is "" where the
	// code comes from none, as a function's first instructions do.
	File         string
	Line, Column uint32 // 1 is the first; Column 0 if not known
	Text         string // the line itself
}

// sources are the sources of BPF programs. Their tables are parsed when they
// are first asked for.
type sources struct {
	mu    sync.Mutex
	btf   *perfdata.BPFSource
	progs map[uint32]*programSource
}

type programSource struct {
	info  *perfdata.BPFProg
	read  bool
	funcs []string // one for each of info.Ksyms
	lines perfdata.BPFLines
}

// open finds the programs. The caller holds x.mu.
func (x *sources) open(rec *perfdata.Recording) {
	if x.btf != nil {
		return
	}
	x.btf = rec.BPFSource()
	x.progs = make(map[uint32]*programSource)
	for p, err := range rec.BPFProgs() {
		if err != nil {
			continue // the report's warnings tell of it
		}
		if _, twice := x.progs[p.ID]; !twice {
			x.progs[p.ID] = &programSource{info: p}
		}
	}
}

// program returns a program with its tables; nil where there is none.
func (x *sources) program(id uint32) *programSource {
	p := x.progs[id]
	if p != nil && !p.read {
		p.read = true
		// Types that cannot be read name nothing: the program is itself all the same.
		p.funcs, _ = x.btf.FuncNames(p.info)
		p.lines, _ = x.btf.Lines(p.info)
	}
	return p
}

// SourceLine returns which function and which line of source the code at addr
// comes from at time t. ok is false where no BPF program is there whose
// code the recording has, and where that does not say.
func (r *Replay) SourceLine(addr, t uint64) (src SourceLine, ok bool) {
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
	if l, ok := p.lines.At(addr); ok {
		src.File, src.Line, src.Column, src.Text = l.File, l.Line, l.Column, l.Text
	}
	return src, src.Func != "" || src.File != ""
}

// attachedTo returns the life of the BPF function that a trampoline is for,
// by its name bpf_trampoline_KEY. A key is the target's id in the upper half, and
// the id of its type in the lower (bpf_trampoline_compute_key,
// include/linux/bpf_verifier.h). Bit 31 is set for functions of the kernel
// and of modules, whose types the recording does not have.
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
	spec, err := r.sources.btf.BTF(p.info.BTFID)
	if err != nil {
		return nil
	}
	typ, err := spec.TypeByID(btf.TypeID(key & (1<<31 - 1)))
	f, ok := typ.(*btf.Func)
	if err != nil || !ok {
		return nil
	}
	for i, addr := range p.info.Ksyms {
		if i < len(p.funcs) && p.funcs[i] == f.Name {
			alive, _ := r.Image.At(t).LifetimeAt(addr)
			if alive != nil && alive.Lo == addr && alive.Program == p.info.ID {
				return alive
			}
			return nil
		}
	}
	return nil
}
