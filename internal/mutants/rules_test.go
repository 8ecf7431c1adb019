// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestRulesListed: every mutant breaks a rule that docs/truth.md has, every rule
// has a mutant, and docs/clauses.md is that of the mutants.
func TestRulesListed(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "truth.md"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, "docs", "clauses.md"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := clauses(root)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("docs/clauses.md is of other mutants; go run ./internal/mutants -docs writes it")
	}
	broken := make(map[string]int)
	for _, name := range ruleNames(text) {
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
