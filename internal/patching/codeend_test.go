// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package patching

import (
	"debug/elf"
	"strings"
	"testing"
)

func TestCodeEnd(t *testing.T) {
	for _, tt := range []struct {
		name, code string
		n          int
	}{
		{"up to RET", "55 4889e5 c9 c3 cccccc", 6},
		{"a call leads away and back", "55 e800000010 c9 c3", 8},
		{"a tail jump out of the memory", "c9 e900000010 cc", 6},
		{"a jump over the first RET", "7401 c3 c9 c3 90", 5},
		{"a long jump over the first RET", "0f8401000000 c3 c9 c3 90", 9},
		{"a jump inside is no end", "eb01 c3 c9 c3", 5},
		{"a jump back", "90 c9 ebfc c3", 5},
		{"endbr64", "f30f1efa c3 00", 5},
		{"no end", "55 4889e5", 0},
		{"a trap is no code", "55 cc c3", 0},
		{"nothing", "", 0},
		{"no instruction", "55 06 c3", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, ok := CodeEnd(elf.EM_X86_64, hexCode(strings.ReplaceAll(tt.code, " ", "")))
			if n != tt.n && ok || ok != (tt.n > 0) {
				t.Errorf("%d, %v; want %d", n, ok, tt.n)
			}
		})
	}
}

func TestCodeEndARM64(t *testing.T) {
	const ret, nop = "c0035fd6", "1f2003d5"
	for _, tt := range []struct {
		name, code string
		n          int
	}{
		{"up to RET", nop + ret + nop, 8},
		{"RET of another register", nop + "40015fd6" + nop, 8},
		{"RETAA", nop + "ff0b5fd6" + nop, 8},
		{"BR", nop + "20011fd6" + nop, 8},
		{"BRAA", nop + "31091fd7" + nop, 8},
		{"BLR comes back", "20013fd6" + nop + ret, 12},
		{"ERET is no return of a function", "e0039fd6" + nop + ret, 12},
		{"BL comes back", "02000094" + nop + ret, 12},
		{"a tail jump out of the memory", nop + "00010014" + nop, 8},
		{"a tail jump to what is before", nop + "f0ffff17" + nop, 8},
		{"a jump inside is no end", "02000014" + ret + ret + nop, 12},
		{"B.cond over the first RET", "40000054" + ret + ret + nop, 12},
		{"CBZ over the first RET", "400000b4" + ret + ret + nop, 12},
		{"CBNZ over the first RET", "40000035" + ret + ret + nop, 12},
		{"TBZ over the first RET", "40000036" + ret + ret + nop, 12},
		{"TBNZ over the first RET", "400000b7" + ret + ret + nop, 12},
		{"a jump back", nop + "e0ffff54" + ret, 12},
		{"no end", nop + nop, 0},
		{"a trap is no code", nop + "002020d4" + ret, 0},
		{"zeros are no code", nop + "00000000" + ret, 0},
		{"a part of a word", nop + "c0035f", 0},
		{"nothing", "", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n, ok := CodeEnd(elf.EM_AARCH64, hexCode(tt.code))
			if n != tt.n && ok || ok != (tt.n > 0) {
				t.Errorf("%d, %v; want %d", n, ok, tt.n)
			}
		})
	}
	if n, ok := CodeEnd(elf.EM_S390, hexCode("07fe")); ok {
		t.Errorf("s390: %d", n)
	}
}
