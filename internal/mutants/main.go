// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Mutants proves that the tests hold the rules of truth. It switches off one
// clause of a rule after the other, and checks that the test which is named for
// the clause fails. table.go lists them.
//
//	go run ./internal/mutants            # all of them
//	go run ./internal/mutants -only lifetimes
//	go run ./internal/mutants -list
//	go run ./internal/mutants -only 'snapshot|old-bytes' -with TestModel
//	go run ./internal/mutants -fix
//	go run ./internal/mutants -docs      # docs/clauses.md: what decides and tests each rule
//
// A mutant names a function and a piece of its syntax, so its place is found
// wherever that function is moved, and however it is formatted. After a renaming
// the place is still found, and -fix writes the new names into table.go.
//
// The source does not change: go test -overlay replaces files. All mutants are
// compiled into one program, in which an environment variable switches one on.
// A mutant that survives its test is an error, and so is one that does not
// compile, one whose syntax is not in its function exactly once, and one whose
// test does not exist or fails without it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// A mutant is one change of the source that a test must notice.
type mutant struct {
	rule string // the rule of docs/truth.md that it breaks
	off  string // what is switched off
	in   string // the function, as Func or Type.Method, or a constant or variable; " #2" takes the second match
	old  string // syntax that is there once: see pattern
	new  string // what replaces it
	test string // that must fail, with subtests as t.Run names them
}

func (m *mutant) String() string { return m.rule + ": " + m.off }

func main() {
	only := flag.String("only", "", "run mutants whose rule name or text matches this `regexp`")
	list := flag.Bool("list", false, "list the mutants, and check that their places are there; run none")
	fix := flag.Bool("fix", false, "write table.go with the names that the source has now; run none")
	docs := flag.Bool("docs", false, "write docs/clauses.md; run none")
	with := flag.String("with", "", "try all of them with this `test` instead of their own")
	parallel := flag.Int("j", runtime.NumCPU(), "run `n` at once")
	flag.Parse()
	if *docs {
		if err := updateDocs(); err != nil {
			fmt.Fprintln(os.Stderr, "mutants:", err)
			os.Exit(1)
		}
		return
	}
	if err := run(*only, *with, *list, *fix, *parallel); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func updateDocs() error {
	root, err := repository()
	if err != nil {
		return err
	}
	return writeClauses(root)
}

func run(only, with string, list, fix bool, parallel int) error {
	re, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	root, err := repository()
	if err != nil {
		return err
	}
	t, err := readTree(os.DirFS(root))
	if err != nil {
		return err
	}
	if fix {
		return rewriteTable(t, filepath.Join(root, "internal", "mutants", "table.go"))
	}
	var trials []*trial
	var bad []error
	for i := range mutants {
		if m := mutants[i]; re.MatchString(m.String()) {
			if with != "" {
				m.test = with
			}
			tr, err := newTrial(t, &m)
			if err != nil {
				bad = append(bad, fmt.Errorf("%v: %w", &m, err))
			}
			trials = append(trials, tr)
		}
	}
	if len(trials) == 0 {
		return fmt.Errorf("none matches %q", only)
	}
	if list || len(bad) > 0 {
		if list {
			printList(t, trials)
		}
		return errors.Join(bad...)
	}
	return kill(root, t, trials, parallel)
}

// newTrial finds the place and the test of a mutant.
func newTrial(t *tree, m *mutant) (*trial, error) {
	tr := &trial{mutant: m}
	var err error
	if tr.place, err = t.locate(m); err != nil {
		return tr, err
	}
	tr.dir, err = testDir(t, m, tr.place)
	return tr, err
}

// printList prints mutants with their places.
func printList(t *tree, trials []*trial) {
	for _, tr := range trials {
		fmt.Printf("%-18s %s\n", tr.rule, tr.off)
		if tr.place.decl.file != nil {
			fmt.Printf("%18s %s, %s, %s\n", "", tr.in, t.lines([]place{tr.place}), tr.test)
			if tr.place.renamed {
				fmt.Printf("%18s renamed since: %s has %s; -fix writes that into table.go\n", "", tr.place.in, tr.place.old)
			}
		}
	}
}

// kill runs the trials and reports those that were not killed.
func kill(root string, t *tree, trials []*trial, parallel int) error {
	start := time.Now()
	temp, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	survived := 0
	b := &bench{root: root, tree: t, temp: temp, parallel: parallel, report: func(tr *trial) {
		if tr.err != nil {
			survived++
			fmt.Printf("BAD     %v\n        %v\n", tr, tr.err)
		} else {
			fmt.Printf("killed  %v\n", tr)
		}
	}}
	if err := b.run(trials); err != nil {
		return err
	}
	if survived > 0 {
		return fmt.Errorf("%d of %d mutants were not killed by their tests", survived, len(trials))
	}
	fmt.Printf("%d mutants, each killed by its test, in %v\n", len(trials), time.Since(start).Round(time.Second))
	return nil
}

// repository returns the root of the module in which the command runs.
func repository() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}
