// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

// AuxFlags are the flags of an AUX record, PERF_AUX_FLAG_*.
type AuxFlags uint64

// The bits of AuxFlags. The PMU defines the bits of AuxFormatMask: for
// CoreSight they are 0 if the trace is formatted into frames, 0x100 if it is raw.
const (
	AuxTruncated  AuxFlags = 1 << 0 // there was no room for all
	AuxOverwrite  AuxFlags = 1 << 1 // a snapshot of a buffer that is overwritten in a circle
	AuxPartial    AuxFlags = 1 << 2 // there are gaps
	AuxCollision  AuxFlags = 1 << 3 // a sample was dropped, since another was being taken
	AuxFormatMask AuxFlags = 0xff00
)

// An Aux is an AUX record: the PMU wrote trace into the AUX area of a ring buffer
// (perf_event_aux_event of kernel/events/core.c). The trace itself is in an
// AUXTRACE record; see [Recording.AuxtraceQueues].
type Aux struct {
	Offset uint64 // bytes of this buffer's trace before these; does not wrap with the buffer
	Size   uint64 // bytes
	Flags  AuxFlags
	SampleID
}

// An ItraceStart is an ITRACE_START record: instruction trace of a task begins
// (perf_log_itrace_start of kernel/events/core.c).
type ItraceStart struct {
	PID, TID uint32 // the trailer's are SampleID.PID and SampleID.TID
	SampleID
}

// An AuxOutputHWID is an AUX_OUTPUT_HW_ID record: the number that represents an
// event in a trace into which the event's samples are written
// (perf_report_aux_output_id of kernel/events/core.c). For Intel PT it is the
// index of a counter, for CoreSight the trace id of a CPU. The trailer names the
// event and the CPU.
type AuxOutputHWID struct {
	HWID uint64
	SampleID
}

const (
	auxBody           = 32 // header, u64 aux_offset, aux_size, flags
	itraceStartBody   = 16 // header, u32 pid, tid
	auxOutputHWIDBody = 16 // header, u64 hw_id
)

// Aux decodes an AUX record into a, without allocating. The error, where the
// record is too short, is a [*FormatError].
func (r *Recording) Aux(rec *Record, a *Aux) error {
	*a = Aux{}
	if rec.Type != RecordAux {
		return r.notA(rec, RecordAux, "")
	}
	raw, e := rec.Raw, r.endian
	if err := r.fixed(rec, auxBody, &a.SampleID); err != nil {
		return err
	}
	a.Offset, a.Size, a.Flags = e.u64(raw[8:]), e.u64(raw[16:]), AuxFlags(e.u64(raw[24:]))
	return nil
}

// ItraceStart decodes an ITRACE_START record into t, without allocating. The
// error, where the record is too short, is a [*FormatError].
func (r *Recording) ItraceStart(rec *Record, t *ItraceStart) error {
	*t = ItraceStart{}
	if rec.Type != RecordItraceStart {
		return r.notA(rec, RecordItraceStart, "")
	}
	if err := r.fixed(rec, itraceStartBody, &t.SampleID); err != nil {
		return err
	}
	t.PID, t.TID = r.endian.u32(rec.Raw[8:]), r.endian.u32(rec.Raw[12:])
	return nil
}

// AuxOutputHWID decodes an AUX_OUTPUT_HW_ID record into a, without allocating.
// The error, where the record is too short, is a [*FormatError].
func (r *Recording) AuxOutputHWID(rec *Record, a *AuxOutputHWID) error {
	*a = AuxOutputHWID{}
	if rec.Type != RecordAuxOutputHWID {
		return r.notA(rec, RecordAuxOutputHWID, "")
	}
	if err := r.fixed(rec, auxOutputHWIDBody, &a.SampleID); err != nil {
		return err
	}
	a.HWID = r.endian.u64(rec.Raw[8:])
	return nil
}
