// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// Clock is the clock of a recording's times.
type Clock struct {
	// Name is "perf" for perf's own clock, otherwise the clock of `perf record -k`:
	// "CLOCK_MONOTONIC", ...
	Name string

	conv    *perfdata.TimeConv
	data    *perfdata.ClockData
	ownTime bool // perf's own clock
	noWall  string
}

// Clocks of `perf record -k`, as in include/uapi/linux/time.h.
const (
	clockRealtime     = 0
	clockMonotonic    = 1
	clockMonotonicRaw = 4
	clockBoottime     = 7
	clockTAI          = 11
)

var clockNames = map[int32]string{
	clockRealtime: "CLOCK_REALTIME", clockMonotonic: "CLOCK_MONOTONIC", clockMonotonicRaw: "CLOCK_MONOTONIC_RAW",
	clockBoottime: "CLOCK_BOOTTIME", clockTAI: "CLOCK_TAI",
}

// timekeeperTick is by how much two CPUs may read a clock of the kernel's timekeeping
// differently, in nanoseconds, with much to spare. They read one counter, but one of them
// may still count from the tick before (ktime_get_mono_fast_ns in
// kernel/time/timekeeping.c), so they differ by less than a tick, of 10 ms at most.
const timekeeperTick = 10e6

// clocksWithin returns by how many nanoseconds the times of two CPUs can differ at most;
// false if that is not known: perf's own clock is one of each CPU, and CLOCK_REALTIME and
// CLOCK_TAI can be set.
func clocksWithin(events []*perfdata.Event) (uint64, bool) {
	for _, e := range events {
		if e.Attr.Flags&perfdata.FlagUseClockID == 0 {
			return 0, false
		}
		switch e.Attr.ClockID {
		case clockMonotonic, clockMonotonicRaw, clockBoottime:
		default:
			return 0, false
		}
	}
	return timekeeperTick, len(events) > 0
}

// leastSkew returns by how many nanoseconds the times of two CPUs are taken to differ as soon as any records show
// that they do: records show by how much at least.
func (s *scan) leastSkew() uint64 {
	if most, ok := clocksWithin(s.rec.Events()); ok && s.machine == 0 {
		return min(most, timeline.AssumedSkew)
	}
	return timeline.AssumedSkew
}

// finishReport sets what the report says of an image.
func (s *scan) finishReport(im *timeline.Image) {
	s.report.finish(im)
	s.report.ClockUncertainty = s.uncertainty(s.report.ClockUncertainty, s.report.Skews)
}

// uncertainty returns Report.ClockUncertainty: by is how far the clock was set back.
func (s *scan) uncertainty(by uint64, skews []timeline.Skew) uint64 {
	seen := by
	for i := range skews {
		seen = max(seen, skews[i].By())
	}
	if seen > by {
		return max(seen, s.leastSkew())
	}
	return by
}

// clocksMayDiffer reports whether each CPU has its own clock, and nothing shows that they agree:
// on x86-64, perf's own clock where the kernel does not say how to convert it from the CPUs'
// counter (TIME_CONV). The kernel does so only if that counter is one for all CPUs
// (arch_perf_update_userpage() in arch/x86/events/core.c). perf inject keeps the host's
// conversion only.
func (s *scan) clocksMayDiffer() bool {
	own := slices.ContainsFunc(s.rec.Events(), func(e *perfdata.Event) bool { return e.Attr.Flags&perfdata.FlagUseClockID == 0 })
	return own && s.arch.hasOwnClocks() && (s.report.Clock.conv == nil || s.machine != 0)
}

// cpusMayDiffer is clocksMayDiffer for a machine that has, or may have, several CPUs.
func (s *scan) cpusMayDiffer() bool { return s.clocksMayDiffer() && s.report.CPUsAvailable != 1 }

// describe sets the clock from the attrs of the events and from CLOCK_DATA. TIME_CONV is a
// record, which the scan reads.
func (c *Clock) describe(rec *perfdata.Recording) {
	c.Name, c.ownTime = "perf", true
	id := int32(-1)
	for _, e := range rec.Events() {
		if e.Attr.Flags&perfdata.FlagUseClockID == 0 {
			continue
		}
		id, c.ownTime = e.Attr.ClockID, false
		if c.Name = clockNames[id]; c.Name == "" {
			c.Name = fmt.Sprintf("clock %d", id)
		}
	}
	data, err := rec.ClockData()
	switch {
	case c.ownTime:
		c.noWall = "the recording is on perf's own clock, which does not convert to wall-clock time (record with perf record -k CLOCK_MONOTONIC)"
	case err != nil:
		c.noWall = "the recording has no CLOCK_DATA"
	case int32(data.ClockID) != id:
		c.noWall = fmt.Sprintf("the recording's CLOCK_DATA is of clock %d, its times of %s", data.ClockID, c.Name)
	default:
		c.data = &data
	}
}

// Converts returns why the recording has no conversion of counter values, which [Clock.TSC] makes; nil if it has one.
func (c *Clock) Converts() error {
	switch {
	case !c.ownTime:
		return fmt.Errorf("the recording is on %s; only times of perf's own clock convert from a counter", c.Name)
	case c.conv == nil:
		return errors.New("the recording has no TIME_CONV record, so counter values cannot be converted")
	}
	return nil
}

// TSC converts a counter value (TSC on x86, CNTVCT on arm64) to the recording's
// time, in nanoseconds. If the recording has no conversion, or if the value is before
// the clock's zero, before those that a short counter converts, or after the clock's last
// time, 2^63 ns, the error says so.
func (c *Clock) TSC(tsc uint64) (uint64, error) {
	if err := c.Converts(); err != nil {
		return 0, err
	}
	t := c.conv.ToPerf(tsc)
	switch behind := (tsc - c.conv.Cycles) & c.conv.Mask; {
	case c.conv.CapTimeShort && behind > c.conv.Mask/2:
		// The kernel's formula takes it for one after the counter has wrapped, years later.
		return 0, fmt.Errorf("the recording converts counter values from %#x on", c.conv.Cycles)
	case t < 1<<63:
		return t, nil
	case c.conv.Zero >= 1<<63 && tsc < 1<<63: // a negative number, see [perfdata.TimeConv]
		return 0, errors.New("that is before the clock's zero")
	}
	return 0, errors.New("that is after all times of the clock")
}

// Conversion returns how [Clock.TSC] converts; false if it cannot.
func (c *Clock) Conversion() (perfdata.TimeConv, bool) {
	if !c.ownTime || c.conv == nil {
		return perfdata.TimeConv{}, false
	}
	return *c.conv, true
}

// Wall converts wall-clock time to the recording's time, in nanoseconds. If the
// recording has no conversion, the error says why.
func (c *Clock) Wall(t time.Time) (uint64, error) {
	if c.data == nil {
		return 0, fmt.Errorf("%s", c.noWall)
	}
	// In steps that cannot overflow: a time may be of any year.
	d := t.Sub(time.Unix(0, int64(c.data.WallNS)))
	switch {
	case d < 0 && uint64(-d) > c.data.ClockNS:
		return 0, fmt.Errorf("%s is before the zero of the recording's clock, %s", t.Format(time.RFC3339Nano),
			time.Unix(0, int64(c.data.WallNS-c.data.ClockNS)).UTC().Format(time.RFC3339Nano))
	case d == math.MaxInt64:
		return 0, fmt.Errorf("%s is too late", t.Format(time.RFC3339Nano))
	}
	return c.data.ClockNS + uint64(d), nil
}

// ToWall converts the recording's time, in nanoseconds, to wall-clock time. The errors are
// those of Wall.
func (c *Clock) ToWall(t uint64) (time.Time, error) {
	if c.data == nil {
		return time.Time{}, fmt.Errorf("%s", c.noWall)
	}
	return time.Unix(0, int64(c.data.WallNS+t-c.data.ClockNS)).UTC(), nil
}

// setBack returns the most by which the clock was set back while perf recorded, in
// nanoseconds, or 0. It also returns the times that the clock may have shown twice.
//
// All CPUs share one clock. A CPU's records show less than the whole step: the time
// between the two records is missing. The CPU was silent for that time, so the time is
// at most the CPU's longest silence. The step is therefore at most the largest step that
// any CPU shows, plus that silence:
//
//	clock                shown          silent
//	  ── before ─────────┤├── after ──┤
//	  the next record's:  └── shown twice ──┘
func (s *scan) setBack() (by uint64, twice []timeline.Interval) {
	by, twice = s.setBackTo(timeline.MaxTime)
	if by > 0 {
		s.warn(fmt.Errorf("the clock was set back by up to %s: bytes that close to a change are uncertain", seconds(by)))
	}
	return by, twice
}

// setBackTo is setBack for the steps to a time before t.
func (s *scan) setBackTo(t uint64) (by uint64, twice []timeline.Interval) {
	silent := uint64(0)
	for _, b := range s.buffers {
		silent = max(silent, b.longest)
	}
	for _, b := range s.buffers {
		for _, x := range b.tasks.steps {
			if x.after < t {
				by = max(by, timeline.Later(x.before-x.after, silent))
				twice = append(twice, timeline.Interval{From: x.after - min(x.after, silent), To: timeline.Later(timeline.Later(x.before, silent), 1)})
			}
		}
	}
	return by, twice
}

// UncertaintyBefore returns what Report.ClockUncertainty is by the records of times before t alone: by the
// skews that these show, and the steps of the clock to such times. It also returns the times that the clock
// may have shown twice.
func (r *Replay) UncertaintyBefore(t uint64) (by uint64, twice []timeline.Interval) {
	s := r.scanned()
	by, twice = s.setBackTo(t)
	before := slices.DeleteFunc(slices.Clone(r.Report.Skews), func(x timeline.Skew) bool { return x.First >= t })
	return s.uncertainty(by, before), twice
}
