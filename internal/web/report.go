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
	// MaxSize is about how large the file may be, in bytes; 0: 4 MB.
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

// ErrTooSmall is returned by [WriteReport] if MaxSize does not suffice for the first page.
var ErrTooSmall = errors.New("a report needs at least 256 kB")

// A ReportStats says what is in a report.
type ReportStats struct {
	Bytes              int
	Functions, Changed int // with a page, and all that changed in the window
	Rows, Changes      int // in the log, and all
	LeftOut            []string
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

// WriteReport writes the pages for a window of time as one file. Nothing is written if it
// fails, unless writing does.
func WriteReport(w io.Writer, rec *Recording, opts ReportOptions) (stats *ReportStats, err error) {
	if opts.MaxSize == 0 {
		opts.MaxSize = defaultReport
	}
	if opts.MaxSize < minReport {
		return nil, ErrTooSmall
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

func (s *session) report(w io.Writer, opts ReportOptions) (*ReportStats, error) {
	from, to := s.extent()
	from = max(from, opts.From)
	if opts.To != timeline.MaxTime {
		to = min(to, max(opts.To, 1)-1)
	}
	if from > to {
		return nil, &RequestError{fmt.Sprintf("the recording has nothing between %s and %s", replay.Seconds(opts.From), replay.Seconds(opts.To))}
	}
	to = max(to, from+1)
	var css, js []byte
	for name, b := range map[string]*[]byte{"style.css": &css, "map.js": &js} {
		var err error
		if *b, err = content.ReadFile("static/" + name); err != nil {
			return nil, err
		}
	}
	p := &reportPage{Title: "textreplay report", Recording: s.r.Recording.Path(), From: replay.Seconds(from), To: replay.Seconds(to), Style: template.CSS(css), Script: template.JS(js)}
	stats := &ReportStats{}
	left := func(format string, args ...any) { stats.LeftOut = append(stats.LeftOut, fmt.Sprintf(format, args...)) }
	used := len(css) + len(js) + 4096
	add := func(id, title, page string, body any) error {
		part, err := s.part(id, title, page, body)
		if err == nil {
			used += len(part.Body)
			p.Parts = append(p.Parts, part)
		}
		return err
	}

	o := s.overviewOf(from, to, false, true)
	if err := add("part-overview", "Overview", "overview", o); err != nil {
		return nil, err
	}
	if o.Spans != nil && o.Spans.More > 0 {
		left("%s of %s lifetimes of modules and BPF programs", thousands(o.Spans.More), thousands(o.Spans.Total))
	}
	plane := newPlane(s.trail, s.axis, from, to)
	plane.windows = s.plane.windows
	data := s.mapOf(plane)
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
		if z > 0 && size > opts.MaxSize/4 {
			break
		}
		for k, t := range level {
			data.Tiles[k] = t
		}
		if z == reportZoom {
			left("the map in more detail than a %dth of its width", 1<<reportZoom)
		}
	}
	if size > opts.MaxSize/4 {
		left("the map in its finest detail")
	}
	if err := add("part-map", "Map", "map", s.mapPageOf(data)); err != nil {
		return nil, err
	}
	d := &diffPage{}
	if err := s.diffOf(d, replay.Seconds(from), replay.Seconds(to), reportDiff); err != nil {
		return nil, err
	}
	if d.More > 0 {
		left("%s of the places that differ between the begin and the end", thousands(d.More))
	}
	if err := add("part-diff", "Diff", "diff", d); err != nil {
		return nil, err
	}

	f := &logFilter{from: from, to: to + 1, page: 1}
	if opts.From == 0 {
		f.from = 0
	}
	if err := f.prepare(s); err != nil {
		return nil, err
	}
	all := f.selectFrom(s)
	stats.Changes, stats.Rows = len(all), min(len(all), reportRows, opts.MaxSize/2048)
	l := &logPage{Total: len(all), First: min(1, len(all)), Last: stats.Rows, All: true, Rows: s.rowsOf(all[:stats.Rows])}
	if stats.Rows < len(all) {
		left("%s of %s changes in the log: it has the first %s", thousands(len(all)-stats.Rows), thousands(len(all)), thousands(stats.Rows))
	}
	if err := add("part-log", "Log", "log", l); err != nil {
		return nil, err
	}

	if err := s.reportFunctions(p, opts, from, to, &used, stats); err != nil {
		return nil, err
	}
	if stats.Functions < stats.Changed {
		left("the pages of %s of %s functions that changed: it has those that changed most", thousands(stats.Changed-stats.Functions), thousands(stats.Changed))
	}
	if s.r.Report.Records[recordSample] > 0 {
		left("the samples: textreplay pprof writes them")
	}
	p.LeftOut = stats.LeftOut
	for i := range p.Parts {
		p.Parts[i].Body = s.relink(p.Parts[i].Body, p.Functions)
	}
	for i := range p.Functions {
		p.Functions[i].Body = s.relink(p.Functions[i].Body, p.Functions)
	}
	var out bytes.Buffer
	if err := pages()["report"].ExecuteTemplate(&out, "report", p); err != nil {
		return nil, err
	}
	stats.Bytes = out.Len()
	_, err := out.WriteTo(w)
	return stats, err
}

// reportFunctions adds the functions that changed, until the file is large enough.
func (s *session) reportFunctions(p *reportPage, opts ReportOptions, from, to uint64, used *int, stats *ReportStats) error {
	_, functions, _, _ := s.busiest(from, to, 1<<20)
	stats.Changed = len(functions)
	type wanted struct {
		addr, t uint64
	}
	var list []wanted
	for _, x := range opts.Symbols {
		list = append(list, wanted{x.Addr, to})
	}
	for _, b := range functions {
		u, err := url.Parse(b.Href)
		if err != nil {
			continue
		}
		t, err := s.r.ParseTime(u.Query().Get("t"))
		if err != nil {
			continue
		}
		addr, err := s.r.ParseAddr(u.Query().Get("addr"), t.From)
		if err == nil && !slices.ContainsFunc(list, func(w wanted) bool { return w.addr == addr }) {
			list = append(list, wanted{addr, t.From})
		}
	}
	for _, x := range list {
		if *used > opts.MaxSize*9/10 {
			break
		}
		c := s.codeOf(x.addr, x.t, false)
		part, err := s.part("f-"+c.Addr, c.Name, "code", c)
		if err != nil {
			return err
		}
		if *used+len(part.Body) > opts.MaxSize*95/100 {
			continue
		}
		part.Pos = s.axis.pos(x.addr)
		part.End = part.Pos + c.Size
		*used += len(part.Body)
		p.Functions = append(p.Functions, part)
		if slices.ContainsFunc(functions, func(b busy) bool { return b.Name == c.Name }) {
			stats.Functions++
		}
	}
	return nil
}

// part makes a page of a report.
func (s *session) part(id, title, page string, body any) (reportPart, error) {
	var b bytes.Buffer
	err := pages()[page].ExecuteTemplate(&b, "content", body)
	return reportPart{ID: id, Title: title, Body: template.HTML(stripped(b.String(), page))}, err
}

var (
	formTags  = lazyregexp.New(`(?s)<form.*?</form>`)
	clockTags = lazyregexp.New(`(?s)<section class="clock".*?</section>`)
	ids       = lazyregexp.New(` (id|aria-labelledby)="(h-|i|shown)[^"]*"`)
	links     = lazyregexp.New(` href="([^"]*)"`)
)

// stripped removes what needs a server.
func stripped(text, page string) string {
	if page == "code" {
		text = ids().ReplaceAllString(clockTags().ReplaceAllString(text, ""), "")
	}
	return formTags().ReplaceAllString(text, "")
}

// relink makes links to functions lead to their pages in the report, and removes others.
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
