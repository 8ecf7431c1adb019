// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

// Offsets in the records that describe a pipe's events; the header counts.
const (
	headerAttrAttr    = 8  // struct perf_event_attr, then u64 ids[]
	eventUpdateID     = 16 // after u64 type
	eventUpdateData   = 24
	headerFeatureID   = 8 // u64 feat_id
	headerFeatureData = 16
	eventUpdateName   = 2 // PERF_EVENT_UPDATE__NAME
)

// readPipe takes from the records what a file has in its header. Damage ends
// it and is left for the scanner to report.
func (r *Recording) readPipe() {
	r.features = make(map[Feature]section)
	var events []*Event
	byID := make(map[uint64]*Event)
	s := r.Scan(KeepCompressed(), Only(RecordHeaderAttr, RecordEventUpdate, RecordHeaderFeature, RecordHeaderTracingData))
	for s.Next() {
		rec := s.Record()
		raw, e := rec.Raw, r.endian
		switch rec.Type {
		case RecordHeaderAttr:
			if ev := r.pipeAttr(rec); ev != nil {
				events = append(events, ev)
				for _, id := range ev.IDs {
					byID[id] = ev
				}
			}
		case RecordEventUpdate:
			if len(raw) >= eventUpdateData && e.u64(raw[8:]) == eventUpdateName {
				if ev := byID[e.u64(raw[eventUpdateID:])]; ev != nil {
					ev.Name = string(untilNUL(raw[eventUpdateData:]))
				}
			}
		case RecordHeaderFeature:
			if len(raw) < headerFeatureData {
				r.warnings = append(r.warnings, r.recordErr(rec, "record of %d bytes is too short", len(raw)))
				continue
			}
			// One without data is the mark of their end, HEADER_LAST_FEATURE.
			if id := e.u64(raw[headerFeatureID:]); id < featureBits && len(raw) > headerFeatureData {
				r.features[Feature(id)] = section{rec.Offset + headerFeatureData, raw[headerFeatureData:]}
			}
		case RecordHeaderTracingData:
			at, n := len(raw), int(min(e.u32(raw[headerSize:]), 1<<30))
			data := s.Payload()
			if len(data) == 0 {
				at, data = tracingData, raw[tracingData:]
			}
			if n <= len(data) {
				r.features[FeatureTracingData] = section{rec.Offset + int64(at), data[:n:n]}
			}
		}
	}
	if len(events) == 0 {
		r.warn(pipeHeader, ErrMalformed, "the recording has no events")
	}
	r.nameEvents(events)
	r.setEvents(events)
}

func (r *Recording) pipeAttr(rec *Record) *Event {
	b := rec.Raw[headerAttrAttr:]
	if len(b) < attrSizeVer0 {
		r.warnings = append(r.warnings, r.recordErr(rec, "attr of %d bytes", len(b)))
		return nil
	}
	attr := parseAttr(b, r.endian)
	if uint64(attr.Size) > uint64(len(b)) {
		r.warnings = append(r.warnings, r.recordErr(rec, "attr of %d bytes in a record of %d", attr.Size, len(rec.Raw)))
		return nil
	}
	return &Event{Attr: attr, IDs: r.endian.u64s(b[attr.Size:])}
}
