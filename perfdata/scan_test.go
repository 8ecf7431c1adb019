// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pipeOf makes a pipe that ends with the given bytes.
func pipeOf(e endian, parts ...[]byte) []byte {
	return pipeForm(e, testEvents(), slices.Concat(parts...))
}

// TestFrame damages the frame of the second of three records.
func TestFrame(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		ok := rawRecord(e, RecordFinishedRound, 0, nil)
		second := int64(len(pipeOf(e, ok)))
		sized := func(typ RecordType, size uint16, n int) []byte {
			b := rawRecord(e, typ, 0, make([]byte, n-headerSize))
			e.put16(b[6:], size)
			return b
		}
		tests := []struct {
			name string
			b    []byte
			want error
			typ  RecordType
			text string
		}{
			{"size 0", sized(RecordSample, 0, 8), ErrMalformed, RecordSample, "record of 0 bytes"},
			{"size 4", sized(RecordSample, 4, 8), ErrMalformed, RecordSample, "record of 4 bytes"},
			{"size 12", sized(RecordSample, 12, 16), ErrMalformed, RecordSample, "not a multiple of 8"},
			{"past the end", sized(RecordSample, 72, 8), ErrTruncated, RecordSample, "record of 72 bytes, of which only 16 are there"},
			{"text", []byte("[ perf record: Woken up 1 times to write data ]\n"), ErrTruncated, 0, ""},
			{"AUXTRACE without a size", sized(RecordAuxtrace, 8, 8), ErrMalformed, RecordAuxtrace, "record of 8 bytes"},
			{"TRACING_DATA without a size", sized(RecordHeaderTracingData, 8, 8), ErrMalformed, RecordHeaderTracingData, "record of 8 bytes"},
			{"COMPRESSED2 without a size", sized(RecordCompressed2, 24, 8), ErrTruncated, RecordCompressed2, "past"},
		}
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				list, err := scan(open(t, pipeOf(e, ok, tt.b, ok)), KeepCompressed(), Only(RecordFinishedRound))
				if len(list) != 1 {
					t.Errorf("%d records before the damage, want 1", len(list))
				}
				var fe *FormatError
				if !errors.As(err, &fe) || fe.Offset != second {
					t.Fatalf("got error %v, want one at %d", err, second)
				}
				if tt.typ == 0 {
					return // what the text says to be a record differs by byte order
				}
				if tt.text == "past" { // its data_size is what follows: a header
					if tt.text, tt.want = "compressed bytes", ErrMalformed; e == big {
						tt.want = ErrTruncated // by chance it agrees with the record's size
					}
				}
				if !errors.Is(err, tt.want) || fe.Record != tt.typ || !strings.Contains(fe.Msg, tt.text) {
					t.Errorf("got %v, want %v: %v with %q", err, tt.typ, tt.want, tt.text)
				}
			})
		}
	})
}

// TestScanEnds asks a Scanner that has come to its end again.
func TestScanEnds(t *testing.T) {
	for _, tail := range [][]byte{nil, {1, 2, 3}, rawRecord(little, RecordSample, 0, make([]byte, 24))[:16]} {
		s := open(t, pipeOf(little, tail)).Scan()
		for s.Next() {
		}
		err := s.Err()
		for range 2 {
			if s.Next() {
				t.Error("Next goes on after the end")
			}
		}
		if (err == nil) != (tail == nil) || s.Err() != err {
			t.Errorf("with %d bytes more: error %v, then %v", len(tail), err, s.Err())
		}
	}
}

// TestUnalignedUserRecords has sizes that perf itself did not round up.
func TestUnalignedUserRecords(t *testing.T) {
	b := pipeOf(little,
		rawRecord(little, RecordCPUMap, 0, unhex("0000 0100 0000 0000 0000 0000")),
		rawRecord(little, RecordHeaderFeature, 0, unhex("0300000000000000 04000000 626f7800")),
		rawRecord(little, 200, 0, []byte{1, 2, 3}),
		rawRecord(little, 40000, 0, []byte{1}),
		rawRecord(little, RecordFinishedRound, 0, nil))
	list, err := scan(open(t, b), Only(RecordCPUMap, RecordFinishedRound, 200, 40000))
	if diff := cmp.Diff([]string{"CPU_MAP", "UNKNOWN_200", "UNKNOWN_40000", "FINISHED_ROUND"}, types(list)); diff != "" || err != nil {
		t.Errorf("%v; records (-want +got):\n%s", err, diff)
	}
}

// TestPayload skips what follows a record without being in its size.
func TestPayload(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		junk := bytes.Repeat([]byte{0xff}, 48)
		aux := append(rawRecord(e, RecordAuxtrace, 0, e.appendU64s(nil, []uint64{48, 0, 0, 0, 0})), junk...)
		tracing := append(rawRecord(e, RecordHeaderTracingData, 0, e.appendU32s(nil, 45)), junk...)
		inside := rawRecord(e, RecordHeaderTracingData, 0, append(e.appendU32s(nil, 4), "abcd"...))
		end := rawRecord(e, RecordFinishedRound, 0, nil)

		r := open(t, pipeOf(e, aux, tracing, end))
		list, err := scan(r, Only(RecordAuxtrace, RecordHeaderTracingData, RecordFinishedRound))
		if diff := cmp.Diff([]string{"AUXTRACE", "TRACING_DATA", "FINISHED_ROUND"}, types(list)); diff != "" || err != nil {
			t.Errorf("%v; records (-want +got):\n%s", err, diff)
		}
		s := r.Scan(Only(RecordAuxtrace, RecordFinishedRound))
		if !s.Next() || !bytes.Equal(s.Payload(), junk) {
			t.Errorf("Payload: %x", s.Payload())
		}
		if !s.Next() || s.Payload() != nil {
			t.Errorf("Payload of a %v: %x", s.Record().Type, s.Payload())
		}
		if data, err := r.TracingData(); !bytes.Equal(data, junk[:45]) {
			t.Errorf("TracingData: %x, %v", data, err)
		}
		if data, err := open(t, pipeOf(e, inside, end)).TracingData(); string(data) != "abcd" {
			t.Errorf("TracingData inside the record: %q, %v", data, err)
		}

		// The record before what is cut off is whole.
		list, err = scan(open(t, pipeOf(e, aux[:len(aux)-8])), Only(RecordAuxtrace))
		if len(list) != 1 || !errors.Is(err, ErrTruncated) {
			t.Errorf("cut in the trace: %d records, %v", len(list), err)
		}
		huge := rawRecord(e, RecordAuxtrace, 0, e.appendU64s(nil, []uint64{1<<64 - 8, 0, 0, 0, 0}))
		list, err = scan(open(t, pipeOf(e, huge, end)), Only(RecordAuxtrace, RecordFinishedRound))
		if len(list) != 1 || !errors.Is(err, ErrTruncated) {
			t.Errorf("a trace of 2^64-8 bytes: %d records, %v", len(list), err)
		}
	})
}

// TestCutAnywhere cuts a recording at every length: it opens or says why not,
// gives the records that are whole, and then one error.
func TestCutAnywhere(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		for name, whole := range map[string][]byte{
			"file": build(t, e, testEvents(), sample),
			"pipe": pipeOf(e, rawRecord(e, RecordComm, 0, make([]byte, 56)), rawRecord(e, RecordFinishedRound, 0, nil)),
		} {
			want, err := scan(open(t, whole))
			if err != nil {
				t.Fatal(err)
			}
			for n := range whole {
				r, err := New(whole[:n])
				if err != nil {
					if n >= fileHeader {
						t.Errorf("%s of %d bytes: %v", name, n, err)
					}
					continue
				}
				got, err := scan(r)
				if len(got) > len(want) || !slices.EqualFunc(got, want[:len(got)], func(a, b Record) bool {
					return a.Type == b.Type && a.Offset == b.Offset && bytes.Equal(a.Raw, b.Raw)
				}) {
					t.Fatalf("%s of %d bytes: other records", name, n)
				}
				end := int(want[len(want)-1].Offset) + len(want[len(want)-1].Raw)
				if len(got) < len(want) && err == nil && !(r.Pipe() && boundary(want, n)) {
					t.Errorf("%s of %d bytes: %d of %d records and no error", name, n, len(got), len(want))
				}
				if n >= end && err != nil {
					t.Errorf("%s of %d bytes: all records are there, but %v", name, n, err)
				}
				if r.CleanEnd() == nil {
					t.Errorf("%s of %d bytes: CleanEnd is nil", name, n)
				}
			}
		}
	})
}

// boundary reports whether a record begins at offset n.
func boundary(list []Record, n int) bool {
	return slices.ContainsFunc(list, func(rec Record) bool { return rec.Offset == int64(n) })
}

// TestConcurrent scans and decodes one recording from several goroutines.
func TestConcurrent(t *testing.T) {
	r := open(t, build(t, little, testEvents(), sample))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			list, err := scan(r)
			if len(list) != 3 || err != nil {
				t.Errorf("%d records, %v", len(list), err)
			}
			for i := range list {
				if _, err := decode(r, &list[i]); err != nil {
					t.Error(err)
				}
			}
			if host, err := r.Hostname(); host != "box" || err != nil {
				t.Errorf("Hostname: %q, %v", host, err)
			}
		})
	}
	wg.Wait()
}
