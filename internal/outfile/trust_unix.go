// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package outfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/internal/pathname"
)

// Trusted returns an error unless only the caller and root can write to the file at
// path, or put another one in its place. The file must be a regular one, not a link
// to one, or not exist. The owner of each directory above it must be the caller or
// root; others may write to a directory only if it is sticky, as /tmp is.
func Trusted(path string) error {
	path, err := filepath.Abs(pathname.Plain(path))
	if err != nil {
		return err
	}
	info, err := os.Lstat(path)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file", path)
	case err == nil:
		if err := Owned(info); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	dir, _ := existing(filepath.Dir(path))
	for {
		info, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		if err := owned(info, info.Mode()&fs.ModeSticky != 0); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
		dir = filepath.Dir(dir)
	}
}

// Owned returns an error unless a file is the caller's or root's, and nobody else can
// write to it.
func Owned(info fs.FileInfo) error { return owned(info, false) }

func owned(info fs.FileInfo, shared bool) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return errors.New("its owner is not known")
	case st.Uid != 0 && int64(st.Uid) != int64(os.Geteuid()):
		return fmt.Errorf("it belongs to another user (%d)", st.Uid)
	case info.Mode()&0o022 != 0 && !shared:
		return errors.New("others than its owner can write to it")
	}
	return nil
}

// OwnedLike returns an error unless the file at path is the caller's, root's, or of the owner
// of the file or directory at like. A symbolic link must be too: it may lead to a file of
// root's that means something else.
func OwnedLike(path, like string) error {
	as, err := os.Stat(like)
	if err != nil {
		return err
	}
	for _, stat := range []func(string) (fs.FileInfo, error){os.Lstat, os.Stat} {
		info, err := stat(path)
		if err != nil {
			return err
		}
		if err := ownedLike(info, as); err != nil {
			return err
		}
	}
	return nil
}

func ownedLike(info, as fs.FileInfo) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	of, like := as.Sys().(*syscall.Stat_t)
	if !ok || !like || st.Uid != 0 && int64(st.Uid) != int64(os.Geteuid()) && st.Uid != of.Uid {
		return errors.New("it belongs to another user than the recording")
	}
	return nil
}

// CanCreate reports whether the caller may create files in a directory.
func CanCreate(dir string) bool {
	return unix.Faccessat(unix.AT_FDCWD, dir, unix.W_OK|unix.X_OK, unix.AT_EACCESS) == nil
}
