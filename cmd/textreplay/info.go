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
	"github.com/textreplay/textreplay/recorder/journal"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

func (a *app) infoCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "info [flags]",
		Short: "Say what a recording is and how far it can be trusted",
		Long: `info says what a recording is and how far it can be trusted. Its first line says
whether kernel text is known, from when to when, and if not, why. Its last lines have
the command line, of perf or of textreplay record, that would record what this
recording lacks.

The exit code is 1 if kernel text is not known at any time.`,
		Example: `  textreplay info
  textreplay info -i run7.data --json | jq .trusted`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.load()
			if err != nil {
				return err
			}
			d := newDigest(r)
			if a.json {
				if err := encoder(a.out).Encode(d.json()); err != nil {
					return outputError(err)
				}
			} else {
				d.write(a.out, a.style)
			}
			if d.Trusted.To == 0 {
				return errBelow
			}
			return nil
		},
	}
}

// A digest is a report with the counts that need the image.
type digest struct {
	*replay.Report
	r         *replay.Replay
	programs  []program
	conflicts []timeline.Conflict // the first maxConflicts; Report.Conflicts counts all
}

// maxConflicts limits how many conflicts are listed: a recording with many
// losses has tens of thousands.
const maxConflicts = 1000

// A program is one lifetime of a BPF program.
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

// tsc and wall return why times of these forms cannot be converted, nil if they can.
func (d *digest) tsc() error { return d.Clock.Converts() }

func (d *digest) wall() error {
	_, err := d.Clock.ToWall(d.First)
	return err
}

// recordCount is a type of record with its count.
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

// trust returns the first line.
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
	if d.OnlyPoked() {
		what = "Only changed places of k" + text + " are known"
	}
	forever := slices.ContainsFunc(d.Coverage.Pokes.Limits, func(l replay.Limit) bool {
		return l.From <= t.To && l.To == timeline.MaxTime
	})
	if t.To < d.Horizon && !forever {
		later = ", and later only places that have changed since"
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
	o := &sections{w, s}
	d.writeRecording(o)
	d.writeGuests(o)
	d.writeCoverage(o)
	o.field("assumed", "no writer that leaves no record: %s (docs/truth.md)", strings.Join(unseenWriters, ", "))
	for _, a := range d.assumptions() {
		o.field("", "%s", a)
	}
	d.writeProbes(o)
	d.writeSnapshot(o)
	d.writeChanges(o)
	d.writeDoubts(o)
	d.writeAdvice(o)
}

// writeAdvice prints how to record what this recording lacks.
func (d *digest) writeAdvice(o *sections) {
	advice := d.r.Advice()
	if advice == nil {
		return
	}
	o.section("Next time")
	switch {
	case len(advice.Changes) == 0:
		fmt.Fprintf(o.w, "  the same command: this recording lacks nothing that %s can record\n", advice.Command[0])
		return
	case advice.Command != nil:
		fmt.Fprintf(o.w, "  sudo %s\n", shellLine(advice.Command))
	}
	for _, c := range advice.Changes {
		if c.Option == "" {
			fmt.Fprintf(o.w, "    %s\n", c.Why)
		} else {
			fmt.Fprintf(o.w, "    %s: %s\n", c.Option, c.Why)
		}
	}
}

// shellLine quotes arguments for a shell.
func shellLine(args []string) string {
	quoted := make([]string, len(args))
	for i, s := range args {
		plain := s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%^") == ""
		if quoted[i] = s; !plain {
			quoted[i] = "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

// unseenWriters write to kernel text in ways that nothing records. What is known holds
// only if none did: docs/truth.md has the list, with its sources.
var unseenWriters = []string{
	"kgdb", "Ksplice", "/dev/mem", "DMA", "a rootkit", "a KVM host that replaces VMCALL", "a live patch of a module",
	"firmware (SMM)", "suspend", "hibernation",
}

// assumptions returns what else is assumed of how perf was run and of the machine.
func (d *digest) assumptions() (list []string) {
	if !d.r.OptionsKnown() && d.Guest == 0 {
		list = append(list, "no event disabled while perf recorded (perf record --control), and none for some tasks or modules only (-G, --filter): the recording does not have perf's options")
	}
	if d.Clock.Name == "perf" {
		list = append(list, "CPUs' clocks differ by 50 ms at most (perf record -k CLOCK_MONOTONIC has one clock for all)")
	}
	if d.ClocksMayDiffer && len(d.Skews) == 0 && d.CPUsAvailable != 1 {
		list = append(list, "CPUs' clocks agree close to a change: the recording does not say so (it has no TIME_CONV); else a time of another CPU within 50 ms of a change may be on its other side")
	}
	switch canBeSet := d.Clock.Name == "CLOCK_REALTIME" || d.Clock.Name == "CLOCK_TAI"; {
	case canBeSet && d.ClockUncertainty > 0:
		list = append(list, "some CPU was not silent for longer than ever else when the clock was set back")
	case canBeSet:
		list = append(list, "nobody set the clock back while all CPUs were silent for longer (perf record -k CLOCK_MONOTONIC has a clock that cannot be set)")
	}
	return list
}

// sections prints titles with fields below them.
type sections struct {
	w io.Writer
	style
}

func (o *sections) section(title string) { fmt.Fprintf(o.w, "\n%s\n", o.paint(bold, title)) }

func (o *sections) field(name, format string, args ...any) {
	fmt.Fprintf(o.w, "  %-14s%s\n", name, fmt.Sprintf(format, args...))
}

// more prints how many of n are not shown.
func (o *sections) more(n, shown int) {
	if n > shown {
		fmt.Fprintf(o.w, "  and %s more\n", thousands(n-shown))
	}
}

func orNotRecorded(s string) string {
	if s == "" {
		return "not recorded"
	}
	return s
}

func (d *digest) writeRecording(o *sections) {
	o.section("Recording")
	o.field("producer", "%s", orNotRecorded(d.Producer))
	o.field("kernel", "%s", strings.TrimSpace(orNotRecorded(d.Kernel)+" "+d.Arch))
	o.field("  build id:", "%s", orNotRecorded(d.BuildID))
	if d.CPUsAvailable > 0 {
		o.field("CPUs", "%d, of which %d online", d.CPUsAvailable, d.CPUsOnline)
	} else {
		o.field("CPUs", "not recorded")
	}
	o.field("clock", "%s", d.Clock.Name)
	if err := d.tsc(); err != nil {
		o.field("  tsc:", "no: %v", err)
	} else {
		o.field("  tsc:", "converts")
	}
	if err := d.wall(); err != nil {
		o.field("  wall:", "no: %v", err)
	} else {
		at, _ := d.Clock.ToWall(d.First)
		o.field("  wall:", "converts; the first record is at %s", at.Format(time.RFC3339Nano))
	}
	o.field("first record", "%s", replay.Seconds(d.First))
	end := "the recording ends cleanly"
	if !d.Clean {
		end = fmt.Sprintf("no clean end; the newest record is at %s", replay.Seconds(d.Last))
		if d.Guest > 0 {
			end = fmt.Sprintf("the guest's recording may be incomplete; its newest record is at %s", replay.Seconds(d.Last))
		}
	}
	o.field("horizon", "%s (%s)", replay.Seconds(d.Horizon), end)
	var total uint64
	parts := make([]string, 0, len(d.Records))
	for _, c := range d.records() {
		total += c.n
		parts = append(parts, fmt.Sprintf("%v %s", c.typ, thousands(c.n)))
	}
	o.field("records", "%s:", thousands(total))
	wrap(o.w, "    ", parts)
}

func (d *digest) writeGuests(o *sections) {
	if len(d.Guests) > 0 {
		o.section("Guests")
		for i := range d.Guests {
			o.field(d.Guests[i].Name(), "%s", guestText(&d.Guests[i]))
		}
	}
}

func (d *digest) writeCoverage(o *sections) {
	o.section("Coverage")
	for _, k := range d.kinds() {
		o.field(k.name, "%s", k.coverage.Verdict)
		const most = 3
		for i, l := range k.coverage.Limits {
			if i == most {
				fmt.Fprintf(o.w, "    and %s more\n", thousands(len(k.coverage.Limits)-most))
				break
			}
			fmt.Fprintf(o.w, "    %s%s (%s)\n", limitTime(l), l.Text, l.Reason)
		}
	}
}

// writeProbes prints what probes on text writers recorded.
func (d *digest) writeProbes(o *sections) {
	p := d.Probes
	if p == nil {
		return
	}
	o.section("Probes")
	for _, e := range p.Events {
		o.field(e.Name+" ", "%s of %s", count(e.Samples, "sample"), cmp.Or(e.Function, "an unknown function")) // names may be long
	}
	o.field("changes", "%s, %s of them with unknown bytes or address; %s", thousands(p.Writes), thousands(p.Unknown), count(p.Unpaired, "unpaired sample"))
	const shown = 6 // "textreplay record" makes many
	for i, r := range p.Readings {
		if n := len(p.Readings) - shown; n > 1 && i >= shown/2 && i < shown/2+n {
			if i == shown/2 {
				o.field("counters", "%s more", count(n, "reading"))
			}
			continue
		}
		var hits []string
		for i, e := range p.Events {
			hits = append(hits, fmt.Sprintf("%s %s, missed %s", e.Name, count(r.Hits[i], "hit"), thousands(r.Missed[i])))
		}
		o.field("counters", "%s to %s: %s", replay.Seconds(r.From), replay.Seconds(r.To), strings.Join(hits, "; "))
	}
	early := "not all accounted for, so changes may be missing"
	switch {
	case p.Accounted && len(p.Readings) > 0 && p.Readings[0].Source == journal.Name:
		early = "before the first reading; text was copied later"
	case p.Accounted:
		early = "all are perf's own"
	}
	o.field("early hits", "%s", early)
}

func (d *digest) writeSnapshot(o *sections) {
	o.section("Snapshot")
	if d.Misfit != "" {
		o.field("left out", "%s", d.Misfit)
	}
	if d.Copied == nil {
		dir := "kcore_dir"
		if d.Guest > 0 {
			dir += "__" + guestFlag(d.Guest)
		}
		fmt.Fprintf(o.w, "  none: the recording has no copy of kernel text (%s)\n", dir)
	} else {
		switch {
		case d.Undated:
			o.field("taken", "at an unknown time, so it proves nothing (--kcore DIR@TIME says when)")
		case d.Copied.From == 0:
			o.field("taken", "between an unknown time and %s", replay.Seconds(d.Copied.To))
		default:
			o.field("taken", "between %s and %s", replay.Seconds(d.Copied.From), replay.Seconds(d.Copied.To))
		}
		o.field("memory", "%s in %s:", count(d.SnapshotBytes, "byte"), count(len(d.Segments), "range"))
		const most = 8
		for _, g := range d.Segments[:min(most, len(d.Segments))] {
			fmt.Fprintf(o.w, "    %016x..%016x %s\n", g.Lo, g.Hi, count(g.Hi-g.Lo, "byte"))
		}
		o.more(len(d.Segments), most)
	}
	for _, c := range d.Copies {
		o.field("snapshot", "%s, taken between %s and %s, %s in %s", c.KCore, replay.Seconds(c.Made.From), replay.Seconds(c.Made.To),
			count(c.Bytes, "byte"), count(len(c.Segments), "range"))
	}
	if lo, hi := d.r.Image.Text(); lo < hi {
		o.field("kernel text", "%016x..%016x %s", lo, hi, count(hi-lo, "byte"))
	}
	if names := d.moduleNames(); len(names) > 0 {
		trusted := "known"
		switch d.Coverage.Modules.Verdict {
		case replay.None:
			trusted = "at most unconfirmed, see above"
		case replay.Partial:
			trusted = "known only where no unload can be missing, see above"
		}
		o.field("modules", "%d, their text %s:", len(names), trusted)
		wrap(o.w, "    ", names)
	}
}

func (d *digest) writeChanges(o *sections) {
	o.section("Changes")
	p := &d.Pokes
	o.field("pokes", "%s", thousands(p.Total))
	for _, k := range pokeKinds(p) {
		if k.n > 0 {
			fmt.Fprintf(o.w, "    %10s %s\n", thousands(k.n), k.text())
		}
	}
	o.field("symbols", "%s, %s", count(d.Symbols.Births, "birth"), count(d.Symbols.Deaths, "death"))
	interpreted := ""
	if n := d.BPF.Interpreted; n > 0 {
		interpreted = fmt.Sprintf(", %d interpreted, which have none", n)
	}
	o.field("BPF", "%s, %d of them with bytes%s; %s, %d of them with bytes", count(d.BPF.Programs, "program load"), d.BPF.WithBytes, interpreted,
		count(d.BPF.Images, "trampoline or dispatcher image"), d.BPF.ImagesWithBytes)
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
			fmt.Fprintf(o.w, "  %s:\n", l.title)
			wrap(o.w, "    ", tally(l.names))
		}
	}
}

// writeDoubts prints losses, conflicts and warnings.
func (d *digest) writeDoubts(o *sections) {
	if len(d.Losses) > 0 {
		var lost uint64
		for _, l := range d.Losses {
			lost += l.Records
		}
		o.section(fmt.Sprintf("Lost: %s in %s", count(lost, "record"), count(len(d.Losses), "place")))
		const most = 5
		for _, l := range d.Losses[:min(most, len(d.Losses))] {
			fmt.Fprintf(o.w, "  %s to %s  %s, %s\n", replay.Seconds(l.From), replay.Seconds(l.To), l.Where(), count(l.Records, "record"))
		}
		o.more(len(d.Losses), most)
	}
	if len(d.Skews) > 0 {
		seen := uint64(0)
		for i := range d.Skews {
			seen = max(seen, d.Skews[i].By())
		}
		o.section(fmt.Sprintf("Clocks: the CPUs' clocks differ by at least %s; a time within %s of a change may be before or after it", time.Duration(seen), time.Duration(d.ClockUncertainty)))
		const most = 3
		for _, s := range d.Skews[:min(most, len(d.Skews))] {
			fmt.Fprintf(o.w, "  %s  CPU %d's change of %s came before CPU %d's of %s\n", placeOf(d.r.Image.At(s.Second), s.Addr),
				s.FirstCPU, replay.Seconds(s.First), s.SecondCPU, replay.Seconds(s.Second))
		}
		o.more(len(d.Skews), most)
	}
	if len(d.conflicts) > 0 {
		o.section(fmt.Sprintf("Conflicts: %s (textreplay verify lists them)", thousands(d.Report.Conflicts)))
		const most = 3
		for _, c := range d.conflicts[:min(most, len(d.conflicts))] {
			writeConflict(o.w, d.r, c)
		}
		o.more(d.Report.Conflicts, most)
	}
	if len(d.Warnings) > 0 {
		o.section(fmt.Sprintf("Warnings: %d", len(d.Warnings)))
		for _, err := range d.Warnings {
			fmt.Fprintf(o.w, "  %v\n", err)
		}
	}
}

// limitTime returns the interval of a limit, to print before its text.
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

// A pokeKind is a kind of pokes with its count.
type pokeKind struct {
	key  string // of JSON
	one  string // the words for one poke
	many string
	n    uint64
}

func (k *pokeKind) text() string {
	if k.n == 1 {
		return k.one
	}
	return k.many
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
	same := func(key, text string, n uint64) pokeKind { return pokeKind{key, text, text, n} }
	return []pokeKind{
		same(shapes[timeline.PokeBatch], "in place: static keys and calls, ftrace, BPF, optimised probes", p.InPlace),
		{shapes[timeline.PokeArmed], "kprobe armed", "kprobes armed", p.Armed},
		{shapes[timeline.PokeDisarmed], "kprobe disarmed", "kprobes disarmed", p.Disarmed},
		{shapes[timeline.PokeUnoptimised], "optimised kprobe undone", "optimised kprobes undone", p.Unoptimised},
		same(shapes[timeline.PokeCreated], "new out-of-line code", p.Created),
		same(shapes[timeline.PokeRemoved], "out-of-line code removed", p.Removed),
		same("doubles", "of these written twice by perf: log shows them once", p.WrittenTwice),
		{"copies", "more from another event: a duplicate", "more from other events: duplicates", p.Duplicates},
	}
}

// tally returns the sorted names without duplicates, with how often each
// occurs.
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

// wrap prints items separated by commas, wrapped at 100 columns.
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
