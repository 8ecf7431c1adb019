// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

// A Namespaces is a NAMESPACES record: the namespaces of a task
// (perf_event_namespaces_output of kernel/events/core.c).
type Namespaces struct {
	PID, TID uint32
	Links    []NamespaceLink // indexed by NamespaceNet and so on
	SampleID
}

// The indices of Namespaces.Links (enum of *_NS_INDEX in
// include/uapi/linux/perf_event.h).
const (
	NamespaceNet    = 0
	NamespaceUTS    = 1
	NamespaceIPC    = 2
	NamespacePID    = 3
	NamespaceUser   = 4
	NamespaceMount  = 5
	NamespaceCgroup = 6
)

// A NamespaceLink is the file in /proc/PID/ns that represents a namespace.
type NamespaceLink struct {
	Dev, Inode uint64
}

const (
	namespacesLinks = 24 // offset of the links: header, u32 pid, tid; u64 nr
	namespacesLink  = 16 // u64 dev, inode
)

// Namespaces decodes a NAMESPACES record into n, whose slice is used again. The
// error, where the record is too short, is a [*FormatError].
func (r *Recording) Namespaces(rec *Record, n *Namespaces) error {
	*n = Namespaces{Links: n.Links[:0]}
	if rec.Type != RecordNamespaces {
		return r.notA(rec, RecordNamespaces, "")
	}
	end, err := r.trailer(rec, &n.SampleID)
	if err != nil {
		return err
	}
	if end < namespacesLinks {
		return r.recordErr(rec, "record of %d bytes is too short", len(rec.Raw))
	}
	raw, e := rec.Raw, r.endian
	nr, b := e.u64(raw[16:]), raw[namespacesLinks:end]
	if nr > uint64(len(b)/namespacesLink) {
		return r.recordErr(rec, "%d namespaces do not fit in %d bytes", nr, len(raw))
	}
	n.PID, n.TID = e.u32(raw[8:]), e.u32(raw[12:])
	for range nr {
		n.Links = append(n.Links, NamespaceLink{Dev: e.u64(b), Inode: e.u64(b[8:])})
		b = b[namespacesLink:]
	}
	return nil
}
