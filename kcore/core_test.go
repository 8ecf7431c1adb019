// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package kcore

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// prog is a program header for buildCore.
type prog struct {
	typ                      elf.ProgType
	off, addr, filesz, memsz uint64
}

func loadProg(off, addr, size uint64) prog { return prog{elf.PT_LOAD, off, addr, size, size} }

// buildCore makes a core file of size bytes with the given program headers; the
// byte at offset i is byte(i) from 256 on. It is written with the structs of
// debug/elf, so that the package's own layouts are checked against those.
func buildCore(t testing.TB, class elf.Class, data elf.Data, size int, progs []prog) []byte {
	t.Helper()
	order := map[elf.Data]binary.ByteOrder{elf.ELFDATA2LSB: binary.LittleEndian, elf.ELFDATA2MSB: binary.BigEndian}[data]
	var buf bytes.Buffer
	put := func(v any) {
		if err := binary.Write(&buf, order, v); err != nil {
			t.Fatal(err)
		}
	}
	ident := [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(class), byte(data), 1}
	if class == elf.ELFCLASS64 {
		put(elf.Header64{Ident: ident, Type: uint16(elf.ET_CORE), Machine: uint16(elf.EM_PPC64), Version: 1,
			Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: uint16(len(progs)), Shentsize: 64})
	} else {
		put(elf.Header32{Ident: ident, Type: uint16(elf.ET_CORE), Machine: uint16(elf.EM_ARM), Version: 1,
			Phoff: 52, Ehsize: 52, Phentsize: 32, Phnum: uint16(len(progs)), Shentsize: 40})
	}
	for _, p := range progs {
		if class == elf.ELFCLASS64 {
			put(elf.Prog64{Type: uint32(p.typ), Off: p.off, Vaddr: p.addr, Filesz: p.filesz, Memsz: p.memsz})
		} else {
			put(elf.Prog32{Type: uint32(p.typ), Off: uint32(p.off), Vaddr: uint32(p.addr), Filesz: uint32(p.filesz), Memsz: uint32(p.memsz)})
		}
	}
	for buf.Len() < size {
		if buf.Len() < 256 {
			buf.WriteByte(0)
		} else {
			buf.WriteByte(byte(buf.Len()))
		}
	}
	return buf.Bytes()
}

// describe shows a core's segments as "addr+size@offset", the offset being
// that of buildCore's pattern.
func describe(c *Core) []string {
	var out []string
	for _, s := range c.Segments {
		out = append(out, fmt.Sprintf("%#x+%d@%d", s.Addr, len(s.Data), s.Data[0]))
	}
	return out
}

func warningTexts(errs []error) []string {
	var out []string
	for _, err := range errs {
		out = append(out, err.Error())
	}
	return out
}

func TestNewCore(t *testing.T) {
	// Offsets are in the block [512, 768), where the pattern byte is the
	// offset less 512.
	tests := []struct {
		name     string
		progs    []prog
		size     int
		want     []string
		warnings []string // after "kcore: "
	}{
		{name: "none", size: 600},
		{
			name: "sorted by address",
			progs: []prog{
				loadProg(520, 0xc0080000, 16), // as ppc64le: the modules come first
				loadProg(540, 0xc0000000, 16),
			},
			size: 768,
			want: []string{"0xc0000000+16@28", "0xc0080000+16@8"},
		},
		{
			name: "other headers",
			progs: []prog{
				{elf.PT_NOTE, 512, 0xc0000000, 16, 16},
				loadProg(540, 0xc0000100, 16),
				loadProg(540, 0xc0000200, 0),
			},
			size: 768,
			want: []string{"0xc0000100+16@28"},
		},
		{
			name:  "memory without bytes in the file",
			progs: []prog{{elf.PT_LOAD, 512, 0xc0000000, 16, 64}},
			size:  768,
			want:  []string{"0xc0000000+16@0"},
		},
		{
			name: "touching",
			progs: []prog{
				loadProg(512, 0xc0000000, 16),
				loadProg(528, 0xc0000010, 16),
			},
			size: 768,
			want: []string{"0xc0000000+16@0", "0xc0000010+16@16"},
		},
		{
			name: "duplicate",
			progs: []prog{
				loadProg(512, 0xc0000000, 16),
				loadProg(512, 0xc0000000, 16),
				loadProg(600, 0xa0000000, 16),
			},
			size: 768,
			want: []string{"0xa0000000+16@88", "0xc0000000+16@0"},
		},
		{
			name: "overlap of the same bytes",
			progs: []prog{
				loadProg(520, 0xc0000008, 16),
				loadProg(512, 0xc0000000, 16),
			},
			size: 768,
			want: []string{"0xc0000000+24@0"},
		},
		{
			name: "two addresses of the same bytes",
			progs: []prog{
				loadProg(512, 0xc0000000, 16),
				loadProg(512, 0xd0000000, 16),
			},
			size: 768,
			want: []string{"0xc0000000+16@0", "0xd0000000+16@0"},
		},
		{
			name: "disagreement",
			progs: []prog{
				loadProg(512, 0xc0000000, 32),
				loadProg(600, 0xc0000008, 8),
				loadProg(640, 0xc000001c, 8),
			},
			size:     768,
			want:     []string{"0xc0000000+8@0", "0xc0000010+12@16", "0xc0000020+4@132"},
			warnings: []string{"segments disagree about 0xc bytes in 2 ranges, the first at address 0xc0000008, which are left out at offset"},
		},
		{
			name: "cut short",
			progs: []prog{
				loadProg(512, 0xc0000000, 32),
				loadProg(544, 0xc0000100, 32),
				loadProg(576, 0xc0000200, 32),
			},
			size:     550,
			want:     []string{"0xc0000000+32@0", "0xc0000100+6@32"},
			warnings: []string{"file cut short: 0x3a bytes of 2 segments are not there at offset 0x226"},
		},
	}
	for _, class := range []elf.Class{elf.ELFCLASS32, elf.ELFCLASS64} {
		for _, data := range []elf.Data{elf.ELFDATA2LSB, elf.ELFDATA2MSB} {
			for _, tt := range tests {
				t.Run(fmt.Sprintf("%v/%v/%s", class, data, tt.name), func(t *testing.T) {
					c, err := NewCore(buildCore(t, class, data, tt.size, tt.progs))
					if err != nil {
						t.Fatal(err)
					}
					wantMachine := elf.EM_ARM
					if class == elf.ELFCLASS64 {
						wantMachine = elf.EM_PPC64
					}
					if c.Class != class || c.Data != data || c.Machine != wantMachine {
						t.Errorf("got %v %v %v, want %v %v %v", c.Class, c.Data, c.Machine, class, data, wantMachine)
					}
					if diff := cmp.Diff(tt.want, describe(c)); diff != "" {
						t.Errorf("segments (-want +got):\n%s", diff)
					}
					got := warningTexts(c.Warnings())
					if len(got) != len(tt.warnings) {
						t.Fatalf("warnings %q, want %q", got, tt.warnings)
					}
					for i, w := range tt.warnings {
						if !strings.HasPrefix(got[i], "kcore: "+w) {
							t.Errorf("warning %q, want %q", got[i], w)
						}
					}
				})
			}
		}
	}
}

func TestNewCoreEndOfAddressSpace(t *testing.T) {
	tests := []struct {
		class elf.Class
		prog  prog
		want  string
		warn  bool
	}{
		{elf.ELFCLASS32, loadProg(512, 0xffff_fff0, 16), "0xfffffff0+16@0", false},
		{elf.ELFCLASS32, loadProg(512, 0xffff_fff0, 17), "0xfffffff0+16@0", true},
		{elf.ELFCLASS64, loadProg(512, 0xffff_ffff_ffff_fff0, 15), "0xfffffffffffffff0+15@0", false},
		{elf.ELFCLASS64, loadProg(512, 0xffff_ffff_ffff_fff0, 32), "0xfffffffffffffff0+15@0", true},
	}
	for _, tt := range tests {
		c, err := NewCore(buildCore(t, tt.class, elf.ELFDATA2LSB, 768, []prog{tt.prog}))
		if err != nil {
			t.Fatal(err)
		}
		if got := describe(c); len(got) != 1 || got[0] != tt.want {
			t.Errorf("%v %+v: got %q, want %q", tt.class, tt.prog, got, tt.want)
		}
		if got := len(c.Warnings()) > 0; got != tt.warn {
			t.Errorf("%v %+v: warnings %v, want any: %v", tt.class, tt.prog, c.Warnings(), tt.warn)
		}
	}
}

func TestNewCoreErrors(t *testing.T) {
	good := func() []byte {
		return buildCore(t, elf.ELFCLASS64, elf.ELFDATA2LSB, 768, []prog{loadProg(512, 0xc0000000, 16)})
	}
	patch := func(off int, b ...byte) []byte {
		data := good()
		copy(data[off:], b)
		return data
	}
	tests := []struct {
		name string
		data []byte
		off  int64
		msg  string
	}{
		{"empty", nil, 0, "not an ELF file"},
		{"text", []byte("ffffffff81000000 T _text\n"), 0, "not an ELF file"},
		{"class", patch(4, 3), 4, "unknown ELF class 3 or byte order 1"},
		{"byte order", patch(5, 0), 4, "unknown ELF class 2 or byte order 0"},
		{"short header", good()[:63], 63, "ELF header cut short"},
		{"program", patch(16, 2), 16, "ELF file of type ET_EXEC, want ET_CORE"},
		{"small program headers", patch(54, 55), 54, "program headers of 55 bytes, want at least 56"},
	}
	for _, tt := range tests {
		_, err := NewCore(tt.data)
		var fe *FormatError
		if !errors.As(err, &fe) {
			t.Errorf("%s: error %v, want a FormatError", tt.name, err)
			continue
		}
		if diff := cmp.Diff(&FormatError{File: "kcore", Off: tt.off, Msg: tt.msg}, fe); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestNewCoreHeadersCutShort(t *testing.T) {
	progs := []prog{loadProg(0, 0xc0000000, 64), loadProg(0, 0xd0000000, 64), loadProg(0, 0xe0000000, 64)}
	data := buildCore(t, elf.ELFCLASS64, elf.ELFDATA2LSB, 0, progs)
	c, err := NewCore(data[:64+2*56+55])
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Segments) != 2 {
		t.Errorf("got %d segments, want 2", len(c.Segments))
	}
	want := []string{"kcore: file cut short: 1 of 3 program headers are not there at offset 0xb0"}
	if diff := cmp.Diff(want, warningTexts(c.Warnings())); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestCoreBytes(t *testing.T) {
	c, err := NewCore(buildCore(t, elf.ELFCLASS64, elf.ELFDATA2LSB, 768, []prog{
		loadProg(512, 0x1000, 16),
		loadProg(528, 0x1010, 16),
		loadProg(544, 0x2000, 4),
	}))
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		addr uint64
		n    int
		want []byte
	}{
		{0x1000, 2, []byte{0, 1}},
		{0x100e, 2, []byte{14, 15}},
		{0x100f, 2, nil}, // across two segments
		{0x1010, 1, []byte{16}},
		{0x101f, 1, []byte{31}},
		{0x1020, 1, nil},
		{0x0fff, 1, nil},
		{0x2000, 4, []byte{32, 33, 34, 35}},
		{0x2001, 4, nil},
		{0x2003, 1, []byte{35}},
		{0xffff_ffff_ffff_ffff, 1, nil},
		{0x1000, 0, nil},
		{0x1000, -1, nil},
	}
	for _, tt := range tests {
		got := c.Bytes(tt.addr, tt.n)
		if !bytes.Equal(got, tt.want) || (got == nil) != (tt.want == nil) {
			t.Errorf("Bytes(%#x, %d) = %v, want %v", tt.addr, tt.n, got, tt.want)
		}
		if cap(got) > max(tt.n, 0) {
			t.Errorf("Bytes(%#x, %d) has capacity %d", tt.addr, tt.n, cap(got))
		}
	}
}

func TestOpenCore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kcore")
	data := buildCore(t, elf.ELFCLASS64, elf.ELFDATA2LSB, 530, []prog{loadProg(512, 0x1000, 256)})
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := OpenCore(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Bytes(0x1000, 18), data[512:]; !bytes.Equal(got, want) {
		t.Errorf("got % x, want % x", got, want)
	}
	if w := c.Warnings(); len(w) != 1 || !strings.HasPrefix(w[0].Error(), path+": file cut short: 0xee bytes") {
		t.Errorf("warnings %q, want one about %s", w, path)
	}
	for range 2 {
		if err := c.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	}
}

func TestOpenCoreErrors(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	text := filepath.Join(dir, "text")
	for path, content := range map[string]string{empty: "", text: "not a core, surely"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		empty:                       empty + ": empty file, want an ELF core at offset 0x0",
		text:                        text + ": not an ELF file at offset 0x0",
		dir:                         "open " + dir + ": not a regular file",
		filepath.Join(dir, "other"): "no such file",
	} {
		if _, err := OpenCore(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("OpenCore(%s) = %v, want %q", path, err, want)
		}
	}
}

// The heads of real cores: what their program headers announce is cut off but
// for 64 bytes.
func TestNewCoreExcerpts(t *testing.T) {
	tests := []struct {
		file    string
		machine elf.Machine
		data    elf.Data
		addr    uint64
		first   []byte
		missing string
	}{
		{
			"arm64.kcore", elf.EM_AARCH64, elf.ELFDATA2LSB, 0xffffab833b410000,
			[]byte{0x58, 0x7f, 0x36, 0x3c},
			"0x3b0df80 bytes of 3 segments",
		},
		{
			"s390x.kcore", elf.EM_S390, elf.ELFDATA2MSB, 0x3fffe954000,
			[]byte{0xc0, 0x10, 0x00, 0x99},
			"0xb87fc0 bytes of 2 segments",
		},
	}
	for _, tt := range tests {
		c, err := OpenCore(filepath.Join("testdata", tt.file))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if c.Machine != tt.machine || c.Class != elf.ELFCLASS64 || c.Data != tt.data {
			t.Errorf("%s: got %v %v %v", tt.file, c.Machine, c.Class, c.Data)
		}
		if len(c.Segments) != 1 || c.Segments[0].Addr != tt.addr || len(c.Segments[0].Data) != 64 {
			t.Fatalf("%s: got segments %v", tt.file, c.Segments)
		}
		if got := c.Bytes(tt.addr, 4); !bytes.Equal(got, tt.first) {
			t.Errorf("%s: first bytes % x, want % x", tt.file, got, tt.first)
		}
		if w := warningTexts(c.Warnings()); len(w) != 1 || !strings.Contains(w[0], tt.missing) {
			t.Errorf("%s: warnings %q, want %q", tt.file, w, tt.missing)
		}
	}
}
