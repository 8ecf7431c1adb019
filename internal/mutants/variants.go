// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
)

// switchName is the environment variable that switches a mutant on.
const switchName = "TEXTREPLAY_MUTANT"

// variants is source with many mutants in it, so that it is compiled once for
// all of them. Each changed function is there once more for each mutant, and
// begins with a switch:
//
//	func (b *buffer) end(t uint64) int {        func (b *buffer) end_mutant7(t uint64) int {
//		switch mutantOn {                           return t + 1
//		case 7:                                 }
//			return b.end_mutant7(t)
//		}
//		return t
//	}
type variants struct {
	files map[string][]byte // the changed and the added files, by path
	lines map[string][]lines
}

// lines are the lines of a file, from the first to the last, that belong to one mutant.
type lines struct{ mutant, from, to int }

// combine puts the mutants at these places into the source, each under its key.
// Those that are in no function are left out.
func combine(t *tree, places map[int]place) variants {
	v := variants{make(map[string][]byte), make(map[string][]lines)}
	changes := make(map[*source]*rewrite)
	for _, n := range slices.Sorted(maps.Keys(places)) {
		pl := places[n]
		f := pl.decl.function()
		if f == nil {
			continue
		}
		src := pl.decl.file
		r := changes[src]
		if r == nil {
			r = &rewrite{t: t, src: src, cases: make(map[*ast.FuncDecl]string)}
			changes[src] = r
			v.files[path.Join(path.Dir(src.path), "mutant_switch.go")] = fmt.Appendf(nil,
				"package %s\n\nimport (\n\"os\"\n\"strconv\"\n)\n\nvar mutantOn, _ = strconv.Atoi(os.Getenv(%q))\n", src.pkg, switchName)
		}
		r.add(n, f, pl)
	}
	for src, r := range changes {
		text := r.result()
		v.files[src.path] = text
		at := bytes.Count(text, []byte("\n")) - bytes.Count(r.copies.Bytes(), []byte("\n"))
		for _, l := range r.lines {
			v.lines[src.path] = append(v.lines[src.path], lines{l.mutant, l.from + at, l.to + at})
		}
	}
	return v
}

// mutantAt returns the mutant that a line of a file belongs to.
func (v variants) mutantAt(file string, line int) (int, bool) {
	for _, l := range v.lines[file] {
		if l.from <= line && line <= l.to {
			return l.mutant, true
		}
	}
	return 0, false
}

// A rewrite puts mutants into one file.
type rewrite struct {
	t      *tree
	src    *source
	cases  map[*ast.FuncDecl]string // of each function's switch
	copies bytes.Buffer             // of functions, to go behind the file's end
	lines  []lines                  // of copies
}

// add puts a mutant into its function.
func (r *rewrite) add(n int, f *ast.FuncDecl, pl place) {
	name := fmt.Sprintf("%s_mutant%d", f.Name.Name, n)
	from, to := r.offset(f.Pos()), r.offset(f.End())
	text := string(r.src.text)
	if f.Doc != nil {
		from = r.offset(f.Type.Func)
	}
	first := strings.Count(r.copies.String(), "\n") + 2
	fmt.Fprintf(&r.copies, "\n%s%s%s%s%s\n", text[from:r.offset(f.Name.Pos())], name,
		text[r.offset(f.Name.End()):pl.from], pl.text, text[pl.to:to])
	r.lines = append(r.lines, lines{n, first, strings.Count(r.copies.String(), "\n")})

	call := name + r.arguments(f)
	if f.Recv != nil {
		call = receiver(f) + "." + call
	}
	if f.Type.Results != nil && len(f.Type.Results.List) > 0 {
		call = "return " + call
	} else {
		call += "; return"
	}
	r.cases[f] += fmt.Sprintf("case %d: %s; ", n, call)
}

// offset returns the offset of a position in the file.
func (r *rewrite) offset(p token.Pos) int { return int(p) - r.src.base }

// receiver returns the name of a method's receiver, as result writes it.
func receiver(f *ast.FuncDecl) string {
	if names := f.Recv.List[0].Names; len(names) > 0 && names[0].Name != "_" {
		return names[0].Name
	}
	return "mutantReceiver"
}

// arguments returns the type and value arguments with which a function calls
// another one of its signature.
func (r *rewrite) arguments(f *ast.FuncDecl) string {
	var types, values []string
	if f.Type.TypeParams != nil {
		for _, field := range f.Type.TypeParams.List {
			for _, id := range field.Names {
				types = append(types, id.Name)
			}
		}
	}
	r.parameters(f, func(field *ast.Field, id *ast.Ident, name string) {
		if _, ok := field.Type.(*ast.Ellipsis); ok {
			name += "..."
		}
		values = append(values, name)
	})
	args := "(" + strings.Join(values, ", ") + ")"
	if len(types) > 0 {
		args = "[" + strings.Join(types, ", ") + "]" + args
	}
	return args
}

// parameters calls each with the parameters of a function, and the names that
// they have in its result: a new one if they have none.
func (r *rewrite) parameters(f *ast.FuncDecl, each func(field *ast.Field, id *ast.Ident, name string)) {
	n := 0
	for _, field := range f.Type.Params.List {
		if len(field.Names) == 0 {
			n++
			each(field, nil, fmt.Sprintf("mutantArg%d", n))
		}
		for _, id := range field.Names {
			n++
			if id.Name == "_" {
				each(field, id, fmt.Sprintf("mutantArg%d", n))
			} else {
				each(field, id, id.Name)
			}
		}
	}
}

// An edit replaces a range of a text.
type edit struct {
	from, to int
	text     string
}

// result returns the file with its mutants.
func (r *rewrite) result() []byte {
	var edits []edit
	for f, cases := range r.cases {
		body := r.offset(f.Body.Lbrace) + 1
		edits = append(edits, edit{body, body, " switch mutantOn { " + cases + "}; "})
		name := func(field *ast.Field, id *ast.Ident, name string) {
			switch {
			case id == nil:
				at := r.offset(field.Type.Pos())
				edits = append(edits, edit{at, at, name + " "})
			case id.Name == "_":
				edits = append(edits, edit{r.offset(id.Pos()), r.offset(id.End()), name})
			}
		}
		r.parameters(f, name)
		if f.Recv != nil {
			field := f.Recv.List[0]
			var id *ast.Ident
			if len(field.Names) > 0 {
				id = field.Names[0]
			}
			name(field, id, receiver(f))
		}
	}
	return append(apply(r.src.text, edits), r.copies.Bytes()...)
}

// apply returns a text with edits, which do not overlap.
func apply(text []byte, edits []edit) []byte {
	slices.SortFunc(edits, func(a, b edit) int { return cmp.Compare(a.from, b.from) })
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(out, text[at:e.from]...)
		out = append(out, e.text...)
		at = e.to
	}
	return append(out, text[at:]...)
}
