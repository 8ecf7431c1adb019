// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"io"
	"iter"
)

// An Auxtrace is an AUXTRACE record: a piece of trace out of the AUX area of a
// ring buffer, which follows the record and is not counted in its size
// ([Scanner.Payload]; auxtrace_mmap__read of tools/perf/util/auxtrace.c).
type Auxtrace struct {
	Size      uint64 // bytes of trace that follow the record
	Offset    uint64 // of the piece among all trace of its buffer; pieces of snapshots may overlap
	Reference uint64 // random number that pieces of the same moment have in common
	Idx       uint32 // the queue: index of the ring buffer
	TID       uint32 // of the task; 0xffffffff, or 0 in old recordings, if it is the trace of a CPU
	CPU       uint32 // 0xffffffff if it is the trace of a task on whatever CPU
}

const auxtraceBody = 48 // header, u64 size, offset, reference, u32 idx, tid, cpu, reserved

// Auxtrace decodes an AUXTRACE record into a, without allocating. The error,
// where the record is too short, is a [*FormatError].
func (r *Recording) Auxtrace(rec *Record, a *Auxtrace) error {
	*a = Auxtrace{}
	raw, e := rec.Raw, r.endian
	if rec.Type != RecordAuxtrace || len(raw) < auxtraceBody {
		return r.notA(rec, RecordAuxtrace, "record of %d bytes is too short", len(raw))
	}
	*a = Auxtrace{
		Size: e.u64(raw[8:]), Offset: e.u64(raw[16:]), Reference: e.u64(raw[24:]),
		Idx: e.u32(raw[32:]), TID: e.u32(raw[36:]), CPU: e.u32(raw[40:]),
	}
	return nil
}

// An AuxtraceSection is a piece of trace with its record.
type AuxtraceSection struct {
	Auxtrace
	File int    // index in Recording.Files
	At   int64  // offset of Data in that file
	Data []byte // the trace; aliases the recording's memory; shorter than Size only at the end of a cut file
}

// AuxtraceSections returns the pieces of trace in the order of the file. It
// reads only the records, not the trace itself. If the recording is damaged,
// the last element is an error; see [Scanner.Err].
func (r *Recording) AuxtraceSections() iter.Seq2[AuxtraceSection, error] {
	return func(yield func(AuxtraceSection, error) bool) {
		s := r.Scan(Only(RecordAuxtrace), KeepCompressed())
		for s.Next() {
			rec := s.Record()
			sec := AuxtraceSection{File: rec.File, At: rec.Offset + int64(len(rec.Raw)), Data: s.Payload()}
			err := r.Auxtrace(rec, &sec.Auxtrace)
			if !yield(sec, err) {
				return
			}
		}
		if err := s.Err(); err != nil {
			yield(AuxtraceSection{}, err)
		}
	}
}

// An AuxtraceQueue is the trace of one ring buffer: of a CPU, or of a task, or
// of a task on one CPU.
type AuxtraceQueue struct {
	Idx, TID, CPU uint32 // as in [Auxtrace]
	Sections      []AuxtraceSection
}

// AuxtraceQueues returns the trace by ring buffer: the queues in the order in
// which they first appear, and the pieces of each in the order of the file. An
// error comes with what could be read.
func (r *Recording) AuxtraceQueues() ([]AuxtraceQueue, error) {
	type key struct{ idx, tid, cpu uint32 }
	index := make(map[key]int)
	var queues []AuxtraceQueue
	var first error
	for sec, err := range r.AuxtraceSections() {
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		k := key{sec.Idx, sec.TID, sec.CPU}
		i, ok := index[k]
		if !ok {
			i = len(queues)
			index[k] = i
			queues = append(queues, AuxtraceQueue{Idx: sec.Idx, TID: sec.TID, CPU: sec.CPU})
		}
		queues[i].Sections = append(queues[i].Sections, sec)
	}
	return queues, first
}

// Size returns the bytes of trace in the queue.
func (q *AuxtraceQueue) Size() int64 {
	var n int64
	for i := range q.Sections {
		n += int64(len(q.Sections[i].Data))
	}
	return n
}

// Reader returns a reader of the queue's pieces one after the other.
func (q *AuxtraceQueue) Reader() io.Reader {
	readers := make([]io.Reader, len(q.Sections))
	for i := range q.Sections {
		readers[i] = bytes.NewReader(q.Sections[i].Data)
	}
	return io.MultiReader(readers...)
}

// An AuxtraceIndexEntry says where an AUXTRACE record is.
type AuxtraceIndexEntry struct {
	Offset uint64 // of the record in the file
	Size   uint64 // of the record without the trace that follows it, bytes
}

const auxtraceIndexEntry = 16 // u64 file_offset, sz

// AuxtraceIndex returns the AUXTRACE section, an index of the AUXTRACE records
// (auxtrace_index__write of tools/perf/util/auxtrace.c). It is out of date
// where records were moved since.
func (r *Recording) AuxtraceIndex() ([]AuxtraceIndexEntry, error) {
	c, err := r.feature(FeatureAuxtrace)
	if err != nil {
		return nil, err
	}
	// perf has their number first; simpleperf has not.
	nr := uint64(len(c.b) / auxtraceIndexEntry)
	if len(c.b)%auxtraceIndexEntry != 0 || nr == 0 {
		nr = c.u64()
	}
	var list []AuxtraceIndexEntry
	for range nr {
		en := AuxtraceIndexEntry{Offset: c.u64(), Size: c.u64()}
		if c.short {
			break
		}
		list = append(list, en)
	}
	return list, r.shortErr(FeatureAuxtrace, c)
}

// An AuxtraceError is an AUXTRACE_ERROR record: perf found that trace was lost
// or could not be decoded (auxtrace_synth_error of tools/perf/util/auxtrace.c;
// perf inject writes them).
type AuxtraceError struct {
	Type, Code    uint32 // Type 1: instruction trace (PERF_AUXTRACE_ERROR_ITRACE); Code is the decoder's
	CPU, PID, TID uint32
	IP            uint64
	Time          uint64 // nanoseconds; 0 in the records of old perfs, which have none
	Msg           []byte // aliases Record.Raw
	MachinePID    uint32 // of the guest, 0 for the host
	VCPU          uint32
}

// Offsets in a record; the header counts.
const (
	auxtraceErrorFmt    = 28 // u32 type, code, cpu, pid, tid
	auxtraceErrorTime   = 40 // u32 fmt, u64 ip; with fmt 0 the message
	auxtraceErrorMsg    = 48
	auxtraceErrorMsgLen = 64 // MAX_AUXTRACE_ERROR_MSG
)

// AuxtraceError decodes an AUXTRACE_ERROR record of any of its formats into a,
// without allocating. The error, where the record is too short, is a
// [*FormatError].
func (r *Recording) AuxtraceError(rec *Record, a *AuxtraceError) error {
	*a = AuxtraceError{}
	raw, e := rec.Raw, r.endian
	if rec.Type != RecordAuxtraceError || len(raw) < auxtraceErrorTime {
		return r.notA(rec, RecordAuxtraceError, "record of %d bytes is too short", len(raw))
	}
	format := e.u32(raw[auxtraceErrorFmt:])
	msg := auxtraceErrorTime
	if format >= 1 {
		msg = auxtraceErrorMsg
	}
	guest := msg + auxtraceErrorMsgLen // u32 machine_pid, vcpu
	if len(raw) < msg || format >= 2 && len(raw) < guest+8 {
		return r.recordErr(rec, "record of %d bytes is too short for its format %d", len(raw), format)
	}
	*a = AuxtraceError{
		Type: e.u32(raw[8:]), Code: e.u32(raw[12:]),
		CPU: e.u32(raw[16:]), PID: e.u32(raw[20:]), TID: e.u32(raw[24:]),
		IP:  e.u64(raw[32:]),
		Msg: untilNUL(raw[msg:min(guest, len(raw))]),
	}
	if format >= 1 {
		a.Time = e.u64(raw[auxtraceErrorTime:])
	}
	if format >= 2 {
		a.MachinePID, a.VCPU = e.u32(raw[guest:]), e.u32(raw[guest+4:])
	}
	return nil
}
