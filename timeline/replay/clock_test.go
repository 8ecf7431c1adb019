// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"strings"
	"testing"

	"github.com/textreplay/textreplay/perfdata"
)

// TestTSCBounds: counter values before the clock's zero, or beyond its times, are no times.
func TestTSCBounds(t *testing.T) {
	long := perfdata.TimeConv{Mult: 1, Zero: ^uint64(0) - 99, CapTimeZero: true} // 100 ns before
	short := perfdata.TimeConv{Mult: 1, Cycles: 0x1_2000, Mask: 0xffff, CapTimeZero: true, CapTimeShort: true}
	for _, tt := range []struct {
		conv perfdata.TimeConv
		tsc  uint64
		want uint64
		err  string
	}{
		{long, 0, 0, "before the clock's zero"},
		{long, 99, 0, "before the clock's zero"},
		{long, 100, 0, ""},
		{long, 1<<63 + 99, 1<<63 - 1, ""},
		{long, 1<<63 + 100, 0, "after all times"},
		{perfdata.TimeConv{Mult: 2}, 1 << 62, 0, "after all times"},
		{short, 0x2000, 0x1_2000, ""},
		{short, 0x1_2000, 0x1_2000, ""},
		{short, 0x3000, 0x1_3000, ""},
		{short, 0x1000, 0, "from 0x12000 on"},
		{short, 0x1_1fff, 0, "from 0x12000 on"},
	} {
		c := Clock{ownTime: true, conv: &tt.conv}
		got, err := c.TSC(tt.tsc)
		if tt.err == "" && (err != nil || got != tt.want) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%#x is %d, %v; want %d, %q", tt.tsc, got, err, tt.want, tt.err)
		}
	}
}
