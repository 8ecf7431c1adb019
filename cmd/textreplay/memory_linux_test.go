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
	most, _, err = watchMemory(cmd)
	return most, err
}

// watchMemory is runForMemory with the most memory of page tables.
func watchMemory(cmd *exec.Cmd) (most, tables int64, err error) {
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			return most, tables, err
		case <-time.After(5 * time.Millisecond):
		}
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		for key, value := range map[string]*int64{"VmHWM:": &most, "VmPTE:": &tables} {
			var kb int64
			if _, after, ok := bytes.Cut(text, []byte(key)); ok {
				fmt.Sscan(string(after), &kb)
				*value = max(*value, kb<<10)
			}
		}
	}
}
