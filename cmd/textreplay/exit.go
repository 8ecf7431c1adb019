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

// An exitError is an error with its exit code.
type exitError struct {
	code int
	err  error // nil if everything has been printed
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// errBelow ends a command with exit code 1 and no message.
var errBelow = &exitError{code: exitBelow}

// belowf ends a command with exit code 1 and a message.
func belowf(format string, args ...any) error {
	return &exitError{exitBelow, fmt.Errorf(format, args...)}
}

// usagef is an error in how a command was called.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// inputError gives err the exit code of an input that cannot be read.
func inputError(err error) error {
	var question *replay.QuestionError
	if errors.As(err, &question) {
		return err // a bad TIME in --kcore DIR@TIME
	}
	if err == nil {
		return nil
	}
	return &exitError{exitInput, err}
}

// outputError gives err the exit code of an output that cannot be written. If
// the output would overwrite an input, it is an error of usage instead.
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

// exitCode returns the exit code for err. An error without one comes from the
// command framework, which rejected the command line.
func exitCode(err error) int {
	var exit *exitError
	var question *replay.QuestionError
	var changed *replay.ChangedError
	switch {
	case err == nil:
		return exitAnswered
	case errors.As(err, &changed): // no matter which step found it
		return exitInput
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &question):
		return exitUsage
	}
	return exitUsage
}

// namesFault reports whether a usage error is about a file or a name and needs
// no usage line.
func namesFault(err error) bool {
	var question *replay.QuestionError
	var guest *replay.UnknownGuestError
	var refused *outfile.RefusedError
	var notIndex *replay.NotIndexError
	var cpus *replay.CPUsError
	return errors.As(err, &cpus) || errors.As(err, &question) || errors.As(err, &guest) || errors.As(err, &refused) || errors.As(err, &notIndex)
}

// message returns the text of err, with the flag or the help topic that answers it.
func message(err error) string {
	switch {
	case errors.Is(err, replay.ErrNoKallsyms):
		return err.Error() + " (--kallsyms names a file)"
	case errors.Is(err, replay.ErrNotTime):
		return err.Error() + " (see textreplay help times)"
	}
	return err.Error()
}

// silent reports whether err needs no message: it was printed already, or the
// reader of the output closed its pipe, as head does.
func silent(err error) bool {
	var exit *exitError
	return errors.As(err, &exit) && (exit.err == nil || exit.code == exitOutput && errors.Is(exit.err, syscall.EPIPE))
}
