// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"debug/elf"
	"slices"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/timeline"
)

// An Alternative is one of the things that a CPU may execute at an address while code is
// changed there: one of the instructions, or the trap.
type Alternative struct {
	// Inst is the instruction, without its text. Of the trap it is the trap instruction.
	// Its Bytes belong to the cursor, and are valid until its next call of Alternatives.
	Inst disasm.Inst
	// Trap reports whether it is the trap of a poke. Its handler then acts as Effect says.
	Trap   bool
	Effect Effect
	// Standing is that of the instruction's bytes; of the trap, [timeline.Known].
	Standing timeline.Standing
	// Validity is the time during which the instruction is there. Where it is there again
	// before the last asked time, it reaches from the first time to the last one. Of the trap
	// it is the proven window.
	timeline.Validity
	// Possible reports whether a CPU may execute it at the asked time. Only the old and
	// the new bytes of a poke are listed outside of their time, for decoders whose time is
	// less exact than they know.
	Possible bool
}

// An Effect is what the trap handler does in place of the instruction, before it returns.
// It is the effect of the instruction that the poke writes (poke_int3_handler,
// arch/x86/kernel/alternative.c).
type Effect struct {
	Kind   EffectKind
	Target uint64 // of a jump, branch and call
	// Next is the address after the new instruction. A call pushes it, or puts it in the
	// link register if Links.
	Next  uint64
	Links bool
}

// EffectKind is the kind of an [Effect].
type EffectKind uint8

const (
	EffectUnknown EffectKind = EffectKind(patching.TrapUnknown) // the handler returns anywhere
	EffectNop     EffectKind = EffectKind(patching.TrapNop)     // it returns to Next
	EffectJump    EffectKind = EffectKind(patching.TrapJump)    // it returns to Target
	EffectBranch  EffectKind = EffectKind(patching.TrapBranch)  // it returns to Target or to Next, by the flags
	EffectCall    EffectKind = EffectKind(patching.TrapCall)    // it returns to Target, with Next as return address
	EffectReturn  EffectKind = EffectKind(patching.TrapReturn)  // it returns to the return address that it pops
	EffectProbe   EffectKind = EffectKind(patching.TrapProbe)   // it runs a kprobe, and returns to wherever the kprobe continues
)

// String returns the name of the kind, for example "call".
func (k EffectKind) String() string { return patching.TrapKind(k).String() }

// MayResumeAt reports whether the trap handler may return to addr.
func (e Effect) MayResumeAt(addr uint64) bool {
	switch e.Kind {
	case EffectNop:
		return addr == e.Next
	case EffectJump, EffectCall:
		return addr == e.Target
	case EffectBranch:
		return addr == e.Target || addr == e.Next
	}
	return true
}

// An Observation is what a trace says about the execution of one instruction. Its zero
// value says that the instruction was executed, and that it did not trap.
type Observation struct {
	// Trapped: the trap handler was entered from here. Resumed is where it returned to, 0
	// if that is not known (yet).
	Trapped bool
	Resumed uint64
	// Next is the address of the instruction that was executed next, 0 if that is not
	// known: the target of a TIP, or the address of a FUP.
	Next uint64
	// Branch is what a TNT bit says, if the instruction took one.
	Branch Branch
}

// Branch is the outcome of a conditional branch.
type Branch uint8

const (
	BranchUnknown  Branch = iota // nothing is known of a conditional branch here
	BranchTaken                  // the CPU went to its target
	BranchNotTaken               // the CPU went on behind it
)

// Agrees reports whether the alternative may be what was observed.
func (a *Alternative) Agrees(o Observation) bool {
	class := a.Inst.Class
	if o.Trapped {
		switch {
		case a.Trap:
			return o.Resumed == 0 || a.Effect.MayResumeAt(o.Resumed)
		case class == disasm.Trap:
			return true
		}
		return false
	}
	if a.Trap || class == disasm.Trap || o.Branch != BranchUnknown && class != disasm.CondJump {
		return false
	}
	if o.Next == 0 {
		return true
	}
	next := a.Inst.Addr + uint64(len(a.Inst.Bytes))
	switch class {
	case disasm.Other:
		return o.Next == next
	case disasm.Call, disasm.Jump:
		return o.Next == a.Inst.Target
	case disasm.CondJump:
		return o.Next == a.Inst.Target && o.Branch != BranchNotTaken || o.Next == next && o.Branch != BranchTaken
	}
	return true
}

// maxVersions is how many versions of an instruction during the asked time Alternatives
// returns at most. With the bytes of pokes from outside of that time there are about four
// times as many.
const maxVersions = 16

// Alternatives returns what a CPU may execute at addr at some time from first to last, both
// included, in nanoseconds of the recording's clock. An instruction must begin at addr.
//
// First come the versions of the instruction during that time, with both sides of a change
// that is in flight. Then come the traps of the windows that are open at addr, and then the
// old and new bytes of those pokes that were not there during that time. Equal ones are
// listed once. Where code does not change there is one alternative, and none where no bytes
// are given.
//
// The result belongs to the cursor and is valid until its next call of Alternatives. It
// does not allocate once the cursor has been used for a while, unless a change is in flight or
// facts contradict one another. On architectures that package disasm cannot decode the result is
// empty.
func (c *Cursor) Alternatives(addr, first, last uint64) []Alternative {
	if c.decoder == nil {
		return nil
	}
	// A time of a poke is only as exact as the CPUs' clocks.
	lo, hi := first-min(first, c.uncertainty), last+min(timeline.MaxTime-last, c.uncertainty)
	c.answer = &c.answers[addr%answerSets]
	if c.addr == addr && c.same.At(lo) && c.same.At(hi) {
		return c.alternatives
	}
	c.addr, c.alternatives = addr, c.alternatives[:0]
	c.same = c.SameWindows(addr, 1, first)
	for t := lo; len(c.alternatives) < maxVersions; {
		v := c.addVersion(addr, t, true)
		c.same.Since, c.same.Until = max(c.same.Since, v.Since), min(c.same.Until, v.Until)
		if v.Until > hi || v.Until <= t {
			break
		}
		t = v.Until
	}
	if !c.same.At(lo) || !c.same.At(hi) {
		c.same = timeline.Validity{}
	}
	c.windows = c.AppendWindows(c.windows[:0], addr, 1, first, last)
	if len(c.windows) == 0 {
		return c.alternatives
	}
	for i := range c.windows {
		if w := &c.windows[i]; w.Addr == addr {
			c.addTrap(w)
		}
	}
	for i := range c.windows {
		if w := &c.windows[i]; len(c.alternatives) < 4*maxVersions {
			c.addVersion(addr, w.Switch-min(1, w.Switch), false)
			c.addVersion(addr, w.Switch, false)
		}
	}
	return c.alternatives
}

// addVersion adds the instruction that is at addr at time t, unless it is listed. It
// returns the time during which the instruction is there.
func (c *Cursor) addVersion(addr, t uint64, possible bool) timeline.Validity {
	code := c.room()
	b := c.Read(addr, t, code)
	if b.Given == 0 {
		return b.Validity
	}
	inst := c.decoder.Decode(code[:b.Given], addr)
	if len(inst.Bytes) < len(code) && (b.Since > 0 || b.Until < timeline.MaxTime) {
		// What follows the instruction does not matter, unless there is none: then it may
		// be that the rest of one is not known.
		var only [instRoom]byte
		whole := b.Validity
		if b = c.Read(addr, t, only[:len(inst.Bytes)]); inst.Data {
			b.Validity = whole
		}
	}
	if b.Standing == timeline.InFlight {
		if sides := c.sides(addr, t); len(sides) > 0 {
			return c.addSides(addr, t, sides, b.Validity, possible)
		}
	}
	c.addOne(inst, &b, possible)
	return b.Validity
}

// addOne adds an instruction of which b is said, unless it is listed.
func (c *Cursor) addOne(inst disasm.Inst, b *timeline.Block, possible bool) {
	for i := range c.alternatives {
		if a := &c.alternatives[i]; !a.Trap && string(a.Inst.Bytes) == string(inst.Bytes) {
			if possible {
				a.Until = max(a.Until, b.Until)
			}
			a.Standing = min(a.Standing, b.Standing)
			return
		}
	}
	c.alternatives = append(c.alternatives, Alternative{Inst: inst, Standing: b.Standing, Validity: b.Validity, Possible: possible})
}

// addSides adds the instructions that begin with the sides of the changes that are in flight at time t, the
// newest one first. It returns the time around t in which they are the sides; at most whole.
func (c *Cursor) addSides(addr, t uint64, sides [][]byte, whole timeline.Validity, possible bool) timeline.Validity {
	for i := range sides {
		if len(c.alternatives) >= 4*maxVersions {
			break
		}
		code := sides[(i+len(sides)-1)%len(sides)]
		own := c.room()
		inst := c.decoder.Decode(own[:copy(own, code)], addr)
		var only [instRoom]byte
		b := c.Read(addr, t, only[:len(inst.Bytes)])
		whole.Since, whole.Until = max(whole.Since, b.Since), min(whole.Until, b.Until)
		c.addOne(inst, &b, possible)
	}
	return whole
}

// sides returns what may be at addr while changes are in flight at time t: the old bytes, those between one
// change and the next, and the new bytes. [Cursor.Read] gives the last change of each byte that may be there,
// and these need not be of one moment: where the clocks of CPUs differ, the time in which a change is in flight
// is another one for a byte that a change next to it writes, too.
//
//	byte 0       e8 known │ e8, 0f in flight     a call's target is changed, then the call to a NOP
//	bytes 1..4   │ call1, call2, nop in flight
//	sides        │ e8 call1, e8 call2            the NOP is not possible yet
func (c *Cursor) sides(addr, t uint64) (sides [][]byte) {
	var room [instRoom]byte
	b := c.Read(addr, t, room[:])
	code := room[:b.Given]
	var parts []sidesPart
	for s := range c.image.At(t).Spans(addr, uint64(b.Given)) {
		if s.Standing == timeline.InFlight && len(s.Candidates) > 0 {
			parts = append(parts, sidesPart{code[s.Addr-addr:], s.Candidates, 0})
		}
	}
	for i := range parts {
		p := &parts[i]
		for k := len(p.candidates) - 1; k > p.side; k-- {
			switch not, made := c.isElsewhere(p.candidates[k].Fact, addr, len(code), t); {
			case not:
				p.candidates = p.candidates[:k]
			case made:
				p.side = k
			}
		}
	}
	for more := len(parts) > 0; more && len(sides) < 4*maxVersions; more = nextSide(parts) {
		for _, p := range parts {
			copy(p.code, p.candidates[p.side].Bytes)
		}
		sides = append(sides, bytes.Clone(code))
	}
	return sides
}

// isElsewhere reports whether some byte of the n at addr shows that a change of it is not made yet at time t, or
// that it is: the change is not in flight there.
func (c *Cursor) isElsewhere(change timeline.Fact, addr uint64, n int, t uint64) (not, made bool) {
	if change.Source != timeline.SourcePoke || change.Time == 0 {
		return false, false
	}
	for s := range c.image.At(change.Time-1).Spans(addr, uint64(n)) {
		if !isInFlight(&s, change) {
			continue
		}
		for now := range c.image.At(t).Spans(s.Addr, s.Len) {
			if !isInFlight(&now, change) {
				not, made = not || t < s.Since, made || t >= s.Until
			}
		}
	}
	return not, made && !not
}

// isInFlight reports whether a change is in flight in all of s.
func isInFlight(s *timeline.Span, change timeline.Fact) bool {
	return s.Standing == timeline.InFlight && slices.ContainsFunc(s.Candidates, func(x timeline.Candidate) bool { return x.Fact == change })
}

// A sidesPart is a span of bytes whose changes are in flight.
type sidesPart struct {
	code       []byte // begins with the span
	candidates []timeline.Candidate
	side       int // the candidate that is there
}

// nextSide makes the next change, in all parts that it writes; false if all are made. A change that
// still has another one before it in some part waits for that one:
//
//	orig  | 55      | 48 89 e5 53    candidates of two parts: a kprobe is armed, then optimised
//	armed | cc      |
//	jump  | e9      | 10 00 00 00    orig, cc 48 89 e5 53, and the jump are the sides
func nextSide(parts []sidesPart) bool {
	next := -1
	for i, p := range parts {
		if p.side+1 == len(p.candidates) {
			continue
		}
		change := p.candidates[p.side+1].Fact
		waits := slices.ContainsFunc(parts, func(o sidesPart) bool {
			return o.side+2 < len(o.candidates) && slices.ContainsFunc(o.candidates[o.side+2:], func(c timeline.Candidate) bool { return c.Fact == change })
		})
		if !waits {
			next = i
			break
		}
		if next < 0 {
			next = i // the order of the parts is contradictory: some change must be the next
		}
	}
	if next < 0 {
		return false
	}
	change := parts[next].candidates[parts[next].side+1].Fact
	for i := range parts {
		if p := &parts[i]; p.side+1 < len(p.candidates) && p.candidates[p.side+1].Fact == change {
			p.side++
		}
	}
	return true
}

// addTrap adds the trap of a window.
func (c *Cursor) addTrap(w *timeline.Window) {
	code := c.room()
	switch {
	case w.Len > len(code):
		code = nil
	case c.Read(w.Addr, w.Switch, code[:w.Len]).Standing.HasBytes():
		code = code[:w.Len]
	default:
		code = disputed(c.image, w)
	}
	effect := effectOf(c.machine, w, code, c.return0)
	for i := range c.alternatives {
		if a := &c.alternatives[i]; a.Trap && a.Effect == effect {
			a.Since, a.Until = min(a.Since, w.Proven.From), max(a.Until, w.Proven.To)
			return
		}
	}
	c.alternatives = append(c.alternatives, Alternative{
		Inst: disasm.Inst{Addr: w.Addr, Bytes: c.trap, Class: disasm.Trap}, Trap: true, Effect: effect,
		Standing: timeline.Known, Validity: timeline.Validity{Since: w.Proven.From, Until: w.Proven.To}, Possible: true,
	})
}

// Effect returns the effect of the trap that a CPU may meet in the window w, one of
// [Replay.Windows]. [Cursor.Alternatives] says the same, and faster.
func (r *Replay) Effect(w *timeline.Window) Effect {
	code := make([]byte, w.Len)
	if !r.Image.At(w.Switch).Read(w.Addr, code).Standing.HasBytes() {
		code = disputed(r.Image, w)
	}
	return effectOf(r.arch.machine, w, code, r.staticCallReturn0())
}

// disputed returns the bytes that the poke of w wrote, if a later fact contradicts them; nil
// if they are not all known. The handler acts by what the poke writes, whatever came later.
func disputed(im *timeline.Image, w *timeline.Window) (code []byte) {
	for s := range im.At(w.Switch).Spans(w.Addr, uint64(w.Len)) {
		i := slices.IndexFunc(s.Candidates, func(c timeline.Candidate) bool {
			return c.Fact == timeline.Fact{Source: timeline.SourcePoke, Time: w.Switch}
		})
		if i < 0 {
			return nil
		}
		code = append(code, s.Candidates[i].Bytes...)
	}
	return code
}

// effectOf returns the effect of the trap of w. code is the new bytes, empty if they are not
// known; return0 is the address of __static_call_return0, 0 if that is not known.
func effectOf(machine elf.Machine, w *timeline.Window, code []byte, return0 uint64) Effect {
	switch {
	case w.Kind != timeline.PokeBatch:
		return Effect{Kind: EffectProbe}
	case len(code) == 0:
		return Effect{}
	case return0 != 0 && machine == elf.EM_X86_64 && patching.IsReturnZero(code):
		// __static_call_transform gives text_poke_bp the call to emulate, since xor5rax is not
		// one of the instructions that the handler knows.
		return Effect{Kind: EffectCall, Target: return0, Next: w.Addr + uint64(w.Len)}
	}
	e := patching.Emulate(machine, w.Addr, code)
	return Effect{Kind: EffectKind(e.Kind), Target: e.Target, Next: w.Addr + uint64(w.Len), Links: e.Links}
}

// staticCallReturn0 returns the address of __static_call_return0, which a static call that
// returns 0 seems to call; 0 if it is not known.
func (r *Replay) staticCallReturn0() (addr uint64) {
	for _, s := range r.Image.At(r.Image.Horizon()).Lookup("__static_call_return0") {
		addr = s.Addr
	}
	return addr
}

// instRoom is the length of the longest instruction, and some.
const instRoom = 16

// room returns the memory for the next alternative's bytes.
func (c *Cursor) room() []byte {
	n := len(c.alternatives) * instRoom
	if n+instRoom > len(c.bytes) { // the bytes in use stay where they are
		c.bytes = make([]byte, max(2*len(c.bytes), 32*instRoom))
	}
	return c.bytes[n:][:instRoom:instRoom]
}
