// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux && cgo

package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/textreplay/textreplay/disasm"
	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/timeline"
	"github.com/textreplay/textreplay/timeline/replay"
)

var build struct {
	sync.Once
	dir string
	err error
}

// TestMain removes what library built.
func TestMain(m *testing.M) {
	code := m.Run()
	if build.dir != "" {
		os.RemoveAll(build.dir)
	}
	os.Exit(code)
}

// library builds the shared library with the Makefile and returns its directory.
func library(t *testing.T) string {
	t.Helper()
	for _, tool := range []string{"make", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("skipped: no %s here", tool)
		}
	}
	build.Do(func() {
		if build.dir, build.err = os.MkdirTemp("", "libtextreplay"); build.err != nil {
			return
		}
		out, err := exec.Command("make", "shared", "BUILD="+build.dir).CombinedOutput()
		if err != nil {
			build.err = fmt.Errorf("make: %v\n%s", err, out)
		}
	})
	if build.err != nil {
		t.Fatal(build.err)
	}
	return build.dir
}

// compile builds a program of testdata with the library and returns its path.
func compile(t *testing.T, name string, flags ...string) string {
	t.Helper()
	lib := library(t)
	exe := filepath.Join(t.TempDir(), name)
	args := append([]string{"-std=c11", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-I.", "-o", exe, filepath.Join("testdata", name+".c")}, flags...)
	args = append(args, "-L"+lib, "-ltextreplay", "-Wl,-rpath,"+lib, "-pthread", "-ldl")
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return exe
}

func run(t *testing.T, stdin, exe string, args ...string) string {
	t.Helper()
	cmd := exec.Command(exe, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", filepath.Base(exe), err, out, errOut.Bytes())
	}
	return string(out)
}

func small(name string) string {
	return filepath.Join(corpus.Root(), "testdata", name, "rec.data")
}

// questions returns lines for ask at random places and times, many of them close to changes.
func questions(r *replay.Replay, n int) (lines []string) {
	rng := rand.New(rand.NewPCG(1, 2))
	type moment struct{ addr, time uint64 }
	var changes []moment
	for a, v := range r.Image.Fragments() {
		if v.Since > 0 {
			changes = append(changes, moment{a.Lo, v.Since})
		}
	}
	names := []string{"vfs_read", "do_sys_openat2", "no_such_symbol", "schedule", ":vfs_read", "no_such_module:vfs_read"}
	for s := range r.TableSymbols {
		if s.Module != "" {
			names = append(names, s.Module+":"+s.Name)
			break
		}
	}
	whats := []string{"read", "read", "read", "page", "versions", "changes", "pages", "windows", "alternatives", "alternatives", "resume", "symbol", "lookup", "disassemble", "spans"}
	first, horizon := r.Image.Extent()
	for len(lines) < n {
		m := moment{first + rng.Uint64N(horizon-first), first + rng.Uint64N(horizon-first)}
		if c := changes[rng.IntN(len(changes))]; rng.IntN(8) > 0 {
			m.addr = c.addr + rng.Uint64N(32) - 16
			if rng.IntN(2) == 0 {
				m.addr = c.addr
			}
			if rng.IntN(4) > 0 {
				m.time = c.time + rng.Uint64N(2000) - 1000
			}
		} else if lo, hi := r.Image.Text(); hi > lo {
			m.addr = lo + rng.Uint64N(hi-lo)
		}
		what := whats[rng.IntN(len(whats))]
		switch what {
		case "read", "page", "alternatives", "resume", "symbol", "spans":
			if rng.IntN(20) == 0 {
				m.time = timeline.MaxTime
			}
		}
		size := 1 + rng.IntN(20)
		switch {
		case what == "page":
			m.addr, size = m.addr&^4095, 4096
		case what == "read" && rng.IntN(10) == 0:
			size = rng.IntN(9000)
		case what == "versions":
			size = rng.IntN(1_000_000_000)
		case what == "spans":
			size = 1 + rng.IntN(200)
		case what == "changes":
			m.addr, size = m.addr&^4095, 1+rng.IntN(3)
		}
		line := fmt.Sprintf("%s %x %d %d", what, m.addr, m.time, size)
		if what == "lookup" {
			line += " " + names[rng.IntN(len(names))]
		}
		if what == "resume" {
			to := m.addr + rng.Uint64N(12) // the instruction, or about where it ends
			if rng.IntN(3) == 0 {
				to = changes[rng.IntN(len(changes))].addr
			}
			line += fmt.Sprintf(" %x", to)
		}
		lines = append(lines, line)
	}
	return lines
}

// blockText prints an answer as ask.c does, for a block that was read at time t.
func blockText(b timeline.Block) string {
	reason := b.Reason.String()
	if reason == "" {
		reason = "-"
	}
	free := uint64(0)
	if b.NoTrap.Since < b.NoTrap.Until {
		free = b.NoTrap.Until
	}
	return fmt.Sprintf("%v %s %d %d %d %d", b.Standing, reason, b.Given, b.Since, b.Until, free)
}

// TestAgainstGo: the library answers as the Go packages do, for recordings of several
// architectures and qualities.
func TestAgainstGo(t *testing.T) {
	exe := compile(t, "ask")
	dirs := []string{"small", "lossy", "modfull", "rich"}
	if testing.Short() {
		dirs = dirs[:1]
	}
	for _, name := range dirs {
		t.Run(name, func(t *testing.T) { againstGo(t, exe, small(name), 3000) })
	}
	t.Run("exec", func(t *testing.T) {
		againstGo(t, exe, filepath.Join(corpus.Large(t, "x86_64/exec"), "pt", "rec.data"), 3000)
	})
}

// TestCounter: the counter value of a time is the first that has it, or a later one. That of arm64
// has fewer than 64 bits: values below the one where the kernel began to convert it are of its next
// round.
func TestCounter(t *testing.T) {
	exe := compile(t, "ask")
	for _, name := range []string{"hotplug/rec.data", "etm/cut.data"} {
		r, err := replay.Load(filepath.Join(corpus.Root(), "testdata", name), replay.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		first, horizon := r.Image.Extent()
		var lines []string
		times := []uint64{first, first + 1, first + 12345, (first + horizon) / 2, horizon, horizon + 1e9}
		for _, at := range times {
			lines = append(lines, fmt.Sprintf("counter 0 %d 1", at))
		}
		for i, got := range strings.Split(strings.TrimSpace(run(t, strings.Join(lines, "\n")+"\n", exe, r.Recording.Path())), "\n") {
			var tsc, before, then uint64
			if fmt.Sscan(got, &tsc, &before, &then); before >= times[i] || then < times[i] || then-before > 100 {
				t.Errorf("%s: counter %d of the time %d is that of %d, and the one before of %d", name, tsc, times[i], then, before)
			}
		}
	}
}

func againstGo(t *testing.T, exe, path string, n int) {
	r, err := replay.Load(path, replay.Options{Windows: true})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	lines := questions(r, n)
	got := strings.Split(strings.TrimSuffix(run(t, strings.Join(lines, "\n")+"\n", exe, path), "\n"), "\n")
	if len(got) != len(lines) {
		t.Fatalf("%d answers to %d questions", len(got), len(lines))
	}
	dis, _ := disasm.New(r.Machine(), r.Recording.ByteOrder())
	cur := r.Cursor()
	wrong := 0
	seen := make(map[string]int)
	for i, line := range lines {
		var what, name string
		var addr, at uint64
		var size int
		fmt.Sscanf(line, "%s %x %d %d %s", &what, &addr, &at, &size, &name)
		v := r.Image.At(at)
		want := ""
		ok := true
		switch what {
		case "read", "page":
			buf := make([]byte, size)
			b := cur.Read(addr, at, buf)
			want = strings.TrimSpace(fmt.Sprintf("%x %s", buf, blockText(b)))
			ok = sameAnswer(strings.TrimSpace(got[i]), want, min(at, timeline.MaxTime-1))
			if b.NoTrap.Since >= b.NoTrap.Until {
				seen["in a window"]++
			}
		case "versions":
			buf := make([]byte, 8)
			for t := at; t < at+uint64(size); {
				b := cur.Read(addr, t, buf)
				want += fmt.Sprintf(" %x %s", buf, blockText(b))
				if t = b.Until; b.Until == timeline.MaxTime {
					break
				}
			}
			ok = got[i] == want
		case "changes":
			for c := range r.Image.Invalidations(addr, addr+4096, at-1, at+uint64(size)*1e9-1) {
				bytes := 0
				if c.Bytes {
					bytes = 1
				}
				want += fmt.Sprintf(" %x+%d@%d-%d/%d/%d", c.Lo, c.Hi-c.Lo, c.Since, c.Until, c.Standing, bytes)
			}
			ok = got[i] == want
		case "pages":
			pages := make(map[uint64]bool)
			for p := range strings.FieldsSeq(got[i]) {
				var a uint64
				fmt.Sscanf(p, "%x", &a)
				pages[a] = true
			}
			// None of the others changes.
			for c := range r.Image.Invalidations(addr, addr+uint64(size)<<20, at-1, at+1e9-1) {
				ok = ok && pages[c.Lo&^4095] && pages[(c.Hi-1)&^4095]
			}
			want = "the pages of all changes"
		case "windows":
			for _, w := range cur.AppendWindows(nil, addr, uint64(size), at, at+1e6-1) {
				want += fmt.Sprintf(" %x+%d:%d-%d@%d/%d", w.Addr, w.Len, w.Proven.From, w.Proven.To, w.Switch, w.Kind)
			}
			ok = got[i] == want
		case "alternatives":
			open := r.Windows().At(addr, 1, at)
			ok = (len(open) > 0) == (got[i] != "") || v.Read(addr, make([]byte, 1)).Given == 0
			want = fmt.Sprintf("those of %d windows", len(open))
			if len(open) == 1 && open[0].Addr == addr && got[i] != "" {
				b := make([]byte, size)
				given := v.Read(addr, b).Given
				if given > 0 { // else the facts contradict one another, and only the trap and the other side are left
					ok = ok && strings.Contains(strings.Fields(got[i])[0], fmt.Sprintf(":%x:", b[:min(given, 16)]))
				}
				ok = ok && strings.Contains(" "+got[i], " 3:")
				seen["alternatives"]++
			}
		case "resume":
			var to uint64
			fmt.Sscanf(name, "%x", &to)
			want = "0"
			if cur.ProbeMayResumeAt(addr, to, at) {
				want = "1"
			}
			ok = got[i] == want
			seen["resume: "+want]++
		case "symbol":
			want = "none"
			if s, found := v.Symbol(addr); found {
				module := s.Module
				if module == "" {
					module = "-"
				}
				want = fmt.Sprintf("%s %s %x %d", s.Name, module, s.Addr, s.Size)
			}
			ok = got[i] == want
		case "lookup":
			if _, in, qualified := strings.Cut(name, ":"); qualified && name[0] != ':' && !strings.HasPrefix(name, "no_such") && len(v.Lookup(name)) == 0 {
				t.Errorf("%s is not found, %s is %d times", name, in, len(v.Lookup(in)))
			}
			for _, s := range v.Lookup(name) {
				want += fmt.Sprintf(" %x", s.Addr)
			}
			ok = got[i] == want
		case "disassemble":
			buf := make([]byte, 16)
			b := v.Read(addr, buf)
			want = "0 "
			if b.Given > 0 {
				inst := dis.Next(buf[:b.Given], addr, func(a uint64) (string, uint64, bool) {
					s, ok := v.Symbol(a)
					return s.Name, s.Addr, ok
				})
				want = fmt.Sprintf("%d %s", len(inst.Bytes), inst.Text)
			}
			ok = got[i] == want
		case "spans":
			for s := range v.Spans(addr, uint64(size)) {
				want += fmt.Sprintf(" %x+%d/%d/%d/%d/%d-%d", s.Addr, s.Len, s.Standing, s.Reason, s.Source, s.Since, s.Until)
			}
			ok = got[i] == want
		}
		seen[what]++
		if !ok {
			if wrong++; wrong < 10 {
				t.Errorf("%s:\n got %.300s\nwant %.300s", line, got[i], want)
			}
		}
	}
	t.Logf("%v", seen)
	if n >= 1000 && (seen["resume: 0"] == 0 || seen["resume: 1"] == 0) {
		t.Errorf("probes may resume always or never: %v", seen)
	}
	if seen["in a window"] == 0 || seen["alternatives"] == 0 {
		t.Logf("no question was inside of a window")
	}
}

var answerPattern = regexp.MustCompile(`^([0-9a-f]*) ?(\w+) (\S+) (\d+) (\d+) (\d+) (\d+)$`)

// sameAnswer reports whether an answer from the library's cache is right: the same bytes and
// standing, and intervals that have the asked time and are inside of the wanted ones.
func sameAnswer(got, want string, at uint64) bool {
	g, w := answerPattern.FindStringSubmatch(got), answerPattern.FindStringSubmatch(want)
	if g == nil || w == nil || g[1] != w[1] || g[2] != w[2] || g[3] != w[3] || g[4] != w[4] {
		return false
	}
	var gs, gu, gf, ws, wu, wf uint64
	fmt.Sscan(g[5], &gs)
	fmt.Sscan(g[6], &gu)
	fmt.Sscan(g[7], &gf)
	fmt.Sscan(w[5], &ws)
	fmt.Sscan(w[6], &wu)
	fmt.Sscan(w[7], &wf)
	return gs >= ws && gu <= wu && gs <= at && at < gu && (gf == 0) == (wf == 0) && gf <= wf && (gf == 0 || gf > at)
}

// TestErrors: wrong arguments and wrong files give errors.
func TestErrors(t *testing.T) {
	exe := compile(t, "errors")
	run(t, "", exe, small("small"), "lib_test.go")
	run(t, "", exe, small("modfull"), "lib_test.go") // on perf's own clock, which converts from a counter
}

// TestThreads: one cursor for each thread, one recording for all.
func TestThreads(t *testing.T) {
	run(t, "", compile(t, "threads"), small("small"))
}

// TestSignals: the host's handlers get their signals, and what it does not handle ends it.
func TestSignals(t *testing.T) {
	exe := compile(t, "signals")
	cmd := exec.Command(exe, filepath.Join(library(t), "libtextreplay.so.0"), small("small"))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGTERM {
		t.Errorf("%v, want an end by SIGTERM\n%s", err, out)
	}
}

// TestHeader: textreplay.h compiles alone, as C and as C++, and the shared library exports
// what it declares and nothing else.
func TestHeader(t *testing.T) {
	lib := library(t)
	for _, args := range [][]string{{"-std=c99", "-xc"}, {"-std=c++11", "-xc++"}} {
		out, err := exec.Command("gcc", append(args, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "textreplay.h")...).CombinedOutput()
		if err != nil && !strings.Contains(string(out), "cc1plus") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
	header, err := os.ReadFile("textreplay.h")
	if err != nil {
		t.Fatal(err)
	}
	declared := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^[a-z].*?\b(textreplay_\w+)\(`).FindAllStringSubmatch(string(header), -1) {
		if !strings.Contains(m[0], "typedef") {
			declared[m[1]] = true
		}
	}
	out, err := exec.Command("nm", "-D", "--defined-only", filepath.Join(lib, "libtextreplay.so.0")).Output()
	if err != nil {
		t.Skipf("skipped: nm: %v", err)
	}
	exported := 0
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		name, ver, _ := strings.Cut(f[2], "@@")
		if f[1] == "A" {
			continue
		}
		if !declared[name] || ver != "TEXTREPLAY_0" {
			t.Errorf("exports %s", f[2])
		}
		exported++
	}
	if exported != len(declared) || exported < 25 {
		t.Errorf("%d functions are declared, %d exported", len(declared), exported)
	}
	out, err = exec.Command("readelf", "-d", filepath.Join(lib, "libtextreplay.so.0")).Output()
	if err == nil && !strings.Contains(string(out), "[libtextreplay.so.0]") {
		t.Errorf("the library has no soname:\n%s", out)
	}
}

// TestInstall: what is installed builds a program with pkg-config, and with the archive.
func TestInstall(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: builds the archive, because of -short")
	}
	library(t)
	if _, err := exec.LookPath("pkg-config"); err != nil {
		t.Skip("skipped: no pkg-config here")
	}
	root := t.TempDir()
	if out, err := exec.Command("make", "install", "BUILD="+build.dir, "PREFIX="+root).CombinedOutput(); err != nil {
		t.Fatalf("make install: %v\n%s", err, out)
	}
	env := append(os.Environ(), "PKG_CONFIG_PATH="+root+"/lib/pkgconfig")
	for _, static := range []bool{false, true} {
		pc := exec.Command("pkg-config", "--cflags", "--libs", "textreplay")
		if static {
			pc.Args = append(pc.Args, "--static")
		}
		pc.Env = env
		out, err := pc.Output()
		if err != nil {
			t.Fatalf("pkg-config: %v", err)
		}
		flags := strings.Fields(string(out))
		if static {
			for i := range flags {
				if flags[i] == "-ltextreplay" {
					flags[i] = "-l:libtextreplay.a"
				}
			}
		}
		exe := filepath.Join(root, "errors")
		args := append([]string{"-o", exe, "testdata/errors.c"}, flags...)
		if out, err := exec.Command("gcc", append(args, "-Wl,-rpath,"+root+"/lib")...).CombinedOutput(); err != nil {
			t.Fatalf("gcc %v: %v\n%s", args, err, out)
		}
		run(t, "", exe, small("small"), "lib_test.go")
	}
	for _, f := range []string{"share/man/man3/textreplay.3", "include/textreplay.h", "lib/libtextreplay.so"} {
		if _, err := os.Stat(filepath.Join(root, f)); err != nil {
			t.Error(err)
		}
	}
}

// TestSanitizer: the library's C code and the programs above under AddressSanitizer.
func TestSanitizer(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: builds the library once more, because of -short")
	}
	library(t)
	dir := t.TempDir()
	cmd := exec.Command("make", "shared", "BUILD="+dir)
	cmd.Env = append(os.Environ(), "CGO_CFLAGS=-O1 -g -fsanitize=address", "CGO_LDFLAGS=-fsanitize=address")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("skipped: no AddressSanitizer here: %v\n%s", err, out)
	}
	saved := build.dir
	build.dir = dir
	defer func() { build.dir = saved }()
	ask := compile(t, "ask", "-fsanitize=address,undefined")
	againstGo(t, ask, small("small"), 500)
	run(t, "", compile(t, "errors", "-fsanitize=address,undefined"), small("small"), "lib_test.go")
	run(t, "", compile(t, "threads", "-fsanitize=address,undefined"), small("small"))
}
