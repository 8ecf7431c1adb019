// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"encoding/binary"
	"hash/maphash"
	"io"
	"iter"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sort"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/encoding/delta"
	"github.com/parquet-go/parquet-go/encoding/rle"
	"github.com/parquet-go/parquet-go/format"

	"github.com/textreplay/textreplay/internal/memory"
	"github.com/textreplay/textreplay/internal/spread"
)

// A columnWriter writes a table column by column, in the order of the schema. parquet-go's own writer splits
// rows by reflection and looks up each value of a dictionary in a hash table. Here the caller gives plain
// numbers or strings, or a dictionary and the index of each row's value in it.
//
// After an error, it writes nothing more; close returns the error.
type columnWriter struct {
	*pageFile
	err error

	parallel bool           // see part
	parts    []func() error // that were begun in the background
	holds    bool           // columns are held in memory when they have ended: this is a part
	held     []*pageColumn

	packed  []byte  // buffers
	page    []byte  // the encoded values of a page
	numbers []int64 // of write and writeTwo
	second  []int64
	lens    []int32  // of writeStrings and writeBytes
	known   []uint32 // of writeDict
	index   []uint32
	picked  []uint32
	indices packedIndices
}

// newColumnWriter returns a writer of a table of T.
func newColumnWriter[T any](w io.Writer) *columnWriter {
	f, err := newPageFile[T](w)
	if err != nil {
		return &columnWriter{err: err}
	}
	return &columnWriter{pageFile: f}
}

// dictPageRows is the most rows of a page of a column with a dictionary: those of a row group. What
// repeats in a page is compressed, and a page that equals that of the column before is not compressed
// again.
const dictPageRows = 2 << 20

// pageRows is the most rows of a page of another column. It bounds the memory that is needed for a page.
// Pages of differences are no larger if there are more of them. Tests change it.
var pageRows = 1 << 16

// oneColumn writes a column of n rows, in pages of at most size rows. page sets what p needs for the rows
// [lo, hi), but for their number.
func (c *columnWriter) oneColumn(name string, n, size int, page func(x *pageColumn, p *dataPage, lo, hi int)) {
	if c.err != nil {
		return
	}
	x := c.column(name, c.holds, &c.packed)
	for lo := 0; lo < n && c.err == nil; lo += size {
		hi := min(lo+size, n)
		p := dataPage{rows: hi - lo, values: hi - lo}
		if page(x, &p, lo, hi); c.err == nil {
			c.err = x.page(&p)
		}
	}
	c.end(x)
}

// end ends a column, or holds it until the part is joined.
func (c *columnWriter) end(x *pageColumn) {
	switch {
	case c.err != nil:
	case c.holds:
		c.held = append(c.held, x)
	default:
		c.err = x.end()
	}
}

// part begins columns that follow those that the caller writes before it calls end. If the writer is
// parallel, another goroutine encodes them meanwhile, and they are held in memory until then. Else end
// does all. wait must be called, too, if end may not be: after a panic.
func (c *columnWriter) part(write func(c *columnWriter)) (end func()) {
	if !c.parallel {
		return func() { write(c) }
	}
	part := &columnWriter{pageFile: c.pageFile, err: c.err, holds: true}
	wait := background(func() error {
		write(part)
		return part.err
	})
	c.parts = append(c.parts, wait)
	return func() {
		err := wait()
		if c.err == nil {
			c.err = err
		}
		for _, x := range part.held {
			c.end(x)
		}
	}
}

// wait waits for the parts that were begun.
func (c *columnWriter) wait() {
	for _, part := range c.parts {
		settle(part)
	}
	c.parts = nil
}

// endGroup ends a row group.
func (c *columnWriter) endGroup() {
	if c.err == nil {
		c.pageFile.endGroup()
	}
}

// close writes what follows the pages. It returns the first error of all calls.
func (c *columnWriter) close() error {
	if c.err == nil {
		c.err = c.pageFile.close()
	}
	return c.err
}

// write writes n rows of a column of numbers, those of one row group, as differences. values sets out to those
// of the rows [lo, hi).
func (c *columnWriter) write(name string, n int, values func(out []int64, lo, hi int)) {
	c.oneColumn(name, n, pageRows, func(x *pageColumn, p *dataPage, lo, hi int) {
		c.numbers = slices.Grow(c.numbers[:0], hi-lo)[:hi-lo]
		values(c.numbers, lo, hi)
		c.differences(x, p, c.numbers)
	})
}

// writeOptional is write for a column that may be null. All rows are null if values is nil.
func (c *columnWriter) writeOptional(name string, n int, values func(out []int64, lo, hi int)) {
	if values != nil {
		c.oneColumn(name, n, pageRows, func(x *pageColumn, p *dataPage, lo, hi int) {
			c.numbers = slices.Grow(c.numbers[:0], hi-lo)[:hi-lo]
			values(c.numbers, lo, hi)
			c.differences(x, p, c.numbers)
			p.definitions = sameLevels(hi-lo, 1)
		})
		return
	}
	c.oneColumn(name, n, pageRows, func(x *pageColumn, p *dataPage, lo, hi int) {
		c.differences(x, p, nil)
		p.nulls, p.definitions = hi-lo, sameLevels(hi-lo, 0)
	})
}

// writeTwo is write for two columns whose values come together. fill sets those of the rows [lo, hi).
func (c *columnWriter) writeTwo(names [2]string, n int, fill func(one, two []int64, lo, hi int)) {
	if c.err != nil {
		return
	}
	second := c.column(names[1], true, new([]byte))
	c.oneColumn(names[0], n, pageRows, func(x *pageColumn, p *dataPage, lo, hi int) {
		c.numbers, c.second = slices.Grow(c.numbers[:0], hi-lo)[:hi-lo], slices.Grow(c.second[:0], hi-lo)[:hi-lo]
		fill(c.numbers, c.second, lo, hi)
		own := dataPage{rows: hi - lo, values: hi - lo}
		if c.differences(second, &own, c.second); c.err == nil {
			c.err = second.page(&own)
		}
		c.differences(x, p, c.numbers)
	})
	c.end(second)
}

// differences makes numbers the values of a page, encoded as differences.
func (c *columnWriter) differences(x *pageColumn, p *dataPage, numbers []int64) {
	var d delta.BinaryPackedEncoding
	if c.page, c.err = d.EncodeInt64(c.page[:0], numbers); c.err != nil {
		return
	}
	p.encoding, p.encoded = format.DeltaBinaryPacked, c.page
	if len(numbers) > 0 {
		p.least, p.greatest, _ = x.typ.NewPage(0, len(numbers), encoding.Int64Values(numbers)).Bounds()
	}
}

// sameLevels returns the levels of n rows of a column that may be null, if all are level.
func sameLevels(n int, level byte) []byte {
	return append(binary.AppendUvarint(nil, uint64(n)<<1), level)
}

// writePlain writes n rows of a column of numbers as they are.
func (c *columnWriter) writePlain(name string, n int, value func(i int) int64) {
	c.oneColumn(name, n, pageRows, func(_ *pageColumn, p *dataPage, lo, hi int) {
		out, least, greatest := c.page[:0], int64(math.MaxInt64), int64(math.MinInt64)
		for i := lo; i < hi; i++ {
			v := value(i)
			least, greatest = min(least, v), max(greatest, v)
			out = binary.LittleEndian.AppendUint64(out, uint64(v))
		}
		c.page, p.encoded = out, out
		p.least, p.greatest = parquet.Int64Value(least), parquet.Int64Value(greatest)
	})
}

// writeStrings writes n rows of a column of strings. If the column is optional, empty ones are null.
func (c *columnWriter) writeStrings(name string, n int, optional bool, value func(i int) string) {
	var levels []byte
	c.oneColumn(name, n, pageRows, func(_ *pageColumn, p *dataPage, lo, hi int) {
		c.lens, levels = slices.Grow(c.lens[:0], hi-lo), levels[:0]
		least, greatest, size := "", "", 0
		for i := lo; i < hi; i++ {
			v := value(i)
			if optional {
				if v == "" {
					levels = append(levels, 0)
					p.nulls++
					continue
				}
				levels = append(levels, 1)
			}
			if len(c.lens) == 0 {
				least, greatest = v, v
			}
			least, greatest = min(least, v), max(greatest, v)
			c.lens, size = append(c.lens, int32(len(v))), size+len(v)
		}
		c.lengths(p)
		out := slices.Grow(c.page, size)
		for i := lo; i < hi; i++ {
			out = append(out, value(i)...)
		}
		c.page, p.encoded = out, out
		p.least, p.greatest = parquet.ValueOf(least), parquet.ValueOf(greatest)
		if optional {
			p.definitions = c.levels(levels)
		}
	})
}

// lengths makes c.lens the lengths of the byte arrays of a page, which must follow in c.page.
func (c *columnWriter) lengths(p *dataPage) {
	var d delta.BinaryPackedEncoding
	if c.page, c.err = d.EncodeInt32(c.page[:0], c.lens); c.err == nil {
		p.encoding = format.DeltaLengthByteArray
	}
}

// levels encodes levels that are 0 or 1.
func (c *columnWriter) levels(of []byte) (out []byte) {
	e := rle.Encoding{BitWidth: 1}
	if out, c.err = e.EncodeLevels(nil, of); c.err != nil {
		return nil
	}
	return out
}

// writeDict writes the rows of a column that has a dictionary. A row refers to something that many
// rows share, such as a form; number returns the index in values of that thing's value.
func (c *columnWriter) writeDict(name string, rows *dictRows, values *interned, number func(i uint32) uint32) {
	if c.err != nil {
		return
	}
	c.known = slices.Grow(c.known[:0], values.len())[:values.len()] // by number: where the dictionary has it, plus 1
	clear(c.known)
	c.index = slices.Grow(c.index[:0], rows.of)[:rows.of] // by what rows refer to: where the dictionary has its value
	picked := c.picked[:0]                                // the numbers of the dictionary's values
	for _, i := range rows.used {
		k := number(i)
		if c.known[k] == 0 {
			picked = append(picked, k)
			c.known[k] = uint32(len(picked))
		}
		c.index[i] = c.known[k] - 1
	}
	c.picked = picked
	var least, greatest parquet.Value
	c.oneColumn(name, rows.n, dictPageRows, func(x *pageColumn, p *dataPage, lo, hi int) {
		if lo == 0 {
			if least, greatest, c.err = c.writeDictionary(x, values, picked); c.err != nil {
				return
			}
		}
		p.encoding, p.least, p.greatest = format.RLEDictionary, least, greatest
		if len(picked) == 1 { // as of most columns of most recordings
			p.encoded = sameIndex(hi - lo)
		} else {
			c.err = c.indices.encode(p, rows, lo, hi, c.index, len(picked))
		}
	})
}

// writeDictionary makes some of the interned values the dictionary of the column, and returns the least and
// the greatest.
func (c *columnWriter) writeDictionary(x *pageColumn, values *interned, picked []uint32) (least, greatest parquet.Value, err error) {
	lo, hi := picked[0], picked[0]
	bounds := func(less func(a, b uint32) bool) {
		for _, k := range picked[1:] {
			if less(k, lo) {
				lo = k
			}
			if less(hi, k) {
				hi = k
			}
		}
	}
	var value func(k uint32) parquet.Value
	size := 8 * len(picked)
	if x.typ.Kind() == parquet.ByteArray {
		for _, k := range picked {
			size += len(values.strings[k])
		}
	}
	out := slices.Grow(c.page[:0], size)
	switch x.typ.Kind() {
	case parquet.ByteArray:
		for _, k := range picked {
			v := values.strings[k]
			out = append(binary.LittleEndian.AppendUint32(out, uint32(len(v))), v...)
		}
		value = func(k uint32) parquet.Value { return parquet.ValueOf(values.strings[k]) }
		bounds(func(a, b uint32) bool { return values.strings[a] < values.strings[b] })
	case parquet.Int64:
		for _, k := range picked {
			out = binary.LittleEndian.AppendUint64(out, uint64(values.numbers[k]))
		}
		value = func(k uint32) parquet.Value { return parquet.Int64Value(values.numbers[k]) }
		flip := uint64(0) // makes the order of unsigned numbers that of the column
		if x.typ.Compare(parquet.Int64Value(-1), parquet.Int64Value(0)) < 0 {
			flip = 1 << 63
		}
		bounds(func(a, b uint32) bool { return uint64(values.numbers[a])^flip < uint64(values.numbers[b])^flip })
	case parquet.Int32:
		for _, k := range picked {
			out = binary.LittleEndian.AppendUint32(out, uint32(values.numbers[k]))
		}
		value = func(k uint32) parquet.Value { return parquet.Int32Value(int32(values.numbers[k])) }
		bounds(func(a, b uint32) bool { return x.typ.Compare(value(a), value(b)) < 0 })
	}
	c.page = out
	return value(lo), value(hi), x.dictionary(out, len(picked))
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

// interned numbers the values of a dictionary: strings or numbers.
type interned struct {
	strings   []string
	numbers   []int64
	ofStrings numberTable // of those that string has added, and of long ones
	ofShort   nearTable   // of those that bytes has added and that are short
	keys      []uint64    // by number, if bytes adds strings: shortKey, 0 for long ones
	ofNumbers map[int64]uint32
}

func (n *interned) len() int { return len(n.strings) + len(n.numbers) }

// reserve makes room for so many strings.
func (n *interned) reserve(strings int) {
	n.strings = make([]string, 0, strings)
	n.ofStrings.reserve(strings)
}

// reserveShort makes room for so many strings. Nearly all are short ones that bytes adds.
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
	near := bits.RotateLeft64(key, -8) // without the opcode
	if n.ofShort.isFull() {
		n.ofShort.grow(func(k uint32) uint64 { return bits.RotateLeft64(n.keys[k], -8) })
	}
	slot := n.ofShort.first(near)
	for ; n.ofShort.of[slot] != 0; slot = n.ofShort.next(slot) {
		if k := n.ofShort.of[slot] - 1; n.keys[k] == key {
			return k
		}
	}
	k := uint32(len(n.strings))
	n.strings, n.keys = append(n.strings, string(v)), append(n.keys, key)
	n.ofShort.put(slot, k)
	return k
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

// A nearTable finds numbers by the keys that they stand for, keys that often ascend or descend in small
// steps: addresses, and calls of one function from them. It is a hash table with open addressing in which near
// keys have near slots, so the lines of memory that are needed next are near those that were needed last. If
// the keys turn out to fill few parts of it, the slots are those of a usual hash.
type nearTable struct {
	of    []uint32 // by slot: 1 + the number; 0 is free
	used  int
	steps int  // how many slots were passed
	mixed bool // near keys have no near slots
}

const (
	nearStep  = 4  // near keys are in one slot if they differ in no more bits than these
	nearBlock = 20 // keys that differ in more bits than these are not near
)

// reserve makes room for so many numbers.
func (t *nearTable) reserve(numbers int) {
	t.of = memory.Zeroed[uint32](2 << bits.Len(uint(max(numbers, 1)-1)))
}

// isFull reports whether grow must be called before first.
func (t *nearTable) isFull() bool {
	return 2*t.used >= len(t.of) || !t.mixed && t.steps > 16*t.used+1<<10
}

// first returns the slot at which the search for a key begins, and next the one after it.
func (t *nearTable) first(key uint64) int {
	if t.mixed {
		return int(spread.Key(key, hashFactor)>>32) & (len(t.of) - 1)
	}
	return int(key>>nearStep+(key>>nearBlock)*hashFactor>>32) & (len(t.of) - 1)
}

func (t *nearTable) next(slot int) int {
	t.steps++
	return (slot + 1) & (len(t.of) - 1)
}

// put puts a number into a free slot.
func (t *nearTable) put(slot int, number uint32) {
	t.of[slot] = number + 1
	t.used++
}

// grow makes room for more. keyOf returns the key of a number in the table.
func (t *nearTable) grow(keyOf func(number uint32) uint64) {
	was := t.of
	if t.mixed = t.mixed || t.steps > 16*t.used+1<<10; 2*t.used >= len(was) {
		t.of = memory.Zeroed[uint32](max(1<<8, 4*len(was)))
	} else {
		t.of = memory.Zeroed[uint32](len(was))
	}
	t.steps = 0
	for _, v := range was {
		if v == 0 {
			continue
		}
		slot := t.first(keyOf(v - 1))
		for t.of[slot] != 0 {
			slot = t.next(slot)
		}
		t.of[slot] = v
	}
}

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
	t.slots = memory.Zeroed[uint64](2 << bits.Len(uint(max(numbers, 1)-1)))
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
	t.slots = memory.Zeroed[uint64](max(1<<8, 2*len(was)))
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

// packedIndices encodes and compresses the indices of rows, and keeps the last result: offsets have the same
// indices as addresses.
type packedIndices struct {
	rows        *dictRows // nil: there is no result
	lo, hi      int
	count       int
	index       []uint32
	out, packed []byte
}

// encode makes the indices of the rows [lo, hi) in a dictionary of count values those of a page. index has
// them by what rows refer to.
func (x *packedIndices) encode(p *dataPage, rows *dictRows, lo, hi int, index []uint32, count int) (err error) {
	same := x.rows == rows && x.lo == lo && x.hi == hi && x.count == count
	for _, i := range rows.used {
		if !same {
			break
		}
		same = x.index[i] == index[i]
	}
	if !same {
		x.rows, x.lo, x.hi, x.count, x.index = rows, lo, hi, count, append(x.index[:0], index...)
		x.out = appendIndices(slices.Grow(x.out[:0], 2*(hi-lo)+(hi-lo)/8), rows.indices(lo, hi, index), count)
		if x.packed, err = codec.Encode(x.packed, x.out); err != nil {
			x.rows = nil
		}
	}
	p.encoded, p.packed = x.out, x.packed
	return err
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
