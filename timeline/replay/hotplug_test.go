// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package replay

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/perfdata"
)

// hotplugFormat is the format of cpuhp:cpuhp_enter in TRACING_DATA.
const hotplugFormat = "name: cpuhp_enter\nID: 137\nformat:\n" +
	"\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n" +
	"\tfield:unsigned int cpu;\toffset:8;\tsize:4;\tsigned:0;\n" +
	"\tfield:int target;\toffset:12;\tsize:4;\tsigned:1;\n" +
	"\tfield:int idx;\toffset:16;\tsize:4;\tsigned:1;\n" +
	"\tfield:void * fun;\toffset:24;\tsize:8;\tsigned:0;\n\nprint fmt: \"%d\"\n"

// step writes a sample of cpuhp:cpuhp_enter, which is the tape's second event.
func (t *tape) step(on int64, time uint64, cpu, target, step uint32) {
	raw := make([]byte, 32)
	binary.LittleEndian.PutUint32(raw[8:], cpu)
	binary.LittleEndian.PutUint32(raw[12:], target)
	binary.LittleEndian.PutUint32(raw[16:], step)
	t.sample(uint64(20+on), time, raw)
}

// switches writes a SWITCH record of CPU 1: a task starts to run, or stops.
func (t *tape) switches(time uint64, tid uint32, out bool) {
	s := t.id(11, time)
	s.TID = tid
	le := binary.LittleEndian
	b := le.AppendUint32(nil, uint32(perfdata.RecordSwitch))
	misc := uint16(0)
	if out {
		misc = perfdata.MiscSwitchOut
	}
	b = le.AppendUint16(le.AppendUint16(b, misc), 8+32)
	b = le.AppendUint32(le.AppendUint32(b, s.PID), s.TID)
	b = le.AppendUint64(b, s.Time)
	b = le.AppendUint32(le.AppendUint32(b, s.CPU), 0)
	t.must(t.w.WriteRecord(le.AppendUint64(b, s.ID)))
}

// TestHotplug: signs that a CPU went offline and came back without perf's events. CPU 1
// has records until 600 and is then not silent for longer than before.
func TestHotplug(t *testing.T) {
	const second = 1_000_000_000
	until := func(gap, end string) string {
		return textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500.."+gap+" known eb02",
			gap+".. unconfirmed "+end+" eb02")
	}
	silent := until("600", "cpu-silent")
	whole := until("1001", "beyond-horizon")
	// Times after the first second.
	silentLater, wholeLater := until("1000000007", "cpu-silent"), until("1900000001", "beyond-horizon")

	listens := func(w *tape) { // before the first record
		if !slices.ContainsFunc(w.events, func(e tapeEvent) bool { return e.attr.Flags&perfdata.FlagTask != 0 }) {
			w.events[0].attr.Flags |= perfdata.FlagTask
		}
	}
	begin := func(w *tape) { // up to CPU 1's last record
		listens(w)
		w.comm(10, 0, 0, 7, "perf-exec")
		w.comm(10, 0, 0, 8, "cpuhp/1")
		w.tick(10, 100)
		w.tick(11, 100)
		w.comm(10, 150, perfdata.MiscCommExec, 7, "sh")
		w.fork(10, 200, 20, 7)
		w.poke(10, 500, 0x1100, "9090", "eb02")
		w.tick(11, 600)
	}
	end := func(w *tape) { w.tick(10, 900, 1000) }
	met := func(w *tape) { w.comm(10, 800, 0, 23, "new") }
	later := func(w *tape) { // like begin, but the ids of two FORKs are not adjacent
		begin(w)
		w.tick(11, second+7) // no whole number of ticks behind the first record
		w.fork(10, second+100, 21, 7)
		w.fork(10, second+200, 23, 7)
	}
	endLater := func(w *tape) { w.tick(10, second+900_000_000) }
	watched := func(w *tape) {
		w.events = append(w.events, tracepointEvent("cpuhp_enter"))
		w.events[1].name = "cpuhp:cpuhp_enter"
		w.tracing = hotplugFormat
	}
	for _, tt := range []struct {
		name string
		tape func(w *tape)
		want string // at 0x1100, two bytes
	}{
		{"no sign", func(w *tape) {
			begin(w)
			end(w)
		}, whole},
		{"a task without a FORK record names itself", func(w *tape) {
			begin(w)
			met(w)
			end(w)
		}, silent},
		{"a task without a FORK record changes text", func(w *tape) {
			begin(w)
			s := w.id(10, 800)
			s.TID = 23
			w.must(w.w.TextPoke(&perfdata.TextPoke{Addr: 0x1800, Old: []byte{0x90}, New: []byte{0xcc}, SampleID: s}))
			end(w)
		}, silent},
		{"a task without a FORK record makes another record", func(w *tape) {
			begin(w)
			s := w.id(10, 800)
			s.TID = 23
			w.must(w.w.KSymbol(&perfdata.KSymbol{Addr: 0x10_0000, Len: 16, Kind: perfdata.KSymbolOOL, Name: []byte("kprobe_insn_page"), SampleID: s}))
			end(w)
		}, silent},
		{"an id is missing that only the CPU can have given that the rounds alone vouch for", func(w *tape) {
			w.pipe = true
			begin(w)
			w.tick(11, 10*second)
			w.fork(10, 11*second, 21, 7)
			w.fork(10, 25*second, 23, 7) // beyond the horizon
			w.tick(10, 45*second)
			w.round()
			w.tick(10, 50*second)
			w.round()
		}, until("10000000000", "cpu-silent")},
		{"the id may still be in the ring buffer of another CPU", func(w *tape) {
			w.pipe = true
			begin(w)
			w.tick(11, 10*second)
			w.fork(10, 11*second, 21, 7)
			w.tick(10, 45*second)
			w.round()
			w.tick(10, 50*second)
			w.fork(10, 50*second, 23, 7)
			w.round()
		}, until("19999999400", "beyond-horizon")},
		{"every CPU has a later record", func(w *tape) {
			begin(w)
			met(w)
			w.tick(11, 850)
			end(w)
		}, whole},
		{"perf listed the task", func(w *tape) {
			begin(w)
			met(w)
			w.comm(10, 0, 0, 23, "there before") // perf record --tail-synthesize
			end(w)
		}, whole},
		{"the FORK comes later in the file", func(w *tape) {
			begin(w)
			w.tick(10, 700)
			w.comm(10, 800, 0, 23, "new")
			w.fork(11, 600, 23, 7)
			end(w)
		}, whole},
		{"the task may be older than the first FORK", func(w *tape) {
			begin(w)
			w.comm(10, 800, 0, 19, "old")
			end(w)
		}, whole},
		{"the first FORK counts only if all events listened", func(w *tape) {
			listens(w)
			w.fork(10, 100, 10, 3) // of a task that may have begun the fork before
			begin(w)
			w.comm(10, 800, 0, 19, "old")
			end(w)
		}, whole},
		{"ids started again before the first FORK", func(w *tape) {
			listens(w)
			w.comm(10, 0, 0, 30, "perf-exec")
			w.tick(10, 100)
			w.tick(11, 100)
			w.comm(10, 150, perfdata.MiscCommExec, 30, "sh")
			w.fork(10, 160, 20, 30)
			w.fork(10, 200, 21, 30)
			w.poke(10, 500, 0x1100, "9090", "eb02")
			w.tick(11, 600)
			met(w)
			end(w)
		}, whole},
		{"ids started again", func(w *tape) {
			begin(w)
			w.fork(10, 700, 5, 7)
			met(w)
			end(w)
		}, whole},
		{"a task of another PID namespace", func(w *tape) {
			begin(w)
			w.comm(10, 800, 0, 0xffffffff, "outside")
			end(w)
		}, whole},
		{"FORKs were not recorded on every CPU", func(w *tape) {
			w.events = append(w.events, onBoth(perfdata.FlagTask))
			w.events[1].cpus = []int64{0}
			begin(w)
			met(w)
			end(w)
		}, whole},
		{"the event for FORKs is pinned and may get no counter", func(w *tape) {
			w.events = append(w.events, onBoth(perfdata.FlagTask))
			w.events[0].attr.Flags &^= perfdata.FlagTask
			w.events[1].attr.Flags |= perfdata.FlagPinned
			begin(w)
			met(w)
			end(w)
		}, whole},
		{"FORKs were recorded only in a cgroup", func(w *tape) {
			w.cmdline = "perf record -a -G group"
			begin(w)
			met(w)
			end(w)
		}, whole},
		{"the FORK may be lost", func(w *tape) {
			w.events = append(w.events, onBoth(perfdata.FlagTask))
			begin(w)
			w.tick(10, 650)
			w.lost(20, 700, 3)
			met(w)
			end(w)
			w.lostSamples(20, 3)
		}, whole},
		{"an earlier loss does not matter", func(w *tape) {
			w.events = append(w.events, onBoth(perfdata.FlagTask))
			begin(w)
			w.lost(20, 620, 3)
			w.fork(10, 700, 21, 7)
			w.fork(10, 710, 22, 7)
			met(w)
			end(w)
			w.lostSamples(20, 3)
		}, silent},

		{"an id between others is missing", func(w *tape) {
			later(w)
			endLater(w)
		}, silentLater},
		{"an id is missing right before the end, where its FORK may still follow", func(w *tape) {
			later(w)
			w.tick(10, second+1000)
		}, until("1000001001", "beyond-horizon")},
		{"too many ids are missing", func(w *tape) {
			later(w)
			w.fork(10, second+300, 22, 7)
			w.fork(10, second+400, 5000, 7) // restoring a checkpoint does this
			endLater(w)
		}, wholeLater},
		{"higher ids were in use before", func(w *tape) {
			listens(w)
			w.comm(10, 0, 0, 500, "there before")
			later(w)
			endLater(w)
		}, wholeLater},

		{"cpuhp_enter shows when a CPU came back", func(w *tape) {
			watched(w)
			begin(w)
			w.step(0, 700, 1, 0, 50)
			w.step(0, 800, 1, 236, 50)
			end(w)
		}, until("800", "cpu-silent")},
		{"not all steps are recorded: the CPU may have been back earlier", func(w *tape) {
			watched(w)
			w.events[1].attr.SamplePeriod = 2
			begin(w)
			w.step(0, 700, 1, 0, 50)
			w.step(0, 800, 1, 236, 50)
			end(w)
		}, silent},
		{"a CPU that has records after its return has its events", func(w *tape) {
			watched(w)
			begin(w)
			w.step(0, 700, 1, 153, 200)
			w.step(0, 800, 1, 236, 200)
			w.step(1, 810, 1, 236, 201)
			end(w)
		}, whole},
		{"a CPU stays offline", func(w *tape) {
			watched(w)
			begin(w)
			w.step(0, 700, 1, 0, 50)
			w.step(0, 710, 1, 0, 49)
			w.tick(10, 1000, 2000, 3000)
		}, until("3001", "beyond-horizon")},
		{"installing a step takes no CPU offline", func(w *tape) {
			watched(w)
			begin(w)
			w.step(0, 700, 1, 236, 50)
			w.tick(10, 1000, 2000, 3000)
		}, until("3001", "beyond-horizon")},
		{"a CPU without a step is idle, however long", func(w *tape) {
			watched(w)
			begin(w)
			w.step(0, 200, 2, 236, 50)
			w.step(1, 610, 2, 236, 50)
			w.tick(10, 1000, 2000, 3000)
		}, until("3001", "beyond-horizon")},
		{"the end of the lowest CPU's records is unknown", func(w *tape) {
			watched(w)
			begin(w)
			w.tick(11, 1000, 2000, 3000)
		}, textLines(
			"0..100 unconfirmed outside-recording 9090",
			"100..500 known 9090",
			"500.. unconfirmed cpu-silent eb02")},
		{"the tracepoint is sampled", func(w *tape) {
			watched(w)
			w.events[1].attr.SamplePeriod = 2
			begin(w)
			w.tick(10, 1000, 2000, 3000)
		}, silent},
		{"the tracepoint was enabled after the CPU's last record", func(w *tape) {
			watched(w)
			w.cmdline = "perf record -a"
			w.events[1].attr.Flags |= perfdata.FlagDisabled
			w.comm(10, 0, 0, 7, "perf-exec")
			w.tick(10, 100)
			w.tick(11, 100)
			w.poke(10, 500, 0x1100, "9090", "eb02")
			w.tick(11, 600)
			w.comm(10, 650, perfdata.MiscCommExec, 7, "sh")
			w.tick(10, 1000, 2000, 3000)
		}, silent},
		{"the tracepoint's format is missing", func(w *tape) {
			watched(w)
			w.tracing = strings.Replace(hotplugFormat, "int idx", "int other", 1)
			begin(w)
			w.tick(10, 1000, 2000, 3000)
		}, silent},

		{"the last task that ran on a CPU took it offline", func(w *tape) {
			begin(w)
			w.switches(600, 8, false)
			end(w)
		}, silent},
		{"the task that takes CPUs offline no longer ran", func(w *tape) {
			begin(w)
			w.switches(600, 8, false)
			w.switches(610, 8, true)
			end(w)
		}, whole},

		{"on a clock of ticks, a change at the time of the last record may have come after it", func(w *tape) {
			const ms = 1_000_000
			w.tick(10, 1*ms, 2*ms, 3*ms)
			w.tick(11, 1*ms, 2*ms, 3*ms)
			w.poke(10, 3*ms, 0x1100, "9090", "eb02")
			w.tick(10, 4*ms, 5*ms, 6*ms, 7*ms)
		}, textLines(
			"0..3000000 unconfirmed cpu-silent 9090",
			"3000000.. unconfirmed cpu-silent eb02")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newTape(t)
			tt.tape(w)
			r := w.replay()
			if d := cmp.Diff(tt.want, r.Image.Dump(0x1100, 2)); d != "" {
				t.Errorf("(-want +got):\n%s%v\n%v", d, r.Report.Warnings, r.Report.Trusted.Because)
			}
		})
	}
}
