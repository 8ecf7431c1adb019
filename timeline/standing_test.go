// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestReasonComments: the comment of each reason is its text, as go doc shows it.
func TestReasonComments(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "standing.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.CONST || g.Specs[0].(*ast.ValueSpec).Names[0].Name != "ReasonNone" {
			continue
		}
		for i, s := range g.Specs {
			v := s.(*ast.ValueSpec)
			if got := strings.TrimSpace(v.Comment.Text()); i > 0 && got != Reason(i).Text() {
				t.Errorf("the comment of %s is %q, its text is %q", v.Names[0].Name, got, Reason(i).Text())
			}
			n++
		}
	}
	if n != len(reasons) {
		t.Errorf("%d constants, %d texts", n, len(reasons))
	}
}
