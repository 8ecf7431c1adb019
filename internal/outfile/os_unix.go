// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package outfile

import (
	"io/fs"
	"os"
	"os/signal"
	"syscall"
)

// deadly are the signals by which a user or the system ends a program.
var deadly = []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM}

// untidy are those of deadly that make the Go runtime print a trace of all goroutines and end
// the program with exit code 2, if they are not asked for.
var untidy = []os.Signal{syscall.SIGQUIT}

// die ends the program by s, so that whoever waits for it sees that.
func die(s os.Signal) {
	signal.Reset(s)
	toDefault(s.(syscall.Signal))
	syscall.Kill(os.Getpid(), s.(syscall.Signal))
	select {}
}

// linksOf returns how many names a file has.
func linksOf(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink)
	}
	return 1
}

// groupOf returns the group of a file.
func groupOf(info fs.FileInfo) (gid int, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Gid), true
}
