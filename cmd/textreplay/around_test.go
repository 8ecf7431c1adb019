// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/elf"
	"encoding/binary"
	"path/filepath"
	"testing"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/timeline/replay"
)

// TestAround: an instruction behind the padding of a return is found; one behind another
// trap is not.
func TestAround(t *testing.T) {
	text := make([]byte, 4096)
	copy(text, "\x74\x05\xc3\xcc\xcc\xcc\xcc\xe8\x00\x00\x00\x00\xc3") // je; ret and padding; call
	copy(text[64:], "\x55\xcc\x89\xe5\xe8\x00\x00\x00\x00\xc3")        // a probe in a move
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.1.0", Order: binary.LittleEndian, Addr: genperf.TextAddr, Text: text, CPUs: 1,
		Symbols: []kcore.ELFSymbol{{Name: "padded", Addr: genperf.TextAddr}, {Name: "probed", Addr: genperf.TextAddr + 64}, {Name: "end", Addr: genperf.TextAddr + 128}}}
	dir := filepath.Join(t.TempDir(), "rec")
	rec, err := k.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.End(genperf.Copied + 1e9); err != nil {
		t.Fatal(err)
	}
	r, err := replay.Load(dir, replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c, err := newCoder(r)
	if err != nil {
		t.Fatal(err)
	}
	v := r.Image.At(r.Report.First)
	if in, ok := c.around(v, genperf.TextAddr+11); !ok || in.Addr != genperf.TextAddr+7 || len(in.Bytes) != 5 {
		t.Errorf("behind padding: %+v %v, want the call", in, ok)
	}
	if in, ok := c.around(v, genperf.TextAddr+64+8); ok {
		t.Errorf("behind a probe: %+v", in)
	}
}
