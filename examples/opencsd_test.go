// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package examples

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
)

// Instructions of arm64.
const (
	armNOP = 0xd503201f
	armRET = 0xd65f03c0
	armADD = 0x91000400 // add x0, x0, #1
)

func armB(words int) uint32    { return 0x14000000 | uint32(words)&0x3ffffff }
func armCBNZ(words int) uint32 { return 0xb5000002 | uint32(words)&0x7ffff<<5 } // x2

// TestOpenCSD: an arm64 CPU runs functions whose first instruction changes between NOP and B
// while it does. What OpenCSD decodes from its trace through the C library is what ran; with
// the text of one time it is not.
func TestOpenCSD(t *testing.T) {
	exe := csdecode(t)
	const base = uint64(0xffff800080000000)
	const functions, size = 64, 256 // functions of 256 bytes, in four pages
	text := make([]byte, functions*size)
	for i := range len(text) / 4 {
		binary.LittleEndian.PutUint32(text[4*i:], armNOP)
	}
	// site: nop or b 1f; add; b 2f; 1: nop; 2: cbnz x2, site; ret
	code := []uint32{armNOP, armADD, armB(2), armNOP, armCBNZ(-4), armRET}
	k := &genperf.Kernel{Machine: elf.EM_AARCH64, Arch: "aarch64", Release: "6.12.0", Order: binary.LittleEndian, Addr: base, CPUs: 1}
	for f := range functions {
		for i, w := range code {
			binary.LittleEndian.PutUint32(text[f*size+4*i:], w)
		}
		k.Symbols = append(k.Symbols, kcore.ELFSymbol{Name: fmt.Sprintf("f%d", f), Addr: base + uint64(f*size)})
	}
	k.Text = bytes.Clone(text)
	dir := filepath.Join(t.TempDir(), "rec.data")
	rec, err := k.Record(dir)
	if err != nil {
		t.Fatal(err)
	}

	word := func(w uint32) []byte { return binary.LittleEndian.AppendUint32(nil, w) }
	rng := rand.New(rand.NewPCG(3, 4))
	const start = 2_000_000_000
	now := uint64(start)
	enc := &etmEncoder{etmForm: etmForm{atoms: 1}}
	var want []byte
	run := func(addr uint64) {
		want = binary.LittleEndian.AppendUint64(want, addr)
		want = append(want, text[addr-base:][:4]...)
	}
	pokes := 0
	for step := range 5000 {
		f := rng.IntN(functions)
		site := base + uint64(f*size)
		if step == 0 {
			enc.sync(now, site, true)
		} else {
			enc.address(site) // where the last RET leads
		}
		// Once in a while a change, of this function or of another.
		if rng.IntN(4) == 0 {
			now += 1000
			g := rng.IntN(functions)
			if rng.IntN(2) == 0 {
				g = f
			}
			old := bytes.Clone(text[g*size:][:4])
			next := word(armB(3))
			if !bytes.Equal(old, word(armNOP)) {
				next = word(armNOP)
			}
			if err := rec.Poke(now, base+uint64(g*size), old, next); err != nil {
				t.Fatal(err)
			}
			copy(text[g*size:], next)
			pokes++
		}
		now += 1000
		enc.timestamp(now)
		for again := true; again; {
			run(site)
			if bytes.Equal(text[f*size:][:4], word(armNOP)) {
				run(site + 4)
				run(site + 8)
				enc.atom(true)
			} else {
				enc.atom(true)
				run(site + 12)
			}
			run(site + 16)
			again = rng.IntN(3) == 0
			enc.atom(again)
		}
		run(site + 20)
		enc.atom(true)
	}
	enc.address(base)
	if err := rec.End(now + 1_000_000); err != nil {
		t.Fatal(err)
	}
	trace := filepath.Join(t.TempDir(), "etm.bin")
	if err := os.WriteFile(trace, enc.out, 0o600); err != nil {
		t.Fatal(err)
	}
	stream := filepath.Join(t.TempDir(), "stream")
	decode := func(flags ...string) ([]byte, string) {
		out, err := exec.Command(exe, append(flags, "-n", "-o", stream, dir, trace)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		got, err := os.ReadFile(stream)
		if err != nil {
			t.Fatal(err)
		}
		return got, string(out)
	}
	got, out := decode()
	t.Logf("%d changes, %d instructions; %s", pokes, len(want)/12, out)
	if !bytes.Equal(got, want) {
		i := 0
		for i+12 <= min(len(got), len(want)) && bytes.Equal(got[i:i+12], want[i:i+12]) {
			i += 12
		}
		t.Errorf("instruction %d of %d differs: decoded %x, executed %x", i/12, len(want)/12, got[i:min(i+36, len(got))], want[i:min(i+36, len(want))])
	}
	if !strings.Contains(out, " 0 errors") {
		t.Error("errors")
	}
	if plain, out := decode("-p"); bytes.Equal(plain, want) {
		t.Errorf("the text of one time gives the same: %s", out)
	}
}

// TestOpenCSDEnd: the address with which a trace ends says that the instruction before it was one that
// needs an address, as each address does.
func TestOpenCSDEnd(t *testing.T) {
	exe := csdecode(t)
	const base, began = uint64(0xffff800080000000), uint64(2_000_000_000)
	// site: nop or b 1f; cbnz x2, next; cbnz x2, next; 1: ret
	code := []uint32{armNOP, armCBNZ(1), armCBNZ(1), armRET}
	k := &genperf.Kernel{Machine: elf.EM_AARCH64, Arch: "aarch64", Release: "6.12.0", Order: binary.LittleEndian, Addr: base, CPUs: 1,
		Text: make([]byte, 4096), Symbols: []kcore.ELFSymbol{{Name: "f", Addr: base}}}
	word := func(w uint32) []byte { return binary.LittleEndian.AppendUint32(nil, w) }
	for i, w := range code {
		copy(k.Text[4*i:], word(w))
	}
	dir := filepath.Join(t.TempDir(), "rec.data")
	rec, err := k.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(rec.Poke(began+500, base, word(armNOP), word(armB(3))), rec.End(began+1e6)); err != nil {
		t.Fatal(err)
	}
	enc := &etmEncoder{etmForm: etmForm{atoms: 3}}
	var want []byte
	run := func(i int, w uint32) {
		want = append(binary.LittleEndian.AppendUint64(want, base+uint64(4*i)), word(w)...)
	}
	enc.sync(began, base, true)
	for range 3 {
		for i, w := range code {
			run(i, w)
		}
		for _, taken := range []bool{false, false, true} {
			enc.atom(taken)
		}
		enc.address(base)
	}
	run(0, armB(3))
	run(3, armRET)
	enc.atom(true)
	enc.atom(true)
	enc.address(base)
	enc.timestamp(began + 1000)
	trace, stream := filepath.Join(t.TempDir(), "etm.bin"), filepath.Join(t.TempDir(), "stream")
	if err := os.WriteFile(trace, enc.out, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(exe, "-n", "-o", stream, dir, trace).CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte(" 0 errors")) {
		t.Fatalf("%v\n%s", err, out)
	}
	if got, err := os.ReadFile(stream); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v: decoded\n%x, executed\n%x", err, got, want)
	}
}
