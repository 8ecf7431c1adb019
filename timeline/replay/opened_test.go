// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/perfdata"
)

// own writes a record that perf itself makes.
func (t *tape) own(typ perfdata.RecordType, body []byte) {
	t.begin()
	for len(body)%8 != 0 {
		body = append(body, 0)
	}
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(typ))
	b = le.AppendUint16(le.AppendUint16(b, 0), uint16(8+len(body)))
	t.must(t.w.WriteRecord(append(b, body...)))
}

// cpuList is a list of CPUs in the form of CPU_MAP and EVENT_UPDATE.
func cpuList(cpus ...int) []byte {
	le := binary.LittleEndian
	b := le.AppendUint16(le.AppendUint16(nil, 0), uint16(len(cpus)))
	for _, cpu := range cpus {
		b = le.AppendUint16(b, uint16(cpu))
	}
	return append(b, make([]byte, 8)...)
}

// cpuMask is a list of CPUs below 32 as a mask, and cpuRange a list as a range.
func cpuMask(cpus ...int) []byte {
	le := binary.LittleEndian
	var mask uint32
	for _, cpu := range cpus {
		mask |= 1 << cpu
	}
	b := le.AppendUint16(le.AppendUint16(le.AppendUint16(nil, 1), 1), 4)
	return le.AppendUint32(b, mask)
}

func cpuRange(first, last int) []byte {
	le := binary.LittleEndian
	b := le.AppendUint16(nil, 2)
	b = append(b, 0, 0)
	return le.AppendUint16(le.AppendUint16(b, uint16(first)), uint16(last))
}

// maps writes the CPU_MAP and THREAD_MAP.
func (t *tape) maps(cpus []byte, tasks ...int64) {
	t.own(perfdata.RecordThreadMap, taskList(tasks))
	t.own(perfdata.RecordCPUMap, cpus)
}

func taskList(tasks []int64) []byte {
	le := binary.LittleEndian
	b := le.AppendUint64(nil, uint64(len(tasks)))
	for _, task := range tasks {
		b = append(le.AppendUint64(b, uint64(task)), make([]byte, 16)...)
	}
	return b
}

// ownCPUs writes the EVENT_UPDATE of an event with its own list of CPUs. id is the
// event's first id.
func (t *tape) ownCPUs(id uint64, cpus ...int) {
	le := binary.LittleEndian
	b := le.AppendUint64(le.AppendUint64(nil, uint64(perfdata.EventUpdateCPUs)), id)
	t.own(perfdata.RecordEventUpdate, append(b, cpuList(cpus...)...))
}

const allTasks = -1

// TestOpened: a recording without an ID_INDEX. Its CPU_MAP, THREAD_MAP, EVENT_UPDATE and
// other records show where it opened its events. Kernel text is as in TestRecorded.
func TestOpened(t *testing.T) {
	flip := func(w *tape, id uint64) { w.poke(id, 500, 0x1100, "9090", "eb02") }
	whole := textLines(
		"0..100 unconfirmed outside-recording 9090",
		"100..500 known 9090",
		"500..1001 known eb02",
		"1001.. unconfirmed beyond-horizon eb02")
	partial := textLines(
		"0..500 unconfirmed partial-coverage 9090",
		"500.. unconfirmed partial-coverage eb02")
	on := func(cpus ...int64) tapeEvent {
		return tapeEvent{attr: perfdata.Attr{Flags: everything}, cpus: cpus, tid: -1}
	}
	ticks := func(w *tape, from, to uint64, ids ...uint64) {
		for time := from; time <= to; time += 100 {
			for _, id := range ids {
				w.tick(id, time)
			}
		}
	}
	// usual is what the events 10 and 11 record of both CPUs.
	usual := func(w *tape) {
		w.ticks(100, 400)
		flip(w, 10)
		w.ticks(600, 1000)
	}
	// forPokes makes the first event the one that perf opens for text pokes.
	forPokes := func(w *tape) { w.events[0].attr.Type, w.events[0].attr.Config = 1, 9 }
	for _, tt := range []struct {
		name string
		tape func(w *tape)
		want string
	}{
		{"ids in the order of the CPU_MAP", func(w *tape) {
			w.maps(cpuList(0, 1), allTasks)
			usual(w)
		}, whole},
		{"a CPU_MAP with gaps", func(w *tape) {
			w.events, w.available, w.online = []tapeEvent{on(0, 2, 3)}, 3, 3
			w.maps(cpuList(0, 2, 3), allTasks)
			ticks(w, 100, 400, 10, 12, 13)
			flip(w, 12)
			ticks(w, 600, 1000, 10, 12, 13)
		}, whole},
		{"a CPU_MAP with gaps, as a mask", func(w *tape) {
			w.events, w.available, w.online = []tapeEvent{on(0, 2, 3)}, 3, 3
			w.maps(cpuMask(0, 2, 3), allTasks)
			ticks(w, 100, 400, 10, 12, 13)
			flip(w, 13)
			ticks(w, 600, 1000, 10, 12, 13)
		}, whole},
		{"a CPU_MAP that is a range", func(w *tape) {
			w.events, w.available, w.online = []tapeEvent{on(2, 3)}, 2, 2
			w.maps(cpuRange(2, 3), allTasks)
			ticks(w, 100, 400, 12, 13)
			flip(w, 12)
			ticks(w, 600, 1000, 12, 13)
		}, whole},
		{"a CPU was offline: too few CPUs were recorded", func(w *tape) {
			w.events, w.available, w.online = []tapeEvent{on(0, 2, 3)}, 4, 3
			w.maps(cpuList(0, 2, 3), allTasks)
			ticks(w, 100, 400, 10, 12, 13)
			flip(w, 12)
			ticks(w, 600, 1000, 10, 12, 13)
		}, partial},
		{"a loss with gaps in the CPU_MAP is that of its own CPU", func(w *tape) {
			samples := tapeEvent{cpus: []int64{0, 2, 3}, tid: -1}
			w.events, w.available, w.online = []tapeEvent{on(0, 2, 3), samples}, 3, 3
			w.maps(cpuList(0, 2, 3), allTasks)
			ticks(w, 100, 400, 10, 12, 13)
			flip(w, 12)
			ticks(w, 600, 700, 10, 12, 13)
			w.tick(13, 750)
			w.lost(23, 780, 2)
			ticks(w, 800, 1000, 10, 12, 13)
			w.lostSamples(13, 2)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..750 known eb02",
			"750..1001 unconfirmed after-loss eb02",
			"1001.. unconfirmed beyond-horizon eb02")},
		{"events on CPUs of a CPU_MAP with gaps share their ring buffers", func(w *tape) {
			samples := tapeEvent{cpus: []int64{2, 3}, tid: -1}
			w.noCPU = true
			w.events, w.available, w.online = []tapeEvent{on(0, 2, 3), samples}, 3, 3
			w.timeConv()
			w.maps(cpuList(0, 2, 3), allTasks)
			w.ownCPUs(22, 2, 3)
			ticks(w, 100, 400, 10, 12, 13)
			flip(w, 12)
			ticks(w, 600, 700, 10, 12, 13)
			w.tick(13, 750)
			w.lost(23, 780, 2)
			w.poke(10, 790, 0x1100, "eb02", "9090")
			ticks(w, 800, 1000, 10, 12, 13)
			w.lostSamples(13, 2)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..750 known eb02",
			"750..780 unconfirmed after-loss eb02",
			"780..790 known eb02",
			"790..1001 known 9090",
			"1001.. unconfirmed beyond-horizon 9090")},
		{"the records of the ids have other CPUs than the CPU_MAP's order", func(w *tape) {
			w.events = []tapeEvent{{attr: perfdata.Attr{Flags: everything}, ids: []uint64{15, 14}, tid: -1}}
			w.cpuOf = map[uint64]int64{14: 0, 15: 1}
			w.maps(cpuList(0, 1), allTasks)
			ticks(w, 100, 400, 14, 15)
			flip(w, 15)
			ticks(w, 600, 1000, 14, 15)
		}, whole},
		{"an id without a record does not contradict the order", func(w *tape) {
			w.events = []tapeEvent{{attr: perfdata.Attr{Flags: everything}, ids: []uint64{15, 14}, tid: -1}}
			w.cpuOf = map[uint64]int64{14: 0, 15: 1}
			w.maps(cpuList(0, 1), allTasks)
			ticks(w, 100, 400, 15)
			flip(w, 15)
			ticks(w, 600, 1000, 15)
		}, partial},
		{"no order fits the number of ids: their records show the CPUs", func(w *tape) {
			w.maps(cpuList(0, 1, 2), allTasks)
			usual(w)
		}, whole},
		{"the CPU of an id without a record is unknown", func(w *tape) {
			w.maps(cpuList(0, 1, 2), allTasks)
			ticks(w, 100, 400, 10)
			flip(w, 10)
			ticks(w, 600, 1000, 10)
		}, partial},
		{"an event has its own CPUs", func(w *tape) {
			w.noCPU = true
			w.maps(cpuList(0, 1, 2), allTasks)
			w.ownCPUs(10, 0, 1)
			usual(w)
		}, whole},
		{"an event has its own CPUs, and perf -C asks for some of them", func(w *tape) {
			w.noCPU = true
			w.maps(cpuList(0, 1, 2), allTasks)
			w.ownCPUs(10, 0, 1, 5)
			usual(w)
		}, whole},
		{"perf -C asks for other CPUs than the event's own", func(w *tape) {
			w.noCPU = true
			w.maps(cpuList(0, 1), allTasks)
			w.ownCPUs(10, 5)
			usual(w)
		}, whole},
		{"an event has its own CPUs, and other events have fewer", func(w *tape) {
			w.noCPU = true
			w.maps(cpuList(0), allTasks)
			w.ownCPUs(10, 0, 1)
			usual(w)
		}, whole},
		{"two orders fit the number of ids, and no record shows the right one", func(w *tape) {
			w.noCPU = true
			w.maps(cpuList(0, 2), allTasks)
			w.ownCPUs(10, 0, 1)
			usual(w)
		}, partial},
		{"two orders fit the number of ids, and the records show the right one", func(w *tape) {
			w.maps(cpuList(0, 2), allTasks)
			w.ownCPUs(10, 0, 1)
			usual(w)
		}, whole},
		{"two CPU_MAPs that differ are not used", func(w *tape) {
			w.maps(cpuList(0, 1), allTasks)
			w.maps(cpuList(0, 2), allTasks)
			usual(w)
		}, partial},
		{"without a CPU_MAP, the ids may be of a task", func(w *tape) {
			w.own(perfdata.RecordThreadMap, taskList([]int64{allTasks}))
			usual(w)
		}, partial},
		{"events that follow tasks over all CPUs", func(w *tape) {
			w.maps(cpuList(-1), 7, 8)
			usual(w)
		}, partial},
		{"maps at the end, as perf record --tail-synthesize writes them", func(w *tape) {
			usual(w)
			w.maps(cpuList(0, 1), allTasks)
		}, whole},
		{"an event for all tasks and an event of two tasks", func(w *tape) {
			ofTasks := tapeEvent{ids: []uint64{21, 22, 23, 24}}
			w.cpuOf = map[uint64]int64{21: 0, 22: 0, 23: 1, 24: 1}
			w.events = append(w.events, ofTasks)
			w.maps(cpuList(0, 1), 71, 72)
			w.ticks(100, 400)
			w.tick(24, 450) // of CPU 1, according to the order
			flip(w, 10)
			w.ticks(600, 1000)
		}, whole},
		{"a loss of an event of two tasks is that of its CPU", func(w *tape) {
			ofTasks := tapeEvent{ids: []uint64{21, 22, 23, 24}}
			w.noCPU = true
			w.events = append(w.events, ofTasks)
			w.maps(cpuList(0, 1), 71, 72)
			w.ticks(100, 400)
			w.tick(24, 450)
			flip(w, 10)
			w.ticks(600, 700)
			w.lost(24, 780, 2)
			w.poke(10, 790, 0x1100, "eb02", "9090")
			w.ticks(800, 1000)
			w.lostSamples(11, 2)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..700 known eb02",
			"700..780 unconfirmed after-loss eb02",
			"780..790 known eb02",
			"790..1001 known 9090",
			"1001.. unconfirmed beyond-horizon 9090")},
		{"an event of tasks records too little", func(w *tape) {
			w.maps(cpuList(0, 1), 71)
			usual(w)
		}, partial},
		{"perf's event for text pokes is open for all tasks", func(w *tape) {
			forPokes(w)
			w.maps(cpuList(0, 1), 71)
			usual(w)
		}, whole},
		{"an event that waits for the task's exec is not perf's event for text pokes", func(w *tape) {
			forPokes(w)
			w.events[0].attr.Flags |= perfdata.FlagDisabled | perfdata.FlagEnableOnExec
			w.maps(cpuList(0, 1), 71)
			usual(w)
		}, partial},
		{"of two events with text pokes, neither is known to be perf's", func(w *tape) {
			w.events = append(w.events, onBoth(perfdata.FlagTextPoke))
			forPokes(w)
			w.maps(cpuList(0, 1), 71)
			usual(w)
		}, partial},
		{"the CPU of a READ record is where the task ended", func(w *tape) {
			w.maps(cpuList(0, 1), allTasks)
			w.begin()
			le := binary.LittleEndian
			b := make([]byte, 8+16)
			for _, v := range []uint64{1, 200, 10, 1} { // pid and tid, time, id and CPU of the trailer
				b = le.AppendUint64(b, v)
			}
			le.PutUint64(b[len(b)-16:], 1) // CPU
			le.PutUint64(b[len(b)-8:], 10) // IDENTIFIER
			w.own(perfdata.RecordRead, b)
			usual(w)
		}, whole},
		{"records without an id are separated by their CPU", func(w *tape) {
			w.noIDs = true
			w.maps(cpuList(0, 1), allTasks)
			usual(w)
		}, whole},
		{"records without an id and without a CPU are of several ring buffers: their times may go back", func(w *tape) {
			w.noIDs, w.noCPU = true, true
			w.tick(10, 100, 4e9)
			w.tick(11, 100, 200)
			flip(w, 11)
			w.tick(10, 5e9)
		}, partial},
		{"a record without an id, of a CPU that the event was not opened on", func(w *tape) {
			w.noIDs, w.available, w.online = true, 3, 3
			w.cpuOf = map[uint64]int64{12: 2}
			w.maps(cpuList(0, 1), allTasks)
			ticks(w, 100, 400, 10, 11, 12)
			flip(w, 12)
			ticks(w, 600, 1000, 10, 11, 12)
		}, partial},
		{"LOST_SAMPLES without an id: no CPU's LOST records are known to be complete", func(w *tape) {
			w.noIDs = true
			w.timeConv()
			w.maps(cpuList(0, 1), allTasks)
			w.ticks(100, 400)
			flip(w, 10)
			w.ticks(600, 700)
			w.lost(10, 780, 2)
			w.poke(11, 790, 0x1100, "eb02", "9090")
			w.ticks(800, 900)
			w.tick(10, 1000)
			w.lostSamples(10, 2)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..700 known eb02",
			"700..780 unconfirmed after-loss eb02",
			"780..790 known eb02",
			"790..900 known 9090",
			"900.. unconfirmed after-loss 9090")},
		{"LOST_SAMPLES without an id and without a LOST record", func(w *tape) {
			w.noIDs = true
			w.maps(cpuList(0, 1), allTasks)
			w.ticks(100, 400)
			flip(w, 10)
			w.ticks(600, 900)
			w.tick(10, 1000)
			w.lostSamples(10, 3)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..900 known eb02",
			"900.. unconfirmed after-loss eb02")},
		{"a loss of an id that may be of any CPU", func(w *tape) {
			w.noCPU = true
			w.events = append(w.events, tapeEvent{cpus: []int64{0, 1, 2}, tid: -1})
			w.timeConv()
			w.maps(cpuList(0, 1), allTasks)
			w.ticks(100, 400)
			flip(w, 10)
			w.tick(22, 650)
			w.ticks(600, 700)
			w.lost(22, 780, 2)
			w.poke(11, 790, 0x1100, "eb02", "9090")
			w.tick(10, 800, 900, 1000)
			w.tick(11, 800, 900, 1000)
			w.tick(22, 1000)
			w.lostSamples(10, 1)
			w.lostSamples(22, 1)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..650 known eb02",
			"650..780 unconfirmed after-loss eb02",
			"780..790 known eb02",
			"790..1000 known 9090",
			"1000.. unconfirmed after-loss 9090")},
		{"silence of an id that may be of any CPU", func(w *tape) {
			w.noCPU = true
			w.events = append(w.events, tapeEvent{cpus: []int64{0, 1, 2}, tid: -1})
			w.maps(cpuList(0, 1), allTasks)
			w.tick(22, 100, 200, 400, 600)
			w.ticks(100, 400)
			flip(w, 10)
			w.ticks(600, 1000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..600 known eb02",
			"600.. unconfirmed cpu-silent eb02")},
		{"records of an id that may be of any CPU may have filled any ring buffer", func(w *tape) {
			w.noCPU, w.pipe = true, true
			w.events = append(w.events, tapeEvent{cpus: []int64{0, 1, 2}, tid: -1})
			w.maps(cpuList(0, 1), allTasks)
			w.ticks(100, 400)
			flip(w, 10)
			w.ticks(600, 600)
			w.round()
			w.tick(10, 20e9)
			for range 60 {
				w.tick(22, 20e9)
			}
			w.round()
			w.tick(10, 21e9)
			w.round()
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500..600 known eb02",
			"600.. unconfirmed beyond-horizon eb02")},
		{"records without an id and without a CPU may be of any", func(w *tape) {
			w.noIDs, w.noCPU, w.pipe = true, true, true
			w.maps(cpuList(0, 1), allTasks)
			w.tick(10, 100, 200, 300, 400)
			flip(w, 10)
			w.tick(10, 600, 700, 800, 900, 1000)
			w.tick(11, 100, 200)
		}, textLines(
			"0..500 unconfirmed beyond-horizon 9090",
			"500.. unconfirmed beyond-horizon eb02")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			w.noIndex = true
			tt.tape(w)
			r := w.replay()
			if d := cmp.Diff(tt.want, r.Image.Dump(0x1100, 2)); d != "" {
				t.Errorf("(-want +got):\n%s%v", d, r.Report.Warnings)
			}
			if len(r.scan.damage) > 0 {
				t.Errorf("damaged: %v", r.scan.damage)
			}
		})
	}
}

// TestFollowOpened: while a recording is read, records may contradict the order of the
// ids. Then the ids may be of any CPU. The recording is not damaged.
func TestFollowOpened(t *testing.T) {
	w := newTape(t)
	w.noIndex, w.pipe = true, true
	w.events = append(w.events, tapeEvent{ids: []uint64{25, 24}})
	w.cpuOf = map[uint64]int64{24: 0, 25: 1} // in the opposite order
	w.maps(cpuList(0, 1), allTasks)
	w.ticks(100, 300)
	w.poke(10, 400, 0x1100, "9090", "eb02")
	w.tick(10, 500, 600, 700)
	w.lost(25, 780, 2)
	w.ticks(800, 1000)
	w.poke(10, 1000, 0x1100, "eb02", "9090")
	w.ticks(1100, 1100)
	f, err := Follow(bytes.NewReader(w.bytes()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for f.Next() {
		t.Error("a round")
	}
	im, err := f.Image()
	if err != nil {
		t.Fatal(err)
	}
	want := textLines(
		"0..400 unconfirmed after-loss 9090",
		"400..780 unconfirmed after-loss eb02",
		"780..1000 known eb02",
		"1000..1100 known 9090",
		"1100.. unconfirmed after-loss 9090")
	if d := cmp.Diff(want, im.Dump(0x1100, 2)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if len(f.s.damage) > 0 {
		t.Errorf("damaged: %v", f.s.damage)
	}
}
