// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package recorder

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/recorder/journal"
)

// run records into dir while f runs.
func run(t *testing.T, opts Options, f func()) Stats {
	t.Helper()
	r := started(t, opts)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		f()
		cancel()
		close(done)
	}()
	if err := r.Run(ctx); err != nil {
		t.Error(err)
	}
	<-done
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	return r.Stats()
}

// programName is the name of the programs of this process: the tests may run several times at once.
var programName = fmt.Sprintf("replay_%x", os.Getpid())

// loadProgram loads a BPF program of some instructions.
func loadProgram(t *testing.T, n int) *ebpf.Program {
	t.Helper()
	spec := &ebpf.ProgramSpec{Name: programName, Type: ebpf.SocketFilter, License: "MIT"}
	for i := range n {
		spec.Instructions = append(spec.Instructions, asm.Mov.Imm(asm.R0, int32(i)))
	}
	spec.Instructions = append(spec.Instructions, asm.Return())
	p, err := ebpf.NewProgram(spec)
	if errors.Is(err, unix.EPERM) {
		t.Skipf("this machine allows no BPF programs: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestPrograms: programs that live for some milliseconds are recorded with their code, as
// the kernel shows it.
func TestPrograms(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rec")
	before := loadProgram(t, 3)
	defer before.Close()
	want := make(map[uint32][]byte)
	code := func(p *ebpf.Program) {
		info, err := p.Info()
		if err != nil {
			t.Fatal(err)
		}
		id, _ := info.ID()
		insns, ok := info.JitedInsns()
		if !ok {
			t.Skip("this kernel compiles no BPF programs")
		}
		want[uint32(id)] = insns
	}
	code(before)
	const programs = 200
	stats := run(t, Options{Dir: dir}, func() {
		var alive []*ebpf.Program // each lives for some 50 ms
		for i := range programs {
			p := loadProgram(t, 4+i%50)
			code(p)
			time.Sleep(5 * time.Millisecond)
			if alive = append(alive, p); len(alive) > 10 {
				alive[0].Close()
				alive = alive[1:]
			}
		}
		for _, p := range alive {
			p.Close()
		}
	})
	if stats.Lost != 0 || stats.Programs <= programs {
		t.Errorf("%+v", stats)
	}
	rec, err := perfdata.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	if err := rec.CleanEnd(); err != nil {
		t.Error(err)
	}
	for p, err := range rec.BPFProgs() {
		if err != nil {
			t.Error(err)
			continue
		}
		if code, ok := want[p.ID]; ok {
			if !bytes.Equal(p.Insns, code) {
				t.Errorf("program %d: code % x, want % x", p.ID, p.Insns, code)
			}
			delete(want, p.ID)
		}
	}
	// A busy machine may let the recorder wait for longer than a program lives.
	if len(want) > programs/4 {
		t.Errorf("the code of %d of %d programs is not recorded", len(want), programs+1)
	}
	births := 0
	sc := rec.Scan(perfdata.Only(perfdata.RecordKSymbol))
	var k perfdata.KSymbol
	for sc.Next() {
		if err := rec.KSymbol(sc.Record(), &k); err != nil {
			t.Error(err)
		}
		if k.Flags&perfdata.KSymbolUnregister == 0 && bytes.HasSuffix(k.Name, []byte(programName)) {
			births++
		}
	}
	if births != programs+1 {
		t.Errorf("%d programs were born, want %d", births, programs+1)
	}
	f, err := os.Open(filepath.Join(dir, journal.Name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	entries, err := journal.Read(f)
	if err != nil || len(entries) < 3 || entries[0].Start == nil || entries[len(entries)-1].End == nil {
		t.Errorf("journal: %d entries, %v", len(entries), err)
	}
}

// TestPieces: a long recording is cut into pieces that can be read alone, of which only
// the newest are kept.
func TestPieces(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rec")
	stays := loadProgram(t, 3) // is in each piece
	defer stays.Close()
	// Programs come much faster than on any machine that does something else: large ring
	// buffers, of which a slow recorder may still lose some. A recorder that seldom gets a CPU
	// reads all that is there at once, into one piece: programs come until there are enough.
	stats := run(t, Options{Dir: dir, MaxSize: LeastSize, MaxPieces: 2, Pages: 2048}, func() {
		for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); {
			for range 1000 {
				loadProgram(t, 2).Close()
			}
			pieces, _ := os.ReadDir(dir) // by name; the oldest are removed
			if n := len(pieces); n > 0 && pieces[n-1].Name() >= PieceName(3) {
				return
			}
		}
	})
	if stats.Pieces < 3 {
		t.Fatalf("%+v", stats)
	}
	t.Logf("%+v", stats)
	pieces, err := os.ReadDir(dir)
	if err != nil || len(pieces) != 2 {
		t.Fatalf("%d pieces, %v", len(pieces), err)
	}
	for _, p := range pieces {
		rec, err := perfdata.Open(filepath.Join(dir, p.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := rec.CleanEnd(); err != nil {
			t.Error(err)
		}
		programs := 0
		for _, err := range rec.BPFProgs() {
			if err != nil {
				t.Error(err)
			}
			programs++
		}
		if programs == 0 {
			t.Errorf("piece %s lacks the program that was there all the time", p.Name())
		}
		rec.Close()
	}
}

// TestKilled: what a killed recorder leaves has its records, its machine and its programs.
func TestKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rec")
	r := started(t, Options{Dir: dir})
	p := loadProgram(t, 7)
	ctx, cancel := context.WithTimeout(t.Context(), 3*flushInterval)
	defer cancel()
	if err := r.Run(ctx); err != nil {
		t.Fatal(err)
	}
	p.Close()
	defer r.Close() // what is read now is what a killed recorder leaves
	rec, err := perfdata.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	if rec.CleanEnd() == nil {
		t.Error("the recording has a clean end")
	}
	available, _, err := rec.NRCPUs()
	if err != nil || available == 0 {
		t.Errorf("%d CPUs, %v", available, err)
	}
	found := false
	for p, err := range rec.BPFProgs() {
		if err != nil {
			t.Error(err)
		} else if p.Name == programName {
			found = true
		}
	}
	if !found {
		t.Error("the program is not recorded")
	}
	records := 0
	sc := rec.Scan()
	for sc.Next() {
		records++
	}
	if records == 0 {
		t.Error("no records")
	}
	if _, err := os.Stat(filepath.Join(dir, perfdata.EarlyFeatures)); err != nil {
		t.Error(err)
	}
}

// TestOptions: what is out of bounds is refused, and nothing is left behind.
func TestOptions(t *testing.T) {
	dir := t.TempDir()
	for _, opts := range []Options{
		{Dir: filepath.Join(dir, "a"), Pages: 3},
		{Dir: filepath.Join(dir, "a"), Pages: -1},
		{Dir: filepath.Join(dir, "a"), Pages: 1 << (bits.UintSize - 2)},
		{Dir: filepath.Join(dir, "a"), Pages: (math.MaxInt/os.Getpagesize() + 1) * 2},
		{Dir: filepath.Join(dir, "a"), SnapshotEvery: time.Millisecond},
		{Dir: filepath.Join(dir, "a"), MaxSize: 100},
		{Dir: filepath.Join(dir, "no", "where")},
	} {
		if r, err := Start(opts); err == nil {
			t.Errorf("%+v: no error", opts)
			r.Close()
		}
	}
	if names, _ := os.ReadDir(dir); len(names) > 0 {
		t.Errorf("%d files are left", len(names))
	}
}

// TestCPUNews: only CPUs that come online count.
func TestCPUNews(t *testing.T) {
	for _, tt := range []struct {
		msg string
		cpu int
		ok  bool
	}{
		{"online@/devices/system/cpu/cpu1\x00ACTION=online\x00", 1, true},
		{"add@/devices/system/cpu/cpu12\x00", 12, true},
		{"offline@/devices/system/cpu/cpu1\x00", 0, false},
		{"add@/devices/system/cpu/cpufreq\x00", 0, false},
		{"online@/devices/system/memory/memory1\x00", 0, false},
		{"", 0, false},
	} {
		if cpu, ok := cpuOf([]byte(tt.msg)); cpu != tt.cpu && tt.ok || ok != tt.ok {
			t.Errorf("%q: %d, %v", tt.msg, cpu, ok)
		}
	}
	for s, want := range map[string]int{"0": 1, "0-3": 4, "0-1,4,8-9": 5, "": -1, "3-1": -1, "x": -1, "0-99999999": -1} {
		cpus, err := parseCPUs(s)
		if (err != nil) != (want < 0) || want >= 0 && len(cpus) != want {
			t.Errorf("%q: %v, %v", s, cpus, err)
		}
	}
}

// TestHangUp: a dead event wakes the recorder once, not again and again.
func TestHangUp(t *testing.T) {
	poll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(poll)
	var pipe [2]int
	if err := unix.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pipe[0])
	r := &Recorder{poll: poll, rings: []*ring{{cpu: 3, fds: pipe[:1]}}}
	if err := r.watch(pipe[0], 3); err != nil {
		t.Fatal(err)
	}
	unix.Close(pipe[1]) // from now on the other end hangs up, as the event of an offline CPU does
	var events [4]unix.EpollEvent
	for i, want := range []int{1, 0} {
		n, err := unix.EpollWait(poll, events[:], 0)
		if err != nil || n != want {
			t.Fatalf("wait %d: %d events, %v; want %d", i, n, err, want)
		}
		r.woken(events[:n])
	}
}

// TestSteps: a CPU needs new events after a step down that is followed by a step up, but
// not for steps from before its events were opened.
func TestSteps(t *testing.T) {
	p := &tracepoint{name: hotplugPoint, format: []byte("\tfield:unsigned int cpu;\toffset:8;\tsize:4;\n" +
		"\tfield:int target;\toffset:12;\tsize:4;\n\tfield:int idx;\toffset:16;\tsize:4;\n")}
	r := &Recorder{rings: []*ring{{cpu: 1, opened: 100}}, steps: make(map[int]*cpuState), points: []tracepoint{*p}}
	step := func(at uint64, target, idx int32) {
		raw := make([]byte, 8, 24)
		for _, v := range []uint32{1, uint32(target), uint32(idx), 0} {
			raw = binary.NativeEndian.AppendUint32(raw, v)
		}
		r.step(p, raw, at)
	}
	for _, x := range []struct {
		at              uint64
		target, idx     int32
		offline, isBack bool
	}{
		{90, 0, 200, false, false},   // before its events were opened
		{110, 200, 20, false, false}, // a module that was loaded installs a step
		{120, 0, 200, true, false},
		{130, 0, 100, true, false},
		{140, 200, 10, true, true},
		{150, 0, 10, true, false}, // it did not come online
	} {
		step(x.at, x.target, x.idx)
		if s := r.steps[1]; (s != nil) != x.offline || s != nil && s.back != x.isBack {
			t.Errorf("at %d: %+v", x.at, s)
		}
	}
	if !r.followsSteps() {
		t.Error("the steps of CPUs are not followed")
	}
	if r.missed = true; r.followsSteps() {
		t.Error("steps may be lost")
	}
}

// TestRestart: a recorder that is started again goes on behind the pieces that are there,
// and removes those that are too many, but nothing that no recorder made.
func TestRestart(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	for _, name := range []string{"000001", "000002", "000003", "000004", "000007", "7", "notes"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"000002/photo", "000004/textreplay.jsonl", "000004/data"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(elsewhere, "textreplay.jsonl"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(dir, "000005")); err != nil {
		t.Fatal(err)
	}
	run(t, Options{Dir: dir, MaxSize: LeastSize, MaxPieces: 2}, func() {})
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if want := []string{"000002", "000005", "000007", "000008", "7", "notes"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v; want %q", names, err, want)
	}
}

// TestForgets: the recorder keeps nothing of programs that are gone.
func TestForgets(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rec")
	r := started(t, Options{Dir: dir})
	defer r.Close()
	before := len(r.fetched)
	for range 50 {
		p := loadProgram(t, 3)
		if err := r.round(); err != nil {
			t.Fatal(err)
		}
		p.Close()
	}
	// The kernel unloads a program a moment after it was closed.
	for range 100 {
		if err := r.round(); err != nil {
			t.Fatal(err)
		}
		if len(r.fetched) <= before+10 { // other processes load programs too
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("%d programs are kept, %d at the beginning", len(r.fetched), before)
}
