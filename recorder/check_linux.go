// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
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

// What is unknown without the tracepoints.
const (
	withoutModules = "the text of modules is unknown while they come and go"
	withoutHotplug = "a CPU that goes offline for a moment is not noticed"
)

// checkTracepoints finds the tracepoints that this kernel has.
func (r *Recorder) checkTracepoints() {
	if !hasTracefs() {
		remedy := "mount tracefs (mount -t tracefs tracefs /sys/kernel/tracing)"
		if list, err := os.ReadFile("/proc/filesystems"); err == nil && !bytes.Contains(list, []byte("\ttracefs\n")) {
			remedy = "none: this kernel was built without tracefs"
		}
		r.warn(&Limit{What: withoutModules + ", and " + withoutHotplug, Remedy: remedy, Err: errors.New("tracefs is not mounted")})
		return
	}
	for _, name := range tracepoints {
		p, err := readTracepoint(name)
		if err == nil {
			r.points = append(r.points, p)
			continue
		}
		remedy := "run as root, or with CAP_PERFMON and read permission on tracefs"
		if errors.Is(err, fs.ErrNotExist) {
			if name != hotplugPoint {
				continue // a kernel without modules
			}
			remedy = "this kernel does not have it"
		}
		what := withoutModules
		if name == hotplugPoint {
			what = withoutHotplug
		}
		r.warn(&Limit{What: what, Remedy: remedy, Err: fmt.Errorf("%s: %w", name, err)})
	}
}

// hasTracefs reports whether tracefs is mounted, as far as the caller may see that.
func hasTracefs() bool {
	return slices.ContainsFunc(tracefs, func(root string) bool {
		_, err := os.Stat(filepath.Join(root, "events"))
		return !errors.Is(err, fs.ErrNotExist)
	})
}

// checkText opens kernel memory.
func (r *Recorder) checkText() {
	names := readKallsyms()
	if names == nil {
		r.warn(&Limit{What: "kernel text is unknown until it is changed, and has no names", Remedy: "run with CAP_SYSLOG, and set kernel.kptr_restrict to 0 or 1", Err: errors.New("/proc/kallsyms shows no addresses")})
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
