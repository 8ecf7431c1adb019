// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package record

import (
	"slices"

	"github.com/textreplay/textreplay/internal/simulator/kernel"
	"github.com/textreplay/textreplay/internal/simulator/rawperf"
)

// An evsel is an event as perf has it: opened once on each of its CPUs.
type evsel struct {
	name      string
	attr      rawperf.Attr
	cpus      []*kernel.CPU
	ownCPUs   bool // not those of the others
	task      *kernel.Task
	immediate bool // enabled from the beginning
	events    []*kernel.Event
}

// A recorder is a running perf record.
type recorder struct {
	Config
	p        *kernel.Proc
	k        *kernel.Kernel
	f        rawperf.Format
	evsels   []*evsel
	rings    []*ring
	workload *kernel.Task
	infos    []rawperf.BPFProg
	seen     map[uint32]bool
	out      output
	stopping bool
	rec      *Recording
}

// A ring is a mapped ring buffer with the number of its CPU.
type ring struct {
	*kernel.Ring
	cpu int
}

// Record records until the workload ends. It returns nil if perf gave up because the
// kernel changed while it was copied.
func Record(p *kernel.Proc, k *kernel.Kernel, c Config) *Recording {
	r := &recorder{Config: c, p: p, k: k, f: k.Format, seen: make(map[uint32]bool), rec: &Recording{Fetched: make(map[*kernel.Life][]byte), Announced: make(map[*kernel.Life]bool)}}
	cpus := k.OnlineCPUs()
	r.workload = k.NewTask("perf-exec", cpus[p.IntN(len(cpus))])
	r.plan(cpus)
	if r.SecondSession {
		other := k.Open(sessionAttr(), cpus[0], nil)
		defer k.Close([]*kernel.Event{other})
	}
	r.open()
	defer func() { k.Close(r.rec.Events) }()
	if r.KCore {
		if r.rec.Copy = CopyKernel(p, k, r.Copy); r.rec.Copy == nil {
			return nil
		}
	}
	r.out.start(r)
	k.Go("bpf side band", r.watchPrograms)
	if !r.Tail {
		r.synthesize()
	}
	if r.Delay == 0 && !r.Control && !r.PerTask {
		r.enable()
	}
	if r.Workload {
		r.exec()
	}
	end := k.Now + r.Length
	if r.Delay > 0 || r.Control {
		p.Sleep(max(r.Delay, 1e6))
		r.enable()
	}
	r.loop(end)
	r.finish()
	return r.rec
}

// sessionAttr is the attribute of another program's event.
func sessionAttr() rawperf.Attr {
	return rawperf.Attr{Type: kernel.TypeSoftware, Config: kernel.ConfigDummy, Size: 128,
		SampleType: rawperf.WithTID | rawperf.WithTime, Flags: rawperf.SampleIDAll | rawperf.TextPoke | rawperf.KSymbol | rawperf.BPFEvent}
}

// plan decides which events there are (evlist__config, record__config_text_poke).
func (r *recorder) plan(cpus []*kernel.CPU) {
	listed := cpus
	if r.CPUList != nil {
		listed = slices.DeleteFunc(slices.Clone(cpus), func(c *kernel.CPU) bool { return !slices.Contains(r.CPUList, c.Number) })
	}
	var task *kernel.Task
	if r.PerTask {
		task = r.workload
	}
	const tracking = rawperf.Mmap | rawperf.Comm | rawperf.Task | rawperf.Mmap2 | rawperf.CommExec | rawperf.BPFEvent
	const pokes = rawperf.TextPoke | rawperf.KSymbol
	add := func(name string, kind uint32, config uint64, flags rawperf.Flags, on []*kernel.CPU, task *kernel.Task, immediate bool) *evsel {
		e := &evsel{name: name, attr: r.attr(kind, config, flags), cpus: on, task: task, immediate: immediate}
		if !immediate {
			e.attr.Flags |= rawperf.Disabled
			if r.PerTask {
				e.attr.Flags |= rawperf.EnableOnExec
			}
		}
		r.evsels = append(r.evsels, e)
		return e
	}
	if r.TaskPokeFirst {
		add("dummy:u", kernel.TypeSoftware, kernel.ConfigDummy, rawperf.ExcludeKernel|pokes, listed, r.workload, true)
	}
	tracker := (*evsel)(nil)
	if r.CPUClock {
		e := add("cpu-clock", kernel.TypeSoftware, kernel.ConfigCPUClock, rawperf.Freq, listed, task, false)
		e.attr.Period = 99
		if r.Callchain {
			e.attr.SampleType |= rawperf.WithCallchain
		}
		if r.PerTask {
			tracker = e
		}
	} else {
		tracker = add("dummy", kernel.TypeSoftware, kernel.ConfigDummy, 0, listed, task, !r.PerTask)
	}
	r.planModules(add, listed, task)
	var poke *evsel
	if r.PokeEvent {
		poke = add("dummy:u", kernel.TypeSoftware, kernel.ConfigDummy, rawperf.ExcludeKernel|pokes, cpus, nil, true)
		poke.ownCPUs = r.CPUList != nil || r.PerTask
	}
	if tracker == nil {
		tracker = add("dummy:HG", kernel.TypeSoftware, kernel.ConfigDummy, 0, listed, task, true)
	}
	tracker.attr.Flags |= tracking
	if poke == nil {
		tracker.attr.Flags |= pokes
		poke = tracker
	}
	if r.TwoPokeEvents {
		add("dummy:second", kernel.TypeSoftware, kernel.ConfigDummy, pokes, cpus, nil, true)
	}
	if r.PokesDisabled && poke != nil {
		poke.attr.Flags |= rawperf.Disabled
		poke.immediate = false
	}
	for _, e := range r.evsels {
		if r.Overwrite || r.SampleOverwrite && !e.immediate {
			e.attr.Flags |= rawperf.WriteBackward
		}
	}
}

func (r *recorder) planModules(add func(string, uint32, uint64, rawperf.Flags, []*kernel.CPU, *kernel.Task, bool) *evsel, cpus []*kernel.CPU, task *kernel.Task) {
	if r.Modules == NoModules {
		return
	}
	for _, tp := range []struct {
		name   string
		config uint64
	}{{"module:module_load", kernel.ConfigModuleLoad}, {"module:module_free", kernel.ConfigModuleFree}} {
		e := add(tp.name, kernel.TypeTracepoint, tp.config, 0, cpus, task, false)
		e.attr.SampleType |= rawperf.WithRaw
		switch r.Modules {
		case SampledModules:
			e.attr.Flags |= rawperf.Freq
			e.attr.Period = 99
		case PeriodModules:
			e.attr.Period = 2
		case UserModules:
			e.attr.Flags |= rawperf.ExcludeKernel
			e.name += ":u"
		}
	}
}

// attr returns the attribute of an event, as evsel__config makes it.
func (r *recorder) attr(kind uint32, config uint64, flags rawperf.Flags) rawperf.Attr {
	a := rawperf.Attr{Type: kind, Config: config, Size: r.AttrSize, Period: 1, ReadFormat: rawperf.ReadID,
		Flags: flags | rawperf.Inherit | rawperf.SampleIDAll | rawperf.ExcludeGuest}
	a.SampleType = rawperf.WithIP | rawperf.WithTID | rawperf.WithTime | rawperf.WithPeriod
	if !r.PerTask {
		a.SampleType |= rawperf.WithCPU
	}
	if r.NoIdentifier {
		a.SampleType |= rawperf.WithID
	} else {
		a.SampleType |= rawperf.WithIdentifier
	}
	if r.CountsLost {
		a.ReadFormat |= rawperf.ReadLost
	}
	if r.ClockID >= 0 {
		a.Flags |= rawperf.UseClockID
		a.ClockID = r.ClockID
	}
	return a
}

// open opens all events, and then maps one ring buffer for each CPU.
func (r *recorder) open() {
	r.k.Opening, r.k.MayDelay = true, false // also if perf gave up before
	defer func() { r.k.Opening = false }()
	var cpus []int
	for _, e := range r.evsels {
		for _, c := range e.cpus {
			ev := r.k.Open(e.attr, c, e.task)
			// No recording shows a filter if it does not have the options: known assumes none.
			if r.Modules == FilteredModules && !r.KernelMmap2 && e.attr.Type == kernel.TypeTracepoint {
				ev.Skips = func() bool { return r.p.Chance(1, 2) }
			}
			e.events = append(e.events, ev)
			r.rec.Events = append(r.rec.Events, ev)
			if !slices.Contains(cpus, c.Number) {
				cpus = append(cpus, c.Number)
			}
			r.p.Pause(r.Open/4, r.Open)
		}
	}
	slices.Sort(cpus)
	for _, n := range cpus {
		for _, backward := range []bool{false, true} {
			m := &ring{kernel.NewRing(r.RingPages, backward), n}
			used := false
			for _, ev := range r.rec.Events {
				if ev.CPU.Number == n && ev.Attr.Has(rawperf.WriteBackward) == backward {
					ev.Ring, used = m.Ring, true
				}
			}
			if used {
				r.rings = append(r.rings, m)
				r.rec.Rings = append(r.rec.Rings, m.Ring)
				r.p.Pause(r.Open/4, r.Open)
			}
		}
	}
	r.rec.Opened = r.k.Now
	r.k.MayDelay = true // before, nothing would show it (docs/truth.md, listening)
}

// enable enables all events that were not from the beginning, CPU after CPU.
func (r *recorder) enable() {
	r.switchAll(true)
	r.rec.Enabled = r.k.Now
}

// exec starts the workload. Events with enable_on_exec begin then.
func (r *recorder) exec() {
	if !r.Tail {
		r.out.synthesized(rawperf.TypeComm, 0, r.f.Comm(r.workload.PID, r.workload.PID, "perf-exec"))
	}
	r.p.Pause(1e4, 1e6)
	for _, ev := range r.rec.Events {
		if ev.Attr.Has(rawperf.EnableOnExec) {
			ev.Enabled = true
		}
	}
	if r.PerTask {
		r.rec.Enabled = r.k.Now
	}
	r.k.Exec(r.p, r.workload, "workload")
	r.rec.Exec = r.k.Now
}

// loop drains the ring buffers until the end.
func (r *recorder) loop(end uint64) {
	piece := 1
	begin := r.k.Now
	for r.k.Now < end {
		r.p.Pause(r.Drain[0], r.Drain[1])
		if r.Control && r.p.Chance(1, 8) {
			r.switchAll(false)
			r.p.Pause(1e6, 2e9)
			r.switchAll(true)
		}
		if !r.Overwrite {
			r.round()
		}
		if r.Pieces > 1 && piece < r.Pieces && r.k.Now-begin > uint64(piece)*(end-begin)/uint64(r.Pieces) {
			piece++
			if r.KernelMmap2 {
				// Nothing shows that the file is not the last one. So a record that an interrupt
				// delays until perf has read the ring buffers would be missing, with no sign of it
				// (docs/truth.md, horizon). So would one that begins while perf reads them.
				r.k.MayDelay = false
				r.settle()
				r.round()
				r.k.MayDelay = true
			}
			if r.Tail {
				r.synthesize()
			}
			r.out.finish()
			r.out.start(r)
			if !r.Tail {
				r.synthesize()
			}
		}
	}
}

// settle waits until no CPU is making a record.
func (r *recorder) settle() {
	for begin := r.k.Now; ; begin = r.k.Now {
		for _, c := range r.k.AllCPUs {
			c.Settle(r.p)
		}
		if r.k.Now == begin {
			return
		}
	}
}

// switchAll disables or enables all events, as the commands of --control do.
func (r *recorder) switchAll(on bool) {
	for _, ev := range r.rec.Events {
		r.k.Enable(r.p, ev, on)
		r.p.Pause(100, 4000)
	}
}

// round reads all ring buffers, one after the other, and reports whether any had
// something.
func (r *recorder) round() bool {
	any := false
	begin := r.k.Now
	sizes := make([]int, len(r.rings))
	for i, m := range r.rings {
		if m.Backward() {
			continue
		}
		head := m.Head()
		if m.Pending() > 0 {
			any = true
			again := head
			if r.p.Chance(r.DoubleWrites, 100) {
				r.p.Pause(1e5, 40e6)
				again = m.Head()
			}
			b := m.Bytes(again)
			sizes[i] = len(b)
			r.out.ring(i, b)
		}
		r.p.Pause(1e3, 2e5)
		m.Consume(head)
	}
	if any {
		r.out.finishedRound()
		r.out.rounds = append(r.out.rounds, Round{begin, len(r.out.data), sizes})
	}
	return any
}

// finish ends the recording (__cmd_record after the workload has ended).
func (r *recorder) finish() {
	r.stopping = true
	r.rec.Ended = r.k.Now
	r.k.Exit(r.p, r.workload)
	if r.Kill {
		r.out.kill()
		r.rec.Closed = r.k.Now
		return
	}
	if r.PerTask {
		// Perf disables nothing. A record that an interrupt delays until perf has read for the
		// last time would be missing, with no sign of it (docs/truth.md, horizon).
		r.settle()
	} else {
		// Events that perf opened disabled stop first, with no sign of it (docs/truth.md, horizon).
		defer r.k.KeepModules(r.p)()
		r.rec.Ended = r.k.Now
		for _, immediate := range []bool{false, true} {
			for _, c := range r.k.AllCPUs {
				for _, e := range r.evsels {
					for _, ev := range e.events {
						if e.immediate == immediate && ev.CPU == c {
							r.k.Enable(r.p, ev, false)
							r.p.Pause(100, 4000)
						}
					}
				}
				r.p.Pause(1e4, 1e6)
			}
		}
	}
	if r.Overwrite || r.SampleOverwrite {
		r.dump()
	}
	for r.round() {
		r.p.Pause(1e5, 1e6)
	}
	r.rec.Closed = r.k.Now
	r.lostSamples()
	if r.Tail {
		r.synthesize()
	}
	r.out.finish()
}

// dump writes what the backward ring buffers hold, the newest record first.
func (r *recorder) dump() {
	for i, m := range r.rings {
		if m.Backward() {
			r.out.ring(i, m.Newest(r.f.Order))
		}
	}
}

// lostSamples writes how many records each event lost (record__read_lost_samples).
func (r *recorder) lostSamples() {
	if !r.CountsLost {
		return
	}
	for _, e := range r.evsels {
		for _, ev := range e.events {
			if r.StopsCounting && r.p.Chance(1, 4) {
				return
			}
			if ev.Lost > 0 {
				r.out.record(r.f.Record(rawperf.TypeLostSamples, 0, r.f.LostSamples(ev.Lost), r.f.Trailer(e.attr.SampleType, rawperf.SampleID{ID: ev.ID})))
			}
		}
	}
}

// watchPrograms is the thread that fetches the infos of BPF programs that are loaded
// (perf_evlist__start_sb_thread).
func (r *recorder) watchPrograms(p *kernel.Proc) {
	for !r.stopping {
		r.fetchPrograms(p)
		p.Pause(r.InfoPause[0], r.InfoPause[1])
	}
}

// fetchPrograms fetches the infos of all programs that are new, and returns all there
// are.
func (r *recorder) fetchPrograms(p *kernel.Proc) []*kernel.Program {
	programs := r.k.Programs()
	for _, g := range programs {
		if r.seen[g.ID] {
			continue
		}
		r.seen[g.ID] = true
		if p.Chance(r.InfoFails, 100) {
			continue
		}
		b := rawperf.BPFProg{ID: g.ID, Tag: g.Tag}
		for _, f := range g.Funcs {
			b.Tags = append(b.Tags, f.Tag)
			b.Ksyms = append(b.Ksyms, f.Life.Addr)
			b.Lens = append(b.Lens, uint32(f.Life.Len))
			code := r.k.Read(f.Life.Addr, int(f.Life.Len))
			b.Insns = append(b.Insns, code...)
			r.rec.Fetched[f.Life] = code
		}
		r.infos = append(r.infos, b)
	}
	return programs
}
