// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"debug/elf"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// What a recording proves, rule by rule. Each recording is the smallest that shows its
// case. Kernel text is [0x1000, 0x2000). There is no copy of it unless a test asks
// for one, so only old bytes are known.

func TestRecorded(t *testing.T) {
	const second = 1_000_000_000
	flip := func(w *tape) { w.poke(10, 500, 0x1100, "9090", "eb02") }
	// The answer for the place at 0x1100 if nothing is wrong.
	whole := textLines(
		"0..100 unconfirmed outside-recording 9090",
		"100..500 known 9090",
		"500..1001 known eb02",
		"1001.. unconfirmed beyond-horizon eb02")
	// acts writes what a thread 7 does at 200. At 250 the place at 0x1100 becomes what the copy has.
	acts := func(w *tape, act func(id perfdata.SampleID)) {
		id := w.id(10, 200)
		id.PID, id.TID = 7, 7
		act(id)
		w.poke(10, 250, 0x1100, "eb02", "9090")
		w.ticks(300, 1000)
	}
	// The answers if the copy was made before 200, and if nothing says so.
	actedBefore := textLines(
		"0..100 unconfirmed outside-recording 9090",
		"100..250 conflicting snapshot-mismatch 9090 eb02",
		"250..1001 known 9090",
		"1001.. unconfirmed beyond-horizon 9090")
	actedSome := textLines(
		"0..100 unconfirmed outside-recording eb02",
		"100..250 known eb02",
		"250..1001 known 9090",
		"1001.. unconfirmed beyond-horizon 9090")
	// Two CPUs' changes of a place, 20 ms apart, that fit if they are exchanged.
	apart := func(w *tape, flags perfdata.AttrFlags, clock int32) {
		for i := range w.events {
			w.events[i].attr.Flags |= flags
			w.events[i].attr.ClockID = clock
		}
		const ms = 1_000_000
		w.ticks(100, 400)
		w.poke(10, 500, 0x1100, "9090", "eb02")
		w.poke(11, 20*ms, 0x1100, "eb04", "eb06")
		w.poke(10, 40*ms, 0x1100, "eb02", "eb04")
		w.poke(10, 80*ms, 0x1100, "eb06", "9090")
		w.tick(10, 120*ms)
		w.tick(11, 120*ms)
	}
	exchanged := textLines( // the clocks differ by 20 ms at least, so perhaps by 50 ms
		"0..100 unconfirmed outside-recording 9090",
		"100..500 unconfirmed clock-uncertainty 9090",
		"500..20000000 unconfirmed clock-uncertainty eb02",
		"20000000..40000000 unconfirmed clock-uncertainty eb04",
		"40000000..70000001 unconfirmed clock-uncertainty eb06",
		"70000001..80000000 unconfirmed beyond-horizon eb06",
		"80000000.. unconfirmed beyond-horizon 9090")
	// Two CPUs' changes of a place that fit in either order.
	undone := func(w *tape, flags perfdata.AttrFlags) {
		for i := range w.events {
			w.events[i].attr.Flags |= flags
		}
		w.ticks(100, 400)
		w.poke(10, 500, 0x1100, "9090", "eb02")
		w.poke(11, 520, 0x1100, "eb02", "9090")
		w.ticks(600, 1000)
	}
	inOrder := textLines(
		"0..100 unconfirmed outside-recording 9090",
		"100..500 known 9090",
		"500..520 known eb02",
		"520..1001 known 9090",
		"1001.. unconfirmed beyond-horizon 9090")
	spoiled := func(reason string) string {
		return textLines("0..500 unconfirmed "+reason+" 9090", "500.. unconfirmed "+reason+" eb02")
	}
	lost := func(from, to string) string { // the answer after a loss that follows the poke
		return textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500.."+from+" known eb02",
			from+".."+to+" unconfirmed after-loss eb02",
			to+".. unconfirmed beyond-horizon eb02")
	}
	lossAfterPoke := func(w *tape) { // the poke, then a loss of CPU 0 that four of its records come before
		w.ticks(100, 400)
		flip(w)
		w.ticks(600, 700)
		w.tick(10, 750, 760, 770)
		w.lost(10, 780, 3)
		w.ticks(800, 1000)
		w.lostSamples(10, 3)
	}
	openLoss := textLines( // the answer after a loss if more may be lost after the last record
		"0..100 unconfirmed outside-recording 9090",
		"100..500 known 9090",
		"500..700 known eb02",
		"700.. unconfirmed after-loss eb02")
	fullEnd := textLines( // the answer if CPU 1 may have lost records after 800
		"0..100 unconfirmed outside-recording 9090",
		"100..500 known 9090",
		"500..800 known eb02",
		"800.. unconfirmed after-loss eb02")
	uncounted := func(w *tape) { // both CPUs lost records; the second event takes pokes
		w.events = append([]tapeEvent{onBoth(0)}, w.events...)
		w.tick(20, 100, 200, 300, 400)
		w.tick(21, 100, 200, 300, 400)
		w.lost(20, 450, 3)
		w.poke(20, 500, 0x1100, "9090", "eb02")
		w.tick(20, 600, 700, 800, 900, 1000)
		w.tick(21, 600, 700)
		w.lost(21, 780, 3)
		w.tick(21, 800, 900, 1000)
	}
	lostBefore := textLines( // the answer if CPU 0 lost records before 450 and may have lost more after 900
		"0..450 unconfirmed after-loss 9090",
		"450..500 known 9090",
		"500..900 known eb02",
		"900.. unconfirmed after-loss eb02")
	fillEnd := func(w *tape) { // the ring buffer of CPU 1 may be full at 800
		flip(w)
		w.tick(10, 600, 700, 800, 900, 1000)
		w.tick(11, 500)
		w.fill(11, 800)
	}
	inRounds := func(w *tape, before, last int) { // so many records of CPU 1 in its last two rounds
		w.cmdline = "perf record -a --kcore sleep 1"
		w.ticks(100, 400)
		w.round()
		flip(w)
		w.tick(10, 600)
		for range before {
			w.tick(11, 700)
		}
		w.round()
		w.tick(10, 700, 800, 900, 1000)
		for range last {
			w.tick(11, 800)
		}
		w.round()
	}
	untimedLoss := textLines(
		"0..100 unconfirmed outside-recording 9090",
		"100..500 known 9090",
		"500..700 known eb02",
		"700..780 unconfirmed after-loss eb02",
		"780..790 known eb02",
		"790..1001 known 9090",
		"1001.. unconfirmed beyond-horizon 9090")
	for _, tt := range []struct {
		name string
		tape func(w *tape)
		want string // at 0x1100, two bytes
	}{
		{"nothing is wrong", func(w *tape) {
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 1000)
		}, whole},

		{"snapshot: the copy was made before the workload's exec", func(w *tape) {
			w.copied = true
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			w.poke(10, 150, 0x1100, "eb02", "9090")
			w.comm(10, 200, perfdata.MiscCommExec, 7, "true")
			w.ticks(200, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording eb02",
			"100..150 known eb02",
			"150..1001 known 9090",
			"1001.. unconfirmed beyond-horizon 9090")},
		{"snapshot: a trap may be over the JMP of a static key", func(w *tape) {
			w.copied = true
			w.kallsyms = "0000000000001000 T _stext\n0000000000001010 T f\n0000000000002000 T _etext\n"
			w.text = bytes.Repeat([]byte{0x90}, tapeTextHi-tapeTextLo)
			copy(w.text[0x100:], "\xcc\x0b\x00\x00\x00") // to 0x1110
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			w.comm(10, 200, perfdata.MiscCommExec, 7, "true")
			w.ticks(200, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording cc0b",
			"100..1001 unconfirmed snapshot-mismatch cc0b",
			"1001.. unconfirmed beyond-horizon cc0b")},
		{"snapshot: a poke after the workload's exec does not change the copy", func(w *tape) {
			w.copied = true
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			w.comm(10, 200, perfdata.MiscCommExec, 7, "true")
			w.poke(10, 250, 0x1100, "eb02", "9090")
			w.ticks(300, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..250 conflicting snapshot-mismatch 9090 eb02",
			"250..1001 known 9090",
			"1001.. unconfirmed beyond-horizon 9090")},
		{"snapshot: the exec of another process or a COMM without exec does not bound the copy", func(w *tape) {
			w.copied = true
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			w.comm(10, 120, perfdata.MiscCommExec, 8, "other")
			w.comm(10, 130, 0, 7, "renamed")
			w.poke(10, 150, 0x1100, "eb02", "9090")
			w.comm(10, 200, perfdata.MiscCommExec, 7, "true")
			w.ticks(200, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording eb02",
			"100..150 known eb02",
			"150..1001 known 9090",
			"1001.. unconfirmed beyond-horizon 9090")},
		{"snapshot: another perf may have started its workload before the copy", func(w *tape) {
			w.copied = true
			w.comm(10, 0, 0, 7, "perf-exec")
			w.comm(10, 0, 0, 8, "perf-exec")
			w.ticks(100, 100)
			w.comm(10, 120, perfdata.MiscCommExec, 8, "other")
			w.poke(10, 150, 0x1100, "eb02", "9090")
			w.comm(10, 200, perfdata.MiscCommExec, 7, "true")
			w.ticks(200, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording eb02",
			"100..150 known eb02",
			"150..1001 known 9090",
			"1001.. unconfirmed beyond-horizon 9090")},
		{"snapshot: if one of them started none, the time of the copy is unknown", func(w *tape) {
			w.copied = true
			w.comm(10, 0, 0, 7, "perf-exec")
			w.comm(10, 0, 0, 8, "perf-exec")
			w.ticks(100, 100)
			w.comm(10, 120, perfdata.MiscCommExec, 8, "other")
			w.comm(10, 130, perfdata.MiscCommExec, 8, "more")
			w.ticks(200, 800)
			w.poke(10, 850, 0x1100, "eb02", "9090")
			w.ticks(900, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording eb02",
			"100..850 known eb02",
			"850..1001 known 9090",
			"1001.. unconfirmed beyond-horizon 9090")},
		{"snapshot: a change by the workload comes after the copy", func(w *tape) {
			w.copied = true
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			acts(w, func(id perfdata.SampleID) {
				w.must(w.w.TextPoke(&perfdata.TextPoke{Addr: 0x1800, Old: []byte{0x90}, New: []byte{0xcc}, SampleID: id}))
			})
		}, actedBefore},
		{"snapshot: a FORK by the workload comes after the copy", func(w *tape) {
			w.copied = true
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			acts(w, func(id perfdata.SampleID) { w.fork(10, 200, 8, 7) })
		}, actedBefore},
		{"snapshot: a map of the workload comes after the copy", func(w *tape) {
			w.copied = true
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			acts(w, func(id perfdata.SampleID) {
				w.must(w.w.Mmap(perfdata.RecordMMAP2, perfdata.MiscUser, &perfdata.Mmap{PID: 7, TID: 7, Addr: 0x400000, Len: 0x1000, Filename: []byte("/bin/true"), SampleID: id}))
			})
		}, actedBefore},
		{"snapshot: an interrupt may make other records while the workload waits", func(w *tape) {
			w.copied = true
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			acts(w, func(id perfdata.SampleID) {
				w.must(w.w.KSymbol(&perfdata.KSymbol{Addr: 0x9000, Len: 64, Kind: perfdata.KSymbolBPF, Flags: perfdata.KSymbolUnregister, Name: []byte("bpf_prog_1_f"), SampleID: id}))
			})
		}, actedSome},
		{"snapshot: another task may act while the workload waits", func(w *tape) {
			w.copied = true
			w.comm(10, 0, 0, 8, "perf-exec")
			w.ticks(100, 100)
			acts(w, func(id perfdata.SampleID) { w.fork(10, 200, 9, 7) })
		}, actedSome},
		{"snapshot: what acts may be another perf's workload", func(w *tape) {
			w.copied = true
			w.comm(10, 0, 0, 8, "perf-exec")
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			acts(w, func(id perfdata.SampleID) { w.fork(10, 200, 9, 7) })
		}, actedSome},
		{"snapshot: a process that takes the workload's name later does not wait", func(w *tape) {
			w.copied = true
			named := w.id(10, 0)
			w.must(w.w.Comm(0, &perfdata.Comm{PID: 7, TID: 7, Comm: []byte("perf-exec"), SampleID: named}))
			w.ticks(100, 100)
			acts(w, func(id perfdata.SampleID) { w.fork(10, 200, 8, 7) })
		}, actedSome},
		{"snapshot: without a workload, the time of the copy is unknown", func(w *tape) {
			w.copied = true
			w.ticks(100, 800)
			w.poke(10, 850, 0x1100, "eb02", "9090")
			w.ticks(900, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording eb02",
			"100..850 known eb02",
			"850..1001 known 9090",
			"1001.. unconfirmed beyond-horizon 9090")},

		{"losses: a loss begins at the last record before it that is not a sample", func(w *tape) {
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 700)
			w.sample(10, 750, nil)
			w.lost(10, 780, 3)
			w.ticks(800, 1000)
			w.lostSamples(10, 3)
		}, lost("700", "1001")},
		{"losses: perf inject puts a record that an interrupt delayed before the LOST record", func(w *tape) {
			w.cmdline = "perf inject -b"
			w.timeConv() // all CPUs have one clock
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 700)
			w.tick(10, 750, 760, 770) // at least one of them is of before the loss
			w.lost(10, 780, 3)
			w.sample(10, 780, nil)
			w.ticks(800, 1000)
			w.lostSamples(10, 3)
		}, textLines(
			"0..200 unconfirmed outside-recording 9090",
			"200..500 known 9090",
			"500..700 known eb02",
			"700..1001 unconfirmed after-loss eb02",
			"1001.. unconfirmed beyond-horizon eb02")},
		{"losses: so does a newer one", func(w *tape) {
			w.cmdline = "perf perf record -a"
			lossAfterPoke(w)
		}, lost("700", "1001")},
		{"losses: but not if it leaves the order of the ring buffers", func(w *tape) {
			w.cmdline = "perf perf record -a"
			w.ticks(100, 400)
			flip(w)
			w.tick(10, 600, 700)
			w.tick(11, 600, 700)
			w.tick(10, 750, 760, 770)
			w.lost(10, 780, 3)
			w.ticks(800, 1000)
			w.lostSamples(10, 3)
		}, lost("770", "1001")},
		{"losses: in a pipe, what is in the order of time may have been put into it", func(w *tape) {
			w.pipe = true
			lossAfterPoke(w)
		}, openLoss},
		{"losses: what perf record wrote is in the order of the ring buffer", func(w *tape) {
			w.cmdline = "perf record -a"
			lossAfterPoke(w)
		}, lost("770", "1001")},
		{"losses: perf inject does not wait for the time of a LOST record that has none", func(w *tape) {
			w.cmdline = "perf inject -b"
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 700)
			w.lost(10, 0, 3)
			w.ticks(800, 1000)
			w.lostSamples(10, 3)
		}, textLines(
			"0..500 unconfirmed after-loss 9090",
			"500.. unconfirmed after-loss eb02")},
		{"losses: on a clock of ticks, a change at the time at which another CPU's loss begins may have come after it", func(w *tape) {
			const ms = 1e6
			w.tick(10, 1*ms, 2*ms, 5*ms)
			w.tick(11, 1*ms, 2*ms)
			w.lost(11, 4*ms, 3)
			w.tick(11, 5*ms, 7*ms)
			w.poke(10, 7*ms, 0x1100, "eb02", "9090")
			w.lost(11, 9*ms, 3)
			w.tick(10, 10*ms)
			w.tick(11, 10*ms)
			w.lostSamples(11, 6)
		}, textLines(
			"0..7000000 unconfirmed after-loss eb02",
			"7000000..10000000 unconfirmed after-loss 9090",
			"10000000.. unconfirmed beyond-horizon 9090")},
		{"losses: on a clock of ticks, a change at the time at which another CPU's loss ends may have come before that", func(w *tape) {
			const ms = 1e6
			w.tick(10, 1*ms, 2*ms)
			w.tick(11, 1*ms, 2*ms)
			w.poke(10, 4*ms, 0x1100, "9090", "eb02")
			w.lost(11, 4*ms, 3)
			w.tick(11, 5*ms, 10*ms)
			w.tick(10, 10*ms)
			w.lostSamples(11, 3)
		}, textLines(
			"0..4000000 unconfirmed after-loss 9090",
			"4000000..10000000 unconfirmed after-loss eb02",
			"10000000.. unconfirmed beyond-horizon eb02")},
		{"losses: not on a clock of nanoseconds, where no two records have one time", func(w *tape) {
			const ms = 1e6
			w.tick(10, 1*ms, 2*ms, 5*ms)
			w.tick(11, 1*ms, 2*ms)
			w.lost(11, 4*ms+1, 3)
			w.tick(11, 5*ms, 7*ms+1)
			w.poke(10, 7*ms+1, 0x1100, "eb02", "9090")
			w.lost(11, 9*ms, 3)
			w.tick(10, 10*ms)
			w.tick(11, 10*ms)
			w.lostSamples(11, 6)
		}, textLines(
			"0..4000001 unconfirmed after-loss eb02",
			"4000001..7000001 known eb02",
			"7000001..10000000 unconfirmed after-loss 9090",
			"10000000.. unconfirmed beyond-horizon 9090")},
		{"losses: a loss of another CPU counts", func(w *tape) {
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 700)
			w.lost(11, 780, 3)
			w.ticks(800, 1000)
			w.lostSamples(11, 3)
		}, lost("700", "1001")},
		{"losses: the events count their losses, and the count is zero: no poke was lost", func(w *tape) {
			other := onBoth(0)
			w.events = append(w.events, other)
			w.ticks(100, 400)
			flip(w)
			w.lost(20, 780, 3)
			w.ticks(800, 1000)
			w.lostSamples(20, 3)
		}, whole},
		{"losses: a lost record that no event counts may be a poke", func(w *tape) {
			w.events[0].noLost = true
			w.timeConv()
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 700)
			w.lost(10, 780, 3)
			w.poke(11, 790, 0x1100, "eb02", "9090")
			w.ticks(800, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..700 known eb02",
			"700..780 unconfirmed after-loss eb02",
			"780..790 known eb02",
			"790..1000 known 9090",
			"1000.. unconfirmed after-loss 9090")},
		{"losses: if LOST records add up, no record is lost after the last of them", func(w *tape) {
			w.ticks(100, 400)
			w.lost(10, 450, 3)
			flip(w)
			w.ticks(600, 1000)
			w.lostSamples(10, 3)
		}, textLines(
			"0..450 unconfirmed after-loss 9090",
			"450..500 known 9090",
			"500..1001 known eb02",
			"1001.. unconfirmed beyond-horizon eb02")},
		{"losses: if LOST records do not add up, records may be lost at the end", func(w *tape) {
			w.ticks(100, 400)
			w.lost(10, 450, 3)
			flip(w)
			w.tick(10, 600, 700, 800)
			w.tick(11, 500, 600, 700, 800, 900, 1000)
			w.lostSamples(10, 4)
		}, textLines(
			"0..450 unconfirmed after-loss 9090",
			"450..500 known 9090",
			"500..800 known eb02",
			"800.. unconfirmed after-loss eb02")},
		{"losses: LOST_SAMPLES of other events do not cover an event that does not count", func(w *tape) {
			w.events = append(w.events, onBoth(0))
			w.events[0].noLost = true
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 700)
			w.lost(10, 780, 3)
			w.ticks(800, 1000)
			w.lostSamples(20, 3)
		}, openLoss},
		{"losses: LOST records without LOST_SAMPLES may be of the pokes", func(w *tape) {
			w.cmdline = "perf record -a --kcore sleep 1" // else there may be another file
			w.events = append(w.events, onBoth(0))
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 700)
			w.lost(20, 780, 3)
			w.ticks(800, 1000)
		}, openLoss},
		{"losses: LOST_SAMPLES of fewer records than the LOST records report", func(w *tape) {
			w.events = append(w.events, onBoth(0))
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 700)
			w.lost(20, 780, 3)
			w.ticks(800, 1000)
			w.lostSamples(20, 2)
		}, openLoss},
		{"losses: LOST_SAMPLES of one CPU do not cover another CPU", func(w *tape) {
			w.events = append(w.events, onBoth(0))
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 700)
			w.lost(20, 740, 3)
			w.lost(21, 780, 3)
			w.ticks(800, 1000)
			w.lostSamples(20, 3)
		}, openLoss},
		{"losses: where some LOST_SAMPLES are missing, those of later events may be too", func(w *tape) {
			w.cmdline = "perf record -a --kcore sleep 1"
			uncounted(w)
			w.lostSamples(10, 3)
		}, textLines(
			"0..450 unconfirmed after-loss 9090",
			"450..500 known 9090",
			"500..700 known eb02",
			"700.. unconfirmed after-loss eb02")},
		{"losses: LOST_SAMPLES of a later event show that those of an earlier one were read", func(w *tape) {
			w.events = append(w.events, onBoth(0))
			uncounted(w)
			w.lostSamples(10, 2)
			w.lostSamples(30, 1)
		}, openLoss},
		{"losses: without LOST_SAMPLES, any CPU may have lost records at the end", func(w *tape) {
			w.cmdline = "perf record -a --kcore sleep 1"
			w.ticks(100, 400)
			w.lost(10, 450, 3)
			flip(w)
			w.tick(10, 600, 700, 800, 900, 1000)
			w.tick(11, 500, 800)
		}, textLines(
			"0..450 unconfirmed after-loss 9090",
			"450..500 known 9090",
			"500..800 known eb02",
			"800.. unconfirmed after-loss eb02")},
		{"losses: an event that does not count may have lost records after its last one", func(w *tape) {
			w.cmdline = "perf record -a --kcore sleep 1"
			w.events[0].noLost = true
			w.ticks(100, 400)
			fillEnd(w)
		}, fullEnd},
		{"losses: a file of a perf that does not record its options need not be the last one", func(w *tape) {
			w.ticks(100, 400)
			fillEnd(w)
		}, fullEnd},
		{"losses: LOST_SAMPLES of a later file have what earlier files lost, so they show no more", func(w *tape) {
			uncounted(w)
			w.lostSamples(10, 3) // in an earlier file
			w.lostSamples(11, 3)
		}, textLines(
			"0..450 unconfirmed after-loss 9090",
			"450..500 known 9090",
			"500..700 known eb02",
			"700.. unconfirmed after-loss eb02")},
		{"losses: LOST_SAMPLES show that a file is the last one", func(w *tape) {
			w.events = append(w.events, onBoth(0))
			w.ticks(100, 400)
			fillEnd(w)
			w.lostSamples(20, 1)
		}, whole},
		{"losses: the event of a full ring buffer may have lost records if only earlier events have LOST_SAMPLES", func(w *tape) {
			w.events = append([]tapeEvent{onBoth(0)}, w.events...)
			w.cmdline = "perf record -a --kcore sleep 1"
			w.tick(20, 100, 200, 300, 400)
			w.tick(21, 100, 200, 300, 400)
			w.poke(20, 500, 0x1100, "9090", "eb02")
			w.tick(20, 600, 700, 1000)
			w.fill(21, 800)
			w.lostSamples(10, 1)
		}, fullEnd},
		{"losses: an event behind the last one with LOST_SAMPLES lost nothing if its ring buffer had room", func(w *tape) {
			w.events = append([]tapeEvent{onBoth(0)}, w.events...)
			w.cmdline = "perf record -a --kcore sleep 1"
			w.tick(20, 100, 200, 300, 400)
			w.tick(21, 100, 200, 300, 400)
			w.lost(10, 450, 1)
			w.poke(20, 500, 0x1100, "9090", "eb02")
			w.tick(20, 600, 700, 1000)
			w.tick(21, 800)
			w.lostSamples(10, 1)
		}, whole},
		{"losses: what a full ring buffer lost at the end may be what the counts of earlier events have", func(w *tape) {
			w.events = append([]tapeEvent{onBoth(0)}, w.events...)
			w.cmdline = "perf record -a --kcore sleep 1"
			w.tick(20, 100, 200, 300, 400)
			w.tick(21, 100, 200, 300, 400)
			w.lost(20, 450, 3)
			w.poke(20, 500, 0x1100, "9090", "eb02")
			w.tick(21, 600, 700, 1000)
			w.fill(20, 900)
			w.lostSamples(10, 3)
		}, lostBefore},
		{"losses: so may it be if the counts have more than the LOST records report", func(w *tape) {
			w.events = append([]tapeEvent{onBoth(0)}, w.events...)
			w.cmdline = "perf record -a --kcore sleep 1"
			w.tick(20, 100, 200, 300, 400)
			w.tick(21, 100, 200, 300, 400)
			w.lost(20, 450, 3)
			w.poke(20, 500, 0x1100, "9090", "eb02")
			w.tick(20, 600, 900)
			w.tick(21, 600, 700, 1000)
			w.lostSamples(10, 4)
		}, lostBefore},
		{"losses: perf may not have read any count", func(w *tape) {
			w.cmdline = "perf record -a --kcore sleep 1"
			w.ticks(100, 400)
			fillEnd(w)
		}, fullEnd},
		{"losses: a file of a perf without --switch-output is the last one", func(w *tape) {
			w.cmdline = "perf record -a --kcore sleep 1"
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 800)
			w.tick(10, 1000)
		}, whole},
		{"snapshot: the copy may be of before a loss that ended before all CPUs had records", func(w *tape) {
			w.copied = true
			w.tick(10, 100, 150)
			w.lost(10, 200, 3)
			w.tick(10, 250)
			w.ticks(300, 1000)
			w.lostSamples(10, 3)
		}, textLines(
			"0..1001 unconfirmed after-loss 9090",
			"1001.. unconfirmed beyond-horizon 9090")},
		{"snapshot: perf may have made the copy after all that the first round has", func(w *tape) {
			w.copied = true
			w.pipe = true
			w.ticks(100, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100.. unconfirmed beyond-horizon 9090")},
		{"snapshot: but not after what follows the first round", func(w *tape) {
			w.copied = true
			w.pipe = true
			w.ticks(100, 400)
			w.round()
			w.ticks(500, 1000)
			w.round()
			w.ticks(1100, 1200)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..1200 known 9090",
			"1200.. unconfirmed beyond-horizon 9090")},
		{"losses: a ring buffer whose last round fills it may have been full", func(w *tape) {
			inRounds(w, 30, 72)
		}, fullEnd},
		{"losses: so may one that its last two rounds fill", func(w *tape) {
			inRounds(w, 40, 32)
		}, fullEnd},
		{"losses: or fill if it is of two pages", func(w *tape) {
			inRounds(w, 70, 75)
		}, fullEnd},
		{"losses: not if it had room for a poke, a birth or a load", func(w *tape) {
			inRounds(w, 30, 68)
		}, whole},
		{"losses: what was lost at the end may be as large as the largest record of a change", func(w *tape) {
			inRounds(w, 30, 68)
			w.poke(10, 1000, 0x1200, "", strings.Repeat("90", 300))
		}, fullEnd},
		{"losses: if the last rounds fill no ring buffer of any size, it had room", func(w *tape) {
			inRounds(w, 30, 44)
		}, whole},
		{"losses: unless nothing shows what a round is", func(w *tape) {
			w.cmdline = "perf record -a --kcore sleep 1"
			w.ticks(100, 400)
			flip(w)
			w.tick(10, 600, 700, 800, 900, 1000)
			w.tick(11, 500)
			for range 44 {
				w.tick(11, 800)
			}
		}, fullEnd},
		{"losses: a ring buffer had room at the end if it had more in an earlier round", func(w *tape) {
			w.fill(10, 100)
			w.fill(11, 100)
			w.fill(11, 110)
			w.fill(11, 120)
			w.round()
			w.ticks(200, 400)
			fillEnd(w)
			for range 72 - 54 {
				w.tick(11, 800) // as if it had one page, and were full
			}
		}, whole},
		{"losses: an earlier round of records in the order of time may be two rounds", func(w *tape) {
			w.fill(10, 100)
			w.fill(11, 100)
			w.fill(11, 110)
			w.round()
			w.tick(10, 200)
			w.round()
			flip(w)
			w.tick(10, 600, 750)
			w.fill(11, 800)
			w.tick(10, 1000)
		}, fullEnd},
		{"losses: a ring buffer that had little at the end had room", func(w *tape) {
			w.ticks(100, 400)
			w.tick(11, 500, 800)
			flip(w)
			w.tick(10, 600, 700, 800, 900, 1000)
		}, whole},
		{"losses: a LOST record without a time ends with the next record of its CPU", func(w *tape) {
			w.timeConv()
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 700)
			w.lost(10, 0, 3)
			w.tick(11, 750)
			w.tick(10, 780)
			w.poke(11, 790, 0x1100, "eb02", "9090")
			w.ticks(800, 1000)
			w.lostSamples(10, 3)
		}, untimedLoss},
		{"losses: a LOST record whose trailer has neither time nor id", func(w *tape) {
			w.timeConv()
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 700)
			w.must(w.w.Lost(&perfdata.Lost{ID: 10, Lost: 3, SampleID: perfdata.SampleID{Event: w.made[0]}}))
			w.tick(10, 780)
			w.poke(11, 790, 0x1100, "eb02", "9090")
			w.ticks(800, 1000)
			w.lostSamples(10, 3)
		}, untimedLoss},
		{"losses: a LOST record without a time is the last record", func(w *tape) {
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 700)
			w.tick(11, 800, 900, 1000)
			w.tick(10, 700, 1000)
			w.lost(10, 0, 3)
			w.lostSamples(10, 3)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..1000 known eb02",
			"1000.. unconfirmed after-loss eb02")},
		{"losses: a loss in a ring buffer without pokes loses no poke", func(w *tape) {
			elsewhere := tapeEvent{cpus: []int64{2}, tid: -1}
			w.events = append(w.events, elsewhere)
			w.events[0].noLost = true
			w.ticks(100, 400)
			flip(w)
			w.tick(22, 700)
			w.lost(22, 780, 3)
			w.ticks(600, 1000)
		}, whole},
		{"losses: at the end of a stream, losses may be unreported", func(w *tape) {
			w.pipe = true
			w.ticks(100, 400)
			flip(w)
			w.tick(10, 600, 700)
			w.lost(10, 780, 3)
			w.tick(11, 600, 700)
			w.ticks(800, 1000)
			w.lostSamples(10, 3)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..700 known eb02",
			"700.. unconfirmed after-loss eb02")},

		{"horizon: without a clean end, the slowest ring buffer gives the horizon", func(w *tape) {
			w.pipe = true
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 800)
			w.tick(10, 900, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..800 known eb02",
			"800.. unconfirmed beyond-horizon eb02")},
		{"horizon: a sample does not show how far a ring buffer was drained", func(w *tape) {
			w.pipe = true
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 800)
			w.tick(10, 900, 1000)
			w.sample(11, 950, nil)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..800 known eb02",
			"800.. unconfirmed beyond-horizon eb02")},
		{"horizon: the second of two rounds guarantees records ten seconds older than the first", func(w *tape) {
			w.pipe = true
			w.ticks(100, 400)
			flip(w)
			w.tick(11, 30*second)
			w.tick(10, 45*second)
			w.round()
			w.tick(10, 50*second)
			w.round()
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..35000000000 known eb02",
			"35000000000.. unconfirmed beyond-horizon eb02")},
		{"horizon: rounds guarantee nothing for a CPU that is silent for longer than ever before", func(w *tape) {
			w.pipe = true
			w.ticks(100, 400)
			flip(w)
			w.tick(11, 10*second)
			w.tick(10, 45*second)
			w.round()
			w.tick(10, 50*second)
			w.round()
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..19999999600 known eb02",
			"19999999600.. unconfirmed beyond-horizon eb02")},
		{"horizon: a ring buffer without a record counts from the start", func(w *tape) {
			w.pipe = true
			w.tick(10, 100, 200, 300, 400)
			flip(w)
		}, textLines(
			"0..500 unconfirmed beyond-horizon 9090",
			"500.. unconfirmed beyond-horizon eb02")},

		{"coverage: an event of one task is not on the whole CPU", func(w *tape) {
			w.events[0].tid = 5
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 1000)
		}, spoiled("partial-coverage")},
		{"coverage: the event that takes pokes and symbols is a tracepoint", func(w *tape) {
			w.events[0] = tracepointEvent("module_load")
			w.events[0].attr.Flags = everything
			w.ticks(100, 400)
			w.ksymbol(10, 410, 0x9000, 16, perfdata.KSymbolBPF, 0, "bpf_prog_11_a")
			w.bpfLoad(10, 420, 1)
			flip(w)
			w.ticks(600, 1000)
		}, whole},
		{"coverage: a CPU without an event", func(w *tape) {
			w.events[0].cpus = []int64{0}
			w.tick(10, 100, 200, 300, 400)
			flip(w)
			w.tick(10, 600, 700, 800, 900, 1000)
		}, spoiled("partial-coverage")},
		{"coverage: a CPU that is not online may come up", func(w *tape) {
			w.available, w.online = 2, 1
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 1000)
		}, spoiled("partial-coverage")},
		{"coverage: the number of CPUs is not recorded", func(w *tape) {
			w.available = 0
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 1000)
		}, spoiled("cpu-counts-missing")},
		{"coverage: no event asks for pokes", func(w *tape) {
			w.events = []tapeEvent{onBoth(perfdata.FlagTextPoke), onBoth(0)}
			w.events[0].cpus = nil
			w.tick(20, 100, 1000)
		}, textLines("0.. unknown never-recorded")},
		{"coverage: the kernels of this architecture are not known to record all changes", func(w *tape) {
			w.arch = "aarch64"
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 1000)
		}, spoiled("silent-writers")},
		{"coverage: the kernels of this architecture are silent", func(w *tape) {
			w.arch = "aarch64"
			w.ticks(100, 400)
			w.poke(10, 500, 0x1100, "", "eb02") // ftrace writes new code on all architectures
			w.ticks(600, 1000)
		}, textLines("0..500 unknown never-recorded", "500.. unconfirmed no-coverage eb02")},
		{"coverage: the architecture is not recorded", func(w *tape) {
			w.arch = ""
			w.ticks(100, 400)
			flip(w)
			w.ticks(600, 1000)
		}, spoiled("partial-coverage")},
		{"coverage: a CPU that falls silent for longer than ever before", func(w *tape) {
			w.ticks(100, 400)
			flip(w)
			w.tick(10, 600, 700, 800, 900, 1000)
			w.tick(11, 500, 600, 700)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..700 known eb02",
			"700.. unconfirmed cpu-silent eb02")},
		{"coverage: a CPU that was silent as long before is not suspect", func(w *tape) {
			w.ticks(100, 400)
			flip(w)
			w.tick(10, 600, 700, 800, 900, 1000)
			w.tick(11, 700)
		}, whole},
		{"coverage: a CPU without any record", func(w *tape) {
			w.tick(10, 100, 200, 300, 400)
			flip(w)
			w.tick(10, 600, 700, 800, 900, 1000)
		}, spoiled("cpu-silent")},

		{"clocks: time orders the records, not the file", func(w *tape) {
			w.timeConv()
			w.ticks(100, 400)
			w.poke(11, 700, 0x1100, "eb02", "9090")
			flip(w)
			w.ticks(800, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..700 known eb02",
			"700..1001 known 9090",
			"1001.. unconfirmed beyond-horizon 9090")},
		{"clocks: time orders records that are there twice, too", func(w *tape) {
			w.timeConv()
			w.ticks(100, 400)
			w.poke(11, 700, 0x1100, "eb02", "9090")
			flip(w)
			flip(w)
			w.ticks(800, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..700 known eb02",
			"700..1001 known 9090",
			"1001.. unconfirmed beyond-horizon 9090")},
		{"clocks: records of one time keep the file's order", func(w *tape) {
			w.ticks(100, 400)
			flip(w)
			w.poke(10, 600, 0x1800, "9090", "eb02")
			w.poke(11, 500, 0x1100, "eb02", "eb04")
			w.ticks(600, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..1001 known eb04",
			"1001.. unconfirmed beyond-horizon eb04")},

		{"clocks: a CPU's records of one time keep the file's order", func(w *tape) {
			w.ticks(100, 400)
			flip(w)
			w.poke(10, 500, 0x1100, "eb02", "eb04")
			w.ticks(600, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..1001 known eb04",
			"1001.. unconfirmed beyond-horizon eb04")},

		{"duplicates: of two events of one CPU, the lower id is read", func(w *tape) {
			w.events = append(w.events, onBoth(everything))
			w.ticks(100, 400)
			flip(w)
			w.poke(20, 510, 0x1100, "9090", "eb02")
			w.ticks(600, 1000)
		}, whole},
		{"duplicates: what perf wrote twice counts once", func(w *tape) {
			w.ticks(100, 400)
			flip(w)
			flip(w)
			w.ticks(600, 1000)
		}, whole},
		{"duplicates: another record of the same time is between the two", func(w *tape) {
			w.ticks(100, 400)
			flip(w)
			w.poke(10, 500, 0x1100, "eb02", "eb04")
			flip(w)
			w.ticks(600, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..1001 known eb04",
			"1001.. unconfirmed beyond-horizon eb04")},
		{"clocks: changes by one CPU keep their order if the clock was set back", func(w *tape) {
			w.ticks(100, 1400)
			w.poke(10, 1500, 0x1100, "9090", "eb02")
			w.poke(10, 1480, 0x1100, "eb02", "9090")
			w.poke(10, 1490, 0x1100, "9090", "eb04")
			w.ticks(1600, 3000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..1280 known 9090",
			"1280..1721 in_flight clock-uncertainty eb04", // the 20 that show, and the longest silence
			"1721..2780 known eb04",
			"2780.. unconfirmed beyond-horizon eb04")},
		{"clocks: if the clock was set back, the order of changes by two CPUs is unknown", func(w *tape) {
			w.ticks(100, 1400)
			w.poke(11, 1480, 0x1100, "9090", "eb02")
			w.tick(10, 1490)
			w.tick(10, 1470) // the clock was set back
			w.poke(10, 1475, 0x1100, "eb02", "9090")
			w.ticks(1600, 3000)
			w.poke(10, 3100, 0x1100, "9090", "eb04")
			w.ticks(3200, 4000)
		}, textLines(
			"0..1490 conflicting old-bytes-mismatch 9090 eb02",
			"1490..3100 conflicting old-bytes-mismatch eb02 9090",
			"3100..3321 unconfirmed clock-uncertainty eb04",
			"3321..3780 known eb04",
			"3780.. unconfirmed beyond-horizon eb04")},
		{"clocks: other records of tasks show that the clock was set back", func(w *tape) {
			w.ticks(100, 1400)
			w.poke(10, 1450, 0x1100, "9090", "eb02")
			w.tick(10, 1500)
			w.tick(10, 1470) // the clock was set back
			w.poke(10, 1475, 0x1100, "eb02", "9090")
			w.ticks(1600, 3000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..1220 known 9090",
			"1220..1731 in_flight clock-uncertainty 9090", // eb02 was between
			"1731..2770 known 9090",
			"2770.. unconfirmed beyond-horizon 9090")},
		{"clocks: a change that perf writes twice keeps its order both times", func(w *tape) {
			w.ticks(100, 1400)
			w.poke(10, 1450, 0x1100, "9090", "eb02")
			w.tick(10, 1500)
			for range 2 {
				w.tick(10, 1470) // the clock was set back
				w.poke(10, 1475, 0x1100, "eb02", "9090")
				w.tick(10, 1478)
			}
			w.ticks(1600, 3000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..1220 known 9090",
			"1220..1731 in_flight clock-uncertainty 9090", // as if it was written once
			"1731..2770 known 9090",
			"2770.. unconfirmed beyond-horizon 9090")},
		{"clocks: a change that perf writes twice was made before the clock was set back", func(w *tape) {
			w.ticks(100, 1400)
			w.poke(10, 1450, 0x1100, "9090", "eb02")
			w.poke(10, 1460, 0x1100, "eb02", "9090")
			w.tick(10, 1500)
			w.tick(10, 1470) // the clock was set back
			w.ticks(1600, 3000)
			w.poke(10, 1450, 0x1100, "9090", "eb02") // perf was killed while it wrote them again
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..1220 known 9090",
			"1220..1691 in_flight clock-uncertainty 9090",
			"1691..2770 known 9090",
			"2770.. unconfirmed beyond-horizon 9090")},
		{"clocks: if the clock was set back, the last time bounds the horizon, not the newest", func(w *tape) {
			w.ticks(100, 1400)
			flip(w)
			w.ticks(1600, 3000)
			w.ticks(2550, 2950)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 unconfirmed clock-uncertainty 9090",
			"500..1151 unconfirmed clock-uncertainty eb02",
			"1151..2300 known eb02",
			"2300.. unconfirmed beyond-horizon eb02")},
		{"clocks: CLOCK_MONOTONIC is one clock for all CPUs", func(w *tape) { apart(w, perfdata.FlagUseClockID, 1) }, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..20000000 conflicting old-bytes-mismatch eb02 eb04",
			"20000000..40000000 conflicting old-bytes-mismatch eb06 eb02",
			"40000000..80000000 conflicting old-bytes-mismatch eb04 eb06",
			"80000000..120000001 known 9090",
			"120000001.. unconfirmed beyond-horizon 9090")},
		{"clocks: perf's own clock may differ by a second", func(w *tape) { apart(w, 0, 1) }, exchanged},
		{"clocks: CLOCK_REALTIME may differ by a second", func(w *tape) { apart(w, perfdata.FlagUseClockID, 0) }, exchanged},
		{"clocks: perf's own clock may differ unseen", func(w *tape) { undone(w, 0) }, textLines(
			"0..520 conflicting old-bytes-mismatch 9090 eb02",
			"520.. conflicting old-bytes-mismatch eb02 9090")},
		{"clocks: not if TIME_CONV shows that it is one counter", func(w *tape) {
			w.timeConv()
			undone(w, 0)
		}, inOrder},
		{"clocks: nor on a machine with one CPU", func(w *tape) {
			w.available, w.online = 1, 1
			undone(w, 0)
		}, inOrder},
		{"clocks: other clocks of the kernel do not", func(w *tape) { undone(w, perfdata.FlagUseClockID) }, inOrder},
		{"clocks: on other architectures it is one counter", func(w *tape) {
			w.arch, w.machine = "s390x", elf.EM_S390
			undone(w, 0)
		}, textLines(
			"0..500 unconfirmed silent-writers 9090",
			"500..520 known eb02",
			"520.. unconfirmed silent-writers 9090")},
		{"clocks: records that perf writes twice do not show a step back", func(w *tape) {
			w.ticks(100, 400)
			flip(w)
			w.poke(10, 510, 0x1200, "9090", "eb02")
			flip(w)
			w.poke(10, 510, 0x1200, "9090", "eb02")
			w.ticks(600, 1000)
		}, whole},
		{"clocks: hundreds of records that perf writes twice do not show a step back", func(w *tape) {
			w.ticks(100, 300)
			for range 2 {
				for k := range uint64(99) {
					w.poke(10, 301+k, 0x1200+2*k, "9090", "eb02")
				}
			}
			w.tick(11, 400)
			flip(w)
			w.ticks(600, 1000)
		}, whole},
		{"duplicates: a LOST record that perf wrote twice counts once", func(w *tape) {
			w.ticks(100, 400)
			w.lost(10, 450, 3)
			flip(w)
			w.tick(10, 600)
			w.lost(10, 450, 3)
			w.tick(10, 600)
			w.ticks(700, 1000)
			w.lostSamples(10, 3)
		}, textLines(
			"0..450 unconfirmed after-loss 9090",
			"450..500 known 9090",
			"500..1001 known eb02",
			"1001.. unconfirmed beyond-horizon eb02")},
		{"duplicates: the same change again after it was undone counts", func(w *tape) {
			w.ticks(100, 400)
			flip(w)
			w.poke(10, 500, 0x1100, "eb02", "9090")
			flip(w)
			w.ticks(600, 1000)
		}, whole},
		{"duplicates: another event recorded what the chosen one did not", func(w *tape) {
			w.events = append(w.events, onBoth(everything))
			w.ticks(100, 400)
			w.poke(20, 500, 0x1100, "9090", "eb02")
			w.ticks(600, 1000)
		}, spoiled("damaged")},

		{"coverage: pokes without a time", func(w *tape) {
			w.events[0].noTime = true
			w.events = append(w.events, onBoth(0))
			w.copied = true
			w.tick(20, 100, 200, 300, 400)
			w.tick(21, 100, 200, 300, 400)
			flip(w)
			w.tick(20, 600, 1000)
			w.tick(21, 600, 1000)
		}, "0.. unconfirmed no-coverage 9090\n"},
		{"damage: a poke without a time, of an event whose records have times", func(w *tape) {
			w.copied = true
			w.ticks(100, 400)
			w.poke(10, 0, 0x1100, "9090", "eb02")
			w.ticks(500, 1000)
		}, "0.. unconfirmed damaged 9090\n"},

		{"damage: a map in the form of kernels before 3.16 is no damage", func(w *tape) {
			w.ticks(100, 400)
			flip(w)
			w.other(10, 550, perfdata.RecordMMAP2, append(make([]byte, 56), "/usr/bin/true\x00\x00\x00"...))
			w.ticks(600, 1000)
		}, whole},
		{"damage: a name that is padded to more than 8 bytes is no damage", func(w *tape) {
			w.ticks(100, 400)
			flip(w)
			w.other(10, 550, perfdata.RecordMMAP2, append(make([]byte, 64), "/system/bin/sh"+strings.Repeat("\x00", 50)...))
			w.other(10, 560, perfdata.RecordComm, append(make([]byte, 8), "sh"+strings.Repeat("\x00", 62)...))
			w.ticks(600, 1000)
		}, whole},
		{"damage: bytes follow a name", func(w *tape) {
			w.ticks(100, 400)
			flip(w)
			w.other(10, 550, perfdata.RecordComm, append(make([]byte, 8), "sh\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"...))
			w.ticks(600, 1000)
		}, spoiled("damaged")},
		{"damage: bytes follow the name of a map", func(w *tape) {
			w.ticks(100, 400)
			flip(w)
			w.other(10, 550, perfdata.RecordMMAP2, append(make([]byte, 64), "sh\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00"...))
			w.ticks(600, 1000)
		}, spoiled("damaged")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			tt.tape(w)
			r := w.replay()
			if d := cmp.Diff(tt.want, r.Image.Dump(0x1100, 2)); d != "" {
				t.Errorf("(-want +got):\n%s%v", d, r.Report.Warnings)
			}
		})
	}
}

// TestRecordedModules: what two tracepoints prove of a module's text.
func TestRecordedModules(t *testing.T) {
	const kallsyms = "0000000000001000 T _stext\n0000000000002000 T _etext\n0000000000008010 t m_init\t[m]\n0000000000008100 t m_work\t[m]\n"
	known := textLines(
		"0..100 unconfirmed outside-recording 5555",
		"100..1001 known 5555",
		"1001.. unconfirmed beyond-horizon 5555")
	doubtful := func(reason string) string {
		return textLines(
			"0..100 unconfirmed outside-recording 5555",
			"100..1001 unconfirmed "+reason+" 5555",
			"1001.. unconfirmed beyond-horizon 5555")
	}
	for _, tt := range []struct {
		name    string
		set     func(w *tape) // before the first record
		copying func(w *tape) // between 100 and 200, when the workload is executed
		then    func(w *tape) // between 400 and 500
		addr    uint64
		want    string
	}{
		{name: "modules: both tracepoints are recorded, without an event", addr: 0x8100, want: known},
		{name: "modules: freed", addr: 0x8100,
			then: func(w *tape) { w.module(30, 450, "m") },
			want: textLines(
				"0..100 unconfirmed outside-recording 5555",
				"100..450 known 5555",
				"450.. retired unregistered 5555")},
		{name: "modules: a livepatch module, which the kernel writes relocations into", addr: 0x8100,
			set:  func(w *tape) { w.modules[0].Taints = "OEK" },
			want: "0.. unknown not-text\n"},
		{name: "modules: the samples of the tracepoints have no raw data", addr: 0x8100,
			set: func(w *tape) {
				for i := range w.events {
					w.events[i].attr.SampleType &^= perfdata.SampleRaw
				}
			},
			then: func(w *tape) { w.sample(30, 450, nil) },
			want: doubtful("module-may-have-gone")},
		{name: "modules: another module was freed", addr: 0x8100,
			then: func(w *tape) { w.module(30, 450, "n") },
			want: known},
		{name: "modules: freed and loaded again at an unknown address", addr: 0x8100,
			then: func(w *tape) {
				w.module(31, 420, "m")
				w.module(20, 440, "m")
				w.module(31, 460, "m")
			},
			want: textLines(
				"0..100 unconfirmed outside-recording 5555",
				"100..420 known 5555",
				"420.. retired unregistered 5555")},
		{name: "modules: freed while perf copied: it was copied before that", addr: 0x8100,
			copying: func(w *tape) { w.module(30, 150, "m") },
			want: textLines(
				"0..100 unconfirmed outside-recording 5555",
				"100..150 known 5555",
				"150.. retired unregistered 5555")},
		{name: "duplicates: a module's unload that perf wrote twice", addr: 0x8100,
			copying: func(w *tape) { w.module(30, 150, "m"); w.module(30, 150, "m") },
			want: textLines(
				"0..100 unconfirmed outside-recording 5555",
				"100..150 known 5555",
				"150.. retired unregistered 5555")},
		{name: "modules: loaded while perf copied: it was copied after that", addr: 0x8100,
			copying: func(w *tape) { w.module(20, 150, "m") },
			want: textLines(
				"0..150 unknown not-text",
				"150..1001 known 5555",
				"1001.. unconfirmed beyond-horizon 5555")},
		{name: "modules: freed and loaded again while perf copied: the copy may be of either", addr: 0x8100,
			copying: func(w *tape) {
				w.module(30, 140, "m")
				w.module(20, 150, "m")
			},
			want: textLines("0.. unknown not-text")},
		{name: "modules: provable text ends with the page of the last function", addr: 0x9000,
			want: textLines("0.. unknown not-text")},
		{name: "modules: init text that is not freed yet is not known", addr: 0xa010,
			set:  func(w *tape) { w.kallsyms += "0000000000009000 d data\t[m]\n000000000000a010 t init_module\t[m]\n" },
			want: textLines("0.. unknown not-text")},
		{name: "modules: nor if it comes before data, as separate areas may", addr: 0x9010,
			set:  func(w *tape) { w.kallsyms += "0000000000009010 t init_module\t[m]\n000000000000a000 d data\t[m]\n" },
			want: textLines("0.. unknown not-text")},
		{name: "modules: text before init text is known", addr: 0x8100,
			set:  func(w *tape) { w.kallsyms += "0000000000009000 d data\t[m]\n000000000000a010 t init_module\t[m]\n" },
			want: known},
		{name: "modules: the function for init_module may be no init text", addr: 0x8100,
			set:  func(w *tape) { w.kallsyms += "0000000000008200 t init_module\t[m]\n0000000000009000 d data\t[m]\n" },
			want: known},
		{name: "modules: without symbols of data, text and init text look alike", addr: 0x8100,
			set:  func(w *tape) { w.kallsyms += "000000000000a010 t init_module\t[m]\n" },
			want: textLines("0.. unknown not-text")},
		{name: "modules: the first page is no init text", addr: 0x8100,
			set:  func(w *tape) { w.kallsyms += "0000000000008210 t init_module\t[m]\n" },
			want: known},
		{name: "modules: a freed init function whose name ftrace keeps is not of the text", addr: 0xa010,
			set: func(w *tape) {
				w.kallsyms += "000000000000c010 t n_work\t[n]\n000000000000a010 T m_setup\t[m]\n000000000000d010 T n_setup\t[n]\n"
			},
			want: textLines("0.. unknown not-text")},
		{name: "modules: nor is that of the last module in the list", addr: 0xa010,
			set:  func(w *tape) { w.kallsyms += "0000000000008008 t m_first\t[m]\n000000000000a010 T m_setup\t[m]\n" },
			want: textLines("0.. unknown not-text")},
		{name: "modules: data behind it show that it is text", addr: 0x9010,
			set:  func(w *tape) { w.kallsyms += "000000000000a000 d data\t[m]\n0000000000009010 T m_setup\t[m]\n" },
			want: known},
		{name: "modules: a module that is still being loaded", addr: 0x8100,
			set:  func(w *tape) { w.modules[0].State = "Loading" },
			want: textLines("0.. unknown not-text")},
		{name: "modules: unloads are sampled by frequency", addr: 0x8100,
			set:  func(w *tape) { w.events[2].attr.Flags |= perfdata.FlagFreq },
			want: doubtful("module-events-sampled")},
		{name: "modules: loads are not recorded each time", addr: 0x8100,
			set:  func(w *tape) { w.events[1].attr.SamplePeriod = 2 },
			want: doubtful("module-events-sampled")},
		{name: "modules: only unloads", addr: 0x8100,
			set:  func(w *tape) { w.events[1] = onBoth(0) },
			want: doubtful("module-may-have-gone")},
		{name: "modules: only loads", addr: 0x8100,
			set:  func(w *tape) { w.events[2] = onBoth(0) },
			want: doubtful("module-may-have-gone")},
		{name: "modules: unloads not on every CPU", addr: 0x8100,
			set:  func(w *tape) { w.events[2].cpus = []int64{0} },
			want: doubtful("partial-coverage")},
		{name: "modules: loads not on every CPU", addr: 0x8100,
			set:  func(w *tape) { w.events[1].cpus = []int64{0} },
			want: doubtful("partial-coverage")},
		{name: "modules: no formats of the tracepoints", addr: 0x8100,
			set:  func(w *tape) { w.tracing = "" },
			want: doubtful("module-may-have-gone")},
		{name: "modules: a format that does not say where the name is", addr: 0x8100,
			set:  func(w *tape) { w.tracing = strings.ReplaceAll(moduleFormats, "name;\toffset:8", "name;\toffset:x") },
			then: func(w *tape) { w.module(30, 450, "m") },
			want: doubtful("module-may-have-gone")},
		{name: "modules: an unload may have been lost", addr: 0x8100,
			then: func(w *tape) {
				w.lost(30, 450, 1)
				w.lostSamples(30, 1)
			},
			want: textLines(
				"0..100 unconfirmed outside-recording 5555",
				"100..400 known 5555",
				"400..1001 unconfirmed after-loss 5555",
				"1001.. unconfirmed beyond-horizon 5555")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.events = append(w.events, tracepointEvent("module_load"), tracepointEvent("module_free"))
			w.tracing, w.copied, w.kallsyms = moduleFormats, true, kallsyms
			w.modules = []kcore.Module{{Name: "m", Addr: 0x8000, Size: 0x3000, State: "Live"}}
			maybe := func(f func(w *tape)) {
				if f != nil {
					f(w)
				}
			}
			maybe(tt.set)
			w.comm(10, 0, 0, 7, "perf-exec")
			w.ticks(100, 100)
			maybe(tt.copying)
			w.comm(10, 200, perfdata.MiscCommExec, 7, "true")
			w.ticks(200, 400)
			maybe(tt.then)
			w.ticks(500, 1000)
			r := w.replay()
			if d := cmp.Diff(tt.want, r.Image.Dump(tt.addr, 2)); d != "" {
				t.Errorf("(-want +got):\n%s%v", d, r.Report.Warnings)
			}
		})
	}
}

// TestRecordedVerdicts: the verdict on the recording as a whole.
func TestRecordedVerdicts(t *testing.T) {
	usual := func(w *tape) {
		w.ticks(100, 400)
		w.poke(10, 500, 0x1100, "9090", "eb02")
		w.ticks(600, 1000)
	}
	for _, tt := range []struct {
		name    string
		tape    func(w *tape)
		cut     int // bytes missing at the end
		verdict Verdict
		reasons []timeline.Reason
		horizon uint64
		trusted timeline.Interval
		says    string // the text of the reason
	}{
		{name: "no defect", tape: usual, verdict: Complete, horizon: 1000, trusted: timeline.Interval{From: 100, To: 1000}},
		{name: "no event asks for pokes", verdict: None, reasons: []timeline.Reason{timeline.NoCoverage}, horizon: 1000,
			tape: func(w *tape) {
				w.events = []tapeEvent{onBoth(0)}
				w.ticks(100, 1000)
			}},
		{name: "the architecture is not recorded", verdict: Partial, reasons: []timeline.Reason{timeline.PartialCoverage}, horizon: 1000,
			tape: func(w *tape) {
				w.arch = ""
				usual(w)
			}},
		{name: "the architecture's kernels are silent", verdict: None, reasons: []timeline.Reason{timeline.NoCoverage}, horizon: 1000,
			tape: func(w *tape) {
				w.arch = "s390x"
				w.ticks(100, 1000)
			}},
		{name: "text changed with no record", verdict: Partial, reasons: []timeline.Reason{timeline.OldBytesMismatch}, horizon: 1000, trusted: timeline.Interval{From: 100, To: 1000},
			tape: func(w *tape) {
				w.ticks(100, 400)
				w.poke(10, 500, 0x1100, "9090", "eb02")
				w.poke(10, 600, 0x1100, "eb04", "9090")
				w.ticks(700, 1000)
			}, says: "1 place of kernel text changed without a record"},
		{name: "text changed in two places with no record", verdict: Partial, reasons: []timeline.Reason{timeline.OldBytesMismatch}, horizon: 1000, trusted: timeline.Interval{From: 100, To: 1000},
			tape: func(w *tape) {
				w.ticks(100, 400)
				w.poke(10, 500, 0x1100, "9090", "eb02")
				w.poke(10, 500, 0x1200, "9090", "eb02")
				w.poke(10, 600, 0x1100, "eb04", "9090")
				w.poke(10, 600, 0x1200, "eb04", "9090")
				w.ticks(700, 1000)
			}, says: "2 places of kernel text changed without a record"},
		{name: "text changed with no record, maybe beyond the horizon", verdict: Complete, horizon: 1000, trusted: timeline.Interval{From: 100, To: 1000},
			tape: func(w *tape) {
				w.ticks(100, 400)
				w.poke(10, 500, 0x1100, "9090", "eb02")
				w.ticks(600, 1000)
				w.poke(11, 1100, 0x1100, "eb04", "9090")
			}},
		{name: "text changed with no record, maybe before all CPUs recorded", verdict: Complete, horizon: 1000, trusted: timeline.Interval{From: 300, To: 1000},
			tape: func(w *tape) {
				w.poke(10, 100, 0x1100, "9090", "eb02")
				w.poke(10, 200, 0x1100, "eb04", "9090")
				w.ticks(300, 1000)
			}},
		{name: "two CPUs changed text at one time", verdict: Complete, horizon: 1000, trusted: timeline.Interval{From: 100, To: 1000},
			tape: func(w *tape) {
				w.ticks(100, 400)
				w.poke(10, 500, 0x1100, "9090", "eb02")
				w.poke(11, 500, 0x1100, "eb02", "9090")
				w.ticks(600, 1000)
			}},
		{name: "a CPU that falls silent does not give the horizon", verdict: Partial, reasons: []timeline.Reason{timeline.CPUSilent}, horizon: 1000, trusted: timeline.Interval{From: 100, To: 600},
			tape: func(w *tape) {
				w.ticks(100, 600)
				w.tick(11, 700, 800, 900, 1000)
			}},
		{name: "a loss ends the trusted time", verdict: Partial, reasons: []timeline.Reason{timeline.AfterLoss}, horizon: 1000, trusted: timeline.Interval{From: 100, To: 600},
			tape: func(w *tape) {
				w.ticks(100, 600)
				w.lost(10, 650, 2)
				w.ticks(700, 1000)
				w.lostSamples(10, 2)
			}, says: "2 records lost on CPU 0"},
		{name: "one record lost", verdict: Partial, reasons: []timeline.Reason{timeline.AfterLoss}, horizon: 1000, trusted: timeline.Interval{From: 100, To: 600},
			tape: func(w *tape) {
				w.ticks(100, 600)
				w.lost(10, 650, 1)
				w.ticks(700, 1000)
				w.lostSamples(10, 1)
			}, says: "1 record lost on CPU 0"},
		// A file ends with the feature sections.
		{name: "the file's end is missing", tape: usual, cut: 8, verdict: Partial, reasons: []timeline.Reason{timeline.CPUCountsMissing}, horizon: 999},
		{name: "the file's last records are missing too", tape: func(w *tape) {
			usual(w)
			w.tick(10, 1100, 1200, 1300, 1400, 1500, 1600, 1700, 1800, 1900)
		}, cut: 300, verdict: Partial, reasons: []timeline.Reason{timeline.CPUCountsMissing, timeline.PartialCoverage}, horizon: 999},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			tt.tape(w)
			data := w.bytes()
			r := w.replayOf(data[:len(data)-tt.cut])
			c := r.Report.Coverage.Pokes
			var reasons []timeline.Reason
			for _, l := range c.Limits {
				reasons = append(reasons, l.Reason)
			}
			if c.Verdict != tt.verdict || !cmp.Equal(tt.reasons, reasons) {
				t.Errorf("pokes %v %v, want %v %v", c.Verdict, reasons, tt.verdict, tt.reasons)
			}
			if tt.says != "" && (len(c.Limits) == 0 || c.Limits[0].Text != tt.says) {
				t.Errorf("limits %+v, want %q", c.Limits, tt.says)
			}
			if r.Report.Horizon != tt.horizon {
				t.Errorf("horizon %d, want %d", r.Report.Horizon, tt.horizon)
			}
			if got := (timeline.Interval{From: r.Report.Trusted.From, To: r.Report.Trusted.To}); got != tt.trusted {
				t.Errorf("trusted %v, want %v", got, tt.trusted)
			}
		})
	}
}

// TestThunksOfOldRelease: the kernel's text shows whether it writes call thunks; its
// release does not. Enterprise Linux 9 has call thunks in a 5.14.
func TestThunksOfOldRelease(t *testing.T) {
	w := newTape(t)
	w.release, w.copied = "5.14.0-427.el9.x86_64", true
	w.text = bytes.Repeat([]byte{0xc3}, tapeTextHi-tapeTextLo)
	copy(w.text[0x100:], fromHex("6548c13c251122334405"))
	copy(w.text[0x1f6:], fromHex("90909090909090909090"))
	w.ticks(100, 1000)
	data := w.bytes()
	want := textLines("0.. unconfirmed thunk-padding 90909090909090909090")
	if d := cmp.Diff(want, w.replayOf(data).Image.Dump(0x11f6, 10)); d != "" {
		t.Errorf("Load (-want +got):\n%s", d)
	}
}
