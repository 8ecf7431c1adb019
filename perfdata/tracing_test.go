// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"testing"
)

// TestTracepointNames: the formats of real recordings name tracepoints as EVENT_DESC does.
func TestTracepointNames(t *testing.T) {
	n := 0
	dirs, _ := filepath.Glob("../testdata/*/rec.data")
	for _, dir := range dirs {
		r, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		names, err := r.TracepointNames()
		if err != nil && !errors.Is(err, ErrNoFeature) {
			t.Errorf("%s: %v", dir, err)
		}
		for _, e := range r.Events() {
			if e.Attr.Type != 2 || err != nil {
				continue
			}
			if n++; names[e.Attr.Config] != e.Name {
				t.Errorf("%s: tracepoint %d is %q, want %q", dir, e.Attr.Config, names[e.Attr.Config], e.Name)
			}
		}
		r.Close()
	}
	if n == 0 {
		t.Error("no recording has a tracepoint")
	}
}

// TestTracepointNamesEndian: sizes have the recorded machine's byte order, and formats may end anywhere.
func TestTracepointNamesEndian(t *testing.T) {
	be := binary.BigEndian
	file := func(b []byte, text string) []byte { return append(be.AppendUint64(b, uint64(len(text))), text...) }
	data := append([]byte(tracingMagic), "0.6\x00\x01\x08\x00\x00\x10\x00header_page\x00"...)
	data = append(file(data, "page"), "header_event\x00"...)
	data = be.AppendUint32(be.AppendUint32(file(data, "event"), 0), 1)
	data = be.AppendUint32(append(data, "tp\x00"...), 1)
	data = file(data, "name: map\nID: 1207\nformat:\n")
	if names := tracepointNames(data); len(names) != 1 || names[1207] != "tp:map" {
		t.Errorf("the names are %v", names)
	}
	for n := range data {
		if names := tracepointNames(data[:n]); len(names) != 0 {
			t.Errorf("of %d bytes, the names are %v", n, names)
		}
	}
}
