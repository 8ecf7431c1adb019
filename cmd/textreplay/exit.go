// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"syscall"

	"github.com/textreplay/textreplay/internal/outfile"
	"github.com/textreplay/textreplay/timeline/replay"
)

// The exit codes, a contract with scripts.
const (
	exitAnswered = 0
	exitBelow    = 1 // answered, but some byte is below what was required, or a comparison found a difference
	exitUsage    = 2 // also an ambiguous or unknown name, or a time that cannot be converted
	exitInput    = 3 // the input cannot be read
	exitOutput   = 4 // the output cannot be written
)

// An exitError is an error with the exit code that it leads to.
type exitError struct {
	code int
	err  error // nil: all has been said already
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// errBelow ends a command with exit code 1 and no further message.
var errBelow = &exitError{code: exitBelow}

// belowf ends a command with exit code 1 and a message.
func belowf(format string, args ...any) error {
	return &exitError{exitBelow, fmt.Errorf(format, args...)}
}

// usagef is an error in how a command was called.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// inputError makes err one of the input.
func inputError(err error) error {
	var question *replay.QuestionError
	if errors.As(err, &question) {
		return err // the time of a copy, as --kcore gives it
	}
	if err == nil {
		return nil
	}
	return &exitError{exitInput, err}
}

// outputError makes err one of the output, unless it says that the output would
// overwrite an input, which is an error in how the command was called.
func outputError(err error) error {
	var refused *outfile.RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused):
		return &exitError{exitUsage, err}
	}
	return &exitError{exitOutput, err}
}

// exitCode returns the exit code for err. What has none of its own comes from
// the command framework, which found the command line wrong.
func exitCode(err error) int {
	var exit *exitError
	var question *replay.QuestionError
	var changed *replay.ChangedError
	switch {
	case err == nil:
		return exitAnswered
	case errors.As(err, &changed): // wherever it came to light
		return exitInput
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &question):
		return exitUsage
	}
	return exitUsage
}

// namesFault reports whether an error in how the command was called says all about
// it: of a file or a name, not of the form of the call.
func namesFault(err error) bool {
	var question *replay.QuestionError
	var guest *replay.UnknownGuestError
	var refused *outfile.RefusedError
	var notIndex *replay.NotIndexError
	return errors.As(err, &question) || errors.As(err, &guest) || errors.As(err, &refused) || errors.As(err, &notIndex)
}

// silent reports whether err needs no message: it has been told already, or
// the reader of the output went away, as head does.
func silent(err error) bool {
	var exit *exitError
	return errors.As(err, &exit) && (exit.err == nil || exit.code == exitOutput && errors.Is(exit.err, syscall.EPIPE))
}
