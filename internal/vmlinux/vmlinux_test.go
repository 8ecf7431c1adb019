// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package vmlinux

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/genperf"
)

// TestLists: the lists at the end of a boot image's kernel say which words move.
func TestLists(t *testing.T) {
	data := make([]byte, 64)
	for i := range data {
		data[i] = 0x10
	}
	const at = genperf.LinkedText
	open := func(lists *[3][]uint64) *File {
		file := genperf.KernelFile(elf.EM_X86_64, []genperf.KernelSection{{Name: ".text", Addr: at, Code: true, Data: data}}, lists)
		f, err := New(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := open(&[3][]uint64{{at + 8, at + 1<<20}, {at + 24}, {at + 40, at + 32}})
	got, ok, err := f.Moved(f.Section(".text"), 1<<24)
	if err != nil || !ok {
		t.Fatalf("%v %v", ok, err)
	}
	want := bytes.Clone(data)
	want[8+3], want[24+3], want[32+3], want[40+3] = 0x11, 0x0f, 0x11, 0x11
	if !bytes.Equal(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
	f = open(nil)
	if got, ok, err = f.Moved(f.Section(".text"), 1<<24); ok || err != nil || !bytes.Equal(got, data) {
		t.Errorf("without lists: %x %v %v", got, ok, err)
	}
	if got, ok, err = f.Moved(f.Section(".text"), 0); !ok || err != nil || !bytes.Equal(got, data) {
		t.Errorf("not moved: %x %v %v", got, ok, err)
	}
	f = open(&[3][]uint64{{}, {}, {at + 62}})
	if _, _, err = f.Moved(f.Section(".text"), 1<<24); err == nil {
		t.Error("a word that reaches beyond its section is no error")
	}
	if addr, err := f.Stext(); addr != at || err != nil {
		t.Errorf("_stext at %#x, %v", addr, err)
	}
}

// TestNotKernel: errors say what the file is instead of a kernel's ELF file.
func TestNotKernel(t *testing.T) {
	kernel := genperf.KernelFile(elf.EM_X86_64, []genperf.KernelSection{{Name: ".text", Addr: genperf.LinkedText, Code: true, Data: make([]byte, 64)}}, nil)
	for _, tt := range []struct{ file, err string }{
		{"", "the file is empty"},
		{"root:x:0:0", `not an ELF file: begins with "root"`},
		{"a", `not an ELF file: begins with "a"`},
		{"MZ\x90\x00", "a boot image, which has the kernel's ELF file in it, compressed"},
		{string(kernel[:4]), "the file was cut: it ends before its headers do"},
		{string(kernel[:100]), "the file was cut: it ends before its headers do"},
	} {
		if _, err := New(strings.NewReader(tt.file)); err == nil || err.Error() != tt.err {
			t.Errorf("%.20q: %v, want %s", tt.file, err, tt.err)
		}
	}
	// A program without symbols, as distributions ship them.
	f, err := New(bytes.NewReader(genperf.KernelFile(elf.EM_X86_64, []genperf.KernelSection{{Name: ".text", Addr: 0x4000, Code: true, Data: make([]byte, 64)}}, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Stext(); err == nil || err.Error() != "not a kernel: its text is linked at 0x4000" {
		t.Error(err)
	}
	// Only x86-64 has _stext at the start of .text.
	f, err = New(bytes.NewReader(genperf.KernelFile(elf.EM_AARCH64, []genperf.KernelSection{{Name: ".text", Addr: genperf.LinkedText, Code: true, Data: make([]byte, 64)}}, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Stext(); err == nil || err.Error() != "the file has no symbols, so nothing says where _stext is" {
		t.Error(err)
	}
}

// TestRelocate: addresses move. Those of per-CPU variables do not, and move the other way
// where they are relative; absolute symbols do not move.
func TestRelocate(t *testing.T) {
	f := &File{percpu: 3, symbols: []elf.Symbol{{Name: "function", Section: 1}, {Name: "variable", Section: 3},
		{Name: "__per_cpu_load", Section: 3}, {Name: "absolute", Section: elf.SHN_ABS}}}
	for i, tt := range []struct {
		symbol uint64
		typ    elf.R_X86_64
		want   uint64
	}{
		{1, elf.R_X86_64_64, 0x1000}, {1, elf.R_X86_64_32, 0x1000}, {1, elf.R_X86_64_32S, 0x1000}, {1, elf.R_X86_64_PC32, 0},
		{2, elf.R_X86_64_32S, 0}, {2, elf.R_X86_64_64, 0}, {2, elf.R_X86_64_PC32, 0xfffff000}, {2, elf.R_X86_64_PLT32, 0xfffff000},
		{3, elf.R_X86_64_32S, 0x1000}, {4, elf.R_X86_64_32, 0}, {0, elf.R_X86_64_32, 0x1000},
	} {
		data := make([]byte, 16)
		var table []byte
		for _, v := range []uint64{0x104, tt.symbol<<32 | uint64(tt.typ), 0} {
			table = binary.LittleEndian.AppendUint64(table, v)
		}
		if err := f.relocate(table, 0x100, data, 0x1000); err != nil {
			t.Fatal(err)
		}
		if got := binary.LittleEndian.Uint64(data[4:]); got != tt.want {
			t.Errorf("%d: %v of symbol %d: %#x, want %#x", i, tt.typ, tt.symbol, got, tt.want)
		}
	}
}

// TestPerCPU: since 6.15 the section of per-CPU variables is linked where it is, and its addresses move
// as all others.
func TestPerCPU(t *testing.T) {
	for addr, want := range map[uint64]elf.SectionIndex{0: 1, genperf.LinkedText + 1<<25: 0} {
		f, err := New(bytes.NewReader(genperf.KernelFile(elf.EM_X86_64, []genperf.KernelSection{{Name: ".data..percpu", Addr: addr, Data: make([]byte, 64)}}, nil)))
		if err != nil {
			t.Fatal(err)
		}
		if err := f.readSymbols(); err != nil {
			t.Fatal(err)
		}
		if f.percpu != want {
			t.Errorf("linked at %#x: offsets in section %d, want %d", addr, f.percpu, want)
		}
	}
}
