// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import "math"

// The records of this file describe a pipe's events as a file's header does.
// [Open] reads them; what they say is found in [Recording.Events] and
// [Recording.Feature].

// A HeaderAttr is a HEADER_ATTR record: an event of a recording in pipe form
// (perf_event__synthesize_attr of tools/perf/util/synthetic-events.c).
type HeaderAttr struct {
	Attr Attr
	IDs  Words // aliases Record.Raw
}

// HeaderAttr decodes a HEADER_ATTR record into h, without allocating. The
// error, where the record is too short, is a [*FormatError].
func (r *Recording) HeaderAttr(rec *Record, h *HeaderAttr) error {
	*h = HeaderAttr{}
	raw := rec.Raw
	if rec.Type != RecordHeaderAttr || len(raw) < headerAttrAttr+attrSizeVer0 {
		return r.notA(rec, RecordHeaderAttr, "record of %d bytes is too short", len(raw))
	}
	b := raw[headerAttrAttr:]
	attr := parseAttr(b, r.endian)
	if attr.Size < attrSizeVer0 || uint64(attr.Size) > uint64(len(b)) {
		return r.recordErr(rec, "attr of %d bytes in a record of %d", attr.Size, len(raw))
	}
	h.Attr = attr
	b = b[attr.Size:]
	h.IDs = r.endian.words(b, len(b)/8)
	return nil
}

// A HeaderEventType is a HEADER_EVENT_TYPE record: the name of a kind of event.
// Only the pipes of old perfs have it.
type HeaderEventType struct {
	EventID uint64 // attr.config
	Name    []byte // aliases Record.Raw
}

const (
	headerEventTypeName = 16 // header, u64 event_id
	headerEventTypeLen  = 64 // char name[64]
)

// HeaderEventType decodes a HEADER_EVENT_TYPE record into h, without
// allocating. The error, where the record is too short, is a [*FormatError].
func (r *Recording) HeaderEventType(rec *Record, h *HeaderEventType) error {
	*h = HeaderEventType{}
	raw := rec.Raw
	if rec.Type != RecordHeaderEventType || len(raw) < headerEventTypeName {
		return r.notA(rec, RecordHeaderEventType, "record of %d bytes is too short", len(raw))
	}
	h.EventID, h.Name = r.endian.u64(raw[8:]), untilNUL(raw[headerEventTypeName:])
	return nil
}

// A HeaderTracingData is a HEADER_TRACING_DATA record: the formats of
// tracepoints ([Recording.TracingData]).
type HeaderTracingData struct {
	Size uint32 // bytes of data
	// Data is what the record itself holds: all of it where simpleperf wrote the
	// record; nil where perf did, since it then follows ([Scanner.Payload]).
	Data []byte
}

// HeaderTracingData decodes a HEADER_TRACING_DATA record into h, without
// allocating. The error, where the record is too short, is a [*FormatError].
func (r *Recording) HeaderTracingData(rec *Record, h *HeaderTracingData) error {
	*h = HeaderTracingData{}
	raw := rec.Raw
	if rec.Type != RecordHeaderTracingData || len(raw) < tracingData {
		return r.notA(rec, RecordHeaderTracingData, "record of %d bytes is too short", len(raw))
	}
	h.Size = r.endian.u32(raw[headerSize:])
	if n := uint64(h.Size); n <= uint64(len(raw)-tracingData) {
		h.Data = raw[tracingData : tracingData+n : tracingData+n]
	}
	return nil
}

// A HeaderFeature is a HEADER_FEATURE record: a feature section of a recording
// in pipe form (perf_event__synthesize_features of
// tools/perf/util/synthetic-events.c). One without data ends them.
type HeaderFeature struct {
	Feature Feature
	Data    []byte // aliases Record.Raw
}

// HeaderFeature decodes a HEADER_FEATURE record into h, without allocating. The
// error, where the record is too short, is a [*FormatError].
func (r *Recording) HeaderFeature(rec *Record, h *HeaderFeature) error {
	*h = HeaderFeature{}
	raw := rec.Raw
	if rec.Type != RecordHeaderFeature || len(raw) < headerFeatureData {
		return r.notA(rec, RecordHeaderFeature, "record of %d bytes is too short", len(raw))
	}
	id := r.endian.u64(raw[headerFeatureID:])
	if id >= featureBits {
		return r.recordErr(rec, "feature %d", id)
	}
	h.Feature, h.Data = Feature(id), raw[headerFeatureData:len(raw):len(raw)]
	return nil
}

// An EventUpdateKind is the kind of an EVENT_UPDATE record
// (PERF_EVENT_UPDATE__* of tools/lib/perf/include/perf/event.h).
type EventUpdateKind uint64

// The kinds of EVENT_UPDATE.
const (
	EventUpdateUnit EventUpdateKind = iota
	EventUpdateScale
	EventUpdateName
	EventUpdateCPUs
)

// An EventUpdate is an EVENT_UPDATE record: what an attr does not say about an
// event (perf_event__synthesize_extra_attr of
// tools/perf/util/synthetic-events.c).
type EventUpdate struct {
	Kind  EventUpdateKind
	ID    uint64  // of the event
	Text  []byte  // the unit or the name; aliases Record.Raw
	Scale float64 // by which counts are to be multiplied
	CPUs  CPUMap  // on which the event counts
}

// EventUpdate decodes an EVENT_UPDATE record into u, whose slice of CPUs is
// used again. The error, where the record is too short, is a [*FormatError];
// for a kind not known it wraps [ErrUnsupported].
func (r *Recording) EventUpdate(rec *Record, u *EventUpdate) error {
	*u = EventUpdate{CPUs: CPUMap{CPUs: u.CPUs.CPUs[:0]}}
	raw, e := rec.Raw, r.endian
	if rec.Type != RecordEventUpdate || len(raw) < eventUpdateData {
		return r.notA(rec, RecordEventUpdate, "record of %d bytes is too short", len(raw))
	}
	u.Kind, u.ID = EventUpdateKind(e.u64(raw[8:])), e.u64(raw[eventUpdateID:])
	data := raw[eventUpdateData:]
	switch u.Kind {
	case EventUpdateUnit, EventUpdateName:
		u.Text = untilNUL(data)
	case EventUpdateScale:
		if len(data) < 8 {
			return r.recordErr(rec, "record of %d bytes is too short for a scale", len(raw))
		}
		u.Scale = math.Float64frombits(e.u64(data))
	case EventUpdateCPUs:
		return r.cpuMap(rec, data, &u.CPUs)
	default:
		return r.unsupported(rec, "kind %d", uint64(u.Kind))
	}
	return nil
}
