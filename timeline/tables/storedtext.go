// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/textreplay/textreplay/internal/mapfile"
)

// A storedText is what is known of the files with pages in a directory of the table text.
type storedText struct {
	dir   string
	files []string            // in the order in which they were found
	seen  map[string]bool     // the same files
	pages map[[16]byte]uint32 // by hash: the file that has the page
	// with has the files that have pages at an offset, by name: the first ones, mostBases at most.
	with map[int64][]uint32

	bases map[int64][]*base // what was read of these files, by offset
	read  map[uint32]bool   // the files that were read for bases
}

// mostBases is of how many files, for each offset, a new page is compared with the pages. Kernels of one
// build differ at an offset by what their CPUs can do, so a few of them have a page that is like most others.
// Modules are at the same offsets by chance: thousands of boots have thousands of different pages there. Which
// files these are follows from the names of all, so it does not depend on the order in which pages came.
const mostBases = 32

// missing is the file of a page that no file has yet.
const missing = ^uint32(0)

func newStoredText(dir string) *storedText {
	return &storedText{dir: dir, seen: make(map[string]bool), pages: make(map[[16]byte]uint32), with: make(map[int64][]uint32)}
}

// readNew reads which pages those files have that were added since the last call, also by other programs.
func (t *storedText) readNew() error {
	names, err := filepath.Glob(filepath.Join(globSafe(t.dir), "*.parquet"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if t.seen[name] {
			continue
		}
		if err := t.readFile(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// readParquet calls read with a parquet file, which may be damaged.
func readParquet(name string, read func(*parquet.File) error) (err error) {
	f, info, err := mapfile.Regular(name)
	if err != nil {
		return err
	}
	defer f.Close()
	// The library panics where a damaged file contradicts itself.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the file is damaged: %v", r)
		}
	}()
	file, err := parquet.OpenFile(f, info.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
	if err != nil {
		return err
	}
	return read(file)
}

// readRows reads the rows of a parquet file. Each column of T must be there.
func readRows[T any](name string) (all []T, err error) {
	const some = 1024 // not as many as the file says that it has
	err = readParquet(name, func(file *parquet.File) error {
		for _, column := range parquet.SchemaOf(*new(T)).Columns() {
			if _, ok := file.Schema().Lookup(column...); !ok {
				return fmt.Errorf("no column %s", strings.Join(column, "."))
			}
		}
		in := parquet.NewGenericReader[T](file)
		defer in.Close()
		for {
			all = slices.Grow(all, some)
			n, err := in.Read(all[len(all):][:some])
			all = all[:len(all)+n]
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return err
			}
		}
	})
	return all, err
}

// readFile reads which pages a file has.
func (t *storedText) readFile(name string) error {
	type place struct {
		Hash   [16]byte `parquet:"page_hash"`
		Offset int64    `parquet:"text_offset"`
	}
	all, err := readRows[place](name)
	if err != nil {
		return err
	}
	file := t.addFile(name)
	for i := range all {
		t.addPage(all[i].Hash, all[i].Offset, file)
	}
	return nil
}

// addFile adds a file, whose pages the caller adds.
func (t *storedText) addFile(name string) (file uint32) {
	t.files, t.seen[name] = append(t.files, name), true
	return uint32(len(t.files) - 1)
}

// addPage adds a page of a file.
func (t *storedText) addPage(hash [16]byte, offset int64, file uint32) {
	t.pages[hash] = file
	with := t.with[offset]
	at, has := slices.BinarySearchFunc(with, file, func(x, file uint32) int { return strings.Compare(t.files[x], t.files[file]) })
	if has || at == mostBases {
		return
	}
	with = slices.Insert(with, at, file)
	t.with[offset] = with[:min(len(with), mostBases)]
}

// basesAt returns the stored pages at an offset that a new one may be made from.
func (t *storedText) basesAt(offset int64) ([]*base, error) {
	with := t.with[offset]
	for _, file := range with {
		if err := t.readBases(file); err != nil {
			return nil, fmt.Errorf("%s: %w", t.files[file], err)
		}
	}
	// A file that came later can have taken the place of another one.
	bases := slices.DeleteFunc(t.bases[offset], func(b *base) bool { return !slices.Contains(with, b.file) })
	if len(with) > 0 {
		t.bases[offset] = bases
	}
	return bases, nil
}

// readBases reads the pages of a file that can be bases.
func (t *storedText) readBases(file uint32) error {
	if t.read[file] {
		return nil
	}
	rows, err := readRows[textRow](t.files[file])
	if err != nil {
		return err
	}
	if t.read == nil {
		t.bases, t.read = make(map[int64][]*base), make(map[uint32]bool)
	}
	t.read[file] = true
	for i := range rows {
		row := &rows[i]
		b := &base{hash: row.Hash, file: file, content: row.Page}
		for k, at := range row.RelocAt[:min(len(row.RelocAt), len(row.RelocTo))] {
			b.moved = append(b.moved, relocation{int(at), uint32(row.RelocTo[k])})
		}
		if len(row.RelocAt) != len(row.RelocTo) || !b.valid() || (&page{content: b.content, moved: b.moved}).hash() != row.Hash {
			return fmt.Errorf("page %x is damaged", row.Hash)
		}
		if slices.Contains(t.with[row.Offset], file) {
			t.bases[row.Offset] = append(t.bases[row.Offset], b)
		}
	}
	return nil
}

// forgetBases forgets the content of pages, which is read again if it is needed.
func (t *storedText) forgetBases() { t.bases, t.read = nil, nil }
