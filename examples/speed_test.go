// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package examples

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
)

var speed = flag.Bool("speed", false, "measure the libipt adapter with long traces")

// TestLibiptSpeed: what decoding through the adapter costs over libipt with a file section.
// It measures with -speed, in CPU time; otherwise it only decodes, from short traces. The
// bounds are tight for a machine that does other things, too: ptbench repeats a run that is
// above one.
//
//	go test ./examples -run TestLibiptSpeed -speed -v
func TestLibiptSpeed(t *testing.T) {
	exe := compile(t, "ptbench", "intel-pt.h", "libipt/ptbench.c", "libipt/textreplay_ipt.c", "-lipt")
	visits := 20_000
	if *speed {
		visits = 1_000_000
	}
	for _, c := range []struct {
		name    string
		hot     bool // 64 functions; else all of 16 MiB
		changes bool // one page in a hundred changes as in x86_64/storm; else none does
		bound   float64
	}{
		{"hot", true, false, 1.1},
		{"spread", false, false, 1.1},
		{"hot, changes", true, true, 1.25},
		{"spread, changes", false, true, 1.25},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			made := makeSpeed(t, dir, visits, c.hot, c.changes)
			args := []string{made.rec, made.trace, made.text, fmt.Sprintf("%x", uint64(genperf.TextAddr))}
			if *speed {
				args = append(args, fmt.Sprint(c.bound))
			}
			out, err := exec.Command(exe, args...).CombinedOutput()
			t.Logf("%d pokes\n%s", made.pokes, out)
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

type speedFiles struct {
	rec, trace, text string
	pokes            int
}

// makeSpeed makes 16 MiB of functions, a recording in which some change, and a trace of them
// being called. A change is from NOP to a JMP to the next instruction and back: it does not
// change the path, so plain libipt can decode the trace too.
//
// x86_64/storm has 338 pokes for each page of text in 114 s, and this recording as many for
// each page that changes, in the time that the trace takes.
func makeSpeed(t *testing.T, dir string, visits int, hot, changes bool) speedFiles {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const size, functions = 256, 16 << 20 / 256
	const perPage = 4096 / size
	const start, duration = 12_000_000_000, 114_000_000_000
	nop, jmp := []byte{0x0f, 0x1f, 0x44, 0, 0}, []byte{0xe9, 0, 0, 0, 0}
	// site; mov, add; loop: add, cmp, test; je +4 over a lea; dec; jne loop; call-less work; ret
	code := append(bytes.Clone(nop),
		0x48, 0x89, 0xf8, // mov %rdi,%rax
		0x48, 0x01, 0xf0, // add %rsi,%rax
		// loop:
		0x48, 0x83, 0xc0, 0x01, // add $1,%rax
		0x48, 0x39, 0xd0, // cmp %rdx,%rax
		0x74, 0x04, // je over
		0x48, 0x8d, 0x40, 0x08, // lea 8(%rax),%rax
		// over:
		0xff, 0xc9, // dec %ecx
		0x75, 0xef, // jne loop
		0x48, 0x85, 0xc0, // test %rax,%rax
		0x0f, 0x84, 0x06, 0, 0, 0, // je out
		0x48, 0x31, 0xc0, // xor %rax,%rax
		0x48, 0xff, 0xc0, // inc %rax
		// out:
		0xc3)
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.12.0", Order: binary.LittleEndian, Addr: genperf.TextAddr, CPUs: 1}
	k.Text = bytes.Repeat([]byte{0xcc}, functions*size)
	for f := range functions {
		copy(k.Text[f*size:], code)
		k.Symbols = append(k.Symbols, kcore.ELFSymbol{Name: fmt.Sprintf("f%d", f), Addr: genperf.TextAddr + uint64(f*size)})
	}
	files := speedFiles{filepath.Join(dir, "rec.data"), filepath.Join(dir, "trace"), filepath.Join(dir, "text"), 0}
	must(os.WriteFile(files.text, k.Text, 0o600))
	rec, err := k.Record(files.rec)
	must(err)
	// TIME_CONV: the counter counts nanoseconds.
	conv := binary.LittleEndian.AppendUint32(nil, 79)
	conv = binary.LittleEndian.AppendUint32(conv, 32<<16)
	for _, v := range []uint64{0, 1, 0} {
		conv = binary.LittleEndian.AppendUint64(conv, v)
	}
	must(rec.WriteRecord(conv))
	if changes {
		state := nop
		const toggles = 338 / perPage
		for i := range toggles {
			next := jmp
			if i%2 == 1 {
				next = nop
			}
			at := uint64(start + duration/toggles*i + 1_000_000)
			// The writer does other things around, as the shell that sets current_tracer does.
			idle := func() {
				at += 1_000_000
				must(rec.Comm(0, &perfdata.Comm{PID: 100, TID: 100, Comm: []byte("tracer"), SampleID: rec.ID(at, 0, 100)}))
				at += 1_000_000
			}
			idle()
			for page := 50; page < functions/perPage; page += 100 {
				for f := range perPage {
					at += 2000
					must(rec.Poke(at, genperf.TextAddr+uint64(page*4096+f*size), state, next))
					files.pokes++
				}
			}
			idle()
			state = next
		}
	}
	must(rec.End(start + duration + 1_000_000_000))

	rng := rand.New(rand.NewPCG(5, 6))
	e := &traceEncoder{traceForm: traceForm{tnt: 6, tsc: 100_000, psb: 1 << 16}}
	at := uint64(start)
	target := func() uint64 {
		f := rng.IntN(functions)
		if hot {
			// Four pages; one may change.
			f = 49*perPage + f%(4*perPage)
		}
		return genperf.TextAddr + uint64(f*size)
	}
	next := target()
	e.sync(at, next)
	for range visits {
		at += duration / uint64(visits)
		for again := true; again; {
			e.branch(at, rng.IntN(4) == 0)
			again = rng.IntN(4) > 0
			e.branch(at, again)
		}
		e.branch(at, rng.IntN(8) == 0)
		next = target()
		e.address(at, packetTIP, next)
		if len(e.out)-e.lastSync > e.psb {
			e.sync(at, next)
		}
	}
	must(os.WriteFile(files.trace, e.out, 0o600))
	return files
}
