// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"sort"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// diff is the state of the command diff.
type diff struct {
	*app
	r             *replay.Replay
	c             *coder
	before, after timeline.View

	symbol   string
	format   choice
	standing bool // list places that differ only in their standing

	found []delta // by address, without code that came or went as a whole
	lives []delta // code that came or went as a whole, by address
	below bool    // some byte does not meet --require
	// How many bytes change within the interval of each of the two times.
	moving [2]uint64
	site   glue
	inst   uint64 // where an instruction begins at both times, in the last place found or behind it
}

func (a *app) diffCmd() *cobra.Command {
	d := &diff{app: a}
	cmd := &cobra.Command{
		Use:   "diff [flags] TIME1 TIME2",
		Short: "Print what differs between two times",
		Long: `diff prints what differs in kernel text between two times, as instructions, sorted
by address:

  - places whose bytes differ
  - code that exists at only one of the two times: BPF programs and trampolines,
    out-of-line code, modules
  - how many places differ only in their standing (--standing lists them)

Bytes that a recording gives without being sure of them are compared too, such
as those of code that is retired at both times; their standing is printed behind
them. If the bytes of a place are not given at both times, diff compares only the
standing. The exit code is 1 if anything differs, including the standing.`,
		Example: `  textreplay diff start end
  textreplay diff 12.5 13 --symbol schedule
  textreplay diff 25% 75% --json | jq -r 'select(.change == "bytes").symbol.name' | sort | uniq -c`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return usagef("want two times, got %s", count(len(args), "argument"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return d.run(args[0], args[1]) },
	}
	f := cmd.Flags()
	f.StringVar(&d.symbol, "symbol", "", "only this `SYMBOL` ([MODULE:]NAME; all places that have the name)")
	a.formatFlag(cmd, &d.format)
	f.BoolVar(&d.standing, "standing", false, "also list the places that differ only in their standing")
	return cmd
}

// A change is how a place differs.
type change uint8

const (
	changeBytes    change = iota
	changeGone            // there at the first time only
	changeCame            // there at the second time only
	changeStanding        // nothing else differs, or the bytes cannot be compared
	changeCount
)

var changeKeys = [changeCount]string{"bytes", "gone", "came", "standing"}

// A delta is a place that differs.
type delta struct {
	change change
	sure   [2]sureness // of the least sure byte at either time; not for code that came or went as a whole
	addr   uint64
	n      uint64
	bytes  uint64           // how many differ
	life   *timeline.Symbol // of code that came or went as a whole
	// The bytes at either time, if they are known and those of one range of the image.
	old, new []byte
}

// A sureness is how sure the bytes of a place are at one of the two times.
type sureness struct {
	standing timeline.Standing
	reason   timeline.Reason
}

func (d *diff) run(first, second string) (err error) {
	if d.r, err = d.warned(d.loadFor(d.symbol, 1)); err != nil {
		return err
	}
	if d.c, err = newCoder(d.r); err != nil {
		return err
	}
	var times [2]replay.Times
	for i, s := range []string{first, second} {
		if times[i], err = oneTime(d.r, "the time", s); err != nil {
			return err
		}
	}
	if err := d.find(times); err != nil {
		return err
	}
	for i, t := range times {
		d.warnMoving(d.moving[i], whatDiffs, t)
	}

	if d.json || d.csv {
		err = d.writeJSON()
	} else {
		err = d.writeText()
	}
	if err != nil {
		return outputError(err)
	}
	if len(d.found)+len(d.lives) > 0 || d.below {
		return errBelow
	}
	return nil
}

// find compares the two times.
func (d *diff) find(times [2]replay.Times) error {
	d.before, d.after = d.r.Image.At(times[0].From), d.r.Image.At(times[1].From)
	ranges, err := d.ranges()
	if err != nil {
		return err
	}
	for _, r := range ranges {
		d.walk(r, times)
	}
	d.findDynamic(ranges)
	return nil
}

// whatDiffs is what warnings call the text that diff compares.
const whatDiffs = "what is compared"

// warnMoving warns that an answer for the start of an interval does not hold
// for the whole interval.
func (a *app) warnMoving(n uint64, of string, t replay.Times) {
	if n > 0 {
		a.warnf("%s", movingText(n, of, t))
	}
}

// movingText returns the warning that n bytes change within an interval.
func movingText(n uint64, of string, t replay.Times) string {
	verb := "change"
	if n == 1 {
		verb += "s"
	}
	return fmt.Sprintf("%s of %s %s up to %s; the answer is for %s (a time with nine digits is exact)",
		count(n, "byte"), of, verb, replay.Seconds(t.To), replay.Seconds(t.From))
}

// ranges returns the addresses to compare, ascending and disjoint.
func (d *diff) ranges() ([]timeline.Range, error) {
	var all []timeline.Range
	if d.symbol == "" {
		for lo, hi := range d.before.Ranges() {
			all = append(all, timeline.Range{Lo: lo, Hi: hi})
		}
		return all, nil
	}
	syms, err := symbolsNamed(d.r, d.symbol, d.before, d.after)
	if err != nil {
		return nil, err
	}
	for _, s := range syms {
		all = append(all, timeline.Range{Lo: s.Addr, Hi: s.Addr + max(s.Size, 1)})
	}
	slices.SortFunc(all, func(a, b timeline.Range) int { return cmp.Compare(a.Lo, b.Lo) })
	joined := all[:1]
	for _, r := range all[1:] {
		if last := &joined[len(joined)-1]; r.Lo <= last.Hi {
			last.Hi = max(last.Hi, r.Hi)
			continue
		}
		joined = append(joined, r)
	}
	return joined, nil
}

// walk compares a range of addresses. It skips what has the same version at
// both times.
func (d *diff) walk(r timeline.Range, times [2]replay.Times) {
	moving := func(i int, s *timeline.Span) {
		if endsBy(s.Until, times[i].To) {
			d.moving[i] += s.Len
		}
	}
	t := d.after.Time()
	for s := range d.before.Spans(r.Lo, r.Hi-r.Lo) {
		moving(0, &s)
		if s.Since <= t && !endsBy(s.Until, t) {
			moving(1, &s)
			d.site.pass(&s, &s)
			d.below = d.below || !d.meets(s.Standing, "any")
			continue
		}
		for o := range d.after.Spans(s.Addr, s.Len) {
			moving(1, &o)
			d.below = d.below || !d.meets(min(s.Standing, o.Standing), "any")
			part := s
			part.Addr, part.Len = o.Addr, o.Len
			if s.Bytes != nil {
				part.Bytes = s.Bytes[o.Addr-s.Addr:][:o.Len]
			}
			d.compare(&part, &o)
		}
	}
}

// compare compares one place at the two times.
func (d *diff) compare(s, o *timeline.Span) {
	if x, y := dynamicAt(d.before, s.Addr), dynamicAt(d.after, s.Addr); x != y {
		return // findDynamic lists it
	}
	x := delta{change: changeStanding, sure: [2]sureness{{s.Standing, s.Reason}, {o.Standing, o.Reason}}, addr: s.Addr, n: s.Len}
	switch was, is := exists(s), exists(o); {
	case was && !is:
		x.change = changeGone
	case is && !was:
		x.change = changeCame
	// Also of code that is retired at both times: its bytes are given, and other code may have been there meanwhile.
	case s.Bytes != nil && o.Bytes != nil && !bytes.Equal(s.Bytes, o.Bytes):
		x.change, x.bytes = changeBytes, differing(s.Bytes, o.Bytes)
		if s.Standing == timeline.Known && o.Standing == timeline.Known {
			x.old, x.new = s.Bytes, o.Bytes
		}
	case s.Standing == o.Standing:
		d.site.pass(s, o)
		return
	}
	end := x.addr + x.n
	if g := d.site; x.change == changeBytes && g.end == x.addr && g.from < g.end {
		x = d.piece(d.skipEqual(g.from, end-g.from), end)
	}
	if last := d.lastBefore(&x); last != nil && x.change == changeBytes && last.sure != x.sure {
		if lo, hi := d.instAround(max(last.addr, d.inst), x.addr, end); lo < x.addr {
			d.shorten(last, lo)
			d.add(d.piece(lo, hi))
			x = d.piece(hi, end)
		}
	}
	d.add(x)
}

// add adds a place to those found.
func (d *diff) add(x delta) {
	if x.n == 0 {
		return
	}
	if last := d.lastBefore(&x); last != nil && d.joins(last, &x) {
		last.n += x.n
		last.bytes += x.bytes
		last.old, last.new = nil, nil
		return
	}
	if len(d.found) == cap(d.found) { // append's steps are smaller, and there may be as many as places
		d.found = slices.Grow(d.found, max(64, len(d.found)))
	}
	d.found = append(d.found, x)
}

// lastBefore returns the last place found if it is right before x and differs in the same way, or nil.
func (d *diff) lastBefore(x *delta) *delta {
	if n := len(d.found); n > 0 {
		if last := &d.found[n-1]; last.change == x.change && last.addr+last.n == x.addr {
			return last
		}
	}
	return nil
}

// piece returns how [lo, hi) differs, whose bytes are given at both times. It has no bytes if it does not differ.
func (d *diff) piece(lo, hi uint64) delta {
	x := delta{change: changeBytes, addr: lo, n: hi - lo}
	var code [2][]byte
	for i, v := range [2]timeline.View{d.before, d.after} {
		code[i] = make([]byte, x.n)
		b := v.Read(lo, code[i])
		x.sure[i] = sureness{b.Standing, b.Reason}
	}
	if x.bytes = differing(code[0], code[1]); x.bytes == 0 {
		x.change = changeStanding
		if x.sure[0].standing == x.sure[1].standing {
			x.n = 0
		}
	}
	return x
}

// shorten ends the last place found at end, which is inside it or its start.
func (d *diff) shorten(last *delta, end uint64) {
	last.bytes -= d.piece(end, last.addr+last.n).bytes
	last.n, last.old, last.new = end-last.addr, nil, nil
	if last.bytes == 0 {
		x := d.piece(last.addr, end)
		d.found = d.found[:len(d.found)-1]
		d.add(x)
	}
}

// instAround returns where the instruction begins and ends at both times that contains the bytes before and
// at addr, whose standings differ. Pokes of different lengths cut an instruction into such pieces; as a whole, it
// is as sure as its least sure byte. An instruction begins at from. Both results are addr if an instruction
// begins there, or if the two codes have no instruction in common close to addr.
func (d *diff) instAround(from, addr, end uint64) (lo, hi uint64) {
	d.inst = addr
	if d.c.dis == nil {
		return addr, addr
	}
	n := min(end, addr+shownBytes) - from
	old, new := d.c.instsAt(d.before, from, n, nil), d.c.instsAt(d.after, from, n, nil)
	lo, was, is := from, from, from
	for was < addr || is != was {
		code, at := &old, &was
		if is < was {
			code, at = &new, &is
		}
		if len(*code) == 0 {
			was = end // the codes have no instruction in common up to there
			break
		}
		*at, *code = *at+uint64(len((*code)[0].Bytes)), (*code)[1:]
		if was == is && was <= addr {
			lo = was
		}
	}
	if addr-lo > shownBytes {
		return addr, addr
	}
	d.inst = lo
	return lo, min(was, end)
}

// exists reports whether code is there, even if its bytes are unknown.
func exists(s *timeline.Span) bool {
	switch s.Standing {
	case timeline.Unmapped, timeline.Retired:
		return false
	}
	switch s.Reason {
	case timeline.Unregistered, timeline.PokedToNothing, timeline.NothingAlive, // removed, and its bytes were never recorded
		timeline.OutOfLineGap, timeline.HoleInSnapshot:
		return false
	}
	return true
}

// joins reports whether x is printed together with the place of the same kind right before it.
func (d *diff) joins(last, x *delta) bool {
	if last.sure != x.sure {
		return false
	}
	if x.change == changeBytes || x.change == changeStanding {
		return true
	}
	var a, b [1]byte
	same := func(v timeline.View) bool {
		// Each piece of out-of-line code has its own lifetime. The patched
		// places of a module that was unloaded do not get a line each.
		return v.Read(last.addr, a[:]).Since == v.Read(x.addr, b[:]).Since || placeOf(v, x.addr).module != ""
	}
	return same(d.before) && same(d.after)
}

// A glue is a run of short poked pieces that have the same bytes at both times.
// Pokes of different lengths cut an instruction into pieces, so a piece that
// differs after the run may be the end of an instruction that begins in the
// run.
type glue struct{ from, end uint64 }

// pass extends the run by a piece that does not differ.
func (g *glue) pass(s, o *timeline.Span) {
	switch {
	case s.Len > maxInsn || s.Bytes == nil || s.Source != timeline.SourcePoke && o.Source != timeline.SourcePoke:
		*g = glue{}
	case g.end == s.Addr:
		g.end += s.Len
	default:
		*g = glue{s.Addr, s.Addr + s.Len}
	}
}

// skipEqual returns the address of the first instruction in [addr, addr+n) that
// is not the same at both times.
func (d *diff) skipEqual(addr, n uint64) uint64 {
	old, new := d.c.instsAt(d.before, addr, n, nil), d.c.instsAt(d.after, addr, n, nil)
	for i := range min(len(old), len(new)) {
		if !bytes.Equal(old[i].Bytes, new[i].Bytes) {
			break
		}
		addr += uint64(len(old[i].Bytes))
	}
	return addr
}

// dynamicAt returns the dynamic symbol at addr that exists at v's time, or the
// zero Symbol.
func dynamicAt(v timeline.View, addr uint64) timeline.Symbol {
	if lo, hi := v.Image().Text(); lo <= addr && addr < hi {
		return timeline.Symbol{} // the kernel's own text is never dynamic
	}
	if s, ok := v.Symbol(addr); ok && alive(&s, v.Time()) && s.Dynamic {
		return s
	}
	return timeline.Symbol{}
}

func alive(s *timeline.Symbol, t uint64) bool {
	return s.From <= t && (t < s.To || s.To == timeline.MaxTime)
}

// findDynamic finds the dynamic code that is there at one time only.
func (d *diff) findDynamic(ranges []timeline.Range) {
	for s := range d.r.Image.Symbols {
		was, is := alive(&s, d.before.Time()), alive(&s, d.after.Time())
		i := sort.Search(len(ranges), func(i int) bool { return ranges[i].Hi > s.Addr })
		if was == is || i == len(ranges) || ranges[i].Lo >= s.Addr+s.Size {
			continue
		}
		x := delta{change: changeGone, addr: s.Addr, n: s.Size, life: &s}
		if is {
			x.change = changeCame
		}
		d.lives = append(d.lives, x)
	}
}
