// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
)

// TestRecordedLifetimes: what a recording proves of code that comes and goes, if records of
// its registration may be lost, or if perf announces existing code late (rule
// lifetimes).
func TestRecordedLifetimes(t *testing.T) {
	const bpf, ool = perfdata.KSymbolBPF, perfdata.KSymbolOOL
	const first = "bpf_prog_11_a"
	exec := func(w *tape, time uint64) { w.comm(10, time, perfdata.MiscCommExec, 7, "true") }
	lost := func(w *tape) {
		w.lost(10, 410, 3)
		w.lostSamples(10, 3)
	}
	announce := func(w *tape) { // program 2
		w.ksymbol(10, 0, 0x9000, 2, bpf, 0, first)
		w.bpfLoad(10, 0, 2)
	}
	replaced := func(w *tape) { // another program goes and program 2 comes, for example
		w.ksymbol(10, 150, 0x9000, 2, bpf, unregister, first)
		w.ksymbol(10, 160, 0x9000, 2, bpf, 0, first)
	}
	either := textLines("0..150 unknown bpf-no-info", "150..160 unknown unregistered", "160.. unknown bpf-no-info")
	start := textLines("0..100 unconfirmed outside-recording 1111", "100..150 known 1111",
		"150..160 retired unregistered 1111", "160.. unknown bpf-no-info")
	for _, tt := range []struct {
		name string
		tape func(w *tape)
		want string // at 0x9000, two bytes
	}{
		{"a program is announced after it was loaded where another one was", func(w *tape) {
			w.comm(10, 0, 0, 7, "perf-exec")
			announce(w)
			w.ticks(100, 100)
			replaced(w)
			w.bpfLoad(10, 161, 2)
			exec(w, 200)
			w.ticks(200, 1000)
		}, textLines("0..150 unknown bpf-no-info", "150..160 unknown unregistered", "160..1001 known 1111", "1001.. unconfirmed beyond-horizon 1111")},
		{"the load is not recorded because other events are of one task", func(w *tape) {
			w.comm(10, 0, 0, 7, "perf-exec")
			announce(w)
			w.ticks(100, 100)
			replaced(w)
			exec(w, 200)
			w.ticks(200, 1000)
		}, either},
		{"the unload shows that it was the first program", func(w *tape) {
			w.comm(10, 0, 0, 7, "perf-exec")
			announce(w)
			w.ticks(100, 100)
			w.ksymbol(10, 150, 0x9000, 2, bpf, unregister, first)
			w.bpfUnload(10, 151, 2)
			w.ksymbol(10, 160, 0x9000, 2, bpf, 0, first)
			w.bpfLoad(10, 161, 3)
			exec(w, 200)
			w.ticks(200, 1000)
		}, start},
		{"perf announces a program before it enables its events", func(w *tape) {
			w.events[0].attr.Flags |= perfdata.FlagDisabled
			w.comm(10, 0, 0, 7, "perf-exec")
			announce(w)
			w.ticks(100, 100)
			exec(w, 140)
			w.ticks(200, 1000)
		}, textLines("0..1001 unconfirmed not-listening 1111", "1001.. unconfirmed beyond-horizon 1111")},
		{"the program may have been changed before the events were enabled", func(w *tape) {
			w.events[0].attr.Flags |= perfdata.FlagDisabled
			w.comm(10, 0, 0, 7, "perf-exec")
			announce(w)
			w.ticks(100, 100)
			exec(w, 140)
			w.ksymbol(10, 500, 0x9000, 2, bpf, unregister, first)
			w.bpfUnload(10, 501, 2)
			w.ticks(600, 1000)
		}, textLines("0..500 unconfirmed not-listening 1111", "500.. retired unregistered 1111")},
		{"the program may have gone before the events were enabled", func(w *tape) {
			w.events[0].attr.Flags |= perfdata.FlagDisabled
			w.comm(10, 0, 0, 7, "perf-exec")
			announce(w)
			w.ticks(100, 100)
			exec(w, 140)
			w.poke(10, 300, 0x9000, "1111", "2222")
			w.ticks(400, 1000)
		}, textLines("0..300 unconfirmed not-listening 1111", "300..1001 unconfirmed not-listening 2222",
			"1001.. unconfirmed beyond-horizon 2222")},
		{"perf announces no program after the workload's exec", func(w *tape) {
			w.timeConv()
			w.comm(10, 0, 0, 7, "perf-exec")
			announce(w)
			w.ticks(100, 100)
			exec(w, 140)
			replaced(w)
			w.ticks(200, 1000)
		}, start},
		{"perf announces programs at the end", func(w *tape) {
			w.timeConv()
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			exec(w, 140)
			replaced(w)
			w.ticks(200, 1000)
			announce(w)
		}, either},
		{"perf announces a program at the end that may have come after the events were disabled", func(w *tape) {
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			exec(w, 140)
			w.ticks(200, 1000)
			announce(w)
		}, "0.. unconfirmed beyond-horizon 1111\n"},
		{"duplicates: perf wrote its records twice", func(w *tape) {
			w.ticks(100, 300)
			for range 2 {
				w.ksymbol(10, 310, 0x9000, 2, bpf, 0, first)
				w.bpfLoad(10, 311, 2)
			}
			w.ticks(400, 1000)
		}, textLines("0..310 unmapped", "310..1001 known 1111", "1001.. unconfirmed beyond-horizon 1111")},
		{"a poke after a loss, where a page was before", func(w *tape) {
			w.ticks(100, 300)
			w.ksymbol(10, 310, 0x9000, 4096, ool, 0, "kprobe_insn_page")
			w.poke(10, 320, 0x9000, "", "5589")
			w.ticks(400, 400)
			lost(w)
			w.poke(11, 500, 0x9000, "5589", "c390")
			w.ticks(500, 1000)
		}, textLines("0..310 unmapped", "310..320 unknown out-of-line-gap", "320..400 known 5589", "400..500 unconfirmed after-loss 5589",
			"500..1001 unconfirmed after-loss c390", "1001.. unconfirmed beyond-horizon c390")},
		{"a poke after a loss, and an unregistration inside it", func(w *tape) {
			w.timeConv()
			w.ticks(100, 300)
			w.ksymbol(10, 310, 0x8f00, 4096, ool, 0, "kprobe_insn_page")
			w.poke(10, 320, 0x9000, "", "5589")
			w.ticks(400, 400)
			lost(w)
			w.poke(11, 500, 0x9000, "5589", "c390")
			w.ksymbol(10, 600, 0x9000, 16, bpf, unregister, first)
			w.ticks(600, 1000)
		}, textLines("0..310 unmapped", "310..320 unknown out-of-line-gap", "320..400 known 5589", "400..410 unconfirmed after-loss 5589",
			"410..500 known 5589", "500..600 known c390", "600.. retired unregistered c390")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.infos = []tapeInfo{{2, 0x9000, "1111"}}
			tt.tape(w)
			r := w.replay()
			if d := cmp.Diff(tt.want, r.Image.Dump(0x9000, 2)); d != "" {
				t.Errorf("(-want +got):\n%s%v", d, r.Report.Warnings)
			}
		})
	}
}

// TestModuleReplacedInLoss: a module that may have been replaced during a loss is not known
// after it. This holds even if the interval of the copy is as long as the recording, as it
// is without a workload (rule modules).
func TestModuleReplacedInLoss(t *testing.T) {
	w := newTape(t)
	w.events = append(w.events, tracepointEvent("module_load"), tracepointEvent("module_free"))
	w.tracing, w.copied = moduleFormats, true
	w.kallsyms = "0000000000001000 T _stext\n0000000000002000 T _etext\n0000000000008100 t m_work\t[m]\n"
	w.modules = []kcore.Module{{Name: "m", Addr: 0x8000, Size: 0x3000, State: "Live"}}
	w.ticks(100, 300)
	w.poke(10, 310, 0x8100, "5555", "6666")
	w.ticks(400, 400)
	w.lost(10, 410, 3)
	w.lostSamples(10, 2)
	w.lostSamples(30, 1)   // the unload
	w.module(20, 500, "n") // the kernel wrote n there before
	w.poke(10, 510, 0x8100, "7777", "8888")
	w.ticks(600, 1000)
	im := w.replay().Image
	want := textLines("0..310 unconfirmed after-loss 5555", "310..510 conflicting old-bytes-mismatch 6666 7777",
		"510.. conflicting module-contradicted 8888")
	if d := cmp.Diff(want, im.Dump(0x8100, 2)); d != "" {
		t.Errorf("what was poked (-want +got):\n%s", d)
	}
	want = textLines("0..310 unconfirmed after-loss 5555", "310.. conflicting module-contradicted 5555")
	if d := cmp.Diff(want, im.Dump(0x8200, 2)); d != "" {
		t.Errorf("the rest (-want +got):\n%s", d)
	}
}

// TestPokeLostInModule: no unload was lost, so a lost poke explains old bytes that do not
// fit. The module is still loaded, and has had those bytes since the loss.
func TestPokeLostInModule(t *testing.T) {
	w := newTape(t)
	w.events = append(w.events, tracepointEvent("module_load"), tracepointEvent("module_free"))
	w.tracing, w.copied = moduleFormats, true
	w.kallsyms = "0000000000001000 T _stext\n0000000000002000 T _etext\n0000000000008100 t m_work\t[m]\n"
	w.modules = []kcore.Module{{Name: "m", Addr: 0x8000, Size: 0x3000, State: "Live"}}
	w.ticks(100, 300)
	w.poke(10, 310, 0x8100, "5555", "6666")
	w.ticks(400, 400)
	w.lost(10, 410, 3)
	w.lostSamples(10, 3)
	w.poke(10, 510, 0x8100, "7777", "8888")
	w.ticks(600, 1000)
	want := textLines("0..100 unconfirmed outside-recording 5555", "100..310 known 5555", "310..410 conflicting old-bytes-mismatch 6666 7777",
		"410..510 known 7777", "510..1001 known 8888", "1001.. unconfirmed beyond-horizon 8888")
	if d := cmp.Diff(want, w.replay().Image.Dump(0x8100, 2)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
