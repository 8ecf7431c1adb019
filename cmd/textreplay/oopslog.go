// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/textreplay/textreplay/internal/lazyregexp"
)

// A logLine is a line of the kernel's log without its prefixes, and the times in them.
type logLine struct {
	line int // its number, from 1
	text string
	// printk is the time that the kernel gave the message, in nanoseconds of printk's
	// clock; noTime if the line has none. Printed times have microseconds.
	printk uint64
	// received is when the journal read the message, in nanoseconds of CLOCK_MONOTONIC,
	// if the line says so (-o export and json); else noTime.
	received uint64
	// wall is the wall-clock time of the line; zero if it has none. wallUnit is the unit
	// of its last digit.
	wall     time.Time
	wallUnit time.Duration
}

const noTime = ^uint64(0)

var (
	escapes = lazyregexp.New("\x1b\\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")
	// [   12.345678] or, on some machines, [   12.345678@3]. dmesg -d and journalctl -o
	// short-delta add the time since the message before: [   12.345678 <    0.000062>]
	printkTime = lazyregexp.New(`\[ *(\d{1,10})\.(\d{6})(?:@\d+)?(?: < *\d+\.\d{6} ?>| {8,24})?\] ?`)
	relative   = lazyregexp.New(`^\[(?: *\+\d+\.\d{6}|[A-Z][a-z]{2} ?\d{1,2} \d\d:\d\d)\] ?`) // dmesg -e
	// The first line of an entry of journalctl -o verbose has the cursor, in which m is when
	// the journal read the message, and t the wall-clock time, in microseconds.
	verboseHead = lazyregexp.New(`^(?:\w{3} )?\d{4}-\d\d-\d\d .*\[s=[0-9a-f]*;.*;m=([0-9a-f]{1,15});t=([0-9a-f]{1,15})`)
	callerOf    = lazyregexp.New(`^\[ *[TC]\d+\] ?`) // CONFIG_PRINTK_CALLER
	level       = lazyregexp.New(`^<\d{1,3}>`)
	kmsg        = lazyregexp.New(`^\d{1,5},\d+,(\d+),[^;]*;`)
	dmesgT      = lazyregexp.New(`^\[((?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})\] ?`)
	decoded     = lazyregexp.New(`^[a-z0-9]+ *:[a-z]+ *: `) // dmesg -x
	isoTime     = lazyregexp.New(`^(?:\w{3} )?(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d)(?:[.,](\d{1,9}))? ?(Z|[+-]\d\d(?::?\d\d)?|[A-Z]{3,5})?\s+`)
	syslogTime  = lazyregexp.New(`^([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)(?:\.(\d{1,9}))? `)
	unixTime    = lazyregexp.New(`^(\d{9,11})\.(\d{6}) `)
	fromKernel  = lazyregexp.New(`^(?:\S+ )?kernel(?:\[\d+\])?: ?`)
)

// A logReader takes the prefixes from lines of dmesg, journalctl, syslog and consoles.
type logReader struct {
	n      int
	export exportEntry
	pretty []string       // the lines of an object of journalctl -o json-pretty, so far
	zone   *time.Location // of times without a zone
	near   time.Time      // times without a year are in the year that is nearest to it
}

// An exportEntry is an entry of journalctl -o export or verbose. Its times are those of a logLine,
// in nanoseconds: source is printk's; wall counts from 1970, and is 0 or noTime if there is none.
type exportEntry struct {
	message  string
	line     int
	source   uint64
	received uint64
	wall     uint64
	open     bool
	verbose  bool // of -o verbose: the fields are indented
}

// read takes a line of text and returns the lines of the log that it completes: mostly one, none
// inside an entry of several lines. A nil line ends the text.
func (l *logReader) read(text *string) []logLine {
	if text == nil {
		return append(l.endExport(), l.notPretty()...)
	}
	l.n++
	s := *text
	if l.pretty != nil || s == "{" {
		return l.prettyJSON(s)
	}
	if s == "" {
		return l.endExport()
	}
	if l.export.verbose {
		s = strings.TrimPrefix(s, "    ")
	}
	if key, value, ok := strings.Cut(s, "="); ok && isJournalField(key) {
		e := &l.export
		n, err := strconv.ParseUint(value, 10, 63)
		us := noTime
		if err == nil && n < 1<<53 {
			us = n * 1000
		}
		if !e.open {
			*e = exportEntry{open: true, source: noTime, received: noTime}
		}
		switch key {
		case "MESSAGE":
			e.message, e.line = value, l.n
		case "_SOURCE_MONOTONIC_TIMESTAMP":
			e.source = us
		case "__MONOTONIC_TIMESTAMP":
			e.received = us
		case "__REALTIME_TIMESTAMP":
			e.wall = us
		}
		return nil
	}
	// -o json-seq begins an object with a record separator, and json-sse with "data: ".
	if object := strings.TrimPrefix(strings.TrimPrefix(s, "\x1e"), "data: "); strings.HasPrefix(object, "{") {
		if out, ok := l.json(object); ok {
			return append(l.endExport(), out...)
		}
	}
	if m := verboseHead().FindStringSubmatch(s); m != nil {
		out := l.endExport()
		received, _ := strconv.ParseUint(m[1], 16, 53)
		wall, _ := strconv.ParseUint(m[2], 16, 53)
		l.export = exportEntry{open: true, verbose: true, source: noTime, received: received * 1000, wall: wall * 1000}
		return out
	}
	return append(l.endExport(), l.plain(s))
}

// prettyJSON reads a line of journalctl -o json-pretty, in which an object has several lines.
func (l *logReader) prettyJSON(s string) []logLine {
	if s == "{" && l.pretty == nil {
		l.pretty = []string{s}
		return l.endExport()
	}
	if s != "}" && s[:min(1, len(s))] != "\t" || len(l.pretty) >= mostFields {
		l.pretty = append(l.pretty, s)
		return l.notPretty()
	}
	l.pretty = append(l.pretty, s)
	if s != "}" {
		return nil
	}
	if out, ok := l.json(strings.Join(l.pretty, "\n")); ok {
		l.pretty = nil
		return out
	}
	return l.notPretty()
}

// mostFields is how many lines an object of the journal can have. The kernel's have some 15.
const mostFields = 1 << 10

// notPretty returns the lines in l.pretty as what they are, because they are not an object of
// the journal.
func (l *logReader) notPretty() (out []logLine) {
	for i, s := range l.pretty {
		line := l.plain(s)
		line.line -= len(l.pretty) - 1 - i
		out = append(out, line)
	}
	l.pretty = nil
	return out
}

func isJournalField(key string) bool {
	for i := range len(key) {
		if c := key[i]; (c < 'A' || c > 'Z') && c != '_' && (c < '0' || c > '9') {
			return false
		}
	}
	return strings.HasPrefix(key, "_") || key == "MESSAGE" || key == "PRIORITY" || strings.HasPrefix(key, "SYSLOG_")
}

func (l *logReader) endExport() []logLine {
	e := l.export
	l.export = exportEntry{}
	if !e.open || e.line == 0 {
		return nil
	}
	out := logLine{line: e.line, text: e.message, printk: e.source, received: e.received}
	if e.wall != 0 && e.wall != noTime {
		out.wall, out.wallUnit = time.UnixMicro(int64(e.wall/1000)), time.Microsecond
	}
	return []logLine{out}
}

// json reads a line of journalctl -o json.
func (l *logReader) json(s string) ([]logLine, bool) {
	var e struct {
		Message  *string `json:"MESSAGE"`
		Source   string  `json:"_SOURCE_MONOTONIC_TIMESTAMP"`
		Received string  `json:"__MONOTONIC_TIMESTAMP"`
		Wall     string  `json:"__REALTIME_TIMESTAMP"`
	}
	if json.Unmarshal([]byte(s), &e) != nil || e.Message == nil {
		return nil, false
	}
	out := logLine{line: l.n, text: *e.Message, printk: noTime, received: noTime}
	for _, f := range []struct {
		text string
		to   *uint64
	}{{e.Source, &out.printk}, {e.Received, &out.received}} {
		if us, err := strconv.ParseUint(f.text, 10, 63); err == nil && us < 1<<53 {
			*f.to = us * 1000
		}
	}
	if us, err := strconv.ParseInt(e.Wall, 10, 64); err == nil {
		out.wall, out.wallUnit = time.UnixMicro(us), time.Microsecond
	}
	return []logLine{out}, true
}

// plain reads a line with any prefixes.
func (l *logReader) plain(s string) logLine {
	s = escapes().ReplaceAllString(s, "")
	out := logLine{line: l.n, printk: noTime, received: noTime}
	cut := func(re func() *regexp.Regexp) []string {
		m := re().FindStringSubmatch(s)
		if m != nil {
			s = s[len(m[0]):]
		}
		return m
	}
	s = strings.TrimLeft(s, " \t")
	cut(level)
	if m := cut(kmsg); m != nil {
		if us, err := strconv.ParseUint(m[1], 10, 53); err == nil {
			out.printk = us * 1000
		}
	}
	cut(decoded)
	switch {
	case l.stamp(&out, cut(dmesgT), "Mon Jan _2 15:04:05 2006"):
	case l.stamp(&out, cut(isoTime), "2006-01-02T15:04:05"):
	case l.stamp(&out, cut(syslogTime), "Jan _2 15:04:05"):
	default:
		if m := cut(unixTime); m != nil {
			sec, _ := strconv.ParseInt(m[1], 10, 64)
			us, _ := strconv.ParseInt(m[2], 10, 64)
			out.wall, out.wallUnit = time.Unix(sec, us*1000), time.Microsecond
		}
	}
	cut(fromKernel)
	// Noise of a serial line, or the name of a console, may be before the time.
	if at := printkTime().FindStringSubmatchIndex(s); at != nil && at[0] < 60 {
		sec, _ := strconv.ParseUint(s[at[2]:at[3]], 10, 64)
		us, _ := strconv.ParseUint(s[at[4]:at[5]], 10, 64)
		out.printk = sec*1e9 + us*1e3
		s = s[at[1]:]
		cut(callerOf)
		cut(fromKernel) // journalctl -o short-monotonic
	} else {
		cut(relative)
	}
	out.text = strings.TrimRight(s, " \t")
	return out
}

// stamp reads a wall-clock time: the match of an expression, whose groups are the date,
// the digits after the point and the zone.
func (l *logReader) stamp(out *logLine, m []string, layout string) bool {
	if m == nil {
		return false
	}
	zone, name := l.zone, ""
	out.wallUnit = time.Second
	if len(m) > 3 && m[3] != "" {
		name = m[3]
		for _, form := range []string{"Z07:00", "-0700", "-07", "MST"} {
			if z, err := time.Parse(form, m[3]); err == nil && (form != "MST" || m[3] == "UTC" || m[3] == "GMT") {
				zone, name = z.Location(), ""
				break
			}
		}
	}
	t, err := time.ParseInLocation(layout, strings.Replace(m[1], " ", "T", strings.Count(layout, "T")), zone)
	if err != nil {
		return true // it is a prefix all the same
	}
	if t.Year() == 0 {
		t = nearestYear(t, l.near)
	}
	if name != "" {
		var ok bool
		if t, ok = named(t, name); !ok {
			return true // another zone than this machine's
		}
	}
	if len(m) > 2 && m[2] != "" {
		frac, _ := strconv.Atoi((m[2] + "000000000")[:9])
		t = t.Add(time.Duration(frac))
		for range len(m[2]) {
			out.wallUnit /= 10
		}
	}
	out.wall = t
	return true
}

// nearestYear returns t, whose year is 0, in the year in which it is nearest to near. A log
// of New Year's Eve has times of two years.
func nearestYear(t, near time.Time) time.Time {
	best := t.AddDate(near.Year(), 0, 0)
	for _, year := range []int{near.Year() - 1, near.Year() + 1} {
		u := t.AddDate(year, 0, 0)
		if u.Day() == t.Day() && (best.Day() != t.Day() || u.Sub(near).Abs() < best.Sub(near).Abs()) { // February 29
			best = u
		}
	}
	return best
}

// named returns the time that a clock of t's zone shows as t when the zone has this name,
// such as EST or EDT, and whether there is one.
func named(t time.Time, name string) (time.Time, bool) {
	for _, d := range []time.Duration{0, time.Hour, -time.Hour} {
		u := t.Add(d)
		if z, _ := u.Zone(); z == name && u.Format(time.DateTime) == t.Format(time.DateTime) {
			return u, true
		}
	}
	return t, false
}
