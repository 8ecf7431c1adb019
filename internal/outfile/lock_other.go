// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package outfile

// Lock does nothing: see lock_unix.go.
func Lock(path string) (unlock func(), err error) { return func() {}, nil }

// Enter does nothing: see lock_unix.go.
func Enter(path string) (leave func(alone func()), err error) { return func(func()) {}, nil }
