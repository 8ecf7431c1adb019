// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"io"
	"os"
)

// writeFile lets write fill the file at path, "-" being standard output. What
// cannot be written whole is taken away again. Errors are of the output.
func (a *app) writeFile(path string, write func(w io.Writer) error) error {
	if path == "-" {
		return outputError(write(a.out))
	}
	f, err := os.Create(path)
	if err != nil {
		return outputError(err)
	}
	w := bufio.NewWriterSize(f, 1<<18)
	err = write(w)
	if e := w.Flush(); err == nil {
		err = e
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		if fi, e := os.Lstat(path); e == nil && fi.Mode().IsRegular() {
			os.Remove(path)
		}
	}
	return outputError(err)
}
