// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package fields_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"reflect"
	"runtime"
	"testing"

	"github.com/textreplay/textreplay/internal/fields"
)

type small uint8

type inner struct {
	Name  string
	Range [2]uint64
	Next  *inner
}

// outer has all that a value can have.
type outer struct {
	Signed   int64
	Small    small
	Yes, No  bool
	Text     string
	Bytes    []byte
	List     []inner
	Lists    [][]int
	Table    map[int16][]inner
	Pointer  *inner
	Anon     struct{ A, B uint32 }
	hidden   int
	NoValues []error // nil: errors cannot be written
}

func full() *outer {
	return &outer{
		Signed: math.MinInt64, Small: 255, Yes: true, Text: "not UTF-8: \xff\x00", Bytes: []byte{0, 1, 255},
		List:    []inner{{Name: "a", Range: [2]uint64{1, math.MaxUint64}}, {Next: &inner{Name: "b"}}},
		Lists:   [][]int{nil, {}, {-1, 0, 1}},
		Table:   map[int16][]inner{3: {{Name: "c"}}, -3: nil, 0: {}},
		Pointer: &inner{Range: [2]uint64{5, 6}},
		Anon:    struct{ A, B uint32 }{7, 8},
	}
}

// TestRoundTrip: what is read is what was written, also which of its parts are nil.
func TestRoundTrip(t *testing.T) {
	for _, want := range []*outer{full(), {}, {Bytes: []byte{}, List: []inner{}, Table: map[int16][]inner{}}} {
		data := fields.Append([]byte("before"), want)[len("before"):]
		got := outer{}
		if err := fields.Read(data, &got); err != nil || !reflect.DeepEqual(&got, want) {
			t.Errorf("%+v, %v\nwant %+v", got, err, want)
		}
		again := full()
		again.hidden = 5
		if err := fields.Read(data, again); err != nil || again.hidden != 5 {
			t.Errorf("a field that is not exported became %d, %v", again.hidden, err)
		}
		if again.hidden = 0; !reflect.DeepEqual(again, want) {
			t.Errorf("into a value that was used: %+v\nwant %+v", again, want)
		}
	}
	for range 20 { // the order of a map changes, that of its keys in data does not
		if !bytes.Equal(fields.Append(nil, full()), fields.Append(nil, full())) {
			t.Fatal("equal values have different bytes")
		}
	}
}

// TestDamaged: data that ends early, goes on, or has a number that does not fit is an error.
func TestDamaged(t *testing.T) {
	data := fields.Append(nil, full())
	for n := range data {
		if err := fields.Read(data[:n], new(outer)); err != fields.ErrData {
			t.Errorf("%d of %d bytes: %v", n, len(data), err)
		}
	}
	if err := fields.Read(append(data, 0), new(outer)); err != fields.ErrData {
		t.Errorf("a byte too many: %v", err)
	}
	for i := range data { // none of these may panic
		for _, b := range []byte{0, 1, 2, 127, 128, 255} {
			changed := bytes.Clone(data)
			changed[i] = b
			fields.Read(changed, new(outer))
		}
	}
	for _, c := range []struct {
		what  string
		value any
		data  []byte
	}{
		{"uint8", new(uint8), binary.AppendUvarint(nil, 256)},
		{"int8", new(int8), binary.AppendVarint(nil, -129)},
		{"bool", new(bool), []byte{2}},
		{"pointer", new(*uint8), []byte{2, 0}},
		{"key twice", new(map[uint8]bool), []byte{3, 1, 1, 1, 1}},
		{"string", new(string), binary.AppendUvarint(nil, math.MaxUint64)},
		{"errors", new([]error), []byte{2, 0}},
		{"floating", new(float64), []byte{0}},
	} {
		if err := fields.Read(c.data, c.value); err != fields.ErrData {
			t.Errorf("%s: %v", c.what, err)
		}
	}
}

// TestLengths: a length in the data does not decide how much memory is allocated.
func TestLengths(t *testing.T) {
	for _, value := range []any{new([]uint64), new([]byte), new(string), new(map[uint64]uint64), new([][1 << 16]uint64)} {
		for _, n := range []uint64{1 << 20, 1 << 40, math.MaxUint64} {
			data := append(binary.AppendUvarint(nil, n), 1, 2, 3)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := fields.Read(data, value)
			runtime.ReadMemStats(&after)
			if used := after.TotalAlloc - before.TotalAlloc; err != fields.ErrData || used > 1<<16 {
				t.Errorf("%T of %d: %v, %d bytes allocated", value, n, err, used)
			}
		}
	}
	// A length that the data could have: as many bytes as it says, but the elements need more.
	data := append(binary.AppendUvarint(nil, 1<<16), make([]byte, 1<<16)...)
	var list [][16]uint64
	if err := fields.Read(data, &list); err != fields.ErrData || cap(list) > 1<<13 {
		t.Errorf("%v, room for %d elements", err, cap(list))
	}
}

// TestUnknownType: a value of another type is a mistake in the program.
func TestUnknownType(t *testing.T) {
	for _, value := range []any{new(1.5), &[]error{fields.ErrData}, &map[string]int{"a": 1}, new(func())} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%T was written", value)
				}
			}()
			fields.Append(nil, value)
		}()
	}
}

func FuzzRead(f *testing.F) {
	f.Add(fields.Append(nil, full()))
	f.Add(fields.Append(nil, new(outer)))
	f.Fuzz(func(t *testing.T, data []byte) {
		var got, again outer
		if fields.Read(data, &got) != nil {
			return
		}
		if err := fields.Read(fields.Append(nil, &got), &again); err != nil || !reflect.DeepEqual(got, again) {
			t.Errorf("%+v\nwritten and read again %+v, %v", got, again, err)
		}
	})
}
