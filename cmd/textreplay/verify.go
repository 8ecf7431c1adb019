// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// verify is the state of the command verify.
type verify struct {
	*app
	against, at string
	limit       int
	format      choice
}

func (a *app) verifyCmd() *cobra.Command {
	v := &verify{app: a}
	cmd := &cobra.Command{
		Use:   "verify [flags]",
		Short: "Check a recording against itself, or against another copy of kernel text",
		Long: `verify checks a recording against itself:

  - contradictions: the old bytes of a change differ from what the recording gave
    before it, so a change was not recorded
  - illegal states: a site that is changed in several steps is in a state that no
    CPU may run
  - symbols, BPF program loads and program infos that do not fit together

The exit code is 1 if it finds one of these, unless a lost record explains it.

With --against it compares kernel text at a time with another copy of the same
kernel's memory, an ELF core such as /proc/kcore. Only known bytes can be wrong. The
other bytes are counted as not known, and how many of them are equal. The exit code
is 1 if a known byte is wrong.

--json lists everything that was found; --limit shortens the lists of the text.`,
		Example: `  textreplay verify
  textreplay verify --against kcore.copy --at 12.345678901`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, args []string) error { return v.run() },
	}
	f := cmd.Flags()
	a.formatFlag(cmd, &v.format)
	f.StringVar(&v.against, "against", "", "compare with this ELF core `FILE`")
	f.StringVar(&v.at, "at", "", "the `TIME` of that copy")
	f.IntVar(&v.limit, "limit", 10, "list at most `N` places (0: all); --json lists all of them")
	return cmd
}

func (v *verify) run() error {
	if v.limit < 0 {
		return usagef("--limit %d: must be 0 or more", v.limit)
	}
	switch {
	case v.against != "" && v.at == "":
		return usagef("--against needs --at TIME, the time of that copy")
	case v.at != "" && v.against == "":
		return usagef("--at needs --against FILE, the copy to compare with")
	}
	if v.against != "" {
		if err := v.reads(v.against); err != nil {
			return err
		}
	}
	v.notesRuns = v.against == ""
	r, err := v.loadAndWarn()
	if err != nil {
		return err
	}
	if v.against != "" {
		return v.compare(r)
	}
	return v.itself(r)
}

// within cuts a list to --limit.
func within[T any](v *verify, list []T) []T {
	if v.limit > 0 && len(list) > v.limit {
		return list[:v.limit]
	}
	return list
}

func (v *verify) writeMore(n int) {
	if v.limit > 0 && n > v.limit {
		fmt.Fprintf(v.out, "  and %s more (--limit 0 lists all)\n", thousands(n-v.limit))
	}
}

// A placeCount counts places with one name.
type placeCount struct {
	Symbol string `json:"symbol"`
	Count  uint64 `json:"count"`
}

func mostFirst(n map[string]uint64) []placeCount {
	out := []placeCount{}
	for _, name := range slices.Sorted(maps.Keys(n)) {
		out = append(out, placeCount{name, n[name]})
	}
	slices.SortStableFunc(out, func(a, b placeCount) int { return cmp.Compare(b.Count, a.Count) })
	return out
}

// symbolName names the symbol of an address, without an offset.
func symbolName(view timeline.View, addr uint64) string {
	p := placeOf(view, addr)
	p.offset = 0
	if p.name == "" {
		return "(no symbol)"
	}
	return p.String()
}

type jsonItself struct {
	OK        bool              `json:"ok"`
	Pokes     uint64            `json:"pokes"`
	Doubles   uint64            `json:"doubles"`
	Coverage  map[string]string `json:"coverage"`
	Conflicts int               `json:"conflict_count"`
	BySymbol  []placeCount      `json:"by_symbol"`
	List      []jsonConflict    `json:"conflicts"`
	Illegal   []jsonState       `json:"illegal_states,omitempty"` // of sites that are changed in several steps
	Kinds     map[string]uint64 `json:"finding_count,omitempty"`
	Findings  []jsonFinding     `json:"findings,omitempty"`
}

type jsonFinding struct {
	Code    string  `json:"code"`
	Time    *string `json:"time"`
	Addr    *string `json:"addr"`
	Len     uint64  `json:"len"`
	Name    string  `json:"name,omitempty"`
	Program uint32  `json:"program,omitempty"`
	Other   string  `json:"other,omitempty"`
	Since   *string `json:"since"`
	Excused bool    `json:"excused"`
}

func findingJSON(f *replay.Finding) jsonFinding {
	out := jsonFinding{Code: f.Kind.String(), Time: since(f.Time), Len: f.Len, Name: f.Name, Program: f.ID,
		Other: f.Other, Since: since(f.Since), Excused: f.Excused}
	if f.Addr != 0 {
		a := hexAddr(f.Addr)
		out.Addr = &a
	}
	return out
}

// writeFindings prints the findings that nothing excuses, and counts the
// excused ones by kind.
func (v *verify) writeFindings(found, amiss []replay.Finding) {
	if len(amiss) > 0 {
		fmt.Fprintf(v.out, "\nRecords that do not fit together:\n")
		for _, f := range within(v, amiss) {
			writeFinding(v.out, &f)
		}
		v.writeMore(len(amiss))
	}
	var excused [256]uint64
	for _, f := range found {
		if f.Excused {
			excused[f.Kind]++
		}
	}
	first := true
	for k, n := range excused {
		if n == 0 {
			continue
		}
		if first {
			fmt.Fprintf(v.out, "\nHarmless, or explained by lost records:\n")
			first = false
		}
		kind := replay.FindingKind(k)
		fmt.Fprintf(v.out, "  %10s  %s (%v)\n", thousands(n), kind.Text(), kind)
	}
}

func writeFinding(w io.Writer, f *replay.Finding) {
	when := "before the recording"
	if f.Time != 0 {
		when = "at " + replay.Seconds(f.Time)
	}
	var what []string
	if f.Addr != 0 {
		what = append(what, fmt.Sprintf("%016x", f.Addr))
	}
	if f.Name != "" {
		what = append(what, "<"+f.Name+">")
	}
	if f.ID != 0 {
		what = append(what, fmt.Sprintf("program %d", f.ID))
	}
	place := strings.Join(what, " ")
	if f.Len != 0 {
		place += ", " + count(f.Len, "byte") + ","
	}
	if place != "" {
		place += " "
	}
	fmt.Fprintf(w, "  %s%s: %s (%v)\n", place, when, f.Kind.Text(), f.Kind)
	switch {
	case f.Other != "" && f.Since != 0:
		fmt.Fprintf(w, "    %s is there from %s\n", f.Other, replay.Seconds(f.Since))
	case f.Other != "":
		fmt.Fprintf(w, "    %s\n", f.Other)
	case f.Since != 0:
		fmt.Fprintf(w, "    since %s\n", replay.Seconds(f.Since))
	}
}

// itself checks the recording against itself.
func (v *verify) itself(r *replay.Replay) error {
	conflicts := slices.Collect(r.Image.Conflicts())
	bySymbol := make(map[string]uint64)
	for _, c := range conflicts {
		bySymbol[symbolName(r.Image.At(c.From), c.Addr)]++
	}
	illegal := slices.Collect(r.Sequences().Illegal())
	found := slices.Collect(r.Findings())
	amiss := slices.DeleteFunc(slices.Clone(found), func(f replay.Finding) bool { return f.Excused })
	d := digest{Report: r.Report, r: r}
	if v.csv {
		enc := &csvEncoder{w: v.out, columns: []string{"code", "time", "until", "addr", "len", "name", "other", "excused"}}
		if err := v.findingRows(enc, r, conflicts, illegal, found); err != nil {
			return outputError(err)
		}
	} else if v.json {
		out := jsonItself{
			OK: len(conflicts)+len(illegal)+len(amiss) == 0, Pokes: r.Report.Pokes.Total, Doubles: r.Report.Pokes.WrittenTwice,
			Coverage: make(map[string]string), Conflicts: len(conflicts), BySymbol: mostFirst(bySymbol), List: []jsonConflict{},
		}
		for _, k := range d.kinds() {
			out.Coverage[k.name] = string(k.coverage.Verdict)
		}
		for _, c := range conflicts {
			out.List = append(out.List, conflictJSON(r, c))
		}
		for _, s := range illegal {
			out.Illegal = append(out.Illegal, stateOf(&s))
		}
		for _, f := range found {
			if out.Kinds == nil {
				out.Kinds = make(map[string]uint64)
			}
			out.Kinds[f.Kind.String()]++
		}
		for _, f := range found {
			out.Findings = append(out.Findings, findingJSON(&f))
		}
		if err := encoder(v.out).Encode(out); err != nil {
			return outputError(err)
		}
	} else {
		verdict := v.style.paint(green, "No contradiction")
		if len(conflicts) > 0 {
			verdict = v.style.paint(red, count(len(conflicts), "contradiction"))
		}
		fmt.Fprintf(v.out, "%s in %s (%s written twice)", verdict, count(r.Report.Pokes.Total, "poke"), thousands(r.Report.Pokes.WrittenTwice))
		if len(amiss) > 0 {
			fmt.Fprintf(v.out, "; %s", v.style.paint(red, count(len(amiss), "misfit")+" between records"))
		}
		fmt.Fprintln(v.out)
		var parts []string
		for _, k := range d.kinds() {
			parts = append(parts, fmt.Sprintf("%s %s", k.name, k.coverage.Verdict))
		}
		fmt.Fprintf(v.out, "coverage: %s\n", strings.Join(parts, ", "))
		if n := r.SampledWrites(); n > 0 {
			fmt.Fprintf(v.out, "compared with %s that a probe saw\n", count(n, "write"))
		}
		if len(conflicts) > 0 {
			fmt.Fprintf(v.out, "\nContradictions:\n")
			for _, c := range within(v, conflicts) {
				writeConflict(v.out, r, c)
			}
			v.writeMore(len(conflicts))
			v.writeBySymbol("contradictions", mostFirst(bySymbol))
		}
		if len(illegal) > 0 {
			fmt.Fprintf(v.out, "\n%s, in which a CPU branches without mflr before it:\n", count(len(illegal), "illegal state"))
			for _, s := range within(v, illegal) {
				writeState(v.out, r, &s)
			}
			v.writeMore(len(illegal))
		}
		v.writeFindings(found, amiss)
	}
	if len(conflicts)+len(illegal)+len(amiss) > 0 {
		return errBelow
	}
	return nil
}

// siteLen is how many bytes a site has that is changed in several steps: two words.
const siteLen = 8

// findingRows writes everything that was found as rows of a table.
func (v *verify) findingRows(enc *csvEncoder, r *replay.Replay, conflicts []timeline.Conflict, illegal []replay.SiteState, found []replay.Finding) error {
	type row struct {
		jsonFinding
		Until *string `json:"until"`
	}
	err := enc.begin()
	for _, c := range conflicts {
		addr := hexAddr(c.Addr)
		if err == nil {
			err = enc.Encode(row{jsonFinding{Code: c.Reason.String(), Time: since(c.From), Addr: &addr, Len: c.Len,
				Name: placeOf(r.Image.At(c.From), c.Addr).String()}, until(c.To)})
		}
	}
	for i := range illegal {
		s := &illegal[i]
		addr := hexAddr(s.Site)
		if err == nil {
			err = enc.Encode(row{jsonFinding{Code: "illegal-state", Time: since(s.During.From), Addr: &addr, Len: siteLen,
				Name: placeOf(r.Image.At(s.During.From), s.Site).String(), Other: s.String()}, until(s.During.To)})
		}
	}
	for i := range found {
		if err == nil {
			err = enc.Encode(row{jsonFinding: findingJSON(&found[i])})
		}
	}
	return err
}

func (v *verify) writeBySymbol(what string, list []placeCount) {
	fmt.Fprintf(v.out, "\n%s by symbol:\n", what)
	for _, c := range within(v, list) {
		fmt.Fprintf(v.out, "  %10s  %s\n", thousands(c.Count), c.Symbol)
	}
	v.writeMore(len(list))
}

// The kinds of memory in a comparison.
const (
	kindText = iota
	kindModule
	kindBPFCode
	kindOutOfLine
	kindOther
	kindCount
)

var kindNames = [kindCount]struct{ key, text string }{
	{"kernel_text", "kernel text"}, {"modules", "modules"}, {"bpf", "BPF"}, {"out_of_line", "out-of-line code"}, {"other", "other"},
}

// A sorter determines the kind of memory of a piece.
type sorter struct {
	view      timeline.View
	outOfLine []timeline.Range // pages of out-of-line code, at whatever time, by address
}

func newSorter(r *replay.Replay, view timeline.View) *sorter {
	k := &sorter{view: view}
	for s := range r.Image.Symbols { // by address
		if s.Module != "bpf" {
			k.outOfLine = append(k.outOfLine, timeline.Range{Lo: s.Addr, Hi: s.Addr + s.Size})
		}
	}
	return k
}

func (k *sorter) kind(s *timeline.Span) int {
	lo, hi := k.view.Image().Text()
	if lo <= s.Addr && s.Addr < hi {
		return kindText
	}
	switch s.Reason {
	case timeline.ModuleMayHaveGone, timeline.ModuleContradicted, timeline.NotText:
		return kindModule
	}
	sym, ok := k.view.Symbol(s.Addr)
	switch {
	case ok && sym.Module == "bpf":
		return kindBPFCode
	case ok && sym.Module != "":
		return kindModule
	}
	// The last range that begins at or before the address.
	i := sort.Search(len(k.outOfLine), func(i int) bool { return k.outOfLine[i].Lo > s.Addr })
	if i > 0 && s.Addr < k.outOfLine[i-1].Hi {
		return kindOutOfLine
	}
	return kindOther
}

// compared counts the bytes of one kind of memory.
type compared struct {
	Equal    uint64 `json:"equal"`
	Wrong    uint64 `json:"wrong"`
	NotKnown uint64 `json:"not_known"`
	// Bytes that are not known but that the image gives.
	NotKnownEqual  uint64 `json:"not_known_equal"`
	NotKnownDiffer uint64 `json:"not_known_differ"`
}

// A difference is a run of known bytes that differ from another copy.
type difference struct {
	addr      uint64
	have, got []byte // of the image; of the copy, or of an oops
}

type jsonDifference struct {
	Addr   string      `json:"addr"`
	Len    int         `json:"len"`
	Symbol *jsonSymbol `json:"symbol"`
	Image  *string     `json:"image"`
	Copy   *string     `json:"copy"`
}

type jsonCompared struct {
	OK       bool                `json:"ok"`
	Time     string              `json:"time"`
	Kinds    map[string]compared `json:"kinds"`
	BySymbol []placeCount        `json:"by_symbol"`
	Wrong    []jsonDifference    `json:"wrong"`
}

// compare compares the image with another copy.
func (v *verify) compare(r *replay.Replay) error {
	times, err := r.ParseTime(v.at)
	if err != nil {
		return err
	}
	core, err := v.openCore(v.against)
	if err != nil {
		return err
	}
	for _, w := range core.Warnings() {
		fmt.Fprintf(v.stderr, "textreplay: warning: %v\n", w)
	}
	segs := make([]timeline.Segment, len(core.Segments))
	for i, s := range core.Segments {
		segs[i] = timeline.Segment(s)
	}

	view := r.Image.At(times.From)
	var kinds [kindCount]compared
	var wrong []difference
	bySymbol := make(map[string]uint64)
	sorter := newSorter(r, view)
	for s, data := range view.Against(segs) {
		k := &kinds[sorter.kind(&s)]
		n := uint64(len(data))
		if s.Standing != timeline.Known || endsBy(s.Until, times.To) {
			k.NotKnown += n
			if s.Bytes != nil {
				equal := n - differing(s.Bytes, data)
				k.NotKnownEqual += equal
				k.NotKnownDiffer += n - equal
			}
			continue
		}
		if bytes.Equal(s.Bytes, data) {
			k.Equal += n
			continue
		}
		for lo := 0; lo < len(data); {
			hi := lo
			for hi < len(data) && data[hi] != s.Bytes[hi] {
				hi++
			}
			if lo < hi {
				addr := s.Addr + uint64(lo)
				wrong = append(wrong, difference{addr, s.Bytes[lo:hi], data[lo:hi]})
				k.Wrong += uint64(hi - lo)
				bySymbol[symbolName(view, addr)] += uint64(hi - lo)
			}
			lo = hi
			for lo < len(data) && data[lo] == s.Bytes[lo] {
				lo++
				k.Equal++
			}
		}
	}

	if v.csv {
		enc := &csvEncoder{w: v.out, columns: []string{"addr", "len", "symbol.name", "symbol.offset", "symbol.module", "image", "copy"}}
		err := enc.begin()
		for _, d := range wrong {
			if err == nil {
				err = enc.Encode(jsonDifference{hexAddr(d.addr), len(d.have), placeOf(view, d.addr).json(), hexBytes(d.have), hexBytes(d.got)})
			}
		}
		if err != nil {
			return outputError(err)
		}
	} else if v.json {
		out := jsonCompared{OK: len(wrong) == 0, Time: decTime(times.From), Kinds: make(map[string]compared),
			BySymbol: mostFirst(bySymbol), Wrong: []jsonDifference{}}
		for i, k := range kinds {
			out.Kinds[kindNames[i].key] = k
		}
		for _, d := range wrong {
			out.Wrong = append(out.Wrong, jsonDifference{hexAddr(d.addr), len(d.have), placeOf(view, d.addr).json(), hexBytes(d.have), hexBytes(d.got)})
		}
		if err := encoder(v.out).Encode(out); err != nil {
			return outputError(err)
		}
	} else {
		v.writeCompared(view, kinds[:], wrong, bySymbol)
	}
	if len(wrong) > 0 {
		return errBelow
	}
	return nil
}

// differing counts the bytes in which a and b differ.
func differing(a, b []byte) (n uint64) {
	if bytes.Equal(a, b) {
		return 0
	}
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}

func (v *verify) writeCompared(view timeline.View, kinds []compared, wrong []difference, bySymbol map[string]uint64) {
	var total compared
	for _, k := range kinds {
		total.Equal += k.Equal
		total.Wrong += k.Wrong
		total.NotKnown += k.NotKnown
	}
	when := replay.Seconds(view.Time())
	verdict := v.style.paint(green, "No known byte is wrong at "+when)
	switch {
	case total.Wrong > 0:
		verdict = v.style.paint(red, count(total.Wrong, "known byte")+" wrong at "+when)
	case total.Equal == 0:
		verdict = v.style.paint(yellow, "No byte is known at "+when)
	}
	fmt.Fprintf(v.out, "%s: %s equal, %s not known\n\n", verdict, thousands(total.Equal), thousands(total.NotKnown))
	fmt.Fprintf(v.out, "%-18s%14s%10s%14s%18s\n", "bytes of", "known, equal", "wrong", "not known", "(equal / differ)")
	for i, k := range kinds {
		if k.Equal+k.Wrong+k.NotKnown == 0 {
			continue
		}
		fmt.Fprintf(v.out, "%-18s%14s%10s%14s%18s\n", kindNames[i].text, thousands(k.Equal), thousands(k.Wrong), thousands(k.NotKnown),
			fmt.Sprintf("(%s / %s)", thousands(k.NotKnownEqual), thousands(k.NotKnownDiffer)))
	}
	if len(wrong) == 0 {
		return
	}
	fmt.Fprintf(v.out, "\nWrong:\n")
	for _, d := range within(v, wrong) {
		n := min(len(d.have), 16)
		more := ""
		if n < len(d.have) {
			more = " ..."
		}
		fmt.Fprintf(v.out, "  %s image %s%s, copy %s%s\n", label(view, d.addr), spaced(d.have[:n]), more, spaced(d.got[:n]), more)
	}
	v.writeMore(len(wrong))
	v.writeBySymbol("wrong bytes", mostFirst(bySymbol))
}
