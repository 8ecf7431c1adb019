// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

// ends returns how many lines of a piece's journal say that it ended.
func ends(t *testing.T, dir string) (n int) {
	t.Helper()
	for _, e := range journalOf(t, dir) {
		if e.End != nil {
			n++
		}
	}
	return n
}

// TestFailedEnd: a recording whose records could not be written does not say that it has all.
func TestFailedEnd(t *testing.T) {
	for _, tt := range []struct {
		name string
		fail func(r *Recorder)
	}{
		{"data", func(r *Recorder) { r.data.Close() }},
		{"Run", func(r *Recorder) { // its epoll_wait fails
			poll := r.poll
			r.poll = -1
			if err := r.Run(t.Context()); err == nil {
				t.Error("Run has no error")
			}
			r.poll = poll
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "rec")
			r := started(t, Options{Dir: dir})
			if err := r.turn(); err != nil {
				t.Fatal(err)
			}
			tt.fail(r)
			loadProgram(t, 3).Close()
			err := r.Close()
			if n := ends(t, dir); n != 0 || (err == nil) != (tt.name == "Run") {
				t.Errorf("Close: %v; the journal has %d ends", err, n)
			}
		})
	}
}

// TestFailedPiece: if the next piece cannot be begun, the one before it is whole.
func TestFailedPiece(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rec")
	r := started(t, Options{Dir: dir, MaxSize: LeastSize})
	if err := os.WriteFile(filepath.Join(dir, PieceName(2)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for r.copying {
		if err := r.turn(); err != nil {
			t.Fatal(err)
		}
	}
	r.size = LeastSize
	if err := r.Run(t.Context()); err == nil {
		t.Error("a piece was begun whose name is that of a file")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if n := ends(t, filepath.Join(dir, PieceName(1))); n != 1 {
		t.Errorf("the journal of the first piece has %d ends", n)
	}
}

// TestFailedStart: a recorder that cannot begin leaves nothing behind, also if a copy of text is
// being made.
func TestFailedStart(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rec")
	r := started(t, Options{Dir: dir, MaxSize: LeastSize})
	for r.copying {
		if err := r.turn(); err != nil {
			t.Fatal(err)
		}
	}
	r.copying = true
	copying := make(chan struct{})
	go func() {
		defer close(copying)
		time.Sleep(50 * time.Millisecond)
		err := os.MkdirAll(filepath.Join(r.piece.dir, "kcore_dir"), 0o700)
		r.done <- copied{err: err, of: r.piece}
	}()
	if err := r.Discard(); err != nil {
		t.Error(err)
	}
	<-copying
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("the directory is there: %v", err)
	}

	// A directory that was there before stays.
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := started(t, Options{Dir: dir, MaxSize: LeastSize}).Discard(); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("%v in the directory: %v", entries, err)
	}

	// So does a piece that was there before, however few are to be kept.
	r = started(t, Options{Dir: dir, MaxSize: LeastSize})
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := started(t, Options{Dir: dir, MaxSize: LeastSize, MaxPieces: 1}).Discard(); err != nil {
		t.Error(err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || entries[0].Name() != PieceName(1) {
		t.Errorf("%v in the directory: %v", entries, err)
	}
}

// TestRemovedPiece: a piece that somebody has removed is no error for the one that removes old
// pieces.
func TestRemovedPiece(t *testing.T) {
	if err := removePiece(filepath.Join(t.TempDir(), PieceName(1))); err != nil {
		t.Error(err)
	}
}
