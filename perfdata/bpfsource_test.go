// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The kinds of types in BTF.
const (
	btfKindFunc      = 12 << 24
	btfKindFuncProto = 13 << 24
)

// testBTF is raw BTF of two functions, and of the strings that testLines names.
func testBTF(e endian) []byte {
	const strings = "\x00probe\x00sub\x00prog.c\x00return sub(1);\x00return x;\x00"
	at := func(s string) uint32 { return uint32(indexOf(strings, s+"\x00")) }
	types := e.pack(
		uint32(0), uint32(btfKindFuncProto), uint32(0),
		at("probe"), uint32(btfKindFunc), uint32(1),
		at("sub"), uint32(btfKindFunc), uint32(1),
	)
	header := e.pack(uint16(btfMagic), uint8(1), uint8(0), uint32(24), uint32(0), uint32(len(types)), uint32(len(types)), uint32(len(strings)))
	return e.pack(header, types, strings)
}

func indexOf(s, part string) int {
	i := strings.Index(s, part)
	if i < 0 {
		panic(part)
	}
	return i
}

// sourceProg is testProg with tables that refer to testBTF.
func sourceProg(e endian) bpil {
	p := testProg(e)
	const file, call, ret = 11, 18, 33
	line := func(insn, line, column, text uint32) []byte { return e.pack(insn, uint32(file), text, line<<10|column) }
	place := func(array int, b []byte) { copy(p.data[e.u64(p.info[bpilArrays[array].array:]):], b) }
	place(arrayFuncInfo, e.pack(uint32(0), uint32(2), uint32(9), uint32(3)))
	place(arrayLineInfo, e.pack(line(0, 5, 9, call), line(4, 6, 1, call), line(9, 2, 3, ret)))
	place(arrayJitedLineInfo, e.pack(uint64(0xffffffffc0001001), uint64(0xffffffffc0001004), uint64(0xffffffffc0002000)))
	return p
}

func btfSection(e endian, id uint32, data []byte) []byte {
	return append(e.appendU32s(nil, 1, id, uint32(len(data))), data...)
}

func TestBPFSource(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		r := open(t, build(t, e, testEvents(), func(w *Writer) {
			w.WriteFeature(FeatureBPFProgInfo, bpfSection(e, sourceProg(e).encode(e)))
			w.WriteFeature(FeatureBPFBTF, btfSection(e, 7, testBTF(e)))
		}))
		progs, err := collect(r.BPFProgs())
		if err != nil || len(progs) != 1 {
			t.Fatal(progs, err)
		}
		src := r.BPFSource()
		names, err := src.FuncNames(progs[0])
		if diff := cmp.Diff([]string{"probe", "sub"}, names); diff != "" || err != nil {
			t.Errorf("names (-want +got), %v:\n%s", err, diff)
		}
		lines, err := src.Lines(progs[0])
		want := BPFLines{
			{Addr: 0xffffffffc0001001, Len: 3, Insn: 0, File: "prog.c", Line: 5, Column: 9, Text: "return sub(1);"},
			{Addr: 0xffffffffc0001004, Len: 1, Insn: 4, File: "prog.c", Line: 6, Column: 1, Text: "return sub(1);"},
			{Addr: 0xffffffffc0002000, Len: 4, Insn: 9, File: "prog.c", Line: 2, Column: 3, Text: "return x;"},
		}
		if diff := cmp.Diff(want, lines); diff != "" || err != nil {
			t.Errorf("lines (-want +got), %v:\n%s", err, diff)
		}
		for addr, want := range map[uint64]uint32{
			0xffffffffc0001000: 0, 0xffffffffc0001001: 5, 0xffffffffc0001003: 5, 0xffffffffc0001004: 6, 0xffffffffc0001005: 0,
			0xffffffffc0001fff: 0, 0xffffffffc0002003: 2, 0xffffffffc0002004: 0, 0: 0, ^uint64(0): 0,
		} {
			if line, ok := lines.At(addr); line.Line != want || ok != (want != 0) {
				t.Errorf("%#x: line %d, %v, want %d", addr, line.Line, ok, want)
			}
		}
	})
}

func TestBPFSourceMalformed(t *testing.T) {
	e := little
	set := func(array, at int, v uint32) func(p *bpil) {
		return func(p *bpil) { e.put32(p.data[int(e.u64(p.info[bpilArrays[array].array:]))+at:], v) }
	}
	cut := testBTF(e)
	cut = cut[:len(cut)-1]
	tests := []struct {
		name  string
		spoil func(p *bpil)
		btf   []byte
		want  string // of either error
		err   error
	}{
		{"a type that is not there", set(arrayFuncInfo, 4, 99), testBTF(e), "type 99 of BTF 7", ErrMalformed},
		{"no function", set(arrayFuncInfo, 4, 1), testBTF(e), "type 1 of BTF 7 is not a function", ErrMalformed},
		{"a string that is not there", set(arrayLineInfo, 8, 1<<20), testBTF(e), "program 42: lines", ErrMalformed},
		{"lines in disorder", set(arrayLineInfo, 16, 0), testBTF(e), "instruction 0 follows 0 in its lines", ErrMalformed},
		{"fewer addresses than lines", func(p *bpil) { e.put32(p.info[bpilArrays[arrayJitedLineInfo].count:], 2) }, testBTF(e), "", nil},
		{"BTF cut", func(p *bpil) {}, cut, "BTF 7", ErrMalformed},
		{"an ELF file", func(p *bpil) {}, []byte("\x7fELF\x02\x01\x01"), "do not begin as BTF does", ErrMalformed},
		{"nothing", func(p *bpil) {}, nil, "0 bytes do not begin", ErrMalformed},
		{"another BTF", func(p *bpil) { e.put32(p.info[infoBTFID:], 8) }, testBTF(e), "BTF 8: no such feature section", ErrNoFeature},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			prog := sourceProg(e)
			tt.spoil(&prog)
			r := open(t, build(t, e, testEvents(), func(w *Writer) {
				w.WriteFeature(FeatureBPFProgInfo, bpfSection(e, prog.encode(e)))
				w.WriteFeature(FeatureBPFBTF, btfSection(e, 7, tt.btf))
			}))
			src := r.BPFSource()
			for p, err := range r.BPFProgs() {
				if err != nil {
					if tt.err == nil {
						return // the program itself is refused
					}
					t.Fatal(err)
				}
				_, err1 := src.FuncNames(p)
				_, err2 := src.Lines(p)
				if err := errors.Join(err1, err2); err == nil || !errors.Is(err, tt.err) || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want an error with %q", err, tt.want)
				}
			}
		})
	}
	// A program without any of it has none, which is no error.
	r := open(t, build(t, e, testEvents(), nil))
	names, err1 := r.BPFSource().FuncNames(&BPFProg{ID: 1})
	lines, err2 := r.BPFSource().Lines(&BPFProg{ID: 1})
	if names != nil || lines != nil || err1 != nil || err2 != nil {
		t.Error(names, lines, err1, err2)
	}
}
