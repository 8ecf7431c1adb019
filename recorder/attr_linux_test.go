// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"encoding/binary"
	"testing"

	"github.com/textreplay/textreplay/perfdata"
)

// TestFlagBits: perf_event_open of a big-endian kernel takes the flags as a file of such a machine
// has them.
func TestFlagBits(t *testing.T) {
	for _, tt := range []struct {
		order binary.ByteOrder
		flag  perfdata.AttrFlags
		want  uint64
	}{
		{binary.LittleEndian, perfdata.FlagDisabled, 1},
		{binary.BigEndian, perfdata.FlagDisabled, 1 << 63},
		{binary.BigEndian, perfdata.FlagDisabled | perfdata.FlagInherit, 3 << 62},
		{binary.BigEndian, perfdata.FlagUseClockID, 1 << 38},
	} {
		if got := flagBits(tt.order, tt.flag); got != tt.want {
			t.Errorf("%v, %#x: %#x, want %#x", tt.order, tt.flag, got, tt.want)
		}
	}
}
