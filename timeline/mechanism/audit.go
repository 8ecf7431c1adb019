// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

import (
	"bytes"
	"cmp"
	"debug/elf"
	"maps"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A Violation is a change that is not accounted for.
type Violation struct {
	Fault Fault
	// Time is when the change was made. An unrecorded change was made at some time of
	// [Since, Time); Since is 0 for others, or if nothing bounds it.
	Time, Since uint64
	Addr        uint64
	Old, New    []byte // before and after; nil if not known
	// Target is where the new instruction leads, if Fault is about that; else 0.
	Target uint64
	// Mechanism has the form of the change; Other if none has.
	Mechanism Mechanism
	// The writer. HasWriter is false if no record says who it was, HasCPU if none says on
	// which CPU.
	HasWriter bool
	HasCPU    bool
	CPU       uint32
	PID, TID  uint32
	Comm      string // "" if it is not known
	Detail    string // what else is known, in words; "" if nothing
	// Excused is set if lost or missing records may explain the violation.
	Excused bool
}

// An Audit is the result of [Classifier.Audit].
type Audit struct {
	Counts                       // of all changes
	By     [numMechanisms]uint64 // changes by mechanism
	// Violations are those that were found, by time: the first 10,000 that nothing
	// excuses, and the first 10,000 others. Unaccounted and Excused count all.
	Violations           []Violation
	Unaccounted, Excused uint64
	// Ambiguous counts changes whose form two mechanisms have: that they are allowed is
	// known, but not by which.
	Ambiguous uint64
	// Start is how the text of the first copy compares with the kernel's file; nil if there
	// is no file, or it could not be compared.
	Start *Start
	// Gaps are the times in which changes may have gone unrecorded, with the reason.
	Gaps []replay.Limit
}

// mostViolations bounds the memory of an audit.
const mostViolations = 10000

// Complete reports whether everything is accounted for: no violation, and no gap in
// which a change may have gone unrecorded.
func (a *Audit) Complete() bool { return a.Unaccounted == 0 && len(a.Gaps) == 0 }

func (a *Audit) add(v Violation) {
	n := &a.Unaccounted
	if v.Excused {
		n = &a.Excused
	}
	*n++
	if *n <= mostViolations {
		v.Old, v.New = bytes.Clone(v.Old), bytes.Clone(v.New)
		a.Violations = append(a.Violations, v)
	}
}

// Audit compares every change of the recording with what the kernel's mechanisms allow.
// It reads the recording twice. start is the result of [Classifier.CompareStart], or nil:
// what it found is a part of the audit.
func (c *Classifier) Audit(start *Start) *Audit {
	a := &Audit{Start: start}
	if start != nil {
		for i := range start.violations {
			a.add(start.violations[i])
		}
		a.Unaccounted += start.runs - uint64(len(start.violations))
	}
	for _, l := range c.r.Report.Coverage.Pokes.Limits {
		if l.Reason != timeline.OldBytesMismatch { // that one is of the violations themselves
			a.Gaps = append(a.Gaps, l)
		}
	}
	au := auditor{Classifier: c, a: a, keys: make(map[uint64]uint64), stubs: make(map[uint64]effect),
		has: make(map[effect]int), slots: make(map[uint64]byte), allSlots: len(a.Gaps) == 0,
		probes: newProbeSlots(), loading: make(map[uint32]Violation)}
	au.readStubs()
	for l := range c.r.Image.Lifetimes {
		if l.From == 0 && l.Kind == timeline.OutOfLine {
			au.allSlots = false
		}
	}
	for change := range c.r.Changes() {
		if change.Loss == nil {
			au.change(change)
		}
	}
	for _, tid := range slices.Sorted(maps.Keys(au.loading)) {
		a.add(au.loading[tid])
	}
	for conflict := range c.r.Image.Conflicts() {
		a.add(c.unrecorded(&conflict, a.Gaps))
	}
	for f := range c.r.Findings() {
		if f.Kind == replay.PokeOfNothing {
			continue // its form is checked as that of any other change
		}
		a.add(Violation{Fault: Contradiction, Time: f.Time, Since: f.Since, Addr: f.Addr,
			Detail: strings.TrimSpace(f.Kind.Text() + ": " + cmp.Or(f.Name, f.Other)), Excused: f.Excused})
	}
	slices.SortStableFunc(a.Violations, func(x, y Violation) int { return cmp.Compare(x.Time, y.Time) })
	return a
}

// unrecorded returns the violation for a contradiction between facts: the bytes changed
// at some time, and no record says so.
func (c *Classifier) unrecorded(x *timeline.Conflict, gaps []replay.Limit) Violation {
	v := Violation{Fault: Unrecorded, Time: x.To, Since: x.From, Addr: x.Addr, Detail: x.Reason.Text(), Excused: x.Excused}
	if n := len(x.Candidates); n > 0 {
		v.Old, v.New = x.Candidates[0].Bytes, x.Candidates[n-1].Bytes
	}
	for _, g := range gaps {
		// One contradiction spoils what is known of a module from its last confirmed
		// moment on, which can be after the loss that explains it.
		v.Excused = v.Excused || g.From < x.To && (x.From < g.To || x.Reason == timeline.ModuleContradicted)
	}
	return v
}

// An auditor follows the state of the mechanisms through time.
type auditor struct {
	*Classifier
	a     *Audit
	keys  map[uint64]uint64 // where the jump of each static key's site leads
	stubs map[uint64]effect // the trampolines of static calls, as they are
	has   map[effect]int    // how many of them have this instruction
	slots map[uint64]byte   // of kprobes: the first byte of the copied instruction
	// allSlots is false if some slots may be older than the recording.
	allSlots bool
	probes   probeSlots // where instructions are words
	since    uint64     // from when on the state was followed that contradicts a change
	// loading are the loads of r2 that threads wrote last, in modules that are being loaded.
	loading map[uint32]Violation
	dis     *disasm.Disassembler
}

// readStubs reads the trampolines of static calls as they were at the start.
func (a *auditor) readStubs() {
	k := a.r.Kallsyms()
	if k == nil {
		return
	}
	v := a.r.Image.At(a.r.Report.First)
	for _, s := range k.All() {
		if !strings.HasPrefix(s.Name, "__SCT__") {
			continue
		}
		var code [5]byte
		if v.Read(s.Addr, code[:]).Given == len(code) {
			a.setStub(s.Addr, a.decode(s.Addr, code[:]))
		}
	}
}

func (a *auditor) setStub(addr uint64, e effect) {
	if old, ok := a.stubs[addr]; ok {
		a.has[old]--
	}
	a.stubs[addr] = e
	a.has[e]++
}

func (a *auditor) change(ch *replay.Change) {
	a.a.Counts.add(ch.Time)
	p := ch.Poke
	if p == nil {
		a.a.By[a.Of(ch)]++
		return
	}
	a.followLoading(p)
	m, why := a.poke(p, ch.Kind)
	a.a.By[m]++
	target := uint64(0)
	switch {
	case why == Ambiguous:
		a.a.Ambiguous++
		return
	case m != Other:
		why, target = a.check(p, ch.Kind, m)
	}
	if why != 0 {
		a.a.add(a.violation(ch, m, why, target))
	} else if m == Relocation && a.loadsTOC(p) {
		a.since = p.Time
		v := a.violation(ch, m, NoForm, 0) // unless the call in front of it comes next
		v.Old, v.New = bytes.Clone(v.Old), bytes.Clone(v.New)
		v.Detail = "the call in front of it got no target"
		a.loading[p.TID] = v
	}
}

// violation returns the violation that a change is.
func (a *auditor) violation(ch *replay.Change, m Mechanism, why Fault, target uint64) Violation {
	p := ch.Poke
	v := Violation{Fault: why, Time: p.Time, Addr: p.Addr, Old: p.Old, New: p.New, Target: target, Mechanism: m, Comm: ch.Comm}
	if p.Time != 0 && p.Has&perfdata.SampleTID != 0 {
		v.HasWriter, v.PID, v.TID = true, p.PID, p.TID
	}
	if p.Time != 0 && p.Has&perfdata.SampleCPU != 0 {
		v.HasCPU, v.CPU = true, p.CPU
	}
	// After a gap, the state that was followed up to it may be wrong: that of static calls, of probes
	// and their slots, and of a module that is being loaded.
	followed := m != Other && (why == NoForm || why == SlotChanged)
	for _, g := range a.a.Gaps {
		v.Excused = v.Excused || g.From <= p.Time && (why == NoSuchCall || followed && g.To > a.since)
	}
	return v
}

// check compares a change of mechanism m with what m can do. It returns where the new
// instruction leads, if that is wrong.
func (a *auditor) check(p *perfdata.TextPoke, kind timeline.PokeKind, m Mechanism) (Fault, uint64) {
	at := a.at(p.Addr, p.Time)
	switch kind {
	case timeline.PokeCreated:
		if at.kind == kprobeSlots {
			a.slots[p.Addr] = p.New[0]
		}
		return 0, 0
	case timeline.PokeRemoved:
		delete(a.slots, p.Addr)
		return 0, 0
	case timeline.PokeDisarmed:
		return a.disarm(p), 0
	case timeline.PokeArmed:
		switch {
		case !a.beginsInsn(p, at):
			return ProbeInside, 0
		case !a.hasSlot(p):
			return NoSlot, 0
		}
		a.arm(p)
		return 0, 0
	}
	was, is := a.decode(p.Addr, p.Old), a.decode(p.Addr, p.New)
	switch m {
	case Kprobe:
		switch {
		case at.kind == kprobeSlots:
			return a.fill(p), 0
		case was.kind == probe:
			return a.disarm(p), 0
		case is.kind == probe:
			a.arm(p)
		}
	case Relocation:
		return a.relocation(p, is)
	case StaticKey:
		return a.staticKey(p, at, was, is)
	case StaticCall:
		return a.staticCall(p, at, is)
	case OptimisedKprobe:
		e := is
		if kind == timeline.PokeUnoptimised {
			e = was
		}
		if at.kind == optprobeSlots {
			break // its slot is made
		}
		if k := a.at(e.target, p.Time).kind; e.leads() && k != optprobeSlots && k != otherOutOfLine && a.x86() {
			return WrongTarget, e.target
		}
	case Ftrace, BPFTrampoline:
		return a.attached(p, at, was, is)
	case BPFProgram:
		if to := a.at(is.target, p.Time); is.leads() && to.kind != program {
			return WrongTarget, is.target
		}
	}
	return 0, 0
}

func (a *auditor) x86() bool { return a.machine == elf.EM_X86_64 }

// hasSlot reports whether some slot begins as the instruction that a probe replaces: a
// kprobe has its slot before it is armed (arch_prepare_kprobe,
// arch/x86/kernel/kprobes/core.c).
func (a *auditor) hasSlot(p *perfdata.TextPoke) bool {
	if !a.allSlots || !a.x86() || len(p.Old) == 0 {
		return true
	}
	for _, first := range a.slots {
		if first == p.Old[0] {
			return true
		}
	}
	return false
}

// staticKey checks a site of a static key. Its jump never leaves the function (the label
// of an asm goto), and always leads to the same place.
func (a *auditor) staticKey(p *perfdata.TextPoke, at *place, was, is effect) (Fault, uint64) {
	for _, e := range []effect{was, is} {
		if e.kind != jump {
			continue
		}
		first, met := a.keys[p.Addr]
		if a.tables != nil && a.lo <= p.Addr && p.Addr < a.hi && a.tables.JumpLabels != nil {
			first, met = a.tables.JumpLabels[p.Addr], true
		}
		if met && first != e.target && at.module == "" && at.kind == text {
			return WrongTarget, e.target
		}
		a.keys[p.Addr] = e.target
		if at.kind == text && !at.has(e.target) {
			to := a.at(e.target, p.Time)
			if to.kind != text || to.module != at.module || function(to.name) != function(at.name) {
				return WrongTarget, e.target
			}
		}
	}
	return 0, 0
}

// function returns the name of the function that a compiler made a part of, such as
// print_task of print_task.isra.0.cold.
func function(name string) string {
	name, _, _ = strings.Cut(name, ".")
	return name
}

// staticCall checks a change of a static call. __static_call_update changes the
// trampoline first and then each site, to the same function (kernel/static_call_inline.c).
// So what a site of the kernel calls is what some trampoline jumps to.
func (a *auditor) staticCall(p *perfdata.TextPoke, at *place, is effect) (Fault, uint64) {
	if at.kind == staticCallText {
		a.setStub(p.Addr, is)
		return 0, 0
	}
	// A module can have static calls of its own, whose trampolines have no names.
	if len(a.stubs) == 0 || at.kind != text || at.module != "" {
		return 0, 0
	}
	switch is.kind {
	case nop, ret:
		if a.has[effect{kind: ret}] > 0 || a.anyNamed("return_thunk") {
			return 0, 0
		}
	case inlined:
		if !patching.IsReturnZero(p.New) || a.anyNamed("__static_call_return0") {
			return 0, 0
		}
	case branch:
		if strings.HasPrefix(a.at(is.target, p.Time).name, "__static_call_return") || a.has[effect{jump, is.target}] > 0 {
			return 0, 0
		}
		return NoSuchCall, is.target
	default:
		if a.has[effect{jump, is.target}] > 0 || a.at(is.target, p.Time).kind == staticCallText {
			return 0, 0
		}
		return NoSuchCall, is.target
	}
	return NoSuchCall, 0
}

// anyNamed reports whether some trampoline jumps to a function with this in its name.
func (a *auditor) anyNamed(part string) bool {
	for e, n := range a.has {
		if n > 0 && e.kind == jump && strings.Contains(a.at(e.target, a.r.Report.First).name, part) {
			return true
		}
	}
	return false
}

// attached checks a call or jump of a tracer or a BPF trampoline: it is at an entry, and
// leads to the beginning of what it calls.
func (a *auditor) attached(p *perfdata.TextPoke, at *place, was, is effect) (Fault, uint64) {
	switch at.kind {
	case text:
		if a.x86() && !a.isEntry(p, at) && !a.isNamelessEntry(p.Addr) && (a.tables == nil || !a.tables.Functions[p.Addr]) {
			return NotEntry, is.target
		}
		if (was.kind == call || is.kind == call) && !a.isProfiled(p) {
			return NotEntry, is.target
		}
	case program:
		if p.Addr-at.lo > 16 {
			return NotEntry, is.target
		}
	default:
		return 0, 0 // in ftrace's own code, in an image, in a module without names
	}
	if !is.leads() {
		return 0, 0
	}
	target := is.target
	to := a.at(target, p.Time)
	if a.machine == elf.EM_PPC64 && at.module != "" {
		// A module calls a stub of its own, which leads on.
		if on, ok := a.stubTarget(target, p.Time); ok {
			target, to = on, a.at(on, p.Time)
		}
	}
	switch to.kind {
	case ftraceOutOfLine, ftraceText:
		if target != to.lo && !a.isOutOfLine(p, target) {
			return WrongTarget, is.target
		}
	case trampoline:
		// Until 6.1, a trampoline used the halves of its page in turn
		// (arch_prepare_bpf_trampoline, kernel/bpf/trampoline.c).
		if is.target != to.lo && is.target != to.lo+2048 {
			return WrongTarget, is.target
		}
	case text, unnamed:
		// The bytes of x86-64 show that a call is ftrace's by where it leads. Elsewhere a call of
		// the kernel's text that leads to another function of it is nobody's.
		switch {
		case a.x86() || is.kind != call:
		case to.kind == text && to.module == "":
			return WrongTarget, is.target
		case at.module == "":
			return UnknownCallee, is.target
		}
	}
	return 0, 0
}

// isNamelessEntry reports whether a function without a name seems to begin at addr. The
// linker drops the symbol of a weak function that another one overrides, but not its
// code, and before 6.0 ftrace traced these functions too (FTRACE_MCOUNT_MAX_OFFSET,
// arch/x86/include/asm/ftrace.h). Functions are aligned, and padding or a return is in
// front of them.
func (a *auditor) isNamelessEntry(addr uint64) bool {
	var code [16]byte
	if addr%16 != 0 || a.r.Image.At(a.r.Image.First()).Read(addr-uint64(len(code)), code[:]).Given < len(code) {
		return false
	}
	last := code[len(code)-1]
	if last == 0xc3 || last == patching.INT3 {
		return true
	}
	for n := range code {
		if patching.IsNOP(code[n:]) {
			return true
		}
	}
	// A jump or a call that does not return.
	return code[len(code)-5] == 0xe9 || code[len(code)-5] == 0xe8 || code[len(code)-2] == 0xeb || bytes.HasSuffix(code[:], []byte{0x0f, 0x0b})
}

// beginsInsn reports whether a probe is at the beginning of an instruction. It reports
// true if the function cannot be disassembled up to there.
func (a *auditor) beginsInsn(p *perfdata.TextPoke, at *place) bool {
	if at.kind != text || p.Addr-at.lo > 1<<20 {
		return true
	}
	if a.dis == nil {
		dis, err := disasm.New(a.machine, a.order)
		if err != nil {
			return true
		}
		a.dis = dis
	}
	code := make([]byte, p.Addr-at.lo+16)
	given := a.r.Image.At(max(p.Time, 1)-1).Read(at.lo, code).Given
	if uint64(given) <= p.Addr-at.lo {
		return true
	}
	for in := range a.dis.All(code[:given], at.lo, nil) {
		switch {
		case in.Addr == p.Addr:
			return true
		case in.Addr > p.Addr:
			return false
		case in.Data || in.Text == "(bad)" || len(in.Bytes) > 0 && in.Bytes[0] == patching.INT3:
			return true // another probe is on the way: what follows is not in step
		}
	}
	return true
}
