// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

// An IDIndex is an ID_INDEX record: on which CPU or task each event id was opened.
type IDIndex struct {
	Entries []IDIndexEntry
}

// An IDIndexEntry is one id of an [IDIndex].
type IDIndexEntry struct {
	ID  uint64 // of the event's instance
	Idx uint64 // of the ring buffer
	CPU int64  // -1: any
	TID int64  // -1: any
	// Of recordings into which a guest's was injected (perf inject --guest-data);
	// otherwise 0 and -1.
	MachinePID int64
	VCPU       int64
}

const (
	idIndexEntries = 16 // offset of the entries: header, u64 nr
	idIndexEntry   = 32 // u64 id, idx, cpu, tid
	idIndexGuest   = 16 // u64 machine_pid, vcpu, in a second table
)

// IDIndex decodes an ID_INDEX record into x, whose slice is used again. The
// error, where the record is too short for its entries, is a [*FormatError].
func (r *Recording) IDIndex(rec *Record, x *IDIndex) error {
	x.Entries = x.Entries[:0]
	raw, e := rec.Raw, r.endian
	if rec.Type != RecordIDIndex || len(raw) < idIndexEntries {
		return r.notA(rec, RecordIDIndex, "record of %d bytes is too short", len(raw))
	}
	nr := e.u64(raw[8:])
	b := raw[idIndexEntries:]
	if nr > uint64(len(b)/idIndexEntry) {
		return r.recordErr(rec, "%d entries do not fit in %d bytes", nr, len(raw))
	}
	guest := b[int(nr)*idIndexEntry:]
	if len(guest) < int(nr)*idIndexGuest {
		guest = nil
	}
	for i := range int(nr) {
		b := b[i*idIndexEntry:]
		entry := IDIndexEntry{
			ID: e.u64(b), Idx: e.u64(b[8:]), CPU: int64(e.u64(b[16:])), TID: int64(e.u64(b[24:])),
			VCPU: -1,
		}
		if guest != nil {
			entry.MachinePID = int64(e.u64(guest[i*idIndexGuest:]))
			entry.VCPU = int64(e.u64(guest[i*idIndexGuest+8:]))
		}
		x.Entries = append(x.Entries, entry)
	}
	return nil
}
