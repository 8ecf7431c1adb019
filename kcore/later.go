// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"bytes"
	"io"
	"io/fs"
	"math"
	"os"
	"sync/atomic"

	"github.com/textreplay/textreplay/internal/mapfile"
)

// A laterFile is a file of symbols that is open and whose text is read when it is needed. The
// garbage collector closes it if it never is.
type laterFile struct {
	path string
	f    *os.File
	info fs.FileInfo           // as of when it was opened
	err  atomic.Pointer[error] // why the text is not what the file was when it was opened
}

// firstSymbols is how much of a file is read to see whether it has any symbol.
const firstSymbols = 4096

// openSymbols is [ParseKallsyms] for a regular file. It reads its beginning, and the rest when
// the first name is asked for: an index has the names that most questions need. The error is
// that of the file or of ParseKallsyms.
func openSymbols(path string) (*Kallsyms, fs.FileInfo, error) {
	f, info, err := mapfile.Regular(path)
	if err != nil {
		return nil, nil, err
	}
	if size := info.Size(); size > firstSymbols && uint64(size) <= math.MaxUint32 {
		head := make([]byte, firstSymbols)
		first := Kallsyms{text: head}
		if _, err := f.ReadAt(head, 0); err == nil {
			if first.parse(1); len(first.entries) > 0 {
				return &Kallsyms{later: &laterFile{path: path, f: f, info: info}}, info, nil
			}
		}
	}
	defer f.Close()
	text, err := readAll(f, info)
	if err != nil {
		return nil, info, err
	}
	k, err := ParseKallsyms(text)
	return k, info, err
}

// readAll reads a file to its end.
func readAll(f *os.File, info fs.FileInfo) ([]byte, error) {
	var text bytes.Buffer
	text.Grow(int(min(info.Size(), 1<<30)) + bytes.MinRead)
	_, err := text.ReadFrom(io.NewSectionReader(f, 0, math.MaxInt64))
	return text.Bytes(), err
}

// read returns the text, and closes the file. If the file has changed since it was opened, or
// cannot be read, that is in later.err.
func (l *laterFile) read() []byte {
	defer l.f.Close()
	text, err := readAll(l.f, l.info)
	if err == nil {
		err = l.changed()
	}
	if err != nil {
		l.err.Store(&err)
	}
	return text[:min(uint64(len(text)), math.MaxUint32)]
}

// changed returns an error if the file is not what it was when it was opened.
func (l *laterFile) changed() error {
	now, err := l.f.Stat()
	if err == nil && (now.Size() != l.info.Size() || !now.ModTime().Equal(l.info.ModTime())) {
		err = &ChangedError{Path: l.path, Size: l.info.Size(), Now: now.Size()}
	}
	return err
}
