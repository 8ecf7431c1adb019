// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// maxPlace is the largest place that history accepts, a page. Each change makes
// a version of the whole place, so the output grows with the square of its
// size.
const maxPlace = 4096

// oneLine is how many bytes are shown on the version's line at most.
const oneLine = 16

// history is the state of the command history.
type history struct {
	*app
	r *replay.Replay
	c *coder

	addr, n uint64
	format  choice
}

func (a *app) historyCmd() *cobra.Command {
	h := &history{app: a}
	var at string
	cmd := &cobra.Command{
		Use:   "history [flags] ADDR",
		Short: "Print every version of one place",
		Long: `history prints all versions of one place in time order: the interval in which the
bytes and their standing did not change, and the instructions. If the place is
longer than 16 bytes, it prints for each later version only what changed.

Without -n the place is as long as the longest instruction that was ever there.

A name is looked up at the time given by --at. Without --at it is looked up at the
start of the recording, and if nothing had this name then, at any time. If the name
of the address changes, for example because a BPF program is loaded there, the new
name is printed.`,
		Example: `  textreplay history do_sys_openat2+7
  textreplay history vfs_read -n 64
  textreplay history bpf_prog_0123456789abcdef_x --json | jq -r 'select(.standing == "known").since'`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usagef("want an address, got %s", count(len(args), "argument"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkBytes(cmd, h.n); err != nil {
				return err
			}
			return h.run(args[0], at)
		},
	}
	f := cmd.Flags()
	f.Uint64VarP(&h.n, "bytes", "n", 0, "how many `BYTES`, at most 4096")
	a.formatFlag(cmd, &h.format)
	f.StringVar(&at, "at", "", "look up the name at this `TIME`")
	return cmd
}

func (h *history) run(addr, at string) (err error) {
	if h.n > maxPlace {
		return usagef("at most %s can be asked for; \"textreplay log --addr\" lists the changes of a larger range", count(maxPlace, "byte"))
	}
	if h.r, err = h.warned(h.loadFor(addr, max(h.n, maxInsn))); err != nil {
		return err
	}
	if h.c, err = newCoder(h.r); err != nil {
		return err
	}
	if h.c.debug, err = h.debugInfo(h.r); err != nil {
		return err
	}
	asOf := h.r.Report.First
	if at != "" {
		t, err := oneTime(h.r, "--at", at)
		if err != nil {
			return err
		}
		asOf = t.From
	}
	if h.addr, err = h.r.ParseAddr(addr, asOf); err != nil {
		return err
	}
	if h.n == 0 {
		h.n = h.longest()
	}
	if h.addr+h.n < h.addr {
		h.n = -h.addr // up to the end of the address space
	}

	var show func(*version) error
	if h.json || h.csv {
		enc := h.rows("since", "until", "addr", "len", "standing", "reason.code", "bytes", "instructions", "source", "symbol.name", "symbol.offset", "symbol.module")
		show = func(v *version) error { return h.encode(enc, v) }
	} else {
		show = h.text(h.r.Image.At(asOf))
	}
	code := exitAnswered
	for t := uint64(0); ; {
		v := h.c.version(h.r.Image.At(t), h.addr, h.n)
		if err := show(&v); err != nil {
			return outputError(err)
		}
		if !h.meets(v.standing, "any") {
			code = exitBelow
		}
		if v.until == timeline.MaxTime {
			break
		}
		t = v.until
	}
	if code != exitAnswered {
		return errBelow
	}
	return nil
}

// longest returns the length of the longest instruction that was ever at the
// address. If there never were bytes, or they cannot be disassembled, it
// returns the length of a line of bytes.
func (h *history) longest() (n uint64) {
	if h.c.dis != nil {
		var code [maxInsn]byte
		for b := range h.r.Image.Versions(h.addr, code[:], 0, timeline.MaxTime) {
			if b.Given > 0 {
				n = max(n, uint64(len(h.c.next(code[:b.Given], h.r.Image.At(b.Since), h.addr).Bytes)))
			}
		}
	}
	if n == 0 {
		return oneLine
	}
	return n
}

// text returns a function that prints a version as text. The place is named as
// in the given view.
func (h *history) text(asOf timeline.View) func(*version) error {
	name := h.c.nameOf(asOf, h.addr)
	heading := fmt.Sprintf("%016x", h.addr)
	if name != "" {
		heading = h.style.paint(bold, h.c.heading(asOf, h.addr)) + " at " + heading
	}
	fmt.Fprintf(h.out, "%s, %s (%s):\n", heading, count(h.n, "byte"), clockName(h.r))
	if l, ok := h.c.sourceLine(asOf, h.addr); ok && l.File != "" {
		fmt.Fprintf(h.out, "  ; %s\n", h.c.sourceText(&l, h.addr))
	}
	return func(v *version) error {
		from, to := "the start", "the end"
		if v.since != 0 {
			from = replay.Seconds(v.since)
		}
		if v.until != timeline.MaxTime {
			to = replay.Seconds(v.until)
		}
		line := fmt.Sprintf("%-14s to %-14s  %s", from, to, h.style.standing(v.standing))
		if h.n <= oneLine {
			const longest = len("unconfirmed")
			line += fmt.Sprintf("%*s  %s", longest-len(v.standing.String()), "", describe(v.whole(h.c, h.addr), int(h.n)))
		}
		if sources := v.sources(); sources != "" {
			line += "  [" + sources + "]"
		}
		reason := v.reason.String()
		if len(joined(v.spans)) > 1 {
			reason = strings.TrimSpace("in part " + reason)
		}
		if reason != "" {
			line += "  (" + reason + ")"
		}
		if state := siteState(h.r, h.r.Image.At(v.since), h.addr); state != "" {
			line += "  " + state
		}
		if now := h.c.nameOf(v.view, h.addr); now != name && now != "" {
			line += fmt.Sprintf("  <%s>", now)
			name = now
		}
		if _, err := fmt.Fprintln(h.out, line); err != nil {
			return err
		}
		if h.n > oneLine && v.since != 0 {
			h.writeSites(h.c, v.view, v.sites(v.since, h.addr))
		}
		for i := range v.spans {
			h.writeCandidates(h.c, v.view, &v.spans[i], 2)
		}
		return nil
	}
}

// whole returns the rows of v, which begins at addr. The last instruction is
// whole if the image has its bytes.
func (v *version) whole(c *coder, addr uint64) []row {
	insts := c.instsAt(v.view, addr, v.n, nil)
	if insts == nil {
		return v.rows
	}
	rows := make([]row, len(insts))
	for i := range insts {
		rows[i].inst = insts[i]
	}
	return rows
}

// describe prints the rows of n bytes on one line.
func describe(rows []row, n int) string {
	var parts []string
	for i := 0; i < len(rows); {
		hole := uint64(0)
		for ; i < len(rows) && rows[i].hole != nil; i++ {
			hole += rows[i].hole.Len
		}
		if hole > 0 {
			parts = append(parts, fmt.Sprintf("(%s)", count(hole, "byte")))
			n -= int(hole)
			continue
		}
		first := i
		for i < len(rows) && rows[i].hole == nil {
			i++
		}
		insts := instsOf(rows[first:i])
		parts = append(parts, instsText(insts, n))
		for _, in := range insts {
			n -= len(in.Bytes)
		}
	}
	return strings.Join(parts, "; ")
}

// jsonPast is one version of a place. Bytes are null unless all are given, and
// the source is null if there are several. Standing and reason are the least.
// Spans has the details if the spans differ.
type jsonPast struct {
	jsonPiece
	Symbol       *jsonSymbol `json:"symbol"`
	State        *jsonState  `json:"state,omitempty"` // if the site is changed in several steps
	Spans        []jsonPiece `json:"spans,omitempty"` // if there are several
	Instructions []jsonInst  `json:"instructions"`
}

func (h *history) encode(enc rowEncoder, v *version) error {
	// The whole version, in the form of a span.
	whole := timeline.Span{Addr: h.addr, Len: h.n, Standing: v.standing, Reason: v.reason, Since: v.since, Until: v.until}
	out := jsonPast{Symbol: h.c.symbolJSON(v.view, h.addr), State: stateJSON(h.r, v.view, h.addr), Instructions: instsJSON(instsOf(v.whole(h.c, h.addr)))}
	if len(v.spans) == 1 {
		whole = v.spans[0]
	} else {
		if !slices.ContainsFunc(v.spans, func(s timeline.Span) bool { return s.Source != v.spans[0].Source }) {
			whole.Source = v.spans[0].Source
		}
		given := !slices.ContainsFunc(v.spans, func(s timeline.Span) bool { return s.Bytes == nil })
		for i := range v.spans {
			if given {
				whole.Bytes = append(whole.Bytes, v.spans[i].Bytes...)
			}
			out.Spans = append(out.Spans, pieceJSON(&v.spans[i]))
		}
	}
	out.jsonPiece = pieceJSON(&whole)
	return enc.Encode(out)
}
