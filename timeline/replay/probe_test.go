// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// probeFormats is the format of tp:map in TRACING_DATA, and that of tp:poke.
const probeFormats = "name: map\nID: 1206\nformat:\n" +
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n" +
	"\tfield:unsigned long __probe_ip;\toffset:8;\tsize:8;\tsigned:0;\n" +
	"\tfield:u64 idx;\toffset:16;\tsize:8;\tsigned:0;\n" +
	"\tfield:u64 phys;\toffset:24;\tsize:8;\tsigned:0;\n" +
	"\tfield:u64 lr;\toffset:32;\tsize:8;\tsigned:0;\n" +
	"\tfield:u64 x19;\toffset:40;\tsize:8;\tsigned:0;\n" +
	"\tfield:u64 at19;\toffset:48;\tsize:8;\tsigned:0;\n" +
	"\tfield:u64 st[];\toffset:56;\tsize:80;\tsigned:0;\n\nprint fmt: \"%lx\"\n"

// Functions of a kernel whose text is that of tapes, and what calls return to.
const (
	probeMap     = 0x1200 // __set_fixmap
	probeCopyTo  = 0x1240 // copy_to_kernel_nofault
	probeWriter  = 0x1300 // __aarch64_insn_write
	probeStrange = 0x1400 // another one
	lrMap        = probeWriter + 0x14
	lrUnmap      = probeWriter + 0x30
	probePhys    = 0x7f000 // physical addresses are those of text and this
)

const probeKallsyms = "0000000000001000 T _stext\n0000000000001100 T key_site\n0000000000001200 T __set_fixmap\n0000000000001240 T copy_to_kernel_nofault\n" +
	"0000000000001300 T __aarch64_insn_write\n0000000000001340 T between\n0000000000001400 T strange\n0000000000001440 T rest\n0000000000002000 T _etext\n"

// probeText returns the kernel's text.
func probeText() []byte {
	text := make([]byte, tapeTextHi-tapeTextLo)
	for i := 0; i < len(text); i += 4 {
		binary.LittleEndian.PutUint32(text[i:], 0xd503201f)
	}
	call := func(from, to int64) uint32 { return 0x94000000 | uint32((to-from)/4)&0x3ffffff }
	for i, word := range []uint32{
		0xa9bc7bfd, // stp x29, x30, [sp, #-64]!
		0xa90153f3, // stp x19, x20, [sp, #16]
		0xaa0003f3, // mov x19, x0
		0x52804080, // mov w0, #516
		call(probeWriter+0x10, probeMap),
		0xd2800082, // mov x2, #4
		0x9100f3e1, // add x1, sp, #60
		call(probeWriter+0x1c, probeCopyTo),
		0xd2800002, // mov x2, #0
		0xd2800001, // mov x1, #0
		0x52804080, // mov w0, #516
		call(probeWriter+0x2c, probeMap),
		0xd65f03c0, // ret
	} {
		binary.LittleEndian.PutUint32(text[probeWriter-tapeTextLo+4*i:], word)
	}
	return text
}

// newProbeTape returns a tape of an arm64 kernel with a probe on __set_fixmap, whose event
// is the tape's second one.
func newProbeTape(tb testing.TB) *tape {
	w := newTape(tb)
	w.arch, w.machine, w.release = "aarch64", elf.EM_AARCH64, "6.12.0"
	w.copied, w.text, w.kallsyms, w.tracing = true, probeText(), probeKallsyms, probeFormats
	w.addProbes("tp:map")
	return w
}

// probeID is the number of the tracepoint of the last event that addProbes adds.
const probeID = 1206

// addProbes adds events on probes, which are the tape's next events.
func (t *tape) addProbes(names ...string) {
	t.cmdline = "perf record -a --kcore -k CLOCK_MONOTONIC -e dummy -e " + strings.Join(names, " -e ")
	for i, name := range names {
		e := onBoth(0)
		e.name = name
		e.attr.Type, e.attr.Config, e.attr.SamplePeriod = 2, uint64(probeID-len(names)+1+i), 1
		e.attr.SampleType = perfdata.SampleRaw
		e.attr.Flags = perfdata.FlagDisabled
		t.events = append(t.events, e)
	}
	for i := range t.events {
		a := &t.events[i].attr
		a.Flags |= perfdata.FlagUseClockID | perfdata.FlagTask
		a.ClockID = 1
	}
}

// changeOfProbes writes a recording from which the word at 0x1100 is known between two
// readings of the counters, at 160 and at 950: it changes from 480 to 500.
func (t *tape) changeOfProbes() {
	t.comm(10, 0, 0, 7, "perf-exec")
	t.ticks(100, 100)
	t.comm(10, 150, perfdata.MiscCommExec, 7, "true")
	t.ticks(200, 400)
	t.change(21, 480, 500, 0x1100, wordNOP, wordB)
	t.ticks(600, 1000)
	t.round()
	t.ticks(1100, 1200)
	t.round()
}

// The readings of the counters that belong to changeOfProbes.
const (
	firstReading = "160\n  map 1 0\n160\n"
	lastReading  = "950\n  map 3 0\n950\n"
)

// before writes the sample at the start of a change of the word at addr.
func (t *tape) before(id, time, addr uint64, old string) {
	t.probe(id, time, addr+probePhys, lrMap, addr, old, "")
}

// after writes the sample at its end.
func (t *tape) after(id, time, lr uint64, new string) {
	t.probe(id, time, 0, lr, 0, "", new)
}

func (t *tape) probe(id, time, phys, lr, x19 uint64, old, new string) {
	raw := make([]byte, 56+80)
	le := binary.LittleEndian
	le.PutUint64(raw[8:], probeMap)
	le.PutUint64(raw[16:], 516)
	le.PutUint64(raw[24:], phys)
	le.PutUint64(raw[32:], lr)
	le.PutUint64(raw[40:], x19)
	copy(raw[48:], fromHex(old))
	copy(raw[56+60:], fromHex(new))
	t.sample(id, time, raw)
}

// change writes both samples of a change.
func (t *tape) change(id, from, to, addr uint64, old, new string) {
	t.before(id, from, addr, old)
	t.after(id, to, lrUnmap, new)
}

// reading adds a reading of the hit counters that was made at a time.
func (t *tape) reading(time, hits, missed uint64) {
	path := filepath.Join(t.tb.TempDir(), fmt.Sprintf("kprobe_profile.%d", len(t.counters)))
	t.must(os.WriteFile(path, fmt.Appendf(nil, "%d\n  map %d %d\n  other 7 1\n%d\n", time, hits, missed, time), 0o600))
	t.counters = append(t.counters, path)
}

// readBy adds a reading of the hit counters that a process made.
func (t *tape) readBy(pid uint32, hits, missed uint64) {
	path := filepath.Join(t.tb.TempDir(), fmt.Sprintf("kprobe_profile.%d", len(t.counters)))
	t.must(os.WriteFile(path, fmt.Appendf(nil, "pid %d\n  map %d %d\n", pid, hits, missed), 0o600))
	t.counters = append(t.counters, path)
}

// followed reads the recording as a stream, with an image after each round, and returns
// what the last image says of the word at 0x1100.
func (t *tape) followed(data []byte) string {
	t.tb.Helper()
	f, err := Follow(bytes.NewReader(data), Options{KCore: t.kcoreDir(), ProbeCounters: t.counters})
	t.must(err)
	t.tb.Cleanup(func() { f.Close() })
	for f.Next() {
		_, err := f.Image()
		t.must(err)
	}
	im, err := f.Image()
	t.must(err)
	return im.Dump(0x1100, 4)
}

const (
	wordNOP = "1f2003d5"
	wordB   = "0a000014"
)

// TestProbes: what the samples of a probe on the function that maps text prove, rule by
// rule. The workload starts at 150. The word at 0x1100 changes from 480 to 500.
func TestProbes(t *testing.T) {
	begin := func(w *tape) {
		w.comm(10, 0, 0, 7, "perf-exec")
		w.ticks(100, 100)
		w.comm(10, 150, perfdata.MiscCommExec, 7, "true")
		w.ticks(200, 400)
	}
	flip := func(w *tape) { w.change(21, 480, 500, 0x1100, wordNOP, wordB) }
	end := func(w *tape) { w.ticks(600, 1000) }
	good := func(w *tape) {
		w.reading(160, 1, 0)
		w.reading(950, 3, 0)
	}
	// Processes 50 and 51 run around the change, and end on another CPU.
	readers := func(w *tape, change func(w *tape)) {
		w.comm(10, 0, 0, 7, "perf-exec")
		w.ticks(100, 100)
		w.comm(10, 150, perfdata.MiscCommExec, 7, "true")
		w.exit(10, 165, 50, 7)
		w.fork(11, 155, 50, 7)
		w.ticks(200, 400)
		change(w)
		w.ticks(600, 900)
		w.exit(10, 950, 51, 7)
		w.fork(11, 940, 51, 7)
		w.ticks(1000, 1000)
	}
	around := func(after string) string {
		return textLines(
			"0..100 unconfirmed outside-recording "+wordNOP,
			"100..480 known "+wordNOP,
			"480..500 in_flight explicit-window "+wordB) + after
	}
	whole := around(textLines("500..950 known "+wordB, "950.. unconfirmed probe-unchecked "+wordB))
	unchecked := textLines("0..150 unconfirmed not-listening "+wordNOP,
		"150..480 unconfirmed probe-unchecked "+wordNOP,
		"480..500 in_flight explicit-window "+wordB,
		"500.. unconfirmed probe-unchecked "+wordB)
	never := func(reason string) string {
		return textLines("0..480 unconfirmed "+reason+" "+wordNOP,
			"480..500 in_flight explicit-window "+wordB,
			"500.. unconfirmed "+reason+" "+wordB)
	}
	missed := textLines(
		"0..100 unconfirmed outside-recording "+wordNOP,
		"100..300 known "+wordNOP,
		"300..480 unconfirmed probe-missed "+wordNOP,
		"480..500 in_flight explicit-window "+wordB,
		"500..1000000950 unconfirmed probe-missed "+wordB,
		"1000000950.. unconfirmed probe-unchecked "+wordB)
	for _, tt := range []struct {
		name string
		set  func(w *tape) // before the first record
		tape func(w *tape)
		want string
	}{
		{"a pair of samples is a change that was going on between", nil,
			func(w *tape) { begin(w); flip(w); end(w); good(w) }, whole},
		{"the samples of one change may be written twice", nil,
			func(w *tape) { begin(w); flip(w); flip(w); end(w); good(w) }, whole},
		{"old bytes that differ contradict the facts before", nil,
			func(w *tape) {
				begin(w)
				w.change(21, 480, 500, 0x1100, wordB, wordNOP)
				end(w)
				good(w)
			}, textLines(
				"0..100 unconfirmed outside-recording "+wordNOP,
				"100..480 conflicting snapshot-mismatch "+wordNOP+" "+wordB,
				"480..500 in_flight explicit-window "+wordNOP,
				"500..950 known "+wordNOP,
				"950.. unconfirmed probe-unchecked "+wordNOP)},

		{"a process that reads the counters may end where nothing is recorded", nil,
			func(w *tape) {
				begin(w)
				flip(w)
				w.ticks(600, 900)
				w.fork(11, 950, 71, 7)
				w.ticks(1000, 1000)
				w.reading(160, 1, 0)
				w.readBy(71, 3, 0)
			}, whole},
		{"without its FORK, nothing says when a process read the counters", nil,
			func(w *tape) {
				begin(w)
				flip(w)
				w.ticks(600, 900)
				w.exit(11, 960, 71, 7)
				w.ticks(1000, 1000)
				w.readBy(71, 3, 0)
			}, unchecked},
		{"a process without EXIT may have read the counters before or after a later change", nil,
			func(w *tape) {
				begin(w)
				w.fork(11, 420, 71, 7)
				flip(w)
				end(w)
				w.reading(160, 1, 0)
				w.readBy(71, 3, 0)
			}, textLines(
				"0..100 unconfirmed outside-recording "+wordNOP,
				"100..160 known "+wordNOP,
				"160..480 unconfirmed probe-unchecked "+wordNOP,
				"480..500 in_flight explicit-window "+wordB,
				"500.. unconfirmed probe-unchecked "+wordB)},

		{"without counters nothing is known", nil,
			func(w *tape) { begin(w); flip(w); end(w) }, unchecked},
		{"a reading from before the recording does not count", nil,
			func(w *tape) { begin(w); flip(w); end(w); w.reading(50, 0, 0) }, unchecked},
		{"a reading while text changes is not used", nil,
			func(w *tape) { begin(w); flip(w); end(w); w.reading(480, 2, 0) }, unchecked},
		{"a hit without a sample", nil,
			func(w *tape) {
				begin(w)
				flip(w)
				end(w)
				w.reading(160, 1, 0)
				w.reading(300, 1, 0)
				w.reading(950, 5, 0)
			},
			missed},
		{"hits that the kernel could not run", nil,
			func(w *tape) {
				begin(w)
				flip(w)
				end(w)
				w.reading(160, 1, 0)
				w.reading(300, 1, 0)
				w.reading(950, 3, 2)
			},
			missed},
		{"hits before the event was enabled", nil,
			func(w *tape) { begin(w); flip(w); end(w); w.reading(160, 3, 0); w.reading(950, 5, 0) },
			textLines("0..150 unconfirmed probe-early "+wordNOP, "150..480 known "+wordNOP,
				"480..500 in_flight explicit-window "+wordB,
				"500..950 known "+wordB, "950.. unconfirmed probe-unchecked "+wordB)},

		{"the records of a process that reads come in any order", nil,
			func(w *tape) {
				readers(w, flip)
				w.readBy(50, 1, 0)
				w.readBy(51, 3, 0)
			}, around(textLines("500..940 known "+wordB, "940.. unconfirmed probe-unchecked "+wordB))},
		{"a process that reads has its id alone", nil,
			func(w *tape) {
				readers(w, flip)
				w.fork(11, 1010, 51, 7)
				w.readBy(50, 1, 0)
				w.readBy(51, 3, 0)
			}, textLines("0..100 unconfirmed outside-recording "+wordNOP,
				"100..155 known "+wordNOP,
				"155..480 unconfirmed probe-unchecked "+wordNOP,
				"480..500 in_flight explicit-window "+wordB,
				"500.. unconfirmed probe-unchecked "+wordB)},

		{"a change without its end", nil,
			func(w *tape) {
				begin(w)
				flip(w)
				w.before(21, 550, 0x1180, wordNOP)
				w.change(21, 580, 590, 0x1180, wordNOP, wordB)
				end(w)
				w.reading(160, 1, 0)
				w.reading(950, 6, 0)
			}, around(textLines("500..550 known "+wordB, "550..950 unconfirmed probe-unpaired "+wordB, "950.. unconfirmed probe-unchecked "+wordB))},
		{"a change without its beginning", nil,
			func(w *tape) {
				begin(w)
				flip(w)
				w.after(21, 550, lrUnmap, wordB)
				end(w)
				w.reading(160, 1, 0)
				w.reading(950, 4, 0)
			}, around(textLines("500..950 unconfirmed probe-unpaired "+wordB, "950.. unconfirmed probe-unchecked "+wordB))},
		{"a change ends on its CPU", nil,
			func(w *tape) {
				begin(w)
				flip(w)
				w.before(21, 550, 0x1180, wordNOP)
				w.after(20, 560, lrUnmap, wordB)
				end(w)
				w.reading(160, 1, 0)
				w.reading(950, 5, 0)
			}, textLines("0..480 unconfirmed probe-unpaired "+wordNOP,
				"480..500 in_flight explicit-window "+wordB,
				"500..950 unconfirmed probe-unpaired "+wordB, "950.. unconfirmed probe-unchecked "+wordB)},
		{"all kprobes are disarmed for a time", nil,
			func(w *tape) {
				begin(w)
				flip(w)
				w.before(21, 550, probeMap, wordNOP)
				w.after(21, 700, lrUnmap, "800020d4")
				w.change(21, 720, 740, 0x1100, wordB, wordNOP)
				w.ticks(800, 1000)
				w.reading(160, 1, 0)
				w.reading(950, 7, 0)
			}, around(textLines(
				"500..550 known "+wordB,
				"550..700 unconfirmed probe-disarmed "+wordB,
				"700..720 known "+wordB,
				"720..740 in_flight explicit-window "+wordNOP,
				"740..950 known "+wordNOP,
				"950.. unconfirmed probe-unchecked "+wordNOP))},
		{"all kprobes are disarmed, and armed again on another CPU", nil,
			func(w *tape) {
				begin(w)
				flip(w)
				w.before(21, 550, probeMap, wordNOP)
				w.tick(21, 600)
				w.after(20, 700, lrUnmap, "800020d4")
				w.change(21, 720, 740, 0x1100, wordB, wordNOP)
				w.ticks(800, 1000)
				w.reading(160, 1, 0)
				w.reading(950, 7, 0)
			}, around(textLines(
				"500..550 known "+wordB,
				"550..700 unconfirmed probe-disarmed "+wordB,
				"700..720 known "+wordB,
				"720..740 in_flight explicit-window "+wordNOP,
				"740..950 known "+wordNOP,
				"950.. unconfirmed probe-unchecked "+wordNOP))},
		{"all kprobes are disarmed until the end", nil,
			func(w *tape) {
				begin(w)
				flip(w)
				w.before(21, 550, probeMap, wordNOP)
				end(w)
				w.reading(160, 1, 0)
				w.reading(950, 4, 0)
			}, around(textLines("500..550 known "+wordB, "550.. unconfirmed probe-disarmed "+wordB))},
		{"a writer that cannot be decoded changes its page", nil,
			func(w *tape) {
				begin(w)
				flip(w)
				w.before(21, 550, 0x1080, wordNOP)
				w.after(21, 560, probeStrange+8, wordB)
				end(w)
				w.reading(160, 1, 0)
				w.reading(950, 5, 0)
			}, around(textLines("500..550 known "+wordB, "550..950 unconfirmed writer-unknown "+wordB, "950.. unconfirmed probe-unchecked "+wordB))},
		{"a writer that cannot be decoded changes nothing before its word", nil,
			func(w *tape) {
				begin(w)
				flip(w)
				w.before(21, 550, 0x1180, wordNOP)
				w.after(21, 560, probeStrange+8, wordB)
				end(w)
				w.reading(160, 1, 0)
				w.reading(950, 5, 0)
			}, whole},

		{"lost samples are losses", nil,
			func(w *tape) {
				begin(w)
				flip(w)
				w.lost(21, 620, 2)
				end(w)
				w.lostSamples(21, 2)
				w.reading(160, 1, 0)
				w.reading(950, 5, 0)
			}, textLines("0..100 unconfirmed outside-recording "+wordNOP,
				"100..400 known "+wordNOP,
				"400..480 unconfirmed after-loss "+wordNOP,
				"480..500 in_flight explicit-window "+wordB,
				"500..950 unconfirmed after-loss "+wordB, "950.. unconfirmed probe-unchecked "+wordB)},
		{"the event must be on every CPU", func(w *tape) { w.events[1].cpus = []int64{1} },
			func(w *tape) { begin(w); flip(w); end(w); good(w) }, never("partial-coverage")},
		{"the event must not be sampled", func(w *tape) { w.events[1].attr.SamplePeriod = 2 },
			func(w *tape) { begin(w); flip(w); end(w); good(w) }, never("probe-confined")},
		{"the event must not have a filter", func(w *tape) { w.cmdline += " --filter idx==1" },
			func(w *tape) { begin(w); flip(w); end(w); good(w) }, never("probe-confined")},
		{"the probe must be on the function", func(w *tape) { w.kallsyms = strings.Replace(w.kallsyms, "1200 T", "1204 T", 1) },
			func(w *tape) { begin(w); flip(w); end(w); good(w) }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newProbeTape(t)
			if tt.set != nil {
				tt.set(w)
			}
			tt.tape(w)
			data := w.bytes()
			r := w.replayOf(data)
			got := r.Image.Dump(0x1100, 4)
			// A follower of a file does not know at its end that nothing was lost behind a
			// last record, so that the reason differs.
			if d := cmp.Diff(got, w.followed(data)); d != "" && tt.name != "lost samples are losses" {
				t.Errorf("followed in file form (-load +follow):\n%s", d)
			}
			p := newProbeTape(t)
			if p.pipe = true; tt.set != nil {
				tt.set(p)
			}
			tt.tape(p)
			data = p.bytes()
			if d := cmp.Diff(p.replayOf(data).Image.Dump(0x1100, 4), p.followed(data)); d != "" {
				t.Errorf("followed in pipe form (-load +follow):\n%s", d)
			}
			if tt.want == "" {
				if strings.Contains(got, " known ") {
					t.Errorf("some bytes are known:\n%s", got)
				}
				return
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s%v\n%v", d, r.Report.Warnings, r.Report.Coverage.Pokes)
			}
		})
	}
}

// TestFollowCounters: what reads the hit counters may write its file while the recording is
// followed. A file that is not whole is none yet.
func TestFollowCounters(t *testing.T) {
	w := newProbeTape(t)
	w.pipe = true
	w.changeOfProbes()
	first, last := filepath.Join(t.TempDir(), "first"), filepath.Join(t.TempDir(), "last")
	w.must(os.WriteFile(first, []byte(firstReading), 0o600))
	w.must(os.WriteFile(last, []byte(strings.TrimSuffix(lastReading, "\n")), 0o600))
	f, err := Follow(bytes.NewReader(w.bytes()), Options{KCore: w.kcoreDir(), ProbeCounters: []string{first, last}, CPUs: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	answer := func(time uint64) string {
		t.Helper()
		im, err := f.Image()
		if err != nil {
			t.Fatal(err)
		}
		var b [4]byte
		return fmt.Sprintf("%v %x", im.At(time).Read(0x1100, b[:]).Standing, b)
	}
	f.Next()
	if got := answer(600); got != "unconfirmed "+wordB {
		t.Errorf("before the second reading: %v", got)
	}
	w.must(os.WriteFile(last, []byte(lastReading), 0o600))
	f.Next()
	if got := answer(600); got != "known "+wordB {
		t.Errorf("after the second reading: %v", got)
	}
	for f.Next() {
	}
	w.must(os.Remove(last))
	if _, err := f.Image(); err == nil {
		t.Error("no error at the end, although a file with a reading is missing")
	}
}

// TestProbeSlots: the slot of a kprobe is known from the writes that fill it, until its page
// goes.
func TestProbeSlots(t *testing.T) {
	const insn, brk6 = "e9031eaa", "c00020d4"
	page := func(w *tape, time uint64, flags uint16) {
		w.ksymbol(11, time, 0x9000, 0x1000, perfdata.KSymbolOOL, flags, "kprobe_insn_page")
	}
	fill := func(w *tape, brk string) {
		w.change(21, 480, 490, 0x9010, "00000000", insn)
		w.change(21, 495, 500, 0x9014, "00000000", brk)
	}
	known := textLines("500..950 known "+insn+brk6, "950.. unconfirmed probe-unchecked "+insn+brk6)
	for _, tt := range []struct {
		name string
		tape func(w *tape)
		want string // from 500 on
	}{
		{"in a page from before the recording", func(w *tape) { fill(w, brk6) }, known},
		{"in a page that is registered", func(w *tape) { page(w, 450, 0); fill(w, brk6) }, known},
		{"the page goes", func(w *tape) { fill(w, brk6); page(w, 700, perfdata.KSymbolUnregister) }, ""},
		{"two words that are no slot", func(w *tape) { fill(w, insn) }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newProbeTape(t)
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			w.comm(10, 150, perfdata.MiscCommExec, 7, "true")
			w.ticks(200, 400)
			tt.tape(w)
			w.ticks(800, 1000)
			w.reading(160, 1, 0)
			w.reading(950, 5, 0)
			r := w.replay()
			got := r.Image.Dump(0x9010, 8)
			if i := strings.Index(got, "500.."); tt.want != "" && (i < 0 || got[i:] != tt.want) {
				t.Errorf("(-want +got):\n%s%v", cmp.Diff(tt.want, got), r.Report.Warnings)
			}
			var b [8]byte
			if at := r.Image.At(800).Read(0x9010, b[:]); tt.want == "" && at.Standing == timeline.Known {
				t.Errorf("known at 800:\n%s", got)
			}
		})
	}
}

// TestForeignCounters: readings next to a recording count only if they are of its owner, of the
// caller or of root.
func TestForeignCounters(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of other users")
	}
	dir := filepath.Join(t.TempDir(), "rec.data")
	err := os.CopyFS(dir, os.DirFS(testRecording("probe612")))
	for i := range 3 {
		name := fmt.Sprintf("kprobe_profile.%d", i+1)
		err = errors.Join(err, os.Rename(filepath.Join(dir, name), filepath.Join(dir, "..", name)))
	}
	if err != nil {
		t.Fatal(err)
	}
	last := filepath.Join(dir, "..", "kprobe_profile.3")
	for _, tt := range []struct {
		name          string
		of, recording int // owners
		readings      int
		warned        bool
	}{
		{"of root", 0, 0, 3, false},
		{"of another user", 4711, 0, 2, true},
		{"of the recording's owner", 4711, 4711, 3, false},
		{"of somebody else", 4712, 4711, 2, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := errors.Join(os.Chown(last, tt.of, 0), os.Chown(dir, tt.recording, 0)); err != nil {
				t.Fatal(err)
			}
			r := loadWith(t, dir, Options{})
			warned := slices.ContainsFunc(r.Report.Warnings, func(err error) bool {
				return strings.HasSuffix(err.Error(), "kprobe_profile.3 is not read: it belongs to another user than the recording")
			})
			if n := len(r.counters); n != tt.readings || warned != tt.warned {
				t.Errorf("%d readings, want %d; warnings: %v", n, tt.readings, r.Report.Warnings)
			}
		})
	}
	// In the recording's own directory its owner decides.
	if err := os.Rename(last, filepath.Join(dir, filepath.Base(last))); err != nil {
		t.Fatal(err)
	}
	if r := loadWith(t, dir, Options{}); len(r.counters) != 1 {
		t.Errorf("%d readings of the directory, want 1", len(r.counters))
	}
}

// TestFilesBeside: the readings that Load finds next to a recording are beside it, and nothing else is.
func TestFilesBeside(t *testing.T) {
	top := t.TempDir()
	names := func(files []string) (out []string) {
		for _, f := range files {
			if filepath.Dir(f) != top {
				t.Errorf("%s is not beside the recording", f)
			}
			out = append(out, filepath.Base(f))
		}
		return out
	}
	move := func(name, from, to string) {
		t.Helper()
		if err := os.Rename(filepath.Join(top, from, name), filepath.Join(top, to, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.CopyFS(filepath.Join(top, "rec.data"), os.DirFS(testRecording("probe612"))),
		os.CopyFS(filepath.Join(top, "small.data"), os.DirFS(testRecording("small")))); err != nil {
		t.Fatal(err)
	}
	check := func(recording string, want ...string) {
		t.Helper()
		if got := names(FilesBeside(filepath.Join(top, recording))); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", recording, got, want)
		}
		r := loadWith(t, filepath.Join(top, recording), Options{})
		var read []string
		for _, f := range r.Files() {
			if filepath.Dir(f) == top && strings.HasPrefix(filepath.Base(f), "kprobe_profile.") {
				read = append(read, filepath.Base(f))
			}
		}
		if !slices.Equal(read, want) {
			t.Errorf("%s: Load reads %q, want %q", recording, read, want)
		}
	}
	check("rec.data")
	move("kprobe_profile.1", "rec.data", "")
	check("rec.data") // those in the directory count
	move("kprobe_profile.2", "rec.data", "")
	move("kprobe_profile.3", "rec.data", "")
	check("rec.data", "kprobe_profile.1", "kprobe_profile.2", "kprobe_profile.3")
	check("rec.data/", "kprobe_profile.1", "kprobe_profile.2", "kprobe_profile.3")
	check("small.data")
	move("data", "rec.data", "")
	check("data", "kprobe_profile.1", "kprobe_profile.2", "kprobe_profile.3")
	if got := FilesBeside(filepath.Join(top, "nosuch")); got != nil {
		t.Errorf("%q are beside nothing", got)
	}
}
