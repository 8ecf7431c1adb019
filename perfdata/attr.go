// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"encoding/binary"
	"math/bits"
)

// A SampleType is the sample_type field of an attr: what a sample, and the
// trailer of every other record, carries (enum perf_event_sample_format).
type SampleType uint64

// The bits of SampleType, PERF_SAMPLE_*.
const (
	SampleIP           SampleType = 1 << iota // IP
	SampleTID                                 // TID: process and thread
	SampleTime                                // TIME
	SampleAddr                                // ADDR
	SampleRead                                // READ
	SampleCallchain                           // CALLCHAIN
	SampleEventID                             // ID: of the event
	SampleCPU                                 // CPU
	SamplePeriod                              // PERIOD
	SampleStreamID                            // STREAM_ID
	SampleRaw                                 // RAW
	SampleBranchStack                         // BRANCH_STACK
	SampleRegsUser                            // REGS_USER
	SampleStackUser                           // STACK_USER
	SampleWeight                              // WEIGHT
	SampleDataSrc                             // DATA_SRC
	SampleIdentifier                          // IDENTIFIER: the event's id at a fixed place
	SampleTransaction                         // TRANSACTION
	SampleRegsIntr                            // REGS_INTR
	SamplePhysAddr                            // PHYS_ADDR
	SampleAux                                 // AUX
	SampleCgroup                              // CGROUP
	SampleDataPageSize                        // DATA_PAGE_SIZE
	SampleCodePageSize                        // CODE_PAGE_SIZE
	SampleWeightStruct                        // WEIGHT_STRUCT
)

// A ReadFormat is the read_format field of an attr (enum perf_event_read_format).
type ReadFormat uint64

// The bits of ReadFormat, PERF_FORMAT_*.
const (
	ReadFormatTotalTimeEnabled ReadFormat = 1 << iota
	ReadFormatTotalTimeRunning
	ReadFormatID
	ReadFormatGroup
	ReadFormatLost
)

// AttrFlags are the bit-fields of struct perf_event_attr that follow
// read_format. Bit n is bit n of the little-endian C layout, whatever the
// recording's byte order.
type AttrFlags uint64

// The bits of AttrFlags, by the names of the C fields. The two bits of
// precise_ip are read by [AttrFlags.PreciseIP].
const (
	FlagDisabled               AttrFlags = 1 << 0
	FlagInherit                AttrFlags = 1 << 1
	FlagPinned                 AttrFlags = 1 << 2
	FlagExclusive              AttrFlags = 1 << 3
	FlagExcludeUser            AttrFlags = 1 << 4
	FlagExcludeKernel          AttrFlags = 1 << 5
	FlagExcludeHV              AttrFlags = 1 << 6
	FlagExcludeIdle            AttrFlags = 1 << 7
	FlagMmap                   AttrFlags = 1 << 8
	FlagComm                   AttrFlags = 1 << 9
	FlagFreq                   AttrFlags = 1 << 10
	FlagInheritStat            AttrFlags = 1 << 11
	FlagEnableOnExec           AttrFlags = 1 << 12
	FlagTask                   AttrFlags = 1 << 13
	FlagWatermark              AttrFlags = 1 << 14
	FlagMmapData               AttrFlags = 1 << 17
	FlagSampleIDAll            AttrFlags = 1 << 18
	FlagExcludeHost            AttrFlags = 1 << 19
	FlagExcludeGuest           AttrFlags = 1 << 20
	FlagExcludeCallchainKernel AttrFlags = 1 << 21
	FlagExcludeCallchainUser   AttrFlags = 1 << 22
	FlagMmap2                  AttrFlags = 1 << 23
	FlagCommExec               AttrFlags = 1 << 24
	FlagUseClockID             AttrFlags = 1 << 25
	FlagContextSwitch          AttrFlags = 1 << 26
	FlagWriteBackward          AttrFlags = 1 << 27
	FlagNamespaces             AttrFlags = 1 << 28
	FlagKSymbol                AttrFlags = 1 << 29
	FlagBPFEvent               AttrFlags = 1 << 30
	FlagAuxOutput              AttrFlags = 1 << 31
	FlagCgroup                 AttrFlags = 1 << 32
	FlagTextPoke               AttrFlags = 1 << 33
	FlagBuildID                AttrFlags = 1 << 34
	FlagInheritThread          AttrFlags = 1 << 35
	FlagRemoveOnExec           AttrFlags = 1 << 36
	FlagSigtrap                AttrFlags = 1 << 37
	FlagDeferCallchain         AttrFlags = 1 << 38
	FlagDeferOutput            AttrFlags = 1 << 39
)

const preciseIPShift = 15

// PreciseIP returns the two-bit field precise_ip, 0 to 3.
func (f AttrFlags) PreciseIP() int { return int(f>>preciseIPShift) & 3 }

// The sizes of struct perf_event_attr.
const (
	attrSizeVer0 = 64  // the first one published; the least there can be
	attrSizeMax  = 144 // PERF_ATTR_SIZE_VER9, the last one that this package knows
)

// An Attr is a struct perf_event_attr. Fields that the recorder's kernel did
// not have yet are zero.
type Attr struct {
	Type             uint32 // PERF_TYPE_*, or the number of a PMU
	Size             uint32 // as recorded; 64 where the file says 0, as the first perf did
	Config           uint64
	SamplePeriod     uint64 // in events; with FlagFreq samples a second
	SampleType       SampleType
	ReadFormat       ReadFormat
	Flags            AttrFlags
	WakeupEvents     uint32 // in samples; with FlagWatermark bytes
	BPType           uint32 // HW_BREAKPOINT_*
	Config1          uint64 // or bp_addr
	Config2          uint64 // or bp_len
	BranchSampleType uint64 // PERF_SAMPLE_BRANCH_*
	SampleRegsUser   uint64 // mask of registers
	SampleStackUser  uint32 // bytes
	ClockID          int32  // CLOCK_*, with FlagUseClockID
	SampleRegsIntr   uint64 // mask of registers
	AuxWatermark     uint32 // bytes
	SampleMaxStack   uint16 // frames
	AuxSampleSize    uint32 // bytes
	AuxAction        uint32 // aux_start_paused and so on, as stored
	SigData          uint64
	Config3          uint64
	Config4          uint64
}

// parseAttr reads a struct perf_event_attr from the start of b, as much of it
// as b, the attr's own size and this package know. b has attrSizeVer0 bytes at least.
func parseAttr(b []byte, e endian) Attr {
	size := e.u32(b[4:])
	if size == 0 {
		size = attrSizeVer0
	}
	// Cut to whole words and pad with zeros, so that the fields below need no
	// test of whether this attr has them.
	var buf [attrSizeMax]byte
	copy(buf[:], b[:min(len(b), int(min(size, attrSizeMax)))&^7])
	b = buf[:]
	return Attr{
		Type:             e.u32(b[0:]),
		Size:             size,
		Config:           e.u64(b[8:]),
		SamplePeriod:     e.u64(b[16:]),
		SampleType:       SampleType(e.u64(b[24:])),
		ReadFormat:       ReadFormat(e.u64(b[32:])),
		Flags:            e.flags(b[40:]),
		WakeupEvents:     e.u32(b[48:]),
		BPType:           e.u32(b[52:]),
		Config1:          e.u64(b[56:]),
		Config2:          e.u64(b[64:]),
		BranchSampleType: e.u64(b[72:]),
		SampleRegsUser:   e.u64(b[80:]),
		SampleStackUser:  e.u32(b[88:]),
		ClockID:          int32(e.u32(b[92:])),
		SampleRegsIntr:   e.u64(b[96:]),
		AuxWatermark:     e.u32(b[104:]),
		SampleMaxStack:   e.u16(b[108:]),
		AuxSampleSize:    e.u32(b[112:]),
		AuxAction:        e.u32(b[116:]),
		SigData:          e.u64(b[120:]),
		Config3:          e.u64(b[128:]),
		Config4:          e.u64(b[136:]),
	}
}

// encode writes the attr in the layout of the largest known size, with that size.
func (a *Attr) encode(e endian) []byte {
	b := make([]byte, attrSizeMax)
	e.put32(b[0:], a.Type)
	e.put32(b[4:], attrSizeMax)
	e.put64(b[8:], a.Config)
	e.put64(b[16:], a.SamplePeriod)
	e.put64(b[24:], uint64(a.SampleType))
	e.put64(b[32:], uint64(a.ReadFormat))
	e.putFlags(b[40:], a.Flags)
	e.put32(b[48:], a.WakeupEvents)
	e.put32(b[52:], a.BPType)
	e.put64(b[56:], a.Config1)
	e.put64(b[64:], a.Config2)
	e.put64(b[72:], a.BranchSampleType)
	e.put64(b[80:], a.SampleRegsUser)
	e.put32(b[88:], a.SampleStackUser)
	e.put32(b[92:], uint32(a.ClockID))
	e.put64(b[96:], a.SampleRegsIntr)
	e.put32(b[104:], a.AuxWatermark)
	e.put16(b[108:], a.SampleMaxStack)
	e.put32(b[112:], a.AuxSampleSize)
	e.put32(b[116:], a.AuxAction)
	e.put64(b[120:], a.SigData)
	e.put64(b[128:], a.Config3)
	e.put64(b[136:], a.Config4)
	return b
}

// flags reads the bit-fields. C compilers lay bit-fields out from the most
// significant bit on a big-endian machine, so there bit n is bit 7-n%8 of byte
// n/8; and a field of several bits then has its own bits the other way round.
func (e endian) flags(b []byte) AttrFlags {
	v := binary.LittleEndian.Uint64(b)
	if e == big {
		v = swapPreciseIP(bits.ReverseBytes64(bits.Reverse64(v)))
	}
	return AttrFlags(v)
}

func (e endian) putFlags(b []byte, f AttrFlags) {
	v := uint64(f)
	if e == big {
		v = bits.ReverseBytes64(bits.Reverse64(swapPreciseIP(v)))
	}
	binary.LittleEndian.PutUint64(b, v)
}

func swapPreciseIP(v uint64) uint64 {
	lo, hi := v>>preciseIPShift&1, v>>(preciseIPShift+1)&1
	return v&^(3<<preciseIPShift) | hi<<preciseIPShift | lo<<(preciseIPShift+1)
}
