// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
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

// writeFile calls write to fill the file at path; "-" is standard output. The
// file appears only if it is complete. Errors have the exit code of an output
// that cannot be written.
func (a *app) writeFile(path string, write func(w io.Writer) error) error {
	if path == "-" {
		return outputError(write(a.out))
	}
	return outputError(a.outputs.WriteFile(path, func(w io.Writer) error {
		err := write(w)
		if changed := a.unchanged(); changed != nil {
			return changed
		}
		return err
	}))
}
