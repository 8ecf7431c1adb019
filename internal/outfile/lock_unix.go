// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package outfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Lock waits until no other program has locked the directory at path, and locks it until
// unlock is called or the program ends. A file system without locks locks nothing.
func Lock(path string) (unlock func(), err error) {
	d, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	flock(d, unix.LOCK_EX)
	return func() { d.Close() }, nil
}

// LockFile is [Lock] of the file at path, which it makes if it is not there; made says so. The program
// that has locked the file may remove it: then LockFile makes another one. A file that this program may
// not open is not locked.
func LockFile(path string) (unlock func(), made bool, err error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		made := err == nil
		if errors.Is(err, fs.ErrExist) {
			f, err = os.OpenFile(path, os.O_RDWR, 0) // file systems of a network lock no others
			if errors.Is(err, fs.ErrPermission) {
				f, err = os.Open(path)
			}
			if errors.Is(err, fs.ErrPermission) {
				return func() {}, false, nil
			}
		}
		if errors.Is(err, fs.ErrNotExist) && !made {
			if _, err := os.Stat(filepath.Dir(path)); err != nil {
				return nil, false, err
			}
			if _, err := os.Lstat(path); err == nil {
				return func() {}, false, nil // a symbolic link that leads nowhere
			}
			continue // it was removed
		}
		if err != nil {
			return nil, false, err
		}
		if flock(f, unix.LOCK_EX) != nil {
			return func() { f.Close() }, made, nil
		}
		mine, err := f.Stat()
		is, gone := os.Stat(path)
		if err == nil && gone == nil && os.SameFile(mine, is) {
			return func() { f.Close() }, made, nil
		}
		f.Close()
		if err != nil || gone != nil && !errors.Is(gone, fs.ErrNotExist) {
			return nil, false, errors.Join(err, gone)
		}
	}
}

// flock locks an open directory or file, until it is closed.
func flock(d *os.File, how int) error {
	for {
		if err := unix.Flock(int(d.Fd()), how); err != unix.EINTR {
			return err
		}
	}
}

// Enter says that this program writes files below the directory at path, until leave is called
// or the program ends. If no other program does, it removes the temporary files that programs
// left there which were killed. If no other program does when leave is called, leave calls alone,
// which may be nil, and removes directories of this program that are empty. A file system without
// locks keeps all.
func Enter(path string) (leave func(alone func()), err error) {
	d, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if flock(d, unix.LOCK_EX|unix.LOCK_NB) == nil {
		removeTemporary(path)
	}
	flock(d, unix.LOCK_SH)
	return func(alone func()) {
		if flock(d, unix.LOCK_EX|unix.LOCK_NB) == nil { // else another program may be about to write there
			if alone != nil {
				alone()
			}
			unfinished.Lock()
			removeEmpty()
			unfinished.Unlock()
		}
		d.Close()
	}, nil
}

// removeTemporary removes the temporary files below a directory. What cannot be removed stays:
// another user's program may have left it.
func removeTemporary(dir string) {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real // WalkDir does not follow dir itself
	}
	filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && IsTemporary(e.Name()) {
			os.Remove(path)
		}
		return nil
	})
}
