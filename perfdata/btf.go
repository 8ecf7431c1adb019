// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// btfTypes are types in the format BTF, of which the names of functions and the strings are read
// (Documentation/bpf/btf.rst of the kernel).
type btfTypes struct {
	order   binary.ByteOrder
	types   []byte
	starts  []int // where each type begins; its id is the index plus 1
	strings []byte
}

// The magic number that raw BTF begins with (struct btf_header), and the sizes of that structure's
// first version and of struct btf_type.
const (
	btfMagic      = 0xeb9f
	btfHeaderSize = 24
	btfTypeSize   = 12
)

// The kinds of types that have more than a struct btf_type (BTF_KIND_* of include/uapi/linux/btf.h),
// and functions.
const (
	btfInt       = 1
	btfArray     = 3
	btfStruct    = 4
	btfUnion     = 5
	btfEnum      = 6
	btfFunc      = 12
	btfFuncProto = 13
	btfVar       = 14
	btfDataSec   = 15
	btfDeclTag   = 17
	btfEnum64    = 19
)

// parseBTF parses raw BTF.
func parseBTF(b []byte) (*btfTypes, error) {
	t := new(btfTypes)
	switch {
	case len(b) >= btfHeaderSize && binary.LittleEndian.Uint16(b) == btfMagic:
		t.order = binary.LittleEndian
	case len(b) >= btfHeaderSize && binary.BigEndian.Uint16(b) == btfMagic:
		t.order = binary.BigEndian
	default:
		return nil, fmt.Errorf("%d bytes do not begin as BTF does", len(b))
	}
	if b[2] != 1 {
		return nil, fmt.Errorf("version %d", b[2])
	}
	size := uint64(t.order.Uint32(b[4:]))
	if size < btfHeaderSize || size > uint64(len(b)) {
		return nil, fmt.Errorf("a header of %d bytes", size)
	}
	section := func(at int) ([]byte, error) {
		from, n := size+uint64(t.order.Uint32(b[at:])), uint64(t.order.Uint32(b[at+4:]))
		if from+n > uint64(len(b)) {
			return nil, fmt.Errorf("a section at [%d, %d) of %d bytes", from, from+n, len(b))
		}
		return b[from:][:n], nil
	}
	var err error
	if t.types, err = section(8); err != nil {
		return nil, err
	}
	if t.strings, err = section(16); err != nil {
		return nil, err
	}
	if n := len(t.strings); n == 0 || t.strings[0] != 0 || t.strings[n-1] != 0 {
		return nil, errors.New("the strings do not begin and end with a zero byte")
	}
	for at := 0; at < len(t.types); {
		t.starts = append(t.starts, at)
		if len(t.types)-at < btfTypeSize {
			return nil, fmt.Errorf("type %d is cut", len(t.starts))
		}
		info := t.order.Uint32(t.types[at+4:])
		at += btfTypeSize
		switch n := int(info & 0xffff); kindOfBTF(info) {
		case btfInt, btfVar, btfDeclTag:
			at += 4
		case btfArray:
			at += 12
		case btfStruct, btfUnion, btfDataSec, btfEnum64:
			at += 12 * n
		case btfEnum, btfFuncProto:
			at += 8 * n
		}
		if at > len(t.types) || kindOfBTF(info) == 0 || kindOfBTF(info) > btfEnum64 {
			return nil, fmt.Errorf("type %d has kind %d and is cut", len(t.starts), kindOfBTF(info))
		}
	}
	return t, nil
}

func kindOfBTF(info uint32) uint32 { return info >> 24 & 0x1f }

// function returns the name of the function with this id. The error is what the type is not.
func (t *btfTypes) function(id uint32) (string, error) {
	if id == 0 || uint64(id) > uint64(len(t.starts)) {
		return "", fmt.Errorf("is not one of its %d", len(t.starts))
	}
	b := t.types[t.starts[id-1]:]
	if kindOfBTF(t.order.Uint32(b[4:])) != btfFunc {
		return "", errors.New("is not a function")
	}
	name, err := t.text(t.order.Uint32(b))
	if err != nil {
		err = fmt.Errorf("has no name: %w", err)
	}
	return name, err
}

// text returns the string at an offset.
func (t *btfTypes) text(at uint32) (string, error) {
	if uint64(at) >= uint64(len(t.strings)) || at > 0 && t.strings[at-1] != 0 {
		return "", fmt.Errorf("no string begins at %d", at)
	}
	b := t.strings[at:]
	return string(b[:bytes.IndexByte(b, 0)]), nil
}
