// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/textreplay/textreplay/internal/outfile"
	"github.com/textreplay/textreplay/internal/pathname"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// A probeReading is one reading of tracefs's kprobe_profile: how often each probe was hit,
// and how often the kernel could not run it. It was made at some moment of [from, to].
type probeReading struct {
	source   string
	from, to uint64
	pid      uint32 // the process that read it, if no times were noted
	recorder bool   // it is in the journal of "textreplay record"
	hits     map[string]probeHits
}

// probeHits are the counters of one probe, since it was made.
type probeHits struct{ hits, missed uint64 }

// probeReader is what records say of a process that read the counters.
type probeReader struct {
	from, to uint64
	again    bool // several processes had this id
}

// errReading is wrapped by errors of a file that is not a reading.
var errReading = errors.New("not a reading of kprobe_profile")

// maxReadingLine bounds the length of a line. It has the name of an event, at most 64 bytes in the
// kernel (MAX_EVENT_NAME_LEN in kernel/trace/trace.h), and two numbers.
const maxReadingLine = 1 << 12

// parseReading reads a file with one reading. Its first line is a time of the recording's
// clock in nanoseconds, from before the reading, and its last line one from after it; or
// its first line is "pid N", the process that read the counters while perf recorded.
func parseReading(text []byte) (r probeReading, err error) {
	r.hits = make(map[string]probeHits)
	times, n := 0, -1
	for line := range bytes.Lines(text) {
		n++
		if len(line) > maxReadingLine {
			return r, fmt.Errorf("line %d: %w: the line has more than %d bytes", n+1, errReading, maxReadingLine)
		}
		f := strings.Fields(string(line))
		switch {
		case len(f) == 0:
		case times == 2:
			return r, fmt.Errorf("line %d: %w: it goes on after its second time", n+1, errReading)
		case n == 0 && len(f) == 2 && f[0] == "pid":
			pid, err := strconv.ParseUint(f[1], 10, 32)
			if err != nil || pid == 0 {
				return r, fmt.Errorf("line 1: %w: %q is not a process", errReading, f[1])
			}
			r.pid = uint32(pid)
		case len(f) == 1:
			t, err := strconv.ParseUint(f[0], 10, 64)
			if err != nil {
				return r, fmt.Errorf("line %d: %w: %q is not a time", n+1, errReading, f[0])
			}
			if times++; times == 1 && n == 0 {
				r.from = t
			} else {
				r.to = t
			}
		case len(f) == 3:
			hits, err1 := strconv.ParseUint(f[1], 10, 64)
			missed, err2 := strconv.ParseUint(f[2], 10, 64)
			if err := errors.Join(err1, err2); err != nil {
				return r, fmt.Errorf("line %d: %w: %w", n+1, errReading, err)
			}
			if _, twice := r.hits[f[0]]; twice {
				return r, fmt.Errorf("line %d: %w: two probes are called %s", n+1, errReading, f[0])
			}
			r.hits[f[0]] = probeHits{hits, missed}
		default:
			return r, fmt.Errorf("line %d: %w", n+1, errReading)
		}
	}
	if n := len(text); n > 0 && text[n-1] != '\n' {
		return r, fmt.Errorf("%w: its last line has no end", errReading) // it is being written
	}
	if r.pid == 0 && (times != 2 || r.from == 0 || r.from > r.to) || r.pid != 0 && times > 0 {
		return r, fmt.Errorf("%w: it begins and ends with a time, or begins with a process", errReading)
	}
	return r, nil
}

// counterPattern matches the names of files with readings that are found without options.
const counterPattern = "kprobe_profile.*"

// findCounters returns the files with readings: those of the options, or those in the
// recording's directory and next to it. A stream has the directory of its copy of the
// kernel. Anybody can put files next to a recording in a directory such as /tmp, and a
// reading proves that no change was missed. So there, a file must be the recording's
// owner's, the caller's or root's; foreign says which are not.
func findCounters(rec *perfdata.Recording, opts *Options) (paths []string, foreign []error) {
	if len(opts.ProbeCounters) > 0 {
		return opts.ProbeCounters, nil
	}
	var recording string
	var dirs []string
	switch files, dir := rec.Files(), rec.Dir(); {
	case dir != "":
		recording, dirs = dir, []string{dir, filepath.Dir(filepath.Clean(dir))}
	case len(files) > 0 && files[0] != "":
		recording, dirs = files[0], []string{filepath.Dir(files[0])}
	case opts.KCore != "":
		dir = filepath.Dir(filepath.Clean(opts.KCore))
		recording, dirs = opts.KCore, []string{dir, filepath.Dir(dir)}
	}
	for _, dir := range dirs {
		found, err := filepath.Glob(filepath.Join(escapeGlob(dir), counterPattern))
		if err != nil || len(found) == 0 {
			continue
		}
		if dir == recording {
			return found, nil
		}
		for _, path := range found {
			if err := outfile.OwnedLike(path, recording); err != nil {
				foreign = append(foreign, fmt.Errorf("%s is not read: %w", path, err))
			} else {
				paths = append(paths, path)
			}
		}
		if len(paths) > 0 {
			return paths, foreign
		}
	}
	return nil, foreign
}

// FilesBeside returns the files outside of a recording, which is a file or a directory, that [Load] reads
// because of their names, without options: readings of the hit counters of its probes. A recording without
// probes has none, whatever is next to it.
func FilesBeside(recording string) (files []string) {
	recording = pathname.Plain(recording)
	if near, _ := filepath.Glob(filepath.Join(escapeGlob(filepath.Dir(filepath.Clean(recording))), counterPattern)); len(near) == 0 {
		return nil
	}
	rec, err := perfdata.Open(recording)
	if err != nil {
		return nil // Load says so
	}
	defer rec.Close()
	_ = Guard(func() error { // Load finds out, too, if the recording was cut short
		r := &Replay{Recording: rec}
		if err := r.readFormats(new(Options)); err != nil || !r.hasProbes() {
			return err
		}
		files, _ = findCounters(rec, new(Options))
		return nil
	})
	return slices.DeleteFunc(files, func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || !info.Mode().IsRegular() || rec.Dir() != "" && filepath.Dir(path) == filepath.Clean(rec.Dir())
	})
}

// escapeGlob returns a pattern that matches only dir.
func escapeGlob(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// readCounters reads the readings. A file that the caller named must be one, also if the
// recording has no probes. While the recording is being made, it may also become one later.
func (r *Replay) readCounters(opts *Options, recording bool) error {
	r.counters = nil
	probes := r.hasProbes()
	if !probes && len(opts.ProbeCounters) == 0 {
		return nil
	}
	if probes && r.journal != nil {
		r.counters = r.journal.readings(r.Recording)
	}
	given := len(r.given)
	defer func() {
		if recording {
			r.given = r.given[:given]
		}
	}()
	paths, foreign := findCounters(r.Recording, opts)
	r.foreign = foreign
	for _, path := range paths {
		read, named := r.readFound, slices.Contains(opts.ProbeCounters, path)
		if named {
			read, named = r.readGiven, !recording
		}
		text, err := read("counters", path)
		if err != nil {
			if named {
				return err
			}
			continue
		}
		x, err := parseReading(text)
		x.source = filepath.Base(path)
		switch {
		case err == nil && probes:
			r.counters = append(r.counters, x)
		case err != nil && named:
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}

// ListsOutOfLine reports whether kallsyms has the pages of slots and trampolines that were
// there before the recording. perf cannot copy text while kprobes have such pages, so the script
// of docs/probes.md hides them from perf. "textreplay record" lists them.
func (r *Replay) ListsOutOfLine() bool { return r.journal != nil || !r.hasProbes() }

// hasProbes reports whether an event of the recording is a probe on a text writer.
func (r *Replay) hasProbes() bool {
	data := tracingFormats(r.Recording, r.formats)
	return data != nil && slices.ContainsFunc(r.Recording.Events(), func(e *perfdata.Event) bool { return probeEventOf(e, data) != nil })
}

// readerRan notes when a process ran, if it read the counters. For a stream, the id
// of that process is not known in advance, so every process is noted.
func (s *scan) readerRan(t *perfdata.Task, fork bool) {
	if t.PID != t.TID || !s.follows && (s.probes == nil || !slices.ContainsFunc(s.probes.sources, func(r probeReading) bool { return r.pid == t.PID })) {
		return
	}
	x := s.readers[t.PID]
	at := &x.to
	if fork {
		at = &x.from
	}
	// The two records may be of different CPUs, so that either is read first.
	if *at == 0 {
		*at = t.Time
	}
	x.again = x.again || *at != t.Time
	if s.readers == nil {
		s.readers = make(map[uint32]probeReader)
	}
	s.readers[t.PID] = x
}

// placeReadings finds the times of the readings, and sorts them. One whose time is not
// known, or not inside the recording, is left out.
func (s *scan) placeReadings() []probeReading {
	p := s.probes
	var out []probeReading
	for _, r := range p.sources {
		if r.recorder {
			out = append(out, r)
			continue
		}
		if r.pid != 0 {
			x := s.readers[r.pid]
			if x.again || x.from == 0 || x.to != 0 && x.from > x.to {
				s.warn(fmt.Errorf("%s: no records say when process %d ran, which read the hit counters", r.source, r.pid))
				continue
			}
			r.from, r.to = x.from, x.to
			if r.to == 0 {
				r.to = s.newest // it ended on a CPU that is not recorded
			}
		} else if s.report.Clock.Name != "CLOCK_MONOTONIC" {
			s.warn(fmt.Errorf("%s has times of CLOCK_MONOTONIC, the recording of %s", r.source, s.report.Clock.Name))
			continue
		}
		if r.from < s.report.First || r.to > s.newest {
			continue // of before perf recorded, or after
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b probeReading) int {
		if a.from != b.from {
			return int(min(1, max(-1, int64(a.from)-int64(b.from))))
		}
		return strings.Compare(a.source, b.source)
	})
	return out
}

// sortedKeys returns the names of the probes, ascending.
func sortedKeys(m map[string]probeHits) []string { return slices.Sorted(maps.Keys(m)) }

// samplesUpTo returns how many of the sorted times are at or before t.
func samplesUpTo(times []uint64, t uint64) uint64 {
	n, _ := slices.BinarySearch(times, t+1)
	return uint64(n)
}

// coverCounts compares the counters with the samples, and limits the coverage where they
// do not prove that each hit has a sample (rule probes).
//
//	             copy  enabled
//	hits       ●  ┊    ┊ ● ● ●        ● ● ●
//	samples       ┊    ┊ ● ● ●        ● ● ●
//	readings                    ├──┤          ├──┤
//	proven        early: 1 is ours   equal    nothing after the last one
func (s *scan) coverCounts(c *Coverage) {
	p := s.probes
	p.readings = s.placeReadings()
	for _, e := range p.events {
		slices.Sort(e.times)
	}
	usable := false
	for _, e := range p.events {
		switch e.role {
		case probeCopy:
		case probeAfter: // each has its BEFORE, see coverPairs
			s.coverMissed(c, e)
		default:
			usable = s.coverHits(c, e) || usable
		}
	}
	if !usable {
		why := "the probe's hit counters were not read while perf recorded (kprobe_profile, see docs/probes.md)"
		switch {
		case s.journal != nil && len(p.sources) == 0:
			why = "the recorder noted no hit counters of its probes: a change of text did not hit them when it tested them, or it could not read the counters"
		case len(p.sources) > 0:
			why = "no reading of the probe's hit counters is usable: each lacks the probe, or was made at an unknown time, outside of the recording, or while text changed"
		}
		c.limit(timeline.ProbeUnchecked, 0, timeline.MaxTime, "%s", why)
	}
}

// coverHits compares the hits of an event with its samples, from reading to reading. It
// returns false if no reading is usable.
//
// Samples inside of a reading may be counted in it, or not. So each reading gives bounds
// for how many hits have no sample, and that number never falls. A reading is skipped if
// its bounds do not decide whether it rose.
func (s *scan) coverHits(c *Coverage, e *probeEvent) (usable bool) {
	own, known := s.ownHits(e)
	var last *probeReading
	var without, missed int64 // hits without a sample by the last reading, hits that the kernel missed
	for i := range s.probes.readings {
		r := &s.probes.readings[i]
		h, has := r.hits[e.name]
		if !has || h.hits > 1<<62 || h.missed > 1<<62 {
			continue
		}
		if last == nil && r.recorder {
			if n, ok := s.countedFirst(c, e, r, h.hits); ok {
				last, without, missed = r, n, int64(h.missed)
			}
			continue
		}
		from := uint64(0)
		least := int64(h.hits) - int64(samplesUpTo(e.times, r.to))
		most := int64(h.hits) - int64(samplesUpTo(e.times, r.from-1))
		if last == nil {
			if known {
				least = max(least, min(int64(own), most)) // its own hits are certain
				without = int64(own)
			}
		} else {
			from, least = last.from, max(least, min(without, most))
		}
		switch {
		case int64(h.missed) != missed:
			s.limitMissed(c, e, from, r.to, int64(h.missed)-missed)
		case least != most:
			continue // text changed meanwhile
		case last == nil && known && most == without:
			s.probes.accounted = true
		case last == nil && most >= 0 && s.explained(c, 1, r.to):
		case last == nil && most >= 0:
			enabled, _ := s.listensFrom(takesBefore)
			if enabled == timeline.MaxTime {
				enabled = r.from
			}
			c.limit(timeline.ProbeEarly, 0, max(enabled, 1), "%s was hit %d times before perf enabled it; perf's own changes are %d of these", e.label(), most, own)
		case most == without:
		case most > without && most-without <= s.probes.counting(e, r.to):
			continue // their samples come later
		case most > without && last != nil && s.explained(c, from, r.to):
		default:
			c.limit(timeline.ProbeMissed, from, timeline.Later(r.to, longestHit), "%s has %d hits more than samples before %s", e.label(), most-without, Seconds(r.to))
		}
		last, without, missed = r, most, int64(h.missed)
	}
	if last == nil {
		return false
	}
	until := last.from
	c.limit(timeline.ProbeUnchecked, until, timeline.MaxTime, "the hit counters of %s were read at %s for the last time", e.label(), Seconds(until))
	return true
}

// coverMissed limits the coverage where the kernel missed a hit of an event, by the readings that have it.
func (s *scan) coverMissed(c *Coverage, e *probeEvent) {
	from, missed := uint64(0), uint64(0)
	for i := range s.probes.readings {
		r := &s.probes.readings[i]
		h, has := r.hits[e.name]
		if has && h.missed != missed {
			s.limitMissed(c, e, from, r.to, int64(h.missed-missed))
		}
		if has {
			from, missed = r.from, h.missed
		}
	}
}

// limitMissed limits the coverage from one reading to another one, between which the kernel missed hits. A change
// that began before the second one may end after it.
func (s *scan) limitMissed(c *Coverage, e *probeEvent, from, to uint64, hits int64) {
	c.limit(timeline.ProbeMissed, from, timeline.Later(to, longestHit), "the kernel could not run %s at %d of its hits before %s", e.label(), hits, Seconds(to))
}

// longestHit is the most time, in nanoseconds, from the hit of a BEFORE to its sample, and to the end of the
// change. Both take a few microseconds on a CPU that is not interrupted. A host may let a virtual CPU wait.
const longestHit = 1e9

// counting returns how many hits may be counted by a reading at t although their samples have
// a later time. A CPU counts a hit, and then takes the time of its sample, without being
// scheduled between. A host may let a virtual CPU wait there.
func (p *probeLog) counting(e *probeEvent, t uint64) int64 {
	return min(int64(len(p.cpus)), int64(samplesUpTo(e.times, t+longestHit)-samplesUpTo(e.times, t)))
}

// countedFirst handles the first reading of "textreplay record", which reads the counters when
// the events of all CPUs record, before it copies text. It returns how many hits have no
// sample. These were before the reading, so nothing is known of the time before. ok is false
// if text changed during the reading.
func (s *scan) countedFirst(c *Coverage, e *probeEvent, r *probeReading, hits uint64) (without int64, ok bool) {
	least, most := int64(hits)-int64(samplesUpTo(e.times, r.to)), int64(hits)-int64(samplesUpTo(e.times, r.from-1))
	if least != most {
		return 0, false
	}
	if r.to > s.begin() {
		c.limit(timeline.ProbeUnchecked, 0, r.to, "the hit counters of %s were read at %s for the first time", e.label(), Seconds(r.to))
	}
	s.probes.accounted = true
	return most, true
}

// explained reports whether the coverage has a limit in [from, to) that explains hits
// without samples: records were lost, or a CPU came back without perf's events. The limit
// is where they are missing.
func (s *scan) explained(c *Coverage, from, to uint64) bool {
	return slices.ContainsFunc(c.Limits, func(l Limit) bool {
		return (l.Reason == timeline.AfterLoss || l.Reason == timeline.CPUSilent) && l.From < to && from < l.To
	})
}
