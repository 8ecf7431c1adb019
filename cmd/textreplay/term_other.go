// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package main

import (
	"io"
	"os"
)

// isTerminal reports whether w writes to a terminal, or to another device.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	fi, err := f.Stat()
	return err == nil && fi.Mode()&os.ModeCharDevice != 0
}
