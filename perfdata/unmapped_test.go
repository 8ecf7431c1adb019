// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// transcript is all records of a scan, in one piece, and its error.
func transcript(s *Scanner) string {
	var b bytes.Buffer
	for s.Next() {
		r := s.Record()
		fmt.Fprintf(&b, "%v %#x %d %#x %x\n", r.Type, r.Misc, r.File, r.Offset, r.Raw)
	}
	fmt.Fprintln(&b, s.Err())
	return b.String()
}

// files writes a recording of some records in every form of files.
func files(t *testing.T) map[string]string {
	dir := t.TempDir()
	ev := &Event{IDs: []uint64{1}, Attr: Attr{SampleType: SampleTID | SampleTime | SampleIdentifier, Flags: FlagSampleIDAll}}
	fill := func(w *Writer, threads int) {
		w.SetEvents([]*Event{ev})
		for i := range uint64(20_000) {
			if threads > 0 {
				w.SetFile(int(i) % (threads + 1))
			}
			w.Comm(0, &Comm{PID: uint32(i), Comm: bytes.Repeat([]byte("x"), int(i%60)), SampleID: SampleID{Time: i, Event: ev}})
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	paths := make(map[string]string)
	file := func(name string, opts ...WriterOption) string {
		paths[name] = filepath.Join(dir, name)
		f, err := os.Create(paths[name])
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fill(NewWriter(f, binary.LittleEndian, opts...), 0)
		return paths[name]
	}
	plain, err := os.ReadFile(file("plain"))
	if err != nil {
		t.Fatal(err)
	}
	file("compressed", Compress(RecordCompressed2))
	for _, size := range []int{len(plain) / 2, len(plain)/2 + 3} {
		name := fmt.Sprintf("cut at %d", size)
		paths[name] = filepath.Join(dir, name)
		if err := os.WriteFile(paths[name], plain[:size], 0o666); err != nil {
			t.Fatal(err)
		}
	}
	paths["threads"] = filepath.Join(dir, "threads")
	w, err := CreateDir(paths["threads"], 2, binary.BigEndian)
	if err != nil {
		t.Fatal(err)
	}
	fill(w, 2)
	paths["real"] = filepath.Join("..", "testdata", "small", "rec.data")
	return paths
}

// TestUnmapped: records come the same whether files are mapped or read.
func TestUnmapped(t *testing.T) {
	for name, path := range files(t) {
		r, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for what, opts := range map[string][]ScanOption{"all": nil, "some": {Only(RecordKSymbol, RecordFinishedRound)}, "outer": {KeepCompressed()}} {
			want := transcript(r.Scan(opts...))
			if d := cmp.Diff(want, transcript(r.Scan(append(opts, Unmapped())...))); d != "" {
				t.Errorf("%s, %s: %.1000s", name, what, d)
			}
		}
		want, got := r.Ordered(), r.Ordered(Unmapped())
		for want.Next() {
			if !got.Next() || !bytes.Equal(got.Record().Raw, want.Record().Raw) {
				t.Fatalf("%s: in the order of time, another record", name)
			}
		}
	}
}

// TestUnload: what was unloaded can still be read, also while it is unloaded.
func TestUnload(t *testing.T) {
	for name, path := range files(t) {
		mapped, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer mapped.Close()
		held, err := New(bytes.Clone(mapped.files[0].data))
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []*Recording{mapped, held} {
			want := transcript(r.Scan())
			r.Unload()
			if d := cmp.Diff(want, transcript(r.Scan())); d != "" {
				t.Errorf("%s: %.1000s", name, d)
			}
			n := 0
			for s := r.Scan(); s.Next() && n < 100; n++ {
				raw := bytes.Clone(s.Record().Raw)
				if r.Unload(); n%2 == 0 {
					s.Unload()
				}
				if !bytes.Equal(raw, s.Record().Raw) {
					t.Fatalf("%s: a record changed as it was unloaded", name)
				}
			}
		}
	}
}

// TestRestReader: it has the bytes of Rest, of a file that is mapped and of one that is in memory.
func TestRestReader(t *testing.T) {
	path := files(t)["plain"]
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	mapped, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer mapped.Close()
	inMemory, err := New(data)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]*Recording{"mapped": mapped, "in memory": inMemory} {
		s := r.Scan()
		for range 2 {
			if !s.Next() {
				t.Fatal("there are no records")
			}
		}
		rest := s.Rest()
		got := make([]byte, len(rest)+1)
		n, err := s.RestReader().ReadAt(got, 0)
		if err != io.EOF || !bytes.Equal(got[:n], rest) {
			t.Errorf("%s: %d bytes (%v), Rest has %d", name, n, err, len(rest))
		}
		if _, err := s.RestReader().ReadAt(got[:8], 16); err != nil || !bytes.Equal(got[:8], rest[16:24]) {
			t.Errorf("%s: %x at 16 (%v), Rest has %x", name, got[:8], err, rest[16:24])
		}
		for s.Next() {
		}
		if s.RestReader() != nil {
			t.Errorf("%s: there is a reader at the end", name)
		}
	}
}
