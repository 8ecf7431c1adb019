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

// TestRulesListed: every mutant breaks a rule that docs/truth.md has.
func TestRulesListed(t *testing.T) {
	listed := make(map[string]bool)
	for _, name := range rules(t) {
		if listed[name] {
			t.Errorf("docs/truth.md has two rules %q", name)
		}
		listed[name] = true
	}
	for _, m := range mutants {
		if !listed[m.rule] {
			t.Errorf("%q: docs/truth.md has no rule %q", m.off, m.rule)
		}
	}
}
