// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package mapfile

import (
	"io"
	"os"
)

// nonBlocking is 0: opening a FIFO may wait here.
const nonBlocking = 0

// mapped reads the first size bytes of f: files are not mapped here.
func mapped(f *os.File, size int) ([]byte, error) {
	data := make([]byte, size)
	_, err := io.ReadFull(f, data)
	return data, err
}

func unmap([]byte) error { return nil }

func unload([]byte) {}

func split([]byte) {}

func unloadRange(*os.File, []byte, int, int) {}

func sparse([]byte) {}
