// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build !unix

package outfile

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// Trusted returns an error unless only the caller and the system can write to the
// file at path, or put another one in its place. Here that is so in the user's cache
// directory; of other places it is not known.
func Trusted(path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return err
	}
	if !within(path, cache) {
		return fmt.Errorf("who can write to %s is not known", path)
	}
	return nil
}

// Owned returns an error unless a file is the caller's or the system's, and nobody
// else can write to it. Here that is not known of a file alone.
func Owned(fs.FileInfo) error { return nil }

// OwnedLike returns an error unless the file at path is the caller's, the system's, or of the
// owner of the file or directory at like. Here that is not known.
func OwnedLike(path, like string) error { return nil }

// CanCreate reports whether the caller may create files in a directory.
func CanCreate(string) bool { return true }
