// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

func always(SavedTable, int, int) bool { return true }

// copied returns an encoded table in other memory.
func copied(e *EncodedKallsyms) *EncodedKallsyms {
	c := *e
	entries := make([]entry, len(e.Symbols)/int(unsafe.Sizeof(entry{})))
	c.Symbols = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(entries))), len(e.Symbols))
	copy(c.Symbols, e.Symbols)
	c.Names, c.ByName = bytes.Clone(e.Names), bytes.Clone(e.ByName)
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
	clear(saved.ByName)
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
	used.Use(copied(k.Encode()), func(SavedTable, int, int) bool { return false })
	if used.Len() != k.Len() || used.foreign {
		t.Error("a table whose checksum is wrong was used")
	}
	if e := parseKallsyms(t, "ffffffff81000000 T _text\nnonsense\n").Encode(); e != nil {
		t.Error("a table with warnings was encoded")
	}
}

// largeTable returns a table of 5,000 symbols: aliases, names that are there several times, data in
// runs, absolute and mapping symbols, markers of sections, and modules.
func largeTable(r *rand.Rand) string {
	var b strings.Builder
	addr := uint64(0xffffffff81000000)
	for i := range 5000 {
		if r.IntN(4) > 0 {
			addr += 1 << r.IntN(14)
		}
		name, module := fmt.Sprintf("f%d", r.IntN(4000)), ""
		switch r.IntN(40) {
		case 0:
			name = "$x"
		case 1:
			name = fmt.Sprintf("__start_of_%d", i)
		}
		typ := "tTtTtTwWdDrA"[r.IntN(12)]
		if i/100%3 == 2 {
			typ = 'd'
		}
		if i > 4000 {
			module = fmt.Sprintf("\t[m%d]", i/150)
		}
		fmt.Fprintf(&b, "%x %c %s%s\n", addr, typ, name, module)
	}
	return b.String()
}

// TestKallsymsSavedParts: the first questions to a saved table look at parts of it, which they ask for,
// and get the answers that the text gives: names that are there once, several times and not at all, and
// addresses in each symbol, between symbols and outside of all.
func TestKallsymsSavedParts(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n, k := range []*Kallsyms{openKallsyms(t, "x86_64.kallsyms"), openKallsyms(t, "arm64.kallsyms"), parseKallsyms(t, largeTable(r)), parseKallsyms(t, largeTable(r))} {
		e := k.Encode()
		names := []string{"", "no_such_name"}
		addrs := []uint64{0, 1, 1<<64 - 1}
		for _, s := range symbols(k) {
			if k.Len() > 1000 && r.IntN(100) > 0 {
				continue
			}
			names = append(names, s.Name)
			addrs = append(addrs, s.Addr-1, s.Addr, s.Addr+1, s.Addr+pageSize)
		}
		asked := make([]map[int]bool, 3)
		for i := range asked {
			asked[i] = make(map[int]bool)
		}
		note := func(t SavedTable, from, to int) bool {
			for i := from; i < to; i++ {
				asked[t][i] = true
			}
			return true
		}
		parts, whole := 0, 0
		for _, name := range names {
			used := parseKallsyms(t, string(k.text))
			saved := copied(e)
			used.Use(saved, note)
			if diff := cmp.Diff(k.Lookup(name), used.Lookup(name)); diff != "" || used.foreign {
				t.Fatalf("%d: %q, whole table %v\n%s", n, name, used.foreign, diff)
			}
		}
		for _, addr := range addrs {
			clear(asked[SavedSymbols])
			clear(asked[SavedNames])
			saved := copied(e)
			used := parseKallsyms(t, string(k.text))
			used.Use(saved, note)
			want, wantSize, found := k.Find(addr)
			aliases := k.NamesOf(addr)
			if sym, size, ok := used.Find(addr); sym != want || size != wantSize || ok != found {
				t.Fatalf("%d: %#x: %+v+%d %v, want %+v+%d %v", n, addr, sym, size, ok, want, wantSize, found)
			}
			if diff := cmp.Diff(aliases, used.NamesOf(addr)); diff != "" {
				t.Fatalf("%d: %#x\n%s", n, addr, diff)
			}
			if used.foreign {
				whole++
				continue
			}
			parts++
			// What was not asked for must not matter.
			for i := range saved.Symbols {
				if !asked[SavedSymbols][i] {
					saved.Symbols[i] ^= 0xff
				}
			}
			for i := range saved.Names {
				if !asked[SavedNames][i] {
					saved.Names[i] ^= 0xff
				}
			}
			if sym, size, ok := used.Find(addr); sym != want || size != wantSize || ok != found {
				t.Fatalf("%d: %#x: %+v+%d %v, want %+v+%d %v, with the rest damaged", n, addr, sym, size, ok, want, wantSize, found)
			}
			if diff := cmp.Diff(aliases, used.NamesOf(addr)); diff != "" {
				t.Fatalf("%d: %#x, with the rest damaged\n%s", n, addr, diff)
			}
		}
		if parts < 9*whole {
			t.Errorf("%d: %d questions looked at parts, %d at the whole table", n, parts, whole)
		}
	}
}

// TestKallsymsSavedPartsDamaged: a question to a part of a saved table that cannot be right is
// answered from the text.
func TestKallsymsSavedPartsDamaged(t *testing.T) {
	k := openKallsyms(t, "x86_64.kallsyms")
	e := k.Encode()
	all := symbols(k)
	for name, change := range map[string]func(e *EncodedKallsyms){
		"no places of names":     func(e *EncodedKallsyms) { e.ByName = nil },
		"too few places":         func(e *EncodedKallsyms) { e.ByName = e.ByName[:len(e.ByName)-4] },
		"a chain without an end": func(e *EncodedKallsyms) { copy(e.ByName, bytes.Repeat([]byte{1, 0, 0, 0}, len(e.ByName)/4)) },
		"symbols that are not there": func(e *EncodedKallsyms) {
			copy(e.ByName, bytes.Repeat([]byte{0xff, 0xff, 0xff, 0x7f}, len(e.ByName)/4))
		},
		"a name beyond all names": func(e *EncodedKallsyms) {
			for i := range all {
				(*entry)(unsafe.Pointer(&e.Symbols[i*entrySize])).len = 65535
			}
		},
	} {
		for i, s := range all {
			c := copied(e)
			change(c)
			used := parseKallsyms(t, string(k.text))
			used.Use(c, always)
			if diff := cmp.Diff(k.Lookup(s.Name), used.Lookup(s.Name)); diff != "" {
				t.Fatalf("%s: symbol %d, %s\n%s", name, i, s.Name, diff)
			}
			if diff := cmp.Diff(k.NamesOf(s.Addr), used.NamesOf(s.Addr)); diff != "" {
				t.Fatalf("%s: %#x\n%s", name, s.Addr, diff)
			}
			want, n, found := k.Find(s.Addr)
			if sym, size, ok := used.Find(s.Addr); sym != want || size != n || ok != found {
				t.Fatalf("%s: %#x: %+v+%d %v, want %+v+%d %v", name, s.Addr, sym, size, ok, want, n, found)
			}
		}
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
