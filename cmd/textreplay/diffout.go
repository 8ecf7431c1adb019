// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// diffCount counts the places and bytes of one kind of change.
type diffCount struct {
	Places int    `json:"places"`
	Bytes  uint64 `json:"bytes"`
}

func (d *diff) counts() (n [changeCount]diffCount) {
	for _, list := range [][]delta{d.found, d.lives} {
		for i := range list {
			x := &list[i]
			n[x.change].Places++
			if x.change == changeBytes {
				n[x.change].Bytes += x.bytes
			} else {
				n[x.change].Bytes += x.n
			}
		}
	}
	return n
}

// listed yields the places to list, by kind; within a kind, whole pieces of
// code come first.
func (d *diff) listed(yield func(*delta) bool) {
	for c := range changeCount {
		if c == changeStanding && !d.standing {
			continue
		}
		for _, list := range [][]delta{d.lives, d.found} {
			for i := range list {
				if list[i].change == c && !yield(&list[i]) {
					return
				}
			}
		}
	}
}

// where returns the view in which the code of x exists.
func (d *diff) where(x *delta) timeline.View {
	if x.change == changeGone {
		return d.before
	}
	return d.after
}

// summary says in a line what differs.
func (d *diff) summary() string {
	n := d.counts()
	var parts []string
	if n := n[changeBytes]; n.Places > 0 {
		symbols := 0
		last := ""
		for i := range d.found {
			if d.found[i].change != changeBytes {
				continue
			}
			if name := symbolName(d.after, d.found[i].addr); name != last {
				last = name
				symbols++
			}
		}
		differ := "differ"
		if n.Bytes == 1 {
			differ = "differs"
		}
		parts = append(parts, fmt.Sprintf("%s %s in %s of %s", count(n.Bytes, "byte"), differ, count(n.Places, "place"), count(symbols, "symbol")))
	}
	for _, x := range []struct {
		n     diffCount
		words string
	}{
		{n[changeGone], "%s (%s) only at the first time"},
		{n[changeCame], "%s (%s) only at the second time"},
		{n[changeStanding], "%s (%s) only in their standing"},
	} {
		if x.n.Places > 0 {
			parts = append(parts, fmt.Sprintf(x.words, count(x.n.Places, "place"), count(x.n.Bytes, "byte")))
		}
	}
	if len(parts) == 0 {
		parts = append(parts, "nothing differs")
	}
	if n[changeStanding].Places > 0 && !d.standing {
		parts[len(parts)-1] += " (--standing lists them)"
	}
	return strings.Join(parts, "; ")
}

func (d *diff) writeText() error {
	first, second := replay.Seconds(d.before.Time()), replay.Seconds(d.after.Time())
	fmt.Fprintf(d.out, "%s -> %s (%s): %s\n", first, second, clockName(d.r), d.summary())

	titles := [changeCount]string{
		changeBytes:    "",
		changeGone:     "Only at " + first + ":",
		changeCame:     "Only at " + second + ":",
		changeStanding: "Only in their standing:",
	}
	var row []byte
	last := changeCount
	for x := range d.listed {
		if x.change != last {
			last = x.change
			fmt.Fprintln(d.out)
			if titles[last] != "" {
				fmt.Fprintln(d.out, titles[last])
			}
		}
		row = d.appendLine(row[:0], x)
		if _, err := d.out.Write(append(row, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// appendLine appends the line of a place that differs.
func (d *diff) appendLine(b []byte, x *delta) []byte {
	n := len(b)
	if x.old != nil && x.new != nil {
		b = append(append(b, labelOf(x.addr, d.after, d.before)...), ' ')
		if b, ok := d.c.appendKnown(b, d.before, d.after, x.addr, x.old, x.new); ok {
			return b
		}
	}
	return append(b[:n], d.line(x)...)
}

// line returns the line of a place that differs.
func (d *diff) line(x *delta) string {
	if s := x.life; s != nil {
		what := "out-of-line code"
		if s.Module == "bpf" {
			what = "BPF code"
		}
		return fmt.Sprintf("%016x <%s>: %s of %s%s", s.Addr, s.Name, count(s.Size, "byte"), what, lifetime(s))
	}
	switch x.change {
	case changeBytes:
		return labelOf(x.addr, d.after, d.before) + " " + d.c.transition(d.before, d.after, x.addr, x.n)
	case changeStanding:
		// The standing of the first byte is that of the whole place.
		return fmt.Sprintf("%s (%s) %s  ->  %s", labelOf(x.addr, d.after, d.before), count(x.n, "byte"),
			standingText(d.before.Read(x.addr, make([]byte, 1))), standingText(d.after.Read(x.addr, make([]byte, 1))))
	}
	v := d.where(x)
	text := d.c.label(v, x.addr) + fmt.Sprintf(" (%s)", count(x.n, "byte"))
	// Of longer code, only the beginning is printed.
	if insts := d.c.instsAt(v, x.addr, min(x.n, 4*maxInsn), nil); insts != nil {
		return text + " " + instsText(insts, int(x.n))
	}
	return text + " " + standingText(v.Read(x.addr, make([]byte, 1)))
}

// lifetime describes when s begins and ends, or returns "" if neither is
// known.
func lifetime(s *timeline.Symbol) string {
	var text string
	if s.From != 0 {
		text += " from " + replay.Seconds(s.From)
	}
	if s.To != timeline.MaxTime {
		text += " until " + replay.Seconds(s.To)
	}
	return text
}

// jsonDelta is a place that differs. If code is there at one time only, the
// other side is null.
type jsonDelta struct {
	Change string      `json:"change"` // bytes, gone, came, standing
	Addr   string      `json:"addr"`
	Len    uint64      `json:"len"`
	Symbol *jsonSymbol `json:"symbol"`
	// The lifetime of code that came or went as a whole.
	Since  *string   `json:"since,omitempty"`
	Until  *string   `json:"until,omitempty"`
	Before *jsonSide `json:"before"`
	After  *jsonSide `json:"after"`
}

type jsonSide struct {
	Standing string      `json:"standing"`
	Reason   *jsonReason `json:"reason"`
	Bytes    *string     `json:"bytes"`
	Text     string      `json:"text"`
}

// jsonDiff is the last line.
type jsonDiff struct {
	Change   string    `json:"change"` // summary
	Time1    string    `json:"time1"`
	Time2    string    `json:"time2"`
	Bytes    diffCount `json:"bytes"`
	Gone     diffCount `json:"gone"`
	Came     diffCount `json:"came"`
	Standing diffCount `json:"standing"`
}

func (d *diff) writeJSON() error {
	enc := d.rows("change", "addr", "len", "symbol.name", "symbol.offset", "symbol.module", "since", "until",
		"before.standing", "before.bytes", "before.text", "after.standing", "after.bytes", "after.text")
	for x := range d.listed {
		v := d.where(x)
		if placeOf(v, x.addr).name == "" {
			v = d.before
		}
		out := jsonDelta{Change: changeKeys[x.change], Addr: hexAddr(x.addr), Len: x.n, Symbol: d.c.symbolJSON(v, x.addr)}
		if s := x.life; s != nil {
			out.Since, out.Until = since(s.From), until(s.To)
		}
		if x.change != changeCame {
			out.Before = d.side(d.before, x)
		}
		if x.change != changeGone {
			out.After = d.side(d.after, x)
		}
		if err := enc.Encode(out); err != nil {
			return err
		}
	}
	if table, ok := enc.(*csvEncoder); ok {
		return table.begin() // an empty table has its columns too
	}
	n := d.counts()
	return enc.Encode(jsonDiff{"summary", decTime(d.before.Time()), decTime(d.after.Time()),
		n[changeBytes], n[changeGone], n[changeCame], n[changeStanding]})
}

// side returns the contents of x in v. It leaves out bytes that differ only in
// standing, and those that are too long for a line.
func (d *diff) side(v timeline.View, x *delta) *jsonSide {
	const most = 1 << 16
	n := x.n
	if x.change == changeStanding || n > most {
		n = 1
	}
	code := make([]byte, n)
	b := v.Read(x.addr, code)
	out := &jsonSide{Standing: b.Standing.String(), Reason: reasonJSON(b.Reason)}
	if n == x.n && b.Given == len(code) {
		out.Bytes = hexBytes(code)
		out.Text = instsText(d.c.instsAt(v, x.addr, min(n, shownBytes), nil), int(n))
	}
	return out
}
