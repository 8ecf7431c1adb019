// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

// The kinds of BPF_EVENT (enum perf_bpf_event_type).
const (
	BPFLoad   = 1 // PERF_BPF_EVENT_PROG_LOAD
	BPFUnload = 2 // PERF_BPF_EVENT_PROG_UNLOAD
)

// A BPFEvent is a BPF_EVENT record: a BPF program comes or goes
// (perf_event_bpf_event of kernel/events/core.c). For Excess see [TextPoke].
type BPFEvent struct {
	Kind  uint16 // BPFLoad, BPFUnload
	Flags uint16
	ID    uint32  // of the program; that of the event is SampleID.ID
	Tag   [8]byte // the start of the SHA-1 (newer kernels: SHA-256) of its instructions
	SampleID
	Excess int
}

const bpfEventBody = 24 // header, u16 type, u16 flags, u32 id, u8 tag[8]

// BPFEvent decodes a BPF_EVENT record into b, without allocating. The error,
// where the record is too short, is a [*FormatError].
func (r *Recording) BPFEvent(rec *Record, b *BPFEvent) (err error) {
	raw := rec.Raw
	if rec.Type != RecordBPFEvent || len(raw) < bpfEventBody {
		*b = BPFEvent{}
		return r.notA(rec, RecordBPFEvent, "record of %d bytes is too short", len(raw))
	}
	b.Kind = r.endian.u16(raw[8:])
	b.Flags = r.endian.u16(raw[10:])
	b.ID = r.endian.u32(raw[12:])
	b.Tag = [8]byte(raw[16:])
	b.Excess, err = r.trailerAt(rec, bpfEventBody, &b.SampleID)
	return err
}
