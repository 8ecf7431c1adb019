// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

func always() bool { return true }

// copied returns an encoded table in other memory.
func copied(e *EncodedKallsyms) *EncodedKallsyms {
	c := *e
	entries := make([]entry, len(e.Symbols)/int(unsafe.Sizeof(entry{})))
	c.Symbols = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(entries))), len(e.Symbols))
	copy(c.Symbols, e.Symbols)
	c.Names = bytes.Clone(e.Names)
	return &c
}

// TestKallsymsSaved: a saved table gives the answers of its text, and names that stay when its
// memory does not: the first ones, and those after all names were copied.
func TestKallsymsSaved(t *testing.T) {
	for _, asked := range []int32{0, fewNames} {
		for _, file := range []string{"x86_64.kallsyms", "arm64.kallsyms"} {
			t.Run(fmt.Sprint(file, " after ", asked), func(t *testing.T) { testSaved(t, file, asked) })
		}
	}
}

func testSaved(t *testing.T, file string, asked int32) {
	k := openKallsyms(t, file)
	e := k.Encode()
	if e == nil || !cmp.Equal(e, openKallsyms(t, file).Encode()) {
		t.Fatal("encoded differently each time")
	}
	saved := copied(e)
	used := parseKallsyms(t, string(k.text))
	release := used.Use(saved, always)
	used.copied.asked.n.Store(asked)
	all := symbols(used)
	if diff := cmp.Diff(symbols(k), all); diff != "" {
		t.Fatalf("%s:\n%s", file, diff)
	}
	if !used.foreign {
		t.Fatalf("%s: the saved table was not used", file)
	}
	lo, hi, ok := k.Text()
	if l, h, o := used.Text(); l != lo || h != hi || o != ok {
		t.Errorf("%s: text %#x, %#x, %v; want %#x, %#x, %v", file, l, h, o, lo, hi, ok)
	}
	for _, s := range symbols(k) {
		if diff := cmp.Diff(k.Lookup(s.Name), used.Lookup(s.Name)); diff != "" {
			t.Fatalf("%s: %s\n%s", file, s.Name, diff)
		}
		want, size, found := k.Find(s.Addr + 1)
		if got, n, ok := used.Find(s.Addr + 1); got != want || n != size || ok != found {
			t.Fatalf("%s: %#x: %+v, want %+v", file, s.Addr, got, want)
		}
	}
	release()
	clear(saved.Symbols)
	clear(saved.Names)
	if diff := cmp.Diff(symbols(k), all); diff != "" {
		t.Fatalf("%s, names from before the release:\n%s", file, diff)
	}
	if diff := cmp.Diff(symbols(k), symbols(used)); diff != "" || used.foreign {
		t.Fatalf("%s, after the release:\n%s", file, diff)
	}
}

// TestKallsymsSavedDamaged: a saved table that cannot be right is not used, and neither is one of
// another text.
func TestKallsymsSavedDamaged(t *testing.T) {
	k := openKallsyms(t, "x86_64.kallsyms")
	at := func(e *EncodedKallsyms, i int) *entry {
		return (*entry)(unsafe.Pointer(&e.Symbols[i*int(unsafe.Sizeof(entry{}))]))
	}
	for name, change := range map[string]func(e *EncodedKallsyms){
		"a name beyond all names":      func(e *EncodedKallsyms) { at(e, 3).name = uint32(len(e.Names)) },
		"a name that ends too late":    func(e *EncodedKallsyms) { at(e, 3).len = 65535; at(e, 3).name = uint32(len(e.Names)) - 9 },
		"a name of no bytes":           func(e *EncodedKallsyms) { at(e, 3).len = 0 },
		"an offset that overflows":     func(e *EncodedKallsyms) { at(e, 3).name = 1<<32 - 1 },
		"a module that is not there":   func(e *EncodedKallsyms) { at(e, 3).mod = uint32(len(e.Modules)) },
		"no modules":                   func(e *EncodedKallsyms) { e.Modules = nil },
		"addresses that are unordered": func(e *EncodedKallsyms) { at(e, 3).addr = at(e, 4).addr + 1 },
		"a part of a symbol":           func(e *EncodedKallsyms) { e.Symbols = e.Symbols[:len(e.Symbols)-1] },
		"not aligned":                  func(e *EncodedKallsyms) { e.Symbols = e.Symbols[1 : len(e.Symbols)-int(unsafe.Sizeof(entry{}))+1] },
		"of another text":              func(e *EncodedKallsyms) { e.Size++ },
	} {
		e := copied(k.Encode())
		change(e)
		used := parseKallsyms(t, string(k.text))
		used.Use(e, always)
		if diff := cmp.Diff(symbols(k), symbols(used)); diff != "" || used.foreign {
			t.Errorf("%s: used %v\n%s", name, used.foreign, diff)
		}
	}
	used := parseKallsyms(t, string(k.text))
	used.Use(copied(k.Encode()), func() bool { return false })
	if used.Len() != k.Len() || used.foreign {
		t.Error("a table whose checksum is wrong was used")
	}
	if e := parseKallsyms(t, "ffffffff81000000 T _text\nnonsense\n").Encode(); e != nil {
		t.Error("a table with warnings was encoded")
	}
}

// TestOpenLater: kallsyms is read when it is used, from the file that was opened. Check returns
// the error if that had changed.
func TestOpenLater(t *testing.T) {
	var text []byte
	const want = firstSymbols
	for i := range want {
		text = fmt.Appendf(text, "%x T function_%d\n", uint64(0xffffffff81000000)+uint64(16*i), i)
	}
	open := func() (*Snapshot, string) {
		dir := writeFiles(t, map[string][]byte{"kallsyms": text})
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		return s, filepath.Join(dir, "kallsyms")
	}

	s, path := open()
	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if n := s.Kallsyms.Len(); n != want || s.Check() != nil {
		t.Errorf("renamed and closed: %d symbols of %d, %v", n, want, s.Check())
	}

	s, path = open()
	if err := os.Truncate(path, int64(len(text)/2)); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(); err != nil {
		t.Errorf("nothing was read: %v", err)
	}
	n := s.Kallsyms.Len()
	var changed *ChangedError
	if err := s.Check(); n >= want || !errors.As(err, &changed) || changed.Path != path {
		t.Errorf("cut short: %d symbols of %d, %v", n, want, err)
	}

	// Where the beginning has no symbol, all of it is read at once.
	dir := writeFiles(t, map[string][]byte{"kallsyms": []byte(strings.Repeat("nonsense\n", firstSymbols))})
	var fe *FormatError
	if _, err := Open(dir); !errors.As(err, &fe) {
		t.Errorf("without symbols: %v", err)
	}
}
