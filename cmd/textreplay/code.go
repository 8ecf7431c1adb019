// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/numbers"
	"github.com/textreplay/textreplay/internal/patching"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// maxInsn is the length of the longest instruction of any architecture.
const maxInsn = 15

// A coder disassembles the recorded kernel's code.
type coder struct {
	dis   *disasm.Disassembler // nil: the architecture cannot be disassembled
	order binary.ByteOrder     // of the kernel's data, and of powerpc's instructions
	r     *replay.Replay       // nil if only the image is known
	debug *debugInfo           // nil if there is none
	// literals is the replay if kernel text contains data, else nil.
	literals *replay.Replay
	passing  map[uint64]*passingName // see passingName
	asking   bool                    // symbolizers append the addresses that they are asked for to asked
	asked    []uint64
	names    int // how many names symbolizers were asked for
	plain    plainTexts
	room     [2][64]byte   // scratch of transition
	insts    []disasm.Inst // the same
}

func newCoder(r *replay.Replay) (*coder, error) {
	c := &coder{order: r.Recording.ByteOrder(), r: r}
	dis, err := disasm.New(r.Machine(), c.order)
	if errors.Is(err, disasm.ErrUnsupportedArch) {
		return c, nil
	}
	c.dis = dis
	if r.Machine() == elf.EM_AARCH64 {
		c.literals = r
	}
	return c, inputError(err)
}

// elfForm returns the ELF class and byte order of the recorded kernel.
func elfForm(r *replay.Replay) (elf.Class, elf.Data) {
	if s := r.Snapshot; s != nil && s.Core != nil {
		return s.Core.Class, s.Core.Data
	}
	if r.Recording.ByteOrder() == binary.BigEndian {
		return elf.ELFCLASS64, elf.ELFDATA2MSB
	}
	return elf.ELFCLASS64, elf.ELFDATA2LSB
}

// decode appends the instructions of code, which is at addr at v's time, to
// insts. If the architecture cannot be disassembled, it appends rows of bytes.
func (c *coder) decode(insts []disasm.Inst, code []byte, v timeline.View, addr uint64) []disasm.Inst {
	if c.dis != nil {
		for in := range c.all(code, v, addr) {
			insts = append(insts, in)
		}
		return insts
	}
	const row = 16
	for len(code) > 0 {
		n := min(row, len(code))
		insts = append(insts, disasm.Inst{Addr: addr, Bytes: code[:n:n], Data: true})
		code, addr = code[n:], addr+uint64(n)
	}
	return insts
}

// all yields the instructions of code, which is at addr at v's time. Data in
// the code is yielded as data.
func (c *coder) all(code []byte, v timeline.View, addr uint64) iter.Seq[disasm.Inst] {
	names := c.symbolizer(v)
	if c.literals == nil {
		return c.dis.All(code, addr, names)
	}
	// The literals point to data, and the view has no names of data.
	named := func(addr uint64) (string, uint64, bool) {
		if name, base, ok := names(addr); ok {
			return name, base, ok
		}
		if k := c.literals.Kallsyms(); k != nil {
			for _, s := range k.NamesOf(addr) {
				return s.Name, addr, true
			}
		}
		return "", 0, false
	}
	isData := func(addr uint64) bool {
		_, ok := c.literals.OpsLiteral(v, addr)
		return ok
	}
	return func(yield func(disasm.Inst) bool) {
		for in := range c.dis.AllWithData(code, addr, named, isData) {
			if in.Data && len(in.Bytes) == 8 {
				if l, ok := c.literals.OpsLiteral(v, in.Addr); ok {
					in.Text += "  // ops of " + placeOf(v, l.Func).String()
				}
			}
			if !yield(in) {
				return
			}
		}
	}
}

// next returns the first instruction of code, which is at addr at v's time and
// not empty.
func (c *coder) next(code []byte, v timeline.View, addr uint64) disasm.Inst {
	if c.literals == nil {
		if in, ok := c.plain.find(code, addr); ok {
			return in
		}
		names := c.names
		in := c.dis.Next(code, addr, c.symbolizer(v))
		if c.names == names {
			c.plain.note(&in)
		}
		return in
	}
	for in := range c.all(code, v, addr) {
		return in
	}
	return disasm.Inst{Addr: addr}
}

// plainTexts are the last instructions in whose text no address is, so that it is the same wherever they are.
// Most places that change are such on one side, and these are of few kinds: NOPs of several lengths.
type plainTexts struct {
	insts [8]disasm.Inst
	next  int // the one to be replaced
}

// find returns the first instruction of code, which is at addr, if it is one of these.
func (t *plainTexts) find(code []byte, addr uint64) (disasm.Inst, bool) {
	for i := range t.insts {
		// Where instructions are words, none is at another address.
		if p := &t.insts[i]; len(p.Bytes) > 0 && p.Addr%4 == addr%4 && bytes.HasPrefix(code, p.Bytes) {
			in := *p
			in.Addr, in.Bytes = addr, code[:len(p.Bytes):len(p.Bytes)]
			return in, true
		}
	}
	return disasm.Inst{}, false
}

// note notes an instruction for whose text no name was asked for.
func (t *plainTexts) note(in *disasm.Inst) {
	if in.Data {
		return // code may have ended within an instruction
	}
	p := &t.insts[t.next]
	*p = *in
	p.Bytes = slices.Clone(in.Bytes)
	t.next = (t.next + 1) % len(t.insts)
}

// instsAt decodes the instructions of v in [addr, addr+n), the last one whole
// if the image has its bytes. If over is not nil, its bytes replace those of
// the image at addr. It returns nil if there are no bytes.
func (c *coder) instsAt(v timeline.View, addr, n uint64, over []byte) []disasm.Inst {
	if c.dis == nil {
		if over == nil {
			over = make([]byte, n)
			if v.Read(addr, over).Given < len(over) {
				return nil
			}
		}
		return c.decode(nil, over, v, addr)
	}
	buf := make([]byte, n+maxInsn-1)
	given := v.Read(addr, buf).Given
	if over != nil {
		copy(buf, over)
		if given < len(over) {
			// The bytes after them matter only if these bytes exist.
			given = len(over)
		}
	}
	if uint64(given) < n {
		return nil
	}
	return c.instsIn(make([]disasm.Inst, 0, 1), buf[:given], v, addr, n) // nearly always one
}

// instsIn appends the instructions in [addr, addr+n) of code, which is at addr at v's time, n bytes or more. The
// last one is whole if code has its bytes.
func (c *coder) instsIn(insts []disasm.Inst, code []byte, v timeline.View, addr, n uint64) []disasm.Inst {
	if c.dis == nil {
		return c.decode(insts, code[:n], v, addr)
	}
	for at := uint64(0); at < n; {
		in := c.next(code[at:], v, addr+at)
		insts = append(insts, in)
		at += uint64(len(in.Bytes))
	}
	return insts
}

// shown decodes code, which is at addr at v's time, as far as instsText shows it: all of it behind a trap.
func (c *coder) shown(v timeline.View, addr uint64, code []byte) []disasm.Inst {
	n := len(code)
	if c.dis != nil && n > 0 && code[0] != patching.INT3 {
		n = min(n, shownBytes)
	}
	return c.instsAt(v, addr, uint64(n), code[:min(len(code), n+maxInsn-1)])
}

// around decodes the function from its start and returns the instruction that
// contains addr, if it begins before addr. It gives up at a trap, because the
// rest of another instruction may follow, but not at the INT3s after a return or a
// jump: these are padding (CONFIG_SLS, apply_returns of arch/x86/kernel/alternative.c).
func (c *coder) around(v timeline.View, addr uint64) (disasm.Inst, bool) {
	const most = 1 << 16
	s, ok := v.Symbol(addr)
	if c.dis == nil || !ok || s.Addr == addr || addr-s.Addr > most {
		return disasm.Inst{}, false
	}
	code := make([]byte, addr-s.Addr+maxInsn-1)
	return c.containing(v, s.Addr, addr, code[:v.Read(s.Addr, code).Given])
}

// instBefore returns the bytes of v's text before addr of the instruction that contains addr, if
// over are the bytes at addr; nil if an instruction begins there, or if that is not known.
func (c *coder) instBefore(v timeline.View, addr uint64, over []byte) []byte {
	const most = 1 << 16
	s, ok := v.Symbol(addr)
	if c.dis == nil || !ok || addr-s.Addr > most {
		return nil
	}
	code := make([]byte, addr-s.Addr)
	if v.Read(s.Addr, code).Given < len(code) {
		return nil
	}
	after := make([]byte, maxInsn)
	after = after[:v.Read(addr+uint64(len(over)), after).Given]
	in, ok := c.containing(v, s.Addr, addr, slices.Concat(code, over, after))
	if !ok {
		return nil
	}
	return code[in.Addr-s.Addr:]
}

// containing decodes code, which begins at lo, and returns the instruction that contains addr, as
// around does.
func (c *coder) containing(v timeline.View, lo, addr uint64, code []byte) (disasm.Inst, bool) {
	padding := false
	for at := lo; at < addr && len(code) > 0; {
		in := c.next(code, v, at)
		switch {
		case in.Data:
			return disasm.Inst{}, false
		case in.Text != "int3":
			padding = in.Class == disasm.Return || in.Class == disasm.Jump || in.Class == disasm.IndirectJump
		case !padding || v.Image().LastChange(at, 1) != 0:
			return disasm.Inst{}, false
		}
		n := len(in.Bytes)
		if at += uint64(n); at > addr {
			return in, true
		}
		code = code[n:]
	}
	return disasm.Inst{}, false
}

// isNamed reports whether [MODULE:]NAME means this symbol.
func isNamed(symbol, module, name string) bool {
	m, n, qualified := timeline.SplitName(symbol)
	return n == name && (!qualified || m == module)
}

// symbolsNamed returns all symbols that [MODULE:]NAME means at the times of the
// views, once for each view. If there is none, the error is a
// *replay.QuestionError with similar names.
func symbolsNamed(r *replay.Replay, symbol string, views ...timeline.View) ([]timeline.Symbol, error) {
	var found []timeline.Symbol
	for _, v := range views {
		found = append(found, v.Lookup(symbol)...)
	}
	if len(found) == 0 {
		_, name, _ := timeline.SplitName(symbol)
		unknown := &replay.QuestionError{Text: symbol, Msg: "no symbol of this name"}
		r.ExplainName(unknown, name)
		return nil, unknown
	}
	return found, nil
}

// place is an address with its name, as the kernel prints it.
type place struct {
	name   string // "" if it has none
	module string
	offset uint64
}

func placeOf(v timeline.View, addr uint64) place {
	s, ok := v.Symbol(addr)
	if !ok {
		return place{}
	}
	return place{s.Name, s.Module, addr - s.Addr}
}

// String returns "symbol+0x10" or "symbol [module]", or "" if there is no name.
func (p place) String() string {
	s := p.name
	if p.offset != 0 {
		s += "+0x" + strconv.FormatUint(p.offset, 16)
	}
	if p.module != "" && p.module != "bpf" {
		s += " [" + p.module + "]"
	}
	return s
}

// spaced prints bytes as objdump does: "0f 1f 00".
func spaced(b []byte) string { return string(appendSpaced(make([]byte, 0, 64), b)) }

// appendSpaced appends what spaced returns.
func appendSpaced(out, b []byte) []byte {
	const digits = "0123456789abcdef"
	for i, x := range b {
		if i > 0 {
			out = append(out, ' ')
		}
		out = append(out, digits[x>>4], digits[x&15])
	}
	return out
}

// span prints the time between two times in a readable unit.
func span(from, to uint64) string { return numbers.Span(to-from, "us") }

// count prints a number and its unit, in the plural if needed: "1,211,440
// pokes".
func count[N int | uint64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	many := one + "s"
	switch last := len(one) - 1; {
	case one[last] == 'y':
		many = one[:last] + "ies"
	case one[last] == 's', strings.HasSuffix(one, "ch"):
		many = one + "es"
	}
	return thousands(n) + " " + many
}

func thousands[N int | uint64](n N) string {
	s := strconv.FormatUint(uint64(n), 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
