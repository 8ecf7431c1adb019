// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// TestSameKernel: each recording's own copy is of its kernel. The copies of other
// recordings are not, except of recordings of the same boot.
func TestSameKernel(t *testing.T) {
	type boot struct {
		path, kcore string
		text        uint64
	}
	var boots []boot
	nothing := func(*kcore.Kallsyms) []timeline.Range { return []timeline.Range{} }
	for _, dir := range append(corpus.Small(t), corpus.All()...) {
		path := filepath.Join(dir, "rec.data")
		r, err := Load(path, Options{Only: nothing})
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if r.Report.Misfit != "" {
			t.Errorf("%s: %s", path, r.Report.Misfit)
		}
		b := boot{path: path}
		if k := r.Kallsyms(); k != nil {
			b.text, _, _ = k.Text()
			b.kcore = r.Snapshot.Dir()
		}
		boots = append(boots, b)
		r.Close()
	}
	n := 0
	for i, b := range boots {
		for _, o := range []boot{boots[(i+1)%len(boots)], boots[(i+3)%len(boots)]} {
			if b.text == 0 || o.kcore == "" || o.text == b.text {
				continue
			}
			n++
			r, err := Load(b.path, Options{Only: nothing, KCore: o.kcore})
			if err == nil {
				t.Errorf("%s with %s: taken for its copy", b.path, o.kcore)
				r.Close()
			} else if !errors.As(err, new(*MisfitError)) {
				t.Errorf("%s with %s: %v", b.path, o.kcore, err)
			}
		}
	}
	if n < 10 {
		t.Errorf("%d pairs of different boots", n)
	}
}

// TestMisfit: what shows that a copy is of another kernel or of another boot. The report
// mentions a recording's own copy, and the image does not use it. A copy in the options is
// an error.
func TestMisfit(t *testing.T) {
	const symbols = "0000000000001000 T _text\n0000000000001000 T _stext\n0000000000002000 T _etext\n0000000000003000 D _edata\n"
	const places = "0000000000002100 R __start_notes\n0000000000002200 R __stop_notes\n0000000000002300 R linux_banner\n"
	le := binary.LittleEndian
	note := func(id string) []byte {
		b := le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, 4), uint32(len(id))), 3)
		return append(append(b, "GNU\x00"...), id...)
	}
	modules := []kcore.Module{{Name: "a_b", Addr: 0x8000, Size: 0x1000, State: "Live"}, {Name: "c", Addr: 0xa000, Size: 0x1000, State: "Live"},
		{Name: "d", Addr: 0xc000, Size: 0x1000, State: "Live"}}
	moved := func(n int) func(w *tape) {
		return func(w *tape) {
			w.modules = append([]kcore.Module(nil), modules...)
			for i := range n {
				w.modules[i].Addr += 0x4000
			}
		}
	}
	end := func(at uint64) func(w *tape) {
		return func(w *tape) { w.mapEnd = at }
	}
	for _, tt := range []struct {
		name string
		set  func(w *tape)
		want string // "" if it fits
	}{
		{"it is of this boot", func(w *tape) {}, ""},
		{"text has another address", func(w *tape) {
			w.kallsyms = strings.NewReplacer("01000", "11000", "02000", "12000", "03000", "13000").Replace(w.kallsyms)
		}, "of another boot: kernel text is at 0x11000, in the recording at 0x1000"},
		{"text has another address, and kallsyms is cut", func(w *tape) { w.kallsyms = "0000000000201000 T _stext\n0000000000202000 T _etext\n" },
			"of another boot: kernel text is at 0x201000, in the recording at 0x1000"},
		{"kallsyms is cut", func(w *tape) { w.kallsyms = "0000000000001800 T _stext\n0000000000002000 T _etext\n" }, ""},
		{"addresses are withheld", func(w *tape) {
			w.kallsyms = "0000000000000000 T _text\n0000000000000000 T _stext\n0000000000000000 T _etext\n"
		}, ""},
		{"the kernel's map ends with text", end(0x2000), ""},
		{"the kernel's map ends with the page of text", func(w *tape) {
			w.kallsyms, w.mapEnd = strings.ReplaceAll(w.kallsyms, "0000000000002000 T _etext", "0000000000001f42 T _etext"), 0x2000
		}, ""},
		{"the kernel's map ends with data", end(0x3000), ""},
		{"the kernel's map ends at the first module", end(0x8000), ""},
		{"the kernel's map ends within text", func(w *tape) {
			w.kallsyms, w.mapEnd = strings.ReplaceAll(w.kallsyms, "0000000000003000 D _edata\n", ""), 0x1f00
		}, "of another kernel: its text ends at 0x2000, in the recording the kernel's map ends at 0x1f00"},
		{"the kernel's map ends between text and data", end(0x2800), "of another kernel: its text ends at 0x2000, in the recording the kernel's map ends at 0x2800"},
		{"most modules have other addresses", moved(2), "of another boot: 2 of 3 modules are elsewhere in the recording"},
		{"one module has another address", moved(1), ""},
		{"most modules begin inside of where they were", func(w *tape) {
			moved(0)(w)
			w.modules[0].Addr -= 0x800
			w.modules[1].Addr -= 0x800
		}, "of another boot: 2 of 3 modules are elsewhere in the recording"},
		{"most modules have their text inside", func(w *tape) {
			moved(0)(w)
			w.arch = "s390x"
			w.modules[0].Addr -= 0x800
			w.modules[1].Addr -= 0x800
		}, ""},
		{"a module is loaded again", func(w *tape) {
			moved(2)(w)
			w.events, w.tracing = append(w.events, tracepointEvent("module_load")), moduleFormats
			w.module(20, 90, "c")
		}, ""},
		{"perf mapped the modules at the end", func(w *tape) {
			moved(2)(w)
			w.ticks(70, 80)
			w.must(w.w.FinishedRound())
			w.ticks(85, 90)
			w.must(w.w.FinishedRound())
		}, ""},
		{"the build id differs", func(w *tape) { copy(w.text[0x1100:], note("other kernel id 1234")) },
			"of another kernel: its build id is 6f74686572206b65726e656c2069642031323334, in the recording 7468697320206b65726e656c2069642031323334"},
		{"the build id is the same", func(w *tape) { copy(w.text[0x1100:], note("this  kernel id 1234")) }, ""},
		{"the release differs", func(w *tape) { copy(w.text[0x1300:], "Linux version 6.1.1 (x@y)") },
			"of another kernel: of release 6.1.1, the recording of 6.1.0"},
		{"the release is the same", func(w *tape) { copy(w.text[0x1300:], "Linux version 6.1.0 (x@y)") }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			made := func() (*perfdata.Recording, *kcore.Snapshot) {
				w := newTape(t)
				w.copied, w.kallsyms, w.modules, w.mapEnd, w.buildID = true, symbols+places, modules, 0x3000, "this  kernel id 1234"
				w.text = make([]byte, 0x2000)
				tt.set(w)
				w.ticks(100, 100)
				for _, m := range modules {
					name := fmt.Sprintf("/lib/modules/6.1.0/kernel/%s.ko.xz", strings.ReplaceAll(m.Name, "_", "-"))
					w.must(w.w.Mmap(perfdata.RecordMMAP, perfdata.MiscKernel, &perfdata.Mmap{PID: 0xffffffff, Addr: m.Addr, Len: m.Size,
						Filename: []byte(name), SampleID: perfdata.SampleID{Event: w.made[0]}}))
				}
				w.ticks(200, 1000)
				rec, err := perfdata.New(w.bytes())
				w.must(err)
				return rec, w.snapshot()
			}
			rec, snap := made()
			r, err := New(rec, snap, Options{})
			if err != nil {
				t.Fatal(err)
			}
			want := tt.want
			if want != "" {
				want = "kcore_dir: " + want
			}
			if got := r.Report.Misfit; got != want {
				t.Errorf("its own: %q, want %q", got, want)
			}
			if (r.Snapshot == nil) != (want != "") || (r.Kallsyms() == nil) != (want != "") {
				t.Errorf("the copy that is used: %v", r.Snapshot)
			}
			var found []string
			for f := range r.Findings() {
				found = append(found, fmt.Sprint(f.Kind, " ", f.Other))
			}
			if want != "" && (len(found) != 1 || found[0] != "snapshot-misfit "+want) || want == "" && found != nil {
				t.Errorf("found %q", found)
			}
			rec, snap = made()
			_, err = newReplay(rec, nil, snap, Options{KCore: "kcore_dir"})
			if got := fmt.Sprint(err); got != want && (err != nil || want != "") {
				t.Errorf("one that is given: %s, want %q", got, want)
			}
		})
	}
}

// TestMisfitPlace: without a kallsyms, the place of a copy shows that it is of another boot. Where
// it overlaps the recorded kernel, its bytes would be wrong.
func TestMisfitPlace(t *testing.T) {
	const base = 0x10000000
	for _, tt := range []struct {
		name  string
		at    uint64 // of the copy
		bytes int
		fits  bool
	}{
		{"at the same place", base, 0x400000, true},
		{"at _stext, behind the head of the image", base + 0x10000, 0x3f0000, true},
		{"higher", base + 0x200000, 0x400000, false},
		{"lower", base - 0x200000, 0x400000, false},
		{"cut to some pages", base + 0x200000, 0x2000, true},
		{"elsewhere", base + 0x1000000, 0x400000, true}, // nothing of it is used
	} {
		for _, named := range []bool{false, true} {
			name, want := tt.name, fmt.Sprintf("kcore_dir: of another boot: kernel text is at %#x, in the recording at 0x10000000", tt.at)
			if named {
				name, want = name+", kallsyms is of this boot", strings.Replace(want, "at 0x10000000", "at 0x10010000", 1)
			}
			switch {
			case named && tt.name == "elsewhere":
				want = "kcore_dir: of another boot than its kallsyms: this has no symbol at 0x11000000, where 4194304 bytes are"
			case tt.fits:
				want = ""
			}
			t.Run(name, func(t *testing.T) {
				w := newTape(t)
				w.copied, w.textAt, w.text = true, tt.at, make([]byte, tt.bytes)
				w.mapAt, w.mapEnd = base, base+0x400000
				if named {
					w.kallsyms = "0000000010000000 T _text\n0000000010010000 T _stext\n0000000010400000 T _etext\n"
				}
				w.ticks(100, 1000)
				if r := w.replay(); r.Report.Misfit != want {
					t.Errorf("%q, want %q", r.Report.Misfit, want)
				}
			})
		}
	}
	t.Run("a copy of modules only", func(t *testing.T) {
		w := newTape(t)
		w.copied, w.textAt, w.text = true, base+0x1000000, make([]byte, 0x200000)
		w.mapAt, w.mapEnd = base, base+0x400000
		w.kallsyms = "0000000010000000 T _text\n0000000010010000 T _stext\n0000000010400000 T _etext\n0000000011100000 t f\t[m]\n"
		w.ticks(100, 1000)
		if r := w.replay(); r.Report.Misfit != "" {
			t.Errorf("%q", r.Report.Misfit)
		}
	})
}

// TestMovedModules: in a copy that was made while perf recorded, modules may be elsewhere if
// not all loads are recorded.
func TestMovedModules(t *testing.T) {
	made, silent := Times{500, 510}, uint64(0)
	recorded := func(w *tape) {
		w.events, w.tracing = append(w.events, tracepointEvent("module_load")), moduleFormats
	}
	for name, tt := range map[string]struct {
		set  func(w *tape)
		want bool // it is of another boot
	}{
		"no loads are recorded": {func(w *tape) {}, false},
		"the copy was made after the recording": {func(w *tape) {
			recorded(w)
			made = Times{2500, 2510}
		}, false},
		"all loads are recorded": {recorded, true},
		"a load may be lost": {func(w *tape) {
			recorded(w)
			w.ticks(90, 100)
			w.lost(10, 110, 1)
		}, false},
		"loads are recorded on one CPU": {func(w *tape) {
			recorded(w)
			w.events[1].cpus = []int64{0}
		}, false},
		"some loads are recorded": {func(w *tape) {
			recorded(w)
			w.events[1].attr.SamplePeriod = 2
		}, false},
		"one load a second is recorded": {func(w *tape) {
			recorded(w)
			w.events[1].attr.Flags |= perfdata.FlagFreq // of one
		}, false},
		"records of loads may be overwritten": {func(w *tape) {
			recorded(w)
			w.events[1].attr.Flags |= perfdata.FlagWriteBackward
		}, false},
		"loads of a few tasks are recorded": {func(w *tape) {
			recorded(w)
			w.events[1].attr.Flags = perfdata.FlagExcludeKernel
		}, false},
		"loads are recorded once an event is enabled": {func(w *tape) {
			recorded(w)
			w.events[1].attr.Flags = perfdata.FlagDisabled
		}, false},
		"loads are recorded from the start": {func(w *tape) {
			recorded(w)
			w.events[1].attr.Flags = perfdata.FlagDisabled
			w.cmdline = "perf record -a --kcore -e module:module_load"
			w.module(21, 140, "c")
		}, true},
		"loads are recorded after a delay": {func(w *tape) {
			recorded(w)
			w.events[1].attr.Flags = perfdata.FlagDisabled
			w.cmdline = "perf record -a --kcore -D 500 -e module:module_load"
			w.module(21, 140, "c")
		}, false},
		"a CPU falls silent": {func(w *tape) {
			recorded(w)
			silent = 300
		}, false},
		"a CPU falls silent after the copy": {func(w *tape) {
			recorded(w)
			silent = 600
		}, true},
		"the format of loads is missing": {func(w *tape) {
			w.events = append(w.events, tracepointEvent("module_load"))
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTape(t)
			w.copied, w.kallsyms = true, "0000000000001000 T _stext\n0000000000002000 T _etext\n"
			made, silent = Times{500, 510}, 2000 // from then on a CPU is silent
			tt.set(w)
			w.ticks(150, 160)
			for name, addr := range map[string]uint64{"[a]": 0x8000, "[b]": 0xa000} {
				w.must(w.w.Mmap(perfdata.RecordMMAP, perfdata.MiscKernel, &perfdata.Mmap{PID: 0xffffffff, Addr: addr, Len: 0x1000,
					Filename: []byte(name), SampleID: perfdata.SampleID{Event: w.made[0]}}))
			}
			w.ticks(200, silent)
			for at := silent + 100; at <= 2000; at += 100 {
				w.tick(11, at)
			}
			rec, err := perfdata.New(w.bytes())
			w.must(err)
			dir := w.kcoreDir()
			w.must(os.WriteFile(filepath.Join(dir, "modules"), []byte("a 4096 0 - Live 0x000000000000c000\nb 4096 0 - Live 0x000000000000e000\n"), 0o600))
			_, err = New(rec, nil, Options{Copies: []Copy{{KCore: dir, Made: made}}})
			if errors.As(err, new(*MisfitError)) != tt.want || !tt.want && err != nil {
				t.Error(err)
			}
		})
	}
}

// TestOtherText: two copies have the same place, and its text shows that one copy is of another kernel.
func TestOtherText(t *testing.T) {
	w := newTape(t)
	w.copied, w.kallsyms = true, "0000000000001000 T _stext\n0000000000002000 T _etext\n"
	w.ticks(100, 1000)
	rec, err := perfdata.New(w.bytes())
	w.must(err)
	own := w.snapshot()
	w.text = make([]byte, tapeTextHi-tapeTextLo)
	_, err = New(rec, own, Options{Copies: []Copy{{KCore: w.kcoreDir(), Made: Times{500, 510}}}})
	if !errors.As(err, new(*MisfitError)) || !strings.HasSuffix(err.Error(), "of another kernel: 4096 of 4096 bytes of kernel text differ") {
		t.Error(err)
	}
}
