// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/mechanism"
	"github.com/textreplay/textreplay/timeline/replay"
)

// plainText has the words of the tests.
type plainText struct {
	r   *replay.Replay
	dis *disasm.Disassembler
}

func (p plainText) Verdict() (string, string) { return "a verdict", "good" }

func (p plainText) Insts(v timeline.View, addr, n uint64, over []byte) (out []disasm.Inst) {
	code := make([]byte, n+14)
	code = code[:v.Read(addr, code).Given]
	if over != nil {
		code = over
	}
	for in := range p.dis.All(code, addr, nil) {
		if in.Addr >= addr+n {
			break
		}
		out = append(out, in)
	}
	return out
}

func (p plainText) Name(v timeline.View, addr uint64) string    { return placeName(v, addr) }
func (p plainText) Heading(v timeline.View, addr uint64) string { return placeName(v, addr) }
func (p plainText) Named(symbol string) (*NamedCode, error) {
	found := p.r.Image.At(p.r.Report.First).Lookup(symbol)
	if len(found) == 0 {
		return nil, &replay.QuestionError{Text: symbol, Msg: "no symbol of this name"}
	}
	module, bare, qualified := timeline.SplitName(symbol)
	return &NamedCode{found, func(v timeline.View, addr uint64, name string) bool {
		sym, ok := v.Symbol(addr)
		return name == bare || ok && sym.Name == bare && (!qualified || sym.Module == module)
	}}, nil
}

func (p plainText) Trap(v timeline.View, w *timeline.Window) string { return "a trap" }
func (p plainText) Diff(a, b replay.Times, s string, most int) (*Diff, error) {
	return &Diff{Summary: "a diff"}, nil
}

func load(t testing.TB, name string, opts replay.Options) *replay.Replay {
	t.Helper()
	r, err := replay.Load(name, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

func testdata(name string) string { return filepath.Join(corpus.Root(), "testdata", name, "rec.data") }

func serve(t testing.TB, name string) *Server {
	t.Helper()
	return serveFile(t, testdata(name))
}

func serveFile(t testing.TB, path string, opts ...replay.Options) *Server {
	t.Helper()
	s, err := New(Options{Open: func() (*Recording, error) {
		r, err := replay.Load(path, append(opts, replay.Options{})[0])
		if err != nil {
			return nil, err
		}
		dis, err := disasm.New(r.Machine(), r.Recording.ByteOrder())
		if err != nil {
			return nil, err
		}
		return &Recording{Replay: r, Text: plainText{r, dis}, Close: func() { r.Close() }}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.hosts = hostsOf(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}, nil)
	return s
}

func get(s *Server, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Host = "127.0.0.1:8080"
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

var recordings = []string{"small", "rich", "lossy", "smalldup", "z72", "hotplug", "modfull", "callgraph", "arm64", "ppc64le", "probe612"}

// TestMadeByWindow: what an explicit window made is not said to be made by the recorded change before it.
func TestMadeByWindow(t *testing.T) {
	const addr = uint64(0xffffffffaef63fa7)
	s := serveFile(t, testdata("small"), replay.Options{Explicit: []timeline.ExplicitWindow{
		{Addr: addr, From: 20e9, To: 21e9, Before: []byte{0x49, 0x89, 0xf4}, After: []byte{0xeb, 1, 0x90}}}})
	for at, want := range map[string]bool{"18.000000000": true, "20.500000000": false, "22.000000000": false, "26.000000000": true} {
		page := get(s, fmt.Sprintf("/at?addr=%#x&t=%s", addr, at)).Body.String()
		if !strings.Contains(page, "do_sys_openat2") || strings.Contains(page, "Made by") != want {
			t.Errorf("at %s: made by a recorded change: %v, want %v", at, !want, want)
		}
	}
}

// TestTrail: the columns have the pokes that Replay.Changes yields, with writer and bytes.
func TestTrail(t *testing.T) {
	for _, name := range recordings {
		t.Run(name, func(t *testing.T) {
			r := load(t, testdata(name), replay.Options{})
			tr, err := newTrail(r, usualLimits)
			if err != nil {
				t.Fatal(err)
			}
			rd := tr.reader()
			defer rd.close()
			i, events := 0, 0
			for c := range r.Changes() {
				if c.Poke == nil {
					e := &tr.events[events]
					if e.time != c.Time || (e.kind == eventLoss) != (c.Loss != nil) || (e.kind == eventSymbol) != (c.KSymbol != nil) {
						t.Fatalf("event %d is %+v, want %+v", events, e, c)
					}
					if c.KSymbol != nil && c.Time != 0 && tr.writerOf(e.writer).comm != c.Comm {
						t.Fatalf("event %d is of %q, want %q", events, tr.writerOf(e.writer), c.Comm)
					}
					events++
					continue
				}
				if i == len(tr.time) {
					t.Fatalf("there are only %d pokes", i)
				}
				got := rd.poke(i)
				if got.time != c.Time || got.addr != c.Poke.Addr || !bytes.Equal(got.old, c.Poke.Old) || !bytes.Equal(got.new, c.Poke.New) ||
					got.writer.comm != c.Comm || got.writer.tid != c.Poke.TID || uint32(got.cpu) != c.Poke.CPU || got.kind != c.Kind {
					t.Fatalf("poke %d is %+v, want %+v of %s at %d: %x %x", i, got, c.Poke.SampleID, c.Comm, c.Time, c.Poke.Old, c.Poke.New)
				}
				i++
			}
			if i != len(tr.time) || events != len(tr.events) {
				t.Errorf("%d pokes and %d events, want %d and %d", len(tr.time), len(tr.events), i, events)
			}
			n := 0
			for k := range tr.sites {
				last := -1
				for _, x := range tr.ofSite(k, 0, timeline.MaxTime) {
					if int(tr.site[x]) != k || int(x) <= last {
						t.Fatalf("site %d has poke %d", k, x)
					}
					last = int(x)
					n++
				}
			}
			if n != i {
				t.Errorf("the sites have %d pokes, want %d", n, i)
			}
		})
	}
}

// TestSites: the sites at an address are all that have a byte there, also a wide one that reaches over
// others behind it, as an ftrace trampoline does. The log of the address has their changes.
func TestSites(t *testing.T) {
	for _, name := range []string{"rich", "hotplug", "small"} {
		r := load(t, testdata(name), replay.Options{})
		tr, err := newTrail(r, usualLimits)
		if err != nil {
			t.Fatal(err)
		}
		s := &session{r: r, text: plainText{r: r}, trail: tr}
		over := 0
		for i := range tr.sites {
			lo := tr.sites[i].end() - 1
			var want []int
			for k := range tr.sites {
				if x := &tr.sites[k]; x.addr <= lo && lo < x.addr+uint64(x.size) {
					want = append(want, k)
				}
			}
			if got := slices.Collect(tr.sitesIn(lo, lo+1)); !slices.Equal(got, want) {
				t.Errorf("%s: at %#x are the sites %d, want %d", name, lo, got, want)
			}
			n := 0
			for _, k := range want {
				n += int(tr.first[k+1] - tr.first[k])
				if k < i {
					over++
				}
			}
			for _, sort := range []string{"", "place"} {
				f := &logFilter{to: timeline.MaxTime, place: hexAddr(lo), kinds: classNames, sort: sort}
				if err := f.prepare(s); err != nil {
					t.Fatal(err)
				}
				if got := len(f.selectFrom(s)); got != n {
					t.Errorf("%s: the log of %#x, sorted by %q, has %d changes, want %d", name, lo, sort, got, n)
				}
			}
		}
		if over == 0 && name == "rich" {
			t.Error("no site of this recording reaches over another one")
		}
	}
}

// TestTiles: a tile has each change of its part of the map once, in its cell.
func TestTiles(t *testing.T) {
	r := load(t, testdata("rich"), replay.Options{})
	tr, err := newTrail(r, usualLimits)
	if err != nil {
		t.Fatal(err)
	}
	x := newAxis(r.Image, tr.sites)
	p := newPlane(tr, x, r.Report.First, r.Report.Last)
	p.windows = r.Windows()
	for i := range tr.sites {
		if a := tr.sites[i].addr; x.addr(x.pos(a)) != a {
			t.Fatalf("%#x is at %d, where %#x is", a, x.pos(a), x.addr(x.pos(a)))
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	keys := []tileKey{{0, 0, 0, 0}}
	for range 300 {
		zx, zy := uint8(rng.IntN(14)), uint8(rng.IntN(14))
		i := rng.IntN(len(tr.time))
		// A tile that has a change.
		ix := uint64(float64(tr.time[i]-p.from) / float64(p.to-p.from) * float64(uint64(1)<<zx))
		iy := p.pos[tr.site[i]] * (1 << zy) / x.height
		keys = append(keys, tileKey{zx, zy, min(ix, 1<<zx-1), min(iy, 1<<zy-1)})
	}
	listed, drawn := 0, 0
	for _, k := range keys {
		if !k.valid() {
			t.Fatalf("%v", k)
		}
		t0, t1 := p.from+part(p.to-p.from, k.ix, k.zx), p.from+part(p.to-p.from, k.ix+1, k.zx)
		y0, y1 := part(x.height, k.iy, k.zy), part(x.height, k.iy+1, k.zy)
		var want []string
		cells := make(map[int]uint32)
		for i := range tr.time {
			y := p.pos[tr.site[i]]
			if tr.time[i] < t0 || tr.time[i] >= t1 && k.ix+1 != 1<<k.zx || y < y0 || y >= y1 {
				continue
			}
			want = append(want, fmt.Sprintf("%d %d", tr.time[i], y))
			c := 0
			for c < tileCells-1 && tr.time[i] >= p.from+part(p.to-p.from, k.ix*tileCells+uint64(c)+1, k.zx+7) {
				c++
			}
			cells[int((y-y0)*tileCells/(y1-y0))*tileCells+c]++
		}
		got := p.tile(k)
		if int(got.N) != len(want) {
			t.Fatalf("tile %v has %d changes, want %d", k, got.N, len(want))
		}
		if got != p.tile(k) {
			t.Fatalf("tile %v is not kept", k)
		}
		if got.N <= mostMarks {
			listed++
			var marks []string
			for _, m := range got.Marks {
				marks = append(marks, fmt.Sprintf("%s %d", m.Time, m.Pos))
			}
			slices.Sort(marks)
			slices.Sort(want)
			if !slices.Equal(marks, want) {
				t.Fatalf("tile %v lists other changes", k)
			}
			continue
		}
		drawn++
		b, err := base64.StdEncoding.DecodeString(got.Cells)
		if err != nil {
			t.Fatal(err)
		}
		cell := 0
		for len(b) > 0 {
			skip, shift := 0, 0
			for b[0]&128 != 0 {
				skip |= int(b[0]&127) << shift
				shift += 7
				b = b[1:]
			}
			cell += skip | int(b[0])<<shift
			if b[2] != level(cells[cell]) || cells[cell] == 0 {
				t.Fatalf("tile %v: cell %d has level %d, want that of %d", k, cell, b[2], cells[cell])
			}
			delete(cells, cell)
			cell++
			b = b[3:]
		}
		if len(cells) > 0 {
			t.Fatalf("tile %v lacks %d cells", k, len(cells))
		}
	}
	if listed < 20 || drawn < 20 {
		t.Errorf("%d tiles list their changes, %d do not", listed, drawn)
	}
}

// TestRefused: other sites, other names and other methods get nothing.
func TestRefused(t *testing.T) {
	s := serve(t, "small")
	for _, x := range []struct {
		name    string
		headers []string
		code    int
	}{
		{"plain", nil, 200},
		{"localhost", []string{"Host", "localhost:8080"}, 200},
		{"IPv6", []string{"Host", "[::1]:8080"}, 200},
		{"rebound name", []string{"Host", "evil.example:8080"}, 403},
		{"rebound name with our port missing", []string{"Host", "evil.example"}, 403},
		{"other port", []string{"Host", "127.0.0.1:8081"}, 403},
		{"other address", []string{"Host", "192.0.2.1:8080"}, 403},
		{"same origin", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		{"typed", []string{"Sec-Fetch-Site", "none"}, 200},
		{"cross-site fetch", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"}, 403},
		{"other port of this host", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"}, 403},
		{"frame", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403},
		{"link", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 200},
		{"origin", []string{"Origin", "http://evil.example"}, 403},
		{"own origin", []string{"Origin", "http://127.0.0.1:8080"}, 200},
		{"null origin", []string{"Origin", "null"}, 403},
		{"the address in other words", []string{"Host", "127.1:8080"}, 403},
		{"the address as a number", []string{"Host", "2130706433:8080"}, 403},
		{"the address of any", []string{"Host", "0.0.0.0:8080"}, 403},
		{"the address inside IPv6", []string{"Host", "[::ffff:127.0.0.1]:8080"}, 403},
		{"IPv6 with a zone", []string{"Host", "[::1%25lo]:8080"}, 403},
		{"IPv6, other port", []string{"Host", "[::1]:8081"}, 403},
		{"localhost, other port", []string{"Host", "localhost:8081"}, 403},
		{"localhost without a port", []string{"Host", "localhost"}, 403},
		{"localhost in capitals", []string{"Host", "LOCALHOST:8080"}, 200},
		{"a name that ends with ours", []string{"Host", "127.0.0.1.evil.example:8080"}, 403},
		{"a name that begins with ours", []string{"Host", "localhost.evil.example:8080"}, 403},
		{"a user before the name", []string{"Host", "localhost:8080@evil.example:8080"}, 403},
		{"no name", []string{"Host", ""}, 403},
		{"only a port", []string{"Host", ":8080"}, 403},
		{"origin of another port", []string{"Origin", "http://localhost:8081"}, 403},
		{"origin with TLS", []string{"Origin", "https://127.0.0.1:8080"}, 403},
		{"origin of a file", []string{"Origin", "file://"}, 403},
		{"origin that begins with ours", []string{"Origin", "http://127.0.0.1:8080.evil.example"}, 403},
		{"origin by our other name", []string{"Origin", "http://localhost:8080"}, 403},
		{"rebound name that says it is ours", []string{"Host", "evil.example:8080", "Origin", "http://127.0.0.1:8080", "Sec-Fetch-Site", "same-origin"}, 403},
		{"a word for the site that we do not know", []string{"Sec-Fetch-Site", "SAME-ORIGIN"}, 403},
		{"object", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "object"}, 403},
	} {
		for _, path := range []string{"/", "/log", "/map/tile?zx=0&zy=0&x=0&y=0", "/static/app.js", "/profile/"} {
			code := get(s, path, x.headers...).Code
			if path == "/profile/" && code == http.StatusSeeOther {
				code = 200 // to the first of pprof's pages
			}
			if code != x.code {
				t.Errorf("%s: %s: %d, want %d", x.name, path, code, x.code)
			}
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS"} {
		r := httptest.NewRequest(method, "/", nil)
		r.Host = "127.0.0.1:8080"
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
	h := get(s, "/").Header()
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer",
	} {
		if h.Get(name) != want {
			t.Errorf("%s: %q, want %q", name, h.Get(name), want)
		}
	}
	if h.Get("Access-Control-Allow-Origin") != "" || !strings.HasPrefix(h.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("headers %v", h)
	}
	all := hostsOf(&net.TCPAddr{IP: net.IPv4zero, Port: 80}, nil)
	if !all.allows("192.0.2.1") || all.allows("evil.example") || all.allows("192.0.2.1:81") {
		t.Error("a server of all addresses")
	}
}

// TestBadRequests: what cannot be asked is answered with an error, and never with a panic.
func TestBadRequests(t *testing.T) {
	s := serve(t, "small")
	for _, path := range []string{
		"/at", "/at?addr=nosuch", "/at?addr=vfs_read&t=yesterday", "/log?from=x", "/log?page=0", "/log?page=99999999999999999999", "/log?kind=nosuch", "/log?sort=nosuch",
		"/log?from=9&to=8", "/log?place=0x20..0x10", "/log?place=0x20..nosuch", "/log?place=0x20,0x10", "/log?place=nosuch", "/log?place=nosuch%2B4", "/log?place=0xzz", "/log?place=sysctl_schedstats%2B0x41,nosuch", "/functions?sort=nosuch", "/functions?kind=nosuch", "/functions?page=0", "/functions?from=9&to=8", "/map?y0=-1", "/map/tile", "/map/tile?zx=99&zy=0&x=0&y=0", "/map/tile?zx=1&zy=0&x=2&y=0", "/map/names?p=a",
		"/map/pick?t=1", "/map/pick?t=1&y=1&t0=5&t1=5&y0=1&y1=2", "/diff?from=zz&to=9", "/map?addr=nosuch", "/at?addr=0x0&ns=zz",
	} {
		if w := get(s, path); w.Code != http.StatusBadRequest {
			t.Errorf("%s: %d, want 400: %.200s", path, w.Code, w.Body)
		}
	}
	for _, path := range []string{
		"/at?addr=0x0", "/at?addr=0xffffffffffffffff", "/at?addr=0xffffffffffffffff&ns=18446744073709551615", "/log?page=1000000", "/search?q=%ff%fe", "/search?q=0x1",
		"/map/names?p=18446744073709551615", "/map/pick?t=18446744073709551615&y=18446744073709551615&t0=0&t1=18446744073709551615&y0=0&y1=18446744073709551615",
		"/map?y0=18446744073709551615&y1=0", "/map/tile?zx=40&zy=40&x=1099511627775&y=1099511627775", "/map/tile?zx=40&zy=40&x=0&y=0", "/suggest?q=%25", "/log?sort=nosuch", "/log?to=0", "/functions?page=99999999", "/functions?name=%ff%3C",
	} {
		if w := get(s, path); w.Code >= 500 {
			t.Errorf("%s: %d: %.200s", path, w.Code, w.Body)
		}
	}
	if w := get(s, "/nosuch"); w.Code != http.StatusNotFound {
		t.Errorf("/nosuch: %d", w.Code)
	}
	if w := get(s, "/search?q=%3Cscript%3Ealert(1)%3C/script%3E"); strings.Contains(w.Body.String(), "<script>alert") {
		t.Error("a search is not escaped")
	}
}

// TestPageBehindTheLast: a page behind the last one is the last one, however large its number.
func TestPageBehindTheLast(t *testing.T) {
	s := serve(t, "rich")
	total := regexp.MustCompile(`id="total" data-total="([0-9]+)"`)
	for path, rows := range map[string]int{"/log": logRows, "/functions": functionRows} {
		n, err := strconv.Atoi(total.FindStringSubmatch(get(s, path).Body.String())[1])
		if err != nil || n <= rows {
			t.Fatalf("%s lists %d: %v", path, n, err)
		}
		last := (n + rows - 1) / rows
		want := get(s, fmt.Sprintf("%s?page=%d", path, last)).Body.String()
		if !strings.Contains(want, fmt.Sprintf("%s of %s", thousands(n), thousands(n))) || strings.Contains(want, `rel="next"`) {
			t.Errorf("page %d of %s is not the last", last, path)
		}
		for _, page := range []string{strconv.Itoa(last + 1), "92233720368547759", "184467440737095517", "9223372036854775807"} {
			if got := get(s, path+"?page="+page).Body.String(); got != want {
				t.Errorf("%s?page=%s is not page %d", path, page, last)
			}
		}
	}
}

// TestFunctions: the list has each function with the changes that were made in it, whatever
// the order, the page and the filter.
func TestFunctions(t *testing.T) {
	for _, name := range recordings {
		t.Run(name, func(t *testing.T) {
			s := serve(t, name)
			<-s.current.ready
			r := s.current.r
			middle := (r.Report.First + r.Report.Last) / 2
			for _, f := range []functionFilter{{0, timeline.MaxTime, allClasses}, {middle, timeline.MaxTime, allClasses}, {0, middle, 1 | 2}} {
				type want struct {
					n           int
					first, last uint64
					places      map[uint64]bool
				}
				functions := make(map[functionKey]*want)
				by := mechanism.NewClassifier(r, nil)
				total, nameless := 0, 0
				for c := range r.Changes() {
					if c.Poke == nil || f.classes>>by.Of(c)&1 == 0 || c.Time < f.from || c.Time >= f.to {
						continue
					}
					sym, ok := r.Image.At(c.Time).Symbol(c.Poke.Addr)
					if !ok {
						nameless++
						continue
					}
					key := functionKey{sym.Addr, sym.Size, sym.Name, sym.Module}
					w := functions[key]
					if w == nil {
						w = &want{first: c.Time, places: make(map[uint64]bool)}
						functions[key] = w
					}
					w.n++
					w.last = c.Time
					w.places[c.Poke.Addr] = true
					total++
				}
				got, none := s.current.functionsIn(f, 0, len(s.current.trail.sites), nil)
				if len(got) != len(functions) || none != nameless {
					t.Fatalf("%d functions, %d changes without one, want %d and %d", len(got), none, len(functions), nameless)
				}
				tr := s.current.trail
				for i := range got {
					x := &got[i]
					sym, _ := r.Image.At(tr.time[x.last]).Symbol(tr.sites[tr.site[x.last]].addr)
					w := functions[functionKey{x.addr, x.size, sym.Name, sym.Module}]
					if w == nil || w.n != int(x.n) || w.first != tr.time[x.first] || w.last != tr.time[x.last] || len(w.places) != int(x.places) {
						t.Errorf("%s at %#x is %+v, want %+v", sym.Name, x.addr, x, w)
					}
				}
				// The pages together have each function once, in order.
				for _, sort := range []string{"changes", "name", "address", "places", "last"} {
					for _, reverse := range []bool{false, true} {
						var rows []functionRow
						for page := 1; len(rows) < len(functions); page++ {
							p := &functionsPage{Sort: sort, Reverse: reverse}
							if err := s.current.fillFunctions(p, f, page); err != nil {
								t.Fatal(err)
							}
							if len(p.Rows) == 0 || p.Total != len(functions) || p.Changes != total {
								t.Fatalf("%s: page %d has %d of %d functions with %d changes, want %d with %d", sort, page, len(p.Rows), p.Total, p.Changes, len(functions), total)
							}
							rows = append(rows, p.Rows...)
						}
						seen := make(map[string]bool)
						for i := range rows {
							x := &rows[i]
							id := x.Addr + x.Name + strconv.Itoa(x.Places) + x.Last
							if seen[id] {
								t.Errorf("%s: %s twice", sort, id)
							}
							seen[id] = true
							kinds := 0
							for _, k := range x.Kinds {
								kinds += k.N
							}
							if kinds != x.Changes {
								t.Errorf("%s: %s has %d changes, its kinds have %d", sort, x.Name, x.Changes, kinds)
							}
							if i == 0 {
								continue
							}
							a, b := rows[i-1], rows[i]
							if reverse {
								a, b = b, a
							}
							inOrder := map[string]bool{"changes": a.Changes >= b.Changes, "name": a.Name <= b.Name, "address": a.Addr <= b.Addr || len(a.Addr) < len(b.Addr),
								"places": a.Places >= b.Places, "last": a.Last >= b.Last || len(a.Last) > len(b.Last)}
							if !inOrder[sort] {
								t.Errorf("%s: %+v is before %+v", sort, a, b)
							}
						}
					}
				}
			}
		})
	}
}

// TestReferencesARM64: an address that is made by ADRP and up to two ADDs, or the offset of a
// load, is found; others are not.
func TestReferencesARM64(t *testing.T) {
	// From a kernel: adrp x0, ffff800082a45000; add x0, x0, #0x5c0; add x0, x0, #0x2d8;
	// bl; nop; adrp x1, ffff800082a45000; ldr w2, [x1, #0x18]
	code := []byte{0xa0, 0x4a, 0x01, 0xf0, 0x00, 0x00, 0x17, 0x91, 0x00, 0x60, 0x0b, 0x91, 0x67, 0xa0, 0x08, 0x94, 0x1f, 0x20, 0x03, 0xd5,
		0xa1, 0x4a, 0x01, 0xf0, 0x22, 0x18, 0x40, 0xb9}
	const at = 0xffff8000800ee148
	for addr, want := range map[uint64][]uint64{
		0xffff800082a45898: {at}, 0xffff800082a455c0: {at}, 0xffff800082a45018: {at + 20},
		0xffff800082a45000: nil, 0xffff800082a452d8: nil, 0xffff800082a46898: nil, 0xffff800082a44898: nil,
	} {
		if got := referencesARM64(nil, code, len(code), at, addr); !slices.Equal(got, want) {
			t.Errorf("%#x is used at %#x, want %#x", addr, got, want)
		}
	}
	if got := referencesARM64(nil, code, 20, at, 0xffff800082a45018); got != nil {
		t.Errorf("a place outside of the piece: %#x", got)
	}
}

// TestFunctionLinks: the number of changes of a function leads to as many rows of the log, also
// where its name means another one too, or means it only later.
func TestFunctionLinks(t *testing.T) {
	row := regexp.MustCompile(`<td class="num right"><a href="(/log[^"]*)" aria-label="([0-9,]+) changes of ([^"]+) in the log">.*?<td class="code">0x([0-9a-f]+)</td>`)
	total := regexp.MustCompile(`id="total" data-total="([0-9]+)"`)
	for _, name := range recordings {
		s := serve(t, name)
		<-s.current.ready
		for _, query := range []string{"/functions", "/functions?sort=name&reverse=1", "/functions?from=30%25&to=70%25", "/functions?kind=static-key", "/functions?name=a&t=50%25"} {
			page := get(s, query).Body.String()
			links := row.FindAllStringSubmatch(page, 25)
			for _, m := range links {
				log := get(s, html.UnescapeString(m[1]))
				n := total.FindStringSubmatch(log.Body.String())
				if log.Code != http.StatusOK || n == nil {
					t.Fatalf("%s: %s: %s: %d %.300s", name, query, m[1], log.Code, log.Body)
				}
				got, _ := strconv.Atoi(n[1])
				want, _ := strconv.Atoi(strings.ReplaceAll(m[2], ",", ""))
				addr, _ := strconv.ParseUint(m[4], 16, 64)
				// Elsewhere other code may have been at the same addresses.
				if lo, hi := s.current.r.Image.Text(); got != want && (got < want || lo <= addr && addr < hi) {
					t.Errorf("%s: %s: %s has %d changes, %s has %d", name, query, m[3], want, m[1], got)
				}
			}
			if len(links) == 0 && name == "small" {
				t.Errorf("%s: %s has no links", name, query)
			}
		}
	}
	s := serve(t, "small")
	page := get(s, "/functions?name=schedstats").Body.String()
	for _, want := range []string{`<a href="/at?addr=0xffffffffaecdbc70`, "sysctl_schedstats", "static-key", "scenario.sh[124]", "12.798417205", `aria-sort="descending"`, "all names with “schedstats”"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in the list:\n%s", want, page)
		}
	}
}

// TestChangedNow: an instruction is marked as changed if its bytes are others than before, not
// where it is known from then on; and the time that a page keeps is in its head.
func TestChangedNow(t *testing.T) {
	s := serve(t, "small")
	for _, c := range []struct {
		query string
		marks int
	}{
		{"?addr=sysctl_schedstats", 0},
		{"?addr=sysctl_schedstats&t=8.913926695", 1},
		{"?addr=sysctl_schedstats&t=8.913926696", 0},
		{"?addr=bpf_prog_b19c858917c4054c_socket_3&t=18.134851735", 1},
	} {
		page := get(s, "/at"+c.query).Body.String()
		if got := strings.Count(page, "changed now"); got != c.marks && (c.marks == 0 || got == 0) {
			t.Errorf("%s has %d instructions that changed now, want %d", c.query, got, c.marks)
		}
		if kept := strings.Contains(page, `class="kept"`); kept != strings.Contains(c.query, "t=") {
			t.Errorf("%s: kept is %t", c.query, kept)
		}
	}
	if page := get(s, "/at?addr=sysctl_schedstats&t=8.913926695").Body.String(); !strings.Contains(page, `at 8.913926695 <a href="/at?addr=sysctl_schedstats"`) {
		t.Error("no link to the page without its time")
	}
}

// TestPages: every page of every recording is served, is not large, and has no reference to
// another host.
func TestPages(t *testing.T) {
	for _, name := range recordings {
		t.Run(name, func(t *testing.T) {
			s := serve(t, name)
			<-s.current.ready
			paths := []string{"/", "/map", "/map?from=25%25&to=75%25", "/log", "/log?sort=place", "/log?sort=writer", "/log?sort=newest", "/functions", "/functions?sort=name&page=2&from=25%25&to=75%25&name=s", "/diff", "/diff?from=start&to=end", "/search?q=a",
				"/suggest?q=sys", "/state", "/map/tile?zx=0&zy=0&x=0&y=0", "/?from=25%25&to=75%25"}
			tr := s.current.trail
			for i := 0; i < len(tr.sites); i += len(tr.sites)/6 + 1 {
				paths = append(paths, "/at?addr="+hexAddr(tr.sites[i].addr)+"&t=50%25")
			}
			for _, path := range paths {
				w := get(s, path)
				body := w.Body.String()
				if w.Code != http.StatusOK || len(body) > mostResponse {
					t.Errorf("%s: %d, %d bytes: %.300s", path, w.Code, len(body), body)
				}
				for _, link := range []string{"src=\"http", "href=\"http", "src=\"//", "href=\"//"} {
					if strings.Contains(body, link) {
						t.Errorf("%s refers to another host", path)
					}
				}
				if strings.Contains(body, "ZgotmplZ") {
					t.Errorf("%s: a template refused a value", path)
				}
			}
			var state struct {
				Ready  bool
				Number int
			}
			if err := json.Unmarshal(get(s, "/state").Body.Bytes(), &state); err != nil || !state.Ready || state.Number != 1 {
				t.Errorf("state %+v: %v", state, err)
			}
		})
	}
}
