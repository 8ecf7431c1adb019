// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package kernel simulates the parts of a Linux kernel that change kernel text, and
// the events that record the changes. What memory held is known for every byte at
// every time, see [Truth]. The order of stores and records is that of the kernel's
// sources (arch/x86/kernel/alternative.c, arch/x86/kernel/kprobes,
// kernel/trace/ftrace.c, kernel/bpf, kernel/module, kernel/events).
package kernel

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/textreplay/textreplay/internal/simulator/rawperf"
)

// A Config says which machine and which kernel are simulated.
type Config struct {
	Seed   uint64
	Format rawperf.Format
	Clock  Clock
	CPUs   int
	// BootCPUs are online at first. A kernel that boots with one of several CPUs has
	// no lock prefixes until a second one comes.
	BootCPUs int
	// Numbers are the numbers of the CPUs; nil: 0, 1, 2 and so on.
	Numbers []int
	// Boot distinguishes boots of one kernel: text and modules have other addresses.
	Boot uint64
	// TextSize is the size of kernel text, in bytes.
	TextSize int
	ENDBR    bool // functions begin with ENDBR64
	// CallThunks: kernels with call-depth tracking write call thunks into the padding
	// before functions, with no record.
	CallThunks Thunks
	// ProgramPack: BPF programs and images share pages. Otherwise each has its own.
	ProgramPack bool
	// SameNames, if not 0, is how many different BPF programs there are. One that is loaded again
	// has the name and the length that it had, but other code: it is compiled with the addresses
	// of its maps.
	SameNames int
	// SplitModules: a module's text and data are in separate areas (6.4 and newer).
	SplitModules bool
	// PatternPages: pages for text stay mapped when nothing uses them, full of INT3
	// (execmem, 6.13 and newer).
	PatternPages bool
	// LateWrites is the longest time that an interrupt puts between the time of a
	// record and its being written.
	LateWrites uint64
	Activity   Activity
}

// Thunks says what a kernel's call thunks look like.
type Thunks int

const (
	NoThunks  Thunks = iota
	OldThunks        // before 6.8
	NewThunks
)

// An Activity says how often a kernel's writers are busy.
type Activity struct {
	Workers int
	// Pause is the longest time between two changes of one worker.
	Pause uint64
	// Weights of the kinds of changes, see the constants.
	Weights [kinds]int
	// Noise is the longest time between two records of a task that has nothing to do
	// with kernel text, on each CPU.
	Noise uint64
	// Burst is how many such records come at once.
	Burst int
	// Quiet is a true time after which each CPU is without such records for a while.
	Quiet uint64
}

// Kinds of changes.
const (
	ChangeKey = iota
	ChangeCall
	ChangeTracer
	ChangeProbe
	ChangeProgram
	ChangeTrampoline
	ChangeModule
	ChangeTailCall
	ChangeDispatcher
	kinds
)

// A Kernel is a simulated kernel.
type Kernel struct {
	Scheduler
	Config
	Truth   Truth
	Text    *Text
	DataEnd uint64 // _edata
	// Opening is set while perf opens its events: known assumes that no CPU goes offline then
	// (docs/truth.md, hotplug).
	Opening bool
	// Widest is the size of the largest record of a change, a birth or a load.
	Widest int
	// MayDelay is set once interrupts may come between the time of a record and its being written.
	MayDelay bool
	// UnseenFork is the true time of the first fork on a CPU that came back without its
	// events; 0: there is none yet.
	UnseenFork uint64
	AllCPUs    []*CPU
	mem        memory

	// Locks, in the order in which they are taken.
	moduleMutex, probeMutex, traceMutex, keyMutex, programMutex, textMutex Mutex

	keys    []*staticKey
	calls   []*staticCall
	tracers []*tracer
	probes  []*probe
	slots   [2]slotPages

	area         area
	modules      []*Module
	moduleFiles  []*moduleFile
	programs     []*Program
	trampolines  []*trampoline
	pack         *packArea
	dispatcher   *dispatcher
	uniprocessor bool

	lastID   uint64 // of an event
	lastPID  uint32
	lastBPF  uint32
	programN int
}

type staticKey struct{ enabled bool }

type staticCall struct {
	target     uint64
	trampoline uint64 // a JMP to the target, in kernel text
}

// Addresses of x86-64.
const (
	coreBase   = 0xffffffff81000000
	ModuleBase = 0xffffffffc0000000
	areaPages  = 48
)

// How many static keys and static calls a kernel has.
const (
	keyCount  = 10
	callCount = 4
)

// New boots a kernel.
func New(c Config) *Kernel {
	k := &Kernel{Config: c, mem: make(memory)}
	k.seed = c.Seed
	k.lastPID, k.lastBPF = 100, 5
	r := rand.New(rand.NewPCG(c.Seed, 1))
	for i := range c.CPUs {
		n := i
		if c.Numbers != nil {
			n = c.Numbers[i]
		}
		k.AllCPUs = append(k.AllCPUs, &CPU{Number: n, Online: i < c.BootCPUs})
	}
	k.uniprocessor = c.BootCPUs == 1 && c.CPUs > 1
	for range keyCount {
		k.keys = append(k.keys, &staticKey{r.IntN(2) == 0})
	}
	k.bootText(r)
	k.area = area{base: ModuleBase + (r.Uint64N(64)+c.Boot)%64*PageSize, used: make([]bool, areaPages)}
	for i := range 6 {
		k.moduleFiles = append(k.moduleFiles, &moduleFile{name: fmt.Sprintf("mod%d", i), seed: r.Uint64(), textPages: 1 + r.IntN(2), dataPages: 1 + r.IntN(2)})
	}
	return k
}

// bootText makes kernel text, with a trampoline for each static call at its end.
func (k *Kernel) bootText(r *rand.Rand) {
	base := uint64(coreBase) + (r.Uint64N(256)+k.Boot)%256<<21
	for range callCount {
		k.calls = append(k.calls, &staticCall{})
	}
	k.Text = makeText(r, base, k.TextSize, k.layout("func"))
	k.Text.Funcs[0].Name = "ftrace_caller"
	t := k.Text
	for i, c := range k.calls {
		c.target = t.Funcs[tracers+i].Addr
		for len(t.code)%16 != 0 {
			t.code = append(t.code, 0xcc)
		}
		c.trampoline = t.Lo + uint64(len(t.code))
		t.code = append(t.code, branch(0xe9, c.trampoline, c.target)...)
		t.Funcs = append(t.Funcs, &Func{Name: fmt.Sprintf("__SCT__call%d", i), Addr: c.trampoline, Size: 5})
	}
	t.Hi = t.Lo + uint64(len(t.code))
	t.Funcs[3].owner = k // the dispatcher's
	k.layInitial(t)
	pages := (len(t.code) + PageSize - 1) / PageSize
	k.DataEnd = t.Lo + uint64(pages+2)*PageSize
	k.mapPages(t.Lo, pages+2)
	k.bootThunks(r)
	k.write(t.Lo, t.code)
	k.register(LifeCore, "", t.Lo, t.Hi-t.Lo)
}

func (k *Kernel) layout(names string) layout {
	l := layout{keys: keyCount, calls: callCount, endbr: k.ENDBR, names: names}
	if k.CallThunks != NoThunks {
		l.padding = thunkPadding
	}
	return l
}

// NewTask starts a task on a CPU.
func (k *Kernel) NewTask(comm string, cpu *CPU) *Task {
	k.lastPID++
	return &Task{PID: k.lastPID, Comm: comm, CPU: cpu}
}

// OnlineCPUs returns the CPUs that are online.
func (k *Kernel) OnlineCPUs() (cpus []*CPU) {
	for _, c := range k.AllCPUs {
		if c.Online {
			cpus = append(cpus, c)
		}
	}
	return cpus
}

// migrate moves a task to another CPU.
func (k *Kernel) migrate(p *Proc, t *Task) {
	cpus := k.OnlineCPUs()
	t.CPU = cpus[p.IntN(len(cpus))]
}

// SetOffline takes a CPU off: its events record nothing any more.
func (k *Kernel) SetOffline(p *Proc, c *CPU) {
	c.busy.Lock(p)
	c.Online = false
	for _, e := range c.samplers {
		e.gone = true
	}
	c.busy.Unlock()
}

// SetOnline brings a CPU up. The second one of a kernel that booted with one makes it
// write the lock prefixes, with no record (alternatives_enable_smp).
func (k *Kernel) SetOnline(p *Proc, c *CPU) {
	if k.uniprocessor {
		k.textMutex.Lock(p)
		k.uniprocessor = false
		texts := []*Text{k.Text}
		for _, m := range k.modules {
			texts = append(texts, m.text)
		}
		for _, t := range texts {
			for _, a := range t.locks {
				if k.Read(a, 1)[0] == 0x3e {
					k.write(a, []byte{0xf0})
				}
			}
		}
		k.textMutex.Unlock()
	}
	c.Online = true
	if slices.ContainsFunc(c.samplers, func(e *Event) bool { return e.gone }) {
		c.Returned = k.Now
	}
}
