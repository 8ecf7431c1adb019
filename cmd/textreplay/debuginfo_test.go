// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// kernelWithSource makes a file that has debug information, as the vmlinux of a package
// for debugging has, and returns it with the offset from _stext of a function into which
// another one is inlined. It is a Go program, whose text begins with _stext here.
func kernelWithSource(t *testing.T) (path string, offset uint64) {
	t.Helper()
	dir := t.TempDir()
	source := "package main\n\nimport \"os\"\n\nfunc inner(x int) int { return x*3 + len(os.Args) }\n\n//go:noinline\nfunc outer(x int) int {\n\treturn inner(x) * 2\n}\n\nfunc main() { os.Exit(outer(len(os.Args))) }\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(dir, "vmlinux")
	cmd := exec.Command("go", "build", "-ldflags=-B none", "-o", path, "main.go")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=", "GO111MODULE=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.Replace(b, []byte("\x00runtime.text\x00"), []byte("\x00_stext\x00text0\x00"), 1)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	at := make(map[string]uint64)
	for _, s := range symbols {
		at[s.Name] = s.Value
	}
	if at["_stext"] == 0 || at["main.outer"] == 0 {
		t.Fatal("no _stext or no main.outer")
	}
	return path, at["main.outer"] - at["_stext"]
}

// TestSourceLines: at, history and pprof show lines of source of the kernel.
func TestSourceLines(t *testing.T) {
	vmlinux, offset := kernelWithSource(t)
	rec, err := filepath.Abs("../../testdata/small/rec.data")
	if err != nil {
		t.Fatal(err)
	}
	const text = 0xffffffffaec00000
	ask := func(args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := run(append(args, "-i", rec, "--vmlinux", vmlinux), strings.NewReader(""), &stdout, &stderr); code != exitAnswered {
			t.Fatalf("%v: exit code %d\n%s", args, code, &stderr)
		}
		return stdout.String()
	}
	addr := fmt.Sprintf("%#x", text+offset)
	out := ask("at", addr, "10", "--insns", "24")
	if !strings.Contains(out, "main.go:5 (inlined into main.outer, ") || !strings.Contains(out, "main.go:9)\n") {
		t.Errorf("at has no line of the inlined function:\n%s", out)
	}
	if out := ask("history", addr); !strings.Contains(out, "main.go:8\n") {
		t.Errorf("history has no line:\n%s", out)
	}
	found := false
	for i := range uint64(64) {
		if found && testing.Short() {
			break
		}
		var answer struct {
			Symbol *jsonSymbol
		}
		if err := json.Unmarshal([]byte(ask("at", fmt.Sprintf("%#x", text+offset+i), "10", "-n", "1", "--json", "--require", "any")), &answer); err != nil {
			t.Fatal(err)
		}
		if s := answer.Symbol; s != nil && s.Source != nil && len(s.Source.InlinedInto) == 1 {
			found = true
			if s.Source.Func != "main.inner" || s.Source.Line != 5 || s.Source.InlinedInto[0].Func != "main.outer" || s.Source.InlinedInto[0].Line != 9 {
				t.Errorf("source %+v", s.Source)
			}
		}
	}
	if !found {
		t.Error("no address has an inlined function in its JSON")
	}

	if rec, err = filepath.Abs("../../testdata/callgraph/rec.data"); err != nil {
		t.Fatal(err)
	}
	prof := filepath.Join(t.TempDir(), "prof.pb.gz")
	ask("pprof", "-o", prof)
	b, err := os.Open(prof)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	p, err := profile.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	named, inlined := 0, 0
	for _, l := range p.Location {
		if n := len(l.Line); n > 0 && strings.HasSuffix(l.Line[n-1].Function.Filename, ".go") && l.Line[n-1].Line > 0 {
			named++
			if n > 1 {
				inlined++
			}
		}
	}
	if named == 0 || inlined == 0 {
		t.Errorf("%d locations have lines, %d inlined functions, of %d", named, inlined, len(p.Location))
	}
}
