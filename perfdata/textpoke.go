// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import "encoding/binary"

// A TextPoke is a TEXT_POKE record: a change of kernel text
// (perf_event_text_poke of kernel/events/core.c).
//
// Excess is the number of bytes by which the size in the record's header is larger
// than body and trailer together; the record's last bytes are then stale. It is 0
// in a well-formed record. All listening events share one header, and the kernel
// adds each event's trailer to the size in it. So if two events listen on a CPU,
// the second copy of every record is malformed in this way.
type TextPoke struct {
	Addr     uint64 // of the first byte
	Old, New []byte // before and after; alias Record.Raw; either may be empty
	SampleID
	Excess int
}

const textPokeBytes = 20 // offset of the instruction bytes: header, u64 addr, u16 old_len, u16 new_len

// TextPoke decodes a TEXT_POKE record into p, without allocating. The error,
// where the lengths inside exceed the record, is a [*FormatError].
func (r *Recording) TextPoke(rec *Record, p *TextPoke) (err error) {
	raw := rec.Raw
	if r.endian == little && rec.Type == RecordTextPoke && len(raw) >= textPokeBytes {
		// As below, with fewer steps.
		lens := binary.LittleEndian.Uint32(raw[16:])
		newAt := textPokeBytes + int(lens&0xffff)
		end := newAt + int(lens>>16)
		if end <= len(raw) {
			if excess, ok := r.quick(r.trailers, raw, align8(end), &p.SampleID); ok {
				p.Addr = binary.LittleEndian.Uint64(raw[8:])
				p.Old = raw[textPokeBytes:newAt:newAt]
				p.New = raw[newAt:end:end]
				p.Excess = excess
				return nil
			}
		}
	}
	bodyEnd := textPokeBody(raw, r.endian)
	if rec.Type != RecordTextPoke || bodyEnd > len(raw) {
		*p = TextPoke{}
		return r.notA(rec, RecordTextPoke, "instruction bytes run past the record of %d bytes", len(raw))
	}
	p.Addr = r.endian.u64(raw[8:])
	newAt := textPokeBytes + int(r.endian.u16(raw[16:]))
	end := newAt + int(r.endian.u16(raw[18:]))
	p.Old = raw[textPokeBytes:newAt:newAt]
	p.New = raw[newAt:end:end]
	p.Excess, err = r.trailerAt(rec, bodyEnd, &p.SampleID)
	return err
}

// textPokeBody returns where the trailer begins, beyond raw if the record is too short.
func textPokeBody(raw []byte, e endian) int {
	if len(raw) < textPokeBytes {
		return len(raw) + 1
	}
	return align8(textPokeBytes + int(e.u16(raw[16:])) + int(e.u16(raw[18:])))
}
