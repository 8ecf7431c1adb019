// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"

	"github.com/textreplay/textreplay/internal/simulator/rawperf"
)

// A tracer is an ftrace_ops: it has patched the entries of functions into calls.
type tracer struct {
	target uint64
	funcs  []*Func
	all    bool // functions of modules that are loaded later too
	page   uint64
	life   *Life // of the trampoline; nil if it calls ftrace_caller
	call   uint64
}

// tracers is how many functions at the beginning of text only ftrace calls: the first one from its
// sites (ftrace_caller, arch/x86/kernel/ftrace_64.S), the others from its trampolines.
const tracers = 3

// changeTracer starts or stops a tracer, or changes one.
func (k *Kernel) changeTracer(p *Proc, t *Task) {
	k.traceMutex.Lock(p)
	defer k.traceMutex.Unlock()
	switch n := len(k.tracers); {
	case n == 0 || n < 3 && p.Chance(1, 2):
		k.startTracer(p, t)
	case p.Chance(1, 4):
		if tr := k.tracers[p.IntN(n)]; tr.life != nil {
			// The call in the trampoline is written again, to whatever it calls.
			k.batch(p, t, []poke{{tr.call, branch(0xe8, tr.call, k.Text.Funcs[1+p.IntN(tracers-1)].Addr)}})
		}
	default:
		i := p.IntN(n)
		tr := k.tracers[i]
		k.tracers = slices.Delete(k.tracers, i, i+1)
		k.stopTracer(p, t, tr)
	}
}

func (k *Kernel) startTracer(p *Proc, t *Task) {
	tr := &tracer{target: k.Text.Funcs[0].Addr, all: p.Chance(1, 3)}
	if p.Chance(2, 3) && !k.makeTrampoline(p, t, tr) {
		return
	}
	texts := []*Text{k.Text}
	for _, m := range k.modules {
		texts = append(texts, m.text)
	}
	var pokes []poke
	for _, text := range texts {
		for _, f := range text.Funcs {
			if f.entry != 0 && f.owner == nil && (tr.all || p.Chance(1, 5)) {
				f.owner = tr
				tr.funcs = append(tr.funcs, f)
				pokes = append(pokes, poke{f.entry, branch(0xe8, f.entry, tr.target)})
			}
		}
	}
	k.tracers = append(k.tracers, tr)
	k.batch(p, t, pokes)
}

// makeTrampoline makes a trampoline of the tracer's own: create_trampoline, and then
// the records of ftrace_update_trampoline.
func (k *Kernel) makeTrampoline(p *Proc, t *Task, tr *tracer) bool {
	if tr.page = k.allocPages(p, 1); tr.page == 0 {
		return false
	}
	code := make([]byte, p.Between(60, 220))
	for i := range code {
		code[i] = byte(p.Uint64())
	}
	tr.target, tr.call = tr.page, tr.page+24
	copy(code[24:], branch(0xe8, tr.call, k.Text.Funcs[1].Addr))
	k.write(tr.page, code)
	tr.life = k.register(LifeTrampoline, "ftrace_trampoline", tr.page, uint64(len(code)))
	k.announce(p, t, tr.life, rawperf.KSymbolOutOfLine, uint32(len(code)), false)
	p.Pause(200, 5000)
	m := k.recordPoke(p, t, tr.page, nil, code)
	tr.life.From, tr.life.Born = m.first, m.last
	return true
}

func (k *Kernel) stopTracer(p *Proc, t *Task, tr *tracer) {
	var pokes []poke
	for _, f := range tr.funcs {
		pokes = append(pokes, poke{f.entry, nop5})
	}
	k.batch(p, t, pokes)
	for _, f := range tr.funcs {
		f.owner = nil
	}
	if tr.life == nil {
		return
	}
	p.Pause(1e6, 30e6)
	k.retire(p, t, tr.life)
	dying, end := tr.life.Dying, tr.life.To
	k.announce(p, t, tr.life, rawperf.KSymbolOutOfLine, uint32(tr.life.Len), true)
	tr.life.Dying, tr.life.To = dying, end
	p.Pause(1e4, 5e6)
	k.freePages(tr.page, 1)
}

// traceComing patches the functions of a module that is being loaded for those tracers
// that trace everything (ftrace_module_enable).
func (k *Kernel) traceComing(p *Proc, t *Task, text *Text) {
	for _, tr := range k.tracers {
		if !tr.all {
			continue
		}
		var pokes []poke
		for _, f := range text.Funcs {
			if f.owner == nil {
				f.owner = tr
				tr.funcs = append(tr.funcs, f)
				pokes = append(pokes, poke{f.entry, branch(0xe8, f.entry, tr.target)})
			}
		}
		k.batch(p, t, pokes)
	}
}

// forget takes a module's functions from all tracers, whose text goes as it is.
func (k *Kernel) forget(text *Text) {
	for _, tr := range k.tracers {
		tr.funcs = slices.DeleteFunc(tr.funcs, func(f *Func) bool { return text.Lo <= f.Addr && f.Addr < text.Hi })
	}
}

// changeKey flips a static key, in all of kernel text and modules.
func (k *Kernel) changeKey(p *Proc, t *Task) {
	k.keyMutex.Lock(p)
	defer k.keyMutex.Unlock()
	n := p.IntN(len(k.keys))
	key := k.keys[n]
	key.enabled = !key.enabled
	var pokes []poke
	texts := []*Text{k.Text}
	for _, m := range k.modules {
		texts = append(texts, m.text)
	}
	for _, text := range texts {
		for _, s := range text.keys {
			if s.key == n {
				pokes = append(pokes, poke{s.addr, s.insn(key.enabled)})
			}
		}
	}
	k.batch(p, t, pokes)
}

// changeCall changes the target of a static call: its trampoline and each of its
// places by itself (arch_static_call_transform).
func (k *Kernel) changeCall(p *Proc, t *Task) {
	k.keyMutex.Lock(p)
	defer k.keyMutex.Unlock()
	n := p.IntN(len(k.calls))
	c := k.calls[n]
	f := k.Text.Funcs[tracers+p.IntN(12)]
	c.target = f.Addr
	k.writeThunk(f)
	k.batch(p, t, []poke{{c.trampoline, branch(0xe9, c.trampoline, c.target)}})
	texts := []*Text{k.Text}
	for _, m := range k.modules {
		texts = append(texts, m.text)
	}
	for _, text := range texts {
		for _, s := range text.calls {
			if s.call == n {
				k.batch(p, t, []poke{{s.addr, branch(0xe8, s.addr, c.target)}})
			}
		}
	}
}
