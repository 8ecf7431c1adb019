// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/textreplay/textreplay/internal/mapfile"
	"github.com/textreplay/textreplay/internal/pathname"
)

// Snapshot is a kcore_dir. A file that the directory does not hold is a nil
// field. The fields may be read from many goroutines at once.
type Snapshot struct {
	Core     *Core     // kcore
	Kallsyms *Kallsyms // kallsyms
	Modules  []Module  // modules, in file order; empty but not nil if none was loaded

	dir  string                 // "" of one that was not opened
	stat map[string]fs.FileInfo // of the files, as of when they were opened
	bad  []error                // errors in files that are partly usable or were left out
}

// Open opens the kcore_dir at dir: it maps dir/kcore and reads dir/modules. It opens
// dir/kallsyms, which is read when the first symbol is asked for.
//
// A file that does not exist is left out; if none of the three exists the error
// wraps [fs.ErrNotExist]. A file that exists but cannot be used at all is an
// error, a *[FormatError] or an *[fs.PathError]. A file that is partly usable
// is used, and Warnings has its errors.
func Open(dir string) (*Snapshot, error) { return open(dir, false) }

// OpenUsable is [Open] for a kcore_dir that may be damaged: it also leaves out
// a file whose format is wrong, and Warnings has the error.
func OpenUsable(dir string) (*Snapshot, error) { return open(dir, true) }

func open(dir string, usable bool) (*Snapshot, error) {
	dir = pathname.Plain(dir)
	s := &Snapshot{dir: dir, stat: make(map[string]fs.FileInfo)}
	// without reports whether the file of this error is left out.
	without := func(err error) bool {
		var fe *FormatError
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return true
		case usable && errors.As(err, &fe):
			s.bad = append(s.bad, fmt.Errorf("%w: the file is left out", err))
			return true
		}
		return false
	}

	path := filepath.Join(dir, "kcore")
	if info, err := os.Stat(path); err == nil {
		s.stat["kcore"] = info // if it cannot be opened
	}
	core, err := OpenCore(path)
	switch {
	case err == nil:
		s.stat["kcore"] = core.file.Info()
		s.Core = core
	case !without(err):
		return nil, err
	}

	path = filepath.Join(dir, "kallsyms")
	var info fs.FileInfo
	if s.Kallsyms, info, err = openSymbols(path); info != nil {
		s.stat["kallsyms"] = info
	}
	if err != nil && !without(inFile(err, path)) {
		s.Close()
		return nil, inFile(err, path)
	}

	path = filepath.Join(dir, "modules")
	text, info, err := readFile(path)
	switch {
	case err == nil:
		s.stat["modules"] = info
		if s.Modules, err = ParseModules(text); err != nil {
			s.bad = append(s.bad, inFile(err, path))
		}
	case !without(err):
		s.Close()
		return nil, err
	}

	if len(s.stat) == 0 {
		return nil, fmt.Errorf("%s: no kcore, kallsyms or modules: %w", dir, fs.ErrNotExist)
	}
	return s, nil
}

// readFile reads a regular file, and returns what stat says of it. Other files are an
// error: reading a FIFO that has no writer would never end.
func readFile(path string) ([]byte, fs.FileInfo, error) {
	f, info, err := mapfile.Regular(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	text, err := readAll(f, info)
	return text, info, err
}

// Dir returns the directory that was opened, "" if none was.
func (s *Snapshot) Dir() string { return s.dir }

// FileInfo returns what stat said of the file kcore, kallsyms or modules when it was
// opened, nil if it does not exist.
func (s *Snapshot) FileInfo(name string) fs.FileInfo { return s.stat[name] }

// Warnings returns the errors in files that are partly usable or were left out.
// It parses kallsyms to find them.
func (s *Snapshot) Warnings() (out []error) {
	if s.Core != nil {
		out = append(out, s.Core.Warnings()...)
	}
	if s.Kallsyms != nil {
		for _, w := range s.Kallsyms.Warnings() {
			out = append(out, inFile(w, filepath.Join(s.dir, "kallsyms")))
		}
	}
	return append(out, s.bad...)
}

// Check returns the error of [Core.Check] or of [Kallsyms.Check]. The list of modules was read
// by Open.
func (s *Snapshot) Check() error {
	if s.Core != nil {
		if err := s.Core.Check(); err != nil {
			return err
		}
	}
	if s.Kallsyms != nil {
		return s.Kallsyms.Check()
	}
	return nil
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
