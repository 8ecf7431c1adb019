// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A function is a function with its changes in a window of time.
type function struct {
	addr, size  uint64
	n, places   uint32
	first, last uint32 // changes, as indices of the columns
}

// A functionKey identifies a function of code that is loaded and unloaded. The functions of a
// module that was loaded twice at one address have one key each.
type functionKey struct {
	addr, size   uint64
	name, module string
}

// A functionFilter says which changes count.
type functionFilter struct {
	from, to uint64 // from <= time < to, in ns
	classes  uint64 // bit set of mechanisms, as in classNames
}

// functionsIn returns the functions that changes of the sites s0 to s1 are in, by address of
// their first site, and how many of these changes are at addresses without a name. A change
// belongs to the function that had its address at its time. If visit is not nil, it is
// called with each change.
func (s *session) functionsIn(f functionFilter, s0, s1 int, visit func(k, change int)) (out []function, nameless int) {
	t := s.trail
	textLo, textHi := s.r.Image.Text()
	dynamic := make(map[functionKey]int)
	lookups := 0
	symbol := func(addr uint64, i uint32) (timeline.Symbol, bool) {
		if lookups++; lookups%512 == 0 && s.large {
			s.r.Unload()
		}
		return s.r.Image.At(t.time[i]).Symbol(addr)
	}
	add := func(k int, i uint32, newPlace bool) {
		fn := &out[k]
		if fn.n == 0 {
			fn.first, fn.last = i, i
		}
		fn.n++
		if newPlace {
			fn.places++
		}
		fn.first, fn.last = min(fn.first, i), max(fn.last, i)
		if visit != nil {
			visit(k, int(i))
		}
	}
	core := -1 // the function of core kernel text that the last site was in
	for k := s0; k < s1; k++ {
		addr := t.sites[k].addr
		changes := t.ofSite(k, f.from, f.to)
		if f.classes != allClasses {
			changes = slices.DeleteFunc(slices.Clone(changes), func(i uint32) bool { return f.classes>>t.class[i]&1 == 0 })
		}
		if len(changes) == 0 {
			continue
		}
		if textLo <= addr && addr < textHi {
			// Names of core kernel text stay.
			if core < 0 || addr-out[core].addr >= out[core].size {
				sym, ok := symbol(addr, changes[0])
				if !ok {
					nameless += len(changes)
					continue
				}
				if core < 0 || out[core].addr != sym.Addr {
					core = len(out)
					out = append(out, function{addr: sym.Addr, size: sym.Size})
				}
			}
			for j, i := range changes {
				add(core, i, j == 0)
			}
			continue
		}
		at, ok := -1, false
		var sym timeline.Symbol
		var seen []int // functions that were at this place
		for _, i := range changes {
			if at < 0 || t.time[i] < sym.From || t.time[i] >= sym.To {
				at = -1
				if sym, ok = symbol(addr, i); !ok {
					nameless++
					continue
				}
				key := functionKey{sym.Addr, sym.Size, sym.Name, sym.Module}
				if at, ok = dynamic[key]; !ok {
					at = len(out)
					dynamic[key] = at
					out = append(out, function{addr: sym.Addr, size: sym.Size})
				}
			}
			isNew := !slices.Contains(seen, at)
			if isNew {
				seen = append(seen, at)
			}
			add(at, i, isNew)
		}
	}
	return out, nameless
}

const allClasses = ^uint64(0)

// nameOf returns the name of a function as of its last change.
func (s *session) nameOf(f *function) string {
	v := s.r.Image.At(s.trail.time[f.last])
	if sym, ok := v.Symbol(s.trail.sites[s.trail.site[f.last]].addr); ok {
		return symbolName(&sym)
	}
	return hexAddr(f.addr)
}

// placeText returns the place that the log's filter takes for a function: its name, or its
// addresses if the name means other code too.
func (s *session) placeText(name string, lo, hi uint64) string {
	if strings.HasPrefix(name, "0x") {
		return hexAddr(lo) + ".." + hexAddr(hi) // it has none
	}
	if named, err := s.text.Named(name); err == nil && s.isOnly(name, named, lo, hi) {
		return name
	}
	return hexAddr(lo) + ".." + hexAddr(hi)
}

// isOnly reports whether a name means the function [lo, hi) and nothing else, at no other time either.
func (s *session) isOnly(name string, named *NamedCode, lo, hi uint64) bool {
	for _, sym := range named.Symbols {
		if sym.Addr != lo || sym.Size != hi-lo {
			return false
		}
	}
	module, bare, qualified := timeline.SplitName(name)
	for _, table := range s.r.Image.NameTables() {
		for _, sym := range table.Lookup(bare) {
			if sym.Addr != lo && (!qualified || sym.Module == module) {
				return false
			}
		}
	}
	return true
}

// functionRows is how many functions a page lists.
const functionRows = 100

// A functionsPage lists the functions that changed.
type functionsPage struct {
	Name, From, To, T string
	Window            string // From and To in words
	Sort              string
	Reverse           bool
	Kinds             []choice
	Columns           []column
	Rows              []functionRow
	Total             int // functions
	Changes, Nameless int
	Page, First, Last int
	Prev, Next        string
	All               bool // no filter
	SearchLink        string
}

// A column is the head of a column. A click sorts by it.
type column struct {
	Name, Href string
	Num        bool
	Sorted     string // a value of aria-sort, "" if the table is not sorted by it
}

type functionRow struct {
	Name, Href, Addr string
	At               string // the time that Href leads to, if the function is not there at the kept one
	addr             uint64
	Places, Changes  int
	LogHref          string
	Kinds            []classCount
	Last, LastHref   string
	Writer           string
}

// usualOrder is the order of a URL that names none.
const usualOrder = "changes"

// functionOrders are the orders of the list, as the URL names them, in the order of the
// columns. down says that the greatest comes first.
var functionOrders = []struct {
	key, name string
	num, down bool
}{{"name", "Function", false, false}, {"changes", "Changes", true, true}, {"places", "Places", true, true}, {"last", "Last change", true, true}, {"address", "Address", false, false}}

func (q *request) functions() error {
	if !q.wait(q.Context(), 10*time.Second) {
		return q.notReady()
	}
	p := &functionsPage{Name: strings.TrimSpace(q.FormValue("name")), From: strings.TrimSpace(q.FormValue("from")), To: strings.TrimSpace(q.FormValue("to")),
		T: q.kept.text, Sort: cmp.Or(q.FormValue("sort"), usualOrder), Reverse: q.FormValue("reverse") != ""}
	kinds := q.Form["kind"]
	f, err := q.functionFilter(p, kinds)
	if err != nil {
		return err
	}
	page, err := q.pageNumber()
	if err != nil {
		return err
	}
	if err := q.session.fillFunctions(p, f, page); err != nil {
		return err
	}
	if p.T != "" {
		for i := range p.Rows {
			row := &p.Rows[i]
			row.Href, row.At = q.codeLink(row.Addr, row.Name, row.addr)
		}
	}
	p.All = p.Name == "" && p.From == "" && p.To == "" && len(kinds) == 0
	for _, o := range functionOrders {
		c := column{Name: o.name, Num: o.num, Href: p.link(kinds, o.key, false, 1)}
		if o.key == p.Sort {
			c.Href = p.link(kinds, o.key, !p.Reverse, 1)
			c.Sorted = "ascending"
			if o.down != p.Reverse {
				c.Sorted = "descending"
			}
		}
		p.Columns = append(p.Columns, c)
	}
	for _, name := range classNames {
		p.Kinds = append(p.Kinds, choice{name, name, slices.Contains(kinds, name)})
	}
	if p.Page > 1 {
		p.Prev = p.link(kinds, p.Sort, p.Reverse, p.Page-1)
	}
	if p.Last < p.Total {
		p.Next = p.link(kinds, p.Sort, p.Reverse, p.Page+1)
	}
	if p.Name != "" {
		v := url.Values{"q": {p.Name}}
		if p.T != "" {
			v.Set("t", p.T)
		}
		p.SearchLink = "/search?" + v.Encode()
	}
	return q.page("functions", "Functions", p)
}

// functionFilter returns what a request asks of the functions: changes of these kinds (none: all)
// in its window of time.
func (q *request) functionFilter(p *functionsPage, kinds []string) (f functionFilter, err error) {
	f.classes = allClasses
	if f.from, f.to, err = q.bounds(); err != nil {
		return f, err
	}
	p.Window = boundsText(f.from, f.to)
	if len(kinds) > 0 {
		f.classes = 0
	}
	for _, kind := range kinds {
		k := slices.Index(classNames, kind)
		if k < 0 {
			return f, &RequestError{fmt.Sprintf("kind %q: there is no such kind of change", kind)}
		}
		f.classes |= 1 << k
	}
	return f, nil
}

// link returns the address of the same list of functions in another order, or of another page of it.
func (p *functionsPage) link(kinds []string, sort string, reverse bool, page int) string {
	v := url.Values{"kind": kinds}
	for key, x := range map[string]string{"name": p.Name, "from": p.From, "to": p.To, "t": p.T} {
		if x != "" {
			v.Set(key, x)
		}
	}
	if sort != usualOrder {
		v.Set("sort", sort)
	}
	if reverse {
		v.Set("reverse", "1")
	}
	if page > 1 {
		v.Set("page", strconv.Itoa(page))
	}
	return (&url.URL{Path: "/functions", RawQuery: v.Encode()}).String()
}

// fillFunctions finds the functions of a page, and describes those that it lists.
func (s *session) fillFunctions(p *functionsPage, f functionFilter, page int) error {
	t := s.trail
	all, nameless := s.functionsIn(f, 0, len(t.sites), nil)
	if p.Name == "" {
		p.Nameless = nameless
	}
	var names []string // of all, if they are needed
	if p.Name != "" || p.Sort == "name" {
		names = make([]string, len(all))
		for i := range all {
			names[i] = s.nameOf(&all[i])
		}
	}
	var order []int32
	lower := strings.ToLower(p.Name)
	for i := range all {
		if p.Name == "" || indexFold(names[i], lower) >= 0 {
			order = append(order, int32(i))
			p.Changes += int(all[i].n)
		}
	}
	var by func(a, b int32) int
	address := func(a, b int32) int { return cmp.Compare(all[a].addr, all[b].addr) }
	switch p.Sort {
	case "changes":
		by = func(a, b int32) int { return cmp.Compare(all[b].n, all[a].n) }
	case "name":
		by = func(a, b int32) int { return strings.Compare(names[a], names[b]) }
	case "address":
		by = address
	case "places":
		by = func(a, b int32) int { return cmp.Compare(all[b].places, all[a].places) }
	case "last":
		by = func(a, b int32) int { return cmp.Compare(all[b].last, all[a].last) }
	default:
		return &RequestError{fmt.Sprintf("sort %q: there is no such order", p.Sort)}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Or(by(a, b), address(a, b)) })
	if p.Reverse {
		slices.Reverse(order)
	}
	p.Total = len(order)
	var lo, hi int
	p.Page, lo, hi = pageOf(page, functionRows, len(order))
	p.First, p.Last = min(lo+1, len(order)), hi
	for _, i := range order[lo:hi] {
		p.Rows = append(p.Rows, s.functionRow(p, f, &all[i]))
	}
	return nil
}

func (s *session) functionRow(p *functionsPage, f functionFilter, fn *function) functionRow {
	t := s.trail
	name, lastAt := s.nameOf(fn), t.time[fn.last]
	row := functionRow{Name: name, addr: fn.addr, Addr: hexAddr(fn.addr), Places: int(fn.places), Changes: int(fn.n),
		Last: replay.Seconds(lastAt), LastHref: addrLink(t.sites[t.site[fn.last]].addr, lastAt),
		Writer: orUnknown(t.writerOf(t.writer[fn.last]).String()), Href: addrLink(fn.addr, lastAt)}
	v := url.Values{"place": {s.placeText(name, fn.addr, fn.addr+max(fn.size, 1))}}
	for key, x := range map[string]string{"from": p.From, "to": p.To, "t": p.T} {
		if x != "" {
			v.Set(key, x)
		}
	}
	var n []int
	s0, s1 := t.sitesAround(fn.addr, fn.addr+max(fn.size, 1))
	per := make(map[int][]int)
	mine, _ := s.functionsIn(f, s0, s1, func(k, i int) {
		if per[k] == nil {
			per[k] = make([]int, len(classNames))
		}
		per[k][t.class[i]]++
	})
	for k := range mine {
		if m := &mine[k]; m.addr == fn.addr && m.size == fn.size && m.last == fn.last {
			n = per[k]
		}
	}
	for k, m := range n {
		if m > 0 {
			row.Kinds = append(row.Kinds, classCount{Class: k, Name: classNames[k], N: m})
		}
	}
	slices.SortStableFunc(row.Kinds, func(a, b classCount) int { return cmp.Compare(b.N, a.N) })
	for _, k := range row.Kinds {
		v.Add("kind", k.Name) // not the records that the function comes and goes
	}
	row.LogHref = "/log?" + v.Encode()
	return row
}
