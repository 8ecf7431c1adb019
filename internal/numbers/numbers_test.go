// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package numbers

import (
	"errors"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

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

func TestDuration(t *testing.T) {
	for _, tt := range []struct {
		s    string
		want uint64
		err  error
	}{
		{"1.5s", 1_500_000_000, nil},
		{"1m30s", 90_000_000_000, nil},
		{"1h.5m", 3_630_000_000_000, nil},
		{"7.us", 7_000, nil},
		{"3\u00b5s4\u03bcs", 7_000, nil},
		{"1.000000000s", 1_000_000_000, nil},
		{"1.0000000000000000s", 1_000_000_000, nil},
		{"2.0ns", 2, nil},
		{"0.00000000005m", 3, nil},
		{"0.0000000000025h", 9, nil},
		{"0.0001220703125h", 439_453_125, nil},
		{"18446744073709551615ns", 1<<64 - 1, nil},
		{"18446744073.709551615s", 1<<64 - 1, nil},
		{"18446744073.709551616s", 0, strconv.ErrRange},
		{"18446744074s", 0, strconv.ErrRange},
		{"18446744073s1s", 0, strconv.ErrRange},
		{"99999999999999999999h", 0, strconv.ErrRange},
		{"1.0000000001s", 0, ErrFraction},
		{"1.0000001ms", 0, ErrFraction},
		{"1s0.5ns", 0, ErrFraction},
		{"0.00000000001m", 0, ErrFraction},
		{"0.00000000000001h", 0, ErrFraction},
		{"99999999999999999999h1x", 0, strconv.ErrSyntax},
		{"1.0000000001s1", 0, strconv.ErrSyntax},
		{"1.2.3s", 0, strconv.ErrSyntax},
		{".s", 0, strconv.ErrSyntax},
		{"s", 0, strconv.ErrSyntax},
		{"5", 0, strconv.ErrSyntax},
		{"-5s", 0, strconv.ErrSyntax},
		{"5S", 0, strconv.ErrSyntax},
		{"", 0, strconv.ErrSyntax},
	} {
		if got, err := Duration(tt.s); got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%q is %d, %v, want %d, %v", tt.s, got, err, tt.want, tt.err)
		}
	}
}

// TestDurationExact compares with exact fractions.
func TestDurationExact(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	names := []string{"ns", "us", "ms", "s", "m", "h"}
	exact, fractions := 0, 0
	for range 200_000 {
		digits := strconv.FormatUint(rnd.Uint64N(10_000)<<rnd.IntN(12), 10)
		if n := rnd.IntN(14); n > 0 {
			digits += "." + strings.Repeat("0", rnd.IntN(n)) + strconv.FormatUint(rnd.Uint64N(100_000)<<rnd.IntN(8), 10)
		}
		name := names[rnd.IntN(len(names))]
		r, ok := new(big.Rat).SetString(digits)
		if !ok {
			t.Fatal(digits)
		}
		r.Mul(r, new(big.Rat).SetInt64(int64(units[name])))
		got, err := Duration(digits + name)
		switch {
		case r.IsInt() && r.Num().IsUint64():
			exact++
			if err != nil || got != r.Num().Uint64() {
				t.Fatalf("%s%s is %d, %v, want %v", digits, name, got, err, r.Num())
			}
		case !r.IsInt() && new(big.Int).Quo(r.Num(), r.Denom()).IsUint64():
			fractions++
			if !errors.Is(err, ErrFraction) {
				t.Fatalf("%s%s is %d, %v", digits, name, got, err)
			}
		}
	}
	if exact < 10_000 || fractions < 10_000 {
		t.Errorf("%d are whole, %d are not", exact, fractions)
	}
}
