// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/mechanism"
	"github.com/textreplay/textreplay/timeline/replay"
)

// audit is the state of the command audit.
type audit struct {
	*app
	explain bool
	limit   int
	r       *replay.Replay
	c       *coder
	classes *mechanism.Classifier
}

func (a *app) auditCmd() *cobra.Command {
	x := &audit{app: a}
	cmd := &cobra.Command{
		Use:   "audit [flags] | audit --explain [OFFSET BYTES]",
		Short: "Check that the kernel's own mechanisms explain every change",
		Long: `audit compares every change of kernel text with what the kernel's mechanisms allow:
static keys, static calls, ftrace, kprobes, BPF. It lists what they do not explain:

  - bytes that none of them writes
  - places that none of them changes, and instructions that lead where they never
    lead, such as a static call of a function that no static call has
  - changes that were not recorded: old bytes, or copies of text, that differ from
    what the recording gave

Each has its time, its writer, and the instructions before and after. With --vmlinux,
the kernel's tables (__jump_table, .static_call_sites, __mcount_loc) say which places
may change. Without it, audit has only names, bytes and the order of changes. A change that
was made by a mechanism, but by somebody who should not have, is not found.

With --vmlinux, the text at the start of the recording is compared with the file, too
(x86-64 only). The kernel changes its text when it boots: alternatives, calls of
pv_ops, retpolines, returns, ftrace's calls. Every byte that differs must be what such
a mechanism writes, in a place that the file's tables have, or it is a finding.

The exit code is 1 if anything is unaccounted for: a finding that no lost record
explains, or a time in which changes may have gone unrecorded.

--explain answers an alert of LKRG: which change made the text at OFFSET from _stext
have these BYTES (hexadecimal), when, by whom, and by which mechanism. Without
arguments it reads LKRG's log from standard input, with the lines of a debug build:

  copy[0xf] vs now[0xffffffe9] offset[9060663 | 0x8a4137] symbol[vfs_read]

The exit code is then 1 if the text never had these bytes, if the change is not
accounted for, or if they also changed without a record.`,
		Example: `  textreplay audit
  textreplay audit --vmlinux vmlinux --json
  textreplay audit --explain 0x8a4137 e9af01
  dmesg | textreplay audit --explain`,
		Args: func(cmd *cobra.Command, args []string) error {
			switch {
			case x.explain && len(args) != 0 && len(args) != 2:
				return usagef("audit --explain needs OFFSET and BYTES, or neither")
			case !x.explain && len(args) > 0:
				return usagef("audit takes no arguments without --explain")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return x.run(args) },
	}
	f := cmd.Flags()
	f.BoolVar(&x.explain, "explain", false, "explain the bytes at an offset from _stext, as LKRG reports them")
	f.IntVar(&x.limit, "limit", 20, "list at most `N` findings (0: all)")
	return cmd
}

func (x *audit) run(args []string) (err error) {
	if x.limit < 0 {
		return usagef("--limit %d: must be 0 or more", x.limit)
	}
	var alerts []alert
	if x.explain {
		if alerts, err = x.alerts(args); err != nil {
			return err
		}
	}
	if x.r, err = x.loadAndWarn(); err != nil {
		return err
	}
	x.warnWindows("the audit")
	if x.c, err = newCoder(x.r); err != nil {
		return err
	}
	if x.classes, err = x.classify(x.r); err != nil {
		return err
	}
	if x.explain {
		return x.explainAll(alerts)
	}
	start, err := x.compareStart()
	if err != nil {
		return err
	}
	found := x.classes.Audit(start)
	if x.json {
		err = encoder(x.out).Encode(x.jsonAudit(found))
	} else {
		x.writeText(found)
	}
	if err == nil && !found.Complete() {
		return errBelow
	}
	return outputError(err)
}

func (x *audit) writeText(a *mechanism.Audit) {
	w := x.out
	switch {
	case a.Unaccounted > 0:
		fmt.Fprintln(w, x.style.paint(red, fmt.Sprintf("Not everything is accounted for: %s in %s",
			count(a.Unaccounted, "finding"), count(a.Changes, "change"))))
	case len(a.Gaps) > 0:
		fmt.Fprintf(w, "Not everything can be accounted for: changes may have gone unrecorded. The %s that were recorded are.\n", count(a.Changes, "change"))
	default:
		fmt.Fprintf(w, "Everything is accounted for: %s, no change went unrecorded\n", count(a.Changes, "change"))
	}
	if a.First != 0 {
		fmt.Fprintf(w, "  from %s to %s: %s\n", replay.Seconds(a.First), replay.Seconds(a.Last), byText(a.By[:], len(a.By)))
	}
	if x.vmlinux == "" {
		fmt.Fprintln(w, "  places: by names and bytes; --vmlinux FILE checks them against the kernel's tables,\n"+
			"  and the text at the start against the file")
	}
	x.writeStart(a.Start)
	if a.Ambiguous > 0 {
		fmt.Fprintf(w, "  %s could be made by two mechanisms: without the names of a module nothing shows which\n", count(a.Ambiguous, "change"))
	}
	shown := 0
	for i := range a.Violations {
		v := &a.Violations[i]
		if v.Excused {
			continue
		}
		if shown++; x.limit > 0 && shown > x.limit {
			continue
		}
		x.writeViolation(v)
	}
	if x.limit > 0 && shown > x.limit {
		fmt.Fprintf(w, "\nand %s more (--limit 0 lists all)\n", thousands(a.Unaccounted-uint64(x.limit)))
	}
	if a.Excused > 0 {
		fmt.Fprintf(w, "\n%s may be explained by records that are missing (--json lists them)\n", count(a.Excused, "finding"))
	}
	if len(a.Gaps) > 0 {
		fmt.Fprintf(w, "\nChanges may have gone unrecorded:\n")
		for i, g := range a.Gaps {
			if x.limit > 0 && i == x.limit {
				fmt.Fprintf(w, "  and %s more (--limit 0 lists all)\n", thousands(len(a.Gaps)-i))
				break
			}
			fmt.Fprintf(w, "  %s: %s (%v)\n", during(g.From, g.To), g.Text, g.Reason)
		}
	}
}

// compareStart compares the text at the start with the vmlinux file; nil if there is no
// file, or if it is not known how this architecture's kernels change their text.
func (x *audit) compareStart() (*mechanism.Start, error) {
	if x.vmlinux == "" {
		return nil, nil
	}
	f, err := os.Open(x.vmlinux)
	if err != nil {
		return nil, inputError(err)
	}
	defer f.Close()
	start, err := x.classes.CompareStart(f)
	switch {
	case errors.Is(err, disasm.ErrUnsupportedArch), errors.Is(err, replay.ErrNoKallsyms):
		x.warnf("%s: %v", x.vmlinux, err)
		return nil, nil
	case err != nil:
		return nil, inputError(fmt.Errorf("%s: %w", x.vmlinux, err))
	}
	return start, nil
}

func (x *audit) writeStart(s *mechanism.Start) {
	if s == nil {
		return
	}
	var by []string
	for _, c := range s.Causes() {
		by = append(by, fmt.Sprintf("%v %s", c, thousands(s.By[c])))
	}
	fmt.Fprintf(x.out, "  start: %s of %s compared with the file, ", count(s.Compared, "byte"), thousands(s.Compared+s.Missing))
	switch {
	case s.Compared == 0:
		fmt.Fprintln(x.out, "since the recording has no copy of kernel text")
	case s.Differing == 0:
		fmt.Fprintln(x.out, "all equal")
	case s.Unexplained == 0:
		fmt.Fprintf(x.out, "%s differ as the kernel's mechanisms write them\n  by %s\n", thousands(s.Differing), strings.Join(by, ", "))
	default:
		fmt.Fprintf(x.out, "%s differ, %s of them without a mechanism\n", thousands(s.Differing), thousands(s.Unexplained))
		if len(by) > 0 {
			fmt.Fprintf(x.out, "  by %s\n", strings.Join(by, ", "))
		}
	}
}

// during prints an interval.
func during(from, to uint64) string {
	begin, end := "the start", "the end"
	if from != 0 {
		begin = replay.Seconds(from)
	}
	if to != timeline.MaxTime {
		end = replay.Seconds(to)
	}
	return begin + " to " + end
}

func (x *audit) writeViolation(v *mechanism.Violation) {
	w := x.out
	fmt.Fprintf(w, "\n%v: %s\n", v.Fault, v.Fault.Text())
	when := "before the recording"
	switch {
	case v.Time == timeline.MaxTime || v.Since != 0 && v.Since != v.Time:
		when = during(v.Since, v.Time)
	case v.Time != 0:
		when = replay.Seconds(v.Time)
	}
	who := "writer not recorded"
	if v.HasWriter {
		who = writerText(v.Comm, v.TID)
	}
	if v.HasCPU {
		who = fmt.Sprintf("cpu %d  %s", v.CPU, who)
	}
	fmt.Fprintf(w, "  %s  %s", when, who)
	if v.Mechanism != mechanism.Other {
		fmt.Fprintf(w, "  in the form of %v", v.Mechanism)
	}
	fmt.Fprintln(w)
	if v.Addr != 0 {
		old, new := x.sides(v)
		fmt.Fprintf(w, "  %s %s  ->  %s\n", label(x.r.Image.At(v.Time), v.Addr), old, new)
	}
	if v.Target != 0 {
		fmt.Fprintf(w, "  it leads to %s\n", addrText(x.r.Image.At(v.Time), v.Target))
	}
	if v.Detail != "" {
		fmt.Fprintf(w, "  %s\n", v.Detail)
	}
}

// sides returns the instructions before and after a change.
func (x *audit) sides(v *mechanism.Violation) (old, new string) {
	one := func(t uint64, code []byte) string {
		if len(code) == 0 {
			return "nothing"
		}
		view, at := x.r.Image.At(t), v.Addr
		if v.Fault == mechanism.Unrecorded {
			// Only the bytes that differ: they may begin inside an instruction.
			before := x.c.instBefore(view, v.Addr, code)
			at, code = at-uint64(len(before)), append(before, code...)
		}
		return instsText(x.c.shown(view, at, code), len(code))
	}
	before := max(v.Time, 1) - 1
	if v.Since != 0 {
		before = v.Since
	}
	return one(before, v.Old), one(v.Time, v.New)
}

// The JSON of audit.
type (
	jsonAudit struct {
		OK bool `json:"ok"`
		jsonCounts
		By          map[string]uint64 `json:"by_mechanism"`
		Tables      bool              `json:"tables"` // the kernel's tables were read
		Unaccounted uint64            `json:"unaccounted"`
		Excused     uint64            `json:"excused"`
		Ambiguous   uint64            `json:"ambiguous"`
		Findings    []jsonViolation   `json:"findings"`
		Gaps        []jsonGap         `json:"gaps"`
		// Start is how the text of the first copy compares with the vmlinux file; null
		// without one.
		Start *jsonStart `json:"start"`
	}
	jsonStart struct {
		Compared    uint64            `json:"compared"`  // bytes
		Missing     uint64            `json:"missing"`   // bytes that the recording has no copy of
		Differing   uint64            `json:"differing"` // of those compared
		By          map[string]uint64 `json:"by_mechanism"`
		Unexplained uint64            `json:"unexplained"`
	}
	jsonViolation struct {
		Code      string      `json:"code"`
		Text      string      `json:"text"`
		Time      *string     `json:"time"`
		Since     *string     `json:"since"`
		CPU       *uint32     `json:"cpu"`
		PID       *uint32     `json:"pid"`
		TID       *uint32     `json:"tid"`
		Comm      *string     `json:"comm"`
		Addr      *string     `json:"addr"`
		Symbol    *jsonSymbol `json:"symbol"`
		Old       *string     `json:"old"`
		New       *string     `json:"new"`
		OldText   string      `json:"old_text"`
		NewText   string      `json:"new_text"`
		Target    *jsonPlace  `json:"target"`
		Mechanism string      `json:"mechanism"`
		Detail    string      `json:"detail,omitempty"`
		Excused   bool        `json:"excused"`
	}
	jsonGap struct {
		Code string  `json:"code"`
		Text string  `json:"text"`
		From *string `json:"from"`
		To   *string `json:"to"`
	}
)

func (x *audit) jsonAudit(a *mechanism.Audit) *jsonAudit {
	out := &jsonAudit{a.Complete(), countsJSON(a.Counts), byJSON(a.By[:]), x.classes.HasTables(), a.Unaccounted, a.Excused, a.Ambiguous,
		[]jsonViolation{}, []jsonGap{}, nil}
	if s := a.Start; s != nil {
		out.Start = &jsonStart{s.Compared, s.Missing, s.Differing, make(map[string]uint64), s.Unexplained}
		for _, c := range s.Causes() {
			out.Start.By[c.String()] = s.By[c]
		}
	}
	for i := range a.Violations {
		out.Findings = append(out.Findings, x.violationJSON(&a.Violations[i]))
	}
	for _, g := range a.Gaps {
		out.Gaps = append(out.Gaps, jsonGap{g.Reason.String(), g.Text, since(g.From), until(g.To)})
	}
	return out
}

func (x *audit) violationJSON(v *mechanism.Violation) jsonViolation {
	out := jsonViolation{Code: v.Fault.String(), Text: v.Fault.Text(), Time: since(v.Time), Since: since(v.Since),
		Mechanism: v.Mechanism.String(), Detail: v.Detail, Excused: v.Excused, Old: hexOrNil(v.Old), New: hexOrNil(v.New)}
	if v.Time == timeline.MaxTime {
		out.Time = nil
	}
	view := x.r.Image.At(v.Time)
	if v.HasWriter {
		out.PID, out.TID, out.Comm = &v.PID, &v.TID, nonEmpty(v.Comm)
	}
	if v.HasCPU {
		out.CPU = &v.CPU
	}
	if v.Addr != 0 {
		addr := hexAddr(v.Addr)
		out.Addr, out.Symbol = &addr, placeOf(view, v.Addr).json()
		out.OldText, out.NewText = x.sides(v)
	}
	if v.Target != 0 {
		out.Target = &jsonPlace{hexAddr(v.Target), placeOf(view, v.Target).json()}
	}
	return out
}

func hexOrNil(b []byte) *string {
	if len(b) == 0 {
		return nil
	}
	s := hex.EncodeToString(b)
	return &s
}
