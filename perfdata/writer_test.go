// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestWriterCopies writes the records, events and features of recordings as
// they were read, which must give the same files.
func TestWriterCopies(t *testing.T) {
	for _, path := range []string{"testdata/x86_64.data", "testdata/s390x.data"} {
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		r := open(t, want)
		got := build(t, r.endian, r.Events(), func(w *Writer) {
			for s := r.Scan(); s.Next(); {
				w.WriteRecord(s.Record().Raw)
			}
			for _, f := range r.Features() {
				b, err := r.Feature(f)
				if err != nil {
					t.Fatal(err)
				}
				w.WriteFeature(f, b)
			}
		})
		if !bytes.Equal(got, want) {
			t.Errorf("%s: the copy differs", path)
		}
	}
}

// TestWriterPosition writes a recording behind other bytes.
func TestWriterPosition(t *testing.T) {
	f := memFile{b: []byte("before"), off: 6}
	w := NewWriter(&f, little.order())
	w.SetEvents(testEvents())
	sample(w)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if f.off != int64(len(f.b)) {
		t.Errorf("left at %d of %d", f.off, len(f.b))
	}
	if r := open(t, f.b[6:]); r.CleanEnd() != nil || string(f.b[:6]) != "before" {
		t.Error(r.CleanEnd())
	}
}

func TestWriterRefuses(t *testing.T) {
	sized := func(size uint16, n int) []byte {
		b := rawRecord(little, RecordSample, 0, make([]byte, n-headerSize))
		little.put16(b[6:], size)
		return b
	}
	tests := []struct {
		name string
		do   func(w *Writer) error
	}{
		{"half a header", func(w *Writer) error { return w.WriteRecord(make([]byte, 4)) }},
		{"size 0", func(w *Writer) error { return w.WriteRecord(sized(0, 16)) }},
		{"too short", func(w *Writer) error { return w.WriteRecord(sized(24, 16)) }},
		{"too long", func(w *Writer) error { return w.WriteRecord(sized(16, 24)) }},
		{"trace without its bytes", func(w *Writer) error {
			return w.WriteRecord(rawRecord(little, RecordAuxtrace, 0, little.appendU64s(nil, []uint64{8, 0, 0, 0, 0})))
		}},
		{"poke of 64 KiB", func(w *Writer) error { return w.TextPoke(&TextPoke{New: make([]byte, 1<<16)}) }},
		{"name of 64 KiB", func(w *Writer) error { return w.Comm(0, &Comm{Comm: make([]byte, 1<<16)}) }},
		{"Mmap that is none", func(w *Writer) error { return w.Mmap(RecordComm, 0, &Mmap{}) }},
		{"feature 0", func(w *Writer) error { return w.WriteFeature(0, nil) }},
		{"feature 256", func(w *Writer) error { return w.WriteFeature(256, nil) }},
		{"events too late", func(w *Writer) error { w.FinishedRound(); return w.SetEvents(testEvents()) }},
	}
	for _, tt := range tests {
		w := NewWriter(new(memFile), little.order())
		err := tt.do(w)
		if err == nil {
			t.Errorf("%s: no error", tt.name)
		}
		if err2 := w.FinishedRound(); err2 != err {
			t.Errorf("%s: error %v, then %v", tt.name, err, err2)
		}
		if err2 := w.Close(); err2 != err {
			t.Errorf("%s: error %v, then %v from Close", tt.name, err, err2)
		}
	}
	w := NewWriter(new(memFile), little.order())
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if w.Close() == nil || w.FinishedRound() == nil {
		t.Error("a closed Writer writes")
	}
}

// A brokenFile fails after n calls.
type brokenFile struct {
	memFile
	n int
}

var errBroken = errors.New("broken")

func (f *brokenFile) Write(p []byte) (int, error) {
	if f.n--; f.n < 0 {
		return 0, errBroken
	}
	return f.memFile.Write(p)
}

func (f *brokenFile) Seek(offset int64, whence int) (int64, error) {
	if f.n--; f.n < 0 {
		return 0, errBroken
	}
	return f.memFile.Seek(offset, whence)
}

func TestWriterErrors(t *testing.T) {
	var _ io.WriteSeeker = new(brokenFile)
	for n := range 4 {
		w := NewWriter(&brokenFile{n: n}, little.order())
		w.SetEvents(testEvents())
		sample(w)
		if err := w.Close(); !errors.Is(err, errBroken) {
			t.Errorf("broken after %d calls: %v", n, err)
		}
	}
}

// TestWriterCloseAfterError: Close returns the first error, whatever was set before it and after it.
func TestWriterCloseAfterError(t *testing.T) {
	for name, spoil := range map[string]func(f *memFile) (*Writer, error){
		"compressed samples": func(f *memFile) (*Writer, error) {
			w := NewWriter(f, little.order(), Compress(RecordSample))
			return w, w.SetEvents(testEvents())
		},
		"a feature that is none": func(f *memFile) (*Writer, error) {
			w := NewWriter(f, little.order())
			err := w.WriteFeature(256, nil)
			w.SetEvents(testEvents())
			return w, err
		},
	} {
		w, want := spoil(new(memFile))
		if err := w.Close(); want == nil || !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
}

// TestWriterForms writes the same records in every form, compressed and not,
// in either byte order. They are enough to fill several chunks that compress badly.
func TestWriterForms(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		for name, opts := range map[string][]WriterOption{
			"plain": nil, "zstd": {Compress(RecordCompressed)}, "zstd 2": {Compress(RecordCompressed2)},
		} {
			for _, form := range []string{"file", "pipe", "directory"} {
				t.Run(form+", "+name, func(t *testing.T) {
					path := filepath.Join(t.TempDir(), "perf.data")
					var out bytes.Buffer
					var f memFile
					var w *Writer
					var err error
					files := 1
					switch form {
					case "file":
						w = NewWriter(&f, e.order(), opts...)
					case "pipe":
						w = NewPipeWriter(&out, e.order(), opts...)
					case "directory":
						files = 3
						if w, err = CreateDir(path, files-1, e.order(), opts...); err != nil {
							t.Fatal(err)
						}
					}
					w.SetEvents(testEvents())
					want := make([][]string, files)
					for n := range 300 {
						w.SetFile(n % files)
						rec := numbered(e, RecordSample, uint64(n), 8192)
						if n%7 == 0 {
							rec = rawRecord(e, RecordFinishedRound, 0, nil)
						}
						w.WriteRecord(rec)
						want[n%files] = append(want[n%files], string(rec))
					}
					w.WriteFeature(FeatureHostname, e.appendString(nil, "box"))
					w.WriteFeature(FeatureTracingData, []byte("tracing"))
					if err := w.Close(); err != nil {
						t.Fatal(err)
					}
					var r *Recording
					switch form {
					case "file":
						r, err = New(f.b)
					case "pipe":
						r, err = New(out.Bytes())
					case "directory":
						r, err = Open(path)
					}
					if err != nil {
						t.Fatal(err)
					}
					defer r.Close()
					got := make([][]string, files)
					s := r.Scan(Only(RecordSample, RecordFinishedRound))
					for s.Next() {
						rec := s.Record()
						got[rec.File] = append(got[rec.File], string(rec.Raw))
					}
					if err := s.Err(); err != nil {
						t.Error(err)
					}
					if diff := cmp.Diff(want, got); diff != "" {
						t.Error("other records")
					}
					if diff := cmp.Diff(testEvents(), r.Events(), ignoreLayouts); diff != "" {
						t.Errorf("events (-want +got):\n%s", diff)
					}
					if host, err := r.Hostname(); host != "box" || err != nil {
						t.Errorf("Hostname: %q, %v", host, err)
					}
					if data, err := r.TracingData(); string(data) != "tracing" || err != nil {
						t.Errorf("TracingData: %q, %v", data, err)
					}
					if c, err := r.Compressed(); (err == nil) != (opts != nil) || opts != nil && c.MmapLen != deflateChunk {
						t.Errorf("Compressed: %+v, %v", c, err)
					}
					if v, err := r.DirFormat(); form == "directory" && (v != dirVersion || err != nil) {
						t.Errorf("DirFormat: %d, %v", v, err)
					}
					if len(r.Warnings()) > 0 || form == "file" && r.CleanEnd() != nil {
						t.Errorf("warnings %v, CleanEnd %v", r.Warnings(), r.CleanEnd())
					}
				})
			}
		}
	})
}

func TestWriterFormsRefuse(t *testing.T) {
	pipe := NewPipeWriter(io.Discard, little.order())
	pipe.SetEvents([]*Event{{IDs: make([]uint64, 1<<13)}})
	if pipe.Close() == nil {
		t.Error("64 KiB of ids in a pipe: no error")
	}
	pipe = NewPipeWriter(io.Discard, little.order())
	pipe.SetEvents(testEvents())
	if pipe.WriteFeature(FeatureBPFProgInfo, make([]byte, 1<<16)) == nil {
		t.Error("a feature of 64 KiB in a pipe: no error")
	}
	if NewWriter(new(memFile), little.order(), Compress(RecordSample)).Close() == nil {
		t.Error("compressed into SAMPLE: no error")
	}
	if w := NewWriter(new(memFile), little.order()); w.SetFile(1) == nil || w.Close() == nil {
		t.Error("the second file of one: no error")
	}
	if _, err := CreateDir(t.TempDir(), 1, little.order()); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a directory that is there: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "none")
	w, err := CreateDir(dir, 0, little.order())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if v, err := r.DirFormat(); v != dirSingleFile || err != nil {
		t.Errorf("DirFormat: %d, %v", v, err)
	}
}
