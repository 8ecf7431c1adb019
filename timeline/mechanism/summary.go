// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

import (
	"cmp"
	"slices"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A Summary counts changes: by mechanism, by writer, by site, by run and over time. Make
// one with [NewSummary]; it is not safe for concurrent use.
type Summary struct {
	Counts
	Losses  uint64 // losses that were added
	Lost    uint64 // records that they lost
	Batches uint64 // batches of pokes, see [replay.Batch]

	by      [numMechanisms]MechanismCount
	writers map[writer]*WriterCount
	sites   map[siteKey]uint32
	runs    []Run
	open    map[runKey]int // index in runs of the newest run of a thread and mechanism
	batch   int            // number of the newest batch

	from, step uint64
	bins       []Bin
}

// Counts says how many changes there were, and when.
type Counts struct {
	Changes     uint64
	First, Last uint64 // times of the first and the last one; both are 0 if none has a time
}

func (c *Counts) add(t uint64) {
	c.Changes++
	if t != 0 {
		if c.First == 0 {
			c.First = t
		}
		c.Last = t
	}
}

// A MechanismCount counts the changes of one mechanism.
type MechanismCount struct {
	Mechanism Mechanism
	Counts
	Batches uint64 // batches that have a change of the mechanism
	Sites   uint64 // addresses that were changed
	Busiest uint64 // the most changes within one second of the clock

	batch, second, inSecond uint64
}

// add counts a change at time t. Changes are added in the order of time.
func (m *MechanismCount) add(t uint64) {
	m.Counts.add(t)
	if second := t / 1e9; second != m.second {
		m.second, m.inSecond = second, 0
	}
	m.inSecond++
	m.Busiest = max(m.Busiest, m.inSecond)
}

// A WriterCount counts the changes of one process under one name.
type WriterCount struct {
	Comm string // name of the thread; "" if it is not known
	PID  uint32
	Counts
	By [11]uint64 // changes by Mechanism
}

// A SiteCount counts the changes of one address by one mechanism.
type SiteCount struct {
	Addr      uint64
	Mechanism Mechanism
	Changes   uint64
}

// A Run is the changes that one thread made by one mechanism without a pause of more
// than [LongestPause], such as all places that a function tracer enables. No record says
// where an operation begins or ends, so a run is a guess for readers.
type Run struct {
	Mechanism Mechanism
	Comm      string
	PID, TID  uint32
	Counts
	Batches uint64
	Addr    uint64 // the first address that was changed; 0 if there is none

	batch int
}

// LongestPause is the longest time between two changes of a [Run], in nanoseconds.
const LongestPause = 100e6

// A Bin counts the changes of the time [From, To).
type Bin struct {
	From, To uint64
	Changes  uint64
	By       [11]uint64 // changes by Mechanism
	Losses   uint64
}

type (
	writer struct {
		comm string
		pid  uint32
	}
	runKey struct {
		tid uint32
		m   Mechanism
	}
	siteKey struct {
		addr uint64
		m    Mechanism
	}
)

// NewSummary returns an empty summary that counts the time from from to to, in
// nanoseconds, in n bins. Changes at other times are in no bin.
func NewSummary(from, to uint64, n int) *Summary {
	s := &Summary{writers: make(map[writer]*WriterCount), sites: make(map[siteKey]uint32), open: make(map[runKey]int), from: from}
	for i := range s.by {
		s.by[i].Mechanism = Mechanism(i)
	}
	n = max(n, 1)
	span := max(to, from) - from
	if s.step = span / uint64(n); s.step*uint64(n) < span || s.step == 0 {
		s.step++
	}
	for at := from; len(s.bins) < n; {
		next := timeline.Later(at, s.step) // the last bins may reach beyond the last time that there is
		s.bins = append(s.bins, Bin{From: at, To: next})
		at = next
	}
	return s
}

// Add counts a change that was made by m. Changes must be added in the order of time.
func (s *Summary) Add(c *replay.Change, m Mechanism) {
	bin := s.bin(c.Time)
	if c.Loss != nil {
		s.Losses++
		s.Lost += c.Loss.Records
		if bin != nil {
			bin.Losses++
		}
		return
	}
	s.add(c.Time)
	if bin != nil {
		bin.Changes++
		bin.By[m]++
	}
	by := &s.by[m]
	by.add(c.Time)
	if b := c.Batch; b != nil {
		if b.Number > s.batch {
			s.batch = b.Number
			s.Batches++
		}
		if uint64(b.Number) > by.batch {
			by.batch = uint64(b.Number)
			by.Batches++
		}
	}
	addr := uint64(0)
	if c.Poke != nil {
		addr = c.Poke.Addr
		key := siteKey{addr, m}
		n := s.sites[key]
		if n == 0 {
			by.Sites++
		}
		s.sites[key] = n + 1
	}
	if id := c.SampleID(); c.Time != 0 && id.Has&perfdata.SampleTID != 0 {
		s.addWriter(c, id, m, addr)
	}
}

func (s *Summary) addWriter(c *replay.Change, id *perfdata.SampleID, m Mechanism, addr uint64) {
	key := writer{c.Comm, id.PID}
	w := s.writers[key]
	if w == nil {
		w = &WriterCount{Comm: c.Comm, PID: id.PID}
		s.writers[key] = w
	}
	w.add(c.Time)
	w.By[m]++

	i, ok := s.open[runKey{id.TID, m}]
	if !ok || c.Time-s.runs[i].Last > LongestPause || s.runs[i].Comm != c.Comm {
		i = len(s.runs)
		s.runs = append(s.runs, Run{Mechanism: m, Comm: c.Comm, PID: id.PID, TID: id.TID, Addr: addr})
		s.open[runKey{id.TID, m}] = i
	}
	r := &s.runs[i]
	r.add(c.Time)
	if r.Addr == 0 {
		r.Addr = addr
	}
	if b := c.Batch; b != nil && b.Number != r.batch {
		r.batch = b.Number
		r.Batches++
	}
}

// AddModules counts the modules that im says were loaded and unloaded in [from, to), as
// changes without a writer. The Sites of their mechanism are modules.
func (s *Summary) AddModules(im *timeline.Image, from, to uint64) {
	by := &s.by[Module]
	var times []uint64
	for l := range im.Lifetimes {
		if l.Kind != timeline.ModuleText {
			continue
		}
		before := len(times)
		for _, t := range []uint64{l.From, l.To} {
			if t != 0 && t != timeline.MaxTime && from <= t && t < to {
				times = append(times, t)
			}
		}
		if len(times) > before {
			by.Sites++
		}
	}
	slices.Sort(times)
	for _, t := range times {
		by.add(t)
		s.Changes++
		if s.First == 0 || t < s.First {
			s.First = t
		}
		s.Last = max(s.Last, t)
		if bin := s.bin(t); bin != nil {
			bin.Changes++
			bin.By[Module]++
		}
	}
}

func (s *Summary) bin(t uint64) *Bin {
	if t < s.from {
		return nil
	}
	if i := (t - s.from) / s.step; i < uint64(len(s.bins)) {
		return &s.bins[i]
	}
	return nil
}

// Mechanisms returns the mechanisms that made changes, those with the most first.
func (s *Summary) Mechanisms() []MechanismCount {
	var out []MechanismCount
	for _, m := range s.by {
		if m.Changes > 0 {
			out = append(out, m)
		}
	}
	slices.SortStableFunc(out, func(a, b MechanismCount) int { return cmp.Compare(b.Changes, a.Changes) })
	return out
}

// Writers returns the processes that made changes, those with the most first.
func (s *Summary) Writers() []WriterCount {
	var out []WriterCount
	for _, w := range s.writers {
		out = append(out, *w)
	}
	slices.SortFunc(out, func(a, b WriterCount) int {
		return cmp.Or(cmp.Compare(b.Changes, a.Changes), cmp.Compare(a.PID, b.PID), cmp.Compare(a.Comm, b.Comm))
	})
	return out
}

// Sites returns the n addresses that were changed most often, those with the most
// changes first.
func (s *Summary) Sites(n int) []SiteCount {
	var out []SiteCount
	for k, changes := range s.sites {
		out = append(out, SiteCount{k.addr, k.m, uint64(changes)})
	}
	slices.SortFunc(out, func(a, b SiteCount) int {
		return cmp.Or(cmp.Compare(b.Changes, a.Changes), cmp.Compare(a.Addr, b.Addr), cmp.Compare(a.Mechanism, b.Mechanism))
	})
	return out[:min(n, len(out))]
}

// Runs returns all runs in the order of time.
func (s *Summary) Runs() []Run { return slices.Clone(s.runs) }

// Bins returns the changes over time.
func (s *Summary) Bins() []Bin { return slices.Clone(s.bins) }
