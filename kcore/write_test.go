// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// kernelText begins like the entry of a kernel function that can be traced.
var kernelText = []byte{
	0x0f, 0x1f, 0x44, 0x00, 0x00, // nopl 0x0(%rax,%rax,1)
	0x55,             // push %rbp
	0x48, 0x89, 0xe5, // mov %rsp,%rbp
	0x5d, // pop %rbp
	0xc3, // ret
}

var writeSegments = []Segment{
	{Addr: 0xc0a01ff0, Data: bytes.Repeat([]byte{0xcc}, 100)},
	{Addr: 0xc0900000, Data: nil},
	{Addr: 0xc0801234, Data: kernelText},
	{Addr: 0xc0a02100, Data: bytes.Repeat([]byte{0x90}, 5000)},
}

var writeSymbols = []ELFSymbol{
	{Name: "vfs_read", Addr: 0xc0801234, Size: 11, Bind: elf.STB_GLOBAL, Type: elf.STT_FUNC},
	{Name: "padding", Addr: 0xc0a01ff0, Bind: elf.STB_LOCAL, Type: elf.STT_NOTYPE},
	{Name: "weak", Addr: 0xc0a02100, Size: 1, Bind: elf.STB_WEAK, Type: elf.STT_FUNC},
	{Name: "elsewhere", Addr: 0x1000, Bind: elf.STB_LOCAL, Type: elf.STT_OBJECT},
}

func forEachLayout(t *testing.T, f func(t *testing.T, class elf.Class, data elf.Data)) {
	for _, class := range []elf.Class{elf.ELFCLASS32, elf.ELFCLASS64} {
		for _, data := range []elf.Data{elf.ELFDATA2LSB, elf.ELFDATA2MSB} {
			t.Run(fmt.Sprintf("%v/%v", class, data), func(t *testing.T) { f(t, class, data) })
		}
	}
}

func TestWriteCore(t *testing.T) {
	forEachLayout(t, func(t *testing.T, class elf.Class, data elf.Data) {
		for _, syms := range [][]ELFSymbol{nil, writeSymbols} {
			var buf bytes.Buffer
			if err := WriteCore(&buf, elf.EM_PPC64, class, data, writeSegments, syms); err != nil {
				t.Fatal(err)
			}

			// As this package reads it.
			c, err := NewCore(buf.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			if w := c.Warnings(); len(w) > 0 {
				t.Errorf("warnings %v", w)
			}
			want := []Segment{writeSegments[2], writeSegments[0], writeSegments[3]}
			if diff := cmp.Diff(want, c.Segments); diff != "" {
				t.Errorf("segments (-want +got):\n%s", diff)
			}

			// As debug/elf reads it.
			f, err := elf.NewFile(bytes.NewReader(buf.Bytes()))
			if err != nil {
				t.Fatal(err)
			}
			if f.Type != elf.ET_CORE || f.Machine != elf.EM_PPC64 || f.Class != class || f.Data != data || f.Version != elf.EV_CURRENT {
				t.Errorf("header %+v", f.FileHeader)
			}
			slices.Reverse(want) // so perf puts the segment with _stext first
			checkProgs(t, f, want)
			if len(syms) == 0 {
				if len(f.Sections) > 0 {
					t.Errorf("sections %v without symbols", f.Sections)
				}
				continue
			}
			checkSymbols(t, f, []elf.SectionIndex{elf.SHN_ABS, elf.SHN_ABS, elf.SHN_ABS, elf.SHN_ABS})
		}
	})
}

func TestWriteExec(t *testing.T) {
	forEachLayout(t, func(t *testing.T, class elf.Class, data elf.Data) {
		var buf bytes.Buffer
		if err := WriteExec(&buf, elf.EM_PPC64, class, data, writeSegments, writeSymbols); err != nil {
			t.Fatal(err)
		}
		f, err := elf.NewFile(bytes.NewReader(buf.Bytes()))
		if err != nil {
			t.Fatal(err)
		}
		if f.Type != elf.ET_EXEC {
			t.Errorf("type %v", f.Type)
		}
		want := []Segment{writeSegments[2], writeSegments[0], writeSegments[3]}
		checkProgs(t, f, want)
		var text []Segment
		for _, s := range f.Sections {
			if s.Type != elf.SHT_PROGBITS {
				continue
			}
			if s.Name != ".text" || s.Flags != elf.SHF_ALLOC|elf.SHF_EXECINSTR {
				t.Errorf("section %+v", s.SectionHeader)
			}
			b, err := s.Data()
			if err != nil {
				t.Fatal(err)
			}
			text = append(text, Segment{s.Addr, b})
		}
		if diff := cmp.Diff(want, text); diff != "" {
			t.Errorf("sections (-want +got):\n%s", diff)
		}
		checkSymbols(t, f, []elf.SectionIndex{2, elf.SHN_ABS, 1, 3})
		if _, err := NewCore(buf.Bytes()); err == nil {
			t.Error("NewCore took a program for a core")
		}
	})
}

func checkProgs(t *testing.T, f *elf.File, want []Segment) {
	t.Helper()
	var got []Segment
	for i, p := range f.Progs {
		if i == 0 && p.Type == elf.PT_NOTE {
			checkNote(t, f, p)
			continue
		}
		if p.Type != elf.PT_LOAD || p.Flags != elf.PF_R|elf.PF_X || p.Paddr != 0 || p.Memsz != p.Filesz || p.Align != 4096 {
			t.Errorf("program header %+v", p.ProgHeader)
		}
		if p.Off%4096 != p.Vaddr%4096 {
			t.Errorf("offset %#x of address %#x", p.Off, p.Vaddr)
		}
		b, err := io.ReadAll(p.Open())
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, Segment{p.Vaddr, b})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("program headers (-want +got):\n%s", diff)
	}
}

// checkNote wants the registers of a process, all 0.
func checkNote(t *testing.T, f *elf.File, p *elf.Prog) {
	t.Helper()
	sizes := map[elf.Machine]int{elf.EM_X86_64: 336, elf.EM_AARCH64: 392, elf.EM_PPC64: 504, elf.EM_S390: 336}
	note, err := io.ReadAll(p.Open())
	if err != nil {
		t.Fatal(err)
	}
	want, err := binary.Append(nil, f.ByteOrder, []uint32{5, uint32(sizes[f.Machine]), 1})
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, "CORE\x00\x00\x00\x00"...)
	want = append(want, make([]byte, sizes[f.Machine])...)
	if f.Type != elf.ET_CORE || f.Class != elf.ELFCLASS64 || !bytes.Equal(note, want) {
		t.Errorf("note of %v, %v: % x, want % x", f.Type, f.Machine, note, want)
	}
}

// checkSymbols wants writeSymbols with the local ones first, in the sections
// given.
func checkSymbols(t *testing.T, f *elf.File, sections []elf.SectionIndex) {
	t.Helper()
	got, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	var want []elf.Symbol
	for i, s := range []ELFSymbol{writeSymbols[1], writeSymbols[3], writeSymbols[0], writeSymbols[2]} {
		want = append(want, elf.Symbol{Name: s.Name, Value: s.Addr, Size: s.Size, Info: elf.ST_INFO(s.Bind, s.Type), Section: sections[i]})
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("symbols (-want +got):\n%s", diff)
	}
	if info := f.Section(".symtab").Info; info != 3 {
		t.Errorf("first global symbol is %d, want 3", info)
	}
}

// More program headers than e_phnum can count.
func TestWriteCoreManySegments(t *testing.T) {
	page := make([]byte, 1)
	for _, n := range []int{0xfffd, 0xfffe, 70_000} {
		segs := make([]Segment, n)
		for i := range segs {
			segs[i] = Segment{Addr: uint64(i) * 2, Data: page}
		}
		var buf bytes.Buffer
		if err := WriteCore(&buf, elf.EM_X86_64, elf.ELFCLASS64, elf.ELFDATA2LSB, segs, nil); err != nil {
			t.Fatal(err)
		}
		c, err := NewCore(buf.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Segments) != n || len(c.Warnings()) > 0 {
			t.Errorf("%d segments, warnings %v; want %d", len(c.Segments), c.Warnings(), n)
		}
		if n+1 < 0xffff { // one is the note
			continue
		}
		// The count is at the end of the file: without it, what e_phnum says is there.
		c, err = NewCore(buf.Bytes()[:buf.Len()-1])
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Segments) != 0xffff-1 || len(c.Warnings()) != 1 {
			t.Errorf("cut short: %d segments, warnings %v; want %d", len(c.Segments), c.Warnings(), 0xffff-1)
		}
	}
	segs := make([]Segment, maxTextSections+1)
	for i := range segs {
		segs[i] = Segment{Addr: uint64(i), Data: page}
	}
	for n, ok := range map[int]bool{maxTextSections: true, maxTextSections + 1: false} {
		if err := WriteExec(io.Discard, elf.EM_X86_64, elf.ELFCLASS64, elf.ELFDATA2LSB, segs[:n], nil); (err == nil) != ok {
			t.Errorf("WriteExec of %d segments: %v", n, err)
		}
	}
}

func TestWriteCoreErrors(t *testing.T) {
	one := []byte{1}
	tests := []struct {
		name  string
		class elf.Class
		segs  []Segment
		syms  []ELFSymbol
		want  string
	}{
		{"class", elf.ELFCLASSNONE, nil, nil, "no ELF file has class 0"},
		{"overlap", elf.ELFCLASS64, []Segment{{0x1004, one}, {0x1000, []byte("12345")}}, nil, "segments at 0x1000 and 0x1004 overlap"},
		{"same address", elf.ELFCLASS64, []Segment{{0x1000, one}, {0x1000, one}}, nil, "segments at 0x1000 and 0x1000 overlap"},
		{"address space", elf.ELFCLASS64, []Segment{{0xffff_ffff_ffff_ffff, one}}, nil, "reaches past the end"},
		{"address space of 32 bits", elf.ELFCLASS32, []Segment{{0xffff_ffff, []byte("12")}}, nil, "reaches past the end"},
		{"wide address", elf.ELFCLASS32, []Segment{{0xffff_ffff_8100_0000, one}}, nil, "reaches past the end"},
		{"wide symbol", elf.ELFCLASS32, nil, []ELFSymbol{{Name: "x", Addr: 1 << 32}}, "in a 32-bit file"},
		{"wide symbol size", elf.ELFCLASS32, nil, []ELFSymbol{{Name: "x", Size: 1 << 32}}, "in a 32-bit file"},
		{"name", elf.ELFCLASS64, nil, []ELFSymbol{{Name: "a\x00b"}}, "holds a NUL"},
	}
	for _, tt := range tests {
		var buf bytes.Buffer
		err := WriteCore(&buf, elf.EM_X86_64, tt.class, elf.ELFDATA2LSB, tt.segs, tt.syms)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
		if buf.Len() > 0 {
			t.Errorf("%s: wrote %d bytes", tt.name, buf.Len())
		}
	}
}

type fullWriter struct{ room int }

var errFull = errors.New("full")

func (w *fullWriter) Write(b []byte) (int, error) {
	if len(b) > w.room {
		n := w.room
		w.room = 0
		return n, errFull
	}
	w.room -= len(b)
	return len(b), nil
}

func TestWriteCoreFull(t *testing.T) {
	var buf bytes.Buffer
	if err := WriteCore(&buf, elf.EM_X86_64, elf.ELFCLASS64, elf.ELFDATA2LSB, writeSegments, writeSymbols); err != nil {
		t.Fatal(err)
	}
	for _, room := range []int{0, 100, buf.Len() - 1} {
		err := WriteCore(&fullWriter{room}, elf.EM_X86_64, elf.ELFCLASS64, elf.ELFDATA2LSB, writeSegments, writeSymbols)
		if !errors.Is(err, errFull) {
			t.Errorf("room for %d bytes: error %v", room, err)
		}
	}
}

// The documentation says what binutils and gdb make of the files.
func TestWriteTools(t *testing.T) {
	objdump, err := exec.LookPath("objdump")
	if err != nil {
		t.Skip("objdump is not installed")
	}
	if out, err := exec.Command(objdump, "--help").Output(); err != nil || !bytes.Contains(out, []byte("elf64-x86-64")) {
		t.Skip("objdump does not know x86-64")
	}
	const addr = 0xffffffff81001234
	segs := []Segment{{Addr: addr, Data: kernelText}, {Addr: addr + 0x1000, Data: []byte{0xc3}}}
	syms := []ELFSymbol{{Name: "vfs_read", Addr: addr, Size: 11, Bind: elf.STB_GLOBAL, Type: elf.STT_FUNC}}
	const push = "ffffffff81001239:\t55                   \tpush   %rbp\n"
	for name, tt := range map[string]struct {
		write func(io.Writer, elf.Machine, elf.Class, elf.Data, []Segment, []ELFSymbol) error
		want  []string
	}{
		"core": {WriteCore, []string{push, "\nffffffff81002234:\tc3 "}},
		"exec": {WriteExec, []string{push, "\nffffffff81002234:\tc3 ", "\nffffffff81001234 <vfs_read>:\n"}},
	} {
		path := filepath.Join(t.TempDir(), name)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := tt.write(f, elf.EM_X86_64, elf.ELFCLASS64, elf.ELFDATA2LSB, segs, syms); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(objdump, "-d", path).CombinedOutput()
		if err != nil {
			t.Errorf("objdump: %v", err)
		}
		for _, want := range tt.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: objdump -d does not show %q:\n%s", name, want, out)
			}
		}
	}
}

// TestWriteCoreFrom: contents that are read part by part make the file that WriteCore makes,
// and an error of reading is returned.
func TestWriteCoreFrom(t *testing.T) {
	segments := append(writeSegments[:len(writeSegments):len(writeSegments)], Segment{Addr: 0xc0b00000, Data: bytes.Repeat([]byte("0123456789abcde"), 10_000)})
	sizes := make(map[uint64]uint64)
	for _, s := range segments {
		sizes[s.Addr] = uint64(len(s.Data))
	}
	forEachLayout(t, func(t *testing.T, class elf.Class, data elf.Data) {
		var want, got bytes.Buffer
		if err := WriteCore(&want, elf.EM_PPC64, class, data, segments, nil); err != nil {
			t.Fatal(err)
		}
		longest := 0
		read := func(b []byte, addr uint64) error {
			longest = max(longest, len(b))
			for _, s := range segments {
				if s.Addr <= addr && addr-s.Addr < uint64(len(s.Data)) {
					copy(b, s.Data[addr-s.Addr:])
				}
			}
			return nil
		}
		if err := WriteCoreFrom(&got, elf.EM_PPC64, class, data, sizes, read); err != nil || !bytes.Equal(want.Bytes(), got.Bytes()) {
			t.Errorf("%v, %d bytes, want %d", err, got.Len(), want.Len())
		}
		if longest > 64<<10 {
			t.Errorf("a part of %d bytes", longest)
		}
		bad := errors.New("not readable")
		if err := WriteCoreFrom(io.Discard, elf.EM_PPC64, class, data, sizes, func([]byte, uint64) error { return bad }); !errors.Is(err, bad) {
			t.Errorf("%v, want %v", err, bad)
		}
		parts := 0
		if err := WriteCoreFrom(failing{}, elf.EM_PPC64, class, data, map[uint64]uint64{0x1000: 1 << 30}, func([]byte, uint64) error { parts++; return nil }); !errors.Is(err, errFailing) || parts > 2 {
			t.Errorf("after an error of writing, %d parts were read: %v", parts, err)
		}
	})
}
