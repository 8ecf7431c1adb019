// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"strings"
	"testing"
)

// TestParseReading: a reading was made between its two times, so nothing comes after the second.
//
// A line that is too long is called so.
func TestParseReading(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		good       bool
	}{
		{"two times", "10\n p_map 3 0\n20\n", true},
		{"an empty line at the end", "10\n p_map 3 0\n20\n\n", true},
		{"a process", "pid 7\n p_map 3 0\n", true},
		{"counters after the second time", "10\n20\n p_map 3 0\n", false},
		{"more of them after the second time", "10\n p_map 3 0\n20\n p_unmap 3 0\n", false},
		{"three times", "10\n p_map 3 0\n20\n30\n", false},
		{"a time before the process", "10\npid 7\n", false},
		{"no second time", "10\n p_map 3 0\n", false},
		{"times that go back", "20\n p_map 3 0\n10\n", false},
		{"cut off", "10\n p_map 3 0\n20", false},
	} {
		r, err := parseReading([]byte(tt.text))
		if good := err == nil; good != tt.good || err != nil && !errors.Is(err, errReading) {
			t.Errorf("%s: %+v, %v", tt.name, r, err)
		}
	}
	_, err := parseReading([]byte("10\n p_map 3 0" + strings.Repeat(" ", 1<<20) + "\n20\n"))
	if want := "line 2: not a reading of kprobe_profile: the line has more than 4096 bytes"; !errors.Is(err, errReading) || err.Error() != want {
		t.Errorf("a long line: %v, want %s", err, want)
	}
}
