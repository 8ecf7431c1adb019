// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func writeFiles(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestOpen(t *testing.T) {
	core := buildCore(t, elf.ELFCLASS64, elf.ELFDATA2LSB, 768, []prog{loadProg(512, 0xffffffff81000000, 16)})
	kallsyms := []byte("ffffffff81000000 T _text\nffffffff81000010 T _etext\n")
	modules := []byte("virtio_blk 28672 0 - Live 0xffffffffc02ba000\n")
	tests := []struct {
		name     string
		files    map[string][]byte
		core     bool
		symbols  int // -1: no Kallsyms
		modules  int // -1: no Modules
		warnings []string
	}{
		{"all", map[string][]byte{"kcore": core, "kallsyms": kallsyms, "modules": modules}, true, 2, 1, nil},
		{"kcore", map[string][]byte{"kcore": core}, true, -1, -1, nil},
		{"kallsyms", map[string][]byte{"kallsyms": kallsyms}, false, 2, -1, nil},
		{"modules", map[string][]byte{"modules": nil}, false, -1, 0, nil},
		{
			"damaged",
			map[string][]byte{"kcore": core[:520], "kallsyms": kallsyms[:40], "modules": modules[:40]},
			true, 1, 0,
			[]string{
				"DIR/kcore: file cut short: 0x8 bytes of 1 segments are not there at offset 0x208",
				"DIR/kallsyms:2: last line has no end (offset 0x19)",
				"DIR/modules:1: last line has no end (offset 0x0)",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := writeFiles(t, tt.files)
			s, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			if got := s.Core != nil; got != tt.core {
				t.Errorf("core %v, want %v", got, tt.core)
			}
			symbols, modules := -1, -1
			if s.Kallsyms != nil {
				symbols = s.Kallsyms.Len()
			}
			if s.Modules != nil {
				modules = len(s.Modules)
			}
			if symbols != tt.symbols || modules != tt.modules {
				t.Errorf("%d symbols, %d modules; want %d, %d", symbols, modules, tt.symbols, tt.modules)
			}
			var warnings []string
			for _, w := range warningTexts(s.Warnings()) {
				warnings = append(warnings, strings.Replace(w, dir, "DIR", 1))
			}
			if diff := cmp.Diff(tt.warnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			for range 2 {
				if err := s.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			}
		})
	}
}

func TestOpenErrors(t *testing.T) {
	if _, err := Open(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("empty directory: %v", err)
	}
	if _, err := Open(filepath.Join(t.TempDir(), "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	for _, name := range []string{"kcore", "kallsyms"} {
		dir := writeFiles(t, map[string][]byte{name: []byte("something else\n")})
		_, err := Open(dir)
		var fe *FormatError
		if !errors.As(err, &fe) {
			t.Errorf("%s: error %v, want a FormatError", name, err)
		} else if want := filepath.Join(dir, name); fe.File != want {
			t.Errorf("%s: error names %s, want %s", name, fe.File, want)
		}
	}
	for _, name := range []string{"kcore", "kallsyms", "modules"} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		var pe *fs.PathError
		if _, err := Open(dir); !errors.As(err, &pe) {
			t.Errorf("%s is a directory: error %v, want a PathError", name, err)
		}
	}
}

// TestOpenUsable: files that are of another format are left out.
func TestOpenUsable(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"kcore", "kallsyms"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("no such file\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := OpenUsable(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Core != nil || s.Kallsyms != nil || len(s.Warnings()) != 2 {
		t.Errorf("got %v, %v, warnings %v", s.Core, s.Kallsyms, s.Warnings())
	}
	if _, err := OpenUsable(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory that is not there: %v", err)
	}
	// What is no file is not damage.
	if err := errors.Join(os.Remove(filepath.Join(dir, "kcore")), os.Mkdir(filepath.Join(dir, "kcore"), 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenUsable(dir); err == nil {
		t.Error("a directory is taken for kcore")
	}
}
