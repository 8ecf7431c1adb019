// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
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
