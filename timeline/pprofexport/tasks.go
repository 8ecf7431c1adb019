// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"slices"
	"sort"
	"strings"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// kernelPID is the pid of the maps of the kernel and its modules.
const kernelPID = ^uint32(0)

// kernelFile is what perf calls the file of the running kernel. The name of the
// kernel's map is longer: its reference symbol follows.
const kernelFile = "[kernel.kallsyms]"

// guestKernelFile is the file of kernels of guests.
const guestKernelFile = "[guest.kernel]"

// miscForkExec marks a FORK that perf made up of a process that was there
// already (PERF_RECORD_MISC_FORK_EXEC of tools/lib/perf/include/perf/event.h):
// separate records list its maps.
const miscForkExec = 1 << 13

// tasks has the names and mapped files of threads and processes over time.
type tasks struct {
	processes map[uint32]*process // of the host
	threads   map[threadKey]*thread
	kernel    []*mapping // of the kernel itself and of modules, by MMAP records
	mappings  map[mapping]*mapping
	buildIDs  map[string]string // by file name
	deferred  perfdata.DeferredCallchains
	isDefer   bool
}

// A threadKey names a thread of a machine: 0 is the host.
type threadKey struct {
	machine int
	tid     uint32
}

// A thread is the names that a tid had, in order of time.
type thread struct{ names []threadName }

type threadName struct {
	time uint64
	comm string
}

// comm returns the name at the time t, "" if none is known.
func (th *thread) comm(t uint64) string {
	if th == nil || t == timeless && len(th.names) > 1 {
		return ""
	}
	i := sort.Search(len(th.names), func(i int) bool { return th.names[i].time > t })
	if i == 0 {
		return ""
	}
	return th.names[i-1].comm
}

// A taskEvent is a record that changes names or maps.
type taskEvent struct {
	time     uint64
	kind     taskEventKind
	machine  int
	pid, tid uint32
	of, from uint32 // of a fork: the parent's pid and tid
	comm     string
	m        *mapping
}

type taskEventKind uint8

const (
	taskComm taskEventKind = iota
	taskExec
	taskFork // of a thread or a process
	taskBorn // a process that was there before
	taskMap
)

// readTasks reads the records about tasks, in a pass before that of the samples: a
// recording has one ring buffer after the other, so a record about the task of a sample may
// come after the sample.
func readTasks(rep *replay.Replay, damaged func(error)) *tasks {
	r := rep.Recording
	ts := &tasks{
		processes: make(map[uint32]*process),
		threads:   make(map[threadKey]*thread),
		mappings:  make(map[mapping]*mapping),
		buildIDs:  make(map[string]string),
	}
	for b, err := range r.BuildIDs() {
		if err != nil {
			damaged(err)
			break
		}
		ts.addBuildID(&b)
	}
	x := &taskReader{tasks: ts, r: r, machineOf: func(*perfdata.SampleID) int { return 0 }, names: make(map[string]string)}
	if len(rep.Report.Guests) > 0 {
		x.machineOf = rep.TaskMachineOf
	}
	// The scan of the samples ends with the same error, and reports it.
	_ = scan(r, nil, func(rec *perfdata.Record) {
		if err := x.read(rec); err != nil {
			damaged(err)
		}
	}, perfdata.Only(perfdata.RecordComm, perfdata.RecordFork, perfdata.RecordMMAP, perfdata.RecordMMAP2,
		perfdata.RecordHeaderBuildID, perfdata.RecordCallchainDeferred))
	slices.SortStableFunc(x.events, func(a, b taskEvent) int { return cmp.Compare(a.time, b.time) })
	ts.replay(x.events)
	for _, p := range ts.processes {
		p.seal()
	}
	for _, m := range ts.mappings {
		if m.buildID == "" {
			m.buildID = ts.buildIDs[m.file]
		}
	}
	return ts
}

// A taskReader collects the events of tasks.
type taskReader struct {
	*tasks
	r         *perfdata.Recording
	machineOf func(*perfdata.SampleID) int
	events    []taskEvent
	names     map[string]string // each name once

	comm  perfdata.Comm
	task  perfdata.Task
	mmap  perfdata.Mmap
	build perfdata.BuildID
	chain perfdata.CallchainDeferred
}

func (x *taskReader) intern(b []byte) string {
	s, ok := x.names[string(b)]
	if !ok {
		s = string(b)
		x.names[s] = s
	}
	return s
}

func (x *taskReader) read(rec *perfdata.Record) error {
	switch rec.Type {
	case perfdata.RecordComm:
		if err := x.r.Comm(rec, &x.comm); err != nil {
			return err
		}
		e := taskEvent{time: x.comm.Time, kind: taskComm, machine: x.machineOf(&x.comm.SampleID), pid: x.comm.PID, tid: x.comm.TID, comm: x.intern(x.comm.Comm)}
		if rec.Misc&perfdata.MiscCommExec != 0 {
			e.kind = taskExec
		}
		x.events = append(x.events, e)
	case perfdata.RecordFork:
		if err := x.r.Task(rec, &x.task); err != nil {
			return err
		}
		e := taskEvent{time: x.task.Time, kind: taskFork, machine: x.machineOf(&x.task.SampleID), pid: x.task.PID, tid: x.task.TID, of: x.task.PPID, from: x.task.PTID}
		if rec.Misc&miscForkExec != 0 || x.task.Time == 0 {
			e.kind = taskBorn
		}
		x.events = append(x.events, e)
	case perfdata.RecordMMAP, perfdata.RecordMMAP2:
		if err := x.r.Mmap(rec, &x.mmap); err != nil {
			return err
		}
		if x.machineOf(&x.mmap.SampleID) == 0 {
			x.addMap(rec.CPUMode())
		}
	case perfdata.RecordHeaderBuildID:
		if err := x.r.BuildID(rec, &x.build); err != nil {
			return err
		}
		x.addBuildID(&x.build)
	case perfdata.RecordCallchainDeferred:
		if err := x.r.CallchainDeferred(rec, &x.chain); err != nil {
			return err
		}
		x.deferred.Add(&x.chain)
		x.isDefer = true
	}
	return nil
}

// addMap adds the mapping that was read, unless it is empty or of a virtual machine.
func (x *taskReader) addMap(mode uint16) {
	p := &x.mmap
	if p.Addr+p.Len <= p.Addr || mode == perfdata.MiscGuestKernel || mode == perfdata.MiscGuestUser {
		return
	}
	m := x.mapping(mapping{start: p.Addr, limit: p.Addr + p.Len, offset: p.Pgoff, file: x.intern(p.Filename), buildID: hexID(p.BuildID)})
	if p.PID == kernelPID {
		x.kernel = append(x.kernel, m)
		x.addKernelBuildID(m)
		return
	}
	x.events = append(x.events, taskEvent{time: p.Time, kind: taskMap, pid: p.PID, m: m})
}

// mapping returns the one mapping that is equal to m.
func (ts *tasks) mapping(m mapping) *mapping {
	have, ok := ts.mappings[m]
	if !ok {
		have = &m
		ts.mappings[m] = have
	}
	return have
}

func (ts *tasks) addBuildID(b *perfdata.BuildID) {
	switch b.Misc & perfdata.MiscCPUModeMask {
	case perfdata.MiscGuestKernel, perfdata.MiscGuestUser:
		return
	}
	ts.buildIDs[string(b.Filename)] = hexID(b.BuildID)
}

// addKernelBuildID takes the kernel's build id out of the kernel's map, if that has
// one (perf record --buildid-mmap) and there is no BUILD_ID feature.
func (ts *tasks) addKernelBuildID(m *mapping) {
	if m.buildID != "" && strings.HasPrefix(m.file, kernelFile) && ts.buildIDs[kernelFile] == "" {
		ts.buildIDs[kernelFile] = m.buildID
	}
}

// hexID prints a build id. If its length is not recorded, it was padded with
// zeros.
func hexID(id []byte) string {
	const short = 16 // of an MD5 sum
	if len(id) > short && len(bytes.TrimRight(id, "\x00")) <= short {
		id = id[:short]
	}
	return hex.EncodeToString(id)
}

// replay goes through the events in order of time.
func (ts *tasks) replay(events []taskEvent) {
	for i := range events {
		e := &events[i]
		key, isHost := threadKey{e.machine, e.tid}, e.machine == 0
		switch e.kind {
		case taskExec:
			if isHost {
				ts.process(e.pid).exec(e.time)
			}
			ts.rename(key, e.time, e.comm)
		case taskComm:
			ts.rename(key, e.time, e.comm)
		case taskFork:
			if isHost && e.pid != e.of {
				ts.process(e.pid).fork(ts.process(e.of).current(), e.time)
			}
			// The tid may have been that of another thread, so its name goes also where that of the
			// parent is not known.
			parent := ts.threads[threadKey{e.machine, e.from}].comm(timeline.MaxTime)
			if e.from != e.tid && (parent != "" || ts.threads[key] != nil) {
				ts.rename(key, e.time, parent)
			}
		case taskBorn:
			if isHost {
				ts.process(e.pid).current()
			}
		case taskMap:
			s := ts.process(e.pid).current()
			s.maps = append(s.maps, mapped{e.time, e.m})
		}
	}
}

func (ts *tasks) process(pid uint32) *process {
	p := ts.processes[pid]
	if p == nil {
		p = new(process)
		ts.processes[pid] = p
	}
	return p
}

func (ts *tasks) rename(key threadKey, t uint64, comm string) {
	th := ts.threads[key]
	if th == nil {
		th = new(thread)
		ts.threads[key] = th
	}
	th.names = append(th.names, threadName{t, comm})
}

// comm returns the name of a thread of a machine at the time t, "" if it is not known. The idle task
// has no record.
func (ts *tasks) comm(machine int, pid, tid uint32, t uint64) string {
	if pid == 0 && tid == 0 {
		return "swapper"
	}
	return ts.threads[threadKey{machine, tid}].comm(t)
}
