// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import "math/bits"

// A TimeConv is a TIME_CONV record: how the CPU's counter (TSC on x86, CNTVCT
// on arm64) and perf's own clock convert into each other. The fields are those
// of struct perf_event_mmap_page.
type TimeConv struct {
	Shift, Mult, Zero uint64
	// Cycles and Mask extend a counter that wraps (CapTimeShort).
	Cycles, Mask uint64
	CapTimeZero  bool // Zero is valid
	CapTimeShort bool // the counter is short
}

// Offsets in a record; the header counts.
const (
	timeConvShort = 32 // u64 time_shift, time_mult, time_zero
	timeConvLong  = 50 // u64 time_cycles, time_mask; bool cap_user_time_zero, cap_user_time_short
)

// TimeConv decodes a TIME_CONV record into t. The error, where the record is
// too short or its factor makes no sense, is a [*FormatError].
func (r *Recording) TimeConv(rec *Record, t *TimeConv) error {
	*t = TimeConv{}
	raw, e := rec.Raw, r.endian
	if rec.Type != RecordTimeConv || len(raw) < timeConvShort {
		return r.notA(rec, RecordTimeConv, "record of %d bytes is too short", len(raw))
	}
	c := TimeConv{Shift: e.u64(raw[8:]), Mult: e.u64(raw[16:]), Zero: e.u64(raw[24:])}
	if c.Shift > 63 || c.Mult == 0 {
		return r.recordErr(rec, "counter factor %d >> %d", c.Mult, c.Shift)
	}
	// perf writes the record only where the zero is valid; the field that says
	// so came later.
	c.CapTimeZero = true
	if len(raw) >= timeConvLong {
		c.Cycles, c.Mask = e.u64(raw[32:]), e.u64(raw[40:])
		c.CapTimeZero, c.CapTimeShort = raw[48] != 0, raw[49] != 0
	}
	*t = c
	return nil
}

// ToPerf converts a counter value to nanoseconds of perf's clock, rounding
// down as the kernel does (tsc_to_perf_time of tools/perf/util/tsc.c).
func (t *TimeConv) ToPerf(counter uint64) uint64 {
	if t.CapTimeShort {
		counter = t.Cycles + (counter-t.Cycles)&t.Mask
	}
	quot := counter >> t.Shift
	rem := counter & (1<<t.Shift - 1)
	return t.Zero + quot*t.Mult + mulShift(rem, t.Mult, t.Shift)
}

// ToTSC converts nanoseconds of perf's clock to a counter value that is at
// most one tick below the first that converts back to it (perf_time_to_tsc).
// It returns 0 where Mult is 0.
func (t *TimeConv) ToTSC(perf uint64) uint64 {
	if t.Mult == 0 {
		return 0
	}
	ns := perf - t.Zero
	quot, rem := ns/t.Mult, ns%t.Mult
	// rem is less than Mult, so its high part is too, and the quotient fits.
	hi, lo := rem>>(64-t.Shift), rem<<t.Shift
	part, _ := bits.Div64(hi, lo, t.Mult)
	return quot<<t.Shift + part
}

// Frequency returns the counter's frequency in hertz, rounded to the nearest:
// that of the TSC, or of the counter that stamps an ETM's trace
// ([CoreSightCPU.VirtualTimestamps]). It returns 0 where Mult is 0 or the
// frequency does not fit.
func (t *TimeConv) Frequency() uint64 {
	// Mult / 2^Shift is the nanoseconds of a tick.
	const second = 1e9
	hi, lo := bits.Mul64(second, 1<<(t.Shift&63))
	lo, carry := bits.Add64(lo, t.Mult/2, 0)
	hi += carry
	if hi >= t.Mult {
		return 0
	}
	hz, _ := bits.Div64(hi, lo, t.Mult)
	return hz
}

// mulShift returns a*b >> s without losing the high half.
func mulShift(a, b, s uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi<<(64-s) | lo>>s
}
