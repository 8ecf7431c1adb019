// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package patching

import (
	"debug/elf"
	"encoding/hex"
	"testing"
)

func TestAlone(t *testing.T) {
	const at = 0x1000
	for _, tt := range []struct {
		name     string
		old, new string
		alone    bool
		callees  [2]uint64
	}{
		{"a jump label on", "0f1f440000", "e9fb0f0000", false, [2]uint64{}},
		{"a short one off", "eb10", "6690", false, [2]uint64{}},
		{"a call set: ftrace's or a static call's", "0f1f440000", "e8fb0f0000", false, [2]uint64{0, 0x2000}},
		{"and changed", "e8fb0f0000", "e8fb1f0000", false, [2]uint64{0x2000, 0x3000}},
		{"a trampoline of a static call, or a direct call of ftrace", "e9fb0f0000", "e9fb1f0000", false, [2]uint64{0x2000, 0x3000}},
		{"a static call that returns", "e9fb0f0000", "c3cccccccc", true, [2]uint64{}},
		{"a static call that returns 0", "e8fb0f0000", "2e2e2e31c0", true, [2]uint64{}},
		{"and before 5.18", "66664831c0", "e8fb0f0000", true, [2]uint64{}},
		{"a conditional tail call", "0f84fa0f0000", "0f84fa1f0000", true, [2]uint64{}},
		{"a kprobe being optimised", "cc89f45589", "e9fb0f0000", true, [2]uint64{}},
		{"bytes that nothing is known to write", "0102030405", "e8fb0f0000", false, [2]uint64{}},
	} {
		old, _ := hex.DecodeString(tt.old)
		new, _ := hex.DecodeString(tt.new)
		alone, callees := Alone(elf.EM_X86_64, at, old, new)
		if alone != tt.alone || callees != tt.callees {
			t.Errorf("%s: %v %#x, want %v %#x", tt.name, alone, callees, tt.alone, tt.callees)
		}
		if alone, callees := Alone(elf.EM_AARCH64, at, old, new); alone || callees != [2]uint64{} {
			t.Errorf("%s: on arm64 %v %#x", tt.name, alone, callees)
		}
	}
}
