// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

// The records of perf stat record (tools/perf/builtin-stat.c).

// A StatConfig is a STAT_CONFIG record: how counts are to be shown.
type StatConfig struct {
	Terms []StatConfigTerm
}

// A StatConfigTerm is one setting of a [StatConfig].
type StatConfigTerm struct {
	Tag, Value uint64 // StatConfigAggrMode and so on
}

// The tags of a StatConfigTerm (PERF_STAT_CONFIG_TERM__*).
const (
	StatConfigAggrMode = 0 // enum aggr_mode of tools/perf/util/stat.h
	StatConfigInterval = 1 // milliseconds
	StatConfigScale    = 2 // 1: counts are scaled by the times
	StatConfigAggrLvl  = 3
)

const (
	statConfigTerms = 16 // header, u64 nr
	statConfigTerm  = 16 // u64 tag, val
)

// StatConfig decodes a STAT_CONFIG record into c, whose slice is used again.
// The error, where the record is too short for its terms, is a [*FormatError].
func (r *Recording) StatConfig(rec *Record, c *StatConfig) error {
	c.Terms = c.Terms[:0]
	raw, e := rec.Raw, r.endian
	if rec.Type != RecordStatConfig || len(raw) < statConfigTerms {
		return r.notA(rec, RecordStatConfig, "record of %d bytes is too short", len(raw))
	}
	nr, b := e.u64(raw[8:]), raw[statConfigTerms:]
	if nr > uint64(len(b)/statConfigTerm) {
		return r.recordErr(rec, "%d terms do not fit in %d bytes", nr, len(raw))
	}
	for range nr {
		c.Terms = append(c.Terms, StatConfigTerm{Tag: e.u64(b), Value: e.u64(b[8:])})
		b = b[statConfigTerm:]
	}
	return nil
}

// A Stat is a STAT record: the count of one event on one CPU and one task.
type Stat struct {
	ID      uint64 // of the event
	CPU     uint32 // index in the event's CPU map, not the CPU's number
	Thread  uint32 // index in the thread map
	Value   uint64
	Enabled uint64 // nanoseconds
	Running uint64 // nanoseconds
}

const statBody = 48 // header, u64 id, u32 cpu, thread, u64 val, ena, run

// Stat decodes a STAT record into s, without allocating. The error, where the
// record is too short, is a [*FormatError].
func (r *Recording) Stat(rec *Record, s *Stat) error {
	*s = Stat{}
	raw, e := rec.Raw, r.endian
	if rec.Type != RecordStat || len(raw) < statBody {
		return r.notA(rec, RecordStat, "record of %d bytes is too short", len(raw))
	}
	*s = Stat{
		ID: e.u64(raw[8:]), CPU: e.u32(raw[16:]), Thread: e.u32(raw[20:]),
		Value: e.u64(raw[24:]), Enabled: e.u64(raw[32:]), Running: e.u64(raw[40:]),
	}
	return nil
}

// A StatRound is a STAT_ROUND record: the counts of an interval are complete.
type StatRound struct {
	Kind uint64 // StatRoundInterval, StatRoundFinal
	Time uint64 // nanoseconds since the start; of the last round how long the workload ran
}

// The kinds of STAT_ROUND (PERF_STAT_ROUND_TYPE__*).
const (
	StatRoundInterval = 0
	StatRoundFinal    = 1
)

const statRoundBody = 24 // header, u64 type, time

// StatRound decodes a STAT_ROUND record into s, without allocating. The error,
// where the record is too short, is a [*FormatError].
func (r *Recording) StatRound(rec *Record, s *StatRound) error {
	*s = StatRound{}
	if rec.Type != RecordStatRound || len(rec.Raw) < statRoundBody {
		return r.notA(rec, RecordStatRound, "record of %d bytes is too short", len(rec.Raw))
	}
	s.Kind, s.Time = r.endian.u64(rec.Raw[8:]), r.endian.u64(rec.Raw[16:])
	return nil
}
