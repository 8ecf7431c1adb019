// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package ptwalk

import (
	"fmt"
	"slices"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// An Executed is an instruction that a CPU executed.
type Executed struct {
	IP  uint64
	Len uint8
	Raw [15]byte // Len bytes, and then anything
}

// Text is where the walk reads the code. A [replay.Cursor] is one.
type Text interface {
	Read(addr, t uint64, buf []byte) timeline.Block
	Alternatives(addr, first, last uint64) []replay.Alternative
	ProbeMayResumeAt(probe, addr, t uint64) bool
}

// A Walker follows the execution of one CPU through its trace. The fields up to Emit must be
// set. It is for one goroutine, and for one walk.
type Walker struct {
	Text    Text
	Decoder *disasm.Disassembler
	// Time converts a TSC to nanoseconds of the recording's clock.
	Time func(tsc uint64) uint64
	// Handler is the address of the handler of INT3 (asm_exc_int3).
	Handler uint64
	// Emit gets the instructions in the order of their execution.
	Emit func(Executed)

	// Errors are the places at which the walk could not continue. It continued at the next
	// PSB, or where tracing began again.
	Errors []error
	// Traps is how many traps of pokes the CPU met. Emulated is of how many of them the
	// handler returned to one of the addresses that the effect names. Tries is how often an
	// alternative turned out to be wrong.
	Traps, Emulated, Tries int

	events []Event
	state
	choices []choice
	done    []Executed // not emitted yet: a choice before them may be wrong
	cache   [cacheSize]cached
}

// state is all that an instruction changes.
type state struct {
	ip       uint64
	next     int // the next event
	first    uint64
	traps    int
	emulated int
	run      int // instructions since the last event
	// handlers are the handlers of INT3 that the CPU is in, and inner how many interrupts
	// and exceptions came inside of the innermost.
	handlers [4]handler
	depth    int
}

// A handler is a running handler of INT3.
type handler struct {
	trap   uint64 // where the INT3 is
	effect replay.Effect
	any    bool // it may return anywhere
	probe  bool // but not to where another kprobe does
	inner  int
}

// A choice is a place where code was changing, and the state before.
type choice struct {
	state
	done int // instructions in Walker.done
	left []option
}

// An option is something that the CPU may have executed.
type option struct {
	inst   disasm.Inst // Bytes are not valid
	n      uint8
	raw    [15]byte
	trap   bool
	effect replay.Effect
	probe  bool // if it traps, that is the INT3 of a kprobe, whose handler does the usual
}

// cached is a decoded instruction, and the time during which a CPU executes nothing else
// at its address.
type cached struct {
	option
	ip    uint64
	valid timeline.Validity
}

const (
	cacheSize  = 1 << 16
	maxChoices = 4096    // how many choices are kept
	maxPending = 1 << 20 // how many instructions back a choice can be made again
	maxRun     = 1 << 16 // how many instructions a kernel executes without an event, at most
)

// Walk follows the events of a trace, whose times are in the unit of the TSC. It sets Errors
// and the counts.
func (w *Walker) Walk(events []Event) {
	w.events = slices.Clone(events)
	for i := range w.events {
		e := &w.events[i]
		if e.First = w.Time(e.First); e.Last < timeline.MaxTime {
			e.Last = w.Time(e.Last)
		}
	}
	for w.skipToSync(); w.next < len(w.events); {
		err := w.step()
		switch {
		case err == nil:
			w.commit(maxChoices, maxPending)
		case w.next >= len(w.events):
			// The trace ended: it does not say how the code went on.
		case !w.tryNext():
			w.Errors = append(w.Errors, err)
			w.commit(0, 0)
			w.skipToSync()
		}
	}
	w.commit(0, 0)
}

// skipToSync goes to the next place at which the trace gives the IP by itself.
func (w *Walker) skipToSync() {
	for ; w.next < len(w.events); w.next++ {
		if e := &w.events[w.next]; e.Kind == Sync && e.IP != 0 || e.Kind == Enable {
			w.state = state{ip: e.IP, next: w.next + 1, first: e.First, traps: w.traps, emulated: w.emulated}
			return
		}
	}
}

// commit emits what can no longer turn out to be wrong, and forgets the oldest choices.
func (w *Walker) commit(choices, pending int) {
	for len(w.choices) > choices || len(w.choices) > 0 && len(w.done) > pending {
		w.choices = w.choices[1:]
	}
	n := len(w.done)
	if len(w.choices) > 0 {
		n = w.choices[0].done
	} else if n < 1024 && choices > 0 {
		return
	}
	if n == 0 {
		return
	}
	for _, x := range w.done[:n] {
		w.Emit(x)
	}
	w.done = w.done[:copy(w.done, w.done[n:])]
	for i := range w.choices {
		w.choices[i].done -= n
	}
	w.Traps, w.Emulated = w.traps, w.emulated
}

// tryNext goes back to the newest choice that has another option left, and takes it.
func (w *Walker) tryNext() bool {
	for len(w.choices) > 0 {
		c := &w.choices[len(w.choices)-1]
		if len(c.left) == 0 {
			w.choices = w.choices[:len(w.choices)-1]
			continue
		}
		w.Tries++
		o := c.left[0]
		c.left = c.left[1:]
		w.state, w.done = c.state, w.done[:c.done]
		if w.execute(&o) == nil {
			return true
		}
	}
	return false
}

// errorf returns an error about the present place.
func (w *Walker) errorf(format string, args ...any) error {
	offset := 0
	if w.next < len(w.events) {
		offset = w.events[w.next].Offset
	}
	return fmt.Errorf("at %#x, before offset %d of the trace: %s", w.ip, offset, fmt.Sprintf(format, args...))
}

// step takes the events that come before the next instruction, or executes it.
func (w *Walker) step() error {
	e := &w.events[w.next]
	switch {
	case e.Kind == Sync && e.IP == w.ip:
		w.took(e)
		return nil
	case e.Kind == Async && e.IP == w.ip:
		return w.interrupt(e)
	case e.Kind == Lost:
		return w.errorf("packets were lost")
	}
	// The instruction is executed between the last event and this one.
	last := e.Last
	c := &w.cache[w.ip%cacheSize]
	if c.ip != w.ip || !c.valid.At(w.first) || !c.valid.At(last) {
		if !w.fetch(c, w.ip, w.first, last) {
			return w.choose(last)
		}
	}
	return w.execute(&c.option)
}

// fetch reads an instruction into the cache. It reports false if it is not the only one
// that the CPU may execute there from first to last.
func (w *Walker) fetch(c *cached, ip, first, last uint64) bool {
	var code [15]byte
	b := w.Text.Read(ip, first, code[:])
	if b.Given == 0 {
		return false
	}
	inst := w.Decoder.Decode(code[:b.Given], ip)
	n := len(inst.Bytes)
	if v := b.Settled(); b.Standing != timeline.Known || !v.At(first) || !v.At(last) {
		// What follows the instruction does not matter.
		b = w.Text.Read(ip, first, code[:n])
		if v = b.Settled(); b.Standing != timeline.Known || !v.At(first) || !v.At(last) {
			return false
		}
	}
	inst.Bytes = nil
	*c = cached{option{inst: inst, n: uint8(n), raw: code}, ip, b.Settled()}
	return true
}

// choose executes one of several alternatives.
func (w *Walker) choose(last uint64) error {
	e := &w.events[w.next]
	trapped := e.Kind == Target && e.IP == w.Handler
	var traps, texts []option
	for _, a := range w.Text.Alternatives(w.ip, w.first, last) {
		o := option{inst: a.Inst, n: uint8(len(a.Inst.Bytes)), trap: a.Trap, effect: a.Effect}
		copy(o.raw[:], a.Inst.Bytes)
		o.inst.Bytes = nil
		switch {
		case !a.Possible || a.Standing < timeline.Unconfirmed:
		case a.Trap:
			if trapped { // the trap leads to its handler, and to nothing else
				o.probe = o.effect.Kind == replay.EffectProbe
				traps = append(traps, o)
			}
		default:
			o.probe = o.inst.Class == disasm.Trap
			texts = append(texts, o)
		}
	}
	options := append(traps, texts...)
	for _, o := range options {
		if o.probe { // at last, a probe that does something else
			o.probe = false
			options = append(options, o)
		}
	}
	if len(options) == 0 {
		return w.errorf("no bytes are known from %d to %d", w.first, last)
	}
	w.choices = append(w.choices, choice{state: w.state, done: len(w.done), left: options[1:]})
	return w.execute(&options[0])
}

// took advances to the next event.
func (w *Walker) took(e *Event) {
	w.next++
	w.first = e.First
	w.run = 0
}

// interrupt takes an interrupt or an exception.
func (w *Walker) interrupt(e *Event) error {
	w.took(e)
	if w.next >= len(w.events) {
		return w.errorf("the trace ends inside of an event")
	}
	switch to := &w.events[w.next]; {
	case to.Kind == Target && to.IP != 0:
		w.took(to)
		if w.ip = to.IP; w.depth > 0 {
			w.handlers[w.depth-1].inner++
		}
		return nil
	case to.Kind == Disable:
		w.took(to)
		return w.enable()
	}
	return w.errorf("an event leads nowhere")
}

// enable goes to where tracing begins again.
func (w *Walker) enable() error {
	w.depth = 0
	if w.next >= len(w.events) {
		return nil
	}
	e := &w.events[w.next]
	if e.Kind != Enable {
		return w.errorf("tracing ended, and did not begin again")
	}
	w.took(e)
	w.ip = e.IP
	return nil
}

// execute executes an instruction. Its error says what does not fit the trace.
func (w *Walker) execute(o *option) error {
	in := &o.inst
	if w.run++; w.run > maxRun {
		return w.errorf("an endless loop")
	}
	w.done = append(w.done, Executed{in.Addr, o.n, o.raw})
	e := &w.events[w.next]
	switch in.Class {
	case disasm.Other:
		if in.Data {
			return w.errorf("no instruction: % x", o.raw)
		}
		w.ip += uint64(o.n)
		return nil
	case disasm.Call, disasm.Jump:
		w.ip = in.Target
		return nil
	case disasm.CondJump:
		if e.Kind != Branch {
			return w.errorf("a conditional branch without its outcome")
		}
		w.took(e)
		if w.ip += uint64(o.n); e.Taken {
			w.ip = in.Target
		}
		return nil
	}
	// The trace has the target of all others.
	if e.Kind == Disable && in.Class != disasm.Trap {
		w.took(e)
		return w.enable()
	}
	if e.Kind != Target {
		return w.errorf("a branch of class %v without its target", in.Class)
	}
	if (in.Class == disasm.Trap && o.raw[0] == 0xcc) != (e.IP == w.Handler) {
		return w.errorf("an instruction of class %v leads to %#x", in.Class, e.IP) // the first check
	}
	w.took(e)
	w.ip = e.IP
	switch in.Class {
	case disasm.Trap:
		if o.trap {
			w.traps++
		}
		if w.depth < len(w.handlers) {
			w.handlers[w.depth] = handler{trap: in.Addr, effect: o.effect, any: !o.trap, probe: o.probe}
			w.depth++
		}
	case disasm.SyscallReturn:
		if w.depth == 0 {
			break
		}
		h := &w.handlers[w.depth-1]
		if h.inner > 0 {
			h.inner--
			break
		}
		w.depth--
		if !h.any && !h.effect.MayResumeAt(w.ip) {
			return w.errorf("the handler of INT3 returned there, which is not what %v does", h.effect.Kind) // the second check
		}
		if h.probe && !w.Text.ProbeMayResumeAt(h.trap, w.ip, w.first) {
			return w.errorf("the handler of INT3 returned there, which the kprobe at %#x does not", h.trap)
		}
		if k := h.effect.Kind; !h.any && k != replay.EffectUnknown && k != replay.EffectProbe && k != replay.EffectReturn {
			w.emulated++
		}
	}
	return nil
}
