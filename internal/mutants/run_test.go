// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A module with functions of every shape, and tests that notice some changes.
var module = map[string]string{
	"go.mod": "module example.org/m\n\ngo 1.26\n",
	"lib/lib.go": `package lib

const Limit = 7

// Add adds.
func Add(a, b int) int { return a + b }

func Fill(_ int, all ...*int) (n int, err error) {
	for _, p := range all {
		*p = 1
		n++
	}
	return n, nil
}

type set[T comparable] struct{ m map[T]bool }

func (s *set[T]) has(x T) bool { return s.m[x] }

func first[A any, B any](a A, b B) (x A) {
	x = a
	_ = b
	return
}

type flag bool

func (flag) name(int) string { return "flag" }

func Loop(n int) int {
	if n == 0 {
		return 0
	}
	return 1 + Loop(n-1)
}
`,
	"lib/lib_test.go": `package lib

import "testing"

func check(t *testing.T, ok bool) {
	t.Helper()
	if !ok {
		t.Error("no")
	}
}

func TestAdd(t *testing.T) {
	t.Run("two and two", func(t *testing.T) { check(t, Add(2, 2) == 4) })
}

func TestFill(t *testing.T) {
	var a, b int
	n, err := Fill(0, &a, &b)
	check(t, n == 2 && err == nil && a == 1 && b == 1)
}

func TestGeneric(t *testing.T) {
	s := set[int]{map[int]bool{1: true}}
	check(t, s.has(1) && !s.has(2) && first(1, "x") == 1)
}

func TestName(t *testing.T) { check(t, flag(true).name(0) == "flag") }

func TestLoop(t *testing.T) { check(t, Loop(3) == 3) }

func TestFails(t *testing.T) { check(t, false) }
`,
	"outer/outer_test.go": `package outer_test

import (
	"testing"

	"example.org/m/lib"
)

func TestLimit(t *testing.T) {
	if lib.Limit != 7 {
		t.Error(lib.Limit)
	}
}
`,
}

// TestKill: which mutants count as killed.
func TestKill(t *testing.T) {
	root := t.TempDir()
	for name, text := range module {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	tr, err := readTree(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		m   mutant
		bad string // part of the error; "" if it is killed
	}{
		{mutant{off: "a function", in: "Add", old: "a + b", new: "a - b", test: "TestAdd/two and two"}, ""},
		{mutant{off: "no test notices", in: "Add", old: "a + b", new: "b + a", test: "TestAdd/two and two"}, "survives"},
		{mutant{off: "another function is tested", in: "Add", old: "a + b", new: "a - b", test: "TestFill"}, "survives"},
		{mutant{off: "variadic, and an unnamed parameter", in: "Fill", old: "*p = 1", new: "*p = 2", test: "TestFill"}, ""},
		{mutant{off: "a method of a generic type", in: "set.has", old: "s.m[x]", new: "true", test: "TestGeneric"}, ""},
		{mutant{off: "a generic function", in: "first", old: "x = a", new: "", test: "TestGeneric"}, ""},
		{mutant{off: "nothing has a name", in: "flag.name", old: "`flag`", new: "``", test: "TestName"}, "no \"`flag`\""},
		{mutant{off: "no receiver", in: "flag.name", old: `"flag"`, new: `""`, test: "TestName"}, ""},
		{mutant{off: "a recursive function", in: "Loop", old: "return 0", new: "return 1", test: "TestLoop"}, ""},
		{mutant{off: "does not compile", in: "Fill", old: "n++", new: "n = all", test: "TestFill"}, "does not compile"},
		{mutant{off: "fails without it", in: "Add", old: "a + b", new: "a - b", test: "TestFails"}, "fails without it"},
		{mutant{off: "no such subtest", in: "Add", old: "a + b", new: "a - b", test: "TestAdd/none"}, "is not there"},
		{mutant{off: "a constant, tested in another package", in: "Limit", old: "7", new: "8", test: "TestLimit"}, ""},
		{mutant{off: "a function, tested nowhere", in: "Add", old: "a + b", new: "a - b", test: "TestNowhere"}, "there is no test TestNowhere"},
	}
	b := &bench{root: root, tree: tr, temp: t.TempDir(), parallel: 2, report: func(*trial) {}}
	var all, runs []*trial
	for i := range rows {
		tl, err := newTrial(tr, &rows[i].m)
		if tl.err = err; err == nil {
			runs = append(runs, tl)
		}
		all = append(all, tl)
	}
	if err := b.run(runs); err != nil {
		t.Fatal(err)
	}
	for i, tl := range all {
		name, bad := rows[i].m.off, rows[i].bad
		switch {
		case tl.err == nil && bad != "":
			t.Errorf("%s: killed, want %q", name, bad)
		case tl.err != nil && bad == "":
			t.Errorf("%s: %v", name, tl.err)
		case tl.err != nil && !strings.Contains(tl.err.Error(), bad):
			t.Errorf("%s: %v, want %q", name, tl.err, bad)
		}
	}
}
