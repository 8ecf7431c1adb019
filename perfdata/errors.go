// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The reasons that a [FormatError] wraps; test for them with [errors.Is].
var (
	// ErrTruncated: the file ends before what it announces.
	ErrTruncated = errors.New("truncated")
	// ErrBadMagic: the file does not begin as a perf.data file does.
	ErrBadMagic = errors.New("not a perf.data file")
	// ErrUnsupported: well-formed, but of a kind that this package cannot read.
	ErrUnsupported = errors.New("unsupported")
	// ErrNoFeature: the recording has no such feature section.
	ErrNoFeature = errors.New("no such feature section")
	// ErrMalformed: the bytes contradict themselves or the format.
	ErrMalformed = errors.New("malformed")
	// ErrEventsDiffer: the recording describes its events twice, in the attrs and in EVENT_DESC, and
	// not in the same way. It wraps ErrMalformed.
	ErrEventsDiffer error = eventsDiffer{}
	// ErrNothing: the recording has records, or is to have some, and none can be read.
	ErrNothing = errors.New("no record can be read")
)

type eventsDiffer struct{}

func (eventsDiffer) Error() string { return ErrMalformed.Error() }
func (eventsDiffer) Unwrap() error { return ErrMalformed }

// A FormatError says what is wrong with a recording, and where.
type FormatError struct {
	File   string     // name of the data file, "" for a recording held in memory
	Offset int64      // byte offset in that file
	Record RecordType // type of the record that is damaged, 0 if it is not about a record
	Msg    string     // what was expected or found
	Err    error      // one of the Err values of this package, or an error of a decoder below
}

func (e *FormatError) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File)
		b.WriteString(": ")
	}
	b.WriteString("offset ")
	b.WriteString(strconv.FormatInt(e.Offset, 10))
	if e.Record != 0 {
		b.WriteString(": ")
		b.WriteString(e.Record.String())
	}
	if e.Err != nil {
		b.WriteString(": ")
		b.WriteString(e.Err.Error())
	}
	if e.Msg != "" {
		b.WriteString(": ")
		b.WriteString(e.Msg)
	}
	return b.String()
}

// Unwrap returns e.Err.
func (e *FormatError) Unwrap() error { return e.Err }

// recordErr makes the error for a record whose framing is intact but whose content is not.
func (r *Recording) recordErr(rec *Record, format string, args ...any) error {
	return &FormatError{File: r.fileName(rec.File), Offset: rec.Offset, Record: rec.Type, Msg: fmt.Sprintf(format, args...), Err: ErrMalformed}
}

// notA is recordErr for a decoder that was handed a record of another type, or
// one too short.
func (r *Recording) notA(rec *Record, want RecordType, format string, args ...any) error {
	if rec.Type != want && (want != RecordMMAP || rec.Type != RecordMMAP2) && (want != RecordFork || rec.Type != RecordExit) {
		return r.recordErr(rec, "decoded as %v", want)
	}
	return r.recordErr(rec, format, args...)
}
