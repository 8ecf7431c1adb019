// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import "slices"

// PageSize is the size of a page of memory.
const PageSize = 4096

// A Store is a change of what a CPU executes. If pokes were recorded, it took
// effect at some true time of [From, To]: the times at which the listeners'
// records were made. Else From and To are equal.
type Store struct {
	From, To uint64
	Addr     uint64
	Data     []byte
	// Kept: a record of it found room in a ring buffer.
	Kept bool
}

// A Trap is a time during which memory holds INT3, or is written in part. A CPU that runs
// into it does what the instruction before the change does, or the one after it.
type Trap struct {
	Addr, Len uint64
	From, To  uint64 // true times
	// Poked is the true time at which the poke's record was made, Kept whether the
	// record found room.
	Poked uint64
	Kept  bool
}

func (t *Trap) poked(m made) { t.Poked, t.Kept = m.first, m.kept }

// A LifeKind says what is alive.
type LifeKind int

const (
	LifeCore       LifeKind = iota // text of the kernel itself
	LifeModule                     // text of a module
	LifeBPF                        // a function of a BPF program
	LifeImage                      // a BPF trampoline or dispatcher
	LifePage                       // a page of kprobe slots
	LifeSlot                       // a kprobe slot or an optimised one
	LifeTrampoline                 // an ftrace trampoline
)

// A Life is a range of addresses that is code from its birth to its death, both true
// times. Where a record announces them they are the times of the records.
type Life struct {
	Kind     LifeKind
	Name     string
	Addr     uint64
	Len      uint64
	From, To uint64
	// If several events listen, each makes a record of the birth and of the death.
	// From and To are the first of the one and the last of the other; Born and Dying
	// are the last of the one and the first of the other.
	Born, Dying uint64
}

// forever is the death of what did not die.
const forever = ^uint64(0)

// Truth is what memory held at every time of a run.
type Truth struct {
	Stores []Store // in the order of From
	Traps  []Trap
	Lives  []*Life
}

// memory is physical memory, as far as it is mapped.
type memory map[uint64]*[PageSize]byte

func (m memory) read(addr uint64, n int) []byte {
	b := make([]byte, n)
	for i := 0; i < n; {
		at := addr + uint64(i)
		step := min(n-i, PageSize-int(at%PageSize))
		if p := m[at/PageSize]; p != nil {
			copy(b[i:i+step], p[at%PageSize:])
		}
		i += step
	}
	return b
}

func (m memory) write(addr uint64, data []byte) {
	for len(data) > 0 {
		n := copy(m[addr/PageSize][addr%PageSize:], data)
		addr, data = addr+uint64(n), data[n:]
	}
}

// mapPages makes n pages of zeros.
func (k *Kernel) mapPages(addr uint64, n int) {
	for i := range uint64(n) {
		k.mem[addr/PageSize+i] = new([PageSize]byte)
	}
	k.logical(made{first: k.Now, last: k.Now}, addr, make([]byte, n*PageSize))
}

func (k *Kernel) unmapPages(addr uint64, n int) {
	for i := range uint64(n) {
		delete(k.mem, addr/PageSize+i)
	}
}

// Read reads memory as /proc/kcore does: what is not mapped is zero.
func (k *Kernel) Read(addr uint64, n int) []byte { return k.mem.read(addr, n) }

// write stores data with no record.
func (k *Kernel) write(addr uint64, data []byte) {
	k.mem.write(addr, data)
	k.logical(made{first: k.Now, last: k.Now}, addr, data)
}

// logical notes that what CPUs execute changed.
func (k *Kernel) logical(m made, addr uint64, data []byte) {
	k.Truth.Stores = append(k.Truth.Stores, Store{m.first, m.last, addr, slices.Clone(data), m.kept})
}

// register notes that something comes to life.
func (k *Kernel) register(kind LifeKind, name string, addr, n uint64) *Life {
	l := &Life{kind, name, addr, n, k.Now, forever, k.Now, forever}
	k.Truth.Lives = append(k.Truth.Lives, l)
	return l
}
