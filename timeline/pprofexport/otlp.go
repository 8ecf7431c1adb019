// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"bufio"
	"encoding/binary"
	"io"
	"maps"
	"slices"

	"github.com/google/pprof/profile"
)

// The fields of the messages of OpenTelemetry's profiles, as of version 1.11 of the protocol
// (opentelemetry/proto/profiles/v1development/profiles.proto of
// https://github.com/open-telemetry/opentelemetry-proto). They are written by hand, since the
// generated code would make the program larger and its start slower.
const (
	otlpResourceProfiles = 1 // of ProfilesData
	otlpDictionary       = 2

	otlpScopeProfiles = 2 // of ResourceProfiles

	otlpScope     = 1 // of ScopeProfiles
	otlpProfiles  = 2
	otlpScopeName = 1 // of InstrumentationScope

	otlpMappingTable   = 1 // of ProfilesDictionary
	otlpLocationTable  = 2
	otlpFunctionTable  = 3
	otlpLinkTable      = 4
	otlpStringTable    = 5
	otlpAttributeTable = 6
	otlpStackTable     = 7

	otlpSampleType        = 1 // of Profile
	otlpSamples           = 2
	otlpTime              = 3 // fixed64
	otlpDuration          = 4
	otlpPeriodType        = 5
	otlpPeriod            = 6
	otlpProfileAttributes = 11

	otlpType = 1 // of ValueType
	otlpUnit = 2

	otlpSampleStack      = 1 // of Sample
	otlpSampleAttributes = 2
	otlpSampleValues     = 4

	otlpMappingStart      = 1 // of Mapping
	otlpMappingLimit      = 2
	otlpMappingOffset     = 3
	otlpMappingFile       = 4
	otlpMappingAttributes = 5

	otlpStackLocations = 1 // of Stack

	otlpLocationMapping    = 1 // of Location
	otlpLocationAddress    = 2
	otlpLocationLines      = 3
	otlpLocationAttributes = 4
	otlpLineFunction       = 1 // of Line
	otlpLineLine           = 2

	otlpFunctionName       = 1 // of Function
	otlpFunctionSystemName = 2
	otlpFunctionFile       = 3

	otlpTrace = 1 // of Link
	otlpSpan  = 2

	otlpKey        = 1 // of KeyValueAndUnit
	otlpValue      = 2
	otlpString     = 1 // of AnyValue
	otlpInt        = 3
	otlpArray      = 5
	otlpArrayValue = 1 // of ArrayValue
)

// otlpKeys are the names that OpenTelemetry's conventions have for the labels of samples.
var otlpKeys = map[string]string{
	"cpu": "cpu.logical_number", "pid": "process.pid", "tid": "thread.id", "comm": "thread.name", "host": "host.name",
}

// WriteOTLP writes a profile that [Write] has written as one of OpenTelemetry:
// a ProfilesData message, not compressed. It has a Profile for each kind of value, since
// OpenTelemetry's have one. Samples without such a value are not in it. The profile is kept in
// memory.
//
// Labels are attributes of samples: cpu.logical_number, process.pid, thread.id, thread.name and
// host.name. Build IDs are the attribute process.executable.build_id.gnu of mappings, and
// comments are pprof.profile.comment of profiles. A location is profile.frame.type kernel, or
// native for programs.
func WriteOTLP(w io.Writer, pprof io.Reader) error {
	p, err := profile.Parse(pprof)
	if err != nil {
		return err
	}
	return writeOTLP(w, p, p.TimeNanos, p.DurationNanos)
}

// writeOTLP writes p with this time and duration.
func writeOTLP(w io.Writer, p *profile.Profile, time, duration int64) error {
	o := &otlp{
		strings: newStringTable(), attributes: newStringTable(), stacks: newStringTable(),
		mappings: newStringTable(), locations: newStringTable(), functions: newStringTable(),
		mappingIDs: make(map[*profile.Mapping]uint64), locationIDs: make(map[*profile.Location]uint64),
		functionIDs: make(map[*profile.Function]uint64),
	}
	scope := message(nil).bytes(otlpScope, message(nil).bytes(otlpScopeName, []byte("textreplay")))
	for i := range p.SampleType {
		scope = scope.bytes(otlpProfiles, o.profile(p, i, time, duration))
	}
	out := message(nil).bytes(otlpResourceProfiles, message(nil).bytes(otlpScopeProfiles, scope))
	buffered := bufio.NewWriter(w)
	buffered.Write(out.bytes(otlpDictionary, o.dictionary()))
	return buffered.Flush()
}

// otlp is a dictionary that is being made. Its tables have what samples refer to, each once: two
// lives of a BPF program, which differ in nothing that OpenTelemetry has, are one function.
type otlp struct {
	strings *stringTable
	// Of encoded messages:
	attributes, stacks, mappings, locations, functions *stringTable

	mappingIDs  map[*profile.Mapping]uint64
	locationIDs map[*profile.Location]uint64
	functionIDs map[*profile.Function]uint64
}

// text returns the number of a string.
func (o *otlp) text(s string) uint64 { return o.strings.id(string(text(s))) }

func (o *otlp) valueType(t *profile.ValueType) message {
	return message(nil).number(otlpType, o.text(t.Type)).number(otlpUnit, o.text(t.Unit))
}

// attribute returns the number of an attribute, whose value is a message AnyValue.
func (o *otlp) attribute(key string, value message) uint64 {
	return o.attributes.id(string(message(nil).number(otlpKey, o.text(key)).bytes(otlpValue, value)))
}

func stringValue(s string) message { return message(nil).bytes(otlpString, text(s)) }

func intValue(n int64) message { // 0 must be there too
	return binary.AppendUvarint(message{otlpInt << 3}, uint64(n))
}

// packed appends a field of numbers.
func (m message) packed(field int, numbers []uint64) message {
	if len(numbers) == 0 {
		return m
	}
	var b []byte
	for _, n := range numbers {
		b = binary.AppendUvarint(b, n)
	}
	return m.bytes(field, b)
}

// profile returns the Profile of one kind of value.
func (o *otlp) profile(p *profile.Profile, kind int, time, duration int64) message {
	m := message(nil).bytes(otlpSampleType, o.valueType(p.SampleType[kind]))
	samples := newStringTable() // stack and attributes, which have one sample
	var values []int64          // of sample i+1
	var locations []uint64
	for _, s := range p.Sample {
		if s.Value[kind] == 0 {
			continue
		}
		locations = locations[:0]
		for _, l := range s.Location {
			locations = append(locations, o.location(l))
		}
		stack := o.stacks.id(string(message(nil).packed(otlpStackLocations, locations)))
		i := samples.id(string(message{0}.number(otlpSampleStack, stack).packed(otlpSampleAttributes, o.labels(s))))
		if int(i) > len(values) {
			values = append(values, 0)
		}
		values[i-1] += s.Value[kind]
	}
	for i, v := range values {
		m = m.bytes(otlpSamples, message(samples.list[i+1][1:]).packed(otlpSampleValues, []uint64{uint64(v)}))
	}
	if time != 0 {
		m = binary.LittleEndian.AppendUint64(append(m, otlpTime<<3|1), uint64(time))
	}
	m = m.number(otlpDuration, uint64(duration))
	if p.PeriodType != nil {
		m = m.bytes(otlpPeriodType, o.valueType(p.PeriodType))
	}
	m = m.number(otlpPeriod, uint64(p.Period))
	if len(p.Comments) > 0 {
		var list message
		for _, c := range p.Comments {
			list = list.bytes(otlpArrayValue, stringValue(c))
		}
		m = m.packed(otlpProfileAttributes, []uint64{o.attribute("pprof.profile.comment", message(nil).bytes(otlpArray, list))})
	}
	return m
}

// labels returns the attributes of a sample.
func (o *otlp) labels(s *profile.Sample) (out []uint64) {
	key := func(label string) string {
		if k := otlpKeys[label]; k != "" {
			return k
		}
		return label
	}
	for _, label := range slices.Sorted(maps.Keys(s.Label)) {
		for _, v := range s.Label[label] {
			out = append(out, o.attribute(key(label), stringValue(v)))
		}
	}
	for _, label := range slices.Sorted(maps.Keys(s.NumLabel)) {
		for _, v := range s.NumLabel[label] {
			out = append(out, o.attribute(key(label), intValue(v)))
		}
	}
	return out
}

// isKernel reports whether a location is of a kernel. Only locations of kernels have functions. An
// address says so by itself only where kernels have the upper half: not on s390x.
func isKernel(l *profile.Location) bool {
	m := l.Mapping
	return len(l.Line) > 0 || l.Address>>63 != 0 || m != nil && (m.HasFunctions || m.File == kernelFile || m.File == guestKernelFile)
}

// mapping returns the number of a mapping, 0 for nil.
func (o *otlp) mapping(x *profile.Mapping) uint64 {
	if x == nil {
		return 0
	}
	id, ok := o.mappingIDs[x]
	if !ok {
		entry := message(nil).number(otlpMappingStart, x.Start).number(otlpMappingLimit, x.Limit).
			number(otlpMappingOffset, x.Offset).number(otlpMappingFile, o.text(x.File))
		if x.BuildID != "" {
			entry = entry.packed(otlpMappingAttributes, []uint64{o.attribute("process.executable.build_id.gnu", stringValue(x.BuildID))})
		}
		id = o.mappings.id(string(entry))
		o.mappingIDs[x] = id
	}
	return id
}

// location returns the number of a location.
func (o *otlp) location(l *profile.Location) uint64 {
	id, ok := o.locationIDs[l]
	if !ok {
		entry := message(nil).number(otlpLocationMapping, o.mapping(l.Mapping)).number(otlpLocationAddress, l.Address)
		for _, x := range l.Line {
			entry = entry.bytes(otlpLocationLines, message(nil).number(otlpLineFunction, o.function(x.Function)).number(otlpLineLine, uint64(x.Line)))
		}
		frame := "native"
		if isKernel(l) {
			frame = "kernel"
		}
		id = o.locations.id(string(entry.packed(otlpLocationAttributes, []uint64{o.attribute("profile.frame.type", stringValue(frame))})))
		o.locationIDs[l] = id
	}
	return id
}

// function returns the number of a function, 0 for nil.
func (o *otlp) function(f *profile.Function) uint64 {
	if f == nil {
		return 0
	}
	id, ok := o.functionIDs[f]
	if !ok {
		id = o.functions.id(string(message(nil).number(otlpFunctionName, o.text(f.Name)).
			number(otlpFunctionSystemName, o.text(f.SystemName)).number(otlpFunctionFile, o.text(f.Filename))))
		o.functionIDs[f] = id
	}
	return id
}

// dictionary returns the tables. The first entry of each is its zero value. The ids of the first
// link have their length, as codecs expect.
func (o *otlp) dictionary() message {
	m := message(nil)
	table := func(field int, t *stringTable) {
		for _, x := range t.list {
			m = m.bytes(field, []byte(x))
		}
	}
	table(otlpMappingTable, o.mappings)
	table(otlpLocationTable, o.locations)
	table(otlpFunctionTable, o.functions)
	m = m.bytes(otlpLinkTable, message(nil).bytes(otlpTrace, make([]byte, 16)).bytes(otlpSpan, make([]byte, 8)))
	table(otlpStackTable, o.stacks)
	table(otlpAttributeTable, o.attributes)
	table(otlpStringTable, o.strings)
	return m
}
