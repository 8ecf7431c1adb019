// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestExportPipe: a recording may come through a pipe that has a name, as a shell makes of <(...). It is the
// same recording as the file.
func TestExportPipe(t *testing.T) {
	data, err := os.ReadFile("../../testdata/small/rec.data/data")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("file", data, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo("pipe", 0o666); err != nil {
		t.Fatal(err)
	}
	export := func(args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		code = run(append([]string{"export"}, args...), nil, &out, &errs)
		return code, out.String(), errs.String()
	}
	feed := func(content []byte) {
		go func() {
			w, err := os.OpenFile("pipe", os.O_WRONLY, 0)
			if err != nil {
				t.Error(err)
				return
			}
			io.Copy(w, bytes.NewReader(content)) // fails if it is not read to its end
			w.Close()
		}()
	}
	feed(data)
	if code, _, stderr := export("-o", "tables", "pipe"); code != exitAnswered {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	if _, stdout, _ := export("-o", "tables", "file"); !strings.Contains(stdout, "in the tables already") {
		t.Errorf("the file is another recording: %s", stdout)
	}
	feed(data)
	_, fromPipe, _ := export("--table", "recordings", "-o", "-", "pipe")
	if _, fromFile, _ := export("--table", "recordings", "-o", "-", "file"); fromPipe != fromFile || fromFile == "" {
		t.Errorf("%d bytes from the pipe, %d from the file", len(fromPipe), len(fromFile))
	}
	feed([]byte("this is no recording"))
	if code, _, stderr := export("-o", "tables", "pipe"); code != exitInput || !strings.Contains(stderr, "pipe: ") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	if left, _ := filepath.Glob(".textreplay-*"); left != nil {
		t.Error(left)
	}
}
