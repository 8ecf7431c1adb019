// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A Writer writes a recording in file form, laid out as perf does it: header,
// ids, attrs, records, table and sections of features. What it writes, perf
// reads, and [Recording.CleanEnd] finds whole.
//
// Events are set first, then records and features are written in any order;
// Close completes the file, without which nothing in it can be read. The first
// error is kept and returned by every later call.
type Writer struct {
	out      io.WriteSeeker
	buf      *bufio.Writer
	enc      encoder
	events   []*Event
	features map[Feature][]byte
	began    bool  // the records have
	at       int64 // bytes written since the start of the file
	attrs    int64
	data     int64
	attrSize uint64
	err      error
}

// NewWriter returns a Writer that writes to w, from its current position on, in
// the given byte order, which is also that of the records and features which
// it will be given.
func NewWriter(w io.WriteSeeker, order binary.ByteOrder) *Writer {
	return &Writer{
		out:      w,
		buf:      bufio.NewWriterSize(w, 1<<16),
		enc:      encoder{endian: endianOf(order)},
		features: make(map[Feature][]byte),
	}
}

func endianOf(order binary.ByteOrder) endian { return endian(order.Uint16([]byte{0, 1}) == 1) }

var errWriterOrder = errors.New("perfdata: events must be set once, and before records are written")

// SetEvents sets the recording's events. Attr.Size says how long the attrs are
// to be, 0 for as long as their fields need and perf 6.1 reads; all are made as
// long as the longest. Where an event has a name, the names are written as the
// EVENT_DESC section, unless that is written by WriteFeature.
func (w *Writer) SetEvents(events []*Event) error {
	if w.began {
		return w.fail(errWriterOrder)
	}
	w.events = events
	w.begin()
	return w.err
}

const attrSizeDefault = 128 // PERF_ATTR_SIZE_VER7; perf 6.1 refuses longer ones

func (a *Attr) writeSize() uint32 {
	size := a.Size
	if size == 0 {
		size = attrSizeDefault
	}
	if a.Config4 != 0 {
		size = max(size, attrSizeMax)
	} else if a.Config3 != 0 {
		size = max(size, attrSizeMax-8)
	}
	return min(max(size, attrSizeVer0), attrSizeMax) &^ 7
}

// begin writes all that stands before the records.
func (w *Writer) begin() {
	if w.began || w.err != nil {
		return
	}
	w.began = true
	e := w.enc.endian
	size := uint32(attrSizeVer0)
	for _, ev := range w.events {
		size = max(size, ev.Attr.writeSize())
	}
	w.attrSize = uint64(size) + attrEntryIDs
	w.write(make([]byte, fileHeader))
	ids := w.at
	for _, ev := range w.events {
		w.write(e.appendU64s(nil, ev.IDs))
	}
	w.attrs = w.at
	for _, ev := range w.events {
		n := 8 * int64(len(ev.IDs))
		b := ev.Attr.encode(e)[:size]
		e.put32(b[4:], size)
		w.write(e.appendU64s(b, []uint64{uint64(ids), uint64(n)}))
		ids += n
	}
	w.data = w.at
}

func (e endian) appendU64s(b []byte, v []uint64) []byte {
	for _, x := range v {
		b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
		e.put64(b[len(b)-8:], x)
	}
	return b
}

func (w *Writer) write(b []byte) {
	if w.err == nil {
		_, w.err = w.buf.Write(b)
		w.at += int64(len(b))
	}
}

func (w *Writer) fail(err error) error {
	if w.err == nil {
		w.err = err
	}
	return w.err
}

// WriteRecord writes a record as it stands in [Record.Raw]. The trace that
// belongs to an AUXTRACE record must follow it in raw. A record that does not
// frame itself is refused.
func (w *Writer) WriteRecord(raw []byte) error {
	e := w.enc.endian
	if len(raw) < headerSize {
		return w.fail(fmt.Errorf("perfdata: record of %d bytes", len(raw)))
	}
	h := e.header(raw)
	size, follows, ferr := e.frame(h, raw)
	if ferr != nil {
		return w.fail(fmt.Errorf("perfdata: %v: %w: %s", h.typ, ferr.Err, ferr.Msg))
	}
	if uint64(size)+follows != uint64(len(raw)) {
		return w.fail(fmt.Errorf("perfdata: %v of %d bytes given as %d", h.typ, uint64(size)+follows, len(raw)))
	}
	w.begin()
	w.write(raw)
	return w.err
}

// encoded writes a record that w.enc made.
func (w *Writer) encoded(raw []byte) error {
	if len(raw) > maxRecord {
		typ := w.enc.header(raw).typ
		return w.fail(fmt.Errorf("perfdata: %v of %d bytes: a record holds at most %d", typ, len(raw), maxRecord))
	}
	return w.WriteRecord(raw)
}

// TextPoke writes a TEXT_POKE record. As with all typed records, SampleID.Event
// says which trailer it gets; without one it gets none. Old and New together
// hold less than 64 KiB.
func (w *Writer) TextPoke(p *TextPoke) error { return w.encoded(w.enc.textPoke(p)) }

// KSymbol writes a KSYMBOL record.
func (w *Writer) KSymbol(k *KSymbol) error { return w.encoded(w.enc.kSymbol(k)) }

// BPFEvent writes a BPF_EVENT record.
func (w *Writer) BPFEvent(b *BPFEvent) error { return w.encoded(w.enc.bpfEvent(b)) }

// Mmap writes a record of type RecordMMAP, or RecordMMAP2; with the latter,
// MiscMmapBuildID in misc says that it carries the build id.
func (w *Writer) Mmap(typ RecordType, misc uint16, m *Mmap) error {
	if typ != RecordMMAP && typ != RecordMMAP2 {
		return w.fail(fmt.Errorf("perfdata: %v is no type of Mmap", typ))
	}
	return w.encoded(w.enc.mmap(typ, misc, m))
}

// Comm writes a COMM record.
func (w *Writer) Comm(misc uint16, c *Comm) error { return w.encoded(w.enc.comm(misc, c)) }

// Lost writes a LOST record.
func (w *Writer) Lost(l *Lost) error { return w.encoded(w.enc.lost(l)) }

// LostSamples writes a LOST_SAMPLES record.
func (w *Writer) LostSamples(l *LostSamples) error { return w.encoded(w.enc.lostSamples(l)) }

// FinishedRound writes a FINISHED_ROUND record.
func (w *Writer) FinishedRound() error { return w.encoded(w.enc.finishedRound()) }

// IDIndex writes an ID_INDEX record.
func (w *Writer) IDIndex(x *IDIndex) error { return w.encoded(w.enc.idIndex(x)) }

// WriteFeature sets a feature's section, as [Recording.Feature] returns it. A
// second call for the same feature replaces the first. Data is kept until
// Close. Sections that hold places in the file (AUXTRACE) become wrong where
// the records move.
func (w *Writer) WriteFeature(f Feature, data []byte) error {
	if f <= 0 || f >= featureBits {
		return w.fail(fmt.Errorf("perfdata: feature %d", int(f)))
	}
	w.features[f] = data
	return w.err
}

// Close writes the features and the header. It does not close the file.
func (w *Writer) Close() error {
	w.begin()
	e := w.enc.endian
	if _, ok := w.features[FeatureEventDesc]; !ok && slices.ContainsFunc(w.events, func(ev *Event) bool { return ev.Name != "" }) {
		w.features[FeatureEventDesc] = w.eventDesc()
	}
	end := w.at
	var list []Feature
	var bitmap [featureWords]uint64
	for f := range w.features {
		list = append(list, f)
		bitmap[f/64] |= 1 << (f % 64)
	}
	slices.Sort(list)
	next := uint64(end) + uint64(len(list))*sectionEntry
	for _, f := range list {
		n := uint64(len(w.features[f]))
		w.write(e.appendU64s(nil, []uint64{next, n}))
		next += n
	}
	for _, f := range list {
		w.write(w.features[f])
	}
	if w.err == nil {
		w.err = w.buf.Flush()
	}
	total := w.at

	magic := magicLittle
	if e == big {
		magic = magicBig
	}
	header := e.appendU64s([]byte(magic), []uint64{
		fileHeader, w.attrSize,
		uint64(w.attrs), uint64(w.data - w.attrs),
		uint64(w.data), uint64(end - w.data),
		0, 0, // event_types
	})
	header = e.appendU64s(header, bitmap[:])
	for _, step := range []func() error{
		func() error { _, err := w.out.Seek(-total, io.SeekCurrent); return err },
		func() error { _, err := w.out.Write(header); return err },
		func() error { _, err := w.out.Seek(total-int64(len(header)), io.SeekCurrent); return err },
	} {
		if w.err == nil {
			w.err = step()
		}
	}
	err := w.err
	w.fail(errors.New("perfdata: Writer is closed"))
	return err
}

// eventDesc makes the EVENT_DESC section.
func (w *Writer) eventDesc() []byte {
	e := w.enc.endian
	size := uint32(w.attrSize - attrEntryIDs)
	b := e.appendU32s(nil, uint32(len(w.events)), size)
	for _, ev := range w.events {
		attr := ev.Attr.encode(e)[:size]
		e.put32(attr[4:], size)
		b = append(b, attr...)
		b = e.appendU32s(b, uint32(len(ev.IDs)))
		b = e.appendString(b, ev.Name)
		b = e.appendU64s(b, ev.IDs)
	}
	return b
}

func (e endian) appendU32s(b []byte, v ...uint32) []byte {
	for _, x := range v {
		b = append(b, 0, 0, 0, 0)
		e.put32(b[len(b)-4:], x)
	}
	return b
}

// nameAlign is what do_write_string pads to, so that perf could rewrite a
// string in place.
const nameAlign = 64

// appendString appends what cursor.str reads.
func (e endian) appendString(b []byte, s string) []byte {
	n := (len(s) + 1 + nameAlign - 1) / nameAlign * nameAlign
	b = e.appendU32s(b, uint32(n))
	b = append(b, s...)
	return append(b, make([]byte, n-len(s))...)
}
