// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package outfile

import (
	"errors"
	"io/fs"
	"os"
)

// Lock does nothing: see lock_unix.go.
func Lock(path string) (unlock func(), err error) { return func() {}, nil }

// Enter does nothing: see lock_unix.go.
func Enter(path string) (leave func(alone func()), err error) { return func(func()) {}, nil }

// areAlone reports true: see lock_unix.go.
func areAlone() bool { return true }

// LockFile makes the file at path if it is not there, and locks nothing: see lock_unix.go.
func LockFile(path string) (unlock func(), made bool, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return func() {}, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	return func() {}, true, f.Close()
}
