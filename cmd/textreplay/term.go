// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/textreplay/textreplay/timeline"

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
