// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"slices"
	"strings"
)

// recordOptions are the options of perf record that limit what events record and are
// not in the events' attrs.
type recordOptions struct {
	// known is set if the recording has the command line and all its options are
	// understood. Otherwise the other fields are zero.
	known    bool
	delay    string   // -D: "", or a time, -1, or ranges
	control  bool     // --control: another program enabled and disabled the events
	cgroup   bool     // -G: events record only in a cgroup
	user     bool     // -u: events record only one user's tasks
	filtered []string // the -e options, as written, that have a --filter
	switched bool     // --switch-output: the records are spread over several files
	pipe     bool     // -o -: the records were written to a pipe
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

// shortNames are the one-letter options whose value is used. shortValued are all
// one-letter options with a value. shortOptional are those whose value, if any, is the
// rest of the argument.
var shortNames = map[byte]string{'e': "event", 'D': "delay", 'G': "cgroup", 'u': "uid", 'o': "output"}

const (
	shortValued   = "eptrCcoFmjGDuk"
	shortFlags    = "abBdgiNnPqRsTvW"
	shortOptional = "SIz"
)

// parseRecordOptions reads the command line of perf record. args begins with perf. It
// stops where perf does, at the workload (PARSE_OPT_STOP_AT_NON_OPTION). After an
// unknown option it is unclear where the workload begins; then the result is zero. Newer
// perfs record only their path.
func parseRecordOptions(args []string) recordOptions {
	if len(args) < 2 || args[1] != "record" && args[1] != "rec" {
		return recordOptions{}
	}
	o := recordOptions{known: true}
	lastEvent := ""
	set := func(name, value string) {
		switch name {
		case "event":
			lastEvent = value
		case "filter":
			o.filtered = append(o.filtered, lastEvent)
		case "delay":
			o.delay = value
		case "control":
			o.control = true
		case "cgroup":
			o.cgroup = true
		case "uid":
			o.user = true
		case "switch-output", "switch-output-event":
			o.switched = true
		case "output":
			o.pipe = value == "-"
		}
	}
	for args = args[2:]; len(args) > 0; args = args[1:] {
		arg := args[0]
		next := func() (value string) {
			if len(args) > 1 {
				args = args[1:]
				value = args[0]
			}
			return value
		}
		switch {
		case arg == "--" || arg == "-" || !strings.HasPrefix(arg, "-"):
			return o
		case strings.HasPrefix(arg, "--"):
			name, value, given := strings.Cut(arg[2:], "=")
			name, takes, ok := longOption(name)
			if !ok {
				return recordOptions{}
			}
			if takes && !given {
				value = next()
			}
			set(name, value)
		default:
			for i := 1; i < len(arg); i++ {
				c, rest := arg[i], arg[i+1:]
				if strings.IndexByte(shortFlags, c) >= 0 {
					continue
				}
				if strings.IndexByte(shortOptional, c) >= 0 {
					break
				}
				if strings.IndexByte(shortValued, c) < 0 {
					return recordOptions{}
				}
				if rest == "" {
					rest = next()
				}
				set(shortNames[c], rest)
				break
			}
		}
	}
	return o
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

// enablesOnce reports whether perf enabled its events once, at the beginning or after
// a delay, and disabled none before it ended. It returns false if the command line is
// unknown.
func (o *recordOptions) enablesOnce() bool {
	return o.known && !o.control && !strings.ContainsAny(o.delay, "-,")
}

// atStart reports whether perf enabled its events before it started its workload.
func (o *recordOptions) atStart() bool {
	return o.enablesOnce() && strings.Trim(o.delay, "0") == ""
}

// confines returns why an event of -e does not record every occurrence, or "" if no
// option limits it. A filter is for all events of one -e.
func (o *recordOptions) confines(event string) string {
	system, _, _ := strings.Cut(event, ":")
	for _, f := range o.filtered {
		if strings.Contains(f, system+":") || strings.ContainsAny(f, "*?[") {
			return "perf record --filter"
		}
	}
	switch {
	case o.cgroup:
		return "perf record -G records in a cgroup only"
	case o.user:
		return "perf record -u records the tasks of one user only"
	}
	return ""
}

// OptionsKnown reports whether it is known with which options perf recorded: the recording has
// its command line, and all options are understood. Newer perfs record their path only.
func (r *Replay) OptionsKnown() bool {
	args, _ := r.Recording.Cmdline()
	return r.journal != nil || parseRecordOptions(args).known
}
