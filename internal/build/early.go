// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package build

import (
	"syscall"
	_ "unsafe" // for go:linkname

	"github.com/textreplay/textreplay/internal/prefault"
)

// To initialize what the program is linked from takes longer than all that "textreplay version" does: most of
// it is of packages that other commands need. Go initializes packages in the order of their names, each when
// those that it imports are ready. This one imports so little that its turn comes before package os, and with
// it before nearly all others.

func init() {
	args := arguments()
	if len(args) != 2 || args[1] != "version" {
		prepare(args)
		return
	}
	text := This().Text()
	if n, err := syscall.Write(syscall.Stdout, []byte(text)); n == len(text) && err == nil {
		syscall.Exit(0)
	}
	// The command tries again, and says what is wrong.
}

// prepare maps what the rest of the program is going to use. To initialize its packages takes some hundred page
// faults, and to answer one question a hundred more. The recorder runs for long in little memory.
func prepare(args []string) {
	for _, arg := range args {
		if arg == "record" {
			return
		}
	}
	prefault.Start()
}

// arguments is where package os has os.Args from.
//
//go:linkname arguments os.runtime_args
func arguments() []string
