// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package web

import (
	"bytes"
	"encoding/binary"
	"os"
	"sort"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// A poke is a text poke with its bytes.
type poke struct {
	time     uint64
	addr     uint64
	old, new []byte
	kind     timeline.PokeKind
	writer   writer
	cpu      uint16 // or noCPU
	at       int    // its index in the columns
}

// A pokeReader reads the bytes of pokes from the recording's files. It is for one
// goroutine, and must be closed.
type pokeReader struct {
	t     *trail
	files []*os.File
	buf   []byte
}

func (t *trail) reader() *pokeReader {
	return &pokeReader{t: t, files: make([]*os.File, len(t.files)), buf: make([]byte, 1<<16)}
}

func (p *pokeReader) close() {
	for _, f := range p.files {
		if f != nil {
			f.Close()
		}
	}
}

// poke returns the i-th poke. If its record cannot be read again, the bytes are those of
// the image. The caller must not change the bytes.
func (p *pokeReader) poke(i int) poke {
	t := p.t
	s := t.sites[t.site[i]]
	x := poke{time: t.time[i], addr: s.addr, kind: timeline.PokeKind(t.kind[i]), writer: t.writerOf(t.writer[i]), cpu: t.cpu[i], at: i}
	if t.probed != nil {
		b := t.probed[t.at[i]:]
		n, m := int(binary.LittleEndian.Uint16(b)), int(binary.LittleEndian.Uint16(b[2:]))
		x.old, x.new = b[4:4+n:4+n], b[4+n:4+n+m:4+n+m]
		return x
	}
	var rec perfdata.TextPoke
	if raw := p.raw(t.at[i]); raw != nil && t.r.Recording.TextPoke(raw, &rec) == nil && rec.Addr == x.addr && rec.Time == x.time {
		x.old, x.new = bytes.Clone(rec.Old), bytes.Clone(rec.New)
		return x
	}
	read := func(v timeline.View) []byte {
		b := make([]byte, s.size)
		return b[:v.Read(s.addr, b).Given]
	}
	if x.kind != timeline.PokeCreated {
		x.old = read(t.r.Image.At(max(x.time, 1) - 1))
	}
	if x.kind != timeline.PokeRemoved {
		x.new = read(t.r.Image.At(x.time))
	}
	return x
}

// raw reads the record at a place, or returns nil. The record is valid until the next call.
func (p *pokeReader) raw(at uint32) *perfdata.Record {
	if at == noRecord {
		return nil
	}
	pos := int64(at) * unitOf
	k := sort.Search(len(p.t.bases), func(i int) bool { return p.t.bases[i] > pos }) - 1
	if p.files[k] == nil {
		f, err := os.Open(p.t.files[k])
		if err != nil {
			return nil
		}
		p.files[k] = f
	}
	off := pos - p.t.bases[k]
	order := p.t.r.Recording.ByteOrder()
	const first = 256 // nearly all records are smaller
	n, _ := p.files[k].ReadAt(p.buf[:first], off)
	if n < 8 {
		return nil
	}
	size := int(order.Uint16(p.buf[6:]))
	if size > n {
		if n, _ = p.files[k].ReadAt(p.buf[:size], off); n < size {
			return nil
		}
	}
	return recordOf(p.buf[:size], order, k, off)
}

func recordOf(raw []byte, order binary.ByteOrder, file int, off int64) *perfdata.Record {
	if len(raw) < 8 || perfdata.RecordType(order.Uint32(raw)) != perfdata.RecordTextPoke {
		return nil
	}
	return &perfdata.Record{Type: perfdata.RecordTextPoke, Misc: order.Uint16(raw[4:]), File: file, Offset: off, Raw: raw}
}
