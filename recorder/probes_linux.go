// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/recorder/journal"
)

// Kernels of most architectures emit no TEXT_POKE records. There, kprobe events on the
// functions that map text for writing have a sample before and one after each change
// (docs/probes.md). [Options.Probes] derives their definitions from the kernel's code. The
// kernel counts the hits of each event, also of those that have no sample; so the counters
// show whether a sample is missing. The journal has readings of them.
//
//	define   open on each CPU   reading   copy of text   reading ...   reading   close   remove
//	         the probe is armed                                                  disarmed
//
// The definitions are all that a recorder that is killed leaves. The next one removes them.

// probeGroup is the group of the recorder's events in tracefs. Nothing else uses it.
const probeGroup = "textreplay"

// probes are the events on kprobes of this recorder.
type probes struct {
	root    string   // of tracefs
	names   []string // of the events, without their group
	each    []string // of those that each change of text hits
	tested  bool     // a test has shown that a change of text hits them
	useless bool     // a test has failed: a change of text does not hit them, or nothing shows it
	places  []*probePlace
	armed   uint64            // the last time at which nothing showed that they were disarmed, in ns
	off     *journal.Disarmed // nil while they are armed
	first   reading           // the first of the piece, until the journal has it
	last    reading           // the last one that the journal has
	counted time.Time         // when the journal got it
}

// A reading is a reading of the hit counters, made at some moment of [from, to] (ns).
type reading struct {
	from, to uint64
	hits     map[string]journal.Hits
}

// emitsPokes reports whether kernels of this architecture emit TEXT_POKE records.
func emitsPokes() bool { return runtime.GOARCH == "amd64" || runtime.GOARCH == "386" }

const unknownChanges = "changes of kernel text are unknown"

// defineProbes defines the probes. Without them, it warns of what will be unknown.
func (r *Recorder) defineProbes() {
	limit := &Limit{What: unknownChanges}
	switch {
	case r.opts.Probes == nil:
		limit.Remedy, limit.Err = "textreplay help probes says how to record them",
			fmt.Errorf("kernels of this architecture (%s) emit no TEXT_POKE records", runtime.GOARCH)
	case r.mem == nil:
		limit.Remedy, limit.Err = "see the other warning", errors.New("the kernel's code cannot be read, which says where its probes must be")
	default:
		planned, err := r.opts.Probes()
		if err != nil {
			limit.Remedy, limit.Err = "none: without its probes, each later copy of text tells what had changed (--snapshot-every)", err
			break
		}
		if limit.Remedy, limit.Err = r.define(planned); limit.Err == nil {
			return
		}
	}
	r.warn(limit)
}

// probesMade is part of the names of probes, so that those of one process differ.
var probesMade atomic.Int64

// define defines the probes, and adds their events. If that fails, it leaves none behind, and
// returns what would help.
func (r *Recorder) define(planned []Probe) (remedy string, err error) {
	root, remedy, err := kprobeRoot()
	if err != nil {
		return remedy, err
	}
	p := &probes{root: root}
	if err := p.removeStale(); err != nil {
		r.warn(err)
	}
	r.probes = p
	var points []tracepoint
	n := probesMade.Add(1)
	for _, x := range planned {
		var name string
		if name, err = p.add(x.Definition, n); err != nil {
			break
		}
		if p.names = append(p.names, name); x.Each {
			p.each = append(p.each, name)
		}
		var t tracepoint
		if t, err = readTracepoint(probeGroup + ":" + name); err != nil {
			break
		}
		points = append(points, t)
	}
	r.notePlaces(planned)
	if err == nil {
		_, err = p.read()
	}
	if err != nil {
		r.warn(r.removeProbes())
		return remedyOf(err), err
	}
	r.points = append(r.points, points...)
	return "", nil
}

// kprobeRoot returns where tracefs is, if it has events on kprobes.
func kprobeRoot() (root, remedy string, err error) {
	mounted := false
	for _, root := range tracefs {
		if _, err = os.Stat(filepath.Join(root, "kprobe_events")); err == nil {
			return root, "", nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", "run as root", err
		}
		_, other := os.Stat(filepath.Join(root, "events"))
		mounted = mounted || other == nil
	}
	if mounted {
		return "", "none: this kernel was built without CONFIG_KPROBE_EVENTS", err
	}
	return "", "mount tracefs (mount -t tracefs tracefs /sys/kernel/tracing)", err
}

// remedyOf says what helps if a probe cannot be defined.
func remedyOf(err error) string {
	switch {
	case errors.Is(err, unix.EROFS):
		return "tracefs is mounted read-only here: mount it for writing"
	case errors.Is(err, fs.ErrPermission) && os.Geteuid() != 0:
		return "run as root"
	case errors.Is(err, fs.ErrPermission):
		return "the kernel is locked down (see /sys/kernel/security/lockdown), or root lacks CAP_SYS_ADMIN"
	}
	return "error_log of tracefs says why the kernel refuses the probe"
}

// add writes a definition as p:GROUP/EVENT FUNCTION FIELDS to kprobe_events, with a group and
// a name of this recorder. It returns the name.
func (p *probes) add(definition string, n int64) (name string, err error) {
	head, rest, ok := strings.Cut(definition, " ")
	_, event, ok2 := strings.Cut(head, "/")
	if !ok || !ok2 || !strings.HasPrefix(head, "p:") {
		return "", fmt.Errorf("the definition of a probe: %q", definition)
	}
	name = fmt.Sprintf("%s_%d_%d", event, os.Getpid(), n)
	return name, p.write("p:" + probeGroup + "/" + name + " " + rest)
}

// write writes one line to kprobe_events. The kernel defines or removes a probe for it.
func (p *probes) write(line string) error {
	f, err := os.OpenFile(filepath.Join(p.root, "kprobe_events"), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// removeStale removes the probes of recorders that were killed.
func (p *probes) removeStale() error {
	list, err := os.ReadFile(filepath.Join(p.root, "kprobe_events"))
	if err != nil {
		return err
	}
	for line := range bytes.Lines(list) {
		head, _, _ := bytes.Cut(line, []byte(" "))
		name, ok := bytes.CutPrefix(head, []byte("p:"+probeGroup+"/"))
		if !ok {
			continue
		}
		if pid, ok := ownerOf(string(name)); !ok || pid != os.Getpid() && unix.Kill(pid, 0) != unix.ESRCH {
			continue
		}
		// The kernel keeps a probe that is in use.
		if removeErr := p.write("-:" + probeGroup + "/" + string(name)); removeErr != nil && !errors.Is(removeErr, unix.EBUSY) {
			err = errors.Join(err, fmt.Errorf("a probe that a recorder left behind, %s: %w", name, removeErr))
		}
	}
	return err
}

// ownerOf returns the process that defined a probe, from the probe's name (EVENT_PID_N).
func ownerOf(name string) (pid int, ok bool) {
	parts := strings.Split(name, "_")
	if len(parts) < 3 {
		return 0, false
	}
	pid, err := strconv.Atoi(parts[len(parts)-2])
	return pid, err == nil && pid > 0
}

// removeProbes removes the probes, whose events must be closed.
func (r *Recorder) removeProbes() (err error) {
	if r.probes == nil {
		return nil
	}
	p := r.probes
	r.probes = nil
	for _, name := range p.names {
		err = errors.Join(err, p.remove(name))
	}
	return err
}

// remove removes a probe whose events are closed.
func (p *probes) remove(name string) error {
	err := p.write("-:" + probeGroup + "/" + name)
	for try := 0; try < 20 && errors.Is(err, unix.EBUSY); try++ { // the kernel closes events a moment later
		time.Sleep(50 * time.Millisecond)
		err = p.write("-:" + probeGroup + "/" + name)
	}
	if err != nil {
		return fmt.Errorf("the probe %s remains: %w", name, err)
	}
	return nil
}

// settle is how long a reading's interval goes on after the counters were read. A CPU counts a
// hit first, and takes the time of its sample a moment later.
const settle = time.Millisecond

// read reads the hit counters.
func (p *probes) read() (x reading, err error) {
	x = reading{from: now(), hits: make(map[string]journal.Hits)}
	text, err := os.ReadFile(filepath.Join(p.root, "kprobe_profile"))
	if err != nil {
		return x, err
	}
	time.Sleep(settle)
	x.to = now()
	for line := range bytes.Lines(text) { // as NAME HITS MISSED
		f := strings.Fields(string(line))
		if len(f) != 3 || !p.has(f[0]) {
			continue
		}
		hits, err := strconv.ParseUint(f[1], 10, 64)
		missed, err2 := strconv.ParseUint(f[2], 10, 64)
		if err = errors.Join(err, err2); err != nil {
			return x, fmt.Errorf("kprobe_profile: %w", err)
		}
		x.hits[f[0]] = journal.Hits{Hits: hits, Missed: missed}
	}
	if len(x.hits) != len(p.names) {
		return x, errors.New("kprobe_profile lacks a probe of this recorder")
	}
	return x, nil
}

func (p *probes) has(name string) bool {
	for _, n := range p.names {
		if n == name {
			return true
		}
	}
	return false
}

// readCounters reads the hit counters, if possible while no text changes: samples within a
// reading may be counted in it or not. ok is false if text did change at each of the tries.
func (r *Recorder) readCounters(tries int) (x reading, ok bool, err error) {
	for ; tries > 0; tries-- {
		if x, err = r.probes.read(); err != nil {
			return x, false, err
		}
		if !r.sampledIn(x.from, x.to) {
			return x, true, nil
		}
		if tries > 1 {
			time.Sleep(5 * time.Millisecond)
		}
	}
	return x, false, nil
}

// sampledIn reports whether a ring buffer has a sample of an interval.
func (r *Recorder) sampledIn(from, to uint64) bool {
	for _, g := range r.rings {
		if g.sampledIn(from, to) {
			return true
		}
	}
	return false
}

const (
	// The counters are read each countInterval. A reading goes into the journal if a counter has
	// risen, or if the last one there is noteInterval old.
	countInterval = time.Second
	noteInterval  = 10 * time.Second
	firstTries    = 100 // of the readings at the beginning and at the end of a piece
)

// testedOn are functions that nobody calls while this records. A probe on one of them is a
// change of text that does nothing.
var testedOn = []string{"kernel_power_off", "kernel_halt", "kernel_restart"}

var errNotHit = errors.New("they are not hit when text is changed: all kprobes may be disarmed (kprobes/enabled of debugfs)")

// testProbes changes text, and returns an error if a probe does not see that. The events of
// the probes must be open.
func (r *Recorder) testProbes() error {
	p := r.probes
	at := now() // somebody may disarm them right after the test
	before, err := p.read()
	if err != nil {
		return err
	}
	for _, function := range testedOn {
		if err = r.change(function); err == nil {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("to test the probes: %w", err)
	}
	after, err := p.read()
	for _, name := range p.each {
		if err == nil && after.hits[name].Hits == before.hits[name].Hits {
			err = errNotHit
		}
	}
	if err == nil {
		p.armed = at
	}
	return err
}

// change changes text: it opens an event on a function, on a CPU that is online, and closes it
// again.
func (r *Recorder) change(function string) error {
	p := r.probes
	name, err := p.add("p:"+probeGroup+"/test "+function, probesMade.Add(1))
	if err != nil {
		return err
	}
	t, err := readTracepoint(probeGroup + ":" + name)
	if err == nil {
		err = unix.ENODEV
		for i := 0; i < len(r.rings) && errors.Is(err, unix.ENODEV); i++ {
			var fd int
			if fd, err = openEvent(tracepointEvent(t.name, t.id), r.rings[i].cpu); err == nil {
				unix.Close(fd)
			}
		}
	}
	return errors.Join(err, p.remove(name))
}

// firstReading reads the counters when all events record, and returns the time from which on
// nothing is missing. If it fails, the counters are not read later either.
func (r *Recorder) firstReading() (open uint64) {
	if r.probes == nil || r.probes.useless {
		return now()
	}
	err := error(nil)
	if !r.probes.tested {
		err = r.testProbes()
	}
	var x reading
	if err == nil {
		x, _, err = r.readCounters(firstTries)
	}
	if err != nil {
		r.probes.useless = true
		r.warn(&Limit{What: unknownChanges, Remedy: "nothing helps while this records", Err: fmt.Errorf("the probes are of no use: %w", err)})
		return now()
	}
	if !r.probes.tested {
		r.noteArmed()
	}
	r.probes.tested = true
	r.probes.first = x
	return x.to
}

func (r *Recorder) warnCounters(err error) {
	r.warn(&Limit{What: "it is unknown whether each change of kernel text is recorded", Remedy: "leave tracefs mounted", Err: err})
}

// noteFirst writes the first reading of a piece to the journal.
func (r *Recorder) noteFirst() error {
	if r.probes == nil || r.probes.first.hits == nil {
		return nil
	}
	x := r.probes.first
	r.probes.first = reading{}
	if err := r.noteReading(x); err != nil || r.probes.off == nil {
		return err
	}
	r.probes.off = &journal.Disarmed{From: r.opened, Seen: r.opened}
	return r.noteDisarmed()
}

// noteReading writes a reading to the journal, after the samples that it counts.
func (r *Recorder) noteReading(x reading) error {
	if err := r.flush(); err != nil {
		return err
	}
	info, err := r.data.Stat()
	if err != nil {
		return err
	}
	r.probes.last, r.probes.counted = x, time.Now()
	r.size += journalLine
	return journal.Append(r.journal, &journal.Entry{Counters: &journal.Counters{From: x.from, To: x.to, Data: info.Size(), Probes: x.hits}})
}

// journalLine is about how many bytes a reading has in the journal.
const journalLine = 150

// count reads the counters, if it is time. It writes the last reading of a piece to the journal
// unless the probes are disarmed.
func (r *Recorder) count(last bool) error {
	p := r.probes
	if p == nil || p.useless || !last && time.Since(p.counted) < countInterval {
		return nil
	}
	before := now()
	tries := 1
	if last {
		tries = firstTries
	}
	x, ok, err := r.readCounters(tries)
	if err != nil {
		r.warnCounters(err)
		return nil
	}
	// After the reading: one that is noted says that the probes were armed until then.
	if err := r.watchProbes(before, last); err != nil || p.off != nil {
		return err
	}
	if !last && (!ok || maps.Equal(x.hits, p.last.hits) && x.from-p.last.to < uint64(noteInterval)) {
		return nil
	}
	if err := r.round(); err != nil {
		return err
	}
	return r.noteReading(x)
}
