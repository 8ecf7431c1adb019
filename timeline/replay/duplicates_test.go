// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/perfdata"
)

// TestDuplicates: which records the scan reads if several events record the same kind.
// Kernel text is as in TestRecorded.
func TestDuplicates(t *testing.T) {
	ofTask := tapeEvent{attr: perfdata.Attr{Flags: perfdata.FlagTextPoke}, cpus: []int64{0, 1}, tid: 7}
	known := textLines(
		"0..100 unconfirmed outside-recording 9090",
		"100..510 known 9090",
		"510..700 known eb02",
		"700..1001 known eb04",
		"1001.. unconfirmed beyond-horizon eb04")
	for _, tt := range []struct {
		name string
		tape func(w *tape)
		want string
	}{
		{"the event for all tasks is read, although an event of a task has the lower id", func(w *tape) {
			w.events = []tapeEvent{ofTask, onBoth(everything)}
			w.tick(20, 100, 200, 300, 400)
			w.tick(21, 100, 200, 300, 400)
			w.poke(10, 500, 0x1100, "9090", "eb02") // an event of the task
			w.poke(20, 510, 0x1100, "9090", "eb02")
			w.tick(21, 600)
			w.poke(20, 700, 0x1100, "eb02", "eb04") // an event of another task
			w.tick(20, 800, 900, 1000)
			w.tick(21, 700, 800, 900, 1000)
		}, known},
		{"an event for all tasks on one CPU does not cover the other CPUs", func(w *tape) {
			all := onBoth(everything)
			all.cpus = []int64{0}
			w.events = []tapeEvent{ofTask, all}
			w.ticks(100, 400)
			w.poke(10, 500, 0x1100, "9090", "eb02")
			w.poke(20, 510, 0x1100, "9090", "eb02")
			w.poke(11, 700, 0x1100, "eb02", "eb04")
			w.ticks(800, 1000)
		}, textLines(
			"0..510 unconfirmed partial-coverage 9090",
			"510..700 unconfirmed partial-coverage eb02",
			"700.. unconfirmed partial-coverage eb04")},
		{"one event has ids of several tasks on a CPU", func(w *tape) {
			w.events = []tapeEvent{{attr: perfdata.Attr{Flags: everything}, ids: []uint64{12, 13, 14, 15}, tid: 7}}
			w.cpuOf = map[uint64]int64{12: 0, 13: 0, 14: 1, 15: 1}
			w.tick(12, 100, 200)
			w.poke(12, 500, 0x1100, "9090", "eb02")
			w.poke(13, 700, 0x1100, "eb02", "eb04")
			w.tick(14, 100, 1000)
		}, textLines(
			"0..500 unconfirmed partial-coverage 9090",
			"500..700 unconfirmed partial-coverage eb02",
			"700.. unconfirmed partial-coverage eb04")},
		{"records of an event on an unknown CPU are duplicates if another event listens", func(w *tape) {
			w.noIndex, w.noCPU = true, true
			w.events = []tapeEvent{{attr: perfdata.Attr{Flags: everything}, cpus: []int64{0, 1, 2}, tid: -1}, onBoth(everything)}
			w.cpuOf = map[uint64]int64{12: 0}
			w.maps(cpuList(0, 1), allTasks)
			w.tick(20, 100, 200, 300, 400)
			w.tick(21, 100, 200, 300, 400)
			w.tick(12, 400)
			w.poke(10, 500, 0x1100, "9090", "eb02")
			w.tick(11, 500)
			w.poke(20, 510, 0x1100, "9090", "eb02")
			w.poke(12, 690, 0x1100, "eb02", "eb04")
			w.poke(20, 700, 0x1100, "eb02", "eb04")
			w.ticks(800, 1000)
			w.tick(20, 800, 900, 1000)
			w.tick(21, 700, 800, 900, 1000)
			w.tick(12, 1000)
		}, known},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			tt.tape(w)
			r := w.replay()
			if d := cmp.Diff(tt.want, r.Image.Dump(0x1100, 2)); d != "" {
				t.Errorf("(-want +got):\n%s%v", d, r.Report.Warnings)
			}
			n := 0
			for c := range r.Changes() {
				if c.Poke != nil {
					n++
				}
			}
			if n != 2 {
				t.Errorf("%d pokes in the audit trail, want 2", n)
			}
		})
	}
}

// TestUndone: if a change is undone and made again, the audit trail has both. It has
// only one of two records that perf wrote for one change.
func TestUndone(t *testing.T) {
	w := newTape(t)
	w.ticks(100, 400)
	w.poke(10, 500, 0x1100, "9090", "eb02")
	w.poke(10, 500, 0x1100, "9090", "eb02") // perf wrote it twice
	w.poke(10, 500, 0x1100, "eb02", "9090")
	w.poke(10, 500, 0x1100, "9090", "eb02")
	w.ticks(600, 1000)
	var got []string
	for c := range w.replay().Changes() {
		if c.Poke != nil {
			got = append(got, fmt.Sprintf("%x -> %x", c.Poke.Old, c.Poke.New))
		}
	}
	want := []string{"9090 -> eb02", "eb02 -> 9090", "9090 -> eb02"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
