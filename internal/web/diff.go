// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"strings"

	"github.com/textreplay/textreplay/timeline/replay"
)

// A diffPage is what differs between two times.
type diffPage struct {
	From, To, Symbol string
	T                string // the time that the page keeps
	Asked            bool
	Summary          string
	Places           []diffRow
	More             int
	Warnings         []string
	Intervals        []string // the two times that are intervals, in words
	First, Last      string
}

type diffRow struct {
	DiffPlace
	Hex        string
	HrefBefore string
	HrefAfter  string
	Word       string
}

// mostDiff is how many places a page of differences lists.
const mostDiff = 400

func (q *request) diff() error {
	from, to := q.extent()
	p := &diffPage{From: strings.TrimSpace(q.FormValue("from")), To: strings.TrimSpace(q.FormValue("to")), Symbol: strings.TrimSpace(q.FormValue("symbol")),
		T: q.kept.text, First: replay.Seconds(from), Last: replay.Seconds(to)}
	if p.From == "" && p.To == "" {
		p.From, p.To = "start", "end"
		if p.Symbol == "" && !q.Form.Has("from") {
			return q.page("diff", "Diff", p)
		}
	}
	if err := q.session.diffOf(p, cmp.Or(p.From, "start"), cmp.Or(p.To, "end"), mostDiff); err != nil {
		return err
	}
	return q.page("diff", "Diff", p)
}

func (s *session) diffOf(p *diffPage, from, to string, most int) error {
	a, err := s.r.ParseTime(from)
	if err != nil {
		return err
	}
	b, err := s.r.ParseTime(to)
	if err != nil {
		return err
	}
	d, err := s.text.Diff(a, b, p.Symbol, most)
	if err != nil {
		return err
	}
	words := map[string]string{"bytes": "changed", "gone": "only at the first time", "came": "only at the second time"}
	p.Asked, p.Summary, p.More, p.Warnings = true, d.Summary, d.More, d.Warnings
	for i, t := range []replay.Times{a, b} {
		if text := []string{from, to}[i]; !t.Exact() {
			p.Intervals = append(p.Intervals, text+" is the interval from "+intervalText(t))
		}
	}
	for _, x := range d.Places {
		p.Places = append(p.Places, diffRow{DiffPlace: x, Hex: hexAddr(x.Addr), Word: words[x.Change], HrefBefore: addrLink(x.Addr, a.From), HrefAfter: addrLink(x.Addr, b.From)})
	}
	return nil
}
