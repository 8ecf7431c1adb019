// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
)

// fetched returns the page at a path of a server, which must be there.
func fetched(t *testing.T, base, path string) string {
	t.Helper()
	answer, err := http.Get(base + path)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	page, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %v\n%.600s", path, answer.Status, err, page)
	}
	return string(page)
}

// TestWebIntervals: of times with fewer than nine digits, the pages say what the commands at and diff say
// of the same interval.
func TestWebIntervals(t *testing.T) {
	rec := filepath.Join(corpus.Root(), "testdata/small/rec.data")
	base := served(t, rec)
	times := regexp.MustCompile(`changes ([0-9]+ times?) in this interval`)
	changing := 0
	for when, interval := range map[string]bool{"8.9": true, "8.8": true, "8..9.5": true, "8.913926695..8.91392": true, "8.913926": true, "12.7": true, "start..end": true, "0.5": true,
		"30.1": true, "8.913926695": false, "9": false, "8.9s": false, "end": false} {
		out, want := output(t, "at", "-i", rec, "sysctl_schedstats", when, "--function"), ""
		if m := times.FindStringSubmatch(out); m != nil {
			want = "What is shown changes " + m[1] + " in it"
			changing++
		} else if interval {
			want = "does not change in it"
		}
		page := fetched(t, base, "/at?addr=sysctl_schedstats&t="+when)
		if got := strings.Contains(page, `aria-label="Interval"`); got != interval || !strings.Contains(page, want) {
			t.Errorf("at %s: an interval: %t, want %q of\n%s", when, got, want, out)
		}
	}
	if changing < 5 {
		t.Errorf("the function changes in only %d intervals", changing)
	}

	warned := 0
	for _, pair := range [][2]string{{"8.9", "9.1"}, {"8.8", "12.7"}, {"8.4", "8.6"}, {"9", "18.1"}, {"8.900000000", "9.100000000"}} {
		var out, errs bytes.Buffer
		run([]string{"diff", "-i", rec, pair[0], pair[1], "--index", "never"}, strings.NewReader(""), &out, &errs)
		page := html.UnescapeString(fetched(t, base, fmt.Sprintf("/diff?from=%s&to=%s", pair[0], pair[1])))
		want := strings.Count(errs.String(), "(a time with nine digits is exact)")
		if got := strings.Count(page, "(a time with nine digits is exact)"); got != want {
			t.Errorf("diff %s: %d warnings, want those of:\n%s", pair, got, &errs)
		}
		for line := range strings.Lines(errs.String()) {
			if text, ok := strings.CutPrefix(strings.TrimSpace(line), "textreplay: warning: "); ok {
				warned++
				if !strings.Contains(page, text) {
					t.Errorf("diff %s: the page does not say %q", pair, text)
				}
			}
		}
	}
	if warned < 4 {
		t.Errorf("only %d warnings", warned)
	}
	if page := fetched(t, base, "/diff?from=8.8&to=9.000000000"); !strings.Contains(page, "8.8 is the interval from 8.800000000 to 8.899999999.") || strings.Contains(page, "9.000000000 is the interval") {
		t.Error("the page of differences does not name the interval")
	}
}

// TestWebPlaces: the log of a place on the page has the changes that the command log prints for it: of a
// name, one of a module, one of several places, an alias, an address, and a range of addresses.
func TestWebPlaces(t *testing.T) {
	total := regexp.MustCompile(`id="total" data-total="([0-9]+)"`)
	for _, name := range []string{"small", "rich", "modfull"} {
		rec := filepath.Join(corpus.Root(), "testdata", name, "rec.data")
		base := served(t, rec)
		lines := func(args ...string) int {
			return strings.Count(output(t, append([]string{"log", "-i", rec, "--json"}, args...)...), "\n")
		}
		shown := func(place string) (n int, page string) {
			page = fetched(t, base, "/log?place="+url.QueryEscape(place))
			m := total.FindStringSubmatch(page)
			if m == nil {
				t.Fatalf("%s: %s: %.600s", name, place, page)
			}
			n, _ = strconv.Atoi(m[1])
			return n, html.UnescapeString(page)
		}
		// The names of what changed, as the log has them, and other names of the same functions.
		type symbol struct {
			Name, Module string
			AliasOf      string `json:"alias_of"`
		}
		var names []string
		changed := make(map[string]bool)
		decode := json.NewDecoder(strings.NewReader(output(t, "log", "-i", rec, "--json", "--kind", "poke")))
		for {
			var c struct{ Symbol *symbol }
			if err := decode.Decode(&c); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if x := c.Symbol; x != nil && !changed[x.Name] {
				changed[x.Name] = true
				if names = append(names, x.Name); x.Module != "" && x.Module != "bpf" {
					names = append(names, x.Module+":"+x.Name, x.Name+" ["+x.Module+"]")
				}
			}
		}
		if len(names) > 24 {
			names = slices.Concat(names[:12], names[len(names)-12:])
		}
		aliases := 0
		decode = json.NewDecoder(strings.NewReader(output(t, "symbols", "-i", rec, "--json")))
		for aliases < 2 {
			var x symbol
			if err := decode.Decode(&x); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if x.AliasOf != "" && changed[x.AliasOf] {
				names, aliases = append(names, x.Name), aliases+1
			}
		}
		if name == "rich" {
			names = append(names, "ftrace_trampoline", "bpf_trampoline_6442532886")
		}
		for _, symbol := range names {
			want := lines("--symbol", symbol)
			if got, _ := shown(symbol); got != want {
				t.Errorf("%s: the log of %s has %d changes, want %d", name, symbol, got, want)
			}
		}
		if name != "rich" {
			continue
		}
		if aliases == 0 {
			t.Error("no function that changed has another name")
		}
		if _, page := shown("ftrace_trampoline"); !strings.Contains(page, "ftrace_trampoline is the name of 6 places: 0x") || !strings.Contains(page, "The log has the changes of all of them.") {
			t.Error("the page does not say that a name has several places")
		}
		if _, page := shown("vfs_read"); strings.Contains(page, "is the name of") {
			t.Error("vfs_read has one place")
		}
		for _, pair := range [][2]string{{"vfs_read", "vfs_write"}, {"vfs_read+0x10", ""}, {"", "vfs_read"}, {"0xffffffff00000000", "0xffffffffffffffff"}} {
			want := lines("--addr", pair[0]+","+pair[1], "--kind", "poke,ksymbol,lost")
			for _, between := range []string{",", "..", ", "} {
				if got, _ := shown(pair[0] + between + pair[1]); got != want || want == 0 {
					t.Errorf("the log of %s%s%s has %d changes, want %d", pair[0], between, pair[1], got, want)
				}
			}
		}
	}

	base := served(t, filepath.Join(corpus.Root(), "testdata/small/rec.data"))
	for place, want := range map[string]string{
		"sysctl_schedstat":      `"sysctl_schedstat": no symbol of this name; did you mean sysctl_schedstats?`,
		"nosuch+0x10":           `"nosuch+0x10": no symbol of this name`,
		"vp_get [virtio]":       `"vp_get [virtio]": no symbol of this name`,
		"del_vq+0x10":           "\"del_vq+0x10\": the name is ambiguous; give one of these addresses instead, plus 0x10:\n\t0x",
		"sysctl_schedstats,0x1": "sysctl_schedstats,0x1 has no addresses",
	} {
		answer, err := http.Get(base + "/log?place=" + url.QueryEscape(place))
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if text := html.UnescapeString(string(page)); err != nil || answer.StatusCode != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: %s: %s", place, answer.Status, regexp.MustCompile(`(?s)<p class="problem">.*?</p>`).FindString(text))
		}
	}
}
