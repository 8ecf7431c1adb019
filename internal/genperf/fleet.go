// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package genperf

import (
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
)

// A Host is one of many made-up machines that run the same kernel, each loaded at another
// address.
type Host struct {
	Number  int // from 0 on
	Changes int // of its recording
}

const (
	hostText  = 256 << 10 // bytes of text
	hostSites = 500       // places that are patched
	slideStep = 2 << 20   // where kernels are loaded, arch/x86/boot/compressed/kaslr.c
)

// Base returns the address of the host's _text.
func (h *Host) Base() uint64 { return TextAddr + uint64(h.Number%400)*slideStep }

// Name returns the name of the host.
func (h *Host) Name() string { return fmt.Sprintf("host%04d", h.Number) }

// Record writes the recording of the host to the directory dir, which must not exist: sites
// that are switched from NOP to CALL and back, by address, as the function tracer does. One host in ten has a
// kprobe, which no other has.
func (h *Host) Record(dir string) error {
	text := make([]byte, hostText)
	rnd := random(1)                       // the same for all
	for i := 0; i+8 <= len(text); i += 8 { // mov $SMALL,%eax; nops
		copy(text[i:], []byte{0xb8, byte(rnd.next()), byte(rnd.next()), 0, 0, 0x90, 0x90, 0x90})
	}
	var symbols []kcore.ELFSymbol
	site := func(i int) int { return i * (hostText / hostSites) &^ 15 }
	for i := range hostSites {
		at := site(i)
		copy(text[at:], nop5)
		// An absolute address, as in mov $symbol,%rdi.
		copy(text[at+5:], []byte{0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x48, 0xc7, 0xc7})
		binary.LittleEndian.PutUint32(text[at+16:], uint32(h.Base()+uint64(i)<<12))
		copy(text[at+20:], []byte{0x90, 0x90, 0x90, 0x90})
		symbols = append(symbols, kcore.ELFSymbol{Name: fmt.Sprintf("function_%03d", i), Addr: h.Base() + uint64(at)})
	}
	symbols = append([]kcore.ELFSymbol{{Name: "_text", Addr: h.Base()}}, symbols...)
	k := &Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: release, Order: binary.LittleEndian,
		Addr: h.Base(), Text: text, Symbols: symbols, CPUs: 2}
	r, err := k.Record(dir)
	if err != nil {
		return err
	}
	r.WriteFeature(perfdata.FeatureHostname, r.text(h.Name()))
	now := uint64(Copied)
	call := func(i int) []byte {
		return binary.LittleEndian.AppendUint32([]byte{0xe8}, uint32(hostText-site(i)-5-16))
	}
	own := random(h.Number + 2)
	for n := range h.Changes {
		i := n % hostSites
		old, new := nop5, call(i)
		if n/hostSites%2 == 1 {
			old, new = new, old
		}
		now += pokeStep + own.next()%200
		if i == 0 {
			now += togglePause
		}
		if err := r.Poke(now, h.Base()+uint64(site(i)), old, new); err != nil {
			return err
		}
	}
	if h.Number%10 == 0 {
		addr := h.Base() + uint64(site(7)) + 32
		err = r.Poke(now+1e6, addr, text[site(7)+32:][:1], []byte{0xcc})
	}
	return errors.Join(err, r.End(now+1e9))
}
