// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// The commands of scripts about the files that textreplay writes.

// copyTree FROM TO copies a directory.
func copyTree(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: copytree FROM TO")
	}
	ts.Check(os.CopyFS(ts.MkAbs(args[1]), os.DirFS(ts.MkAbs(args[0]))))
}

// same A B checks that two directories hold the same files.
func same(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: same A B")
	}
	a, b := filesIn(ts, args[0]), filesIn(ts, args[1])
	for name := range b {
		if _, ok := a[name]; !ok {
			ts.Fatalf("%s has no %s", args[0], name)
		}
	}
	for name, data := range a {
		if other, ok := b[name]; !ok || !bytes.Equal(data, other) {
			ts.Fatalf("%s differs, or is only in %s", name, args[0])
		}
	}
}

// filesIn reads all files below a directory.
func filesIn(ts *testscript.TestScript, dir string) map[string][]byte {
	files := make(map[string][]byte)
	ts.Check(filepath.WalkDir(ts.MkAbs(dir), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(ts.MkAbs(dir), path)
		if err != nil {
			return err
		}
		files[name], err = os.ReadFile(path)
		return err
	}))
	return files
}

// hardLink OLD NEW makes a hard link.
func hardLink(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: hardlink OLD NEW")
	}
	ts.Check(os.Link(ts.MkAbs(args[0]), ts.MkAbs(args[1])))
}

// flip FILE OFFSET changes a byte of a file, and restores its time of modification.
func flip(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: flip FILE OFFSET")
	}
	path := ts.MkAbs(args[0])
	off, err := strconv.ParseInt(args[1], 0, 64)
	ts.Check(err)
	info, err := os.Stat(path)
	ts.Check(err)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	ts.Check(err)
	defer f.Close()
	var b [1]byte
	_, err = f.ReadAt(b[:], off)
	ts.Check(err)
	b[0] ^= 1
	_, err = f.WriteAt(b[:], off)
	ts.Check(err)
	ts.Check(os.Chtimes(path, info.ModTime(), info.ModTime()))
}

// mode OCTAL FILE checks the permissions of a file.
func mode(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: mode OCTAL FILE")
	}
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := strconv.FormatUint(uint64(info.Mode().Perm()), 8); got != args[0] {
		ts.Fatalf("mode %s, want %s", got, args[0])
	}
}

// limit CODE ARGS... runs textreplay where no file can have more than a block of 512
// bytes, and checks its exit code.
func limit(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: limit CODE ARGS...")
	}
	checkExit(ts, ts.Exec("sh", append([]string{"-c", `ulimit -f 1; exec textreplay "$@"`, "sh"}, args[1:]...)...), args[0])
}

// signalled ARGS... runs textreplay with a standard input that does not end, and
// sends it SIGTERM as soon as it has a temporary file.
func signalled(ts *testscript.TestScript, neg bool, args []string) {
	if neg {
		ts.Fatalf("usage: signalled ARGS...")
	}
	path, err := exec.LookPath("textreplay")
	ts.Check(err)
	in, out, err := os.Pipe()
	ts.Check(err)
	defer out.Close()
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), "TMPDIR="+ts.Getenv("TMPDIR"))
	cmd.Stdin = in
	ts.Check(cmd.Start())
	in.Close()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if left, err := os.ReadDir(ts.Getenv("TMPDIR")); err != nil || len(left) > 0 || time.Now().After(deadline) {
			if len(left) == 0 {
				ts.Logf("no temporary file: %v", err)
			}
			break
		}
	}
	ts.Check(cmd.Process.Signal(syscall.SIGTERM))
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != -1 || exit.String() != "signal: terminated" {
		ts.Fatalf("%v, want it to die by SIGTERM", err)
	}
}
