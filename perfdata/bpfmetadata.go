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
// which has been 256 and 512. The record does not hold that length: it is the
// power of two whose number of entries fits in the record. perf leaves room for
// a trailer behind the entries (machine->id_hdr_size).
func (r *Recording) BPFMetadata(rec *Record, m *BPFMetadata) error {
	*m = BPFMetadata{Entries: m.Entries[:0]}
	raw := rec.Raw
	if rec.Type != RecordBPFMetadata || len(raw) < headerSize+8 {
		return r.notA(rec, RecordBPFMetadata, "record of %d bytes is too short", len(raw))
	}
	for width := bpfMetadataName; headerSize+width+8 <= len(raw); width *= 2 {
		at := headerSize + width
		n, b := r.endian.u64(raw[at:]), raw[at+8:]
		if n > uint64(len(b)/bpfMetadataEntry) || len(b)-int(n)*bpfMetadataEntry > maxTrailer {
			continue
		}
		m.ProgName = untilNUL(raw[headerSize:at])
		for ; n > 0; n-- {
			m.Entries = append(m.Entries, BPFMetadataEntry{
				Key:   untilNUL(b[:bpfMetadataKey]),
				Value: untilNUL(b[bpfMetadataKey:bpfMetadataEntry]),
			})
			b = b[bpfMetadataEntry:]
		}
		return nil
	}
	return r.recordErr(rec, "no number of entries accounts for %d bytes", len(raw))
}
