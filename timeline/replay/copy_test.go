// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"strings"
	"testing"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline"
)

func TestModuleList(t *testing.T) {
	m := &timeline.Module{Name: "m", Addr: 0x8000}
	for _, tt := range []struct {
		name   string
		listed kcore.Module
		want   bool
	}{
		{"at its address", kcore.Module{Name: "m", Addr: 0x8000}, true},
		{"at another address", kcore.Module{Name: "m", Addr: 0xc000}, false},
		{"its address withheld", kcore.Module{Name: "m"}, true},
		{"another module at its address", kcore.Module{Name: "n", Addr: 0x8000}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list := moduleList{modules: []kcore.Module{tt.listed}}
			if got := list.has(m); got != tt.want {
				t.Errorf("listed: %v, want %v", got, tt.want)
			}
		})
	}
}

// TestCopiedLate: a copy that may have been made after the first gap proves nothing, so no text is
// known that was not poked. The report says so.
func TestCopiedLate(t *testing.T) {
	for _, tt := range []struct {
		name string
		lost uint64 // when
		want bool
	}{
		{"a gap inside the interval", 300, true},
		{"a gap behind it", 800, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.copied, w.text = true, make([]byte, 0x1000)
			for at := uint64(100); at <= 1000; at += 100 {
				w.ticks(at, at+50)
				if at == tt.lost {
					w.lost(10, at+60, 3)
				}
				if at == 200 || at == 500 {
					w.round()
				}
			}
			r := w.replay()
			if r.Report.Copied == nil || r.Report.Copied.To != 500 {
				t.Fatalf("the copy was made %v", r.Report.Copied)
			}
			if got := r.Report.OnlyPoked(); got != tt.want {
				t.Errorf("only poked places are known: %v", got)
			}
			because := strings.Join(r.Report.Trusted.Because, "; ")
			if got := strings.Contains(because, "only poked places are known"); got != tt.want {
				t.Errorf("because %s", because)
			}
			var b [1]byte
			known := r.Image.At(r.Report.Trusted.To-1).Read(0x1800, b[:]).Standing == timeline.Known
			if known == tt.want || r.Report.Trusted.To == 0 {
				t.Errorf("known at %d: %v", r.Report.Trusted.To-1, known)
			}
		})
	}
}

// TestNothingComplete: the report does not give as the reason why nothing is known that nothing was
// lost.
func TestNothingComplete(t *testing.T) {
	w := newTape(t)
	w.pipe = true
	for at := uint64(100); at <= 1000; at += 100 {
		w.tick(10, at)
	}
	r := w.replay()
	want := "the recording is not complete up to any time at which all CPUs recorded"
	if got := r.Report.Trusted.Because; r.Report.Trusted.To != 0 || len(got) == 0 || got[0] != want || strings.Contains(strings.Join(got, ";"), "none was lost") {
		t.Errorf("known until %d because %q", r.Report.Trusted.To, got)
	}
}
