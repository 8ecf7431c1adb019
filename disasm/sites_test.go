// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package disasm_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// Versions of the places that were ever poked, compared with objdump: all of
// the recordings in testdata, of the large ones all where $TEXTREPLAY_ALL is set
// and else an eighth.
func TestX86Sites(t *testing.T) {
	for name, least := range map[string]int{"small": 240, "rich": 3000, "storm": 50, "modfull": 150, "thunks": 2500} {
		t.Run(name, func(t *testing.T) { compareSites(t, filepath.Join(corpus.Root(), "testdata", name), 1, least) })
	}
	step := uint64(8)
	if os.Getenv("TEXTREPLAY_ALL") != "" {
		step = 1
	}
	for _, name := range []string{"x86_64/storm", "x86_64/rich", "x86_64/local", "x86_64/threads", "x86_64/modfull"} {
		t.Run(name, func(t *testing.T) { compareSites(t, corpus.Large(t, name), step, 10_000) })
	}
}

// compareSites compares the places at every step-th address.
func compareSites(t *testing.T, dir string, step uint64, least int) {
	r, err := replay.Load(filepath.Join(dir, "rec.data"), replay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// Each version with what follows it, and NOPs behind which both
	// disassemblers are in step again.
	const context = 2 * disasm.MaxInst
	var code []byte
	d := disasm.NewX86(t)
	seen := make(map[string]bool)
	add := func(v timeline.View, addr uint64, over []byte) {
		buf := make([]byte, len(over)+context)
		given := max(v.Read(addr, buf).Given, len(over))
		copy(buf, over)
		if buf = buf[:given]; seen[string(buf)] {
			return
		}
		seen[string(buf)] = true
		// The end may cut an instruction off.
		n := 0
		for inst := range d.All(buf, 0, nil) {
			if inst.Data && len(buf)-n < disasm.MaxInst {
				break
			}
			n += len(inst.Bytes)
		}
		buf = buf[:n]
		code = append(append(code, buf...), bytes.Repeat([]byte{0x90}, disasm.MaxInst)...)
	}
	for c := range r.Changes() {
		if p := c.Poke; p != nil && p.Addr*0x9e3779b97f4a7c15>>32%step == 0 {
			if len(p.Old) > 0 {
				add(r.Image.At(max(c.Time, 1)-1), p.Addr, p.Old)
			}
			if len(p.New) > 0 {
				add(r.Image.At(c.Time), p.Addr, p.New)
			}
		}
	}
	if len(seen) < least {
		t.Errorf("%d different versions, want %d or more", len(seen), least)
	}
	n := disasm.CompareX86(t, code, 0, false)
	t.Logf("%d instructions in %d different versions", n, len(seen))
}
