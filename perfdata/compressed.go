// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"math"
	"slices"

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
	if n > math.MaxInt64/2 || align8(compressed2Data+int(n))&maxRecord != h.size {
		return 0, malformed("record of %d bytes with %d compressed bytes", h.size, n)
	}
	if size := align8(compressed2Data + int(n)); size <= len(b) {
		return size, nil
	}
	return 0, &FormatError{Err: ErrTruncated, Msg: fmt.Sprintf("%d compressed bytes, of which only %d are there", n, len(b)-compressed2Data)}
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
//
// A block copies from the output of the blocks before it, and has no checksum. So
// after a block that is bad or may be missing, everything is lost until a fresh frame
// begins.
type inflater struct {
	r       *Recording
	dec     *zstd.Decoder
	in      []byte // compressed bytes that the decoder has not taken
	inRoom  []byte // that in is a part of
	ready   int    // how many of them it may take
	inFrame bool   // in begins within a frame
	sum     bool   // a checksum ends that frame
	began   bool   // there has been a frame
	lost    bool   // the next bytes that count are those of a fresh frame
	strays  bool   // compressed bytes came that no frame accounts for
	alone   bool   // the frame must end with the record that began it
	astray  bool   // the frame may begin within a record
	buf     []byte // decompressed bytes
	pos     int    // how many of them have been handed over
	err     error  // the decoder cannot be made
}

const (
	maxWindow   = 128 << 20 // the window of zstd's level 22; the levels used for recording have 1 to 8 MiB
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

func newInflater(r *Recording) *inflater {
	z := &inflater{r: r, buf: make([]byte, 0, maxRecord+maxZstdOut)}
	// With a concurrency of 1 nothing is read ahead and no goroutine is left behind.
	z.dec, z.err = zstd.NewReader(z, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	return z
}

func (z *inflater) close() {
	if z != nil && z.dec != nil {
		z.dec.Close()
	}
}

// feed adds the compressed bytes of a record. explained is set if records before it
// were left out, which explains that the beginning of a frame is missing. The error
// says that the bytes cannot be used; it is returned once for each frame.
func (z *inflater) feed(b []byte, explained bool) error {
	if z.alone {
		z.lose()
	}
	fresh := isFrame(b)
	switch {
	case fresh && (z.lost || !z.began):
		z.begin()
	case fresh && !z.ends():
		// No block begins so, and the rest of one hardly ever.
		z.begin()
		z.take(b)
		return fmt.Errorf("%w: a zstd frame within another", ErrMalformed)
	case z.lost:
		return nil
	case !z.began && !fresh:
		// The beginning of this frame is missing. If no damage explains that, the
		// beginning may still come, and then lacks these bytes.
		z.strays = !explained
		z.lose()
		return errZstd
	}
	z.take(b)
	return nil
}

// take appends to z.in.
func (z *inflater) take(b []byte) {
	z.in = append(append(z.inRoom[:0], z.in...), b...) // what is left of before moves to the front
	z.inRoom = z.in
}

// ends reports whether what was fed ends where a frame does.
func (z *inflater) ends() bool {
	b, inFrame := z.in, z.inFrame
	for inFrame && len(b) >= zstdBlockHeader {
		last, typ, size := zstdBlock(b)
		if typ == zstdRLE {
			size = 1
		}
		if last && z.sum {
			size += zstdChecksum
		}
		if len(b)-zstdBlockHeader < size {
			return false
		}
		b, inFrame = b[zstdBlockHeader+size:], !last
	}
	return !inFrame && len(b) == 0
}

// begin begins a fresh frame. What is left of another one is dropped.
func (z *inflater) begin() {
	z.astray, z.alone = z.lost || z.began, z.strays && !z.began
	z.began, z.lost, z.inFrame = true, false, false
	z.in, z.buf, z.pos = z.in[:0], z.buf[:0], 0
	if z.err == nil {
		z.err = z.dec.Reset(z)
	}
}

// lose drops what is there, and all that comes up to a fresh frame.
func (z *inflater) lose() {
	if z != nil {
		z.lost, z.alone = true, false
		z.in, z.buf, z.pos, z.inFrame = z.in[:0], z.buf[:0], 0, false
	}
}

// mayMiss checks a record that has another type than COMPRESSED, perhaps because its
// type is damaged. If its content can continue the frame, the frame is lost, and
// mayMiss returns an error.
func (z *inflater) mayMiss(raw []byte) error {
	if z == nil || z.lost {
		return nil
	}
	for _, at := range []int{headerSize, compressed2Data} {
		if len(raw) < at+leastDeflated {
			continue
		}
		b := raw[at:]
		if at == compressed2Data {
			n := z.r.endian.u64(raw[headerSize:])
			if n > uint64(len(b)) || align8(int(n)) != len(b) {
				continue
			}
			b = b[:n]
		}
		if z.mayFollow(b) {
			z.lose()
			return fmt.Errorf("%w: it may hold what was compressed", ErrMalformed)
		}
	}
	return nil
}

// leastDeflated is less than what the shortest record takes that perf compresses.
const leastDeflated = 12

// mayFollow reports whether b may follow what was fed.
func (z *inflater) mayFollow(b []byte) bool {
	return isBlocks(append(slices.Clone(z.in), b...), z.inFrame)
}

// continues reports whether b begins with the rest of the block that the bytes fed so
// far end within, and consists of blocks after that.
func (z *inflater) continues(b []byte) bool {
	if z == nil || z.lost || !z.inFrame || len(z.in) == 0 {
		return false
	}
	at := 0
	for at = range zstdBlocks(z.in, true) {
	}
	rest := at - len(z.in)
	switch {
	case at == 0: // not even the header of the block is there
		return z.mayFollow(b)
	case rest <= 0:
		return false
	case rest >= len(b):
		return rest == len(b) || len(b) > fullRecord
	}
	return isBlocks(b[rest:], true)
}

// fullRecord is less than what is in a record where perf's buffer was full.
const fullRecord = maxDeflated - 1024

// isBlocks reports whether b is blocks of a frame, none of them empty, and may begin with a
// frame's header, which it must outside of a frame. Without that header one of them must be
// compressed. Where a buffer was full, the last block ends in the next record.
func isBlocks(b []byte, inFrame bool) bool {
	shown, at := isFrame(b), 0
	for end, typ := range zstdBlocks(b, inFrame) {
		shown, at = shown || typ == zstdCompressed, end
	}
	return shown && (at == len(b) || at > len(b) && len(b) > fullRecord)
}

// zstdBlocks returns where the blocks of a frame end that b begins with, and their
// types. The last of them may end behind b. It stops at what is not a block.
func zstdBlocks(b []byte, inFrame bool) iter.Seq2[int, int] {
	return func(yield func(end, typ int) bool) {
		sum := false
		for at := 0; at < len(b); {
			if size, s, err := zstdFrameHeader(b[at:]); err == nil && size > 0 {
				inFrame, sum, at = true, s, at+size
			}
			if !inFrame || len(b)-at < zstdBlockHeader {
				return
			}
			last, typ, size := zstdBlock(b[at:])
			if typ == zstdReserved || size == 0 && !last || size > maxZstdOut {
				return
			}
			if typ == zstdRLE {
				size = 1
			}
			if inFrame = !last; last && sum {
				size += zstdChecksum
			}
			if at += zstdBlockHeader + size; !yield(at, typ) {
				return
			}
		}
	}
}

// The sizes of a block's header, and of a frame's checksum.
const (
	zstdBlockHeader = 3
	zstdChecksum    = 4
)

// zstdBlock reads the header of a block. Size is that of the block or, of one
// that repeats a byte, of what it gives.
func zstdBlock(b []byte) (last bool, typ, size int) {
	h := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
	return h&zstdLastBit == 1, h >> 1 & 3, h >> 3
}

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
	if z == nil || z.lost || z.astray {
		return false
	}
	_, rest, _ := z.scan()
	return z.pos < len(z.buf) || rest
}

// next returns the next record, nil if more must be fed first. Its bytes are
// valid until next is called again. After an error the frame is lost.
func (z *inflater) next() (header, []byte, error) {
	for z.err == nil {
		if z.astray {
			z.settle()
		}
		if b := z.buf[z.pos:]; !z.astray {
			h, err := z.whole(b)
			if err != nil {
				z.lose()
				return header{}, nil, err
			}
			if h.size > 0 {
				z.pos += h.size
				return h, b[:h.size:h.size], nil
			}
		}
		more, err := z.fill()
		if err != nil {
			z.lose()
			return header{}, nil, err
		}
		if !more {
			return header{}, nil, nil
		}
	}
	return header{}, nil, z.err
}

// appendNext appends what next would return, and then the further records that are whole without
// another block. It decompresses into room, which next does not.
func (z *inflater) appendNext(room []byte) ([]byte, error) {
	if z.err != nil || z.astray {
		_, raw, err := z.next()
		return append(room, raw...), err
	}
	begin := len(room)
	room = append(room, z.buf[z.pos:]...)
	end := begin // of the records
	for {
		end += z.r.endian.skipUsual(room[end:])
		h, err := z.whole(room[end:])
		for ; h.size > 0; h, err = z.whole(room[end:]) {
			end += h.size
		}
		if end > begin {
			break // after an error the next call comes to it
		}
		more := false
		if err == nil {
			room, more, err = z.block(room)
		}
		if err != nil {
			z.lose()
			return room[:begin], err
		}
		if !more {
			break
		}
	}
	z.buf, z.pos = append(z.buf[:0], room[end:]...), 0
	return room[:end], nil
}

// whole returns the header of the record that b begins with, of size 0 if not all of it is there.
func (z *inflater) whole(b []byte) (header, error) {
	if len(b) < headerSize {
		return header{}, nil
	}
	h := z.r.endian.header(b)
	if !h.isOfKernel() || h.size <= len(b) && !z.goesOn(h, b) {
		// Only what the kernel wrote is compressed.
		return header{}, fmt.Errorf("%w: %v of %d bytes", ErrMalformed, h.typ, h.size)
	}
	if h.size > len(b) {
		return header{}, nil
	}
	return h, nil
}

// skipUsual returns how many bytes at the beginning of b are records that whole finds whole, because
// each has a header of the kernel and another one follows. It may stop early.
func (e endian) skipUsual(b []byte) (n int) {
	for len(b)-n >= headerSize {
		h, word := e.header(b[n:]), word64(b, n)
		if !h.isOfKernel() {
			break
		}
		// Most headers are like the one before. Then where the next record is does not depend on what is
		// loaded, so the processor need not wait for it.
		for h.size <= len(b)-n-headerSize && word64(b, n+h.size) == word {
			n += h.size
		}
		if h.size > len(b)-n-headerSize || !e.header(b[n+h.size:]).isOfKernel() {
			break
		}
		n += h.size
	}
	return n
}

// isOfKernel reports whether h may be the header of a record of the kernel.
func (h header) isOfKernel() bool {
	return h.size >= headerSize && h.size&7 == 0 && h.typ < firstUserRecord && h.typ != 0
}

// goesOn reports whether nothing speaks against the record that b begins with: if
// its content does not show its size, the header behind it must be one.
func (z *inflater) goesOn(h header, b []byte) bool {
	return len(b) < h.size+headerSize || z.r.endian.header(b[h.size:]).isOfKernel() || z.r.isExact(h, b[:h.size])
}

// settle goes to the first record of a frame that began anew, which may be in the
// middle of one.
func (z *inflater) settle() {
	b := z.buf[z.pos:]
	if len(b) < headerSize {
		return
	}
	h := z.r.endian.header(b)
	if h.isOfKernel() && h.size <= len(b) && z.r.fitOf(h, b[:h.size]) == exact {
		z.astray = false
		return
	}
	p := prover{r: z.r, inner: true}
	at, v := p.search(b, 0, len(b), false)
	z.pos += at
	z.astray = v != proven
}

// fill decompresses the next block and reports whether there was one.
func (z *inflater) fill() (more bool, err error) {
	// What is left is less than a record.
	z.buf = z.buf[:copy(z.buf, z.buf[z.pos:])]
	z.pos = 0
	z.buf, more, err = z.block(z.buf)
	return more, err
}

// block decompresses the next block behind b and reports whether there was one.
func (z *inflater) block(b []byte) (_ []byte, more bool, err error) {
	n, _, err := z.scan()
	if n == 0 || err != nil {
		return b, false, err
	}
	b = slices.Grow(b, maxZstdOut)
	z.ready = n
	k, err := z.dec.Read(b[len(b):][:maxZstdOut])
	b = b[:len(b)+k]
	if err != nil {
		return b, false, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if z.ready != 0 {
		return b, false, errZstd
	}
	return b, true, nil
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
		if len(b)-n < zstdBlockHeader {
			return 0, true, nil
		}
		last, typ, out := zstdBlock(b[n:])
		if typ == zstdReserved || out > maxZstdOut {
			return 0, true, errZstd
		}
		size := out
		if typ == zstdRLE {
			size = 1
		}
		if last && sum {
			size += zstdChecksum
		}
		if len(b)-n-zstdBlockHeader < size {
			return 0, true, nil
		}
		n += zstdBlockHeader + size
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

// isFrame reports whether b begins with the header of a zstd frame.
func isFrame(b []byte) bool {
	size, _, err := zstdFrameHeader(b)
	return err == nil && size > 0
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
