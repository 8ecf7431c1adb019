// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// A tree is the source of a module, as this machine would build it.
type tree struct {
	fset  *token.FileSet
	decls []decl
	tests map[string][]string // the directories that have a test of that name
}

// A source is a file of a tree.
type source struct {
	path string // from the module's root, with slashes
	text []byte
	pkg  string
	base int // of its positions
}

// A decl is a function, or a variable, constant or type of a package.
type decl struct {
	name string // Func, Type.Method, or the name of what is declared
	file *source
	node ast.Node // *ast.FuncDecl, *ast.ValueSpec, *ast.TypeSpec
}

// function returns the declaration if it is a function with a body, else nil.
func (d decl) function() *ast.FuncDecl {
	if f, ok := d.node.(*ast.FuncDecl); ok && f.Body != nil {
		return f
	}
	return nil
}

// method returns a declaration's name without the type of its receiver.
func method(name string) string { return name[strings.LastIndexByte(name, '.')+1:] }

var testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Example)\w*)\(`)

// readTree reads all Go files below the root of a module.
func readTree(fsys fs.FS) (*tree, error) {
	t := &tree{fset: token.NewFileSet(), tests: make(map[string][]string)}
	ctx := build.Default
	ctx.OpenFile = func(name string) (io.ReadCloser, error) { return fsys.Open(name) }
	ctx.JoinPath = path.Join
	err := fs.WalkDir(fsys, ".", func(name string, e fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil:
			return err
		case e.IsDir() && name != "." && (base == "testdata" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")):
			return fs.SkipDir
		case e.IsDir() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		if ok, err := ctx.MatchFile(path.Dir(name), path.Base(name)); err != nil || !ok {
			return err
		}
		text, err := fs.ReadFile(fsys, name)
		if err != nil {
			return err
		}
		if strings.HasSuffix(name, "_test.go") {
			for _, m := range testFunc.FindAllSubmatch(text, -1) {
				t.tests[string(m[1])] = append(t.tests[string(m[1])], path.Dir(name))
			}
			return nil
		}
		return t.add(name, text)
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// add adds a file and its declarations to the tree. Of names that are declared together,
// the first one counts.
func (t *tree) add(name string, text []byte) error {
	f, err := parser.ParseFile(t.fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	src := &source{path: name, text: text, pkg: f.Name.Name, base: t.fset.File(f.FileStart).Base()}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			t.decls = append(t.decls, decl{funcName(d), src, d})
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					t.decls = append(t.decls, decl{s.Names[0].Name, src, s})
				case *ast.TypeSpec:
					t.decls = append(t.decls, decl{s.Name.Name, src, s})
				}
			}
		}
	}
	return nil
}

// funcName returns Func or Type.Method.
func funcName(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	typ := f.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.ParenExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.Name + "." + f.Name.Name
		default:
			return f.Name.Name
		}
	}
}

// A place is where a mutant changes the source, and how.
type place struct {
	decl     decl
	from, to int    // offsets in the file
	text     string // what comes there

	// If the row's own names are not those of the source any more:
	renamed bool
	in, old string // the row's names as they are now
	new     string
}

// locate finds the one place of a mutant.
//
// If the source has been renamed since the row was written, so that nothing
// matches by name, it is the place that differs in the fewest names.
func (t *tree) locate(m *mutant) (place, error) {
	p, err := parsePattern(m.old)
	if err != nil {
		return place{}, fmt.Errorf("%q: %w", m.old, err)
	}
	in, nth := m.in, 0
	if name, n, ok := strings.Cut(in, " #"); ok {
		in = name
		if _, err := fmt.Sscanf(n, "%d", &nth); err != nil || nth < 1 {
			return place{}, fmt.Errorf("%q: not the number of a match", n)
		}
	}
	named := func(d decl) bool { return d.name == in }
	alike := func(d decl) bool { return method(d.name) == method(in) }
	all := func(decl) bool { return true }
	for _, step := range []struct {
		of    func(decl) bool
		exact bool
	}{{named, true}, {named, false}, {alike, true}, {all, true}, {alike, false}} {
		found, err := t.matches(m, p, step.of, step.exact)
		if err != nil {
			return place{}, err
		}
		if len(found) == 0 {
			continue
		}
		if nth > 0 {
			if nth > len(found) {
				return place{}, fmt.Errorf("%s has %q only %d times", in, m.old, len(found))
			}
			found = found[nth-1 : nth]
		}
		if len(found) > 1 {
			return place{}, fmt.Errorf("%s has %q %d times (%s)", in, m.old, len(found), t.lines(found))
		}
		at := found[0]
		if nth > 0 {
			at.in = fmt.Sprintf("%s #%d", at.in, nth)
		}
		return at, nil
	}
	for _, d := range t.decls {
		if named(d) {
			return place{}, fmt.Errorf("%s has no %q", in, m.old)
		}
	}
	return place{}, fmt.Errorf("there is no %s, and %q nowhere else", in, m.old)
}

// lines returns the files and lines of places, for messages.
func (t *tree) lines(at []place) string {
	var s []string
	for _, p := range at {
		s = append(s, fmt.Sprintf("%s:%d", p.decl.file.path, t.fset.Position(token.Pos(p.decl.file.base+p.from)).Line))
	}
	return strings.Join(s, ", ")
}

// matches returns the places where a mutant's pattern is, in declarations of
// which of reports true: all of them if exact, else those that differ in the
// fewest names, and in no more than they have in common.
func (t *tree) matches(m *mutant, p pattern, of func(decl) bool, exact bool) ([]place, error) {
	var found []place
	var bad []error
	least := 0
	with, err := parsePattern(m.new)
	statement := p.expr != nil && (err != nil || with.expr == nil) // no expression replaces p
	for _, d := range t.decls {
		if !of(d) {
			continue
		}
		p.find(d.node, exact, func(at span, names *renaming) {
			differ, same := names.renamed()
			if differ > same || len(found) > 0 && differ > least || statement && !at.whole {
				return
			}
			pl, err := at.change(d, m, names)
			if err != nil {
				bad = append(bad, err)
				return
			}
			if differ < least {
				found = found[:0]
			}
			least = differ
			found = append(found, pl)
		})
	}
	if len(found) == 0 {
		return nil, errors.Join(bad...)
	}
	return found, nil
}

// change returns the place of a mutant whose pattern matches at a span.
func (s span) change(d decl, m *mutant, names *renaming) (place, error) {
	pl := place{
		decl: d,
		from: int(s.from) - d.file.base,
		to:   int(s.to) - d.file.base,
		in:   d.name,
	}
	var err error
	if pl.old, err = names.rename(m.old); err != nil {
		return place{}, err
	}
	if pl.new, err = names.rename(m.new); err != nil {
		return place{}, fmt.Errorf("%q: %w", m.new, err)
	}
	differ, _ := names.renamed()
	name, _, _ := strings.Cut(m.in, " #")
	pl.renamed = differ > 0 || d.name != name
	pl.text = pl.new
	if with, err := parsePattern(pl.new); err == nil && s.operand {
		if _, ok := with.expr.(*ast.BinaryExpr); ok {
			pl.text = "(" + pl.new + ")"
		}
	}
	return pl, nil
}
