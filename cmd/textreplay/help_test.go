// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/textreplay/textreplay/internal/recordargs"
)

// TestFlagValues: help names the value of each flag, instead of its type in Go.
func TestFlagValues(t *testing.T) {
	root := (&app{pager: &pager{}}).rootCmd(io.Discard)
	check := func(f *pflag.Flag) {
		value, _ := pflag.UnquoteUsage(f)
		if value != "" && strings.ToUpper(value) != value && !strings.Contains(value, "|") {
			t.Errorf("--%s has a value named %q", f.Name, value)
		}
		if strings.Contains(f.DefValue, "[]") && f.Value.Type() == "uintSlice" {
			t.Errorf("--%s has the default %q", f.Name, f.DefValue)
		}
	}
	root.PersistentFlags().VisitAll(check)
	for _, c := range root.Commands() {
		c.LocalFlags().VisitAll(check)
	}
}

// TestRecorderFlags: the command line that a recording of record has is understood, whatever
// flags it was given.
func TestRecorderFlags(t *testing.T) {
	cmd := (&app{pager: &pager{}}).recordCmd()
	n := 0
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		n++
		arg := "--" + f.Name
		if f.Value.Type() != "bool" {
			arg += "=1"
		}
		if _, workload, ok := recordargs.SplitRecorder([]string{"textreplay", "record", arg, "--", "true"}); !ok || len(workload) != 1 {
			t.Errorf("%s: not understood", arg)
		}
	})
	if n < 6 {
		t.Errorf("record has %d flags", n)
	}
}

// TestInheritedFlags: a command that reads no recording neither shows nor takes its flags.
func TestInheritedFlags(t *testing.T) {
	for name := range readsNothing {
		var stdout, stderr bytes.Buffer
		if run([]string{"help", name}, nil, &stdout, &stderr); strings.Contains(stdout.String(), "--guest") {
			t.Errorf("help %s has --guest", name)
		}
		want := "textreplay: " + name + " takes no --guest\nusage: "
		args := []string{name, "--guest", "5"}
		if name == "record" {
			args = append(args, "x") // an error, too, so that nothing is recorded
		}
		if code := run(args, nil, &stdout, &stderr); code != exitUsage || !strings.HasPrefix(stderr.String(), want) {
			t.Errorf("%s --guest 5: exit code %d, %q", name, code, &stderr)
		}
	}
}

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
