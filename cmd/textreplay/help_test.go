// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/textreplay/textreplay/internal/recordargs"
)

// wholeProgram returns the program's command with all commands.
func wholeProgram() *cobra.Command {
	a := &app{pager: &pager{}}
	root := a.rootCmd(io.Discard)
	a.addCommands(root)
	return root
}

// TestCommandAlone: a command that is made without the others has the same help, and has the name by
// which it is found.
func TestCommandAlone(t *testing.T) {
	flags := (&app{pager: &pager{}}).rootCmd(io.Discard).PersistentFlags()
	for _, c := range commands() {
		if got := c.make(&app{pager: &pager{}}).Name(); got != c.name {
			t.Errorf("%s: the command is named %s", c.name, got)
		}
		if (commandOf([]string{c.name, "x"}, flags) == nil) != c.readsOthers {
			t.Errorf("%s: it is made with all others: %v", c.name, !c.readsOthers)
		}
		var alone, whole, stderr bytes.Buffer
		run([]string{c.name, "--help"}, nil, &alone, &stderr)
		run([]string{"help", c.name}, nil, &whole, &stderr)
		if alone.Len() < 100 || alone.String() != whole.String() || stderr.Len() > 0 {
			t.Errorf("%s --help alone prints\n%s\nwith all commands\n%s%s", c.name, &alone, &whole, &stderr)
		}
	}
	for _, c := range []struct{ args, want string }{
		{"", ""}, {"help", ""}, {"completion", ""}, {"__complete at", ""}, {"At", ""},
		{"-i rec.data at", "at"}, {"-irec.data --json --index never log at", "log"}, {"--index=never --no-pager at x", "at"},
		{"--no-pager=false -i at at", "at"}, {"-i at", ""}, {"-i", ""}, {"--index", ""}, {"--index=at", ""},
		{"--version", ""}, {"-h at", ""}, {"-x at", ""}, {"--no-such at", ""}, {"- at", ""}, {"-- at", ""}, {"---i at", ""},
	} {
		got := ""
		if c := commandOf(strings.Fields(c.args), flags); c != nil {
			got = c.name
		}
		if got != c.want {
			t.Errorf("%s: %q is made alone, want %q", c.args, got, c.want)
		}
	}
}

// TestFlagValues: help names the value of each flag, instead of its type in Go.
func TestFlagValues(t *testing.T) {
	root := wholeProgram()
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
		if run(strings.Fields("help "+name), nil, &stdout, &stderr); strings.Contains(stdout.String(), "--guest") {
			t.Errorf("help %s has --guest", name)
		}
		want := "textreplay: " + name + " takes no --guest\nusage: "
		args := append(strings.Fields(name), "--guest", "5")
		switch name {
		case "record":
			args = append(args, "x") // an error, too, so that nothing is recorded
		case "man":
			args = append(args, filepath.Join(t.TempDir(), "man"))
		}
		if code := run(args, nil, &stdout, &stderr); code != exitUsage || !strings.HasPrefix(stderr.String(), want) {
			t.Errorf("%s --guest 5: exit code %d, %q", name, code, &stderr)
		}
	}
}

// TestHelpWidth: no line of help is wider than a terminal.
func TestHelpWidth(t *testing.T) {
	names := []string{""}
	for _, c := range wholeProgram().Commands() {
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
