// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestDamagedBases: a stored page whose addresses cannot be right is an error that names its
// file.
func TestDamagedBases(t *testing.T) {
	for _, tt := range []struct {
		name    string
		at, to  []int32
		flipped bool
		ok      bool
	}{
		{"as it should be", []int32{8, 4092}, []int32{1, 2}, false, true},
		{"a flipped bit", []int32{8, 4092}, []int32{1, 2}, true, false},
		{"another value", []int32{8, 4092}, []int32{1, 3}, false, false},
		{"an address without its value", []int32{8, 16}, []int32{1}, false, false},
		{"a value without its address", []int32{8}, []int32{1, 2}, false, false},
		{"behind the page", []int32{4093}, []int32{1}, false, false},
		{"before it", []int32{-4}, []int32{1}, false, false},
		{"one inside the other", []int32{8, 10}, []int32{1, 2}, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "pages.parquet")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			const offset = 5 * pageSize
			row := textRow{Offset: offset, Page: make([]byte, pageSize), RelocAt: tt.at, RelocTo: tt.to}
			moved := []relocation{{8, 1}, {4092, 2}}
			if row.Hash = (&page{content: row.Page, moved: moved}).hash(); tt.flipped {
				row.Page[100] = 1
			}
			if err := writeRows(f, []textRow{row}); err != nil {
				t.Fatal(err)
			}
			stored := newStoredText(dir)
			if err := stored.readNew(); err != nil {
				t.Fatal(err)
			}
			if _, err := stored.basesAt(offset); (err == nil) != tt.ok || err != nil && !strings.Contains(err.Error(), path) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestStoredAfterPanic: pages that a panic kept from being written, as that of a file which is cut short while
// it is read, are written with the next recording that has them.
func TestStoredAfterPanic(t *testing.T) {
	dir := t.TempDir()
	d := Open(dir)
	add := func(moved ...relocation) {
		a := &addition{Dir: d, out: outputsBeside(nil)}
		pages := []page{{content: []byte{1}}, {content: []byte{2}, moved: moved}}
		pages[0].Hash[0], pages[1].Hash[0] = 1, 2
		if err := a.addPages("build", pages); err != nil {
			t.Fatal(err)
		}
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("no panic")
			}
		}()
		add(relocation{at: pageSize}) // not in the page
	}()
	add()
	stored := newStoredText(filepath.Join(dir, partition("text", "-", "build")))
	if err := stored.readNew(); err != nil || len(stored.pages) != 2 {
		t.Errorf("%d pages are stored, want 2: %v", len(stored.pages), err)
	}
}

// TestMostBases: of many files that have pages at an offset, only the pages of the first ones by name are kept
// and compared, in whatever order the files came. So neither memory nor time grows with the square of their
// number.
func TestMostBases(t *testing.T) {
	const files, offset = 3 * mostBases, 7 * pageSize
	dir := t.TempDir()
	content := func(i int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8), 1}, pageSize/3) }
	write := func(i int) {
		t.Helper()
		f, err := os.Create(filepath.Join(dir, fmt.Sprintf("%04d.parquet", i)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		p := &page{content: content(i)}
		p.Hash, p.Offset = p.hash(), offset
		other := &page{content: content(i)[1:]}
		other.Hash, other.Offset = other.hash(), int64(i)*pageSize<<8
		if _, err := writeText(f, []*page{p, other}); err != nil {
			t.Fatal(err)
		}
	}
	stored := newStoredText(dir)
	check := func(from, to int) {
		t.Helper()
		if err := stored.readNew(); err != nil {
			t.Fatal(err)
		}
		bases, err := stored.basesAt(offset)
		if err != nil {
			t.Fatal(err)
		}
		var got, want []int
		for _, b := range bases {
			got = append(got, int(b.content[0])|int(b.content[1])<<8)
			if !bytes.Equal(b.content, content(got[len(got)-1])) {
				t.Fatalf("page %d has another content", got[len(got)-1])
			}
		}
		for i := from; i < to; i++ {
			want = append(want, i)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("pages %v are compared, want %v", got, want)
		}
	}
	for i := files; i < 2*files; i++ {
		write(i)
	}
	check(files, files+mostBases)
	if n := len(stored.read); n != mostBases {
		t.Errorf("%d files were read, want %d", n, mostBases)
	}
	write(2 * files)
	for i := range 3 {
		write(files - 3 + i)
	}
	check(files-3, files-3+mostBases)
	if bases, err := stored.basesAt((2*files - 1) * pageSize << 8); err != nil || len(bases) != 1 {
		t.Errorf("%d pages at an offset that one file has, want 1: %v", len(bases), err)
	}
	if bases, err := stored.basesAt(1); err != nil || len(bases) != 0 {
		t.Errorf("%d pages at an offset that no file has: %v", len(bases), err)
	}
}
