// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/textreplay/textreplay/internal/numbers"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
)

// Times is a closed interval of time, in nanoseconds of the recording's clock. From and To
// are equal if the time is exact.
type Times struct{ From, To uint64 }

// Exact reports whether the interval is a single time.
func (t Times) Exact() bool { return t.From == t.To }

// halfOpen returns the interval as a half-open one, which ends 1 ns later.
func (t Times) halfOpen() timeline.Interval {
	return timeline.Interval{From: t.From, To: timeline.Later(t.To, 1)}
}

// A QuestionError reports a time or an address that cannot be read, or that cannot
// be converted for this recording.
type QuestionError struct {
	Text string // the time or the address as it was given
	Msg  string // what is wrong with it; may be empty if Err is not nil
	// Candidates are the symbols that an ambiguous name can mean.
	Candidates []timeline.Symbol
	// Similar are names that the recording has and that look like an unknown one, the
	// most similar first.
	Similar []string
	// Err is the cause, for example ErrNoKallsyms or ErrNotTime; nil if Msg says all.
	Err error
}

var (
	// ErrNoKallsyms is wrapped by the error of a question that needs a symbol table,
	// if the recording has none.
	ErrNoKallsyms = errors.New("the recording has no kallsyms")
	// ErrNoAddresses is wrapped by the error of such a question if the kernel hid the addresses
	// of its symbols from the one who copied the table ([kcore.Kallsyms.Restricted]).
	ErrNoAddresses = errors.New("kallsyms has no addresses (kptr_restrict): only root can read them")
	// ErrNotTime is wrapped by the error of a text that has none of the forms that
	// [Replay.ParseTime] reads.
	ErrNotTime = errors.New("not a time")
	// ErrOtherKernel is wrapped by the error of a place whose function has another size in
	// the recorded kernel.
	ErrOtherKernel = errors.New("this place is of another kernel")
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
	if len(e.Similar) > 0 {
		b.WriteString("; did you mean ")
		for i, name := range e.Similar {
			switch {
			case i == 0:
			case i == len(e.Similar)-1:
				b.WriteString(" or ")
			default:
				b.WriteString(", ")
			}
			b.WriteString(name)
		}
		b.WriteString("?")
	}
	for i, s := range e.Candidates {
		if i == mostCandidates {
			fmt.Fprintf(&b, "\n\tand %d more", len(e.Candidates)-i)
			break
		}
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

// mostCandidates is how many symbols the text of an error lists. A kernel has some names of
// static functions hundreds of times.
const mostCandidates = 10

// Seconds prints a time as perf script does, with all nine digits: "12.345678901".
func Seconds(ns uint64) string { return fmt.Sprintf("%d.%09d", ns/1e9, ns%1e9) }

// ParseTime reads a time of the recording:
//
//	12.345678901     seconds; with one to eight digits after the point, the whole
//	                 interval that has these digits; without a point, exactly
//	12.5s            seconds, exactly; also ms, us, ns, m, h, as 1m30s; whole nanoseconds
//	+1.5s            since the first record
//	50%              between the first and the newest record
//	start, end       the first record, the horizon (not before the first record)
//	end-1s, 50%+2ms  before or after another time
//	tsc:0x1234       a counter value, if the recording has TIME_CONV
//	2026-01-02T15:04:05.123Z, 2026-01-02T16:04:05+01:00, wall:...
//	                 wall-clock time with its zone, if the recording has CLOCK_DATA
//	@1767366245.123  wall-clock time, in seconds since 1970
//	11.116404:, [   11.116404]
//	                 seconds as perf script and dmesg print them
//	A..B             from A to B
//
// Errors are of type *QuestionError.
func (r *Replay) ParseTime(s string) (Times, error) {
	if a, b, ok := strings.Cut(s, ".."); ok {
		if strings.Contains(b, "..") {
			return Times{}, &QuestionError{Text: s, Msg: "an interval has two ends, A..B"}
		}
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

// exactly returns the interval that is the single time t.
func exactly(t uint64) (Times, error) { return Times{t, t}, nil }

// parseTime is ParseTime for a single time, not an interval A..B. Its errors do not name the
// text that was read.
func (r *Replay) parseTime(s string) (Times, error) {
	rep := r.Report
	if t, ok := strings.CutPrefix(s, "["); ok && strings.HasSuffix(t, "]") {
		s = strings.TrimSpace(t[:len(t)-1]) // as dmesg prints it
	} else {
		s = strings.TrimSuffix(s, ":") // as perf script prints it
	}
	if base, shift, err := cutShift(s); err == nil {
		t, err := r.parseTime(base)
		if err != nil {
			return Times{}, err
		}
		return t.shifted(shift)
	} else if !errors.Is(err, ErrNotTime) {
		return Times{}, err
	}
	switch {
	case s == "start":
		return exactly(rep.First)
	case s == "end":
		return exactly(max(rep.First, rep.Horizon)) // of a recording that was cut early, nothing is proven
	case strings.HasPrefix(s, "tsc:"):
		v, err := numbers.Parse(s[4:], 64)
		if errors.Is(err, strconv.ErrRange) {
			return Times{}, errors.New("a counter value has at most 64 bits")
		} else if err != nil {
			return Times{}, fmt.Errorf("tsc: wants a number")
		}
		t, err := rep.Clock.TSC(v)
		if err != nil {
			return Times{}, err
		}
		return exactly(t)
	case strings.HasPrefix(s, "wall:"), isDate(s):
		s = strings.TrimPrefix(s, "wall:")
		w, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			return Times{}, fmt.Errorf("wall-clock time looks like 2026-01-02T15:04:05.123Z or 2026-01-02T16:04:05+01:00, with its zone")
		}
		if tooFine(s) {
			return Times{}, numbers.ErrFraction
		}
		return r.wall(w)
	case strings.HasPrefix(s, "@"):
		ns, _, err := parseSeconds(s[1:])
		switch {
		case errors.Is(err, ErrNotTime):
			return Times{}, fmt.Errorf("@ wants seconds since 1970, as @1767366245.123")
		case err != nil:
			return Times{}, err
		case ns > math.MaxInt64:
			return Times{}, errTooLarge
		}
		return r.wall(time.Unix(0, int64(ns)))
	case strings.HasSuffix(s, "%"):
		digits := s[:len(s)-1]
		p, err := strconv.ParseFloat(digits, 64)
		if err != nil || strings.Trim(digits, "0123456789.") != "" || p > 100 {
			return Times{}, fmt.Errorf("a percentage is a number from 0 to 100")
		}
		return exactly(rep.First + uint64(float64(rep.Last-rep.First)*p/100))
	case strings.HasPrefix(s, "+"):
		ns, err := parseDuration(s[1:])
		if errors.Is(err, ErrNotTime) {
			return Times{}, fmt.Errorf("a time since the first record looks like +1.5s")
		} else if err != nil {
			return Times{}, err
		}
		return Times{rep.First, rep.First}.shifted(shift{ns, false})
	}
	if ns, err := parseDuration(s); err == nil {
		return exactly(ns)
	} else if !errors.Is(err, ErrNotTime) {
		return Times{}, err
	}
	ns, width, err := parseSeconds(s)
	if err != nil {
		return Times{}, err
	}
	return Times{ns, ns + (width - 1)}, nil
}

// wall converts wall-clock time.
func (r *Replay) wall(w time.Time) (Times, error) {
	t, err := r.Report.Clock.Wall(w)
	if err != nil {
		return Times{}, err
	}
	return exactly(t)
}

// tooFine reports whether a date and time has more than nine digits behind its seconds, which the
// time package cuts off.
func tooFine(s string) bool {
	i := strings.IndexAny(s, ".,") + 1
	if i == 0 {
		return false
	}
	n := strings.IndexFunc(s[i:], func(r rune) bool { return r < '0' || r > '9' })
	return len(strings.TrimRight(s[i:i+max(n, 0)], "0")) > 9
}

// isDate reports whether s begins as a date does: "2026-01-02T".
func isDate(s string) bool {
	if len(s) < 11 || s[4] != '-' || s[7] != '-' || s[10] != 'T' {
		return false
	}
	for _, i := range []int{0, 1, 2, 3, 5, 6, 8, 9} {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// A shift is a span of time before or after another time.
type shift struct {
	ns     uint64
	before bool
}

// shifted moves both ends of an interval.
func (t Times) shifted(by shift) (Times, error) {
	if by.before {
		if by.ns > t.From {
			return Times{}, errBeforeZero
		}
		return Times{t.From - by.ns, t.To - by.ns}, nil
	}
	if by.ns > timeline.MaxTime-t.To {
		return Times{}, errTooLarge
	}
	return Times{t.From + by.ns, t.To + by.ns}, nil
}

var (
	errTooLarge   = errors.New("the time is too large")
	errBeforeZero = errors.New("that is before the clock's zero")
)

// cutShift splits "end-1.5s" at its last sign. A sign whose right side has no unit
// belongs to the time, as in a date: the error is then ErrNotTime.
func cutShift(s string) (base string, by shift, err error) {
	i := strings.LastIndexAny(s, "+-")
	if i <= 0 {
		return "", shift{}, ErrNotTime
	}
	before := s[i] == '-'
	ns, err := parseDuration(s[i+1:])
	if before && errors.Is(err, errTooLarge) {
		err = errBeforeZero
	}
	return s[:i], shift{ns, before}, err
}

// parseDuration reads a span of time with units, "1.5s" or "1m30s". Nanoseconds may
// exceed 2^63. The error is ErrNotTime, errTooLarge or [numbers.ErrFraction].
func parseDuration(s string) (ns uint64, err error) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, ErrNotTime
	}
	ns, err = numbers.Duration(s)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errTooLarge
	case errors.Is(err, strconv.ErrSyntax):
		return 0, ErrNotTime
	}
	return ns, err
}

// isDigits reports whether s is a decimal number.
func isDigits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// parseSeconds reads decimal seconds without losing digits. width is the unit of the
// last digit in nanoseconds: 1 if there are nine digits after the point. The error is
// ErrNotTime, errTooLarge or [numbers.ErrFraction].
func parseSeconds(s string) (ns, width uint64, err error) {
	whole, frac, point := strings.Cut(s, ".")
	if !isDigits(whole) || point && !isDigits(frac) {
		return 0, 0, ErrNotTime
	}
	if len(frac) > 9 {
		if strings.Trim(frac[9:], "0") != "" {
			return 0, 0, numbers.ErrFraction
		}
		frac = frac[:9]
	}
	sec, tooLarge := strconv.ParseUint(whole, 10, 64)
	width = 1e9
	sub := uint64(0)
	for _, c := range []byte(frac) {
		width /= 10
		sub += uint64(c-'0') * width
	}
	if !point {
		width = 1 // a whole number of seconds is exact
	}
	hi, lo := bits.Mul64(sec, 1e9)
	ns, carry := bits.Add64(lo, sub+width-1, 0)
	if tooLarge != nil || hi != 0 || carry != 0 {
		return 0, 0, errTooLarge
	}
	return ns - (width - 1), width, nil
}

// ParseAddr reads an address:
//
//	0xffffffff81000000           also sixteen hexadecimal digits, as perf and kallsyms print them
//	symbol, symbol+0x10          the offset may be decimal
//	symbol+0x10/0x20             as the kernel prints it, with the symbol's size
//	symbol+0x10/0x20 [module]    likewise; a build id may follow the module
//	module:symbol
//	bpf_prog_TAG_name
//
// Names have the addresses that they had at time t. A size chooses between functions of
// one name. Errors are of type *QuestionError: of an unknown name with similar ones, of an
// ambiguous one with the candidates, and of a size that the function does not have.
func (r *Replay) ParseAddr(s string, t uint64) (uint64, error) {
	addr, err := parseAddr(s, r.Image.At(t).Lookup)
	if e, ok := err.(*QuestionError); ok && e.Msg == noSuchSymbol {
		if r.kallsyms == nil {
			e.Err = ErrNoKallsyms
		} else if p, err := splitPlace(s); err == nil {
			r.ExplainName(e, p.name)
		}
	}
	return addr, err
}

// ExplainName sets what the error of a question about a name says of it, if there is no such symbol: names that look
// like it, or why kallsyms has none.
func (r *Replay) ExplainName(e *QuestionError, name string) {
	if r.kallsyms != nil && r.kallsyms.Restricted() {
		e.Err = ErrNoAddresses
		return
	}
	e.Similar = r.Similar(name, 3)
}

// Near returns the range of addresses for [Options.Only] that a question about
// n bytes at an address needs: the bytes and the function around them, in whole
// pages. It reads the address as [Replay.ParseAddr] does, but from k alone, so that
// the recording need not be read yet.
//
// It takes n for 1 if it is 0, and returns nil, which restricts nothing, for a name that kallsyms does not have
// exactly once, such as that of a BPF program. It also returns nil outside of core
// kernel text, because what is known of a module rests on all changes of it.
func Near(k *kcore.Kallsyms, addr string, n uint64) []timeline.Range {
	if k == nil {
		return nil
	}
	at, err := parseAddr(addr, func(name string) []timeline.Symbol {
		module, name, qualified := timeline.SplitName(name)
		return slices.DeleteFunc(names{k: k}.Lookup(name), func(s timeline.Symbol) bool { return qualified && s.Module != module })
	})
	if err != nil {
		return nil
	}
	lo, hi := at, at+max(n, 1)
	if hi < lo {
		return nil // beyond the last address
	}
	if sym, ok := (names{k: k}).Find(at); ok {
		lo, hi = min(lo, sym.Addr), max(hi, sym.Addr+sym.Size)
	}
	textLo, textHi, ok := k.Text()
	if !ok || lo < textLo || hi > textHi {
		return nil
	}
	return []timeline.Range{{Lo: lo &^ (textPage - 1), Hi: (hi + textPage - 1) &^ (textPage - 1)}}
}

const (
	noSuchSymbol   = "no symbol of this name"
	offsetTooLarge = "the offset leads beyond the last address"
)

// A namedPlace is a place as the kernel writes it: symbol+offset/size [module].
type namedPlace struct {
	name         string
	offset, size uint64
	sized        bool // size is given; it may be 0
	module       string
	inModule     bool // module is given; "" is the kernel
}

// splitPlace reads the text of a place. Errors are of type *QuestionError.
func splitPlace(s string) (namedPlace, error) {
	var p namedPlace
	p.module, p.name, p.inModule = timeline.SplitName(s)
	if i := strings.LastIndexByte(p.name, '+'); i > 0 {
		var offset, size string
		var err error
		offset, size, p.sized = strings.Cut(p.name[i+1:], "/")
		if p.offset, err = numbers.Parse(offset, 64); errors.Is(err, strconv.ErrRange) {
			return p, &QuestionError{Text: s, Msg: offsetTooLarge}
		} else if err != nil {
			return p, &QuestionError{Text: s, Msg: "the offset behind + is not a number"}
		}
		if p.sized {
			if p.size, err = numbers.Parse(size, 64); err != nil {
				return p, &QuestionError{Text: s, Msg: "the size behind / is not a number"}
			}
		}
		p.name = p.name[:i]
	}
	return p, nil
}

// parseAddr is ParseAddr with the names that lookup returns. Errors are of type
// *QuestionError.
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
	p, err := splitPlace(s)
	if err != nil {
		return 0, err
	}
	var found, sized []timeline.Symbol
	name := p.name
	if p.inModule {
		name = p.module + ":" + name
	}
	for _, sym := range lookup(name) {
		found = append(found, sym)
		// Without a size, a function is meant, not data of the same name, which has no size.
		if !p.sized && sym.Size != 0 || p.sized && sym.Size == p.size {
			sized = append(sized, sym)
		}
	}
	if len(sized) > 0 {
		found = sized
	}
	switch len(distinct(found)) {
	case 0:
		return 0, &QuestionError{Text: s, Msg: noSuchSymbol}
	case 1:
		if f := &found[0]; p.sized && f.Size != p.size && f.Size != 0 && f.Module == "" && !f.Dynamic {
			// The kernel prints the distance to the next symbol, as Size is. In a
			// module, the last symbol's size differs.
			return 0, &QuestionError{Text: s, Msg: fmt.Sprintf("%s has %#x bytes in the recorded kernel, not %#x", p.name, f.Size, p.size), Err: ErrOtherKernel}
		}
		if p.offset > math.MaxUint64-found[0].Addr {
			return 0, &QuestionError{Text: s, Msg: offsetTooLarge}
		}
		return found[0].Addr + p.offset, nil
	}
	msg := "the name is ambiguous; give one of these addresses instead"
	if p.offset != 0 {
		msg += fmt.Sprintf(", plus %#x", p.offset)
	}
	return 0, &QuestionError{Text: s, Msg: msg + ":", Candidates: found}
}

// distinct returns the set of the symbols' addresses.
func distinct(syms []timeline.Symbol) map[uint64]bool {
	m := make(map[uint64]bool, len(syms))
	for _, s := range syms {
		m[s.Addr] = true
	}
	return m
}
