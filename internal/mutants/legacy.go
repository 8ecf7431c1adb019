// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
)

// isText reports whether a row finds its place by exact text in a file instead
// of by syntax in a function. Such rows are rewritten by -fix.
func (m *mutant) isText() bool { return strings.HasSuffix(m.in, ".go") }

// locateText finds the place of such a row.
func (t *tree) locateText(m *mutant) (place, error) {
	for _, d := range t.decls {
		if d.file.path != m.in {
			continue
		}
		src := d.file
		if n := bytes.Count(src.text, []byte(m.old)); n != 1 {
			return place{}, fmt.Errorf("%q is %d times in %s", m.old, n, m.in)
		}
		from := bytes.Index(src.text, []byte(m.old))
		pl := place{decl: decl{file: src}, from: from, to: from + len(m.old), text: m.new}
		for _, d := range t.decls {
			if d.file != src {
				continue
			}
			var node ast.Node = d.node
			if f := d.function(); f != nil {
				node = f.Body
			}
			if int(node.Pos())-src.base <= from && pl.to <= int(node.End())-src.base {
				pl.decl = d
			}
		}
		return pl, nil
	}
	return place{}, fmt.Errorf("there is no file %s", m.in)
}

// convert returns the row that finds the place of a text row by syntax.
func (t *tree) convert(m *mutant) (mutant, error) {
	pl, err := t.locateText(m)
	if err != nil {
		return mutant{}, err
	}
	src := pl.decl.file
	want := normal(apply(src.text, []edit{{pl.from, pl.to, pl.text}}))
	fits := func(c mutant) bool {
		at, err := t.locate(&c)
		return err == nil && at.decl.file == src && !at.renamed &&
			normal(apply(src.text, []edit{{at.from, at.to, at.text}})) == want
	}
	// What changes, without what is the same on both sides.
	a, b := 0, 0
	for a < min(len(m.old), len(m.new)) && m.old[a] == m.new[a] {
		a++
	}
	for b < min(len(m.old), len(m.new))-a && m.old[len(m.old)-1-b] == m.new[len(m.new)-1-b] {
		b++
	}
	from, to := pl.from+a, pl.to-b
	delta := len(m.new) - len(m.old)
	changed := apply(src.text, []edit{{pl.from, pl.to, pl.text}})
	var in decl
	for _, d := range t.decls {
		if d.file == src && int(d.node.Pos())-src.base <= from && to <= int(d.node.End())-src.base {
			in = d
		}
	}
	if in.node == nil {
		return mutant{}, fmt.Errorf("%q is in no declaration", m.old)
	}
	c := *m
	c.in = in.name
	if o, err := parsePattern(m.old); err == nil {
		c.old, c.new = o.String(), m.new
		if n, err := parsePattern(m.new); err == nil {
			c.new = n.String()
		}
		if fits(c) {
			return c, nil
		}
	}
	if c, ok := t.operand(m, c); ok {
		return c, nil
	}
	// The smallest piece of syntax around it that is there once.
	type unit struct{ from, to int }
	var units []unit
	add := func(p, q token.Pos) {
		u := unit{int(p) - src.base, int(q) - src.base}
		if u.from <= from && to <= u.to && u.from < u.to {
			units = append(units, u)
		}
	}
	lists := func(list []ast.Stmt) {
		for i := range list {
			for k := i; k < min(len(list), i+3); k++ {
				add(list[i].Pos(), list[k].End())
			}
		}
	}
	ast.Inspect(in.node, func(n ast.Node) bool {
		switch n := n.(type) {
		case ast.Expr:
			add(n.Pos(), n.End())
		case *ast.BlockStmt:
			lists(n.List)
		case *ast.CaseClause:
			lists(n.Body)
		case *ast.CommClause:
			lists(n.Body)
		}
		if s, ok := n.(ast.Stmt); ok && isHead(s) {
			add(s.Pos(), headEnd(s))
		}
		return true
	})
	slices.SortFunc(units, func(a, b unit) int { return a.to - a.from - (b.to - b.from) })
	for _, nth := range []bool{false, true} {
		for _, u := range units {
			o, err := parsePattern(string(src.text[u.from:u.to]))
			if err != nil {
				continue
			}
			with := string(changed[u.from : u.to+delta])
			if n, err := parsePattern(with); err == nil {
				with = n.String()
			} else if strings.TrimSpace(with) != "" {
				continue
			}
			c.in, c.old, c.new = in.name, o.String(), with
			if !nth && simple(o) {
				continue
			}
			if !nth {
				if len(c.old) < 140 && fits(c) {
					return c, nil
				}
				continue
			}
			for i := 1; i < 9; i++ {
				c.in = in.name + " #" + strconv.Itoa(i)
				if fits(c) {
					return c, nil
				}
			}
		}
	}
	return mutant{}, fmt.Errorf("no syntax around %q is there once", m.old)
}

// operand returns the row for one that takes an operand of && or || away: the
// operand becomes true or false.
func (t *tree) operand(m *mutant, c mutant) (mutant, bool) {
	old := strings.TrimSpace(m.old)
	for _, op := range []struct{ op, neutral string }{{"&&", "true"}, {"||", "false"}} {
		rest, after := strings.CutSuffix(old, op.op)
		if !after {
			rest, after = strings.CutPrefix(old, op.op)
		}
		p, err := parsePattern(strings.TrimSpace(strings.TrimPrefix(rest, "if ")))
		if !after || err != nil || p.expr == nil || strings.TrimSpace(strings.TrimPrefix(m.new, "if")) != "" {
			continue
		}
		c.old, c.new = p.String(), op.neutral
		if _, err := t.locate(&c); err == nil {
			return c, true
		}
	}
	return c, false
}

// simple reports whether a pattern is a mere name or literal.
func simple(p pattern) bool {
	e := p.expr
	for {
		switch x := e.(type) {
		case *ast.SelectorExpr:
			e = x.X
		case *ast.Ident, *ast.BasicLit:
			return true
		default:
			return false
		}
	}
}

// normal writes source without comments, as gofmt does.
func normal(src []byte) string {
	f, err := parser.ParseFile(token.NewFileSet(), "", src, parser.SkipObjectResolution)
	if err != nil {
		return err.Error()
	}
	var all strings.Builder
	for _, d := range f.Decls {
		ast.Inspect(d, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				n.Doc = nil
			case *ast.GenDecl:
				n.Doc = nil
			case *ast.Field:
				n.Doc, n.Comment = nil, nil
			case *ast.ValueSpec:
				n.Doc, n.Comment = nil, nil
			case *ast.TypeSpec:
				n.Doc, n.Comment = nil, nil
			case *ast.ParenExpr:
			}
			return true
		})
		all.WriteString(gofmt(d))
		all.WriteString("\n")
	}
	return all.String()
}
