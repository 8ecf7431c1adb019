// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package outfile

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/textreplay/textreplay/internal/pathname"
)

// A Dir is a directory that is being written: a new one, which appears with all
// its files when it is complete, or one that exists, whose files are replaced
// when all of the new ones are complete. It is for one goroutine.
type Dir struct {
	out  *Outputs
	name string // as the caller named it, for errors
	// Of a new directory, temp becomes path: it, or the first directory above it
	// that is new too. Files are written to work.
	temp, path, work string
	files            []*File // of a directory that exists
	done             bool
}

// Dir begins to write files into the directory at path. If it does not exist it is
// made, with the directories above it.
func (o *Outputs) Dir(path string) (*Dir, error) {
	t, err := o.target(path)
	switch {
	case err != nil:
		return nil, err
	case t.info == nil:
		return o.newDir(&t)
	case !t.info.IsDir():
		return nil, &fs.PathError{Op: "mkdir", Path: path, Err: fs.ErrExist}
	}
	return &Dir{out: o, name: pathname.Plain(path)}, nil
}

// NewDir is Dir for a directory that must not exist: otherwise the error is one of
// [fs.ErrExist].
func (o *Outputs) NewDir(path string) (*Dir, error) {
	t, err := o.target(path)
	if err != nil {
		return nil, err
	}
	if t.info != nil {
		return nil, &fs.PathError{Op: "mkdir", Path: path, Err: fs.ErrExist}
	}
	return o.newDir(&t)
}

func (o *Outputs) newDir(t *target) (*Dir, error) {
	parent, missing := existing(t.path)
	top, below, _ := strings.Cut(missing, string(filepath.Separator))
	d := &Dir{out: o, name: t.name, path: filepath.Join(parent, top)}
	temp, err := temporary(parent, d.mkdir)
	if err != nil {
		return nil, named(err, d.name)
	}
	d.temp, d.work = temp, filepath.Join(temp, below)
	if err := d.mkdirAll(d.work); err != nil {
		d.Discard()
		return nil, named(err, d.name)
	}
	return d, nil
}

// mkdir makes a directory of d.
func (d *Dir) mkdir(path string) error {
	into := filepath.Dir(d.path)
	if err := os.Mkdir(path, 0o777&searchable(d.out.allowed(into, os.Getegid()))); err != nil {
		return err
	}
	return d.out.restrict(path, into)
}

// mkdirAll makes a directory inside of d.temp, with those above it.
func (d *Dir) mkdirAll(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if err := d.mkdirAll(filepath.Dir(path)); err != nil {
		return err
	}
	return d.mkdir(path)
}

// Path returns the temporary directory that has the files until Commit. A
// caller can check the files there.
func (d *Dir) Path() string { return d.work }

// Create begins to write a file of d. Its name may have directories in it, if d is
// new. Commit of the File stores it, and Commit of d gives it its name. Errors name the
// file as it will be called.
func (d *Dir) Create(name string) (*File, error) {
	if d.temp == "" {
		f, err := d.out.Create(filepath.Join(d.name, name))
		if err == nil {
			f.held = true
			d.files = append(d.files, f)
		}
		return f, err
	}
	path := filepath.Join(d.work, name)
	f := &File{name: filepath.Join(d.name, name), temp: path, out: d.out, held: true}
	err := making(func() (err error) {
		if err = d.mkdirAll(filepath.Dir(path)); err == nil {
			f.f, err = d.out.open(path, filepath.Dir(d.path), 0o666)
		}
		return err
	})
	return f, named(err, f.name)
}

// WriteFile writes a file of d.
func (d *Dir) WriteFile(name string, fill func(w io.Writer) error) error {
	f, err := d.Create(name)
	if err != nil {
		return err
	}
	return f.write(fill)
}

// Commit renames a new directory, or the files in an existing one. All files
// must be committed before. If it fails, a new directory does not appear; in an
// existing one, some files may have been replaced.
func (d *Dir) Commit() error {
	d.done = true
	if d.temp == "" {
		return named(renamed(d.files...), d.name)
	}
	if !d.out.Unsynced {
		syncDir(d.work)
	}
	f := &File{temp: d.temp, path: d.path, out: d.out}
	err := renamed(f)
	if err != nil {
		f.drop()
	}
	return named(err, d.name)
}

// Discard removes what was written, unless it was committed.
func (d *Dir) Discard() {
	if d.done {
		return
	}
	d.done = true
	for _, f := range d.files {
		f.Discard()
		f.drop()
	}
	if d.temp != "" {
		removed(d.temp)
	}
}
