// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"io"
	"iter"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sort"
	"sync"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding"

	"github.com/textreplay/textreplay/internal/memory"
)

// A columnWriter writes a table column by column. parquet-go's own writer splits rows by
// reflection and looks up each value of a dictionary in a hash table. Here the caller gives plain
// numbers, or a dictionary and the index of each row's value in it; parquet-go makes the pages.
//
// The types of the schema's columns are replaced: parquet-go asks a [parquet.Type] for the buffer
// of a column, for its dictionary, and for the encoded values of a page.
type columnWriter struct {
	*parquet.Writer
	columns map[string]*tableColumn
	numbers []int64 // buffers of write and writeTwo
	second  []int64
	known   []uint32 // buffers of writeDict
	index   []uint32
	packed  packedIndices
}

// A tableColumn is a column of a table that is being written.
type tableColumn struct {
	writer *parquet.ColumnWriter
	// The page that is being written: how many rows it has, and the values of a column
	// without a dictionary.
	rows    int
	numbers []int64
	// For a column with a dictionary:
	dict            *columnDictionary // nil if the column has none
	least, greatest parquet.Value     // of the dictionary
	// encode appends the indices of the page's rows, as a page has them.
	encode func(to []byte) []byte
}

// newColumnWriter returns a writer of a table of T. T is a struct without lists whose columns have
// dictionaries, or are numbers of 64 bits.
func newColumnWriter[T any](w io.Writer) *columnWriter {
	plain := parquet.SchemaOf(new(T))
	c := &columnWriter{columns: make(map[string]*tableColumn)}
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

// dictPageRows is the most rows of a page of a column with a dictionary: those of a row group. What
// repeats in a page is compressed, and a page that equals that of the column before is not compressed
// again.
const dictPageRows = 2 << 20

// pageRows is the most rows of a page of another column. It bounds the memory that is needed for a page.
// Pages of differences are no larger if there are more of them. Tests change it.
var pageRows = 1 << 16

// present and absent return levels for rows of a column that may be null: none of the rows is
// null, or all are. The values themselves are in the page. The levels are made when the first
// table is written: most runs of the program write none.
var (
	present = sync.OnceValue(func() []parquet.Value {
		return slices.Repeat([]parquet.Value{parquet.Int64Value(0).Level(0, 1, 0)}, 1<<13)
	})
	absent = sync.OnceValue(func() []parquet.Value {
		return slices.Repeat([]parquet.Value{parquet.NullValue().Level(0, 0, 0)}, 1<<13)
	})
)

// write writes n rows of a column of numbers, those of one row group. values returns those of the
// rows [lo, hi); it may use buffer for them.
func (c *columnWriter) write(name string, n int, values func(buffer []int64, lo, hi int) []int64) error {
	return c.writeNumbers(name, n, nil, values)
}

// writeTwo is write for two columns whose values come together. fill sets those of the rows [lo, hi).
func (c *columnWriter) writeTwo(names [2]string, n int, fill func(one, two []int64, lo, hi int)) error {
	one, two := c.columns[names[0]], c.columns[names[1]]
	c.numbers, c.second = slices.Grow(c.numbers[:0], min(n, pageRows)), slices.Grow(c.second[:0], min(n, pageRows))
	defer func() { one.numbers, two.numbers = nil, nil }()
	for lo := 0; lo < n; lo += pageRows {
		hi := min(lo+pageRows, n)
		one.numbers, two.numbers = c.numbers[:hi-lo], c.second[:hi-lo]
		fill(one.numbers, two.numbers, lo, hi)
		for _, x := range []*tableColumn{one, two} {
			if err := x.pages(hi-lo, pageRows, nil, func(int, int) {}); err != nil {
				return err
			}
		}
	}
	return nil
}

// writeOptional writes n rows of a column that may be null. All rows are null if values is nil.
func (c *columnWriter) writeOptional(name string, n int, values func(buffer []int64, lo, hi int) []int64) error {
	if values == nil {
		return c.writeNumbers(name, n, absent(), func([]int64, int, int) []int64 { return nil })
	}
	return c.writeNumbers(name, n, present(), values)
}

func (c *columnWriter) writeNumbers(name string, n int, levels []parquet.Value, values func(buffer []int64, lo, hi int) []int64) error {
	x := c.columns[name]
	c.numbers = slices.Grow(c.numbers[:0], min(n, pageRows))
	defer func() { x.numbers = nil }()
	return x.pages(n, pageRows, levels, func(lo, hi int) { x.numbers = values(c.numbers[:hi-lo], lo, hi) })
}

// pages writes n rows as pages of at most size rows. fill sets the values of a page, that of the
// rows [lo, hi).
func (x *tableColumn) pages(n, size int, levels []parquet.Value, fill func(lo, hi int)) error {
	for lo := 0; lo < n; lo += size {
		hi := min(lo+size, n)
		fill(lo, hi)
		if x.rows = hi - lo; levels == nil { // the call makes the buffer of the column
			if _, err := x.writer.WriteRowValues(nil); err != nil {
				return err
			}
		} else {
			for left := hi - lo; left > 0; left -= len(levels) {
				if _, err := x.writer.WriteRowValues(levels[:min(len(levels), left)]); err != nil {
					return err
				}
			}
		}
		if err := x.writer.Flush(); err != nil {
			return err
		}
	}
	return nil
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
			c.known[k] = uint32(len(picked))
		}
		c.index[i] = c.known[k] - 1
	}
	x.setDictionary(values, picked)
	return x.pages(rows.n, dictPageRows, nil, func(lo, hi int) {
		x.encode = func(to []byte) []byte {
			if len(picked) == 1 { // as of most columns of most recordings
				return append(to, sameIndex(hi-lo)...)
			}
			return append(to, c.packed.of(rows, lo, hi, c.index, len(picked))...)
		}
	})
}

// setDictionary makes some of the interned values the dictionary of the row group.
func (x *tableColumn) setDictionary(values *interned, picked []uint32) {
	typ := x.dict.plain
	var all encoding.Values
	least, greatest := picked[0], picked[0]
	bounds := func(less func(a, b uint32) bool) {
		for _, k := range picked[1:] {
			if less(k, least) {
				least = k
			}
			if less(greatest, k) {
				greatest = k
			}
		}
	}
	var value func(k uint32) parquet.Value
	switch typ.Kind() {
	case parquet.ByteArray:
		size := 0
		for _, k := range picked {
			size += len(values.strings[k])
		}
		b, ends := make([]byte, 0, size), append(make([]uint32, 0, len(picked)+1), 0)
		for _, k := range picked {
			b = append(b, values.strings[k]...)
			ends = append(ends, uint32(len(b)))
		}
		all, value = encoding.ByteArrayValues(b, ends), func(k uint32) parquet.Value { return parquet.ValueOf(values.strings[k]) }
		bounds(func(a, b uint32) bool { return values.strings[a] < values.strings[b] })
	case parquet.Int64:
		v := make([]int64, len(picked))
		for i, k := range picked {
			v[i] = values.numbers[k]
		}
		all, value = encoding.Int64Values(v), func(k uint32) parquet.Value { return parquet.Int64Value(values.numbers[k]) }
		flip := uint64(0) // makes the order of unsigned numbers that of the column
		if typ.Compare(parquet.Int64Value(-1), parquet.Int64Value(0)) < 0 {
			flip = 1 << 63
		}
		bounds(func(a, b uint32) bool { return uint64(values.numbers[a])^flip < uint64(values.numbers[b])^flip })
	case parquet.Int32:
		v := make([]int32, len(picked))
		for i, k := range picked {
			v[i] = int32(values.numbers[k])
		}
		all, value = encoding.Int32Values(v), func(k uint32) parquet.Value { return parquet.Int32Value(int32(values.numbers[k])) }
		bounds(func(a, b uint32) bool { return typ.Compare(value(a), value(b)) < 0 })
	}
	x.dict.Dictionary = typ.NewDictionary(x.dict.columnIndex, len(picked), all)
	x.least, x.greatest = value(least), value(greatest)
}

// dictRows are rows whose values come from things that several rows share, such as forms.
type dictRows struct {
	n    int         // how many rows
	rows []uint32    // index of the thing that each row refers to; nil if runs has it
	runs []writerRun // by the first row of each
	of   int         // how many things there are
	used []uint32    // the things that rows refer to, in the order of their first row
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
	d.n = len(d.rows)
	return d
}

// newRunRows returns the rows [lo, hi) of all, which are runs, as those of a row group. of is the number
// of things.
func newRunRows(all []writerRun, lo, hi, of int) *dictRows {
	d := &dictRows{n: hi - lo, of: of}
	met := make([]bool, of)
	for i, r := range all {
		if int(r.first) >= hi {
			break
		}
		if i+1 < len(all) && int(all[i+1].first) <= lo {
			continue
		}
		d.runs = append(d.runs, writerRun{uint32(max(int(r.first), lo) - lo), r.writer})
		if !met[r.writer] {
			met[r.writer] = true
			d.used = append(d.used, r.writer)
		}
	}
	return d
}

// indices yields the indices of the rows [lo, hi), in pieces. index has them by what rows refer to.
func (d *dictRows) indices(lo, hi int, index []uint32) iter.Seq[[]uint32] {
	return func(yield func([]uint32) bool) {
		var ids [1 << 12]uint32
		run := sort.Search(len(d.runs), func(i int) bool { return int(d.runs[i].first) > lo }) - 1
		for lo < hi {
			piece := ids[:min(hi-lo, len(ids))]
			if d.rows != nil {
				for i, r := range d.rows[lo:][:len(piece)] {
					piece[i] = index[r]
				}
			}
			for i := 0; i < len(piece) && d.rows == nil; run++ {
				end := len(piece)
				if run+1 < len(d.runs) {
					end = min(end, int(d.runs[run+1].first)-lo)
				}
				id := index[d.runs[run].writer]
				for ; i < end; i++ {
					piece[i] = id
				}
				if end == len(piece) {
					break
				}
			}
			if !yield(piece) {
				return
			}
			lo += len(piece)
		}
	}
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
	ofStrings numberTable // of those that string has added, and of long ones
	ofShort   numberTable // of those that bytes has added and that are short
	keys      []uint64    // by number, if bytes adds strings: shortKey, 0 for long ones
	ofNumbers map[int64]uint32
}

func (n *interned) len() int { return len(n.strings) + len(n.numbers) }

// reserve makes room for so many strings.
func (n *interned) reserve(strings int) {
	n.strings = make([]string, 0, strings)
	n.ofStrings.reserve(strings)
}

// reserveShort makes room for so many strings, nearly all of which are short ones that bytes adds.
func (n *interned) reserveShort(strings int) {
	n.strings, n.keys = make([]string, 0, strings), make([]uint64, 0, strings)
	n.ofShort.reserve(strings)
}

// string returns the number of v, which it adds if it is new.
func (n *interned) string(v string) uint32 {
	hash := maphash.String(hashSeed, v)
	for slot := n.ofStrings.first(hash); ; slot = n.ofStrings.next(slot) {
		k, ok := n.ofStrings.at(slot, hash)
		if !ok {
			k = uint32(len(n.strings))
			n.strings = append(n.strings, v)
			n.ofStrings.put(slot, hash, k)
			return k
		}
		if k != otherHash && n.strings[k] == v {
			return k
		}
	}
}

// bytes returns the number of v, of which it adds a copy if it is new. It is for values for which
// string is never called.
func (n *interned) bytes(v []byte) uint32 {
	if len(v) > maxShort {
		k := n.string(string(v))
		for len(n.keys) < len(n.strings) {
			n.keys = append(n.keys, 0)
		}
		return k
	}
	key := shortKey(v)
	hash := key * hashFactor
	hash ^= hash >> 32
	for slot := n.ofShort.first(hash); ; slot = n.ofShort.next(slot) {
		k, ok := n.ofShort.at(slot, hash)
		if !ok {
			k = uint32(len(n.strings))
			n.strings, n.keys = append(n.strings, string(v)), append(n.keys, key)
			n.ofShort.put(slot, hash, k)
			return k
		}
		if k != otherHash && n.keys[k] == key {
			return k
		}
	}
}

// maxShort is the most bytes of a string that fits into a word with its length.
const maxShort = 7

// shortKey returns a number that only v has among the strings of at most maxShort bytes.
func shortKey(v []byte) uint64 { return wordOf(v) | uint64(len(v))<<(8*maxShort) }

// No recording can be made whose names or bytes collide.
var (
	hashSeed   = maphash.MakeSeed()
	hashFactor = rand.Uint64() | 1
)

// A numberTable finds numbers by the hashes of what they stand for: a hash table with open addressing,
// which is faster than a map. A slot has a part of the hash, and 1 + the number; 0 is free.
type numberTable struct {
	slots []uint64
	used  int
}

// otherHash is what at returns for a slot of another hash.
const otherHash = 1<<32 - 1

// reserve makes room for so many numbers.
func (t *numberTable) reserve(numbers int) {
	n := 2 << bits.Len(uint(max(numbers, 1)-1))
	t.slots = memory.Make[uint64](n)[:n]
}

// first returns the slot at which the search for a hash begins, and next the one after it.
func (t *numberTable) first(hash uint64) int {
	if 2*t.used >= len(t.slots) {
		t.grow()
	}
	return int(hash) & (len(t.slots) - 1)
}

func (t *numberTable) next(slot int) int { return (slot + 1) & (len(t.slots) - 1) }

// at returns the number in a slot, otherHash if it is of another hash. ok is false if it is free.
func (t *numberTable) at(slot int, hash uint64) (number uint32, ok bool) {
	v := t.slots[slot]
	if v == 0 {
		return 0, false
	}
	if uint32(v>>32) != uint32(hash) {
		return otherHash, true
	}
	return uint32(v) - 1, true
}

// put puts a number into a free slot.
func (t *numberTable) put(slot int, hash uint64, number uint32) {
	t.slots[slot] = uint64(uint32(hash))<<32 | uint64(number+1)
	t.used++
}

// grow doubles the table.
func (t *numberTable) grow() {
	was := t.slots
	t.slots = make([]uint64, max(1<<8, 2*len(was)))
	for _, v := range was {
		if v == 0 {
			continue
		}
		slot := int(v>>32) & (len(t.slots) - 1)
		for t.slots[slot] != 0 {
			slot = t.next(slot)
		}
		t.slots[slot] = v
	}
}

// number returns the number of v, which it adds if it is new.
func (n *interned) number(v int64) uint32 {
	k, ok := n.ofNumbers[v]
	if !ok {
		if n.ofNumbers == nil {
			n.ofNumbers = make(map[int64]uint32)
		}
		k = n.newNumber(v)
		n.ofNumbers[v] = k
	}
	return k
}

// newNumber adds v, which no call of number may ask for, and returns its number.
func (n *interned) newNumber(v int64) uint32 {
	n.numbers = append(n.numbers, v)
	return uint32(len(n.numbers) - 1)
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

// A compressedField is a column that has a codec of its own.
type compressedField struct {
	parquet.Field
	codec compress.Codec
}

func (f compressedField) Compression() compress.Codec { return f.codec }

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

// A columnDictionary is a dictionary that setDictionary replaces for each row group.
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

// WriteValues writes nothing: the page has its values already.
func (b *columnBuffer) WriteValues(none []parquet.Value) (int, error) { return len(none), nil }

func (b *columnBuffer) Len() int { return b.to.rows }

// Size is 0, so that parquet-go does not end the page.
func (b *columnBuffer) Size() int64 { return 0 }

func (b *columnBuffer) Reset() { b.to.rows = 0 }

func (b *columnBuffer) Page() parquet.Page {
	if b.to.dict != nil {
		return &indexPage{b.typ.NewPage(b.columnIndex, 0, encoding.Int32Values(nil)), b.to}
	}
	return b.typ.NewPage(b.columnIndex, len(b.to.numbers), encoding.Int64Values(b.to.numbers))
}

// An indexPage is a page of a dictionary's indices. The embedded page is empty.
type indexPage struct {
	parquet.Page
	column *tableColumn
}

func (p *indexPage) Type() parquet.Type { return &indexType{p.Page.Type(), p.column} }

func (p *indexPage) NumRows() int64   { return int64(p.column.rows) }
func (p *indexPage) NumValues() int64 { return int64(p.column.rows) }

// Bounds returns those of the dictionary: each of its values is in the row group.
func (p *indexPage) Bounds() (least, greatest parquet.Value, ok bool) {
	return p.column.least, p.column.greatest, true
}

// An indexType is the type of an indexPage.
type indexType struct {
	parquet.Type
	column *tableColumn
}

// Encode returns the encoded indices of the page, in the encoding RLE_DICTIONARY.
func (t *indexType) Encode(to []byte, _ encoding.Values, _ encoding.Encoding) ([]byte, error) {
	return t.column.encode(to[:0]), nil
}

// packedIndices encodes the indices of rows, and keeps the last result: offsets have the same
// indices as addresses.
type packedIndices struct {
	rows   *dictRows
	lo, hi int
	count  int
	index  []uint32
	out    []byte
}

// of returns the encoded indices of the rows [lo, hi) in a dictionary of count values. index
// has them by what rows refer to.
func (p *packedIndices) of(rows *dictRows, lo, hi int, index []uint32, count int) []byte {
	same := p.rows == rows && p.lo == lo && p.hi == hi && p.count == count
	for _, i := range rows.used {
		if !same {
			break
		}
		same = p.index[i] == index[i]
	}
	if !same {
		p.rows, p.lo, p.hi, p.count, p.index = rows, lo, hi, count, append(p.index[:0], index...)
		p.out = appendIndices(slices.Grow(p.out[:0], 2*(hi-lo)), rows.indices(lo, hi, index), count)
	}
	return p.out
}

// sameIndex encodes the index 0, for n rows, as appendIndices would.
func sameIndex(n int) []byte {
	return binary.AppendUvarint([]byte{0}, uint64(n)<<1)
}

// appendIndices appends a page of indices in a dictionary of count values. All pieces but the last have a
// multiple of 8 indices. The format is the one of RLE_DICTIONARY in Encodings.md of
// parquet-format: how many bits an index has, then runs of equal indices and runs of packed ones.
//
// Indices have whole bytes if they have more than 8 bits. A tracer patches its sites in the same order
// again and again, and zstd finds the repetition only where it begins at a byte.
func appendIndices(to []byte, pieces iter.Seq[[]uint32], count int) []byte {
	width := bits.Len32(uint32(count - 1))
	if width > 8 {
		width = (width + 7) &^ 7
	}
	to = append(to, byte(width))
	for ids := range pieces {
		n := len(ids)
		for lo := 0; lo < n; {
			hi := lo + 1
			for hi < n && ids[hi] == ids[lo] {
				hi++
			}
			if hi-lo < 8 && n-lo >= 8 {
				// Packed ones, in groups of 8, until 8 are equal.
				for hi = lo; n-hi >= 8 && !allEqual(ids[hi:hi+8]); {
					hi += 8
				}
				to = binary.AppendUvarint(to, uint64(hi-lo)/8<<1|1)
				to = appendPacked(to, ids[lo:hi], width)
			} else {
				to = binary.AppendUvarint(to, uint64(hi-lo)<<1)
				for k := 0; k < width; k += 8 {
					to = append(to, byte(ids[lo]>>k))
				}
			}
			lo = hi
		}
	}
	return to
}

func allEqual(ids []uint32) bool {
	for _, id := range ids[1:] {
		if id != ids[0] {
			return false
		}
	}
	return true
}

// appendPacked appends the low width bits of each id. The number of ids is a multiple of 8.
func appendPacked(to []byte, ids []uint32, width int) []byte {
	switch width {
	case 8:
		for _, id := range ids {
			to = append(to, byte(id))
		}
		return to
	case 16:
		for _, id := range ids {
			to = append(to, byte(id), byte(id>>8))
		}
		return to
	}
	word, n := uint64(0), 0
	for _, id := range ids {
		word |= uint64(id) << n
		if n += width; n >= 32 {
			to = binary.LittleEndian.AppendUint32(to, uint32(word))
			word, n = word>>32, n-32
		}
	}
	for ; n > 0; n -= 8 {
		to = append(to, byte(word))
		word >>= 8
	}
	return to
}
