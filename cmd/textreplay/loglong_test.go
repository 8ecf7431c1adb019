// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
)

// TestLogLongCode: of long code, log shows the first instructions and says that there are more, however
// long they are; all bytes behind a trap.
func TestLogLongCode(t *testing.T) {
	nop := []byte{0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0} // as long as one can be
	code := bytes.Repeat(nop, 20)
	trap := append([]byte{0xcc}, code[1:]...)
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.12.0", Order: binary.LittleEndian, Addr: genperf.TextAddr, CPUs: 1,
		Text: bytes.Repeat([]byte{0x90}, 4096), Symbols: []kcore.ELFSymbol{{Addr: genperf.TextAddr, Size: 4096, Name: "f"}}}
	dir := filepath.Join(t.TempDir(), "rec")
	w, err := k.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Poke(2e9, genperf.TextAddr, bytes.Repeat([]byte{0x90}, len(code)), code); err != nil {
		t.Fatal(err)
	}
	if err := w.Poke(3e9, genperf.TextAddr, code, trap); err != nil {
		t.Fatal(err)
	}
	if err := w.End(9e9); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := run([]string{"log", "-i", dir, "--index", "never"}, nil, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	nopText := spaced(nop) + "  data16 data16 data16 data16 data16 cs nopw 0x0(%rax,%rax,1)"
	for _, want := range []string{
		"90  nop; 90  nop; 90  nop; ...  ->  " + strings.Repeat(nopText+"; ", 3) + "...\n",
		strings.Repeat(nopText+"; ", 3) + "...  ->  cc  int3; then " + spaced(code[1:]) + "\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("log has no %q:\n%s", want, out.String())
		}
	}
}
