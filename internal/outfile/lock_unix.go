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

// entered are the directories that this program has entered, and not left. It is used with the lock of
// unfinished.
var entered = make(map[*os.File]bool)

// Enter says that this program writes files below the directory at path, until leave is called
// or the program ends. If no other program does, it removes the temporary files that programs
// left there which were killed. If no other program does when leave is called, leave calls alone,
// which may be nil, and removes directories of this program that are empty. So does a signal that ends
// the program. A file system without locks keeps all. The error is one of [fs.ErrNotExist] if another
// program has removed the directory meanwhile.
func Enter(path string) (leave func(alone func()), err error) {
	d, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if flock(d, unix.LOCK_EX|unix.LOCK_NB) == nil {
		removeTemporary(path)
	}
	flock(d, unix.LOCK_SH)
	mine, err := d.Stat()
	if err == nil {
		var is fs.FileInfo
		if is, err = os.Stat(path); err == nil && !os.SameFile(mine, is) {
			err = &fs.PathError{Op: "open", Path: path, Err: fs.ErrNotExist}
		}
	}
	if err != nil {
		d.Close()
		return nil, err
	}
	unfinished.Lock()
	defer unfinished.Unlock()
	entered[d] = true
	return func(alone func()) {
		if isAlone(d) {
			if alone != nil {
				alone()
			}
			unfinished.Lock()
			removeEmpty()
			unfinished.Unlock()
		}
		unfinished.Lock()
		defer unfinished.Unlock()
		delete(entered, d)
		d.Close()
	}, nil
}

// isAlone reports whether no other program has entered the directory that is open as d. Otherwise that one may be
// about to write there.
func isAlone(d *os.File) bool { return flock(d, unix.LOCK_EX|unix.LOCK_NB) == nil }

// areAlone reports whether no other program has entered a directory that this program has. It is called with
// the lock of unfinished.
func areAlone() bool {
	for d := range entered {
		if !isAlone(d) {
			return false
		}
	}
	return true
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
