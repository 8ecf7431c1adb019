// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kernel

// A Clock gives the times of records.
type Clock struct {
	Base       uint64  // the reading at boot
	Offset     []int64 // of each CPU
	Resolution uint64  // readings are multiples of it; 0 and 1 are exact
	Steps      []ClockStep
}

// A ClockStep is a time at which somebody sets the clock.
type ClockStep struct {
	At uint64 // true time
	By int64
}

// Read returns what a CPU's clock shows at a true time.
func (c *Clock) Read(cpu int, at uint64) uint64 {
	t := c.Base + at
	if cpu < len(c.Offset) {
		t += uint64(c.Offset[cpu])
	}
	for _, s := range c.Steps {
		if at >= s.At {
			t += uint64(s.By)
		}
	}
	if c.Resolution > 1 {
		t -= t % c.Resolution
	}
	return t
}

// Tick widens an interval of true time to all times at which a coarse clock shows the
// same.
func (c *Clock) Tick(from, to uint64) (uint64, uint64) {
	if c.Resolution <= 1 {
		return from, to
	}
	from -= min(from, (c.Base+from)%c.Resolution)
	return from, to + c.Resolution - 1 - (c.Base+to)%c.Resolution
}

// An Interval is a half-open interval of true time.
type Interval struct{ From, To uint64 }

// Surely returns the true times at which every CPU's clock shows a time of [since,
// until).
func (c *Clock) Surely(since, until uint64) []Interval { return c.shown(since, until, true) }

// Maybe returns the true times at which some CPU's clock may show a time of [since,
// until).
func (c *Clock) Maybe(since, until uint64) []Interval { return c.shown(since, until, false) }

func (c *Clock) shown(since, until uint64, surely bool) []Interval {
	lo, hi := int64(0), int64(0) // the clocks' spread
	for _, o := range c.Offset {
		lo, hi = min(lo, o), max(hi, o)
	}
	if c.Resolution > 1 {
		lo -= int64(c.Resolution) - 1
	}
	if !surely {
		lo, hi = hi, lo
	}
	var out []Interval
	var at, shift uint64 // of the piece between two steps
	for i := range len(c.Steps) + 1 {
		end := uint64(forever)
		if i < len(c.Steps) {
			end = c.Steps[i].At
		}
		piece := Interval{at, end}
		base := c.Base + shift
		if since != 0 {
			piece.From = max(at, unshift(since, base, -lo))
		}
		if until != forever {
			piece.To = min(end, unshift(until, base, -hi))
		}
		if piece.From < piece.To {
			out = append(out, piece)
		}
		if i < len(c.Steps) {
			at, shift = end, shift+uint64(c.Steps[i].By)
		}
	}
	return out
}

// unshift returns the true time at which a clock that shows base at boot shows t,
// plus d; 0 if that is before boot.
func unshift(t, base uint64, d int64) uint64 {
	v := int64(t-base) + d
	if v < 0 {
		return 0
	}
	return uint64(v)
}
