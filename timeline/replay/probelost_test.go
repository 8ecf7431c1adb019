// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// TestProbesLost: records are lost while text changes. A sample of an NMI may find room in the ring buffer
// between the two samples of a change. The store is then at any time from the loss to the sample that was not
// lost. If two samples are lost in a row, the samples next to them are not of one change.
func TestProbesLost(t *testing.T) {
	const other = 0x1180
	for _, tt := range []struct {
		name string
		tape func(w *tape)
		hits uint64 // in all
		lost uint64
		want string // of the word at 0x1100, at these times
	}{
		{"BEFORE is lost", func(w *tape) {
			w.lost(21, 450, 1) // with the sample of the NMI
			w.after(21, 500, lrUnmap, wordB)
			w.ticks(600, 1000)
		}, 3, 1, "350 known, 420 unconfirmed after-loss, 470 unconfirmed after-loss, 700 unconfirmed after-loss"},
		{"BEFORE is lost, and the next change has the bytes of this one", func(w *tape) {
			w.lost(21, 450, 1)
			w.after(21, 500, lrUnmap, wordB)
			w.change(21, 520, 540, 0x1100, wordB, wordNOP)
			w.ticks(600, 1000)
		}, 5, 1, "420 conflicting snapshot-mismatch, 470 conflicting snapshot-mismatch, 510 known, 700 known"},
		{"AFTER is lost", func(w *tape) {
			w.before(21, 410, 0x1100, wordNOP)
			w.ticks(430, 430)
			w.lost(21, 500, 1)
			w.ticks(600, 1000)
		}, 3, 1, "405 known, 420 unconfirmed after-loss, 470 unconfirmed after-loss, 700 unconfirmed after-loss"},
		{"AFTER is lost, and the gap ends with the loss", func(w *tape) {
			w.before(21, 410, other, wordNOP)
			w.ticks(430, 430)
			w.lost(21, 450, 1)
			w.change(20, 460, 470, 0x1100, wordNOP, wordB)
			w.change(21, 520, 540, other, wordB, wordNOP)
			w.ticks(600, 1000)
		}, 7, 1, "420 unconfirmed after-loss, 480 known, 700 known"},
		{"BEFORE is lost, and the gap begins with the loss", func(w *tape) {
			w.change(20, 402, 404, 0x1100, wordNOP, wordB)
			w.ticks(420, 430)
			w.lost(21, 450, 1)
			w.after(21, 500, lrUnmap, wordB)
			w.ticks(600, 1000)
		}, 5, 1, "410 known, 440 unconfirmed after-loss, 470 unconfirmed after-loss, 700 unconfirmed after-loss"},
		{"a hit is missing after the loss", func(w *tape) {
			w.lost(21, 450, 3) // and another change
			w.after(21, 500, lrUnmap, wordB)
			w.reading(480, 4, 0)
			w.change(20, 520, 540, 0x1100, wordB, wordNOP)
			w.ticks(600, 1000)
		}, 10, 3, "470 conflicting snapshot-mismatch, 510 conflicting snapshot-mismatch, 700 unconfirmed probe-missed"},
		{"AFTER is missing, and what was lost was lost before BEFORE", func(w *tape) {
			w.lost(21, 410, 1)
			w.before(21, 410, other, wordNOP)
			w.change(20, 450, 470, 0x1100, wordNOP, wordB)
			w.change(21, 520, 540, other, wordNOP, wordB)
			w.change(20, 560, 580, 0x1100, wordB, wordNOP)
			w.ticks(600, 1000)
		}, 8, 1, "480 unconfirmed probe-unpaired, 530 known, 700 known"},
		{"AFTER may be in each of two losses", func(w *tape) {
			w.before(21, 410, other, wordNOP)
			w.lost(21, 420, 1)
			w.ticks(430, 430)
			w.change(20, 432, 434, 0x1100, wordNOP, wordB)
			w.ticks(440, 440)
			w.lost(21, 450, 1)
			w.change(20, 460, 470, 0x1100, wordB, wordNOP)
			w.change(21, 520, 540, other, wordB, wordNOP)
			w.ticks(600, 1000)
		}, 9, 2, "436 unconfirmed after-loss, 455 known, 700 known"},
		{"AFTER and the next BEFORE are lost", func(w *tape) {
			w.before(21, 410, 0x1100, wordNOP)
			w.lost(21, 500, 2)
			w.after(21, 500, lrUnmap, "11000014") // of another place
			w.ticks(600, 1000)
		}, 5, 2, "405 unconfirmed after-loss, 450 unconfirmed after-loss, 700 unconfirmed after-loss"},
		{"one lost record is not two samples", func(w *tape) {
			w.before(21, 410, 0x1100, wordNOP)
			w.lost(21, 450, 1)
			w.after(21, 500, lrUnmap, wordB)
			w.ticks(600, 1000)
		}, 3, 0, "405 known, 450 in_flight explicit-window, 700 known"},
		{"kprobes are disarmed, and records are lost", func(w *tape) {
			w.change(20, 410, 420, other, wordNOP, wordB) // so the event has an address
			w.before(21, 450, probeMap, wordNOP)
			w.ticks(500, 500)
			w.lost(21, 520, 1)
			w.after(20, 800, lrUnmap, "800020d4")
			w.change(20, 820, 840, 0x1100, wordNOP, wordB)
			w.ticks(900, 1000)
		}, 7, 1, "440 known, 470 unconfirmed probe-disarmed, 700 unconfirmed probe-disarmed, 850 known"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newProbeTape(t)
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			w.comm(10, 150, perfdata.MiscCommExec, 7, "true")
			w.ticks(200, 400)
			tt.tape(w)
			if tt.lost > 0 {
				w.lostSamples(21, tt.lost)
			} else {
				w.lostSamples(11, 1)
			}
			w.reading(160, 1, 0)
			w.reading(1000, tt.hits, 0)
			data := w.bytes()
			w.checkWord(data, 0x1100, tt.want)
			const changes = "in_flight"
			if load, follow := w.replayOf(data).Image.Dump(0x1100, 4), w.followed(data); strings.Contains(load, changes) != strings.Contains(follow, changes) {
				t.Errorf("%s\nfollowed\n%s", load, follow)
			}
		})
	}
}

// checkWord checks what is said of the word at addr at the times that want begins its parts with.
func (t *tape) checkWord(data []byte, addr uint64, want string) {
	t.tb.Helper()
	r := t.replayOf(data)
	var got []string
	for _, part := range strings.Split(want, ", ") {
		var at uint64
		if _, err := fmt.Sscan(part, &at); err != nil {
			t.tb.Fatal(err)
		}
		var b [4]byte
		s := r.Image.At(at).Read(addr, b[:])
		got = append(got, strings.TrimSpace(fmt.Sprintf("%d %v %v", at, s.Standing, s.Reason)))
	}
	if strings.Join(got, ", ") != want {
		t.tb.Errorf("got  %s\nwant %s\n%v", strings.Join(got, ", "), want, r.Report.Coverage.Pokes)
	}
}

// TestPPC64MissedAfter: a change whose AFTER the kernel missed, and hides a loss of the same CPU.
func TestPPC64MissedAfter(t *testing.T) {
	for _, missed := range []int{0, 1} {
		w := newPPCTape(t, [3]uint32{31, 28, 29}, "r31 at31 r28 r29", "r28 r29")
		w.ppcChange()
		w.words(31, 620, ppcMap, ppcWriter+16, 0x77000, 0x8000, 0x1180, 0x60000000, ppcWritten, 0)
		w.lost(11, 640, 1)
		w.ticks(700, 1000)
		for i, hits := range []string{"160\n  map 0 0\n  clr 0 0\n160\n", fmt.Sprintf("950\n  map 2 0\n  clr 1 %d\n950\n", missed)} {
			path := filepath.Join(t.TempDir(), fmt.Sprint(i))
			w.must(os.WriteFile(path, []byte(hits), 0o600))
			w.counters = append(w.counters, path)
		}
		r := w.replay()
		said := false
		for _, l := range r.Report.Coverage.Pokes.Limits {
			said = said || l.Reason == timeline.ProbeMissed && l.From == 160 && l.To == 1000000950
		}
		if said != (missed > 0) {
			t.Errorf("%d missed: %v", missed, r.Report.Coverage.Pokes)
		}
	}
}

// TestPPC64Others: other callers of get_locked_pte are no BEFORE whose AFTER may be lost.
func TestPPC64Others(t *testing.T) {
	w := newPPCTape(t, [3]uint32{31, 28, 29}, "r31 at31 r28 r29", "r28 r29")
	w.ppcChange()
	w.words(31, 550, ppcMap, 0x1700, 0x99000, 0x8000, 0, 0, 0, 0)
	w.ticks(600, 800)
	w.lost(11, 850, 1)
	w.words(21, 860, ppcUnmap, ppcWriter+24, 0x77000, 0x8000, ppcWritten, 0)
	w.ticks(900, 1000)
	w.lostSamples(31, 1)
	w.lostSamples(11, 0)
	w.reading(160, 0, 0)
	w.reading(950, 3, 0)
	w.checkWord(w.bytes(), 0x1100, "450 known, 700 known, 855 unconfirmed after-loss")
}
