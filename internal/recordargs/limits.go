// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recordargs

import "strings"

// Limits are the options of perf record that limit what events record and are not in the
// events' attrs.
type Limits struct {
	// Known is set if the recording has the command line and all its options are
	// understood. Otherwise the other fields are what any of its words may mean.
	Known    bool
	Delay    string   // -D: "", or a time, -1, or ranges
	Control  bool     // --control: another program enabled and disabled the events
	Cgroup   bool     // -G: events record only in a cgroup
	User     bool     // -u: events record only one user's tasks
	Filtered []string // the -e options, as written, that have a --filter
	Switched bool     // --switch-output: the records are spread over several files
	Pipe     bool     // -o -: the records were written to a pipe
	// ListsWorkload is set if perf lists all tasks that there are before it starts its workload. So it
	// lists the process that waits to execute the workload.
	ListsWorkload bool
}

// LimitsOf returns the limits of a command line, which [Split] reads. Other command lines pass
// their arguments on to perf record ("perf kvm record"), and newer perfs have other options. Of
// such a line, every word before "--" may be an option.
func LimitsOf(args []string) Limits {
	c, ok := Split(args)
	if !ok && len(args) > 0 {
		c.Options = anyOptions(args[1:])
	}
	l := Limits{Known: ok}
	lastEvent, all, some := "", false, false
	for _, o := range c.Options {
		switch o.Name {
		case "event":
			lastEvent = o.Value
		case "filter":
			l.Filtered = append(l.Filtered, lastEvent)
		case "delay":
			l.Delay = o.Value
		case "control":
			l.Control = true
		case "cgroup":
			l.Cgroup = true
		case "uid":
			l.User = true
		case "switch-output", "switch-output-event":
			l.Switched = true
		case "output":
			l.Pipe = o.Value == "-"
		case "all-cpus", "cpu":
			all = true
		}
		switch o.Name {
		case "pid", "tid", "uid", "synth", "tail-synthesize":
			some = true
		}
	}
	l.ListsWorkload = ok && len(c.Workload) > 0 && all && !some
	return l
}

// EnablesOnce reports whether perf enabled its events once, at the beginning or after
// a delay, and disabled none before it ended. It returns false if the command line is
// unknown.
func (l *Limits) EnablesOnce() bool {
	return l.Known && !l.Control && !strings.ContainsAny(l.Delay, "-,")
}

// AtStart reports whether perf enabled its events before it started its workload.
func (l *Limits) AtStart() bool {
	return l.EnablesOnce() && strings.Trim(l.Delay, "0") == ""
}

// Confines returns why an event of -e does not record every occurrence, or "" if no
// option limits it. A filter is for all events of one -e.
func (l *Limits) Confines(event string) string {
	for _, f := range l.Filtered {
		if strings.Contains(f, event) || strings.ContainsAny(f, "*?[") {
			return "perf record --filter"
		}
	}
	switch {
	case l.Cgroup:
		return "perf record -G records in a cgroup only"
	case l.User:
		return "perf record -u records the tasks of one user only"
	}
	return ""
}
