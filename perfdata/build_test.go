// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"errors"
	"flag"
	"io"
	"os"
	"testing"
)

// TestMain makes the property tests draw the same values every time.
func TestMain(m *testing.M) {
	flag.Parse()
	seeded := false
	flag.Visit(func(f *flag.Flag) { seeded = seeded || f.Name == "rapid.seed" || f.Name == "rapid.failfile" })
	if !seeded {
		flag.Set("rapid.seed", "1")
	}
	os.Exit(m.Run())
}

// A memFile is an io.WriteSeeker in memory.
type memFile struct {
	b   []byte
	off int64
}

func (f *memFile) Write(p []byte) (int, error) {
	if end := f.off + int64(len(p)); end > int64(len(f.b)) {
		f.b = append(f.b, make([]byte, end-int64(len(f.b)))...)
	}
	f.off += int64(copy(f.b[f.off:], p))
	return len(p), nil
}

func (f *memFile) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += f.off
	case io.SeekEnd:
		offset += int64(len(f.b))
	}
	if offset < 0 {
		return 0, errors.New("seek before the start")
	}
	f.off = offset
	return offset, nil
}

// testEvents are two events as perf record --kcore has them.
func testEvents() []*Event {
	const st = SampleIP | SampleTID | SampleTime | SampleCPU | SampleIdentifier
	return []*Event{
		{Index: 0, Name: "dummy", IDs: []uint64{11, 12}, Attr: Attr{
			Type: 1, Size: 128, Config: 9, SampleType: st, ReadFormat: ReadFormatID | ReadFormatLost,
			Flags: FlagSampleIDAll | FlagMmap | FlagComm | FlagKSymbol | FlagBPFEvent | FlagUseClockID, ClockID: 1,
		}},
		{Index: 1, Name: "dummy:u", IDs: []uint64{13, 14}, Attr: Attr{
			Type: 1, Size: 128, Config: 9, SampleType: st, ReadFormat: ReadFormatID | ReadFormatLost,
			Flags: FlagSampleIDAll | FlagTextPoke | FlagExcludeKernel,
		}},
	}
}

// build writes a recording with a Writer and returns its bytes.
func build(tb testing.TB, e endian, events []*Event, fill func(w *Writer), opts ...WriterOption) []byte {
	tb.Helper()
	var f memFile
	w := NewWriter(&f, e.order(), opts...)
	w.SetEvents(events)
	if fill != nil {
		fill(w)
	}
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	return f.b
}

// open opens a recording in memory that must be readable.
func open(tb testing.TB, b []byte) *Recording {
	tb.Helper()
	r, err := New(b)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// scan returns copies of all records, and the scanner's error.
func scan(r *Recording, opts ...ScanOption) ([]Record, error) {
	var list []Record
	s := r.Scan(opts...)
	for s.Next() {
		rec := *s.Record()
		rec.Raw = append([]byte(nil), rec.Raw...)
		list = append(list, rec)
	}
	return list, s.Err()
}

// both runs a test in either byte order.
func both(t *testing.T, f func(t *testing.T, e endian)) {
	t.Run("little", func(t *testing.T) { f(t, little) })
	t.Run("big", func(t *testing.T) { f(t, big) })
}

// A raw record of a type and body.
func rawRecord(e endian, typ RecordType, misc uint16, body []byte) []byte {
	b := make([]byte, headerSize, headerSize+len(body))
	e.put32(b, uint32(typ))
	e.put16(b[4:], misc)
	e.put16(b[6:], uint16(headerSize+len(body)))
	return append(b, body...)
}
