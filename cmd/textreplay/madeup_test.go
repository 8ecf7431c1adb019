// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
)

// madeUp writes the recording of a kernel with this text, which functions cut into pieces of 32
// bytes, and returns its name.
func madeUp(t *testing.T, text []byte, without perfdata.SampleType, fill func(w *genperf.Recorder), functions ...string) string {
	t.Helper()
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.1.0", Order: binary.LittleEndian, Addr: genperf.TextAddr,
		Text: append(text, bytes.Repeat([]byte{0x90}, 4096-len(text))...), CPUs: 1, Without: without}
	for i, name := range append(functions, "end") {
		k.Symbols = append(k.Symbols, kcore.ELFSymbol{Name: name, Addr: genperf.TextAddr + 32*uint64(i)})
	}
	rec := filepath.Join(t.TempDir(), "rec.data")
	w, err := k.Record(rec)
	if err != nil {
		t.Fatal(err)
	}
	fill(w)
	if err := w.End(9e9 + 1); err != nil { // so the clock does not look like one that counts ticks
		t.Fatal(err)
	}
	return rec
}

// answered returns what a command prints to standard output, and its exit code.
func answered(t *testing.T, stdin string, args ...string) (string, int) {
	t.Helper()
	var out, errs bytes.Buffer
	code := run(append(args, "--index", "never"), strings.NewReader(stdin), &out, &errs)
	if code > exitBelow {
		t.Fatalf("%v: exit code %d: %s", args, code, &errs)
	}
	return out.String(), code
}

// TestOopsTwins: of two functions with one name and one size, a trace means the one in which a
// call ends at the return address, if only one has such a call.
func TestOopsTwins(t *testing.T) {
	call := []byte{0xe8, 0, 0, 0, 0}
	for _, c := range []struct {
		name          string
		first, second int // offset of a call
		line, want    string
	}{
		{"one calls", 11, 0, " twin+0x10/0x20", "ffffffff81000010 <twin+0x10>: known  e8 00 00 00 00  call"},
		{"the other calls", 0, 11, " twin+0x10/0x20", "ffffffff81000030 <twin+0x10>: known  e8 00 00 00 00  call"},
		{"both call", 11, 11, " twin+0x10/0x20", "the name is ambiguous"},
		{"neither calls", 0, 0, " twin+0x10/0x20", "the name is ambiguous"},
		{"a word on the stack", 11, 0, " ? twin+0x10/0x20", "the name is ambiguous"},
		{"not a return address", 11, 0, " RIP: 0010:twin+0x10/0x20", "the name is ambiguous"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := bytes.Repeat([]byte{0x90}, 64)
			if c.first > 0 {
				copy(text[c.first:], call)
			}
			if c.second > 0 {
				copy(text[32+c.second:], call)
			}
			rec := madeUp(t, text, 0, func(*genperf.Recorder) {}, "twin", "twin")
			out, _ := answered(t, "[    2.000000] Call Trace:\n[    2.000000]  <TASK>\n[    2.000000] "+c.line+"\n[    2.000000]  </TASK>\n", "oops", "-i", rec)
			if !strings.Contains(out, c.want) {
				t.Errorf("it does not say %q:\n%s", c.want, out)
			}
		})
	}
}

// TestOopsManyVersions: if a place has more versions than are looked at, oops says so, and finds no
// difference that a later version may not have.
func TestOopsManyVersions(t *testing.T) {
	usual := maxVersions
	t.Cleanup(func() { maxVersions = usual })
	maxVersions = 3
	content := func(i int) []byte { return []byte{0xe8, byte(i), 0, 0, 0} }
	rec := madeUp(t, content(0), 0, func(w *genperf.Recorder) {
		for i := range 6 {
			if err := w.Poke(2e9+1e8*uint64(i), genperf.TextAddr, content(i), content(i+1)); err != nil {
				t.Fatal(err)
			}
		}
	}, "f")
	// Without times, all of the recording is looked at.
	for i, want := range map[int]string{
		1: "Code: equal to the text",
		5: "Code: cannot be proved by the text",
	} {
		log := fmt.Sprintf("BUG: x\nRIP: 0010:f+0x0/0x20\nCode: <%02x> %02x 00 00 00\nCall Trace:\n f+0x5/0x20\n", 0xe8, i)
		out, code := answered(t, log, "oops", "-i", rec)
		if !strings.Contains(out, want) || strings.Contains(out, "differs") || (code == exitBelow) != (i == 5) ||
			!strings.Contains(out, "(and 2 later versions in this interval, and more that were not looked at)") ||
			strings.Contains(out, "compared with the first 3 versions of this interval") != (i == 5) {
			t.Errorf("exit code %d: %s", code, out)
		}
		out, _ = answered(t, log, "oops", "-i", rec, "--json")
		if n := strings.Count(out, `"versions_cut":true`); n < 2 {
			t.Errorf("%d lines say so: %s", n, out)
		}
	}
}

// TestExplainWriter: audit --explain prints the writer and the CPU only if they were recorded.
func TestExplainWriter(t *testing.T) {
	for without, want := range map[perfdata.SampleType][2]string{
		0:                                       {"cpu 0  patcher[100]  ", `"cpu":0,"tid":100,"comm":"patcher"`},
		perfdata.SampleTID:                      {"cpu 0  writer not recorded  ", `"cpu":0,"tid":null,"comm":null`},
		perfdata.SampleCPU:                      {"2.000000000  patcher[100]  ", `"cpu":null,"tid":100,"comm":"patcher"`},
		perfdata.SampleTID | perfdata.SampleCPU: {"2.000000000  writer not recorded  ", `"cpu":null,"tid":null,"comm":null`},
	} {
		rec := madeUp(t, []byte{0x0f, 0x1f, 0x44, 0, 0}, without, func(w *genperf.Recorder) {
			if err := w.Poke(2e9, genperf.TextAddr, []byte{0x0f, 0x1f, 0x44, 0, 0}, []byte{0xeb, 3, 0x44, 0, 0}); err != nil {
				t.Fatal(err)
			}
		}, "f")
		if out, _ := answered(t, "", "audit", "-i", rec, "--explain", "0", "eb03"); !strings.Contains(out, want[0]) {
			t.Errorf("%b: it does not say %q:\n%s", without, want[0], out)
		}
		if out, _ := answered(t, "", "audit", "-i", rec, "--explain", "0", "eb03", "--json"); !strings.Contains(out, want[1]) {
			t.Errorf("%b: it does not say %q:\n%s", without, want[1], out)
		}
	}
}

// TestUnrecordedInside: an unrecorded change of some bytes of an instruction is shown as one of the
// instruction.
func TestUnrecordedInside(t *testing.T) {
	jump := func(to byte) []byte { return []byte{0xe9, to, 0, 0, 0} }
	text := append(append([]byte{0x55}, jump(0x10)...), 0xc3)
	rec := madeUp(t, text, 0, func(w *genperf.Recorder) {
		// A probe, so that the first byte has changes of its own.
		for i, b := range []byte{0xe9, 0xcc} {
			if err := w.Poke(1.8e9+1e8*uint64(i), genperf.TextAddr+1, []byte{b}, []byte{b ^ 0xe9 ^ 0xcc}); err != nil {
				t.Fatal(err)
			}
		}
		// Between the two somebody wrote another target.
		if err := w.Poke(2e9, genperf.TextAddr+1, jump(0x10), jump(0x14)); err != nil {
			t.Fatal(err)
		}
		if err := w.Poke(3e9, genperf.TextAddr+1, jump(0x15), jump(0x10)); err != nil {
			t.Fatal(err)
		}
	}, "f")
	out, code := answered(t, "", "audit", "-i", rec)
	const want = "<f+0x2>: e9 14 00 00 00  jmp ffffffff8100001a <f+0x1a>  ->  e9 15 00 00 00  jmp ffffffff8100001b <f+0x1b>"
	if code != exitBelow || !strings.Contains(out, want) {
		t.Errorf("it does not say %q:\n%s", want, out)
	}
}

// TestInfoClocks: info says by how much clocks are seen to differ and may differ, or that nothing shows whether they do.
func TestInfoClocks(t *testing.T) {
	for _, c := range []struct {
		name         string
		cpus         int
		differ       bool
		want, refuse string
	}{
		{"seen", 2, true, "Clocks: the CPUs' clocks differ by at least 5ms; a time within 50ms of a change may be before or after it", "no TIME_CONV)"},
		{"unseen", 2, false, "(it has no TIME_CONV); else a time of another CPU within 50 ms of a change may be on its other side", "Clocks:"},
		{"one CPU", 1, false, "CPUs' clocks differ by 50 ms at most", "(it has no TIME_CONV)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.1.0", Order: binary.LittleEndian, Addr: genperf.TextAddr,
				Text: bytes.Repeat([]byte{0x90}, 4096), CPUs: c.cpus}
			rec := filepath.Join(t.TempDir(), "rec.data")
			w, err := k.Record(rec)
			if err != nil {
				t.Fatal(err)
			}
			poke := func(time uint64, cpu uint32, old, new byte) {
				err := w.TextPoke(&perfdata.TextPoke{Addr: genperf.TextAddr + 16, Old: []byte{0x90, old}, New: []byte{0x90, new}, SampleID: w.ID(time, cpu, 100)})
				if err != nil {
					t.Fatal(err)
				}
			}
			poke(2e9, 0, 0x90, 1)
			if c.differ {
				poke(2_995_000_000, 1, 2, 3) // it was made after the next one
				poke(3e9, 0, 1, 2)
			}
			if err := w.End(9e9 + 1); err != nil {
				t.Fatal(err)
			}
			if got, _ := answered(t, "", "info", "-i", rec); !strings.Contains(got, c.want) || strings.Contains(got, c.refuse) {
				t.Errorf("want %q and not %q in\n%s", c.want, c.refuse, got)
			}
		})
	}
}
