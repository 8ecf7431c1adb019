// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
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

// clausesHead is the head of docs/clauses.md.
const clausesHead = `# What decides and tests each rule

Written by ` + "`go run ./internal/mutants -docs`" + ` from internal/mutants/table.go. For each rule of
[truth.md](truth.md) it has the functions that decide it, the tests that fail without it, and its
clauses: each is a mutant, which switches the clause off.
`

// clausesOf returns the text of docs/clauses.md for these rules: for each the functions that decide
// it, its tests, and what its mutants switch off. A function has the name that it has in the source,
// even if its row still has an older one.
func clausesOf(t *tree, rules []string) ([]byte, error) {
	out := bytes.NewBufferString(clausesHead)
	for _, rule := range rules {
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
			clauses = append(clauses, "- "+m.off+"\n")
		}
		fmt.Fprintf(out, "\n## `%s`\n\n%s\n%s\n%s", rule, wrapped("Decided by "+strings.Join(functions, ", ")+"."),
			wrapped("Tested by "+strings.Join(tests, ", ")+". Each of these is switched off:"), strings.Join(clauses, ""))
	}
	return out.Bytes(), nil
}

// wrapped returns a paragraph in lines of at most 100 columns.
func wrapped(text string) string {
	const columns = 100
	var out strings.Builder
	used := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case used == 0:
		case used+1+len(word) > columns:
			out.WriteByte('\n')
			used = 0
		default:
			out.WriteByte(' ')
			used++
		}
		out.WriteString(word)
		used += len(word)
	}
	return out.String() + "\n"
}

// clauses returns the text of docs/clauses.md of the source at root.
func clauses(root string) ([]byte, error) {
	t, err := readTree(os.DirFS(root))
	if err != nil {
		return nil, err
	}
	truth, err := os.ReadFile(filepath.Join(root, "docs", "truth.md"))
	if err != nil {
		return nil, err
	}
	return clausesOf(t, ruleNames(truth))
}

// writeClauses writes docs/clauses.md of the source at root.
func writeClauses(root string) error {
	text, err := clauses(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs", "clauses.md"), text, 0o666)
}
