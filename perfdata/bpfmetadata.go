// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

// A BPFMetadata is a BPF_METADATA record: the strings that a BPF program has in
// variables named bpf_metadata_* (synthesize_perf_record_bpf_metadata of
// tools/perf/util/bpf-event.c).
type BPFMetadata struct {
	ProgName []byte // as the KSYMBOL has it; aliases Record.Raw
	Entries  []BPFMetadataEntry
}

// A BPFMetadataEntry is one variable; both fields alias Record.Raw.
type BPFMetadataEntry struct {
	Key   []byte // the variable's name without bpf_metadata_
	Value []byte
}

const (
	bpfMetadataName  = 64  // no KSYM_NAME_LEN has been less than 128
	bpfMetadataKey   = 64  // BPF_METADATA_KEY_LEN
	bpfMetadataEntry = 320 // and BPF_METADATA_VALUE_LEN
)

// BPFMetadata decodes a BPF_METADATA record into m, whose slice is used again.
// The error, where the entries do not fit in the record, is a [*FormatError].
//
// The record begins with the program's name in an array of KSYM_NAME_LEN bytes,
// which has been 256 and 512 and does not stand in the record: the array is
// taken to be what number and size of the entries leave, a power of two.
func (r *Recording) BPFMetadata(rec *Record, m *BPFMetadata) error {
	*m = BPFMetadata{Entries: m.Entries[:0]}
	raw := rec.Raw
	if rec.Type != RecordBPFMetadata || len(raw) < headerSize+8 {
		return r.notA(rec, RecordBPFMetadata, "record of %d bytes is too short", len(raw))
	}
	// The number stands before the entries: find the one that counts those behind it.
	for n := (len(raw) - headerSize - 8) / bpfMetadataEntry; n >= 0; n-- {
		at := len(raw) - n*bpfMetadataEntry
		width := at - 8 - headerSize
		if width < bpfMetadataName || width&(width-1) != 0 || r.endian.u64(raw[at-8:]) != uint64(n) {
			continue
		}
		m.ProgName = untilNUL(raw[headerSize : at-8])
		for b := raw[at:]; len(b) > 0; b = b[bpfMetadataEntry:] {
			m.Entries = append(m.Entries, BPFMetadataEntry{
				Key:   untilNUL(b[:bpfMetadataKey]),
				Value: untilNUL(b[bpfMetadataKey:bpfMetadataEntry]),
			})
		}
		return nil
	}
	return r.recordErr(rec, "no number of entries accounts for %d bytes", len(raw))
}
