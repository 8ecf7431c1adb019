// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"encoding/binary"
	"math/bits"
)

// endian is a recording's byte order: true for big-endian. It exists in addition to
// binary.ByteOrder because that one's interface calls cannot be inlined, which
// costs more than decoding a record does.
type endian bool

const (
	little endian = false
	big    endian = true
)

func (e endian) order() binary.ByteOrder {
	if e == big {
		return binary.BigEndian
	}
	return binary.LittleEndian
}

func (e endian) u16(b []byte) uint16 {
	v := binary.LittleEndian.Uint16(b)
	if e == big {
		v = bits.ReverseBytes16(v)
	}
	return v
}

func (e endian) u32(b []byte) uint32 {
	v := binary.LittleEndian.Uint32(b)
	if e == big {
		v = bits.ReverseBytes32(v)
	}
	return v
}

func (e endian) u64(b []byte) uint64 {
	v := binary.LittleEndian.Uint64(b)
	if e == big {
		v = bits.ReverseBytes64(v)
	}
	return v
}

func (e endian) put16(b []byte, v uint16) {
	if e == big {
		v = bits.ReverseBytes16(v)
	}
	binary.LittleEndian.PutUint16(b, v)
}

func (e endian) put32(b []byte, v uint32) {
	if e == big {
		v = bits.ReverseBytes32(v)
	}
	binary.LittleEndian.PutUint32(b, v)
}

func (e endian) put64(b []byte, v uint64) {
	if e == big {
		v = bits.ReverseBytes64(v)
	}
	binary.LittleEndian.PutUint64(b, v)
}

// A cursor reads fields one after the other. Once it runs out of bytes it sets short, and
// all later reads return zero, so a decoder needs to check short only once.
type cursor struct {
	b     []byte
	off   int
	order endian
	short bool
}

// take returns the next n bytes, aliasing c.b, or nil and marks the cursor short.
func (c *cursor) take(n int) []byte {
	if c.short || n < 0 || n > len(c.b)-c.off {
		c.short = true
		return nil
	}
	c.off += n
	return c.b[c.off-n : c.off : c.off]
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return c.order.u32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return c.order.u64(b)
	}
	return 0
}

// str reads what do_write_string of tools/perf/util/header.c writes: a u32
// length that counts the padding, and the bytes, NUL-terminated.
func (c *cursor) str() string {
	n := c.u32()
	if uint64(n) > uint64(len(c.b)) {
		c.short = true
		return ""
	}
	return string(untilNUL(c.take(int(n))))
}

// rest returns the number of bytes that were not read yet.
func (c *cursor) rest() int { return len(c.b) - c.off }

// untilNUL returns b up to its first NUL, all of b if it has none. It aliases b.
func untilNUL(b []byte) []byte {
	for i, c := range b {
		if c == 0 {
			return b[:i:i]
		}
	}
	return b
}

func align8(n int) int { return (n + 7) &^ 7 }
