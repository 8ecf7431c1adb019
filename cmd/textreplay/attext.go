// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

func (q *at) writeText(x *answer) {
	name := q.c.heading(x.versions[0].view, x.asked)
	if name == "" {
		name = fmt.Sprintf("%#x", x.asked)
	}
	when := replay.Seconds(x.times.From)
	if !x.times.Exact() {
		when += ".." + replay.Seconds(x.times.To)
	}
	fmt.Fprintf(q.out, "%s at %s (%s): ", q.style.paint(bold, name), when, clockName(q.r))
	first, last := &x.versions[0], &x.versions[len(x.versions)-1]
	if len(x.versions) == 1 {
		q.writeStandings(first)
		validity := q.validity(first.since, first.until, first.view.Time())
		if sources := first.sources(); sources != "" {
			validity += "; source: " + sources
		}
		fmt.Fprintf(q.out, "  %s\n", validity)
		if state := siteState(q.r, first.view, x.asked); state != "" {
			fmt.Fprintf(q.out, "  %s\n", state)
		}
		if in, ok := q.c.around(first.view, x.asked); ok {
			fmt.Fprintf(q.out, "  inside an instruction, if decoded from the start of the function: %s at %s\n",
				instsText([]disasm.Inst{in}, len(in.Bytes)), placeOf(first.view, in.Addr))
		}
		fmt.Fprintln(q.out)
		q.writeRows(x, first, 0)
		q.writeSides(first)
	} else {
		fmt.Fprintf(q.out, "changes %s in this interval\n", count(len(x.versions)-1, "time"))
		changed := uint64(0)
		for i := range x.versions {
			v := &x.versions[i]
			until := "ever"
			if v.until != timeline.MaxTime {
				until = replay.Seconds(v.until)
			}
			fmt.Fprintf(q.out, "\n%s until %s: ", replay.Seconds(max(v.since, changed)), until)
			q.writeStandings(v)
			q.writeRows(x, v, changed)
			q.writeSides(v)
			changed = v.until
		}
	}
	q.writeChange(x, first, first.since)
	q.writeChange(x, last, last.until)
	if len(x.versions) == 1 {
		q.writeWindow(first, x.asked)
	}
}

// writeWindow prints the window in which a CPU may run a trap instead of the
// asked instruction.
func (q *at) writeWindow(v *version, addr uint64) {
	w, trap, ok := q.window(v.view, addr, 1)
	if !ok {
		return
	}
	from, to := "the start", "the end"
	if w.Proven.From != 0 {
		from = replay.Seconds(w.Proven.From)
	}
	if w.Proven.To != timeline.MaxTime {
		to = replay.Seconds(w.Proven.To)
	}
	fmt.Fprintf(q.out, "\nmay trap: a CPU may run %s here instead, at most from %s to %s, probably %s",
		patching.TrapName(q.r.Machine()), from, to, replay.Seconds(w.Estimate.From))
	if w.Estimate.To != w.Estimate.From {
		fmt.Fprintf(q.out, " to %s", replay.Seconds(w.Estimate.To))
	}
	switch names := q.c.symbolizer(v.view); trap.Kind {
	case replay.EffectUnknown:
		fmt.Fprintln(q.out)
	case replay.EffectProbe:
		fmt.Fprintln(q.out, "; it runs a probe, then the original instruction elsewhere")
	case replay.EffectJump, replay.EffectBranch, replay.EffectCall:
		target := hexAddr(trap.Target)
		if name, base, ok := names(trap.Target); ok {
			if target = name; trap.Target != base {
				target += fmt.Sprintf("+%#x", trap.Target-base)
			}
		}
		fmt.Fprintf(q.out, "; it acts as a %s to %s\n", trap.Kind, target)
	default:
		fmt.Fprintf(q.out, "; it acts as a %s\n", trap.Kind)
	}
}

func clockName(r *replay.Replay) string {
	if name := r.Report.Clock.Name; name != "perf" {
		return name
	}
	return "perf's clock"
}

// writeStandings ends a heading with the standing of all spans.
func (q *at) writeStandings(v *version) {
	spans := joined(v.spans)
	if len(spans) == 1 {
		q.writeStanding(v.standing, v.reason)
		return
	}
	fmt.Fprintf(q.out, "%s in part\n", q.style.standing(v.standing))
	for _, s := range spans {
		fmt.Fprintf(q.out, "  %016x..%016x ", s.Addr, s.Addr+s.Len)
		q.writeStanding(s.Standing, s.Reason)
	}
}

// sources lists the kinds of facts that gave the bytes: "snapshot, poke".
func (v *version) sources() string {
	var list []string
	for i := range v.spans {
		if src := v.spans[i].Source.String(); src != "" && !slices.Contains(list, src) {
			list = append(list, src)
		}
	}
	return strings.Join(list, ", ")
}

// writeRows prints the instructions. A mark shows those that changed at the
// given time (0: none), or the one that was asked for among the others.
func (q *at) writeRows(x *answer, v *version, changed uint64) {
	width, byteWidth := 0, 0
	var source replay.SourceLine               // the source line of the last row
	made, _ := q.c.trampoline(v.view, x.asked) // the trampoline that was printed last
	for i := range v.rows {
		width = max(width, len(label(v.view, v.rows[i].addr())))
		byteWidth = max(byteWidth, 3*len(v.rows[i].inst.Bytes))
	}
	for i := 0; i < len(v.rows); i++ {
		r := &v.rows[i]
		mark := "  "
		switch {
		case changed != 0 && v.changedAt(changed, r):
			mark = "* "
		case x.addr != x.asked && r.hole == nil && r.inst.Addr <= x.asked && x.asked-r.inst.Addr < uint64(len(r.inst.Bytes)):
			mark = "=>"
		}
		if r.hole != nil {
			hole := *r.hole
			// Merge neighbours that differ only in Since.
			for changed == 0 && i+1 < len(v.rows) && hole.Candidates == nil {
				next := v.rows[i+1].hole
				if next == nil || next.Standing != hole.Standing || next.Reason != hole.Reason || next.Candidates != nil {
					break
				}
				hole.Len += next.Len
				i++
			}
			q.writeHole(v, &hole, mark, width)
			continue
		}
		if s, ok := q.c.trampoline(v.view, r.inst.Addr); ok && s.Addr != made.Addr {
			// Adjacent slots have different purposes.
			made = s
			fmt.Fprintf(q.out, "   ; %s\n", trampolineText(v.view, &s))
		}
		if l, ok := q.c.sourceLine(v.view, r.inst.Addr); ok && l.File != "" && l != source {
			// in the style of objdump -S
			source = l
			fmt.Fprintf(q.out, "   ; %s\n", q.c.sourceText(&l, r.inst.Addr))
		}
		line := fmt.Sprintf("%s %-*s  %-*s %s", mark, width, label(v.view, r.inst.Addr), byteWidth, spaced(r.inst.Bytes), r.inst.Text)
		fmt.Fprintln(q.out, strings.TrimRight(line, " "))
	}
}

func (r *row) addr() uint64 {
	if r.hole != nil {
		return r.hole.Addr
	}
	return r.inst.Addr
}

// changedAt reports whether a byte of r changed at time t.
func (v *version) changedAt(t uint64, r *row) bool {
	if r.hole != nil {
		return r.hole.Since == t
	}
	end := r.inst.Addr + uint64(len(r.inst.Bytes))
	return slices.ContainsFunc(v.spans, func(s timeline.Span) bool {
		return s.Since == t && s.Addr < end && r.inst.Addr < s.Addr+s.Len
	})
}

// labelOf is label with the name of the first view that has one.
func labelOf(addr uint64, views ...timeline.View) string {
	for _, v := range views {
		if p := placeOf(v, addr); p.name != "" {
			return labelNamed(addr, p.String())
		}
	}
	return label(views[0], addr)
}

// label is an address with its name: "ffffffff81000000 <_stext>:".
func label(v timeline.View, addr uint64) string { return labelNamed(addr, placeOf(v, addr).String()) }

// labelNamed is the label of an address with this name, or without one if it is empty.
func labelNamed(addr uint64, name string) string {
	var word [8]byte
	binary.BigEndian.PutUint64(word[:], addr)
	b := hex.AppendEncode(make([]byte, 0, 2*len(word)+len(" <>:")+len(name)), word[:])
	if name != "" {
		b = append(append(append(b, " <"...), name...), '>')
	}
	return string(append(b, ':'))
}

// writeStanding ends a line with a standing and its reason.
func (q *at) writeStanding(s timeline.Standing, r timeline.Reason) {
	fmt.Fprint(q.out, q.style.standing(s))
	if r != timeline.ReasonNone {
		fmt.Fprintf(q.out, " (%s): %s", r, r.Text())
	}
	fmt.Fprintln(q.out)
}

// writeHole prints a span that has no bytes, or several candidates for them.
func (q *at) writeHole(v *version, s *timeline.Span, mark string, width int) {
	what := fmt.Sprintf("(%s, %s)", count(s.Len, "byte"), s.Standing)
	fmt.Fprintf(q.out, "%s %-*s  %s\n", mark, width, label(v.view, s.Addr), what)
	q.writeCandidates(q.c, v.view, s, width+4)
}

// writeCandidates prints the candidates of s: the facts that contradict each
// other, or the bytes before and after a change that is in flight.
func (a *app) writeCandidates(c *coder, v timeline.View, s *timeline.Span, indent int) {
	for i, x := range s.Candidates {
		says := factText(x.Fact)
		if s.Standing == timeline.InFlight {
			says = sideText(i, len(s.Candidates))
		}
		fmt.Fprintf(a.out, "%*s %s %s\n", indent, "", says,
			instsText(c.decode(nil, x.Bytes, v, s.Addr), len(x.Bytes)))
	}
}

// sideText names the i-th of n candidates of a change that is in flight.
func sideText(i, n int) string {
	switch i {
	case 0:
		return "BEFORE"
	case n - 1:
		return "AFTER "
	}
	return "or    "
}

// writeSides prints both sides of each change that is in flight.
func (q *at) writeSides(v *version) {
	first := true
	for i := range v.spans {
		s := &v.spans[i]
		if s.Standing != timeline.InFlight {
			continue
		}
		if first {
			fmt.Fprintln(q.out, "\nin flight:")
			first = false
		}
		fmt.Fprintf(q.out, "   %s\n", label(v.view, s.Addr))
		q.writeCandidates(q.c, v.view, s, 5)
	}
}

func factText(f timeline.Fact) string {
	switch f.Source {
	case timeline.SourceSnapshot:
		return "the snapshot says"
	case timeline.SourceProgInfo:
		return "the program info says"
	case timeline.SourceWindow:
		return "the window says"
	}
	if f.Old {
		return "the old bytes of the poke at " + replay.Seconds(f.Time) + " say"
	}
	return "the poke at " + replay.Seconds(f.Time) + " says"
}

// validity describes the interval in which neither bytes nor standing change.
func (q *at) validity(since, until, t uint64) string {
	if im := q.r.Image; since == im.First() && until == im.Horizon()+1 {
		return fmt.Sprintf("during the whole recording, %s to %s", replay.Seconds(since), replay.Seconds(until-1))
	}
	var parts []string
	if since != 0 {
		parts = append(parts, fmt.Sprintf("from %s (%s before)", replay.Seconds(since), span(since, t)))
	}
	if until != timeline.MaxTime {
		parts = append(parts, fmt.Sprintf("until %s (%s after)", replay.Seconds(until), span(t, until)))
	}
	if len(parts) == 0 {
		return "at all times"
	}
	return strings.Join(parts, " ")
}

// joined merges adjacent spans with the same standing and reason.
func joined(spans []timeline.Span) []timeline.Span {
	var out []timeline.Span
	for _, s := range spans {
		if n := len(out); n > 0 && out[n-1].Standing == s.Standing && out[n-1].Reason == s.Reason {
			out[n-1].Len += s.Len
			continue
		}
		out = append(out, s)
	}
	return out
}

// writeChange prints what changes at time t, a bound of the version v, with the
// instructions on both sides. It prints nothing at the ends of the recording,
// where only the standing changes.
func (q *at) writeChange(x *answer, v *version, t uint64) {
	if t == 0 || t == timeline.MaxTime || t == q.r.Image.First() || t == q.r.Image.Horizon()+1 {
		return
	}
	when := "changes"
	if t <= x.times.From {
		when = "changed"
	}
	fmt.Fprintf(q.out, "\n%s at %s:\n", when, replay.Seconds(t))
	q.writeSites(q.c, q.r.Image.At(t), v.sites(t, x.addr))
}

// sites returns the places of v, which begins at addr, that change at time t,
// one of its bounds.
func (v *version) sites(t, addr uint64) []timeline.Range {
	var sites []timeline.Range
	for s := range v.view.Image().At(t).Spans(addr, v.n) {
		if s.Since != t {
			continue
		}
		here := timeline.Range{Lo: s.Addr, Hi: s.Addr + s.Len}
		for i := range v.rows {
			// A change of a branch's target alone begins inside the instruction.
			if in := &v.rows[i].inst; !in.Data && in.Addr < here.Lo && here.Lo-in.Addr < uint64(len(in.Bytes)) {
				here.Lo = in.Addr
			}
		}
		if n := len(sites); n > 0 && here.Lo <= sites[n-1].Hi {
			sites[n-1].Hi = here.Hi
			continue
		}
		sites = append(sites, here)
	}
	return sites
}

// writeSites prints how places changed at the time of the view.
func (a *app) writeSites(c *coder, after timeline.View, sites []timeline.Range) {
	before := after.Image().At(after.Time() - 1)
	const most = 8
	for i, s := range sites {
		if i == most {
			fmt.Fprintf(a.out, "   and %s more\n", count(len(sites)-most, "place"))
			break
		}
		fmt.Fprintf(a.out, "   %s  %s\n", labelOf(s.Lo, after, before), c.transition(before, after, s.Lo, s.Hi-s.Lo))
	}
}

// transition describes how [addr, addr+n) differs between two views: by the
// instructions, or by the standing if these are equal.
func (c *coder) transition(before, after timeline.View, addr, n uint64) string {
	old, was := readWith(before, addr, n, c.room[0][:0])
	new, is := readWith(after, addr, n, c.room[1][:0])
	if was.Given >= int(n) && is.Given >= int(n) && bytes.Equal(old[:n], new[:n]) {
		return fmt.Sprintf("%s  ->  %s", standingText(was), standingText(is))
	}
	side := func(v timeline.View, code []byte, b timeline.Block) string {
		if b.Given < int(n) {
			return standingText(b)
		}
		c.insts = c.instsIn(c.insts[:0], code, v, addr, n)
		text := instsText(c.insts, int(n))
		if b.Standing != timeline.Known {
			text += " (" + b.Standing.String() + ")"
		}
		return text
	}
	return side(before, old, was) + "  ->  " + side(after, new, is)
}

// appendKnown appends what transition returns where the bytes are known to be old and new. ok is false if they are
// not whole instructions.
func (c *coder) appendKnown(b []byte, before, after timeline.View, addr uint64, old, new []byte) (_ []byte, ok bool) {
	if b, ok = c.appendWhole(b, before, addr, old); !ok {
		return b, false
	}
	return c.appendWhole(append(b, "  ->  "...), after, addr, new)
}

// appendWhole appends the instructions of code, which is at addr at v's time. ok is false if there are none, or if
// one may go on behind it: then the bytes that are there look like data.
func (c *coder) appendWhole(b []byte, v timeline.View, addr uint64, code []byte) (_ []byte, ok bool) {
	if c.dis == nil || len(code) == 0 {
		return b, false
	}
	c.insts = c.instsIn(c.insts[:0], code, v, addr, uint64(len(code)))
	if slices.ContainsFunc(c.insts, func(in disasm.Inst) bool { return in.Data }) {
		return b, false
	}
	return appendInsts(b, c.insts, len(code)), true
}

// readWith returns the bytes of [addr, addr+n), and those behind them that an instruction there may have, as far
// as the image has them, and the answer for [addr, addr+n). Its Given may be larger. The bytes are in room if they
// fit.
func readWith(v timeline.View, addr, n uint64, room []byte) ([]byte, timeline.Block) {
	code := slices.Grow(room, int(n)+maxInsn-1)[:n+maxInsn-1]
	b := v.Read(addr, code)
	code = code[:b.Given]
	if b.Standing != timeline.Known || b.Given < int(n) {
		b = v.Read(addr, make([]byte, n)) // what is behind these bytes may be known less
	}
	return code, b
}

func standingText(b timeline.Block) string {
	if b.Reason == timeline.ReasonNone {
		return b.Standing.String()
	}
	return fmt.Sprintf("%s (%s)", b.Standing, b.Reason)
}

// mostShown is how many instructions instsText shows. It says of the others only that there are some: it needs
// shownBytes of code.
const (
	mostShown  = 3
	shownBytes = (mostShown + 1) * maxInsn
)

// instsText is what appendInsts appends.
func instsText(insts []disasm.Inst, n int) string {
	return string(appendInsts(make([]byte, 0, 128), insts, n)) // on the stack
}

// appendInsts prints instructions on one line: "0f 1f 00  nopl (%rax)". It shows
// only the first few of many. n is how many bytes are meant; the last
// instruction may have more.
func appendInsts(b []byte, insts []disasm.Inst, n int) []byte {
	for i := range insts {
		switch {
		case i == 1 && insts[0].Text == "int3":
			// The bytes after a trap are the rest of another instruction.
			var rest []byte
			for _, in := range insts[1:] {
				rest = append(rest, in.Bytes...)
			}
			return appendSpaced(append(b, "; then "...), rest[:min(len(rest), n-1)])
		case i == mostShown:
			return append(b, "; ..."...)
		case i > 0:
			b = append(b, "; "...)
		}
		b = appendSpaced(b, insts[i].Bytes)
		if insts[i].Text != "" {
			b = append(append(b, "  "...), insts[i].Text...)
		}
	}
	return b
}
