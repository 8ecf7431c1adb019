// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/pprof/profile"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	otlppb "go.opentelemetry.io/proto/otlp/profiles/v1development"
	"google.golang.org/protobuf/proto"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/timeline/replay"
)

// TestOTLP: OpenTelemetry's own package reads the same samples, stacks, names and labels as
// pprof's does, of one recording and of two machines.
func TestOTLP(t *testing.T) {
	one := func(host string) *bytes.Buffer {
		t.Helper()
		r, err := replay.Load(filepath.Join(corpus.Root(), "testdata/callgraph/rec.data"), replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		var b bytes.Buffer
		if _, err := Write(&b, r, Options{Labels: LabelCPU | LabelPID | LabelTID | LabelComm}); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	var m Merger
	for _, host := range []string{"a", "b"} {
		if err := m.Add(one(host), host); err != nil {
			t.Fatal(err)
		}
	}
	var both bytes.Buffer
	if err := m.Write(&both); err != nil {
		t.Fatal(err)
	}
	for name, pprof := range map[string][]byte{"one": one("").Bytes(), "merged": both.Bytes()} {
		t.Run(name, func(t *testing.T) {
			p, err := profile.Parse(bytes.NewReader(pprof))
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := WriteOTLP(&out, bytes.NewReader(pprof)); err != nil {
				t.Fatal(err)
			}
			var data otlppb.ProfilesData
			if err := proto.Unmarshal(out.Bytes(), &data); err != nil {
				t.Fatal(err)
			}
			if n := len(data.ProtoReflect().GetUnknown()); n > 0 {
				t.Errorf("%d bytes of unknown fields", n)
			}
			profiles := data.ResourceProfiles[0].ScopeProfiles[0].Profiles
			if len(profiles) != len(p.SampleType) {
				t.Fatalf("%d profiles of %d kinds of values", len(profiles), len(p.SampleType))
			}
			for kind, x := range profiles {
				checkOTLP(t, data.Dictionary, x, p, kind)
			}
			checkDictionary(t, &data)
		})
	}
}

// TestOTLPFrames: frames of a kernel are so whatever its addresses are: kernels of s390x have low
// ones.
func TestOTLPFrames(t *testing.T) {
	kernel := &profile.Mapping{ID: 1, Start: 0x3ffe0000000, Limit: 0x3ffe1000000, File: kernelFile}
	program := &profile.Mapping{ID: 2, Start: 0x2aa00000000, Limit: 0x2aa00001000, File: "/bin/sh"}
	guest := &profile.Mapping{ID: 3, Limit: 1 << 63, File: guestKernelFile}
	module := &profile.Mapping{ID: 4, Start: 0x3ff80000000, Limit: 0x3ff80001000, File: "[xfs]", HasFunctions: true}
	f := &profile.Function{ID: 1, Name: "ksys_read"}
	p := &profile.Profile{SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}}, Mapping: []*profile.Mapping{kernel, program, guest, module}, Function: []*profile.Function{f}}
	want := []string{"", "kernel", "kernel", "native", "kernel", "kernel", "native", "kernel"}
	for i, l := range []*profile.Location{
		{Mapping: kernel, Address: 0x3ffe0000100, Line: []profile.Line{{Function: f}}}, {Mapping: kernel, Address: 0x3ffe0000200}, {Mapping: program, Address: 0x2aa00000300},
		{Mapping: guest, Address: 0x100400}, {Mapping: module, Address: 0x3ff80000500}, {Address: 0x600}, {Address: 1<<63 + 0x700},
	} {
		l.ID = uint64(i + 1)
		p.Location = append(p.Location, l)
		p.Sample = append(p.Sample, &profile.Sample{Value: []int64{1}, Location: []*profile.Location{l}})
	}
	var in, out bytes.Buffer
	if err := p.Write(&in); err != nil {
		t.Fatal(err)
	}
	if err := WriteOTLP(&out, &in); err != nil {
		t.Fatal(err)
	}
	var data otlppb.ProfilesData
	if err := proto.Unmarshal(out.Bytes(), &data); err != nil {
		t.Fatal(err)
	}
	for i, l := range data.Dictionary.LocationTable[1:] {
		if got := data.Dictionary.AttributeTable[l.AttributeIndices[0]].Value.GetStringValue(); got != want[i+1] {
			t.Errorf("the frame at %#x is %s, want %s", l.Address, got, want[i+1])
		}
	}
}

// checkDictionary checks that each entry is there once and used, and that a profile has one sample of
// each stack and set of attributes.
func checkDictionary(t *testing.T, data *otlppb.ProfilesData) {
	t.Helper()
	used := make(map[string]bool)
	use := func(table string, indices ...int32) {
		for _, i := range indices {
			used[fmt.Sprint(table, i)] = true
		}
	}
	d := data.Dictionary
	value := func(v *otlppb.ValueType) { use("string", v.TypeStrindex, v.UnitStrindex) }
	for _, x := range data.ResourceProfiles[0].ScopeProfiles[0].Profiles {
		value(x.SampleType)
		value(x.PeriodType)
		use("attribute", x.AttributeIndices...)
		met := make(map[string]bool)
		for _, s := range x.Samples {
			use("stack", s.StackIndex)
			use("attribute", s.AttributeIndices...)
			key := fmt.Sprint(s.StackIndex, slices.Sorted(slices.Values(s.AttributeIndices)))
			if met[key] {
				t.Errorf("two samples of %s", key)
			}
			met[key] = true
		}
	}
	for _, x := range d.StackTable {
		use("location", x.LocationIndices...)
	}
	for _, x := range d.LocationTable {
		use("mapping", x.MappingIndex)
		use("attribute", x.AttributeIndices...)
		for _, l := range x.Lines {
			use("function", l.FunctionIndex)
		}
	}
	for _, x := range d.MappingTable {
		use("string", x.FilenameStrindex)
		use("attribute", x.AttributeIndices...)
	}
	for _, x := range d.FunctionTable {
		use("string", x.NameStrindex, x.SystemNameStrindex, x.FilenameStrindex)
	}
	for _, x := range d.AttributeTable {
		use("string", x.KeyStrindex)
	}
	check := func(table string, n int, entry func(int) string) {
		met := make(map[string]bool)
		for i := range n {
			if x := entry(i); met[x] {
				t.Errorf("the %s %d is there twice: %q", table, i, x)
			} else {
				met[x] = true
			}
			if i > 0 && !used[fmt.Sprint(table, i)] {
				t.Errorf("the %s %d is not used: %q", table, i, entry(i))
			}
		}
	}
	check("stack", len(d.StackTable), func(i int) string { return d.StackTable[i].String() })
	check("location", len(d.LocationTable), func(i int) string { return d.LocationTable[i].String() })
	check("mapping", len(d.MappingTable), func(i int) string { return d.MappingTable[i].String() })
	check("function", len(d.FunctionTable), func(i int) string { return d.FunctionTable[i].String() })
	check("attribute", len(d.AttributeTable), func(i int) string { return d.AttributeTable[i].String() })
	check("string", len(d.StringTable), func(i int) string { return d.StringTable[i] })
}

// TestOTLPTime: a profile of several recordings is from the begin of the first to the end of the last
// one, however many were recorded at the same time, if all of them say when they were.
func TestOTLPTime(t *testing.T) {
	for _, tt := range []struct {
		times          [][2]int64
		time, duration uint64
	}{
		{[][2]int64{{1000, 50}, {1010, 50}}, 1000, 60},
		{[][2]int64{{1010, 50}, {1000, 500}}, 1000, 500},
		{[][2]int64{{1000, 50}, {9000, 50}, {5000, 1}}, 1000, 8050},
		{[][2]int64{{1000, 50}, {0, 50}}, 0, 0},
	} {
		var m Merger
		for _, x := range tt.times {
			p := kernelProfile(0xffffffff81000000, "aa", "cycles", "x")
			p.TimeNanos, p.DurationNanos = x[0], x[1]
			var b bytes.Buffer
			if err := p.Write(&b); err != nil {
				t.Fatal(err)
			}
			if err := m.Add(&b, ""); err != nil {
				t.Fatal(err)
			}
		}
		var out bytes.Buffer
		if err := m.WriteOTLP(&out); err != nil {
			t.Fatal(err)
		}
		var data otlppb.ProfilesData
		if err := proto.Unmarshal(out.Bytes(), &data); err != nil {
			t.Fatal(err)
		}
		for _, x := range data.ResourceProfiles[0].ScopeProfiles[0].Profiles {
			if x.TimeUnixNano != tt.time || x.DurationNano != tt.duration {
				t.Errorf("%v: time %d, duration %d, want %d, %d", tt.times, x.TimeUnixNano, x.DurationNano, tt.time, tt.duration)
			}
		}
	}
	if err := new(Merger).WriteOTLP(io.Discard); !errors.Is(err, ErrNoSamples) {
		t.Error(err)
	}
}

// TestOTLPTwoLives: what differs in nothing that OpenTelemetry has is one entry and one sample. Here a
// program is unloaded and loaded again at its address.
func TestOTLPTwoLives(t *testing.T) {
	tp := newTape(t, "cpu-clock")
	tp.bpf(1000, 2000, packed, 64, "bpf_prog_0000000000000001_one")
	tp.bpf(3000, 4000, packed, 64, "bpf_prog_0000000000000001_one")
	for _, time := range []uint64{1500, 3500} {
		tp.sample(taken{time: time, pid: 7, ip: packed + 16, chain: kernelChain(packed+16, entry+8)})
	}
	var b, out bytes.Buffer
	if _, err := Write(&b, tp.load(), Options{Labels: AllLabels}); err != nil {
		t.Fatal(err)
	}
	if err := WriteOTLP(&out, &b); err != nil {
		t.Fatal(err)
	}
	var data otlppb.ProfilesData
	if err := proto.Unmarshal(out.Bytes(), &data); err != nil {
		t.Fatal(err)
	}
	checkDictionary(t, &data)
	for i, x := range data.ResourceProfiles[0].ScopeProfiles[0].Profiles {
		if want := []int64{2, 2000}[i]; len(x.Samples) != 1 || !slices.Equal(x.Samples[0].Values, []int64{want}) {
			t.Errorf("samples %v, want one of %d", x.Samples, want)
		}
	}
}

func checkOTLP(t *testing.T, d *otlppb.ProfilesDictionary, x *otlppb.Profile, p *profile.Profile, kind int) {
	t.Helper()
	text := func(i int32) string { return d.StringTable[i] }
	if d.StringTable[0] != "" || !proto.Equal(d.MappingTable[0], &otlppb.Mapping{}) || !proto.Equal(d.LocationTable[0], &otlppb.Location{}) ||
		!proto.Equal(d.FunctionTable[0], &otlppb.Function{}) || !proto.Equal(d.LinkTable[0], &otlppb.Link{TraceId: make([]byte, 16), SpanId: make([]byte, 8)}) ||
		!proto.Equal(d.StackTable[0], &otlppb.Stack{}) || !proto.Equal(d.AttributeTable[0], &otlppb.KeyValueAndUnit{}) {
		t.Error("an entry number 0 is not empty")
	}
	attributes := func(indices []int32) string {
		out := make(map[string]string)
		for _, i := range indices {
			a := d.AttributeTable[i]
			switch v := a.Value.Value.(type) {
			case *common.AnyValue_StringValue:
				out[text(a.KeyStrindex)] = v.StringValue
			case *common.AnyValue_IntValue:
				out[text(a.KeyStrindex)] = fmt.Sprint(v.IntValue)
			case *common.AnyValue_ArrayValue:
				for _, c := range v.ArrayValue.Values {
					out[text(a.KeyStrindex)] += c.GetStringValue() + "\n"
				}
			default:
				t.Fatalf("an attribute %s without value", text(a.KeyStrindex))
			}
		}
		return fmt.Sprint(out)
	}
	if got, want := text(x.SampleType.TypeStrindex)+" "+text(x.SampleType.UnitStrindex), p.SampleType[kind].Type+" "+p.SampleType[kind].Unit; got != want {
		t.Errorf("the values are %q, want %q", got, want)
	}
	comments := ""
	for _, c := range p.Comments {
		comments += c + "\n"
	}
	if got, want := attributes(x.AttributeIndices), fmt.Sprint(map[string]string{"pprof.profile.comment": comments}); got != want {
		t.Errorf("the profile's attributes are %s, want %s", got, want)
	}
	if x.TimeUnixNano != uint64(p.TimeNanos) || x.DurationNano != uint64(p.DurationNanos) || x.Period != p.Period || text(x.PeriodType.TypeStrindex) != p.PeriodType.Type {
		t.Errorf("time, duration and period are %d, %d, %d, want %d, %d, %d", x.TimeUnixNano, x.DurationNano, x.Period, p.TimeNanos, p.DurationNanos, p.Period)
	}
	got, want := make(map[string]int64), make(map[string]int64)
	for _, s := range x.Samples {
		key := ""
		for _, i := range d.StackTable[s.StackIndex].LocationIndices {
			l := d.LocationTable[i]
			m := d.MappingTable[l.MappingIndex]
			key += fmt.Sprintf("%#x in %s %#x-%#x+%#x %s, %s:", l.Address, text(m.FilenameStrindex), m.MemoryStart, m.MemoryLimit, m.FileOffset, attributes(m.AttributeIndices), attributes(l.AttributeIndices))
			for _, line := range l.Lines {
				f := d.FunctionTable[line.FunctionIndex]
				key += fmt.Sprintf(" %s %s %s:%d", text(f.NameStrindex), text(f.SystemNameStrindex), text(f.FilenameStrindex), line.Line)
			}
			key += "\n"
		}
		if len(s.Values) != 1 {
			t.Fatalf("a sample of %d values", len(s.Values))
		}
		got[key+attributes(s.AttributeIndices)] += s.Values[0]
	}
	for _, s := range p.Sample {
		key := ""
		for _, l := range s.Location {
			m := l.Mapping
			if m == nil {
				m = &profile.Mapping{}
			}
			build, frame := map[string]string{}, "native"
			if m.BuildID != "" {
				build["process.executable.build_id.gnu"] = m.BuildID
			}
			if l.Address >= 1<<63 {
				frame = "kernel"
			}
			key += fmt.Sprintf("%#x in %s %#x-%#x+%#x %v, %v:", l.Address, m.File, m.Start, m.Limit, m.Offset, build, map[string]string{"profile.frame.type": frame})
			for _, line := range l.Line {
				key += fmt.Sprintf(" %s %s %s:%d", line.Function.Name, line.Function.SystemName, line.Function.Filename, line.Line)
			}
			key += "\n"
		}
		labels := make(map[string]string)
		for label, name := range map[string]string{"cpu": "cpu.logical_number", "pid": "process.pid", "tid": "thread.id"} {
			labels[name] = fmt.Sprint(s.NumLabel[label][0])
		}
		for label, name := range map[string]string{"comm": "thread.name", "host": "host.name"} {
			if v := s.Label[label]; v != nil {
				labels[name] = v[0]
			}
		}
		if s.Value[kind] != 0 {
			want[key+fmt.Sprint(labels)] += s.Value[kind]
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("%d different samples, want %d", len(got), len(want))
		for _, k := range slices.Sorted(maps.Keys(want)) {
			if got[k] != want[k] {
				t.Fatalf("%d, want %d, of\n%s", got[k], want[k], k)
			}
		}
	}
}

// TestOTLPText: names that are not UTF-8 make no message that other programs refuse. The kernel cuts
// names of threads at 15 bytes, which may be in the middle of a letter.
func TestOTLPText(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(corpus.Root(), "testdata/callgraph/rec.data"))); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	data = bytes.ReplaceAll(data, []byte("ksoftirqd/0\x00"), []byte("ksoftirqd\xc3\xff\x00"))
	if err := os.WriteFile(filepath.Join(dir, "data"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := replay.Load(dir, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var b, both, out bytes.Buffer
	if _, err := Write(&b, r, Options{Labels: LabelComm}); err != nil {
		t.Fatal(err)
	}
	var m Merger
	if err := m.Add(&b, "host\xfe"); err != nil {
		t.Fatal(err)
	}
	if err := m.Write(&both); err != nil {
		t.Fatal(err)
	}
	p, err := profile.Parse(bytes.NewReader(both.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	comms := make(map[string]bool)
	for _, s := range p.Sample {
		comms[s.Label["comm"][0]] = true
		if host := s.Label["host"][0]; host != "host\uFFFD" {
			t.Fatalf("host %q", host)
		}
	}
	if !comms["ksoftirqd\uFFFD"] {
		t.Errorf("%v", comms)
	}
	if err := WriteOTLP(&out, &both); err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(out.Bytes(), new(otlppb.ProfilesData)); err != nil {
		t.Error(err)
	}
	// Of a profile that another program has written, too.
	odd := kernelProfile(0xffffffff81000000, "aa", "cycles", "bpf_\xff")
	odd.Sample[0].Label = map[string][]string{"comm": {"\xc3"}}
	b.Reset()
	out.Reset()
	if err := odd.Write(&b); err != nil {
		t.Fatal(err)
	}
	if err := WriteOTLP(&out, &b); err != nil {
		t.Fatal(err)
	}
	if err := proto.Unmarshal(out.Bytes(), new(otlppb.ProfilesData)); err != nil {
		t.Error(err)
	}
}
