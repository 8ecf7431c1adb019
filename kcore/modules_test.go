// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"io"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseModules(t *testing.T) {
	tests := []struct {
		name, text string
		want       []Module
		err        string
	}{
		{name: "empty", want: []Module{}},
		{
			name: "every field",
			text: "virtio_blk 28672 0 - Live 0xffffffffc02ba000\n" +
				"virtio 20480 2 virtio_blk,virtio_pci, Live 0xffffffffc028d000\n" +
				"fixed 1 1 [permanent], Live 0xffffffffc0000000\n" +
				"zfs 5000000 - - Loading 0xffffffffc0500000 (POE+)\n" +
				"hidden 16384 0 - Unloading 0x0000000000000000\n",
			want: []Module{
				{Name: "virtio_blk", Addr: 0xffffffffc02ba000, Size: 28672, State: "Live"},
				{Name: "virtio", Addr: 0xffffffffc028d000, Size: 20480, Refs: 2, UsedBy: []string{"virtio_blk", "virtio_pci"}, State: "Live"},
				{Name: "fixed", Addr: 0xffffffffc0000000, Size: 1, Refs: 1, UsedBy: []string{"[permanent]"}, State: "Live"},
				{Name: "zfs", Addr: 0xffffffffc0500000, Size: 5000000, Refs: -1, State: "Loading", Taints: "POE+"},
				{Name: "hidden", Size: 16384, State: "Unloading"},
			},
		},
		{
			name: "bad lines",
			text: "a 1 0 - Live 0x10\nb 1 0 - Live\nc x 0 - Live 0x10\nd 1 x - Live 0x10\ne 1 0 - Live 10\nf 1 0 - Live 0xfg\ng 1 0 - Live 0x20\n",
			want: []Module{{Name: "a", Addr: 0x10, Size: 1, State: "Live"}, {Name: "g", Addr: 0x20, Size: 1, State: "Live"}},
			err:  "modules:2: module has 5 fields, want 6; 4 more lines skipped (offset 0x12)",
		},
		{
			name: "cut short",
			text: "a 1 0 - Live 0xffffffffc02ba000\nb 1 0 - Live 0xffffffffc02",
			want: []Module{{Name: "a", Addr: 0xffffffffc02ba000, Size: 1, State: "Live"}},
			err:  "modules:2: last line has no end (offset 0x20)",
		},
		{name: "size", text: "c x 0 - Live 0x10\n", want: []Module{}, err: `modules:1: module size "x" is not a number (offset 0x0)`},
		{name: "count", text: "c 1 x - Live 0x10\n", want: []Module{}, err: `modules:1: module reference count "x" is not a number (offset 0x0)`},
		{name: "prefix", text: "c 1 0 - Live 10\n", want: []Module{}, err: `modules:1: module address "10" does not begin with 0x (offset 0x0)`},
		{name: "address", text: "c 1 0 - Live 0x\n", want: []Module{}, err: `modules:1: module address "0x" is not a number (offset 0x0)`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseModules([]byte(tt.text))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("modules (-want +got):\n%s", diff)
			}
			text := ""
			if err != nil {
				text = err.Error()
			}
			if text != tt.err {
				t.Errorf("error %q, want %q", text, tt.err)
			}
		})
	}
}

// TestWriteModulesRefuses: what no line can hold is an error.
func TestWriteModulesRefuses(t *testing.T) {
	for name, m := range map[string]Module{
		"no name":               {State: "Live"},
		"a space":               {Name: "a b", State: "Live"},
		"a new line":            {Name: "a\n", State: "Live"},
		"no state":              {Name: "a"},
		"a user that is two":    {Name: "a", State: "Live", UsedBy: []string{"b,c"}},
		"taints that end early": {Name: "a", State: "Live", Taints: ")("},
	} {
		if err := WriteModules(io.Discard, []Module{m}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := WriteKallsyms(io.Discard, slices.Values([]Symbol{{Addr: 1, Type: '\n', Name: "a"}})); err == nil {
		t.Error("a type that ends the line: no error")
	}
}

func TestParseModulesFile(t *testing.T) {
	text, err := os.ReadFile("testdata/x86_64.modules")
	if err != nil {
		t.Fatal(err)
	}
	mods, err := ParseModules(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(mods) != 10 {
		t.Errorf("%d modules, want 10", len(mods))
	}
	want := Module{Name: "virtio_ring", Addr: 0xffffffffc027b000, Size: 49152, Refs: 3,
		UsedBy: []string{"virtio_blk", "virtio_pci", "virtio"}, State: "Live"}
	if diff := cmp.Diff(want, mods[len(mods)-1]); diff != "" {
		t.Errorf("last module (-want +got):\n%s", diff)
	}
}
