// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
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
	return written(t, &m)
}

// written returns the profile that m writes.
func written(t *testing.T, m *Merger) (*profile.Profile, error) {
	t.Helper()
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

// mergedTapes writes a profile of each tape and merges them.
func mergedTapes(t *testing.T, opts Options, tapes ...*tape) (*profile.Profile, *Stats, error) {
	t.Helper()
	var m Merger
	for _, tp := range tapes {
		var b bytes.Buffer
		if _, err := Write(&b, tp.load(), opts); err != nil {
			t.Fatal(err)
		}
		if err := m.Add(&b, ""); err != nil {
			return nil, nil, err
		}
	}
	p, err := written(t, &m)
	return p, m.Stats(), err
}

// TestMergeEvents: recordings of the same events are merged whichever of them had samples, and in
// whichever order perf was given them. An event with samples that another recording does not have
// is refused.
func TestMergeEvents(t *testing.T) {
	const clock, faults = "cpu-clock", "page-faults"
	of := func(sampled []string, recorded ...string) *tape {
		tp := newTape(t, recorded...)
		for i, name := range recorded {
			tp.events[i].Attr.Config = map[string]uint64{clock: 0, faults: 2, "samples": 9}[name]
		}
		tp.restart()
		for i, name := range recorded {
			for _, s := range sampled {
				if s == name {
					tp.sample(taken{event: i, time: 100, pid: 7, ip: leaf, period: 1000 * uint64(len(name))})
				}
			}
		}
		return tp
	}
	for _, tt := range []struct {
		name   string
		tapes  []*tape
		types  string // "" if it is refused
		values string
		period string
	}{
		{"the second had none of an event", []*tape{of([]string{clock, faults}, clock, faults), of([]string{clock}, clock, faults)},
			"[cpu-clock_samples cpu-clock page-faults_samples page-faults]", "[2 18000 1 11000]", clock},
		{"the first had none of its first event", []*tape{of([]string{faults}, clock, faults), of([]string{clock}, clock, faults)},
			"[cpu-clock_samples cpu-clock page-faults_samples page-faults]", "[1 9000 1 11000]", clock},
		{"another order", []*tape{of([]string{clock, faults}, clock, faults), of([]string{clock, faults}, faults, clock)},
			"[cpu-clock_samples cpu-clock page-faults_samples page-faults]", "[2 18000 2 22000]", clock},
		{"an event that is called as the number of samples", []*tape{of([]string{"samples"}, "samples"), of([]string{"samples"}, "samples")},
			"[samples_ samples]", "[2 14000]", "samples"},
		{"events that are called as others' numbers of samples", []*tape{of([]string{"x", "x_samples"}, "x", "x_samples"), of([]string{"x", "x_samples"}, "x_samples", "x")},
			"[x_samples_ x x_samples_samples x_samples]", "[2 2000 2 18000]", "x"},
		{"no samples of an event", []*tape{of([]string{clock}, clock, faults), of([]string{clock}, clock)}, "[samples cpu-clock]", "[2 18000]", clock},
		{"the second did not record it", []*tape{of([]string{clock, faults}, clock, faults), of([]string{clock}, clock)}, "", "", ""},
		{"the first did not record it", []*tape{of([]string{clock}, clock), of([]string{clock, faults}, clock, faults)}, "", "", ""},
		{"the second of three did not record it", []*tape{of([]string{clock}, clock, faults), of([]string{clock}, clock), of([]string{clock, faults}, clock, faults)}, "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, stats, err := mergedTapes(t, Options{Silent: true}, tt.tapes...)
			if tt.types == "" {
				if !errors.Is(err, ErrOtherEvents) {
					t.Errorf("the error is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var types []string
			for _, x := range p.SampleType {
				types = append(types, x.Type)
			}
			if fmt.Sprint(types) != tt.types || len(p.Sample) != 1 || fmt.Sprint(p.Sample[0].Value) != tt.values {
				t.Errorf("%v\n%s", types, print(p))
			}
			if p.PeriodType.Type != tt.period || p.DefaultSampleType != tt.period || p.Period != 1000 {
				t.Errorf("period %d of %s, default %s", p.Period, p.PeriodType.Type, p.DefaultSampleType)
			}
			if len(stats.Events) != len(types)/2 || stats.Events[0].Total != uint64(p.Sample[0].Value[1]) {
				t.Errorf("%+v", stats)
			}
		})
	}
}

// TestMergePlaces: BPF programs keep their addresses, which are in their mappings. Stacks are counted,
// not samples.
func TestMergePlaces(t *testing.T) {
	first := uint32(0)
	of := func(addr uint64) *tape {
		tp := newTape(t, "cpu-clock")
		first += 64
		tp.bpf(1000, 4000, packed, first, "bpf_prog_0000000000000001_first")
		tp.bpf(1000, 4000, addr, 0x300, "bpf_prog_0000000000000002_second")
		for pid := range uint32(3) {
			tp.sample(taken{time: 1500, pid: pid, ip: packed + uint64(first) - 1})
			tp.sample(taken{time: 1500, pid: pid, ip: addr + 0x200})
		}
		return tp
	}
	p, stats, err := mergedTapes(t, Options{Labels: LabelPID}, of(packed+0x10000), of(packed+0x20000))
	if err != nil {
		t.Fatal(err)
	}
	var places []string
	for _, l := range p.Location {
		places = append(places, fmt.Sprintf("%#x %s", l.Address, l.Line[0].Function.Name))
		if l.Address < l.Mapping.Start || l.Address >= l.Mapping.Limit {
			t.Errorf("%#x is not in its mapping %#x to %#x", l.Address, l.Mapping.Start, l.Mapping.Limit)
		}
	}
	slices.Sort(places)
	want := []string{"0xffffffffc000103f bpf_prog_0000000000000001_first", "0xffffffffc000107f bpf_prog_0000000000000001_first", "0xffffffffc0011200 bpf_prog_0000000000000002_second", "0xffffffffc0021200 bpf_prog_0000000000000002_second"}
	if d := cmp.Diff(want, places); d != "" {
		t.Error(d)
	}
	if stats.Stacks != 4 || stats.Rows != 12 || stats.Samples != 12 || stats.Functions != 2 {
		t.Errorf("%+v", stats)
	}
}

// TestMergeTooMuch: sums that exceed a signed number are refused.
func TestMergeTooMuch(t *testing.T) {
	of := func(period uint64) *tape {
		tp := newTape(t, "cpu-clock")
		tp.sample(taken{time: 100, pid: 7, ip: leaf, period: period})
		return tp
	}
	if _, _, err := mergedTapes(t, Options{}, of(1<<62), of(1<<62)); err == nil {
		t.Error("no error")
	}
	if p, _, err := mergedTapes(t, Options{}, of(1<<62), of(1<<62-1)); err != nil || p.Sample[0].Value[1] != 1<<63-1 {
		t.Errorf("%v, %v", p, err)
	}
}

// TestMergeMany: samples are merged again only after their number has doubled, so many profiles take the
// time of all their samples, not its square.
func TestMergeMany(t *testing.T) {
	const hosts = 300
	var m Merger
	merges, last := 0, (*profile.Profile)(nil)
	for host := range hosts {
		var b bytes.Buffer
		if err := kernelProfile(0xffffffff81000000, "aa", "cycles", "x").Write(&b); err != nil {
			t.Fatal(err)
		}
		if err := m.Add(&b, fmt.Sprint(host)); err != nil {
			t.Fatal(err)
		}
		if m.merged != last {
			merges, last = merges+1, m.merged
		}
	}
	if s := m.Stats(); merges > 10 || s.Rows != 2*hosts || s.Samples != 3*hosts || s.Events[0].Total != 30*hosts || s.Locations != 2 {
		t.Errorf("%d merges, %+v", merges, s)
	}
}
