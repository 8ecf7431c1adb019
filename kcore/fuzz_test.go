// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"bytes"
	"cmp"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func addFiles(f *testing.F, pattern string) {
	files, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(files) == 0 {
		f.Fatalf("no %s: %v", pattern, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}

func FuzzCore(f *testing.F) {
	addFiles(f, "*.kcore")
	for _, class := range []elf.Class{elf.ELFCLASS32, elf.ELFCLASS64} {
		for _, data := range []elf.Data{elf.ELFDATA2LSB, elf.ELFDATA2MSB} {
			f.Add(buildCore(f, class, data, 300, []prog{
				loadProg(256, 0xc0000000, 32),
				loadProg(250, 0xc0000004, 8),
				loadProg(256, 0xc0000000, 16),
			}))
		}
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		c, err := NewCore(file)
		if err != nil {
			return
		}
		// What was read is sorted, disjoint and made of the file's own bytes,
		// so it can be written and read again.
		var total int
		for i, s := range c.Segments {
			total += len(s.Data)
			if len(s.Data) == 0 || !bytes.Contains(file, s.Data) {
				t.Fatalf("segment %d is empty or not in the file", i)
			}
			if i > 0 && s.Addr-c.Segments[i-1].Addr < uint64(len(c.Segments[i-1].Data)) {
				t.Fatalf("segments %d and %d overlap or are out of order", i-1, i)
			}
			if got := c.Bytes(s.Addr, len(s.Data)); !bytes.Equal(got, s.Data) {
				t.Fatalf("Bytes of segment %d differ", i)
			}
		}
		if total > 1<<20 {
			return
		}
		var buf bytes.Buffer
		if err := WriteCore(&buf, c.Machine, c.Class, c.Data, c.Segments, nil); err != nil {
			t.Fatal(err)
		}
		again, err := NewCore(buf.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(c.Segments, again.Segments, func(a, b Segment) bool {
			return a.Addr == b.Addr && bytes.Equal(a.Data, b.Data)
		}) {
			t.Fatal("segments differ after writing and reading")
		}
	})
}

func FuzzKallsyms(f *testing.F) {
	addFiles(f, "*.kallsyms")
	f.Add([]byte("0 A a\nffffffffffffffff T b\n1 t c\t[d]\n1 t c\t[bpf]\nx\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		k, err := ParseKallsyms(text)
		if err != nil {
			return
		}
		if lines := bytes.Count(text, []byte("\n")); k.Len() > lines {
			t.Fatalf("%d symbols of %d lines", k.Len(), lines)
		}
		syms := slices.Collect(func(yield func(Symbol) bool) {
			for _, s := range k.All() {
				if !yield(s) {
					return
				}
			}
		})
		if !slices.IsSortedFunc(syms, func(a, b Symbol) int { return cmp.Compare(a.Addr, b.Addr) }) {
			t.Fatal("not sorted")
		}
		for _, s := range syms[:min(len(syms), 1000)] {
			if !k.Restricted() && !slices.Contains(k.LookupIn(s.Module, s.Name), s) {
				t.Fatalf("%+v is not found by name", s)
			}
			if found, size, ok := k.Find(s.Addr); ok && (found.Addr > s.Addr || size > 0 && s.Addr-found.Addr >= size) {
				t.Fatalf("Find(%#x) = %+v of size %#x", s.Addr, found, size)
			}
		}
		if start, end, ok := k.Text(); ok && start >= end {
			t.Fatalf("text [%#x, %#x)", start, end)
		}
		for _, s := range k.All() {
			if last, ok := k.LastFunction(s.Module, s.Addr, s.Addr+4096); ok && last-s.Addr >= 4096 {
				t.Fatalf("the last function of %q from %#x on is at %#x", s.Module, s.Addr, last)
			}
		}
	})
}

func FuzzModules(f *testing.F) {
	addFiles(f, "*.modules")
	f.Add([]byte("zfs 5000000 - - Loading 0xffffffffc0500000 (POE)\nx 1 2 [permanent], Live 0x0\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		mods, err := ParseModules(text)
		lines := bytes.Count(text, []byte("\n"))
		if len(text) > 0 && text[len(text)-1] != '\n' {
			lines++
		}
		if len(mods) > lines || (err == nil) != (len(mods) == lines) {
			t.Fatalf("%d modules of %d lines, error %v", len(mods), lines, err)
		}
	})
}
