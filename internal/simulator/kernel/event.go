// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"slices"

	"github.com/textreplay/textreplay/internal/simulator/rawperf"
)

// A Task is the only thread of a process.
type Task struct {
	PID  uint32
	Comm string
	CPU  *CPU
}

// A CPU runs tasks and has the events that listen to it.
type CPU struct {
	Number    int
	Online    bool
	Returned  uint64   // true time at which it came back without its events; 0: it did not
	listeners []*Event // the newest first, as attach_sb_event puts them
	samplers  []*Event // all that are open, those that never sample too
	busy      Mutex    // held while a task makes a record
}

// An Event is what perf_event_open opens: on one CPU, for all tasks or for one.
type Event struct {
	ID      uint64
	Attr    rawperf.Attr
	CPU     *CPU
	Task    *Task // nil: all tasks
	Enabled bool
	Ring    *Ring
	Lost    uint64 // records that found no room, as read(2) returns with ReadLost
	// Skips says that a tracepoint's filter or cgroup lets this time pass.
	Skips func() bool
	gone  bool // the CPU went offline
}

// A Ring is a ring buffer that perf has mapped.
type Ring struct {
	data       []byte
	head, tail uint64
	lost       uint64 // since the last record
	backward   bool
	// Losses are the times between a LOST record and the record before it that is no
	// sample, and the time after the last record if something was lost since.
	Losses []Interval
	last   uint64 // true time of the last record that is no sample
}

// NewRing makes a ring buffer of so many pages. A backward one is never full: its
// newest records overwrite the oldest.
func NewRing(pages int, backward bool) *Ring {
	return &Ring{data: make([]byte, pages*PageSize), backward: backward}
}

// write puts b before or behind what is there.
func (r *Ring) write(b []byte) {
	n := uint64(len(r.data))
	if r.backward {
		r.head -= uint64(len(b))
		for i, c := range b {
			r.data[(r.head+uint64(i))%n] = c
		}
		return
	}
	for i, c := range b {
		r.data[(r.head+uint64(i))%n] = c
	}
	r.head += uint64(len(b))
}

// skip leaves n bytes as they are, and counts them as written.
func (r *Ring) skip(n int) {
	r.head += uint64(n)
}

// drop counts a record of e that found no room.
func (r *Ring) drop(e *Event) {
	if r.lost == 0 {
		r.Losses = append(r.Losses, Interval{r.last, forever})
	}
	r.lost++
	e.Lost++
}

// room reports whether n more bytes fit (CIRC_SPACE of include/linux/circ_buf.h).
func (r *Ring) room(n int) bool {
	return r.backward || r.head-r.tail+uint64(n) < uint64(len(r.data))
}

// Backward reports whether the newest records overwrite the oldest.
func (r *Ring) Backward() bool { return r.backward }

// Pending returns how many bytes the ring buffer holds.
func (r *Ring) Pending() int { return int(r.head - r.tail) }

// Head returns the position of the next byte.
func (r *Ring) Head() uint64 { return r.head }

// Bytes returns the bytes from the last one that was read to position head.
func (r *Ring) Bytes(head uint64) []byte {
	var b []byte
	for i := r.tail; i < head; i++ {
		b = append(b, r.data[i%uint64(len(r.data))])
	}
	return b
}

// Consume frees the bytes up to position head.
func (r *Ring) Consume(head uint64) { r.tail = head }

// Newest returns the whole records of a backward ring buffer, the newest first.
func (r *Ring) Newest(order rawperf.ByteOrder) []byte {
	size := uint64(len(r.data))
	var b []byte
	for at := r.head; ; {
		var head [8]byte
		for i := range head {
			head[i] = r.data[(at+uint64(i))%size]
		}
		n := uint64(order.Uint16(head[6:]))
		if n == 0 || at+n-r.head > size {
			return b
		}
		for i := range n {
			b = append(b, r.data[(at+i)%size])
		}
		at += n
	}
}

// Open opens an event for a CPU. It listens from now on, but no record is kept before
// it has a ring buffer.
func (k *Kernel) Open(attr rawperf.Attr, cpu *CPU, task *Task) *Event {
	k.lastID++
	e := &Event{ID: k.lastID, Attr: attr, CPU: cpu, Task: task, Enabled: !attr.Has(rawperf.Disabled)}
	if attr.Flags&(rawperf.Mmap|rawperf.Comm|rawperf.Task|rawperf.KSymbol|rawperf.BPFEvent|rawperf.TextPoke) != 0 {
		cpu.listeners = slices.Insert(cpu.listeners, 0, e)
	}
	cpu.samplers = append(cpu.samplers, e)
	return e
}

// Enable enables or disables an event, as soon as its CPU is not making a record.
func (k *Kernel) Enable(p *Proc, e *Event, on bool) {
	e.CPU.busy.Lock(p)
	e.Enabled = on
	e.CPU.busy.Unlock()
}

// Settle waits until the CPU is not making a record.
func (c *CPU) Settle(p *Proc) {
	c.busy.Lock(p)
	c.busy.Unlock()
}

// Close takes events off their CPUs.
func (k *Kernel) Close(events []*Event) {
	for _, e := range events {
		is := func(x *Event) bool { return x == e }
		e.CPU.listeners = slices.DeleteFunc(e.CPU.listeners, is)
		e.CPU.samplers = slices.DeleteFunc(e.CPU.samplers, is)
	}
}

// takes reports whether an event of its CPU takes what task does.
func (e *Event) takes(task *Task) bool {
	return e.Enabled && !e.gone && (e.Task == nil || e.Task == task)
}

// made says when the records of one change were made: the true times that the first and
// the last one say, both that of the change if nobody listens; and whether there are any
// and all of them found room.
type made struct {
	first, last uint64
	kept        bool
}

// record makes a side-band record for every event that listens with flag where task
// runs, as perf_iterate_sb does.
func (k *Kernel) record(p *Proc, task *Task, flag rawperf.Flags, t rawperf.Type, misc uint16, body []byte) made {
	cpu := k.pin(p, task)
	defer cpu.busy.Unlock()
	// One header serves all listeners, and nobody takes back what the ones before
	// added to its size.
	size := rawperf.HeaderSize + len(body)
	m := made{first: k.Now, last: k.Now}
	for i, e := range cpu.listening(flag, task) {
		if i > 0 {
			p.Pause(300, 9000)
		}
		size += len(k.trailer(e, task, 0))
		at, kept := k.output(p, e, task, t, size, func(time uint64) []byte {
			return slices.Concat(k.Format.Header(t, misc, size), body, k.trailer(e, task, time))
		})
		if i == 0 {
			m.first = at
		}
		m.last, m.kept = at, kept && (i == 0 || m.kept)
	}
	return m
}

// listening returns the CPU's events that take such records of what task does.
func (c *CPU) listening(flag rawperf.Flags, task *Task) (events []*Event) {
	for _, e := range c.listeners {
		if e.Attr.Has(flag) && e.takes(task) {
			events = append(events, e)
		}
	}
	return events
}

// pin keeps a task on its CPU, or on another one if that went offline, and everybody
// else off the CPU until busy is unlocked.
func (k *Kernel) pin(p *Proc, task *Task) *CPU {
	for {
		if !task.CPU.Online {
			k.migrate(p, task)
		}
		cpu := task.CPU
		if cpu.busy.Lock(p); cpu.Online {
			return cpu
		}
		cpu.busy.Unlock()
	}
}

func (k *Kernel) trailer(e *Event, task *Task, time uint64) []byte {
	if !e.Attr.Has(rawperf.SampleIDAll) {
		return nil
	}
	return k.Format.Trailer(e.Attr.SampleType, k.sampleID(e, task, time))
}

func (k *Kernel) sampleID(e *Event, task *Task, time uint64) rawperf.SampleID {
	return rawperf.SampleID{PID: task.PID, TID: task.PID, Time: time, ID: e.ID, CPU: uint32(e.CPU.Number)}
}

// output puts a record of type t and of size bytes into the event's ring buffer. It
// returns the true time of the record, and whether there was room for it. make returns the
// record, given the clock's time; it may have fewer bytes than size.
func (k *Kernel) output(p *Proc, e *Event, task *Task, t rawperf.Type, size int, make func(time uint64) []byte) (at uint64, kept bool) {
	at = k.Now
	if k.LateWrites > 0 && k.MayDelay && p.Chance(1, 8) {
		p.Pause(0, k.LateWrites) // an interrupt comes between time and record
	}
	if t == rawperf.TypeTextPoke || t == rawperf.TypeKSymbol || t == rawperf.TypeBPFEvent {
		k.Widest = max(k.Widest, size)
	}
	r := e.Ring
	if r == nil {
		return at, false
	}
	if r.lost > 0 {
		trailer := k.trailer(e, task, k.Clock.Read(e.CPU.Number, k.Now))
		lost := k.Format.Record(rawperf.TypeLost, 0, k.Format.Lost(e.ID, r.lost), trailer)
		if !r.room(len(lost) + size) {
			r.drop(e)
			return at, false
		}
		at = k.Now // the record behind has the time of the LOST record
		r.write(lost)
		r.Losses[len(r.Losses)-1].To = at
		r.lost = 0
	}
	if !r.room(size) {
		r.drop(e)
		return at, false
	}
	if t != rawperf.TypeSample {
		r.last = at
	}
	b := make(k.Clock.Read(e.CPU.Number, at))
	if r.backward {
		r.write(append(b, zeros(size-len(b))...))
		return at, true
	}
	r.write(b)
	r.skip(size - len(b))
	return at, true
}

func zeros(n int) []byte { return make([]byte, n) }

// sample makes a SAMPLE for an event, at an interrupt or a tracepoint.
func (k *Kernel) sample(p *Proc, e *Event, task *Task, ip uint64, raw []byte) {
	st := e.Attr.SampleType
	body := func(time uint64) []byte {
		return k.Format.Sample(st, k.sampleID(e, task, time), ip, 1, []uint64{ip, ip + 16}, raw)
	}
	size := rawperf.HeaderSize + len(body(0))
	k.output(p, e, task, rawperf.TypeSample, size, func(time uint64) []byte {
		return k.Format.Record(rawperf.TypeSample, rawperf.MiscKernel, body(time), nil)
	})
}

// Types of events.
const (
	TypeSoftware   = 1
	TypeTracepoint = 2
)

// Events of TypeSoftware.
const (
	ConfigCPUClock = 0
	ConfigDummy    = 9
)

// Events of TypeTracepoint.
const (
	ConfigModuleFree = 361
	ConfigModuleLoad = 362
)

// tracepoint samples for every event at this tracepoint where task runs.
func (k *Kernel) tracepoint(p *Proc, task *Task, config uint64, raw []byte) {
	cpu := k.pin(p, task)
	defer cpu.busy.Unlock()
	for _, e := range slices.Clone(cpu.samplers) {
		a := &e.Attr
		if a.Type != TypeTracepoint || a.Config != config || !e.takes(task) || a.Has(rawperf.ExcludeKernel) {
			continue
		}
		if e.Skips != nil && e.Skips() {
			continue
		}
		if (a.Has(rawperf.Freq) || a.Period > 1) && p.Chance(1, 2) {
			continue // not every one is a sample
		}
		k.sample(p, e, task, k.Text.Lo+0x40, raw)
	}
}
