// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"os/exec"
	"testing"
)

// TestScripts: the shells can read the scripts, and wrong arguments are refused.
func TestScripts(t *testing.T) {
	for _, tt := range []struct {
		command []string
		exit    int
	}{
		{[]string{"bash", "-n", "run"}, 0},
		{[]string{"sh", "-n", "init"}, 0},
		{[]string{"sh", "-n", "scenario"}, 0},
		{[]string{"bash", "run"}, 2},
		{[]string{"bash", "run", "OUT"}, 2},
		{[]string{"bash", "run", "-x", "OUT", "small"}, 2},
	} {
		c := exec.Command(tt.command[0], tt.command[1:]...)
		out, err := c.CombinedOutput()
		if errors.Is(err, exec.ErrNotFound) {
			t.Skip(err)
		}
		if got := c.ProcessState.ExitCode(); got != tt.exit {
			t.Errorf("%q: exit code %d, want %d: %s", tt.command, got, tt.exit, out)
		}
	}
}

// TestUsage: wrong arguments are refused before anything is done.
func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"oracle", "DIR"}, {"bpf", "socket", "-", "x", "1"}, {"churn", "1", "x"}, {"bpf", "other", "-", "1", "0"}} {
		if err := run(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
	if areas, err := moduleAreas(); err == nil {
		for _, a := range areas {
			if a.lo < modulesFrom || a.hi > modulesTo || a.lo >= a.hi {
				t.Errorf("an area of %#x..%#x", a.lo, a.hi)
			}
		}
	}
}
