// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/perfdata"
)

// sampleType is what each record ends with. All events have the same, so that one reader
// finds the fields of any record (struct sample_id of uapi/linux/perf_event.h).
const sampleType = perfdata.SampleTID | perfdata.SampleTime | perfdata.SampleCPU | perfdata.SampleIdentifier

// sideBand returns the event that records what the kernel does with its text. It counts
// nothing: PERF_COUNT_SW_DUMMY exists for such records.
func sideBand() *perfdata.Event {
	return &perfdata.Event{Name: "dummy:u", Attr: perfdata.Attr{
		Type:       unix.PERF_TYPE_SOFTWARE,
		Config:     unix.PERF_COUNT_SW_DUMMY,
		SampleType: sampleType,
		ReadFormat: perfdata.ReadFormatID | perfdata.ReadFormatLost,
		Flags: perfdata.FlagSampleIDAll | perfdata.FlagExcludeKernel | perfdata.FlagTask | perfdata.FlagComm |
			perfdata.FlagCommExec | perfdata.FlagKSymbol | perfdata.FlagBPFEvent | perfdata.FlagTextPoke |
			perfdata.FlagUseClockID | perfdata.FlagWatermark,
		ClockID:      unix.CLOCK_MONOTONIC,
		SamplePeriod: 1,
	}}
}

// tracepointEvent returns the event that records each hit of a tracepoint, and then wakes the
// recorder.
func tracepointEvent(name string, id uint64) *perfdata.Event {
	return &perfdata.Event{Name: name, Attr: perfdata.Attr{
		Type:         unix.PERF_TYPE_TRACEPOINT,
		Config:       id,
		SampleType:   sampleType | perfdata.SampleRaw | perfdata.SamplePeriod,
		ReadFormat:   perfdata.ReadFormatID | perfdata.ReadFormatLost,
		Flags:        perfdata.FlagSampleIDAll | perfdata.FlagUseClockID,
		WakeupEvents: 1,
		ClockID:      unix.CLOCK_MONOTONIC,
		SamplePeriod: 1,
	}}
}

// openEvent is open. Tests replace it.
var openEvent = open

// open opens an event on a CPU, for all tasks. The caller closes fd. Kernels before 6.0 do not
// count lost records: then open removes that flag from e.Attr.ReadFormat.
func open(e *perfdata.Event, cpu int) (fd int, err error) {
	for {
		a := &e.Attr
		attr := unix.PerfEventAttr{
			Type: a.Type, Config: a.Config, Sample: a.SamplePeriod,
			Sample_type: uint64(a.SampleType), Read_format: uint64(a.ReadFormat), Bits: flagBits(binary.NativeEndian, a.Flags),
			Wakeup: a.WakeupEvents, Clockid: a.ClockID,
		}
		attr.Size = uint32(unsafe.Sizeof(attr))
		fd, err = unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		if errors.Is(err, unix.EINVAL) && a.ReadFormat&perfdata.ReadFormatLost != 0 && len(e.IDs) == 0 {
			a.ReadFormat &^= perfdata.ReadFormatLost
			continue
		}
		if err != nil {
			return -1, fmt.Errorf("perf_event_open of %s on CPU %d: %w", e.Name, cpu, err)
		}
		return fd, nil
	}
}

// flagBits returns the bit-fields of struct perf_event_attr as one number in this byte order.
// Compilers lay bit-fields out from the most significant bit on a big-endian machine. The fields
// of several bits are 0 here.
func flagBits(order binary.ByteOrder, f perfdata.AttrFlags) uint64 {
	if order.Uint16([]byte{0, 1}) == 1 {
		return bits.Reverse64(uint64(f))
	}
	return uint64(f)
}

// eventID returns the id of an open event, which its records carry.
func eventID(fd int) (id uint64, err error) {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.PERF_EVENT_IOC_ID, uintptr(unsafe.Pointer(&id)))
	if errno != 0 {
		return 0, fmt.Errorf("PERF_EVENT_IOC_ID: %w", errno)
	}
	return id, nil
}

// lostRecords returns how many records of an open event the kernel has dropped.
func lostRecords(fd int, a *perfdata.Attr) (uint64, error) {
	if a.ReadFormat&perfdata.ReadFormatLost == 0 {
		return 0, nil
	}
	var values [3]uint64 // value, id, lost: struct read_format
	b := unsafe.Slice((*byte)(unsafe.Pointer(&values)), unsafe.Sizeof(values))
	n, err := unix.Read(fd, b)
	if err != nil || n != len(b) {
		return 0, fmt.Errorf("read of an event's counts: %d bytes, %w", n, err)
	}
	return values[2], nil
}
