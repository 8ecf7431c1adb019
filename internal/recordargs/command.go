// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package recordargs reads the command lines that recordings were made with: those of "perf
// record", and those of "textreplay record". A recording has its own
// (perfdata.Recording.Cmdline).
package recordargs

import (
	"path"
	"slices"
	"strings"
)

// An Option is one option, as it was written.
type Option struct {
	// Name is of perf record the full long name without dashes, or "" for an option of one letter
	// that is not needed; of textreplay record the name as it was written, with its dashes.
	Name  string
	Text  []string // the arguments, as they were written
	Value string   // "" if there is none
}

// A Command is a command line of perf record, without the program and the word record.
type Command struct {
	Options  []Option
	Workload []string
}

// valued are the options of perf record that take a value, which may be the next
// argument. They are from every perf since 5.9 (__record_options of
// tools/perf/builtin-record.c).
var valued = []string{
	"event", "filter", "pid", "tid", "realtime", "cpu", "count", "output", "freq", "mmap-pages", "mmap-flush",
	"call-graph", "branch-filter", "cgroup", "delay", "uid", "clockid", "proc-map-timeout", "clang-path", "clang-opt",
	"vmlinux", "affinity", "max-size", "num-thread-synthesize", "control", "synth", "switch-output-event",
	"switch-max-files", "pfm-events", "off-cpu-thresh", "setup-filter",
}

// flags are the options that take no value, or only one after =.
var flags = []string{
	"exclude-perf", "no-buffering", "raw-samples", "all-cpus", "no-inherit", "tail-synthesize", "overwrite", "no-bpf-event",
	"strict-freq", "group", "verbose", "quiet", "stat", "data", "phys-data", "data-page-size", "code-page-size", "sample-cpu",
	"sample-identifier", "sample-mem-info", "timestamp", "period", "no-samples", "no-buildid-cache", "no-buildid", "kcore",
	"branch-any", "weight", "transaction", "per-thread", "intr-regs", "user-regs", "running-time", "snapshot", "aux-sample",
	"namespaces", "all-cgroups", "switch-events", "all-kernel", "all-user", "kernel-callchains", "user-callchains",
	"buildid-all", "buildid-mmap", "timestamp-filename", "timestamp-boundary", "switch-output", "dry-run", "aio",
	"compression-level", "debuginfod", "threads", "off-cpu", "latency",
}

// shortNames are the full names of one-letter options. shortValued are all one-letter options
// with a value. shortOptional are those whose value, if any, is the rest of the argument.
var shortNames = map[byte]string{'e': "event", 'D': "delay", 'G': "cgroup", 'u': "uid", 'o': "output", 'a': "all-cpus",
	'C': "cpu", 'p': "pid", 't': "tid", 'F': "freq", 'c': "count", 'm': "mmap-pages", 'k': "clockid"}

const (
	shortValued   = "eptrCcoFmjGDuk"
	shortFlags    = "abBdgiNnPqRsTvW"
	shortOptional = "SIz"
)

// Split splits a command line of perf record. args begins with perf. Split stops where perf
// does, at the workload (PARSE_OPT_STOP_AT_NON_OPTION). ok is false if this is another
// command line or has an unknown option, after which it is unclear where the workload begins.
// Newer perfs record only their path. Their perf inject puts its path before the command line that the
// recording has.
func Split(args []string) (c Command, ok bool) {
	for len(args) > 2 && strings.HasPrefix(path.Base(args[1]), "perf") {
		args = args[1:]
	}
	if len(args) < 2 || args[1] != "record" && args[1] != "rec" {
		return c, false
	}
	for args = args[2:]; len(args) > 0; {
		arg := args[0]
		switch {
		case arg == "--":
			c.Workload = args[1:]
			return c, true
		case !isOption(arg):
			c.Workload = args
			return c, true
		}
		options, rest, known := takeOptions(args)
		if !known {
			return Command{}, false
		}
		c.Options, args = append(c.Options, options...), rest
	}
	return c, true
}

// anyOptions returns what may be an option of perf record among the words of another command line.
func anyOptions(args []string) (all []Option) {
	for len(args) > 0 && args[0] != "--" {
		if !isOption(args[0]) {
			args = args[1:]
			continue
		}
		var options []Option
		options, args, _ = takeOptions(args)
		all = append(all, options...)
	}
	return all
}

func isOption(arg string) bool { return arg != "-" && strings.HasPrefix(arg, "-") }

// takeOptions reads the options of the first argument, several if they have one letter, and their
// value, which may be the next argument. rest are the arguments behind them. known is false if
// one of the options is unknown.
func takeOptions(args []string) (options []Option, rest []string, known bool) {
	arg := args[0]
	text := []string{arg}
	args = args[1:]
	next := func() string {
		if len(args) == 0 {
			return ""
		}
		v := args[0]
		args = args[1:]
		text = append(text, v)
		return v
	}
	if strings.HasPrefix(arg, "--") {
		name, value, given := strings.Cut(arg[2:], "=")
		full, takes, known := longOption(name)
		if !known {
			return nil, args, false
		}
		if takes && !given {
			value = next()
		}
		if full == "" {
			full = name // a negation
		}
		return []Option{{full, text, value}}, args, true
	}
	for i := 1; i < len(arg); i++ {
		o, value := arg[i], arg[i+1:]
		if strings.IndexByte(shortFlags, o) >= 0 {
			options = append(options, Option{shortNames[o], []string{"-" + string(o)}, ""})
			continue
		}
		takes := strings.IndexByte(shortValued, o) >= 0
		if !takes && strings.IndexByte(shortOptional, o) < 0 {
			return options, args, false
		}
		text = []string{"-" + string(o) + value}
		if takes && value == "" {
			value = next()
		}
		return append(options, Option{shortNames[o], text, value}), args, true
	}
	return options, args, true
}

// longOption returns the full name of a long option, and whether it takes a value. perf
// accepts any unambiguous prefix of a name, and the negation of a flag.
func longOption(name string) (full string, takes, ok bool) {
	if slices.Contains(valued, name) {
		return name, true, true
	}
	if slices.Contains(flags, name) {
		return name, false, true
	}
	if rest, no := strings.CutPrefix(name, "no-"); no {
		_, _, ok := longOption(rest)
		return "", false, ok
	}
	for _, v := range valued {
		if strings.HasPrefix(v, name) {
			if ok {
				return "", false, false
			}
			full, takes, ok = v, true, true
		}
	}
	for _, f := range flags {
		if strings.HasPrefix(f, name) {
			if ok {
				return "", false, false
			}
			full, takes, ok = f, false, true
		}
	}
	return full, takes, ok
}

// Has reports whether an option is given, by its full name.
func (c *Command) Has(name string) bool {
	return slices.ContainsFunc(c.Options, func(o Option) bool { return o.Name == name })
}

// Value returns the last value of an option, "" if it is not given.
func (c *Command) Value(name string) (v string) {
	for _, o := range c.Options {
		if o.Name == name {
			v = o.Value
		}
	}
	return v
}

// HasEvent reports whether an -e option has this tracepoint, alone or in a list.
func (c *Command) HasEvent(event string) bool {
	system, _, _ := strings.Cut(event, ":")
	return slices.ContainsFunc(c.Options, func(o Option) bool {
		return o.Name == "event" && slices.ContainsFunc(strings.Split(o.Value, ","), func(e string) bool {
			return e == event || e == system+":*"
		})
	})
}

// Add appends an option: flag is how it is written, "-m", and name its full name. A value
// of "" is none.
func (c *Command) Add(flag, name, value string) {
	text := []string{flag}
	if value != "" {
		text = append(text, value)
	}
	c.Options = append(c.Options, Option{name, text, value})
}

// Remove removes an option, and returns how it was written.
func (c *Command) Remove(name string) string {
	var text []string
	c.Options = slices.DeleteFunc(c.Options, func(o Option) bool {
		if o.Name == name {
			text = append(text, o.Text...)
		}
		return o.Name == name
	})
	return strings.Join(text, " ")
}

// Args returns the command line, beginning with "perf".
func (c *Command) Args() []string {
	out := []string{"perf", "record"}
	for _, o := range c.Options {
		out = append(out, o.Text...)
	}
	if len(c.Workload) > 0 {
		out = append(out, "--")
	}
	return append(out, c.Workload...)
}
