// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/internal/printable"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/mechanism"
	"github.com/textreplay/textreplay/timeline/replay"
)

// How many lines of each kind a summary has, so that all fit on a screen.
const (
	summaryWriters = 8
	summaryRuns    = 8
	summarySites   = 5
	summaryBins    = 12
)

// A logSummary is the printer of log --summary.
type logSummary struct {
	*log
	s *mechanism.Summary
}

func (l *log) newSummary() *logSummary {
	from, to := max(l.times.from, l.r.Report.First), min(l.times.to, timeline.Later(l.r.Report.Last, 1))
	return &logSummary{l, mechanism.NewSummary(from, to, summaryBins)}
}

func (x *logSummary) add(c *replay.Change) error {
	x.s.Add(c, x.classifier.Of(c))
	return nil
}

func (x *logSummary) poke(p *logPoke) error           { return x.add(p.c) }
func (x *logSummary) sequence(c *replay.Change) error { return x.add(c) }
func (x *logSummary) ksymbol(c *replay.Change) error  { return x.add(c) }
func (x *logSummary) bpf(c *replay.Change) error      { return x.add(c) }
func (x *logSummary) lost(l *replay.Loss) error       { return x.add(&replay.Change{Time: l.To, Loss: l}) }

// finish prints the summary.
func (x *logSummary) finish() error {
	// The log has no entries of modules, so nothing else counts them. They have no writer.
	if x.addrFlag == "" && x.symbol == "" && len(x.comms)+len(x.pids)+len(x.kinds.given) == 0 && x.mechanisms.has(mechanism.Module.String()) {
		x.s.AddModules(x.r.Image, x.times.from, x.times.to)
	}
	if x.json {
		return outputError(encoder(x.out).Encode(x.jsonObject()))
	}
	x.writeText()
	return nil
}

// largest returns the n largest runs, in the order of time.
func (x *logSummary) largest(n int) []mechanism.Run {
	runs := x.s.Runs()
	slices.SortStableFunc(runs, func(a, b mechanism.Run) int { return cmp.Compare(b.Changes, a.Changes) })
	runs = runs[:min(n, len(runs))]
	slices.SortFunc(runs, func(a, b mechanism.Run) int { return cmp.Compare(a.First, b.First) })
	return runs
}

func (x *logSummary) writeText() {
	w, s := x.out, x.s
	if s.Changes == 0 && s.Losses == 0 {
		fmt.Fprintln(w, "no recorded change matches")
		return
	}
	writers := s.Writers()
	fmt.Fprintf(w, "%s", count(s.Changes, "change"))
	if s.First != 0 {
		fmt.Fprintf(w, " from %s to %s (%s)", replay.Seconds(s.First), replay.Seconds(s.Last), span(s.First, s.Last))
	}
	fmt.Fprintf(w, ", %s, %s\n", count(len(writers), "writer"), count(s.Batches, "batch"))
	if s.Losses > 0 {
		fmt.Fprintln(w, x.style.paint(red, fmt.Sprintf("%s lost in %s: their changes are not counted",
			count(s.Lost, "record"), count(s.Losses, "place"))))
	}

	fmt.Fprintf(w, "\n%-17s %10s %9s %9s %12s  %-15s  %s\n", "mechanism", "changes", "batches", "sites", "most in 1 s", "first", "last")
	for _, m := range s.Mechanisms() {
		fmt.Fprintf(w, "%-17s %10s %9s %9s %12s  %-15s  %s\n", m.Mechanism, thousands(m.Changes), thousands(m.Batches),
			thousands(m.Sites), thousands(m.Busiest), moment(m.First), moment(m.Last))
	}

	if len(writers) > 0 {
		fmt.Fprintf(w, "\n%-25s %10s  %-15s  %-15s  %s\n", "writer", "changes", "first", "last", "by")
	}
	for i, u := range writers {
		if i == summaryWriters {
			rest := uint64(0)
			for _, u := range writers[i:] {
				rest += u.Changes
			}
			fmt.Fprintf(w, "%-25s %10s\n", fmt.Sprintf("%d more", len(writers)-i), thousands(rest))
			break
		}
		fmt.Fprintf(w, "%-25s %10s  %-15s  %-15s  %s\n", writerText(u.Comm, u.PID), thousands(u.Changes),
			moment(u.First), moment(u.Last), byText(u.By[:], 3))
	}

	if sites := s.Sites(summarySites); len(sites) > 0 {
		fmt.Fprintf(w, "\n%-25s %10s  %s\n", "busiest site", "changes", "name, mechanism")
		for _, p := range sites {
			fmt.Fprintf(w, "%-25x %10s  %s  %s\n", p.Addr, thousands(p.Changes), addrText(x.r.Image.At(s.Last), p.Addr), p.Mechanism)
		}
	}

	if runs := x.largest(summaryRuns); len(runs) > 0 {
		fmt.Fprintf(w, "\n%-17s %10s %9s  %-15s  %-9s  %s\n", "largest run", "changes", "batches", "from", "for", "writer, first site")
		for _, r := range runs {
			at := ""
			if r.Addr != 0 {
				at = "  " + addrText(x.r.Image.At(r.First), r.Addr)
			}
			fmt.Fprintf(w, "%-17s %10s %9s  %-15s  %-9s  %s%s\n", r.Mechanism, thousands(r.Changes), thousands(r.Batches),
				moment(r.First), span(r.First, r.Last), writerText(r.Comm, r.PID), at)
		}
	}

	x.writeBins(s.Bins())
}

// writeBins prints the changes over time, with bars whose length is the logarithm of
// the number: the kernel makes one change or 40,000 at a time.
func (x *logSummary) writeBins(bins []mechanism.Bin) {
	fmt.Fprintf(x.out, "\n%-17s %10s  %-20s  %s\n", "from", "changes", "log2 of the number", "by")
	for _, b := range bins {
		bar := ""
		for n := b.Changes; n > 0; n >>= 1 {
			bar += "#"
		}
		by := byText(b.By[:], 3)
		if b.Losses > 0 {
			by = strings.TrimPrefix(by+", "+count(b.Losses, "loss"), ", ")
		}
		fmt.Fprintln(x.out, strings.TrimRight(fmt.Sprintf("%-17s %10s  %-20s  %s", replay.Seconds(b.From), thousands(b.Changes), bar, by), " "))
	}
}

// writerText prints a process as log does, with ? for a name that is not known.
func writerText(comm string, pid uint32) string {
	return fmt.Sprintf("%s[%d]", cmp.Or(printable.Name(comm), "?"), pid)
}

// moment prints a time, "-" if there is none.
func moment(t uint64) string {
	if t == 0 {
		return "-"
	}
	return replay.Seconds(t)
}

// byText prints the n largest of the counts by mechanism.
func byText(by []uint64, n int) string {
	type part struct {
		m mechanism.Mechanism
		n uint64
	}
	var parts []part
	for m, k := range by {
		if k > 0 {
			parts = append(parts, part{mechanism.Mechanism(m), k})
		}
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Compare(b.n, a.n) })
	var out []string
	for i, p := range parts {
		if i == n {
			out = append(out, fmt.Sprintf("%d more", len(parts)-n))
			break
		}
		out = append(out, fmt.Sprintf("%v %s", p.m, thousands(p.n)))
	}
	return strings.Join(out, ", ")
}

// The JSON of log --summary.
type (
	jsonCounts struct {
		Changes uint64  `json:"changes"`
		First   *string `json:"first"`
		Last    *string `json:"last"`
	}
	jsonSummary struct {
		Kind string `json:"kind"` // summary
		jsonCounts
		Losses     uint64               `json:"losses"`
		Lost       uint64               `json:"lost_records"`
		Batches    uint64               `json:"batches"`
		Mechanisms []jsonMechanismCount `json:"mechanisms"`
		Writers    []jsonWriterCount    `json:"writers"`
		Sites      []jsonSiteCount      `json:"busiest_sites"`
		Runs       []jsonRun            `json:"largest_runs"`
		Bins       []jsonBin            `json:"over_time"`
	}
	jsonMechanismCount struct {
		Mechanism string `json:"mechanism"`
		jsonCounts
		Batches uint64 `json:"batches"`
		Sites   uint64 `json:"sites"`
		Busiest uint64 `json:"most_in_1s"`
	}
	jsonWriterCount struct {
		Comm string `json:"comm"`
		PID  uint32 `json:"pid"`
		jsonCounts
		By map[string]uint64 `json:"by_mechanism"`
	}
	jsonSiteCount struct {
		Addr      string      `json:"addr"`
		Symbol    *jsonSymbol `json:"symbol"`
		Mechanism string      `json:"mechanism"`
		Changes   uint64      `json:"changes"`
	}
	jsonRun struct {
		Mechanism string `json:"mechanism"`
		Comm      string `json:"comm"`
		PID       uint32 `json:"pid"`
		TID       uint32 `json:"tid"`
		jsonCounts
		Batches uint64      `json:"batches"`
		Addr    *string     `json:"addr"` // of the first change
		Symbol  *jsonSymbol `json:"symbol"`
	}
	jsonBin struct {
		From    string            `json:"from"`
		To      string            `json:"to"`
		Changes uint64            `json:"changes"`
		By      map[string]uint64 `json:"by_mechanism"`
		Losses  uint64            `json:"losses"`
	}
)

func countsJSON(c mechanism.Counts) jsonCounts {
	return jsonCounts{c.Changes, since(c.First), since(c.Last)}
}

func byJSON(by []uint64) map[string]uint64 {
	out := make(map[string]uint64)
	for m, n := range by {
		if n > 0 {
			out[mechanism.Mechanism(m).String()] = n
		}
	}
	return out
}

// summaryJSONMost is how many sites and runs the JSON has at most.
const summaryJSONMost = 100

func (x *logSummary) jsonObject() *jsonSummary {
	s := x.s
	out := &jsonSummary{Kind: "summary", jsonCounts: countsJSON(s.Counts), Losses: s.Losses, Lost: s.Lost, Batches: s.Batches,
		Mechanisms: []jsonMechanismCount{}, Writers: []jsonWriterCount{}, Sites: []jsonSiteCount{}, Runs: []jsonRun{}, Bins: []jsonBin{}}
	for _, m := range s.Mechanisms() {
		out.Mechanisms = append(out.Mechanisms, jsonMechanismCount{m.Mechanism.String(), countsJSON(m.Counts), m.Batches, m.Sites, m.Busiest})
	}
	for _, u := range s.Writers() {
		out.Writers = append(out.Writers, jsonWriterCount{u.Comm, u.PID, countsJSON(u.Counts), byJSON(u.By[:])})
	}
	for _, p := range s.Sites(summaryJSONMost) {
		out.Sites = append(out.Sites, jsonSiteCount{hexAddr(p.Addr), placeOf(x.r.Image.At(s.Last), p.Addr).json(), p.Mechanism.String(), p.Changes})
	}
	for _, r := range x.largest(summaryJSONMost) {
		j := jsonRun{r.Mechanism.String(), r.Comm, r.PID, r.TID, countsJSON(r.Counts), r.Batches, nil, nil}
		if r.Addr != 0 {
			a := hexAddr(r.Addr)
			j.Addr, j.Symbol = &a, placeOf(x.r.Image.At(r.First), r.Addr).json()
		}
		out.Runs = append(out.Runs, j)
	}
	for _, b := range s.Bins() {
		out.Bins = append(out.Bins, jsonBin{decTime(b.From), decTime(b.To), b.Changes, byJSON(b.By[:]), b.Losses})
	}
	return out
}
