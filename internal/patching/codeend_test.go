// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package patching

import (
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
			n, ok := CodeEnd(hexCode(strings.ReplaceAll(tt.code, " ", "")), 0xffffffffc0000000)
			if n != tt.n && ok || ok != (tt.n > 0) {
				t.Errorf("%d, %v; want %d", n, ok, tt.n)
			}
		})
	}
}
