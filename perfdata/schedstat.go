// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

// The records of perf sched stats record: lines of /proc/schedstat, whose
// fields Documentation/scheduler/sched-stats.rst explains. Versions 15, 16 and
// 17 are known (tools/lib/perf/include/perf/schedstat-v*.h).

// A SchedstatCPU is a SCHEDSTAT_CPU record.
type SchedstatCPU struct {
	Timestamp                uint64 // jiffies
	CPU                      uint32
	Version                  uint16
	YieldCount               uint32
	ArrayExp                 uint32 // legacy, always 0
	SchedCount, SchedGoIdle  uint32
	WakeupCount, WakeupLocal uint32
	RunTime, RunDelay        uint64 // nanoseconds
	Timeslices               uint64
}

// A SchedstatDomain is a SCHEDSTAT_DOMAIN record.
type SchedstatDomain struct {
	Timestamp                               uint64 // jiffies
	CPU                                     uint32
	Version                                 uint16
	Domain                                  uint16
	Busy, Idle, NewIdle                     SchedstatBalance
	ActiveCount, ActiveFailed, ActivePushed uint32
	ExecCount, ExecBalanced, ExecPushed     uint32 // not used by the kernel
	ForkCount, ForkBalanced, ForkPushed     uint32 // not used by the kernel
	WakeRemote, WakeAffine, WakeBalance     uint32
}

// A SchedstatBalance counts the calls of load_balance in one state of the CPU.
type SchedstatBalance struct {
	Count, Balanced, Failed        uint32
	Imbalance                      uint32 // until version 16; then by what it is in
	ImbalanceLoad, ImbalanceUtil   uint32
	ImbalanceTask, ImbalanceMisfit uint32
	Gained, HotGained              uint32
	NoBusierQueue, NoBusierGroup   uint32
}

const (
	schedstatFields    = 24 // header, u64 timestamp, u32 cpu, u16 version, u16 domain or padding
	schedstatCPUBody   = 72 // six u32, three u64
	schedstatOldest    = 15
	schedstatBusyFirst = 16 // from this version on; before it idle came first
	schedstatSplit     = 17 // from this version on there are four kinds of imbalance
	schedstatNewest    = 17
)

// SchedstatCPU decodes a SCHEDSTAT_CPU record into s, without allocating. The
// error, where the record is too short, is a [*FormatError]; for a version not
// known it wraps [ErrUnsupported], and the fields up to Version are set.
func (r *Recording) SchedstatCPU(rec *Record, s *SchedstatCPU) error {
	*s = SchedstatCPU{}
	raw, e := rec.Raw, r.endian
	if rec.Type != RecordSchedstatCPU || len(raw) < schedstatFields {
		return r.notA(rec, RecordSchedstatCPU, "record of %d bytes is too short", len(raw))
	}
	s.Timestamp, s.CPU, s.Version = e.u64(raw[8:]), e.u32(raw[16:]), e.u16(raw[20:])
	if s.Version < schedstatOldest || s.Version > schedstatNewest {
		return r.unsupported(rec, "version %d", s.Version)
	}
	if len(raw) < schedstatCPUBody {
		return r.recordErr(rec, "record of %d bytes is too short", len(raw))
	}
	c := cursor{b: raw, off: schedstatFields, order: e}
	s.YieldCount, s.ArrayExp = c.u32(), c.u32()
	s.SchedCount, s.SchedGoIdle = c.u32(), c.u32()
	s.WakeupCount, s.WakeupLocal = c.u32(), c.u32()
	s.RunTime, s.RunDelay, s.Timeslices = c.u64(), c.u64(), c.u64()
	return nil
}

// SchedstatDomain decodes a SCHEDSTAT_DOMAIN record into s, without
// allocating. Errors are as those of [Recording.SchedstatCPU].
func (r *Recording) SchedstatDomain(rec *Record, s *SchedstatDomain) error {
	*s = SchedstatDomain{}
	raw, e := rec.Raw, r.endian
	if rec.Type != RecordSchedstatDomain || len(raw) < schedstatFields {
		return r.notA(rec, RecordSchedstatDomain, "record of %d bytes is too short", len(raw))
	}
	s.Timestamp, s.CPU, s.Version, s.Domain = e.u64(raw[8:]), e.u32(raw[16:]), e.u16(raw[20:]), e.u16(raw[22:])
	if s.Version < schedstatOldest || s.Version > schedstatNewest {
		return r.unsupported(rec, "version %d", s.Version)
	}
	c := cursor{b: raw, off: schedstatFields, order: e}
	balance := func(b *SchedstatBalance) {
		b.Count, b.Balanced, b.Failed = c.u32(), c.u32(), c.u32()
		if s.Version >= schedstatSplit {
			b.ImbalanceLoad, b.ImbalanceUtil, b.ImbalanceTask, b.ImbalanceMisfit = c.u32(), c.u32(), c.u32(), c.u32()
		} else {
			b.Imbalance = c.u32()
		}
		b.Gained, b.HotGained, b.NoBusierQueue, b.NoBusierGroup = c.u32(), c.u32(), c.u32(), c.u32()
	}
	if s.Version >= schedstatBusyFirst {
		balance(&s.Busy)
		balance(&s.Idle)
	} else {
		balance(&s.Idle)
		balance(&s.Busy)
	}
	balance(&s.NewIdle)
	s.ActiveCount, s.ActiveFailed, s.ActivePushed = c.u32(), c.u32(), c.u32()
	s.ExecCount, s.ExecBalanced, s.ExecPushed = c.u32(), c.u32(), c.u32()
	s.ForkCount, s.ForkBalanced, s.ForkPushed = c.u32(), c.u32(), c.u32()
	s.WakeRemote, s.WakeAffine, s.WakeBalance = c.u32(), c.u32(), c.u32()
	if c.short {
		*s = SchedstatDomain{}
		return r.recordErr(rec, "record of %d bytes is too short", len(raw))
	}
	return nil
}
