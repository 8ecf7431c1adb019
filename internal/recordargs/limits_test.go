// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recordargs

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLimits(t *testing.T) {
	known := Limits{Known: true}
	with := func(change func(o *Limits)) Limits {
		o := known
		change(&o)
		return o
	}
	delay := func(d string) Limits { return with(func(o *Limits) { o.Delay = d }) }
	for _, tt := range []struct {
		args string
		want Limits
	}{
		{"", Limits{}},
		{"/usr/bin/perf", Limits{}}, // as perf 7.2 writes it
		{"perf kvm record -a", Limits{}},
		{"/usr/bin/perf /usr/bin/perf", Limits{}}, // as perf inject of 7.2 writes it
		{"/usr/bin/perf /usr/bin/perf record -a -D 500", delay("500")},
		{"perf /opt/perf_5.10 perf record -a --kcore -- perf record -D 500", known},
		{"perf inject perf record", Limits{}},
		{"perf record", known},
		{"perf record -a --kcore -e dummy -- sleep 1", known},
		{"perf record -a -D 500", delay("500")},
		{"perf record -a -D500 true", delay("500")},
		{"perf record -agD 500 -- true", delay("500")},
		{"perf record -a --delay=10-20,30-40", delay("10-20,30-40")},
		{"perf record -a --del -1 true", delay("-1")},
		{"perf record -a sleep -D 500", known}, // the workload's
		{"perf record -a -- sleep -D 500", known},
		{"perf record -aF 99 -D 5", delay("5")},
		{"perf record -F99 -D 5", delay("5")},
		{"perf record --call-graph dwarf -D 5", delay("5")},
		{"perf record --call-graph=dwarf -D 5", delay("5")},
		{"perf record -z -D 5", delay("5")},
		{"perf record -z3 -D 5", delay("5")},
		{"perf record -S -D 5", delay("5")},
		{"perf record -Ix -D 5", delay("5")},
		{"perf record --aio --threads=cpu -D 5", delay("5")},
		{"perf record --no-inherit --no-buildid-cache -D 5", delay("5")},
		{"perf record --control fifo:ctl true", with(func(o *Limits) { o.Control = true })},
		{"perf record --control=fd:3 true", with(func(o *Limits) { o.Control = true })},
		{"perf record --contr fd:3 true", with(func(o *Limits) { o.Control = true })},
		{"perf record -e cycles -G a true", with(func(o *Limits) { o.Cgroup = true })},
		{"perf record -u root", with(func(o *Limits) { o.User = true })},
		{"perf record -e a:b -e c:d --filter x>1 true", with(func(o *Limits) { o.Filtered = []string{"c:d"} })},
		{"perf record -ea:b,c:d --filter x>1 -e e --filter y true", with(func(o *Limits) { o.Filtered = []string{"a:b,c:d", "e"} })},
		{"perf record --switch-output true", with(func(o *Limits) { o.Switched = true })},
		{"perf record --switch-output=1s true", with(func(o *Limits) { o.Switched = true })},
		{"perf record --switch-output-event sched:x true", with(func(o *Limits) { o.Switched = true })},
		{"perf record -o - true", with(func(o *Limits) { o.Pipe = true })},
		{"perf record -o file true", known},
		{"perf record -a --new-option 5 -D 5", Limits{Delay: "5"}}, // 5 may be its value or the workload
		{"perf record -aX -D 5", Limits{Delay: "5"}},
		{"perf kvm --host record -a --control fd:3 true", Limits{Control: true}},
		{"perf mem -t load record --cont=fd:3", Limits{Control: true}},
		{"perf kvm record -e a:b --filter x>1 -G a -u root", Limits{Filtered: []string{"a:b"}, Cgroup: true, User: true}},
		{"perf sched record --switch-output -o -", Limits{Switched: true, Pipe: true}},
		{"perf record --new-option -aG a", Limits{Cgroup: true}},
		{"perf record --new-option --control", Limits{Control: true}},
		{"perf kvm record -a -- true --control fd:3", Limits{}},
		{"perf record -D", delay("")},
	} {
		t.Run(tt.args, func(t *testing.T) {
			got := LimitsOf(strings.Fields(tt.args))
			got.ListsWorkload = tt.want.ListsWorkload // TestListsWorkload
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestListsWorkload(t *testing.T) {
	for _, tt := range []struct {
		args string
		want bool
	}{
		{"perf record -a -- true", true},
		{"perf record -C 0-3 true", true},
		{"perf record -a", false},
		{"perf record -- true", false},
		{"perf record -a -p 5 true", false},
		{"perf record -a -t 5 true", false},
		{"perf record -a -u root true", false},
		{"perf record -a --synth=no true", false},
		{"perf record -a --tail-synthesize true", false},
		{"perf kvm record -a -- true", false},
		{"perf", false},
		{"", false},
	} {
		if got := LimitsOf(strings.Fields(tt.args)).ListsWorkload; got != tt.want {
			t.Errorf("%s: %v", tt.args, got)
		}
	}
}

func TestEnablesAtStart(t *testing.T) {
	for _, tt := range []struct {
		args          string
		once, atStart bool
	}{
		{"perf record -a", true, true},
		{"perf record -a -D 0", true, true},
		{"perf record -a -D 500", true, false},
		{"perf record -a -D -1", false, false},
		{"perf record -a -D 10-20,30-40", false, false},
		{"perf record -a --control fd:3", false, false},
		{"perf", false, false},
	} {
		o := LimitsOf(strings.Fields(tt.args))
		if o.EnablesOnce() != tt.once || o.AtStart() != tt.atStart {
			t.Errorf("%s: once %v, at the start %v", tt.args, o.EnablesOnce(), o.AtStart())
		}
	}
}

func TestConfines(t *testing.T) {
	for _, tt := range []struct {
		args string
		want bool
	}{
		{"perf record -a -e module:module_free", false},
		{"perf record -a -e module:module_free --filter name==x", true},
		{"perf record -a -e module:* --filter name==x", true},
		{"perf record -a -e *:module_free --filter name==x", true},
		{"perf record -a -e module:module_free -e sched:sched_switch --filter next_pid>1", false},
		{"perf record -a -e module:module_free -e module:module_get --filter refcnt>1", false},
		{"perf record -a -e {module:module_free,cycles}:k --filter name==x", true},
		{"perf record -a -e module:module_free -G a", true},
		{"perf record -u root -e module:module_free", true},
	} {
		o := LimitsOf(strings.Fields(tt.args))
		if why := o.Confines("module:module_free"); (why != "") != tt.want {
			t.Errorf("%s: %q", tt.args, why)
		}
	}
}
