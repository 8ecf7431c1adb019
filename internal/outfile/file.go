// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package outfile

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// A File is an output that is being written. Commit completes it; Discard, which
// does nothing after Commit, leaves what was there before. It is for one goroutine.
type File struct {
	f    *os.File
	name string // as the caller named it, for errors
	path string // where it goes
	temp string // where it is now, "" if it is written in place
	out  *Outputs
	std  bool // f is not the File's own
	held bool // its Dir gives it its name
	done bool
}

// WriteFile writes the file at path: what fill writes to w. The error is that of fill, or of
// the file. If there is one, nothing has changed, unless the file is written in place.
func (o *Outputs) WriteFile(path string, fill func(w io.Writer) error) error {
	f, err := o.Create(path)
	if err != nil {
		return err
	}
	return f.write(fill)
}

// write writes all of the file.
func (f *File) write(fill func(w io.Writer) error) error {
	defer f.Discard()
	w := bufio.NewWriterSize(f, 1<<18)
	if err := fill(w); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return f.Commit()
}

// Create begins to write the file at path. The error is a [*RefusedError] if it is
// an input or inside one.
func (o *Outputs) Create(path string) (*File, error) {
	t, err := o.target(path)
	if err != nil {
		return nil, err
	}
	if t.info != nil {
		for _, std := range o.Std {
			if info, err := std.Stat(); err == nil && os.SameFile(info, t.info) {
				return &File{f: std, name: path, out: o, std: true}, nil
			}
		}
	}
	if t.inPlace {
		flag := os.O_WRONLY
		if t.info.Mode().IsRegular() {
			flag |= os.O_TRUNC
		}
		f, err := os.OpenFile(path, flag, 0)
		return &File{f: f, name: path, out: o}, err
	}
	if os.IsPathSeparator(path[len(path)-1]) {
		return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
	}
	perm := fs.FileMode(0o666)
	if t.info != nil {
		if err := writable(path); err != nil {
			return nil, err
		}
		perm &= t.info.Mode().Perm() | 0o600
	}
	f := &File{name: path, path: t.path, out: o}
	dir := filepath.Dir(t.path)
	f.temp, err = temporary(dir, func(temp string) (err error) {
		f.f, err = o.open(temp, dir, perm)
		return err
	})
	return f, named(err, path)
}

// writable returns an error if a file is read-only. Replacing the file would
// not need write permission, but a file that its owner made read-only is not
// overwritten.
func writable(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// open creates the file at path, which will be in dir, with perm as far as the inputs allow.
func (o *Outputs) open(path, dir string, perm fs.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm&o.allowed(dir, os.Getegid()))
	if err != nil {
		return nil, err
	}
	if err := o.restrict(path, dir); err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return f, nil
}

// restrict narrows the mode of what was made for dir, if the file system has given
// it another group than the caller's.
func (o *Outputs) restrict(path, dir string) error {
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	gid, ok := groupOf(info)
	if !ok || gid == os.Getegid() {
		return nil
	}
	allowed := o.allowed(dir, gid)
	if info.IsDir() {
		allowed = searchable(allowed)
	}
	return os.Chmod(path, info.Mode().Perm()&allowed)
}

// searchable adds the search bit for each read bit in the permissions of a
// directory.
func searchable(perm fs.FileMode) fs.FileMode { return perm | perm&0o444>>2 }

// named makes an error name the file as the caller does.
func named(err error, name string) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return &fs.PathError{Op: pe.Op, Path: name, Err: pe.Err}
	}
	var le *os.LinkError
	if errors.As(err, &le) {
		return &fs.PathError{Op: le.Op, Path: name, Err: le.Err}
	}
	return err
}

// Write writes at the current place.
func (f *File) Write(b []byte) (int, error) {
	n, err := f.f.Write(b)
	return n, named(err, f.name)
}

// Seek sets the place of the next Write, as [io.Seeker] does. A pipe returns an error.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	n, err := f.f.Seek(offset, whence)
	return n, named(err, f.name)
}

// Sync stores what was written so far. Commit does so as well, and then takes less time.
func (f *File) Sync() error {
	if f.std || f.temp == "" || f.out.Unsynced {
		return nil
	}
	return named(synced(f.f), f.name)
}

// Commit stores the file and gives it its name. If it fails, nothing has
// changed, unless the file is written in place.
func (f *File) Commit() error {
	if f.done {
		return fs.ErrClosed
	}
	f.done = true
	if f.std {
		return nil
	}
	var err error
	if f.temp != "" && !f.out.Unsynced {
		err = synced(f.f)
	}
	err = errors.Join(err, f.f.Close())
	if err == nil && f.temp != "" && !f.held {
		err = renamed(f)
	}
	if err != nil {
		f.drop()
		return named(err, f.name)
	}
	return nil
}

// Discard drops the file, unless it was committed.
func (f *File) Discard() {
	if f.done {
		return
	}
	f.done = true
	if !f.std {
		f.f.Close()
	}
	f.drop()
}

// drop removes the temporary file.
func (f *File) drop() {
	if f.temp != "" {
		removed(f.temp)
	}
}

// synced is fsync, where the file system has it.
func synced(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}

// syncDir makes new names in dir durable. What they name is there in any case, so
// there is no error to report.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		d.Sync()
		d.Close()
	}
}
