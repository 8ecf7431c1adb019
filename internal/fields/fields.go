// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

// Package fields writes a Go value as bytes and reads it again, field after field, without names. Both
// must be done with the same type: the bytes do not say which it was. In return nothing has to be
// prepared for a type. That takes encoding/json longer than to read one small value.
//
// Numbers are varints as those of [encoding/binary]. Strings and slices begin with a length, and
// pointers with 0 or 1. Keys of maps are in order, so equal values have equal bytes. Strings need
// not be UTF-8, and what is nil stays nil.
package fields

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"
	"slices"
)

// ErrData is the error of [Read]: the data is not what [Append] wrote for a value of this type.
var ErrData = errors.New("fields: not a value of this type")

// Append appends what value points to to data: structs (their exported fields only), whole numbers,
// bools, strings, arrays, slices, pointers, and maps whose keys are numbers. Append panics if it finds
// something else.
func Append(data []byte, value any) []byte { return appendValue(data, reflect.ValueOf(value).Elem()) }

func appendValue(data []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanInterface() { // exported
				data = appendValue(data, f)
			}
		}
		return data
	case reflect.Array:
		return appendElements(data, v)
	case reflect.Slice:
		if v.IsNil() {
			return append(data, 0)
		}
		data = binary.AppendUvarint(data, uint64(v.Len())+1)
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return append(data, v.Bytes()...)
		}
		return appendElements(data, v)
	case reflect.Map:
		if k := v.Type().Key().Kind(); k < reflect.Int || k > reflect.Uint64 {
			panic(unknownType(v))
		}
		if v.IsNil() {
			return append(data, 0)
		}
		data = binary.AppendUvarint(data, uint64(v.Len())+1)
		keys := v.MapKeys()
		slices.SortFunc(keys, compareNumbers)
		for _, k := range keys {
			data = appendValue(appendValue(data, k), v.MapIndex(k))
		}
		return data
	case reflect.Pointer:
		if v.IsNil() {
			return append(data, 0)
		}
		return appendValue(append(data, 1), v.Elem())
	case reflect.String:
		data = binary.AppendUvarint(data, uint64(v.Len()))
		return append(data, v.String()...)
	case reflect.Bool:
		if v.Bool() {
			return append(data, 1)
		}
		return append(data, 0)
	}
	switch {
	case v.CanInt():
		return binary.AppendVarint(data, v.Int())
	case v.CanUint():
		return binary.AppendUvarint(data, v.Uint())
	}
	panic(unknownType(v))
}

func unknownType(v reflect.Value) string { return fmt.Sprintf("fields: a value of type %v", v.Type()) }

func appendElements(data []byte, v reflect.Value) []byte {
	for i := range v.Len() {
		data = appendValue(data, v.Index(i))
	}
	return data
}

func compareNumbers(a, b reflect.Value) int {
	if a.CanInt() {
		return cmp.Compare(a.Int(), b.Int())
	}
	return cmp.Compare(a.Uint(), b.Uint())
}

// Read sets what value points to from data, and must use all of it. The memory that it allocates is
// in proportion to the length of data. If it returns an error, which is [ErrData], value may have
// been set in part.
func Read(data []byte, value any) error {
	r := reader{data}
	if !r.value(reflect.ValueOf(value).Elem()) || len(r.data) > 0 {
		return ErrData
	}
	return nil
}

// A reader has the data that was not read yet. Its methods report whether data was as they expect.
type reader struct{ data []byte }

func (r *reader) value(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() && !r.value(f) { // exported
				return false
			}
		}
		return true
	case reflect.Array:
		for i := range v.Len() {
			if !r.value(v.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Slice, reflect.Map:
		n, isNil, ok := r.length()
		switch {
		case !ok:
			return false
		case isNil:
			v.SetZero()
			return true
		case v.Kind() == reflect.Map:
			return r.table(v, n)
		}
		return r.slice(v, n)
	case reflect.Pointer:
		n, ok := r.uvarint()
		if !ok || n > 1 {
			return false
		}
		if n == 0 {
			v.SetZero()
			return true
		}
		v.Set(reflect.New(v.Type().Elem()))
		return r.value(v.Elem())
	case reflect.String:
		n, ok := r.uvarint()
		if !ok || n > uint64(len(r.data)) {
			return false
		}
		v.SetString(string(r.take(n)))
		return true
	case reflect.Bool:
		n, ok := r.uvarint()
		v.SetBool(n == 1)
		return ok && n <= 1
	}
	if v.CanInt() {
		n, size := binary.Varint(r.data)
		if size <= 0 || v.OverflowInt(n) {
			return false
		}
		r.data = r.data[size:]
		v.SetInt(n)
		return true
	}
	n, ok := r.uvarint()
	if !ok || !v.CanUint() || v.OverflowUint(n) {
		return false
	}
	v.SetUint(n)
	return true
}

func (r *reader) uvarint() (uint64, bool) {
	n, size := binary.Uvarint(r.data)
	if size <= 0 {
		return 0, false
	}
	r.data = r.data[size:]
	return n, true
}

// take returns the next n bytes, which there are.
func (r *reader) take(n uint64) []byte {
	taken := r.data[:n]
	r.data = r.data[n:]
	return taken
}

// length returns the number of elements of a slice or a map. Each has at least a byte, so a number that is
// greater than that of the bytes left is wrong.
func (r *reader) length() (n int, isNil, ok bool) {
	u, ok := r.uvarint()
	if !ok || u > uint64(len(r.data))+1 {
		return 0, false, false
	}
	return int(u) - 1, u == 0, true
}

// slice reads the n elements of a slice.
func (r *reader) slice(v reflect.Value, n int) bool {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		v.SetBytes(append([]byte{}, r.take(uint64(n))...))
		return true
	}
	// An element may take more memory than it has bytes in data, so room is made as they are read.
	const atOnce = 64
	v.Set(reflect.MakeSlice(v.Type(), 0, min(n, atOnce)))
	for i := range n {
		if i == v.Cap() {
			v.Grow(i)
		}
		v.SetLen(i + 1)
		if !r.value(v.Index(i)) {
			return false
		}
	}
	return true
}

// table reads the n keys of a map, and their values.
func (r *reader) table(v reflect.Value, n int) bool {
	v.Set(reflect.MakeMap(v.Type()))
	for range n {
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		if !r.value(key) || !r.value(value) {
			return false
		}
		v.SetMapIndex(key, value)
	}
	return v.Len() == n
}
