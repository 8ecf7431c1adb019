// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// advice derives the advice from the recording's command line.
func (rep *Report) advice(args []string) *Advice {
	a := &Advice{}
	if rep.adviseSilent(a) {
		return a
	}
	c, ok := splitRecord(args)
	if !ok {
		c = recordCommand{workload: []string{"sleep", "10"}}
		a.change("", "this is a general command: the recording does not have its own, or it is not understood")
	}
	a.advisePlace(&c)
	switch {
	case !c.has("kcore"):
		c.add("--kcore", "kcore", "")
		a.change("--kcore", "copies kernel text, and records text pokes on every CPU")
	case rep.SnapshotBytes == 0:
		a.change("", "kcore_dir is missing: keep it in the recording's directory")
	}
	if !ok {
		c.add("-e", "event", "dummy")
	}
	a.adviseEvents(&c)
	for _, o := range []struct{ name, why string }{
		{"overwrite", "it overwrites the oldest records without a sign"},
		{"no-bpf-event", "it leaves out BPF programs"},
		{"delay", "changes before the events are enabled are lost"},
		{"cgroup", "module events outside of the cgroup are lost"},
	} {
		if text := c.remove(o.name); text != "" {
			a.change("no "+text, o.why)
		}
	}
	if c.value("output") == "-" {
		c.remove("output")
		a.change("no -o -", "a pipe has no BPF programs that are loaded during the run")
	}
	if len(rep.Losses) > 0 {
		size := largerBuffers(c.value("mmap-pages"))
		c.remove("mmap-pages")
		c.add("-m", "mmap-pages", size)
		a.change("-m "+size, "records were lost: larger ring buffers")
	}
	if rep.CPUsOnline < rep.CPUsAvailable {
		a.change("", fmt.Sprintf("%d of %d CPUs were online: bring up all before, because that changes text with no record", rep.CPUsOnline, rep.CPUsAvailable))
	}
	if rep.CPUsAvailable == 0 {
		a.change("", "perf did not finish this file: end it with SIGINT or SIGTERM, not SIGKILL; for this one, --cpus N gives the number of CPUs")
	}
	a.Command = c.args()
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
		why = fmt.Sprintf(`kernels of this architecture (%s) record text changes only by kprobe events, as here: "textreplay probes" prints how to record them`, rep.Arch)
	case rep.Arch == "aarch64" || strings.HasPrefix(rep.Arch, "ppc64"):
		why += `; "textreplay probes" prints how to record them by kprobe events`
	}
	a.change("", why)
	return true
}

func (a *Advice) change(option, why string) {
	a.Changes = append(a.Changes, AdvisedChange{option, why})
}

// advisePlace makes the command record all CPUs.
func (a *Advice) advisePlace(c *recordCommand) {
	var instead []string
	for _, name := range []string{"cpu", "pid", "tid", "uid", "per-thread"} {
		if text := c.remove(name); text != "" {
			instead = append(instead, text)
		}
	}
	if c.has("all-cpus") && len(instead) == 0 {
		return
	}
	c.remove("all-cpus")
	c.options = slices.Insert(c.options, 0, option{"all-cpus", []string{"-a"}, ""})
	text := "-a"
	if len(instead) > 0 {
		text += " instead of " + strings.Join(instead, " ")
	}
	a.change(text, "the kernel reports BPF programs and module loads only to events of the CPU where they happen")
}

// adviseEvents adds tracepoints, and takes from all events what makes perf skip these.
func (a *Advice) adviseEvents(c *recordCommand) {
	for _, f := range []struct{ name, term string }{{"freq", "freq"}, {"count", "period"}} {
		value := c.value(f.name)
		if value == "" {
			continue
		}
		if _, err := strconv.ParseUint(value, 10, 64); err != nil {
			continue // max
		}
		text, sampled := c.remove(f.name), false
		for i := range c.options {
			if o := &c.options[i]; o.name == "event" {
				events := []string{o.value}
				if !strings.ContainsAny(o.value, "/{") {
					events = strings.Split(o.value, ",")
				}
				for i, e := range events {
					if with, ok := withTerm(e, f.term+"="+value); ok {
						events[i], sampled = with, true
					}
				}
				with := strings.Join(events, ",")
				*o = option{"event", []string{"-e", with}, with}
			}
		}
		if !c.has("event") {
			c.add("-e", "event", "cycles/"+f.term+"="+value+"/")
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
		if !c.hasEvent(e.event) {
			c.add("-e", "event", e.event)
			added = append(added, "-e "+e.event)
		}
		if e.why != "" && len(added) > 0 {
			a.change(strings.Join(added, " "), e.why)
			added = nil
		}
	}
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

// An option is one option of perf record, as it was written.
type option struct {
	name  string // the full long name
	text  []string
	value string
}

// A recordCommand is a command line of perf record.
type recordCommand struct {
	options  []option
	workload []string
}

// splitRecord splits a command line of perf record. ok is false if it is not
// understood, see parseRecordOptions.
func splitRecord(args []string) (c recordCommand, ok bool) {
	if !parseRecordOptions(args).known {
		return c, false
	}
	short := map[byte]string{'e': "event", 'D': "delay", 'G': "cgroup", 'u': "uid", 'o': "output", 'a': "all-cpus",
		'C': "cpu", 'p': "pid", 't': "tid", 'F': "freq", 'c': "count", 'm': "mmap-pages", 'k': "clockid"}
	for args = args[2:]; len(args) > 0; args = args[1:] {
		arg := args[0]
		text := []string{arg}
		next := func() string {
			if len(args) < 2 {
				return ""
			}
			args = args[1:]
			text = append(text, args[0])
			return args[0]
		}
		switch {
		case arg == "--":
			c.workload = args[1:]
			return c, true
		case arg == "-" || !strings.HasPrefix(arg, "-"):
			c.workload = args
			return c, true
		case strings.HasPrefix(arg, "--"):
			name, value, given := strings.Cut(arg[2:], "=")
			full, takes, _ := longOption(name)
			if takes && !given {
				value = next()
			}
			if full == "" {
				full = name // a negation
			}
			c.options = append(c.options, option{full, text, value})
		default:
			for i := 1; i < len(arg); i++ {
				o, rest := arg[i], arg[i+1:]
				if strings.IndexByte(shortFlags, o) >= 0 {
					c.options = append(c.options, option{short[o], []string{"-" + string(o)}, ""})
					continue
				}
				text = []string{"-" + string(o) + rest}
				if strings.IndexByte(shortValued, o) >= 0 && rest == "" {
					rest = next()
				}
				c.options = append(c.options, option{short[o], text, rest})
				break
			}
		}
	}
	return c, true
}

func (c *recordCommand) has(name string) bool {
	return slices.ContainsFunc(c.options, func(o option) bool { return o.name == name })
}

// value returns the last value of an option, "" if it is not given.
func (c *recordCommand) value(name string) (v string) {
	for _, o := range c.options {
		if o.name == name {
			v = o.value
		}
	}
	return v
}

// hasEvent reports whether an -e option has this tracepoint, alone or in a list.
func (c *recordCommand) hasEvent(event string) bool {
	system, _, _ := strings.Cut(event, ":")
	return slices.ContainsFunc(c.options, func(o option) bool {
		return o.name == "event" && slices.ContainsFunc(strings.Split(o.value, ","), func(e string) bool {
			return e == event || e == system+":*"
		})
	})
}

func (c *recordCommand) add(flag, name, value string) {
	text := []string{flag}
	if value != "" {
		text = append(text, value)
	}
	c.options = append(c.options, option{name, text, value})
}

// remove removes an option, and returns how it was written.
func (c *recordCommand) remove(name string) string {
	var text []string
	c.options = slices.DeleteFunc(c.options, func(o option) bool {
		if o.name == name {
			text = append(text, o.text...)
		}
		return o.name == name
	})
	return strings.Join(text, " ")
}

func (c *recordCommand) args() []string {
	out := []string{"perf", "record"}
	for _, o := range c.options {
		out = append(out, o.text...)
	}
	if len(c.workload) > 0 {
		out = append(out, "--")
	}
	return append(out, c.workload...)
}
