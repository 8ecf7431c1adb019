// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/arch/ppc64/ppc64asm"
)

// ppc64Entries are instructions that ppc64asm does not know, from the Power ISA,
// versions 2.07 to 3.1; %r is a general register.
var ppc64Entries = []encoding{
	{0xfc0007ff, 0x00000200, "attn"},
	{0xffffffff, 0x4c000324, "doze"},
	{0xffffffff, 0x4c000364, "nap"},
	{0xffffffff, 0x4c0003a4, "sleep"},
	{0xffffffff, 0x4c0003e4, "rvwinkle"},
	{0xffffffff, 0x7e00066c, "dssall"},
	{0xffffffff, 0x63ff0000, "exser"}, // a form of ori that is a hint
	{0xffffffff, 0x68000000, "xnop"},
	{0xffffffff, 0x7c0006ac, "eieio"},
	{0xfc1fffff, 0x7c0006ac, "mbar %u21:5"},

	// Transactional memory.
	{0xffffffff, 0x7c00051d, "tbegin."},
	{0xffffffff, 0x7c00055d, "tend."},
	{0xffffffff, 0x7e00055d, "tendall."},
	{0xfc7fffff, 0x7c00059c, "tcheck cr%u23:3"},
	{0xffffffff, 0x7c0005dd, "tsuspend."},
	{0xffffffff, 0x7c2005dd, "tresume."},
	{0xffe0ffff, 0x7c00071d, "tabort. %r16"},
	{0xffe0ffff, 0x7c00075d, "treclaim. %r16"},
	{0xffffffff, 0x7c0007dd, "trechkpt."},
}

// appendPPC64Operand appends an operand that is no number.
func appendPPC64Operand(b []byte, kind byte, word uint32, bit int) []byte {
	b = append(b, kind)
	return strconv.AppendUint(b, uint64(word>>bit&31), 10)
}

// ppc64Reserved has the bits of instructions that must be zero.
var ppc64Reserved = []struct {
	bits  uint32
	names string
}{
	{0x00000400, "addg6s mulhd mulhdu mulhw mulhwu vsldoi"},
	{0x000007c0, "fadd fadds fdiv fdivs fsub fsubs"},
	{0x00200000, "daddq dcffixq dctqpq ddedpdq ddivq denbcdq diexq dmulq dquaiq dquaq drdpq drintnq drintxq " +
		"drrndq dscliq dscriq dsubq stq stqcx"}, // the first of a pair of registers is even
	{0x0000e000, "bclr bclrl bcctr bcctrl bctar bctarl"},
	{0x0000f800, "addme addmeo addze addzeo brd brh brw cntlzd cntlzw cnttzd cnttzw extsb extsh extsw " +
		"fmul fmuls mfvsrd mfvsrld mfvsrwz mtvsrd mtvsrwa mtvsrws mtvsrwz neg nego popcntb popcntd " +
		"popcntw prtyd prtyw subfme subfmeo subfze subfzeo setb setbc setbcr setnbc setnbcr cbcdtd cdtbcd"},
	{0x00100800, "mtcrf"},
	{0x00100000, "tlbie tlbiel"},
	{0x001e07c0, "fre fres frsqrte frsqrtes"},
	{0x001f0000, "fabs fcfid fcfids fcfidu fcfidus fctid fctidu fctiduz fctidz fctiw fctiwu fctiwuz fctiwz " +
		"fmr fnabs fneg frim frin frip friz frsp"},
	{0x001f07c0, "fsqrt fsqrts"},
	{0x001ff800, "mfcr mfmsr mffs mtfsb0 mtfsb1"},
	{0x001ef800, "mtmsr mtmsrd"},
	{0x03fff800, "clrbhrb cpabort hrfid isync msgsync rfebb rfid rfscv slbsync stop tlbsync urfid"},
	{0x03e00000, "dcbst dcbz icbi msgclr msgclrp msgclru msgsnd msgsndp msgsndu"},
	{0x0063f800, "mcrf mcrfs"},
	{0x00600000, "fcmpo fcmpu ftdiv"},
	{0x007f0000, "ftsqrt"},
	{0x007ff800, "mcrxrx"},
	{0x00400000, "cmpd cmpld cmplw cmpw"},
	{0x03ff0000, "sc scv"},
}

var ppc64ReservedBits = sync.OnceValue(func() map[string]uint32 {
	m := map[string]uint32{}
	for _, r := range ppc64Reserved {
		for name := range strings.FieldsSeq(r.names) {
			m[name] = r.bits
		}
	}
	return m
})

// ppc64Invalid reports whether ppc64asm decoded something that is not an
// instruction: ppc64asm ignores bits that must be zero, and invalid forms.
func ppc64Invalid(dec *ppc64asm.Inst) bool {
	enc := dec.Enc
	rt, ra := enc>>21&31, enc>>16&31
	op, dot := strings.CutSuffix(dec.Op.String(), ".")
	if dec.Len == 8 {
		reserved := uint32(0x00ff0000)
		switch {
		case enc>>24&1 == 0: // an offset follows
			reserved = 0x00ec0000
			if enc>>20&1 == 1 && dec.SuffixEnc>>16&31 != 0 { // to the instruction, and to a register too
				return true
			}
		case strings.HasPrefix(op, "xxblendv"):
			reserved = 0x00ffffff
		case op == "xxpermx":
			reserved = 0x00fffff8
		case op == "xxeval":
			reserved = 0x00ffff00
		case strings.HasPrefix(op, "pm"): // a mask follows
			reserved = 0
		}
		return enc&reserved != 0
	}
	if enc&ppc64ReservedBits()[op] != 0 {
		return true
	}
	primary := enc >> 26
	isBranch := primary == 16 || primary == 19 && strings.HasPrefix(op, "bc")
	if isBranch {
		switch bo := enc >> 21 & 31; bo & (boIgnoreCond | boKeepCTR) {
		case boIgnoreCond | boKeepCTR:
			return bo != boIgnoreCond|boKeepCTR
		case boIgnoreCond:
			return bo&(boCondTrue|1) == 1 && ra != 0
		}
		return false
	}
	switch primary {
	case 19, 31, 59, 63:
		if enc&1 != 0 && !dot && !ppc64UsesBit0(dec.Op) {
			return true
		}
	}
	base, indexed := strings.CutSuffix(op, "x")
	isUpdate := strings.HasSuffix(base, "u") && (primary >= 32 || indexed && primary == 31)
	switch {
	case isUpdate && strings.HasPrefix(op, "lf"), isUpdate && strings.HasPrefix(op, "st"):
		return ra == 0
	case isUpdate && strings.HasPrefix(op, "l"):
		return ra == 0 || ra == rt
	case op == "lq":
		return rt&1 != 0 || rt == ra
	case op == "lqarx":
		return rt&1 != 0 || rt == ra || rt == enc>>11&31
	}
	return false
}

// ppc64UsesBit0 reports whether the least significant bit of an instruction is
// part of an operand, or ignored. In most it is reserved, or distinguishes the two forms
// of one instruction.
func ppc64UsesBit0(op ppc64asm.Op) bool {
	switch op {
	case ppc64asm.ADDPCIS, ppc64asm.ISEL, ppc64asm.XSRQPI, ppc64asm.XSRQPIX:
		return true
	}
	name := op.String()
	for _, prefix := range []string{"lxs", "lxv", "stxs", "stxv", "mfvsr", "mtvsr", "hash"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return ppc64HasHint[op]
}

// ppc64HasHint has the loads whose bit 0 is the hint EH. It is the last operand.
var ppc64HasHint = map[ppc64asm.Op]bool{
	ppc64asm.LBARX: true, ppc64asm.LHARX: true, ppc64asm.LWARX: true, ppc64asm.LDARX: true, ppc64asm.LQARX: true,
}

// special names the register of mfspr and mtspr. The number after its name, if
// there is one, is a separate operand.
func (f *ppc64Text) special() {
	reg, _ := f.args[0].(ppc64asm.Reg)
	spr, access := f.dec.Args[1], uint8(readOnly)
	if f.name == "mtspr" {
		reg, _ = f.args[1].(ppc64asm.Reg)
		spr, access = f.dec.Args[0], writeOnly
	}
	number, _ := spr.(ppc64asm.SpReg)
	for _, s := range ppc64Registers {
		if s.number != uint16(number) || s.access&access == 0 {
			continue
		}
		name, index, indexed := strings.Cut(s.name, " ")
		f.name = f.name[:2] + name
		f.args = []ppc64asm.Arg{reg}
		if indexed {
			n, _ := strconv.Atoi(index)
			f.args = append(f.args, ppc64asm.Imm(n))
			if access == writeOnly {
				slices.Reverse(f.args)
			}
		}
		return
	}
}

const (
	readOnly  = 1
	writeOnly = 2
	readWrite = readOnly | writeOnly
)

// ppc64Registers are the special-purpose registers by number, Power ISA, book
// III, section 5.4.4, and those of older processors that objdump names.
var ppc64Registers = []struct {
	number uint16
	name   string
	access uint8 // whether objdump names it in mfspr and in mtspr
}{
	{1, "xer", readWrite}, {3, "udscr", readWrite}, {4, "rtcu", readOnly}, {5, "rtcl", readOnly},
	{8, "lr", readWrite}, {9, "ctr", readWrite}, {13, "uamr", readWrite}, {17, "dscr", readWrite},
	{18, "dsisr", readWrite}, {19, "dar", readWrite}, {20, "rtcu", writeOnly}, {21, "rtcl", writeOnly},
	{22, "dec", readWrite}, {25, "sdr1", readWrite}, {26, "srr0", readWrite}, {27, "srr1", readWrite},
	{28, "cfar", readWrite}, {29, "amr", readWrite}, {48, "pidr", readWrite}, {61, "iamr", readWrite},
	{128, "tfhar", writeOnly}, {129, "tfiar", writeOnly}, {130, "texasr", writeOnly}, {131, "texasru", writeOnly},
	{136, "ctrl", readOnly}, {152, "ctrl", writeOnly}, {153, "fscr", readWrite}, {157, "uamor", readWrite},
	{159, "pspb", readWrite}, {176, "dpdes", readWrite}, {180, "dawr0", readWrite}, {181, "dawr1", readWrite},
	{186, "rpr", readWrite}, {187, "ciabr", readWrite}, {188, "dawrx0", readWrite}, {189, "dawrx1", readWrite},
	{190, "hfscr", readWrite}, {256, "vrsave", readWrite}, {259, "usprg3", readOnly}, {268, "tb", readOnly},
	{269, "tbu", readOnly}, {272, "sprg 0", readWrite}, {273, "sprg 1", readWrite}, {274, "sprg 2", readWrite},
	{275, "sprg 3", readWrite}, {280, "asr", readWrite}, {282, "ear", readWrite}, {284, "tbl", writeOnly},
	{285, "tbu", writeOnly}, {286, "tbu40", writeOnly}, {287, "pvr", readOnly}, {304, "hsprg0", readWrite},
	{305, "hsprg1", readWrite}, {306, "hdisr", readWrite}, {307, "hdar", readWrite}, {308, "spurr", readWrite},
	{309, "purr", readWrite}, {310, "hdec", readWrite}, {313, "hrmor", readWrite}, {314, "hsrr0", readWrite},
	{315, "hsrr1", readWrite}, {318, "lpcr", readWrite}, {319, "lpidr", readWrite}, {336, "hmer", readWrite},
	{337, "hmeer", readWrite}, {338, "pcr", readWrite}, {339, "heir", readWrite}, {349, "amor", readWrite},
	{446, "tir", readOnly}, {464, "ptcr", readWrite}, {496, "usprg0", readWrite}, {497, "usprg1", readWrite},
	{505, "urmor", readWrite}, {506, "usrr0", readWrite}, {507, "usrr1", readWrite}, {511, "smfctrl", readWrite},
	{528, "ibatu 0", readWrite}, {529, "ibatl 0", readWrite}, {530, "ibatu 1", readWrite},
	{531, "ibatl 1", readWrite}, {532, "ibatu 2", readWrite}, {533, "ibatl 2", readWrite},
	{534, "ibatu 3", readWrite}, {535, "ibatl 3", readWrite}, {536, "dbatu 0", readWrite},
	{537, "dbatl 0", readWrite}, {538, "dbatu 1", readWrite}, {539, "dbatl 1", readWrite},
	{540, "dbatu 2", readWrite}, {541, "dbatl 2", readWrite}, {542, "dbatu 3", readWrite},
	{543, "dbatl 3", readWrite}, {736, "usier2", readOnly}, {737, "usier3", readOnly}, {738, "ummcr3", readOnly},
	{752, "sier2", writeOnly}, {753, "sier3", writeOnly}, {754, "mmcr3", writeOnly}, {768, "usier", readOnly},
	{769, "ummcr2", readWrite}, {770, "ummcra", readWrite}, {771, "upmc1", readWrite}, {772, "upmc2", readWrite},
	{773, "upmc3", readWrite}, {774, "upmc4", readWrite}, {775, "upmc5", readWrite}, {776, "upmc6", readWrite},
	{779, "ummcr0", readWrite}, {780, "usiar", readOnly}, {781, "usdar", readOnly}, {782, "ummcr1", readOnly},
	{784, "sier", writeOnly}, {786, "mmcra", writeOnly}, {787, "pmc1", writeOnly}, {788, "pmc2", writeOnly},
	{789, "pmc3", writeOnly}, {790, "pmc4", writeOnly}, {791, "pmc5", writeOnly}, {792, "pmc6", writeOnly},
	{795, "mmcr0", writeOnly}, {796, "siar", writeOnly}, {797, "sdar", writeOnly}, {798, "mmcr1", writeOnly},
	{800, "bescrs", readWrite}, {801, "bescrsu", readWrite}, {802, "bescrr", readWrite},
	{803, "bescrru", readWrite}, {804, "ebbhr", readWrite}, {805, "ebbrr", readWrite}, {806, "bescr", readWrite},
	{815, "tar", readWrite}, {816, "asdr", readWrite}, {823, "psscr", readWrite}, {848, "ic", readWrite},
	{849, "vtb", readWrite}, {855, "hpsscr", readWrite}, {896, "ppr", readWrite}, {898, "ppr32", readWrite},
	{1023, "pir", readOnly},
}
