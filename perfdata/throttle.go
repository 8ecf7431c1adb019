// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

// A Throttle is a THROTTLE or UNTHROTTLE record: an event fired too often and
// was stopped until the next tick, or is started again (perf_log_throttle of
// kernel/events/core.c).
type Throttle struct {
	ThrottleTime uint64 // nanoseconds, as the body has it; the trailer's is SampleID.Time
	ID           uint64 // of the event; the trailer's is SampleID.ID
	StreamID     uint64 // of the inherited instance itself; the trailer's is SampleID.StreamID
	SampleID
}

const throttleBody = 32 // header, u64 time, id, stream_id

// Throttle decodes a THROTTLE or UNTHROTTLE record into t, without allocating.
// The error, where the record is too short, is a [*FormatError].
func (r *Recording) Throttle(rec *Record, t *Throttle) error {
	*t = Throttle{}
	if rec.Type != RecordThrottle && rec.Type != RecordUnthrottle {
		return r.notA(rec, RecordThrottle, "")
	}
	if err := r.fixed(rec, throttleBody, &t.SampleID); err != nil {
		return err
	}
	raw, e := rec.Raw, r.endian
	t.ThrottleTime, t.ID, t.StreamID = e.u64(raw[8:]), e.u64(raw[16:]), e.u64(raw[24:])
	return nil
}
