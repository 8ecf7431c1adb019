// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/textreplay/textreplay/internal/printable"
	"github.com/textreplay/textreplay/timeline"
)

// A style colors text if on is set.
type style struct{ on bool }

const (
	bold   = "1"
	red    = "31"
	green  = "32"
	yellow = "33"
)

func (s style) paint(code, text string) string {
	if !s.on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[m"
}

func (s style) standing(x timeline.Standing) string {
	code := red
	switch x {
	case timeline.Known:
		code = green
	case timeline.InFlight, timeline.Unconfirmed, timeline.Retired:
		code = yellow
	}
	return s.paint(code, x.String())
}

// A screenText makes text fit for a terminal. Names in a recording are chosen by others, and a
// terminal obeys the control sequences in them.
type screenText struct{ held []byte } // the beginning of a character or of a color

// colors are the sequences that style prints.
var colors = []string{"\x1b[m", "\x1b[" + bold + "m", "\x1b[" + red + "m", "\x1b[" + green + "m", "\x1b[" + yellow + "m"}

// next returns the text with what is not printed escaped, but for colors. If the end of b may go
// on in the next call, that returns it.
func (s *screenText) next(b []byte) (out []byte) {
	b = append(s.held, b...)
	s.held = nil
	for len(b) > 0 {
		at := bytes.IndexByte(b, 0x1b)
		switch {
		case at < 0:
			n := len(b)
			for i := max(n-utf8.UTFMax+1, 0); i < n; i++ {
				if utf8.RuneStart(b[i]) && !utf8.FullRune(b[i:]) {
					n = i
				}
			}
			s.held = b[n:]
			return append(out, printable.Text(b[:n])...)
		case at > 0:
			out = append(out, printable.Text(b[:at])...)
			b = b[at:]
			continue
		}
		i := slices.IndexFunc(colors, func(c string) bool { return bytes.HasPrefix(b, []byte(c)) || bytes.HasPrefix([]byte(c), b) })
		switch {
		case i < 0:
			out = append(out, printable.Text(b[:1])...)
			b = b[1:]
		case len(b) < len(colors[i]):
			s.held = b
			return out
		default:
			out = append(out, colors[i]...)
			b = b[len(colors[i]):]
		}
	}
	return out
}

// rest returns what next has kept.
func (s *screenText) rest() []byte {
	b := s.held
	s.held = nil
	return printable.Text(b)
}

// sayf prints a message to standard error, as a line. Names in it, of files too, are chosen by
// others, see [screenText].
func (a *app) sayf(format string, args ...any) {
	fmt.Fprintf(a.stderr, "textreplay: %s\n", printable.Text(fmt.Appendf(nil, format, args...)))
}

// warnf is sayf for a warning.
func (a *app) warnf(format string, args ...any) { a.sayf("warning: "+format, args...) }
