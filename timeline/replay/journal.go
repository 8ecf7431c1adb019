// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"cmp"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"path/filepath"
	"slices"
	"sort"

	"github.com/textreplay/textreplay/internal/mapfile"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/recorder/journal"
	"github.com/textreplay/textreplay/timeline"
)

// A recorderJournal is what the journal of "textreplay record" says. It is nil for the
// recordings of perf.
type recorderJournal struct {
	start journal.Start
	ready uint64        // by then all that was there before had its records; 0 if the recorder did not come so far
	own   *journal.Copy // kcore_dir; nil if it was not finished
	later []journal.Copy
	gaps  []journal.Gap
	bytes []journal.Bytes
	// counters are the readings of probes' hit counters.
	counters []journal.Counters
	disarmed []journal.Disarmed
	armed    *openings // the times of disarmed
	ended    uint64    // 0 if the recorder was killed
	entries  []journal.Entry
	bad      error // a line that cannot be read: lines of gaps may be missing
}

// OwnCopy is the name of the first copy's directory, inside the recording's directory.
const OwnCopy = "kcore_dir"

// readJournal reads the journal of a recording, if it has one.
func (r *Replay) readJournal() error {
	dir := r.Recording.Dir()
	if dir == "" || r.guest != 0 {
		return nil
	}
	path := filepath.Join(dir, journal.Name)
	f, info, err := mapfile.Regular(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	r.given = append(r.given, stampedFile{"journal", path, info})
	entries, err := journal.Read(f)
	j := &recorderJournal{bad: err, entries: entries}
	for i := range entries {
		switch e := &entries[i]; {
		case e.Start != nil:
			j.start = *e.Start
		case e.Ready != nil:
			j.ready = e.Ready.Time
		case e.Copy != nil && e.Copy.Dir == OwnCopy:
			j.own = e.Copy
		case e.Copy != nil:
			j.later = append(j.later, *e.Copy)
		case e.Gap != nil:
			j.gaps = append(j.gaps, *e.Gap)
		case e.Bytes != nil:
			j.bytes = append(j.bytes, *e.Bytes)
		case e.Counters != nil:
			j.counters = append(j.counters, *e.Counters)
		case e.Disarmed != nil:
			if n := len(j.disarmed); n > 0 && j.disarmed[n-1].From == e.Disarmed.From {
				j.disarmed = j.disarmed[:n-1]
			}
			j.disarmed = append(j.disarmed, *e.Disarmed)
		case e.End != nil:
			j.ended = e.End.Time
		}
	}
	var disarmed []timeline.Interval
	for _, d := range j.disarmed {
		disarmed = append(disarmed, timeline.Interval{From: d.From, To: d.To})
	}
	j.armed = openingsOf(disarmed)
	r.journal = j
	return nil
}

// Journal returns the lines of the journal of "textreplay record", nil if the recording has
// none. Readings of hit counters whose samples the recording does not have yet are left out.
// The error is that of a line that cannot be read: what comes after it is missing.
func (r *Replay) Journal() ([]journal.Entry, error) {
	if r.journal == nil {
		return nil, nil
	}
	return slices.DeleteFunc(slices.Clone(r.journal.entries), func(e journal.Entry) bool {
		return e.Counters != nil && e.Counters.Data > r.Recording.Size()
	}), r.journal.bad
}

// JournaledCopies yields the later copies of text that the journal names, by their directories
// in that of the recording.
func (r *Replay) JournaledCopies() iter.Seq2[string, *kcore.Snapshot] {
	return func(yield func(string, *kcore.Snapshot) bool) {
		for i := range r.copies {
			if c := &r.copies[i]; c.journaled && !c.own && !yield(c.dir, c.Snapshot) {
				return
			}
		}
	}
}

// BootID returns the kernel's id of the boot in which the recording was made, "" if the
// recording does not have it: those of perf do not.
func (r *Replay) BootID() string {
	if r.journal == nil {
		return ""
	}
	return r.journal.start.BootID
}

// openJournaled opens the copies that the journal names. A copy that is not in it was not
// finished.
func (r *Replay) openJournaled() error {
	j := r.journal
	if j == nil {
		return nil
	}
	if j.own == nil && r.Snapshot != nil && sameDir(r.Snapshot.Dir(), filepath.Join(r.Recording.Dir(), OwnCopy)) {
		r.copies = append(r.copies, openCopy{Snapshot: r.Snapshot, name: r.Snapshot.Dir(), unused: true, own: true, journaled: true})
		r.Snapshot = nil
	}
	for _, c := range j.later {
		dir := filepath.Join(r.Recording.Dir(), c.Dir)
		snap, err := openKCore(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue // somebody removed it: it is only one fact less
		}
		if err != nil {
			return err
		}
		read := make([]timeline.Range, len(c.Read))
		for i, x := range c.Read {
			read[i] = timeline.Range{Lo: uint64(x.Lo), Hi: uint64(x.Hi)}
		}
		r.copies = append(r.copies, openCopy{Snapshot: snap, Copy: Copy{KCore: dir, Made: Times{c.From, c.To}}, name: dir, dir: c.Dir, journaled: true, sameElsewhere: c.Base == OwnCopy, read: read})
	}
	return nil
}

// segments returns what a copy has. Pages that the recorder found as they were in the
// first copy are taken from there.
func (c *openCopy) segments(first *kcore.Snapshot) []kcore.Segment {
	if !c.sameElsewhere || first == nil || first.Core == nil {
		return c.Core.Segments
	}
	var all []kcore.Segment
	for _, r := range c.read {
		for _, s := range timeline.Overlapping(asTimeline(first.Core.Segments), r.Lo, r.Hi) {
			all = append(all, kcore.Segment(s))
		}
	}
	for _, s := range c.Core.Segments {
		all = replaceSegment(all, s)
	}
	slices.SortFunc(all, func(a, b kcore.Segment) int { return cmp.Compare(a.Addr, b.Addr) })
	return all
}

// asTimeline returns the segments as those of package timeline. They share their data.
func asTimeline(segments []kcore.Segment) []timeline.Segment {
	out := make([]timeline.Segment, len(segments))
	for i, s := range segments {
		out[i] = timeline.Segment(s)
	}
	return out
}

// replaceSegment puts s in the place of what the other segments have there.
//
//	others  |-------------|     |----|
//	s              |---------|
//	result  |------|=========|  |----|
func replaceSegment(others []kcore.Segment, s kcore.Segment) (out []kcore.Segment) {
	end := s.Addr + uint64(len(s.Data))
	for _, o := range others {
		oEnd := o.Addr + uint64(len(o.Data))
		if o.Addr < s.Addr {
			n := min(oEnd, s.Addr) - o.Addr
			out = append(out, kcore.Segment{Addr: o.Addr, Data: o.Data[:n:n]})
		}
		if oEnd > end {
			from := max(o.Addr, end)
			out = append(out, kcore.Segment{Addr: from, Data: o.Data[from-o.Addr:]})
		}
	}
	return append(out, s)
}

// coverJournal adds the limits that the journal shows: each time in which a CPU was not
// recorded, and each step of a CPU that came online and that no gap of the journal
// explains, because the recorder was killed before it could open the CPU's events.
func (s *scan) coverJournal(c *Coverage) {
	j := s.journal
	if j == nil {
		return
	}
	if j.bad != nil {
		c.limit(timeline.Damaged, 0, timeline.MaxTime, "the recording is damaged: %v", j.bad)
		return
	}
	watched, ok := s.recordsHotplug()
	returned := make(map[int64][]uint64) // by CPU
	gaps := make(map[int64][]timeline.Interval)
	for _, g := range j.gaps {
		from := g.From
		gaps[int64(g.CPU)] = append(gaps[int64(g.CPU)], timeline.Interval{From: from, To: g.To})
		if ok && watched <= from {
			cpu := int64(g.CPU)
			if _, met := returned[cpu]; !met {
				returned[cpu] = s.tasks.hotplugs.returned(cpu)
			}
			from = back(returned[cpu], &g)
		}
		c.limit(timeline.CPUSilent, from, g.To, "CPU %d came online at some time from %s on, and its events were open at %s", g.CPU, Seconds(from), Seconds(g.To))
	}
	for _, cpu := range slices.Sorted(maps.Keys(s.tasks.hotplugs.steps)) {
		if t, ok := missed(s.tasks.hotplugs.returned(cpu), openingsOf(gaps[cpu])); ok {
			c.limit(timeline.CPUSilent, t, timeline.MaxTime, "CPU %d came online at %s; the recorder did not open its events", cpu, Seconds(t))
		}
	}
}

// back returns when a gap of a CPU begins, which came back at the times returned. If every step of every
// CPU was recorded, that is the first one in the gap: until then the CPU was offline, and changed nothing
// (rule hotplug).
func back(returned []uint64, g *journal.Gap) uint64 {
	if i, _ := slices.BinarySearch(returned, g.From); i < len(returned) && returned[i] <= g.To {
		return returned[i]
	}
	return g.From
}

// missed returns the first of the times returned, at which a CPU came online, that is in none of gaps.
func missed(returned []uint64, gaps *openings) (t uint64, ok bool) {
	for _, t := range returned {
		if to, ok := gaps.latest(t); !ok || to < t {
			return t, true
		}
	}
	return 0, false
}

// openings are intervals of time by their beginnings.
type openings struct {
	from []uint64
	to   []uint64 // the latest end of those up to this one
}

func openingsOf(list []timeline.Interval) *openings {
	list = slices.SortedFunc(slices.Values(list), func(a, b timeline.Interval) int { return cmp.Compare(a.From, b.From) })
	x := &openings{make([]uint64, len(list)), make([]uint64, len(list))}
	latest := uint64(0)
	for i, v := range list {
		latest = max(latest, v.To)
		x.from[i], x.to[i] = v.From, latest
	}
	return x
}

// latest returns the latest end of those that begin at t or before; false if there is none.
func (x *openings) latest(t uint64) (to uint64, ok bool) {
	i := sort.Search(len(x.from), func(i int) bool { return x.from[i] > t })
	if i == 0 {
		return 0, false
	}
	return x.to[i-1], true
}

// followsCPUs reports whether the recorder opened the events of each CPU that came online,
// or else says so in its journal.
func (s *scan) followsCPUs() bool {
	return s.journal != nil && s.journal.bad == nil && s.journal.start.FollowsCPUs
}

// readings returns the readings of hit counters all of whose samples the recording has. While
// it grows, the journal may have later ones.
func (j *recorderJournal) readings(rec *perfdata.Recording) (out []probeReading) {
	for _, c := range j.counters {
		if c.Data > rec.Size() {
			break
		}
		r := probeReading{source: journal.Name, from: c.From, to: c.To, recorder: true, hits: make(map[string]probeHits)}
		for name, h := range c.Probes {
			r.hits[name] = probeHits{h.Hits, h.Missed}
		}
		out = append(out, r)
	}
	return out
}
