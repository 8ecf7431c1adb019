// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"bytes"
	"slices"
	"strings"
	"sync"

	"golang.org/x/arch/x86/x86asm"
)

// x86Encoding is an instruction that x86asm does not know, or whose operands
// it leaves out.
type x86Encoding struct {
	opmap  byte // as in x86Raw
	opcode byte
	prefix byte // 66, f2 or f3 where it is part of the opcode; 0 where none of them may be there; or anyPrefix
	modrm  modrmSet
	// name is the mnemonic, with those operands that are always the same. In it
	// ? means the letter l or q, ! means d or q, for operands of 32 or 64 bits.
	name string
	// args are the other operands in the order of AT&T syntax: r is the register
	// in r/m or else memory, g the register in reg, both of 64 bits with REX.W
	// and else 32, unless the size follows; y is a vector register in r/m or
	// else memory, x a vector register in reg, i an immediate byte.
	args string
}

// anyPrefix means that no prefix is part of the opcode: 66 makes operands of 16
// bits, f2 and f3 mean nothing.
const anyPrefix = 1

// modrmSet is a set of ModRM bytes.
type modrmSet struct {
	mask, value byte
	mem         bool // those whose operand is memory
	none        bool // the instruction has no such byte
}

func only(b byte) modrmSet         { return modrmSet{mask: 0xff, value: b} }
func regDigit(d byte) modrmSet     { return modrmSet{mask: 0xf8, value: 0xc0 | d<<3} }
func memDigit(d byte) modrmSet     { return modrmSet{mask: 0x38, value: d << 3, mem: true} }
func (s modrmSet) has(b byte) bool { return b&s.mask == s.value && !(s.mem && b >= 0xc0) }

var (
	noModRM  = modrmSet{none: true}
	anyModRM = modrmSet{}
	anyReg   = modrmSet{mask: 0xc0, value: 0xc0}
	anyMem   = modrmSet{mem: true}
)

// x86Encodings are from Intel's Software Developer's Manual, volume 2, and
// AMD's Architecture Programmer's Manual, volume 3; the mnemonics are those of
// GNU binutils. User-mode instructions are here where kernel text may hold them,
// and so are VEX encodings of which x86asm gets the length wrong.
var x86Encodings = []x86Encoding{
	// Groups 6 and 7: system instructions.
	{1, 0x00, 0xf2, regDigit(6), "lkgs", "r32"},
	{1, 0x00, 0xf2, memDigit(6), "lkgs", "r"},
	{1, 0x01, 0, only(0xc0), "enclv", ""},
	{1, 0x01, 0, only(0xc1), "vmcall", ""},
	{1, 0x01, 0, only(0xc2), "vmlaunch", ""},
	{1, 0x01, 0, only(0xc3), "vmresume", ""},
	{1, 0x01, 0, only(0xc4), "vmxoff", ""},
	{1, 0x01, 0, only(0xc5), "pconfig", ""},
	{1, 0x01, 0, only(0xc6), "wrmsrns", ""},
	{1, 0x01, 0xf2, only(0xc6), "rdmsrlist", ""},
	{1, 0x01, 0xf3, only(0xc6), "wrmsrlist", ""},
	{1, 0x01, 0, only(0xc8), "monitor %rax,%ecx,%edx", ""},
	{1, 0x01, 0, only(0xc9), "mwait %eax,%ecx", ""},
	{1, 0x01, 0, only(0xca), "clac", ""},
	{1, 0x01, 0xf2, only(0xca), "erets", ""},
	{1, 0x01, 0xf3, only(0xca), "eretu", ""},
	{1, 0x01, 0, only(0xcb), "stac", ""},
	{1, 0x01, 0x66, only(0xcc), "tdcall", ""},
	{1, 0x01, 0x66, only(0xcd), "seamret", ""},
	{1, 0x01, 0x66, only(0xce), "seamops", ""},
	{1, 0x01, 0, only(0xcf), "encls", ""},
	{1, 0x01, 0x66, only(0xcf), "seamcall", ""},
	{1, 0x01, 0, only(0xd4), "vmfunc", ""},
	{1, 0x01, 0, only(0xd5), "xend", ""},
	{1, 0x01, 0, only(0xd6), "xtest", ""},
	{1, 0x01, 0, only(0xd7), "enclu", ""},
	{1, 0x01, 0, only(0xd8), "vmrun", ""},
	{1, 0x01, 0, only(0xd9), "vmmcall", ""},
	{1, 0x01, 0xf2, only(0xd9), "vmgexit", ""},
	{1, 0x01, 0xf3, only(0xd9), "vmgexit", ""},
	{1, 0x01, 0, only(0xda), "vmload", ""},
	{1, 0x01, 0, only(0xdb), "vmsave", ""},
	{1, 0x01, 0, only(0xdc), "stgi", ""},
	{1, 0x01, 0, only(0xdd), "clgi", ""},
	{1, 0x01, 0, only(0xde), "skinit", ""},
	{1, 0x01, 0, only(0xdf), "invlpga", ""},
	{1, 0x01, 0, only(0xe8), "serialize", ""},
	{1, 0x01, 0xf2, only(0xe8), "xsusldtrk", ""},
	{1, 0x01, 0xf3, only(0xe8), "setssbsy", ""},
	{1, 0x01, 0xf2, only(0xe9), "xresldtrk", ""},
	{1, 0x01, 0xf3, only(0xea), "saveprevssp", ""},
	{1, 0x01, 0xf3, only(0xec), "uiret", ""},
	{1, 0x01, 0xf3, only(0xed), "testui", ""},
	{1, 0x01, 0, only(0xee), "rdpkru", ""},
	{1, 0x01, 0xf3, only(0xee), "clui", ""},
	{1, 0x01, 0, only(0xef), "wrpkru", ""},
	{1, 0x01, 0xf3, only(0xef), "stui", ""},
	{1, 0x01, 0, only(0xfa), "monitorx %rax,%ecx,%edx", ""},
	{1, 0x01, 0xf3, only(0xfa), "mcommit", ""},
	{1, 0x01, 0, only(0xfb), "mwaitx %eax,%ecx,%ebx", ""},
	{1, 0x01, 0, only(0xfc), "clzero", ""},
	{1, 0x01, 0, only(0xfd), "rdpru", ""},
	{1, 0x01, 0, only(0xfe), "invlpgb", ""},
	{1, 0x01, 0xf2, only(0xfe), "rmpupdate", ""},
	{1, 0x01, 0xf3, only(0xfe), "rmpadjust", ""},
	{1, 0x01, 0, only(0xff), "tlbsync", ""},
	{1, 0x01, 0xf2, only(0xff), "pvalidate", ""},
	{1, 0x01, 0xf3, only(0xff), "psmash", ""},
	{1, 0x01, 0xf3, memDigit(5), "rstorssp", "r"},

	{1, 0x09, 0xf3, noModRM, "wbnoinvd", ""},
	{1, 0x0d, 0, memDigit(0), "prefetch", "r"},
	{1, 0x0d, 0, memDigit(2), "prefetchwt1", "r"},
	{1, 0x1c, 0, memDigit(0), "cldemote", "r"},
	{1, 0x37, 0, noModRM, "getsec", ""},

	// Undefined on purpose. The kernel's WARN is an UD1 whose operands name what
	// to print (67 48 0f b9 3a in 7.2), its FineIBT jumps into an UDB.
	{0, 0xd6, anyPrefix, noModRM, "udb", ""},
	{1, 0xb9, anyPrefix, anyModRM, "ud1", "r,g"},
	{1, 0xff, anyPrefix, anyModRM, "ud0", "r,g"},

	// Control-flow enforcement.
	{1, 0x1e, 0xf3, only(0xfa), "endbr64", ""},
	{1, 0x1e, 0xf3, only(0xfb), "endbr32", ""},
	{1, 0x1e, 0xf3, regDigit(1), "rdssp!", "r"},
	{1, 0xae, 0xf3, regDigit(5), "incssp!", "r"},
	{1, 0xae, 0xf3, memDigit(6), "clrssbsy", "r"},
	{2, 0xf5, 0x66, anyMem, "wruss!", "g,r"},
	{2, 0xf6, 0, anyMem, "wrss!", "g,r"},

	// Virtual machine control structures.
	{1, 0x78, 0, anyReg, "vmread", "g64,r64"},
	{1, 0x78, 0, anyMem, "vmread", "g64,r"},
	{1, 0x79, 0, anyReg, "vmwrite", "r64,g64"},
	{1, 0x79, 0, anyMem, "vmwrite", "r,g64"},
	{1, 0xc7, 0, memDigit(6), "vmptrld", "r"},
	{1, 0xc7, 0x66, memDigit(6), "vmclear", "r"},
	{1, 0xc7, 0xf3, memDigit(6), "vmxon", "r"},
	{1, 0xc7, 0, memDigit(7), "vmptrst", "r"},
	{2, 0x80, 0x66, anyMem, "invept", "r,g64"},
	{2, 0x81, 0x66, anyMem, "invvpid", "r,g64"},

	// Group 15: caches, waiting, state.
	{1, 0xae, 0x66, memDigit(6), "clwb", "r"},
	{1, 0xae, 0x66, memDigit(7), "clflushopt", "r"},
	{1, 0xae, 0x66, regDigit(6), "tpause", "r32"},
	{1, 0xae, 0xf2, regDigit(6), "umwait", "r32"},
	{1, 0xae, 0xf3, regDigit(6), "umonitor", "r64"},
	{1, 0xae, 0xf3, regDigit(4), "ptwrite", "r"},
	{1, 0xae, 0xf3, memDigit(4), "ptwrite?", "r"},

	// Group 9: random numbers, ids, user interrupts.
	{1, 0xc7, 0, regDigit(6), "rdrand", "r"},
	{1, 0xc7, 0x66, regDigit(6), "rdrand", "r16"},
	{1, 0xc7, 0xf3, regDigit(6), "senduipi", "r64"},
	{1, 0xc7, 0, regDigit(7), "rdseed", "r"},
	{1, 0xc7, 0x66, regDigit(7), "rdseed", "r16"},
	{1, 0xc7, 0xf3, regDigit(7), "rdpid", "r64"},

	// Direct stores and work queues.
	{2, 0xf8, 0x66, anyMem, "movdir64b", "r,g64"},
	{2, 0xf8, 0xf2, anyMem, "enqcmd", "r,g64"},
	{2, 0xf8, 0xf3, anyMem, "enqcmds", "r,g64"},
	{2, 0xf9, 0, anyMem, "movdiri", "g,r"},
	{3, 0xf0, 0xf3, only(0xc0), "hreset", "i"},

	// Arithmetic of ciphers.
	{2, 0xf6, 0x66, anyModRM, "adcx", "r,g"},
	{2, 0xf6, 0xf3, anyModRM, "adox", "r,g"},
	{2, 0xcf, 0x66, anyModRM, "gf2p8mulb", "y,x"},
	{3, 0xce, 0x66, anyModRM, "gf2p8affineqb", "i,y,x"},
	{3, 0xcf, 0x66, anyModRM, "gf2p8affineinvqb", "i,y,x"},
	{2, 0xdc, 0xf3, anyReg, "loadiwkey", "y,x"},
	{2, 0xdc, 0xf3, anyMem, "aesenc128kl", "y,x"},
	{2, 0xdd, 0xf3, anyMem, "aesdec128kl", "y,x"},
	{2, 0xde, 0xf3, anyMem, "aesenc256kl", "y,x"},
	{2, 0xdf, 0xf3, anyMem, "aesdec256kl", "y,x"},
	{2, 0xfa, 0xf3, anyReg, "encodekey128", "r32,g32"},
	{2, 0xfb, 0xf3, anyReg, "encodekey256", "r32,g32"},
}

// x86Whole are the instructions with VEX prefixes that x86asm does not know or
// of which it gets the length wrong. They have one encoding each.
var x86Whole = []struct{ code, name string }{
	{"\xc5\xf8\x77", "vzeroupper"},
	{"\xc5\xfc\x77", "vzeroall"},
	{"\xc4\xe2\x78\x49\xc0", "tilerelease"},
}

type x86OpcodeKey struct{ opmap, opcode byte }

var x86ByOpcode = sync.OnceValue(func() map[x86OpcodeKey][]*x86Encoding {
	m := map[x86OpcodeKey][]*x86Encoding{}
	for i := range x86Encodings {
		e := &x86Encodings[i]
		k := x86OpcodeKey{e.opmap, e.opcode}
		m[k] = append(m[k], e)
	}
	return m
})

// fromTable decodes the instruction by the tables above. It returns the name
// separately, because the x86asm.Inst has no Op.
func (r *x86Raw) fromTable() (dec x86asm.Inst, name string, ok bool) {
	if r.vex != 0 {
		for _, w := range x86Whole {
			if bytes.HasPrefix(r.code[r.legacy:], []byte(w.code)) {
				return x86asm.Inst{Len: r.legacy + len(w.code)}, w.name, true
			}
		}
		return x86asm.Inst{}, "", false
	}
	if e, m := r.encoding(); e != nil {
		return r.encoded(e, m)
	}
	return x86asm.Inst{}, "", false
}

// encoding returns the row of the tables for an instruction without VEX, and what its ModRM byte
// says; nil if there is no row.
func (r *x86Raw) encoding() (*x86Encoding, x86Mem) {
	for _, e := range x86ByOpcode()[x86OpcodeKey{r.opmap, r.opcode}] {
		if e.prefix != anyPrefix && e.prefix != r.mandatory() {
			continue
		}
		if e.modrm.none {
			return e, x86Mem{end: r.modrm}
		}
		if m, ok := r.mem(); ok && e.modrm.has(r.code[r.modrm]) {
			return e, m
		}
	}
	return nil, x86Mem{}
}

// mandatory returns the prefix that selects among the instructions of an
// opcode.
func (r *x86Raw) mandatory() byte {
	switch {
	case r.rep != 0:
		return r.rep
	case r.data16:
		return 0x66
	}
	return 0
}

// encoded puts the operands of an instruction in the form of x86asm.
func (r *x86Raw) encoded(e *x86Encoding, m x86Mem) (x86asm.Inst, string, bool) {
	dec := x86asm.Inst{Len: m.end}
	word := e.prefix == anyPrefix && e.args != "" && r.data16 && r.rex&rexW == 0 // operands of 16 bits
	for i := r.legacy - 1; i >= 0; i-- {
		if c := r.code[i]; c == e.prefix || word && c == 0x66 {
			dec.Prefix[i] = x86asm.PrefixImplicit
			break
		}
	}
	var used byte // bits of the REX prefix
	if strings.ContainsAny(e.name, "?!") {
		used = rexW
	}
	reg := 0
	if !e.modrm.none {
		reg = int(r.code[r.modrm]>>3&7) | int(r.rex&rexR)<<1
	}
	var args []x86asm.Arg
	for arg := range strings.SplitSeq(e.args, ",") {
		if arg == "" {
			break
		}
		var first x86asm.Reg
		switch size := arg[1:]; {
		case size == "16", size == "" && word:
			first = x86asm.AX
		case size == "32", size == "" && r.rex&rexW == 0:
			first = x86asm.EAX
		default:
			first = x86asm.RAX
		}
		used |= usedREX(arg, &m)
		switch arg[0] {
		case 'r', 'y':
			switch {
			case !m.isReg:
				args = append(args, x86asm.Mem{})
			case arg[0] == 'y':
				args = append(args, x86asm.X0+x86asm.Reg(m.base))
			default:
				args = append(args, first+x86asm.Reg(m.base))
			}
		case 'g':
			args = append(args, first+x86asm.Reg(reg))
		case 'x':
			args = append(args, x86asm.X0+x86asm.Reg(reg))
		case 'i':
			if dec.Len >= len(r.code) {
				return x86asm.Inst{}, "", false
			}
			args = append(args, x86asm.Imm(r.code[dec.Len]))
			dec.Len++
		}
	}
	slices.Reverse(args) // to Intel's order
	copy(dec.Args[:], args)
	if r.rex&0xf != 0 && r.rex&0xf&^used == 0 {
		dec.Prefix[r.legacy] = x86asm.PrefixImplicit
	}
	sizes := strings.NewReplacer("?", "l", "!", "d")
	if r.rex&rexW != 0 {
		sizes = strings.NewReplacer("?", "q", "!", "q")
	}
	return dec, sizes.Replace(e.name), true
}

// usedREX returns the bits of a REX prefix that an operand of x86Encoding.args
// depends on, m being the ModRM byte.
func usedREX(arg string, m *x86Mem) (bits byte) {
	if len(arg) == 1 && (arg == "g" || arg == "r" && m.isReg) {
		bits = rexW
	}
	switch arg[0] {
	case 'g', 'x':
		bits |= rexR
	case 'r', 'y':
		bits |= rexB
		if m.hasSIB {
			bits |= rexX
		}
	}
	return bits
}
