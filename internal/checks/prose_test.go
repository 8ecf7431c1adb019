// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"flag"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// mostOf is how often each habit may occur in 1,000 lines of prose.
const mostOf = 3

// A habit is a word, or a few, that plain English uses rarely.
type habit struct {
	name  string
	words *regexp.Regexp
}

// habits are words that this project's prose once used for nearly everything.
var habits = []habit{
	{"stand as a verb", regexp.MustCompile(`(?i)\b(stand|stands|stood)\b`)},
	{"tell as a verb", regexp.MustCompile(`(?i)\b(tell|tells|told|telling)\b`)},
	{"beside", regexp.MustCompile(`(?i)\bbesides?\b`)},
	{"of its own", regexp.MustCompile(`(?i)\bof (its|their|his|her|one's|your|my) own\b`)},
	{"of which", regexp.MustCompile(`(?i)\bof which\b`)},
}

var showLines = flag.Bool("lines", false, "show each line that has one of the habits")

// TestProse: comments and docs are in plain English.
func TestProse(t *testing.T) {
	var all []proseLine
	eachFile(t, ".go", func(name string, text []byte) { all = append(all, comments(t, name, text)...) })
	eachFile(t, ".md", func(name string, text []byte) { all = append(all, paragraphs(name, string(text))...) })
	if len(all) < 1000 {
		t.Fatalf("only %d lines of prose", len(all))
	}
	for _, h := range habits {
		if per := h.in(t, all); per > mostOf {
			t.Errorf("%s: %.1f in 1,000 lines, want %d at most; -lines shows them", h.name, per, mostOf)
		} else {
			t.Logf("%s: %.1f in 1,000 lines", h.name, per)
		}
	}
}

// in returns how often the habit occurs in 1,000 of these lines.
func (h *habit) in(t *testing.T, lines []proseLine) float64 {
	n := 0
	for _, l := range lines {
		k := len(h.words.FindAllString(l.text, -1))
		if n += k; k > 0 && *showLines {
			t.Logf("%s:%d: %s", l.file, l.line, l.text)
		}
	}
	return float64(n) * 1000 / float64(max(len(lines), 1))
}

// A proseLine is a line of a comment or of a document.
type proseLine struct {
	file string
	line int
	text string
}

// comments returns the lines of all comments of a Go file but the license.
func comments(t *testing.T, name string, text []byte) []proseLine {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var lines []proseLine
	for _, group := range f.Comments {
		for _, c := range group.List {
			first := fset.Position(c.Pos()).Line
			for i, l := range strings.Split(c.Text, "\n") {
				l = strings.TrimSpace(strings.Trim(l, "/*"))
				if l == "" || strings.HasPrefix(l, "Copyright ") || strings.HasPrefix(l, "SPDX-") || strings.HasPrefix(l, "go:") {
					continue
				}
				lines = append(lines, proseLine{name, first + i, l})
			}
		}
	}
	return lines
}

// paragraphs returns the lines of a Markdown document that are no code.
func paragraphs(name, text string) []proseLine {
	var lines []proseLine
	code := false
	for i, l := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(l), "```") {
			code = !code
			continue
		}
		if !code && strings.TrimSpace(l) != "" {
			lines = append(lines, proseLine{name, i + 1, l})
		}
	}
	return lines
}

// TestProseWidth: docs wrap near 100 columns. Tables, code and headings do not wrap, and neither does
// a line that is one word.
func TestProseWidth(t *testing.T) {
	const widest = 104
	eachFile(t, ".md", func(name string, text []byte) {
		for _, l := range paragraphs(name, string(text)) {
			switch {
			case utf8.RuneCountInString(l.text) <= widest, strings.HasPrefix(l.text, "|"), strings.HasPrefix(l.text, "#"),
				strings.HasPrefix(l.text, "    "), !strings.Contains(strings.TrimSpace(l.text), " "):
			default:
				t.Errorf("%s:%d has %d columns: wrap it at 100", name, l.line, utf8.RuneCountInString(l.text))
			}
		}
	})
}

// TestHabits: what counts and what does not.
func TestHabits(t *testing.T) {
	for _, tt := range []struct {
		text string
		want string // the habit, "" for none
	}{
		{"the trap stands there", "stand as a verb"},
		{"it stood in the file", "stand as a verb"},
		{"every answer has a standing", ""},
		{"a reader must understand it", ""},
		{"the record tells when", "tell as a verb"},
		{"Told so by the LOST record", "tell as a verb"},
		{"the directory beside it", "beside"},
		{"a program of its own", "of its own"},
		{"its own program", ""},
		{"a list of which all parts are known", "of which"},
	} {
		got := ""
		for _, h := range habits {
			if h.words.MatchString(tt.text) {
				got = h.name
			}
		}
		if got != tt.want {
			t.Errorf("%q: %q, want %q", tt.text, got, tt.want)
		}
	}
}

// TestLines: comments and paragraphs are lines of prose, code is not.
func TestLines(t *testing.T) {
	src := "// Copyright 2026\n\n// Package p tells.\npackage p\n\n//go:generate x\n\n/*\nA block.\n*/\nvar x = \"stands\" // of its own\n"
	var got []string
	for _, l := range comments(t, "p.go", []byte(src)) {
		got = append(got, l.text)
	}
	if s := strings.Join(got, "|"); s != "Package p tells.|A block.|of its own" {
		t.Errorf("comments %q", s)
	}
	got = nil
	for _, l := range paragraphs("p.md", "# Title\n\ntext\n```go\ncode\n```\nmore\n") {
		got = append(got, l.text)
	}
	if s := strings.Join(got, "|"); s != "# Title|text|more" {
		t.Errorf("paragraphs %q", s)
	}
}
