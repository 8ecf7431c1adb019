// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"testing/fstest"
)

const before = `package p

const limit = 50_000

func (b *buffer) end(t uint64) uint64 {
	if b.side > t && t > 0 { // a comment
		return b.side
	}
	switch {
	case t == 0:
		clear(b.all)
	case t < b.last:
		t++
		b.last = t
	}
	return max(b.side, t)
}
`

// readFiles reads a tree of files with these texts.
func readFiles(t *testing.T, files map[string]string) *tree {
	t.Helper()
	fsys := make(fstest.MapFS)
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	tr, err := readTree(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// TestLocate: the forms of a pattern, and what the source becomes.
func TestLocate(t *testing.T) {
	for _, tt := range []struct {
		name    string
		row     mutant
		becomes string // a line of the changed file
		err     string // or part of the error
	}{
		{name: "an operand", row: mutant{in: "buffer.end", old: "t > 0", new: "true"}, becomes: "if b.side > t && true { // a comment"},
		{name: "an operand that needs parentheses", row: mutant{in: "buffer.end", old: "t > 0", new: "t > 0 || true"}, becomes: "if b.side > t && (t > 0 || true) { // a comment"},
		{name: "the head of an if", row: mutant{in: "buffer.end", old: "if b.side > t && t > 0 {", new: "if false {"}, becomes: "if false { // a comment"},
		{name: "the head of a case", row: mutant{in: "buffer.end", old: "case t == 0:", new: "case true:"}, becomes: "case true:"},
		{name: "a statement", row: mutant{in: "buffer.end", old: "b.last = t", new: "b.last = 0"}, becomes: "b.last = 0"},
		{name: "two statements", row: mutant{in: "buffer.end", old: "t++; b.last = t", new: "b.last = t + 1"}, becomes: "b.last = t + 1"},
		{name: "a call that goes", row: mutant{in: "buffer.end", old: "clear(b.all)", new: ""}, becomes: ""},
		{name: "a constant", row: mutant{in: "limit", old: "50_000", new: "5"}, becomes: "const limit = 5"},
		{name: "the second match", row: mutant{in: "buffer.end #2", old: "b.side", new: "0"}, becomes: "return 0"},
		{name: "twice", row: mutant{in: "buffer.end", old: "b.last", new: "0"}, err: "2 times (dir/p.go:12, dir/p.go:14)"},
		{name: "nowhere", row: mutant{in: "buffer.end", old: "b.first + 1", new: "0"}, err: `buffer.end has no "b.first + 1"`},
		{name: "no such function", row: mutant{in: "buffer.close", old: "b.first + 1", new: "0"}, err: "there is no buffer.close"},
		{name: "too few matches", row: mutant{in: "buffer.end #9", old: "b.side", new: "0"}, err: "only 3 times"},
		{name: "no syntax", row: mutant{in: "buffer.end", old: "b.side >", new: ""}, err: "neither an expression"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := readFiles(t, map[string]string{"dir/p.go": before})
			pl, err := tr.locate(&tt.row)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if pl.renamed {
				t.Errorf("renamed to %s, %q", pl.in, pl.old)
			}
			out := string(apply(pl.decl.file.text, []edit{{pl.from, pl.to, pl.text}}))
			for line := range strings.Lines(out) {
				if strings.TrimSpace(line) == tt.becomes {
					return
				}
			}
			t.Errorf("no line %q in\n%s", tt.becomes, out)
		})
	}
}

// TestLocateAfterChanges: a row finds its place after what people do to source.
func TestLocateAfterChanges(t *testing.T) {
	row := mutant{in: "buffer.end", old: "if b.side > t && t > 0 {", new: "if b.side > t {"}
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  mutant // the row as it should be then
		err   string
	}{
		{"moved to another file of another package", map[string]string{"other/x.go": before, "dir/p.go": "package p\n"}, row, ""},
		{"formatted in another way", map[string]string{"p.go": strings.ReplaceAll(before, "if b.side > t && t > 0 { // a comment", "if b.side > t &&\n\t\tt > 0 {")}, row, ""},
		{"a variable renamed", map[string]string{"p.go": strings.NewReplacer("(t ", "(at ", " t ", " at ", "t++", "at++", "= t", "= at", ", t)", ", at)").Replace(before)},
			mutant{in: "buffer.end", old: "if b.side > at && at > 0 {", new: "if b.side > at {"}, ""},
		{"a field renamed", map[string]string{"p.go": strings.ReplaceAll(before, "side", "newest")},
			mutant{in: "buffer.end", old: "if b.newest > t && t > 0 {", new: "if b.newest > t {"}, ""},
		{"a field whose new name another type's has", map[string]string{"p.go": strings.ReplaceAll(before, "side", "last")},
			mutant{in: "buffer.end", old: "if b.last > t && t > 0 {", new: "if b.last > t {"}, ""},
		{"the type renamed, with the receiver", map[string]string{"p.go": strings.NewReplacer("(b *buffer)", "(r *ring)", "b.", "r.").Replace(before)},
			mutant{in: "ring.end", old: "if r.side > t && t > 0 {", new: "if r.side > t {"}, ""},
		{"the function renamed", map[string]string{"p.go": strings.ReplaceAll(before, " end(", " complete(")},
			mutant{in: "buffer.complete", old: row.old, new: row.new}, ""},
		{"another function of the same name", map[string]string{"p.go": before, "other/q.go": "package q\nfunc (b *buffer) end() {}\n"}, row, ""},
		{"the same code twice", map[string]string{"p.go": before, "other/q.go": before}, row, "2 times"},
		{"the clause is gone", map[string]string{"p.go": strings.ReplaceAll(before, "b.side > t && t > 0", "b.side > t")}, row, "buffer.end has no"},
		{"only for another system", map[string]string{"p.go": before, "q_windows.go": before}, row, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tr := readFiles(t, tt.files)
			got, err := current(tr, &row)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
