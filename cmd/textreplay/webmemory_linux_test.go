// Copyright 2026 The textreplay Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/textreplay/textreplay/internal/corpus"
	"github.com/textreplay/textreplay/internal/genperf"
)

// TestWebMemory: the program that serves the pages of a recording with a million changes never
// has 100 MB of memory, with what is mapped of the recording, of the index and of the program
// itself. It takes x86_64/storm if it is there.
func TestWebMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: a short run is one of the race detector, which needs several times the memory")
	}
	rec := filepath.Join(t.TempDir(), "rec.data")
	if dir := os.Getenv(corpus.Env); dir != "" && isThere(filepath.Join(dir, "x86_64/storm/rec.data")) {
		rec = filepath.Join(dir, "x86_64/storm/rec.data")
	} else {
		h := genperf.History{Pokes: 1_000_000, Sites: 70_000}
		if err := h.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	index := filepath.Join(t.TempDir(), "index")
	if out, err := exec.Command("textreplay", "info", "-i", rec, "--index", index).CombinedOutput(); !isThere(index) {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command("textreplay", "web", "-i", rec, "--index", index, "--no-browser")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
	}()
	base, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	base = strings.TrimSuffix(base, "/\n")
	memory := func(key string) (kb int64) {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
		_, after, ok := bytes.Cut(text, []byte(key+":"))
		if err != nil || !ok {
			t.Fatalf("no %s: %v", key, err)
		}
		fmt.Sscan(string(after), &kb)
		return kb
	}
	for _, path := range []string{"/", "/search?q=e", "/", "/map", "/map/tile?zx=3&zy=3&x=2&y=3", "/log", "/log?sort=place", "/log?sort=writer",
		"/log?sort=newest&page=900", "/log?kind=ftrace&sort=writer", "/diff?from=25%25&to=75%25", "/search?q=vfs", "/at?addr=0xffffffff81000000",
		"/search?q=sched_schedstats", "/suggest?q=sched", "/functions", "/functions?sort=name&page=20", "/functions?name=vfs&kind=ftrace", "/?from=25%25&to=75%25"} {
		answer, err := http.Get(base + path)
		for try := 0; err == nil && answer.StatusCode == http.StatusServiceUnavailable && try < 60; try++ {
			answer.Body.Close()
			if answer.Header.Get("Retry-After") == "" {
				t.Fatalf("%s: %s without Retry-After", path, answer.Status)
			}
			time.Sleep(time.Second) // a slow machine is still reading the changes
			answer, err = http.Get(base + path)
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s %v %s", path, answer.Status, err, text)
		}
		most := memory("VmHWM")
		t.Logf("%s: %d bytes; %d kB, %d kB at most until now", path, len(text), memory("VmRSS"), most)
		if most >= 100_000 {
			t.Fatalf("with %s it has had %d kB", path, most)
		}
	}
}
