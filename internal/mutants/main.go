// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Mutants proves that the tests hold the rules of truth: it switches off one
// clause of a rule after the other, and checks that the test which is named for
// it fails. table.go lists them.
//
//	go run ./internal/mutants            # all of them
//	go run ./internal/mutants -only lifetimes
//	go run ./internal/mutants -list
//	go run ./internal/mutants -only 'snapshot|old-bytes' -with TestModel
//
// The source is not touched: the changed file is laid over it (go test
// -overlay). A mutant that survives its test is an error, and so are one that
// does not compile, one whose old text does not stand in its file exactly once,
// and one whose test does not exist or fails without it.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// A mutant is one change of the source that a test must notice.
type mutant struct {
	rule string // the rule of docs/truth.md that it breaks
	off  string // what is switched off
	file string // from the repository's root
	old  string // stands in file exactly once
	new  string
	test string // that must fail, with subtests as t.Run names them
}

func (m *mutant) pkg() string { return "./" + filepath.ToSlash(filepath.Dir(m.file)) }

func (m *mutant) String() string { return m.rule + ": " + m.off }

func main() {
	only := flag.String("only", "", "run mutants whose rule name or text matches this `regexp`")
	list := flag.Bool("list", false, "list the mutants, and check that their texts are there; run none")
	with := flag.String("with", "", "try all of them with this `test` instead of their own")
	parallel := flag.Int("j", min(2, runtime.NumCPU()), "run `n` at once")
	flag.Parse()
	if err := run(*only, *with, *list, *parallel); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(only, with string, list bool, parallel int) error {
	re, err := regexp.Compile(only)
	if err != nil {
		return err
	}
	var chosen []mutant
	for _, m := range mutants {
		if re.MatchString(m.String()) {
			if with != "" {
				m.test = with
			}
			chosen = append(chosen, m)
		}
	}
	if len(chosen) == 0 {
		return fmt.Errorf("none matches %q", only)
	}
	root, err := repository()
	if err != nil {
		return err
	}
	if list {
		var bad []error
		for _, m := range chosen {
			_, _, err := m.source(root)
			if err != nil {
				bad = append(bad, fmt.Errorf("%v: %w", &m, err))
			}
			fmt.Printf("%-10s %s\n           %s, %s\n", m.rule, m.off, m.file, m.test)
		}
		return errors.Join(bad...)
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	start := time.Now()
	bad := make([]error, len(chosen))
	passing, err := passingTests(root, chosen)
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan bool, max(1, parallel))
	for i := range chosen {
		m := &chosen[i]
		wg.Add(1)
		slots <- true
		go func() {
			defer func() { <-slots; wg.Done() }()
			if !passing[m.pkg()+" "+testName(m.test)] {
				bad[i] = fmt.Errorf("its test %q is not there, or fails without it", m.test)
			} else {
				bad[i] = m.try(root, filepath.Join(dir, fmt.Sprint(i)))
			}
			mu.Lock()
			defer mu.Unlock()
			if bad[i] != nil {
				fmt.Printf("BAD     %v\n        %v\n", m, bad[i])
			} else {
				fmt.Printf("killed  %v\n", m)
			}
		}()
	}
	wg.Wait()
	if n := len(chosen) - count(bad, nil); n > 0 {
		return fmt.Errorf("%d of %d mutants were not killed by their tests", n, len(chosen))
	}
	fmt.Printf("%d mutants, each killed by its test, in %v\n", len(chosen), time.Since(start).Round(time.Second))
	return nil
}

func count(errs []error, want error) (n int) {
	for _, err := range errs {
		if err == want {
			n++
		}
	}
	return n
}

// repository returns the root of the module in which the command runs.
func repository() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// testName writes a test's name as go test prints it.
func testName(test string) string { return strings.ReplaceAll(test, " ", "_") }

// pattern is the -run pattern of exactly one test.
func pattern(test string) string {
	parts := strings.Split(testName(test), "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// passingTests runs all tests that mutants name, without any mutant, and
// returns those that pass, as "PACKAGE NAME".
func passingTests(root string, chosen []mutant) (map[string]bool, error) {
	tops := make(map[string][]string) // by package
	for _, m := range chosen {
		top, _, _ := strings.Cut(m.test, "/")
		if !slices.Contains(tops[m.pkg()], top) {
			tops[m.pkg()] = append(tops[m.pkg()], top)
		}
	}
	passing := make(map[string]bool)
	for pkg, names := range tops {
		cmd := exec.Command("go", "test", "-vet=off", "-short", "-v", "-run", "^("+strings.Join(names, "|")+")$", pkg)
		cmd.Dir = root
		out, _ := cmd.CombinedOutput() // a test that fails is not among those that pass
		for line := range strings.Lines(string(out)) {
			if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- PASS: "); ok {
				name, _, _ = strings.Cut(name, " (")
				passing[pkg+" "+name] = true
			}
		}
		if len(passing) == 0 {
			return nil, fmt.Errorf("%s: no test passes:\n%s", pkg, out)
		}
	}
	return passing, nil
}

// source returns the path of the mutant's file, and its changed text.
func (m *mutant) source(root string) (path string, text []byte, err error) {
	path = filepath.Join(root, filepath.FromSlash(m.file))
	text, err = os.ReadFile(path)
	if err != nil {
		return "", nil, err
	}
	if n := bytes.Count(text, []byte(m.old)); n != 1 {
		return "", nil, fmt.Errorf("%q stands %d times in %s", m.old, n, m.file)
	}
	return path, bytes.Replace(text, []byte(m.old), []byte(m.new), 1), nil
}

// withoutOthers returns what an overlay must replace by nothing so that only one
// of the two packages of tests is built, the one inside or the one outside of
// the package, where the mutant's test is in the one inside: that halves the time.
func (m *mutant) withoutOthers(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	replace := make(map[string]string)
	top, _, _ := strings.Cut(m.test, "/")
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		if outside.Match(text) {
			if bytes.Contains(text, []byte("\nfunc "+top+"(")) {
				return make(map[string]string), nil
			}
			replace[f] = ""
		}
	}
	return replace, nil
}

var outside = regexp.MustCompile(`(?m)^package \w+_test$`)

// try runs the mutant's test over the mutant's source.
func (m *mutant) try(root, dir string) error {
	file, src, err := m.source(root)
	if err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	changed := filepath.Join(dir, filepath.Base(m.file))
	if err := os.WriteFile(changed, src, 0o666); err != nil {
		return err
	}
	replace, err := m.withoutOthers(filepath.Dir(file))
	if err != nil {
		return err
	}
	replace[file] = changed
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": replace})
	if err != nil {
		return err
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o666); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-short", "-count=1", "-timeout=60s",
		"-overlay", overlayFile, "-run", pattern(m.test), m.pkg())
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return fmt.Errorf("survives %q", m.test)
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		return fmt.Errorf("does not compile:\n%s", out)
	case bytes.Contains(out, []byte("--- FAIL: "+testName(m.test)+" (")), bytes.Contains(out, []byte("\npanic: ")):
		return nil
	}
	return fmt.Errorf("%q did not run to its end: %v\n%s", m.test, err, out)
}
