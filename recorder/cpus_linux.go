// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"bytes"
	"errors"
	"fmt"
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

// readNews opens events on CPUs that came online.
func (r *Recorder) readNews() error {
	var buf [4096]byte
	changed := make(map[int]bool)
	for r.news >= 0 {
		n, _, err := unix.Recvfrom(r.news, buf[:], 0)
		if errors.Is(err, unix.ENOBUFS) {
			// Some were dropped: look at every CPU.
			for _, g := range r.rings {
				changed[g.cpu] = true
			}
			continue
		}
		if err != nil {
			break
		}
		if cpu, ok := cpuOf(buf[:n]); ok {
			changed[cpu] = true
		}
	}
	// A machine that was suspended took all CPUs but one offline, without telling
	// anybody; and the clock of the records stood still.
	if a := asleep(); a > r.awake+suspendLeast {
		for _, g := range r.rings {
			changed[g.cpu] = true
		}
		r.awake = a
	}
	if len(changed) == 0 {
		return nil
	}
	online, err := onlineCPUs()
	if err != nil {
		return err
	}
	for cpu := range changed {
		if slices.Contains(online, cpu) {
			if err := r.reopen(cpu); err != nil {
				return err
			}
		}
	}
	return nil
}

// suspendLeast is more than the two clocks differ because they are read one after the
// other, and less than a suspend takes, in ns.
const suspendLeast = 100_000_000

// cpuOf returns the CPU that a message is about, as
// "online@/devices/system/cpu/cpu1\0ACTION=online\0...".
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
// recorded: from the last record of the old events until the new ones are open.
func (r *Recorder) reopen(cpu int) error {
	from := uint64(0)
	if i := slices.IndexFunc(r.rings, func(g *ring) bool { return g.cpu == cpu }); i >= 0 {
		g := r.rings[i]
		err := g.take(func(raw []byte) error {
			r.stats.Records++
			r.size += int64(len(raw))
			r.look(g, raw)
			return r.w.WriteRecord(raw)
		})
		if err != nil {
			return err
		}
		from = g.last
		if err := r.countLost(g); err != nil {
			return err
		}
		g.close()
		r.rings = slices.Delete(r.rings, i, i+1)
	}
	if err := r.adopt(cpu, from); err != nil {
		r.warn(&Limit{What: fmt.Sprintf("what CPU %d changes from now on is unknown", cpu), Remedy: "record anew", Err: err})
		return r.note(cpu, from, ^uint64(0))
	}
	r.copy() // what the CPU changed meanwhile
	return nil
}

// adopt opens the events of a CPU that came online, which was not recorded since from.
func (r *Recorder) adopt(cpu int, from uint64) error {
	if err := r.openCPU(cpu); err != nil {
		return err
	}
	opened := now()
	i := slices.IndexFunc(r.rings, func(g *ring) bool { return g.cpu == cpu })
	g := r.rings[i]
	g.last = from
	for j, e := range r.events {
		if err := r.w.AddID(e, g.ids[j]); err != nil {
			// Without its id no reader could read a record of it.
			g.close()
			r.rings = slices.Delete(r.rings, i, i+1)
			return err
		}
	}
	if err := r.note(cpu, from, opened); err != nil {
		return err
	}
	return r.index(r.rings[i : i+1])
}

// note writes a gap to the journal.
func (r *Recorder) note(cpu int, from, to uint64) error {
	r.stats.Gaps++
	return journal.Append(r.journal, &journal.Entry{Gap: &journal.Gap{CPU: cpu, From: from, To: to}})
}
