// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"slices"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// A start is what the records of tasks show for the time from perf's copy of kernel
// text until perf enabled its events.
//
// A module is unloaded when a task asks for it (delete_module(2)). Between the copy and
// the enabling, perf creates a thread for side-band events
// (record__setup_sb_evlist of tools/perf/builtin-record.c). The FORK of that thread is
// recorded. If no other task appeared in that time, no rmmod ran.
type start struct {
	parents  map[uint32]uint32 // parent of each process that existed before
	thread   uint64            // time of the first FORK of a thread of perf, 0 if there is none yet
	stranger uint64            // time of the first sign of another new program, 0 if there is none yet
}

const kthreadd = 2 // the parent of kernel threads

// task takes a FORK or EXIT record.
func (s *scan) task(rec *perfdata.Record) {
	var t perfdata.Task
	if err := s.rec.Task(rec, &t); err != nil {
		s.broken(rec, "%v", err)
		return
	}
	e := s.enter(rec, &t.SampleID)
	recorded := e.recorded(&t.SampleID)
	if recorded {
		s.fits(rec, &t.SampleID, 8+24)
	}
	if e.foreign {
		return
	}
	if recorded {
		s.readerRan(&t, rec.Type == perfdata.RecordFork)
	}
	if recorded {
		s.writesNone(rec, &t.SampleID)
		if rec.Type == perfdata.RecordExit {
			s.tasks.meet(t.TID, t.Time)
		}
	}
	if rec.Type != perfdata.RecordFork || !recorded && t.Time != 0 {
		return
	}
	s.tasks.forked(&t)
	s.waiter.meet(t.PTID, t.Time)
	st := &s.start
	earliest := func(at *uint64) {
		if *at == 0 || t.Time < *at {
			*at = t.Time
		}
	}
	switch {
	case t.Time == 0:
		if st.parents == nil {
			st.parents = make(map[uint32]uint32)
		}
		st.parents[t.PID] = t.PPID
	case t.PID != t.PPID && t.PPID != kthreadd:
		earliest(&st.stranger)
	case t.PID == t.PPID && s.isPerf(t.PID):
		earliest(&st.thread)
	}
}

// isPerf reports whether a process is the perf that started the workload.
func (s *scan) isPerf(pid uint32) bool {
	for child := range s.perfExec {
		if s.start.parents[child] == pid {
			return true
		}
	}
	return false
}

// program takes the exec of a program other than the workload.
func (st *start) program(t uint64) {
	if st.stranger == 0 || t < st.stranger {
		st.stranger = t
	}
}

// quiet reports whether the modules that perf copied were still there when it had enabled its
// events: no program was started in between. The FORK of perf's thread shows that.
func (s *scan) quiet() bool {
	st := &s.start
	return st.thread != 0 && st.thread <= s.execed() && s.noneStarted()
}

// noneStarted reports whether no program was started from perf's copy until perf had enabled its
// events. That is only known if such a start would have been recorded: by events for all
// tasks, on every CPU, that were not opened disabled.
func (s *scan) noneStarted() bool {
	execed := s.execed()
	if !s.options.AtStart() || execed == timeline.MaxTime || s.start.stranger != 0 && s.start.stranger < execed {
		return false
	}
	cpus := make(map[int64]bool)
	const tasks = perfdata.FlagTask | perfdata.FlagComm | perfdata.FlagCommExec
	for _, ch := range s.channels.all {
		if ch.event != nil && ch.system && ch.machine == s.listens && ch.event.Attr.Flags&tasks == tasks && !s.startsDisabled(ch.event) &&
			(!s.mayFail(ch.event) || ch.last >= execed) {
			cpus[ch.cpu] = true
		}
	}
	if s.report.CPUsAvailable == 0 || len(cpus) < s.report.CPUsAvailable {
		return false
	}
	for _, b := range s.buffers {
		for _, l := range b.losses {
			if l.From < execed {
				return false
			}
		}
	}
	return len(s.damage) == 0 && !s.moduleUnseen()
}

// moduleUnseen reports whether a module was loaded or freed before the events of modules
// were enabled. That shows if the first event of a copied module is a load, or that of
// another module is a free, and no record was lost before.
func (s *scan) moduleUnseen() bool {
	copied := make(map[string]bool)
	for _, m := range s.modules {
		copied[m.Name] = true
	}
	for name, events := range s.moduleEvents {
		first := slices.MinFunc(events, func(a, b moduleEvent) int { return cmp.Compare(a.time, b.time) })
		if copied[name] == first.loaded && !s.lostBefore(first.time) {
			return true
		}
	}
	return false
}

// lostBefore reports whether records were lost before time t.
func (s *scan) lostBefore(t uint64) bool {
	for _, b := range s.buffers {
		if slices.ContainsFunc(b.losses, func(l Loss) bool { return l.From < t }) {
			return true
		}
	}
	return false
}
