// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"errors"
	"fmt"
	"io"

	"github.com/google/pprof/profile"
)

// A Merger makes one profile of several, of different recordings and machines. The names in
// each profile, which are those at the times of its samples, are kept: an address that was a
// different BPF program on each of two machines is two locations.
//
// Kernel text is the same place if build id and offset are the same, wherever each machine
// had loaded its kernel. The merged addresses are those of the first profile with that
// build id. A Merger keeps only the merged profile in memory. It serves one goroutine.
type Merger struct {
	merged  *profile.Profile
	kernels map[string]uint64 // by build id: the start of the kernel's mapping in merged
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
	if m.merged == nil {
		m.merged = p
		return nil
	}
	if len(p.SampleType) != len(m.merged.SampleType) {
		return ErrOtherEvents
	}
	for i, t := range p.SampleType {
		if *t != *m.merged.SampleType[i] {
			return ErrOtherEvents
		}
	}
	merged, err := profile.Merge([]*profile.Profile{m.merged, p})
	if err != nil {
		return fmt.Errorf("merging profiles: %w", err)
	}
	m.merged = merged
	return nil
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
	if m.merged == nil {
		return s
	}
	s.Stacks, s.Locations, s.Mappings = len(m.merged.Sample), len(m.merged.Location), len(m.merged.Mapping)
	s.Functions = len(m.merged.Function)
	for i := 0; i+1 < len(m.merged.SampleType); i += 2 {
		e := EventStats{Name: m.merged.SampleType[i+1].Type, Unit: m.merged.SampleType[i+1].Unit}
		for _, x := range m.merged.Sample {
			e.Samples += uint64(x.Value[i])
			e.Total += uint64(x.Value[i+1])
		}
		s.Events = append(s.Events, e)
	}
	return s
}

// Write writes the merged profile, compressed. It fails with [ErrNoSamples] if there is none.
func (m *Merger) Write(w io.Writer) error {
	if m.merged == nil {
		return ErrNoSamples
	}
	return m.merged.Write(w)
}
