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
	f, err := Open(path, 4, func([]byte) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if string(f.Data) != "through" || f.Mapped() || f.Check(false) != nil {
		t.Errorf("%q, mapped %v, check %v", f.Data, f.Mapped(), f.Check(false))
	}
}

// TestEndless: nothing waits for the end of what is not of the kind that is wanted.
func TestEndless(t *testing.T) {
	f, err := Open("/dev/zero", 4, func(b []byte) bool { return string(b) == "MAGI" })
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if string(f.Data) != "\x00\x00\x00\x00" {
		t.Errorf("%q", f.Data)
	}
}
