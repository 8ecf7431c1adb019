// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kernelsource

import (
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The program that is the kernel of these tests: Go's own compiler makes its debug
// information, so every machine that runs the tests can build it.
const program = `package main

import "os"

func inner(x int) int {
	return x*3 + len(os.Args)
}

func middle(x int) int {
	return inner(x) + 1
}

//go:noinline
func outer(x int) int {
	return middle(x) * 2
}

func main() {
	os.Exit(outer(len(os.Args)))
}
`

// build compiles the program, with the linker's flags.
func build(t *testing.T, flags string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "vmlinux")
	cmd := exec.Command("go", "build", "-o", out, "-ldflags", flags, "main.go")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "GOFLAGS=", "GO111MODULE=off")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

// TestFrames: lines and inlined functions, of a file that ran at other addresses.
func TestFrames(t *testing.T) {
	for _, flags := range []string{"", "-compressdwarf=false"} {
		name := build(t, flags)
		f, err := elf.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		symbols, err := f.Symbols()
		if err != nil {
			t.Fatal(err)
		}
		text := f.Section(".text").Addr
		const moved = 0x22000000
		src, err := Open(name, text+moved)
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		inlined := false
		for _, s := range symbols {
			if s.Name != "main.outer" {
				continue
			}
			first, err := src.Frames(s.Value + moved)
			if err != nil || len(first) == 0 || first[len(first)-1].Func != "main.outer" || !strings.HasSuffix(first[len(first)-1].File, "main.go") {
				t.Errorf("%q: the beginning of main.outer: %+v, %v", flags, first, err)
			}
			for pc := s.Value; pc < s.Value+s.Size; pc++ {
				frames, err := src.Frames(pc + moved)
				if err != nil {
					t.Fatal(err)
				}
				if len(frames) != 3 {
					continue
				}
				inlined = true
				for i, want := range []Frame{{Func: "main.inner", Line: 6}, {Func: "main.middle", Line: 10}, {Func: "main.outer", Line: 15}} {
					if got := frames[i]; got.Func != want.Func || got.Line != want.Line || filepath.Base(got.File) != "main.go" {
						t.Errorf("%q: frame %d is %+v, want %+v", flags, i, got, want)
					}
				}
			}
		}
		if !inlined {
			t.Errorf("%q: no code of main.inner in main.outer", flags)
		}
		if frames, err := src.Frames(text + moved - 1); frames != nil || err != nil {
			t.Errorf("before the text: %+v, %v", frames, err)
		}
	}
}

// TestNoDebugInfo: a kernel as distributions ship it.
func TestNoDebugInfo(t *testing.T) {
	if _, err := Open(build(t, "-w"), 0); !errors.Is(err, ErrNoDebugInfo) {
		t.Errorf("error %v, want ErrNoDebugInfo", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none"), 0); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

// TestDamaged: a damaged file gives no answer or an error, and nothing worse.
func TestDamaged(t *testing.T) {
	name := build(t, "-compressdwarf=false")
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	text := f.Section(".text")
	f.Close()
	for _, sec := range []string{".debug_info", ".debug_abbrev", ".debug_line"} {
		s := f.Section(sec)
		for i := range uint64(12) {
			b := append([]byte(nil), whole...)
			for j := range uint64(8) {
				b[s.Offset+s.Size*i/12+j] ^= byte(0x55 + j)
			}
			if err := os.WriteFile(name, b, 0o600); err != nil {
				t.Fatal(err)
			}
			src, err := Open(name, text.Addr)
			if err != nil {
				continue
			}
			for n := range uint64(64) {
				src.Frames(text.Addr + text.Size*n/64)
			}
			src.Close()
		}
	}
}
