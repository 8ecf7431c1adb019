// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// writeItem prints an answer.
func (o *oops) writeItem(a *oopsAnswer) error {
	defer func() { o.written = true }()
	switch a.kind {
	case oopsReport:
		if a.known != "" {
			if a.err != nil {
				fmt.Fprintf(o.out, "  %s\n", o.style.paint(red, a.err.Error()))
			}
			return nil
		}
		if o.begun {
			fmt.Fprintf(o.out, "line %d: %s\n", a.line, o.style.paint(bold, a.text))
			return nil
		}
		o.begun = true
		when := "the log has no time that converts: compared with the text of all times"
		if a.how != "" {
			when = fmt.Sprintf("%s (%s, by %s)", around(a.times), clockName(o.r), a.how)
		}
		if o.written {
			fmt.Fprintln(o.out)
		}
		fmt.Fprintf(o.out, "%s\nline %d: %s\n", when, a.line, o.style.paint(bold, a.text))
	case oopsCode:
		o.begun = false
		o.writeCode(a)
	default:
		o.begun = false
		role := map[string]string{oopsIP: "ip", oopsLink: "link", oopsTrace: ""}[a.kind]
		if a.unsure {
			role = "?"
		}
		if a.err != nil {
			code := yellow
			if a.finding {
				code = red
			}
			fmt.Fprintf(o.out, "  %-4s %s: %s\n", role, a.place, o.style.paint(code, message(a.err)))
			if a.addr == 0 {
				return nil
			}
		}
		line := fmt.Sprintf("  %-4s %s %s", role, label(a.view, a.addr), o.style.standing(a.first.standing))
		if a.first.reason != timeline.ReasonNone {
			line += " (" + a.first.reason.String() + ")"
		}
		if a.inst != "" {
			line += "  " + a.inst
		}
		if a.versions > 1 {
			line += fmt.Sprintf("  (and %s in this interval%s)", count(a.versions-1, "later version"), a.more())
		}
		fmt.Fprintln(o.out, line)
	}
	return nil // the writer keeps its error for the end
}

// more says that there are versions which were not looked at.
func (a *oopsAnswer) more() string {
	if !a.cut {
		return ""
	}
	return ", and more that were not looked at"
}

// around prints an interval by its middle: "12.345678901 ± 1.01 s".
func around(t replay.Times) string {
	half := (t.To - t.From) / 2
	if half < 1000 {
		return replay.Seconds(t.From)
	}
	return fmt.Sprintf("%s ± %s", replay.Seconds(t.From+half), span(0, half))
}

func (o *oops) writeCode(a *oopsAnswer) {
	c := a.compared
	if c == nil {
		fmt.Fprintf(o.out, "  Code: %s\n", o.style.paint(yellow, a.err.Error()))
		return
	}
	from, to := "the start", "the end"
	if c.since != 0 {
		from = replay.Seconds(c.since)
	}
	if c.until != timeline.MaxTime {
		to = replay.Seconds(c.until)
	}
	what := map[string]string{
		codeEqual:   o.style.paint(green, "equal") + " to the text",
		codeTrap:    o.style.paint(yellow, "a trap in flight") + " (" + c.trap + ") in the text",
		codeDiffers: o.style.paint(red, "differs") + " from the text",
		codeUnknown: o.style.paint(yellow, "cannot be proved") + " by the text",
	}[c.verdict]
	fmt.Fprintf(o.out, "  Code: %s of %s to %s; %s at %s\n", what, from, to, count(len(c.code), "byte"), label(c.view, a.addr))
	if a.cut {
		fmt.Fprintf(o.out, "    compared with the first %s of this interval, not with those after them\n", count(a.versions, "version"))
	}
	if c.notKnown > 0 {
		fmt.Fprintf(o.out, "    %s known and equal; %s not known, of which %d are equal to the bytes that the recording gives and %d differ\n",
			count(c.equal, "byte"), count(c.notKnown, "byte"), c.likely, c.odd)
	}
	for _, d := range c.differences {
		// The instructions that differ, from the start of the first.
		var insts []disasm.Inst
		for _, in := range instsOf(c.rows) {
			if in.Addr < d.addr+uint64(len(d.have)) && d.addr < in.Addr+uint64(len(in.Bytes)) {
				insts = append(insts, in)
			}
		}
		lo, n := d.addr, len(d.got)
		if len(insts) > 0 {
			last := insts[len(insts)-1]
			lo, n = insts[0].Addr, int(last.Addr-insts[0].Addr)+len(last.Bytes)
		}
		at := lo - a.addr
		fmt.Fprintf(o.out, "    %s oops %s, text %s\n", label(c.view, lo), spaced(c.code[at:min(at+uint64(n), uint64(len(c.code)))]), instsText(insts, n))
	}
}

func (o *oops) summary() error {
	f := &o.found
	parts := []string{count(f.places, "place")}
	if f.findings > 0 {
		parts = append(parts, o.style.paint(red, count(f.findings, "finding")))
	} else {
		parts = append(parts, "no finding")
	}
	if f.unknown > 0 {
		parts = append(parts, fmt.Sprintf("%d not in the recording", f.unknown))
	}
	_, err := fmt.Fprintf(o.out, "\n%s\n", strings.Join(parts, ", "))
	return err
}
