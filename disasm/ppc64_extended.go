// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"slices"
	"strings"
	"sync"

	"golang.org/x/arch/ppc64/ppc64asm"
)

// The extended mnemonics of the Power ISA, book I, appendix C, as far as objdump
// prefers them. Most are another name for an instruction whose operands have
// certain values (ppc64Extended). Of some, trailing operands that are 0 are left
// out (ppc64Optional). The others have a function (ppc64Special).

// ppc64Operands are the operands of an instruction.
type ppc64Operands []ppc64asm.Arg

// imm returns the number that operand i is, 0 if it is none.
func (o ppc64Operands) imm(i int) int {
	n, _ := o[i].(ppc64asm.Imm)
	return int(n)
}

// A ppc64Condition is a condition on the operands of an instruction.
type ppc64Condition func(ppc64Operands) bool

// same: operands i and k are equal.
func same(i, k int) ppc64Condition {
	return func(o ppc64Operands) bool { return o[i] == o[k] }
}

// is: operand i is the number n.
func is(i, n int) ppc64Condition {
	return func(o ppc64Operands) bool { return o.imm(i) == n }
}

// isArg: operand i is a certain register or bit.
func isArg(i int, arg ppc64asm.Arg) ppc64Condition {
	return func(o ppc64Operands) bool { return o[i] == arg }
}

// both: a and b hold.
func both(a, b ppc64Condition) ppc64Condition {
	return func(o ppc64Operands) bool { return a(o) && b(o) }
}

// operand returns the number that operand i is.
func operand(i int) func(ppc64Operands) int {
	return func(o ppc64Operands) int { return o.imm(i) }
}

// constant returns n.
func constant(n int) func(ppc64Operands) int {
	return func(ppc64Operands) int { return n }
}

// A ppc64Mnemonic is an extended mnemonic.
type ppc64Mnemonic struct {
	name   string
	when   ppc64Condition
	keep   int                     // how many of the first operands it has too
	number func(ppc64Operands) int // a number that follows them; nil for none
}

// ppc64Extended has the extended mnemonics of each instruction, without the dot
// of those that set CR0. The first whose condition holds is used.
var ppc64Extended = sync.OnceValue(func() map[string][]ppc64Mnemonic {
	return map[string][]ppc64Mnemonic{
		"or":        {{"mr", same(1, 2), 2, nil}},
		"vor":       {{"vmr", same(1, 2), 2, nil}},
		"xxlor":     {{"xxmr", same(1, 2), 2, nil}},
		"nor":       {{"not", same(1, 2), 2, nil}},
		"vnor":      {{"vnot", same(1, 2), 2, nil}},
		"xxlnor":    {{"xxlnot", same(1, 2), 2, nil}},
		"xvcpsgndp": {{"xvmovdp", same(1, 2), 2, nil}},
		"xvcpsgnsp": {{"xvmovsp", same(1, 2), 2, nil}},
		"xxpermdi": {
			{"xxspltd", both(same(1, 2), is(3, 0)), 2, constant(0)},
			{"xxspltd", both(same(1, 2), is(3, 3)), 2, constant(1)},
			{"xxswapd", both(same(1, 2), is(3, 2)), 2, nil},
			{"xxmrghd", is(3, 0), 3, nil},
			{"xxmrgld", is(3, 3), 3, nil},
		},

		// Rotate by operand 2, and keep the bits from operand 3 to operand 4.
		"rlwinm": {
			{"rotlwi", both(is(3, 0), is(4, 31)), 2, operand(2)},
			{"clrlwi", both(is(2, 0), is(4, 31)), 2, operand(3)},
			{"slwi", func(o ppc64Operands) bool { return o.imm(3) == 0 && o.imm(4) == 31-o.imm(2) }, 2, operand(2)},
			{"srwi", func(o ppc64Operands) bool { return o.imm(4) == 31 && o.imm(2) == 32-o.imm(3) }, 2, operand(3)},
			{"clrrwi", both(is(2, 0), is(3, 0)), 2, func(o ppc64Operands) int { return 31 - o.imm(4) }},
		},
		"rlwnm": {{"rotlw", both(is(3, 0), is(4, 31)), 3, nil}},
		// Of 64 bits, from operand 3 on.
		"rldicl": {
			{"rotldi", is(3, 0), 2, operand(2)},
			{"clrldi", is(2, 0), 2, operand(3)},
			{"srdi", func(o ppc64Operands) bool { return o.imm(2) == 64-o.imm(3) }, 2, operand(3)},
		},
		// Of 64 bits, up to operand 3.
		"rldicr": {
			{"clrrdi", is(2, 0), 2, func(o ppc64Operands) int { return 63 - o.imm(3) }},
			{"sldi", func(o ppc64Operands) bool { return o.imm(3) == 63-o.imm(2) }, 2, operand(2)},
		},
		"rldcl": {{"rotld", is(3, 0), 3, nil}},

		"isel": {
			{"isellt", isArg(3, ppc64asm.Cond0LT), 3, nil},
			{"iselgt", isArg(3, ppc64asm.Cond0GT), 3, nil},
			{"iseleq", isArg(3, ppc64asm.Cond0EQ), 3, nil},
		},
		"creqv":   {{"crset", both(same(0, 1), same(0, 2)), 1, nil}},
		"crxor":   {{"crclr", both(same(0, 1), same(0, 2)), 1, nil}},
		"cror":    {{"crmove", same(1, 2), 2, nil}},
		"crnor":   {{"crnot", same(1, 2), 2, nil}},
		"addpcis": {{"lnia", is(1, 0), 1, nil}},
		"mftb":    {{"mftb", isArg(1, ppc64asm.SpReg(268)), 1, nil}},
		"paste":   {{"paste", is(2, 1), 2, nil}},
		"lswi":    {{"lswi", is(2, 0), 2, constant(32)}}, // bytes
		"stswi":   {{"stswi", is(2, 0), 2, constant(32)}},

		"dcbf": {
			{"dcbf", is(2, 0), 2, nil},
			{"dcbfl", is(2, 1), 2, nil},
			{"dcbflp", is(2, 3), 2, nil},
			{"dcbfps", is(2, 4), 2, nil},
			{"dcbstps", is(2, 6), 2, nil},
		},
		"sync": {
			{"hwsync", both(is(0, 0), is(1, 0)), 0, nil},
			{"lwsync", both(is(0, 1), is(1, 0)), 0, nil},
			{"ptesync", both(is(0, 2), is(1, 0)), 0, nil},
			{"phwsync", both(is(0, 4), is(1, 0)), 0, nil},
			{"plwsync", both(is(0, 5), is(1, 0)), 0, nil},
			{"stncisync", both(is(0, 1), is(1, 1)), 0, nil},
			{"stcisync", both(is(0, 0), is(1, 2)), 0, nil},
			{"stsync", both(is(0, 0), is(1, 3)), 0, nil},
		},
		"wait": {
			{"wait", both(is(0, 0), is(1, 0)), 0, nil},
			{"waitrsv", both(is(0, 1), is(1, 0)), 0, nil},
			{"pause_short", both(is(0, 2), is(1, 0)), 0, nil},
		},
	}
})

// ppc64Optional has the number of operands that an instruction always has. Those
// that follow are left out if they are 0.
var ppc64Optional = map[string]int{
	"mtmsr": 1, "mtmsrd": 1, "slbia": 0, "sc": 0, "slbiag": 1, "mtfsf": 2, "mtfsfi": 2, "sync": 1,
	"tlbie": 2, "tlbiel": 2, "lbarx": 3, "lharx": 3, "lwarx": 3, "ldarx": 3, "lqarx": 3,
}

// ppc64Special has what the tables above cannot say.
var ppc64Special = sync.OnceValue(func() map[string]func(*ppc64Text) {
	return map[string]func(*ppc64Text){
		"twi": (*ppc64Text).trap, "tdi": (*ppc64Text).trap, "tw": (*ppc64Text).trap, "td": (*ppc64Text).trap,
		"cmpw": (*ppc64Text).dropCR0, "cmpd": (*ppc64Text).dropCR0, "cmplw": (*ppc64Text).dropCR0, "cmpld": (*ppc64Text).dropCR0,
		"cmpwi": (*ppc64Text).dropCR0, "cmpdi": (*ppc64Text).dropCR0, "cmplwi": (*ppc64Text).dropCR0, "cmpldi": (*ppc64Text).dropCR0,
		"mfspr": (*ppc64Text).special, "mtspr": (*ppc64Text).special,
		"mtcrf":  (*ppc64Text).allFields,
		"mfvsrd": (*ppc64Text).vectorScalar, "mfvsrwz": (*ppc64Text).vectorScalar,
		"mtvsrd": (*ppc64Text).vectorScalar, "mtvsrwa": (*ppc64Text).vectorScalar, "mtvsrwz": (*ppc64Text).vectorScalar,
		"tlbie": (*ppc64Text).dropR0, "tlbiel": (*ppc64Text).dropR0,
		"dcbt": (*ppc64Text).touch, "dcbtst": (*ppc64Text).touch,
	}
})

// extend replaces name and operands by those of an extended mnemonic, where
// objdump prefers it.
func (f *ppc64Text) extend() {
	if f.dec.Len != 4 {
		return
	}
	op, isDot := strings.CutSuffix(f.name, ".")
	for _, x := range ppc64Extended()[op] {
		if !x.when(f.args) {
			continue
		}
		args := slices.Clone(f.args[:x.keep])
		if x.number != nil {
			args = append(args, ppc64asm.Imm(x.number(f.args)))
		}
		f.name, f.args = x.name, args
		if isDot {
			f.name += "."
		}
		return
	}
	if keep, ok := ppc64Optional[op]; ok {
		for len(f.args) > keep && f.args[len(f.args)-1] == ppc64asm.Imm(0) {
			f.args = f.args[:len(f.args)-1]
		}
	}
	if special, ok := ppc64Special()[op]; ok {
		special(f)
	}
}

// ppc64Traps names the conditions of the field TO.
var ppc64Traps = map[int]string{
	1: "lgt", 2: "llt", 4: "eq", 5: "lge", 6: "lle", 8: "gt", 12: "ge", 16: "lt", 20: "le", 24: "ne", 31: "u",
}

// trap puts the condition of a trap, which is its first operand, into the name.
func (f *ppc64Text) trap() {
	const always = 0x7fe00008 // tw 31,r0,r0
	if f.dec.Enc == always {
		f.name, f.args = "trap", nil
	} else if cond, ok := ppc64Traps[ppc64Operands(f.args).imm(0)]; ok {
		f.name, f.args = f.name[:2]+cond+f.name[2:], f.args[1:]
	}
}

// dropCR0 leaves out the field that a comparison sets if it is cr0.
func (f *ppc64Text) dropCR0() {
	if f.args[0] == ppc64asm.CR0 {
		f.args = f.args[1:]
	}
}

// dropR0 leaves out a second operand r0 if it is the last.
func (f *ppc64Text) dropR0() {
	if len(f.args) == 2 && f.args[1] == ppc64asm.R0 {
		f.args = f.args[:1]
	}
}

// allFields names mtcrf if it sets all fields of the condition register.
func (f *ppc64Text) allFields() {
	if ppc64Operands(f.args).imm(0) == 255 {
		f.name, f.args = "mtcr", f.args[1:]
	}
}

// touch puts the kind of a data cache touch, the field TH, into the name.
func (f *ppc64Text) touch() {
	switch th := ppc64Operands(f.args).imm(2); {
	case th == 0:
		f.name, f.args = f.name+"ct", f.args[:2]
	case th <= 7:
		f.name += "ct"
	case th == 8:
		f.name, f.args = f.name+"ds", f.args[:2]
	case th <= 15:
		f.name += "ds"
	case th == 16:
		f.name, f.args = f.name+"t", f.args[:2]
	}
}

// vectorScalar names the half of the vector-scalar registers that the operand
// is in: the floating-point or the vector registers.
func (f *ppc64Text) vectorScalar() {
	i := slices.IndexFunc(f.args, func(a ppc64asm.Arg) bool {
		reg, ok := a.(ppc64asm.Reg)
		return ok && reg >= ppc64asm.VS0
	})
	if i < 0 {
		return
	}
	f.args = slices.Clone(f.args)
	if n := f.args[i].(ppc64asm.Reg) - ppc64asm.VS0; n < 32 {
		f.name = strings.Replace(f.name, "vsr", "fpr", 1)
		f.args[i] = ppc64asm.F0 + n
	} else {
		f.name = strings.Replace(f.name, "vsr", "vr", 1)
		f.args[i] = ppc64asm.V0 + n - 32
	}
}
