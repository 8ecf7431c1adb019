// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/textreplay/textreplay/internal/mapfile"
	"github.com/textreplay/textreplay/internal/pathname"
)

// A Recording is an open recording. It does not change while it is open: all its
// methods except Close are safe for concurrent use. That of a [Reader] does
// change; see [Reader.Recording].
type Recording struct {
	path, dir string
	files     []dataFile
	endian    endian
	pipe      bool
	stream    bool // that of a Reader
	head      fileHead

	events                   []*Event
	ids                      idTable
	noIDs                    bool      // a single event, whose ids were not kept
	trailers                 []*layout // the distinct ones, the first event's first
	samples                  []*layout
	quickFit                 quickFit
	plainPokes, plainSamples fieldPlaces

	moved func() *movedCopies // see Rejoin

	features map[Feature]section
	early    []*mapfile.File // files of features next to the data file, see readEarly
	clean    error           // what CleanEnd returns
	warnings []error
}

// A dataFile is one file of a recording; its records are data[start:end].
type dataFile struct {
	name       string
	data       []byte
	start, end int
	cut        error         // set if records that the header announces are missing
	file       *mapfile.File // nil if the data are not of a file
}

func (f *dataFile) close() error {
	if f.file == nil {
		return nil
	}
	return f.file.Close()
}

// A section is a feature's bytes and their offset in the first data file.
type section struct {
	offset int64
	data   []byte
}

// Open opens a recording: a perf.data file, a file that holds what perf wrote
// to a pipe, or a perf.data directory (data, and data.0, data.1 and so on if
// it was made with --threads).
//
// Files are mapped into memory. If a file is cut short while it is open, an access
// to the part that was cut off ends the program, unless it is inside of a [Guard].
// In the page where the file now ends, that part reads as zeros. See
// [Recording.Check]. If this happens during Open, Open returns a *[ChangedError].
//
// What cannot be read at all gives an error: that of the file system, or a
// [*FormatError] that wraps [ErrBadMagic], [ErrUnsupported], [ErrTruncated] or
// [ErrMalformed]. Damage that leaves something readable does not; see
// [Recording.Warnings], [Recording.CleanEnd] and [Scanner.Err].
func Open(path string) (*Recording, error) {
	path = pathname.Plain(path)
	r := &Recording{path: path}
	if err := Guard(func() error { return r.open(path) }); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Recording) open(path string) error {
	fi, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		if err := r.addFile(path, openAny); err != nil {
			return err
		}
		return r.parse()
	}
	r.dir = path
	if err := r.addFile(filepath.Join(path, "data"), mapfile.OpenRegular); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is not a perf.data directory: %w", path, err)
		}
		return err
	}
	threads, err := threadFiles(path)
	if err != nil {
		return err
	}
	for _, name := range threads {
		if err := r.addFile(filepath.Join(path, name), mapfile.OpenRegular); err != nil {
			return err
		}
	}
	return r.parse()
}

// threadFiles lists DIR/data.N in the order of N.
func threadFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if n, ok := strings.CutPrefix(e.Name(), "data."); ok && !e.IsDir() {
			if _, err := strconv.ParseUint(n, 10, 32); err == nil {
				names = append(names, e.Name())
			}
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
	})
	return names, nil
}

// openAny opens a file, or reads a pipe if it has a recording.
func openAny(name string) (*mapfile.File, error) {
	return mapfile.Open(name, pipeHeader, func(b []byte) bool {
		_, err := (&Recording{}).readMagic(b)
		return err == nil
	})
}

func (r *Recording) addFile(name string, open func(name string) (*mapfile.File, error)) error {
	file, err := open(name)
	if err != nil {
		return err
	}
	r.files = append(r.files, dataFile{name: name, data: file.Data, end: len(file.Data), file: file})
	return nil
}

// New opens a recording of one file, in file or pipe form, that is held in
// memory. The Recording keeps data, which must not change.
func New(data []byte) (*Recording, error) {
	r := &Recording{files: []dataFile{{data: data, end: len(data)}}}
	if err := r.parse(); err != nil {
		return nil, err
	}
	return r, nil
}

// parse reads all that is not records, and of a pipe's records those that
// describe the others.
func (r *Recording) parse() error {
	if err := r.parseHeader(); err != nil {
		return err
	}
	if r.pipe {
		r.readPipe()
	}
	if len(r.files) > 1 && r.features != nil {
		// perf reads data.N only where the header asks for it.
		if version, err := r.DirFormat(); err != nil || version == dirSingleFile {
			r.warn(0, ErrMalformed, "%s and similar files are not read: the header says that the recording has one file", r.files[1].name)
			for _, f := range r.files[1:] {
				f.close()
			}
			r.files = r.files[:1]
		}
	}
	r.moved = sync.OnceValue(r.findMoved)
	if len(r.files) > 1 {
		r.clean = &FormatError{File: r.fileName(0), Msg: fmt.Sprintf("the records are in %d files, and only the first says how long it is", len(r.files))}
	}
	return nil
}

const dirSingleFile = 0 // PERF_DIR_SINGLE_FILE

// Close releases the recording's memory; every slice that aliases it becomes invalid, and
// every Scanner. Other methods then answer as for a recording without files, records and
// features; Scan gives no error. A second Close does nothing.
func (r *Recording) Close() error {
	var errs []error
	for _, f := range r.files {
		errs = append(errs, f.close())
	}
	for _, f := range r.early {
		errs = append(errs, f.Close())
	}
	*r = Recording{path: r.path, dir: r.dir}
	return errors.Join(errs...)
}

// Unload releases the memory that the recording's mapped files take. All slices
// stay valid: what is used later is read from the files again. A program that reads
// a recording larger than the memory it may use calls Unload from time to time, or
// scans with [Unmapped].
func (r *Recording) Unload() {
	for _, f := range r.files {
		if f.file != nil {
			f.file.Unload()
		}
	}
}

// Path returns the path that [Open] was given, "" after [New].
func (r *Recording) Path() string { return r.path }

// Dir returns the directory of a recording in directory form, which has
// kcore_dir next to the data, or "" for a recording in file form.
func (r *Recording) Dir() string { return r.dir }

// ByteOrder returns the recorder's byte order, that of all fields in Record.Raw.
func (r *Recording) ByteOrder() binary.ByteOrder { return r.endian.order() }

// Pipe reports whether the recording has pipe form.
func (r *Recording) Pipe() bool { return r.pipe }

// Size returns the size in bytes of all data files together.
func (r *Recording) Size() int64 {
	var n int64
	for _, f := range r.files {
		n += int64(len(f.data))
	}
	return n
}

// Files returns the paths of the data files, to be indexed with Record.File.
func (r *Recording) Files() []string {
	names := make([]string, len(r.files))
	for i, f := range r.files {
		names[i] = f.name
	}
	return names
}

func (r *Recording) fileName(i int) string {
	if i < 0 || i >= len(r.files) {
		return ""
	}
	return r.files[i].name
}

// Events returns the recording's events, which must not be changed.
func (r *Recording) Events() []*Event { return r.events }

// CleanEnd returns nil if the recording is known to be whole: one file, whose
// header gives the size of its data, which is all there, and whose feature
// sections follow as perf writes them when it ends (perf_session__write_header
// of tools/perf/util/header.c). Otherwise the error says what is missing. Pipes
// and recordings of several files never have a clean end, because nothing in
// them shows whether they were cut.
func (r *Recording) CleanEnd() error { return r.clean }

// Warnings returns the damage that was found while opening, each a
// [*FormatError]. Damage among the records is found by the [Scanner].
func (r *Recording) Warnings() []error { return r.warnings }

func (r *Recording) warn(offset int64, err error, format string, args ...any) {
	r.warnings = append(r.warnings, &FormatError{File: r.fileName(0), Offset: offset, Msg: fmt.Sprintf(format, args...), Err: err})
}
