// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// runForMemory runs a program and returns the most memory that it had, in bytes. The kernel
// counts what its parent had in the usage of a process that has ended (setmax_mm_hiwater_rss()
// in fs/exec.c), so this asks while it runs.
func runForMemory(cmd *exec.Cmd) (most int64, err error) {
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	status := fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)
	for {
		select {
		case err := <-ended:
			return most, err
		case <-time.After(5 * time.Millisecond):
		}
		text, _ := os.ReadFile(status)
		var kb int64
		if _, after, ok := bytes.Cut(text, []byte("VmHWM:")); ok {
			fmt.Sscan(string(after), &kb)
			most = max(most, kb<<10)
		}
	}
}
