// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"encoding/binary"
	"strings"
)

// The fields of the messages of profile.proto
// (https://github.com/google/pprof/blob/main/proto/profile.proto).
const (
	profileSampleType    = 1
	profileSample        = 2
	profileMapping       = 3
	profileLocation      = 4
	profileFunction      = 5
	profileString        = 6
	profileTimeNanos     = 9
	profileDurationNanos = 10
	profilePeriodType    = 11
	profilePeriod        = 12
	profileComment       = 13
	profileDefaultType   = 14

	valueTypeType = 1
	valueTypeUnit = 2

	sampleLocation = 1
	sampleValue    = 2
	sampleLabel    = 3

	labelKey  = 1
	labelStr  = 2
	labelNum  = 3
	labelUnit = 4

	mappingID           = 1
	mappingStart        = 2
	mappingLimit        = 3
	mappingOffset       = 4
	mappingFile         = 5
	mappingBuildID      = 6
	mappingHasFunctions = 7

	locationID      = 1
	locationMapping = 2
	locationAddress = 3
	locationLine    = 4
	lineFunction    = 1
	lineLine        = 2

	functionID         = 1
	functionName       = 2
	functionSystemName = 3
	functionFile       = 4
)

// A message is the bytes of a protocol buffer message. A profile may be far
// larger than the memory that it is to be made in, so it is written message by
// message, and not as a profile.Profile.
type message []byte

// number appends a field of a number; 0 is what a missing field means.
func (m message) number(field int, v uint64) message {
	if v == 0 {
		return m
	}
	return binary.AppendUvarint(binary.AppendUvarint(m, uint64(field)<<3), v)
}

// bytes appends a field of bytes: a string, a message, or packed numbers.
func (m message) bytes(field int, b []byte) message {
	m = binary.AppendUvarint(m, uint64(field)<<3|2)
	m = binary.AppendUvarint(m, uint64(len(b)))
	return append(m, b...)
}

// text is the bytes of a string field, which must be UTF-8: others refuse the whole message otherwise.
// Names of threads, machines, symbols and files may be any bytes, and the kernel cuts long names of
// threads in the middle of a letter.
func text(s string) []byte { return []byte(strings.ToValidUTF8(s, "\uFFFD")) }

// A stringTable numbers strings; 0 is the empty one.
type stringTable struct {
	list []string
	ids  map[string]uint64
}

func newStringTable() *stringTable {
	return &stringTable{list: []string{""}, ids: map[string]uint64{"": 0}}
}

func (t *stringTable) id(s string) uint64 {
	id, ok := t.ids[s]
	if !ok {
		id = uint64(len(t.list))
		t.list = append(t.list, s)
		t.ids[s] = id
	}
	return id
}
