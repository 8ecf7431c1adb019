// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

// compressed2Data is the offset of the data in a COMPRESSED2 record: header, u64 data_size.
const compressed2Data = 16

// compressed2Size returns the size of a COMPRESSED2 record. One of 64 KiB
// overflows the 16 bits of header.size, so it is computed from data_size, and
// the header is what it is checked by.
func (e endian) compressed2Size(h header, b []byte) (int, *FormatError) {
	if len(b) < compressed2Data {
		return 0, &FormatError{Err: ErrTruncated, Msg: fmt.Sprintf("only %d bytes of a record are there", len(b))}
	}
	n := e.u64(b[headerSize:])
	if n > uint64(len(b)) {
		return 0, &FormatError{Err: ErrTruncated, Msg: fmt.Sprintf("%d compressed bytes, of which only %d are there", n, len(b)-compressed2Data)}
	}
	size := align8(compressed2Data + int(n))
	if size&0xffff != h.size {
		return 0, malformed("record of %d bytes with %d compressed bytes", h.size, n)
	}
	return size, nil
}

// compressed returns the data of a COMPRESSED or COMPRESSED2 record.
func (e endian) compressed(rec *Record) []byte {
	if rec.Type == RecordCompressed2 {
		return rec.Raw[compressed2Data:][:e.u64(rec.Raw[headerSize:])]
	}
	return rec.Raw[headerSize:]
}

// An inflater takes what the COMPRESSED records of one data file hold, and
// gives the records that were compressed.
//
// perf compresses a file as one zstd frame that it flushes now and then and
// never ends, cut into records wherever a buffer was full
// (zstd_compress_stream_to_records of tools/perf/util/zstd.c). A zstd decoder
// that runs out of input cannot continue later. So the inflater follows the
// blocks of the frame (RFC 8878, section 3.1.1) and runs the decoder only when
// it has a whole block that gives output.
type inflater struct {
	endian  endian
	dec     *zstd.Decoder
	in      []byte // compressed bytes that the decoder has not taken
	ready   int    // how many of them it may take
	inFrame bool   // in begins within a frame
	sum     bool   // a checksum ends that frame
	buf     []byte // decompressed bytes
	pos     int    // how many of them have been handed over
	err     error
}

const (
	maxWindow   = 128 << 20 // what zstd's level 22 uses; levels that one would record with use 1 to 8 MiB
	maxZstdOut  = 128 << 10 // no block gives more
	zstdMagic   = 0xfd2fb528
	maxRecord   = 1<<16 - 1
	zstdLastBit = 1
)

// The types of a block.
const (
	zstdRaw = iota
	zstdRLE
	zstdCompressed
	zstdReserved
)

var errZstd = fmt.Errorf("%w: not a zstd stream", ErrMalformed)

func newInflater(e endian) *inflater {
	z := &inflater{endian: e, buf: make([]byte, 0, maxRecord+maxZstdOut)}
	// With a concurrency of 1 nothing is read ahead and no goroutine is left behind.
	z.dec, z.err = zstd.NewReader(z, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	return z
}

func (z *inflater) close() {
	if z != nil && z.dec != nil {
		z.dec.Close()
	}
}

// feed adds compressed bytes.
func (z *inflater) feed(b []byte) { z.in = append(z.in, b...) }

// Read gives the decoder what it may take.
func (z *inflater) Read(p []byte) (int, error) {
	if z.ready == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(p, z.in[:z.ready])
	z.in = z.in[n:]
	z.ready -= n
	return n, nil
}

// partial reports whether what was fed ends within a record.
func (z *inflater) partial() bool {
	if z == nil {
		return false
	}
	_, rest, _ := z.scan()
	return z.pos < len(z.buf) || rest
}

// next returns the next record, nil if more must be fed first. Its bytes are
// valid until next is called again.
func (z *inflater) next() (header, []byte, error) {
	for z.err == nil {
		if b := z.buf[z.pos:]; len(b) >= headerSize {
			h := z.endian.header(b)
			if h.size < headerSize || h.size&7 != 0 || h.typ >= firstUserRecord {
				// Only what the kernel wrote is compressed.
				z.err = fmt.Errorf("%w: %v of %d bytes", ErrMalformed, h.typ, h.size)
				break
			}
			if h.size <= len(b) {
				z.pos += h.size
				return h, b[:h.size:h.size], nil
			}
		}
		var more bool
		if more, z.err = z.fill(); z.err == nil && !more {
			return header{}, nil, nil
		}
	}
	return header{}, nil, z.err
}

// fill decompresses the next block and reports whether there was one.
func (z *inflater) fill() (bool, error) {
	n, _, err := z.scan()
	if n == 0 || err != nil {
		return false, err
	}
	// What is left is less than a record.
	z.buf = z.buf[:copy(z.buf, z.buf[z.pos:])]
	z.pos = 0
	z.ready = n
	k, err := z.dec.Read(z.buf[len(z.buf):cap(z.buf)])
	z.buf = z.buf[:len(z.buf)+k]
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if z.ready != 0 {
		return false, errZstd
	}
	return true, nil
}

// scan returns how many bytes of z.in bring the decoder to the end of the next
// block that gives output, 0 if that block is not there yet, and then whether
// it has begun.
func (z *inflater) scan() (n int, begun bool, err error) {
	b := z.in
	inFrame, sum := z.inFrame, z.sum
	for n < len(b) {
		if !inFrame {
			size, s, err := zstdFrameHeader(b[n:])
			if err != nil || size == 0 {
				return 0, true, err
			}
			n += size
			inFrame, sum = true, s
		}
		if len(b)-n < 3 {
			return 0, true, nil
		}
		h := int(b[n]) | int(b[n+1])<<8 | int(b[n+2])<<16
		last, typ, out := h&zstdLastBit == 1, h>>1&3, h>>3
		if typ == zstdReserved || out > maxZstdOut {
			return 0, true, errZstd
		}
		size := out
		if typ == zstdRLE {
			size = 1
		}
		if last && sum {
			size += 4
		}
		if len(b)-n-3 < size {
			return 0, true, nil
		}
		n += 3 + size
		inFrame = !last
		if out > 0 {
			z.inFrame, z.sum = inFrame, sum
			return n, true, nil
		}
	}
	return 0, false, nil
}

// A deflater compresses the records of one data file as perf does: into one
// frame that is flushed now and then and never ended.
type deflater struct {
	enc  *zstd.Encoder
	out  bytes.Buffer
	held int // bytes taken since the last flush
}

// deflateChunk is after how many bytes a Writer flushes. It goes into the
// recording as the size of perf's ring buffers, by which perf sizes the memory
// that it decompresses into.
const deflateChunk = 512 << 10

// maxDeflated is how much goes into one record: of a COMPRESSED one what 16
// bits of size leave, and of a COMPRESSED2 one nearly that.
const maxDeflated = 1<<16 - compressed2Data - 8

func newDeflater() (*deflater, error) {
	z := new(deflater)
	var err error
	z.enc, err = zstd.NewWriter(&z.out, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderCRC(false))
	return z, err
}

func (z *deflater) write(b []byte) error {
	if z.held == 0 {
		z.out.Reset()
	}
	n, err := z.enc.Write(b)
	z.held += n
	return err
}

// flush returns what came out since the last flush, valid until the next write.
func (z *deflater) flush() ([]byte, error) {
	err := z.enc.Flush()
	z.held = 0
	return z.out.Bytes(), err
}

// zstdFrameHeader returns the size of the frame header that begins b, 0 if b
// is too short, and whether a checksum will end the frame.
func zstdFrameHeader(b []byte) (size int, sum bool, err error) {
	if len(b) < 5 {
		return 0, false, nil
	}
	if binary.LittleEndian.Uint32(b) != zstdMagic {
		return 0, false, errZstd
	}
	descriptor := b[4]
	single := descriptor>>5&1 == 1
	size = 5 + [4]int{0, 1, 2, 4}[descriptor&3] + [4]int{0, 2, 4, 8}[descriptor>>6]
	if !single {
		size++ // window descriptor
	} else if descriptor>>6 == 0 {
		size++ // content size of one byte
	}
	if len(b) < size {
		size = 0
	}
	return size, descriptor>>2&1 == 1, nil
}
