// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadWindows(t *testing.T) {
	const before = `{"flag":"before","time":"300","method":"int3","addr":"0xffffffff81000000","before":"6690","after":"eb10"}`
	const after = `{"flag":"after","time":"350","method":"int3","addr":"0xffffffff81000000","before":"6690","after":"eb10"}`
	got, err := ReadWindows(strings.NewReader(before + "\n\n" + after + "\n"))
	want := []ExplicitWindow{{Addr: 0xffffffff81000000, From: 300, To: 350, Method: "int3", Before: unhex("6690"), After: unhex("eb10")}}
	if err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%v (-want +got):\n%s", err, cmp.Diff(want, got))
	}
	for _, tt := range []struct{ text, err string }{
		{before, "line 1: this change does not end"},
		{after, "line 1: this change has not begun"},
		{before + "\n" + before, "line 2: the change of line 1 has not ended"},
		{"{", "line 1: not JSON: the line ends too early"},
		{"perf", "line 1: not JSON: invalid character 'p'"},
		{`[1]`, "line 1: want a JSON object, got array"},
		{strings.Replace(before, "flag", "flags", 1), `line 1: unknown field "flags"; the fields are flag, time, addr, before, after and method`},
		{strings.Replace(before, `"300"`, `300`, 1), "line 1: time: want a string, got number"},
		{strings.Replace(before, `"300"`, `"x"`, 1), `line 1: time "x" is not a number of nanoseconds`},
		{strings.Replace(before, "0xff", "0xgg", 1), `line 1: addr "0xggffffff81000000" is not a hexadecimal address`},
		{strings.Replace(before, "6690", "669", 1), `line 1: before "669" are not bytes in hexadecimal`},
		{strings.Replace(before, "eb10", "ebxx", 1), `line 1: after "ebxx" are not bytes in hexadecimal`},
		{before + "\n" + strings.Repeat(" ", maxWindowLine), "line 2: the line has more than 1048576 bytes"},
		{strings.Replace(before, `"before"`, `"during"`, 1), `line 1: flag "during"`},
		{strings.ReplaceAll(before+"\n"+after, "6690", "66"), "line 2: before and after must have one length"},
		{strings.Replace(before+"\n"+after, "350", "300", 1), "line 2: the window ends before it begins"},
	} {
		if _, err := ReadWindows(strings.NewReader(tt.text)); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s\n%v, want %s", tt.text, err, tt.err)
		}
	}
}

// TestInFlightSpans: of a change that is going on, both sides are given.
func TestInFlightSpans(t *testing.T) {
	b := kernel()
	w := ExplicitWindow{Addr: 0x1100, From: 300, To: 350, Before: unhex("9090"), After: unhex("eb02")}
	if err := b.Window(w); err != nil {
		t.Fatal(err)
	}
	im := mustBuild(t, b)
	var got []Span
	for s := range im.At(320).Spans(0x1101, 1) {
		got = append(got, s)
	}
	want := []Span{{Addr: 0x1101, Len: 1, Standing: InFlight, Reason: InExplicitWindow, Source: SourceWindow, Since: 300, Until: 350, Bytes: unhex("02"),
		Candidates: []Candidate{{unhex("90"), Fact{SourceWindow, 300, true}}, {unhex("02"), Fact{SourceWindow, 350, false}}}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	for c := range im.Conflicts() {
		t.Errorf("a window is no contradiction: %+v", c)
	}
	// The builder is as it was: a second image is the same.
	if d := cmp.Diff(history(im, 0x1100, 2), history(mustBuild(t, b), 0x1100, 2)); d != "" {
		t.Errorf("(-first +second):\n%s", d)
	}
}

// TestWindowTold: a window that has a text poke is one change, which contradicts
// nothing.
func TestWindowTold(t *testing.T) {
	b := kernel()
	b.Poke(pokeAt(0x1100, 320, "9090", "eb02"))
	if err := b.Window(ExplicitWindow{Addr: 0x1100, From: 300, To: 350, Before: unhex("9090"), After: unhex("eb02")}); err != nil {
		t.Fatal(err)
	}
	for c := range mustBuild(t, b).Conflicts() {
		t.Errorf("%+v", c)
	}
}
