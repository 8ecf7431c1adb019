// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package rawperf

import (
	"bytes"

	"github.com/klauspost/compress/zstd"
)

// A Compressor makes the COMPRESSED records of one file: all of them are one zstd
// stream, which is flushed at the end of each record and never ended.
type Compressor struct {
	f    Format
	new  bool // COMPRESSED2
	out  bytes.Buffer
	zstd *zstd.Encoder
}

// maxChunk is how many bytes go into one record: even if they do not shrink, the
// record's size must fit its header.
const maxChunk = 60000

// NewCompressor returns a compressor that makes COMPRESSED records, or COMPRESSED2 as
// perf 6.16 and newer do.
func (f Format) NewCompressor(compressed2 bool) (*Compressor, error) {
	c := &Compressor{f: f, new: compressed2}
	var err error
	c.zstd, err = zstd.NewWriter(&c.out, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(1<<16), zstd.WithEncoderLevel(zstd.SpeedFastest))
	return c, err
}

// Records encodes data, which need not end with the end of a record.
func (c *Compressor) Records(data []byte) ([]byte, error) {
	var out []byte
	for len(data) > 0 {
		n := min(len(data), maxChunk)
		if _, err := c.zstd.Write(data[:n]); err != nil {
			return nil, err
		}
		if err := c.zstd.Flush(); err != nil {
			return nil, err
		}
		if c.new {
			out = append(out, c.f.Compressed2(c.out.Bytes())...)
		} else {
			out = append(out, c.f.Record(TypeCompressed, 0, c.out.Bytes(), nil)...)
		}
		c.out.Reset()
		data = data[n:]
	}
	return out, nil
}
