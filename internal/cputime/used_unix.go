// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package cputime

import (
	"syscall"
	"time"
)

// used returns the CPU time that the process has used so far.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are right, and nothing else can be wrong
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
