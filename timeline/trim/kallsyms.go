// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package trim

import (
	"bufio"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"iter"
	"maps"
	"sort"
	"strings"

	"github.com/textreplay/textreplay/kcore"
)

// cutMarker is the name in a cut kallsyms for the end of a run of kept symbols.
// Without it, the last symbol would seem to cover what follows.
const cutMarker = "symbols_cut_away"

// writeKallsyms writes all symbols of modules, and the symbols that cover kept
// pages, the targets of branches in kept code and pokes, the data that literals
// point to, and kept samples. Cut markers replace the others.
func (c *cut) writeKallsyms(w *bufio.Writer, k *kcore.Kallsyms) error {
	t := newSymbolCut(k)
	for _, s := range c.ownSegments() {
		for p := range pagesOf(s.Addr, uint64(len(s.Data))) {
			t.keepAt(max(p, s.Addr))
		}
		c.keepTargets(t, s.Addr, s.Data)
	}
	for i := range t.places {
		p := &t.places[i]
		p.keep = p.keep || c.pages[page(p.addr)]
	}
	for i, b := range c.text {
		t.keepAt(c.at[i])
		c.keepTargets(t, c.at[i], b)
	}
	for p, err := range c.rec.BPFProgs() {
		if err != nil {
			continue
		}
		for f := range p.Funcs() {
			c.keepTargets(t, f.Addr, f.Code)
		}
	}
	if c.opts.Samples {
		c.sampled(t.keepAt)
	}
	data := c.pointedTo()
	_, symbols := c.r.ProbedCode()
	for _, addr := range symbols {
		t.keepAt(addr)
		data[addr] = true
	}
	return t.write(w, data)
}

// keepTargets keeps the symbols of core text to which code at addr branches.
func (c *cut) keepTargets(t *symbolCut, addr uint64, code []byte) {
	lo, hi, _ := t.k.Text()
	for to := range targets(c.r.Machine(), c.rec.ByteOrder(), addr, code) {
		if to >= lo && to < hi {
			t.keepAt(to)
		}
	}
}

// A symbolCut decides which symbols of core text are kept.
type symbolCut struct {
	k      *kcore.Kallsyms
	places []place // by address
}

// A place is an address of core text with its symbols.
type place struct {
	addr     uint64
	first, n int // the index of its first symbol, and how many there are
	keep     bool
}

func newSymbolCut(k *kcore.Kallsyms) *symbolCut {
	t := &symbolCut{k: k}
	for i, s := range k.All() {
		if !isText(s) {
			continue
		}
		if n := len(t.places); n > 0 && t.places[n-1].addr == s.Addr {
			t.places[n-1].n = i - t.places[n-1].first + 1
			continue
		}
		t.places = append(t.places, place{addr: s.Addr, first: i, n: 1})
	}
	return t
}

// keepAt keeps the symbol that covers addr.
func (t *symbolCut) keepAt(addr uint64) {
	if i := sort.Search(len(t.places), func(i int) bool { return t.places[i].addr > addr }); i > 0 {
		t.places[i-1].keep = true
	}
}

// write writes the kept symbols with markers, all symbols of modules, and the
// data symbols at the addresses of data.
func (t *symbolCut) write(w *bufio.Writer, data map[uint64]bool) error {
	ends := make(map[int]bool) // indices of symbols that become markers
	kept := make(map[int]bool)
	for i, p := range t.places {
		switch {
		case p.keep:
			for j := range p.n {
				kept[p.first+j] = true
			}
		case i > 0 && t.places[i-1].keep:
			ends[p.first] = true
		}
	}
	for i, s := range t.k.All() {
		switch {
		case kept[i] || data[s.Addr] || s.Module != "" || s.Name == "_stext" || s.Name == "_etext" || s.Name == "_text":
			fmt.Fprintln(w, symbolLine(s))
		case ends[i]:
			fmt.Fprintf(w, "%016x t %s\n", s.Addr, cutMarker)
		}
	}
	return w.Flush()
}

// symbolLine returns a symbol as /proc/kallsyms has it.
func symbolLine(s kcore.Symbol) string {
	line := fmt.Sprintf("%016x %c %s", s.Addr, s.Type, s.Name)
	if s.Module != "" {
		line += "\t[" + s.Module + "]"
	}
	return line
}

func isText(s kcore.Symbol) bool {
	return s.Module == "" && strings.IndexByte("tTwWi", s.Type) >= 0
}

// pointedTo returns the addresses that literals in the kept text point to, in the
// snapshot or after a kept poke, and those that kept trampolines hand over.
func (c *cut) pointedTo() map[uint64]bool {
	out := maps.Clone(c.ops)
	v := c.r.Image.At(c.r.Report.First)
	for _, s := range c.ownSegments() {
		for off := 0; off < len(s.Data); off += 8 {
			if l, ok := c.r.OpsLiteral(v, s.Addr+uint64(off)); ok {
				out[l.Ops] = true
			}
		}
	}
	for i, b := range c.text {
		if _, ok := c.r.OpsLiteral(v, c.at[i]); ok && len(b) == 8 {
			out[c.rec.ByteOrder().Uint64(b)] = true
		}
	}
	return out
}

// targets yields the targets of long direct branches at every offset of code.
// It ignores instruction boundaries, so it finds all branches and some that do
// not exist.
func targets(machine elf.Machine, order binary.ByteOrder, addr uint64, code []byte) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		step := uint64(1)
		switch machine {
		case elf.EM_AARCH64, elf.EM_PPC64:
			step = 4
		case elf.EM_S390:
			step = 2
		}
		for at := -addr & (step - 1); at < uint64(len(code)); at += step {
			if by, ok := distance(machine, order, code[at:]); ok && !yield(addr+at+uint64(by)) {
				return
			}
		}
	}
}

// distance returns the offset in bytes from a direct branch at the start of code
// to its target: CALL, JMP and Jcc rel32 of x86, B and BL of arm64 and powerpc, BRCL
// and BRASL of s390.
func distance(machine elf.Machine, order binary.ByteOrder, code []byte) (by int64, ok bool) {
	switch machine {
	case elf.EM_AARCH64:
		if len(code) < 4 {
			return 0, false
		}
		word := binary.LittleEndian.Uint32(code)
		return int64(int32(word<<6) >> 4), word>>26&0b011111 == 0b000101
	case elf.EM_PPC64:
		if len(code) < 4 {
			return 0, false
		}
		word := order.Uint32(code)
		return int64(int32(word<<6) >> 6 &^ 3), word&0xfc000002 == 0x48000000
	case elf.EM_S390:
		if len(code) < 6 || code[0] != 0xc0 || code[1]&0xf != 4 && code[1]&0xf != 5 {
			return 0, false
		}
		return 2 * int64(int32(binary.BigEndian.Uint32(code[2:]))), true
	}
	n := 5
	switch {
	case len(code) < n:
		return 0, false
	case code[0] == 0xe8 || code[0] == 0xe9:
	case code[0] == 0x0f && code[1]&0xf0 == 0x80 && len(code) >= 6:
		n = 6
	default:
		return 0, false
	}
	return int64(n) + int64(int32(binary.LittleEndian.Uint32(code[n-4:]))), true
}
