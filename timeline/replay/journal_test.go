// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/recorder/journal"
)

// journaled writes a tape as "textreplay record" does, with these lines behind the first
// one, and loads it. copies are copies of one page of text, by directory.
func journaled(t *testing.T, w *tape, lines string, copies map[string]string) *Replay {
	t.Helper()
	dir := t.TempDir()
	w.must(os.WriteFile(filepath.Join(dir, "data"), w.bytes(), 0o600))
	if w.copied {
		w.must(os.Rename(w.kcoreDir(), filepath.Join(dir, OwnCopy)))
	}
	start := `{"start":{"version":1,"program":"textreplay test","clock":"CLOCK_MONOTONIC","time":1,"wall":2,"follows_cpus":true,"open":100}}` + "\n"
	w.must(os.WriteFile(filepath.Join(dir, journal.Name), []byte(start+strings.ReplaceAll(lines, "; ", "\n")+"\n"), 0o600))
	for name, text := range copies {
		var segments []kcore.Segment
		if text != "" {
			segments = []kcore.Segment{{Addr: 0x1000, Data: append(bytes.Repeat([]byte{0x90}, 0x100), fromHex(text)...)}}
		}
		name = filepath.Join(dir, name)
		w.must(os.MkdirAll(name, 0o700))
		f, err := os.Create(filepath.Join(name, "kcore"))
		w.must(err)
		w.must(kcore.WriteCore(f, elf.EM_X86_64, elf.ELFCLASS64, elf.ELFDATA2LSB, segments, nil))
		w.must(f.Close())
	}
	r, err := Load(dir, Options{})
	w.must(err)
	t.Cleanup(func() { r.Close() })
	return r
}

// TestJournal: what the journal of "textreplay record" proves, and what it takes away.
func TestJournal(t *testing.T) {
	const (
		ready = `{"ready":{"time":150}}; `
		own   = `{"copy":{"dir":"kcore_dir","from":300,"to":320,"read":[{"lo":"0x1000","hi":"0x2000"}]}}; `
		end   = `{"end":{"time":1000}}`
	)
	watched := func(w *tape) {
		w.events = append(w.events, tracepointEvent("cpuhp_enter"))
		w.events[1].name = "cpuhp:cpuhp_enter"
		w.tracing = hotplugFormat
	}
	// begin has a poke before the copy, CPU 1's last record at 600, and the recording's
	// last record at 900.
	begin := func(w *tape) {
		w.copied, w.kallsyms = true, "0000000000001000 T _stext\n0000000000002000 T _etext\n"
		w.timeConv() // all CPUs have one clock
		w.tick(10, 100)
		w.tick(11, 100)
		w.round()
		w.poke(10, 250, 0x1180, "9090", "eb02")
		w.tick(11, 600)
		w.tick(10, 900)
		w.round()
	}
	for _, tt := range []struct {
		name    string
		tape    func(w *tape)
		journal string
		copies  map[string]string
		addr    uint64
		want    string // at addr, two bytes
	}{
		{"the copy has a time", func(w *tape) {
			w.copied, w.kallsyms = true, "0000000000001000 T _stext\n0000000000002000 T _etext\n"
			w.tick(10, 110)
			w.tick(11, 290, 600)
			w.tick(10, 900)
		}, ready + own + end, nil, 0x1100,
			textLines("0..100 unconfirmed outside-recording 9090", "100..1001 known 9090", "1001.. unconfirmed beyond-horizon 9090")},
		{"a silent CPU was idle", func(w *tape) {
			w.copied, w.kallsyms = true, "0000000000001000 T _stext\n0000000000002000 T _etext\n"
			w.tick(10, 100)
			w.tick(11, 100, 110)
			w.round()
			w.tick(10, 200, 300, 400, 500, 600, 700, 800, 900)
		}, ready + own + end, nil, 0x1100,
			textLines("0..100 unconfirmed outside-recording 9090", "100..1001 known 9090", "1001.. unconfirmed beyond-horizon 9090")},
		{"a CPU that came back was not recorded meanwhile", begin, ready + own + `{"gap":{"cpu":1,"from":600,"to":700}}; ` + end, nil, 0x1100,
			textLines("0..100 unconfirmed outside-recording 9090", "100..600 known 9090", "600..1001 unconfirmed cpu-silent 9090", "1001.. unconfirmed beyond-horizon 9090")},
		{"a later copy proves the text again", begin,
			ready + own + `{"gap":{"cpu":1,"from":600,"to":700}}; {"copy":{"dir":"copies/1","from":800,"to":810,"read":[{"lo":"0x1000","hi":"0x1102"}]}}; ` + end,
			map[string]string{"copies/1": "eb07"}, 0x1100,
			textLines("0..100 unconfirmed outside-recording 9090", "100..700 conflicting snapshots-differ 9090 eb07", "700..1001 known eb07", "1001.. unconfirmed beyond-horizon eb07")},
		{"what a later copy lacks is as in the first one", begin,
			ready + own + `{"gap":{"cpu":1,"from":600,"to":700}}; {"copy":{"dir":"copies/1","from":800,"to":810,"base":"kcore_dir","read":[{"lo":"0x1000","hi":"0x2000"}]}}; ` + end,
			map[string]string{"copies/1": ""}, 0x1100,
			textLines("0..100 unconfirmed outside-recording 9090", "100..600 known 9090", "600..700 unconfirmed cpu-silent 9090", "700..1001 known 9090", "1001.. unconfirmed beyond-horizon 9090")},
		{"what it did not read is not", begin,
			ready + own + `{"gap":{"cpu":1,"from":600,"to":700}}; {"copy":{"dir":"copies/1","from":800,"to":810,"base":"kcore_dir","read":[{"lo":"0x1000","hi":"0x1100"}]}}; ` + end,
			map[string]string{"copies/1": ""}, 0x1100,
			textLines("0..100 unconfirmed outside-recording 9090", "100..600 known 9090", "600..1001 unconfirmed cpu-silent 9090", "1001.. unconfirmed beyond-horizon 9090")},
		{"a copy that was not finished is no copy", begin, ready + end, nil, 0x1100,
			textLines("0.. unknown never-recorded")},
		{"a line that cannot be read may have been a gap", begin, ready + own + `{"gap":}; ` + end, nil, 0x1100,
			textLines("0.. unconfirmed damaged 9090")},
		{"the recorder was killed before it opened a CPU's events", func(w *tape) {
			watched(w)
			begin(w)
			w.step(0, 910, 1, 0, 150)
			w.step(0, 950, 1, 200, 20)
			w.tick(10, 1000)
		}, ready + own + end, nil, 0x1100,
			textLines("0..100 unconfirmed outside-recording 9090", "100..950 known 9090", "950.. unconfirmed cpu-silent 9090")},
		{"a gap explains why a CPU came online", func(w *tape) {
			watched(w)
			begin(w)
			w.step(0, 910, 1, 0, 150)
			w.step(0, 950, 1, 200, 20)
			w.step(0, 980, 1, 200, 30) // of a module that was loaded
			w.tick(10, 1000)
		}, ready + own + `{"gap":{"cpu":1,"from":900,"to":960}}; ` + end, nil, 0x1100,
			textLines("0..100 unconfirmed outside-recording 9090", "100..950 known 9090", "950..1001 unconfirmed cpu-silent 9090", "1001.. unconfirmed beyond-horizon 9090")},
		{"a CPU that came back has two ids", func(w *tape) {
			w.events[0].ids, w.cpuOf = []uint64{10, 11, 15}, map[uint64]int64{10: 0, 11: 1, 15: 1}
			begin(w)
			w.poke(15, 950, 0x1100, "9090", "eb02")
		}, ready + own + end, nil, 0x1100,
			textLines("0..100 unconfirmed outside-recording 9090", "100..950 known 9090", "950..1001 known eb02", "1001.. unconfirmed beyond-horizon eb02")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			tt.tape(w)
			r := journaled(t, w, tt.journal, tt.copies)
			if d := cmp.Diff(tt.want, r.Image.Dump(tt.addr, 2)); d != "" {
				t.Errorf("(-want +got):\n%s%v\n%v", d, r.Report.Warnings, r.Report.Trusted.Because)
			}
		})
	}
}

// TestCodeReads: when the code of a BPF trampoline, which the journal has, is proven. The
// symbol comes at 200 and goes at 800; at 300 a poke makes the function at 0x1180 call it.
func TestCodeReads(t *testing.T) {
	const (
		image = 0x9000
		ready = `{"ready":{"time":150}}; `
		own   = `{"copy":{"dir":"kcore_dir","from":160,"to":180,"read":[{"lo":"0x1000","hi":"0x2000"}]}}; `
		read  = `{"bytes":{"addr":"0x9000","from":400,"to":410,"data":"55c3cccc"}}; `
		late  = `{"bytes":{"addr":"0x9000","from":250,"to":260,"data":"55c3cccc"}}; `
		end   = `{"end":{"time":1000}}`
		leads = "e87b7e0000" // at 0x1180
	)
	born := func(name string) func(w *tape) {
		return func(w *tape) {
			w.ksymbol(10, 200, image, 0x1000, perfdata.KSymbolBPF, 0, name)
			w.poke(10, 300, 0x1180, "9090909090", leads)
			w.ksymbol(10, 800, image, 0x1000, perfdata.KSymbolBPF, perfdata.KSymbolUnregister, name)
		}
	}
	trampoline := born("bpf_trampoline_7")
	pokeOf := func(w *tape, tid uint32, time uint64) {
		id := w.id(11, time)
		id.TID = tid
		w.must(w.w.TextPoke(&perfdata.TextPoke{Addr: 0x1190, Old: []byte{0x90}, New: []byte{0xcc}, SampleID: id}))
	}
	known := textLines("0..200 unmapped", "200..300 unknown bpf-trampoline", "300..800 known 55c3", "800.. retired unregistered 55c3")
	unknown := textLines("0..200 unmapped", "200..800 unknown bpf-trampoline", "800.. unknown unregistered")
	for _, tt := range []struct {
		name    string
		kernel  string
		tape    func(w *tape)
		journal string
		text    string // of the copy at 0x1180
		addr    uint64
		want    string // at addr, two bytes
	}{
		{"from the poke that leads there", "6.1.0", trampoline, ready + own + read + end, "9090909090", image, known},
		{"not behind its last instruction", "6.1.0", trampoline, ready + own + read + end, "9090909090", image + 2, unknown},
		{"not if it was read before a poke led there", "6.1.0", trampoline, ready + own + late + end, "9090909090", image, unknown},
		{"not of a dispatcher", "6.1.0", born("bpf_dispatcher_xdp"), ready + own + read + end, "9090909090", image, unknown},
		{"not of kernels that write trampolines again", "5.11.0", trampoline, ready + own + read + end, "9090909090", image, unknown},
		{"not without an end", "6.1.0", trampoline, ready + own + strings.Replace(read, "55c3", "5590", 1) + end, "9090909090", image, unknown},
		{"a poke before the birth led to the trampoline before", "6.1.0", func(w *tape) {
			w.poke(10, 150, 0x1180, "9090909090", leads)
			w.poke(10, 190, 0x1180, leads, "9090909090")
			w.ksymbol(10, 200, image, 0x1000, perfdata.KSymbolBPF, 0, "bpf_trampoline_7")
			w.ksymbol(10, 800, image, 0x1000, perfdata.KSymbolBPF, perfdata.KSymbolUnregister, "bpf_trampoline_7")
		}, ready + own + read + end, "9090909090", image, unknown},
		{"only the poke after the birth counts", "6.1.0", func(w *tape) {
			w.poke(10, 150, 0x1180, "9090909090", leads)
			w.poke(10, 190, 0x1180, leads, "9090909090")
			trampoline(w)
		}, ready + own + read + end, "9090909090", image, known},
		{"not if records were lost between the poke and the read", "6.1.0", func(w *tape) {
			trampoline(w)
			w.lost(11, 350, 3)
		}, ready + own + read + end, "9090909090", image, unknown},
		{"its thread makes another poke", "6.1.0", func(w *tape) {
			w.ksymbol(10, 200, image, 0x1000, perfdata.KSymbolBPF, 0, "bpf_trampoline_7")
			pokeOf(w, 1, 300)
			w.ksymbol(10, 800, image, 0x1000, perfdata.KSymbolBPF, perfdata.KSymbolUnregister, "bpf_trampoline_7")
		}, ready + own + read + end, "9090909090", image, known},
		{"another thread makes a poke", "6.1.0", func(w *tape) {
			w.ksymbol(10, 200, image, 0x1000, perfdata.KSymbolBPF, 0, "bpf_trampoline_7")
			pokeOf(w, 2, 300)
			w.ksymbol(10, 800, image, 0x1000, perfdata.KSymbolBPF, perfdata.KSymbolUnregister, "bpf_trampoline_7")
		}, ready + own + read + end, "9090909090", image, unknown},
		{"its thread made a poke before", "6.1.0", func(w *tape) {
			w.ksymbol(10, 200, image, 0x1000, perfdata.KSymbolBPF, 0, "bpf_trampoline_7")
			pokeOf(w, 1, 190)
			w.ksymbol(10, 800, image, 0x1000, perfdata.KSymbolBPF, perfdata.KSymbolUnregister, "bpf_trampoline_7")
		}, ready + own + read + end, "9090909090", image, unknown},
		{"not if it was read before its thread made a poke", "6.1.0", func(w *tape) {
			w.ksymbol(10, 200, image, 0x1000, perfdata.KSymbolBPF, 0, "bpf_trampoline_7")
			pokeOf(w, 1, 300)
			w.ksymbol(10, 800, image, 0x1000, perfdata.KSymbolBPF, perfdata.KSymbolUnregister, "bpf_trampoline_7")
		}, ready + own + late + end, "9090909090", image, unknown},
		{"the copy shows what led there before", "6.1.0", func(w *tape) {
			w.ksymbol(10, 800, image, 0x1000, perfdata.KSymbolBPF, perfdata.KSymbolUnregister, "bpf_trampoline_7")
		}, ready + own + read + end, leads, image,
			textLines("0..180 unknown bpf-trampoline", "180..800 known 55c3", "800.. retired unregistered 55c3")},
		{"not if the copy was made after the read", "6.1.0", func(w *tape) {
			w.ksymbol(10, 800, image, 0x1000, perfdata.KSymbolBPF, perfdata.KSymbolUnregister, "bpf_trampoline_7")
		}, ready + strings.Replace(own, `"to":180`, `"to":405`, 1) + read + end, leads, image,
			textLines("0..800 unknown bpf-trampoline", "800.. unknown unregistered")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.release = tt.kernel
			w.copied = true
			w.kallsyms = "0000000000001000 T _stext\n0000000000001180 T f\n0000000000002000 T _etext\n"
			if tt.text == leads {
				w.kallsyms += "0000000000009000 t bpf_trampoline_7\t[bpf]\n"
			}
			w.text = bytes.Repeat([]byte{0x90}, tapeTextHi-tapeTextLo)
			copy(w.text[0x1180-tapeTextLo:], fromHex(tt.text))
			w.tick(10, 110)
			w.tick(11, 110)
			tt.tape(w)
			w.tick(11, 900)
			w.tick(10, 950)
			r := journaled(t, w, tt.journal, nil)
			if d := cmp.Diff(tt.want, r.Image.Dump(tt.addr, 2)); d != "" {
				t.Errorf("(-want +got):\n%s%v\n%v", d, r.Report.Warnings, r.Report.Trusted.Because)
			}
		})
	}
}
