// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package outfile

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
)

// TestLockFile: of those that lock a file, one at a time has it, whether the ones before removed the file or
// were killed.
func TestLockFile(t *testing.T) {
	for _, removes := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "file")
		var holders, made atomic.Int32
		var wg sync.WaitGroup
		for range 16 {
			wg.Go(func() {
				for range 100 {
					unlock, isNew, err := LockFile(path)
					if err != nil {
						t.Error(err)
						return
					}
					if n := holders.Add(1); n != 1 {
						t.Errorf("%d have it", n)
					}
					if isNew {
						made.Add(1)
					}
					if holders.Add(-1); removes {
						os.Remove(path)
					}
					unlock()
				}
			})
		}
		wg.Wait()
		if n := made.Load(); !removes && n != 1 || removes && n < 1 {
			t.Errorf("removed %v: made %d times", removes, n)
		}
	}
	dir := t.TempDir()
	if _, _, err := LockFile(filepath.Join(dir, "none", "file")); err == nil {
		t.Error("a file of a directory that is not there")
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("nowhere", link); err != nil {
		t.Fatal(err)
	}
	if unlock, isNew, err := LockFile(link); isNew || err != nil {
		t.Errorf("a link that leads nowhere: %v, %v", isNew, err)
	} else {
		unlock()
	}
}
