// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"fmt"

	"github.com/textreplay/textreplay/perfdata"
)

// PERF_TYPE_* of include/uapi/linux/perf_event.h.
const (
	typeHardware   = 0
	typeSoftware   = 1
	typeTracepoint = 2
)

// The names that perf gives events by their numbers (enum perf_hw_id and
// perf_sw_ids of include/uapi/linux/perf_event.h).
var (
	hardwareNames = []string{
		"cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses", "bus-cycles",
		"stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles",
	}
	softwareNames = []string{
		"cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations", "minor-faults", "major-faults",
		"alignment-faults", "emulation-faults", "dummy", "bpf-output", "cgroup-switches",
	}
)

const (
	softwareCPUClock  = 0
	softwareTaskClock = 1
)

// EventNames returns the names of rec's events, in their order. If the recording does not name one, it is
// perf's name for the event's type and config: that of a tracepoint is in its format, which a pipe
// has even if it is of an old perf, and which has no names otherwise.
func EventNames(rec *perfdata.Recording) []string {
	var tracepoints map[uint64]string
	names := make([]string, len(rec.Events()))
	for i, ev := range rec.Events() {
		if ev.Name == "" && ev.Attr.Type == typeTracepoint && tracepoints == nil {
			tracepoints, _ = rec.TracepointNames() // nil if it has no formats
		}
		names[i] = eventName(ev, tracepoints)
	}
	return names
}

// eventName returns the name of an event. The names of tracepoints are by their ids.
func eventName(ev *perfdata.Event, tracepoints map[uint64]string) string {
	if ev.Name != "" {
		return ev.Name
	}
	var names []string
	switch ev.Attr.Type {
	case typeHardware:
		names = hardwareNames
	case typeSoftware:
		names = softwareNames
	case typeTracepoint:
		if name := tracepoints[ev.Attr.Config]; name != "" {
			return name
		}
	}
	if ev.Attr.Config < uint64(len(names)) {
		return names[ev.Attr.Config]
	}
	return fmt.Sprintf("event type %d config %#x", ev.Attr.Type, ev.Attr.Config)
}

// eventUnit returns the unit of an event: "nanoseconds" or "count".
func eventUnit(a *perfdata.Attr) string {
	if a.Type == typeSoftware && (a.Config == softwareCPUClock || a.Config == softwareTaskClock) {
		return "nanoseconds"
	}
	return "count"
}
