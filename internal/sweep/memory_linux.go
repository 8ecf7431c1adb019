// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"syscall"
)

// memoryOf returns the most memory that a process had that has ended, in bytes.
func memoryOf(p *os.ProcessState) int64 {
	return p.SysUsage().(*syscall.Rusage).Maxrss << 10
}
