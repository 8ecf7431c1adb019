// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
)

const perfRecord = "/usr/bin/perf record -a --kcore -e dummy -- true"

// TestListening: when a recording's events start and stop to record. Each recording is
// the smallest that shows its case. It has a copy of kernel text, and one change of the
// place at 0x1100, at 500.
func TestListening(t *testing.T) {
	const ms, second = 1_000_000, 1_000_000_000
	disabled, pinned := perfdata.FlagDisabled, perfdata.FlagPinned
	flip := func(w *tape) { w.poke(10, 500, 0x1100, "9090", "eb02") }
	missedOn1 := func(w *tape, last uint64) { // CPU 0 records until last
		w.events[1].attr.Flags |= everything
		w.ticks(100, 400)
		flip(w)
		w.poke(20, 500, 0x1100, "9090", "eb02")
		w.ticks(600, 900)
		w.poke(11, 910, 0x1900, "9090", "eb04")
		w.poke(21, 910, 0x1900, "9090", "eb04")
		w.poke(21, 920, 0x1100, "eb02", "9090")
		w.tick(10, last)
	}
	exec := func(w *tape, at uint64) {
		w.comm(20, 0, 0, 7, "perf-exec")
		w.comm(20, at, perfdata.MiscCommExec, 7, "true")
	}
	onTicks := func(w *tape, addr uint64) { // all CPUs begin to record at 4 ms, where one made a change
		w.poke(10, 4*ms, addr, "9090", "eb02")
		exec(w, 4*ms)
		w.tick(11, 4*ms)
		w.ticks(8*ms, 12*ms)
	}
	// unheard is the answer for a place that was copied and whose changes are recorded only
	// from listening on.
	unheard := func(reason, listening string) string {
		return textLines(
			"0.."+listening+" unconfirmed "+reason+" 9090",
			listening+"..500 known 9090",
			"500..1001 known eb02",
			"1001.. unconfirmed beyond-horizon eb02")
	}
	// toTheEnd are records of the events that are read, from 100 to 1000 on both CPUs, and heard is
	// the answer for them.
	toTheEnd := func(w *tape) {
		w.ticks(100, 400)
		flip(w)
		w.ticks(600, 900)
		w.tick(10, 1000)
		w.tick(11, 1000)
	}
	heard := textLines(
		"0..100 unconfirmed outside-recording 9090",
		"100..500 known 9090",
		"500..1001 known eb02",
		"1001.. unconfirmed beyond-horizon eb02")
	spoiled := func(reason string) string {
		return textLines("0..500 unconfirmed "+reason+" 9090", "500.. unconfirmed "+reason+" eb02")
	}
	for _, tt := range []struct {
		name string
		tape func(w *tape)
		want string // at 0x1100, two bytes
	}{
		{"listening: an event that was opened disabled is enabled before the exec", func(w *tape) {
			w.events[0].attr.Flags |= disabled
			exec(w, 200)
			w.ticks(300, 400)
			flip(w)
			w.ticks(600, 1000)
		}, unheard("not-listening", "200")},
		{"listening: before the event was enabled, the place may have changed after the copy", func(w *tape) {
			w.events[0].attr.Flags |= disabled
			exec(w, 200)
			w.ticks(300, 400)
			w.poke(10, 500, 0x1800, "9090", "eb02")
			w.ticks(600, 1000)
		}, textLines(
			"0..1001 unconfirmed not-listening 9090",
			"1001.. unconfirmed beyond-horizon 9090")},
		{"listening: without the command line, other events do not show the enabling", func(w *tape) {
			w.cmdline = "/usr/bin/perf"
			w.events[0].attr.Flags |= disabled
			w.events[1].attr.Flags |= disabled
			exec(w, 200)
			w.tick(21, 300, 400)
			flip(w)
			w.ticks(600, 1000)
		}, textLines(
			"0..500 unconfirmed not-listening 9090",
			"500..1001 unconfirmed not-listening eb02",
			"1001.. unconfirmed beyond-horizon eb02")},
		{"listening: with a delay, only an event's records show that it is enabled", func(w *tape) {
			w.cmdline = "perf record -a --kcore -D 100 -- true"
			w.events[0].attr.Flags |= disabled
			exec(w, 200)
			w.tick(21, 250)
			w.ticks(300, 400)
			flip(w)
			w.ticks(600, 1000)
		}, unheard("not-listening", "300")},
		{"listening: enable_on_exec enables no event of a CPU", func(w *tape) {
			w.events[0].attr.Flags |= disabled | perfdata.FlagEnableOnExec
			exec(w, 200)
			w.ticks(300, 400)
			flip(w)
			w.ticks(600, 1000)
		}, unheard("not-listening", "300")},
		{"listening: without the command line, there may be a delay", func(w *tape) {
			w.cmdline = "/usr/bin/perf"
			w.events[0].attr.Flags |= disabled
			exec(w, 200)
			w.ticks(300, 400)
			flip(w)
			w.ticks(600, 1000)
		}, unheard("not-listening", "300")},
		{"listening: all CPUs count", func(w *tape) {
			w.cmdline = "/usr/bin/perf"
			w.events[0].attr.Flags |= disabled
			exec(w, 200)
			w.ticks(300, 300)
			w.tick(10, 350)
			flip(w)
			w.ticks(600, 1000)
		}, unheard("not-listening", "300")},
		{"listening: no record shows that the event of a CPU was enabled", func(w *tape) {
			w.cmdline = "/usr/bin/perf"
			w.events[0].attr.Flags |= disabled
			w.tick(21, 100, 200, 300, 400)
			w.tick(10, 100, 200, 300, 400)
			flip(w)
			w.tick(10, 600, 700, 800, 900, 1000)
			w.tick(21, 600, 700, 800, 900, 1000)
		}, spoiled("not-listening")},
		{"listening: perf enables CPU after CPU, and event after event on each", func(w *tape) {
			w.cmdline = "perf record -a --kcore -D 100 -- true"
			w.events[0].attr.Flags |= disabled
			w.events[1].attr.Flags |= disabled
			exec(w, 200)
			w.tick(21, 300)
			w.tick(20, 310, 400)
			flip(w)
			w.tick(21, 600, 700, 800, 900, 1000)
			w.tick(20, 600, 700, 800, 900, 1000)
		}, unheard("not-listening", "300")},
		{"listening: perf disables first what it opened disabled, on all CPUs", func(w *tape) {
			w.events[0].attr.Flags |= disabled
			exec(w, 200)
			w.ticks(300, 400)
			flip(w)
			w.ticks(600, 1000)
			w.tick(20, 2000, 3000) // of the event that was opened enabled
			w.tick(21, 2000, 3000)
		}, unheard("not-listening", "200")},
		{"listening: perf may be disabling its events when a stream ends", func(w *tape) {
			w.pipe = true
			w.events[0].attr.Flags |= disabled
			exec(w, 200)
			w.ticks(300, 400)
			flip(w)
			w.ticks(600, 1000)
			w.tick(20, 2000, 3000)
			w.tick(21, 2000, 3000)
		}, textLines(
			"0..200 unconfirmed not-listening 9090",
			"200..500 known 9090",
			"500..1000 known eb02",
			"1000.. unconfirmed beyond-horizon eb02")},
		{"listening: perf disables last what it opened enabled", func(w *tape) {
			w.events[1].attr.Flags |= disabled
			toTheEnd(w)
		}, heard},
		{"listening: an event of one task that was opened disabled does not count", func(w *tape) {
			w.events[0].attr.Flags = perfdata.FlagTextPoke | perfdata.FlagKSymbol
			w.events[1] = tapeEvent{attr: perfdata.Attr{Flags: perfdata.FlagBPFEvent | disabled}, cpus: []int64{0, 1}, tid: 7}
			toTheEnd(w)
		}, heard},
		{"listening: no record of the lowest CPU shows that the event was not disabled yet", func(w *tape) {
			w.events[0].attr.Flags |= disabled
			exec(w, 200)
			w.tick(11, 300, 400)
			w.poke(11, 500, 0x1100, "9090", "eb02")
			w.tick(20, 600, 1000)
			w.tick(11, 600, 1000)
		}, textLines(
			"0..200 unconfirmed not-listening 9090",
			"200..500 unconfirmed beyond-horizon 9090",
			"500.. unconfirmed beyond-horizon eb02")},
		{"listening: an event that is enabled earlier does not show that later ones are", func(w *tape) {
			w.cmdline = "perf record -a --kcore -D 100 -- true"
			w.events[0].attr.Flags |= disabled
			w.events[1].attr.Flags |= disabled
			exec(w, 200)
			w.tick(20, 300)
			w.tick(11, 320)
			w.tick(20, 400)
			flip(w)
			w.tick(11, 600, 700, 800, 900, 1000)
			w.tick(20, 600, 700, 800, 900, 1000)
		}, unheard("not-listening", "320")},
		{"listening: without a workload, perf enables events before it drains the ring buffers", func(w *tape) {
			w.events[0].attr.Flags |= disabled
			w.tick(20, 100)
			w.tick(21, 100)
			w.round()
			w.tick(20, 200, 300)
			w.tick(21, 200, 250)
			w.round()
			w.ticks(400, 400)
			flip(w)
			w.ticks(600, 1000)
		}, unheard("not-listening", "300")},
		{"listening: --control enables and disables all events", func(w *tape) {
			w.cmdline = "perf record -a --kcore --control fifo:ctl -- true"
			exec(w, 200)
			w.ticks(200, 400)
			flip(w)
			w.ticks(600, 1000)
		}, spoiled("not-listening")},
		{"listening: --control, in a command line that passes it on to perf record", func(w *tape) {
			w.cmdline = "perf kvm --host record -a --kcore --control fifo:ctl -- true"
			exec(w, 200)
			w.ticks(200, 400)
			flip(w)
			w.ticks(600, 1000)
		}, spoiled("not-listening")},
		{"listening: of two events, the one that was opened enabled is read", func(w *tape) {
			w.events[0].attr.Flags |= disabled
			w.events[1].attr.Flags |= everything
			exec(w, 200)
			w.ticks(300, 400)
			w.tick(21, 400)
			flip(w)
			w.poke(20, 500, 0x1100, "9090", "eb02")
			w.ticks(600, 1000)
		}, textLines(
			"0..200 unconfirmed outside-recording 9090",
			"200..500 known 9090",
			"500..1001 known eb02",
			"1001.. unconfirmed beyond-horizon eb02")},

		{"duplicates: of two events, the one is read that cannot fail", func(w *tape) {
			w.events[0].attr.Flags |= pinned
			w.events[1].attr.Flags |= everything
			w.tick(20, 100, 200, 300, 400)
			w.ticks(100, 400)
			w.poke(20, 500, 0x1100, "9090", "eb02") // the first event has no counter any more
			w.tick(20, 600, 700, 800, 900, 1000)
			w.tick(21, 600, 700, 800, 900, 1000)
		}, heard},
		{"duplicates: one that fails is better than one that overwrites, and one that is enabled late is better", func(w *tape) {
			w.events[0].attr.Flags |= perfdata.FlagWriteBackward
			w.events[1].attr.Flags |= everything | pinned
			third := onBoth(everything | disabled)
			w.events = append(w.events, third)
			w.tick(20, 100, 200, 300, 400)
			w.tick(30, 300)
			w.tick(31, 300, 400)
			w.poke(30, 500, 0x1100, "9090", "eb02")
			w.tick(30, 600, 700, 800, 900, 1000)
			w.tick(31, 600, 700, 800, 900, 1000)
			w.tick(10, 1000)
			w.tick(11, 1000)
		}, unheard("not-listening", "300")},
		{"coverage: a pinned event takes nothing more once it gets no counter", func(w *tape) {
			w.events[0].attr.Flags |= pinned
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 700)
			w.tick(10, 800, 900, 1000)
			w.tick(21, 800, 900, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..700 known eb02",
			"700.. unconfirmed partial-coverage eb02")},
		{"coverage: it may never have got one", func(w *tape) {
			w.events[0].attr.Flags |= pinned
			w.tick(21, 100, 200, 300, 400)
			flip(w)
			w.tick(10, 600, 700, 800, 900, 1000)
			w.tick(21, 600, 700, 800, 900, 1000)
		}, spoiled("partial-coverage")},
		{"coverage: each CPU has its counters", func(w *tape) {
			w.events[0].attr.Flags |= pinned
			w.ticks(100, 400)
			flip(w)
			w.tick(10, 600)
			w.tick(11, 600, 700, 800, 900, 1000)
			w.tick(20, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..600 known eb02",
			"600.. unconfirmed partial-coverage eb02")},
		{"coverage: an event that needs no counter always runs", func(w *tape) {
			w.events[0].attr.Flags |= pinned
			w.events[0].attr.Type = typeSoftware
			toTheEnd(w)
		}, heard},
		{"coverage: unless its group needs one", func(w *tape) {
			w.events[0].attr.Flags |= pinned
			w.events[0].attr.Type = typeSoftware
			w.groups = []perfdata.Group{{Name: "{anon_group}", Leader: 0, Members: 2}}
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 700)
			w.tick(20, 1000)
			w.tick(21, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..700 known eb02",
			"700.. unconfirmed partial-coverage eb02")},

		{"listening: before all ring buffers are mapped, everything is unknown", func(w *tape) {
			w.tick(10, 100, 200, 300)
			w.tick(11, 300)
			w.ticks(400, 400)
			flip(w)
			w.ticks(600, 1000)
		}, unheard("outside-recording", "300")},
		{"listening: all ring buffers are mapped when the workload starts", func(w *tape) {
			w.tick(10, 100)
			exec(w, 200)
			w.tick(10, 300)
			w.tick(11, 300)
			w.ticks(400, 400)
			flip(w)
			w.ticks(600, 1000)
		}, unheard("outside-recording", "200")},
		{"listening: all ring buffers are mapped when the highest CPU has a record", func(w *tape) {
			w.tick(11, 100, 200)
			w.tick(10, 300)
			w.ticks(400, 400)
			flip(w)
			w.ticks(600, 1000)
		}, unheard("outside-recording", "100")},
		{"listening: all ring buffers are mapped when an event that was opened disabled has a record", func(w *tape) {
			w.events[1].attr.Flags |= disabled
			w.tick(10, 100)
			w.tick(20, 200)
			w.tick(10, 300)
			w.tick(11, 300)
			w.ticks(400, 400)
			flip(w)
			w.ticks(600, 1000)
		}, unheard("outside-recording", "200")},
		{"listening: not in a later file, whose events were enabled before", func(w *tape) {
			w.copied, w.cmdline = false, "perf record -a --kcore --switch-output=1s -- true"
			w.events[1].attr.Flags |= disabled
			w.timeConv() // all CPUs have one clock
			w.tick(10, 100)
			w.tick(20, 150)
			w.tick(11, 200, 300)
			w.tick(10, 400)
			flip(w)
			w.ticks(600, 900)
			w.tick(10, 1000)
		}, textLines(
			"0..300 unconfirmed outside-recording 9090",
			"300..500 known 9090",
			"500..900 known eb02",
			"900.. unconfirmed beyond-horizon eb02")},
		{"listening: the first record of a later file may be older than what the file before it has", func(w *tape) {
			w.copied, w.cmdline = false, "perf record -a --kcore --switch-output=1s -- true"
			w.timeConv() // all CPUs have one clock
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 900)
			w.tick(10, 1000)
		}, textLines(
			"0..200 unconfirmed outside-recording 9090",
			"200..500 known 9090",
			"500..900 known eb02",
			"900.. unconfirmed beyond-horizon eb02")},
		{"listening: the next one that is no older shows nothing more", func(w *tape) {
			w.copied, w.cmdline = false, "perf record -a --kcore --switch-output=1s -- true"
			w.timeConv() // all CPUs have one clock
			w.tick(10, 100)
			w.tick(11, 150, 150, 250, 400)
			flip(w)
			w.ticks(600, 900)
			w.tick(10, 1000)
		}, textLines(
			"0..250 unconfirmed outside-recording 9090",
			"250..500 known 9090",
			"500..900 known eb02",
			"900.. unconfirmed beyond-horizon eb02")},
		{"listening: a single record of a later file may be ten seconds older", func(w *tape) {
			w.copied, w.cmdline = false, "perf record -a --kcore --switch-output=1s -- true"
			w.timeConv() // all CPUs have one clock
			w.tick(11, 100)
			flip(w)
			w.tick(10, 9*second, 11*second, 13*second)
			w.poke(10, 15*second, 0x1100, "eb02", "9090")
			w.tick(10, 16*second)
		}, textLines(
			"0..500 unconfirmed outside-recording 9090",
			"500..10000000100 unconfirmed outside-recording eb02",
			"10000000100..15000000000 unconfirmed beyond-horizon eb02",
			"15000000000.. unconfirmed beyond-horizon 9090")},
		{"listening: a later file begins later by how far clocks may differ unseen", func(w *tape) {
			w.copied, w.cmdline = false, "perf record -a --kcore --switch-output=1s -- true"
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 900)
			w.ticks(60e6, 70e6)
			w.poke(10, 80e6, 0x1100, "eb02", "9090")
			w.ticks(90e6, 100e6)
			w.tick(10, 110e6)
		}, textLines(
			"0..500 unconfirmed outside-recording 9090",
			"500..50000200 unconfirmed outside-recording eb02",
			"50000200..80000000 known eb02",
			"80000000..100000000 known 9090",
			"100000000.. unconfirmed beyond-horizon 9090")},
		{"listening: on a clock of ticks, a change at the tick at which all CPUs begin to record may have come before one that was not recorded", func(w *tape) {
			onTicks(w, 0x1100)
		}, textLines(
			"0..4000000 unconfirmed outside-recording 9090",
			"4000000..12000000 unconfirmed outside-recording eb02",
			"12000000.. unconfirmed beyond-horizon eb02")},
		{"listening: the copy came after it, and shows what no change of that tick wrote", func(w *tape) {
			onTicks(w, 0x1800)
		}, textLines(
			"0..4000001 unconfirmed outside-recording 9090",
			"4000001..12000000 known 9090",
			"12000000.. unconfirmed beyond-horizon 9090")},
		{"listening: and what such a change left, if the copy has that", func(w *tape) {
			w.text = bytes.Repeat([]byte{0x90}, 0x1000)
			copy(w.text[0x100:], "\xeb\x02")
			onTicks(w, 0x1100)
		}, textLines(
			"0..4000000 unconfirmed outside-recording 9090",
			"4000000..4000001 unconfirmed outside-recording eb02",
			"4000001..12000000 known eb02",
			"12000000.. unconfirmed beyond-horizon eb02")},
		{"listening: on a clock of ticks, an event that was opened disabled may have been enabled after a change of that tick", func(w *tape) {
			w.events[0].attr.Flags |= disabled
			exec(w, 4*ms)
			w.tick(21, 4*ms)
			w.poke(10, 4*ms, 0x1100, "9090", "eb02")
			w.tick(11, 4*ms)
			w.ticks(8*ms, 12*ms)
		}, textLines(
			"0..4000000 unconfirmed not-listening 9090",
			"4000000..12000000 unconfirmed not-listening eb02",
			"12000000.. unconfirmed beyond-horizon eb02")},
		{"listening: after the lowest CPU's last record, events may be disabled", func(w *tape) {
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 900)
			w.tick(11, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..901 known eb02",
			"901.. unconfirmed beyond-horizon eb02")},
		{"listening: of the events of a CPU, the one that is read may be disabled first", func(w *tape) {
			w.events[1].attr.Flags |= everything
			w.ticks(100, 400)
			flip(w)
			w.poke(20, 500, 0x1100, "9090", "eb02")
			w.ticks(600, 900)
			w.poke(10, 910, 0x1900, "9090", "eb04")
			w.poke(20, 910, 0x1900, "9090", "eb04")
			w.poke(20, 920, 0x1100, "eb02", "9090")
			w.tick(20, 930)
			w.tick(11, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..910 known eb02",
			"910.. unconfirmed beyond-horizon eb02")},
		{"listening: what the event that is read misses on a higher CPU may be in another file", func(w *tape) {
			missedOn1(w, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..910 known eb02",
			"910.. unconfirmed beyond-horizon eb02")},
		{"listening: not if the lowest CPU was disabled before", func(w *tape) {
			missedOn1(w, 919)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..920 known eb02",
			"920.. unconfirmed beyond-horizon eb02")},
		{"listening: a copy shows nothing of that", func(w *tape) {
			w.events[1].attr.Flags |= everything
			w.ticks(100, 400)
			flip(w)
			w.poke(20, 510, 0x1100, "9090", "eb02")
			w.tick(20, 930)
			w.tick(11, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..931 known eb02",
			"931.. unconfirmed beyond-horizon eb02")},
		{"listening: a sample shows less, since an older record may follow it", func(w *tape) {
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 900)
			w.sample(10, 950, nil)
			w.tick(11, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..901 known eb02",
			"901.. unconfirmed beyond-horizon eb02")},
		{"listening: a sample shows the time before it", func(w *tape) {
			w.ticks(100, 400)
			flip(w)
			w.tick(11, 10*second, 20*second, 30*second)
			w.sample(10, 10*second, nil)
			w.sample(10, 25*second, nil)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..15000000001 known eb02",
			"15000000001.. unconfirmed beyond-horizon eb02")},

		{"snapshot: a copy that may be from after the horizon proves nothing", func(w *tape) {
			w.ticks(100, 400)
			w.poke(10, 500, 0x1800, "9090", "eb02")
			w.ticks(600, 900)
			w.tick(11, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100.. unconfirmed beyond-horizon 9090")},

		{"snapshot: the copy was made before an event that was opened disabled has a record", func(w *tape) {
			w.events[1].attr.Flags |= disabled
			w.ticks(100, 100)
			w.tick(20, 200)
			w.ticks(300, 400)
			w.poke(10, 500, 0x1800, "9090", "eb02")
			w.ticks(600, 900)
			w.tick(11, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..901 known 9090",
			"901.. unconfirmed beyond-horizon 9090")},
		{"horizon: with --switch-output, a later file has the rest of the recording", func(w *tape) {
			w.cmdline = "perf record -a --kcore --switch-output=1s -- true"
			w.ticks(100, 400)
			flip(w)
			w.tick(11, 600)
			w.ticks(700, 900)
			w.tick(10, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..900 known eb02",
			"900.. unconfirmed beyond-horizon eb02")},
		{"horizon: the end of a file that perf inject wrote from a pipe is not the pipe's end", func(w *tape) {
			le := binary.LittleEndian
			w.begin()
			feature := le.AppendUint16(le.AppendUint16(le.AppendUint32(nil, uint32(perfdata.RecordHeaderFeature)), 0), 24)
			w.must(w.w.WriteRecord(append(le.AppendUint64(feature, 3), "hostname"...)))
			w.ticks(100, 400)
			flip(w)
			w.tick(11, 600)
			w.ticks(700, 900)
			w.tick(10, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..900 known eb02",
			"900.. unconfirmed beyond-horizon eb02")},
		{"horizon: a file whose records perf wrote to a pipe", func(w *tape) {
			w.cmdline = "perf record -a -o - -- true"
			w.ticks(100, 400)
			flip(w)
			w.tick(11, 600)
			w.ticks(700, 900)
			w.tick(10, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..900 known eb02",
			"900.. unconfirmed beyond-horizon eb02")},

		{"losses: a ring buffer that overwrites its oldest records writes no LOST record", func(w *tape) {
			w.events[0].attr.Flags |= perfdata.FlagWriteBackward
			w.tick(20, 100)
			w.tick(21, 100)
			w.tick(10, 1000, 600)
			flip(w)
			w.tick(10, 400)
			w.tick(11, 1000, 500)
			w.tick(20, 1000)
			w.tick(21, 1000)
		}, spoiled("after-loss")},
		{"losses: of two events, the one that does not overwrite is read", func(w *tape) {
			w.events[0].attr.Flags |= perfdata.FlagWriteBackward
			w.events[1].attr.Flags |= everything
			w.tick(20, 100, 200, 300, 400)
			w.tick(21, 100, 200, 300, 400)
			w.poke(20, 500, 0x1100, "9090", "eb02")
			w.tick(20, 600, 700, 800, 900, 1000)
			w.tick(21, 600, 700, 800, 900, 1000)
			w.tick(10, 1000)
			flip(w)
			w.tick(11, 1000)
		}, unheard("outside-recording", "100")},
		{"listening: what a ring buffer has that overwrites may be older than the file", func(w *tape) {
			w.events = append(w.events, tracepointEvent("module_load"))
			w.events[2].attr.Flags |= perfdata.FlagWriteBackward
			w.tick(10, 300)
			w.ticks(400, 450)
			flip(w)
			w.ticks(600, 1000)
			w.tick(30, 1000, 100) // in descending order, as perf reads it
			w.tick(31, 1000, 110)
		}, textLines(
			"0..400 unconfirmed outside-recording 9090",
			"400..500 known 9090",
			"500..1001 known eb02",
			"1001.. unconfirmed beyond-horizon eb02")},
		{"listening: nor do older records show for how long a CPU may be silent", func(w *tape) {
			w.events = append(w.events, tracepointEvent("module_load"))
			w.events[2].attr.Flags |= perfdata.FlagWriteBackward
			w.tick(10, 300)
			w.ticks(400, 450)
			flip(w)
			w.ticks(600, 700) // nothing of CPU 1 from here on
			w.tick(10, 800, 900, 1000)
			w.tick(30, 900, 1)
			w.tick(31, 900, 1)
		}, textLines(
			"0..400 unconfirmed outside-recording 9090",
			"400..500 known 9090",
			"500..700 known eb02",
			"700.. unconfirmed cpu-silent eb02")},
		{"losses: an event that overwrites has another ring buffer than the others", func(w *tape) {
			w.events[1].attr.Flags |= perfdata.FlagWriteBackward
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 1000)
			w.tick(20, 3*second, 100) // in descending order, as perf reads it
			w.tick(21, 3*second, 100)
			w.tick(10, 3*second)
			w.tick(11, 3*second)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..3000000001 known eb02",
			"3000000001.. unconfirmed beyond-horizon eb02")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.copied, w.cmdline = true, perfRecord
			w.events = append(w.events, onBoth(0))
			tt.tape(w)
			r := w.replay()
			if d := cmp.Diff(tt.want, r.Image.Dump(0x1100, 2)); d != "" {
				t.Errorf("(-want +got):\n%s%v", d, r.Report.Warnings)
			}
		})
	}
}

// TestModulesAtStart: what two tracepoints prove if perf enables them after it has
// copied kernel text. The module m is in the copy.
func TestModulesAtStart(t *testing.T) {
	const kallsyms = "0000000000001000 T _stext\n0000000000002000 T _etext\n0000000000008010 t m_init\t[m]\n0000000000008100 t m_work\t[m]\n"
	const perf = "/usr/bin/perf record -a --kcore -e dummy -e module:module_load -e module:module_free"
	thread := func(w *tape) { w.fork(10, 110, 6, 6) } // a thread of perf, for side-band events
	known := textLines(
		"0..100 unconfirmed outside-recording 5555",
		"100..1001 known 5555",
		"1001.. unconfirmed beyond-horizon 5555")
	gone := textLines("0..1001 unconfirmed module-may-have-gone 5555", "1001.. unconfirmed beyond-horizon 5555")
	freed := func(before string) string {
		return textLines(before+"..450 known 5555", "450.. retired unregistered 5555")
	}
	for _, tt := range []struct {
		name  string
		set   func(w *tape) // before the first record
		start func(w *tape) // between 100 and 200, when the workload is executed
		then  func(w *tape) // between 400 and 500
		want  string        // at 0x8100, two bytes
	}{
		{name: "listening: a module may be unloaded after the copy and before unloads are recorded", want: gone},
		{name: "listening: no program was started between the copy and the enabling", start: thread, want: known},
		{name: "listening: a new process may have unloaded the module",
			start: func(w *tape) { thread(w); w.fork(11, 120, 8, 5) }, want: gone},
		{name: "listening: a process that executes another program may have unloaded the module",
			start: func(w *tape) { thread(w); w.comm(11, 120, perfdata.MiscCommExec, 8, "rmmod") }, want: gone},
		{name: "listening: a new thread of a process or of the kernel did not unload the module",
			start: func(w *tape) { thread(w); w.fork(11, 120, 8, 8); w.fork(11, 130, 9, 2) }, want: known},
		{name: "listening: a later process did not unload the module",
			start: thread, then: func(w *tape) { w.fork(11, 420, 8, 5) }, want: known},
		{name: "listening: new processes are not recorded",
			set: func(w *tape) { w.events[0].attr.Flags &^= perfdata.FlagTask }, start: thread, want: gone},
		{name: "listening: new processes are not recorded on every CPU",
			set: func(w *tape) {
				w.events[0].attr.Flags &^= perfdata.FlagTask
				w.events[3].attr.Flags |= tasksAndPrograms
				w.events[3].cpus = []int64{0}
			}, start: thread, want: gone},
		{name: "listening: new processes are not recorded from the beginning",
			set: func(w *tape) {
				w.events[0].attr.Flags &^= perfdata.FlagTask
				w.events[3].attr.Flags |= tasksAndPrograms | perfdata.FlagDisabled
			}, start: thread, want: gone},
		{name: "listening: a pinned event for new processes may have got no counter",
			set: func(w *tape) {
				w.events[0].attr.Flags &^= perfdata.FlagTask
				w.events[3].attr.Flags |= tasksAndPrograms | perfdata.FlagPinned
			}, start: thread, want: gone},
		{name: "listening: its later records show that it had one",
			set: func(w *tape) { w.events[0].attr.Flags |= perfdata.FlagPinned }, start: thread,
			want: textLines("0..100 unconfirmed outside-recording 5555", "100..1000 known 5555",
				"1000.. unconfirmed partial-coverage 5555")},
		{name: "listening: a thread of another process does not show the enabling",
			start: func(w *tape) { w.fork(10, 110, 5, 5) }, want: gone},
		{name: "listening: the FORK of a new process may be lost",
			start: func(w *tape) {
				thread(w)
				w.lost(30, 150, 1)
				w.lostSamples(30, 1)
			},
			want: gone},
		{name: "listening: with a delay, programs run before the enabling",
			set: func(w *tape) {
				w.cmdline = perf + " -D 100 -- true"
				w.modules = append(w.modules, kcore.Module{Name: "n", Addr: 0xc000, Size: 0x1000, State: "Live"})
			},
			start: thread,
			then:  func(w *tape) { w.module(31, 420, "n") }, // all events are enabled
			want:  gone},
		{name: "listening: a module whose unload is recorded was loaded until then",
			then: func(w *tape) { w.module(30, 450, "m") },
			want: textLines("0..100 unconfirmed outside-recording 5555", "100..200 unconfirmed module-may-have-gone 5555") + freed("200")},
		{name: "listening: a new process may have unloaded the module and loaded it again",
			start: func(w *tape) { w.fork(11, 120, 8, 5) },
			then:  func(w *tape) { w.module(30, 450, "m") },
			want:  textLines("0..450 unconfirmed module-may-have-gone 5555", "450.. retired unregistered 5555")},
		{name: "listening: with a delay, a module may have been loaded again",
			set: func(w *tape) { w.cmdline = perf + " -D 100 -- true" },
			then: func(w *tape) {
				w.module(20, 410, "x")
				w.module(31, 420, "x") // all events are enabled
				w.module(30, 450, "m")
			},
			want: textLines("0..450 unconfirmed module-may-have-gone 5555", "450.. retired unregistered 5555")},
		{name: "listening: a load before the unload may be lost",
			then: func(w *tape) {
				w.lost(30, 420, 1)
				w.module(30, 450, "m")
				w.lostSamples(30, 1)
			},
			want: textLines("0..450 unconfirmed module-may-have-gone 5555", "450.. retired unregistered 5555")},
		{name: "listening: a module that is loaded was unloaded before",
			then: func(w *tape) { w.module(20, 450, "m") },
			want: textLines("0..200 unconfirmed module-may-have-gone 5555", "200.. retired unregistered 5555")},
		{name: "listening: a module that is loaded before the workload starts was unloaded before",
			start: func(w *tape) { w.module(20, 150, "m") },
			want:  textLines("0..150 unconfirmed module-may-have-gone 5555", "150.. retired unregistered 5555")},
		{name: "listening: if a module was unloaded unrecorded, others may have been too",
			set: func(w *tape) {
				w.modules = append(w.modules, kcore.Module{Name: "n", Addr: 0xc000, Size: 0x1000, State: "Live"})
			},
			start: thread,
			then:  func(w *tape) { w.module(20, 450, "n") }, want: gone},
		{name: "listening: not if its unload may be lost",
			set: func(w *tape) {
				w.modules = append(w.modules, kcore.Module{Name: "n", Addr: 0xc000, Size: 0x1000, State: "Live"})
			},
			start: thread,
			then: func(w *tape) {
				w.lost(10, 440, 3)
				w.lostSamples(10, 3)
				w.module(20, 450, "n")
			},
			want: textLines("0..100 unconfirmed outside-recording 5555", "100..400 known 5555",
				"400..1001 unconfirmed after-loss 5555", "1001.. unconfirmed beyond-horizon 5555")},
		{name: "listening: if a module is freed that was not copied, others may have been unloaded",
			start: thread, then: func(w *tape) { w.module(30, 450, "n") }, want: gone},
		{name: "listening: the events of a group record with their leader",
			set: func(w *tape) {
				w.events[0].attr.Type = 1 // PERF_TYPE_SOFTWARE
				w.events[1].attr.Flags &^= perfdata.FlagDisabled
				w.events[2].attr.Flags &^= perfdata.FlagDisabled
				w.groups = []perfdata.Group{{Name: "{anon_group}", Leader: 0, Members: 3}}
			}, want: known},
		{name: "listening: the events of a group do not record before their leader",
			set: func(w *tape) {
				w.events[1].attr.Flags &^= perfdata.FlagDisabled
				w.events[2].attr.Flags &^= perfdata.FlagDisabled
				w.events = slices.Insert(w.events, 1, onBoth(perfdata.FlagDisabled))
				w.groups = []perfdata.Group{{Name: "{anon_group}", Leader: 1, Members: 3}}
			}, want: gone},
		{name: "clocks: a module is unloaded while the clock shows times twice", start: thread,
			then: func(w *tape) {
				w.module(20, 450, "other")
				w.tick(10, 460)
				w.tick(10, 440)
			},
			want: textLines("0..100 unconfirmed outside-recording 5555", "100..880 unconfirmed clock-uncertainty 5555",
				"880.. unconfirmed beyond-horizon 5555")},
		{name: "modules: events that exclude the kernel record none", start: thread,
			set:  func(w *tape) { w.events[2].attr.Flags |= perfdata.FlagExcludeKernel },
			want: confined},
		{name: "modules: events that exclude the host", start: thread,
			set:  func(w *tape) { w.events[1].attr.Flags |= perfdata.FlagExcludeHost },
			want: confined},
		{name: "modules: events in a group with one that needs a counter", start: thread,
			set:  func(w *tape) { w.groups = []perfdata.Group{{Name: "{anon_group}", Leader: 0, Members: 3}} },
			want: confined},
		{name: "modules: events in no group with one that needs a counter", start: thread,
			set: func(w *tape) {
				w.groups = []perfdata.Group{{Name: "{anon_group}", Leader: 0, Members: 2}}
				w.events = slices.Insert(w.events, 1, onBoth(0))
			},
			want: known},
		{name: "modules: events with a filter", start: thread,
			set:  func(w *tape) { w.cmdline = perf + " --filter name!=m -- true" },
			want: confined},
		{name: "modules: events of a cgroup", start: thread,
			set:  func(w *tape) { w.cmdline = perf + " -G some,some,some -- true" },
			want: confined},
		{name: "modules: events of one user's tasks", start: thread,
			set:  func(w *tape) { w.cmdline = perf + " -u root -- true" },
			want: confined},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			load, free := tracepointEvent("module_load"), tracepointEvent("module_free")
			load.attr.Flags |= perfdata.FlagDisabled
			free.attr.Flags |= perfdata.FlagDisabled
			w.events = append(w.events, load, free, onBoth(0))
			w.events[0].attr.Flags |= tasksAndPrograms
			w.tracing, w.copied, w.kallsyms, w.cmdline = moduleFormats, true, kallsyms, perf+" -- true"
			w.modules = []kcore.Module{{Name: "m", Addr: 0x8000, Size: 0x3000, State: "Live"}}
			maybe := func(f func(w *tape)) {
				if f != nil {
					f(w)
				}
			}
			maybe(tt.set)
			w.fork(10, 0, 7, 6)
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			maybe(tt.start)
			w.comm(10, 200, perfdata.MiscCommExec, 7, "true")
			w.ticks(200, 400)
			maybe(tt.then)
			w.ticks(500, 1000)
			r := w.replay()
			if d := cmp.Diff(tt.want, r.Image.Dump(0x8100, 2)); d != "" {
				t.Errorf("(-want +got):\n%s%v", d, r.Report.Warnings)
			}
		})
	}
}

const tasksAndPrograms = perfdata.FlagTask | perfdata.FlagComm | perfdata.FlagCommExec

// confined is the answer for a module's text if not every load and unload was recorded.
var confined = textLines(
	"0..100 unconfirmed outside-recording 5555",
	"100..1001 unconfirmed module-may-have-gone 5555",
	"1001.. unconfirmed beyond-horizon 5555")
