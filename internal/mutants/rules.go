// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// heading is the heading of a rule in docs/truth.md, which begins with its name.
var heading = regexp.MustCompile("(?m)^###? `([a-z-]+)`: ")

// ruleNames returns the names of the rules in the text of docs/truth.md, in its order.
func ruleNames(text []byte) []string {
	var names []string
	for _, m := range heading.FindAllSubmatch(text, -1) {
		names = append(names, string(m[1]))
	}
	return names
}

// The lines of docs/truth.md between which the table of rules is.
const (
	tableBegin = "<!-- written by go run ./internal/mutants -docs -->\n"
	tableEnd   = "<!-- end -->\n"
)

// withRuleTable returns the text of docs/truth.md with the table of rules as the
// mutants make it: for each rule the functions that decide it, its tests, and
// what its mutants switch off. A function has the name that it has in the source, even if its
// row still has an older one.
func withRuleTable(t *tree, text []byte) ([]byte, error) {
	before, rest, ok := strings.Cut(string(text), tableBegin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !ok || !ended {
		return nil, fmt.Errorf("there are no lines %q and %q", tableBegin, tableEnd)
	}
	var out strings.Builder
	for _, rule := range ruleNames(text) {
		var functions, tests, clauses []string
		add := func(list *[]string, s string) {
			if !slices.Contains(*list, s) {
				*list = append(*list, s)
			}
		}
		for _, m := range mutants {
			if m.rule != rule {
				continue
			}
			at, err := t.locate(&m)
			if err != nil {
				return nil, fmt.Errorf("%v: %w", &m, err)
			}
			top, _, _ := strings.Cut(m.test, "/")
			add(&functions, "`"+at.decl.name+"`")
			add(&tests, "`"+top+"`")
			clauses = append(clauses, "  - "+m.off+"\n")
		}
		fmt.Fprintf(&out, "- **`%s`**: decided by %s; tested by %s. Each of these is switched off:\n%s",
			rule, strings.Join(functions, ", "), strings.Join(tests, ", "), strings.Join(clauses, ""))
	}
	return []byte(before + tableBegin + out.String() + tableEnd + after), nil
}

// writeRuleTable writes the table of rules into docs/truth.md of the source at root.
func writeRuleTable(root string) error {
	t, err := readTree(os.DirFS(root))
	if err != nil {
		return err
	}
	name := filepath.Join(root, "docs", "truth.md")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	if text, err = withRuleTable(t, text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, text, 0o666)
}
