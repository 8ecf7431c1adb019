// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	entry  = 0xffffffff81001000
	leaf   = 0xffffffff81002000
	behind = 0xffffffff81003100
	packed = 0xffffffffc0001000 // where BPF programs come and go
)

func kernelChain(ips ...uint64) []uint64 {
	return append([]uint64{perfdata.CallchainKernel}, ips...)
}

// TestReuse: one address is named by each of the programs that were there, in
// whatever order the samples come. Between them and after the last one it has no name.
func TestReuse(t *testing.T) {
	tp := newTape(t, "cpu-clock")
	tp.bpf(1000, 2000, packed, 64, "bpf_prog_0000000000000001_first")
	tp.bpf(3000, 4000, packed, 64, "bpf_prog_0000000000000002_second")
	for _, time := range []uint64{3500, 1500, 2500, 3501, 500, 1501, 4500} {
		tp.sample(taken{time: time, pid: 7, ip: packed + 16, chain: kernelChain(packed+16, entry+8)})
	}
	p, stats := exported(t, tp.load(), Options{})
	want := `[2 2000] bpf_prog_0000000000000001_first([bpf]) < entry([kernel.kallsyms])
[2 2000] bpf_prog_0000000000000002_second([bpf]) < entry([kernel.kallsyms])
[3 3000] 0xffffffffc0001010 < entry([kernel.kallsyms])
`
	if d := cmp.Diff(want, print(p)); d != "" {
		t.Error(d)
	}
	at := make(map[uint64]int)
	for _, l := range p.Location {
		at[l.Address]++
	}
	if at[packed+16] != 3 {
		t.Errorf("%d locations at one address, want those of two lives, and of none", at[packed+16])
	}
	if stats.Samples != 7 || stats.Rows != 3 || stats.Functions != 3 {
		t.Errorf("%+v", stats)
	}
}

// TestChains: contexts, addresses that are returned to, and chains that do not
// begin where the sample was taken.
func TestChains(t *testing.T) {
	const user = perfdata.CallchainUser
	for _, tt := range []struct {
		name string
		s    taken
		want string
	}{
		{"no chain", taken{ip: leaf + 4}, "leaf([kernel.kallsyms])"},
		{"kernel", taken{ip: leaf + 4, chain: kernelChain(leaf+4, entry+8)}, "leaf([kernel.kallsyms]) < entry([kernel.kallsyms])"},
		{"returned to behind its end", taken{ip: leaf + 4, chain: kernelChain(leaf+4, behind)}, "leaf([kernel.kallsyms]) < dies([kernel.kallsyms])"},
		{"the first is exact", taken{ip: behind, chain: kernelChain(behind, entry+8)}, "behind([kernel.kallsyms]) < entry([kernel.kallsyms])"},
		{"user", taken{ip: 0x401010, mode: perfdata.MiscUser, chain: []uint64{user, 0x401010, 0x402020}}, "0x401010(/bin/prog) < 0x40201f(/bin/prog)"},
		{"kernel and user", taken{ip: leaf, chain: append(kernelChain(leaf, entry+8), user, 0x401010, 0x500000)},
			"leaf([kernel.kallsyms]) < entry([kernel.kallsyms]) < 0x401010(/bin/prog) < 0x4fffff"},
		{"user alone is recorded", taken{ip: leaf, chain: []uint64{user, 0x401010}}, "leaf([kernel.kallsyms]) < 0x401010(/bin/prog)"},
		{"the sample knows better", taken{ip: leaf + 8, chain: kernelChain(entry+20, entry+8)}, "leaf([kernel.kallsyms]) < entry([kernel.kallsyms])"},
		{"end of frame pointers", taken{ip: 0x401010, mode: perfdata.MiscUser, chain: []uint64{user, 0x401010, 0}}, "0x401010(/bin/prog)"},
		{"guest", taken{ip: leaf, mode: perfdata.MiscGuestKernel}, "0xffffffff81002000([guest.kernel])"},
		{"in a guest's chain", taken{ip: leaf, chain: append(kernelChain(leaf), perfdata.CallchainGuestUser, 0x401010)},
			"leaf([kernel.kallsyms]) < 0x401010([guest.user])"},
		{"hypervisor", taken{ip: leaf, mode: perfdata.MiscHypervisor}, "0xffffffff81002000([hypervisor])"},
		{"deferred and never given", taken{ip: leaf, chain: append(kernelChain(leaf), perfdata.CallchainUserDeferred, 77)}, "leaf([kernel.kallsyms])"},
		{"a marker that is not known", taken{ip: leaf, chain: append(kernelChain(leaf), perfdata.CallchainContextMax+1, 77)}, "leaf([kernel.kallsyms]) < 0x4d"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tp := newTape(t, "cpu-clock")
			tp.mmap(0, 7, 0x400000, 0x10000, 0x1000, "/bin/prog")
			tt.s.time, tt.s.pid = 1000, 7
			tp.sample(tt.s)
			p, _ := exported(t, tp.load(), Options{})
			if d := cmp.Diff("[1 1000] "+tt.want+"\n", print(p)); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestTaskGone: a sample of a task that has gone has no process, not the process 4294967295.
func TestTaskGone(t *testing.T) {
	tp := newTape(t, "cpu-clock")
	tp.sample(taken{time: 1000, pid: 1<<32 - 1, ip: leaf})
	p, _ := exported(t, tp.load(), Options{Labels: LabelPID | LabelTID})
	for _, label := range []string{"pid", "tid"} {
		if v, ok := p.Sample[0].NumLabel[label]; ok {
			t.Errorf("label %s: %v", label, v)
		}
	}
}

// TestGuestTasks: a guest numbers its tasks by itself. Names and maps of one machine's are not those of
// the other one's.
func TestGuestTasks(t *testing.T) {
	const guest = 7001
	tp := newTape(t, "cpu-clock", "cpu-clock")
	tp.check(tp.w.IDIndex(&perfdata.IDIndex{Entries: []perfdata.IDIndexEntry{{ID: 1, CPU: 0, TID: -1}}}))
	tp.check(tp.w.IDIndex(&perfdata.IDIndex{Entries: []perfdata.IDIndexEntry{{ID: 2, Idx: 1, CPU: 0, TID: -1, MachinePID: guest}}}))
	inGuest := func(f func()) { // what perf inject --guest-data puts in has the guest's ids
		tp.id = 2
		f()
		tp.id = 1
	}
	tp.comm(0, 7, 7, "host", false)
	tp.mmap(0, 7, 0x400000, 0x2000, 0, "/bin/host")
	inGuest(func() {
		tp.comm(10, 7, 7, "guest", true)
		tp.mmap(20, 7, 0x400000, 0x2000, 0, "/bin/guest")
		tp.fork(30, 8, 8, 7, 7, 0)
	})
	user := []uint64{perfdata.CallchainUser, 0x401000}
	for event := range 2 {
		for _, pid := range []uint32{7, 8} {
			tp.sample(taken{event: event, time: 100, pid: pid, mode: perfdata.MiscUser, ip: 0x401000, chain: user})
		}
	}
	// An event of the host, while its thread 7 ran a guest.
	tp.sample(taken{time: 100, pid: 7, mode: perfdata.MiscGuestKernel, ip: leaf})
	p, _ := exported(t, tp.load(), Options{Labels: LabelPID | LabelComm})
	want := `[1 1000] 0x401000 pid=8
[1 1000] 0x401000(/bin/host) pid=7 comm=host
[1 1000] 0x401000([guest.user]) pid=7 comm=guest
[1 1000] 0x401000([guest.user]) pid=8 comm=guest
[1 1000] 0xffffffff81002000([guest.kernel]) pid=7 comm=host
`
	if d := cmp.Diff(want, print(p)); d != "" {
		t.Error(d)
	}
}

// TestTIDAgain: a thread whose number was that of another one does not have the name of that one,
// also if its parent's is not known.
func TestTIDAgain(t *testing.T) {
	tp := newTape(t, "cpu-clock")
	tp.comm(100, 7, 7, "first", true)
	tp.sample(taken{time: 150, pid: 7, ip: leaf})
	tp.fork(200, 7, 7, 99, 99, 0)
	tp.sample(taken{time: 250, pid: 7, ip: leaf})
	tp.comm(300, 7, 7, "second", true)
	tp.sample(taken{time: 350, pid: 7, ip: leaf})
	p, _ := exported(t, tp.load(), Options{Labels: LabelComm})
	want := `[1 1000] leaf([kernel.kallsyms])
[1 1000] leaf([kernel.kallsyms]) comm=first
[1 1000] leaf([kernel.kallsyms]) comm=second
`
	if d := cmp.Diff(want, print(p)); d != "" {
		t.Error(d)
	}
}

// TestProcesses: an address in a program is what its own process had there
// then, and comm is the thread's name at that time.
func TestProcesses(t *testing.T) {
	tp := newTape(t, "cpu-clock")
	user := func(time uint64, pid, tid uint32) {
		tp.sample(taken{time: time, pid: pid, tid: tid, mode: perfdata.MiscUser, ip: 0x401000, chain: []uint64{perfdata.CallchainUser, 0x401000}})
	}
	// Samples come before the records that concern them, as those of another
	// CPU do.
	user(150, 10, 10)
	user(250, 11, 11)
	user(350, 11, 11)
	user(450, 11, 11)
	user(550, 10, 12)
	user(650, 10, 10)
	user(150, 20, 20)
	user(50, 13, 13)
	user(710, 13, 13)
	user(720, 14, 14)
	user(730, 15, 15)
	tp.mmap(0, 1, 0x400000, 0x2000, 0, "/sbin/init")
	tp.comm(0, 10, 10, "shell", false)
	tp.fork(0, 10, 10, 1, 1, 0)
	tp.mmap(0, 10, 0x400000, 0x2000, 0, "/bin/shell")
	tp.fork(200, 11, 11, 10, 10, 0) // takes the shell's maps along
	tp.comm(300, 11, 11, "tool", true)
	tp.mmap(400, 11, 0x400000, 0x2000, 0, "/bin/tool")
	tp.fork(500, 10, 12, 10, 10, 0) // a thread
	tp.comm(540, 10, 12, "worker", false)
	tp.mmap(600, 10, 0x401000, 0x1000, 0x3000, "/lib/over.so")
	tp.fork(700, 13, 13, 11, 11, 0)
	// Perf made these up: what the parents have is not theirs.
	tp.fork(701, 14, 14, 11, 11, miscForkExec)
	tp.fork(0, 15, 15, 1, 1, 0)
	p, _ := exported(t, tp.load(), Options{Labels: LabelPID | LabelTID | LabelComm})
	want := `[1 1000] 0x401000 pid=11 tid=11 comm=tool
[1 1000] 0x401000 pid=13 tid=13
[1 1000] 0x401000 pid=14 tid=14
[1 1000] 0x401000 pid=15 tid=15
[1 1000] 0x401000 pid=20 tid=20
[1 1000] 0x401000(/bin/shell) pid=10 tid=10 comm=shell
[1 1000] 0x401000(/bin/shell) pid=10 tid=12 comm=worker
[1 1000] 0x401000(/bin/shell) pid=11 tid=11 comm=shell
[1 1000] 0x401000(/bin/tool) pid=11 tid=11 comm=tool
[1 1000] 0x401000(/bin/tool) pid=13 tid=13 comm=tool
[1 1000] 0x401000(/lib/over.so) pid=10 tid=10 comm=shell
`
	if d := cmp.Diff(want, print(p)); d != "" {
		t.Error(d)
	}
}

// TestEvents: each event has its own values, and a choice of samples.
func TestEvents(t *testing.T) {
	tp := newTape(t, "cpu-clock", "page-faults")
	tp.comm(0, 7, 7, "one", false)
	tp.comm(0, 8, 8, "two", false)
	for i, s := range []taken{
		{event: 0, time: 100, pid: 7, period: 1000},
		{event: 0, time: 200, pid: 7, period: 3000, cpu: 1},
		{event: 1, time: 300, pid: 7, period: 5},
		{event: 1, time: 400, pid: 8, period: 7},
		{event: 0, time: 500, pid: 0},
	} {
		s.ip = leaf + uint64(i)/4*4
		tp.sample(s)
	}
	r := tp.load()
	for _, tt := range []struct {
		name string
		opts Options
		want string
	}{
		{"all", Options{}, "[1 1000 0 0] leaf([kernel.kallsyms])\n[2 4000 2 12] leaf([kernel.kallsyms])\n"},
		{"labels", Options{Labels: AllLabels}, `[0 0 1 7] leaf([kernel.kallsyms]) cpu=0 pid=8 tid=8 comm=two
[1 1000 0 0] leaf([kernel.kallsyms]) cpu=0 pid=0 tid=0 comm=swapper
[1 1000 1 5] leaf([kernel.kallsyms]) cpu=0 pid=7 tid=7 comm=one
[1 3000 0 0] leaf([kernel.kallsyms]) cpu=1 pid=7 tid=7 comm=one
`},
		{"one event", Options{Events: []string{"page-faults"}}, "[2 12] leaf([kernel.kallsyms])\n"},
		{"time", Options{From: 200, To: 400}, "[1 3000 1 5] leaf([kernel.kallsyms])\n"},
		{"process", Options{PIDs: []uint32{8}}, "[1 7] leaf([kernel.kallsyms])\n"},
		{"names", Options{Comms: []string{"two", "swapper"}}, "[0 0 1 7] leaf([kernel.kallsyms])\n[1 1000 0 0] leaf([kernel.kallsyms])\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, stats := exported(t, r, tt.opts)
			if d := cmp.Diff(tt.want, print(p)); d != "" {
				t.Error(d)
			}
			var total uint64
			for _, e := range stats.Events {
				total += e.Samples
			}
			if total != stats.Samples || int(stats.Rows) != len(p.Sample) {
				t.Errorf("%+v", stats)
			}
		})
	}
	p, _ := exported(t, r, Options{})
	want := []*profile.ValueType{
		{Type: "cpu-clock_samples", Unit: "count"}, {Type: "cpu-clock", Unit: "nanoseconds"},
		{Type: "page-faults_samples", Unit: "count"}, {Type: "page-faults", Unit: "count"},
	}
	if d := cmp.Diff(want, p.SampleType, cmp.Comparer(func(a, b *profile.ValueType) bool { return a.Type == b.Type && a.Unit == b.Unit })); d != "" {
		t.Error(d)
	}
	if p.DefaultSampleType != "cpu-clock" || p.PeriodType.Type != "cpu-clock" || p.Period != 1000 || p.DurationNanos != 400 {
		t.Errorf("default %s, period %d %s, duration %d", p.DefaultSampleType, p.Period, p.PeriodType.Type, p.DurationNanos)
	}

	var noEvent *EventError
	if _, err := Write(nil, r, Options{Events: []string{"cycles"}}); !errors.As(err, &noEvent) || noEvent.Name != "cycles" || len(noEvent.Have) != 2 {
		t.Errorf("an event that is not there: %v", err)
	}
	if _, err := Write(nil, r, Options{PIDs: []uint32{99}}); !errors.Is(err, ErrNoSamples) {
		t.Errorf("no samples: %v", err)
	}
}

// TestBuildIDOfMap: without a BUILD_ID feature the kernel's build id is that of its
// map (perf record --buildid-mmap).
func TestBuildIDOfMap(t *testing.T) {
	tp := newTape(t, "cpu-clock")
	for name, id := range map[string]string{"[kernel.kallsyms]_text": "of the kernel itself", "[virtio]": "of a kernel's module"} {
		tp.check(tp.w.Mmap(perfdata.RecordMMAP2, perfdata.MiscKernel|perfdata.MiscMmapBuildID, &perfdata.Mmap{
			PID: kernelPID, Addr: 0xffffffff81000000, Len: 0x100000, BuildID: []byte(id), Filename: []byte(name), SampleID: tp.at(0, 0),
		}))
	}
	tp.sample(taken{time: 100, pid: 7, ip: leaf, chain: kernelChain(leaf)})
	p, _ := exported(t, tp.load(), Options{})
	if got, want := p.Mapping[0].BuildID, hexID([]byte("of the kernel itself")); p.Mapping[0].File != kernelFile || got != want {
		t.Errorf("%s has the build id %s, want %s", p.Mapping[0].File, got, want)
	}
}

// TestDamaged: a sample that contradicts itself is left out and reported.
func TestDamaged(t *testing.T) {
	tp := newTape(t, "cpu-clock")
	tp.sample(taken{time: 100, pid: 7, ip: leaf, chain: kernelChain(leaf)})
	tp.sample(taken{time: 200, pid: 7, ip: leaf, chain: kernelChain(leaf), claim: 99})
	p, stats := exported(t, tp.load(), Options{})
	if d := cmp.Diff("[1 1000] leaf([kernel.kallsyms])\n", print(p)); d != "" {
		t.Error(d)
	}
	if stats.Damaged != 1 || len(stats.Warnings) != 1 {
		t.Errorf("%+v", stats)
	}
}

// TestGroup: a sample of a group's leader is one of each event that has counted
// on since the last sample of the same counters.
func TestGroup(t *testing.T) {
	tp := newTape(t, "cpu-clock", "page-faults")
	for _, ev := range tp.events {
		ev.Attr.SampleType |= perfdata.SampleRead
		ev.Attr.ReadFormat = perfdata.ReadFormatGroup | perfdata.ReadFormatID
	}
	tp.restart()
	for i, values := range [][2]uint64{{500, 3}, {1500, 3}, {1600, 10}, {1600, 9}} {
		tp.sample(taken{time: uint64(100 * i), pid: 7, ip: leaf, read: []uint64{values[0], 1, values[1], 2, 99, 77}})
	}
	r := tp.load()
	p, _ := exported(t, r, Options{})
	if d := cmp.Diff("[3 1600 2 10] leaf([kernel.kallsyms])\n", print(p)); d != "" {
		t.Error(d)
	}
	p, _ = exported(t, r, Options{Events: []string{"page-faults"}, From: 150})
	if d := cmp.Diff("[1 7] leaf([kernel.kallsyms])\n", print(p)); d != "" {
		t.Error(d)
	}
}

// TestInheritedGroup: each task that inherited a group of counters counts by itself, under the ids
// of its parent's counters. The last sample is of a new task with the tid of one that has gone.
func TestInheritedGroup(t *testing.T) {
	for _, inherit := range []perfdata.AttrFlags{0, perfdata.FlagInherit} {
		tp := newTape(t, "cpu-clock", "page-faults")
		for _, ev := range tp.events {
			ev.Attr.SampleType |= perfdata.SampleRead
			ev.Attr.ReadFormat = perfdata.ReadFormatGroup | perfdata.ReadFormatID
			ev.Attr.Flags |= inherit
		}
		tp.restart()
		for i, x := range []struct {
			tid           uint32
			clock, faults uint64
		}{{7, 1000, 5}, {8, 1000, 1}, {7, 2000, 5}, {8, 3000, 3}, {8, 500, 1}} {
			tp.sample(taken{time: uint64(100 * i), pid: 7, tid: x.tid, ip: leaf, read: []uint64{x.clock, 1, x.faults, 2}})
		}
		want := "[1 1000 0 0] leaf([kernel.kallsyms]) tid=8\n[2 2000 2 9] leaf([kernel.kallsyms]) tid=7\n"
		if inherit != 0 {
			want = "[2 2000 1 5] leaf([kernel.kallsyms]) tid=7\n[3 3500 3 4] leaf([kernel.kallsyms]) tid=8\n"
		}
		p, _ := exported(t, tp.load(), Options{Labels: LabelTID})
		if d := cmp.Diff(want, print(p)); d != "" {
			t.Errorf("inherit %#x: %s", uint64(inherit), d)
		}
	}
}

// TestOwnPeriod: a sample without a period has that of its own event, also where another event has
// the same name.
func TestOwnPeriod(t *testing.T) {
	tp := newTape(t, "cycles", "cycles")
	for i, ev := range tp.events {
		ev.Attr.SamplePeriod = uint64(1000 * (1 + i))
		ev.Attr.SampleType &^= perfdata.SamplePeriod
	}
	tp.restart()
	for event := range tp.events {
		tp.sample(taken{event: event, time: 100, pid: 7, ip: leaf})
	}
	p, _ := exported(t, tp.load(), Options{})
	if d := cmp.Diff("[2 3000] leaf([kernel.kallsyms])\n", print(p)); d != "" {
		t.Error(d)
	}
}

// TestLargePeriods: the sums of a profile are signed numbers. A period for which there is no room is
// damaged, and the other samples count.
func TestLargePeriods(t *testing.T) {
	tp := newTape(t, "cpu-clock", "page-faults")
	for i, period := range []uint64{1 << 63, 1 << 62, 1<<64 - 1, 1 << 62, 1<<62 - 2, 1} {
		tp.sample(taken{time: uint64(100 * i), pid: 7, ip: leaf + uint64(i)%2*16, period: period})
	}
	tp.sample(taken{event: 1, time: 900, pid: 7, ip: leaf, period: 1<<63 - 1})
	p, stats := exported(t, tp.load(), Options{})
	want := "[1 4611686018427387902 1 9223372036854775807] leaf([kernel.kallsyms])\n[2 4611686018427387905 0 0] leaf([kernel.kallsyms])\n"
	if d := cmp.Diff(want, print(p)); d != "" {
		t.Error(d)
	}
	if e := stats.Events[0]; stats.Damaged != 3 || len(stats.Warnings) != 3 || e.Samples != 3 || e.Total != 1<<63-1 {
		t.Errorf("%+v", stats)
	}
}

// TestNoClock: a time that no clock shows is none, and makes no duration that is negative.
func TestNoClock(t *testing.T) {
	tp := newTape(t, "cpu-clock")
	tp.bpf(1000, 2000, packed, 64, "bpf_prog_0000000000000001_first")
	for _, time := range []uint64{100, 1<<64 - 3, 1<<64 - 2, 1<<64 - 1} {
		tp.sample(taken{time: time, pid: 7, ip: leaf})
	}
	r := tp.load()
	p, stats := exported(t, r, Options{})
	if d := cmp.Diff("[4 4000] leaf([kernel.kallsyms])\n", print(p)); d != "" || p.DurationNanos != 0 || stats.Locations != 1 {
		t.Errorf("%sa duration of %d, %+v", d, p.DurationNanos, stats)
	}
	p, _ = exported(t, r, Options{From: 50})
	if d := cmp.Diff("[2 2000] leaf([kernel.kallsyms])\n", print(p)); d != "" {
		t.Error(d)
	}
}

// TestTimeless: samples without a time are named where a name holds all the time,
// and are in no interval.
func TestTimeless(t *testing.T) {
	tp := newTape(t, "cpu-clock")
	tp.events[0].Attr.SampleType &^= perfdata.SampleTime
	tp.restart()
	tp.bpf(1000, 2000, packed, 64, "bpf_prog_0000000000000001_first")
	tp.comm(0, 7, 7, "one", false)
	tp.comm(0, 8, 8, "once", false)
	tp.comm(0, 8, 8, "then", false)
	tp.mmap(0, 7, 0x400000, 0x10000, 0, "/bin/prog")
	tp.mmap(0, 8, 0x400000, 0x10000, 0, "/bin/once")
	tp.mmap(0, 8, 0x400000, 0x10000, 0, "/bin/then")
	for range 3 {
		for _, pid := range []uint32{7, 8} {
			tp.sample(taken{pid: pid, ip: leaf, chain: append(kernelChain(leaf, packed+9), perfdata.CallchainUser, 0x401000)})
		}
	}
	r := tp.load()
	p, _ := exported(t, r, Options{Labels: LabelComm})
	want := `[3 3000] leaf([kernel.kallsyms]) < 0xffffffffc0001008 < 0x401000
[3 3000] leaf([kernel.kallsyms]) < 0xffffffffc0001008 < 0x401000(/bin/prog) comm=one
`
	if d := cmp.Diff(want, print(p)); d != "" {
		t.Error(d)
	}
	if _, _, err := Profile(r, Options{From: 1}); !errors.Is(err, ErrNoSamples) {
		t.Errorf("in an interval: %v", err)
	}
}

// TestLost: a profile says that samples may be missing. LOST_SAMPLES records count what LOST records
// tell, and what was lost at the end. Without the exec of the workload, a recording may be a later file
// of several, whose LOST_SAMPLES count what all files lost.
func TestLost(t *testing.T) {
	all, late, early := Options{}, Options{From: 250}, Options{To: 250}
	for _, tt := range []struct {
		lost, counted, filtered uint64
		opts                    Options
		want                    uint64
		later                   bool
	}{
		{12, 0, 0, all, 12, false}, {12, 0, 0, late, 0, false}, {12, 0, 0, early, 12, false}, {12, 12, 0, all, 12, false},
		{12, 15, 0, all, 15, false}, {12, 15, 0, late, 3, false}, {12, 15, 0, early, 12, false},
		{0, 7, 0, all, 7, false}, {0, 0, 7, all, 0, false}, {12, 15, 0, all, 12, true}, {0, 7, 0, all, 0, true},
	} {
		tp := newTape(t, "cpu-clock")
		if !tt.later {
			tp.comm(0, 5, 5, "perf-exec", false)
			tp.comm(50, 5, 5, "sleep", true)
		}
		tp.sample(taken{time: 100, pid: 7, ip: leaf})
		if tt.lost > 0 {
			tp.check(tp.w.Lost(&perfdata.Lost{ID: 1, Lost: tt.lost, SampleID: tp.at(200, 7)}))
		}
		tp.sample(taken{time: 300, pid: 7, ip: leaf})
		for _, x := range []struct {
			n    uint64
			misc uint16
		}{{tt.counted, 0}, {tt.filtered, miscDroppedByFilter}} {
			if x.n > 0 {
				tp.lostSamples(x.n, x.misc)
			}
		}
		p, stats := exported(t, tp.load(), tt.opts)
		comment := fmt.Sprintf("%d records were lost", tt.want)
		if stats.Lost != tt.want || strings.Contains(strings.Join(p.Comments, "\n"), comment) != (tt.want > 0) {
			t.Errorf("%+v: %+v, comments %q", tt, stats, p.Comments)
		}
	}
}

func callgraph(tb testing.TB) *replay.Replay {
	tb.Helper()
	r, err := replay.Load(filepath.Join(corpus.Root(), "testdata", "callgraph", "rec.data"), replay.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { r.Close() })
	return r
}

// TestGolden: the profile of a part of a real recording, as pprof itself writes
// profiles down.
func TestGolden(t *testing.T) {
	p, _ := exported(t, callgraph(t), Options{From: 22_500_000_000, To: 23_000_000_000, Labels: AllLabels})
	const golden = "testdata/callgraph.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(p.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), p.String()); d != "" {
		t.Error(d)
	}
}

// TestWrite: what is written is what Profile returns, and the same every time.
func TestWrite(t *testing.T) {
	r := callgraph(t)
	var first, second bytes.Buffer
	for _, w := range []*bytes.Buffer{&first, &second} {
		if _, err := Write(w, r, Options{Labels: AllLabels}); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two profiles of one recording differ")
	}
	p, err := profile.Parse(&first)
	if err != nil {
		t.Fatal(err)
	}
	q, _ := exported(t, r, Options{Labels: AllLabels})
	if p.String() != q.String() {
		t.Error("Write and Profile differ")
	}
	if _, err := Write(failing{}, r, Options{}); !errors.Is(err, errFull) {
		t.Errorf("a writer that fails: %v", err)
	}
}

var errFull = errors.New("full")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

// TestPprof: pprof opens the profile.
func TestPprof(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("skipped: there is no go command")
	}
	r := callgraph(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "prof.pb.gz")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Write(f, r, Options{Labels: AllLabels}); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"-top"}, []string{"Total samples = 26.05s", "native_safe_halt\n", "clear_page_erms\n"}},
		{[]string{"-top", "-sample_index=samples"}, []string{"of 495 total"}},
		{[]string{"-top", "-tagfocus=cpu=0"}, []string{"native_safe_halt\n"}},
		{[]string{"-peek=^ftrace_trampoline$"}, []string{"|   __rcu_read_unlock\n", "| ftrace_trampoline\n", "|   function_trace_call\n"}},
		{[]string{"-tags"}, []string{"swapper\n", " cpu: Total"}},
		{[]string{"-raw"}, []string{"1: 0xffffffffa3000000/", "[kernel.kallsyms] 210cfeaa36862392f72c64cd5b63aa31dd0445c2 [FN]", "/bin/busybox"}},
	} {
		cmd := exec.Command("go", append(append([]string{"tool", "pprof", "-symbolize=none"}, tt.args...), file)...)
		cmd.Env = append(os.Environ(), "PPROF_TMPDIR="+dir)
		out, err := cmd.Output()
		if err != nil {
			t.Errorf("%s: %v", cmd, err)
		}
		for _, want := range tt.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("%s: no %q in\n%.2000s", cmd, want, out)
			}
		}
	}
}

// TestSourceFrames: what Options.Source returns are the lines of locations, the innermost
// first; the outermost keeps the name that kallsyms has.
func TestSourceFrames(t *testing.T) {
	p, _, err := Profile(callgraph(t), Options{Source: func(addr uint64) []SourceFrame {
		if addr%2 == 0 {
			return nil
		}
		return []SourceFrame{{"inner", "inner.h", 1}, {"middle", "middle.h", 2}, {"its name in the source", "outer.c", 3}}
	}})
	if err != nil {
		t.Fatal(err)
	}
	with, without := 0, 0
	for _, l := range p.Location {
		if l.Mapping == nil || l.Mapping.File != kernelFile || len(l.Line) == 0 {
			continue
		}
		if l.Address%2 == 0 {
			without++
			if len(l.Line) != 1 || l.Line[0].Line != 0 {
				t.Errorf("%#x: %+v", l.Address, l.Line)
			}
			continue
		}
		with++
		if len(l.Line) != 3 || l.Line[0].Function.Name != "inner" || l.Line[0].Line != 1 || l.Line[1].Function.Filename != "middle.h" ||
			l.Line[2].Line != 3 || l.Line[2].Function.Filename != "outer.c" || l.Line[2].Function.Name == "its name in the source" {
			t.Errorf("%#x: %+v", l.Address, l.Line)
		}
	}
	if with == 0 || without == 0 {
		t.Errorf("%d locations with lines, %d without", with, without)
	}
}

// TestCountNames: no two values have one name, whatever the events are called.
func TestCountNames(t *testing.T) {
	for _, tt := range []struct{ events, want string }{
		{"cycles", "samples"},
		{"samples", "samples_"},
		{"cycles faults", "cycles_samples faults_samples"},
		{"samples cycles", "samples_samples cycles_samples"},
		{"x x_samples", "x_samples_ x_samples_samples"},
		{"x_samples x", "x_samples_samples x_samples_"},
		{"x x_samples x_samples_", "x_samples__ x_samples_samples x_samples__samples"},
		{"x x_samples x_samples_samples", "x_samples_ x_samples_samples_ x_samples_samples_samples"},
	} {
		if got := strings.Join(countNames(strings.Fields(tt.events)), " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.events, got, tt.want)
		}
	}
	tp := newTape(t, "x", "x_samples")
	tp.sample(taken{event: 0, time: 100, pid: 7, ip: leaf})
	tp.sample(taken{event: 1, time: 101, pid: 7, ip: leaf})
	p, _ := exported(t, tp.load(), Options{})
	var names []string
	for _, v := range p.SampleType {
		names = append(names, v.Type)
	}
	if got := strings.Join(names, " "); got != "x_samples_ x x_samples_samples x_samples" {
		t.Errorf("the values are %s", got)
	}
}

// TestEventNamedSamples: folded stacks count samples, whatever the events are called, and
// speedscope has a profile of each event.
func TestEventNamedSamples(t *testing.T) {
	for _, names := range [][]string{{"samples"}, {"my_samples"}, {"my_samples", "page-faults"}, {"page-faults", "samples"}} {
		tp := newTape(t, names...)
		for event := range names {
			tp.sample(taken{event: event, time: 100 + uint64(event), pid: 7, ip: leaf, chain: kernelChain(leaf)})
		}
		r := tp.load()
		var folded, scope bytes.Buffer
		if _, err := WriteFolded(&folded, r, Options{}); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("leaf_[k] %d\n", len(names)); folded.String() != want {
			t.Errorf("events %q: folded stacks are %q, want %q", names, &folded, want)
		}
		if _, err := WriteSpeedscope(&scope, r, Options{}); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(scope.String(), `"type":"sampled"`); n != len(names) {
			t.Errorf("events %q: %d profiles: %s", names, n, &scope)
		}
	}
}

// TestTracepointName: perfs that write no EVENT_DESC into a pipe name tracepoints only by their formats.
func TestTracepointName(t *testing.T) {
	le := binary.LittleEndian
	file := func(b []byte, text string) []byte { return append(le.AppendUint64(b, uint64(len(text))), text...) }
	formats := []byte("\x17\x08\x44tracing0.6\x00\x00\x08\x00\x10\x00\x00header_page\x00")
	formats = append(file(formats, "\tfield: u64 timestamp;\n"), "header_event\x00"...)
	formats = le.AppendUint32(file(formats, "# compressed entry header\n"), 1)
	formats = file(formats, "name: function\nID: 1\nformat:\n")
	formats = append(le.AppendUint32(formats, 1), "sched\x00"...)
	formats = le.AppendUint32(formats, 2)
	formats = file(formats, "name: sched_wakeup\nID: 316\nformat:\n\tfield:int x;\n")
	formats = file(formats, "name: sched_switch\nID: 318\nformat:\n")
	whole := len(formats)
	for _, tt := range []struct {
		n    int // bytes of the formats that are there
		want string
	}{
		{whole, "sched:sched_switch sched:sched_wakeup event type 2 config 0x1 cycles"},
		{whole - 1, "event type 2 config 0x13e sched:sched_wakeup event type 2 config 0x1 cycles"},
		{40, "event type 2 config 0x13e event type 2 config 0x13c event type 2 config 0x1 cycles"},
		{0, "event type 2 config 0x13e event type 2 config 0x13c event type 2 config 0x1 cycles"},
	} {
		tp := newTape(t, "", "", "", "")
		for i, id := range []uint64{318, 316, 1, 0} {
			tp.events[i].Attr.Type, tp.events[i].Attr.Config = typeTracepoint, id
		}
		tp.events[3].Attr.Type = typeHardware
		tp.restart()
		if tt.n > 0 {
			tp.check(tp.w.WriteFeature(perfdata.FeatureTracingData, formats[:tt.n]))
		}
		for i := range tp.events {
			tp.sample(taken{event: i, time: 100, pid: 7, ip: leaf})
		}
		r := tp.load()
		if got := strings.Join(EventNames(r.Recording), " "); got != tt.want {
			t.Errorf("with %d bytes of formats the events are %s, want %s", tt.n, got, tt.want)
		}
		p, _ := exported(t, r, Options{})
		if want, _, _ := strings.Cut(tt.want, " "); tt.n == whole && p.SampleType[1].Type != want {
			t.Errorf("the first value is %s, want %s", p.SampleType[1].Type, want)
		}
	}
}

// A moduleNames names one function of a module.
type moduleNames timeline.Symbol

func (m *moduleNames) Find(addr uint64) (timeline.Symbol, bool) {
	return timeline.Symbol(*m), m.Addr <= addr && addr < m.Addr+m.Size
}
func (m *moduleNames) Lookup(string) []timeline.Symbol { return nil }
func (m *moduleNames) Aliases(uint64) []string         { return nil }

// TestModulesInTurn: an address has the names of each of the modules that were there one after the
// other, in whatever order the samples come, and none between them. Each is in its own module.
func TestModulesInTurn(t *testing.T) {
	tp := newTape(t, "cpu-clock")
	tp.mmap(0, kernelPID, 0xffffffff81000000, 0x7e000000, 0xffffffff81000000, kernelFile+"_text")
	tp.mmap(0, kernelPID, packed, 0x2000, 0, "/lib/modules/6.1/kernel/lib/mod-one.ko.xz")
	const times = 10
	for i := range times {
		tp.sample(taken{time: uint64(500 + 1000*(i*3%times)), pid: 7, ip: packed + 16, chain: kernelChain(packed+16, entry+8)})
	}
	for _, time := range []uint64{999, 1000, 3999, 4000, 4999, 5000} {
		tp.sample(taken{time: time, pid: 7, ip: packed + 32})
	}
	r := tp.load()
	b := timeline.NewBuilder()
	b.Extent(0, 9000)
	b.Text(leaf-0x2000, behind)
	b.Names(replay.Names(r.Kallsyms()))
	for _, m := range []timeline.Module{{Name: "mod_one", Freed: 1000}, {Name: "two", Loaded: 2000, Freed: 3000}, {Name: "three", Loaded: 4000, Freed: 5000}, {Name: "mod_one", Loaded: 6000, Freed: 7000}} {
		m.Addr, m.TextEnd, m.End = packed, packed+0x1000, packed+0x1000
		m.Names = &moduleNames{Name: "f_" + m.Name, Module: m.Name, Addr: packed, Size: 64}
		b.LaterModule(m)
	}
	var err error
	if r.Image, err = b.Build(); err != nil {
		t.Fatal(err)
	}
	p, _ := exported(t, r, Options{})
	want := `[1 1000] f_mod_one(/lib/modules/6.1/kernel/lib/mod-one.ko.xz)
[1 1000] f_mod_one(/lib/modules/6.1/kernel/lib/mod-one.ko.xz) < entry([kernel.kallsyms])
[1 1000] f_mod_one(/lib/modules/6.1/kernel/lib/mod-one.ko.xz) < entry([kernel.kallsyms])
[1 1000] f_three([three]) < entry([kernel.kallsyms])
[1 1000] f_two([two]) < entry([kernel.kallsyms])
[2 2000] f_three([three])
[3 3000] 0xffffffffc0001020
[6 6000] 0xffffffffc0001010 < entry([kernel.kallsyms])
`
	if d := cmp.Diff(want, print(p)); d != "" {
		t.Error(d)
	}
}
