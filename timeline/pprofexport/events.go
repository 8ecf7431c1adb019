// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"fmt"

	"github.com/textreplay/textreplay/perfdata"
)

// PERF_TYPE_* of include/uapi/linux/perf_event.h.
const (
	typeHardware = 0
	typeSoftware = 1
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

// eventName returns the name of an event. If the recording has none, it returns perf's name for
// the event's type and config.
func eventName(ev *perfdata.Event) string {
	if ev.Name != "" {
		return ev.Name
	}
	var names []string
	switch ev.Attr.Type {
	case typeHardware:
		names = hardwareNames
	case typeSoftware:
		names = softwareNames
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
