// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

import (
	"bytes"
	"debug/elf"
	"encoding/binary"

	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A Classifier says by which mechanism each change of a recording was made. It must not
// be used by several goroutines at once.
type Classifier struct {
	r       *replay.Replay
	tables  *Tables // nil if there are none
	machine elf.Machine
	order   binary.ByteOrder
	lo, hi  uint64 // core kernel text
	// The trampolines of the kernel's static calls; 0, 0 if kallsyms does not say.
	sctLo, sctHi uint64
	listed       bool              // kallsyms lists out-of-line code
	places       map[uint64]*place // what was at an address when it was last asked for
	free         []place           // for find: allocated at once
	last         *place            // of places: the one that was looked up last; nil at first
	// Some of places, by a hash of their addresses: those that were asked for last.
	latest [1 << latestBits]struct {
		addr  uint64
		place *place
	}
	// Lasting is called once or twice for a site, so the places of core text are not kept: only
	// those that were found last. One call needs far fewer of them.
	seldom bool
	recent [64]place
	found  int       // how many places were put into recent
	ppc    ppcKernel // of powerpc
	read   bool      // text around a change or where it leads was read, by word or beginsStub
}

// NewClassifier returns a classifier for r's changes. tables may be nil; see
// [ReadTables]. r must stay open while the classifier is in use.
func NewClassifier(r *replay.Replay, tables *Tables) *Classifier {
	c := &Classifier{r: r, tables: tables, machine: r.Machine(), order: r.Recording.ByteOrder(),
		places: make(map[uint64]*place), listed: r.ListsOutOfLine()}
	c.lo, c.hi = r.Image.Text()
	if k := r.Kallsyms(); k != nil {
		c.sctLo, c.sctHi, _ = bounds(k, "__static_call_text_start", "__static_call_text_end")
	}
	if c.machine == elf.EM_PPC64 {
		c.ppc = newPPCKernel(c.order, r.Kallsyms())
	}
	return c
}

// HasTables reports whether the classifier has the kernel's tables.
func (c *Classifier) HasTables() bool { return c.tables != nil }

// Of returns the mechanism of a change; [Other] for a loss. It keeps no reference to
// the change.
func (c *Classifier) Of(change *replay.Change) Mechanism {
	switch {
	case change.Poke != nil:
		return c.Poke(change.Poke, change.Kind)
	case change.KSymbol != nil:
		k := change.KSymbol
		if k.IsInterpreted() {
			return BPFProgram
		}
		return mechanismOf(kindOfDynamic(string(k.Name), k.Kind == perfdata.KSymbolOOL))
	case change.BPF != nil:
		return BPFProgram
	}
	return Other
}

// mechanismOf returns the mechanism that makes and removes code of a kind.
func mechanismOf(k placeKind) Mechanism {
	switch k {
	case program:
		return BPFProgram
	case trampoline, image:
		return BPFTrampoline
	case kprobeSlots:
		return Kprobe
	case optprobeSlots:
		return OptimisedKprobe
	case ftraceOutOfLine:
		return Ftrace
	}
	return Other
}

// Poke returns the mechanism of a poke of this kind. It keeps no reference to p.
func (c *Classifier) Poke(p *perfdata.TextPoke, kind timeline.PokeKind) Mechanism {
	m, _ := c.poke(p, kind)
	return m
}

// poke returns the mechanism of a poke, and if it is Other, why.
func (c *Classifier) poke(p *perfdata.TextPoke, kind timeline.PokeKind) (Mechanism, Fault) {
	at := c.at(p.Addr, p.Time)
	switch kind {
	case timeline.PokeCreated, timeline.PokeRemoved:
		if m := mechanismOf(at.kind); m != Other {
			return m, 0
		}
		return Other, CodeOutside
	case timeline.PokeArmed, timeline.PokeDisarmed:
		if at.kind == text || at.kind == unnamed || at.kind == ftraceText {
			return Kprobe, 0
		}
		return Other, ProbeOutside
	case timeline.PokeUnoptimised:
		if at.kind.dynamic() {
			return Other, ProbeOutside
		}
		if c.leavesSlots(c.decode(p.Addr, p.Old), p.Time) {
			return Kprobe, 0 // it is armed on a branch
		}
		return OptimisedKprobe, 0
	}
	was, is := c.decode(p.Addr, p.Old), c.decode(p.Addr, p.New)
	if was.kind == probe {
		switch {
		case is.kind != jump && is.kind != call: // powerpc and x86 jump to the slot
			return Other, NoForm
		case c.leavesSlots(is, p.Time):
			return Kprobe, 0 // it is disarmed, and was on a branch
		}
		return OptimisedKprobe, 0
	}
	switch at.kind {
	case trampoline, image:
		return BPFTrampoline, 0
	case ftraceOutOfLine, ftraceText:
		if was.leads() || is.leads() || c.machine == elf.EM_PPC64 && c.isStubOps(p) {
			return Ftrace, 0
		}
		return Other, NoForm
	case staticCallText:
		if stub(was) && stub(is) {
			return StaticCall, 0
		}
		return Other, NoForm
	case kprobeSlots, optprobeSlots, otherOutOfLine:
		if c.isSlotFill(p, at) {
			return mechanismOf(at.kind), 0
		}
		return Other, SlotChanged
	}
	m, why := c.byTarget(p, at, was, is)
	if at.kind == program || m == Other || c.tables == nil || p.Addr < c.lo || p.Addr >= c.hi {
		return m, why
	}
	if !c.tables.allow(m, p.Addr) {
		return Other, NotInTable
	}
	return m, 0
}

// stub reports whether the trampoline of a static call can have this instruction
// (__static_call_transform, arch/x86/kernel/static_call.c).
func stub(e effect) bool { return e.kind == jump || e.kind == ret || e.kind == inlined }

// byTarget returns the mechanism of a change in the text of a function or a BPF
// program, by what the old and the new instruction do and where they lead.
func (c *Classifier) byTarget(p *perfdata.TextPoke, at *place, was, is effect) (Mechanism, Fault) {
	if !was.known() || !is.known() {
		if c.machine != elf.EM_X86_64 {
			return c.byWords(p, was, is)
		}
		return Other, NoForm
	}
	// What a site leads to says who made it. The new target counts if there is one.
	for _, e := range []effect{is, was} {
		if !e.leads() {
			continue
		}
		switch c.at(e.target, p.Time).kind {
		case ftraceText, ftraceOutOfLine:
			return Ftrace, 0
		case trampoline:
			return BPFTrampoline, 0
		case program:
			if at.kind == program {
				return BPFProgram, 0 // a tail call: prog_array_map_poke_run, kernel/bpf/arraymap.c
			}
		case optprobeSlots:
			return OptimisedKprobe, 0
		}
	}
	if at.kind == program {
		return Other, ProgramChanged
	}
	if c.machine != elf.EM_X86_64 {
		return c.byWords(p, was, is)
	}
	switch {
	case was.kind == nop && is.kind == jump, was.kind == jump && is.kind == nop:
		to := c.at(was.target|is.target, p.Time)
		switch {
		case to.kind == image:
			return BPFTrampoline, 0 // bpf_dispatcher_update before 6.1
		case c.isEntry(p, at) && (to.kind == unnamed || to.kind == text && to.module != "" && to.module != at.module):
			return c.callOrDirect(p, at, was, is) // a static key's jump stays in its function
		}
		return StaticKey, 0
	case was.kind == nop && is.kind == nop:
		return Other, NoForm
	case was.kind == jump && is.kind == jump && len(p.New) != 5:
		return Other, NoForm
	case was.kind == call || is.kind == call, was.kind == jump && is.kind == jump:
		return c.callOrDirect(p, at, was, is)
	}
	// RET, Jcc and inlined functions: only static calls have them.
	if (was.kind == nop || was.leads() || was.kind == ret || was.kind == inlined) &&
		(is.kind == nop || is.leads() || is.kind == ret || is.kind == inlined) {
		return StaticCall, 0
	}
	return Other, NoForm
}

// callOrDirect returns the mechanism of a call or jump that is set, changed or removed and
// does not lead to ftrace's own code. It is a static call, unless a function's entry leads
// to a module: that may also be ftrace's direct call of the module's trampoline, or the
// jump to it (FTRACE_OPS_FL_JMP, Linux 6.19).
func (c *Classifier) callOrDirect(p *perfdata.TextPoke, at *place, was, is effect) (Mechanism, Fault) {
	doubtful := false
	for _, e := range []effect{was, is} {
		if e.kind != call && e.kind != jump {
			continue
		}
		switch to := c.at(e.target, p.Time); {
		case to.kind == staticCallText:
			return StaticCall, 0
		case to.kind == text && to.module == "":
		case at.kind == unnamed && e.kind == call, c.isEntry(p, at):
			doubtful = true
		}
	}
	switch {
	case !doubtful:
		return StaticCall, 0
	case c.tables != nil && c.tables.Functions[p.Addr]:
		return Ftrace, 0
	case was.kind == call && c.isStub(was.target), is.kind == call && c.isStub(is.target):
		return StaticCall, 0
	}
	if at.kind == text && at.module == "" && (is.kind == call || is.kind == jump) {
		if !c.listed && !c.r.Image.At(p.Time).InModule(is.target) {
			return Other, Ambiguous // a trampoline of ftrace that was there before
		}
		return Other, UnknownCallee
	}
	return Other, Ambiguous
}

// isStub reports whether the trampoline of a static call is at addr, in a module without
// names. A module's text is in no copy that was made before it was loaded, so the bytes
// at addr are known only if something changed them. Nothing but a static call changes a
// jump to another jump, or to a return.
func (c *Classifier) isStub(addr uint64) bool {
	var code [5]byte
	if c.r.Image.At(c.r.Image.Horizon()).Read(addr, code[:]).Given < len(code) {
		return false
	}
	return stub(c.decode(addr, code[:]))
}

// byWords is byTarget where instructions are words. The 64-bit kernels of these architectures have no
// static calls that change text (HAVE_STATIC_CALL), so on arm64 and s390 what calls is ftrace's.
func (c *Classifier) byWords(p *perfdata.TextPoke, was, is effect) (Mechanism, Fault) {
	at := c.at(p.Addr, p.Time)
	if c.machine == elf.EM_PPC64 {
		return c.powerpc(p, at, was, is)
	}
	unnamed := at.kind == unnamed
	// A later copy of text may have the names of a module from its load on.
	named := at.kind == text && at.module != ""
	switch {
	case c.machine == elf.EM_AARCH64 && unnamed && len(bytes.Trim(p.Old, "\x00")) == 0:
		return Kprobe, 0 // the first use of a slot, in a page from before the recording
	case c.machine == elf.EM_AARCH64 && unnamed && len(p.New) == 8 && binary.LittleEndian.Uint16(p.New[6:]) == 0xffff:
		return Ftrace, 0 // the pointer before a function of a module that is being loaded
	case c.machine == elf.EM_AARCH64 && named && len(p.New) == 8 && binary.LittleEndian.Uint16(p.New[6:]) == 0xffff && bytes.Equal(p.Old, twoNOPs):
		return Ftrace, 0
	case c.machine == elf.EM_AARCH64 && (unnamed || named) && was.kind == nop && bytes.Equal(p.New, moveLink):
		return Ftrace, 0 // at the entry of a function of such a module
	case was.kind == call && (is.kind == call || is.kind == nop), was.kind == nop && is.kind == call:
		return Ftrace, 0
	case was.kind == nop && is.kind == jump, was.kind == jump && is.kind == nop:
		return StaticKey, 0
	case c.machine == elf.EM_AARCH64 && len(p.New) == 8:
		if _, ok := c.r.OpsLiteral(c.r.Image.At(p.Time), p.Addr); ok {
			return Ftrace, 0
		}
	}
	return Other, NoForm
}

// moveLink is mov x9, x30, which ftrace puts before its call site (ftrace_init_nop,
// arch/arm64/kernel/ftrace.c).
var moveLink = []byte{0xe9, 0x03, 0x1e, 0xaa}

// twoNOPs is what the compiler leaves before a function for the pointer to its ftrace_ops.
var twoNOPs = []byte{0x1f, 0x20, 0x03, 0xd5, 0x1f, 0x20, 0x03, 0xd5}

// isEntry reports whether a change is where the compiler puts the call of __fentry__: the
// first instruction of a function, or the one after its ENDBR64.
func (c *Classifier) isEntry(p *perfdata.TextPoke, at *place) bool {
	return at.kind == text && (p.Addr == at.lo || p.Addr == at.lo+4 && c.endbr(at.lo, p.Time))
}

// endbr reports whether there is an ENDBR64 at time t, or what the kernel writes over one
// (gen_endbr_poison, arch/x86/include/asm/ibt.h).
func (c *Classifier) endbr(addr, t uint64) bool {
	var code [4]byte
	if c.r.Image.At(t).Read(addr, code[:]).Given < len(code) {
		return false
	}
	word := binary.LittleEndian.Uint32(code[:])
	return word == 0xfa1e0ff3 || word == 0x001f0f66 || word == 0xd6401f0f || word == 0x909001eb
}

// An effectKind says what an instruction does that some mechanism writes.
type effectKind uint8

const (
	unknown effectKind = iota
	nop
	jump
	branch // conditional jump
	call
	ret
	inlined  // what the called function would do, in place of a static call
	probe    // a trap
	saveLink // powerpc's mflr before the call of _mcount
)

type effect struct {
	kind   effectKind
	target uint64 // of jump, branch and call
}

func (e effect) known() bool { return e.kind != unknown }

// leads reports whether the instruction has a target.
func (e effect) leads() bool { return e.kind == jump || e.kind == branch || e.kind == call }

// decode returns what the instruction code at addr does.
func (c *Classifier) decode(addr uint64, code []byte) effect {
	if c.machine == elf.EM_X86_64 && len(code) == 5 {
		// Nearly all pokes.
		switch code[0] {
		case 0x0f:
			if code[1] == 0x1f {
				return effect{kind: nop}
			}
		case 0xe8:
			return effect{call, addr + 5 + uint64(int64(int32(binary.LittleEndian.Uint32(code[1:]))))}
		case 0xe9:
			return effect{jump, addr + 5 + uint64(int64(int32(binary.LittleEndian.Uint32(code[1:]))))}
		}
	}
	switch c.machine {
	case elf.EM_PPC64:
		return decodePowerpc(c.order, addr, code)
	case elf.EM_S390:
		return decodeS390(addr, code)
	}
	e := patching.Emulate(c.machine, addr, code)
	switch e.Kind {
	case patching.TrapNop:
		return effect{kind: nop}
	case patching.TrapJump:
		return effect{jump, e.Target}
	case patching.TrapBranch:
		return effect{branch, e.Target}
	case patching.TrapCall:
		return effect{call, e.Target}
	case patching.TrapReturn:
		return effect{kind: ret}
	case patching.TrapProbe:
		return effect{kind: probe}
	}
	if c.machine == elf.EM_X86_64 && patching.IsInlinedCall(code) {
		return effect{kind: inlined}
	}
	return effect{}
}

func decodePowerpc(order binary.ByteOrder, addr uint64, code []byte) effect {
	if len(code) < 4 {
		return effect{}
	}
	word := order.Uint32(code)
	target := addr + uint64(int64(int32(word<<6)>>6)&^3)
	switch {
	case word == patching.PowerpcNOP:
		return effect{kind: nop}
	case word == patching.PowerpcTrap:
		return effect{kind: probe}
	case word == patching.PowerpcMFLR:
		return effect{kind: saveLink}
	case patching.IsPowerpcBL(word):
		return effect{call, target}
	case patching.IsPowerpcBL(word | patching.PowerpcLink):
		return effect{jump, target}
	}
	return effect{}
}

// decodeS390 reads BRCL. Only its mask changes: 0 never branches, 15 always
// (arch/s390/kernel/jump_label.c).
func decodeS390(addr uint64, code []byte) effect {
	switch {
	case len(code) >= 2 && code[0] == 0 && code[1] == 2:
		return effect{kind: probe}
	case len(code) < 6 || code[0] != 0xc0 || code[1]&0xf != 4:
		return effect{}
	case code[1] == 0x04:
		return effect{kind: nop}
	case code[1] == 0xf4:
		return effect{jump, addr + uint64(2*int64(int32(binary.BigEndian.Uint32(code[2:]))))}
	}
	return effect{}
}

// Lasting returns what Of returns for a change, which must be a poke, and an interval around its
// time. In it, a change of the same bytes at the same address is by the same mechanism: nothing
// that the mechanism was derived from comes or goes meanwhile.
func (c *Classifier) Lasting(change *replay.Change) (Mechanism, timeline.Interval) {
	c.seldom = true
	defer func() { c.seldom = false }()
	p := change.Poke
	c.read = false
	m, _ := c.poke(p, change.Kind)
	if c.read {
		return m, timeline.Interval{From: p.Time, To: p.Time + 1}
	}
	at := c.at(p.Addr, p.Time)
	same := timeline.Interval{From: at.from, To: at.to}
	for _, e := range [...]effect{c.decode(p.Addr, p.Old), c.decode(p.Addr, p.New)} {
		if e.leads() {
			at := c.at(e.target, p.Time)
			same.From, same.To = max(same.From, at.from), min(same.To, at.to)
		}
	}
	return m, same
}

// Symbol returns what [timeline.View.Symbol] returns for core text: the name, the module and where the
// function begins. It is fast if the address is that of the last call of [Classifier.Lasting].
func (c *Classifier) Symbol(addr, t uint64) (name, module string, start uint64, ok bool) {
	c.seldom = true
	defer func() { c.seldom = false }()
	p := c.at(addr, t)
	return p.name, p.module, p.lo, p.kind != unnamed
}
