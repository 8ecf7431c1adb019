// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/textreplay/textreplay/internal/genperf"
)

// TestLargeMemory: recordings that are larger than the memory that a command may take. "bench
// large" does the same at full size.
func TestLargeMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: a short run is one of the race detector, which needs several times the memory")
	}
	const most, tables = 128 << 20, 4 << 20
	dir := t.TempDir()
	aux, samples := filepath.Join(dir, "aux.data"), filepath.Join(dir, "samples.data")
	h := genperf.History{Pokes: 40, Sites: 1000, Samples: 4_500_000, Short: true} // 252 MB
	for path, write := range map[string]func(f *os.File) error{
		aux:     func(f *os.File) error { return genperf.AUX(f, 4<<30) },
		samples: func(f *os.File) error { return h.Stream(f) },
	} {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(write(f), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{aux, samples, "-"} {
		cmd := asProcess(t, "info", "--index", "never", "-i", path)
		var input io.WriteCloser
		var written chan error
		if path == "-" {
			var err error
			if input, err = cmd.StdinPipe(); err != nil {
				t.Fatal(err)
			}
			written = make(chan error, 1)
			go func() { written <- errors.Join(h.Stream(input), input.Close()) }()
		}
		memory, table, err := watchMemory(cmd)
		var exit *exec.ExitError
		if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == exitBelow) {
			t.Fatalf("%s: %v", path, err)
		}
		if written != nil {
			if err := <-written; err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%s: %d bytes of memory, %d of page tables", filepath.Base(path), memory, table)
		if memory == 0 || memory > most || table > tables {
			t.Errorf("%s: %d bytes of memory and %d of page tables, want at most %d and %d", path, memory, table, most, tables)
		}
	}
}
