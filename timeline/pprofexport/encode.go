// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

func appendUvarint(b []byte, v uint64) []byte { return binary.AppendUvarint(b, v) }

// write writes the profile, uncompressed. The export cannot be used again.
func (e *export) write(out io.Writer) error {
	w := bufio.NewWriterSize(out, 1<<16)
	strings := newStringTable()
	// Errors of w are kept by w, and returned by Flush.
	field := func(number int, m message) {
		var head [20]byte
		h := binary.AppendUvarint(head[:0], uint64(number)<<3|2)
		w.Write(binary.AppendUvarint(h, uint64(len(m))))
		w.Write(m)
	}
	valueType := func(typ, unit string) message {
		return message(nil).number(valueTypeType, strings.id(typ)).number(valueTypeUnit, strings.id(unit))
	}
	columns := slices.Clone(e.columns)
	if e.opts.Silent {
		for _, c := range e.byEvent {
			if c != nil && !slices.Contains(columns, c) {
				c.index = uint32(len(columns))
				columns = append(columns, c)
			}
		}
	}
	slices.SortFunc(columns, func(a, b *column) int { return cmp.Compare(a.first, b.first) })
	events := make([]string, len(columns))
	for i, c := range columns {
		events[i] = c.stats.Name
	}
	counts := countNames(events)
	for i, c := range columns {
		e.stats.Events = append(e.stats.Events, c.stats)
		field(profileSampleType, valueType(counts[i], "count"))
		field(profileSampleType, valueType(c.stats.Name, c.stats.Unit))
	}
	e.writeSamples(field, strings, columns)
	for _, m := range e.namer.mappings {
		msg := message(nil).number(mappingID, m.id).
			number(mappingStart, m.start).number(mappingLimit, m.limit).number(mappingOffset, m.offset).
			number(mappingFile, strings.id(m.file)).number(mappingBuildID, strings.id(m.buildID))
		if m.named {
			msg = msg.number(mappingHasFunctions, 1)
		}
		field(profileMapping, msg)
	}
	for i, l := range e.namer.locations {
		msg := message(nil).number(locationID, uint64(i)+1).number(locationAddress, l.addr)
		if l.mapping != nil {
			msg = msg.number(locationMapping, l.mapping.id)
		}
		for _, x := range e.namer.inlined[uint64(i)+1] { // the innermost function first
			msg = msg.bytes(locationLine, message(nil).number(lineFunction, x.function).number(lineLine, uint64(x.line)))
		}
		if l.function != 0 {
			msg = msg.bytes(locationLine, message(nil).number(lineFunction, l.function).number(lineLine, uint64(l.line)))
		}
		field(profileLocation, msg)
	}
	for i, f := range e.namer.functions {
		name := strings.id(f.name)
		field(profileFunction, message(nil).number(functionID, uint64(i)+1).
			number(functionName, name).number(functionSystemName, name).number(functionFile, strings.id(f.file)))
	}
	e.stats.Stacks, e.stats.Locations = e.stacks.len(), len(e.namer.locations)
	e.stats.Functions, e.stats.Mappings = len(e.namer.functions), len(e.namer.mappings)

	first := columns[slices.IndexFunc(columns, func(c *column) bool { return c.stats.Samples > 0 })]
	tail := message(nil)
	if from, to := e.extent(); to > from {
		tail = tail.number(profileDurationNanos, to-from)
		if wall, err := e.r.Report.Clock.ToWall(from); err == nil {
			tail = tail.number(profileTimeNanos, uint64(wall.UnixNano()))
		}
	}
	tail = tail.bytes(profilePeriodType, valueType(first.stats.Name, first.stats.Unit)).
		number(profilePeriod, first.period()).
		number(profileDefaultType, strings.id(first.stats.Name))
	if p := e.r.Report.Producer; p != "" {
		tail = tail.number(profileComment, strings.id(p))
	}
	if k := e.r.Report.Kernel; k != "" {
		tail = tail.number(profileComment, strings.id("Linux "+k+" "+e.r.Report.Arch))
	}
	if e.stats.Lost > 0 {
		tail = tail.number(profileComment, strings.id(fmt.Sprintf("%d records were lost when this was recorded; samples may be among them", e.stats.Lost)))
	}
	for _, s := range strings.list {
		field(profileString, text(s))
	}
	w.Write(tail)
	return w.Flush()
}

// writeSamples writes a sample for all rows of one stack and set of labels.
func (e *export) writeSamples(field func(int, message), strings *stringTable, columns []*column) {
	place := make([]int, len(columns)) // of a column's values, by its index
	for i, c := range columns {
		place[c.index] = 2 * i
	}
	labels := make([]message, len(e.labels.list))
	for i := range labels {
		labels[i] = e.labels.list[i].encode(strings)
	}
	values := make([]uint64, 2*len(columns))
	var at row
	var packed, sample message
	flush := func() {
		if at.count == 0 {
			return
		}
		packed = packed[:0]
		for _, v := range values {
			packed = binary.AppendUvarint(packed, v)
		}
		sample = sample[:0].bytes(sampleLocation, e.stacks.get(at.stack)).bytes(sampleValue, packed)
		field(profileSample, append(sample, labels[at.labels]...))
		e.stats.Rows++
		clear(values)
	}
	for r := range e.tally.rows {
		if r.stack != at.stack || r.labels != at.labels {
			flush()
		}
		i := place[r.event]
		values[i], values[i+1] = r.count, r.sum
		at = r
	}
	flush()
}

// encode returns the labels as fields of a sample.
func (l *labelSet) encode(strings *stringTable) message {
	var m message
	number := func(label Labels, key string, v uint32) {
		if l.has&label != 0 {
			// If a number has no unit, pprof uses the key as its unit. But without a
			// unit, pprof drops a label whose number is 0.
			id := strings.id(key)
			m = m.bytes(sampleLabel, message(nil).number(labelKey, id).number(labelNum, uint64(v)).number(labelUnit, id))
		}
	}
	number(LabelCPU, "cpu", l.cpu)
	number(LabelPID, "pid", l.pid)
	number(LabelTID, "tid", l.tid)
	if l.has&LabelComm != 0 {
		m = m.bytes(sampleLabel, message(nil).number(labelKey, strings.id("comm")).number(labelStr, strings.id(l.comm)))
	}
	return m
}

// extent returns the time [from, to) that the profile covers, zeros if there is none.
func (e *export) extent() (from, to uint64) {
	rep := e.r.Report
	from, to = max(rep.First, e.opts.From), min(rep.Last, e.opts.To)
	if rep.First == timeline.MaxTime || to < from || to-from > math.MaxInt64 { // a duration is signed
		return 0, 0
	}
	return from, to
}

// countNames returns, for each event, the name of the value that counts its samples. pprof finds values
// by their names (-sample_index), so each has a name of its own.
func countNames(events []string) []string {
	counts := make([]string, len(events))
	for i, event := range events {
		name := "samples"
		if len(events) > 1 {
			name = event + "_samples"
		}
		for slices.Contains(events, name) || slices.Contains(counts[:i], name) {
			name += "_"
		}
		counts[i] = name
	}
	return counts
}

// period returns how many events a sample represents, on average if perf adjusted the
// period to get a number of samples a second.
func (c *column) period() uint64 {
	if c.attr.Flags&perfdata.FlagFreq == 0 && c.attr.SamplePeriod > 0 {
		return c.attr.SamplePeriod
	}
	return (c.stats.Total + c.stats.Samples/2) / c.stats.Samples
}
