// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"encoding/binary"
	"strconv"
)

// tracingMagic begins TRACING_DATA. A version follows, which ends with a NUL.
const tracingMagic = "\x17\x08\x44tracing"

// TracepointNames returns the names of tracepoints by their ids, which are the Config of an event's
// [Attr]. The names are as perf record -e takes them, such as sched:sched_switch. TRACING_DATA has them
// with the tracepoints' formats. An old perf names the events of a pipe nowhere else. Of damaged
// data, the result has what precedes the damage. The error is [ErrNoFeature] if there is none.
func (r *Recording) TracepointNames() (map[uint64]string, error) {
	data, err := r.TracingData()
	if err != nil {
		return nil, err
	}
	return tracepointNames(data), nil
}

// tracepointNames reads TRACING_DATA:
//
//	magic, version, u8 big-endian?, u8 size of a long, u32 size of a page
//	"header_page" and "header_event", each with its file
//	u32 number of ftrace's own formats, each a file
//	u32 number of groups, each: name, u32 number of formats, each a file
//
// A file is u64 size and its text. Names end with a NUL.
func tracepointNames(data []byte) map[uint64]string {
	names := make(map[uint64]string)
	rest, ok := bytes.CutPrefix(data, []byte(tracingMagic))
	t := tracingReader{rest: rest, order: binary.LittleEndian}
	if t.name(); !ok || len(t.rest) < 6 {
		return names
	}
	if t.rest[0] != 0 {
		t.order = binary.BigEndian
	}
	t.rest = t.rest[6:]
	for range 2 {
		t.name()
		t.file()
	}
	for range t.count() {
		t.file()
	}
	for range t.count() {
		group := t.name()
		for range t.count() {
			if name, id := formatName(t.file()); name != "" && group != "" {
				names[id] = group + ":" + name
			}
		}
	}
	return names
}

// A tracingReader reads the parts of TRACING_DATA. Behind its end, all are empty.
type tracingReader struct {
	rest  []byte
	order binary.ByteOrder
}

// name reads a string that ends with a NUL.
func (t *tracingReader) name() string {
	s, rest, ok := bytes.Cut(t.rest, []byte{0})
	if t.rest = rest; !ok {
		return ""
	}
	return string(s)
}

// count reads a number of files or groups. Each of them has a byte at least.
func (t *tracingReader) count() int {
	if len(t.rest) < 4 {
		t.rest = nil
		return 0
	}
	n := t.order.Uint32(t.rest)
	t.rest = t.rest[4:]
	return int(min(uint64(n), uint64(len(t.rest))))
}

// file reads a file; nil if it is not there as a whole.
func (t *tracingReader) file() []byte {
	if len(t.rest) < 8 || t.order.Uint64(t.rest) > uint64(len(t.rest)-8) {
		t.rest = nil
		return nil
	}
	n := t.order.Uint64(t.rest)
	text := t.rest[8:][:n]
	t.rest = t.rest[8+n:]
	return text
}

// formatName returns the name and the id in a format file of tracefs; "" if it has none.
func formatName(text []byte) (name string, id uint64) {
	for line := range bytes.Lines(text) {
		key, value, _ := bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(": "))
		switch string(key) {
		case "name":
			name = string(value)
		case "ID":
			id, err := strconv.ParseUint(string(value), 10, 64)
			if err != nil {
				return "", 0
			}
			return name, id
		}
	}
	return "", 0
}
