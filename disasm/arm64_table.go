// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// a64Entries are from the Arm Architecture Reference Manual (DDI 0487),
// chapters C6 to C8: instructions that arm64asm does not know, or only as a
// hint or a number. An entry comes before those that it is a special case of.
// Operands are, in addition to the numbers of encoding,
//
//	%w %x %s  general register of 32 or 64 bits; of 64 bits where 31 is sp
//	%v %q     vector register; the same as a whole
//	%z %p     vector and predicate register of SVE
//	%l        ", #", a signed number counted in vectors, and ", mul vl"; nothing
//	          if it is 0. It is in bits 16 to 21 and 10 to 12.
//
// A + before the bit's number means the register after that one.
var a64Entries = []encoding{
	{0xffff0000, 0x00000000, "udf #%u0:16"},
	{0xffe0001f, 0xd4000002, "hvc #%h5:16"},
	{0xffe0001f, 0xd4000003, "smc #%h5:16"},

	// Hints.
	{0xffffffff, 0xd50320ff, "xpaclri"},
	{0xffffffff, 0xd503211f, "pacia1716"},
	{0xffffffff, 0xd503215f, "pacib1716"},
	{0xffffffff, 0xd503219f, "autia1716"},
	{0xffffffff, 0xd50321df, "autib1716"},
	{0xffffffff, 0xd503221f, "esb"},
	{0xffffffff, 0xd503223f, "psb csync"},
	{0xffffffff, 0xd503225f, "tsb csync"},
	{0xffffffff, 0xd503229f, "csdb"},
	{0xffffffff, 0xd50322df, "clearbhb"},
	{0xffffffff, 0xd503231f, "paciaz"},
	{0xffffffff, 0xd503233f, "paciasp"},
	{0xffffffff, 0xd503235f, "pacibz"},
	{0xffffffff, 0xd503237f, "pacibsp"},
	{0xffffffff, 0xd503239f, "autiaz"},
	{0xffffffff, 0xd50323bf, "autiasp"},
	{0xffffffff, 0xd50323df, "autibz"},
	{0xffffffff, 0xd50323ff, "autibsp"},
	{0xffffffff, 0xd503241f, "bti"},
	{0xffffffff, 0xd503245f, "bti c"},
	{0xffffffff, 0xd503249f, "bti j"},
	{0xffffffff, 0xd50324df, "bti jc"},

	// Barriers and waiting.
	{0xffffffff, 0xd503309f, "ssbb"},
	{0xffffffff, 0xd503349f, "pssbb"},
	{0xffffffff, 0xd50330ff, "sb"},
	{0xffffffff, 0xd503323f, "dsb oshnxs"},
	{0xffffffff, 0xd503363f, "dsb nshnxs"},
	{0xffffffff, 0xd5033a3f, "dsb ishnxs"},
	{0xffffffff, 0xd5033e3f, "dsb synxs"},
	{0xffffffe0, 0xd5031000, "wfet %x0"},
	{0xffffffe0, 0xd5031020, "wfit %x0"},

	// Fields of PSTATE.
	{0xfffffeff, 0xd500407f, "msr uao, #%h8:1"},
	{0xfffffeff, 0xd500409f, "msr pan, #%h8:1"},
	{0xfffffeff, 0xd501401f, "msr allint, #%h8:1"},
	{0xfffffeff, 0xd503403f, "msr ssbs, #%h8:1"},
	{0xfffffeff, 0xd503405f, "msr dit, #%h8:1"},
	{0xfffffeff, 0xd503409f, "msr tco, #%h8:1"},
	{0xffffffff, 0xd503427f, "smstop sm"},
	{0xffffffff, 0xd503437f, "smstart sm"},
	{0xffffffff, 0xd503447f, "smstop za"},
	{0xffffffff, 0xd503457f, "smstart za"},
	{0xffffffff, 0xd503467f, "smstop"},
	{0xffffffff, 0xd503477f, "smstart"},
	{0xffffffff, 0xd500401f, "cfinv"},
	{0xffffffff, 0xd500403f, "xaflag"},
	{0xffffffff, 0xd500405f, "axflag"},
	{0xffe07c10, 0xba000400, "rmif %x5, #%u15:6, #%u0:4"},
	{0xfffffc1f, 0x3a00080d, "setf8 %w5"},
	{0xfffffc1f, 0x3a00480d, "setf16 %w5"},

	// Pointer authentication.
	{0xffffffff, 0xd65f0bff, "retaa"},
	{0xffffffff, 0xd65f0fff, "retab"},
	{0xffffffff, 0xd69f0bff, "eretaa"},
	{0xffffffff, 0xd69f0fff, "eretab"},
	{0xfffffc1f, 0xd61f081f, "braaz %x5"},
	{0xfffffc1f, 0xd61f0c1f, "brabz %x5"},
	{0xfffffc1f, 0xd63f081f, "blraaz %x5"},
	{0xfffffc1f, 0xd63f0c1f, "blrabz %x5"},
	{0xfffffc00, 0xd71f0800, "braa %x5, %s0"},
	{0xfffffc00, 0xd71f0c00, "brab %x5, %s0"},
	{0xfffffc00, 0xd73f0800, "blraa %x5, %s0"},
	{0xfffffc00, 0xd73f0c00, "blrab %x5, %s0"},
	{0xfffffc00, 0xdac10000, "pacia %x0, %s5"},
	{0xfffffc00, 0xdac10400, "pacib %x0, %s5"},
	{0xfffffc00, 0xdac10800, "pacda %x0, %s5"},
	{0xfffffc00, 0xdac10c00, "pacdb %x0, %s5"},
	{0xfffffc00, 0xdac11000, "autia %x0, %s5"},
	{0xfffffc00, 0xdac11400, "autib %x0, %s5"},
	{0xfffffc00, 0xdac11800, "autda %x0, %s5"},
	{0xfffffc00, 0xdac11c00, "autdb %x0, %s5"},
	{0xffffffe0, 0xdac123e0, "paciza %x0"},
	{0xffffffe0, 0xdac127e0, "pacizb %x0"},
	{0xffffffe0, 0xdac12be0, "pacdza %x0"},
	{0xffffffe0, 0xdac12fe0, "pacdzb %x0"},
	{0xffffffe0, 0xdac133e0, "autiza %x0"},
	{0xffffffe0, 0xdac137e0, "autizb %x0"},
	{0xffffffe0, 0xdac13be0, "autdza %x0"},
	{0xffffffe0, 0xdac13fe0, "autdzb %x0"},
	{0xffffffe0, 0xdac143e0, "xpaci %x0"},
	{0xffffffe0, 0xdac147e0, "xpacd %x0"},
	{0xffe0fc00, 0x9ac03000, "pacga %x0, %x5, %s16"},

	// Memory tagging.
	{0xfffffc00, 0x9adf1000, "irg %s0, %s5"},
	{0xffe0fc00, 0x9ac01000, "irg %s0, %s5, %x16"},
	{0xffe0fc00, 0x9ac01400, "gmi %x0, %s5, %x16"},
	{0xffe0fc00, 0x9ac00000, "subp %x0, %s5, %s16"},
	{0xffe0fc1f, 0xbac0001f, "cmpp %s5, %s16"},
	{0xffe0fc00, 0xbac00000, "subps %x0, %s5, %s16"},
	{0xffc0c000, 0x91800000, "addg %s0, %s5, #%h16:6*16, #%h10:4"},
	{0xffc0c000, 0xd1800000, "subg %s0, %s5, #%h16:6*16, #%h10:4"},
	{0xfffffc00, 0xd9200000, "stzgm %x0, [%s5]"},
	{0xfffffc00, 0xd9a00000, "stgm %x0, [%s5]"},
	{0xfffffc00, 0xd9e00000, "ldgm %x0, [%s5]"},
	{0xffe00c00, 0xd9600000, "ldg %x0, [%s5%o12:9*16]"},
	{0xffe00c00, 0xd9200400, "stg %s0, [%s5], #%d12:9*16"},
	{0xffe00c00, 0xd9200800, "stg %s0, [%s5%o12:9*16]"},
	{0xffe00c00, 0xd9200c00, "stg %s0, [%s5, #%d12:9*16]!"},
	{0xffe00c00, 0xd9600400, "stzg %s0, [%s5], #%d12:9*16"},
	{0xffe00c00, 0xd9600800, "stzg %s0, [%s5%o12:9*16]"},
	{0xffe00c00, 0xd9600c00, "stzg %s0, [%s5, #%d12:9*16]!"},
	{0xffe00c00, 0xd9a00400, "st2g %s0, [%s5], #%d12:9*16"},
	{0xffe00c00, 0xd9a00800, "st2g %s0, [%s5%o12:9*16]"},
	{0xffe00c00, 0xd9a00c00, "st2g %s0, [%s5, #%d12:9*16]!"},
	{0xffe00c00, 0xd9e00400, "stz2g %s0, [%s5], #%d12:9*16"},
	{0xffe00c00, 0xd9e00800, "stz2g %s0, [%s5%o12:9*16]"},
	{0xffe00c00, 0xd9e00c00, "stz2g %s0, [%s5, #%d12:9*16]!"},
	{0xffc00000, 0x68800000, "stgp %x0, %x10, [%s5], #%d15:7*16"},
	{0xffc00000, 0x69000000, "stgp %x0, %x10, [%s5%o15:7*16]"},
	{0xffc00000, 0x69800000, "stgp %x0, %x10, [%s5, #%d15:7*16]!"},

	// Loads and stores that order others.
	{0xfffffc00, 0x38bfc000, "ldaprb %w0, [%s5]"},
	{0xfffffc00, 0x78bfc000, "ldaprh %w0, [%s5]"},
	{0xfffffc00, 0xb8bfc000, "ldapr %w0, [%s5]"},
	{0xfffffc00, 0xf8bfc000, "ldapr %x0, [%s5]"},
	{0xffe00c00, 0x19000000, "stlurb %w0, [%s5%o12:9]"},
	{0xffe00c00, 0x19400000, "ldapurb %w0, [%s5%o12:9]"},
	{0xffe00c00, 0x19800000, "ldapursb %x0, [%s5%o12:9]"},
	{0xffe00c00, 0x19c00000, "ldapursb %w0, [%s5%o12:9]"},
	{0xffe00c00, 0x59000000, "stlurh %w0, [%s5%o12:9]"},
	{0xffe00c00, 0x59400000, "ldapurh %w0, [%s5%o12:9]"},
	{0xffe00c00, 0x59800000, "ldapursh %x0, [%s5%o12:9]"},
	{0xffe00c00, 0x59c00000, "ldapursh %w0, [%s5%o12:9]"},
	{0xffe00c00, 0x99000000, "stlur %w0, [%s5%o12:9]"},
	{0xffe00c00, 0x99400000, "ldapur %w0, [%s5%o12:9]"},
	{0xffe00c00, 0x99800000, "ldapursw %x0, [%s5%o12:9]"},
	{0xffe00c00, 0xd9000000, "stlur %x0, [%s5%o12:9]"},
	{0xffe00c00, 0xd9400000, "ldapur %x0, [%s5%o12:9]"},
	{0xffe08000, 0x08800000, "stllrb %w0, [%s5]"},
	{0xffe08000, 0x08c00000, "ldlarb %w0, [%s5]"},
	{0xffe08000, 0x48800000, "stllrh %w0, [%s5]"},
	{0xffe08000, 0x48c00000, "ldlarh %w0, [%s5]"},
	{0xffe08000, 0x88800000, "stllr %w0, [%s5]"},
	{0xffe08000, 0x88c00000, "ldlar %w0, [%s5]"},
	{0xffe08000, 0xc8800000, "stllr %x0, [%s5]"},
	{0xffe08000, 0xc8c00000, "ldlar %x0, [%s5]"},
	{0xfffffc00, 0xf83fd000, "ld64b %x0, [%s5]"},
	{0xfffffc00, 0xf83f9000, "st64b %x0, [%s5]"},
	{0xffe0fc00, 0xf820b000, "st64bv %x16, %x0, [%s5]"},
	{0xffe0fc00, 0xf820a000, "st64bv0 %x16, %x0, [%s5]"},

	// What saves and restores the state of SVE and SME.
	{0xffc0e010, 0x85800000, "ldr %p0, [%s5%l0]"},
	{0xffc0e000, 0x85804000, "ldr %z0, [%s5%l0]"},
	{0xffc0e010, 0xe5800000, "str %p0, [%s5%l0]"},
	{0xffc0e000, 0xe5804000, "str %z0, [%s5%l0]"},
	{0xfffffff0, 0x2518e400, "pfalse %p0.b"},
	{0xfffffff0, 0x2519f000, "rdffr %p0.b"},
	{0xfffffe1f, 0x25289000, "wrffr %p5.b"},
	{0xffffffff, 0x252c9000, "setffr"},
	{0xfffff800, 0x04bf5000, "rdvl %x0, #%d5:6"},
	{0xfffff800, 0x04bf5800, "rdsvl %x0, #%d5:6"},
	{0xffe0f800, 0x04205000, "addvl %s0, %s16, #%d5:6"},

	// Cryptography of Armv8.2.
	{0xffe0fc00, 0xce608000, "sha512h %q0, %q5, %v16.2d"},
	{0xffe0fc00, 0xce608400, "sha512h2 %q0, %q5, %v16.2d"},
	{0xfffffc00, 0xcec08000, "sha512su0 %v0.2d, %v5.2d"},
	{0xffe0fc00, 0xce608800, "sha512su1 %v0.2d, %v5.2d, %v16.2d"},
	{0xffe08000, 0xce000000, "eor3 %v0.16b, %v5.16b, %v16.16b, %v10.16b"},
	{0xffe08000, 0xce200000, "bcax %v0.16b, %v5.16b, %v16.16b, %v10.16b"},
	{0xffe0fc00, 0xce608c00, "rax1 %v0.2d, %v5.2d, %v16.2d"},
	{0xffe00000, 0xce800000, "xar %v0.2d, %v5.2d, %v16.2d, #%u10:6"},
	{0xffe08000, 0xce400000, "sm3ss1 %v0.4s, %v5.4s, %v16.4s, %v10.4s"},
	{0xffe0cc00, 0xce408000, "sm3tt1a %v0.4s, %v5.4s, %v16.s[%u12:2]"},
	{0xffe0cc00, 0xce408400, "sm3tt1b %v0.4s, %v5.4s, %v16.s[%u12:2]"},
	{0xffe0cc00, 0xce408800, "sm3tt2a %v0.4s, %v5.4s, %v16.s[%u12:2]"},
	{0xffe0cc00, 0xce408c00, "sm3tt2b %v0.4s, %v5.4s, %v16.s[%u12:2]"},
	{0xffe0fc00, 0xce60c000, "sm3partw1 %v0.4s, %v5.4s, %v16.4s"},
	{0xffe0fc00, 0xce60c400, "sm3partw2 %v0.4s, %v5.4s, %v16.4s"},
	{0xfffffc00, 0xcec08400, "sm4e %v0.4s, %v5.4s"},
	{0xffe0fc00, 0xce60c800, "sm4ekey %v0.4s, %v5.4s, %v16.4s"},
}

// a64Index holds the entries by the bits 28 to 25 of the word, which distinguish the
// group of instructions. No entry's mask is without them.
var a64Index = sync.OnceValue(func() *[16][]encoding {
	var index [16][]encoding
	for _, entries := range [][]encoding{a64Entries, a64Atomics(), a64MemoryOps()} {
		for _, e := range entries {
			group := e.value >> 25 & 15
			index[group] = append(index[group], e)
		}
	}
	return &index
})

// a64Atomics returns the atomic instructions of Armv8.1 (FEAT_LSE).
func a64Atomics() []encoding {
	var entries []encoding
	for size, suffix := range []string{"b", "h", "", ""} {
		reg := "%w"
		if size == 3 {
			reg = "%x"
		}
		base := uint32(size) << 30
		for order, o := range []string{"", "l", "a", "al"} {
			acquire, release := uint32(order)>>1, uint32(order)&1
			mem := base | acquire<<23 | release<<22 | 0x38200000
			for op, name := range []string{"add", "clr", "eor", "set", "smax", "smin", "umax", "umin"} {
				value := mem | uint32(op)<<12
				if acquire == 0 { // without a result
					entries = append(entries, encoding{0xffe0fc1f, value | 31,
						"st" + name + o + suffix + " " + reg + "16, [%s5]"})
				}
				entries = append(entries, encoding{0xffe0fc00, value,
					"ld" + name + o + suffix + " " + reg + "16, " + reg + "0, [%s5]"})
			}
			entries = append(entries,
				encoding{0xffe0fc00, mem | 0x8000, "swp" + o + suffix + " " + reg + "16, " + reg + "0, [%s5]"},
				encoding{0xffe0fc00, base | 0x08a07c00 | acquire<<22 | release<<15,
					"cas" + o + suffix + " " + reg + "16, " + reg + "0, [%s5]"})
		}
	}
	for i, o := range []string{"", "l", "a", "al"} {
		for pair, reg := range []string{"%w", "%x"} {
			// A pair begins with an even register. The odd ones are even plus 1.
			entries = append(entries, encoding{0xbfe1fc01 | 1<<30,
				0x08207c00 | uint32(pair)<<30 | uint32(i)>>1<<22 | uint32(i)&1<<15,
				"casp" + o + " " + reg + "16, " + reg + "+16, " + reg + "0, " + reg + "+0, [%s5]"})
		}
	}
	return entries
}

// a64MemoryOps returns the instructions that copy and set memory (FEAT_MOPS),
// each for the prologue, the main part and the epilogue.
func a64MemoryOps() []encoding {
	options := []string{"", "wt", "rt", "t", "wn", "wtwn", "rtwn", "twn", "rn", "wtrn", "rtrn", "trn", "n", "wtn", "rtn", "tn"}
	var entries []encoding
	for stage, letter := range []string{"p", "m", "e"} {
		for i, option := range options {
			value := uint32(stage)<<22 | uint32(i)<<12
			const operands = " [%x0]!, [%x16]!, %x5!"
			entries = append(entries,
				encoding{0xffe0fc00, 0x19000400 | value, "cpyf" + letter + option + operands},
				encoding{0xffe0fc00, 0x1d000400 | value, "cpy" + letter + option + operands})
		}
		for i, option := range []string{"", "t", "n", "tn"} {
			value := uint32(stage)<<14 | uint32(i)<<12
			const operands = " [%x0]!, %x5!, %x16"
			entries = append(entries,
				encoding{0xffe0fc00, 0x19c00400 | value, "set" + letter + option + operands},
				encoding{0xffe0fc00, 0x1dc00400 | value, "setg" + letter + option + operands})
		}
	}
	return entries
}

// appendA64Entry appends the instruction if the tables have it.
func appendA64Entry(b []byte, word uint32) ([]byte, bool) {
	group := a64Index()[word>>25&15]
	for i := range group {
		if e := &group[i]; word&e.mask == e.value {
			return e.append(b, word, appendA64Operand), true
		}
	}
	return b, false
}

// appendA64Operand appends an operand that is no number.
func appendA64Operand(b []byte, kind byte, word uint32, bit int) []byte {
	field := word >> bit & 31
	switch kind {
	case 'w', 'x', 's':
		return appendA64Register(b, kind, field)
	case 'l':
		high := int64(int32(word<<10) >> 26)
		n := high<<3 | int64(word>>10&7)
		if n == 0 {
			return b
		}
		b = append(b, ", #"...)
		b = strconv.AppendInt(b, n, 10)
		return append(b, ", mul vl"...)
	case 'p':
		field &= 15
	}
	b = append(b, kind)
	return strconv.AppendUint(b, uint64(field), 10)
}

// appendA64Register appends the name of a general register.
func appendA64Register(b []byte, kind byte, n uint32) []byte {
	switch {
	case n == 31 && kind == 's':
		return append(b, "sp"...)
	case n == 31:
		return append(b, kind, 'z', 'r')
	case kind == 's':
		kind = 'x'
	}
	b = append(b, kind)
	return strconv.AppendUint(b, uint64(n), 10)
}

// appendA64System appends sys, sysl, msr or mrs, if the instruction is one.
func appendA64System(b []byte, word uint32) ([]byte, bool) {
	if word&0xffc00000 != 0xd5000000 || word>>19&3 == 0 {
		return b, false
	}
	rt := word & 31
	read := word>>21&1 != 0
	if isRegister := word>>20&1 != 0; isRegister {
		name := a64SystemRegister(word)
		if read {
			b = append(b, "mrs "...)
			b = appendA64Register(b, 'x', rt)
			b = append(b, ", "...)
			return append(b, name...), true
		}
		b = append(b, "msr "...)
		b = append(b, name...)
		b = append(b, ", "...)
		return appendA64Register(b, 'x', rt), true
	}
	op1, cn, cm, op2 := word>>16&7, word>>12&15, word>>8&15, word>>5&7
	if read {
		b = append(b, "sysl "...)
		b = appendA64Register(b, 'x', rt)
		return fmt.Appendf(b, ", #%d, C%d, C%d, #%d", op1, cn, cm, op2), true
	}
	name, ok := a64OpNames()[uint16(word>>5)]
	hasRegister := strings.HasSuffix(name, ",")
	if !ok {
		name = fmt.Sprintf("sys #%d, C%d, C%d, #%d", op1, cn, cm, op2)
		if hasRegister = rt != 31; hasRegister {
			name += ","
		}
	}
	b = append(b, name...)
	if hasRegister {
		b = append(b, ' ')
		b = appendA64Register(b, 'x', rt)
	}
	return b, true
}
