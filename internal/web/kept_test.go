// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// mainText returns the text of a page between its head and its foot, without tags.
func mainText(page string) string {
	if _, rest, ok := strings.Cut(page, "<main"); ok {
		page, _, _ = strings.Cut(rest, "</main>")
		_, page, _ = strings.Cut(page, ">")
	}
	text := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, " ")
	return strings.Join(strings.Fields(text), " ")
}

// TestOpenWindow: a list that is given one end has all changes up to it, or from it on, wherever
// it is. What a picture cannot show is an error that says where the recording is.
func TestOpenWindow(t *testing.T) {
	s := serve(t, "small") // from 6.712 to 25.299
	<-s.current.ready
	total := regexp.MustCompile(`id="total" data-total="([0-9]+)"`)
	for _, tt := range []struct {
		path, total, want string
	}{
		{"/log?to=1", "0", "No change matches up to but not including 1.000000000."},
		{"/log?to=8.450516155", "0", ""},
		{"/log?to=8.450516156", "1", "1 to 1 of 1 change, up to but not including 8.450516156"},
		{"/log?from=9000", "0", "No change matches from 9000.000000000 on."},
		{"/log?from=1", "548", ", from 1.000000000 on"},
		{"/log?from=22.450615625", "1", ", from 22.450615625 on"},
		{"/log?from=8.5&to=8.5", "0", "No change matches from 8.500000000 up to but not including 8.500000000."},
		{"/log?from=1&to=9000", "548", ""},
		{"/functions?to=1", "0", "No function that changed matches up to but not including 1.000000000."},
		{"/functions?from=9000", "0", "No function that changed matches from 9000.000000000 on."},
		{"/functions?to=8.450516156", "1", "1 function, 1 change, up to but not including 8.450516156"},
	} {
		w := get(s, tt.path)
		m := total.FindStringSubmatch(w.Body.String())
		if w.Code != http.StatusOK || m == nil || m[1] != tt.total || !strings.Contains(mainText(w.Body.String()), tt.want) {
			t.Errorf("%s: %d, %q: %.600s", tt.path, w.Code, m, mainText(w.Body.String()))
		}
	}
	for _, page := range []string{"/", "/map"} {
		for query, want := range map[string]string{
			"?to=1":         "the recording begins at 6.712319015: it has nothing before 1.000000000",
			"?from=9000":    "the recording ends at 25.299470955: it has nothing from 9000.000000000 on",
			"?from=9&to=8":  "the window ends at 8.000000000, before it begins at 9.000000000",
			"?from=9&to=9.": "not a time",
		} {
			if w := get(s, page+query); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s%s: %d %s", page, query, w.Code, mainText(w.Body.String()))
			}
		}
		for _, query := range []string{"?to=9", "?from=9"} {
			if w := get(s, page+query); w.Code != http.StatusOK {
				t.Errorf("%s%s: %d %s", page, query, w.Code, mainText(w.Body.String()))
			}
		}
	}
}

// TestInvalidTime: each page refuses a time that cannot be read, and no link of the answer keeps it.
func TestInvalidTime(t *testing.T) {
	s := serve(t, "small")
	<-s.current.ready
	for _, path := range []string{"/?", "/map?", "/functions?", "/log?", "/diff?", "/diff?from=9&to=10&", "/search?q=sched&", "/at?addr=sysctl_schedstats&"} {
		for _, bad := range []string{"t=yesterday", "t=tsc:0x12", "ns=yesterday", "ns=9&t=9&ns=8", "ns=1m5"} {
			w := get(s, path+bad)
			page := w.Body.String()
			if bad == "ns=9&t=9&ns=8" { // the first of each name counts
				if w.Code != http.StatusOK || !strings.Contains(page, "looking at 0.000000009") {
					t.Errorf("%s%s: %d", path, bad, w.Code)
				}
				continue
			}
			if w.Code != http.StatusBadRequest {
				t.Errorf("%s%s: %d", path, bad, w.Code)
			}
			for _, tag := range regexp.MustCompile(`<(a|form|input)[^>]*>`).FindAllString(page, -1) {
				if strings.Contains(tag, "?t=") || strings.Contains(tag, ";t=") || strings.Contains(tag, `name="t"`) {
					t.Errorf("%s%s keeps the time: %s", path, bad, tag)
				}
			}
		}
	}
	if w := get(s, "/nothing?t=yesterday"); w.Code != http.StatusNotFound || strings.Contains(w.Body.String(), "?t=") {
		t.Errorf("a page that is not there: %d", w.Code)
	}
}

// TestInterval: a time with fewer than nine digits is an interval. The page of a function says which, and
// what changes in it; its links keep the interval, but for those to a change.
func TestInterval(t *testing.T) {
	s := serve(t, "small")
	<-s.current.ready
	at := func(when string) (page, text string) {
		w := get(s, "/at?addr=sysctl_schedstats&t="+when)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d", when, w.Code)
		}
		return w.Body.String(), mainText(w.Body.String())
	}
	page, text := at("8.9") // it changes at 8.913926695
	for _, want := range []string{"8.9 is the interval from 8.900000000 to 8.999999999. What is shown changes 1 time in it: this page has it as of 8.900000000 , its start.",
		"8.900000000 8.913926695 known 8.913926695 9.137028325 known", "jmp", "changes at 8.913926695"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %.1500s", want, text)
		}
	}
	for _, want := range []string{`<a href="/at?addr=0xffffffffaecdbc70&amp;t=8.913926695">8.913926695</a>`, `name="t" value="8.9"`, `<a href="/at?addr=0xffffffffaecdbcb1&amp;t=8.9">`,
		`href="/map?t=8.9&amp;`, "looking at 8.9 (8.900000000 to 8.999999999)"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in the page", want)
		}
	}
	if strings.Contains(page, "t=8.900000000\">+") {
		t.Error("a link to an instruction loses the interval")
	}
	if n := strings.Count(text, "changes at "); n != 1 {
		t.Errorf("%d instructions change in the interval", n)
	}
	if _, text := at("8.8"); !strings.Contains(text, "8.8 is the interval from 8.800000000 to 8.899999999. What is shown does not change in it.") || strings.Contains(text, "changes at") {
		t.Errorf("an interval without a change: %.600s", text)
	}
	if _, text := at("8..9.2"); !strings.Contains(text, "from 8.000000000 to 9.299999999. What is shown changes 4 times in it") || !strings.Contains(text, "changes at 8.450516155") {
		t.Errorf("an interval with four changes: %.900s", text)
	}
	// It ends with the last nanosecond, and a change at its start is no change in it.
	for when, want := range map[string]string{"8.91392..8.913926694": "does not change in it", "8.91392..8.913926695": "changes 1 time in it", "8.913926695..8.914": "does not change in it"} {
		if _, text := at(when); !strings.Contains(text, want) {
			t.Errorf("%s: not %q: %.300s", when, want, text)
		}
	}
	for _, exact := range []string{"8.900000000", "8.9s", "9", "50%25", "start"} {
		if page, text := at(exact); strings.Contains(text, "interval") || strings.Contains(page, "looking at "+exact+" (") {
			t.Errorf("%s is an interval: %.600s", exact, text)
		}
	}
	// Code that comes within the interval.
	text = mainText(get(s, "/at?addr=bpf_prog_b19c858917c4054c_socket_3&t=18.1").Body.String())
	for _, want := range []string{"changes 1 time in it", "unmapped", "18.134851735 22.450498715", "109 bytes: unmapped changes at 18.134851735"} {
		if !strings.Contains(text, want) {
			t.Errorf("code that comes: no %q in %.900s", want, text)
		}
	}
	if strings.Contains(text, "it does not change in this recording") {
		t.Error("code that comes and goes is said not to change")
	}
	// The other pages.
	for path, want := range map[string]string{
		"/search?q=sched&t=8.9":           `t=8.9">sched_`,
		"/search?q=sched_schedstats&t=9.": "not a time",
		"/functions?t=8.9":                `&amp;t=8.9">sysctl_schedstats`,
	} {
		if page := get(s, path).Body.String(); !strings.Contains(page, want) {
			t.Errorf("%s: no %q", path, want)
		}
	}
	if text := mainText(get(s, "/search?q=sched&t=8.9").Body.String()); !strings.Contains(text, "8.9 is the interval from 8.900000000 to 8.999999999. Names are as of its start.") {
		t.Errorf("the search: %.300s", text)
	}
	for path, want := range map[string]string{"/search?q=8.9": "/map?t=8.9", "/search?q=sysctl_schedstats&t=8.9": "/at?addr=sysctl_schedstats&t=8.9"} {
		if got := get(s, path).Header().Get("Location"); got != want {
			t.Errorf("%s leads to %s, want %s", path, got, want)
		}
	}
	// The map shows a tenth of the recording around all of the interval.
	if page := get(s, "/map?t=8..10&y0=1&y1=2").Body.String(); !strings.Contains(page, `"t0":"7070642403","t1":"10929357597"`) {
		t.Errorf("the map: %s", regexp.MustCompile(`"t0":"[0-9]+","t1":"[0-9]+"`).FindString(page))
	}
}

// TestLongInterval: of an interval with very many changes, the page lists the first ones and says that
// there are more.
func TestLongInterval(t *testing.T) {
	s := manyTimes(t, 200)
	page := get(s, "/at?addr=f&t=start..end").Body.String()
	if text := mainText(page); !strings.Contains(text, "What is shown changes more than 60 times in it") || !strings.Contains(text, "and more") {
		t.Errorf("%.400s", text)
	}
	section, _, _ := strings.Cut(page[strings.Index(page, `<section class="interval"`):], "</section>")
	if n := strings.Count(section, "<tr>"); n != 62 { // with the head
		t.Errorf("%d rows", n)
	}
}
