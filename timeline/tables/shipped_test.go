// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package tables

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/textreplay/textreplay/kcore"
)

// linkedKernel writes a file as a kernel is linked: with the text of segments as sections, the
// symbol _text, and a build id.
func linkedKernel(t *testing.T, text uint64, id []byte, segments []kcore.Segment) string {
	t.Helper()
	var body, names bytes.Buffer
	names.WriteByte(0)
	name := func(s string) uint32 {
		at := names.Len()
		names.WriteString(s + "\x00")
		return uint32(at)
	}
	const start = 64 // behind the header
	sections := []elf.Section64{{}}
	add := func(s elf.Section64, data []byte) {
		s.Off, s.Size = start+uint64(body.Len()), uint64(len(data))
		body.Write(data)
		sections = append(sections, s)
	}
	for _, s := range segments {
		add(elf.Section64{Name: name(".text"), Type: uint32(elf.SHT_PROGBITS), Flags: uint64(elf.SHF_ALLOC | elf.SHF_EXECINSTR), Addr: s.Addr}, s.Data)
	}
	note := binary.LittleEndian.AppendUint32(nil, 4)
	note = binary.LittleEndian.AppendUint32(note, uint32(len(id)))
	note = binary.LittleEndian.AppendUint32(note, 3)
	add(elf.Section64{Name: name(".notes"), Type: uint32(elf.SHT_NOTE)}, append(append(note, "GNU\x00"...), id...))
	var symbols bytes.Buffer
	binary.Write(&symbols, binary.LittleEndian, []elf.Sym64{{}, {Name: 1, Info: byte(elf.STB_GLOBAL) << 4, Shndx: 1, Value: text}})
	strings := len(sections) + 1
	add(elf.Section64{Name: name(".symtab"), Type: uint32(elf.SHT_SYMTAB), Link: uint32(strings), Entsize: 24}, symbols.Bytes())
	add(elf.Section64{Name: name(".strtab"), Type: uint32(elf.SHT_STRTAB)}, []byte("\x00_text\x00"))
	at := name(".shstrtab")
	add(elf.Section64{Name: at, Type: uint32(elf.SHT_STRTAB)}, names.Bytes())
	header := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Shoff: start + uint64(body.Len()),
		Ehsize: 64, Shentsize: 64, Shnum: uint16(len(sections)), Shstrndx: uint16(len(sections) - 1)}
	copy(header.Ident[:], "\x7fELF\x02\x01\x01")
	var out bytes.Buffer
	binary.Write(&out, binary.LittleEndian, header)
	out.Write(body.Bytes())
	binary.Write(&out, binary.LittleEndian, sections)
	path := filepath.Join(t.TempDir(), "vmlinux")
	if err := os.WriteFile(path, out.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestShipped: the pages of a vmlinux file have the hashes of a recording's, but for those that
// differ; and they come back as they were linked. TestMoved has kernels that ran elsewhere.
func TestShipped(t *testing.T) {
	r, id, files := load(t, "../../testdata/small/rec.data")
	s := newSource(r, id)
	s.readPages()
	s.readPokes(nil)
	linked := s.base             // without KASLR
	var segments []kcore.Segment // the recording's, as linked
	var pages [][]byte
	moved := 0
	for i := range s.pages {
		p := &s.pages[i]
		text := bytes.Clone(p.content)
		moved += len(p.moved)
		if i == 1 {
			text[len(text)-7] ^= 0x55 // not as it was linked
		}
		pages = append(pages, text)
		segments = append(segments, kcore.Segment{Addr: linked + uint64(p.Offset), Data: text})
	}
	if moved == 0 || len(pages) < 3 {
		t.Fatalf("%d pages with %d addresses are no test", len(pages), moved)
	}
	build := []byte{0x20, 0x26, 0x11, 0x23}
	path := linkedKernel(t, linked, build, segments)
	shipped, err := ReadShipped(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := hex.EncodeToString(build); shipped.BuildID != want {
		t.Errorf("build id %q, want %q", shipped.BuildID, want)
	}
	dir := t.TempDir()
	d := Open(dir)
	defer d.Close()
	for range 2 { // the second time adds nothing
		if _, err := d.AddShipped(shipped); err != nil {
			t.Fatal(err)
		}
		if m, err := d.Has(shipped.ID()); m == nil || err != nil {
			t.Errorf("Has: %v, %v", m, err)
		}
	}
	if _, err := d.Add(r, id, Options{Inputs: files}); err != nil {
		t.Fatal(err)
	}
	rows := readAll[shippedRow](t, filepath.Join(dir, "shipped", "build_id="+hex.EncodeToString(build), "*.parquet"))
	recorded := make(map[int64]pageRow)
	for _, p := range readAll[pageRow](t, filepath.Join(dir, "pages/*/*.parquet")) {
		recorded[p.Offset] = p
	}
	if len(rows) != len(recorded) {
		t.Fatalf("%d pages are shipped, %d recorded", len(rows), len(recorded))
	}
	for i, row := range rows {
		if differs := recorded[row.Offset].Hash != row.Hash; differs != (i == 1) {
			t.Errorf("the page at %#x: differs %v", row.Offset, differs)
		}
		for k, at := range row.RelocAt {
			binary.LittleEndian.PutUint32(row.Page[at:], uint32(row.RelocTo[k])+uint32(linked))
		}
		if !bytes.Equal(row.Page, pages[i]) {
			t.Errorf("the page at %#x does not come back as it was linked", row.Offset)
		}
	}
	for _, damage := range [][]byte{nil, []byte("\x7fELF\x02\x01\x01"), bytes.Repeat([]byte{0xff}, 100)} {
		if err := os.WriteFile(path, damage, 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadShipped(path); err == nil {
			t.Errorf("%d bytes of something else are a kernel", len(damage))
		}
	}
}
