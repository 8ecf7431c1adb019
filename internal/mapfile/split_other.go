// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package mapfile

import "os"

// unloadRange lets go of the pages of a part of a mapping.
func unloadRange(_ *os.File, data []byte, from, to int) {
	page := os.Getpagesize()
	if from, to = from/page*page, to/page*page; from < to {
		unload(data[from:to])
	}
}

func split([]byte) {}
