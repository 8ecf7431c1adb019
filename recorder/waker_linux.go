// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/perfdata"
)

// The recorder must fetch the code of a BPF program at once, and that of a trampoline after a poke.
// Other records, such as those of tasks, can wait for the next round. To be woken takes more CPU
// time than to take a record. The kernel wakes a reader by the number of bytes in the ring buffer,
// whatever they are. So each CPU has one more event, the waker, with a small ring buffer of its own:
//
//	dummy event of CPU N    all records               wakes when wakePart of the buffer is new
//	tracepoints of CPU N    into the same buffer      each sample wakes
//	waker of CPU N          BPF_EVENT, TEXT_POKE      each record wakes; nobody reads them
//
// The waker is opened first: the kernel gives a record to the newest event first
// (attach_sb_event() of kernel/events/core.c). So when the recorder is woken, the record is there.

// wakePart is the part of a ring buffer after which the kernel wakes the recorder, as a divisor.
const wakePart = 8

// wakerEvent returns the event that wakes the recorder. Its records end without the fields of
// sampleType, so that they make the records of other events no longer (ring.trimmed).
func wakerEvent() *perfdata.Event {
	return &perfdata.Event{Name: "dummy:u", Attr: perfdata.Attr{
		Type:         unix.PERF_TYPE_SOFTWARE,
		Config:       unix.PERF_COUNT_SW_DUMMY,
		Flags:        perfdata.FlagExcludeKernel | perfdata.FlagBPFEvent | perfdata.FlagTextPoke | perfdata.FlagWatermark,
		WakeupEvents: 1, // bytes
		SamplePeriod: 1,
	}}
}

// openWaker opens the waker of a CPU.
func openWaker(cpu int) (*ring, error) {
	fd, err := openEvent(wakerEvent(), cpu)
	if err != nil {
		return nil, err
	}
	w, err := mapRing(fd, cpu, 1)
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	w.fds = []int{fd}
	return w, nil
}
