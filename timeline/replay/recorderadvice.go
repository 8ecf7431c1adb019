// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/textreplay/textreplay/perfdata"
)

// Limits of -m of "textreplay record" in the advice, in pages.
const (
	defaultPages = 128 // if -m is not given
	leastPages   = 1024
)

// recorderAdvice derives the advice for a recording of "textreplay record".
func (rep *Report) recorderAdvice(args []string, j *recorderJournal, events []*perfdata.Event) *Advice {
	a := &Advice{}
	if rep.adviseSilent(a) {
		return a
	}
	options, workload, ok := splitRecorder(args)
	if !ok {
		options, workload = nil, []string{"sleep", "10"}
		a.change("", "this is a general command: the recording does not have its own, or it is not understood")
	}
	has := func(name string) bool {
		return slices.ContainsFunc(events, func(e *perfdata.Event) bool { return e.Name == name })
	}
	switch {
	case rep.Misfit != "" || rep.SnapshotBytes != 0 || len(rep.Copies) != 0:
	case j.ended == 0 && j.own == nil:
		a.change("", "the recorder was killed before it had copied kernel text, or could not read it (run as root, CAP_SYS_RAWIO)")
	case j.own != nil:
		a.change("", "kcore_dir is missing: keep it in the recording's directory")
	default:
		a.change("", "kernel text could not be copied: run as root (CAP_SYS_RAWIO, CAP_SYSLOG), and not under lockdown; "+
			"some kernels have no /proc/kcore")
	}
	if !has("module:module_load") || !has("module:module_free") {
		a.change("", "the loads and unloads of modules were not recorded: mount tracefs, and run as root")
	}
	if !j.start.FollowsCPUs {
		a.change("", "the recorder was not told of CPUs that come online: allow AF_NETLINK sockets")
	}
	// A recorder that has read some had the rights to read the others: these ended before,
	// and no option helps.
	if n := rep.BPF.Programs; n > 0 && rep.BPF.WithBytes == 0 {
		a.change("", fmt.Sprintf("none of %d BPF programs has its code: run as root (CAP_BPF, CAP_SYS_ADMIN)", n))
	}
	if len(rep.Losses) > 0 {
		pages := strconv.Itoa(largerRing(options))
		options = setOption(options, "-m", "--mmap-pages", pages)
		a.change("-m "+pages, "records were lost: larger ring buffers")
	}
	if len(j.gaps) > 0 {
		a.change("", "CPUs came online during the recording, which leaves gaps: bring up all before, and let them be")
	}
	if rep.Conflicts > 0 && !slices.ContainsFunc(options, func(o option) bool { return o.name == "--snapshot-every" }) {
		options = setOption(options, "", "--snapshot-every", "10m")
		a.change("--snapshot-every 10m", "facts contradict each other: more copies show sooner where text changed with no record")
	}
	if j.ended == 0 {
		a.change("", "the recorder did not end: end it with SIGINT or SIGTERM, not SIGKILL; if it still records, there is nothing to do")
	}
	a.Command = []string{"textreplay", "record"}
	for _, o := range options {
		a.Command = append(a.Command, o.text...)
	}
	if len(workload) > 0 {
		a.Command = append(append(a.Command, "--"), workload...)
	}
	return a
}

// largerRing returns twice the pages of -m, at least leastPages, as a power of two.
func largerRing(options []option) int {
	pages := defaultPages
	for _, o := range options {
		if o.name == "-m" || o.name == "--mmap-pages" {
			if n, err := strconv.Atoi(o.value); err == nil && 0 < n && n < 1<<30 {
				pages = n
			}
		}
	}
	return max(leastPages, 2<<(bits.Len(uint(pages))-1))
}

// setOption replaces an option, or adds it.
func setOption(options []option, short, long, value string) []option {
	options = slices.DeleteFunc(options, func(o option) bool { return o.name == long || short != "" && o.name == short })
	name := long
	if short != "" {
		name = short
	}
	return append(options, option{name, []string{name, value}, value})
}

// recorderOptions are the options of "textreplay record"; true if one takes a value.
var recorderOptions = map[string]bool{
	"-o": true, "--output": true, "-m": true, "--mmap-pages": true, "--snapshot-every": true, "--max-size": true,
	"--max-pieces": true, "--follow": false,
}

// splitRecorder splits a command line of "textreplay record". ok is false if it is not
// understood.
func splitRecorder(args []string) (options []option, workload []string, ok bool) {
	if len(args) < 2 || args[1] != "record" {
		return nil, nil, false
	}
	for args = args[2:]; len(args) > 0; args = args[1:] {
		if args[0] == "--" {
			return options, args[1:], true
		}
		text := args[:1:1]
		name, value, given := args[0], "", false
		if strings.HasPrefix(name, "--") {
			name, value, given = strings.Cut(name, "=")
		} else if len(name) > 2 {
			name, value, given = name[:2], strings.TrimPrefix(name[2:], "="), true
		}
		takes, known := recorderOptions[name]
		switch {
		case !known:
			return nil, nil, false
		case takes && !given:
			if len(args) < 2 {
				return nil, nil, false
			}
			args = args[1:]
			value = args[0]
			text = append(text, value)
		}
		options = append(options, option{name, text, value})
	}
	return options, nil, true
}
