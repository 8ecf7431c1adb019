// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import "fmt"

// FormatError says what is wrong with the format of a file, and where.
type FormatError struct {
	File string // path of the file, or "kcore", "kallsyms", "modules" if it was parsed from memory
	Off  int64  // offset from the file's start, in bytes
	Line int    // line, counted from 1; 0 in a binary file
	Msg  string // what was expected there, or found
}

func (e *FormatError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s:%d: %s (offset %#x)", e.File, e.Line, e.Msg, e.Off)
	}
	return fmt.Sprintf("%s: %s at offset %#x", e.File, e.Msg, e.Off)
}

// skipped counts the lines of a text file that could not be used and keeps
// the first of them as the example to show.
type skipped struct {
	first FormatError
	n     int
}

func (s *skipped) add(file string, off, line int, msg string) {
	if s.n == 0 {
		s.first = FormatError{File: file, Off: int64(off), Line: line, Msg: msg}
	}
	s.n++
}

// err returns one error for all skipped lines, nil if there are none.
func (s *skipped) err() error {
	if s.n == 0 {
		return nil
	}
	e := s.first
	if s.n > 1 {
		e.Msg = fmt.Sprintf("%s; %d more lines skipped", e.Msg, s.n-1)
	}
	return &e
}
