// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
)

// rewriteTable writes the rows of the table with the names that the source has now.
func rewriteTable(t *tree, name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	rows := rowsOf(f)
	if len(rows) != len(mutants) {
		return fmt.Errorf("%s has %d rows, this program %d", name, len(rows), len(mutants))
	}
	var edits []edit
	for i, row := range rows {
		m, err := current(t, &mutants[i])
		if err != nil {
			fmt.Fprintf(os.Stderr, "%v: %v\n", &mutants[i], err)
			continue
		}
		if m == mutants[i] {
			continue
		}
		for k, value := range []string{m.rule, m.off, m.in, m.old, m.new, m.test} {
			field := row.Elts[k]
			from, to := fset.Position(field.Pos()).Offset, fset.Position(field.End()).Offset
			edits = append(edits, edit{from, to, quote(value)})
		}
	}
	out, err := format.Source(apply(text, edits))
	if err != nil {
		return err
	}
	return os.WriteFile(name, out, 0o666)
}

// current returns a row with the names that the source has now.
func current(t *tree, m *mutant) (mutant, error) {
	at, err := t.locate(m)
	if err != nil || !at.renamed {
		return *m, err
	}
	c := *m
	c.in, c.old, c.new = at.in, at.old, at.new
	return c, nil
}

// rowsOf returns the rows of the table's file.
func rowsOf(f *ast.File) []*ast.CompositeLit {
	var rows []*ast.CompositeLit
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.CompositeLit); ok && lit.Type == nil && len(lit.Elts) == 6 {
			rows = append(rows, lit)
			return false
		}
		return true
	})
	return rows
}

// quote returns a string as a Go literal: in backquotes if it has quotes.
func quote(s string) string {
	if strings.Contains(s, `"`) && !strings.ContainsAny(s, "`\n") {
		return "`" + s + "`"
	}
	return strconv.Quote(s)
}
