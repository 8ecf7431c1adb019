// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/textreplay/textreplay/disasm"
)

// TestRelocations: addresses are found where decoding all instructions in their order finds them.
func TestRelocations(t *testing.T) {
	const addr, base = 0xffffffff9f000000, 0xffffffff9f000000
	d, err := disasm.New(elf.EM_X86_64, binary.LittleEndian)
	if err != nil {
		t.Fatal(err)
	}
	check := func(what string, code []byte, addr, base uint64) int {
		t.Helper()
		all := sweep{d: d, code: code, addr: addr, low: uint32(base)}
		for all.at < len(code) {
			all.decode(len(all.lens))
		}
		if got := relocations(code, addr, base, elf.EM_X86_64); !slices.Equal(got, all.out) {
			t.Fatalf("%s, %d bytes: %d addresses, want %d", what, len(code), len(got), len(all.out))
		}
		return len(all.out)
	}
	rnd := rand.New(rand.NewPCG(20, 5))
	found := 0
	for range 400 {
		code := make([]byte, rnd.IntN(1<<rnd.IntN(17)))
		for i := range code {
			// Few opcodes and many bytes of the address.
			code[i] = [...]byte{0x48, 0x8b, 0x05, 0xc7, 0x80, 0x9f, 0xff, 0x00, 0x90, 0xcc, byte(rnd.Uint32())}[rnd.IntN(11)]
		}
		if rnd.IntN(4) == 0 { // the two sweeps never meet
			for i := range code {
				code[i] = [...]byte{0x05, 0x12, 0x34, 0x9f, 0x9f}[(i+rnd.IntN(2)*(i/1000))%5]
			}
		}
		if rnd.IntN(3) == 0 { // with pages of INT3s
			for range 1 + rnd.IntN(3) {
				code = slices.Insert(code, rnd.IntN(len(code)+1), bytes.Repeat([]byte{0xcc}, rnd.IntN(4*pageSize))...)
			}
		}
		found += check("random bytes", code, addr, base)
	}
	for _, path := range recordings(t) {
		r, _, _ := load(t, path)
		if r.Machine() != elf.EM_X86_64 {
			continue
		}
		s := newSource(r, "")
		for _, seg := range pagesOf(r) {
			found += check(path, seg.Data, seg.Addr, s.base)
		}
	}
	if found < 10_000 {
		t.Errorf("only %d addresses", found)
	}
}
