// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/pprof/profile"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// TestKeptTime: from a page that keeps a time, each link and form leads to a page that keeps one.
func TestKeptTime(t *testing.T) {
	const kept = "12.900000000"
	link := regexp.MustCompile(`<a [^>]*href="([^"]+)"[^>]*>`)
	form := regexp.MustCompile(`(?s)<form.*?</form>`)
	s := serve(t, "small")
	<-s.current.ready
	for _, path := range []string{
		"/?", "/?from=12&to=14&", "/map?", "/map?from=12&to=14&", "/functions?", "/functions?name=sched&kind=static-key&", "/log?", "/log?from=12&", "/log?place=sysctl_schedstats&page=1&",
		"/log?place=0xffffffffaecdbcb1&from=20&", "/log?kind=ftrace&sort=newest&page=2&", "/diff?", "/diff?from=12&to=14&", "/search?q=sched&", "/search?q=sched_schedstats&", "/search?q=no_such_name&", "/at?addr=sysctl_schedstats&",
	} {
		w := get(s, path+"t="+kept)
		page := w.Body.String()
		if w.Code != 200 {
			t.Fatalf("%s: %d", path, w.Code)
		}
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			u, err := url.Parse(html.UnescapeString(m[1]))
			if err != nil {
				t.Fatal(err)
			}
			// The link that forgets the time, what has no time, and pprof's pages.
			if strings.Contains(m[0], "Forget") || u.Path == "" || u.Path == profilePath {
				continue
			}
			if u.Query().Get("t") == "" {
				t.Errorf("%s has a link without a time: %s", path, m[0])
			}
		}
		for _, f := range form.FindAllString(page, -1) {
			if !strings.Contains(f, `name="t" value="`+kept+`"`) {
				t.Errorf("%s has a form without the time: %.200s", path, f)
			}
		}
	}
	if page := get(s, "/log?from=12").Body.String(); strings.Contains(page, `name="t"`) || !strings.Contains(page, `<a href="/map">`) {
		t.Error("a page without a time keeps one")
	}
}

// TestLogShowsLosses: no filter of time or writer hides a loss that may have been of what it asks for.
func TestLogShowsLosses(t *testing.T) {
	s := serve(t, "lossy")
	<-s.current.ready
	const loss = ">10.105939560<" // from 10.049 on
	for query, want := range map[string]bool{"from=10&to=10.11": true, "from=10.1&to=10.102": true, "from=10.1&to=10.102&by=nobody": true,
		"from=10.11": false, "from=9&to=10.04": false, "from=10.1&to=10.102&kind=ftrace": false} {
		if got := strings.Contains(get(s, "/log?"+query).Body.String(), loss); got != want {
			t.Errorf("%s: the loss is shown: %t", query, got)
		}
	}
}

// TestClear: a filter can be cleared, also one of only a time.
func TestClear(t *testing.T) {
	s := serve(t, "small")
	for _, page := range []string{"/log", "/functions"} {
		for query, want := range map[string]bool{"": false, "?t=12.9": false, "?from=12": true, "?to=14": true, "?kind=static-key": true} {
			if got := strings.Contains(get(s, page+query).Body.String(), ">clear</a>"); got != want {
				t.Errorf("%s%s: clear is %t", page, query, got)
			}
		}
	}
}

// TestParts: the parts of a large function have its instructions, each once, and each refers to
// the next and to the one before.
func TestParts(t *testing.T) {
	for _, name := range []string{"small", "rich", "arm64"} {
		s := serve(t, name)
		<-s.current.ready
		ses, n := s.current, 0
		for _, at := range []uint64{s.current.r.Report.First, (s.current.r.Report.First + s.current.r.Report.Last) / 2} {
			v := ses.r.Image.At(at)
			for sym := range ses.r.TableSymbols {
				if sym.Size <= mostCode || sym.Size > 1<<15 || n > 10 {
					continue
				}
				whole := &codePage{}
				ses.addRows(whole, v, at, sym.Addr, sym.Addr, sym.Addr+sym.Size, sym.Addr)
				var rows []codeRow
				earlier := ""
				for addr := sym.Addr; ; {
					p := ses.codeOf(addr, replay.Times{From: at, To: at}, "", false)
					if p.Earlier != earlier && (p.Earlier == "" || earlier == "") {
						t.Fatalf("%s at %#x: the part before is %q, want %q", sym.Name, addr, p.Earlier, earlier)
					}
					rows = append(rows, p.Rows...)
					if p.Later == "" {
						break
					}
					u, err := url.Parse(p.Later)
					if err != nil {
						t.Fatal(err)
					}
					if addr, err = ses.r.ParseAddr(u.Query().Get("addr"), at); err != nil {
						t.Fatal(err)
					}
					earlier = addrLink(addr-1, at)
					if back := ses.codeOf(addr-1, replay.Times{From: at, To: at}, "", false); len(back.Rows) == 0 || back.Rows[0].Addr != p.Rows[0].Addr || back.Later != p.Later {
						t.Fatalf("%s: the part before %#x is not the one from which the link came", sym.Name, addr)
					}
				}
				join := func(rows []codeRow) (out []string) {
					for i := range rows {
						if r := &rows[i]; r.Bytes != "" {
							out = append(out, r.Addr+" "+r.Bytes)
						}
					}
					return out
				}
				got, want := join(rows), join(whole.Rows)
				for i := range want {
					if i >= len(got) || got[i] != want[i] {
						t.Fatalf("%s %s: instruction %d of the parts is another one than %s", name, sym.Name, i, want[i])
					}
				}
				if len(want) > 0 {
					n++
				}
			}
		}
		if n == 0 && name != "arm64" {
			t.Errorf("%s has no large function", name)
		}
	}
}

// manyTimes serves the recording of a function whose first instruction is changed n times, to
// another content each time.
func manyTimes(t *testing.T, n int) *Server {
	const addr = genperf.TextAddr
	text := append([]byte{0x0f, 0x1f, 0x44, 0, 0, 0xc3}, make([]byte, 4090)...)
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.12.0", Order: binary.LittleEndian, Addr: addr, Text: text, CPUs: 1,
		Symbols: []kcore.ELFSymbol{{Addr: addr, Size: 6, Name: "f"}, {Addr: addr + 6, Size: 4090, Name: "g"}}}
	dir := filepath.Join(t.TempDir(), "rec.data")
	w, err := k.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	before := text[:5]
	for i := range n {
		after := []byte{0xe8, byte(i), byte(i >> 8), 0, 0}
		if err := w.Poke(2e9+uint64(i)*1e6, addr, before, after); err != nil {
			t.Fatal(err)
		}
		before = after
	}
	if err := w.End(3e9 + uint64(n)*1e6); err != nil {
		t.Fatal(err)
	}
	s := serveFile(t, dir)
	<-s.current.ready
	return s
}

// TestManyContents: the page of a place counts the contents that it does not list, and lists the
// one that is there.
func TestManyContents(t *testing.T) {
	s := manyTimes(t, 30)
	page := get(s, fmt.Sprintf("/at?addr=%#x&t=2.020500000", uint64(genperf.TextAddr))).Body.String()
	now := regexp.MustCompile(`<div class="content now"><p class="code"><b>([^<]*)</b></p><p class="code">([^<]*)</p>`).FindStringSubmatch(page)
	if now == nil || now[2] != "e8 14 00 00 00" {
		t.Errorf("there now: %q", now)
	}
	if !strings.Contains(page, "Other contents: 23 versions, 1.02 s in all") {
		t.Errorf("the other contents are not counted: %s", regexp.MustCompile("Other contents.{60}").FindString(page))
	}
	if got := strings.Count(page, "<tr class=\"now\">"); got != 1 {
		t.Errorf("%d versions are there now", got)
	}
	if !strings.Contains(page, "e8 15 00 00 00") || !strings.Contains(page, "23 of 33 versions") {
		t.Errorf("the versions around the time are not listed: %s", regexp.MustCompile("[0-9]+ of [0-9]+ versions").FindString(page))
	}
}

// TestMissing: every page says what it leaves out because there is too much of it.
func TestMissing(t *testing.T) {
	usual := usualLimits
	t.Cleanup(func() { usualLimits = usual })
	for _, c := range []struct {
		name   string
		limits trailLimits
		want   []string
	}{
		{"small", trailLimits{pokes: 500, events: 2, probed: mostProbed, writers: 1},
			[]string{"42 more text pokes than these pages can hold", "4 more symbols and BPF programs than", "changes are by an unknown writer here"}},
		{"probe612", trailLimits{pokes: mostPokes, events: mostEvents, probed: 100, writers: someone}, []string{"more text pokes than these pages can hold"}},
		{"small", usual, nil},
	} {
		usualLimits = c.limits
		s := serve(t, c.name)
		<-s.current.ready
		for _, path := range []string{"/", "/log", "/map", "/functions", "/diff"} {
			page := get(s, path).Body.String()
			for _, want := range c.want {
				if !strings.Contains(page, want) {
					t.Errorf("%s of %s does not say %q", path, c.name, want)
				}
			}
			if got := strings.Contains(page, "these pages can"); got != (c.want != nil) {
				t.Errorf("%s of %s: something is missing: %t", path, c.name, got)
			}
		}
		var report strings.Builder
		if err := func() error {
			r := load(t, testdata(c.name), replay.Options{})
			dis, err := disasm.New(r.Machine(), r.Recording.ByteOrder())
			if err != nil {
				return err
			}
			_, err = WriteReport(&report, &Recording{Replay: r, Text: plainText{r, dis}, Close: func() {}}, ReportOptions{To: timeline.MaxTime})
			return err
		}(); err != nil {
			t.Fatal(err)
		}
		for _, want := range c.want {
			if !strings.Contains(report.String(), want) {
				t.Errorf("the report of %s does not say %q", c.name, want)
			}
		}
	}
}

// TestProblem: each page shows what is wrong with the input.
func TestProblem(t *testing.T) {
	s := serve(t, "small")
	s.opts.Problem = func() string { return "it broke" }
	for _, path := range []string{"/", "/log", "/state"} {
		if !strings.Contains(get(s, path).Body.String(), "it broke") {
			t.Errorf("%s does not say so", path)
		}
	}
}

// TestEarly: a page that was made before all changes were read is pending, also if they have been
// read by the time when its frame is written. Otherwise it would never become whole.
func TestEarly(t *testing.T) {
	s := serve(t, "small")
	ses, err := s.acquire()
	if err != nil {
		t.Fatal(err)
	}
	defer ses.refs.Done()
	<-ses.ready
	from, to := ses.extent()
	for _, read := range []bool{false, true} { // by the time when the page is made
		ses.ready = make(chan struct{})
		if read {
			close(ses.ready)
		}
		q := &request{Request: httptest.NewRequest(http.MethodGet, "/", nil), session: ses, srv: s}
		ready := q.wait(t.Context(), 0)
		if !read {
			close(ses.ready)
		}
		if err := q.page("overview", "Overview", ses.overviewOf(from, to, true, ready)); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("data-pending=%q", strconv.FormatBool(!read)); !strings.Contains(q.body.String(), want) {
			t.Errorf("read before: %t: not %s", read, want)
		}
	}
}

// TestChangedWhileRead: what came while the recording was read is shown later, also if it was the
// last that came. Another file in its place is read, even if it has the same size and time.
func TestChangedWhileRead(t *testing.T) {
	rec := filepath.Join(t.TempDir(), "rec.data")
	if err := os.CopyFS(rec, os.DirFS(testdata("small"))); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(rec, "data")
	whole, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, b []byte) {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Error(err)
		}
	}
	write(data, whole[:len(whole)/2])
	first := true
	s, err := New(Options{Open: func() (*Recording, error) {
		r, err := replay.Load(rec, replay.Options{})
		if err != nil {
			return nil, err
		}
		if first {
			first = false
			write(data, whole)
		}
		dis, err := disasm.New(r.Machine(), r.Recording.ByteOrder())
		return &Recording{Replay: r, Text: plainText{r, dis}, Close: func() { r.Close() }}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	shows := func(number int) bool {
		ses, err := s.acquire()
		if err != nil {
			t.Fatal(err)
		}
		defer ses.refs.Done()
		return ses.number >= number && ses.r.Recording.Size() == int64(len(whole))
	}
	wait := func(what string, number int) {
		for began := time.Now(); !shows(number); time.Sleep(50 * time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatal(what)
			}
		}
	}
	wait("the end of the recording is not shown", 2)

	old, err := os.Stat(data)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(rec, "other")
	write(other, whole)
	if err := errors.Join(os.Chtimes(other, time.Time{}, old.ModTime()), os.Rename(other, data)); err != nil {
		t.Fatal(err)
	}
	wait("the other file is not shown", 3)

	// A file that cannot be read leaves what was read before, and a note until the file is back.
	isStale := func() bool {
		ses, err := s.acquire()
		if err != nil {
			t.Fatal(err)
		}
		defer ses.refs.Done()
		return ses.stale.Load()
	}
	if err := os.Rename(data, other); err != nil {
		t.Fatal(err)
	}
	for _, stale := range []bool{true, false} {
		if stale {
			write(data, []byte("no recording"))
		} else if err := os.Rename(other, data); err != nil {
			t.Fatal(err)
		}
		for began := time.Now(); isStale() != stale; time.Sleep(50 * time.Millisecond) {
			if time.Since(began) > time.Minute {
				t.Fatalf("stale is %v", !stale)
			}
		}
	}
}

// TestNotPrinted: pages and reports are UTF-8, and names reverse no text behind them.
func TestNotPrinted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rec.data")
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.12\u202e", Order: binary.LittleEndian, Addr: 0xffffffff81000000, Text: make([]byte, 4096), CPUs: 1}
	k.Symbols = []kcore.ELFSymbol{{Name: "f\u202eg\xff", Addr: k.Addr, Size: 64}}
	rec, err := k.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		rec.Comm(0, &perfdata.Comm{PID: 100, TID: 100, Comm: []byte("\u202e\x1b<b>\xfe"), SampleID: rec.ID(genperf.Copied+1, 0, 100)}),
		rec.Poke(genperf.Copied+1000, k.Addr, []byte{0}, []byte{0xcc}),
		rec.End(genperf.Copied+2000))
	if err != nil {
		t.Fatal(err)
	}
	s := serveFile(t, dir)
	var report bytes.Buffer
	if _, err := WriteReport(&report, s.current.rec, ReportOptions{To: timeline.MaxTime}); err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{"report": report.String()}
	for _, path := range []string{"/", "/map", "/functions", "/log", "/at?addr=0xffffffff81000000", "/search?q=f", "/nosuch%E2%80%AE%FF"} {
		pages[path] = get(s, path).Body.String()
	}
	for path, page := range pages {
		if !utf8.ValidString(page) || strings.ContainsAny(page, "\u202e\x1b") {
			t.Errorf("%s has what is not printed", path)
		}
		if strings.Contains(page, "<b>\\") || path != "/map" && !strings.Contains(page, `\u202e`) {
			t.Errorf("%s has no name, or it is not escaped", path)
		}
	}
}

// TestProfileSymbols: of a mapping, pprof gets each function with samples whose name matches, of
// however many functions, and no other.
func TestProfileSymbols(t *testing.T) {
	const n = 10_000
	dir := filepath.Join(t.TempDir(), "rec.data")
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.12", Order: binary.LittleEndian, Addr: 0xffffffff81000000, Text: make([]byte, 16*n), CPUs: 1}
	for i := range uint64(n) {
		k.Symbols = append(k.Symbols, kcore.ELFSymbol{Name: fmt.Sprintf("f%d", i), Addr: k.Addr + 16*i, Size: 16})
	}
	rec, err := k.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.End(genperf.Copied + 2000); err != nil {
		t.Fatal(err)
	}
	s := serveFile(t, dir)
	at := func(i, off uint64) *profile.Location { return &profile.Location{Address: k.Addr + 16*i + off} }
	o := &objects{s.current, sampledIn(&profile.Profile{Location: []*profile.Location{at(9000, 15), at(7, 0), at(8, 3), at(8, 4), {Address: 1}}})}
	for _, tt := range []struct {
		pattern string
		addr    uint64
		want    string
	}{
		{"", 0, "f7 f8 f9000"},
		{"^f[0-8]$", 0, "f7 f8"},
		{"", k.Addr + 16*5000 + 3, "f5000"}, // with samples or without
		{"0xffffffff81013880", k.Addr + 16*5000, "f5000"},
		{"", k.Addr - 1, ""},
	} {
		other, err := o.Open("other", 0, k.Addr, 0, "")
		if err != nil {
			t.Fatal(err)
		}
		if symbols, err := other.Symbols(regexp.MustCompile(tt.pattern), tt.addr); len(symbols) > 0 || err != nil {
			t.Errorf("%q at %#x: another mapping has %d functions: %v", tt.pattern, tt.addr, len(symbols), err)
		}
		file, err := o.Open("kernel", k.Addr, k.Addr+16*n, 0, "")
		if err != nil {
			t.Fatal(err)
		}
		symbols, err := file.Symbols(regexp.MustCompile(tt.pattern), tt.addr)
		var names []string
		for _, x := range symbols {
			names = append(names, x.Name...)
			if x.End != x.Start+15 || x.Start%16 != 0 {
				t.Errorf("%s is %#x to %#x", x.Name, x.Start, x.End)
			}
		}
		if got := strings.Join(names, " "); got != tt.want || err != nil {
			t.Errorf("%q at %#x: %s, want %s: %v", tt.pattern, tt.addr, got, tt.want, err)
		}
	}
}

// TestTimeOutside: a page of a time outside of the recording has what is said of that time, which is
// not known, and not the answer for the first or last time of the recording.
func TestTimeOutside(t *testing.T) {
	s := serve(t, "small")
	page := func(query string) string { return get(s, "/at?addr=dequeue_entity"+query).Body.String() }
	if !strings.Contains(page("&t=end"), `<b class="standing known">`) {
		t.Fatal("at the end it is not known")
	}
	for query, want := range map[string]string{
		"&t=0.5":                   `value="0.5"`,
		"&t=4000":                  `value="4000.000000000"`,
		"&ns=0":                    `value="0.000000000"`,
		"&ns=18446744073709551614": `value="18446744073.709551614"`,
	} {
		if got := page(query); !strings.Contains(got, `<b class="standing unconfirmed">`) || !strings.Contains(got, want) {
			t.Errorf("%s: %s", query, regexp.MustCompile(`(?s)<p class="summary">.*?</p>`).FindString(got))
		}
	}
}

// TestWithoutMouse: why an instruction is not known, and what a CPU may meet instead of it, is in
// the text of the page: nobody reads a tooltip aloud.
func TestWithoutMouse(t *testing.T) {
	tags := regexp.MustCompile(`<[^>]*>`)
	for name, want := range map[string][2]string{
		"small": {"/at?addr=sysctl_schedstats&t=8.913926695", "may trap: a CPU may run a trap here instead"},
		"lossy": {"/at?addr=vfs_read&t=5000", "unconfirmed: the time is after the horizon"},
	} {
		page := get(serve(t, name), want[0]).Body.String()
		rows := page[strings.Index(page, "<tbody>"):strings.Index(page, "</tbody>")]
		if text := tags.ReplaceAllString(rows, ""); !strings.Contains(text, want[1]) {
			t.Errorf("%s%s: %.600s", name, want[0], text)
		}
	}
}

// TestBreakable: names break where a part of them begins, and are escaped.
func TestBreakable(t *testing.T) {
	for name, want := range map[string]string{
		"vfs_read":        "vfs_read",
		"vfs_read+0x10":   "vfs_read<wbr>+0x10",
		"<b>[1]":          "&lt;b&gt;<wbr>[1]",
		"f+0x1 [virtio&]": "f<wbr>+0x1 <wbr>[virtio&amp;]",
	} {
		if got := string(breakable(name)); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
