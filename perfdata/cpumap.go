// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import "math/bits"

// A CPUMap is a CPU_MAP record: the CPUs that perf was asked to record.
type CPUMap struct {
	CPUs []int // in the order of the record, which perf writes ascending
	Any  bool  // "any CPU" is among them: events of tasks
}

// The types of a CPU_MAP.
const (
	cpuMapTypeCPUs  = 0 // PERF_CPU_MAP__CPUS
	cpuMapTypeMask  = 1 // PERF_CPU_MAP__MASK
	cpuMapTypeRange = 2 // PERF_CPU_MAP__RANGE_CPUS
)

// Offsets in struct perf_record_cpu_map_data, which is packed; the u16 type counts.
const (
	cpuMapNr       = 2
	cpuMapCPUs     = 4 // u16 cpu[nr]
	cpuMapLongSize = 4
	cpuMapMask32   = 6
	cpuMapMask64   = 10 // after 4 bytes of padding
	cpuMapAny      = 2
	cpuMapStart    = 4
	cpuMapEnd      = 6
	cpuMapRange    = 8 // its size
)

const anyCPU = 0xffff // -1 as a u16

// CPUMap decodes a CPU_MAP record of any of its three types into m, whose
// slice is used again. The error, where the record is too short, is a
// [*FormatError]; for a type not known it wraps [ErrUnsupported].
func (r *Recording) CPUMap(rec *Record, m *CPUMap) error {
	m.CPUs, m.Any = m.CPUs[:0], false
	if rec.Type != RecordCPUMap || len(rec.Raw) < headerSize+cpuMapRange {
		return r.notA(rec, RecordCPUMap, "record of %d bytes is too short", len(rec.Raw))
	}
	return r.cpuMap(rec, rec.Raw[headerSize:], m)
}

// cpuMap appends the CPUs of the struct perf_record_cpu_map_data that data begins with.
func (r *Recording) cpuMap(rec *Record, data []byte, m *CPUMap) error {
	if len(data) < cpuMapRange {
		return r.recordErr(rec, "record of %d bytes is too short", len(rec.Raw))
	}
	e := r.endian
	nr := int(e.u16(data[cpuMapNr:]))
	switch typ := e.u16(data); typ {
	case cpuMapTypeCPUs:
		b := data[cpuMapCPUs:]
		if nr > len(b)/2 {
			return r.recordErr(rec, "%d CPUs do not fit in %d bytes", nr, len(rec.Raw))
		}
		for i := range nr {
			if cpu := e.u16(b[2*i:]); cpu == anyCPU {
				m.Any = true
			} else {
				m.CPUs = append(m.CPUs, int(cpu))
			}
		}
	case cpuMapTypeMask:
		long := int(e.u16(data[cpuMapLongSize:]))
		at := cpuMapMask32
		if long == 8 {
			at = cpuMapMask64
		} else if long != 4 {
			return r.recordErr(rec, "mask of words of %d bytes", long)
		}
		if at+nr*long > len(data) {
			return r.recordErr(rec, "mask of %d words does not fit in %d bytes", nr, len(rec.Raw))
		}
		for i := range nr {
			var word uint64
			if long == 8 {
				word = e.u64(data[at+8*i:])
			} else {
				word = uint64(e.u32(data[at+4*i:]))
			}
			for ; word != 0; word &= word - 1 {
				m.CPUs = append(m.CPUs, i*long*8+bits.TrailingZeros64(word))
			}
		}
	case cpuMapTypeRange:
		m.Any = data[cpuMapAny] != 0
		for cpu := int(e.u16(data[cpuMapStart:])); cpu <= int(e.u16(data[cpuMapEnd:])); cpu++ {
			m.CPUs = append(m.CPUs, cpu)
		}
	default:
		return r.unsupported(rec, "CPU map type %d", typ)
	}
	return nil
}

// cpuMapSize returns the size in bytes of the map of CPUs that data begins with, or more
// than len(data) if the map does not end there. data has at least cpuMapCPUs bytes.
func (e endian) cpuMapSize(data []byte) int {
	nr := int(e.u16(data[cpuMapNr:]))
	switch e.u16(data) {
	case cpuMapTypeCPUs:
		return cpuMapCPUs + 2*nr
	case cpuMapTypeMask:
		if len(data) < cpuMapMask32 {
			break
		}
		switch e.u16(data[cpuMapLongSize:]) {
		case 4:
			return cpuMapMask32 + 4*nr
		case 8:
			return cpuMapMask64 + 8*nr
		}
	case cpuMapTypeRange:
		return cpuMapRange
	}
	return len(data) + 1
}
