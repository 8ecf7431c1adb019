// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/google/pprof/profile"
)

// A Merger makes one profile of several, of different recordings and machines. The names in
// each profile, which are those at the times of its samples, are kept: an address that was a
// different BPF program on each of two machines is two locations.
//
// Kernel text is the same place if build id and offset are the same, wherever each machine
// had loaded its kernel. The merged addresses are those of the first profile with that
// build id.
//
// Each event with samples must be in all profiles. Profiles that were written with
// [Options.Silent] have events without samples too.
//
// A Merger keeps the merged profile in memory, and profiles of as many samples that wait to be merged:
// to merge takes the time of all samples. It serves one goroutine.
type Merger struct {
	merged  *profile.Profile
	waiting []*profile.Profile
	samples int               // of those that wait
	kernels map[string]uint64 // by build id: the start of the kernel's mapping in merged
	events  []*mergedEvent    // that all profiles have, in the order of the first one; nil before that

	begin, end int64 // wall-clock times: of the first begin and the last end of a profile
	timeless   bool  // a profile does not say when it was recorded
}

// A mergedEvent is an event with what its values add up to.
type mergedEvent struct {
	profile.ValueType
	samples, total uint64
}

// ErrOtherEvents is returned for a profile whose values are not those of the ones before.
var ErrOtherEvents = errors.New("its samples are of other events than those before")

// Add adds a profile that [Write] has written. Its samples get the label "host" with this value,
// none if host is "". The error is [ErrOtherEvents], or that of parsing or merging; the profile
// is then not added.
func (m *Merger) Add(r io.Reader, host string) error {
	p, err := profile.Parse(r)
	if err != nil {
		return err
	}
	events, err := m.together(p)
	if err != nil {
		return err
	}
	m.place(p)
	if host != "" {
		host = string(text(host))
		for _, s := range p.Sample {
			if s.Label == nil {
				s.Label = make(map[string][]string)
			}
			s.Label["host"] = []string{host}
		}
	}
	switch {
	case p.TimeNanos <= 0 || p.DurationNanos > math.MaxInt64-p.TimeNanos:
		m.timeless = true
	case m.end == 0:
		m.begin, m.end = p.TimeNanos, p.TimeNanos+p.DurationNanos
	default:
		m.begin, m.end = min(m.begin, p.TimeNanos), max(m.end, p.TimeNanos+p.DurationNanos)
	}
	m.events = events
	m.waiting = append(m.waiting, p)
	if m.samples += len(p.Sample); m.merged == nil || m.samples >= len(m.merged.Sample) {
		return m.merge()
	}
	return nil
}

// merge merges the profiles that wait.
func (m *Merger) merge() error {
	if len(m.waiting) == 0 {
		return nil
	}
	all := m.waiting
	if m.merged != nil {
		all = append([]*profile.Profile{m.merged}, all...)
	}
	m.waiting, m.samples = nil, 0
	for _, p := range all {
		choose(p, sampled(m.events))
	}
	merged, err := profile.Merge(all)
	if err != nil {
		return fmt.Errorf("merging profiles: %w", err)
	}
	for _, l := range merged.Location {
		// Mappings whose sizes are the same in pages are one, which has the limit of the first.
		if x := l.Mapping; x != nil && l.Address >= x.Limit {
			x.Limit = l.Address + 1
		}
	}
	m.merged = merged
	return nil
}

// eventsOf returns the events of a profile, whose values come in pairs: the number of samples
// and the sum of their periods.
func eventsOf(p *profile.Profile) (events []*mergedEvent) {
	for i := 0; i+1 < len(p.SampleType); i += 2 {
		e := &mergedEvent{ValueType: profile.ValueType{Type: p.SampleType[i+1].Type, Unit: p.SampleType[i+1].Unit}}
		for _, s := range p.Sample {
			e.samples += uint64(s.Value[i])
			e.total += uint64(s.Value[i+1])
		}
		events = append(events, e)
	}
	return events
}

func sampled(events []*mergedEvent) (out []*mergedEvent) {
	for _, e := range events {
		if e.samples > 0 {
			out = append(out, e)
		}
	}
	return out
}

// together returns the events of the profiles before that p has too, with the sums of all of them.
func (m *Merger) together(p *profile.Profile) ([]*mergedEvent, error) {
	added := eventsOf(p)
	if m.events == nil {
		return added, nil
	}
	var out []*mergedEvent
	for _, before := range m.events {
		i := slices.IndexFunc(added, func(e *mergedEvent) bool { return e.ValueType == before.ValueType })
		if i < 0 {
			if before.samples > 0 {
				return nil, ErrOtherEvents
			}
			continue
		}
		e := added[i]
		added = slices.Delete(added, i, i+1)
		if e.total > math.MaxInt64-before.total {
			return nil, fmt.Errorf("merging profiles: the sums of %s exceed 2^63-1", e.Type)
		}
		e.samples, e.total = e.samples+before.samples, e.total+before.total
		out = append(out, e)
	}
	if len(sampled(added)) > 0 {
		return nil, ErrOtherEvents
	}
	return out, nil
}

// choose gives p the values of these events, 0 for those that it does not have.
func choose(p *profile.Profile, events []*mergedEvent) {
	var columns []int
	for _, e := range events {
		i := 0
		for i+1 < len(p.SampleType) && (p.SampleType[i+1].Type != e.Type || p.SampleType[i+1].Unit != e.Unit) {
			i += 2
		}
		columns = append(columns, i)
	}
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = e.Type
	}
	p.SampleType = nil
	for i, count := range countNames(names) {
		p.SampleType = append(p.SampleType, &profile.ValueType{Type: count, Unit: "count"}, &profile.ValueType{Type: names[i], Unit: events[i].Unit})
	}
	for _, s := range p.Sample {
		values := make([]int64, 2*len(events))
		for i, column := range columns {
			if column+1 < len(s.Value) {
				copy(values[2*i:], s.Value[column:column+2])
			}
		}
		s.Value = values
	}
	if len(events) == 0 {
		return
	}
	first := events[0]
	if p.PeriodType == nil || p.PeriodType.Type != first.Type || p.PeriodType.Unit != first.Unit {
		p.PeriodType, p.Period = &profile.ValueType{Type: first.Type, Unit: first.Unit}, 0
	}
	p.DefaultSampleType = first.Type
}

// place moves the kernel of a profile to the address of the same build in the profiles before.
func (m *Merger) place(p *profile.Profile) {
	if m.kernels == nil {
		m.kernels = make(map[string]uint64)
	}
	for _, k := range p.Mapping {
		if k.BuildID == "" || k.File != kernelFile {
			continue
		}
		start, ok := m.kernels[k.BuildID]
		if !ok {
			m.kernels[k.BuildID] = k.Start
			continue
		}
		by := start - k.Start // as uint64, which may wrap
		for _, l := range p.Location {
			if l.Mapping == k {
				l.Address += by
			}
		}
		k.Start, k.Limit, k.Offset = k.Start+by, k.Limit+by, k.Offset+by
	}
}

// Stats counts what the merged profile has.
func (m *Merger) Stats() *Stats {
	s := &Stats{}
	if m.merge() != nil || m.merged == nil {
		return s
	}
	stacks := make(map[string]bool)
	var stack []byte
	for _, x := range m.merged.Sample {
		stack = stack[:0]
		for _, l := range x.Location {
			stack = binary.AppendUvarint(stack, l.ID)
		}
		stacks[string(stack)] = true
	}
	s.Stacks, s.Rows = len(stacks), uint64(len(m.merged.Sample))
	s.Locations, s.Mappings, s.Functions = len(m.merged.Location), len(m.merged.Mapping), len(m.merged.Function)
	for _, e := range sampled(m.events) {
		s.Samples += e.samples
		s.Events = append(s.Events, EventStats{Name: e.Type, Unit: e.Unit, Samples: e.samples, Total: e.total})
	}
	return s
}

// WriteOTLP writes the merged profile as [WriteOTLP] does. Its duration is from the begin of the first
// recording to the end of the last one, if all say when they were made; pprof's is the sum of theirs. It
// fails with [ErrNoSamples] if there is none.
func (m *Merger) WriteOTLP(w io.Writer) error {
	if err := m.merge(); err != nil {
		return err
	}
	if m.merged == nil {
		return ErrNoSamples
	}
	if m.timeless {
		return writeOTLP(w, m.merged, 0, 0)
	}
	return writeOTLP(w, m.merged, m.begin, m.end-m.begin)
}

// Write writes the merged profile, compressed. It fails with [ErrNoSamples] if there is none.
func (m *Merger) Write(w io.Writer) error {
	if err := m.merge(); err != nil {
		return err
	}
	if m.merged == nil {
		return ErrNoSamples
	}
	return m.merged.Write(w)
}
