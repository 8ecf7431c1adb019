// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package rawperf

// A Type is the type of a record, PERF_RECORD_*.
type Type uint32

const (
	TypeMmap        Type = 1
	TypeLost        Type = 2
	TypeComm        Type = 3
	TypeExit        Type = 4
	TypeFork        Type = 7
	TypeSample      Type = 9
	TypeMmap2       Type = 10
	TypeLostSamples Type = 13
	TypeKSymbol     Type = 17
	TypeBPFEvent    Type = 18
	TypeTextPoke    Type = 20

	TypeHeaderAttr    Type = 64
	TypeTracingData   Type = 66
	TypeFinishedRound Type = 68
	TypeIDIndex       Type = 69
	TypeThreadMap     Type = 73
	TypeCPUMap        Type = 74
	TypeEventUpdate   Type = 78
	TypeTimeConv      Type = 79
	TypeFeature       Type = 80
	TypeCompressed    Type = 81
	TypeFinishedInit  Type = 82
	TypeCompressed2   Type = 83
	TypeBPFMetadata   Type = 84
)

// Bits of a record's misc.
const (
	MiscKernel      = 1
	MiscUser        = 2
	MiscCommExec    = 0x2000
	MiscMmapBuildID = 0x4000
)

// HeaderSize is the size of the header of every record.
const HeaderSize = 8

// Header encodes the header of a record of size bytes.
func (f Format) Header(t Type, misc uint16, size int) []byte {
	return f.buffer().u32(uint32(t)).u16(misc, uint16(size)).b
}

// Record encodes a record whose body follows the header and ends with tail, for
// example the trailer of a record of the kernel.
func (f Format) Record(t Type, misc uint16, body, tail []byte) []byte {
	b := f.Header(t, misc, HeaderSize+len(body)+len(tail))
	return append(append(b, body...), tail...)
}

// A SampleID is what the trailer of a record says: where, when, and for which event
// the kernel made the record.
type SampleID struct {
	PID, TID uint32
	Time     uint64
	ID       uint64
	CPU      uint32
}

// Trailer encodes the part of s that sample_type names, as
// __perf_event__output_id_sample (kernel/events/core.c) does.
func (f Format) Trailer(sampleType uint64, s SampleID) []byte {
	w := f.buffer()
	w.sampleID(sampleType, s)
	if sampleType&WithIdentifier != 0 {
		w.u64(s.ID)
	}
	return w.b
}

// sampleID appends what a sample and a trailer have in the same order.
func (w *buffer) sampleID(sampleType uint64, s SampleID) {
	if sampleType&WithTID != 0 {
		w.u32(s.PID, s.TID)
	}
	if sampleType&WithTime != 0 {
		w.u64(s.Time)
	}
	if sampleType&WithID != 0 {
		w.u64(s.ID)
	}
	if sampleType&WithStreamID != 0 {
		w.u64(s.ID)
	}
	if sampleType&WithCPU != 0 {
		w.u32(s.CPU, 0)
	}
}

// Sample encodes the body of a SAMPLE, as far as it is made here: the fields of fixed
// size, and the call chain and the raw data if sample_type has them.
func (f Format) Sample(sampleType uint64, s SampleID, ip, period uint64, chain []uint64, raw []byte) []byte {
	w := f.buffer()
	if sampleType&WithIdentifier != 0 {
		w.u64(s.ID)
	}
	if sampleType&WithIP != 0 {
		w.u64(ip)
	}
	w.sampleID(sampleType, s)
	if sampleType&WithPeriod != 0 {
		w.u64(period)
	}
	if sampleType&WithCallchain != 0 {
		w.u64(uint64(len(chain))).u64(chain...)
	}
	if sampleType&WithRaw != 0 {
		w.u32(uint32(len(raw) + (4-len(raw)%8+8)%8)).bytes(raw).align(8)
	}
	return w.b
}

// TextPoke encodes the body of a TEXT_POKE.
func (f Format) TextPoke(addr uint64, old, new []byte) []byte {
	return f.buffer().u64(addr).u16(uint16(len(old)), uint16(len(new))).bytes(old).bytes(new).align(8).b
}

// Types and flags of KSYMBOL records.
const (
	KSymbolBPF        = 1
	KSymbolOutOfLine  = 2
	KSymbolUnregister = 1
)

// KSymbol encodes the body of a KSYMBOL.
func (f Format) KSymbol(addr uint64, length uint32, kind, flags uint16, name string) []byte {
	return f.buffer().u64(addr).u32(length).u16(kind, flags).name(name).b
}

// Types of BPF_EVENT records.
const (
	BPFLoad   = 1
	BPFUnload = 2
)

// BPFEvent encodes the body of a BPF_EVENT.
func (f Format) BPFEvent(kind uint16, id uint32, tag [8]byte) []byte {
	return f.buffer().u16(kind, 0).u32(id).bytes(tag[:]).b
}

// Comm encodes the body of a COMM.
func (f Format) Comm(pid, tid uint32, comm string) []byte {
	return f.buffer().u32(pid, tid).name(comm).b
}

// Task encodes the body of a FORK or an EXIT.
func (f Format) Task(pid, ppid, tid, ptid uint32, time uint64) []byte {
	return f.buffer().u32(pid, ppid, tid, ptid).u64(time).b
}

// Lost encodes the body of a LOST.
func (f Format) Lost(id, lost uint64) []byte { return f.buffer().u64(id, lost).b }

// LostSamples encodes the body of a LOST_SAMPLES.
func (f Format) LostSamples(lost uint64) []byte { return f.buffer().u64(lost).b }

// Mmap encodes the body of a MMAP.
func (f Format) Mmap(pid, tid uint32, addr, length, pgoff uint64, name string) []byte {
	return f.buffer().u32(pid, tid).u64(addr, length, pgoff).name(name).b
}

// MmapBuildID encodes the body of a MMAP2 with a build id, whose misc has
// MiscMmapBuildID.
func (f Format) MmapBuildID(pid, tid uint32, addr, length, pgoff uint64, buildID []byte, prot uint32, name string) []byte {
	id := make([]byte, 20)
	n := copy(id, buildID)
	return f.buffer().u32(pid, tid).u64(addr, length, pgoff).u8(uint8(n), 0, 0, 0).bytes(id).u32(prot, 0).name(name).b
}

// Mmap2 encodes the body of a MMAP2 of a file of no device.
func (f Format) Mmap2(pid, tid uint32, addr, length, pgoff uint64, prot uint32, name string) []byte {
	return f.buffer().u32(pid, tid).u64(addr, length, pgoff).u32(0, 0).u64(0, 0).u32(prot, 0).name(name).b
}

// An IndexEntry is an entry of ID_INDEX.
type IndexEntry struct{ ID, Idx, CPU, TID uint64 }

// IDIndex encodes the body of an ID_INDEX. sized adds the second table, of machines,
// that perf writes since 6.0.
func (f Format) IDIndex(entries []IndexEntry, sized bool) []byte {
	w := f.buffer().u64(uint64(len(entries)))
	for _, e := range entries {
		w.u64(e.ID, e.Idx, e.CPU, e.TID)
	}
	if sized {
		for range entries {
			w.u64(0, 0)
		}
	}
	return w.b
}

// ThreadMap encodes the body of a THREAD_MAP of one entry.
func (f Format) ThreadMap(pid uint64, comm string) []byte {
	return f.buffer().u64(1, pid).text(comm, 16).b
}

// CPUMap encodes the body of a CPU_MAP as a list of CPUs.
func (f Format) CPUMap(cpus []int) []byte {
	w := f.buffer().u16(0, uint16(len(cpus)))
	for _, c := range cpus {
		w.u16(uint16(c))
	}
	return w.align(8).b
}

// CPUMask encodes the body of a CPU_MAP as a bitmap of longs of 8 bytes. The bitmap is
// aligned in its struct, which is not aligned itself.
func (f Format) CPUMask(cpus []int) []byte {
	var mask uint64
	for _, c := range cpus {
		mask |= 1 << c
	}
	return f.buffer().u16(1, 1, 8).u32(0).u64(mask).align(8).b
}

// EventUpdateCPUs encodes the body of an EVENT_UPDATE that names the CPUs of an event.
func (f Format) EventUpdateCPUs(id uint64, cpuMap []byte) []byte {
	return f.buffer().u64(3, id).bytes(cpuMap).align(8).b
}

// EventUpdateName encodes the body of an EVENT_UPDATE that names an event.
func (f Format) EventUpdateName(id uint64, name string) []byte {
	return f.buffer().u64(2, id).name(name).b
}

// TimeConv encodes the body of a TIME_CONV.
func (f Format) TimeConv(shift, mult, zero uint64) []byte {
	return f.buffer().u64(shift, mult, zero, 0, 0).u8(1, 0).align(8).b
}

// BPFMetadata encodes the body of a BPF_METADATA with one entry.
func (f Format) BPFMetadata(prog, key, value string) []byte {
	return f.buffer().text(prog, 512).u64(1).text(key, 64).text(value, 256).b
}

// HeaderAttr encodes the body of the record by which a pipe names an event.
func (f Format) HeaderAttr(a *Attr, ids []uint64) []byte {
	return f.buffer().bytes(f.Attr(a)).u64(ids...).b
}

// FeatureRecord encodes the body of the record by which a pipe carries a feature.
func (f Format) FeatureRecord(feature Feature, section []byte) []byte {
	return f.buffer().u64(uint64(feature)).bytes(section).align(8).b
}

// TracingDataRecord encodes the record by which a pipe carries the formats of
// tracepoints, and the data that follows the record.
func (f Format) TracingDataRecord(data []byte) []byte {
	rec := f.Record(TypeTracingData, 0, f.buffer().u32(uint32(len(data))).b, nil)
	return f.buffer().bytes(rec).bytes(f.buffer().bytes(data).align(8).b).b
}

// Compressed2 encodes a COMPRESSED2 record of these compressed bytes.
func (f Format) Compressed2(data []byte) []byte {
	return f.Record(TypeCompressed2, 0, f.buffer().u64(uint64(len(data))).bytes(data).align(8).b, nil)
}
