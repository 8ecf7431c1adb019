// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// arm64TextAddr is where testdata/arm64.text lay.
const arm64TextAddr = 0xffffab833bac0000

func TestARM64Golden(t *testing.T) {
	wordARM64.golden(t, "arm64.kernel.tsv")
	wordARM64.golden(t, "arm64.random.tsv")
}

// What kernel text is patched with, and what has a name or a target.
func TestARM64(t *testing.T) {
	const addr = 0xffffffff81234504 // in vfs_read
	tests := []struct {
		word   uint32
		want   string
		target uint64
	}{
		{word: 0xd503201f, want: "nop"},
		{word: 0xaa1e03e9, want: "mov x9, x30"},
		{word: 0xd503233f, want: "paciasp"},
		{word: 0xd50323bf, want: "autiasp"},
		{word: 0xd503245f, want: "bti c"},
		{word: 0xd65f03c0, want: "ret"},
		{word: 0xd65f0140, want: "ret x10"},
		{word: 0xd65f0bff, want: "retaa"},
		{word: 0xd63f0100, want: "blr x8"},
		{word: 0xd4200080, want: "brk #0x4"},
		{word: 0xd42000c0, want: "brk #0x6"},
		{word: 0x97ffffff, want: "bl ffffffff81234500 <vfs_read>", target: addr - 4},
		{word: 0x94000003, want: "bl ffffffff81234510 <vfs_read+0x10>", target: addr + 12},
		{word: 0x1400000e, want: "b ffffffff8123453c <vfs_read+0x3c>", target: addr + 0x38},
		{word: 0x54000060, want: "b.eq ffffffff81234510 <vfs_read+0x10>", target: addr + 12},
		{word: 0x5400006f, want: "b.nv ffffffff81234510 <vfs_read+0x10>", target: addr + 12},
		{word: 0xb4000061, want: "cbz x1, ffffffff81234510 <vfs_read+0x10>", target: addr + 12},
		{word: 0x37280062, want: "tbnz w2, #5, ffffffff81234510 <vfs_read+0x10>", target: addr + 12},
		{word: 0xb7280062, want: "tbnz x2, #37, ffffffff81234510 <vfs_read+0x10>", target: addr + 12},
		{word: 0x10000060, want: "adr x0, ffffffff81234510 <vfs_read+0x10>"},
		{word: 0x90000000, want: "adrp x0, ffffffff81234000"},
		{word: 0x58000060, want: "ldr x0, ffffffff81234510 <vfs_read+0x10>"},
		{word: 0xa9be7bfd, want: "stp x29, x30, [sp, #-32]!"},
		{word: 0xa8c27bfd, want: "ldp x29, x30, [sp], #32"},
		{word: 0xb8607822, want: "ldr w2, [x1, x0, lsl #2]"},
		{word: 0x52800089, want: "mov w9, #0x4  // #4"},
		{word: 0x92800000, want: "mov x0, #0xffffffffffffffff  // #-1"},
		{word: 0x12800000, want: "mov w0, #0xffffffff  // #-1"},
		{word: 0xd5384100, want: "mrs x0, sp_el0"},
		{word: 0xd51b4220, want: "msr daif, x0"},
		{word: 0xd53ba240, want: "mrs x0, s3_3_c10_c2_2"},
		{word: 0xd5130500, want: "msr dbgdtrtx_el0, x0"},
		{word: 0xd5330500, want: "mrs x0, dbgdtrrx_el0"},
		{word: 0xd50342df, want: "msr daifset, #0x2"},
		{word: 0xd500419f, want: "msr pan, #0x1"},
		{word: 0xd508831f, want: "tlbi vmalle1is"},
		{word: 0xd50b7421, want: "dc zva, x1"},
		{word: 0xd503309f, want: "ssbb"},
		{word: 0x88e0fc41, want: "casal w0, w1, [x2]"},
		{word: 0xb82103e2, want: "ldadd w1, w2, [sp]"},
		{word: 0xb821005f, want: "stadd w1, [x2]"},
		{word: 0xb8a1005f, want: "ldadda w1, wzr, [x2]"}, // an acquire that nobody sees is kept
		{word: 0x4860fc9e, want: "caspal x0, x1, x30, xzr, [x4]"},
		{word: 0xd4000002, want: "hvc #0x0"},
		{word: 0x00000000, want: "udf #0"},
		{word: 0x85be0000, want: "ldr p0, [x0, #-16, mul vl]"},
		{word: 0xe5804000, want: "str z0, [x0]"},
		{word: 0xffffa438, want: ".inst 0xffffa438"},
		{word: 0x9265fe3c, want: ".inst 0x9265fe3c"}, // a mask of all ones
		{word: 0xcb3d75a3, want: ".inst 0xcb3d75a3"}, // shifted by more than 4
	}
	d := wordARM64.new(t)
	for _, tt := range tests {
		code := wordARM64.words(tt.word)
		want := Inst{
			Addr: addr, Bytes: code, Text: tt.want, Target: tt.target, HasTarget: tt.target != 0,
			Data: strings.HasPrefix(tt.want, "."),
		}
		if !want.Data {
			want.Class = arm64ClassOf(tt.want)
		}
		if diff := cmp.Diff(want, d.Next(append(bytes.Clone(code), 1, 2, 3, 4), addr, symbols)); diff != "" {
			t.Errorf("%08x (-want +got):\n%s", tt.word, diff)
		}
	}
}

func TestARM64Objdump(t *testing.T) {
	wordARM64.compare(t, readFile(t, "arm64.text"), arm64TextAddr)
}

func TestARM64Corpus(t *testing.T) {
	pieces, addrs := textOf(t, "arm64/rich")
	wordARM64.compareAll(t, pieces, addrs)
}

// Every row of the tables.
func TestARM64EntriesObjdump(t *testing.T) {
	var words []uint32
	for _, rows := range a64Index() {
		words = append(words, encodings(rows)...)
	}
	if len(words) < 4*500 {
		t.Fatalf("%d words", len(words))
	}
	wordARM64.compare(t, wordARM64.words(words...), 0)
}

// Every system register and system instruction that has a name here.
func TestARM64SystemObjdump(t *testing.T) {
	var words []uint32
	for _, names := range []map[uint16]string{a64RegisterNames(), a64OpNames()} {
		for key := range names {
			word := 0xd5000001 | uint32(key)<<5
			words = append(words, word)
			if key>>15 != 0 { // a register, which can be read
				words = append(words, word|1<<21)
			}
		}
	}
	slices.Sort(words)
	wordARM64.compare(t, wordARM64.words(words...), 0)
}

func FuzzARM64(f *testing.F) {
	for i, l := range readLines(f, "arm64.random.tsv") {
		if i%8 == 0 {
			f.Add(l.code, l.addr)
		}
	}
	f.Add([]byte{0x1f, 0x20, 0x03}, uint64(0))
	f.Add([]byte{0x1f, 0x20, 0x03, 0xd5}, uint64(2))
	d := wordARM64.new(f)
	f.Fuzz(func(t *testing.T, code []byte, addr uint64) { wordARM64.fuzz(t, d, code, addr) })
}

func BenchmarkARM64(b *testing.B) { wordARM64.benchmark(b, "arm64.text") }
