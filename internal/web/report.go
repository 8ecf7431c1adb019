// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"html/template"
	"io"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/textreplay/textreplay/internal/lazyregexp"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// ReportOptions are the options of [WriteReport].
type ReportOptions struct {
	// From and To are the window, in nanoseconds of the recording's clock: From <= t < To. 0
	// and timeline.MaxTime do not bound it.
	From, To uint64
	// Symbols are functions that the report has a page of, before those that change most.
	Symbols []timeline.Symbol
	// MaxSize is about how large the file may be, in bytes; 0: 4 MiB. The least is 256 KiB.
	MaxSize int
}

// The limits of a report.
const (
	defaultReport = 4 << 20
	minReport     = 256 << 10
	reportRows    = 1000
	reportDiff    = 300
	reportZoom    = 4
)

// A ReportStats describes what is in a report.
type ReportStats struct {
	Bytes              int
	Functions, Changed int      // with a page, and all that changed in the window
	Rows, Changes      int      // in the log, and all
	LeftOut            []string // what is missing, in words
}

// A reportPart is a page of a report.
type reportPart struct {
	ID, Title string
	Pos, End  uint64 // of a function, on the axis
	Body      template.HTML
}

type reportPage struct {
	Title, Recording, From, To string
	Style                      template.CSS
	Script                     template.JS
	Parts                      []reportPart
	Functions                  []reportPart
	LeftOut                    []string
}

// WriteReport writes the pages for a window of time as one HTML file to w. It returns a
// [*RequestError] if the recording has nothing in the window. Other errors are of reading, of writing, or
// of a MaxSize that does not suffice for the first page. Nothing is written unless the error is that of
// w. The caller closes rec.
func WriteReport(w io.Writer, rec *Recording, opts ReportOptions) (stats *ReportStats, err error) {
	if opts.MaxSize == 0 {
		opts.MaxSize = defaultReport
	}
	if opts.MaxSize < minReport {
		return nil, errors.New("a report needs at least 256 KiB")
	}
	s := newSession(rec, 1)
	<-s.ready
	if s.err != nil {
		return nil, s.err
	}
	err = replay.Guard(func() error {
		stats, err = s.report(w, opts)
		return err
	})
	return stats, err
}

// A reportWriter makes a report of a session.
type reportWriter struct {
	*session
	opts     ReportOptions
	from, to uint64
	page     reportPage
	stats    ReportStats
	used     int // how many bytes the file has so far, about
}

func (s *session) report(w io.Writer, opts ReportOptions) (*ReportStats, error) {
	from, to := s.extent()
	from = max(from, opts.From)
	if opts.To != timeline.MaxTime {
		to = min(to, max(opts.To, 1)-1)
	}
	if from > to {
		return nil, &RequestError{fmt.Sprintf("the recording has nothing between %s and %s", replay.Seconds(opts.From), replay.Seconds(opts.To))}
	}
	x := &reportWriter{session: s, opts: opts, from: from, to: max(to, from+1)}
	for _, step := range []func() error{x.begin, x.addOverview, x.addMap, x.addDiff, x.addLog, x.addFunctions} {
		if err := step(); err != nil {
			return nil, err
		}
	}
	for _, what := range s.trail.missing() {
		x.leaveOut("%s", what)
	}
	if s.r.Report.Records[recordSample] > 0 {
		x.leaveOut("the samples: textreplay pprof writes them")
	}
	return &x.stats, x.writeTo(w)
}

// leaveOut adds to the list of what the report does not have.
func (x *reportWriter) leaveOut(format string, args ...any) {
	x.stats.LeftOut = append(x.stats.LeftOut, fmt.Sprintf(format, args...))
}

// add adds the page with this name of a template.
func (x *reportWriter) add(id, title, page string, body any) error {
	part, err := x.part(id, title, page, body)
	if err != nil {
		return err
	}
	x.used += len(part.Body)
	x.page.Parts = append(x.page.Parts, part)
	return nil
}

func (x *reportWriter) begin() error {
	css, err := content.ReadFile("static/style.css")
	if err != nil {
		return err
	}
	js, err := content.ReadFile("static/map.js")
	if err != nil {
		return err
	}
	x.page = reportPage{Title: "textreplay report", Recording: x.name(), From: replay.Seconds(x.from), To: replay.Seconds(x.to),
		Style: template.CSS(css), Script: template.JS(js)}
	x.used = len(css) + len(js) + 4096
	return nil
}

func (x *reportWriter) addOverview() error {
	o := x.overviewOf(x.from, x.to, false, true)
	if o.Spans != nil && o.Spans.More > 0 {
		x.leaveOut("%s of %s lifetimes of modules and BPF programs", thousands(o.Spans.More), thousands(o.Spans.Total))
	}
	return x.add("part-overview", "Overview", "overview", o)
}

// addMap adds the map with as many levels of tiles as there is room for.
func (x *reportWriter) addMap() error {
	plane := newPlane(x.trail, x.axis, x.from, x.to)
	plane.windows = x.plane.windows
	data := x.mapOf(plane)
	data.Tiles = make(map[string]*tile)
	size := 0
	for z := uint8(0); z <= reportZoom; z++ {
		level := make(map[string]*tile)
		for ix := range uint64(1) << z {
			for iy := range uint64(1) << z {
				t := plane.tile(tileKey{z, z, ix, iy})
				level[fmt.Sprintf("%d/%d/%d/%d", z, z, ix, iy)] = t
				size += len(t.Cells) + 140*len(t.Marks) + 60
			}
		}
		if z > 0 && size > x.opts.MaxSize/4 {
			break
		}
		maps.Copy(data.Tiles, level)
		if z == reportZoom {
			x.leaveOut("the map in more detail than a %dth of its width", 1<<reportZoom)
		}
	}
	if size > x.opts.MaxSize/4 {
		x.leaveOut("the map in its finest detail")
	}
	return x.add("part-map", "Map", "map", x.mapPageOf(data))
}

func (x *reportWriter) addDiff() error {
	d := &diffPage{}
	if err := x.diffOf(d, replay.Seconds(x.from), replay.Seconds(x.to), reportDiff); err != nil {
		return err
	}
	if d.More > 0 {
		x.leaveOut("%s of the places that differ between the start and the end", thousands(d.More))
	}
	return x.add("part-diff", "Diff", "diff", d)
}

func (x *reportWriter) addLog() error {
	f := &logFilter{from: x.from, to: x.to + 1, page: 1}
	if x.opts.From == 0 {
		f.from = 0
	}
	if err := f.prepare(x.session); err != nil {
		return err
	}
	all := f.selectFrom(x.session)
	rows := min(len(all), reportRows, x.opts.MaxSize/2048)
	x.stats.Changes, x.stats.Rows = len(all), rows
	if rows < len(all) {
		x.leaveOut("%s of %s changes in the log: it has the first %s", thousands(len(all)-rows), thousands(len(all)), thousands(rows))
	}
	return x.add("part-log", "Log", "log",
		&logPage{Total: len(all), First: min(1, len(all)), Last: rows, All: true, Rows: x.rowsOf(all[:rows])})
}

// A reportFunction is a function that a report has a page of, and the time of the page.
type reportFunction struct {
	addr, time uint64
	symbol     *timeline.Symbol // of the options; nil if the function changed
}

// addFunctions adds the functions that changed, until the file is large enough.
func (x *reportWriter) addFunctions() error {
	_, changed, _, _ := x.busiest(x.from, x.to, 1<<20)
	x.stats.Changed = len(changed)
	for _, f := range x.functionsOf(changed) {
		if x.used > x.opts.MaxSize*9/10 {
			break
		}
		c := x.codeOf(f.addr, replay.Times{From: f.time, To: f.time}, "", false)
		if sym := f.symbol; sym != nil {
			c.Absent = absence(c.Name, sym.From, sym.To, replay.Times{From: x.to, To: x.to}, "the end of the window", f.time)
		}
		part, err := x.part("f-"+c.Addr, c.Name, "code", c)
		if err != nil {
			return err
		}
		if x.used+len(part.Body) > x.opts.MaxSize*95/100 {
			continue
		}
		part.Pos = x.axis.pos(f.addr)
		part.End = part.Pos + c.Size
		x.used += len(part.Body)
		x.page.Functions = append(x.page.Functions, part)
		if slices.ContainsFunc(changed, func(b busy) bool { return b.Name == c.Name }) {
			x.stats.Functions++
		}
	}
	if x.stats.Functions < x.stats.Changed {
		x.leaveOut("the pages of %s of %s functions that changed: it has those that changed most",
			thousands(x.stats.Changed-x.stats.Functions), thousands(x.stats.Changed))
	}
	return nil
}

// functionsOf returns the functions that the options name, at the end of the window or the nearest time
// at which they are there, and then those that changed, as their links show them.
func (x *reportWriter) functionsOf(changed []busy) []reportFunction {
	var list []reportFunction
	for _, sym := range x.opts.Symbols {
		end := replay.Times{From: x.to, To: x.to}
		list = append(list, reportFunction{sym.Addr, timeIn(sym.From, sym.To, end), &sym})
	}
	for _, b := range changed {
		u, err := url.Parse(b.Href)
		if err != nil {
			continue
		}
		t, err := x.r.ParseTime(u.Query().Get("t"))
		if err != nil {
			continue
		}
		addr, err := x.r.ParseAddr(u.Query().Get("addr"), t.From)
		if err == nil && !slices.ContainsFunc(list, func(f reportFunction) bool { return f.addr == addr }) {
			list = append(list, reportFunction{addr, t.From, nil})
		}
	}
	return list
}

// writeTo writes the report, with links between its pages.
func (x *reportWriter) writeTo(w io.Writer) error {
	p := &x.page
	p.LeftOut = x.stats.LeftOut
	for _, parts := range [][]reportPart{p.Parts, p.Functions} {
		for i := range parts {
			parts[i].Body = x.relink(parts[i].Body, p.Functions)
		}
	}
	var out bytes.Buffer
	if err := execute(&out, "report", "report", p); err != nil {
		return err
	}
	x.stats.Bytes = out.Len()
	_, err := out.WriteTo(w)
	return err
}

// part makes a page of a report.
func (s *session) part(id, title, page string, body any) (reportPart, error) {
	var b bytes.Buffer
	err := execute(&b, page, "content", body)
	return reportPart{ID: id, Title: title, Body: template.HTML(stripped(b.String(), page))}, err
}

var (
	formTags  = lazyregexp.New(`(?s)<form.*?</form>`)
	clockTags = lazyregexp.New(`(?s)<section class="clock".*?</section>`)
	ids       = lazyregexp.New(` (id|aria-labelledby)="(h-|i|shown)[^"]*"`)
	links     = lazyregexp.New(` href="([^"]*)"`)
)

// stripped returns the HTML of a page without what needs a server, and without the ids of code
// pages, which would not be unique.
func stripped(text, page string) string {
	if page == "code" {
		text = ids().ReplaceAllString(clockTags().ReplaceAllString(text, ""), "")
	}
	return formTags().ReplaceAllString(text, "")
}

// relink replaces the links to functions by links to their pages in the report, and removes all
// others.
func (s *session) relink(body template.HTML, functions []reportPart) template.HTML {
	return template.HTML(links().ReplaceAllStringFunc(string(body), func(link string) string {
		target := html.UnescapeString(links().FindStringSubmatch(link)[1])
		rest, ok := strings.CutPrefix(target, "/at?")
		if !ok {
			return ""
		}
		q, err := url.ParseQuery(rest)
		if err != nil {
			return ""
		}
		addr, err := s.r.ParseAddr(q.Get("addr"), s.r.Report.First)
		if err != nil {
			return ""
		}
		pos := s.axis.pos(addr)
		for i := range functions {
			if f := &functions[i]; f.Pos <= pos && pos < f.End {
				return ` href="#` + f.ID + `"`
			}
		}
		return ""
	}))
}
