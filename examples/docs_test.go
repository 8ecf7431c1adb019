// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
)

// decodersPage returns docs/decoders.md.
func decodersPage(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(corpus.Root(), "docs", "decoders.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(page)
}

// TestDocs runs every command in the blocks of docs/decoders.md marked sh, as it is written, with
// recordings and traces of testdata. Only PREFIX is another one. Each block has a directory of its
// own, which has the project's cmd and examples.
func TestDocs(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: installs the C library, because of -short")
	}
	for _, tool := range []string{"make", "gcc", "cc", "pkg-config"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("skipped: no %s here", tool)
		}
	}
	root, err := filepath.Abs(corpus.Root())
	if err != nil {
		t.Fatal(err)
	}
	prefix := t.TempDir()
	env := append(os.Environ(), "PKG_CONFIG_PATH="+prefix+"/lib/pkgconfig", "LD_LIBRARY_PATH="+prefix+"/lib", "BUILD="+t.TempDir())
	testdata := func(name string) string { return filepath.Join(root, "testdata", name) }
	// By what the block builds: what it needs of the system, its files, and what its last command prints.
	blocks := []struct {
		builds string
		needs  string // a header of the system, or a program
		files  func(t *testing.T) map[string]string
		want   []string
		makes  string // a file
	}{
		{"-o decoder ", "", func(*testing.T) map[string]string {
			return map[string]string{"decoder.c": filepath.Join(root, "cmd", "libtextreplay", "testdata", "ask.c")}
		}, nil, "decoder"},
		{"-o ptdecode ", "/usr/include/intel-pt.h", func(*testing.T) map[string]string {
			return map[string]string{"perf.data": testdata("pt/cut.data"), "cpu0.pt": testdata("pt/cpu0.pt"), "cpu1.pt": testdata("pt/cpu0.pt")}
		}, []string{"cpu0.pt: 3828 instructions, 0 errors, 6 traps", "cpu1.pt: 3828 instructions, 0 errors, 6 traps"}, ""},
		{"-o csdecode ", "/usr/include/opencsd/c_api/opencsd_c_api.h", func(t *testing.T) map[string]string {
			trace := armTraces(t, testdata("etm"))[0]
			return map[string]string{"perf.data": testdata("etm/cut.data"), "cpu0.etm": trace, "cpu1.etm": trace}
		}, []string{"cpu0.etm: ", "cpu1.etm: ", " instructions, 0 errors"}, "instructions"},
		{"-o textreplay-dlfilter.so ", "perf", func(*testing.T) map[string]string {
			return map[string]string{"perf.data": testdata("callgraph/rec.data")}
		}, []string{"\n    ffffffff"}, ""},
	}
	seen := 0
	for _, text := range strings.Split(decodersPage(t), "```sh\n")[1:] {
		text, _, _ = strings.Cut(text, "```")
		found := false
		for _, b := range blocks {
			if !strings.Contains(text, b.builds) {
				continue
			}
			found = true
			seen++
			t.Run(strings.Fields(b.builds)[1], func(t *testing.T) {
				if strings.HasPrefix(b.needs, "/") {
					if _, err := os.Stat(b.needs); err != nil {
						t.Skipf("skipped: no %s here", b.needs)
					}
				} else if b.needs == "perf" {
					if out, err := exec.Command("perf", "script", "--list-dlfilters").CombinedOutput(); err != nil {
						t.Skipf("skipped: no perf that has dlfilters: %v %.100s", err, out)
					}
				}
				dir := t.TempDir()
				files := b.files(t)
				files["cmd"], files["examples"] = filepath.Join(root, "cmd"), filepath.Join(root, "examples")
				for name, to := range files {
					if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
						t.Fatal(err)
					}
				}
				for command := range strings.Lines(strings.ReplaceAll(text, "\\\n", "")) {
					command = strings.ReplaceAll(strings.TrimSpace(command), "PREFIX=/usr/local", "PREFIX="+prefix)
					cmd := exec.Command("sh", "-c", command)
					cmd.Dir, cmd.Env = dir, env
					out, err := cmd.CombinedOutput()
					if err != nil {
						t.Fatalf("%s: %v\n%s", command, err, out)
					}
					if strings.HasPrefix(command, "./") || strings.HasPrefix(command, "perf ") {
						for _, want := range b.want {
							if !strings.Contains("\n"+string(out), want) {
								t.Errorf("%s: no %q in what it prints:\n%.3000s", command, want, out)
							}
						}
					}
				}
				if b.makes != "" {
					if st, err := os.Stat(filepath.Join(dir, b.makes)); err != nil || st.Size() == 0 {
						t.Errorf("%s: %v", b.makes, err)
					}
				}
			})
		}
		if !found {
			t.Errorf("no test for these commands of docs/decoders.md:\n%s", text)
		}
	}
	if seen != len(blocks) {
		t.Errorf("%d of %d blocks are in docs/decoders.md", seen, len(blocks))
	}
}

var (
	goTestPattern = regexp.MustCompile("`go test (\\./\\S+) ([^`]*)`")
	namePattern   = regexp.MustCompile(`\btextreplay_\w+`)
	methodPattern = regexp.MustCompile("`(Cursor|Image|View|Block|Effect|Disassembler|Report\\.Clock|Replay)\\.(\\w+)\\b")
)

// TestDocsNames: the tests that docs/decoders.md names are there, with their flags, and the
// functions of the library.
func TestDocsNames(t *testing.T) {
	text := strings.Join(strings.Fields(decodersPage(t)), " ")
	sources := func(pattern string) string {
		t.Helper()
		paths, err := filepath.Glob(filepath.Join(corpus.Root(), pattern))
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: no files %v", pattern, err)
		}
		var all strings.Builder
		for _, p := range paths {
			b, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(b)
		}
		return all.String()
	}
	commands := goTestPattern.FindAllStringSubmatch(text, -1)
	if len(commands) != strings.Count(text, "go test") {
		t.Errorf("%d commands of go test are read, of %d", len(commands), strings.Count(text, "go test"))
	}
	for _, m := range commands {
		code := sources(filepath.Join(m[1], "*_test.go"))
		args := strings.Fields(m[2])
		for i, arg := range args {
			switch {
			case arg == "-run":
				if i+1 == len(args) || !strings.Contains(code, "func "+args[i+1]+"(") {
					t.Errorf("%s: no such test in %s", m[0], m[1])
				}
			case arg == "-v" || !strings.HasPrefix(arg, "-"):
			case !strings.Contains(code, `("`+arg[1:]+`", `):
				t.Errorf("%s: the tests of %s have no flag %s", m[0], m[1], arg)
			}
		}
	}
	header := sources("cmd/libtextreplay/textreplay.h")
	names := namePattern.FindAllString(text, -1)
	for _, name := range names {
		if name != "textreplay_ipt" && name != "textreplay_ocsd" && !strings.Contains(header, " "+name+"(") && !strings.Contains(header, "*"+name+"(") {
			t.Errorf("textreplay.h has no function %s", name)
		}
	}
	code := sources("timeline/*.go") + sources("timeline/replay/*.go") + sources("disasm/*.go")
	methods := methodPattern.FindAllStringSubmatch(text, -1)
	for _, m := range methods {
		typ := strings.TrimPrefix(m[1], "Report.")
		method := regexp.MustCompile(`(?m)^func \(\w+ \*?` + typ + `\) ` + m[2] + `\(`)
		field := regexp.MustCompile(`(?m)^\t(\w+, )*` + m[2] + `(, \w+)* +\S`)
		if !method.MatchString(code) && !field.MatchString(code) {
			t.Errorf("there is no %s", m[0])
		}
	}
	if len(names) < 10 || len(methods) < 15 {
		t.Errorf("%d names of C and %d of Go: too few", len(names), len(methods))
	}
}
