// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"

	"github.com/textreplay/textreplay/internal/simulator/rawperf"
)

// A poke is a change of an instruction that CPUs may be running.
type poke struct {
	addr uint64
	new  []byte
}

// maxBatch is how many pokes text_poke_bp_batch makes at once (TP_VEC_MAX).
const maxBatch = 256

// recordPoke makes the TEXT_POKE records of a change, which takes effect then.
func (k *Kernel) recordPoke(p *Proc, t *Task, addr uint64, old, new []byte) made {
	m := k.record(p, t, rawperf.TextPoke, rawperf.TypeTextPoke, rawperf.MiscKernel, k.Format.TextPoke(addr, old, new))
	if len(new) > 0 {
		k.logical(m, addr, new)
	}
	return m
}

// batch is text_poke_bp_batch (arch/x86/kernel/alternative.c): it changes sites in
// ascending order, all of which hold INT3 meanwhile. The caller does not hold textMutex.
// batch sorts pokes.
func (k *Kernel) batch(p *Proc, t *Task, pokes []poke) {
	slices.SortFunc(pokes, func(a, b poke) int {
		if a.addr < b.addr {
			return -1
		}
		return 1
	})
	k.textMutex.Lock(p)
	defer k.textMutex.Unlock()
	for chunk := range slices.Chunk(pokes, maxBatch) {
		k.batchLocked(p, t, chunk)
	}
}

func (k *Kernel) batchLocked(p *Proc, t *Task, pokes []poke) {
	traps := make([]Trap, len(pokes))
	old := make([][]byte, len(pokes))
	for i, q := range pokes {
		old[i] = k.Read(q.addr, len(q.new))
		traps[i] = Trap{Addr: q.addr, Len: uint64(len(q.new)), From: k.Now}
		k.mem.write(q.addr, int3)
		p.Pause(20, 400)
	}
	k.syncCores(p)
	for i, q := range pokes {
		if len(q.new) > 1 {
			k.mem.write(q.addr+1, q.new[1:])
		}
		if p.Chance(1, 60) {
			k.migrate(p, t)
		}
		traps[i].poked(k.recordPoke(p, t, q.addr, old[i], q.new))
		p.Pause(100, 3000)
	}
	k.syncCores(p)
	for i, q := range pokes {
		k.mem.write(q.addr, q.new[:1])
		traps[i].To = k.Now
		p.Pause(20, 400)
	}
	k.syncCores(p)
	k.Truth.Traps = append(k.Truth.Traps, traps...)
}

// syncCores is text_poke_sync: an interrupt on every CPU.
func (k *Kernel) syncCores(p *Proc) { p.Pause(2000, 60000) }

// arm writes a kprobe's INT3 (arch_arm_kprobe).
func (k *Kernel) arm(p *Proc, t *Task, addr uint64) {
	k.textMutex.Lock(p)
	defer k.textMutex.Unlock()
	old := k.Read(addr, 1)
	trap := Trap{Addr: addr, Len: 1, From: k.Now}
	k.mem.write(addr, int3)
	k.syncCores(p)
	trap.poked(k.recordPoke(p, t, addr, old, int3))
	trap.To = trap.Poked // from then on INT3 is what CPUs are to meet
	k.Truth.Traps = append(k.Truth.Traps, trap)
}

// disarm restores the instruction under a kprobe's INT3 (arch_disarm_kprobe).
func (k *Kernel) disarm(p *Proc, t *Task, addr uint64, original []byte) {
	k.textMutex.Lock(p)
	defer k.textMutex.Unlock()
	trap := Trap{Addr: addr, Len: 1}
	m := k.recordPoke(p, t, addr, int3, original[:1])
	trap.poked(m)
	trap.From = m.last // until then INT3 is what CPUs are to meet
	p.Pause(20, 2000)
	k.mem.write(addr, original[:1])
	trap.To = k.Now
	k.syncCores(p)
	k.Truth.Traps = append(k.Truth.Traps, trap)
}

// unoptimise replaces an optimised kprobe's JMP by INT3 and the original instruction's
// tail (arch_unoptimize_kprobe, arch/x86/kernel/kprobes/opt.c).
func (k *Kernel) unoptimise(p *Proc, t *Task, addr uint64, original []byte) {
	k.textMutex.Lock(p)
	defer k.textMutex.Unlock()
	old := k.Read(addr, 5)
	new := append(slices.Clone(int3), original[1:5]...)
	trap := Trap{Addr: addr, Len: 5, From: k.Now}
	k.mem.write(addr, int3)
	k.syncCores(p)
	k.mem.write(addr+1, new[1:])
	k.syncCores(p)
	trap.poked(k.recordPoke(p, t, addr, old, new))
	trap.To = trap.Poked // from then on INT3 is what CPUs are to meet
	k.Truth.Traps = append(k.Truth.Traps, trap)
}

// create fills a slot that nobody runs yet.
func (k *Kernel) create(p *Proc, t *Task, name string, addr uint64, code []byte) *Life {
	at := k.recordPoke(p, t, addr, nil, code)
	k.mem.write(addr, code)
	l := k.register(LifeSlot, name, addr, uint64(len(code)))
	l.From, l.Born = at.first, at.last
	return l
}

// retire ends a slot, whose bytes stay.
func (k *Kernel) retire(p *Proc, t *Task, l *Life) {
	old := k.Read(l.Addr, int(l.Len))
	m := k.recordPoke(p, t, l.Addr, old, nil)
	l.Dying, l.To = m.first, m.last
}

// announce makes a KSYMBOL record of l, which begins or ends then. length is what the
// record says, in bytes.
func (k *Kernel) announce(p *Proc, t *Task, l *Life, kind uint16, length uint32, gone bool) {
	var flags uint16
	if gone {
		flags = rawperf.KSymbolUnregister
	}
	m := k.record(p, t, rawperf.KSymbol, rawperf.TypeKSymbol, 0, k.Format.KSymbol(l.Addr, length, kind, flags, l.Name))
	if gone {
		l.Dying, l.To = m.first, m.last
	} else {
		l.From, l.Born = m.first, m.last
	}
}
