// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// A Writer writes a recording, laid out as perf does it: a file (header, ids,
// attrs, records, table and sections of features), a directory whose records
// are spread over several files, or what perf writes to a pipe. Perf reads what
// it writes, and [Recording.CleanEnd] finds a file whole.
//
// Events are set first, then records and features are written in any order. Close
// completes the recording. Before that, only what [Writer.Flush] wrote of a file can
// be read. The first error is kept and returned by every later call. A Writer serves
// one goroutine.
type Writer struct {
	out      io.WriteSeeker // nil for a pipe
	close    func() error   // what the Writer itself opened
	files    []*fileWriter
	file     *fileWriter // the file that records are written to
	enc      encoder
	events   []*Event
	features map[Feature][]byte
	compress RecordType // COMPRESSED or COMPRESSED2, 0 for not
	began    bool       // all that precedes the records is written
	attrs    int64      // offset of the attrs in the first file
	data     int64      // offset of the records in the first file
	end      int64      // end of the records in the first file
	attrSize uint64     // bytes of an entry of the attrs
	spare    int        // further ids for which each event has space
	idRoom   []uint64   // the ids for which each event has space, those it has included
	flushed  bool       // the file has a header
	err      error
}

// A fileWriter writes one data file.
type fileWriter struct {
	buf *bufio.Writer
	at  int64     // bytes written so far
	z   *deflater // nil if records are not compressed
}

func newFileWriter(w io.Writer) *fileWriter {
	return &fileWriter{buf: bufio.NewWriterSize(w, 1<<16)}
}

// A WriterOption changes how a [Writer] writes.
type WriterOption func(*Writer)

// Compress compresses the kernel's records as perf record -z does, into records
// of type RecordCompressed, or RecordCompressed2, which only perf 6.16 and newer
// reads. Perf's own records are not compressed, and everything keeps its order.
func Compress(typ RecordType) WriterOption {
	return func(w *Writer) {
		if w.compress = typ; typ != RecordCompressed && typ != RecordCompressed2 {
			w.fail(fmt.Errorf("perfdata: %v is not a type of compressed records", typ))
		}
	}
}

// NewWriter returns a Writer that writes a file to w, from its current position
// on, in the given byte order, which is also that of the records and features
// which it will be given.
func NewWriter(w io.WriteSeeker, order binary.ByteOrder, opts ...WriterOption) *Writer {
	return newWriter(w, w, order, opts)
}

// NewPipeWriter returns a Writer that writes to w what perf record -o - does.
// Events and features become records, in which they must fit: an event's ids
// and a feature have less than 64 KiB each. Features are where they are written.
func NewPipeWriter(w io.Writer, order binary.ByteOrder, opts ...WriterOption) *Writer {
	return newWriter(w, nil, order, opts)
}

func newWriter(w io.Writer, seek io.WriteSeeker, order binary.ByteOrder, opts []WriterOption) *Writer {
	f := newFileWriter(w)
	wr := &Writer{
		out:      seek,
		files:    []*fileWriter{f},
		file:     f,
		enc:      encoder{endian: endianOf(order)},
		features: make(map[Feature][]byte),
	}
	for _, opt := range opts {
		opt(wr)
	}
	return wr
}

// CreateDir makes a directory and returns a Writer of a recording in it: the
// file data, and as many files data.0, data.1 and so on as threads says, which
// may be none: a negative number counts as 0. Each is compressed, and marked by rounds, on its own.
func CreateDir(dir string, threads int, order binary.ByteOrder, opts ...WriterOption) (*Writer, error) {
	threads = max(threads, 0)
	if err := os.Mkdir(dir, 0o777); err != nil {
		return nil, err
	}
	var open []*os.File
	closeAll := func() error {
		var errs []error
		for _, f := range open {
			errs = append(errs, f.Close())
		}
		return errors.Join(errs...)
	}
	for i := range threads + 1 {
		name := "data"
		if i > 0 {
			name += "." + strconv.Itoa(i-1)
		}
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			return nil, errors.Join(err, closeAll())
		}
		open = append(open, f)
	}
	w := newWriter(open[0], open[0], order, opts)
	for _, f := range open[1:] {
		w.files = append(w.files, newFileWriter(f))
	}
	w.close = closeAll
	version := uint64(dirSingleFile)
	if threads > 0 {
		version = dirVersion
	}
	w.WriteFeature(FeatureDirFormat, w.enc.appendU64s(nil, []uint64{version}))
	return w, nil
}

const dirVersion = 1 // PERF_DIR_VERSION

// SetFile selects the file of a directory that the following records are written to,
// as Record.File counts them: 0 is data, the file at first, and 1 is data.0.
func (w *Writer) SetFile(i int) error {
	if i < 0 || i >= len(w.files) {
		return w.fail(fmt.Errorf("perfdata: file %d of %d", i, len(w.files)))
	}
	w.file = w.files[i]
	return w.err
}

func endianOf(order binary.ByteOrder) endian { return endian(order.Uint16([]byte{0, 1}) == 1) }

var errWriterOrder = errors.New("perfdata: events must be set once, and before records are written")

// SetEvents sets the recording's events. It must be called once, before records are
// written. The Writer keeps events. Attr.Size is the size of an attr in bytes; 0 means 128, the
// most that perf 6.1 reads, or more if the fields need it. All attrs get the size of the
// longest. If an event of a file has a name, Close writes the section EVENT_DESC, unless
// WriteFeature has set it. In a pipe, names are EVENT_UPDATE records.
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

// begin writes all that precedes the records.
func (w *Writer) begin() {
	if w.began || w.err != nil {
		return
	}
	w.began = true
	size := uint32(attrSizeVer0)
	for _, ev := range w.events {
		size = max(size, ev.Attr.writeSize())
	}
	w.attrSize = uint64(size) + attrEntryIDs
	if w.compress != 0 {
		for _, f := range w.files {
			f.z, w.err = newDeflater()
		}
		if _, ok := w.features[FeatureCompressed]; !ok {
			w.features[FeatureCompressed] = w.enc.appendU32s(nil, 0, CompressedZstd, 1, 1, deflateChunk)
		}
	}
	if w.out == nil {
		w.beginPipe()
	} else {
		w.beginFile()
	}
}

func (w *Writer) beginFile() {
	f, e := w.files[0], w.enc.endian
	w.write(f, make([]byte, fileHeader))
	ids := f.at
	for _, ev := range w.events {
		room := uint64(len(ev.IDs) + w.spare)
		w.idRoom = append(w.idRoom, room)
		w.write(f, append(e.appendU64s(nil, ev.IDs), make([]byte, 8*w.spare)...))
	}
	w.attrs = f.at
	for i, ev := range w.events {
		n := 8 * uint64(len(ev.IDs))
		w.write(f, e.appendU64s(w.attr(&ev.Attr), []uint64{uint64(ids), n}))
		ids += 8 * int64(w.idRoom[i])
	}
	w.data = f.at
}

// attr returns an attr as long as all are to be.
func (w *Writer) attr(a *Attr) []byte {
	size := uint32(w.attrSize - attrEntryIDs)
	b := a.encode(w.enc.endian)[:size]
	w.enc.put32(b[4:], size)
	return b
}

func (w *Writer) beginPipe() {
	f, e := w.files[0], w.enc.endian
	w.write(f, e.appendU64s([]byte(e.magic()), []uint64{pipeHeader}))
	for _, ev := range w.events {
		w.tool(RecordHeaderAttr, e.appendU64s(w.attr(&ev.Attr), ev.IDs))
	}
	for _, ev := range w.events {
		if ev.Name != "" && len(ev.IDs) > 0 {
			b := append(e.appendU64s(nil, []uint64{eventUpdateName, ev.IDs[0]}), ev.Name...)
			w.tool(RecordEventUpdate, append(b, make([]byte, align8(len(ev.Name)+1)-len(ev.Name))...))
		}
	}
	early := w.features
	w.features = make(map[Feature][]byte)
	for _, f := range slices.Sorted(maps.Keys(early)) {
		w.pipeFeature(f, early[f])
	}
}

// tool writes a record of perf's own.
func (w *Writer) tool(typ RecordType, body []byte) {
	copy(w.enc.begin(typ, 0, len(body))[headerSize:], body)
	w.encoded(w.enc.end())
}

func (w *Writer) pipeFeature(f Feature, data []byte) {
	if f != FeatureTracingData {
		w.tool(RecordHeaderFeature, append(w.enc.appendU64s(nil, []uint64{uint64(f)}), data...))
		return
	}
	b := w.enc.begin(RecordHeaderTracingData, 0, 4)
	w.enc.put32(b[headerSize:], uint32(len(data)))
	b = append(w.enc.end(), data...)
	w.WriteRecord(append(b, make([]byte, align8(len(data))-len(data))...))
}

func (e endian) magic() string {
	if e == big {
		return magicBig
	}
	return magicLittle
}

func (e endian) appendU64s(b []byte, v []uint64) []byte {
	for _, x := range v {
		b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
		e.put64(b[len(b)-8:], x)
	}
	return b
}

func (w *Writer) write(f *fileWriter, b []byte) {
	if w.err == nil {
		_, w.err = f.buf.Write(b)
		f.at += int64(len(b))
	}
}

func (w *Writer) fail(err error) error {
	if w.err == nil {
		w.err = err
	}
	return w.err
}

// WriteRecord writes a record as it is in [Record.Raw]. The trace that
// belongs to an AUXTRACE record must follow it in raw. A record that does not
// frame itself is refused.
//
// A [Scanner] returns a COMPRESSED or COMPRESSED2 record and then the records that are in it.
// A program that copies records leaves out the compressed one: otherwise the copy has
// what is in it twice.
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
	if w.compress == 0 {
		w.write(w.file, raw)
	} else if h.typ < firstUserRecord {
		w.deflate(w.file, raw)
	} else {
		w.deflated(w.file)
		w.write(w.file, raw)
	}
	return w.err
}

// deflate compresses a record. A record at the end of a chunk continues in the next one,
// as perf's do where a ring buffer wraps around.
func (w *Writer) deflate(f *fileWriter, raw []byte) {
	for len(raw) > 0 && w.err == nil {
		n := min(len(raw), deflateChunk-f.z.held)
		if w.err = f.z.write(raw[:n]); f.z.held == deflateChunk {
			w.deflated(f)
		}
		raw = raw[n:]
	}
}

// deflated writes the compressed bytes that were not written yet, as records.
func (w *Writer) deflated(f *fileWriter) {
	if w.err != nil || f.z.held == 0 {
		return
	}
	var b []byte
	b, w.err = f.z.flush()
	e := w.enc.endian
	for len(b) > 0 {
		n := min(len(b), maxDeflated)
		record := make([]byte, headerSize, compressed2Data+maxDeflated)
		size := headerSize + n
		if w.compress == RecordCompressed2 {
			record = e.appendU64s(record, []uint64{uint64(n)})
			size = align8(compressed2Data + n)
		}
		record = append(record, b[:n]...)
		record = append(record, make([]byte, size-len(record))...)
		e.put32(record, uint32(w.compress))
		e.put16(record[6:], uint16(size)) // of 64 KiB it is 0, in perf too
		w.write(f, record)
		b = b[n:]
	}
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
		return w.fail(fmt.Errorf("perfdata: %v is not a type of Mmap", typ))
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
// second call for the same feature replaces the first, except in a pipe, where
// it is a record like others. The Writer keeps data until Close. A section with offsets
// in the file (AUXTRACE) becomes wrong if the records get other offsets.
func (w *Writer) WriteFeature(f Feature, data []byte) error {
	if f <= 0 || f >= featureBits {
		return w.fail(fmt.Errorf("perfdata: feature %d", int(f)))
	}
	if w.out == nil && w.began {
		w.pipeFeature(f, data)
	} else {
		w.features[f] = data
	}
	return w.err
}

// Close writes the records that are still buffered, and the features and the header of a
// file. It closes only the files that [CreateDir] made. Later calls return an error.
func (w *Writer) Close() error {
	w.begin()
	for _, f := range w.files {
		if w.compress != 0 {
			w.deflated(f)
		}
	}
	if w.out != nil && w.err == nil {
		w.endFile()
	}
	for _, f := range w.files {
		if w.err == nil {
			w.err = f.buf.Flush()
		}
	}
	if w.out != nil && w.err == nil {
		w.patch(0, w.header(w.end-w.data, w.features))
	}
	if w.close != nil {
		if err := w.close(); w.err == nil {
			w.err = err
		}
		w.close = nil
	}
	err := w.err
	w.fail(errors.New("perfdata: Writer is closed"))
	return err
}

// endFile writes what follows the records of the first file.
func (w *Writer) endFile() {
	f, e := w.files[0], w.enc.endian
	if _, ok := w.features[FeatureEventDesc]; !ok && slices.ContainsFunc(w.events, func(ev *Event) bool { return ev.Name != "" }) {
		w.features[FeatureEventDesc] = w.eventDesc()
	}
	w.end = f.at
	list := slices.Sorted(maps.Keys(w.features))
	next := uint64(w.end) + uint64(len(list))*sectionEntry
	for _, feat := range list {
		n := uint64(len(w.features[feat]))
		w.write(f, e.appendU64s(nil, []uint64{next, n}))
		next += n
	}
	for _, feat := range list {
		w.write(f, w.features[feat])
	}
}

// header returns the header of a file with this many bytes of records.
func (w *Writer) header(size int64, features map[Feature][]byte) []byte {
	e := w.enc.endian
	var bitmap [featureWords]uint64
	for f := range features {
		bitmap[f/64] |= 1 << (f % 64)
	}
	header := e.appendU64s([]byte(e.magic()), []uint64{
		fileHeader, w.attrSize,
		uint64(w.attrs), uint64(w.data - w.attrs),
		uint64(w.data), uint64(size),
		0, 0, // event_types
	})
	return e.appendU64s(header, bitmap[:])
}

// eventDesc makes the EVENT_DESC section.
func (w *Writer) eventDesc() []byte {
	e := w.enc.endian
	b := e.appendU32s(nil, uint32(len(w.events)), uint32(w.attrSize-attrEntryIDs))
	for _, ev := range w.events {
		b = append(b, w.attr(&ev.Attr)...)
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
