// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

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

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A kernelFile is a kernel file without symbols, as it is in a boot image.
type kernelFile struct {
	text   uint64 // linked address of .text
	tables []byte // .rodata, at dataAt
	dataAt uint64
}

// bytes makes the ELF file: a header, two sections and their names.
func (v *kernelFile) bytes(machine elf.Machine) []byte {
	names := "\x00.text\x00.rodata\x00.shstrtab\x00"
	var out bytes.Buffer
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Ehsize: 64, Shentsize: 64, Shnum: 4, Shstrndx: 3}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	dataOff, namesOff := uint64(64), uint64(64+len(v.tables))
	h.Shoff = namesOff + uint64(len(names))
	binary.Write(&out, binary.LittleEndian, &h)
	out.Write(v.tables)
	out.WriteString(names)
	alloc := uint64(elf.SHF_ALLOC)
	for _, s := range []elf.Section64{
		{},
		{Name: 1, Type: uint32(elf.SHT_NOBITS), Flags: alloc | uint64(elf.SHF_EXECINSTR), Addr: v.text, Size: 0x1000},
		{Name: 7, Type: uint32(elf.SHT_PROGBITS), Flags: alloc, Addr: v.dataAt, Off: dataOff, Size: uint64(len(v.tables))},
		{Name: 15, Type: uint32(elf.SHT_STRTAB), Off: namesOff, Size: uint64(len(names))},
	} {
		binary.Write(&out, binary.LittleEndian, &s)
	}
	return out.Bytes()
}

// withTables loads a recording with a kallsyms that says where a kernel's tables are,
// and returns a vmlinux that has them.
func withTables(t *testing.T) (*replay.Replay, *kernelFile) {
	t.Helper()
	dir := filepath.Join(corpus.Root(), "testdata", "small", "rec.data")
	kallsyms, err := os.ReadFile(filepath.Join(dir, "kcore_dir", "kallsyms"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := replay.Load(dir, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	lo, hi := r.Image.Text()
	r.Close()
	const linked = 0xffffffff81000000
	tables := (hi + 0xfff) &^ 0xfff
	v := &kernelFile{text: linked, dataAt: tables - lo + linked}
	var data bytes.Buffer
	rel := func(to uint64) { binary.Write(&data, binary.LittleEndian, int32(to-tables-uint64(data.Len()))) }
	// One jump label, one static call that is a tail call, one function.
	rel(lo + 0x100)
	rel(lo + 0x180)
	binary.Write(&data, binary.LittleEndian, uint64(0x5000))
	rel(lo + 0x200)
	rel(lo + 0x8001)
	binary.Write(&data, binary.LittleEndian, uint64(linked+0x300))
	v.tables = data.Bytes()

	var names strings.Builder
	for i, name := range []string{"__start___jump_table", "__stop___jump_table", "__start_static_call_sites", "__stop_static_call_sites",
		"__start_mcount_loc", "__stop_mcount_loc"} {
		at := tables + []uint64{0, 16, 16, 24, 24, 32}[i]
		fmt.Fprintf(&names, "%016x D %s\n", at, name)
	}
	file := filepath.Join(t.TempDir(), "kallsyms")
	if err := os.WriteFile(file, append(kallsyms, names.String()...), 0o600); err != nil {
		t.Fatal(err)
	}
	if r, err = replay.Load(dir, replay.Options{Kallsyms: file}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r, v
}

// TestTables: the tables of a kernel are read from its file, and decide.
func TestTables(t *testing.T) {
	r, v := withTables(t)
	file := v.bytes(elf.EM_X86_64)
	tables, err := ReadTables(r, bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	lo, _ := r.Image.Text()
	if len(tables.JumpLabels) != 1 || tables.JumpLabels[lo+0x100] != lo+0x180 {
		t.Errorf("jump labels %#x, want one from %#x to %#x", tables.JumpLabels, lo+0x100, lo+0x180)
	}
	if s := tables.StaticCalls[lo+0x200]; len(tables.StaticCalls) != 1 || s != (StaticCallSite{lo + 0x8000, true}) {
		t.Errorf("static calls %v", tables.StaticCalls)
	}
	if len(tables.Functions) != 1 || !tables.Functions[lo+0x300] {
		t.Errorf("functions %v", tables.Functions)
	}

	c := NewClassifier(r, tables)
	for _, tt := range []struct {
		at       uint64
		old, new string
		want     Mechanism
		why      Fault
	}{
		{lo + 0x100, "\x0f\x1f\x44\x00\x00", "\xe9\x7b\x00\x00\x00", StaticKey, 0},
		{lo + 0x105, "\x0f\x1f\x44\x00\x00", "\xe9\x7b\x00\x00\x00", Other, NotInTable},
		{lo + 0x200, "\xc3\xcc\xcc\xcc\xcc", "\xe9\x7b\x00\x00\x00", StaticCall, 0},
		{lo + 0x100, "\xc3\xcc\xcc\xcc\xcc", "\xe9\x7b\x00\x00\x00", Other, NotInTable},
		{lo + 0x300, "\x0f\x1f\x44\x00\x00", "\xe8\x00\x00\x00\x10", Ftrace, 0}, // calls a module's code
	} {
		p := &perfdata.TextPoke{Addr: tt.at, Old: []byte(tt.old), New: []byte(tt.new)}
		p.Time = r.Report.First
		c.places[tt.at] = &place{kind: text, lo: tt.at, to: timeline.MaxTime} // a function begins there
		if m, why := c.poke(p, timeline.PokeBatch); m != tt.want || why != tt.why {
			t.Errorf("%x: % x -> % x: %v %d, want %v %d", tt.at-lo, tt.old, tt.new, m, why, tt.want, tt.why)
		}
	}
}

// TestDamagedTables: files that are not of this kernel, or damaged, are errors.
func TestDamagedTables(t *testing.T) {
	r, v := withTables(t)
	file := v.bytes(elf.EM_X86_64)
	for n := range file {
		ReadTables(r, bytes.NewReader(file[:n])) // must return
	}
	if _, err := ReadTables(r, bytes.NewReader(v.bytes(elf.EM_AARCH64))); err == nil {
		t.Error("a kernel of another architecture is read")
	}
	v.dataAt += 1 << 20
	if _, err := ReadTables(r, bytes.NewReader(v.bytes(elf.EM_X86_64))); !errors.Is(err, ErrNoTables) {
		t.Errorf("a file without tables: %v, want ErrNoTables", err)
	}
}

// realVmlinux returns the file of the kernel of recordings, which $TEXTREPLAY_VMLINUX names: it is
// unpacked from Debian's vmlinuz-6.1.0-55-amd64. docs/mechanisms.md says how.
func realVmlinux(t *testing.T) *os.File {
	t.Helper()
	name := os.Getenv("TEXTREPLAY_VMLINUX")
	if name == "" {
		t.Skip("skipped: $TEXTREPLAY_VMLINUX does not name the kernel of the recordings")
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// TestRealTables compares what the bytes show with the tables of the real kernel, in
// every change of a recording.
func TestRealTables(t *testing.T) {
	f := realVmlinux(t)
	for _, rec := range []string{"x86_64/rich", "x86_64/storm"} {
		r := load(t, corpus.Large(t, rec))
		tables, err := ReadTables(r, f)
		if err != nil {
			t.Fatal(err)
		}
		if len(tables.JumpLabels) < 5000 || len(tables.StaticCalls) < 3000 || len(tables.Functions) < 30000 {
			t.Errorf("%d jump labels, %d static calls, %d functions", len(tables.JumpLabels), len(tables.StaticCalls), len(tables.Functions))
		}
		plain, exact := NewClassifier(r, nil), NewClassifier(r, tables)
		n := 0
		for change := range r.Changes() {
			if p := change.Poke; p != nil {
				n++
				if a, b := plain.Of(change), exact.Of(change); a != b {
					t.Errorf("%s at %d: %x -> %x: %v by the bytes, %v by the tables", rec, p.Time, p.Old, p.New, a, b)
				}
			}
		}
		t.Logf("%s: %d pokes agree", rec, n)
	}
}
