// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/textreplay/textreplay/internal/outfile"
)

// inputs returns the files and directories that the global flags name.
func (a *app) inputs() []string {
	var in []string
	for _, name := range slices.Concat([]string{a.kallsyms, a.modules, a.vmlinux, a.windows, a.formats}, a.counters, a.kcore) {
		if name != "" {
			in = append(in, name)
		}
	}
	for _, c := range a.copies {
		in = append(in, c.KCore)
	}
	if a.input != "-" {
		in = append(in, a.input)
	}
	return in
}

// protect makes sure that no output, including standard output, overwrites an
// input.
func (a *app) protect(stdout io.Writer) error {
	for _, f := range []any{stdout, a.stderr} {
		if f, ok := f.(*os.File); ok {
			a.outputs.Std = append(a.outputs.Std, f)
		}
	}
	a.stdout, _ = stdout.(*os.File)
	in := a.inputs()
	if a.input == "-" {
		in = append(in, "-")
	}
	return a.reads(in...)
}

// reads names inputs, "-" for standard input. It refuses outputs that are one of them,
// and a standard output that is appended to one.
func (a *app) reads(paths ...string) error {
	for _, path := range paths {
		if path != "-" {
			a.outputs.Reads(path)
			if dir, file := filepath.Split(path); file == "data" {
				a.outputs.Spares(filepath.Join(dir, "kcore_dir")) // it is part of the same recording
			}
		} else if f, ok := a.stdin.(*os.File); ok {
			a.outputs.ReadsFile(f)
		}
	}
	if err := a.outputs.Recheck(); err != nil {
		return outputError(err)
	}
	return a.reserveStdout(&a.outputs)
}

// reserveStdout refuses a standard output that is appended to an input. If standard error is,
// nothing can be said about it.
func (a *app) reserveStdout(o *outfile.Outputs) error {
	if f, ok := a.stderr.(*os.File); ok && o.ReserveStream(f) != nil {
		return &exitError{code: exitUsage}
	}
	if a.stdout == nil {
		return nil
	}
	return outputError(o.ReserveStream(a.stdout))
}

// reserve refuses outputs that would overwrite an input or each other, before
// any work is done. It ignores empty paths and "-".
func (a *app) reserve(paths ...string) error {
	for _, path := range paths {
		if path != "" && path != "-" {
			if err := a.outputs.Reserve(path); err != nil {
				return outputError(err)
			}
		}
	}
	return nil
}

// A pendingOutput is a file, or a directory, that is being written.
type pendingOutput interface {
	Commit() error
	Discard()
}

// create begins to write the file at path, and calls write with it. If there is no error, the
// caller must discard the file or commit it.
func (a *app) create(path string, write func(w io.Writer) error) (out pendingOutput, err error) {
	f, err := a.outputs.Create(path)
	if err != nil {
		return nil, outputError(err)
	}
	defer func() {
		if out == nil { // also if an input was cut short, which ends write: see replay.Guard
			f.Discard()
		}
	}()
	w := bufio.NewWriterSize(f, 1<<18)
	if err = write(w); err == nil {
		err = w.Flush()
	}
	if err == nil {
		return f, nil
	}
	if changed := a.unchanged(); changed != nil {
		err = changed
	}
	return nil, outputError(err)
}

// commit completes all that a run writes, unless an input has changed since it was opened. After
// this, no change of an input concerns the run: nothing more may be read.
func (a *app) commit(outs ...pendingOutput) error {
	if err := a.unchanged(); err != nil {
		return err
	}
	for _, out := range outs {
		if err := out.Commit(); err != nil {
			return outputError(err)
		}
	}
	a.complete = true
	return nil
}

// writeFile writes the only output of a run to the file at path, or to standard output if it is -.
// If an input changed meanwhile, it returns an error, and the file is as it was before.
func (a *app) writeFile(path string, write func(w io.Writer) error) error {
	if path == "-" {
		a.pager.raw = true
		return outputError(write(a.out))
	}
	f, err := a.create(path, write)
	if err != nil {
		return err
	}
	defer f.Discard()
	return a.commit(f)
}
