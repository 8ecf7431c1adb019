// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
)

// The magic numbers of struct perf_file_header (tools/perf/util/header.h). That of version 2
// is a number in the recorder's byte order, that of version 1 a string.
const (
	magicLittle = "PERFILE2"
	magicBig    = "2ELIFREP"
	magicV1     = "PERFFILE"
)

// Offsets in struct perf_file_header.
const (
	hdrSize       = 8  // u64 size of this header
	hdrAttrSize   = 16 // u64 bytes of an entry of the attrs section
	hdrAttrs      = 24 // {u64 offset, size}
	hdrData       = 40 // {u64 offset, size}
	hdrFeatures   = 72 // 256 bits, after {u64 offset, size} of event_types, which nothing needs any more
	pipeHeader    = 16
	oldHeader     = 72 // before there were features
	fileHeader    = 104
	featureBits   = 256
	sectionEntry  = 16 // {u64 offset, size}
	attrEntryIDs  = sectionEntry
	featureWords  = featureBits / 64
	leastAttrSize = attrSizeVer0 + attrEntryIDs
	mostAttrSize  = 1<<16 + attrEntryIDs // the kernel takes no attr larger than a page
)

func (r *Recording) headerErr(offset int64, err error, format string, args ...any) error {
	return &FormatError{File: r.fileName(0), Offset: offset, Msg: fmt.Sprintf(format, args...), Err: err}
}

// endsInHeader describes a file of n bytes that is shorter than its header.
func endsInHeader(n int) string {
	if n == 0 {
		return "the file is empty: perf wrote nothing"
	}
	return fmt.Sprintf("file of %d bytes ends within its header", n)
}

// readMagic reads the magic number that b begins with, and returns the size of
// the header. The form of the file follows from that size.
func (r *Recording) readMagic(b []byte) (size uint64, err error) {
	if len(b) < pipeHeader {
		n := min(len(b), len(magicLittle))
		if s := string(b[:n]); n > 0 && s != magicLittle[:n] && s != magicBig[:n] && s != magicV1[:n] {
			return 0, r.headerErr(0, ErrBadMagic, "begins with %q", s)
		}
		return 0, r.headerErr(int64(len(b)), ErrTruncated, "%s", endsInHeader(len(b)))
	}
	switch magic := string(b[:len(magicLittle)]); magic {
	case magicLittle:
		r.endian = little
	case magicBig:
		r.endian = big
	case magicV1:
		// The byte order is the one in which the size of the header is a small number.
		r.endian = little
		if little.u64(b[hdrSize:]) > big.u64(b[hdrSize:]) {
			r.endian = big
		}
	default:
		return 0, r.headerErr(0, ErrBadMagic, "begins with %q", magic)
	}
	size = r.endian.u64(b[hdrSize:])
	if size == pipeHeader {
		r.pipe = true
		r.clean = r.headerErr(0, nil, "a pipe does not say how many records it has")
	}
	return size, nil
}

// A fileHead is the content of the header of a recording in file form.
type fileHead struct {
	attrs, data extent
	hasFeatures bool
	bitmap      [featureWords]uint64
}

// An extent is a struct perf_file_section.
type extent struct{ offset, size uint64 }

// streams reports whether the records can be read before what follows them is known.
func (h *fileHead) streams() bool {
	if h.data.size == 0 && h.bitmap != [featureWords]uint64{} {
		return false // only what follows shows whether there are records
	}
	return h.attrs.offset <= h.data.offset && h.attrs.size <= h.data.offset-h.attrs.offset
}

// readFileHeader reads the header of a recording in file form into r.head.
func (r *Recording) readFileHeader(b []byte, size uint64) (*fileHead, error) {
	e, h := r.endian, &r.head
	switch {
	case size != oldHeader && size != fileHeader:
		return nil, r.headerErr(hdrSize, ErrUnsupported, "header of %d bytes", size)
	case size > uint64(len(b)):
		return nil, r.headerErr(int64(len(b)), ErrTruncated, "%s", endsInHeader(len(b)))
	}
	h.attrs = extent{e.u64(b[hdrAttrs:]), e.u64(b[hdrAttrs+8:])}
	h.data = extent{e.u64(b[hdrData:]), e.u64(b[hdrData+8:])}
	if h.hasFeatures = size == fileHeader; h.hasFeatures {
		h.bitmap = e.featureBitmap(b[hdrFeatures:])
	}
	return h, nil
}

// parseHeader reads the header of the first data file, and what it leads to.
func (r *Recording) parseHeader() error {
	f := &r.files[0]
	size, err := r.readMagic(f.data)
	if err != nil {
		return err
	}
	if r.pipe {
		f.start = pipeHeader
		return nil
	}
	if _, err := r.readFileHeader(f.data, size); err != nil {
		return err
	}
	events, err := r.readAttrs(f.data)
	if err != nil {
		return err
	}
	r.readData(f)
	if err := r.readEarly(); err != nil {
		return err
	}
	r.readInjected(f, events)
	r.nameEvents(events)
	r.setEvents(events)
	return nil
}

// readAttrs reads the attrs section: {struct perf_event_attr; {u64 offset, size} of its ids}.
func (r *Recording) readAttrs(b []byte) ([]*Event, error) {
	e := r.endian
	offset, size := r.head.attrs.offset, r.head.attrs.size
	if offset > uint64(len(b)) {
		r.warn(hdrAttrs, ErrTruncated, "attrs are at %d, past the end of the file", offset)
		return nil, nil
	}
	// perf ignores a part of an entry at the end.
	part := size % max(e.u64(b[hdrAttrSize:]), 1)
	if left := uint64(len(b)) - offset; size-part > left {
		r.warn(int64(len(b)), ErrTruncated, "file ends within its attrs, %d bytes before their end", size-left)
	}
	entries := r.attrEntries(b, r.head.attrs)
	if entries == nil {
		return nil, r.headerErr(hdrAttrSize, ErrMalformed, "attr entries of %d bytes", e.u64(b[hdrAttrSize:]))
	}
	var events []*Event
	room := uint64(len(b)) // for ids: no id belongs to two events
	for _, entry := range entries {
		at := int64(cap(b) - cap(entry))
		n := len(entry) - attrEntryIDs
		ids := entry[n:]
		ev := &Event{Attr: parseAttr(entry[:n], e)}
		if offset, size := e.u64(ids), e.u64(ids[8:]); offset > uint64(len(b)) || size > uint64(len(b))-offset {
			r.warn(at, ErrTruncated, "ids at %d, %d bytes, are not in the file", offset, size)
		} else if size > room {
			r.warn(at, ErrMalformed, "ids at %d, %d bytes, are those of other events", offset, size)
		} else {
			room -= size
			ev.IDs = e.u64s(b[offset : offset+size])
		}
		events = append(events, ev)
	}
	if len(events) == 0 {
		r.warn(hdrAttrs, ErrMalformed, "the recording has no events")
	}
	return events, nil
}

// attrEntries splits the attrs section into its entries: an attr and the extent of
// its ids. It returns nil if it cannot; b is the file.
//
// The header says how long an entry is. perf divides the section by that to learn how
// many there are, and then continues after each by the size in its attr (read_attr of
// tools/perf/util/header.c). Where the two sizes differ, the entries that lead to
// the most ids are taken, and first of all those that perf takes.
func (r *Recording) attrEntries(b []byte, section extent) [][]byte {
	table := b[section.offset:]
	table = table[:min(section.size, uint64(len(table)))]
	length := r.endian.u64(b[hdrAttrSize:])
	var fixed [][]byte
	if length >= leastAttrSize && length <= mostAttrSize {
		fixed = [][]byte{}
		for rest := table; uint64(len(rest)) >= length; rest = rest[length:] {
			fixed = append(fixed, rest[:length])
		}
		if len(fixed) == 0 || uint64(r.endian.attrSize(table))+attrEntryIDs == length {
			return fixed
		}
	}
	if length == 0 {
		return nil // perf did not end its header
	}
	var best [][]byte
	most := -1
	for _, entries := range [][][]byte{
		r.attrsBySize(b, b[section.offset:], int(min(section.size/length, maxAttrs))),
		r.attrsBySize(b, table, -1),
		fixed,
	} {
		if n := r.countIDs(b, entries); entries != nil && n > most {
			best, most = entries, n
		}
	}
	return best
}

// maxAttrs is more than the events that perf can open.
const maxAttrs = 1 << 16

// attrSize returns the size of the attr that begins b.
func (e endian) attrSize(b []byte) uint32 {
	if size := e.u32(b[4:]); size != 0 {
		return size
	}
	return attrSizeVer0
}

// attrsBySize returns the n entries that begin at table by the sizes in their attrs,
// below 0 as many as fill it. It returns nil unless each leads to ids in the file.
func (r *Recording) attrsBySize(b, table []byte, n int) (entries [][]byte) {
	for ; n > 0 || n < 0 && len(table) > 0; n-- {
		if len(table) < leastAttrSize {
			return nil
		}
		size := uint64(r.endian.attrSize(table)) + attrEntryIDs
		if size < leastAttrSize || size > min(mostAttrSize, uint64(len(table))) || r.idsOf(b, table[:size]) == nil {
			return nil
		}
		entries = append(entries, table[:size])
		table = table[size:]
	}
	return entries
}

// idsOf returns the ids that an entry leads to, nil if they are not in the file.
func (r *Recording) idsOf(b, entry []byte) []byte {
	at := entry[len(entry)-attrEntryIDs:]
	offset, size := r.endian.u64(at), r.endian.u64(at[8:])
	if offset > uint64(len(b)) || size > uint64(len(b))-offset || size%8 != 0 {
		return nil
	}
	return b[offset:][:size:size]
}

// countIDs returns how many entries lead to ids.
func (r *Recording) countIDs(b []byte, entries [][]byte) (n int) {
	for _, entry := range entries {
		if len(r.idsOf(b, entry)) > 0 {
			n++
		}
	}
	return n
}

// u64s decodes an array, ignoring an incomplete last element.
func (e endian) u64s(b []byte) []uint64 {
	if len(b) < 8 {
		return nil
	}
	v := make([]uint64, len(b)/8)
	for i := range v {
		v[i] = e.u64(b[8*i:])
	}
	return v
}

// readData finds where the records end, and the features that follow them.
func (r *Recording) readData(f *dataFile) {
	b := f.data
	offset, size := r.head.data.offset, r.head.data.size
	if offset > uint64(len(b)) {
		f.start, f.end = len(b), len(b)
		f.cut = r.headerErr(int64(len(b)), ErrTruncated, "records begin at %d, past the end of the file", offset)
		r.clean = f.cut
		return
	}
	f.start = int(offset)
	if size > uint64(len(b))-offset {
		f.end = len(b)
		f.cut = r.headerErr(int64(len(b)), ErrTruncated, "the file ends %d bytes before its records do", size-(uint64(len(b))-offset))
		r.clean = f.cut
		return
	}
	f.end = int(offset + size)
	at := f.end
	if size > 0 {
		at += r.tableWithin(b[f.end:], uint64(f.end))
	}
	features, err := r.readFeatures(b[at:], uint64(at), r.head.bitmap)
	if size == 0 && (err != nil || len(features) == 0) {
		// perf writes the size when it ends, so it was killed. The records end
		// with the file, or with the features if perf could still write them.
		f.end = len(b)
		r.clean = r.headerErr(hdrData+8, nil, "the header does not say how long the records are: perf was killed or is still running")
		if end := r.findTable(b, f.start); end >= 0 {
			f.end = end
			r.features, err = r.readFeatures(b[end:], uint64(end), r.head.bitmap)
			r.warnDamage(err)
		}
		return
	}
	if err == nil && at > f.end {
		err = r.shortDataErr(at)
	}
	r.features, r.clean = features, err
	r.warnDamage(err)
	if !r.head.hasFeatures {
		r.clean = r.headerErr(hdrSize, nil, "a header without features")
	} else if size == 0 {
		r.clean = r.headerErr(hdrData+8, nil, "the recording holds no records")
	} else if at := r.head.attrs.offset; r.clean == nil && uint64(f.end) <= at && at < uint64(len(b)) {
		r.clean = r.headerErr(hdrAttrs, nil, "the events come after the records: perf inject wrote this file from a pipe, which may have been cut")
	}
}

// warnDamage adds an error to the warnings if it is about damage.
func (r *Recording) warnDamage(err error) {
	if errors.Is(err, ErrTruncated) || errors.Is(err, ErrMalformed) {
		r.warnings = append(r.warnings, err)
	}
}

// findTable returns the offset of the table of features that follows the records which begin
// at b[at], -1 if there is none. The table begins with the offset of the first section, which
// is the end of the table. No record begins with that number: as a header it has no type or no
// size.
func (r *Recording) findTable(b []byte, at int) int {
	table := tableSize(r.head.bitmap)
	if table == 0 {
		return -1
	}
	for len(b)-at >= headerSize {
		if r.endian.u64(b[at:]) == uint64(at+table) {
			return at
		}
		size, follows, err := r.endian.frame(r.endian.header(b[at:]), b[at:])
		if err != nil || follows > uint64(len(b)-at-size) {
			return -1
		}
		at += size + int(follows)
	}
	return -1
}

// isTable reports whether the table of features begins with b, at offset at of the file: with the
// offset of the first section, which is where the table ends.
func (r *Recording) isTable(b []byte, at uint64) bool {
	table := tableSize(r.head.bitmap)
	return table > 0 && len(b) >= 8 && r.endian.u64(b) == at+uint64(table)
}

// tableWithin returns how far behind base, where the records end by the header, the table of
// features begins: 0, or less than a record if the header's size of the records ends within the
// last one. b is the file from base on. It returns 0 if there is no table.
func (r *Recording) tableWithin(b []byte, base uint64) int {
	if r.isTable(b, base) {
		return 0
	}
	for n := 1; n < min(len(b), maxRecord); n++ {
		if r.isTable(b[n:], base+uint64(n)) {
			return n
		}
	}
	return 0
}

// shortDataErr is the error for a header by which the records end before the table of features
// begins, at offset at.
func (r *Recording) shortDataErr(at int) error {
	end := r.head.data.offset + r.head.data.size
	return r.headerErr(hdrData+8, ErrMalformed, "by the header the records end at %d, but the table of features begins at %d", end, at)
}

func tableSize(bitmap [featureWords]uint64) int {
	n := 0
	for _, w := range bitmap {
		n += bits.OnesCount64(w)
	}
	return n * sectionEntry
}

// readRest reads the features of a stream, which begin at offset base, from
// src. The error says why they are not as perf leaves them.
func (r *Recording) readRest(src io.Reader, base uint64, bitmap [featureWords]uint64) error {
	b, err := readUpTo(nil, src, tableSize(bitmap))
	if err != nil {
		return err
	}
	if r.head.data.size > 0 && !r.isTable(b, base) {
		if b, err = readUpTo(b, src, maxRecord+tableSize(bitmap)); err != nil {
			return err
		}
		n := r.tableWithin(b, base)
		b, base = b[n:], base+uint64(n)
	}
	end := base
	for at := 0; at+sectionEntry <= len(b); at += sectionEntry {
		if offset, size := r.endian.u64(b[at:]), r.endian.u64(b[at+8:]); offset >= base && size <= math.MaxInt64-offset {
			end = max(end, offset+size)
		}
	}
	if b, err = readUpTo(b, src, int(end-base)); err != nil {
		return err
	}
	features, err := r.readFeatures(b, base, bitmap)
	r.features = features
	if err == nil && base > r.head.data.offset+r.head.data.size {
		err = r.shortDataErr(int(base))
	}
	r.warnDamage(err)
	if err == nil && !r.head.hasFeatures {
		err = r.headerErr(hdrSize, nil, "a header without features")
	}
	return err
}

// featureBitmap reads adds_features, an array of unsigned long. A big-endian
// file leaves open how long that was; every perf since 2009 writes the host's
// name, and perf_file_header__read uses that bit to find out.
func (e endian) featureBitmap(b []byte) (bitmap [featureWords]uint64) {
	for i := range bitmap {
		bitmap[i] = e.u64(b[8*i:])
	}
	if e == big && bitmap[0]>>FeatureHostname&1 == 0 {
		var narrow [featureWords]uint64
		for i := range narrow {
			narrow[i] = bits.RotateLeft64(bitmap[i], 32)
		}
		if narrow[0]>>FeatureHostname&1 == 1 {
			return narrow
		}
	}
	return bitmap
}

// readFeatures reads the table of feature sections, {u64 offset, size} for every bit set, in
// the order of the bits. b is the file from the table on, and base is the table's offset. If
// table and sections are not as perf leaves them, the error says why; the sections that are in
// the file are returned nevertheless.
func (r *Recording) readFeatures(b []byte, base uint64, bitmap [featureWords]uint64) (map[Feature]section, error) {
	var list []Feature
	for f := range Feature(featureBits) {
		if bitmap[f/64]>>(f%64)&1 == 1 {
			list = append(list, f)
		}
	}
	if len(list) == 0 {
		return nil, r.headerErr(hdrFeatures, nil, "the header names no features")
	}
	features := make(map[Feature]section, len(list))
	fileEnd := base + uint64(len(b))
	tableEnd := base + uint64(len(list)*sectionEntry)
	var first error
	fault := func(at uint64, err error, format string, args ...any) {
		if first == nil {
			first = r.headerErr(int64(at), err, format, args...)
		}
	}
	// perf writes the sections one after the other.
	next := tableEnd
	full, elsewhere := false, false // a section is not empty; an empty one is not behind the one before
	for i, f := range list {
		entry := i * sectionEntry
		at := base + uint64(entry)
		if entry+sectionEntry > len(b) {
			fault(fileEnd, ErrTruncated, "the file ends within the table of its features")
			break
		}
		offset, size := r.endian.u64(b[entry:]), r.endian.u64(b[entry+8:])
		full = full || size > 0
		switch {
		case size == 0 && offset != next: // as other writers leave it: nothing is missing
			features[f], elsewhere = section{int64(next), nil}, true
			continue
		case offset > fileEnd || size > fileEnd-offset:
			fault(at, ErrTruncated, "section %v at %d, %d bytes, is not in the file", f, offset, size)
			continue
		case offset < tableEnd:
			fault(at, ErrMalformed, "section %v at %d begins before the end of the table of sections", f, offset)
			continue
		case offset != next && (i > 0 || !r.droppedEntries(b[tableEnd-base:offset-base], fileEnd)):
			fault(at, nil, "section %v is at %d instead of %d", f, offset, next)
		}
		next = offset + size
		features[f] = section{int64(offset), b[offset-base : next-base : next-base]}
	}
	if elsewhere && !full {
		fault(base, nil, "the table of features is empty")
	}
	return features, first
}

// droppedEntries reports whether b, between the table and the first section, consists of
// entries of features that perf could not write: perf leaves room for them at the table's end.
// They are zero, but the first one may have the offset at which its section was to begin.
func (r *Recording) droppedEntries(b []byte, fileSize uint64) bool {
	if len(b)%sectionEntry != 0 || len(b) > featureBits*sectionEntry {
		return false
	}
	for i := 0; i < len(b); i += 8 {
		if v := r.endian.u64(b[i:]); v != 0 && (i > 0 || v > fileSize) {
			return false
		}
	}
	return true
}
