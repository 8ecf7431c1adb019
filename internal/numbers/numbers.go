// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package numbers reads and prints numbers as people write and read them.
package numbers

import (
	"fmt"
	"strconv"
	"strings"
)

// Parse reads a decimal number of so many bits, or a hexadecimal one with 0x. With base 0,
// [strconv.ParseUint] would take 010 for 8.
func Parse(s string, bits int) (uint64, error) {
	if hex, ok := strings.CutPrefix(s, "0x"); ok {
		return strconv.ParseUint(hex, 16, bits)
	}
	return strconv.ParseUint(s, 10, bits)
}

// Span prints a span of time (ns) in a unit that suits it, with three digits or as a whole number. micro is
// the unit of microseconds. The limits of units leave out what three digits round up: that would
// be printed as 1e+03.
func Span(ns uint64, micro string) string {
	switch {
	case ns < 1e3:
		return fmt.Sprintf("%d ns", ns)
	case ns < 999_500:
		return fmt.Sprintf("%.3g %s", float64(ns)/1e3, micro)
	case ns < 999_500_000:
		return fmt.Sprintf("%.3g ms", float64(ns)/1e6)
	}
	return InSeconds(ns) + " s"
}

// InSeconds prints a span of time (ns) in seconds, with three digits or as a whole number.
func InSeconds(ns uint64) string {
	if ns >= 100e9 {
		return strconv.FormatUint(ns/1e9, 10)
	}
	return strconv.FormatFloat(float64(ns)/1e9, 'g', 3, 64)
}
