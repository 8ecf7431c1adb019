// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ppc64TextAddr is where testdata/ppc64le.text lay.
const ppc64TextAddr = 0xc000000000118000

func TestPPC64Golden(t *testing.T) {
	for _, a := range []wordArch{wordPPC64LE, wordPPC64} {
		a.golden(t, "ppc64le.kernel.tsv")
		a.golden(t, "ppc64le.random.tsv")
	}
}

// What kernel text is patched with, and what has a name or a target.
func TestPPC64(t *testing.T) {
	const addr = 0xffffffff81234504 // in vfs_read
	tests := []struct {
		words  []uint32
		want   string
		target uint64
	}{
		{words: []uint32{0x60000000}, want: "nop"},
		{words: []uint32{0x7c0802a6}, want: "mflr r0"},
		{words: []uint32{0x7c0803a6}, want: "mtlr r0"},
		{words: []uint32{0x7fe00008}, want: "trap"},
		{words: []uint32{0x4e800020}, want: "blr"},
		{words: []uint32{0x4e800420}, want: "bctr"},
		{words: []uint32{0x4d820020}, want: "beqlr"},
		{words: []uint32{0x4c9e0020}, want: "bnelr cr7"},
		{words: []uint32{0x4c400420}, want: "bcctr 2,lt"},
		{words: []uint32{0x4bfffffd}, want: "bl ffffffff81234500 <vfs_read>", target: addr - 4},
		{words: []uint32{0x48000048}, want: "b ffffffff8123454c <vfs_read+0x4c>", target: addr + 0x48},
		{words: []uint32{0x48000048 | 2}, want: "ba 48", target: 0x48},
		{words: []uint32{0x4bfffffe}, want: "ba fffffffffffffffc", target: 0xfffffffffffffffc},
		{words: []uint32{0x4182000c}, want: "beq ffffffff81234510 <vfs_read+0x10>", target: addr + 12},
		{words: []uint32{0x409e000c}, want: "bne cr7,ffffffff81234510 <vfs_read+0x10>", target: addr + 12},
		{words: []uint32{0x40c2000c}, want: "bne- ffffffff81234510 <vfs_read+0x10>", target: addr + 12},
		{words: []uint32{0x4200fffc}, want: "bdnz ffffffff81234500 <vfs_read>", target: addr - 4},
		{words: []uint32{0x4302fffc}, want: "bc- 24,eq,ffffffff81234500 <vfs_read>", target: addr - 4},
		{words: []uint32{0x4102000c}, want: "bdnzt eq,ffffffff81234510 <vfs_read+0x10>", target: addr + 12},
		{words: []uint32{0x429f0005}, want: "bcl 20,4*cr7+so,ffffffff81234508 <vfs_read+0x8>", target: addr + 4},
		{words: []uint32{0x41820012}, want: "beqa 10", target: 0x10},
		{words: []uint32{0x3c4c0133}, want: "addis r2,r12,307"},
		{words: []uint32{0x38600000}, want: "li r3,0"},
		{words: []uint32{0x3c60c000}, want: "lis r3,-16384"},
		{words: []uint32{0x7c7f1b78}, want: "mr r31,r3"},
		{words: []uint32{0xe8410018}, want: "ld r2,24(r1)"},
		{words: []uint32{0xf821ffe1}, want: "stdu r1,-32(r1)"},
		{words: []uint32{0xfb000040}, want: "std r24,64(0)"},
		{words: []uint32{0x7d20f828}, want: "lwarx r9,0,r31"},
		{words: []uint32{0x7d20f829}, want: "lwarx r9,0,r31,1"},
		{words: []uint32{0x788406e0}, want: "clrldi r4,r4,59"},
		{words: []uint32{0x7863f082}, want: "srdi r3,r3,2"},
		{words: []uint32{0x786307c6}, want: "sldi r3,r3,32"},
		{words: []uint32{0x5463103a}, want: "slwi r3,r3,2"},
		{words: []uint32{0x2c230000}, want: "cmpdi r3,0"},
		{words: []uint32{0x2f830000}, want: "cmpwi cr7,r3,0"},
		{words: []uint32{0x0b090000}, want: "tdnei r9,0"},
		{words: []uint32{0x7c0004ac}, want: "hwsync"},
		{words: []uint32{0x7c2004ac}, want: "lwsync"},
		{words: []uint32{0x7d000164}, want: "mtmsrd r8"},
		{words: []uint32{0x7d010164}, want: "mtmsrd r8,1"},
		{words: []uint32{0x7d1343a6}, want: "mtsprg 3,r8"},
		{words: []uint32{0x7c1242a6}, want: "mfsprg r0,2"},
		{words: []uint32{0x7d2c42a6}, want: "mftb r9"},
		{words: []uint32{0x7c1143a6 | 9<<21 | 31<<16}, want: "mtspr 287,r9"}, // can only be read
		{words: []uint32{0x7c0037ec}, want: "dcbz 0,r6"},
		{words: []uint32{0x7d404a64}, want: "tlbie r9,r10"},
		{words: []uint32{0x7cc5189e}, want: "iseleq r6,r5,r3"},
		{words: []uint32{0x7c20070d | 4<<11}, want: "paste. 0,r4"},
		{words: []uint32{0x7c00051d}, want: "tbegin."},
		{words: []uint32{0x7c03075d}, want: "treclaim. r3"},
		{words: []uint32{0x04000000, 0xe4630008}, want: "pld r3,8(r3)"},
		{words: []uint32{0x04100000, 0xe460000c}, want: "pld r3,12  # ffffffff81234510 <vfs_read+0x10>"},
		{words: []uint32{0x0613ffff, 0x3860fffc}, want: "pla r3,-4  # ffffffff81234500 <vfs_read>"},
		{words: []uint32{0x06000001, 0x38600000}, want: "pli r3,65536"},
		{words: []uint32{0x04100000, 0xe463000c}, want: ".long 0x4100000"}, // relative to two things
		{words: []uint32{0x0000de5c}, want: ".long 0xde5c"},
		{words: []uint32{0x00000000}, want: ".long 0x0"},
		{words: []uint32{0xfffff72c}, want: ".long 0xfffff72c"}, // looks like fsqrt
		{words: []uint32{0x8c600008}, want: ".long 0x8c600008"}, // looks like lbzu
	}
	for _, a := range []wordArch{wordPPC64LE, wordPPC64} {
		d := a.new(t)
		for _, tt := range tests {
			code := a.words(tt.words...)
			want := Inst{
				Addr: addr, Bytes: code, Text: tt.want, Target: tt.target, HasTarget: strings.HasPrefix(tt.want, "b") && tt.target != 0,
				Data: strings.HasPrefix(tt.want, "."),
			}
			if want.Data {
				want.Bytes = code[:4]
			}
			if !want.Data {
				want.Class = ppc64ClassOf(tt.want)
			}
			if diff := cmp.Diff(want, d.Next(append(bytes.Clone(code), 1, 2, 3, 4), addr, symbols)); diff != "" {
				t.Errorf("%v: %08x (-want +got):\n%s", a.order, tt.words, diff)
			}
		}
	}
}

func TestPPC64Objdump(t *testing.T) {
	t.Run("le", func(t *testing.T) { wordPPC64LE.compare(t, readFile(t, "ppc64le.text"), ppc64TextAddr) })
	t.Run("be", func(t *testing.T) { wordPPC64.compare(t, swapWords(readFile(t, "ppc64le.text")), ppc64TextAddr) })
}

func TestPPC64Corpus(t *testing.T) {
	pieces, addrs := textOf(t, "ppc64le/rich")
	wordPPC64LE.compareAll(t, pieces, addrs)
}

// Every row of the table, and every special-purpose register.
func TestPPC64EntriesObjdump(t *testing.T) {
	words := encodings(ppc64Entries)
	for spr := range uint32(1024) {
		number := spr&31<<16 | spr>>5<<11
		words = append(words, 0x7c6002a6|number, 0x7c6003a6|number)
	}
	wordPPC64LE.compare(t, wordPPC64LE.words(words...), 0)
	wordPPC64.compare(t, wordPPC64.words(words...), 0)
}

func FuzzPPC64(f *testing.F) {
	for i, l := range readLines(f, "ppc64le.random.tsv") {
		if i%16 == 0 {
			f.Add(l.code, l.addr, false)
			f.Add(swapWords(l.code), l.addr, true)
		}
	}
	f.Add([]byte{0, 0, 0}, uint64(0), true)
	f.Add([]byte{0x60, 0, 0, 0}, uint64(1), true)
	le, be := wordPPC64LE.new(f), wordPPC64.new(f)
	f.Fuzz(func(t *testing.T, code []byte, addr uint64, big bool) {
		if big {
			wordPPC64.fuzz(t, be, code, addr)
		} else {
			wordPPC64LE.fuzz(t, le, code, addr)
		}
	})
}

func BenchmarkPPC64(b *testing.B) { wordPPC64LE.benchmark(b, "ppc64le.text") }
