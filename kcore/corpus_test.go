// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"bytes"
	"debug/elf"
	"io"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// TestCorpus reads the snapshots of recordings of real kernels and compares
// them with what debug/elf and a count of lines say.
func TestCorpus(t *testing.T) {
	root := os.Getenv("TEXTREPLAY_CORPUS")
	if root == "" {
		root = "../../shared/corpus"
	}
	dirs, err := filepath.Glob(filepath.Join(root, "*/*/rec.data/kcore_dir"))
	if err != nil {
		t.Fatal(err)
	}
	if len(dirs) == 0 {
		t.Skip("no unpacked recordings: set TEXTREPLAY_CORPUS to the directory that holds them")
	}
	for _, dir := range dirs {
		name, err := filepath.Rel(root, dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, func(t *testing.T) {
			s, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if w := s.Warnings(); len(w) > 0 {
				t.Errorf("warnings %v", w)
			}

			f, err := elf.Open(filepath.Join(dir, "kcore"))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if s.Core.Machine != f.Machine || s.Core.Class != f.Class || s.Core.Data != f.Data {
				t.Errorf("core is %v %v %v, want %v %v %v", s.Core.Machine, s.Core.Class, s.Core.Data, f.Machine, f.Class, f.Data)
			}
			loads := map[uint64]bool{}
			for _, p := range f.Progs {
				loads[p.Vaddr] = true
				want, err := io.ReadAll(p.Open())
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(s.Core.Bytes(p.Vaddr, int(p.Filesz)), want) {
					t.Errorf("bytes at %#x differ", p.Vaddr)
				}
			}
			if len(s.Core.Segments) != len(loads) {
				t.Errorf("%d segments, want %d", len(s.Core.Segments), len(loads))
			}

			text, err := os.ReadFile(filepath.Join(dir, "kallsyms"))
			if err != nil {
				t.Fatal(err)
			}
			if want := bytes.Count(text, []byte("\n")); s.Kallsyms.Len() != want {
				t.Errorf("%d symbols of %d lines", s.Kallsyms.Len(), want)
			}
			stext, etext, ok := s.Kallsyms.Text()
			if !ok || s.Core.Bytes(stext, int(etext-stext)) == nil {
				t.Errorf("text [%#x, %#x), %v, is not in the core", stext, etext, ok)
			}
			sym, size, ok := s.Kallsyms.Find(s.Kallsyms.LookupIn("", "vfs_read")[0].Addr + 4)
			if !ok || sym.Name != "vfs_read" || size < 64 || size > 4096 {
				t.Errorf("4 bytes into vfs_read is %+v, size %d, %v", sym, size, ok)
			}
			for _, m := range s.Modules {
				last, ok := s.Kallsyms.LastFunction(m.Name, m.Addr, m.Addr+m.Size)
				if all, _ := s.Kallsyms.LastFunction(m.Name, 0, math.MaxUint64); !ok || last != all {
					t.Errorf("the last function of module %s [%#x, +%#x) is at %#x, of all at %#x", m.Name, m.Addr, m.Size, last, all)
				}
			}
		})
	}
}
