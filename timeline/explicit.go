// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// ExplicitWindow is a change of text whose writer recorded its start and its end: the
// form with two records, BEFORE and AFTER, that was first proposed for the text poke
// event. A CPU runs Before until From, After from To on, and either of them or a trap
// between.
type ExplicitWindow struct {
	Addr          uint64
	From, To      uint64 // in nanoseconds of the recording's clock
	Method        string // how the change is made safe, for example "int3"; not interpreted
	Before, After []byte // of equal length
}

// check returns an error if the window cannot be one.
func (w *ExplicitWindow) check() error {
	switch {
	case len(w.Before) == 0 || len(w.Before) != len(w.After):
		return errors.New("before and after must have one length")
	case len(w.Before) > 0xffff || w.Addr+uint64(len(w.Before)) < w.Addr:
		return errors.New("the bytes pass the end of the address space, or 65,535")
	case w.From >= w.To:
		return errors.New("the window ends before it begins")
	}
	return nil
}

// Window adds an explicit window, and copies its bytes. A text poke of the same address
// to the same bytes in [From, To] is the same change. Window returns an error if Before
// and After are not of equal length from 1 to 65,535, or if To is not after From.
func (b *Builder) Window(w ExplicitWindow) error {
	if err := w.check(); err != nil {
		return err
	}
	w.Before, w.After = slices.Clone(w.Before), slices.Clone(w.After)
	b.windows = append(b.windows, w)
	return nil
}

// withWindows returns a builder that has a poke for each explicit window which has no
// text poke. It does not change b.
func (b *Builder) withWindows() *Builder {
	if len(b.windows) == 0 {
		return b
	}
	c := *b
	c.queue = newQueue()
	c.sites, c.words = slices.Clone(b.sites), slices.Clone(b.words)
	c.edits = slices.Clone(b.edits)
	c.arena = slices.Clip(b.arena)
	c.cpus, c.began = slices.Clip(b.cpus), slices.Clip(b.began)
	c.siteAt.slots = slices.Clone(b.siteAt.slots)
	c.log, c.passes = b.log.clone(), b.passes.clone()
	for i, recorded := range b.recordedWindows() {
		if w := &b.windows[i]; !recorded {
			c.Poke(&Poke{Addr: w.Addr, Time: w.To, Old: w.Before, New: w.After, CPU: -1})
		}
	}
	c.settle()
	return &c
}

// recordedWindows returns which of the explicit windows have a text poke.
func (b *Builder) recordedWindows() []bool {
	recorded := make([]bool, len(b.windows))
	index := b.index()
	var r reader
	var list []poke // of the site at addr, by time
	addr := uint64(0)
	for n, i := range windowsByPlaceOf(b.windows).order {
		w := &b.windows[i]
		if n == 0 || w.Addr != addr {
			addr, list = w.Addr, list[:0]
			if s, ok := b.siteAt.find(b.sites, addr); ok {
				list = r.pokes(b, &index, s, list)
				sortByTime(list)
			}
		}
		k := sort.Search(len(list), func(k int) bool { return list[k].time >= w.From })
		for ; k < len(list) && list[k].time <= w.To && !recorded[i]; k++ {
			e := &b.edits[list[k].edit]
			recorded[i] = bytes.Equal(b.arena[e.new:][:e.nlen], w.After)
		}
	}
	return recorded
}

// windowsByPlace finds explicit windows by address: there may be as many as places.
type windowsByPlace struct {
	order []int    // the windows by address
	reach []uint64 // the greatest end of those up to each
}

func windowsByPlaceOf(windows []ExplicitWindow) windowsByPlace {
	x := windowsByPlace{make([]int, len(windows)), make([]uint64, len(windows))}
	for i := range windows {
		x.order[i] = i
	}
	slices.SortStableFunc(x.order, func(i, k int) int { return cmp.Compare(windows[i].Addr, windows[k].Addr) })
	reach := uint64(0)
	for k, i := range x.order {
		reach = max(reach, windows[i].Addr+uint64(len(windows[i].Before)))
		x.reach[k] = reach
	}
	return x
}

// windowsAt returns the explicit windows that have addr, in the order in which they were added.
func (d *build) windowsAt(addr uint64) (at []int) {
	x := &d.explicit
	k := sort.Search(len(x.order), func(k int) bool { return d.windows[x.order[k]].Addr > addr }) - 1
	for ; k >= 0 && x.reach[k] > addr; k-- {
		if w := &d.windows[x.order[k]]; addr-w.Addr < uint64(len(w.Before)) {
			at = append(at, x.order[k])
		}
	}
	slices.Sort(at)
	return at
}

// inFlight makes what was emitted inside of explicit windows in flight. Mostly they were added in
// the order of time, and one revision does them all.
func (c *historyBuilder) inFlight() {
	var r revision // no pointer to one: c would be on the heap, for every fragment
	open, end := false, uint64(0)
	for _, at := range c.windowsAt(c.f.addr) {
		w := &c.windows[at]
		k, n := c.f.addr-w.Addr, int(c.f.size)
		i := c.disputed(w.From, w.To, InExplicitWindow, []claim{
			{w.From, c.own(w.Before[k:][:n]), SourceWindow, true},
			{w.To, c.own(w.After[k:][:n]), SourceWindow, false}})
		if open && w.From < end {
			r.end()
			open = false
		}
		if !open {
			r, open = c.revise(w.From), true
		}
		r.replace(w.From, w.To, func(v version, _ uint64) {
			c.put(version{v.since, state{content: i, standing: InFlight, reason: InExplicitWindow, source: SourceWindow}})
		})
		end = w.To // r takes no window before it
	}
	if open {
		r.end()
	}
}

// own copies bytes to the image's arena.
func (c *historyBuilder) own(data []byte) uint32 {
	if !c.limits.hold(c.im.arena, len(data)) {
		c.tooLarge = true
		return 0
	}
	off := uint32(len(c.im.arena))
	c.im.arena = append(c.im.arena, data...)
	return off
}

// A windowLine is a line of a file of explicit windows.
type windowLine struct {
	Flag   string `json:"flag"`
	Time   string `json:"time"`
	Method string `json:"method"`
	Addr   string `json:"addr"`
	Before string `json:"before"`
	After  string `json:"after"`
}

// maxWindowLine bounds the length of a line.
const maxWindowLine = 1 << 20

// windowError says what is wrong with a line that is not of a windowLine's form. The library
// names Go's types.
func windowError(err error) error {
	var syntax *json.SyntaxError
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mistyped) && mistyped.Field == "":
		return fmt.Errorf("want a JSON object, got %s", mistyped.Value)
	case errors.As(err, &mistyped):
		return fmt.Errorf("%s: want a string, got %s", mistyped.Field, mistyped.Value)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("not JSON: the line ends too early")
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON: %w", err)
	}
	msg := strings.TrimPrefix(err.Error(), "json: ")
	if strings.HasPrefix(msg, "unknown field ") {
		msg += "; the fields are flag, time, addr, before, after and method"
	}
	return errors.New(msg)
}

// ReadWindows reads explicit windows from JSON lines. Each change has two lines, first one
// with "flag":"before", later one with "flag":"after". Both have the same "addr"
// ("0x..."), "before" and "after" (hexadecimal bytes). Each has its "time" (a string of
// decimal nanoseconds) and may have a "method". Errors name the line.
func ReadWindows(r io.Reader) ([]ExplicitWindow, error) {
	var out []ExplicitWindow
	type key struct {
		addr          uint64
		before, after string
	}
	open := make(map[key]int) // line of the BEFORE
	since := make(map[key]uint64)
	sc := bufio.NewScanner(r)
	sc.Buffer(nil, maxWindowLine)
	line := 0
	for sc.Scan() {
		line++
		if len(bytes.TrimSpace(sc.Bytes())) == 0 {
			continue
		}
		bad := func(err error) error { return fmt.Errorf("line %d: %w", line, err) }
		var l windowLine
		dec := json.NewDecoder(bytes.NewReader(sc.Bytes()))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&l); err != nil {
			return nil, bad(windowError(err))
		}
		t, err := strconv.ParseUint(l.Time, 10, 64)
		if err != nil {
			return nil, bad(fmt.Errorf("time %q is not a number of nanoseconds", l.Time))
		}
		addr, err := strconv.ParseUint(strings.TrimPrefix(l.Addr, "0x"), 16, 64)
		if err != nil {
			return nil, bad(fmt.Errorf("addr %q is not a hexadecimal address", l.Addr))
		}
		before, err := hex.DecodeString(l.Before)
		if err != nil {
			return nil, bad(fmt.Errorf("before %q are not bytes in hexadecimal", l.Before))
		}
		after, err := hex.DecodeString(l.After)
		if err != nil {
			return nil, bad(fmt.Errorf("after %q are not bytes in hexadecimal", l.After))
		}
		k := key{addr, string(before), string(after)}
		switch l.Flag {
		case "before":
			if at, ok := open[k]; ok {
				return nil, bad(fmt.Errorf("the change of line %d has not ended", at))
			}
			open[k], since[k] = line, t
		case "after":
			if _, ok := open[k]; !ok {
				return nil, bad(errors.New("this change has not begun"))
			}
			w := ExplicitWindow{Addr: addr, From: since[k], To: t, Method: l.Method, Before: before, After: after}
			if err := w.check(); err != nil {
				return nil, bad(err)
			}
			delete(open, k)
			out = append(out, w)
		default:
			return nil, bad(fmt.Errorf("flag %q is neither before nor after", l.Flag))
		}
	}
	if err := sc.Err(); errors.Is(err, bufio.ErrTooLong) {
		return nil, fmt.Errorf("line %d: the line has more than %d bytes", line+1, maxWindowLine)
	} else if err != nil {
		return nil, fmt.Errorf("line %d: %w", line+1, err)
	}
	if len(open) > 0 {
		return nil, fmt.Errorf("line %d: this change does not end", slices.Min(slices.Collect(maps.Values(open))))
	}
	return out, nil
}
