// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
)

// inputs returns the files and directories that the global flags name.
func (a *app) inputs() []string {
	var in []string
	for _, name := range append([]string{a.kallsyms, a.modules, a.vmlinux, a.windows}, a.kcore...) {
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
	for _, name := range a.inputs() {
		a.outputs.Reads(name)
	}
	if f, ok := a.stdin.(*os.File); ok && a.input == "-" {
		a.outputs.ReadsFile(f)
	}
	if f, ok := stdout.(*os.File); ok {
		return outputError(a.outputs.ReserveStream(f))
	}
	return nil
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
