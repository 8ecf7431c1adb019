// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mapfile

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestReadCached: what was just written is in the page cache, but the system may not say so. What is read of
// a file is what it has there, and nothing is read where nothing can be.
func TestReadCached(t *testing.T) {
	name := filepath.Join(t.TempDir(), "data")
	want := make([]byte, 1<<20+123)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range want {
		want[i] = byte(rng.Uint32())
	}
	if err := os.WriteFile(name, want, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	read := 0
	for _, off := range []int{0, 1, 4095, 1 << 19, len(want) - 5, len(want), len(want) + 1<<30} {
		for _, size := range []int{0, 1, 100, 1 << 18} {
			b := bytes.Repeat([]byte{0xa5}, size)
			n := readCached(f, b, int64(off))
			part := want[min(off, len(want)):]
			if part = part[:min(size, len(part))]; n > len(part) || !bytes.Equal(b[:n], part[:n]) || n < size && bytes.Count(b[n:], []byte{0xa5}) != size-n {
				t.Errorf("%d bytes at %d: %d bytes, or others", size, off, n)
			}
			read += n
		}
	}
	t.Logf("%d bytes were read", read)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if n := readCached(r, make([]byte, 10), 0); n != 0 {
		t.Errorf("%d bytes of a pipe", n)
	}
	f.Close()
	if n := readCached(f, make([]byte, 10), 0); n != 0 {
		t.Errorf("%d bytes of a closed file", n)
	}
}

// TestReadAt: as ReadAt of the file, at its end and behind it too.
func TestReadAt(t *testing.T) {
	name := filepath.Join(t.TempDir(), "data")
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<12)
	if err := os.WriteFile(name, want, 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := OpenRegular(name)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, off := range []int64{-1, 0, 7, 1 << 15, int64(len(want)) - 3, int64(len(want)), 1 << 40} {
		for _, size := range []int{0, 1, 5, 1 << 14} {
			got, same := make([]byte, size), make([]byte, size)
			n, err := m.ReadAt(got, off)
			wantN, wantErr := bytes.NewReader(want).ReadAt(same, off)
			if off < 0 {
				if err == nil {
					t.Errorf("no error at %d", off)
				}
				continue
			}
			if size == 0 {
				wantErr = nil // as a file
			}
			if n != wantN || (err == io.EOF) != (wantErr == io.EOF) || !bytes.Equal(got, same) {
				t.Errorf("%d bytes at %d: %d, %v; want %d, %v", size, off, n, err, wantN, wantErr)
			}
		}
	}
}
