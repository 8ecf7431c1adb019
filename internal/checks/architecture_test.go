// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// A place in docs/architecture.md is one or more functions with their file:
// `Builder.Gap` (timeline/builder.go), `A` and `B` (dir/file.go).
var (
	placePattern = regexp.MustCompile("((?:`[\\w.]+`(?:,| and)?\\s+)+)\\(([\\w/]+\\.go)\\)")
	namePattern  = regexp.MustCompile("`([\\w.]+)`")
	filePattern  = regexp.MustCompile(`[\w/]+/\w+\.go`)
)

// TestPlacesInArchitecture: each function that docs/architecture.md names is in the file that
// it names, and each file exists.
func TestPlacesInArchitecture(t *testing.T) {
	root := filepath.Join("..", "..")
	text, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range filePattern.FindAllString(string(text), -1) {
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			t.Error(err)
		}
	}
	places := placePattern.FindAllStringSubmatch(string(text), -1)
	if len(places) < 30 {
		t.Fatalf("only %d places", len(places))
	}
	for _, p := range places {
		funcs, err := functionsOf(filepath.Join(root, p[2]))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, name := range namePattern.FindAllStringSubmatch(p[1], -1) {
			if !funcs[name[1]] {
				t.Errorf("%s is not in %s", name[1], p[2])
			}
		}
	}
}

// functionsOf returns the functions and methods of a file, as Func and Type.Method.
func functionsOf(file string) (map[string]bool, error) {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	funcs := make(map[string]bool)
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		name := fn.Name.Name
		if fn.Recv != nil {
			var recv strings.Builder
			ast.Inspect(fn.Recv.List[0].Type, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && recv.Len() == 0 {
					recv.WriteString(id.Name)
				}
				return true
			})
			name = recv.String() + "." + name
		}
		funcs[name] = true
	}
	return funcs, nil
}

// TestPlacePattern: how places are written.
func TestPlacePattern(t *testing.T) {
	got := placePattern.FindAllStringSubmatch("x `A.b` (d/e.go), then `F`, `G` and\n`h.I` (d/j.go). `K` calls `L` (m.go)", -1)
	var places []string
	for _, p := range got {
		for _, n := range namePattern.FindAllStringSubmatch(p[1], -1) {
			places = append(places, n[1]+" "+p[2])
		}
	}
	if s := strings.Join(places, "|"); s != "A.b d/e.go|F d/j.go|G d/j.go|h.I d/j.go|L m.go" {
		t.Errorf("places %s", s)
	}
}
