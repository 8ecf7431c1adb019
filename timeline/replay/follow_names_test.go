// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

// TestFollowNames: in a pipe the names of events come after the events, and say which of them take
// loads of modules and steps of CPUs. The image of a follower is that of the whole recording. In a
// file they come last.
func TestFollowNames(t *testing.T) {
	const second = 1_000_000_000
	modules := func(w *tape) {
		w.events = append(w.events, tracepointEvent("module_load"), tracepointEvent("module_free"))
		w.tracing, w.copied = moduleFormats, true
		w.kallsyms = "0000000000001000 T _stext\n0000000000002000 T _etext\n0000000000008000 t f\t[m]\n"
		w.modules = []kcore.Module{{Name: "m", Addr: 0x8000, Size: 0x3000, State: "Live"}}
	}
	load := func(w *tape) {
		w.comm(10, 0, 0, 7, "perf-exec")
		w.ticks(100, 100)
		w.comm(10, 200, perfdata.MiscCommExec, 7, "true")
		w.ticks(200, 400)
		w.module(30, 450, "m")
		w.ticks(500, 1000)
	}
	steps := func(w *tape) { // CPU 1 comes back at 800; its rounds would vouch for it until 10,000,600
		w.events[0].attr.Flags |= perfdata.FlagTask
		w.events = append(w.events, tracepointEvent("cpuhp_enter"))
		w.events[0].name, w.events[1].name = "dummy:HG", "cpuhp:cpuhp_enter"
		w.tracing = hotplugFormat
	}
	back := func(w *tape) {
		w.ticks(100, 100)
		w.poke(10, 500, 0x1100, "9090", "eb02")
		w.tick(11, 600)
		w.step(0, 700, 1, 0, 50)
		w.step(0, 800, 1, 236, 50)
		for i := range uint64(4) {
			w.tick(10, (i+1)*10*second)
			w.round()
		}
	}
	for _, tt := range []struct {
		name string
		set  func(w *tape)
		then func(w *tape)
		addr uint64
		want string // two bytes
	}{
		{"modules", modules, load, 0x8100, textLines(
			"0..100 unconfirmed outside-recording 5555",
			"100..450 known 5555",
			"450.. retired unregistered 5555")},
		{"CPUs", steps, back, 0x1100, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..800 known eb02",
			"800.. unconfirmed cpu-silent eb02")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.pipe = true
			tt.set(w)
			tt.then(w)
			data := w.bytes()
			if d := cmp.Diff(tt.want, w.replayOf(data).Image.Dump(tt.addr, 2)); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.want, w.follow(data).Dump(tt.addr, 2)); d != "" {
				t.Errorf("of a follower (-want +got):\n%s", d)
			}
		})
	}
	t.Run("a file names its events at its end, when the steps of CPUs were passed", func(t *testing.T) {
		w := newTape(t)
		steps(w)
		w.cmdline = "perf record -a"
		back(w)
		want := textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..700 known eb02",
			"700.. unconfirmed cpu-silent eb02")
		if d := cmp.Diff(want, w.follow(w.bytes()).Dump(0x1100, 2)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
	t.Run("a name that comes after a record of its event is too late", func(t *testing.T) {
		w := newTape(t)
		w.pipe = true
		modules(w)
		names := []string{w.events[1].name, w.events[2].name}
		w.events[1].name, w.events[2].name = "", ""
		w.comm(10, 0, 0, 7, "perf-exec")
		w.module(30, 90, "other")
		for i, name := range names {
			id := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(perfdata.EventUpdateName)), uint64(20+10*i))
			w.own(perfdata.RecordEventUpdate, append(id, name+"\x00\x00\x00\x00\x00\x00"...))
		}
		load(w)
		want := textLines(
			"0..100 unconfirmed outside-recording 5555",
			"100..1000 unconfirmed module-may-have-gone 5555",
			"1000.. unconfirmed beyond-horizon 5555")
		if d := cmp.Diff(want, w.follow(w.bytes()).Dump(0x8100, 2)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	})
}

// follow makes an image as a follower that has read all of a recording.
func (t *tape) follow(data []byte) *timeline.Image {
	t.tb.Helper()
	opts := Options{ProbeCounters: t.counters}
	if !t.pipe {
		opts.CPUs = int(t.available)
	}
	if t.copied {
		opts.KCore = t.kcoreDir()
	}
	f, err := Follow(bytes.NewReader(data), opts)
	t.must(err)
	t.tb.Cleanup(func() { f.Close() })
	for f.Next() {
	}
	t.must(f.Err())
	im, err := f.Image()
	t.must(err)
	return im
}
