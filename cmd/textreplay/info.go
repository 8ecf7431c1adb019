// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

func (a *app) infoCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "info [flags]",
		Short: "What a recording is and how far it can be trusted",
		Long: `info says what a recording is and how far it can be trusted. Its first line
answers whether kernel text is known, from when to when, and if not, why.`,
		Example: `  textreplay info
  textreplay info -i run7.data --json | jq .trusted`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.load()
			if err != nil {
				return err
			}
			d := newDigest(r)
			if a.json {
				return outputError(encoder(a.out).Encode(d.json()))
			}
			d.write(a.out, a.style)
			return nil
		},
	}
}

// A digest is a report with what it takes the image to count.
type digest struct {
	*replay.Report
	r         *replay.Replay
	programs  []program
	conflicts []timeline.Conflict // the first of them; Report.Conflicts is how many there are
}

// maxConflicts is how many conflicts are listed at most: a recording that lost
// much has tens of thousands.
const maxConflicts = 1000

// A program is a life of a BPF program.
type program struct {
	name     string
	addr     uint64
	from, to uint64
	bytes    bool
}

func newDigest(r *replay.Replay) *digest {
	d := &digest{Report: r.Report, r: r, conflicts: first(r.Image.Conflicts(), maxConflicts)}
	for s := range r.Image.Symbols {
		if !strings.HasPrefix(s.Name, "bpf_prog_") || s.Size == 0 {
			continue
		}
		var first [1]byte
		given := r.Image.At(s.From).Read(s.Addr, first[:]).Given == 1
		d.programs = append(d.programs, program{s.Name, s.Addr, s.From, s.To, given})
	}
	slices.SortStableFunc(d.programs, func(x, y program) int { return cmp.Compare(x.from, y.from) })
	return d
}

// first returns the first n elements of a sequence.
func first[T any](seq iter.Seq[T], n int) []T {
	var out []T
	for x := range seq {
		if len(out) == n {
			break
		}
		out = append(out, x)
	}
	return out
}

// tsc and wall report whether times of these forms can be converted.
func (d *digest) tsc() error {
	_, err := d.Clock.TSC(0)
	return err
}

func (d *digest) wall() error {
	_, err := d.Clock.ToWall(d.First)
	return err
}

// recordCount is how many records of a type there are.
type recordCount struct {
	typ perfdata.RecordType
	n   uint64
}

func (d *digest) records() []recordCount {
	var out []recordCount
	for _, t := range slices.Sorted(maps.Keys(d.Records)) {
		out = append(out, recordCount{t, d.Records[t]})
	}
	return out
}

// A kind is one kind of change with its coverage.
type kind struct {
	name     string
	coverage replay.Coverage
}

func (d *digest) kinds() []kind {
	c := &d.Coverage
	return []kind{{"pokes", c.Pokes}, {"ksymbols", c.KSymbols}, {"bpf", c.BPF}, {"modules", c.Modules}}
}

// moduleNames lists the modules that were loaded when the snapshot was taken.
func (d *digest) moduleNames() []string {
	if d.r.Snapshot == nil {
		return nil
	}
	var names []string
	for _, m := range d.r.Snapshot.Modules {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return names
}

// trust is the answer of the first line.
func (d *digest) trust() string {
	t := &d.Trusted
	because := strings.Join(t.Because, "; ")
	text, later := "ernel text", ""
	if d.Guest != 0 {
		text += " of guest " + guestFlag(d.Guest)
	}
	if t.To == 0 {
		return "K" + text + " is not known at any time: " + because
	}
	what := "K" + text + " is known"
	if d.SnapshotBytes == 0 {
		what = "Only what was changed of k" + text + " is known"
	}
	forever := slices.ContainsFunc(d.Coverage.Pokes.Limits, func(l replay.Limit) bool {
		return l.From <= t.To && l.To == timeline.MaxTime
	})
	if t.To < d.Horizon && !forever {
		later = ", and later only what changed since"
	}
	return fmt.Sprintf("%s from %s to %s (%s)%s: %s", what,
		replay.Seconds(t.From), replay.Seconds(t.To), span(t.From, t.To), later, because)
}

func (d *digest) write(w io.Writer, s style) {
	code := green
	switch {
	case d.Trusted.To == 0:
		code = red
	case d.Coverage.Pokes.Verdict != replay.Complete || d.Report.Conflicts > 0:
		code = yellow
	}
	fmt.Fprintln(w, s.paint(code, d.trust()))

	section := func(title string) { fmt.Fprintf(w, "\n%s\n", s.paint(bold, title)) }
	field := func(name, format string, args ...any) {
		fmt.Fprintf(w, "  %-14s%s\n", name, fmt.Sprintf(format, args...))
	}
	more := func(n, shown int) {
		if n > shown {
			fmt.Fprintf(w, "  and %s more\n", thousands(n-shown))
		}
	}
	known := func(s string) string {
		if s == "" {
			return "not recorded"
		}
		return s
	}

	section("Recording")
	field("producer", "%s", known(d.Producer))
	field("kernel", "%s", strings.TrimSpace(known(d.Kernel)+" "+d.Arch))
	if d.CPUsAvailable > 0 {
		field("CPUs", "%d, of which %d online", d.CPUsAvailable, d.CPUsOnline)
	} else {
		field("CPUs", "not recorded")
	}
	field("clock", "%s", d.Clock.Name)
	if err := d.tsc(); err != nil {
		field("  tsc:", "no: %v", err)
	} else {
		field("  tsc:", "converts")
	}
	if err := d.wall(); err != nil {
		field("  wall:", "no: %v", err)
	} else {
		at, _ := d.Clock.ToWall(d.First)
		field("  wall:", "converts; the first record is of %s", at.Format(time.RFC3339Nano))
	}
	field("first record", "%s", replay.Seconds(d.First))
	end := "the recording ends cleanly"
	if !d.Clean {
		end = fmt.Sprintf("no clean end; the newest record is of %s", replay.Seconds(d.Last))
		if d.Guest > 0 {
			end = fmt.Sprintf("nothing says whether the guest's own recording was whole; its newest record is of %s", replay.Seconds(d.Last))
		}
	}
	field("horizon", "%s (%s)", replay.Seconds(d.Horizon), end)
	var total uint64
	parts := make([]string, 0, len(d.Records))
	for _, c := range d.records() {
		total += c.n
		parts = append(parts, fmt.Sprintf("%v %s", c.typ, thousands(c.n)))
	}
	field("records", "%s:", thousands(total))
	wrap(w, "    ", parts)

	if len(d.Guests) > 0 {
		section("Guests")
		for i := range d.Guests {
			field(d.Guests[i].Name(), "%s", guestText(&d.Guests[i]))
		}
	}

	section("Coverage")
	for _, k := range d.kinds() {
		field(k.name, "%s", k.coverage.Verdict)
		const most = 3
		for i, l := range k.coverage.Limits {
			if i == most {
				fmt.Fprintf(w, "    and %s more\n", thousands(len(k.coverage.Limits)-most))
				break
			}
			fmt.Fprintf(w, "    %s%s (%s)\n", limitTime(l), l.Text, l.Reason)
		}
	}

	section("Snapshot")
	if d.Copied == nil {
		dir := "kcore_dir"
		if d.Guest > 0 {
			dir += "__" + guestFlag(d.Guest)
		}
		fmt.Fprintf(w, "  none: there is no copy of kernel text beside the recording (%s)\n", dir)
	} else {
		from := "an unknown time"
		if d.Copied.From != 0 {
			from = replay.Seconds(d.Copied.From)
		}
		field("taken", "between %s and %s", from, replay.Seconds(d.Copied.To))
		field("ranges", "%s in %d:", count(d.SnapshotBytes, "byte"), len(d.Segments))
		const most = 8
		for _, g := range d.Segments[:min(most, len(d.Segments))] {
			fmt.Fprintf(w, "    %016x..%016x %s\n", g.Lo, g.Hi, count(g.Hi-g.Lo, "byte"))
		}
		more(len(d.Segments), most)
	}
	for _, c := range d.Copies {
		field("further copy", "%s, taken between %s and %s, %s in %d", c.KCore, replay.Seconds(c.Made.From), replay.Seconds(c.Made.To),
			count(c.Bytes, "byte"), len(c.Segments))
	}
	if lo, hi := d.r.Image.Text(); lo < hi {
		field("kernel text", "%016x..%016x %s", lo, hi, count(hi-lo, "byte"))
	}
	if names := d.moduleNames(); len(names) > 0 {
		trusted := "known"
		if d.Coverage.Modules.Verdict != replay.Complete {
			trusted = "at most unconfirmed, see above"
		}
		field("modules", "%d, their text %s:", len(names), trusted)
		wrap(w, "    ", names)
	}

	section("Changes")
	p := &d.Pokes
	field("pokes", "%s", thousands(p.Total))
	for _, k := range pokeKinds(p) {
		if k.n > 0 {
			fmt.Fprintf(w, "    %10s %s\n", thousands(k.n), k.text)
		}
	}
	field("symbols", "%s, %s", count(d.Symbols.Births, "birth"), count(d.Symbols.Deaths, "death"))
	field("BPF", "%s, %d of them with bytes; %s without", count(d.BPF.Programs, "program load"), d.BPF.WithBytes,
		count(d.BPF.Images, "trampoline or dispatcher image"))
	var with, without []string
	for _, x := range d.programs {
		if x.bytes {
			with = append(with, x.name)
		} else {
			without = append(without, x.name)
		}
	}
	missing := "without bytes"
	if d.r.Recording.Pipe() {
		missing += " (perf writes program infos to a pipe before the run, and none larger than 64 KiB)"
	}
	for _, l := range []struct {
		title string
		names []string
	}{{"with bytes", with}, {missing, without}} {
		if len(l.names) > 0 {
			fmt.Fprintf(w, "  %s:\n", l.title)
			wrap(w, "    ", tally(l.names))
		}
	}

	if len(d.Losses) > 0 {
		var lost uint64
		for _, l := range d.Losses {
			lost += l.Records
		}
		section(fmt.Sprintf("Lost: %s in %s", count(lost, "record"), count(len(d.Losses), "place")))
		const most = 5
		for _, l := range d.Losses[:min(most, len(d.Losses))] {
			fmt.Fprintf(w, "  %s to %s  %s, %s\n", replay.Seconds(l.From), replay.Seconds(l.To), l.Where(), count(l.Records, "record"))
		}
		more(len(d.Losses), most)
	}
	if len(d.Skews) > 0 {
		section(fmt.Sprintf("Clocks: those of the CPUs differ by %s at least; so close to a change it is not known which side a time is on", time.Duration(d.ClockUncertainty)))
		const most = 3
		for _, s := range d.Skews[:min(most, len(d.Skews))] {
			fmt.Fprintf(w, "  %s  CPU %d's change of %s came before CPU %d's of %s\n", placeOf(d.r.Image.At(s.Second), s.Addr),
				s.FirstCPU, replay.Seconds(s.First), s.SecondCPU, replay.Seconds(s.Second))
		}
		more(len(d.Skews), most)
	}
	if len(d.conflicts) > 0 {
		section(fmt.Sprintf("Conflicts: %s (textreplay verify lists them)", thousands(d.Report.Conflicts)))
		const most = 3
		for _, c := range d.conflicts[:min(most, len(d.conflicts))] {
			writeConflict(w, d.r, c)
		}
		more(d.Report.Conflicts, most)
	}
	if len(d.Warnings) > 0 {
		section(fmt.Sprintf("Warnings: %d", len(d.Warnings)))
		for _, err := range d.Warnings {
			fmt.Fprintf(w, "  %v\n", err)
		}
	}
}

// limitTime introduces a limit of coverage by the time that it holds for.
func limitTime(l replay.Limit) string {
	switch {
	case l.From == 0 && l.To == timeline.MaxTime:
		return ""
	case l.To == timeline.MaxTime:
		return "from " + replay.Seconds(l.From) + ": "
	case l.From == 0:
		return "until " + replay.Seconds(l.To) + ": "
	}
	return replay.Seconds(l.From) + " to " + replay.Seconds(l.To) + ": "
}

// writeConflict prints a contradiction.
func writeConflict(w io.Writer, r *replay.Replay, c timeline.Conflict) {
	fmt.Fprintf(w, "  %s %s to %s (%s)\n", label(r.Image.At(c.From), c.Addr), replay.Seconds(c.From), replay.Seconds(c.To), c.Reason)
	const most = 16
	for _, x := range c.Candidates {
		b, more := x.Bytes, ""
		if len(b) > most {
			b, more = b[:most], " ..."
		}
		fmt.Fprintf(w, "    %s %s%s\n", factText(x.Fact), spaced(b), more)
	}
}

type pokeKind struct {
	key, text string
	n         uint64
}

// shapes are the keys of JSON for the kinds of pokes.
var shapes = [...]string{
	timeline.PokeBatch:       "in_place",
	timeline.PokeArmed:       "armed",
	timeline.PokeDisarmed:    "disarmed",
	timeline.PokeUnoptimised: "unoptimised",
	timeline.PokeCreated:     "created",
	timeline.PokeRemoved:     "retired",
}

func pokeKinds(p *replay.PokeCounts) []pokeKind {
	return []pokeKind{
		{shapes[timeline.PokeBatch], "in place: static keys and calls, ftrace, BPF, optimised probes", p.InPlace},
		{shapes[timeline.PokeArmed], "kprobes armed", p.Armed},
		{shapes[timeline.PokeDisarmed], "kprobes disarmed", p.Disarmed},
		{shapes[timeline.PokeUnoptimised], "optimised kprobes undone", p.Unoptimised},
		{shapes[timeline.PokeCreated], "new out-of-line code", p.Created},
		{shapes[timeline.PokeRemoved], "out-of-line code retired", p.Removed},
		{"doubles", "more that perf wrote twice", p.Doubles},
		{"copies", "more that are other events' copies", p.Copies},
	}
}

// tally sorts names, each once, with how often it stood there.
func tally(names []string) []string {
	n := make(map[string]int)
	for _, s := range names {
		n[s]++
	}
	out := slices.Sorted(maps.Keys(n))
	for i, s := range out {
		if n[s] > 1 {
			out[i] = fmt.Sprintf("%s (%d times)", s, n[s])
		}
	}
	return out
}

// wrap prints items, as many on a line as fit.
func wrap(w io.Writer, indent string, items []string) {
	const width = 100
	line := ""
	for i, s := range items {
		if i+1 < len(items) {
			s += ","
		}
		if line != "" && len(indent)+len(line)+1+len(s) > width {
			fmt.Fprintf(w, "%s%s\n", indent, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += s
	}
	if line != "" {
		fmt.Fprintf(w, "%s%s\n", indent, line)
	}
}
