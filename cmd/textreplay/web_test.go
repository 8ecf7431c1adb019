// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdplog "github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/internal/web"
	"github.com/textreplay/textreplay/timeline/replay"
)

// browser starts a browser with one tab, or skips the test if there is none.
func browser(t *testing.T, flags ...chromedp.ExecAllocatorOption) context.Context {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-headless-shell", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		t.Skip("no browser: install chromium")
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.WindowSize(1300, 900))
	opts = append(opts, flags...)
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 5*time.Minute) // on a busy machine
	t.Cleanup(cancel)
	if err := chromedp.Run(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// served serves a recording and returns the address.
func served(t *testing.T, rec string) string {
	t.Helper()
	a := &app{stdin: strings.NewReader(""), stderr: io.Discard, input: rec, index: "never"}
	in := &webInput{app: a}
	srv, err := web.New(web.Options{Open: in.open, Live: true})
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, srv)
}

// serve starts a server that ends with the test, and returns its address.
func serve(t *testing.T, srv *web.Server) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- srv.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		srv.Close()
	})
	return "http://" + l.Addr().String()
}

// A visitor is a browser that notes what went wrong.
type visitor struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	base   string
	faults []string
}

func visit(t *testing.T, ctx context.Context, base string) *visitor {
	t.Helper()
	v := &visitor{t: t, ctx: ctx, base: base}
	chromedp.ListenTarget(ctx, func(ev any) {
		v.mu.Lock()
		defer v.mu.Unlock()
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			v.faults = append(v.faults, ev.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if ev.Type == runtime.APITypeError || ev.Type == runtime.APITypeWarning {
				v.faults = append(v.faults, fmt.Sprintf("console: %s", ev.Args[0].Value))
			}
		case *cdplog.EventEntryAdded:
			if ev.Entry.Level == cdplog.LevelError {
				v.faults = append(v.faults, ev.Entry.Text+" "+ev.Entry.URL)
			}
		case *network.EventRequestWillBeSent:
			if u := ev.Request.URL; !strings.HasPrefix(u, v.base) && !strings.HasPrefix(u, "data:") && !strings.HasPrefix(u, "blob:") && !strings.HasPrefix(u, "file:") {
				v.faults = append(v.faults, "request of "+u)
			}
		}
	})
	v.do(network.Enable(), cdplog.Enable())
	return v
}

func (v *visitor) do(actions ...chromedp.Action) {
	v.t.Helper()
	if err := chromedp.Run(v.ctx, actions...); err != nil {
		v.t.Fatalf("%v; %v", err, v.faults)
	}
}

// open opens a page and waits until it is whole.
func (v *visitor) open(path string) {
	v.t.Helper()
	v.do(chromedp.Navigate(v.base + path))
	// On a busy machine the end of the page before counts as that of this one, of which only the
	// beginning has come. A page is pending until the server has read all changes.
	v.until("the page is whole", `location.href !== 'about:blank' && document.readyState === 'complete' && document.body.dataset.pending !== 'true'`)
}

// text returns the text of an element.
func (v *visitor) text(selector string) string {
	v.t.Helper()
	return strings.TrimSpace(eval[string](v, fmt.Sprintf("document.querySelector(%q)?.innerText ?? 'nothing here'", selector)))
}

// eval returns what a script returns.
func eval[T any](v *visitor, script string) (x T) {
	v.t.Helper()
	v.do(chromedp.Evaluate(script, &x))
	return x
}

// until waits for a script to return true.
func (v *visitor) until(what, script string) {
	v.t.Helper()
	for range 600 {
		var so bool
		// The script may end with the page that it ran in.
		if chromedp.Run(v.ctx, chromedp.Evaluate(script, &so)) == nil && so {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	v.t.Fatalf("%s: not so at %s", what, eval[string](v, "location.href + document.querySelector('main').innerText.slice(0, 400)"))
}

// search types into the search box, to which the key / leads, and sends the form.
func (v *visitor) search(text string) {
	v.t.Helper()
	v.do(chromedp.KeyEvent("/"))
	v.until("the key / leads to the search box", `document.activeElement.id === 'q'`)
	v.do(chromedp.Evaluate(`document.getElementById('q').value = ''`, nil), chromedp.KeyEvent(text))
	v.do(chromedp.Evaluate(`document.querySelector('.search').requestSubmit()`, nil))
	v.until("an answer", fmt.Sprintf("location.pathname !== '/' && document.readyState === 'complete' && document.getElementById('q').value !== %q || location.search.includes(%q)", "", text))
}

// follow clicks the first link with a text.
func (v *visitor) follow(text string) {
	v.t.Helper()
	from := eval[string](v, "location.href")
	v.do(chromedp.Evaluate(fmt.Sprintf(`[...document.querySelectorAll('main a')].find(a => a.textContent === %q).click()`, text), nil))
	v.until("the link "+text, fmt.Sprintf("location.href !== %q && document.readyState === 'complete'", from))
}

// check fails the test if anything went wrong since the last call.
func (v *visitor) check(what string) {
	v.t.Helper()
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, f := range v.faults {
		v.t.Errorf("%s: %s", what, f)
	}
	v.faults = nil
}

// output returns what the command line prints.
func output(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run(append(args, "--index", "never"), strings.NewReader(""), &out, &errs); code > exitBelow {
		t.Fatalf("%v: exit code %d: %s", args, code, &errs)
	}
	return out.String()
}

func webRecordings(t *testing.T) map[string]string {
	recs := map[string]string{"small": filepath.Join(corpus.Root(), "testdata/small/rec.data")}
	for _, name := range []string{"rich", "lossy"} {
		recs[name] = filepath.Join(corpus.Root(), "testdata", name, "rec.data")
		if dir := os.Getenv("TEXTREPLAY_CORPUS"); dir != "" {
			if large := filepath.Join(dir, "x86_64", name, "rec.data"); isThere(large) {
				recs[name] = large
			}
		}
	}
	recs["callgraph"] = filepath.Join(corpus.Root(), "testdata/callgraph/rec.data")
	return recs
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// TestWebPages: every page works in a browser, light and dark, wide and narrow, and has the
// numbers of the command line.
func TestWebPages(t *testing.T) {
	v := visit(t, browser(t), "")
	for name, rec := range webRecordings(t) {
		t.Run(name, func(t *testing.T) {
			v.t = t
			base := served(t, rec)
			// The last page asks for news of its recording: it must not do so when the server is gone.
			t.Cleanup(func() { v.do(chromedp.Navigate("about:blank")) })
			v.mu.Lock()
			v.base = base
			v.mu.Unlock()

			v.open("/")
			info := output(t, "info", "-i", rec)
			if first, _, _ := strings.Cut(info, "\n"); v.text(".verdict") != first {
				t.Errorf("the verdict is %q, want %q", v.text(".verdict"), first)
			}
			var report struct{ Pokes map[string]json.Number }
			if err := json.Unmarshal([]byte(output(t, "info", "-i", rec, "--json")), &report); err != nil {
				t.Fatal(err)
			}
			shown := eval[int](v, `[...document.querySelectorAll('.legend b')].reduce((n, b) => n + Number(b.textContent.replaceAll(',', '')), 0)`)
			if want := report.Pokes["total"]; strconv.Itoa(shown) != want.String() {
				t.Errorf("the overview has %d changes, want %s", shown, want)
			}
			v.check("overview")
			v.do(chromedp.Evaluate(`document.querySelectorAll('table.busy')[1].querySelectorAll('th button')[1].click()`, nil))
			v.do(chromedp.Evaluate(`document.querySelectorAll('table.busy')[1].querySelectorAll('th button')[1].click()`, nil))
			counts := eval[[]int](v, `[...document.querySelectorAll('table.busy')[1].tBodies[0].rows].map(r => Number(r.cells[1].textContent.replaceAll(',', '')))`)
			if !slices.IsSorted(counts) || eval[string](v, `document.querySelector('th[aria-sort]').ariaSort`) != "ascending" {
				t.Errorf("functions sorted by changes, the fewest first: %d", counts)
			}
			v.do(chromedp.Evaluate(`document.querySelectorAll('table.busy')[1].querySelector('th button').click()`, nil))
			if names := eval[[]string](v, `[...document.querySelectorAll('table.busy')[1].tBodies[0].rows].map(r => r.cells[0].textContent.trim())`); !slices.IsSorted(names) {
				t.Errorf("functions sorted by name: %q", names)
			}

			lines := strings.Count(output(t, "log", "-i", rec, "--json"), "\n")
			v.open("/log")
			if n := eval[int](v, "Number(document.getElementById('total').dataset.total)"); n != lines {
				t.Errorf("the log has %d changes, want %d", n, lines)
			}
			// A known change, found on the map, shows its bytes.
			var known struct{ Time, Addr, New string }
			for line := range strings.Lines(output(t, "log", "-i", rec, "--json", "--kind", "poke")) {
				var c struct {
					Time, Addr, New string
					Batch           int
				}
				if err := json.Unmarshal([]byte(line), &c); err != nil {
					t.Fatal(err)
				}
				if c.Batch > 0 && len(c.New) == 10 {
					known.Time, known.Addr, known.New = c.Time, c.Addr, c.New
				}
			}
			if known.Time != "" {
				at, err := strconv.ParseUint(known.Time, 10, 64)
				if err != nil {
					t.Fatal(err)
				}
				v.open(fmt.Sprintf("/map?from=%s&to=%s", replay.Seconds(at-1000), replay.Seconds(at+1000)))
				v.until("the change is on the map", `document.getElementById('map').dataset.drawn === 'all' && Number(document.getElementById('map').dataset.marks) > 0`)
				v.open("/at?addr=" + known.Addr + "&t=" + replay.Seconds(at))
				var spaced []string
				for i := 0; i < len(known.New); i += 2 {
					spaced = append(spaced, known.New[i:i+2])
				}
				if got := v.text("section[aria-labelledby=h-site] tr.now"); !strings.Contains(got, strings.Join(spaced, " ")) {
					t.Errorf("the change of %s at %s, to %s, is shown as %q", known.Addr, known.Time, known.New, got)
				}
				v.check("a known change")
			} else if name != "callgraph" {
				t.Error("the recording has no change to look at")
			}
			lines = strings.Count(output(t, "log", "-i", rec, "--json", "--mechanism", "static-key", "--kind", "poke"), "\n")
			v.open("/log?kind=static-key")
			if n := eval[int](v, "Number(document.getElementById('total').dataset.total)"); n != lines {
				t.Errorf("the log has %d changes of static keys, want %d", n, lines)
			}
			v.check("log")

			diff := output(t, "diff", "-i", rec, "25%", "75%")
			summary, _, _ := strings.Cut(diff, "\n")
			_, summary, _ = strings.Cut(summary, "): ")
			v.open("/diff?from=25%25&to=75%25")
			if got := v.text("p.summary"); got != strings.TrimSuffix(summary, " (--standing lists them)") {
				t.Errorf("the difference is %q, want %q", got, summary)
			}
			v.check("diff")

			for _, scheme := range []string{"light", "dark"} {
				v.do(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
				v.open("/map")
				v.until("the map is drawn", `document.getElementById('map').dataset.drawn === 'all'`)
				v.check("map, " + scheme)
			}
			v.do(emulation.SetDeviceMetricsOverride(420, 800, 1, true))
			for _, path := range []string{"/", "/map", "/log", "/functions", "/diff?from=25%25&to=75%25", "/search?q=sched", "/at?addr=" + "0xffffffff81000000", "/at?addr=0xffffffff81000000&t=50%25%2B1ms..end-1ms"} {
				v.open(path)
				if w := eval[int](v, "document.documentElement.scrollWidth"); w > 420 {
					t.Errorf("%s is %d wide in a window of 420", path, w)
				}
				v.check(path + ", narrow")
			}
			v.do(emulation.ClearDeviceMetricsOverride())
			if unnamed := eval[int](v, `[...document.querySelectorAll('button, a[href], input:not([type=hidden]), select')].filter(e => !(e.innerText || e.ariaLabel || e.labels?.[0]?.innerText || e.title)).length`); unnamed > 0 {
				t.Errorf("%d controls have no name", unnamed)
			}
		})
	}
}

// TestWebSmall follows what somebody does who wants to know when a static key was switched
// and what a function looked like then.
func TestWebSmall(t *testing.T) {
	ctx := browser(t)
	rec := filepath.Join(corpus.Root(), "testdata/small/rec.data")
	v := visit(t, ctx, served(t, rec))

	// A name that the recording does not have leads to names that have a part of it.
	v.open("/")
	v.search("sched_schedstats")
	v.until("names like it", `[...document.querySelectorAll('main a')].some(a => a.textContent === 'sysctl_schedstats')`)
	if got := v.text("main"); !strings.Contains(got, "No symbol has “sched_schedstats” in its name.") || !strings.Contains(got, "Names with “schedstats”") {
		t.Errorf("a name that is not there:\n%s", got)
	}
	// The search box finds the function by a part of its name.
	v.open("/")
	v.search("schedstats")
	v.until("the function is found", `[...document.querySelectorAll('main a')].some(a => a.textContent === 'sysctl_schedstats')`)
	v.follow("sysctl_schedstats")
	if got := v.text("#shown"); !strings.Contains(got, "scenario.sh[124]") || !strings.Contains(got, "8.913926695") {
		t.Errorf("the page does not say who changed it and when:\n%s", got)
	}
	// A change is a link to the place at that time.
	v.follow("8.913926695")
	row := v.text("#iffffffffaecdbcb1")
	if !strings.Contains(row, "0f 1f 44 00 00") || !strings.Contains(row, "nopl") || !strings.Contains(row, "changed now") || !strings.Contains(row, "may trap") {
		t.Errorf("the place is %q", row)
	}
	if site := v.text("section[aria-labelledby=h-site]"); !strings.Contains(site, "9.137028325") || !strings.Contains(site, "jmp ffffffffaecdbd5e") || !strings.Contains(site, "A static key: the code goes straight on here") {
		t.Errorf("the place has no versions:\n%s", site)
	}
	// The keys go to the change before and after, and back works.
	at := eval[string](v, "location.href")
	v.do(chromedp.KeyEvent("]"))
	v.until("the next change", fmt.Sprintf("location.href !== %q && document.readyState === 'complete'", at))
	if got := v.text("#iffffffffaecdbcb1"); !strings.Contains(got, "e9 a8 00 00 00") {
		t.Errorf("after the next change the place is %q", got)
	}
	v.do(chromedp.Evaluate(`setTimeout(() => history.back(), 50)`, nil))
	v.until("back", fmt.Sprintf("location.href === %q", at))
	// The slider shows each version, and the URL follows.
	v.do(chromedp.Evaluate(`{ const s = document.getElementById('slider'); s.value = 0; s.dispatchEvent(new Event('input')) }`, nil))
	v.until("a time in the head of the page", `document.querySelector('.search .kept').textContent.includes('8.4') && document.querySelector('.search input[name=t]').value.startsWith('8.4')`)
	v.until("the first change", `new URL(location.href).searchParams.get('t') !== null && document.getElementById('t').value.startsWith('8.4')`)
	// Another function at that time.
	v.search("do_sys_openat2")
	v.until("the other function", `document.querySelector('h1')?.innerText === 'do_sys_openat2'`)
	if got := eval[string](v, "document.getElementById('t').value"); !strings.HasPrefix(got, "8.") {
		t.Errorf("a search forgets the time: %s", got)
	}

	// Before, the key was on.
	v.open("/at?addr=0xffffffffaecdbcb1&t=8.8")
	if site := v.text("section[aria-labelledby=h-site]"); !strings.Contains(site, "A static key: the code jumps here. The key is on,") {
		t.Errorf("the page does not say that the key is on:\n%s", site)
	}

	// The map: around a known change there is one mark, and Enter opens its bytes.
	const addr, text = 0xffffffffaecdbcb1, 0xffffffffaec00000
	v.open(fmt.Sprintf("/map?from=8.912926695&to=8.914926695&y0=%d&y1=%d", addr-text-20, addr-text+20))
	v.until("the map is drawn", `document.getElementById('map').dataset.drawn === 'all' && Number(document.getElementById('map').dataset.marks) > 0`)
	v.do(chromedp.Focus("#map", chromedp.ByQuery))
	v.do(chromedp.KeyEvent("a"), chromedp.KeyEvent(kb.ArrowRight), chromedp.KeyEvent("b"))
	v.until("two times are marked", `!document.getElementById('compare').hidden`)
	v.do(chromedp.KeyEvent(kb.ArrowLeft))
	v.do(chromedp.KeyEvent(kb.Enter))
	v.until("the place opens", `location.pathname === '/at' && document.readyState === 'complete'`)
	if got := eval[string](v, "location.search"); got != "?addr=0xffffffffaecdbcb1&t=8.913926695" {
		t.Errorf("the map opens %s", got)
	}
	if got := v.text("#iffffffffaecdbcb1"); !strings.Contains(got, "0f 1f 44 00 00") {
		t.Errorf("the map opens %q", got)
	}
	// The key f leads to the functions. A click sorts them, back undoes it, and a name leads to
	// the function.
	v.do(chromedp.KeyEvent("f"))
	v.until("the list of functions", `location.pathname === '/functions' && document.readyState === 'complete'`)
	changes := eval[int](v, "Number(document.getElementById('total').dataset.changes)")
	if want := strings.Count(output(t, "log", "-i", rec, "--json", "--kind", "poke"), "\n"); changes == 0 || changes > want {
		t.Errorf("the functions have %d changes, the log has %d", changes, want)
	}
	const lasts = `[...document.querySelectorAll('.functions tbody tr')].map(r => r.cells[3].textContent)`
	v.do(chromedp.Evaluate(`setTimeout(() => [...document.querySelectorAll('.functions th a')].find(a => a.textContent === 'Last change').click(), 50)`, nil))
	v.until("the list is sorted by time", `location.search.includes('sort=last') && document.readyState === 'complete' && document.querySelector('th[aria-sort=descending]').textContent === 'Last change'`)
	if got := eval[[]string](v, lasts); len(got) < 5 || !slices.IsSortedFunc(got, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(b, a)) }) {
		t.Errorf("the last changes are %q", got)
	}
	v.do(chromedp.Evaluate(`setTimeout(() => history.back(), 50)`, nil))
	v.until("back", `location.pathname === '/functions' && !location.search.includes('sort=last') && document.readyState === 'complete'`)
	v.do(chromedp.Evaluate(`document.querySelector('.filter [name=name]').value = 'schedstats'; document.querySelector('.filter').requestSubmit()`, nil))
	v.until("one function", `document.getElementById('total')?.dataset.total === '1' && document.readyState === 'complete'`)
	v.follow("sysctl_schedstats")
	v.until("the function", `location.pathname === '/at' && document.querySelector('h1').innerText === 'sysctl_schedstats'`)

	// Zooming changes the URL, and back goes back.
	v.open("/map")
	v.until("the map is drawn", `document.getElementById('map').dataset.drawn === 'all'`)
	v.do(chromedp.Focus("#map", chromedp.ByQuery), chromedp.KeyEvent("+"))
	v.until("the URL has the window", `location.search.includes('from=')`)
	v.do(chromedp.Evaluate("setTimeout(() => history.back(), 50)", nil))
	v.until("the URL has no window", `!location.search.includes('from=')`)
	v.check("small")
}

// TestWebSlider: after the slider has moved, all that keeps a time or leads to another one has that of the
// slider, and the keys [ and ] go on from there while the slider has the focus.
func TestWebSlider(t *testing.T) {
	v := visit(t, browser(t), served(t, filepath.Join(corpus.Root(), "testdata/small/rec.data")))
	const footer = `document.querySelector('footer').innerText`
	v.open("/at?addr=sysctl_schedstats")
	if eval[bool](v, footer+`.includes('looking at')`) {
		t.Fatal("the page keeps a time that nobody asked for")
	}
	v.do(chromedp.Focus("#slider", chromedp.ByQuery))
	for _, at := range []string{"8.450516155", "8.690949435", "8.913926695"} {
		v.do(chromedp.KeyEvent(kb.ArrowRight))
		v.until("the time "+at, fmt.Sprintf(`location.search.endsWith('t=%s') && %s.includes('looking at %s')`, at, footer, at))
		// The links of the frame, and those from the form to the map and to the log.
		const others = `[...document.querySelectorAll('.top a:not([aria-label^=Forget]), .clock a[href^="/map"], #h-changes ~ p a')].filter(a => !a.getAttribute('href').startsWith('/profile')).map(a => new URL(a.href).searchParams.get('t'))`
		if got := eval[[]string](v, others); len(got) < 7 || slices.ContainsFunc(got, func(t string) bool { return t != at }) {
			t.Errorf("at %s, links keep the times %q", at, got)
		}
		if got := eval[string](v, "document.getElementById('t').value"); got != at {
			t.Errorf("at %s, the form has %s", at, got)
		}
	}
	const neighbours = `['prev', 'next'].map(rel => new URL(document.querySelector('.clock a[rel=' + rel + ']').href).searchParams.get('t'))`
	if got := eval[[]string](v, neighbours); !slices.Equal(got, []string{"8.690949435", "9.137028325"}) {
		t.Errorf("the changes before and after 8.913926695 are those at %s", got)
	}
	for i := range 2 {
		if i == 1 {
			v.do(chromedp.Focus("#slider", chromedp.ByQuery))
		}
		v.do(chromedp.KeyEvent("]"))
		at := []string{"9.137028325", "9.421097335"}[i]
		v.until("the key ] leads to "+at, fmt.Sprintf(`location.search.includes('t=%s') && document.readyState === 'complete'`, at))
	}
	v.do(chromedp.Focus("#slider", chromedp.ByQuery), chromedp.KeyEvent("["))
	v.until("the key [ leads back", `location.search.includes('t=9.137028325') && document.readyState === 'complete'`)
	v.do(chromedp.Focus("#slider", chromedp.ByQuery), chromedp.KeyEvent("l"))
	v.until("the key l leads to the log", `location.pathname === '/log' && location.search.includes('t=9.137028325') && document.readyState === 'complete'`)
	v.do(chromedp.Focus(".tick input", chromedp.ByQuery), chromedp.KeyEvent("d"))
	v.until("the key d leads on from a box to tick", `location.pathname === '/diff' && document.readyState === 'complete'`)
	v.do(chromedp.Focus("input[name=symbol]", chromedp.ByQuery), chromedp.KeyEvent("l"))
	v.until("a field takes letters", `document.querySelector('input[name=symbol]').value === 'l' && location.pathname === '/diff'`)
	v.check("slider")
}

// TestWebIndex: web writes the index that --index names, uses it, and reads the recording
// without one when it has grown.
func TestWebIndex(t *testing.T) {
	index := filepath.Join(t.TempDir(), "index")
	a := &app{stdin: strings.NewReader(""), stderr: io.Discard, input: filepath.Join(corpus.Root(), "testdata/small/rec.data"), index: index}
	in := &webInput{app: a}
	for i, used := range []bool{true, false} {
		rec, err := in.open()
		if err != nil {
			t.Fatal(err)
		}
		if s := rec.Replay.Index(); s.Used != used || s.Saved {
			t.Errorf("opened %d times: the index is %+v", i+1, s)
		}
		rec.Close()
	}
	if !isThere(index) {
		t.Error("there is no index")
	}
}

// breaking reads a file, waits until it may fail, and fails.
type breaking struct {
	io.Reader
	fail chan struct{}
}

func (b *breaking) Read(buf []byte) (int, error) {
	n, err := b.Reader.Read(buf)
	if err == io.EOF {
		<-b.fail
		return n, errors.New("the pipe broke")
	}
	return n, err
}

// TestWebBrokenStream: if standard input fails while pages are served, the pages and standard
// error say so.
func TestWebBrokenStream(t *testing.T) {
	rec := filepath.Join(corpus.Root(), "testdata/small/rec.data")
	f, err := os.Open(filepath.Join(rec, "data"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in := &breaking{f, make(chan struct{})}
	addr, w := io.Pipe()
	errs := make(chan string)
	r, stderr := io.Pipe()
	go func() {
		line, _ := bufio.NewReader(r).ReadString('\n')
		errs <- line
		io.Copy(io.Discard, r)
	}()
	a := &app{stdin: in, stderr: stderr, out: bufio.NewWriter(w), input: "-", kcore: []string{filepath.Join(rec, "kcore_dir")}, index: "never"}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	server := &webServer{app: a, http: "127.0.0.1:0", noBrowser: true, signals: func() (context.Context, func()) { return ctx, stop }}
	go func() { ended <- server.run() }()
	base, err := bufio.NewReader(addr).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	close(in.fail)
	const want = "reading standard input: the pipe broke: the pages show what came before"
	if got := <-errs; got != "textreplay: warning: "+want+"\n" {
		t.Errorf("standard error has %q", got)
	}
	for _, path := range []string{"", "log", "state"} {
		answer, err := http.Get(strings.TrimSpace(base) + path)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || !bytes.Contains(text, []byte(want)) {
			t.Errorf("/%s does not say so: %v", path, err)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestWebMapNames: the map names the code that is there at the time that it shows.
func TestWebMapNames(t *testing.T) {
	v := visit(t, browser(t), served(t, filepath.Join(corpus.Root(), "testdata/small/rec.data")))
	v.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(`globalThis.texts = new Set
const fillText = CanvasRenderingContext2D.prototype.fillText
CanvasRenderingContext2D.prototype.fillText = function (text, ...at) { if (at[0] === 6) texts.add(text); return fillText.call(this, text, ...at) }`).Do(ctx)
		return err
	}))
	const program = "bpf_prog_b19c858917c4054c_socket_3"
	v.open("/map?addr=" + program + "&t=19&from=10&to=11")
	v.until("an address without a name", `[...texts].some(x => x.startsWith('0xffffffffc0083'))`)
	if eval[bool](v, fmt.Sprintf("[...texts].some(x => x.startsWith(%q))", program)) {
		t.Error("the program has a name before it is loaded")
	}
	if at := eval[string](v, `document.getElementById('map').dataset.kept`); at != "" {
		t.Errorf("the kept time is drawn at %s, which is not in view", at)
	}
	v.do(chromedp.Evaluate(`{
	const u = new URL(location.href), first = BigInt(JSON.parse(document.getElementById('plane').textContent).from)
	const at = s => Number(BigInt(s) * 1000000000n - first)
	dispatchEvent(new PopStateEvent('popstate', { state: { ...history.state, t0: at(19), t1: at(20) } }))
}`, nil))
	v.until("the name of the program", fmt.Sprintf("[...texts].some(x => x.startsWith(%q))", program))
	// The time that the page keeps is drawn where it is.
	v.until("the kept time is in view", `document.getElementById('map').dataset.kept !== ''`)
	shown := eval[string](v, `document.getElementById('map').dataset.kept`)
	var from, to float64
	if n, _ := fmt.Sscan(shown, &from, &to); n != 2 || from < 18.999 || to > 19.001 {
		t.Errorf("the kept time 19 is drawn at %q", shown)
	}
	v.do(chromedp.Focus("#map", chromedp.ByQuery), chromedp.KeyEvent("+"))
	v.until("the URL has the window and the time", `location.search.includes('from=') && new URL(location.href).searchParams.get('t') === '19'`)
	v.check("map")
}

// TestWebStrangers: a page of another site, open in the same browser, reads nothing, neither
// by asking from there nor after its name has come to mean this machine.
func TestWebStrangers(t *testing.T) {
	ctx := browser(t, chromedp.Flag("host-resolver-rules", "MAP rebound.example 127.0.0.1"))
	base := served(t, filepath.Join(corpus.Root(), "testdata/small/rec.data"))
	// What a page of another port of this machine can try. Each line of its result is what
	// it could read.
	page := `<!doctype html><meta charset="utf-8"><body><script>
const base = ` + strconv.Quote(base) + `, read = []
const tries = [
	fetch(base + '/log').then(a => a.text()).then(x => read.push('fetch: ' + x.length)),
	fetch(base + '/log', { credentials: 'include', headers: { 'X-A': 'b' } }).then(a => a.text()).then(x => read.push('with a header: ' + x.length)),
	fetch(base + '/state', { method: 'POST', body: 'x' }).then(a => a.text()).then(x => read.push('POST: ' + x.length)),
	fetch(base + '/log', { mode: 'no-cors' }).then(a => { if (a.type !== 'opaque' || a.status) read.push('no-cors: ' + a.type) }),
	new Promise(done => { const x = document.createElement('script'); x.src = base + '/static/app.js'; x.onload = () => { read.push('script'); done() }; x.onerror = done; document.body.append(x) }),
	new Promise(done => { const x = document.createElement('link'); x.rel = 'stylesheet'; x.href = base + '/static/style.css'; x.onload = () => { read.push('style'); done() }; x.onerror = done; document.body.append(x) }),
	new Promise(done => { const x = document.createElement('iframe'); x.src = base + '/'; x.onload = () => { try { read.push('frame: ' + x.contentDocument.body.innerText.length) } catch {} if (x.contentWindow.length) read.push('frames'); done() }; document.body.append(x) }),
]
Promise.allSettled(tries).then(() => { document.body.dataset.read = JSON.stringify(read) })
</script>`
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, page)
	})}
	go other.Serve(l)
	defer other.Close()
	v := visit(t, ctx, base)
	for _, host := range []string{l.Addr().String(), strings.Replace(l.Addr().String(), "127.0.0.1", "rebound.example", 1)} {
		v.do(chromedp.Navigate("http://" + host + "/"))
		v.until("all was tried", `document.body.dataset.read !== undefined`)
		if got := eval[string](v, "document.body.dataset.read"); got != "[]" {
			t.Errorf("a page of %s could read %s", host, got)
		}
	}
	// The name of the stranger means this machine now.
	v.do(chromedp.Navigate(strings.Replace(base, "127.0.0.1", "rebound.example", 1) + "/log"))
	if got := eval[string](v, "document.body.innerText"); !strings.Contains(got, "refused: this server does not have the name") {
		t.Errorf("a rebound name reads %.300s", got)
	}
	// A link leads here, and the page then works.
	v.do(chromedp.Navigate("http://" + l.Addr().String() + "/"))
	v.do(chromedp.Evaluate(`setTimeout(() => { location.href = `+strconv.Quote(base+"/log")+` }, 50)`, nil))
	v.until("the page behind a link", `location.pathname === '/log' && Number(document.getElementById('total')?.dataset.total) === 548`)
}

// TestWebProfile: pprof's pages are there.
func TestWebProfile(t *testing.T) {
	ctx := browser(t)
	v := visit(t, ctx, served(t, filepath.Join(corpus.Root(), "testdata/callgraph/rec.data")))
	v.do(chromedp.Navigate(v.base + "/profile/"))
	v.until("the flame graph", `location.pathname === '/profile/flamegraph' && document.querySelectorAll('.boxbg').length > 10`)
	v.do(chromedp.Navigate(v.base+"/profile/top"), chromedp.WaitVisible("#rows"))
	v.check("profile")
}

// TestWebReport: a report works as a file, without any request.
func TestWebReport(t *testing.T) {
	ctx := browser(t)
	file := filepath.Join(t.TempDir(), "report.html")
	output(t, "report", "-i", filepath.Join(corpus.Root(), "testdata/small/rec.data"), "-o", file)
	v := visit(t, ctx, "file://")
	v.do(chromedp.Navigate((&url.URL{Scheme: "file", Path: file}).String()))
	v.until("the map is drawn", `document.getElementById('map').dataset.drawn === 'all' && document.querySelectorAll('.function').length > 5`)
	v.do(chromedp.Evaluate(`setTimeout(() => document.querySelector('.changes a[href^="#f-"]').click(), 50)`, nil))
	v.until("a function opens", `document.querySelector('.function[open]') !== null`)
	v.check("report")
}

// TestWebGrows: the pages follow a recording that grows.
func TestWebGrows(t *testing.T) {
	ctx := browser(t)
	rec := filepath.Join(t.TempDir(), "rec.data")
	if err := os.CopyFS(rec, os.DirFS(filepath.Join(corpus.Root(), "testdata/small/rec.data"))); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(rec, "data")
	whole, err := os.ReadFile(data)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(data, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	v := visit(t, ctx, served(t, rec))
	v.open("/log")
	before := eval[int](v, "Number(document.getElementById('total').dataset.total)")
	f, err := os.OpenFile(data, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(whole[len(whole)/2:]); err != nil || f.Close() != nil {
		t.Fatal(err)
	}
	v.until("the page is newer", fmt.Sprintf("Number(document.getElementById('total').dataset.total) > %d", before))
	if n := eval[int](v, "Number(document.getElementById('total').dataset.total)"); n != 548 {
		t.Errorf("the log has %d changes", n)
	}
	v.check("a recording that grows")
}
