// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package recorder

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/recorder/journal"
)

// journalOf returns the journal of a recording.
func journalOf(t *testing.T, dir string) []journal.Entry {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, journal.Name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	entries, err := journal.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// gapsOf returns the gaps in a journal, and the time from which on all events record.
func gapsOf(t *testing.T, dir string) (gaps []journal.Gap, open uint64) {
	t.Helper()
	for _, e := range journalOf(t, dir) {
		if e.Gap != nil {
			gaps = append(gaps, *e.Gap)
		}
		if e.Start != nil {
			open = e.Start.Open
		}
	}
	return gaps, open
}

// refuse makes the kernel seem to have no room for the events of a CPU, while *full.
func refuse(t *testing.T, cpu *int, errno *unix.Errno) {
	t.Helper()
	t.Cleanup(func() { openEvent = open })
	openEvent = func(e *perfdata.Event, on int) (int, error) {
		if *errno != 0 && on == *cpu {
			return -1, fmt.Errorf("perf_event_open of %s on CPU %d: %w", e.Name, on, *errno)
		}
		return open(e, on)
	}
}

// lastCPU returns the highest CPU, and whether there are more.
func lastCPU(t *testing.T) int {
	t.Helper()
	cpus, err := onlineCPUs()
	if err != nil {
		t.Fatal(err)
	}
	if len(cpus) < 2 {
		t.Skip("this machine has one CPU")
	}
	return cpus[len(cpus)-1]
}

// TestBlindCPU: a CPU for whose events the kernel has no room is a gap in the journal of each
// piece, and a warning. The next piece has it if there is room then.
func TestBlindCPU(t *testing.T) {
	cpu := lastCPU(t)
	for _, errno := range []unix.Errno{unix.ENOBUFS, unix.EMFILE, unix.ENOMEM, unix.ENFILE} {
		t.Run(unix.ErrnoName(errno), func(t *testing.T) {
			full := errno
			refuse(t, &cpu, &full)
			var warnings []string
			dir := filepath.Join(t.TempDir(), "rec")
			r := started(t, Options{Dir: dir, MaxSize: LeastSize, Warn: func(err error) { warnings = append(warnings, err.Error()) }})
			for _, blind := range []bool{true, true, false} {
				if !blind {
					full = 0
				}
				if r.number > 1 || !blind {
					if err := r.rotate(); err != nil {
						t.Fatal(err)
					}
				}
				gaps, open := gapsOf(t, r.dir)
				want := []journal.Gap{{CPU: cpu, From: open, To: ^uint64(0)}}
				if !blind {
					want = nil
				}
				if open == 0 || !slices.Equal(gaps, want) || (r.ringOf(cpu) >= 0) == blind {
					t.Errorf("piece %d: %+v, want %+v", r.number, gaps, want)
				}
				r.number = max(r.number, 1)
			}
			if n := slices.IndexFunc(warnings, func(s string) bool {
				return strings.Contains(s, fmt.Sprintf("what CPU %d changes", cpu)) && strings.Contains(s, errno.Error())
			}); n < 0 {
				t.Errorf("%q", warnings)
			}
			if err := r.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestGapsBegin: a gap begins when the CPU was recorded for the last time: with the last record
// of its events, or else when they were opened. A CPU that had no events was offline until its first
// step, or when that was seen for the last time. No gap begins at 0.
func TestGapsBegin(t *testing.T) {
	cpu := lastCPU(t)
	var full unix.Errno
	refuse(t, &cpu, &full)
	r := started(t, Options{Dir: filepath.Join(t.TempDir(), "rec")})
	defer r.Close()
	if err := r.round(); err != nil {
		t.Fatal(err)
	}
	reopen := func(what string, from uint64) {
		t.Helper()
		if err := r.reopen(cpu); err != nil {
			t.Fatal(err)
		}
		gaps, _ := gapsOf(t, r.dir)
		want := journal.Gap{CPU: cpu, From: from, To: r.rings[r.ringOf(cpu)].opened}
		if g := gaps[len(gaps)-1]; g != want || from < r.listed {
			t.Errorf("%s: %+v, want %+v; listed at %d", what, g, want, r.listed)
		}
	}
	drop := func() {
		i := r.ringOf(cpu)
		r.rings[i].close()
		r.rings = slices.Delete(r.rings, i, i+1)
	}
	g := r.rings[r.ringOf(cpu)]
	if err := g.take(func([]byte) error { return nil }); err != nil {
		t.Fatal(err)
	}
	g.last = 0
	opened := g.opened
	if err := r.reopen(cpu); err != nil {
		t.Fatal(err)
	}
	gaps, _ := gapsOf(t, r.dir)
	if len(gaps) != 1 || gaps[0].From < opened {
		t.Errorf("events without a record: %+v, opened at %d", gaps, opened)
	}

	drop()
	listed := r.listed
	if r.listOffline(); r.listed != listed {
		t.Error("a CPU that is online is listed as offline")
	}
	reopen("it had no events", listed)

	if r.followsSteps() {
		drop()
		first := now()
		r.steps[cpu] = &cpuState{back: true, up: first}
		reopen("its first step", first)

		r.missed = true
		drop()
		r.steps[cpu] = &cpuState{back: true, up: first}
		reopen("steps may be lost", r.listed)
	}

	full = unix.ENOBUFS
	g = r.rings[r.ringOf(cpu)]
	if err := r.reopen(cpu); err != nil {
		t.Fatal(err)
	}
	if gaps, _ := gapsOf(t, r.dir); gaps[len(gaps)-1].From < g.opened || gaps[len(gaps)-1].To != ^uint64(0) || !r.blind[cpu] {
		t.Errorf("no room: %+v", gaps[len(gaps)-1])
	}
}

// TestFirstSteps: a CPU without events was offline until its first step up. If the first one is
// down, it was online unnoticed.
func TestFirstSteps(t *testing.T) {
	p := &tracepoint{name: hotplugPoint, format: []byte("\tfield:unsigned int cpu;\toffset:8;\tsize:4;\n" +
		"\tfield:int target;\toffset:12;\tsize:4;\n\tfield:int idx;\toffset:16;\tsize:4;\n")}
	const up, down = 10, 220
	for _, tt := range []struct {
		name  string
		steps []uint32
		times []uint64
		want  cpuState
	}{
		{"it comes online", []uint32{up, up}, []uint64{100, 200}, cpuState{true, 100}},
		{"in the order of buffers", []uint32{up, up}, []uint64{200, 100}, cpuState{true, 100}},
		{"it was online", []uint32{down}, []uint64{100}, cpuState{false, 7}},
		{"it goes offline again", []uint32{up, down, up}, []uint64{100, 200, 300}, cpuState{true, 100}},
	} {
		r := &Recorder{rings: []*ring{{cpu: 0}}, steps: make(map[int]*cpuState), listed: 7}
		for i, idx := range tt.steps {
			raw := make([]byte, 8, 24)
			for _, v := range []uint32{1, 200, idx, 0} {
				raw = binary.NativeEndian.AppendUint32(raw, v)
			}
			r.step(p, raw, tt.times[i])
		}
		if s := r.steps[1]; s == nil || *s != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, s, tt.want)
		}
	}
}

// TestManyRanges: a copy has no more ranges than a line of the journal has room for, and has the
// kernel's own text in any case.
func TestManyRanges(t *testing.T) {
	const text = 0xffffffff81000000
	names, err := kcore.ParseKallsyms([]byte(fmt.Sprintf("%x T _stext\n%x T _etext\n", uint64(text), uint64(text+1<<20))))
	if err != nil {
		t.Fatal(err)
	}
	for _, above := range []uint64{0xffffffffa0000000, 0xffff000000000000} {
		var modules []kcore.Module
		for i := range uint64(journal.MaxRanges + 100) {
			modules = append(modules, kcore.Module{Addr: above + i<<17, Size: 4096})
		}
		spans, core, err := textSpans(names, modules)
		if err != nil || len(spans) != journal.MaxRanges || core != text || !slices.ContainsFunc(spans, func(s span) bool { return s.lo == text }) {
			t.Fatalf("%d ranges, %v", len(spans), err)
		}
		c := textCopy{spans: spans}
		path := filepath.Join(t.TempDir(), journal.Name)
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for _, e := range []journal.Entry{
			{Start: &journal.Start{Version: journal.Version, Program: "p", Clock: "c"}},
			{Copy: &journal.Copy{Dir: "copies/1", From: ^uint64(0) - 1, To: ^uint64(0), Base: "kcore_dir", Read: c.read()}},
			{End: &journal.End{Time: 1}},
		} {
			if err := journal.Append(f, &e); err != nil {
				t.Fatal(err)
			}
		}
		if entries := journalOf(t, filepath.Dir(path)); len(entries) != 3 || len(entries[1].Copy.Read) != len(spans) {
			t.Errorf("%d entries", len(entries))
		}
	}
}

// TestTestedOnline: the probes are tested on a CPU that is online, which need not be CPU 0.
func TestTestedOnline(t *testing.T) {
	t.Cleanup(func() { openEvent = open })
	var tried []int
	openEvent = func(e *perfdata.Event, on int) (int, error) {
		if tried = append(tried, on); on < 3 {
			return -1, fmt.Errorf("CPU %d: %w", on, unix.ENODEV)
		}
		return unix.Eventfd(0, unix.EFD_CLOEXEC)
	}
	n := probesMade.Load() + 1
	root := fakeTracefs(t, map[string]string{
		"kprobe_events": "",
		fmt.Sprintf("events/textreplay/test_%d_%d/id", os.Getpid(), n):     "9\n",
		fmt.Sprintf("events/textreplay/test_%d_%d/format", os.Getpid(), n): "name: test\n",
	})
	r := &Recorder{probes: &probes{root: root}, rings: []*ring{{cpu: 2}, {cpu: 3}, {cpu: 4}}}
	if err := r.change(testedOn[0]); err != nil || !slices.Equal(tried, []int{2, 3}) {
		t.Errorf("CPUs %d, %v", tried, err)
	}
}
