// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Snapshot is a kcore_dir. A file that the directory does not hold is a nil
// field. The fields may be read from many goroutines at once.
type Snapshot struct {
	Core     *Core     // kcore
	Kallsyms *Kallsyms // kallsyms
	Modules  []Module  // modules, in file order; empty but not nil if none was loaded

	dir        string // "" of one that was not opened
	badModules error  // what of modules could not be used
}

// Open opens the kcore_dir at dir: it maps dir/kcore and reads dir/kallsyms and
// dir/modules.
//
// A file that does not exist is left out; if none of the three exists the error
// wraps [fs.ErrNotExist]. A file that exists but cannot be used at all is an
// error, a *[FormatError] or an *[fs.PathError]. A file that can be used in
// part is used, and Warnings tells what was wrong with it.
func Open(dir string) (*Snapshot, error) {
	s := &Snapshot{dir: dir}
	found := 0

	path := filepath.Join(dir, "kcore")
	core, err := OpenCore(path)
	switch {
	case err == nil:
		found++
		s.Core = core
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}

	path = filepath.Join(dir, "kallsyms")
	text, err := os.ReadFile(path)
	switch {
	case err == nil:
		found++
		if s.Kallsyms, err = ParseKallsyms(text); err != nil {
			s.Close()
			return nil, inFile(err, path)
		}
	case !errors.Is(err, fs.ErrNotExist):
		s.Close()
		return nil, err
	}

	path = filepath.Join(dir, "modules")
	text, err = os.ReadFile(path)
	switch {
	case err == nil:
		found++
		if s.Modules, err = ParseModules(text); err != nil {
			s.badModules = inFile(err, path)
		}
	case !errors.Is(err, fs.ErrNotExist):
		s.Close()
		return nil, err
	}

	if found == 0 {
		return nil, fmt.Errorf("%s: no kcore, kallsyms or modules: %w", dir, fs.ErrNotExist)
	}
	return s, nil
}

// Warnings returns what was wrong with files that could be used in part. To
// know that of kallsyms it makes its table.
func (s *Snapshot) Warnings() (out []error) {
	if s.Core != nil {
		out = append(out, s.Core.Warnings()...)
	}
	if s.Kallsyms != nil {
		for _, w := range s.Kallsyms.Warnings() {
			out = append(out, inFile(w, filepath.Join(s.dir, "kallsyms")))
		}
	}
	if s.badModules != nil {
		out = append(out, s.badModules)
	}
	return out
}

// Check is [Core.Check]: the other files are not mapped.
func (s *Snapshot) Check() error {
	if s.Core == nil {
		return nil
	}
	return s.Core.Check()
}

// Close unmaps Core. Kallsyms and Modules stay usable. Close may be called
// more than once.
func (s *Snapshot) Close() error {
	if s.Core == nil {
		return nil
	}
	return s.Core.Close()
}

// inFile gives a FormatError the path of the file that it is about.
func inFile(err error, path string) error {
	var fe *FormatError
	if !errors.As(err, &fe) {
		return err
	}
	e := *fe
	e.File = path
	return &e
}
