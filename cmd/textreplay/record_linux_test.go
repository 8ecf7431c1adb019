// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline/replay"
)

// programName is the name of the BPF programs of these tests. Other tests, and other runs of these,
// may load programs at the same time.
var programName = fmt.Sprintf("textreplay%05d", os.Getpid()%100_000)

// aProgram loads a BPF program, and returns the clock before it had its symbol and after.
func aProgram(t *testing.T) (p *ebpf.Program, before, after uint64) {
	t.Helper()
	before = monotonic()
	return newProgram(t, programName), before, monotonic()
}

func newProgram(t *testing.T, name string) *ebpf.Program {
	t.Helper()
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: name, Type: ebpf.SocketFilter, License: "MIT",
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 7), asm.Return()}})
	if errors.Is(err, unix.EPERM) {
		t.Skipf("this machine allows no BPF programs: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func monotonic() uint64 {
	var t unix.Timespec
	unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return uint64(t.Nano())
}

// A recording is "textreplay record" or "perf record" in a process of its own.
type recording struct {
	*exec.Cmd
	stderr bytes.Buffer
}

// startRecording starts a recorder, and waits until it records into dir.
func startRecording(t *testing.T, dir string, command ...string) *recording {
	t.Helper()
	r := &recording{Cmd: exec.Command(command[0], command[1:]...)}
	r.Stderr = &r.stderr
	if err := r.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { r.Process.Kill(); r.Wait() })
	data := filepath.Join(dir, "data")
	if command[0] == "perf" {
		data = dir
	}
	for range 200 {
		if info, err := os.Stat(data); err == nil && info.Size() > 4096 {
			return r
		}
		time.Sleep(50 * time.Millisecond)
	}
	r.Process.Kill()
	r.Wait()
	t.Skipf("%s does not record on this machine: %s", command[0], r.stderr.String())
	return nil
}

// stop ends the recorder as SIGTERM does.
func (r *recording) stop(t *testing.T) {
	t.Helper()
	if err := r.Process.Signal(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := r.Wait(); err != nil && filepath.Base(r.Path) != "perf" {
		t.Fatalf("%v\n%s", err, r.stderr.String())
	}
}

// usage returns the CPU time that the process has taken, in all its threads, and its
// resident memory in bytes, now and at its peak.
func (r *recording) usage(t *testing.T) (cpu time.Duration, resident, peak int) {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/", r.Process.Pid)
	threads, err := filepath.Glob(dir + "task/*/schedstat")
	if err != nil || len(threads) == 0 {
		t.Fatalf("%d threads, %v", len(threads), err)
	}
	for _, path := range threads {
		stat, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		ns, _, _ := strings.Cut(string(stat), " ") // on a CPU; the times in stat are counted in ticks
		n, err := strconv.Atoi(ns)
		if err != nil {
			t.Fatal(err)
		}
		cpu += time.Duration(n)
	}
	status, err := os.ReadFile(dir + "status")
	if err != nil {
		t.Fatal(err)
	}
	number := func(name string) int {
		_, rest, _ := strings.Cut(string(status), name+":")
		kb, err := strconv.Atoi(strings.Fields(rest)[0])
		if err != nil {
			t.Fatal(err)
		}
		return kb << 10
	}
	return cpu, number("VmRSS"), number("VmHWM")
}

// births returns the symbols of the test's programs that a recording has.
func births(t *testing.T, path string) (n int, lost uint64) {
	t.Helper()
	rec, err := perfdata.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	sc := rec.Scan(perfdata.Only(perfdata.RecordKSymbol, perfdata.RecordLost))
	for sc.Next() {
		var k perfdata.KSymbol
		var l perfdata.Lost
		switch {
		case sc.Record().Type == perfdata.RecordLost:
			if err := rec.Lost(sc.Record(), &l); err != nil {
				t.Error(err)
			}
			lost += l.Lost
		case rec.KSymbol(sc.Record(), &k) != nil:
			t.Error("a KSYMBOL record cannot be read")
		case k.Flags&perfdata.KSymbolUnregister == 0 && bytes.HasSuffix(k.Name, []byte("_"+programName)):
			n++
		}
	}
	return n, lost
}

// TestRecordLoad loads 10,000 BPF programs as fast as it can: no record is lost. Then it
// makes 100 records each second: textreplay takes little time and memory. perf record takes
// the same load at the same time.
//
// The binary in $TEXTREPLAY is measured, if that is set: the test's own has more in it.
func TestRecordLoad(t *testing.T) {
	programs, slow := 10_000, 10*time.Second
	if testing.Short() {
		programs, slow = 1000, 2*time.Second
	}
	binary := os.Getenv("TEXTREPLAY")
	if binary == "" {
		binary = "textreplay"
	}
	dir := t.TempDir()
	ours, theirs := filepath.Join(dir, "ours"), filepath.Join(dir, "theirs")
	r := startRecording(t, ours, binary, "record", "-o", ours, "-m", "1024")
	var perf *recording
	if _, err := exec.LookPath("perf"); err == nil {
		t.Run("perf", func(t *testing.T) {
			perf = &recording{Cmd: exec.Command("perf", "record", "-q", "-k", "CLOCK_MONOTONIC", "-a", "-e", "dummy", "-m", "4M", "-o", theirs)}
			if err := perf.Start(); err != nil {
				t.Skip(err)
			}
		})
		time.Sleep(2 * time.Second)
	}
	for range programs {
		p, _, _ := aProgram(t)
		p.Close()
	}
	time.Sleep(time.Second)
	fast, fastMemory, _ := r.usage(t)
	pause := 40 * time.Millisecond // four records for each program
	n := int(slow / pause)
	perfCPU, perfMemory := time.Duration(0), 0
	if perf != nil {
		perfCPU, _, _ = perf.usage(t)
	}
	began := time.Now()
	for range n {
		p, _, _ := aProgram(t)
		p.Close()
		time.Sleep(pause)
	}
	took := time.Since(began)
	cpu, memory, peak := r.usage(t)
	share := float64(cpu-fast) / float64(took) * 100
	t.Logf("textreplay record: %d programs: %v of CPU time, %d MiB; then %.0f records each second: %.2f %% of a core, %d MiB, %d MiB at the peak",
		programs, fast, fastMemory>>20, 4*float64(n)/took.Seconds(), share, memory>>20, peak>>20)
	if perf != nil {
		before := perfCPU
		perfCPU, perfMemory, _ = perf.usage(t)
		t.Logf("perf record: %v of CPU time before; then %.2f %% of a core, %d MiB", before, float64(perfCPU-before)/float64(took)*100, perfMemory>>20)
		perf.stop(t)
		n, lost := births(t, theirs)
		t.Logf("perf record: %d symbols, %d records lost", n, lost)
	}
	r.stop(t)
	t.Log(strings.TrimSpace(r.stderr.String()))
	if got, lost := births(t, ours); got != programs+n || lost != 0 {
		t.Errorf("%d of %d programs have a symbol, %d records lost", got, programs+n, lost)
	}
	// Limits for a busy machine, and for the test's binary.
	if share > 10 || memory > 100<<20 {
		t.Errorf("%.2f %% of a core, %d MiB", share, memory>>20)
	}
	if os.Getenv("TEXTREPLAY") != "" && !testing.Short() && (memory >= 20_000_000 || peak > 20<<20) {
		t.Errorf("%d bytes are resident, %d at the peak; want less than 20 MB", memory, peak)
	}
}

// TestRecordKilled kills the recorder at many moments. What it leaves has every program
// that was loaded before its horizon. Until then the commands read the growing directory.
func TestRecordKilled(t *testing.T) {
	moments := 12
	if testing.Short() {
		moments = 3
	}
	if n, err := strconv.Atoi(os.Getenv("TEXTREPLAY_MOMENTS")); err == nil {
		moments = n
	}
	random := rand.New(rand.NewPCG(18, 0))
	answered := 0
	for i := range moments {
		dir := filepath.Join(t.TempDir(), "rec")
		var r *recording
		if i%3 == 0 { // at any moment, while it starts too
			r = &recording{Cmd: exec.Command("textreplay", "record", "-o", dir)}
			if err := r.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { r.Process.Kill(); r.Wait() })
		} else {
			r = startRecording(t, dir, "textreplay", "record", "-o", dir)
		}
		type loaded struct{ before, after uint64 }
		var all []loaded
		for until := time.Now().Add(time.Duration(random.IntN(1500)) * time.Millisecond); time.Now().Before(until); {
			p, before, after := aProgram(t)
			p.Close()
			all = append(all, loaded{before, after})
			if len(all)%100 == 50 && i%3 != 0 {
				for _, args := range [][]string{{"info"}, {"log", "--kind", "ksymbol"}} {
					c := exec.Command("textreplay", append(args, "-i", dir)...)
					// 1 is that nothing is known yet.
					if out, err := c.CombinedOutput(); err != nil && c.ProcessState.ExitCode() != 1 {
						t.Errorf("%s of a directory that grows: %v\n%s", args[0], err, out)
					}
				}
			}
			time.Sleep(time.Millisecond)
		}
		if err := r.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		r.Wait()
		x, err := replay.Load(dir, replay.Options{})
		if err != nil {
			if i%3 != 0 {
				t.Errorf("moment %d: %v", i, err)
			}
			continue // it was killed before it recorded
		}
		first, horizon := x.Report.Trusted.From, x.Report.Trusted.To
		var births []uint64
		for c := range x.Changes() {
			if c.KSymbol != nil && c.KSymbol.Flags&perfdata.KSymbolUnregister == 0 && bytes.HasSuffix(c.KSymbol.Name, []byte("_"+programName)) {
				births = append(births, c.Time)
			}
		}
		missing := 0
		for _, l := range all {
			if l.before < first || l.after > horizon {
				continue
			}
			found := 0
			for _, b := range births {
				if l.before <= b && b <= l.after {
					found++
				}
			}
			if found != 1 {
				missing++
			}
			answered++
		}
		if missing > 0 {
			t.Errorf("moment %d: %d of the programs loaded from %d to %d have no symbol", i, missing, first, horizon)
		}
		x.Close()
		if i%6 == 1 {
			perfReadsTrimmed(t, dir, slices.ContainsFunc(births, func(b uint64) bool { return b <= horizon }))
		}
	}
	if answered == 0 {
		t.Error("no program was loaded before the horizon of any recording")
	}
	t.Logf("%d programs before the horizons", answered)
}

// perfReadsTrimmed checks that trim makes a recording that perf reads from one that was killed. some is
// whether it has programs: none was loaded in time if the machine is busy.
func perfReadsTrimmed(t *testing.T, dir string, some bool) {
	t.Helper()
	whole := filepath.Join(t.TempDir(), "whole")
	if out, err := exec.Command("textreplay", "trim", "--samples", "-i", dir, "-o", whole).CombinedOutput(); err != nil {
		t.Errorf("trim: %v\n%s", err, out)
		return
	}
	perf, err := exec.LookPath("perf")
	if err != nil {
		return
	}
	if out, err := exec.Command(perf, "report", "-i", whole, "--stats").CombinedOutput(); err != nil || some && !bytes.Contains(out, []byte("KSYMBOL events:")) {
		t.Errorf("perf report: %v\n%s", err, out)
	}
	out, err := exec.Command(perf, "script", "-i", whole, "--show-bpf-events").Output()
	n := 0
	for line := range bytes.Lines(out) {
		if bytes.Contains(line, []byte(" flags 0x0 ")) && bytes.HasSuffix(bytes.TrimSpace(line), []byte("_"+programName)) {
			n++
		}
	}
	if births, _ := births(t, whole); err != nil || n != births {
		t.Errorf("perf script shows %d of %d programs, %v", n, births, err)
	}
}

// TestRecordGrows: at answers from a directory that grows, and the pages of web follow it.
func TestRecordGrows(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rec")
	startRecording(t, dir, "textreplay", "record", "-o", dir)
	p, _, _ := aProgram(t)
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		t.Fatal(err)
	}
	code, ok := info.JitedInsns()
	if !ok || len(code) == 0 {
		t.Skip("this kernel compiles no BPF programs, or does not show their code")
	}
	question := []string{"textreplay", "at", "-i", dir, "bpf_prog_" + info.Tag + "_" + programName, "end", "--format", "raw", "-n", strconv.Itoa(len(code))}
	var got []byte
	var answer error
	eventually(t, func() bool {
		got, answer = exec.Command(question[0], question[1:]...).Output()
		return answer == nil
	}, "at answers", func() any { return answer })
	if !bytes.Equal(got, code) {
		t.Errorf("at: % x, the kernel shows % x", got, code)
	}

	out, err := exec.Command("textreplay", "info", "-i", dir).Output()
	_, advice, ok := bytes.Cut(out, []byte("\nNext time\n"))
	if err != nil && len(out) == 0 || !ok || !bytes.HasPrefix(advice, []byte("  sudo textreplay record -o "+dir+"\n")) ||
		!bytes.Contains(advice, []byte("the recorder did not end")) || bytes.Contains(advice, []byte("perf record")) {
		t.Errorf("info: %v, advice:\n%s", err, advice)
	}

	page := served(t, dir)
	total := func() (n int) {
		resp, err := http.Get(page + "/log")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		m := regexp.MustCompile(`data-total="([0-9]+)"`).FindSubmatch(body)
		if err != nil || resp.StatusCode != http.StatusOK || m == nil {
			t.Fatalf("the log's page: %s, %v\n%s", resp.Status, err, body)
		}
		n, err = strconv.Atoi(string(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := total()
	const programs = 50
	for range programs {
		p, _, _ := aProgram(t)
		p.Close()
	}
	after := 0
	eventually(t, func() bool { after = total(); return after >= before+2*programs }, "the page has the new changes", func() any { return after })
}

// TestRecordPieces: each piece answers alone, also the last one, which SIGTERM ends.
func TestRecordPieces(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rec")
	p := newProgram(t, "stays") // those that come and go meanwhile have another name
	defer p.Close()
	info, err := p.Info()
	if err != nil {
		t.Fatal(err)
	}
	code, ok := info.JitedInsns()
	if !ok || len(code) == 0 {
		t.Skip("this kernel compiles no BPF programs, or does not show their code")
	}
	id, _ := info.ID()
	first := filepath.Join(dir, "000001")
	r := &recording{Cmd: exec.Command("textreplay", "record", "-o", dir, "--max-size", "1M", "-m", "1024")}
	r.Stderr = &r.stderr
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Process.Kill(); r.Wait() })
	for i := 0; ; i++ {
		if info, err := os.Stat(filepath.Join(first, "data")); err == nil && info.Size() > 4096 {
			break
		}
		if time.Sleep(50 * time.Millisecond); i > 200 {
			r.Process.Kill()
			r.Wait()
			t.Skipf("this machine allows no recording: %s", r.stderr.String())
		}
	}
	last := uint64(0)
	for i := 0; i < 20_000; i++ {
		p, _, after := aProgram(t)
		p.Close()
		last = after
		if _, err := os.Stat(filepath.Join(dir, "000003")); err == nil && i%100 == 99 {
			break
		}
	}
	r.stop(t)
	pieces, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(pieces) < 3 {
		t.Fatalf("%d pieces, %v\n%s", len(pieces), err, r.stderr.String())
	}
	for _, piece := range pieces {
		// Elsewhere, without the others.
		alone := filepath.Join(t.TempDir(), "alone")
		if err := os.CopyFS(alone, os.DirFS(piece)); err != nil {
			t.Fatal(err)
		}
		got, err := exec.Command("textreplay", "at", "-i", alone, "bpf_prog_"+info.Tag+"_"+info.Name, "end", "--format", "raw", "-n", strconv.Itoa(len(code))).Output()
		if err != nil || !bytes.Equal(got, code) {
			t.Errorf("%s: program %d: % x, %v; the kernel shows % x", piece, id, got, err, code)
		}
		x, err := replay.Load(alone, replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := x.Recording.CleanEnd(); err != nil || piece == pieces[len(pieces)-1] && x.Report.Trusted.To < last {
			t.Errorf("%s: %v, horizon %d, the last program was loaded at %d", piece, err, x.Report.Trusted.To, last)
		}
		x.Close()
		if perf, err := exec.LookPath("perf"); err == nil {
			if out, err := exec.Command(perf, "report", "-i", alone, "--stats").CombinedOutput(); err != nil {
				t.Errorf("%s: perf: %v\n%s", piece, err, out)
			}
		}
	}
}

// TestRecordSwitched sends signals to a recorder while it ends a piece and begins the next one. Those that
// end it let it finish the last piece, and those for users, or that are ignored, do nothing. If it is killed, each piece has every
// program that was loaded before its horizon all the same.
func TestRecordSwitched(t *testing.T) {
	moments := 6
	if testing.Short() {
		moments = 2
	}
	if n, err := strconv.Atoi(os.Getenv("TEXTREPLAY_MOMENTS")); err == nil {
		moments = n
	}
	kinds := []unix.Signal{unix.SIGTERM, unix.SIGKILL, unix.SIGHUP, unix.SIGUSR1, unix.SIGINT, unix.SIGUSR2}
	random := rand.New(rand.NewPCG(19, 0))
	answered := 0
	for i := range moments {
		kind := kinds[i%len(kinds)]
		ends := kind != unix.SIGKILL
		dir := filepath.Join(t.TempDir(), "rec")
		r := &recording{Cmd: exec.Command("textreplay", "record", "-o", dir, "--max-size", "1M", "-m", "1024")}
		r.Stderr = &r.stderr
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Process.Kill(); r.Wait() })
		type loaded struct{ before, after uint64 }
		var all []loaded
		next := filepath.Join(dir, fmt.Sprintf("%06d", 2+i%2))
		switched := false
		for end := time.Now().Add(time.Minute); !switched && time.Now().Before(end); {
			p, before, after := aProgram(t)
			p.Close()
			all = append(all, loaded{before, after})
			_, err := os.Stat(next)
			switched = err == nil
		}
		if !switched {
			r.Process.Kill()
			r.Wait()
			t.Skipf("%d programs, and no piece was ended: %s", len(all), r.stderr.String())
		}
		for until := time.Now().Add(time.Duration(random.IntN(20_000)) * time.Microsecond); time.Now().Before(until); {
			p, before, after := aProgram(t)
			p.Close()
			all = append(all, loaded{before, after})
		}
		if err := r.Process.Signal(kind); err != nil {
			t.Fatal(err)
		}
		// The test may be run by nohup, of which SIGHUP stays ignored; SIGINT does not.
		if kind == unix.SIGUSR1 || kind == unix.SIGUSR2 || kind == unix.SIGHUP && signal.Ignored(kind) {
			for range 100 {
				p, before, after := aProgram(t)
				p.Close()
				all = append(all, loaded{before, after})
			}
			if err := r.Process.Signal(unix.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
		if err := r.Wait(); ends != (err == nil) {
			t.Errorf("moment %d: ended by %v: %v\n%s", i, kind, err, r.stderr.String())
		}
		pieces, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(pieces) < 2 {
			t.Fatalf("moment %d: %d pieces, %v\n%s", i, len(pieces), err, r.stderr.String())
		}
		for k, piece := range pieces {
			last := k == len(pieces)-1
			x, err := replay.Load(piece, replay.Options{})
			if err != nil {
				if !last || ends {
					t.Errorf("moment %d, %v: %s: %v", i, kind, piece, err)
				}
				continue // it was killed before it recorded
			}
			if err := x.Recording.CleanEnd(); err != nil && (ends || k < len(pieces)-2) {
				t.Errorf("moment %d, %v: %s: %v", i, kind, piece, err)
			}
			if x.Report.Damaged {
				t.Errorf("moment %d, %v: %s is damaged: %v", i, kind, piece, x.Report.Warnings)
			}
			first, horizon := x.Report.Trusted.From, x.Report.Trusted.To
			if ends && last && horizon < all[len(all)-1].after {
				t.Errorf("moment %d, %v: %s is known until %d, a program was loaded at %d", i, kind, piece, horizon, all[len(all)-1].after)
			}
			var births []uint64
			for c := range x.Changes() {
				if c.KSymbol != nil && c.KSymbol.Flags&perfdata.KSymbolUnregister == 0 && bytes.HasSuffix(c.KSymbol.Name, []byte("_"+programName)) {
					births = append(births, c.Time)
				}
			}
			slices.Sort(births)
			missing := 0
			for _, l := range all {
				if l.before < first || l.after > horizon {
					continue
				}
				lo, _ := slices.BinarySearch(births, l.before)
				hi, _ := slices.BinarySearch(births, l.after+1)
				if hi-lo != 1 {
					missing++
				}
				answered++
			}
			if missing > 0 && len(x.Report.Losses) == 0 {
				t.Errorf("moment %d, %v: %s: %d of the programs loaded from %d to %d have no symbol", i, kind, piece, missing, first, horizon)
			}
			x.Close()
		}
	}
	if answered == 0 {
		t.Error("no program was loaded before the horizon of any piece")
	}
	t.Logf("%d programs before the horizons", answered)
}

// eventually waits until done returns true, for a minute at most.
func eventually(t *testing.T, done func() bool, what string, state func() any) {
	t.Helper()
	for until := time.Now().Add(time.Minute); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("not after a minute: %s (%v)", what, state())
		}
	}
}

// TestRecordFollow: --follow prints each change as log does, in time order, also those of
// later pieces.
func TestRecordFollow(t *testing.T) {
	for _, pieces := range []bool{false, true} {
		dir := filepath.Join(t.TempDir(), "rec")
		args := []string{"textreplay", "record", "-o", dir, "--follow", "-m", "1024"} // other tests load programs too
		wait := dir
		if pieces {
			args = append(args, "--max-size", "1M")
			wait = filepath.Join(dir, "000001")
		}
		r := &recording{Cmd: exec.Command(args[0], args[1:]...)}
		var stdout bytes.Buffer
		r.Stdout, r.Stderr = &stdout, &r.stderr
		if err := r.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { r.Process.Kill() })
		for i := 0; ; i++ {
			if info, err := os.Stat(filepath.Join(wait, "data")); err == nil && info.Size() > 4096 {
				break
			}
			if time.Sleep(50 * time.Millisecond); i > 200 {
				r.Process.Kill()
				r.Wait()
				t.Skipf("this machine allows no recording: %s", r.stderr.String())
			}
		}
		time.Sleep(time.Second)
		n := 20
		if pieces {
			n = 4000
		}
		for range n {
			p, _, _ := aProgram(t)
			p.Close()
		}
		time.Sleep(2 * time.Second)
		r.stop(t)
		lines := strings.Split(stdout.String(), "\n")
		count, last := 0, ""
		for _, l := range lines {
			// A piece begins with the programs that are there, as before its start.
			if !strings.HasPrefix(l, "before the start") && strings.Contains(l, "symbol registered") && strings.Contains(l, "_"+programName+">: ") {
				count++
			}
			if at, _, ok := strings.Cut(l, " "); ok {
				if at < last && len(at) == len(last) {
					t.Errorf("%q is printed after %s", l, last)
				}
				last = at
			}
		}
		if count != n {
			t.Errorf("pieces %v: %d of %d programs are printed\n%s", pieces, count, n, r.stderr.String())
		}
		if pieces {
			if _, err := os.Stat(filepath.Join(dir, "000002")); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestRecordCommandFails: a command that the kernel does not run leaves no recording, and no piece.
func TestRecordCommandFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	command := filepath.Join(dir, "command")
	if err := os.WriteFile(command, []byte("#!/no/such/interpreter\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-o", filepath.Join(dir, "rec")}, {"-o", filepath.Join(dir, "pieces"), "--max-size", "1M"}} {
		c := exec.Command("textreplay", append(append([]string{"record"}, args...), "--", command)...)
		out, err := c.CombinedOutput()
		if bytes.Contains(out, []byte("perf_event_open")) {
			t.Skipf("this machine allows no recording: %s", out)
		}
		if code := c.ProcessState.ExitCode(); code != 2 || !bytes.Contains(out, []byte("fork/exec "+command)) {
			t.Errorf("%q: exit code %d, %v: %s", args, code, err, out)
		}
		if _, err := os.Lstat(args[1]); !os.IsNotExist(err) {
			t.Errorf("%q: the directory is there: %v", args, err)
		}
	}
}
