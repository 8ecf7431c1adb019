// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A keptTime is the time that a request names, which its page and all links of the page keep.
type keptTime struct {
	text  string // as the request has it; "" if it names none, or one that cannot be read
	times replay.Times
	err   error // why the time of the request cannot be read
}

// keptTime reads the parameter ns, a number of nanoseconds, or t, a time as on the command line.
func (q *request) keptTime() (k keptTime) {
	if ns := q.FormValue("ns"); ns != "" {
		if _, err := strconv.ParseUint(ns, 10, 64); err != nil {
			k.err = &RequestError{"ns: want a number"}
		} else if k.times, k.err = q.r.ParseTime(ns + "ns"); k.err == nil {
			k.text = replay.Seconds(k.times.From)
		}
		return k
	}
	text := strings.TrimSpace(q.FormValue("t"))
	if text == "" {
		return k
	}
	if k.times, k.err = q.r.ParseTime(text); k.err == nil {
		k.text = text
	}
	return k
}

// or returns the kept time, or t (ns) if the request names none.
func (k *keptTime) or(t uint64) replay.Times {
	if k.text == "" {
		return replay.Times{From: t, To: t}
	}
	return k.times
}

// interval returns the kept time's first and last nanosecond in words, "" if it is exact.
func (k *keptTime) interval() string {
	if k.text == "" || k.times.Exact() {
		return ""
	}
	return intervalText(k.times)
}

// intervalText returns an interval in words, with its last nanosecond.
func intervalText(t replay.Times) string {
	return replay.Seconds(t.From) + " to " + replay.Seconds(t.To)
}

// bounds returns the times from <= t < to (ns) that the form asks for, by the rule of the command
// line's --time A,B. An end that the form does not have is 0 or timeline.MaxTime, which bounds
// nothing.
func (q *request) bounds() (from, to uint64, err error) {
	to = timeline.MaxTime
	for _, end := range []struct {
		name string
		t    *uint64
	}{{"from", &from}, {"to", &to}} {
		if s := strings.TrimSpace(q.FormValue(end.name)); s != "" {
			t, err := q.r.ParseTime(s)
			if err != nil {
				return 0, 0, err
			}
			*end.t = t.From
		}
	}
	if from > to {
		return 0, 0, &RequestError{fmt.Sprintf("the window ends at %s, before it begins at %s", replay.Seconds(to), replay.Seconds(from))}
	}
	return from, to, nil
}

// window returns the window of time that a picture shows, in ns; from < to. An end that the form
// does not have is that of the recording.
func (q *request) window() (from, to uint64, err error) {
	if from, to, err = q.bounds(); err != nil {
		return 0, 0, err
	}
	first, last := q.extent()
	if from == 0 && strings.TrimSpace(q.FormValue("from")) == "" {
		if from = first; to <= from {
			return 0, 0, &RequestError{fmt.Sprintf("the recording begins at %s: it has nothing before %s", replay.Seconds(first), replay.Seconds(to))}
		}
	}
	if to == timeline.MaxTime {
		if to = last; to <= from {
			return 0, 0, &RequestError{fmt.Sprintf("the recording ends at %s: it has nothing from %s on", replay.Seconds(last), replay.Seconds(from))}
		}
	}
	if from >= to {
		return 0, 0, &RequestError{fmt.Sprintf("the window from %s to %s is empty", replay.Seconds(from), replay.Seconds(to))}
	}
	return from, to, nil
}

// boundsText says in words which times a list is of, "" if all. A list has no change at the time to.
func boundsText(from, to uint64) string {
	switch {
	case from != 0 && to != timeline.MaxTime:
		return "from " + replay.Seconds(from) + " up to but not including " + replay.Seconds(to)
	case from != 0:
		return "from " + replay.Seconds(from) + " on"
	case to != timeline.MaxTime:
		return "up to but not including " + replay.Seconds(to)
	}
	return ""
}
