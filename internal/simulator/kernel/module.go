// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"math/rand/v2"
	"slices"
)

// A moduleFile is a module on disk.
type moduleFile struct {
	name                 string
	seed                 uint64
	textPages, dataPages int
}

// A Module is a loaded module.
type Module struct {
	file     *moduleFile
	text     *Text
	data     uint64
	life     *Life
	state    string // as in /proc/modules
	init     uint64 // the page of its init text; 0 once that is freed
	initCode *Life
}

// size is what /proc/modules says: the sum over all areas, that of init text included until
// that is freed.
func (m *Module) size() int {
	pages := m.file.textPages + m.file.dataPages
	if m.init != 0 {
		pages++
	}
	return pages * PageSize
}

// KeepModules waits for a module that comes or goes, and lets no other do so until release is called.
func (k *Kernel) KeepModules(p *Proc) (release func()) {
	k.moduleMutex.Lock(p)
	return k.moduleMutex.Unlock
}

// changeModule loads or unloads a module.
func (k *Kernel) changeModule(p *Proc, t *Task) {
	k.moduleMutex.Lock(p)
	defer k.moduleMutex.Unlock()
	if n := len(k.modules); n < 2 || n < len(k.moduleFiles) && p.Chance(1, 2) {
		k.loadModule(p, t)
	} else {
		k.unloadModule(p, t, k.modules[p.IntN(n)])
	}
}

func (k *Kernel) loadModule(p *Proc, t *Task) {
	var free []*moduleFile
	for _, f := range k.moduleFiles {
		if !slices.ContainsFunc(k.modules, func(m *Module) bool { return m.file == f }) {
			free = append(free, f)
		}
	}
	f := free[p.IntN(len(free))]
	m := &Module{file: f, state: "Loading"}
	base := uint64(0)
	if k.SplitModules {
		if base = k.allocPages(p, f.textPages); base != 0 {
			m.data = k.allocPages(p, f.dataPages)
		}
		if m.data == 0 {
			if base != 0 {
				k.freePages(base, f.textPages)
			}
			return
		}
	} else {
		if base = k.allocPages(p, f.textPages+f.dataPages); base == 0 {
			return
		}
		m.data = base + uint64(f.textPages*PageSize)
	}
	m.init = k.allocPages(p, 1)
	m.text = makeText(rand.New(rand.NewPCG(f.seed, 2)), base, f.textPages*PageSize, k.layout(f.name+"_f"))
	if k.PatternPages {
		k.write(base, make([]byte, f.textPages*PageSize))
	}
	k.write(base, m.text.code) // not patched yet
	k.scribble(p, m)
	p.Pause(1e5, 5e6)
	k.keyMutex.Lock(p)
	k.layInitial(m.text)
	k.write(base, m.text.code)
	for _, c := range k.calls {
		if f := k.funcAt(c.target); f != nil && p.Chance(1, 3) {
			k.writeThunk(f)
		}
	}
	m.life = k.register(LifeModule, f.name, base, uint64(f.textPages*PageSize))
	if m.init != 0 {
		m.initCode = k.loadInit(p, m)
	}
	k.modules = append(k.modules, m)
	k.keyMutex.Unlock()

	k.traceMutex.Lock(p)
	k.traceComing(p, t, m.text)
	k.traceMutex.Unlock()
	k.tracepoint(p, t, ConfigModuleLoad, k.moduleLoadRaw(t, f.name))
	p.Pause(1e4, 3e6)
	k.scribble(p, m)
	m.state = "Live"
	if m.init != 0 {
		// The text of init stays in kallsyms until it is freed.
		p.Pause(1e4, 20e6)
		m.initCode.To = k.Now
		k.freePages(m.init, 1)
		m.init = 0
	}
}

// loadInit makes a module's init text.
func (k *Kernel) loadInit(p *Proc, m *Module) *Life {
	code := make([]byte, 300)
	for i := range code {
		code[i] = byte(p.Uint64())
	}
	k.write(m.init, code)
	return k.register(LifeModule, m.file.name+" init", m.init, PageSize)
}

func (k *Kernel) unloadModule(p *Proc, t *Task, m *Module) {
	if m.state != "Live" || slices.ContainsFunc(k.trampolines, func(tr *trampoline) bool { return m.text.Lo <= tr.f.Addr && tr.f.Addr < m.text.Hi }) {
		return
	}
	m.state = "Unloading"
	p.Pause(1e4, 3e6)
	k.probeMutex.Lock(p)
	k.traceMutex.Lock(p)
	k.keyMutex.Lock(p)
	k.killProbes(p, t, m.text)
	k.forget(m.text)
	k.modules = slices.DeleteFunc(k.modules, func(x *Module) bool { return x == m })
	k.keyMutex.Unlock()
	k.traceMutex.Unlock()
	k.probeMutex.Unlock()
	k.tracepoint(p, t, ConfigModuleFree, k.moduleFreeRaw(t, m.file.name))
	p.Pause(1e4, 3e6)
	m.life.To = k.Now
	if k.SplitModules {
		k.freePages(m.text.Lo, m.file.textPages)
		k.freePages(m.data, m.file.dataPages)
	} else {
		k.freePages(m.text.Lo, m.file.textPages+m.file.dataPages)
	}
}

// scribble changes a module's data.
func (k *Kernel) scribble(p *Proc, m *Module) {
	for range p.IntN(6) {
		b := make([]byte, 8)
		for i := range b {
			b[i] = byte(p.Uint64())
		}
		k.write(m.data+p.Uint64N(uint64(m.file.dataPages*PageSize-8)), b)
	}
}

// changeData changes data of the kernel and of its modules.
func (k *Kernel) changeData(p *Proc) {
	k.write(k.DataEnd-PageSize+p.Uint64N(PageSize-8), []byte{byte(p.Uint64()), 1, 2})
	for _, m := range k.modules {
		k.scribble(p, m)
	}
}

// The raw data of the tracepoints (include/trace/events/module.h): the common fields,
// and the place of a string.
func (k *Kernel) rawCommon(t *Task, config uint16) []byte {
	b := k.Format.Order.AppendUint16(nil, config)
	b = append(b, 0, 0)
	return k.Format.Order.AppendUint32(b, t.PID)
}

func (k *Kernel) moduleLoadRaw(t *Task, name string) []byte {
	b := k.Format.Order.AppendUint32(k.rawCommon(t, ConfigModuleLoad), 0)
	b = k.Format.Order.AppendUint32(b, uint32(len(name)+1)<<16|16)
	return append(append(b, name...), 0)
}

func (k *Kernel) moduleFreeRaw(t *Task, name string) []byte {
	b := k.Format.Order.AppendUint32(k.rawCommon(t, ConfigModuleFree), uint32(len(name)+1)<<16|12)
	return append(append(b, name...), 0)
}
