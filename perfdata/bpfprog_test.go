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
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A bpil is a program as perf stores it, in pieces that a test can spoil.
type bpil struct {
	info   []byte
	data   []byte
	arrays uint64
}

// testProg is a program of two functions with all arrays that perf asks for.
func testProg(e endian) bpil { return testProgOf(e, bpilAlign) }

// testProgOf is testProg with arrays that are padded to align bytes.
func testProgOf(e endian, align uint64) bpil {
	p := bpil{info: make([]byte, 232)}
	e.put32(p.info[infoType:], 26)
	e.put32(p.info[infoID:], 42)
	copy(p.info[infoTag:], "\x01\x02\x03\x04\x05\x06\x07\x08")
	e.put64(p.info[infoLoadTime:], 123456789)
	copy(p.info[infoName:], "probe_sys_enter")
	e.put32(p.info[infoBTFID:], 7)
	add := func(array int, recSize uint32, b []byte) {
		d := bpilArrays[array]
		e.put64(p.info[d.array:], uint64(len(p.data)))
		e.put32(p.info[d.count:], uint32(len(b))/recSize)
		if d.recSize != 0 {
			e.put32(p.info[d.recSize:], recSize)
		}
		p.data = append(p.data, b...)
		p.data = append(p.data, make([]byte, int(roundUp(uint64(len(p.data)), align))-len(p.data))...)
		p.arrays |= 1 << array
	}
	add(arrayJitedInsns, 1, []byte("\xf3\x0f\x1e\xfa\xc3sub\xc3"))
	add(arrayJitedKsyms, 8, e.appendU64s(nil, []uint64{0xffffffffc0001000, 0xffffffffc0002000}))
	add(arrayJitedFuncLens, 4, e.appendU32s(nil, 5, 4))
	add(arrayFuncInfo, 8, []byte("12345678abcdefgh"))
	add(arrayLineInfo, 16, bytes.Repeat([]byte{1}, 48))
	add(arrayJitedLineInfo, 8, bytes.Repeat([]byte{2}, 24))
	add(arrayProgTags, 8, []byte("tag-maintag-subp"))
	p.data = append(p.data, make([]byte, align8(len(p.data))-len(p.data))...)
	return p
}

func (p bpil) encode(e endian) []byte {
	b := e.appendU32s(nil, uint32(len(p.info)), uint32(len(p.data)))
	b = e.appendU64s(b, []uint64{p.arrays})
	return append(append(b, p.info...), p.data...)
}

func bpfSection(e endian, progs ...[]byte) []byte {
	return append(e.appendU32s(nil, uint32(len(progs))), slices.Concat(progs...)...)
}

func withFeature(tb testing.TB, e endian, f Feature, b []byte) *Recording {
	return open(tb, build(tb, e, testEvents(), func(w *Writer) { w.WriteFeature(f, b) }))
}

// TestBPFProgs reads programs as perf writes them since 5.16, and as perf 5.3 to
// 5.15 did, which packed the arrays.
func TestBPFProgs(t *testing.T) {
	for name, align := range map[string]uint64{"padded": bpilAlign, "packed": 1} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, e endian) { testBPFProgs(t, e, testProgOf(e, align)) })
		})
	}
}

func testBPFProgs(t *testing.T, e endian, prog bpil) {
	r := withFeature(t, e, FeatureBPFProgInfo, bpfSection(e, prog.encode(e)))
	var got []*BPFProg
	for p, err := range r.BPFProgs() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, p)
	}
	tag := func(s string) [8]byte { return [8]byte([]byte(s)) }
	code := []byte("\xf3\x0f\x1e\xfa\xc3sub\xc3")
	want := []*BPFProg{{
		Type: 26, ID: 42, Tag: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, Name: "probe_sys_enter", JitedLen: 9, LoadTime: 123456789, BTFID: 7,
		Insns: code, Ksyms: []uint64{0xffffffffc0001000, 0xffffffffc0002000}, FuncLens: []uint32{5, 4},
		ProgTags:      [][8]byte{tag("tag-main"), tag("tag-subp")},
		FuncInfo:      BPFInfoTable{RecSize: 8, Count: 2, Data: []byte("12345678abcdefgh")},
		LineInfo:      BPFInfoTable{RecSize: 16, Count: 3, Data: bytes.Repeat([]byte{1}, 48)},
		JitedLineInfo: BPFInfoTable{RecSize: 8, Count: 3, Data: bytes.Repeat([]byte{2}, 24)},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("programs (-want +got):\n%s", diff)
	}
	funcs := []BPFFunc{
		{Addr: 0xffffffffc0001000, Len: 5, Code: code[:5], Tag: tag("tag-main")},
		{Addr: 0xffffffffc0002000, Len: 4, Code: code[5:], Tag: tag("tag-subp")},
	}
	if diff := cmp.Diff(funcs, slices.Collect(got[0].Funcs())); diff != "" {
		t.Errorf("functions (-want +got):\n%s", diff)
	}
	for f := range got[0].Funcs() {
		if f.Addr != funcs[0].Addr {
			t.Error("the first function is not the first")
		}
		break
	}
}

// TestBPFProgIncomplete has programs of which a recorder could not see all:
// what is missing is left out, and no code gets a wrong place.
func TestBPFProgIncomplete(t *testing.T) {
	e := little
	code := []byte("\xf3\x0f\x1e\xfa\xc3sub\xc3")
	null := func(arrays ...int) func(p *bpil) {
		return func(p *bpil) {
			for _, a := range arrays { // a null pointer less the address of the data
				e.put64(p.info[bpilArrays[a].array:], ^uint64(0x5600_0000_1000))
			}
		}
	}
	tests := []struct {
		name  string
		spoil func(p *bpil)
		want  []BPFFunc
	}{
		{"no code", null(arrayJitedInsns), []BPFFunc{{Addr: 0xffffffffc0001000, Len: 5}, {Addr: 0xffffffffc0002000, Len: 4}}},
		{"no addresses", null(arrayJitedKsyms), nil},
		{"no lengths", null(arrayJitedFuncLens), nil},
		{"nothing", null(arrayJitedInsns, arrayJitedKsyms, arrayJitedFuncLens, arrayJitedLineInfo), nil},
		{"an address hidden", func(p *bpil) { clear(p.data[16:24]) }, []BPFFunc{{Addr: 0xffffffffc0002000, Len: 4, Code: code[5:]}}},
		{"not asked for", func(p *bpil) { *p = bpil{info: p.info} }, nil},
		{"old kernel's info", func(p *bpil) { *p = bpil{info: p.info[:80]} }, nil},
		{"no info", func(p *bpil) { *p = bpil{} }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			prog := testProg(e)
			tt.spoil(&prog)
			r := withFeature(t, e, FeatureBPFProgInfo, bpfSection(e, prog.encode(e)))
			n := 0
			for p, err := range r.BPFProgs() {
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, slices.Collect(p.Funcs()), cmpopts.IgnoreFields(BPFFunc{}, "Tag")); diff != "" {
					t.Errorf("functions (-want +got):\n%s", diff)
				}
				n++
			}
			if n != 1 {
				t.Errorf("%d programs", n)
			}
		})
	}
}

// TestBPFProgMalformed spoils the first of two programs: it gives an error and
// the second one is read, unless the first does not say how long it is.
func TestBPFProgMalformed(t *testing.T) {
	e := little
	place := func(array int, v uint64) func(p *bpil) {
		return func(p *bpil) { e.put64(p.info[bpilArrays[array].array:], v) }
	}
	count := func(array int, v uint32) func(p *bpil) {
		return func(p *bpil) { e.put32(p.info[bpilArrays[array].count:], v) }
	}
	tests := []struct {
		name  string
		spoil func(p *bpil)
		want  string
	}{
		{"code elsewhere", place(arrayJitedInsns, 8), "jited_prog_insns is at 8 instead of 0"},
		{"addresses within the code", place(arrayJitedKsyms, 8), "jited_ksyms is at 8 instead of 16"},
		{"tags past the end", place(arrayProgTags, 1<<32), "prog_tags is at 4294967296"},
		{"code longer than its functions", count(arrayJitedInsns, 10), "functions of 9 bytes together, code of 10"},
		{"code shorter than its functions", func(p *bpil) { count(arrayJitedInsns, 8)(p); p.data = p.data[:len(p.data)-8] }, "instead of 8"},
		{"more code than data", count(arrayJitedInsns, 0xffffffff), "4294967295 elements of 1 bytes at 0 do not fit"},
		{"more lines than data", func(p *bpil) {
			count(arrayLineInfo, 0xffffffff)(p)
			e.put32(p.info[bpilArrays[arrayLineInfo].recSize:], 0xffffffff)
		}, "line_info: 4294967295 elements of 4294967295 bytes"},
		{"one length more", func(p *bpil) {
			count(arrayJitedFuncLens, 3)(p)
			at := 16 + 16 + 8
			p.data = slices.Insert(p.data, at, make([]byte, 8)...)
			for _, a := range []int{arrayFuncInfo, arrayLineInfo, arrayJitedLineInfo, arrayProgTags} {
				d := bpilArrays[a]
				e.put64(p.info[d.array:], e.u64(p.info[d.array:])+8)
			}
		}, "3 functions at 2 addresses"},
		{"one tag less", func(p *bpil) {
			count(arrayProgTags, 1)(p)
			p.data = p.data[:len(p.data)-8]
		}, "2 functions with 1 tags"},
		{"other lengths", func(p *bpil) { e.put32(p.data[32:], 6) }, "functions of 10 bytes together, code of 9"},
		{"lengths that add up past 32 bits", func(p *bpil) { e.put32(p.data[32:], 0xffffffff); e.put32(p.data[36:], 10) }, "together, code of 9"},
		{"data left over", func(p *bpil) { p.data = append(p.data, make([]byte, 8)...) }, "arrays of 144 bytes in 152"},
		{"array without its fields", func(p *bpil) { p.info = p.info[:184] }, "info of 184 bytes has no prog_tags"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			prog := testProg(e)
			tt.spoil(&prog)
			r := withFeature(t, e, FeatureBPFProgInfo, bpfSection(e, prog.encode(e), testProg(e).encode(e)))
			var got []string
			for p, err := range r.BPFProgs() {
				if err != nil {
					var fe *FormatError
					if !errors.As(err, &fe) || p != nil || fe.Offset != r.features[FeatureBPFProgInfo].offset+4 {
						t.Errorf("program %v, error %#v", p, err)
					}
					got = append(got, err.Error())
					continue
				}
				got = append(got, fmt.Sprint(p.ID))
			}
			if len(got) != 2 || !strings.Contains(got[0], tt.want) || got[1] != "42" {
				t.Errorf("got %q, want an error with %q, then program 42", got, tt.want)
			}
		})
	}
}

// TestBPFSectionsCut cuts both sections everywhere: whole programs, then one
// error. TestEmptyFeatures has sections of 0 bytes.
func TestBPFSectionsCut(t *testing.T) {
	both(t, func(t *testing.T, e endian) {
		prog := testProg(e).encode(e)
		section := bpfSection(e, prog, prog)
		for n := 1; n < len(section); n++ {
			r := withFeature(t, e, FeatureBPFProgInfo, section[:n])
			progs, errs := 0, 0
			for _, err := range r.BPFProgs() {
				if err != nil {
					errs++
				} else {
					progs++
				}
			}
			if want := max(n-4, 0) / len(prog); progs != want || errs != 1 {
				t.Errorf("%d of %d bytes: %d programs, %d errors; want %d, 1", n, len(section), progs, errs, want)
			}
		}

		section = append(e.appendU32s(nil, 2, 7, 5), "btf 7"...)
		section = append(e.appendU32s(section, 8, 4), "btf8"...)
		for n := 1; n <= len(section); n++ {
			var got []string
			for b, err := range withFeature(t, e, FeatureBPFBTF, section[:n]).BPFBTFs() {
				if err != nil {
					got = append(got, "error")
				} else {
					got = append(got, fmt.Sprintf("%d %s", b.ID, b.Data))
				}
			}
			var want []string
			if n >= 17 {
				want = append(want, "7 btf 7")
			}
			if n == len(section) {
				want = append(want, "8 btf8")
			} else {
				want = append(want, "error")
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%d bytes (-want +got):\n%s", n, diff)
			}
		}
		for range withFeature(t, e, FeatureHostname, nil).BPFProgs() {
			t.Error("a program without a section")
		}
		for range withFeature(t, e, FeatureHostname, nil).BPFBTFs() {
			t.Error("BTF without a section")
		}
	})
}
