// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// itself checks the recording against itself.
func (v *verify) itself(r *replay.Replay) error {
	c := contradictions{conflicts: slices.Collect(r.Image.Conflicts()), illegal: slices.Collect(r.Sequences().Illegal()), found: slices.Collect(r.Findings())}
	c.amiss = slices.DeleteFunc(slices.Clone(c.found), func(f replay.Finding) bool { return f.Excused })
	bySymbol := make(map[string]uint64)
	for _, x := range c.conflicts {
		bySymbol[symbolName(r.Image.At(x.From), x.Addr)]++
	}
	c.bySymbol = mostFirst(bySymbol)
	var err error
	switch {
	case v.csv:
		enc := &csvEncoder{w: v.out, columns: []string{"code", "time", "until", "addr", "len", "name", "other", "excused"}}
		err = v.findingRows(enc, r, c.conflicts, c.illegal, c.found)
	case v.json:
		err = encoder(v.out).Encode(c.json(r))
	default:
		v.writeItself(r, &c)
	}
	if err != nil {
		return outputError(err)
	}
	if !c.none() {
		return errBelow
	}
	return nil
}

// contradictions are what a recording has that does not fit together.
type contradictions struct {
	conflicts []timeline.Conflict
	bySymbol  []placeCount       // of conflicts
	illegal   []replay.SiteState // of sites that are changed in several steps
	found     []replay.Finding
	amiss     []replay.Finding // those of found that nothing excuses
}

// none reports whether there are none, but for findings that are excused.
func (c *contradictions) none() bool { return len(c.conflicts)+len(c.illegal)+len(c.amiss) == 0 }

func (c *contradictions) json(r *replay.Replay) *jsonItself {
	out := &jsonItself{
		OK: c.none(), Pokes: r.Report.Pokes.Total, Doubles: r.Report.Pokes.WrittenTwice,
		Coverage: make(map[string]string), Conflicts: len(c.conflicts), BySymbol: c.bySymbol, List: []jsonConflict{},
	}
	d := digest{Report: r.Report, r: r}
	for _, k := range d.kinds() {
		out.Coverage[k.name] = string(k.coverage.Verdict)
	}
	for _, x := range c.conflicts {
		out.List = append(out.List, conflictJSON(r, x))
	}
	for i := range c.illegal {
		out.Illegal = append(out.Illegal, stateOf(&c.illegal[i]))
	}
	for i := range c.found {
		if out.Kinds == nil {
			out.Kinds = make(map[string]uint64)
		}
		out.Kinds[c.found[i].Kind.String()]++
		out.Findings = append(out.Findings, findingJSON(&c.found[i]))
	}
	return out
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

func (v *verify) writeItself(r *replay.Replay, c *contradictions) {
	verdict := v.style.paint(green, "No contradiction")
	if n := len(c.conflicts); n > 0 {
		verdict = v.style.paint(red, count(n, "contradiction"))
	}
	fmt.Fprintf(v.out, "%s in %s (%s written twice)", verdict, count(r.Report.Pokes.Total, "poke"), thousands(r.Report.Pokes.WrittenTwice))
	if n := len(c.amiss); n > 0 {
		fmt.Fprintf(v.out, "; %s", v.style.paint(red, count(n, "misfit")+" between records"))
	}
	fmt.Fprintln(v.out)
	var parts []string
	d := digest{Report: r.Report, r: r}
	for _, k := range d.kinds() {
		parts = append(parts, fmt.Sprintf("%s %s", k.name, k.coverage.Verdict))
	}
	fmt.Fprintf(v.out, "coverage: %s\n", strings.Join(parts, ", "))
	if n := r.SampledWrites(); n > 0 {
		fmt.Fprintf(v.out, "compared with %s that a probe saw\n", count(n, "write"))
	}
	if len(c.conflicts) > 0 {
		fmt.Fprintf(v.out, "\nContradictions:\n")
		for _, x := range within(v, c.conflicts) {
			writeConflict(v.out, r, x)
		}
		v.writeMore(len(c.conflicts))
		v.writeBySymbol("contradictions", c.bySymbol)
	}
	if len(c.illegal) > 0 {
		fmt.Fprintf(v.out, "\n%s, in which a CPU branches without mflr before it:\n", count(len(c.illegal), "illegal state"))
		for _, s := range within(v, c.illegal) {
			writeState(v.out, r, &s)
		}
		v.writeMore(len(c.illegal))
	}
	v.writeFindings(c.found, c.amiss)
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
