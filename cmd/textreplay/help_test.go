// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestHelpWidth: no line of help is wider than a terminal.
func TestHelpWidth(t *testing.T) {
	names := []string{""}
	for _, c := range (&app{pager: &pager{}}).rootCmd(io.Discard).Commands() {
		names = append(names, c.Name())
	}
	for _, name := range names {
		var stdout, stderr bytes.Buffer
		if code := run(strings.Fields("help "+name), nil, &stdout, &stderr); code != exitAnswered || stdout.Len() < 100 {
			t.Errorf("help %s: exit code %d, %q, %s", name, code, &stdout, &stderr)
		}
		for line := range strings.Lines(stdout.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > helpWidth {
				t.Errorf("help %s: %d columns: %s", name, n, line)
			}
		}
	}
}
