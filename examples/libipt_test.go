// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package examples tests the examples, which are in C, against the libraries that they are
// for.
package examples

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
)

var build struct {
	sync.Once
	dir string
	err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if build.dir != "" {
		os.RemoveAll(build.dir)
	}
	os.Exit(code)
}

// compile builds a C program or a shared object of an example with the C library. It skips
// the test where header, of a library that the example is for, is not installed.
func compile(t *testing.T, output, header string, args ...string) string {
	t.Helper()
	for _, tool := range []string{"make", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("skipped: no %s here", tool)
		}
	}
	if header != "" {
		if _, err := os.Stat(filepath.Join("/usr/include", header)); err != nil {
			t.Skipf("skipped: %s is not installed", header)
		}
	}
	build.Do(func() {
		if build.dir, build.err = os.MkdirTemp("", "libtextreplay"); build.err != nil {
			return
		}
		out, err := exec.Command("make", "-C", "../cmd/libtextreplay", "shared", "BUILD="+build.dir).CombinedOutput()
		if err != nil {
			build.err = fmt.Errorf("make: %v\n%s", err, out)
		}
	})
	if build.err != nil {
		t.Fatal(build.err)
	}
	return compileWith(t, build.dir, output, args...)
}

// compileWith is compile with the C library in lib.
func compileWith(t *testing.T, lib, output string, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), output)
	all := append([]string{"-std=gnu11", "-O2", "-g", "-Wall", "-Wextra", "-Werror", "-I../cmd/libtextreplay", "-o", path}, args...)
	all = append(all, "-L"+lib, "-ltextreplay", "-Wl,-rpath,"+lib)
	if out, err := exec.Command("gcc", all...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return path
}

func ptdecode(t *testing.T) string {
	return compile(t, "ptdecode", "intel-pt.h", "libipt/ptdecode.c", "libipt/textreplay_ipt.c", "-lipt")
}

var statsPattern = regexp.MustCompile(`(\d+) instructions, (\d+) errors(?:, (\d+) traps, (\d+) unresolved)?`)

// decode decodes traces of one CPU each and compares what comes back with what was executed.
// It returns how many instructions were decoded, how many of them are INT3, and how many traps
// the adapter took while text was changed.
func decode(t *testing.T, exe, rec string, traces []string, insns []instruction, cpus [][]step, flags ...string) (decoded, int3, traps int) {
	t.Helper()
	for cpu, trace := range traces {
		n, wrong := 0, 0
		out, errOut := eachDecoded(t, 24, func(raw []byte) {
			defer func() { n++ }()
			if n >= len(cpus[cpu]) {
				wrong++
				return
			}
			x := &insns[cpus[cpu][n].id]
			ip, code := binary.LittleEndian.Uint64(raw), raw[9:9+min(raw[8], 15)]
			if ip != x.ip || !bytes.Equal(code, x.bytes) {
				if wrong++; wrong == 1 {
					t.Errorf("cpu %d, instruction %d: decoded %x %x, executed %x %x", cpu, n, ip, code, x.ip, x.bytes)
				}
			} else if code[0] == 0xcc {
				int3++
			}
		}, exe, append(slices.Clone(flags), rec, trace)...)
		// The last instructions wait for a packet that the trace does not have.
		if wrong > 0 || n < len(cpus[cpu])-100 {
			t.Errorf("cpu %d: %d of %d instructions decoded, %d differ\n%s%.2000s", cpu, n, len(cpus[cpu]), wrong, out, errOut)
		}
		m := statsPattern.FindSubmatch(out)
		if m == nil || string(m[2]) != "0" || string(m[4]) != "0" {
			t.Errorf("cpu %d: %s", cpu, out)
			continue
		}
		k, _ := strconv.Atoi(string(m[3]))
		traps += k
		decoded += n
	}
	return decoded, int3, traps
}

// TestLibipt: decoding through the adapter returns exactly the executed instructions of the
// traces of x86_64/exec/pt on all CPUs, with both decoders of libipt and with no help. Over
// perf's copy of text it fails.
func TestLibipt(t *testing.T) {
	dir := filepath.Join(corpus.Large(t, "x86_64/exec"), "pt")
	exe := ptdecode(t)
	rec := filepath.Join(dir, "rec.data")
	traces, err := filepath.Glob(filepath.Join(dir, "cpu*.pt"))
	if err != nil || len(traces) != 3 {
		t.Fatalf("%v %v", traces, err)
	}
	insns, cpus := readExecution(t, dir)
	executedTraps := 0
	for _, steps := range cpus {
		for _, s := range steps {
			if b := insns[s.id].bytes; len(b) == 1 && b[0] == 0xcc {
				executedTraps++
			}
		}
	}
	for _, mode := range [][]string{nil, {"-b"}} {
		t.Run(fmt.Sprint("decoder", mode), func(t *testing.T) {
			n, _, traps := decode(t, exe, rec, traces, insns, cpus, mode...)
			t.Logf("%d instructions, %d traps; %d INT3 executed", n, traps, executedTraps)
			if n != 5687716 || traps != 1177 {
				t.Errorf("%d instructions and %d traps, want 5687716 and 1177", n, traps)
			}
		})
	}
	t.Run("plain copy", func(t *testing.T) {
		out, err := exec.Command(exe, append([]string{"-p", rec}, traces...)...).CombinedOutput()
		t.Logf("%v\n%s", err, out)
		for _, m := range statsPattern.FindAllSubmatch(out, -1) {
			if string(m[2]) == "0" {
				t.Errorf("no errors over perf's copy of text")
			}
		}
	})
	// The same execution in traces of other forms. With several outcomes in a packet, its time
	// is later than that of most of them; with few TSC packets, changes of text have an
	// uncertain place in the trace.
	forms := []traceForm{{6, 0, 1 << 16}, {1, 0, 1 << 12}, {6, 3_000, 1 << 14}, {4, 30_000, 1 << 16}, {6, 300_000, 1 << 15}}
	for _, form := range forms {
		t.Run(fmt.Sprintf("tnt %d, tsc %d", form.tnt, form.tsc), func(t *testing.T) {
			var files []string
			for cpu, steps := range cpus {
				file := filepath.Join(t.TempDir(), fmt.Sprintf("cpu%d.pt", cpu))
				if err := os.WriteFile(file, encodeTrace(insns, steps, form), 0o600); err != nil {
					t.Fatal(err)
				}
				files = append(files, file)
			}
			n, _, traps := decode(t, exe, rec, files, insns, cpus, "-b")
			t.Logf("%d instructions, %d traps", n, traps)
		})
	}
}
