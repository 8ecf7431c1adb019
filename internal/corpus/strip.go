// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package corpus

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// IDIndex is the type of the ID_INDEX records, which perf before 6.0 does not
// write.
const IDIndex = 69

// Strip returns a copy of a recording, in file or pipe form, that lacks all
// records of a type, as if the recorder had not written them. It works on the
// bytes alone. Compressed records stay.
func Strip(data []byte, typ uint32) ([]byte, error) {
	const (
		pipeHeader, fileHeader      = 16, 104
		attrSize, attrs, dataAt     = 16, 24, 40 // offsets in struct perf_file_header
		features, words             = 72, 4
		tracingData, auxtrace       = 66, 71 // types of records that data follow
		featureAuxtrace, sectionLen = 18, 16
	)
	if len(data) < pipeHeader {
		return nil, errors.New("corpus: no recording")
	}
	var order binary.ByteOrder = binary.LittleEndian
	if bytes.HasPrefix(data, []byte("2ELIFREP")) {
		order = binary.BigEndian
	}
	u64 := func(b []byte) uint64 { return order.Uint64(b) }
	header := int(u64(data[8:]))
	at, end := pipeHeader, len(data)
	if header == fileHeader {
		at = int(u64(data[dataAt:]))
		if size := int(u64(data[dataAt+8:])); size > 0 {
			end = at + size
		}
	} else if header != pipeHeader {
		return nil, errors.New("corpus: a header of another size")
	}

	type cut struct{ at, n int }
	var cuts []cut
	out := bytes.Clone(data[:at])
	for at+8 <= end {
		size := int(order.Uint16(data[at+6:]))
		this := order.Uint32(data[at:])
		if size < 8 || at+size > end {
			return nil, errors.New("corpus: a record of no size")
		}
		switch this {
		case auxtrace:
			size += int(u64(data[at+8:]))
		case tracingData:
			size += (int(order.Uint32(data[at+8:])) + 7) &^ 7
		}
		size = min(size, end-at)
		if this == typ {
			cuts = append(cuts, cut{at, size})
		} else {
			out = append(out, data[at:at+size]...)
		}
		at += size
	}
	out = append(out, data[at:]...)
	if header == pipeHeader {
		return out, nil
	}

	// What followed the records is nearer to the beginning now.
	moved := func(offset uint64) uint64 {
		to := offset
		for _, c := range cuts {
			if offset > uint64(c.at) {
				to -= uint64(c.n)
			}
		}
		return to
	}
	move := func(b []byte) { order.PutUint64(b, moved(u64(b))) }
	newEnd := int(moved(uint64(end)))
	order.PutUint64(out[dataAt+8:], uint64(newEnd)-u64(out[dataAt:]))
	move(out[attrs:])
	for a, n, entry := u64(out[attrs:]), u64(out[attrs+8:]), u64(out[attrSize:]); n >= entry; a, n = a+entry, n-entry {
		move(out[a+entry-sectionLen:])
	}
	table := out[newEnd:]
	for i := range words * 64 {
		if u64(out[features+8*(i/64):])>>(i%64)&1 == 0 {
			continue
		}
		move(table)
		if i == featureAuxtrace { // an index of places
			s := out[u64(table):][:u64(table[8:])]
			for s = s[8:]; len(s) >= sectionLen; s = s[sectionLen:] {
				move(s)
			}
		}
		table = table[sectionLen:]
	}
	return out, nil
}

// Stripped returns the path of a copy of the recording at path, a file or a
// perf.data directory, without its records of a type. The files next to it are next to the
// copy too: the hit counters of probes may be among them.
func Stripped(tb testing.TB, path string, typ uint32) string {
	tb.Helper()
	to := filepath.Join(tb.TempDir(), filepath.Base(path))
	from, into := path, to
	link(tb, filepath.Dir(path), filepath.Dir(to), func(e os.DirEntry) bool {
		return e.Type().IsRegular() && e.Name() != filepath.Base(path)
	})
	if fi, err := os.Stat(path); err != nil {
		tb.Fatal(err)
	} else if fi.IsDir() {
		if err := os.Mkdir(to, 0o777); err != nil {
			tb.Fatal(err)
		}
		link(tb, path, to, func(e os.DirEntry) bool { return e.Name() != "data" })
		from, into = filepath.Join(path, "data"), filepath.Join(to, "data")
	}
	data, err := os.ReadFile(from)
	if err == nil {
		data, err = Strip(data, typ)
	}
	if err == nil {
		err = os.WriteFile(into, data, 0o666)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return to
}

// link makes symbolic links in a directory to those entries of another one that ok is true of.
func link(tb testing.TB, from, into string, ok func(os.DirEntry) bool) {
	tb.Helper()
	entries, err := os.ReadDir(from)
	if err != nil {
		tb.Fatal(err)
	}
	for _, e := range entries {
		if !ok(e) {
			continue
		}
		whole, err := filepath.Abs(filepath.Join(from, e.Name()))
		if err == nil {
			err = os.Symlink(whole, filepath.Join(into, e.Name()))
		}
		if err != nil {
			tb.Fatal(err)
		}
	}
}
