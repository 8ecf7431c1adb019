// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func newX86(t testing.TB) *Disassembler {
	t.Helper()
	d, err := New(elf.EM_X86_64, binary.LittleEndian)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestNewUnsupported(t *testing.T) {
	for _, tt := range []struct {
		machine elf.Machine
		order   binary.ByteOrder
	}{
		{elf.EM_S390, binary.BigEndian},
		{elf.EM_386, binary.LittleEndian},
		{elf.EM_X86_64, binary.BigEndian},
		{elf.EM_AARCH64, nil},
		{elf.EM_PPC64, nil},
		{elf.EM_NONE, nil},
	} {
		if _, err := New(tt.machine, tt.order); !errors.Is(err, ErrUnsupportedArch) {
			t.Errorf("New(%v, %v): error %v, want ErrUnsupportedArch", tt.machine, tt.order, err)
		}
	}
}

// symbols names the 0x100 bytes of vfs_read, and one address wrongly.
func symbols(addr uint64) (string, uint64, bool) {
	switch {
	case addr >= 0xffffffff81234500 && addr < 0xffffffff81234600:
		return "vfs_read", 0xffffffff81234500, true
	case addr == 0xffffffff82000000:
		return "wrong", addr + 1, true
	}
	return "", 0, false
}

func TestNext(t *testing.T) {
	const addr = 0xffffffff81234500
	d := newX86(t)
	tests := []struct {
		name string
		code []byte
		sym  Symbolizer
		want Inst
	}{
		{
			"call of a symbol", []byte{0xe8, 0x0b, 0, 0, 0, 0x90}, symbols,
			Inst{Bytes: []byte{0xe8, 0x0b, 0, 0, 0}, Text: "call ffffffff81234510 <vfs_read+0x10>", Class: Call, Target: addr + 0x10, HasTarget: true},
		},
		{
			"jump to where a symbol begins", []byte{0xeb, 0xfe}, symbols,
			Inst{Bytes: []byte{0xeb, 0xfe}, Text: "jmp ffffffff81234500 <vfs_read>", Class: Jump, Target: addr, HasTarget: true},
		},
		{
			"jump backwards out of the symbol", []byte{0x74, 0x80}, symbols,
			Inst{Bytes: []byte{0x74, 0x80}, Text: "je ffffffff81234482", Class: CondJump, Target: addr + 2 - 128, HasTarget: true},
		},
		{
			"symbol that begins behind its address", []byte{0xe9, 0xfb, 0xba, 0xdc, 0x00}, symbols,
			Inst{Bytes: []byte{0xe9, 0xfb, 0xba, 0xdc, 0x00}, Text: "jmp ffffffff82000000", Class: Jump, Target: 0xffffffff82000000, HasTarget: true},
		},
		{
			"no symbolizer", []byte{0xe8, 0x0b, 0, 0, 0}, nil,
			Inst{Bytes: []byte{0xe8, 0x0b, 0, 0, 0}, Text: "call ffffffff81234510", Class: Call, Target: addr + 0x10, HasTarget: true},
		},
		{
			"indirect call", []byte{0xff, 0xd0}, symbols,
			Inst{Bytes: []byte{0xff, 0xd0}, Text: "call *%rax", Class: IndirectCall},
		},
		{
			"relative to RIP", []byte{0x48, 0x8b, 0x05, 0x0c, 0, 0, 0}, symbols,
			Inst{Bytes: []byte{0x48, 0x8b, 0x05, 0x0c, 0, 0, 0}, Text: "mov 0xc(%rip),%rax  # ffffffff81234513 <vfs_read+0x13>"},
		},
		{
			"relative to RIP with an immediate after the displacement", []byte{0x80, 0x3d, 0xf9, 0xff, 0xff, 0xff, 0x01}, symbols,
			Inst{Bytes: []byte{0x80, 0x3d, 0xf9, 0xff, 0xff, 0xff, 0x01}, Text: "cmpb $0x1,-0x7(%rip)  # ffffffff81234500 <vfs_read>"},
		},
		{
			"no instruction", []byte{0x06, 0x90}, symbols,
			Inst{Bytes: []byte{0x06}, Text: ".byte 0x06", Data: true},
		},
		{
			"cut short", []byte{0xe8, 0x0b, 0, 0}, symbols,
			Inst{Bytes: []byte{0xe8}, Text: ".byte 0xe8", Data: true},
		},
		{
			"prefixes alone", []byte{0x66, 0xf3}, symbols,
			Inst{Bytes: []byte{0x66}, Text: ".byte 0x66", Data: true},
		},
		{
			"too many prefixes", bytes.Repeat([]byte{0x66}, 16), symbols,
			Inst{Bytes: []byte{0x66}, Text: ".byte 0x66", Data: true},
		},
		{"nothing", nil, symbols, Inst{}},
	}
	for _, tt := range tests {
		tt.want.Addr = addr
		got := d.Next(tt.code, addr, tt.sym)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if cap(got.Bytes) != len(got.Bytes) {
			t.Errorf("%s: Bytes has room for %d bytes that are not its own", tt.name, cap(got.Bytes)-len(got.Bytes))
		}
	}
}

func TestAll(t *testing.T) {
	code := []byte{
		0xf3, 0x0f, 0x1e, 0xfa, // endbr64
		0xe8, 0xf7, 0x00, 0x00, 0x00, // call
		0x06, 0x07, // no instructions
		0xc3, // ret
		0x48, // cut short
	}
	const addr = 0xffffffff81234500
	type line struct {
		off  uint64
		text string
	}
	want := []line{
		{0, "endbr64"},
		{4, "call ffffffff81234600"},
		{9, ".byte 0x06"},
		{10, ".byte 0x07"},
		{11, "ret"},
		{12, ".byte 0x48"},
	}
	var got []line
	var joined []byte
	for inst := range newX86(t).All(code, addr, symbols) {
		got = append(got, line{inst.Addr - addr, inst.Text})
		joined = append(joined, inst.Bytes...)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if !bytes.Equal(joined, code) {
		t.Errorf("the instructions' bytes are % x, want % x", joined, code)
	}
	for inst := range newX86(t).All(code, addr, nil) {
		if inst.Addr != addr {
			t.Fatalf("went on to %#x after break", inst.Addr)
		}
		break
	}
}

// Data within code.
func TestAllWithData(t *testing.T) {
	literal := []byte{0x58, 0x7f, 0x36, 0x3c, 0x83, 0xab, 0xff, 0xff}
	names := func(addr uint64) (string, uint64, bool) {
		return "ftrace_nop_ops", 0xffffab833c367f58, addr >= 0xffffab833c367f58 && addr < 0xffffab833c367f60
	}
	arm := slices.Concat(literal,
		wordARM64.words(0xaa1e03e9, 0xd503201f, 0xd65f03c0), literal[:4], []byte{1, 2, 3})
	ppc := func(a wordArch) []byte { return a.words(0x60000000, 0x3c367f58, 0x4e800020) }
	amd64 := []byte{0x90, 0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8, 0xc3}
	between := func(from, to uint64) func(uint64) bool {
		return func(addr uint64) bool { return addr >= from && addr < to }
	}
	tests := []struct {
		name    string
		machine elf.Machine
		order   binary.ByteOrder
		code    []byte
		isData  func(uint64) bool
		want    []string
	}{
		{
			"arm64", elf.EM_AARCH64, binary.LittleEndian, arm,
			func(addr uint64) bool { return addr < 0x1008 || addr >= 0x1014 },
			[]string{
				"1000 .xword 0xffffab833c367f58 <ftrace_nop_ops>", "1008 mov x9, x30", "100c nop", "1010 ret",
				"1014 .word 0x3c367f58", "1018 .byte 0x01", "1019 .byte 0x02", "101a .byte 0x03",
			},
		},
		{
			"arm64 of a big-endian kernel", elf.EM_AARCH64, binary.BigEndian,
			append([]byte{0xff, 0xff, 0xab, 0x83, 0x3c, 0x36, 0x7f, 0x58}, arm[8:16]...), between(0x1000, 0x1008),
			[]string{"1000 .xword 0xffffab833c367f58 <ftrace_nop_ops>", "1008 mov x9, x30", "100c nop"},
		},
		{
			"no data said", elf.EM_AARCH64, binary.LittleEndian, arm[:12], between(0, 0),
			[]string{"1000 .inst 0x3c367f58", "1004 .inst 0xffffab83", "1008 mov x9, x30"},
		},
		{
			"not aligned", elf.EM_AARCH64, binary.LittleEndian, arm[:12], between(0x1004, 0x1008),
			[]string{"1000 .inst 0x3c367f58", "1004 .word 0xffffab83", "1008 mov x9, x30"},
		},
		{
			"ppc64le", elf.EM_PPC64, binary.LittleEndian, ppc(wordPPC64LE), between(0x1004, 0x1008),
			[]string{"1000 nop", "1004 .long 0x3c367f58", "1008 blr"},
		},
		{
			"ppc64", elf.EM_PPC64, binary.BigEndian, ppc(wordPPC64), between(0x1000, 0x1008),
			[]string{"1000 .quad 0x600000003c367f58", "1008 blr"},
		},
		{
			"prefix before data", elf.EM_PPC64, binary.BigEndian, wordPPC64.words(0x04000000, 0xe4630008), between(0x1004, 0x1008),
			[]string{"1000 .long 0x4000000", "1004 .long 0xe4630008"},
		},
		{
			"x86-64", elf.EM_X86_64, binary.LittleEndian, amd64, between(0x1004, 0x100b),
			[]string{
				"1000 nop", "1001 .byte 0x48", "1002 .byte 0xb8", "1003 .byte 0x01", "1004 .long 0x05040302",
				"1008 .byte 0x06", "1009 .byte 0x07", "100a .byte 0x08", "100b ret",
			},
		},
	}
	for _, tt := range tests {
		d, err := New(tt.machine, tt.order)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		var joined []byte
		for inst := range d.AllWithData(tt.code, 0x1000, names, tt.isData) {
			got = append(got, fmt.Sprintf("%x %s", inst.Addr, inst.Text))
			joined = append(joined, inst.Bytes...)
			if inst.Data != strings.HasPrefix(inst.Text, ".") || cap(inst.Bytes) != len(inst.Bytes) {
				t.Errorf("%s: %+v", tt.name, inst)
			}
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
		if !bytes.Equal(joined, tt.code) {
			t.Errorf("%s: the bytes are % x, want % x", tt.name, joined, tt.code)
		}
	}
}

// Where no instruction can be.
func TestMisaligned(t *testing.T) {
	code := append([]byte{7, 8}, wordARM64.words(0xd503201f)...)
	want := []string{".byte 0x07", ".byte 0x08", "nop"}
	var got []string
	for inst := range wordARM64.new(t).All(code, 0x1002, nil) {
		got = append(got, inst.Text)
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if inst := wordARM64.new(t).data(nil, 0x1000, nil); len(inst.Bytes) != 0 {
		t.Errorf("data of no bytes: %+v", inst)
	}
}
