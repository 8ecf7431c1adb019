// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package patching

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/textreplay/textreplay/timeline"
)

// TestSilentPlaces: what of a BPF program its kernel patches with no record.
func TestSilentPlaces(t *testing.T) {
	const addr = 0x9000
	for _, tt := range []struct {
		name, arch, release, code string
		want                      []timeline.Range
	}{
		{"x86 records all", "x86_64", "6.1.0", "0f1f440000c3", nil},
		{"arm64: the entry's NOP", "aarch64", "6.1.0",
			"5f2403d5" + "e9031eaa" + "1f2003d5" + "3f2303d5" + "1f2003d5" + "c0035fd6", []timeline.Range{{Lo: addr + 8, Hi: addr + 12}}},
		{"arm64: the literal of the PLT", "aarch64", "6.1.0",
			"c0035fd6c0035fd6c0035fd6c0035fd6" + "4a00005840011fd6" + "1122334455667788", []timeline.Range{{Lo: addr + 24, Hi: addr + 32}}},
		{"ppc64le before 6.13 patches none", "ppc64le", "6.12.1", "00000060", nil},
		{"ppc64le since 6.13", "ppc64le", "6.13.0-rc1", "00000060", []timeline.Range{{Lo: addr, Hi: addr + 4}}},
		{"a release that says nothing", "ppc64le", "vendor", "00000060", []timeline.Range{{Lo: addr, Hi: addr + 4}}},
		{"all of it where nothing is known", "s390x", "6.1.0", "00000060", []timeline.Range{{Lo: addr, Hi: addr + 4}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, SilentPlaces(tt.arch, tt.release, addr, hexCode(tt.code))); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}
