// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/textreplay/textreplay/perfdata"
	"github.com/textreplay/textreplay/timeline"
)

const small = "../../testdata/small/rec.data"

// failing is a standard output that cannot be written to.
type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func TestOutputErrors(t *testing.T) {
	commands := [][]string{
		{"at", "do_sys_openat2", "16.500000000"},
		{"at", "do_sys_openat2", "16.500000000", "--json"},
		{"at", "do_sys_openat2", "16.500000000", "--format", "hex"},
		{"at", "do_sys_openat2", "16.500000000", "--format", "raw"},
		{"at", "--stdin"},
		{"info"},
		{"info", "--json"},
		{"log"},
		{"log", "--json"},
		{"history", "do_sys_openat2+7"},
		{"history", "do_sys_openat2+7", "--json"},
		{"diff", "12.9", "16.5"},
		{"diff", "12.9", "16.5", "--json"},
		{"symbols"},
		{"symbols", "--json"},
		{"image", "--at", "16.500000000", "-o", "-"},
		{"verify"},
		{"verify", "--json"},
		{"help", "times"},
		{"completion", "bash"},
	}
	for _, args := range commands {
		if args[0] != "help" && args[0] != "completion" {
			args = append(args, "-i", small)
		}
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			var stderr bytes.Buffer
			in := strings.NewReader("do_sys_openat2 16.500000000\n")
			if code := run(args, in, failing{errors.New("disk full")}, &stderr); code != exitOutput {
				t.Errorf("exit code %d, want %d", code, exitOutput)
			}
			if !strings.Contains(stderr.String(), "disk full") {
				t.Errorf("the error is not told: %q", stderr.String())
			}
			stderr.Reset()
			in.Reset("do_sys_openat2 16.500000000\n")
			if code := run(args, in, failing{syscall.EPIPE}, &stderr); code != exitOutput {
				t.Errorf("reader gone: exit code %d, want %d", code, exitOutput)
			}
			if stderr.Len() != 0 {
				t.Errorf("reader gone: want nothing to be said, have %q", stderr.String())
			}
		})
	}
}

// TestQuestionsFlush checks that the answer to a question comes before the next
// question has to.
func TestQuestionsFlush(t *testing.T) {
	questions, ask := io.Pipe()
	answers, out := io.Pipe()
	done := make(chan int)
	go func() {
		var stderr bytes.Buffer
		code := run([]string{"at", "--stdin", "-i", small}, questions, out, &stderr)
		out.Close()
		done <- code
	}()
	lines := bufio.NewScanner(answers)
	for i := range 3 {
		fmt.Fprintf(ask, "do_sys_openat2+7 16.50000000%d 5\n", i)
		if !lines.Scan() {
			t.Fatal("no answer")
		}
		var got struct{ Time, Bytes string }
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("1650000000%d", i); got.Time != want || got.Bytes != "e91cf73211" {
			t.Errorf("answer %+v, want time %s and bytes e91cf73211", got, want)
		}
	}
	ask.Close()
	if lines.Scan() {
		t.Errorf("one answer too many: %s", lines.Bytes())
	}
	if code := <-done; code != exitAnswered {
		t.Errorf("exit code %d", code)
	}
}

// brokenReader is a standard input that fails after its text.
type brokenReader struct{ io.Reader }

func (b brokenReader) Read(p []byte) (int, error) {
	if n, err := b.Reader.Read(p); err == nil {
		return n, nil
	}
	return 0, errors.New("cable cut")
}

// An endless input never ends, and counts what is read of it.
type endless struct{ read int }

func (e *endless) Read(b []byte) (int, error) {
	clear(b)
	e.read += len(b)
	return len(b), nil
}

// TestNoRecordingOnInput: a stream that is no recording is rejected at once.
func TestNoRecordingOnInput(t *testing.T) {
	for _, command := range [][]string{{"info"}, {"at", "vfs_read", "50%"}, {"log"}, {"pprof", "-o", filepath.Join(t.TempDir(), "out")}} {
		in := new(endless)
		var stderr bytes.Buffer
		code := run(append([]string{"-i", "-"}, command...), in, io.Discard, &stderr)
		want := "textreplay: standard input: offset 0: not a perf.data file: begins with \"\\x00"
		if code != exitInput || !strings.HasPrefix(stderr.String(), want) {
			t.Errorf("%v: exit code %d, %s", command, code, stderr.String())
		}
		if in.read > 4096 {
			t.Errorf("%v: %d bytes were read", command, in.read)
		}
	}
}

func TestBrokenInput(t *testing.T) {
	for _, args := range [][]string{{"at", "--stdin", "-i", small}, {"info", "-i", "-"}} {
		var stdout, stderr bytes.Buffer
		input := "do_sys_openat2 16.500000000\n"
		if args[0] == "info" {
			input = "PERFILE2\x10\x00\x00\x00\x00\x00\x00\x00"
		}
		code := run(args, brokenReader{strings.NewReader(input)}, &stdout, &stderr)
		if code != exitInput || !strings.Contains(stderr.String(), "standard input: cable cut") {
			t.Errorf("%v: exit code %d and %q, want %d and the error", args, code, stderr.String(), exitInput)
		}
	}
}

// TestMessages: a message has no control sequence that a name in it brought.
func TestMessages(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"info -i no\x1b]0;x\a\u202e.data", `no\x1b]0;x\a\u202e.data`},
		{"at no\x1b[8mname 12 -i " + small, `no\x1b[8mname`},
		{"at vfs_read 12 --vmlinux \x1b[2J -i " + small, `\x1b[2J`},
		{"log --no\x1b[2J", `--no\x1b[2J`},
		{"\x1b[2J", `\x1b[2J`},
	} {
		var stderr bytes.Buffer
		run(strings.Fields(tt.args), nil, io.Discard, &stderr)
		if got := stderr.String(); strings.ContainsAny(got, "\x1b\a\u202e") || !strings.Contains(got, tt.want) {
			t.Errorf("%q: %q, want %s", tt.args, got, tt.want)
		}
	}
}

func TestProgress(t *testing.T) {
	var stdout, stderr bytes.Buffer
	run([]string{"verify", "-i", small, "--progress", "always"}, nil, &stdout, &stderr)
	if s := stderr.String(); !strings.Contains(s, "reading [") || !strings.HasSuffix(s, " \r") {
		t.Errorf("want a bar that is taken away, have %q", s)
	}
	for _, when := range []string{"never", "auto"} {
		stderr.Reset()
		run([]string{"verify", "-i", small, "--progress", when}, nil, &stdout, &stderr)
		if stderr.Len() != 0 {
			t.Errorf("%s: want no bar, have %q", when, stderr.String())
		}
	}
	var bar bytes.Buffer
	p := progressBar{w: &bar, start: time.Now(), after: time.Hour}
	p.update(1, 2)
	p.clear()
	if bar.Len() != 0 {
		t.Errorf("a bar before its time: %q", bar.String())
	}
}

func TestColor(t *testing.T) {
	for _, test := range []struct {
		color, noColor string
		want           bool
	}{
		{"always", "", true},
		{"always", "1", true}, // asked for in words
		{"auto", "", false},   // not a terminal
		{"never", "", false},
	} {
		t.Setenv("NO_COLOR", test.noColor)
		var stdout, stderr bytes.Buffer
		run([]string{"verify", "-i", small, "--color", test.color}, nil, &stdout, &stderr)
		if got := strings.Contains(stdout.String(), "\x1b["); got != test.want {
			t.Errorf("--color %s, NO_COLOR=%q: colored %v, want %v", test.color, test.noColor, got, test.want)
		}
	}
}

func TestWords(t *testing.T) {
	type words struct{ Got, Want string }
	for _, w := range []words{
		{span(5, 17), "12 ns"},
		{span(0, 1234), "1.23 us"},
		{span(0, 12_345_678), "12.3 ms"},
		{span(0, 2_084_509_995), "2.08 s"},
		{span(0, 260_000_000_000), "260 s"},
		{count(1, "byte"), "1 byte"},
		{count(0, "byte"), "0 bytes"},
		{count(1211440, "poke"), "1,211,440 pokes"},
		{count(2, "birth"), "2 births"},
		{count(2, "batch"), "2 batches"},
		{count(2, "loss"), "2 losses"},
		{count(2, "entry"), "2 entries"},
		{thousands(999), "999"},
		{thousands(uint64(1000)), "1,000"},
		{spaced([]byte{0x0f, 0x1f, 0}), "0f 1f 00"},
		{place{name: "f", offset: 16, module: "m"}.String(), "f+0x10 [m]"},
		{place{name: "p", module: "bpf"}.String(), "p"},
	} {
		if w.Got != w.Want {
			t.Errorf("%q, want %q", w.Got, w.Want)
		}
	}
	if d := cmp.Diff([]string{"a (2 times)", "b"}, tally([]string{"b", "a", "a"})); d != "" {
		t.Error(d)
	}
	var b strings.Builder
	wrap(&b, "  ", []string{strings.Repeat("x", 60), strings.Repeat("y", 50), "z"})
	if want := "  " + strings.Repeat("x", 60) + ",\n  " + strings.Repeat("y", 50) + ", z\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestMeets(t *testing.T) {
	all := []timeline.Standing{timeline.Known, timeline.InFlight, timeline.Unconfirmed, timeline.Retired,
		timeline.Conflicting, timeline.Unknown, timeline.Unmapped}
	for require, want := range map[string][]timeline.Standing{
		"known":       all[:1],
		"unconfirmed": all[:4],
		"any":         all,
	} {
		a := &app{require: choice{value: require}}
		b := &app{}
		var got, byDefault []timeline.Standing
		for _, s := range all {
			if a.meets(s, "known") {
				got = append(got, s)
			}
			if b.meets(s, require) {
				byDefault = append(byDefault, s)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("--require %s: %s", require, d)
		}
		if d := cmp.Diff(want, byDefault); d != "" {
			t.Errorf("default %s: %s", require, d)
		}
	}
}

// TestNameStandardInput: an error that was printed into another names standard
// input too, and is still itself.
func TestNameStandardInput(t *testing.T) {
	inner := &perfdata.FormatError{File: "/tmp/spooled", Msg: "no end", Err: perfdata.ErrTruncated}
	err := nameStandardInput(fmt.Errorf("not clean: %w", inner), "/tmp/spooled")
	if want := "not clean: standard input: offset 0: truncated: no end"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	if !errors.Is(err, perfdata.ErrTruncated) {
		t.Errorf("%v is no %v any more", err, perfdata.ErrTruncated)
	}
	if err := nameStandardInput(nil, "/tmp/spooled"); err != nil {
		t.Error(err)
	}
}
