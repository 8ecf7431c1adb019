// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// heading is the heading of a rule in docs/truth.md, which begins with its name.
var heading = regexp.MustCompile("(?m)^###? `([a-z-]+)`: ")

// rules returns the names of the rules in docs/truth.md, in its order.
func rules(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "truth.md"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range heading.FindAllSubmatch(text, -1) {
		names = append(names, string(m[1]))
	}
	return names
}

// TestRulesListed: every mutant breaks a rule that docs/truth.md has, and every
// rule has a mutant.
func TestRulesListed(t *testing.T) {
	broken := make(map[string]int)
	for _, name := range rules(t) {
		if _, ok := broken[name]; ok {
			t.Errorf("docs/truth.md has two rules %q", name)
		}
		broken[name] = 0
	}
	for _, m := range mutants {
		if _, ok := broken[m.rule]; !ok {
			t.Errorf("%q: docs/truth.md has no rule %q", m.off, m.rule)
		}
		broken[m.rule]++
	}
	for name, n := range broken {
		if n == 0 {
			t.Errorf("no mutant breaks the rule %q", name)
		}
	}
}

// TestPlaces: every mutant has its place in the source, and its test.
func TestPlaces(t *testing.T) {
	tr, err := readTree(os.DirFS(filepath.Join("..", "..")))
	if err != nil {
		t.Fatal(err)
	}
	for i := range mutants {
		if _, err := newTrial(tr, &mutants[i]); err != nil {
			t.Errorf("%v: %v", &mutants[i], err)
		}
	}
}
