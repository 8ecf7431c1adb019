// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

// A Lost is a LOST record: records of any kind that found no room in a ring
// buffer (perf_output_begin of kernel/events/ring_buffer.c), between the record
// of that buffer before it and this one. It is written when the next record
// gets through, and names that record's event, not what was lost.
type Lost struct {
	ID   uint64 // of the event that got through; the trailer's is SampleID.ID
	Lost uint64 // records
	SampleID
}

const (
	lostBody        = 24 // header, u64 id, u64 lost
	lostSamplesBody = 16 // header, u64 lost
)

// Lost decodes a LOST record into l, without allocating. The error, where the
// record is too short, is a [*FormatError].
func (r *Recording) Lost(rec *Record, l *Lost) error {
	*l = Lost{}
	if rec.Type != RecordLost {
		return r.notA(rec, RecordLost, "")
	}
	if err := r.fixed(rec, lostBody, &l.SampleID); err != nil {
		return err
	}
	l.ID, l.Lost = r.endian.u64(rec.Raw[8:]), r.endian.u64(rec.Raw[16:])
	return nil
}

// A LostSamples is a LOST_SAMPLES record. The kernel writes one if the hardware
// dropped samples. perf writes one at the end for each event that has read_format
// LOST: how many records of the event that the trailer names were lost
// (__record__save_lost_samples of tools/perf/builtin-record.c).
type LostSamples struct {
	Lost uint64 // records
	SampleID
}

// LostSamples decodes a LOST_SAMPLES record into l, without allocating. The
// error, where the record is too short, is a [*FormatError].
func (r *Recording) LostSamples(rec *Record, l *LostSamples) error {
	*l = LostSamples{}
	if rec.Type != RecordLostSamples {
		return r.notA(rec, RecordLostSamples, "")
	}
	if err := r.fixed(rec, lostSamplesBody, &l.SampleID); err != nil {
		return err
	}
	l.Lost = r.endian.u64(rec.Raw[8:])
	return nil
}
