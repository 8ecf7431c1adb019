// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/textreplay/textreplay/internal/simulator/rawperf"
)

// A Program is a loaded BPF program.
type Program struct {
	ID    uint32
	Tag   [8]byte
	Funcs []ProgramFunc
}

// A ProgramFunc is a function of a BPF program.
type ProgramFunc struct {
	Life *Life
	Tag  [8]byte
	tail uint64 // the place of a tail call, 0 if there is none
	room int
}

// Programs returns the programs that have an id.
func (k *Kernel) Programs() []*Program { return slices.Clone(k.programs) }

// A trampoline is a BPF trampoline that a function calls.
type trampoline struct {
	f     *Func
	name  string
	image *image
}

type image struct {
	life *Life
	room int
	skip uint64 // where a jump over the rest of the image goes when it is replaced
}

type dispatcher struct {
	image *image
	half  int
	site  uint64
}

// changeProgram loads or unloads a BPF program.
func (k *Kernel) changeProgram(p *Proc, t *Task) {
	k.programMutex.Lock(p)
	defer k.programMutex.Unlock()
	if n := len(k.programs); n < 3 || n < 12 && p.Chance(1, 2) {
		k.loadProgram(p, t)
	} else {
		k.unloadProgram(p, t, p.IntN(n))
	}
}

func (k *Kernel) loadProgram(p *Proc, t *Task) {
	k.lastBPF++
	g := &Program{ID: k.lastBPF}
	n := 1
	if p.Chance(1, 3) {
		n = int(p.Between(2, 4))
	}
	k.programN++
	var same *rand.Rand // of the names and lengths of one of SameNames
	if k.SameNames > 0 {
		same = rand.New(rand.NewPCG(uint64(p.IntN(k.SameNames)), 77))
		n = 1 + same.IntN(2)
	}
	for i := range n {
		code := make([]byte, p.Between(40, 300))
		if same != nil {
			code = make([]byte, 40+same.IntN(260))
		}
		for j := range code {
			code[j] = byte(p.Uint64())
		}
		room := len(code)
		addr := k.allocCode(p, room)
		if addr == 0 {
			break
		}
		f := ProgramFunc{room: room}
		if same != nil {
			binary.BigEndian.PutUint64(f.Tag[:], same.Uint64())
		} else {
			binary.BigEndian.PutUint64(f.Tag[:], p.Uint64())
		}
		entry := 0
		if k.ENDBR {
			entry = copy(code, []byte{0xf3, 0x0f, 0x1e, 0xfa})
		}
		copy(code[entry:], nop5)
		if p.Chance(1, 2) {
			f.tail = addr + 20
			copy(code[20:], nop5)
		}
		k.write(addr, code)
		f.Life = k.register(LifeBPF, fmt.Sprintf("bpf_prog_%x_f%d", f.Tag, i), addr, uint64(len(code)))
		f.Life.From, f.Life.Born = forever, forever // until it is announced
		g.Funcs = append(g.Funcs, f)
		p.Pause(2e4, 3e6)
	}
	if len(g.Funcs) == 0 {
		return
	}
	g.Tag = g.Funcs[0].Tag
	for _, f := range g.Funcs {
		if f.tail != 0 && p.Chance(1, 2) {
			// The map is full already (bpf_tail_call_direct_fixup).
			k.batch(p, t, []poke{{f.tail, branch(0xe9, f.tail, k.Text.Funcs[2].Addr)}})
		}
	}
	k.programs = append(k.programs, g)
	for _, f := range g.Funcs {
		k.announce(p, t, f.Life, rawperf.KSymbolBPF, uint32(f.Life.Len), false)
		p.Pause(200, 4000)
	}
	k.record(p, t, rawperf.BPFEvent, rawperf.TypeBPFEvent, 0, k.Format.BPFEvent(rawperf.BPFLoad, g.ID, g.Tag))
}

func (k *Kernel) unloadProgram(p *Proc, t *Task, i int) {
	g := k.programs[i]
	for _, f := range g.Funcs {
		k.announce(p, t, f.Life, rawperf.KSymbolBPF, uint32(f.Life.Len), true)
		p.Pause(200, 4000)
	}
	k.record(p, t, rawperf.BPFEvent, rawperf.TypeBPFEvent, 0, k.Format.BPFEvent(rawperf.BPFUnload, g.ID, g.Tag))
	k.programs = slices.Delete(k.programs, i, i+1)
	p.Pause(1e5, 20e6)
	for _, f := range g.Funcs {
		if f.tail != 0 && p.Chance(1, 4) {
			// The map is freed later than the program.
			k.batch(p, t, []poke{{f.tail, nop5}})
		}
		k.freeCode(f.Life.Addr, f.room)
	}
}

// changeTailCall makes a program's tail call jump somewhere else, or nowhere.
func (k *Kernel) changeTailCall(p *Proc, t *Task) {
	k.programMutex.Lock(p)
	defer k.programMutex.Unlock()
	if len(k.programs) == 0 {
		return
	}
	g := k.programs[p.IntN(len(k.programs))]
	f := g.Funcs[p.IntN(len(g.Funcs))]
	if f.tail == 0 {
		return
	}
	insn := nop5
	if p.Chance(2, 3) {
		insn = branch(0xe9, f.tail, k.Text.Funcs[p.IntN(6)].Addr)
	}
	k.batch(p, t, []poke{{f.tail, insn}})
}

// makeImage makes a BPF image: it is announced, with a whole page, before its code is
// written.
func (k *Kernel) makeImage(p *Proc, t *Task, name string, size int) *image {
	m := &image{room: size}
	addr := k.allocCode(p, size)
	if addr == 0 {
		return nil
	}
	m.life = k.register(LifeImage, name, addr, uint64(size))
	k.announce(p, t, m.life, rawperf.KSymbolBPF, PageSize, false)
	p.Pause(1e4, 2e6)
	code := make([]byte, size)
	for i := range code {
		code[i] = byte(p.Uint64())
	}
	m.skip = addr + 16
	copy(code[16:], nop5)
	k.write(addr, code)
	return m
}

func (k *Kernel) freeImage(p *Proc, t *Task, m *image) {
	if p.Chance(1, 2) {
		k.batch(p, t, []poke{{m.skip, branch(0xe9, m.skip, m.skip+16)}})
	}
	p.Pause(1e6, 30e6)
	k.announce(p, t, m.life, rawperf.KSymbolBPF, PageSize, true)
	k.freeCode(m.life.Addr, m.room)
}

// changeTrampoline attaches to a function, changes what is attached, or detaches.
func (k *Kernel) changeTrampoline(p *Proc, t *Task) {
	k.traceMutex.Lock(p)
	defer k.traceMutex.Unlock()
	k.programMutex.Lock(p)
	defer k.programMutex.Unlock()
	n := len(k.trampolines)
	if n == 0 || n < 4 && p.Chance(1, 2) {
		f := k.Text.Funcs[p.IntN(len(k.Text.Funcs))]
		if f.entry == 0 || f.owner != nil {
			return
		}
		tr := &trampoline{f: f, name: fmt.Sprintf("bpf_trampoline_%d", 6442450000+p.Uint64N(1000))}
		if tr.image = k.makeImage(p, t, tr.name, int(p.Between(80, 250))); tr.image == nil {
			return
		}
		f.owner = tr
		k.trampolines = append(k.trampolines, tr)
		k.batch(p, t, []poke{{f.entry, branch(0xe8, f.entry, tr.image.life.Addr)}})
		return
	}
	i := p.IntN(n)
	tr := k.trampolines[i]
	old := tr.image
	if p.Chance(1, 2) {
		m := k.makeImage(p, t, tr.name, int(p.Between(80, 250)))
		if m == nil {
			return
		}
		tr.image = m
		k.batch(p, t, []poke{{tr.f.entry, branch(0xe8, tr.f.entry, m.life.Addr)}})
	} else {
		k.trampolines = slices.Delete(k.trampolines, i, i+1)
		k.batch(p, t, []poke{{tr.f.entry, nop5}})
		tr.f.owner = nil
	}
	k.freeImage(p, t, old)
}

// changeDispatcher writes the other half of the dispatcher's page, with no record, and
// makes a function jump there.
func (k *Kernel) changeDispatcher(p *Proc, t *Task) {
	k.programMutex.Lock(p)
	defer k.programMutex.Unlock()
	d := k.dispatcher
	if d == nil {
		m := k.makeImage(p, t, "bpf_dispatcher_xdp", 512)
		if m == nil {
			return
		}
		d = &dispatcher{image: m, site: k.Text.Funcs[3].entry}
		k.dispatcher = d
	}
	d.half ^= 256
	half := make([]byte, 256)
	for i := range half {
		half[i] = byte(p.Uint64())
	}
	at := d.image.life.Addr + uint64(d.half)
	k.write(at, half)
	k.batch(p, t, []poke{{d.site, branch(0xe9, d.site, at)}})
}
