// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package trim

import (
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTargets: where branches of each architecture go to.
func TestTargets(t *testing.T) {
	le, be := binary.ByteOrder(binary.LittleEndian), binary.ByteOrder(binary.BigEndian)
	for _, tt := range []struct {
		name    string
		machine elf.Machine
		order   binary.ByteOrder
		addr    uint64
		code    string
		want    []uint64
	}{
		{"call and jmp at any offset", elf.EM_X86_64, le, 0x1000, "90e8fb0f0000e900000000", []uint64{0x2001, 0x100b}},
		{"jcc", elf.EM_X86_64, le, 0x1000, "0f84fa0f0000", []uint64{0x2000}},
		{"cut off", elf.EM_X86_64, le, 0x1000, "e8fb0f00", nil},
		{"b, bl and nop", elf.EM_AARCH64, le, 0x1000, "00040014ffffff971f2003d5", []uint64{0x2000, 0x1000}},
		{"a word begins at a multiple of 4", elf.EM_AARCH64, le, 0x1002, "000000040014", []uint64{0x2004}},
		{"b and bl, big-endian", elf.EM_PPC64, be, 0x1000, "480010004bfffffd60000000", []uint64{0x2000, 0x1000}},
		{"bl, little-endian", elf.EM_PPC64, le, 0x1000, "01100048", []uint64{0x2000}},
		{"b to an absolute address", elf.EM_PPC64, be, 0x1000, "48001002", nil},
		{"brasl behind a short instruction", elf.EM_S390, be, 0x1000, "07fec0e500000800c0f4ffffffff", []uint64{0x2002, 0x1006}},
	} {
		code, err := hex.DecodeString(tt.code)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(tt.want, slices.Collect(targets(tt.machine, tt.order, tt.addr, code))); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}
