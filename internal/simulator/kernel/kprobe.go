// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"

	"github.com/textreplay/textreplay/internal/simulator/rawperf"
)

// A probe is a registered kprobe.
type probe struct {
	addr      uint64
	original  []byte
	slot, opt *slot // opt is nil if the probe cannot be optimised
	optimised bool
}

// slotPages are the pages of slots of one size (kprobe_insn_slots and
// kprobe_optinsn_slots, kernel/kprobes.c).
type slotPages struct{ pages []*slotPage }

type slotPage struct {
	life  *Life
	slots []slot
}

// A slot is a place for out-of-line code.
type slot struct {
	life  *Life
	addr  uint64
	state int
}

// States of a slot.
const (
	slotClean = iota
	slotUsed
	slotDirty // a task may still be there
)

// Kinds of slots: their page's name and their size.
var slotKinds = [2]struct {
	name string
	size uint64
}{{"kprobe_insn_page", 16}, {"kprobe_optinsn_page", 128}}

// takeSlot returns a clean slot, on a new page if need be; nil if there is no memory.
func (k *Kernel) takeSlot(p *Proc, t *Task, kind int) *slot {
	s := &k.slots[kind]
	for range 2 {
		for _, page := range s.pages {
			for i := range page.slots {
				if page.slots[i].state == slotClean {
					page.slots[i].state = slotUsed
					return &page.slots[i]
				}
			}
		}
		if len(s.pages) > 0 {
			k.collectSlots(p, t, kind)
		}
	}
	addr := k.allocPages(p, 1)
	if addr == 0 {
		return nil
	}
	page := &slotPage{}
	for a := addr; a < addr+PageSize; a += slotKinds[kind].size {
		page.slots = append(page.slots, slot{addr: a})
	}
	s.pages = append(s.pages, page)
	page.life = k.register(LifePage, slotKinds[kind].name, addr, PageSize)
	k.announce(p, t, page.life, rawperf.KSymbolOutOfLine, PageSize, false)
	page.slots[0].state = slotUsed
	return &page.slots[0]
}

// collectSlots waits until no task can be in a dirty slot, and frees them; pages
// without a used slot go, but for one (collect_garbage_slots).
func (k *Kernel) collectSlots(p *Proc, t *Task, kind int) {
	p.Pause(1e6, 20e6)
	s := &k.slots[kind]
	for _, page := range slices.Clone(s.pages) {
		used := false
		for i := range page.slots {
			if page.slots[i].state == slotDirty {
				page.slots[i].state = slotClean
			}
			used = used || page.slots[i].state == slotUsed
		}
		if !used && len(s.pages) > 1 {
			s.pages = slices.DeleteFunc(s.pages, func(x *slotPage) bool { return x == page })
			k.announce(p, t, page.life, rawperf.KSymbolOutOfLine, PageSize, true)
			p.Pause(1e6, 10e6)
			k.freePages(page.life.Addr, 1)
		}
	}
}

// changeProbe registers, optimises or unregisters a kprobe.
func (k *Kernel) changeProbe(p *Proc, t *Task) {
	k.probeMutex.Lock(p)
	defer k.probeMutex.Unlock()
	switch n := len(k.probes); {
	case n == 0 || n < 12 && p.Chance(1, 2):
		k.registerProbe(p, t)
	case p.Chance(1, 2):
		q := k.probes[p.IntN(n)]
		if q.opt != nil && !q.optimised {
			q.optimised = true
			k.batch(p, t, []poke{{q.addr, branch(0xe9, q.addr, q.opt.addr)}})
		} else if q.optimised {
			q.optimised = false
			k.unoptimise(p, t, q.addr, q.original)
		}
	default:
		i := p.IntN(n)
		q := k.probes[i]
		k.probes = slices.Delete(k.probes, i, i+1)
		if q.optimised {
			k.unoptimise(p, t, q.addr, q.original)
		}
		k.disarm(p, t, q.addr, q.original)
		k.dropSlots(p, t, q)
	}
	if p.Chance(1, 8) {
		k.collectSlots(p, t, p.IntN(2))
	}
}

func (k *Kernel) registerProbe(p *Proc, t *Task) {
	text := k.Text
	if len(k.modules) > 0 && p.Chance(1, 3) {
		text = k.modules[p.IntN(len(k.modules))].text
	}
	if len(text.probes) == 0 {
		return
	}
	addr := text.probes[p.IntN(len(text.probes))]
	if slices.ContainsFunc(k.probes, func(q *probe) bool { return q.addr == addr }) {
		return
	}
	q := &probe{addr: addr, original: k.Read(addr, 8)}
	if q.slot = k.takeSlot(p, t, 0); q.slot == nil {
		return
	}
	code := append(slices.Clone(q.original[:3]), branch(0xe9, q.slot.addr+3, addr+3)...)
	q.slot.life = k.create(p, t, "kprobe_insn_page", q.slot.addr, code)
	if p.Chance(2, 3) {
		if q.opt = k.takeSlot(p, t, 1); q.opt != nil {
			code := make([]byte, p.Between(60, 110))
			for i := range code {
				code[i] = byte(p.Uint64())
			}
			q.opt.life = k.create(p, t, "kprobe_optinsn_page", q.opt.addr, code)
		}
	}
	k.arm(p, t, addr)
	k.probes = append(k.probes, q)
}

func (k *Kernel) dropSlots(p *Proc, t *Task, q *probe) {
	for _, s := range []*slot{q.opt, q.slot} {
		if s != nil {
			k.retire(p, t, s.life)
			s.state = slotDirty
		}
	}
}

// killProbes drops the probes of a module that goes, and leaves its text as it is.
func (k *Kernel) killProbes(p *Proc, t *Task, text *Text) {
	k.probes = slices.DeleteFunc(k.probes, func(q *probe) bool {
		if q.addr < text.Lo || q.addr >= text.Hi {
			return false
		}
		k.dropSlots(p, t, q)
		return true
	})
}
