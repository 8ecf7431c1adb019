// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"errors"
	"fmt"
	"os/exec"
)

// benchAt measures `textreplay at`, a whole process that answers one question
// about a recording, against perf listing the recording's text pokes.
func benchAt(recording string, runs int) error {
	perf, err := exec.LookPath("perf")
	if err != nil {
		return err
	}
	textreplay, _, remove, err := commandIn("bench-at-")
	if err != nil {
		return err
	}
	defer remove()
	theirs, err := leastCPU(runs, perf, "script", "--show-text-poke-events", "-i", recording)
	if err != nil {
		return err
	}
	fmt.Printf("CPU seconds of a process; perf script --show-text-poke-events: %.3f\n\n%-28s %10s %8s %8s\n",
		theirs.Seconds(), "", "textreplay", "ratio", "bound")
	missed := false
	for _, q := range []struct {
		name  string
		args  []string
		bound float64 // the part of perf's time that it may take
	}{
		{"at vfs_read 50%", []string{"at", "vfs_read", "50%"}, 1. / 10},
		{"history vfs_read", []string{"history", "vfs_read"}, 1},
		{"info", []string{"info"}, 1},
		{"diff 40% 60%", []string{"diff", "40%", "60%"}, 1},
	} {
		args := append([]string{textreplay, "-i", recording, "--index", "never"}, q.args...)
		if q.args[0] == "diff" {
			args = []string{"sh", "-c", `"$@" || [ $? = 1 ]`, "sh", textreplay, "-i", recording, "--index", "never", "diff", "40%", "60%"}
		}
		ours, err := leastCPU(runs, args...)
		if err != nil {
			return err
		}
		ratio := ours.Seconds() / theirs.Seconds()
		fmt.Printf("%-28s %10.3f %8s %8s\n", q.name, ours.Seconds(), fmt.Sprintf("1/%.0f", 1/ratio), fmt.Sprintf("1/%.0f", 1/q.bound))
		missed = missed || ratio > q.bound
	}
	if missed {
		return errors.New("a bound is missed")
	}
	return nil
}
