// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mapfile

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestPopulate: the pages of a part of a file are mapped, from any byte on. What a file no longer has
// changes nothing until it is touched.
func TestPopulate(t *testing.T) {
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, 0, 0, unix.MADV_POPULATE_READ); errno != 0 {
		t.Skip(errno)
	}
	name := filepath.Join(t.TempDir(), "data")
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenRegular(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	page := os.Getpagesize()
	from, to := 3*page+7, 40*page+1
	Populate(f.Data[from:to])
	Populate(nil)
	pagemap, err := os.Open("/proc/self/pagemap")
	if err != nil {
		t.Skip(err)
	}
	defer pagemap.Close()
	entries := make([]byte, 8*len(f.Data)/page)
	if _, err := pagemap.ReadAt(entries, int64(uintptr(unsafe.Pointer(&f.Data[0]))/uintptr(page)*8)); err != nil {
		t.Skip(err)
	}
	for at := from / page; at*page < to; at++ {
		if entries[8*at+7]>>7 == 0 {
			t.Errorf("page %d is not mapped", at)
		}
	}
	if !bytes.Equal(f.Data, content) {
		t.Error("the content is another")
	}
	if err := os.Truncate(name, 8); err != nil {
		t.Fatal(err)
	}
	Populate(f.Data)
	if err := Guard(func() error { _ = bytes.Count(f.Data, []byte("x")); return nil }); err == nil {
		t.Error("no error for a file that was cut")
	}
}
