// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// buildCommand builds the command in dir, and returns its path.
func buildCommand(dir string) (string, error) { return build(dir, "textreplay", "./cmd/textreplay") }

// commandIn builds the command in a new temporary directory, which remove removes.
func commandIn(pattern string) (command, dir string, remove func(), err error) {
	if dir, err = os.MkdirTemp("", pattern); err != nil {
		return "", "", nil, err
	}
	remove = func() { os.RemoveAll(dir) }
	if command, err = buildCommand(dir); err != nil {
		remove()
		return "", "", nil, err
	}
	return command, dir, remove, nil
}

// build builds a program in dir, without cgo and without debug information, as releases are, and
// returns its path.
func build(dir, name, from string) (string, error) {
	path := filepath.Join(dir, name)
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, from)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

// leastCPU runs a process several times, with its output going through a pipe,
// and returns its CPU time, user and system: the least.
func leastCPU(runs int, args ...string) (time.Duration, error) {
	u, err := leastOf(runs, nil, args...)
	return u.cpu, err
}

// leasts are what a process used at least, over several runs.
type leasts struct {
	cpu, wall time.Duration
	memory    int64 // its peak in bytes, mapped files included
}

// leastOf runs a process several times, with these variables in its environment too, and
// returns the least of each figure.
func leastOf(runs int, env []string, args ...string) (leasts, error) {
	best := noLeasts
	for range runs {
		if err := best.run(1, env, args...); err != nil {
			return leasts{}, err
		}
	}
	return best, nil
}

var noLeasts = leasts{1<<63 - 1, 1<<63 - 1, 1<<63 - 1}

// run runs n processes at the same time. What they used is noted if it is the least so far: the CPU
// time and the memory of each on average, and the time until all have ended.
func (best *leasts) run(n int, env []string, args ...string) error {
	cmds := make([]*exec.Cmd, n)
	stderr := make([]bytes.Buffer, n)
	start := time.Now()
	for i := range cmds {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), env...)
		cmd.Stdout, cmd.Stderr = io.Discard, &stderr[i]
		if err := cmd.Start(); err != nil {
			return err
		}
		defer cmd.Process.Kill() // where another one failed
		cmds[i] = cmd
	}
	var used leasts
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("%s: %w\n%s", args, err, bytes.TrimSpace(stderr[i].Bytes()))
		}
		used.cpu += (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()) / time.Duration(n)
		if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			used.memory += r.Maxrss << 10 / int64(n)
		}
	}
	best.wall = min(best.wall, time.Since(start))
	best.cpu = min(best.cpu, used.cpu)
	best.memory = min(best.memory, used.memory)
	return nil
}

// cpuSeconds returns the CPU time of this process.
func cpuSeconds() float64 { return clock(unix.CLOCK_PROCESS_CPUTIME_ID).Seconds() }

// threadTime returns the CPU time of the calling thread, to which the goroutine
// must be locked.
func threadTime() time.Duration { return clock(unix.CLOCK_THREAD_CPUTIME_ID) }

// clock reads a clock of CPU time. What getrusage reports of a running thread is
// as of its last tick.
func clock(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		panic(err) // it has no way to fail
	}
	return time.Duration(t.Nano())
}
