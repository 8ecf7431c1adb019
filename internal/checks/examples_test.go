// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
)

// notRun are the packages whose examples are only compiled: they need more than the
// repository has.
var notRun = map[string]string{
	"timeline/kernelsource": "the debug information of a kernel",
}

// TestExamples: each package that other modules can import has an example, which go test runs.
func TestExamples(t *testing.T) {
	packages, run := make(map[string]bool), make(map[string]bool)
	eachFile(t, ".go", func(name string, text []byte) {
		dir := path.Dir(name)
		if dir == "." || strings.HasPrefix(dir, "internal/") || strings.Contains(dir, "testdata") {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "_test.go") {
			packages[dir] = packages[dir] || f.Name.Name != "main"
			return
		}
		for _, x := range doc.Examples([]*ast.File{f}...) {
			run[dir] = run[dir] || x.Output != "" || notRun[dir] != ""
		}
	})
	if len(packages) < 10 {
		t.Fatalf("only %d packages", len(packages))
	}
	for dir, library := range packages {
		if library && !run[dir] {
			t.Errorf("package %s has no example that is run", dir)
		}
	}
}
