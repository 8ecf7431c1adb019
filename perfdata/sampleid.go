// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import "encoding/binary"

// A SampleID says when, where and for which event a record was written. It is
// the sample_id trailer of a kernel record (attr.sample_id_all;
// __perf_event__output_id_sample of kernel/events/core.c), or the same fields
// out of a SAMPLE.
//
// Records that perf itself made up when the recording began (the MMAPs, COMMs,
// KSYMBOLs and BPF_EVENTs of what was there already) carry a trailer of zeros:
// Time 0 means before the recording, and Event is then the first one.
type SampleID struct {
	PID, TID uint32
	Time     uint64 // nanoseconds of the recording's clock
	ID       uint64 // of the event's instance, from IDENTIFIER or ID
	StreamID uint64 // like ID, but of the inherited instance itself
	CPU      uint32
	// Has says which of TID, TIME, ID, STREAM_ID, CPU and IDENTIFIER the record
	// carries; fields for which it does not are zero.
	Has SampleType
	// Event is the event that ID belongs to; the first one if ID is 0 or the
	// event's attr has no id in its records; nil if the id is not in the recording.
	Event *Event
}

// A layout says where the fields of a SampleID are, as offsets from its
// start; -1 for those that it does not have.
type layout struct {
	has   SampleType
	size  int // of a trailer; of a sample the least that holds the fields
	tid   int
	time  int
	id    int // IDENTIFIER if there is one, else ID
	strm  int
	cpu   int
	first *Event // the first event that has this layout
}

// maxTrailer is the size in bytes of a trailer that has all fields.
const maxTrailer = 6 * 8

const trailerBits = SampleTID | SampleTime | SampleEventID | SampleStreamID | SampleCPU | SampleIdentifier

// newLayout places the fields named in order, 8 bytes each, as far as has names them.
func newLayout(has SampleType, order ...SampleType) layout {
	l := layout{has: has & trailerBits, tid: -1, time: -1, id: -1, strm: -1, cpu: -1}
	for _, bit := range order {
		if has&bit == 0 {
			continue
		}
		switch bit {
		case SampleTID:
			l.tid = l.size
		case SampleTime:
			l.time = l.size
		case SampleEventID:
			if l.id < 0 {
				l.id = l.size
			}
		case SampleStreamID:
			l.strm = l.size
		case SampleCPU:
			l.cpu = l.size
		case SampleIdentifier:
			l.id = l.size
		}
		l.size += 8
	}
	return l
}

// trailerLayout follows perf_event__id_header_size (kernel/events/core.c).
// perf_evsel__parse_id_sample (tools/perf/util/evsel.c) reads the same fields backwards.
func trailerLayout(a *Attr) layout {
	if a.Flags&FlagSampleIDAll == 0 {
		return newLayout(0)
	}
	return newLayout(a.SampleType, SampleTID, SampleTime, SampleEventID, SampleStreamID, SampleCPU, SampleIdentifier)
}

// sampleLayout follows evsel__parse_sample, up to the CPU.
func sampleLayout(a *Attr) layout {
	return newLayout(a.SampleType, SampleIdentifier, SampleIP, SampleTID, SampleTime, SampleAddr, SampleEventID, SampleStreamID, SampleCPU)
}

// decode fills id from b, which begins with the layout's fields.
func (l *layout) decode(b []byte, e endian, ev *Event, id *SampleID) {
	b = b[:l.size]
	*id = SampleID{Has: l.has, Event: ev}
	if l.tid >= 0 {
		id.PID = e.u32(b[l.tid:])
		id.TID = e.u32(b[l.tid+4:])
	}
	if l.time >= 0 {
		id.Time = e.u64(b[l.time:])
	}
	if l.id >= 0 {
		id.ID = e.u64(b[l.id:])
	}
	if l.strm >= 0 {
		id.StreamID = e.u64(b[l.strm:])
	}
	if l.cpu >= 0 {
		id.CPU = e.u32(b[l.cpu:])
	}
}

// quick does what locate and decode do for the fields at raw[at:], in less than half the
// time. It works if the recording is little-endian and its events have one layout, which
// has an id, as in nearly all recordings. ok reports whether it did; excess is the number
// of bytes of raw after the fields.
func (r *Recording) quick(layouts []*layout, raw []byte, at int, id *SampleID) (excess int, ok bool) {
	if r.endian == big || len(layouts) != 1 || at > len(raw) {
		return 0, false
	}
	l, b := layouts[0], raw[at:]
	if len(b) < l.size || l.id < 0 || r.noIDs {
		return 0, false
	}
	n := binary.LittleEndian.Uint64(b[l.id:])
	ev := l.first
	if n != 0 {
		if i := n - r.ids.base; i < uint64(len(r.ids.dense)) && r.ids.dense[i] != nil {
			ev = r.ids.dense[i]
		} else {
			ev = r.ids.search(n)
		}
	}
	id.Has, id.ID = l.has, n
	if id.Event != ev { // an assignment of a pointer costs more than this
		id.Event = ev
	}
	id.PID, id.TID, id.Time, id.StreamID, id.CPU = 0, 0, 0, 0, 0
	if l.tid >= 0 {
		v := binary.LittleEndian.Uint64(b[l.tid:])
		id.PID, id.TID = uint32(v), uint32(v>>32)
	}
	if l.time >= 0 {
		id.Time = binary.LittleEndian.Uint64(b[l.time:])
	}
	if l.strm >= 0 {
		id.StreamID = binary.LittleEndian.Uint64(b[l.strm:])
	}
	if l.cpu >= 0 {
		id.CPU = binary.LittleEndian.Uint32(b[l.cpu:])
	}
	return len(b) - l.size, true
}

// SampleID decodes a record's trailer, or a sample's fields, into id, without
// decoding the rest of the record and without allocating.
//
// The trailer is at the end of the record. That of a TEXT_POKE, KSYMBOL or BPF_EVENT
// follows the content, because the size in the header of these records is too large
// if several events listen (see [TextPoke]). Records that perf itself writes (from
// HEADER_ATTR on) have no trailer: id is then zero and its Event nil.
//
// The layout of the fields depends on the event, and the fields name the event. As
// perf does, SampleID relies on an id that is at the same offset for all events, or
// on IDENTIFIER. A record that is too short for its fields gives a [*FormatError] and
// a zero id. So does one that does not name its event if the layout depends on it.
func (r *Recording) SampleID(rec *Record, id *SampleID) error {
	if rec.Type >= firstUserRecord {
		*id = SampleID{}
		return nil
	}
	var bodyEnd int
	switch rec.Type {
	case RecordSample:
		if _, ok := r.quick(r.samples, rec.Raw, headerSize, id); ok {
			return nil
		}
		l, ev := r.locate(r.samples, rec.Raw, headerSize)
		if l == nil {
			*id = SampleID{}
			return r.notLocated(rec)
		}
		l.decode(rec.Raw[headerSize:], r.endian, ev, id)
		return nil
	case RecordTextPoke:
		bodyEnd = textPokeBody(rec.Raw, r.endian)
	case RecordKSymbol:
		bodyEnd = ksymbolBody(rec.Raw)
	case RecordBPFEvent:
		bodyEnd = bpfEventBody
	default:
		_, err := r.trailer(rec, id)
		return err
	}
	_, err := r.trailerAt(rec, bodyEnd, id)
	return err
}

// TrailerAt returns the offset in bytes at which the trailer of a record begins, as
// [Recording.SampleID] finds it, and whether the record has all of the trailer, which is size
// bytes long. It is for those who have a record and no recording, as a recorder has. raw is a
// record of the kernel, not a sample, in the byte order of this machine.
func TrailerAt(raw []byte, size int) (at int, ok bool) {
	if len(raw) < headerSize {
		return 0, false
	}
	e := endian(binary.NativeEndian.Uint16([]byte{0, 1}) == 1)
	switch RecordType(e.u32(raw)) {
	case RecordTextPoke:
		at = textPokeBody(raw, e)
	case RecordKSymbol:
		at = ksymbolBody(raw)
	case RecordBPFEvent:
		at = bpfEventBody
	default:
		at = len(raw) - size
	}
	return at, at >= headerSize && at <= len(raw)-size
}

// trailerAt decodes the trailer that follows a body of known length: bodyEnd
// is the offset in rec.Raw at which the trailer begins. It returns by how many
// bytes the record is longer than body and trailer together.
func (r *Recording) trailerAt(rec *Record, bodyEnd int, id *SampleID) (excess int, err error) {
	if bodyEnd < headerSize || bodyEnd > len(rec.Raw) {
		*id = SampleID{}
		return 0, r.recordErr(rec, "content is longer than the record of %d bytes", len(rec.Raw))
	}
	if excess, ok := r.quick(r.trailers, rec.Raw, bodyEnd, id); ok {
		return excess, nil
	}
	l, ev := r.locate(r.trailers, rec.Raw, bodyEnd)
	if l == nil {
		*id = SampleID{}
		return 0, r.notLocated(rec)
	}
	l.decode(rec.Raw[bodyEnd:], r.endian, ev, id)
	return len(rec.Raw) - bodyEnd - l.size, nil
}

// trailer decodes the trailer that ends with the record and returns the offset
// at which it begins, which is where the body ends.
func (r *Recording) trailer(rec *Record, id *SampleID) (bodyEnd int, err error) {
	if len(r.trailers) == 1 {
		bodyEnd = max(len(rec.Raw)-r.trailers[0].size, headerSize)
		if _, ok := r.quick(r.trailers, rec.Raw, bodyEnd, id); ok {
			return bodyEnd, nil
		}
	}
	l, ev := r.locate(r.trailers, rec.Raw, fromEnd)
	if l == nil {
		*id = SampleID{}
		return len(rec.Raw), r.notLocated(rec)
	}
	bodyEnd = len(rec.Raw) - l.size
	l.decode(rec.Raw[bodyEnd:], r.endian, ev, id)
	return bodyEnd, nil
}

// notLocated is the error for a record in which no layout fits.
func (r *Recording) notLocated(rec *Record) error {
	if len(r.events) == 0 {
		return r.recordErr(rec, "the recording has no events to say what its records carry")
	}
	return r.recordErr(rec, "record of %d bytes is too short for its sample id, or does not name one event of the recording", len(rec.Raw))
}

const fromEnd = -1 // the fields end with the record

// locate finds the layout of the fields that begin at raw[at:], and the event
// that they name. The layout is nil if the bytes hold none of those in
// layouts; the event is nil if its id is not in the recording.
func (r *Recording) locate(layouts []*layout, raw []byte, at int) (*layout, *Event) {
	if len(layouts) != 1 {
		return r.locateAmong(layouts, raw, at)
	}
	// Nearly all recordings have one layout.
	l := layouts[0]
	id, ok := l.readID(raw, at, r.endian)
	if !ok {
		return nil, nil
	}
	if id == 0 || r.noIDs {
		return l, l.first
	}
	return l, r.ids.find(id)
}

// readID returns the id in the fields that begin at raw[at:], 0 if they have none, and
// whether the fields fit in raw.
func (l *layout) readID(raw []byte, at int, e endian) (uint64, bool) {
	if at == fromEnd {
		at = max(len(raw)-l.size, headerSize)
	}
	if len(raw)-at < l.size {
		return 0, false
	}
	if l.id < 0 {
		return 0, true
	}
	return e.u64(raw[at+l.id:]), true
}

// locateAmong tries the layouts in turn. The right layout is the one whose id belongs to an
// event of that layout. A record that ends with these fields is well-formed. In a record
// whose size is too large, a time or a CPU may look like an id, so that several layouts
// seem right; locateAmong then returns none.
func (r *Recording) locateAmong(layouts []*layout, raw []byte, at int) (*layout, *Event) {
	var found *layout
	var event *Event
	for _, l := range layouts {
		id, ok := l.readID(raw, at, r.endian)
		if !ok || id == 0 {
			continue
		}
		ev := r.ids.find(id)
		if ev == nil || ev.trailer != l && ev.sample != l {
			continue
		}
		if at == fromEnd || len(raw)-at == l.size {
			return l, ev
		}
		if found != nil {
			return nil, nil
		}
		found, event = l, ev
	}
	if found != nil {
		return found, event
	}
	// Records that perf synthesized have the first event's layout and no id. The
	// records of an event without ids can be recognized only by their length.
	for i, l := range layouts {
		id, ok := l.readID(raw, at, r.endian)
		if ok && id == 0 && (i == 0 || l.id < 0 && len(raw)-at == l.size) {
			return l, l.first
		}
	}
	return nil, nil
}
