// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/textreplay/textreplay/perfdata"
)

// TestTrimmed: a record that the kernel made longer than needed ends with its trailer, where perf
// looks for the id.
func TestTrimmed(t *testing.T) {
	order := binary.NativeEndian
	record := func(typ perfdata.RecordType, body []byte, more int) []byte {
		b := order.AppendUint32(nil, uint32(typ))
		b = order.AppendUint16(b, 1)
		b = order.AppendUint16(b, uint16(8+len(body)+trailerSize+more))
		b = append(append(b, body...), bytes.Repeat([]byte{7}, trailerSize)...)
		return append(b, bytes.Repeat([]byte{0xaa}, more)...)
	}
	poke := order.AppendUint64(nil, 0xffffffff81000000)
	poke = order.AppendUint16(order.AppendUint16(poke, 5), 5)
	poke = append(poke, make([]byte, 10+2)...) // the bytes, padded
	symbol := append(order.AppendUint64(nil, 0xffffffff81000000), make([]byte, 8)...)
	symbol = append(symbol, "ab\x00\x00\x00\x00\x00\x00"...)
	var g ring
	for _, tt := range []struct {
		typ  perfdata.RecordType
		body []byte
		more int
		cut  bool
	}{
		{perfdata.RecordTextPoke, poke, 0, false},
		{perfdata.RecordTextPoke, poke, 32, true},
		{perfdata.RecordTextPoke, poke, 96, true},
		{perfdata.RecordKSymbol, symbol, 32, true},
		{perfdata.RecordBPFEvent, make([]byte, 16), 64, true},
		{perfdata.RecordComm, make([]byte, 16), 32, false}, // nobody knows how long it needs to be
	} {
		raw := record(tt.typ, tt.body, tt.more)
		before := bytes.Clone(raw)
		want := raw
		if tt.cut {
			want = record(tt.typ, tt.body, 0)
		}
		if got := g.trimmed(raw); !bytes.Equal(got, want) {
			t.Errorf("%v, %d bytes more:\n% x, want\n% x", tt.typ, tt.more, got, want)
		}
		if !bytes.Equal(raw, before) {
			t.Errorf("%v: the kernel's buffer was changed", tt.typ)
		}
	}
}
