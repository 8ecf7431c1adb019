// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
)

// A compressor makes a stream as perf record -z does: one frame that is
// flushed but never ended.
type compressor struct {
	tb  testing.TB
	out bytes.Buffer
	enc *zstd.Encoder
}

func newCompressor(tb testing.TB) *compressor {
	c := &compressor{tb: tb}
	var err error
	c.enc, err = zstd.NewWriter(&c.out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// flush compresses records and returns what came out.
func (c *compressor) flush(records ...[]byte) []byte {
	for _, rec := range records {
		if _, err := c.enc.Write(rec); err != nil {
			c.tb.Fatal(err)
		}
	}
	if err := c.enc.Flush(); err != nil {
		c.tb.Fatal(err)
	}
	b := bytes.Clone(c.out.Bytes())
	c.out.Reset()
	return b
}

func compressed2(e endian, data []byte) []byte {
	body := e.appendU64s(nil, []uint64{uint64(len(data))})
	body = append(body, data...)
	return rawRecord(e, RecordCompressed2, 0, append(body, make([]byte, align8(len(data))-len(data))...))
}

// numbered makes a record whose size is its number.
func numbered(e endian, typ RecordType, number uint64, size int) []byte {
	body := e.appendU64s(nil, []uint64{number})
	for x := number; len(body) < size-headerSize; {
		x = x*6364136223846793005 + 1442695040888963407 // no pattern to compress
		body = e.appendU64s(body, []uint64{x})
	}
	return rawRecord(e, typ, 0, body)
}

func TestCompressed(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		for _, typ := range []RecordType{RecordCompressed, RecordCompressed2} {
			t.Run(typ.String(), func(t *testing.T) {
				block := func(data []byte) []byte {
					if typ == RecordCompressed2 {
						return compressed2(e, data)
					}
					return rawRecord(e, RecordCompressed, 0, data)
				}
				round := rawRecord(e, RecordFinishedRound, 0, nil)
				z := newCompressor(t)
				first := z.flush(numbered(e, RecordSample, 1, 64), numbered(e, RecordTextPoke, 2, 80))
				// A record that goes on in the next flush, which itself is cut
				// where no block ends.
				third := numbered(e, RecordSample, 3, 4096)
				second := z.flush(third[:100])
				rest := z.flush(third[100:], numbered(e, RecordSample, 4, 16))
				var big [][]byte
				for i := range 200 {
					big = append(big, numbered(e, RecordSample, uint64(5+i), 2048))
				}
				long := z.flush(big...)
				records := [][]byte{round, block(first), round, block(second), round, block(rest[:50]), block(rest[50:]), round}
				for part := range slices.Chunk(long, 60000) {
					records = append(records, block(part))
				}
				records = append(records, round)

				r := open(t, pipeOf(e, records...))
				var got []string
				last, blocks := uint64(0), 0
				s := r.Scan(Only(RecordSample, RecordTextPoke, RecordFinishedRound, typ))
				for s.Next() {
					rec := s.Record()
					switch rec.Type {
					case typ:
						blocks++
						continue
					case RecordFinishedRound:
						got = append(got, fmt.Sprintf("round after %d", last))
						continue
					}
					n := e.u64(rec.Body())
					if n != last+1 || !bytes.Equal(rec.Raw, numbered(e, rec.Type, n, len(rec.Raw))) {
						t.Fatalf("record %d after %d", n, last)
					}
					last = n
				}
				if err := s.Err(); err != nil {
					t.Error(err)
				}
				// What was compressed comes out before what follows it.
				want := []string{"round after 0", "round after 2", "round after 2", "round after 4", "round after 204"}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("order (-want +got):\n%s", diff)
				}
				if want := len(records) - 5; blocks != want {
					t.Errorf("%d records %v, want %d", blocks, typ, want)
				}
				if list, err := scan(r, KeepCompressed(), Only(RecordSample)); len(list) != 0 || err != nil {
					t.Errorf("KeepCompressed: %d records, %v", len(list), err)
				}
				if list, err := scan(r, Only(RecordTextPoke)); len(list) != 1 || err != nil {
					t.Errorf("Only: %d pokes, %v", len(list), err)
				}
			})
		}
	})
}

// TestCompressedAlone: a CPU of perf record --threads -z may record one change only. zstd does not
// make it shorter, so the record is there as it is: not one that a damaged size has swallowed.
func TestCompressedAlone(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		poke := timedPoke(e)
		header := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 0x58, byte(len(poke) << 3), byte(len(poke) >> 5), 0}
		r := open(t, build(t, e, testEvents(), func(w *Writer) {
			w.WriteRecord(rawRecord(e, RecordCompressed, 0, append(header, poke...)))
		}))
		list, err := scan(r)
		if err != nil || len(list) != 2 || list[0].Type != RecordCompressed || !bytes.Equal(list[1].Raw, poke) {
			t.Errorf("%d records, %v", len(list), err)
		}
	})
}

// timedPoke is a text poke of the second of testEvents.
func timedPoke(e endian) []byte {
	body := e.pack(uint64(0xffffffff81234567), uint16(5), uint16(5), []byte{0x0f, 0x1f, 0x44, 0, 0, 0xe9, 1, 2, 3, 4, 0, 0})
	return rawRecord(e, RecordTextPoke, 0, append(body, e.pack(uint32(7), uint32(8), uint64(60), uint64(1), uint64(13))...))
}

// TestCompressed2Overflow has a record of 64 KiB, whose header says 0.
func TestCompressed2Overflow(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		z := newCompressor(t)
		var records [][]byte
		for i := range 60 {
			records = append(records, numbered(e, RecordSample, uint64(1+i), 2048))
		}
		data := z.flush(records...)
		const n = 1<<16 - compressed2Data
		if len(data) < n+100 {
			t.Fatalf("only %d bytes", len(data))
		}
		b := pipeOf(e, compressed2(e, data[:n]), compressed2(e, data[n:]), rawRecord(e, RecordFinishedRound, 0, nil))
		list, err := scan(open(t, b), Only(RecordSample, RecordFinishedRound))
		if len(list) != 61 || err != nil {
			t.Errorf("%d records, %v", len(list), err)
		}
		if size := e.header(compressed2(e, data[:n])).size; size != 0 {
			t.Fatalf("the header says %d", size)
		}
	})
}

// TestCompressedDamage damages what is compressed: the records before it, an
// error, what is not compressed, and what is in a frame that begins anew.
func TestCompressedDamage(t *testing.T) {
	e := little
	events := []*Event{{IDs: []uint64{11, 12}, Attr: Attr{Size: 128, Flags: FlagSampleIDAll, SampleType: SampleIdentifier | SampleTime | SampleCallchain}}}
	events[0].Name = "cycles"
	sample := func(number uint64) []byte { // of 512 bytes, which do not compress well
		chain := numbered(e, RecordSample, number, 512-24)[headerSize:]
		body := e.appendU64s(nil, []uint64{11, 1000 + number, uint64(len(chain)) / 8})
		return rawRecord(e, RecordSample, MiscKernel, append(body, chain...))
	}
	numberOf := func(rec *Record) uint64 { return e.u64(rec.Raw[headerSize+24:]) }
	first, second, third := sample(1), sample(2), sample(3)
	round := rawRecord(e, RecordFinishedRound, 0, nil)
	block := func(b []byte) []byte { return rawRecord(e, RecordCompressed, 0, b) }
	fresh := func(records ...[]byte) []byte { return block(newCompressor(t).flush(records...)) }
	ended := func(z *compressor, records ...[]byte) []byte {
		b := z.flush(records...)
		z.enc.Close()
		return append(b, z.out.Bytes()...)
	}
	pipe := func(parts ...[]byte) []byte { return pipeForm(e, events, slices.Concat(parts...)) }
	tests := []struct {
		name string
		make func(z *compressor) []byte
		want string // the numbers of the records, and the error
	}{
		{"whole", func(z *compressor) []byte { return pipe(block(z.flush(first)), block(z.flush(second)), round) }, "1 2 round, <nil>"},
		{"ended frame", func(z *compressor) []byte { return pipe(block(ended(z, first)), fresh(second), round) }, "1 2 round, <nil>"},
		{"no zstd", func(z *compressor) []byte {
			return pipe(block(z.flush(first)[4:]), round)
		}, "round, malformed"},
		{"lost block", func(z *compressor) []byte {
			a, _, c := z.flush(first), z.flush(second[:256]), z.flush(second[256:])
			return pipe(block(a), block(c), round)
		}, "1 round, malformed"},
		{"cut inside a record", func(z *compressor) []byte {
			return pipe(block(z.flush(first)), block(z.flush(second[:256])))
		}, "1, truncated"},
		{"cut inside a block", func(z *compressor) []byte {
			a, b := z.flush(first), z.flush(second)
			return pipe(block(a), block(b[:len(b)-1]))
		}, "1, truncated"},
		{"size 0 inside", func(z *compressor) []byte { return pipe(block(z.flush(first, make([]byte, 16))), round) }, "1 round, malformed"},
		{"compressed inside", func(z *compressor) []byte {
			return pipe(block(z.flush(first, block(make([]byte, 8)), second)), round)
		}, "1 round, malformed"},
		{"a record that is not as long as it says, and nothing behind it", func(z *compressor) []byte {
			bad := bytes.Clone(second)
			e.put16(bad[6:], 480)
			return pipe(block(z.flush(first, bad, third)), round)
		}, "1 round, malformed"},
		{"block that is too large", func(z *compressor) []byte {
			a := z.flush(first)
			return pipe(block(append(a, 0xfc, 0xff, 0xff)), round)
		}, "1 round, malformed"},
		{"reserved block", func(z *compressor) []byte {
			a := z.flush(first)
			return pipe(block(append(a, 0x0e, 0, 0)), round)
		}, "1 round, malformed"},

		{"fresh frame behind a bad one", func(z *compressor) []byte {
			return pipe(block(append(z.flush(first), 0x0e, 0, 0)), round, block(z.flush(second)), fresh(third), round)
		}, "1 round 3 round, malformed"},
		{"fresh frame behind one without an end", func(z *compressor) []byte {
			return pipe(block(z.flush(first)), fresh(second), round)
		}, "1 2 round, malformed"},
		{"fresh frame within a record", func(z *compressor) []byte {
			parts := newCompressor(t)
			return pipe(block(append(z.flush(first), 0x0e, 0, 0)), block(parts.flush(second[200:])), block(parts.flush(third, sample(4))), round)
		}, "1 3 4 round, malformed"},
		{"checksum of a frame", func(z *compressor) []byte {
			bad := ended(z, first)
			bad[len(bad)-1]++
			return pipe(block(bad), fresh(second), round)
		}, "1 2 round, malformed"},
		{"checksum of a frame, and another in the same record", func(z *compressor) []byte {
			bad := ended(z, first)
			bad[len(bad)-1]++
			return pipe(block(append(bad, newCompressor(t).flush(second)...)), fresh(third), round)
		}, "1 3 round, malformed"},
		{"a frame whose beginning comes later", func(z *compressor) []byte {
			// What comes behind the beginning need not follow it.
			a, b, c := z.flush(first), z.flush(second), z.flush(third)
			return pipe(block(b), block(a), block(c), round)
		}, "1 round, malformed"},
		{"a frame whose beginning is missing, and a fresh one", func(z *compressor) []byte {
			z.flush(first)
			other := newCompressor(t)
			a, b := other.flush(second), other.flush(third)
			return pipe(block(z.flush(third)), fresh(first), round, block(a), block(b))
		}, "1 round 2 3, malformed"},
		{"a block that is no record any more", func(z *compressor) []byte {
			a, b, c := block(z.flush(first)), block(z.flush(second)), block(z.flush(third))
			e.put32(b, 113) // a type of newer perfs
			return pipe(a, b, c, round)
		}, "1 round, malformed"},
		{"a record whose size was a block's and more", func(z *compressor) []byte {
			a, b, c := block(z.flush(first)), block(z.flush(second)), block(z.flush(third))
			e.put16(b[6:], uint16(len(b)+len(round)))
			return pipe(a, b, round, c, round)
		}, "1 round round, malformed"},
		{"a round whose size was damaged", func(z *compressor) []byte {
			bad := bytes.Clone(round)
			e.put16(bad[6:], 4000)
			return pipe(block(z.flush(first)), bad, block(z.flush(second)), round, block(z.flush(third)), round)
		}, "1 2 round 3 round, malformed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := open(t, tt.make(newCompressor(t)))
			compareInside(t, "many at once", r, 0)
			list, err := scan(r, Only(RecordSample, RecordFinishedRound))
			var got []string
			for _, rec := range list {
				if rec.Type == RecordFinishedRound {
					got = append(got, "round")
				} else {
					got = append(got, fmt.Sprint(numberOf(&rec)))
				}
			}
			var cause error
			for _, c := range []error{ErrMalformed, ErrTruncated} {
				if errors.Is(err, c) {
					cause = c
				}
			}
			if text := fmt.Sprintf("%s, %v", strings.Join(got, " "), cause); text != tt.want {
				t.Errorf("got %q (%v), want %q", text, err, tt.want)
			}
		})
	}
}

func BenchmarkCompressed(b *testing.B) {
	z := newCompressor(b)
	var records [][]byte
	for i := range 2000 {
		records = append(records, numbered(little, RecordSample, uint64(i), 80))
	}
	var blocks [][]byte
	for part := range slices.Chunk(z.flush(records...), 60000) {
		blocks = append(blocks, rawRecord(little, RecordCompressed, 0, part))
	}
	r := open(b, pipeOf(little, blocks...))
	b.SetBytes(2000 * 80)
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		for s := r.Scan(Only(RecordSample)); s.Next(); n++ {
		}
		if n != 2000 {
			b.Fatal(n)
		}
	}
}
