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
// numbers, or the numbers of values that it has interned, to buffers of its own; parquet-go
// makes pages of them. A table of a million changes takes a third of the time.
//
// It works by types that replace those of the schema's columns. [parquet.Type] is where
// parquet-go asks for the buffer of a column, and for its dictionary.
type columnWriter struct {
	*parquet.Writer
	columns map[string]*tableColumn
	order   []*tableColumn
	rows    int // of this row group
}

// A tableColumn is a column of a table that is being written. One of the slices of values is used,
// by its kind.
type tableColumn struct {
	ids    []int32  // a dictionary: the numbers of values
	int64s []int64  // 64 bits, signed or not
	bytes  []byte   // all byte strings, one behind the other
	ends   []uint32 // and where they end; the first is 0

	optional []parquet.Value // a column that may be null

	values []parquet.Value // by number: the values of a dictionary
	index  []int32         // by number: where this row group's dictionary has it; -1: not yet
	dict   parquet.Dictionary
	writer *parquet.ColumnWriter
}

// newColumnWriter returns a writer of tables of T, a struct without lists.
func newColumnWriter[T any](w io.Writer) *columnWriter {
	plain := parquet.SchemaOf(new(T))
	c := &columnWriter{columns: make(map[string]*tableColumn)}
	root := columnRoot{Node: plain}
	for _, f := range plain.Fields() {
		x := &tableColumn{ends: []uint32{0}}
		c.columns[f.Name()] = x
		c.order = append(c.order, x)
		if !f.Optional() {
			f = columnField{f, &columnType{f.Type(), x}}
		}
		root.fields = append(root.fields, f)
	}
	c.Writer = parquet.NewWriter(w, append(writerOptions(), parquet.NewSchema(plain.Name(), root))...)
	for i, x := range c.ColumnWriters() {
		c.order[i].writer = x
	}
	return c
}

// column returns the column of a name. values are those of its dictionary, if it has one.
func (c *columnWriter) column(name string, values *interned) *tableColumn {
	x := c.columns[name]
	if values != nil {
		x.values = values.values
		x.index = slices.Repeat([]int32{-1}, len(x.values))
	}
	return x
}

// interned numbers the values of a dictionary.
type interned struct {
	numbers map[any]uint32
	values  []parquet.Value
}

// number returns the number of a string or an int32.
func (n *interned) number(v any) uint32 {
	k, ok := n.numbers[v]
	if !ok {
		if n.numbers == nil {
			n.numbers = make(map[any]uint32)
		}
		k = uint32(len(n.values))
		n.numbers[v] = k
		n.values = append(n.values, parquet.ValueOf(v))
	}
	return k
}

// wrote writes pages of those columns whose buffers are full, after n rows were appended to
// each of them.
func (c *columnWriter) wrote(n int) error {
	for _, x := range c.order {
		if _, err := x.writer.WriteRowValues(x.optional); err != nil {
			return err
		}
		x.optional = x.optional[:0]
	}
	if c.rows += n; c.rows >= rowsPerGroup {
		c.rows = 0
		return c.Flush()
	}
	return nil
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

// null appends a number to a column that may be null, null for 0.
func (x *tableColumn) null(n int64) {
	if n == 0 {
		x.optional = append(x.optional, parquet.NullValue().Level(0, 0, 0))
	} else {
		x.optional = append(x.optional, parquet.Int64Value(n).Level(0, 1, 0))
	}
}

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
