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

// protect keeps the inputs from the outputs, of which standard output is one.
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

// reserve refuses outputs that would overwrite an input or one another, before
// there has been any work for them. Empty paths and "-" are left out.
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

// writeFile lets write fill the file at path, "-" being standard output. A file
// that cannot be written whole is not written. Errors are of the output.
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
