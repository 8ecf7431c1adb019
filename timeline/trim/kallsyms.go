// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package trim

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/textreplay/textreplay/kcore"
)

// CutMarker is the name that a cut kallsyms gives to the place where kept
// symbols end, so that nothing behind it is taken for a part of the last one.
const CutMarker = "symbols_cut_away"

// writeKallsyms writes the symbols of kept pages, of what their code and the
// kept pokes branch to, of kept samples, and all of modules; the rest becomes CutMarkers.
func (c *cut) writeKallsyms(w *bufio.Writer, k *kcore.Kallsyms) error {
	type place struct {
		addr  uint64
		first int // index of its first symbol
		n     int
	}
	var places []place // of core text symbols
	for i, s := range k.All() {
		if !isText(s) {
			continue
		}
		if n := len(places); n > 0 && places[n-1].addr == s.Addr {
			places[n-1].n = i - places[n-1].first + 1
			continue
		}
		places = append(places, place{s.Addr, i, 1})
	}
	keep := make([]bool, len(places))
	mark := func(addr uint64) { // the symbol that covers addr
		lo, hi := 0, len(places)
		for lo < hi {
			if m := (lo + hi) / 2; places[m].addr <= addr {
				lo = m + 1
			} else {
				hi = m
			}
		}
		if lo > 0 {
			keep[lo-1] = true
		}
	}
	textLo, textHi, _ := k.Text()
	for _, s := range c.segments() {
		for p := s.Addr; p < s.Addr+uint64(len(s.Data)); p += pageSize {
			mark(p)
		}
		branches(s.Addr, s.Data, mark, textLo, textHi)
	}
	for i, pl := range places {
		keep[i] = keep[i] || c.pages[page(pl.addr)]
	}
	for i, b := range c.text {
		mark(c.at[i])
		branches(c.at[i], b, mark, textLo, textHi)
	}
	for p, err := range c.rec.BPFProgs() {
		if err != nil {
			continue
		}
		for f := range p.Funcs() {
			branches(f.Addr, f.Code, mark, textLo, textHi)
		}
	}
	if c.opts.Samples {
		if err := c.sampled(mark); err != nil {
			return err
		}
	}
	cutAt := make(map[int]bool) // indices of symbols that become markers
	kept := make(map[int]bool)
	for i, pl := range places {
		if keep[i] {
			for j := range pl.n {
				kept[pl.first+j] = true
			}
		} else if i > 0 && keep[i-1] {
			cutAt[pl.first] = true
		}
	}
	for i, s := range k.All() {
		switch {
		case kept[i] || s.Module != "" || s.Name == "_stext" || s.Name == "_etext" || s.Name == "_text":
			line := fmt.Sprintf("%016x %c %s", s.Addr, s.Type, s.Name)
			if s.Module != "" {
				line += "\t[" + s.Module + "]"
			}
			fmt.Fprintln(w, line)
		case cutAt[i]:
			fmt.Fprintf(w, "%016x t %s\n", s.Addr, CutMarker)
		}
	}
	return w.Flush()
}

func isText(s kcore.Symbol) bool {
	return s.Module == "" && strings.IndexByte("tTwWi", s.Type) >= 0
}

// branches calls mark for what CALL, JMP and Jcc rel32 at any offset of code
// would go to: more than its branches, since boundaries of instructions are
// not looked for, and all of them.
func branches(addr uint64, code []byte, mark func(uint64), lo, hi uint64) {
	for i := 0; i+5 <= len(code); i++ {
		n := 5
		switch {
		case code[i] == 0xe8 || code[i] == 0xe9:
		case code[i] == 0x0f && code[i+1]&0xf0 == 0x80 && i+6 <= len(code):
			n = 6
		default:
			continue
		}
		rel := int32(binary.LittleEndian.Uint32(code[i+n-4:]))
		if to := addr + uint64(i+n) + uint64(int64(rel)); to >= lo && to < hi {
			mark(to)
		}
	}
}
