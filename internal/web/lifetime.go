// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// lifeNear returns the lifetime of the code at addr that is nearest to a time. text is how a request
// names the code: of a name, code of that name is preferred. lifeNear returns nil for core kernel text,
// which is always there.
func (s *session) lifeNear(text string, addr uint64, t replay.Times) (nearest *timeline.Lifetime) {
	_, name, _ := timeline.SplitName(text)
	name, _, _ = strings.Cut(name, "+")
	rank := func(l *timeline.Lifetime) int {
		switch {
		case strings.HasPrefix(name, "0x"), l.Name == name && !l.IsModule():
			return 0
		case l.Kind == timeline.ModuleText:
			return 1 // its functions have other names
		}
		return 2
	}
	distance := func(l *timeline.Lifetime) uint64 {
		at := timeIn(l.From, l.To, t)
		return max(at, t.From) - min(at, t.From)
	}
	for l := range s.r.Image.LifetimesAt(addr) {
		if nearest == nil || cmp.Or(cmp.Compare(rank(l), rank(nearest)), cmp.Compare(distance(l), distance(nearest)), cmp.Compare(l.From, nearest.From)) < 0 {
			nearest = l
		}
	}
	return nearest
}

// timeIn returns the start of an interval if code that lives from a time until another one is there in
// it, or else the time nearest to it at which the code is there.
func timeIn(from, until uint64, t replay.Times) uint64 {
	switch {
	case t.To < from:
		return from
	case endsBy(until, t.From):
		return max(from, until-1)
	}
	return t.From
}

// codeLink returns the link to the code at addr that text and name name, at the time that a page keeps.
// If the code is not there then, the link leads to the nearest time at which it is, which is at; else at
// is "".
func (q *request) codeLink(text, name string, addr uint64) (href, at string) {
	href = "/at?addr=" + url.QueryEscape(text)
	times := q.kept.or(q.r.Report.First)
	if l := q.lifeNear(name, addr, times); l != nil {
		if near := timeIn(l.From, l.To, times); near != times.From {
			at = replay.Seconds(near)
			return href + "&t=" + at + "&absent=" + url.QueryEscape(cmp.Or(q.kept.text, "start")), at
		}
	}
	if q.kept.text != "" {
		href += "&t=" + url.QueryEscape(q.kept.text)
	}
	return href, ""
}

// absence says that code that lives from a time until another one is not there at the time that was
// asked for, which is named text, and at which time a page shows it instead. It returns "" if the code
// is there.
func absence(name string, from, until uint64, asked replay.Times, text string, shown uint64) string {
	if timeIn(from, until, asked) == asked.From {
		return ""
	}
	if text == "start" {
		text = "the start of the recording"
	}
	which := ""
	switch shown {
	case from:
		which = ", the first time at which it is there"
	case until - 1:
		which = ", the last time at which it is there"
	}
	return fmt.Sprintf("%s is not there at %s. This page shows it at %s%s.", name, text, replay.Seconds(shown), which)
}
