// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package simulator tests this project against recordings of a simulated kernel, of
// which every byte at every time is known. Package kernel simulates the kernel, package
// record perf; package rawperf writes the bytes. None of them shares code with what is
// tested.
//
// A run is named by a variant and a seed:
//
//	go test ./internal/simulator -run 'TestVariants/lossy' -args -first 17 -seeds 1
package simulator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"

	"github.com/textreplay/textreplay/internal/simulator/kernel"
	"github.com/textreplay/textreplay/internal/simulator/rawperf"
	"github.com/textreplay/textreplay/internal/simulator/record"
)

// A Run is a simulated machine and what perf recorded on it.
type Run struct {
	Kernel    *kernel.Kernel
	Recording *record.Recording
	Config    *Config
	Copies    []*record.Copy
}

// A Config is all that a variant decides.
type Config struct {
	Kernel kernel.Config
	Record record.Config
	// Hotplug takes a CPU off and brings one up meanwhile.
	Hotplug Hotplug
	// Copies is how many further snapshots of kernel text somebody makes meanwhile.
	Copies int
	// Foreign puts a copy of another kernel where perf left its own, or of another boot
	// of the same one. NoKallsyms takes kallsyms out of the copy.
	Foreign    Foreign
	NoKallsyms bool
	// Settle is how long the kernel runs before perf starts and after it has ended.
	Settle uint64
}

// Foreign says which kernel the copy next to the recording is of.
type Foreign int

const (
	NotForeign Foreign = iota
	OtherBoot
	OtherKernel
)

// Hotplug says what happens to CPUs during a recording.
type Hotplug int

const (
	NoHotplug Hotplug = iota
	OffAndOn          // one goes offline and comes back
	ComesUp           // one that was never online comes up
)

// second is a second of simulated time.
const second = uint64(1e9)

// baseConfig returns the plainest recording: everything is recorded, nothing is lost.
func baseConfig(seed uint64) *Config {
	r := rand.New(rand.NewPCG(seed, 3))
	c := &Config{Settle: 2 * second}
	c.Kernel = kernel.Config{
		Seed:        seed,
		Format:      rawperf.Format{Order: binary.LittleEndian},
		Clock:       kernel.Clock{Base: 5*second + r.Uint64N(1000*second)},
		CPUs:        2 + r.IntN(3),
		TextSize:    kernel.PageSize + r.IntN(3*kernel.PageSize),
		ENDBR:       r.IntN(2) == 0,
		ProgramPack: r.IntN(4) > 0,
		Activity: kernel.Activity{
			Workers: 1 + r.IntN(3),
			Pause:   800e6,
			Noise:   400e6,
			Burst:   2,
			Quiet:   3 * second,
		},
	}
	c.Kernel.BootCPUs = c.Kernel.CPUs
	for i := range c.Kernel.Activity.Weights {
		c.Kernel.Activity.Weights[i] = r.IntN(4)
	}
	c.Record = record.Config{
		Perf:      record.Perf61,
		KCore:     true,
		Workload:  true,
		Modules:   record.AllModules,
		RingPages: 64,
		ClockID:   1,
		Open:      200e3,
		Copy:      3e6,
		Drain:     [2]uint64{50e6, 600e6},
		InfoPause: [2]uint64{1e5, 30e6},
		Length:    (12 + r.Uint64N(8)) * second,
	}
	return c
}

// errGaveUp is the error of a machine that changes too fast: perf never manages to copy the kernel
// while nothing changes.
var errGaveUp = errors.New("perf gave up")

// simulate runs the machine. It may return errGaveUp.
func simulate(c *Config) (*Run, error) {
	k := kernel.New(c.Kernel)
	defer k.Stop()
	until := 3*c.Settle + c.Record.Length
	k.Work(until + 60*second)
	k.Run(c.Settle)
	run := &Run{Kernel: k, Config: c}
	done := false
	k.Go("perf", func(p *kernel.Proc) {
		for range 200 {
			if run.Recording = record.Record(p, k, c.Record); run.Recording != nil {
				break
			}
			p.Pause(1e6, 300e6)
		}
		done = true
	})
	if c.Hotplug != NoHotplug {
		k.Go("hotplug", func(p *kernel.Proc) { plug(p, k, c) })
	}
	for i := range c.Copies {
		k.Go(fmt.Sprint("copy", i), func(p *kernel.Proc) {
			for p.Sleep(c.Settle + p.Uint64N(c.Record.Length)); !done; p.Pause(1e8, second) {
				if made := record.CopyKernel(p, k, c.Record.Copy); made != nil {
					run.Copies = append(run.Copies, made)
					return
				}
			}
		})
	}
	for !done {
		k.Run(k.Now + second)
	}
	k.Run(k.Now + c.Settle)
	if run.Recording == nil {
		return nil, errGaveUp
	}
	if c.Foreign != NotForeign {
		run.Recording.Copy = foreignCopy(c, run.Kernel.Text)
	}
	if c.NoKallsyms {
		run.Recording.Copy.Kallsyms = nil
	}
	return run, nil
}

// foreignCopy boots another kernel, or the same one again, and copies it. Nothing shows that a copy
// is of another kernel if its text is at the very addresses of own, so that does not happen.
func foreignCopy(c *Config, own *kernel.Text) (made *record.Copy) {
	other := c.Kernel
	switch c.Foreign {
	case OtherBoot:
		other.Boot = 1 + c.Kernel.Seed%63
	case OtherKernel:
		other.Seed += 1 << 32
	}
	k := kernel.New(other)
	end := func(t *kernel.Text) uint64 { // of what perf says of the kernel's addresses
		if c.Record.Perf.KernelMmap2 {
			return (t.Hi + kernel.PageSize - 1) &^ (kernel.PageSize - 1) // _edata, a fixed number of pages behind
		}
		return t.Hi
	}
	for k.Text.Lo == own.Lo && end(k.Text) == end(own) {
		k.Stop()
		other.Seed += 1 << 32
		k = kernel.New(other)
	}
	defer k.Stop()
	k.Work(300 * second)
	k.Run(c.Settle)
	k.Go("copy", func(p *kernel.Proc) {
		for made == nil {
			made = record.CopyKernel(p, k, c.Record.Copy)
			p.Pause(1e6, 300e6)
		}
	})
	for made == nil {
		k.Run(k.Now + second)
	}
	return made
}

func plug(p *kernel.Proc, k *kernel.Kernel, c *Config) {
	p.Sleep(c.Settle + c.Record.Length/4)
	cpu := k.AllCPUs[len(k.AllCPUs)-1]
	for k.Opening {
		p.Pause(1e6, 50e6)
	}
	if c.Hotplug == OffAndOn {
		k.SetOffline(p, cpu)
		p.Pause(1e6, second)
	}
	k.SetOnline(p, cpu)
}

// write puts the recording into dir as perf leaves it, and returns the path of each of
// its pieces.
func (run *Run) write(dir string) (paths []string, err error) {
	for i := range run.Recording.Pieces {
		piece := &run.Recording.Pieces[i]
		name := filepath.Join(dir, fmt.Sprintf("rec%d.data", i))
		paths = append(paths, name)
		copied := run.Recording.Copy != nil && i == 0
		if copied {
			if err := writeCopy(filepath.Join(name, "kcore_dir"), run.Recording.Copy); err != nil {
				return nil, err
			}
		}
		if copied || piece.Threads != nil {
			name = filepath.Join(name, "data")
		}
		if err := writeFile(name, piece.Data); err != nil {
			return nil, err
		}
		for n, data := range piece.Threads {
			if err := writeFile(fmt.Sprintf("%s.%d", name, n), data); err != nil {
				return nil, err
			}
		}
	}
	return paths, nil
}

// writeFile writes a file and makes its directory.
func writeFile(name string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	return os.WriteFile(name, data, 0o644)
}

// writeCopy makes a kcore_dir.
func writeCopy(dir string, c *record.Copy) error {
	err := errors.Join(writeFile(filepath.Join(dir, "kcore"), c.KCore), writeFile(filepath.Join(dir, "modules"), c.Modules))
	if c.Kallsyms == nil {
		return err
	}
	return errors.Join(err, writeFile(filepath.Join(dir, "kallsyms"), c.Kallsyms))
}

// times says when perf did what, by the recording's clock.
func (run *Run) times() string {
	rec, clock := run.Recording, &run.Kernel.Clock
	s := fmt.Sprintf("true time 0 is %d; perf opened its events by %d", clock.Read(0, 0), clock.Read(0, rec.Opened))
	if c := rec.Copy; c != nil {
		s += fmt.Sprintf(", copied the kernel from %d to %d", clock.Read(0, c.From), clock.Read(0, c.To))
	}
	return s + fmt.Sprintf(", enabled all events by %d, started the workload by %d, and ended between %d and %d", clock.Read(0, rec.Enabled),
		clock.Read(0, rec.Exec), clock.Read(0, rec.Ended), clock.Read(0, rec.Closed))
}

// hash returns a number that depends on s.
func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}
