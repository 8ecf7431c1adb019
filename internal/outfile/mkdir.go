// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package outfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/textreplay/textreplay/internal/pathname"
)

// MkdirAll makes a directory for outputs, with those above it that are missing. They are no
// more accessible than the inputs. A directory that is there keeps its mode. The error is a
// [*RefusedError] if the directory would be inside an input. If nothing is written into it, it
// is removed again: by what [Enter] returned, or if a signal ends the program.
func (o *Outputs) MkdirAll(path string) error {
	path = pathname.Plain(path)
	info, err := os.Stat(path)
	if err == nil {
		if !info.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: path, Err: fs.ErrExist}
		}
		return nil
	}
	if _, err := o.target(path); err != nil {
		return err
	}
	parent := filepath.Dir(path)
	if err := o.MkdirAll(parent); err != nil {
		return err
	}
	mode := 0o777 & searchable(o.allowed(parent, os.Getegid()))
	err = making(func() error {
		err := os.Mkdir(path, mode)
		if err == nil {
			unfinished.dirs = append(unfinished.dirs, path)
		}
		return err
	})
	if errors.Is(err, fs.ErrExist) {
		return nil // another program made it meanwhile
	}
	if err != nil {
		return err
	}
	return o.restrict(path, parent)
}
