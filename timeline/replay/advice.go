// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/textreplay/textreplay/internal/recordargs"
)

// Advice is a command line that records what a recording lacks.
type Advice struct {
	// Command is the command line, beginning with the recorder of this recording: "perf"
	// or "textreplay"; nil if no option of it helps.
	Command []string
	// Changes are what differs from the recording's own command line, and why. Without
	// changes, the recording lacks nothing that its recorder can record.
	Changes []AdvisedChange
}

// An AdvisedChange is a part of an [Advice].
type AdvisedChange struct {
	Option string // "--kcore", "no -F 99"; "" if the reason is not about an option
	Why    string
}

// Advice returns how to record what this recording lacks, derived from its own command
// line. If the recording does not have it, the command line is a general one. For a
// guest, Advice returns nil: only the host's recorder has options.
func (r *Replay) Advice() *Advice {
	if r.Report.Guest != 0 {
		return nil
	}
	args, _ := r.Recording.Cmdline()
	if r.journal != nil {
		return r.Report.recorderAdvice(args, r.journal, r.Recording.Events())
	}
	return r.Report.advice(args)
}

// laterFiles is why --switch-output is left out.
const laterFiles = `only the first file has a copy of kernel text; "textreplay record --max-size SIZE" makes pieces that each have one`

// advice derives the advice from the recording's command line.
func (rep *Report) advice(args []string) *Advice {
	a := &Advice{}
	if rep.adviseSilent(a) {
		return a
	}
	c, ok := recordargs.Split(args)
	if !ok {
		c = recordargs.Command{Workload: []string{"sleep", "10"}}
		a.change("", "this is a general command: the recording does not have its own, or it is not understood")
	}
	a.advisePlace(&c)
	switch {
	case !c.Has("kcore"):
		c.Add("--kcore", "kcore", "")
		a.change("--kcore", "copies kernel text, and records text pokes on every CPU")
	case rep.SnapshotBytes == 0 && (c.Has("switch-output") || c.Has("switch-output-event")):
		// In the directory of another file it would count as made when that was recorded.
		a.change("", "perf copies kernel text once, for the first file of --switch-output: give its kcore_dir with --kcore DIR, and leave it where it is")
	case rep.SnapshotBytes == 0:
		a.change("", "kcore_dir is missing: keep it in the recording's directory")
	}
	if !ok {
		c.Add("-e", "event", "dummy")
	}
	a.adviseEvents(&c)
	if clock := c.Value("clockid"); clock != "" && !takesTracepoints(clock) {
		text := c.Remove("clockid")
		c.Add("-k", "clockid", "CLOCK_MONOTONIC")
		a.change("-k CLOCK_MONOTONIC instead of "+text, "the kernel refuses tracepoints on that clock")
	}
	for _, o := range []struct{ name, why string }{
		{"overwrite", "it overwrites the oldest records without a sign"},
		{"no-bpf-event", "it leaves out BPF programs"},
		{"delay", "changes before the events are enabled are lost"},
		{"cgroup", "module events outside of the cgroup are lost"},
		{"switch-output", laterFiles},
		{"switch-output-event", laterFiles},
		{"switch-max-files", "it belongs to --switch-output"},
	} {
		if text := c.Remove(o.name); text != "" {
			a.change("no "+text, o.why)
		}
	}
	if c.Value("output") == "-" {
		c.Remove("output")
		a.change("no -o -", "a pipe has no BPF programs that are loaded during the run")
	}
	if len(rep.Losses) > 0 {
		size := largerBuffers(c.Value("mmap-pages"))
		c.Remove("mmap-pages")
		c.Add("-m", "mmap-pages", size)
		a.change("-m "+size, "records were lost: larger ring buffers")
	}
	if rep.CPUsOnline < rep.CPUsAvailable {
		a.change("", fmt.Sprintf("%d of %d CPUs were online: bring up all before, because that changes text with no record", rep.CPUsOnline, rep.CPUsAvailable))
	}
	if rep.CPUsAvailable == 0 {
		a.change("", "perf did not finish this file: end it with SIGINT or SIGTERM, not SIGKILL; for this one, --cpus N gives the number of CPUs")
	}
	a.Command = c.Args()
	return a
}

// adviseSilent says how to record kernels that record no text changes, and returns whether
// this is one.
func (rep *Report) adviseSilent(a *Advice) bool {
	if !rep.architecture().silent() {
		return false
	}
	why := fmt.Sprintf("kernels of this architecture (%s) record no text changes, whatever perf's options", rep.Arch)
	switch {
	case rep.Probes != nil:
		why = fmt.Sprintf(`kernels of this architecture (%s) record text changes only by kprobe events, as here: "textreplay record" makes them, and "textreplay probes" prints a script for perf`, rep.Arch)
	case rep.architecture().probedARM64() || rep.architecture().probedPPC64():
		why += `; "textreplay record" records them by kprobe events, and "textreplay probes" prints a script that does so with perf`
	}
	a.change("", why)
	return true
}

// change adds a change to the advice.
func (a *Advice) change(option, why string) {
	a.Changes = append(a.Changes, AdvisedChange{option, why})
}

// advisePlace makes the command record all CPUs.
func (a *Advice) advisePlace(c *recordargs.Command) {
	var instead []string
	for _, name := range []string{"cpu", "pid", "tid", "uid", "per-thread"} {
		if text := c.Remove(name); text != "" {
			instead = append(instead, text)
		}
	}
	if c.Has("all-cpus") && len(instead) == 0 {
		return
	}
	c.Remove("all-cpus")
	c.Options = slices.Insert(c.Options, 0, recordargs.Option{Name: "all-cpus", Text: []string{"-a"}})
	text := "-a"
	if len(instead) > 0 {
		text += " instead of " + strings.Join(instead, " ")
	}
	a.change(text, "the kernel reports BPF programs and module loads only to events of the CPU where they happen")
}

// adviseEvents adds tracepoints, and removes the options that make perf skip tracepoints. Each
// event that samples gets the option's value as a term of its own.
func (a *Advice) adviseEvents(c *recordargs.Command) {
	for _, f := range []struct{ name, term string }{{"freq", "freq"}, {"count", "period"}} {
		value := c.Value(f.name)
		if value == "" {
			continue
		}
		if _, err := strconv.ParseUint(value, 10, 64); err != nil {
			continue // max
		}
		text, sampled := c.Remove(f.name), false
		for i := range c.Options {
			if o := &c.Options[i]; o.Name == "event" {
				events := []string{o.Value}
				if !strings.ContainsAny(o.Value, "/{") {
					events = strings.Split(o.Value, ",")
				}
				for i, e := range events {
					if with, ok := withTerm(e, f.term+"="+value); ok {
						events[i], sampled = with, true
					}
				}
				with := strings.Join(events, ",")
				*o = recordargs.Option{Name: "event", Text: []string{"-e", with}, Value: with}
			}
		}
		if !c.Has("event") {
			c.Add("-e", "event", "cycles/"+f.term+"="+value+"/")
			sampled = true
		}
		if sampled {
			a.change("no "+text, "it makes perf skip tracepoints; each event has its own "+f.term+" instead")
		} else {
			a.change("no "+text, "it makes perf skip tracepoints")
		}
	}
	r := []struct{ event, why string }{
		{"module:module_load", ""},
		{"module:module_free", "records when modules come and go; without it, their text is at most unconfirmed"},
		{"cpuhp:cpuhp_enter", "records CPUs that go offline: perf's events do not come back with them"},
	}
	var added []string
	for _, e := range r {
		if !c.HasEvent(e.event) {
			c.Add("-e", "event", e.event)
			added = append(added, "-e "+e.event)
		}
		if e.why != "" && len(added) > 0 {
			a.change(strings.Join(added, " "), e.why)
			added = nil
		}
	}
}

// takesTracepoints reports whether the kernel opens tracepoints on a clock of perf record -k. They can
// be hit in an NMI, where not every clock can be read (perf_event_set_clock of kernel/events/core.c).
func takesTracepoints(clock string) bool {
	switch strings.TrimPrefix(strings.ToUpper(clock), "CLOCK_") {
	case "MONOTONIC", "MONO", "1", "MONOTONIC_RAW", "RAW", "4":
		return true
	}
	return false
}

// withTerm adds a term to an event, "cycles" or "cycles/config=1/". It returns false for
// tracepoints and events that do not sample.
func withTerm(event, term string) (string, bool) {
	switch {
	case event == "" || event == "dummy" || strings.ContainsAny(event, "{},: "), strings.HasPrefix(event, "intel_pt"), strings.HasPrefix(event, "intel_bts"),
		strings.HasPrefix(event, "cs_etm"), strings.HasPrefix(event, "arm_spe"):
		return event, false
	}
	name, rest, ok := strings.Cut(event, "/")
	if !ok {
		return event + "/" + term + "/", true
	}
	terms, modifier, ok := strings.Cut(rest, "/")
	if !ok {
		return event, false
	}
	if terms != "" {
		terms += ","
	}
	return name + "/" + terms + term + "/" + modifier, true
}

// largerBuffers returns twice a size of perf record -m, at least 16M. The size is in
// pages, or in bytes with a unit; after a comma may be that of AUX buffers.
func largerBuffers(size string) string {
	const least = 16 << 20
	size, aux, hasAux := strings.Cut(size, ",")
	digits := strings.TrimRight(size, "BKMGbkmg")
	unit := uint64(4096)
	switch strings.ToUpper(size[len(digits):]) {
	case "B":
		unit = 1
	case "K":
		unit = 1 << 10
	case "M":
		unit = 1 << 20
	case "G":
		unit = 1 << 30
	}
	out := "16M"
	if n, err := strconv.ParseUint(digits, 10, 31); err == nil && 2*n*unit > least {
		out = strconv.FormatUint(2*n, 10) + size[len(digits):]
	}
	if hasAux {
		out += "," + aux
	}
	return out
}

// OptionsKnown reports whether it is known with which options perf recorded: the recording has
// its command line, and all options are understood. Newer perfs record their path only.
func (r *Replay) OptionsKnown() bool {
	args, _ := r.Recording.Cmdline()
	return r.journal != nil || recordargs.LimitsOf(args).Known
}
