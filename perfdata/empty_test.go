// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// everyWay reads a recording at hand, as a stream and unmapped. All must give the same records.
func everyWay(t *testing.T, data []byte) (list []Record, err error) {
	t.Helper()
	list, err = scan(open(t, data))
	path := filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	file, openErr := Open(path)
	if openErr != nil {
		t.Fatal(openErr)
	}
	defer file.Close()
	unmapped, unmappedErr := scan(file, Unmapped())
	rd, readErr := NewReader(bytes.NewReader(data))
	if readErr != nil {
		t.Fatal(readErr)
	}
	streamed, streamErr := stream(rd)
	for how, got := range map[string]struct {
		list []Record
		err  error
	}{"unmapped": {unmapped, unmappedErr}, "as a stream": {streamed, streamErr}} {
		same := slices.EqualFunc(got.list, list, func(a, b Record) bool {
			return a.Type == b.Type && a.Offset == b.Offset && bytes.Equal(a.Raw, b.Raw)
		})
		if !same || (got.err == nil) != (err == nil) {
			t.Errorf("%s: %d records, error %v; at hand %d, %v", how, len(got.list), got.err, len(list), err)
		}
	}
	return list, err
}

// TestEmptyRecords: perf uses no more than the header of a FINISHED_ROUND or FINISHED_INIT record,
// so one that is longer is no damage, unless other records begin in it.
func TestEmptyRecords(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		junk := bytes.Repeat([]byte{0xa5}, 200)
		poke := timed(e, 11, 50, 0)
		for _, typ := range []RecordType{RecordFinishedRound, RecordFinishedInit} {
			for _, n := range []int{1, 4, 8, 16, 24, 200} {
				for _, content := range [][]byte{make([]byte, n), junk[:n]} {
					raw := rawRecord(e, typ, 0, content)
					for name, around := range map[string][2][]byte{
						"in the middle": {poke, poke}, "at the end": {poke, nil}, "twice": {raw, raw},
					} {
						list, err := everyWay(t, build(t, e, testEvents(), func(w *Writer) {
							w.WriteRecord(poke)
							w.WriteRecord(around[0])
							w.WriteRecord(raw)
							if around[1] != nil {
								w.WriteRecord(around[1])
								w.WriteRecord(poke)
							}
						}))
						want := 5
						if around[1] == nil {
							want = 3
						}
						if len(list) != want || err != nil {
							t.Errorf("%v with %d bytes of %x, %s: %d records, want %d; error %v", typ, n, content[0], name, len(list), want, err)
						}
					}
				}
			}
		}
	})
}

// TestEmptySwallows: a FINISHED_ROUND whose damaged size takes in the next record, also one whose
// content does not show its size, is damage.
func TestEmptySwallows(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		r := open(t, build(t, e, testEvents(), nil))
		ev := r.Events()[1]
		id := SampleID{PID: 1, TID: 1, Time: 60, ID: 13, Has: SampleTID | SampleTime | SampleCPU | SampleIdentifier, Event: ev}
		next := map[string][]byte{
			"a record of the kernel": timed(e, 11, 60, 0),
			"a record of perf":       rawRecord(e, RecordHeaderBuildID, 0, append(make([]byte, 28), "[kernel.kallsyms]\x00\x00\x00\x00\x00\x00\x00"...)),
		}
		// Several listeners: the kernel adds up their trailers.
		var longer []byte
		one := build(t, e, testEvents(), func(w *Writer) {
			w.TextPoke(&TextPoke{Addr: 0x1000, Old: []byte{1}, New: []byte{2}, SampleID: id, Excess: 32})
		})
		list, err := scan(open(t, one))
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		longer = list[0].Raw
		next["a record with the trailers of two listeners"] = longer
		for name, raw := range next {
			data := build(t, e, testEvents(), func(w *Writer) {
				w.WriteRecord(timed(e, 11, 50, 0))
				w.FinishedRound()
				w.WriteRecord(raw)
				w.WriteRecord(timed(e, 11, 70, 0))
			})
			whole, err := everyWay(t, data)
			if err != nil || len(whole) != 4 {
				t.Fatalf("%s: %d records, error %v", name, len(whole), err)
			}
			e.put16(data[whole[1].Offset+6:], uint16(headerSize+len(raw)))
			if list, err := everyWay(t, data); err == nil || len(list) < 2 || list[1].Type == RecordFinishedRound {
				t.Errorf("%s is swallowed: %d records, error %v", name, len(list), err)
			}
		}
	})
}

// TestEmptyOfOtherType: a record whose damaged type is FINISHED_ROUND is damage.
func TestEmptyOfOtherType(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		data := build(t, e, testEvents(), func(w *Writer) {
			w.IDIndex(&IDIndex{Entries: []IDIndexEntry{{ID: 11, TID: -1, VCPU: -1}, {ID: 12, Idx: 1, CPU: 1, TID: -1, VCPU: -1}}})
			for n := range uint64(4) {
				w.WriteRecord(timed(e, 11, 50+n, 0))
			}
		})
		list, err := scan(open(t, data))
		if err != nil || list[0].Type != RecordIDIndex {
			t.Fatal(list, err)
		}
		e.put32(data[list[0].Offset:], uint32(RecordFinishedRound))
		var fe *FormatError
		if list, err := everyWay(t, data); len(list) != 4 || !errors.As(err, &fe) || fe.Err != ErrMalformed {
			t.Errorf("%d records, error %v", len(list), err)
		}
	})
}

// TestShortData: the header's size of the records ends within the last one, but the table of
// features begins where that one ends.
func TestShortData(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		for _, form := range []string{"file", "zstd"} {
			whole := forms(t, e)[form]
			want, err := everyWay(t, whole)
			if err != nil {
				t.Fatal(err)
			}
			last := 0
			for _, rec := range want {
				last = max(last, int(rec.Offset))
			}
			start, size := e.u64(whole[hdrData:]), e.u64(whole[hdrData+8:])
			end := int(start + size)
			for n := 1; n < end-last; n++ {
				name := fmt.Sprintf("%s, %d bytes less", form, n)
				short := bytes.Clone(whole)
				e.put64(short[hdrData+8:], size-uint64(n))
				got, err := everyWay(t, short)
				if len(got) != len(want) || err != nil {
					t.Errorf("%s: %d records, want %d; error %v", name, len(got), len(want), err)
				}
				r := open(t, short)
				if list := r.Features(); len(list) == 0 || !slices.Equal(list, open(t, whole).Features()) {
					t.Errorf("%s: features %v", name, list)
				}
				if w := r.Warnings(); len(w) != 1 || !errors.Is(w[0], ErrMalformed) || r.CleanEnd() == nil {
					t.Errorf("%s: warnings %v, clean end %v", name, w, r.CleanEnd())
				}
				rd, err := NewReader(bytes.NewReader(short))
				if err != nil {
					t.Fatal(err)
				}
				stream(rd)
				if list := rd.Recording().Features(); !slices.Equal(list, r.Features()) || rd.Recording().CleanEnd() == nil {
					t.Errorf("%s, as a stream: features %v, clean end %v", name, list, rd.Recording().CleanEnd())
				}
				// The table must begin where the record ends.
				e.put64(short[end:], e.u64(short[end:])+8)
				if got, err := everyWay(t, short); len(got) >= len(want) || !errors.Is(err, ErrTruncated) {
					t.Errorf("%s and no table: %d records, error %v", name, len(got), err)
				}
			}
		}
	})
}

// TestOtherType: a record of the kernel that changes text is missed if its type is damaged. It is
// damage, whatever type it has then.
func TestOtherType(t *testing.T) {
	const fitsPoke = "a symbol that has the size of a poke"
	both(t, func(t *testing.T, e endian) {
		id := SampleID{PID: 7, TID: 8, Time: 60, ID: 13, CPU: 1, Has: SampleTID | SampleTime | SampleCPU | SampleIdentifier, Event: testEvents()[1]}
		for name, write := range map[string]func(w *Writer) error{
			"a text poke of several listeners": func(w *Writer) error {
				return w.TextPoke(&TextPoke{Addr: 0xffffffff81000010, Old: []byte{0x0f, 0x1f, 0x44, 0, 0}, New: []byte{0xe8, 1, 2, 3, 4}, SampleID: id, Excess: 32})
			},
			"a symbol of several listeners": func(w *Writer) error {
				return w.KSymbol(&KSymbol{Addr: 0xffffffffc0001000, Len: 77, Kind: KSymbolBPF, Name: []byte("bpf_prog_6deef7357e7b4530"), SampleID: id, Excess: 32})
			},
			"a text poke": func(w *Writer) error {
				return w.TextPoke(&TextPoke{Addr: 0xffffffff81000010, Old: []byte{0x0f, 0x1f, 0x44, 0, 0}, New: []byte{0xe8, 1, 2, 3, 4}, SampleID: id})
			},
			"a symbol": func(w *Writer) error {
				return w.KSymbol(&KSymbol{Addr: 0xffffffffc0001000, Len: 77, Kind: KSymbolBPF, Name: []byte("bpf_prog_6deef7357e7b4530"), SampleID: id})
			},
			"a text poke of a byte": func(w *Writer) error {
				return w.TextPoke(&TextPoke{Addr: 0xffffffff81000010, Old: []byte{0x55}, New: []byte{0xcc}, SampleID: id})
			},
			"a text poke that makes code": func(w *Writer) error {
				return w.TextPoke(&TextPoke{Addr: 0xffffffffc0002010, New: []byte{0xe9, 1, 2}, SampleID: id})
			},
			fitsPoke: func(w *Writer) error {
				return w.KSymbol(&KSymbol{Addr: 0xffffffffc0001000, Len: 32, Kind: KSymbolBPF, Name: []byte("bpf_prog_6deef7357e7b4530"), SampleID: id})
			},
			"a loss": func(w *Writer) error {
				return w.Lost(&Lost{ID: 13, Lost: 5, SampleID: id})
			},
			"a load": func(w *Writer) error {
				return w.BPFEvent(&BPFEvent{Kind: BPFLoad, ID: 42, Tag: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, SampleID: id})
			},
		} {
			data := build(t, e, testEvents(), func(w *Writer) {
				for n := range uint64(4) {
					w.WriteRecord(timed(e, 11, 50+n, 0))
				}
				if err := write(w); err != nil {
					t.Fatal(err)
				}
				for n := range uint64(4) {
					w.WriteRecord(timed(e, 11, 70+n, 0))
				}
			})
			list, err := everyWay(t, data)
			if err != nil || len(list) != 9 {
				t.Fatal(list, err)
			}
			r := open(t, data)
			for other := range RecordType(1 << 15) {
				if mayBeOversize(other) && other != RecordKSymbol && (name != fitsPoke || other != RecordTextPoke) || other == list[4].Type || other > 300 && other%1000 != 0 { // among these three, the content shows it
					continue
				}
				e.put32(data[list[4].Offset:], uint32(other))
				h, raw := e.header(data[list[4].Offset:]), data[list[4].Offset:][:len(list[4].Raw)]
				if r.fitOf(h, raw) == exact && (e == big || name == "a load") {
					continue // nothing shows it
				}
				if _, err := scan(open(t, data)); err == nil {
					t.Errorf("%s with the type of %v: no error", name, other)
				}
			}
		}
	})
}
