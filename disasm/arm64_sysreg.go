// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm

import (
	"fmt"
	"sync"
)

// a64System is a system register or a system instruction. The numbers are its
// fields op0, op1, CRn, CRm and op2.
type a64System struct {
	op0, op1, cn, cm, op2 uint8
	name                  string
}

// key returns the fields as they lie in an instruction, from bit 5 on.
func (s a64System) key() uint16 {
	return uint16(s.op0)<<14 | uint16(s.op1)<<11 | uint16(s.cn)<<7 | uint16(s.cm)<<3 | uint16(s.op2)
}

var (
	a64RegisterNames = sync.OnceValue(a64RegisterMap)
	a64OpNames       = sync.OnceValue(func() map[uint16]string { return a64SystemMap(a64SystemOps) })
)

func a64SystemMap(list []a64System) map[uint16]string {
	m := make(map[uint16]string, len(list))
	for _, s := range list {
		m[s.key()] = s.name
	}
	return m
}

func a64RegisterMap() map[uint16]string {
	m := a64SystemMap(a64Registers)
	for _, f := range a64RegisterFamilies {
		for i := range f.count {
			m[f.first.key()+uint16(i*f.step)] = fmt.Sprintf(f.first.name, i)
		}
	}
	return m
}

// a64SystemRegister returns the name of the register that the word, an mrs or
// msr, names. Those that have none here are shown as their numbers.
func a64SystemRegister(word uint32) string {
	const dbgdtrrx = 0x9828 // s2_3_c0_c5_0, another register where it is written
	key := uint16(word >> 5)
	if key == dbgdtrrx && word>>21&1 == 0 {
		return "dbgdtrtx_el0"
	}
	if name, ok := a64RegisterNames()[key]; ok {
		return name
	}
	return fmt.Sprintf("s%d_%d_c%d_c%d_%d", key>>14, key>>11&7, key>>7&15, key>>3&15, key&7)
}

// a64RegisterFamilies are registers that come in several. The first one's
// name is a format, and the next ones lie step further on.
var a64RegisterFamilies = []struct {
	first       a64System
	count, step int
}{
	{a64System{2, 0, 0, 0, 4, "dbgbvr%d_el1"}, 16, 8},
	{a64System{2, 0, 0, 0, 5, "dbgbcr%d_el1"}, 16, 8},
	{a64System{2, 0, 0, 0, 6, "dbgwvr%d_el1"}, 16, 8},
	{a64System{2, 0, 0, 0, 7, "dbgwcr%d_el1"}, 16, 8},
	{a64System{3, 0, 12, 8, 4, "icc_ap0r%d_el1"}, 4, 1},
	{a64System{3, 0, 12, 9, 0, "icc_ap1r%d_el1"}, 4, 1},
	{a64System{3, 3, 13, 4, 0, "amevcntr0%d_el0"}, 4, 1},
	{a64System{3, 3, 13, 6, 0, "amevtyper0%d_el0"}, 4, 1},
	{a64System{3, 3, 13, 12, 0, "amevcntr1%d_el0"}, 16, 1},
	{a64System{3, 3, 13, 14, 0, "amevtyper1%d_el0"}, 16, 1},
	{a64System{3, 3, 14, 8, 0, "pmevcntr%d_el0"}, 31, 1},
	{a64System{3, 3, 14, 12, 0, "pmevtyper%d_el0"}, 31, 1},
	{a64System{3, 4, 12, 8, 0, "ich_ap0r%d_el2"}, 4, 1},
	{a64System{3, 4, 12, 9, 0, "ich_ap1r%d_el2"}, 4, 1},
	{a64System{3, 4, 12, 12, 0, "ich_lr%d_el2"}, 16, 1},
}

// a64Registers are from the Arm Architecture Reference Manual (DDI 0487), chapter
// "AArch64 System Register Descriptions": the registers that kernels use, without
// those of trace units.
var a64Registers = []a64System{
	{2, 0, 0, 0, 2, "osdtrrx_el1"}, {2, 0, 0, 2, 0, "mdccint_el1"}, {2, 0, 0, 2, 2, "mdscr_el1"},
	{2, 0, 0, 3, 2, "osdtrtx_el1"}, {2, 0, 0, 6, 2, "oseccr_el1"}, {2, 0, 1, 0, 0, "mdrar_el1"},
	{2, 0, 1, 0, 4, "oslar_el1"}, {2, 0, 1, 1, 4, "oslsr_el1"}, {2, 0, 1, 3, 4, "osdlr_el1"},
	{2, 0, 1, 4, 4, "dbgprcr_el1"}, {2, 0, 7, 8, 6, "dbgclaimset_el1"}, {2, 0, 7, 9, 6, "dbgclaimclr_el1"},
	{2, 0, 7, 14, 6, "dbgauthstatus_el1"}, {2, 1, 9, 0, 0, "brbcr_el1"}, {2, 1, 9, 0, 1, "brbfcr_el1"},
	{2, 1, 9, 0, 2, "brbts_el1"}, {2, 1, 9, 1, 0, "brbinfinj_el1"}, {2, 1, 9, 1, 1, "brbsrcinj_el1"},
	{2, 1, 9, 1, 2, "brbtgtinj_el1"}, {2, 1, 9, 2, 0, "brbidr0_el1"}, {2, 3, 0, 1, 0, "mdccsr_el0"},
	{2, 3, 0, 4, 0, "dbgdtr_el0"}, {2, 3, 0, 5, 0, "dbgdtrrx_el0"}, {2, 4, 0, 7, 0, "dbgvcr32_el2"},
	{2, 4, 9, 0, 0, "brbcr_el2"}, {2, 5, 9, 0, 0, "brbcr_el12"}, {3, 0, 0, 0, 0, "midr_el1"},
	{3, 0, 0, 0, 5, "mpidr_el1"}, {3, 0, 0, 0, 6, "revidr_el1"}, {3, 0, 0, 1, 0, "id_pfr0_el1"},
	{3, 0, 0, 1, 1, "id_pfr1_el1"}, {3, 0, 0, 1, 2, "id_dfr0_el1"}, {3, 0, 0, 1, 3, "id_afr0_el1"},
	{3, 0, 0, 1, 4, "id_mmfr0_el1"}, {3, 0, 0, 1, 5, "id_mmfr1_el1"}, {3, 0, 0, 1, 6, "id_mmfr2_el1"},
	{3, 0, 0, 1, 7, "id_mmfr3_el1"}, {3, 0, 0, 2, 0, "id_isar0_el1"}, {3, 0, 0, 2, 1, "id_isar1_el1"},
	{3, 0, 0, 2, 2, "id_isar2_el1"}, {3, 0, 0, 2, 3, "id_isar3_el1"}, {3, 0, 0, 2, 4, "id_isar4_el1"},
	{3, 0, 0, 2, 5, "id_isar5_el1"}, {3, 0, 0, 2, 6, "id_mmfr4_el1"}, {3, 0, 0, 2, 7, "id_isar6_el1"},
	{3, 0, 0, 3, 0, "mvfr0_el1"}, {3, 0, 0, 3, 1, "mvfr1_el1"}, {3, 0, 0, 3, 2, "mvfr2_el1"},
	{3, 0, 0, 3, 4, "id_pfr2_el1"}, {3, 0, 0, 3, 5, "id_dfr1_el1"}, {3, 0, 0, 3, 6, "id_mmfr5_el1"},
	{3, 0, 0, 4, 0, "id_aa64pfr0_el1"}, {3, 0, 0, 4, 1, "id_aa64pfr1_el1"}, {3, 0, 0, 4, 4, "id_aa64zfr0_el1"},
	{3, 0, 0, 4, 5, "id_aa64smfr0_el1"}, {3, 0, 0, 5, 0, "id_aa64dfr0_el1"}, {3, 0, 0, 5, 1, "id_aa64dfr1_el1"},
	{3, 0, 0, 5, 4, "id_aa64afr0_el1"}, {3, 0, 0, 5, 5, "id_aa64afr1_el1"}, {3, 0, 0, 6, 0, "id_aa64isar0_el1"},
	{3, 0, 0, 6, 1, "id_aa64isar1_el1"}, {3, 0, 0, 6, 2, "id_aa64isar2_el1"}, {3, 0, 0, 7, 0, "id_aa64mmfr0_el1"},
	{3, 0, 0, 7, 1, "id_aa64mmfr1_el1"}, {3, 0, 0, 7, 2, "id_aa64mmfr2_el1"}, {3, 0, 1, 0, 0, "sctlr_el1"},
	{3, 0, 1, 0, 1, "actlr_el1"}, {3, 0, 1, 0, 2, "cpacr_el1"}, {3, 0, 1, 0, 5, "rgsr_el1"},
	{3, 0, 1, 0, 6, "gcr_el1"}, {3, 0, 1, 2, 0, "zcr_el1"}, {3, 0, 1, 2, 1, "trfcr_el1"},
	{3, 0, 1, 2, 4, "smpri_el1"}, {3, 0, 1, 2, 6, "smcr_el1"}, {3, 0, 2, 0, 0, "ttbr0_el1"},
	{3, 0, 2, 0, 1, "ttbr1_el1"}, {3, 0, 2, 0, 2, "tcr_el1"}, {3, 0, 2, 1, 0, "apiakeylo_el1"},
	{3, 0, 2, 1, 1, "apiakeyhi_el1"}, {3, 0, 2, 1, 2, "apibkeylo_el1"}, {3, 0, 2, 1, 3, "apibkeyhi_el1"},
	{3, 0, 2, 2, 0, "apdakeylo_el1"}, {3, 0, 2, 2, 1, "apdakeyhi_el1"}, {3, 0, 2, 2, 2, "apdbkeylo_el1"},
	{3, 0, 2, 2, 3, "apdbkeyhi_el1"}, {3, 0, 2, 3, 0, "apgakeylo_el1"}, {3, 0, 2, 3, 1, "apgakeyhi_el1"},
	{3, 0, 4, 0, 0, "spsr_el1"}, {3, 0, 4, 0, 1, "elr_el1"}, {3, 0, 4, 1, 0, "sp_el0"}, {3, 0, 4, 2, 0, "spsel"},
	{3, 0, 4, 2, 2, "currentel"}, {3, 0, 4, 2, 3, "pan"}, {3, 0, 4, 2, 4, "uao"}, {3, 0, 4, 3, 0, "allint"},
	{3, 0, 4, 6, 0, "icc_pmr_el1"}, {3, 0, 5, 1, 0, "afsr0_el1"}, {3, 0, 5, 1, 1, "afsr1_el1"},
	{3, 0, 5, 2, 0, "esr_el1"}, {3, 0, 5, 3, 0, "erridr_el1"}, {3, 0, 5, 3, 1, "errselr_el1"},
	{3, 0, 5, 4, 0, "erxfr_el1"}, {3, 0, 5, 4, 1, "erxctlr_el1"}, {3, 0, 5, 4, 2, "erxstatus_el1"},
	{3, 0, 5, 4, 3, "erxaddr_el1"}, {3, 0, 5, 4, 4, "erxpfgf_el1"}, {3, 0, 5, 4, 5, "erxpfgctl_el1"},
	{3, 0, 5, 4, 6, "erxpfgcdn_el1"}, {3, 0, 5, 5, 0, "erxmisc0_el1"}, {3, 0, 5, 5, 1, "erxmisc1_el1"},
	{3, 0, 5, 5, 2, "erxmisc2_el1"}, {3, 0, 5, 5, 3, "erxmisc3_el1"}, {3, 0, 5, 6, 0, "tfsr_el1"},
	{3, 0, 5, 6, 1, "tfsre0_el1"}, {3, 0, 6, 0, 0, "far_el1"}, {3, 0, 7, 4, 0, "par_el1"},
	{3, 0, 9, 9, 0, "pmscr_el1"}, {3, 0, 9, 9, 1, "pmsnevfr_el1"}, {3, 0, 9, 9, 2, "pmsicr_el1"},
	{3, 0, 9, 9, 3, "pmsirr_el1"}, {3, 0, 9, 9, 4, "pmsfcr_el1"}, {3, 0, 9, 9, 5, "pmsevfr_el1"},
	{3, 0, 9, 9, 6, "pmslatfr_el1"}, {3, 0, 9, 9, 7, "pmsidr_el1"}, {3, 0, 9, 10, 0, "pmblimitr_el1"},
	{3, 0, 9, 10, 1, "pmbptr_el1"}, {3, 0, 9, 10, 3, "pmbsr_el1"}, {3, 0, 9, 10, 7, "pmbidr_el1"},
	{3, 0, 9, 11, 0, "trblimitr_el1"}, {3, 0, 9, 11, 1, "trbptr_el1"}, {3, 0, 9, 11, 2, "trbbaser_el1"},
	{3, 0, 9, 11, 3, "trbsr_el1"}, {3, 0, 9, 11, 4, "trbmar_el1"}, {3, 0, 9, 11, 6, "trbtrg_el1"},
	{3, 0, 9, 11, 7, "trbidr_el1"}, {3, 0, 9, 14, 1, "pmintenset_el1"}, {3, 0, 9, 14, 2, "pmintenclr_el1"},
	{3, 0, 9, 14, 6, "pmmir_el1"}, {3, 0, 10, 2, 0, "mair_el1"}, {3, 0, 10, 3, 0, "amair_el1"},
	{3, 0, 10, 4, 0, "lorsa_el1"}, {3, 0, 10, 4, 1, "lorea_el1"}, {3, 0, 10, 4, 2, "lorn_el1"},
	{3, 0, 10, 4, 3, "lorc_el1"}, {3, 0, 10, 4, 4, "mpamidr_el1"}, {3, 0, 10, 4, 7, "lorid_el1"},
	{3, 0, 10, 5, 0, "mpam1_el1"}, {3, 0, 10, 5, 1, "mpam0_el1"}, {3, 0, 10, 5, 3, "mpamsm_el1"},
	{3, 0, 12, 0, 0, "vbar_el1"}, {3, 0, 12, 0, 1, "rvbar_el1"}, {3, 0, 12, 0, 2, "rmr_el1"},
	{3, 0, 12, 1, 0, "isr_el1"}, {3, 0, 12, 1, 1, "disr_el1"}, {3, 0, 12, 8, 0, "icc_iar0_el1"},
	{3, 0, 12, 8, 1, "icc_eoir0_el1"}, {3, 0, 12, 8, 2, "icc_hppir0_el1"}, {3, 0, 12, 8, 3, "icc_bpr0_el1"},
	{3, 0, 12, 9, 5, "icc_nmiar1_el1"}, {3, 0, 12, 11, 1, "icc_dir_el1"}, {3, 0, 12, 11, 3, "icc_rpr_el1"},
	{3, 0, 12, 11, 5, "icc_sgi1r_el1"}, {3, 0, 12, 11, 6, "icc_asgi1r_el1"}, {3, 0, 12, 11, 7, "icc_sgi0r_el1"},
	{3, 0, 12, 12, 0, "icc_iar1_el1"}, {3, 0, 12, 12, 1, "icc_eoir1_el1"}, {3, 0, 12, 12, 2, "icc_hppir1_el1"},
	{3, 0, 12, 12, 3, "icc_bpr1_el1"}, {3, 0, 12, 12, 4, "icc_ctlr_el1"}, {3, 0, 12, 12, 5, "icc_sre_el1"},
	{3, 0, 12, 12, 6, "icc_igrpen0_el1"}, {3, 0, 12, 12, 7, "icc_igrpen1_el1"}, {3, 0, 13, 0, 1, "contextidr_el1"},
	{3, 0, 13, 0, 4, "tpidr_el1"}, {3, 0, 13, 0, 5, "accdata_el1"}, {3, 0, 13, 0, 7, "scxtnum_el1"},
	{3, 0, 14, 1, 0, "cntkctl_el1"}, {3, 1, 0, 0, 0, "ccsidr_el1"}, {3, 1, 0, 0, 1, "clidr_el1"},
	{3, 1, 0, 0, 2, "ccsidr2_el1"}, {3, 1, 0, 0, 4, "gmid_el1"}, {3, 1, 0, 0, 6, "smidr_el1"},
	{3, 1, 0, 0, 7, "aidr_el1"}, {3, 2, 0, 0, 0, "csselr_el1"}, {3, 3, 0, 0, 1, "ctr_el0"},
	{3, 3, 0, 0, 7, "dczid_el0"}, {3, 3, 2, 4, 0, "rndr"}, {3, 3, 2, 4, 1, "rndrrs"}, {3, 3, 4, 2, 0, "nzcv"},
	{3, 3, 4, 2, 1, "daif"}, {3, 3, 4, 2, 2, "svcr"}, {3, 3, 4, 2, 5, "dit"}, {3, 3, 4, 2, 6, "ssbs"},
	{3, 3, 4, 2, 7, "tco"}, {3, 3, 4, 4, 0, "fpcr"}, {3, 3, 4, 4, 1, "fpsr"}, {3, 3, 4, 5, 0, "dspsr_el0"},
	{3, 3, 4, 5, 1, "dlr_el0"}, {3, 3, 9, 12, 0, "pmcr_el0"}, {3, 3, 9, 12, 1, "pmcntenset_el0"},
	{3, 3, 9, 12, 2, "pmcntenclr_el0"}, {3, 3, 9, 12, 3, "pmovsclr_el0"}, {3, 3, 9, 12, 4, "pmswinc_el0"},
	{3, 3, 9, 12, 5, "pmselr_el0"}, {3, 3, 9, 12, 6, "pmceid0_el0"}, {3, 3, 9, 12, 7, "pmceid1_el0"},
	{3, 3, 9, 13, 0, "pmccntr_el0"}, {3, 3, 9, 13, 1, "pmxevtyper_el0"}, {3, 3, 9, 13, 2, "pmxevcntr_el0"},
	{3, 3, 9, 14, 0, "pmuserenr_el0"}, {3, 3, 9, 14, 3, "pmovsset_el0"}, {3, 3, 13, 0, 2, "tpidr_el0"},
	{3, 3, 13, 0, 3, "tpidrro_el0"}, {3, 3, 13, 0, 5, "tpidr2_el0"}, {3, 3, 13, 0, 7, "scxtnum_el0"},
	{3, 3, 13, 2, 0, "amcr_el0"}, {3, 3, 13, 2, 1, "amcfgr_el0"}, {3, 3, 13, 2, 2, "amcgcr_el0"},
	{3, 3, 13, 2, 3, "amuserenr_el0"}, {3, 3, 13, 2, 4, "amcntenclr0_el0"}, {3, 3, 13, 2, 5, "amcntenset0_el0"},
	{3, 3, 13, 2, 6, "amcg1idr_el0"}, {3, 3, 13, 3, 0, "amcntenclr1_el0"}, {3, 3, 13, 3, 1, "amcntenset1_el0"},
	{3, 3, 14, 0, 0, "cntfrq_el0"}, {3, 3, 14, 0, 1, "cntpct_el0"}, {3, 3, 14, 0, 2, "cntvct_el0"},
	{3, 3, 14, 0, 5, "cntpctss_el0"}, {3, 3, 14, 0, 6, "cntvctss_el0"}, {3, 3, 14, 2, 0, "cntp_tval_el0"},
	{3, 3, 14, 2, 1, "cntp_ctl_el0"}, {3, 3, 14, 2, 2, "cntp_cval_el0"}, {3, 3, 14, 3, 0, "cntv_tval_el0"},
	{3, 3, 14, 3, 1, "cntv_ctl_el0"}, {3, 3, 14, 3, 2, "cntv_cval_el0"}, {3, 3, 14, 15, 7, "pmccfiltr_el0"},
	{3, 4, 0, 0, 0, "vpidr_el2"}, {3, 4, 0, 0, 5, "vmpidr_el2"}, {3, 4, 1, 0, 0, "sctlr_el2"},
	{3, 4, 1, 0, 1, "actlr_el2"}, {3, 4, 1, 1, 0, "hcr_el2"}, {3, 4, 1, 1, 1, "mdcr_el2"},
	{3, 4, 1, 1, 2, "cptr_el2"}, {3, 4, 1, 1, 3, "hstr_el2"}, {3, 4, 1, 1, 4, "hfgrtr_el2"},
	{3, 4, 1, 1, 5, "hfgwtr_el2"}, {3, 4, 1, 1, 6, "hfgitr_el2"}, {3, 4, 1, 1, 7, "hacr_el2"},
	{3, 4, 1, 2, 0, "zcr_el2"}, {3, 4, 1, 2, 1, "trfcr_el2"}, {3, 4, 1, 2, 2, "hcrx_el2"},
	{3, 4, 1, 2, 5, "smprimap_el2"}, {3, 4, 1, 2, 6, "smcr_el2"}, {3, 4, 1, 3, 1, "sder32_el2"},
	{3, 4, 2, 0, 0, "ttbr0_el2"}, {3, 4, 2, 0, 1, "ttbr1_el2"}, {3, 4, 2, 0, 2, "tcr_el2"},
	{3, 4, 2, 1, 0, "vttbr_el2"}, {3, 4, 2, 1, 2, "vtcr_el2"}, {3, 4, 2, 2, 0, "vncr_el2"},
	{3, 4, 2, 6, 0, "vsttbr_el2"}, {3, 4, 2, 6, 2, "vstcr_el2"}, {3, 4, 3, 0, 0, "dacr32_el2"},
	{3, 4, 3, 1, 4, "hdfgrtr_el2"}, {3, 4, 3, 1, 5, "hdfgwtr_el2"}, {3, 4, 3, 1, 6, "hafgrtr_el2"},
	{3, 4, 4, 0, 0, "spsr_el2"}, {3, 4, 4, 0, 1, "elr_el2"}, {3, 4, 4, 1, 0, "sp_el1"}, {3, 4, 4, 3, 0, "spsr_irq"},
	{3, 4, 4, 3, 1, "spsr_abt"}, {3, 4, 4, 3, 2, "spsr_und"}, {3, 4, 4, 3, 3, "spsr_fiq"},
	{3, 4, 5, 0, 1, "ifsr32_el2"}, {3, 4, 5, 1, 0, "afsr0_el2"}, {3, 4, 5, 1, 1, "afsr1_el2"},
	{3, 4, 5, 2, 0, "esr_el2"}, {3, 4, 5, 2, 3, "vsesr_el2"}, {3, 4, 5, 3, 0, "fpexc32_el2"},
	{3, 4, 5, 6, 0, "tfsr_el2"}, {3, 4, 6, 0, 0, "far_el2"}, {3, 4, 6, 0, 4, "hpfar_el2"},
	{3, 4, 9, 9, 0, "pmscr_el2"}, {3, 4, 10, 2, 0, "mair_el2"}, {3, 4, 10, 3, 0, "amair_el2"},
	{3, 4, 10, 4, 0, "mpamhcr_el2"}, {3, 4, 10, 4, 1, "mpamvpmv_el2"}, {3, 4, 10, 5, 0, "mpam2_el2"},
	{3, 4, 10, 6, 0, "mpamvpm0_el2"}, {3, 4, 10, 6, 1, "mpamvpm1_el2"}, {3, 4, 10, 6, 2, "mpamvpm2_el2"},
	{3, 4, 10, 6, 3, "mpamvpm3_el2"}, {3, 4, 10, 6, 4, "mpamvpm4_el2"}, {3, 4, 10, 6, 5, "mpamvpm5_el2"},
	{3, 4, 10, 6, 6, "mpamvpm6_el2"}, {3, 4, 10, 6, 7, "mpamvpm7_el2"}, {3, 4, 12, 0, 0, "vbar_el2"},
	{3, 4, 12, 0, 1, "rvbar_el2"}, {3, 4, 12, 0, 2, "rmr_el2"}, {3, 4, 12, 1, 1, "vdisr_el2"},
	{3, 4, 12, 9, 5, "icc_sre_el2"}, {3, 4, 12, 11, 0, "ich_hcr_el2"}, {3, 4, 12, 11, 1, "ich_vtr_el2"},
	{3, 4, 12, 11, 2, "ich_misr_el2"}, {3, 4, 12, 11, 3, "ich_eisr_el2"}, {3, 4, 12, 11, 5, "ich_elrsr_el2"},
	{3, 4, 12, 11, 7, "ich_vmcr_el2"}, {3, 4, 13, 0, 1, "contextidr_el2"}, {3, 4, 13, 0, 2, "tpidr_el2"},
	{3, 4, 13, 0, 7, "scxtnum_el2"}, {3, 4, 14, 0, 3, "cntvoff_el2"}, {3, 4, 14, 0, 6, "cntpoff_el2"},
	{3, 4, 14, 1, 0, "cnthctl_el2"}, {3, 4, 14, 2, 0, "cnthp_tval_el2"}, {3, 4, 14, 2, 1, "cnthp_ctl_el2"},
	{3, 4, 14, 2, 2, "cnthp_cval_el2"}, {3, 4, 14, 3, 0, "cnthv_tval_el2"}, {3, 4, 14, 3, 1, "cnthv_ctl_el2"},
	{3, 4, 14, 3, 2, "cnthv_cval_el2"}, {3, 4, 14, 4, 0, "cnthvs_tval_el2"}, {3, 4, 14, 4, 1, "cnthvs_ctl_el2"},
	{3, 4, 14, 4, 2, "cnthvs_cval_el2"}, {3, 4, 14, 5, 0, "cnthps_tval_el2"}, {3, 4, 14, 5, 1, "cnthps_ctl_el2"},
	{3, 4, 14, 5, 2, "cnthps_cval_el2"}, {3, 5, 1, 0, 0, "sctlr_el12"}, {3, 5, 1, 0, 2, "cpacr_el12"},
	{3, 5, 1, 2, 0, "zcr_el12"}, {3, 5, 1, 2, 1, "trfcr_el12"}, {3, 5, 1, 2, 6, "smcr_el12"},
	{3, 5, 2, 0, 0, "ttbr0_el12"}, {3, 5, 2, 0, 1, "ttbr1_el12"}, {3, 5, 2, 0, 2, "tcr_el12"},
	{3, 5, 4, 0, 0, "spsr_el12"}, {3, 5, 4, 0, 1, "elr_el12"}, {3, 5, 5, 1, 0, "afsr0_el12"},
	{3, 5, 5, 1, 1, "afsr1_el12"}, {3, 5, 5, 2, 0, "esr_el12"}, {3, 5, 5, 6, 0, "tfsr_el12"},
	{3, 5, 6, 0, 0, "far_el12"}, {3, 5, 9, 9, 0, "pmscr_el12"}, {3, 5, 10, 2, 0, "mair_el12"},
	{3, 5, 10, 3, 0, "amair_el12"}, {3, 5, 10, 5, 0, "mpam1_el12"}, {3, 5, 12, 0, 0, "vbar_el12"},
	{3, 5, 13, 0, 1, "contextidr_el12"}, {3, 5, 13, 0, 7, "scxtnum_el12"}, {3, 5, 14, 1, 0, "cntkctl_el12"},
	{3, 5, 14, 2, 0, "cntp_tval_el02"}, {3, 5, 14, 2, 1, "cntp_ctl_el02"}, {3, 5, 14, 2, 2, "cntp_cval_el02"},
	{3, 5, 14, 3, 0, "cntv_tval_el02"}, {3, 5, 14, 3, 1, "cntv_ctl_el02"}, {3, 5, 14, 3, 2, "cntv_cval_el02"},
	{3, 6, 1, 0, 0, "sctlr_el3"}, {3, 6, 1, 0, 1, "actlr_el3"}, {3, 6, 1, 1, 0, "scr_el3"},
	{3, 6, 1, 1, 1, "sder32_el3"}, {3, 6, 1, 1, 2, "cptr_el3"}, {3, 6, 1, 2, 0, "zcr_el3"},
	{3, 6, 1, 2, 6, "smcr_el3"}, {3, 6, 1, 3, 1, "mdcr_el3"}, {3, 6, 2, 0, 0, "ttbr0_el3"},
	{3, 6, 2, 0, 2, "tcr_el3"}, {3, 6, 2, 1, 4, "gptbr_el3"}, {3, 6, 2, 1, 6, "gpccr_el3"},
	{3, 6, 4, 0, 0, "spsr_el3"}, {3, 6, 4, 0, 1, "elr_el3"}, {3, 6, 4, 1, 0, "sp_el2"}, {3, 6, 5, 1, 0, "afsr0_el3"},
	{3, 6, 5, 1, 1, "afsr1_el3"}, {3, 6, 5, 2, 0, "esr_el3"}, {3, 6, 5, 6, 0, "tfsr_el3"},
	{3, 6, 6, 0, 0, "far_el3"}, {3, 6, 6, 0, 5, "mfar_el3"}, {3, 6, 10, 2, 0, "mair_el3"},
	{3, 6, 10, 3, 0, "amair_el3"}, {3, 6, 10, 5, 0, "mpam3_el3"}, {3, 6, 12, 0, 0, "vbar_el3"},
	{3, 6, 12, 0, 1, "rvbar_el3"}, {3, 6, 12, 0, 2, "rmr_el3"}, {3, 6, 12, 12, 4, "icc_ctlr_el3"},
	{3, 6, 12, 12, 5, "icc_sre_el3"}, {3, 6, 12, 12, 7, "icc_igrpen1_el3"}, {3, 6, 13, 0, 2, "tpidr_el3"},
	{3, 6, 13, 0, 7, "scxtnum_el3"}, {3, 7, 14, 2, 0, "cntps_tval_el1"}, {3, 7, 14, 2, 1, "cntps_ctl_el1"},
	{3, 7, 14, 2, 2, "cntps_cval_el1"},
}

// a64SystemOps are the instructions that are sys with a name, from the same
// manual's chapter "The A64 System Instruction Class". A name that ends with a
// comma is followed by a register.
var a64SystemOps = []a64System{
	{1, 0, 7, 1, 0, "ic ialluis"}, {1, 0, 7, 5, 0, "ic iallu"}, {1, 0, 7, 6, 1, "dc ivac,"},
	{1, 0, 7, 6, 2, "dc isw,"}, {1, 0, 7, 6, 3, "dc igvac,"}, {1, 0, 7, 6, 4, "dc igsw,"},
	{1, 0, 7, 6, 5, "dc igdvac,"}, {1, 0, 7, 6, 6, "dc igdsw,"}, {1, 0, 7, 8, 0, "at s1e1r,"},
	{1, 0, 7, 8, 1, "at s1e1w,"}, {1, 0, 7, 8, 2, "at s1e0r,"}, {1, 0, 7, 8, 3, "at s1e0w,"},
	{1, 0, 7, 9, 0, "at s1e1rp,"}, {1, 0, 7, 9, 1, "at s1e1wp,"}, {1, 0, 7, 10, 2, "dc csw,"},
	{1, 0, 7, 10, 4, "dc cgsw,"}, {1, 0, 7, 10, 6, "dc cgdsw,"}, {1, 0, 7, 14, 2, "dc cisw,"},
	{1, 0, 7, 14, 4, "dc cigsw,"}, {1, 0, 7, 14, 6, "dc cigdsw,"}, {1, 0, 8, 1, 0, "tlbi vmalle1os"},
	{1, 0, 8, 1, 1, "tlbi vae1os,"}, {1, 0, 8, 1, 2, "tlbi aside1os,"}, {1, 0, 8, 1, 3, "tlbi vaae1os,"},
	{1, 0, 8, 1, 5, "tlbi vale1os,"}, {1, 0, 8, 1, 7, "tlbi vaale1os,"}, {1, 0, 8, 2, 1, "tlbi rvae1is,"},
	{1, 0, 8, 2, 3, "tlbi rvaae1is,"}, {1, 0, 8, 2, 5, "tlbi rvale1is,"}, {1, 0, 8, 2, 7, "tlbi rvaale1is,"},
	{1, 0, 8, 3, 0, "tlbi vmalle1is"}, {1, 0, 8, 3, 1, "tlbi vae1is,"}, {1, 0, 8, 3, 2, "tlbi aside1is,"},
	{1, 0, 8, 3, 3, "tlbi vaae1is,"}, {1, 0, 8, 3, 5, "tlbi vale1is,"}, {1, 0, 8, 3, 7, "tlbi vaale1is,"},
	{1, 0, 8, 5, 1, "tlbi rvae1os,"}, {1, 0, 8, 5, 3, "tlbi rvaae1os,"}, {1, 0, 8, 5, 5, "tlbi rvale1os,"},
	{1, 0, 8, 5, 7, "tlbi rvaale1os,"}, {1, 0, 8, 6, 1, "tlbi rvae1,"}, {1, 0, 8, 6, 3, "tlbi rvaae1,"},
	{1, 0, 8, 6, 5, "tlbi rvale1,"}, {1, 0, 8, 6, 7, "tlbi rvaale1,"}, {1, 0, 8, 7, 0, "tlbi vmalle1"},
	{1, 0, 8, 7, 1, "tlbi vae1,"}, {1, 0, 8, 7, 2, "tlbi aside1,"}, {1, 0, 8, 7, 3, "tlbi vaae1,"},
	{1, 0, 8, 7, 5, "tlbi vale1,"}, {1, 0, 8, 7, 7, "tlbi vaale1,"}, {1, 3, 7, 3, 4, "cfp rctx,"},
	{1, 3, 7, 3, 5, "dvp rctx,"}, {1, 3, 7, 3, 7, "cpp rctx,"}, {1, 3, 7, 4, 1, "dc zva,"},
	{1, 3, 7, 4, 3, "dc gva,"}, {1, 3, 7, 4, 4, "dc gzva,"}, {1, 3, 7, 5, 1, "ic ivau,"},
	{1, 3, 7, 10, 1, "dc cvac,"}, {1, 3, 7, 10, 3, "dc cgvac,"}, {1, 3, 7, 10, 5, "dc cgdvac,"},
	{1, 3, 7, 11, 1, "dc cvau,"}, {1, 3, 7, 12, 1, "dc cvap,"}, {1, 3, 7, 12, 3, "dc cgvap,"},
	{1, 3, 7, 12, 5, "dc cgdvap,"}, {1, 3, 7, 13, 1, "dc cvadp,"}, {1, 3, 7, 13, 3, "dc cgvadp,"},
	{1, 3, 7, 13, 5, "dc cgdvadp,"}, {1, 3, 7, 14, 1, "dc civac,"}, {1, 3, 7, 14, 3, "dc cigvac,"},
	{1, 3, 7, 14, 5, "dc cigdvac,"}, {1, 4, 7, 8, 0, "at s1e2r,"}, {1, 4, 7, 8, 1, "at s1e2w,"},
	{1, 4, 7, 8, 4, "at s12e1r,"}, {1, 4, 7, 8, 5, "at s12e1w,"}, {1, 4, 7, 8, 6, "at s12e0r,"},
	{1, 4, 7, 8, 7, "at s12e0w,"}, {1, 4, 8, 0, 1, "tlbi ipas2e1is,"}, {1, 4, 8, 0, 2, "tlbi ripas2e1is,"},
	{1, 4, 8, 0, 5, "tlbi ipas2le1is,"}, {1, 4, 8, 0, 6, "tlbi ripas2le1is,"}, {1, 4, 8, 1, 0, "tlbi alle2os"},
	{1, 4, 8, 1, 1, "tlbi vae2os,"}, {1, 4, 8, 1, 4, "tlbi alle1os"}, {1, 4, 8, 1, 5, "tlbi vale2os,"},
	{1, 4, 8, 1, 6, "tlbi vmalls12e1os"}, {1, 4, 8, 2, 1, "tlbi rvae2is,"}, {1, 4, 8, 2, 5, "tlbi rvale2is,"},
	{1, 4, 8, 3, 0, "tlbi alle2is"}, {1, 4, 8, 3, 1, "tlbi vae2is,"}, {1, 4, 8, 3, 4, "tlbi alle1is"},
	{1, 4, 8, 3, 5, "tlbi vale2is,"}, {1, 4, 8, 3, 6, "tlbi vmalls12e1is"}, {1, 4, 8, 4, 0, "tlbi ipas2e1os,"},
	{1, 4, 8, 4, 1, "tlbi ipas2e1,"}, {1, 4, 8, 4, 2, "tlbi ripas2e1,"}, {1, 4, 8, 4, 3, "tlbi ripas2e1os,"},
	{1, 4, 8, 4, 4, "tlbi ipas2le1os,"}, {1, 4, 8, 4, 5, "tlbi ipas2le1,"}, {1, 4, 8, 4, 6, "tlbi ripas2le1,"},
	{1, 4, 8, 4, 7, "tlbi ripas2le1os,"}, {1, 4, 8, 5, 1, "tlbi rvae2os,"}, {1, 4, 8, 5, 5, "tlbi rvale2os,"},
	{1, 4, 8, 6, 1, "tlbi rvae2,"}, {1, 4, 8, 6, 5, "tlbi rvale2,"}, {1, 4, 8, 7, 0, "tlbi alle2"},
	{1, 4, 8, 7, 1, "tlbi vae2,"}, {1, 4, 8, 7, 4, "tlbi alle1"}, {1, 4, 8, 7, 5, "tlbi vale2,"},
	{1, 4, 8, 7, 6, "tlbi vmalls12e1"}, {1, 6, 7, 8, 0, "at s1e3r,"}, {1, 6, 7, 8, 1, "at s1e3w,"},
	{1, 6, 7, 14, 1, "dc cipapa,"}, {1, 6, 7, 14, 5, "dc cigdpapa,"}, {1, 6, 8, 1, 0, "tlbi alle3os"},
	{1, 6, 8, 1, 1, "tlbi vae3os,"}, {1, 6, 8, 1, 4, "tlbi paallos"}, {1, 6, 8, 1, 5, "tlbi vale3os,"},
	{1, 6, 8, 2, 1, "tlbi rvae3is,"}, {1, 6, 8, 2, 5, "tlbi rvale3is,"}, {1, 6, 8, 3, 0, "tlbi alle3is"},
	{1, 6, 8, 3, 1, "tlbi vae3is,"}, {1, 6, 8, 3, 5, "tlbi vale3is,"}, {1, 6, 8, 4, 3, "tlbi rpaos,"},
	{1, 6, 8, 4, 7, "tlbi rpalos,"}, {1, 6, 8, 5, 1, "tlbi rvae3os,"}, {1, 6, 8, 5, 5, "tlbi rvale3os,"},
	{1, 6, 8, 6, 1, "tlbi rvae3,"}, {1, 6, 8, 6, 5, "tlbi rvale3,"}, {1, 6, 8, 7, 0, "tlbi alle3"},
	{1, 6, 8, 7, 1, "tlbi vae3,"}, {1, 6, 8, 7, 4, "tlbi paall"}, {1, 6, 8, 7, 5, "tlbi vale3,"},
}
