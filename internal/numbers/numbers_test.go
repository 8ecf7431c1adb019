// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package numbers

import "testing"

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		s    string
		bits int
		want uint64
		ok   bool
	}{
		{"010", 64, 10, true},
		{"0x10", 64, 16, true},
		{"255", 8, 255, true},
		{"256", 8, 0, false},
		{"0b11", 64, 0, false},
		{"1_0", 64, 0, false},
		{"0x", 64, 0, false},
		{"", 64, 0, false},
		{"-1", 64, 0, false},
	} {
		if got, err := Parse(tt.s, tt.bits); (err == nil) != tt.ok || tt.ok && got != tt.want {
			t.Errorf("%q of %d bits is %d, %v", tt.s, tt.bits, got, err)
		}
	}
}

// TestSpan: no span has an exponent, also where three digits round up to the next unit.
func TestSpan(t *testing.T) {
	for ns, want := range map[uint64]string{
		12: "12 ns", 999: "999 ns", 1_234: "1.23 µs", 999_499: "999 µs", 999_500: "1 ms", 999_499_999: "999 ms",
		999_500_000: "1 s", 2_084_509_995: "2.08 s", 99_950_000_000: "100 s", 260_000_000_000: "260 s", 1<<64 - 1: "18446744073 s",
	} {
		if got := Span(ns, "µs"); got != want {
			t.Errorf("%d ns is %q, want %q", ns, got, want)
		}
	}
}
