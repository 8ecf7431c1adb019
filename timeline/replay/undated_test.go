// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// TestUndatedCopy: what a copy of kernel text proves if its time is unknown. It may be
// older than the recording: perf record --switch-output writes one kcore_dir, which is
// older than all later files.
func TestUndatedCopy(t *testing.T) {
	const kallsyms = "0000000000001000 T _stext\n0000000000002000 T _etext\n0000000000008010 t m_init\t[m]\n0000000000008100 t m_work\t[m]\n" +
		"0000000000009800 t bpf_trampoline_1\t[bpf]\n"
	module := []kcore.Module{{Name: "m", Addr: 0x8000, Size: 0x1000, State: "Live"}}
	never := func(bytes string) string {
		return textLines("0..1001 unconfirmed snapshot-undated "+bytes, "1001.. unconfirmed beyond-horizon "+bytes)
	}
	known := func(bytes string) string {
		return textLines(
			"0..100 unconfirmed outside-recording "+bytes,
			"100..1001 known "+bytes,
			"1001.. unconfirmed beyond-horizon "+bytes)
	}
	for _, tt := range []struct {
		name    string
		tape    func(w *tape)
		own     bool
		modules bool // the options name a list of modules, and the copy is perf's
		copy    bool // there is a further snapshot, of 500 to 510
		addr    uint64
		want    string
	}{
		{name: "without a time", addr: 0x1100, want: never("9090")},
		{name: "at a place that changed", addr: 0x1100,
			tape: func(w *tape) { w.poke(10, 450, 0x1100, "eb04", "eb02") },
			want: textLines(
				"0..100 unconfirmed outside-recording eb04",
				"100..450 known eb04",
				"450..1001 known eb02",
				"1001.. unconfirmed beyond-horizon eb02")},
		{name: "with the recording's own copy", addr: 0x1100, own: true, want: known("9090")},
		{name: "with a further snapshot", addr: 0x1100, copy: true, want: known("9090")},
		{name: "its modules", addr: 0x8100,
			tape: func(w *tape) { w.poke(10, 450, 0x8100, "9090", "eb02") },
			want: textLines(
				"0..450 unconfirmed module-may-have-gone 9090",
				"450..1001 unconfirmed module-may-have-gone eb02",
				"1001.. unconfirmed beyond-horizon eb02")},
		{name: "a list of modules", addr: 0x8100, modules: true, want: textLines(
			"0..1001 unconfirmed module-may-have-gone 5555",
			"1001.. unconfirmed beyond-horizon 5555")},
		{name: "its kallsyms", addr: 0x9800,
			tape: func(w *tape) {
				w.ksymbol(10, 430, 0x9000, 0x1000, perfdata.KSymbolBPF, 0, "bpf_prog_1")
				w.bpfLoad(10, 430, 1)
			},
			want: textLines("0..430 unmapped", "430.. unknown bpf-no-info")},
		{name: "its kallsyms alone", addr: 0x9800, want: textLines("0.. unmapped")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.events = append(w.events, tracepointEvent("module_load"), tracepointEvent("module_free"))
			w.tracing, w.copied, w.kallsyms, w.modules = moduleFormats, true, kallsyms, module
			w.timeConv() // all CPUs have one clock
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			w.comm(10, 200, perfdata.MiscCommExec, 7, "true")
			w.ticks(200, 400)
			if tt.tape != nil {
				tt.tape(w)
			}
			w.ticks(500, 1000)
			rec, err := perfdata.New(w.bytes())
			w.must(err)
			snap, opts := w.snapshot(), Options{KCore: "elsewhere"}
			var own *kcore.Snapshot
			switch {
			case tt.own:
				own = w.snapshot()
			case tt.modules:
				own, snap = snap, nil
				opts.Modules = filepath.Join(t.TempDir(), "modules")
				w.must(os.WriteFile(opts.Modules, []byte("m 4096 0 - Live 0x0000000000008000\n"), 0o600))
			case tt.copy:
				opts.Copies = []Copy{{KCore: w.kcoreDir(), When: func(r *Replay) (Times, error) { return r.ParseTime("500ns..510ns") }}}
				snap.Core.Segments[0].Data = bytes.Clone(snap.Core.Segments[0].Data)
				copy(snap.Core.Segments[0].Data[0x100:], "\xeb\x02")
			}
			r, err := newReplay(rec, own, snap, opts)
			w.must(err)
			if d := cmp.Diff(tt.want, r.Image.Dump(tt.addr, 2)); d != "" {
				t.Errorf("(-want +got):\n%s%v", d, r.Report.Warnings)
			}
			if r.Report.Undated == (own != nil) {
				t.Errorf("the copy's time is unknown: %v", r.Report.Undated)
			}
			if n := r.Report.Conflicts; n != 0 {
				t.Errorf("%d conflicts", n)
			}
			for f := range r.Findings() {
				t.Errorf("found %+v", f)
			}
		})
	}
}

// TestKallsymsOfAnotherTime: a later kallsyms says where a module's text ends only if it has
// the module where the recording's list has it.
func TestKallsymsOfAnotherTime(t *testing.T) {
	known := textLines(
		"0..100 unconfirmed outside-recording 5555",
		"100..1001 known 5555",
		"1001.. unconfirmed beyond-horizon 5555")
	for _, tt := range []struct {
		name    string
		symbols string
		want    string
	}{
		{"at the same place", "0000000000008010 t m_init\t[m]\n0000000000009100 t m_work\t[m]\n", known},
		{"a page higher", "0000000000009010 t m_init\t[m]\n000000000000a100 t m_work\t[m]\n", textLines("0.. unknown not-text")},
		{"a page lower", "0000000000007010 t m_init\t[m]\n0000000000008100 t m_work\t[m]\n0000000000009100 t m_more\t[m]\n", textLines("0.. unknown not-text")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.copied, w.kallsyms = true, ""
			w.events = append(w.events, tracepointEvent("module_load"), tracepointEvent("module_free"))
			w.tracing = moduleFormats
			w.modules = []kcore.Module{{Name: "m", Addr: 0x8000, Size: 0x2000, State: "Live"}}
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			w.comm(10, 200, perfdata.MiscCommExec, 7, "true")
			w.ticks(200, 1000)
			rec, err := perfdata.New(w.bytes())
			w.must(err)
			own := w.snapshot()
			own.Kallsyms = nil
			opts := Options{Kallsyms: filepath.Join(t.TempDir(), "kallsyms")}
			w.must(os.WriteFile(opts.Kallsyms, []byte("0000000000001000 T _stext\n0000000000002000 T _etext\n"+tt.symbols), 0o600))
			r, err := newReplay(rec, own, nil, opts)
			w.must(err)
			if d := cmp.Diff(tt.want, r.Image.Dump(0x9100, 2)); d != "" {
				t.Errorf("(-want +got):\n%s%v", d, r.Report.Warnings)
			}
		})
	}
}

// TestUndatedInfo: the info of a program that was there before the recording proves
// nothing if the file may be a later one of perf record --switch-output: perf keeps the
// first info of each program for all files.
func TestUndatedInfo(t *testing.T) {
	const switched = "perf record -a --switch-output=1s -- true"
	// A file of --switch-output has no clean end, so its last moment is not certain.
	known := func(end string) string {
		return textLines("0..100 unconfirmed outside-recording 1111", "100.."+end+" known 1111", end+".. unconfirmed beyond-horizon 1111")
	}
	undated := func(end string) string {
		return textLines("0.."+end+" unconfirmed snapshot-undated 1111", end+".. unconfirmed beyond-horizon 1111")
	}
	for _, tt := range []struct {
		name    string
		cmdline string
		exec    bool // the workload is started
		copied  bool
		loaded  uint64
		end     uint64 // of the last tick; 0: 1000
		lost    bool   // records behind it are
		want    string
	}{
		{name: "a later file", cmdline: switched, want: undated("1000")},
		{name: "a workload is started while perf writes the first file", cmdline: switched, exec: true, want: known("1000")},
		{name: "the first file has the copy of text", cmdline: switched, copied: true, want: known("1000")},
		{name: "a single file", cmdline: "perf record -a", want: known("1001")},
		{name: "without the command line any file may be a later one", cmdline: "perf", want: undated("1001")},
		{name: "a program that was loaded meanwhile", cmdline: switched, loaded: 300, end: 11e9, want: textLines(
			"0..300 unmapped",
			"300..11000000000 known 1111",
			"11000000000.. unconfirmed beyond-horizon 1111")},
		{name: "a program that was loaded shortly before the horizon", cmdline: switched, loaded: 300, want: textLines(
			"0..300 unmapped",
			"300.. unconfirmed beyond-horizon 1111")},
		{name: "a program that was loaded shortly before a clean end", cmdline: "perf record -a", loaded: 300, want: textLines(
			"0..300 unmapped",
			"300..1001 known 1111",
			"1001.. unconfirmed beyond-horizon 1111")},
		{name: "a program that was loaded shortly before changes were lost until the end", cmdline: "perf record -a", loaded: 300, lost: true, want: textLines(
			"0..300 unmapped",
			"300.. unconfirmed after-loss 1111")},
		{name: "a program that was loaded long before changes were lost until the end", cmdline: "perf record -a", loaded: 300, end: 11e9, lost: true, want: textLines(
			"0..300 unmapped",
			"300..11000000000 known 1111",
			"11000000000.. unconfirmed after-loss 1111")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.cmdline, w.copied = tt.cmdline, tt.copied
			w.infos = []tapeInfo{{1, 0x9000, "1111"}}
			w.timeConv() // all CPUs have one clock
			if tt.loaded == 0 {
				w.ksymbol(10, 0, 0x9000, 2, perfdata.KSymbolBPF, 0, "bpf_prog_1")
				w.bpfLoad(10, 0, 1)
			}
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 200)
			if tt.exec {
				w.comm(10, 210, perfdata.MiscCommExec, 7, "true")
			}
			w.ticks(220, 300)
			if tt.loaded > 0 {
				w.ksymbol(10, tt.loaded, 0x9000, 2, perfdata.KSymbolBPF, 0, "bpf_prog_1")
				w.bpfLoad(10, tt.loaded, 1)
			}
			w.round()
			w.ticks(400, 600)
			w.round()
			w.ticks(700, 900)
			end := max(tt.end, 1000)
			w.ticks(end, end)
			w.round()
			if tt.lost {
				w.lostSamples(11, 3)
			}
			if d := cmp.Diff(tt.want, w.replay().Image.Dump(0x9000, 2)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// TestMovedCopy: the copy that perf made for the first file of --switch-output proves nothing in the
// directory of a later file.
func TestMovedCopy(t *testing.T) {
	const switched = "perf record -a --kcore --switch-output=1s "
	const first, last = uint64(40e9), uint64(40e9 + 900) // of the records
	for _, tt := range []struct {
		name    string
		cmdline string
		waits   bool // perf lists the workload, which waits
		exec    bool
		started uint64 // when perf read the clock
		tail    bool   // perf lists tasks at the end
		moved   bool
	}{
		{name: "the workload was started before", cmdline: switched + "-- true", moved: true},
		{name: "the workload waits", cmdline: switched + "-- true", waits: true, exec: true},
		{name: "its exec was lost", cmdline: switched + "-- true", waits: true},
		{name: "without --switch-output there is one file", cmdline: "perf record -a --kcore -- true", started: 1e9},
		{name: "without a workload", cmdline: switched},
		{name: "perf lists tasks at the end", cmdline: switched + "--tail-synthesize -- true", tail: true},
		{name: "perf started long before", cmdline: switched, started: 9e9, moved: true},
		{name: "perf started shortly before", cmdline: switched, started: 11e9},
		{name: "the workload was started behind the first record", cmdline: switched + "-- true", waits: true, exec: true, started: 9e9},
		{name: "perf started long before, without options", cmdline: "perf", started: 9e9, moved: true},
		{name: "perf without options", cmdline: "perf"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.copied, w.cmdline, w.started = true, tt.cmdline, tt.started
			w.kallsyms = "0000000000001000 T _stext\n0000000000002000 T _etext\n0000000000008010 t m_init\t[m]\n0000000000008100 t m_work\t[m]\n"
			w.modules = []kcore.Module{{Name: "m", Addr: 0x8000, Size: 0x1000, State: "Live"}}
			if tt.started > 0 {
				w.events[0].attr.Flags |= perfdata.FlagUseClockID
				w.events[0].attr.ClockID = 1
			}
			if !tt.tail {
				w.comm(10, 0, 0, 1, "init")
			}
			if tt.waits {
				w.comm(10, 0, 0, 7, "perf-exec")
			}
			w.ticks(first, first)
			w.round()
			if tt.exec {
				w.comm(10, first+100, perfdata.MiscCommExec, 7, "true")
			}
			w.ticks(first+200, first+300)
			w.round()
			w.ticks(last, last)
			w.poke(10, last, 0x1100, "9090", "eb02")
			w.ticks(last+100, last+100)
			w.round()
			if tt.tail {
				w.comm(10, 0, 0, 1, "init")
			}
			r := w.replay()
			want := timeline.Known
			if tt.moved {
				want = timeline.Unconfirmed
			}
			var b [2]byte
			if got := r.Image.At(first+500).Read(0x1200, b[:]); got.Standing != want || b != [2]byte{0x90, 0x90} {
				t.Errorf("%v %x, want %v", got.Standing, b, want)
			}
			if got := r.Image.At(first+500).Read(0x1100, b[:]); !tt.moved && got.Standing != timeline.Known {
				t.Errorf("what the change found: %v", got.Standing)
			}
			if got := r.Report.Undated; got != tt.moved {
				t.Errorf("undated is %v", got)
			}
			if got := slices.Contains(r.Report.Warnings, errCopyMoved); got != tt.moved {
				t.Errorf("warnings: %v", r.Report.Warnings)
			}
			for l := range r.Image.Lifetimes {
				if l.Kind == timeline.ModuleText && l.Undated() != tt.moved {
					t.Errorf("the module's list is undated: %v", l.Undated())
				}
			}
			for f := range r.Findings() {
				t.Errorf("found %+v", f)
			}
		})
	}
}

// TestInfoBeforeLoss: perf reads the info of a program that it announces when it does so, and that of
// another one soon after its load. What was lost later is not in it.
func TestInfoBeforeLoss(t *testing.T) {
	for _, tt := range []struct {
		name         string
		loaded, lost uint64
		tail         bool // perf announces at the end
		want         string
	}{
		{name: "announced", lost: 1000, want: textLines(
			"0..100 unconfirmed outside-recording 1111",
			"100..900 known 1111",
			"900..20000000001 unconfirmed after-loss 1111",
			"20000000001.. unconfirmed beyond-horizon 1111")},
		{name: "announced after the loss", lost: 1000, tail: true, want: textLines(
			"0..20000000001 unconfirmed after-loss 1111",
			"20000000001.. unconfirmed beyond-horizon 1111")},
		{name: "loaded", loaded: 300, lost: 11e9, want: textLines(
			"0..300 unmapped",
			"300..10999999900 known 1111",
			"10999999900..20000000001 unconfirmed after-loss 1111",
			"20000000001.. unconfirmed beyond-horizon 1111")},
		{name: "loaded shortly before the loss", loaded: 300, lost: 9e9, want: textLines(
			"0..300 unmapped",
			"300..20000000001 unconfirmed after-loss 1111",
			"20000000001.. unconfirmed beyond-horizon 1111")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.cmdline = "perf record -a"
			w.infos = []tapeInfo{{1, 0x9000, "1111"}}
			announce := func(at uint64) {
				w.ksymbol(10, at, 0x9000, 2, perfdata.KSymbolBPF, 0, "bpf_prog_1")
				w.bpfLoad(10, at, 1)
			}
			if tt.loaded == 0 && !tt.tail {
				announce(0)
			}
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 200)
			w.comm(10, 210, perfdata.MiscCommExec, 7, "true")
			w.ticks(220, 300)
			if tt.loaded > 0 {
				announce(tt.loaded)
			}
			w.ticks(tt.lost-100, tt.lost-100)
			w.lost(10, tt.lost, 3)
			w.ticks(20e9, 20e9)
			w.round()
			if tt.tail {
				announce(0)
			}
			w.lostSamples(10, 3)
			if d := cmp.Diff(tt.want, w.replay().Image.Dump(0x9000, 2)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// TestCopiedBehindLoss: without a workload, or a second round, perf may have copied text after the last record. If
// changes were lost then, the copy may have one.
func TestCopiedBehindLoss(t *testing.T) {
	w := newTape(t)
	w.cmdline, w.copied = "perf record -a", true
	w.ticks(100, 900)
	w.tick(10, 1000)
	w.tick(11, 1000)
	w.round()
	w.lostSamples(11, 3)
	want := textLines("0..100 unconfirmed outside-recording 9090", "100.. unconfirmed after-loss 9090")
	if d := cmp.Diff(want, w.replay().Image.Dump(0x1100, 2)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// TestCopyInPlace: if Options.KCore names the recording's own kcore_dir, that is used as
// such.
func TestCopyInPlace(t *testing.T) {
	w := newTape(t)
	w.copied, w.kallsyms = true, "0000000000001000 T _stext\n0000000000002000 T _etext\n"
	w.timeConv() // all CPUs have one clock
	w.comm(10, 0, 0, 7, "perf-exec")
	w.ticks(100, 100)
	w.comm(10, 200, perfdata.MiscCommExec, 7, "true")
	w.ticks(200, 1000)
	dir := filepath.Dir(w.kcoreDir())
	data := filepath.Join(dir, "data")
	w.must(os.WriteFile(data, w.bytes(), 0o600))
	elsewhere := filepath.Join(t.TempDir(), "copy")
	w.must(os.CopyFS(elsewhere, os.DirFS(filepath.Join(dir, "kcore_dir"))))
	for _, tt := range []struct {
		path, kcore string
		copies      []Copy
		undated     bool
	}{
		{path: dir},
		{path: dir, kcore: filepath.Join(dir, "kcore_dir")},
		{path: data, kcore: filepath.Join(dir, "kcore_dir")},
		{path: dir, kcore: elsewhere},
		{path: data, kcore: elsewhere, undated: true},
		{path: data, copies: []Copy{{KCore: elsewhere, Made: Times{100, 200}}}},
	} {
		r, err := Load(tt.path, Options{KCore: tt.kcore, Copies: tt.copies})
		w.must(err)
		known := r.Image.At(500).Read(0x1100, make([]byte, 2)).Standing == timeline.Known
		if r.Report.Undated != tt.undated || known == tt.undated {
			t.Errorf("%s with %s: of unknown time %v, known %v", tt.path, tt.kcore, r.Report.Undated, known)
		}
		if r.Kallsyms() == nil {
			t.Errorf("%s with %s: no names", tt.path, tt.kcore)
		}
		if !slices.Contains(r.Files(), tt.kcore) && tt.kcore != "" {
			t.Errorf("%s is not among %s", tt.kcore, r.Files())
		}
		r.Close()
	}
}

// TestInfosAfter: an info that perf read after a time has what the code was then only if the image knows all of
// it by that info. Near a change that another CPU recorded it does not: clocks may differ.
func TestInfosAfter(t *testing.T) {
	const load = 5e9
	for _, tt := range []struct {
		poke uint64 // after the load
		want bool
	}{{20e6, true}, {2e9, false}} {
		w := newTape(t)
		w.infos = []tapeInfo{{1, 0x9000, "11223344"}}
		for _, cpu := range []uint64{10, 11} {
			w.tick(cpu, 1e9, 2e9)
		}
		w.ksymbol(10, load, 0x9000, 4, perfdata.KSymbolBPF, 0, "bpf_prog_1")
		w.bpfLoad(10, load, 1)
		w.poke(11, load+tt.poke, 0x9002, "3344", "3355")
		for _, cpu := range []uint64{10, 11} {
			w.tick(cpu, 9e9, 10e9)
		}
		r := w.replay()
		if got := r.InfosAfter(load + 1e6)[1]; got != tt.want {
			t.Errorf("a change %s after the load: left out %v, want %v", seconds(tt.poke), got, tt.want)
		}
	}
}

// TestTimesNearTheEnd: sums of times do not wrap. What is known does not depend on when the clock began.
func TestTimesNearTheEnd(t *testing.T) {
	const loaded = 300
	answers := func(since uint64) string {
		w := newTape(t)
		w.cmdline = "perf record -a --switch-output=1s -- true"
		w.infos = []tapeInfo{{1, 0x9000, "1111"}}
		w.timeConv() // all CPUs have one clock
		w.ticks(since+100, since+200)
		w.ksymbol(10, since+loaded, 0x9000, 2, perfdata.KSymbolBPF, 0, "bpf_prog_1")
		w.bpfLoad(10, since+loaded, 1)
		w.round()
		w.ticks(since+400, since+600)
		w.round()
		w.ticks(since+700, since+1000)
		w.round()
		r := w.replay()
		var code [2]byte
		b := r.Image.At(since+loaded+1).Read(0x9000, code[:])
		return fmt.Sprintf("from %d to %d, %v (%v)", r.Report.Begin-since, r.Report.Horizon-since, b.Standing, b.Reason)
	}
	usual := answers(1 << 40)
	for _, left := range []uint64{20e9, 9e9, 2000} {
		if got := answers(timeline.MaxTime - left); got != usual {
			t.Errorf("%d ns before the end of time: %s, want %s", left, got, usual)
		}
	}
}

// TestSetBackNearTheEnd: times that the clock may have shown twice end with time itself.
func TestSetBackNearTheEnd(t *testing.T) {
	const end = timeline.MaxTime
	b := &ringBuffer{longest: 50}
	b.tasks.steps = []step{{before: end - 5, after: end - 100}}
	s := &scan{buffers: []*ringBuffer{b}}
	if by, twice := s.setBackTo(end); by != 145 || len(twice) != 1 || twice[0] != (timeline.Interval{From: end - 150, To: end}) {
		t.Errorf("set back by %d, %v", by, twice)
	}
}

// TestInfosAfterUnrecorded: kernels of arm64 record no change of text, so the bytes that they patch are never known. The
// others are known by the info, whenever perf read it.
func TestInfosAfterUnrecorded(t *testing.T) {
	r, err := Load(filepath.Join(corpus.Root(), "testdata", "arm64", "rec.data"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	trusted, patched := 0, 0
	for l := range r.Image.Lifetimes {
		if l.Program == 0 || l.From == 0 || l.To < l.From+2e6 {
			continue
		}
		known, unsure := false, false
		for s := range r.Image.At(l.From+1e6).Spans(l.Lo, l.Hi-l.Lo) {
			known, unsure = known || s.Standing == timeline.Known, unsure || s.Reason == timeline.NoCoverage
		}
		if !known || r.InfosAfter(l.From + 1e6)[l.Program] {
			continue
		}
		if trusted++; unsure {
			patched++
		}
	}
	if trusted == 0 || patched == 0 {
		t.Errorf("of %d programs the info is trusted, of %d of them a part is never known", trusted, patched)
	}
}
