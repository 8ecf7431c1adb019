// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/textreplay/textreplay/internal/outfile"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/recorder"
	"github.com/textreplay/textreplay/recorder/journal"
)

// finishedRecordings returns the recordings in a directory, and in those below it, that will not
// change any more: those whose recorder has ended or has begun another piece next to it, and those of
// perf that end as finished ones do. It follows symbolic links, and returns names without them: the
// name stays when a link changes, and a piece is next to the other pieces of its recorder.
func finishedRecordings(dir string) []string {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	s := recordingSearch{seen: make(map[string]bool)}
	s.lookAt(real)
	newest := make(map[string]int) // by directory: the greatest number of a recorder's piece
	return slices.DeleteFunc(s.found, func(path string) bool {
		if n := pieceNumber(path); n != 0 {
			parent := filepath.Dir(path)
			if _, ok := newest[parent]; !ok {
				newest[parent] = newestPiece(parent)
			}
			if n < newest[parent] {
				return false // the recorder has begun the next piece
			}
		}
		return !hasEnded(path)
	})
}

// A recordingSearch finds the recordings below a directory.
type recordingSearch struct {
	seen  map[string]bool // what was looked at: several links may lead there, and links can make a circle
	found []string
}

// lookAt looks at a file or directory, whose name has no symbolic links.
func (s *recordingSearch) lookAt(path string) {
	info, err := os.Stat(path)
	if err != nil || s.seen[path] {
		return // it was removed, or is not ours
	}
	s.seen[path] = true
	if !info.IsDir() {
		if info.Mode().IsRegular() && isPerfData(path) {
			s.found = append(s.found, path)
		}
		return
	}
	if data, err := os.Stat(filepath.Join(path, "data")); err == nil && !data.IsDir() {
		s.found = append(s.found, path)
		return
	}
	entries, _ := os.ReadDir(path)
	for _, e := range entries {
		if outfile.IsTemporary(e.Name()) {
			continue // another run of the program writes it
		}
		below := filepath.Join(path, e.Name())
		if e.Type()&fs.ModeSymlink != 0 {
			if below, err = filepath.EvalSymlinks(below); err != nil {
				continue
			}
		}
		s.lookAt(below)
	}
}

// newestPiece returns the greatest number of the pieces of a recorder in a directory.
func newestPiece(dir string) int {
	newest := 0
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		newest = max(newest, pieceNumber(filepath.Join(dir, e.Name())))
	}
	return newest
}

// pieceNumber returns the number of a piece that "textreplay record --max-size" has made, 0 if a
// directory is none: it has the name of a piece, and the recorder's journal. Others may have
// numbers for names too, and a greater one does not say that they have ended.
func pieceNumber(path string) int {
	n, err := strconv.Atoi(filepath.Base(path))
	if err != nil || n < 1 || filepath.Base(path) != recorder.PieceName(n) {
		return 0
	}
	f, err := os.Open(filepath.Join(path, journal.Name))
	if err != nil {
		return 0
	}
	defer f.Close()
	if entries, _ := journal.Read(io.LimitReader(f, 1<<16)); len(entries) == 0 || entries[0].Start == nil {
		return 0
	}
	return n
}

// isPerfData reports whether a file begins as a recording does, of either byte order.
func isPerfData(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	var magic [8]byte
	if _, err = io.ReadFull(f, magic[:]); err != nil {
		return false
	}
	return string(magic[:]) == "PERFILE2" || string(magic[:]) == "2ELIFREP"
}

// hasEnded reports whether the recorder of a recording has ended by itself.
func hasEnded(path string) bool {
	if f, err := os.Open(filepath.Join(path, journal.Name)); err == nil {
		defer f.Close()
		entries, err := journal.Read(f)
		return err == nil && slices.ContainsFunc(entries, func(x journal.Entry) bool { return x.End != nil })
	}
	rec, err := perfdata.Open(path)
	if err != nil {
		return false
	}
	defer rec.Close()
	return rec.CleanEnd() == nil
}
