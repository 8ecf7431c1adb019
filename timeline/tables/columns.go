// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"fmt"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
)

// A columnWriter writes a table column by column. parquet-go takes rows apart by reflection
// and looks up each value of a dictionary in a hash table. Here the caller appends plain
// numbers, or the numbers of values that it has interned, to a buffer; parquet-go makes pages
// of it. A row group is written one column after the other, so all columns need one buffer.
//
// It works by types that replace those of the schema's columns. [parquet.Type] is where
// parquet-go asks for the buffer of a column, and for its dictionary.
type columnWriter struct {
	*parquet.Writer
	columns map[string]*tableColumn
	buffer  columnValues
}

// columnValues are values of one column. One of the slices is used, by the column's kind.
type columnValues struct {
	ids    []int32  // a dictionary: the numbers of values
	int64s []int64  // 64 bits, signed or not
	bytes  []byte   // all byte strings, one behind the other
	ends   []uint32 // and where they end; the first is 0
}

// A tableColumn is a column of a table that is being written.
type tableColumn struct {
	columnValues
	values []parquet.Value // by number: the values of a dictionary
	index  []int32         // by number: where this row group's dictionary has it; -1: not yet
	dict   parquet.Dictionary
	writer *parquet.ColumnWriter
}

// newColumnWriter returns a writer of a table of T, a struct without lists, with so many rows.
func newColumnWriter[T any](w io.Writer, rows int) *columnWriter {
	plain := parquet.SchemaOf(new(T))
	c := &columnWriter{columns: make(map[string]*tableColumn)}
	// A page, and the rows after which it is known to be full.
	full := min(rows, pageBytes/4) + chunk
	c.buffer = columnValues{ids: make([]int32, 0, full), ends: append(make([]uint32, 0, full+1), 0)}
	full = min(rows, pageBytes/8) + chunk
	c.buffer.int64s, c.buffer.bytes = make([]int64, 0, full), make([]byte, 0, 8*full)
	root := columnRoot{Node: plain}
	var order []*tableColumn
	for _, f := range plain.Fields() {
		x := &tableColumn{columnValues: columnValues{ends: []uint32{0}}}
		c.columns[f.Name()] = x
		order = append(order, x)
		root.fields = append(root.fields, columnField{f, &columnType{f.Type(), x}})
	}
	c.Writer = parquet.NewWriter(w, append(writerOptions(rowsPerGroup), parquet.NewSchema(plain.Name(), root))...)
	for i, x := range c.ColumnWriters() {
		order[i].writer = x
	}
	return c
}

// chunk is after how many rows it is asked whether a page is full.
const chunk = 8192

// present and absent say of chunk rows of a column that may be null that none, or all, are null.
// The values themselves are in the buffer of the column.
var (
	present = slices.Repeat([]parquet.Value{parquet.Int64Value(0).Level(0, 1, 0)}, chunk)
	absent  = slices.Repeat([]parquet.Value{parquet.NullValue().Level(0, 0, 0)}, chunk)
)

// write writes n rows of a column, those of one row group. add appends the values of the rows
// [lo, hi).
func (c *columnWriter) write(name string, n int, add func(x *tableColumn, lo, hi int)) error {
	return c.column(name, n, nil, add)
}

// writeDict writes n rows of a column that has a dictionary. values are those of it.
func (c *columnWriter) writeDict(name string, values *interned, n int, add func(x *tableColumn, lo, hi int)) error {
	x := c.columns[name]
	x.values = values.values
	x.index = slices.Repeat([]int32{-1}, len(x.values))
	return c.column(name, n, nil, add)
}

// writeOptional writes n rows of a column that may be null; all of them are if add is nil.
func (c *columnWriter) writeOptional(name string, n int, add func(x *tableColumn, lo, hi int)) error {
	if add == nil {
		return c.column(name, n, absent, func(*tableColumn, int, int) {})
	}
	return c.column(name, n, present, add)
}

func (c *columnWriter) column(name string, n int, levels []parquet.Value, add func(x *tableColumn, lo, hi int)) error {
	x := c.columns[name]
	x.columnValues, c.buffer = c.buffer, x.columnValues
	defer func() { x.columnValues, c.buffer = c.buffer, x.columnValues }()
	for lo := 0; lo < n; lo += chunk {
		hi := min(lo+chunk, n)
		add(x, lo, hi)
		if _, err := x.writer.WriteRowValues(levels[:min(len(levels), hi-lo)]); err != nil {
			return err
		}
	}
	return x.writer.Flush()
}

// interned numbers the values of a dictionary: strings or int32.
type interned struct {
	strings map[string]uint32
	ints    map[int32]uint32
	values  []parquet.Value
}

// string returns the number of a string.
func (n *interned) string(v string) uint32 { return numberOf(n, &n.strings, v) }

// int returns the number of an int32.
func (n *interned) int(v int32) uint32 { return numberOf(n, &n.ints, v) }

func numberOf[T comparable](n *interned, numbers *map[T]uint32, v T) uint32 {
	k, ok := (*numbers)[v]
	if !ok {
		if *numbers == nil {
			*numbers = make(map[T]uint32)
		}
		k = uint32(len(n.values))
		(*numbers)[v] = k
		n.values = append(n.values, parquet.ValueOf(v))
	}
	return k
}

// id appends a value of the dictionary.
func (x *tableColumn) id(n uint32) {
	if x.index[n] < 0 {
		x.dict.Insert(x.index[n:n+1], x.values[n:n+1])
	}
	x.ids = append(x.ids, x.index[n])
}

// int appends a number.
func (x *tableColumn) int(n int64) { x.int64s = append(x.int64s, n) }

// string appends a byte string.
func (x *tableColumn) string(b []byte) {
	x.bytes = append(x.bytes, b...)
	x.ends = append(x.ends, uint32(len(x.bytes)))
}

// A columnRoot is a schema whose columns have other types.
type columnRoot struct {
	parquet.Node
	fields []parquet.Field
}

func (r columnRoot) Fields() []parquet.Field { return r.fields }

type columnField struct {
	parquet.Field
	typ parquet.Type
}

func (f columnField) Type() parquet.Type { return f.typ }

// A columnType is the type of a column that is filled from outside.
type columnType struct {
	parquet.Type
	to *tableColumn
}

func (t *columnType) NewDictionary(columnIndex, n int, data encoding.Values) parquet.Dictionary {
	t.to.dict = t.Type.NewDictionary(columnIndex, n, data)
	return &columnDictionary{t.to.dict, t.to}
}

func (t *columnType) NewColumnBuffer(columnIndex, n int) parquet.ColumnBuffer {
	return &columnBuffer{t.Type.NewColumnBuffer(columnIndex, 0), t.Type, t.to, columnIndex}
}

// A columnDictionary makes buffers of indices that are filled from outside.
type columnDictionary struct {
	parquet.Dictionary
	to *tableColumn
}

func (d *columnDictionary) Type() parquet.Type { return &columnType{d.Dictionary.Type(), d.to} }

func (d *columnDictionary) Reset() {
	d.Dictionary.Reset()
	for i := range d.to.index {
		d.to.index[i] = -1
	}
}

// A columnBuffer is the buffer of a column: its embedded one stays empty.
type columnBuffer struct {
	parquet.ColumnBuffer
	typ         parquet.Type
	to          *tableColumn
	columnIndex int
}

// WriteValues writes nothing: the values are in the buffer already.
func (b *columnBuffer) WriteValues(none []parquet.Value) (int, error) { return len(none), nil }

func (b *columnBuffer) Len() int {
	return len(b.to.ids) + len(b.to.int64s) + len(b.to.ends) - 1
}

func (b *columnBuffer) Size() int64 {
	return int64(4*len(b.to.ids) + 8*len(b.to.int64s) + len(b.to.bytes) + 4*(len(b.to.ends)-1))
}

func (b *columnBuffer) Reset() {
	x := b.to
	x.ids, x.int64s, x.bytes, x.ends = x.ids[:0], x.int64s[:0], x.bytes[:0], x.ends[:1]
}

func (b *columnBuffer) Page() parquet.Page {
	x, n := b.to, b.Len()
	switch {
	case x.dict != nil:
		return &columnPage{b.typ.NewPage(b.columnIndex, n, encoding.Int32Values(x.ids)), b}
	case b.typ.Kind() == parquet.Int64:
		return b.typ.NewPage(b.columnIndex, n, encoding.Int64Values(x.int64s))
	case b.typ.Kind() == parquet.ByteArray:
		return b.typ.NewPage(b.columnIndex, n, encoding.ByteArrayValues(x.bytes, x.ends))
	}
	panic(fmt.Sprintf("tables: a column of %v", b.typ))
}

// A columnPage is a page of a dictionary's indices.
type columnPage struct {
	parquet.Page
	b *columnBuffer
}

// Bounds compares each value once, and not in each row.
func (p *columnPage) Bounds() (least, greatest parquet.Value, ok bool) {
	dict := p.b.to.dict
	met := make([]bool, dict.Len())
	for _, i := range p.b.to.ids {
		met[i] = true
	}
	for i := range met {
		if !met[i] {
			continue
		}
		v := dict.Index(int32(i))
		if !ok || p.b.typ.Compare(v, least) < 0 {
			least = v
		}
		if !ok || p.b.typ.Compare(v, greatest) > 0 {
			greatest = v
		}
		ok = true
	}
	return least, greatest, ok
}
