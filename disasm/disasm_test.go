// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"slices"
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
			Inst{Bytes: []byte{0xe8, 0x0b, 0, 0, 0}, Text: "call ffffffff81234510 <vfs_read+0x10>", Target: addr + 0x10, HasTarget: true},
		},
		{
			"jump to where a symbol begins", []byte{0xeb, 0xfe}, symbols,
			Inst{Bytes: []byte{0xeb, 0xfe}, Text: "jmp ffffffff81234500 <vfs_read>", Target: addr, HasTarget: true},
		},
		{
			"jump backwards out of the symbol", []byte{0x74, 0x80}, symbols,
			Inst{Bytes: []byte{0x74, 0x80}, Text: "je ffffffff81234482", Target: addr + 2 - 128, HasTarget: true},
		},
		{
			"symbol that begins behind its address", []byte{0xe9, 0xfb, 0xba, 0xdc, 0x00}, symbols,
			Inst{Bytes: []byte{0xe9, 0xfb, 0xba, 0xdc, 0x00}, Text: "jmp ffffffff82000000", Target: 0xffffffff82000000, HasTarget: true},
		},
		{
			"no symbolizer", []byte{0xe8, 0x0b, 0, 0, 0}, nil,
			Inst{Bytes: []byte{0xe8, 0x0b, 0, 0, 0}, Text: "call ffffffff81234510", Target: addr + 0x10, HasTarget: true},
		},
		{
			"indirect call", []byte{0xff, 0xd0}, symbols,
			Inst{Bytes: []byte{0xff, 0xd0}, Text: "call *%rax"},
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
