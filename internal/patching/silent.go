// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package patching

import (
	"bytes"
	"encoding/binary"

	"github.com/textreplay/textreplay/timeline"
)

// entryWords is how far into a BPF program its patchable entry may lie, in
// instructions of four bytes: behind BTI, the saved link register and such.
const entryWords = 4

// SilentPlaces returns the addresses of a BPF program's function, whose code is
// at addr, that its kernel may change in place without a record: what
// bpf_arch_text_poke of an architecture without text poke events patches. arch
// and release are those of uname, such as "aarch64" and "6.12.0". It returns
// the whole function for an unknown architecture.
func SilentPlaces(arch, release string, addr uint64, code []byte) []timeline.Range {
	switch arch {
	case "x86_64":
		return nil // recorded as any other poke
	case "aarch64":
		// The NOP of the entry becomes a BL when something attaches; the PLT at
		// the end (LDR x10, BR x10, and a literal) gets its target then
		// (arch/arm64/net/bpf_jit_comp.c).
		var out []timeline.Range
		for i := 0; i+4 <= len(code) && i < 4*entryWords; i += 4 {
			if binary.LittleEndian.Uint32(code[i:]) == arm64NOP {
				out = append(out, timeline.Range{Lo: addr + uint64(i), Hi: addr + uint64(i) + 4})
			}
		}
		return append(out, UnseenPlaces(arch, addr, code)...)
	case "ppc64le", "ppc64":
		if !Since(release, 6, 13) {
			return nil // bpf_arch_text_poke came with 6.13
		}
	}
	return []timeline.Range{{Lo: addr, Hi: addr + uint64(len(code))}}
}

// UnseenPlaces returns those of SilentPlaces that no probe on the function that maps text sees
// either. On arm64 the kernel makes the page of the PLT writable, and stores its target there
// (bpf_arch_text_poke of arch/arm64/net/bpf_jit_comp.c).
func UnseenPlaces(arch string, addr uint64, code []byte) []timeline.Range {
	plt := []byte{0x4a, 0x00, 0x00, 0x58, 0x40, 0x01, 0x1f, 0xd6}
	i := bytes.LastIndex(code, plt)
	if arch != "aarch64" || i < 0 || i+len(plt) >= len(code) {
		return nil
	}
	return []timeline.Range{{Lo: addr + uint64(i+len(plt)), Hi: addr + uint64(len(code))}}
}
