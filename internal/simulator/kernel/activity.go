// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"slices"

	"github.com/textreplay/textreplay/internal/simulator/rawperf"
)

// Work starts the tasks that change kernel text and those that do not. They run until the
// true time until.
func (k *Kernel) Work(until uint64) {
	for i := range k.Activity.Workers {
		k.Go(fmt.Sprint("worker", i), func(p *Proc) {
			t := k.NewTask(fmt.Sprintf("worker/%d", i), k.AllCPUs[0])
			for k.Now < until {
				k.migrate(p, t)
				k.change(p, t)
				p.Pause(k.Activity.Pause/50, k.Activity.Pause)
			}
		})
	}
	for _, c := range k.AllCPUs {
		k.Go(fmt.Sprint("noise", c.Number), func(p *Proc) {
			p.Pause(0, k.Activity.Noise)
			for quiet := false; k.Now < until; {
				if !quiet && k.Now > k.Activity.Quiet {
					// Once, no CPU has a record for longer than ever again.
					quiet = true
					p.Sleep(3 * k.Activity.Noise)
				}
				if c.Online {
					for range 1 + p.IntN(max(k.Activity.Burst, 1)) {
						k.makeNoise(p, c)
					}
				}
				p.Pause(k.Activity.Noise/4, k.Activity.Noise)
			}
		})
		k.Go(fmt.Sprint("timer", c.Number), func(p *Proc) {
			t := &Task{PID: 0, Comm: "swapper", CPU: c}
			for k.Now < until {
				p.Pause(k.Activity.Noise/8, k.Activity.Noise)
				if c.Online {
					k.tick(p, c, t)
				}
			}
		})
	}
}

// change makes one random change.
func (k *Kernel) change(p *Proc, t *Task) {
	total := 0
	for _, w := range k.Activity.Weights {
		total += w
	}
	if total == 0 {
		return
	}
	n := p.IntN(total)
	for kind, w := range k.Activity.Weights {
		if n -= w; n < 0 {
			k.changers()[kind](p, t)
			return
		}
	}
}

func (k *Kernel) changers() [kinds]func(*Proc, *Task) {
	return [kinds]func(*Proc, *Task){
		ChangeKey: k.changeKey, ChangeCall: k.changeCall, ChangeTracer: k.changeTracer, ChangeProbe: k.changeProbe,
		ChangeProgram: k.changeProgram, ChangeTrampoline: k.changeTrampoline, ChangeModule: k.changeModule,
		ChangeTailCall: k.changeTailCall, ChangeDispatcher: k.changeDispatcher,
	}
}

// makeNoise starts and ends a task on a CPU.
func (k *Kernel) makeNoise(p *Proc, c *CPU) {
	parent := &Task{PID: 1, Comm: "init", CPU: c}
	t := k.NewTask("sh", c)
	k.record(p, parent, rawperf.Task, rawperf.TypeFork, 0, k.Format.Task(t.PID, 1, t.PID, 1, k.Clock.Read(c.Number, k.Now)))
	if c.Returned != 0 && k.UnseenFork == 0 {
		k.UnseenFork = k.Now
	}
	p.Pause(1e3, 1e5)
	k.record(p, t, rawperf.Comm, rawperf.TypeComm, rawperf.MiscCommExec, k.Format.Comm(t.PID, t.PID, "noise"))
	p.Pause(1e4, 1e6)
	k.record(p, t, rawperf.Task, rawperf.TypeExit, 0, k.Format.Task(t.PID, 1, t.PID, 1, k.Clock.Read(c.Number, k.Now)))
	k.changeData(p)
}

// tick is a timer interrupt: events that sample make a record. It does not wait for a
// task that is making one.
func (k *Kernel) tick(p *Proc, c *CPU, t *Task) {
	for _, e := range slices.Clone(c.samplers) {
		if e.Attr.Type == TypeSoftware && e.Attr.Config == ConfigCPUClock && e.takes(t) {
			k.sample(p, e, t, k.Text.Lo+p.Uint64N(k.Text.Hi-k.Text.Lo), nil)
		}
	}
}

// Exec makes the record of a task that begins to run a program.
func (k *Kernel) Exec(p *Proc, t *Task, comm string) {
	t.Comm = comm
	k.record(p, t, rawperf.Comm, rawperf.TypeComm, rawperf.MiscCommExec, k.Format.Comm(t.PID, t.PID, comm))
}

// Exit makes the record of a task that ends.
func (k *Kernel) Exit(p *Proc, t *Task) {
	k.record(p, t, rawperf.Task, rawperf.TypeExit, 0, k.Format.Task(t.PID, 1, t.PID, 1, k.Clock.Read(t.CPU.Number, k.Now)))
}
