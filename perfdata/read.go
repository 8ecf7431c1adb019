// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"iter"
	"math/bits"
)

// A ReadValues is the values of one counter or of a group of them, as read(2)
// returns them: struct read_format, whose fields depend on the attr's read_format
// (perf_output_read of kernel/events/core.c). It aliases Record.Raw.
type ReadValues struct {
	Format      ReadFormat
	TimeEnabled uint64    // nanoseconds; with ReadFormatTotalTimeEnabled
	TimeRunning uint64    // nanoseconds; with ReadFormatTotalTimeRunning
	single      ReadValue // without ReadFormatGroup
	group       []byte    // with it: {u64 value, id, lost} as Format says
	order       endian
}

// A ReadValue is the value of one counter.
type ReadValue struct {
	Value uint64
	ID    uint64 // of the event; with ReadFormatID
	Lost  uint64 // records of the event that were lost; with ReadFormatLost
}

// The fields that are there once, and those that each value has.
const (
	readTimes  = ReadFormatTotalTimeEnabled | ReadFormatTotalTimeRunning
	readFields = ReadFormatID | ReadFormatLost
	readKnown  = readTimes | readFields | ReadFormatGroup
)

// valueSize is the size of one value.
func (f ReadFormat) valueSize() int { return 8 + 8*bits.OnesCount64(uint64(f&readFields)) }

// readSize returns the size of the struct read_format that begins b, more than
// len(b) if it does not end there.
func (e endian) readSize(f ReadFormat, b []byte) uint64 {
	times := 8 * uint64(bits.OnesCount64(uint64(f&readTimes)))
	n := uint64(f.valueSize())
	if f&ReadFormatGroup == 0 {
		return n + times
	}
	return 8 + times + arraySize(e.u64(b), n, len(b))
}

// arraySize returns the size of n elements of size bytes, or room+1 if they need more than
// room bytes.
func arraySize(n, size uint64, room int) uint64 {
	if n > uint64(room)/size {
		return uint64(room) + 1
	}
	return n * size
}

// readValues decodes the struct read_format in b, whose length is that of readSize.
func (e endian) readValues(f ReadFormat, b []byte) ReadValues {
	v := ReadValues{Format: f, order: e}
	first := e.u64(b) // a group begins with the number of values, which also follows from the size
	b = b[8:]
	if f&ReadFormatTotalTimeEnabled != 0 {
		v.TimeEnabled = e.u64(b)
		b = b[8:]
	}
	if f&ReadFormatTotalTimeRunning != 0 {
		v.TimeRunning = e.u64(b)
		b = b[8:]
	}
	if f&ReadFormatGroup != 0 {
		v.group = b
	} else {
		v.single = e.readFields(f, first, b)
	}
	return v
}

// readFields decodes what follows a value.
func (e endian) readFields(f ReadFormat, value uint64, b []byte) ReadValue {
	v := ReadValue{Value: value}
	if f&ReadFormatID != 0 {
		v.ID = e.u64(b)
		b = b[8:]
	}
	if f&ReadFormatLost != 0 {
		v.Lost = e.u64(b)
	}
	return v
}

// Len returns the number of values: 1 without ReadFormatGroup.
func (v ReadValues) Len() int {
	if v.Format&ReadFormatGroup == 0 {
		return 1
	}
	return len(v.group) / v.Format.valueSize()
}

// At returns value i, in a group that of its leader first; like an index
// expression, it panics where there is none.
func (v ReadValues) At(i int) ReadValue {
	if v.Format&ReadFormatGroup == 0 {
		return [1]ReadValue{v.single}[i]
	}
	b := v.group[i*v.Format.valueSize():]
	return v.order.readFields(v.Format, v.order.u64(b), b[8:])
}

// All returns the values with their indices.
func (v ReadValues) All() iter.Seq2[int, ReadValue] {
	return func(yield func(int, ReadValue) bool) {
		for i := range v.Len() {
			if !yield(i, v.At(i)) {
				return
			}
		}
	}
}

// A Read is a READ record: the counters of a task that ends, with
// attr.inherit_stat (perf_event_read_event of kernel/events/core.c).
type Read struct {
	PID, TID uint32 // of the task; the trailer's are SampleID.PID and SampleID.TID
	Values   ReadValues
	SampleID
}

const readBody = 16 // offset of the values: header, u32 pid, tid

// Read decodes a READ record into v, without allocating. The error, where the
// record is too short or does not name its event, is a [*FormatError].
func (r *Recording) Read(rec *Record, v *Read) error {
	*v = Read{}
	if rec.Type != RecordRead {
		return r.notA(rec, RecordRead, "")
	}
	end, err := r.trailer(rec, &v.SampleID)
	if err != nil {
		return err
	}
	if v.Event == nil {
		return r.recordErr(rec, "no event of the recording has the id %d, so the format of its values is not known", v.SampleID.ID)
	}
	format := v.Event.Attr.ReadFormat
	if format&^readKnown != 0 {
		return r.unsupported(rec, "read format %#x", uint64(format))
	}
	raw, e := rec.Raw, r.endian
	if end < readBody+8 || e.readSize(format, raw[readBody:end]) > uint64(end-readBody) {
		return r.recordErr(rec, "record of %d bytes is too short", len(raw))
	}
	v.PID, v.TID = e.u32(raw[8:]), e.u32(raw[12:])
	v.Values = e.readValues(format, raw[readBody:end][:e.readSize(format, raw[readBody:end])])
	return nil
}
