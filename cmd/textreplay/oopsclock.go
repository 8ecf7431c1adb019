// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A printkClock converts printk's times to those of the recording.
//
// printk calls local_clock(), and perf does so too unless -k names another clock. With
// CLOCK_MONOTONIC the two begin within a second at boot: sched_clock runs before the
// timekeeping does. Later, NTP slews CLOCK_MONOTONIC, by at most 500 ppm
// (MAXFREQ_SCALED in include/linux/timex.h).
type printkClock struct {
	r           *replay.Replay
	at          replay.Times // of the first report
	atGiven     bool
	offset      int64
	offsetGiven bool
	first       uint64 // printk's time of the first report
	hasFirst    bool

	// least is the least time from printk to the journal's reading, on CLOCK_MONOTONIC.
	least    int64
	hasLeast bool
}

// see takes a line into account that has both the journal's time and printk's.
func (c *printkClock) see(l *logLine) {
	if l.printk == noTime || l.received == noTime {
		return
	}
	if d := int64(l.received - l.printk); !c.hasLeast || d < c.least {
		c.least, c.hasLeast = d, true
	}
}

// reaches reports whether a time of printk and the offset make a time of the recording's clock.
func (c *printkClock) reaches(t uint64) bool {
	sum := int64(t) + c.offset
	return t <= math.MaxInt64 && sum >= 0 && (c.offset < 0 || sum >= c.offset)
}

// times returns the interval of a line's time, and how it was found. If the line has no
// time that can be converted, it is the whole recording.
func (c *printkClock) times(l *logLine) (replay.Times, string) {
	const (
		us       = 1000
		boot     = 1e9       // the clocks differ by at most this at boot
		slew     = 2000      // 1/slew is 500 ppm
		reading  = 200 * 1e6 // journald reads a message within this time
		delivery = 2 * 1e9   // and syslog writes it
	)
	rep := c.r.Report
	around := func(t, before, after uint64) replay.Times {
		return replay.Times{From: t - min(t, before), To: t + min(timeline.MaxTime-t, after)}
	}
	shift := func(t uint64, by int64) uint64 {
		if by < 0 {
			return t - min(t, uint64(-by))
		}
		return t + min(timeline.MaxTime-t, uint64(by))
	}
	skew := rep.ClockUncertainty
	switch {
	case c.atGiven && l.printk != noTime && c.hasFirst:
		by := int64(l.printk - c.first)
		return replay.Times{From: shift(c.at.From, by), To: shift(shift(c.at.To, by), us)}, "--at"
	case c.atGiven:
		return c.at, "--at"
	case c.offsetGiven && l.printk != noTime:
		return around(shift(l.printk, c.offset), skew, skew+us), "printk, --offset"
	case l.printk != noTime && rep.Clock.Name == "perf":
		return around(l.printk, skew, skew+us), "printk"
	case l.printk != noTime && rep.Clock.Name == "CLOCK_MONOTONIC" && c.hasLeast:
		return around(shift(l.printk, c.least), reading, us), "printk, by the journal's CLOCK_MONOTONIC"
	case l.printk != noTime && (rep.Clock.Name == "CLOCK_MONOTONIC" || rep.Clock.Name == "CLOCK_MONOTONIC_RAW"):
		by := boot + l.printk/slew
		return around(l.printk, by, by+us), "printk"
	case l.received != noTime && rep.Clock.Name == "CLOCK_MONOTONIC":
		return around(l.received, delivery, us), "the journal's CLOCK_MONOTONIC"
	case !l.wall.IsZero():
		if t, err := rep.Clock.Wall(l.wall); err == nil {
			return around(t, delivery, uint64(l.wallUnit)), "wall-clock time"
		}
	}
	return replay.Times{From: rep.First, To: max(rep.First, rep.Horizon)}, ""
}
