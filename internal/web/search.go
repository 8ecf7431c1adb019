// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"errors"
	"hash/maphash"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/textreplay/textreplay/internal/numbers"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A searchPage lists what a search found.
type searchPage struct {
	Query, T string
	Interval string // T in words, "" if it is exact
	Found    []foundRow
	More     int
	// Near is the part of Query that the names of Found have, if none has all of it.
	Near string
	Data *dataPart
	// Query is also a time, which the link leads to.
	Time, TimeLink string
	TimeErr        string // why Query, which looks like a time, is none
	Nothing        string // Query is this address, at which there is no symbol and no code
}

type foundRow struct {
	Name, Href, Addr, Kind string
	At                     string // the time that Href leads to, if the code is not there at the kept one
	Changes                int
	Last                   string
}

func (q *request) search() error {
	if !q.wait(q.Context(), 10*time.Second) {
		return q.notReady()
	}
	text := strings.TrimSpace(q.FormValue("q"))
	if text == "" {
		q.to = "/"
		return nil
	}
	if q.kept.err != nil {
		return q.kept.err
	}
	t := q.kept.or(q.r.Report.First).From
	p := &searchPage{Query: text, T: q.kept.text, Interval: q.kept.interval()}
	addr, addrErr := q.r.ParseAddr(text, t)
	if addrErr == nil && q.isCode(addr) {
		q.to, _ = q.codeLink(text, text, addr)
		return nil
	}
	times, timeErr := q.r.ParseTime(text)
	isTime := timeErr == nil && addrErr != nil
	toTime := "/map?t=" + url.QueryEscape(text)
	if isTime && !isWord(text) {
		q.to = toTime
		return nil
	}
	var n int
	p.Found, n = q.find(text, 100)
	switch {
	case n == 0 && isTime:
		q.to = toTime
		return nil
	case isTime:
		p.Time, p.TimeLink = replay.Seconds(times.From), toTime
	case n == 0 && q.several(p, addrErr, text):
		n = len(p.Found)
	case n == 0 && addrErr != nil:
		if !errors.Is(timeErr, replay.ErrNotTime) && looksLikeTime(text) {
			p.TimeErr = timeErr.Error()
		}
		p.Near, p.Found, n = q.near(text)
	}
	p.More = n - len(p.Found)
	if addr, ok := q.dataAt(text, addr, addrErr); ok {
		p.Data = q.session.dataOf(text, addr, t, q.linkTime())
	} else if addrErr == nil {
		p.Nothing = hexAddr(addr)
	}
	return q.page("search", text, p)
}

// several lists the symbols that an ambiguous name means, with the offset that text has. It reports
// whether err is that of such a name.
func (q *request) several(p *searchPage, err error, text string) bool {
	if !isOfSeveral(err) {
		return false
	}
	var ambiguous *replay.QuestionError
	errors.As(err, &ambiguous)
	_, name, _ := timeline.SplitName(text)
	_, offset, _ := strings.Cut(name, "+")
	offset, _, _ = strings.Cut(offset, "/")
	more, _ := numbers.Parse(cmp.Or(offset, "0"), 64) // ParseAddr has read it
	for i := range ambiguous.Candidates[:min(len(ambiguous.Candidates), 100)] {
		sym := &ambiguous.Candidates[i]
		row := foundRow{Name: symbolName(sym), Kind: "function", Addr: hexAddr(sym.Addr + more)}
		if more != 0 {
			row.Name += "+" + hexAddr(more)
		}
		row.Href, row.At = q.codeLink(row.Addr, sym.Name, sym.Addr+more)
		p.Found = append(p.Found, row)
	}
	return true
}

// isOfSeveral reports whether err says that several symbols have a name.
func isOfSeveral(err error) bool {
	var ambiguous *replay.QuestionError
	return errors.As(err, &ambiguous) && len(ambiguous.Candidates) > 0
}

// dataAt returns the address of the symbol that text means if it is data: the one at addr, unless err
// says that there is none, or else the first of several.
func (q *request) dataAt(text string, addr uint64, err error) (uint64, bool) {
	if err == nil {
		k := q.r.Kallsyms()
		isName := len(q.r.Image.At(q.r.Report.First).Lookup(text)) > 0 || strings.Contains(text, "+")
		return addr, isName || k != nil && len(k.NamesOf(addr)) > 0
	}
	for s := range q.r.TableSymbols {
		if s.Name == text && s.Size == 0 {
			return s.Addr, true
		}
	}
	return 0, false
}

// linkTime returns the time to which links lead: the kept one, or else that of the first record.
func (q *request) linkTime() string {
	return cmp.Or(q.kept.text, replay.Seconds(q.r.Report.First))
}

// isWord reports whether a text can be a part of a name, such as 12, 12s or end.
func isWord(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// looksLikeTime reports whether a text begins as times do.
func looksLikeTime(text string) bool {
	for _, prefix := range []string{"tsc:", "wall:", "start", "end", "@", "[", "+"} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return text != "" && '0' <= text[0] && text[0] <= '9'
}

// isCode reports whether an address is in an area of the axis.
func (s *session) isCode(addr uint64) bool {
	for i := range s.axis.areas {
		if a := &s.axis.areas[i]; a.lo <= addr && addr < a.hi {
			return true
		}
	}
	return false
}

// indexFold is strings.Index(name, lower) without regard to case.
func indexFold(name, lower string) int {
	for i := 0; i+len(lower) <= len(name); i++ {
		if strings.EqualFold(name[i:i+len(lower)], lower) {
			return i
		}
	}
	return -1
}

// A hit is a symbol that a search found.
type hit struct {
	name, kind string
	addr, size uint64
	rank       int    // 0: the name is the text, 1: it begins with the text, 2: it contains the text
	changes    int    // of its code
	last       uint64 // the time of the last change
}

// betterHit compares hits for the order in which a page lists them. A name that is the text comes
// first. Of the others, code that changes comes first, then names that begin with the text, then
// short names.
func betterHit(a, b hit) int {
	return cmp.Or(cmp.Compare(min(a.rank, 1), min(b.rank, 1)), cmp.Compare(min(b.changes, 1), min(a.changes, 1)), cmp.Compare(a.rank, b.rank),
		cmp.Compare(len(a.name), len(b.name)), strings.Compare(a.name, b.name))
}

// A finder collects the hits of a search that come first by betterHit.
type finder struct {
	*session
	lower string // the text
	most  int
	hits  []hit
	seed  maphash.Seed
	seen  map[uint64]bool // hashes, because there can be 100,000 names
}

// add adds a symbol if the text is in its name.
func (f *finder) add(name, module, kind string, addr, size uint64) {
	at := indexFold(name, f.lower)
	if at < 0 {
		return
	}
	key := maphash.Comparable(f.seed, struct {
		module, name string
		addr         uint64
	}{module, name, addr})
	if f.seen[key] {
		return
	}
	f.seen[key] = true
	h := hit{name: name, kind: kind, addr: addr, size: size, rank: 2}
	switch {
	case len(name) == len(f.lower):
		h.rank = 0
	case at == 0:
		h.rank = 1
	}
	if size > 0 {
		h.changes, h.last = f.changesOf(addr, addr+size)
	}
	if f.hits = append(f.hits, h); len(f.hits) == 8*f.most {
		f.best()
	}
}

// changesOf returns how many changes the text [lo, hi) has, and the time of the last one.
func (f *finder) changesOf(lo, hi uint64) (n int, last uint64) {
	for k := range f.trail.sitesIn(lo, hi) {
		if of := f.trail.ofSite(k, 0, timeline.MaxTime); len(of) > 0 {
			n += len(of)
			last = max(last, f.trail.time[of[len(of)-1]])
		}
	}
	return n, last
}

// best drops all hits but the best ones.
func (f *finder) best() {
	slices.SortStableFunc(f.hits, betterHit)
	f.hits = f.hits[:min(f.most, len(f.hits))]
}

// find returns the symbols with the text in their name, at most most of them, in the order of
// betterHit, and how many there are. Their links lead to the kept time, or to the nearest one at which
// their code is there.
func (q *request) find(text string, most int) (found []foundRow, n int) {
	f := &finder{session: q.session, lower: strings.ToLower(text), most: most, seed: maphash.MakeSeed(), seen: make(map[uint64]bool)}
	for x := range q.r.TableSymbols {
		kind := "function"
		if x.Size == 0 {
			kind = "data"
		}
		if x.Module != "" {
			kind += " of " + x.Module
		}
		f.add(x.Name, x.Module, kind, x.Addr, x.Size)
	}
	for x := range q.r.Image.Symbols {
		kind := "out-of-line code"
		if x.Module == "bpf" {
			kind = "BPF"
		}
		f.add(x.Name, x.Module, kind, x.Addr, x.Size)
	}
	f.best()
	out := make([]foundRow, 0, len(f.hits))
	for _, h := range f.hits {
		row := foundRow{Name: h.name, Addr: hexAddr(h.addr), Kind: h.kind, Changes: h.changes, Last: seconds(h.last)}
		if h.size == 0 {
			row.Href = "/search?" + url.Values{"q": {h.name}}.Encode()
		} else {
			row.Href, row.At = q.codeLink(row.Addr, h.name, h.addr)
		}
		out = append(out, row)
	}
	return out, len(f.seen)
}

// near returns the longest word of text that is in the name of a symbol, the first 100 of these
// symbols, and how many there are. It tries the four longest words, of 4 letters or more.
func (q *request) near(text string) (word string, found []foundRow, n int) {
	words := strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	slices.SortStableFunc(words, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, word := range words[:min(4, len(words))] {
		if len(word) < 4 {
			break
		}
		if found, n = q.find(word, 100); n > 0 {
			return word, found, n
		}
	}
	return "", nil, 0
}

// suggest answers with names that contain what was typed, for the search box.
func (q *request) suggest() error {
	q.typ = "application/json"
	text := strings.TrimSpace(q.FormValue("q"))
	names := []map[string]any{}
	if len(text) >= 2 && q.wait(q.Context(), time.Second) {
		found, _ := q.find(text, 12)
		for _, f := range found {
			names = append(names, map[string]any{"name": f.Name, "changes": f.Changes, "kind": f.Kind})
		}
	}
	return q.json(names)
}
