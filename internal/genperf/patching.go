// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package genperf

import (
	"bytes"
	"debug/elf"
	"encoding/binary"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
)

// Patching are made-up recordings of kernels that record what they patch, by name.
// Only x86 has such kernels; the others show what their mechanisms would look
// like. That of x86 has what no recording of the corpus has.
var Patching = map[string]func(dir string) error{
	"x86_64":  x86,
	"arm64":   func(dir string) error { return arm64(dir, "aarch64", binary.LittleEndian) },
	"arm64be": func(dir string) error { return arm64(dir, "aarch64_be", binary.BigEndian) },
	"ppc64":   func(dir string) error { return ppc64(dir, "ppc64", binary.BigEndian) },
	"ppc64le": func(dir string) error { return ppc64(dir, "ppc64le", binary.LittleEndian) },
	"s390x":   s390x,
}

// A patcher writes a recording of pokes.
type patcher struct {
	*Recorder
	insns ByteOrder // of instructions
	err   error
}

func newPatcher(dir string, k *Kernel, insns ByteOrder) *patcher {
	r, err := k.Record(dir)
	return &patcher{r, insns, err}
}

// ms is a time in milliseconds since the clock's start.
const ms = 1_000_000

// bytes are these words as instructions.
func (p *patcher) bytes(words ...uint32) (b []byte) {
	for _, w := range words {
		b = p.insns.AppendUint32(b, w)
	}
	return b
}

// poke replaces one instruction word by another.
func (p *patcher) poke(time, addr uint64, old, new uint32) {
	p.raw(time, addr, p.bytes(old), p.bytes(new))
}

func (p *patcher) raw(time, addr uint64, old, new []byte) {
	if p.err == nil {
		p.err = p.Poke(time, addr, old, new)
	}
}

func (p *patcher) end(time uint64) error {
	if p.err != nil {
		return p.err
	}
	return p.End(time)
}

// A text is core text that is being made up.
type text struct {
	addr    uint64
	data    []byte
	insns   ByteOrder
	symbols []kcore.ELFSymbol
}

// function puts a function of these words at addr.
func (t *text) function(addr uint64, name string, words ...uint32) {
	t.symbols = append(t.symbols, kcore.ELFSymbol{Name: name, Addr: addr})
	for i, w := range words {
		t.insns.PutUint32(t.data[addr-t.addr+uint64(4*i):], w)
	}
}

func (t *text) datum(addr uint64, name string) {
	t.symbols = append(t.symbols, kcore.ELFSymbol{Name: name, Addr: addr})
}

func newText(addr uint64, fill uint32, insns ByteOrder) *text {
	t := &text{addr: addr, insns: insns, data: make([]byte, 2*4096)}
	for i := 0; i < len(t.data); i += 4 {
		insns.PutUint32(t.data[i:], fill)
	}
	return t
}

// x86 records a traced function whose site becomes a jump, as direct calls with
// FTRACE_OPS_FL_JMP make it (register_ftrace_direct of kernel/trace/ftrace.c,
// Linux 6.19): first a jump to a BPF trampoline that runs programs on entry;
// then a call of another one that runs programs on return too; then the jump
// again. Next to it is a page of ITS thunks (its_alloc of
// arch/x86/kernel/alternative.c, Linux 6.13), which belongs to no symbol and
// which no poke made.
func x86(dir string) error {
	const (
		base     = 0xffffffff81000000
		vfsRead  = base + 0x100
		site     = vfsRead + 4
		entry    = 0xffffffffc0200000 // the trampolines
		both     = 0xffffffffc0200400
		thunks   = 0xffffffffc0300000
		pageSize = 4096
	)
	le := binary.LittleEndian
	t := &text{addr: base, insns: le, data: bytes.Repeat([]byte{opINT3}, 2*pageSize)}
	t.function(base, "startup_64")
	t.function(vfsRead, "vfs_read")
	copy(t.data[vfsRead-base:], "\xf3\x0f\x1e\xfa\x0f\x1f\x44\x00\x00\xc3") // endbr64; nopl; ret
	p := newPatcher(dir, &Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.19.0", Order: le,
		Addr: base, Text: t.data, Symbols: t.symbols, CPUs: 2,
		Beside: []kcore.Segment{{Addr: thunks, Data: bytes.Repeat([]byte("\xff\xe0\xcc\xcc"), pageSize/4)}}}, le) // jmp *%rax
	if p.err != nil {
		return p.err
	}
	to := func(op byte, target uint64) []byte { return le.AppendUint32([]byte{op}, uint32(target-site-5)) }
	image := func(time, addr uint64, flags uint16, name string) {
		p.KSymbol(&perfdata.KSymbol{Addr: addr, Len: pageSize, Kind: perfdata.KSymbolBPF, Flags: flags, Name: []byte(name), SampleID: p.ID(time, 0, 100)})
	}
	const opJMP, opCALL = 0xe9, 0xe8
	image(1900*ms, entry, 0, "bpf_trampoline_1")
	p.raw(2000*ms, site, nop5, to(opJMP, entry))
	image(2400*ms, both, 0, "bpf_trampoline_2")
	p.raw(2500*ms, site, to(opJMP, entry), to(opCALL, both))
	p.raw(3000*ms, site, to(opCALL, both), to(opJMP, entry))
	p.raw(3500*ms, site, to(opJMP, entry), nop5)
	image(3600*ms, both, perfdata.KSymbolUnregister, "bpf_trampoline_2")
	image(3700*ms, entry, perfdata.KSymbolUnregister, "bpf_trampoline_1")
	return p.end(6000 * ms)
}

const opINT3 = 0xcc

// ppc64 records the two-step patching of -mprofile-kernel sites: one that is
// enabled, retargeted and disabled, one whose disabling is not finished, one
// whose steps come in the wrong order; then the sites of a static key at once, a
// kprobe, a prefixed instruction, and a call that was compiled with -pg.
func ppc64(dir, arch string, order ByteOrder) error {
	const (
		base  = 0xc000000000010000
		nop   = 0x60000000
		mflr  = 0x7c0802a6
		blr   = 0x4e800020
		trap  = 0x7fe00008
		std   = 0xfbe1fff8 // std r31,-8(r1)
		ld    = 0xe8410018 // ld r2,24(r1)
		skip  = 0x48000008 // b +8
		key   = 0x48000018 // b +0x18
		addis = 0x3c4c0133 // addis r2,r12,307
		addi  = 0x38420000 // addi r2,r2,0
	)
	const (
		vfsRead     = base + 0x100
		vfsWrite    = base + 0x200
		openat      = base + 0x300
		schedule    = base + 0x400
		prefixed    = base + 0x500
		probed      = base + 0x1600 // in the second page
		pg          = base + 0x700
		caller      = base + 0x800
		regsCaller  = base + 0x880
		first       = 8 // of a site in its function
		second      = 12
		insnPage    = 0xc008000000000000
		insnPageLen = 0x10000
	)
	bl := func(from, to uint64) uint32 { return 0x48000001 | uint32(to-from)&0x03fffffc }
	t := newText(base, nop, order)
	t.function(base, "start_here", blr)
	for _, f := range []struct {
		addr uint64
		name string
	}{{vfsRead, "vfs_read"}, {vfsWrite, "vfs_write"}, {openat, "do_sys_openat2"}} {
		t.function(f.addr, f.name, addis, addi, nop, nop, std, blr)
	}
	t.function(schedule, "schedule", nop, nop, blr)
	t.function(prefixed, "prefixed", 0x06000000, 0x39e00001, blr) // pli r15,1
	t.function(probed, "probed", std, blr)
	t.function(pg, "compiled_with_pg", bl(pg, caller), ld, blr)
	t.function(caller, "ftrace_caller", blr)
	t.function(regsCaller, "ftrace_regs_caller", blr)
	p := newPatcher(dir, &Kernel{Machine: elf.EM_PPC64, Arch: arch, Release: "5.3.0", Order: order,
		Addr: base, Text: t.data, Symbols: t.symbols, CPUs: 2}, order)

	for i, f := range []uint64{vfsRead, vfsWrite} {
		p.poke(2000*ms+uint64(i)*1000, f+first, nop, mflr)
	}
	for i, f := range []uint64{vfsRead, vfsWrite} {
		p.poke(2100*ms+uint64(i)*1000, f+second, nop, bl(f+second, caller))
	}
	p.poke(2500*ms, vfsRead+second, bl(vfsRead+second, caller), bl(vfsRead+second, regsCaller))
	p.poke(3000*ms, vfsRead+second, bl(vfsRead+second, regsCaller), nop)
	p.poke(3000*ms+1000, vfsWrite+second, bl(vfsWrite+second, caller), nop)
	p.poke(3050*ms, vfsRead+first, mflr, nop)
	p.poke(3500*ms, openat+second, nop, bl(openat+second, caller))
	p.poke(3600*ms, openat+first, nop, mflr)
	for i := range uint64(3) { // one key
		p.poke(4000*ms, schedule+0x20*i, nop, key)
	}
	for i := range uint64(3) {
		p.poke(4200*ms+1000*i, schedule+0x20*i, key, nop)
	}
	p.poke(4500*ms, probed, std, trap)
	p.poke(4600*ms, probed, trap, std)
	p.raw(4700*ms, prefixed, p.bytes(0x06000000, 0x39e00001), p.bytes(0x06000000, 0x39e00002))
	p.poke(4800*ms, pg, bl(pg, caller), skip)
	p.poke(4900*ms, pg, skip, bl(pg, caller))
	p.KSymbol(&perfdata.KSymbol{Addr: insnPage, Len: insnPageLen, Kind: perfdata.KSymbolOOL,
		Name: []byte("kprobe_insn_page"), SampleID: p.ID(5000*ms, 0, 100)})
	p.raw(5000*ms+1, insnPage, nil, p.bytes(std, trap))
	return p.end(6000 * ms)
}

// arm64 records the patching of functions whose ftrace_ops pointer is before
// them: one is traced, moved from one ops to another, and let go; then the
// sites of a static key at once, a kprobe, and a change by way of a BRK.
func arm64(dir, arch string, order ByteOrder) error {
	const (
		base    = 0xffff800080010000
		nop     = 0xd503201f
		movx9   = 0xaa1e03e9 // mov x9,x30
		paciasp = 0xd503233f
		ret     = 0xd65f03c0
		brk0    = 0xd4200000
		brk4    = 0xd4200080
		b24     = 0x14000006 // b +0x18
		btic    = 0xd503245f
	)
	const (
		vfsRead  = base + 0x108
		vfsWrite = base + 0x208
		schedule = base + 0x400
		probed   = base + 0x600
		nosync   = base + 0x700
		caller   = base + 0x800
		pool     = base + 0x900
		nopOps   = 0xffff800081c00000
		global   = 0xffff800081c00100
		list     = 0xffff800081c00200
		heap     = 0xfff00000c1fe0c00 // an instance's own
	)
	bl := func(from, to uint64) uint32 { return 0x94000000 | uint32(to-from)>>2&0x03ffffff }
	insns := binary.LittleEndian // whatever the kernel's data are
	t := newText(base, nop, insns)
	t.function(base, "primary_entry", ret)
	t.function(vfsRead, "vfs_read", movx9, nop, paciasp, ret)
	t.function(vfsWrite, "vfs_write", btic, movx9, nop, paciasp, ret)
	for _, f := range []uint64{vfsRead, vfsWrite} {
		order.PutUint64(t.data[f-8-base:], nopOps)
	}
	t.function(schedule-8, "before_schedule", ret, ret) // code, as its words say
	t.function(schedule, "schedule", nop, nop, ret)
	t.function(pool, "with_constants", nop, nop, nop, nop, movx9, nop, ret)
	order.PutUint64(t.data[pool+8-base:], global) // before what looks like an entry, and is none
	t.function(probed, "probed", movx9, ret)
	t.function(nosync, "nosync", nop, ret)
	t.function(caller, "ftrace_caller", ret)
	t.datum(nopOps, "ftrace_nop_ops")
	t.datum(global, "global_ops")
	t.datum(list, "ftrace_list_ops")
	p := newPatcher(dir, &Kernel{Machine: elf.EM_AARCH64, Arch: arch, Release: "6.12.0", Order: order,
		Addr: base, Text: t.data, Symbols: t.symbols, CPUs: 2}, insns)
	ops := func(time, f, old, new uint64) {
		p.raw(time, f-8, order.AppendUint64(nil, old), order.AppendUint64(nil, new))
	}
	ops(2000*ms, vfsRead, nopOps, global)
	p.poke(2000*ms+1000, vfsRead+4, nop, bl(vfsRead+4, caller))
	ops(2500*ms, vfsRead, global, list) // moved: the literal alone
	ops(2600*ms, vfsRead, list, heap)
	p.poke(3000*ms, vfsRead+4, bl(vfsRead+4, caller), nop)
	ops(3000*ms+1000, vfsRead, heap, nopOps)
	for i := range uint64(3) { // one key
		p.poke(4000*ms, schedule+0x20*i, nop, b24)
	}
	for i := range uint64(3) {
		p.poke(4200*ms+1000*i, schedule+0x20*i, b24, nop)
	}
	p.poke(4500*ms, probed, movx9, brk4)
	p.poke(4600*ms, probed, brk4, movx9)
	p.poke(4700*ms, nosync, nop, brk0)
	p.poke(4701*ms, nosync, brk0, b24)
	return p.end(6000 * ms)
}

// s390x records the sites of a static key at once, and a kprobe.
func s390x(dir string) error {
	const (
		base     = 0x3ffe0010000
		nop      = 0x07070707 // two of nopr %r7
		schedule = base + 0x400
		probed   = base + 0x600
	)
	order := binary.BigEndian
	t := newText(base, nop, order)
	t.function(base, "startup_continue", 0x07fe0707)
	off, on := []byte{0xc0, 0x04, 0, 0, 0, 0x10}, []byte{0xc0, 0xf4, 0, 0, 0, 0x10} // brcl 0 and 15
	t.function(schedule, "schedule")
	for i := range 3 {
		copy(t.data[0x400+0x20*i:], off)
	}
	stmg := []byte{0xeb, 0x6f, 0xf0, 0x48, 0x00, 0x24}
	t.function(probed, "probed")
	copy(t.data[0x600:], stmg)
	p := newPatcher(dir, &Kernel{Machine: elf.EM_S390, Arch: "s390x", Release: "6.12.0", Order: order,
		Addr: base, Text: t.data, Symbols: t.symbols, CPUs: 2}, order)
	for i := range uint64(3) {
		p.raw(4000*ms, schedule+0x20*i, off, on)
	}
	for i := range uint64(3) {
		p.raw(4200*ms+1000*i, schedule+0x20*i, on, off)
	}
	p.raw(4500*ms, probed, stmg[:2], []byte{0, 2})
	p.raw(4600*ms, probed, []byte{0, 2}, stmg[:2])
	return p.end(6000 * ms)
}
