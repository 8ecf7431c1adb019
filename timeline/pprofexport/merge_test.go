// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/pprof/profile"
)

// kernelProfile returns a profile of two samples: one in the kernel, which was loaded at
// base, and one in a BPF program.
func kernelProfile(base uint64, build, event, program string) *profile.Profile {
	kernel := &profile.Mapping{ID: 1, Start: base, Limit: base + 0x100000, Offset: base, File: kernelFile, BuildID: build}
	bpf := &profile.Mapping{ID: 2, Start: 0xffffffffc0000000, Limit: 0xffffffffc1000000, File: "[bpf]"}
	f := &profile.Function{ID: 1, Name: "vfs_read"}
	g := &profile.Function{ID: 2, Name: program}
	at := &profile.Location{ID: 1, Mapping: kernel, Address: base + 0x123, Line: []profile.Line{{Function: f}}}
	in := &profile.Location{ID: 2, Mapping: bpf, Address: 0xffffffffc0000100, Line: []profile.Line{{Function: g}}}
	return &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: event, Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{},
		Mapping:    []*profile.Mapping{kernel, bpf}, Function: []*profile.Function{f, g}, Location: []*profile.Location{at, in},
		Sample: []*profile.Sample{{Location: []*profile.Location{at}, Value: []int64{1, 10}}, {Location: []*profile.Location{in}, Value: []int64{2, 20}}},
	}
}

func merged(t *testing.T, profiles ...*profile.Profile) (*profile.Profile, error) {
	t.Helper()
	var m Merger
	for _, p := range profiles {
		var b bytes.Buffer
		if err := p.Write(&b); err != nil {
			t.Fatal(err)
		}
		if err := m.Add(&b, ""); err != nil {
			return nil, err
		}
	}
	var b bytes.Buffer
	if err := m.Write(&b); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(&b)
	if err != nil {
		t.Fatal(err)
	}
	return p, p.CheckValid()
}

// TestMerge: kernel text of one build is one place, wherever it was loaded; of two builds it
// is two. Programs at one address with different names stay apart.
func TestMerge(t *testing.T) {
	const here, there = 0xffffffff81000000, 0xffffffff9a000000
	p, err := merged(t, kernelProfile(here, "aa", "cycles", "bpf_prog_1"), kernelProfile(there, "aa", "cycles", "bpf_prog_2"), kernelProfile(there, "aa", "cycles", "bpf_prog_1"))
	if err != nil {
		t.Fatal(err)
	}
	if len(p.Location) != 3 || len(p.Sample) != 3 || len(p.Mapping) != 2 {
		t.Errorf("%d locations, %d samples, %d mappings, want 3, 3 and 2\n%v", len(p.Location), len(p.Sample), len(p.Mapping), p)
	}
	byName := make(map[string]int64)
	for _, s := range p.Sample {
		byName[s.Location[0].Line[0].Function.Name] += s.Value[1]
		if l := s.Location[0]; l.Mapping.File == kernelFile && l.Address != here+0x123 {
			t.Errorf("vfs_read at %#x", l.Address)
		}
	}
	if byName["vfs_read"] != 30 || byName["bpf_prog_1"] != 40 || byName["bpf_prog_2"] != 20 {
		t.Errorf("%v", byName)
	}
	if p, err = merged(t, kernelProfile(here, "aa", "cycles", "x"), kernelProfile(there, "bb", "cycles", "x")); err != nil || len(p.Location) != 3 {
		t.Errorf("of two builds: %v, %v", p, err)
	}
	var m Merger
	for _, host := range []string{"one", "two"} {
		var b bytes.Buffer
		if err := kernelProfile(here, "aa", "cycles", "x").Write(&b); err != nil {
			t.Fatal(err)
		}
		if err := m.Add(&b, host); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.merged.Sample) != 4 || len(m.merged.Location) != 2 || m.merged.Sample[0].Label["host"][0] != "one" {
		t.Errorf("of two hosts: %v", m.merged)
	}
	if s := m.Stats(); s.Events[0].Samples != 6 || s.Events[0].Total != 60 {
		t.Errorf("stats %+v", s)
	}
	if _, err := merged(t, kernelProfile(here, "aa", "cycles", "x"), kernelProfile(there, "aa", "cpu-clock", "x")); !errors.Is(err, ErrOtherEvents) {
		t.Errorf("of other events: %v", err)
	}
}
