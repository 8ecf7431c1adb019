// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A mapData is what the map's script needs to begin. Times are decimal numbers in text, in
// nanoseconds, because JavaScript's numbers have 53 bits.
type mapData struct {
	From   string    `json:"from"` // of the plane
	To     string    `json:"to"`
	Height uint64    `json:"height"`
	Cells  int       `json:"cells"`
	Areas  []mapArea `json:"areas"`
	Spans  []mapSpan `json:"spans"`
	Names  []string  `json:"classes"`
	Gaps   []mapGap  `json:"gaps"`
	Kept   *mapGap   `json:"kept,omitempty"` // the time that the page keeps
	// What is shown first.
	T0 string `json:"t0"`
	T1 string `json:"t1"`
	Y0 uint64 `json:"y0"`
	Y1 uint64 `json:"y1"`
	// Tiles are embedded in a report.
	Tiles map[string]*tile `json:"tiles,omitempty"`
}

type mapArea struct {
	Pos  uint64 `json:"p"`
	Size uint64 `json:"n"`
	Addr string `json:"a"`
	Kind string `json:"k"`
	Name string `json:"name"`
}

type mapSpan struct {
	Pos  uint64 `json:"p"`
	Size uint64 `json:"n"`
	From string `json:"f"`
	To   string `json:"u"`
	Kind string `json:"k"`
	Name string `json:"name"`
}

type mapGap struct {
	From string `json:"f"`
	To   string `json:"u"`
	Text string `json:"text"`
}

type mapPage struct {
	Data    *mapData
	Classes []classCount
	Table   []mapTableRow
	From    string
	To      string
	T       string // the time that the page keeps
	Total   string
}

// A mapTableRow is a band of the map in the table for those who cannot see the picture.
type mapTableRow struct {
	Name, Kind, Range string
	Sites, Changes    int
	Href              string
}

// The most of each that is sent to the map.
const (
	mostSpans = 2000
	mostGaps  = 1000
)

func (q *request) mapPage() error {
	if !q.wait(q.Context(), 10*time.Second) {
		return q.notReady()
	}
	d := q.session.mapOf(q.plane)
	from, to, err := q.window()
	if err != nil {
		return err
	}
	d.T0, d.T1 = dec(from), dec(to)
	if q.kept.text != "" && q.isWhole() && q.Form.Has("y0") {
		// A function: a tenth of the recording around the time.
		n := (q.plane.to - q.plane.from) / 20
		inside := func(t uint64) uint64 { return min(max(t, q.plane.from), q.plane.to) }
		d.T0, d.T1 = dec(max(inside(q.kept.times.From), q.plane.from+n)-n), dec(min(inside(q.kept.times.To)+n, q.plane.to))
	}
	for _, y := range []struct {
		name string
		to   *uint64
	}{{"y0", &d.Y0}, {"y1", &d.Y1}} {
		if x := q.FormValue(y.name); x != "" {
			if *y.to, err = strconv.ParseUint(x, 10, 64); err != nil {
				return &RequestError{y.name + ": want a number"}
			}
		}
	}
	if a := q.FormValue("addr"); a != "" {
		addr, err := q.r.ParseAddr(a, from)
		if err != nil {
			return err
		}
		y := q.axis.pos(addr)
		d.Y0, d.Y1 = y-min(y, 2048), y+2048
	}
	d.Y1 = min(d.Y1, q.axis.height)
	if d.Y0 >= d.Y1 {
		d.Y0, d.Y1 = 0, q.axis.height
	}
	if q.kept.text != "" {
		d.Kept = &mapGap{dec(q.kept.times.From), dec(q.kept.times.To), q.kept.text}
	}
	p := q.session.mapPageOf(d)
	p.T = q.kept.text
	return q.page("map", "Map", p)
}

func (s *session) mapPageOf(d *mapData) *mapPage {
	p := &mapPage{Data: d, From: replay.Seconds(s.plane.from), To: replay.Seconds(s.plane.to), Total: thousands(len(s.trail.time))}
	var n [256]int
	for _, c := range s.trail.class {
		n[c]++
	}
	for k, name := range classNames {
		if n[k] > 0 {
			p.Classes = append(p.Classes, classCount{Class: k, Name: name})
		}
	}
	for i := range s.axis.areas {
		a := &s.axis.areas[i]
		s0, s1 := s.trail.sitesAround(a.lo, a.hi)
		p.Table = append(p.Table, mapTableRow{a.name, a.kind, fmt.Sprintf("%x..%x", a.lo, a.hi), s1 - s0, int(s.trail.first[s1] - s.trail.first[s0]),
			fmt.Sprintf("/map?y0=%d&y1=%d", a.pos, a.pos+a.hi-a.lo)})
	}
	return p
}

func (s *session) mapOf(p *plane) *mapData {
	d := &mapData{From: dec(p.from), To: dec(p.to), Height: s.axis.height, Cells: tileCells, Names: classNames, Areas: []mapArea{}, Spans: []mapSpan{}, Gaps: []mapGap{}, T0: dec(p.from), T1: dec(p.to), Y1: s.axis.height}
	for i := range s.axis.areas {
		a := &s.axis.areas[i]
		d.Areas = append(d.Areas, mapArea{a.pos, a.hi - a.lo, hexAddr(a.lo), a.kind, a.name})
	}
	for i := range s.spans {
		l := &s.spans[i]
		if len(d.Spans) == mostSpans || l.To < p.from || l.From > p.to {
			continue
		}
		pos, end := s.axis.pos(l.Lo), s.axis.pos(l.Hi-1)
		if end < pos {
			continue
		}
		d.Spans = append(d.Spans, mapSpan{pos, end + 1 - pos, dec(max(l.From, p.from)), dec(min(l.To, p.to)), l.Kind, cmp.Or(l.Name, l.Kind)})
	}
	d.Gaps = append(d.Gaps, gapsOf(s.r.Report.Coverage.Pokes.Limits, p.from, p.to)...)
	return d
}

// gapsOf returns the times in [from, to] in which changes may be missing, without overlaps. If
// there are more than mostGaps, the closest are joined.
func gapsOf(limits []replay.Limit, from, to uint64) []mapGap {
	type gap struct {
		timeline.Interval
		text string
		more int
	}
	var all []gap
	for i := range limits {
		if x := &limits[i]; x.To > from && x.From < to {
			all = append(all, gap{timeline.Interval{From: max(x.From, from), To: min(x.To, to)}, x.Text, 0})
		}
	}
	slices.SortFunc(all, func(a, b gap) int { return cmp.Compare(a.From, b.From) })
	for between := uint64(0); ; between = 2*between + 1000 {
		joined := all[:0:0]
		for _, g := range all {
			if n := len(joined); n > 0 && g.From <= joined[n-1].To+between {
				last := &joined[n-1]
				last.To, last.more = max(last.To, g.To), last.more+1+g.more
				continue
			}
			joined = append(joined, g)
		}
		if all = joined; len(all) <= mostGaps {
			break
		}
	}
	var out []mapGap
	for _, g := range all {
		if g.more > 0 {
			g.text += fmt.Sprintf(", and %d more here", g.more)
		}
		out = append(out, mapGap{dec(g.From), dec(g.To), g.text})
	}
	return out
}

func (q *request) mapTile() error {
	q.typ = "application/json"
	if !q.wait(q.Context(), 10*time.Second) {
		return q.notReady()
	}
	var n [4]uint64
	for i, name := range []string{"zx", "zy", "x", "y"} {
		var err error
		if n[i], err = strconv.ParseUint(q.FormValue(name), 10, 63); err != nil {
			return &RequestError{name + ": want a number"}
		}
	}
	k := tileKey{uint8(min(n[0], 255)), uint8(min(n[1], 255)), n[2], n[3]}
	if !k.valid() {
		return &RequestError{"there is no such tile"}
	}
	return q.json(q.plane.tile(k))
}

// mapNames answers with the names of a list of positions of the axis, at a time.
func (q *request) mapNames() error {
	q.typ = "application/json"
	if !q.wait(q.Context(), 10*time.Second) {
		return q.notReady()
	}
	if q.kept.err != nil {
		return q.kept.err
	}
	v := q.r.Image.At(q.kept.or(q.r.Report.First).From)
	out := []map[string]string{}
	for _, p := range strings.Split(q.FormValue("p"), ",") {
		pos, err := strconv.ParseUint(p, 10, 64)
		if err != nil || len(out) == 64 {
			return &RequestError{"p: want up to 64 positions"}
		}
		addr := q.axis.addr(pos)
		x := map[string]string{"addr": hexAddr(addr), "name": placeName(v, addr)}
		if s, ok := v.Symbol(addr); ok {
			x["symbol"] = s.Name
		}
		out = append(out, x)
	}
	return q.json(out)
}

// mapPick answers with the name of a point of the map, and the change in a rectangle around it
// that is nearest.
func (q *request) mapPick() error {
	q.typ = "application/json"
	if !q.wait(q.Context(), 10*time.Second) {
		return q.notReady()
	}
	var n [6]uint64
	for i, name := range []string{"t", "y", "t0", "t1", "y0", "y1"} {
		var err error
		if n[i], err = strconv.ParseUint(q.FormValue(name), 10, 64); err != nil {
			return &RequestError{name + ": want a number"}
		}
	}
	if n[2] >= n[3] || n[4] >= n[5] {
		return &RequestError{"the rectangle is empty"}
	}
	addr := q.axis.addr(n[1])
	v := q.r.Image.At(n[0])
	out := map[string]any{"addr": hexAddr(addr), "name": placeName(v, addr), "time": replay.Seconds(n[0]), "href": addrLink(addr, n[0])}
	if i, ok := q.plane.nearest(n[0], n[1], n[2], n[3], n[4], n[5]); ok {
		rd := q.trail.reader()
		defer rd.close()
		row := q.pokeRow(rd.poke(i))
		out["change"] = map[string]string{"time": row.Time, "place": row.Place, "writer": row.Writer, "kind": row.Kind, "old": row.Old, "new": row.New, "href": row.Href, "window": row.Window}
	}
	return q.json(out)
}
