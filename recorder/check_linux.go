// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// check finds out what can be recorded, and warns of what cannot. It opens kernel memory
// and the tracepoints.
func (r *Recorder) check() {
	r.checkText()
	r.checkTracepoints()
	if !emitsPokes() {
		r.defineProbes() // their events come last: arming the others changes text
	}
}

// checkTracepoints finds the tracepoints that this kernel has.
func (r *Recorder) checkTracepoints() {
	for _, name := range tracepoints {
		p, err := readTracepoint(name)
		if err == nil {
			r.points = append(r.points, p)
			continue
		}
		remedy := "mount tracefs, and run as root or with CAP_PERFMON and read permission on it"
		if _, other := os.Stat("/sys/kernel/tracing/events/sched"); other == nil && errors.Is(err, fs.ErrNotExist) {
			if name != hotplugPoint {
				continue // a kernel without modules
			}
			remedy = "this kernel does not have it"
		}
		what := "the text of modules is unknown while they come and go"
		if name == hotplugPoint {
			what = "a CPU that goes offline for a moment is not noticed"
		}
		r.warn(&Limit{What: what, Remedy: remedy, Err: fmt.Errorf("%s: %w", name, err)})
	}
}

// checkText opens kernel memory.
func (r *Recorder) checkText() {
	names := readKallsyms()
	if names == nil {
		r.warn(&Limit{What: "kernel text is unknown until it is changed, and has no names", Remedy: "set kernel.kptr_restrict to 0, or run with CAP_SYSLOG", Err: errors.New("/proc/kallsyms shows no addresses")})
		return
	}
	mem, err := openMemory("/proc/kcore")
	if err != nil {
		remedy := "run as root (CAP_SYS_RAWIO)"
		switch {
		case errors.Is(err, fs.ErrNotExist):
			remedy = "this kernel was built without CONFIG_PROC_KCORE"
		case os.Geteuid() == 0:
			remedy = "the kernel is locked down (see /sys/kernel/security/lockdown)"
		}
		r.warn(&Limit{What: "kernel text is unknown until it is changed", Remedy: remedy, Err: err})
		return
	}
	// A kernel that is locked down opens the file and refuses to read its text.
	if stext, _, ok := names.Text(); ok {
		if err := mem.read(make([]byte, 16), stext); err != nil {
			mem.close()
			r.warn(&Limit{What: "kernel text is unknown until it is changed", Remedy: "the kernel is locked down (see /sys/kernel/security/lockdown), or root without CAP_SYS_RAWIO", Err: err})
			return
		}
	}
	r.mem = mem
}
