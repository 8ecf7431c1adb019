// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// forms are recordings of every form that has a single file.
func forms(tb testing.TB, e endian) map[string][]byte {
	file := build(tb, e, testEvents(), sample)
	data := int(e.u64(file[hdrData:]))
	end := data + int(e.u64(file[hdrData+8:]))
	old := bytes.Clone(file[:end])
	e.put64(old[hdrSize:], oldHeader)
	clear(old[hdrFeatures:fileHeader])
	killed := bytes.Clone(file[:end])
	e.put64(killed[hdrData+8:], 0)
	oldKilled := bytes.Clone(old)
	e.put64(oldKilled[hdrData+8:], 0)
	unsized := bytes.Clone(file)
	e.put64(unsized[hdrData+8:], 0)
	v1 := bytes.Clone(file)
	copy(v1, magicV1)
	var zpipe bytes.Buffer
	w := NewPipeWriter(&zpipe, e.order(), Compress(RecordCompressed2))
	w.SetEvents(testEvents())
	sample(w)
	w.WriteRecord(numbered(e, 40000, 7, 64))
	if err := w.Close(); err != nil {
		tb.Fatal(err)
	}
	aux := append(rawRecord(e, RecordAuxtrace, 0, e.appendU64s(nil, []uint64{4096, 0, 0, 0, 0})), bytes.Repeat([]byte{0x5a}, 4096)...)
	tracing := append(rawRecord(e, RecordHeaderTracingData, 0, e.appendU32s(nil, 45)), bytes.Repeat([]byte{0xff}, 48)...)
	return map[string][]byte{
		"file":         file,
		"v1":           v1,
		"old":          old,
		"old, killed":  oldKilled,
		"killed":       killed,
		"unsized":      unsized,
		"junk behind":  append(bytes.Clone(file), "[ perf record: Woken up 1 times ]"...),
		"attrs behind": attrsBehind(e, file),
		"zstd":         build(tb, e, testEvents(), sample, Compress(RecordCompressed)),
		"pipe":         pipeOf(e, aux, file[data:end], tracing, rawRecord(e, RecordFinishedRound, 0, nil)),
		"zstd pipe":    zpipe.Bytes(),
	}
}

// attrsBehind moves a file's ids and attrs behind all else.
func attrsBehind(e endian, file []byte) []byte {
	b := bytes.Clone(file)
	attrs, size := e.u64(b[hdrAttrs:]), e.u64(b[hdrAttrs+8:])
	entry := e.u64(b[hdrAttrSize:])
	e.put64(b[hdrAttrs:], uint64(len(file)))
	for at := attrs; at < attrs+size; at += entry {
		ids := b[at+entry-attrEntryIDs:]
		where := e.u64(ids) - fileHeader + uint64(len(file)) + size
		e.put64(ids, where)
	}
	b = append(b, b[attrs:attrs+size]...)
	b = append(b, b[fileHeader:attrs]...)
	clear(b[fileHeader : attrs+size])
	return b
}

// stream reads all of a stream, as scan does a recording at hand.
func stream(rd *Reader) ([]Record, error) {
	var list []Record
	for rd.Next() {
		rec := *rd.Record()
		rec.Raw = bytes.Clone(rec.Raw)
		list = append(list, rec)
	}
	return list, rd.Err()
}

// TestReader reads recordings of every form out of streams that give much and
// little at a time, which must come to the same as reading them at hand.
func TestReader(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		for name, b := range forms(t, e) {
			for how, wrap := range map[string]func(io.Reader) io.Reader{
				"whole":  func(r io.Reader) io.Reader { return r },
				"bytes":  iotest.OneByteReader,
				"halves": iotest.HalfReader,
				"eof":    iotest.DataErrReader,
			} {
				t.Run(name+"/"+how, func(t *testing.T) {
					at := open(t, b)
					want, wantErr := scan(at)
					rd, err := NewReader(wrap(bytes.NewReader(b)))
					if err != nil {
						t.Fatal(err)
					}
					got, err := stream(rd)
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("records (-want +got):\n%s", diff)
					}
					if (err == nil) != (wantErr == nil) {
						t.Errorf("error %v, want %v", err, wantErr)
					}
					r := rd.Recording()
					if diff := cmp.Diff(at.Events(), r.Events(), ignoreLayouts); diff != "" {
						t.Errorf("events (-want +got):\n%s", diff)
					}
					if diff := cmp.Diff(values(at), values(r)); diff != "" {
						t.Errorf("features (-want +got):\n%s", diff)
					}
					if got, want := r.CleanEnd(), at.CleanEnd(); (got == nil) != (want == nil) {
						t.Errorf("CleanEnd: %v, want %v", got, want)
					}
					if r.Pipe() != at.Pipe() || r.ByteOrder() != at.ByteOrder() {
						t.Errorf("Pipe %v, ByteOrder %v", r.Pipe(), r.ByteOrder())
					}
					for i := range got {
						if _, err := decode(r, &got[i]); err != nil {
							t.Error(err)
						}
					}
					if rd.Next() {
						t.Error("Next goes on after the end")
					}
				})
			}
		}
	})
}

// TestReaderCut cuts recordings at every length.
func TestReaderCut(t *testing.T) {
	for name, b := range forms(t, little) {
		for n := 0; n < len(b); n += 5 {
			at, atErr := New(b[:n])
			rd, err := NewReader(bytes.NewReader(b[:n]))
			if (err == nil) != (atErr == nil) {
				t.Fatalf("%s of %d bytes: %v, want %v", name, n, err, atErr)
			}
			if err != nil {
				continue
			}
			want, wantErr := scan(at)
			got, err := stream(rd)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s of %d bytes: records (-want +got):\n%s", name, n, diff)
			}
			if (err == nil) != (wantErr == nil) {
				t.Errorf("%s of %d bytes: error %v, want %v", name, n, err, wantErr)
			}
			if err != nil && !errors.Is(err, ErrTruncated) {
				t.Errorf("%s of %d bytes: %v", name, n, err)
			}
			if (rd.Recording().CleanEnd() == nil) != (at.CleanEnd() == nil) {
				t.Errorf("%s of %d bytes: CleanEnd %v, want %v", name, n, rd.Recording().CleanEnd(), at.CleanEnd())
			}
		}
	}
}

// TestReaderDamaged changes a byte here and there, also in the sizes of traces: what comes
// later in a stream must not be needed to tell which records are damaged, or be waited for.
func TestReaderDamaged(t *testing.T) {
	trace := bytes.Repeat([]byte{0x5a}, 4096)
	traced := pipeOf(little,
		rawRecord(little, RecordAuxtrace, 0, little.appendU64s(nil, []uint64{4096, 0, 0, 0, 0})), trace,
		timed(little, 11, 100, 1), timed(little, 11, 101, 2), rawRecord(little, RecordFinishedRound, 0, nil),
		rawRecord(little, RecordAuxtrace, 0, little.appendU64s(nil, []uint64{0, 0, 0, 0, 0})),
		timed(little, 11, 102, 3), timed(little, 11, 103, 4), rawRecord(little, RecordFinishedRound, 0, nil))
	all := forms(t, little)
	all["traced"] = traced
	step := 5
	if testing.Short() {
		step = 31
	}
	for name, form := range all {
		for n := 0; n < len(form); n += step {
			if form[n] == 0x5a {
				continue // of a trace
			}
			b := bytes.Clone(form)
			b[n] ^= 1 << (n % 8)
			at, err := New(b)
			rd, rdErr := NewReader(iotest.OneByteReader(bytes.NewReader(b)))
			if err != nil || rdErr != nil {
				continue
			}
			want, wantErr := scan(at)
			got, err := stream(rd)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, byte %d is %#x: records (-want +got):\n%s", name, n, b[n], diff)
			}
			if (err == nil) != (wantErr == nil) {
				t.Errorf("%s, byte %d is %#x: error %v, want %v", name, n, b[n], err, wantErr)
			}
		}
	}
}

func TestReaderRefuses(t *testing.T) {
	far := build(t, little, nil, nil)
	little.put64(far[hdrData:], 1<<40)
	little.put64(far[hdrData+8:], 8)
	for _, tt := range []struct {
		b    string
		want error
	}{
		{"", ErrTruncated},
		{"PERFILE2", ErrTruncated},
		{"ELF and much that follows it", ErrBadMagic},
		{"PERFILE2\x20\x00\x00\x00\x00\x00\x00\x00" + strings.Repeat("\x00", 100), ErrUnsupported},
		{string(far), ErrUnsupported},
	} {
		if _, err := NewReader(strings.NewReader(tt.b)); !errors.Is(err, tt.want) {
			t.Errorf("%q: %v, want %v", tt.b, err, tt.want)
		}
	}
}

// TestReaderBroken has streams that fail, and one that gives nothing.
func TestReaderBroken(t *testing.T) {
	for name, b := range forms(t, little) {
		for _, n := range []int{0, 50, 300, len(b) - 120, len(b)} {
			rd, err := NewReader(io.MultiReader(bytes.NewReader(b[:n]), iotest.ErrReader(errBroken)))
			if err == nil {
				for rd.Next() {
				}
				err = rd.Err()
				if clean := rd.Recording().CleanEnd(); n < len(b) && clean == nil {
					t.Errorf("%s, broken after %d of %d bytes, ends cleanly", name, n, len(b))
				}
			}
			if n < len(b) && !errors.Is(err, errBroken) {
				t.Errorf("%s, broken after %d of %d bytes: %v", name, n, len(b), err)
			}
		}
	}
	b := pipeOf(little, rawRecord(little, RecordFinishedRound, 0, nil))
	rd, err := NewReader(io.MultiReader(bytes.NewReader(b), idleReader{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream(rd); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that gives nothing: %v", err)
	}
}

type idleReader struct{}

func (idleReader) Read([]byte) (int, error) { return 0, nil }

// TestReaderPayload reads some, all or nothing of what follows a record.
func TestReaderPayload(t *testing.T) {
	e := little
	trace := bytes.Repeat([]byte("trace of 16 byte"), 40_000) // more than is read at once
	aux := rawRecord(e, RecordAuxtrace, 0, e.appendU64s(nil, []uint64{uint64(len(trace)), 0, 0, 0, 0}))
	b := pipeOf(e, aux, trace, rawRecord(e, RecordFinishedRound, 0, nil), aux, trace[:100])
	for _, n := range []int64{0, 10, 300_000, int64(len(trace)), int64(len(trace)) + 1} {
		rd, err := NewReader(iotest.HalfReader(bytes.NewReader(b)), Only(RecordAuxtrace, RecordFinishedRound))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for rd.Next() {
			rec := rd.Record()
			data, err := io.ReadAll(io.LimitReader(rd.Payload(), n))
			if !bytes.HasPrefix(trace, data) {
				t.Errorf("%d bytes that are not of the trace", len(data))
			}
			if !bytes.Equal(rec.Raw, aux) && rec.Type == RecordAuxtrace {
				t.Error("the record changed")
			}
			got = append(got, fmt.Sprint(rec.Type, " ", len(data), " ", errors.Is(err, io.ErrUnexpectedEOF)))
		}
		want := []string{
			fmt.Sprint("AUXTRACE ", min(n, int64(len(trace))), " false"), "FINISHED_ROUND 0 false",
			fmt.Sprint("AUXTRACE ", min(n, 100), " ", n > 100),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("reading %d bytes (-want +got):\n%s", n, diff)
		}
		if !errors.Is(rd.Err(), ErrTruncated) {
			t.Errorf("reading %d bytes: %v", n, rd.Err())
		}
	}
}

// TestReaderLive hands records over before what follows them is there, and
// knows an event before its first record.
func TestReaderLive(t *testing.T) {
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	e := little
	step := make(chan bool)
	go func() {
		out.Write(pipeOf(e))
		for n := range 3 {
			<-step
			out.Write(timed(e, 11, uint64(100+n), uint64(n)))
		}
		<-step
		late := &Event{Attr: Attr{Size: 128, SampleType: SampleIP | SampleTID | SampleTime | SampleCPU | SampleIdentifier, Flags: FlagSampleIDAll}}
		out.Write(rawRecord(e, RecordHeaderAttr, 0, e.appendU64s(func() []byte {
			b := late.Attr.encode(e)[:128]
			e.put32(b[4:], 128)
			return b
		}(), []uint64{77})))
		out.Write(timed(e, 77, 200, 3))
		out.Close()
	}()
	rd, err := NewReader(in, Only(RecordSample))
	if err != nil {
		t.Fatal(err)
	}
	for n := range 4 {
		step <- true
		if !rd.Next() {
			t.Fatal("no record: ", rd.Err())
		}
		var id SampleID
		if err := rd.Recording().SampleID(rd.Record(), &id); err != nil {
			t.Error(err)
		}
		if want := []uint64{100, 101, 102, 200}[n]; id.Time != want || id.Event == nil {
			t.Errorf("time %d of event %v, want %d", id.Time, id.Event, want)
		}
	}
	if rd.Next() || rd.Err() != nil {
		t.Error("at the end: ", rd.Err())
	}
	if ev := rd.Recording().EventByID(77); ev == nil || ev.Index != 2 {
		t.Errorf("the event that came late: %+v", ev)
	}
}

// TestReaderMemory reads a long stream.
func TestReaderMemory(t *testing.T) {
	var part bytes.Buffer
	for n := range uint64(1000) {
		part.Write(timed(little, 11, n, n))
	}
	part.Write(rawRecord(little, RecordFinishedRound, 0, nil))
	aux := rawRecord(little, RecordAuxtrace, 0, little.appendU64s(nil, []uint64{uint64(part.Len()), 0, 0, 0, 0}))
	parts := []io.Reader{bytes.NewReader(pipeOf(little))}
	for range 500 {
		parts = append(parts, bytes.NewReader(part.Bytes()), bytes.NewReader(aux), bytes.NewReader(part.Bytes()))
	}
	rd, err := NewReader(io.MultiReader(parts...), Only(RecordSample))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for rd.Next() {
		n++
	}
	if n != 500*1000 || rd.Err() != nil {
		t.Errorf("%d records, %v", n, rd.Err())
	}
	if c := cap(rd.s.buf); c > streamBuffer {
		t.Errorf("a buffer of %d bytes", c)
	}
}
