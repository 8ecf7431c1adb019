// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package outfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// Lock waits until no other program has locked the directory at path, and locks it until
// unlock is called or the program ends. A file system without locks locks nothing.
func Lock(path string) (unlock func(), err error) {
	d, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(d.Fd()), unix.LOCK_EX)
		if err != unix.EINTR {
			break
		}
	}
	return func() { d.Close() }, nil
}
