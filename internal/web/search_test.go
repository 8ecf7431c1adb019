// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/timeline"
)

// TestSearchTimes: the search takes each time that the command line takes. One that can be a part of a
// name leads to the names that have it, and to the time too.
func TestSearchTimes(t *testing.T) {
	s := serve(t, "small")
	<-s.current.ready
	for _, when := range []string{"9.5", "9.5s", "12s", "1m30s", "50%", "50%+2ms", "end-1s", "start+2s", "+1.5s", "8..9", "8.5..end", "11.116404:", "[   11.116404]",
		"2026-11-20T19:13:40Z", "2026-11-20T20:13:40.5+01:00", "wall:2026-11-20T19:13:40Z", "@1795202020.5", "7"} {
		if _, err := s.current.r.ParseTime(when); err != nil {
			t.Fatal(err)
		}
		w := get(s, "/search?q="+url.QueryEscape(when))
		names := strings.Contains(mainText(w.Body.String()), "Names with")
		to := "/map?t=" + url.QueryEscape(when)
		switch {
		case w.Code == http.StatusSeeOther && w.Header().Get("Location") == to:
		case w.Code == http.StatusOK && names && isWord(when) && strings.Contains(w.Body.String(), "is also a time") && strings.Contains(w.Body.String(), `<a href="`+to+`">`):
		default:
			t.Errorf("%s leads to %q: %.300s", when, w.Header().Get("Location"), mainText(w.Body.String()))
		}
		if w := get(s, to); w.Code != http.StatusOK {
			t.Errorf("%s: %d", to, w.Code)
		}
	}
	for _, tt := range []struct{ query, want string }{
		{"end", "“end” is also a time, 25.299470955: the map, with that time ."},
		{"start", "“start” is also a time, 6.712319015: the map, with that time ."},
		{"9", "“9” is also a time, 9.000000000: the map, with that time ."},
		{"end", "Names with “end” Name What Address Changes Last change"},
		{"tsc:0x33", "As a time: "},
		{"2026-11-20T19:13:40", "As a time: "},
		{"99999999999999s", "the time is too large"},
	} {
		if text := mainText(get(s, "/search?q="+url.QueryEscape(tt.query)).Body.String()); !strings.Contains(text, tt.want) {
			t.Errorf("%s: no %q in %.400s", tt.query, tt.want, text)
		}
	}
	// A name or an address comes first, and a name that nobody takes for a time is none.
	for query, want := range map[string]string{
		"sysctl_schedstats":      "/at?addr=sysctl_schedstats",
		"sysctl_schedstats+0x41": "/at?addr=sysctl_schedstats%2B0x41",
		"ffffffffaecdbcb1":       "/at?addr=ffffffffaecdbcb1",
		"0xffffffffaecdbcb1":     "/at?addr=0xffffffffaecdbcb1",
	} {
		if got := get(s, "/search?q="+url.QueryEscape(query)).Header().Get("Location"); got != want {
			t.Errorf("%s leads to %q, want %q", query, got, want)
		}
	}
	for _, query := range []string{"sched", "nosuch", "vfs_read+5"} {
		if text := mainText(get(s, "/search?q="+url.QueryEscape(query)).Body.String()); strings.Contains(text, "a time") {
			t.Errorf("%s: %.300s", query, text)
		}
	}
}

// TestSearchLifetime: code that comes and goes is shown at a time at which it is there: the one that the
// page keeps, or the nearest. The page says which.
func TestSearchLifetime(t *testing.T) {
	s := serve(t, "small")
	<-s.current.ready
	const program, addr = "bpf_prog_b19c858917c4054c_socket_3", "0xffffffffc0083670" // from 18.134851735 until 22.450498715
	const first = program + " is not there at %. This page shows it at 18.134851735, the first time at which it is there."
	const last = program + " is not there at %. This page shows it at 22.450498714, the last time at which it is there."
	for _, tt := range []struct{ kept, shown, says string }{
		{"", "18.134851735", strings.Replace(first, "%", "the start of the recording", 1)},
		{"9", "18.134851735", strings.Replace(first, "%", "9", 1)},
		{"8.9", "18.134851735", strings.Replace(first, "%", "8.9", 1)},
		{"24", "22.450498714", strings.Replace(last, "%", "24", 1)},
		{"end", "22.450498714", strings.Replace(last, "%", "end", 1)},
		{"20.5", "20.500000000", ""},
		{"20.000000000", "20.000000000", ""},
		{"18.1", "18.100000000", ""}, // it comes in this interval
	} {
		for _, what := range []string{program, program + "+0x4", addr} {
			w := get(s, "/search?q="+url.QueryEscape(what)+"&t="+tt.kept)
			page := get(s, w.Header().Get("Location")).Body.String()
			text := mainText(page)
			if !strings.Contains(text, "at "+tt.shown+" Offset") {
				t.Errorf("%s from %q: %q shows %.400s", what, tt.kept, w.Header().Get("Location"), text)
			}
			if tt.says != "" && !strings.Contains(text, tt.says) || tt.says == "" && strings.Contains(text, "is not there at") {
				t.Errorf("%s from %q: no %q in %.600s", what, tt.kept, tt.says, text)
			}
			if tt.says != "" && !strings.Contains(text, "known from 18.134851735 until 22.450498715") {
				t.Errorf("%s from %q: it is not there: %.600s", what, tt.kept, text)
			}
			if strings.Count(page, "absent=") > 0 {
				t.Errorf("%s from %q: a link keeps what was asked for before", what, tt.kept)
			}
		}
	}
	// So do the lists of names and of functions, and a page without a time.
	for path, want := range map[string]string{
		"/search?q=socket_3&t=9":       `<a href="/at?addr=` + addr + `&amp;t=18.134851735&amp;absent=9">` + program + `</a></td><td>BPF, shown at 18.134851735</td>`,
		"/search?q=socket_3":           `<a href="/at?addr=` + addr + `&amp;t=18.134851735&amp;absent=start">`,
		"/search?q=socket_3&t=20":      `<a href="/at?addr=` + addr + `&amp;t=20">` + program + `</a></td><td>BPF</td>`,
		"/functions?name=optinsn&t=9":  `shown at 13.107999515`,
		"/functions?name=optinsn&t=14": `&amp;t=14">kprobe_optinsn_page</a></td>`,
		"/at?addr=" + program:          "This page shows it at 18.134851735",
		"/at?addr=" + addr:             "This page shows it at 18.134851735",
	} {
		if page := get(s, path).Body.String(); !strings.Contains(page, want) {
			t.Errorf("%s: no %q: %s", path, want, mainText(page))
		}
	}
	// What a page is asked for directly is answered for that time.
	if text := mainText(get(s, "/at?addr="+program+"&t=9").Body.String()); !strings.Contains(text, "unmapped until 18.134851735") || strings.Contains(text, "is not there at") {
		t.Errorf("at 9: %.300s", text)
	}
	if text := mainText(get(s, "/at?addr=sysctl_schedstats&t=9&absent=8").Body.String()); strings.Contains(text, "is not there at") {
		t.Errorf("core kernel text is always there: %.300s", text)
	}
	if w := get(s, "/at?addr=sysctl_schedstats&t=9&absent=yesterday"); w.Code != http.StatusBadRequest {
		t.Errorf("a time that cannot be read: %d", w.Code)
	}
}

// TestReportLifetime: a report has the code of a symbol that is gone at the end of its window.
func TestReportLifetime(t *testing.T) {
	s := serve(t, "small")
	const program = "bpf_prog_b19c858917c4054c_socket_3"
	for _, tt := range []struct {
		to   uint64
		want string
	}{
		{timeline.MaxTime, program + " is not there at the end of the window. This page shows it at 22.450498714, the last time at which it is there."},
		{10e9, program + " is not there at the end of the window. This page shows it at 18.134851735, the first time at which it is there."},
		{20e9, ""},
	} {
		var report strings.Builder
		symbols := s.current.r.Image.At(s.current.r.Report.First).Lookup(program)
		if _, err := WriteReport(&report, s.current.rec, ReportOptions{To: tt.to, Symbols: symbols}); err != nil {
			t.Fatal(err)
		}
		_, part, _ := strings.Cut(report.String(), `<details class="part function" id="f-0xffffffffc0083670"`)
		part, _, _ = strings.Cut(part, "</details>")
		if !strings.Contains(part, "0f 1f 44 00 00") || !strings.Contains(part, tt.want) || tt.want == "" && strings.Contains(part, "is not there at") {
			t.Errorf("until %d: no %q in %.900s", tt.to, tt.want, part)
		}
	}
}

// TestSearchNames: a name that several functions have is not said to be data, whatever is around it, and
// an address that has nothing is not either.
func TestSearchNames(t *testing.T) {
	s := serve(t, "small")
	<-s.current.ready
	const two = `<a href="/at?addr=0xffffffffc02ae000">del_vq [virtio_pci]</a>`
	for _, tt := range []struct{ query, want, not string }{
		{"del_vq", `<a href="/at?addr=0xffffffffc02ae000">del_vq</a>`, "is data, not code"},
		{"virtio_pci:del_vq", two, "No symbol has"},
		{"del_vq [virtio_pci]", two, "No symbol has"},
		{"del_vq+0x10", `<a href="/at?addr=0xffffffffc02ae010">del_vq [virtio_pci]+0x10</a>`, "No symbol has"},
		{"del_vq+16", `<a href="/at?addr=0xffffffffc02afac0">del_vq [virtio_pci]+0x10</a>`, "No symbol has"},
		{"0x10", "The recording has no code at 0x10, and no symbol begins there.", "is data, not code"},
		{"virtio:del_vq", "No symbol has “virtio:del_vq” in its name.", "is data, not code"},
	} {
		w := get(s, "/search?q="+url.QueryEscape(tt.query))
		if page := html.UnescapeString(w.Body.String()); w.Code != http.StatusOK || !strings.Contains(page, tt.want) || strings.Contains(page, tt.not) {
			t.Errorf("%s: %d: no %q in %.900s", tt.query, w.Code, tt.want, mainText(page))
		}
	}
	// A link to such a name leads to the list.
	for link, want := range map[string]string{
		"/at?addr=del_vq":                 "/search?q=del_vq",
		"/at?addr=del_vq%2B0x10&t=9.5":    "/search?q=del_vq%2B0x10&t=9.5",
		"/at?addr=virtio_pci:del_vq&t=9s": "/search?q=virtio_pci%3Adel_vq&t=9s",
	} {
		if w := get(s, link); w.Code != http.StatusSeeOther || w.Header().Get("Location") != want {
			t.Errorf("%s: %d, to %q, want %q", link, w.Code, w.Header().Get("Location"), want)
		}
	}
	for query, want := range map[string]bool{"place=dev_attr_vendor": true, "place=del_vq": false, "place=sysctl_schedstats&to=8": false, "place=0x10": false} {
		if got := strings.Contains(get(s, "/log?"+query).Body.String(), "is data, not code"); got != want {
			t.Errorf("the log of %s: data is %t", query, got)
		}
	}
	other := serve(t, "arm64")
	<-other.current.ready
	if page := get(other, "/search?q=ftrace_nop_ops").Body.String(); !strings.Contains(mainText(page), "ftrace_nop_ops at 0xffffab833c367f58 is data, not code") {
		t.Errorf("data is said to be something else: %.400s", mainText(page))
	}
	if text := mainText(get(s, "/at?addr=").Body.String()); !strings.Contains(text, "addr: want the name of a function or an address") {
		t.Errorf("no address: %s", text)
	}
}
