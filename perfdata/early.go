// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"github.com/textreplay/textreplay/internal/mapfile"
)

// perf writes the features after the records when it ends. So a recording of a perf that was
// killed has none, and even the number of CPUs is unknown. textreplay's own recorder keeps
// the features in three more files of the directory until it ends:
//
//	features       for each section: u32 feature, u32 0, u64 bytes, the section
//	bpf_prog_info  the section BPF_PROG_INFO, which grows
//	bpf_btf        the section BPF_BTF, which grows
//
// Numbers have the byte order of the recording. perf ignores these files.
const (
	// EarlyFeatures is the name of the file of the features that are known from the
	// beginning.
	EarlyFeatures = "features"
	// EarlyPrograms is the name of the file of the BPF programs so far.
	EarlyPrograms = "bpf_prog_info"
	// EarlyTypes is the name of the file of the BTFs of these programs so far.
	EarlyTypes = "bpf_btf"

	earlyHeader = 16
)

// WriteEarlyFeatures writes to out the features that w has so far, in the form of the file
// [EarlyFeatures]. The error is w's first one, or that of out.
func (w *Writer) WriteEarlyFeatures(out io.Writer) error {
	if w.err != nil {
		return w.err
	}
	e := w.enc.endian
	if _, ok := w.features[FeatureEventDesc]; !ok {
		w.features[FeatureEventDesc] = w.eventDesc()
		defer delete(w.features, FeatureEventDesc) // ids may be added
	}
	var b []byte
	for _, f := range slices.Sorted(maps.Keys(w.features)) {
		b = e.appendU32s(b, uint32(f), 0)
		b = e.appendU64s(b, []uint64{uint64(len(w.features[f]))})
		b = append(b, w.features[f]...)
	}
	_, err := out.Write(b)
	return err
}

// readEarly reads the features of a recording whose recorder did not end from the files next
// to its records.
func (r *Recording) readEarly() error {
	if r.dir == "" || r.pipe || len(r.features) > 0 || r.clean == nil {
		return nil
	}
	open := func(name string) (*mapfile.File, error) {
		f, err := mapfile.OpenRegular(filepath.Join(r.dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if f != nil {
			r.early = append(r.early, f)
		}
		return f, err
	}
	f, err := open(EarlyFeatures)
	if f == nil {
		return err
	}
	r.features = make(map[Feature]section)
	for at := 0; at < len(f.Data); {
		b := f.Data[at:]
		if len(b) < earlyHeader || r.endian.u64(b[8:]) > uint64(len(b)-earlyHeader) {
			r.warnings = append(r.warnings, &FormatError{File: filepath.Join(r.dir, EarlyFeatures), Offset: int64(at), Err: ErrTruncated, Msg: "the file ends within a feature"})
			break
		}
		n := int(r.endian.u64(b[8:]))
		r.features[Feature(r.endian.u32(b))] = section{int64(at + earlyHeader), b[earlyHeader : earlyHeader+n : earlyHeader+n]}
		at += earlyHeader + n
	}
	if f, err = open(EarlyPrograms); f != nil && len(f.Data) > 0 {
		r.features[FeatureBPFProgInfo] = section{0, f.Data}
	}
	if err != nil {
		return err
	}
	if f, err = open(EarlyTypes); f != nil && len(f.Data) > 0 {
		r.features[FeatureBPFBTF] = section{0, f.Data}
	}
	return err
}

// SpareIDs reserves space in a file for n more ids of each event; see [Writer.AddID]. A negative n counts as 0.
func SpareIDs(n int) WriterOption {
	return func(w *Writer) { w.spare = max(n, 0) }
}

var errNoRoom = errors.New("no room for another id")

// AddID adds an id to an event of a file whose records are being written, for a CPU that
// came online. It flushes what was written so far. If the space that [SpareIDs] reserved is
// used up, AddID returns an error and changes nothing; the Writer can still be used. Other
// errors are kept, as those of all methods.
func (w *Writer) AddID(ev *Event, id uint64) error {
	i := slices.Index(w.events, ev)
	if w.out == nil || !w.began || i < 0 {
		return w.fail(errWriterOrder)
	}
	if uint64(len(ev.IDs)) >= w.idRoom[i] {
		return fmt.Errorf("perfdata: %s: %w", ev.Name, errNoRoom)
	}
	ev.IDs = append(ev.IDs, id)
	if err := w.Flush(); err != nil {
		return err
	}
	e := w.enc.endian
	at := int64(fileHeader)
	for _, room := range w.idRoom[:i] {
		at += int64(room) * 8
	}
	w.patch(at+int64(len(ev.IDs)-1)*8, e.appendU64s(nil, []uint64{id}))
	// The section of the ids is the last field of the attr's entry: offset, size.
	w.patch(w.attrs+int64(i+1)*int64(w.attrSize)-8, e.appendU64s(nil, []uint64{8 * uint64(len(ev.IDs))}))
	return w.err
}

// patch overwrites the first file at an offset with b. The file's buffer must be empty.
func (w *Writer) patch(at int64, b []byte) {
	total := w.files[0].at
	seek := func(by int64) {
		if w.err == nil {
			_, w.err = w.out.Seek(by, io.SeekCurrent)
		}
	}
	seek(at - total)
	if w.err == nil {
		_, w.err = w.out.Write(b)
	}
	seek(total - at - int64(len(b)))
}

// Flush writes all records so far to the files, and a header without their size. A reader
// then finds a recording like that of a perf that was killed.
func (w *Writer) Flush() error {
	w.begin()
	for _, f := range w.files {
		if w.compress != 0 {
			w.deflated(f)
		}
		if w.err == nil {
			w.err = f.buf.Flush()
		}
	}
	if w.out != nil && w.err == nil && !w.flushed {
		w.flushed = true
		w.patch(0, w.header(0, nil))
	}
	return w.err
}
