// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package perfdata

import "bytes"

// A KSymbolKind is the ksym_type of a KSYMBOL record (enum perf_record_ksymbol_type).
type KSymbolKind uint16

// The kinds of symbols.
const (
	KSymbolBPF KSymbolKind = 1 // a BPF program, trampoline or dispatcher
	KSymbolOOL KSymbolKind = 2 // out-of-line code: a page of kprobe slots, an ftrace trampoline
)

// KSymbolUnregister is the bit of KSymbol.Flags that says that the symbol goes
// (PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER); without it the symbol comes.
const KSymbolUnregister = 1

// A KSymbol is a KSYMBOL record: kernel code that comes or goes at run time
// (perf_event_ksymbol of kernel/events/core.c). For Excess see [TextPoke].
type KSymbol struct {
	Addr  uint64
	Len   uint32 // bytes; an upper bound for BPF images that are not programs
	Kind  KSymbolKind
	Flags uint16
	Name  []byte // without its NUL; aliases Record.Raw
	SampleID
	Excess int
}

// IsInterpreted reports whether k is of a BPF program that the kernel interprets, for example because
// it has no JIT. Such a program has no code, no name, and the address of the interpreter
// (perf_event_bpf_emit_ksymbols of kernel/events/core.c).
func (k *KSymbol) IsInterpreted() bool {
	return k.Kind == KSymbolBPF && k.Len == 0 && len(k.Name) == 0
}

const ksymbolName = 24 // offset of the name: header, u64 addr, u32 len, u16 ksym_type, u16 flags

// KSymbol decodes a KSYMBOL record into k, without allocating. The error,
// where the record is too short or its name has no end, is a [*FormatError].
func (r *Recording) KSymbol(rec *Record, k *KSymbol) (err error) {
	raw := rec.Raw
	bodyEnd := ksymbolBody(raw)
	if rec.Type != RecordKSymbol || bodyEnd > len(raw) {
		*k = KSymbol{}
		return r.notA(rec, RecordKSymbol, "record of %d bytes is too short, or its name has no end", len(raw))
	}
	k.Addr = r.endian.u64(raw[8:])
	k.Len = r.endian.u32(raw[16:])
	k.Kind = KSymbolKind(r.endian.u16(raw[20:]))
	k.Flags = r.endian.u16(raw[22:])
	k.Name = untilNUL(raw[ksymbolName:bodyEnd])
	k.Excess, err = r.trailerAt(rec, bodyEnd, &k.SampleID)
	return err
}

// ksymbolBody returns where the trailer begins, beyond raw if the record is
// too short or the name is not terminated.
func ksymbolBody(raw []byte) int {
	if len(raw) < ksymbolName {
		return len(raw) + 1
	}
	n := bytes.IndexByte(raw[ksymbolName:], 0)
	if n < 0 {
		return len(raw) + 1
	}
	return align8(ksymbolName + n + 1)
}
