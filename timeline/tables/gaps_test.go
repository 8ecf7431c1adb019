// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"testing"

	"github.com/textreplay/textreplay/timeline"
)

// TestAgrees: the shortcut for text that the last change wrote takes nothing else for it.
func TestAgrees(t *testing.T) {
	p := &pokes{forms: []form{{addr: 0x1000, old: "\x90\x90\x90\x90\x90", new: "\xe8\x01\x02\x03\x04"}, {addr: 0x1000, old: "\xe8", new: "\xcc"}}}
	known := timeline.Span{Addr: 0x1000, Len: 5, Standing: timeline.Known, Bytes: []byte("\xe8\x01\x02\x03\x04")}
	with := func(change func(s *timeline.Span)) timeline.Span {
		s := known
		change(&s)
		return s
	}
	common := timeline.Span{Standing: timeline.Known}
	unknown := timeline.Span{Standing: timeline.Unknown}
	for _, c := range []struct {
		name         string
		span, common timeline.Span
		times        []uint64
		forms        []uint32
		next         int
		want         bool
	}{
		{"the last change wrote it", known, common, []uint64{5, 9}, []uint32{0, 0}, 1, true},
		{"a part of it", with(func(s *timeline.Span) { s.Addr, s.Len, s.Bytes = 0x1001, 2, s.Bytes[1:3] }), common, []uint64{5}, []uint32{0}, 1, true},
		{"after two changes", known, common, []uint64{5, 9}, []uint32{1, 0}, 2, true},
		{"two changes of one time", known, common, []uint64{9, 9}, []uint32{1, 0}, 2, false},
		{"before all changes", known, common, []uint64{5}, []uint32{0}, 0, false},
		{"other bytes", with(func(s *timeline.Span) { s.Bytes = []byte("\xe8\x01\x02\x03\x05") }), common, []uint64{5}, []uint32{0}, 1, false},
		{"the last change wrote less", known, common, []uint64{5, 9}, []uint32{0, 1}, 2, false},
		{"not known", with(func(s *timeline.Span) { s.Standing = timeline.Retired }), common, []uint64{5}, []uint32{0}, 1, false},
		{"unpatched text is not known", known, unknown, []uint64{5}, []uint32{0}, 1, false},
		{"another reason", with(func(s *timeline.Span) { s.Reason = timeline.ClockUncertainty }), common, []uint64{5}, []uint32{0}, 1, false},
		{"candidates", with(func(s *timeline.Span) { s.Candidates = make([]timeline.Candidate, 2) }), common, []uint64{5}, []uint32{0}, 1, false},
	} {
		d := &deriver{p: p, near: sitePokes{c.times, c.forms}}
		if got := d.agrees(&c.span, &c.common, c.next); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
