// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/textreplay/textreplay/internal/simulator/kernel"
	"github.com/textreplay/textreplay/internal/simulator/record"
)

// A Variant is a kind of recording.
type Variant struct {
	Name string
	// change makes the plainest recording one of this kind.
	change func(c *Config, r *rand.Rand)
	floor  Floor
	// Least is the least percentage of kernel text that must be known while perf records,
	// in the mean of the first seeds.
	Least float64
}

// A Floor says how much of a recording must be known.
type Floor int

const (
	// NoFloor: nothing in particular must be known.
	NoFloor Floor = iota
	// KnownBetweenLosses: before each poke, the time from the last loss on; and what
	// nothing patches, up to the first loss.
	KnownBetweenLosses
	// AllKnown: all of kernel text, and all code that came to life during the
	// recording, with no warning.
	AllKnown
)

// leastBytes is the least percentage of all compared bytes that must be known, in the mean
// of the first seeds. It is for variants whose Least is 0 because hardly any kernel
// text is known. Nothing at all can be known of the variants overwrite, control and
// cpu-comes-up.
var leastBytes = map[string]float64{"clock-far-back": 0.1, "cpu-gaps": 1.5}

// Variants are all kinds of recordings that are tried.
var Variants = []Variant{
	{"plain", func(c *Config, r *rand.Rand) {}, AllKnown, 99},
	{"perf-5.10", func(c *Config, r *rand.Rand) { old(c) }, AllKnown, 99},
	{"perf-6.12", func(c *Config, r *rand.Rand) { c.Record.Perf = record.Perf612; c.Kernel.ProgramPack = true }, AllKnown, 99},
	{"perf-7.2", func(c *Config, r *rand.Rand) { newest(c) }, AllKnown, 99},
	{"no-id-index", func(c *Config, r *rand.Rand) { c.Record.NoIDIndex = true }, AllKnown, 99},
	{"no-identifier", func(c *Config, r *rand.Rand) { c.Record.NoIdentifier = true }, AllKnown, 99},
	{"perf-clock", func(c *Config, r *rand.Rand) { c.Record.ClockID = -1 }, AllKnown, 99},
	{"compressed", func(c *Config, r *rand.Rand) { c.Record.Compress = true }, AllKnown, 99},
	{"compressed2", func(c *Config, r *rand.Rand) { newest(c); c.Record.Compress = true }, AllKnown, 99},
	{"big-endian", func(c *Config, r *rand.Rand) { c.Kernel.Format.Order = binary.BigEndian }, AllKnown, 99},
	{"samples", func(c *Config, r *rand.Rand) { samples(c) }, AllKnown, 99},
	{"per-task", func(c *Config, r *rand.Rand) { c.Record.PerTask = true }, NoFloor, 75},
	{"cpu-list", func(c *Config, r *rand.Rand) { c.Record.CPUList = []int{r.IntN(2)} }, NoFloor, 60},
	{"two-listeners", func(c *Config, r *rand.Rand) { c.Record.TwoPokeEvents = true }, AllKnown, 99},
	{"other-session", func(c *Config, r *rand.Rand) { c.Record.SecondSession = true }, AllKnown, 99},
	{"late-infos", func(c *Config, r *rand.Rand) { c.Record.InfoPause = [2]uint64{1e8, 15e8}; c.Record.InfoFails = 20 }, NoFloor, 99},
	{"probes", func(c *Config, r *rand.Rand) { only(c, kernel.ChangeProbe, kernel.ChangeTracer) }, AllKnown, 99},
	{"no-workload", func(c *Config, r *rand.Rand) { c.Record.Workload = false }, NoFloor, 98},
	{"threads", func(c *Config, r *rand.Rand) { c.Record.Form = record.FormThreads }, NoFloor, 98},
	{"pipe", func(c *Config, r *rand.Rand) { pipe(c) }, NoFloor, 4},
	{"pipe-compressed", func(c *Config, r *rand.Rand) { pipe(c); newest(c); c.Record.Compress = true }, NoFloor, 4},
	{"no-kcore", func(c *Config, r *rand.Rand) { c.Record.KCore = false }, NoFloor, 5},

	{"lossy", func(c *Config, r *rand.Rand) { lossy(c, r) }, KnownBetweenLosses, 25},
	{"lossy-5.10", func(c *Config, r *rand.Rand) { old(c); lossy(c, r) }, NoFloor, 12},
	{"lossy-pipe", func(c *Config, r *rand.Rand) { pipe(c); lossy(c, r) }, NoFloor, 0.3},
	{"lossy-probes", func(c *Config, r *rand.Rand) { only(c, kernel.ChangeProbe, kernel.ChangeTracer); lossy(c, r) }, KnownBetweenLosses, 4},
	{"overwrite", func(c *Config, r *rand.Rand) { c.Record.Overwrite = true; c.Record.RingPages = 1 << r.IntN(4) }, NoFloor, 0},
	{"sample-overwrite", func(c *Config, r *rand.Rand) { samples(c); c.Record.SampleOverwrite = true }, NoFloor, 99},

	{"skew", func(c *Config, r *rand.Rand) { skew(c, r, 40e3) }, NoFloor, 99},
	{"double-writes", func(c *Config, r *rand.Rand) { c.Record.DoubleWrites = 50 }, AllKnown, 99},
	{"lossy-double-writes", func(c *Config, r *rand.Rand) { lossy(c, r); c.Record.DoubleWrites = 50 }, KnownBetweenLosses, 18},
	{"wide-skew", func(c *Config, r *rand.Rand) { skew(c, r, 50e6) }, NoFloor, 98},
	{"wide-skew-probes", func(c *Config, r *rand.Rand) { only(c, kernel.ChangeProbe, kernel.ChangeTracer); skew(c, r, 50e6) }, NoFloor, 98},
	{"wide-skew-programs", func(c *Config, r *rand.Rand) {
		only(c, kernel.ChangeProgram, kernel.ChangeTracer, kernel.ChangeTailCall, kernel.ChangeModule)
		skew(c, r, 50e6)
	}, NoFloor, 98},
	{"coarse-clock", func(c *Config, r *rand.Rand) { c.Kernel.Clock.Resolution = 4e6 }, NoFloor, 99},

	{"busy-coarse-clock", func(c *Config, r *rand.Rand) { busy(c, r); c.Kernel.Clock.Resolution = 4e6 }, NoFloor, 92},
	{"busy-skew", func(c *Config, r *rand.Rand) { busy(c, r); skew(c, r, 40e3) }, NoFloor, 92},
	{"same-programs", func(c *Config, r *rand.Rand) { same(c, r) }, NoFloor, 97},
	{"same-programs-coarse", func(c *Config, r *rand.Rand) { same(c, r); c.Kernel.Clock.Resolution = 4e6 }, NoFloor, 97},
	{"same-programs-skew", func(c *Config, r *rand.Rand) { same(c, r); skew(c, r, 40e3) }, NoFloor, 94},

	{"clock-set-back", func(c *Config, r *rand.Rand) { setBack(c, r, 500e6, 900e6) }, NoFloor, 75},
	{"clock-far-back", func(c *Config, r *rand.Rand) { setBack(c, r, 1e9, 5e9) }, NoFloor, 0},
	{"late-writes", func(c *Config, r *rand.Rand) { lateWrites(c, r) }, NoFloor, 95},
	{"lossy-modules", func(c *Config, r *rand.Rand) { modules(c, record.AllModules); lossy(c, r) }, NoFloor, 10},
	{"lossy-programs", func(c *Config, r *rand.Rand) { programs(c); lossy(c, r) }, NoFloor, 35},
	{"lossy-skew", func(c *Config, r *rand.Rand) { skew(c, r, 40e3); lossy(c, r) }, NoFloor, 18},
	{"lossy-late", func(c *Config, r *rand.Rand) { lateWrites(c, r); lossy(c, r) }, NoFloor, 15},
	{"lossy-samples", func(c *Config, r *rand.Rand) { samples(c); lossy(c, r) }, NoFloor, 7},
	{"lossy-threads", func(c *Config, r *rand.Rand) { c.Record.Form = record.FormThreads; lossy(c, r) }, NoFloor, 4},
	{"lossy-two-listeners", func(c *Config, r *rand.Rand) { c.Record.TwoPokeEvents = true; lossy(c, r) }, NoFloor, 7},
	{"lossy-copies", func(c *Config, r *rand.Rand) { c.Copies = 3; lossy(c, r) }, NoFloor, 10},

	{"modules", func(c *Config, r *rand.Rand) { modules(c, record.AllModules) }, NoFloor, 98},
	{"programs", func(c *Config, r *rand.Rand) { programs(c) }, NoFloor, 98},
	{"delay", func(c *Config, r *rand.Rand) {
		modules(c, record.AllModules)
		c.Record.Delay = 1e6 + r.Uint64N(4e9)
	}, NoFloor, 98},
	{"control", func(c *Config, r *rand.Rand) {
		modules(c, record.AllModules)
		c.Record.Control = true
		c.Record.Delay = r.Uint64N(4e9)
	}, NoFloor, 0},
	{"pokes-disabled", func(c *Config, r *rand.Rand) {
		c.Record.PokesDisabled = true
		c.Record.PerTask = r.IntN(2) == 0
	}, NoFloor, 1},
	{"filtered-module-events", func(c *Config, r *rand.Rand) { modules(c, record.FilteredModules) }, NoFloor, 98},
	{"slow-start", func(c *Config, r *rand.Rand) { c.Record.Open = 300e6 }, NoFloor, 98},
	{"no-module-events", func(c *Config, r *rand.Rand) { modules(c, record.NoModules) }, NoFloor, 98},
	{"sampled-module-events", func(c *Config, r *rand.Rand) { modules(c, record.SampledModules) }, NoFloor, 99},
	{"period-module-events", func(c *Config, r *rand.Rand) { modules(c, record.PeriodModules) }, NoFloor, 99},
	{"user-module-events", func(c *Config, r *rand.Rand) { modules(c, record.UserModules) }, NoFloor, 99},
	{"task-pokes-first", func(c *Config, r *rand.Rand) { c.Record.TaskPokeFirst = true }, NoFloor, 99},
	{"split-modules", func(c *Config, r *rand.Rand) { modules(c, record.AllModules); c.Kernel.SplitModules = true }, NoFloor, 99},
	{"pattern-pages", func(c *Config, r *rand.Rand) {
		newest(c)
		only(c, kernel.ChangeModule, kernel.ChangeTracer, kernel.ChangeProgram)
	}, NoFloor, 98},

	{"hotplug", func(c *Config, r *rand.Rand) { hotplug(c) }, NoFloor, 30},
	{"hotplug-pipe", func(c *Config, r *rand.Rand) { pipe(c); hotplug(c) }, NoFloor, 0.8},
	{"cpu-comes-up", func(c *Config, r *rand.Rand) {
		c.Hotplug = ComesUp
		c.Kernel.CPUs, c.Kernel.BootCPUs = 2, 1
	}, NoFloor, 0},
	{"call-thunks", func(c *Config, r *rand.Rand) { c.Kernel.CallThunks = kernel.NewThunks }, NoFloor, 94},
	{"old-call-thunks", func(c *Config, r *rand.Rand) { c.Kernel.CallThunks = kernel.OldThunks }, NoFloor, 94},
	{"foreign-copy", func(c *Config, r *rand.Rand) { c.Foreign = OtherBoot }, NoFloor, 4},
	{"foreign-copy-7.2", func(c *Config, r *rand.Rand) { newest(c); c.Foreign = OtherBoot }, NoFloor, 4},
	{"other-kernel", func(c *Config, r *rand.Rand) { c.Foreign = OtherKernel }, NoFloor, 4},
	{"no-kallsyms", func(c *Config, r *rand.Rand) { c.NoKallsyms = true }, NoFloor, 98},
	{"no-kallsyms-7.2", func(c *Config, r *rand.Rand) { newest(c); c.NoKallsyms = true }, NoFloor, 98},
	{"cpu-gaps", func(c *Config, r *rand.Rand) { gaps(c, r) }, NoFloor, 0},
	{"injected", func(c *Config, r *rand.Rand) {
		pipe(c)
		c.Record.Modules, c.Record.Injected = record.NoModules, true
	}, NoFloor, 1},
	{"switch-output", func(c *Config, r *rand.Rand) { c.Record.Pieces = 2 + r.IntN(3) }, NoFloor, 20},
	{"switch-output-7.2", func(c *Config, r *rand.Rand) { newest(c); c.Record.Pieces = 2 + r.IntN(3) }, NoFloor, 12},
	{"lossy-switch-output", func(c *Config, r *rand.Rand) { lossy(c, r); c.Record.Pieces = 2 + r.IntN(3) }, NoFloor, 6},
	{"lossy-switch-output-7.2", func(c *Config, r *rand.Rand) { newest(c); lossy(c, r); c.Record.Pieces = 2 + r.IntN(3) }, NoFloor, 6},
	{"copies", func(c *Config, r *rand.Rand) { c.Copies = 3 }, NoFloor, 99},

	{"tail-synthesize", func(c *Config, r *rand.Rand) { c.Record.Tail = true }, NoFloor, 0},
	{"lossy-uncounted", func(c *Config, r *rand.Rand) { lossy(c, r); c.Record.StopsCounting = true }, NoFloor, 0},
	{"mixed", func(c *Config, r *rand.Rand) { mixed(c, r) }, NoFloor, 0},
	{"mixed-lossy", func(c *Config, r *rand.Rand) { mixed(c, r); lossy(c, r) }, NoFloor, 0},
	{"mixed-pipe", func(c *Config, r *rand.Rand) { mixed(c, r); mixedPipe(c, r) }, NoFloor, 0},
	{"mixed-lossy-pipe", func(c *Config, r *rand.Rand) { mixed(c, r); mixedPipe(c, r); lossy(c, r) }, NoFloor, 0},
	{"mixed-clocks", func(c *Config, r *rand.Rand) { mixed(c, r); mixedClock(c, r) }, NoFloor, 0},
	{"mixed-hotplug", func(c *Config, r *rand.Rand) { mixed(c, r); mixedHotplug(c) }, NoFloor, 0},
	{"anything", func(c *Config, r *rand.Rand) { anything(c, r) }, NoFloor, 0},
}

// mixed puts several kinds of recordings together, at random: what each is alone is tried
// by a variant of its own.
func mixed(c *Config, r *rand.Rand) {
	yes := func() bool { return r.IntN(4) == 0 }
	switch r.IntN(4) {
	case 0:
		old(c)
	case 1:
		c.Record.Perf, c.Kernel.ProgramPack = record.Perf612, true
	case 2:
		newest(c)
	}
	if yes() {
		c.Kernel.Numbers = []int{0, 1 + r.IntN(3), 5 + r.IntN(60)}
		c.Kernel.CPUs, c.Kernel.BootCPUs = 3, 3
		if r.IntN(2) == 0 {
			c.Record.Available = c.Kernel.Numbers[2] + 1
		}
	}
	if yes() {
		c.Kernel.Format.Order = binary.BigEndian
	}
	c.Record.NoIDIndex, c.Record.NoIdentifier, c.Record.Compress = yes(), yes(), yes()
	if yes() {
		samples(c)
		c.Record.SampleOverwrite = yes()
	}
	switch r.IntN(12) {
	case 0:
		c.Record.PerTask = true
	case 1:
		c.Record.CPUList = []int{0}
	case 2:
		c.Record.TaskPokeFirst = true
	}
	c.Record.TwoPokeEvents, c.Record.SecondSession = yes(), yes()
	if yes() {
		c.Record.DoubleWrites = 50
	}
	if yes() {
		lateWrites(c, r)
	}
	if yes() {
		c.Record.InfoPause, c.Record.InfoFails = [2]uint64{1e8, 15e8}, 20
	}
	if yes() {
		modules(c, record.Modules(r.IntN(int(record.UserModules)+1)))
	} else if yes() {
		programs(c)
	} else if yes() {
		only(c, kernel.ChangeProbe, kernel.ChangeTracer)
	}
	switch r.IntN(10) {
	case 0:
		c.Record.Form = record.FormThreads
	case 1:
		c.Record.Pieces = 2 + r.IntN(3)
	case 2:
		c.Record.KCore = false
	case 3:
		c.NoKallsyms = true
	case 4:
		c.Record.Tail = true
	}
	if yes() && !c.Record.PerTask {
		c.Record.Delay = 1e6 + r.Uint64N(4e9)
	}
	c.Record.Workload = c.Record.PerTask || !yes()
	c.Record.StopsCounting = yes()
	if yes() {
		c.Record.Open = 300e6
	}
	if r.IntN(8) == 0 {
		c.Record.PokesDisabled = true
	}
	if yes() {
		c.Copies = 2
	}
	if r.IntN(8) == 0 {
		c.Kernel.CallThunks = kernel.NewThunks
	}
	if yes() {
		c.Kernel.Clock.Resolution = 1 << r.IntN(23)
	}
}

// anything puts what is mixed together with all that makes a recording hard: losses, CPUs that
// go and come, clocks, pipes, copies of another boot or made later, and old call thunks.
func anything(c *Config, r *rand.Rand) {
	some := func() bool { return r.IntN(3) == 0 }
	mixed(c, r)
	if some() {
		mixedPipe(c, r)
	}
	if some() {
		mixedHotplug(c)
	}
	switch {
	case !some():
	case r.IntN(2) == 0:
		lossy(c, r)
	case c.Record.Form == record.FormPipe || c.Hotplug != NoHotplug:
		skew(c, r, 40e3) // a stream does not show that a clock will be set back, nor does a CPU that is off
	default: // not with losses: the records that show it may be lost
		mixedClock(c, r)
	}
	if some() && c.Record.Form != record.FormPipe && c.Record.KCore {
		c.Foreign = []Foreign{OtherBoot, OtherKernel}[r.IntN(2)]
	} else if some() {
		c.Copies = 2
	}
	if some() {
		c.Kernel.CallThunks = kernel.OldThunks
	}
}

// mixedPipe makes a pipe of what is mixed.
func mixedPipe(c *Config, r *rand.Rand) {
	pipe(c)
	c.Record.Pieces, c.Record.Tail, c.NoKallsyms = 0, false, false
	if r.IntN(4) == 0 {
		c.Record.Modules, c.Record.Injected, c.Record.Compress = record.NoModules, true, false
	}
}

// mixedClock gives what is mixed a clock that is not the same for all CPUs, or that is set
// back.
func mixedClock(c *Config, r *rand.Rand) {
	c.Kernel.Clock.Resolution = 0
	if r.IntN(2) == 0 {
		skew(c, r, 40e3)
		return
	}
	setBack(c, r, 500e6, 900e6)
	c.Record.CPUList, c.Record.PerTask = nil, false // else most CPUs have no record of a task
	c.Record.Open, c.Record.Delay = 200e3, 0        // else a step comes before a CPU has two records
}

func hotplug(c *Config) { c.Hotplug, c.Kernel.Activity.Noise = OffAndOn, 200e6 }

// mixedHotplug is hotplug for what is mixed: the forks of all CPUs are needed.
func mixedHotplug(c *Config) {
	c.Record.CPUList, c.Record.PerTask = nil, false
	hotplug(c)
}

func old(c *Config) {
	c.Record.Perf = record.Perf510
	c.Kernel.ProgramPack = false
}

func newest(c *Config) {
	c.Record.Perf = record.Perf72
	c.Kernel.ProgramPack, c.Kernel.SplitModules, c.Kernel.PatternPages = true, true, true
}

func samples(c *Config) { c.Record.CPUClock, c.Record.Callchain = true, true }

// pipe makes a recording in pipe form, for which perf makes no kcore_dir.
func pipe(c *Config) {
	c.Record.Form = record.FormPipe
	c.Record.KCore = false
}

// gaps gives the CPUs the numbers 0, 2 and 5. perf takes the highest number for that of
// CPUs that there are (cpu__max_present_cpu), so three more may come up.
func gaps(c *Config, r *rand.Rand) {
	c.Kernel.Numbers = []int{0, 2, 5}
	c.Kernel.CPUs, c.Kernel.BootCPUs = 3, 3
	c.Record.Available = 6
	c.Record.NoIDIndex = r.IntN(2) == 0
}

func lossy(c *Config, r *rand.Rand) {
	c.Record.RingPages = 1 << r.IntN(2)
	c.Record.Drain = [2]uint64{100e6, 2e9}
	c.Kernel.Activity.Burst = 3 + r.IntN(12)
}

func skew(c *Config, r *rand.Rand, most uint64) {
	for range c.Kernel.CPUs {
		c.Kernel.Clock.Offset = append(c.Kernel.Clock.Offset, int64(r.Uint64N(most)))
	}
	c.Record.ClockID = -1
}

// setBack lets somebody set the clock back once or twice while perf records, by more than
// the time between two records of a CPU: else nothing shows it. No CPU is silent for longer
// around a step than ever else: nothing would show how far the clock was set back.
func setBack(c *Config, r *rand.Rand, least, most uint64) {
	c.Record.ClockID = 0 // CLOCK_REALTIME
	c.Kernel.Activity.Noise = 100e6
	c.Kernel.Activity.Quiet = c.Settle + second/4 // until the first step at the latest
	at := c.Settle
	for range 1 + r.IntN(2) {
		at += second + r.Uint64N(c.Record.Length/3)
		c.Kernel.Clock.Steps = append(c.Kernel.Clock.Steps, kernel.ClockStep{At: at, By: -int64(least + r.Uint64N(most-least))})
	}
}

// lateWrites lets interrupts come between the time of a record and its being written.
func lateWrites(c *Config, r *rand.Rand) { c.Kernel.LateWrites = 1e6 << r.IntN(10) }

// programs lets more BPF programs come and go.
func programs(c *Config) {
	only(c, kernel.ChangeProgram, kernel.ChangeTrampoline, kernel.ChangeTailCall, kernel.ChangeDispatcher)
}

// busy lets a few places change very often, for a short time: several CPUs change them within a
// moment. Modules stay, since perf gives up if they change while it copies them.
func busy(c *Config, r *rand.Rand) {
	kinds := []int{kernel.ChangeKey, kernel.ChangeCall, kernel.ChangeTracer, kernel.ChangeProbe, kernel.ChangeProgram, kernel.ChangeTailCall}
	r.Shuffle(len(kinds), func(i, k int) { kinds[i], kinds[k] = kinds[k], kinds[i] })
	only(c, kinds[:1+r.IntN(2)]...)
	c.Kernel.Activity.Pause = 2e6 << r.IntN(5)
	c.Kernel.Activity.Workers = 2 + r.IntN(4)
	c.Record.Length = (1 + r.Uint64N(3)) * second
	c.Settle = second
}

// same lets the kernel load a few BPF programs again and again.
func same(c *Config, r *rand.Rand) {
	busy(c, r)
	pause := c.Kernel.Activity.Pause
	only(c, kernel.ChangeProgram, kernel.ChangeProgram, kernel.ChangeTailCall)
	c.Kernel.Activity.Pause = pause
	c.Kernel.SameNames = 1 + r.IntN(3)
}

// only lets the kernel make these changes only, and more of them.
func only(c *Config, kinds ...int) {
	for i := range c.Kernel.Activity.Weights {
		c.Kernel.Activity.Weights[i] = 0
	}
	for _, kind := range kinds {
		c.Kernel.Activity.Weights[kind] = 1
	}
	c.Kernel.Activity.Pause = 300e6
}

func modules(c *Config, m record.Modules) {
	c.Record.Modules = m
	c.Kernel.Activity.Weights[kernel.ChangeModule] += 6
}
