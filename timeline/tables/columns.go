// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"io"
	"slices"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding"
)

// A columnWriter writes a table column by column. parquet-go's own writer splits rows by
// reflection and looks up each value of a dictionary in a hash table. Here the caller appends
// plain numbers, or a dictionary and the index of each row's value in it; parquet-go makes the
// pages. A row group is written one column after the other, so all columns share one buffer.
//
// The types of the schema's columns are replaced: parquet-go asks a [parquet.Type] for the buffer
// of a column and for its dictionary.
type columnWriter struct {
	*parquet.Writer
	columns map[string]*tableColumn
	buffer  columnValues
	known   []int32 // buffers of writeDict
	index   []int32
}

// columnValues are values of one column. One of the slices is used, by the column's kind.
type columnValues struct {
	ids    []int32 // a dictionary: the numbers of values
	int64s []int64 // 64 bits, signed or not
}

// A tableColumn is a column of a table that is being written.
type tableColumn struct {
	columnValues
	dict            *columnDictionary // nil if the column has none
	least, greatest parquet.Value     // of the dictionary
	writer          *parquet.ColumnWriter
}

// newColumnWriter returns a writer of a table of T, with so many rows. T is a struct without lists
// whose columns have dictionaries, or are numbers of 64 bits.
func newColumnWriter[T any](w io.Writer, rows int) *columnWriter {
	plain := parquet.SchemaOf(new(T))
	c := &columnWriter{columns: make(map[string]*tableColumn)}
	// A page, and the rows after which it is known to be full.
	c.buffer.ids = make([]int32, 0, min(rows, pageBytes/4)+chunk)
	c.buffer.int64s = make([]int64, 0, min(rows, pageBytes/8)+chunk)
	root := columnRoot{Node: plain}
	var order []*tableColumn
	for _, f := range plain.Fields() {
		x := &tableColumn{}
		c.columns[f.Name()] = x
		order = append(order, x)
		root.fields = append(root.fields, columnField{f, &columnType{f.Type(), x}})
	}
	c.Writer = parquet.NewWriter(w, append(writerOptions(rowsPerGroup), parquet.NewSchema(plain.Name(), root), parquet.Compression(&repeatedCodec{Codec: codec}))...)
	for i, x := range c.ColumnWriters() {
		order[i].writer = x
	}
	return c
}

// chunk is the number of rows after which parquet-go checks whether a page is full.
const chunk = 8192

// present and absent return levels for chunk rows of a column that may be null: none of the rows
// is null, or all are. The values themselves are in the buffer of the column. The levels are made
// when the first table is written: most runs of the program write none.
var (
	present = sync.OnceValue(func() []parquet.Value {
		return slices.Repeat([]parquet.Value{parquet.Int64Value(0).Level(0, 1, 0)}, chunk)
	})
	absent = sync.OnceValue(func() []parquet.Value {
		return slices.Repeat([]parquet.Value{parquet.NullValue().Level(0, 0, 0)}, chunk)
	})
)

// write writes n rows of a column, those of one row group. add appends the values of the rows
// [lo, hi).
func (c *columnWriter) write(name string, n int, add func(x *tableColumn, lo, hi int)) error {
	return c.column(name, n, nil, add)
}

// writeDict writes the rows of a column that has a dictionary. A row refers to something that many
// rows share, such as a form; number returns the index in values of that thing's value.
func (c *columnWriter) writeDict(name string, rows *dictRows, values *interned, number func(i uint32) uint32) error {
	x := c.columns[name]
	c.known = slices.Grow(c.known[:0], values.len())[:values.len()] // by number: where the dictionary has it, plus 1
	clear(c.known)
	c.index = slices.Grow(c.index[:0], rows.of)[:rows.of] // by what rows refer to: where the dictionary has its value
	var picked []uint32                                   // the numbers of the dictionary's values
	for _, i := range rows.used {
		k := number(i)
		if c.known[k] == 0 {
			picked = append(picked, k)
			c.known[k] = int32(len(picked))
		}
		c.index[i] = c.known[k] - 1
	}
	x.setDictionary(values, picked)
	return c.column(name, len(rows.rows), nil, func(x *tableColumn, lo, hi int) {
		n := len(x.ids)
		x.ids = x.ids[:n+hi-lo]
		if len(picked) == 1 { // as of most columns of most recordings
			clear(x.ids[n:])
			return
		}
		for i, r := range rows.rows[lo:hi] {
			x.ids[n+i] = c.index[r]
		}
	})
}

// setDictionary makes some of the interned values the dictionary of the row group.
func (x *tableColumn) setDictionary(values *interned, picked []uint32) {
	typ := x.dict.plain
	var all encoding.Values
	var value func(k uint32) parquet.Value
	less := func(a, b uint32) bool { return typ.Compare(value(a), value(b)) < 0 }
	switch typ.Kind() {
	case parquet.ByteArray:
		var b []byte
		ends := append(make([]uint32, 0, len(picked)+1), 0)
		for _, k := range picked {
			b = append(b, values.strings[k]...)
			ends = append(ends, uint32(len(b)))
		}
		all, value = encoding.ByteArrayValues(b, ends), func(k uint32) parquet.Value { return parquet.ValueOf(values.strings[k]) }
		less = func(a, b uint32) bool { return values.strings[a] < values.strings[b] }
	case parquet.Int64:
		v := make([]int64, len(picked))
		for i, k := range picked {
			v[i] = values.numbers[k]
		}
		all, value = encoding.Int64Values(v), func(k uint32) parquet.Value { return parquet.Int64Value(values.numbers[k]) }
	case parquet.Int32:
		v := make([]int32, len(picked))
		for i, k := range picked {
			v[i] = int32(values.numbers[k])
		}
		all, value = encoding.Int32Values(v), func(k uint32) parquet.Value { return parquet.Int32Value(int32(values.numbers[k])) }
	}
	x.dict.Dictionary = typ.NewDictionary(x.dict.columnIndex, len(picked), all)
	least, greatest := picked[0], picked[0]
	for _, k := range picked[1:] {
		if less(k, least) {
			least = k
		}
		if less(greatest, k) {
			greatest = k
		}
	}
	x.least, x.greatest = value(least), value(greatest)
}

// dictRows are rows whose values come from things that several rows share, such as forms.
type dictRows struct {
	rows []uint32 // index of the thing that each row refers to
	of   int      // how many things there are
	used []uint32 // the things that rows refer to, in the order of their first row
}

// groupBytes is about the most bytes that the dictionaries of a row group have. A page has 2 GiB
// at most.
const groupBytes = 64 << 20

// newDictRows returns the first rows of all, as many as fit into a row group. of is the number of
// things, and size returns about how many bytes the values of thing i have.
func newDictRows(all []uint32, of int, size func(i uint32) int) *dictRows {
	d := &dictRows{rows: all[:min(len(all), rowsPerGroup)], of: of}
	met := make([]bool, of)
	bytes := 0
	for n, r := range d.rows {
		if met[r] {
			continue
		}
		if bytes += size(r); bytes > groupBytes && n > 0 {
			d.rows = d.rows[:n]
			break
		}
		met[r] = true
		d.used = append(d.used, r)
	}
	return d
}

// writeOptional writes n rows of a column that may be null. All rows are null if add is nil.
func (c *columnWriter) writeOptional(name string, n int, add func(x *tableColumn, lo, hi int)) error {
	if add == nil {
		return c.column(name, n, absent(), func(*tableColumn, int, int) {})
	}
	return c.column(name, n, present(), add)
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

// A repeatedCodec compresses a page that equals the one before only once: offsets have the same
// indices of their dictionary as addresses. It serves one goroutine.
type repeatedCodec struct {
	compress.Codec
	last, out []byte // the last page, before and after
}

func (c *repeatedCodec) Encode(dst, src []byte) ([]byte, error) {
	if len(src) > 0 && bytes.Equal(src, c.last) {
		return append(dst[:0], c.out...), nil
	}
	out, err := c.Codec.Encode(dst, src)
	c.last, c.out = append(c.last[:0], src...), append(c.out[:0], out...)
	return out, err
}

// interned numbers the values of a dictionary: strings or numbers.
type interned struct {
	strings   []string
	numbers   []int64
	ofStrings map[string]uint32
	ofNumbers map[int64]uint32
}

func (n *interned) len() int { return len(n.strings) + len(n.numbers) }

// string returns the number of v, which it adds if it is new.
func (n *interned) string(v string) uint32 {
	k, ok := n.ofStrings[v]
	if !ok {
		k = n.add(v)
	}
	return k
}

// bytes is string for bytes, which it copies.
func (n *interned) bytes(v []byte) uint32 {
	k, ok := n.ofStrings[string(v)]
	if !ok {
		k = n.add(string(v))
	}
	return k
}

func (n *interned) add(v string) uint32 {
	if n.ofStrings == nil {
		n.ofStrings = make(map[string]uint32)
	}
	k := uint32(len(n.strings))
	n.ofStrings[v] = k
	n.strings = append(n.strings, v)
	return k
}

// number returns the number of v, which it adds if it is new.
func (n *interned) number(v int64) uint32 {
	k, ok := n.ofNumbers[v]
	if !ok {
		if n.ofNumbers == nil {
			n.ofNumbers = make(map[int64]uint32)
		}
		k = uint32(len(n.numbers))
		n.ofNumbers[v] = k
		n.numbers = append(n.numbers, v)
	}
	return k
}

// int appends a number.
func (x *tableColumn) int(n int64) { x.int64s = append(x.int64s, n) }

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

// A columnType is the type of a column whose buffer a columnWriter fills.
type columnType struct {
	parquet.Type
	to *tableColumn
}

func (t *columnType) NewDictionary(columnIndex, n int, data encoding.Values) parquet.Dictionary {
	t.to.dict = &columnDictionary{t.Type.NewDictionary(columnIndex, n, data), t.Type, columnIndex, t.to}
	return t.to.dict
}

func (t *columnType) NewColumnBuffer(columnIndex, n int) parquet.ColumnBuffer {
	return &columnBuffer{t.Type.NewColumnBuffer(columnIndex, 0), t.Type, t.to, columnIndex}
}

// A columnDictionary is a dictionary that setDictionary replaces for each row group. Its buffers
// of indices are filled by a columnWriter.
type columnDictionary struct {
	parquet.Dictionary
	plain       parquet.Type // of the values
	columnIndex int
	to          *tableColumn
}

func (d *columnDictionary) Type() parquet.Type { return &columnType{d.Dictionary.Type(), d.to} }

// A columnBuffer is the buffer of a column. The embedded buffer stays empty.
type columnBuffer struct {
	parquet.ColumnBuffer
	typ         parquet.Type
	to          *tableColumn
	columnIndex int
}

// WriteValues writes nothing: the values are in the buffer already.
func (b *columnBuffer) WriteValues(none []parquet.Value) (int, error) { return len(none), nil }

func (b *columnBuffer) Len() int { return len(b.to.ids) + len(b.to.int64s) }

func (b *columnBuffer) Size() int64 { return int64(4*len(b.to.ids) + 8*len(b.to.int64s)) }

func (b *columnBuffer) Reset() { b.to.ids, b.to.int64s = b.to.ids[:0], b.to.int64s[:0] }

func (b *columnBuffer) Page() parquet.Page {
	if b.to.dict != nil {
		return &columnPage{b.typ.NewPage(b.columnIndex, b.Len(), encoding.Int32Values(b.to.ids)), b.to}
	}
	return b.typ.NewPage(b.columnIndex, b.Len(), encoding.Int64Values(b.to.int64s))
}

// A columnPage is a page of a dictionary's indices.
type columnPage struct {
	parquet.Page
	column *tableColumn
}

// Bounds returns those of the dictionary: each of its values is in the row group.
func (p *columnPage) Bounds() (least, greatest parquet.Value, ok bool) {
	return p.column.least, p.column.greatest, true
}
