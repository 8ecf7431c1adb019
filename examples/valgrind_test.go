// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package examples

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/timeline/replay"
)

// A valgrindFrame is a call in a report of valgrind.
type valgrindFrame struct {
	Obj  string `xml:"obj"`
	Fn   string `xml:"fn"`
	File string `xml:"file"`
	Line int    `xml:"line"`
}

func (f valgrindFrame) String() string {
	return fmt.Sprintf("%s (%s:%d, %s)", f.Fn, f.File, f.Line, filepath.Base(f.Obj))
}

// A valgrindReport is what valgrind found in a program.
type valgrindReport struct {
	Errors []struct {
		Kind  string `xml:"kind"`
		What  string `xml:"what"`
		XWhat string `xml:"xwhat>text"`
		Stack []struct {
			Frames []valgrindFrame `xml:"frame"`
		} `xml:"stack"`
	} `xml:"error"`
}

// runValgrind runs a program under valgrind and returns what it found, and the program's error.
func runValgrind(t *testing.T, stdin string, args ...string) (report valgrindReport, err error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "valgrind.xml")
	cmd := exec.Command("valgrind", append([]string{"-q", "--leak-check=full", "--show-leak-kinds=definite",
		"--suppressions=testdata/valgrind.supp", "--xml=yes", "--xml-file=" + file}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	// Go's collector takes time and is not what is tested. valgrind says that the CPU has RDTSCP, but it has it only
	// where the machine has.
	cmd.Env = append(os.Environ(), "GOGC=off", "GODEBUG=cpu.rdtscp=off")
	out, err := cmd.CombinedOutput()
	text, readErr := os.ReadFile(file)
	if readErr != nil {
		t.Fatalf("valgrind: %v\n%s", err, out)
	}
	if xmlErr := xml.Unmarshal(text, &report); xmlErr != nil {
		t.Fatalf("valgrind: %v\n%s", xmlErr, out)
	}
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, out)
	}
	return report, err
}

// functionPattern matches the definition of a function of the library's C part.
var functionPattern = regexp.MustCompile(`(?m)^[a-z][\w *]*?\b(\w+)\([^;]*$`)

// inC returns the reports that begin in C code of this project: in the program, or in the C part
// of the library, whose functions are in ours. What only system libraries and the Go code of the
// library have called is not in it, except if nothing is known of the callers.
func (r *valgrindReport) inC(ours map[string]bool) (found []string) {
	for _, e := range r.Errors {
		text := fmt.Sprintf("%s: %s%s", e.Kind, e.What, e.XWhat)
		if len(e.Stack) == 0 {
			found = append(found, text)
			continue
		}
		blamed, known := false, false
		for _, f := range e.Stack[0].Frames {
			name, _, _ := strings.Cut(f.Fn, ".") // gcc appends .part.0 and the like
			switch {
			case f.Obj == "" || strings.HasPrefix(f.Obj, "/usr/") || strings.HasPrefix(f.Obj, "/lib"):
				continue // Go's stack, or a library of the system
			case strings.HasPrefix(filepath.Base(f.Obj), "libtextreplay.so"):
				blamed = ours[name] || strings.HasPrefix(f.Fn, "_cgo_") && strings.Contains(f.Fn, "_Cfunc_")
			default:
				blamed = true
			}
			known = true
			break
		}
		if blamed || !known {
			for _, f := range e.Stack[0].Frames {
				text += "\n\t" + f.String()
			}
			found = append(found, text)
		}
	}
	return found
}

// TestValgrind: no report of valgrind begins in the C code of the library, nor in that of its test
// programs and the examples. The reports in Go's own code differ from run to run, so that no
// suppressions can name them: Go's runtime moves stacks and reads whole words.
func TestValgrind(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: valgrind is slow, because of -short")
	}
	if _, err := exec.LookPath("valgrind"); err != nil {
		t.Skip("skipped: no valgrind here")
	}
	lib := t.TempDir()
	for _, tool := range []string{"make", "gcc"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("skipped: no %s here", tool)
		}
	}
	if out, err := exec.Command("make", "-C", "../cmd/libtextreplay", "shared", "STRIP=-w", "BUILD="+lib).CombinedOutput(); err != nil {
		t.Fatalf("make: %v\n%s", err, out)
	}
	ours := make(map[string]bool)
	source, err := os.ReadFile("../cmd/libtextreplay/textreplay.c")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range functionPattern.FindAllStringSubmatch(string(source), -1) {
		ours[m[1]] = true
	}
	for _, name := range []string{"textreplay_open", "textreplay_read", "load_names"} {
		if !ours[name] {
			t.Fatalf("%s is not among the functions of textreplay.c: %v", name, ours)
		}
	}
	// The recordings are small: a program under valgrind is slow.
	small := filepath.Join(corpus.Root(), "testdata", "small", "rec.data")
	program := func(name string) string {
		return compileWith(t, lib, name, "-std=c11", "-O1", "../cmd/libtextreplay/testdata/"+name+".c", "-pthread", "-ldl")
	}
	check := func(t *testing.T, stdin string, args ...string) {
		t.Helper()
		report, err := runValgrind(t, stdin, args...)
		var exit *exec.ExitError
		if err != nil && !(filepath.Base(args[0]) == "signals" && errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGTERM) {
			t.Error(err)
		}
		t.Logf("%d reports", len(report.Errors))
		for _, s := range report.inC(ours) {
			t.Error(s)
		}
	}

	// Errors are found: of a program, and of memory that it got from the library.
	t.Run("wrong", func(t *testing.T) {
		wrong := filepath.Join(t.TempDir(), "wrong.c")
		if err := os.WriteFile(wrong, []byte(`
#include <stdlib.h>
#include <textreplay.h>
int main(int argc, char **argv)
{
	textreplay *tr;
	textreplay_cursor *cur;
	volatile int *p = malloc(sizeof(int) * 4);
	if (argc != 2 || p[argc] == 42 || textreplay_open(argv[1], NULL, &tr) || textreplay_cursor_new(tr, &cur))
		return 1;
	cur = NULL;
	p = NULL;
	return 0;
}
`), 0o600); err != nil {
			t.Fatal(err)
		}
		exe := compileWith(t, lib, "wrong", "-O0", "-Wno-uninitialized", "-Wno-maybe-uninitialized", wrong)
		report, err := runValgrind(t, "", exe, small)
		if err != nil {
			t.Fatal(err)
		}
		found := strings.Join(report.inC(ours), "\n")
		for _, want := range []string{"UninitCondition: Conditional jump", "Leak_DefinitelyLost: 16 bytes", "textreplay_cursor_new"} {
			if !strings.Contains(found, want) {
				t.Errorf("no %q among the reports:\n%s", want, found)
			}
		}
	})
	t.Run("ask", func(t *testing.T) {
		r, err := replay.Load(small, replay.Options{Windows: true})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		var lines bytes.Buffer
		changes := 0
		for a, v := range r.Image.Fragments() {
			if v.Since == 0 {
				continue
			}
			if changes++; changes > 10 {
				break
			}
			for _, at := range []uint64{v.Since - 1, v.Since, v.Since + 1000} {
				for _, q := range []string{"read %x %d 16", "read %x %d 5000", "versions %x %d 1000000000", "changes %x %d 1",
					"pages %x %d 1", "windows %x %d 16", "alternatives %x %d 16", "disassemble %x %d 16", "symbol %x %d 1", "spans %x %d 100"} {
					fmt.Fprintf(&lines, q+"\n", a.Lo, at)
				}
				fmt.Fprintf(&lines, "page %x %d 4096\nresume %x %d 1 %x\nlookup %x %d 1 vfs_read\n", a.Lo&^4095, at, a.Lo, at, a.Lo+5, a.Lo, at)
			}
		}
		if changes == 0 {
			t.Fatal("no changes")
		}
		check(t, lines.String(), program("ask"), small)
	})
	t.Run("errors", func(t *testing.T) { check(t, "", program("errors"), small, "valgrind_test.go") })
	t.Run("threads", func(t *testing.T) { check(t, "", program("threads"), small) })
	t.Run("signals", func(t *testing.T) { check(t, "", program("signals"), filepath.Join(lib, "libtextreplay.so.0"), small) })
	needs := func(t *testing.T, header string) {
		t.Helper()
		if _, err := os.Stat(filepath.Join("/usr/include", header)); err != nil {
			t.Skipf("skipped: %s is not installed", header)
		}
	}
	for _, mode := range [][]string{nil, {"-b"}} {
		t.Run(fmt.Sprint("ptdecode", mode), func(t *testing.T) {
			needs(t, "intel-pt.h")
			exe := compileWith(t, lib, "ptdecode", "libipt/ptdecode.c", "libipt/textreplay_ipt.c", "-lipt")
			dir := filepath.Join(corpus.Root(), "testdata", "pt")
			check(t, "", append(append([]string{exe}, mode...), filepath.Join(dir, "cut.data"), filepath.Join(dir, "cpu0.pt"))...)
		})
	}
	t.Run("csdecode", func(t *testing.T) {
		needs(t, "opencsd/c_api/opencsd_c_api.h")
		exe := compileWith(t, lib, "csdecode", "opencsd/csdecode.c", "opencsd/textreplay_ocsd.c", "-lopencsd_c_api", "-lopencsd")
		dir := filepath.Join(corpus.Root(), "testdata", "etm")
		check(t, "", append([]string{exe, filepath.Join(dir, "cut.data")}, armTraces(t, dir)...)...)
	})
}

// armTraces writes the traces of an execution to files, and returns their paths.
func armTraces(t *testing.T, dir string) (files []string) {
	t.Helper()
	insns, cpus, _ := readArmExecution(t, dir)
	for cpu, steps := range cpus {
		if len(steps) < 2 {
			continue
		}
		file := filepath.Join(t.TempDir(), fmt.Sprintf("cpu%d.etm", cpu))
		trace, _ := encodeETM(insns, steps, etmForm{3, 100, 1 << 12})
		if err := os.WriteFile(file, trace, 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}
