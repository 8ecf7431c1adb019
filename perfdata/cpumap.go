// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"fmt"
	"math/bits"
)

// A CPUMap is a CPU_MAP record: the CPUs that perf was asked to record.
type CPUMap struct {
	CPUs []int // ascending as recorded
	Any  bool  // "any CPU" is among them: events of tasks
}

// The types of a CPU_MAP.
const (
	cpuMapTypeCPUs  = 0 // PERF_CPU_MAP__CPUS
	cpuMapTypeMask  = 1 // PERF_CPU_MAP__MASK
	cpuMapTypeRange = 2 // PERF_CPU_MAP__RANGE_CPUS
)

// Offsets in a record; the header and the u16 type count. The struct is packed.
const (
	cpuMapNr       = 10
	cpuMapCPUs     = 12 // u16 cpu[nr]
	cpuMapLongSize = 12
	cpuMapMask32   = 14
	cpuMapMask64   = 18 // after 4 bytes of padding
	cpuMapAny      = 10
	cpuMapStart    = 12
	cpuMapEnd      = 14
	cpuMapRange    = 16 // its size
)

const anyCPU = 0xffff // -1 as a u16

// CPUMap decodes a CPU_MAP record of any of its three types into m, whose
// slice is used again. The error, where the record is too short, is a
// [*FormatError]; for a type not known it wraps [ErrUnsupported].
func (r *Recording) CPUMap(rec *Record, m *CPUMap) error {
	m.CPUs, m.Any = m.CPUs[:0], false
	raw, e := rec.Raw, r.endian
	if rec.Type != RecordCPUMap || len(raw) < cpuMapRange {
		return r.notA(rec, RecordCPUMap, "record of %d bytes is too short", len(raw))
	}
	nr := int(e.u16(raw[cpuMapNr:]))
	switch typ := e.u16(raw[8:]); typ {
	case cpuMapTypeCPUs:
		b := raw[cpuMapCPUs:]
		if nr > len(b)/2 {
			return r.recordErr(rec, "%d CPUs do not fit in %d bytes", nr, len(raw))
		}
		for i := range nr {
			if cpu := e.u16(b[2*i:]); cpu == anyCPU {
				m.Any = true
			} else {
				m.CPUs = append(m.CPUs, int(cpu))
			}
		}
	case cpuMapTypeMask:
		long := int(e.u16(raw[cpuMapLongSize:]))
		at := cpuMapMask32
		if long == 8 {
			at = cpuMapMask64
		} else if long != 4 {
			return r.recordErr(rec, "mask of words of %d bytes", long)
		}
		if at+nr*long > len(raw) {
			return r.recordErr(rec, "mask of %d words does not fit in %d bytes", nr, len(raw))
		}
		for i := range nr {
			var word uint64
			if long == 8 {
				word = e.u64(raw[at+8*i:])
			} else {
				word = uint64(e.u32(raw[at+4*i:]))
			}
			for ; word != 0; word &= word - 1 {
				m.CPUs = append(m.CPUs, i*long*8+bits.TrailingZeros64(word))
			}
		}
	case cpuMapTypeRange:
		m.Any = raw[cpuMapAny] != 0
		for cpu := int(e.u16(raw[cpuMapStart:])); cpu <= int(e.u16(raw[cpuMapEnd:])); cpu++ {
			m.CPUs = append(m.CPUs, cpu)
		}
	default:
		return &FormatError{File: r.fileName(rec.File), Offset: rec.Offset, Record: rec.Type, Msg: fmt.Sprintf("CPU map type %d", typ), Err: ErrUnsupported}
	}
	return nil
}
