// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mapfile

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const size = 1 << 20

// file makes a file of size bytes and opens it.
func file(t *testing.T) (*File, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, bytes.Repeat([]byte("content "), size/8), 0o600); err != nil {
		t.Fatal(err)
	}
	// Long ago, or a change could come within the same tick of the clock.
	if err := os.Chtimes(path, time.Time{}, time.Unix(1e9, 0)); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, 4, func([]byte) bool { return true })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if len(f.Data) != size {
		t.Fatalf("%d bytes, want %d", len(f.Data), size)
	}
	return f, path
}

// TestReread: a part of a mapped file is read from the file. What is not of one, or is not there any more,
// is not read.
func TestReread(t *testing.T) {
	f, path := file(t)
	to := make([]byte, 16)
	if !Reread(f.Data[12:20], to) || string(to[:8]) != "ent cont" {
		t.Errorf("read %q", to)
	}
	if !Reread(f.Data[size-8:], to) || string(to[:8]) != "content " {
		t.Errorf("read %q at the end", to)
	}
	if Reread(make([]byte, 8), to) {
		t.Error("read what is of no file")
	}
	if err := os.Truncate(path, size-4); err != nil {
		t.Fatal(err)
	}
	if Reread(f.Data[size-8:], to) {
		t.Error("read what is not there any more")
	}
}

var sink byte

// TestCut: an access to a part of a file that is not there any more is an error,
// whatever makes it.
func TestCut(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	other := make([]byte, size)
	for name, access := range map[string]func(data []byte) error{
		"load":    func(data []byte) error { sink = data[size/2]; return nil },
		"copy":    func(data []byte) error { copy(other, data); return nil },
		"compare": func(data []byte) error { bytes.Equal(data, bytes.Clone(data[:8])); return compare(data) },
		"string":  func(data []byte) error { sink = string(data)[0]; return nil },
		"append":  func(data []byte) error { sink = append([]byte(nil), data...)[0]; return nil },
		"search":  func(data []byte) error { bytes.IndexByte(data, 'x'); return nil },
		"crc":     func(data []byte) error { crc32.ChecksumIEEE(data); return nil },
		"sha256":  func(data []byte) error { sha256.Sum256(data); return nil },
		"write":   func(data []byte) error { _, err := out.Write(data); return err },
		"write joined": func(data []byte) error {
			_, err := out.Write(data)
			return errors.Join(errors.New("another"), err)
		},
		"nested": func(data []byte) error {
			return Guard(func() error { sink = data[size/2]; return nil })
		},
		"after a nested one": func(data []byte) error {
			if err := Guard(func() error { return nil }); err != nil {
				return err
			}
			sink = data[size/2]
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, path := file(t)
			if err := Guard(func() error { return access(f.Data) }); err != nil && name != "write joined" {
				t.Fatalf("before: %v", err)
			}
			if err := os.Truncate(path, 5000); err != nil {
				t.Fatal(err)
			}
			err := Guard(func() error { return access(f.Data) })
			var changed *ChangedError
			if !errors.As(err, &changed) || *changed != (ChangedError{Path: path, Size: size, Now: 5000}) {
				t.Errorf("%v", err)
			}
		})
	}
}

func compare(data []byte) error {
	bytes.Equal(data, append(bytes.Clone(data[:size-1]), 0))
	return nil
}

// TestOtherPanics: what is no fault in a mapped file is nobody's business here.
func TestOtherPanics(t *testing.T) {
	f, _ := file(t)
	var nowhere *struct{ x [1 << 20]byte }
	for name, fn := range map[string]func(){
		"value": func() { panic("value") },
		"nil":   func() { sink = nowhere.x[1<<19] },
		"index": func() { sink = f.Data[len(f.Data):][:0][sink] },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			err := Guard(func() error { fn(); return nil })
			t.Errorf("returned %v", err)
		})
	}
	want := errors.New("an error")
	if err := Guard(func() error { return want }); err != want {
		t.Errorf("%v", err)
	}
}

func TestCheck(t *testing.T) {
	for name, tt := range map[string]struct {
		change        func(path string) error
		grows, always bool // whether it is a change of a file that may grow, and of one that may not
	}{
		"nothing":     {func(string) error { return nil }, false, false},
		"read":        {func(path string) error { _, err := os.ReadFile(path); return err }, false, false},
		"shorter":     {func(path string) error { return os.Truncate(path, size-1) }, true, true},
		"empty":       {func(path string) error { return os.Truncate(path, 0) }, true, true},
		"longer":      {func(path string) error { return os.Truncate(path, size+1) }, false, true},
		"overwritten": {func(path string) error { return os.WriteFile(path, make([]byte, size), 0) }, false, true},
		"touched":     {func(path string) error { return os.Chtimes(path, time.Time{}, time.Unix(1, 0)) }, false, true},
		"removed":     {os.Remove, false, false},
		"replaced": {func(path string) error {
			return errors.Join(os.WriteFile(path+"2", nil, 0o600), os.Rename(path+"2", path))
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			f, path := file(t)
			if err := tt.change(path); err != nil {
				t.Fatal(err)
			}
			for grows, want := range map[bool]bool{true: tt.grows, false: tt.always} {
				var changed *ChangedError
				if err := f.Check(grows); errors.As(err, &changed) != want {
					t.Errorf("it may grow: %v: %v", grows, err)
				}
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			if err := errors.Join(f.Check(false), f.Close()); err != nil {
				t.Errorf("closed: %v", err)
			}
		})
	}
}

func TestOpenRegular(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenRegular(empty)
	if err != nil || len(f.Data) != 0 {
		t.Fatalf("%v", err)
	}
	f.Close()
	for _, path := range []string{dir, os.DevNull} {
		if _, err := OpenRegular(path); !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := OpenRegular(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
}
