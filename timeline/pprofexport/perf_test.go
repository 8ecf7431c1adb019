// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package pprofexport

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A shot is a sample as a test compares it: the frames of the kernel, the
// innermost first.
type shot struct {
	time   uint64
	tid    uint32
	frames []frame
}

type frame struct {
	ip     uint64 // as recorded
	name   string // "" where not known
	perf   string // perf's name
	caller bool
}

const perfUnknown = "[unknown]"

// ourShots names every sample as the export does.
func ourShots(t *testing.T, r *replay.Replay) []shot {
	t.Helper()
	e, err := newExport(r, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var shots []shot
	var s perfdata.Sample
	err = scan(r.Recording, nil, func(rec *perfdata.Record) {
		if rec.Type != perfdata.RecordSample {
			return
		}
		if err := r.Recording.Sample(rec, &s); err != nil {
			t.Fatal(err)
		}
		stack, err := e.stackOf(rec, &s, s.Time)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for b := e.stacks.get(stack); len(b) > 0; {
			id, n := binary.Uvarint(b)
			b = b[n:]
			name := ""
			if f := e.namer.locations[id-1].function; f != 0 {
				name = e.namer.functions[f-1].name
			}
			names = append(names, name)
		}
		sh := shot{time: s.Time, tid: s.TID}
		for _, f := range kernelFrames(t, rec, &s) {
			f.name = names[len(sh.frames)]
			sh.frames = append(sh.frames, f)
		}
		shots = append(shots, sh)
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(shots, func(a, b shot) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.tid, b.tid)) })
	return shots
}

// kernelFrames returns the addresses of the kernel in a sample.
func kernelFrames(t *testing.T, rec *perfdata.Record, s *perfdata.Sample) (out []frame) {
	t.Helper()
	chain, err := s.Callchain()
	if err != nil {
		t.Fatal(err)
	}
	inKernel, caller := rec.CPUMode() == perfdata.MiscKernel, false
	for _, w := range chain.All() {
		switch {
		case w >= perfdata.CallchainContextMax:
			inKernel, caller = w == perfdata.CallchainKernel, false
		case inKernel:
			out = append(out, frame{ip: w, caller: caller})
			caller = true
		}
	}
	if chain.Len() == 0 && inKernel {
		out = append(out, frame{ip: s.IP})
	}
	return out
}

// perfShots adds perf's names, as perf script prints them.
func perfShots(t *testing.T, rec string, shots []shot) {
	t.Helper()
	cmd := exec.Command("perf", "script", "-f", "-i", rec, "--ns", "-F", "tid,time,event,ip,sym")
	out, err := cmd.Output()
	if err != nil {
		t.Skipf("skipped: this perf cannot read the recording: %v", err)
	}
	var theirs []shot
	sc := bufio.NewScanner(bytes.NewReader(out))
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		line := sc.Text()
		if line == "" {
			continue
		}
		if line[0] != '\t' {
			fields := strings.Fields(line)
			seconds, nanos, _ := strings.Cut(strings.TrimSuffix(fields[1], ":"), ".")
			tid, err1 := strconv.ParseInt(fields[0], 10, 64) // -1 of a task that is gone
			sec, err2 := strconv.ParseUint(seconds, 10, 64)
			ns, err3 := strconv.ParseUint(nanos, 10, 64)
			if err1 != nil || err2 != nil || err3 != nil {
				t.Fatalf("perf script: %q", line)
			}
			theirs = append(theirs, shot{time: sec*1e9 + ns, tid: uint32(tid)})
			if len(fields) < 5 {
				continue
			}
			line = "\t" + strings.Join(fields[3:], " ") // without a call chain, the address is here
		}
		addr, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		ip, err := strconv.ParseUint(addr, 16, 64)
		if err != nil {
			t.Fatalf("perf script: %q", line)
		}
		last := &theirs[len(theirs)-1]
		last.frames = append(last.frames, frame{ip: ip, perf: name})
	}
	slices.SortStableFunc(theirs, func(a, b shot) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.tid, b.tid)) })
	if len(theirs) != len(shots) {
		t.Fatalf("perf prints %d samples, want %d", len(theirs), len(shots))
	}
	for i := range shots {
		a, b := &shots[i], &theirs[i]
		if a.time != b.time || a.tid != b.tid || len(b.frames) < len(a.frames) {
			t.Fatalf("sample %d: %+v, perf prints %+v", i, a, b)
		}
		for j := range a.frames {
			if a.frames[j].ip != b.frames[j].ip {
				t.Fatalf("sample %d at %d: frame %d is %#x, perf prints %#x", i, a.time, j, a.frames[j].ip, b.frames[j].ip)
			}
			a.frames[j].perf = b.frames[j].perf
		}
	}
}

// A witness is a copy of /proc/kallsyms that was made at some moment while perf
// recorded, by another program.
type witness struct {
	time  uint64
	k     *kcore.Kallsyms
	names map[uint64][]string // of addresses that were asked about
}

func witnesses(t *testing.T, dir string) (out []witness) {
	t.Helper()
	oracles, err := corpus.Oracles(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range oracles {
		text, err := os.ReadFile(strings.TrimSuffix(o.Path, ".elf") + ".kallsyms")
		if err != nil {
			t.Fatal(err)
		}
		k, err := kcore.ParseKallsyms(text)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, witness{o.Time(), k, make(map[uint64][]string)})
	}
	return out
}

// say reports whether witnesses have the name at addr: those next to the time t
// on either side, for one of them is nearer to it than what changed.
func say(ws []witness, addr, t uint64, name string) bool {
	i, _ := slices.BinarySearchFunc(ws, t, func(w witness, t uint64) int { return cmp.Compare(w.time, t) })
	for _, w := range ws[max(i-1, 0):min(i+1, len(ws))] {
		if slices.Contains(w.at(addr), name) {
			return true
		}
	}
	return false
}

// at returns all names of what covers addr.
func (w *witness) at(addr uint64) []string {
	names, ok := w.names[addr]
	if sym, _, found := w.k.Find(addr); !ok && found {
		for _, s := range w.k.All() {
			if s.Addr == sym.Addr {
				names = append(names, s.Name)
			}
		}
	}
	w.names[addr] = names
	return names
}

// How a frame's name compares with perf's. Where the two differ, an independent
// witness must side with ours.
const (
	same         = "the same function"
	neitherKnows = "no name in either"
	onlyOurs     = "perf has no name"
	perfWrong    = "perf names what did not stand there"
	unproven     = "unproven"
)

func compareNames(r *replay.Replay, ws []witness, f frame, t uint64) string {
	view := r.Image.At(t)
	switch {
	case f.perf == perfUnknown && f.name == "":
		return neitherKnows
	case f.perf == f.name:
		return same
	}
	addr := f.ip
	if s, ok := view.Symbol(addr); f.caller && !(ok && s.Addr == addr && interrupted(view, addr)) {
		addr--
	}
	if s, ok := view.Symbol(addr); ok && s.Name == f.name && slices.Contains(view.Aliases(s), f.perf) {
		return same // by another name
	}
	if !say(ws, addr, t, f.name) {
		return unproven
	}
	if f.perf == perfUnknown {
		return onlyOurs
	}
	if say(ws, addr, t, f.perf) {
		return unproven
	}
	return perfWrong
}

// interrupted reports whether there is no call before addr, so that nothing can
// return to it.
func interrupted(view timeline.View, addr uint64) bool {
	var b [5]byte
	return view.Read(addr-5, b[:]).Given == 5 && b[0] != 0xe8
}

// TestPerf compares the names of all frames of the kernel in all samples with
// perf's, and what pprof shows with what perf report prints: the samples of each
// symbol, its own and those of what it calls.
func TestPerf(t *testing.T) {
	version, err := exec.Command("perf", "version").Output()
	if err != nil {
		t.Skip("skipped: there is no perf")
	}
	for _, tt := range []struct {
		name   string
		chains bool           // of one event, with call chains
		want   map[string]int // frames by how they compare
	}{
		{"x86_64/rich", true, map[string]int{same: 70912, neitherKnows: 3, onlyOurs: 5987, perfWrong: 43}},
		{"x86_64/task", true, map[string]int{same: 19315}},
		{"x86_64/lossy", true, map[string]int{same: 70909, onlyOurs: 2494, perfWrong: 464}},
		{"x86_64/threads", true, map[string]int{same: 25641, neitherKnows: 2, onlyOurs: 2338}},
		{"x86_64/local", false, map[string]int{same: 27546, onlyOurs: 2369, perfWrong: 31}},
		{"x86_64/hotplug", false, map[string]int{same: 1099, perfWrong: 3}},
		{"x86_64/uponline", false, map[string]int{same: 171}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := corpus.Large(t, tt.name)
			rec := filepath.Join(dir, "rec.data")
			r, err := replay.Load(rec, replay.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			shots := ourShots(t, r)
			perfShots(t, rec, shots)
			ws := witnesses(t, dir)

			got := make(map[string]int)
			for _, sh := range shots {
				for _, f := range sh.frames {
					how := compareNames(r, ws, f, sh.time)
					if how == unproven {
						t.Errorf("at %s, %#x is %q here and %q in perf", replay.Seconds(sh.time), f.ip, f.name, f.perf)
					}
					got[how]++
				}
			}
			// Other versions may know more, or less.
			if d := gocmp.Diff(tt.want, got); d != "" && strings.HasPrefix(string(version), "perf version 6.1.") {
				t.Errorf("frames (-want +got):\n%s", d)
			}
			p, _ := exported(t, r, Options{})
			compareTotals(t, p, shots, func(f frame) string { return f.name })
			// Percentages are of the samples of one event.
			compareReport(t, rec, shots, tt.chains)
		})
	}
}

// totals counts samples by symbol: its own, and those that it is anywhere in.
func totals(shots []shot, name func(frame) string) (self, children map[string]int) {
	self, children = make(map[string]int), make(map[string]int)
	for _, sh := range shots {
		seen := make(map[string]bool)
		for i, f := range sh.frames {
			n := name(f)
			if i == 0 {
				self[n]++
			}
			if !seen[n] {
				seen[n] = true
				children[n]++
			}
		}
	}
	delete(self, "")
	delete(children, "")
	delete(self, perfUnknown)
	delete(children, perfUnknown)
	return self, children
}

// compareTotals compares the totals of a profile with those of its samples.
func compareTotals(t *testing.T, p *profile.Profile, shots []shot, name func(frame) string) {
	t.Helper()
	self, children := make(map[string]int), make(map[string]int)
	for _, s := range p.Sample {
		count := 0
		for i := 0; i < len(s.Value); i += 2 {
			count += int(s.Value[i])
		}
		seen := make(map[string]bool)
		for i, l := range s.Location {
			if len(l.Line) == 0 {
				continue
			}
			n := l.Line[0].Function.Name
			if i == 0 {
				self[n] += count
			}
			if !seen[n] {
				seen[n] = true
				children[n] += count
			}
		}
	}
	wantSelf, wantChildren := totals(shots, name)
	if d := gocmp.Diff(wantSelf, self); d != "" {
		t.Errorf("own samples (-want +got):\n%s", d)
	}
	if d := gocmp.Diff(wantChildren, children); d != "" {
		t.Errorf("samples with children (-want +got):\n%s", d)
	}
}

// compareReport compares samples by symbol, named as perf does, with what perf
// report prints; where chains says so, those with children too.
func compareReport(t *testing.T, rec string, shots []shot, chains bool) {
	t.Helper()
	self, children := totals(shots, func(f frame) string { return f.perf })

	theirs := make(map[string]int)
	for _, row := range report(t, rec, "--no-children", "-F", "sample,sym") {
		n, err := strconv.Atoi(row[0])
		if err != nil {
			t.Fatalf("perf report: %q", row)
		}
		theirs[row[1]] += n
	}
	if d := gocmp.Diff(self, theirs); d != "" {
		t.Errorf("own samples (-here +perf report):\n%s", d)
	}

	if !chains {
		return
	}
	// With children perf report prints percentages alone, of the periods, which
	// are nearly equal in these recordings; functions of one name are rows of
	// their own there.
	rows := make(map[string][]float64)
	for _, row := range report(t, rec, "--children", "-F", "overhead_children,sym") {
		percent, err := strconv.ParseFloat(strings.TrimSuffix(row[0], "%"), 64)
		if err != nil {
			t.Fatalf("perf report: %q", row)
		}
		rows[row[1]] = append(rows[row[1]], percent)
	}
	compared := 0
	for name, n := range children {
		if len(rows[name]) != 1 {
			continue
		}
		compared++
		want := 100 * float64(n) / float64(len(shots))
		if math.Abs(rows[name][0]-want) > 0.02+want/1000 {
			t.Errorf("%s with children: %.2f%% of the samples here, %.2f%% in perf report", name, want, rows[name][0])
		}
	}
	if compared < len(children)*9/10 {
		t.Errorf("perf report --children has a row for %d symbols of %d", compared, len(children))
	}
}

// report returns the rows of perf report for named symbols of the kernel.
func report(t *testing.T, rec string, args ...string) (rows [][2]string) {
	t.Helper()
	cmd := exec.Command("perf", append([]string{"report", "-f", "-i", rec, "--stdio", "-g", "none", "-t", "|", "--percent-limit", "0"}, args...)...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", cmd, err)
	}
	for line := range strings.Lines(string(out)) {
		value, symbol, ok := strings.Cut(strings.TrimSpace(line), "|")
		name, kernel := strings.CutPrefix(symbol, "[k] ")
		if ok && kernel && !strings.HasPrefix(name, "0x") && !strings.HasPrefix(line, "#") {
			name, _, _ = strings.Cut(name, "+0x") // where an address lies behind the symbol's end
			rows = append(rows, [2]string{strings.TrimSpace(value), strings.TrimSpace(name)})
		}
	}
	return rows
}
