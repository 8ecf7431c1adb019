// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"strings"
	"testing"
)

// TestAdvice: what is changed in a command line of perf record.
func TestAdvice(t *testing.T) {
	for _, tt := range []struct {
		args   string // "" if the recording has none
		report Report
		want   string
		option string // of all changes
	}{
		{"perf record -a --kcore -e dummy -e module:* -e cpuhp:cpuhp_enter -- sleep 1", Report{},
			"perf record -a --kcore -e dummy -e module:* -e cpuhp:cpuhp_enter -- sleep 1", ""},
		{"perf record sleep 1", Report{}, "perf record -a --kcore -e module:module_load -e module:module_free -e cpuhp:cpuhp_enter -- sleep 1",
			"-a|--kcore|-e module:module_load -e module:module_free|-e cpuhp:cpuhp_enter"},
		{"perf record -gF 99 -p 12 -e cycles:u,instructions -e module:module_load,module:module_free,cpuhp:cpuhp_enter --kcore", Report{},
			"perf record -a -g -e cycles:u,instructions/freq=99/ -e module:module_load,module:module_free,cpuhp:cpuhp_enter --kcore",
			"-a instead of -p 12|no -F 99"},
		{"perf record -aF99 --kcore -e cpu/event=0x3c/ppp -e intel_pt//k -e module:* -e cpuhp:*", Report{},
			"perf record -a --kcore -e cpu/event=0x3c,freq=99/ppp -e intel_pt//k -e module:* -e cpuhp:*", "no -F99"},
		{"perf record -a --kcore -c 1000 -e module:* -e cpuhp:*", Report{}, "perf record -a --kcore -e module:* -e cpuhp:*", "no -c 1000"},
		{"perf record -a --kcore --freq=99", Report{},
			"perf record -a --kcore -e cycles/freq=99/ -e module:module_load -e module:module_free -e cpuhp:cpuhp_enter",
			"no --freq=99|-e module:module_load -e module:module_free|-e cpuhp:cpuhp_enter"},
		{"perf record -C 0,1 --per-thread -u root --overwrite -D 100 -o - --no-bpf-event --kcore -e module:* -e cpuhp:* -- a b", Report{},
			"perf record -a --kcore -e module:* -e cpuhp:* -- a b",
			"-a instead of -C 0,1 -u root --per-thread|no --overwrite|no --no-bpf-event|no -D 100|no -o -"},
		{"perf record -a --kcore -m 8M -e module:* -e cpuhp:*", Report{Losses: make([]Loss, 1)}, "perf record -a --kcore -e module:* -e cpuhp:* -m 16M", "-m 16M"},
		{"perf record -a --kcore -m 16M,4M -e module:* -e cpuhp:*", Report{Losses: make([]Loss, 1)}, "perf record -a --kcore -e module:* -e cpuhp:* -m 32M,4M", "-m 32M,4M"},
		{"perf record -a --kcore -m 8192 -e module:* -e cpuhp:*", Report{Losses: make([]Loss, 1)}, "perf record -a --kcore -e module:* -e cpuhp:* -m 16384", "-m 16384"},
		{"", Report{}, "perf record -a --kcore -e dummy -e module:module_load -e module:module_free -e cpuhp:cpuhp_enter -- sleep 10",
			"|-a|--kcore|-e module:module_load -e module:module_free|-e cpuhp:cpuhp_enter"},
		{"perf record --unknown-option x", Report{}, "perf record -a --kcore -e dummy -e module:module_load -e module:module_free -e cpuhp:cpuhp_enter -- sleep 10",
			"|-a|--kcore|-e module:module_load -e module:module_free|-e cpuhp:cpuhp_enter"},
		{"perf record -a --kcore -e module:* -e cpuhp:*", Report{CPUsAvailable: 4, CPUsOnline: 2}, "perf record -a --kcore -e module:* -e cpuhp:*", ""},
		{"perf record -a --kcore", Report{Arch: "aarch64"}, "", ""},
	} {
		rep := tt.report
		if rep.Arch == "" {
			rep.Arch = "x86_64"
		}
		if rep.CPUsAvailable == 0 {
			rep.CPUsAvailable, rep.CPUsOnline = 2, 2
		}
		rep.SnapshotBytes = 1
		a := rep.advice(strings.Fields(tt.args))
		if got := strings.Join(a.Command, " "); got != tt.want {
			t.Errorf("%s:\n\t%s\nwant\n\t%s", tt.args, got, tt.want)
		}
		var options []string
		for _, c := range a.Changes {
			options = append(options, c.Option)
			if c.Why == "" {
				t.Errorf("%s: no reason for %s", tt.args, c.Option)
			}
		}
		if got := strings.Join(options, "|"); got != tt.option {
			t.Errorf("%s: changes %q, want %q", tt.args, got, tt.option)
		}
	}
}
