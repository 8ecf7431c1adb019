// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

// A ThreadMap is a THREAD_MAP record: the tasks that perf was asked to record
// (perf_event__synthesize_thread_map2 of tools/perf/util/synthetic-events.c).
type ThreadMap struct {
	Threads []ThreadMapEntry
}

// A ThreadMapEntry is one task of a [ThreadMap].
type ThreadMapEntry struct {
	PID  int64  // -1: any
	Comm []byte // aliases Record.Raw
}

const (
	threadMapEntries = 16 // header, u64 nr
	threadMapEntry   = 24 // u64 pid, char comm[16]
)

// ThreadMap decodes a THREAD_MAP record into m, whose slice is used again. The
// error, where the record is too short for its entries, is a [*FormatError].
func (r *Recording) ThreadMap(rec *Record, m *ThreadMap) error {
	m.Threads = m.Threads[:0]
	raw := rec.Raw
	if rec.Type != RecordThreadMap || len(raw) < threadMapEntries {
		return r.notA(rec, RecordThreadMap, "record of %d bytes is too short", len(raw))
	}
	nr, b := r.endian.u64(raw[8:]), raw[threadMapEntries:]
	if nr > uint64(len(b)/threadMapEntry) {
		return r.recordErr(rec, "%d tasks do not fit in %d bytes", nr, len(raw))
	}
	for range nr {
		m.Threads = append(m.Threads, ThreadMapEntry{PID: int64(r.endian.u64(b)), Comm: untilNUL(b[8:threadMapEntry])})
		b = b[threadMapEntry:]
	}
	return nil
}
