// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package outfile

import (
	"io/fs"
	"os"
)

// deadly are the signals by which a user or the system ends a program.
var deadly = []os.Signal{os.Interrupt}

// untidy are those of deadly that end a Go program with exit code 2, if they are not asked for.
var untidy = deadly

// die ends the program, as a shell reports the death by an interrupt.
func die(os.Signal) { os.Exit(130) }

// linksOf returns 1: how many names a file has is not known here.
func linksOf(fs.FileInfo) uint64 { return 1 }

// groupOf returns the group of a file: here files have none.
func groupOf(fs.FileInfo) (gid int, ok bool) { return 0, false }
