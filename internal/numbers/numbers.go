// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package numbers reads and prints numbers as people write and read them.
package numbers

import (
	"errors"
	"fmt"
	"math/bits"
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

// ErrFraction: a time is not a whole number of nanoseconds.
var ErrFraction = errors.New("finer than a nanosecond: write at most 9 digits after the point of seconds, 6 of ms, 3 of us")

var units = map[string]uint64{"ns": 1, "us": 1e3, "\u00b5s": 1e3, "\u03bcs": 1e3, "ms": 1e6, "s": 1e9, "m": 60e9, "h": 3600e9}

// Duration reads a span of time with units, such as 1.5s or 1m30s, in nanoseconds. The forms are those
// of [time.ParseDuration] without a sign, which cuts off what is below a nanosecond. The error is
// [strconv.ErrSyntax], [strconv.ErrRange] or [ErrFraction].
func Duration(s string) (ns uint64, err error) {
	if s == "" {
		return 0, strconv.ErrSyntax
	}
	for s != "" {
		number, rest := cutWhile(s, "0123456789.")
		whole, frac, _ := strings.Cut(number, ".")
		if whole+frac == "" || strings.Contains(frac, ".") {
			return 0, strconv.ErrSyntax
		}
		i := strings.IndexAny(rest, "0123456789.")
		if i < 0 {
			i = len(rest)
		}
		unit, ok := units[rest[:i]]
		if !ok {
			return 0, strconv.ErrSyntax
		}
		s = rest[i:]
		v, bad := inUnit(whole, strings.TrimRight(frac, "0"), unit)
		sum, carry := bits.Add64(ns, v, 0)
		if ns = sum; carry != 0 {
			bad = strconv.ErrRange
		}
		if err == nil {
			err = bad
		}
	}
	if err != nil {
		return 0, err
	}
	return ns, nil
}

// cutWhile cuts s behind the first characters that are in set.
func cutWhile(s, set string) (head, rest string) {
	rest = strings.TrimLeft(s, set)
	return s[:len(s)-len(rest)], rest
}

// inUnit returns whole.frac units. frac does not end in 0.
func inUnit(whole, frac string, unit uint64) (uint64, error) {
	v := uint64(0)
	if whole != "" {
		n, err := strconv.ParseUint(whole, 10, 64)
		hi, lo := bits.Mul64(n, unit)
		if err != nil || hi != 0 {
			return 0, strconv.ErrRange
		}
		v = lo
	}
	if frac == "" {
		return v, nil
	}
	const most = 13 // digits behind the point: an hour has 2^13 and 5^11 as factors
	if len(frac) > most {
		return 0, ErrFraction
	}
	n, _ := strconv.ParseUint(frac, 10, 64)
	scale := uint64(1)
	for range frac {
		scale *= 10
	}
	hi, lo := bits.Mul64(n, unit)
	part, left := bits.Div64(hi, lo, scale)
	sum, carry := bits.Add64(v, part, 0)
	switch {
	case left != 0:
		return 0, ErrFraction
	case carry != 0:
		return 0, strconv.ErrRange
	}
	return sum, nil
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
