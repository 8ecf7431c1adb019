// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"reflect"
	"slices"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// A pageFile is a Parquet file of which the caller makes the pages. parquet-go's own writer holds the
// pages of a row group in memory until it writes them. Here a page is written when it is complete, so the
// columns of a row group are written one after the other, in the order of the schema:
//
//	PAR1 │ dictionary page │ data page │ data page │ ... │ indexes of pages │ metadata │ PAR1
//	     │ column of a row group                   │ ... │
//
// The format is that of parquet.thrift and README.md of parquet-format.
type pageFile struct {
	w       io.Writer
	at      int64 // how many bytes were written
	meta    format.FileMetaData
	fields  []pageField // the columns
	group   format.RowGroup
	indexes []pageIndex // of all columns of all row groups
}

// A pageField is a column of a schema.
type pageField struct {
	name  string
	path  []string
	typ   parquet.Type
	codec compress.Codec
}

// A pageIndex is the indexes of the pages of a column.
type pageIndex struct {
	column  format.ColumnIndex
	offsets format.OffsetIndex
}

// A pageSchema is what a pageFile needs of a schema.
type pageSchema struct {
	meta   format.FileMetaData // of a file without rows
	fields []pageField
}

var pageSchemas sync.Map // by the type of rows

// schemaFor returns the schema of a table of T.
func schemaFor[T any]() (*pageSchema, error) {
	key := reflect.TypeFor[T]()
	if s, ok := pageSchemas.Load(key); ok {
		return s.(*pageSchema), nil
	}
	var file bytes.Buffer
	if err := newWriter[T](&file, 0).Close(); err != nil {
		return nil, err
	}
	in, err := parquet.OpenFile(bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		return nil, err
	}
	s := &pageSchema{meta: *in.Metadata()}
	schema := parquet.SchemaOf(new(T))
	for _, path := range schema.Columns() {
		leaf, ok := schema.Lookup(path...)
		if !ok {
			return nil, fmt.Errorf("no column %q", path)
		}
		f := pageField{path[0], path, leaf.Node.Type(), leaf.Node.Compression()}
		switch {
		case f.codec == nil:
			f.codec = codec
		case f.codec.CompressionCodec() == format.Snappy:
			f.codec = &textCodec{}
		}
		s.fields = append(s.fields, f)
	}
	pageSchemas.Store(key, s)
	return s, nil
}

// newPageFile returns a file of a table of T.
func newPageFile[T any](w io.Writer) (*pageFile, error) {
	s, err := schemaFor[T]()
	if err != nil {
		return nil, err
	}
	f := &pageFile{w: w, meta: s.meta, fields: s.fields}
	f.meta.RowGroups = nil
	return f, f.write([]byte(magic))
}

const magic = "PAR1"

func (f *pageFile) write(b []byte) error {
	n, err := f.w.Write(b)
	f.at += int64(n)
	return err
}

// A pageColumn is a column of a row group that is being written.
type pageColumn struct {
	*pageField
	file  *pageFile
	meta  format.ColumnMetaData
	index pageIndex
	rows  int64
	// held is set if the column before this one is not complete yet: then pages has what is written later.
	held   bool
	pages  [][]byte
	packed *[]byte // buffer
	// The bounds of the pages.
	least, greatest parquet.Value
}

// column begins the column of this name. If held is set, its pages are kept in memory until end: then the
// columns before it need not have ended, and it can be written while they are. packed is a buffer that no
// other column uses meanwhile.
func (f *pageFile) column(name string, held bool, packed *[]byte) *pageColumn {
	i := slices.IndexFunc(f.fields, func(f pageField) bool { return f.name == name })
	c := &pageColumn{pageField: &f.fields[i], file: f, held: held, packed: packed}
	field := c.pageField
	c.meta = format.ColumnMetaData{Type: format.Type(field.typ.Kind()), PathInSchema: field.path, Codec: field.codec.CompressionCodec(), DataPageOffset: -1}
	return c
}

// A dataPage is a data page of a column.
type dataPage struct {
	rows, values, nulls      int
	repetitions, definitions []byte // encoded levels
	encoding                 format.Encoding
	encoded                  []byte        // the values
	packed                   []byte        // encoded, compressed; nil: page compresses it
	least, greatest          parquet.Value // of the values; null if there is none
}

// dictionary writes the dictionary of a column: n values, in the encoding PLAIN.
func (c *pageColumn) dictionary(encoded []byte, n int) error {
	packed, err := c.compress(encoded)
	if err != nil {
		return err
	}
	h := format.PageHeader{Type: format.DictionaryPage, UncompressedPageSize: int32(len(encoded)), CompressedPageSize: int32(len(packed)),
		CRC: int32(crc32.ChecksumIEEE(packed))}
	h.DictionaryPageHeader = thrift.New(format.DictionaryPageHeader{NumValues: int32(n), Encoding: format.Plain})
	c.uses(format.DictionaryPage, format.Plain)
	_, err = c.writePage(&h, packed)
	c.meta.DictionaryPageOffset = -1 // end sets it
	return err
}

// page writes a data page.
func (c *pageColumn) page(p *dataPage) error {
	packed := p.packed
	if packed == nil {
		var err error
		if packed, err = c.compress(p.encoded); err != nil {
			return err
		}
	}
	levels := len(p.repetitions) + len(p.definitions)
	h := format.PageHeader{Type: format.DataPageV2, UncompressedPageSize: int32(levels + len(p.encoded)), CompressedPageSize: int32(levels + len(packed))}
	for _, b := range [...][]byte{p.repetitions, p.definitions, packed} {
		h.CRC = int32(crc32.Update(uint32(h.CRC), crc32.IEEETable, b))
	}
	h.DataPageHeaderV2 = thrift.New(format.DataPageHeaderV2{NumValues: int32(p.values), NumNulls: int32(p.nulls), NumRows: int32(p.rows), Encoding: p.encoding,
		DefinitionLevelsByteLength: int32(len(p.definitions)), RepetitionLevelsByteLength: int32(len(p.repetitions)),
		IsCompressed: thrift.New(c.codec.CompressionCodec() != format.Uncompressed)})
	if len(p.definitions) > 0 && !slices.Contains(c.meta.Encoding, format.RLE) {
		c.meta.Encoding = append(c.meta.Encoding, format.RLE)
	}
	c.uses(format.DataPageV2, p.encoding)
	at := c.meta.TotalCompressedSize
	size, err := c.writePage(&h, p.repetitions, p.definitions, packed)
	if err != nil {
		return err
	}
	if c.meta.DataPageOffset < 0 {
		c.meta.DataPageOffset = at
	}
	c.meta.NumValues += int64(p.values)
	c.meta.Statistics.NullCount += int64(p.nulls)
	c.index.offsets.PageLocations = append(c.index.offsets.PageLocations, format.PageLocation{Offset: at, CompressedPageSize: int32(size), FirstRowIndex: c.rows})
	c.rows += int64(p.rows)
	c.bound(p)
	return nil
}

// bound notes the bounds of a page.
func (c *pageColumn) bound(p *dataPage) {
	x, empty := &c.index.column, p.values == p.nulls
	x.NullPages, x.NullCounts = append(x.NullPages, empty), append(x.NullCounts, int64(p.nulls))
	if empty {
		x.MinValues, x.MaxValues = append(x.MinValues, []byte{}), append(x.MaxValues, []byte{})
		return
	}
	least, greatest := append([]byte{}, p.least.Bytes()...), append([]byte{}, p.greatest.Bytes()...)
	x.MinValues, x.MaxValues = append(x.MinValues, notAbove(least)), append(x.MaxValues, notBelow(greatest))
	if c.least.IsNull() || c.typ.Compare(p.least, c.least) < 0 {
		c.least, c.meta.Statistics.MinValue = p.least.Clone(), least
	}
	if c.greatest.IsNull() || c.typ.Compare(p.greatest, c.greatest) > 0 {
		c.greatest, c.meta.Statistics.MaxValue = p.greatest.Clone(), greatest
	}
}

// longBound is the most bytes that a bound of a page has in the index.
const longBound = 16

// notAbove returns a short bound that is not above b.
func notAbove(b []byte) []byte { return b[:min(len(b), longBound)] }

// notBelow returns a bound that is not below b, and short if there is such a one.
func notBelow(b []byte) []byte {
	if len(b) <= longBound {
		return b
	}
	short := slices.Clone(b[:longBound])
	for i := longBound - 1; i >= 0; i-- {
		if short[i]++; short[i] != 0 {
			return short
		}
	}
	return b
}

// uses notes the encoding of a page.
func (c *pageColumn) uses(typ format.PageType, e format.Encoding) {
	if !slices.Contains(c.meta.Encoding, e) {
		c.meta.Encoding = append(c.meta.Encoding, e)
	}
	stats := &c.meta.EncodingStats
	if n := len(*stats); n == 0 || (*stats)[n-1].PageType != typ || (*stats)[n-1].Encoding != e {
		*stats = append(*stats, format.PageEncodingStats{PageType: typ, Encoding: e})
	}
	(*stats)[len(*stats)-1].Count++
}

// compress compresses the content of a page. The result is valid until the next call of a column with the
// same buffer.
func (c *pageColumn) compress(content []byte) ([]byte, error) {
	if c.codec.CompressionCodec() == format.Uncompressed {
		return content, nil
	}
	var err error
	*c.packed, err = c.codec.Encode((*c.packed)[:0], content)
	return *c.packed, err
}

// writePage writes a page and returns its size.
func (c *pageColumn) writePage(h *format.PageHeader, content ...[]byte) (size int64, err error) {
	header, err := thrift.Marshal(new(thrift.CompactProtocol), h)
	if err != nil {
		return 0, err
	}
	pieces := append([][]byte{header}, content...)
	if c.held {
		pieces = [][]byte{slices.Concat(pieces...)}
		c.pages = append(c.pages, pieces...)
	}
	for _, b := range pieces {
		if size += int64(len(b)); c.held {
			continue
		}
		if err := c.file.write(b); err != nil {
			return 0, err
		}
	}
	c.meta.TotalCompressedSize += size
	c.meta.TotalUncompressedSize += int64(len(header)) + int64(h.UncompressedPageSize)
	return size, nil
}

// end ends the column, which is the next one of the row group.
func (c *pageColumn) end() error {
	f := c.file
	if next := &f.fields[len(f.group.Columns)]; next != c.pageField {
		panic(fmt.Sprintf("column %s is written in place of %s", c.name, next.name))
	}
	start := f.at - c.meta.TotalCompressedSize
	if c.held {
		start = f.at
		for _, b := range c.pages {
			if err := f.write(b); err != nil {
				return err
			}
		}
	}
	c.meta.DataPageOffset += start
	if c.meta.DictionaryPageOffset != 0 {
		c.meta.DictionaryPageOffset = start
	}
	for i := range c.index.offsets.PageLocations {
		c.index.offsets.PageLocations[i].Offset += start
	}
	c.index.column.BoundaryOrder = c.order()
	if len(f.group.Columns) == 0 {
		f.group.FileOffset, f.group.NumRows = start, c.rows
	}
	f.group.TotalByteSize += c.meta.TotalUncompressedSize
	f.group.TotalCompressedSize += c.meta.TotalCompressedSize
	f.group.Columns = append(f.group.Columns, format.ColumnChunk{MetaData: c.meta})
	f.indexes = append(f.indexes, c.index)
	return nil
}

// order returns in which order the bounds of the pages are, as far as numbers show it.
func (c *pageColumn) order() format.BoundaryOrder {
	x := &c.index.column
	if len(x.MinValues) < 2 || c.typ.Kind() != parquet.Int64 || slices.Contains(x.NullPages, true) {
		return format.Unordered
	}
	for i := 1; i < len(x.MinValues); i++ {
		for _, v := range [...][][]byte{x.MinValues, x.MaxValues} {
			if c.typ.Compare(parquet.Int64.Value(v[i-1]), parquet.Int64.Value(v[i])) > 0 {
				return format.Unordered
			}
		}
	}
	return format.Ascending
}

// endGroup ends a row group.
func (f *pageFile) endGroup() {
	f.group.Ordinal = int16(len(f.meta.RowGroups))
	f.meta.RowGroups = append(f.meta.RowGroups, f.group)
	f.meta.NumRows += f.group.NumRows
	f.group = format.RowGroup{}
}

// close writes what follows the pages.
func (f *pageFile) close() error {
	marshal := func(v any) (at int64, n int32, err error) {
		b, err := thrift.Marshal(new(thrift.CompactProtocol), v)
		if err != nil {
			return 0, 0, err
		}
		at = f.at
		return at, int32(len(b)), f.write(b)
	}
	chunk := func(i int) *format.ColumnChunk {
		return &f.meta.RowGroups[i/len(f.fields)].Columns[i%len(f.fields)]
	}
	var err error
	for i := range f.indexes {
		c := chunk(i)
		if c.ColumnIndexOffset, c.ColumnIndexLength, err = marshal(&f.indexes[i].column); err != nil {
			return err
		}
	}
	for i := range f.indexes {
		c := chunk(i)
		if c.OffsetIndexOffset, c.OffsetIndexLength, err = marshal(&f.indexes[i].offsets); err != nil {
			return err
		}
	}
	_, n, err := marshal(&f.meta)
	if err != nil {
		return err
	}
	return f.write(append(binary.LittleEndian.AppendUint32(nil, uint32(n)), magic...))
}
