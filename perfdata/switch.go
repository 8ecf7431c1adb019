// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

// A Switch is a SWITCH or SWITCH_CPU_WIDE record: a task starts to run on a CPU or
// stops (perf_event_switch_output of kernel/events/core.c). The trailer names the
// task. MiscSwitchOut in Record.Misc is set if the task stops, MiscSwitchPreempt if
// it was preempted, so that it was still able to run.
type Switch struct {
	// The task that runs next, or the one that ran before; only in
	// SWITCH_CPU_WIDE.
	NextPrevPID, NextPrevTID uint32
	SampleID
}

const switchWideBody = 16 // header, u32 next_prev_pid, next_prev_tid

// Switch decodes a SWITCH or SWITCH_CPU_WIDE record into s, without
// allocating. The error, where the record is too short, is a [*FormatError].
func (r *Recording) Switch(rec *Record, s *Switch) error {
	*s = Switch{}
	if rec.Type == RecordSwitch {
		return r.fixed(rec, headerSize, &s.SampleID)
	}
	if rec.Type != RecordSwitchCPUWide {
		return r.notA(rec, RecordSwitch, "")
	}
	if err := r.fixed(rec, switchWideBody, &s.SampleID); err != nil {
		return err
	}
	s.NextPrevPID, s.NextPrevTID = r.endian.u32(rec.Raw[8:]), r.endian.u32(rec.Raw[12:])
	return nil
}
