// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
)

// TestProseOfNames: each type and function that other files can use has a comment, which
// begins with its name.
func TestProseOfNames(t *testing.T) {
	n := 0
	eachFile(t, ".go", func(name string, text []byte) {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(path.Base(name), "doc_") {
			return
		}
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		check := func(id *ast.Ident, docs ...*ast.CommentGroup) {
			if !id.IsExported() {
				return
			}
			n++
			for _, doc := range docs {
				if doc != nil && begins(doc.Text(), id.Name) {
					return
				}
			}
			t.Errorf("%s:%d: the comment of %s does not begin with its name", name, fset.Position(id.Pos()).Line, id.Name)
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if f.Name.Name != "main" && !isUsual(d) && exportedReceiver(d) {
					check(d.Name, d.Doc)
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					if s, ok := s.(*ast.TypeSpec); ok && f.Name.Name != "main" {
						check(s.Name, s.Doc, d.Doc)
					}
				}
			}
		}
	})
	if n < 500 {
		t.Fatalf("only %d names", n)
	}
}

// begins reports whether a comment begins with a name, after an article perhaps.
func begins(doc, name string) bool {
	for _, article := range []string{"A ", "An ", "The "} {
		doc = strings.TrimPrefix(doc, article)
	}
	rest, ok := strings.CutPrefix(doc, name)
	return ok && (rest == "" || strings.ContainsAny(rest[:1], " ,:.\n'"))
}

// isUsual reports whether a method is one of an interface of Go's library, whose name says
// all.
func isUsual(d *ast.FuncDecl) bool {
	switch d.Name.Name {
	case "Error", "Unwrap", "Len", "Less", "Swap", "Push", "Pop", "ServeHTTP":
		return d.Recv != nil
	}
	return false
}

// exportedReceiver reports whether a function is no method of a type that is not exported.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	typ := d.Recv.List[0].Type
	if p, ok := typ.(*ast.StarExpr); ok {
		typ = p.X
	}
	id, ok := typ.(*ast.Ident)
	return !ok || id.IsExported()
}
