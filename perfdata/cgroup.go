// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

// A Cgroup is a CGROUP record: the path of a cgroup that samples name by its
// id (perf_event_cgroup_output of kernel/events/core.c; for those that were
// there already perf_event__synthesize_cgroup of
// tools/perf/util/synthetic-events.c).
type Cgroup struct {
	ID   uint64 // of the cgroup, as [Sample.Cgroup] has it; the trailer's is SampleID.ID
	Path []byte // from the root of the hierarchy on; aliases Record.Raw
	SampleID
	Excess int // as Mmap.Excess
}

const cgroupPath = 16 // offset of the path: header, u64 id

// Cgroup decodes a CGROUP record into c, without allocating. The error, where
// the record is too short or its path has no end, is a [*FormatError].
func (r *Recording) Cgroup(rec *Record, c *Cgroup) error {
	*c = Cgroup{}
	if rec.Type != RecordCgroup {
		return r.notA(rec, RecordCgroup, "")
	}
	path, excess, err := r.named(rec, cgroupPath, &c.SampleID)
	if err != nil {
		return err
	}
	c.ID, c.Path, c.Excess = r.endian.u64(rec.Raw[8:]), path, excess
	return nil
}
