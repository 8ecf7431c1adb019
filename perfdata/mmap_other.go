// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package perfdata

import (
	"io"
	"os"
)

// mapFile opens a file: its contents, and what releases them. Files are not
// mapped here, but read.
func mapFile(name string) (data []byte, release func() error, file *os.File, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, nil, nil, err
	}
	defer f.Close()
	data, err = io.ReadAll(f)
	return data, nothing, nil, err
}

// unload is for mapped files.
func unload([]byte) {}
