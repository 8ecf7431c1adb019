// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package mapfile maps files into memory, and lets a program survive that a mapped
// file becomes shorter.
//
// The kernel answers an access to a page that a file no longer has with SIGBUS,
// which ends a Go program. [Guard] makes it an error. The last page of a file
// is another case: what is behind the new end reads as zeros, with no signal. So
// whoever has drawn conclusions from a file asks [File.Check] before they are used.
//
// Lists, which are short, are read instead, and may come through a pipe: [ReadList].
package mapfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"
	"syscall"
	"unsafe"
)

// A File is a file in memory. All but Close is safe for concurrent use.
type File struct {
	// Data are the file's bytes. They must not be written to, and not be used after
	// Close.
	Data   []byte
	name   string
	f      *os.File    // nil after Close
	info   fs.FileInfo // as of when it was opened
	mapped bool
	split  sync.Once
}

// ErrNotRegular is wrapped by the errors for what is no regular file.
var ErrNotRegular = errors.New("not a regular file")

// Open opens a file and maps it. What cannot be mapped, such as a FIFO, is read to its end, if it
// begins as the caller expects: begins gets its first n bytes, or all if it has fewer. Otherwise
// Data has only these. So nothing waits for the end of a device that has none.
func Open(name string, n int, begins func(b []byte) bool) (*File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	m := &File{name: name, f: f}
	if m.info, err = f.Stat(); err == nil && m.mapAll() != nil {
		m.Data, err = io.ReadAll(io.LimitReader(f, int64(n)))
		if err == nil && begins(m.Data) {
			m.Data, err = io.ReadAll(io.MultiReader(bytes.NewReader(m.Data), f))
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return m, nil
}

// OpenRegular opens a regular file and maps it. It does not wait for a FIFO, nor
// open a device. An empty file has no Data.
func OpenRegular(name string) (*File, error) {
	f, info, err := Regular(name)
	if err != nil {
		return nil, err
	}
	m := &File{name: name, f: f, info: info}
	if info.Size() > 0 {
		if err := m.mapAll(); err != nil {
			f.Close()
			return nil, &fs.PathError{Op: "mmap", Path: name, Err: err}
		}
	}
	return m, nil
}

// Regular opens a regular file for reading, and returns what stat says of it. It does not
// wait for a FIFO, nor open a device, which may have no end. Errors for these wrap
// [ErrNotRegular].
func Regular(name string) (*os.File, fs.FileInfo, error) {
	fail := func() (*os.File, fs.FileInfo, error) {
		return nil, nil, &fs.PathError{Op: "open", Path: name, Err: ErrNotRegular}
	}
	info, err := os.Stat(name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return fail()
	}
	// Something else may have taken its name since.
	f, err := os.OpenFile(name, os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, nil, err
	}
	if info, err = f.Stat(); err != nil {
		f.Close()
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		f.Close()
		return fail()
	}
	return f, info, nil
}

// mostList is more than any list of symbols, modules, formats or names has: 128 MiB.
const mostList = 128 << 20

// ReadList reads a list of the kernel, or of names, to its end. It may come through a pipe. A
// device may have no end: more than 128 MiB are an error, which has the list's name.
func ReadList(r io.Reader, name string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, mostList+1))
	if err == nil && len(text) > mostList {
		err = fmt.Errorf("%s is no list: it has more than %d MiB", name, mostList>>20)
	}
	return text, err
}

// ReadListFile is [ReadList] for the file of that name.
func ReadListFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return ReadList(f, name)
}

// mapAll maps the file. It returns an error if that is no regular file, or empty.
func (m *File) mapAll() error {
	size := m.info.Size()
	switch {
	case !m.info.Mode().IsRegular():
		return ErrNotRegular
	case size == 0 || int64(int(size)) != size:
		return fmt.Errorf("a file of %d bytes cannot be mapped", size)
	}
	data, err := mapped(m.f, int(size))
	if err != nil {
		return err
	}
	m.Data, m.mapped = data, true
	open.Lock()
	defer open.Unlock()
	if open.files == nil {
		open.files = make(map[*File]bool)
	}
	open.files[m] = true
	return nil
}

// open are the files that are mapped.
var open struct {
	sync.Mutex
	files map[*File]bool
}

// Close releases the memory. It may be called more than once.
func (m *File) Close() error {
	if m.f == nil {
		return nil
	}
	var err error
	if m.mapped {
		open.Lock()
		delete(open.files, m)
		open.Unlock()
		err = unmap(m.Data)
	}
	err = errors.Join(err, m.f.Close())
	m.f, m.Data = nil, nil
	return err
}

// Mapped reports whether the file is mapped and not read.
func (m *File) Mapped() bool { return m.mapped }

// Info is what stat said of the open file before any of it was read.
func (m *File) Info() fs.FileInfo { return m.info }

// ReadAt reads from the file itself, not from the mapping, as [io.ReaderAt] does.
func (m *File) ReadAt(b []byte, off int64) (n int, err error) {
	if m.mapped && off >= 0 {
		if n = readCached(m.f, b, off); n == len(b) {
			return n, nil
		}
	}
	rest, err := m.f.ReadAt(b[n:], off+int64(n))
	return n + rest, err
}

// Reread reads what from has, which is a part of the Data of a file, from that file into to, without touching
// the mapping: where many bytes are used once, that takes less time. It returns false if the file is not
// mapped, or cannot be read. The file must stay open meanwhile.
func Reread(from, to []byte) bool {
	open.Lock()
	m := fileAt(uintptr(unsafe.Pointer(unsafe.SliceData(from))))
	open.Unlock()
	if m == nil {
		return false
	}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(from))) - uintptr(unsafe.Pointer(unsafe.SliceData(m.Data)))
	n, _ := m.ReadAt(to[:len(from)], int64(at))
	return n == len(from)
}

// Unload releases the memory that a mapped file takes. What is touched later is read
// from the file again.
func (m *File) Unload() {
	if m.mapped {
		unload(m.Data)
	}
}

// UnloadRange is Unload for about the bytes from, up to, but not including, to: not for the
// last pages, and for some pages before. So successive ranges leave nothing between them.
func (m *File) UnloadRange(from, to int) {
	if to = min(to, len(m.Data)); m.mapped && from < to {
		unloadRange(m.f, m.Data, from, to)
	}
}

// Sparse says that of the bytes from, up to, but not including, to, only a few are going to
// be read. An access then loads one page, and not its surroundings, which can be megabytes.
func (m *File) Sparse(from, to int) {
	page := os.Getpagesize()
	if from, to = (from+page-1)/page*page, min(to, len(m.Data)); m.mapped && from < to {
		sparse(m.Data[from:to])
	}
}

// Split makes an access load no more than the surroundings of what it touches. Linux maps as
// much at once as the page cache holds in one piece, which can be 2 MiB for each byte that is
// read. For a file that is read here and there, this is nearly all of it.
func (m *File) Split() {
	if m.mapped {
		m.split.Do(func() { split(m.Data) })
	}
}

// A ChangedError is returned for a file that changed while it was in use, so that
// what was read of it may be wrong.
type ChangedError struct {
	Path string
	// Size is the file's size when it was opened, Now its size now, in bytes.
	Size, Now int64
	// Unreadable says that a page of it cannot be read, although it has its old size:
	// the disk may have failed.
	Unreadable bool
}

func (e *ChangedError) Error() string {
	switch {
	case e.Now < e.Size:
		return fmt.Sprintf("%s was cut short from %d bytes to %d while it was read", e.Path, e.Size, e.Now)
	case e.Now > e.Size:
		return fmt.Sprintf("%s changed while it was read: it had %d bytes and has %d", e.Path, e.Size, e.Now)
	case e.Unreadable:
		return fmt.Sprintf("%s cannot be read any more", e.Path)
	}
	return fmt.Sprintf("%s changed while it was read", e.Path)
}

// Check returns a *ChangedError if the file has changed since it was opened: if its
// size or its time of modification is another. grows says that the file may be one
// that is still being written. Then only a smaller size is a change.
func (m *File) Check(grows bool) error {
	if m.f == nil || !m.info.Mode().IsRegular() {
		return nil
	}
	now, err := m.f.Stat()
	if err != nil {
		return err
	}
	if now.Size() < m.info.Size() || !grows && !Unchanged(m.info, now) {
		return &ChangedError{Path: m.name, Size: m.info.Size(), Now: now.Size()}
	}
	return nil
}

// Unchanged reports whether what stat said at two times is of one file, which was not written to in between.
func Unchanged(before, now fs.FileInfo) bool {
	return os.SameFile(before, now) && before.Size() == now.Size() && before.ModTime().Equal(now.ModTime())
}

// Guard calls f and returns its error. If f touches a part of a mapped file
// that is not there any more, Guard returns a *[ChangedError], and f is left as
// by a panic. Other panics of f are not caught. That holds for the calling goroutine
// only: a goroutine that f starts needs its own Guard.
func Guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch r := recover().(type) {
		case nil:
			// A system call that is given such memory fails in its own way.
			if errors.Is(err, syscall.EFAULT) {
				if e := anyCut(); e != nil {
					err = e
				}
			}
		case interface {
			error
			Addr() uintptr
		}:
			if err = faultAt(r.Addr()); err == nil {
				panic(r)
			}
		default:
			panic(r)
		}
	}()
	return f()
}

// faultAt returns the error for a fault at an address, nil if it is in no mapped file.
func faultAt(addr uintptr) error {
	open.Lock()
	defer open.Unlock()
	m := fileAt(addr)
	if m == nil {
		return nil
	}
	if err := m.Check(true); err != nil {
		return err
	}
	return &ChangedError{Path: m.name, Size: m.info.Size(), Now: m.info.Size(), Unreadable: true}
}

// fileAt returns the file that is mapped at an address, nil if there is none. open is locked.
func fileAt(addr uintptr) *File {
	for m := range open.files {
		if start := uintptr(unsafe.Pointer(unsafe.SliceData(m.Data))); addr-start < uintptr(len(m.Data)) {
			return m
		}
	}
	return nil
}

// anyCut returns the error for any mapped file that is shorter now.
func anyCut() error {
	open.Lock()
	defer open.Unlock()
	for m := range open.files {
		if err := m.Check(true); err != nil {
			return err
		}
	}
	return nil
}
