// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import "maps"

// Offsets in the records that describe a pipe's events; the header counts.
const (
	headerAttrAttr    = 8  // struct perf_event_attr, then u64 ids[]
	eventUpdateID     = 16 // after u64 type
	eventUpdateData   = 24
	headerFeatureID   = 8 // u64 feat_id
	headerFeatureData = 16
	eventUpdateName   = 2 // PERF_EVENT_UPDATE__NAME
)

// The records that describe a pipe's events and features.
var describing = []RecordType{RecordHeaderAttr, RecordEventUpdate, RecordHeaderFeature, RecordHeaderTracingData}

// A description collects from the records of a pipe what a file has in its header.
type description struct {
	r    *Recording
	new  []*Event // events that settle will add to the Recording
	byID map[uint64]*Event

	groups int // how many GROUP_DESCs there were
}

// maxGroupDescs is how many GROUP_DESCs count: perf writes one. Each takes time for all events.
const maxGroupDescs = 16

func newDescription(r *Recording) *description {
	r.features = make(map[Feature]section)
	return &description{r: r, byID: make(map[uint64]*Event)}
}

// readPipe reads the description of a recording in pipe form that is in memory as a whole.
// It stops at damage, which a later scan reports.
func (r *Recording) readPipe() {
	const large, step = 128 << 20, 16 << 20 // a large recording does not stay in memory
	d := newDescription(r)
	s := r.Scan(KeepCompressed())
	s.settle = d.settle
	for s.Next() {
		rec := &s.rec
		switch {
		case !d.describes(rec):
			// The records of known events are checked at the least cost.
			d.settle()
		case rec.Type == RecordHeaderAttr:
			d.take(rec, s.Payload())
		default:
			d.take(rec, s.Payload())
			d.settle()
		}
		if len(s.buf) > large && s.off-s.unloaded > step {
			s.Unload()
		}
	}
	d.settle()
	d.end()
}

// readInjected reads what a file has as the first of its records and not in its header. perf inject
// leaves it there if it reads a pipe and writes a file (perf_event__repipe_op2_synth() in
// tools/perf/builtin-inject.c), and perf uses it.
func (r *Recording) readInjected(f *dataFile, events []*Event) {
	own := r.features
	d := newDescription(r)
	defer func() {
		maps.Copy(r.features, own)
		if own == nil && len(r.features) == 0 {
			r.features = nil
		}
	}()
	for _, ev := range events {
		for _, id := range ev.IDs {
			d.byID[id] = ev
		}
	}
	for at := f.start; f.end-at >= headerSize; {
		b := f.data[at:f.end]
		h := r.endian.header(b)
		size, follows, err := r.endian.frame(h, b)
		switch {
		case h.typ < firstUserRecord, h.typ == RecordAuxtrace, h.typ == RecordCompressed, h.typ == RecordCompressed2:
			return // what was recorded comes behind
		case err != nil, follows > uint64(len(b)-size):
			return
		}
		n := size + int(follows)
		rec := &Record{Type: h.typ, Misc: h.misc, Offset: int64(at), Raw: b[:size:size]}
		if d.describes(rec) && h.typ != RecordHeaderAttr {
			d.take(rec, b[size:n:n])
		}
		at += n
	}
}

// describes reports whether rec is of a type that take reads.
func (d *description) describes(rec *Record) bool {
	switch rec.Type {
	case RecordHeaderAttr, RecordEventUpdate, RecordHeaderFeature, RecordHeaderTracingData:
		return true
	}
	return false
}

// take adds a record to the description. payload has the bytes that follow the record and
// are not counted in its size.
func (d *description) take(rec *Record, payload []byte) {
	r := d.r
	raw, e := rec.Raw, r.endian
	switch rec.Type {
	case RecordHeaderAttr:
		if ev := r.pipeAttr(rec); ev != nil {
			d.new = append(d.new, ev)
			for _, id := range ev.IDs {
				d.byID[id] = ev
			}
		}
	case RecordEventUpdate:
		if len(raw) >= eventUpdateData && e.u64(raw[8:]) == eventUpdateName {
			if ev := d.byID[e.u64(raw[eventUpdateID:])]; ev != nil {
				ev.Name = string(untilNUL(raw[eventUpdateData:]))
			}
		}
	case RecordHeaderFeature:
		if len(raw) < headerFeatureData {
			r.warnRecord(r.recordErr(rec, "record of %d bytes is too short", len(raw)))
			return
		}
		// One without data is the mark of their end, HEADER_LAST_FEATURE.
		if id := e.u64(raw[headerFeatureID:]); id < featureBits && len(raw) > headerFeatureData {
			d.feature(Feature(id), rec.Offset+headerFeatureData, raw[headerFeatureData:])
		}
	case RecordHeaderTracingData:
		at, n := len(raw), int(min(e.u32(raw[headerSize:]), 1<<30))
		if len(payload) == 0 {
			at, payload = tracingData, raw[tracingData:]
		}
		if n <= len(payload) {
			d.feature(FeatureTracingData, rec.Offset+int64(at), payload[:n:n])
		}
	}
}

func (d *description) feature(f Feature, at int64, b []byte) {
	if d.r.stream {
		b = append([]byte(nil), b...)
	}
	if f == FeatureGroupDesc {
		if d.groups++; d.groups > maxGroupDescs {
			return
		}
	}
	d.r.features[f] = section{at, b}
	if f == FeatureGroupDesc {
		d.r.markBranchCounters() // of the events, which have come before
	}
}

// settle adds the events that were found since its last call to the Recording.
func (d *description) settle() {
	r := d.r
	if len(d.new) > 0 && len(r.events) == 0 {
		r.setEvents(d.new)
		d.new = nil
	}
	for _, ev := range d.new {
		r.addEvent(ev)
	}
	d.new = nil
}

// end completes the Recording when the description is complete.
func (d *description) end() {
	if len(d.r.events) == 0 {
		d.r.warn(pipeHeader, ErrMalformed, "the recording has no events")
	}
	d.r.nameEvents(d.r.events)
}

func (r *Recording) pipeAttr(rec *Record) *Event {
	b := rec.Raw[headerAttrAttr:]
	if len(b) < attrSizeVer0 {
		r.warnRecord(r.recordErr(rec, "attr of %d bytes", len(b)))
		return nil
	}
	attr := parseAttr(b, r.endian)
	if uint64(attr.Size) > uint64(len(b)) {
		r.warnRecord(r.recordErr(rec, "attr of %d bytes in a record of %d", attr.Size, len(rec.Raw)))
		return nil
	}
	return &Event{Attr: attr, IDs: r.endian.u64s(b[attr.Size:])}
}

// maxWarnings bounds the warnings that are kept of a stream, which may never end.
const maxWarnings = 1000

func (r *Recording) warnRecord(err error) {
	if !r.stream || len(r.warnings) < maxWarnings {
		r.warnings = append(r.warnings, err)
	}
}
