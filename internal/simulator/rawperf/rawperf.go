// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package rawperf writes perf.data byte by byte, as the Linux kernel and perf do:
// attributes, records, features, and the file and pipe containers. It is written
// from their sources (include/uapi/linux/perf_event.h, tools/perf/util/header.c) and
// shares no code with package perfdata, which it is a test of.
package rawperf

import (
	"encoding/binary"
	"math/bits"
)

// A ByteOrder is binary.LittleEndian or binary.BigEndian.
type ByteOrder interface {
	binary.ByteOrder
	binary.AppendByteOrder
}

// A Format is what all bytes of a recording depend on.
type Format struct {
	Order ByteOrder
}

// A buffer appends numbers in a byte order.
type buffer struct {
	b     []byte
	order ByteOrder
}

func (f Format) buffer() *buffer { return &buffer{order: f.Order} }

func (w *buffer) u8(v ...uint8) *buffer { w.b = append(w.b, v...); return w }

func (w *buffer) u16(v ...uint16) *buffer {
	for _, x := range v {
		w.b = w.order.AppendUint16(w.b, x)
	}
	return w
}

func (w *buffer) u32(v ...uint32) *buffer {
	for _, x := range v {
		w.b = w.order.AppendUint32(w.b, x)
	}
	return w
}

func (w *buffer) u64(v ...uint64) *buffer {
	for _, x := range v {
		w.b = w.order.AppendUint64(w.b, x)
	}
	return w
}

func (w *buffer) bytes(v []byte) *buffer { w.b = append(w.b, v...); return w }

// text appends s, cut to less than size bytes, in a field of size bytes.
func (w *buffer) text(s string, size int) *buffer {
	field := make([]byte, size)
	copy(field[:size-1], s)
	return w.bytes(field)
}

// name appends s with its NUL, padded to 8 bytes.
func (w *buffer) name(s string) *buffer { return w.bytes([]byte(s)).u8(0).align(8) }

func (w *buffer) align(n int) *buffer {
	for len(w.b)%n != 0 {
		w.b = append(w.b, 0)
	}
	return w
}

// Flags are the bit-fields of struct perf_event_attr that follow read_format, the
// first one in bit 0.
type Flags uint64

const (
	Disabled      Flags = 1 << 0
	Inherit       Flags = 1 << 1
	ExcludeKernel Flags = 1 << 5
	ExcludeHV     Flags = 1 << 6
	Mmap          Flags = 1 << 8
	Comm          Flags = 1 << 9
	Freq          Flags = 1 << 10
	EnableOnExec  Flags = 1 << 12
	Task          Flags = 1 << 13
	SampleIDAll   Flags = 1 << 18
	ExcludeGuest  Flags = 1 << 20
	Mmap2         Flags = 1 << 23
	CommExec      Flags = 1 << 24
	UseClockID    Flags = 1 << 25
	WriteBackward Flags = 1 << 27
	KSymbol       Flags = 1 << 29
	BPFEvent      Flags = 1 << 30
	TextPoke      Flags = 1 << 33
	BuildID       Flags = 1 << 34
)

// Bits of attr.sample_type.
const (
	WithIP         = 1 << 0
	WithTID        = 1 << 1
	WithTime       = 1 << 2
	WithCallchain  = 1 << 5
	WithID         = 1 << 6
	WithCPU        = 1 << 7
	WithPeriod     = 1 << 8
	WithStreamID   = 1 << 9
	WithRaw        = 1 << 10
	WithIdentifier = 1 << 16
)

// Bits of attr.read_format.
const (
	ReadID   = 1 << 2
	ReadLost = 1 << 4
)

// An Attr is a struct perf_event_attr.
type Attr struct {
	Type       uint32
	Size       uint32 // of the struct in the recording
	Config     uint64
	Period     uint64 // sample_period, or sample_freq with Freq
	SampleType uint64
	ReadFormat uint64
	Flags      Flags
	ClockID    int32
}

// Has reports whether all of these flags are set.
func (a *Attr) Has(f Flags) bool { return a.Flags&f == f }

// Attr encodes an attribute.
func (f Format) Attr(a *Attr) []byte {
	w := f.buffer().u32(a.Type, a.Size).u64(a.Config, a.Period, a.SampleType, a.ReadFormat)
	w.bytes(f.bitFields(uint64(a.Flags)))
	w.u32(1, 0)       // wakeup_events, bp_type
	w.u64(0, 0, 0, 0) // bp_addr, bp_len, branch_sample_type, sample_regs_user
	w.u32(0).u32(uint32(a.ClockID))
	for len(w.b) < int(a.Size) {
		w.u8(0)
	}
	return w.b[:a.Size]
}

// bitFields returns the 8 bytes that the compiler makes of 64 one-bit fields: they
// begin with the least significant bit of the first byte on little-endian
// machines, with the most significant one on big-endian machines.
func (f Format) bitFields(v uint64) []byte {
	b := binary.LittleEndian.AppendUint64(nil, v)
	if f.Order == ByteOrder(binary.BigEndian) {
		for i := range b {
			b[i] = bits.Reverse8(b[i])
		}
	}
	return b
}
