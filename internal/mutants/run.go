// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A trial is a mutant with its place, on its way to being killed.
type trial struct {
	*mutant
	place place
	dir   string // of the package of its test
	err   error
}

// A bench runs the trials of a module.
type bench struct {
	root     string // of the module
	tree     *tree
	temp     string
	parallel int
	report   func(*trial) // called when one has ended, one at a time
}

// run tries to kill all mutants. Those that are in functions are compiled
// together. The others, and those that a test of that program does not kill, are
// compiled alone.
func (b *bench) run(trials []*trial) error {
	together := make(map[string][]*trial) // by the directory of their tests
	var alone []*trial
	for _, t := range trials {
		if t.place.decl.function() != nil {
			together[t.dir] = append(together[t.dir], t)
		} else {
			alone = append(alone, t)
		}
	}
	for dir, ts := range together {
		left, err := b.together(dir, ts)
		if err != nil {
			return err
		}
		alone = append(alone, left...)
	}
	b.each(alone, func(t *trial, dir string) bool {
		t.err = b.alone(t, dir)
		return true
	})
	return nil
}

// each calls f with each of the trials, several at once, and a new directory for each. It
// reports those that have ended, as f says, and returns the others.
func (b *bench) each(trials []*trial, f func(t *trial, dir string) bool) (left []*trial) {
	var wg sync.WaitGroup
	var mu sync.Mutex
	slots := make(chan bool, max(1, b.parallel))
	for _, t := range trials {
		slots <- true
		wg.Go(func() {
			defer func() { <-slots }()
			dir, err := os.MkdirTemp(b.temp, "mutant")
			ended := true
			if err != nil {
				t.err = err
			} else {
				ended = f(t, dir)
			}
			mu.Lock()
			defer mu.Unlock()
			if ended {
				b.report(t)
			} else {
				left = append(left, t)
			}
		})
	}
	wg.Wait()
	return left
}

// together tries the mutants whose tests are in one package, with one program
// that has all of them. It returns those that are to be tried alone.
func (b *bench) together(dir string, trials []*trial) (left []*trial, err error) {
	places := make(map[int]place)
	number := make(map[*trial]int)
	for i, t := range trials {
		places[i+1], number[t] = t.place, i+1
	}
	temp, err := os.MkdirTemp(b.temp, "together")
	if err != nil {
		return nil, err
	}
	program := filepath.Join(temp, "all.test")
	for {
		v := combine(b.tree, places)
		overlay, err := b.overlay(temp, v.files)
		if err != nil {
			return nil, err
		}
		out, err := b.command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", program, "./"+dir).CombinedOutput()
		if err == nil {
			break
		}
		bad := v.blamed(out, b.root, temp)
		if len(bad) == 0 {
			return nil, fmt.Errorf("the tests of %s do not compile:\n%s", dir, out)
		}
		for _, n := range bad {
			delete(places, n)
		}
	}
	passing, err := b.passing(program, dir, trials)
	if err != nil {
		return nil, err
	}
	return b.each(trials, func(t *trial, _ string) bool {
		n := number[t]
		if _, ok := places[n]; !ok || !passing[testName(t.test)] {
			return false
		}
		cmd := b.test(program, dir, "-test.run", exactly(t.test))
		cmd.Env = append(os.Environ(), switchName+"="+strconv.Itoa(n))
		out, err := cmd.CombinedOutput()
		return err != nil && killed(out, t.test)
	}), nil
}

var compileError = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):\d+: `)

// blamed returns the mutants whose lines a compiler's messages name. The compiler ran in
// root, with files in temp.
func (v variants) blamed(out []byte, root, temp string) []int {
	var bad []int
	for _, m := range compileError.FindAllSubmatch(out, -1) {
		line, err := strconv.Atoi(string(m[2]))
		if err != nil {
			continue
		}
		file := string(m[1]) // relative if that is shorter
		if !filepath.IsAbs(file) {
			file = filepath.Join(root, file)
		}
		file, err = filepath.Rel(temp, file)
		if err != nil {
			continue
		}
		if n, ok := v.mutantAt(filepath.ToSlash(file), line); ok && !slices.Contains(bad, n) {
			bad = append(bad, n)
		}
	}
	return bad
}

func (b *bench) command(name string, arg ...string) *exec.Cmd {
	cmd := exec.Command(name, arg...)
	cmd.Dir = b.root
	return cmd
}

// test returns a command that runs tests of a compiled package.
func (b *bench) test(program, dir string, arg ...string) *exec.Cmd {
	cmd := exec.Command(program, append([]string{"-test.short", "-test.timeout=60s"}, arg...)...)
	cmd.Dir = filepath.Join(b.root, filepath.FromSlash(dir))
	return cmd
}

// overlay writes files that replace those of the module, by their paths, into temp. It
// returns the name of the file for go's -overlay. A nil file is one that is removed.
func (b *bench) overlay(temp string, files map[string][]byte) (string, error) {
	replace := make(map[string]string)
	for name, text := range files {
		to := ""
		if text != nil {
			to = filepath.Join(temp, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
				return "", err
			}
			if err := os.WriteFile(to, text, 0o666); err != nil {
				return "", err
			}
		}
		replace[filepath.Join(b.root, filepath.FromSlash(name))] = to
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name := filepath.Join(temp, "overlay.json")
	return name, os.WriteFile(name, text, 0o666)
}

// passing runs the tests that mutants name, with no mutant switched on, and returns those
// that pass.
func (b *bench) passing(program, dir string, trials []*trial) (map[string]bool, error) {
	var tops []string
	for _, t := range trials {
		if top, _, _ := strings.Cut(t.test, "/"); !slices.Contains(tops, top) {
			tops = append(tops, top)
		}
	}
	out, _ := b.test(program, dir, "-test.v", "-test.run", "^("+strings.Join(tops, "|")+")$").CombinedOutput() // a failed test does not pass
	passing := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- PASS: "); ok {
			name, _, _ = strings.Cut(name, " (")
			passing[name] = true
		}
	}
	if len(passing) == 0 {
		return nil, fmt.Errorf("%s: no test passes:\n%s", dir, out)
	}
	return passing, nil
}

// alone runs the mutant's test over source with no other mutant.
func (b *bench) alone(t *trial, temp string) error {
	src := t.place.decl.file
	files := map[string][]byte{src.path: apply(src.text, []edit{{t.place.from, t.place.to, t.place.text}})}
	overlay, err := b.overlay(temp, files)
	if err != nil {
		return err
	}
	plain, err := b.goTest(t, "")
	if err != nil || !bytes.Contains(plain, []byte("--- PASS: "+testName(t.test)+" (")) {
		return fmt.Errorf("its test %q is not there, or fails without it", t.test)
	}
	out, err := b.goTest(t, overlay)
	switch {
	case err == nil:
		return fmt.Errorf("survives %q", t.test)
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		return fmt.Errorf("does not compile:\n%s", out)
	case killed(out, t.test):
		return nil
	}
	return fmt.Errorf("%q did not run to its end: %v\n%s", t.test, err, out)
}

// goTest runs a mutant's test with the file overlay, "" for none, and returns its output.
func (b *bench) goTest(t *trial, overlay string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-vet=off", "-short", "-v", "-count=1", "-timeout=60s",
		"-overlay="+overlay, "-run", exactly(t.test), "./"+t.dir)
	cmd.Dir = b.root
	return cmd.CombinedOutput()
}

// killed reports whether the output of a test that failed shows that test, or a
// panic, as the reason.
func killed(out []byte, test string) bool {
	return bytes.Contains(out, []byte("--- FAIL: "+testName(test)+" (")) || bytes.Contains(out, []byte("panic: "))
}

// testName writes a test's name as go test prints it.
func testName(test string) string { return strings.ReplaceAll(test, " ", "_") }

// exactly is the -run pattern of exactly one test.
func exactly(test string) string {
	parts := strings.Split(testName(test), "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// testDir returns the directory of the package that has a mutant's test.
func testDir(t *tree, m *mutant, pl place) (string, error) {
	top, _, _ := strings.Cut(m.test, "/")
	dirs := t.tests[top]
	own := filepath.ToSlash(filepath.Dir(pl.decl.file.path))
	switch {
	case slices.Contains(dirs, own):
		return own, nil
	case len(dirs) == 1:
		return dirs[0], nil
	case len(dirs) == 0:
		return "", fmt.Errorf("there is no test %s", top)
	}
	return "", errors.New("several packages have a test " + top)
}
