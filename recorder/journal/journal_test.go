// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package journal

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const first = `{"start":{"version":1,"program":"p","clock":"CLOCK_MONOTONIC","time":1,"wall":2,"follows_cpus":true,"open":3}}` + "\n"

// TestRoundTrip: what is appended is read.
func TestRoundTrip(t *testing.T) {
	want := []Entry{
		{Start: &Start{Version: 1, Program: "p", Clock: "CLOCK_MONOTONIC", Time: 1, Wall: 2, Host: "h", BootID: "b", FollowsCPUs: true, Open: 5}},
		{Ready: &Ready{Time: 6}},
		{Copy: &Copy{Dir: "copies/1", From: 7, To: 1 << 63, Base: "kcore_dir", Read: []Range{{0xffffffff81000000, 0xffffffff82000000}}}},
		{Gap: &Gap{CPU: 3, From: 8, To: ^uint64(0)}},
		{Counters: &Counters{From: 8, To: 9, Data: 4096, Probes: map[string]Hits{"map_7_1": {Hits: 3, Missed: 1}}}},
		{Disarmed: &Disarmed{From: 8, Seen: 9}},
		{Disarmed: &Disarmed{From: 8, Seen: 9, To: 10}},
		{End: &End{Time: 9}},
	}
	var b bytes.Buffer
	for i := range want {
		if err := Append(&b, &want[i]); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Read(&b)
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

// TestDamage: the entries before a line that cannot be read are returned, with an error
// that names the line. A line that was cut off at the end is no damage.
func TestDamage(t *testing.T) {
	for _, tt := range []struct {
		text    string
		entries int
		line    int // of the error; 0 for none
	}{
		{"", 0, 1},
		{`{"start":`, 0, 1},
		{first, 1, 0},
		{first + `{"gap":{"cpu":1`, 1, 0},
		{first + `{"gap":{"cpu":1,"from":1,"to":2}}` + "\n" + `{"end":{"time":3}}` + "\n", 3, 0},
		{first + "nonsense\n" + `{"end":{"time":3}}` + "\n", 1, 2},
		{first + "\n", 1, 2},
		{first + "{}\n", 1, 2},
		{first + `{"later":{}}` + "\n", 1, 2},
		{first + `{"end":{"time":3},"ready":{"time":2}}` + "\n", 1, 2},
		{first + first, 1, 2},
		{`{"end":{"time":3}}` + "\n", 0, 1},
		{strings.Replace(first, `"version":1`, `"version":3`, 1), 1, 0},
		{strings.Replace(first, `"version":1`, `"version":4`, 1), 0, 1},
		{first + `{"disarmed":{"from":3,"seen":2}}` + "\n", 1, 2},
		{first + `{"disarmed":{"from":3,"seen":4,"to":3}}` + "\n", 1, 2},
		{first + `{"counters":{"from":3,"to":2}}` + "\n", 1, 2},
		{first + `{"gap":{"cpu":1,"from":3,"to":2}}` + "\n", 1, 2},
		{first + `{"copy":{"dir":"../x","from":1,"to":2}}` + "\n", 1, 2},
		{first + `{"copy":{"dir":"/etc","from":1,"to":2}}` + "\n", 1, 2},
		{first + `{"copy":{"dir":"x","base":"../y","from":1,"to":2}}` + "\n", 1, 2},
		{first + `{"copy":{"dir":"x","from":1,"to":2,"read":[{"lo":"0x2","hi":"0x1"}]}}` + "\n", 1, 2},
		{first + `{"copy":{"dir":"x","from":1,"to":2,"read":[{"lo":"zero","hi":"0x1"}]}}` + "\n", 1, 2},
		{first + strings.Repeat("x", maxLine+1) + "\n", 1, 2},
	} {
		entries, err := Read(strings.NewReader(tt.text))
		var format *FormatError
		if errors.As(err, &format) != (tt.line != 0) || format != nil && format.Line != tt.line || len(entries) != tt.entries {
			t.Errorf("%.80q: %d entries, %v; want %d, an error in line %d", tt.text, len(entries), err, tt.entries, tt.line)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(first + `{"gap":{"cpu":1,"from":1,"to":2}}` + "\n"))
	f.Add([]byte(first + `{"copy":{"dir":"x","from":1,"to":2,"read":[{"lo":"0x1","hi":"0x2"}]}}` + "\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, err := Read(bytes.NewReader(b))
		if err == nil && (len(entries) == 0 || entries[0].Start == nil) {
			t.Errorf("%d entries and no error", len(entries))
		}
	})
}
