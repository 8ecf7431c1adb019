// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/textreplay/textreplay/internal/genperf"
	"github.com/textreplay/textreplay/kcore"
	"github.com/textreplay/textreplay/perfdata"
)

// terminal opens a new terminal. What is written to tty can be read from screen.
func terminal(t *testing.T) (tty, screen *os.File) {
	t.Helper()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminal: %v", err)
	}
	t.Cleanup(func() { screen.Close() })
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Skip(err)
	}
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Skip(err)
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	return tty, screen
}

// onTerminal runs textreplay with a terminal as standard output.
func onTerminal(t *testing.T, args ...string) (screen, stderr string, code int) {
	t.Helper()
	tty, master := terminal(t)
	shown := make(chan string)
	go func() {
		var b bytes.Buffer
		io.Copy(&b, master) // ends with an error, when the terminal has no writer any more
		shown <- strings.ReplaceAll(b.String(), "\r\n", "\n")
	}()
	var errs bytes.Buffer
	code = run(args, strings.NewReader("do_sys_openat2 12\n"), tty, &errs)
	signal.Reset(os.Interrupt)
	tty.Close()
	return <-shown, errs.String(), code
}

// TestPager: on a terminal, output is shown in a pager, and the exit code is the command's.
func TestPager(t *testing.T) {
	const mark = "sed 's/^/> /'"
	for _, tt := range []struct {
		name      string
		own, page string // TEXTREPLAY_PAGER, PAGER; "-": unset
		args      string
		paged     bool
		code      int
		stderr    string
	}{
		{"own", mark, "false", "at do_sys_openat2 12 --color never", true, 0, ""},
		{"PAGER", "-", mark, "info", true, 0, ""},
		{"exit code 1", mark, "-", "verify -i ../../testdata/lossy/rec.data", true, 1, ""},
		{"usage", mark, "-", "at no_such_function 12", false, 2, "no symbol of this name"},
		{"help", mark, "-", "help times", true, 0, ""},
		{"--help", mark, "-", "at --help", true, 0, ""},
		{"--no-pager", mark, "-", "info --no-pager", false, 0, ""},
		{"cat", "cat", mark, "info", false, 0, ""},
		{"empty", "", mark, "info", false, 0, ""},
		{"questions", mark, "-", "at --stdin", false, 0, ""},
		{"raw", mark, "-", "at do_sys_openat2 12 --format raw", false, 0, ""},
		{"completion", mark, "-", "completion bash", false, 0, ""},
		{"left early", "head -n 1 | sed 's/^/> /'", "-", "symbols -i ../../testdata/rich/rec.data", true, 0, ""},
		{"pager fails", mark + "; exit 3", "-", "info", true, 0, ""},
		{"no such pager", "/no/such/pager", "-", "info", false, 4, "cannot be run"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for name, value := range map[string]string{"TEXTREPLAY_PAGER": tt.own, "PAGER": tt.page} {
				t.Setenv(name, value)
				if value == "-" {
					os.Unsetenv(name)
				}
			}
			args := strings.Fields(tt.args)
			if args[0] != "completion" { // reads no recording
				args = append([]string{"-i", small}, args...)
			}
			screen, stderr, code := onTerminal(t, args...)
			if code != tt.code || !strings.Contains(stderr, tt.stderr) || tt.stderr == "" && stderr != "" {
				t.Errorf("exit code %d, %q", code, stderr)
			}
			for line := range strings.Lines(screen) {
				if strings.HasPrefix(line, "> ") != tt.paged && !strings.Contains(line, "/no/such/pager") {
					t.Fatalf("line %q, of\n%s", line, screen)
				}
			}
			if (screen == "") != (tt.code == 2 || tt.code == 4) {
				t.Errorf("%d bytes on the screen", len(screen))
			}
		})
	}
}

// TestControlSequences: a thread's name may have control sequences, which no terminal gets, and a
// newline, which begins no line. Colors stay.
func TestControlSequences(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "rec.data")
	k := &genperf.Kernel{Machine: elf.EM_X86_64, Arch: "x86_64", Release: "6.12", Order: binary.LittleEndian, Addr: 0xffffffff81000000, Text: make([]byte, 4096), CPUs: 1}
	k.Symbols = []kcore.ELFSymbol{{Name: "f\x1b[8m\u202eg", Addr: k.Addr, Size: 64}}
	r, err := k.Record(dir)
	if err != nil {
		t.Fatal(err)
	}
	const name = "\x1b]0;x\a\n9.5 cpu"
	err = errors.Join(
		r.Comm(0, &perfdata.Comm{PID: 100, TID: 100, Comm: []byte(name), SampleID: r.ID(genperf.Copied+1, 0, 100)}),
		r.Poke(genperf.Copied+1000, k.Addr, []byte{0}, []byte{0xcc}),
		r.End(genperf.Copied+2000))
	if err != nil {
		t.Fatal(err)
	}
	unescaped := func(s string) bool {
		for _, color := range colors {
			s = strings.ReplaceAll(s, color, "")
		}
		return strings.ContainsAny(s, "\x1b\a\u202e")
	}
	for _, pager := range []string{"", "cat; true"} {
		t.Setenv("TEXTREPLAY_PAGER", pager)
		for args, want := range map[string]string{
			"log":                         `\x1b]0;x\a\n9.5 cpu[100]  kprobe armed  ffffffff81000000 <f\x1b[8m\u202eg>`,
			"log --summary":               `\x1b]0;x\a\n9.5 cpu[100]`,
			"at 0xffffffff81000000 end":   `<f\x1b[8m\u202eg>`,
			"at 0xffffffff81000000 start": "\x1b[32mknown\x1b[m",
			"info":                        "\x1b[32mKernel",
		} {
			screen, stderr, code := onTerminal(t, append(strings.Fields(args), "-i", dir, "--index", "never", "--color", "always")...)
			if code > exitBelow || unescaped(screen) || !strings.Contains(screen, want) {
				t.Errorf("%s: exit code %d, %q\n%q\nwant %q", args, code, stderr, screen, want)
			}
		}
	}
	screen, _, _ := onTerminal(t, "-i", dir, "--index", "never", "at", "0xffffffff81000000", "end", "-n", "1", "--format", "raw")
	if screen != "\xcc" {
		t.Errorf("raw bytes are %q", screen)
	}
}

// TestScreenText: how text is cut into writes makes no difference.
func TestScreenText(t *testing.T) {
	const text = "a\x1b[32mknown\x1b[m é日\u202e \x1b[3\x1b[31mred\x1b[m\x1b\x1b[1m\xe6\n\xe6\x97"
	const want = "a\x1b[32mknown\x1b[m é日\\u202e \\x1b[3\x1b[31mred\x1b[m\\x1b\x1b[1m\\xe6\n\\xe6\\x97"
	for n := range len(text) {
		for m := range len(text) - n {
			var s screenText
			got := string(s.next([]byte(text[:n]))) + string(s.next([]byte(text[n:n+m]))) + string(s.next([]byte(text[n+m:])))
			if got += string(s.rest()); got != want {
				t.Fatalf("cut at %d and %d it is %q, want %q", n, n+m, got, want)
			}
		}
	}
}

// TestLess: by default the pager is less, and ends by itself if all fits on the screen.
func TestLess(t *testing.T) {
	if _, err := exec.LookPath("less"); err != nil {
		t.Skip("there is no less here")
	}
	for _, name := range []string{"TEXTREPLAY_PAGER", "PAGER", "LESS"} {
		t.Setenv(name, "")
		os.Unsetenv(name)
	}
	t.Setenv("TERM", "xterm")
	screen, stderr, code := onTerminal(t, "-i", small, "at", "do_sys_openat2", "12", "--insns", "1")
	if code != exitAnswered || stderr != "" || !strings.Contains(screen, "do_sys_openat2") || !strings.Contains(screen, "\x1b[32mknown\x1b[m") {
		t.Errorf("exit code %d, %q, screen %q", code, stderr, screen)
	}
}
