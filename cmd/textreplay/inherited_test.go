// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TestNoFlagIsIgnored: a command takes a flag of all commands if it does something with it, and refuses the
// others. What is wrong with the flag's value is an error of each command that takes it. A file that is no index is refused at once.
func TestNoFlagIsIgnored(t *testing.T) {
	rec, err := filepath.Abs("../../testdata/small/rec.data")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	// Each of them answers. An empty list is for those that read no recording: -i is refused.
	whole := map[string][]string{
		"at": {"sysctl_schedstats", "9"}, "info": {}, "log": {"--summary"}, "history": {"sysctl_schedstats"}, "diff": {"9", "9"},
		"symbols": {"--kind", "bpf"}, "image": {"--at", "9", "-o", "out"}, "verify": {}, "audit": {}, "pprof": {"-o", "out"}, "web": {"--no-browser"},
		"report": {"-o", "out"}, "perfetto": {"-o", "out"}, "export": {"-o", "tables"}, "trim": {"-o", "cut"},
		"oops": {"--at", "9"}, "record": {}, "man": {"man"}, "probes": {}, "version": {},
	}
	wrong := map[string]string{"input": "no/such", "kcore": "no/such", "kallsyms": "no/such", "modules": "no/such", "vmlinux": "no/such", "windows": "no/such",
		"probe-counters": "no/such", "formats": "no/such", "guest": "4711", "cpus": "77", "index": "no-index"}
	if err := os.WriteFile("no-index", []byte("text"), 0o666); err != nil {
		t.Fatal(err)
	}
	inherited := (&app{}).rootCmd(io.Discard).PersistentFlags()
	inherited.VisitAll(func(f *pflag.Flag) {
		_, found := wrong[f.Name]
		if !found && !slices.Contains([]string{"color", "json", "no-pager", "progress", "require", "help"}, f.Name) {
			t.Errorf("no wrong value of --%s", f.Name)
		}
	})
	try := func(args ...string) (code int, stderr string) {
		var out bytes.Buffer
		code = run(args, strings.NewReader(""), io.Discard, &out)
		return code, out.String()
	}
	for _, c := range commands() {
		args, found := whole[c.name]
		cmd := c.make(&app{out: nil})
		if cmd.IsAdditionalHelpTopicCommand() || !cmd.Runnable() {
			continue
		}
		if !found {
			t.Errorf("%s: no arguments", c.name)
			continue
		}
		root := &cobra.Command{Use: "textreplay"}
		root.AddCommand(cmd)
		_, noRecording := readsNothing[c.name]
		delete(whole, c.name)
		call := append([]string{c.name}, args...)
		if !noRecording {
			call = append(call, "-i", rec)
		}
		for name, value := range wrong {
			code, text := try(append(call, "--"+name, value)...)
			if refused := strings.Contains(text, " takes no --"+name+"\n"); code < exitUsage || refused == takesInherited(cmd, name) {
				t.Errorf("%s --%s %s: exit code %d, %s", c.name, name, value, code, text)
			}
		}
		for name, does := range map[string]bool{
			"json":    len(schemas[c.name]) > 0,
			"require": slices.Contains([]string{"at", "diff", "history", "image", "oops"}, c.name),
		} {
			if got := takesInherited(cmd, name); got != does {
				t.Errorf("%s takes --%s: %v, want %v", c.name, name, got, does)
			}
			if !does {
				code, text := try(append(call, "--"+name+map[string]string{"require": "=known"}[name])...)
				if code != exitUsage || !strings.Contains(text, c.name+" takes no --"+name+"\n") {
					t.Errorf("%s --%s: exit code %d, %s", c.name, name, code, text)
				}
			}
		}
	}
	if len(whole) > 0 {
		t.Errorf("not tried: %v", whole)
	}
}
