// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/textreplay/textreplay/recorder/journal"
)

// Somebody may disarm all kprobes while this records: with the file kprobes/enabled of
// debugfs, or on powerpc with kernel.ftrace_enabled, since probes on the entries of functions are
// ftrace's there. The kernel tells nobody. Text that changes then has no samples, and the
// counters do not rise. So the recorder looks at the file, and at the places of its probes.

// debugfs is where the file kprobes/enabled is.
var debugfs = "/sys/kernel/debug"

// ownProbes says that probes on the entries of functions are never ftrace's.
var ownProbes = runtime.GOARCH == "arm64"

// A probePlace is the entry of a function with a probe: its first instructions, without the
// probe and with it.
type probePlace struct {
	addr         uint64
	plain, armed [placeLen]byte
	known        bool // armed is known, and differs
}

// placeLen is more than the instructions before a probe on an entry take.
const placeLen = 24

// notePlaces reads the entries of the functions before the probes are armed.
func (r *Recorder) notePlaces(planned []Probe) {
	if r.mem == nil {
		return
	}
	var functions []string
	for _, x := range planned {
		if f := strings.Fields(x.Definition); len(f) > 1 {
			functions = append(functions, f[1])
		}
	}
	names := readKallsyms(functions...)
	if names == nil {
		return
	}
	for _, f := range functions {
		if found := names.LookupIn("", f); len(found) == 1 {
			place := &probePlace{addr: found[0].Addr}
			if r.mem.read(place.plain[:], place.addr) == nil {
				r.probes.places = append(r.probes.places, place)
			}
		}
	}
}

// noteArmed reads the entries again, after a test has shown that the probes are armed.
func (r *Recorder) noteArmed() {
	for _, x := range r.probes.places {
		err := r.mem.read(x.armed[:], x.addr)
		x.known = err == nil && x.armed != x.plain
	}
}

// seemArmed reports whether the probes seem to be armed: nothing shows that they are disarmed.
// certain says that the result is sure. Armed is, if the code of a place has its probe; or if the file
// of debugfs says so, but not where probes are ftrace's, which ftrace_enabled disarms too.
func (r *Recorder) seemArmed() (armed, certain bool) {
	flag, err := os.ReadFile(filepath.Join(debugfs, "kprobes", "enabled"))
	if err == nil && len(flag) > 0 && flag[0] == '0' {
		return false, true
	}
	certain = err == nil && ownProbes
	for _, x := range r.probes.places {
		var b [placeLen]byte
		if !x.known || r.mem == nil || r.mem.read(b[:], x.addr) != nil {
			continue
		}
		if b != x.armed {
			return false, b == x.plain
		}
		certain = true
	}
	return true, certain
}

// watchProbes checks that the probes are still armed, and writes to the journal if not. at is a
// time before the call. What changes while they are disarmed is unknown, so text is copied again
// when they are armed. last says that the piece ends: then it does not arm them again.
func (r *Recorder) watchProbes(at uint64, last bool) error {
	p := r.probes
	armed, certain := r.seemArmed()
	if !certain {
		// Something else changed the entries, such as a tracer; or nothing shows whether they are
		// armed but another change of text.
		if armed = r.testProbes() == nil; armed && p.off == nil {
			r.noteArmed()
		}
	}
	switch {
	case armed && p.off == nil:
		p.armed = at
	case armed:
		if err := r.testProbes(); err != nil {
			if !errors.Is(err, errNotHit) {
				r.warn(err)
			}
			return nil
		}
		r.noteArmed()
		p.off.To = now()
		r.warn(fmt.Errorf("kprobes are armed again since %s; kernel text is copied anew", seconds(p.off.To)))
		err := r.noteDisarmed()
		if p.off = nil; err == nil {
			r.copy()
		}
		return err
	case p.off == nil:
		p.off = &journal.Disarmed{From: p.armed, Seen: now()}
		remedy := "echo 1 > " + filepath.Join(debugfs, "kprobes", "enabled") + ", or record with --rearm"
		if r.opts.Rearm {
			remedy = "they are armed again now"
		}
		r.warn(&Limit{What: fmt.Sprintf("changes of kernel text since %s are unknown", seconds(p.armed)), Remedy: remedy,
			Err: errors.New("all kprobes were disarmed, so that the probes are not hit")})
		if err := r.noteDisarmed(); err != nil {
			return err
		}
	}
	if r.opts.Rearm && !last {
		if err := os.WriteFile(filepath.Join(debugfs, "kprobes", "enabled"), []byte("1"), 0); err != nil {
			r.warn(fmt.Errorf("kprobes remain disarmed: %w", err))
		}
	}
	return nil
}

// seconds returns a time as readers of the recording print it.
func seconds(t uint64) string { return fmt.Sprintf("%d.%09d", t/1e9, t%1e9) }

// noteDisarmed writes to the journal since when the probes are disarmed, and until when if they
// are armed again.
func (r *Recorder) noteDisarmed() error {
	x := *r.probes.off
	return journal.Append(r.journal, &journal.Entry{Disarmed: &x})
}
