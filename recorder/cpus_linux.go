// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/recorder/journal"
)

// listenForCPUs opens the socket on which the kernel says that a CPU came online or went
// offline (kobject_uevent() in device_online() and device_offline(), drivers/base/core.c).
func (r *Recorder) listenForCPUs() {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err == nil {
		r.news = fd
		err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1})
	}
	if err == nil {
		err = r.watch(fd, pollNews)
	}
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		r.news = -1
		r.warn(&Limit{What: "a CPU that comes back is not recorded any more", Remedy: "allow AF_NETLINK sockets", Err: err})
	}
}

// A cpuState is what the steps of a CPU that went offline show (cpuhp_invoke_callback() of
// kernel/cpu.c).
type cpuState struct {
	back bool   // it went offline, and a step up was recorded since
	up   uint64 // of a CPU without events: until then it was offline, in ns
}

// step takes a sample of cpuhp:cpuhp_enter, made at time t (ns). A step above its target is one
// down. A machine that is suspended takes CPUs offline and brings them back without any other
// sign.
func (r *Recorder) step(p *tracepoint, raw []byte, t uint64) {
	field := func(name string) (v uint32, ok bool) {
		at := p.offset(name)
		if at == 0 || at+4 > len(raw) {
			return 0, false
		}
		return binary.NativeEndian.Uint32(raw[at:]), true
	}
	number, ok := field("unsigned int cpu")
	target, ok2 := field("int target")
	step, ok3 := field("int idx")
	if !ok || !ok2 || !ok3 {
		return
	}
	cpu := int(number)
	if i := r.ringOf(cpu); i >= 0 && t < r.rings[i].opened {
		return // it is older than the CPU's events
	}
	s, down := r.steps[cpu], int32(step) > int32(target)
	switch {
	case r.ringOf(cpu) < 0: // a step up is one of a CPU that comes online for the first time
		if s == nil {
			s = &cpuState{up: t}
			if r.steps[cpu] = s; down {
				s.up = r.listed // it came online unnoticed
			}
		}
		s.back, s.up = s.back || !down, min(s.up, t)
	case down:
		r.steps[cpu] = new(cpuState)
	case s != nil:
		s.back = true
	}
}

// followsSteps reports whether every CPU that went offline shows in r.steps.
func (r *Recorder) followsSteps() bool {
	return !r.missed && slices.ContainsFunc(r.points, func(p tracepoint) bool { return p.name == hotplugPoint && p.offset("int idx") != 0 })
}

// readNews opens events on CPUs that came online.
func (r *Recorder) readNews() error {
	var buf [4096]byte
	changed := make(map[int]bool)
	for r.told {
		n, _, err := unix.Recvfrom(r.news, buf[:], 0)
		if errors.Is(err, unix.ENOBUFS) {
			// Some were dropped: look at every CPU.
			for _, g := range r.rings {
				changed[g.cpu] = true
			}
			continue
		}
		if err != nil {
			r.told = false
			break
		}
		if cpu, ok := cpuOf(buf[:n]); ok {
			changed[cpu] = true
		}
	}
	// A machine that was suspended took all CPUs but one offline without a message, and the
	// clock of the records did not advance.
	slept := r.slept
	if slept {
		r.awake, r.slept = asleep(), false
		for _, g := range r.rings {
			changed[g.cpu] = true
		}
	}
	if len(changed) > 0 && r.followsSteps() {
		if err := r.drain(); err != nil { // the steps of these CPUs
			return err
		}
		maps.DeleteFunc(changed, func(cpu int, _ bool) bool { return r.ringOf(cpu) >= 0 && r.steps[cpu] == nil })
	}
	for cpu, s := range r.steps {
		if s.back {
			changed[cpu] = true
		}
	}
	if slept && len(changed) == 0 {
		r.copy()
	}
	for _, cpu := range slices.Sorted(maps.Keys(changed)) {
		if err := r.reopen(cpu); err != nil {
			return err
		}
	}
	return nil
}

// suspendLeast is a time in ns. It is less than a suspend takes, and more than the error of
// asleep, which reads two clocks one after the other.
const suspendLeast = 100_000_000

// cpuOf returns the CPU that a message says came online:
// "online@/devices/system/cpu/cpu1\0ACTION=online\0...". ok is false for other messages.
func cpuOf(msg []byte) (cpu int, ok bool) {
	head, _, _ := bytes.Cut(msg, []byte{0})
	action, path, _ := bytes.Cut(head, []byte("@"))
	if string(action) != "online" && string(action) != "add" {
		return 0, false
	}
	number, ok := bytes.CutPrefix(path, []byte("/devices/system/cpu/cpu"))
	if !ok {
		return 0, false
	}
	cpu, err := strconv.Atoi(string(number))
	return cpu, err == nil
}

// reopen opens new events on a CPU: those that it had are dead since it went offline
// (perf_event_exit_cpu() in kernel/events/core.c). What it changed in between is not
// recorded: from the last record of the old events, or else since they were opened, until the new
// ones are open. A CPU that had none was offline when r.listed was noted, and until its first step
// if those are recorded. A CPU that is not online yet is left alone; another step or message comes
// when it is.
func (r *Recorder) reopen(cpu int) error {
	g, err := r.newRing(cpu)
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	from := r.listed
	if s := r.steps[cpu]; s != nil && r.ringOf(cpu) < 0 && r.followsSteps() {
		from = max(from, s.up)
	}
	if i := r.ringOf(cpu); i >= 0 {
		old := r.rings[i]
		if err := errors.Join(r.drainRing(old), r.countLost(old)); err != nil {
			return err
		}
		from = max(old.last, old.opened)
		old.close()
		r.rings = slices.Delete(r.rings, i, i+1)
		if err != nil { // there is room for the new events now
			g, err = r.newRing(cpu)
		}
	}
	delete(r.steps, cpu)
	if err == nil {
		err = r.adopt(g, from)
	}
	if err != nil {
		r.blind[cpu] = true
		r.warn(blindLimit(cpu, err))
		return r.note(cpu, from, ^uint64(0))
	}
	delete(r.blind, cpu)
	r.copy() // what the CPU changed meanwhile
	return nil
}

// adopt adds the new ring buffer of a CPU, which was not recorded since from (ns).
func (r *Recorder) adopt(g *ring, from uint64) error {
	g.last = from
	for j, e := range r.events {
		if err := r.w.AddID(e, g.ids[j]); err != nil {
			// Without its id no reader could read a record of it.
			g.close()
			return err
		}
	}
	r.insert(g)
	if err := r.note(g.cpu, min(from, g.opened), g.opened); err != nil {
		return err
	}
	return r.index([]*ring{g})
}

// openBlind tries again to open the events of the CPUs that are not recorded, when a new piece
// begins.
func (r *Recorder) openBlind() {
	for cpu := range r.blind {
		g, err := r.newRing(cpu)
		if err == nil {
			r.insert(g)
		}
		if err == nil || errors.Is(err, unix.ENODEV) {
			delete(r.blind, cpu)
		}
	}
}

// noteBlind writes to the journal which CPUs a piece lacks from its beginning.
func (r *Recorder) noteBlind() error {
	for _, cpu := range slices.Sorted(maps.Keys(r.blind)) {
		if err := r.note(cpu, r.opened, ^uint64(0)); err != nil {
			return err
		}
	}
	return nil
}

// note writes a gap of a CPU to the journal. Times are in ns.
func (r *Recorder) note(cpu int, from, to uint64) error {
	r.stats.Gaps++
	return journal.Append(r.journal, &journal.Entry{Gap: &journal.Gap{CPU: cpu, From: from, To: to}})
}
