// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// beginRecorderTape returns what newRecorderTape does, up to the first round.
func beginRecorderTape(t *testing.T) *tape {
	w := newProbeTape(t)
	w.cmdline = "textreplay record"
	for i := range w.events {
		w.events[i].attr.Flags &^= perfdata.FlagDisabled
	}
	w.tick(10, 110)
	w.tick(11, 120)
	w.round()
	return w
}

// newRecorderTape returns the tape of an arm64 kernel that "textreplay record" recorded: its
// events are opened enabled. The word at 0x1100 changes from 480 to 500.
func newRecorderTape(t *testing.T) *tape {
	w := beginRecorderTape(t)
	w.change(21, 480, 500, 0x1100, wordNOP, wordB)
	w.tick(10, 900)
	w.round()
	return w
}

// counters returns a line of the journal with a reading.
func counters(from, to, data, hits, missed uint64) string {
	return fmt.Sprintf(`{"counters":{"from":%d,"to":%d,"data":%d,"probes":{"map":{"hits":%d,"missed":%d}}}}; `, from, to, data, hits, missed)
}

// TestProbeJournal: what the readings of hit counters in the journal of "textreplay record"
// prove.
func TestProbeJournal(t *testing.T) {
	const (
		ready = `{"ready":{"time":150}}; `
		own   = `{"copy":{"dir":"kcore_dir","from":300,"to":320,"read":[{"lo":"0x1000","hi":"0x2000"}]}}; `
		end   = `{"end":{"time":1000}}`
		late  = 1 << 30
	)
	for _, tt := range []struct {
		name    string
		tape    func(w *tape)
		journal string
		want    string
	}{
		{"hits before the first reading may have no sample", nil,
			counters(95, 100, 1, 7, 0) + ready + own + counters(950, 955, 1, 9, 0) + end, textLines(
				"0..100 unconfirmed outside-recording "+wordNOP,
				"100..480 known "+wordNOP,
				"480..500 in_flight explicit-window "+wordB,
				"500..950 known "+wordB,
				"950.. unconfirmed probe-unchecked "+wordB)},
		{"nothing is known of the time before the first reading", nil,
			ready + own + counters(345, 350, 1, 7, 0) + counters(950, 955, 1, 9, 0) + end, textLines(
				"0..350 unconfirmed probe-unchecked "+wordNOP,
				"350..480 known "+wordNOP, // its old bytes were read then
				"480..500 in_flight explicit-window "+wordB,
				"500..950 known "+wordB,
				"950.. unconfirmed probe-unchecked "+wordB)},
		{"the kernel may have missed hits before the first reading", nil,
			counters(95, 100, 1, 7, 2) + ready + own + counters(950, 955, 1, 9, 2) + end, textLines(
				"0..100 unconfirmed outside-recording "+wordNOP,
				"100..480 known "+wordNOP,
				"480..500 in_flight explicit-window "+wordB,
				"500..950 known "+wordB,
				"950.. unconfirmed probe-unchecked "+wordB)},
		{"each hit after it has a sample", nil,
			counters(95, 100, 1, 7, 0) + ready + own + counters(950, 955, 1, 10, 0) + end, textLines(
				"0..100 unconfirmed outside-recording "+wordNOP,
				"100..480 unconfirmed probe-missed "+wordNOP,
				"480..500 in_flight explicit-window "+wordB,
				"500..1000000955 unconfirmed probe-missed "+wordB,
				"1000000955.. unconfirmed probe-unchecked "+wordB)},
		{"a first reading while text changes is not used", nil,
			ready + own + counters(470, 490, 1, 8, 0) + counters(520, 530, 1, 9, 0) + counters(950, 955, 1, 9, 0) + end, textLines(
				"0..480 unconfirmed probe-unchecked "+wordNOP,
				"480..500 in_flight explicit-window "+wordB,
				"500.. unconfirmed probe-unchecked "+wordB)},
		{"a reading whose samples are not in the file yet", nil,
			counters(95, 100, 1, 7, 0) + ready + own + counters(400, 405, 1, 7, 0) + counters(950, 955, late, 12, 0) + end, textLines(
				"0..100 unconfirmed outside-recording "+wordNOP,
				"100..400 known "+wordNOP,
				"400..480 unconfirmed probe-unchecked "+wordNOP,
				"480..500 in_flight explicit-window "+wordB,
				"500.. unconfirmed probe-unchecked "+wordB)},
		{"a hit is counted before its sample has its time", nil,
			counters(95, 100, 1, 7, 0) + ready + own + counters(470, 475, 1, 8, 0) + counters(950, 955, 1, 9, 0) + end, textLines(
				"0..100 unconfirmed outside-recording "+wordNOP,
				"100..480 known "+wordNOP,
				"480..500 in_flight explicit-window "+wordB,
				"500..950 known "+wordB,
				"950.. unconfirmed probe-unchecked "+wordB)},
		{"more hits than CPUs have no sample", nil,
			counters(95, 100, 1, 7, 0) + ready + own + counters(470, 475, 1, 9, 0) + counters(950, 955, 1, 9, 0) + end, textLines(
				"0..100 unconfirmed outside-recording "+wordNOP,
				"100..480 unconfirmed probe-missed "+wordNOP,
				"480..500 in_flight explicit-window "+wordB,
				"500..1000000955 unconfirmed probe-missed "+wordB,
				"1000000955.. unconfirmed probe-unchecked "+wordB)},
		{"the recorder found the probes disarmed", nil,
			counters(95, 100, 1, 7, 0) + ready + own + `{"disarmed":{"from":600,"seen":610}}; {"disarmed":{"from":600,"seen":610,"to":700}}; ` + counters(950, 955, 1, 9, 0) + end, textLines(
				"0..100 unconfirmed outside-recording "+wordNOP,
				"100..480 known "+wordNOP,
				"480..500 in_flight explicit-window "+wordB,
				"500..600 known "+wordB,
				"600..950 unconfirmed probe-disarmed "+wordB, // and no copy of text shows what it is
				"950.. unconfirmed probe-unchecked "+wordB)},
		{"they were not armed again", nil,
			counters(95, 100, 1, 7, 0) + ready + own + `{"disarmed":{"from":300,"seen":310,"to":400}}; {"disarmed":{"from":600,"seen":610}}; ` + counters(950, 955, 1, 9, 0) + end, textLines(
				"0..100 unconfirmed outside-recording "+wordNOP,
				"100..400 unconfirmed probe-disarmed "+wordNOP, // the copy may have been made after a change
				"400..480 known "+wordNOP,
				"480..500 in_flight explicit-window "+wordB,
				"500..600 known "+wordB,
				"600.. unconfirmed probe-disarmed "+wordB)},
		{"a sample says since when", func(w *tape) {
			w.probe(20, 604, probeMap+probePhys, lrMap, probeMap, "800020d4", "")
			w.round()
		},
			counters(95, 100, 1, 7, 0) + ready + own + `{"disarmed":{"from":600,"seen":610}}; ` + counters(950, 955, 1, 10, 0) + end, textLines(
				"0..100 unconfirmed outside-recording "+wordNOP,
				"100..480 known "+wordNOP,
				"480..500 in_flight explicit-window "+wordB,
				"500..604 known "+wordB,
				"604.. unconfirmed probe-disarmed "+wordB)},
		{"and the recorder until when", func(w *tape) {
			w.probe(20, 604, probeMap+probePhys, lrMap, probeMap, "800020d4", "")
			w.round()
		},
			counters(95, 100, 1, 7, 0) + ready + own + `{"disarmed":{"from":600,"seen":610,"to":700}}; ` + counters(950, 955, 1, 10, 0) + end, textLines(
				"0..100 unconfirmed outside-recording "+wordNOP,
				"100..480 known "+wordNOP,
				"480..500 in_flight explicit-window "+wordB,
				"500..604 known "+wordB,
				"604..950 unconfirmed probe-disarmed "+wordB,
				"950.. unconfirmed probe-unchecked "+wordB)},
		{"without readings nothing is known", nil, ready + own + end, textLines(
			"0..480 unconfirmed probe-unchecked "+wordNOP,
			"480..500 in_flight explicit-window "+wordB,
			"500.. unconfirmed probe-unchecked "+wordB)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newRecorderTape(t)
			if tt.tape != nil {
				tt.tape(w)
			}
			r := journaled(t, w, tt.journal, nil)
			if d := cmp.Diff(tt.want, r.Image.Dump(0x1100, 4)); d != "" {
				t.Errorf("%v\n-want +got:\n%s", r.Report.Coverage.Pokes, d)
			}
			if !r.ListsOutOfLine() {
				t.Error("its kallsyms has pages of slots")
			}
		})
	}
}

// TestProbeSlotsListed: the recorder's kallsyms has the pages of slots that were there. A slot
// in such a page is none of its own.
func TestProbeSlotsListed(t *testing.T) {
	const page, slot = uint64(0x9000), uint64(0x9040)
	for _, listed := range []bool{false, true} {
		w := newProbeTape(t)
		for i := range w.events {
			w.events[i].attr.Flags &^= perfdata.FlagDisabled
		}
		if listed {
			w.kallsyms += fmt.Sprintf("%016x t kprobe_insn_page\t[__builtin__kprobes]\n", page)
		}
		w.tick(10, 110)
		w.tick(11, 120)
		w.round()
		w.change(21, 400, 410, slot, "00000000", wordNOP)
		w.change(21, 420, 430, slot+4, "00000000", "c00020d4")
		w.tick(10, 900)
		w.round()
		r := journaled(t, w, counters(95, 100, 1, 7, 0)+
			`{"copy":{"dir":"kcore_dir","from":300,"to":320}}; `+counters(950, 955, 1, 11, 0)+`{"end":{"time":1000}}`, nil)
		l, _ := r.Image.At(500).LifetimeAt(slot)
		if l == nil || l.Kind != timeline.OutOfLine {
			t.Errorf("listed %v: no slot", listed)
			continue
		}
		want := timeline.Range{Lo: slot, Hi: slot + 8}
		if listed {
			want = timeline.Range{Lo: page, Hi: page + 0x1000}
		}
		if l.Lo != want.Lo || l.Hi != want.Hi {
			t.Errorf("listed %v: %#x to %#x, want %#x", listed, l.Lo, l.Hi, want)
		}
		if got := r.Image.Dump(slot, 8); !strings.Contains(got, "known "+wordNOP+"c00020d4") {
			t.Errorf("listed %v:\n%s", listed, got)
		}
	}
}

// TestProbedCodeReads: the code of a BPF trampoline, which the journal has, is known when its thread has
// changed kernel text. The trampoline's symbol comes at 300.
func TestProbedCodeReads(t *testing.T) {
	const (
		image = 0x9000
		code  = "1f2003d5c0035fd600000000" // NOP; RET; behind it
		first = `{"copy":{"dir":"kcore_dir","from":160,"to":180,"read":[{"lo":"0x1000","hi":"0x2000"}]}}; `
		end   = `{"end":{"time":1000}}`
		ready = `{"ready":{"time":150}}; `
	)
	read := func(from, to int, data string) string {
		return fmt.Sprintf(`{"bytes":{"addr":"0x9000","from":%d,"to":%d,"data":"%s"}}; `, from, to, data)
	}
	readings := func(hits uint64) string {
		return counters(95, 100, 1, 7, 0) + ready + first + counters(950, 955, 1, 7+hits, 0)
	}
	born := func(w *tape, time uint64, tid uint32) {
		id := w.id(10, time)
		id.TID = tid
		w.must(w.w.KSymbol(&perfdata.KSymbol{Addr: image, Len: 0x1000, Kind: perfdata.KSymbolBPF, Name: []byte("bpf_trampoline_7"), SampleID: id}))
	}
	text := func(w *tape) { w.change(21, 480, 500, 0x1100, wordNOP, wordB) }
	usual := func(w *tape) { born(w, 300, 1); text(w) }
	unknown := textLines("0..300 unmapped", "300.. unknown bpf-trampoline")
	for _, tt := range []struct {
		name    string
		tape    func(w *tape)
		journal string
		at      uint64
		want    string // of four bytes
	}{
		{"from the change on", usual, readings(2) + read(600, 610, code), image, textLines(
			"0..300 unmapped", "300..500 unknown bpf-trampoline", "500..950 known 1f2003d5", "950.. unconfirmed probe-unchecked 1f2003d5")},
		{"the first read after it counts", usual, readings(2) + read(350, 360, wordB+code) + read(600, 610, code) + read(700, 710, code), image + 4, textLines(
			"0..300 unmapped", "300..500 unknown bpf-trampoline", "500..950 known c0035fd6", "950.. unconfirmed probe-unchecked c0035fd6")},
		{"not behind its last instruction", usual, readings(2) + read(600, 610, code), image + 8, unknown},
		{"not if it was read before the change ended", usual, readings(2) + read(490, 510, code), image, unknown},
		{"not if another thread changed text", func(w *tape) { born(w, 300, 2); text(w) }, readings(2) + read(600, 610, code), image, unknown},
		{"not if no thread is known", func(w *tape) { born(w, 300, 0); text(w) }, readings(2) + read(600, 610, code), image, unknown},
		{"not if the change came first", func(w *tape) {
			text(w)
			born(w, 520, 1)
		}, readings(2) + read(600, 610, code), image, textLines("0..520 unmapped", "520.. unknown bpf-trampoline")},
		{"not if it had begun", func(w *tape) {
			w.before(21, 290, 0x1100, wordNOP)
			born(w, 300, 1)
			w.after(21, 310, lrUnmap, wordB)
		}, readings(2) + read(600, 610, code), image, unknown},
		{"a change of other code may be of the trampoline itself", func(w *tape) {
			w.change(21, 250, 260, 0x1100, wordNOP, wordB)
			born(w, 300, 1)
			w.change(21, 480, 500, 0xa000, wordNOP, wordB)
		}, readings(4) + read(600, 610, code), image, unknown},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := beginRecorderTape(t)
			tt.tape(w)
			w.tick(10, 900)
			w.round()
			r := journaled(t, w, tt.journal+end, nil)
			if n, want := r.Report.BPF.ImagesWithBytes, strings.Count(tt.want, "500 unknown"); n > 1 || n < want {
				t.Errorf("%d images with bytes", n)
			}
			if d := cmp.Diff(tt.want, r.Image.Dump(tt.at, 4)); d != "" {
				t.Errorf("(-want +got):\n%s%v\n%v", d, r.Report.Warnings, r.Report.Trusted.Because)
			}
		})
	}
}
