// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/elf"
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/timeline"
)

// TestPlainTexts: an instruction that was seen before, at another address or with other bytes behind it, is what the
// disassembler makes of it there. The bytes are random, and repeated, whole and cut.
func TestPlainTexts(t *testing.T) {
	const text = 0xffff_ffff_8100_0000
	b := timeline.NewBuilder()
	b.Text(text, text+0x1000)
	b.Extent(100, 300)
	im, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	v := im.At(200)
	for _, arch := range []struct {
		machine elf.Machine
		order   binary.ByteOrder
	}{{elf.EM_X86_64, binary.LittleEndian}, {elf.EM_PPC64, binary.LittleEndian}, {elf.EM_PPC64, binary.BigEndian}} {
		dis, err := disasm.New(arch.machine, arch.order)
		if err != nil {
			t.Fatal(err)
		}
		c, rng := &coder{dis: dis}, rand.New(rand.NewPCG(uint64(arch.machine), 1))
		seen := [][]byte{{0x0f, 0x1f, 0x44, 0, 0}, {0xe8, 1, 2, 3, 4}, {0x66, 0x90}, {0x60, 0, 0, 0}, {0, 0, 0, 0x60}, {0x48, 0x8b, 5, 1, 2, 3, 4}}
		found := 0
		for range 100_000 {
			code := make([]byte, 1+rng.IntN(20))
			for i := range code {
				code[i] = byte(rng.Uint32())
			}
			if rng.IntN(10) == 0 {
				seen[rng.IntN(len(seen))] = code
			}
			copy(code, seen[rng.IntN(len(seen))]) // cut where code ends
			addr := text + uint64(rng.IntN(0x1000))
			if _, ok := c.plain.find(code, addr); ok {
				found++
			}
			got, want := c.next(code, v, addr), dis.Next(code, addr, c.symbolizer(v))
			if !reflect.DeepEqual(got, want) {
				t.Fatalf("%v: % x at %x is %+v, want %+v", arch.machine, code, addr, got, want)
			}
			if len(got.Bytes) > 0 && &got.Bytes[0] != &code[0] || cap(got.Bytes) != len(got.Bytes) {
				t.Fatalf("%v: the bytes of % x are not those that were decoded", arch.machine, code)
			}
		}
		if found < 10_000 {
			t.Errorf("%v: only %d instructions were seen before", arch.machine, found)
		}
	}
}
