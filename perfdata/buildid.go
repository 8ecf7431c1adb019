// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import "iter"

// A BuildID is the build id of a file that was mapped while samples were
// taken: a HEADER_BUILD_ID record, or an entry of the BUILD_ID section, which
// is a sequence of the same records (write_buildid of
// tools/perf/util/build-id.c). Where perf record was run with --buildid-mmap, as newer
// ones are by default, the build ids are in the MMAP2 records instead.
type BuildID struct {
	Misc     uint16 // the record's: Misc & MiscCPUModeMask says whose code the file holds
	PID      int32  // of the guest's process on the host, -1 for the host itself
	BuildID  []byte // at most 20 bytes; aliases Record.Raw or the section
	Filename []byte // likewise
}

// MiscBuildIDSize is set in the misc field of a HEADER_BUILD_ID record that has
// the length of the id (PERF_RECORD_MISC_BUILD_ID_SIZE). Without it the id has
// 20 bytes.
const MiscBuildIDSize = 1 << 15

// Offsets in a record; the header counts.
const (
	buildIDID       = 12 // s32 pid
	buildIDSize     = 32 // u8 build_id[20]
	buildIDFilename = 36 // u8 size, 3 reserved
)

// BuildID decodes a HEADER_BUILD_ID record into b, without allocating. The
// error, where the record is too short, is a [*FormatError].
func (r *Recording) BuildID(rec *Record, b *BuildID) error {
	*b = BuildID{}
	if rec.Type != RecordHeaderBuildID || len(rec.Raw) < buildIDFilename {
		return r.notA(rec, RecordHeaderBuildID, "record of %d bytes is too short", len(rec.Raw))
	}
	r.endian.buildID(rec.Raw, rec.Misc, b)
	return nil
}

// buildID decodes a record that has buildIDFilename bytes at least.
func (e endian) buildID(raw []byte, misc uint16, b *BuildID) {
	n := maxBuildID
	if misc&MiscBuildIDSize != 0 {
		n = min(int(raw[buildIDSize]), maxBuildID)
	}
	*b = BuildID{
		Misc: misc, PID: int32(e.u32(raw[8:])),
		BuildID:  raw[buildIDID : buildIDID+n : buildIDID+n],
		Filename: untilNUL(raw[buildIDFilename:]),
	}
}

// BuildIDs returns the build ids of the BUILD_ID section, none if there is no
// such section. A section that ends within an entry gives a [*FormatError] last.
func (r *Recording) BuildIDs() iter.Seq2[BuildID, error] {
	return func(yield func(BuildID, error) bool) {
		b, err := r.Feature(FeatureBuildID)
		if err != nil {
			return
		}
		for at := 0; at < len(b); {
			rest := b[at:]
			if len(rest) < headerSize {
				yield(BuildID{}, r.featureErr(FeatureBuildID, at, "%d bytes of a header", len(rest)))
				return
			}
			// The type is that of the record in pipe form, or 0 in old files.
			h := r.endian.header(rest)
			if h.size < buildIDFilename || h.size > len(rest) {
				yield(BuildID{}, r.featureErr(FeatureBuildID, at, "an entry of %d bytes, of which only %d are there", h.size, len(rest)))
				return
			}
			var id BuildID
			r.endian.buildID(rest[:h.size:h.size], h.misc, &id)
			if !yield(id, nil) {
				return
			}
			at += h.size
		}
	}
}
