// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// values calls every typed feature method and prints what it returns.
func values(r *Recording) map[string]string {
	out := make(map[string]string)
	put := func(f Feature, err error, v ...any) {
		switch {
		case errors.Is(err, ErrNoFeature):
		case err != nil:
			var fe *FormatError
			if !errors.As(err, &fe) || !errors.Is(err, ErrMalformed) {
				err = fmt.Errorf("untyped error: %w", err)
			}
			_, msg, _ := strings.Cut(err.Error(), "section: ")
			out[f.String()] = "error: " + msg
		default:
			out[f.String()] = strings.Trim(fmt.Sprintf("%+v", v), "[]")
		}
	}
	hostname, err := r.Hostname()
	put(FeatureHostname, err, hostname)
	release, err := r.OSRelease()
	put(FeatureOSRelease, err, release)
	version, err := r.Version()
	put(FeatureVersion, err, version)
	arch, err := r.Arch()
	put(FeatureArch, err, arch)
	available, online, err := r.NRCPUs()
	put(FeatureNRCPUs, err, available, online)
	cmdline, err := r.Cmdline()
	put(FeatureCmdline, err, strings.Join(cmdline, "|"))
	first, last, err := r.SampleTime()
	put(FeatureSampleTime, err, first, last)
	resolution, err := r.ClockID()
	put(FeatureClockID, err, resolution)
	clock, err := r.ClockData()
	put(FeatureClockData, err, clock)
	tracing, err := r.TracingData()
	put(FeatureTracingData, err, string(tracing))
	dir, err := r.DirFormat()
	put(FeatureDirFormat, err, dir)
	comp, err := r.Compressed()
	put(FeatureCompressed, err, comp)
	desc, err := r.EventDesc()
	put(FeatureEventDesc, err, len(desc))
	ids, err := collect(r.BuildIDs())
	if _, missing := r.Feature(FeatureBuildID); missing == nil {
		put(FeatureBuildID, err, len(ids))
	}
	cpuDesc, err := r.CPUDesc()
	put(FeatureCPUDesc, err, cpuDesc)
	cpuid, err := r.CPUID()
	put(FeatureCPUID, err, cpuid)
	mem, err := r.TotalMem()
	put(FeatureTotalMem, err, mem)
	topology, err := r.CPUTopology()
	put(FeatureCPUTopology, err, topology)
	numa, err := r.NUMATopology()
	put(FeatureNUMATopology, err, numa)
	caches, err := r.Caches()
	put(FeatureCache, err, caches)
	memTopology, err := r.MemTopology()
	put(FeatureMemTopology, err, memTopology)
	hybrid, err := r.HybridTopology()
	put(FeatureHybridTopology, err, hybrid)
	domains, err := r.CPUDomains()
	put(FeatureCPUDomainInfo, err, domains)
	machine, flags, err := r.EMachine()
	put(FeatureEMachine, err, machine, flags)
	line, err := r.CachelineSize()
	put(FeatureCLNSize, err, line)
	pmus, err := r.PMUMappings()
	put(FeaturePMUMappings, err, pmus)
	caps, err := r.CPUPMUCaps()
	put(FeatureCPUPMUCaps, err, caps)
	pmuCaps, err := r.PMUCaps()
	put(FeaturePMUCaps, err, pmuCaps)
	groups, err := r.GroupDesc()
	put(FeatureGroupDesc, err, groups)
	index, err := r.AuxtraceIndex()
	put(FeatureAuxtrace, err, index)
	return out
}

// collect returns what comes before the first error.
func collect[T any](seq iter.Seq2[T, error]) (list []T, err error) {
	for v, err := range seq {
		if err != nil {
			return list, err
		}
		list = append(list, v)
	}
	return list, nil
}

// strs appends strings as the features have them.
func (e endian) strs(b []byte, list ...string) []byte {
	for _, s := range list {
		b = e.appendString(b, s)
	}
	return b
}

// machineSections are the features that describe the machine.
func machineSections(e endian) map[Feature][]byte {
	u32, u64 := e.appendU32s, func(b []byte, v ...uint64) []byte { return e.appendU64s(b, v) }
	topology := e.strs(u32(nil, 1), "0-1")                         // packages
	topology = e.strs(u32(topology, 2), "0", "1")                  // cores
	topology = u32(topology, 10, 20, 11, 0xffffffff)               // core and socket of each CPU
	topology = u32(e.strs(u32(topology, 1), "0-1"), 30, 31)        // dies
	memory := u64(nil, 1, 1<<27, 2)                                // version, block size, nodes
	memory = u64(memory, 0, 70, 70, 1<<63|1, 5)                    // 70 blocks of node 0
	memory = u64(memory, 1, 3, 3, 7)                               // three of node 1
	domains := e.strs(u32(nil, 17, 2, 0, 1, 0), "SMT", "3", "0-1") // CPU 0 has one domain
	domains = u32(domains, 1, 0)                                   // CPU 1 has none
	buildID := e.pack(uint32(0xffffffff), text{"\x01\x02", 20}, uint8(2), uint8(0), uint16(0), text{"[kernel.kallsyms]", 20})
	return map[Feature][]byte{
		FeatureBuildID:        append(rawRecord(e, RecordHeaderBuildID, MiscKernel|MiscBuildIDSize, buildID), rawRecord(e, 0, MiscUser, buildID)...),
		FeatureNRCPUs:         u32(nil, 2, 2),
		FeatureCPUDesc:        e.strs(nil, "Some CPU @ 2GHz"),
		FeatureCPUID:          e.strs(nil, "GenuineIntel,6,85,7"),
		FeatureTotalMem:       u64(nil, 16<<20),
		FeatureCPUTopology:    topology,
		FeatureNUMATopology:   e.strs(u64(u32(nil, 1, 3), 100, 50), "0-1"),
		FeatureBranchStack:    {},
		FeaturePMUMappings:    e.strs(u32(e.strs(u32(nil, 2, 8), "intel_pt"), 4), "cpu"),
		FeatureGroupDesc:      u32(e.strs(u32(nil, 1), "{anon_group}"), 0, 2),
		FeatureAuxtrace:       u64(nil, 2, 0x1000, 0x230, 0x1230, 0x100),
		FeatureCache:          e.strs(u32(nil, 1, 1, 2, 64, 1024, 16), "Unified", "1024K", "0-1"),
		FeatureMemTopology:    memory,
		FeatureCPUPMUCaps:     e.strs(u32(nil, 2), "branches", "32", "pmu_name", "skylake"),
		FeatureHybridTopology: e.strs(u32(nil, 1), "cpu_core", "0-1"),
		FeaturePMUCaps:        e.strs(u32(e.strs(u32(nil, 2, 1), "slots", "4", "cpu_atom"), 0), "cpu_core"),
		FeatureCPUDomainInfo:  domains,
		FeatureEMachine:       u32(nil, 62, 5),
		FeatureCLNSize:        u32(nil, 64),
	}
}

func TestMachineFeatures(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		sections := machineSections(e)
		want := map[string]string{
			"BUILD_ID": "2", "NRCPUS": "2 2", "CPUDESC": "Some CPU @ 2GHz", "CPUID": "GenuineIntel,6,85,7", "TOTAL_MEM": "16777216",
			"CPU_TOPOLOGY":  "{Packages:[0-1] Dies:[0-1] Cores:[0 1] CPUs:[{Core:10 Die:30 Socket:20} {Core:11 Die:31 Socket:-1}]}",
			"NUMA_TOPOLOGY": "{Node:3 MemTotal:100 Free:50 CPUs:0-1}",
			"PMU_MAPPINGS":  "{Type:8 Name:intel_pt} {Type:4 Name:cpu}",
			"GROUP_DESC":    "{Name:{anon_group} Leader:0 Members:2}",
			"AUXTRACE":      "{Offset:4096 Size:560} {Offset:4656 Size:256}",
			"CACHE":         "{Level:2 LineSize:64 Sets:1024 Ways:16 Type:Unified Size:1024K CPUs:0-1}",
			"MEM_TOPOLOGY":  "{BlockSize:134217728 Nodes:[{Node:0 Blocks:[9223372036854775809 5]} {Node:1 Blocks:[7]}]}",
			"CPU_PMU_CAPS":  "{Name:branches Value:32} {Name:pmu_name Value:skylake}", "HYBRID_TOPOLOGY": "{PMU:cpu_core CPUs:0-1}",
			"PMU_CAPS":        "{PMU:cpu_atom Caps:[{Name:slots Value:4}]} {PMU:cpu_core Caps:[]}",
			"CPU_DOMAIN_INFO": "{SchedstatVersion:17 MaxDomains:2 CPUs:[{CPU:0 Domains:[{Domain:0 Name:SMT Mask:3 CPUs:0-1}]} {CPU:1 Domains:[]}]}",
			"E_MACHINE":       "62 5", "CLN_SIZE": "64", "EVENT_DESC": "2",
		}
		write := func(w *Writer) {
			w.FinishedRound()
			for f, b := range sections {
				w.WriteFeature(f, b)
			}
		}
		r := open(t, build(t, e, testEvents(), write))
		if diff := cmp.Diff(want, values(r)); diff != "" {
			t.Errorf("features (-want +got):\n%s", diff)
		}
		ids, err := collect(r.BuildIDs())
		wantIDs := []BuildID{
			{Misc: MiscKernel | MiscBuildIDSize, PID: -1, BuildID: []byte{1, 2}, Filename: []byte("[kernel.kallsyms]")},
			{Misc: MiscUser, PID: -1, BuildID: append([]byte{1, 2}, make([]byte, 18)...), Filename: []byte("[kernel.kallsyms]")},
		}
		if diff := cmp.Diff(wantIDs, ids); diff != "" || err != nil {
			t.Errorf("build ids (-want +got), %v:\n%s", err, diff)
		}

		// The same as records of a pipe.
		pipe := pipeForm(e, testEvents(), nil)
		for f, b := range sections {
			pipe = append(pipe, rawRecord(e, RecordHeaderFeature, 0, append(e.pack(uint64(f)), b...))...)
		}
		delete(want, "EVENT_DESC")
		got := values(open(t, pipe))
		delete(got, "HOSTNAME") // pipeForm's own
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("features of a pipe (-want +got):\n%s", diff)
		}

		// Every section cut everywhere: an error, unless what is missing was
		// not always there. TestEmptyFeatures has one of 0 bytes.
		whole := sections
		for f, b := range whole {
			for n := 1; n < len(b); n++ {
				sections = map[Feature][]byte{FeatureNRCPUs: whole[FeatureNRCPUs], f: b[:n]}
				got := values(open(t, build(t, e, testEvents(), write)))[f.String()]
				if strings.HasPrefix(got, "error: ") && !strings.Contains(got, "untyped") {
					continue
				}
				old := f == FeatureCPUTopology && (n == 212 || n == 228) || f == FeatureCPUDomainInfo && (n == 8 || n == 224) || f == FeatureBuildID && n == len(b)/2 || f == FeatureAuxtrace && n%16 == 0
				if !old {
					t.Errorf("%v of %d bytes: %s", f, n, got)
				}
			}
		}
	})
}

func TestFeatures(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		cmdline := e.appendU32s(nil, 3)
		for _, arg := range []string{"/usr/bin/perf", "record", strings.Repeat("x", 64)} {
			cmdline = e.appendString(cmdline, arg)
		}
		sections := map[Feature][]byte{
			FeatureTracingData: []byte("\x17\x08\x44tracing"),
			FeatureHostname:    e.appendString(nil, "box"),
			FeatureOSRelease:   e.appendString(nil, "6.1.0-44-amd64"),
			FeatureVersion:     e.appendString(nil, "6.1.158"),
			FeatureArch:        e.appendString(nil, "x86_64"),
			FeatureNRCPUs:      e.appendU32s(nil, 4, 2),
			FeatureCmdline:     cmdline,
			FeatureSampleTime:  e.appendU64s(nil, []uint64{5, 1 << 63}),
			FeatureClockID:     e.appendU64s(nil, []uint64{1}),
			FeatureDirFormat:   e.appendU64s(nil, []uint64{1}),
			FeatureCompressed:  e.appendU32s(nil, 1, CompressedZstd, 3, 6, 528384),
			FeatureClockData:   e.appendU64s(e.appendU32s(nil, 1, 7), []uint64{1795202015271507000, 5755222015}),
		}
		write := func(w *Writer) {
			w.FinishedRound()
			for f, b := range sections {
				w.WriteFeature(f, b)
			}
		}
		r := open(t, build(t, e, testEvents(), write))
		if err := r.CleanEnd(); err != nil {
			t.Error(err)
		}
		want := map[string]string{
			"TRACING_DATA": "\x17\x08\x44tracing", "HOSTNAME": "box", "OSRELEASE": "6.1.0-44-amd64", "VERSION": "6.1.158", "ARCH": "x86_64",
			"NRCPUS": "4 2", "CMDLINE": "/usr/bin/perf|record|" + strings.Repeat("x", 64), "SAMPLE_TIME": "5 9223372036854775808",
			"CLOCKID": "1", "DIR_FORMAT": "1", "COMPRESSED": "{Version:1 Type:1 Level:3 Ratio:6 MmapLen:528384}",
			"CLOCK_DATA": "{ClockID:7 WallNS:1795202015271507000 ClockNS:5755222015}", "EVENT_DESC": "2",
		}
		if diff := cmp.Diff(want, values(r)); diff != "" {
			t.Errorf("features (-want +got):\n%s", diff)
		}

		// Every section one byte shorter, and then empty.
		for _, cut := range []int{1, 1 << 20} {
			for f, b := range sections {
				sections[f] = b[:len(b)-min(cut, len(b))]
			}
			for name, v := range values(open(t, build(t, e, testEvents(), write))) {
				if name != "TRACING_DATA" && name != "EVENT_DESC" && !strings.Contains(v, "are too few") {
					t.Errorf("%s cut by %d: %s", name, cut, v)
				}
			}
		}
		if got := values(open(t, build(t, e, nil, nil))); len(got) > 0 {
			t.Errorf("a recording without features has %v", got)
		}
	})
}

func TestMalformedFeatures(t *testing.T) {
	e := little
	tests := []struct {
		f    Feature
		b    []byte
		want string
	}{
		{FeatureHostname, e.appendU32s(nil, 0xffffffff), "4 bytes are too few"},
		{FeatureCmdline, append(e.appendU32s(nil, 0xffffffff), e.appendString(nil, "perf")...), "72 bytes are too few"},
		{FeatureClockData, e.appendU64s(e.appendU32s(nil, 2, 7), []uint64{1, 2}), "version 2"},
		{FeatureEventDesc, e.appendU32s(nil, 1, 63), "attrs of 63 bytes"},
		{FeatureEventDesc, e.appendU32s(nil, 1, 0xffffffff), "8 bytes are too few"},
		{FeatureEventDesc, append(e.appendU32s(nil, 0xffffffff, 64), make([]byte, 64)...), "72 bytes are too few"},
		{FeatureEventDesc, append(append(e.appendU32s(nil, 1, 64), make([]byte, 64)...), e.appendU32s(nil, 0xffffffff, 0)...), "80 bytes are too few"},
	}
	tests = append(tests, []struct {
		f    Feature
		b    []byte
		want string
	}{
		{FeatureCache, e.appendU32s(nil, 2, 0), "version 2"},
		{FeatureMemTopology, e.appendU64s(nil, []uint64{2, 0, 0}), "version 2"},
		{FeatureMemTopology, e.appendU64s(nil, []uint64{1, 0, 1, 0, 1 << 60, ^uint64(0)}), "48 bytes are too few"},
		{FeatureAuxtrace, e.appendU64s(nil, []uint64{^uint64(0), 1, 2}), "24 bytes are too few"},
		{FeaturePMUCaps, e.appendU32s(nil, 0xffffffff, 0xffffffff), "8 bytes are too few"},
		{FeatureCPUDomainInfo, e.appendU32s(nil, 15, 1, 0, 0xffffffff), "16 bytes are too few"},
		{FeatureBuildID, rawRecord(e, RecordHeaderBuildID, 0, make([]byte, 20)), "an entry of 28 bytes, of which only 28 are there"},
	}...)
	for _, tt := range tests {
		r := open(t, build(t, e, testEvents(), func(w *Writer) { w.WriteFeature(tt.f, tt.b) }))
		if got := values(r)[tt.f.String()]; got != "error: "+tt.want {
			t.Errorf("%v %x: got %q, want an error %q", tt.f, tt.b, got, tt.want)
		}
	}
}

// TestEmptyFeatures has sections of 0 bytes, as perf 6.17 writes BPF_PROG_INFO and
// BPF_BTF where it was built without libbpf: they say nothing, and nothing is
// wrong with them.
func TestEmptyFeatures(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		events := []*Event{{Attr: testEvents()[0].Attr, IDs: []uint64{11}}} // a name would need EVENT_DESC
		r := open(t, build(t, e, events, func(w *Writer) {
			w.FinishedRound()
			for f := FeatureTracingData; f <= FeatureCLNSize; f++ {
				w.WriteFeature(f, nil)
			}
		}))
		if len(r.Warnings()) > 0 || r.CleanEnd() != nil {
			t.Errorf("warnings %v, CleanEnd %v", r.Warnings(), r.CleanEnd())
		}
		if got := len(r.Features()); got != int(FeatureCLNSize) {
			t.Errorf("%d features", got)
		}
		want := map[string]string{"TRACING_DATA": "", "BUILD_ID": "0"}
		if diff := cmp.Diff(want, values(r)); diff != "" {
			t.Errorf("features (-want +got):\n%s", diff)
		}
		if progs, err := collect(r.BPFProgs()); len(progs) > 0 || err != nil {
			t.Errorf("%d programs, %v", len(progs), err)
		}
		if btfs, err := collect(r.BPFBTFs()); len(btfs) > 0 || err != nil {
			t.Errorf("%d BTFs, %v", len(btfs), err)
		}
		if _, err := r.Hostname(); !errors.Is(err, ErrNoFeature) {
			t.Errorf("Hostname: %v", err)
		}
	})
}

// TestInjectedFeatures has what perf inject leaves among the records of a file that it writes from a
// pipe. The file's own features rank above.
func TestInjectedFeatures(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		record := func(typ RecordType, head, payload []byte) []byte {
			b := e.appendU64s(nil, []uint64{0})
			e.put32(b, uint32(typ))
			e.put16(b[6:], uint16(headerSize+len(head)))
			return append(append(b, head...), payload...)
		}
		feature := func(f Feature, data []byte) []byte {
			return record(RecordHeaderFeature, append(e.appendU64s(nil, []uint64{uint64(f)}), data...), nil)
		}
		text := func(s string) []byte { return append(e.appendU32s(nil, uint32(len(s)+1)), s+"\x00"...) }
		events := []*Event{{Attr: testEvents()[0].Attr, IDs: []uint64{11}}}
		data := build(t, e, events, func(w *Writer) {
			w.WriteRecord(feature(FeatureNRCPUs, e.appendU32s(nil, 2, 4)))
			w.WriteRecord(feature(FeatureHostname, text("pipe")))
			w.WriteRecord(feature(FeatureArch, text("x86_64")))
			w.WriteRecord(feature(featureBits+3, text("none")))
			w.WriteRecord(record(RecordHeaderTracingData, e.appendU32s(nil, 5), []byte("trace\x00\x00\x00")))
			w.WriteRecord(record(RecordEventUpdate, append(e.appendU64s(nil, []uint64{eventUpdateName, 11}), "module:free\x00\x00\x00\x00\x00"...), nil))
			w.FinishedRound()
			w.Comm(0, &Comm{Comm: []byte("sh"), SampleID: SampleID{Event: events[0]}})
			w.WriteRecord(feature(FeatureCPUDesc, text("behind")))
			w.WriteFeature(FeatureHostname, text("own"))
		})
		r := open(t, data)
		if len(r.Warnings()) > 0 {
			t.Errorf("warnings %v", r.Warnings())
		}
		want := map[string]string{"NRCPUS": "2 4", "HOSTNAME": "own", "ARCH": "x86_64", "TRACING_DATA": "trace"}
		got := map[string]string{}
		for _, f := range r.Features() {
			got[f.String()] = ""
		}
		maps.Copy(got, values(r))
		delete(got, "BUILD_ID")
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("features (-want +got):\n%s", diff)
		}
		if name := r.Events()[0].Name; name != "module:free" {
			t.Errorf("the event is called %q", name)
		}
	})
}

func TestFeatureString(t *testing.T) {
	for f, want := range map[Feature]string{FeatureTracingData: "TRACING_DATA", FeatureCLNSize: "CLN_SIZE", 0: "0", 35: "35", 129: "129", -1: "-1"} {
		if got := f.String(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// TestEmptyFeaturesElsewhere has entries {0, 0} in the table of sections. perf reads the others all the
// same. A table of zeros is not what perf leaves.
func TestEmptyFeaturesElsewhere(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		data := build(t, e, testEvents(), func(w *Writer) {
			w.FinishedRound()
			w.WriteFeature(FeatureHostname, e.appendString(nil, "host"))
			w.WriteFeature(FeatureOSRelease, nil)
			w.WriteFeature(FeatureArch, e.appendString(nil, "x86_64"))
		})
		table := int(e.u64(data[hdrData:]) + e.u64(data[hdrData+8:]))
		zero := func(entry int) { clear(data[table+entry*sectionEntry:][:sectionEntry]) }
		for i, f := range open(t, data).Features() {
			if f == FeatureOSRelease {
				zero(i)
			}
		}
		r := open(t, data)
		if len(r.Warnings()) > 0 || r.CleanEnd() != nil {
			t.Errorf("warnings %v, CleanEnd %v", r.Warnings(), r.CleanEnd())
		}
		if arch, err := r.Arch(); arch != "x86_64" || err != nil {
			t.Errorf("Arch: %q, %v", arch, err)
		}
		if _, err := r.OSRelease(); !errors.Is(err, ErrNoFeature) {
			t.Errorf("OSRelease: %v", err)
		}
		for i := range r.Features() {
			zero(i)
		}
		if r := open(t, data); r.CleanEnd() == nil {
			t.Error("a table of zeros is a clean end")
		}
	})
}
