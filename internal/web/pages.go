// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/textreplay/textreplay/internal/numbers"
	"github.com/textreplay/textreplay/internal/printable"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// pages returns the templates, by name. They are parsed when the first page is made: most
// commands make none.
var pages = sync.OnceValue(parsePages)

func parsePages() map[string]*template.Template {
	base := template.Must(template.New("").Funcs(template.FuncMap{
		"thousands": func(n any) string { return thousands(n) },
		"dict":      dict,
		"keep":      keep,
		"breakable": breakable,
	}).ParseFS(content, "templates/layout.html", "templates/parts.html"))
	out := make(map[string]*template.Template)
	files, err := fs.Glob(content, "templates/page-*.html")
	if err != nil {
		panic(err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(path.Base(file), "page-"), ".html")
		out[name] = template.Must(template.Must(base.Clone()).ParseFS(content, file))
	}
	return out
}

// breakable returns a name that a narrow column breaks before its offset, its module or its thread:
// "ttwu_do_wakeup+0x91", "insmod[572]".
func breakable(name string) template.HTML {
	return template.HTML(strings.NewReplacer("+", "<wbr>+", "[", "<wbr>[").Replace(template.HTMLEscapeString(name)))
}

// dict makes a map of names and values, so that a template can be given several.
func dict(pairs ...any) map[string]any {
	m := make(map[string]any)
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}

func (s *Server) routes() {
	s.mux = http.NewServeMux()
	s.mux.HandleFunc("/{$}", s.handle((*request).overview))
	s.mux.HandleFunc("/map", s.handle((*request).mapPage))
	s.mux.HandleFunc("/map/tile", s.handle((*request).mapTile))
	s.mux.HandleFunc("/map/names", s.handle((*request).mapNames))
	s.mux.HandleFunc("/map/pick", s.handle((*request).mapPick))
	s.mux.HandleFunc("/at", s.handle((*request).code))
	s.mux.HandleFunc("/functions", s.handle((*request).functions))
	s.mux.HandleFunc("/diff", s.handle((*request).diff))
	s.mux.HandleFunc("/log", s.handle((*request).log))
	s.mux.HandleFunc("/search", s.handle((*request).search))
	s.mux.HandleFunc("/suggest", s.handle((*request).suggest))
	s.mux.HandleFunc("/state", s.handle((*request).state))
	s.mux.HandleFunc(profilePath, s.serveProfile)
	s.mux.HandleFunc("/favicon.ico", func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) })
	static, err := fs.Sub(content, "static")
	if err != nil {
		panic(err)
	}
	files := http.StripPrefix("/static/", http.FileServerFS(static))
	s.mux.HandleFunc("/static/", func(w http.ResponseWriter, r *http.Request) {
		if !utf8.ValidString(r.URL.Path) { // which the library takes for a fault of the server
			http.NotFound(w, r)
			return
		}
		files.ServeHTTP(w, r)
	})
	s.mux.HandleFunc("/", s.handle(func(q *request) error {
		q.status = http.StatusNotFound
		return q.page("error", "Not found", &errorPage{Err: "There is no page " + q.URL.Path + "."})
	}))
}

// A layout is what the frame of a page needs.
type layout struct {
	Title, Page string
	Recording   string
	Query       string // of the search box
	T           string // the time that the page keeps
	Interval    string // the first and the last nanosecond of T, "" if it is exact
	Timeless    string // this page without it
	Nav         []navItem
	Number      int
	Live, Stale bool
	Pending     bool     // the page is not whole yet
	Missing     []string // what no page has
	Problem     string   // with the input
	Body        any
}

type navItem struct{ Name, Href, Page string }

type errorPage struct{ Err string }

// page writes a page with the template name to the body of the response. A time that cannot be read
// is an error of each page, whose links do not keep it.
func (q *request) page(name, title string, body any) error {
	if q.kept.err != nil && name != "error" {
		return q.kept.err
	}
	t := q.kept.text
	l := &layout{Title: title, Page: name, Recording: q.name(), Number: q.number, Live: q.srv.opts.Live,
		Stale: q.stale.Load(), Pending: q.early, Problem: q.srv.opts.Problem(), T: t, Interval: q.kept.interval(), Query: q.FormValue("q"), Body: body,
		Nav: []navItem{{"Overview", keep("/", t), "overview"}, {"Map", keep("/map", t), "map"}, {"Functions", keep("/functions", t), "functions"}, {"Log", keep("/log", t), "log"}, {"Diff", keep("/diff", t), "diff"}}}
	timeless := q.URL.Query()
	timeless.Del("t")
	timeless.Del("ns")
	timeless.Del("absent")
	l.Timeless = (&url.URL{Path: q.URL.Path, RawQuery: timeless.Encode()}).String()
	if q.r.Report.Records[recordSample] > 0 {
		l.Nav = append(l.Nav, navItem{"Profile", profilePath, "profile"})
	}
	if name == "log" {
		l.Query = ""
	}
	select {
	case <-q.ready:
		if q.session.err == nil {
			l.Missing = q.trail.missing()
		}
	default:
		l.Pending = true
	}
	return execute(&q.body, name, "layout", l)
}

// execute appends the template name of a page to out. What is not printed is escaped: names of a
// recording are chosen by others, and could reverse the direction of what follows them.
func execute(out *bytes.Buffer, page, name string, data any) error {
	var b bytes.Buffer
	if err := pages()[page].ExecuteTemplate(&b, name, data); err != nil {
		return err
	}
	out.Write(printable.Text(b.Bytes()))
	return nil
}

// json writes data for a script to the body of the response.
func (q *request) json(v any) error {
	q.typ = "application/json"
	return encodeJSON(&q.body, v)
}

func encodeJSON(w io.Writer, v any) error { return json.NewEncoder(w).Encode(v) }

// state answers with the number of the session. A page asks for it from time to time.
func (q *request) state() error {
	ready := false
	select {
	case <-q.ready:
		ready = true
	default:
	}
	return q.json(map[string]any{"number": q.number, "ready": ready, "live": q.srv.opts.Live, "problem": q.srv.opts.Problem()})
}

// pageNumber returns which page of a list the form asks for, from 1.
func (q *request) pageNumber() (int, error) {
	page, err := strconv.Atoi(cmp.Or(q.FormValue("page"), "1"))
	if err != nil || page < 1 {
		return 0, &RequestError{"page: want a number from 1"}
	}
	return page, nil
}

// pageOf returns the page of a list of n entries that is shown if page is asked for, which may be
// behind the last one. It has the entries [lo, hi), at most rows.
func pageOf(page, rows, n int) (shown, lo, hi int) {
	shown = min(page, max((n+rows-1)/rows, 1))
	lo = (shown - 1) * rows
	return shown, lo, min(lo+rows, n)
}

// isWhole reports whether the form asks for all of the recording.
func (q *request) isWhole() bool {
	return strings.TrimSpace(q.FormValue("from")) == "" && strings.TrimSpace(q.FormValue("to")) == ""
}

// keep returns a link of these pages with the time t that the page keeps, unless the link has a
// time of its own or t is "".
func keep(href, t string) string {
	path, query, _ := strings.Cut(href, "?")
	if v, err := url.ParseQuery(query); t == "" || path == "" || err != nil || v.Has("t") || v.Has("ns") {
		return href
	}
	if query != "" {
		query += "&"
	}
	return path + "?" + query + "t=" + url.QueryEscape(t)
}

// linkAt returns the link to the page of an address at a time, which is written as in a request.
func linkAt(addr uint64, when string) string {
	return "/at?addr=" + hexAddr(addr) + "&t=" + url.QueryEscape(when)
}

// addrLink returns the link to the page of an address at a time (ns).
func addrLink(addr, t uint64) string { return linkAt(addr, replay.Seconds(t)) }

func hexAddr(addr uint64) string { return "0x" + strconv.FormatUint(addr, 16) }

func dec(n uint64) string { return strconv.FormatUint(n, 10) }

// seconds returns a time (ns) in seconds; "" for 0 and timeline.MaxTime, which bound nothing.
func seconds(t uint64) string {
	if t == 0 || t == timeline.MaxTime {
		return ""
	}
	return replay.Seconds(t)
}

// span returns a length of time with a unit that suits it.
func span(ns uint64) string { return numbers.Span(ns, "µs") }

func thousands(n any) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// count returns a number with its unit, one or many.
func count[N int | uint32 | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return thousands(n) + " " + many
}

// spaced returns the first most bytes as objdump prints them, and how many there are if there
// are more.
func spaced(b []byte, most int) string {
	more := ""
	if len(b) > most {
		more = fmt.Sprintf(" … %d bytes", len(b))
		b = b[:most]
	}
	return strings.TrimSpace(fmt.Sprintf("% x", b)) + more
}

// placeName returns the name of an address without the purpose of the code there.
func placeName(v timeline.View, addr uint64) string {
	s, ok := v.Symbol(addr)
	if !ok {
		return hexAddr(addr)
	}
	if off := addr - s.Addr; off != 0 {
		s.Name += "+" + hexAddr(off)
	}
	return symbolName(&s)
}

// symbolName returns the name of a symbol with that of its module.
func symbolName(s *timeline.Symbol) string {
	if s.Module != "" && s.Module != "bpf" {
		return s.Name + " [" + s.Module + "]"
	}
	return s.Name
}
