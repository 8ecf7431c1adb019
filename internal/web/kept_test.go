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
