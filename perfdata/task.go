// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import "bytes"

// A Mmap is an MMAP or MMAP2 record: a file, a module or the kernel itself
// that is mapped (perf_event_mmap_output of kernel/events/core.c; for kernel
// maps perf_event__synthesize_kernel_mmap and _modules of
// tools/perf/util/synthetic-events.c). Kernel maps have PID -1 (0xffffffff)
// and Record.CPUMode MiscKernel or MiscGuestKernel.
type Mmap struct {
	PID, TID uint32
	Addr     uint64
	Len      uint64 // bytes
	Pgoff    uint64 // bytes; of a kernel map the address of its reference symbol
	// Of MMAP2 only, and zero in one that has a BuildID.
	Major, Minor  uint32
	Ino           uint64
	InoGeneration uint64
	BuildID       []byte // of an MMAP2 with MiscMmapBuildID, at most 20 bytes; else nil; aliases Record.Raw
	Prot, Flags   uint32 // PROT_* and what the recorder adds; MAP_*; of MMAP2 only, and 0 in that of kernels before 3.16
	Filename      []byte // aliases Record.Raw
	SampleID
	// Excess is the number of bytes after the name and its NULs and before the
	// trailer. It is 0 in a well-formed record.
	Excess int
}

// Offsets in a record; the header counts.
const (
	mmapName   = 40 // u32 pid, tid; u64 addr, len, pgoff
	mmap2Prot  = 64 // u32 maj, min; u64 ino, ino_generation; or u8 build_id_size, 3 reserved, u8 build_id[20]
	mmap2Name  = 72 // u32 prot, flags
	mmap2Old   = 64 // of the name in MMAP2 records without prot and flags
	commName   = 16 // u32 pid, tid
	taskBody   = 32 // u32 pid, ppid, tid, ptid; u64 time
	maxBuildID = 20
)

// Mmap decodes an MMAP or MMAP2 record into m, without allocating. The error,
// where the record is too short or its name has no end, is a [*FormatError].
func (r *Recording) Mmap(rec *Record, m *Mmap) error {
	*m = Mmap{}
	if rec.Type != RecordMMAP && rec.Type != RecordMMAP2 {
		return r.notA(rec, RecordMMAP, "")
	}
	end, err := r.trailer(rec, &m.SampleID)
	if err != nil {
		return err
	}
	raw, e := rec.Raw, r.endian
	name := mmapNameAt(rec, end)
	if m.Filename, m.Excess, err = r.nameIn(rec, name, end); err != nil {
		return err
	}
	m.PID, m.TID = e.u32(raw[8:]), e.u32(raw[12:])
	m.Addr, m.Len, m.Pgoff = e.u64(raw[16:]), e.u64(raw[24:]), e.u64(raw[32:])
	if rec.Type != RecordMMAP2 {
		return nil
	}
	if name == mmap2Name {
		m.Prot, m.Flags = e.u32(raw[mmap2Prot:]), e.u32(raw[mmap2Prot+4:])
	}
	if rec.Misc&MiscMmapBuildID == 0 {
		m.Major, m.Minor = e.u32(raw[40:]), e.u32(raw[44:])
		m.Ino, m.InoGeneration = e.u64(raw[48:]), e.u64(raw[56:])
		return nil
	}
	n := min(int(raw[40]), maxBuildID)
	m.BuildID = raw[44 : 44+n : 44+n]
	return nil
}

// mmapNameAt returns where the name of an MMAP or MMAP2 record begins whose
// trailer begins at end.
//
// In an MMAP2 of kernels 3.12 to 3.15, and of kernels based on them (RHEL 7), the name
// is at the offset where later kernels have protection and flags. Neither attr nor
// record shows which it is. But protection and flags always have a byte of 0: no PROT_*
// and no MAP_* that a recorder writes has more than 24 bits. A name has no such byte
// before its end, and if it ends within these 8 bytes, the trailer follows them.
func mmapNameAt(rec *Record, end int) int {
	switch {
	case rec.Type == RecordMMAP:
		return mmapName
	case rec.Misc&MiscMmapBuildID != 0 || end < mmap2Name:
		return mmap2Name
	case end == mmap2Name || bytes.IndexByte(rec.Raw[mmap2Prot:mmap2Name], 0) < 0:
		return mmap2Old
	}
	return mmap2Name
}

// A Comm is a COMM record: a task's new name. MiscCommExec in Record.Misc is set if an
// exec caused it.
type Comm struct {
	PID, TID uint32
	Comm     []byte // aliases Record.Raw
	SampleID
	Excess int // as Mmap.Excess
}

// Comm decodes a COMM record into c, without allocating. The error, where the
// record is too short or its name has no end, is a [*FormatError].
func (r *Recording) Comm(rec *Record, c *Comm) error {
	*c = Comm{}
	if rec.Type != RecordComm {
		return r.notA(rec, RecordComm, "")
	}
	name, excess, err := r.named(rec, commName, &c.SampleID)
	if err != nil {
		return err
	}
	c.PID, c.TID = r.endian.u32(rec.Raw[8:]), r.endian.u32(rec.Raw[12:])
	c.Comm, c.Excess = name, excess
	return nil
}

// named decodes the trailer of a record whose body ends with a NUL-terminated string
// at offset at. It returns the string, and how many bytes are between its NULs and the
// trailer.
func (r *Recording) named(rec *Record, at int, id *SampleID) (name []byte, excess int, err error) {
	end, err := r.trailer(rec, id)
	if err != nil {
		return nil, 0, err
	}
	return r.nameIn(rec, at, end)
}

// nameIn is named for a record whose trailer is known to begin at end. The
// kernel and perf pad a string to 8 bytes, simpleperf to 64.
func (r *Recording) nameIn(rec *Record, at, end int) (name []byte, excess int, err error) {
	if at > end {
		return nil, 0, r.recordErr(rec, "record of %d bytes is too short", len(rec.Raw))
	}
	body := rec.Raw[at:end]
	n := bytes.IndexByte(body, 0)
	if n < 0 {
		return nil, 0, r.recordErr(rec, "the name has no end")
	}
	rest := body[n:]
	for len(rest) > 0 && rest[0] == 0 {
		rest = rest[1:]
	}
	return body[:n:n], len(rest), nil
}

// A Task is a FORK or EXIT record.
type Task struct {
	PID, PPID uint32
	TID, PTID uint32
	TaskTime  uint64 // nanoseconds, as the body has it; the trailer's is SampleID.Time
	SampleID
}

// Task decodes a FORK or EXIT record into t, without allocating. The error,
// where the record is too short, is a [*FormatError].
func (r *Recording) Task(rec *Record, t *Task) error {
	*t = Task{}
	if rec.Type != RecordFork && rec.Type != RecordExit {
		return r.notA(rec, RecordFork, "")
	}
	if err := r.fixed(rec, taskBody, &t.SampleID); err != nil {
		return err
	}
	raw, e := rec.Raw, r.endian
	t.PID, t.PPID = e.u32(raw[8:]), e.u32(raw[12:])
	t.TID, t.PTID = e.u32(raw[16:]), e.u32(raw[20:])
	t.TaskTime = e.u64(raw[24:])
	return nil
}

// fixed decodes the trailer of a record whose body has size bytes, header included.
func (r *Recording) fixed(rec *Record, size int, id *SampleID) error {
	end, err := r.trailer(rec, id)
	if err == nil && end < size {
		err = r.recordErr(rec, "record of %d bytes is too short", len(rec.Raw))
	}
	return err
}
