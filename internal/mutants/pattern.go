// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"reflect"
	"strings"
)

// A pattern is a piece of Go syntax. It has one of three forms:
//
//	a.addr <= b.addr            an expression
//	b.end(t); n++               statements that follow each other in one block
//	if n > 0 {                  the head of an if, for, switch or select
//	case a, b:                  the head of a case
//
// A head matches whatever its body holds. Space, line breaks and comments do
// not count.
type pattern struct {
	expr  ast.Expr   // an expression, or
	stmts []ast.Stmt // statements, or
	head  ast.Stmt   // a head: its body is empty
}

var errNoPattern = errors.New("neither an expression, nor statements, nor the head of a statement")

// parsePattern reads a pattern from its text.
func parsePattern(text string) (pattern, error) {
	text = strings.TrimSpace(text)
	switch {
	case strings.HasSuffix(text, "{"):
		stmts, err := parseStmts(text + "\n}")
		if err != nil || len(stmts) != 1 || !isHead(stmts[0]) {
			return pattern{}, errNoPattern
		}
		return pattern{head: withoutBody(stmts[0])}, nil
	case strings.HasSuffix(text, ":"):
		for _, of := range []string{"switch", "select"} {
			if stmts, err := parseStmts(of + " {\n" + text + "\n}"); err == nil && len(stmts) == 1 {
				if body := bodyOf(stmts[0]); body != nil && len(body.List) == 1 {
					return pattern{head: withoutBody(body.List[0])}, nil
				}
			}
		}
		return pattern{}, errNoPattern
	}
	if e, err := parser.ParseExprFrom(token.NewFileSet(), "", text, parser.SkipObjectResolution); err == nil {
		return pattern{expr: e}, nil
	}
	stmts, err := parseStmts(text)
	if err != nil || len(stmts) == 0 {
		return pattern{}, errNoPattern
	}
	return pattern{stmts: stmts}, nil
}

// parseStmts parses statements as they may be in the body of a function.
func parseStmts(text string) ([]ast.Stmt, error) {
	f, err := parser.ParseFile(token.NewFileSet(), "", "package p; func _() {\n"+text+"\n}", parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	if len(f.Decls) != 1 {
		return nil, errNoPattern
	}
	return f.Decls[0].(*ast.FuncDecl).Body.List, nil
}

// bodyOf returns the body of a statement that has one, else nil.
func bodyOf(s ast.Stmt) *ast.BlockStmt {
	switch s := s.(type) {
	case *ast.IfStmt:
		return s.Body
	case *ast.ForStmt:
		return s.Body
	case *ast.RangeStmt:
		return s.Body
	case *ast.SwitchStmt:
		return s.Body
	case *ast.TypeSwitchStmt:
		return s.Body
	case *ast.SelectStmt:
		return s.Body
	}
	return nil
}

// isHead reports whether a statement has a head that a pattern can name.
func isHead(s ast.Stmt) bool { return headEnd(s).IsValid() }

// headEnd returns where the head of a statement ends, behind its brace or
// colon; token.NoPos if it has no head.
func headEnd(s ast.Stmt) token.Pos {
	switch s := s.(type) {
	case *ast.CaseClause:
		return s.Colon + 1
	case *ast.CommClause:
		return s.Colon + 1
	}
	if body := bodyOf(s); body != nil {
		return body.Lbrace + 1
	}
	return token.NoPos
}

// withoutBody returns a copy of a statement's head.
func withoutBody(s ast.Stmt) ast.Stmt {
	switch s := s.(type) {
	case *ast.IfStmt:
		c := *s
		c.Body, c.Else = new(ast.BlockStmt), nil
		return &c
	case *ast.ForStmt:
		c := *s
		c.Body = new(ast.BlockStmt)
		return &c
	case *ast.RangeStmt:
		c := *s
		c.Body = new(ast.BlockStmt)
		return &c
	case *ast.SwitchStmt:
		c := *s
		c.Body = new(ast.BlockStmt)
		return &c
	case *ast.TypeSwitchStmt:
		c := *s
		c.Body = new(ast.BlockStmt)
		return &c
	case *ast.SelectStmt:
		c := *s
		c.Body = new(ast.BlockStmt)
		return &c
	case *ast.CaseClause:
		c := *s
		c.Body = nil
		return &c
	case *ast.CommClause:
		c := *s
		c.Body = nil
		return &c
	}
	return nil
}

// A span is a range of a file's positions.
type span struct {
	from, to token.Pos
	whole    bool // an expression that is a statement
	operand  bool // an expression that needs parentheses if a binary one replaces it
}

// find calls found with every place below root where p is, and the names that
// differ there; none may differ if exact.
func (p pattern) find(root ast.Node, exact bool, found func(span, *renaming)) {
	try := func(at span, pattern, val any) {
		names := &renaming{exact: exact}
		if names.match(reflect.ValueOf(pattern), reflect.ValueOf(val)) {
			found(at, names)
		}
	}
	lists := func(list []ast.Stmt) {
		for i := range list {
			if n := len(p.stmts); n > 0 && i+n <= len(list) {
				try(span{from: list[i].Pos(), to: list[i+n-1].End()}, p.stmts, list[i:i+n])
			}
		}
	}
	var parents []ast.Node
	ast.Inspect(root, func(n ast.Node) bool {
		if n == nil {
			parents = parents[:len(parents)-1]
			return false
		}
		var parent ast.Node
		if len(parents) > 0 {
			parent = parents[len(parents)-1]
		}
		parents = append(parents, n)
		switch n := n.(type) {
		case ast.Expr:
			if p.expr != nil {
				at := span{from: n.Pos(), to: n.End(), operand: isOperand(parent)}
				_, at.whole = parent.(*ast.ExprStmt)
				try(at, p.expr, n)
			}
		case *ast.BlockStmt:
			lists(n.List)
		case *ast.CaseClause:
			lists(n.Body)
		case *ast.CommClause:
			lists(n.Body)
		}
		if s, ok := n.(ast.Stmt); ok && p.head != nil && isHead(s) {
			try(span{from: s.Pos(), to: headEnd(s)}, p.head, withoutBody(s))
		}
		return true
	})
}

// isOperand reports whether a binary expression that is put below n needs
// parentheses.
func isOperand(n ast.Node) bool {
	switch n.(type) {
	case *ast.BinaryExpr, *ast.UnaryExpr, *ast.StarExpr, *ast.SelectorExpr:
		return true
	}
	return false
}

// A renaming matches two pieces of syntax. The second may use other
// names: each name of the first has one name in the second. No two have the same
// one, but for fields and methods, which may be of different types.
type renaming struct {
	exact bool              // names must be the same
	to    map[string]string // from the names of the first to those of the second; those of fields and methods begin with a dot
	from  map[string]string // and back
}

// renamed returns how many names differ, and how many do not.
func (r *renaming) renamed() (differ, same int) {
	for a, b := range r.to {
		if a == b {
			same++
		} else {
			differ++
		}
	}
	return differ, same
}

func (r *renaming) name(a, b string) bool {
	if r.exact {
		return a == b
	}
	if isPredeclared(a) || isPredeclared(b) {
		return a == b
	}
	if r.to == nil {
		r.to, r.from = make(map[string]string), make(map[string]string)
	}
	to, seen := r.to[a]
	from, taken := r.from[b]
	if taken && strings.HasPrefix(b, ".") {
		from = a
	}
	if !seen && (!taken || from == a) {
		r.to[a], r.from[b] = b, a
		return true
	}
	return seen && taken && to == b && from == a
}

// isPredeclared reports whether a name is Go's own. Nobody renames these.
func isPredeclared(name string) bool {
	switch name {
	case "_", "true", "false", "nil", "iota",
		"append", "cap", "clear", "close", "copy", "delete", "len", "make", "max", "min", "new", "panic",
		"any", "bool", "byte", "error", "int", "int8", "int16", "int32", "int64", "string",
		"uint", "uint8", "uint16", "uint32", "uint64", "uintptr":
		return true
	}
	return false
}

// match reports whether two pieces of syntax are the same but for positions,
// comments and, unless exact, names.
func (r *renaming) match(a, b reflect.Value) bool {
	if a.Kind() == reflect.Interface {
		a, b = a.Elem(), b.Elem()
	}
	if !a.IsValid() || !b.IsValid() {
		return !a.IsValid() && !b.IsValid()
	}
	if a.Type() != b.Type() {
		return false
	}
	switch x := a.Interface().(type) {
	case *ast.CommentGroup:
		return true
	case token.Pos: // of an ellipsis, or of the = of an alias: there or not
		return x.IsValid() == b.Interface().(token.Pos).IsValid()
	case *ast.Ident:
		y := b.Interface().(*ast.Ident)
		if x == nil || y == nil {
			return x == y
		}
		return r.name(x.Name, y.Name)
	case *ast.SelectorExpr:
		y := b.Interface().(*ast.SelectorExpr)
		if x == nil || y == nil {
			return x == y
		}
		return r.match(reflect.ValueOf(x.X), reflect.ValueOf(y.X)) && r.name("."+x.Sel.Name, "."+y.Sel.Name)
	case *ast.BlockStmt:
		y := b.Interface().(*ast.BlockStmt)
		if x == nil || y == nil {
			return x == y
		}
		return r.match(reflect.ValueOf(x.List), reflect.ValueOf(y.List))
	}
	switch a.Kind() {
	case reflect.Slice:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !r.match(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Pointer:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() && b.IsNil()
		}
		return r.match(a.Elem(), b.Elem())
	case reflect.Struct:
		for i := range a.NumField() {
			if !r.match(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	}
	return a.Interface() == b.Interface()
}

// rename writes text, a pattern, with the second's names of the renaming.
func (r *renaming) rename(text string) (string, error) {
	if differ, _ := r.renamed(); differ == 0 || text == "" {
		return text, nil
	}
	p, err := parsePattern(text)
	if err != nil {
		return "", err
	}
	fields := make(map[*ast.Ident]bool)
	p.inspect(func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			fields[n.Sel] = true
			if to, ok := r.to["."+n.Sel.Name]; ok {
				n.Sel.Name = to[1:]
			}
		case *ast.Ident:
			if to, ok := r.to[n.Name]; ok && !fields[n] {
				n.Name = to
			}
		}
		return true
	})
	return p.String(), nil
}

// inspect walks the syntax of p.
func (p pattern) inspect(f func(ast.Node) bool) {
	switch {
	case p.expr != nil:
		ast.Inspect(p.expr, f)
	case p.head != nil:
		ast.Inspect(p.head, f)
	}
	for _, s := range p.stmts {
		ast.Inspect(s, f)
	}
}

// String writes p as gofmt does.
func (p pattern) String() string {
	switch {
	case p.expr != nil:
		return gofmt(p.expr)
	case p.head != nil:
		head := gofmt(p.head)
		return strings.TrimSpace(strings.TrimSuffix(head, "}"))
	}
	return gofmt(p.stmts)
}

// gofmt prints syntax as gofmt does.
func gofmt(node any) string {
	var buf bytes.Buffer
	cfg := printer.Config{Mode: printer.UseSpaces | printer.TabIndent, Tabwidth: 8}
	if err := cfg.Fprint(&buf, token.NewFileSet(), node); err != nil {
		panic(fmt.Sprintf("printing %T: %v", node, err)) // a node that go/parser made
	}
	return strings.TrimSpace(buf.String())
}
