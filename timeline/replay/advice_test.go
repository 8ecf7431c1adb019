// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"strings"
	"testing"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/recorder/journal"
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
		{"perf record -k CLOCK_BOOTTIME -a --kcore -e dummy", Report{},
			"perf record -a --kcore -e dummy -e module:module_load -e module:module_free -e cpuhp:cpuhp_enter -k CLOCK_MONOTONIC",
			"-e module:module_load -e module:module_free|-e cpuhp:cpuhp_enter|-k CLOCK_MONOTONIC instead of -k CLOCK_BOOTTIME"},
		{"perf record -k mono -a --kcore -e module:* -e cpuhp:*", Report{}, "perf record -k mono -a --kcore -e module:* -e cpuhp:*", ""},
		{"perf record -a --kcore --switch-output=1G --switch-max-files 3 -e module:* -e cpuhp:*", Report{}, "perf record -a --kcore -e module:* -e cpuhp:*",
			"no --switch-output=1G|no --switch-max-files 3"},
		{"perf record -a --kcore --switch-output-event probe:x -e module:* -e cpuhp:*", Report{}, "perf record -a --kcore -e module:* -e cpuhp:*",
			"no --switch-output-event probe:x"},
		{"", Report{}, "perf record -a --kcore -e dummy -e module:module_load -e module:module_free -e cpuhp:cpuhp_enter -- sleep 10",
			"|-a|--kcore|-e module:module_load -e module:module_free|-e cpuhp:cpuhp_enter"},
		{"perf record --unknown-option x", Report{}, "perf record -a --kcore -e dummy -e module:module_load -e module:module_free -e cpuhp:cpuhp_enter -- sleep 10",
			"|-a|--kcore|-e module:module_load -e module:module_free|-e cpuhp:cpuhp_enter"},
		{"perf record -a --kcore -e module:* -e cpuhp:*", Report{CPUsAvailable: 4, CPUsOnline: 2}, "perf record -a --kcore -e module:* -e cpuhp:*", ""},
		{"perf record -a --kcore", Report{Arch: "aarch64"}, "", ""},
		{"", Report{Arch: "s390x"}, "", ""},
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

// TestCopyAdvice: which copy of kernel text is missing. That of the first file of --switch-output
// must not be moved to a later one: there it would count as made when that file was recorded.
func TestCopyAdvice(t *testing.T) {
	const kept, given = "keep it in the recording's directory", "give its kcore_dir with --kcore DIR, and leave it where it is"
	for args, want := range map[string]string{
		"perf record -a --kcore -e module:* -e cpuhp:*":                             kept,
		"perf record -a --kcore --switch-output -e module:* -e cpuhp:*":             given,
		"perf record -a --kcore --switch-output-event x -e module:* -e cpuhp:* foo": given,
	} {
		rep := Report{Arch: "x86_64", CPUsAvailable: 2, CPUsOnline: 2}
		if a := rep.advice(strings.Fields(args)); len(a.Changes) == 0 || !strings.Contains(a.Changes[0].Why, want) {
			t.Errorf("%s: %+v, want %q", args, a.Changes, want)
		}
	}
}

// TestSilentAdvice: probes are named where they help.
func TestSilentAdvice(t *testing.T) {
	for _, tt := range []struct {
		report Report
		named  bool
		want   string
	}{
		{Report{Arch: "aarch64"}, true, "whatever perf's options; "},
		{Report{Arch: "ppc64le"}, true, "whatever perf's options; "},
		{Report{Arch: "aarch64", Probes: &Probes{}}, true, "as here"},
		{Report{Arch: "s390x"}, false, "whatever perf's options"},
	} {
		for _, a := range []*Advice{tt.report.advice(nil), tt.report.recorderAdvice(nil, &recorderJournal{}, nil)} {
			if a.Command != nil || len(a.Changes) != 1 {
				t.Fatalf("%s: %+v", tt.report.Arch, a)
			}
			if why := a.Changes[0].Why; strings.Contains(why, `"textreplay probes"`) != tt.named || !strings.Contains(why, tt.want) {
				t.Errorf("%s: %s", tt.report.Arch, why)
			}
		}
	}
}

// TestRecorderAdvice: what is changed in a command line of textreplay record.
func TestRecorderAdvice(t *testing.T) {
	whole := recorderJournal{start: journal.Start{FollowsCPUs: true}, own: &journal.Copy{}, ended: 5}
	killed, gone, unread, deaf := whole, whole, whole, whole
	killed.ended, killed.own = 0, nil
	unread.own = nil
	gone.gaps = []journal.Gap{{CPU: 1}}
	deaf.start.FollowsCPUs = false
	copied := Report{SnapshotBytes: 1}
	with := func(f func(*Report)) Report {
		r := copied
		f(&r)
		return r
	}
	events := []*perfdata.Event{{Name: "dummy:u"}, {Name: "module:module_load"}, {Name: "module:module_free"}}
	for _, tt := range []struct {
		args    string
		journal recorderJournal
		report  Report
		events  []*perfdata.Event
		want    string
		changes string // what each contains
	}{
		{"textreplay record", whole, copied, events, "textreplay record", ""},
		{"textreplay record -o a --follow -m4096 -- perf record -m 1", whole, copied, events, "textreplay record -o a --follow -m4096 -- perf record -m 1", ""},
		{"textreplay record", whole, Report{}, events, "textreplay record", "kcore_dir is missing"},
		{"textreplay record", unread, Report{}, events, "textreplay record", "run as root (CAP_SYS_RAWIO, CAP_SYSLOG)"},
		{"textreplay record", killed, Report{}, events, "textreplay record", "killed before|did not end"},
		{"textreplay record", whole, copied, events[:2], "textreplay record", "mount tracefs, and run as root"},
		{"textreplay record", deaf, copied, events, "textreplay record", "AF_NETLINK"},
		{"textreplay record", gone, copied, events, "textreplay record", "bring up all before"},
		{"textreplay record", whole, with(func(r *Report) { r.BPF.Programs, r.BPF.WithBytes = 7, 0 }), events, "textreplay record", "none of 7 BPF programs"},
		{"textreplay record", whole, with(func(r *Report) { r.BPF.Programs, r.BPF.WithBytes = 7, 4 }), events, "textreplay record", ""},
		{"textreplay record", whole, with(func(r *Report) { r.BPF.Programs, r.BPF.Interpreted = 7, 7 }), events, "textreplay record", ""},
		{"textreplay record", whole, with(func(r *Report) { r.BPF.Programs, r.BPF.Interpreted = 7, 3 }), events, "textreplay record", "none of 4 BPF programs"},
		{"textreplay record -- a", whole, with(func(r *Report) { r.Losses = make([]Loss, 1) }), events, "textreplay record -m 1024 -- a", "-m 1024"},
		{"textreplay record --mmap-pages=4096 -o b", whole, with(func(r *Report) { r.Losses = make([]Loss, 1) }), events, "textreplay record -o b -m 8192", "-m 8192"},
		{"textreplay record -m=2048 -o b", whole, with(func(r *Report) { r.Losses = make([]Loss, 1) }), events, "textreplay record -o b -m 4096", "-m 4096"},
		{"textreplay record", whole, with(func(r *Report) { r.Losses, r.Probes = make([]Loss, 1), &Probes{} }), events, "textreplay record -m 2048", "-m 2048"},
		{"textreplay record -m 600", whole, with(func(r *Report) { r.Losses = make([]Loss, 1) }), events, "textreplay record -m 1024", "-m 1024"},
		{"textreplay record", whole, with(func(r *Report) { r.Conflicts = 2 }), events, "textreplay record --snapshot-every 10m", "--snapshot-every 10m"},
		{"textreplay record --snapshot-every 1m", whole, with(func(r *Report) { r.Conflicts = 2 }), events, "textreplay record --snapshot-every 1m", ""},
		{"textreplay record --newer", whole, copied, events, "textreplay record -- sleep 10", "general command"},
		{"textreplay record -o", whole, copied, events, "textreplay record -- sleep 10", "general command"},
		{"", whole, copied, events, "textreplay record -- sleep 10", "general command"},
	} {
		tt.report.Arch = "x86_64"
		a := tt.report.recorderAdvice(strings.Fields(tt.args), &tt.journal, tt.events)
		if got := strings.Join(a.Command, " "); got != tt.want {
			t.Errorf("%s:\n\t%s\nwant\n\t%s", tt.args, got, tt.want)
		}
		var want []string
		if tt.changes != "" {
			want = strings.Split(tt.changes, "|")
		}
		ok := len(want) == len(a.Changes)
		for i := range want {
			ok = ok && strings.Contains(a.Changes[i].Option+": "+a.Changes[i].Why, want[i])
		}
		if !ok {
			t.Errorf("%s: %+v, want %q", tt.args, a.Changes, want)
		}
	}
}
