// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// describeSymbol prints a symbol with its lifetime, in seconds.
func describeSymbol(s timeline.Symbol) string {
	text := fmt.Sprintf("%s %d", s.Name, s.Size)
	if s.Module != "" {
		text = s.Module + ":" + text
	}
	if s.From != 0 {
		text += " from " + replay.Seconds(s.From)
	}
	if s.To != timeline.MaxTime {
		text += " until " + replay.Seconds(s.To)
	}
	return text
}

func TestViewSymbol(t *testing.T) {
	small, modfull := load(t, "small"), load(t, "modfull")
	const crc7 = "crc7:crc7_be 4096 until 7.520089707"
	const socket = "bpf:bpf_prog_b19c858917c4054c_socket_3 109 from 18.134851735 until 22.450498715"
	tests := []struct {
		r    *replay.Replay
		addr uint64
		t    uint64
		want string // "" for none
	}{
		{small, 0xffffffffaecdbcb1, 9e9, "sysctl_schedstats 416"},
		{small, 0xffffffffc0083670, 18134851734, ""}, // not yet
		{small, 0xffffffffc0083670, 18134851735, socket},
		{small, 0xffffffffc00836dc, 22450498714, socket},
		{small, 0xffffffffc00836dd, 20e9, ""},     // after its last byte
		{small, 0xffffffffc0083670, 30e9, socket}, // the last symbol there
		// Names of modules end with them.
		{modfull, 0xffffffffc029d010, 7e9, crc7},
		{modfull, 0xffffffffc029d010, 7520089707, crc7},
		{modfull, 0xffffffffc02bcca0, 20e9, "lru_cache:lc_get_cumulative 16 until 22.277204709"},
		{modfull, 0, 20e9, ""},
		{modfull, timeline.MaxTime, 20e9, ""},
	}
	for _, tt := range tests {
		s, ok := tt.r.Image.At(tt.t).Symbol(tt.addr)
		got := ""
		if ok {
			got = describeSymbol(s)
		}
		if got != tt.want {
			t.Errorf("%#x at %s: %q, want %q", tt.addr, replay.Seconds(tt.t), got, tt.want)
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		small.Image.At(9e9).Symbol(0xffffffffaecdbcb1)
		small.Image.At(20e9).Symbol(0xffffffffc0083670)
		modfull.Image.At(7e9).Symbol(0xffffffffc029d010)
	}); n != 0 {
		t.Errorf("three lookups allocate %v times", n)
	}
}

func TestViewLookup(t *testing.T) {
	small, modfull := load(t, "small"), load(t, "modfull")
	tests := []struct {
		r    *replay.Replay
		name string
		t    uint64
		want []string
	}{
		{small, "no such name", 9e9, nil},
		{small, "sysctl_schedstats", 9e9, []string{"sysctl_schedstats 416"}},
		{modfull, "crc7_be", 7e9, []string{"crc7:crc7_be 4096 until 7.520089707"}},
		{modfull, "crc7_be", 20e9, []string{"crc7:crc7_be 4096 until 7.520089707"}}, // unloaded: found at any time
		// Also in ts_bm and test_static_key_base, which are unloaded by then.
		{modfull, "cleanup_module", 8e9, []string{
			"virtio:cleanup_module 1140", "virtio_pci:cleanup_module 257", "virtio_blk:cleanup_module 3122",
		}},
		{modfull, "virtio:cleanup_module", 8e9, []string{"virtio:cleanup_module 1140"}},
		{modfull, "virtio-pci:cleanup_module", 8e9, []string{"virtio_pci:cleanup_module 257"}},
		{modfull, "cleanup_module [virtio_pci 0123abc]", 8e9, []string{"virtio_pci:cleanup_module 257"}},
		{modfull, "no_such_module:cleanup_module", 8e9, nil},
		// The module's own name at another time, not one of other modules then.
		{modfull, "ts_bm:cleanup_module", 20e9, []string{"ts_bm:cleanup_module 3231 until 7.552165661"}},
		{small, ":sysctl_schedstats", 9e9, []string{"sysctl_schedstats 416"}},
		{small, "sysctl_schedstats [kernel.kallsyms]", 9e9, []string{"sysctl_schedstats 416"}},
		{small, "virtio:sysctl_schedstats", 9e9, nil},
		// An alias is found by its own name, with the size of the function.
		{small, "memcpy", 9e9, []string{"memcpy 32"}},
	}
	for _, tt := range tests {
		var got []string
		for _, s := range tt.r.Image.At(tt.t).Lookup(tt.name) {
			got = append(got, describeSymbol(s))
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s at %s (-want +got):\n%s", tt.name, replay.Seconds(tt.t), d)
		}
	}
}

func TestViewAliases(t *testing.T) {
	r := load(t, "small")
	v := r.Image.At(20e9)
	for name, want := range map[string][]string{
		"sysctl_schedstats":                  nil,
		"__do_softirq":                       {"__softirqentry_text_start"},
		"memcpy":                             {"__memcpy"},
		"__memcpy":                           {"memcpy"},
		"bpf_prog_b19c858917c4054c_socket_3": nil,
	} {
		found := v.Lookup(name)
		if len(found) != 1 {
			t.Fatalf("%s: %d symbols", name, len(found))
		}
		if d := cmp.Diff(want, v.Aliases(found[0])); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
