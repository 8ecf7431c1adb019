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

// WriteOTLP writes a profile that [Write] or [Merger.Write] has written as one of OpenTelemetry:
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
	for i, x := range p.Mapping { // the indices below
		x.ID = uint64(i) + 1
	}
	for i, x := range p.Location {
		x.ID = uint64(i) + 1
	}
	for i, x := range p.Function {
		x.ID = uint64(i) + 1
	}
	o := &otlp{strings: newStringTable(), attributes: newStringTable(), stacks: newStringTable()}
	scope := message(nil).bytes(otlpScope, message(nil).bytes(otlpScopeName, []byte("textreplay")))
	for i := range p.SampleType {
		scope = scope.bytes(otlpProfiles, o.profile(p, i))
	}
	out := message(nil).bytes(otlpResourceProfiles, message(nil).bytes(otlpScopeProfiles, scope))
	buffered := bufio.NewWriter(w)
	buffered.Write(out.bytes(otlpDictionary, o.dictionary(p)))
	return buffered.Flush()
}

// otlp is a dictionary that is being made.
type otlp struct {
	strings            *stringTable
	attributes, stacks *stringTable // of encoded messages
}

func (o *otlp) valueType(t *profile.ValueType) message {
	return message(nil).number(otlpType, o.strings.id(t.Type)).number(otlpUnit, o.strings.id(t.Unit))
}

// attribute returns the number of an attribute, whose value is a message AnyValue.
func (o *otlp) attribute(key string, value message) uint64 {
	return o.attributes.id(string(message(nil).number(otlpKey, o.strings.id(key)).bytes(otlpValue, value)))
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
func (o *otlp) profile(p *profile.Profile, kind int) message {
	m := message(nil).bytes(otlpSampleType, o.valueType(p.SampleType[kind]))
	for _, s := range p.Sample {
		if s.Value[kind] == 0 {
			continue
		}
		locations := make([]uint64, len(s.Location))
		for i, l := range s.Location {
			locations[i] = l.ID
		}
		sample := message(nil).number(otlpSampleStack, o.stacks.id(string(message(nil).packed(otlpStackLocations, locations)))).
			packed(otlpSampleAttributes, o.labels(s)).packed(otlpSampleValues, []uint64{uint64(s.Value[kind])})
		m = m.bytes(otlpSamples, sample)
	}
	if p.TimeNanos != 0 {
		m = binary.LittleEndian.AppendUint64(append(m, otlpTime<<3|1), uint64(p.TimeNanos))
	}
	m = m.number(otlpDuration, uint64(p.DurationNanos))
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

// dictionary returns the tables of everything that samples refer to. The first entry of each
// is empty, so what begins at 1 in profile.proto does so here.
func (o *otlp) dictionary(p *profile.Profile) message {
	m := message(nil).bytes(otlpMappingTable, nil)
	for _, x := range p.Mapping {
		entry := message(nil).number(otlpMappingStart, x.Start).number(otlpMappingLimit, x.Limit).
			number(otlpMappingOffset, x.Offset).number(otlpMappingFile, o.strings.id(x.File))
		if x.BuildID != "" {
			entry = entry.packed(otlpMappingAttributes, []uint64{o.attribute("process.executable.build_id.gnu", stringValue(x.BuildID))})
		}
		m = m.bytes(otlpMappingTable, entry)
	}
	m = m.bytes(otlpLocationTable, nil)
	for _, l := range p.Location {
		var entry message
		if l.Mapping != nil {
			entry = entry.number(otlpLocationMapping, l.Mapping.ID)
		}
		entry = entry.number(otlpLocationAddress, l.Address)
		for _, x := range l.Line {
			entry = entry.bytes(otlpLocationLines, message(nil).number(otlpLineFunction, x.Function.ID).number(otlpLineLine, uint64(x.Line)))
		}
		frame := "native"
		if isKernel(l) {
			frame = "kernel"
		}
		m = m.bytes(otlpLocationTable, entry.packed(otlpLocationAttributes, []uint64{o.attribute("profile.frame.type", stringValue(frame))}))
	}
	m = m.bytes(otlpFunctionTable, nil)
	for _, f := range p.Function {
		m = m.bytes(otlpFunctionTable, message(nil).number(otlpFunctionName, o.strings.id(f.Name)).
			number(otlpFunctionSystemName, o.strings.id(f.SystemName)).number(otlpFunctionFile, o.strings.id(f.Filename)))
	}
	m = m.bytes(otlpLinkTable, nil)
	for _, s := range o.stacks.list {
		m = m.bytes(otlpStackTable, []byte(s))
	}
	for _, a := range o.attributes.list {
		m = m.bytes(otlpAttributeTable, []byte(a))
	}
	for _, s := range o.strings.list {
		m = m.bytes(otlpStringTable, text(s))
	}
	return m
}
