// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

const unregister = perfdata.KSymbolUnregister

// TestFindings: each small recording has one contradiction.
func TestFindings(t *testing.T) {
	const bpf, ool = perfdata.KSymbolBPF, perfdata.KSymbolOOL
	for _, tt := range []struct {
		name string
		tape func(w *tape)
		want []string
	}{
		{"no contradiction", func(w *tape) {
			w.ksymbol(10, 0, 0x9000, 16, bpf, 0, "bpf_prog_11_there")
			w.bpfLoad(10, 0, 1)
			w.ksymbol(10, 300, 0x9100, 16, bpf, 0, "bpf_prog_22_main")
			w.ksymbol(10, 301, 0x9200, 16, bpf, 0, "bpf_prog_33_sub")
			w.bpfLoad(10, 302, 2)
			w.ksymbol(10, 400, 0x9100, 16, bpf, unregister, "bpf_prog_22_main")
			w.ksymbol(10, 401, 0x9200, 16, bpf, unregister, "bpf_prog_33_sub")
			w.bpfUnload(10, 402, 2)
			w.ksymbol(10, 500, 0x9108, 16, bpf, 0, "bpf_prog_44_next")
			w.bpfLoad(10, 501, 3)
			w.ksymbol(10, 600, 0, 0, bpf, 0, "") // interpreted
			w.bpfLoad(10, 601, 4)
		}, nil},
		{"registered over a program that was not unregistered", func(w *tape) {
			w.ksymbol(10, 300, 0x9000, 16, bpf, 0, "bpf_prog_11_a")
			w.bpfLoad(10, 301, 1)
			w.ksymbol(11, 400, 0x9008, 16, bpf, 0, "bpf_prog_22_b")
			w.bpfLoad(11, 401, 2)
		}, []string{"birth-over-live 400 0x9008+16 bpf_prog_22_b over bpf_prog_11_a since 300"}},
		{"the unregistration may be lost", func(w *tape) {
			w.ksymbol(10, 300, 0x9000, 16, bpf, 0, "bpf_prog_11_a")
			w.bpfLoad(10, 301, 1)
			w.lost(10, 350, 2)
			w.lostSamples(10, 2)
			w.ksymbol(11, 400, 0x9008, 16, bpf, 0, "bpf_prog_22_b")
			w.bpfLoad(11, 401, 2)
		}, []string{"birth-over-live 400 0x9008+16 bpf_prog_22_b over bpf_prog_11_a since 300, excused"}},
		{"an image's length is an upper bound, on both sides", func(w *tape) {
			w.ksymbol(10, 300, 0x9000, 4096, bpf, 0, "bpf_trampoline_1")
			w.ksymbol(10, 310, 0x9800, 4096, bpf, 0, "bpf_trampoline_2")
			w.ksymbol(10, 320, 0x9400, 64, bpf, 0, "bpf_prog_11_a")
			w.bpfLoad(10, 321, 1)
			w.ksymbol(10, 330, 0x9300, 4096, bpf, 0, "bpf_trampoline_3")
		}, nil},
		{"an image at the same place", func(w *tape) {
			w.ksymbol(10, 300, 0x9000, 4096, bpf, 0, "bpf_trampoline_1")
			w.ksymbol(10, 310, 0x9000, 4096, bpf, 0, "bpf_trampoline_2")
		}, []string{"birth-over-live 310 0x9000+4096 bpf_trampoline_2 over bpf_trampoline_1 since 300"}},
		{"unregistered without a registration", func(w *tape) {
			w.ksymbol(10, 300, 0x9000, 4096, ool, unregister, "kprobe_insn_page")
		}, []string{"death-without-birth 300 0x9000+4096 kprobe_insn_page"}},
		{"unregistered twice", func(w *tape) {
			w.ksymbol(10, 300, 0x9000, 4096, ool, 0, "kprobe_insn_page")
			w.ksymbol(10, 400, 0x9000, 4096, ool, unregister, "kprobe_insn_page")
			w.ksymbol(10, 500, 0x9000, 4096, ool, unregister, "kprobe_insn_page")
		}, []string{"death-without-birth 500 0x9000+4096 kprobe_insn_page"}},
		{"a function without a load", func(w *tape) {
			w.ksymbol(10, 300, 0x9000, 16, bpf, 0, "bpf_prog_11_a")
		}, []string{"symbol-without-load 300 0x9000+16 bpf_prog_11_a"}},
		{"a load without a function", func(w *tape) {
			w.bpfLoad(10, 301, 1)
		}, []string{"load-without-symbol 301 program 1"}},
		{"loaded twice", func(w *tape) {
			w.ksymbol(10, 300, 0x9000, 16, bpf, 0, "bpf_prog_11_a")
			w.bpfLoad(10, 301, 1)
			w.ksymbol(10, 400, 0x9100, 16, bpf, 0, "bpf_prog_22_b")
			w.bpfLoad(10, 401, 1)
		}, []string{"loaded-twice 401 program 1 since 301"}},
		{"announced by perf and then loaded", func(w *tape) {
			w.ksymbol(10, 0, 0x9000, 16, bpf, 0, "bpf_prog_11_a")
			w.bpfLoad(10, 0, 1)
			w.ksymbol(10, 150, 0x9000, 16, bpf, 0, "bpf_prog_11_a")
			w.bpfLoad(10, 151, 1)
		}, nil},
		{"unloaded without a load", func(w *tape) {
			w.bpfUnload(10, 301, 1)
		}, []string{"unload-without-load 301 program 1"}},
		{"a poke where there is no code", func(w *tape) {
			w.poke(10, 300, 0xa000, "90", "cc")
		}, []string{"poke-of-nothing 300 0xa000+1, excused"}},
		{"registered inside a module", func(w *tape) {
			w.ksymbol(10, 300, 0x8100, 16, bpf, 0, "bpf_prog_11_a")
			w.bpfLoad(10, 301, 1)
		}, []string{"birth-in-module 300 0x8100+16 bpf_prog_11_a over m since 0"}},
		{"an event id that the recording does not have", func(w *tape) {
			w.comm(10, 450, 0, 9, "tick")
			w.must(w.w.Comm(0, &perfdata.Comm{PID: 9, TID: 9, Comm: []byte("x"),
				SampleID: perfdata.SampleID{PID: 1, TID: 1, Time: 460, ID: 77, CPU: 0, Event: w.made[0]}}))
		}, []string{"damaged"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.copied = true
			w.kallsyms = "0000000000001000 T _stext\n0000000000002000 T _etext\n0000000000008010 t m_init\t[m]\n0000000000008100 t m_work\t[m]\n"
			w.modules = []kcore.Module{{Name: "m", Addr: 0x8000, Size: 0x1000, State: "Live"}}
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			w.comm(10, 200, perfdata.MiscCommExec, 7, "true")
			w.ticks(200, 200)
			tt.tape(w)
			w.ticks(700, 1000)
			var got []string
			for f := range w.replay().Findings() {
				got = append(got, findingText(&f))
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func findingText(f *Finding) string {
	s := f.Kind.String()
	if f.Kind == RecordDamaged {
		return s
	}
	s += fmt.Sprintf(" %d", f.Time)
	if f.Addr != 0 {
		s += fmt.Sprintf(" %#x+%d", f.Addr, f.Len)
	}
	if f.Name != "" {
		s += " " + f.Name
	}
	if f.ID != 0 {
		s += fmt.Sprintf(" program %d", f.ID)
	}
	if f.Other != "" {
		s += " over " + f.Other
	}
	if f.Other != "" || f.Since != 0 {
		s += fmt.Sprintf(" since %d", f.Since)
	}
	if f.Excused {
		s += ", excused"
	}
	return s
}

// TestFindingsOfCoreText: pokes of core text have no finding, unless one removes some of it.
func TestFindingsOfCoreText(t *testing.T) {
	for _, name := range []string{"", "removes"} {
		t.Run(name, func(t *testing.T) {
			w := newTape(t)
			w.copied, w.text = true, bytes.Repeat([]byte{0x90}, 0x40000)
			w.mapEnd = 0x41000
			w.kallsyms = "0000000000001000 T _stext\n0000000000041000 T _etext\n"
			w.ticks(100, 200)
			w.poke(10, 300, 0x1100, "90", "91")
			if name == "removes" {
				w.poke(10, 400, 0x1100, "91", "")
				w.poke(10, 500, 0x1100, "91", "92")
			}
			w.ticks(700, 1000)
			r := w.replay()
			all, some := slices.Collect(r.findings(true)), slices.Collect(r.Findings())
			if d := cmp.Diff(all, some); d != "" {
				t.Errorf("all records (-), those that are needed (+):\n%s", d)
			}
			if found := len(some) > 0; found != (name == "removes") {
				t.Errorf("findings: %+v", some)
			}
		})
	}
}

// TestCoreRuns: a run of pokes is left out if none of them can have a finding.
func TestCoreRuns(t *testing.T) {
	core := coreText{lo: 0x1000, hi: 0x2000}
	for _, c := range []struct {
		name  string
		pokes []timeline.Poke
		skip  bool
	}{
		{"core text", []timeline.Poke{{Addr: 0x1000, Old: []byte{1, 2}, New: []byte{3, 4}}, {Addr: 0x1ffe, Old: []byte{1, 2}, New: []byte{3, 4}}}, true},
		{"before it", []timeline.Poke{{Addr: 0x1100, Old: []byte{1, 2}, New: []byte{3, 4}}, {Addr: 0xfff, Old: []byte{1, 2}, New: []byte{3, 4}}}, false},
		{"beyond its end", []timeline.Poke{{Addr: 0x1fff, Old: []byte{1, 2}, New: []byte{3, 4}}, {Addr: 0x1100, Old: []byte{1}, New: []byte{3}}}, false},
		{"at the end of memory", []timeline.Poke{{Addr: 0x1100, Old: []byte{1}, New: []byte{3}}, {Addr: 1<<64 - 1, Old: []byte{1, 2}, New: []byte{3, 4}}}, false},
		{"a birth", []timeline.Poke{{Addr: 0x1100, New: []byte{3}}}, false},
		{"a death", []timeline.Poke{{Addr: 0x1100, Old: []byte{3}}, {Addr: 0x1100, Old: []byte{1}, New: []byte{3}}}, false},
		{"a trap", []timeline.Poke{{Addr: 0x1100, Old: []byte{3}, New: []byte{0xcc}}}, true},
	} {
		var p pokePlaces
		for _, poke := range c.pokes {
			p.add(poke.Addr, poke.Old, poke.New)
		}
		if got := core.skipsRun(&p); got != c.skip {
			t.Errorf("%s: left out %v, want %v", c.name, got, c.skip)
		}
	}
}

// TestFindingsOfRuns: the same is found whether runs of pokes were noted or not.
func TestFindingsOfRuns(t *testing.T) {
	r := noted(t, genperf.History{Pokes: 60_000, Sites: 20_000, Births: 5})
	if d := cmp.Diff(slices.Collect(r.findings(true)), slices.Collect(r.Findings())); d != "" {
		t.Errorf("all records (-), those that are needed (+):\n%s", d)
	}
}

// TestFindingsOfRecordings: real recordings have no contradictions.
func TestFindingsOfRecordings(t *testing.T) {
	for _, name := range []string{"small", "rich", "lossy", "modfull", "thunks", "hotplug", "smalldup"} {
		t.Run(name, func(t *testing.T) {
			r, err := Load(filepath.Join(corpus.Root(), "testdata", name, "rec.data"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			births := r.Report.Symbols.Births
			if d := cmp.Diff(slices.Collect(r.findings(true)), slices.Collect(r.Findings())); d != "" {
				t.Errorf("all records (-), those that are needed (+):\n%s", d)
			}
			for f := range r.Findings() {
				if !f.Excused {
					t.Errorf("%s, of %d births", findingText(&f), births)
				}
			}
		})
	}
}
