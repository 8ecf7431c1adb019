// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

const recordSample = perfdata.RecordSample

// An overview is the first page.
type overview struct {
	Verdict, Level string
	T              string // the time that the page keeps
	Facts          []fact
	From, To       string
	FormFrom       string // what the form has
	FormTo         string
	Whole          bool
	Pending        bool
	Lanes          []lane
	Limits         []limitRow
	MoreLimits     int
	Rates          *rates
	Sites          []busy
	Functions      []busy
	Writers        []busy
	Spans          *gantt
	Warnings       []string
	MoreWarnings   int
	MapLink        string
	Changed        int // functions
	FunctionsLink  string
}

type fact struct{ Name, Value string }

// A busy is a row of a table of what changed most.
type busy struct {
	Name, Href  string
	N           int
	First, Last string
	Bar         int // of 100
}

func (q *request) overview() error {
	from, to, err := q.window()
	if err != nil {
		return err
	}
	// The first page does not wait for all changes to be read.
	ready := q.wait(q.Context(), 100*time.Millisecond)
	if ready && q.session.err == nil && q.isWhole() {
		o := *q.session.whole()
		o.T = q.kept.text
		return q.page("overview", "Overview", &o)
	}
	o := q.session.overviewOf(from, to, q.isWhole(), ready)
	o.T = q.kept.text
	return q.page("overview", "Overview", o)
}

// overviewOf returns the page for the window [from, to], in ns. If ready is false, it has only
// the parts that do not need what prepare makes.
func (s *session) overviewOf(from, to uint64, whole, ready bool) *overview {
	const most = 12
	o := &overview{From: replay.Seconds(from), To: replay.Seconds(to), Whole: whole, Pending: !ready}
	if !whole {
		o.FormFrom, o.FormTo = o.From, o.To
	}
	o.Verdict, o.Level = s.text.Verdict()
	o.Facts = s.facts()
	o.Lanes = s.lanes(from, to)
	o.limits(s.r.Report)
	o.MapLink = "/map?from=" + o.From + "&to=" + o.To
	for i, w := range s.r.Report.Warnings {
		if i == 20 {
			o.MoreWarnings = len(s.r.Report.Warnings) - i
			break
		}
		o.Warnings = append(o.Warnings, w.Error())
	}
	if !ready {
		return o
	}
	o.Rates = s.ratesOf(from, to)
	o.Sites, o.Functions, o.Writers, o.Changed = s.busiest(from, to, most)
	o.FunctionsLink = "/functions"
	if !whole {
		o.FunctionsLink += "?" + url.Values{"from": {o.From}, "to": {replay.Seconds(to + 1)}}.Encode()
	}
	o.Spans = s.ganttOf(from, to)
	return o
}

func (s *session) facts() []fact {
	rep := s.r.Report
	or := func(x string) string {
		if strings.TrimSpace(x) == "" {
			return "not recorded"
		}
		return x
	}
	f := []fact{
		{"Kernel", or(strings.TrimSpace(rep.Kernel + " " + rep.Arch))},
		{"Recorded by", or(rep.Producer)},
	}
	if rep.Guest != 0 {
		f = append(f, fact{"Guest", dec(uint64(max(rep.Guest, 0)))})
	}
	if rep.CPUsAvailable > 0 {
		f = append(f, fact{"CPUs", fmt.Sprintf("%d, of which %d online", rep.CPUsAvailable, rep.CPUsOnline)})
	} else {
		f = append(f, fact{"CPUs", "not recorded"})
	}
	end := "the recording ends cleanly"
	if !rep.Clean {
		end = "no clean end; the newest record is at " + replay.Seconds(rep.Last)
	}
	from, to := s.extent()
	f = append(f,
		fact{"Time", fmt.Sprintf("%s to %s (%s), %s; %s", replay.Seconds(from), replay.Seconds(to), span(to-from), clockName(rep), end)},
		fact{"Text pokes", thousands(rep.Pokes.Total)},
		fact{"Symbols", fmt.Sprintf("%s registered, %s unregistered", thousands(rep.Symbols.Births), thousands(rep.Symbols.Deaths))},
		fact{"BPF", fmt.Sprintf("%s, %d of them with bytes", count(rep.BPF.Programs, "program load", "program loads"), rep.BPF.WithBytes)},
	)
	if n := rep.Records[recordSample]; n > 0 {
		f = append(f, fact{"Samples", thousands(n)})
	}
	if len(rep.Losses) > 0 {
		lost := uint64(0)
		for _, l := range rep.Losses {
			lost += l.Records
		}
		f = append(f, fact{"Lost", fmt.Sprintf("%s in %s", count(lost, "record", "records"), count(len(rep.Losses), "place", "places"))})
	}
	if rep.Conflicts > 0 {
		f = append(f, fact{"Conflicts", thousands(rep.Conflicts)})
	}
	return f
}

func clockName(rep *replay.Report) string {
	if rep.Clock.Name == "perf" {
		return "perf's clock"
	}
	return rep.Clock.Name
}

// width is the width of charts in units of their viewBox.
const width = 1000

// A lane is a line of the chart of coverage.
type lane struct {
	Name, Verdict string
	Level         string // "good", "partly", "none"
	Parts         []lanePart
}

// A lanePart is a piece of a lane, in units of width.
type lanePart struct {
	X, W  float64
	Class string
	Title string
}

// lanes draws the coverage of each kind of change, losses and silent CPUs.
func (s *session) lanes(from, to uint64) []lane {
	rep := s.r.Report
	c := &rep.Coverage
	var out []lane
	for _, k := range []struct {
		name string
		c    *replay.Coverage
	}{{"Text pokes", &c.Pokes}, {"Symbols", &c.KSymbols}, {"BPF", &c.BPF}, {"Modules", &c.Modules}} {
		l := lane{Name: k.name, Verdict: string(k.c.Verdict), Level: "partly"}
		switch k.c.Verdict {
		case replay.Complete:
			l.Level = "good"
		case replay.None:
			l.Level, l.Verdict = "none", "not recorded"
		}
		l.Parts = append(l.Parts, lanePart{0, width, "covered", ""})
		p := newStrip(from, to)
		for i := range k.c.Limits {
			x := &k.c.Limits[i]
			p.add(x.From, x.To, x.Text)
		}
		l.Parts = append(l.Parts, p.parts("gap")...)
		out = append(out, l)
	}
	if len(rep.Losses) > 0 {
		p := newStrip(from, to)
		for i := range rep.Losses {
			x := &rep.Losses[i]
			p.add(x.From, x.To, fmt.Sprintf("%s lost on %s", count(x.Records, "record", "records"), x.Where()))
		}
		out = append(out, lane{Name: "Losses", Verdict: thousands(len(rep.Losses)), Level: "none", Parts: p.parts("loss")})
	}
	silent := newStrip(from, to)
	n := 0
	for i := range c.Pokes.Limits {
		if x := &c.Pokes.Limits[i]; x.Reason == timeline.CPUSilent {
			silent.add(x.From, x.To, x.Text)
			n++
		}
	}
	if n > 0 {
		out = append(out, lane{Name: "Silent CPUs", Verdict: thousands(n), Level: "none", Parts: silent.parts("silent")})
	}
	trusted := newStrip(from, to)
	if t := &rep.Trusted; t.To != 0 {
		trusted.add(t.From, t.To, "all text is known from "+replay.Seconds(t.From)+" to "+replay.Seconds(t.To))
	}
	return append([]lane{{Name: "All text known", Level: "", Parts: trusted.parts("known")}}, out...)
}

// A strip collects intervals of the window [from, to], and joins those that are at most half a
// unit of width apart.
type strip struct {
	from, to uint64
	runs     []stripRun
}

type stripRun struct {
	x0, x1 float64
	title  string
	n      int
}

func newStrip(from, to uint64) *strip { return &strip{from: from, to: to} }

func (p *strip) x(t uint64) float64 {
	t = min(max(t, p.from), p.to)
	return float64(t-p.from) / float64(p.to-p.from) * width
}

func (p *strip) add(from, to uint64, title string) {
	if to < p.from || from > p.to {
		return
	}
	p.runs = append(p.runs, stripRun{p.x(from), p.x(to), title, 1})
}

func (p *strip) parts(class string) []lanePart {
	slices.SortFunc(p.runs, func(a, b stripRun) int { return cmp.Compare(a.x0, b.x0) })
	var joined []stripRun
	for _, r := range p.runs {
		r.x1 = max(r.x1, r.x0+1)
		if n := len(joined); n > 0 && r.x0 <= joined[n-1].x1+0.5 {
			joined[n-1].x1 = max(joined[n-1].x1, r.x1)
			joined[n-1].n++
			continue
		}
		joined = append(joined, r)
	}
	var out []lanePart
	for _, r := range joined {
		if r.n > 1 {
			r.title = fmt.Sprintf("%s, and %d more here", r.title, r.n-1)
		}
		out = append(out, lanePart{round(r.x0), round(r.x1 - r.x0), class, r.title})
	}
	return out
}

func round(x float64) float64 { return float64(int(x*100+0.5)) / 100 }

type limitRow struct{ Kind, From, To, Text, Reason string }

// limits lists why coverage is not complete.
func (o *overview) limits(rep *replay.Report) {
	const most = 40
	c := &rep.Coverage
	for _, k := range []struct {
		name string
		c    *replay.Coverage
	}{{"Text pokes", &c.Pokes}, {"Symbols", &c.KSymbols}, {"BPF", &c.BPF}, {"Modules", &c.Modules}} {
		for i := range k.c.Limits {
			if len(o.Limits) == most {
				o.MoreLimits++
				continue
			}
			x := &k.c.Limits[i]
			o.Limits = append(o.Limits, limitRow{k.name, seconds(x.From), seconds(x.To), x.Text, x.Reason.String()})
		}
	}
}

// rates are the changes per second, by class.
type rates struct {
	Bars    []rateBar
	Peak    string // changes per second of the highest bar
	Classes []classCount
	Total   int
}

// A rateBar is the part of a bar for one class, in units of a chart of width by 100.
type rateBar struct {
	X, Y, W, H float64
	Class      int
	Title      string
}

type classCount struct {
	Class int
	Name  string
	N     int
	Href  string
}

func (s *session) ratesOf(from, to uint64) *rates {
	const bins = 200
	t := s.trail
	lo, hi := t.between(from, to+1)
	kinds := len(classNames)
	n := make([]int, bins*kinds)
	sums := make([]int, bins)
	c := &rates{Total: hi - lo}
	totals := make([]int, kinds)
	span := to - from
	edge := func(b int) uint64 { return from + uint64(float64(span)*float64(b)/bins) }
	b := 0
	for i := lo; i < hi; i++ {
		for b < bins-1 && t.time[i] >= edge(b+1) {
			b++
		}
		k := int(s.trail.class[i])
		n[b*kinds+k]++
		sums[b]++
		totals[k]++
	}
	peak := slices.Max(sums)
	c.Peak = rate(float64(peak) * bins / (float64(span) / 1e9))
	w := float64(width) / bins
	for b := range bins {
		y := 100.0
		title := fmt.Sprintf("%s to %s: %s", replay.Seconds(edge(b)), replay.Seconds(edge(b+1)), count(sums[b], "change", "changes"))
		for k := range kinds {
			m := n[b*kinds+k]
			if m == 0 {
				continue
			}
			h := max(float64(m)/float64(peak)*100, 2)
			y -= h
			c.Bars = append(c.Bars, rateBar{round(float64(b) * w), round(max(y, 0)), round(w * 0.86), round(h), k, title + ", " + classNames[k]})
		}
	}
	for k, m := range totals {
		if m > 0 {
			c.Classes = append(c.Classes, classCount{k, classNames[k], m, "/log?" + url.Values{"kind": {classNames[k]}, "from": {replay.Seconds(from)}, "to": {replay.Seconds(to + 1)}}.Encode()})
		}
	}
	return c
}

func rate(perSecond float64) string {
	if perSecond < 10 {
		return fmt.Sprintf("%.2g", perSecond)
	}
	return thousands(int(perSecond + 0.5))
}

// busiest returns the sites, functions and writers with the most changes in a window, and how
// many functions changed.
func (s *session) busiest(from, to uint64, most int) (sites, functions, writers []busy, changed int) {
	t := s.trail
	lo, hi := t.between(from, to+1)
	type tally struct {
		n           int
		first, last int // indices of the columns
	}
	perSite := make([]tally, len(t.sites))
	perWriter := make(map[uint16]*tally)
	add := func(x *tally, i int) {
		if x.n == 0 {
			x.first = i
		}
		x.n++
		x.last = i
	}
	for i := lo; i < hi; i++ {
		add(&perSite[t.site[i]], i)
		w := perWriter[t.writer[i]]
		if w == nil {
			w = &tally{}
			perWriter[t.writer[i]] = w
		}
		add(w, i)
	}
	row := func(x *tally, name, href string) busy {
		return busy{Name: name, Href: href, N: x.n, First: replay.Seconds(t.time[x.first]), Last: replay.Seconds(t.time[x.last])}
	}
	var order []int
	for k := range perSite {
		if perSite[k].n > 0 {
			order = append(order, k)
		}
	}
	sort.SliceStable(order, func(i, j int) bool { return perSite[order[i]].n > perSite[order[j]].n })
	for _, k := range order[:min(most, len(order))] {
		x := &perSite[k]
		at := t.time[x.last]
		sites = append(sites, row(x, placeName(s.r.Image.At(at), t.sites[k].addr), addrLink(t.sites[k].addr, at)))
	}
	fs, _ := s.functionsIn(functionFilter{from, to + 1, allClasses}, 0, len(t.sites), nil)
	slices.SortFunc(fs, func(a, b function) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.addr, b.addr)) })
	for i := range fs[:min(most, len(fs))] {
		f := &fs[i]
		functions = append(functions, row(&tally{int(f.n), int(f.first), int(f.last)}, s.nameOf(f), addrLink(f.addr, t.time[f.last])))
	}
	var ws []uint16
	for w := range perWriter {
		ws = append(ws, w)
	}
	slices.SortFunc(ws, func(a, b uint16) int { return cmp.Or(cmp.Compare(perWriter[b].n, perWriter[a].n), cmp.Compare(a, b)) })
	for _, w := range ws[:min(most, len(ws))] {
		name := t.writerOf(w).String()
		writers = append(writers, row(perWriter[w], orUnknown(name), "/log?"+url.Values{"by": {name}, "from": {replay.Seconds(from)}, "to": {replay.Seconds(to + 1)}}.Encode()))
	}
	for _, rows := range [][]busy{sites, functions, writers} {
		for i := range rows {
			rows[i].Bar = max(rows[i].N*100/rows[0].N, 1)
		}
	}
	return sites, functions, writers, len(fs)
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}

// A gantt is a chart of lifetimes.
type gantt struct {
	Rows  []ganttRow
	Total int
	More  int
}

type ganttRow struct {
	Name, Kind, Class string
	From, To          string
	Href              string
	X, W              float64
	Addr              string
	Size              uint64
}

func (s *session) ganttOf(from, to uint64) *gantt {
	const most = 60
	g := &gantt{}
	p := newStrip(from, to)
	for i := range s.spans {
		l := &s.spans[i]
		if l.Kind == "out of line" || l.Name == "" || l.To < from || l.From > to {
			continue
		}
		g.Total++
		if len(g.Rows) == most {
			g.More++
			continue
		}
		x0, x1 := p.x(l.From), p.x(l.To)
		at := min(max(l.From, from), to)
		g.Rows = append(g.Rows, ganttRow{Name: l.Name, Kind: l.Kind, Class: strings.ReplaceAll(strings.ToLower(l.Kind), " ", "-"),
			From: seconds(l.From), To: seconds(l.To), Href: addrLink(l.Lo, at), X: round(x0), W: round(max(x1-x0, 2)),
			Addr: hexAddr(l.Lo), Size: l.Hi - l.Lo})
	}
	if g.Total == 0 {
		return nil
	}
	return g
}
