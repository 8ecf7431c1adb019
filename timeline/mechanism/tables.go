// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package mechanism

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline/replay"
)

// Tables are the kernel's own lists of the places that it may change. They cover core
// kernel text only; each module brings its own. Addresses are those of the running
// kernel. A nil map means that the table could not be read, and allows any place.
type Tables struct {
	// JumpLabels are the static keys' sites (__jump_table), with the address that each
	// jumps to.
	JumpLabels map[uint64]uint64
	// StaticCalls are the sites of static calls (.static_call_sites).
	StaticCalls map[uint64]StaticCallSite
	// Functions are the sites of ftrace: the calls at functions' entries (__mcount_loc).
	Functions map[uint64]bool
}

// A StaticCallSite is an entry of .static_call_sites (struct static_call_site,
// include/linux/static_call_types.h).
type StaticCallSite struct {
	Key  uint64 // address of the struct static_call_key
	Tail bool   // the site is a tail call, a jump
}

// ErrNoTables is returned by ReadTables if the file has none of the tables.
var ErrNoTables = errors.New("the file has no table of places that the kernel may change")

// ReadTables reads the tables of r's kernel from a vmlinux file of the same kernel. The
// file needs no symbols: kallsyms says where the tables are, so the vmlinux that is
// unpacked from a boot image will do. Errors name the table.
//
// The caller must know that the file is of this kernel: [replay.Load] compares the build
// IDs if its Options.Vmlinux names the file.
func ReadTables(r *replay.Replay, vmlinux io.ReaderAt) (*Tables, error) {
	f, err := elf.NewFile(vmlinux)
	if err != nil {
		return nil, err
	}
	lo, _ := r.Image.Text()
	k := r.Kallsyms()
	if k == nil || lo == 0 {
		return nil, replay.ErrNoKallsyms
	}
	text := f.Section(".text")
	if text == nil {
		return nil, errors.New("no section .text")
	}
	linked := text.Addr // of a file without symbols
	symbols, _ := f.Symbols()
	for _, s := range symbols {
		if s.Name == "_stext" {
			linked = s.Value // on powerpc, .head.text precedes .text
		}
	}
	tr := tableReader{f: f, k: k, moved: lo - linked}
	if r.Machine() != f.Machine {
		return nil, fmt.Errorf("a kernel for %v, but the recorded one is for %v", f.Machine, r.Machine())
	}
	t := &Tables{}
	if err := tr.jumpLabels(t); err != nil {
		return nil, fmt.Errorf("__jump_table: %w", err)
	}
	if err := tr.staticCalls(t); err != nil {
		return nil, fmt.Errorf(".static_call_sites: %w", err)
	}
	if err := tr.functions(t); err != nil {
		return nil, fmt.Errorf("__mcount_loc: %w", err)
	}
	if t.JumpLabels == nil && t.StaticCalls == nil && t.Functions == nil {
		return nil, ErrNoTables
	}
	return t, nil
}

// allow reports whether the tables have addr as a place of the mechanism. They say
// nothing of kprobes and BPF programs.
func (t *Tables) allow(m Mechanism, addr uint64) bool {
	ok := true
	switch m {
	case StaticKey:
		_, ok = t.JumpLabels[addr]
		ok = ok || t.JumpLabels == nil
	case StaticCall:
		_, ok = t.StaticCalls[addr]
		ok = ok || t.StaticCalls == nil
	case Ftrace, BPFTrampoline:
		ok = t.Functions == nil || t.Functions[addr]
	}
	return ok
}

// bounds returns the values of two symbols of the kernel that begin and end something.
func bounds(k *kcore.Kallsyms, start, stop string) (lo, hi uint64, ok bool) {
	a, b := k.LookupIn("", start), k.LookupIn("", stop)
	if len(a) == 0 || len(b) == 0 || a[0].Addr == 0 || b[0].Addr < a[0].Addr {
		return 0, 0, false
	}
	return a[0].Addr, b[0].Addr, true
}

// A tableReader reads tables from a vmlinux file.
type tableReader struct {
	f     *elf.File
	k     *kcore.Kallsyms
	moved uint64 // how far the kernel was moved when it booted
}

// maxTable is the size of the largest table that is read, in bytes. Linux 6.12 has some
// 700 KB.
const maxTable = 64 << 20

// table returns the bytes between two symbols and the address where they are in memory;
// nil if kallsyms does not have the symbols, or the file does not have the bytes.
func (tr *tableReader) table(start, stop string) ([]byte, uint64, error) {
	lo, hi, ok := bounds(tr.k, start, stop)
	if !ok || lo == hi {
		return nil, 0, nil
	}
	if hi-lo > maxTable {
		return nil, 0, fmt.Errorf("%d bytes are too many", hi-lo)
	}
	at := lo - tr.moved
	for _, s := range tr.f.Sections {
		if s.Type == elf.SHT_PROGBITS && s.Flags&elf.SHF_ALLOC != 0 && s.Addr <= at && at-s.Addr <= s.Size && hi-lo <= s.Size-(at-s.Addr) {
			data := make([]byte, hi-lo)
			if _, err := s.ReadAt(data, int64(at-s.Addr)); err != nil {
				return nil, 0, err
			}
			return data, lo, nil
		}
	}
	return nil, 0, nil
}

// jumpLabels reads struct jump_entry of include/linux/jump_label.h with relative
// addresses (CONFIG_HAVE_ARCH_JUMP_LABEL_RELATIVE): two of 32 bits and one of 64.
func (tr *tableReader) jumpLabels(t *Tables) error {
	data, at, err := tr.table("__start___jump_table", "__stop___jump_table")
	if data == nil || err != nil {
		return err
	}
	const size = 16
	if len(data)%size != 0 {
		return fmt.Errorf("%d bytes are not entries of %d bytes each", len(data), size)
	}
	t.JumpLabels = make(map[uint64]uint64, len(data)/size)
	for ; len(data) > 0; data, at = data[size:], at+size {
		t.JumpLabels[at+tr.s32(data)] = at + 4 + tr.s32(data[4:])
	}
	return nil
}

func (tr *tableReader) staticCalls(t *Tables) error {
	data, at, err := tr.table("__start_static_call_sites", "__stop_static_call_sites")
	if data == nil || err != nil {
		return err
	}
	const size, tail, flags = 8, 1, 3 // STATIC_CALL_SITE_TAIL, STATIC_CALL_SITE_FLAGS
	if len(data)%size != 0 {
		return fmt.Errorf("%d bytes are not entries of %d bytes each", len(data), size)
	}
	t.StaticCalls = make(map[uint64]StaticCallSite, len(data)/size)
	for ; len(data) > 0; data, at = data[size:], at+size {
		key := at + 4 + tr.s32(data[4:])
		t.StaticCalls[at+tr.s32(data)] = StaticCallSite{Key: key &^ flags, Tail: key&tail != 0}
	}
	return nil
}

// functions reads the addresses in __mcount_loc. They are absolute, so a file that needs
// relocations may have zeros there.
func (tr *tableReader) functions(t *Tables) error {
	data, _, err := tr.table("__start_mcount_loc", "__stop_mcount_loc")
	if data == nil || err != nil {
		return err
	}
	if len(data)%8 != 0 {
		return fmt.Errorf("%d bytes are not whole addresses", len(data))
	}
	lo, hi, _ := tr.k.Text()
	functions := make(map[uint64]bool, len(data)/8)
	for ; len(data) > 0; data = data[8:] {
		if addr := tr.f.ByteOrder.Uint64(data) + tr.moved; lo <= addr && addr < hi {
			functions[addr] = true
		}
	}
	if len(functions) > 0 {
		t.Functions = functions
	}
	return nil
}

func (tr *tableReader) s32(b []byte) uint64 {
	return uint64(int64(int32(tr.order().Uint32(b))))
}

func (tr *tableReader) order() binary.ByteOrder { return tr.f.ByteOrder }
