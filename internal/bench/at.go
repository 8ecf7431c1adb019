// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// benchAt measures `textreplay at`, a whole process that answers one question
// about a recording, against perf listing the recording's text pokes.
func benchAt(recording string, runs int) error {
	perf, err := exec.LookPath("perf")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-at-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	textreplay := filepath.Join(dir, "textreplay")
	if out, err := exec.Command("go", "build", "-o", textreplay, "./cmd/textreplay").CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w\n%s", err, out)
	}
	yard := []string{perf, "script", "--show-text-poke-events", "-i", recording}
	least := func(args ...string) (time.Duration, error) {
		best := time.Duration(1<<63 - 1)
		for range runs {
			cmd := exec.Command(args[0], args[1:]...)
			cmd.Stdout = io.Discard
			if err := cmd.Run(); err != nil {
				return 0, fmt.Errorf("%s: %w", args, err)
			}
			best = min(best, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())
		}
		return best, nil
	}
	theirs, err := least(yard...)
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
		ours, err := least(args...)
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
