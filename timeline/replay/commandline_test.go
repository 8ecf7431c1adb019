// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRecordOptions(t *testing.T) {
	known := recordOptions{known: true}
	with := func(change func(o *recordOptions)) recordOptions {
		o := known
		change(&o)
		return o
	}
	delay := func(d string) recordOptions { return with(func(o *recordOptions) { o.delay = d }) }
	for _, tt := range []struct {
		args string
		want recordOptions
	}{
		{"", recordOptions{}},
		{"/usr/bin/perf", recordOptions{}}, // as perf 7.2 writes it
		{"perf kvm record -a", recordOptions{}},
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
		{"perf record --control fifo:ctl true", with(func(o *recordOptions) { o.control = true })},
		{"perf record --control=fd:3 true", with(func(o *recordOptions) { o.control = true })},
		{"perf record --contr fd:3 true", with(func(o *recordOptions) { o.control = true })},
		{"perf record -e cycles -G a true", with(func(o *recordOptions) { o.cgroup = true })},
		{"perf record -u root", with(func(o *recordOptions) { o.user = true })},
		{"perf record -e a:b -e c:d --filter x>1 true", with(func(o *recordOptions) { o.filtered = []string{"c:d"} })},
		{"perf record -ea:b,c:d --filter x>1 -e e --filter y true", with(func(o *recordOptions) { o.filtered = []string{"a:b,c:d", "e"} })},
		{"perf record --switch-output true", with(func(o *recordOptions) { o.switched = true })},
		{"perf record --switch-output=1s true", with(func(o *recordOptions) { o.switched = true })},
		{"perf record --switch-output-event sched:x true", with(func(o *recordOptions) { o.switched = true })},
		{"perf record -o - true", with(func(o *recordOptions) { o.pipe = true })},
		{"perf record -o file true", known},
		{"perf record -a --new-option 5 -D 5", recordOptions{}}, // 5 may be its value or the workload
		{"perf record -aX -D 5", recordOptions{}},
		{"perf record -D", delay("")},
	} {
		t.Run(tt.args, func(t *testing.T) {
			got := parseRecordOptions(strings.Fields(tt.args))
			if d := cmp.Diff(tt.want, got, cmp.AllowUnexported(recordOptions{})); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
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
		o := parseRecordOptions(strings.Fields(tt.args))
		if o.enablesOnce() != tt.once || o.atStart() != tt.atStart {
			t.Errorf("%s: once %v, at the start %v", tt.args, o.enablesOnce(), o.atStart())
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
		{"perf record -a -e module:module_free -G a", true},
		{"perf record -u root -e module:module_free", true},
	} {
		o := parseRecordOptions(strings.Fields(tt.args))
		if why := o.confines("module:module_free"); (why != "") != tt.want {
			t.Errorf("%s: %q", tt.args, why)
		}
	}
}
