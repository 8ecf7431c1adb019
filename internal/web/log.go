// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// logRows is how many changes a page of the log has.
const logRows = 100

// A logFilter says which changes the log shows.
type logFilter struct {
	from, to uint64   // from <= time < to, in ns
	kinds    []string // names of classes and events; empty for all
	place    string   // as wherever reads it; "" for all
	by       string   // part of a writer's name
	sort     string   // "place", "writer", "newest", or "time" or "" for oldest first
	page     int      // from 1

	where   *where  // of place; nil: all
	classes uint64  // bit set of classes
	events  [3]bool // by eventKind
	writers []bool  // by number; nil: all
}

// Names of the kinds of changes that are not pokes. A mechanism, bpf-program, is the kind of pokes.
var eventNames = [...]string{eventSymbol: "symbol", eventBPF: "BPF load or unload", eventLoss: "lost"}

type logPage struct {
	From, To, Place, By, Sort string
	Meaning                   string // of Place, if it means several
	IsData                    bool   // Place is the name of data
	T                         string // the time that the page keeps
	Window                    string // From and To in words
	Kinds                     []choice
	Sorts                     []choice
	Rows                      []changeRow
	Total                     int
	Page, First, Last         int
	Prev, Next                string
	All                       bool // no filter
	Left                      string
}

type choice struct {
	Value, Name string
	On          bool
}

// A changeRow is a change as a row of a table.
type changeRow struct {
	Time, Href  string
	CPU         string
	Writer      string
	Kind        string
	Class       int // -1: not a poke
	Addr, Place string
	Old, New    string // instructions
	OldB, NewB  string // bytes
	Window      string
	Note        string // of what is not a poke
}

func (q *request) log() error {
	if !q.wait(q.Context(), 10*time.Second) {
		return q.notReady()
	}
	from, to, err := q.bounds()
	if err != nil {
		return err
	}
	f := &logFilter{from: from, to: to, place: strings.TrimSpace(q.FormValue("place")), by: strings.TrimSpace(q.FormValue("by")), sort: q.FormValue("sort")}
	for _, k := range q.Form["kind"] {
		if k != "" {
			f.kinds = append(f.kinds, k)
		}
	}
	if f.page, err = q.pageNumber(); err != nil {
		return err
	}
	p, err := q.session.logOf(f)
	if err != nil {
		return err
	}
	p.From, p.To, p.T = strings.TrimSpace(q.FormValue("from")), strings.TrimSpace(q.FormValue("to")), q.kept.text
	p.Window = boundsText(from, to)
	p.All = p.All && p.From == "" && p.To == ""
	at := func(page int) string {
		v := url.Values{}
		for _, k := range []string{"from", "to", "place", "by", "sort"} {
			if x := q.FormValue(k); x != "" {
				v.Set(k, x)
			}
		}
		if p.T != "" {
			v.Set("t", p.T)
		}
		v["kind"] = f.kinds
		v.Set("page", strconv.Itoa(page))
		return "/log?" + v.Encode()
	}
	if p.Page > 1 {
		p.Prev = at(p.Page - 1)
	}
	if p.Last < p.Total {
		p.Next = at(p.Page + 1)
	}
	return q.page("log", "Log", p)
}

// prepare fills in the fields that depend on the recording. The error is about the request.
func (f *logFilter) prepare(s *session) error {
	for k, name := range classNames {
		if len(f.kinds) == 0 || slices.Contains(f.kinds, name) {
			f.classes |= 1 << k
		}
	}
	for k, name := range eventNames {
		f.events[k] = len(f.kinds) == 0 || slices.Contains(f.kinds, name)
	}
	for _, k := range f.kinds {
		if !slices.Contains(classNames, k) && !slices.Contains(eventNames[:], k) {
			return &RequestError{fmt.Sprintf("kind %q: there is no such kind of change", k)}
		}
	}
	if !slices.Contains([]string{"", "time", "newest", "place", "writer"}, f.sort) {
		return &RequestError{fmt.Sprintf("sort %q: there is no such order", f.sort)}
	}
	if f.place != "" {
		var err error
		if f.where, err = s.wherever(f.place, min(max(f.from, s.r.Report.First), s.r.Report.Last)); err != nil {
			return err
		}
	}
	if f.by != "" {
		f.writers = make([]bool, len(s.trail.writers))
		for i, w := range s.trail.writers {
			f.writers[i] = strings.Contains(w.String(), f.by)
		}
	}
	return nil
}

// A where is a place of kernel text: either the code with a name, or a range of addresses.
type where struct {
	named *NamedCode
	timeline.Range
}

// wherever reads a place as the command line reads that of its log: [MODULE:]NAME, A,B or A..B with two
// addresses, either of which may be left out, or one address. Addresses are those of time t.
func (s *session) wherever(text string, t uint64) (*where, error) {
	if len(s.r.Image.At(t).Lookup(text)) == 0 {
		for _, between := range []string{",", ".."} {
			if a, b, ok := strings.Cut(text, between); ok {
				return s.rangeBetween(text, strings.TrimSpace(a), strings.TrimSpace(b), t)
			}
		}
		addr, err := s.r.ParseAddr(text, t)
		switch {
		case err == nil:
			return &where{Range: timeline.Range{Lo: addr, Hi: max(addr, addr+1)}}, nil // the last address has none behind it
		case strings.Contains(text, "+"), strings.HasPrefix(text, "0x"):
			return nil, err
		}
	}
	named, err := s.text.Named(text)
	if err != nil {
		return nil, err
	}
	return &where{named: named}, nil
}

// rangeBetween returns the addresses from a up to but not including b.
func (s *session) rangeBetween(text, a, b string, t uint64) (_ *where, err error) {
	w := &where{Range: timeline.Range{Lo: 0, Hi: math.MaxUint64}}
	if a != "" {
		if w.Lo, err = s.r.ParseAddr(a, t); err != nil {
			return nil, err
		}
	}
	if b != "" {
		if w.Hi, err = s.r.ParseAddr(b, t); err != nil {
			return nil, err
		}
	}
	if w.Lo >= w.Hi {
		return nil, &RequestError{fmt.Sprintf("%s has no addresses", text)}
	}
	return w, nil
}

// isData reports whether the place is a name that only data has, such as a static key.
func (w *where) isData() bool {
	return w != nil && w.named != nil && !slices.ContainsFunc(w.named.Symbols, func(x timeline.Symbol) bool { return x.Size != 0 })
}

// meaning says which symbols have a name, if there are several; else it returns "".
func (w *where) meaning(text string) string {
	if w == nil || w.named == nil {
		return ""
	}
	var places []string
	for i := range w.named.Symbols {
		sym := &w.named.Symbols[i]
		place := hexAddr(sym.Addr)
		if name := symbolName(sym); name != text {
			place = name + " at " + place
		}
		if !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	const most = 10
	n := len(places)
	if n < 2 {
		return ""
	}
	if n > most {
		places = append(places[:most], fmt.Sprintf("%d more", n-most))
	}
	return fmt.Sprintf("%s is the name of %d places: %s. The log has the changes of all of them.", text, n, strings.Join(places, ", "))
}

func (f *logFilter) wantsWriter(w uint16) bool {
	return f.writers == nil || int(w) < len(f.writers) && f.writers[w]
}

// A logEntry is a change: a poke (0 and more) or an event (below 0: its complement).
type logEntry int32

// selectFrom returns the changes that the filter asks for, in its order.
func (f *logFilter) selectFrom(s *session) []logEntry {
	t := s.trail
	events := f.selectEvents(s)
	pokes := f.selectPokes(s, len(events))
	switch f.sort {
	case "place":
		return append(pokes, events...)
	case "writer":
		return sortByWriter(t, mergeByTime(t, pokes, events))
	case "newest":
		out := mergeByTime(t, pokes, events)
		slices.Reverse(out)
		return out
	}
	return mergeByTime(t, pokes, events)
}

// selectEvents returns the events that the filter asks for, in the order of time.
func (f *logFilter) selectEvents(s *session) (out []logEntry) {
	t := s.trail
	for i := range t.events {
		e := &t.events[i]
		switch {
		case !f.events[e.kind] || e.time < f.from:
			continue
		case e.kind == eventLoss:
			if e.since >= f.to { // from then on it may hide any change, of any writer
				continue
			}
		case e.time >= f.to && f.to != timeline.MaxTime || !f.wantsWriter(e.writer):
			continue
		}
		if f.where != nil && e.kind != eventLoss && !f.where.hasEvent(s, e) {
			continue
		}
		out = append(out, ^logEntry(i))
	}
	return out
}

// hasEvent reports whether a symbol or a BPF program, which has no address, is at the place.
func (w *where) hasEvent(s *session, e *event) bool {
	switch {
	case e.kind == eventBPF:
		return false
	case w.named != nil:
		return w.named.Has(s.r.Image.At(e.time), e.addr, e.name)
	}
	return e.addr < w.Hi && (e.addr >= w.Lo || max(e.n, 1) > w.Lo-e.addr)
}

// selectPokes returns the pokes that the filter asks for, by place if it sorts by place, else in
// the order of time. There is room for more entries behind them.
func (f *logFilter) selectPokes(s *session, more int) (out []logEntry) {
	t := s.trail
	s0, s1, from := 0, len(t.sites), uint64(0) // of what is asked for
	var named *NamedCode
	if f.where != nil {
		if named = f.where.named; named == nil {
			from = f.where.Lo
			s0, s1 = t.sitesAround(from, f.where.Hi)
		}
	}
	lo, hi := t.between(f.from, f.to)
	wants := func(i int) bool { return f.classes>>t.class[i]&1 != 0 && f.wantsWriter(t.writer[i]) }
	if f.where == nil && f.writers == nil {
		out = make([]logEntry, 0, hi-lo+more) // there can be millions
	}
	if f.sort != "place" && named == nil && (f.where == nil || int(t.first[s1]-t.first[s0]) >= hi-lo) {
		for i := lo; i < hi; i++ {
			if k := int(t.site[i]); s0 <= k && k < s1 && t.sites[k].end() > from && wants(i) {
				out = append(out, logEntry(i))
			}
		}
		return out
	}
	textLo, textHi := s.r.Image.Text()
	for k := s0; k < s1; k++ {
		addr := t.sites[k].addr
		if t.sites[k].end() <= from {
			continue
		}
		changes := t.ofSite(k, f.from, f.to)
		// Names of core kernel text stay.
		stays := textLo <= addr && addr < textHi
		if named != nil && stays && len(changes) > 0 && !named.Has(s.r.Image.At(t.time[changes[0]]), addr, "") {
			continue
		}
		for _, i := range changes {
			if wants(int(i)) && (named == nil || stays || named.Has(s.r.Image.At(t.time[i]), addr, "")) {
				out = append(out, logEntry(i))
			}
		}
	}
	if f.sort != "place" {
		slices.Sort(out)
	}
	return out
}

// sortByWriter sorts changes by the writers' names. Changes whose writer is not known come last.
func sortByWriter(t *trail, out []logEntry) []logEntry {
	order := make([]int, len(t.writers))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.writers[a].String(), t.writers[b].String()) })
	rank := make([]int, someone+1)
	for r, i := range order {
		rank[i] = r
	}
	rank[someone] = len(order)
	by := func(e logEntry) int {
		if e < 0 {
			return rank[t.events[^e].writer]
		}
		return rank[t.writer[e]]
	}
	slices.SortStableFunc(out, func(a, b logEntry) int { return cmp.Compare(by(a), by(b)) })
	return out
}

// mergeByTime returns pokes and events, both in the order of time, in one list. It uses the
// memory of pokes.
func mergeByTime(t *trail, pokes, events []logEntry) []logEntry {
	left := len(pokes)
	out := append(pokes, events...)
	for j := len(events) - 1; j >= 0; j-- {
		at := t.events[^events[j]].time
		n, _ := slices.BinarySearchFunc(out[:left], at, func(e logEntry, at uint64) int {
			if t.time[e] < at {
				return -1
			}
			return 1
		})
		copy(out[n+j+1:], out[n:left])
		out[n+j], left = events[j], n
	}
	return out
}

func (s *session) logOf(f *logFilter) (*logPage, error) {
	if err := f.prepare(s); err != nil {
		return nil, err
	}
	all := f.selectFrom(s)
	p := &logPage{Place: f.place, Meaning: f.where.meaning(f.place), IsData: f.where.isData(), By: f.by, Sort: f.sort, Total: len(all), All: len(f.kinds) == 0 && f.place == "" && f.by == ""}
	for _, name := range append(slices.Clone(classNames), eventNames[:]...) {
		p.Kinds = append(p.Kinds, choice{name, name, slices.Contains(f.kinds, name)})
	}
	for _, c := range []choice{{"time", "oldest first", false}, {"newest", "newest first", false}, {"place", "address", false}, {"writer", "writer", false}} {
		c.On = f.sort == c.Value
		p.Sorts = append(p.Sorts, c)
	}
	var lo, hi int
	p.Page, lo, hi = pageOf(f.page, logRows, len(all))
	p.First, p.Last = min(lo+1, len(all)), hi
	p.Rows = s.rowsOf(all[lo:hi])
	return p, nil
}

// rowsOf returns the rows of changes, in their order.
func (s *session) rowsOf(entries []logEntry) []changeRow {
	rd := s.trail.reader()
	defer rd.close()
	var out []changeRow
	for k, e := range entries {
		if k%8 == 0 && s.large {
			s.r.Unload() // changes are anywhere in the files
		}
		if e < 0 {
			out = append(out, s.eventRow(&s.trail.events[^e]))
			continue
		}
		out = append(out, s.pokeRow(rd.poke(int(e))))
	}
	return out
}

// pokeRow describes a poke with the instructions of before and after.
func (s *session) pokeRow(p poke) changeRow {
	before, after := s.r.Image.At(max(p.time, 1)-1), s.r.Image.At(p.time)
	row := changeRow{Time: replay.Seconds(p.time), Href: addrLink(p.addr, p.time), Writer: orUnknown(p.writer.String()),
		Class: int(s.trail.class[p.at]), Addr: hexAddr(p.addr), Place: s.text.Name(after, p.addr), OldB: spaced(p.old, 16), NewB: spaced(p.new, 16)}
	row.Kind = classNames[row.Class]
	if step := stepNames[p.kind]; step != "" {
		row.Kind += ", " + step
	}
	if p.cpu != noCPU {
		row.CPU = strconv.Itoa(int(p.cpu))
	}
	if row.Place == "" {
		row.Place = cmp.Or(s.text.Name(before, p.addr), row.Addr)
	}
	row.Old, row.New = s.side(before, p.addr, p.old), s.side(after, p.addr, p.new)
	if w, ok := s.plane.windowOf(p.at); ok {
		row.Window = span(w.To - w.From)
	}
	return row
}

// side returns the first instructions that b encodes at an address, as of v's time.
func (s *session) side(v timeline.View, addr uint64, b []byte) string {
	const most = 4
	if len(b) == 0 {
		return ""
	}
	var parts []string
	for i, in := range s.text.Insts(v, addr, uint64(min(len(b), 64)), b[:min(len(b), 64)]) {
		if i == most {
			parts = append(parts, "…")
			break
		}
		parts = append(parts, in.Text)
	}
	return strings.Join(parts, "; ")
}

func (s *session) eventRow(e *event) changeRow {
	row := changeRow{Time: replay.Seconds(e.time), Class: -1, Kind: eventNames[e.kind], Writer: "", Place: e.name}
	if e.time == 0 {
		row.Time = "before"
	}
	if e.cpu != noCPU {
		row.CPU = strconv.Itoa(int(e.cpu))
	}
	if int(e.writer) < len(s.trail.writers) {
		row.Writer = s.trail.writers[e.writer].String()
	}
	at := max(e.time, s.r.Report.First)
	switch e.kind {
	case eventSymbol:
		row.Addr, row.Href = hexAddr(e.addr), addrLink(e.addr, at)
		row.Note = "unregistered, " + count(e.n, "byte", "bytes")
		if e.up {
			row.Note = "registered, " + count(e.n, "byte", "bytes")
		}
	case eventBPF:
		row.Place = fmt.Sprintf("id %d", e.number)
		row.Note = fmt.Sprintf("unloaded, tag %x", e.tag)
		if e.up {
			row.Note = fmt.Sprintf("loaded, tag %x", e.tag)
		}
	case eventLoss:
		row.Place = ""
		row.Note = fmt.Sprintf("%s lost since %s: their changes are not known", count(e.number, "record", "records"), replay.Seconds(e.since))
	}
	return row
}
