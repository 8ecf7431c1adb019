// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import "github.com/textreplay/textreplay/perfdata"

// A labelSet is the labels of a sample; has says which of them there are.
type labelSet struct {
	has           Labels
	pid, tid, cpu uint32
	comm          string
}

// A labelTable numbers sets of labels. It finds those used last without hashing a
// string.
type labelTable struct {
	want Labels
	list []labelSet
	ids  map[labelSet]uint32
	last []uint32 // 1 + number, by a hash of tid and CPU
}

const lastLabels = 1 << 12

func newLabelTable(want Labels) labelTable {
	return labelTable{want: want, ids: make(map[labelSet]uint32), last: make([]uint32, lastLabels)}
}

// noTask is what the kernel gives for the numbers of a task that has gone already
// (perf_event_pid_type of kernel/events/core.c).
const noTask = ^uint32(0)

// id returns the number of the labels of a sample of a thread named comm.
func (t *labelTable) id(s *perfdata.SampleID, comm string) uint32 {
	var l labelSet
	if t.want&LabelCPU != 0 && s.Has&perfdata.SampleCPU != 0 {
		l.has, l.cpu = LabelCPU, s.CPU
	}
	if s.Has&perfdata.SampleTID != 0 {
		if t.want&LabelPID != 0 && s.PID != noTask {
			l.has, l.pid = l.has|LabelPID, s.PID
		}
		if t.want&LabelTID != 0 && s.TID != noTask {
			l.has, l.tid = l.has|LabelTID, s.TID
		}
		if t.want&LabelComm != 0 && comm != "" {
			l.has, l.comm = l.has|LabelComm, comm
		}
	}
	last := &t.last[(s.TID*31+s.CPU)%lastLabels]
	if *last != 0 && t.list[*last-1] == l {
		return *last - 1
	}
	id, ok := t.ids[l]
	if !ok {
		id = uint32(len(t.list))
		t.list = append(t.list, l)
		t.ids[l] = id
	}
	*last = id + 1
	return id
}
