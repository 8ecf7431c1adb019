// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
)

// Times is a closed interval of time. From and To are equal if the time is exact.
type Times struct{ From, To uint64 }

// Exact reports whether the interval is a single time.
func (t Times) Exact() bool { return t.From == t.To }

// halfOpen returns the interval as a half-open one, which ends 1 ns later.
func (t Times) halfOpen() timeline.Interval {
	return timeline.Interval{From: t.From, To: t.To + min(timeline.MaxTime-t.To, 1)}
}

// A QuestionError reports a time or an address that cannot be read, or that cannot
// be converted for this recording.
type QuestionError struct {
	Text string // the time or the address as it was given
	Msg  string // what is wrong with it; may be empty if Err is not nil
	// Candidates are the symbols that an ambiguous name can mean.
	Candidates []timeline.Symbol
	// Err is the cause, for example ErrNoKallsyms or ErrNotTime; nil if Msg says all.
	Err error
}

var (
	// ErrNoKallsyms is wrapped by the error of a question that needs a symbol table,
	// if the recording has none.
	ErrNoKallsyms = errors.New("the recording has no kallsyms")
	// ErrNotTime is wrapped by the error of a text that has none of the forms that
	// [Replay.ParseTime] reads.
	ErrNotTime = errors.New("not a time")
)

// Unwrap returns Err.
func (e *QuestionError) Unwrap() error { return e.Err }

func (e *QuestionError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q: %s", e.Text, e.Msg)
	if e.Err != nil {
		if e.Msg != "" {
			b.WriteString("; ")
		}
		b.WriteString(e.Err.Error())
	}
	for _, s := range e.Candidates {
		fmt.Fprintf(&b, "\n\t%#x %s", s.Addr, s.Qualified())
		if s.From != 0 || s.To != timeline.MaxTime {
			fmt.Fprintf(&b, " from %s", Seconds(s.From))
			if s.To != timeline.MaxTime {
				fmt.Fprintf(&b, " to %s", Seconds(s.To))
			}
		}
	}
	return b.String()
}

// Seconds prints a time as perf script does, with all nine digits: "12.345678901".
func Seconds(ns uint64) string { return fmt.Sprintf("%d.%09d", ns/1e9, ns%1e9) }

// ParseTime reads a time of the recording:
//
//	12.345678901     seconds; with fewer digits after the point, the whole
//	                 interval that has these digits
//	12345678901ns    nanoseconds
//	+1.5s            since the first record
//	50%              between the first and the newest record
//	start, end       the first record, the horizon
//	tsc:0x1234       a counter value, if the recording has TIME_CONV
//	wall:2026-01-02T15:04:05.123Z
//	A..B             from A to B
//
// Errors are of type *QuestionError.
func (r *Replay) ParseTime(s string) (Times, error) {
	if a, b, ok := strings.Cut(s, ".."); ok {
		from, err := r.ParseTime(a)
		if err != nil {
			return Times{}, err
		}
		to, err := r.ParseTime(b)
		if err != nil {
			return Times{}, err
		}
		if to.To < from.From {
			return Times{}, &QuestionError{Text: s, Msg: "the interval ends before it begins"}
		}
		return Times{from.From, to.To}, nil
	}
	t, err := r.parseTime(s)
	if err != nil {
		return Times{}, &QuestionError{Text: s, Err: err}
	}
	return t, nil
}

func exactly(t uint64) (Times, error) { return Times{t, t}, nil }

func (r *Replay) parseTime(s string) (Times, error) {
	rep := r.Report
	switch {
	case s == "start":
		return exactly(rep.First)
	case s == "end":
		return exactly(rep.Horizon)
	case strings.HasPrefix(s, "tsc:"):
		v, err := strconv.ParseUint(s[4:], 0, 64)
		if err != nil {
			return Times{}, fmt.Errorf("tsc: wants a number")
		}
		t, err := rep.Clock.TSC(v)
		if err != nil {
			return Times{}, err
		}
		return exactly(t)
	case strings.HasPrefix(s, "wall:"):
		w, err := time.Parse(time.RFC3339Nano, s[5:])
		if err != nil {
			return Times{}, fmt.Errorf("wall: wants a time as 2026-01-02T15:04:05.123Z")
		}
		t, err := rep.Clock.Wall(w)
		if err != nil {
			return Times{}, err
		}
		return exactly(t)
	case strings.HasSuffix(s, "%"):
		p, err := strconv.ParseFloat(s[:len(s)-1], 64)
		if err != nil || !(p >= 0 && p <= 100) {
			return Times{}, fmt.Errorf("a percentage is a number from 0 to 100")
		}
		return exactly(rep.First + uint64(float64(rep.Last-rep.First)*p/100))
	case strings.HasPrefix(s, "+"):
		num, ok := strings.CutSuffix(s[1:], "s")
		if !ok {
			return Times{}, fmt.Errorf("a time since the first record looks like +1.5s")
		}
		ns, _, err := parseSeconds(num)
		if err != nil {
			return Times{}, err
		}
		return exactly(rep.First + ns)
	case strings.HasSuffix(s, "ns"):
		v, err := strconv.ParseUint(s[:len(s)-2], 10, 64)
		if err != nil {
			return Times{}, fmt.Errorf("nanoseconds are a whole number")
		}
		return exactly(v)
	}
	ns, width, err := parseSeconds(s)
	if err != nil {
		return Times{}, err
	}
	return Times{ns, ns + (width - 1)}, nil
}

// parseSeconds reads decimal seconds without losing digits. width is the unit of the
// last digit in nanoseconds: 1 if there are nine digits after the point.
func parseSeconds(s string) (ns, width uint64, err error) {
	whole, frac, point := strings.Cut(s, ".")
	if whole == "" || point && frac == "" || len(frac) > 9 {
		return 0, 0, ErrNotTime
	}
	sec, err := strconv.ParseUint(whole, 10, 64)
	if err != nil {
		return 0, 0, ErrNotTime
	}
	width = 1e9
	sub := uint64(0)
	for _, c := range []byte(frac) {
		if c < '0' || c > '9' {
			return 0, 0, ErrNotTime
		}
		width /= 10
		sub += uint64(c-'0') * width
	}
	if !point {
		width = 1 // a whole number of seconds is exact
	}
	hi, lo := bits.Mul64(sec, 1e9)
	ns, carry := bits.Add64(lo, sub+width-1, 0)
	if hi != 0 || carry != 0 {
		return 0, 0, fmt.Errorf("the time is too large")
	}
	return ns - (width - 1), width, nil
}

// ParseAddr reads an address: 0xffffffff81000000 (or sixteen hexadecimal digits
// as perf and kallsyms print them), symbol, symbol+0x10, module:symbol,
// bpf_prog_TAG_name. Names have the addresses that they had at time t. Errors are of
// type *QuestionError. The error of an ambiguous name lists the candidates.
func (r *Replay) ParseAddr(s string, t uint64) (uint64, error) {
	addr, err := parseAddr(s, r.Image.At(t).Lookup)
	if e, ok := err.(*QuestionError); ok && e.Msg == noSuchSymbol && r.kallsyms == nil {
		e.Err = ErrNoKallsyms
	}
	return addr, err
}

// Near returns the range of addresses for [Options.Only] that a question about
// n bytes at an address needs: the bytes and the function around them, in whole
// pages. It reads the address as [Replay.ParseAddr] does, but from k alone, so that
// the recording need not be read yet.
//
// It returns nil, which restricts nothing, for a name that kallsyms does not have
// exactly once, such as that of a BPF program. It also returns nil outside of core
// kernel text, because what is known of a module rests on all changes of it.
func Near(k *kcore.Kallsyms, addr string, n uint64) []timeline.Range {
	if k == nil {
		return nil
	}
	at, err := parseAddr(addr, names{k}.Lookup)
	if err != nil {
		return nil
	}
	lo, hi := at, at+n
	if sym, ok := (names{k}).Find(at); ok {
		lo, hi = min(lo, sym.Addr), max(hi, sym.Addr+sym.Size)
	}
	textLo, textHi, ok := k.Text()
	if !ok || lo < textLo || hi > textHi || hi < lo {
		return nil
	}
	return []timeline.Range{{Lo: lo &^ (textPage - 1), Hi: (hi + textPage - 1) &^ (textPage - 1)}}
}

const noSuchSymbol = "no symbol of this name"

func parseAddr(s string, lookup func(name string) []timeline.Symbol) (uint64, error) {
	if hex, ok := strings.CutPrefix(s, "0x"); ok || len(s) == 16 {
		v, err := strconv.ParseUint(hex, 16, 64)
		if err == nil {
			return v, nil
		}
		if ok {
			return 0, &QuestionError{Text: s, Msg: "not a hexadecimal address of 64 bits"}
		}
	}
	name, offset := s, uint64(0)
	if i := strings.LastIndexByte(s, '+'); i > 0 {
		v, err := strconv.ParseUint(s[i+1:], 0, 64)
		if err != nil {
			return 0, &QuestionError{Text: s, Msg: "the offset behind + is not a number"}
		}
		name, offset = s[:i], v
	}
	module, inModule := "", false
	if m, n, ok := strings.Cut(name, ":"); ok {
		module, name, inModule = m, n, true
	}
	var found []timeline.Symbol
	for _, sym := range lookup(name) {
		if inModule && sym.Module != module {
			continue
		}
		found = append(found, sym)
	}
	switch len(distinct(found)) {
	case 0:
		return 0, &QuestionError{Text: s, Msg: noSuchSymbol}
	case 1:
		return found[0].Addr + offset, nil
	}
	return 0, &QuestionError{Text: s, Msg: "the name is ambiguous:", Candidates: found}
}

// distinct returns the set of the symbols' addresses.
func distinct(syms []timeline.Symbol) map[uint64]bool {
	m := make(map[uint64]bool, len(syms))
	for _, s := range syms {
		m[s.Addr] = true
	}
	return m
}
