// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"encoding/binary"
	"slices"
	"testing"

	"github.com/textreplay/textreplay/perfdata"
)

// imageRecord returns a KSYMBOL or a TEXT_POKE record of a thread.
func imageRecord(typ perfdata.RecordType, tid uint32, time uint64, body []byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(typ))
	b = append(append(b, 0, 0, 0, 0), body...)
	b = binary.NativeEndian.AppendUint32(b, 1)
	b = binary.NativeEndian.AppendUint32(b, tid)
	b = binary.NativeEndian.AppendUint64(b, time)
	return append(b, make([]byte, 16)...)
}

func symbolRecord(tid uint32, time, addr uint64, flags uint16) []byte {
	b := binary.NativeEndian.AppendUint64(nil, addr)
	b = binary.NativeEndian.AppendUint32(b, 4096)
	b = binary.NativeEndian.AppendUint16(b, ksymbolBPF)
	b = binary.NativeEndian.AppendUint16(b, flags)
	return append(imageRecord(perfdata.RecordKSymbol, tid, time, append(b, "bpf_trampoline_7\x00\x00\x00\x00\x00\x00\x00\x00"...)), make([]byte, 32)...)
}

func pokeRecord(tid uint32, time, addr, target uint64) []byte {
	b := binary.NativeEndian.AppendUint64(nil, addr)
	b = binary.NativeEndian.AppendUint16(b, 5)
	b = binary.NativeEndian.AppendUint16(b, 5)
	b = append(b, 0x0f, 0x1f, 0x44, 0, 0, 0xe8)
	b = binary.NativeEndian.AppendUint32(b, uint32(target-addr-5))
	// Padded to 8 bytes, and 32 bytes longer than needed, as the kernel's records are.
	return append(imageRecord(perfdata.RecordTextPoke, tid, time, append(b, 0, 0)), make([]byte, 32)...)
}

// TestImages: a trampoline is read when a place branches to it, or when its thread has made a
// poke behind its symbol, also if the record of the poke comes first.
func TestImages(t *testing.T) {
	const at, other, place = 0xffffffffc0001000, 0xffffffffc0002000, 0xffffffff81000000
	born, gone := symbolRecord(7, 200, at, 0), symbolRecord(7, 900, at, ksymbolUnregister)
	for _, tt := range []struct {
		name    string
		records [][]byte
		want    []uint64
	}{
		{"no poke", [][]byte{born}, nil},
		{"a place branches to it", [][]byte{born, pokeRecord(8, 300, place, at)}, []uint64{at}},
		{"another thread's poke of another place", [][]byte{born, pokeRecord(8, 300, place, other)}, nil},
		{"its thread's poke", [][]byte{born, pokeRecord(7, 300, place, other), pokeRecord(7, 310, place, other)}, []uint64{at}},
		{"its thread's poke of before", [][]byte{born, pokeRecord(7, 100, place, other)}, nil},
		{"its thread's poke, of another CPU", [][]byte{pokeRecord(7, 300, place, other), born}, []uint64{at}},
		{"nobody's poke", [][]byte{symbolRecord(0, 200, at, 0), pokeRecord(0, 300, place, other)}, nil},
		{"it is gone", [][]byte{born, gone, pokeRecord(7, 950, place, other)}, nil},
	} {
		m := images{unread: make(map[uint64]image)}
		for _, b := range tt.records {
			tid, time := writerOf(b)
			if b[20] == ksymbolBPF && b[21] == 0 && len(b) > 60 {
				m.symbol(b, tid, time)
			} else {
				m.poke(b, tid, time)
			}
		}
		if !slices.Equal(m.births, tt.want) {
			t.Errorf("%s: %#x, want %#x", tt.name, m.births, tt.want)
		}
	}
	m := images{unread: make(map[uint64]image)}
	m.symbol(born, 7, 200)
	m.changed(8, 300)
	m.changed(7, 190)
	if len(m.births) != 0 {
		t.Errorf("%#x: read before its thread changed text", m.births)
	}
	m.changed(7, 210) // a sample of a probe
	m.changed(7, 220) // of the same round
	if !slices.Equal(m.births, []uint64{at}) {
		t.Errorf("%#x: want %#x once", m.births, uint64(at))
	}
	m.unread[at] = image{time: 200, tid: 7, tried: true}
	if m.changed(7, 200+readAgain); len(m.births) != 2 {
		t.Errorf("%#x: want it again", m.births)
	}
	m.unread[at] = image{time: 200, tid: 7, tried: true}
	if m.changed(8, 201+readAgain); len(m.births) != 2 || len(m.unread) != 0 {
		t.Errorf("%#x, %v: it is looked at for ever", m.births, m.unread)
	}
	m = images{}
	for tid := range uint32(3 * keptPokes) {
		m.poke(pokeRecord(tid+1, 300, place, other), tid+1, 300)
	}
	if len(m.pokes) > keptPokes {
		t.Errorf("pokes of %d threads are kept", len(m.pokes))
	}
}

// TestWriterOf: the thread and the time of a record are those of its trailer, also where the
// kernel made the record longer than needed.
func TestWriterOf(t *testing.T) {
	event := imageRecord(perfdata.RecordBPFEvent, 7, 200, make([]byte, 16))
	fork := imageRecord(perfdata.RecordFork, 7, 200, make([]byte, 24))
	short := symbolRecord(7, 200, 1, 0)
	for name, raw := range map[string][]byte{
		"KSYMBOL": short, "TEXT_POKE": pokeRecord(7, 200, 1, 2), "BPF_EVENT": event, "FORK": fork,
		"BPF_EVENT, longer":  slices.Concat(event, slices.Repeat([]byte{0xff}, 32)),
		"KSYMBOL, as needed": short[:len(short)-32],
	} {
		if tid, time := writerOf(raw); tid != 7 || time != 200 {
			t.Errorf("%s: thread %d, time %d; want 7, 200", name, tid, time)
		}
		for n := range raw {
			writerOf(raw[:n]) // cut off: it must not panic
		}
	}
}
