// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Textreplay answers which bytes of Linux kernel text were at an address at a
// time, from recordings of perf.
//
//	textreplay at do_sys_openat2+7 12.345678901
//
// Run "textreplay help" for its commands. Text output is for people and may
// improve; --json and the exit codes are for scripts and only grow.
package main

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/textreplay/textreplay/internal/outfile"
)

func main() {
	// A reader that closes the pipe is an error of the output (exit code 4),
	// not a fatal signal.
	signal.Ignore(syscall.SIGPIPE)
	outfile.RemoveOnSignals()
	// The inputs stay mapped. To unmap them takes longer than to end with them: it waits until the other CPUs
	// have noticed.
	code, _ := perform(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	os.Exit(code)
}
