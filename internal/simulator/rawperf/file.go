// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package rawperf

import (
	"maps"
	"slices"
)

// A Feature is the number of a feature of a recording's header, HEADER_*.
type Feature uint64

const (
	FeatureTracingData Feature = 1
	FeatureHostname    Feature = 3
	FeatureRelease     Feature = 4
	FeatureVersion     Feature = 5
	FeatureArch        Feature = 6
	FeatureCPUs        Feature = 7
	FeatureCmdline     Feature = 11
	FeatureEventDesc   Feature = 12
	FeatureSampleTime  Feature = 21
	FeatureClockID     Feature = 23
	FeatureDirFormat   Feature = 24
	FeatureBPFProgInfo Feature = 25
	FeatureCompressed  Feature = 27
	FeatureClockData   Feature = 29
)

// An Event is an event of a recording: its attribute, the ids that the kernel gave
// it, one for each place where it was opened, and its name.
type Event struct {
	Attr Attr
	IDs  []uint64
	Name string
}

// A File is a recording in file form.
type File struct {
	Events   []Event
	Data     []byte // all records
	Features map[Feature][]byte
	// Unfinished leaves the file as perf has it while it records: the size of the
	// data is 0, and no feature follows them.
	Unfinished bool
	// AttrsLast puts the attributes behind the data, as perf inject does.
	AttrsLast bool
}

const fileHeaderSize = 104

// File encodes a recording in file form.
func (f Format) File(c *File) []byte {
	w := f.buffer().bytes(make([]byte, fileHeaderSize))
	var attrs section
	if !c.AttrsLast {
		attrs = f.attrs(w, c.Events)
	}
	data := section{uint64(len(w.b)), uint64(len(c.Data))}
	w.bytes(c.Data)
	if c.Unfinished {
		data.size = 0
	} else {
		f.features(w, c.Features)
	}
	if c.AttrsLast {
		attrs = f.attrs(w, c.Events)
	}
	entry := uint64(16)
	if len(c.Events) > 0 {
		entry += uint64(c.Events[0].Attr.Size)
	}
	var bitmap [4]uint64
	for n := range c.Features {
		bitmap[n/64] |= 1 << (n % 64)
	}
	h := f.buffer().bytes(f.magic()).u64(fileHeaderSize, entry)
	h.u64(attrs.offset, attrs.size, data.offset, data.size, 0, 0).u64(bitmap[:]...)
	copy(w.b, h.b)
	return w.b
}

// A section is where a part of the file is.
type section struct{ offset, size uint64 }

// attrs appends the ids of all events, and then the table of their attributes.
func (f Format) attrs(w *buffer, events []Event) section {
	ids := uint64(len(w.b))
	for i := range events {
		w.u64(events[i].IDs...)
	}
	s := section{offset: uint64(len(w.b))}
	for i := range events {
		e := &events[i]
		w.bytes(f.Attr(&e.Attr)).u64(ids, uint64(8*len(e.IDs)))
		ids += uint64(8 * len(e.IDs))
	}
	s.size = uint64(len(w.b)) - s.offset
	return s
}

// features appends the table of the features and their sections.
func (f Format) features(w *buffer, features map[Feature][]byte) {
	numbers := slices.Sorted(maps.Keys(features))
	at := uint64(len(w.b) + 16*len(numbers))
	for _, n := range numbers {
		w.u64(at, uint64(len(features[n])))
		at += uint64(len(features[n]))
	}
	for _, n := range numbers {
		w.bytes(features[n])
	}
}

func (f Format) magic() []byte {
	return f.Order.AppendUint64(nil, 0x32454c4946524550) // "PERFILE2"
}

// PipeHeader encodes the header of a recording in pipe form.
func (f Format) PipeHeader() []byte { return f.buffer().bytes(f.magic()).u64(16).b }
