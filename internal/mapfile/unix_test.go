// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package mapfile

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestFIFO: Open reads one, OpenRegular does not wait for it.
func TestFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenRegular(path); !errors.Is(err, ErrNotRegular) {
		t.Errorf("%v", err)
	}
	go os.WriteFile(path, []byte("through"), 0)
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if string(f.Data) != "through" || f.Mapped() || f.Check(false) != nil {
		t.Errorf("%q, mapped %v, check %v", f.Data, f.Mapped(), f.Check(false))
	}
}
