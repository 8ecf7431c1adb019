// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A changingInput asks a question, waits until it has been answered, changes a file,
// and asks the next one.
type changingInput struct {
	questions []string
	change    func() error
}

func (c *changingInput) Read(b []byte) (int, error) {
	if len(c.questions) == 0 {
		return 0, io.EOF
	}
	if c.change != nil && len(c.questions) == 1 {
		if err := c.change(); err != nil {
			return 0, err
		}
	}
	n := copy(b, c.questions[0])
	c.questions = c.questions[1:]
	return n, nil
}

// TestChangedWhileRead: a file that changes while questions are answered from it ends
// them with an error. No answer is given from what is not there any more.
func TestChangedWhileRead(t *testing.T) {
	// A place that is never patched, so it is read from the copy of text in the
	// file.
	const question = "0xffffffffaf652010 16.500000000 64\n"
	cut := func(name string, size int64) func(dir string) error {
		return func(dir string) error { return os.Truncate(filepath.Join(dir, name), size) }
	}
	overwrite := func(name string) func(dir string) error {
		return func(dir string) error {
			f, err := os.OpenFile(filepath.Join(dir, name), os.O_WRONLY, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			_, err = f.WriteAt([]byte("x"), 1000)
			return err
		}
	}
	for _, tt := range []struct {
		name    string
		change  func(dir string) error
		changed string // the file that is named, "" for none
		index   bool   // with an index, from which answers come
	}{
		{"nothing", func(string) error { return nil }, "", true},
		{"copy gone", cut("kcore_dir/kcore", 0), "kcore", false},
		{"copy gone, index", cut("kcore_dir/kcore", 0), "kcore", true},
		{"copy shorter", cut("kcore_dir/kcore", 100_000), "kcore", false},
		{"copy a byte shorter", cut("kcore_dir/kcore", 139_263), "kcore", false},
		{"copy overwritten", overwrite("kcore_dir/kcore"), "kcore", false},
		{"recording gone", cut("data", 0), "data", false},
		{"recording gone, index", cut("data", 0), "data", true},
		{"recording a byte shorter", cut("data", 53_943), "data", false},
		{"recording overwritten", overwrite("data"), "data", false},
		{"index gone", cut("../index", 0), "index", true},
		{"index a byte shorter", cut("../index", 200_000), "index", true},
		{"index overwritten", overwrite("../index"), "index", true},
		{"recording removed", func(dir string) error { return os.RemoveAll(dir) }, "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "rec.data")
			if err := os.CopyFS(dir, os.DirFS(small)); err != nil {
				t.Fatal(err)
			}
			// Long ago, or the change could come within the same tick of the clock.
			for _, name := range []string{"data", "kcore_dir/kcore"} {
				if err := os.Chtimes(filepath.Join(dir, name), time.Time{}, time.Unix(1e9, 0)); err != nil {
					t.Fatal(err)
				}
			}
			index := "never"
			if tt.index {
				index = filepath.Join(filepath.Dir(dir), "index")
				if code := run([]string{"info", "-i", dir, "--index", index}, strings.NewReader(""), io.Discard, io.Discard); code != exitAnswered {
					t.Fatalf("exit code %d", code)
				}
				time.Sleep(20 * time.Millisecond)
			}
			in := &changingInput{questions: []string{question, question}, change: func() error { return tt.change(dir) }}
			var stdout, stderr bytes.Buffer
			code := run([]string{"at", "--stdin", "-i", dir, "--index", index}, in, &stdout, &stderr)
			answers := strings.Count(stdout.String(), "\n")
			if tt.changed == "" {
				if code > exitBelow || answers != 2 {
					t.Errorf("exit code %d, %d answers\n%s", code, answers, &stderr)
				}
				return
			}
			if code != exitInput || answers != 1 || !strings.Contains(stderr.String(), tt.changed+" ") {
				t.Errorf("exit code %d, %d answers\n%s", code, answers, &stderr)
			}
		})
	}
}

// TestCutWhileLoading: a recording that is cut off while it is read is no recording
// that was cut off before, and nothing of it is written.
func TestCutWhileLoading(t *testing.T) {
	commands := [][]string{
		{"info"}, {"log"}, {"log", "--summary"}, {"verify"}, {"audit"}, {"symbols"}, {"at", "do_sys_openat2", "50%"}, {"history", "do_sys_openat2"},
		{"diff", "start", "end"}, {"image", "--at", "50%", "-o", "out"}, {"image", "--at", "50%", "-o", "-"},
		{"image", "--at", "50%", "--kcore-dir", "out"}, {"pprof", "-o", "out"},
		{"perfetto", "-o", "out"}, {"trim", "-o", "out"}, {"report", "-o", "out"},
	}
	whole, err := filepath.Abs("../../testdata/rich/rec.data")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"data", "kcore_dir/kcore"} {
		for _, args := range commands {
			t.Run(name+" "+strings.Join(args, " "), func(t *testing.T) {
				t.Chdir(t.TempDir())
				if err := os.CopyFS("rec", os.DirFS(whole)); err != nil {
					t.Fatal(err)
				}
				// A progress bar is drawn while the recording is read, and again while
				// samples are.
				stderr := &cutting{path: filepath.Join("rec", name)}
				args := append(args, "-i", "rec", "--index", "never", "--progress", "always")
				code := run(args, strings.NewReader(""), io.Discard, stderr)
				if stderr.err != nil {
					t.Fatal(stderr.err)
				}
				if code != exitInput || !strings.Contains(stderr.String(), "was cut short") {
					t.Errorf("exit code %d\n%s", code, stderr)
				}
				left, err := filepath.Glob("*")
				if hidden, e := filepath.Glob(".*"); err != nil || e != nil || len(left)+len(hidden) != 1 {
					t.Errorf("left: %v %v", left, hidden)
				}
			})
		}
	}
}

// TestCutAfterOpening: the same for every command, with a file that is cut, overwritten or
// removed between its opening and its use. kallsyms, which comes through a pipe, is read then.
func TestCutAfterOpening(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there are no named pipes in directories")
	}
	commands := [][]string{
		{"info", "--json"}, {"log", "--json"}, {"log", "--format", "csv"}, {"verify", "--json"}, {"audit", "--json"}, {"audit", "--explain", "0x10", "e9"}, {"symbols", "--json"},
		{"at", "do_sys_openat2", "50%", "--json"}, {"at", "do_sys_openat2", "start..end"}, {"history", "do_sys_openat2", "--json"},
		{"diff", "20%", "80%", "--json"}, {"oops", "../oops"}, {"oops", "../oops", "--json"}, {"web", "--no-browser"},
		{"image", "--at", "50%", "--require", "any", "-o", "out", "--unknown", "out2"}, {"image", "--at", "50%", "--kcore-dir", "out"},
		{"pprof", "-o", "out"}, {"pprof", "--folded", "-o", "-"}, {"perfetto", "-o", "out"}, {"perfetto", "-o", "-"}, {"report", "-o", "out"},
		{"trim", "-o", "out"}, {"trim", "--samples", "--aux", "-o", "out"},
		{"export", "-o", "out"}, {"export", "--table", "changes", "-o", "-"}, {"export", "--table", "gaps", "-o", "-"}, {"export", "--table", "text", "-o", "-"},
	}
	whole, err := filepath.Abs("../../testdata/rich/rec.data")
	if err != nil {
		t.Fatal(err)
	}
	kallsyms, err := os.ReadFile(filepath.Join(whole, "kcore_dir/kallsyms"))
	if err != nil {
		t.Fatal(err)
	}
	replace := func(path string) error {
		data, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(path+".new", data[:len(data)/2], 0o600), os.Rename(path+".new", path))
	}
	cut := func(path string) error { return os.Truncate(path, 4096) }
	for n, tt := range []struct {
		name, file string
		change     func(path string) error
		code       int
	}{
		{"recording cut", "data", cut, exitInput},
		{"copy of text cut", "kcore_dir/kcore", cut, exitInput},
		{"recording gone", "data", func(path string) error { return os.Truncate(path, 0) }, exitInput},
		{"recording replaced", "data", replace, exitAnswered},
		{"copy of text replaced", "kcore_dir/kcore", replace, exitAnswered},
	} {
		for i, args := range commands {
			if tt.code == exitAnswered && args[0] == "web" {
				continue // it does not end
			}
			if n > 0 && i%4 != n-1 {
				continue // each is asked at least once
			}
			t.Run(tt.name+" "+strings.Join(args, " "), func(t *testing.T) {
				dir := t.TempDir()
				t.Chdir(dir)
				oops, err := os.ReadFile(filepath.Join(whole, "../../small/oops.txt"))
				err = errors.Join(err, os.Mkdir("work", 0o755), os.WriteFile("oops", oops, 0o600), os.CopyFS("rec", os.DirFS(whole)),
					exec.Command("mkfifo", "kallsyms").Run(), os.Chdir("work"))
				if err != nil {
					t.Fatal(err)
				}
				changed := make(chan error, 1)
				go func() {
					f, err := os.OpenFile("../kallsyms", os.O_WRONLY, 0) // when it is opened for reading
					if err == nil {
						err = errors.Join(tt.change(filepath.Join("../rec", tt.file)), ignorePipe(f.Write(kallsyms)), f.Close())
					}
					changed <- err
				}()
				var stdout, stderr bytes.Buffer
				code := run(append(args, "-i", "../rec", "--kallsyms", "../kallsyms", "--index", "never"), strings.NewReader(""), &stdout, &stderr)
				if err := <-changed; err != nil {
					t.Fatal(err)
				}
				left, err := os.ReadDir(".")
				if err != nil {
					t.Fatal(err)
				}
				if tt.code == exitAnswered {
					// The name of an export is a hash of the files, which may be read before or after.
					if args[0] == "export" && code == exitInput && strings.Contains(stderr.String(), "changed while it was read") && len(left) == 0 {
						return
					}
					if code > exitBelow {
						t.Errorf("exit code %d\n%s", code, &stderr)
					}
					return
				}
				if code != tt.code || !strings.Contains(stderr.String(), "was cut short") || len(left) > 0 {
					t.Errorf("exit code %d, left: %v\n%s", code, left, &stderr)
				}
			})
		}
	}
}

// TestChangeBehindOutput: an input that changes when the output has its name changes neither the
// output nor the exit code.
func TestChangeBehindOutput(t *testing.T) {
	recordings, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"rich", "trim", "-o", "out"}, {"rich", "report", "-o", "out"}, {"callgraph", "pprof", "-o", "out", "--progress", "always"},
	} {
		t.Run(args[1], func(t *testing.T) {
			t.Chdir(t.TempDir())
			if err := os.CopyFS("rec", os.DirFS(filepath.Join(recordings, args[0], "rec.data"))); err != nil {
				t.Fatal(err)
			}
			stderr := &cutting{path: "rec/data", behind: "out"}
			code := run(append(args[1:], "-i", "rec", "--index", "never"), strings.NewReader(""), io.Discard, stderr)
			if code != exitAnswered || !stderr.done || stderr.err != nil {
				t.Errorf("exit code %d, the input was cut: %v, %v\n%s", code, stderr.done, stderr.err, stderr)
			}
		})
	}
}

// TestOutputsTogether: of the outputs of image, all are written, or none.
func TestOutputsTogether(t *testing.T) {
	whole, err := filepath.Abs("../../testdata/rich/rec.data")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	var stderr bytes.Buffer
	code := run([]string{"image", "-i", whole, "--at", "50%", "--index", "never", "-o", "out", "--kcore-dir", "dir", "--unknown", "none/list"},
		strings.NewReader(""), io.Discard, &stderr)
	left, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	if code != exitOutput || len(left) > 0 {
		t.Errorf("exit code %d, left: %v\n%s", code, left, &stderr)
	}
}

// ignorePipe is the error of a write, unless nobody reads any more.
func ignorePipe(_ int, err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return nil
	}
	return err
}

// A cutting writer cuts a file when it is written to for the first time, or, if behind is the
// name of a file, for the first time when there is such a file.
type cutting struct {
	bytes.Buffer
	path   string
	behind string
	done   bool
	err    error
}

func (c *cutting) Write(b []byte) (int, error) {
	if _, err := os.Stat(c.behind); !c.done && (c.behind == "" || err == nil) {
		c.err, c.done = os.Truncate(c.path, 4096), true
	}
	return c.Buffer.Write(b)
}
