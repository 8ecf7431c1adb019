// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/arch/x86/x86asm"
)

// x86Text writes an instruction that x86asm decoded in AT&T syntax.
//
// x86asm.GNUSyntax does that too, as binutils did it many years ago: callq and
// retq, immediates and displacements with odd signs, segment prefixes that
// 64-bit mode ignores as part of the operand. It is used only for AVX-512
// instructions with a rounding mode.
type x86Text struct {
	raw  *x86Raw
	dec  *x86asm.Inst
	name string // the mnemonic, if it does not come from dec.Op
	addr uint64
	sym  Symbolizer

	args   []x86asm.Arg // those to show, in Intel's order
	hasMem bool         // an operand is in memory
	mem    x86Mem       // what ModRM says of it
	rip    bool         // it is relative to RIP

	usesData16 bool // the operand-size prefix is in the text, though x86asm does not say so
	usesSeg    bool // fs or gs is in the text, in an operand
	hinted     bool // a segment prefix is in the text as a branch hint
}

// inst returns the instruction.
func (f *x86Text) inst() Inst {
	inst := Inst{Addr: f.addr, Bytes: f.raw.code[:f.dec.Len:f.dec.Len]}
	end := f.addr + uint64(f.dec.Len)

	if f.dec.SAE {
		// Kernels have no use for rounding modes.
		inst.Text = x86asm.GNUSyntax(*f.dec, f.addr, nil)
		return inst
	}
	for _, a := range f.args {
		if _, ok := a.(x86asm.Mem); ok {
			f.hasMem = true
		}
	}
	if f.hasMem {
		f.mem, _ = f.raw.mem()
	}
	name := f.name
	if name == "" {
		name = f.mnemonic()
	}

	var ops []byte
	mask := f.mask()
	for i := range f.args {
		j := len(f.args) - 1 - i
		if f.dec.Op == x86asm.ENTER { // the one that keeps Intel's order
			j = i
		}
		if mask && j == 1 { // shown with the destination
			continue
		}
		if len(ops) > 0 {
			ops = append(ops, ',')
		}
		if rel, ok := f.args[j].(x86asm.Rel); ok {
			inst.Target, inst.HasTarget = end+uint64(int64(rel)), true
			ops = appendAddr(ops, inst.Target, f.sym)
			continue
		}
		ops = f.appendArg(ops, j)
		if mask && j == 0 {
			ops = append(ops, '{')
			ops = f.appendArg(ops, 1)
			ops = append(ops, '}')
		}
		if j == 0 && f.dec.Zeroing {
			ops = append(ops, "{z}"...)
		}
	}

	b := f.appendPrefixes(make([]byte, 0, 64))
	b = append(b, name...)
	if len(ops) > 0 {
		b = append(b, ' ')
		b = append(b, ops...)
	}
	if f.rip {
		place := end + uint64(f.mem.disp)
		if f.raw.addr32 {
			place = uint64(uint32(place))
		}
		b = append(b, "  # "...)
		b = appendAddr(b, place, f.sym)
	}
	inst.Text = string(b)
	return inst
}

// x86Renamed are the mnemonics that AT&T syntax spells in another way than
// Intel's manuals.
var x86Renamed = sync.OnceValue(func() map[x86asm.Op]string {
	return map[x86asm.Op]string{
		x86asm.CBW: "cbtw", x86asm.CWDE: "cwtl", x86asm.CDQE: "cltq",
		x86asm.CWD: "cwtd", x86asm.CDQ: "cltd", x86asm.CQO: "cqto",
		x86asm.PUSHF: "pushfw", x86asm.PUSHFQ: "pushf",
		x86asm.POPF: "popfw", x86asm.POPFQ: "popf",
		x86asm.IRET: "iretw", x86asm.IRETD: "iret",
		x86asm.CMPSD: "cmpsl", x86asm.CMPSD_XMM: "cmpsd",
		x86asm.MOVSD: "movsl", x86asm.MOVSD_XMM: "movsd",
		x86asm.INSD: "insl", x86asm.OUTSD: "outsl",
		x86asm.LODSB: "lods", x86asm.LODSW: "lods", x86asm.LODSD: "lods", x86asm.LODSQ: "lods",
		x86asm.SCASB: "scas", x86asm.SCASW: "scas", x86asm.SCASD: "scas", x86asm.SCASQ: "scas",
		x86asm.STOSB: "stos", x86asm.STOSW: "stos", x86asm.STOSD: "stos", x86asm.STOSQ: "stos",
		x86asm.ICEBP: "int1", x86asm.XLATB: "xlat",
	}
})

// x86Sized are the instructions that need a suffix for the size of a memory
// operand where no register shows it.
var x86Sized = sync.OnceValue(func() map[x86asm.Op]bool {
	m := map[x86asm.Op]bool{}
	for _, op := range []x86asm.Op{
		x86asm.ADC, x86asm.ADD, x86asm.AND, x86asm.BT, x86asm.BTC, x86asm.BTR, x86asm.BTS,
		x86asm.CMP, x86asm.CRC32, x86asm.CVTSI2SD, x86asm.CVTSI2SS, x86asm.DEC, x86asm.DIV, x86asm.IDIV, x86asm.IMUL,
		x86asm.INC, x86asm.MOV, x86asm.MUL, x86asm.NEG, x86asm.NOP, x86asm.NOT, x86asm.OR,
		x86asm.RCL, x86asm.RCR, x86asm.ROL, x86asm.ROR, x86asm.SAR, x86asm.SBB, x86asm.SHL, x86asm.SHR,
		x86asm.SUB, x86asm.TEST, x86asm.VCVTSI2SD, x86asm.VCVTSI2SS, x86asm.XOR,
	} {
		m[op] = true
	}
	return m
})

// sizeSuffix is AT&T's letter for an operand of that many bytes.
func sizeSuffix(bytes int) string {
	switch bytes {
	case 1:
		return "b"
	case 2:
		return "w"
	case 4:
		return "l"
	case 8:
		return "q"
	}
	return ""
}

// mnemonic returns the instruction's name. It drops operands that the name
// says.
func (f *x86Text) mnemonic() string {
	op := f.dec.Op
	name, ok := x86Renamed()[op]
	if !ok {
		name = strings.ToLower(op.String())
	}
	raw := f.raw
	switch op {
	case x86asm.INT:
		if raw.opcode == 0xcc {
			f.args = nil
			return "int3"
		}
	case x86asm.NOP:
		if raw.opmap == 0 && raw.data16 {
			// The padding that compilers know as a 2-byte NOP.
			f.args = []x86asm.Arg{x86asm.AX, x86asm.AX}
			f.usesData16 = true
			return "xchg"
		}
	case x86asm.MOV:
		if raw.opmap == 0 && (raw.rex&rexW != 0 && raw.opcode&0xf8 == 0xb8 || raw.opcode&0xfc == 0xa0) {
			return "movabs"
		}
	case x86asm.MOVZX, x86asm.MOVSX:
		return name[:4] + sizeSuffix(f.argSize(1)) + sizeSuffix(f.argSize(0))
	case x86asm.MOVSXD:
		if raw.rex&rexW != 0 {
			return "movslq"
		}
	case x86asm.RCL, x86asm.RCR, x86asm.ROL, x86asm.ROR, x86asm.SAR, x86asm.SHL, x86asm.SHR:
		if raw.opcode == 0xd0 || raw.opcode == 0xd1 { // by 1, which goes without saying
			f.args = f.args[:1]
		}
	case x86asm.LRET:
		if raw.rex&rexW != 0 {
			return "lretq"
		}
	case x86asm.SYSRET, x86asm.SYSEXIT:
		if raw.rex&rexW != 0 {
			return name + "q"
		}
		return name + "l"
	case x86asm.PUSH, x86asm.POP:
		if _, isReg := f.args[0].(x86asm.Reg); raw.data16 && !isReg {
			f.usesData16 = true
			return name + "w"
		}
	case x86asm.JA, x86asm.JAE, x86asm.JB, x86asm.JBE, x86asm.JE, x86asm.JG, x86asm.JGE, x86asm.JL, x86asm.JLE,
		x86asm.JNE, x86asm.JNO, x86asm.JNP, x86asm.JNS, x86asm.JO, x86asm.JP, x86asm.JS:
		return name + f.hint()
	case x86asm.CMPPS, x86asm.CMPPD, x86asm.CMPSS, x86asm.CMPSD_XMM,
		x86asm.VCMPPS, x86asm.VCMPPD, x86asm.VCMPSS, x86asm.VCMPSD:
		// cmpps $0 is cmpeqps.
		last := len(f.args) - 1
		if imm, ok := f.args[last].(x86asm.Imm); ok && imm >= 0 && int(imm) < len(cmpPredicates) {
			f.args = f.args[:last]
			at := strings.Index(name, "cmp") + len("cmp")
			return name[:at] + cmpPredicates[imm] + name[at:]
		}
	case x86asm.PCLMULQDQ, x86asm.VPCLMULQDQ:
		// pclmulqdq $0x11 multiplies the high halves of both: pclmulhqhqdq.
		last := len(f.args) - 1
		if imm, ok := f.args[last].(x86asm.Imm); ok && imm&^0x11 == 0 {
			f.args = f.args[:last]
			half := [2]string{"lq", "hq"}
			return strings.TrimSuffix(name, "qdq") + half[imm&1] + half[imm>>4] + "dq"
		}
	}
	if !f.hasMem {
		if raw.opmap == 0 && raw.opcode >= 0xd8 && raw.opcode <= 0xdf {
			return x87Swapped(name, raw)
		}
		return name
	}
	switch {
	case x86Sized()[op] && !f.registerTellsSize():
		return name + sizeSuffix(f.dec.MemBytes)
	case raw.opmap == 0 && raw.opcode >= 0xd8 && raw.opcode <= 0xdf:
		return name + x87Suffix(op, f.dec.MemBytes)
	}
	return name
}

var cmpPredicates = [...]string{"eq", "lt", "le", "unord", "neq", "nlt", "nle", "ord"}

// x87Swapped exchanges fsub and fsubr, fdiv and fdivr, where their destination
// is not the top of the stack: an error of old assemblers that AT&T syntax keeps.
func x87Swapped(name string, raw *x86Raw) string {
	if raw.opcode != 0xdc && raw.opcode != 0xde || !strings.HasPrefix(name, "fsub") && !strings.HasPrefix(name, "fdiv") {
		return name
	}
	base, p := name, ""
	if raw.opcode == 0xde {
		base, p = strings.TrimSuffix(name, "p"), "p"
	}
	if r, ok := strings.CutSuffix(base, "r"); ok {
		return r + p
	}
	return base + "r" + p
}

// x87Suffix returns the suffix of a floating-point instruction with a memory
// operand: s, l and t for floating-point numbers of 4, 8 and 10 bytes, s, l and
// ll for integers of 2, 4 and 8.
func x87Suffix(op x86asm.Op, size int) string {
	switch op {
	case x86asm.FILD, x86asm.FIST, x86asm.FISTP, x86asm.FISTTP, x86asm.FIADD, x86asm.FIMUL, x86asm.FICOM,
		x86asm.FICOMP, x86asm.FISUB, x86asm.FISUBR, x86asm.FIDIV, x86asm.FIDIVR:
		switch size {
		case 2:
			return "s"
		case 4:
			return "l"
		}
		return "ll"
	case x86asm.FLD, x86asm.FST, x86asm.FSTP, x86asm.FADD, x86asm.FMUL, x86asm.FCOM, x86asm.FCOMP,
		x86asm.FSUB, x86asm.FSUBR, x86asm.FDIV, x86asm.FDIVR:
		switch size {
		case 4:
			return "s"
		case 8:
			return "l"
		}
		return "t"
	}
	return ""
}

// registerTellsSize reports whether an operand is a register as wide as the
// memory operand. The register of a shift's count is not.
func (f *x86Text) registerTellsSize() bool {
	for i, a := range f.args {
		r, ok := a.(x86asm.Reg)
		if !ok {
			continue
		}
		switch f.dec.Op {
		case x86asm.RCL, x86asm.RCR, x86asm.ROL, x86asm.ROR, x86asm.SAR, x86asm.SHL, x86asm.SHR:
			if i == 1 {
				continue
			}
		case x86asm.CRC32:
			continue // its destination is always 4 or 8 bytes wide
		case x86asm.CVTSI2SD, x86asm.CVTSI2SS, x86asm.VCVTSI2SD, x86asm.VCVTSI2SS:
			if r >= x86asm.X0 && r <= x86asm.X31 {
				continue
			}
		}
		return true
	}
	return false
}

// argSize returns the size of an operand in bytes, 0 if it has none.
func (f *x86Text) argSize(i int) int {
	switch a := f.args[i].(type) {
	case x86asm.Mem:
		return f.dec.MemBytes
	case x86asm.Reg:
		switch {
		case a >= x86asm.AL && a <= x86asm.R15B:
			return 1
		case a >= x86asm.AX && a <= x86asm.R15W:
			return 2
		case a >= x86asm.EAX && a <= x86asm.R15L:
			return 4
		case a >= x86asm.RAX && a <= x86asm.R15:
			return 8
		}
	}
	return 0
}

// hint returns the suffix of a conditional branch with a prefix that predicts
// it, the last of them.
func (f *x86Text) hint() string {
	for i := f.raw.legacy - 1; i >= 0; i-- {
		switch f.raw.code[i] {
		case 0x2e:
			f.hinted = true
			return ",pn"
		case 0x3e:
			f.hinted = true
			return ",pt"
		}
	}
	return ""
}

// mask reports whether the second operand is an EVEX instruction's mask.
func (f *x86Text) mask() bool {
	if f.raw.vex != 0x62 || f.raw.code[f.raw.legacy+3]&7 == 0 || len(f.args) < 2 {
		return false
	}
	r, ok := f.args[1].(x86asm.Reg)
	return ok && r >= x86asm.K1 && r <= x86asm.K7
}

// appendArg appends operand i.
func (f *x86Text) appendArg(b []byte, i int) []byte {
	switch a := f.args[i].(type) {
	case x86asm.Reg:
		switch f.dec.Op {
		case x86asm.CALL, x86asm.JMP:
			b = append(b, '*')
		case x86asm.IN, x86asm.INSB, x86asm.INSW, x86asm.INSD, x86asm.OUT, x86asm.OUTSB, x86asm.OUTSW, x86asm.OUTSD:
			if a == x86asm.DX {
				return append(b, "(%dx)"...)
			}
		case x86asm.LAR, x86asm.LSL:
			// The selector is shown as wide as the result.
			if i == 1 && a >= x86asm.EAX && a <= x86asm.R15L && f.argSize(0) == 8 {
				a += x86asm.RAX - x86asm.EAX
			}
		}
		return append(b, x86Registers()[a]...)
	case x86asm.Mem:
		switch f.dec.Op {
		case x86asm.CALL, x86asm.JMP, x86asm.LCALL, x86asm.LJMP:
			b = append(b, '*')
		}
		return f.appendMem(b, a)
	case x86asm.Imm:
		b = append(b, "$0x"...)
		return strconv.AppendUint(b, uint64(a)&f.immMask(i), 16)
	}
	return b
}

// immMask returns which bits of immediate operand i are shown. Immediates are
// unsigned numbers as wide as the operand that they are combined with, and else
// bytes.
func (f *x86Text) immMask(i int) uint64 {
	const mask8, mask16, mask32, mask64 = 1<<8 - 1, 1<<16 - 1, 1<<32 - 1, 1<<64 - 1
	switch f.dec.Op {
	case x86asm.ADC, x86asm.ADD, x86asm.AND, x86asm.CMP, x86asm.IMUL, x86asm.MOV, x86asm.OR,
		x86asm.SBB, x86asm.SUB, x86asm.TEST, x86asm.XOR:
		switch f.argSize(0) {
		case 1:
			return mask8
		case 2:
			return mask16
		case 4:
			return mask32
		}
		return mask64
	case x86asm.PUSH:
		if f.raw.data16 {
			return mask16
		}
		return mask64
	case x86asm.RET, x86asm.LRET:
		return mask16
	case x86asm.ENTER:
		if i == 0 {
			return mask16
		}
	}
	return mask8
}

// appendMem appends a memory operand.
func (f *x86Text) appendMem(b []byte, a x86asm.Mem) []byte {
	raw := f.raw
	switch f.dec.Op {
	case x86asm.CMPSB, x86asm.CMPSW, x86asm.CMPSD, x86asm.CMPSQ, x86asm.INSB, x86asm.INSW, x86asm.INSD,
		x86asm.LODSB, x86asm.LODSW, x86asm.LODSD, x86asm.LODSQ, x86asm.MOVSB, x86asm.MOVSW, x86asm.MOVSD, x86asm.MOVSQ,
		x86asm.OUTSB, x86asm.OUTSW, x86asm.OUTSD, x86asm.SCASB, x86asm.SCASW, x86asm.SCASD, x86asm.SCASQ,
		x86asm.STOSB, x86asm.STOSW, x86asm.STOSD, x86asm.STOSQ, x86asm.XLATB:
		// String instructions name the segments that they use.
		seg := "%es:"
		switch a.Base {
		case x86asm.ESI, x86asm.RSI, x86asm.EBX, x86asm.RBX:
			seg = "%ds:"
			if raw.seg != 0 {
				seg = f.segment()
			}
		}
		b = append(b, seg...)
		b = append(b, '(')
		b = append(b, x86Registers()[a.Base]...)
		return append(b, ')')
	}

	b = append(b, f.segment()...)
	if raw.opmap == 0 && raw.vex == 0 && raw.opcode&0xfc == 0xa0 {
		// mov between the accumulator and an address of 64 bits
		b = append(b, "0x"...)
		return strconv.AppendUint(b, uint64(a.Disp), 16)
	}
	m := f.mem
	if raw.vex == 0x62 {
		m.disp = a.Disp // in units of the memory operand
	}
	names := x86asm.RAX
	if raw.addr32 {
		names = x86asm.EAX
	}
	if m.base == noBase && m.index == noIndex && !m.riz {
		abs := uint64(m.disp)
		if raw.addr32 {
			abs = uint64(uint32(abs))
		}
		b = append(b, "0x"...)
		return strconv.AppendUint(b, abs, 16)
	}
	if m.hasDisp {
		disp := uint64(m.disp)
		if m.disp < 0 {
			b = append(b, '-')
			disp = -disp
		}
		b = append(b, "0x"...)
		b = strconv.AppendUint(b, disp, 16)
	}
	b = append(b, '(')
	switch m.base {
	case noBase:
	case ripBase:
		f.rip = true
		if raw.addr32 {
			b = append(b, "%eip"...)
		} else {
			b = append(b, "%rip"...)
		}
	default:
		b = append(b, x86Registers()[names+x86asm.Reg(m.base)]...)
	}
	switch {
	case a.Index >= x86asm.X0 && a.Index <= x86asm.Z31: // a vector of indices
		b = append(b, ',')
		b = append(b, x86Registers()[a.Index]...)
	case m.index != noIndex:
		b = append(b, ',')
		b = append(b, x86Registers()[names+x86asm.Reg(m.index)]...)
	case m.riz && raw.addr32:
		b = append(b, ",%eiz"...)
	case m.riz:
		b = append(b, ",%riz"...)
	default:
		return f.appendBroadcast(append(b, ')'))
	}
	b = append(b, ',')
	b = strconv.AppendInt(b, int64(m.scale), 10)
	return f.appendBroadcast(append(b, ')'))
}

// appendBroadcast appends to a memory operand of EVEX how often it is repeated.
func (f *x86Text) appendBroadcast(b []byte) []byte {
	if !f.dec.Broadcast || f.dec.MemBytes == 0 {
		return b
	}
	vector := 16 << (f.raw.code[f.raw.legacy+3] >> 5 & 3)
	b = append(b, "{1to"...)
	b = strconv.AppendInt(b, int64(vector/f.dec.MemBytes), 10)
	return append(b, '}')
}

// segment returns what a segment prefix adds to a memory operand.
func (f *x86Text) segment() string {
	switch f.raw.seg {
	case 0x64:
		f.usesSeg = true
		return "%fs:"
	case 0x65:
		f.usesSeg = true
		return "%gs:"
	}
	return ""
}

// appendPrefixes appends the prefixes that the rest of the text does not say,
// in the order of the code.
func (f *x86Text) appendPrefixes(b []byte) []byte {
	raw := f.raw
	last := func(i int, same ...byte) bool {
		return !slices.ContainsFunc(raw.code[i+1:raw.legacy], func(c byte) bool { return slices.Contains(same, c) })
	}
	for i := range raw.legacy {
		c := raw.code[i]
		used := f.dec.Prefix[i]&x86asm.PrefixImplicit != 0
		switch c {
		case 0x26:
			b = append(b, "es "...)
		case 0x36:
			b = append(b, "ss "...)
		case 0x2e, 0x3e:
			switch {
			case f.hinted && last(i, 0x2e, 0x3e):
			case c == 0x2e:
				b = append(b, "cs "...)
			case f.isIndirect():
				b = append(b, "notrack "...)
			default:
				b = append(b, "ds "...)
			}
		case 0x64, 0x65:
			switch {
			case f.usesSeg && last(i, 0x64, 0x65):
			case c == 0x64:
				b = append(b, "fs "...)
			default:
				b = append(b, "gs "...)
			}
		case 0x66:
			if !used && !(f.usesData16 && last(i, 0x66)) {
				b = append(b, "data16 "...)
			}
		case 0x67:
			if !f.hasMem && f.dec.Op != x86asm.JECXZ || !last(i, 0x67) {
				b = append(b, "addr32 "...)
			}
		case 0xf0:
			b = append(b, "lock "...)
		case 0xf2, 0xf3:
			if !used {
				b = append(b, f.repeat(c)...)
			}
		}
	}
	usesRex := f.dec.Prefix[min(raw.legacy, len(f.dec.Prefix)-1)]&x86asm.PrefixImplicit != 0
	switch f.dec.Op {
	case x86asm.LRET, x86asm.SYSRET, x86asm.SYSEXIT:
		usesRex = true
	}
	if raw.rex != 0 && raw.vex == 0 && !usesRex {
		b = append(b, "rex"...)
		for i, letter := range []byte("WRXB") {
			if raw.rex&(rexW>>i) != 0 {
				if i == 0 || raw.rex&0xf>>(4-i) == 0 {
					b = append(b, '.')
				}
				b = append(b, letter)
			}
		}
		b = append(b, ' ')
	}
	return b
}

// isIndirect reports whether the instruction is an indirect near call or jump.
// With the prefix 3e, its target needs no endbr64.
func (f *x86Text) isIndirect() bool {
	if f.dec.Op != x86asm.CALL && f.dec.Op != x86asm.JMP {
		return false
	}
	_, direct := f.args[0].(x86asm.Rel)
	return !direct
}

// repeat names the prefix f2 or f3 as it works on the instruction.
func (f *x86Text) repeat(prefix byte) string {
	switch f.dec.Op {
	case x86asm.INSB, x86asm.INSW, x86asm.INSD, x86asm.LODSB, x86asm.LODSW, x86asm.LODSD, x86asm.LODSQ,
		x86asm.MOVSB, x86asm.MOVSW, x86asm.MOVSD, x86asm.MOVSQ, x86asm.OUTSB, x86asm.OUTSW, x86asm.OUTSD,
		x86asm.STOSB, x86asm.STOSW, x86asm.STOSD, x86asm.STOSQ:
		if prefix == 0xf3 {
			return "rep "
		}
	case x86asm.CALL, x86asm.JMP, x86asm.RET,
		x86asm.JA, x86asm.JAE, x86asm.JB, x86asm.JBE, x86asm.JE, x86asm.JG, x86asm.JGE, x86asm.JL, x86asm.JLE,
		x86asm.JNE, x86asm.JNO, x86asm.JNP, x86asm.JNS, x86asm.JO, x86asm.JP, x86asm.JS:
		if prefix == 0xf2 {
			return "bnd "
		}
	}
	if prefix == 0xf2 {
		return "repnz "
	}
	return "repz "
}

// x86Registers are the names of x86asm's registers in AT&T syntax.
var x86Registers = sync.OnceValue(func() *[256]string {
	names := new([256]string)
	number := func(first x86asm.Reg, n int, prefix string) {
		for i := range n {
			names[int(first)+i] = prefix + strconv.Itoa(i)
		}
	}
	list := func(first x86asm.Reg, s string) {
		for i, name := range strings.Fields(s) {
			names[int(first)+i] = "%" + name
		}
	}
	list(x86asm.AL, "al cl dl bl ah ch dh bh spl bpl sil dil r8b r9b r10b r11b r12b r13b r14b r15b")
	list(x86asm.AX, "ax cx dx bx sp bp si di r8w r9w r10w r11w r12w r13w r14w r15w")
	list(x86asm.EAX, "eax ecx edx ebx esp ebp esi edi r8d r9d r10d r11d r12d r13d r14d r15d")
	list(x86asm.RAX, "rax rcx rdx rbx rsp rbp rsi rdi r8 r9 r10 r11 r12 r13 r14 r15")
	list(x86asm.F0, "st st(1) st(2) st(3) st(4) st(5) st(6) st(7)")
	list(x86asm.ES, "es cs ss ds fs gs")
	number(x86asm.M0, 8, "%mm")
	number(x86asm.X0, 32, "%xmm")
	number(x86asm.Y0, 32, "%ymm")
	number(x86asm.Z0, 32, "%zmm")
	number(x86asm.K0, 8, "%k")
	number(x86asm.CR0, 16, "%cr")
	number(x86asm.DR0, 16, "%db")
	return names
})
