// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"testing"

	"pgregory.net/rapid"
)

// TestTimeConv converts counter values that a task read right before and right
// after it gave itself a name, on real kernels; the COMM record of that has the
// time on perf's clock.
func TestTimeConv(t *testing.T) {
	x86 := TimeConv{Shift: 31, Mult: 827186803, Zero: 18446744070385174866, CapTimeZero: true}
	arm64 := TimeConv{
		Shift: 21, Mult: 33554432, Zero: 18446744073101508624, Cycles: 39563277, Mask: 1<<57 - 1, CapTimeZero: true, CapTimeShort: true,
	}
	tests := []struct {
		name          string
		conv          TimeConv
		before, after uint64
		time          uint64
	}{
		{"x86 o1b", x86, 26029415888, 26029522488, 6701887897},
		{"x86 o1a", x86, 26497046194, 26497169018, 6882022209},
		{"x86 o2b", x86, 34511373475, 34511496611, 9969048025},
		{"arm64 o0b", arm64, 663766626, 663775371, 10012306016},
		{"arm64 o0a", arm64, 664667500, 664670967, 10026672576},
		{"arm64 o1b", arm64, 890628098, 890633662, 13642054400},
	}
	for _, tt := range tests {
		if lo, hi := tt.conv.ToPerf(tt.before), tt.conv.ToPerf(tt.after); tt.time < lo || tt.time > hi || hi-lo > 200_000 {
			t.Errorf("%s: %d is not within %d to %d", tt.name, tt.time, lo, hi)
		}
		if tsc := tt.conv.ToTSC(tt.time); tsc < tt.before || tsc > tt.after {
			t.Errorf("%s: %d converts to %d, outside %d to %d", tt.name, tt.time, tsc, tt.before, tt.after)
		}
	}
}

// TestTimeConvShort extends a counter of 57 bits as the kernel does.
func TestTimeConvShort(t *testing.T) {
	c := TimeConv{Shift: 21, Mult: 1 << 25, Zero: 1000, Cycles: 1<<58 + 5, Mask: 1<<57 - 1, CapTimeZero: true, CapTimeShort: true}
	// 16 ns a tick; the counter lost its high bits.
	if got, want := c.ToPerf(7), uint64(1000+(1<<58+7)*16); got != want {
		t.Errorf("just after: got %d, want %d", got, want)
	}
	if got, want := c.ToPerf(4), uint64((1000+(1<<58+1<<57+4)*16)&(1<<64-1)); got != want {
		t.Errorf("wrapped: got %d, want %d", got, want)
	}
}

func TestTimeConvInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := TimeConv{
			Shift: rapid.Uint64Range(0, 32).Draw(t, "shift"), Mult: rapid.Uint64Range(1, 1<<32-1).Draw(t, "mult"),
			Zero: rapid.Uint64Range(0, 1<<40).Draw(t, "zero"), CapTimeZero: true,
		}
		// A time that both clocks can represent.
		ticks := rapid.Uint64Range(0, 1<<60).Draw(t, "ticks")
		if c.Mult>>c.Shift > 0 {
			ticks /= c.Mult >> c.Shift
		}
		perf := c.ToPerf(ticks)
		back := c.ToTSC(perf)
		if back > ticks || c.ToPerf(back+1) < perf || c.ToPerf(back) > perf {
			t.Fatalf("%d ticks are %d ns are %d ticks", ticks, perf, back)
		}
	})
	if (&TimeConv{}).ToTSC(5) != 0 {
		t.Error("a conversion by nothing")
	}
}

func TestTimeConvFrequency(t *testing.T) {
	for _, tt := range []struct {
		conv TimeConv
		want uint64
	}{
		{TimeConv{Shift: 21, Mult: 1 << 25}, 62_500_000}, // arm64, of QEMU
		{TimeConv{Shift: 31, Mult: 1789569706}, 1_200_000_000},
		{TimeConv{Shift: 0, Mult: 1_000_000_000}, 1},
		{TimeConv{Shift: 0, Mult: 3_000_000_000}, 0}, // a third, rounded
		{TimeConv{Shift: 63, Mult: ^uint64(0)}, 500_000_000},
		{TimeConv{Shift: 63, Mult: 1}, 0}, // does not fit
		{TimeConv{}, 0},
	} {
		if got := tt.conv.Frequency(); got != tt.want {
			t.Errorf("%+v: %d Hz, want %d", tt.conv, got, tt.want)
		}
	}
}
